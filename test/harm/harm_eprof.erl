%% SPDX-License-Identifier: Apache-2.0
-module(harm_eprof).
-export([about/0, setup/0, truth/1, during/1, work/1]).

about() ->
    #{source => "https://www.erlang.org/doc/apps/tools/eprof", tool => [{attach, ["--functions", "harm_eprof:_/_"]}],
      refusal => "already trace|other tracer",
      condition => "eprof profiles the process and the module that kymo traces"}.

setup() ->
    Worker = spawn_link(fun loop/0),
    eprof:start(),
    profiling = eprof:start_profiling([Worker], {?MODULE, '_', '_'}),
    Worker.

loop() ->
    receive {work, From} -> ?MODULE:work(1000), From ! worked end,
    loop().

run(Worker) ->
    Worker ! {work, self()},
    receive worked -> ok end.

during(Worker) -> run(Worker).

work(0) -> ok;
work(N) -> work(N - 1).

%% The runtime counts for eprof.
truth(Worker) ->
    run(Worker),
    {call_time, Of} = erlang:trace_info({?MODULE, work, 1}, call_time),
    Calls = lists:sum([N || {P, N, _, _} <- Of, P =:= Worker]),
    [{whole_rounds, Calls rem 1001 =:= 0 andalso Calls > 0}, {info_calls, Calls},
     {strangers, [P || {P, _, _, _} <- Of, P =/= Worker]}, {flags, erlang:trace_info(Worker, flags)}].
