%% SPDX-License-Identifier: Apache-2.0
-module(harm_dbg_gc).
-export([about/0, setup/0, truth/1, during/1]).

about() ->
    #{source => "https://github.com/erlang/otp/issues/11624", refusal => "already trace|garbage_collection",
      condition => "dbg traces the garbage collections of a process that collects 100 times while recorded"}.

setup() ->
    Tracer = harm:tracer(),
    {ok, _} = dbg:tracer(process, {fun(Event, T) -> T ! Event, T end, Tracer}),
    Worker = spawn_link(fun work/0),
    {ok, _} = dbg:p(Worker, [garbage_collection]),
    collect(Worker),
    {Tracer, Worker}.

work() ->
    receive
        {collect, From} ->
            [erlang:garbage_collect() || _ <- lists:seq(1, 100)],
            From ! collected
    end,
    work().

collect(Worker) ->
    Worker ! {collect, self()},
    receive collected -> ok end.

during({_, Worker}) -> collect(Worker).

%% Each hundred collections are a hundred pairs of messages for dbg.
truth({Tracer, Worker}) ->
    collect(Worker),
    receive after 200 -> ok end,
    Events = [E || {trace, _, Kind, _} = E <- harm:traced(Tracer), Kind =:= gc_major_start orelse Kind =:= gc_major_end],
    [{whole_hundreds, length(Events) rem 200 =:= 0}, {info_events, length(Events)},
     {keys, lists:usort([lists:sort([K || {K, _} <- Info]) || {trace, _, _, Info} <- Events])}].
