%% SPDX-License-Identifier: Apache-2.0
%%
%% Loading and deleting traced code: what happens to the breakpoints of the old code, and when
%% on_load patterns take effect. The behaviour is also checked on unpatched runtimes; that no
%% scheduler is stopped and nothing leaks is checked only on the patched one.
-module(erts_reload_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-export([all/0, groups/0, suite/0, init_per_suite/1, end_per_suite/1,
         init_per_group/2, end_per_group/2, init_per_testcase/2,
         end_per_testcase/2]).
-export([reload_removes_patterns/1, delete_removes_patterns/1, old_code_is_untraced/1,
         exports_that_go/1, several_modules/1, several_sessions/1,
         on_load_patterns/1, on_load_pattern_of_on_load_module/1,
         on_load_first_call/1, on_load_first_call_of_on_load_module/1,
         on_load_replaces_explicit/1, on_load_function_fails/1,
         traced_while_on_load/1, refused_loads/1, loader_killed/1,
         bif_module/1, funs_of_new_code/1, switched_while_called/1, nothing_stops/1,
         stress/1]).

-import(erts_reload_work,
        [mod/1, load/2, load_softly/2, load_code_softly/2, load_on_load/3, load_on_load_softly/2,
         purge_softly/1, unload/1, code/2, on_load_code/2, numbered_code/2,
         numbered_on_load_code/2, numbered_fun_code/2,
         session/0, calls/2, delivered/2, flush/0, ask/2, stop/1, pick/1,
         first_call/6, check_missed/3, check_missed_in_old/3, reloads/1, reloads/3,
         start_caller/2, stop_caller/3, tracer/1]).

-define(KINDS, erts_reload_work:kinds()).

suite() ->
    [{timetrap, {minutes, 5}}].

all() ->
    [{group, any}, {group, patched}].

groups() ->
    [{any, [],
      [reload_removes_patterns, delete_removes_patterns, old_code_is_untraced,
       exports_that_go, several_modules, several_sessions,
       on_load_patterns, on_load_pattern_of_on_load_module, refused_loads,
       loader_killed, bif_module, funs_of_new_code]},
     {patched, [],
      [on_load_first_call, on_load_first_call_of_on_load_module,
       on_load_replaces_explicit, on_load_function_fails, traced_while_on_load,
       switched_while_called, nothing_stops, stress]}].

init_per_suite(Config) -> erts_reload_work:init_suite(Config).

end_per_suite(_Config) -> erts_reload_work:end_suite().

init_per_group(patched, Config) ->
    erts_reload_work:init_patched(Config);
init_per_group(any, Config) ->
    Config.

end_per_group(_Group, _Config) ->
    ok.

init_per_testcase(_Case, Config) ->
    erts_reload_work:init_case(Config).

end_per_testcase(_Case, Config) ->
    erts_reload_work:end_case(Config).

%%--------------------------------------------------------------------------
%% Any runtime

%% New code is not traced, whichever way the old code was.
reload_removes_patterns(_Config) ->
    M = mod(1),
    [begin
         load(M, 1),
         S = session(),
         ?assert(trace:function(S, {M, '_', '_'}, true, Kind) > 0),
         Calls = calls(S, fun() -> {f, 1, 1} = M:f(1) end),
         ?assertEqual({Kind, num_events(Kind)}, {Kind, length(Calls)}),
         load(M, 2),
         ?assertEqual({traced, false}, trace:info(S, {M, f, 1}, traced)),
         ?assertEqual({all, false}, trace:info(S, {M, f, 1}, all)),
         ?assertEqual({Kind, []}, {Kind, calls(S, fun() -> {f, 2, 2} = M:f(2) end)}),
         %% It can be traced again.
         ?assert(trace:function(S, {M, '_', '_'}, true, Kind) > 0),
         load(M, 1),
         trace:session_destroy(S),
         flush()
     end || Kind <- ?KINDS].

delete_removes_patterns(_Config) ->
    M = mod(1),
    [begin
         load(M, 1),
         S = session(),
         ?assert(trace:function(S, {M, '_', '_'}, true, Kind) > 0),
         true = erlang:delete_module(M),
         ?assertEqual({undefined_function, {M, f, 1}}, catch M:f(1)),
         ?assertEqual({traced, undefined}, trace:info(S, {M, f, 1}, traced)),
         erts_code_purger:purge(M),
         load(M, 1),
         ?assertEqual({traced, false}, trace:info(S, {M, f, 1}, traced)),
         trace:session_destroy(S)
     end || Kind <- ?KINDS].

%% A process that stays in old code produces no events there once the load has returned, in any
%% session.
old_code_is_untraced(_Config) ->
    M = mod(1),
    [begin
         load(M, 1),
         Pid = spawn_link(fun() -> M:server() end),
         Ss = [session(), session()],
         [begin
              1 = trace:process(S, Pid, true, [call]),
              trace:function(S, {M, '_', '_'}, true, Kind)
          end || S <- Ss],
         ?assertEqual(1, ask(Pid, local)),
         {module, M} = erlang:load_module(M, code(M, 2)),
         [trace:delivered(S, Pid) || S <- Ss],
         flush(),
         [?assertEqual(1, ask(Pid, local)) || _ <- lists:seq(1, 10)],
         ?assertEqual([], delivered(Ss, Pid)),
         %% Now the process switches to the new code, which is not traced either.
         ?assertEqual(2, ask(Pid, upgrade)),
         ?assertEqual(2, ask(Pid, local)),
         ?assertEqual([], delivered(Ss, Pid)),
         [trace:session_destroy(S) || S <- Ss],
         stop(Pid),
         erts_code_purger:purge(M)
     end || N <- lists:seq(1, 20), Kind <- ?KINDS, N =< 5 orelse Kind =:= [local]].

%% Exports that only one of the versions has.
exports_that_go(_Config) ->
    M = mod(1),
    S = session(),
    [begin
         load(M, 1),
         ?assert(trace:function(S, {M, '_', '_'}, true, [global]) > 0),
         ?assertEqual([{M, only1, []}], calls(S, fun() -> 1 = M:only1() end)),
         load(M, 2),
         ?assertEqual([], calls(S, fun() ->
                                           {undefined_function, {M, only1, 0}} = (catch M:only1()),
                                           2 = M:only2()
                                   end)),
         ?assertNot(erlang:function_exported(M, only1, 0)),
         ?assert(erlang:function_exported(M, only2, 0)),
         ?assert(trace:function(S, {M, '_', '_'}, true, [global]) > 0),
         load(M, 1),
         ?assertEqual([], calls(S, fun() -> 1 = M:only1() end)),
         unload(M)
     end || _ <- lists:seq(1, 10)],
    trace:session_destroy(S).

several_modules(_Config) ->
    Ms = [mod(I) || I <- lists:seq(1, 8)],
    S = session(),
    [load(M, 1) || M <- Ms],
    [?assert(trace:function(S, {M, '_', '_'}, true, Kind) > 0)
     || {M, Kind} <- lists:zip(Ms, [[] | ?KINDS]), Kind =/= []],
    ok = erlang:finish_loading([erlang:prepare_loading(M, code(M, 2)) || M <- Ms]),
    flush(),
    ?assertEqual([], calls(S, fun() -> [{f, 0, 2} = M:f(0) || M <- Ms] end)),
    [?assertEqual({traced, false}, trace:info(S, {M, f, 1}, traced)) || M <- Ms],
    trace:session_destroy(S),
    [unload(M) || M <- Ms].

%% Each session has its own pattern, and its own on_load pattern.
several_sessions(_Config) ->
    M = mod(1),
    Kinds = [[local], [global], [call_count], [local], [global]],
    Ss = [session() || _ <- Kinds],
    [trace:function(S, on_load, true, K) || {S, K} <- lists:zip(Ss, Kinds)],
    [begin
         load(M, Version),
         Pid = spawn_link(fun() -> receive go -> M:f(Version) end end),
         Ref = monitor(process, Pid),
         unlink(Pid),
         [1 = trace:process(S, Pid, true, [call]) || S <- Ss],
         Pid ! go,
         receive {'DOWN', Ref, _, _, normal} -> ok end,
         ?assertEqual(lists:duplicate(4, {M, f, [Version]}), delivered(Ss, Pid)),
         ?assertEqual({call_count, 1}, trace:info(lists:nth(3, Ss), {M, f, 1}, call_count))
     end || Version <- [1, 2, 1, 2]],
    [begin
         trace:session_destroy(S),
         load(M, 1)
     end || S <- Ss].

on_load_patterns(_Config) ->
    M = mod(1),
    [begin
         S = session(),
         trace:function(S, on_load, true, Kind),
         [begin
              load(M, Version),
              Calls = calls(S, fun() -> {f, 3, Version} = M:f(3) end),
              ?assertEqual({Kind, num_events(Kind)}, {Kind, length(Calls)}),
              Traced = case Kind of
                           [global] -> global;
                           [local | _] -> local;
                           _ -> false
                       end,
              ?assertEqual({Kind, {traced, Traced}}, {Kind, trace:info(S, {M, f, 1}, traced)}),
              [?assertEqual({call_count, 1}, trace:info(S, {M, f, 1}, call_count))
               || lists:member(call_count, Kind)],
              [?assertMatch({call_time, [{_, 1, _, _}]}, trace:info(S, {M, f, 1}, call_time))
               || lists:member(call_time, Kind)],
              [?assertMatch({call_memory, [{_, 1, _}]}, trace:info(S, {M, f, 1}, call_memory))
               || lists:member(call_memory, Kind)]
          end || Version <- [1, 2, 1]],
         trace:function(S, on_load, false, Kind),
         load(M, 2),
         ?assertEqual({Kind, []}, {Kind, calls(S, fun() -> {f, 3, 2} = M:f(3) end)}),
         trace:session_destroy(S)
     end || Kind <- ?KINDS].

%% The number of messages that report one call.
num_events(Kind) ->
    length([1 || K <- Kind, lists:member(K, [local, global, meta])]).

on_load_pattern_of_on_load_module(_Config) ->
    M = mod(1),
    [begin
         S = session(),
         trace:function(S, on_load, [{'_', [], [{return_trace}]}], Kind),
         [begin
              load_on_load(M, Version, true),
              ?assertEqual([{M, f, [7]}], calls(S, fun() -> {f, 7, Version} = M:f(7) end)),
              erts_code_purger:purge(M)
          end || Version <- [1, 2, 1, 2]],
         trace:session_destroy(S)
     end || Kind <- [[local], [global]]].

%% A load that is refused leaves everything traced as it was.
refused_loads(_Config) ->
    [M, Other] = Ms = [mod(1), mod(2)],
    [begin
         [load(X, 1) || X <- Ms],
         S = session(),
         [trace:function(S, {X, '_', '_'}, true, Kind) || X <- Ms],
         {module, Other} = erlang:load_module(Other, code(Other, 2)),
         trace:function(S, {Other, '_', '_'}, true, Kind),
         Traced = fun() ->
                          calls(S, fun() -> {f, 0, 1} = M:f(0), {f, 0, 2} = Other:f(0) end)
                  end,
         Calls = Traced(),
         ?assertEqual([{M, f, [0]}, {Other, f, [0]}], Calls),
         ?assertEqual({not_purged, [Other]},
                      erlang:finish_loading([erlang:prepare_loading(X, code(X, 2)) || X <- Ms])),
         ?assertEqual({duplicated, [M]},
                      erlang:finish_loading([erlang:prepare_loading(M, code(M, 2))
                                             || _ <- [1, 2]])),
         ?assertError(badarg, erlang:delete_module(Other)),
         ?assertEqual(undefined, erlang:delete_module(erts_reload_mod_unknown)),
         ?assertEqual(Calls, Traced()),
         trace:session_destroy(S)
     end || Kind <- [[local], [global]]].

%% A loader that is killed at any time leaves no lock held.
loader_killed(_Config) ->
    M = mod(1),
    S = session(),
    %% At least all 14 combinations of what is killed and when.
    reloads(fun(N) -> [loader_killed(M, S, N, Kind) || Kind <- [[local], [global]]] end, 14, 200),
    trace:session_destroy(S).

loader_killed(M, S, N, Kind) ->
    load(M, 1),
    trace:function(S, {M, '_', '_'}, true, Kind),
    Prepared = erlang:prepare_loading(M, code(M, 2)),
    Self = self(),
    {Pid, Ref} = spawn_monitor(fun() ->
                                       Self ! {self(), loading},
                                       case N rem 2 of
                                           0 -> erlang:finish_loading([Prepared]);
                                           1 -> erlang:delete_module(M)
                                       end
                               end),
    receive {Pid, loading} -> ok end,
    [erlang:yield() || _ <- lists:seq(1, N rem 7)],
    exit(Pid, kill),
    receive {'DOWN', Ref, _, _, _} -> ok end,
    load(M, 1),
    ?assertEqual({f, 1, 1}, M:f(1)),
    ?assertEqual({traced, false}, trace:info(S, {M, f, 1}, traced)).

%% A module with BIFs: calls of BIFs only go through the export entry if that is traced.
bif_module(_Config) ->
    Mod = binary,
    {Mod, Code, _} = code:get_object_code(Mod),
    {module, Mod} = code:ensure_loaded(Mod),
    %% The compiler must not know the value.
    Zero = list_to_binary([0]),
    [begin
         S = session(),
         Calls = fun() -> calls(S, fun() -> 0 = binary:first(Zero), 0 = Mod:first(Zero) end) end,
         1 = trace:function(S, {Mod, first, 1}, true, Kind),
         ?assertEqual([{Mod, first, [Zero]}, {Mod, first, [Zero]}], Calls()),
         {module, Mod} = erlang:load_module(Mod, Code),
         erts_code_purger:purge(Mod),
         ?assertEqual({traced, false}, trace:info(S, {Mod, first, 1}, traced)),
         ?assertEqual([], Calls()),
         trace:function(S, on_load, true, Kind),
         {module, Mod} = erlang:load_module(Mod, Code),
         erts_code_purger:purge(Mod),
         ?assertEqual([{Mod, first, [Zero]}, {Mod, first, [Zero]}], Calls()),
         trace:session_destroy(S),
         Other = session(),
         ?assertEqual([], calls(Other, fun() -> 0 = binary:first(Zero) end)),
         trace:session_destroy(Other),
         {module, Mod} = erlang:load_module(Mod, Code),
         erts_code_purger:purge(Mod)
     end || Kind <- [[local], [global]]].

%% A process that reaches new code through a traced export entry also finds the funs of that
%% code, although it has not updated its code index since it was scheduled in.
funs_of_new_code(_Config) ->
    [funs_of_new_code(Kind, IsDeleted) || Kind <- [[global], [local]], IsDeleted <- [false, true]].

funs_of_new_code(Kind, IsDeleted) ->
    M = mod(1),
    S = session(),
    trace:function(S, on_load, true, Kind),
    Callers = [spawn_link(fun() ->
                                  process_flag(error_handler, erts_reload_work),
                                  fun_caller(M)
                          end) || _ <- lists:seq(1, erlang:system_info(schedulers) + 1)],
    unload(M),
    load_code(M, numbered_fun_code(M, 0)),
    reloads(fun(N) ->
                    case IsDeleted of
                        true -> unload(M);
                        false -> ok
                    end,
                    [Pid ! go || Pid <- Callers],
                    load_code(M, numbered_fun_code(M, N)),
                    [Pid ! {pause, self()} || Pid <- Callers],
                    [receive {Pid, paused} -> ok end || Pid <- Callers],
                    erts_code_purger:purge(M)
            end),
    [stop(Pid) || Pid <- Callers],
    trace:session_destroy(S).

load_code(M, Code) ->
    {module, M} = erlang:load_module(M, Code).

fun_caller(M) ->
    receive go -> fun_calls(M) end.

fun_calls(M) ->
    receive
        {pause, From} ->
            From ! {self(), paused},
            fun_caller(M)
    after 0 ->
        try
            makes_funs(M, 1000)
        catch
            throw:{undefined_function, _} -> ok
        end,
        fun_calls(M)
    end.

makes_funs(_M, 0) ->
    ok;
makes_funs(M, N) ->
    {N, N, _} = M:makes_fun(N),
    makes_funs(M, N - 1).

%%--------------------------------------------------------------------------
%% The patched runtime

%% A process makes calls all the time. Each call is traced by each session with an on_load
%% pattern, whichever version of the code it reaches, and is counted.
on_load_first_call(_Config) ->
    [first_call(Kinds, [], on_load, fun erts_reload_work:numbered_code/2,
                fun erts_reload_work:load_code_softly/2, fun erts_reload_work:check_missed/3)
     || Kinds <- [[[local]], [[global]], [[meta]], [[local], [global]], [[global], [global], [local]]]].

%% While the -on_load() function runs, the old code is not traced. The new code is traced from
%% its first call on.
on_load_first_call_of_on_load_module(_Config) ->
    [first_call(Kinds, [], on_load, fun erts_reload_work:numbered_on_load_code/2,
                fun erts_reload_work:load_on_load_softly/2,
                fun erts_reload_work:check_missed_in_old/3)
     || Kinds <- [[[local]], [[global]], [[local], [global]]]].

%% A session with an on_load pattern traces exports that another session has traced. The
%% patterns of the other session are gone; the on_load pattern is in effect from the first call.
on_load_replaces_explicit(_Config) ->
    M = mod(1),
    Explicit = session(),
    Tracer = spawn_link(fun() -> tracer(M) end),
    S = trace:session_create(?MODULE, Tracer, []),
    load(M, 1),
    trace:function(S, {M, f, 1}, true, [global]),
    trace:function(S, on_load, true, [global]),
    Pid = start_caller(M, [Tracer]),
    1 = trace:process(S, Pid, true, [call]),
    Pid ! go,
    reloads(fun(N) ->
                    trace:function(Explicit, {M, f, 1}, true, [global]),
                    load_code_softly(M, numbered_code(M, N)),
                    ?assertEqual({traced, false}, trace:info(Explicit, {M, f, 1}, traced)),
                    ?assertEqual({traced, global}, trace:info(S, {M, f, 1}, traced))
            end),
    stop_caller(Pid, [{S, Tracer}], fun erts_reload_work:check_missed/3),
    [trace:session_destroy(X) || X <- [S, Explicit]].

%% The current code stays if its successor's -on_load() function fails, but it is no longer
%% traced. It can be traced again.
on_load_function_fails(_Config) ->
    M = mod(1),
    [begin
         load(M, 1),
         S = session(),
         trace:function(S, on_load, true, Kind),
         [begin
              trace:function(S, {M, '_', '_'}, true, Kind),
              ?assertEqual([{M, f, [4]}], calls(S, fun() -> {f, 4, 1} = M:f(4) end)),
              load_on_load(M, 2, false),
              ?assertEqual({traced, false}, trace:info(S, {M, f, 1}, traced)),
              ?assertEqual([], calls(S, fun() -> {f, 5, 1} = M:f(5) end))
          end || _ <- lists:seq(1, 5)],
         trace:function(S, on_load, false, Kind),
         load_on_load(M, 2, true),
         ?assertEqual([], calls(S, fun() -> {f, 5, 2} = M:f(5) end)),
         ?assertEqual({traced, false}, trace:info(S, {M, f, 1}, traced)),
         trace:session_destroy(S),
         unload(M)
     end || Kind <- [[local], [global]]].

%% Patterns of the current code that are set or cleared while its successor's -on_load()
%% function runs.
traced_while_on_load(_Config) ->
    M = mod(1),
    [begin
         load(M, 1),
         S = session(),
         Before andalso trace:function(S, {M, '_', '_'}, true, Kind),
         {on_load, [M]} = erlang:finish_loading([erlang:prepare_loading(M, on_load_code(M, 2))]),
         trace:function(S, {M, '_', '_'}, not Before, Kind),
         ?assertEqual([{M, f, [5]} || not Before], calls(S, fun() -> {f, 5, 1} = M:f(5) end)),
         ok = erlang:call_on_load_function(M),
         erts_code_purger:finish_after_on_load(M, Success),
         ?assertEqual([{M, f, [6]} || not Before, not Success],
                      calls(S, fun() -> {f, 6, _} = M:f(6) end)),
         ?assertEqual({f, 6, case Success of true -> 2; false -> 1 end}, M:f(6)),
         trace:session_destroy(S),
         unload(M)
     end || Kind <- [[local], [global]], Before <- [true, false], Success <- [true, false]].

%% A load and a deletion are held after they have switched the trampolines of traced functions and
%% before the new code index is active. Calls do not wait: they reach the old code and are traced
%% there, and new functions do not exist. After the load has ended, calls reach the new code.
switched_while_called(_Config) ->
    case erlang:system_info(schedulers_online) of
        1 -> {skip, "needs two schedulers"};
        _ -> switched_while_called()
    end.

switched_while_called() ->
    M = mod(1),
    S = trace:session_create(?MODULE, self(), []),
    trace:function(S, on_load, true, [global]),
    load(M, 1),
    load(M, 2),
    erts_code_purger:purge(M),
    Exports = [fun M:only2/0, fun M:only3/0],
    Caller = spawn_opt(fun() ->
                               process_flag(error_handler, erts_reload_work),
                               asked()
                       end, [link, {scheduler, 2}]),
    1 = trace:process(S, Caller, true, [call]),
    Calls = [fun() -> M:f(1) end | Exports],
    None = fun(F, A) -> {undefined_function, {M, F, A}} end,

    Exported = fun() ->
                       Fs = [{f, 1}, {only2, 0}, {only3, 0}],
                       Existing = [erlang:function_exported(M, F, A) || {F, A} <- Fs],
                       ?assertEqual(Existing, [lists:member(FA, erlang:get_module_info(M, exports)) || FA <- Fs]),
                       Existing
               end,
    Code = code(M, 3),
    held(fun() -> {module, M} = erlang:load_module(M, Code) end,
         fun() ->
                 ?assertEqual([{f, 1, 2}, 2, None(only3, 0)], ask(Caller, Calls)),
                 ?assertEqual([true, true, false], Exported())
         end),
    ?assertEqual([true, false, true], Exported()),
    ?assertEqual([{f, 1, 3}, None(only2, 0), 3], ask(Caller, Calls)),
    ?assertEqual([{M, f, [1]}, {M, only2, []}, {M, f, [1]}, {M, only3, []}],
                 delivered([S], Caller)),

    erts_code_purger:purge(M),
    held(fun() -> true = erlang:delete_module(M) end,
         fun() ->
                 ?assertEqual([{f, 1, 3}, None(only2, 0), 3], ask(Caller, Calls)),
                 ?assertEqual([true, false, true], Exported())
         end),
    ?assertEqual([None(f, 1), None(only2, 0), None(only3, 0)], ask(Caller, Calls)),
    ?assertEqual([{M, f, [1]}, {M, only3, []}], delivered([S], Caller)),

    stop(Caller),
    trace:session_destroy(S).

%% A loop of this module, because erts_worker may be loaded by its first call: it would be traced,
%% and a load cannot end while another one is held.
asked() ->
    receive {From, Funs} -> From ! {self(), [catch F() || F <- Funs]} end,
    asked().

%% Calls the second fun, on another scheduler, while the load of the first one is held.
held(Load, During) ->
    process_flag(scheduler, 2),
    erts_debug:set_internal_state(hold_code_switch, true),
    {_, Ref} = spawn_opt(Load, [monitor, {scheduler, 1}]),
    try
        until_held(),
        During()
    after
        erts_debug:set_internal_state(hold_code_switch, false),
        process_flag(scheduler, 0)
    end,
    receive {'DOWN', Ref, _, _, Reason} -> ?assertEqual(normal, Reason) end.

until_held() ->
    case erts_debug:get_internal_state(held_code_switch) of
        true -> ok;
        false -> erlang:yield(), until_held()
    end.

%% None of these operations stops the schedulers.
nothing_stops(_Config) ->
    Ms = [M | _] = [mod(I) || I <- lists:seq(1, 4)],
    Stops = erlang:system_info(kymo_blocking),
    [begin
         S = session(),
         [load(X, 1) || X <- Ms],
         [trace:function(S, {X, '_', '_'}, true, Kind) || X <- Ms],
         load(M, 2),
         ok = erlang:finish_loading([erlang:prepare_loading(X, code(X, 2)) || X <- tl(Ms)]),
         trace:function(S, {M, '_', '_'}, true, Kind),
         true = erlang:delete_module(M),
         erts_code_purger:purge(M),
         load(M, 1),
         trace:function(S, on_load, true, Kind),
         [load(X, 1) || X <- Ms],
         load_on_load(M, 2, true),
         erts_code_purger:purge(M),
         load_on_load(M, 1, false),
         [unload(X) || X <- Ms],
         trace:session_destroy(S)
     end || Kind <- ?KINDS],
    ?assertEqual(Stops, erlang:system_info(kymo_blocking)).

%% All operations at the same time, for some seconds.
stress(_Config) ->
    Ms = [mod(I) || I <- lists:seq(1, 4)],
    [load(M, 1) || M <- Ms],
    Until = erts_reload_work:stress_until(),
    Sink = spawn_link(fun() -> sink(Ms) end),
    Workers = [spawn_monitor(fun() ->
                                     process_flag(error_handler, erts_reload_work),
                                     _ = rand:seed(exsss, {1, 2, Seed}),
                                     worker(What, Until, Sink)
                             end)
               || {Seed, What} <- lists:enumerate(
                                    [{loader, M} || M <- Ms]
                                    ++ [{caller, Ms} || _ <- lists:seq(1, 4)]
                                    ++ [{dier, Ms}]
                                    ++ [{dirty, Ms}]
                                    ++ [{tracer, Ms, Sink} || _ <- lists:seq(1, 3)])],
    [receive {'DOWN', Ref, _, Pid, Reason} -> ?assertEqual({Pid, normal}, {Pid, Reason}) end
     || {Pid, Ref} <- Workers],
    Sink ! {stop, self()},
    receive {Sink, stopped} -> ok end,
    [unload(M) || M <- Ms].

%% Trace messages must not pile up.
worker(What, Until, Sink) ->
    case erlang:monotonic_time(millisecond) < Until of
        true ->
            work(What),
            Sink ! {sync, self()},
            receive synced -> ok end,
            worker(What, Until, Sink);
        false ->
            ok
    end.

work({loader, M}) ->
    Version = rand:uniform(2),
    case rand:uniform(6) of
        1 ->
            purge_softly(M),
            erlang:delete_module(M),
            purge_softly(M);
        2 ->
            purge_softly(M),
            load_on_load(M, Version, true);
        3 ->
            purge_softly(M),
            load_on_load(M, Version, false);
        4 ->
            purge_softly(M),
            {module, M} = erlang:load_module(M, code(M, Version)),
            _ = (catch erlang:finish_loading([erlang:prepare_loading(M, code(M, Version))]));
        _ ->
            load_softly(M, Version)
    end;
work({caller, Ms}) ->
    M = pick(Ms),
    case catch {M:f(1), M:calls(5)} of
        {{f, 1, _}, done} -> ok;
        {undefined_function, {M, _, _}} -> ok
    end;
work({dirty, Ms}) ->
    M = pick(Ms),
    _ = (catch M:calls(3)),
    erts_debug:dirty_cpu(wait, 1),
    _ = (catch M:calls(3)),
    erts_debug:dirty_io(wait, 1);
work({dier, Ms}) ->
    M = pick(Ms),
    {Pid, Ref} = spawn_monitor(fun() ->
                                       process_flag(error_handler, erts_reload_work),
                                       catch M:calls(10000)
                               end),
    [erlang:yield() || _ <- lists:seq(1, rand:uniform(100))],
    exit(Pid, kill),
    receive {'DOWN', Ref, _, _, _} -> ok end;
work({tracer, Ms, Sink}) ->
    S = trace:session_create(?MODULE, Sink, []),
    trace:process(S, all, true, [call]),
    [begin
         How = pick([true, true, false, [{'_', [], [{return_trace}]}]]),
         Kind = pick([[local], [global], [local, meta]]
                     ++ [K || How =/= [{'_', [], [{return_trace}]}], K <- ?KINDS]),
         trace:function(S, pick([on_load, {pick(Ms), '_', '_'}, {pick(Ms), f, '_'}, {pick(Ms), f, 1}]),
                        How, Kind),
         _ = trace:info(S, {pick(Ms), f, 1}, pick([all, call_time, call_count, traced]))
     end || _ <- lists:seq(1, rand:uniform(20))],
    case rand:uniform(4) of
        1 -> erlang:garbage_collect();                  % dropped, not destroyed
        _ -> trace:session_destroy(S)
    end.

%% Only functions that a version of the modules has.
sink(Ms) ->
    receive
        {trace, _, What, {M, F, _}} when What =:= call ->
            check_event(Ms, M, F), sink(Ms);
        {trace, _, return_from, {M, F, _}, _} ->
            check_event(Ms, M, F), sink(Ms);
        {sync, From} ->
            From ! synced, sink(Ms);
        {stop, From} ->
            From ! {self(), stopped}
    end.

check_event(Ms, M, F) ->
    %% on_load patterns also match other modules that are loaded in the meantime.
    not lists:member(M, Ms) orelse
        lists:member(F, [f, calls, server, local, only1, only2, init, module_info,
                         '-init/0-fun-0-'])
        orelse exit({wrong_event, M, F}).
