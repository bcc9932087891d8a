%% SPDX-License-Identifier: Apache-2.0
%%
%% Concurrent programs of erts_diff_SUITE, of which only invariants are known. Callers call and send
%% at their own pace, while disturbers load, delete and purge other modules, set and clear patterns,
%% trace flags and sessions, and start processes that end.
-module(erts_diff_chaos).

-export([run/1]).

-define(CALLS, 300).

%% What does not hold, as a list.
run(Seed) ->
    rand:seed(exsss, {Seed, 31, 7}),
    {ok, Code} = application:get_env(erts_diff_run, code),
    {module, d1} = code:load_binary(d1, "none", maps:get({d1, 1}, Code)),
    Sink = spawn(fun() -> sink(#{}) end),
    Tracer = spawn(erts_diff_worker, tracer, []),
    %% d1 stays, and its functions are counted.
    1 = erlang:trace_pattern({d1, b, 1}, true, [local, call_count]),
    Callers = [spawn(fun() -> caller(Sink) end) || _ <- lists:seq(1, 2 + rand:uniform(4))],
    [erlang:trace(Pid, true, [call, send, {tracer, Tracer}]) || Pid <- Callers],
    Disturbers = [spawn(fun() -> disturber({Seed, N}, Code) end) || N <- lists:seq(1, 1 + rand:uniform(3))],
    [Pid ! {go, self()} || Pid <- Callers],
    [receive {done, Pid} -> ok end || Pid <- Callers],
    [begin
         Monitor = monitor(process, Pid),
         Pid ! stop,
         receive {'DOWN', Monitor, process, Pid, Reason} -> Reason end
     end || Pid <- Disturbers],
    Wrong = wrong(Callers, Sink, Tracer),
    erlang:trace(all, false, [all]),
    erlang:trace_pattern({'_', '_', '_'}, false, [local, call_count, call_time]),
    [exit(Pid, kill) || Pid <- [Sink, Tracer | Callers]],
    [begin code:purge(M), code:delete(M), code:purge(M) end || M <- erts_diff_modules:names()],
    Wrong.

wrong(Callers, Sink, Tracer) ->
    N = ?CALLS * length(Callers),
    Refs = [erlang:trace_delivered(Pid) || Pid <- Callers],
    [receive {trace_delivered, _, Ref} -> ok end || Ref <- Refs],
    Traced = erts_diff_worker:flush(Tracer),
    Sink ! {received, self()},
    Received = receive {received, R} -> R end,
    Calls = [Pid || {trace, Pid, call, {d1, b, [_]}} <- Traced],
    Sends = [{Pid, I} || {trace, Pid, send, {sent, Pid, I}, _} <- Traced],
    Each = [{Pid, I} || Pid <- Callers, I <- lists:seq(1, ?CALLS)],
    [{Name, Expected, Got} || {Name, Expected, Got} <- [
        {counted, {call_count, N}, erlang:trace_info({d1, b, 1}, call_count)},
        {calls, lists:sort(Callers), lists:usort(Calls)},
        {calls, N, length(Calls)},
        {sends, lists:sort(Each), lists:sort(Sends)},
        {received, lists:sort([{Pid, lists:seq(1, ?CALLS)} || Pid <- Callers]), lists:sort(Received)},
        {answers, [pong || _ <- Callers], [ping(Pid) || Pid <- Callers]}
    ], Expected =/= Got].

ping(Pid) ->
    Pid ! {ping, self()},
    receive {pong, Pid} -> pong after 20000 -> none end.

caller(Sink) ->
    receive {go, From} -> ok end,
    [begin
         {1, _} = d1:a(I),
         Sink ! {sent, self(), I},
         I rem 32 =:= 0 andalso erlang:garbage_collect()
     end || I <- lists:seq(1, ?CALLS)],
    From ! {done, self()},
    answer().

answer() ->
    receive {ping, From} -> From ! {pong, self()}, answer() end.

%% The numbers that each has sent, in the order in which they came.
sink(Got) ->
    receive
        {sent, From, I} -> sink(maps:update_with(From, fun(L) -> [I | L] end, [I], Got));
        {received, To} -> To ! {received, [{Pid, lists:reverse(L)} || {Pid, L} <- maps:to_list(Got)]}, sink(Got)
    end.

disturber(Seed, Code) ->
    rand:seed(exsss, {erlang:phash2(Seed), 17, 3}),
    disturb(Code).

disturb(Code) ->
    try disturbance(rand:uniform(9), Code)
    catch error:_ -> refused
    end,
    receive stop -> ok after 0 -> disturb(Code) end.

disturbance(1, Code) -> code:load_binary(d2, "none", maps:get({d2, rand:uniform(3)}, Code));
disturbance(2, _) -> code:purge(d2);
disturbance(3, _) -> code:delete(d2);
disturbance(4, Code) -> code:load_binary(d3, "none", maps:get({d3, rand:uniform(6)}, Code));
disturbance(5, _) ->
    On = rand:uniform(2) =:= 1,
    erlang:trace_pattern({d2, '_', '_'}, On, [local]),
    erlang:trace_pattern({d3, b, 1}, On, [call_count]);
disturbance(6, _) ->
    %% One of the same module.
    erlang:trace_pattern({d1, l, 1}, rand:uniform(2) =:= 1, [local, call_time]);
disturbance(7, _) ->
    {Pid, Monitor} = spawn_monitor(fun() -> d2:a(1) end),
    erlang:trace(Pid, true, [procs]),
    receive {'DOWN', Monitor, process, Pid, _} -> ok end;
disturbance(8, _) ->
    Tracer = spawn(erts_diff_worker, tracer, []),
    try
        Session = trace:session_create(chaos, Tracer, []),
        trace:function(Session, {d1, b, 1}, true, [local, call_count]),
        trace:process(Session, self(), true, [call]),
        trace:session_destroy(Session)
    after
        exit(Tracer, kill)
    end;
disturbance(9, _) ->
    erlang:trace_info({d1, b, 1}, all).
