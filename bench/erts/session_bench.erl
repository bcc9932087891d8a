%% SPDX-License-Identifier: Apache-2.0
%%
%% The cost of trace sessions on an unpatched and a patched runtime in alternating rounds: many
%% patterns in one module, destroying a session, loading code while sessions are created and
%% destroyed, and for how long a pattern for all functions keeps other processes from running.
-module(session_bench).

-export([main/0, worker/0]).

-define(FUNCTIONS, 5000).

%% The system in which an unused session is destroyed: {modules with so many functions, waiting
%% processes}.
-define(SIZES, [{150, 0}, {1000, 0}, {4000, 0}, {4000, 100000}]).
-define(EXPORTS, 50).

%% Processes that create sessions and leave them to the garbage collector while code is loaded
%% for so long.
-define(OWNERS, 4).
-define(LOAD_SECONDS, 5).

%% Modules with so many exports, for a pattern that matches all functions.
-define(ALL_MODULES, 1000).

%%
%% The driver
%%

%% @doc Entry point of `bench/erts/session_run'. Flags of the command line: `-stock ERL',
%% `-patched ERL', `-rounds N', `-parts all|PART...'. Prints tables and halts with status 1
%% if a target is missed.
-spec main() -> no_return().
main() ->
    [[Stock], [Patched], [Rounds], Parts] =
        [begin {ok, [Value]} = init:get_argument(F), Value end
         || F <- [stock, patched, rounds, parts]],
    Erls = [Stock, Patched],
    N = list_to_integer(Rounds),
    Checks = [part(Part, Erls, N) || Part <- ["patterns", "destroy", "permission", "steps"],
                                     Parts =:= ["all"] orelse lists:member(Part, Parts)],
    io:nl(),
    halt(lists:max([0 | [check(C) || C <- lists:append(Checks)]])).

check({What, Value, Limit}) ->
    io:format("~-58s ~10.2f <= ~w ~s~n",
              [What, Value, Limit, case Value =< Limit of true -> "met"; false -> "MISSED" end]),
    case Value =< Limit of true -> 0; false -> 1 end.

part("patterns", Erls, Rounds) ->
    io:format("~n~b functions of one module, a pattern for each, ms: lower quartile~n", [?FUNCTIONS]),
    [Stock, Patched] = rounds(Erls, "", patterns, Rounds),
    table(Stock, Patched),
    [{"patterns/2, patched, ms", maps:get(set, Patched), 20},
     {"patterns/2 of a session that keeps them, ms", maps:get(set_kept, Patched), 20},
     {"loading the module again, kept patterns, less without, ms",
      maps:get(load_kept, Patched) - maps:get(load, Patched), 20}];
part("destroy", Erls, Rounds) ->
    io:format("~nan unused session made and destroyed, us, and its CPU time in us: lower quartile~n"
              "~-34s ~12s ~12s ~12s ~12s~n",
              ["modules, processes", "stock", "patched", "stock CPU", "patched CPU"]),
    All = [begin
               [S, P] = rounds(Erls, "+S 2:2 +P 262144", {destroy, Size}, Rounds),
               io:format("~-34s ~12.1f ~12.1f ~12.1f ~12.1f~n",
                         [io_lib:format("~b, ~b", tuple_to_list(Size))
                          | [maps:get(K, M) * 1000 || K <- [time, cpu], M <- [S, P]]]),
               P
           end || Size <- ?SIZES],
    [{"unused session: patched, largest / smallest, " ++ atom_to_list(K),
      maps:get(K, lists:last(All)) / maps:get(K, hd(All)), 1.5} || K <- [time, cpu]];
part("permission", Erls, Rounds) ->
    io:format("~nloads beside ~b processes that leave sessions behind, ms~n"
              "~-34s ~12s ~12s ~10s~n", [?OWNERS, "", "stock", "patched", "stock/p."]),
    [Stock, Patched] = rounds(Erls, "+S 2:2", permission, min(Rounds, 3)),
    table(Stock, Patched),
    [{"longest load, patched, ms", maps:get(longest, Patched), 50}];
