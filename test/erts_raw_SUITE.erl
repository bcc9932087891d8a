%% SPDX-License-Identifier: Apache-2.0
%%
%% Version 2 of the interface for raw events: what it reports in addition, and that a tracer of
%% version 1 gets nothing new (erts_event_SUITE tests the rest of version 1).
-module(erts_raw_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2, end_per_testcase/2]).
-export([version_1/1,
         out_waiting/1, out_reductions/1, out_trap/1, out_suspended/1, out_exiting/1, out_dirty/1,
         out_hibernating/1, out_port/1, out_and_message/1,
         runnable_by/1, runnable_out/1, runnable_for/1, runnable_forgotten/1, runnable_of_many/1,
         message_numbers/1, message_ways/1, message_without_sender/1, message_of_port/1,
         message_unsent/1, messages_under_load/1,
         taken_in_order/1, taken_selectively/1, taken_after_hibernation/1, taken_by_gen/1, not_taken/1,
         taken_from_before/1, taken_many/1, taken_with_spec/1,
         depth_of_calls/1, depth_of_tail_calls/1, depth_of_exceptions/1, depth_of_spec/1,
         thread_and_cpu/1, thread_of_dirty/1,
         stopped/1, stopped_once/1, stopped_missed/1, stopped_before/1, stopped_not_asked/1,
         stopped_under_load/1,
         sizes/1, sizes_not_asked/1, sizes_of_limit/1]).
-export([leaf/1, inner/1, middle/1, outer/1, tail/1, loop/1, throws/1, catches/1, woken/1]).

-import(erts_worker, [do/2, in/2, stop/1, told/1, flush/0]).

-define(RAW1, event_tracer_raw).
-define(RAW2, event_tracer_raw2).
-define(MORE, event_tracer_more).

suite() ->
    [{timetrap, {minutes, 2}}].

all() ->
    [version_1,
     out_waiting, out_reductions, out_trap, out_suspended, out_exiting, out_dirty, out_hibernating,
     out_port, out_and_message,
     runnable_by, runnable_out, runnable_for, runnable_forgotten, runnable_of_many,
     message_numbers, message_ways, message_without_sender, message_of_port, message_unsent,
     messages_under_load,
     taken_in_order, taken_selectively, taken_after_hibernation, taken_by_gen, not_taken, taken_from_before,
     taken_many, taken_with_spec,
     depth_of_calls, depth_of_tail_calls, depth_of_exceptions, depth_of_spec,
     thread_and_cpu, thread_of_dirty,
     stopped, stopped_once, stopped_missed, stopped_before, stopped_not_asked, stopped_under_load,
     sizes, sizes_not_asked, sizes_of_limit].

init_per_suite(Config) ->
    try erlang:system_info(kymo_series) of
        _ ->
            Tracers = [{?RAW1, ["-DRAW=1"]}, {?RAW2, ["-DRAW=2"]}, {?MORE, ["-DRAW=2", "-DMORE"]}],
            erts_debug:set_internal_state(available_internal_state, true),
            [{codes, erts_tracer_nif:codes(?config(priv_dir, Config), Tracers)} | Config]
    catch
        error:badarg -> {skip, "this runtime lacks the ERTS patches"}
    end.

end_per_suite(_Config) ->
    erts_debug:set_internal_state(available_internal_state, false).

init_per_testcase(_Case, Config) ->
    erts_tracer_nif:load(?config(codes, Config)),
    ?assertEqual({0, 22}, ?RAW2:registering()),
    ?assertEqual({0, 22}, ?MORE:registering()),
    Config.

end_per_testcase(_Case, _Config) ->
    erlang:trace(all, false, [all]),
    erlang:trace_pattern({'_', '_', '_'}, false, [local]),
    erlang:trace_pattern('receive', true, []),
    ok.

%% Beside a tracer of version 2 that is told when messages are taken.
version_1(_Config) ->
    Self = self(),
    Tracee = spawn_link(fun erts_worker:worker/0),
    Ss = [{M, trace:session_create(M, {M, {trace, trace, Self, none}}, [])} || M <- [?RAW1, ?RAW2]],
    [1 = trace:process(S, Tracee, true, ['receive']) || {_, S} <- Ss],
    do(Tracee, fun() -> ok end),
    Told = told(Tracee),
    [true = trace:session_destroy(S) || {_, S} <- Ss],
    stop(Tracee),
    Messages = [{Tag, maps:keys(Options)} || {trace, Tag, _, {do, _, _}, Options} <- Told],
    ?assertEqual([{'receive', []}, {'receive', [message]}, {taken, [message, passed]}], lists:sort(Messages)).

%%--------------------------------------------------------------------------
%% Why a process is scheduled out

out_waiting(_Config) ->
    ?assertEqual([waiting], lists:usort(reasons(fun() -> ok end))).

%% A loop that uses up its reductions, and a process that yields. (Garbage collection costs
%% reductions, too, and there can be so many other processes that a tracee waits for long.)
out_reductions(_Config) ->
    Reasons = reasons(fun() -> ?MODULE:loop(20000) end),
    ?assertMatch([reductions, reductions | _], [R || R <- Reasons, R =/= waiting]),
    ?assertEqual([reductions, reductions],
                 [R || R <- reasons(fun() -> erlang:yield(), erlang:yield() end), R =/= waiting]).

%% BIFs that trap, also into Erlang code of their own.
out_trap(_Config) ->
    Term = lists:seq(1, 300000),
    Reasons = reasons(fun() -> erlang:phash2(term_to_binary(Term, [{minor_version, 2}])) end),
    ?assertEqual({true, Reasons}, {lists:member(trap, Reasons), Reasons}).

out_suspended(_Config) ->
    Tracee = spawn_link(fun erts_worker:worker/0),
    trace(Tracee, [running]),
    Self = self(),
    Tracee ! {do, fun() -> Self ! here, spin() end, Self},
    receive here -> ok end,
    suspend_while_running(Tracee),
    Tracee ! enough,
    receive {done, Tracee} -> ok end,
    stop(Tracee).

