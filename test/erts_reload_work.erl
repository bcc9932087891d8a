%% SPDX-License-Identifier: Apache-2.0
%%
%% Shared by the suites of code loading and tracing: modules that come in versions, sessions,
%% and processes that make calls all the time.
-module(erts_reload_work).

-include_lib("stdlib/include/assert.hrl").

-export([init_suite/1, end_suite/0, init_patched/1, init_case/1, end_case/1, is_patched/0, kinds/0,
         undefined_function/3]).
-export([mod/1, load/2, load_softly/2, load_code_softly/2, load_on_load/3, load_on_load_softly/2,
         purge_softly/1, unload/1, code/2, on_load_code/2, numbered_code/2,
         numbered_on_load_code/2, numbered_fun_code/2]).
-export([session/0, session/1, calls/2, delivered/2, flush/0, ask/2, stop/1, pick/1]).
-export([load_many/2, unload_many/1, trace_steps/1]).
-export([emulator_flags/0, stress_until/0, first_call/6, check_missed/3, check_missed_in_old/3,
         reloads/1, reloads/3, start_caller/2, stop_caller/3, tracer/1]).

-define(RELOADS, 2000).
-define(RELOAD_SECONDS, 10).
-define(NUMBERED, v00000000).

init_suite(Config) ->
    case code:ensure_loaded(trace) of
        {module, trace} ->
            _ = erts_debug:set_internal_state(available_internal_state, true),
            Config;
        _ ->
            {skip, "this runtime has no trace sessions"}
    end.

end_suite() ->
    _ = erts_debug:set_internal_state(available_internal_state, false),
    ok.

%% For groups of the patched runtime.
init_patched(Config) ->
    case is_patched() of
        true -> Config;
        false -> {skip, "this runtime does not carry this part of the kymo series"}
    end.

%% This module becomes the error handler.
init_case(Config) ->
    process_flag(error_handler, ?MODULE),
    [{breakpoints, breakpoints()} | Config].

%% Unloads what a case leaves, and checks that no breakpoint is left behind. A case that failed
%% may have left its session, and its own reason is the one to report.
end_case(Config) ->
    process_flag(error_handler, error_handler),
    unload_all(),
    case proplists:get_value(tc_status, Config) of
        ok ->
            case breakpoints(proplists:get_value(breakpoints, Config), 1000) of
                ok -> ok;
                N -> {fail, {breakpoints, N}}
            end;
        _ ->
            ok
    end.

%% Large numbers of them are freed in steps.
breakpoints(N, Tries) ->
    case breakpoints() of
        N -> ok;
        _ when Tries > 0 -> breakpoints(N, Tries - 1);
        Other -> Other
    end.

%% The kinds of trace patterns for functions.
kinds() ->
    [[local], [global], [meta], [call_count], [call_time], [call_memory],
     [local, meta, call_count, call_time, call_memory]].

is_patched() ->
    try maps:is_key(finish_loading, erlang:system_info(kymo_blocking)) of
        IsKnown -> not IsKnown
    catch
        error:badarg -> false
    end.

%% The number of breakpoints in the runtime, once those that wait to be freed are.
breakpoints() ->
    case is_patched() of
        true ->
            ok = erts_debug:set_internal_state(wait, thread_progress),
            ok = erts_debug:set_internal_state(wait, thread_progress),
            erts_debug:get_internal_state(trace_breakpoints);
        false ->
            unknown
    end.

undefined_function(M, F, As) ->
    case is_ours(M) of
        true -> throw({undefined_function, {M, F, length(As)}});
        false -> error_handler:undefined_function(M, F, As)
    end.

unload_all() ->
    [unload(M) || M <- erlang:loaded(), is_ours(M)],
    ok.

is_ours(M) ->
    lists:prefix("erts_reload_mod_", atom_to_list(M)).

mod(I) ->
    list_to_atom("erts_reload_mod_" ++ integer_to_list(I)).

%% Loads a module with functions f1/0 to fN/0, all exported.
load_many(M, N) ->
    Funs = [list_to_atom("f" ++ integer_to_list(I)) || I <- lists:seq(1, N)],
    {ok, M, Code} = compile:forms([{attribute, 1, module, M},
                                   {attribute, 1, export, [{F, 0} || F <- Funs]}
                                   | [{function, 1, F, 0, [{clause, 1, [], [], [{atom, 1, F}]}]} || F <- Funs]],
                                  []),
    erts_code_purger:purge(M),
    {module, M} = erlang:load_module(M, Code),
    ok.