part("steps", Erls, Rounds) ->
    io:format("~none scheduler, a pattern that all functions of ~b modules match, ms: lower quartile~n"
              "gap: for how long a process that always could run did not~n"
              "~-34s ~12s ~12s ~10s~n", [?ALL_MODULES, "", "stock", "patched", "stock/p."]),
    [Stock, Patched] = rounds(Erls, "+S 1:1", steps, Rounds),
    table(Stock, Patched),
    [].

table(Stock, Patched) ->
    [case maps:find(What, Stock) of
         {ok, S} -> io:format("~-34s ~12.2f ~12.2f ~10.1f~n", [name(What), S, P, S / P]);
         error -> io:format("~-34s ~12s ~12.2f~n", [name(What), "", P])
     end || {What, P} <- lists:sort(maps:to_list(Patched))].

name({Flag, What, Of}) -> io_lib:format("~s, ~s: ~s", [Flag, What, Of]);
name(What) -> atom_to_list(What).

%% Starts new runtimes in each round. Returns their measurements in ms.
rounds(Erls, Flags, Request, Rounds) ->
    Samples = [[begin
                    W = bench_worker:start(Erl, Flags, ?MODULE),
                    Sample = bench_worker:ask(W, Request),
                    bench_worker:stop(W),
                    Sample
                end || Erl <- Erls] || _ <- lists:seq(1, Rounds)],
    [merge([lists:nth(I, S) || S <- Samples]) || I <- [1, 2]].

%% Maxima are merged by their maximum, everything else by its lower quartile.
merge([First | _] = Maps) ->
    maps:map(fun(What, _) ->
                     L = lists:sort(lists:append([maps:get(What, M) || M <- Maps])),
                     case What of
                         longest -> lists:last(L);
                         _ -> lists:nth(length(L) div 4 + 1, L)
                     end / 1.0e6
             end, First).

%%
%% The worker
%%

%% @doc A runtime to be measured: serves requests.
-spec worker() -> no_return().
worker() ->
    {module, trace} = code:ensure_loaded(trace),
    bench_worker:serve(fun request/1).

request(patterns) ->
    M = session_bench_mod,
    Code = module(M, ?FUNCTIONS),
    load(M, Code),
    Ops = [{{M, fn(I), 0}, true, [local]} || I <- lists:seq(1, ?FUNCTIONS)],
    collect(lists:append([patterns(M, Code, Ops, Opts) || Opts <- options(), _ <- lists:seq(1, 5)]));
request({destroy, {Modules, Processes}}) ->
    load_many(Modules),
    _ = [spawn(fun() -> receive stop -> ok end end) || _ <- lists:seq(1, Processes)],
    Tracer = spawn(fun tracer/0),
    Unused = fun() -> true = trace:session_destroy(trace:session_create(unused, Tracer, [])) end,
    Unused(),
    %% Sessions are removed from processes asynchronously.
    Settle = fun() -> timer:sleep(500) end,
    Settle(),
    Cpu = cpu(),
    Times = [time(Unused) || _ <- lists:seq(1, 50)],
    Settle(),
    #{time => Times, cpu => [(cpu() - Cpu) div 50]};
request(permission) ->
    Tracer = spawn(fun tracer/0),
    _ = [spawn_link(fun busy/0) || _ <- [1, 2]],
    _ = [spawn_link(fun() -> leave_sessions(Tracer) end) || _ <- lists:seq(1, ?OWNERS)],
    Code = module(session_bench_mod, 1),
    Times = loads(Code, erlang:monotonic_time(second) + ?LOAD_SECONDS),
    #{load => Times, longest => Times};
request(steps) ->
    load_many(?ALL_MODULES),
    Tracer = spawn(fun tracer/0),
    collect(lists:append([steps(Tracer, Flags) || Flags <- [local, call_count], _ <- [1, 2, 3]])).

%% The duration of each operation, and the longest gap of another process during it.
steps(Tracer, Flag) ->
    S = trace:session_create(?MODULE, Tracer, []),
    Set = fun(How) -> trace:function(S, {'_', '_', '_'}, How, [Flag]) end,
    lists:append(
      [begin
           Prepare(),
           {Gap, Time} = gap(Op),
           [{{Flag, What, gap}, Gap}, {{Flag, What, time}, Time}]
       end || {What, Prepare, Op} <- [{set, fun() -> ok end, fun() -> Set(true) end},
                                      {clear, fun() -> ok end, fun() -> Set(false) end},
                                      {destroy, fun() -> Set(true) end, fun() -> trace:session_destroy(S) end}]]).

