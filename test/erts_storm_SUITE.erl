%% SPDX-License-Identifier: Apache-2.0
%%
%% All operations of the series at the same time, in nodes with more schedulers than the machine
%% has processors, while their callers are killed at random. No node may crash, no process may be
%% stuck, each operation must end, and afterwards no effect of the operations may be left. A failure names the folder with the core or crash
%% dump of the node.
-module(erts_storm_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2]).
-export([profiled_while_spawned/1, children_of_dying_sessions/1, links_of_dying_sessions/1,
         storm/1, storm_of_schedulers/1, storm_on_one_processor/1, sleepers_under_flags/1]).
-export([profile_spawned/1, destroy_while_spawning/1, link_in_dying_session/1, change_flags/1]).

suite() ->
    [{timetrap, {minutes, 5}}].

all() ->
    [profiled_while_spawned, children_of_dying_sessions, links_of_dying_sessions,
     storm, storm_of_schedulers, storm_on_one_processor, sleepers_under_flags].

init_per_suite(Config) ->
    case erts_reload_work:is_patched() of
        true ->
            So = filename:join(?config(priv_dir, Config), "event_tracer_raw"),
            erts_tracer_nif:cc(erts_tracer_nif:source(), So ++ ".so", ["-DMODULE=event_tracer_raw", "-DVERSION=1",
                                                                        "-DRAW=2", "-I", erts_tracer_nif:header_dir()]),
            Nap = filename:absname(filename:join(?config(priv_dir, Config), "nap")),
            erts_tracer_nif:cc(filename:join(?config(data_dir, Config), "nap.c"), Nap ++ ".so", []),
            [{tracer, erts_tracer_nif:code_with(event_tracer_raw, So, 0)}, {nap, Nap} | Config];
        false ->
            {skip, "this runtime does not carry the kymo series"}
    end.

end_per_suite(_Config) ->
    ok.

init_per_testcase(Case, Config) ->
    Dir = filename:join(?config(priv_dir, Config), Case),
    ok = filelib:ensure_path(Dir),
    [{dir, Dir} | Config].

%%--------------------------------------------------------------------------

%% What system_profile/2 reports about a process that is being created is the function that it
%% will run. The tracer gets so many messages that the lock of its message queue is often taken;
%% then a message about the new process makes that process active before its creator does.
profiled_while_spawned(Config) ->
    Until = erts_reload_work:stress_until(),
    Millis = Until - erlang:monotonic_time(millisecond),
    [Wrong] = in_nodes(1, Config, ["+S", "16:16"], ?MODULE, profile_spawned, [Millis]),
    ?assertEqual([], Wrong).

profile_spawned(Millis) ->
    process_flag(message_queue_data, off_heap),
    Until = erlang:monotonic_time(millisecond) + Millis,
    Tracer = spawn(fun idle/0),
    Flood = [spawn(fun() -> flood(Tracer) end) || _ <- lists:seq(1, 12)],
    Session = trace:session_create(?MODULE, Tracer, []),
    Spawners = [spawn(fun spawner/0) || _ <- [1, 2]],
    [1 = trace:process(Session, P, true, [procs, set_on_spawn]) || P <- Spawners],
    erlang:system_profile(self(), [runnable_procs]),
    [P ! go || P <- Spawners],
    Wrong = profiled(Until, []),
    erlang:system_profile(undefined, []),
    [exit(P, kill) || P <- [Tracer | Spawners ++ Flood]],
    Wrong.

%% A word that is not a term must not be inspected further than to see that.
profiled(Until, Wrong0) ->
    Wrong = receive
                {profile, _, active, {M, F, A}, _} when is_atom(M), is_atom(F), is_integer(A) -> Wrong0;
                {profile, Pid, active, MFA, _} when is_tuple(MFA) -> lists:sublist([Pid | Wrong0], 10);
                _ -> Wrong0
            end,
    case erlang:monotonic_time(millisecond) < Until of
        true -> profiled(Until, Wrong);
        false -> Wrong
    end.

idle() -> receive _ -> idle() end.

flood(To) -> To ! x, flood(To).

spawner() ->
    receive go -> spawn_on() end.

spawn_on() ->
    _ = spawn(fun() -> ok end),
    spawn_on().

