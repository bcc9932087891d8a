%% SPDX-License-Identifier: Apache-2.0
%% @private A client of the distribution protocol that is not a node.
%%
%% A node trusts the nodes that it is connected to: any of them may start processes in it, call
%% functions and load code, which here would run as the user of the command. So this side sends
%% what only a node can send, and does nothing that the other side asks for. It takes answers to
%% its own requests, and the ends of processes that it monitors, and drops everything else.
%%
%% A process of this side has a process identifier of the client's name in the node; {@link me/1}
%% returns it. One process holds the connection, for all of them. It ends with the process that has
%% connected.
-module(kymo_attach_wire).

-export([connect/3, disconnect/1, is_connected/1, me/1, tag/1, spawn_request/4, request/4, send/3, monitor/2, demonitor/2, unlink/2, exit/3]).
-export_type([tag/0]).

%% A reference that belongs to the client's name.
-type tag() :: reference().

-record(wire, {
    node :: node(),
    client :: kymo_attach_handshake:client(),
    socket :: kymo_attach_handshake:socket(),
    owner :: pid(),
    %% The processes of this side that the node knows.
    processes = #{} :: #{InNode :: pid() => pid()},
    %% Answers that are expected, and by whom.
    tags = #{} :: #{tag() => pid()},
    %% Processes of the node that are monitored, and by whom.
    monitors = #{} :: #{tag() => {pid(), starting | pid()}},
    %% Monitors of the node.
    monitored = #{} :: #{reference() => {InNode :: pid(), By :: pid()}},
    %% Bytes that have been read with new atoms.
    strange = 0 :: non_neg_integer(),
    %% Since the last tick.
    sent = false :: boolean(),
    silent = 0 :: non_neg_integer()
}).

%% Messages of the protocol.
-define(SEND, 2).
-define(EXIT2, 8).
-define(SEND_TT, 12).
-define(MONITOR_P, 19).
-define(DEMONITOR_P, 20).
-define(MONITOR_P_EXIT, 21).
-define(SPAWN_REQUEST, 29).
-define(SPAWN_REPLY, 31).
-define(UNLINK_ID, 35).

-define(PASS_THROUGH, 112).
-define(VERSION, 131).
-define(COMPRESSED, 80).
-define(SMALL_ATOM_UTF8, 119).
-define(ATOM_UTF8, 118).
-define(NEW_PID, 88).
-define(NEWER_REFERENCE, 90).

%% Atoms are never removed. An atom has at least three bytes in a message, and a million are possible.
-define(MAX_STRANGE, (1 bsl 20)).
%% The node monitors one process for each snapshot under way, and one more.
-define(MAX_MONITORED, 1000).
-define(TICK, 5000).
%% A node sends something every 15 seconds, unless its net_ticktime was changed.
-define(MAX_SILENT, (75000 div ?TICK)).

%% ---- this side ---------------------------------------------------------------