unload_many(M) ->
    _ = erlang:delete_module(M),
    erts_code_purger:purge(M).

%% The result of a function, the number of steps in which it has set and removed trace patterns,
%% and the most functions and export entries that one step has visited.
trace_steps(Fun) ->
    _ = erts_debug:get_internal_state(trace_steps),
    Result = Fun(),
    {Steps, Longest} = erts_debug:get_internal_state(trace_steps),
    {Result, Steps, Longest}.

session() -> session([]).

session(Opts) -> trace:session_create(?MODULE, self(), Opts).

%% The calls that the session reports when a process runs a fun.
calls(S, Fun) ->
    {Pid, Ref} = spawn_monitor(fun() ->
                                       process_flag(error_handler, erts_reload_work),
                                       receive go -> Fun() end
                               end),
    1 = trace:process(S, Pid, true, [call]),
    Pid ! go,
    receive {'DOWN', Ref, _, _, Reason} -> ?assertEqual(normal, Reason) end,
    delivered([S], Pid).

%% All calls of another process that sessions have reported to this process.
delivered(Ss, Pid) ->
    [begin
         Ref = trace:delivered(S, Pid),
         receive {trace_delivered, Pid, Ref} -> ok end
     end || S <- Ss],
    flush().

flush() ->
    receive
        {trace, _, call, MFA} -> [MFA | flush()];
        {trace_ts, _, call, MFA, _} -> [MFA | flush()];
        {trace, _, _, _, _} -> flush()
    after 0 -> []
    end.

ask(Pid, Request) ->
    Pid ! {self(), Request},
    receive {Pid, Reply} -> Reply end.

stop(Pid) ->
    unlink(Pid),
    Ref = monitor(process, Pid),
    exit(Pid, kill),
    receive {'DOWN', Ref, _, _, _} -> ok end.

load(M, Version) ->
    erts_code_purger:purge(M),
    {module, M} = erlang:load_module(M, code(M, Version)),
    erts_code_purger:purge(M).

%% Without killing processes.
load_softly(M, Version) ->
    load_code_softly(M, code(M, Version)).

load_code_softly(M, Code) ->
    purge_softly(M),
    {module, M} = erlang:load_module(M, Code),
    purge_softly(M).

purge_softly(M) ->
    case erts_code_purger:soft_purge(M) of
        true -> ok;
        false -> erlang:yield(), purge_softly(M)
    end.

load_on_load(M, Version, Success) ->
    erts_code_purger:purge(M),
    load_on_load_code(M, on_load_code(M, Version), Success).

load_on_load_code(M, Code, Success) ->
    {on_load, [M]} = erlang:finish_loading([erlang:prepare_loading(M, Code)]),
    ok = erlang:call_on_load_function(M),
    erts_code_purger:finish_after_on_load(M, Success).

%% The -on_load() function succeeds.
load_on_load_softly(M, Code) ->
    load_on_load_code(M, Code, true),
    purge_softly(M).

unload(M) ->
    erts_code_purger:purge(M),
    erlang:delete_module(M),
    erts_code_purger:purge(M).

code(M, Version) ->
    code(M, Version, []).

%% Its -on_load() function calls the code, and makes another process call it.
on_load_code(M, Version) ->
    code(M, Version, ["-on_load(init/0).",
                      "init() -> {_, R} = spawn_monitor(fun() -> done = calls(10) end),"
                      " receive {'DOWN', R, _, _, normal} -> ok end."]).

%% Each number is another version. The versions differ only in the name of an atom.
numbered_code(M, N) -> number(N, code(M, ?NUMBERED)).

numbered_on_load_code(M, N) -> number(N, on_load_code(M, ?NUMBERED)).

%% A function that makes a fun and calls it.
numbered_fun_code(M, N) ->
    number(N, code(M, ?NUMBERED,
                   ["-export([makes_fun/1, call/2]).",
                    "makes_fun(X) -> call(fun(Y) -> {X, Y, " ++ atom_to_list(?NUMBERED) ++ "} end, X).",
                    "call(F, X) -> F(X)."])).

