%% SPDX-License-Identifier: Apache-2.0
%%
%% Loading, deleting and purging code: everything that is visible from Erlang must be as if
%% every load had copied all tables. A model of the modules defines what must be visible. An
%% unpatched runtime passes the same cases, which confirms the model.
%%
%% An error in a staged table may only show when its code index is used again, up to three
%% commits later. The changes are therefore followed by other loads before the last check.
-module(erts_code_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2, end_per_testcase/2]).
-export([series_number/1, series_not_in_stock/1,
         exports_follow_versions/1, stub_becomes_function/1, apply_makes_stub/1, aborted_loads/1,
         many_in_one_load/1, funs_follow_code/1, fun_from_external_format/1, soft_purge_abort/1,
         on_load_succeeds/1, on_load_fails/1, deleted_while_on_load/1,
         global_trace_survives_loads/1, local_trace_survives_loads/1,
         all_traced_survives_loads/1, traced_module_is_replaced/1,
         nif_survives_loads/1, records_follow_code/1, stacktrace_in_every_module/1, random_model/1, parallel_random_model/1,
         parallel_on_many_schedulers/1, parallel_callers/1, trace_load_and_purge/1, loads_among_endless_tracing/1,
         beside_slow_calls/1, preloaded_and_bifs/1]).
-export([model_in_peer/2, contend_in_peer/1, load_in_peer/2, take_turns_in_peer/1]).
%% The error handler of the test processes.
-export([undefined_function/3, undefined_lambda/3]).

-define(VERSIONS, 4).

suite() ->
    [{timetrap, {minutes, 10}}].

all() ->
    [series_number, series_not_in_stock,
     exports_follow_versions, stub_becomes_function, apply_makes_stub, aborted_loads,
     many_in_one_load, funs_follow_code, fun_from_external_format, soft_purge_abort,
     on_load_succeeds, on_load_fails, deleted_while_on_load,
     global_trace_survives_loads, local_trace_survives_loads, all_traced_survives_loads,
     traced_module_is_replaced,
     nif_survives_loads, records_follow_code, stacktrace_in_every_module, random_model, parallel_random_model,
     parallel_on_many_schedulers, parallel_callers, trace_load_and_purge, loads_among_endless_tracing,
     beside_slow_calls, preloaded_and_bifs].

init_per_suite(Config) ->
    Config.

end_per_suite(_Config) ->
    ok.

init_per_testcase(series_number, Config) ->
    case series() of
        none -> {skip, "this runtime does not carry the kymo series"};
        _ -> Config
    end;
init_per_testcase(series_not_in_stock, Config) ->
    case series() of
        none -> Config;
        _ -> {skip, "this runtime carries the kymo series"}
    end;
init_per_testcase(records_follow_code, Config) ->
    case list_to_integer(erlang:system_info(otp_release)) < 29 of
        true -> {skip, "before OTP 29 there are no native records"};
        false -> process_flag(error_handler, ?MODULE), Config
    end;
init_per_testcase(Case, Config) when Case =:= loads_among_endless_tracing; Case =:= beside_slow_calls ->
    case series() of
        none -> {skip, "without the series those who trace may keep loads waiting for ever"};
        _ -> Config
    end;
init_per_testcase(Case, Config)
  when Case =:= parallel_random_model; Case =:= parallel_on_many_schedulers; Case =:= trace_load_and_purge ->
    case series() =:= none andalso list_to_integer(erlang:system_info(otp_release)) > 27 of
        true -> {skip, "OTP 29.1.1 comes to a standstill when one traces, one loads and one purges code with funs"};
        false -> process_flag(error_handler, ?MODULE), Config
    end;
init_per_testcase(_Case, Config) ->
    process_flag(error_handler, ?MODULE),
    Config.

end_per_testcase(_Case, _Config) ->
    process_flag(error_handler, error_handler),
    %% What a failed case has left traced must not make other cases fail.
    _ = erlang:trace_pattern({'_', '_', '_'}, false, [global]),
    _ = erlang:trace_pattern({'_', '_', '_'}, false, [local, meta, call_count, call_time]),
    ok.

series() ->
    try erlang:system_info(kymo_series)
    catch error:badarg -> none
    end.

%% Calls of functions that do not exist end here, without the code server.
undefined_function(M, F, As) when M =:= ?MODULE; M =:= ct; M =:= io; M =:= io_lib ->
    error_handler:undefined_function(M, F, As);
undefined_function(M, F, As) ->
    case string:prefix(atom_to_list(M), "kymo_code_") of
        nomatch -> error_handler:undefined_function(M, F, As);
        _ -> throw({undefined_function, {M, F, length(As)}})
    end.

undefined_lambda(M, _F, _As) ->
    throw({undefined_lambda, M}).

%%
%% The series number
%%

series_number(_Config) ->
    N = erlang:system_info(kymo_series),
    ?assert(is_integer(N) andalso N >= 1).

series_not_in_stock(_Config) ->
    ?assertError(badarg, erlang:system_info(kymo_series)).

%%
%% Exports
%%

