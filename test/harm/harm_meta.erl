%% SPDX-License-Identifier: Apache-2.0
-module(harm_meta).
-export([about/0, setup/0, truth/1, during/1, work/2]).

about() ->
    #{source => "https://github.com/massemanet/redbug", tool => [{attach, ["--functions", "harm_meta:_/_"]}],
      condition => "another tool meta traces a function that kymo traces, too"}.

setup() ->
    Tracer = harm:tracer(),
    1 = erlang:trace_pattern({?MODULE, work, 2}, [{[1, '_'], [], []}], [{meta, Tracer}]),
    Tracer.

during(_) -> call().

call() -> [?MODULE:work(1, N) || N <- lists:seq(1, 100)].

work(One, N) -> One + N.

truth(Tracer) ->
    call(),
    receive after 200 -> ok end,
    Events = harm:traced(Tracer),
    [{whole_hundreds, length(Events) rem 100 =:= 0}, {info_events, length(Events)},
     {meta, [erlang:trace_info({?MODULE, work, 2}, K) || K <- [meta, meta_match_spec]] =:=
         [{meta, Tracer}, {meta_match_spec, [{[1, '_'], [], []}]}]}].
