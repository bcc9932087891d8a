%% SPDX-License-Identifier: Apache-2.0
%%
%% The trace BIFs that act on the whole system: trace/3 on all processes and ports,
%% trace_info/2, system_monitor/2, system_profile/2. Their results are checked on any runtime;
%% that they do not stop the schedulers is checked only on the patched one.
-module(erts_trace_bif_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-export([all/0, groups/0, suite/0, init_per_suite/1, end_per_suite/1,
         init_per_group/2, end_per_group/2, init_per_testcase/2,
         end_per_testcase/2]).
-export([blocking_unknown_in_stock/1, blocking_counts/1, blocking_by_cause/1,
         nothing_blocks/1,
         all_returns/1, all_and_new/1, all_other_tracer/1, all_ports/1,
         all_while_spawning/1, all_while_running/1, all_by_two/1,
         all_caller_killed/1, all_session_destroyed/1, all_tracer_dies/1,
         all_stress/1, all_in_legacy_tables/1,
         counters_exact/1, counters_of_many/1, counters_while_counting/1,
         counters_while_changing/1, counters_caller_killed/1,
         destroy_unused/1, destroy_used/1, destroy_in_steps/1, destroyer_killed/1,
         message_of_a_port/1, port_of_two_sessions/1, port_closing_while_destroyed/1,
         exiting_while_destroyed/1, memory_of_earlier_session/1,
         info_of_dead/1, permission_in_order/1, permission_of_those_who_do_not_come/1, permission_of_late_ones/1,
         monitor_returns/1, monitor_bad_arguments/1, monitor_by_many/1,
         monitor_exits/1, monitor_while_reporting/1,
         monitor_changes_during_collection/1, monitor_changes_before_delivery/1,
         monitor_of_session/1, monitor_of_session_by_many/1, monitor_of_session_exits/1,
         monitor_of_lost_session/1,
         profile_returns/1, profile_exits/1, profile_while_reporting/1,
         profile_counts_schedulers/1]).
-export([traced/1, trace_while_spawning/0, lose_monitoring_sessions/1, measure_in_sessions/0, allocating/0, not_allocating/0, late_in_peer/1]).

%% The maximum number of functions and export entries that are visited before other work can
%% run.
-define(STEP, 4000).

suite() ->
    [{timetrap, {minutes, 5}}].

all() ->
    [blocking_unknown_in_stock,
     all_returns, all_and_new, all_other_tracer, all_ports, all_while_spawning,
     all_while_running, all_by_two, all_caller_killed, all_tracer_dies,
     all_stress, all_in_legacy_tables,
     counters_exact, counters_of_many, counters_while_counting,
     counters_while_changing, counters_caller_killed,
     monitor_returns, monitor_bad_arguments, monitor_by_many,
     monitor_while_reporting,
     profile_returns, profile_while_reporting,
     {group, sessions}, {group, session_monitors}, {group, patched}].

groups() ->
    [{sessions, [], [all_session_destroyed]},
     {session_monitors, [], [monitor_of_session, monitor_of_session_by_many, monitor_of_session_exits]},
     {patched, [],
      [blocking_counts, blocking_by_cause, nothing_blocks, destroy_unused, destroy_used, destroy_in_steps, destroyer_killed, message_of_a_port, port_of_two_sessions,
       port_closing_while_destroyed, exiting_while_destroyed, memory_of_earlier_session,
       info_of_dead, permission_in_order, monitor_of_lost_session,
       permission_of_those_who_do_not_come, permission_of_late_ones, monitor_exits,
       monitor_changes_during_collection, monitor_changes_before_delivery,
       profile_exits, profile_counts_schedulers]}].

init_per_suite(Config) ->
    Config.

end_per_suite(_Config) ->
    ok.

init_per_group(sessions, Config) ->
    case code:ensure_loaded(trace) of
        {module, trace} -> Config;
        _ -> {skip, "this runtime has no trace sessions"}
    end;
init_per_group(session_monitors, Config) ->
    _ = code:ensure_loaded(trace),
    case erlang:function_exported(trace, system, 3) of
        true -> Config;
        false -> {skip, "before OTP 28 sessions monitor nothing"}
    end;
init_per_group(patched, Config) ->
    case is_patched() of
        true -> Config;
        false -> {skip, "this runtime does not carry the kymo series"}
    end.

end_per_group(_Group, _Config) ->
    ok.

init_per_testcase(blocking_unknown_in_stock, Config) ->
    case is_patched() of
        true -> {skip, "this runtime carries the kymo series"};
        false -> Config
    end;
init_per_testcase(counters_while_changing, Config) ->
    case list_to_integer(erlang:system_info(otp_release)) of
        Release when Release < 27 -> {skip, "OTP before 27 ends when counters begin anew under calls"};
        _ -> Config
    end;
init_per_testcase(Case, Config)
  when Case =:= permission_of_those_who_do_not_come; Case =:= permission_of_late_ones ->
    case list_to_integer(erlang:system_info(otp_release)) of
        27 -> Config;
        _ -> {skip, "later releases hand permissions to processes that are suspended, and leave them there"}
    end;
init_per_testcase(_Case, Config) ->
    Config.

end_per_testcase(_Case, _Config) ->
    erlang:trace(all, false, [all]),
    erlang:trace_pattern({?MODULE, '_', '_'}, false, [local, call_time, call_count]),
    erlang:system_monitor(undefined),
    erlang:system_profile(undefined, []),
    ok.

is_patched() ->
    try erlang:system_info(kymo_blocking) of
        _ -> true
    catch
        error:badarg -> false
    end.

%%--------------------------------------------------------------------------
%% How often the schedulers were stopped, and why

blocking_unknown_in_stock(_Config) ->
    ?assertError(badarg, erlang:system_info(kymo_series)),
    ?assertError(badarg, erlang:system_info(kymo_blocking)).

%% Operations that do not block are not counted, and each one that does is, also when many block
%% at the same time.
blocking_counts(_Config) ->
    {_, []} = blocked_by(fun() ->
                                 _ = [lists:seq(1, 1000) || _ <- lists:seq(1, 1000)],
                                 erlang:garbage_collect()
                         end),
    erts_debug:set_internal_state(available_internal_state, true),
    Blocker = fun(N) ->
                      fun() ->
                              [true = erts_debug:set_internal_state(block, 1)
                               || _ <- lists:seq(1, N)]
                      end
              end,
    {_, [{debug_block, 1}]} = blocked_by(Blocker(1)),
    {_, [{debug_block, 70}]} =
        blocked_by(fun() -> parallel([Blocker(7) || _ <- lists:seq(1, 10)]) end),
    erts_debug:set_internal_state(available_internal_state, false).

%% Each operation is counted under its own cause.
blocking_by_cause(_Config) ->
    erts_debug:set_internal_state(available_internal_state, true),
    Min = element(2, erlang:system_info(min_heap_size)),
    MinBin = element(2, erlang:system_info(min_bin_vheap_size)),
    Max = erlang:system_info(max_heap_size),
    [?assertMatch({Cause, {_, [{Cause, 1}]}}, {Cause, blocked_by(Fun)})
     || {Cause, Fun} <-
            [{min_heap_size, fun() -> erlang:system_flag(min_heap_size, Min) end},
             {min_bin_vheap_size, fun() -> erlang:system_flag(min_bin_vheap_size, MinBin) end},
             {max_heap_size, fun() -> erlang:system_flag(max_heap_size, Max) end},
             {exact_reductions, fun() -> erlang:statistics(exact_reductions) end},
             {system_info_text, fun() -> erlang:system_info(info) end},
             {system_info_text, fun() -> erlang:system_info(loaded) end},
             {scheduler_stat, fun() -> erlang:system_flag(scheduling_statistics, disable) end},
             {debug_memory, fun() -> erts_debug:get_internal_state(memory) end},
             {debug_check_io, fun() -> erts_debug:get_internal_state(check_io_debug) end},
             {debug_node_references,
              fun() -> erts_debug:get_internal_state(node_and_dist_references) end},
             {debug_node_monitors,
              fun() -> erts_debug:get_internal_state(monitoring_nodes) end}]],
    erts_debug:set_internal_state(available_internal_state, false).

%% The operations that this suite is about.
nothing_blocks(_Config) ->
    Idle = idle(1000),
    Tracer = spawn_link(fun idle_loop/0),
    {_, []} =
        blocked_by(
          fun() ->
                  erlang:trace_pattern({?MODULE, traced, 1}, true, [call_time, call_count]),
                  [begin
                       erlang:trace(What, true, [send, call, {tracer, Tracer}]),
                       [erlang:trace_info({?MODULE, traced, 1}, Key)
                        || Key <- [call_time, call_memory, call_count, all]],
                       erlang:trace(What, false, [all])
                   end || What <- [all, existing, existing_processes, existing_ports,
                                   processes, ports, new, new_processes, new_ports]],
                  erlang:trace(all, true, [send, cpu_timestamp, {tracer, Tracer}]),
                  erlang:trace(all, false, [all, cpu_timestamp]),
                  [begin
                       erlang:system_monitor(Tracer, [busy_port, {long_gc, 1000}]),
                       erlang:system_monitor(undefined)
                   end || _ <- [1, 2]],
                  [begin
                       erlang:system_profile(Tracer, [scheduler, runnable_procs]),
                       erlang:system_profile(undefined, [])
                   end || _ <- [1, 2]],
                  %% Processes that have exited are detected.
                  [begin
                       Gone = spawn(fun idle_loop/0),
                       Set(Gone),
                       exit_and_wait(Gone),
                       undefined = Get()
                   end || {Set, Get} <-
                              [{fun(P) -> erlang:system_monitor(P, [{long_gc, 1}]) end,
                                fun erlang:system_monitor/0},
                               {fun(P) -> erlang:system_profile(P, [runnable_procs]) end,
                                fun erlang:system_profile/0}]],
                  seq_trace:set_system_tracer(Tracer),
                  seq_trace:set_system_tracer(false)
          end),
    stop(Idle).

%%--------------------------------------------------------------------------
%% trace/3 on all

%% The returned numbers, and the flags that are set.
all_returns(_Config) ->
    Idle = idle(100),
    Port = open_port({spawn, "cat"}, []),
    Procs = fun() -> length(processes()) end,
    Ports = fun() -> length(erlang:ports()) end,
    Both = fun() -> Procs() + Ports() end,
    None = fun() -> 0 end,
    [begin
         ?assertEqual({What, On, within},
                      {What, On, within(Count, fun() -> erlang:trace(What, On, Flags) end)}),
         Expected = case On of true -> Set; false -> [] end,
         ?assertEqual({What, On, proc, case InProcs of true -> Expected; false -> [] end},
                      {What, On, proc, flags(hd(Idle))}),
         ?assertEqual({What, On, port, case InPorts of true -> Expected; false -> [] end},
                      {What, On, port, flags(Port)})
     end || {What, Flags, Set, Count, InProcs, InPorts} <-
                [{all, [send, 'receive'], ['receive', send], Both, true, true},
                 {existing, [send], [send], Both, true, true},
                 {existing, [procs], [procs], Procs, true, false},
                 {existing, [ports], [ports], Ports, false, true},
                 {processes, [send], [send], Procs, true, false},
                 {ports, [send], [send], Ports, false, true},
                 {existing_processes, [send], [send], Procs, true, false},
                 {existing_ports, [send], [send], Ports, false, true},
                 {new, [send], [send], None, false, false},
                 {new_processes, [send], [send], None, false, false},
                 {new_ports, [send], [send], None, false, false}],
            On <- [true, false]],
    port_close(Port),
    stop(Idle).

%% all applies to existing and new items, existing only to the former.
all_and_new(_Config) ->
    [begin
         erlang:trace(What, true, [procs]),
         ?assertEqual({What, {flags, New}}, {What, erlang:trace_info(new_processes, flags)}),
         Pid = spawn(fun idle_loop/0),
         ?assertEqual({What, New}, {What, flags(Pid)}),
         erlang:trace(all, false, [procs]),
         ?assertEqual({flags, []}, erlang:trace_info(new_processes, flags)),
         ?assertEqual([], flags(Pid)),
         stop([Pid])
     end || {What, New} <- [{all, [procs]}, {processes, [procs]}, {new, [procs]},
                            {existing, []}, {existing_processes, []}]].

%% Items that another live tracer traces keep it, and are not counted.
all_other_tracer(_Config) ->
    [A, B] = Tracers = idle(2),
    Mine = idle(10),
    [1 = erlang:trace(P, true, [send, {tracer, A}]) || P <- Mine],
    Count = fun() -> length(processes()) - length(Mine) end,
    within = within(Count, fun() ->
                                   erlang:trace(existing_processes, true, [procs, {tracer, B}])
                           end),
    [?assertEqual({[send], {tracer, A}}, {flags(P), erlang:trace_info(P, tracer)}) || P <- Mine],
    exit_and_wait(A),
    within = within(fun() -> length(processes()) end,
                    fun() -> erlang:trace(existing_processes, true, [procs, {tracer, B}]) end),
    [?assertEqual({tracer, B}, erlang:trace_info(P, tracer)) || P <- Mine],
    erlang:trace(all, false, [all]),
    stop(Tracers ++ Mine).

%% Busy ports are set, too.
all_ports(_Config) ->
    Self = self(),
    Tracer = spawn_link(fun idle_loop/0),
    Writers = [spawn_link(fun() ->
                                  Port = open_port({spawn, "cat"}, [binary]),
                                  Self ! {self(), Port},
                                  write(Port)
                          end) || _ <- lists:seq(1, 5)],
    Ports = [receive {W, Port} -> Port end || W <- Writers],
    [begin
         erlang:trace(ports, true, [running_ports, {tracer, Tracer}]),
         [?assertEqual([running_ports], flags(P)) || P <- Ports],
         erlang:trace(ports, false, [running_ports]),
         [?assertEqual([], flags(P)) || P <- Ports]
     end || _ <- lists:seq(1, 100)],
    [begin unlink(W), exit_and_wait(W) end || W <- Writers],
    stop([Tracer]).

write(Port) ->
    true = port_command(Port, <<0:8000>>),
    receive {Port, {data, _}} -> ok after 1 -> ok end,
    write(Port).

%% Processes that are created during the call are not missed, whether they get their flags from
%% the defaults for new ones or by inheritance, both when setting and when clearing. Each of
%% these processes has a different parent, which has exited by then.
all_while_spawning(_Config) ->
    Idle = idle(5000),
    Tracer = spawn_link(fun idle_loop/0),
    Table = ets:new(alive, [public]),
    Self = self(),
    [spawn_link(fun() -> generation(Table, I, Self, Self) end) || I <- lists:seq(1, 8)],
    [receive {entered, I} -> ok end || I <- lists:seq(1, 8)],
    [begin
         erlang:trace(What, true, Flags ++ [{tracer, Tracer}]),
         Sorted = lists:sort(Flags),
         ?assertEqual({What, [Sorted]}, {What, flags_of_generations(Table)}),
         erlang:trace(Clear, false, [all]),
         ?assertEqual({Clear, [[]]}, {Clear, flags_of_generations(Table)}),
         %% existing does not change the defaults.
         erlang:trace(new, false, [all])
     end || _ <- lists:seq(1, 10),
            {What, Clear, Flags} <-
                [{all, all, [garbage_collection]},
                 {processes, processes, [garbage_collection]},
                 {existing, existing, [garbage_collection, set_on_spawn]},
                 {existing_processes, all, [garbage_collection, set_on_spawn]},
                 {all, all, [garbage_collection, set_on_spawn]}]],
    ets:insert(Table, {stop}),
    [receive {last_of, I} -> ok end || I <- lists:seq(1, 8)],
    stop(Idle),
    stop([Tracer]).

%% A process that registers itself, creates the next one, and exits when that has registered
%% itself.
generation(Table, I, Parent, Test) ->
    ets:insert(Table, {{family, I}, self()}),
    Parent ! {entered, I},
    case ets:member(Table, stop) of
        true ->
            Test ! {last_of, I};
        false ->
            Self = self(),
            spawn(fun() -> generation(Table, I, Self, Test) end),
            receive {entered, I} -> ok end
    end.

%% The flags of processes that are alive when asked. There is always one, but not always the
%% same.
flags_of_generations(Table) ->
    case [F || P <- generations(Table), F <- flags_if_alive(P)] of
        [] -> flags_of_generations(Table);
        Flags -> lists:usort(Flags)
    end.

generations(Table) ->
    [P || {{family, _}, P} <- ets:tab2list(Table)].

%% Running processes cannot be locked: they set their own flags, and messages that they receive
%% afterwards are traced.
all_while_running(_Config) ->
    N = erlang:system_info(schedulers),
    %% No other messages that processes receive.
    erlang:trace_pattern('receive', [{['_', '_', {'$1', '_'}],
                                      [{'orelse', {'=:=', '$1', msg}, {'=:=', '$1', not_traced}}],
                                      []}], []),
    Tracer = spawn_link(fun() -> collect_receives(#{}) end),
    Busy = [spawn_link(fun() -> busy_receiver(0) end) || _ <- lists:seq(1, 2 * N)],
    [begin
         within = within(fun() -> length(processes()) end,
                         fun() ->
                                 erlang:trace(existing_processes, true,
                                              ['receive', {tracer, Tracer}])
                         end),
         [P ! {msg, I} || P <- Busy],
         [begin P ! {ask, self()}, receive {P, I} -> ok end end || P <- Busy],
         within = within(fun() -> length(processes()) end,
                         fun() -> erlang:trace(existing_processes, false, ['receive']) end),
         [?assertEqual([], flags(P)) || P <- Busy],
         [P ! {not_traced, I} || P <- Busy],
         [begin P ! {ask, self()}, receive {P, I} -> ok end end || P <- Busy]
     end || I <- lists:seq(1, 50)],
    Ref = erlang:trace_delivered(all),
    receive {trace_delivered, all, Ref} -> ok end,
    Tracer ! {got, self()},
    Got = receive {got, Map} -> Map end,
    [?assertEqual([{msg, I} || I <- lists:seq(1, 50)], lists:reverse(maps:get(P, Got)))
     || P <- Busy],
    erlang:trace_pattern('receive', true, []),
    [begin unlink(P), exit_and_wait(P) end || P <- Busy],
    stop([Tracer]).

busy_receiver(Last) ->
    _ = lists:seq(1, 50),
    receive
        {msg, I} -> busy_receiver(I);
        {not_traced, _} -> busy_receiver(Last);
        {ask, From} -> From ! {self(), Last}, busy_receiver(Last)
    after 0 ->
            busy_receiver(Last)
    end.

collect_receives(Got) ->
    receive
        {trace, Pid, 'receive', Message} ->
            collect_receives(Got#{Pid => [Message | maps:get(Pid, Got, [])]});
        {got, From} ->
            From ! {got, Got},
            collect_receives(Got);
        stop ->
            ok;
        _ ->
            collect_receives(Got)
    end.

%% Several callers take turns: each gets its number, and no flag is lost.
all_by_two(_Config) ->
    Idle = idle(2000),
    Tracer = spawn_link(fun idle_loop/0),
    [begin
         Counts = parallel([fun() ->
                                    erlang:trace(existing_processes, true,
                                                 [Flag, {tracer, Tracer}])
                            end || Flag <- [send, procs, garbage_collection, running]]),
         ?assert(lists:all(fun(N) -> N >= length(Idle) andalso N =< 2 * length(Idle) end,
                           Counts)),
         ?assertEqual([[garbage_collection, procs, running, send]],
                      lists:usort([flags(P) || P <- sample(Idle)])),
         parallel([fun() -> erlang:trace(existing_processes, false, [Flag]) end
                   || Flag <- [send, procs, garbage_collection, running]]),
         ?assertEqual([[]], lists:usort([flags(P) || P <- sample(Idle)]))
     end || _ <- lists:seq(1, 20)],
    stop(Idle),
    stop([Tracer]).

%% The caller is killed at some point of the operation: either all are set or none, and others
%% can continue.
all_caller_killed(_Config) ->
    Idle = idle(3000),
    Tracer = spawn_link(fun idle_loop/0),
    Kill = fun(I) ->
                   {Caller, Ref} = spawn_monitor(fun() ->
                                                         erlang:trace(existing_processes, true,
                                                                      [send, {tracer, Tracer}])
                                                 end),
                   _ = lists:seq(1, I * 200),
                   exit(Caller, kill),
                   receive {'DOWN', Ref, process, Caller, _} -> ok end,
                   %% Runs after any operation that was started before.
                   0 = erlang:trace(new, true, [procs]),
                   Outcome = lists:usort([flags(P) || P <- [hd(Idle), lists:last(Idle)
                                                           | sample(Idle)]]),
                   ?assert(lists:member(Outcome, [[[]], [[send]]])),
                   erlang:trace(all, false, [all]),
                   Outcome
           end,
    Outcomes = kill_later_and_later(Kill, 1, []),
    ct:log("~p", [[{O, length([x || P <- Outcomes, P =:= O])} || O <- lists:usort(Outcomes)]]),
    ?assert(lists:member([[send]], Outcomes)),
    stop(Idle),
    stop([Tracer]).

%% A hundred times, and longer if no operation has been started by then.
kill_later_and_later(Kill, I, Outcomes) when I =< 100 ->
    kill_later_and_later(Kill, I + 1, [Kill(I) | Outcomes]);
kill_later_and_later(Kill, I, Outcomes) ->
    case lists:member([[send]], Outcomes) orelse I > 2000 of
        true -> Outcomes;
        false -> kill_later_and_later(Kill, I + 100, [Kill(I) | Outcomes])
    end.

%% The session is destroyed at any time.
all_session_destroyed(_Config) ->
    Idle = idle(3000),
    Tracer = spawn_link(fun idle_loop/0),
    Results =
        [begin
             S = trace:session_create(destroyed, Tracer, []),
             [Result, true] =
                 parallel([fun() ->
                                   _ = lists:seq(1, I * 100),
                                   try trace:process(S, existing, true, [send])
                                   catch error:badarg -> badarg
                                   end
                           end,
                           fun() -> trace:session_destroy(S) end]),
             ?assertEqual([], [Name || {Name, _} <- trace:session_info(all), Name =:= destroyed]),
             [?assertEqual([], trace:session_info(P)) || P <- sample(Idle)],
             is_integer(Result)
         end || I <- lists:seq(1, 50)],
    ct:log("~p of ~p were in time", [length([x || true <- Results]), length(Results)]),
    stop(Idle),
    stop([Tracer]).

%% The tracer exits before all have been set.
all_tracer_dies(_Config) ->
    Idle = idle(3000),
    [begin
         Tracer = spawn(fun idle_loop/0),
         parallel([fun() ->
                           try erlang:trace(existing, true, [send, {tracer, Tracer}])
                           catch error:badarg -> badarg
                           end
                   end,
                   fun() ->
                           _ = lists:seq(1, I * 100),
                           exit_and_wait(Tracer)
                   end]),
         [?assertEqual({tracer, []}, erlang:trace_info(P, tracer)) || P <- sample(Idle)],
         erlang:trace(all, false, [all])
     end || I <- lists:seq(1, 50)],
    stop(Idle).

%% With process tables in which the slot of a process is reserved before the process exists.
all_in_legacy_tables(_Config) ->
    Flags = ["+P", "1024", "+P", "legacy", "+Q", "1024", "+Q", "legacy"],
    ok = in_peer(Flags, trace_while_spawning, []).

trace_while_spawning() ->
    Spawners = [spawn_link(fun spawner/0) || _ <- lists:seq(1, erlang:system_info(schedulers))],
    [begin
         erlang:trace(existing, true, [procs]),
         erlang:trace(existing, false, [procs])
     end || _ <- lists:seq(1, 500)],
    [begin unlink(Pid), exit(Pid, kill) end || Pid <- Spawners],
    ok.

spawner() ->
    {_, Ref} = spawn_monitor(fun() -> ok end),
    receive {'DOWN', Ref, process, _, _} -> spawner() end.

%% 100,000 processes, others that are created and exit, and all operations at the same time.
all_stress(_Config) ->
    Idle = idle(100_000),
    Tracer = spawn_link(fun idle_loop/0),
    Ends = erlang:monotonic_time(millisecond) + 10_000,
    Repeat = fun(Fun) -> fun() -> repeat_until(Ends, Fun) end end,
    parallel([Repeat(fun() ->
                             erlang:trace(all, true, [garbage_collection, {tracer, Tracer}]),
                             [garbage_collection] = flags(lists:last(Idle)),
                             erlang:trace(all, false, [all])
                     end),
              Repeat(fun() ->
                             _ = parallel([fun() -> traced(10) end || _ <- lists:seq(1, 50)])
                     end),
              Repeat(fun() -> P = open_port({spawn, "true"}, []), catch port_close(P) end),
              Repeat(fun() ->
                             erlang:trace_pattern({?MODULE, traced, 1}, true, [call_time]),
                             erlang:trace_info({?MODULE, traced, 1}, all),
                             erlang:trace_pattern({?MODULE, traced, 1}, false, [call_time])
                     end),
              Repeat(fun() ->
                             erlang:system_monitor(Tracer, [{large_heap, 100_000_000}]),
                             erlang:system_profile(Tracer, [scheduler]),
                             erlang:system_profile(undefined, []),
                             erlang:system_monitor(undefined)
                     end)]),
    ?assertEqual([[]], lists:usort([flags(P) || P <- sample(Idle)])),
    stop(Idle),
    stop([Tracer]).

repeat_until(Ends, Fun) ->
    Fun(),
    case erlang:monotonic_time(millisecond) < Ends of
        true -> repeat_until(Ends, Fun);
        false -> ok
    end.

%%--------------------------------------------------------------------------
%% trace_info/2 of counters

traced(0) -> ok;
traced(N) -> traced(N - 1).

%% The calls of processes that have finished are counted exactly.
counters_exact(_Config) ->
    MFA = {?MODULE, traced, 1},
    Keys = counter_keys(),
    ?assertEqual({call_time, false}, erlang:trace_info(MFA, call_time)),
    ?assertEqual({call_time, undefined}, erlang:trace_info({?MODULE, no_such, 1}, call_time)),
    1 = erlang:trace_pattern(MFA, true, Keys),
    [?assertEqual({Key, []}, erlang:trace_info(MFA, Key)) || Key <- Keys],
    Done = done_calls(10, 100),
    [begin
         {Key, Counters} = erlang:trace_info(MFA, Key),
         ?assertEqual(lists:sort(Done), counts(Counters)),
         {all, All} = erlang:trace_info(MFA, all),
         ?assertEqual(lists:sort(Counters), lists:sort(proplists:get_value(Key, All)))
     end || Key <- Keys],
    {all, [{traced, false}, {match_spec, false}, {meta, false}, {meta_match_spec, false} | _]} =
        erlang:trace_info(MFA, all),
    %% Only the requested items are returned.
    ?assertEqual({call_count, false}, erlang:trace_info(MFA, call_count)),
    1 = erlang:trace_pattern(MFA, restart, Keys),
    [?assertEqual({Key, []}, erlang:trace_info(MFA, Key)) || Key <- Keys],
    1 = erlang:trace_pattern(MFA, false, Keys),
    [?assertEqual({Key, false}, erlang:trace_info(MFA, Key)) || Key <- Keys].

%% Many processes, so that copying and adding up the counters takes many steps.
counters_of_many(_Config) ->
    MFA = {?MODULE, traced, 1},
    Keys = counter_keys(),
    1 = erlang:trace_pattern(MFA, true, Keys),
    Done = done_calls(30_000, 7),
    {all, All} = erlang:trace_info(MFA, all),
    [?assertEqual({Key, lists:sort(Done)}, {Key, counts(proplists:get_value(Key, All))})
     || Key <- Keys].

%% Never less than was counted before the call, and never more than is counted after it.
counters_while_counting(_Config) ->
    MFA = {?MODULE, traced, 1},
    1 = erlang:trace_pattern(MFA, true, [call_time]),
    1 = erlang:trace_pattern(MFA, true, [call_count]),
    N = 2 * erlang:system_info(schedulers),
    Begun = counters:new(N, []),
    Ended = counters:new(N, []),
    Pids = [spawn_link(fun() ->
                               1 = erlang:trace(self(), true, [call]),
                               count_calls(Begun, Ended, I)
                       end) || I <- lists:seq(1, N)],
    Final =
        lists:foldl(
          fun(_, Last) ->
                  Before = [counters:get(Ended, I) || I <- lists:seq(1, N)],
                  {call_time, Counters} = erlang:trace_info(MFA, call_time),
                  After = [counters:get(Begun, I) || I <- lists:seq(1, N)],
                  Counts = maps:from_list(counts(Counters)),
                  [begin
                       Count = maps:get(Pid, Counts, 0),
                       ?assert(Count >= B * 11),
                       ?assert(Count =< A * 11),
                       ?assert(Count >= maps:get(Pid, Last, 0))
                   end || {Pid, B, A} <- lists:zip3(Pids, Before, After)],
                  Counts
          end, #{}, lists:seq(1, 300)),
    ?assertEqual(N, map_size(Final)),
    [begin unlink(P), exit_and_wait(P) end || P <- Pids].

count_calls(Begun, Ended, I) ->
    counters:add(Begun, I, 1),
    traced(10),
    counters:add(Ended, I, 1),
    count_calls(Begun, Ended, I).

%% The breakpoint is set, cleared and restarted while it is read. Releases before 27 crash with
%% SIGFPE if a function is called while its counters restart, so on them there is no reference
%% for this case.
counters_while_changing(_Config) ->
    MFA = {?MODULE, traced, 1},
    Callers = [spawn_link(fun() ->
                                  1 = erlang:trace(self(), true, [call]),
                                  call_forever()
                          end) || _ <- [1, 2]],
    Ends = erlang:monotonic_time(millisecond) + 3000,
    Read = fun() ->
                   [case erlang:trace_info(MFA, Key) of
                        {Key, false} -> ok;
                        {Key, L} -> [ok = counter(C) || C <- L]
                    end || Key <- [call_time, call_time]]
           end,
    parallel([fun() -> repeat_until(Ends, Fun) end
              || Fun <- [Read, Read, Read,
                         fun() ->
                                 [1 = erlang:trace_pattern(MFA, How, [call_time])
                                  || How <- [true, restart, pause, true, false]]
                         end]]),
    [begin unlink(P), exit_and_wait(P) end || P <- Callers].

counter({Pid, Count, S, Us}) when is_pid(Pid), Count >= 0, S >= 0, Us >= 0, Us < 1_000_000 -> ok.

call_forever() ->
    traced(100),
    call_forever().

%% A caller that is killed while it waits leaves nothing behind that blocks others.
counters_caller_killed(_Config) ->
    MFA = {?MODULE, traced, 1},
    1 = erlang:trace_pattern(MFA, true, [call_time]),
    Done = done_calls(3000, 3),
    [begin
         {Pid, Ref} = spawn_monitor(fun() -> [erlang:trace_info(MFA, all) || _ <- [1, 2, 3]] end),
         _ = lists:seq(1, I * 50),
         exit(Pid, kill),
         receive {'DOWN', Ref, process, Pid, _} -> ok end
     end || I <- lists:seq(1, 200)],
    {call_time, Counters} = erlang:trace_info(MFA, call_time),
    ?assertEqual(lists:sort(Done), counts(Counters)).

counter_keys() ->
    try erlang:trace_pattern({?MODULE, traced, 1}, true, [call_memory]) of
        1 ->
            1 = erlang:trace_pattern({?MODULE, traced, 1}, false, [call_memory]),
            [call_time, call_memory]
    catch
        error:badarg -> [call_time] % before OTP 26
    end.

%% Processes that have called traced/1, and how often. They are still alive, so that their pids
%% are not reused.
done_calls(Pids, Calls) ->
    Parent = self(),
    Done = [{spawn(fun() ->
                           1 = erlang:trace(self(), true, [call]),
                           traced(I rem Calls),
                           erlang:trace(self(), false, [call]),
                           Parent ! {self(), done},
                           idle_loop()
                   end), I rem Calls + 1} || I <- lists:seq(1, Pids)],
    [receive {Pid, done} -> ok end || {Pid, _} <- Done],
    Done.

counts(Counters) ->
    lists:sort([{element(1, C), element(2, C)} || C <- Counters]).

%% A session that is no longer referenced is destroyed, also after it was asked about a process
%% that has exited.
info_of_dead(_Config) ->
    Dead = spawn(fun() -> ok end),
    exit_and_wait(Dead),
    Alive = self(),
    [begin
         [{Weak, ok}] =
             parallel([fun() ->
                               {_, Weak} = S = trace:session_create(forgotten, Alive, []),
                               Expected = trace:info(S, Pid, Key),
                               {Weak, ok}
                       end]),
         ?assertEqual(gone, wait_gone(Weak, 1000))
     end || {Pid, Expected} <- [{Alive, {flags, []}}, {Dead, undefined}],
            Key <- [flags, tracer], Key =:= flags orelse Pid =:= Dead].

%% Each attempt waits several times for the permission and for thread progress.
wait_gone(_, 0) ->
    still_there;
wait_gone(Weak, N) ->
    case lists:member(Weak, trace:session_info(all)) of
        true ->
            true = trace:session_destroy(trace:session_create(another, self(), [])),
            wait_gone(Weak, N - 1);
        false ->
            gone
    end.

%%--------------------------------------------------------------------------
%% session_destroy/1

%% Destroying a session that no process refers to (because it was never used, or because its
%% flags have been removed) sends no request to the trace cleaner, which would signal all
%% processes.
destroy_unused(_Config) ->
    Idle = idle(10),
    Tracer = spawn_link(fun idle_loop/0),
    Nothing = fun(_) -> ok end,
    Function = fun(S) -> 1 = trace:function(S, {lists, seq, 2}, true, [local]) end,
    Flags = fun(S) -> 1 = trace:process(S, hd(Idle), true, [send]) end,
    FlagsGone = fun(S) -> Flags(S), 1 = trace:process(S, hd(Idle), false, [send]) end,
    Destroyed = fun(Use) ->
                        S = trace:session_create(unused, Tracer, []),
                        Use(S),
                        true = trace:session_destroy(S)
                end,
    [?assertEqual({Use, 0}, {Use, cleanings(fun() -> Destroyed(Use) end)})
     || Use <- [Nothing, Function, FlagsGone]],
    ?assertEqual(1, cleanings(fun() -> Destroyed(Flags) end)),
    stop(Idle),
    stop([Tracer]).

%% The number of requests that the trace cleaner gets while a function runs.
cleanings(Fun) ->
    Cleaner = cleaner(),
    1 = erlang:trace(Cleaner, true, ['receive']),
    Fun(),
    {status, _} = process_info(Cleaner, status),
    1 = erlang:trace(Cleaner, false, ['receive']),
    Ref = erlang:trace_delivered(Cleaner),
    receive {trace_delivered, Cleaner, Ref} -> ok end,
    Count = fun Count() ->
                    receive
                        {trace, Cleaner, 'receive', notify} -> 1 + Count();
                        {trace, Cleaner, 'receive', _} -> Count()
                    after 0 -> 0
                    end
            end,
    Count().

%% Destroying a session removes everything that it has set, and nothing that another session has
%% set.
destroy_used(_Config) ->
    Idle = idle(100),
    Tracer = spawn_link(fun idle_loop/0),
    MFAs = [{lists, seq, 2}, {lists, sort, 1}, {?MODULE, traced, 1}, {erlang, self, 0}, {erlang, node, 0}],
    Sessions = fun() -> [trace:session_info(X) || X <- MFAs ++ sample(Idle)] end,
    Before = Sessions(),
    Other = trace:session_create(other, Tracer, []),
    Specs = [{{lists, seq, 2}, [local]}, {{lists, seq, 2}, [call_count]}, {{lists, sort, '_'}, [global]},
             {{?MODULE, '_', '_'}, [local, meta]}, {{erlang, self, 0}, [local]},
             {{erlang, node, 0}, [global]}, {{erlang, '_', '_'}, [call_count]}],
    _ = [trace:function(Other, Spec, true, Flags) || {Spec, Flags} <- Specs],
    trace:process(Other, existing_processes, true, [send]),
    Infos = fun() -> [trace:info(Other, MFA, traced) || MFA <- MFAs] end,
    Expected = {Infos(), Sessions()},
    _ = [begin
             S = trace:session_create(used, Tracer, Opts),
             _ = [trace:function(S, Spec, true, Flags) || {Spec, Flags} <- Specs],
             trace:process(S, all, true, [call, set_on_spawn]),
             stop(idle(10)),
             _ = [self() || _ <- lists:seq(1, 10)],
             true = trace:session_destroy(S),
             ?assertEqual(Expected, {Infos(), Sessions()}),
             ?assertError(badarg, trace:info(S, {lists, seq, 2}, traced))
         end || Opts <- [[], [keep_patterns], []]],
    true = trace:session_destroy(Other),
    ?assertEqual(Before, Sessions()),
    stop(Idle),
    stop([Tracer]).

%% The breakpoints of a destroyed session are removed in steps.
destroy_in_steps(_Config) ->
    erts_debug:set_internal_state(available_internal_state, true),
    Breakpoints = erts_debug:get_internal_state(trace_breakpoints),
    M = erts_trace_bif_steps,
    ok = erts_reload_work:load_many(M, ?STEP + 1000),
    Tracer = spawn_link(fun idle_loop/0),
    Other = trace:session_create(other, Tracer, []),
    1 = trace:function(Other, {M, f4500, 0}, true, [local]),
    [begin
         S = trace:session_create(many, Tracer, Opts),
         N = trace:function(S, Spec, true, Flags),
         ?assert(N > ?STEP),
         {true, Steps, Longest} = erts_reload_work:trace_steps(fun() -> trace:session_destroy(S) end),
         What = {Spec, Flags, Opts},
         ?assertMatch({What, Longest} when Longest =< ?STEP, {What, Longest}),
         %% Staging, changing the instructions, removing references to the breakpoints, and
         %% freeing their memory.
         ?assertMatch({What, Steps} when Steps * ?STEP >= 4 * N, {What, Steps}),
         ?assertEqual([], trace:session_info({M, f1, 0})),
         ?assertMatch([_], trace:session_info({M, f4500, 0})),
         ?assertEqual(Breakpoints + 1, erts_debug:get_internal_state(trace_breakpoints))
     end || Spec <- [{M, '_', '_'}, {'_', '_', '_'}],
            Flags <- [[local], [global], [local, call_time, call_count]],
            Opts <- [[], [keep_patterns]]],
    true = trace:session_destroy(Other),
    stop([Tracer]),
    erts_reload_work:unload_many(M).

%% A session is also destroyed if the process that destroys it is killed or leaves it to the
%% garbage collector, and other processes can continue.
destroyer_killed(_Config) ->
    erts_debug:set_internal_state(available_internal_state, true),
    Breakpoints = erts_debug:get_internal_state(trace_breakpoints),
    M = erts_trace_bif_steps,
    ok = erts_reload_work:load_many(M, ?STEP + 1000),
    Tracer = spawn_link(fun idle_loop/0),
    Self = self(),
    [begin
         {P, Ref} = spawn_monitor(fun() ->
                                          S = trace:session_create(left, Tracer, []),
                                          trace:function(S, {M, '_', '_'}, true, [call_count]),
                                          Self ! set,
                                          Destroy andalso trace:session_destroy(S),
                                          receive after infinity -> S end
                                  end),
         receive set -> ok end,
         _ = [erlang:yield() || _ <- lists:seq(1, Yields)],
         exit(P, kill),
         receive {'DOWN', Ref, _, _, _} -> ok end,
         wait_until(fun() -> trace:session_info({M, f1, 0}) =:= [] end),
         wait_until(fun() -> erts_debug:get_internal_state(trace_breakpoints) =:= Breakpoints end)
     end || Destroy <- [true, false], Yields <- lists:seq(0, 40, 4)],
    stop([Tracer]),
    erts_reload_work:unload_many(M).

%% Receive patterns see the port as the sender of its messages, on this node.
message_of_a_port(_Config) ->
    Tester = self(),
    S = trace:session_create(ports, Tester, []),
    1 = trace:recv(S, [{['$1', '$2', {'_', closed}], [], [{message, {{'$1', '$2'}}}]}], []),
    Tracee = spawn_link(fun() ->
        Port = open_port({spawn, "cat"}, []),
        receive close -> Port ! {self(), close} end,
        receive {Port, closed} -> Tester ! {closed, Port} end
    end),
    1 = trace:process(S, Tracee, true, ['receive']),
    Tracee ! close,
    Port = receive {closed, Closed} -> Closed end,
    receive
        {trace, Tracee, 'receive', Message, Sender} -> ?assertEqual({{Port, closed}, {node(), Port}}, {Message, Sender})
    end,
    true = trace:session_destroy(S).

%% A port that waits for its output to be flushed still refers to its session, as does a process
%% that has left the process table. The debug emulator checks this. In other emulators, the next owner of the
%% session's memory would find it changed.
port_closing_while_destroyed(_Config) ->
    Tester = self(),
    {Owner, Ref} = spawn_monitor(fun() ->
        Port = open_port({spawn, "sleep 2"}, [binary]),
        true = port_command(Port, binary:copy(<<0>>, 1000000), [nosuspend]),
        S = trace:session_create(port_closing, Tester, []),
        1 = trace:port(S, Port, true, [ports]),
        true = port_close(Port),
        true = trace:session_destroy(S),
        Tester ! {port, Port}
    end),
    Port = receive {port, Closing} -> Closing end,
    receive {'DOWN', Ref, process, Owner, normal} -> ok end,
    ?assert(lists:member(Port, erlang:ports())),
    is_unchanged_when(fun() -> not lists:member(Port, erlang:ports()) end).

exiting_while_destroyed(_Config) ->
    Tester = self(),
    Number = 100000,
    Tracee = spawn_opt(fun() -> receive stop -> ok end end, [{scheduler, 1}]),
    {Owner, Ref} = spawn_monitor(fun() ->
        process_flag(message_queue_data, off_heap),
        [monitor(process, Tracee) || _ <- lists:seq(1, Number)],
        S = trace:session_create(exiting, Tester, []),
        1 = trace:process(S, Tracee, true, [call]),
        exit(Tracee, kill),
        receive {'DOWN', _, _, _, _} -> ok end,
        true = trace:session_destroy(S),
        Tester ! destroyed,
        %% Receiving them would take long on the debug emulator.
        wait_until(fun() -> process_info(self(), message_queue_len) =:= {message_queue_len, Number - 1} end)
    end),
    receive destroyed -> ok end,
    is_unchanged_when(fun() -> receive {'DOWN', Ref, process, Owner, normal} -> true after 0 -> false end end).

%% Allocates blocks like that of a session.
is_unchanged_when(Fun) ->
    Zeros = [{Size, binary:copy(<<0>>, Size)} || Size <- lists:seq(200, 1000, 8), _ <- lists:seq(1, 40)],
    wait_until(Fun),
    ?assertEqual([], [Size || {Size, Binary} <- Zeros, Binary =/= binary:copy(<<0>>, Size)]).

%% What a process allocates between two sessions belongs to neither of them, even if the second
%% one gets the memory of the first one.
memory_of_earlier_session(_Config) ->
    Words = in_peer(["+S", "1:1"], measure_in_sessions, []),
    ?assertEqual([], [W || W <- Words, W > 10000], Words).

measure_in_sessions() ->
    Pid = spawn_link(fun ?MODULE:allocating/0),
    Functions = [{?MODULE, F, 0} || F <- [allocating, not_allocating]],
    [begin
         {_, Ref} = spawn_monitor(fun() -> exit({words, measured(Pid, Functions)}) end),
         Words = receive {'DOWN', Ref, process, _, {words, W}} -> W end,
         done = request(Pid, {allocate, 1000000}),
         Words
     end || _ <- lists:seq(1, 4)].

measured(Pid, Functions) ->
    S = trace:session_create(?MODULE, self(), []),
    1 = trace:process(S, Pid, true, [call]),
    [trace:function(S, F, true, [call_memory]) || F <- Functions],
    done = request(Pid, not_allocating),
    Sum = lists:sum([Words || F <- Functions, {call_memory, L} <- [trace:info(S, F, call_memory)], {_, _, Words} <- L]),
    true = trace:session_destroy(S),
    Sum.

request(Pid, What) ->
    Pid ! {What, self()},
    receive {Pid, Answer} -> Answer end.

allocating() ->
    receive
        {{allocate, Words}, From} ->
            true = is_list(lists:seq(1, Words div 2)),
            From ! {self(), done};
        {not_allocating, From} ->
            From ! {self(), ?MODULE:not_allocating()}
    end,
    ?MODULE:allocating().

not_allocating() -> done.

in_peer(Flags, Function, Args) ->
    {ok, Peer, _} = peer:start_link(#{connection => standard_io, args => Flags ++ erts_reload_work:emulator_flags()}),
    try peer:call(Peer, ?MODULE, Function, Args, infinity)
    after peer:stop(Peer)
    end.

%% When a port is cleaned of one session, it loses the flags that only that session had. The
%% debug emulator compares them when the other session turns out to have no tracer any more.
port_of_two_sessions(_Config) ->
    Cleaner = cleaner(),
    [begin
         [Tracer1, Tracer2] = idle(2),
         Port = open_port({spawn, "cat"}, [binary]),
         S1 = trace:session_create(first, Tracer1, []),
         S2 = trace:session_create(second, Tracer2, []),
         1 = trace:port(S1, Port, true, [ports]),
         1 = trace:port(S2, Port, true, [running_ports]),
         true = trace:session_destroy(S1),
         wait_until(fun() -> process_info(Cleaner, [status, message_queue_len])
                                 =:= [{status, waiting}, {message_queue_len, 0}]
                    end),
         stop([Tracer2]),
         true = port_command(Port, <<"x">>),
         receive {Port, {data, <<"x">>}} -> ok end,
         ?assertEqual({flags, []}, trace:info(S2, Port, flags)),
         true = trace:session_destroy(S2),
         true = port_close(Port),
         stop([Tracer1])
     end || _ <- lists:seq(1, 20)].

cleaner() ->
    [Cleaner] = [P || P <- processes(),
                      {initial_call, {erts_trace_cleaner, _, _}} <- [process_info(P, initial_call)]],
    Cleaner.

wait_until(Fun) ->
    case Fun() of
        true -> ok;
        false -> erlang:yield(), wait_until(Fun)
    end.

%%--------------------------------------------------------------------------
%% Code modification permission

%% Waiting processes get the permission in the order of their requests. If some come late, those
%% behind them may overtake them, but no waiter is overtaken by more than twice as many others as
%% there were waiters when it came, itself included. The process that has the permission requests it again at
%% once, all the time.
permission_in_order(_Config) ->
    erts_debug:set_internal_state(available_internal_state, true),
    Self = self(),
    [begin
         take_permission(),
         Waiters = [start_waiter(I) || I <- lists:seq(1, 20)],
         release_permission(),
         retake_permission(fun() -> Self ! {got, again} end, Self, length(Waiters)),
         Order = got(),
         ?assertEqual(lists:seq(1, 20), lists:sort([I || I <- Order, I =/= again])),
         [?assert(length([J || J <- lists:takewhile(fun(J) -> J =/= I end, Order), J > I]) =< 2 * I)
          || I <- lists:seq(1, 20)]
     end || _ <- lists:seq(1, 20)],
    erts_debug:set_internal_state(available_internal_state, false).

%% Until all waiters have had it. Atoms are greater than integers.
retake_permission(Note, Self, Waiters) ->
    take_permission(),
    Note(),
    {messages, Got} = process_info(Self, messages),
    release_permission(),
    case length([I || {got, I} <- Got, is_integer(I)]) of
        Waiters -> ok;
        _ -> retake_permission(Note, Self, Waiters)
    end.

got() ->
    receive {got, I} -> [I | got()] after 0 -> [] end.

%% No process waits for one that was killed or suspended while it waited.
permission_of_those_who_do_not_come(_Config) ->
    erts_debug:set_internal_state(available_internal_state, true),
    [begin
         take_permission(),
         [W1, W2, W3, W4] = [start_waiter(I) || I <- [1, 2, 3, 4]],
         true = erlang:suspend_process(W1, [asynchronous]),
         %% It handles this signal after the one that suspends it.
         {messages, []} = process_info(W1, messages),
         exit_and_wait(W3),
         release_permission(),
         [2, 4] = lists:sort([receive {got, I} -> I end || _ <- [W2, W4]]),
         true = erlang:resume_process(W1),
         1 = receive {got, I} -> I end
     end || _ <- lists:seq(1, 50)],
    erts_debug:set_internal_state(available_internal_state, false).

%% No process waits for one that was killed or suspended, or that must wait for a dirty scheduler,
%% after it was resumed to get the permission, and before it ran. It gets the permission later.
permission_of_late_ones(_Config) ->
    {ok, Peer, _} = peer:start_link(#{connection => standard_io, shutdown => halt,
                                      args => ["+S", "1:1", "+SDcpu", "1:1" | erts_reload_work:emulator_flags()]}),
    [ok = peer:call(Peer, ?MODULE, late_in_peer, [How], infinity)
     || How <- [kill, suspend, suspend_and_kill, collect, collect_and_kill]],
    peer:stop(Peer).

%% There is one scheduler, and nothing runs before a process with maximum priority waits.
late_in_peer(How) ->
    erts_debug:set_internal_state(available_internal_state, true),
    [late(How) || _ <- lists:seq(1, 20)],
    erts_debug:set_internal_state(available_internal_state, false),
    ok.

late(How) ->
    take_permission(),
    Late = start_waiter(late, lists:seq(1, 100000)),
    Others = [start_waiter(I) || I <- [1, 2]],
    Busy = occupy_dirty_scheduler(How),
    Prio = process_flag(priority, max),
    release_permission(),
    make_late(How, Late),
    process_flag(priority, Prio),
    [1, 2] = lists:sort([receive {got, I} -> I end || _ <- Others]),
    receive {got, late} -> ct:fail(not_late) after 0 -> ok end,
    end_late(How, Late, Busy).

occupy_dirty_scheduler(How) when How =:= collect; How =:= collect_and_kill ->
    Self = self(),
    Busy = spawn(fun() -> erts_debug:dirty_cpu(alive_waitexitingonly, Self) end),
    receive {alive, Busy} -> Busy end;
occupy_dirty_scheduler(_How) ->
    none.

make_late(kill, Late) ->
    exit(Late, kill);
make_late(How, Late) when How =:= suspend; How =:= suspend_and_kill ->
    true = erlang:suspend_process(Late, [asynchronous]);
make_late(_Collect, Late) ->
    async = erlang:garbage_collect(Late, [{async, collected}]).

end_late(kill, Late, none) ->
    exit_and_wait(Late);
end_late(suspend, Late, none) ->
    true = erlang:resume_process(Late),
    receive {got, late} -> ok end;
end_late(suspend_and_kill, Late, none) ->
    exit_and_wait(Late);
end_late(collect, _Late, Busy) ->
    exit_and_wait(Busy),
    receive {got, late} -> ok end,
    receive {garbage_collect, collected, true} -> ok end;
end_late(collect_and_kill, Late, Busy) ->
    exit(Late, kill),
    exit_and_wait(Busy),
    receive {garbage_collect, collected, _} -> ok end,
    exit_and_wait(Late).

%% A process that waits for the permission, and releases it at once.
start_waiter(I) ->
    start_waiter(I, []).

%% Data is on its heap.
start_waiter(I, Data) ->
    Self = self(),
    Pid = spawn(fun() ->
                        take_permission(),
                        Self ! {got, I},
                        release_permission(),
                        erlang:phash2(Data)
                end),
    wait_suspended(Pid).

wait_suspended(Pid) ->
    case process_info(Pid, status) of
        {status, suspended} -> Pid;
        _ -> erlang:yield(), wait_suspended(Pid)
    end.

take_permission() ->
    true = erts_debug:set_internal_state(code_mod_permission, true).

release_permission() ->
    true = erts_debug:set_internal_state(code_mod_permission, false).

%%--------------------------------------------------------------------------
%% system_monitor/2

monitor_returns(_Config) ->
    [A, B] = idle(2),
    undefined = erlang:system_monitor(),
    Sort = fun({Pid, L}) -> {Pid, lists:sort(L)} end,
    Settings = [{A, [busy_port]}, {B, [busy_dist_port, busy_port]},
                {A, [{large_heap, 1 bsl 40}]},
                {B, [busy_port, {large_heap, 20_000}, {long_gc, 10}, {long_schedule, 11}]}]
        ++ case is_patched() of
               true -> [{A, [{long_message_queue, {3, 1 bsl 59}}]}];
               false -> []
           end,
    lists:foldl(fun({Pid, Options} = S, Last) ->
                        ?assertEqual(Last, case erlang:system_monitor(Pid, Options) of
                                               undefined -> undefined;
                                               Prev -> Sort(Prev)
                                           end),
                        ?assertEqual(S, Sort(erlang:system_monitor())),
                        S
                end, undefined, Settings),
    Last = erlang:system_monitor(),
    ?assertEqual(Last, erlang:system_monitor(undefined)),
    ?assertEqual(undefined, erlang:system_monitor({A, [busy_port]})),
    ?assertEqual({A, [busy_port]}, erlang:system_monitor(B, [])),
    ?assertEqual(undefined, erlang:system_monitor()),
    stop([A, B]).

%% Nothing changes.
monitor_bad_arguments(_Config) ->
    Gone = spawn(fun() -> ok end),
    exit_and_wait(Gone),
    undefined = erlang:system_monitor(self(), [busy_port]),
    [?assertError({badarg, _}, bad(fun() -> erlang:system_monitor(Pid, Options) end))
     || {Pid, Options} <- [{Gone, [busy_port]}, {not_a_pid, [busy_port]}, {[], [busy_port]},
                           {self(), [busy]}, {self(), [busy_port | tail]}, {self(), not_a_list},
                           {self(), [{long_gc, -1}]}, {self(), [{long_gc, a}]},
                           {self(), [{large_heap, 1, 2}]},
                           {hd(erlang:ports()), [busy_port]}]],
    ?assertEqual({self(), [busy_port]}, erlang:system_monitor(undefined)).

bad(Fun) ->
    try Fun() of
        Result -> {returned, Result}
    catch
        error:badarg -> error({badarg, as_expected})
    end.

%% Each setting is returned exactly once, by the call that replaces it.
monitor_by_many(_Config) ->
    Pids = idle(8),
    Replaced =
        lists:append(
          parallel([fun() ->
                            [erlang:system_monitor(Pid, [{long_gc, I * 10 + K}, busy_port])
                             || I <- lists:seq(1000, 2000)]
                    end || {K, Pid} <- lists:enumerate(Pids)])),
    Last = erlang:system_monitor(undefined),
    Set = [{Pid, I * 10 + K} || I <- lists:seq(1000, 2000), {K, Pid} <- lists:enumerate(Pids)],
    ?assertEqual(lists:sort([undefined | Set]),
                 lists:sort([case S of
                                 undefined -> undefined;
                                 {Pid, Options} ->
                                     [busy_port] = Options -- [lists:keyfind(long_gc, 1, Options)],
                                     {Pid, proplists:get_value(long_gc, Options)}
                             end || S <- [Last | Replaced]])),
    stop(Pids).

%% A process that has exited is never the monitor, even if it exits during the call.
monitor_exits(_Config) ->
    gone_is_never_set(fun(Pid) -> erlang:system_monitor(Pid, [busy_port, {long_gc, 1000}]) end,
                      fun erlang:system_monitor/0).

gone_is_never_set(Set, Get) ->
    Results =
        [begin
             Pid = spawn(fun() -> receive go -> lists:seq(1, I rem 100) end end),
             Ref = monitor(process, Pid),
             Pid ! go,
             Result = try Set(Pid) of _ -> set catch error:badarg -> gone end,
             receive {'DOWN', Ref, process, Pid, _} -> ok end,
             ?assertEqual(undefined, Get()),
             Result
         end || I <- lists:seq(1, 3000)],
    ct:log("~p of ~p were set", [length([x || set <- Results]), length(Results)]).

%% Settings are changed while they cause reports: only what was set at some time is reported.
monitor_while_reporting(_Config) ->
    Parent = self(),
    Monitor = spawn_link(fun() -> collect_kinds(#{}) end),
    Heaps = [spawn_link(fun() -> make_garbage(0) end) || _ <- [1, 2]],
    Ends = erlang:monotonic_time(millisecond) + 2000,
    repeat_until(Ends, fun() ->
                               [erlang:system_monitor(Monitor, Options)
                                || Options <- [[{large_heap, 16384}], [{long_gc, 1}],
                                               [{long_schedule, 1}],
                                               [{large_heap, 16384}, {long_gc, 1}]]],
                               erlang:system_monitor(undefined)
                       end),
    erlang:system_monitor(Monitor, [{large_heap, 16384}]),
    Monitor ! {wait_for, large_heap, Parent},
    receive {Monitor, seen} -> ok end,
    erlang:system_monitor(undefined),
    Monitor ! {get, Parent},
    Kinds = receive {kinds, Map} -> Map end,
    ?assertEqual([], maps:keys(Kinds) -- [large_heap, long_gc, long_schedule]),
    [begin unlink(P), exit_and_wait(P) end || P <- Heaps],
    stop([Monitor]).

%% A garbage collection that ends under another monitor than it began with: the new monitor, which
%% wants no reports of long collections, gets none. (Stock waits for the end of the collection.)
monitor_changes_during_collection(_Config) ->
    Parent = self(),
    [Old] = idle(1),
    Collector = spawn_link(fun() ->
                                   receive go -> garbage_collect() end,
                                   Parent ! {collected, self()}
                           end),
    erlang:trace(Collector, true, [garbage_collection]),
    erts_debug:set_internal_state(available_internal_state, true),
    try
        %% Each collection takes this long (ms) if its time is measured. The end is traced before.
        erts_debug:set_internal_state(test_long_gc_sleep, 500),
        erlang:system_monitor(Old, [{long_gc, 1}]),
        Collector ! go,
        receive {trace, Collector, gc_major_end, _} -> ok end,
        erlang:system_monitor(self(), [{large_heap, 1 bsl 40}]),
        receive {collected, Collector} -> ok end
    after
        erts_debug:set_internal_state(test_long_gc_sleep, 0),
        erts_debug:set_internal_state(available_internal_state, false)
    end,
    ?assertEqual([], reported()),
    stop([Old]).

%% Reports that were made for the monitor before the current one, but not yet delivered.
monitor_changes_before_delivery(_Config) ->
    Monitor = spawn_link(fun() -> collect_kinds(#{}) end),
    Heaps = [spawn_link(fun() -> make_garbage(0) end) || _ <- [1, 2]],
    Ends = erlang:monotonic_time(millisecond) + 2000,
    repeat_until(Ends, fun() ->
                               erlang:system_monitor(Monitor, [{large_heap, 16384}]),
                               erlang:yield(),
                               erlang:system_monitor(self(), [{long_gc, 1 bsl 40}]),
                               ?assertEqual([], reported())
                       end),
    erlang:system_monitor(undefined),
    Monitor ! {get, self()},
    ?assertEqual([large_heap], receive {kinds, Map} -> maps:keys(Map) end),
    [begin unlink(P), exit_and_wait(P) end || P <- Heaps],
    stop([Monitor]).

%% The reports that have been made for this process so far.
reported() ->
    Ref = erlang:trace_delivered(self()),
    receive {trace_delivered, _, Ref} -> ok end,
    queued().

queued() ->
    receive
        {monitor, _, _, _} = Report -> [Report | queued()]
    after 0 -> []
    end.

%% Each session has its own system monitor settings: it neither changes nor sees those of other
%% sessions or of erlang:system_monitor/2, and gets reports according to its own limits.
monitor_of_session(_Config) ->
    [A, B] = [spawn_link(fun() -> collect_kinds(#{}) end) || _ <- [1, 2]],
    [SA, SB] = [trace:session_create(?MODULE, Tracer, []) || Tracer <- [A, B]],
    [Idle] = idle(1),
    undefined = erlang:system_monitor(Idle, [{large_heap, 1 bsl 40}]),
    Of = fun(S) -> {system, L} = trace:info(S, system, all), lists:sort(L) end,
    ok = trace:system(SA, busy_port, true),
    ok = trace:system(SA, large_heap, 16384),
    ok = trace:system(SB, large_heap, 1 bsl 40),
    ok = trace:system(SB, long_message_queue, {3, 1 bsl 40}),
    ?assertEqual([busy_port, {large_heap, 16384}], Of(SA)),
    ?assertEqual([{large_heap, 1 bsl 40}, {long_message_queue, {3, 1 bsl 40}}], Of(SB)),
    ?assertEqual({Idle, [{large_heap, 1 bsl 40}]}, erlang:system_monitor()),
    Heap = spawn_link(fun() -> make_garbage(0) end),
    Self = self(),
    A ! {wait_for, large_heap, Self},
    receive {A, seen} -> ok end,
    ok = trace:system(SA, busy_port, false),
    ?assertEqual([{large_heap, 16384}], Of(SA)),
    ?assertError({badarg, _}, bad(fun() -> trace:system(SA, busy_port, maybe_so) end)),
    ?assertError({badarg, _}, bad(fun() -> trace:system(SA, long_message_queue, {3, 3}) end)),
    ?assertEqual([{large_heap, 16384}], Of(SA)),
    true = trace:session_destroy(SA),
    ?assertEqual([{large_heap, 1 bsl 40}, {long_message_queue, {3, 1 bsl 40}}], Of(SB)),
    ?assertEqual({Idle, [{large_heap, 1 bsl 40}]}, erlang:system_monitor(undefined)),
    ok = trace:system(SB, large_heap, 16384),
    B ! {wait_for, large_heap, Self},
    receive {B, seen} -> ok end,
    true = trace:session_destroy(SB),
    unlink(Heap),
    exit_and_wait(Heap),
    [begin
         P ! {get, Self},
         receive {kinds, Kinds} -> ?assertEqual([large_heap], maps:keys(Kinds)) end
     end || P <- [A, B]],
    stop([Idle, A, B]).

%% Processes that set different items in the same session do not undo each other's settings.
monitor_of_session_by_many(_Config) ->
    [Tracer] = idle(1),
    S = trace:session_create(?MODULE, Tracer, []),
    Items = [long_gc, long_schedule, large_heap, long_message_queue, busy_port, busy_dist_port],
    Value = fun(long_message_queue, I) -> {I, 1 bsl 40 + I};
               (Item, I) when Item =:= busy_port; Item =:= busy_dist_port -> I rem 2 =:= 0;
               (_, I) -> 1 bsl 40 + I
            end,
    parallel([fun() -> [ok = trace:system(S, Item, Value(Item, I)) || I <- lists:seq(1, 2000)] end || Item <- Items]),
    {system, L} = trace:info(S, system, all),
    ?assertEqual(lists:sort([busy_port, busy_dist_port
                             | [{Item, Value(Item, 2000)} || Item <- Items -- [busy_port, busy_dist_port]]]),
                 lists:sort(L)),
    true = trace:session_destroy(S),
    stop([Tracer]).

%% When the tracer of a session exits, all its system monitor settings are removed.
monitor_of_session_exits(_Config) ->
    [Tracer] = idle(1),
    S = trace:session_create(?MODULE, Tracer, []),
    ok = trace:system(S, long_message_queue, {1, 1 bsl 40}),
    stop([Tracer]),
    case is_patched() of
        true -> ?assertEqual({system, []}, trace:info(S, system, all));
        %% On unpatched runtimes, the settings stay until there is something to report.
        false -> ok
    end,
    true = trace:session_destroy(S).

make_garbage(N) ->
    L = lists:seq(1, 50_000),
    make_garbage(N + length(L)).

collect_kinds(Kinds) ->
    receive
        {monitor, Pid, Kind, Info} when is_pid(Pid), is_list(Info) ->
            collect_kinds(Kinds#{Kind => true});
        {wait_for, Kind, From} ->
            receive {monitor, _, Kind, _} -> From ! {self(), seen} end,
            collect_kinds(Kinds#{Kind => true});
        {get, From} ->
            From ! {kinds, Kinds},
            collect_kinds(Kinds);
        stop ->
            ok
    end.

%% A session that nothing refers to waits to be destroyed, and sends no reports until then.
monitor_of_lost_session(_Config) ->
    case erlang:function_exported(trace, system, 3) of
        true -> ?assertEqual(ok, in_peer(["+S", "2:2"], lose_monitoring_sessions, [500]));
        false -> {skip, "sessions of this runtime have no system monitor"}
    end.

%% Others collect large heaps, and change patterns, for which sessions wait.
lose_monitoring_sessions(N) ->
    Receiver = spawn_link(fun drop/0),
    Large = lists:seq(1, 60000),
    [spawn_link(fun() -> collect(Large) end) || _ <- [1, 2]],
    Other = trace:session_create(other, Receiver, []),
    spawn_link(fun() -> set_and_clear(Other) end),
    [begin
         {_, Ref} = spawn_monitor(fun() ->
             S = trace:session_create(?MODULE, Receiver, []),
             ok = trace:system(S, large_heap, 20000),
             receive after 1 -> ok end,
             put(session, S)
         end),
         receive {'DOWN', Ref, _, _, normal} -> ok end
     end || _ <- lists:seq(1, N)],
    wait_until(fun() -> [S || {Name, _} = S <- trace:session_info(all), Name =:= ?MODULE] =:= [] end).

drop() -> receive _ -> drop() end.

collect(Large) ->
    true = erlang:garbage_collect(),
    _ = hd(Large),
    collect(Large).

set_and_clear(S) ->
    _ = [trace:function(S, {lists, '_', '_'}, On, [call_count]) || On <- [true, false]],
    set_and_clear(S).

%%--------------------------------------------------------------------------
%% system_profile/2

profile_returns(_Config) ->
    [A] = idle(1),
    Port = open_port({spawn, "cat"}, []),
    undefined = erlang:system_profile(),
    undefined = erlang:system_profile(A, [exclusive]),
    {A, [exclusive]} = erlang:system_profile(),
    {A, [exclusive]} = erlang:system_profile(Port, [scheduler, exclusive, monotonic_timestamp]),
    {Port, [exclusive, scheduler]} = erlang:system_profile(A, [exclusive]),
    Gone = spawn(fun() -> ok end),
    exit_and_wait(Gone),
    [?assertError({badarg, _}, bad(fun() -> erlang:system_profile(P, Options) end))
     || {P, Options} <- [{Gone, [scheduler]}, {no, [scheduler]}, {[], [scheduler]},
                         {A, [no]}, {A, [scheduler | no]}, {A, no}]],
    {A, [exclusive]} = erlang:system_profile(undefined, []),
    undefined = erlang:system_profile(),
    port_close(Port),
    stop([A]).

profile_exits(_Config) ->
    gone_is_never_set(fun(Pid) -> erlang:system_profile(Pid, [exclusive]) end,
                      fun erlang:system_profile/0),
    Port = open_port({spawn, "cat"}, []),
    undefined = erlang:system_profile(Port, [exclusive]),
    port_close(Port),
    ?assertEqual(undefined, erlang:system_profile()),
    ?assertError(badarg, erlang:system_profile(Port, [exclusive])).

%% Reports are complete, whatever is changed while they are made.
profile_while_reporting(_Config) ->
    Profiler = spawn_link(fun() -> collect_profile([]) end),
    Workers = [spawn_link(fun() -> ping(undefined) end) || _ <- [1, 2]],
    [A, B] = Workers,
    A ! {peer, B}, B ! {peer, A}, A ! ping, B ! ping,
    Ends = erlang:monotonic_time(millisecond) + 2000,
    repeat_until(Ends, fun() ->
                               [erlang:system_profile(Profiler, [runnable_procs, scheduler, Ts])
                                || Ts <- [timestamp, monotonic_timestamp,
                                          strict_monotonic_timestamp]],
                               erlang:system_profile(Profiler, [runnable_ports]),
                               erlang:system_profile(undefined, [])
                       end),
    Reports = profile(Profiler),
    ?assert(length(Reports) > 0),
    [?assert(is_report(R)) || R <- Reports],
    [begin unlink(P), exit_and_wait(P) end || P <- Workers],
    stop([Profiler]).

ping(Peer) ->
    receive
        {peer, P} -> ping(P);
        ping -> Peer ! ping, ping(Peer)
    end.

is_report({profile, Pid, State, MFA, Ts}) when is_pid(Pid) ->
    lists:member(State, [active, inactive]) andalso (MFA =:= 0 orelse tuple_size(MFA) =:= 3)
        andalso is_timestamp(Ts);
is_report({profile, scheduler, Id, State, Active, Ts}) ->
    is_integer(Id) andalso lists:member(State, [active, inactive]) andalso is_integer(Active)
        andalso is_timestamp(Ts);
is_report({profile, Port, State, 0, Ts}) when is_port(Port) ->
    lists:member(State, [active, inactive]) andalso is_timestamp(Ts);
is_report(_) ->
    false.

is_timestamp({A, B, C}) -> is_integer(A) andalso is_integer(B) andalso is_integer(C);
is_timestamp({A, B}) -> is_integer(A) andalso is_integer(B);
is_timestamp(A) -> is_integer(A).

collect_profile(Reports) ->
    receive
        {get, From} -> From ! {reports, lists:reverse(Reports)}, collect_profile([]);
        stop -> ok;
        Report -> collect_profile([Report | Reports])
    end.

%% The reports so far. The same dispatcher handles reports, log messages, and this answer.
profile(Profiler) ->
    Ref = erlang:trace_delivered(all),
    receive {trace_delivered, all, Ref} -> ok end,
    Profiler ! {get, self()},
    receive {reports, Reports} -> Reports end.

%% The number of active schedulers is that of the previous report plus or minus the reported
%% one, starting from any value.
profile_counts_schedulers(_Config) ->
    N = erlang:system_info(schedulers),
    Profiler = spawn_link(fun() -> collect_profile([]) end),
    All = [begin
               undefined = erlang:system_profile(Profiler, [scheduler]),
               _ = parallel([fun() -> lists:sum(lists:seq(1, 20_000)) end
                             || _ <- lists:seq(1, 2 * N)]),
               case I rem 5 of
                   0 ->
                       N = erlang:system_flag(schedulers_online, 1),
                       1 = erlang:system_flag(schedulers_online, N);
                   _ ->
                       ok
               end,
               _ = parallel([fun() -> lists:sum(lists:seq(1, 20_000)) end
                             || _ <- lists:seq(1, 2 * N)]),
               {Profiler, [scheduler]} = erlang:system_profile(undefined, []),
               Reports = profile(Profiler),
               _ = check_counts(N, Reports, undefined),
               length(Reports)
           end || I <- lists:seq(1, 200)],
    ct:log("~p reports", [lists:sum(All)]),
    ?assert(lists:sum(All) > 200),
    stop([Profiler]).

check_counts(N, [{profile, scheduler, Id, State, Active, _} | Rest], Last) ->
    ?assert(1 =< Id andalso Id =< N),
    ?assert(0 =< Active andalso Active =< N),
    %% A scheduler that is being suspended or resumed may be reported once more.
    case {State, Last} of
        {_, undefined} -> ok;
        {active, _} -> ?assert(Active =:= Last + 1 orelse Active =:= Last);
        {inactive, _} -> ?assert(Active =:= Last - 1 orelse Active =:= Last)
    end,
    check_counts(N, Rest, Active);
check_counts(_, [], _) ->
    ok.

%%--------------------------------------------------------------------------
%% Helpers

%% The result of a function, and how often each cause has stopped the schedulers while it ran.
blocked_by(Fun) ->
    Before = erlang:system_info(kymo_blocking),
    Result = Fun(),
    After = erlang:system_info(kymo_blocking),
    {Result, [{Cause, N - maps:get(Cause, Before)}
              || {Cause, N} <- lists:sort(maps:to_list(After)),
                 N =/= maps:get(Cause, Before)]}.

%% The results of functions that run at the same time.
parallel(Funs) ->
    Pids = [spawn_monitor(fun() -> exit({done, Fun()}) end) || Fun <- Funs],
    [receive {'DOWN', Ref, process, Pid, {done, Result}} -> Result end || {Pid, Ref} <- Pids].

idle(N) ->
    [spawn(fun idle_loop/0) || _ <- lists:seq(1, N)].

idle_loop() ->
    receive
        stop -> ok;
        _ -> idle_loop()
    end.

stop(Pids) ->
    Refs = [monitor(process, P) || P <- Pids],
    [P ! stop || P <- Pids],
    [receive {'DOWN', Ref, process, _, _} -> ok end || Ref <- Refs],
    ok.

exit_and_wait(Pid) ->
    Ref = monitor(process, Pid),
    exit(Pid, kill),
    receive {'DOWN', Ref, process, Pid, _} -> ok end.

%% The trace flags, sorted.
flags(Item) ->
    {flags, Flags} = erlang:trace_info(Item, flags),
    lists:sort(Flags).

flags_if_alive(Pid) ->
    case erlang:trace_info(Pid, flags) of
        {flags, Flags} -> [lists:sort(Flags)];
        undefined -> []
    end.

%% A sample of many.
sample(Pids) ->
    [P || {I, P} <- lists:enumerate(Pids), I rem 97 =:= 1].

%% Whether a number lies between those before and after the call, except for what the runtime
%% itself does in between.
within(Count, Fun) ->
    Before = Count(),
    Result = Fun(),
    After = Count(),
    case Result >= min(Before, After) - 2 andalso Result =< max(Before, After) + 2 of
        true -> within;
        false -> {Before, Result, After}
    end.
