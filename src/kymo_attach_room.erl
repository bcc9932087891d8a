%% SPDX-License-Identifier: Apache-2.0
%% @private Checks that the tables of a node have room for what a recorder needs, before anything is
%% sent.
%%
%% A node that runs out of atoms ends, and one that runs out of processes or ports fails in its own
%% work. The requests name only atoms that each runtime has from the start.
-module(kymo_attach_room).

-export([check/2, needed/1]).
-export_type([table/0]).

-type table() :: atoms | processes | ports.

%% @doc What must be free in a table. Loading kymo, and the modules of OTP that it needs, makes about
%% 1,450 atoms in a node that has loaded nothing else; a recorder has up to ten processes. Its only
%% port is that of the connection. The rest is left to the node. `kymo_attach_limits_SUITE' measures this.
%%
%% ETS tables are not among them: the runtime makes more of them than its limit says.
-spec needed(table()) -> pos_integer().
needed(atoms) -> 4000;
needed(processes) -> 64;
needed(ports) -> 16.

-spec check(node(), kymo_attach_link:wait()) ->
    ok | {error, {no_room, table(), Used :: non_neg_integer(), Limit :: non_neg_integer()} | kymo_attach_link:error()}.
check(Node, Wait) ->
    check_all(Node, [{atoms, atom_count, atom_limit}, {processes, process_count, process_limit}, {ports, port_count, port_limit}], Wait).

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
            case Most - Used >= needed(Table) of
                true -> ok;
                false -> {error, {no_room, Table, Used, Most}}
            end;
        {{ok, _}, {ok, _}} ->
            {error, {bad_node, {answer, Limit}}};
        {{error, _} = Error, _} ->
            Error;
        {_, {error, _} = Error} ->
            Error
    end.
