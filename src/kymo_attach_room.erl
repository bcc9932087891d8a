%% SPDX-License-Identifier: Apache-2.0
%% @private Checks that the tables of a node have room for what a recorder needs ({@link kymo_room}), before
%% anything is sent. The requests name only atoms that each runtime has from the start.
-module(kymo_attach_room).

-export([check/2]).

-spec check(node(), kymo_attach_link:wait()) -> ok | {error, kymo_room:error() | kymo_attach_link:error()}.
check(Node, Wait) -> check_all(Node, kymo_room:tables(), Wait).

check_all(_, [], _) ->
    ok;
check_all(Node, [{Table, Count, Limit} | Tables], Wait) ->
    case check(Node, Table, Count, Limit, Wait) of
        ok -> check_all(Node, Tables, Wait);
        {error, _} = Error -> Error
    end.

check(Node, Table, Count, Limit, Wait) ->
    case {kymo_attach_link:ask(Node, system_info, [Count], Wait), kymo_attach_link:ask(Node, system_info, [Limit], Wait)} of
        {{ok, Used}, {ok, Most}} when is_integer(Used), is_integer(Most), Used >= 0 ->
            kymo_room:check(Table, Used, Most);
        {{ok, _}, {ok, _}} ->
            {error, {bad_node, {answer, Limit}}};
        {{error, _} = Error, _} ->
            Error;
        {_, {error, _} = Error} ->
            Error
    end.
