%% SPDX-License-Identifier: Apache-2.0
-module(harm_labels).
-export([about/0, setup/0, truth/1]).

about() ->
    #{source => "https://github.com/erlang/otp/pull/7707",
      condition => "what tools look up in processes is huge or malformed: labels, $ancestors, $callers, $initial_call, dictionaries"}.

setup() ->
    Big = lists:seq(1, 2000000),
    Terms = [Big, [a | b], <<0:80000000>>, {x, Big}, fun() -> Big end, lists:foldl(fun(_, T) -> {T} end, x, lists:seq(1, 500000)), #{Big => Big}, "\e[2J"],
    Pids = [spawn_link(fun() -> put(Key, T), receive stop -> ok end end) ||
        T <- Terms, Key <- ['$process_label', '$ancestors', '$callers', '$initial_call']],
    Memory = erlang:memory(total),
    Peak = counters:new(1, []),
    spawn_link(fun() -> process_flag(priority, high), peak(Memory, Peak) end),
    {Pids, Peak, harm:pinger([harm:counter([]) || _ <- lists:seq(1, 10)])}.

peak(Memory, Peak) ->
    counters:put(Peak, 1, max(counters:get(Peak, 1), erlang:memory(total) - Memory)),
    receive after 20 -> peak(Memory, Peak) end.

truth({Pids, Peak, Pinger}) ->
    Mb = counters:get(Peak, 1) div 1000000,
    [{alive, length([P || P <- Pids, is_process_alive(P)])}, {more_than_500_mb, Mb > 500}, {info_peak_mb, Mb} | harm:pings(Pinger)].
