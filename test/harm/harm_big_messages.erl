%% SPDX-License-Identifier: Apache-2.0
-module(harm_big_messages).
-export([about/0, setup/0, truth/1]).

about() ->
    #{source => "https://github.com/rabbitmq/gen-batch-server/pull/27",
      condition => "processes send each other terms of 2 MB, and terms with parts that are shared"}.

setup() ->
    Count = counters:new(1, []),
    Term = lists:seq(1, 100000),
    Shared = lists:foldl(fun(_, T) -> {T, T} end, {x}, lists:seq(1, 16)),
    [spawn_link(fun() -> bounce(T, Count) end) || T <- [Term, Shared]],
    Slow = counters:new(1, []),
    put(base, rate(Count)),
    spawn_link(fun() -> watch(Count, Slow) end),
    {Count, Slow, harm:pinger([harm:counter([]) || _ <- lists:seq(1, 10)])}.

bounce(Term, Count) ->
    Echo = spawn_link(fun() -> echo() end),
    bounce(Term, Count, Echo).

bounce(Term, Count, Echo) ->
    Echo ! {self(), Term},
    receive {Echo, Back} -> counters:add(Count, 1, 1), bounce(Back, Count, Echo) end.

echo() ->
    receive {From, Term} -> From ! {self(), Term} end,
    echo().

rate(Count) ->
    N = counters:get(Count, 1),
    receive after 1000 -> counters:get(Count, 1) - N end.

%% Seconds in which nothing came back.
watch(Count, Slow) ->
    case rate(Count) of
        0 -> counters:add(Slow, 1, 1);
        _ -> ok
    end,
    watch(Count, Slow).

truth({Count, Slow, Pinger}) ->
    Rate = rate(Count),
    [{seconds_without, counters:get(Slow, 1)}, {info_rate, Rate}, {a_fifth, Rate * 5 < get(base)} | harm:pings(Pinger)].
