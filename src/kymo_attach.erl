%% SPDX-License-Identifier: Apache-2.0
%% @private The command `kymo attach', after its options were read: started by the
%% program `kymo' in a runtime of its own.
%%
%% The arguments after `-extra' are `Key=Value'. Standard input is a pipe: a byte asks for
%% the end of the recording, its end says that the program is gone. The exit status is
%% that of the command.
-module(kymo_attach).

-export([main/0]).

-type arguments() :: [{Key :: string(), Value :: string()}].

-record(main, {
    nodes :: [node()],
    sessions :: #{pid() => node()},
    %% Read when the last progress was shown, for the rate.
    shown = 0 :: non_neg_integer(),
    shown_at :: integer(),
    begun :: integer(),
    infos = #{} :: #{node() => map()},
    terminal :: boolean(),
    quiet :: boolean(),
    status = 0 :: non_neg_integer()
}).

-spec main() -> no_return().
main() ->
    Status =
        try
            check_release(),
            Args = [split(A) || A <- init:get_plain_arguments()],
            command(value("command", Args), Args)
        catch
            throw:{error, Why} ->
                say("~ts", [kymo_attach_error:format(Why)]),
                kymo_attach_error:status(Why);
            %% Where it was, but not with what: a cookie may be among the arguments.
            _:_:Stack ->
                Internal = {internal, [{M, F, arity(A)} || {M, F, A, _} <- Stack]},
                say("~ts", [kymo_attach_error:format(Internal)]),
                kymo_attach_error:status(Internal)
        end,
    erlang:halt(Status).

check_release() ->
    Release = erlang:system_info(otp_release),
    list_to_integer(Release) >= 25 orelse fail({old_erl, Release}).

arity(Args) when is_list(Args) -> length(Args);
arity(Arity) -> Arity.

%% What is not UTF-8 is no string here, but what unicode:characters_to_list/1 says of it.
split(Argument) ->
    try string:split(Argument, "=") of
        [Key, Value] -> {Key, Value}
    catch
        error:_ -> fail({not_unicode, Argument})
    end.

-spec value(string(), arguments()) -> string() | undefined.
value(Key, Args) -> proplists:get_value(Key, Args).

values(Key, Args) -> [Value || {K, Value} <- Args, K =:= Key].

command("list", _) ->
    print(kymo_attach_list:nodes());
