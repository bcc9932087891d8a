%% SPDX-License-Identifier: Apache-2.0
%%
%% The pottery has four gas lines. The curators took them and never gave them back, as they forgot to read the end of
%% an answer. Each firing since then asks for a line without a limit of time.
-module(problem_kiln_firings_never_begin).
-behaviour(gen_server).

-export([about/0, start/0, curator/1, firing/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

about() ->
    #{
        title => "After some hours no firing begins any more, nothing fails, and the kilns are cold",
        source =>
            "hackney, Pool Checkout - Timeout Required: hackney:body/1 is not called until the pool maxes out and "
            "things never get checked back in (https://github.com/benoitc/hackney/issues/391); hackney 1.17.4 "
            "connections stuck in a pool (https://github.com/benoitc/hackney/issues/683)",
        flags => ["+S", "2:2"],
        truth =>
            "12 firings wait forever in gen_server:call/3 with infinity for kiln_lines: its 4 lines were checked out "
            "by 4 curators that sit in curator/1 and never check in",
        who => [
            "kiln_lines",
            "problem_kiln_firings_never_begin:(curator/1|firing/0|take_line/0|handle_call/3)"
        ],
        what => [
            "leak", "\\bpool\\b", "never (\\S+ )?(returned|given back|checked in|replie[ds]|answer)", "exhaust", "check.?(in|out)",
            "not (returned|released|given back|answered|replied)", "no (reply|answer)", "does not (reply|answer)",
            "without (a )?(reply|answer|timeout)", "infinity", "forever", "noreply", "starv", "stuck", "hangs?\\b",
            "(deferred|late|missing|postponed) repl"
        ]
    }.

start() ->
    {ok, _} = gen_server:start({local, kiln_lines}, ?MODULE, [], []),
    Self = self(),
    Curators = [spawn(?MODULE, curator, [Self]) || _ <- lists:seq(1, 4)],
    lists:foreach(fun(Pid) -> receive {Pid, has_line} -> ok end end, Curators),
    lists:foreach(fun(_) -> spawn(fun firing/0) end, lists:seq(1, 12)).

take_line() -> gen_server:call(kiln_lines, check_out, infinity).

%% Reads the head of an answer, but not its body, and so keeps the line.
curator(Parent) ->
    Line = take_line(),
    Parent ! {self(), has_line},
    receive
        {body, Line, _} -> gen_server:cast(kiln_lines, {check_in, Line})
    end,
    curator(Parent).

firing() ->
    Line = take_line(),
    timer:sleep(5),
    gen_server:cast(kiln_lines, {check_in, Line}),
    firing().

init([]) -> {ok, {[1, 2, 3, 4], queue:new()}}.

handle_call(check_out, _, {[Line | Lines], Q}) -> {reply, Line, {Lines, Q}};
handle_call(check_out, From, {[], Q}) -> {noreply, {[], queue:in(From, Q)}}.

handle_cast({check_in, Line}, {Lines, Q}) ->
    case queue:out(Q) of
        {{value, From}, Q1} ->
            gen_server:reply(From, Line),
            {noreply, {Lines, Q1}};
        {empty, Q1} ->
            {noreply, {[Line | Lines], Q1}}
    end.

handle_info(_, S) -> {noreply, S}.