%% A process in a run queue is suspended without being scheduled in and out again.
suspend_while_running(Tracee) ->
    true = erlang:suspend_process(Tracee),
    Told = told(Tracee),
    true = erlang:resume_process(Tracee),
    case lists:member(suspended, out_reasons(Told)) of
        true -> ok;
        false -> erlang:yield(), suspend_while_running(Tracee)
    end.

spin() ->
    receive enough -> ok after 0 -> spin() end.

out_exiting(_Config) ->
    Tracee = spawn(fun erts_worker:worker/0),
    trace(Tracee, [running, exiting]),
    exit(Tracee, kill),
    wait_dead(Tracee),
    Told = told(Tracee),
    ?assertEqual([exiting], lists:usort([R || {trace, out_exited, _, _, #{out_reason := R}} <- Told, R =/= unknown]
                                        ++ [R || {trace, out_exiting, _, _, #{out_reason := R}} <- Told]
                                        ++ [exiting])).

out_dirty(_Config) ->
    Self = self(),
    Reasons = reasons(fun() -> ?RAW2:dirty_cpu(Self, from_dirty), ?RAW2:dirty_io(Self, from_dirty) end),
    ?assertMatch([_, _, _, _ | _], [R || R <- Reasons, R =:= dirty]),
    ?assertEqual([dirty, waiting], lists:usort(Reasons)).

out_hibernating(_Config) ->
    Self = self(),
    Tracee = spawn_link(fun() -> erlang:hibernate(?MODULE, woken, [Self]) end),
    wait_waiting(Tracee),
    trace(Tracee, [running, 'receive']),
    Tracee ! again,
    wait_waiting(Tracee),
    Told = told(Tracee),
    ?assertEqual([waiting], lists:usort(out_reasons(Told))),
    %% wait_waiting/1 may wake it with the signal of process_info/2, and send the next one before it
    %% is scheduled out.
    ?assertEqual([message], [By || {trace, in, _, _, #{runnable_by := By}} <- Told, By =/= signal, By =/= out]),
    ?assertEqual([again], [M || {trace, taken, _, M, _} <- Told]),
    unlink(Tracee),
    exit(Tracee, kill).

%% The function at which a hibernating process wakes up: it receives one message and hibernates
%% again.
woken(Parent) ->
    receive again -> erlang:hibernate(?MODULE, woken, [Parent]) end.

%% With running_procs a process counts as out while it executes the code of a port.
out_port(_Config) ->
    Tracee = spawn_link(fun erts_worker:worker/0),
    trace(Tracee, [running_procs]),
    do(Tracee, fun() ->
                       Port = open_port({spawn, "true"}, []),
                       catch port_close(Port)
               end),
    Told = told(Tracee),
    ?assert(lists:member(port, out_reasons(Told))),
    stop(Tracee).

%% A process that is about to wait when a message arrives has waited, and not used up its
%% reductions.
out_and_message(_Config) ->
    Tracee = spawn_opt(fun echo/0, [link, {scheduler, 1}]),
    trace(Tracee, [running]),
    {_, Ref} = spawn_opt(fun() -> ping(Tracee, 2000) end, [monitor, {scheduler, schedulers()}]),
    receive {'DOWN', Ref, process, _, normal} -> ok end,
    %% It also uses up its reductions at times, because every message costs some.
    Reasons = out_reasons(told(Tracee)),
    Waited = length([R || R <- Reasons, R =:= waiting]),
    ?assertEqual([], lists:usort(Reasons) -- [waiting, reductions, trap]),
    ?assert(Waited > 10 * (length(Reasons) - Waited)),
    stop(Tracee).

echo() ->
    receive {ping, From} -> From ! pong, echo(); stop -> ok end.

ping(_, 0) -> ok;
ping(Pid, N) -> Pid ! {ping, self()}, receive pong -> ping(Pid, N - 1) end.

%%--------------------------------------------------------------------------
%% What made it runnable

runnable_by(_Config) ->
    Tracee = spawn_link(fun erts_worker:worker/0),
    Self = self(),
    Causes = [{message, fun() -> Tracee ! {do, fun() -> ok end, Self} end},
              {timer, fun() -> erlang:send_after(1, Tracee, {do, fun() -> ok end, Self}) end},
              {timer, fun() -> Tracee ! {do, fun() -> receive never -> ok after 2 -> ok end end, Self} end},
              {port, fun() -> Tracee ! {do, fun from_port/0, Self} end},
              {signal, fun() -> _ = process_info(Tracee, [heap_size, messages]), Tracee ! {do, fun() -> ok end, Self} end}],
    [?assertMatch({Cause, true, _}, caused(Tracee, Cause, Do, 20)) || {Cause, Do} <- Causes],
    trace(Tracee, [running, set_on_spawn]),
    do(Tracee, fun() -> {_, Ref} = spawn_monitor(fun() -> ok end), receive {'DOWN', Ref, _, _, _} -> ok end end),
    told(Tracee),
    trace(Tracee, [running, set_on_spawn]),
    do(Tracee, fun() ->
                       {Pid, Ref} = spawn_monitor(fun() -> ok end),
                       receive {'DOWN', Ref, _, _, _} -> ok end,
                       Self ! {child, Pid}
               end),
    Child = receive {child, Pid} -> Pid end,
    Told = told(Tracee),
    ?assertMatch([spawn | _], [By || {trace, in, P, _, #{runnable_by := By}} <- Told, P =:= Child]),
    stop(Tracee).

%% A signal from the runtime can have made it runnable before: the first one counts.
caused(Tracee, Cause, Do, Left) ->
    settle(Tracee),
    Do(),
    receive {done, Tracee} -> ok end,
    By = [B || {trace, in, _, _, #{runnable_by := B}} <- told(Tracee)],
    1 = erlang:trace(Tracee, false, [all]),
    ?assertEqual({Cause, false, By}, {Cause, lists:member(unknown, By), By}),
    case {lists:member(Cause, By), By} of
        {false, By} when By =:= [signal], Left > 0 -> caused(Tracee, Cause, Do, Left - 1);
        {Is, By} -> {Cause, Is, By}
    end.

from_port() ->
    Port = open_port({spawn, "cat"}, [binary]),
    erlang:yield(),
    true = port_command(Port, <<"x">>),
    receive {Port, {data, _}} -> ok end,
    true = port_close(Port).

%% A process that was preempted was runnable for the whole time that it was out.
runnable_out(_Config) ->
    Tracee = spawn_link(fun erts_worker:worker/0),
    settle(Tracee),
    do(Tracee, fun() -> erlang:yield(), erlang:yield() end),
    [{trace, in, _, _, #{runnable_by := First}} | Rest] = told(Tracee),
    %% A signal from the runtime can have made it runnable before the message did.
    ?assert(First =:= message orelse First =:= signal),
    %% It can also be scheduled out and in while it waits: when a signal is on its way to it.
    ?assertEqual([{reductions, out}, {reductions, out}], [P || P = {Why, _} <- out_and_in(Rest), Why =/= waiting]),
    stop(Tracee).

out_and_in([{trace, out, _, _, #{out_reason := Why}}, {trace, in, _, _, #{runnable_by := By}} | Rest]) ->
    [{Why, By} | out_and_in(Rest)];
out_and_in([{trace, out, _, _, _}]) -> [].

%% A process behind another that keeps the scheduler busy is in the queue for that long: its
%% times add up to no more than has passed, and to no less than the other process has run.
runnable_for(_Config) ->
    Self = self(),
    Tracee = spawn_opt(fun erts_worker:worker/0, [link, {scheduler, 1}]),
    settle(Tracee),
    {Hog, Ref} =
        spawn_opt(fun() ->
                          process_flag(priority, max),
                          Begin = erlang:monotonic_time(nanosecond),
                          Tracee ! {do, fun() -> ok end, Self},
                          busy_until(erlang:monotonic_time(nanosecond) + 50000000),
                          exit({ran, Begin, erlang:monotonic_time(nanosecond)})
                  end, [monitor, {scheduler, 1}]),
    receive {done, Tracee} -> ok end,
    End = erlang:monotonic_time(nanosecond),
    {Begin, Ran} = receive {'DOWN', Ref, process, Hog, {ran, B, R}} -> {B, R} end,
    [For] = [For || {trace, in, _, _, #{runnable_by := message, runnable_for := For}} <- told(Tracee)],
    %% The message was sent shortly after Begin.
    ?assert(For =< End - Begin),
    ?assert(For >= Ran - Begin - (Ran - Begin) div 2),
    stop(Tracee).

busy_until(End) ->
    case erlang:monotonic_time(nanosecond) >= End of
        true -> ok;
        false -> busy_until(End)
    end.

%% What happened while the process was not traced is not reported.
runnable_forgotten(_Config) ->
    Tracee = spawn_opt(fun erts_worker:worker/0, [link, {scheduler, 1}]),
    trace(Tracee, [running]),
    do(Tracee, fun() -> ok end),
    wait_waiting(Tracee),
    1 = erlang:trace(Tracee, false, [all]),
    told(Tracee),
    Self = self(),
    {_, Ref} = spawn_opt(fun() ->
                                 process_flag(priority, max),
                                 Tracee ! {do, fun() -> ok end, Self},
                                 1 = erlang:trace(Tracee, true, [running, {tracer, ?RAW2, {trace, trace, Self, none}}])
                         end, [monitor, {scheduler, 1}]),
    receive {'DOWN', Ref, process, _, normal} -> ok end,
    receive {done, Tracee} -> ok end,
    [{By, For} | _] = [{By, For} || {trace, in, _, _, #{runnable_by := By, runnable_for := For}} <- told(Tracee)],
    %% Setting trace flags sends a signal, which may have made it runnable.
    ?assert({By, For} =:= {unknown, 0} orelse By =:= signal),
    stop(Tracee).

%% Many processes that wake each other: a process is never in a queue for longer than it was
%% out, and each time it is scheduled in, there is some information.
runnable_of_many(_Config) ->
    N = 20,
    Ring = [spawn_link(fun() -> ring([]) end) || _ <- lists:seq(1, N)],
    [trace(P, [running, monotonic_timestamp]) || P <- Ring],
    [P ! {next, Q} || {P, Q} <- lists:zip(Ring, tl(Ring) ++ [hd(Ring)])],
    [P ! {token, 2000, self()} || P <- lists:sublist(Ring, 4)],
    [receive token_done -> ok end || _ <- lists:seq(1, 4)],
    AllTold = lists:append([told(P) || P <- Ring]),
    [begin
         Told = [{Tag, Options} || {trace, Tag, Pid, _, Options} <- AllTold, Pid =:= P],
         %% It may have been in a queue when its tracing began.
         [_ | By] = [B || {in, #{runnable_by := B}} <- Told],
         ?assertEqual([], [{I, length(By), B} || {I, B} <- lists:enumerate(By), not lists:member(B, [message, out, signal])]),
         ?assertEqual([], [F || {in, #{runnable_for := F}} <- Told, F < 0])
     end || P <- Ring],
    [stop(P) || P <- Ring].

ring(Next) ->
    receive
        {next, Pid} -> ring(Pid);
        {token, 0, From} -> From ! token_done, ring(Next);
        {token, N, From} -> Next ! {token, N - 1, From}, ring(Next);
        stop -> ok
    end.

%%--------------------------------------------------------------------------
%% Numbers of messages

%% The same number in send, receive and taken; each message has another number, even if messages
%% are equal.
message_numbers(_Config) ->
    [A, B] = [spawn_link(fun erts_worker:worker/0) || _ <- "ab"],
    [trace(P, [send, 'receive']) || P <- [A, B]],
    do(A, fun() -> [B ! same || _ <- lists:seq(1, 100)] end),
    do(B, fun() -> [receive same -> ok end || _ <- lists:seq(1, 100)] end),
    Told = told(A) ++ told(B),
    Sent = [N || {trace_send, send, P, same, #{message := N}} <- Told, P =:= A],
    ?assertEqual(100, length(Sent)),
    ?assertEqual(100, length(lists:usort(Sent))),
    ?assertEqual(false, lists:member(0, Sent)),
    ?assertEqual(Sent, [N || {trace, 'receive', P, same, #{message := N}} <- Told, P =:= B]),
    ?assertEqual(Sent, [N || {trace, taken, P, same, #{message := N}} <- Told, P =:= B]),
    [stop(P) || P <- [A, B]].

%% Messages sent by pid, name, name and node, or alias; from NIFs in all kinds of threads; to
%% the sender itself; with a token of seq_trace; small and large ones; and with the message
%% queue outside of the heap.
message_ways(_Config) ->
    [message_ways(Queue, Message) || Queue <- [on_heap, off_heap],
                                     Message <- [x, {x, lists:seq(1, 1000)}, {x, binary:copy(<<"x">>, 100000)}]].

message_ways(Queue, Message) ->
    A = spawn_link(fun erts_worker:worker/0),
    B = spawn_opt(fun erts_worker:worker/0, [link, {message_queue_data, Queue}]),
    Self = self(),
    true = register(erts_raw_b, B),
    Alias = in(B, fun() -> alias() end),
    [trace(P, [send, 'receive']) || P <- [A, B]],
    Ways = [{pid, fun() -> B ! Message end},
            {name, fun() -> erts_raw_b ! Message end},
            {name_and_node, fun() -> {erts_raw_b, node()} ! Message end},
            {alias, fun() -> Alias ! Message end},
            {send_3, fun() -> erlang:send(B, Message, [nosuspend]) end},
            {dirty, fun() -> ?RAW2:dirty_cpu(B, Message) end},
            {dirty_env, fun() -> ?RAW2:dirty_io(B, Message) end},
            {token, fun() ->
                            seq_trace:set_token(label, 17),
                            B ! Message,
                            seq_trace:set_token([])
                    end},
            {token_and_alias, fun() ->
                            seq_trace:set_token(label, 17),
                            Alias ! Message,
                            seq_trace:set_token([])
                    end}],
    [begin
         do(A, Send),
         do(B, fun() -> receive Message -> seq_trace:set_token([]) end end),
         Told = told(A) ++ told(B),
         One = [N || {trace_send, send, P, M, #{message := N}} <- Told, P =:= A, M =:= Message],
         ?assertMatch({Way, [N]} when N > 0, {Way, One}),
         ?assertEqual({Way, One}, {Way, [N || {trace, 'receive', P, M, #{message := N}} <- Told, P =:= B, M =:= Message]}),
         ?assertEqual({Way, One}, {Way, [N || {trace, taken, P, M, #{message := N}} <- Told, P =:= B, M =:= Message]})
     end || {Way, Send} <- Ways],
    do(A, fun() -> self() ! Message, receive Message -> ok end end),
    Told = told(A),
    [N, N, N] = [N || {_, _, _, M, #{message := N}} <- Told, M =:= Message],
    ?assert(N > 0),
    Self ! ok,
    receive ok -> ok end,
    [stop(P) || P <- [A, B]].

%% Messages whose senders are not traced are numbered at the receiver.
message_without_sender(_Config) ->
    B = spawn_link(fun erts_worker:worker/0),
    trace(B, ['receive']),
    [B ! same || _ <- lists:seq(1, 10)],
    erlang:send_after(0, B, same),
    do(B, fun() -> [receive same -> ok end || _ <- lists:seq(1, 11)] end),
    Told = told(B),
    Got = [N || {trace, 'receive', _, same, #{message := N}} <- Told],
    ?assertEqual(11, length(lists:usort(Got))),
    ?assertEqual(false, lists:member(0, Got)),
    ?assertEqual(Got, [N || {trace, taken, _, same, #{message := N}} <- Told]),
    stop(B).

message_of_port(_Config) ->
    B = spawn_link(fun erts_worker:worker/0),
    trace(B, ['receive']),
    do(B, fun() ->
                  Port = open_port({spawn, "cat"}, [binary]),
                  1 = erlang:trace(Port, true, [send, {tracer, ?RAW2, {trace, trace, hd(element(2, process_info(self(), links))), none}}]),
                  true = port_command(Port, <<"x">>),
                  receive {Port, {data, _}} -> ok end,
                  true = port_close(Port)
          end),
    Told = told(B),
    Numbers = [{Tag, N} || {_, Tag, _, {_, {data, <<"x">>}}, #{message := N}} <- Told],
    ?assertMatch([{'receive', N}, {send, N}, {taken, N}] when N > 0, lists:sort(Numbers)),
    stop(B).

%% Messages that no process receives.
message_unsent(_Config) ->
    A = spawn_link(fun erts_worker:worker/0),
    {Gone, Ref} = spawn_monitor(fun() -> ok end),
    receive {'DOWN', Ref, process, Gone, _} -> ok end,
    trace(A, [send, 'receive']),
    do(A, fun() ->
                  Gone ! to_nobody,
                  {erts_raw_nobody, node()} ! to_nobody,
                  _ = catch erts_raw_nobody ! to_nobody,
                  receive never -> ok after 0 -> ok end
          end),
    Told = told(A),
    ?assertEqual([0, 0, 0], [N || {trace_send, _, _, to_nobody, #{message := N}} <- Told]),
    ?assertEqual([0], [N || {trace, 'receive', _, timeout, #{message := N}} <- Told]),
    stop(A).

%% Every number that is received was sent exactly once before, to this process.
messages_under_load(_Config) ->
    N = 8,
    Rounds = 300,
    Self = self(),
    Workers = [spawn_link(fun erts_worker:worker/0) || _ <- lists:seq(1, N)],
    Collector = spawn_link(fun() -> collect([]) end),
    [1 = erlang:trace(W, true, [send, 'receive', {tracer, ?RAW2, {trace, trace, Collector, none}}]) || W <- Workers],
    [W ! {do, fun() ->
                      [begin
                           [P ! {x, self(), I} || P <- Workers],
                           [receive {x, P, I} -> ok end || P <- Workers]
                       end || I <- lists:seq(1, Rounds)]
              end, Self} || W <- Workers],
    [receive {done, W} -> ok end || W <- Workers],
    [begin
         Ref = erlang:trace_delivered(W),
         receive {trace_delivered, W, Ref} -> ok end
     end || W <- Workers],
    Collector ! {get, Self},
    Events = receive {Collector, Es} -> Es end,
    Of = fun(Wanted) -> [{M, To} || {Tag, To, {x, _, _}, M} <- Events, Tag =:= Wanted] end,
    Sent = [{M, To} || {{send, To}, _, {x, _, _}, M} <- Events],
    ?assertEqual(N * N * Rounds, length(lists:usort([M || {M, _} <- Sent]))),
    ?assertEqual(lists:sort(Sent), lists:sort(Of('receive'))),
    ?assertEqual(lists:sort(Sent), lists:sort(Of(taken))),
    [stop(W) || W <- Workers].

collect(Events) ->
    receive
        {get, From} -> From ! {self(), Events};
        {trace_send, send, P, Msg, #{message := M, extra := To}} -> collect([{{send, To}, P, Msg, M} | Events]);
        {trace, Tag, P, Msg, #{message := M}} -> collect([{Tag, P, Msg, M} | Events]);
        _ -> collect(Events)
    end.

%%--------------------------------------------------------------------------
%% Messages that are taken

taken_in_order(_Config) ->
    B = spawn_link(fun erts_worker:worker/0),
    trace(B, ['receive']),
    [B ! I || I <- lists:seq(1, 5)],
    do(B, fun() -> [receive I when is_integer(I) -> I end || _ <- lists:seq(1, 5)] end),
    Told = told(B),
    %% They were received before the message that told it what to do.
    ?assertEqual([{{x, do}, 5} | [{I, 0} || I <- lists:seq(1, 5)]],
                 [{case M of {do, _, _} -> {x, do}; _ -> M end, Passed} || {trace, taken, _, M, #{passed := Passed}} <- Told]),
    stop(B).

taken_selectively(_Config) ->
    B = spawn_link(fun erts_worker:worker/0),
    trace(B, ['receive']),
    do(B, fun() ->
                  [self() ! I || I <- lists:seq(1, 5)],
                  [receive I -> I end || I <- [5, 3, 1, 4, 2]],
                  receive never -> ok after 0 -> ok end
          end),
    ?assertEqual([{5, 4}, {3, 2}, {1, 0}, {4, 1}, {2, 0}],
                 [{M, Passed} || {trace, taken, _, M, #{passed := Passed}} <- told(B), is_integer(M)]),
    stop(B).

taken_after_hibernation(_Config) ->
    B = spawn_link(fun() -> erlang:hibernate(?MODULE, woken, [self()]) end),
    wait_waiting(B),
    trace(B, ['receive']),
    [begin B ! again, wait_waiting(B) end || _ <- lists:seq(1, 3)],
    Told = told(B),
    ?assertEqual([{again, 0}, {again, 0}, {again, 0}], [{M, P} || {trace, taken, _, M, #{passed := P}} <- Told]),
    unlink(B),
    exit(B, kill).

%% The reply arrives through an alias, after the messages that are already in the mailbox.
taken_by_gen(_Config) ->
    Server = spawn_link(fun serve/0),
    A = spawn_link(fun erts_worker:worker/0),
    trace(A, [send, 'receive']),
    trace(Server, [send, 'receive']),
    do(A, fun() ->
                  self() ! one,
                  self() ! two,
                  {ok, reply} = gen:call(Server, '$gen_call', hello, 10000),
                  receive one -> ok end,
                  receive two -> ok end
          end),
    Told = told(A) ++ told(Server),
    Numbers = [{Tag, N} || {_, Tag, _, {[alias | _], reply}, #{message := N}} <- Told],
    ?assertMatch([{'receive', N}, {send, N}, {taken, N}] when N > 0, lists:sort(Numbers)),
    ?assertEqual([2], [P || {trace, taken, _, {[alias | _], reply}, #{passed := P}} <- Told]),
    unlink(Server),
    exit(Server, kill),
    stop(A).

serve() ->
    receive {'$gen_call', From, hello} -> gen:reply(From, reply), serve() end.

%% Messages in the mailbox of a process that exits are dropped, and messages that no receive
%% matches stay.
not_taken(_Config) ->
    [begin
         B = spawn(fun() -> receive Last -> ok end end),
         wait_waiting(B),
         trace(B, ['receive']),
         true = erlang:suspend_process(B),
         [B ! I || I <- lists:seq(1, 3)],
         B ! Last,
         true = erlang:resume_process(B),
         [exit(B, kill) || Last =:= never],
         wait_dead(B),
         Taken = [M || {trace, taken, _, M, _} <- told(B)],
         ?assertEqual({Last, [M || M <- [Last], M =:= last]}, {Last, Taken})
     end || Last <- [last, never]],
    B = spawn_link(fun erts_worker:worker/0),
    trace(B, ['receive']),
    B ! nobody_asks,
    do(B, fun() -> receive never -> ok after 1 -> ok end end),
    ?assertEqual([], [M || {trace, taken, _, nobody_asks = M, _} <- told(B)]),
    stop(B).

%% Messages that arrived before tracing began have no number.
taken_from_before(_Config) ->
    B = spawn_link(fun erts_worker:worker/0),
    B ! early,
    do(B, fun() -> ok end),
    trace(B, ['receive']),
    do(B, fun() -> receive early -> ok end end),
    ?assertEqual([0], [N || {trace, taken, _, early, #{message := N}} <- told(B)]),
    stop(B).

%% The count of passed messages is bounded.
taken_many(_Config) ->
    B = spawn_link(fun erts_worker:worker/0),
    trace(B, ['receive']),
    do(B, fun() ->
                  [self() ! x || _ <- lists:seq(1, 999)],
                  self() ! last,
                  receive last -> ok end,
                  [self() ! x || _ <- lists:seq(1, 1000)],
                  self() ! last,
                  receive last -> ok end
          end),
    ?assertEqual([999, many], [P || {trace, taken, _, last, #{passed := P}} <- told(B)]),
    stop(B).

%% A match specification for receive is not asked: what it discards is taken, too.
taken_with_spec(_Config) ->
    B = spawn_link(fun erts_worker:worker/0),
    trace(B, ['receive']),
    erlang:trace_pattern('receive', [{['_', '_', x], [], [{message, spec}]}], []),
    do(B, fun() -> self() ! x, self() ! y, receive y -> ok end, receive x -> ok end end),
    Told = told(B),
    [{x, Received}] = [{M, N} || {trace, 'receive', _, M, #{message := N}} <- Told],
    [{y, 1, Discarded}, {x, 0, Taken}] =
        [{M, P, N} || {trace, taken, _, M, #{message := N, passed := P}} <- Told, is_atom(M)],
    ?assertEqual(Received, Taken),
    ?assertNotEqual(Received, Discarded),
    erlang:trace_pattern('receive', false, []),
    do(B, fun() -> self() ! x, receive x -> ok end end),
    ?assertEqual([], told(B)),
    stop(B).

%%--------------------------------------------------------------------------
%% Depth of the stack

depth_of_calls(_Config) ->
    Events = calls(fun() -> [?MODULE:outer(1), ?MODULE:leaf(2)] end, true),
    ?assertMatch([{call, outer, _}, {call, middle, _}, {call, inner, _}, {call, leaf, _},
                  {return_to, inner, _}, {return_to, middle, _}, {return_to, outer, _}, {return_to, _, _},
                  {call, leaf, _}, {return_to, _, _}], Events),
    [Outer, Middle, Inner, Leaf, ToInner, ToMiddle, ToOuter, ToFun, Leaf2, ToFun2] = [D || {_, _, D} <- Events],
    ?assert(0 < Outer andalso Outer < Middle andalso Middle < Inner andalso Inner < Leaf),
    ?assert(Inner =< ToInner andalso ToInner < Leaf),
    ?assert(Middle =< ToMiddle andalso ToMiddle < Inner),
    ?assert(Outer =< ToOuter andalso ToOuter < Middle),
    ?assert(ToFun < Outer),
    ?assert(ToFun2 < Leaf2).

%% A tail call has the depth of the call that it replaces, however many of them there are.
depth_of_tail_calls(_Config) ->
    [begin
         Events = calls(fun() -> [?MODULE:tail(N)] end, true),
         Depths = [D || {call, tail, D} <- Events],
         ?assertEqual(N + 1, length(Depths)),
         ?assertMatch([_], lists:usort(Depths)),
         ?assertMatch([_], [D || {return_to, _, D} <- Events])
     end || N <- [0, 1, 2, 100]].

%% Catching an exception ends everything that is deeper.
depth_of_exceptions(_Config) ->
    Events = calls(fun() -> [?MODULE:catches(1)] end, true),
    [{call, catches, Catches}, {call, throws, Throws}, {return_to, catches, To}, {return_to, _, Out}] = Events,
    ?assert(Catches < Throws),
    ?assert(Catches =< To andalso To < Throws),
    ?assert(Out < Catches).

%% return_from and exception_from have the depth of their call, whatever frames tracing has put
%% on the stack, also with two sessions.
depth_of_spec(_Config) ->
    Other = trace:session_create(other, {?RAW2, {trace, trace, none, none}}, []),
    [begin
         Spec = [{'_', [], [{exception_trace}]}],
         Set = fun(Pid) ->
                       [begin
                            1 = trace:process(Other, Pid, true, [call, return_to]),
                            [1 = trace:function(Other, {?MODULE, F, 1}, Spec, [local]) || F <- functions()]
                        end || Two]
               end,
         Events = calls(fun() -> [?MODULE:outer(1), ?MODULE:catches(1), ?MODULE:tail(3)] end, Spec, Set),
         check_returns([E || {Tag, _, _} = E <- Events, Tag =/= return_to], [])
     end || Two <- [false, true]],
    true = trace:session_destroy(Other).

check_returns([], []) ->
    ok;
check_returns([{call, F, D} | Es], Open) ->
    check_returns(Es, [{F, D} | Open]);
check_returns([{_, F, D} = E | Es], [{F, At} | Open]) ->
    ?assertEqual({E, D}, {E, At}),
    check_returns(Es, Open).

functions() ->
    [leaf, inner, middle, outer, tail, throws, catches].

%% {Tag, Function, Depth} of calls and returns.
calls(Fun, Spec) ->
    calls(Fun, Spec, fun(_) -> ok end).

calls(Fun, Spec, Set) ->
    Tracee = spawn_link(fun erts_worker:worker/0),
    [1 = erlang:trace_pattern({?MODULE, F, 1}, Spec, [local]) || F <- functions()],
    trace(Tracee, [call, return_to, arity]),
    Set(Tracee),
    do(Tracee, Fun),
    Told = told(Tracee),
    stop(Tracee),
    [{Tag, case What of {_, F, _} -> F; _ -> What end, Depth}
     || {trace_call, Tag, _, What, #{depth := Depth}} <- Told].

leaf(X) -> X.
inner(X) -> {leaf, ?MODULE:leaf(X), X}.
middle(X) -> A = {a, X}, B = ?MODULE:inner(X), {A, B, X}.
outer(X) -> [?MODULE:middle(X)].
tail(0) -> done;
tail(N) -> ?MODULE:tail(N - 1).
throws(X) -> throw({thrown, X}).
catches(X) ->
    try [?MODULE:throws(X)]
    catch throw:T -> [T]
    end.

%% @doc A loop of calls.
loop(0) -> ok;
loop(N) -> _ = ?MODULE:leaf(N), loop(N - 1).

%%--------------------------------------------------------------------------
%% The thread of a scheduler, and its CPU

%% The operating system names the threads of schedulers. A tracer that does not ask for the CPU
%% gets the thread.
thread_and_cpu(_Config) ->
    os:type() =:= {unix, linux} orelse throw({skip, "needs Linux"}),
    [begin
         Tracee = spawn_opt(fun erts_worker:worker/0, [link, {scheduler, I}]),
         trace(Tracer, Tracee, [running, scheduler_id]),
         [do(Tracee, fun() -> erlang:yield() end) || _ <- lists:seq(1, 20)],
         %% The end of the tracee before it is told, too.
         Told = [T || T <- told(Tracee), element(3, T) =:= Tracee],
         [_ | _] = In = [{Id, Thread, Cpu} || {trace, in, _, _, #{scheduler_id := Id, kernel_thread := Thread, cpu := Cpu}} <- Told],
         [?assertEqual({I, "erts_sched_" ++ integer_to_list(I)}, {Id, thread_name(Thread)}) || {Id, Thread, _} <- lists:usort(In)],
         [case Tracer of
              ?MORE -> ?assert(lists:member(Cpu, allowed_cpus(Thread)));
              ?RAW2 -> ?assertEqual(-1, Cpu)
          end || {_, Thread, Cpu} <- lists:usort(In)],
         ?assertEqual([], [O || {trace, out, _, _, #{kernel_thread := K, cpu := C} = O} <- Told, {K, C} =/= {0, -1}]),
         stop(Tracee)
     end || Tracer <- [?RAW2, ?MORE], I <- lists:seq(1, schedulers())].

thread_of_dirty(_Config) ->
    os:type() =:= {unix, linux} orelse throw({skip, "needs Linux"}),
    Self = self(),
    Tracee = spawn_link(fun erts_worker:worker/0),
    trace(?MORE, Tracee, [running]),
    do(Tracee, fun() -> ?RAW2:dirty_cpu(Self, from_dirty), ?RAW2:dirty_io(Self, from_dirty) end),
    Names = [thread_name(Thread) || {trace, in, _, _, #{kernel_thread := Thread}} <- told(Tracee)],
    Kinds = lists:usort([lists:sublist(Name, 10) || Name <- Names]),
    ?assertEqual(["erts_dcpus", "erts_dios_", "erts_sched"], Kinds),
    stop(Tracee).

thread_name(Thread) ->
    {ok, Name} = file:read_file(["/proc/self/task/", integer_to_list(Thread), "/comm"]),
    string:trim(binary_to_list(Name)).

allowed_cpus(Thread) ->
    {ok, Status} = file:read_file(["/proc/self/task/", integer_to_list(Thread), "/status"]),
    {match, [List]} = re:run(Status, "Cpus_allowed_list:\\s*(\\S+)", [{capture, [1], list}]),
    lists:append([case [list_to_integer(N) || N <- string:lexemes(Range, "-")] of
                      [First, Last] -> lists:seq(First, Last);
                      [One] -> [One]
                  end || Range <- string:lexemes(List, ",")]).

%%--------------------------------------------------------------------------
%% All schedulers are stopped

stopped(_Config) ->
    Tracee = spawn_link(fun erts_worker:worker/0),
    S = session_of([Tracee]),
    Begin = erlang:monotonic_time(nanosecond),
    do(Tracee, fun() -> stop_schedulers(20) end),
    End = erlang:monotonic_time(nanosecond),
    _ = erlang:system_flag(min_heap_size, element(2, erlang:system_info(min_heap_size))),
    do(Tracee, fun() -> ok end),
    [{debug_block, #{start := Start, duration := Duration, missed := 0}}, {min_heap_size, #{start := Next, missed := 0}}] =
        stops(told(Tracee)),
    ?assert(Begin =< Start andalso Start + Duration =< End andalso Duration >= 20000000),
    ?assert(Next >= Start + Duration),
    true = trace:session_destroy(S),
    stop(Tracee).

%% Each session gets each stop once, however many processes it traces, and before other events of
%% the first process that is scheduled.
stopped_once(_Config) ->
    Tracees = [spawn_link(fun erts_worker:worker/0) || _ <- lists:seq(1, 10)],
    Ss = [session_of(Tracees) || _ <- "ab"],
    [do(P, fun() -> ok end) || P <- Tracees],
    [[] = stops(told(P)) || P <- Tracees],
    stop_schedulers(1),
    [do(P, fun() -> ok end) || P <- Tracees],
    Told = lists:append([told(P) || P <- Tracees]),
    ?assertMatch([{debug_block, _}, {debug_block, _}], stops(Told)),
    ?assertMatch({trace, stopped, _, debug_block, _}, hd(Told)),
    [true = trace:session_destroy(S) || S <- Ss],
    [stop(P) || P <- Tracees].

%% Only the last 16 are remembered.
stopped_missed(_Config) ->
    Tracee = spawn_link(fun erts_worker:worker/0),
    S = session_of([Tracee]),
    [begin
         do(Tracee, fun() -> ok end),
         true = erlang:suspend_process(Tracee),
         told(Tracee),
         [stop_schedulers(1) || _ <- lists:seq(1, N)],
         true = erlang:resume_process(Tracee),
         do(Tracee, fun() -> ok end),
         [First | _] = Missed = [M || {debug_block, #{missed := M}} <- stops(told(Tracee))],
         ?assertEqual({N, N}, {N, length(Missed) + First}),
         ?assertEqual({N, max(0, N - 16), 0}, {N, First, lists:sum(tl(Missed))})
     end || N <- [15, 16, 17, 40]],
    true = trace:session_destroy(S),
    stop(Tracee).

%% Stops before the session was created are not reported.
stopped_before(_Config) ->
    stop_schedulers(1),
    Tracee = spawn_link(fun erts_worker:worker/0),
    S = session_of([Tracee]),
    do(Tracee, fun() -> ok end),
    ?assertEqual([], stops(told(Tracee))),
    true = trace:session_destroy(S),
    stop(Tracee).

%% Tracers without the flag, and tracees without the trace flag running.
stopped_not_asked(_Config) ->
    Tracee = spawn_link(fun erts_worker:worker/0),
    Ss = [session(Tracer, Flags, [Tracee]) || {Tracer, Flags} <- [{?RAW1, [running]}, {?RAW2, [running]}, {?MORE, [send, 'receive']}]],
    stop_schedulers(1),
    do(Tracee, fun() -> ok end),
    ?assertEqual([], stops(told(Tracee))),
    [true = trace:session_destroy(S) || S <- Ss],
    stop(Tracee).

%% Processes on all schedulers run while some of them stop the others. In each session, what is
%% reported and what was missed add up to what the runtime counts.
stopped_under_load(_Config) ->
    N = 8,
    Self = self(),
    Workers = [spawn_link(fun erts_worker:worker/0) || _ <- lists:seq(1, N)],
    Collectors = [spawn_link(fun() -> collect_stops([]) end) || _ <- "ab"],
    Before = stop_count(),
    Ss = [trace:session_create(?MODULE, {?MORE, {trace, trace, C, none}}, []) || C <- Collectors],
    [1 = trace:process(S, W, true, [running]) || S <- Ss, W <- Workers],
    Work = fun() ->
                   [begin
                        [P ! {x, self()} || P <- Workers],
                        [receive {x, P} -> ok end || P <- Workers],
                        I rem 10 =:= 0 andalso stop_schedulers(0)
                    end || I <- lists:seq(1, 300)]
           end,
    [W ! {do, Work, Self} || W <- Workers],
    [receive {done, W} -> ok end || W <- Workers],
    [do(W, fun() -> ok end) || W <- Workers],
    [true = trace:session_destroy(S) || S <- Ss],
    After = stop_count(),
    Ref = erlang:trace_delivered(all),
    receive {trace_delivered, all, Ref} -> ok end,
    ?assert(After - Before >= N * 30),
    [begin
         C ! {get, Self},
         Stops = receive {C, Got} -> Got end,
         ?assertEqual(After - Before, length(Stops) + lists:sum([M || #{missed := M} <- Stops])),
         Starts = [Start || #{start := Start} <- Stops],
         ?assertEqual(length(Starts), length(lists:usort(Starts)))
     end || C <- Collectors],
    [stop(W) || W <- Workers].

collect_stops(Stops) ->
    receive
        {trace, stopped, _, _, Options} -> collect_stops([Options | Stops]);
        {get, From} -> From ! {self(), Stops};
        _ -> collect_stops(Stops)
    end.

stop_count() ->
    lists:sum(maps:values(erlang:system_info(kymo_blocking))).

%% Stops the schedulers for so many milliseconds.
stop_schedulers(0) ->
    _ = erlang:system_flag(min_heap_size, element(2, erlang:system_info(min_heap_size))),
    ok;
stop_schedulers(Ms) ->
    _ = erts_debug:set_internal_state(block, Ms),
    ok.

%%--------------------------------------------------------------------------
%% Sizes of a garbage collection

%% The numbers are those that a process gets for the same collections, and nobody is asked before.
sizes(_Config) ->
    {Plain, Raw} = collections(?MORE),
    ?assertMatch([_, _, _, _ | _], Plain),
    ?assertEqual(Plain, [{Tag, none, maps:get(sizes, Options)} || {Tag, 0, Options} <- Raw]).

%% Without the flag there is a list, as in the behaviour.
sizes_not_asked(_Config) ->
    {Plain, Raw} = collections(?RAW2),
    ?assertMatch([_, _, _, _ | _], Plain),
    ?assertEqual(Plain, [{Tag, enabled, [N || {_, N} <- Sizes]} || {Tag, Sizes, Options} <- Raw, Options =:= #{}]).

%% A process that exceeds its limit is reported with a list, which has other numbers.
sizes_of_limit(_Config) ->
    {Plain, Raw} = collections(?MORE, fun() ->
                                              Limit = #{size => 1000, kill => false, error_logger => false},
                                              process_flag(max_heap_size, Limit),
                                              length(lists:seq(1, 5000))
                                      end),
    [_ | _] = Expected = [Sizes || {gc_max_heap_size, _, Sizes} <- Plain],
    ?assertEqual(Expected, [[N || {_, N} <- List] || {gc_max_heap_size, List, Options} <- Raw, Options =:= #{}]).

collections(Tracer) ->
    collections(Tracer, fun() ->
                                _ = lists:seq(1, 1000),
                                garbage_collect(),
                                garbage_collect(self(), [{type, minor}])
                        end).

collections(Tracer, Fun) ->
    Self = self(),
    Tracee = spawn_link(fun erts_worker:worker/0),
    Ss = [trace:session_create(?MODULE, T, []) || T <- [Self, {Tracer, {trace, trace, Self, Self}}]],
    [1 = trace:process(S, Tracee, true, [garbage_collection]) || S <- Ss],
    do(Tracee, Fun),
    Told = told(Tracee),
    [true = trace:session_destroy(S) || S <- Ss],
    stop(Tracee),
    Asked = case [Tag || {asked, raw_enabled, Tag} <- Told] of
                [] -> none;
                _ -> enabled
            end,
    {[{Tag, Asked, [N || {_, N} <- Sizes]} || {trace, P, Tag, Sizes} <- Told, P =:= Tracee],
     [{Tag, Term, Options} || {trace, Tag, P, Term, Options} <- Told, P =:= Tracee]}.

session_of(Tracees) ->
    session(?MORE, [running], Tracees).

session(Tracer, Flags, Tracees) ->
    S = trace:session_create(?MODULE, {Tracer, {trace, trace, self(), none}}, []),
    [1 = trace:process(S, P, true, Flags) || P <- Tracees],
    S.

stops(Told) ->
    [{Cause, Options} || {trace, stopped, _, Cause, Options} <- Told].

%%--------------------------------------------------------------------------
%% Helpers

schedulers() ->
    erlang:system_info(schedulers_online).

trace(Tracee, Flags) ->
    trace(?RAW2, Tracee, Flags).

trace(Tracer, Tracee, Flags) ->
    1 = erlang:trace(Tracee, true, [{tracer, Tracer, {trace, trace, self(), none}} | Flags]),
    ok.

%% The reasons for which a worker was scheduled out, from waiting for work until it has done the
%% work. Signals may make it run in between, after which it waits again.
reasons(Fun) ->
    Tracee = spawn_link(fun erts_worker:worker/0),
    settle(Tracee),
    do(Tracee, Fun),
    Told = told(Tracee),
    stop(Tracee),
    out_reasons(Told).

%% Traces it, and waits until it is idle and the events of that have been received.
settle(Tracee) ->
    trace(Tracee, [running]),
    do(Tracee, fun() -> ok end),
    wait_status(Tracee, waiting),
    told(Tracee).

out_reasons(Told) ->
    [R || {trace, out, _, _, #{out_reason := R}} <- Told].

wait_waiting(Pid) ->
    wait_status(Pid, waiting).

wait_status(Pid, Status) ->
    case process_info(Pid, status) of
        {status, Status} -> ok;
        {status, _} -> erlang:yield(), wait_status(Pid, Status)
    end.

wait_dead(Pid) ->
    Ref = monitor(process, Pid),
    receive {'DOWN', Ref, process, Pid, _} -> ok end.
