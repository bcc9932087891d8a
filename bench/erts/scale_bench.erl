%% SPDX-License-Identifier: Apache-2.0
%%
%% Operations in systems with many modules or processes, on an unpatched and a patched runtime in
%% alternating rounds: the time of each, its longest step, and the longest waits for its locks.
-module(scale_bench).

-export([main/0, worker/0, fill/0]).
%% Called and traced.
-export([called/0, counted/0, thread_time/0]).

%% Exported functions of a module, to which module_info/0,1 are added: the export table has
%% 524,288 entries. Of a module that fills this table.
-define(EXPORTS, 5).
-define(MANY_EXPORTS, 50).

%% Modules in one commit.
-define(COMMIT, 4000).
-define(FILL_COMMIT, 100).

%% What others do during an operation, and measure how long it takes them.
-define(WAITS, [call, spawn, permission]).

%% Operations whose time must not depend on the size of the system.
-define(FLAT, [load, replace, delete, pattern_set, pattern_clear, destroy_unused]).

%%
%% The driver
%%

%% @doc Entry point of `bench/erts/scale_run'. Flags of the command line: `-stock ERL',
%% `-patched ERL', `-rounds N', `-cycles N', `-parts limits|MODULES,PROCESSES...'. Prints a table for
%% each part and halts with status 1 if a target is missed.
-spec main() -> no_return().
main() ->
    [[Stock], [Patched], [Rounds], [Cycles], Parts] =
        [begin {ok, [Value]} = init:get_argument(F), Value end
         || F <- [stock, patched, rounds, cycles, parts]],
    Erls = [Stock, Patched],
    [limits(Erls) || lists:member("limits", Parts)],
    Sizes = [list_to_tuple([list_to_integer(N) || N <- string:split(Part, ",")])
             || Part <- Parts, Part =/= "limits"],
    halt(judge([{Size, size(Erls, Size, list_to_integer(Rounds), list_to_integer(Cycles))}
                || Size <- Sizes])).

limits(Erls) ->
    io:format("~nmodules that can be loaded~n", []),
    [begin
         {Last, Reason} = fill(Erl, Exports),
         io:format("~-8s ~2b exports each: ~s, then: ~s~n", [Name, Exports + 2, Last, Reason])
     end || Exports <- [?EXPORTS, ?MANY_EXPORTS], {Name, Erl} <- lists:zip(["stock", "patched"], Erls)].

%% Loads modules until the runtime ends. Returns the last of its reports, and the reason.
fill(Erl, Exports) ->
    Port = open_port({spawn_executable, Erl},
                     [exit_status, stderr_to_stdout, {line, 1000}, {env, [{"ERL_CRASH_DUMP_SECONDS", "0"}]},
                      {args, ["-noshell", "-noinput", "-pa", filename:dirname(code:which(?MODULE)),
                              "-exports", integer_to_list(Exports), "-s", ?MODULE_STRING, "fill"]}]),
    filled(Port, "nothing", "no reason").

filled(Port, Last, Reason) ->
    receive
        {Port, {data, {eol, "loaded " ++ Report}}} -> filled(Port, Report, Reason);
        {Port, {data, {eol, "no more" ++ _ = Line}}} -> filled(Port, Last, Line);
        {Port, {data, _}} -> filled(Port, Last, Reason);
        {Port, {exit_status, _}} -> {Last, Reason}
    end.

%% Measures both runtimes. Returns the measurements of each by operation.
size(Erls, {Modules, Processes}, Rounds, Cycles) ->
    Flags = io_lib:format("+S 2:2 +IOs false +P ~b -kernel logger_level critical",
                          [max(262144, 2 * Processes)]),
    Workers = [bench_worker:start(Erl, Flags, ?MODULE) || Erl <- Erls],
    Loaded = [bench_worker:ask(W, {prepare, Modules, Processes, Cycles}) || W <- Workers],
    Samples = [[bench_worker:ask(W, measure) || W <- Workers] || _ <- lists:seq(1, Rounds)],
    Memory = [bench_worker:ask(W, memory) || W <- Workers],
    [bench_worker:stop(W) || W <- Workers],
    [Stock, Patched] = [merge([lists:nth(I, S) || S <- Samples]) || I <- [1, 2]],
    {M, P} = hd(Loaded),
    io:format("~n~b modules, ~b processes; code ~b (patched ~b) MB, all memory ~b (~b) MB; load ~s~n",
              [M, P | lists:append([[maps:get(K, Mem) div 1000000 || Mem <- Memory] || K <- [code, total]])]
              ++ [load_average()]),
    io:format("ms                                         |longest step     |longest wait of others for~n"
              "~-16s ~8s ~8s ~8s|~8s ~8s",
              ["operation", "stock", "patched", "stock/p.", "stock", "patched"]),
    [io:format("|~16s ", [W]) || W <- ["a call: stock, p.", "a spawn", "permission"]],
    io:nl(),
    [row(Op, Stock, Patched) || Op <- names(Patched)],
    Patched.

load_average() ->
    {ok, Text} = file:read_file("/proc/loadavg"),
    lists:join(" ", lists:sublist(string:lexemes(Text, " "), 3)).

names(Measured) ->
    [Op || {Op, _, _, _, _} <- operations(), maps:is_key({Op, call}, Measured)].

row(Op, Stock, Patched) ->
    Pair = fun(What) -> [ms(maps:get({Op, What}, M, none)) || M <- [Stock, Patched]] end,
    Ratio = case [maps:get({Op, time}, M, none) || M <- [Stock, Patched]] of
                [S, P] when is_number(S), is_number(P) -> io_lib:format("~.1f", [S / P]);
                _ -> ""
            end,
    io:format("~-16s ~8s ~8s ~8s", [Op | Pair(time)] ++ [Ratio]),
    [io:format("|~8s ~8s", Pair(What)) || What <- [step | ?WAITS]],
    io:nl().

ms(none) -> "-";
ms(Ns) -> io_lib:format("~.3f", [Ns / 1.0e6]).

%% Lower quartiles, because other programs on the machine make single values larger.
merge(Samples) ->
    All = maps:groups_from_list(fun({K, _}) -> K end, fun({_, V}) -> V end, lists:append(Samples)),
    maps:map(fun(_, L) -> lists:nth(length(L) div 4 + 1, lists:sort(L)) end, All).

judge([{_, First} | _] = Sizes) ->
    io:nl(),
    lists:max([begin
                   {{M, P}, Last} = Size,
                   Ratio = maps:get({Op, time}, Last) / maps:get({Op, time}, First),
                   Met = Ratio =< 1.5,
                   io:format("~-15s patched, ~b modules, ~b processes / smallest ~8.2f <= 1.5 ~s~n",
                             [Op, M, P, Ratio, case Met of true -> "met"; false -> "MISSED" end]),
                   case Met of true -> 0; false -> 1 end
               end || Op <- ?FLAT, Size <- tl(Sizes)] ++ [0]);
judge([]) ->
    0.

%%
%% The runtime that loads until it cannot
%%

%% @doc Loads modules with `-exports N' exported functions until the runtime ends.
-spec fill() -> no_return().
fill() ->
    {ok, [[Exports]]} = init:get_argument(exports),
    fill(template(list_to_integer(Exports)), length(erlang:loaded()), 0).