%% Each version exports a function of its own; the functions of the previous version are gone.
exports_follow_versions(_Config) ->
    M = name(exports),
    Bins = versions(M),
    Filler = fillers(5),
    S = lists:foldl(fun(V, S0) ->
                            S1 = op(load, V, Bins, S0),
                            check(S1),
                            S2 = op(purge, V, Bins, S1),
                            load_fillers(Filler, fun() -> check(S2) end),
                            S2
                    end, new_state(M), lists:seq(1, ?VERSIONS) ++ lists:seq(?VERSIONS, 1, -1)),
    unload(S),
    load_fillers(Filler, fun() -> check(S#{curr := none, old := none}) end),
    unload_fillers(Filler).

%% A module that calls a missing module creates stubs for its functions. They become functions
%% when the module is loaded, and stubs again when it is deleted, also with other loads in
%% between.
stub_becomes_function(_Config) ->
    Callee = name(stub_callee),
    Caller = name(stub_caller),
    CallerBin = compile_module(Caller, [{call, Callee, v}, {call, Callee, only_1}, {call, Callee, missing}]),
    Bins = versions(Callee),
    Filler = fillers(4),
    {module, Caller} = erlang:load_module(Caller, CallerBin),
    Undef = fun(F) -> ?assertEqual({undefined_function, {Callee, F, 0}}, catch Caller:F()) end,
    [begin
         load_fillers(lists:sublist(Filler, N), fun() -> [Undef(F) || F <- [v, only_1, missing]] end),
         {module, Callee} = erlang:load_module(Callee, maps:get(1, Bins)),
         load_fillers(lists:sublist(Filler, N), fun() ->
                                  ?assertEqual(1, Caller:v()),
                                  ?assertEqual({only, 1}, Caller:only_1()),
                                  Undef(missing)
                          end),
         true = erlang:delete_module(Callee),
         Undef(v),
         true = erlang:purge_module(Callee),
         Undef(only_1)
     end || N <- [0, 1, 2, 3, 4, 0, 1]],
    unload_fillers(Filler),
    true = erlang:delete_module(Caller),
    true = erlang:purge_module(Caller).

%% Calls and funs of modules without code create stubs, too, at any time and in any of the
%% tables.
apply_makes_stub(_Config) ->
    Filler = fillers(3),
    [begin
         M = name("apply" ++ integer_to_list(I)),
         Bins = versions(M),
         ExtFun = fun M:only_2/0,
         ?assertEqual({undefined_function, {M, v, 0}}, catch apply(M, v, [])),
         ?assertEqual({undefined_function, {M, only_2, 0}}, catch ExtFun()),
         load_fillers(lists:sublist(Filler, I rem 4), fun() -> ok end),
         {module, M} = erlang:load_module(M, maps:get(2, Bins)),
         load_fillers(lists:sublist(Filler, I rem 3),
                      fun() ->
                              ?assertEqual(2, apply(M, v, [])),
                              ?assertEqual({only, 2}, ExtFun()),
                              ?assertEqual({undefined_function, {M, only_3, 0}}, catch apply(M, only_3, [])),
                              ?assert(erlang:function_exported(M, only_2, 0)),
                              ?assertNot(erlang:function_exported(M, only_3, 0)),
                              ?assertEqual(exports(2), exports_of(M))
                      end),
         true = erlang:delete_module(M),
         true = erlang:purge_module(M),
         ?assertEqual({undefined_function, {M, only_2, 0}}, catch ExtFun())
     end || I <- lists:seq(1, 12)],
    unload_fillers(Filler).

%% Loads that are refused change nothing, in whichever round they occur.
aborted_loads(_Config) ->
    A = name(abort_a),
    B = name(abort_b),
    New = name(abort_new),
    BinsA = versions(A),
    BinsB = versions(B),
    Prep = fun(M, V, Bins) -> erlang:prepare_loading(M, maps:get(V, Bins)) end,
    Filler = fillers(3),
    S0 = op(load, 2, BinsA, op(load, 1, BinsA, new_state(A))),
    T0 = op(load, 1, BinsB, new_state(B)),
    {S, T} = lists:foldl(
      fun(I, {S1, T1}) ->
              ?assertEqual({not_purged, [A]},
                           erlang:finish_loading([Prep(A, 3, BinsA), Prep(B, 4, BinsB)])),
              check(S1), check(T1),
              ?assertMatch({duplicated, [_ | _]},
                           erlang:finish_loading([Prep(B, 2, BinsB), Prep(B, 3, BinsB)])),
              %% A module that is in no table is forgotten when its load fails.
              ?assertEqual({duplicated, [New]},
                           erlang:finish_loading([prepare_new(New, I), prepare_new(New, I)])),
              ?assertEqual(false, erlang:module_loaded(New)),
              ?assertEqual(undefined, erlang:delete_module(name("never" ++ integer_to_list(I)))),
              ?assertError(badarg, erlang:delete_module(A)),
              check(S1), check(T1),
              load_fillers(lists:sublist(Filler, I rem 4), fun() -> check(S1), check(T1) end),
              V = 1 + I rem ?VERSIONS,
              T2 = op(load, V, BinsB, T1),
              check(S1), check(T2),
              T3 = op(purge, V, BinsB, T2),
              check(S1), check(T3),
              {S1, T3}
      end, {S0, T0}, lists:seq(1, 12)),
    unload(S), unload(T), unload_fillers(Filler).

prepare_new(New, I) ->
    erlang:prepare_loading(New, compile_module(New, [{const, x, I}])).

%% Modules of one load become current together.
many_in_one_load(_Config) ->
    Ms = [name("many" ++ integer_to_list(I)) || I <- lists:seq(1, 60)],
    Bins = [{M, compile_module(M, [{const, x, M}])} || M <- Ms],
    Load = fun() -> ok = erlang:finish_loading([erlang:prepare_loading(M, B) || {M, B} <- Bins]) end,
    Filler = fillers(3),
    [begin
         Load(),
         load_fillers(lists:sublist(Filler, N), fun() -> [?assertEqual(M, M:x()) || M <- Ms] end),
         [true = erlang:delete_module(M) || M <- Ms],
         [true = erlang:purge_module(M) || M <- shuffle(Ms)],
         [?assertEqual({undefined_function, {M, x, 0}}, catch M:x()) || M <- Ms]
     end || N <- [0, 1, 2, 3]],
    unload_fillers(Filler).

%%
%% Funs
%%

%% Funs belong to their version of the code. They work while that is current or old, stop
%% working when it is purged, and work again when the same code is loaded again.
funs_follow_code(_Config) ->
    M = name(funs),
    Bins = versions(M),
    Filler = fillers(3),
    Ops = [{load, 1}, {hold, 0}, {load, 2}, {hold, 0}, {purge, 0}, {load, 1}, {purge, 0}, {load, 1},
           {hold, 0}, {purge, 0}, {delete, 0}, {purge, 0}, {load, 2}, {load, 3}, {hold, 0}, {purge, 0},
           {delete, 0}, {load, 3}, {purge, 0}],
    S = lists:foldl(fun({Op, V}, S0) ->
                            S1 = op(Op, V, Bins, S0),
                            check(S1),
                            load_fillers(Filler, fun() -> check(S1) end),
                            S1
                    end, new_state(M), Ops),
    unload(S), unload_fillers(Filler).

%% A fun whose module is not loaded when the fun is decoded.
fun_from_external_format(_Config) ->
    M = name(ext_funs),
    Bins = versions(M),
    {module, M} = erlang:load_module(M, maps:get(1, Bins)),
    Ext = term_to_binary([M:f(), M:g(7)]),
    true = erlang:delete_module(M),
    true = erlang:purge_module(M),
    erlang:garbage_collect(),
    Filler = fillers(3),
    [begin
         [F, G] = binary_to_term(Ext),
         ?assertEqual({undefined_lambda, M}, catch F()),
         load_fillers(lists:sublist(Filler, N), fun() -> ok end),
         {module, M} = erlang:load_module(M, maps:get(1, Bins)),
         load_fillers(lists:sublist(Filler, N),
                      fun() -> ?assertEqual(1, F()), ?assertEqual({1, 7}, G()) end),
         true = erlang:delete_module(M),
         true = erlang:purge_module(M),
         erlang:garbage_collect()
     end || N <- [0, 1, 2, 3, 0]],
    unload_fillers(Filler).

%% A purge that is aborted leaves the funs unchanged.
soft_purge_abort(_Config) ->
    M = name(soft),
    Bins = versions(M),
    Filler = fillers(3),
    {module, M} = erlang:load_module(M, maps:get(1, Bins)),
    F = M:f(),
    {Pid, Ref} = spawn_monitor(M, wait, []),
    erts_worker:until_waiting(Pid),
    {module, M} = erlang:load_module(M, maps:get(2, Bins)),
    [begin
         ?assertNot(code:soft_purge(M)),
         ?assertEqual(1, F()),
         ?assertEqual(2, M:v()),
         load_fillers(lists:sublist(Filler, N), fun() -> ?assertEqual(1, F()) end)
     end || N <- [0, 1, 2, 3]],
    Pid ! stop,
    receive {'DOWN', Ref, process, Pid, normal} -> ok end,
    ?assert(code:soft_purge(M)),
    load_fillers(Filler, fun() -> ?assertError({badfun, F}, F()), ?assertEqual(2, M:v()) end),
    true = erlang:delete_module(M),
    true = erlang:purge_module(M),
    unload_fillers(Filler).

%%
%% on_load
%%

on_load_succeeds(_Config) ->
    on_load(name(on_load_ok), true).

on_load_fails(_Config) ->
    on_load(name(on_load_fail), false).

on_load(M, Result) ->
    Bins = versions(M),
    OnLoad = on_load_versions(M, Result),
    Filler = fillers(3),
    lists:foldl(
      fun({N, HasCode}, S0) ->
              S1 = case HasCode of
                       true -> op(load, N, Bins, S0);
                       false -> S0
                   end,
              During = fun(P) -> load_fillers(lists:sublist(Filler, N), fun() -> check(P) end) end,
              S2 = op({on_load, Result, During}, 1 + N rem ?VERSIONS, OnLoad, S1),
              check(S2),
              load_fillers(lists:sublist(Filler, N), fun() -> check(S2) end),
              S3 = unload(S2),
              check(S3),
              S3
      end, new_state(M), [{N, C} || N <- [1, 2, 3, 4], C <- [false, true, true]]),
    unload_fillers(Filler).

%% The code is deleted while its successor's on_load function runs: as in unpatched runtimes,
%% the deletion removes the functions of both.
deleted_while_on_load(_Config) ->
    M = name(on_load_deleted),
    Bins = versions(M),
    OnLoad = on_load_versions(M, true),
    Filler = fillers(3),
    [begin
         {module, M} = erlang:load_module(M, maps:get(1, Bins)),
         {on_load, [M]} = erlang:finish_loading([erlang:prepare_loading(M, maps:get(2, OnLoad))]),
         ?assertEqual(1, M:v()),
         true = erlang:delete_module(M),
         ?assertEqual({undefined_function, {M, v, 0}}, catch M:v()),
         load_fillers(lists:sublist(Filler, N), fun() -> ok end),
         true = erlang:purge_module(M),
         ok = erlang:call_on_load_function(M),
         erts_code_purger:finish_after_on_load(M, true),
         load_fillers(lists:sublist(Filler, N),
                      fun() ->
                              ?assertEqual({undefined_function, {M, v, 0}}, catch M:v()),
                              ?assert(erlang:module_loaded(M))
                      end),
         true = erlang:delete_module(M),
         true = erlang:purge_module(M)
     end || N <- [0, 1, 2, 3]],
    unload_fillers(Filler).

%%
%% Other data kept per code index: breakpoints, NIF libraries, line numbers
%%

%% Tracing modifies the active tables at any time between two loads.
global_trace_survives_loads(_Config) ->
    trace_survives_loads(name(gtrace), [], global).

local_trace_survives_loads(_Config) ->
    trace_survives_loads(name(ltrace), [local], local).

trace_survives_loads(M, Flags, Kind) ->
    Bins = versions(M),
    Filler = fillers(4),
    {module, M} = erlang:load_module(M, maps:get(1, Bins)),
    Tracee = start_tracee(),
    Traced = fun(F) -> {traced, T} = erlang:trace_info({M, F, 0}, traced), T end,
    Called = fun(F) -> is_call_traced(Tracee, M, F) end,
    [begin
         load_fillers(lists:sublist(Filler, A), fun() -> ok end),
         1 = erlang:trace_pattern({M, v, 0}, true, Flags),
         load_fillers(lists:sublist(Filler, B),
                      fun() ->
                              ?assertEqual(Kind, Traced(v)),
                              ?assertEqual(false, Traced(only_1)),
                              ?assert(Called(v)),
                              ?assertNot(Called(only_1))
                      end),
         1 = erlang:trace_pattern({M, v, 0}, false, Flags),
         load_fillers(lists:sublist(Filler, A),
                      fun() ->
                              ?assertEqual(false, Traced(v)),
                              ?assertNot(Called(v))
                      end)
     end || A <- [0, 1, 2, 3], B <- [0, 1, 2, 3, 4]],
    stop_tracee(Tracee),
    true = erlang:delete_module(M),
    true = erlang:purge_module(M),
    unload_fillers(Filler).

%% The same with all functions at once: between loads, an aborted load, and calls that create
%% stubs.
all_traced_survives_loads(_Config) ->
    M = name(atrace),
    Refused = name(atrace_refused),
    Bins = versions(M),
    RefusedBins = versions(Refused),
    Filler = fillers(4),
    {module, M} = erlang:load_module(M, maps:get(1, Bins)),
    [{module, Refused} = erlang:load_module(Refused, maps:get(V, RefusedBins)) || V <- [1, 2]],
    Tracee = start_tracee(),
    All = fun(How) -> erlang:trace_pattern({'_', '_', '_'}, How, [global]) end,
    Look = fun(Traced) ->
                   %% It still has old code.
                   {error, not_purged} = erlang:load_module(Refused, maps:get(3, RefusedBins)),
                   Stub = name("stub" ++ integer_to_list(erlang:unique_integer([positive]))),
                   ?assertEqual({undefined_function, {Stub, f, 0}}, catch Stub:f()),
                   [begin
                        ?assertEqual({traced, Traced}, erlang:trace_info({Mod, v, 0}, traced)),
                        ?assertEqual(V, Mod:v()),
                        ?assertEqual(Traced =:= global, is_call_traced(Tracee, Mod, v))
                    end || {Mod, V} <- [{M, 1}, {Refused, 2}]],
                   ?assertEqual({undefined_function, {Refused, only_1, 0}}, catch Refused:only_1())
           end,
    [begin
         load_fillers(lists:sublist(Filler, A), fun() -> ok end),
         ?assert(All(true) > 1000),
         load_fillers(lists:sublist(Filler, B), fun() -> Look(global) end),
         ?assert(All(false) > 1000),
         load_fillers(lists:sublist(Filler, A), fun() -> Look(false) end)
     end || A <- [0, 1, 3], B <- [0, 1, 2, 3, 4]],
    stop_tracee(Tracee),
    [begin
         _ = erlang:check_old_code(Mod) andalso erlang:purge_module(Mod),
         true = erlang:delete_module(Mod),
         true = erlang:purge_module(Mod)
     end || Mod <- [M, Refused]],
    unload_fillers(Filler).

start_tracee() ->
    {Pid, _} = Tracee = spawn_monitor(fun tracee/0),
    1 = erlang:trace(Pid, true, [call, send]),
    Tracee.

tracee() ->
    receive
        {call, From, Ref, M, F} ->
            M:F(),
            From ! {called, Ref},
            tracee();
        stop ->
            ok
    end.

stop_tracee({Pid, Ref}) ->
    Pid ! stop,
    receive {'DOWN', Ref, process, Pid, normal} -> ok end.

%% The events of a process are in order: once its answer has arrived, the event of its call has,
%% too.
is_call_traced({Pid, _}, M, F) ->
    Ref = make_ref(),
    Pid ! {call, self(), Ref, M, F},
    receive {called, Ref} -> ok end,
    receive {trace, Pid, send, {called, Ref}, _} -> ok end,
    receive {trace, Pid, call, {M, F, []}} -> true
    after 0 -> false
    end.

%% Breakpoints are removed with their code; new code starts without any.
traced_module_is_replaced(_Config) ->
    M = name(retraced),
    Bins = versions(M),
    Filler = fillers(3),
    Tracee = start_tracee(),
    [begin
         {module, M} = erlang:load_module(M, maps:get(V, Bins)),
         N = erlang:trace_pattern({M, '_', '_'}, true, Flags),
         ?assert(N > 0),
         load_fillers(lists:sublist(Filler, V rem 4), fun() -> ?assert(is_call_traced(Tracee, M, v)) end),
         case How of
             replace ->
                 {module, M} = erlang:load_module(M, maps:get(1 + V rem ?VERSIONS, Bins)),
                 ?assertEqual({traced, false}, erlang:trace_info({M, v, 0}, traced)),
                 ?assertNot(is_call_traced(Tracee, M, v)),
                 true = erlang:purge_module(M),
                 true = erlang:delete_module(M);
             delete ->
                 true = erlang:delete_module(M)
         end,
         load_fillers(lists:sublist(Filler, V rem 4),
                      fun() -> ?assertEqual({undefined_function, {M, v, 0}}, catch M:v()) end),
         true = erlang:purge_module(M)
     end || V <- lists:seq(1, ?VERSIONS), Flags <- [[], [local]], How <- [replace, delete]],
    stop_tracee(Tracee),
    unload_fillers(Filler).

%% A native record is that of the current code, or of the code whose -on_load() function runs:
%% while this and other modules are loaded, and until its module is deleted.
records_follow_code(_Config) ->
    User = name(record_user),
    Filler = fillers(4),
    [begin
         M = name(Suffix),
         UserBin = compile_text(["-module(", atom_to_list(User), ").\n-export([make/0]).\n",
                                 "make() -> #", atom_to_list(M), ":r{}.\n"]),
         {module, User} = erlang:load_module(User, UserBin),
         Fields = fun() -> records:get(v, User:make()) end,
         Gone = fun() -> ?assertError({badrecord, {M, r}}, User:make()) end,
         Gone(),
         [begin
              load_record(M, V, OnLoad),
              load_fillers(lists:sublist(Filler, N), fun() -> ?assertEqual(V, Fields()) end),
              %% There is no old code before the first version.
              ?assertEqual(V > 1, erlang:check_old_code(M)),
              _ = code:purge(M),
              ?assertEqual(V, Fields())
          end || {V, N} <- [{1, 0}, {2, 1}, {3, 2}, {4, 3}, {5, 4}]],
         true = erlang:delete_module(M),
         load_fillers(Filler, Gone),
         true = erlang:purge_module(M),
         unload_fillers(Filler),
         true = erlang:delete_module(User),
         true = erlang:purge_module(User)
     end || {Suffix, OnLoad} <- [{record, []}, {record_on_load, "-on_load(go/0).\ngo() -> ok.\n"}]].

load_record(M, V, OnLoad) ->
    Bin = compile_text(["-module(", atom_to_list(M), ").\n-export_record([r]).\n-record #r{v = ",
                        integer_to_list(V), "}.\n", OnLoad]),
    {module, M} = code:load_binary(M, "", Bin).

%% The module table has the NIF library of a module: it must still be there exactly once after
%% more loads.
nif_survives_loads(_Config) ->
    Filler = fillers(4),
    {module, crypto} = code:ensure_loaded(crypto),
    load_fillers(Filler ++ Filler,
                 fun() ->
                         ?assertMatch({error, {reload, _}}, reload_nif()),
                         ?assertEqual(20, byte_size(crypto:hash(sha, <<"x">>)))
                 end),
    unload_fillers(Filler).

%% erlang:load_nif/2 can only be called by the module itself, so this gets the list of its NIFs,
%% which is made from the library in the module table.
reload_nif() ->
    case lists:member({hash_info, 1}, crypto:module_info(nifs)) of
        true -> {error, {reload, ""}};
        false -> {error, not_loaded}
    end.

%% Return addresses are found in all modules, for all orders of loading and purging.
stacktrace_in_every_module(_Config) ->
    Ms = [name("st" ++ integer_to_list(I)) || I <- lists:seq(1, 160)],
    Bins = maps:from_list([{M, compile_module(M, [crash])} || M <- Ms]),
    Load = fun(M) -> {module, M} = erlang:load_module(M, maps:get(M, Bins)) end,
    Unload = fun(M) -> true = erlang:delete_module(M), true = erlang:purge_module(M) end,
    Check = fun(M) ->
                    try M:crash(M) of _ -> ct:fail(no_crash)
                    catch error:{crash, M}:Stack ->
                            ?assertMatch([{M, crash2, 1, _}, {M, crash, 1, _} | _], Stack)
                    end
            end,
    [Load(M) || M <- shuffle(Ms)],
    [Check(M) || M <- Ms],
    [begin
         {Gone, Kept} = lists:split(120, shuffle(Ms)),
         [Unload(M) || M <- Gone],
         [Check(M) || M <- Kept],
         [Load(M) || M <- shuffle(Gone)],
         [Check(M) || M <- shuffle(Ms)]
     end || _ <- [1, 2, 3]],
    [Unload(M) || M <- shuffle(Ms)].

%% The BIFs and the preloaded modules, which were added before the first commit.
preloaded_and_bifs(_Config) ->
    Filler = fillers(4),
    load_fillers(Filler ++ Filler,
                 fun() ->
                         [begin
                              ?assert(erlang:module_loaded(M)),
                              ?assertEqual([], exports_of(M) -- M:module_info(exports))
                          end || M <- erlang:pre_loaded()],
                         ?assertEqual(3, apply(erlang, length, [[a, b, c]])),
                         ?assertEqual([1, 2], apply(lists, reverse, [[2, 1]])),
                         F = fun erlang:element/2,
                         ?assertEqual(b, F(2, {a, b})),
                         ?assert(erlang:is_builtin(erlang, length, 1))
                 end),
    unload_fillers(Filler).

%%
%% Random operations, against the model
%%

random_model(_Config) ->
    Seed = rand:seed_s(exsss),
    ct:pal("seed ~p", [rand:export_seed_s(Seed)]),
    random_ops(name(random), 1000, Seed).

%% At least as many processes as schedulers at the same time: each has its own modules, but they
%% share the tables.
parallel_random_model(_Config) ->
    {_, Seed} = rand:uniform_s(rand:seed_s(exsss)),
    ct:pal("seed ~p", [rand:export_seed_s(Seed)]),
    parallel_model(Seed, erts_reload_work:stress_until()).

%% With more schedulers than processors, each scheduler is preempted at arbitrary points while
%% others continue.
parallel_on_many_schedulers(_Config) ->
    {_, Seed} = rand:uniform_s(rand:seed_s(exsss)),
    ct:pal("seed ~p", [rand:export_seed_s(Seed)]),
    Millis = erts_reload_work:stress_until() - erlang:monotonic_time(millisecond),
    {ok, Peer, _} = peer:start_link(#{connection => standard_io,
                                      args => ["+S", "8:8" | erts_reload_work:emulator_flags()]}),
    ok = peer:call(Peer, ?MODULE, model_in_peer, [rand:export_seed_s(Seed), Millis], infinity),
    peer:stop(Peer).

%% Processes that trace, that load and delete, and that purge code with funs all make progress,
%% whatever they hold while they wait for each other. Runs in a peer, which would otherwise hang
%% forever. All processes end by themselves: without ordered permissions, those that trace may
%% delay the others until then.
trace_load_and_purge(_Config) ->
    {ok, Peer, _} = peer:start_link(#{connection => standard_io, shutdown => halt,
                                      args => ["+S", "8:8" | erts_reload_work:emulator_flags()]}),
    ok = peer:call(Peer, ?MODULE, contend_in_peer, [300], infinity),
    peer:stop(Peer).

