%% SPDX-License-Identifier: Apache-2.0
%%
%% A genealogist keeps a tree of 200000 persons on its heap with {fullsweep_after, 0}. Each request
%% makes some garbage, and each collection is a major one that copies the whole tree.
-module(problem_family_trees_take_breaks).
-behaviour(gen_server).

-export([about/0, start/0, descendant/1]).
-export([init/1, handle_call/3, handle_cast/2]).

about() ->
    #{
        title => "Questions about ancestors are answered at once, or after a break of 50 ms",
        source =>
            "erts, garbage collection (generational, fullsweep_after): "
            "https://www.erlang.org/doc/apps/erts/garbagecollection; "
            "long_gc of erlang:system_monitor/2",
        flags => ["+S", "2:2"],
        truth =>
            "The server family_tree has a heap of some 20 MB and {fullsweep_after, 0}: each garbage collection "
            "is a major one of tens of milliseconds, caused by ancestors/2",
        who => [
            "family_tree",
            "problem_family_trees_take_breaks:(handle_call/3|ancestors/2|init/1)"
        ],
        what => [
            "garbage.?collect",
            "collect[a-z]* garbage",
            "\\bgcs?\\b",
            "full.?sweep",
            "major collection",
            "collect(s|ing|ed|ion) .{0,15}heap",
            "heap.{0,30}(large|big|collect|copied|copy)"
        ]
    }.

start() ->
    {ok, _} = gen_server:start(
        {local, family_tree}, ?MODULE, [], [{spawn_opt, [{fullsweep_after, 0}]}]
    ),
    lists:foreach(fun(N) -> spawn(?MODULE, descendant, [N]) end, lists:seq(1, 2)).

descendant(N) ->
    [_ | _] = gen_server:call(family_tree, {ancestors, rand:uniform(200000)}, infinity),
    timer:sleep(5),
    descendant(N).

init([]) ->
    Persons = [{I, [I bsr 1, male, 1600 + I rem 300]} || I <- lists:seq(1, 200000)],
    {ok, maps:from_list(Persons)}.

handle_call({ancestors, I}, _, Tree) ->
    {reply, ancestors(I, Tree), Tree}.

handle_cast(_, S) -> {noreply, S}.

%% Writes the line of ancestors in a wasteful way, some 2 MB of garbage.
ancestors(I, Tree) ->
    Line = line(I, Tree),
    Text = [io_lib:fwrite("~w born ~w, ", [P, Y]) || _ <- lists:seq(1, 60), {P, Y} <- Line],
    lists:sublist(lists:flatten(Text), 30).

line(0, _) -> [];
line(I, Tree) ->
    [Father, _, Year] = maps:get(I, Tree),
    [{I, Year} | line(Father, Tree)].