number(N, Code) ->
    Name = iolist_to_binary(io_lib:format("v~8..0b", [N])),
    binary:replace(Code, atom_to_binary(?NUMBERED), Name, [global]).

code(M, Version, More) ->
    Key = {?MODULE, M, Version, More},
    case persistent_term:get(Key, none) of
        none ->
            V = lists:flatten(io_lib:write(Version)),
            Only = if
                       Version =:= ?NUMBERED -> "only";
                       true -> "only" ++ V
                   end,
            Text = ["-module(" ++ atom_to_list(M) ++ ").",
                    "-export([f/1, calls/1, server/0, " ++ Only ++ "/0])."]
                ++ More
                ++ ["f(X) -> {f, X, " ++ V ++ "}.",
                    "calls(0) -> done; calls(N) -> {f, N, _} = f(N), calls(N - 1).",
                    Only ++ "() -> " ++ V ++ ".",
                    "local() -> {f, 0, X} = f(0), X.",
                    "server() -> receive {From, local} -> From ! {self(), local()}, server();"
                    " {From, upgrade} -> From ! {self(), 2}, " ++ atom_to_list(M) ++ ":server() end."],
            Forms = [begin
                         {ok, Tokens, _} = erl_scan:string(T),
                         {ok, Form} = erl_parse:parse_form(Tokens),
                         Form
                     end || T <- Text],
            {ok, M, Code} = compile:forms(Forms, [no_inline]),
            persistent_term:put(Key, Code),
            Code;
        Code ->
            Code
    end.

pick(L) ->
    lists:nth(rand:uniform(length(L)), L).

%% Flags to start a peer with the emulator of this node. Runtimes other than our own builds have
%% only one emulator, and may not know these flags.
emulator_flags() ->
    Types = case erlang:system_info(build_type) of
                opt -> [];
                Type -> ["-emu_type", atom_to_list(Type)]
            end,
    Flavors = case is_patched() of
                  true -> ["-emu_flavor", atom_to_list(erlang:system_info(emu_flavor))];
                  false -> []
              end,
    Types ++ Flavors ++ ["-pa", filename:dirname(code:which(?MODULE))].

%% When a stress test ends, in milliseconds of monotonic time: after 5 seconds, or after
%% KYMO_STRESS_SECONDS from the environment. Other suites use this, too.
stress_until() ->
    Seconds = list_to_integer(os:getenv("KYMO_STRESS_SECONDS", "5")),
    ct:timetrap({seconds, 300 + 2 * Seconds}),
    erlang:monotonic_time(millisecond) + Seconds * 1000.

%% A process makes calls all the time while its module is loaded repeatedly. Sessions are
%% created with Opts, one for each of Kinds, and trace what Pattern matches. Check decides which
%% calls a session may have missed. A session that counts calls does so in all versions.
first_call(Kinds, Opts, Pattern, Code, Load, Check) ->
    M = mod(1),
    Load(M, Code(M, 0)),
    Tracers = [spawn_link(fun() -> tracer(M) end) || _ <- Kinds],
    Ss = [trace:session_create(?MODULE, T, Opts) || T <- Tracers],
    Count = session(Opts),
    [trace:function(S, Pattern, true, K) || {S, K} <- lists:zip([Count | Ss], [[call_count] | Kinds])],
    Load(M, Code(M, 1)),
    Pid = start_caller(M, Tracers),
    [1 = trace:process(S, Pid, true, [call]) || S <- Ss],
    Pid ! go,
    reloads(fun(N) ->
                    Load(M, Code(M, N + 1)),
                    %% Sometimes with a pattern of the old version.
                    [trace:function(hd(Ss), {M, f, 1}, true, [global])
                     || N rem 5 =:= 0, hd(Kinds) =:= [global]],
                    ?assertMatch({call_count, C} when is_integer(C),
                                 trace:info(Count, {M, f, 1}, call_count))
            end),
    stop_caller(Pid, lists:zip(Ss, Tracers), Check),
    [trace:session_destroy(S) || S <- [Count | Ss]],
    unload(M).

