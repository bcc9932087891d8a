%% SPDX-License-Identifier: Apache-2.0
%%
%% The action {slow, Microseconds} of match specifications: an event for each call that takes
%% that long, and nothing else, whatever happens to the process, its code, and the session
%% during the call.
-module(erts_slow_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2, end_per_testcase/2]).
-export([errors/1, error_texts/1, fun2ms/1,
         message/1, threshold/1, waiting_counts/1, times/1, global/1, legacy/1, batch/1, meta/1,
         raw/1, raw_version_1/1, raw_removes/1, behaviour/1, tracer_dies/1,
         spec_selects/1, spec_with_actions/1, spec_with_message/1, silent/1, sensitive/1,
         tail_calls/1, tail_calls_of_sessions/1, tail_loop/1, sessions_that_end/1,
         caught/1, uncaught/1, exit_signal/1, stacktraces/1, bifs/1,
         hibernates/1, collections/1, largest_arity/1,
         purged/1, kept_patterns/1, crash_dump/1,
         sessions/1, session_destroyed/1, cleared_inside/1, untraced_inside/1, untraced/1,
         with_counters/1, with_return_to/1, storm/1]).
-export([leaf/1, inner/1, outer/1, tail/1, ping/1, pong/1, fails/1, passes/1, catches/1, wait/1,
         grows/1, sleeps_in/2, hibernate/1, woken/1, caller/1, large/255, size/1, run/1, id/1,
         turns/0]).

-import(erts_worker, [do/2, in/2, stop/1, told/1, flush/0]).

-define(RAW1, event_tracer_raw).
-define(RAW2, event_tracer_raw2).
-define(BEHAVIOUR, event_tracer).
-define(HOUR, 3600000000).

suite() ->
    [{timetrap, {minutes, 5}}].

all() ->
    [errors, error_texts, fun2ms,
     message, threshold, waiting_counts, times, global, legacy, batch, meta,
     raw, raw_version_1, raw_removes, behaviour, tracer_dies,
     spec_selects, spec_with_actions, spec_with_message, silent, sensitive,
     tail_calls, tail_calls_of_sessions, tail_loop, sessions_that_end,
     caught, uncaught, exit_signal, stacktraces, bifs,
     hibernates, collections, largest_arity,
     purged, kept_patterns, crash_dump,
     sessions, session_destroyed, cleared_inside, untraced_inside, untraced,
     with_counters, with_return_to, storm].

init_per_suite(Config) ->
    case erlang:match_spec_test([], slow(0), trace) of
        {ok, false, [], []} ->
            Tracers = [{?BEHAVIOUR, []}, {?RAW1, ["-DRAW=1"]}, {?RAW2, ["-DRAW=2"]}],
            [{codes, erts_tracer_nif:codes(?config(priv_dir, Config), Tracers)} | Config];
        {error, _} ->
            {skip, "this runtime does not know slow calls"}
    end.

end_per_suite(_Config) ->
    ok.

init_per_testcase(_Case, Config) ->
    erts_tracer_nif:load(?config(codes, Config)),
    Config.

end_per_testcase(_Case, _Config) ->
    erlang:trace(all, false, [all]),
    erlang:trace_pattern({'_', '_', '_'}, false, [local]),
    [trace:session_destroy(S) || {_, {?MODULE, _}} = S <- trace:session_info(all)],
    ok.

%%--------------------------------------------------------------------------
%% Setting it

%% The same errors as for other actions, and nothing is set.
errors(_Config) ->
    S = session(),
    MFA = {?MODULE, leaf, 1},
    Actions = [{slow}, {slow, 1, 2}, {slow, -1}, {slow, 1.0}, {slow, a}, {slow, "1"}, {slow, '$1'},
               {slow, 1 bsl 60}, {slow, {const, 1}}, {slow, {'+', 1, 1}}],
    Specs = [[{'_', [], [A]}] || A <- Actions]
        ++ [[{['$1'], [], [{slow, '$1'}]}], [{'_', [{slow, 1}], []}], [{'_', [], [{slow, 1}, {slow, x}]}]],
    [begin
         ?assertError(badarg, trace:function(S, MFA, Spec, [local])),
         ?assertError(badarg, trace:function(S, MFA, Spec, [])),
         ?assertError(badarg, erlang:trace_pattern(MFA, Spec, [local])),
         ?assertError(badarg, trace:patterns(S, [{MFA, true, [local]}, {MFA, Spec, [local]}])),
         ?assertEqual({traced, false}, trace:info(S, MFA, traced))
     end || Spec <- Specs],
    %% A match specification is not allowed with counters alone, as any other one.
    ?assertError(badarg, trace:function(S, MFA, slow(1), [call_count])),
    %% Only calls can be slow.
    ?assertError(badarg, trace:send(S, slow(1), [])),
    ?assertError(badarg, trace:recv(S, slow(1), [])),
    ?assertError(badarg, ets:match_spec_compile(slow(1))),
    %% The largest thresholds.
    [begin
         1 = trace:function(S, MFA, slow(N), [local]),
         ?assertEqual({match_spec, slow(N)}, trace:info(S, MFA, match_spec))
     end || N <- [0, ?HOUR, (1 bsl 59) - 1]].

error_texts(_Config) ->
    Text = fun(Spec) ->
                   {error, Errors} = erlang:match_spec_test([1], Spec, trace),
                   lists:flatten([T || {error, T} <- Errors])
           end,
    ?assertEqual("Special form 'slow' called with wrong number of arguments in {slow}.",
                 Text([{'_', [], [{slow}]}])),
    ?assertEqual("Special form 'slow' called with something other than microseconds in {slow,-1}.",
                 Text([{'_', [], [{slow, -1}]}])),
    ?assertEqual("Special form 'slow' called in guard context.", Text([{'_', [{slow, 1}], []}])),
    {error, [{error, Table}]} = erlang:match_spec_test({1}, [{'_', [], [{slow, 1}]}], table),
    ?assertEqual("Special form 'slow' used in wrong dialect.", lists:flatten(Table)).

fun2ms(_Config) ->
    {ok, Tokens, _} = erl_scan:string("fun([X]) when X > 1 -> slow(5000) end."),
    {ok, [{'fun', _, {clauses, Clauses}}]} = erl_parse:parse_exprs(Tokens),
    ?assertEqual([{['$1'], [{'>', '$1', 1}], [{slow, 5000}]}],
                 ms_transform:transform_from_shell(dbg, Clauses, [])).

%%--------------------------------------------------------------------------
%% The event

message(_Config) ->
    Formats = [{[], fun({trace, P, slow, MFA, {S, D}}) when is_integer(S), is_integer(D) -> {P, MFA} end},
               {[timestamp],
                fun({trace_ts, P, slow, MFA, {_, _}, {_, _, _}}) -> {P, MFA} end},
               {[monotonic_timestamp],
                fun({trace_ts, P, slow, MFA, {S, D}, T}) when T >= S + D -> {P, MFA} end},
               {[strict_monotonic_timestamp],
                fun({trace_ts, P, slow, MFA, {S, D}, {T, _}}) when T >= S + D -> {P, MFA} end},
               {[arity], fun({trace, P, slow, MFA, {_, _}}) -> {P, MFA} end}],
    [begin
         S = session(),
         set(S, [{leaf, 0}]),
         Tracee = tracee(S, [call | Flags]),
         do(Tracee, fun() -> [?MODULE:leaf(1), ?MODULE:leaf(2)] end),
         MFA = {?MODULE, leaf, 1},
         ?assertEqual([{Tracee, MFA}, {Tracee, MFA}], [Format(T) || T <- told(Tracee)]),
         stop(Tracee),
         true = trace:session_destroy(S)
     end || {Flags, Format} <- Formats].

