%% SPDX-License-Identifier: Apache-2.0
%%
%% Recordings of two nodes on one machine, shown as one timeline. The output of the commands is
%% compared with what the programs on both nodes read from the operating system's clock, with
%% causes planted on the other node, and with Perfetto's trace_processor.
-module(kymo_timeline_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-behaviour(gen_server).

-compile(export_all).
-compile(nowarn_export_all).

all() -> [times, by_messages, exact, remote_spawn, chain, casts, planted, printed, arrows, reported, attached, refusals].

init_per_suite(Config) ->
    [{module, _} = code:ensure_loaded(M) || M <- [kymo, kymo_nodes_SUITE]],
    case os:find_executable("epmd") of
        false -> {skip, "epmd is not installed"};
        Epmd -> [{epmd, Epmd} | Config]
    end.

end_per_suite(_) -> ok.

init_per_testcase(Case, Config) ->
    Dir = filename:join(?config(priv_dir, Config), atom_to_list(Case)),
    ok = file:make_dir(Dir),
    [{dir, Dir} | Config].

end_per_testcase(_, _) -> ok.

%% ---- what runs on the nodes ----

%% CLOCK_MONOTONIC in nanoseconds; both nodes share it.
os_now() ->
    {time, Time} = lists:keyfind(time, 1, erlang:system_info(os_monotonic_time_source)),
    erlang:convert_time_unit(Time, native, nanosecond).

spin(Ms) -> spin_until(os_now() + Ms * 1000000).

spin_until(Deadline) ->
    case os_now() < Deadline of
        true -> spin_until(Deadline);
        false -> ok
    end.

start_servers(Names) ->
    [{ok, _} = gen_server:start({local, Name}, ?MODULE, none, []) || Name <- Names],
    ok.

%% Until when no other request waited, what a request took, and where it went on.
ask(To, What) ->
    Begin = os_now(),
    Reply = gen_server:call(To, What, infinity),
    {Begin, Reply, os_now()}.

init(none) -> {ok, none}.

handle_call({spin, Ms}, _, none) ->
    Begin = os_now(),
    ?MODULE:spin(Ms),
    {reply, {Begin, os_now()}, none};
handle_call({sleep, Ms}, _, none) ->
    timer:sleep(Ms),
    {reply, ok, none};
handle_call({ask, To, What}, _, none) ->
    {reply, ?MODULE:ask(To, What), none};
%% Reports that it has begun, then stays busy for some time after the next request has arrived.
handle_call({hold, Tell, Ms}, _, none) ->
    Tell ! {began, self()},
    await_request(),
    ?MODULE:spin(Ms),
    {reply, ok, none}.

await_request() ->
    case process_info(self(), message_queue_len) of
        {message_queue_len, 0} -> erlang:yield(), await_request();
        _ -> ok
    end.

handle_cast({note, What, Collector}, none) ->
    Collector ! {noted, What, os_now()},
    {noreply, none}.

%% Casts with distinct and with equal contents, to a name and to a pid. Records when each was
%% sent, as {What, Before, After}, and when each was handled, in that order.
cast(Tos, N) ->
    Self = self(),
    Collector = spawn_link(fun() -> collect(Self, N, []) end),
    Sent = [
        begin
            What = case I rem 2 of 0 -> {tick, self()}; 1 -> {I, "text", <<"binary">>, #{map => I}} end,
            Before = os_now(),
            ok = gen_server:cast(lists:nth(1 + I rem length(Tos), Tos), {note, What, Collector}),
            {What, Before, os_now()}
        end
     || I <- lists:seq(1, N)
    ],
    receive {Collector, Handled} -> {Sent, Handled} end.

collect(To, 0, Noted) -> To ! {self(), lists:reverse(Noted)};
collect(To, N, Noted) -> receive {noted, What, At} -> collect(To, N - 1, [{What, At} | Noted]) end.

%% Keeps the server busy, called by a client on the server's own node.
hold(Server, Ms) ->
    Self = self(),
    spawn(fun() -> ok = gen_server:call(Server, {hold, Self, Ms}, infinity) end),
    receive {began, _} -> ok end.

record(Dir) ->
    {ok, _} = kymo:start(#{dir => Dir, owner => none, name => timeline, memory => 32 bsl 20}),
    {ok, _} = kymo:trace(timeline, #{
        functions => [atom_to_list(?MODULE) ++ F || F <- [":handle_call/3", ":handle_cast/2", ":spin/1", ":ask/2"]],
        events => [return_to, messages, running, procs, garbage_collection]
    }),
    ok.

stop() ->
    {ok, _} = kymo:stop(timeline),
    ok.

%% ---- recordings ----

%% Starts nodes a and b with servers; returns the result of Fun.
with_servers(Config, Fun) ->
    kymo_nodes_SUITE:with_nodes(Config, fun([{A, _}, {B, _}] = Nodes) ->
        ok = peer:call(A, ?MODULE, start_servers, [[front, other]]),
        ok = peer:call(B, ?MODULE, start_servers, [[back]]),
        [_, _] = [connected(Peer, Node) || {Peer, _} <- [hd(Nodes)], {_, Node} <- Nodes],
        Fun(Nodes)
    end).

connected(Peer, Node) -> pong = peer:call(Peer, net_adm, ping, [Node]).

%% Records both nodes while Fun runs. Returns the folder with both recordings.
recorded(Config, Name, [{A, _}, {B, _}], Fun) ->
    Dir = filename:join(?config(dir, Config), Name),
    ok = file:make_dir(Dir),
    [ok = peer:call(P, ?MODULE, record, [filename:join(Dir, F)], 60000) || {P, F} <- [{A, "a"}, {B, "b"}]],
    Result = Fun(),
    [ok = peer:call(P, ?MODULE, stop, [], 60000) || P <- [A, B]],
    {Dir, Result}.

call(Peer, Function, Args) -> peer:call(Peer, ?MODULE, Function, Args, 120000).

json(Args) ->
    {0, Out} = kymo_cli:run(Args),
    kymo_cli:json(binary_to_list(Out)).

requests(Dir, Options) ->
    #{<<"slowest">> := Requests} = json(["requests", "--json", "-q", "-n", "1000"] ++ Options ++ [Dir]),
    Requests.

%% Whether a pid in the timeline belongs to the node.
is_of(Node, Pid) -> string:prefix(Pid, "<" ++ atom_to_list(Node) ++ ".") =/= nomatch.

%% ---- requests ----

%% Both ends of each request, by the clock that the programs read: an interval on the timeline
%% is no longer than the interval between the programs' readings around it. An error in relating
%% the clocks violates this in one of the directions.
times(Config) ->
    with_servers(Config, fun([{A, NodeA}, {B, NodeB}] = Nodes) ->
        Tos = [{back, NodeB}, call(B, whereis_back, []), {back, NodeB}],
        {Dir, Asked} = recorded(Config, "rec", Nodes, fun() ->
            [call(A, ask, [To, {spin, 3}]) || _ <- lists:seq(1, 10), To <- Tos]
        end),
        Requests = lists:sort(
            fun(#{<<"sent_ns">> := X}, #{<<"sent_ns">> := Y}) -> X =< Y end,
            [Q || #{<<"function">> := F} = Q <- requests(Dir, []), is_handler(F)]
        ),
        ?assertEqual(length(Asked), length(Requests)),
        [compare(Q, T, NodeA, NodeB) || {Q, T} <- lists:zip(Requests, Asked)],
        #{<<"nodes">> := [#{<<"clock">> := <<"self">>}, #{<<"clock">> := Clock}]} =
            json(["requests", "--json", "-q", Dir]),
        ?assert(lists:member(Clock, [<<"counter">>, <<"clock">>]))
    end).

whereis_back() -> whereis(back).

is_handler(F) -> is_binary(F) andalso F =:= iolist_to_binary([atom_to_list(?MODULE), ":handle_call/3"]).

compare(Q, {Asked, {Begin, End}, Got}, NodeA, NodeB) ->
    #{<<"kind">> := <<"call">>, <<"ended">> := <<"replied">>, <<"client_pid">> := Client, <<"server_pid">> := Server,
        <<"total_ns">> := Total, <<"queued_ns">> := Queued, <<"handling_ns">> := Handling, <<"reply_ns">> := Reply} = Q,
    ?assert(is_of(NodeA, Client)),
    ?assert(is_of(NodeB, Server)),
    ?assertEqual(Total, Queued + Handling + Reply),
    %% 0 if the send was recorded only after the message had arrived.
    ?assert(Queued >= 0),
    ?assert(Reply >= 0),
    ?assert(Queued =< Begin - Asked),
    ?assert(Handling >= End - Begin),
    ?assert(Reply =< Got - End),
    ?assert(Total =< Got - Asked).

%% The same recordings, but as if made on two machines: the clock relation derived from the
%% messages is compared with the clock that both nodes actually share.
by_messages(Config) ->
    with_servers(Config, fun([{A, _}, {_, NodeB}] = Nodes) ->
        {Dir, _} = recorded(Config, "rec", Nodes, fun() ->
            [call(A, ask, [{back, NodeB}, {spin, 3}]) || _ <- lists:seq(1, 50)]
        end),
        Shared = by_time(requests(Dir, [])),
        ok = forget_machine(filename:join([Dir, "b", "meta"])),
        #{<<"nodes">> := [_, Relation]} = json(["requests", "--json", "-q", Dir]),
        #{<<"clock">> := <<"messages">>, <<"messages">> := Messages, <<"uncertainty_ns">> := Uncertainty} = Relation,
        ?assert(Messages >= 100),
        ?assert(Uncertainty > 0),
        Related = by_time(requests(Dir, [])),
        ?assertEqual(50, length(Shared)),
        [
            begin
                ?assert(QueuedThen >= 0 andalso ReplyThen >= 0),
                ?assert(abs(QueuedThen - Queued) =< Uncertainty),
                ?assert(abs(ReplyThen - Reply) =< Uncertainty)
            end
         || {{_, {Queued, Reply}}, {_, {QueuedThen, ReplyThen}}} <- lists:zip(Shared, Related)
        ],
        {0, Text} = kymo_cli:run(["requests", Dir]),
        {match, _} = re:run(Text, "are related to those of .* messages, and wrong by less than 0.00")
    end).

%% Requests between the nodes, in the order in which they were sent.
by_time(Requests) ->
    lists:sort([{Sent, {Queued, Reply}} || #{<<"sent_ns">> := Sent, <<"queued_ns">> := Queued, <<"reply_ns">> := Reply, <<"server">> := <<"back">>} <- Requests]).

%% Overwrites the boot id, at the end of the header, with an unknown one.
forget_machine(Meta) ->
    {ok, <<Header:4080/binary, Id:16/binary, Rest/binary>>} = file:read_file(Meta),
    Id =/= <<0:128>> orelse throw({skip, "the machine has no boot id"}),
    file:write_file(Meta, [Header, <<0:128>>, Rest]).

%% A runtime that reports nothing exactly next to one that may: each node is named.
exact(Config) ->
    with_servers(Config, fun([{A, NodeA}, {_, NodeB}] = Nodes) ->
        {Dir, _} = recorded(Config, "rec", Nodes, fun() -> call(A, ask, [{back, NodeB}, {spin, 3}]) end),
        Lines = fun() ->
            {0, Out} = kymo_cli:run(["why", "-q", Dir]),
            [L || <<"exact", _/binary>> = L <- binary:split(Out, <<"\n">>, [global])]
        end,
        #{<<"nodes">> := [#{<<"exact">> := Exact}, #{<<"exact">> := Exact}]} = json(["why", "--json", "-q", Dir]),
        Both = Lines(),
        ok = forget_exact(filename:join([Dir, "b", "meta"])),
        None = maps:map(fun(_, _) -> false end, Exact),
        #{<<"nodes">> := [#{<<"exact">> := Exact}, #{<<"exact">> := None}]} = json(["why", "--json", "-q", Dir]),
        case Exact of
            None ->
                ?assertEqual({[], []}, {Both, Lines()});
            _ ->
                [<<"exact: ", What/binary>>] = Both,
                ?assertEqual(
                    [iolist_to_binary(["exact on ", atom_to_list(NodeA), ": ", What]),
                     iolist_to_binary(["exact on ", atom_to_list(NodeB), ": nothing"])],
                    Lines()
                )
        end
    end).

%% See struct kymo_meta.
forget_exact(Meta) ->
    {ok, <<Header:608/binary, _:4/binary, Rest/binary>>} = file:read_file(Meta),
    file:write_file(Meta, [Header, <<0:32>>, Rest]).

%% erpc and rpc: the client is on one node, the process that does the work on the other.
remote_spawn(Config) ->
    with_servers(Config, fun([{A, NodeA}, {_, NodeB}] = Nodes) ->
        {Dir, _} = recorded(Config, "rec", Nodes, fun() ->
            ok = peer:call(A, erpc, call, [NodeB, ?MODULE, spin, [20]], 120000),
            ok = peer:call(A, rpc, call, [NodeB, ?MODULE, spin, [30]], 120000)
        end),
        Spawned = [{H, Q} || #{<<"kind">> := <<"spawn">>, <<"handling_ns">> := H} = Q <- requests(Dir, [])],
        %% Sorted anew: requests come by the time that they took as a whole.
        [{_, Second}, {_, First}] = lists:keysort(1, Spawned),
        [
            begin
                #{<<"client_pid">> := Client, <<"server_pid">> := Server, <<"handling_ns">> := Handling,
                    <<"inferred">> := Inferred} = Q,
                ?assert(is_of(NodeA, Client)),
                ?assert(is_of(NodeB, Server)),
                ?assert(Inferred),
                ?assert(Handling >= Ms * 1000000)
            end
         || {Q, Ms} <- [{First, 30}, {Second, 20}]
        ]
    end).

%% A request that went to the other node and back is one row, with the requests made on its
%% behalf below.
chain(Config) ->
    with_servers(Config, fun([{A, NodeA}, {_, NodeB}] = Nodes) ->
        {Dir, _} = recorded(Config, "rec", Nodes, fun() ->
            call(A, ask, [front, {ask, {back, NodeB}, {ask, {other, NodeA}, {spin, 20}}}])
        end),
        [Outer | _] = requests(Dir, ["--tree"]),
        #{<<"requests">> := [#{<<"server">> := <<"back">>, <<"requests">> := [Inner]}], <<"server">> := <<"front">>} = Outer,
        #{<<"server">> := <<"other">>, <<"client_pid">> := Client, <<"server_pid">> := Server, <<"requests">> := []} = Inner,
        ?assert(is_of(NodeB, Client)),
        ?assert(is_of(NodeA, Server)),
        %% The cause is two nodes away from the server that the client called.
        #{<<"parts">> := Parts} = why(Dir, NodeA),
        ?assert(lists:member({<<"running">>, <<"other">>}, [{C, P} || #{<<"cause">> := C, <<"process">> := P} <- Parts]))
    end).

%% Casts carry no reference, and the receiver does not learn the sender, so they are matched by
%% contents. Each matched cast was sent and handled when the programs say so, although half of
%% them have equal contents; most are matched.
casts(Config) ->
    with_servers(Config, fun([{A, NodeA}, {B, NodeB}] = Nodes) ->
        Tos = [{back, NodeB}, call(B, whereis_back, []), {back, NodeB}],
        N = 200,
        {Dir, {Sent, Handled}} = recorded(Config, "rec", Nodes, fun() ->
            %% Until a server has waited once, its mailbox may hold messages of before the recording.
            _ = peer:call(B, sys, get_state, [back], 120000),
            call(A, cast, [Tos, N])
        end),
        ?assertEqual([What || {What, _, _} <- Sent], [What || {What, _} <- Handled]),
        Times = [{Before, After, At} || {{_, Before, After}, {_, At}} <- lists:zip(Sent, Handled)],
        T0 = lists:min([began(filename:join(Dir, F)) || F <- ["a", "b"]]),
        Found = [
            {T0 + SentAt, T0 + HandledAt, Client, Server}
         || #{<<"kind">> := <<"cast">>, <<"sent_ns">> := SentAt, <<"client_pid">> := Client, <<"server_pid">> := Server,
              <<"queued_ns">> := Queued} <- requests(Dir, ["--casts"]),
            is_integer(Queued), HandledAt <- [SentAt + Queued]
        ],
        ct:pal("~b of ~b casts found", [length(Found), N]),
        ?assert(length(Found) * 2 > N),
        [
            begin
                ?assert(is_of(NodeA, Client) andalso is_of(NodeB, Server)),
                [At] = [H || {Before, After, H} <- Times, Before =< S, S =< After],
                Earlier = lists:max([0 | [H || {_, _, H} <- Times, H < At]]),
                ?assertMatch({_, _, _, true}, {Earlier, Begin, At, Earlier =< Begin andalso Begin =< At})
            end
         || {S, Begin, Client, Server} <- Found
        ]
    end).

%% CLOCK_MONOTONIC when the recording was opened; see doc/format.md.
began(Dir) ->
    {ok, <<_:80/binary, T0:64/native, _/binary>>} = file:read_file(filename:join(Dir, "meta")),
    T0.

%% The answer for the slowest request of a client on that node.
why(Dir, Node) ->
    #{<<"answers">> := Answers} = json(["why", "--json", "--path", "-q", "-n", "100", Dir]),
    hd([Answer || #{<<"process_pid">> := Client} = Answer <- Answers, is_of(Node, Client)]).

%% Causes on the other node than the client's. If the machine is busy with other programs, the
%% largest part may be a preempted processor, which the recording does not show: then the cause
%% is planted again.
planted(Config) ->
    with_servers(Config, fun([{A, _}, {B, NodeB}] = Nodes) ->
        Back = {back, NodeB},
        [
            plant(Config, Nodes, Name, Expected, Plant, 5)
         || {Name, Expected, Plant} <- [
                {busy_server, <<"running">>, fun() -> call(A, ask, [Back, {spin, 100}]) end},
                {sleeping_server, <<"timer">>, fun() -> call(A, ask, [Back, {sleep, 100}]) end},
                {busy_queue, <<"queue">>, fun() ->
                    ok = call(B, hold, [back, 100]),
                    call(A, ask, [Back, {spin, 0}])
                end},
                {remote_spawn, <<"running">>, fun() ->
                    ok = peer:call(A, erpc, call, [NodeB, ?MODULE, spin, [100]], 120000)
                end}
            ]
        ]
    end).

plant(Config, [{_, NodeA}, {_, NodeB}] = Nodes, Name, Expected, Plant, Tries) ->
    {Dir, _} = recorded(Config, lists:concat([Name, "_", Tries]), Nodes, Plant),
    #{<<"total_ns">> := Total, <<"parts">> := [Part | _] = Parts} = why(Dir, NodeA),
    ?assertEqual(Total, lists:sum([N || #{<<"ns">> := N} <- Parts])),
    case Part of
        #{<<"cause">> := Expected, <<"process_pid">> := Pid, <<"function">> := Function} ->
            ?assert(is_of(NodeB, Pid)),
            InSpin = iolist_to_binary([atom_to_list(?MODULE), ":spin/1"]),
            Expected =:= <<"timer">> orelse ?assertEqual(InSpin, Function),
            %% The time on the network is named, too, unless the recording has none: a send to
            %% another node may be recorded after the message made its receiver run.
            Named = lists:any(fun(#{<<"cause">> := C}) -> C =:= <<"network">> end, Parts),
            Transits = transits(Dir, NodeB),
            ?assertMatch({_, _, true}, {Name, Transits, Named orelse (Transits =/= [] andalso lists:max(Transits) =< 0)});
        #{<<"cause">> := Other} ->
            %% Unknown, or whatever used the processor, but never another cause.
            Wrong = not lists:member(Other, [<<"unknown">>, <<"scheduler">>, <<"network">>, <<"node">>]),
            ?assertEqual({Name, Other, false}, {Name, Other, Wrong}),
            Tries > 1 orelse ct:fail({not_named, Name, Other}),
            plant(Config, Nodes, Name, Expected, Plant, Tries - 1)
    end.

%% For each reply that was sent on a node: the time (ns) from the record of its send to the
%% beginning of the run in which it was received.
transits(Dir, Node) ->
    {0, Out} = kymo_cli:run(["print", "-q", "--json", Dir]),
    Events = [kymo_cli:json(binary_to_list(L) ++ "\n") || L <- binary:split(Out, <<"\n">>, [global, trim])],
    Replies = [
        {Event, Ref, Ns, P}
     || #{<<"message">> := <<"reply">>, <<"event">> := Event, <<"reference">> := Ref, <<"ns">> := Ns, <<"process">> := P} <-
            Events
    ],
    [
        lists:max([0 | [Ns || #{<<"event">> := <<"in">>, <<"process">> := P, <<"ns">> := Ns} <- Events,
                              P =:= Client, Ns < Received]]) - Sent
     || {<<"send">>, Ref, Sent, Server} <- Replies, is_of(Node, Server),
        {<<"receive">>, R, Received, Client} <- Replies, R =:= Ref, not is_of(Node, Client)
    ].

%% ---- other commands ----

%% The events of both nodes in order of time; those of one node; those of one process.
printed(Config) ->
    with_servers(Config, fun([{A, NodeA}, {_, NodeB}] = Nodes) ->
        {Dir, _} = recorded(Config, "rec", Nodes, fun() -> call(A, ask, [{back, NodeB}, {spin, 0}]) end),
        [DirA, DirB] = [filename:join(Dir, F) || F <- ["a", "b"]],
        Lines = fun(Options) ->
            {0, Out} = kymo_cli:run(["print", "-q", "--json"] ++ Options),
            [kymo_cli:json(binary_to_list(L) ++ "\n") || L <- binary:split(Out, <<"\n">>, [global, trim])]
        end,
        All = Lines([Dir]),
        ?assertEqual(length(Lines([DirA])) + length(Lines([DirB])), length(All)),
        Times = [Ns || #{<<"ns">> := Ns} <- All],
        ?assertEqual(lists:sort(Times), Times),
        ?assertEqual(All, Lines([DirA, DirB])),
        %% Selects one process of node b by its name, and by its pid with and without the node.
        [#{<<"process">> := Pid} | _] = OfBack = Lines(["--pid", "back", Dir]),
        ?assert(is_of(NodeB, Pid)),
        ?assertEqual(OfBack, Lines(["--pid", binary_to_list(Pid), Dir])),
        Local = re:replace(Pid, "^<.*\\.(\\d+\\.\\d+)>$", "<0.\\1>", [{return, list}]),
        ?assertEqual([], OfBack -- Lines(["--pid", Local, Dir])),
        %% The messages of the request. A send to another node may be recorded after the message
        %% was received.
        Kinds = [
            {E, M, is_of(NodeA, P)}
         || #{<<"event">> := E, <<"message">> := M, <<"reference">> := Ref, <<"process">> := P} <- All,
            M =:= <<"call">> orelse M =:= <<"reply">>,
            lists:member(Ref, [R || #{<<"reference">> := R} <- OfBack])
        ],
        ?assertEqual(
            lists:sort([{<<"send">>, <<"call">>, true}, {<<"receive">>, <<"call">>, false},
                {<<"send">>, <<"reply">>, false}, {<<"receive">>, <<"reply">>, true}]),
            lists:sort(Kinds)
        ),
        {2, Text} = kymo_cli:run(["print", "--pid", "<node@host.1>", Dir]),
        {match, _} = re:run(Text, "is not a process")
    end).

%% Arrows between the processes of the operating system, in Perfetto's own tables.
arrows(Config) ->
    with_servers(Config, fun([{A, NodeA}, {_, NodeB}] = Nodes) ->
        {Dir, _} = recorded(Config, "rec", Nodes, fun() ->
            [call(A, ask, [{back, NodeB}, {spin, 0}]) || _ <- lists:seq(1, 30)]
        end),
        Out = filename:join(?config(dir, Config), "both.perfetto-trace"),
        {0, <<>>} = kymo_cli:run(["export", "perfetto", "-q", "-o", Out, Dir]),
        Processes = "select name from process where name is not null order by name",
        Arrows =
            "select p.name, q.name, count(*), sum(a.ts > b.ts) from flow f "
            "join slice a on f.slice_out = a.id join slice b on f.slice_in = b.id "
            "join thread_track s on a.track_id = s.id join thread_track t on b.track_id = t.id "
            "join thread x on s.utid = x.utid join thread y on t.utid = y.utid "
            "join process p on x.upid = p.upid join process q on y.upid = q.upid "
            "where p.upid != q.upid group by 1, 2 order by 1, 2",
        [Names, Rows] = kymo_trace_processor:query(kymo_trace_processor:find(), Out, [Processes, Arrows]),
        [TextA, TextB] = [atom_to_binary(N) || N <- [NodeA, NodeB]],
        ?assertEqual(lists:sort([TextA, TextB]), lists:usort(lists:append(Names))),
        %% In each direction, most of 30; sends that were recorded late have no arrow.
        [?assert(N >= 5 andalso Back =:= 0) || [_, _, N, Back] <- Rows],
        ?assertEqual(lists:sort([{TextA, TextB}, {TextB, TextA}]), [{F, T} || [F, T | _] <- Rows])
    end).

%% The report of both recordings names the cause on the other node.
reported(Config) ->
    with_servers(Config, fun([{A, _}, {_, NodeB}] = Nodes) ->
        {Dir, _} = recorded(Config, "rec", Nodes, fun() -> call(A, ask, [{back, NodeB}, {sleep, 60}]) end),
        Out = filename:join(?config(dir, Config), "both.html"),
        {0, <<>>} = kymo_cli:run(["report", "-q", "-o", Out, Dir]),
        {ok, Html} = file:read_file(Out),
        [{match, _} = re:run(Html, Text) || Text <- ["\"cause\":\"timer\"", "<?" ++ atom_to_list(NodeB) ++ "\\."]]
    end).

%% The recordings that `kymo attach' fetches from several nodes form a timeline.
attached(Config) ->
    with_servers(Config, fun([{A, NodeA}, {_, NodeB}]) ->
        Out = filename:join(?config(dir, Config), "rec"),
        Client = call(A, start_client, [{back, NodeB}]),
        Port = peer:call(A, os, getenv, ["ERL_EPMD_PORT"]),
        {ok, Cookie} = cookie_file(Config),
        true = os:putenv("ERL_EPMD_PORT", Port),
        try
            {0, _} = kymo_cli:run(
                ["attach", "-q", "--cookie-file", Cookie, "--for", "2s", "-o", Out] ++
                    [atom_to_list(N) || N <- [NodeA, NodeB]]
            )
        after
            os:unsetenv("ERL_EPMD_PORT")
        end,
        true = exit(Client, kill),
        ?assertEqual(lists:sort([atom_to_list(N) || N <- [NodeA, NodeB]]), lists:sort(ls(Out))),
        Across = [
            Q
         || #{<<"server">> := <<"back">>, <<"ended">> := <<"replied">>, <<"client_pid">> := C} = Q <- requests(Out, []),
            is_of(NodeA, C)
        ],
        ?assertNotEqual([], Across)
    end).

ls(Dir) ->
    {ok, Names} = file:list_dir(Dir),
    Names.

start_client(To) -> spawn(fun() -> ask_on(To) end).

ask_on(To) ->
    _ = ask(To, {sleep, 1}),
    ask_on(To).

%% The cookie of the nodes of kymo_nodes_SUITE.
cookie_file(Config) ->
    File = filename:join(?config(dir, Config), "cookie"),
    ok = file:write_file(File, "kymo_nodes"),
    ok = file:change_mode(File, 8#400),
    {ok, File}.

%% Folders that do not form a timeline.
refusals(Config) ->
    with_servers(Config, fun([{A, _}, _] = Nodes) ->
        {Dir, _} = recorded(Config, "rec", Nodes, fun() -> ok end),
        [DirA, DirB] = [filename:join(Dir, F) || F <- ["a", "b"]],
        Again = filename:join(?config(dir, Config), "again"),
        ok = call(A, record, [Again]),
        ok = call(A, stop, []),
        Empty = filename:join(?config(dir, Config), "empty"),
        ok = file:make_dir(Empty),
        [
            begin
                {Status, Text} = kymo_cli:run(Args),
                {match, _} = re:run(Text, Says)
            end
         || {Status, Says, Args} <- [
                {2, "the same recording", ["requests", DirA, DirB, DirA]},
                {2, "recordings of the same node", ["why", DirA, Again]},
                {3, "not a recording", ["requests", DirA, Empty]},
                {3, "not a recording", ["requests", Empty]},
                {2, "a recording is needed", ["requests"]},
                {3, "not a recording, but it holds 2: give one of them, such as .*/rec/a", ["stats", Dir]},
                {0, "no time in common with the others", ["print", "-n", "1", DirB, Again]},
                {2, "ctf takes one recording, there are 2", ["export", "ctf", DirA, DirB, "-o", "x"]},
                {2, "is inside the recording", ["export", "perfetto", DirA, DirB, "-o", filename:join(DirB, "x")]},
                {2, "name one recording, not 2", ["print", "-f", DirA, DirB]}
            ]
        ]
    end).
