%% SPDX-License-Identifier: Apache-2.0
%%
%% One process holds a global lock while it waits for something slow. The others try
%% again and again, and sleep ever longer between two tries.
-module(problem_election_counts_come_in_late).

-export([about/0, start/0, officer/0, district/1]).

about() ->
    #{
        title => "Districts hand in their counts seconds late, and nothing uses a processor",
        source =>
            "OTP documentation, module global: trans/3 and set_lock/3 "
            "(erlang.org/doc/man/global), with random sleeps between retries",
        flags => ["+S", "2:2"],
        truth =>
            "returning_officer holds the global lock ballot_box for 3 s at a time while it sleeps; the "
            "districts wait for the lock in global:trans/2, which retries after random sleeps",
        who => [
            "returning_officer",
            "ballot_box",
            "problem_election_counts_come_in_late:(officer|seal)/0"
        ],
        what => [
            "\\block(s|ed|ing)?\\b",
            "set_lock",
            "global:trans",
            "random_sleep",
            "mutex",
            "critical section",
            "retr(y|ies)"
        ]
    }.

start() ->
    true = register(returning_officer, spawn(?MODULE, officer, [])),
    _ = [spawn(?MODULE, district, [N]) || N <- lists:seq(1, 10)],
    ok.

%% The officer has the box for most of the time.
officer() ->
    ok = global:trans({ballot_box, self()}, fun seal/0),
    timer:sleep(50),
    officer().

%% The seal needs the signature of someone far away.
seal() ->
    timer:sleep(3000),
    ok.

%% A district counts, and puts its sum in the box.
district(N) ->
    Sum = lists:sum([rand:uniform(9) || _ <- lists:seq(1, 200)]),
    true = global:trans({ballot_box, self()}, fun() -> Sum > N end),
    timer:sleep(10),
    district(N).
