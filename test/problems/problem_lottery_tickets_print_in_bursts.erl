%% SPDX-License-Identifier: Apache-2.0
%%
%% A process with high priority computes most of the time. Those with normal priority get
%% the only scheduler in the gaps.
-module(problem_lottery_tickets_print_in_bursts).

-export([about/0, start/0, draw/1, kiosk/1]).

about() ->
    #{
        title => "Tickets that need no time to print come in bursts, with long gaps",
        source =>
            "OTP documentation, erlang:process_flag(priority, Level): processes of lower priority "
            "don't run while one of a higher is runnable (erlang.org/doc/man/erlang); Fred Hebert, "
            "Erlang in Anger, on priorities and runaway processes",
        flags => ["+S", "1:1"],
        truth =>
            "prize_draw has priority high and computes for 300 ms of each 400 ms in shuffle/2 on the "
            "only scheduler; the kiosks, which have priority normal, wait in the run queue",
        who => [
            "prize_draw",
            "problem_lottery_tickets_print_in_bursts:(draw|spin|shuffle)/\\d"
        ],
        what => [
            "priorit(y|ies)",
            "run[_ -]?queue",
            "starv",
            "runnable",
            "scheduler",
            "scheduled",
            "monopol",
            "shuffle/2",
            "wait(s|ing|ed)? for (a |the )?(processor|cpu|core)"
        ]
    }.

start() ->
    true = register(prize_draw, spawn_opt(?MODULE, draw, [1], [{priority, high}])),
    _ = [spawn(?MODULE, kiosk, [N]) || N <- lists:seq(1, 10)],
    ok.

%% The draw has to be fair, so it shuffles for a long time.
draw(Seed) ->
    End = erlang:monotonic_time(millisecond) + 300,
    Next = spin(Seed, End),
    timer:sleep(100),
    draw(Next).

spin(Seed, End) ->
    Next = shuffle(Seed, 10000),
    case erlang:monotonic_time(millisecond) < End of
        true -> spin(Next, End);
        false -> Next
    end.

shuffle(Seed, 0) -> Seed;
shuffle(Seed, N) -> shuffle((Seed * 1103515245 + 12345) band 16#ffffff, N - 1).

kiosk(N) ->
    _ = [integer_to_list(I * N) || I <- lists:seq(1, 49)],
    timer:sleep(5),
    kiosk(N).
