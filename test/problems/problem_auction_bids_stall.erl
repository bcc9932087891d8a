%% SPDX-License-Identifier: Apache-2.0
%%
%% A transaction takes the write lock of a whole table, and does something slow before it
%% commits. Bids for any other lot have to wait for its end.
-module(problem_auction_bids_stall).

-export([about/0, start/0, clerk/0, bidder/1]).

about() ->
    #{
        title => "A bid takes seconds, whichever lot it is for",
        source =>
            "Mnesia User's Guide, chapter Transactions and Other Access Contexts, Locking, "
            "write_lock_table (erlang.org/docs/28/apps/mnesia/mnesia_chap4)",
        flags => ["+S", "2:2"],
        truth =>
            "closing_clerk takes the write lock of the table lots with mnesia:write_lock_table/1 and "
            "sleeps 800 ms in its transaction; the bidders wait for locks of lots",
        who => [
            "closing_clerk",
            "\\blots\\b",
            "problem_auction_bids_stall:(clerk|close_lots)/0"
        ],
        what => [
            "\\block(s|ed|ing|er)?\\b",
            "write_lock",
            "mnesia_locker",
            "transaction",
            "contention"
        ]
    }.

start() ->
    ok = mnesia:start(),
    {atomic, ok} = mnesia:create_table(lots, [{ram_copies, [node()]}, {attributes, [id, price]}]),
    ok = mnesia:wait_for_tables([lots], 5000),
    ok = lists:foreach(fun(N) -> mnesia:dirty_write({lots, N, 1}) end, lists:seq(1, 100)),
    true = register(closing_clerk, spawn(?MODULE, clerk, [])),
    _ = [spawn(?MODULE, bidder, [N]) || N <- lists:seq(1, 10)],
    ok.

%% The clerk looks all the time which lots have come to their end.
clerk() ->
    {atomic, ok} = mnesia:transaction(fun close_lots/0),
    timer:sleep(20),
    clerk().

close_lots() ->
    _ = mnesia:write_lock_table(lots),
    %% A letter to the seller.
    timer:sleep(800),
    [{lots, 1, Price}] = mnesia:read(lots, 1),
    mnesia:write({lots, 1, Price}).

bidder(N) ->
    {atomic, ok} = mnesia:transaction(fun() -> bid(N, 5) end),
    timer:sleep(10),
    bidder(N).

bid(N, More) ->
    [{lots, N, Price}] = mnesia:wread({lots, N}),
    mnesia:write({lots, N, Price + More}).
