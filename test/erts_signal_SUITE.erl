%% SPDX-License-Identifier: Apache-2.0
%%
%% Faults of signals and dumps that the series corrects: processes that terminate while they
%% wait for a dirty scheduler, signals that are sent with priority or using an alias, and the
%% dirty signal handlers. Each case runs on a node of its own, which an unpatched runtime may
%% not survive.
-module(erts_signal_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2, end_per_testcase/2]).
-export([dumped_after_exit/1, killed_while_dumped/1, reset_of_priority_signals/1,
         handler_with_large_heap/1]).
-export([exited_while_waiting/1, dump_while_killing/1, reset_priority_signals/1, collect_handlers/0]).

suite() ->
    [{timetrap, {minutes, 5}}].

all() ->
    [dumped_after_exit, killed_while_dumped, reset_of_priority_signals, handler_with_large_heap].

init_per_suite(Config) ->
    try erlang:system_info(kymo_series) of
        _ -> Config
    catch
        error:badarg -> {skip, "this runtime does not carry the kymo series"}
    end.

end_per_suite(_Config) ->
    ok.

init_per_testcase(reset_of_priority_signals, Config) ->
    try unalias(alias([priority])) of
        true -> Config
    catch
        error:badarg -> {skip, "before OTP 28 there are no signals with priority"}
    end;
init_per_testcase(_Case, Config) ->
    Config.

end_per_testcase(_Case, _Config) ->
    ok.

%% Processes that have terminated, but are still in the run queue of a dirty scheduler, have no
%% heap that could be printed.
dumped_after_exit(_Config) ->
    on_node(["+SDcpu", "1:1"], fun(Peer) ->
        {Exited, Procs} = peer:call(Peer, ?MODULE, exited_while_waiting, [20]),
        ?assertEqual(20, length(Exited)),
        ?assertEqual([], [P || P <- Exited, binary:match(Procs, P) =/= nomatch])
    end).

exited_while_waiting(N) ->
    Busy = occupy_dirty_scheduler(),
    Self = self(),
    Waiting = [spawn_opt(fun() ->
                                 Self ! {ready, self()},
                                 erts_debug:dirty_cpu(scheduler, type)
                         end, [monitor, {min_heap_size, 1000000}]) || _ <- lists:seq(1, N)],
    %% The answer comes when it has left its scheduler to wait for the dirty one.
    [receive {ready, P} -> {status, runnable} = process_info(P, status) end || {P, _} <- Waiting],
    [exit(P, kill) || {P, _} <- Waiting],
    [receive {'DOWN', M, process, _, killed} -> ok end || {_, M} <- Waiting],
    Procs = erlang:system_info(procs),
    exit(Busy, kill),
    {[list_to_binary(["=proc:", pid_to_list(P), "\n"]) || {P, _} <- Waiting], Procs}.

occupy_dirty_scheduler() ->
    Self = self(),
    Busy = spawn(fun() -> erts_debug:dirty_cpu(alive_waitexitingonly, Self) end),
    receive {alive, Busy} -> Busy end.

%% All dumps, beside processes that are killed while they execute on dirty schedulers, or wait
%% for them.
killed_while_dumped(_Config) ->
    Seconds = list_to_integer(os:getenv("KYMO_STRESS_SECONDS", "5")),
    on_node(["+S", "4:4"], fun(Peer) ->
        ?assertEqual(ok, peer:call(Peer, ?MODULE, dump_while_killing, [Seconds], (Seconds + 60) * 1000))
    end).

dump_while_killing(Seconds) ->
    Killers = [spawn(fun kill_workers/0) || _ <- lists:seq(1, 8)],
    dump_until(erlang:monotonic_time(millisecond) + Seconds * 1000),
    [exit(K, kill) || K <- Killers],
    ok.

dump_until(End) ->
    [true = is_binary(erlang:system_info(What)) || What <- [procs, info, procs, dist, procs, loaded]],
    case erlang:monotonic_time(millisecond) < End of
        true -> erlang:yield(), dump_until(End);
        false -> ok
    end.

kill_workers() ->
    Worker = spawn(fun work/0),
    receive after rand:uniform(4) -> ok end,
    exit(Worker, kill),
    kill_workers().

work() ->
    _ = case rand:uniform(2) of
            1 -> erts_debug:dirty_cpu(wait, 1);
            2 -> erts_debug:dirty_io(wait, 1)
        end,
    _ = lists:seq(1, 300),
    work().

%% reset_trace/0 changes nothing but the tokens of signals that have not been handled.
reset_of_priority_signals(_Config) ->
    on_node(["+S", "1:1"], fun(Peer) ->
        ?assertEqual(ok, peer:call(Peer, ?MODULE, reset_priority_signals, [300], 60000))
    end).

reset_priority_signals(Rounds) ->
    Self = self(),
    {Pid, Monitor} = spawn_monitor(fun() ->
                                           Self ! {alias, alias([priority])},
                                           receive stop -> ok end
                                   end),
    Alias = receive {alias, A} -> A end,
    %% By apply/3, as OTP 25 does not have it.
    [begin
         [apply(erlang, exit, [Alias, normal, [priority]]) || _ <- lists:seq(1, 500)],
         seq_trace:reset_trace(),
         erlang:yield()
     end || _ <- lists:seq(1, Rounds)],
    Pid ! stop,
    receive {'DOWN', Monitor, process, Pid, Reason} -> Reason = normal end,
    ok.

%% Dirty signal handlers do not wait for a dirty scheduler themselves, which may be occupied by
%% a process that executes until a handler has handled a signal.
handler_with_large_heap(_Config) ->
    on_node(["+S", "2:2", "+SDcpu", "1:1"], fun(Peer) ->
        ?assertEqual(ok, peer:call(Peer, ?MODULE, collect_handlers, [], 60000))
    end).

collect_handlers() ->
    Handlers = [P || P <- processes(), process_info(P, initial_call)
                         =:= {initial_call, {erts_dirty_process_signal_handler, start, 0}}],
    Busy = occupy_dirty_scheduler(),
    Size = 300000,
    {_, Sent} = spawn_opt(fun() ->
                                  Garbage = lists:seq(1, Size),
                                  [H ! Garbage || H <- Handlers]
                          end, [monitor, {min_heap_size, 4 * Size}]),
    receive {'DOWN', Sent, process, _, normal} -> ok end,
    [async = erlang:garbage_collect(H, [{async, H}]) || H <- Handlers],
    [receive
         {garbage_collect, H, true} -> ok
     after 10000 ->
         %% Any signal to a handler that waits would fill the memory.
         erlang:halt(1, [{flush, false}])
     end || H <- Handlers],
    Monitor = monitor(process, Busy),
    exit(Busy, kill),
    receive {'DOWN', Monitor, process, Busy, killed} -> ok end.

on_node(Args, Fun) ->
    {ok, Peer, _} = peer:start(#{connection => standard_io, wait_boot => 60000,
                                 args => Args ++ ["-env", "ERL_CRASH_DUMP_BYTES", "0"
                                                  | erts_reload_work:emulator_flags()]}),
    try
        Fun(Peer)
    after
        %% It may have crashed.
        try peer:stop(Peer) catch exit:_ -> ok end
    end.