%% Processes that are created while their parent's session is being destroyed must not refer to
%% that session: nothing would remove the reference before the session is freed. The debug
%% emulator aborts if one does.
children_of_dying_sessions(Config) ->
    Millis = erts_reload_work:stress_until() - erlang:monotonic_time(millisecond),
    ?assertEqual([ok], in_nodes(1, Config, ["+S", "4:4"], ?MODULE, destroy_while_spawning, [Millis])).

destroy_while_spawning(Millis) ->
    Until = erlang:monotonic_time(millisecond) + Millis,
    Tracer = spawn(fun idle/0),
    Spawners = [spawn(fun spawner/0) || _ <- [1, 2]],
    [P ! go || P <- Spawners],
    destroy_while_spawning(Until, Tracer, Spawners).

destroy_while_spawning(Until, Tracer, Spawners) ->
    Session = trace:session_create(?MODULE, Tracer, []),
    [1 = trace:process(Session, P, true, [procs, set_on_spawn]) || P <- Spawners],
    true = trace:session_destroy(Session),
    case erlang:monotonic_time(millisecond) < Until of
        true -> destroy_while_spawning(Until, Tracer, Spawners);
        false -> ok
    end.

%% A link must not pass on a session that is being destroyed because it is no longer referenced:
%% the signal would refer to a session without references.
%%
%% While this process has the code modification permission, no session can be destroyed. A
%% session without references waits for it, and its tracees keep their flags until then. Without
%% the check, the linked process becomes traced, and the session is destroyed twice. The second
%% part does the same at random; the debug emulator aborts if a process that has been cleaned of
%% a session gets it again.
links_of_dying_sessions(Config) ->
    Millis = erts_reload_work:stress_until() - erlang:monotonic_time(millisecond),
    ?assertEqual([{[], ok}], in_nodes(1, Config, ["+S", "4:4"], ?MODULE, link_in_dying_session, [Millis])).

link_in_dying_session(Millis) ->
    Events = lists:append([link_in_dying_session() || _ <- lists:seq(1, 20)]),
    {Events, drop_while_linking(Millis)}.

link_in_dying_session() ->
    Self = self(),
    Linker = spawn(fun() -> receive {link, Pid} -> Self ! {linked, link(Pid)} end, idle() end),
    Linked = spawn(fun() -> receive {ping, From} -> From ! pong end, idle() end),
    Owner = spawn(fun() ->
                          ok = own_session(Linker, Self),
                          Self ! owned,
                          receive drop -> true = erlang:garbage_collect() end,
                          Self ! dropped,
                          idle()
                  end),
    receive owned -> ok end,
    erts_debug:set_internal_state(available_internal_state, true),
    true = erts_debug:set_internal_state(code_mod_permission, true),
    Owner ! drop,
    receive dropped -> ok end,
    Linker ! {link, Linked},
    receive {linked, true} -> ok end,
    Linked ! {ping, Self},
    receive pong -> ok end,
    Ref = erlang:trace_delivered(Linked),
    receive {trace_delivered, Linked, Ref} -> ok end,
    true = erts_debug:set_internal_state(code_mod_permission, false),
    [exit(Pid, kill) || Pid <- [Linker, Linked, Owner]],
    events_of(Linked).

%% After this, the session is not referenced.
own_session(Linker, Tracer) ->
    Session = trace:session_create(?MODULE, Tracer, []),
    1 = trace:process(Session, Linker, true, [set_on_link, 'receive']),
    ok.

events_of(Pid) ->
    receive Event when element(2, Event) =:= Pid -> [Event | events_of(Pid)]
    after 0 -> []
    end.

drop_while_linking(Millis) ->
    Until = erlang:monotonic_time(millisecond) + Millis,
    Tracer = spawn(fun idle/0),
    Linkers = [spawn(fun linker/0) || _ <- [1, 2]],
    drop_while_linking(Until, Tracer, Linkers).

drop_while_linking(Until, Tracer, Linkers) ->
    {Owner, Ref} =
        spawn_monitor(fun() ->
                              Session = trace:session_create(?MODULE, Tracer, []),
                              [1 = trace:process(Session, P, true, [set_on_link]) || P <- Linkers]
                      end),
    receive {'DOWN', Ref, process, Owner, Reason} -> normal = Reason end,
    case erlang:monotonic_time(millisecond) < Until of
        true -> drop_while_linking(Until, Tracer, Linkers);
        false -> ok
    end.

%% The first link from a process to another one that is not running sends a signal.
linker() ->
    Pid = spawn(fun idle/0),
    link(Pid),
    unlink(Pid),
    exit(Pid, kill),
    linker().

