%% SPDX-License-Identifier: Apache-2.0
%%
%% A process has many messages in its mailbox that no clause ever takes, and looks for
%% the one that it wants behind all of them, for each round.
-module(problem_casino_results_trickle).

-export([about/0, start/0, table/0, croupier/1]).

about() ->
    #{
        title => "One process needs a whole processor for a few rounds a second",
        source =>
            "Fred Hebert, Learn You Some Erlang, More On Multiprocessing, Selective Receives; "
            "Erlang/OTP issue github.com/erlang/otp/pull/6199 (selective receive in gen_event)",
        flags => ["+S", "2:2"],
        truth =>
            "roulette_table does a selective receive for {result, N, _} behind about 150000 messages "
            "of its mailbox that it never takes, so each receive scans the whole message queue",
        who => [
            "roulette_table",
            "problem_casino_results_trickle:(table|play|await_result)/\\d"
        ],
        what => [
            "selective",
            "mail ?box",
            "message queue",
            "queue of (its )?messages",
            "messages? (that )?(wait|are waiting|never|not|queued|unread)",
            "queued messages",
            "unread messages",
            "scan(s|ning)?",
            "receive (looks|searches|walks|passes)",
            "unmatched"
        ]
    }.

start() ->
    Table = spawn(?MODULE, table, []),
    true = register(roulette_table, Table),
    %% Gossip from the floor that no one reads.
    _ = [Table ! {camera, I, motion} || I <- lists:seq(1, 150000)],
    Table ! open,
    ok.

table() ->
    receive
        open -> ok
    end,
    Croupier = spawn(?MODULE, croupier, [self()]),
    play(Croupier, 1).

play(Croupier, N) ->
    Croupier ! {spin, N},
    _ = await_result(N),
    play(Croupier, N + 1).

%% The messages of the cameras lie before the result.
await_result(N) ->
    receive
        {result, N, Number} -> Number
    end.

croupier(Table) ->
    receive
        {spin, N} ->
            Table ! {result, N, rand:uniform(37) - 1},
            croupier(Table)
    end.
