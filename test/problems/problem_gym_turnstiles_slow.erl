%% SPDX-License-Identifier: Apache-2.0
%%
%% The table of the members has their number as its key. The turnstile knows only the
%% card, so it compares all members for each person who enters.
-module(problem_gym_turnstiles_slow).

-export([about/0, start/0, turnstile/1]).

about() ->
    #{
        title => "A turnstile needs many milliseconds for a card, more with each new member",
        source =>
            "Erlang/OTP Efficiency Guide, Tables and Databases: select and match without a bound "
            "key search the whole table (erlang.org/doc/efficiency_guide/tablesdatabases)",
        flags => ["+S", "2:2"],
        truth =>
            "who_has/1 does ets:match_object/2 on the table members with an unbound key, which scans "
            "all 120000 objects for each card; two turnstiles keep the processors busy with it",
        who => [
            "\\bmembers\\b",
            "problem_gym_turnstiles_slow:(who_has|turnstile)/1",
            "ets:match_object"
        ],
        what => [
            "match_object",
            "\\bscan(s|ning|ned)?\\b",
            "(whole|entire|full|all of the) (ets )?table",
            "ets:(match|select)",
            "unbound",
            "(not|without|no) (by )?(a |the )?(bound )?key",
            "travers",
            "all (the )?(rows|objects|entries)",
            "index"
        ]
    }.

start() ->
    Owner = self(),
    Desk = spawn(fun() ->
        _ = ets:new(members, [named_table, public, set, {read_concurrency, true}]),
        true = ets:insert(members, [{N, card(N), active} || N <- lists:seq(1, 120000)]),
        Owner ! {self(), enrolled},
        receive
            close -> ok
        end
    end),
    receive
        {Desk, enrolled} -> ok
    end,
    _ = [spawn(?MODULE, turnstile, [Side]) || Side <- [left, right]],
    ok.

%% The number on the card of a member.
card(N) ->
    (N * 7919) rem 1000003.

turnstile(Side) ->
    N = rand:uniform(120000),
    true = lists:keymember(N, 1, who_has(card(N))),
    %% The bar turns.
    timer:sleep(3),
    turnstile(Side).

who_has(Card) ->
    ets:match_object(members, {'_', Card, active}).
