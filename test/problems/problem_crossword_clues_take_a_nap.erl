%% SPDX-License-Identifier: Apache-2.0
%%
%% A crossword editor checks words by a regular expression with nested repetitions. Words that
%% almost match make it backtrack for hundreds of milliseconds.
-module(problem_crossword_clues_take_a_nap).
-behaviour(gen_server).

-export([about/0, start/0, puzzler/0]).
-export([init/1, handle_call/3, handle_cast/2]).

about() ->
    #{
        title => "Some crossword entries freeze the editor, always those with a typing error",
        source =>
            "re:run/3, match_limit: https://www.erlang.org/doc/man/re.html; "
            "catastrophic backtracking of ^(a+)+$: https://www.lddi.net/en/blog/regex-mastery",
        flags => ["+S", "2:2"],
        truth =>
            "The server crossword_editor runs re:run/3 in check_word/1 with the pattern ^(([a-z])+.?)+[A-Z]$, which "
            "backtracks up to the match limit, hundreds of milliseconds per word",
        who => [
            "crossword_editor",
            "problem_crossword_clues_take_a_nap:(handle_call/3|check_word/1)"
        ],
        what => [
            "re:run",
            "\\bre_run",
            "re:(inspect|compile|internal_run|import)",
            "reg.?ex",
            "regular expression",
            "back.?track",
            "pcre",
            "pattern.?match"
        ]
    }.

start() ->
    {ok, _} = gen_server:start({local, crossword_editor}, ?MODULE, [], []),
    lists:foreach(fun(_) -> spawn(?MODULE, puzzler, []) end, [1, 2]).

puzzler() ->
    Word = [$a + rand:uniform(25) || _ <- lists:seq(1, 30)],
    _ = gen_server:call(crossword_editor, {word, Word}, infinity),
    timer:sleep(50),
    puzzler().

init([]) -> {ok, none}.

handle_call({word, Word}, _, S) ->
    {reply, check_word(Word), S}.

handle_cast(_, S) -> {noreply, S}.

check_word(Word) ->
    case re:run(Word, "^(([a-z])+.?)+[A-Z]$", [{capture, none}]) of
        match -> true;
        nomatch -> false
    end.
