%% SPDX-License-Identifier: Apache-2.0
%%
%% Each caller of a radio show gets a process of its own, which is neither linked nor
%% monitored, and waits for a goodbye that never comes.
-module(problem_radio_studio_population_climbs).

-export([about/0, start/0, switchboard/1, caller/2]).

about() ->
    #{
        title => "Memory grows all evening, and never falls when the show is over",
        source =>
            "Fred Hebert, Erlang in Anger, chapter 7 and 9: leaks of processes, no links between "
            "them; Fred Hebert, Learn You Some Erlang, Errors and Processes; prog21.dadgum.com/43.html",
        flags => ["+S", "2:2"],
        truth =>
            "switchboard spawns 200 processes caller/2 a second, unlinked, which wait for ever in "
            "on_air/2: a leak of processes",
        who => [
            "switchboard",
            "problem_radio_studio_population_climbs:(caller/2|on_air/2|switchboard/1)"
        ],
        what => [
            "process(es)? (leak|count|grow|accumul|increas|pile)",
            "number of (its |such |the )?processes",
            "(leak|accumulat|grow|more|increas|many|new)\\w* .{0,30}process(es)?",
            "process(es)? .{0,60}(never|do not|don't|did not|without) (exit|end|terminat|stop|die)",
            "spawn",
            "creates? .{0,30}process",
            "unlinked"
        ]
    }.

start() ->
    true = register(switchboard, spawn(?MODULE, switchboard, [1])),
    ok.

%% The phone rings two hundred times a second.
switchboard(Line) ->
    _ = spawn(?MODULE, caller, [Line, self()]),
    timer:sleep(4),
    switchboard(Line + 1).

caller(Line, Board) ->
    %% The opinion of the caller, and the music in the background.
    Opinion = [{word, I, Line} || I <- lists:seq(1, 60)],
    on_air(Opinion, Board).

%% The board never sends the goodbye.
on_air(Opinion, Board) ->
    receive
        {goodbye, Board} -> length(Opinion);
        {louder, Board} -> on_air([louder | Opinion], Board)
    end.
