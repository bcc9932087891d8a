%% SPDX-License-Identifier: Apache-2.0
%%
%% What else happens in a node during a storm (erts_storm_work): dumps, processes that are looked
%% at, hibernate, exit during dirty work, change their priority, get priority signals; calls that
%% occupy schedulers; changes of the schedulers themselves.
-module(erts_storm_system).

-export([operations/0, of_schedulers/0, start_sleepers/0, stop_sleepers/1]).
-export([sleeper/1]).

-import(erts_reload_work, [pick/1]).

-define(SLEEPERS, 6).
%% On an otherwise idle node. A process that has been woken answers in microseconds.
-define(ANSWER_MILLIS, 20000).

operations() ->
    [{dump, fun dump/0}, {infos, fun infos/0}, {dying, fun dying/0}, {dying, fun dying/0},
     {priorities, fun priorities/0}, {naps, fun naps/0}, {exits, fun exits/0}].

%% Apart from dumps: stock runtimes can hang if these happen at the same time.
of_schedulers() ->
    [{online, fun online/0}, {multi, fun multi/0}].

dump() ->
    true = is_binary(erlang:system_info(pick([procs, procs, info, loaded, dist]))).

infos() ->
    Items = [[status, message_queue_len], [current_stacktrace], [messages], [garbage_collection_info, memory],
             [dictionary, links, monitors], [reductions, current_function], [suspending, group_leader]],
    [process_info(P, pick(Items)) || P <- processes()].

%% Processes that exit while a dirty scheduler executes them.
dying() ->
    Pids = [spawn(fun dirty/0) || _ <- lists:seq(1, 8)],
    [begin
         erlang:yield(),
         exit(P, kill)
     end || P <- Pids].

dirty() ->
    _ = case rand:uniform(2) of
            1 -> erts_debug:dirty_cpu(wait, 1);
            2 -> erts_debug:dirty_io(wait, 1)
        end,
    _ = lists:seq(1, 300),
    dirty().

priorities() ->
    [spawn_opt(fun() ->
                       process_flag(priority, pick([low, normal, high])),
                       process_flag(message_queue_data, pick([on_heap, off_heap])),
                       lists:seq(1, 1000)
               end, [{priority, pick([low, normal, high, max])}]) || _ <- lists:seq(1, 10)].

naps() ->
    [erts_storm_nap:nap(pick([1, 20])) || _ <- lists:seq(1, 5)].

%% Exit signals and messages with priority, where the runtime has them, that are still in the queue
%% when tokens are removed from all signals.
exits() ->
    Self = self(),
    {Pid, Ref} = spawn_monitor(fun() ->
                                       Self ! {self(), alias_with_priority()},
                                       nap_on()
                               end),
    receive
        {Pid, Alias} ->
            [catch erlang:exit(Alias, normal, [priority]) || _ <- lists:seq(1, 500)],
            [catch erlang:send(Alias, N, [priority]) || N <- lists:seq(1, 50)],
            [exit(Pid, normal) || _ <- lists:seq(1, 50)],
            _ = seq_trace:reset_trace(),
            exit(Pid, kill),
            receive {'DOWN', Ref, _, _, _} -> ok end
    end.

alias_with_priority() ->
    try alias([priority])
    catch error:badarg -> alias()
    end.

nap_on() -> erts_storm_nap:nap(5), nap_on().

online() ->
    _ = erlang:system_flag(schedulers_online, rand:uniform(erlang:system_info(schedulers))),
    erlang:system_flag(dirty_cpu_schedulers_online, rand:uniform(erlang:system_info(dirty_cpu_schedulers_online))).

multi() ->
    How = pick([block, block_normal]),
    _ = erlang:system_flag(multi_scheduling, How),
    erts_storm_nap:nap(1),
    erlang:system_flag(multi_scheduling, case How of block -> unblock; block_normal -> unblock_normal end).

%%--------------------------------------------------------------------------
%% Processes with large heaps that hibernate after each message, and one that sends them one
%% message at a time.

start_sleepers() ->
    spawn(fun() -> rounds([spawn(?MODULE, sleeper, [[]]) || _ <- lists:seq(1, ?SLEEPERS)], 0) end).

%% {Rounds, Stuck}: how often all have answered, and the processes that have not.
stop_sleepers(Pid) ->
    Ref = monitor(process, Pid),
    Pid ! {stop, self()},
    receive
        {Pid, Result} -> demonitor(Ref, [flush]), Result;
        {'DOWN', Ref, _, _, Reason} -> {failed, Reason}
    end.

sleeper(_) ->
    receive {ping, From, N} -> From ! {pong, self(), N} end,
    Heap = lists:seq(1, 60000),
    _ = erlang:phash2(Heap),
    erlang:hibernate(?MODULE, sleeper, [Heap]).

rounds(Sleepers, N) ->
    [P ! {ping, self(), N} || P <- Sleepers],
    case answers(Sleepers, N, infinity) of
        [] -> rounds(Sleepers, N + 1);
        {asked, From, Left} ->
            Stuck = answers(Left, N, ?ANSWER_MILLIS),
            From ! {self(), {N, [{P, process_info(P, [status, message_queue_len, current_function])} || P <- Stuck]}},
            [exit(P, kill) || P <- Sleepers]
    end.

%% Those that have not answered.
answers([], _, _) ->
    [];
answers(Left, N, Millis) ->
    receive
        {pong, Pid, N} -> answers(lists:delete(Pid, Left), N, Millis);
        {stop, From} -> {asked, From, Left}
    after Millis -> Left
    end.
