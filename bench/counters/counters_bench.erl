%% SPDX-License-Identifier: Apache-2.0
%%
%% The cost of a sample of the node's counters, by the number of processes.
-module(counters_bench).

-export([main/0]).

-define(INTERVAL, 10).
-define(SAMPLES, 200).

main() ->
    {ok, [[Folder]]} = init:get_argument(out),
    {ok, [[Rounds]]} = init:get_argument(rounds),
    io:format("~12s ~12s ~9s ~9s ~15s ~9s ~9s~n", ["processes", "us/sample", "lowest", "highest", "CPU us/sample", "lowest", "highest"]),
    [print(N, measure(N, list_to_integer(Rounds), Folder)) || N <- [100, 10000, 100000, 1000000]],
    halt().

print(N, Times) ->
    {Took, Cpu} = lists:unzip(Times),
    io:format("~12b ~12b ~9b ~9b ~15b ~9b ~9b~n", [N | spread(Took) ++ spread(Cpu)]).

spread(List) ->
    Sorted = lists:sort(List),
    [lists:nth((length(Sorted) + 1) div 2, Sorted), hd(Sorted), lists:last(Sorted)].

%% Starts N waiting processes. For each round returns the mean duration of its samples and their
%% mean processor time, which is the processor time of the node minus that without samples. It
%% includes kymo_busiest, which measures processes between two samples.
measure(N, Rounds, Folder) ->
    Pids = [spawn_opt(fun() -> receive stop -> ok end end, [{min_heap_size, 12}]) || _ <- lists:seq(1, N)],
    Times = [one(filename:join(Folder, lists:concat([N, "-", R]))) || R <- lists:seq(1, Rounds)],
    lists:foreach(fun(P) -> P ! stop end, Pids),
    Times.

one(Dir) ->
    Idle = cpu(),
    timer:sleep(?SAMPLES * ?INTERVAL),
    Without = cpu() - Idle,
    {ok, R} = kymo:start(#{dir => Dir, memory => 4194304, names => 0, counters => ?INTERVAL}),
    #{counters := #{samples := First}} = kymo:info(R),
    Busy = cpu(),
    timer:sleep(?SAMPLES * ?INTERVAL),
    With = cpu() - Busy,
    {ok, #{counters := #{microseconds := Time, samples := Samples}}} = kymo:stop(R),
    {Time, 1000 * (With - Without) div max(1, Samples - First)}.

%% Milliseconds of processor time of all threads.
cpu() -> element(1, erlang:statistics(runtime)).
