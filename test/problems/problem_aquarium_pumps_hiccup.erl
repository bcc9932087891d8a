%% SPDX-License-Identifier: Apache-2.0
%%
%% A well-meant cleaner calls erlang:garbage_collect/1 for every process without a pause. The
%% tanks have large live heaps of which nothing can be freed.
-module(problem_aquarium_pumps_hiccup).

-export([about/0, start/0, cleaner/0, tank/1]).

about() ->
    #{
        title => "Pumps of the aquarium hiccup, the processors are busy although no fish is fed",
        source =>
            "recon:bin_leak/1 (collects every process of the node): "
            "https://ferd.github.io/recon/recon.html, https://gist.github.com/ferd/6028931",
        flags => ["+S", "2:2"],
        truth =>
            "tank_cleaner calls erlang:garbage_collect/1 for all processes in an endless loop; "
            "the major collections of six tanks' heaps of several MB take the processor's time",
        who => [
            "tank_cleaner",
            "problem_aquarium_pumps_hiccup:(cleaner/0|tank/1|sweep/1)"
        ],
        what => [
            "garbage.?collect",
            "collect[a-z]* garbage",
            "\\bgcs?\\b",
            "(major|full.?sweep).{0,30}collect",
            "full.?sweep",
            "collects? (its|their|the) heap"
        ]
    }.

start() ->
    lists:foreach(fun(N) -> spawn(fun() -> tank(fish(N)) end) end, lists:seq(1, 6)),
    true = register(tank_cleaner, spawn(?MODULE, cleaner, [])),
    ok.

fish(N) -> [{fish, N, I, [I, I + 1]} || I <- lists:seq(1, 60000)].

%% Sweeps all processes, and begins again.
cleaner() ->
    lists:foreach(fun sweep/1, processes() -- [self()]),
    cleaner().

sweep(P) -> erlang:garbage_collect(P).

%% A tank's pump beats a hundred times a second.
tank(Fish) ->
    receive
        {count, From} -> From ! {fish, length(Fish)}
    after 10 -> ok
    end,
    tank(Fish).
