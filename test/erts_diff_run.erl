%% SPDX-License-Identifier: Apache-2.0
%%
%% Runs a program of erts_diff_SUITE in this node, and returns what it observed.
%%
%% A program is a list of {Id, Operation}:
%%   {driver, M, F, Args}       the driver calls M:F
%%   {worker, P, [{M, F, Args}]} the worker P does
%%   {worker, P, Command}       a command of erts_diff_worker
%%   {spawn, P, Options}        P, or the driver, starts the next worker
%%   {session, Name, T, Options} creates a trace session
%%   {renew, T}                 kills a tracer and starts another in its place
%%   dump                       all that can be asked about processes and functions
%% In arguments {'$p', N} is the Nth worker, {'$t', N} a tracer, {'$s', Name} a session,
%% {'$code', M, V} the code of a version of a module, {'$v', Id} the result of an operation.
-module(erts_diff_run).

-export([program/2, prepare/1]).

-record(s, {code,
            workers = #{} :: #{pos_integer() => pid()},
            monitors = #{} :: #{reference() => pos_integer()},
            tracers = #{} :: #{pos_integer() => pid()},
            sessions = #{},
            values = #{},
            others = processes() :: [pid()],
            names = erts_diff_norm:new()}).

%% The time that a program may take on a busy machine.
-define(SECONDS, 40).
-define(TRACERS, [1, 2, 3]).
-define(NAMES, [n1, n2]).
-define(TABLES, [e1, e2]).

%% Before the first program, with the code of the modules: erts_diff_modules:binaries/0.
prepare(Code) ->
    %% Reports of errors would go into the channel of the node.
    logger:set_primary_config(level, none),
    _ = [code:ensure_loaded(M) || M <- [erts_diff_worker, erts_diff_norm, erts_diff_modules, erl_erts_errors,
                                        erl_kernel_errors, seq_trace, ets, trace]],
    application:set_env(?MODULE, code, Code).

%% [{Id, Result, Events, Deaths}]. With a fault, some of what is observed is left out: see perturbed/2.
program(Program, Fault) ->
    {ok, Code} = application:get_env(?MODULE, code),
    {Driver, Monitor} = spawn_monitor(fun() -> exit({observed, driver(Program, Code, Fault)}) end),
    receive
        {'DOWN', Monitor, process, Driver, {observed, Observed}} -> Observed;
        {'DOWN', Monitor, process, Driver, Reason} -> exit({driver_failed, Reason})
    after ?SECONDS * 1000 ->
        exit({hangs, process_info(Driver, [dictionary, current_stacktrace])})
    end.

driver(Program, Code, Fault) ->
    S0 = lists:foldl(fun new_tracer/2, #s{code = Code,
                                          names = erts_diff_norm:name(self(), driver, erts_diff_norm:new())},
                     ?TRACERS),
    {Observed, S} = lists:mapfoldl(fun({Id, Op}, S1) -> observe(Id, Op, S1) end, S0, Program),
    clean(S),
    perturbed(Observed, Fault).