contend_in_peer(Rounds) ->
    Modules = [{M, maps:get(1, versions(M))}
               || I <- lists:seq(1, 6), M <- [name("contend_" ++ integer_to_list(I))]],
    Workers = [spawn_monitor(fun() -> trace_and_clear(10 * Rounds) end) || _ <- [1, 2]] ++
        [spawn_monitor(fun() -> load_and_purge(M, Bin, Rounds) end) || {M, Bin} <- Modules],
    wait_normal(Workers).

load_and_purge(_M, _Bin, 0) ->
    ok;
load_and_purge(M, Bin, N) ->
    {module, M} = erlang:load_module(M, Bin),
    true = erlang:delete_module(M),
    true = erlang:purge_module(M),
    load_and_purge(M, Bin, N - 1).

trace_and_clear(0) ->
    ok;
trace_and_clear(N) ->
    1 = erlang:trace_pattern({lists, reverse, 1}, true, [local]),
    1 = erlang:trace_pattern({lists, reverse, 1}, false, [local]),
    trace_and_clear(N - 1).

%% Permissions are granted in the order of the requests: processes that load, delete and purge
%% are not delayed by others that trace continuously. With ordered permissions, the tracing
%% processes reach their last operation before the others have finished.
loads_among_endless_tracing(_Config) ->
    {ok, Peer, _} = peer:start_link(#{connection => standard_io, shutdown => halt,
                                      args => ["+S", "8:8" | erts_reload_work:emulator_flags()]}),
    ok = peer:call(Peer, ?MODULE, load_in_peer, [50, 2000], infinity),
    peer:stop(Peer).

