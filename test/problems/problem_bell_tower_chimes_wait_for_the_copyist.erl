%% SPDX-License-Identifier: Apache-2.0
%%
%% A copyist blocks the log of the bell tower while it copies it, half a second each time. Ringers log each chime.
-module(problem_bell_tower_chimes_wait_for_the_copyist).

-export([about/0, start/0, copyist/0, ringer/1]).

about() ->
    #{
        title => "Bells ring half a second late at times, since the log of the tower is copied for the archive",
        source =>
            "disk_log:block/2, other processes that use the log are blocked until it is unblocked "
            "(https://www.erlang.org/doc/man/disk_log.html#block-2, https://erlang.org/docs/20/man/disk_log)",
        flags => ["+S", "2:2"],
        truth =>
            "log_copyist blocks disk log tower_log with disk_log:block/2 for 500 ms at a time while copy/0 sleeps for the slow archive; ringer/1 waits "
            "in disk_log:log/2",
        who => ["log_copyist", "tower_log", "problem_bell_tower_chimes_wait_for_the_copyist:(copy/0|copyist/0)"],
        what => ["block", "copy", "disk_?log", "slee", "lock", "unblock", "holds?"]
    }.

start() ->
    Dir = string:trim(os:cmd("mktemp -d")),
    Self = self(),
    Copyist = spawn(fun() ->
        {ok, tower_log} = disk_log:open([{name, tower_log}, {file, filename:join(Dir, "tower")}, {type, wrap}, {size, {100000, 4}}]),
        Self ! open,
        copyist()
    end),
    register(log_copyist, Copyist),
    receive open -> ok end,
    lists:foreach(fun(N) -> spawn(?MODULE, ringer, [N]) end, lists:seq(1, 6)).

copyist() ->
    ok = disk_log:block(tower_log, true),
    copy(),
    ok = disk_log:unblock(tower_log),
    timer:sleep(150),
    copyist().

copy() ->
    timer:sleep(500).

ringer(N) ->
    ok = disk_log:log(tower_log, {chime, N}),
    timer:sleep(10),
    ringer(N).
