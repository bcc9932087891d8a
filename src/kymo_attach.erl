%% SPDX-License-Identifier: Apache-2.0
%% @private The main program of `kymo attach'. The C program `kymo' parses the options, and
%% starts this module in a runtime of its own.
%%
%% The arguments after `-extra' have the form `Key=Value'. Standard input is a pipe from the
%% program: the byte `s' requests a snapshot, `q' the end of this command at once, any other byte the end of
%% the recording; end of file means that the program is gone. The exit status becomes that of the program.
-module(kymo_attach).

-export([main/0]).

-type arguments() :: [{Key :: string(), Value :: string()}].

%% The default of --timeout, in milliseconds.
-define(TIMEOUT, "30000").

%% Milliseconds that finding out why a node does not answer takes.
-define(FOR_ERROR, 2000).

%% A step that takes longer than this many milliseconds is named.
-define(LONG_STEP, 2000).
-define(TICK, 500).

-record(main, {
    nodes :: [node()],
    sessions :: #{pid() => node()},
    %% The time when progress was last shown, to compute rates.
    shown = 0 :: non_neg_integer(),
    shown_at :: integer(),
    begun :: integer(),
    %% What each session does now, since when, and whether that was said.
    steps = #{} :: #{node() => {kymo_attach_session:step(), Since :: integer(), Said :: boolean()}},
    infos = #{} :: #{node() => map()},
    terminal :: boolean(),
    quiet :: boolean(),
    status = 0 :: non_neg_integer()
}).

-spec main() -> no_return().
main() ->
    %% It may be closed.
    _ = (catch io:setopts(standard_error, [{encoding, unicode}])),
    Status =
        try
            check_release(),
            Args = [split(A) || A <- init:get_plain_arguments()],
            command(value("command", Args), Args)
        catch
            throw:{error, Why} ->
                say("~ts", [kymo_attach_error:format(Why)]),
                kymo_attach_error:status(Why);
            %% Print functions without arguments, which might contain a cookie.
            _:_:Stack ->
                Internal = {internal, [{M, F, arity(A)} || {M, F, A, _} <- Stack]},
                say("~ts", [kymo_attach_error:format(Internal)]),
                kymo_attach_error:status(Internal)
        end,
    halt_after_output(Status).

%% Output is a signal to a port, and erlang:halt/1 drops those that a port has not yet received.
%% A port answers after the signals that came before the request.
-spec halt_after_output(non_neg_integer()) -> no_return().
halt_after_output(Status) ->
    _ = [erlang:port_info(Port, output) || Port <- erlang:ports()],
    erlang:halt(Status).

check_release() ->
    Release = erlang:system_info(otp_release),
    list_to_integer(Release) >= 25 orelse fail({old_erl, Release}).

arity(Args) when is_list(Args) -> length(Args);
arity(Arity) -> Arity.

%% If an argument is not valid UTF-8, the runtime passes an error tuple instead of a string.
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
    check_epmd_port(),
    check_calls(),
    print(kymo_attach_list:nodes());