%% There are some hundred trace operations for each load, deletion and purge, because they take
%% less time than loaders need between two requests. If there are so many more, permissions are
%% not in order.
load_in_peer(Rounds, TooMany) ->
    Modules = [{M, maps:get(1, versions(M))}
               || I <- lists:seq(1, 6), M <- [name("among_" ++ integer_to_list(I))]],
    Left = counters:new(1, []),
    counters:put(Left, 1, TooMany * 3 * Rounds * length(Modules)),
    Tracers = [spawn_monitor(fun() -> trace_while_left(Left) end) || _ <- [1, 2]],
    Loaders = [spawn_monitor(fun() -> load_and_purge(M, Bin, Rounds) end) || {M, Bin} <- Modules],
    wait_normal(Loaders),
    ?assert(counters:get(Left, 1) > 0),
    counters:put(Left, 1, 0),
    wait_normal(Tracers).

wait_normal(Workers) ->
    [receive {'DOWN', Ref, process, Pid, Reason} -> ?assertEqual(normal, Reason) end || {Pid, Ref} <- Workers],
    ok.

trace_while_left(Left) ->
    case counters:get(Left, 1) > 0 of
        true ->
            trace_and_clear(1),
            counters:sub(Left, 1, 2),
            trace_while_left(Left);
        false ->
            ok
    end.