threshold(_Config) ->
    S = session(),
    Tracee = tracee(S, [call]),
    [begin
         set(S, [{leaf, Threshold}]),
         do(Tracee, fun() -> [?MODULE:leaf(1)] end),
         ?assertEqual({Threshold, Expected}, {Threshold, functions(told(Tracee))})
     end || {Threshold, Expected} <- [{?HOUR, []}, {(1 bsl 59) - 1, []}, {0, [leaf]}, {?HOUR, []}]],
    %% Each event has taken at least that long, and each longer call has an event. The calls are
    %% also measured from outside and from inside.
    [begin
         set(S, [{sleeps_in, Threshold}]),
         Measured = in(Tracee, fun() -> [measured(N) || N <- lists:seq(0, 4000, 100)] end),
         Durations = [micros(D) || {trace, _, slow, {_, sleeps_in, 2}, {_, D}} <- told(Tracee)],
         ?assertEqual([], [D || D <- Durations, D < Threshold]),
         ?assert(length(Durations) >= length([I || {_, I} <- Measured, I >= Threshold])),
         ?assert(length(Durations) =< length([O || {O, _} <- Measured, O >= Threshold - 1]))
     end || Threshold <- [1000, 2000]],
    stop(Tracee).

%% {Microseconds outside, inside}: the event's are between the two.
measured(Micros) ->
    T0 = erlang:monotonic_time(),
    Inside = ?MODULE:sleeps_in(Micros, erlang:monotonic_time()),
    T1 = erlang:monotonic_time(),
    {micros(T1 - T0), micros(Inside)}.

%% @doc Takes that long; returns the time from its begin to its end as it sees them.
sleeps_in(Micros, _) ->
    T0 = erlang:monotonic_time(),
    spin_until(T0 + erlang:convert_time_unit(Micros, microsecond, native)),
    erlang:monotonic_time() - T0.

spin_until(Until) ->
    case erlang:monotonic_time() of
        T when T >= Until -> ok;
        _ -> spin_until(Until)
    end.

micros(Native) ->
    erlang:convert_time_unit(Native, native, microsecond).

waiting_counts(_Config) ->
    S = session(),
    Tracee = tracee(S, [call]),
    set(S, [{wait, 20000}]),
    do(Tracee, fun() -> [?MODULE:wait(40), ?MODULE:wait(0)] end),
    [{trace, Tracee, slow, {?MODULE, wait, 1}, {_, Duration}} | _] = told(Tracee),
    ?assert(micros(Duration) >= 40000 - 1000),
    stop(Tracee).

%% @doc Waits for as many milliseconds.
wait(Ms) ->
    receive after Ms -> ok end.

%% Start is the time of the call, Duration what it took.
times(_Config) ->
    S = session(),
    Tracee = tracee(S, [call]),
    set(S, [{sleeps_in, 0}]),
    {T0, Inside, T1} = in(Tracee, fun() ->
                                          T0 = erlang:monotonic_time(),
                                          Inside = ?MODULE:sleeps_in(500, T0),
                                          {T0, Inside, erlang:monotonic_time()}
                                  end),
    [{trace, Tracee, slow, _, {Start, Duration}}] = told(Tracee),
    ?assert(T0 =< Start),
    ?assert(Start + Duration =< T1),
    ?assert(Duration >= Inside),
    stop(Tracee).

%% A global pattern: only calls that name the module.
global(_Config) ->
    S = session(),
    Tracee = tracee(S, [call]),
    1 = trace:function(S, {?MODULE, leaf, 1}, slow(0), [global]),
    do(Tracee, fun() -> [?MODULE:leaf(1), leaf(2)] end),
    ?assertEqual([leaf], functions(told(Tracee))),
    stop(Tracee).

legacy(_Config) ->
    Tracee = spawn_link(fun erts_worker:worker/0),
    1 = erlang:trace_pattern({?MODULE, leaf, 1}, slow(0), [local]),
    1 = erlang:trace(Tracee, true, [call]),
    do(Tracee, fun() -> [?MODULE:leaf(1), leaf(2)] end),
    ?assertEqual([leaf, leaf], functions(told(Tracee))),
    stop(Tracee).

batch(_Config) ->
    S = session(),
    Tracee = tracee(S, [call]),
    [1, 1, 1] = trace:patterns(S, [{{?MODULE, leaf, 1}, slow(0), [local]},
                                   {{?MODULE, inner, 1}, slow(?HOUR), [local]},
                                   {{?MODULE, outer, 1}, slow(0), [local]}]),
    do(Tracee, fun() -> [?MODULE:outer(1)] end),
    ?assertEqual([leaf, outer], functions(told(Tracee))),
    [1, 1] = trace:patterns(S, [{{?MODULE, leaf, 1}, false, [local]},
                                {{?MODULE, inner, 1}, slow(0), [local]}]),
    do(Tracee, fun() -> [?MODULE:outer(1)] end),
    ?assertEqual([inner, outer], functions(told(Tracee))),
    stop(Tracee).

%% Of all processes.
meta(_Config) ->
    S = session(),
    Tracee = spawn_link(fun erts_worker:worker/0),
    1 = trace:function(S, {?MODULE, outer, 1}, slow(0), [meta]),
    1 = trace:function(S, {?MODULE, tail, 1}, slow(0), [meta]),
    1 = trace:function(S, {?MODULE, inner, 1}, slow(?HOUR), [meta]),
    do(Tracee, fun() -> [?MODULE:outer(1), ?MODULE:tail(1000)] end),
    ?assertMatch([{trace_ts, Tracee, slow, {?MODULE, outer, 1}, {_, _}, {_, _, _}},
                  {trace_ts, Tracee, slow, {?MODULE, tail, 1}, {_, _}, {_, _, _}}], told(Tracee)),
    stop(Tracee).

%%--------------------------------------------------------------------------
%% Tracers

