%% SPDX-License-Identifier: Apache-2.0
%%
%% The mate appends each entry to the ship's log by Log ++ [Entry], which copies the log of 30000
%% entries each time.
-module(problem_ships_log_writes_itself_down).
-behaviour(gen_server).

-export([about/0, start/0, watch/1]).
-export([init/1, handle_call/3, handle_cast/2]).

about() ->
    #{
        title => "The watch waits for the ship's log longer with each week at sea",
        source =>
            "efficiency guide, list handling (++ copies its left operand): "
            "https://www.erlang.org/doc/efficiency_guide/listhandling.html; eprof chapter of the tools' user's guide",
        flags => ["+S", "2:2"],
        truth =>
            "The server ships_log appends each of 40 entries of a request to a list of 30000 by ++ in append/2, "
            "which copies the list each time, and makes garbage of it",
        who => ["ships_log", "problem_ships_log_writes_itself_down:(handle_call/3|append/2|'-append)"],
        what => [
            "\\+\\+",
            "append",
            "(cop(y|ies|ied|ying)).{0,30}list",
            "list.{0,30}(cop(y|ies|ied|ying)|concat)",
            "quadratic",
            "garbage.?collect",
            "collect[a-z]* garbage",
            "\\bgcs?\\b"
        ]
    }.

start() ->
    {ok, _} = gen_server:start({local, ships_log}, ?MODULE, [], []),
    lists:foreach(fun(N) -> spawn(?MODULE, watch, [N]) end, [1, 2]).

watch(N) ->
    Entries = [{N, wind, rand:uniform(12), course, rand:uniform(360)} || _ <- lists:seq(1, 40)],
    ok = gen_server:call(ships_log, {enter, Entries}, infinity),
    timer:sleep(20),
    watch(N).

init([]) ->
    {ok, [{0, wind, I rem 13, course, I rem 360} || I <- lists:seq(1, 30000)]}.

%% Keeps the newest 30000.
handle_call({enter, Entries}, _, Log) ->
    New = append(Log, Entries),
    {reply, ok, lists:nthtail(length(New) - 30000, New)}.

handle_cast(_, S) -> {noreply, S}.

append(Log, Entries) ->
    lists:foldl(fun(E, L) -> L ++ [E] end, Log, Entries).