%% Stops the caller, and checks what the tracers of the sessions have received.
stop_caller(Pid, Sessions, Check) ->
    Pid ! {stop, self()},
    {Calls, Changes} = receive {Pid, stopped, Made, At} -> {Made, At} end,
    ?assert(Calls > 0),
    [begin
         Ref = trace:delivered(S, Pid),
         receive {trace_delivered, Pid, Ref} -> ok end,
         T ! {stop, self()},
         Check(Calls, Changes, receive {T, received, Last, Missed} -> {Last, Missed} end)
     end || {S, T} <- Sessions].

%% The interpreter may schedule out a process after it has called a function and before it
%% reaches the breakpoint. If the code becomes old before the process continues, that call is
%% not traced: it is the last one of a version. No call of new code is missed.
check_missed(Calls, Changes, {Last, Missed}) ->
    case erlang:system_info(emu_flavor) of
        emu -> ?assertEqual([], Missed -- [N - 1 || N <- Changes]);
        jit -> ?assertEqual([], Missed)
    end,
    ?assertEqual(Calls, Last).

%% A call may be untraced only if no later call before the next version is traced.
check_missed_in_old(Calls, Changes, {Last, Missed}) ->
    ?assertEqual([], ends(lists:sort(Missed)) -- [N - 1 || N <- Changes]),
    ?assertEqual(Calls, Last).

%% The last of each run of consecutive numbers.
ends([N, Next | Ns]) when Next =:= N + 1 -> ends([Next | Ns]);
ends([N | Ns]) -> [N | ends(Ns)];
ends([]) -> [].

reloads(Fun) ->
    reloads(Fun, 50, ?RELOADS).

%% Fewer than Most on a busy machine: each load waits several times until the operating system
%% has run all schedulers.
reloads(Fun, Least, Most) ->
    reloads(Fun, 1, Least, Most, erlang:monotonic_time(millisecond) + ?RELOAD_SECONDS * 1000).

reloads(Fun, N, Least, Most, Until) ->
    Fun(N),
    case N < Most andalso (N < Least orelse erlang:monotonic_time(millisecond) < Until) of
        true -> reloads(Fun, N + 1, Least, Most, Until);
        false -> ok
    end.

%% Makes calls all the time, but does not let the tracers fall too far behind. Finally reports
%% the number of calls, and which calls were the first ones of a version.
start_caller(M, Tracers) ->
    Pid = spawn_link(fun() ->
                             receive go -> ok end,
                             {f, 1, Version} = M:f(1),
                             caller(M, Tracers, 2, Version, [])
                     end),
    [T ! {caller, Pid} || T <- Tracers],
    Pid.

caller(M, Tracers, N, Version, Changes0) ->
    {f, N, NewVersion} = M:f(N),
    Changes = [N || NewVersion =/= Version] ++ Changes0,
    [begin
         T ! {reached, self()},
         receive {T, reached} -> ok end
     end || N rem 1000 =:= 0, T <- Tracers],
    receive
        {stop, From} ->
            %% The process keeps using the code index with which it was scheduled in, so it may
            %% have called old code until now. The last call must be one of the newest version.
            erlang:yield(),
            {f, Last, LastVersion} = M:f(N + 1),
            From ! {self(), stopped, Last, [Last || LastVersion =/= NewVersion] ++ Changes}
    after 0 ->
        caller(M, Tracers, N + 1, NewVersion, Changes)
    end.

%% Finally reports the last traced call, and the calls that are missing.
tracer(M) ->
    receive {caller, Pid} -> receive_calls(M, Pid, 1, []) end.

receive_calls(M, Pid, N, Missed) ->
    receive
        {trace, Pid, call, {M, f, [Call]}} ->
            receive_calls(M, Pid, N, Missed, Call);
        {trace_ts, Pid, call, {M, f, [Call]}, _} ->
            receive_calls(M, Pid, N, Missed, Call);
        {reached, From} ->
            From ! {self(), reached},
            receive_calls(M, Pid, N, Missed);
        {stop, From} ->
            From ! {self(), received, N - 1, Missed}
    end.

receive_calls(M, Pid, N, Missed, Call) when N =< Call ->
    receive_calls(M, Pid, Call + 1, lists:seq(N, Call - 1) ++ Missed).
