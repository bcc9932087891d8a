%% SPDX-License-Identifier: Apache-2.0
%%
%% The result board sorts 120000 runners anew for each look at the first ten.
-module(problem_marathon_results_come_in_late).
-behaviour(gen_server).

-export([about/0, start/0, spectator/0]).
-export([init/1, handle_call/3, handle_cast/2]).

about() ->
    #{
        title => "Spectators wait a quarter of a second for the first ten of the marathon",
        source =>
            "fprof and eprof chapters of the tools' user's guide (time in lists:sort): "
            "https://www.erlang.org/doc/efficiency_guide/profiling.html; long_schedule of erlang:system_monitor/2",
        flags => ["+S", "2:2"],
        truth =>
            "The server finish_board sorts all 120000 runners by lists:sort/2 in first_ten/1 for each request, "
            "some 150 ms of computing each",
        who => [
            "finish_board",
            "problem_marathon_results_come_in_late:(handle_call/3|first_ten/1|faster/2|'-first_ten)"
        ],
        what => [
            "\\bsort",
            "lists:(f?split|f?r?merge|keysort|usort)",
            "lists:r?f?merge",
            "cpu.?(bound|hog|time|use|burn)",
            "comput(es|ing|ation)",
            "faster/2"
        ]
    }.

start() ->
    {ok, _} = gen_server:start({local, finish_board}, ?MODULE, [], []),
    lists:foreach(fun(_) -> spawn(?MODULE, spectator, []) end, [1, 2]).

spectator() ->
    10 = length(gen_server:call(finish_board, first_ten, infinity)),
    timer:sleep(100),
    spectator().

init([]) ->
    {ok, [{N, rand:uniform(20000) / 3} || N <- lists:seq(1, 120000)]}.

handle_call(first_ten, _, Runners) ->
    {reply, first_ten(Runners), Runners}.

handle_cast(_, S) -> {noreply, S}.

first_ten(Runners) ->
    lists:sublist(lists:sort(fun faster/2, Runners), 10).

faster({_, A}, {_, B}) -> A =< B.
