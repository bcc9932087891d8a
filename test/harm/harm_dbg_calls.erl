%% SPDX-License-Identifier: Apache-2.0
-module(harm_dbg_calls).
-export([about/0, setup/0, truth/1, during/1]).

about() ->
    #{source => "https://www.erlang.org/doc/apps/runtime_tools/dbg_guide", tool => [{attach, ["--functions", "lists:_/_"]}],
      refusal => "already trace|other tracer",
      condition => "dbg traces calls and returns of lists:seq/2, kymo all functions of lists"}.

setup() ->
    Tracer = harm:tracer(),
    {ok, _} = dbg:tracer(process, {fun(Event, T) -> T ! Event, T end, Tracer}),
    {ok, _} = dbg:p(self(), [call]),
    {ok, _} = dbg:tpl(lists, seq, 2, [{'_', [], [{return_trace}]}]),
    Tracer.

during(_) -> call().

call() -> [lists:seq(1, N) || N <- lists:seq(1, 100)].

%% 101 calls and as many returns for each time that call/0 ran, and nothing else.
truth(Tracer) ->
    call(),
    receive after 200 -> ok end,
    Events = harm:traced(Tracer),
    [{whole_rounds, length(Events) rem 202 =:= 0}, {info_events, length(Events)},
     {kinds, lists:usort([{element(3, E), case element(4, E) of {M, F, _} -> {M, F} end} || E <- Events])}].