%% On one scheduler that is busy with native calls of 20 ms, each process takes a long time to
%% come after it has been resumed. Permissions are granted all the same, and in bounded turns.
beside_slow_calls(_Config) ->
    {ok, Peer, _} = peer:start_link(#{connection => standard_io, shutdown => halt,
                                      args => ["+S", "1:1" | erts_reload_work:emulator_flags()]}),
    ok = peer:call(Peer, ?MODULE, take_turns_in_peer, [3], infinity),
    peer:stop(Peer).

%% Returns when each process has made Rounds operations.
take_turns_in_peer(Rounds) ->
    erts_debug:set_internal_state(available_internal_state, true),
    Waiters = 8,
    M = name("turns"),
    Bin = maps:get(1, versions(M)),
    Made = counters:new(Waiters + 1, []),
    Workers = [spawn_link(fun() -> make_endlessly(fun() -> trace_and_clear(1) end, Made, I) end)
               || I <- lists:seq(1, Waiters)] ++
        [spawn_link(fun() -> make_endlessly(fun() -> load_and_purge(M, Bin, 1) end, Made, Waiters + 1) end)],
    Busy = [spawn_link(fun busy_with_native_calls/0) || _ <- lists:seq(1, 5)],
    process_flag(priority, high),
    wait_made(Rounds, Made),
    process_flag(priority, normal),
    [begin unlink(P), exit(P, kill) end || P <- Workers ++ Busy],
    %% A round is two or three operations. Before each of them there are those in front, and twice
    %% as many others as there are processes.
    Sizes = counters_of(Made),
    ?assert(lists:sum(Sizes) =< 3 * (Rounds + 1) * 3 * length(Sizes)),
    ok.

