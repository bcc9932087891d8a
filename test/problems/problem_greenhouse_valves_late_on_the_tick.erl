%% SPDX-License-Identifier: Apache-2.0
%%
%% All 300 beds have the same timetable, so that all of their jobs begin in the same moment of each second. A valve
%% that only has to answer in time waits behind them in the run queue.
-module(problem_greenhouse_valves_late_on_the_tick).

-export([about/0, start/0, timetable/1, watering/1, valve/0]).

about() ->
    #{
        title => "Once in each second the valves of the greenhouse answer late, on average there is enough time",
        source =>
            "OpenWhisk alarms, 600 cron jobs of the same minute and the thundering herd "
            "(https://github.com/apache/openwhisk-package-alarms/issues/196); the same with Elixir's Quantum",
        flags => ["+S", "2:2"],
        truth =>
            "The process registered as bed_timetable spawns 300 watering/1 at the begin of each second, which need "
            "about 2 ms of processor each, and everybody waits in the run queues for a third of each second",
        who => [
            "bed_timetable",
            "problem_greenhouse_valves_late_on_the_tick:(watering/1|moisture/2|timetable/1)"
        ],
        what => [
            "herd", "burst", "spike", "(all )?at once", "at the same (time|moment|instant)", "together", "simultaneous",
            "run.?queue", "runnable", "waits? for (a )?(scheduler|processor|cpu)", "(many|300|[0-9]{3,}) (short.?lived )?process",
            "short.?lived", "process creation", "scheduled? out", "overload", "cpu", "processor time", "computes?",
            "periodic"
        ]
    }.

start() ->
    register(bed_timetable, spawn(?MODULE, timetable, [erlang:monotonic_time(millisecond)])),
    lists:foreach(fun(_) -> spawn(fun valve/0) end, lists:seq(1, 5)).

timetable(At) ->
    lists:foreach(fun(Bed) -> spawn(?MODULE, watering, [Bed]) end, lists:seq(1, 300)),
    Next = At + 1000,
    timer:sleep(max(0, Next - erlang:monotonic_time(millisecond))),
    timetable(Next).

watering(Bed) -> moisture(Bed, 150000).

moisture(M, 0) -> M;
moisture(M, N) -> moisture((M * 75 + 74) rem 65537, N - 1).

%% A valve turns each 20 ms, and has next to nothing to do.
valve() ->
    timer:sleep(20),
    _ = moisture(1, 10),
    valve().
