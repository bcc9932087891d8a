%% SPDX-License-Identifier: Apache-2.0
%%
%% Which processes an operation delays, on an unpatched and a patched runtime in alternating
%% rounds. One scheduler is in a native call, so an operation that waits for all schedulers
%% waits for that call. The longest gap of a process on another scheduler shows whether the
%% operation has stopped all schedulers.
%%
%% Then the number of these native calls for which an operation waits: each round of thread
%% progress needs the scheduler that is in the native call.
%%
%% To measure another operation, add it to operations/0, or to waits/0.
-module(reload_bench).

-export([main/0, worker/0, native_call/1]).

%% The duration of a native call in microseconds, and of an interval in milliseconds.
-define(NATIVE, 20000).
-define(INTERVAL, 1000).

%% The processes and their schedulers.
-define(SCHEDULERS, 3).
-define(ON_OPERATION, 1).
-define(ON_NATIVE, 2).
-define(ON_MEASURE, 3).

%% The number of loads for each latency, and of operations for each number of native calls.
-define(LOADS, 200).
-define(WAITS, 10).

%%
%% The operations that must not delay other processes in a patched runtime: name, setup, the
%% repeated operation, teardown. The setup returns the argument of the other funs. All run in
%% the same process.
%%

operations() ->
    [{reload_untraced, fun() -> setup([]) end, fun reload/1, fun teardown/1},
     {reload_local, fun() -> setup([local]) end, fun reload/1, fun teardown/1},
     {reload_global, fun() -> setup([global]) end, fun reload/1, fun teardown/1},
     {reload_count, fun() -> setup([call_count]) end, fun reload/1, fun teardown/1},
     {reload_time, fun() -> setup([call_time]) end, fun reload/1, fun teardown/1},
     {delete_local, fun() -> setup([local]) end, fun delete/1, fun teardown/1},
     {delete_global, fun() -> setup([global]) end, fun delete/1, fun teardown/1},
     {on_load_local, fun() -> setup(on_load, [local]) end, fun load/1, fun teardown/1},
     {on_load_global, fun() -> setup(on_load, [global]) end, fun load/1, fun teardown/1},
     {on_load_function, fun() -> setup(on_load_function, [local]) end, fun load_on_load/1,
      fun teardown/1}].

%% The operations whose waits are measured: name, the flags of a pattern for the module, what is
%% done before, and what is measured.
waits() ->
    [{load_untraced, [], fun load/1, fun finish_loading/1},
     {load_local, [local], fun load_traced/1, fun finish_loading/1},
     {load_global, [global], fun load_traced/1, fun finish_loading/1},
     {pattern, [local], fun load/1, fun trace_all/1},
     {load_then_pattern, [local], fun load_traced/1,
      fun(State) -> finish_loading(State), trace_all(State) end}].

load_traced(State) ->
    load(State),
    trace_all(State).

setup(Flags) ->
    S = trace:session_create(?MODULE, self(), []),
    M = reload_bench_mod,
    {S, M, Flags, module(M, false)}.

setup(on_load, Flags) ->
    {S, M, _, Code} = setup(Flags),
    trace:function(S, on_load, true, Flags),
    {S, M, [], Code};
setup(on_load_function, Flags) ->
    {S, M, _, _} = setup(Flags),
    trace:function(S, on_load, true, Flags),
    {S, M, [], module(M, true)}.

teardown({S, M, _, _}) ->
    trace:session_destroy(S),
    unload(M).

reload({_, M, _, Code} = State) ->
    load(State),
    trace_all(State),
    {module, M} = erlang:load_module(M, Code).

delete({_, M, _, _} = State) ->
    load(State),
    trace_all(State),
    true = erlang:delete_module(M).

load({_, M, _, Code}) ->
    erts_code_purger:purge(M),
    {module, M} = erlang:load_module(M, Code),
    erts_code_purger:purge(M).

finish_loading({_, M, _, Code}) ->
    ok = erlang:finish_loading([erlang:prepare_loading(M, Code)]).

