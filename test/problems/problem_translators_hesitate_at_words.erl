%% SPDX-License-Identifier: Apache-2.0
%%
%% Optional plug-ins are asked for by name, and most do not exist. For each question the code
%% server looks into all folders of the code path, one question after another.
-module(problem_translators_hesitate_at_words).

-export([about/0, start/0, translator/1, reloader/0]).

about() ->
    #{
        title => "Each sentence takes long, although hardly any plug-in is installed",
        source =>
            "OTP documentation, module code, Performance of loading and interactive mode "
            "(erlang.org/doc/man/code); Fred Hebert, Erlang in Anger, chapter 3: single process "
            "bottlenecks; function_exported and code:ensure_loaded in a hot path",
        flags => ["+S", "2:2"],
        truth =>
            "8 translators call code:ensure_loaded/1 for modules that don't exist for each word; "
            "code_server searches the code path for each (erl_prim_loader reads the files), alone, and "
            "they wait for it",
        who => [
            "code_server",
            "erl_prim_loader",
            "code:(ensure_loaded|call)",
            "problem_translators_hesitate_at_words:(translator|plug_in)/1"
        ],
        what => [
            "ensure_loaded",
            "\\bload(s|ed|ing)?\\b",
            "code[_ ]server.*(busy|bottleneck|serial|queue|single|overload|slow)",
            "(wait(s|ed|ing)?|blocked|calls?) (for |on |by |in |to )*(the )?(\\S+ )?code[_ ]server",
            "code path",
            "search",
            "(reads?|opens?|looks? for) .{0,20}files?",
            "(read|get)_file",
            "(missing|non-?existing|unknown|not exist\\w*) modules?",
            "modules? (that )?(does not|do not|don't|is missing|are missing|not found)",
            "nofile"
        ]
    }.

start() ->
    _ = [spawn(?MODULE, translator, [N]) || N <- lists:seq(1, 8)],
    _ = spawn(?MODULE, reloader, []),
    ok.

%% A translator asks each plug-in whether it knows a better word.
translator(N) ->
    Word = lists:nth(N rem 4 + 1, [tree, house, river, stone]),
    Words = [better(Word, plug_in(L)) || L <- [latin, frisian, manx, sorbian]],
    4 = length(Words),
    translator(N).

better(Word, {module, Plug}) -> Plug:word(Word);
better(Word, {error, _}) -> Word.

plug_in(Language) ->
    Plug = list_to_atom("translator_plug_in_" ++ atom_to_list(Language)),
    code:ensure_loaded(Plug).

%% The office looks at times where a module is.
reloader() ->
    _ = code:which(lists),
    timer:sleep(100),
    reloader().
