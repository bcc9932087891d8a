%% SPDX-License-Identifier: Apache-2.0
%%
%% The list of the best players is kept for 600 ms. When it has run out, each of 30 visitors misses it and works out
%% the same list again, all at the same time.
-module(problem_chess_ratings_spike_every_second).

-export([about/0, start/0, visitor/0]).

about() ->
    #{
        title => "The page of chess ratings is fast, then each second for half a second everybody waits",
        source =>
            "Cachex, Introduce the notion of synchronized fallbacks: without it each caller runs the fallback "
            "(https://github.com/whitfin/cachex/pull/155, https://github.com/whitfin/cachex/issues/185); the cache "
            "stampede or dog-pile",
        flags => ["+S", "2:2"],
        truth =>
            "Whenever the entry of the table rating_shelf has expired, 30 processes run best_players/0 at once, about "
            "40 ms of processor each for the same result, and keep both schedulers busy",
        who => ["rating_shelf", "problem_chess_ratings_spike_every_second:(best_players/0|score/2|visitor/0|ratings/0|'?-best_players)"],
        what => [
            "stampede", "dog.?pile", "thundering", "herd", "cache (miss|expir|refill)", "expir",
            "(same|identical) (\\S+ )?(value|result|work|list|function|comput|calculation)", "recomput", "recalculat",
            "run.?queue", "(at|all) (once|the same time)", "burst", "computes?", "computing", "calculat",
            "processor time", "cpu", "executes? (code|erlang|beam)"
        ]
    }.

start() ->
    Self = self(),
    Owner = spawn(fun() ->
        _ = ets:new(rating_shelf, [named_table, public, {read_concurrency, true}]),
        Self ! {self(), ready},
        timer:sleep(infinity)
    end),
    receive
        {Owner, ready} -> ok
    end,
    lists:foreach(fun(_) -> spawn(fun visitor/0) end, lists:seq(1, 30)).

visitor() ->
    _ = ratings(),
    timer:sleep(10),
    visitor().

ratings() ->
    Now = erlang:monotonic_time(millisecond),
    case ets:lookup(rating_shelf, best) of
        [{best, Until, List}] when Until > Now ->
            List;
        _ ->
            List = best_players(),
            Until = erlang:monotonic_time(millisecond) + 600,
            true = ets:insert(rating_shelf, {best, Until, List}),
            List
    end.

best_players() ->
    Scores = [{score(P, 40), P} || P <- lists:seq(1, 12000)],
    lists:sublist(lists:reverse(lists:sort(Scores)), 20).

score(P, 0) -> P;
score(P, N) -> score((P * 1103515245 + 12345 + N) band 16#7fffffff, N - 1).
