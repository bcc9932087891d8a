# SPDX-License-Identifier: Apache-2.0
#
# An application of Elixir, for kymo_subjects_SUITE: tasks order from a GenServer, which
# looks prices up in another one and counts in an Agent. The price of one item takes long.
defmodule Shop.Prices do
  use GenServer

  def start_link(slow), do: GenServer.start_link(__MODULE__, slow, name: __MODULE__)
  def price(item), do: GenServer.call(__MODULE__, {:price, item}, :infinity)

  @impl true
  def init(slow), do: {:ok, slow}

  @impl true
  def handle_call({:price, item}, _from, {slow, ms} = state) do
    now = System.monotonic_time(:millisecond)
    {:reply, compute(item, if(item == slow, do: now + ms, else: now)), state}
  end

  defp compute(item, deadline) do
    price = :erlang.phash2(item, 1000)
    if System.monotonic_time(:millisecond) < deadline, do: compute(item, deadline), else: price
  end
end

defmodule Shop.Orders do
  use GenServer

  def start_link(_), do: GenServer.start_link(__MODULE__, nil, name: __MODULE__)
  def order(item), do: GenServer.call(__MODULE__, {:order, item}, :infinity)

  @impl true
  def init(nil), do: {:ok, nil}

  @impl true
  def handle_call({:order, item}, _from, state) do
    price = Shop.Prices.price(item)
    Agent.update(Shop.Sales, &(&1 + price), :infinity)
    {:reply, price, state}
  end
end

defmodule Shop do
  # Starts the application; the price of the item `slow` takes `ms` milliseconds.
  def start(slow, ms) do
    children = [
      %{id: Shop.Sales, start: {Agent, :start_link, [fn -> 0 end, [name: Shop.Sales]]}},
      {Shop.Prices, {slow, ms}},
      Shop.Orders
    ]

    {:ok, pid} = Supervisor.start_link(children, strategy: :one_for_one, name: Shop.Supervisor)
    Process.unlink(pid)
    :ok
  end

  def stop(), do: Supervisor.stop(Shop.Supervisor)

  # Orders each item once, `clients` at a time; the nanoseconds that the slowest took.
  def order(items, clients) do
    items
    |> Task.async_stream(&timed/1, max_concurrency: clients, timeout: :infinity)
    |> Enum.map(fn {:ok, ns} -> ns end)
    |> Enum.max()
  end

  defp timed(item) do
    start = System.monotonic_time(:nanosecond)
    Shop.Orders.order(item)
    System.monotonic_time(:nanosecond) - start
  end
end
