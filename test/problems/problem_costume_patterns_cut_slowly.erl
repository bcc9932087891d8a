%% SPDX-License-Identifier: Apache-2.0
%%
%% A workshop keeps its settings in a generated module (as mochiglobal did) and loads it anew at
%% each change. Each load purges the old code, which asks all of 20000 processes.
-module(problem_costume_patterns_cut_slowly).

-export([about/0, start/0, cutter/1, tailor/0]).

about() ->
    #{
        title => "The costume workshop slows down whenever somebody turns at the settings",
        source =>
            "https://github.com/erlang/otp/pull/8147 (purging traverses all processes), "
            "https://github.com/erlang/otp/issues/4223 (erts_code_purger and mochiglobal)",
        flags => ["+S", "2:2"],
        truth =>
            "pattern_cutter generates, purges and loads the module costume_pattern again and again (code:purge/1, "
            "code:load_binary/3 in cut/2), and each purge checks all of 20000 processes",
        who => [
            "pattern_cutter",
            "problem_costume_patterns_cut_slowly:(cutter/1|cut/2)",
            "costume_pattern",
            "code_purger",
            "code_server"
        ],
        what => [
            "purg(e|es|ed|ing)\\b",
            "code.?(load|change|server|upgrad|check|updat|reload)",
            "load_binary",
            "check_process_code",
            "(load|reload|compil|replac)[a-z]*.{0,20}(module|code)",
            "(module|code).{0,20}(load|reload|compil|replac)",
            "compile:"
        ]
    }.

start() ->
    lists:foreach(fun(_) -> spawn(?MODULE, tailor, []) end, lists:seq(1, 20000)),
    Sizes = [{N, binary(N)} || N <- lists:seq(36, 40)],
    true = register(pattern_cutter, spawn(?MODULE, cutter, [Sizes])),
    ok.

%% The module is small: size/0 returns a number.
binary(N) ->
    Forms = [
        {attribute, 1, module, costume_pattern},
        {attribute, 1, export, [{size, 0}]},
        {function, 1, size, 0, [{clause, 1, [], [], [{integer, 1, N}]}]}
    ],
    {ok, costume_pattern, Bin} = compile:forms(Forms, []),
    Bin.

cutter([{Size, Bin} | Rest]) ->
    Size = cut(Size, Bin),
    timer:sleep(20),
    cutter(Rest ++ [{Size, Bin}]).

cut(_, Bin) ->
    _ = code:purge(costume_pattern),
    {module, costume_pattern} = code:load_binary(costume_pattern, "costume_pattern.erl", Bin),
    costume_pattern:size().

tailor() ->
    receive
        sew -> tailor()
    end.
