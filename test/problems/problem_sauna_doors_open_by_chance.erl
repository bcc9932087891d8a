%% SPDX-License-Identifier: Apache-2.0
%%
%% Guests enter a sauna one at a time under a lock of module global. Who doesn't get it sleeps for
%% a random time that grows with each attempt, so that guests wait although the sauna is free.
-module(problem_sauna_doors_open_by_chance).

-export([about/0, start/0, guest/1]).

about() ->
    #{
        title => "Guests wait for seconds at the sauna's door although the sauna is empty most of the time",
        source =>
            "https://github.com/basho/riak_ensemble/issues/70 (peers blocked in global:trans), "
            "global:set_lock/3: https://www.erlang.org/doc/man/global.html#set_lock-3",
        flags => ["+S", "2:2"],
        truth =>
            "Eight guests contend for the global lock sauna_key by global:trans/2 in enter/1, holding it 60 ms "
            "each; the losers sleep random times of up to 8 s (global:random_sleep) before they try again",
        who => [
            "sauna_key",
            "problem_sauna_doors_open_by_chance:(guest/1|enter/1|sweat/0|'-enter)",
            "global:(trans|set_lock|random_sleep|local_lock|set_lock1)"
        ],
        what => [
            "\\block(s|ed|ing)?\\b",
            "global:(trans|set_lock|random_sleep|set_lock1)",
            "contention|contend",
            "random.?sleep",
            "back.?off",
            "retr(y|ies)",
            "mutual exclusion|mutex"
        ]
    }.

start() ->
    lists:foreach(fun(N) -> spawn(?MODULE, guest, [N]) end, lists:seq(1, 8)).

guest(N) ->
    warm = enter(N),
    timer:sleep(50),
    guest(N).

%% One guest at a time.
enter(_) ->
    global:trans({sauna_key, self()}, fun sweat/0).

sweat() ->
    timer:sleep(60),
    warm.