load_on_load({_, M, _, Code}) ->
    erts_code_purger:purge(M),
    {on_load, [M]} = erlang:finish_loading([erlang:prepare_loading(M, Code)]),
    ok = erlang:call_on_load_function(M),
    erts_code_purger:finish_after_on_load(M, true),
    erts_code_purger:purge(M).

trace_all({_, _, [], _}) ->
    ok;
trace_all({S, M, Flags, _}) ->
    true = trace:function(S, {M, '_', '_'}, true, Flags) > 0.

unload(M) ->
    erts_code_purger:purge(M),
    erlang:delete_module(M),
    erts_code_purger:purge(M).

%%
%% The driver
%%

%% @doc Entry point of `bench/erts/reload_run'. Flags of the command line: `-stock
%% ERL', `-patched ERL', `-rounds N', `-operations all|NAME...'. Prints a table and
%% halts with status 1 if a target is missed.
-spec main() -> no_return().
main() ->
    [[Stock], [Patched], [Rounds0], Names0] =
        [begin {ok, [Value]} = init:get_argument(F), Value end
         || F <- [stock, patched, rounds, operations]],
    Rounds = list_to_integer(Rounds0),
    All = [element(1, Op) || Op <- operations()],
    Names = case Names0 of
                ["all"] -> All;
                _ -> [list_to_existing_atom(N) || N <- Names0]
            end,
    Flags = io_lib:format("+S ~b:~b", [?SCHEDULERS, ?SCHEDULERS]),
    Workers = [bench_worker:start(Erl, Flags, ?MODULE) || Erl <- [Stock, Patched]],
    io:format("~nlongest gap of a process in ~b ms, native calls of ~b ms, ms: median (most)~n~n"
              "~-20s ~19s ~19s ~19s ~19s ~8s~n",
              [?INTERVAL, ?NATIVE div 1000, "operation", "stock without", "stock with",
               "patched without", "patched with", "times"]),
    Gaps = [measure_gaps(Name, Workers, Rounds) || Name <- Names],
    io:format("~nnative calls for which an operation waits: median (most)~n~n~-34s ~19s ~19s~n",
              ["the other schedulers", "stock", "patched"]),
    [measure_waits(Name, Others, Workers, Rounds)
     || Others <- [idle, busy], {Name, _, _, _} <- waits()],
    io:format("~nlatency of a load, us: lower quartile~n~n~-34s ~12s ~12s ~10s~n",
              ["", "stock", "patched", "stock/p."]),
    Latency = measure_latency(Workers, Rounds),
    [bench_worker:stop(W) || W <- Workers],
    halt(judge(Gaps, Latency)).

measure_gaps(Name, Workers, Rounds) ->
    [bench_worker:ask(W, {setup, Name}) || W <- Workers],
    Samples = [[{bench_worker:ask(W, {interval, none}), bench_worker:ask(W, {interval, Name})}
                || W <- Workers]
               || _ <- lists:seq(1, Rounds)],
    [bench_worker:ask(W, {teardown, Name}) || W <- Workers],
    [S0, S1, P0, P1] = [[element(1, element(I, lists:nth(W, Sample))) / 1.0e6 || Sample <- Samples]
                        || W <- [1, 2], I <- [1, 2]],
    Times = lists:sum([element(2, element(2, lists:nth(2, Sample))) || Sample <- Samples]),
    io:format("~-20s ~19s ~19s ~19s ~19s ~8b~n",
              [Name] ++ [io_lib:format("~.2f (~.2f)", [median(L), lists:max(L)])
                         || L <- [S0, S1, P0, P1]] ++ [Times]),
    {Name, median(S1), median(P0), median(P1)}.

measure_waits(Name, Others, Workers, Rounds) ->
    Samples = [[bench_worker:ask(W, {waits, Name, Others}) || W <- Workers]
               || _ <- lists:seq(1, Rounds)],
    Columns = [lists:append([lists:nth(W, Sample) || Sample <- Samples]) || W <- [1, 2]],
    io:format("~-34s ~19s ~19s~n",
              [io_lib:format("~s: ~s", [Others, Name])
               | [io_lib:format("~.1f (~.1f)", [median(L), lists:max(L)]) || L <- Columns]]).