fill(Template, Before, N) ->
    load(Template, N + 1, N + ?FILL_COMMIT),
    io:format("loaded ~b modules~n", [Before + N + ?FILL_COMMIT]),
    fill(Template, Before, N + ?FILL_COMMIT).

%%
%% The worker
%%

%% @doc A runtime to be measured: serves requests.
-spec worker() -> no_return().
worker() ->
    ok = erlang:load_nif(filename:join(filename:dirname(code:which(?MODULE)), "scale_nif"), 0),
    {module, trace} = code:ensure_loaded(trace),
    erts_debug:set_internal_state(available_internal_state, true),
    bench_worker:serve(fun request/1).

request({prepare, Modules, Processes, Cycles}) ->
    Tracer = spawn(fun idle/0),
    put(tracer, Tracer),
    put(template, template(?EXPORTS)),
    put(modules, max(0, Modules - length(erlang:loaded()))),
    put(processes, Processes),
    put(cycles, Cycles),
    put(fresh, 900000),
    load_many(get(template), 1, get(modules)),
    Counts = trace:session_create(counts, Tracer, []),
    1 = trace:function(Counts, {?MODULE, counted, 0}, true, [call_time]),
    put(counts, Counts),
    start_processes(Counts, Processes),
    Calls = trace:session_create(calls, Tracer, []),
    1 = trace:function(Calls, {?MODULE, called, 0}, true, [global]),
    put(calls, Calls),
    {length(erlang:loaded()), erlang:system_info(process_count)};
request(measure) ->
    Ops = [Op || Op <- operations(), possible(element(1, Op))],
    lists:append([timed(Op) || Op <- Ops] ++ [observed(Op) || Op <- Ops]);