make_endlessly(Fun, Made, I) ->
    Fun(),
    counters:add(Made, I, 1),
    make_endlessly(Fun, Made, I).

busy_with_native_calls() ->
    erts_debug:set_internal_state(block_scheduler, 20),
    erlang:yield(),
    busy_with_native_calls().

wait_made(Rounds, Made) ->
    case lists:min(counters_of(Made)) of
        Min when Min >= Rounds -> ok;
        _ -> receive after 10 -> wait_made(Rounds, Made) end
    end.

counters_of(Counters) ->
    [counters:get(Counters, I) || I <- lists:seq(1, maps:get(size, counters:info(Counters)))].

%% Nothing is loaded on demand any more once processes have another error handler.
model_in_peer(Seed, Millis) ->
    [begin
         _ = application:load(App),
         {ok, Ms} = application:get_key(App, modules),
         ok = code:ensure_modules_loaded(Ms)
     end || App <- [kernel, stdlib, compiler]],
    parallel_model(rand:seed_s(Seed), erlang:monotonic_time(millisecond) + Millis).

parallel_model(Seed0, Until) ->
    N = 2 * erlang:system_info(schedulers_online) + 2,
    Pids = [begin
                {Int, _} = rand:uniform_s(1 bsl 50, rand:jump(Seed0)),
                spawn_monitor(fun() ->
                                      process_flag(error_handler, ?MODULE),
                                      random_rounds(name("par" ++ integer_to_list(I)), Int + I, Until)
                              end)
            end || I <- lists:seq(1, N)],
    [receive {'DOWN', Ref, process, Pid, Reason} -> ?assertEqual(normal, Reason) end || {Pid, Ref} <- Pids],
    ok.

random_rounds(M0, Int, Until) ->
    random_ops(M0, 200, rand:seed_s(exsss, Int)),
    case erlang:monotonic_time(millisecond) < Until of
        true -> random_rounds(M0, Int + 1000, Until);
        false -> ok
    end.

random_ops(M0, Count, Seed) ->
    Ms = [list_to_atom(atom_to_list(M0) ++ "_" ++ [C]) || C <- "abc"],
    Bins = maps:from_list([{M, {versions(M), on_load_versions(M, true), on_load_versions(M, false)}}
                           || M <- Ms]),
    States = maps:from_list([{M, new_state(M)} || M <- Ms]),
    End = random_ops(Count, Ms, Bins, States, Seed),
    [check(unload(S)) || S <- maps:values(End)],
    ok.

