%% SPDX-License-Identifier: Apache-2.0
%%
%% The faults of the runtime that kymo avoids (kymo_faults). Each case but those of the list itself
%% starts nodes in which something else does its part of the fault, and kymo does what triggers the rest.
%% It is skipped on a runtime that does not have the fault.
%%
%% With KYMO_FAULTS=trigger in the environment the measures are switched off, and each case should fail.
%% A node may survive by chance; KYMO_FAULTS_SECONDS makes a case last longer than by default.
-module(kymo_faults_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-compile(export_all).
-compile(nowarn_export_all).

all() ->
    [
        versions,
        measures_of_this_runtime,
        page,
        recorded_measures,
        only_collections,
        collections_on_request,
        collections_beside_others,
        collections_of_two_recorders,
        attached_beside_others,
        hibernating_processes,
        hibernating_receivers,
        only_received,
        refused_on_signals,
        monitor_of_killed_process
    ].

suite() -> [{timetrap, {minutes, 4}}].

init_per_suite(Config) ->
    {module, _} = code:ensure_loaded(kymo),
    Config.

end_per_suite(_) -> ok.

init_per_testcase(Case, Config) ->
    Dir = filename:join(?config(priv_dir, Config), atom_to_list(Case)),
    [{dir, Dir}, {peer_env, []} | Config].

end_per_testcase(_, Config) ->
    _ = file:del_dir_r(?config(dir, Config)),
    ok.

%% The fault that a case is about.
fault(Name) ->
    [F] = [F || #{name := N} = F <- kymo_faults:table(), N =:= Name],
    F.

is_affected(Name) -> lists:any(fun(#{name := N}) -> N =:= Name end, kymo_faults:affected(kymo_faults:runtime())).

seconds() -> list_to_integer(os:getenv("KYMO_FAULTS_SECONDS", "3")).

%% Runs in a node of its own, in which kymo avoids the fault unless it should trigger it.
with_node(Name, Config, Fun) ->
    case is_affected(Name) of
        false ->
            {skip, "this runtime does not have the fault"};
        true ->
            Peer = kymo_peer:start(Config),
            try
                _ = os:getenv("KYMO_FAULTS") =:= "trigger" andalso
                    kymo_peer:call(Peer, application, set_env, [kymo, fixed_faults, [Name]]),
                Fun(Peer)
            after
                catch kymo_peer:stop(Peer)
            end
    end.

run(Peer, Function, Args) -> kymo_peer:call(Peer, ?MODULE, Function, Args).

%%
%% The list
%%

%% Which runtimes have a fault.
versions(_) ->
    Has = fun(Name, Release, Erts, Series) ->
        Runtime = #{release => Release, erts => Erts, series => Series},
        lists:any(fun(#{name := N}) -> N =:= Name end, kymo_faults:affected(Runtime))
    end,
    Hibernation = fun(Release, Erts) -> Has(hibernation, Release, Erts, none) end,
    ?assertNot(Hibernation("26", [14, 2, 5, 15])),
    ?assert(Hibernation("27", [15, 0])),
    ?assert(Hibernation("27", [15, 2, 7])),
    ?assert(Hibernation("27", [15, 2, 7, 5])),
    ?assertNot(Hibernation("27", [15, 2, 7, 6])),
    ?assertNot(Hibernation("27", [15, 2, 7, 13])),
    ?assert(Hibernation("28", [16, 0])),
    ?assert(Hibernation("28", [16, 2, 0, 1])),
    ?assertNot(Hibernation("28", [16, 2, 1])),
    ?assertNot(Hibernation("29", [17, 0])),
    ?assertNot(Has(hibernation, "27", [15, 2, 7], 1)),
    %% No release is known to have the fix, so newer ones do not have it, either.
    ?assertNot(Has(collections_in_sessions, "26", [14, 2, 5, 15], none)),
    ?assert(Has(collections_in_sessions, "27", [15, 0], none)),
    ?assert(Has(collections_in_sessions, "29", [17, 1], none)),
    ?assert(Has(collections_in_sessions, "31", [19, 0], none)),
    ?assertNot(Has(collections_in_sessions, "29", [17, 1], 1)),
    %% A series of patches for another release says nothing.
    ?assert(Has(collections_in_sessions, "28", [16, 4], 1)),
    ?assertNot(Has(monitor_in_session, "27", [15, 2, 7], none)),
    ?assert(Has(monitor_in_session, "28", [16, 0], none)).

%% The parameter for fixes that the version does not show. A mistake in it switches nothing off.
measures_of_this_runtime(_) ->
    Avoided = kymo_faults:avoided(),
    try
        [
            begin
                ok = application:set_env(kymo, fixed_faults, [Name]),
                ?assertNot(is_affected(Name)),
                ok = application:unset_env(kymo, fixed_faults),
                true = os:putenv("KYMO_FIXED_FAULTS", "other," ++ atom_to_list(Name)),
                ?assertNot(is_affected(Name)),
                true = os:unsetenv("KYMO_FIXED_FAULTS"),
                ok = application:set_env(kymo, fixed_faults, Name),
                ?assertEqual(Avoided, kymo_faults:avoided())
            end
         || #{name := Name} <- kymo_faults:table()
        ]
    after
        application:unset_env(kymo, fixed_faults)
    end,
    [
        ?assertEqual(Release >= From, is_affected(Name))
     || {Name, From} <- [{collections_in_sessions, 27}, {monitor_in_session, 28}],
        Release <- [list_to_integer(erlang:system_info(otp_release))],
        not is_patched()
    ].

is_patched() ->
    try is_integer(erlang:system_info(kymo_series))
    catch
        error:badarg -> false
    end.

%% The page for users has the same list.
page(_) ->
    {ok, Page} = file:read_file(filename:join([source(), "doc", "runtime-faults.md"])),
    Sections = unicode:characters_to_binary(kymo_faults:page()),
    ?assertMatch([_, <<>>], binary:split(Page, Sections)),
    [?assert(erlang:function_exported(?MODULE, Test, 1)) || #{test := Test} <- kymo_faults:table()],
    [
        ?assert(filelib:is_regular(filename:join(source(), File)))
     || #{reports := Reports} <- kymo_faults:table(), "erts_patches/" ++ _ = File <- Reports
    ].

source() ->
    {source, File} = lists:keyfind(source, 1, kymo:module_info(compile)),
    filename:dirname(filename:dirname(File)).

%% ---- what is recorded about them --------------------------------------------------------

info(Dir) ->
    {0, Json} = kymo_cli:run(["info", "--json", Dir]),
    {0, Text} = kymo_cli:run(["info", Dir]),
    {Json, Text}.

%% The recording, kymo:info/1 and the answers name what was left out.
recorded_measures(Config) ->
    Dir = ?config(dir, Config),
    {ok, R} = kymo:start(#{dir => Dir, counters => 100, system_monitor => default}),
    {ok, _} = kymo:trace(R, #{events => [messages, procs, garbage_collection]}),
    #{measures := Measures} = kymo:info(R),
    ?assertEqual(kymo_faults:avoided(), lists:sort([M || #{measure := M} <- Measures])),
    {ok, #{measures := Measures}} = kymo:stop(R),
    {Json, Text} = info(Dir),
    {_, Answer} = kymo_cli:run(["stats", Dir]),
    [
        begin
            Quoted = ["{\"name\":\"", atom_to_list(M), "\",\"not_recorded\":", json(LeftOut), ",\"fixed_in\":", json(Fixed), "}"],
            ?assertNotEqual(nomatch, string:find(Json, unicode:characters_to_list(Quoted))),
            ?assertNotEqual(nomatch, string:find(Text, atom_to_list(M))),
            ?assertNotEqual(nomatch, string:find(Answer, LeftOut))
        end
     || #{measure := M, left_out := LeftOut, fixed_in := Fixed} <- Measures
    ],
    [?assertNotEqual(nomatch, string:find(Json, "\"measures\":[]")) || Measures =:= []].

json(Absent) when Absent =:= none; Absent =:= <<>> -> "null";
json(Text) -> [$", Text, $"].

%% If nothing else was asked for, or a trigger needs collections, leaving them out would be a
%% recording of nothing.
only_collections(Config) ->
    case is_affected(collections_in_sessions) of
        false ->
            {skip, "this runtime does not have the fault"};
        true ->
            {ok, R} = kymo:start(#{dir => ?config(dir, Config), triggers => [{collection, 100}], counters => 100}),
            [
                begin
                    {error, {unsafe, collections, _, none} = Why} = kymo:trace(R, #{events => Events}),
                    Text = unicode:characters_to_list(kymo:format_error(Why)),
                    ?assertNotEqual(nomatch, string:find(Text, "garbage_collection => always"))
                end
             || Events <- [[garbage_collection], [garbage_collection, set_on_spawn], [procs, garbage_collection]]
            ],
            ?assertMatch({error, {bad_option, garbage_collection, yes}}, kymo:trace(R, #{events => [procs], garbage_collection => yes})),
            {ok, _} = kymo:stop(R)
    end.

%% A process collects its garbage a hundred times. Returns what was recorded of it.
collections(Dir, Options) ->
    {ok, R} = kymo:start(#{dir => Dir, owner => none}),
    {ok, _} = kymo:trace(R, maps:merge(#{events => [procs, garbage_collection]}, Options)),
    collect(1, 100),
    {ok, #{measures := Measures}} = kymo:stop(R),
    {tag(Dir, "gc_major_end"), [M || #{measure := M} <- Measures]}.

collect(Processes, Times) ->
    Collectors = [spawn_monitor(fun() -> [erlang:garbage_collect() || _ <- lists:seq(1, Times)] end) || _ <- lists:seq(1, Processes)],
    [receive {'DOWN', Ref, _, _, Why} -> normal = Why end || {_, Ref} <- Collectors],
    ok.

tag(Dir, Tag) ->
    {_, Json} = kymo_cli:run(["info", "--json", Dir]),
    case re:run(Json, ["\"", Tag, "\":([0-9]+)"], [{capture, all_but_first, list}]) of
        {match, [N]} -> list_to_integer(N);
        nomatch -> 0
    end.

collections_on_request(Config) ->
    Dir = ?config(dir, Config),
    {N, Measures} = collections(Dir, #{garbage_collection => always}),
    ?assert(N >= 100),
    ?assertNot(lists:member(collections, Measures)).

%%
%% Collections in two sessions
%%

%% A tool begins to trace collections before kymo starts, or while it records.
collections_beside_others(Config) ->
    with_node(collections_in_sessions, Config, fun(Peer) ->
        ok = run(Peer, beside, [?config(dir, Config), before]),
        ok = run(Peer, beside, [?config(dir, Config), later])
    end).

%% The budget measures what events cost.
beside(Dir, When) ->
    Tool = fun(W) -> [other_tool() || W =:= When] end,
    Before = Tool(before),
    {ok, R} = kymo:start(#{dir => Dir, owner => none, budget => #{cpu => 50}}),
    {ok, _} = kymo:trace(R, #{events => [messages, procs, garbage_collection]}),
    Later = Tool(later),
    collect(4, 300),
    {ok, _} = kymo:stop(R),
    [trace:session_destroy(S) || S <- Before ++ Later],
    ok = file:del_dir_r(Dir).

other_tool() ->
    Counter = spawn(fun F() -> receive _ -> F() end end),
    Session = trace:session_create(tool, Counter, []),
    trace:process(Session, all, true, [garbage_collection]),
    Session.

%% With `always' for one recorder, the sizes that it records are right whatever the other does.
collections_of_two_recorders(Config) ->
    with_node(collections_in_sessions, Config, fun(Peer) ->
        ok = run(Peer, two_recorders, [?config(dir, Config)])
    end).

two_recorders(Dir) ->
    Rs = [
        begin
            {ok, R} = kymo:start(#{dir => Dir ++ N, owner => none}),
            {ok, _} = kymo:trace(R, Spec#{processes => new, events => [procs, garbage_collection]}),
            R
        end
     || {N, Spec} <- [{"a", #{garbage_collection => always}}, {"b", #{}}]
    ],
    collect(4, 300),
    [{ok, _} = kymo:stop(R) || R <- Rs],
    Sizes = [sizes(Dir ++ N) || N <- ["a", "b"]],
    [file:del_dir_r(Dir ++ N) || N <- ["a", "b"]],
    ?assert(length(hd(Sizes)) >= 2400),
    %% The size of each event is that of a new process.
    ?assertEqual(lists:usort(hd(Sizes)), lists:usort(lists:append(Sizes))),
    ?assertMatch([Size] when Size > 0, lists:usort(hd(Sizes))),
    ok.

%% bin_old_vheap_block_size of each event.
sizes(Dir) ->
    {_, Out} = kymo_cli:run(["print", "--quiet", "--json", "--events", "gc_minor_start,gc_minor_end,gc_major_start,gc_major_end", "--limit", "100000", Dir]),
    case re:run(Out, "\"bin_old_vheap_block_size\":([0-9]+)", [global, {capture, all_but_first, list}]) of
        {match, Found} -> [list_to_integer(N) || [N] <- Found];
        nomatch -> []
    end.

%%
%% attach
%%

attached_beside_others(Config) ->
    case is_affected(collections_in_sessions) andalso os:getenv("KYMO_FAULTS") =/= "trigger" of
        false ->
            {skip, "this runtime does not have the fault, or kymo is to trigger faults"};
        true ->
            [attached(Tool, Extra, Config) || {Tool, Extra} <- [
                {"dbg:tracer(process, {fun(_, N) -> N + 1 end, 0}), dbg:p(all, [garbage_collection])", []},
                {"dbg:tracer(process, {fun(_, N) -> N + 1 end, 0}), dbg:p(all, [garbage_collection])", ["--events", "messages"]},
                {"dbg:p(all, clear)", ["--garbage-collection", "always"]}
            ]]
    end.

attached(Tool, Extra, Config) ->
    Dir = ?config(dir, Config),
    {ok, Peer, Node} = peer:start(#{
        name => peer:random_name(), host => "127.0.0.1", longnames => true, connection => standard_io,
        exec => filename:join([code:root_dir(), "bin", "erl"]), args => ["-setcookie", "kymo_faults"]
    }),
    try
        {ok, Tokens, _} = erl_scan:string(Tool ++ "."),
        {ok, Exprs} = erl_parse:parse_exprs(Tokens),
        _ = peer:call(Peer, erl_eval, exprs, [Exprs, []]),
        Collect = "spawn(fun F() -> receive after 1 -> ok end, erlang:garbage_collect(), F() end).",
        {ok, Loop, _} = erl_scan:string(Collect),
        {ok, LoopExprs} = erl_parse:parse_exprs(Loop),
        {value, Pid, _} = peer:call(Peer, erl_eval, exprs, [LoopExprs, []]),
        {Status, Out} = kymo_cli:run(["attach", "--erl", filename:join([code:root_dir(), "bin", "erl"]), "--cookie", "kymo_faults", atom_to_list(Node), "--for", "1s", "-o", Dir | Extra]),
        ?assertEqual({0, true, Out}, {Status, peer:call(Peer, erlang, is_process_alive, [Pid]), Out}),
        ?assertEqual(Extra =:= ["--garbage-collection", "always"], tag(Dir, "gc_major_end") > 0)
    after
        catch peer:stop(Peer),
        file:del_dir_r(Dir)
    end.

%%
%% Processes that hibernate
%%

%% Processes with large heaps hibernate and are woken up while recorders do all that they can do to
%% them. The first that is stuck fails the case.
hibernating_processes(Config) ->
    with_node(hibernation, Config, fun(Peer) ->
        ok = run(Peer, hibernate, [[look_at, record], ?config(dir, Config), 1000 * max(20, seconds())])
    end).

%% The same while received messages are asked for, by recorders that come and go.
hibernating_receivers(Config) ->
    with_node(hibernation_received, Config, fun(Peer) ->
        ok = run(Peer, hibernate, [[record_messages], ?config(dir, Config), 1000 * max(20, seconds())])
    end).

hibernate(What, Dir, Ms) ->
    Self = self(),
    Sleepers = [spawn(fun() -> sleeper(Self) end) || _ <- lists:seq(1, 8)],
    Recorders = [spawn_monitor(?MODULE, Function, [filename:join(Dir, Function), Sleepers]) || Function <- What],
    Result = pinged(Sleepers, erlang:monotonic_time(millisecond) + Ms, 0),
    [begin exit(Pid, kill), receive {'DOWN', Ref, _, _, _} -> ok end end || {Pid, Ref} <- Recorders],
    Result.

%% 60,000 elements make the collection at hibernation a dirty one.
sleeper(To) ->
    receive {ping, N} -> To ! {pong, self(), N} end,
    put(kept, lists:seq(1, 60000)),
    erlang:hibernate(?MODULE, sleeper, [To]).

look_at(Dir, Sleepers) ->
    {ok, R} = kymo:start(#{dir => Dir, counters => 10, system_monitor => default, memory => 4194304}),
    {ok, _} = kymo:trace(R, #{processes => Sleepers, events => [procs, garbage_collection]}),
    (fun F() -> kymo:info(R), receive after 10 -> F() end end)().

record(Dir, Sleepers) ->
    recorded(Dir, [procs, garbage_collection], 0),
    record(Dir, Sleepers).

record_messages(Dir, Sleepers) ->
    recorded(Dir, [messages, running, procs], 500),
    record_messages(Dir, Sleepers).

recorded(Dir, Events, Ms) ->
    {ok, R} = kymo:start(#{dir => Dir, budget => #{cpu => 50}, memory => 4194304}),
    {ok, _} = kymo:trace(R, #{events => Events}),
    receive after Ms -> ok end,
    {ok, _} = kymo:snapshot(R, Dir ++ ".copy"),
    {ok, _} = kymo:stop(R),
    [ok = file:del_dir_r(D) || D <- [Dir, Dir ++ ".copy"]].

pinged(Sleepers, End, N) ->
    [P ! {ping, N} || P <- Sleepers],
    Stuck = [P || P <- Sleepers, receive {pong, P, N} -> false after 10000 -> true end],
    case Stuck of
        [_ | _] -> {stuck, length(Stuck), after_pings, N};
        [] -> case erlang:monotonic_time(millisecond) < End of true -> pinged(Sleepers, End, N + 1); false -> ok end
    end.

%% If nothing else was asked for, leaving them out would be a recording of nothing.
only_received(Config) ->
    case is_affected(hibernation_received) of
        false ->
            {skip, "this runtime does not have the fault"};
        true ->
            {ok, R} = kymo:start(#{dir => ?config(dir, Config)}),
            {error, {unsafe, received, _, Fixed} = Why} = kymo:trace(R, #{events => ['receive', set_on_spawn]}),
            Text = unicode:characters_to_list(kymo:format_error(Why)),
            [?assertNotEqual(nomatch, string:find(Text, Part)) || Part <- ["received_messages => always", Fixed]],
            ?assertMatch({error, {bad_option, received_messages, yes}}, kymo:trace(R, #{events => [procs], received_messages => yes})),
            {ok, _} = kymo:trace(R, #{events => [messages]}),
            Self = self(),
            [begin {P, Ref} = spawn_monitor(fun() -> receive X -> Self ! X end end), P ! Ref, receive Ref -> ok end,
                receive {'DOWN', Ref, _, _, _} -> ok end end || _ <- lists:seq(1, 10)],
            {ok, _} = kymo:stop(R),
            ?assert(tag(?config(dir, Config), "send") >= 20),
            ?assertEqual(0, tag(?config(dir, Config), "receive"))
    end.

%% What cannot be done without a signal is refused, with the release that has the fix.
refused_on_signals(Config) ->
    case is_affected(hibernation) of
        false ->
            {skip, "this runtime does not have the fault"};
        true ->
            [
                begin
                    {error, {unsafe, signals, _, Fixed} = Why} = kymo:start(Options#{dir => ?config(dir, Config)}),
                    Text = unicode:characters_to_binary(kymo:format_error(Why)),
                    ?assertMatch([_, _], binary:split(Text, Fixed))
                end
             || Options <- [#{triggers => [{mailbox, 100}]}, #{triggers => [{mailbox, [init], 100}]}, #{tracing => global}]
            ]
    end.

%%
%% The system monitor
%%

%% Without the measure a node crashes within about 20 seconds. The process that has set the system monitor is killed, again and again, while collections of two
%% processes are reported and another one sets patterns.
monitor_of_killed_process(Config) ->
    with_node(monitor_in_session, Config, fun(Peer) ->
        ok = run(Peer, kill_monitors, [?config(dir, Config), 1000 * seconds()])
    end).

kill_monitors(Dir, Ms) ->
    End = erlang:monotonic_time(millisecond) + Ms,
    Busy = [spawn_monitor(F) || F <- [fun reported/0, fun reported/0, fun patterns/0]],
    killed(Dir, End, 0),
    [begin exit(Pid, kill), receive {'DOWN', Ref, _, _, _} -> ok end end || {Pid, Ref} <- Busy],
    ok.

reported() ->
    _ = lists:seq(1, 20000),
    erlang:garbage_collect(),
    reported().

patterns() ->
    Session = trace:session_create(tool, self(), []),
    (fun F() ->
        trace:function(Session, {lists, seq, 2}, true, [local]),
        trace:function(Session, {lists, seq, 2}, false, [local]),
        F()
    end)().

killed(Dir, End, N) ->
    {ok, R} = kymo:start(#{dir => Dir, owner => none, memory => 4194304, system_monitor => [{large_heap, 1000}, {long_gc, 0}]}),
    {kymo_recorder, Server, _, _} = R,
    {_, Links} = erlang:process_info(Server, monitors),
    _ = [exit(Pid, kill) || {process, Pid} <- Links],
    exit(Server, kill),
    ok = gone(Dir),
    erlang:monotonic_time(millisecond) < End andalso killed(Dir, End, N + 1),
    ok.

%% Until the janitor has ended the recording.
gone(Dir) ->
    case [R || #{recorder := R, dir := D, state := State} <- kymo:list(), D =:= list_to_binary(Dir), State =/= closed] of
        [] -> file:del_dir_r(Dir);
        _ -> receive after 1 -> gone(Dir) end
    end.
