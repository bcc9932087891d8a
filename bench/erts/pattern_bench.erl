%% SPDX-License-Identifier: Apache-2.0
%%
%% The cost of setting and clearing trace patterns, by the number of loaded modules, and of many
%% patterns at once, on an unpatched and a patched runtime in alternating rounds.
-module(pattern_bench).

-export([main/0, worker/0]).

-define(SIZES, [150, 1000, 4000]).
-define(EXPORTS, 50).

%% The number of patterns in a batch, each for another module, and of processes that keep the
%% schedulers busy.
-define(BATCH, 1000).
-define(BUSY, 4).

%% The operations that are measured, and their flags.
-define(MFA_OPS, [{local, [local]}, {global, [global]}, {meta, [meta]},
                  {call_count, [call_count]}, {call_time, [call_time]},
                  {call_memory, [call_memory]}]).

%%
%% The driver
%%

%% @doc Entry point of `bench/erts/pattern_run'. Flags of the command line:
%% `-stock ERL', `-patched ERL', `-rounds N', `-cycles N'. Prints tables, in
%% microseconds (lower quartile of all cycles), and halts with status 1 if a
%% target is missed.
-spec main() -> no_return().
main() ->
    [Stock, Patched] = [flag(F) || F <- [stock, patched]],
    [Rounds, Cycles] = [list_to_integer(flag(F)) || F <- [rounds, cycles]],
    Sizes = run_sizes([Stock, Patched], Rounds, Cycles),
    io:format("~-8s ~-18s ~12s ~12s ~10s ~14s~n",
              ["modules", "what", "stock us", "patched us", "stock/p.", "p. / p. at " ++
                   integer_to_list(element(1, hd(Sizes)))]),
    {_, [_, First]} = hd(Sizes),
    [[io:format("~-8b ~-18s ~12.1f ~12.1f ~10.1f ~14.2f~n",
                [Loaded, name(Op), S, P, S / P, P / maps:get(Op, First)])
      || Op <- lists:sort(maps:keys(First)),
         [S, P] <- [[maps:get(Op, T) || T <- Times]]]
     || {Loaded, Times} <- Sizes],
    Batch = run_batch([Stock, Patched], 1),
    halt(judge(Sizes, Batch)).

flag(F) ->
    {ok, [[Value]]} = init:get_argument(F),
    Value.

name({What, How}) ->
    io_lib:format("~s ~s", [What, How]).

%% Runtimes of all sizes run at the same time, so that other work on the machine affects all of
%% them alike. Each round starts new ones, because a runtime keeps its placement in memory and
%% on processors. The first round is discarded.
%%
%% Schedulers do not poll for I/O. Otherwise an idle scheduler would do so, and if that is the
%% scheduler of the process that waits for the others, each wait would cost two more system
%% calls, at random in both runtimes and for any number of modules.
run_sizes(Erls, Rounds, Cycles) ->
    [_ | Samples] = [round(Erls, Cycles) || _ <- lists:seq(0, Rounds)],
    [{element(1, hd(Size)), [merge([lists:nth(I, Maps) || {_, Maps} <- Size]) || I <- [1, 2]]}
     || Size <- transpose(Samples)].

round(Erls, Cycles) ->
    Pairs = [[bench_worker:start(Erl, "+IOs false", ?MODULE) || Erl <- Erls] || _ <- ?SIZES],
    Loaded = [hd([bench_worker:ask(W, {modules, Size}) || W <- Pair])
              || {Size, Pair} <- lists:zip(?SIZES, Pairs)],
    Maps = [[bench_worker:ask(W, {cycles, Cycles}) || W <- Pair] || Pair <- Pairs],
    [[bench_worker:stop(W) || W <- Pair] || Pair <- Pairs],
    lists:zip(Loaded, Maps).

transpose([[] | _]) -> [];
transpose(Lists) -> [[hd(L) || L <- Lists] | transpose([tl(L) || L <- Lists])].

merge([First | _] = Maps) ->
    maps:map(fun(Op, _) -> lower_quartile(lists:append([maps:get(Op, M) || M <- Maps])) end,
             First).

lower_quartile(L) ->
    lists:nth(length(L) div 4 + 1, lists:sort(L)) / 1000.

%% New runtimes, with as many schedulers as busy processes.
run_batch(Erls, Rounds) ->
    Workers = [bench_worker:start(Erl, io_lib:format("+S ~b:~b", [?BUSY, ?BUSY]), ?MODULE) || Erl <- Erls],
    [bench_worker:ask(W, {load, ?BATCH}) || W <- Workers],
    Samples = [[bench_worker:ask(W, batch) || W <- Workers] || _ <- lists:seq(1, Rounds)],
    [bench_worker:stop(W) || W <- Workers],
    [Stock, Patched] = [merge([lists:nth(I, S) || S <- Samples]) || I <- [1, 2]],
    io:format("~n~b patterns of ~b modules, ~b busy schedulers, ms~n",
              [?BATCH, ?BATCH, ?BUSY]),
    io:format("~-34s ~12s ~12s ~10s~n", ["", "stock", "patched", "stock/p."]),
    [io:format("~-34s ~12.1f ~12.1f ~10.1f~n", [What, S / 1000, P / 1000, S / P])
     || {What, S, P} <-
            [{"set, one by one", maps:get(set, Stock), maps:get(set, Patched)},
             {"set, stock one by one / one batch", maps:get(set, Stock),
              maps:get(set_batch, Patched)},
             {"clear, one by one", maps:get(clear, Stock), maps:get(clear, Patched)},
             {"clear, stock one by one / one batch", maps:get(clear, Stock),
              maps:get(clear_batch, Patched)}]],
    [{maps:get(Op, Stock), maps:get(Batch, Patched)}
     || {Op, Batch} <- [{set, set_batch}, {clear, clear_batch}]].

