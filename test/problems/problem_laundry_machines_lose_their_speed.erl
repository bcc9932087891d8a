%% SPDX-License-Identifier: Apache-2.0
%%
%% Someone left a line in the code that writes the whole state of the machine, for each turn
%% of the drum. The text is made in the process that reports, and costs more than the wash.
-module(problem_laundry_machines_lose_their_speed).

-export([about/0, start/0, machine/1]).

about() ->
    #{
        title => "Washing machines turn ten times slower than in the workshop",
        source =>
            "Fred Hebert, Erlang in Anger, chapter 3, Error Logging; OTP Kernel User's Guide, Logging, "
            "Protecting the Handler from Overload: formatting is done by the client process "
            "(erlang.org/doc/apps/kernel/logger_chapter)",
        flags => ["+S", "2:2"],
        truth =>
            "The machines (turn/2) call logger:warning with their whole state of 2000 programs for each "
            "turn; its formatting with ~p in io_lib takes almost all of the processors",
        who => [
            "problem_laundry_machines_lose_their_speed:(machine/1|turn/2)",
            "wash_journal"
        ],
        what => [
            "\\blogg(er|ing|ed)\\b",
            "\\blogs?\\b",
            "logger:",
            "logger_(formatter|backend|server|h_common):",
            "\\bio_lib",
            "format(s|ting|ted)?\\b",
            "pretty"
        ]
    }.

start() ->
    Top = os:getenv("TMPDIR", "/tmp"),
    Name = io_lib:format("laundry.~s.~b", [os:getpid(), erlang:unique_integer([positive])]),
    Folder = filename:join(Top, lists:flatten(Name)),
    ok = file:make_dir(Folder),
    _ = logger:remove_handler(default),
    ok = logger:add_handler(wash_journal, logger_std_h, #{
        config => #{
            file => filename:join(Folder, "journal"),
            max_no_bytes => 4000000,
            max_no_files => 2
        }
    }),
    _ = [spawn(?MODULE, machine, [N]) || N <- lists:seq(1, 4)],
    ok.

machine(N) ->
    turn(N, [{wool, I, #{degrees => I rem 60, minutes => 30}} || I <- lists:seq(1, 2000)]).

%% One turn of the drum.
turn(N, Programs0) ->
    [First | Rest] = Programs0,
    Programs = Rest ++ [First],
    logger:warning("machine ~b has turned: ~p", [N, Programs]),
    timer:sleep(10),
    turn(N, Programs).
