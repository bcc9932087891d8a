%% SPDX-License-Identifier: Apache-2.0
%%
%% Patterns. The functions that they match are compared with what the modules report about
%% themselves; the runtime executes the match specifications.
-module(kymo_pattern_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-export([all/0]).
-export([
    terms/1, texts/1, quoted/1, elixir/1, wildcards/1, own_modules/1, scopes/1, loads_named/1,
    arguments/1, actions/1, returns/1, text_errors/1, term_errors/1, no_functions/1,
    error_texts/1, random_text/1
]).

all() ->
    [
        terms, texts, quoted, elixir, wildcards, own_modules, scopes, loads_named, arguments,
        actions, returns, text_errors, term_errors, no_functions, error_texts, random_text
    ].

%% ---- what a pattern matches -------------------------------------------------

terms(_) ->
    All = lists:sort(lists:module_info(functions)),
    [{lists, All}] = found(lists),
    [{lists, All}] = found({lists, '_'}),
    [{lists, All}] = found({lists, '_', '_'}),
    [{lists, [{map, 2}]}] = found({lists, map}),
    [{lists, [{map, 2}]}] = found({lists, map, 2}),
    [{lists, [{seq, 2}, {seq, 3}]}] = found({lists, seq, '_'}),
    Spec = [{[1, '_'], [], []}],
    {ok, P} = kymo_pattern:compile({lists, seq, 2, Spec}),
    Spec = kymo_pattern:match_spec(P, false),
    {lists, seq, 2, Spec} = kymo_pattern:source(P).

texts(_) ->
    [
        ?assertEqual({Text, found(Term)}, {Text, found(Text)})
     || {Text, Term} <- [
            {"lists", lists},
            {"lists:_", lists},
            {"lists:_/_", lists},
            {"lists:*/*", lists},
            {"lists:seq", {lists, seq}},
            {"lists:seq/_", {lists, seq}},
            {"lists:seq/2", {lists, seq, 2}},
            {"  lists:seq/2  ", {lists, seq, 2}},
            {<<"lists:seq/2">>, {lists, seq, 2}},
            {"'lists':'seq'/3", {lists, seq, 3}}
        ]
    ].

quoted(_) ->
    with_module('odd *mod', "'it\\'s'", fun() ->
        %% A quoted star matches a star.
        [{'odd *mod', [{'it\'s', 0}]}] = found("'odd *mod':'it\\'s'/0"),
        {error, {no_functions, _}} = functions("'odd *':'it\\'s'/0")
    end).

elixir(_) ->
    with_module('Elixir.My.Thing', "'run?'", fun() ->
        Expected = [{'Elixir.My.Thing', [{'run?', 0}]}],
        Expected = found("My.Thing.run?/0"),
        Expected = found("My.Thing:run?"),
        Expected = found("My.*.run?/0"),
        Expected = found("'Elixir.My.Thing':'run?'/0"),
        Expected = found("Elixir.My.Thing:run?/0"),
        Expected = found("Elixir.My.Thing.run?/0"),
        [{'Elixir.My.Thing', All}] = found("My.Thing"),
        All = lists:sort('Elixir.My.Thing':module_info(functions)),
        %% A module and its submodules, but not modules whose names only begin alike.
        with_module('Elixir.My', "f", fun() ->
            with_module('Elixir.MyOther', "f", fun() ->
                ?assertMatch([{'Elixir.My', _}, {'Elixir.My.Thing', All}], found("My.*")),
                ?assertEqual([{'Elixir.My', [{f, 0}]}], found("My.*.f/0")),
                ?assertEqual([{'Elixir.My', [{f, 0}]}], found("My.*:f")),
                ?assertEqual([{'Elixir.My.Thing', All}], found("My.Thing.*")),
                ?assertEqual([{'Elixir.My', [{f, 0}]}, {'Elixir.MyOther', [{f, 0}]}], found("M*.f/0")),
                ?assertMatch([{'Elixir.My', _}, {'Elixir.My.Thing', _}, {'Elixir.MyOther', _}], found("M*.*"))
            end)
        end)
    end).

wildcards(_) ->
    Loaded = [M || {M, _} <- code:all_loaded()],
    Servers = lists:sort([
        {M, [{handle_call, 3}]}
     || M <- Loaded,
        lists:member({handle_call, 3}, M:module_info(functions)),
        not is_own(M)
    ]),
    Servers = found("_:handle_call/3"),
    Servers = found({'_', handle_call, 3}),
    Prefix = lists:sort([M || M <- Loaded, lists:prefix("logger", atom_to_list(M))]),
    Prefix = [M || {M, _} <- found("logger*")],
    [{lists, Maps}] = found("lists:*ma*/2"),
    Maps = lists:sort([
        FA
     || {F, 2} = FA <- lists:module_info(functions),
        string:find(atom_to_list(F), "ma") =/= nomatch
    ]),
    [{lists, [{keyfind, 3}]}] = found("list*s:k*y*f*d"),
    {error, {no_functions, _}} = functions("lists:*" ++ lists:append(lists:duplicate(100, "a*"))).

own_modules(_) ->
    {module, _} = code:ensure_loaded(kymo),
    {module, _} = code:ensure_loaded(kymo_server),
    [] = [M || {M, _} <- found("_:_/_"), is_own(M)],
    {error, {no_functions, _}} = functions("kymo_s*rver:_/_"),
    %% Modules with the prefix of kymo's names are kymo's own only if they are in its folder.
    with_module(kymo_zzz, "f", fun() -> [{kymo_zzz, [{f, 0}]}] = found("kymo_z*:f/0") end),
    %% If a module of kymo is named exactly, it is matched.
    [{kymo, [{cli_path, 0}]}] = found("kymo:cli_path/0").

scopes(_) ->
    {ok, P} = kymo_pattern:compile("lists:_/_"),
    {ok, [{lists, Exported}]} = kymo_pattern:functions(P, global),
    Exports = lists:sort(lists:module_info(exports)),
    Exports = lists:sort(Exported),
    true = length(Exported) < length(lists:module_info(functions)).

loads_named(_) ->
    Module = unloaded_module(),
    {ok, P} = kymo_pattern:compile(Module),
    {error, {no_functions, Module}} = kymo_pattern:functions(P, local),
    ok = kymo_pattern:load(P),
    {ok, [{Module, _}]} = kymo_pattern:functions(P, local),
    {ok, Gone} = kymo_pattern:compile(no_such_module_anywhere),
    ok = kymo_pattern:load(Gone),
    {ok, Any} = kymo_pattern:compile("_"),
    ok = kymo_pattern:load(Any).

%% A module of OTP that is not loaded yet.
unloaded_module() ->
    hd([M || M <- [eprof, cprof, sofs, digraph_utils, dets_v9], not erlang:module_loaded(M)]).

%% ---- match specifications ---------------------------------------------------

%% The runtime decides which argument lists match.
arguments(_) ->
    [
        ?assertEqual({Text, Arguments, Expected}, {Text, Arguments, matches(Text, Arguments)})
     || {Text, Arguments, Expected} <- [
            {"m:f(_, L) when length(L) > 2", [x, [1, 2, 3]], true},
            {"m:f(_, L) when length(L) > 2", [x, [1, 2]], false},
            {"m:f({ok, [a | _]})", [{ok, [a]}], true},
            {"m:f({ok, [a | _]})", [{ok, []}], false},
            {"m:f(X, X)", [1, 1], true},
            {"m:f(X, X)", [1, 2], false},
            {"m:f(#{key := V}) when V > 1", [#{key => 2}], true},
            {"m:f(#{key := V}) when V > 1", [#{other => 2}], false},
            {"m:f(\"->\", '->', $>)", ["->", '->', $>], true},
            {"m:f(\"a\\\"->\")", ["a\"->"], true},
            {"m:f(X) when X == 1; X == 2", [2], true},
            {"m:f(X) when X == 1; X == 2", [3], false},
            {"m:f(X) when is_integer(X), X > 1 -> return", [2], true},
            {"m:f(X) when is_integer(X), X > 1 -> return", [1], false},
            {"m:f()", [], true}
        ]
    ].

matches(Text, Arguments) ->
    {ok, P} = kymo_pattern:compile(Text),
    case erlang:match_spec_test(Arguments, kymo_pattern:match_spec(P, false), trace) of
        {ok, true, _, _} -> true;
        {ok, false, _, _} -> false
    end.

actions(_) ->
    [{'_', [], [{exception_trace}]}] = spec("lists:map/2 -> return"),
    [{'_', [], [{message, {caller}}]}] = spec("lists:map -> caller"),
    [{'_', [], [{exception_trace}, {message, {caller}}]}] = spec("lists -> return , caller"),
    [{['_', '$1'], [{'>', '$1', 3}], [{exception_trace}]}] = spec("m:f(_, A) when A > 3 -> return"),
    [{[], [], [{message, {caller}}]}] = spec("m:f() -> caller").

spec(Text) ->
    {ok, P} = kymo_pattern:compile(Text),
    kymo_pattern:match_spec(P, false).

returns(_) ->
    Returned = fun(Pattern) ->
        {ok, P} = kymo_pattern:compile(Pattern),
        kymo_pattern:match_spec(P, true)
    end,
    [{'_', [], [{exception_trace}]}] = Returned("lists:map/2"),
    %% The action is in every clause, and only once.
    [{'_', [], [{exception_trace}]}] = Returned("lists:map/2 -> return"),
    [{'_', [], [{message, {caller}}, {exception_trace}]}] = Returned("lists:map/2 -> caller"),
    [{[1], [], [{exception_trace}]}, {[2], [], [{exception_trace}]}] =
        Returned({m, f, 1, [{[1], [], []}, {[2], [], []}]}).

%% ---- errors -------------------------------------------------------------------

%% Each error with the position that it reports.
text_errors(_) ->
    [
        ?assertMatch(
            {Text, {error, {bad_pattern, Text, Position, [_ | _]}}},
            {Text, kymo_pattern:compile(Text)}
        )
     || {Text, Position} <- [
            {":map", 1},
            {"lists:", 7},
            {"lists:/2", 7},
            {"lists:Map/2", 7},
            {"lists:map/", 11},
            {"lists:map/x", 11},
            {"lists:map/256", 11},
            {"lists:map/-1", 11},
            {"lists map", 7},
            {"lists:map/2 x", 13},
            {"lists:map ->", 13},
            {"lists:map -> foo", 14},
            {"lists:map -> return,", 21},
            {"lists:map -> return return", 21},
            {"'lists:map/2", 1},
            {"lists:map(", 10},
            {"lists:map(a b)", 13},
            {"lists:map(a) b", 14},
            {"lists:map(_, L) when length(X) > 9", 29},
            {"lists:map(A) when foo(A)", 19},
            {"lists(a)", 6},
            {"_:_(a)", 4},
            {lists:duplicate(256, $a), 1},
            {"m:'" ++ lists:duplicate(256, $a) ++ "'", 3}
        ]
    ],
    {error, {bad_pattern, [], none, _}} = kymo_pattern:compile(""),
    {error, {bad_pattern, <<255>>, none, _}} = kymo_pattern:compile(<<255>>).

term_errors(_) ->
    [
        ?assertMatch({_, {error, {bad_pattern, Term, none, [_ | _]}}}, {Term, kymo_pattern:compile(Term)})
     || Term <- [
            1,
            {},
            {a},
            {a, b, c, d, e},
            {"lists", map, 2},
            {lists, "map", 2},
            {lists, map, -1},
            {lists, map, 256},
            {lists, map, two},
            {lists, map, 2, x},
            {lists, map, 2, [x]},
            {lists, map, 2, [{[], [{no_such_guard}], []}]},
            {lists, map, 2, [{'_', [], []} | x]},
            [a, b],
            [$a | $b],
            self(),
            #{}
        ]
    ].

no_functions(_) ->
    [
        {error, {no_functions, P}} = functions(P)
     || P <- ["lists:mpa/2", "lists:map/3", "no_such_module", {lists, map, 3}, "zzz*:_/_"]
    ].

%% The marker is under that position.
error_texts(_) ->
    Text = "lists:map(_, L) when length(X) > 9",
    {error, Error} = kymo_pattern:compile(Text),
    Message = lists:flatten(kymo:format_error(Error)),
    [_, Shown, Mark] = string:split(Message, "\n", all),
    "    " ++ Text = Shown,
    $X = lists:nth(string:str(Mark, "^"), Shown),
    {error, None} = functions("lists:mpa/2"),
    "no loaded function matches \"lists:mpa/2\": check " ++ _ = lists:flatten(kymo:format_error(None)),
    {error, Term} = kymo_pattern:compile({a}),
    "bad pattern {a}: " ++ _ = lists:flatten(kymo:format_error(Term)).

%% For any text, the result is a pattern, or an error with a position within the text.
random_text(_) ->
    Seed = rand:seed(exsplus, erlang:timestamp()),
    ct:log("seed ~p", [rand:export_seed_s(Seed)]),
    Pieces = [
        "lists", ":", "map", "/", "2", "_", "*", "'", "\\", "(", ")", "{", "}", "[", "]", "|", ",", " when ",
        "->", " return", "X", "Enum", ".", "\"", "$", " ", "<<", "#{", "=>", "ä", "255", "-", ";",
        "fun", "end"
    ],
    [
        begin
            Text = lists:append([
                lists:nth(rand:uniform(length(Pieces)), Pieces)
             || _ <- lists:seq(1, rand:uniform(9))
            ]),
            case kymo_pattern:compile(Text) of
                {ok, P} ->
                    true = is_list(kymo_pattern:match_spec(P, true));
                {error, {bad_pattern, Text, At, [_ | _]}} when At >= 1, At =< length(Text) + 1 ->
                    ok;
                {error, {bad_pattern, Text, none, [_ | _]}} ->
                    ok
            end
        end
     || _ <- lists:seq(1, 5000)
    ].

%% ---- helpers --------------------------------------------------------------------

found(Pattern) ->
    {ok, Mods} = functions(Pattern),
    lists:sort([{M, lists:sort(FAs)} || {M, FAs} <- Mods]).

functions(Pattern) ->
    {ok, P} = kymo_pattern:compile(Pattern),
    kymo_pattern:functions(P, local).

is_own(M) ->
    case code:which(M) of
        File when is_list(File) ->
            filename:dirname(File) =:= filename:dirname(code:which(kymo_pattern)) andalso
                lists:prefix("kymo", atom_to_list(M));
        _ ->
            false
    end.

%% Loads a module with one function of no arguments while Fun runs.
with_module(Module, FunctionText, Fun) ->
    {ok, Tokens, _} = erl_scan:string(lists:flatten(io_lib:format("~ts() -> ok.", [FunctionText]))),
    {ok, Function} = erl_parse:parse_form(Tokens),
    Forms = [{attribute, 1, module, Module}, {attribute, 1, compile, export_all}, Function],
    {ok, Module, Code} = compile:forms(Forms, [nowarn_export_all]),
    {module, Module} = code:load_binary(Module, "", Code),
    try
        Fun()
    after
        code:delete(Module),
        code:purge(Module)
    end.