gap(Op) ->
    Self = self(),
    {Runner, Ref} = spawn_monitor(fun() -> Self ! running, exit({gap, run(0, erlang:monotonic_time(nanosecond))}) end),
    receive running -> ok end,
    Time = time(Op),
    Runner ! stop,
    receive {'DOWN', Ref, process, Runner, {gap, Gap}} -> {Gap, Time} end.

run(Longest, Before) ->
    Now = erlang:monotonic_time(nanosecond),
    receive
        stop -> max(Longest, Now - Before)
    after 0 -> run(max(Longest, Now - Before), Now)
    end.

options() ->
    case erlang:function_exported(trace, patterns, 2) of
        true -> [[], [keep_patterns]];
        false -> [[]]
    end.

patterns(M, Code, Ops, Opts) ->
    {Set, Load, Clear} = case Opts of
                             [] -> {set, load, clear};
                             [keep_patterns] -> {set_kept, load_kept, clear_kept}
                         end,
    S = trace:session_create(?MODULE, self(), Opts),
    T1 = time(fun() -> operate(S, Ops) end),
    T2 = time(fun() -> load(M, Code) end),
    ok = operate(S, Ops),
    T3 = time(fun() -> operate(S, [{MFA, false, Flags} || {MFA, _, Flags} <- Ops]) end),
    true = trace:session_destroy(S),
    [{Set, T1}, {Load, T2}, {Clear, T3}].

operate(S, Ops) ->
    case options() of
        [[]] ->
            [1 = trace:function(S, MFA, How, Flags) || {MFA, How, Flags} <- Ops],
            ok;
        _ ->
            [1] = lists:usort(trace:patterns(S, Ops)),
            ok
    end.

tracer() ->
    receive _ -> tracer() end.

busy() ->
    _ = lists:seq(1, 10),
    busy().

leave_sessions(Tracer) ->
    {Pid, Ref} = spawn_monitor(fun() ->
                                       S = trace:session_create(left, Tracer, []),
                                       trace:function(S, {lists, seq, 2}, true, [local])
                               end),
    receive {'DOWN', Ref, process, Pid, _} -> leave_sessions(Tracer) end.

loads(Code, End) ->
    case erlang:monotonic_time(second) < End of
        true ->
            M = session_bench_mod,
            erts_code_purger:purge(M),
            Prepared = erlang:prepare_loading(M, Code),
            T = time(fun() -> ok = erlang:finish_loading([Prepared]) end),
            [T | loads(Code, End)];
        false ->
            []
    end.

load(M, Code) ->
    Prepared = erlang:prepare_loading(M, Code),
    erts_code_purger:purge(M),
    ok = erlang:finish_loading([Prepared]).

%% One module under many names, all as long as the compiled one.
load_many(Count) ->
    Template = mod(0),
    Code = module(Template, ?EXPORTS),
    More = Count - length(code:all_loaded()),
    ok = code:atomic_load([{M, atom_to_list(M),
                            binary:replace(Code, atom_to_binary(Template), atom_to_binary(M),
                                           [global])}
                           || I <- lists:seq(1, max(0, More)), M <- [mod(I)]]).

mod(I) ->
    list_to_atom(lists:flatten(io_lib:format("session_bench_~5..0b", [I]))).

module(M, Functions) ->
    Funs = [fn(I) || I <- lists:seq(1, Functions)],
    {ok, M, Code} =
        compile:forms([{attribute, 1, module, M},
                       {attribute, 1, export, [{F, 0} || F <- Funs]}
                       | [{function, 1, F, 0, [{clause, 1, [], [], [{atom, 1, F}]}]} || F <- Funs]],
                      []),
    Code.

fn(I) -> list_to_atom("f" ++ integer_to_list(I)).

cpu() ->
    {Cpu, _} = statistics(runtime),
    Cpu * 1000000.

time(Fun) ->
    T0 = erlang:monotonic_time(nanosecond),
    Fun(),
    erlang:monotonic_time(nanosecond) - T0.

collect(Times) ->
    lists:foldl(fun({Op, T}, Acc) -> Acc#{Op => [T | maps:get(Op, Acc, [])]} end, #{}, Times).
