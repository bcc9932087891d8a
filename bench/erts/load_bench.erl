%% SPDX-License-Identifier: Apache-2.0
%%
%% The cost of loading, replacing, deleting and purging a tiny module, by the number of loaded
%% modules, on an unpatched and a patched runtime in alternating rounds.
-module(load_bench).

-export([main/0, worker/0]).

-define(SIZES, [150, 1000, 4000]).
-define(EXPORTS, 50).

%% The measurements of a cycle in this order; see cycle/2.
-define(OPS, [first, load, replace, refused, delete, purge, on_load]).

%%
%% The driver
%%

-type quartile() :: float().

%% @doc Entry point of `bench/erts/load_run'. Flags of the command line: `-stock ERL',
%% `-patched ERL', `-rounds N', `-cycles N'. Prints a table, in microseconds
%% (lower quartile of all cycles), and halts with status 1 if a target is missed.
-spec main() -> no_return().
main() ->
    [Stock, Patched] = [flag(F) || F <- [stock, patched]],
    [Rounds, Cycles] = [list_to_integer(flag(F)) || F <- [rounds, cycles]],
    Boot = boot_times([Stock, Patched], 3 * Rounds),
    Workers = [start_worker(Erl) || Erl <- [Stock, Patched]],
    Results = [{Size, run_size(Workers, Size, Rounds, Cycles)} || Size <- ?SIZES],
    [stop_worker(W) || W <- Workers],
    io:format("start of a runtime, processor time: stock ~.1f ms, patched ~.1f ms, ratio ~.2f~n~n",
              Boot ++ [lists:last(Boot) / hd(Boot)]),
    io:format("~-8s ~-8s ~12s ~12s ~10s ~14s~n",
              ["modules", "what", "stock us", "patched us", "stock/p.", "p. / p. at 150"]),
    [{_, {_, First}} | _] = Results,
    [begin
         [io:format("~-8b ~-8s ~12.1f ~12.1f ~10.1f ~14.2f~n",
                    [Loaded, Op, S, P, S / P, P / maps:get(Op, lists:last(First))])
          || Op <- ?OPS, [S, P] <- [[maps:get(Op, X) || X <- Times]]],
         io:format("~-8b ~-8s ~12b ~12b ~10.3f~n",
                   [Loaded, "code kB" | kilobytes(Times)] ++ [code_ratio(Times)])
     end || {_, {Loaded, Times}} <- Results],
    halt(judge(Results)).

flag(F) ->
    {ok, [[Value]]} = init:get_argument(F),
    Value.

kilobytes(Times) -> [round(maps:get(memory, T) / 1024) || T <- Times].

code_ratio([S, P]) -> maps:get(memory, P) / maps:get(memory, S).

%% The targets apply to loading a new module.
judge(Results) ->
    Load = [{Loaded, [maps:get(load, T) || T <- Times]} || {_, {Loaded, Times}} <- Results],
    {_, [_, Small]} = hd(Load),
    {Loaded, [Stock, Large]} = lists:last(Load),
    Flat = Large / Small,
    Gain = Stock / Large,
    io:format("~nload at ~b modules: ~.2f times that of the small system (target: at most 1.2), "
              "~.1f times less than stock (target: at least 30)~n", [Loaded, Flat, Gain]),
    case Flat =< 1.2 andalso Gain >= 30 of
        true -> 0;
        false -> io:format("target missed~n"), 1
    end.

