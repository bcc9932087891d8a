%% SPDX-License-Identifier: Apache-2.0
%% @private Finds the nodes of this machine in `/proc', and their cookies.
-module(kymo_attach_proc).

-export([nodes/1, registered/0, find/3, cookie/1, own_cookie/0, read_cookie/1, find_cookie/1, cookie_of/3, user/1, own_uid/0]).
-export_type([found/0]).

-include_lib("kernel/include/file.hrl").

-type found() :: #{
    pid := string(),
    uid := non_neg_integer(),
    %% As on the command line, with or without a host, or as registered with epmd, without a
    %% host; `none' if the node is not distributed.
    name := string() | none,
    kind := shortnames | longnames | registered | none,
    %% Whether it accepts connections.
    listens := boolean(),
    cookie := string() | none,
    home := string() | none,
    %% The distribution protocol, if the command line names one.
    proto_dist := string() | none,
    %% The file with its options.
    optfile := string() | none
}.

%% Milliseconds after which epmd is taken to hang.
-define(EPMD_TIMEOUT, 1000).

%% The maximum size of a cookie file.
-define(MAX_COOKIE_FILE, 65536).
-define(MAX_LINKS, 40).

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
    case kymo_attach_link:within(?EPMD_TIMEOUT, fun() -> erl_epmd:names("localhost") end) of
        {ok, {ok, Names}} -> Names;
        _ -> []
    end.

