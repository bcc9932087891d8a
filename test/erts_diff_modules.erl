%% SPDX-License-Identifier: Apache-2.0
%%
%% The modules d1, d2 and d3 of the programs of erts_diff_SUITE, in several versions. Each
%% function returns the version, so that it shows which code has run.
-module(erts_diff_modules).

-export([names/0, versions/0, binaries/0]).

names() -> [d1, d2, d3].

%% 1 and 2 differ in nothing but the number. In 3 functions are missing, and others are no longer
%% exported. 4 has an on_load function that succeeds, 5 one that fails, 6 one that calls others.
versions() -> [1, 2, 3, 4, 5, 6].

%% #{{Module, Version} => Code}, compiled by the runtime under test for both.
binaries() ->
    maps:from_list([{{M, V}, compile(M, V)} || M <- names(), V <- versions()]).

compile(Module, Version) ->
    Forms = [form(Text) || Text <- source(Module, Version)],
    {ok, Module, Code} = compile:forms(Forms, []),
    Code.

form(Text) ->
    {ok, Tokens, _} = erl_scan:string(Text),
    {ok, Form} = erl_parse:parse_form(Tokens),
    Form.

source(Module, Version) ->
    V = integer_to_list(Version),
    Name = atom_to_list(Module),
    ["-module(" ++ Name ++ ")."]
        ++ [exports(Version)]
        ++ on_load(Version)
        ++ ["v() -> " ++ V ++ ".",
            "a(X) -> {" ++ V ++ ", b(X)}.",
            "b(X) -> X + 1.",
            "l(0) -> " ++ V ++ "; l(N) -> l(N - 1).",
            "r(0) -> []; r(N) -> [N | r(N - 1)].",
            "t(X) -> " ++ atom_to_list(next(Module)) ++ ":a(X).",
            "x(X) -> [" ++ atom_to_list(next(Module)) ++ ":b(X) | " ++ V ++ "].",
            "e(X) -> error({e, X, " ++ V ++ "}).",
            "th(X) -> throw({X, " ++ V ++ "}).",
            "ex(X) -> exit({X, " ++ V ++ "}).",
            "c(X) -> try e(X) catch C:R -> {C, R} end.",
            "d(X) -> try th(X) after b(1) end.",
            "o(X) -> try b(X) of Y -> {Y, a(X)} catch _:_ -> b(0) end.",
            "q(X) -> catch ex(X).",
            "stay(F) -> {" ++ V ++ ", F()}.",
            "fu(X) -> fun(Y) -> {" ++ V ++ ", X, Y} end.",
            "lf(_) -> fun b/1.",
            "ef(_) -> fun " ++ Name ++ ":b/1.",
            "lit(_) -> {" ++ V ++ ", \"literal\", #{k => [1, 2]}, <<\"binary\">>}.",
            "s(To) -> To ! {sent, " ++ V ++ "}, b(1).",
            "bi(X) -> [lists:reverse(X, []) | " ++ V ++ "].",
            "bt(X) -> lists:reverse(X, [" ++ V ++ "]).",
            "sp(_) -> spawn(" ++ Name ++ ", v, []).",
            "ap(L) -> apply(" ++ Name ++ ", hd(L), tl(L)).",
            "dup(X) -> b(b(X))."]
        ++ ["gone(X) -> {" ++ V ++ ", X}." || Version =/= 3].

exports(3) -> "-export([v/0, a/1, l/1, t/1, x/1, e/1, th/1, ex/1, c/1, d/1, o/1, q/1, stay/1, fu/1, lf/1, ef/1,
                         lit/1, s/1, bi/1, bt/1, sp/1, ap/1]).";
exports(_) -> "-export([v/0, a/1, b/1, l/1, r/1, t/1, x/1, e/1, th/1, ex/1, c/1, d/1, o/1, q/1, stay/1, fu/1,
                         lf/1, ef/1, lit/1, s/1, bi/1, bt/1, sp/1, ap/1, gone/1, dup/1]).".

on_load(4) -> ["-on_load(init/0).", "init() -> ok."];
on_load(5) -> ["-on_load(init/0).", "init() -> failed."];
on_load(6) -> ["-on_load(init/0).", "init() -> _ = a(1), _ = r(2), ok."];
on_load(_) -> [].

next(d1) -> d2;
next(d2) -> d3;
next(d3) -> d1.