measure_latency(Workers, Rounds) ->
    Samples = [[bench_worker:ask(W, latency) || W <- Workers] || _ <- lists:seq(1, Rounds)],
    [Stock, Patched] = [merge([lists:nth(W, Sample) || Sample <- Samples]) || W <- [1, 2]],
    [io:format("~-34s ~12.1f ~12.1f ~10.2f~n", [What, S, P, S / P])
     || {What, S} <- lists:sort(maps:to_list(Stock)), P <- [maps:get(What, Patched)]],
    {Stock, Patched}.

merge([First | _] = Maps) ->
    maps:map(fun(What, _) ->
                     L = lists:sort(lists:append([maps:get(What, M) || M <- Maps])),
                     lists:nth(length(L) div 4 + 1, L) / 1000
             end, First).

median(L) ->
    lists:nth((length(L) + 1) div 2, lists:sort(L)).

%% If a patched runtime stopped its schedulers, it would wait for half of a native call or more.
judge(Gaps, {Stock, Patched}) ->
    Native = ?NATIVE / 1000,
    Untraced = maps:get(untraced, Stock),
    Checks = [{io_lib:format("~s: gap beyond that without it, ms", [Name]), With - Without,
               "<=", Native / 10} || {Name, _, Without, With} <- Gaps]
        ++ [{io_lib:format("load ~s: patched / stock untraced", [What]), T / Untraced, "<=", 1.0}
            || {What, T} <- lists:sort(maps:to_list(Patched))],
    io:nl(),
    lists:max([begin
                   Met = Value =< Limit,
                   io:format("~-60s ~10.2f ~s ~.1f ~s~n",
                             [What, Value, Cmp, Limit,
                              case Met of true -> "met"; false -> "MISSED" end]),
                   case Met of true -> 0; false -> 1 end
               end || {What, Value, Cmp, Limit} <- Checks]).

%%
%% The worker
%%

%% @doc A runtime to be measured: serves requests on file descriptors 3 and 4.
-spec worker() -> no_return().
worker() ->
    ok = erlang:load_nif(filename:join(filename:dirname(code:which(?MODULE)), "reload_nif"), 0),
    {_, Ref} = spawn_opt(fun() -> bench_worker:serve(fun request/1) end,
                         [monitor, {scheduler, ?ON_OPERATION}]),
    receive {'DOWN', Ref, _, _, _} -> halt(1) end.

%% The state that an operation needs is kept between requests.
request(Request) ->
    {Reply, State} = request(Request, get(state)),
    put(state, State),
    Reply.

request({setup, Name}, _) ->
    {_, Setup, _, _} = lists:keyfind(Name, 1, operations()),
    {ok, Setup()};
request({teardown, Name}, State) ->
    {_, _, _, Teardown} = lists:keyfind(Name, 1, operations()),
    Teardown(State),
    {ok, none};
request({interval, none}, State) ->
    {interval(fun(Until) -> timer:sleep(max(0, Until - now_ms())), 0 end), State};
request({interval, Name}, State) ->
    {_, _, Op, _} = lists:keyfind(Name, 1, operations()),
    {interval(fun(Until) -> repeat(Op, State, Until, 0) end), State};
request({waits, Name, Others}, State) ->
    {_, Flags, Before, Op} = lists:keyfind(Name, 1, waits()),
    {wait(setup(Flags), Before, Op, Others), State};
request(latency, State) ->
    {maps:from_list([{untraced, loads([])}, {local, loads([local])}, {global, loads([global])},
                     {call_count, loads([call_count])}]),
     State}.

%% How many native calls each of some operations takes.
wait(Setup, Before, Op, Others) ->
    Busy = [spawn_opt(fun busy_loop/0, [link, {scheduler, ?ON_MEASURE}]) || Others =:= busy],
    Times = [begin
                 Before(Setup),
                 Native = spawn_opt(fun native_loop/0, [link, {scheduler, ?ON_NATIVE}]),
                 timer:sleep(?NATIVE div 1000 + rand:uniform(?NATIVE div 1000)),
                 T0 = erlang:monotonic_time(microsecond),
                 Op(Setup),
                 T1 = erlang:monotonic_time(microsecond),
                 kill(Native),
                 (T1 - T0) / ?NATIVE
             end || _ <- lists:seq(1, ?WAITS)],
    [kill(Pid) || Pid <- Busy],
    teardown(Setup),
    Times.