%% Start, duration and depth, and no call of `enabled'.
raw(_Config) ->
    S = session(?RAW2),
    Tracee = tracee(S, [call, arity]),
    set(S, [{leaf, 0}, {outer, 0}, {inner, ?HOUR}]),
    T0 = nanos(),
    do(Tracee, fun() -> [?MODULE:outer(1)] end),
    T1 = nanos(),
    Told = told(Tracee),
    [{trace, slow, Tracee, {?MODULE, leaf, 1}, Leaf}, {trace, slow, Tracee, {?MODULE, outer, 1}, Outer}] =
        [T || T <- Told, element(1, T) =/= asked],
    ?assertEqual([depth, duration, start], lists:sort(maps:keys(Leaf))),
    ?assert(T0 =< maps:get(start, Outer)),
    ?assert(maps:get(start, Outer) =< maps:get(start, Leaf)),
    ?assert(maps:get(duration, Leaf) =< maps:get(duration, Outer)),
    ?assert(maps:get(start, Outer) + maps:get(duration, Outer) =< T1),
    ?assertEqual([raw_event, raw_event], [Q || {asked, Q, slow} <- Told]),
    ?assertEqual([], [Q || {asked, Q, _} <- Told, Q =:= raw_enabled]),
    %% The depth is that of the call.
    [1 = trace:function(S, {?MODULE, F, 1}, [{'_', [], [{slow, 0}, {message, true}]}], [local])
     || F <- [leaf, inner, outer, fails, passes, catches]],
    do(Tracee, fun() -> [?MODULE:outer(1), ?MODULE:catches(1)] end),
    Events = [{Tag, F, D} || {_, Tag, _, {_, F, _}, #{depth := D}} <- told(Tracee)],
    ?assertEqual(12, length(Events)),
    check_depths(Events, []),
    stop(Tracee).

check_depths([], []) -> ok;
check_depths([{call, F, D} | Es], Open) -> check_depths(Es, [{slow, F, D} | Open]);
check_depths([{slow, _, _} = E | Es], [E | Open]) -> check_depths(Es, Open).

nanos() -> erlang:monotonic_time(nanosecond).

%% Version 1 has no such event, and goes on with others.
raw_version_1(_Config) ->
    S = session(?RAW1),
    Tracee = tracee(S, [call]),
    set(S, [{leaf, 0}]),
    1 = trace:function(S, {?MODULE, outer, 1}, true, [local]),
    do(Tracee, fun() -> [?MODULE:outer(1), ?MODULE:outer(2)] end),
    ?assertEqual([{call, [1]}, {call, [2]}],
                 [{Tag, A} || {_, Tag, _, {?MODULE, outer, A}, _} <- told(Tracee)]),
    stop(Tracee).

%% The answers of a raw tracer.
raw_removes(_Config) ->
    [begin
         S = trace:session_create(?MODULE, {?RAW2, {trace, Answer, self(), none}}, []),
         Tracee = tracee(S, [call]),
         set(S, [{leaf, 0}]),
         do(Tracee, fun() -> [?MODULE:leaf(1)] end),
         ?assertEqual({Answer, Flags}, {Answer, element(2, trace:info(S, Tracee, flags))}),
         ?assertEqual([], functions(told(Tracee))),
         stop(Tracee),
         true = trace:session_destroy(S)
     end || {Answer, Flags} <- [{discard, [call]}, {remove, []}]].

%% The behaviour erl_tracer: the tracer is asked when a call was slow, and not before.
behaviour(_Config) ->
    S = session(?BEHAVIOUR),
    Tracee = tracee(S, [call]),
    set(S, [{leaf, 0}, {inner, ?HOUR}]),
    do(Tracee, fun() -> [?MODULE:inner(1)] end),
    ?assertMatch([{asked, enabled_call, call},
                  {trace_call, slow, Tracee, {?MODULE, leaf, 1}, #{extra := {_, _}}}],
                 told(Tracee) -- lists:duplicate(9, {asked, enabled, trace_status})),
    stop(Tracee).

%% A slow call removes a tracer that is dead.
tracer_dies(_Config) ->
    Tracer = spawn_link(fun erts_worker:worker/0),
    S = session(Tracer),
    Tracee = tracee(S, [call]),
    set(S, [{leaf, 0}, {inner, ?HOUR}]),
    stop(Tracer),
    do(Tracee, fun() -> [?MODULE:inner(1)] end),
    ?assertEqual({flags, []}, trace:info(S, Tracee, flags)),
    do(Tracee, fun() -> [?MODULE:inner(1)] end),
    stop(Tracee).

%%--------------------------------------------------------------------------
%% Match specifications

%% Heads and guards select calls, and each has its own threshold.
spec_selects(_Config) ->
    S = session(),
    Tracee = tracee(S, [call]),
    1 = trace:function(S, {?MODULE, leaf, 1},
                       [{[1], [], [{slow, 0}]},
                        {['$1'], [{'>', '$1', 10}], [{slow, 0}]},
                        {[2], [], [{slow, ?HOUR}]}],
                       [local]),
    do(Tracee, fun() -> [?MODULE:leaf(X) || X <- [1, 2, 3, 11, 10, 1]] end),
    ?assertEqual([leaf, leaf, leaf], functions(told(Tracee))),
    stop(Tracee).

%% Beside other actions; its frame is the topmost one, however they are ordered.
spec_with_actions(_Config) ->
    S = session(),
    Tracee = tracee(S, [call]),
    [begin
         1 = trace:function(S, {?MODULE, leaf, 1}, [{'_', [], Actions}], [local]),
         do(Tracee, fun() -> [?MODULE:leaf(x)] end),
         ?assertEqual({Actions, Tags}, {Actions, tags(told(Tracee))})
     end || {Actions, Tags} <- [{[{slow, 0}, {return_trace}], [slow, return_from]},
                                {[{return_trace}, {slow, 0}], [slow, return_from]},
                                {[{exception_trace}, {slow, ?HOUR}], [return_from]},
                                {[{slow, ?HOUR}, {slow, 0}], [slow]},
                                {[{slow, 0}, {slow, ?HOUR}], []},
                                {[{slow, 0}, {message, true}], [call, slow]},
                                {[{message, true}, {slow, 0}], [slow]}]],
    1 = trace:function(S, {?MODULE, fails, 1}, [{'_', [], [{exception_trace}, {slow, 0}]}], [local]),
    do(Tracee, fun() -> [?MODULE:catches(x)] end),
    ?assertEqual([slow, exception_from], tags(told(Tracee))),
    stop(Tracee).

spec_with_message(_Config) ->
    S = session(),
    Tracee = tracee(S, [call]),
    Spec = [{['$1'], [], [{slow, 0}, {message, {{said, '$1'}}}]}],
    1 = trace:function(S, {?MODULE, leaf, 1}, Spec, [local]),
    do(Tracee, fun() -> [?MODULE:leaf(x)] end),
    ?assertMatch([{trace, Tracee, call, {?MODULE, leaf, [x]}, {said, x}},
                  {trace, Tracee, slow, {?MODULE, leaf, 1}, {_, _}}], told(Tracee)),
    stop(Tracee).

silent(_Config) ->
    S = session(),
    Tracee = tracee(S, [call, silent]),
    set(S, [{leaf, 0}]),
    1 = trace:function(S, {?MODULE, inner, 1}, [{'_', [], [{slow, 0}, {message, true}]}], [local]),
    1 = trace:function(S, {?MODULE, outer, 1}, [{'_', [], [{silent, false}]}], [local]),
    do(Tracee, fun() -> [?MODULE:inner(1)] end),
    ?assertEqual([], told(Tracee)),
    do(Tracee, fun() -> [?MODULE:outer(1)] end),
    ?assertEqual([outer, inner, leaf, inner], functions(told(Tracee))),
    stop(Tracee).

%% Not while it is sensitive, neither of calls that began before.
sensitive(_Config) ->
    S = session(),
    Tracee = tracee(S, [call]),
    set(S, [{leaf, 0}, {run, 0}]),
    do(Tracee, fun() ->
                       [?MODULE:run(fun() -> process_flag(sensitive, true), ?MODULE:leaf(1) end)],
                       process_flag(sensitive, false),
                       [?MODULE:run(fun() -> ?MODULE:leaf(2) end)]
               end),
    ?assertEqual([leaf, run], functions(told(Tracee))),
    stop(Tracee).

%%--------------------------------------------------------------------------
%% Tail calls

%% A chain of them is one call, that of the first function.
tail_calls(_Config) ->
    S = session(),
    Tracee = tracee(S, [call]),
    set(S, [{tail, 0}, {ping, 0}, {pong, ?HOUR}]),
    do(Tracee, fun() -> [?MODULE:tail(N) || N <- [0, 1, 1000]] end),
    ?assertEqual([tail, tail, tail], functions(told(Tracee))),
    do(Tracee, fun() -> [?MODULE:ping(10)] end),
    ?assertEqual([ping], functions(told(Tracee))),
    do(Tracee, fun() -> [?MODULE:pong(10)] end),
    ?assertEqual([], functions(told(Tracee))),
    %% The last frame is the one of the worker's call of the fun, which is none.
    do(Tracee, fun() -> ?MODULE:leaf(1) end),
    ?assertEqual([], told(Tracee)),
    stop(Tracee).

%% Sessions do not see the frames of others, and add one each.
tail_calls_of_sessions(_Config) ->
    [A, B] = Ss = [session(), session()],
    Tracee = spawn_link(fun erts_worker:worker/0),
    [1 = trace:process(S, Tracee, true, [call]) || S <- Ss],
    [set(S, [{ping, 0}]) || S <- Ss],
    set(B, [{pong, 0}]),
    Size = fun(N) -> in(Tracee, fun() -> element(2, ?MODULE:ping(N)) end) end,
    [?assertEqual({N, Size(2)}, {N, Size(N)}) || N <- [4, 100, 1000]],
    told(Tracee),
    set(A, [{size, ?HOUR}]),
    set(B, [{size, ?HOUR}]),
    ?assertEqual(Size(2), Size(1000)),
    stop(Tracee).

%% The stack and the heap do not grow: KYMO_SLOW_TURNS turns.
tail_loop(_Config) ->
    Turns = list_to_integer(os:getenv("KYMO_SLOW_TURNS", "2000000")),
    S = session(),
    Tracee = tracee(S, [call]),
    set(S, [{tail, 0}, {ping, 0}, {pong, 0}]),
    T0 = erlang:monotonic_time(),
    [Few, Many] = [in(Tracee, fun() -> element(2, ?MODULE:ping(N)) end) || N <- [2, Turns]],
    ct:pal("~b turns, ~b ns each", [Turns, (erlang:monotonic_time() - T0) div Turns]),
    ?assertEqual(Few, Many),
    ?assertEqual([ping, ping], functions(told(Tracee))),
    stop(Tracee).

%% A process that never returns does not keep the frames of sessions that it has left.
sessions_that_end(_Config) ->
    Server = spawn_link(fun() -> ?MODULE:turns() end),
    Sizes = [begin
                 S = session(),
                 1 = trace:process(S, Server, true, [call]),
                 set(S, [{turns, 0}]),
                 Server ! {turn, self()},
                 receive turned -> ok end,
                 erts_worker:until_waiting(Server),
                 Words = ?MODULE:size(Server),
                 1 = trace:process(S, Server, false, [call]),
                 true = trace:session_destroy(S),
                 Words
             end || _ <- lists:seq(1, 20)],
    ?assertMatch([_], lists:usort(Sizes)),
    unlink(Server),
    exit(Server, kill).

%% @doc A server that makes tail calls only.
turns() ->
    receive {turn, From} -> From ! turned end,
    ?MODULE:turns().

%%--------------------------------------------------------------------------
%% Exceptions

%% The frames that it passes end, the innermost first, and those outside the catch stay.
caught(_Config) ->
    S = session(),
    Tracee = tracee(S, [call]),
    set(S, [{fails, 0}, {passes, 0}, {catches, 0}, {run, 0}]),
    do(Tracee, fun() -> [?MODULE:run(fun() -> [?MODULE:catches(1)] end)] end),
    ?assertEqual([fails, passes, catches, run], functions(told(Tracee))),
    set(S, [{passes, ?HOUR}]),
    do(Tracee, fun() -> [?MODULE:run(fun() -> [?MODULE:catches(1)] end)] end),
    ?assertEqual([fails, catches, run], functions(told(Tracee))),
    %% Of each class, with try, catch and after.
    [begin
         do(Tracee, fun() ->
                            Raise = fun() -> [erlang:Class(x)] end,
                            _ = [catch ?MODULE:run(Raise)],
                            try [?MODULE:run(Raise)] catch _:_ -> ok end,
                            try [?MODULE:run(fun() -> try [?MODULE:run(Raise)] after ok end end)]
                            catch _:_ -> ok end
                    end),
         ?assertEqual([run, run, run, run], functions(told(Tracee)))
     end || Class <- [error, exit, throw]],
    stop(Tracee).

%% Nothing catches it: all of them, and then the process exits.
uncaught(_Config) ->
    [begin
         S = session(),
         set(S, [{fails, 0}, {passes, 0}]),
         Go = make_ref(),
         {Tracee, Ref} = spawn_monitor(fun() -> receive Go -> [?MODULE:passes(1)] end end),
         1 = trace:process(S, Tracee, true, Flags),
         Tracee ! Go,
         receive {'DOWN', Ref, process, Tracee, Reason} -> ?assertMatch({failed, [_ | _]}, Reason) end,
         Told = told(Tracee),
         ?assertEqual([fails, passes], functions([T || T <- Told, element(3, T) =:= slow])),
         ?assertEqual([slow, slow] ++ [exit || Flags =/= [call]], [element(3, T) || T <- Told]),
         true = trace:session_destroy(S)
     end || Flags <- [[call], [call, procs]]].

%% A process that is killed has not returned.
exit_signal(_Config) ->
    S = session(),
    set(S, [{wait, 0}]),
    {Tracee, Ref} = spawn_monitor(fun() -> receive go -> [?MODULE:wait(infinity)] end end),
    1 = trace:process(S, Tracee, true, [call]),
    Tracee ! go,
    wait_in(Tracee, wait),
    exit(Tracee, stopped),
    receive {'DOWN', Ref, process, Tracee, stopped} -> ok end,
    ?assertEqual([], told(Tracee)).

%% Stack traces, of exceptions and of processes, are those of the same calls without frames.
stacktraces(_Config) ->
    Run = fun() ->
                  Of = fun(F) -> try [F()] catch error:_:Stack -> Stack end end,
                  {Of(fun() -> [?MODULE:passes(1)] end),
                   Of(fun() -> [?MODULE:run(fun() -> [?MODULE:run(fun() -> hd(id([])) end)] end)] end),
                   Of(fun() -> [?MODULE:run(fun() -> atom_to_list(id(1)) end)] end),
                   ?MODULE:run(fun() ->
                                       [?MODULE:run(fun() -> [process_info(self(), current_stacktrace)] end),
                                        process_info(self(), current_function)]
                               end),
                   [?MODULE:caller(self())]}
          end,
    Plain = spawn_link(fun erts_worker:worker/0),
    Expected = in(Plain, Run),
    stop(Plain),
    Ss = [session(), session()],
    Tracee = spawn_link(fun erts_worker:worker/0),
    [begin
         1 = trace:process(S, Tracee, true, [call]),
         set(S, [{F, 0} || F <- [passes, fails, run, caller]])
     end || S <- Ss],
    ?assertEqual(Expected, in(Tracee, Run)),
    %% The caller that a match specification sees is no frame of tracing.
    Third = session(),
    1 = trace:process(Third, Tracee, true, [call]),
    1 = trace:function(Third, {?MODULE, leaf, 1}, [{'_', [], [{message, {caller}}]}], [local]),
    set(hd(Ss), [{leaf, 0}]),
    told(Tracee),
    do(Tracee, fun() -> [?MODULE:inner(1)] end),
    ?assertEqual([{?MODULE, inner, 1}], [C || {trace, _, call, {_, leaf, _}, C} <- told(Tracee)]),
    %% A backtrace can be made.
    {backtrace, Text} = in(Tracee, fun() -> ?MODULE:run(fun() -> process_info(self(), backtrace) end) end),
    ?assertMatch({match, _}, re:run(Text, "erts_worker:worker/0")),
    stop(Tracee).

%% BIFs, also those that go on later, that fail, and that call functions.
bifs(_Config) ->
    S = session(),
    Tracee = tracee(S, [call]),
    BIFs = [{erlang, atom_to_list, 1}, {lists, reverse, 2}, {erlang, phash2, 1}, {erlang, apply, 3},
            {erlang, garbage_collect, 0}],
    [1 = trace:function(S, MFA, slow(0), [local]) || MFA <- BIFs],
    List = lists:seq(1, 300000),
    Result = in(Tracee, fun() ->
                                A = atom_to_list(?MODULE:id(a)),
                                B = try [atom_to_list(?MODULE:id(1))] catch error:badarg -> badarg end,
                                C = length(lists:reverse(List, [])),
                                D = erlang:phash2(List),
                                erlang:garbage_collect(),
                                {A, B, C, D}
                        end),
    ?assertEqual({"a", badarg, 300000, erlang:phash2(List)}, Result),
    ?assertEqual([atom_to_list, atom_to_list, reverse, phash2, garbage_collect], functions(told(Tracee))),
    stop(Tracee).

%%--------------------------------------------------------------------------
%% Memory

%% The stack is gone, so the call never returns. The next one is as any other.
hibernates(_Config) ->
    S = session(),
    Self = self(),
    set(S, [{hibernate, 0}, {run, 0}, {woken, ?HOUR}, {leaf, 0}]),
    1 = trace:function(S, {erlang, hibernate, 3}, slow(0), [local]),
    Sleep = fun() -> [?MODULE:hibernate(Self)] end,
    {Tracee, Ref} = spawn_monitor(fun() -> receive go -> ?MODULE:run(Sleep) end end),
    1 = trace:process(S, Tracee, true, [call]),
    Tracee ! go,
    wait_in(Tracee, hibernate),
    [begin
         Tracee ! {call, Self},
         receive {called, Tracee} -> ok end,
         wait_in(Tracee, hibernate)
     end || _ <- [1, 2, 3]],
    %% An exception passes no frame.
    Tracee ! fail,
    receive {'DOWN', Ref, process, Tracee, {failed, _}} -> ok end,
    ?assertEqual([leaf, leaf, leaf], functions(told(Tracee))).

%% @doc Goes to sleep in a call.
hibernate(Self) ->
    erlang:hibernate(?MODULE, woken, [Self]).

%% @doc Where it wakes up.
woken(Self) ->
    receive
        {call, From} ->
            _ = [?MODULE:leaf(1)],
            From ! {called, self()},
            erlang:hibernate(?MODULE, woken, [Self]);
        fail -> error(failed)
    end.

%% Collections of every kind while frames are on the stack, and by what puts a frame there.
collections(_Config) ->
    S = session(),
    Tracee = tracee(S, [call]),
    set(S, [{grows, 0}, {run, 0}]),
    1 = trace:function(S, {?MODULE, large, 255}, slow(?HOUR), [local]),
    Other = session(),
    1 = trace:process(Other, Tracee, true, [call]),
    set(Other, [{grows, ?HOUR}]),
    N = 2000,
    Result = in(Tracee, fun() -> ?MODULE:run(fun() -> [erlang:garbage_collect() | ?MODULE:grows(N)] end) end),
    ?assertEqual([true | lists:seq(N, 1, -1)], Result),
    Told = told(Tracee),
    ?assertEqual(N + 2, length(Told)),
    ?assertEqual([], [T || {trace, _, _, _, {_, D}} = T <- Told, D < 0]),
    %% All arguments survive when the frame does not fit.
    [begin
         Args = [{X, Size} || X <- lists:seq(1, 255)],
         ?assertEqual(Args, in(Tracee, fun() ->
                                               Filler = lists:seq(1, Size),
                                               R = apply(?MODULE, large,
                                                         [{X, Size} || X <- lists:seq(1, 255)]),
                                               Size = length(Filler),
                                               R
                                       end))
     end || Size <- lists:seq(0, 200, 7)],
    stop(Tracee).

%% @doc Recursive, not a tail call; collects now and then.
grows(0) -> [];
grows(N) ->
    T = {N, make_ref(), [N]},
    case N rem 500 of
        0 -> erlang:garbage_collect();
        250 -> erlang:garbage_collect(self(), [{type, minor}]);
        _ -> ok
    end,
    Rest = ?MODULE:grows(N - 1),
    [element(1, T) | Rest].

largest_arity(_Config) ->
    S = session(),
    Tracee = tracee(S, [call]),
    1 = trace:function(S, {?MODULE, large, 255}, slow(0), [local]),
    Args = lists:seq(1, 255),
    ?assertEqual(Args, in(Tracee, fun() -> apply(?MODULE, large, Args) end)),
    ?assertMatch([{trace, Tracee, slow, {?MODULE, large, 255}, {_, _}}], told(Tracee)),
    stop(Tracee).

%%--------------------------------------------------------------------------
%% Code

%% A frame of a function of old code does not hold that code: a server that goes on in new
%% code by tail calls is not killed, and its call is still measured.
purged(_Config) ->
    M = slow_code,
    S = session(),
    Self = self(),
    load(M, 1),
    {Tracee, Ref} = spawn_monitor(fun() -> receive go -> [M:loop(Self)] end end),
    1 = trace:process(S, Tracee, true, [call]),
    1 = trace:function(S, {M, loop, 1}, slow(0), [local]),
    Tracee ! go,
    [begin
         Tracee ! {version, Self},
         receive {Tracee, V} -> ?assertEqual(Version, V) end,
         load(M, Version + 1),
         Tracee ! next,
         Tracee ! {version, Self},
         receive {Tracee, W} -> ?assertEqual(Version + 1, W) end,
         ?assert(code:soft_purge(M))
     end || Version <- [1, 2, 3, 4]],
    ?assertEqual([], told(Tracee)),
    %% The function that it was called with may be gone.
    load(M, 6, none),
    Tracee ! next,
    Tracee ! {version, Self},
    receive {Tracee, Last} -> ?assertEqual(6, Last) end,
    ?assert(code:soft_purge(M)),
    Tracee ! stop,
    receive {'DOWN', Ref, process, Tracee, normal} -> ok end,
    ?assertEqual([{M, loop, 1}], [MFA || {trace, _, slow, MFA, _} <- told(Tracee)]),
    unload(M).

%% New code gets the pattern, and calls of old code end as they would.
kept_patterns(_Config) ->
    M = slow_code,
    S = held(trace:session_create(?MODULE, self(), [keep_patterns])),
    Self = self(),
    load(M, 1),
    1 = trace:function(S, {M, loop, 1}, slow(0), [local]),
    1 = trace:function(S, {M, once, 1}, slow(0), [local]),
    Tracee = tracee(S, [call]),
    Tracee ! {do, fun() -> [M:loop(Self)], [M:once(1)] end, Self},
    Tracee ! {version, Self},
    receive {Tracee, 1} -> ok end,
    load(M, 2),
    ?assertEqual({match_spec, slow(0)}, trace:info(S, {M, loop, 1}, match_spec)),
    Tracee ! stop,
    receive {done, Tracee} -> ok end,
    ?assertEqual([loop, once], functions(told(Tracee))),
    %% A module that is not loaded.
    unload(M),
    load(M, 3),
    do(Tracee, fun() -> [M:once(1)] end),
    ?assertEqual([once], functions(told(Tracee))),
    stop(Tracee),
    unload(M).

%% The dump of a runtime in which processes have frames can be read as any other.
crash_dump(Config) ->
    File = filename:join(?config(priv_dir, Config), "erl_crash.dump"),
    {ok, Peer, _} = peer:start(#{connection => standard_io,
                                 exec => runtime(),
                                 env => [{"ERL_CRASH_DUMP", File}],
                                 args => ["-pa", filename:dirname(code:which(?MODULE))]}),
    true = peer:call(Peer, ?MODULE, run, [fun dumped/0]),
    catch peer:call(Peer, erlang, halt, ["slow calls"]),
    Dump = wait_dump(File),
    ?assertMatch({match, _}, re:run(Dump, "Slogan: slow calls")),
    ?assertMatch({match, _}, re:run(Dump, "\\(erts_slow_SUITE:wait/1 \\+ ")),
    ?assertMatch({match, _}, re:run(Dump, "=end\\s*$")).

%% The command that starts this runtime.
runtime() ->
    {ok, [[Prog | _]]} = init:get_argument(progname),
    Root = code:root_dir(),
    Erl = case filename:pathtype(Prog) of
              absolute -> Prog;
              _ -> filename:join([Root, "bin", filename:basename(Prog)])
          end,
    Type = [A || Flag <- [emu_type, emu_flavor], {ok, [[V]]} <- [init:get_argument(Flag)],
                 A <- ["-" ++ atom_to_list(Flag), V]],
    {Erl, Type}.

dumped() ->
    Tracer = spawn(fun erts_worker:worker/0),
    S = trace:session_create(?MODULE, Tracer, []),
    set(S, [{wait, 0}, {run, 0}]),
    %% Such a frame of another session beside it.
    T = trace:session_create(?MODULE, Tracer, []),
    set(T, [{wait, 0}]),
    Tracees = [spawn(fun() -> receive go -> [?MODULE:run(fun() -> [?MODULE:wait(infinity)] end)] end end)
               || _ <- [1, 2, 3]],
    [1 = trace:process(X, P, true, [call]) || X <- [S, T], P <- Tracees],
    [P ! go || P <- Tracees],
    [wait_in(P, wait) || P <- Tracees],
    register(slow_sessions, spawn(fun() -> receive S -> T end end)),
    true.

wait_dump(File) ->
    case file:read_file(File) of
        {ok, Bin} when byte_size(Bin) > 5 ->
            case binary:part(Bin, byte_size(Bin), -5) of
                <<"=end\n">> -> Bin;
                _ -> erlang:yield(), wait_dump(File)
            end;
        _ -> erlang:yield(), wait_dump(File)
    end.

%%--------------------------------------------------------------------------
%% Sessions and flags

%% Each has its own thresholds, frames and events.
sessions(_Config) ->
    Tracers = [spawn_link(fun erts_worker:worker/0) || _ <- [1, 2, 3]],
    Ss = [session(T) || T <- Tracers],
    Tracee = spawn_link(fun erts_worker:worker/0),
    [begin
         1 = trace:process(S, Tracee, true, [call]),
         set(S, Fs)
     end || {S, Fs} <- lists:zip(Ss, [[{outer, 0}, {inner, ?HOUR}], [{inner, 0}, {leaf, 0}],
                                      [{outer, ?HOUR}, {leaf, 0}, {passes, 0}]])],
    do(Tracee, fun() -> [?MODULE:outer(1), catch ?MODULE:passes(1)] end),
    _ = told(Tracee),
    Got = [in(T, fun() -> functions(flush()) end) || T <- Tracers],
    ?assertEqual([[outer], [leaf, inner], [leaf, passes]], Got),
    stop(Tracee),
    [stop(T) || T <- Tracers].

%% The frames of the other one still count.
session_destroyed(_Config) ->
    Ss = [A, B] = [session(), session()],
    Tracee = spawn_link(fun erts_worker:worker/0),
    [begin
         1 = trace:process(S, Tracee, true, [call]),
         set(S, [{run, 0}, {passes, 0}, {leaf, 0}])
     end || S <- Ss],
    Self = self(),
    Inside = fun(Then) -> fun() -> Self ! inside, receive on -> Then() end end end,
    Tracee ! {do, fun() -> [?MODULE:run(Inside(fun() -> [?MODULE:leaf(1)] end))] end, Self},
    receive inside -> ok end,
    true = trace:session_destroy(A),
    C = session(),
    1 = trace:process(C, Tracee, true, [call]),
    set(C, [{run, 0}]),
    Tracee ! on,
    receive {done, Tracee} -> ok end,
    ?assertEqual([leaf, run], functions(told(Tracee))),
    do(Tracee, fun() -> [?MODULE:run(fun() -> ok end)] end),
    ?assertEqual([run, run], functions(told(Tracee))),
    %% The same, and an exception.
    Tracee ! {do, fun() -> catch ?MODULE:run(Inside(fun() -> [?MODULE:passes(1)] end)) end, Self},
    receive inside -> ok end,
    true = trace:session_destroy(B),
    Tracee ! on,
    receive {done, Tracee} -> ok end,
    ?assertEqual([run], functions(told(Tracee))),
    stop(Tracee).

%% What was called while there was a pattern has its event; there are no others.
cleared_inside(_Config) ->
    S = session(),
    Tracee = tracee(S, [call]),
    Self = self(),
    [begin
         set(S, [{run, 0}, {leaf, 0}]),
         Tracee ! {do, fun() ->
                               [?MODULE:run(fun() -> Self ! inside, receive on -> [?MODULE:leaf(1)] end end)],
                               [?MODULE:leaf(2)]
                       end, Self},
         receive inside -> ok end,
         Change(),
         Tracee ! on,
         receive {done, Tracee} -> ok end,
         ?assertEqual(Expected, functions(told(Tracee)))
     end || {Change, Expected} <-
                [{fun() -> trace:function(S, {?MODULE, '_', '_'}, false, [local]) end, [run]},
                 {fun() -> set(S, [{run, ?HOUR}, {leaf, ?HOUR}]) end, [run]},
                 {fun() -> trace:function(S, {?MODULE, run, 1}, true, [local]) end, [leaf, run, leaf]}]],
    stop(Tracee).

%% A process that is not traced any more has no events, and is traced again as any other.
untraced_inside(_Config) ->
    S = session(),
    Tracee = tracee(S, [call]),
    Self = self(),
    set(S, [{run, 0}, {leaf, 0}]),
    [begin
         Tracee ! {do, fun() ->
                               [?MODULE:run(fun() -> Self ! inside, receive on -> [?MODULE:leaf(1)] end end)]
                       end, Self},
         receive inside -> ok end,
         1 = trace:process(S, Tracee, false, Flags),
         Tracee ! on,
         receive {done, Tracee} -> ok end,
         ?assertEqual([], told(Tracee)),
         1 = trace:process(S, Tracee, true, [call]),
         do(Tracee, fun() -> [?MODULE:run(fun() -> [?MODULE:leaf(1)] end)] end),
         ?assertEqual([leaf, run], functions(told(Tracee)))
     end || Flags <- [[call], [all]]],
    stop(Tracee).

%% No frame for a process that no session traces, or another one does.
untraced(_Config) ->
    S = session(),
    set(S, [{run, 0}, {size, 0}]),
    Size = fun(Pid) -> in(Pid, fun() -> ?MODULE:run(fun() -> [?MODULE:size(self())] end) end) end,
    Plain = spawn_link(fun erts_worker:worker/0),
    Expected = Size(Plain),
    Other = session(),
    1 = trace:process(Other, Plain, true, [call]),
    ?assertEqual(Expected, Size(Plain)),
    Traced = tracee(S, [call]),
    [Words] = Size(Traced),
    ?assert(Words > hd(Expected)),
    ?assertEqual([size, run], functions(told(Traced))),
    stop(Plain),
    stop(Traced).

%% @doc The words on the stack.
size(Pid) ->
    {stack_size, N} = process_info(Pid, stack_size),
    N.

%% Counters of calls, time and memory count as without slow.
with_counters(_Config) ->
    S = session(),
    Tracee = tracee(S, [call]),
    Fs = [outer, inner, leaf],
    set(S, [{F, ?HOUR} || F <- Fs]),
    [1 = trace:function(S, {?MODULE, F, 1}, true, [call_count, call_time, call_memory]) || F <- Fs ++ [tail]],
    do(Tracee, fun() -> [[?MODULE:outer(N) || N <- lists:seq(1, 10)], ?MODULE:tail(9)] end),
    [begin
         ?assertEqual({F, {call_count, 10}}, {F, trace:info(S, {?MODULE, F, 1}, call_count)}),
         ?assertMatch({F, {call_time, [{Tracee, 10, _, _}]}}, {F, trace:info(S, {?MODULE, F, 1}, call_time)}),
         {call_memory, [{Tracee, 10, Memory}]} = trace:info(S, {?MODULE, F, 1}, call_memory),
         ?assertEqual({F, 10 * Each}, {F, Memory})
     end || {F, Each} <- [{outer, 2}, {inner, 4}, {leaf, 0}, {tail, 0}]],
    %% The time after a return is the caller's.
    set(S, [{run, ?HOUR}]),
    [1 = trace:function(S, {?MODULE, F, 1}, true, [call_time, call_memory]) || F <- [run, leaf]],
    do(Tracee, fun() ->
                       [?MODULE:run(fun() -> [?MODULE:leaf(1)], sleeps_in(20000, 0) end)]
               end),
    {call_time, [{Tracee, 1, RunS, RunMicros}]} = trace:info(S, {?MODULE, run, 1}, call_time),
    {call_time, [{Tracee, 1, LeafS, LeafMicros}]} = trace:info(S, {?MODULE, leaf, 1}, call_time),
    ?assert(RunS * 1000000 + RunMicros > LeafS * 1000000 + LeafMicros),
    ?assertEqual([], told(Tracee)),
    stop(Tracee).

%% return_to skips the frames, and is not made for a call that is only measured.
with_return_to(_Config) ->
    S = session(),
    Tracee = tracee(S, [call, return_to, arity]),
    1 = trace:function(S, {?MODULE, leaf, 1}, true, [local]),
    set(S, [{inner, 0}, {fails, 0}, {passes, 0}]),
    1 = trace:function(S, {?MODULE, catches, 1}, true, [local]),
    Run = fun() -> [?MODULE:outer(1), ?MODULE:catches(1)] end,
    do(Tracee, Run),
    One = [{Tag, F} || {trace, _, Tag, {_, F, _}} <- told(Tracee)],
    Other = session(),
    1 = trace:process(Other, Tracee, true, [call]),
    set(Other, [{F, ?HOUR} || F <- [leaf, inner, outer, fails, passes, catches]]),
    do(Tracee, Run),
    ?assertEqual(One, [{Tag, F} || {trace, _, Tag, {_, F, _}} <- told(Tracee)]),
    ?assertMatch([{call, leaf}, {return_to, inner}, {call, catches}, {return_to, _}], One),
    stop(Tracee).

%%--------------------------------------------------------------------------
%% All at once

%% Processes that call, fail, collect, hibernate and exit, while sessions come and go, patterns
%% and flags change and code is loaded. KYMO_STRESS_SECONDS.
storm(_Config) ->
    Until = erlang:monotonic_time(second) + list_to_integer(os:getenv("KYMO_STRESS_SECONDS", "5")),
    M = slow_code,
    load(M, 1),
    Tracer = spawn_link(fun() -> drop() end),
    Workers = [spawn_monitor(fun() -> storm_work(M, Until) end) || _ <- lists:seq(1, 8)],
    Pids = [P || {P, _} <- Workers],
    Changers = [spawn_monitor(fun() -> storm_change(M, Tracer, Pids, Until) end) || _ <- [1, 2, 3]],
    Loader = spawn_monitor(fun() -> storm_load(M, 1, Until) end),
    [receive {'DOWN', Ref, process, P, Reason} -> ?assertEqual(normal, Reason) end
     || {P, Ref} <- [Loader | Changers] ++ Workers],
    unlink(Tracer),
    exit(Tracer, kill),
    unload(M).

drop() ->
    receive _ -> drop() end.

storm_work(M, Until) ->
    case erlang:monotonic_time(second) < Until of
        false -> ok;
        true -> storm_turn(M, rand:uniform(8)), storm_work(M, Until)
    end.

storm_turn(_, 1) -> 200 = length(?MODULE:grows(200));
storm_turn(_, 2) -> [1, 1] = [?MODULE:catches(1), ?MODULE:catches(1)];
storm_turn(_, 3) ->
    {failed, _} = try [?MODULE:run(fun() -> [?MODULE:passes(1)] end)]
                  catch error:R:S -> {R, S}
                  end;
storm_turn(_, 4) -> done = element(1, ?MODULE:ping(100));
storm_turn(M, 5) -> 1 = M:once(1);
storm_turn(_, 6) -> Args = lists:seq(1, 255), Args = apply(?MODULE, large, Args);
storm_turn(_, 7) ->
    {P, Ref} = spawn_monitor(fun() -> [?MODULE:run(fun() -> [exit(?MODULE:catches(1))] end)] end),
    receive {'DOWN', Ref, process, P, 1} -> ok end;
storm_turn(_, 8) ->
    Self = self(),
    {P, Ref} = spawn_monitor(fun() -> [?MODULE:run(fun() -> [?MODULE:hibernate(Self)] end)] end),
    P ! {call, Self},
    receive {called, P} -> ok end,
    exit(P, kill),
    receive {'DOWN', Ref, process, P, _} -> ok end.

storm_change(M, Tracer, Workers, Until) ->
    S = trace:session_create(?MODULE, Tracer, [keep_patterns || rand:uniform(2) =:= 1]),
    storm_session(S, M, Workers, rand:uniform(30)),
    true = trace:session_destroy(S),
    case erlang:monotonic_time(second) < Until of
        false -> ok;
        true -> storm_change(M, Tracer, Workers, Until)
    end.

storm_session(_, _, _, 0) -> ok;
storm_session(S, M, Workers, N) ->
    Pick = fun(L) -> lists:nth(rand:uniform(length(L)), L) end,
    case rand:uniform(3) of
        1 ->
            Flags = Pick([[call], [call, return_to], [call, set_on_spawn], [call, silent]]),
            %% The worker may have ended.
            try trace:process(S, Pick(Workers), rand:uniform(3) > 1, Flags)
            catch error:badarg -> 0
            end;
        2 ->
            Spec = Pick([slow(0), slow(?HOUR), false, true, [{'_', [], [{slow, 0}, {exception_trace}]}],
                         [{'_', [], [{slow, 1}, {message, {caller}}]}], slow(50)]),
            trace:function(S, Pick([{?MODULE, '_', '_'}, {M, '_', '_'}, {?MODULE, run, 1}]), Spec, [local]);
        3 ->
            trace:function(S, {?MODULE, '_', '_'}, Pick([true, false]), [call_time])
    end,
    storm_session(S, M, Workers, N - 1).

storm_load(M, V, Until) ->
    load(M, V),
    case erlang:monotonic_time(second) < Until of
        false -> ok;
        true -> storm_load(M, V + 1, Until)
    end.

%%--------------------------------------------------------------------------
%% What is called

id(X) -> X.
leaf(X) -> X.
inner(X) -> {leaf, ?MODULE:leaf(X), X}.
outer(X) -> [?MODULE:inner(X)].
tail(0) -> done;
tail(N) -> ?MODULE:tail(N - 1).

%% @doc Two functions that call each other, and the size of the stack at the end.
ping(0) -> {done, ?MODULE:size(self())};
ping(N) -> ?MODULE:pong(N - 1).
pong(0) -> {done, ?MODULE:size(self())};
pong(N) -> ?MODULE:ping(N - 1).

fails(_) -> error(failed).
passes(X) -> [?MODULE:fails(X)].
catches(X) ->
    try [?MODULE:passes(X)]
    catch error:failed -> X
    end.

%% @doc Calls the fun, and not as a tail call.
run(Fun) -> R = Fun(), ?MODULE:id(R).
caller(Pid) -> [process_info(Pid, current_stacktrace)].

-define(ARGUMENTS,
      A1, A2, A3, A4, A5, A6, A7, A8, A9, A10, A11, A12, A13, A14, A15, A16, A17, A18, A19, A20, A21, A22,
      A23, A24, A25, A26, A27, A28, A29, A30, A31, A32, A33, A34, A35, A36, A37, A38, A39, A40, A41, A42,
      A43, A44, A45, A46, A47, A48, A49, A50, A51, A52, A53, A54, A55, A56, A57, A58, A59, A60, A61, A62,
      A63, A64, A65, A66, A67, A68, A69, A70, A71, A72, A73, A74, A75, A76, A77, A78, A79, A80, A81, A82,
      A83, A84, A85, A86, A87, A88, A89, A90, A91, A92, A93, A94, A95, A96, A97, A98, A99, A100, A101,
      A102, A103, A104, A105, A106, A107, A108, A109, A110, A111, A112, A113, A114, A115, A116, A117, A118,
      A119, A120, A121, A122, A123, A124, A125, A126, A127, A128, A129, A130, A131, A132, A133, A134, A135,
      A136, A137, A138, A139, A140, A141, A142, A143, A144, A145, A146, A147, A148, A149, A150, A151, A152,
      A153, A154, A155, A156, A157, A158, A159, A160, A161, A162, A163, A164, A165, A166, A167, A168, A169,
      A170, A171, A172, A173, A174, A175, A176, A177, A178, A179, A180, A181, A182, A183, A184, A185, A186,
      A187, A188, A189, A190, A191, A192, A193, A194, A195, A196, A197, A198, A199, A200, A201, A202, A203,
      A204, A205, A206, A207, A208, A209, A210, A211, A212, A213, A214, A215, A216, A217, A218, A219, A220,
      A221, A222, A223, A224, A225, A226, A227, A228, A229, A230, A231, A232, A233, A234, A235, A236, A237,
      A238, A239, A240, A241, A242, A243, A244, A245, A246, A247, A248, A249, A250, A251, A252, A253, A254,
      A255).
large(?ARGUMENTS) -> [?ARGUMENTS].

%%--------------------------------------------------------------------------
%% Helpers

slow(Micros) -> [{'_', [], [{slow, Micros}]}].

session() -> session(self()).

session(Tracer) when is_pid(Tracer) -> held(trace:session_create(?MODULE, Tracer, []));
session(Module) -> held(trace:session_create(?MODULE, {Module, {trace, trace, self(), self()}}, [])).

%% A session ends when nothing refers to it any more: the test case does until it ends.
held(S) ->
    put({session, S}, S),
    S.

set(S, Fs) ->
    [true = trace:function(S, {?MODULE, F, '_'}, slow(Micros), [local]) > 0 || {F, Micros} <- Fs],
    ok.

tracee(S, Flags) ->
    Tracee = spawn_link(fun erts_worker:worker/0),
    1 = trace:process(S, Tracee, true, Flags),
    Tracee.

%% The functions of all events.
functions(Told) ->
    [F || T <- Told, element(1, T) =/= asked, {_, F, _} <- [element(4, T)]].

tags(Told) ->
    [element(3, T) || T <- Told].

wait_in(Pid, F) ->
    case process_info(Pid, [current_function, status]) of
        [{current_function, {_, F, _}}, {status, waiting}] -> ok;
        _ -> erlang:yield(), wait_in(Pid, F)
    end.

%% Loads a version of a module: loop/1 is a server that goes on in new code with `next', once/1
%% returns. What was current becomes old code.
load(M, Version) ->
    load(M, Version, loop).

