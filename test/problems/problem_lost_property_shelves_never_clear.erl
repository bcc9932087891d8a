%% SPDX-License-Identifier: Apache-2.0
%%
%% A clerk is killed while a transaction walks through the table. Mnesia never gives back the table's fixation, so objects
%% that are deleted keep their memory.
-module(problem_lost_property_shelves_never_clear).

-export([about/0, start/0, finder/1]).

about() ->
    #{
        title => "The lost property office grows by megabytes a second although all umbrellas are fetched at once",
        source =>
            "Erlang/OTP, mnesia: Release table fixes when coordinator dies (https://github.com/erlang/otp/pull/11517); ets:safe_fixtable/2, "
            "deleted objects are not freed until release (https://www.erlang.org/doc/man/ets.html#safe_fixtable-2)",
        flags => ["+S", "2:2"],
        truth =>
            "Table lost_property is fixed for ever by mnesia_tm (ets:safe_fixtable, of a transaction whose process was killed), so that deletions of "
            "finder/1 free nothing, and its memory grows though it has next to no objects",
        who => ["lost_property", "mnesia_tm"],
        what => ["fix(ed|at|es|table|ing)?\\b", "safe_fixtable", "fixation", "deleted (objects|records|entries)", "not (freed|released)", "never freed", "iterat", "travers"]
    }.

start() ->
    Dir = string:trim(os:cmd("mktemp -d")),
    ok = application:set_env(mnesia, dir, Dir),
    ok = mnesia:start(),
    {atomic, ok} = mnesia:create_table(lost_property, [{ram_copies, [node()]}]),
    ok = mnesia:wait_for_tables([lost_property], 5000),
    lists:foreach(fun(N) -> ok = mnesia:dirty_write({lost_property, {old, N}, umbrella}) end, lists:seq(1, 10)),
    Self = self(),
    Clerk = spawn(fun() ->
        mnesia:transaction(fun() ->
            _ = mnesia:first(lost_property),
            Self ! walking,
            timer:sleep(infinity)
        end)
    end),
    receive walking -> exit(Clerk, kill) end,
    timer:sleep(200),
    lists:foreach(fun(N) -> spawn(?MODULE, finder, [{N, 0}]) end, lists:seq(1, 4)).

finder({N, I}) when I rem 20 =:= 0 ->
    timer:sleep(2),
    find(N, I);
finder({N, I}) ->
    find(N, I).

find(N, I) ->
    ok = mnesia:dirty_write({lost_property, {N, I}, lists:seq(1, 20)}),
    ok = mnesia:dirty_delete({lost_property, {N, I}}),
    finder({N, I + 1}).