request(memory) ->
    #{code => erlang:memory(code), total => erlang:memory(total)}.

%% Each has called counted/0, so that its call_time is counted.
start_processes(Counts, N) ->
    {_, Ref} = spawn_monitor(
                 fun() ->
                         1 = trace:process(Counts, self(), true, [call, set_on_spawn]),
                         _ = [spawn(fun() -> ?MODULE:counted(), idle() end) || _ <- lists:seq(1, N)]
                 end),
    receive {'DOWN', Ref, _, _, normal} -> ok end.

idle() -> receive _ -> idle() end.

called() -> ok.

counted() -> ok.

thread_time() -> erlang:nif_error(not_loaded).

%% Name, repetitions (of short operations: cycles), preparation, operation, and what comes after.
operations() ->
    [{nothing, 1, fun none/0, fun(_) -> ok end, fun none/1},
     {load, cycles, fun() -> prepared(fresh()) end, fun finish/1, fun none/1},
     {replace, cycles, fun() -> prepared(loaded()) end, fun finish/1, fun none/1},
     {delete, cycles, fun loaded/0, fun(M) -> true = erlang:delete_module(M) end, fun none/1},
     {purge, 3, fun() -> M = loaded(), true = erlang:delete_module(M), M end,
      fun(M) -> true = erlang:purge_module(M) end, fun none/1},
     {pattern_set, cycles, fun session/0, fun(S) -> 1 = set(S, one(), true) end, fun destroy/1},
     {pattern_clear, cycles, fun() -> S = session(), 1 = set(S, one(), true), S end,
      fun(S) -> 1 = set(S, one(), false) end, fun destroy/1},
     {batch_set, 1, fun() -> {session(), batch()} end,
      fun({S, Batch}) -> trace:patterns(S, Batch) end, fun({S, _}) -> destroy(S) end},
     {batch_destroy, 1,
      fun() ->
              S = trace:session_create(batch, get(tracer), [keep_patterns]),
              trace:patterns(S, batch()),
              S
      end,
      fun destroy/1, fun none/1},
     {all_set, 1, fun session/0, fun(S) -> set(S, all(), true) end, fun destroy/1},
     {all_clear, 1, fun() -> S = session(), set(S, all(), true), S end,
      fun(S) -> set(S, all(), false) end, fun destroy/1},
     {all_destroy, 1, fun() -> S = session(), set(S, all(), true), S end, fun destroy/1, fun none/1},
     {destroy_unused, cycles, fun session/0, fun destroy/1, fun none/1},
     {flags_set, 1, fun session/0, fun(S) -> flags(S, true) end, fun destroy/1},
     {flags_clear, 1, fun() -> S = session(), flags(S, true), S end,
      fun(S) -> flags(S, false) end, fun destroy/1},
     {flags_destroy, 1, fun() -> S = session(), flags(S, true), S end, fun destroy/1, fun none/1},
     {read_call_time, 1, fun() -> get(counts) end,
      fun(S) -> {call_time, L} = trace:info(S, {?MODULE, counted, 0}, call_time), true = is_list(L) end,
      fun none/1}].

possible(Op) when Op =:= batch_set; Op =:= batch_destroy ->
    erlang:function_exported(trace, patterns, 2) andalso get(processes) =:= 0;
possible(Op) when Op =:= all_set; Op =:= all_clear; Op =:= all_destroy -> get(processes) =:= 0;
possible(Op) when Op =:= flags_set; Op =:= flags_clear; Op =:= flags_destroy; Op =:= read_call_time ->
    get(processes) > 0;
possible(_) -> true.

none() -> none.

none(_) -> ok.

fresh() ->
    N = get(fresh),
    put(fresh, N + 1),
    name(N).

prepared(M) ->
    erlang:prepare_loading(M, renamed(get(template), M)).

loaded() ->
    M = fresh(),
    finish(prepared(M)),
    M.

finish(Prepared) ->
    ok = erlang:finish_loading([Prepared]).

session() ->
    trace:session_create(scale, get(tracer), []).

destroy(S) ->
    true = trace:session_destroy(S).

set(S, MFA, How) ->
    trace:function(S, MFA, How, [local]).

one() -> {lists, seq, 2}.

all() -> {'_', '_', '_'}.

%% One function of each module.
batch() ->
    [{{name(I), f1, 0}, true, [local]} || I <- lists:seq(1, get(modules))].

flags(S, How) ->
    true = trace:process(S, all, How, [garbage_collection]) > get(processes).

