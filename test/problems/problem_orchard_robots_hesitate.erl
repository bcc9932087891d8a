%% SPDX-License-Identifier: Apache-2.0
%%
%% Six robots take one ladder through global. A robot that finds it taken sleeps for a time at random before it tries
%% again, up to some seconds, though the ladder is free long before.
-module(problem_orchard_robots_hesitate).

-export([about/0, start/0, robot/1]).

about() ->
    #{
        title => "The robots stand under the trees for seconds, though the ladder leans there unused",
        source =>
            "riak_ensemble, peers blocked in global:trans/2, which needlessly creates contention "
            "(https://github.com/basho/riak_ensemble/issues/70); Erlang/OTP, :global regression in OTP 25 with many "
            "global:set_lock (https://github.com/erlang/otp/issues/6211)",
        flags => ["+S", "2:2"],
        truth =>
            "6 robots want the one global lock orchard_ladder, held for 30 ms each time; who does not get it sleeps up "
            "to 8 s in global:random_sleep/1 of global:set_lock/3",
        who => ["orchard_ladder", "global:(trans|set_lock|random_sleep|del_lock|local_lock_check|set_lock1)\\S*", "global_name_server", "problem_orchard_robots_hesitate:(robot/1|pick/1)"],
        what => [
            "\\block(s|ed|ing)?\\b", "random_sleep", "back.?off", "retr(y|ies|ied)", "random (time|sleep|delay|wait|interval)", "contention", "contended", "mutual exclusion",
            "sleep", "tries again"
        ]
    }.

start() ->
    lists:foreach(fun(N) -> spawn(?MODULE, robot, [N]) end, lists:seq(1, 6)).

robot(Tree) ->
    {apples, _} = global:trans({orchard_ladder, self()}, fun() -> pick(Tree) end),
    robot(next_tree(Tree)).

%% The work with the ladder. Whoever has it never keeps it for longer than this, and asks for it again
%% at the next tree.
pick(Tree) ->
    timer:sleep(30),
    {apples, Tree * 3}.

next_tree(Tree) -> (Tree + 6) rem 600 + 1.
