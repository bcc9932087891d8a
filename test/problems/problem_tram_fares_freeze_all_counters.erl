%% SPDX-License-Identifier: Apache-2.0
%%
%% The fares are kept as a persistent term, and are replaced 50 times a second with a new map. For each time the
%% runtime looks through the heaps of all 8000 passengers for the old one.
-module(problem_tram_fares_freeze_all_counters).

-export([about/0, start/0, tariff/1, passenger/1, counter/1]).

about() ->
    #{
        title => "Since the fares change with the weather, the tram counters use a processor while nobody travels",
        source =>
            "Electric, Inappropriate use of persistent_term may be affecting the entire VM "
            "(https://github.com/electric-sql/electric/issues/3292); Logflare, the replacement each second schedules "
            "process-wide scans through erts_literal_area_collector (https://github.com/Logflare/logflare/pull/3803)",
        flags => ["+S", "2:2"],
        truth =>
            "The process registered as tariff_board replaces a map in persistent_term 50 times per second in "
            "tariff/1, and each persistent_term:put/2 has all 8000 processes scan their heaps for the old term",
        who => [
            "tariff_board", "persistent_term", "literal_area_collector", "literal.?area", "tram_fares",
            "problem_tram_fares_freeze_all_counters:tariff/1"
        ],
        what => [
            "persistent.?term", "global (gc|garbage)", "literal", "(scan|garbage.?collect|walk|visit)\\S* (\\S+ ){0,3}(all|every|each) (\\S+ )?(process|heap)",
            "(all|every|each|many|thousands of) process\\S* (\\S+ )?(scan|garbage|collect|checked|visited)", "garbage", "\\bgc\\b", "major collection", "full.?sweep"
        ]
    }.

start() ->
    ok = persistent_term:put(tram_fares, fares(0)),
    lists:foreach(fun(N) -> spawn(?MODULE, passenger, [N]) end, lists:seq(1, 8000)),
    register(tariff_board, spawn(?MODULE, tariff, [1])),
    lists:foreach(fun(N) -> spawn(?MODULE, counter, [N]) end, lists:seq(1, 4)).

tariff(N) ->
    ok = persistent_term:put(tram_fares, fares(N)),
    timer:sleep(20),
    tariff(N + 1).

fares(N) -> maps:from_list([{{zone, Z}, {N, Z * 3}} || Z <- lists:seq(1, 200)]).

%% A passenger has a ticket in the pocket, and sleeps.
passenger(N) ->
    Ticket = [{N, Z, make_ref()} || Z <- lists:seq(1, 40)],
    receive
        {inspect, From} -> From ! Ticket
    end.

%% A counter sells a ticket each 10 ms.
counter(Z) ->
    #{{zone, Z} := {_, Price}} = persistent_term:get(tram_fares),
    timer:sleep(10 + Price * 0),
    counter(Z).