random_ops(0, _Ms, _Bins, States, _Seed) ->
    States;
random_ops(Count, Ms, Bins, States, Seed0) ->
    {MI, Seed1} = rand:uniform_s(length(Ms), Seed0),
    {V, Seed2} = rand:uniform_s(?VERSIONS, Seed1),
    {What, Seed3} = rand:uniform_s(12, Seed2),
    M = lists:nth(MI, Ms),
    {Plain, OnLoadOk, OnLoadFail} = maps:get(M, Bins),
    S0 = maps:get(M, States),
    S = case What of
            W when W =< 4 -> op(load, V, Plain, S0);
            W when W =< 6 -> op(purge, V, Plain, S0);
            W when W =< 8 -> op(delete, V, Plain, S0);
            W when W =< 10 -> op(hold, V, Plain, S0);
            11 -> op({on_load, true, fun check/1}, V, OnLoadOk, S0);
            12 -> op({on_load, false, fun check/1}, V, OnLoadFail, S0)
        end,
    States1 = States#{M := S},
    [check(X) || X <- maps:values(States1)],
    random_ops(Count - 1, Ms, Bins, States1, Seed3).

%% Processes call a module while it is loaded repeatedly: each call sees one complete version,
%% and never an earlier one than the call before. A process that is preempted in old code is not
%% killed, because the purge waits for it.
parallel_callers(_Config) ->
    M = name(callers),
    Rounds = 60,
    Bins = maps:from_list([{V, compile_module(M, [{const, a, V}, {const, b, V}, {pair, a, b}])}
                           || V <- lists:seq(0, Rounds)]),
    {module, M} = erlang:load_module(M, maps:get(0, Bins)),
    Stop = atomics:new(1, []),
    Callers = [spawn_monitor(fun() -> process_flag(error_handler, ?MODULE), caller(M, Stop, 0, 0) end)
               || _ <- lists:seq(1, erlang:system_info(schedulers_online) + 1)],
    [begin
         {module, M} = erlang:load_module(M, maps:get(V, Bins)),
         ?assertEqual(V, M:a()),
         erts_reload_work:purge_softly(M)
     end || V <- lists:seq(1, Rounds)],
    atomics:put(Stop, 1, 1),
    [receive {'DOWN', Ref, process, Pid, Reason} -> ?assertEqual({last, Rounds}, Reason) end
     || {Pid, Ref} <- Callers],
    true = erlang:delete_module(M),
    true = erlang:purge_module(M).

caller(M, Stop, Last, N) ->
    %% Both are local calls, so they are in the same version.
    {V, V} = M:pair(),
    true = V >= Last,
    case N rem 64 =:= 0 andalso atomics:get(Stop, 1) of
        1 -> exit({last, M:a()});
        _ -> caller(M, Stop, V, N + 1)
    end.

%%
%% The model: the current and the old version, whether the module has ever been in the module
%% table, and the funs that are held, by version. While an on_load function is pending: also the
%% version that it belongs to, whose funs have code.
%%

new_state(M) ->
    #{module => M, curr => none, old => none, known => erlang:delete_module(M) =/= undefined, funs => []}.