%% Several nodes with many schedulers each, which compete for the processors.
storm(Config) ->
    storm(2, ["+S", "8:8", "+Mim", "true"], operations, Config).

%% The number of schedulers changes, and they are blocked.
storm_of_schedulers(Config) ->
    storm(1, ["+S", "4:4"], of_schedulers, Config).

%% A thread that holds a lock is often preempted.
storm_on_one_processor(Config) ->
    case os:find_executable("taskset") of
        false -> {skip, "there is no taskset"};
        Taskset -> storm(1, ["+S", "6:6", "+Mim", "true"], operations, [{prefix, [Taskset, "-c", "0"]} | Config])
    end.

storm(Nodes, Flags, Others, Config) ->
    Millis = erts_reload_work:stress_until() - erlang:monotonic_time(millisecond),
    Results = in_nodes(Nodes, Config, Flags, erts_storm_work, run,
                       [Millis, ?config(tracer, Config), {nap, ?config(nap, Config), Others}]),
    [ct:log("~p~n", [Counts]) || {Counts, _} <- Results],
    [?assertEqual([], Left) || {_, Left} <- Results],
    ok.

%% The trace flags of all processes change while processes with large heaps hibernate and are woken:
%% a signal that changes flags must not take the place of the message that wakes a process.
sleepers_under_flags(Config) ->
    Millis = erts_reload_work:stress_until() - erlang:monotonic_time(millisecond),
    [{Rounds, Stuck}] = in_nodes(1, Config, [], ?MODULE, change_flags, [Millis]),
    ?assertEqual([], Stuck),
    ?assert(Rounds > 0).

change_flags(Millis) ->
    Sleepers = erts_storm_system:start_sleepers(),
    Changers = [spawn(fun() -> change_flags_of_all(trace:session_create(?MODULE, spawn(fun idle/0), [])) end)
                || _ <- lists:seq(1, 2)],
    _ = erlang:send_after(Millis, self(), stop),
    receive stop -> ok end,
    [exit(P, kill) || P <- Changers],
    erts_storm_system:stop_sleepers(Sleepers).

change_flags_of_all(Session) ->
    _ = trace:process(Session, all, true, [procs]),
    _ = trace:process(Session, all, false, [procs]),
    change_flags_of_all(Session).

%%--------------------------------------------------------------------------

%% Runs a function in several nodes at once, and returns the results.
in_nodes(N, Config, Flags, M, F, As) ->
    Nodes = [start_node(I, Config, Flags) || I <- lists:seq(1, N)],
    Self = self(),
    Calls = [spawn_monitor(fun() -> Self ! {self(), call(Node, M, F, As)} end) || Node <- Nodes],
    Results = [receive
                   {Pid, Result} -> Result;
                   {'DOWN', Ref, _, Pid, Reason} when Reason =/= normal -> {failed, Reason}
               end || {Pid, Ref} <- Calls],
    [catch peer:stop(Peer) || {Peer, _} <- Nodes],
    Failed = [R || {failed, _} = R <- Results],
    Failed =:= [] orelse ct:fail({Failed, [dumps(Dir) || {_, Dir} <- Nodes]}),
    Results.

call({Peer, _}, M, F, As) ->
    try peer:call(Peer, M, F, As, infinity)
    catch Class:Reason -> {failed, {Class, Reason}}
    end.

%% In a folder of its own, where it may write a core dump.
start_node(I, Config, Flags) ->
    Dir = filename:join(?config(dir, Config), integer_to_list(I)),
    ok = filelib:ensure_path(Dir),
    Erl = filename:join([code:root_dir(), "bin", "erl"]),
    {ok, Peer, _} =
        peer:start(#{connection => standard_io, wait_boot => 120000,
                     env => [{"ERL_CRASH_DUMP", filename:join(Dir, "erl_crash.dump")}],
                     exec => {"/bin/sh", ["-c", "cd \"$0\" && ulimit -c unlimited; exec \"$@\"", Dir
                                          | proplists:get_value(prefix, Config, []) ++ [Erl]]},
                     args => Flags ++ absolute(erts_reload_work:emulator_flags())}),
    {Peer, Dir}.

absolute(["-pa", Path]) -> ["-pa", filename:absname(Path)];
absolute([Flag | Flags]) -> [Flag | absolute(Flags)].

dumps(Dir) ->
    {Dir, filelib:wildcard("{core*,erl_crash.dump}", Dir)}.