%% @doc Connects for the calling process and those that it starts, unless it is connected. The message `abort'
%% ends the wait.
-spec connect(node(), kymo_attach_handshake:client(), Ms :: pos_integer()) ->
    ok | {error, kymo_attach_handshake:error() | timeout}.
connect(Node, Client, Ms) ->
    case get({?MODULE, connection, Node}) of
        undefined -> connect_new(Node, Client, Ms);
        Pid -> connect_again(Node, Client, Ms, is_process_alive(Pid))
    end.

connect_again(_, _, _, true) ->
    ok;
connect_again(Node, Client, Ms, false) ->
    %% The new connection does not know this process yet.
    _ = erase({?MODULE, Node}),
    connect_new(Node, Client, Ms).

connect_new(Node, Client, Ms) ->
    Owner = self(),
    %% Of an earlier connection.
    _ = erase({?MODULE, Node}),
    {Pid, Monitor} = spawn_monitor(fun() -> init(Owner, Node, Client, Ms) end),
    Result =
        receive
            {Pid, Answer} -> Answer;
            {'DOWN', Monitor, process, Pid, Why} -> {error, {refused, Why}};
            abort -> aborted
        after Ms -> {error, timeout}
        end,
    true = erlang:demonitor(Monitor, [flush]),
    Result =:= ok orelse erlang:exit(Pid, kill),
    Result =:= ok andalso put({?MODULE, connection, Node}, Pid),
    Result =:= aborted andalso throw({error, aborted}),
    Result.

connection(Node) -> persistent_term:get({?MODULE, Node}).

%% @doc Whether the connection still exists.
-spec is_connected(node()) -> boolean().
is_connected(Node) ->
    {Pid, _} = connection(Node),
    is_process_alive(Pid).

%% @doc Ends the connection, and drops what it has still brought to the calling process.
-spec disconnect(node()) -> ok.
disconnect(Node) ->
    {Pid, _} = connection(Node),
    Monitor = erlang:monitor(process, Pid),
    true = erlang:exit(Pid, kill),
    receive {'DOWN', Monitor, process, Pid, _} -> drop() end.

%% References of the client's name are not those of this runtime.
drop() ->
    receive
        {Tag, _} when is_reference(Tag), node(Tag) =/= node() -> drop();
        {'DOWN', Tag, process, _, _} when node(Tag) =/= node() -> drop()
    after 0 -> ok
    end.

%% @doc The identifier of the calling process in the node.
-spec me(node()) -> pid().
me(Node) ->
    case get({?MODULE, Node}) of
        undefined ->
            {Pid, Client} = connection(Node),
            InNode = pid(Client, erlang:unique_integer([positive]) band 16#fffffff),
            put({?MODULE, Node}, InNode),
            Pid ! {process, InNode, self()},
            InNode;
        InNode ->
            InNode
    end.

%% @doc A new reference.
-spec tag(node()) -> tag().
tag(Node) ->
    {_, Client} = connection(Node),
    reference(Client).

%% @doc Starts a process in the node. The options are `monitor', and those of spawn_opt/4 in the node. The
%% calling process receives `{spawned, Tag, Pid}' if the options contain `spawned', and `{'DOWN', Tag, process,
%% Pid, Reason}' at its end, where Pid is `starting' if it has not been started.
-spec spawn_request(node(), mfa_list(), Options :: [term()], Expected :: [tag()]) -> tag().
-type mfa_list() :: {module(), Function :: atom(), Arguments :: [term()]}.
spawn_request(Node, MFA, Options, Expected) ->
    Me = me(Node),
    Tag = tag(Node),
    to(Node, {spawn, self(), Me, Tag, MFA, Options, Expected}),
    Tag.

