%% SPDX-License-Identifier: Apache-2.0
%%
%% The auctioneer publishes the catalogue with persistent_term:put/2 many times a second. Each
%% bidder still holds the previous catalogue, so each has to be scanned and collected.
-module(problem_auction_bids_stutter).

-export([about/0, start/0, auctioneer/1, bidder/1]).

about() ->
    #{
        title => "Whenever the auction's catalogue changes, all bids of the hall stutter",
        source =>
            "https://github.com/electric-sql/electric/issues/3292 (Inappropriate use of persistent_term "
            "may be affecting the entire VM), https://github.com/erlang/otp/pull/1989",
        flags => ["+S", "2:2"],
        truth =>
            "auctioneer calls persistent_term:put/2 ten times a second, each of which makes all of 1000 "
            "bidders scan and collect their heaps and copy the old catalogue",
        who => [
            "auctioneer",
            "problem_auction_bids_stutter:(auctioneer/1|publish/1)",
            "problem_auction_bids_stutter:bidder/1"
        ],
        what => [
            "persistent.?term",
            "global (gc|garbage|collection)",
            "garbage.?collect",
            "collect[a-z]* garbage",
            "\\bgc\\b",
            "heap.?scan",
            "scan.{0,30}(heap|process)",
            "literal"
        ]
    }.

start() ->
    publish(0),
    lists:foreach(fun(_) -> spawn(?MODULE, bidder, [none]) end, lists:seq(1, 1000)),
    true = register(auctioneer, spawn(?MODULE, auctioneer, [1])),
    ok.

auctioneer(N) ->
    publish(N),
    timer:sleep(100),
    auctioneer(N + 1).

%% The whole catalogue is replaced although one price has changed.
publish(N) ->
    Lots = maps:from_list([{{lot, I}, {I + N, "estimate"}} || I <- lists:seq(1, 500)]),
    persistent_term:put({auction, catalogue}, Lots).

%% A bidder looks at the catalogue from time to time and keeps the one it saw.
bidder(_) ->
    Catalogue = persistent_term:get({auction, catalogue}),
    _ = maps:get({lot, rand:uniform(500)}, Catalogue),
    receive
        closed -> Catalogue
    after 150 + rand:uniform(100) -> bidder(Catalogue)
    end.