timed({Op, Times, Prepare, Run, After}) ->
    [begin
         X = Prepare(),
         settle(Op),
         T = erlang:monotonic_time(nanosecond),
         Run(X),
         Time = erlang:monotonic_time(nanosecond) - T,
         After(X),
         {{Op, time}, Time}
     end || _ <- lists:seq(1, times(Times))].

times(cycles) -> get(cycles);
times(N) -> N.

%% What an operation leaves to be done later belongs to it, unless it is very short.
settle(Op) ->
    timer:sleep(case lists:member(Op, ?FLAT) of
                    true -> 1;
                    false -> 100 + get(processes) div 1000
                end).

%% Scheduler 1 does the operation. Processes run on both schedulers all the time.
observed({Op, Times, Prepare, Run, After}) ->
    Xs = [Prepare() || _ <- lists:seq(1, times(Times))],
    settle(Op),
    Dictionary = get(),
    Self = self(),
    Observers = [spawn_opt(fun() -> Self ! {self(), ready}, observe(What, thread_time(), 0, 0) end,
                           [link, {scheduler, S}])
                 || {S, What} <- [{1, none} | [{2, Wait} || Wait <- ?WAITS]]],
    [receive {Pid, ready} -> ok end || Pid <- Observers],
    {_, Ref} = spawn_opt(fun() ->
                                 [put(K, V) || {K, V} <- Dictionary],
                                 [begin Run(X), erlang:yield() end || X <- Xs]
                         end, [monitor, {scheduler, 1}]),
    receive {'DOWN', Ref, _, _, normal} -> ok end,
    settle(Op),
    [Pid ! {stop, Self} || Pid <- Observers],
    %% On scheduler 2 a process also waits for locks, while others run.
    {[Step | _], [_ | Waits]} = lists:unzip([receive {Pid, Result} -> Result end || Pid <- Observers]),
    [After(X) || X <- Xs],
    [{{Op, step}, Step} | [{{Op, Wait}, Longest} || {Wait, Longest} <- lists:zip(?WAITS, Waits)]].

%% Returns the longest processor time of this scheduler in which this process did not run, and
%% the longest time that this process has waited. It begins each wait after it has yielded, so
%% that it does not have to yield during it.
observe(What, Before, Step, Longest) ->
    pause(What),
    Waited = wait(What),
    Now = thread_time(),
    receive
        {stop, From} -> From ! {self(), {Step, Longest}}
    after 0 ->
            observe(What, Now, max(Step, Now - Before), max(Longest, Waited))
    end.

pause(permission) -> receive after 1 -> ok end;
pause(_) -> erlang:yield().

wait(none) ->
    0;
wait(What) ->
    T = erlang:monotonic_time(nanosecond),
    lock(What),
    erlang:monotonic_time(nanosecond) - T.

%% Through a traced trampoline, which waits while code becomes active.
lock(call) ->
    ?MODULE:called();
%% Adds to the process table, and inherits trace flags.
lock(spawn) ->
    spawn_opt(fun() -> ok end, [{scheduler, 2}]);
%% For which all operations on code and on trace settings wait. Seldom, because the stock runtime
%% does not grant it in the order of requests.
lock(permission) ->
    true = erts_debug:set_internal_state(code_mod_permission, true),
    true = erts_debug:set_internal_state(code_mod_permission, false).

%%
%% Modules
%%

load_many(_, From, To) when From > To ->
    ok;
load_many(Template, From, To) ->
    Last = min(To, From + ?COMMIT - 1),
    load(Template, From, Last),
    load_many(Template, Last + 1, To).

load(Template, From, To) ->
    ok = erlang:finish_loading([erlang:prepare_loading(M, renamed(Template, M))
                                || I <- lists:seq(From, To), M <- [name(I)]]).

%% All names have the same length.
name(I) ->
    list_to_atom(lists:flatten(io_lib:format("scale_bench_~6..0b", [I]))).

renamed(Template, M) ->
    binary:replace(Template, atom_to_binary(name(0)), atom_to_binary(M), [global]).

%% A module that exports functions which return a literal.
template(Exports) ->
    M = name(0),
    Functions = [list_to_atom("f" ++ integer_to_list(I)) || I <- lists:seq(1, Exports)],
    {ok, M, Code} =
        compile:forms([{attribute, 1, module, M},
                       {attribute, 1, export, [{F, 0} || F <- Functions]}
                       | [{function, 1, F, 0, [{clause, 1, [], [], [erl_parse:abstract({F, [F]})]}]}
                          || F <- Functions]],
                      [deterministic]),
    Code.
