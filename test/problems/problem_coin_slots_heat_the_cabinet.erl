%% SPDX-License-Identifier: Apache-2.0
%%
%% A process that watches coin slots polls its mailbox with receive ... after 0 instead of
%% waiting for a message, and so uses a processor although a coin comes only twice a second.
-module(problem_coin_slots_heat_the_cabinet).

-export([about/0, start/0, watch/1, buyer/0]).

about() ->
    #{
        title => "The cabinet of a vending machine gets hot although hardly anybody buys",
        source =>
            "Erlang reference manual, receive ... after 0: "
            "https://www.erlang.org/doc/reference_manual/expressions.html#receive; "
            "recon:proc_window(reductions, ...): https://ferd.github.io/recon/recon.html",
        flags => ["+S", "2:2"],
        truth =>
            "coin_watch polls its mailbox in watch/1 by receive with after 0 in a tight loop, and uses a "
            "whole processor, with two coins in a second",
        who => ["coin_watch", "problem_coin_slots_heat_the_cabinet:watch/1"],
        what => [
            "\\bpoll",
            "busy.?(loop|wait)",
            "\\bspin",
            "after 0",
            "tight loop",
            "endless loop",
            "never (waits|sleeps|blocks|rests)",
            "without (waiting|a pause|sleeping)",
            "ran instead",
            "\\brunning\\b",
            "cpu.?(bound|hog|time|use|burn)",
            "(uses|occupies|takes|keeps|burns|hogs|computes|runs).{0,30}(scheduler|processor|cpu|core)"
        ]
    }.

start() ->
    true = register(coin_watch, spawn(?MODULE, watch, [#{}])),
    _ = spawn(?MODULE, buyer, []),
    ok.

%% Is there a coin? Is there a coin? Is there a coin?
watch(Coins) ->
    receive
        {coin, Slot, Value} ->
            watch(maps:update_with(Slot, fun(V) -> V + Value end, Value, Coins))
    after 0 -> watch(Coins)
    end.

buyer() ->
    coin_watch ! {coin, rand:uniform(8), 50},
    timer:sleep(500),
    buyer().
