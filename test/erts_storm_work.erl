%% SPDX-License-Identifier: Apache-2.0
%%
%% A storm: processes that each perform one random operation of code loading, tracing or
%% monitoring, and most of which are killed during it, while other processes call what is loaded
%% and traced. Runs in a node of its own; see erts_storm_SUITE.
-module(erts_storm_work).

-export([run/3, undefined_function/3]).

-import(erts_reload_work, [pick/1]).

-define(M, erts_storm_mod).
-define(RAW, event_tracer_raw).
-define(WORKERS, 10).
-define(SESSIONS, [storm_a, storm_b]).
-record(rec, {version, list}).

%% What the operations need.
-record(storm, {
    codes :: [binary()],      % versions of ?M
    raw :: binary(),          % a tracer NIF
    sinks :: [pid()],         % receive the messages of tracers
    targets :: [pid()],       % are traced
    system :: [{atom(), fun(() -> term())}],  % operations of erts_storm_system
    dir :: file:filename()    % where files may be written
}).

%% Returns how often each operation ended in which way, the longest time that it took in
%% milliseconds, how often the hibernating processes have answered, and what the storm has left behind: []
%% if everything is as before. Others: which operations of erts_storm_system take part.
run(Millis, Raw, Others) ->
    process_flag(error_handler, ?MODULE),
    _ = erts_debug:set_internal_state(available_internal_state, true),
    preload(),
    Storm0 = #storm{codes = [code(V) || V <- lists:seq(1, 12)], raw = Raw, dir = ".", system = system(Others),
                    sinks = [spawn(fun sink/0) || _ <- [1, 2]], targets = []},
    Breakpoints = breakpoints(),
    Storm = Storm0#storm{targets = [spawn(fun() -> target(Storm0#storm.sinks) end) || _ <- lists:seq(1, 4)]},
    Sleepers = erts_storm_system:start_sleepers(),
    Online = erlang:system_info(schedulers_online),
    _ = erlang:send_after(Millis, self(), stop),
    {Counts, Live} = supervise(Storm, #{}, #{}),
    Unfinished = finish(Live),
    _ = erlang:system_flag(schedulers_online, Online),
    {Rounds, Stuck} = erts_storm_system:stop_sleepers(Sleepers),
    [stop(P) || P <- Storm#storm.targets ++ Storm#storm.sinks],
    {Counts#{sleepers => Rounds}, Unfinished ++ [{stuck, S} || S <- Stuck] ++ left(Storm, Breakpoints)}.

system({nap, So, Others}) ->
    ok = erts_storm_nap:load(So),
    erts_storm_system:Others().

%% An operation that has not been killed ends, since nothing new begins. What it waits for takes a
%% round of thread progress, or the time of those before it.
finish(Live) when map_size(Live) =:= 0 ->
    [];
finish(Live) ->
    receive
        {disturb, Pid} -> exit(Pid, kill), finish(Live);
        {'DOWN', _, _, Pid, _} -> finish(maps:remove(Pid, Live))
    after 60000 ->
        [{unfinished, Name, process_info(Pid, [current_stacktrace, status])} || {Pid, {Name, _}} <- maps:to_list(Live)]
    end.

%% The code server might have to wait later, so everything is loaded now.
preload() ->
    ok = code:ensure_modules_loaded(
           [trace, seq_trace, instrument, code, code_server, error_handler, io_lib, io_lib_pretty, io_lib_format,
            unicode_util, rand, timer, lists, maps, erts_debug, erts_code_purger, erts_reload_work,
            erts_storm_system, erts_storm_nap]).

%%--------------------------------------------------------------------------
%% Operations and how they end

operations() ->
    [{load, fun load/1}, {load, fun load/1}, {load_raw, fun load_raw/1}, {delete, fun delete/1},
     {delete, fun delete/1}, {funs, fun funs/1}, {literals, fun literals/1},
     {patterns, fun patterns/1}, {patterns, fun patterns/1}, {batch, fun batch/1}, {batch, fun batch/1},
     {legacy, fun legacy/1}, {all, fun all/1}, {info, fun info/1}, {counters, fun counters/1}, {raw, fun raw/1},
     {spawns, fun spawns/1}, {seq, fun seq/1}, {monitor, fun monitor/1}, {memory, fun memory/1},
     {late_port, fun late_port/1}, {late_process, fun late_process/1}, {reports, fun reports/1}, {many_kept, fun many_kept/1}].

supervise(Storm, Counts, Live) when map_size(Live) < ?WORKERS ->
    {Name, Operation} = pick(operations() ++ Storm#storm.system),
    {Pid, _} = spawn_monitor(fun() ->
                                     process_flag(error_handler, ?MODULE),
                                     perform(Operation, Storm)
                             end),
    [erlang:send_after(pick([0, 1, 3, 10, 30, 100, 300]), self(), {disturb, Pid}) || rand:uniform(4) > 1],
    supervise(Storm, Counts, Live#{Pid => {Name, erlang:monotonic_time(millisecond)}});
supervise(Storm, Counts, Live) ->
    receive
        stop ->
            {Counts, Live};
        {disturb, Pid} ->
            disturb(Pid),
            supervise(Storm, Counts, Live);
        {'DOWN', _, _, Pid, Reason} when is_map_key(Pid, Live) ->
            {{Name, Begun}, Left} = maps:take(Pid, Live),
            Key = {Name, case Reason of normal -> done; killed -> killed; _ -> {failed, reason(Reason)} end},
            Took = erlang:monotonic_time(millisecond) - Begun,
            {N, Longest} = maps:get(Key, Counts, {0, 0}),
            supervise(Storm, Counts#{Key => {N + 1, max(Took, Longest)}}, Left)
    end.

perform(Operation, Storm) when is_function(Operation, 1) -> Operation(Storm);
perform(Operation, _) -> Operation().

%% Without the stack trace, so that equal reasons can be counted.
reason({Reason, [_ | _]}) -> Reason;
reason(Reason) -> Reason.

%% Kills it, in some cases after it has been resumed too early.
disturb(Pid) ->
    [begin
         _ = catch erlang:suspend_process(Pid, [asynchronous]),
         catch erlang:resume_process(Pid)
     end || rand:uniform(4) =:= 1],
    exit(Pid, kill).

stop(Pid) ->
    Ref = monitor(process, Pid),
    exit(Pid, kill),
    receive {'DOWN', Ref, _, _, _} -> ok end.

%% {What, Value} for each quantity that is not as it should be. Hangs if a process still holds
%% the code modification permission.
left(Storm, Breakpoints) ->
    _ = erlang:system_monitor(undefined),
    _ = erlang:system_profile(undefined, []),
    _ = seq_trace:set_system_tracer(false),
    erlang:trace(all, false, [all]),
    [erlang:trace_pattern({'_', '_', '_'}, false, [F]) || F <- [global, local, meta, call_count, call_time, call_memory]],
    erlang:trace_pattern(on_load, false, [global]),
    erlang:trace_pattern(on_load, false, [local, meta, call_count, call_time, call_memory]),
    %% The code server has received requests of processes that have been killed, and may be
    %% running an -on_load() function. It loads no other code of that module before this is over.
    [begin
         _ = code:load_binary(M, "", Code),
         unload(M)
     end || {M, Code} <- [{?M, hd(Storm#storm.codes)}, {?RAW, Storm#storm.raw}]],
    wait_for_sessions(),
    %% Hangs if trace messages of a process are kept that nothing will send.
    Delivered = erlang:trace_delivered(all),
    receive {trace_delivered, all, Delivered} -> ok end,
    ok = loads_and_traces(Storm),
    [{breakpoints, breakpoints()} || breakpoints() =/= Breakpoints]
        ++ [{sleeping, P} || P <- [code_server, erts_code_purger], status(P) =/= waiting]
        ++ [{code_server, N} || {message_queue_len, N} <- [process_info(whereis(code_server), message_queue_len)], N > 0]
        ++ [{traced, P, Flags} || P <- processes(), {flags, [_ | _] = Flags} <- [erlang:trace_info(P, flags)]]
        ++ [{traced, What, Ss} || What <- [{erlang, self, 0}, {lists, reverse, 2}, on_load],
                                  [_ | _] = Ss <- [trace:session_info(What)]]
        ++ [{memory_map, Map} || {error, _} = Map <- [map_to_the_end()]].

%% The state of a process after it has done what it was doing.
status(Name) ->
    case process_info(whereis(Name), status) of
        {status, Busy} when Busy =:= running; Busy =:= runnable; Busy =:= garbage_collecting ->
            erlang:yield(),
            status(Name);
        {status, Status} ->
            Status
    end.

breakpoints() ->
    ok = erts_debug:set_internal_state(wait, thread_progress),
    ok = erts_debug:set_internal_state(wait, thread_progress),
    erts_debug:get_internal_state(trace_breakpoints).

%% Sessions whose owners are gone are destroyed once they are no longer referenced.
wait_for_sessions() ->
    {all, Sessions} = {all, trace:session_info(all)},
    case [S || {Name, _} = S <- Sessions, lists:member(Name, ?SESSIONS)] of
        [] ->
            ok;
        _ ->
            [erlang:garbage_collect(P) || P <- processes()],
            wait_for_sessions()
    end.

unload(M) ->
    _ = code:purge(M),
    _ = code:delete(M),
    _ = code:purge(M),
    ok.

loads_and_traces(#storm{codes = [Code | _]}) ->
    {module, ?M} = code:load_binary(?M, "", Code),
    S = trace:session_create(hd(?SESSIONS), self(), []),
    true = trace:function(S, {?M, '_', '_'}, true, [local]) > 0,
    {Pid, Ref} = spawn_monitor(fun() -> receive go -> 1 = ?M:c(1) end end),
    1 = trace:process(S, Pid, true, [call]),
    Pid ! go,
    receive {'DOWN', Ref, _, _, Reason} -> normal = Reason end,
    receive {trace, Pid, call, {?M, c, [1]}} -> ok end,
    true = trace:session_destroy(S),
    unload(?M).

map_to_the_end() ->
    case instrument:memory_map() of
        {ok, Map} -> read_map(Map);
        Other -> Other
    end.

read_map(Map) ->
    case instrument:memory_map_read(Map) of
        {ok, _} -> read_map(Map);
        Other -> Other
    end.

%%--------------------------------------------------------------------------
%% Code loading

load(#storm{codes = Codes}) ->
    Code = pick(Codes),
    case rand:uniform(4) of
        1 ->
            _ = erts_code_purger:soft_purge(?M),
            erlang:finish_loading([erlang:prepare_loading(?M, Code)]);
        2 ->
            _ = erts_code_purger:purge(?M),
            _ = erlang:load_module(?M, Code),
            _ = erlang:check_process_code(self(), ?M);
        _ ->
            _ = code:purge(?M),
            code:load_binary(?M, "", Code)
    end.

load_raw(#storm{raw = Raw}) ->
    _ = code:purge(?RAW),
    _ = code:load_binary(?RAW, "", Raw),
    case rand:uniform(3) of
        1 -> unload(?RAW);
        _ -> ok
    end.

delete(_) ->
    _ = code:purge(?M),
    _ = code:delete(?M),
    code:soft_purge(?M).

%% Funs and literals of code that is purged.
funs(#storm{sinks = Sinks}) ->
    Funs = [catch ?M:makes_fun(I) || I <- lists:seq(1, 20)],
    pick(Sinks) ! {funs, Funs},
    timer:sleep(rand:uniform(5)),
    [catch F(1) || F <- Funs, is_function(F)].

literals(#storm{sinks = Sinks, targets = Targets}) ->
    Kept = [catch ?M:literal() || _ <- lists:seq(1, 10)],
    [P ! {literals, Kept} || P <- [pick(Sinks), pick(Targets)]],
    _ = catch erlang:garbage_collect(pick(Targets), [{async, make_ref()}]),
    timer:sleep(rand:uniform(5)),
    erlang:phash2(Kept).

%%--------------------------------------------------------------------------
%% Tracing

session(Sinks) ->
    trace:session_create(pick(?SESSIONS), pick(Sinks), pick([[], [keep_patterns]])).

%% Half of them are left to the garbage collector.
destroy(S) ->
    case rand:uniform(2) of
        1 -> catch trace:session_destroy(S);
        2 -> ok
    end.

flags() ->
    pick([[local], [global], [meta], [call_count], [call_time], [call_memory], [local, call_time],
          [call_count, call_time, call_memory], [local, meta, call_count, call_time, call_memory]]).

mfa() ->
    pick([{?M, f, 1}, {?M, '_', '_'}, {?M, literal, 0}, {?M, calls, '_'}, {erlang, self, 0}, {lists, reverse, 2},
          {not_loaded, '_', '_'}]).

spec(Flags) ->
    case hd(Flags) =:= local orelse Flags =:= [global] of
        true -> pick([true, [{'_', [], [{return_trace}]}], [{'_', [], [{exception_trace}]}],
                      [{'_', [], [{message, false}]}], [{'_', [], [{trace, [send], [procs]}]}],
                      [{'_', [], [{slow, 0}]}], [{'_', [], [{slow, 100}]}], [{'_', [], [{slow, 1}, {return_trace}]}],
                      [{['$1'], [{is_integer, '$1'}], [{message, {{'$1', {self}}}}]}]]);
        false -> true
    end.

tracee_flags() ->
    pick([[call], [call, return_to], [call, arity], [call, running, garbage_collection],
          [call, send, 'receive'], [procs, set_on_spawn], [procs, set_on_link, send], [running_procs, exiting],
          [call, timestamp], [call, monotonic_timestamp, scheduler_id]]).

patterns(#storm{sinks = Sinks, targets = Targets}) ->
    S = session(Sinks),
    [catch trace:process(S, T, true, tracee_flags()) || T <- Targets],
    [begin
         Flags = flags(),
         catch trace:function(S, mfa(), pick([spec(Flags), spec(Flags), false]), Flags),
         timer:sleep(rand:uniform(4))
     end || _ <- lists:seq(1, 6)],
    _ = catch trace:function(S, on_load, spec([local]), [local]),
    _ = catch trace:send(S, [{'_', [], []}], []),
    _ = catch trace:recv(S, pick([true, false]), []),
    _ = catch trace:delivered(S, pick([all | Targets])),
    destroy(S).

batch(#storm{sinks = Sinks, targets = Targets}) ->
    S = session(Sinks),
    _ = catch trace:process(S, pick(Targets), true, [call]),
    [begin
         Ops = [begin
                    Flags = flags(),
                    {mfa(), pick([spec(Flags), false, true]), Flags}
                end || _ <- lists:seq(1, rand:uniform(150))],
         catch trace:patterns(S, Ops)
     end || _ <- lists:seq(1, 3)],
    _ = catch trace:patterns(S, [{{?M, f, 1}, true, [local]} | improper]),
    _ = catch trace:patterns(S, [{{?M, f, 1}, true, [local]}, {{?M, f, 1}, true, [nonsense]}]),
    destroy(S).

%% In the session that always exists.
legacy(#storm{sinks = Sinks, targets = Targets}) ->
    _ = catch erlang:trace(pick([all, existing, new | Targets]), pick([true, false]),
                           [{tracer, pick(Sinks)} | tracee_flags()]),
    Flags = flags(),
    _ = catch erlang:trace_pattern(pick([on_load, mfa()]), pick([spec(Flags), false]), Flags),
    _ = catch erlang:trace_info(pick(Targets), pick([flags, tracer])),
    catch erlang:trace(all, false, [all]).

all(#storm{sinks = Sinks}) ->
    S = session(Sinks),
    _ = catch trace:process(S, pick([all, existing, new, processes, existing_processes]), true, tracee_flags()),
    _ = catch trace:port(S, pick([all, existing, new]), true, pick([[ports], [send, 'receive', running_ports]])),
    Port = catch open_port({spawn, "true"}, []),
    timer:sleep(rand:uniform(5)),
    _ = catch port_close(Port),
    _ = catch trace:process(S, all, false, pick([[all], [call]])),
    destroy(S).

info(#storm{sinks = Sinks, targets = Targets}) ->
    S = session(Sinks),
    Target = pick(Targets),
    _ = catch trace:process(S, Target, true, tracee_flags()),
    _ = catch trace:info(S, pick([Target, new_processes, new_ports]), pick([flags, tracer])),
    _ = catch trace:info(S, pick([send, 'receive', on_load]), pick([match_spec, all])),
    _ = catch trace:session_info(all),
    _ = catch trace:session_info(pick([{?M, f, 1}, Target])),
    destroy(S).

counters(#storm{sinks = Sinks, targets = Targets}) ->
    S = session(Sinks),
    [catch trace:process(S, T, true, [call]) || T <- Targets],
    _ = catch trace:function(S, {?M, '_', '_'}, true, [call_time, call_memory, call_count]),
    timer:sleep(3),
    [catch trace:info(S, mfa(), pick([all, call_time, call_memory, call_count, traced])) || _ <- lists:seq(1, 5)],
    _ = catch trace:function(S, {?M, '_', '_'}, pick([restart, pause]), [call_time, call_memory, call_count]),
    destroy(S).

%% A tracer NIF that may be unloaded, and that answers at random.
raw(#storm{raw = Raw, sinks = Sinks, targets = Targets}) ->
    _ = erlang:module_loaded(?RAW) orelse code:load_binary(?RAW, "", Raw),
    State = {pick([trace, random, remove]), pick([trace, random]), pick(Sinks ++ [none]), none},
    S = trace:session_create(pick(?SESSIONS), {?RAW, State}, pick([[], [keep_patterns]])),
    [catch trace:process(S, pick([all | Targets]), true, tracee_flags()) || _ <- [1, 2]],
    [begin
         Flags = pick([[local], [global], [meta]]),
         catch trace:function(S, mfa(), spec(Flags), Flags)
     end || _ <- [1, 2]],
    timer:sleep(rand:uniform(5)),
    destroy(S).

spawns(#storm{sinks = Sinks}) ->
    S = session(Sinks),
    _ = catch trace:process(S, self(), true, pick([[procs, set_on_spawn], [procs, set_on_link, send]])),
    [begin
         _ = spawn(calls(fun() -> ?M:f(1) end)),
         _ = spawn_opt(calls(fun() -> ?M:calls(3) end), [link, monitor]),
         spawn_request(calls(fun() -> ?M:f(2) end), [monitor])
     end || _ <- lists:seq(1, 50)],
    destroy(S).

seq(#storm{sinks = Sinks, targets = Targets}) ->
    _ = catch seq_trace:set_system_tracer(pick([pick(Sinks), false])),
    seq_trace:set_token(label, 1),
    [seq_trace:set_token(Flag, true) || Flag <- [send, 'receive', print]],
    [T ! {literals, seq} || T <- Targets],
    _ = spawn(fun() -> ok end),
    seq_trace:set_token([]).

%% A port that is closing refers to its session until its output has been flushed.
late_port(#storm{sinks = Sinks}) ->
    S = session(Sinks),
    Port = open_port({spawn, "sleep 1"}, [binary]),
    _ = catch port_command(Port, binary:copy(<<0>>, 500000), [nosuspend]),
    _ = catch trace:port(S, Port, true, [ports]),
    _ = catch port_close(Port),
    destroy(S).

%% So does a process that has left the process table and still has exit signals to send.
late_process(#storm{sinks = Sinks}) ->
    S = session(Sinks),
    Pid = spawn(fun() -> receive stop -> ok end end),
    _ = [monitor(process, Pid) || _ <- lists:seq(1, 10000)],
    _ = catch trace:process(S, Pid, true, tracee_flags()),
    exit(Pid, kill),
    receive {'DOWN', _, _, _, _} -> ok end,
    destroy(S).

%% The system monitor of a session that is left before its reports.
reports(#storm{sinks = Sinks}) ->
    S = session(Sinks),
    _ = catch trace:system(S, large_heap, 10000),
    destroy(S),
    [begin
         L = lists:seq(1, 20000),
         true = erlang:garbage_collect(),
         20000 = length(L)
     end || _ <- lists:seq(1, 5)].

many_kept(#storm{sinks = Sinks}) ->
    S = trace:session_create(pick(?SESSIONS), pick(Sinks), [keep_patterns]),
    _ = catch trace:patterns(S, [{{?M, list_to_atom("kept_" ++ integer_to_list(N)), 1}, [{'_', [], []}], [local]}
                                 || N <- lists:seq(1, 2500)]),
    destroy(S).

%%--------------------------------------------------------------------------
%% The whole system

monitor(#storm{sinks = Sinks}) ->
    _ = catch erlang:system_monitor(pick([self() | Sinks]),
                                    [{long_message_queue, {10, 100 + rand:uniform(100)}}, busy_port, {long_gc, 10},
                                     {large_heap, 10000}, {long_schedule, 10}]),
    _ = catch erlang:system_profile(pick([self() | Sinks]),
                                    pick([[runnable_procs, scheduler], [runnable_procs, exclusive],
                                          [runnable_ports, monotonic_timestamp]])),
    timer:sleep(1),
    _ = catch erlang:system_profile(undefined, []),
    catch erlang:system_monitor(undefined).

memory(#storm{dir = Dir}) ->
    case rand:uniform(4) of
        1 -> catch instrument:store_memory_map(filename:join(Dir, "storm.map"));
        2 -> catch instrument:memory_status(pick([total, allocators, classes, types]));
        3 -> catch instrument:memory_map();                     % left to others
        4 -> catch map_to_the_end()
    end.

%%--------------------------------------------------------------------------
%% What is traced, and what receives trace messages

%% Makes calls all the time. Trace messages in the sinks must not pile up.
target(Sinks) ->
    process_flag(error_handler, ?MODULE),
    target(Sinks, 1).

target(Sinks, N) ->
    _ = catch ?M:calls(5),
    _ = catch ?M:f(N),
    _ = catch (?M:makes_fun(N))(N),
    _ = catch #rec{} = ?M:record(N),
    N rem 50 =:= 0 andalso spawn(calls(fun() -> ?M:c(1) end)),
    N rem 100 =:= 0 andalso erts_debug:dirty_cpu(wait, 0),
    [begin
         Sink ! {sync, self()},
         receive {Sink, synced} -> ok end
     end || N rem 20 =:= 0, Sink <- Sinks],
    receive {literals, _} -> ok after 0 -> ok end,
    target(Sinks, N + 1).

%% For a process of its own. The default error handler would ask the code server, which cannot
%% keep up with that many processes.
calls(Fun) ->
    fun() ->
            process_flag(error_handler, ?MODULE),
            catch Fun()
    end.

%% Inspects everything that it receives: an invalid term would crash the node.
sink() ->
    receive
        {sync, From} -> From ! {self(), synced};
        Message -> erlang:phash2(Message)
    end,
    sink().

%% The error handler: the code server is not asked for modules that are loaded and deleted all
%% the time.
undefined_function(M, F, As) when M =:= ?M; M =:= ?RAW ->
    throw({undefined_function, {M, F, length(As)}});
undefined_function(M, F, As) ->
    error_handler:undefined_function(M, F, As).

%% With funs, literals and records. Every fourth version has an -on_load() function, which takes
%% some time and sometimes fails.
code(V) ->
    OnLoad = case V rem 4 of
                 0 -> ["-on_load(init/0).",
                       "init() -> timer:sleep(2), " ++ pick(["ok", "ok", "failed"]) ++ "."];
                 _ -> []
             end,
    Version = integer_to_list(V),
    Text = ["-module(" ++ atom_to_list(?M) ++ ").",
            "-export([f/1, c/1, calls/1, makes_fun/1, literal/0, record/1]).",
            "-record(rec, {version, list})."]
        ++ OnLoad
        ++ ["f(X) -> c(X).",
            "c(X) -> X.",
            "calls(0) -> done; calls(N) -> _ = " ++ atom_to_list(?M) ++ ":f(N), calls(N - 1).",
            "makes_fun(0) -> fun() -> " ++ Version ++ " end;"
            " makes_fun(X) -> fun(Y) -> {X, Y, " ++ Version ++ "} end.",
            "literal() -> {" ++ Version ++ ", [a, b, {c, \"literal\"}], <<\"a binary that is long enough to be"
            " referred to, and not copied: 0123456789012345678901234567890123456789\">>, fun lists:reverse/1,"
            " fun() -> " ++ Version ++ " end}.",
            "record(X) -> #rec{version = " ++ Version ++ ", list = [X]}."],
    Forms = [begin
                 {ok, Tokens, _} = erl_scan:string(T),
                 {ok, Form} = erl_parse:parse_form(Tokens),
                 Form
             end || T <- Text],
    {ok, ?M, Code} = compile:forms(Forms, [no_inline]),
    Code.
