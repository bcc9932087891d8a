%% SPDX-License-Identifier: Apache-2.0
%%
%% The cost of an event to the traced process until the tracer has it, on an unpatched and a
%% patched runtime in alternating rounds: processor time, words of the tracee's heap, and
%% instructions.
-module(event_bench).

-export([main/0, worker/0, count/0, kinds/0, callee/1, counted/1]).

-define(EVENTS, 100000).
-define(COUNTED, 20000).

%% Two schedulers count calls in slices that begin at the same time. Slices are so short that
%% most end before another program gets one of the processors.
-define(SLICES, 1000).
-define(SLICE, 2000).

%% {Kind, description, events per iteration of its loop, kind with the same costs except for
%% events, target}. The target limits the ratio of the patched runtime's cost to the stock
%% runtime's, per event and without the cost of the loop; or the nanoseconds on the patched
%% runtime; or, there, the ratio to the cost of another kind. kymo gets raw events on the patched runtime; it is compared with a NIF that does
%% nothing on the stock runtime. So is a call that is measured, but not slow: the stock runtime
%% needs events of the call and of its return to find that out.
kinds() ->
    [{call_untraced, "call, not traced", 1, none, none},
     {call_other, "call, breakpoint, other process traced", 1, call_untraced, 0.5},
     {call_discard, "call, NIF discards", 1, call_untraced, 0.2},
     {call_null, "call, NIF returns at once", 1, call_untraced, 0.25},
     {call_arguments, "call with arguments, same NIF", 1, call_untraced, none},
     {call_spec, "call, match spec that answers true", 1, call_untraced, none},
     {call_return, "call and return_from, same NIF", 2, call_untraced, none},
     {call_return_to, "call and return_to, same NIF", 2, call_untraced, none},
     {call_meta, "call, meta trace, same NIF", 1, call_untraced, none},
     {call_slow, "call, not slow (stock: call and return_from)", 1, call_untraced, {ns, 30}},
     {call_kymo_discard, "call, kymo, discard (stock: the NIF)", 1, call_untraced, 0.2},
     {call_kymo_overwrite, "call, kymo, overwrite (stock: the NIF)", 1, call_untraced, {ns, 20}},
     {call_kymo_unwanted, "call, kymo, not recorded (stock: the NIF)", 1, call_untraced, {ns, 8}},
     {call_return_kymo, "call and return_from, kymo, discard", 2, call_untraced, {of_kind, call_return, 1.4}},
     {call_return_to_kymo, "call and return_to, kymo, discard", 2, call_untraced, {of_kind, call_return_to, 1.4}},
     {call_process, "call, to a process", 1, call_untraced, 1.0},
     {send_untraced, "send, not traced", 1, none, none},
     {send_null, "send, NIF returns at once", 1, send_untraced, 1 / 3},
     {send_kymo, "send, kymo, discard (stock: the NIF)", 1, send_untraced, {of_kind, call_kymo_discard, 1.5}},
     {send_process, "send, to a process", 1, send_untraced, 1.0},
     {send_request_untraced, "send of a gen_server's request, not traced", 1, none, none},
     {send_request_kymo, "the same, kymo, discard (stock: the NIF)", 1, send_request_untraced, none},
     {receive_null, "receive, NIF returns at once", 1, send_untraced, 1 / 3},
     {receive_kymo, "receive and taken, kymo, discard", 2, send_untraced, {of_kind, call_kymo_discard, 1.5}},
     {send_messages_kymo, "send and receive, kymo, discard (stock: the NIF)", 1, send_untraced, none},
     {send_taken_kymo, "the same and taken, kymo, discard (stock: the NIF)", 1, send_untraced, none},
     {yield_untraced, "yield, not traced", 1, none, none},
     {running_null, "running, NIF returns at once", 2, yield_untraced, 1 / 3},
     {running_kymo, "running, kymo, discard (stock: the NIF)", 2, yield_untraced, {of_kind, running_null, 1.4}},
     {gc_untraced, "collection, not traced", 1, none, none},
     {gc_null, "collection, NIF returns at once", 2, gc_untraced, 1 / 3},
     {gc_kymo, "collection, kymo, discard (stock: the NIF)", 2, gc_untraced, {of_kind, gc_null, 1.4}},
     {spawn_untraced, "spawn and exit, not traced", 1, none, none},
     {spawn_null, "spawn, NIF returns at once", 1, spawn_untraced, none},
     {spawn_kymo, "spawn, kymo, discard (stock: the NIF)", 1, spawn_untraced, {of_kind, spawn_null, 1.4}},
     {spawn_exit_null, "spawn, spawned and exit, NIF returns at once", 3, spawn_untraced, none},
     {spawn_exit_kymo, "spawn, spawned and exit, kymo, discard", 3, spawn_untraced, {of_kind, spawn_exit_null, 1.4}},
     {count, "call, call_count", 1, call_untraced, none}].

