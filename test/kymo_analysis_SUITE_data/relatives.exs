# SPDX-License-Identifier: Apache-2.0
# Records a task under a supervisor, an agent and this process, and prints their pids.
defmodule Demo.Work do
  def run(parent) do
    send(parent, :running)

    receive do
      :stop -> :ok
    end
  end
end

defmodule Demo.Orders do
  use GenServer

  def init(_), do: {:ok, nil}

  def handle_info(:ignored, state), do: {:noreply, state}

  def handle_call(:start, _, _) do
    task = Task.Supervisor.async(Demo.Tasks, Demo.Work, :run, [self()])

    receive do
      :running -> {:reply, task.pid, nil}
    end
  end
end

{:ok, _} = Task.Supervisor.start_link(name: Demo.Tasks)
{:ok, orders} = GenServer.start_link(Demo.Orders, nil)
{:ok, agent} = Agent.start_link(fn -> 0 end)
task = GenServer.call(orders, :start)
{:ok, recorder} = :kymo.start(%{dir: hd(System.argv()), owner: :none})
{:ok, _} = :kymo.trace(recorder, %{events: [:messages]})
0 = Agent.get(agent, & &1)
send(orders, :ignored)
send(task, :ignored)
{:ok, _} = :kymo.stop(recorder)
[self(), orders, agent, task] |> Enum.map_join(" ", &:erlang.pid_to_list/1) |> IO.puts()
