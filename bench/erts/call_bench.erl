%% SPDX-License-Identifier: Apache-2.0
%%
%% Untraced calls of every kind, whose instructions are counted from outside.
-module(call_bench).

-export([main/0, exported/1]).

%% @doc Entry point of `bench/erts/call_run'. Flag of the command line: `-n N', the number of
%% calls of each kind. Prints nothing.
-spec main() -> no_return().
main() ->
    {ok, [[N]]} = init:get_argument(n),
    %% Hides the names from the compiler.
    M = list_to_atom("call_bench"),
    F = list_to_atom("exported"),
    X = length(init:get_plain_arguments()),
    loop(list_to_integer(N), M, F, fun(Y) -> Y + X end, fun M:exported/1, X),
    halt(0).

%% Static and dynamic external calls, through an export entry and apply; local and
%% external funs, through a fun entry and a shared lambda; a BIF; local calls.
loop(0, _, _, _, _, X) ->
    X;
loop(N, M, F, Local, External, X) ->
    X = ?MODULE:exported(X),
    X = M:F(X),
    X = apply(M, F, [X]),
    _ = Local(X),
    X = External(X),
    _ = erlang:phash2(X),
    X = exported(X),
    loop(N - 1, M, F, Local, External, X).

%% @doc The functions that are called.
-spec exported(X) -> X.
exported(X) -> X.