%%
%% The driver
%%

%% @doc Entry point of `bench/erts/event_run'. Flags of the command line: `-stock
%% ERL', `-patched ERL', `-out DIR' (where null_tracer is, and the instructions of
%% both as `stock.counts' and `patched.counts'), `-rounds N'. Prints tables and
%% halts with status 1 if a target is missed.
-spec main() -> no_return().
main() ->
    [Stock, Patched, Out] = [flag(F) || F <- [stock, patched, out]],
    Rounds = list_to_integer(flag(rounds)),
    Flags = ["+S 2:2 -pa ", filename:join(Out, "kymo/ebin"), " -out ", Out],
    Workers = [bench_worker:start(Erl, Flags, ?MODULE) || Erl <- [Stock, Patched]],
    Names = [Kind || {Kind, _, _, _, _} <- kinds()],
    [_ | Samples] = [[{Kind, [bench_worker:ask(W, {time, Kind}) || W <- turns(R, Workers)]} || Kind <- Names]
                     || R <- lists:seq(0, 2 * Rounds - 1)],
    Times = [{Kind, medians([proplists:get_value(Kind, S) || S <- Samples], 0)} || Kind <- Names],
    Heap = [{Kind, [bench_worker:ask(W, {heap, Kind}) || W <- Workers]} || Kind <- Names],
    Contended = [[bench_worker:ask(W, contended) || W <- Workers] || _ <- lists:seq(0, Rounds)],
    [bench_worker:stop(W) || W <- Workers],
    Counts = [counts(filename:join(Out, F)) || F <- ["stock.counts", "patched.counts"]],
    io:format("~-42s ~8s ~8s ~6s   ~8s ~8s ~6s   ~7s ~7s~n",
              ["for each event, without the loop", "stock ns", "patched", "p./s.",
               "instr.", "patched", "p./s.", "words", "patched"]),
    Missed = lists:sum([line(K, Times, Counts, Heap) || K <- kinds()]),
    halt(min(1, Missed + contended(tl(Contended)))).

turns(_, Workers) -> Workers.

medians(Pairs, Skip) ->
    [median([lists:nth(I, P) || P <- lists:nthtail(Skip, Pairs)]) || I <- [1, 2]].

median(L) ->
    lists:nth((length(L) + 1) div 2, lists:sort(L)).

%% Times are compared where the cost should decrease, and instructions, which do not depend on
%% the load of the machine, where it should not increase.
line({Kind, Text, Events, Base, Target}, Times, Counts, Heap) ->
    [S, P] = net(Kind, Base, Events, fun(K) -> proplists:get_value(K, Times) end),
    [IS, IP] = net(Kind, Base, Events, fun(K) -> [maps:get(K, C, 0.0) || C <- Counts] end),
    [HS, HP] = net(Kind, Base, Events, fun(K) -> proplists:get_value(K, Heap) end),
    Counted = IS > 0,
    {Value, Limit} = case Target of
                         {ns, Ns} -> {P, Ns};
                         {of_kind, Other, Most} -> {P / patched_time(Other, Times), Most};
                         1.0 when Counted -> {IP / IS, Target};
                         _ -> {P / S, Target}
                     end,
    Met = Target =:= none orelse Value =< Limit,
    io:format("~-42s ~8.1f ~8.1f ~6.2f   ~8.1f ~8.1f ~6.2f   ~7.1f ~7.1f  ~s~n",
              [Text, S, P, P / max(S, 0.1), IS, IP, if Counted -> IP / IS; true -> 0.0 end, HS, HP,
               [io_lib:format("~sat most ~.2f ~s", [found(Target, Value), float(Limit), case Met of true -> "met"; false -> "MISSED" end])
                || Target =/= none]]),
    case Met of true -> 0; false -> 1 end.

found({of_kind, Other, _}, Value) -> io_lib:format("~.2f of ~s, ", [Value, Other]);
found(_, _) -> "".

patched_time(Kind, Times) ->
    {_, _, Events, Base, _} = lists:keyfind(Kind, 1, kinds()),
    [_, P] = net(Kind, Base, Events, fun(K) -> proplists:get_value(K, Times) end),
    P.

net(Kind, none, Events, Get) ->
    [V / Events || V <- Get(Kind)];
net(Kind, Base, Events, Get) ->
    [(V - B) / Events || {V, B} <- lists:zip(Get(Kind), Get(Base))].

contended(Samples) ->
    [S, P] = medians(Samples, 0),
    Ratio = median([A / B || [A, B] <- Samples]),
    Met = Ratio >= 4,
    io:format("~ncall_count, two schedulers call one function: stock ~.1f ns a call, "
              "patched ~.1f ns, ~.2f times the calls  at least 4.0 ~s~n",
              [S, P, Ratio, case Met of true -> "met"; false -> "MISSED" end]),
    case Met of true -> 0; false -> 1 end.

counts(File) ->
    case file:consult(File) of
        {ok, Terms} -> maps:from_list([{K, N / ?COUNTED} || {K, N} <- Terms]);
        {error, enoent} -> #{}
    end.

flag(F) ->
    {ok, [[Value]]} = init:get_argument(F),
    Value.

%%
%% The worker
%%

%% @doc A runtime to be measured: serves requests.
-spec worker() -> no_return().
worker() ->
    ok = null_tracer:load(flag(out)),
    bench_worker:serve(fun request/1).

request({time, Kind}) ->
    run(Kind, fun() -> time(Kind) end);
request({heap, Kind}) ->
    run(Kind, fun() -> heap(Kind) end);
request(contended) ->
    1 = erlang:trace_pattern({?MODULE, counted, 1}, true, [call_count]),
    Turns = atomics:new(2, []),
    Workers = [spawn_opt(fun() -> exit({ns, slices(Turns, N, ?SLICES)}) end, [monitor, {scheduler, N}])
               || N <- [1, 2]],
    Times = [receive {'DOWN', Ref, process, Pid, {ns, Ns}} -> median(Ns) end || {Pid, Ref} <- Workers],
    {call_count, N} = erlang:trace_info({?MODULE, counted, 1}, call_count),
    N = 2 * ?SLICES * ?SLICE,
    1 = erlang:trace_pattern({?MODULE, counted, 1}, false, [call_count]),
    lists:max(Times).

%% @doc Entry point of the run under callgrind: runs all kinds one after the other, and counts
%% each separately.
-spec count() -> no_return().
count() ->
    ok = null_tracer:load(flag(out)),
    [run(Kind, fun() ->
                       loop(loop_of(Kind), 100),
                       true = null_tracer:count_from(),
                       loop(loop_of(Kind), ?COUNTED),
                       true = null_tracer:count_to(Kind)
               end) || {Kind, _, _, _, _} <- kinds()],
    halt(0).

run(Kind, Fun) ->
    {Pid, Ref} = spawn_opt(fun() -> receive go -> exit({result, Fun()}) end end,
                           [monitor, {min_heap_size, heap_size(Kind)}, {scheduler, 1}]),
    Undo = trace(Kind, Pid),
    Pid ! go,
    Result = receive {'DOWN', Ref, process, Pid, {result, R}} -> R end,
    Undo(),
    Result.

%% Large enough to avoid collections, or small if each iteration makes one.
heap_size(Kind) ->
    case loop_of(Kind) of
        gc -> 233;
        _ -> 4000000
    end.

time(Kind) ->
    Loop = loop_of(Kind),
    loop(Loop, 1000),
    erlang:garbage_collect(),
    T0 = null_tracer:cpu_time(),
    loop(Loop, ?EVENTS),
    (null_tracer:cpu_time() - T0) / ?EVENTS.

%% Words of garbage per iteration, as measured by the collection that follows.
heap(Kind) ->
    heap_of(loop_of(Kind)).

heap_of(gc) ->
    0.0;
heap_of(Loop) ->
    erlang:garbage_collect(),
    {_, Before, _} = statistics(garbage_collection),
    loop(Loop, 10000),
    erlang:garbage_collect(),
    {_, After, _} = statistics(garbage_collection),
    (After - Before) / 10000.

loop_of(Kind) ->
    case atom_to_list(Kind) of
        "call" ++ _ -> call;
        "count" -> call;
        "send_request" ++ _ -> request;
        "spawn" ++ _ -> spawn;
        "send" ++ _ -> send;
        "receive" ++ _ -> send;
        "yield" ++ _ -> yield;
        "running" ++ _ -> yield;
        "gc" ++ _ -> gc
    end.

loop(_, 0) -> ok;
loop(call, N) ->
    callee(N),
    loop(call, N - 1);
loop(send, N) ->
    self() ! message,
    receive message -> loop(send, N - 1) end;
loop(request, N) ->
    self() ! {'$gen_call', {self(), make_ref()}, message},
    receive {'$gen_call', _, _} -> loop(request, N - 1) end;
loop(yield, N) ->
    erlang:yield(),
    loop(yield, N - 1);
loop(gc, N) ->
    erlang:garbage_collect(self(), [{type, minor}]),
    loop(gc, N - 1);
loop(spawn, N) ->
    {_, Ref} = spawn_opt(fun() -> ok end, [monitor, {scheduler, 1}]),
    receive {'DOWN', Ref, _, _, _} -> loop(spawn, N - 1) end.

callee(N) -> N.

slices(_, _, 0) -> [];
slices(Turns, N, Left) ->
    together(Turns, 3 - N, atomics:add_get(Turns, N, 1)),
    T0 = erlang:monotonic_time(nanosecond),
    calls(?SLICE),
    [(erlang:monotonic_time(nanosecond) - T0) / ?SLICE | slices(Turns, N, Left - 1)].

together(Turns, Other, Turn) ->
    atomics:get(Turns, Other) >= Turn orelse together(Turns, Other, Turn).

calls(0) -> ok;
calls(N) ->
    counted(N),
    calls(N - 1).

counted(N) -> N.

trace(Kind, Pid) ->
    case Kind of
        call_other -> trace(Pid, self(), [call, arity], trace, pattern(true, [local]));
        call_discard -> trace(Pid, Pid, [call, arity], discard, pattern(true, [local]));
        call_null -> trace(Pid, Pid, [call, arity], trace, pattern(true, [local]));
        call_arguments -> trace(Pid, Pid, [call], trace, pattern(true, [local]));
        call_spec -> trace(Pid, Pid, [call, arity], trace, pattern([{'_', [], [true]}], [local]));
        call_return -> trace(Pid, Pid, [call, arity], trace, pattern([{'_', [], [{return_trace}]}], [local]));
        call_return_to -> trace(Pid, Pid, [call, arity, return_to], trace, pattern(true, [local]));
        call_slow -> slow(Pid);
        call_meta -> pattern(true, [{meta, null_tracer, trace}]);
        call_kymo_discard -> to_kymo(discard, Pid, [call, arity], pattern(true, [local]));
        call_kymo_overwrite -> to_kymo(overwrite, Pid, [call, arity], pattern(true, [local]));
        call_kymo_unwanted -> to_kymo(discard, Pid, [call, arity], [send], pattern(true, [local]));
        call_return_kymo -> to_kymo(discard, Pid, [call, arity], pattern([{'_', [], [{return_trace}]}], [local]));
        call_return_to_kymo -> to_kymo(discard, Pid, [call, arity, return_to], pattern(true, [local]));
        call_process -> to_process(Pid, [call, arity], pattern(true, [local]));
        send_null -> trace(Pid, Pid, [send], trace, nothing());
        send_kymo -> to_kymo(discard, Pid, [send], nothing());
        send_request_kymo -> to_kymo(discard, Pid, [send], nothing());
        send_messages_kymo -> to_kymo(discard, Pid, [send, 'receive'], [send, 'receive'], senders());
        send_taken_kymo -> to_kymo(discard, Pid, [send, 'receive'], all, senders());
        send_process -> to_process(Pid, [send], nothing());
        receive_null -> trace(Pid, Pid, ['receive'], trace, nothing());
        receive_kymo -> to_kymo(discard, Pid, ['receive'], nothing());
        running_null -> trace(Pid, Pid, [running], trace, nothing());
        running_kymo -> to_kymo(discard, Pid, [running], nothing());
        gc_null -> trace(Pid, Pid, [garbage_collection], trace, nothing());
        gc_kymo -> to_kymo(discard, Pid, [garbage_collection], nothing());
        spawn_null -> trace(Pid, Pid, [procs], trace, nothing());
        spawn_kymo -> to_kymo(discard, Pid, [procs], nothing());
        spawn_exit_null -> trace(Pid, Pid, [procs, set_on_spawn], trace, nothing());
        spawn_exit_kymo -> to_kymo(discard, Pid, [procs, set_on_spawn], nothing());
        count -> pattern(true, [call_count]);
        _ -> nothing()
    end.

trace(Keep, Pid, Flags, State, Undo) ->
    true = is_process_alive(Keep),
    1 = erlang:trace(Pid, true, [{tracer, null_tracer, State} | Flags]),
    fun() -> erlang:trace(all, false, [all]), Undo() end.

slow(Pid) ->
    Spec = case is_patched() of
               true -> [{'_', [], [{slow, 1000000}]}];
               false -> [{'_', [], [{return_trace}]}]
           end,
    trace(Pid, Pid, [call, arity], trace, pattern(Spec, [local])).

to_kymo(Policy, Pid, Flags, Undo) -> to_kymo(Policy, Pid, Flags, all, Undo).

to_kymo(Policy, Pid, Flags, Tags, Undo) ->
    case is_patched() of
        true -> kymo(Policy, Pid, Flags, Tags, Undo);
        false -> trace(Pid, Pid, Flags, trace, Undo)
    end.

is_patched() ->
    try erlang:system_info(kymo_series) of
        _ -> true
    catch
        error:badarg -> false
    end.

kymo(Policy, Pid, Flags, Tags, Undo) ->
    Dir = filename:join(flag(out), "recording-" ++ integer_to_list(erlang:unique_integer([positive]))),
    {ok, State} = kymo_tracer:open(#{dir => Dir, policy => Policy, memory => 48 bsl 20, events => Tags,
                                     file_size => 64 bsl 20, max_files => 2}),
    #{interface := raw} = kymo_tracer:info(State),
    1 = erlang:trace(Pid, true, [{tracer, kymo_tracer, State} | Flags]),
    fun() -> Undo(), ok = kymo_tracer:stop(State), ok = file:del_dir_r(Dir) end.

to_process(Pid, Flags, Undo) ->
    Tracer = spawn_opt(fun drain/0, [{scheduler, min(2, erlang:system_info(schedulers))},
                                   {min_heap_size, 4000000}]),
    1 = erlang:trace(Pid, true, [{tracer, Tracer} | Flags]),
    fun() -> Undo(), exit(Tracer, kill) end.

drain() ->
    receive _ -> drain() end.

pattern(Spec, Flags) ->
    1 = erlang:trace_pattern({?MODULE, callee, 1}, Spec, Flags),
    fun() -> 1 = erlang:trace_pattern({?MODULE, callee, 1}, false, [F || F <- [hd_flag(F) || F <- Flags]]) end.

%% The match specification for receive that kymo:trace/2 sets by default.
senders() ->
    erlang:trace_pattern('receive', [{['_', '$1', '_'], [], [{message, '$1'}]}], []),
    fun() -> erlang:trace_pattern('receive', true, []) end.

hd_flag({meta, _, _}) -> meta;
hd_flag(Flag) -> Flag.

nothing() -> fun() -> ok end.
