%% SPDX-License-Identifier: Apache-2.0
-module(harm_fprof).
-export([about/0, setup/0, truth/1, during/1, work/1]).

about() ->
    #{source => "https://www.erlang.org/doc/apps/tools/fprof_chapter", tool => [{attach, ["--functions", "harm_fprof:_/_"]}],
      refusal => "already trace|other tracer", ignore => [traced],
      condition => "fprof traces a process with all its calls and garbage collections into a file"}.

setup() ->
    Worker = spawn_link(fun loop/0),
    File = os:getenv("HARM_DIR") ++ "/fprof.trace",
    ok = fprof:trace([start, {file, File}, {procs, [Worker]}]),
    {Worker, File}.

loop() ->
    receive {work, From} -> ?MODULE:work(1000), From ! worked end,
    loop().

run(Worker) ->
    Worker ! {work, self()},
    receive worked -> ok end.

during({Worker, _}) -> run(Worker).

work(0) -> ok;
work(N) -> work(N - 1).

%% fprof still traces: each round makes the file grow; and nobody else's events are in it.
truth({Worker, File}) ->
    Size = filelib:file_size(File),
    run(Worker),
    Grows = harm:within(5000, fun() -> grown(File, Size) end),
    [{grows, Grows}, {traces, lists:member({flags, [arity]}, [erlang:trace_info(Worker, flags)]) orelse traced(Worker)}].

traced(Worker) ->
    case erlang:function_exported(trace, session_info, 1) of
        true -> true; % in a session of its own
        false -> erlang:trace_info(Worker, flags) =/= {flags, []}
    end.

grown(File, Size) ->
    case filelib:file_size(File) > Size of
        true -> true;
        false ->
            receive after 100 -> grown(File, Size) end
    end.
