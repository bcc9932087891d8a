%% SPDX-License-Identifier: Apache-2.0
%%
%% Trace patterns: which functions they match, what they do to the traced functions, and many of
%% them in one commit (trace:patterns/2 of the ERTS patches). What an unpatched runtime supports
%% is also checked there: it is the reference for the model in this suite.
-module(erts_pattern_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-export([all/0, groups/0, suite/0, init_per_suite/1, end_per_suite/1,
         init_per_group/2, end_per_group/2, init_per_testcase/2,
         end_per_testcase/2]).
-export([match_counts/1, match_unloaded/1, match_reloaded/1, random_model/1,
         no_match_changes_nothing/1, restart_without_breakpoint/1,
         bif_in_two_sessions/1, purged_while_timed/1, purged_while_exiting/1,
         batch_counts/1, batch_in_order/1, batch_set_then_clear/1,
         batch_events_and_on_load/1, batch_legacy_session/1,
         batch_bad_operation/1, batch_bad_arguments/1, batch_equals_sequence/1,
         batch_large/1, batch_one_module/1, batch_wildcards/1, batch_atomic/1,
         wildcard_in_steps/1, wildcard_caller_killed/1,
         batch_caller_killed/1, batch_session_destroyed/1,
         torn_stream_is_found/1, stress/1]).

-define(NUM_MODS, 6).

%% The maximum number of functions and export entries that are visited before other work can
%% run.
-define(STEP, 4000).

suite() ->
    [{timetrap, {minutes, 5}}].

all() ->
    [match_counts, match_unloaded, match_reloaded, random_model,
     no_match_changes_nothing, restart_without_breakpoint,
     torn_stream_is_found, {group, patched}].

groups() ->
    [{patched, [],
      [bif_in_two_sessions, purged_while_timed, purged_while_exiting,
       batch_counts, batch_in_order, batch_set_then_clear,
       batch_events_and_on_load, batch_legacy_session, batch_bad_operation,
       batch_bad_arguments, batch_equals_sequence, batch_large,
       batch_one_module, batch_wildcards, batch_atomic, batch_caller_killed,
       batch_session_destroyed, wildcard_in_steps, wildcard_caller_killed, stress]}].

init_per_suite(Config) ->
    Config.

end_per_suite(_Config) ->
    ok.

init_per_group(patched, Config) ->
    case code:ensure_loaded(trace) of
        {module, trace} ->
            case erlang:function_exported(trace, patterns, 2) of
                true -> Config;
                false -> {skip, "this runtime lacks trace:patterns/2 of the ERTS patches"}
            end;
        _ ->
            {skip, "this runtime has no trace sessions"}
    end.

end_per_group(_Group, _Config) ->
    ok.

init_per_testcase(_Case, Config) ->
    [load(I, 1) || I <- lists:seq(1, ?NUM_MODS)],
    Config.

end_per_testcase(_Case, _Config) ->
    erlang:trace(all, false, [all]),
    erlang:trace_pattern({'_', '_', '_'}, false, [global]),
    erlang:trace_pattern({'_', '_', '_'}, false,
                         [local, meta, call_count, call_time]),
    erlang:trace_pattern(on_load, false, [local]),
    erlang:trace_pattern(on_load, false, [global]),
    [unload(mod(I)) || I <- lists:seq(1, ?NUM_MODS)],
    ok.

%%--------------------------------------------------------------------------
%% Any runtime

%% The numbers that trace_pattern/3 returns match the functions and exports that the modules
%% themselves report.
match_counts(_Config) ->
    [begin
         Funs = M:module_info(functions),
         Exports = M:module_info(exports),
         Specs = ['_' | lists:usort([F || {F, _} <- Funs])],
         [?assertEqual({Spec, length(matching(Spec, Of))},
                       {Spec, erlang:trace_pattern(Spec, How, Flags)})
          || F <- Specs,
             A <- ['_' | [A || {F1, A} <- Funs, F1 =:= F]],
             Spec <- [{M, F, A}],
             {Of, Flags} <- [{Funs, [local]}, {Funs, [call_count]},
                             {Exports, [global]}, {Exports, []}],
             How <- [true, false]]
     end || M <- [mod(1), mod(2), lists, ets, erts_internal]],
    Mods = [M || {M, _} <- code:all_loaded()],
    ?assertEqual(lists:sum([length(M:module_info(functions)) || M <- Mods]),
                 erlang:trace_pattern({'_', '_', '_'}, true, [local])),
    ?assertEqual(lists:sum([length(M:module_info(exports)) || M <- Mods]),
                 erlang:trace_pattern({'_', '_', '_'}, false, [global])).

%% A module that is not loaded matches nothing, even if there are export entries for it, and it
%% is not traced once it is loaded.
match_unloaded(_Config) ->
    M = mod(1),
    unload(M),
    %% A caller and external funs create export entries without code.
    Caller = fun() -> M:f1(1) end,
    _ = fun M:f2/1,
    [?assertEqual({S, Flags, 0},
                  {S, Flags, erlang:trace_pattern(S, true, Flags)})
     || S <- [{M, f1, 1}, {M, f2, '_'}, {M, '_', '_'}],
        Flags <- [[global], [local], [call_count]]],
    ?assertEqual({traced, undefined}, erlang:trace_info({M, f1, 1}, traced)),
    load(1, 1),
    ?assertEqual({traced, false}, erlang:trace_info({M, f1, 1}, traced)),
    ?assertEqual([], traced_calls(Caller)),
    ?assertEqual(1, erlang:trace_pattern({M, f1, 1}, true, [global])),
    ?assertEqual([{M, f1, [1]}], traced_calls(Caller)),
    %% Deleted code also leaves export entries behind.
    true = code:delete(M),
    ?assertEqual(0, erlang:trace_pattern({M, f1, 1}, true, [global])),
    ?assertEqual(0, erlang:trace_pattern({M, '_', '_'}, false, [global])).

%% A function that a new version of a module no longer exports.
match_reloaded(_Config) ->
    M = mod(1),
    ?assertEqual(1, erlang:trace_pattern({M, f3, 1}, true, [global])),
    load(1, 2),
    ?assertEqual({traced, false}, erlang:trace_info({M, f3, 1}, traced)),
    ?assertEqual(0, erlang:trace_pattern({M, f3, 1}, true, [global])),
    ?assertEqual(length(M:module_info(exports)),
                 erlang:trace_pattern({M, '_', '_'}, true, [global])),
    load(1, 1),
    ?assertEqual(1, erlang:trace_pattern({M, f3, 1}, true, [global])),
    ?assertEqual([{M, f3, [0]}], traced_calls(fun() -> M:f3(0) end)).

%% Random operations, one at a time: their return values, what trace_info/2 then returns for
%% each function, and which calls are traced.
random_model(_Config) ->
    rand:seed(exsss, {1, 2, 3}),
    lists:foldl(
      fun(_, Model0) ->
              {Spec, How, Flags} = Op = random_op(),
              {Count, Model} = model_op(Op, Model0),
              ?assertEqual({Op, Count},
                           {Op, erlang:trace_pattern(Spec, How, Flags)}),
              check_model(Model, Op),
              Model
      end, #{}, lists:seq(1, 400)).

%% Operations that change nothing still return the number of matches.
no_match_changes_nothing(_Config) ->
    M = mod(1),
    ?assertEqual(1, erlang:trace_pattern({M, f1, 1}, false, [local])),
    ?assertEqual(1, erlang:trace_pattern({M, f1, 1}, false, [global])),
    ?assertEqual(1, erlang:trace_pattern({M, f1, 1}, false, [call_count])),
    ?assertEqual(0, erlang:trace_pattern({M, nosuch, 1}, true, [local])),
    ?assertEqual({traced, false}, erlang:trace_info({M, f1, 1}, traced)).

restart_without_breakpoint(_Config) ->
    M = mod(1),
    [begin
         ?assertEqual(1, erlang:trace_pattern({M, f1, 1}, How, [Flag])),
         ?assertEqual({Flag, false}, erlang:trace_info({M, f1, 1}, Flag))
     end || How <- [restart, pause], Flag <- [call_count, call_time]],
    1 = erlang:trace_pattern({M, f1, 1}, true, [call_count]),
    M:f1(1),
    M:f1(2),
    ?assertEqual({call_count, 2}, erlang:trace_info({M, f1, 1}, call_count)),
    1 = erlang:trace_pattern({M, f1, 1}, pause, [call_count]),
    M:f1(3),
    ?assertEqual({call_count, 2}, erlang:trace_info({M, f1, 1}, call_count)),
    1 = erlang:trace_pattern({M, f1, 1}, restart, [call_count]),
    M:f1(4),
    ?assertEqual({call_count, 1}, erlang:trace_info({M, f1, 1}, call_count)).

%%--------------------------------------------------------------------------
%% Patched runtimes

%% A session that clears its patterns of a BIF does not affect those of other sessions.
bif_in_two_sessions(_Config) ->
    Calls = fun(S) -> traced_calls(S, fun() -> erlang:phash2(x), ok end) end,
    S1 = session(),
    S2 = session(),
    MFA = {erlang, phash2, 1},
    [begin
         1 = trace:function(S1, MFA, true, Flags1),
         1 = trace:function(S2, MFA, true, Flags2),
         ?assertEqual([{erlang, phash2, [x]}], Calls(S1)),
         ?assertEqual([{erlang, phash2, [x]}], Calls(S2)),
         1 = trace:function(S2, MFA, false, Flags2),
         ?assertEqual({Flags1, Flags2, [{erlang, phash2, [x]}]},
                      {Flags1, Flags2, Calls(S1)}),
         ?assertEqual([], Calls(S2)),
         1 = trace:function(S1, MFA, false, Flags1),
         ?assertEqual([], Calls(S1))
     end || Flags1 <- [[local], [global]], Flags2 <- [[local], [global]]],
    1 = trace:function(S1, MFA, true, [local]),
    S3 = session(),
    true = trace:session_destroy(S3),
    ?assertEqual([{erlang, phash2, [x]}], Calls(S1)),
    destroy([S1, S2]).

%% A session with call_time or call_memory ends while a process is in a traced function, which
%% is then purged. Another session still traces the process. An unpatched runtime may crash
%% here.
purged_while_timed(_Config) ->
    M = mod(1),
    Parent = self(),
    Other = session(),
    Procs = [begin
                 S = session(),
                 [1 = trace:function(S, {M, wait, 0}, true, [Flag])
                  || Flag <- Flags],
                 P = spawn_link(fun() -> purged(M, Parent) end),
                 [1 = trace:process(Sx, P, true, [call]) || Sx <- [S, Other]],
                 P ! call,
                 receive {calling, P} -> ok end,
                 wait_for_status(P, waiting),
                 true = trace:session_destroy(S),
                 %% Once another session has been created and destroyed, all processes have
                 %% forgotten the first one.
                 destroy([session()]),
                 P ! go,
                 receive {returned, P} -> P end
             end || Flags <- [[call_time], [call_memory], [call_time, call_memory]],
                    _ <- lists:seq(1, 5)],
    unload(M),
    [load(I, 1) || I <- lists:seq(2, ?NUM_MODS), _ <- [1, 2, 3]],
    [begin
         P ! {ping, self()},
         receive {pong, P} -> ok end
     end || _ <- lists:seq(1, 20), P <- Procs],
    [begin unlink(P), exit(P, kill) end || P <- Procs],
    destroy([Other]).

%% A process that takes long to exit was executing code that is purged in the meantime.
purged_while_exiting(_Config) ->
    M = mod(1),
    Parent = self(),
    [begin
         S = session(),
         1 = trace:function(S, {M, wait, 0}, true, [Flag]),
         {P, Ref} = spawn_monitor(fun() ->
                                          T = ets:new(t, []),
                                          [ets:insert(T, {I}) || I <- lists:seq(1, 500000)],
                                          purged(M, Parent)
                                  end),
         1 = trace:process(S, P, true, [call]),
         P ! call,
         receive {calling, P} -> ok end,
         wait_for_status(P, waiting),
         exit(P, kill),
         unload(M),
         load_until(Ref),
         load(1, 1),
         destroy([S])
     end || Flag <- [call_time, call_memory], _ <- [1, 2]].

load_until(Ref) ->
    receive
        {'DOWN', Ref, process, _, killed} -> ok
    after 0 ->
        [load(I, 1) || I <- lists:seq(2, ?NUM_MODS)],
        load_until(Ref)
    end.

purged(M, Parent) ->
    receive call -> ok end,
    Parent ! {calling, self()},
    M:wait(),
    Parent ! {returned, self()},
    purged_loop().

purged_loop() ->
    receive
        {ping, From} -> From ! {pong, self()}
    end,
    purged_loop().

wait_for_status(P, Status) ->
    case process_info(P, status) of
        {status, Status} -> ok;
        _ -> erlang:yield(), wait_for_status(P, Status)
    end.

batch_counts(_Config) ->
    [M1, M2 | _] = mods(),
    S = session(),
    NumFuns = length(M2:module_info(functions)),
    ?assertEqual([], trace:patterns(S, [])),
    ?assertEqual([1, NumFuns, 1, 0, 0],
                 trace:patterns(S, [{{M1, f1, 1}, true, [local]},
                                    {{M2, '_', '_'}, true, [call_count]},
                                    {{M1, f2, 1}, [], [global]},
                                    {{M1, nosuch, 1}, true, [local]},
                                    {{nosuch, '_', '_'}, true, [global]}])),
    ?assertEqual({traced, local}, trace:info(S, {M1, f1, 1}, traced)),
    ?assertEqual({traced, global}, trace:info(S, {M1, f2, 1}, traced)),
    ?assertEqual({call_count, 0}, trace:info(S, {M2, f1, 1}, call_count)),
    ?assertEqual([{M1, f1, [1]}, {M1, f2, [2]}],
                 traced_calls(S, fun() -> M1:f1(1), M1:f2(2), M1:f3(3) end)),
    %% Nothing to change
    ?assertEqual([1, 0], trace:patterns(S, [{{M1, f3, 1}, false, [local]},
                                            {{nosuch, f, 1}, true, [local]}])),
    destroy([S]).

%% A later operation overrides an earlier one.
batch_in_order(_Config) ->
    [M | _] = mods(),
    S = session(),
    Ms = [{['$1'], [{'>', '$1', 5}], []}],
    ?assertEqual([1, 1, 1],
                 trace:patterns(S, [{{M, f1, 1}, true, [local]},
                                    {{M, f1, 1}, true, [global]},
                                    {{M, f1, 1}, Ms, [local]}])),
    ?assertEqual({traced, local}, trace:info(S, {M, f1, 1}, traced)),
    ?assertEqual({match_spec, Ms}, trace:info(S, {M, f1, 1}, match_spec)),
    ?assertEqual([{M, f1, [6]}],
                 traced_calls(S, fun() -> M:f1(5), M:f1(6) end)),
    ?assertEqual([1, 1], trace:patterns(S, [{{M, f1, 1}, false, [local]},
                                            {{M, f1, 1}, true, [global]}])),
    ?assertEqual({traced, global}, trace:info(S, {M, f1, 1}, traced)),
    destroy([S]).

%% Patterns that the same batch sets and clears leave nothing behind, whether or not another
%% session has a breakpoint in the function.
batch_set_then_clear(_Config) ->
    [M | _] = mods(),
    S = session(),
    Other = session(),
    Check = fun(OtherFlag) ->
                    [begin
                         N = length(Flags),
                         Expect = lists:duplicate(2*N, 1),
                         Ops = [{{M, f1, 1}, How, F} || How <- [true, false],
                                                        F <- Flags],
                         ?assertEqual(Expect, trace:patterns(S, Ops)),
                         ?assertEqual({traced, false},
                                      trace:info(S, {M, f1, 1}, traced)),
                         ?assertEqual(OtherFlag,
                                      trace:info(Other, {M, f1, 1}, traced)),
                         ?assertEqual([], traced_calls(S, fun() -> M:f1(1) end))
                     end || Flags <- [[[local]], [[global]],
                                      [[local], [call_count], [meta]]]]
            end,
    Check({traced, false}),
    1 = trace:function(Other, {M, f1, 1}, true, [local]),
    Check({traced, local}),
    1 = trace:function(Other, {M, f1, 1}, true, [global]),
    Check({traced, global}),
    ?assertEqual([{M, f1, [1]}], traced_calls(Other, fun() -> M:f1(1) end)),
    destroy([S, Other]),
    ?assertEqual([], trace:session_info({M, f1, 1})).

batch_events_and_on_load(_Config) ->
    [M | _] = mods(),
    S = session(),
    ?assertEqual([1, 1, 0, 1],
                 trace:patterns(S, [{send, false, []},
                                    {'receive', [{['_', '_', x], [], []}], []},
                                    {on_load, true, [local]},
                                    {{M, f1, 1}, true, [local]}])),
    ?assertEqual({match_spec, false}, trace:info(S, send, match_spec)),
    ?assertEqual({match_spec, [{['_', '_', x], [], []}]},
                 trace:info(S, 'receive', match_spec)),
    ?assertEqual({traced, local}, trace:info(S, on_load, traced)),
    load(2, 1),
    ?assertEqual({traced, local}, trace:info(S, {mod(2), f1, 1}, traced)),
    ?assertEqual([1, 1, 0],
                 trace:patterns(S, [{send, true, []},
                                    {'receive', true, []},
                                    {on_load, false, [local]}])),
    ?assertEqual({match_spec, true}, trace:info(S, send, match_spec)),
    ?assertEqual({match_spec, true}, trace:info(S, 'receive', match_spec)),
    ?assertEqual({traced, false}, trace:info(S, on_load, traced)),
    destroy([S]).

batch_legacy_session(_Config) ->
    [M | _] = mods(),
    ?assert(lists:member({legacy, default}, trace:session_info(all))),
    ?assertEqual([1, 1],
                 trace:patterns({legacy, default},
                                [{{M, f1, 1}, true, [local]},
                                 {{M, f2, 1}, true, [{meta, self()}]}])),
    ?assertEqual({traced, local}, erlang:trace_info({M, f1, 1}, traced)),
    ?assertEqual({meta, self()}, erlang:trace_info({M, f2, 1}, meta)),
    %% By a weak session handle, too
    {_, Weak} = S = session(),
    ?assertEqual([1], trace:patterns(Weak, [{{M, f1, 1}, true, [local]}])),
    ?assertEqual({traced, local}, trace:info(S, {M, f1, 1}, traced)),
    destroy([S]).

%% A batch with an invalid operation changes nothing, and the error names the operation.
batch_bad_operation(_Config) ->
    [M1, M2 | _] = mods(),
    S = session(),
    [1] = trace:patterns(S, [{{M1, f1, 1}, true, [call_count]}]),
    Before = infos(S),
    Good = [{{M1, '_', '_'}, true, [global]}, {{M2, f1, 1}, true, [local]},
            {send, false, []}, {on_load, true, [local]},
            {{M1, f1, 1}, false, [call_count]}],
    [begin
         {Head, Tail} = lists:split(N, Good),
         try trace:patterns(S, Head ++ [Bad | Tail]) of
             Res -> ct:fail({no_error, Bad, Res})
         catch
             error:badarg:Stk ->
                 [{trace, patterns, [_, _], Info} | _] = Stk,
                 #{cause := Cause} = proplists:get_value(error_info, Info),
                 ?assertMatch({operation, Position, Bad, _}
                                when Position =:= N + 1, Cause),
                 #{2 := Text} = erl_kernel_errors:format_error(badarg, Stk),
                 ?assertMatch({match, _},
                              re:run(Text, io_lib:format("^operation ~w, ",
                                                         [N + 1])))
         end,
         ?assertEqual({Bad, Before}, {Bad, infos(S)}),
         ?assertEqual({match_spec, true}, trace:info(S, send, match_spec)),
         ?assertEqual({traced, false}, trace:info(S, on_load, traced))
     end || N <- [0, 2, 5],
            Bad <- [bad, {}, {a, b}, {{M1, f1, 1}, true},
                    {{M1, f1, x}, true, [local]}, {{M1, f1}, true, []},
                    {{'_', f1, 1}, true, []}, {{1, f1, 1}, true, []},
                    {foo, true, []}, {"x", true, []},
                    {{M1, f1, 1}, true, [nosuch]},
                    {{M1, f1, 1}, true, [local, global]},
                    {{M1, f1, 1}, true, local},
                    {{M1, f1, 1}, true, [local | global]},
                    {{M1, f1, 1}, true, [{meta, self()}]},
                    {{M1, f1, 1}, [{'_', [{nosuch, 1}], []}], [local]},
                    {{M1, f1, 1}, nosuch, [local]},
                    {{M1, f1, 1}, [{'_', [], []}], [call_count]},
                    {send, true, [local]}, {send, restart, []}]],
    destroy([S]).

batch_bad_arguments(_Config) ->
    S = session(),
    [?assertError(badarg, trace:patterns(S, L))
     || L <- [x, [{{lists, seq, 2}, true, [local]} | x], {}, #{}]],
    ?assertEqual({traced, false}, trace:info(S, {lists, seq, 2}, traced)),
    destroy([S]),
    [?assertMatch({badarg, #{1 := <<"invalid trace session">>}},
                  try trace:patterns(Bad, []) of
                      Res -> Res
                  catch
                      error:R:Stk -> {R, erl_kernel_errors:format_error(R, Stk)}
                  end)
     || Bad <- [S, x, {}, {legacy, 1}, {make_ref(), {a, 1}}, {nosuch, 17}]].

%% The same random operations in batches and one at a time.
batch_equals_sequence(_Config) ->
    rand:seed(exsss, {4, 5, 6}),
    S1 = session(),
    S2 = session(),
    [begin
         Ops = [case random_op() of
                    {Spec, true, [F]} when F =:= call_count; F =:= call_time ->
                        {Spec, pick([true, true, pause, restart]), [F]};
                    Op ->
                        Op
                end || _ <- lists:seq(1, rand:uniform(20))],
         R1 = [trace:function(S1, Spec, How, Flags) || {Spec, How, Flags} <- Ops],
         R2 = trace:patterns(S2, Ops),
         ?assertEqual({Ops, R1}, {Ops, R2}),
         ?assertEqual({Ops, infos(S1)}, {Ops, infos(S2)}),
         ?assertEqual(traced_calls(S1, fun call_all/0),
                      traced_calls(S2, fun call_all/0))
     end || _ <- lists:seq(1, 150)],
    destroy([S1, S2]).

%% More operations, with more work, than are done without yielding.
batch_large(_Config) ->
    S = session(),
    Ops = [{{M, F, 1}, [{[I], [], []}], [local]}
           || I <- lists:seq(1, 200), M <- mods(), F <- [f1, f2, f3]],
    Res = trace:patterns(S, Ops),
    ?assertEqual(length(Ops), length(Res)),
    ?assertEqual([1], lists:usort(Res)),
    [?assertEqual({match_spec, [{[200], [], []}]},
                  trace:info(S, {M, F, 1}, match_spec))
     || M <- mods(), F <- [f1, f2, f3]],
    Clear = [{{M, F, A}, false, [local]} || {M, F, A} <- all_funs()],
    ?assertEqual(length(Clear), lists:sum(trace:patterns(S, Clear))),
    [?assertEqual([], trace:session_info(MFA)) || MFA <- all_funs()],
    destroy([S]).

%% A module with many functions, some with the same name; patterns name some functions by name,
%% others by name and arity, and some that do not exist.
batch_one_module(_Config) ->
    rand:seed(exsss, {7, 8, 9}),
    M = erts_pattern_many,
    Funs = [{list_to_atom("f" ++ integer_to_list(I)), A}
            || I <- lists:seq(1, 1000), A <- lists:seq(0, I rem 3)]
        ++ [{many, A} || A <- lists:seq(0, 255)],
    Forms = [{attribute, 1, module, M},
             {attribute, 1, export, [FA || {_, A} = FA <- Funs, A =/= 1]},
             {attribute, 1, compile, nowarn_unused_function}
             | [{function, 1, F, A, [{clause, 1, [{var, 1, '_'} || _ <- lists:seq(1, A)], [],
                                      [{atom, 1, F}]}]} || {F, A} <- Funs]],
    {ok, M, Code} = compile:forms([{attribute, 1, compile, export_all} | Forms], []),
    {module, M} = erlang:load_module(M, Code),
    S = session(),
    [begin
         Specs = [case rand:uniform(4) of
                      1 -> {F, '_'};
                      2 -> {F, 3};
                      _ -> {F, A}
                  end || {F, A} <- Funs, rand:uniform(3) =:= 1],
         Named = fun({F, A}) -> [FA || {G, B} = FA <- Funs, G =:= F, A =:= '_' orelse A =:= B] end,
         Counts = [length(Named(Spec)) || Spec <- Specs],
         Traced = lists:usort(lists:append([Named(Spec) || Spec <- Specs])),
         ?assertEqual(Counts, trace:patterns(S, [{{M, F, A}, true, Flags} || {F, A} <- Specs])),
         ?assertEqual(Traced, lists:sort([FA || {F, A} = FA <- Funs,
                                                trace:info(S, {M, F, A}, traced) =/= {traced, false}])),
         ?assertEqual(Counts, trace:patterns(S, [{{M, F, A}, false, Flags} || {F, A} <- Specs])),
         ?assertEqual([], [FA || {F, A} = FA <- Funs,
                                 trace:info(S, {M, F, A}, traced) =/= {traced, false}])
     end || Flags <- [[local], [global], [local]]],
    true = erlang:delete_module(M),
    ?assertEqual([0, 0], trace:patterns(S, [{{M, many, 1}, true, [local]}, {{M, many, '_'}, true, [local]}])),
    destroy([S]),
    erts_code_purger:purge(M).

%% A pattern for many functions is staged in steps, and its breakpoints are installed, removed
%% and freed in steps.
wildcard_in_steps(_Config) ->
    M = erts_pattern_steps,
    erts_debug:set_internal_state(available_internal_state, true),
    ok = erts_reload_work:load_many(M, ?STEP + 1000),
    Many = [{M, f1, 0}, {M, f4500, 0}],
    [begin
         S = session(),
         N = matched(Spec, Flags),
         ?assert(N > ?STEP),
         [begin
              {Matched, Steps, Longest} =
                  erts_reload_work:trace_steps(fun() -> trace:function(S, Spec, How, Flags) end),
              Op = {Spec, How, Flags},
              ?assertEqual({Op, N}, {Op, Matched}),
              ?assertMatch({Op, Longest} when Longest =< ?STEP, {Op, Longest}),
              %% Staging, changing the instructions, and the work after activation.
              ?assertMatch({Op, Steps} when Steps * ?STEP >= 3 * N, {Op, Steps}),
              ?assertEqual({Op, [How]}, {Op, lists:usort([is_set(S, MFA, Flags) || MFA <- Many])})
          end || How <- [true, false]],
         destroy([S])
     end || Flags <- [[local], [global], [meta], [call_count], [call_time, call_memory]],
            Spec <- [{M, '_', '_'}, {'_', '_', '_'}]],
    %% The session of erlang:trace_pattern/3, and a batch. For a module that is named for the
    %% first time, all functions are indexed.
    N = matched({'_', '_', '_'}, [local]),
    ?assertMatch({N, _, Longest} when Longest =< ?STEP,
                 erts_reload_work:trace_steps(fun() -> erlang:trace_pattern({'_', '_', '_'}, true, [local]) end)),
    ?assertMatch({N, _, Longest} when Longest =< ?STEP,
                 erts_reload_work:trace_steps(fun() -> erlang:trace_pattern({'_', '_', '_'}, false, [local]) end)),
    S = session(),
    %% Functions of the same name are visited without a break.
    ?assertMatch({[1, N, 1], _, Longest} when Longest =< ?STEP + 256,
                 erts_reload_work:trace_steps(
                   fun() -> trace:patterns(S, [{{M, f1, 0}, true, [call_count]}, {{'_', '_', '_'}, true, [local]},
                                               {{M, f4500, 0}, false, [local]}])
                   end)),
    ?assertEqual([{traced, local}, {traced, false}], [trace:info(S, MFA, traced) || MFA <- Many]),
    ?assertEqual([f4499], [F || {Mod, F, []} <- traced_calls(S, fun() -> M:f4499(), M:f4500() end), Mod =:= M]),
    destroy([S]),
    erts_reload_work:unload_many(M).

matched({M, '_', '_'}, Flags) ->
    What = case Flags of [global] -> exports; _ -> functions end,
    Mods = case M of '_' -> erlang:loaded(); _ -> [M] end,
    lists:sum([length(Mod:module_info(What)) || Mod <- Mods]).

is_set(S, MFA, Flags) ->
    [IsSet] = lists:usort([case trace:info(S, MFA, item(Flag)) of
                               {_, false} -> false;
                               {traced, Flag} -> true;
                               {Flag, _} -> true
                           end || Flag <- Flags]),
    IsSet.

item(Flag) when Flag =:= local; Flag =:= global -> traced;
item(Flag) -> Flag.

%% If a process is killed while it sets a pattern for many functions, either all of them have
%% the pattern or none, and other processes can continue.
wildcard_caller_killed(_Config) ->
    M = erts_pattern_steps,
    ok = erts_reload_work:load_many(M, 3 * ?STEP),
    S = session(),
    MFAs = [{M, list_to_atom("f" ++ integer_to_list(I)), 0} || I <- lists:seq(1, 3 * ?STEP, 97)],
    Set = [begin
               {P, Ref} = spawn_monitor(fun() -> trace:function(S, {'_', '_', '_'}, true, [call_count]) end),
               _ = [erlang:yield() || _ <- lists:seq(1, Yields)],
               exit(P, kill),
               receive {'DOWN', Ref, _, _, _} -> ok end,
               1 = trace:function(S, {M, f1, 0}, true, [local]),
               [IsSet] = lists:usort([is_set(S, MFA, [call_count]) || MFA <- MFAs]),
               true = trace:function(S, {'_', '_', '_'}, false, [call_count]) > length(MFAs),
               ?assertEqual([false], lists:usort([is_set(S, MFA, [call_count]) || MFA <- MFAs])),
               IsSet
           end || Yields <- lists:seq(0, 60, 3)],
    ct:log("set: ~p", [Set]),
    destroy([S]),
    erts_reload_work:unload_many(M).

batch_wildcards(_Config) ->
    S = session(),
    Set = [{{'_', '_', '_'}, true, [call_count]} || _ <- lists:seq(1, 10)],
    [N | _] = Counts = trace:patterns(S, Set),
    ?assert(N > 1000),
    ?assertEqual([N], lists:usort(Counts)),
    ?assertMatch({call_count, _}, trace:info(S, {lists, seq, 2}, call_count)),
    ?assertEqual([N, 1],
                 trace:patterns(S, [{{'_', '_', '_'}, false, [call_count]},
                                    {{lists, seq, 2}, true, [local]}])),
    ?assertEqual({call_count, false},
                 trace:info(S, {lists, reverse, 1}, call_count)),
    ?assertEqual({traced, local}, trace:info(S, {lists, seq, 2}, traced)),
    destroy([S]).

%% Two sets of functions, traced alternately. Workers call one function of each set alternately,
%% with a sequence number: the numbers that are traced show for each call which set was in
%% effect. A worker cannot see more changes than there were. Each change waits for all workers to run
%% on, so there are not more of them than the processors can run.
batch_atomic(_Config) ->
    Self = self(),
    Mods = mods(),
    Collector = spawn_link(fun() -> collector(#{}) end),
    S = trace:session_create(?FUNCTION_NAME, Collector, []),
    Even = [{M, F, 1} || M <- Mods, F <- [f1, f2]],
    Odd = [{M, F, 1} || M <- Mods, F <- [f3, f4]],
    Pairs = list_to_tuple(lists:zip(Even, Odd)),
    Flip = fun(On, Off) ->
                   [{MFA, false, [Flag]} || MFA <- Off, Flag <- [local, global]]
                       ++ [{MFA, true, [pick([local, global])]} || MFA <- On]
           end,
    trace:patterns(S, Flip(Even, Odd)),
    Workers = [spawn_link(fun() ->
                                  receive go -> ok end,
                                  Self ! {done, self(), worker(Pairs, 0)}
                          end)
               || _ <- lists:seq(1, 2*erts_worker:processors())],
    [1 = trace:process(S, W, true, [call]) || W <- Workers],
    [W ! go || W <- Workers],
    NumFlips = 60,
    RunOn = fun() -> [begin W ! {ping, Self}, receive {pong, W} -> ok end end || W <- Workers] end,
    RunOn(),
    [begin
         trace:patterns(S, case I rem 2 of
                               1 -> Flip(Odd, Even);
                               0 -> Flip(Even, Odd)
                           end),
         RunOn()
     end || I <- lists:seq(1, NumFlips)],
    [begin
         W ! stop,
         Last = receive {done, W, L} -> L end,
         Ref = trace:delivered(S, W),
         receive {trace_delivered, W, Ref} -> ok end,
         Collector ! {get, self(), W},
         Traced = receive {traced, W, T} -> T end,
         Changes = changes(Traced, Last),
         ct:pal("~p calls, ~p traced, ~p changes of ~p seen~n",
                [Last, length(Traced), Changes, NumFlips]),
         ?assert(Changes =< NumFlips),
         %% Each switch was followed by calls of this worker.
         ?assertEqual(NumFlips, Changes)
     end || W <- Workers],
    unlink(Collector),
    exit(Collector, kill),
    destroy([S]).

%% The check above distinguishes half a batch from a complete one.
torn_stream_is_found(_Config) ->
    ?assertEqual(0, changes([0, 2, 4, 6], 8)),
    ?assertEqual(1, changes([0, 2, 3, 5, 7], 8)),
    ?assertEqual(2, changes([0, 2, 3, 6], 8)),
    %% One of the even and none of the odd functions were switched.
    ?assertEqual(4, changes([0, 4], 8)).

%% A caller that is killed leaves neither the permission taken nor half a batch.
batch_caller_killed(_Config) ->
    S = session(),
    MFAs = [{M, F, 1} || M <- mods(), F <- [f1, f2, f3, f4]],
    Ops = fun(How) -> lists:append(lists:duplicate(
                                     20, [{MFA, How, [local]} || MFA <- MFAs]))
          end,
    rand:seed(exsss, {7, 8, 9}),
    lists:foreach(
      fun(_) ->
              How = pick([true, false]),
              {Pid, Mon} = spawn_monitor(fun() -> trace:patterns(S, Ops(How)) end),
              [erlang:yield() || _ <- lists:seq(1, rand:uniform(30))],
              exit(Pid, kill),
              receive {'DOWN', Mon, process, Pid, _} -> ok end,
              %% The batch waits for the permission.
              [{traced, First} | Rest] = [trace:info(S, MFA, traced) || MFA <- MFAs],
              ?assertEqual([], [T || {traced, T} <- Rest, T =/= First])
      end, lists:seq(1, 200)),
    destroy([S]).

batch_session_destroyed(_Config) ->
    MFAs = [{M, F, 1} || M <- mods(), F <- [f1, f2, f3, f4]],
    Ops = lists:append(lists:duplicate(
                         10, [{MFA, [{'_', [], []}], [local]} || MFA <- MFAs])),
    [begin
         {_, Weak} = S = session(),
         {Pid, Mon} = spawn_monitor(
                        fun() ->
                                exit(try trace:patterns(Weak, Ops) of
                                         L -> {ok, length(L)}
                                     catch
                                         error:badarg -> badarg
                                     end)
                        end),
         [erlang:yield() || _ <- lists:seq(1, N rem 20)],
         true = trace:session_destroy(S),
         receive
             {'DOWN', Mon, process, Pid, Res} ->
                 ?assert(Res =:= badarg orelse Res =:= {ok, length(Ops)})
         end,
         [?assertEqual([], trace:session_info(MFA)) || MFA <- MFAs]
     end || N <- lists:seq(1, 100)].

%% Batches and single operations while modules are loaded, deleted and purged, sessions are
%% created and destroyed, and processes are traced.
stress(_Config) ->
    Until = erts_reload_work:stress_until(),
    Sink = spawn_link(fun sink/0),
    Callers = [spawn_link(fun() -> caller(Sink) end) || _ <- [1, 2, 3]],
    Session = fun() -> trace:session_create(stress, Sink, []) end,
    Random = fun(Seed, Fun) ->
                     spawn_monitor(fun() ->
                                           rand:seed(exsss, {Seed, 1, 1}),
                                           rounds(Fun, 1, Until)
                                   end)
             end,
    Tracing = fun(S) -> [trace:process(S, C, true, [call, arity]) || C <- Callers] end,
    Jobs =
        [Random(1, fun(I) -> load(1 + I rem 3, 1 + I rem 2) end),
         Random(2, fun(_) ->
                           M = mod(4),
                           unload(M),
                           load(4, 1)
                   end),
         Random(3, fun(_) ->
                           S = Session(),
                           Tracing(S),
                           [trace:patterns(S, [random_op() || _ <- lists:seq(1, 30)])
                            || _ <- lists:seq(1, 5)],
                           true = trace:session_destroy(S)
                   end),
         Random(4, fun(_) ->
                           S = Session(),
                           Tracing(S),
                           [begin
                                {Spec, How, Flags} = random_op(),
                                trace:function(S, Spec, How, Flags)
                            end || _ <- lists:seq(1, 30)],
                           [trace:info(S, {mod(I), f1, 1}, all)
                            || I <- lists:seq(1, ?NUM_MODS)],
                           %% Left to the garbage collector every other time
                           rand:uniform(2) =:= 1
                               andalso trace:session_destroy(S)
                   end),
         Random(5, fun(_) ->
                           trace:patterns({legacy, default},
                                          [random_op() || _ <- lists:seq(1, 10)]),
                           erlang:trace_pattern({'_', '_', '_'}, false, [local])
                   end)],
    [receive {'DOWN', Mon, process, Pid, Reason} -> ?assertEqual(normal, Reason) end
     || {Pid, Mon} <- Jobs],
    [?assert(is_process_alive(C)) || C <- Callers],
    [begin unlink(P), exit(P, kill) end || P <- [Sink | Callers]],
    erlang:trace_pattern({'_', '_', '_'}, false, [global]),
    erlang:trace_pattern({'_', '_', '_'}, false,
                         [local, meta, call_count, call_time]),
    S = session(),
    [?assertEqual({MFA, []}, {MFA, trace:session_info(MFA) -- stale(S)})
     || MFA <- all_funs()],
    destroy([S]).

rounds(Fun, I, Until) ->
    Fun(I),
    case erlang:monotonic_time(millisecond) < Until of
        true -> rounds(Fun, I + 1, Until);
        false -> ok
    end.

%%--------------------------------------------------------------------------
%% Helpers

mod(I) ->
    list_to_atom("erts_pattern_mod_" ++ integer_to_list(I)).

mods() ->
    [mod(I) || I <- lists:seq(1, ?NUM_MODS)].

%% Version 2 doesn't export f3/1.
load(I, Version) ->
    M = mod(I),
    Exports = [f1, f2, f4] ++ [f3 || Version =:= 1],
    Text = ["-module(" ++ atom_to_list(M) ++ ").",
            "-export([" ++ lists:join(",", [atom_to_list(F) ++ "/1" || F <- Exports])
            ++ ", f1/2, calls/1, local/0, wait/0])."]
        ++ [atom_to_list(F) ++ "(X) -> {X, " ++ integer_to_list(Version) ++ "}."
            || F <- [f1, f2, f3, f4]]
        ++ ["f1(X, Y) -> {X, Y}.",
            "local() -> {f1(1), f2(1), f3(1), f4(1), f1(1, 2), hidden(1)}.",
            "hidden(X) -> X + 1.",
            "wait() -> receive go -> ok end.",
            "calls(0) -> ok; calls(N) -> f1(N), calls(N - 1)."],
    Forms = [begin
                 {ok, Tokens, _} = erl_scan:string(lists:flatten(T)),
                 {ok, Form} = erl_parse:parse_form(Tokens),
                 Form
             end || T <- Text],
    {ok, M, Code} = compile:forms(Forms, [no_inline]),
    code:purge(M),
    {module, M} = code:load_binary(M, atom_to_list(M) ++ ".beam", Code),
    code:purge(M).

unload(M) ->
    code:purge(M),
    code:delete(M),
    code:purge(M).

session() ->
    trace:session_create(?MODULE, self(), []).

destroy(Sessions) ->
    [trace:session_destroy(S) || S <- Sessions].

%% Sessions that were dropped rather than destroyed are cleared some time
%% after they have been garbage collected.
stale(S) ->
    trace:session_info(all) -- [element(2, S)].

matching({_, '_', '_'}, Funs) -> Funs;
matching({_, F, '_'}, Funs) -> [FA || {F1, _} = FA <- Funs, F1 =:= F];
matching({_, F, A}, Funs) -> [FA || {F1, A1} = FA <- Funs, F1 =:= F, A1 =:= A].

all_funs() ->
    [{M, F, A} || M <- mods(), {F, A} <- M:module_info(functions)].

pick(L) ->
    lists:nth(rand:uniform(length(L)), L).

random_op() ->
    M = pick(mods()),
    Spec = pick([{M, f1, 1}, {M, f2, 1}, {M, f3, 1}, {M, f1, '_'},
                 {M, hidden, 1}, {M, '_', '_'}, {M, f1, 2}, {M, local, 0}]),
    Flags = pick([[local], [global], [], [call_count], [call_time], [meta],
                  [local, call_count], [local, meta, call_time]]),
    How = case Flags of
              _ when Flags =:= [call_count]; Flags =:= [call_time] ->
                  pick([true, false]);
              _ ->
                  pick([true, false, [], [{'_', [], []}],
                        [{['_'], [], []}, {['_', '_'], [], []}]])
          end,
    {Spec, How, Flags}.

%% The model: for each function, the patterns in its export entry (global) and in its code.
model_op({{M, _, _} = Spec, How, Flags}, Model) ->
    Funs = [{M, F, A} || {F, A} <- matching(Spec, M:module_info(functions))],
    Exports = [{M, F, A} || {F, A} <- matching(Spec, M:module_info(exports))],
    On = How =/= false,
    Ms = case is_list(How) of true -> How; false -> [] end,
    case Flags -- [global] of
        [] when On ->
            {length(Exports),
             update(Exports, fun(_) -> #{global => Ms} end,
                    update(Funs, fun(_) -> #{} end, Model))};
        [] ->
            {length(Exports),
             update(Exports, fun(State) -> maps:remove(global, State) end, Model)};
        Bps when On ->
            {length(Funs),
             update(Funs,
                    fun(State) ->
                            lists:foldl(fun(Bp, St) -> St#{Bp => Ms} end, State, Bps)
                    end,
                    update(Exports, fun(State) -> maps:remove(global, State) end,
                           Model))};
        Bps ->
            {length(Funs), update(Funs, fun(State) -> maps:without(Bps, State) end,
                                  Model)}
    end.

update(MFAs, Fun, Model) ->
    lists:foldl(fun(MFA, Acc) -> Acc#{MFA => Fun(maps:get(MFA, Acc, #{}))} end,
                Model, MFAs).

check_model(Model, Op) ->
    [begin
         State = maps:get(MFA, Model, #{}),
         Info = info_items(erlang:trace_info(MFA, all)),
         Traced = case State of
                      #{global := _} -> global;
                      #{local := _} -> local;
                      _ -> false
                  end,
         ?assertEqual({Op, MFA, Traced}, {Op, MFA, proplists:get_value(traced, Info)}),
         ?assertEqual({Op, MFA, maps:get(global, State, maps:get(local, State, false))},
                      {Op, MFA, proplists:get_value(match_spec, Info)}),
         [?assertEqual({Op, MFA, Bp, maps:is_key(Bp, State)},
                       {Op, MFA, Bp, case proplists:get_value(Bp, Info) of
                                         [] when Bp =:= meta -> false;
                                         false -> false;
                                         _ -> true
                                     end})
          || Bp <- [call_count, call_time, meta], not is_map_key(global, State)]
     end || MFA <- all_funs()],
    Expected = [{M, F, Args} || {M, F, Args, Kind} <- calls(),
                                is_traced(maps:get({M, F, length(Args)}, Model, #{}),
                                          Kind, length(Args))],
    ?assertEqual({Op, Expected}, {Op, traced_calls(fun call_all/0)}).

is_traced(#{global := Ms}, Kind, Arity) -> Kind =:= external andalso ms(Ms, Arity);
is_traced(#{local := Ms}, _Kind, Arity) -> ms(Ms, Arity);
is_traced(_, _Kind, _Arity) -> false.

ms([{['_'], [], []}, {['_', '_'], [], []}], Arity) -> Arity =:= 1 orelse Arity =:= 2;
ms(_, _Arity) -> true.

%% The calls that call_all/0 makes.
calls() ->
    lists:append(
      [[{M, F, [1], external} || F <- [f1, f2, f3, f4]]
       ++ [{M, f1, [1, 2], external}, {M, local, [], external}]
       ++ [{M, F, [1], local} || F <- [f1, f2, f3, f4]]
       ++ [{M, f1, [1, 2], local}, {M, hidden, [1], local}]
       || M <- mods()]).

call_all() ->
    [begin
         [M:F(1) || F <- [f1, f2, f3, f4]],
         M:f1(1, 2),
         M:local()
     end || M <- mods()].

infos(S) ->
    [{MFA, without_numbers(trace:info(S, MFA, all))} || MFA <- all_funs()].

without_numbers(All) ->
    [case Item of
         {call_count, N} when is_integer(N) -> {call_count, true};
         {call_time, L} when is_list(L) -> {call_time, true};
         Other -> Other
     end || Item <- info_items(All)].

info_items({all, false}) ->
    [{Item, false} || Item <- [traced, match_spec, meta, call_count, call_time]];
info_items({all, Items}) ->
    Items.

%% The calls that are traced in a process that runs Fun, which is a fun of this module or of the
%% generated ones.
traced_calls(Fun) ->
    traced_calls(fun(Pid, How) -> erlang:trace(Pid, How, [call]) end, Fun,
                 fun() -> erlang:trace_delivered(all) end).

traced_calls(S, Fun) ->
    traced_calls(fun(Pid, How) -> trace:process(S, Pid, How, [call]) end, Fun,
                 fun() -> erlang:trace_delivered(all) end).

traced_calls(Trace, Fun, Delivered) ->
    {Pid, Mon} = spawn_monitor(fun() -> receive go -> Fun() end end),
    1 = Trace(Pid, true),
    Pid ! go,
    receive {'DOWN', Mon, process, Pid, normal} -> ok end,
    Ref = Delivered(),
    receive {trace_delivered, all, Ref} -> ok end,
    flush(Pid).

%% Meta trace messages are left out.
flush(Pid) ->
    receive
        {trace, Pid, call, MFA} -> [MFA | flush(Pid)];
        {trace_ts, Pid, call, _, _} -> flush(Pid)
    after 0 ->
            []
    end.

collector(Traced) ->
    receive
        {trace, Pid, call, {_, _, [Seq]}} ->
            collector(Traced#{Pid => [Seq | maps:get(Pid, Traced, [])]});
        {get, From, Pid} ->
            From ! {traced, Pid, lists:reverse(maps:get(Pid, Traced, []))},
            collector(maps:remove(Pid, Traced))
    end.

worker(Pairs, Seq) ->
    %% Slow enough for the collector to keep up
    _ = lists:seq(1, 2000),
    {{M1, F1, 1}, {M2, F2, 1}} = element(1 + (Seq div 2) rem tuple_size(Pairs), Pairs),
    M1:F1(Seq),
    M2:F2(Seq + 1),
    receive
        {ping, From} ->
            %% At least one call of each kind after the last flip
            worker_pong(Pairs, Seq + 2, From);
        stop ->
            Seq + 2
    after 0 ->
            worker(Pairs, Seq + 2)
    end.

worker_pong(Pairs, Seq, From) ->
    {{M1, F1, 1}, {M2, F2, 1}} = element(1 + (Seq div 2) rem tuple_size(Pairs), Pairs),
    M1:F1(Seq),
    M2:F2(Seq + 1),
    From ! {pong, self()},
    worker(Pairs, Seq + 2).

%% How often the set of traced functions changed, computed from the traced ones of the calls
%% 0..Last-1: in one state the even calls are traced, in the other state the odd ones.
changes(Traced, Last) ->
    changes(Traced, 0, Last, undefined, 0).

changes(_, Last, Last, _, N) ->
    N;
changes([Seq | Traced], Seq, Last, State, N) ->
    change(Traced, Seq, Last, State, Seq rem 2, N);
changes(Traced, Seq, Last, State, N) ->
    change(Traced, Seq, Last, State, 1 - Seq rem 2, N).

change(Traced, Seq, Last, State, NewState, N) when State =:= undefined; State =:= NewState ->
    changes(Traced, Seq + 1, Last, NewState, N);
change(Traced, Seq, Last, _, NewState, N) ->
    changes(Traced, Seq + 1, Last, NewState, N + 1).

sink() ->
    receive
        {sync, From} -> From ! synced;
        _ -> ok
    end,
    sink().

%% Calls all functions repeatedly, as fast as the sink can receive trace messages.
caller(Sink) ->
    [try
         M:F(1)
     catch
         error:undef -> ok
     end || M <- mods(), F <- [f1, f2, f3, f4]],
    [try
         M:local(), M:calls(3)
     catch
         error:undef -> ok
     end || M <- mods()],
    Sink ! {sync, self()},
    receive synced -> ok end,
    caller(Sink).
