%% SPDX-License-Identifier: Apache-2.0
%%
%% The archive encodes the whole score, compressed, for each musician who asks for it, although it
%% never changes.
-module(problem_sheet_music_arrives_after_the_concert).
-behaviour(gen_server).

-export([about/0, start/0, musician/0]).
-export([init/1, handle_call/3, handle_cast/2]).

about() ->
    #{
        title => "Musicians wait for their sheet music for half a second, the more of them the longer",
        source =>
            "erlang:term_to_binary/2, option compressed: https://www.erlang.org/doc/man/erlang.html#term_to_binary-2; "
            "long_schedule of erlang:system_monitor/2, Erlang in Anger 8.1.2",
        flags => ["+S", "2:2"],
        truth =>
            "The server score_archive calls term_to_binary/2 with compression of a score of 60000 notes in "
            "engrave/1 for each request, over 100 ms of computing each",
        who => [
            "score_archive",
            "problem_sheet_music_arrives_after_the_concert:(handle_call/3|engrave/1)"
        ],
        what => [
            "term_to_binary",
            "(external|binary).{0,3}(term )?format",
            "serial(is|iz)",
            "encod",
            "compress",
            "deflate",
            "zlib|gzip",
            "marshal"
        ]
    }.

start() ->
    {ok, _} = gen_server:start({local, score_archive}, ?MODULE, [], []),
    lists:foreach(fun(_) -> spawn(?MODULE, musician, []) end, lists:seq(1, 4)).

musician() ->
    true = is_binary(gen_server:call(score_archive, score, infinity)),
    timer:sleep(100),
    musician().

init([]) ->
    {ok, [
        #{bar => N div 4, pitch => rand:uniform(88), length => rand:uniform(), mark => <<"mezzoforte">>}
     || N <- lists:seq(1, 60000)
    ]}.

handle_call(score, _, Score) ->
    {reply, engrave(Score), Score}.

handle_cast(_, S) -> {noreply, S}.

engrave(Score) ->
    term_to_binary(Score, [{compressed, 6}]).
