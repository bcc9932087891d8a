%% SPDX-License-Identifier: Apache-2.0
%%
%% The choir has 300 singers. The conductor writes each note out anew for every singer, with all the names in it,
%% although the notes differ only in the name of the addressee.
-module(problem_choir_rehearsal_notes_arrive_late).
-behaviour(gen_server).

-export([about/0, start/0, singer/0, helper/0]).
-export([init/1, handle_call/3, handle_cast/2]).

about() ->
    #{
        title => "In a choir of 300 a note needs a fifth of a second to come round, in a choir of ten it is there at once",
        source =>
            "ejabberd, Strange MUC room behavior under small load: at 350 users each message takes 300-500 ms "
            "(https://github.com/processone/ejabberd/issues/1964); Muc Admin crashed when we join 20k user in single "
            "muc (https://github.com/processone/ejabberd/issues/3451)",
        flags => ["+S", "2:2"],
        truth =>
            "The process registered as conductor_desk builds the same text of 300 names again for each of 300 "
            "recipients in write_out/3, and is the only one to do so",
        who => ["conductor_desk", "problem_choir_rehearsal_notes_arrive_late:(write_out/3|line/1|handle_call/3|'?-(write_out|handle_call))"],
        what => [
            "encod", "seriali[sz]", "render", "format", "iolist_to_binary", "integer_to_(list|binary)", "builds?", "building",
            "(each|every|per|all) (recipient|receiver|member|occupant|subscriber|singer)", "fan.?out", "broadcast", "\\btext",
            "stanza", "(xml|string|binar(y|ies)) (is|are|being)? ?(built|made|created)", "concat", "computes?", "cpu",
            "processor time", "garbage", "busy"
        ]
    }.

start() ->
    {ok, _} = gen_server:start({local, conductor_desk}, ?MODULE, [], []),
    lists:foreach(fun(_) -> spawn(fun helper/0) end, lists:seq(1, 8)).

%% A singer throws the note away.
singer() ->
    receive
        {note, _} -> singer()
    end.

%% Whoever has something to say waits until all have it.
helper() ->
    ok = gen_server:call(conductor_desk, {say, <<"from bar twelve, please">>}, infinity),
    helper().

init([]) -> {ok, [{N, spawn(fun singer/0)} || N <- lists:seq(1, 300)]}.

handle_call({say, Text}, _, Singers) ->
    lists:foreach(fun({N, Pid}) -> Pid ! {note, write_out(N, Text, Singers)} end, Singers),
    {reply, ok, Singers}.

handle_cast(_, S) -> {noreply, S}.

write_out(N, Text, Singers) ->
    iolist_to_binary(["<note to='", line(N), "'>", Text, [["<sung-by>", line(M), "</sung-by>"] || {M, _} <- Singers], "</note>"]).

line(N) -> ["singer-", integer_to_list(N), "@choir.example"].