busy_loop() ->
    busy_loop().

kill(Pid) ->
    unlink(Pid),
    Ref = monitor(process, Pid),
    exit(Pid, kill),
    receive {'DOWN', Ref, _, _, _} -> ok end.

%% The longest gap in nanoseconds, and the number of operations.
interval(Do) ->
    Self = self(),
    Native = spawn_opt(fun native_loop/0, [link, {scheduler, ?ON_NATIVE}]),
    Measure = spawn_opt(fun() ->
                                Self ! {self(), ready},
                                T = erlang:monotonic_time(nanosecond),
                                measure(T, 0, Self)
                        end, [link, {scheduler, ?ON_MEASURE}]),
    receive {Measure, ready} -> ok end,
    Times = Do(now_ms() + ?INTERVAL),
    Measure ! {stop, Self},
    Gap = receive {Measure, G} -> G end,
    kill(Native),
    {Gap, Times}.

now_ms() ->
    erlang:monotonic_time(millisecond).

repeat(Op, State, Until, N) ->
    Op(State),
    case now_ms() < Until of
        true -> repeat(Op, State, Until, N + 1);
        false -> N + 1
    end.

%% Yields, so that other processes on the scheduler can run.
native_loop() ->
    ok = native_call(?NATIVE),
    erlang:yield(),
    native_loop().

native_call(_Microseconds) ->
    erlang:nif_error(not_loaded).

measure(Last, Longest, Parent) ->
    Now = erlang:monotonic_time(nanosecond),
    Gap = max(Longest, Now - Last),
    receive
        {stop, Parent} -> Parent ! {self(), Gap}
    after 0 -> measure(Now, Gap, Parent)
    end.

%% The duration of erlang:finish_loading/1 in nanoseconds, if it replaces code that is traced
%% with these flags.
loads(Flags) ->
    {_, M, _, Code} = State = setup(Flags),
    load(State),
    Times = [begin
                 erts_code_purger:purge(M),
                 trace_all(State),
                 %% Makes sure that the other schedulers are awake.
                 wake(State),
                 Prepared = erlang:prepare_loading(M, Code),
                 T0 = erlang:monotonic_time(nanosecond),
                 ok = erlang:finish_loading([Prepared]),
                 erlang:monotonic_time(nanosecond) - T0
             end || _ <- lists:seq(1, ?LOADS)],
    teardown(State),
    Times.

wake({S, _, _, _}) ->
    1 = trace:function(S, {lists, seq, 2}, true, [local]),
    1 = trace:function(S, {lists, seq, 2}, false, [local]).

%% A module of a hundred functions, half of them exported.
module(M, OnLoad) ->
    Funs = [atom_f(I) || I <- lists:seq(1, 100)],
    {Exported, _} = lists:split(50, Funs),
    L = 1,
    Forms = [{attribute, L, module, M},
             {attribute, L, compile, [nowarn_unused_function, no_inline]},
             {attribute, L, export, [{F, 1} || F <- [init | Exported]]}]
        ++ [{attribute, L, on_load, {init, 0}} || OnLoad]
        ++ [{function, L, init, 0, [{clause, L, [], [], [{atom, L, ok}]}]},
            {function, L, init, 1, [{clause, L, [{var, L, '_'}], [], [{atom, L, ok}]}]}]
        ++ [{function, L, F, 1, [{clause, L, [{var, L, 'X'}], [],
                                  [{tuple, L, [{atom, L, F}, {var, L, 'X'}]}]}]} || F <- Funs],
    {ok, M, Code} = compile:forms(Forms, []),
    Code.

atom_f(I) ->
    list_to_atom("f" ++ integer_to_list(I)).