command("print", Args) ->
    Output = filename:absname(value("output", Args)),
    Ebin = filename:dirname(code:which(?MODULE)),
    print(kymo_attach_list:expression(Ebin, (recording(Args))#{output => Output}));
command("list-recorders", Args) -> attached(fun kymo_attach_session:recorders/2, Args);
command("record", Args) -> attached(fun kymo_attach_session:record/2, Args);
command("keep", Args) -> attached(fun kymo_attach_session:keep/2, Args);
command("snapshot", Args) -> attached(fun kymo_attach_session:snapshot/2, Args);
command("detach", Args) -> attached(fun kymo_attach_session:detach/2, Args).

%% ---- nodes ------------------------------------------------------------------

attached(Session, Args) ->
    Processes = processes(value("pid", Args), kymo_attach_proc:nodes()),
    Nodes = nodes_of(value("pid", Args), Processes, Args),
    Kind = kind(Nodes),
    {ok, Host} = inet:gethostname(),
    Found = [{Node, kymo_attach_proc:find(Node, Host, Processes)} || Node <- Nodes],
    [check_protocol(Process) || {_, Process} <- Found],
    Cookies = [{Node, cookie(Process, Args)} || {Node, Process} <- Found],
    Options = [{Node, session_options(Node, Nodes, Args)} || Node <- Nodes],
    start_distribution(Kind),
    [true = erlang:set_cookie(Node, cookie_atom(Cookie, Source)) || {Node, {Cookie, Source}} <- Cookies],
    Port = open_port({fd, 0, 0}, [in, eof, binary]),
    Main = self(),
    Sessions = maps:from_list([
        {element(1, spawn_monitor(fun() -> Session(Main, Of) end)), Node}
     || {Node, Of} <- Options
    ]),
    Now = erlang:monotonic_time(millisecond),
    loop(Port, Cookies, #main{
        nodes = Nodes,
        sessions = Sessions,
        shown_at = Now,
        begun = Now,
        terminal = value("terminal", Args) =:= "true",
        quiet = value("quiet", Args) =:= "true"
    }).

%% Those that may be meant: nodes of several containers may have one name.
processes(undefined, Found) -> Found;
processes(Pid, Found) -> [F || #{pid := P} = F <- Found, P =:= Pid].

nodes_of(undefined, _, Args) ->
    Nodes = [node_name(Name) || Name <- values("node", Args)],
    case Nodes -- lists:usort(Nodes) of
        [] -> Nodes;
        [Twice | _] -> fail({twice, Twice})
    end;
nodes_of(Pid, Found, _) ->
    case Found of
        [] -> fail({no_runtime, Pid});
        [#{name := none}] -> fail({not_distributed, Pid});
        [#{name := Name}] -> [resolved(node_name(Name))]
    end.

%% The host of a container is often known in the container only. We share its network, so
%% it is the local host.
resolved(Node) ->
    [_, Host] = string:split(atom_to_list(Node), "@"),
    case inet:gethostbyname(Host) of
        {ok, _} ->
            ok;
        {error, _} ->
            ok = inet_db:set_lookup([file, native]),
            ok = inet_db:add_host({127, 0, 0, 1}, [Host])
    end,
    Node.

%% Without a host: one of this machine.
node_name(Text) ->
    case string:split(Text, "@", all) of
        [[_ | _] = Name] ->
            {ok, Host} = inet:gethostname(),
            name_atom(Name ++ "@" ++ Host);
        [[_ | _], [_ | _]] ->
            name_atom(Text);
        _ ->
            fail({bad_name, Text})
    end.

name_atom(Text) ->
    case kymo_attach_options:to_atom(Text) of
        {ok, Name} -> Name;
        error -> fail({bad_name, Text})
    end.

cookie_atom(Text, Source) ->
    case kymo_attach_options:to_atom(Text) of
        {ok, Cookie} -> Cookie;
        error -> fail({bad_cookie, Source})
    end.

kind(Nodes) ->
    case lists:usort([kind_of(Node) || Node <- Nodes]) of
        [Kind] -> Kind;
        _ -> fail(mixed_names)
    end.

%% As the runtime decides: the host of a long name has a dot or is an IPv6 address.
kind_of(Node) ->
    [_, Host] = string:split(atom_to_list(Node), "@"),
    case lists:any(fun(C) -> C =:= $. orelse C =:= $: end, Host) of
        true -> longnames;
        false -> shortnames
    end.

%% Known of a node of this machine. The runtime takes the protocol from its command line
%% only, so it is too late to change it.
check_protocol(#{proto_dist := Protocol, optfile := File}) when Protocol =/= none ->
    case init:get_argument(proto_dist) of
        {ok, [[Protocol]]} -> ok;
        _ -> fail({other_protocol, Protocol, File})
    end;
check_protocol(_) ->
    ok.

cookie(Process, Args) ->
    case {os:getenv("KYMO_ATTACH_COOKIE"), value("cookie_file", Args)} of
        {[_ | _] = Cookie, _} ->
            {Cookie, "--cookie"};
        {_, [_ | _] = File} ->
            case kymo_attach_proc:read_cookie(File) of
                none -> fail({no_cookie_file, File});
                Cookie -> Cookie
            end;
        _ ->
            Local =
                case Process of
                    none -> none;
                    _ -> kymo_attach_proc:cookie(Process)
                end,
            first_cookie([Local, kymo_attach_proc:own_cookie()])
    end.

first_cookie([none | Others]) -> first_cookie(Others);
first_cookie([Cookie | _]) -> Cookie;
first_cookie([]) -> fail(no_cookie).

%% Nothing listens, so neither epmd nor a free port is needed, and nobody can connect
%% to this node.
start_distribution(Kind) ->
    %% By ERL_FLAGS in the environment: it listens, and its cookie is known to everybody.
    is_alive() andalso fail(named),
    {ok, Host} = inet:gethostname(),
    Domain =
        case {Kind, lists:member($., Host)} of
            {longnames, false} -> ".localdomain";
            _ -> ""
        end,
    Name = list_to_atom("kymo_attach_" ++ unique_name(1) ++ "@" ++ Host ++ Domain),
    case net_kernel:start(Name, #{name_domain => Kind, hidden => true, dist_listen => false}) of
        {ok, _} -> ok;
        {error, Why} -> fail({no_distribution, Why})
    end.

%% Unique, and used again: each name is an atom that every node keeps which has seen it. A
%% number is taken by a socket of that name, which this process holds to its end; the kernel
%% has such names for each network namespace.
unique_name(N) ->
    Number = integer_to_list(N),
    case gen_udp:open(0, [local, {ifaddr, {local, [0 | "kymo_attach_" ++ Number]}}]) of
        {ok, _} -> lists:concat([erlang:phash2(namespace()), "_", Number]);
        {error, eaddrinuse} -> unique_name(N + 1);
        {error, _} -> os:getpid()
    end.

%% Not all hosts have names of their own.
namespace() -> {file:read_file("/proc/sys/kernel/random/boot_id"), file:read_link("/proc/self/ns/net")}.

session_options(Node, Nodes, Args) ->
    (recording(Args))#{
        node => Node,
        port =>
            case value("port", Args) of
                undefined -> none;
                Port -> list_to_integer(Port)
            end,
        priv => value("priv", Args),
        folders => values("node_dir", Args),
        output =>
            case {value("output", Args), Nodes} of
                {undefined, _} -> none;
                {Output, [_]} -> Output;
                {Output, _} -> filename:join(Output, atom_to_list(Node))
            end
    }.

recording(Args) ->
    #{
        start => kymo_attach_options:start(Args),
        spec => kymo_attach_options:spec(Args),
        for =>
            case value("for", Args) of
                undefined -> infinity;
                For -> list_to_integer(For)
            end
    }.

%% ---- what the sessions do ----------------------------------------------------

loop(_, _, #main{sessions = Sessions, status = Status}) when map_size(Sessions) =:= 0 ->
    Status;
loop(Port, Cookies, #main{sessions = Sessions} = S) ->
    receive
        {Port, {data, _}} ->
            [Session ! stop || Session <- maps:keys(Sessions)],
            loop(Port, Cookies, S);
        {Port, eof} ->
            [Session ! abort || Session <- maps:keys(Sessions)],
            loop(Port, Cookies, S);
        {session, Node, {failed, Why}} ->
            Explained =
                case Why of
                    {refused, Node} -> {refused, Node, element(2, proplists:get_value(Node, Cookies))};
                    _ -> Why
                end,
            Cleared = clear(S),
            say("~ts: ~ts", [Node, kymo_attach_error:format(Explained)]),
            loop(Port, Cookies, failed(kymo_attach_error:status(Why), Cleared));
        {session, Node, What} ->
            loop(Port, Cookies, session(Node, What, S));
        {'DOWN', _, process, Session, normal} ->
            loop(Port, Cookies, S#main{sessions = maps:remove(Session, Sessions)});
        {'DOWN', _, process, Session, Why} when is_map_key(Session, Sessions) ->
            {Node, Left} = maps:take(Session, Sessions),
            say("~ts: ~0tp", [Node, Why]),
            loop(Port, Cookies, failed(kymo_attach_error:status(Why), S#main{sessions = Left}));
        _ ->
            loop(Port, Cookies, S)
    end.

failed(Status, #main{status = Before} = S) -> S#main{status = max(Status, Before)}.

session(_, {connected, _}, S) ->
    S;
session(Node, {started, #{functions := Functions, processes := Processes} = Started}, S) ->
    tell(S, "~ts: recording ~b processes, ~b functions in ~ts", [
        Node, Processes, Functions, maps:get(dir, Started)
    ]),
    S;
session(Node, {progress, Info}, #main{infos = Infos} = S) ->
    show(S#main{infos = Infos#{Node => Info}});
session(Node, {fetching, #{events := Events, lost := Lost}}, S) ->
    tell(clear(S), "~ts: ~b events, ~b lost; fetching the recording", [Node, Events, sum(Lost)]),
    S;
session(Node, {done, #{recorders := Recorders}}, S) ->
    io:put_chars([atom_to_list(Node), ":\n", kymo_attach_list:recorders(Recorders)]),
    S;
session(Node, {done, #{kept := true}}, S) ->
    tell(S, "~ts: the recorder stays; 'kymo attach --detach ~ts' ends it", [Node, Node]),
    S;
session(_, {done, _}, S) ->
    S.

%% One line for all nodes, which is written over and over.
show(#main{terminal = true, quiet = false, infos = Infos, shown = Shown, shown_at = At, begun = Begun} = S) ->
    Now = erlang:monotonic_time(millisecond),
    Events = lists:sum([E || #{events := E} <- maps:values(Infos)]),
    Lost = lists:sum([sum(L) || #{lost := L} <- maps:values(Infos)]),
    Bytes = lists:sum([B || #{bytes := B} <- maps:values(Infos)]),
    case Now - At >= 200 of
        true ->
            io:format(standard_error, "\r\e[K~b s  ~b events  ~b/s  ~b lost  ~b MiB", [
                (Now - Begun) div 1000, Events, (Events - Shown) * 1000 div (Now - At), Lost, Bytes bsr 20
            ]),
            S#main{shown = Events, shown_at = Now};
        false ->
            S
    end;
show(S) ->
    S.

clear(#main{terminal = true, quiet = false} = S) ->
    io:put_chars(standard_error, "\r\e[K"),
    S;
clear(S) ->
    S.

sum(Lost) -> lists:sum(maps:values(Lost)).

print(Text) ->
    io:put_chars(Text),
    0.

tell(#main{quiet = true}, _, _) -> ok;
tell(_, Format, Args) -> say(Format, Args).

say(Format, Args) ->
    io:format(standard_error, "kymo: " ++ Format ++ "\n", Args).

-spec fail(term()) -> no_return().
fail(Why) -> throw({error, Why}).
