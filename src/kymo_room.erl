%% SPDX-License-Identifier: Apache-2.0
%% @private What must be free in the tables of a node before kymo is loaded into it.
%%
%% A node that runs out of atoms ends. One that runs out of processes fails in its own work: its code server
%% ends if it cannot start the process that loads a library, and with it the node.
-module(kymo_room).

-export([needed/1, tables/0, check/0, check/3, format/3]).
-export_type([table/0, error/0]).

-type table() :: atoms | processes | ports.

-type error() :: {no_room, table(), Used :: non_neg_integer(), Limit :: non_neg_integer()}.

%% @doc What must be free in a table. Loading kymo, and the modules of OTP that it needs, makes about
%% 1,450 atoms in a node that has loaded nothing else; a recorder has up to ten processes. Its only
%% port is that of the connection. The rest is left to the node. `kymo_attach_limits_SUITE' measures this.
%%
%% ETS tables are not among them: the runtime makes more of them than its limit says.
-spec needed(table()) -> pos_integer().
needed(atoms) -> 4000;
needed(processes) -> 64;
needed(ports) -> 16.

%% @doc The tables, and the items of `erlang:system_info/1' that count and limit what is in them.
-spec tables() -> [{table(), Count :: atom(), Limit :: atom()}].
tables() -> [{atoms, atom_count, atom_limit}, {processes, process_count, process_limit}, {ports, port_count, port_limit}].

%% @doc Whether this node has room.
-spec check() -> ok | {error, error()}.
check() -> check_all(tables()).

check_all([]) ->
    ok;
check_all([{Table, Count, Limit} | Tables]) ->
    case check(Table, erlang:system_info(Count), erlang:system_info(Limit)) of
        ok -> check_all(Tables);
        {error, _} = Error -> Error
    end.

%% @doc Whether a table with this use and limit has room.
-spec check(table(), non_neg_integer(), integer()) -> ok | {error, error()}.
check(Table, Used, Limit) ->
    case Limit - Used >= needed(Table) of
        true -> ok;
        false -> {error, {no_room, Table, Used, Limit}}
    end.

-spec format(table(), non_neg_integer(), integer()) -> iolist().
format(Table, Used, Limit) ->
    io_lib:format("the ~ts limit of the node is nearly reached: it has ~b of ~b ~ts, and kymo needs room for ~b: ~ts", [
        one_of(Table), Used, Limit, Table, needed(Table), remedy(Table)
    ]).

one_of(atoms) -> "atom";
one_of(processes) -> "process";
one_of(ports) -> "port".

remedy(atoms) -> "restart it, with a higher limit (+t) if it fills up again; a node that runs out of atoms ends";
remedy(processes) -> "end some of them, or restart it with a higher limit (+P)";
remedy(ports) -> "close some of them, or restart it with a higher limit (+Q)".
