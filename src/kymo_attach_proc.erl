%% SPDX-License-Identifier: Apache-2.0
%% @private Finds the nodes of this machine in `/proc', and their cookies.
-module(kymo_attach_proc).

-export([nodes/1, registered/0, find/3, cookie/1, own_cookie/0, read_cookie/1, find_cookie/1, user/1, own_uid/0]).
-export_type([found/0]).

-include_lib("kernel/include/file.hrl").

-type found() :: #{
    pid := string(),
    uid := non_neg_integer(),
    %% As on the command line, with or without a host, or as registered with epmd, without a
    %% host; `none' if the node is not distributed.
    name := string() | none,
    kind := shortnames | longnames | registered | none,
    cookie := string() | none,
    home := string() | none,
    %% The distribution protocol, if it is not inet_tcp.
    proto_dist := string() | none,
    %% The file with its options.
    optfile := string() | none
}.

%% The maximum size of a cookie file.
-define(MAX_COOKIE_FILE, 65536).

%% Every runtime whose command line this user can read, by process id.
runtimes() ->
    Pids =
        case file:list_dir("/proc") of
            {ok, Names} -> [N || N <- Names, string:to_integer(N) =/= {error, no_integer}];
            {error, _} -> []
        end,
    lists:sort(
        fun(#{pid := A}, #{pid := B}) -> list_to_integer(A) =< list_to_integer(B) end,
        lists:append([node_of(Pid) || Pid <- Pids, lists:all(fun(C) -> C >= $0 andalso C =< $9 end, Pid)])
    ).

%% @doc Every runtime whose command line this user can read, by process id. A node without a name on
%% its command line has the name under which it is registered: it started the distribution later, as
%% RabbitMQ does.
-spec nodes([{Name :: string(), inet:port_number()}]) -> [found()].
nodes(Registered) ->
    Listening = kymo_attach_ports:listening(),
    [named(F, Registered, Listening) || F <- runtimes()].

named(#{name := none, pid := Pid} = Found, Registered, Listening) ->
    Ports = kymo_attach_ports:of_process(Pid, Listening),
    case [Name || {Name, Port} <- Registered, lists:member(Port, Ports)] of
        [Name] -> Found#{name := Name, kind := registered};
        _ -> Found
    end;
named(Found, _, _) ->
    Found.

%% @doc The nodes that epmd of this machine knows, with their ports.
-spec registered() -> [{Name :: string(), inet:port_number()}].
registered() ->
    case erl_epmd:names("localhost") of
        {ok, Names} -> Names;
        {error, _} -> []
    end.

%% Recognises a runtime by arguments that are always present, because scripts and dynamic
%% loaders may start it under another program name.
node_of(Pid) ->
    Dir = filename:join("/proc", Pid),
    case {file:read_file(filename:join(Dir, "cmdline")), file:read_file_info(Dir)} of
        {{ok, Line}, {ok, #file_info{uid = Uid}}} ->
            Args = [unicode_list(A) || A <- binary:split(Line, <<0>>, [global])],
            case lists:member("-root", Args) andalso lists:member("-progname", Args) of
                true -> [described(Pid, Uid, own(Args))];
                false -> []
            end;
        _ ->
            []
    end.

unicode_list(Bytes) ->
    case unicode:characters_to_list(Bytes) of
        Text when is_list(Text) -> Text;
        _ -> binary_to_list(Bytes)
    end.

%% Arguments after -extra are not those of the runtime.
own(Args) -> lists:takewhile(fun(A) -> A =/= "-extra" end, Args).

described(Pid, Uid, Args) ->
    {Name, Kind} =
        case {value("-sname", Args), value("-name", Args)} of
            {none, none} -> {none, none};
            {none, Long} -> {Long, longnames};
            {Short, _} -> {Short, shortnames}
        end,
    #{
        pid => Pid,
        uid => Uid,
        name => Name,
        kind => Kind,
        cookie => value("-setcookie", Args),
        home => value("-home", Args),
        proto_dist => value("-proto_dist", Args),
        optfile => value("-ssl_dist_optfile", Args)
    }.

value(Flag, [Flag, Value | _]) -> Value;
value(Flag, [_ | Args]) -> value(Flag, Args);
value(_, []) -> none.

%% @doc The process of a node of this machine, whose name is `Host'. A name without a host
%% on a command line is one of this host.
-spec find(node(), Host :: string(), [found()]) -> found() | none.
find(Node, Here, Found) ->
    Full = atom_to_list(Node),
    [Name, Host] = string:split(Full, "@"),
    Local = label(Host) =:= label(Here),
    Matches =
        [F || #{name := N} = F <- Found, N =:= Full] ++
            [F || #{name := N} = F <- Found, Local, N =:= Name] ++
            [F || #{name := N, kind := registered} = F <- Found, N =:= Name, kymo_attach_ports:is_here(Host)],
    case Matches of
        [First | _] -> First;
        [] -> none
    end.

label(Host) -> hd(string:split(Host, ".")).

%% @doc The cookie of a node of this machine, and where it was found.
-spec cookie(found()) -> {Cookie :: string(), Source :: string()} | none.
cookie(#{cookie := Cookie, pid := Pid}) when Cookie =/= none ->
    {Cookie, "command line of process " ++ Pid};
cookie(#{home := Home, pid := Pid}) when Home =/= none ->
    %% The path as the process sees it, which may be in a container; if this user may not look
    %% there, the path as this process sees it.
    Seen = filename:join(["/proc", Pid, "root"]) ++ Home,
    case find_cookie(filename:join(Seen, ".erlang.cookie")) of
        none -> find_cookie(filename:join(Home, ".erlang.cookie"));
        Cookie -> Cookie
    end;
cookie(_) ->
    none.

%% @doc The cookie of this user.
-spec own_cookie() -> {Cookie :: string(), Source :: string()} | none.
own_cookie() ->
    Homes = [Home || [_ | _] = Home <- [os:getenv("HOME")]],
    Config = [filename:join(Dir, "erlang") || [_ | _] = Dir <- [os:getenv("XDG_CONFIG_HOME")]] ++
        [filename:join([Home, ".config", "erlang"]) || Home <- Homes],
    Found = [find_cookie(filename:join(Dir, ".erlang.cookie")) || Dir <- Homes ++ Config],
    case [Cookie || Cookie <- Found, Cookie =/= none] of
        [First | _] -> First;
        [] -> none
    end.

%% @doc The first line of a file.
-spec read_cookie(file:filename_all()) -> {Cookie :: string(), Source :: string()} | none.
read_cookie(File) ->
    case file:read_file(File) of
        {ok, Text} ->
            case string:trim(binary_to_list(hd(binary:split(Text, <<"\n">>)))) of
                "" -> none;
                Cookie -> {Cookie, unicode:characters_to_list(File)}
            end;
        {error, _} ->
            none
    end.

%% @doc The same for a file that was found and not named by the user. Other users choose the
%% home directories of their processes, so files that block or never end are not read.
-spec find_cookie(file:filename_all()) -> {Cookie :: string(), Source :: string()} | none.
find_cookie(File) ->
    case file:read_file_info(File) of
        {ok, #file_info{type = regular, size = Size}} when Size =< ?MAX_COOKIE_FILE -> read_cookie(File);
        _ -> none
    end.

%% @doc The number of the user of this runtime.
-spec own_uid() -> non_neg_integer().
own_uid() ->
    {ok, #file_info{uid = Uid}} = file:read_file_info("/proc/self"),
    Uid.

%% @doc The name of a user, or the number if it has none.
-spec user(non_neg_integer()) -> string().
user(Uid) ->
    Number = integer_to_list(Uid),
    Lines =
        case file:read_file("/etc/passwd") of
            {ok, Text} -> string:lexemes(unicode_list(Text), "\n");
            {error, _} -> []
        end,
    case [Name || [Name, _, Id | _] <- [string:split(L, ":", all) || L <- Lines], Id =:= Number] of
        [Name | _] -> Name;
        [] -> Number
    end.