command("print", Args) ->
    Output = filename:absname(value("output", Args)),
    Ebin = filename:dirname(code:which(?MODULE)),
    print(kymo_attach_list:expression(Ebin, (recording(Args))#{output => Output}));
command("list-recorders", Args) -> attached(fun kymo_attach_session:recorders/2, Args);
command("record", Args) ->
    say_unrecorded(Args),
    attached(fun kymo_attach_session:record/2, Args);
command("show", Args) -> attached(fun kymo_attach_session:show/2, Args);
command("keep", Args) ->
    say_unrecorded(Args),
    attached(fun kymo_attach_session:keep/2, Args);
command("snapshot", Args) -> attached(fun kymo_attach_session:snapshot/2, Args);
command("detach", Args) -> attached(fun kymo_attach_session:detach/2, Args).

%% Without messages and scheduling, kymo why can't explain a request.
say_unrecorded(Args) ->
    case {kymo_attach_options:unrecorded(Args), value("quiet", Args)} of
        {[_ | _] = Kinds, Quiet} when Quiet =/= "true" ->
            say("not recorded: ~ts; add --events ~ts", [
                lists:join(", ", [What || {_, What} <- Kinds]), lists:join(",", [atom_to_list(E) || {E, _} <- Kinds])
            ]);
        _ ->
            ok
    end.

%% ---- nodes ------------------------------------------------------------------

attached(Session, Args) ->
    Begun = erlang:monotonic_time(millisecond),
    check_epmd_port(),
    check_calls(),
    Processes = processes(value("pid", Args), kymo_attach_proc:nodes(kymo_attach_proc:registered())),
    Nodes = nodes_of(value("pid", Args), Processes, Args),
    Kind = kind(Nodes),
    {ok, Host} = inet:gethostname(),
    Found = [{Node, kymo_attach_proc:find(Node, Host, Processes)} || Node <- Nodes],
    _ = [fail({not_listening, Pid}) || {_, #{listens := false, pid := Pid}} <- Found],
    check_output(Nodes, value("output", Args)),
    Protocol = protocol(Args),
    [check_protocol(Process, Args) || {_, Process} <- Found],
    Cookies = [{Node, checked(cookie(Node, Process, Args))} || {Node, Process} <- Found],
    %% Not for the programs that this one starts.
    true = os:unsetenv("KYMO_ATTACH_COOKIE"),
    Client = client(Kind, Protocol, Args),
    Options = [
        {Node, (session_options(Node, Nodes, Process, Begun, Args))#{client => Client#{cookie => Cookie}}}
     || {Node, Process} <- Found, {Of, {Cookie, _}} <- Cookies, Of =:= Node
    ],
    Port = open_port({fd, 0, 0}, [in, eof, binary]),
    Main = self(),
    Sessions = maps:from_list([
        {element(1, spawn_monitor(fun() -> Session(Main, Of) end)), Node}
     || {Node, Of} <- Options
    ]),
    Now = erlang:monotonic_time(millisecond),
    tick(),
    loop(Port, Cookies, #main{
        nodes = Nodes,
        sessions = Sessions,
        shown_at = Now,
        begun = Now,
        terminal = value("terminal", Args) =:= "true",
        quiet = value("quiet", Args) =:= "true"
    }).

%% The client of epmd in OTP fails with anything else.
check_epmd_port() ->
    Text = os:getenv("ERL_EPMD_PORT", "4369"),
    case string:to_integer(Text) of
        {Port, ""} when Port > 0, Port < 65536 -> ok;
        _ -> fail({bad_epmd_port, Text})
    end.

check_calls() ->
    case kymo_attach_calls:check() of
        ok -> ok;
        {error, Why} -> fail(Why)
    end.

%% The folder for those of several nodes, which is there.
check_output([_, _ | _], [_ | _] = Output) ->
    case kymo_attach_folder:check(Output) of
        ok -> ok;
        {error, Why} -> fail(Why)
    end;
check_output(_, _) ->
    ok.

%% The processes that the name may refer to. Nodes in several containers may have the same name.
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

%% The host name of a container often resolves only inside it. This process has joined the
%% container's network, so the node is on the local host.
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

%% A name without a host is a node of this machine.
node_name(Text) ->
    lists:member($/, Text) andalso fail({bad_name, Text}),
    case string:split(Text, "@", all) of
        [[_ | _] = Name] ->
            {ok, Host} = inet:gethostname(),
            name_atom(Name ++ "@" ++ Host);
        [[_ | _], [_ | _]] ->
            name_atom(Text);
        _ ->
            fail({bad_name, Text})
    end.

%% The node name of a runtime that is not distributed.
name_atom("nonode@nohost") -> fail({bad_name, "nonode@nohost"});
name_atom(Text) ->
    case kymo_attach_options:to_atom(Text) of
        {ok, Name} -> Name;
        error -> fail({bad_name, Text})
    end.

checked({Text, Source} = Cookie) ->
    case length(Text) =< 255 of
        true -> Cookie;
        false -> fail({bad_cookie, Source})
    end.

kind(Nodes) ->
    case lists:usort([kind_of(Node) || Node <- Nodes]) of
        [Kind] -> Kind;
        _ -> fail(mixed_names)
    end.

%% The same rule as in the runtime: the host of a long name has a dot or is an IPv6 address.
kind_of(Node) ->
    [_, Host] = string:split(atom_to_list(Node), "@"),
    case lists:any(fun(C) -> C =:= $. orelse C =:= $: end, Host) of
        true -> longnames;
        false -> shortnames
    end.

protocol(Args) ->
    case kymo_attach_handshake:protocol(value("proto_dist", Args), value("ssl_dist_optfile", Args)) of
        {ok, Protocol} -> Protocol;
        {error, Why} -> fail(Why)
    end.

%% The node's protocol is known only if it runs on this machine.
check_protocol(#{proto_dist := Protocol, optfile := File}, Args) when Protocol =/= none ->
    case value("proto_dist", Args) of
        Protocol -> ok;
        undefined when Protocol =:= "inet_tcp" -> ok;
        _ -> fail({other_protocol, Protocol, File})
    end;
check_protocol(_, _) ->
    ok.

cookie(Node, Process, Args) ->
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
            case [Cookie || Cookie <- [Local, kymo_attach_proc:own_cookie()], Cookie =/= none] of
                [Cookie | _] -> Cookie;
                [] -> fail(no_cookie(owner(Node, Process, Args)))
            end
    end.

no_cookie({ok, Uid}) ->
    case kymo_attach_proc:own_uid() of
        Uid -> no_cookie;
        _ -> {no_cookie_of, kymo_attach_proc:user(Uid)}
    end;
no_cookie(none) ->
    no_cookie.

%% Whose node it is. The process of one that has no name on its command line is found only by its user and root, but its
%% socket by all.
owner(_, #{uid := Uid}, _) ->
    {ok, Uid};
owner(Node, none, Args) ->
    [Name, Host] = string:split(atom_to_list(Node), "@"),
    Found = kymo_attach_link:within(?FOR_ERROR, fun() ->
        kymo_attach_ports:is_here(Host) andalso
            case port(Name, Host, Args) of
                {port, Port, _} -> kymo_attach_ports:owner(Port);
                _ -> none
            end
    end),
    case Found of
        {ok, {ok, Uid}} -> {ok, Uid};
        _ -> none
    end.

port(Name, Host, Args) ->
    case value("port", Args) of
        undefined -> erl_epmd:port_please(Name, Host);
        Port -> {port, list_to_integer(Port), given}
    end.

%% What the nodes see of this side. It is not a node (see {@link kymo_attach_wire}).
client(Kind, Protocol, Args) ->
    %% The program of --erl has made a node of it: others can connect to it, and run code here.
    is_alive() andalso fail(named),
    {ok, Host} = inet:gethostname(),
    Domain =
        case {Kind, lists:member($., Host)} of
            {longnames, false} -> ".localdomain";
            _ -> ""
        end,
    #{
        name => "kymo_attach_" ++ unique_name(1) ++ "@" ++ Host ++ Domain,
        creation => rand:uniform(1 bsl 32 - 1),
        protocol => Protocol,
        port =>
            case value("port", Args) of
                undefined -> none;
                Port -> list_to_integer(Port)
            end
    }.

%% A name that no other running command uses, with the lowest free number: every node that
%% connects to this one keeps the name as an atom for ever, so names are reused. A number is
%% claimed by binding an abstract socket, which is unique per network namespace and stays open
%% until this process ends.
unique_name(N) ->
    Number = integer_to_list(N),
    case gen_udp:open(0, [local, {ifaddr, {local, [0 | "kymo_attach_" ++ Number]}}]) of
        {ok, _} -> lists:concat([erlang:phash2(namespace()), "_", Number]);
        {error, eaddrinuse} -> unique_name(N + 1);
        {error, _} -> os:getpid()
    end.

%% Identifies the machine and the network namespace, as host names need not be unique.
namespace() -> {file:read_file("/proc/sys/kernel/random/boot_id"), file:read_link("/proc/self/ns/net")}.

session_options(Node, Nodes, Process, Begun, Args) ->
    Timeout = list_to_integer(proplists:get_value("timeout", Args, ?TIMEOUT)),
    #{start := Start} = Recording = recording(Args),
    #{triggers := Triggers} = Watch = kymo_attach_watch:limits(Args),
    case kymo_trigger:missing([unicode:characters_to_binary(T) || T <- Triggers], Start) of
        none -> ok;
        {Trigger, Option} -> fail({trigger_needs, Trigger, Option})
    end,
    Recording#{
        node => Node,
        os_pid =>
            case Process of
                #{pid := Pid} -> Pid;
                none -> none
            end,
        %% The rest is for the error.
        until => Begun + Timeout - min(?FOR_ERROR, Timeout div 4),
        wait => Timeout,
        selects => value("selects", Args) =:= "true",
        watch => Watch,
        temporary => value("temporary", Args) =:= "true",
        priv => value("priv", Args),
        folders => [folder(Dir) || Dir <- values("node_dir", Args)],
        output =>
            case {value("output", Args), Nodes} of
                {undefined, _} -> none;
                {Output, [_]} -> Output;
                {Output, _} -> filename:join(Output, atom_to_list(Node))
            end
    }.

%% The node leaves out a folder of another name.
folder(Dir) ->
    kymo_attach_text:line(Dir) =:= Dir orelse fail({bad_folder, Dir}),
    Dir.

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
        {Port, {data, Keys}} ->
            [Session ! Wish || Key <- binary_to_list(Keys), Wish <- wishes(Key), Session <- maps:keys(Sessions)],
            loop(Port, Cookies, S);
        {Port, eof} ->
            [Session ! abort || Session <- maps:keys(Sessions)],
            loop(Port, Cookies, S);
        tick ->
            tick(),
            loop(Port, Cookies, say_steps(S));
        {session, Node, {step, Step}} ->
            Begun = {Step, erlang:monotonic_time(millisecond), false},
            loop(Port, Cookies, S#main{steps = (S#main.steps)#{Node => Begun}});
        {session, Node, {connecting, Seen}} ->
            loop(Port, Cookies, connecting(Node, Seen, S));
        {session, Node, {failed, Why}} ->
            Explained =
                case Why of
                    {refused, Node, Over} -> {refused, Node, Over, element(2, proplists:get_value(Node, Cookies))};
                    _ -> Why
                end,
            Cleared = clear(S#main{steps = maps:remove(Node, S#main.steps)}),
            say("~ts: ~ts", [Node, explained(Explained)]),
            loop(Port, Cookies, failed(kymo_attach_error:status(Why), Cleared));
        {session, Node, What} ->
            loop(Port, Cookies, session(Node, What, S#main{steps = maps:remove(Node, S#main.steps)}));
        {'DOWN', _, process, Session, normal} ->
            loop(Port, Cookies, S#main{sessions = maps:remove(Session, Sessions)});
        {'DOWN', _, process, Session, Why} when is_map_key(Session, Sessions) ->
            {Node, Left} = maps:take(Session, Sessions),
            say("~ts: ~0tp", [Node, Why]),
            loop(Port, Cookies, failed(kymo_attach_error:status(Why), S#main{sessions = Left}));
        _ ->
            loop(Port, Cookies, S)
    end.

tick() ->
    _ = erlang:send_after(?TICK, self(), tick),
    ok.

%% A step that takes long is named once; in a terminal, with its time.
say_steps(#main{quiet = true} = S) ->
    S;
say_steps(#main{steps = Steps, terminal = Terminal} = S) ->
    Now = erlang:monotonic_time(millisecond),
    Said = maps:map(
        fun(Node, {Step, Since, Said}) ->
            Long = Now - Since >= ?LONG_STEP,
            Text = [atom_to_list(Node), ": ", kymo_attach_error:step(Step)],
            Long andalso Terminal andalso
                progress("\r\e[Kkymo: ~ts, ~b s", [Text, (Now - Since) div 1000]),
            Long andalso not Terminal andalso not Said andalso say("~ts", [Text]),
            {Step, Since, Said orelse Long}
        end,
        Steps
    ),
    S#main{steps = Said}.

wishes($s) -> [snapshot];
wishes($q) -> [drop, abort];
wishes(_) -> [stop].

failed(Status, #main{status = Before} = S) -> S#main{status = max(Status, Before)}.

session(_, {connected, _}, S) ->
    S;
session(Node, {unloading, Why}, S) ->
    tell(
        clear(S),
        "~ts: nothing of kymo runs in the node any more; the node still unloads kymo's modules, ~ts, and the next 'kymo attach' waits for that",
        [Node, kymo_attach_error:unloading(Why)]
    ),
    S;
session(Node, {silent, Seen}, S) ->
    tell(clear(S), "~ts: the node does not answer, and is still recorded: ~ts", [Node, kymo_attach_outside:summary(Seen)]),
    S;
session(Node, {started, #{functions := Functions, processes := Processes} = Started}, S) ->
    tell(clear(S), "~ts: recording ~ts, ~ts in ~ts", [
        Node, counted(Processes, "process"), counted(Functions, "function"), maps:get(dir, Started)
    ]),
    S;
session(Node, {shown, Dir, Whose}, S) ->
    Whose =:= kept andalso tell(S, "~ts: this is the recorder that was left there with --keep", [Node]),
    ok = io:setopts([{encoding, unicode}]),
    io:put_chars([Dir, $\n]),
    S;
session(Node, {stays, Output}, S) ->
    tell(S, "~ts: Enter copies a snapshot into ~ts; Ctrl-C ends this command, and the recorder stays", [
        Node, Output
    ]),
    S;
session(Node, {snapshot, To}, S) ->
    tell(clear(S), "~ts: snapshot in ~ts", [Node, To]),
    S;
session(Node, {fired, #{<<"trigger">> := Trigger}, To}, S) ->
    tell(clear(S), "~ts: ~ts fired; snapshot in ~ts", [Node, Trigger, To]),
    S;
session(Node, {limited, Max}, S) ->
    tell(clear(S), "~ts: the triggers have taken ~ts and take no more (--max)", [Node, counted(Max, "snapshot")]),
    S;
session(Node, {left_out, N}, S) ->
    tell(clear(S), "~ts: no snapshot was taken of ~ts, because firings came faster than snapshots can be copied (see --cooldown)", [
        Node, counted(N, "firing")
    ]),
    S;
session(Node, {warning, Why}, S) ->
    Cleared = clear(S),
    say("~ts: ~ts", [Node, explained(Why)]),
    failed(kymo_attach_error:status(Why), Cleared);
session(Node, {progress, Info}, #main{infos = Infos} = S) ->
    show(S#main{infos = Infos#{Node => Info}});
session(Node, {fetching, #{events := Events, lost := Lost}}, S) ->
    tell(clear(S), "~ts: ~ts, ~b lost; fetching the recording", [Node, counted(Events, "event"), sum(Lost)]),
    S;
session(Node, {left, Folders}, S) ->
    Cleared = clear(S),
    say("~ts: the node can't remove ~ts: remove it", [Node, lists:join(" and ", Folders)]),
    Cleared;
session(Node, interrupted, S) ->
    tell(clear(S), "~ts: the copy was interrupted: connecting again", [Node]),
    S;
session(Node, {done, #{recorders := Recorders}}, S) ->
    io:put_chars([atom_to_list(Node), ":\n", kymo_attach_list:recorders(Recorders)]),
    S;
session(Node, {done, #{kept := true}}, S) ->
    tell(S, "~ts: the recorder stays; 'kymo attach --detach ~ts' ends it", [Node, Node]),
    S;
session(_, {done, _}, S) ->
    S.

connecting(Node, Seen, #main{steps = Steps} = S) when is_map_key(Node, Steps) ->
    tell(clear(S), "~ts: still connecting: ~ts; ~ts", [
        Node, kymo_attach_outside:summary(Seen), kymo_attach_error:busy_connect()
    ]),
    #{Node := {Step, Since, _}} = Steps,
    S#main{steps = Steps#{Node := {Step, Since, true}}};
connecting(_, _, S) ->
    S.

%% One line for all nodes, which is overwritten each time.
show(#main{terminal = true, quiet = false, infos = Infos, shown = Shown, shown_at = At, begun = Begun} = S) ->
    Now = erlang:monotonic_time(millisecond),
    Events = lists:sum([E || #{events := E} <- maps:values(Infos)]),
    Lost = lists:sum([sum(L) || #{lost := L} <- maps:values(Infos)]),
    Bytes = lists:sum([B || #{bytes := B} <- maps:values(Infos)]),
    case Now - At >= 200 of
        true ->
            progress("\r\e[K~b s  ~b events  ~b/s  ~b lost  ~b MiB~ts", [
                (Now - Begun) div 1000, Events, (Events - Shown) * 1000 div (Now - At), Lost, Bytes bsr 20,
                kymo_attach_text:line(kymo_budget:format([Budget || #{budget := #{} = Budget} <- maps:values(Infos)]))
            ]),
            S#main{shown = Events, shown_at = Now};
        false ->
            S
    end;
show(S) ->
    S.

clear(#main{terminal = true, quiet = false} = S) ->
    progress("\r\e[K", []),
    S;
clear(S) ->
    S.

sum(Lost) -> lists:sum(maps:values(Lost)).

counted(1, One) -> ["1 ", One];
counted(N, "process") -> io_lib:format("~b processes", [N]);
counted(N, One) -> io_lib:format("~b ~tss", [N, One]).

%% An error of the node may have any form.
explained(Why) ->
    try
        unicode:characters_to_list(kymo_attach_error:format(Why))
    catch
        error:_ -> io_lib:format("~0tP", [{bad_node, Why}, 20])
    end.

print(Text) ->
    io:put_chars(Text),
    0.

tell(#main{quiet = true}, _, _) -> ok;
tell(_, Format, Args) -> say(Format, Args).

say(Format, Args) ->
    progress("kymo: ~ts~n", [kymo_attach_text:clean(io_lib:format(Format, Args))]).

%% Standard error may be closed, or end while a node is recorded: the recording is fetched all the same.
progress(Format, Args) ->
    Text = io_lib:format(Format, Args),
    try
        io:put_chars(standard_error, Text)
    catch
        error:_ -> ok
    end.

-spec fail(term()) -> no_return().
fail(Why) -> throw({error, Why}).