%% @doc Sends a message that the node answers once, with `{Tag, Answer}' to the calling process.
-spec request(node(), pid(), tag(), Message :: term()) -> ok.
request(Node, To, Tag, Message) -> to(Node, {request, self(), Tag, To, Message}).

%% @doc Sends a message.
-spec send(node(), pid(), Message :: term()) -> ok.
send(Node, To, Message) -> to(Node, {send, To, Message}).

%% @doc Monitors a process of the node.
-spec monitor(node(), pid()) -> tag().
monitor(Node, Pid) ->
    Me = me(Node),
    Tag = tag(Node),
    to(Node, {monitor, self(), Me, Tag, Pid}),
    Tag.

%% @doc Ends a monitor. Its message may be there already.
-spec demonitor(node(), tag()) -> ok.
demonitor(Node, Tag) -> to(Node, {demonitor, me(Node), Tag}).

%% @doc Removes the link between a process of the node and the calling one.
-spec unlink(node(), pid()) -> ok.
unlink(Node, Pid) -> to(Node, {control, {?UNLINK_ID, erlang:unique_integer([positive]), me(Node), Pid}}).

%% @doc Sends an exit signal.
-spec exit(node(), pid(), Reason :: term()) -> ok.
exit(Node, Pid, Reason) -> to(Node, {control, {?EXIT2, me(Node), Pid, Reason}}).

to(Node, What) ->
    {Pid, _} = connection(Node),
    Pid ! What,
    ok.

%% ---- the process that holds the connection -------------------------------------

init(Owner, Node, Client, Ms) ->
    _ = erlang:monitor(process, Owner),
    case kymo_attach_handshake:connect(Node, Client, Ms) of
        {ok, Socket} ->
            persistent_term:put({?MODULE, Node}, {self(), Client}),
            Owner ! {self(), ok},
            tick(),
            next(#wire{node = Node, client = Client, socket = Socket, owner = Owner});
        {error, _} = Error ->
            Owner ! {self(), Error}
    end.

tick() -> erlang:send_after(?TICK, self(), tick).

next(#wire{socket = Socket} = W) ->
    case kymo_attach_handshake:wait_for_next(Socket) of
        ok -> loop(W);
        {error, _} -> closed(W)
    end.

loop(#wire{socket = {_, Socket}, owner = Owner} = W) ->
    receive
        {Protocol, Socket, Data} when Protocol =:= tcp; Protocol =:= ssl ->
            case received(Data, W#wire{silent = 0}) of
                {ok, Read} -> next(Read);
                bad -> closed(W)
            end;
        {Closed, Socket} when Closed =:= tcp_closed; Closed =:= ssl_closed -> closed(W);
        {Error, Socket, _} when Error =:= tcp_error; Error =:= ssl_error -> closed(W);
        {'DOWN', _, process, Owner, _} -> ok;
        {'DOWN', _, process, Pid, _} -> loop(ended(Pid, W));
        tick when W#wire.silent >= ?MAX_SILENT -> closed(W);
        tick ->
            _ = tick(),
            W#wire.sent orelse sent(W, []),
            loop(W#wire{sent = false, silent = W#wire.silent + 1});
        Other ->
            loop(do(Other, W))
    end.

do({process, InNode, Pid}, #wire{processes = Processes} = W) ->
    _ = erlang:monitor(process, Pid),
    W#wire{processes = Processes#{InNode => Pid}};
do({spawn, From, Me, Tag, {M, F, Args}, Options, Expected}, #wire{monitors = Monitors} = W) ->
    Pending = lists:foldl(fun(T, Tags) -> Tags#{T => From} end, W#wire.tags, Expected ++ [Tag || lists:member(spawned, Options)]),
    message({?SPAWN_REQUEST, Tag, Me, leader(W), {M, F, length(Args)}, Options -- [spawned]}, Args, W#wire{
        tags = Pending, monitors = Monitors#{Tag => {From, starting}}
    });
do({request, From, Tag, To, Message}, #wire{tags = Tags} = W) ->
    message(to(To), Message, W#wire{tags = Tags#{Tag => From}});
do({send, To, Message}, W) ->
    message(to(To), Message, W);
do({monitor, From, Me, Tag, Pid}, #wire{monitors = Monitors} = W) ->
    control({?MONITOR_P, Me, Pid, Tag}, W#wire{monitors = Monitors#{Tag => {From, Pid}}});
do({demonitor, Me, Tag}, #wire{monitors = Monitors} = W) ->
    case maps:take(Tag, Monitors) of
        {{_, starting}, Others} -> W#wire{monitors = Others};
        {{_, Pid}, Others} -> control({?DEMONITOR_P, Me, Pid, Tag}, W#wire{monitors = Others});
        error -> W
    end;
do({control, Control}, W) ->
    control(Control, W).

to(Pid) -> {?SEND, '', Pid}.

control(Control, W) -> sent(W, [?PASS_THROUGH, encoded(Control)]).

message(Control, Message, W) -> sent(W, [?PASS_THROUGH, encoded(Control), encoded(Message)]).

encoded(Term) -> term_to_binary(Term, [{minor_version, 2}]).

%% An error is followed by the message that the connection is closed.
sent(#wire{socket = Socket} = W, Data) ->
    _ = kymo_attach_handshake:send(Socket, Data),
    W#wire{sent = true}.

%% A process of this side has ended. The node removes what it keeps for that process.
ended(Pid, #wire{processes = Processes, monitored = Monitored} = W) ->
    Gone = [InNode || {InNode, P} <- maps:to_list(Processes), P =:= Pid],
    Left = maps:filter(fun(_, {InNode, _}) -> not lists:member(InNode, Gone) end, Monitored),
    _ = [control({?MONITOR_P_EXIT, InNode, By, Ref, normal}, W) || {Ref, {InNode, By}} <- maps:to_list(maps:without(maps:keys(Left), Monitored))],
    W#wire{
        processes = maps:without(Gone, Processes),
        tags = maps:filter(fun(_, P) -> P =/= Pid end, W#wire.tags),
        monitors = maps:filter(fun(_, {P, _}) -> P =/= Pid end, W#wire.monitors),
        monitored = Left
    }.

closed(#wire{monitors = Monitors}) ->
    _ = [From ! {'DOWN', Tag, process, Pid, noconnection} || {Tag, {From, Pid}} <- maps:to_list(Monitors)],
    ok.

%% ---- what the node sends ---------------------------------------------------------

%% A node ticks a client that is not a node only in answer.
received(<<>>, W) -> {ok, sent(W, [])};
received(Data, W) ->
    try
        ?PASS_THROUGH = binary:first(Data),
        {Control, After, Known} = read(rest(Data, 1), W),
        {ok, handled(Control, After, Known)}
    catch
        _:_ -> bad
    end.

rest(Data, From) -> binary:part(Data, From, byte_size(Data) - From).

%% Reads a term, and returns what follows it. The runtime allocates as much as a compressed term
%% claims to need, and a node does not send any.
read(Data, #wire{strange = Strange} = W) ->
    true = byte_size(Data) < 2 orelse binary:at(Data, 1) =/= ?COMPRESSED,
    try binary_to_term(Data, [safe, used]) of
        {Term, Used} -> {Term, rest(Data, Used), W}
    catch
        error:badarg when Strange < ?MAX_STRANGE ->
            {Term, Used} = binary_to_term(Data, [used]),
            {Term, rest(Data, Used), W#wire{strange = Strange + Used}}
    end.

handled({?SEND, _, To}, After, W) -> delivered(To, After, W);
handled({?SEND_TT, _, To, _}, After, W) -> delivered(To, After, W);
handled({?SPAWN_REPLY, Tag, _, _, Result}, _, W) -> spawned(Tag, Result, W);
handled({?MONITOR_P_EXIT, _, _, Tag, Why}, _, #wire{monitors = Monitors} = W) ->
    case maps:take(Tag, Monitors) of
        {{From, Pid}, Others} ->
            From ! {'DOWN', Tag, process, Pid, Why},
            W#wire{monitors = Others};
        error ->
            W
    end;
handled({?MONITOR_P, By, Of, Ref}, _, #wire{processes = Processes, monitored = Monitored} = W) when is_pid(By), is_reference(Ref) ->
    case is_map_key(Of, Processes) of
        true when map_size(Monitored) < ?MAX_MONITORED -> W#wire{monitored = Monitored#{Ref => {Of, By}}};
        _ -> control({?MONITOR_P_EXIT, Of, By, Ref, noproc}, W)
    end;
handled({?DEMONITOR_P, _, _, Ref}, _, #wire{monitored = Monitored} = W) ->
    W#wire{monitored = maps:remove(Ref, Monitored)};
handled(_, _, W) ->
    W.

%% Nothing but answers arrives at the processes of this side.
delivered(To, After, #wire{processes = Processes, tags = Tags} = W) when is_map_key(To, Processes) ->
    case read(After, W) of
        {{Tag, Answer}, _, Read} when is_map_key(Tag, Tags) ->
            {From, Others} = maps:take(Tag, Tags),
            From ! {Tag, Answer},
            Read#wire{tags = Others};
        {_, _, Read} ->
            Read
    end;
delivered(_, _, W) ->
    W.

spawned(Tag, Pid, #wire{node = Node, tags = Tags, monitors = Monitors} = W) when is_pid(Pid), node(Pid) =:= Node ->
    case Monitors of
        #{Tag := {From, starting}} ->
            is_map_key(Tag, Tags) andalso (From ! {spawned, Tag, Pid}),
            W#wire{tags = maps:remove(Tag, Tags), monitors = Monitors#{Tag := {From, Pid}}};
        _ ->
            W
    end;
spawned(Tag, Why, #wire{monitors = Monitors} = W) ->
    case maps:take(Tag, Monitors) of
        {{From, Pid}, Others} ->
            From ! {'DOWN', Tag, process, Pid, Why},
            W#wire{monitors = Others};
        error ->
            W
    end.

%% ---- identifiers ------------------------------------------------------------------

pid(Client, N) -> made([?NEW_PID, name(Client), number(N), number(0), creation(Client)]).

%% The group leader of what is started in the node: its first process, which ignores what a group leader is
%% asked. The logger of the node sends an error of a process to the node of its group leader, and so would
%% connect to this side again.
leader(#wire{node = Node}) -> pid(#{name => atom_to_list(Node), creation => 0}, 0).

%% The first of the words has 18 bits.
reference(Client) ->
    Words = [number(rand:uniform(1 bsl 18) - 1), number(rand:uniform(1 bsl 32) - 1), number(rand:uniform(1 bsl 32) - 1)],
    made([?NEWER_REFERENCE, 0, 3, name(Client), creation(Client), Words]).

made(Data) -> binary_to_term(iolist_to_binary([?VERSION, Data])).

name(#{name := Name}) ->
    Text = unicode:characters_to_binary(Name),
    case byte_size(Text) of
        Size when Size < 256 -> [?SMALL_ATOM_UTF8, Size, Text];
        Size -> [?ATOM_UTF8, Size bsr 8, Size band 255, Text]
    end.

creation(#{creation := Creation}) -> number(Creation).

number(N) -> [(N bsr Shift) band 255 || Shift <- [24, 16, 8, 0]].
