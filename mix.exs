# SPDX-License-Identifier: Apache-2.0
#
# For projects that build with mix: without it, mix would need rebar3 to compile kymo.
# Name, version and modules are those of src/kymo.app.src.

# The documentation for `h :kymo` in iex. Without edoc there is none.
defmodule Mix.Tasks.Compile.KymoDocs do
  @moduledoc false
  use Mix.Task.Compiler

  @impl true
  def run(_) do
    sources = Path.wildcard("src/*.erl")
    doc = Path.join(Mix.Project.app_path(), "doc")
    made = Path.join([doc, "chunks", "kymo.chunk"])

    if Mix.Utils.stale?(sources, [made]) and :code.which(:edoc) != :non_existing do
      options = [doclet: :edoc_doclet_chunks, layout: :edoc_layout_chunks, preprocess: true]
      :edoc.files(Enum.map(sources, &to_charlist/1), [{:dir, to_charlist(doc)} | options])
    end

    {:ok, []}
  end

  @impl true
  def clean, do: File.rm_rf!(Path.join(Mix.Project.app_path(), "doc"))
end

defmodule Mix.Tasks.Compile.KymoNative do
  @moduledoc false
  use Mix.Task.Compiler

  @impl true
  def run(_), do: make("all")

  @impl true
  def clean, do: make("clean")

  # The runtime that compiles is the one whose headers are used.
  defp make(target) do
    erl = Path.join([to_string(:code.root_dir()), "bin", "erl"])

    case System.cmd("make", ["-sC", "c_src", "-j2", target, "ERL=" <> erl], into: IO.stream()) do
      {_, 0} -> {:ok, []}
      {_, status} -> Mix.raise("make -C c_src #{target} failed with status #{status}")
    end
  end
end

defmodule Kymo.MixProject do
  use Mix.Project

  def project do
    [
      app: :kymo,
      version: to_string(app(:vsn)),
      description: to_string(app(:description)),
      language: :erlang,
      compilers: [:kymo_native, :erlang, :app, :kymo_docs],
      erlc_options: [:debug_info, :nowarn_behaviours],
      deps: []
    ]
  end

  def application do
    [mod: app(:mod), registered: app(:registered), applications: app(:applications)]
  end

  defp app(key) do
    {:ok, [{:application, :kymo, properties}]} = :file.consult(~c"src/kymo.app.src")
    Keyword.fetch!(properties, key)
  end
end