observe(Id, Op, S) ->
    put(operation, {Id, Op}),
    {Result, S1} = do(Id, Op, S),
    seq_trace:set_token([]),
    untrace(S1),
    settle(S1, erlang:monotonic_time(millisecond) + 20000),
    ping(S1),
    delivered(S1),
    {Deaths, S2} = deaths(S1),
    {Events, Names} = lists:mapfoldl(fun(T, N) ->
        {E, N1} = erts_diff_norm:events(erts_diff_worker:flush(maps:get(T, S2#s.tracers)), N),
        {{T, E}, N1}
    end, S2#s.names, ?TRACERS),
    {{Id, Result, [E || {_, L} = E <- Events, L =/= []], Deaths}, S2#s{names = Names}}.

%% Operations

do(Id, {driver, M, F, Args}, S) ->
    Result = try {ok, apply(M, F, resolve(Args, S))}
             catch C:R:Stack -> {C, R, Stack}
             end,
    shown(M, F, Result, keep(Id, Result, S));
do(Id, {worker, P, Command}, S) ->
    with_worker(P, S, fun(Pid) ->
        case erts_diff_worker:call(Pid, resolve(Command, S)) of
            Results when is_list(Results) ->
                lists:mapfoldl(fun({{M, F, _}, R}, S1) -> shown(M, F, R, keep(Id, R, S1)) end, S,
                               lists:zip(Command, Results));
            Result ->
                {Result, S}
        end
    end);
do(_, {spawn, driver, Options}, S) ->
    started(erts_diff_worker:spawn_child(Options), S);
do(_, {spawn, P, Options}, S) ->
    with_worker(P, S, fun(Pid) ->
        case erts_diff_worker:call(Pid, [{erts_diff_worker, spawn_child, [Options]}]) of
            [{ok, Child}] -> started(Child, S);
            [{C, R, _}] -> {{C, R}, S};
            died -> {died, S}
        end
    end);
do(_, {session, Name, T, Options}, S) ->
    try trace:session_create(Name, resolve(T, S), Options) of
        Session ->
            Names = erts_diff_norm:name(Session, {session, Name}, S#s.names),
            {created, S#s{sessions = (S#s.sessions)#{Name => Session}, names = Names}}
    catch C:R -> {{C, R}, S}
    end;
do(_, {renew, T}, S) ->
    stop([maps:get(T, S#s.tracers)]),
    {renewed, new_tracer(T, S)};
do(_, dump, S) ->
    dump(S).

new_tracer(T, S) ->
    Pid = spawn(erts_diff_worker, tracer, []),
    S#s{tracers = (S#s.tracers)#{T => Pid}, names = erts_diff_norm:name(Pid, {tracer, T}, S#s.names)}.

started({Child, _}, S) ->
    started(Child, S);
started(Child, #s{workers = Workers, monitors = Monitors} = S) ->
    N = maps:size(Workers) + 1,
    {started, S#s{workers = Workers#{N => Child}, monitors = Monitors#{monitor(process, Child) => N},
                  names = erts_diff_norm:name(Child, {worker, N}, S#s.names)}}.

%% A worker that is suspended would not answer.
with_worker(P, #s{workers = Workers} = S, Do) ->
    case Workers of
        #{P := Pid} ->
            case able(Pid) of
                true -> Do(Pid);
                false -> {not_able, S}
            end;
        _ ->
            {no_worker, S}
    end.

able(Pid) ->
    case process_info(Pid, status) of
        undefined -> false;
        {status, suspended} -> false;
        _ -> true
    end.

keep(Id, {ok, Value}, S) when is_reference(Value); is_pid(Value); is_function(Value); is_tuple(Value) ->
    S#s{values = (S#s.values)#{Id => Value}};
keep(_, _, S) ->
    S.

shown(M, F, Result, S) ->
    {Shown, Names} = erts_diff_norm:result(M, F, Result, S#s.names),
    {Shown, S#s{names = Names}}.

%% A symbol that names nothing stays as it is.
resolve({'$p', N} = T, S) -> maps:get(N, S#s.workers, T);
resolve({'$t', N} = T, S) -> maps:get(N, S#s.tracers, T);
resolve({'$s', Name} = T, S) -> maps:get(Name, S#s.sessions, T);
resolve({'$v', Id} = T, S) -> maps:get(Id, S#s.values, T);
resolve({'$code', M, V}, S) -> maps:get({M, V}, S#s.code);
resolve([H | T], S) -> [resolve(H, S) | resolve(T, S)];
resolve(T, S) when is_tuple(T) -> list_to_tuple(resolve(tuple_to_list(T), S));
resolve(T, S) when is_map(T) -> maps:from_list(resolve(maps:to_list(T), S));
resolve(T, _) -> T.

%% Synchronisation

%% Tracers that trace each other never end, and the driver does what is not part of the program.
untrace(S) ->
    [begin
         try erlang:trace(Pid, false, [all]) catch error:badarg -> not_there end,
         [try trace:process(Session, Pid, false, [all]) catch error:badarg -> not_there end
          || Session <- maps:values(S#s.sessions)]
     end || Pid <- [self() | maps:values(S#s.tracers)]].

%% Waits until all effects of processes that have ended are there: their links and monitors are gone,
%% their names free, and their tables deleted or inherited; also of those that workers have started
%% to execute a function, which end by themselves.
settle(S, Deadline) ->
    Workers = maps:values(S#s.workers),
    Alive = [Pid || Pid <- Workers, is_process_alive(Pid)],
    case ((processes() -- S#s.others) -- Workers) -- maps:values(S#s.tracers) =:= [] andalso settled(Alive) of
        true ->
            ok;
        false ->
            erlang:monotonic_time(millisecond) < Deadline orelse exit(never_settled),
            erlang:yield(),
            settle(S, Deadline)
    end.

settled(Alive) ->
    lists:all(fun(Pid) ->
        case process_info(Pid, [links, monitors, monitored_by]) of
            undefined ->
                false;
            Items ->
                lists:all(fun there/1, [case I of {process, P} -> P; P -> P end || {_, L} <- Items, I <- L])
        end
    end, Alive)
        andalso lists:all(fun there/1, [whereis(N) || N <- ?NAMES] ++ [ets:info(T, owner) || T <- ?TABLES]).

there(Pid) when is_pid(Pid) -> is_process_alive(Pid);
there(_) -> true.

%% Each worker has handled what it was sent.
ping(S) ->
    [erts_diff_worker:call(Pid, []) || {_, Pid} <- lists:sort(maps:to_list(S#s.workers)), able(Pid)].

delivered(S) ->
    Refs = [Ref || Pid <- maps:values(S#s.workers), Ask <- [fun() -> erlang:trace_delivered(Pid) end
                | [fun() -> trace:delivered(Session, Pid) end || Session <- maps:values(S#s.sessions)]],
            Ref <- try [Ask()] catch _:_ -> [] end],
    [receive {trace_delivered, _, Ref} -> ok end || Ref <- Refs],
    ok.

deaths(#s{monitors = Monitors} = S) ->
    receive
        {'DOWN', Ref, process, _, Reason} when is_map_key(Ref, Monitors) ->
            {N, Rest} = maps:take(Ref, Monitors),
            {Shown, Names} = erts_diff_norm:term(Reason, S#s.names),
            {Deaths, S1} = deaths(S#s{monitors = Rest, names = Names}),
            {lists:keysort(1, [{N, Shown} | Deaths]), S1}
    after 0 ->
        %% Of each process that has ended, the message is there or on its way.
        case [N || N <- maps:values(Monitors), not is_process_alive(maps:get(N, S#s.workers))] of
            [] ->
                {[], S};
            _ ->
                erlang:yield(),
                deaths(S)
        end
    end.

%% All that can be asked

dump(S) ->
    Items = [registered_name, links, monitors, monitored_by, trap_exit, priority, dictionary, group_leader, messages,
             message_queue_len, message_queue_data, initial_call, current_function, catchlevel, suspending, status,
             fullsweep_after, min_heap_size, max_heap_size, min_bin_vheap_size, sequential_trace_token],
    Calls = [{erlang, process_info, [Pid, Items]} || Pid <- pids(S), is_process_alive(Pid)]
        ++ [{erlang, trace_info, [Subject, Item]} || {Subject, Item} <- subjects(S)]
        ++ [{trace, info, [Session, Subject, Item]} || {_, Session} <- lists:sort(maps:to_list(S#s.sessions)),
                                                       {Subject, Item} <- subjects(S)]
        ++ [{erlang, check_old_code, [M]} || M <- erts_diff_modules:names()]
        ++ [{erlang, check_process_code, [Pid, M]} || Pid <- pids(S), able(Pid), M <- erts_diff_modules:names()],
    lists:mapfoldl(fun({M, F, Args}, S1) ->
        Result = try {ok, apply(M, F, Args)} catch C:R -> {C, R, []} end,
        {Call, Names} = erts_diff_norm:term({M, F, Args}, S1#s.names),
        {Shown, S2} = shown(M, F, Result, S1#s{names = Names}),
        {{Call, Shown}, S2}
    end, S, Calls).

pids(S) -> [Pid || {_, Pid} <- lists:sort(maps:to_list(S#s.workers))].

subjects(S) ->
    [{Pid, Item} || Pid <- pids(S), Item <- [flags, tracer]]
        ++ [{new_processes, flags}, {send, match_spec}, {'receive', match_spec}, {on_load, all}]
        ++ [{{M, F, A}, all} || M <- erts_diff_modules:names(),
                                {F, A} <- [{v, 0}, {a, 1}, {b, 1}, {l, 1}, {t, 1}, {e, 1}, {stay, 1}, {gone, 1}]]
        ++ [{{lists, reverse, 2}, Item} || Item <- [traced, match_spec, meta]].

%% Leaves the node as it was.
clean(#s{sessions = Sessions} = S) ->
    [try trace:session_destroy(Session) catch _:_ -> ok end || Session <- maps:values(Sessions)],
    erlang:trace(all, false, [all]),
    [try erlang:trace_pattern(What, false, [Kind]) catch error:badarg -> no_such_kind end
     || What <- [{'_', '_', '_'}, on_load], Kind <- [global, local, meta, call_count, call_time, call_memory]],
    [erlang:trace_pattern(E, true, []) || E <- [send, 'receive']],
    seq_trace:reset_trace(),
    seq_trace:set_system_tracer(false),
    erlang:system_monitor(undefined),
    erlang:system_profile(undefined, []),
    stop(maps:values(S#s.workers) ++ maps:values(S#s.tracers)),
    [begin code:purge(M), code:delete(M), code:purge(M) end || M <- erts_diff_modules:names()],
    [persistent_term:erase(K) || K <- [k1, k2]],
    ok.

stop(Pids) ->
    Monitors = [monitor(process, Pid) || Pid <- Pids],
    [exit(Pid, kill) || Pid <- Pids],
    [receive {'DOWN', M, process, _, _} -> ok end || M <- Monitors].

%% What a faulty runtime would do: leave out the results of functions that return after a throw.
perturbed(Observed, none) ->
    Observed;
perturbed(Observed, no_exceptions) ->
    [{Id, Result, [{T, without_exceptions(E)} || {T, E} <- Events], Deaths} || {Id, Result, Events,
                                                                                Deaths} <- Observed].

without_exceptions(dead) -> dead;
without_exceptions(Events) ->
    [{Tracee, [M || M <- L, element(3, M) =/= exception_from]} || {Tracee, L} <- Events].