load(M, Version, Loop) ->
    Source = ["-module(", atom_to_list(M), ").\n"
              "-export([", [atom_to_list(F) ++ "/1, " || F <- [Loop], F =/= none], "serve/1, once/1]).\n",
              ["loop(X) -> ?MODULE:serve(X).\n" || Loop =/= none],
              "serve(X) -> receive\n"
              "    {version, From} -> From ! {self(), ", integer_to_list(Version), "}, ?MODULE:serve(X);\n"
              "    next -> ?MODULE:serve(X);\n"
              "    stop -> stopped\n"
              "end.\n"
              "once(X) -> X.\n"],
    Forms = [begin {ok, F} = erl_parse:parse_form(Ts), F end || Ts <- forms(M, lists:flatten(Source))],
    {ok, M, Bin} = compile:forms(Forms, []),
    purge_softly(M),
    {module, M} = code:load_binary(M, "", Bin),
    ok.

purge_softly(M) ->
    code:soft_purge(M) orelse begin erlang:yield(), purge_softly(M) end.

forms(M, Source) ->
    {ok, Tokens, _} = erl_scan:string(lists:flatten(string:replace(Source, "?MODULE", atom_to_list(M), all))),
    forms_of(Tokens, []).

forms_of([], []) -> [];
forms_of([{dot, _} = Dot | Ts], Form) -> [lists:reverse([Dot | Form]) | forms_of(Ts, [])];
forms_of([T | Ts], Form) -> forms_of(Ts, [T | Form]).

unload(M) ->
    code:purge(M),
    code:delete(M),
    code:purge(M).
