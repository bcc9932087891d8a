%% SPDX-License-Identifier: Apache-2.0
%%
%% Letters wait in a dets bag by addressee, as the offline messages of a chat server in a table with disc_only_copies. A film
%% star has thousands under one key, and each read or insert of that key reads them all.
-module(problem_poste_restante_box_of_the_film_star).

-export([about/0, start/0, fan/1, clerk/1]).

about() ->
    #{
        title => "Nobody gets letters quickly at the post office since a film star has a box there",
        source =>
            "ejabberd, offline_msg.DAT (dets, disc_only_copies, bag by user) blows up (https://github.com/processone/ejabberd/issues/1596); mod_mam and messages "
            "limit, one user's spam (https://github.com/processone/ejabberd/issues/1065)",
        flags => ["+S", "2:2"],
        truth =>
            "The process of dets table waiting_letters, a bag, handles all requests one by one, and each fan/1 that inserts a letter for key film_star makes it "
            "read all 10000 objects of that key from disk; clerk/1 with other keys queue for it",
        who => ["waiting_letters", "\\bdets(_v9|_utils|_server)?:", "problem_poste_restante_box_of_the_film_star:fan/1"],
        what => [
            "dets", "\\bbag\\b", "same key", "one key", "disk", "file", "queue", "busy", "bottleneck", "pread", "prim_file", "binary_to_term", "dets:(insert|lookup)",
            "(runs|working)", "one (request )?at a time"
        ]
    }.

start() ->
    Dir = string:trim(os:cmd("mktemp -d")),
    {ok, waiting_letters} = dets:open_file(waiting_letters, [{type, bag}, {file, filename:join(Dir, "letters.dets")}]),
    ok = dets:insert(waiting_letters, [{film_star, N, <<"dear star">>} || N <- lists:seq(1, 10000)]),
    ok = dets:insert(waiting_letters, [{N, 1, <<"dear aunt">>} || N <- lists:seq(1, 1000)]),
    lists:foreach(fun(N) -> spawn(?MODULE, fan, [N]) end, lists:seq(1, 2)),
    lists:foreach(fun(N) -> spawn(?MODULE, clerk, [N]) end, lists:seq(1, 6)),
    %% The owner lives on.
    Self = self(),
    spawn(fun() -> {ok, _} = dets:open_file(waiting_letters, [{type, bag}, {file, filename:join(Dir, "letters.dets")}]), Self ! open, timer:sleep(infinity) end),
    receive open -> ok end.

fan(N) ->
    ok = dets:insert(waiting_letters, {film_star, {N, rand:uniform(50)}, <<"dear star">>}),
    _ = dets:member(waiting_letters, film_star),
    timer:sleep(5),
    fan(N).

clerk(N) ->
    [_ | _] = dets:lookup(waiting_letters, N + rand:uniform(900)),
    timer:sleep(10),
    clerk(N).