run_size(Workers, Size, Rounds, Cycles) ->
    [Loaded | _] = [ask(W, {grow, Size}) || W <- Workers],
    [ask(W, {cycles, Cycles}) || W <- Workers],
    PerRound = [[ask(W, {cycles, Cycles}) || W <- turns(R, Workers)] || R <- lists:seq(1, Rounds)],
    Samples = lists:foldl(fun(Round, Acc) -> lists:zipwith(fun(A, B) -> A ++ B end, Round, Acc) end,
                          [[], []], [turns(R, S) || {R, S} <- lists:zip(lists:seq(1, Rounds), PerRound)]),
    Memory = [ask(W, memory) || W <- Workers],
    {Loaded, [(summary(S))#{memory => M} || {S, M} <- lists:zip(Samples, Memory)]}.

%% The order of the runtimes alternates between rounds.
turns(R, Pair) when R rem 2 =:= 0 -> lists:reverse(Pair);
turns(_, Pair) -> Pair.

-spec summary([tuple()]) -> #{atom() => quartile()}.
summary(Cycles) ->
    maps:from_list([{Op, lower_quartile([element(I, C) || C <- Cycles])}
                    || {I, Op} <- lists:zip(lists:seq(1, length(?OPS)), ?OPS)]).

lower_quartile(Ns) ->
    Us = [N / 1000 || N <- lists:sort(Ns)],
    lists:nth(max(1, length(Us) div 4), Us).

%% Processor time, because the elapsed time of a start depends mostly on other programs.
boot_times(Erls, N) ->
    Times = [[boot_time(E) || E <- Erls] || _ <- lists:seq(1, N)],
    [lists:sum([lists:nth(I, T) || T <- Times]) / N || I <- [1, 2]].

boot_time(Erl) ->
    Port = open_port({spawn_executable, Erl},
                     [exit_status, {args, ["+S", "2:2", "-noshell", "-noinput", "-eval",
                                           "io:put_chars(integer_to_list(element(1, statistics(runtime)))),"
                                           "halt()."]}]),
    receive {Port, {data, Ms}} -> receive {Port, {exit_status, 0}} -> list_to_integer(Ms) end end.

start_worker(Erl) ->
    Dir = filename:dirname(code:which(?MODULE)),
    open_port({spawn_executable, Erl},
              [exit_status, binary, {line, 16#1000000},
               {args, ["+S", "2:2", "-noshell", "-pa", Dir, "-s", ?MODULE_STRING, "worker"]}]).

ask(Port, Request) ->
    port_command(Port, io_lib:format("~0p.~n", [Request])),
    receive
        {Port, {data, {eol, <<"answer ", Text/binary>>}}} ->
            {ok, Tokens, _} = erl_scan:string(binary_to_list(Text)),
            {ok, Answer} = erl_parse:parse_term(Tokens),
            Answer;
        {Port, {exit_status, Status}} ->
            io:format("worker ended with status ~b~n", [Status]),
            halt(2)
    end.

stop_worker(Port) ->
    port_command(Port, "stop.\n"),
    receive {Port, {exit_status, 0}} -> ok end.

%%
%% The worker: what is measured
%%

%% @doc Reads requests from standard input and prints the answers.
-spec worker() -> no_return().
worker() ->
    Tiny = tiny(),
    worker_loop(Tiny).

worker_loop(Tiny) ->
    Answer = case io:read("") of
                 {ok, {grow, Size}} -> grow(Size);
                 {ok, {cycles, N}} -> [cycle(I, Tiny) || I <- lists:seq(1, N)];
                 {ok, memory} -> erlang:memory(code);
                 {ok, stop} -> halt(0);
                 eof -> halt(1)
             end,
    io:format("answer ~0p.~n", [Answer]),
    worker_loop(Tiny).

%% Loads modules of 50 exports until so many are loaded. Many modules per commit, because single
%% loads would take an unpatched runtime minutes.
grow(Size) ->
    Have = length(erlang:loaded()),
    Template = 'kymo_big_000000',
    Functions = [{list_to_atom("f" ++ integer_to_list(I)), I} || I <- lists:seq(1, ?EXPORTS)],
    Big = compile(Template, Functions, []),
    New = [rename(Template, list_to_atom(lists:flatten(io_lib:format("kymo_big_~6..0b", [I]))), Big)
           || I <- lists:seq(Have + 1, max(Have, Size))],
    load_many(New),
    length(erlang:loaded()).

load_many([]) ->
    ok;
load_many(Mods) ->
    {Now, Later} = lists:split(min(100, length(Mods)), Mods),
    ok = erlang:finish_loading([erlang:prepare_loading(M, B) || {M, B} <- Now]),
    load_many(Later).

%% Loads tiny modules, replaces one by another version, and removes it. Times are in
%% nanoseconds. `first' and `load' are the same operation, but the first one has to wake
%% schedulers that have gone to sleep, at the cost of the operating system's wake-up. `refused'
%% is a load that fails because there is old code.
cycle(I, {Name, V1, V2, OnLoad}) ->
    M = list_to_atom(lists:flatten(io_lib:format("kymo_tiny_~6..0b", [I]))),
    Other = list_to_atom(lists:flatten(io_lib:format("kymo_othr_~6..0b", [I]))),
    P0 = erlang:prepare_loading(Other, element(2, rename(Name, Other, V1))),
    [P1, P2, P3, P4] = [erlang:prepare_loading(M, element(2, rename(Name, M, B)))
                        || B <- [V1, V2, V1, OnLoad]],
    {First, ok} = time(fun() -> erlang:finish_loading([P0]) end),
    {Load, ok} = time(fun() -> erlang:finish_loading([P1]) end),
    {Replace, ok} = time(fun() -> erlang:finish_loading([P2]) end),
    {Refused, {not_purged, [M]}} = time(fun() -> erlang:finish_loading([P3]) end),
    true = erlang:purge_module(M),
    true = erlang:delete_module(Other),
    {Delete, true} = time(fun() -> erlang:delete_module(M) end),
    {Purge, true} = time(fun() -> erlang:purge_module(M) end),
    {OnLoad1, {on_load, [M]}} = time(fun() -> erlang:finish_loading([P4]) end),
    ok = erlang:call_on_load_function(M),
    {OnLoad2, _} = time(fun() -> erts_code_purger:finish_after_on_load(M, true) end),
    true = erlang:delete_module(M),
    true = erlang:purge_module(M),
    true = erlang:purge_module(Other),
    {First, Load, Replace, Refused, Delete, Purge, OnLoad1 + OnLoad2}.

time(F) ->
    T0 = erlang:monotonic_time(),
    R = F(),
    {erlang:convert_time_unit(erlang:monotonic_time() - T0, native, nanosecond), R}.

tiny() ->
    Name = 'kymo_tiny_000000',
    {Name, compile(Name, [{f, 1}], []), compile(Name, [{f, 2}], []),
     compile(Name, [{f, 1}, {init, ok}], [init])}.

%% A module of functions that return constants; on_load functions by name.
compile(M, Functions, OnLoad) ->
    Forms = [{attribute, 1, module, M},
             {attribute, 1, export, [{F, 0} || {F, _} <- Functions]}] ++
        [{attribute, 1, on_load, {F, 0}} || F <- OnLoad] ++
        [{function, 1, F, 0, [{clause, 1, [], [], [erl_parse:abstract(R)]}]} || {F, R} <- Functions],
    {ok, M, Bin} = compile:forms(Forms, [deterministic]),
    Bin.

%% New names have the same length, because only the atom of the name is replaced in the file.
rename(From, To, Bin) ->
    {To, binary:replace(Bin, atom_to_binary(From, utf8), atom_to_binary(To, utf8), [global])}.
