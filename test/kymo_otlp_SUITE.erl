%% SPDX-License-Identifier: Apache-2.0
%%
%% `kymo export otlp': what it writes and posts is read with OpenTelemetry's own definitions,
%% and compared with what the recorded program knows about itself.
-module(kymo_otlp_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-compile(export_all).
-compile(nowarn_export_all).

all() ->
    [
        chain, parts_and_times, calls_and_collections, queued_behind, casts, without_callbacks, not_answered,
        same_ids, windows, nodes_together, across_nodes, lines_are_bounded, metrics, reports, posted, received, metrics_received, no_metrics_wanted, posted_with_tls, tries_again, gives_up,
        partial_success, without_library, refusals
    ].

-define(INTERNAL, 1).
-define(SERVER, 2).
-define(CLIENT, 3).
-define(PRODUCER, 4).
-define(CONSUMER, 5).

init_per_suite(Config) ->
    [{module, _} = code:ensure_loaded(M) || M <- [kymo, kymo_otlp_work]],
    case kymo_npm:packages(data(Config, "decoder")) of
        {ok, Packages} ->
            %% The receiver is on this machine, so no proxy may be used.
            Before = [{V, os:getenv(V)} || V <- ["no_proxy", "NO_PROXY"]],
            [os:putenv(V, "127.0.0.1,localhost") || {V, _} <- Before],
            [{packages, Packages}, {before, Before} | record_chain(Config)];
        Skip ->
            Skip
    end.

end_per_suite(Config) ->
    [
        case Value of
            false -> os:unsetenv(V);
            _ -> os:putenv(V, Value)
        end
     || {V, Value} <- ?config(before, Config)
    ],
    ok.

init_per_testcase(Case, Config) ->
    Dir = filename:join(?config(priv_dir, Config), atom_to_list(Case)),
    ok = file:make_dir(Dir),
    [{dir, Dir} | Config].

end_per_testcase(_, _) ->
    ok.

%% ---- what is recorded ----

%% The callbacks and what they call, except the spin loop.
-define(WORK, ["kymo_otlp_work:handle_call/3", "kymo_otlp_work:handle_cast/2", "kymo_otlp_work:ask/2", "kymo_otlp_work:spin/1"]).

record(Dir, Fun) -> record(Dir, ?WORK, Fun).

record(Dir, Functions, Fun) ->
    {ok, R} = kymo:start(#{dir => Dir, owner => none, memory => 64 bsl 20}),
    Events = [return_to, messages, procs, running, garbage_collection],
    {ok, _} = kymo:trace(R, #{functions => Functions, events => Events}),
    %% It is answered when all processes have been asked for their names. The servers have then been seen
    %% to wait, so nothing from before the recording is in their mailboxes.
    _ = kymo:info(R),
    try Fun() after kymo:stop(R) end.

%% a calls b, which calls c; twice.
record_chain(Config) ->
    Dir = filename:join(?config(priv_dir, Config), "chain_recording"),
    Did = record(Dir, fun() ->
        with_servers([otlp_a, otlp_b, otlp_c], fun() ->
            Begin = erlang:system_time(nanosecond),
            Took = [
                kymo_otlp_work:ask([{otlp_a, 3}, {otlp_b, 5}, {otlp_c, 7}], infinity)
             || _ <- [1, 2]
            ],
            #{took => Took, client => pid(self()), first => Begin, last => erlang:system_time(nanosecond)}
        end)
    end),
    [{recording, Dir}, {did, Did} | Config].

with_servers(Names, Fun) ->
    Pids = [kymo_otlp_work:start(Name) || Name <- Names],
    try Fun() after [stop(Pid) || Pid <- Pids] end.

stop(Pid) ->
    Ref = monitor(process, Pid),
    exit(Pid, kill),
    receive {'DOWN', Ref, process, Pid, _} -> ok end.

pid(Pid) -> list_to_binary(pid_to_list(Pid)).

%% ---- the export ----

data(Config, File) -> filename:join(?config(data_dir, Config), File).

command(Program, Args) ->
    Port = open_port({spawn_executable, Program}, [{args, Args}, exit_status, stderr_to_stdout, binary, hide]),
    collect(Port, []).

collect(Port, Acc) ->
    receive
        {Port, {data, Data}} -> collect(Port, [Acc, Data]);
        {Port, {exit_status, Status}} -> {Status, iolist_to_binary(Acc)}
    end.

%% Exports, and reads the result.
spans(Config, Dirs) -> spans(Config, Dirs, []).

spans(Config, Dirs, Options) ->
    Out = filename:join(?config(dir, Config), "spans.jsonl"),
    ?assertEqual({0, <<>>}, kymo_cli:run(["export", "otlp", "--quiet", "-o", Out] ++ Options ++ Dirs)),
    read(Config, Out).

%% The spans, each with the attributes of its resource under `resource', after checking what
%% must hold for every span.
read(Config, File) ->
    All = read_all(Config, File),
    Spans = [S#{resource => Resource} || {span, Resource, _, S} <- All],
    ?assertEqual(length(Spans), length(lists:usort([{T, I} || #{trace := T, id := I} <- Spans]))),
    Spans.

read_all(Config, File) ->
    Node = os:find_executable("node"),
    {Status, Text} = command(Node, [data(Config, "otlp_read.cjs"), ?config(packages, Config), File]),
    Status =:= 0 orelse ct:fail({otlp_read, Status, Text}),
    Terms = File ++ ".terms",
    ok = file:write_file(Terms, Text),
    {ok, All} = file:consult(Terms),
    ok = application:ensure_started(kymo),
    {ok, Vsn} = application:get_key(kymo, vsn),
    ?assertEqual([], [Scope || {_, _, Scope, _} <- All, Scope =/= {<<"kymo">>, list_to_binary(Vsn)}]),
    All.

%% The metrics of an export: for each name the unit, the type and all points in order of time,
%% with the attributes of the resource.
metrics_of(Config, File) ->
    All = [{R, M} || {metric, R, _, M} <- read_all(Config, File)],
    [{Resource, _} | _] = All,
    ?assertEqual([Resource], lists:usort([R || {R, _} <- All])),
    Metrics = lists:foldl(
        fun({_, #{name := Name, unit := Unit, type := Type, points := Points}}, Acc) ->
            maps:update_with(Name, fun({U, T, Before}) -> {U, T, Before ++ Points} end, {Unit, Type, Points}, Acc)
        end,
        #{},
        All
    ),
    {Resource, Metrics}.

attribute(Key, #{attributes := As}) -> maps:get(Key, As, none).

%% The spans of one kind whose service has that name.
of_service(Kind, Name, Spans) ->
    [S || #{kind := K} = S <- Spans, K =:= Kind, attribute(<<"rpc.service">>, S) =:= Name].

children(#{id := Id, trace := Trace}, Spans) ->
    [S || #{parent := P, trace := T} = S <- Spans, P =:= Id, T =:= Trace].

child(Name, Span, Spans) ->
    [Child] = [S || #{name := N} = S <- children(Span, Spans), N =:= Name],
    Child.

parent(#{parent := Parent, trace := Trace}, Spans) ->
    [S] = [S || #{id := I, trace := T} = S <- Spans, I =:= Parent, T =:= Trace],
    S.

ns(#{start := Start, stop := Stop}) -> Stop - Start.

by_start(Spans) -> lists:sort(fun(#{start := A}, #{start := B}) -> A =< B end, Spans).

%% ---- what is written ----

%% One trace per chain: in it, the request to c is a child of the call of ask/2 in the callback
%% of b, and so on.
chain(Config) ->
    #{client := Client} = ?config(did, Config),
    Spans = spans(Config, [?config(recording, Config)]),
    Roots = of_service(?CLIENT, <<"otlp_a">>, Spans),
    ?assertEqual(2, length(Roots)),
    ?assertEqual(2, length(lists:usort([T || #{trace := T} <- Roots]))),
    [
        begin
            ?assertMatch(#{parent := none, status := 0, name := <<"call otlp_a">>}, Root),
            ?assertEqual(Client, attribute(<<"erlang.process.pid">>, Root)),
            ?assertEqual(<<"replied">>, attribute(<<"kymo.request.outcome">>, Root)),
            Last = lists:foldl(
                fun(Name, Request) ->
                    Handled = child(<<"kymo_otlp_work:handle_call/3">>, Request, Spans),
                    ?assertMatch(#{kind := ?SERVER}, Handled),
                    ?assertEqual(Name, attribute(<<"erlang.process.name">>, Handled)),
                    ?assertEqual(attribute(<<"erlang.peer.pid">>, Request), attribute(<<"erlang.process.pid">>, Handled)),
                    case [S || S <- children(Handled, Spans), maps:get(name, S) =:= <<"kymo_otlp_work:ask/2">>] of
                        [Ask] ->
                            [Inner] = [S || #{kind := ?CLIENT} = S <- children(Ask, Spans)],
                            Inner;
                        [] ->
                            Handled
                    end
                end,
                Root,
                [<<"otlp_a">>, <<"otlp_b">>, <<"otlp_c">>]
            ),
            ?assertEqual(<<"otlp_c">>, attribute(<<"rpc.service">>, Last)),
            ?assertMatch(#{kind := ?SERVER}, Last),
            Trace = maps:get(trace, Root),
            ?assertEqual([Trace], lists:usort([T || #{trace := T, id := I} <- Spans, I =:= maps:get(id, Last)]))
        end
     || Root <- Roots
    ],
    %% Every parent exists.
    Ids = sets:from_list([{T, I} || #{trace := T, id := I} <- Spans]),
    ?assertEqual([], [S || #{parent := P, trace := T} = S <- Spans, P =/= none, not sets:is_element({T, P}, Ids)]),
    [Resource] = lists:usort([R || #{resource := R} <- Spans]),
    ?assertMatch(#{<<"process.runtime.name">> := <<"BEAM">>, <<"kymo.recording.id">> := <<_:32/binary>>}, Resource),
    ?assertEqual(list_to_integer(os:getpid()), maps:get(<<"process.pid">>, Resource)).

%% The parts of a request add up to its duration, lie where the program was by its own clock,
%% and take no longer than the program measured around them and no less than it worked in them.
parts_and_times(Config) ->
    #{took := Took, first := First, last := Last} = ?config(did, Config),
    Spans = spans(Config, [?config(recording, Config)]),
    [
        begin
            Requests = by_start(of_service(?CLIENT, Name, Spans)),
            [
                begin
                    Queued = child(<<"queued">>, Request, Spans),
                    Handled = child(<<"kymo_otlp_work:handle_call/3">>, Request, Spans),
                    Reply = child(<<"reply">>, Request, Spans),
                    ?assertEqual(ns(Request), ns(Queued) + ns(Handled) + ns(Reply)),
                    ?assertEqual(maps:get(start, Request), maps:get(start, Queued)),
                    ?assertEqual(maps:get(stop, Queued), maps:get(start, Handled)),
                    ?assertEqual(maps:get(stop, Handled), maps:get(start, Reply)),
                    ?assertEqual(maps:get(stop, Request), maps:get(stop, Reply)),
                    ?assertMatch([{<<"in mailbox">>, _}], maps:get(events, Queued)),
                    ?assert(ns(Request) =< Measured),
                    %% The program's first millisecond is a partial one.
                    ?assert(ns(Handled) >= (Worked - 1) * 1000000)
                end
             || {Request, Measured} <- lists:zip(Requests, [lists:nth(I, Ns) || Ns <- Took])
            ],
            %% The wall clock may be adjusted in between, but not by a minute.
            ?assert(maps:get(start, hd(Requests)) > First - 60000000000),
            ?assert(maps:get(stop, lists:last(Requests)) < Last + 60000000000)
        end
     || {I, Name, Worked} <- [{1, <<"otlp_a">>, 3 + 5 + 7}, {2, <<"otlp_b">>, 5 + 7}, {3, <<"otlp_c">>, 7}]
    ].

%% The server's calls and garbage collections lie within its handling of the request.
calls_and_collections(Config) ->
    Dir = filename:join(?config(dir, Config), "rec"),
    record(Dir, fun() ->
        with_servers([otlp_a], fun() ->
            ok = sys:replace_state(otlp_a, fun(S) -> garbage_collect(), S end) =:= otlp_a andalso ok,
            kymo_otlp_work:ask([{otlp_a, 2}], infinity)
        end)
    end),
    Spans = spans(Config, [Dir]),
    Handled = [S || #{kind := ?SERVER} = S <- Spans, attribute(<<"code.function.name">>, S) =/= none],
    [Work] = [S || S <- Handled, attribute(<<"rpc.service">>, S) =:= <<"otlp_a">>],
    Spin = child(<<"kymo_otlp_work:spin/1">>, Work, Spans),
    ?assertEqual(<<"kymo_otlp_work:spin/1">>, attribute(<<"code.function.name">>, Spin)),
    ?assertEqual(<<"return">>, attribute(<<"kymo.call.ended">>, Spin)),
    ?assert(attribute(<<"kymo.running_ns">>, Spin) =< ns(Spin)),
    ?assert(ns(Spin) >= 1000000),
    [?assertEqual(true, inside(S, parent(S, Spans))) || #{kind := ?INTERNAL, name := N} = S <- Spans,
        N =/= <<"queued">>, N =/= <<"reply">>],
    %% The collection during the request that sys made, which no traced callback handled.
    Gcs = [S || #{name := <<"major gc">>} = S <- Spans],
    ?assertMatch([_ | _], Gcs),
    [
        begin
            ?assertEqual(<<"major">>, attribute(<<"erlang.gc.kind">>, Gc)),
            ?assertMatch(#{kind := ?SERVER}, parent(Gc, Spans))
        end
     || Gc <- Gcs
    ].

inside(#{start := A, stop := B}, #{start := First, stop := Last}) -> A >= First andalso B =< Last.

%% Three clients at once: the queued part of the later ones links to the handling of the
%% requests before them.
queued_behind(Config) ->
    Dir = filename:join(?config(dir, Config), "rec"),
    record(Dir, fun() ->
        with_servers([otlp_a], fun() ->
            ok = sys:suspend(otlp_a),
            Refs = [element(2, spawn_monitor(fun() -> kymo_otlp_work:ask([{otlp_a, 4}], infinity) end)) || _ <- [1, 2, 3]],
            true = kymo_cli:until(fun() ->
                {_, Len} = process_info(whereis(otlp_a), message_queue_len),
                Len =:= 3
            end),
            ok = sys:resume(otlp_a),
            [receive {'DOWN', Ref, process, _, normal} -> ok end || Ref <- Refs]
        end)
    end),
    Spans = spans(Config, [Dir]),
    Handled = by_start([S || #{name := <<"kymo_otlp_work:handle_call/3">>} = S <- Spans]),
    ?assertEqual(3, length(Handled)),
    Ids = [{T, I} || #{trace := T, id := I} <- Handled],
    ?assertEqual(3, length(lists:usort([T || {T, _} <- Ids]))),
    Links = [maps:get(links, child(<<"queued">>, parent(S, Spans), Spans)) || S <- Handled],
    [First, Second, _] = Ids,
    %% The newest first. sys:resume/1 was handled in between, too.
    ?assertEqual([[], [First], [Second, First]], [[L || L <- Ls, lists:member(L, Ids)] || Ls <- Links]).

%% A cast has a producer and a consumer span, and what it causes is in its trace.
casts(Config) ->
    Dir = filename:join(?config(dir, Config), "rec"),
    record(Dir, fun() ->
        with_servers([otlp_a, otlp_b], fun() ->
            gen_server:cast(otlp_a, {ask, [{otlp_b, 2}]}),
            kymo_otlp_work:ask([{otlp_a, 1}], infinity)
        end)
    end),
    Spans = spans(Config, [Dir]),
    [Sent] = [S || #{kind := ?PRODUCER} = S <- Spans],
    ?assertEqual({<<"cast otlp_a">>, 0}, {maps:get(name, Sent), ns(Sent)}),
    Handled = child(<<"kymo_otlp_work:handle_cast/2">>, Sent, Spans),
    ?assertMatch(#{kind := ?CONSUMER}, Handled),
    [Inner] = of_service(?CLIENT, <<"otlp_b">>, Spans),
    ?assertEqual(maps:get(trace, Sent), maps:get(trace, Inner)),
    ?assertEqual(Handled, parent(parent(Inner, Spans), Spans)),
    %% The call that waited behind it has a trace of its own, with a link.
    [Call] = of_service(?CLIENT, <<"otlp_a">>, Spans),
    ?assertNotEqual(maps:get(trace, Sent), maps:get(trace, Call)),
    ?assertEqual([{maps:get(trace, Handled), maps:get(id, Handled)}], maps:get(links, child(<<"queued">>, Call, Spans))).

%% Without traced callbacks, the chain follows from the order of the replies, or is certain if the
%% runtime reports when requests are taken out of the mailbox.
without_callbacks(Config) ->
    Dir = filename:join(?config(dir, Config), "rec"),
    record(Dir, ["lists:seq/2"], fun() ->
        with_servers([otlp_a, otlp_b], fun() -> kymo_otlp_work:ask([{otlp_a, 2}, {otlp_b, 2}], infinity) end)
    end),
    Spans = spans(Config, [Dir]),
    [Root] = of_service(?CLIENT, <<"otlp_a">>, Spans),
    [Inner] = of_service(?CLIENT, <<"otlp_b">>, Spans),
    Handled = child(<<"handle call otlp_a">>, Root, Spans),
    {0, Info} = kymo_cli:run(["info", "--json", "-q", Dir]),
    #{<<"exact">> := #{<<"taken">> := Taken}} = kymo_cli:json(unicode:characters_to_list(Info)),
    Inferred = case Taken of true -> none; false -> true end,
    ?assertEqual(Inferred, attribute(<<"kymo.inferred">>, Handled)),
    ?assertEqual(none, attribute(<<"code.function.name">>, Handled)),
    ?assertEqual(Handled, parent(Inner, Spans)).

%% No reply: the server crashed, the client was killed, or the recording ended (before the
%% server received the request, and while it was handling it).
not_answered(Config) ->
    Dir = filename:join(?config(dir, Config), "rec"),
    Servers = [kymo_otlp_work:start(Name) || Name <- [otlp_a, otlp_b, otlp_c, otlp_d]],
    record(Dir, fun() ->
        ?assertExit({planted, _}, gen_server:call(otlp_a, crash)),
        Client = asking(otlp_b, never),
        stop(Client),
        asking(otlp_c, never),
        asking(otlp_d, hold)
    end),
    [stop(Server) || Server <- Servers],
    Spans = spans(Config, [Dir]),
    Callback = <<"kymo_otlp_work:handle_call/3">>,
    Shown = [
        begin
            [S] = of_service(?CLIENT, Name, Spans),
            ?assertEqual([], [R || #{name := <<"reply">>} = R <- children(S, Spans)]),
            #{kind := ?SERVER} = Handled = child(Callback, S, Spans),
            ?assertMatch({#{status := 2, message := <<_, _/binary>>}, #{status := 2}}, {S, Handled}),
            {Name, attribute(<<"kymo.request.outcome">>, S), attribute(<<"error.type">>, S),
                attribute(<<"kymo.incomplete">>, S), attribute(<<"kymo.incomplete">>, Handled)}
        end
     || Name <- [<<"otlp_a">>, <<"otlp_b">>, <<"otlp_c">>, <<"otlp_d">>]
    ],
    ?assertEqual(
        [
            {<<"otlp_a">>, <<"down">>, <<"down">>, none, none},
            {<<"otlp_b">>, <<"gone">>, <<"gone">>, none, none},
            {<<"otlp_c">>, <<"open">>, <<"no_reply">>, <<"open">>, none},
            {<<"otlp_d">>, <<"open">>, <<"no_reply">>, <<"open">>, <<"open">>}
        ],
        Shown
    ).

%% A process that waits for a server that has begun to handle its request.
asking(Server, What) ->
    Self = self(),
    Client = spawn(fun() -> gen_server:call(Server, {What, Self}, infinity) end),
    receive {began, Server} -> Client end.

%% ---- several exports and recordings ----

%% Ids are the same, whichever part of the recording is exported.
same_ids(Config) ->
    Dir = ?config(recording, Config),
    All = spans(Config, [Dir]),
    same(All, spans(Config, [Dir])),
    same(All, spans(Config, [Dir], ["--to", "1h"])).

%% The same spans in any order. A failure shows only the first differences.
same(Spans, Others) ->
    {A, B} = {lists:sort(Spans), lists:sort(Others)},
    A =:= B orelse ct:fail({lists:sublist(A -- B, 2), lists:sublist(B -- A, 2)}).

%% Requests that end before the window or begin after it are left out.
windows(Config) ->
    Dir = ?config(recording, Config),
    All = spans(Config, [Dir]),
    [First, Second] = by_start(of_service(?CLIENT, <<"otlp_a">>, All)),
    {0, Info} = kymo_cli:run(["requests", "--json", "-q", "-n", "100", "--pid", "otlp_a", Dir]),
    #{<<"slowest">> := Requests} = kymo_cli:json(unicode:characters_to_list(Info)),
    [_, Sent] = lists:sort([S || #{<<"sent_ns">> := S, <<"server">> := <<"otlp_a">>} <- Requests]),
    Out = spans(Config, [Dir], ["--to", io_lib:format("~.9fs", [(Sent - 1) / 1.0e9])]),
    ?assertEqual([maps:get(id, First)], [I || #{id := I} <- of_service(?CLIENT, <<"otlp_a">>, Out)]),
    ?assertNotEqual(maps:get(trace, First), maps:get(trace, Second)).

%% Recordings of two nodes make one export, with a resource for each node.
nodes_together(Config) ->
    Dirs = [filename:join(?config(dir, Config), Name) || Name <- ["one", "two"]],
    [on_node(Name, Dir) || {Name, Dir} <- lists:zip(["kymo_one", "kymo_two"], Dirs)],
    Spans = spans(Config, Dirs),
    Nodes = lists:usort([R || #{resource := R} <- Spans]),
    ?assertEqual([<<"kymo_one">>, <<"kymo_two">>], lists:sort([maps:get(<<"service.name">>, R) || R <- Nodes])),
    [
        begin
            <<Service:8/binary, "@", Host/binary>> = maps:get(<<"service.instance.id">>, R),
            ?assertEqual({Service, Host}, {maps:get(<<"service.name">>, R), maps:get(<<"host.name">>, R)})
        end
     || R <- Nodes
    ],
    [OfOne, OfTwo] = [lists:usort([T || #{trace := T, resource := Of} <- Spans, Of =:= R]) || R <- Nodes],
    ?assertEqual([], [T || T <- OfOne, lists:member(T, OfTwo)]),
    ?assertEqual(2, length(of_service(?CLIENT, <<"otlp_a">>, Spans))).

%% A chain that goes to another node and back is one trace. Each span belongs to the node of its
%% process, and the times of both nodes are consistent.
across_nodes(Config) ->
    Epmd = os:find_executable("epmd"),
    Epmd =/= false orelse throw({skip, "epmd is not installed"}),
    {module, _} = code:ensure_loaded(kymo_nodes_SUITE),
    Dirs = [DirA, DirB] = [filename:join(?config(dir, Config), Name) || Name <- ["a", "b"]],
    {NodeA, NodeB, Took} = kymo_nodes_SUITE:with_nodes([{epmd, Epmd} | Config], fun([{A, NodeA}, {B, NodeB}]) ->
        [{ok, _} = peer:call(P, kymo_otlp_work, start_registered, [Name]) || {P, Name} <- [{A, otlp_a}, {B, otlp_b}, {A, otlp_c}]],
        pong = peer:call(A, net_adm, ping, [NodeB]),
        [ok = peer:call(P, ?MODULE, start_recorder, [D], 60000) || {P, D} <- [{A, DirA}, {B, DirB}]],
        Took = peer:call(A, kymo_otlp_work, ask, [[{otlp_a, 3}, {{otlp_b, NodeB}, 5}, {{otlp_c, NodeA}, 7}], infinity], 60000),
        [{ok, _} = peer:call(P, kymo, stop, [otlp], 60000) || P <- [A, B]],
        {NodeA, NodeB, Took}
    end),
    Spans = spans(Config, Dirs),
    [OfA] = of_service(?CLIENT, <<"otlp_a">>, Spans),
    [OfB] = of_service(?CLIENT, <<"otlp_b">>, Spans),
    [OfC] = of_service(?CLIENT, <<"otlp_c">>, Spans),
    Chain = [OfA, OfB, OfC],
    Handlers = [child(<<"kymo_otlp_work:handle_call/3">>, S, Spans) || S <- Chain],
    %% One trace, from the handler to the request.
    ?assertMatch([_], lists:usort([T || #{trace := T} <- Chain ++ Handlers])),
    [HandlerA, HandlerB, _] = Handlers,
    ?assertEqual([HandlerA, HandlerB], [parent(parent(S, Spans), Spans) || S <- [OfB, OfC]]),
    Instance = fun(#{resource := R}) -> maps:get(<<"service.instance.id">>, R) end,
    [TextA, TextB] = [atom_to_binary(N) || N <- [NodeA, NodeB]],
    ?assertEqual([TextA, TextA, TextB], lists:map(Instance, Chain)),
    ?assertEqual([TextA, TextB, TextA], lists:map(Instance, Handlers)),
    %% Children lie within the times of their parents, also across nodes; the program measured
    %% no less.
    [
        begin
            ?assert(maps:get(start, In) >= maps:get(start, Of)),
            ?assert(maps:get(stop, In) =< maps:get(stop, Of)),
            ?assert(ns(Of) =< Measured)
        end
     || {Of, In, Measured} <- lists:zip3(Chain, Handlers, Took)
    ].

start_recorder(Dir) ->
    {ok, R} = kymo:start(#{dir => Dir, owner => none, name => otlp}),
    {ok, _} = kymo:trace(R, #{functions => ?WORK, events => [return_to, messages, procs, running]}),
    ok.

%% Records a chain on a node with that name.
on_node(Name, Dir) ->
    Code = io_lib:format("~p:record(~p, fun() -> ~p:with_servers([otlp_a, otlp_b], "
        "fun() -> kymo_otlp_work:ask([{otlp_a, 1}, {otlp_b, 1}], infinity) end) end), halt(0).", [?MODULE, Dir, ?MODULE]),
    Paths = lists:append([["-pa", filename:dirname(code:which(M))] || M <- [kymo, ?MODULE]]),
    Erl = filename:join([code:root_dir(), "bin", "erl"]),
    {0, <<>>} = command(Erl, ["-noshell", "-noinput", "-sname", Name | Paths] ++ ["-eval", lists:flatten(Code)]).

%% No line is longer than the readers of such files accept, and all requests are exported.
lines_are_bounded(Config) ->
    Dir = filename:join(?config(dir, Config), "rec"),
    record(Dir, fun() ->
        with_servers([otlp_a], fun() -> [kymo_otlp_work:ask([{otlp_a, 0}], infinity) || _ <- lists:seq(1, 500)] end)
    end),
    Spans = spans(Config, [Dir]),
    ?assertEqual(500, length(of_service(?CLIENT, <<"otlp_a">>, Spans))),
    {ok, Text} = file:read_file(filename:join(?config(dir, Config), "spans.jsonl")),
    Lines = binary:split(Text, <<"\n">>, [global, trim]),
    ?assert(length(Lines) > 3),
    [?assert(byte_size(L) < 1 bsl 20) || L <- Lines].

%% ---- metrics ----

-define(CUMULATIVE, {sum, 2, true}).
-define(OK, "[200,{\"content-type\":\"application/json\"},\"{}\"]").

%% Records the node's counters until there are more values than one line holds.
record_counters(Dir) -> record_counters(Dir, fun(_) -> ok end).

record_counters(Dir, Fun) ->
    {ok, R} = kymo:start(#{dir => Dir, owner => none, counters => 10, system_monitor => [{large_heap, 2000000}]}),
    Fun(R),
    true = kymo_cli:until(fun() ->
        #{counters := #{samples := N}} = kymo:info(R),
        N * (20 + erlang:system_info(schedulers_online)) > 3000
    end),
    {ok, _} = kymo:stop(R),
    Dir.

exported(Config, Dir) ->
    Out = filename:join(?config(dir, Config), "exported.jsonl"),
    ?assertEqual({0, <<>>}, kymo_cli:run(["export", "otlp", "--quiet", "-o", Out, Dir])),
    Out.

sql(Dir, Statement) ->
    {0, Lines} = kymo_cli:run(["sql", "-q", "--json", Dir, unicode:characters_to_list(Statement)]),
    [kymo_cli:json(unicode:characters_to_list([L, "\n"])) || L <- binary:split(Lines, <<"\n">>, [global, trim])].

%% Each value in the recording is exported once, with its type: a gauge, or a monotonic sum that
%% starts at the time of its first value. Times and ratios are in OpenTelemetry's units.
metrics(Config) ->
    Dir = record_counters(filename:join(?config(dir, Config), "rec")),
    {#{<<"process.pid">> := Pid}, Metrics} = metrics_of(Config, exported(Config, Dir)),
    ?assertEqual(list_to_integer(os:getpid()), Pid),
    {ok, Lines} = file:read_file(filename:join(?config(dir, Config), "exported.jsonl")),
    ?assert(length(binary:matches(Lines, <<"resourceMetrics">>)) > 2),
    Counters = [C || #{<<"counter">> := C} <- sql(Dir, "select distinct counter from counters")],
    Name = fun(<<"cpu_time">>) -> <<"process.cpu.time">>; (C) -> <<"erlang.", C/binary>> end,
    ?assertEqual(lists:sort([Name(C) || C <- Counters]), lists:sort(maps:keys(Metrics))),
    lists:foreach(
        fun(Counter) ->
            {Unit, Type, Points} = maps:get(Name(Counter), Metrics),
            Rows = sql(Dir, ["select value, scheduler, rank, unit, time_ns from counters where counter = '", Counter, "' order by time_ns, scheduler, rank"]),
            Scale = case hd(Rows) of
                #{<<"unit">> := <<"bytes">>} -> ?assertEqual(<<"By">>, Unit), 1;
                #{<<"unit">> := <<"ns">>} -> ?assertEqual(<<"s">>, Unit), 1.0e9;
                #{<<"unit">> := <<"millionths">>} -> ?assertEqual(<<"1">>, Unit), 1.0e6;
                #{<<"unit">> := <<"count">>} -> ?assertMatch(<<"{", _/binary>>, Unit), 1
            end,
            Ordered = lists:sort(fun(A, B) -> key(A) =< key(B) end, Points),
            ?assertEqual(length(Rows), length(Ordered), Counter),
            [begin
                 ?assert(abs(V * Scale - Value) =< max(1.0e-6, Value * 1.0e-11), {Counter, V, Value}),
                 Attributes = [{<<"erlang.scheduler.id">>, Scheduler} || Scheduler =/= null] ++ [{<<"erlang.process.rank">>, Rank} || Rank =/= null],
                 ?assertEqual(maps:from_list(Attributes), As)
             end || {{As, _, _, V}, #{<<"value">> := Value, <<"scheduler">> := Scheduler, <<"rank">> := Rank}} <- lists:zip(Ordered, Rows)],
            case lists:member(Counter, [<<"reductions">>, <<"context_switches">>, <<"garbage_collections">>, <<"garbage_reclaimed">>,
                                        <<"io_input">>, <<"io_output">>, <<"cpu_time">>]) of
                true ->
                    [{_, _, First, _} | _] = Ordered,
                    ?assertEqual({Counter, ?CUMULATIVE}, {Counter, Type}),
                    ?assertEqual([First], lists:usort([S || {_, S, _, _} <- Ordered])),
                    Values = [V || {_, _, _, V} <- Ordered],
                    ?assertEqual(lists:sort(Values), Values);
                false ->
                    ?assertEqual({Counter, gauge}, {Counter, Type}),
                    ?assertEqual([none], lists:usort([S || {_, S, _, _} <- Ordered]))
            end
        end,
        Counters
    ),
    %% By the wall clock, which may not have been adjusted by a minute.
    Now = erlang:system_time(nanosecond),
    [?assert(abs(Now - T) < 120000000000) || {_, _, Points} <- maps:values(Metrics), {_, _, T, _} <- Points].

key({As, _, Time, _}) -> {Time, maps:get(<<"erlang.scheduler.id">>, As, 0), maps:get(<<"erlang.process.rank">>, As, 0)}.

%% Reports of the system monitor are counted from the beginning of the export.
reports(Config) ->
    Dir = record_counters(filename:join(?config(dir, Config), "rec"), fun(_) ->
        [begin
             {_, Ref} = spawn_monitor(fun() -> L = lists:seq(1, 2500000), garbage_collect(), exit({length(L), done}) end),
             receive {'DOWN', Ref, process, _, {2500000, done}} -> ok end
         end || _ <- [1, 2, 3]]
    end),
    {_, #{<<"erlang.system_monitor.reports">> := {<<"{report}">>, ?CUMULATIVE, Points}}} = metrics_of(Config, exported(Config, Dir)),
    [#{<<"n">> := N}] = sql(Dir, "select count(*) as n from system_monitor where kind = 'large_heap'"),
    ?assert(N >= 3),
    ?assertEqual(lists:seq(1, N), [V || {_, _, _, V} <- Points]),
    ?assertEqual([#{<<"erlang.system_monitor.kind">> => <<"large_heap">>}], lists:usort([A || {A, _, _, _} <- Points])),
    [Start] = lists:usort([S || {_, S, _, _} <- Points]),
    [?assert(Start < T) || {_, _, T, _} <- Points].

%% An independent receiver gets the values that are in the file, at its address for metrics.
metrics_received(Config) ->
    case kymo_npm:packages(data(Config, "receiver")) of
        {ok, Packages} ->
            Dir = record_counters(filename:join(?config(dir, Config), "rec")),
            Port = open_port(
                {spawn_executable, os:find_executable("node")},
                [{args, [data(Config, "otlp_receive.cjs"), Packages]}, {line, 65536}, binary, hide]
            ),
            Url = "http://127.0.0.1:" ++ binary_to_list(line(Port)),
            {_, Metrics} = metrics_of(Config, exported(Config, Dir)),
            Sent = [as_received(Name, Unit, Type, P) || {Name, {Unit, Type, Points}} <- maps:to_list(Metrics), P <- Points],
            %% Also if the given address is the one for spans.
            [begin
                 ?assertMatch({0, _}, kymo_cli:run(["export", "otlp", "--endpoint", Url ++ Path, Dir])),
                 port_command(Port, "\n"),
                 same(Sent, [L || <<"metric ", _/binary>> = L <- received_spans(Port)])
             end || Path <- ["", "/v1/traces", "/v1/metrics/"]],
            port_close(Port);
        Skip ->
            Skip
    end.

as_received(Name, Unit, Type, {Attributes, Start, Time, Value}) ->
    Text = fun(A) when is_atom(A) -> atom_to_binary(A, utf8);
              (N) when is_integer(N) -> integer_to_binary(N);
              (F) when is_float(F) -> float_to_binary(F, [{decimals, 12}]);
              (B) -> B
           end,
    iolist_to_binary(lists:join(" ", ["metric", Name, Unit, case Type of ?CUMULATIVE -> "2"; gauge -> "gauge" end,
        lists:join(",", [Text(V) || V <- maps:values(Attributes)]), Text(Start), Text(Time), Text(Value)])).

%% If a receiver has no address for metrics, it still gets the spans, and the failure of the
%% metrics is reported.
no_metrics_wanted(Config) ->
    Dir = record_counters(filename:join(?config(dir, Config), "rec"), fun(R) ->
        {ok, _} = kymo:trace(R, #{functions => ?WORK, events => [messages, procs]}),
        with_servers([otlp_a], fun() -> kymo_otlp_work:ask([{otlp_a, 0}], infinity) end)
    end),
    Posted = [{recording, Dir} | lists:keydelete(recording, 1, Config)],
    %% The first line with values is full before the only line with spans is.
    {0, Text, Seen, File} = post(Posted, ["[404,{},\"not found\"]", ?OK]),
    ?assertMatch({_, _}, binary:match(Text, <<"the collector takes no metrics: ">>)),
    ?assertMatch([#{<<"url">> := <<"/v1/metrics">>}, #{<<"url">> := <<"/v1/traces">>}], Seen),
    ?assertMatch([_ | _], read(Config, File)),
    {1, _, _, _} = post(Posted, ["[404,{},\"not found\"]", ?OK], "http", [], ["--strict"]),
    %% If there are only metrics, the address is wrong.
    Only = [{recording, record_counters(filename:join(?config(dir, Config), "only"))} | lists:keydelete(recording, 1, Config)],
    {1, Wrong, [_], _} = post(Only, ["[404,{},\"not found\"]"]),
    ?assertMatch({_, _}, binary:match(Wrong, <<"the collector takes no metrics">>)),
    {1, Rejected, _, _} = post(Only, ["[200,{},\"{\\\"partialSuccess\\\":{\\\"rejectedDataPoints\\\":\\\"7\\\",\\\"errorMessage\\\":\\\"too old\\\"}}\"]", ?OK]),
    ?assertMatch({_, _}, binary:match(Rejected, <<"rejected 7 values of metrics: too old">>)).

%% ---- the collector ----

%% Posts the recording of the chain to a receiver that gives these answers. Returns status and
%% output of the command, the requests that the receiver saw, and the file with the data it
%% received.
post(Config, Answers) -> post(Config, Answers, "http", [], []).

post(Config, Answers, Scheme, Tls, Options) ->
    File = filename:join(?config(dir, Config), "posted.jsonl"),
    Json = ["[", lists:join(",", Answers), "]"],
    Port = open_port(
        {spawn_executable, os:find_executable("node")},
        [{args, [data(Config, "receiver.cjs"), File, Json | Tls]}, {line, 65536}, binary, hide]
    ),
    Number = receive {Port, {data, {eol, N}}} -> binary_to_list(N) end,
    Url = lists:concat([Scheme, "://localhost:", Number]),
    {Status, Text} = kymo_cli:run(["export", "otlp", "--endpoint", Url] ++ Options ++ [?config(recording, Config)]),
    port_close(Port),
    {ok, Log} = file:read_file(File ++ ".log"),
    Seen = [
        kymo_cli:json(unicode:characters_to_list(L) ++ "\n")
     || L <- binary:split(Log, <<"\n">>, [global, trim])
    ],
    {Status, Text, Seen, File}.

%% The chain has a few hundred spans, which fit in one line.
posted(Config) ->
    {Status, Text, Seen, File} = post(Config, [?OK], "http", [], ["--header", "X-Test: of kymo"]),
    ?assertMatch({0, {_, _}}, {Status, binary:match(Text, <<" spans, ">>)}),
    ?assertMatch(
        [#{<<"method">> := <<"POST">>, <<"url">> := <<"/v1/traces">>, <<"type">> := <<"application/json">>,
           <<"agent">> := <<"kymo/", _/binary>>, <<"test">> := <<"of kymo">>}],
        Seen
    ),
    same(spans(Config, [?config(recording, Config)]), read(Config, File)).

%% An independent receiver gets the spans that are in the file, also in several posts.
received(Config) ->
    case kymo_npm:packages(data(Config, "receiver")) of
        {ok, Packages} -> received(Config, Packages);
        Skip -> Skip
    end.

received(Config, Packages) ->
    Many = filename:join(?config(dir, Config), "rec"),
    record(Many, fun() ->
        with_servers([otlp_a], fun() -> [kymo_otlp_work:ask([{otlp_a, 0}], infinity) || _ <- lists:seq(1, 500)] end)
    end),
    Port = open_port(
        {spawn_executable, os:find_executable("node")},
        [{args, [data(Config, "otlp_receive.cjs"), Packages]}, {line, 65536}, binary, hide]
    ),
    Url = "http://127.0.0.1:" ++ binary_to_list(line(Port)),
    [
        begin
            ?assertMatch({0, _}, kymo_cli:run(["export", "otlp", "--endpoint", Url, Dir])),
            Spans = [as_received(S) || S <- spans(Config, [Dir])],
            ?assert(length(Spans) > AtLeast),
            port_command(Port, "\n"),
            same(Spans, received_spans(Port))
        end
     || {Dir, AtLeast} <- [{?config(recording, Config), 20}, {Many, 1500}]
    ],
    port_close(Port).

line(Port) ->
    receive {Port, {data, {eol, Line}}} -> Line after 60000 -> ct:fail(receiver) end.

received_spans(Port) ->
    case line(Port) of
        <<>> -> [];
        Span -> [Span | received_spans(Port)]
    end.

as_received(#{trace := Trace, id := Id, parent := Parent, kind := Kind, start := Start, stop := Stop, name := Name}) ->
    iolist_to_binary(lists:join(" ", [Trace, Id, case Parent of none -> "none"; _ -> Parent end,
        element(Kind, {"SPAN_KIND_INTERNAL", "SPAN_KIND_SERVER", "SPAN_KIND_CLIENT", "SPAN_KIND_PRODUCER", "SPAN_KIND_CONSUMER"}),
        integer_to_binary(Start), integer_to_binary(Stop), Name])).

%% A certificate that no trusted authority has signed is refused.
posted_with_tls(Config) ->
    [Key, Cert] = Files = [filename:join(?config(dir, Config), F) || F <- ["key.pem", "cert.pem"]],
    OpenSsl = os:find_executable("openssl"),
    OpenSsl =/= false orelse throw({skip, "openssl is not installed: https was NOT checked"}),
    {0, _} = command(OpenSsl, ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
        "-addext", "subjectAltName=DNS:localhost", "-keyout", Key, "-out", Cert]),
    {1, Refused, [], _} = post(Config, [?OK], "https", Files, []),
    ?assertMatch({_, _}, binary:match(Refused, <<"certificate">>)),
    {0, _, [_], File} = post(Config, [?OK], "https", Files, ["--cacert", Cert]),
    ?assertMatch([_ | _], read(Config, File)).

%% If a collector is busy, the command tries again, no earlier than the collector allows.
tries_again(Config) ->
    Busy = "[503,{\"retry-after\":\"2\"},\"busy\"]",
    {0, _, Seen, File} = post(Config, [Busy, "[429,{},\"\"]", ?OK]),
    ?assertMatch([_, #{<<"after">> := A}, #{<<"after">> := B}] when A >= 1990 andalso B >= 1990, Seen),
    same(spans(Config, [?config(recording, Config)]), read(Config, File)).

%% The command reports what the collector said, and its status is 1.
gives_up(Config) ->
    Says = fun(Text, Words) -> ?assertMatch({_, _}, binary:match(Text, Words)) end,
    {1, Bad, [_], _} = post(Config, ["[400,{},\"{\\\"code\\\":3,\\\"message\\\":\\\"no \\\\\\\"such\\\\\\\" thing\\\"}\"]"]),
    Says(Bad, <<"answered 400: no \"such\" thing">>),
    {1, Broken, [_], _} = post(Config, ["[500,{},\"it broke\\nhere\"]"]),
    Says(Broken, <<"answered 500: it broke\n">>),
    {1, Busy, Tries, _} = post(Config, ["[503,{\"retry-after\":\"1\"},\"busy\"]"]),
    Says(Busy, <<"answered 503 (5 tries): busy">>),
    ?assertEqual(5, length(Tries)),
    {1, Later, [_], _} = post(Config, ["[503,{\"retry-after\":\"3600\"},\"\"]"]),
    Says(Later, <<"answered 503">>),
    %% Nothing listens on this port any more.
    {ok, Socket} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(Socket),
    ok = gen_tcp:close(Socket),
    Url = lists:concat(["http://127.0.0.1:", Port]),
    {1, Nobody} = kymo_cli:run(["export", "otlp", "--endpoint", Url, ?config(recording, Config)]),
    Says(Nobody, list_to_binary([Url, "/v1/traces: "])).

%% Partial rejection by the collector is an error, and nothing is posted again.
partial_success(Config) ->
    Answer = "[200,{},\"{\\\"partialSuccess\\\":{\\\"rejectedSpans\\\":\\\"3\\\",\\\"errorMessage\\\":\\\"too old\\\"}}\"]",
    {1, Text, [_], _} = post(Config, [Answer]),
    ?assertMatch({_, _}, binary:match(Text, <<"the collector rejected 3 spans: too old">>)),
    Warning = "[200,{},\"{\\\"partialSuccess\\\":{\\\"errorMessage\\\":\\\"fine\\\"}}\"]",
    ?assertMatch({0, _, [_], _}, post(Config, [Warning])).

%% Without libcurl, or with another library of that name, files can still be written.
without_library(Config) ->
    Dir = ?config(recording, Config),
    Library = filename:join(?config(dir, Config), "libcurl.so.4"),
    Source = filename:join(?config(dir, Config), "empty.c"),
    ok = file:write_file(Source, "extern int empty;\n"),
    ?assertEqual("", os:cmd("${CC:-cc} -shared -o '" ++ Library ++ "' '" ++ Source ++ "' 2>&1")),
    os:putenv("LD_LIBRARY_PATH", ?config(dir, Config)),
    try
        {4, Text} = kymo_cli:run(["export", "otlp", "--endpoint", "http://localhost", Dir]),
        ?assertMatch({_, _}, binary:match(Text, <<"needs libcurl (Debian: libcurl4): ">>)),
        ?assertEqual(nomatch, binary:match(Text, <<"(null)">>)),
        ?assertMatch([_ | _], spans(Config, [Dir]))
    after
        os:unsetenv("LD_LIBRARY_PATH")
    end.

refusals(Config) ->
    Dir = ?config(recording, Config),
    [
        ?assertMatch({2, <<"kymo: ", _/binary>>}, kymo_cli:run(["export" | Args]))
     || Args <- [
            ["otlp", Dir],
            ["otlp", "-o", "x"],
            ["otlp", "-o", "x", "--endpoint", "http://localhost", Dir],
            ["otlp", "--endpoint", "localhost:4318", Dir],
            ["otlp", "--endpoint", "http://localhost", "--header", "none", Dir],
            ["otlp", "-o", "x", "--pid", "<0.1.0>", Dir],
            ["otlp", "-o", "x", "--all", Dir],
            ["otlp", "-o", filename:join(Dir, "x"), Dir],
            ["dbg", "-o", "x", "--endpoint", "http://localhost", Dir]
        ]
    ],
    ?assertMatch({3, _}, kymo_cli:run(["export", "otlp", "-o", "x", Dir, filename:join(?config(dir, Config), "none")])),
    ?assertMatch({4, _}, kymo_cli:run(["export", "otlp", "-o", "/proc/nonexistent/x", Dir])),
    %% A recording without messages has no requests, and the command says so.
    Calls = filename:join(?config(dir, Config), "calls"),
    kymo:record(Calls, #{functions => ["lists:seq/2"]}, fun() -> lists:seq(1, 2) end),
    {0, Text} = kymo_cli:run(["export", "otlp", "-o", "-", Calls]),
    ?assertMatch({_, _}, binary:match(Text, <<"nothing to show">>)).