%% The targets apply to the local pattern of one function, and to the batch.
judge(Sizes, Batch) ->
    {_, [_, First]} = hd(Sizes),
    {_, [Stock, Patched]} = lists:last(Sizes),
    Ops = [{local, set}, {local, clear}],
    Least = lists:min([maps:get(Op, Stock) / maps:get(Op, Patched) || Op <- Ops]),
    Flat = lists:max([maps:get(Op, Patched) / maps:get(Op, First) || Op <- Ops]),
    BatchLeast = lists:min([S / P || {S, P} <- Batch]),
    Checks = [{"one function: stock / patched, most modules", Least, ">=", 150},
              {"one function: patched, most / fewest modules", Flat, "<=", 1.2},
              {"batch: stock / patched", BatchLeast, ">=", 50}],
    io:nl(),
    lists:max([begin
                   Met = case Cmp of ">=" -> Value >= Limit; "<=" -> Value =< Limit end,
                   io:format("~-46s ~10.2f ~s ~w ~s~n",
                             [What, Value, Cmp, Limit,
                              case Met of true -> "met"; false -> "MISSED" end]),
                   case Met of true -> 0; false -> 1 end
               end || {What, Value, Cmp, Limit} <- Checks]).

%%
%% The worker
%%

%% @doc A runtime to be measured: serves requests.
-spec worker() -> no_return().
worker() ->
    process_flag(priority, high),
    bench_worker:serve(fun request/1).

request({modules, Size}) ->
    load_up_to(Size),
    length(code:all_loaded());
request({load, Count}) ->
    code:atomic_load(modules(1, Count));
request({cycles, Cycles}) ->
    S = trace:session_create(?MODULE, self(), []),
    Times = [cycle(S) || _ <- lists:seq(1, Cycles)],
    Wild = [wild(S) || _ <- lists:seq(1, 3)],
    trace:session_destroy(S),
    collect(lists:append(Times ++ Wild));
request(batch) ->
    Busy = [spawn_link(fun busy/0) || _ <- lists:seq(1, ?BUSY)],
    S = trace:session_create(?MODULE, self(), []),
    MFAs = [{mod(I), f1, 0} || I <- lists:seq(1, ?BATCH)],
    Times = one_by_one(S, MFAs) ++ batch(S, MFAs),
    trace:session_destroy(S),
    [begin unlink(P), exit(P, kill) end || P <- Busy],
    collect(Times).

cycle(S) ->
    MFA = {lists, seq, 2},
    lists:append(
      [begin
           Set = time(fun() -> 1 = trace:function(S, MFA, true, Flags) end),
           Info = time(fun() -> trace:info(S, MFA, traced) end),
           Clear = time(fun() -> 1 = trace:function(S, MFA, false, Flags) end),
           [{{What, set}, Set}, {{What, clear}, Clear}]
               ++ [{{info, traced}, Info} || What =:= local]
       end || {What, Flags} <- ?MFA_OPS]).

wild(S) ->
    lists:append(
      [begin
           Set = time(fun() -> trace:function(S, {'_', '_', '_'}, true, [What]) end),
           Clear = time(fun() -> trace:function(S, {'_', '_', '_'}, false, [What]) end),
           [{{list_to_atom("all_" ++ atom_to_list(What)), set}, Set},
            {{list_to_atom("all_" ++ atom_to_list(What)), clear}, Clear}]
       end || What <- [local, global]]).

one_by_one(S, MFAs) ->
    [{set, time(fun() -> [1 = trace:function(S, MFA, true, [local]) || MFA <- MFAs] end)},
     {clear, time(fun() -> [1 = trace:function(S, MFA, false, [local]) || MFA <- MFAs] end)}].

batch(S, MFAs) ->
    case erlang:function_exported(trace, patterns, 2) of
        true ->
            [{What, time(fun() ->
                                 N = lists:sum(trace:patterns(S, [{MFA, How, [local]}
                                                                  || MFA <- MFAs])),
                                 N = length(MFAs)
                         end)}
             || {What, How} <- [{set_batch, true}, {clear_batch, false}]];
        false ->
            []
    end.

time(Fun) ->
    T0 = erlang:monotonic_time(nanosecond),
    Fun(),
    erlang:monotonic_time(nanosecond) - T0.

collect(Times) ->
    lists:foldl(fun({Op, T}, Acc) -> Acc#{Op => [T | maps:get(Op, Acc, [])]} end, #{}, Times).

busy() ->
    _ = lists:seq(1, 100),
    busy().

%% All in one commit, because loading them one at a time takes longer than the benchmark.
load_up_to(Size) ->
    case Size - length(code:all_loaded()) of
        More when More > 0 ->
            First = case get(loaded) of undefined -> 0; N -> N end,
            ok = code:atomic_load(modules(First + 1, First + More)),
            put(loaded, First + More),
            load_up_to(Size);
        _ ->
            ok
    end.

mod(I) ->
    list_to_atom(lists:flatten(io_lib:format("pattern_bench_~5..0b", [I]))).

%% One module under many names, all as long as the compiled one.
modules(From, To) ->
    Template = mod(0),
    Funs = [list_to_atom("f" ++ integer_to_list(J)) || J <- lists:seq(1, ?EXPORTS)],
    {ok, Template, Code} =
        compile:forms([{attribute, 1, module, Template},
                       {attribute, 1, export, [{F, 0} || F <- Funs]}
                       | [{function, 1, F, 0, [{clause, 1, [], [], [{atom, 1, F}]}]}
                          || F <- Funs]], []),
    [{M, atom_to_list(M), binary:replace(Code, atom_to_binary(Template), atom_to_binary(M),
                                         [global])}
     || I <- lists:seq(From, To), M <- [mod(I)]].
