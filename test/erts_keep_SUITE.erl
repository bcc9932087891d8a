%% SPDX-License-Identifier: Apache-2.0
%%
%% Sessions that keep their patterns when code is loaded.
-module(erts_keep_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-export([suite/0, all/0, groups/0, init_per_suite/1, end_per_suite/1, init_per_group/2,
         end_per_group/2, init_per_testcase/2, end_per_testcase/2]).
-export([unknown_in_stock/1,
         bad_options/1, every_kind/1, reload_changes_nothing/1, as_if_it_had_been_there/1,
         first_load/1, deleted_module/1, functions_that_come_and_go/1, everything/1,
         several_modules/1, other_sessions/1, on_load_patterns/1, batch/1, match_specs/1,
         paused_counters/1, on_load_function_fails/1, traced_while_on_load/1, bifs/1,
         first_call/1, first_call_of_on_load_module/1, nothing_stops/1, many_patterns/1, one_module/1,
         forgotten_patterns/1, destroyed/1, destroyed_with_many/1, stress/1]).

-import(erts_reload_work,
        [is_patched/0,
         mod/1, load/2, load_softly/2, load_on_load/3, purge_softly/1, unload/1, code/2,
         on_load_code/2, session/0, session/1, calls/2, flush/0, pick/1]).

-define(KINDS, erts_reload_work:kinds()).

suite() ->
    [{timetrap, {minutes, 5}}].

all() ->
    [unknown_in_stock, {group, patched}].

groups() ->
    [{patched, [],
      [bad_options, every_kind, reload_changes_nothing, as_if_it_had_been_there,
       first_load, deleted_module, functions_that_come_and_go, everything, several_modules,
       other_sessions, on_load_patterns, batch, match_specs, paused_counters,
       on_load_function_fails, traced_while_on_load, bifs, first_call,
       first_call_of_on_load_module, nothing_stops, many_patterns, one_module,
       forgotten_patterns, destroyed, destroyed_with_many, stress]}].

init_per_suite(Config) -> erts_reload_work:init_suite(Config).

end_per_suite(_Config) -> erts_reload_work:end_suite().

init_per_group(patched, Config) ->
    erts_reload_work:init_patched(Config).

end_per_group(_Group, _Config) ->
    ok.

init_per_testcase(unknown_in_stock, Config) ->
    case is_patched() of
        true -> {skip, "this runtime carries the kymo series"};
        false -> Config
    end;
init_per_testcase(_Case, Config) ->
    erts_reload_work:init_case(Config).

end_per_testcase(unknown_in_stock, _Config) ->
    ok;
end_per_testcase(_Case, Config) ->
    erts_reload_work:end_case(Config).

kept() -> session([keep_patterns]).

unknown_in_stock(_Config) ->
    ?assertError(badarg, trace:session_create(?MODULE, self(), [keep_patterns])).

bad_options(_Config) ->
    [?assertMatch({badarg, #{3 := _}}, bad_session(Opts))
     || Opts <- [keep_patterns, [keep], [keep_patterns, x], [keep_patterns | x], [{keep_patterns, true}],
                 #{}]],
    S = session([keep_patterns, keep_patterns]),
    true = trace:session_destroy(S).

%% The class of the exception and what the shell would print about the arguments.
bad_session(Opts) ->
    try trace:session_create(?MODULE, self(), Opts) of
        Session -> Session
    catch
        error:Reason:Stack ->
            [{trace, session_create, As, _} | _] = Stack,
            {Reason, erl_kernel_errors:format_error(Reason, [{trace, session_create, As,
                                                              [{error_info, #{}}]}])}
    end.

%% New code is traced as the old code was.
every_kind(_Config) ->
    M = mod(1),
    [begin
         load(M, 1),
         S = kept(),
         trace:function(S, {M, F, A}, true, Kind),
         Before = calls(S, fun() -> {f, 1, 1} = M:f(1) end),
         [begin
              load(M, Version),
              ?assertEqual(info_of(S, {M, f, 1}, 0), info(S, {M, f, 1})),
              ?assertEqual(Before, calls(S, fun() -> {f, 1, Version} = M:f(1) end)),
              not lists:member(call_count, Kind) orelse
                  ?assertEqual({call_count, 1}, trace:info(S, {M, f, 1}, call_count))
          end || Version <- [2, 1, 1, 2]],
         trace:function(S, {M, F, A}, false, Kind),
         load(M, 1),
         ?assertEqual({all, false}, trace:info(S, {M, f, 1}, all)),
         trace:session_destroy(S)
     end || Kind <- ?KINDS, {F, A} <- [{f, 1}, {f, '_'}, {'_', '_'}]].

%% What trace:info/3 returns for a function, without the values of counters.
info(S, MFA) -> info_of(S, MFA, 0).

info_of(S, MFA, Zero) ->
    case trace:info(S, MFA, all) of
        {all, L} when is_list(L) -> [uncounted(I, Zero) || I <- L];
        Other -> Other
    end.

uncounted({call_count, N}, Zero) when is_integer(N) -> {call_count, Zero};
uncounted({Key, L}, _) when is_list(L), (Key =:= call_time orelse Key =:= call_memory) -> {Key, []};
uncounted(Item, _) -> Item.

%% Loading the same code again changes nothing, whichever patterns were set in whichever order.
reload_changes_nothing(_Config) ->
    M = mod(1),
    _ = rand:seed(exsss, {3, 2, 1}),
    [begin
         load(M, 1),
         S = kept(),
         Said = [begin
                     Op = random_operation(M, 1),
                     say(S, Op),
                     Op
                 end || _ <- lists:seq(1, rand:uniform(12))],
         Before = all_info(S, M),
         load(M, 1),
         ?assertEqual({Said, Before}, {Said, all_info(S, M)}),
         load_on_load(M, 1, false),
         ?assertEqual({Said, Before}, {Said, all_info(S, M)}),
         trace:session_destroy(S)
     end || _ <- lists:seq(1, 300)].

%% New code is traced as if it had been loaded when the patterns were set, except that the set
%% of exported functions, which global tracing depends on, may differ.
as_if_it_had_been_there(_Config) ->
    M = mod(1),
    There = mod(2),
    _ = rand:seed(exsss, {4, 2, 1}),
    [begin
         load(M, 1),
         load(There, 2),
         S = kept(),
         Said = [begin
                     {MFA, How, Kind} = Op = random_operation(M, pick([1, 2])),
                     say(S, Op),
                     say(S, {setelement(1, MFA, There), How, Kind}),
                     Op
                 end || _ <- lists:seq(1, rand:uniform(12))],
         load(M, 2),
         ?assertEqual({Said, all_info(S, There)}, {Said, all_info(S, M)}),
         trace:session_destroy(S)
     end || _ <- lists:seq(1, 300)].

random_operation(M, Version) ->
    MFA = pick([{M, '_', '_'}, {M, f, '_'}, {M, f, 1}, {M, calls, 1}, {M, local, '_'},
                {M, only(Version), 0}]),
    case pick([set, set, set, clear, counters]) of
        set -> {MFA, true, pick([[] | ?KINDS])};
        clear -> {MFA, false, pick([[] | ?KINDS])};
        counters -> {MFA, pick([pause, restart]), pick([[call_count], [call_time], [call_memory]])}
    end.

say(S, {MFA, How, Kind}) -> trace:function(S, MFA, How, Kind).

only(1) -> only1;
only(2) -> only2.

all_info(S, M) ->
    [{F, A, info(S, {M, F, A})} || {F, A} <- lists:sort(M:module_info(functions))].

%% A pattern may be set before the module is loaded.
first_load(_Config) ->
    [M, Other] = [mod(1), mod(2)],
    [begin
         S = kept(),
         [?assertEqual(0, trace:function(S, {M, F, A}, true, [local]))
          || {F, A} <- [{f, 1}, {calls, '_'}]],
         Load(M),
         load(Other, 1),
         ?assertEqual([{M, f, [1]}], calls(S, fun() -> M:f(1), M:only1(), Other:f(1) end)),
         ?assertEqual([{M, calls, [0]}], calls(S, fun() -> M:calls(0) end)),
         trace:session_destroy(S),
         unload(M)
     end || Load <- [fun(X) -> load(X, 1) end, fun(X) -> load_on_load(X, 1, true) end]].

deleted_module(_Config) ->
    M = mod(1),
    [begin
         load(M, 1),
         S = kept(),
         1 = trace:function(S, {M, f, 1}, true, Kind),
         unload(M),
         ?assertEqual({traced, undefined}, trace:info(S, {M, f, 1}, traced)),
         load(M, 2),
         ?assertEqual([{M, f, [1]}], calls(S, fun() -> {f, 1, 2} = M:f(1) end)),
         trace:session_destroy(S)
     end || Kind <- [[local], [global]]].

functions_that_come_and_go(_Config) ->
    M = mod(1),
    [begin
         load(M, 1),
         S = kept(),
         1 = trace:function(S, {M, only1, 0}, true, Kind),
         load(M, 2),
         ?assertEqual([], calls(S, fun() -> {undefined_function, _} = (catch M:only1()), M:only2() end)),
         %% The module is loaded again, and has its pattern again.
         load(M, 1),
         ?assertEqual([{M, only1, []}], calls(S, fun() -> M:only1() end)),
         %% '_' matches all functions of later versions.
         trace:function(S, {M, '_', '_'}, true, Kind),
         load(M, 2),
         ?assertEqual([{M, only2, []}], calls(S, fun() -> M:only2() end)),
         ?assertEqual({traced, undefined}, trace:info(S, {M, only1, 0}, traced)),
         trace:session_destroy(S)
     end || Kind <- [[local], [global]], _ <- lists:seq(1, 5)].

%% {'_','_','_'} matches all modules that are loaded, and later patterns for some of them take
%% precedence.
everything(_Config) ->
    [M, Other] = [mod(1), mod(2)],
    load(M, 1),
    S = kept(),
    trace:function(S, {M, only1, 0}, true, [local]),
    trace:function(S, {'_', '_', '_'}, true, [call_count]),
    trace:function(S, {M, calls, 1}, false, [call_count]),
    load(M, 1),
    load(Other, 1),
    [?assertEqual({MFA, {call_count, Count}}, {MFA, trace:info(S, MFA, call_count)})
     || {MFA, Count} <- [{{M, f, 1}, 0}, {{M, calls, 1}, false}, {{M, local, 0}, 0},
                         {{Other, f, 1}, 0}, {{Other, calls, 1}, 0}]],
    ?assertEqual({traced, local}, trace:info(S, {M, only1, 0}, traced)),
    %% Clearing the widest pattern clears all others.
    trace:function(S, {'_', '_', '_'}, false, [call_count]),
    trace:function(S, {'_', '_', '_'}, false, [local]),
    load(M, 1),
    load(Other, 1),
    [?assertEqual({all, false}, trace:info(S, {X, F, A}, all))
     || X <- [M, Other], {F, A} <- [{f, 1}, {calls, 1}, {only1, 0}]],
    trace:session_destroy(S).

several_modules(_Config) ->
    Ms = [mod(I) || I <- lists:seq(1, 8)],
    S = kept(),
    [load(M, 1) || M <- Ms],
    [1 = trace:function(S, {M, f, 1}, true, pick([[local], [global]])) || M <- Ms],
    ok = erlang:finish_loading([erlang:prepare_loading(M, code(M, 2)) || M <- Ms]),
    ?assertEqual([{M, f, [0]} || M <- Ms],
                 calls(S, fun() -> [{f, 0, 2} = M:f(0) || M <- Ms] end)),
    trace:session_destroy(S).

%% Each session has its own patterns, and keeps them or not.
other_sessions(_Config) ->
    M = mod(1),
    Kept = [kept(), kept(), kept()],
    Forgotten = [session(), session()],
    Kinds = [[local], [global], [call_count]],
    [begin
         load(M, 1),
         [1 = trace:function(S, {M, f, 1}, true, K)
          || {S, K} <- lists:zip(Kept ++ Forgotten, Kinds ++ [[local], [global]])],
         load(M, 2),
         [?assertEqual({all, false}, trace:info(S, {M, f, 1}, all)) || S <- Forgotten],
         ?assertEqual([{traced, local}, {traced, global}, {traced, false}],
                      [trace:info(S, {M, f, 1}, traced) || S <- Kept]),
         ?assertEqual({call_count, 0}, trace:info(lists:last(Kept), {M, f, 1}, call_count))
     end || _ <- lists:seq(1, 10)],
    %% A session ends, and its patterns with it.
    [begin
         trace:session_destroy(S),
         load(M, 1)
     end || S <- Kept ++ Forgotten],
    ?assertEqual([{M, f, [1]}], calls_of_new_session(M)).

calls_of_new_session(M) ->
    S = session(),
    1 = trace:function(S, {M, f, 1}, true, [local]),
    Calls = calls(S, fun() -> M:f(1) end),
    trace:session_destroy(S),
    Calls.

%% An on_load pattern applies to functions that no kept pattern matches.
on_load_patterns(_Config) ->
    M = mod(1),
    load(M, 1),
    S = kept(),
    trace:function(S, on_load, true, [call_count]),
    trace:function(S, {M, '_', '_'}, true, [call_time]),
    trace:function(S, {M, f, 1}, true, [global]),
    trace:function(S, {M, calls, 1}, true, [call_count]),
    trace:function(S, {M, '_', '_'}, false, [call_count]),
    [begin
         load(M, Version),
         ?assertEqual({traced, global}, trace:info(S, {M, f, 1}, traced)),
         ?assertEqual({call_time, false}, trace:info(S, {M, f, 1}, call_time)),
         ?assertEqual({call_time, []}, trace:info(S, {M, calls, 1}, call_time)),
         ?assertEqual({call_count, 0}, trace:info(S, {M, calls, 1}, call_count)),
         trace:function(S, on_load, false, [call_count])
     end || Version <- [2, 1], trace:function(S, on_load, true, [call_count]) =:= 0],
    trace:session_destroy(S),
    %% Either global or local, so that a call is reported only once.
    [begin
         Both = kept(),
         trace:function(Both, on_load, true, [OnLoad]),
         trace:function(Both, {M, f, 1}, true, [Kept]),
         load(M, 2),
         ?assertEqual({traced, Kept}, trace:info(Both, {M, f, 1}, traced)),
         ?assertEqual([{M, f, [1]}], calls(Both, fun() -> M:f(1) end)),
         trace:session_destroy(Both)
     end || {OnLoad, Kept} <- [{global, local}, {local, global}, {local, local}, {global, global}]].

batch(_Config) ->
    M = mod(1),
    load(M, 1),
    S = kept(),
    [1, 1] = trace:patterns(S, [{{M, f, 1}, true, [local]}, {{M, only1, 0}, true, [call_count]}]),
    ?assertError(_, trace:patterns(S, [{{M, calls, 1}, true, [local]}, {{M, f, 1}, true, [nonsense]}])),
    load(M, 1),
    ?assertEqual({traced, local}, trace:info(S, {M, f, 1}, traced)),
    ?assertEqual({call_count, 0}, trace:info(S, {M, only1, 0}, call_count)),
    ?assertEqual({traced, false}, trace:info(S, {M, calls, 1}, traced)),
    [1, 1] = trace:patterns(S, [{{M, f, 1}, false, [local]}, {{M, only1, 0}, false, [call_count]}]),
    load(M, 1),
    ?assertEqual({all, false}, trace:info(S, {M, f, 1}, all)),
    trace:session_destroy(S).

match_specs(_Config) ->
    M = mod(1),
    load(M, 1),
    S = kept(),
    Spec = [{['$1'], [{'>', '$1', 5}], [{message, {{seen, '$1'}}}]}],
    1 = trace:function(S, {M, f, 1}, Spec, [local]),
    1 = trace:function(S, {M, f, 1}, [{[3], [], [{return_trace}]}], [meta]),
    [begin
         load(M, Version),
         erlang:garbage_collect(),
         ?assertEqual({match_spec, Spec}, trace:info(S, {M, f, 1}, match_spec)),
         {Pid, Ref} = spawn_monitor(fun() -> receive go -> ok end, [M:f(N) || N <- [3, 5, 6]] end),
         1 = trace:process(S, Pid, true, [call]),
         Pid ! go,
         receive {'DOWN', Ref, _, _, normal} -> ok end,
         D = trace:delivered(S, Pid),
         receive {trace_delivered, Pid, D} -> ok end,
         ?assertEqual([{call, {seen, 6}}, {meta, [3]}, {return, {f, 3, Version}}], events(Pid))
     end || Version <- [2, 1, 2]],
    trace:session_destroy(S).

events(Pid) ->
    receive
        {trace, Pid, call, _, Seen} -> lists:sort([{call, Seen} | events(Pid)]);
        {trace_ts, Pid, call, {_, f, As}, _} -> lists:sort([{meta, As} | events(Pid)]);
        {trace_ts, Pid, return_from, _, Value, _} -> lists:sort([{return, Value} | events(Pid)])
    after 0 -> []
    end.

%% Counters restart from zero, and stay paused.
paused_counters(_Config) ->
    M = mod(1),
    load(M, 1),
    S = kept(),
    trace:function(S, {M, '_', '_'}, true, [call_count]),
    1 = trace:function(S, {M, f, 1}, pause, [call_count]),
    [begin
         M:f(1), M:calls(0),
         load(M, Version),
         M:f(1), M:calls(0),
         ?assertEqual({call_count, 0}, trace:info(S, {M, f, 1}, call_count)),
         ?assertEqual({call_count, 1}, trace:info(S, {M, calls, 1}, call_count))
     end || Version <- [2, 1]],
    1 = trace:function(S, {M, f, 1}, restart, [call_count]),
    load(M, 1),
    M:f(1),
    ?assertEqual({call_count, 1}, trace:info(S, {M, f, 1}, call_count)),
    trace:session_destroy(S).

%% The code stays current if its successor's -on_load() function fails. Sessions that keep
%% patterns continue to trace it and to count its calls; other sessions do not.
on_load_function_fails(_Config) ->
    M = mod(1),
    [begin
         load(M, 1),
         [S, Count, Other] = Ss = [kept(), kept(), session()],
         [trace:function(X, {M, '_', '_'}, true, K)
          || {X, K} <- lists:zip(Order(Ss), Order([Kind, [call_count], Kind]))],
         M:f(0),
         [begin
              load_on_load(M, 2, false),
              ?assertEqual({traced, false}, trace:info(Other, {M, f, 1}, traced)),
              ?assertEqual([], calls(Other, fun() -> {f, 5, 1} = M:f(5) end)),
              ?assertEqual([{M, f, [5]}], calls(S, fun() -> {f, 5, 1} = M:f(5) end)),
              ?assertEqual({call_count, 1 + 2 * N}, trace:info(Count, {M, f, 1}, call_count))
          end || N <- lists:seq(1, 5)],
         %% The patterns of the other session can be set again.
         trace:function(Other, {M, '_', '_'}, true, Kind),
         ?assertEqual([{M, f, [6]}], calls(Other, fun() -> {f, 6, 1} = M:f(6) end)),
         load_on_load(M, 2, true),
         ?assertEqual([], calls(Other, fun() -> {f, 5, 2} = M:f(5) end)),
         ?assertEqual([{M, f, [5]}], calls(S, fun() -> {f, 5, 2} = M:f(5) end)),
         [trace:session_destroy(X) || X <- Ss],
         unload(M)
     end || Kind <- [[local], [global]],
            Order <- [fun(L) -> L end, fun lists:reverse/1, fun([A, B, C]) -> [A, C, B] end]].

%% The current code stays traced while the -on_load() function of its successor runs, and
%% patterns that are then set or cleared apply to both.
traced_while_on_load(_Config) ->
    M = mod(1),
    [begin
         load(M, 1),
         S = kept(),
         Before andalso trace:function(S, {M, '_', '_'}, true, Kind),
         {on_load, [M]} = erlang:finish_loading([erlang:prepare_loading(M, on_load_code(M, 2))]),
         ?assertEqual([{M, f, [4]} || Before], calls(S, fun() -> {f, 4, 1} = M:f(4) end)),
         trace:function(S, {M, '_', '_'}, not Before, Kind),
         ?assertEqual([{M, f, [5]} || not Before], calls(S, fun() -> {f, 5, 1} = M:f(5) end)),
         ok = erlang:call_on_load_function(M),
         erts_code_purger:finish_after_on_load(M, Success),
         Version = case Success of true -> 2; false -> 1 end,
         ?assertEqual([{M, f, [6]} || not Before], calls(S, fun() -> {f, 6, Version} = M:f(6) end)),
         trace:session_destroy(S),
         unload(M)
     end || Kind <- [[local], [global]], Before <- [true, false], Success <- [true, false]].

%% BIFs of a module that is loaded again.
bifs(_Config) ->
    {_, Code, _} = code:get_object_code(lists),
    S = kept(),
    [begin
         1 = trace:function(S, {lists, member, 2}, true, Kind),
         [begin
              purge_softly(lists),
              {module, lists} = erlang:load_module(lists, Code),
              ?assertEqual([{lists, member, [a, [a]]}],
                           calls(S, fun() -> apply(lists, member, [a, [a]]) end))
          end || _ <- [1, 2]],
         1 = trace:function(S, {lists, member, 2}, false, Kind)
     end || Kind <- [[global], [local]]],
    purge_softly(lists),
    trace:session_destroy(S).

%% No call is missed, whichever version it is in.
first_call(_Config) ->
    [erts_reload_work:first_call(Kinds, [keep_patterns], {mod(1), f, 1},
                                 fun erts_reload_work:numbered_code/2,
                                 fun erts_reload_work:load_code_softly/2,
                                 fun erts_reload_work:check_missed/3)
     || Kinds <- [[[local]], [[global]], [[meta]], [[local], [global]]]].

first_call_of_on_load_module(_Config) ->
    [erts_reload_work:first_call(Kinds, [keep_patterns], {mod(1), f, 1},
                                 fun erts_reload_work:numbered_on_load_code/2,
                                 fun erts_reload_work:load_on_load_softly/2,
                                 fun erts_reload_work:check_missed/3)
     || Kinds <- [[[local]], [[global]], [[local], [global]]]].

nothing_stops(_Config) ->
    M = mod(1),
    Stops = erlang:system_info(kymo_blocking),
    [begin
         S = kept(),
         load(M, 1),
         trace:function(S, {M, '_', '_'}, true, Kind),
         load(M, 2),
         load_on_load(M, 1, false),
         load_on_load(M, 1, true),
         unload(M),
         load(M, 2),
         trace:session_destroy(S)
     end || Kind <- ?KINDS],
    ?assertEqual(Stops, erlang:system_info(kymo_blocking)).

%% Thousands of patterns for modules that may not be loaded.
many_patterns(_Config) ->
    M = mod(1),
    S = kept(),
    Ops = [{{mod(I), F, A}, true, [local]}
           || I <- lists:seq(1, 2000), {F, A} <- [{f, 1}, {calls, 1}, {only1, '_'}]],
    _ = trace:patterns(S, Ops),
    load(M, 1),
    ?assertEqual([{M, f, [1]}], calls(S, fun() -> M:f(1) end)),
    _ = trace:patterns(S, [{MFA, false, Kind} || {MFA, _, Kind} <- Ops]),
    load(M, 1),
    ?assertEqual({traced, false}, trace:info(S, {M, f, 1}, traced)),
    _ = trace:patterns(S, Ops),
    trace:function(S, {'_', '_', '_'}, false, [local]),
    load(M, 1),
    ?assertEqual({traced, false}, trace:info(S, {M, f, 1}, traced)),
    _ = trace:patterns(S, Ops),
    trace:session_destroy(S).

%% Many patterns of one module, by arity, by name, and for all of it.
one_module(_Config) ->
    M = mod(1),
    Functions = [{list_to_atom("f" ++ integer_to_list(I)), A}
                 || I <- lists:seq(1, 500), A <- lists:seq(0, 3)],
    Code = module_of(M, Functions),
    {module, M} = erlang:load_module(M, Code),
    S = kept(),
    By = fun(Rem, Name) -> [{F, A} || {F, A} <- Functions,
                                      list_to_integer(tl(atom_to_list(F))) rem 10 =:= Rem,
                                      Name orelse A =:= 2] end,
    Names = lists:usort([F || {F, _} <- By(3, true)]),
    Ops = [{{M, F, A}, true, [local]} || {F, A} <- By(1, false)]
        ++ [{{M, F, '_'}, true, [local]} || F <- Names]
        ++ [{{M, F, 1}, false, [local]} || F <- Names]
        ++ [{{M, '_', '_'}, true, [call_count]}]
        ++ [{{M, F, A}, false, [call_count]} || {F, A} <- By(5, true)],
    _ = trace:patterns(S, Ops),
    Check =
        fun() ->
                ?assertEqual(
                   lists:sort(By(1, false) ++ [FA || {_, A} = FA <- By(3, true), A =/= 1]),
                   lists:sort([FA || {F, A} = FA <- Functions,
                                     trace:info(S, {M, F, A}, traced) =:= {traced, local}])),
                ?assertEqual(
                   lists:sort(By(5, true)),
                   lists:sort([FA || {F, A} = FA <- Functions,
                                     trace:info(S, {M, F, A}, call_count) =:= {call_count, false}]))
        end,
    Check(),
    erts_code_purger:purge(M),
    {module, M} = erlang:load_module(M, Code),
    Check(),
    trace:session_destroy(S).

module_of(M, Functions) ->
    {ok, M, Code} =
        compile:forms([{attribute, 1, module, M}, {attribute, 1, export, Functions}
                       | [{function, 1, F, A, [{clause, 1, [{var, 1, '_'} || _ <- lists:seq(1, A)],
                                                [], [{atom, 1, F}]}]} || {F, A} <- Functions]], []),
    Code.

%% Removed patterns use no memory, neither during the session nor afterwards.
forgotten_patterns(_Config) ->
    Count = fun() -> erts_debug:get_internal_state(kept_patterns) end,
    Before = Count(),
    S = kept(),
    MFAs = [{mod(I), F, A} || I <- lists:seq(1, 1000), {F, A} <- [{f, 1}, {f, '_'}, {g, 2}]],
    Set = [{MFA, true, [local]} || MFA <- MFAs],
    %% {M,f,'_'} replaces {M,f,1}; what is left are M itself, f, g and g/2.
    Nodes = 1000 * 4,
    [begin
         _ = trace:patterns(S, Set),
         ?assertEqual(Before + Nodes, Count()),
         _ = trace:patterns(S, Clear),
         ?assertEqual(Before, Count())
     end || Clear <- [[{MFA, false, [local]} || MFA <- MFAs],
                      [{MFA, false, [local]} || MFA <- lists:reverse(MFAs)],
                      [{{mod(I), '_', '_'}, false, [local]} || I <- lists:seq(1, 1000)],
                      [{{'_', '_', '_'}, false, [local]}]]],
    _ = trace:patterns(S, Set),
    trace:session_destroy(S),
    wait_until(fun() -> Count() =:= Before end).

wait_until(Fun) ->
    case Fun() of
        true -> ok;
        false -> erlang:yield(), wait_until(Fun)
    end.

%% A session that was destroyed, or is no longer referenced, keeps nothing.
destroyed(_Config) ->
    M = mod(1),
    load(M, 1),
    [begin
         S = kept(),
         trace:function(S, {M, '_', '_'}, true, [local]),
         trace:function(S, {M, f, 1}, [{'_', [], [{message, false}]}], [meta]),
         true = trace:session_destroy(S)
     end || _ <- lists:seq(1, 100)],
    [begin
         {Pid, Ref} = spawn_monitor(fun() ->
                                            S = kept(),
                                            trace:function(S, {M, '_', '_'}, true, [local])
                                    end),
         receive {'DOWN', Ref, _, Pid, normal} -> ok end
     end || _ <- lists:seq(1, 100)],
    wait_until(fun() -> trace_sessions() =:= [] end),
    load(M, 2),
    ?assertEqual({trace_sessions(), []}, {[], flush()}).

%% The patterns of a session that is destroyed are freed in steps, and belong to it until then.
destroyed_with_many(_Config) ->
    Count = fun() -> erts_debug:get_internal_state(kept_patterns) end,
    Before = Count(),
    S = kept(),
    Patterns = [{{list_to_atom("destroyed_with_many_" ++ integer_to_list(I)), f, 1}, [{'_', [], []}], [local]}
                || I <- lists:seq(1, 3000)],
    ?assertEqual(lists:duplicate(3000, 0), trace:patterns(S, Patterns)),
    ?assert(Count() >= Before + 3000),
    true = trace:session_destroy(S),
    wait_until(fun() -> {trace_sessions(), Count()} =:= {[], Before} end).

trace_sessions() ->
    {all, L} = {all, trace:session_info(all)},
    [S || {Name, _} = S <- L, Name =:= erts_reload_work].

%% All operations at the same time.
stress(_Config) ->
    Ms = [mod(I) || I <- lists:seq(1, 3)],
    Until = erts_reload_work:stress_until(),
    Workers = [spawn_monitor(fun() ->
                                     process_flag(error_handler, erts_reload_work),
                                     _ = rand:seed(exsss, {1, 2, Seed}),
                                     repeat(fun() -> work(What) end, Until)
                             end)
               || {Seed, What} <- lists:enumerate([{loader, M} || M <- Ms]
                                                  ++ [{caller, Ms}, {caller, Ms}]
                                                  ++ [{tracer, Ms} || _ <- lists:seq(1, 3)])],
    [receive {'DOWN', Ref, _, Pid, Reason} -> ?assertEqual({Pid, normal}, {Pid, Reason}) end
     || {Pid, Ref} <- Workers].

repeat(Fun, Until) ->
    Fun(),
    erlang:monotonic_time(millisecond) < Until andalso repeat(Fun, Until).

work({loader, M}) ->
    Version = rand:uniform(2),
    purge_softly(M),
    case rand:uniform(5) of
        1 -> erlang:delete_module(M);
        2 -> load_on_load(M, Version, true);
        3 -> load_on_load(M, Version, false);
        _ -> load_softly(M, Version)
    end,
    purge_softly(M);
work({caller, Ms}) ->
    M = pick(Ms),
    case catch {M:f(1), M:calls(5)} of
        {{f, 1, _}, done} -> ok;
        {undefined_function, {M, _, _}} -> ok
    end;
%% Its session keeps its own patterns, whatever the other processes do.
work({tracer, Ms}) ->
    S = session([keep_patterns || rand:uniform(4) > 1]),
    [begin
         Op = random_operation(pick(Ms), pick([1, 2])),
         say(S, Op),
         _ = trace:info(S, {pick(Ms), f, 1}, pick([all, call_time, call_count, traced]))
     end || _ <- lists:seq(1, rand:uniform(20))],
    flush(),
    case rand:uniform(4) of
        1 -> erlang:garbage_collect();                  % dropped, not destroyed
        _ -> trace:session_destroy(S)
    end.