%% Recognises a runtime by arguments that are always present, because scripts and dynamic
%% loaders may start it under another program name.
node_of(Pid) ->
    Dir = filename:join("/proc", Pid),
    case {file:read_file(filename:join(Dir, "cmdline")), file:read_file_info(Dir)} of
        {{ok, Line}, {ok, #file_info{uid = Uid}}} ->
            %% Each of them ends with a zero.
            Args = [unicode_list(A) || A <- lists:droplast(binary:split(Line, <<0>>, [global]))],
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
            %% The first node that it connects to gives it a name.
            {"undefined", _} -> {none, none};
            {none, "undefined"} -> {none, none};
            {none, Long} -> {Long, longnames};
            {Short, _} -> {Short, shortnames}
        end,
    #{
        pid => Pid,
        uid => Uid,
        name => Name,
        kind => Kind,
        listens => value("-dist_listen", Args) =/= "false",
        cookie => set_cookie(Args),
        home => value("-home", Args),
        proto_dist => value("-proto_dist", Args),
        optfile => value("-ssl_dist_optfile", Args)
    }.

value(Flag, Args) ->
    case values(Flag, Args) of
        [[Value | _] | _] -> Value;
        _ -> none
    end.

%% What follows each occurrence of a flag, up to the next flag.
values(Flag, [Flag | Args]) ->
    {Values, Rest} = lists:splitwith(fun(A) -> not lists:prefix("-", A) end, Args),
    [Values | values(Flag, Rest)];
values(Flag, [_ | Args]) ->
    values(Flag, Args);
values(_, []) ->
    [].

%% The same rule as in the runtime: one cookie without a node is that of the node itself. More of them count as
%% none, and those with a node are for other nodes.
set_cookie(Args) ->
    case {[Values || Values <- values("-setcookie", Args), length(Values) < 2], values("-nocookie", Args)} of
        {[[Cookie]], _} -> Cookie;
        {_, [_ | _]} -> "nocookie";
        {_, []} -> none
    end.

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
cookie(#{home := Home, pid := Pid, uid := Uid}) when Home =/= none ->
    %% The path as the process sees it, which may be in a container; if this user may not look
    %% there, the path as this process sees it.
    Roots = [filename:join(["/proc", Pid, "root"]), ""],
    first([cookie_of(Uid, Root, filename:join(Dir, ".erlang.cookie")) || Dir <- [Home, config(Home)], Root <- Roots]);
cookie(_) ->
    none.

config(Home) -> filename:join([Home, ".config", "erlang"]).

first(Found) ->
    case [Cookie || Cookie <- Found, Cookie =/= none] of
        [First | _] -> First;
        [] -> none
    end.

%% @doc The cookie of this user.
-spec own_cookie() -> {Cookie :: string(), Source :: string()} | none.
own_cookie() ->
    Homes = [Home || [_ | _] = Home <- [os:getenv("HOME")]],
    Config = [filename:join(Dir, "erlang") || [_ | _] = Dir <- [os:getenv("XDG_CONFIG_HOME")]] ++
        [config(Home) || Home <- Homes],
    first([find_cookie(filename:join(Dir, ".erlang.cookie")) || Dir <- Homes ++ Config]).

%% @doc The first line of a file.
-spec read_cookie(file:filename_all()) -> {Cookie :: string(), Source :: string()} | none.
read_cookie(File) ->
    %% Not all of something that has no end.
    case file:open(File, [read, raw, binary]) of
        {ok, Opened} ->
            Read = file:read(Opened, ?MAX_COOKIE_FILE),
            ok = file:close(Opened),
            case Read of
                {ok, Text} -> first_line(Text, File);
                _ -> none
            end;
        {error, _} ->
            none
    end.

first_line(Text, File) ->
    case string:trim(binary_to_list(hd(binary:split(Text, <<"\n">>)))) of
        "" -> none;
        Cookie -> {Cookie, unicode:characters_to_list(File)}
    end.

%% @doc The same for a file that was found and not named by the user, who may have put another kind of file
%% there: files that block or never end are not read.
-spec find_cookie(file:filename_all()) -> {Cookie :: string(), Source :: string()} | none.
find_cookie(File) ->
    case file:read_file_info(File) of
        {ok, #file_info{type = regular, size = Size}} when Size =< ?MAX_COOKIE_FILE -> read_cookie(File);
        _ -> none
    end.

%% @doc The first line of a file of that user, below the folder Root. The user chooses the path and
%% what it leads to. So links are followed as seen from Root, and a file of somebody else is not read:
%% the node would learn something of it.
-spec cookie_of(Uid :: non_neg_integer(), Root :: file:filename(), File :: file:filename()) ->
    {Cookie :: string(), Source :: string()} | none.
cookie_of(Uid, Root, File) ->
    case resolved(tl(filename:split(filename:absname(File, "/"))), [], Root, ?MAX_LINKS) of
        none ->
            none;
        Parts ->
            Path = Root ++ "/" ++ lists:append(lists:join("/", Parts)),
            case file:read_link_info(Path, [raw]) of
                {ok, #file_info{type = regular, inode = Inode}} -> cookie_at(Path, Uid, Inode);
                _ -> none
            end
    end.

%% The path without links, as a list.
resolved([], Done, _, _) -> lists:reverse(Done);
resolved(["." | Parts], Done, Root, Links) -> resolved(Parts, Done, Root, Links);
resolved([".." | Parts], Done, Root, Links) -> resolved(Parts, lists:sublist(Done, 2, length(Done)), Root, Links);
resolved([Part | Parts], Done, Root, Links) ->
    case file:read_link(Root ++ "/" ++ lists:append(lists:join("/", lists:reverse([Part | Done])))) of
        {ok, _} when Links =:= 0 -> none;
        {ok, [$/ | _] = Target} -> resolved(tl(filename:split(Target)) ++ Parts, [], Root, Links - 1);
        {ok, Target} -> resolved(filename:split(Target) ++ Parts, Done, Root, Links - 1);
        {error, _} -> resolved(Parts, [Part | Done], Root, Links)
    end.

%% The file that was opened is the one that was looked at, and belongs to the user.
cookie_at(Path, Uid, Inode) ->
    case file:open(Path, [read, raw, binary]) of
        {ok, Device} ->
            try
                {ok, #file_info{type = regular, inode = Inode, uid = Uid, size = Size}} = file:read_file_info(Device),
                true = Size =< ?MAX_COOKIE_FILE,
                {ok, Text} = file:read(Device, ?MAX_COOKIE_FILE),
                first_line(Text, Path)
            catch
                error:_ -> none
            after
                file:close(Device)
            end;
        {error, _} ->
            none
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
