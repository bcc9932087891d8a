%% SPDX-License-Identifier: Apache-2.0
%% @private The TCP ports on which processes of this machine listen, from `/proc'.
-module(kymo_attach_ports).

-export([listening/0, of_process/2, owner/1, is_here/1]).
-export_type([sockets/0]).

%% By the link in the folder `fd' of a process, such as `socket:[4711]'.
-type sockets() :: #{Link :: string() => inet:port_number()}.

%% The state LISTEN in /proc/net/tcp.
-define(LISTEN, "0A").

%% @doc All listening sockets of this network namespace.
-spec listening() -> sockets().
listening() -> maps:from_list([{"socket:[" ++ Inode ++ "]", Port} || {Port, _, Inode} <- sockets()]).

%% @doc The user id of the process that listens on a port of this network namespace. Every user may see that.
-spec owner(inet:port_number()) -> {ok, non_neg_integer()} | none.
owner(Port) ->
    case lists:keyfind(Port, 1, sockets()) of
        {Port, Uid, _} -> {ok, list_to_integer(Uid)};
        false -> none
    end.

sockets() ->
    [
        Socket
     || File <- ["/proc/self/net/tcp", "/proc/self/net/tcp6"],
        {ok, Text} <- [file:read_file(File)],
        Line <- string:lexemes(binary_to_list(Text), "\n"),
        Socket <- socket(string:lexemes(Line, " "))
    ].

socket([_, Local, _, ?LISTEN, _, _, _, Uid, _, Inode | _]) ->
    [_, Port] = string:split(Local, ":"),
    [{list_to_integer(Port, 16), Uid, Inode}];
socket(_) ->
    [].

%% @doc The ports of a process; none if this user may not look at its descriptors.
-spec of_process(Pid :: string(), sockets()) -> [inet:port_number()].
of_process(Pid, Listening) ->
    Dir = filename:join(["/proc", Pid, "fd"]),
    case file:list_dir(Dir) of
        {ok, Names} ->
            Links = [Link || Name <- Names, {ok, Link} <- [file:read_link(filename:join(Dir, Name))]],
            [maps:get(Link, Listening) || Link <- Links, is_map_key(Link, Listening)];
        {error, _} ->
            []
    end.

%% @doc Whether a host name is one of this machine.
-spec is_here(string()) -> boolean().
is_here(Host) ->
    case inet:getaddrs(Host, inet) of
        {ok, Addresses} ->
            {ok, Interfaces} = inet:getifaddrs(),
            Own = [Address || {_, Options} <- Interfaces, {addr, Address} <- Options],
            lists:any(fun(A) -> element(1, A) =:= 127 orelse lists:member(A, Own) end, Addresses);
        {error, _} ->
            false
    end.