op(load, V, Bins, #{module := M, curr := Curr, old := Old} = S) ->
    Result = erlang:load_module(M, maps:get(V, Bins)),
    if
        Curr =/= none, Old =/= none ->
            ?assertEqual({error, not_purged}, Result),
            S;
        true ->
            ?assertEqual({module, M}, Result),
            made_current(V, S)
    end;
op(delete, _V, _Bins, #{module := M, curr := Curr, old := Old, known := Known} = S) ->
    if
        Old =/= none ->
            ?assertError(badarg, erlang:delete_module(M)),
            S;
        Known ->
            ?assert(erlang:delete_module(M)),
            S#{curr := none, old := Curr};
        true ->
            ?assertEqual(undefined, erlang:delete_module(M)),
            S
    end;
op(purge, _V, _Bins, #{module := M, old := none} = S) ->
    ?assertError(badarg, erlang:purge_module(M)),
    S;
op(purge, _V, _Bins, #{module := M} = S) ->
    ?assert(one_at_a_time(fun() -> erlang:purge_module(M) end)),
    S#{old := none};
op(hold, _V, _Bins, #{curr := none} = S) ->
    S;
op(hold, _V, _Bins, #{module := M, curr := Curr, funs := Funs} = S) ->
    %% Versions with an on_load function have different code.
    S#{funs := lists:ukeysort(1, [{Curr, {M:f(), M:g(Curr)}} | Funs])};
op({on_load, Result, During}, V, Bins, #{module := M, curr := Curr, old := Old} = S) ->
    Prepared = erlang:prepare_loading(M, maps:get(V, Bins)),
    Loaded = erlang:finish_loading([Prepared]),
    if
        Curr =/= none, Old =/= none ->
            ?assertEqual({not_purged, [M]}, Loaded),
            S;
        true ->
            ?assertEqual({on_load, [M]}, Loaded),
            During(S#{pending => if Result -> {on_load, V}; true -> none end}),
            ?assertEqual(if Result -> ok; true -> failed end, erlang:call_on_load_function(M)),
            one_at_a_time(fun() -> erts_code_purger:finish_after_on_load(M, Result) end),
            case Result of
                true -> made_current({on_load, V}, S);
                false -> S#{known := true}
            end
    end.

%% Before OTP 27 the purger loses a finish_after_on_load request that arrives while it purges.
%% The code server never sends one then, but these tests would.
one_at_a_time(Fun) ->
    case list_to_integer(erlang:system_info(otp_release)) < 27 of
        true -> global:trans({?MODULE, self()}, Fun, [node()]);
        false -> Fun()
    end.

made_current(V, #{curr := none} = S) -> S#{curr := V, known := true};
made_current(V, #{curr := Curr} = S) -> S#{curr := V, old := Curr, known := true}.

unload(S0) ->
    S1 = op(delete, 0, #{}, op_if_old(S0)),
    op_if_old(S1).

op_if_old(#{old := none} = S) -> S;
op_if_old(S) -> op(purge, 0, #{}, S).

%% Everything that is visible of a module.
check(#{module := M, curr := Curr, old := Old, funs := Funs} = S) ->
    Pending = maps:get(pending, S, none),
    ?assertEqual(Curr =/= none, erlang:module_loaded(M)),
    ?assertEqual(Old =/= none, erlang:check_old_code(M)),
    V = number(Curr),
    Exports = exports(Curr),
    [?assertEqual({F, lists:member({F, A}, Exports)}, {F, erlang:function_exported(M, F, A)})
     || {F, A} <- all_exports()],
    case Curr of
        none ->
            ?assertEqual({undefined_function, {M, v, 0}}, catch M:v());
        _ ->
            ?assertEqual(V, M:v()),
            ?assertEqual({M, V}, {M:me(), (M:f())()}),
            ?assertEqual(Exports, exports_of(M))
    end,
    [begin
         F = list_to_atom("only_" ++ integer_to_list(N)),
         Expected = if
                        N =:= V -> {only, N};
                        true -> {undefined_function, {M, F, 0}}
                    end,
         ?assertEqual(Expected, catch M:F())
     end || N <- lists:seq(1, ?VERSIONS)],
    [begin
         FunResult = try {F(), G()} catch throw:R -> R; error:R -> R end,
         Expected = if
                        Of =:= Curr; Of =:= Old; Of =:= Pending -> {number(Of), {number(Of), Of}};
                        Curr =:= none -> {undefined_lambda, M};
                        true -> {badfun, F}
                    end,
         ?assertEqual(Expected, FunResult)
     end || {Of, {F, G}} <- Funs],
    ok.

number({on_load, V}) -> V;
number(V) -> V.

exports(none) -> [];
exports({on_load, V}) -> lists:sort([{init, 0} | exports(V)]);
exports(Of) ->
    lists:sort([{f, 0}, {g, 1}, {me, 0}, {v, 0}, {wait, 0}, {module_info, 0}, {module_info, 1},
                {list_to_atom("only_" ++ integer_to_list(Of)), 0}]).

all_exports() ->
    lists:usort(lists:append([exports({on_load, V}) || V <- lists:seq(1, ?VERSIONS)])).

exports_of(M) ->
    lists:sort(erlang:get_module_info(M, exports)).

%%
%% Code
%%

%% Unrelated modules: each load of one is a commit.
fillers(N) ->
    [begin
         M = name("filler" ++ integer_to_list(erlang:unique_integer([positive]))),
         {M, compile_module(M, [{const, x, I}])}
     end || I <- lists:seq(1, N)].

%% Calls Look, then loads a module and calls Look again, and so on.
load_fillers(Filler, Look) ->
    Look(),
    [begin
         _ = erlang:check_old_code(M) andalso erlang:purge_module(M),
         {module, M} = erlang:load_module(M, Bin),
         Look()
     end || {M, Bin} <- Filler],
    ok.

unload_fillers(Filler) ->
    [begin
         _ = erlang:check_old_code(M) andalso erlang:purge_module(M),
         _ = erlang:delete_module(M),
         _ = erlang:check_old_code(M) andalso erlang:purge_module(M)
     end || {M, _} <- Filler],
    ok.

name(Suffix) when is_atom(Suffix) -> name(atom_to_list(Suffix));
name(Suffix) -> list_to_atom("kymo_code_" ++ Suffix).

versions(M) ->
    maps:from_list([{V, compile_module(M, version(V))} || V <- lists:seq(1, ?VERSIONS)]).

on_load_versions(M, Result) ->
    maps:from_list([{V, compile_module(M, [{on_load, Result} | version(V)])}
                    || V <- lists:seq(1, ?VERSIONS)]).

version(V) ->
    [{const, v, V}, me, {local_fun, V}, {env_fun, V}, wait,
     {only, list_to_atom("only_" ++ integer_to_list(V)), V}].

compile_module(M, Parts) ->
    compile_text(["-module(", atom_to_list(M), ").\n-compile(export_all).\n", [part(P, M) || P <- Parts]]).

compile_text(Text) ->
    {ok, _, Bin} = compile:forms(forms(lists:flatten(Text)), [nowarn_export_all]),
    Bin.

forms(Text) ->
    {ok, Tokens, _} = erl_scan:string(Text),
    forms(Tokens, []).

forms([], []) ->
    [];
forms([{dot, _} = Dot | Tokens], Form) ->
    {ok, Parsed} = erl_parse:parse_form(lists:reverse([Dot | Form])),
    [Parsed | forms(Tokens, [])];
forms([Token | Tokens], Form) ->
    forms(Tokens, [Token | Form]).

part({const, F, Value}, _M) -> io_lib:format("~p() -> ~p.~n", [F, Value]);
part({only, F, V}, _M) -> io_lib:format("~p() -> {only, ~p}.~n", [F, V]);
part(me, M) -> io_lib:format("me() -> ~p.~n", [M]);
part({local_fun, V}, _M) -> io_lib:format("f() -> fun() -> ~p end.~n", [V]);
part({env_fun, V}, _M) -> io_lib:format("g(X) -> fun() -> {~p, X} end.~n", [V]);
part(wait, _M) -> "wait() -> receive stop -> ok end.\n";
part({call, Callee, F}, _M) -> io_lib:format("~p() -> ~p:~p().~n", [F, Callee, F]);
part({pair, A, B}, _M) -> io_lib:format("pair() -> {~p(), ~p()}.~n", [A, B]);
part(crash, _M) -> "crash(X) -> [crash2(X)].\ncrash2(ok) -> ok;\ncrash2(X) -> error({crash, X}).\n";
part({on_load, true}, _M) -> "-on_load(init/0).\ninit() -> ok.\n";
part({on_load, false}, _M) -> "-on_load(init/0).\ninit() -> failed.\n".

shuffle(List) ->
    [X || {_, X} <- lists:sort([{rand:uniform(), X} || X <- List])].
