%% SPDX-License-Identifier: Apache-2.0
%%
%% The jingle mixer has priority high, and computes for most of the time on a node with one
%% scheduler. Processes with priority normal only run in its short rests.
-module(problem_radio_presenters_drop_words).

-export([about/0, start/0, mixer/0, presenter/1]).

about() ->
    #{
        title => "Presenters of the radio station drop words for some 80 ms many times a second",
        source =>
            "process_flag(priority, high), 'the scheduler first runs all of priority high': "
            "https://www.erlang.org/doc/man/erlang.html#process_flag_priority; Erlang in Anger 8.1.4",
        flags => ["+S", "1:1"],
        truth =>
            "jingle_mixer runs with priority high and computes in mix/2 for about 80 of 100 ms on the only "
            "scheduler, so that the presenters (priority normal) wait in the run queue",
        who => ["jingle_mixer", "problem_radio_presenters_drop_words:(mixer/0|mix/2|wave/2)"],
        what => [
            "priority",
            "starv",
            "cpu.?(bound|hog|time|use|burn)",
            "(busy|occup|hog|monopoli|load|hold|keep|use|burn)[a-z]*.{0,30}(scheduler|processor|cpu|core)",
            "comput(es|ing|ation)",
            "run.?queue",
            "wait[a-z]* for (a|the|its|another) ?(scheduler|processor|cpu|core|turn)",
            "ran instead",
            "\\brunning\\b"
        ]
    }.

start() ->
    lists:foreach(fun(N) -> spawn(?MODULE, presenter, [N]) end, lists:seq(1, 4)),
    true = register(jingle_mixer, spawn_opt(?MODULE, mixer, [], [{priority, high}])),
    ok.

%% Mixes for 80 ms, and rests for 20 ms.
mixer() ->
    mix(erlang:monotonic_time(millisecond) + 80, 1.0),
    timer:sleep(20),
    mixer().

mix(Until, X) ->
    Y = wave(2000, X),
    case erlang:monotonic_time(millisecond) < Until of
        true -> mix(Until, Y);
        false -> Y
    end.

wave(0, X) -> X;
wave(N, X) -> wave(N - 1, math:sin(X) * 0.7 + 0.1).

%% Some words in every 10 ms.
presenter(N) ->
    _ = [integer_to_list(N * I) || I <- lists:seq(1, 200)],
    timer:sleep(10),
    presenter(N).
