%% SPDX-License-Identifier: Apache-2.0
%%
%% For how long operations stop the schedulers, on an unpatched and a patched runtime in
%% alternating rounds.
-module(pause_bench).

-export([main/0, worker/0]).
%% The function that is traced.
-export([traced/1]).

%% Scheduler 1 runs the operation, 2 measures, 3 is in native calls.
-define(NATIVE_MS, 20).
-define(ROUND_MS, 200).
-define(PROCESSES, 100_000).

-define(OPERATIONS, [trace_all, trace_info, system_monitor, system_profile]).

%% The process that measures, and its scheduler.
-define(PLACES, [{other, 2}, {caller, 1}]).

%%
%% The driver
%%

%% @doc Entry point of `bench/erts/pause_run'. Flags of the command line:
%% `-stock ERL', `-patched ERL', `-rounds N'. Prints a table, in milliseconds
%% (lower quartiles of the longest gaps of all rounds), and halts with status 1 if a target
%% is missed.
-spec main() -> no_return().
main() ->
    [Stock, Patched] = [flag(F) || F <- [stock, patched]],
    Rounds = list_to_integer(flag(rounds)),
    Flags = "+S 3:3 +sbwt none -kernel logger_level critical",
    Workers = [bench_worker:start(Erl, Flags, ?MODULE) || Erl <- [Stock, Patched]],
    [ready = bench_worker:ask(W, prepare) || W <- Workers],
    io:format("~nlongest gap, ms, while one scheduler is in native calls of ~b ms~n", [?NATIVE_MS]),
    io:format("~-18s ~-8s ~12s ~12s ~12s ~12s ~10s~n",
              ["operation", "where", "stock", "(without)", "patched", "(without)", "times"]),
    Rows = [row(Workers, Op, Place, Rounds) || Op <- ?OPERATIONS, Place <- ?PLACES],
    [bench_worker:stop(W) || W <- Workers],
    halt(judge(Rows)).

flag(F) ->
    {ok, [[Value]]} = init:get_argument(F),
    Value.

row(Workers, Op, {Where, Scheduler}, Rounds) ->
    Samples = [[bench_worker:ask(W, {round, What, Scheduler}) || W <- Workers, What <- [Op, nothing]]
               || _ <- lists:seq(1, Rounds)],
    [S, S0, P, P0] = [lower_quartile([Gap || {Gap, _} <- Column]) || Column <- transpose(Samples)],
    [_, _, Times, _] = [lower_quartile([N || {_, N} <- Column]) || Column <- transpose(Samples)],
    io:format("~-18s ~-8s ~12.2f ~12.2f ~12.2f ~12.2f ~10b~n",
              [Op, Where, S, S0, P, P0, round(Times)]),
    {Op, Where, S, S0, P, P0}.

transpose([[] | _]) -> [];
transpose(Rows) -> [[hd(R) || R <- Rows] | transpose([tl(R) || R <- Rows])].

%% Other work on the machine easily makes the longest gap of a round longer.
lower_quartile(L) ->
    lists:nth(length(L) div 4 + 1, lists:sort(L)).

%% The stock runtime must wait for the native call, otherwise the benchmark measures nothing. On
%% the patched runtime the operation must have no effect beyond random disturbances. The
%% caller's own scheduler also runs the caller.
judge(Rows) ->
    Checks = [{"stock waits for the native call", Op, Where, S, ">=", ?NATIVE_MS * 0.7}
              || {Op, Where, S, _, _, _} <- Rows, Where =:= other]
        ++ [{"patched: above without the operation", Op, Where, P - P0, "<=",
             case Where of other -> 1.0; caller -> 3.0 end}
            || {Op, Where, _, _, P, P0} <- Rows],
    io:nl(),
    lists:max([begin
                   Met = case Cmp of ">=" -> Value >= Limit; "<=" -> Value =< Limit end,
                   io:format("~-40s ~-16s ~-8s ~8.2f ~s ~w ~s~n",
                             [What, Op, Where, Value, Cmp, Limit,
                              case Met of true -> "met"; false -> "MISSED" end]),
                   case Met of true -> 0; false -> 1 end
               end || {What, Op, Where, Value, Cmp, Limit} <- Checks]).

%%
%% The worker
%%

%% @doc A runtime to be measured: serves requests.
-spec worker() -> no_return().
worker() ->
    bench_worker:serve(fun request/1).

request(prepare) ->
    erts_debug:set_internal_state(available_internal_state, true),
    [spawn(fun() -> idle() end) || _ <- lists:seq(1, ?PROCESSES)],
    put(tracer, spawn(fun() -> idle() end)),
    1 = erlang:trace_pattern({?MODULE, traced, 1}, true, [call_time]),
    [spawn(fun() ->
                   erlang:trace(self(), true, [call]),
                   traced(10),
                   idle()
           end) || _ <- lists:seq(1, 1000)],
    ready;
request({round, Operation, Scheduler}) ->
    Tracer = get(tracer),
    Ends = erlang:monotonic_time(millisecond) + ?ROUND_MS,
    Native = on(3, fun() -> native_calls(Ends) end),
    Operator = on(1, fun() -> repeat(Ends, Operation, Tracer, 0) end),
    Measurer = on(Scheduler, fun() ->
                                     Now = erlang:monotonic_time(),
                                     longest_gap(Now, 0, Ends)
                             end),
    [_, Times, Gap] = [receive {'DOWN', Ref, process, _, {done, R}} -> R end
                       || {_, Ref} <- [Native, Operator, Measurer]],
    {erlang:convert_time_unit(Gap, native, microsecond) / 1000, Times}.

on(Scheduler, Fun) ->
    spawn_opt(fun() -> exit({done, Fun()}) end, [{scheduler, Scheduler}, monitor]).

idle() ->
    receive _ -> idle() end.

traced(0) -> ok;
traced(N) -> traced(N - 1).

%% Blocks the scheduler, but not the processor.
native_calls(Ends) ->
    true = erts_debug:set_internal_state(sleep, ?NATIVE_MS),
    erlang:yield(),
    case erlang:monotonic_time(millisecond) < Ends of
        true -> native_calls(Ends);
        false -> ok
    end.

longest_gap(Last, Max, Ends) ->
    Now = erlang:monotonic_time(),
    Longest = max(Max, Now - Last),
    case erlang:convert_time_unit(Now, native, millisecond) < Ends of
        true -> longest_gap(Now, Longest, Ends);
        false -> Longest
    end.

%% Yields between operations, so that other processes can run.
repeat(Ends, Operation, Tracer, N) ->
    operation(Operation, Tracer),
    receive after 2 -> ok end,
    case erlang:monotonic_time(millisecond) < Ends of
        true -> repeat(Ends, Operation, Tracer, N + 1);
        false -> N + 1
    end.

operation(nothing, _) ->
    %% As busy as the others.
    lists:foldl(fun(_, _) -> lists:sum(lists:seq(1, 1000)) end, 0, lists:seq(1, 1000));
operation(trace_all, Tracer) ->
    N = erlang:trace(all, true, [garbage_collection, {tracer, Tracer}]),
    true = N >= ?PROCESSES,
    true = erlang:trace(all, false, [garbage_collection]) >= ?PROCESSES;
operation(trace_info, _) ->
    {call_time, [_ | _]} = erlang:trace_info({?MODULE, traced, 1}, call_time);
operation(system_monitor, Tracer) ->
    erlang:system_monitor(Tracer, [{large_heap, 1 bsl 40}]),
    erlang:system_monitor(undefined);
operation(system_profile, Tracer) ->
    erlang:system_profile(Tracer, [exclusive]),
    erlang:system_profile(undefined, []).
