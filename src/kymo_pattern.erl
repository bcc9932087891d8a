%% SPDX-License-Identifier: Apache-2.0
%% @doc Function patterns: which functions to trace, and with which match
%% specification.
%%
%% A pattern is a term or a short string (or a binary with the same text):
%%
%% ```
%% lists                        every function of the module
%% {lists, map}                 every arity
%% {lists, map, 2}              one function; '_' matches anything
%% {lists, map, 2, MatchSpec}   with a match specification of erlang:trace_pattern/3
%%
%% "lists"                      the same four, as text
%% "lists:map"
%% "lists:map/2"                "lists:_/_" and "_:handle_call/3" work too
%% "lists:map(_, L) when length(L) > 9"
%%
%% "my_app_*:_/_"               * matches any characters inside a name
%% "lists:map/2 -> return"      also record how the call ends
%% "lists:map/2 -> caller"      also record the caller, as match spec result
%% "MyApp.Worker.run/1"         an Elixir module, with or without the prefix Elixir.
%% "MyApp.*"                    the module MyApp and all below it, as MyApp.Worker
%% "'odd module':'odd fun'/1"   quoted names are taken literally
%% '''
%%
%% A wildcard matches loaded modules, except those of kymo itself. A module that is named
%% exactly is loaded if necessary.
-module(kymo_pattern).

-export([compile/1, load/1, functions/2, match_spec/2, slow/2, has_slow/0, source/1, is_same/2, format_error/1]).
-export_type([pattern/0, compiled/0, error/0, functions/0]).

-type pattern() ::
    string()
    | binary()
    | module()
    | {module() | '_', atom()}
    | {module() | '_', atom(), arity() | '_'}
    | {module() | '_', atom(), arity() | '_', MatchSpec :: list()}.
%% The forms are listed in the description of the module.

-opaque compiled() :: #{
    source := pattern(),
    module := name(),
    function := name(),
    arity := arity() | any,
    match_spec := list()
}.
%% A pattern that {@link compile/1} has checked.

-type name() :: any | {exact, atom()} | {glob, [binary()]} | {either, name(), name()}.

-type functions() :: [{module(), [{atom(), arity()}]}].
%% Functions by module.

-type error() ::
    {bad_pattern, term(), Position :: pos_integer() | none, Why :: string()}
    | {no_functions, pattern()}.
%% `Position' is a character position in the text, from 1; one past the last character if the
%% text ends too early; `none' for patterns that are terms. `bad_pattern': the pattern is
%% malformed. `no_functions': no loaded function matches it. {@link format_error/1} returns a
%% message.

%% ---------------------------------------------------------------------------

%% @doc Checks a pattern. Nothing is loaded or set.
-spec compile(pattern()) -> {ok, compiled()} | {error, error()}.
compile(Pattern) ->
    try
        {ok, (compile_term(Pattern))#{source => Pattern}}
    catch
        throw:{bad, Position, Why} -> {error, {bad_pattern, Pattern, Position, lists:flatten(Why)}}
    end.

compile_term(Text) when is_binary(Text) ->
    case unicode:characters_to_list(Text) of
        Chars when is_list(Chars) -> parse(Chars);
        _ -> bad(none, "not UTF-8")
    end;
compile_term([_ | _] = Text) ->
    case io_lib:char_list(Text) of
        true -> parse(Text);
        false -> bad(none, "not a text")
    end;
compile_term([]) ->
    bad(none, "empty");
compile_term(M) when is_atom(M) ->
    compile_term({M, '_', '_', []});
compile_term({M, F}) ->
    compile_term({M, F, '_', []});
compile_term({M, F, A}) ->
    compile_term({M, F, A, []});
compile_term({M, F, A, MatchSpec}) when is_atom(M), is_atom(F) ->
    #{
        module => atom_name(M),
        function => atom_name(F),
        arity => arity(A, none),
        match_spec => check_match_spec(MatchSpec)
    };
compile_term(_) ->
    bad(none, "neither a text nor {Module, Function, Arity}").

atom_name('_') -> any;
atom_name(A) -> {exact, A}.

arity('_', _) -> any;
arity(N, _) when is_integer(N), N >= 0, N =< 255 -> N;
arity(_, Position) -> bad(Position, "the arity must be 0 .. 255 or _").

%% Has the runtime check the match specification.
check_match_spec([]) ->
    [];
check_match_spec(MatchSpec) when is_list(MatchSpec) ->
    Result =
        try
            erlang:match_spec_test([], MatchSpec, trace)
        catch
            error:badarg -> {error, [{error, "not a match specification"}]}
        end,
    case Result of
        {ok, _, _, _} -> MatchSpec;
        {error, Problems} -> bad(none, lists:join("; ", [Text || {error, Text} <- Problems]))
    end;
check_match_spec(_) ->
    bad(none, "a match specification is a list").

%% @doc Loads the module that the pattern names exactly, if there is one and it can be loaded.
%% Only loaded code can be traced.
-spec load(compiled() | #{module := name()}) -> ok.
load(#{module := {either, Name, _}}) ->
    load(#{module => Name});
load(#{module := {exact, M}}) ->
    %% In embedded mode ensure_loaded/1 loads nothing.
    _ = code:ensure_loaded(M) =:= {error, embedded} andalso code:load_file(M),
    ok;
load(_) ->
    ok.

%% @doc Returns the functions that match the pattern now; with scope `global' only exported
%% ones.
-spec functions(compiled(), local | global) -> {ok, functions()} | {error, error()}.
functions(#{module := Module, function := Function, arity := Arity, source := Source}, Scope) ->
    Found = [
        {M, Fs}
     || M <- modules(Module),
        Fs <- [[FA || {F, A} = FA <- module_functions(M, Scope), is_arity(A, Arity), is_name(F, Function)]],
        Fs =/= []
    ],
    case Found of
        [] -> {error, {no_functions, Source}};
        _ -> {ok, Found}
    end.

modules({exact, M}) ->
    [M || erlang:module_loaded(M)];
modules(Name) ->
    [M || {M, _} <- code:all_loaded(), is_name(M, Name), not is_own(M)].

%% A module with kymo's prefix in another folder does not belong to kymo.
is_own(?MODULE) ->
    true;
is_own(M) ->
    case atom_to_list(M) of
        "kymo" ++ _ -> folder(M) =:= folder(?MODULE);
        _ -> false
    end.

folder(M) ->
    case code:which(M) of
        File when is_list(File) -> filename:dirname(File);
        Other -> Other
    end.

%% The module may be deleted concurrently.
module_functions(M, Scope) ->
    What =
        case Scope of
            local -> functions;
            global -> exports
        end,
    try
        erlang:get_module_info(M, What)
    catch
        error:badarg -> []
    end.

is_arity(_, any) -> true;
is_arity(A, B) -> A =:= B.

is_name(_, any) -> true;
is_name(A, {exact, B}) -> A =:= B;
is_name(A, {either, Name1, Name2}) -> is_name(A, Name1) orelse is_name(A, Name2);
is_name(A, {glob, [First | Parts]}) ->
    Name = atom_to_binary(A),
    case string:prefix(Name, First) of
        nomatch -> false;
        Rest -> is_glob(Rest, Parts)
    end.

%% Matching each part at its first occurrence is sufficient, so there is no backtracking. Only
%% the last part must match at the end.
is_glob(Rest, [Last]) ->
    Skip = byte_size(Rest) - byte_size(Last),
    Skip >= 0 andalso binary:part(Rest, Skip, byte_size(Last)) =:= Last;
is_glob(Rest, [<<>> | Parts]) ->
    is_glob(Rest, Parts);
is_glob(Rest, [Part | Parts]) ->
    case binary:split(Rest, Part) of
        [_, After] -> is_glob(After, Parts);
        [_] -> false
    end.

%% @doc Returns the match specification to set. With `Returns', it also has
%% `{exception_trace}', which records how each call ends.
-spec match_spec(compiled(), Returns :: boolean()) -> list().
match_spec(#{match_spec := MatchSpec}, false) ->
    MatchSpec;
match_spec(#{match_spec := []}, true) ->
    [{'_', [], [{exception_trace}]}];
match_spec(#{match_spec := MatchSpec}, true) ->
    [{Head, Guards, add_action({exception_trace}, Body)} || {Head, Guards, Body} <- MatchSpec].

add_action(Action, Body) ->
    case lists:member(Action, Body) of
        true -> Body;
        false -> Body ++ [Action]
    end.

%% @doc Returns a pattern that reports only calls of at least this many microseconds. Its own
%% match specification decides which calls are timed.
-spec slow(compiled(), Microseconds :: non_neg_integer()) -> compiled().
slow(#{match_spec := []} = Compiled, Micros) ->
    Compiled#{match_spec := [{'_', [], [{slow, Micros}]}]};
slow(#{match_spec := MatchSpec} = Compiled, Micros) ->
    Compiled#{match_spec := [{Head, Guards, add_action({slow, Micros}, Body)} || {Head, Guards, Body} <- MatchSpec]}.

%% @doc Returns whether the runtime reports slow calls.
-spec has_slow() -> boolean().
has_slow() ->
    element(1, erlang:match_spec_test([], [{'_', [], [{slow, 1}]}], trace)) =:= ok.

%% @doc Returns the pattern as it was given.
-spec source(compiled()) -> pattern().
source(#{source := Source}) -> Source.

%% @doc Returns whether both name the same functions with the same conditions, in any
%% spelling.
-spec is_same(compiled(), compiled()) -> boolean().
is_same(A, B) -> maps:remove(source, A) =:= maps:remove(source, B).

%% @doc Returns a message for an error, with a mark below the position.
-spec format_error(error()) -> unicode:chardata().
format_error({no_functions, Pattern}) ->
    [
        "no loaded function matches ",
        show(Pattern),
        ": check module, name and arity; a wildcard finds only modules that are loaded"
    ];
format_error({bad_pattern, Pattern, none, Why}) ->
    ["bad pattern ", show(Pattern), ": ", Why];
format_error({bad_pattern, Pattern, Position, Why}) ->
    io_lib:format("bad pattern: ~ts~n    ~ts~n    ~*s", [Why, Pattern, Position, "^"]).

show(Pattern) ->
    case is_binary(Pattern) orelse (Pattern =/= [] andalso io_lib:char_list(Pattern)) of
        true -> io_lib:format("\"~ts\"", [Pattern]);
        false -> io_lib:format("~tp", [Pattern])
    end.

%% ---- text -----------------------------------------------------------------
%% Functions take and return {Rest, Position}: the remaining text and its position.

parse(Text) ->
    {Module, In0} = parse_module(skip_space({Text, 1})),
    {Function, In1} = parse_function(Module, In0),
    {Head, Arity, In2} = parse_head(Function, skip_space(In1)),
    Actions = parse_actions(skip_space(In2)),
    #{
        module => module_name(Module),
        function => Function,
        arity => Arity,
        match_spec => text_match_spec(Head, Actions)
    }.

module_name({elixir, Name}) -> Name;
module_name(Name) -> Name.

parse_module({[C | _], _} = In) when C >= $A, C =< $Z -> parse_alias(In, []);
parse_module(In) -> parse_name(In, "a module").

%% Elixir aliases: words with a capital and dots between them.
parse_alias({Rest, Position}, Words) ->
    {Word, In} = take_word(Rest, Position, []),
    Alias = Words ++ [Word],
    case In of
        {[$., C | _], At} when C >= $A, C =< $Z; C =:= $* -> parse_alias({tl(element(1, In)), At + 1}, Alias);
        _ -> {{elixir, alias_name(Alias, Position)}, In}
    end.

%% As in Elixir, Elixir.Task is Task. A star after the last dot also matches the module itself.
alias_name(["Elixir" | [_ | _] = Alias], Position) ->
    alias_name(Alias, Position);
alias_name(Alias, Position) ->
    Name = fun(Words) -> word_name("Elixir." ++ lists:append(lists:join(".", Words)), Position) end,
    case lists:split(length(Alias) - 1, Alias) of
        {[_ | _] = Parents, ["*"]} -> {either, Name(Parents), Name(Alias)};
        _ -> Name(Alias)
    end.

parse_function({elixir, _}, {[$. | Rest], Position}) ->
    parse_name({Rest, Position + 1}, "a function");
parse_function(_, {[$: | Rest], Position}) ->
    parse_name({Rest, Position + 1}, "a function");
parse_function(_, In) ->
    {any, In}.

parse_name({[], Position}, What) ->
    bad(Position, [What, " is missing"]);
parse_name({[$' | Rest], Position}, _) ->
    parse_quoted(Rest, Position + 1, Position, []);
parse_name({[C | _], Position}, What) when C >= $A, C =< $Z ->
    bad(Position, [What, " that starts with an upper case letter must be quoted: 'Name'"]);
parse_name({Rest, Position}, What) ->
    case take_word(Rest, Position, []) of
        {[], _} -> bad(Position, [What, " is missing"]);
        {"_", In} -> {any, In};
        {Word, In} -> {word_name(Word, Position), In}
    end.

take_word([C | Rest], Position, Acc) when
    C >= $a, C =< $z;
    C >= $A, C =< $Z;
    C >= $0, C =< $9;
    C =:= $_;
    C =:= $@;
    C =:= $*;
    C =:= $?;
    C =:= $!;
    C > 127
->
    take_word(Rest, Position + 1, [C | Acc]);
take_word(Rest, Position, Acc) ->
    {lists:reverse(Acc), {Rest, Position}}.

parse_quoted([$\\, C | Rest], Position, Start, Acc) when C =:= $'; C =:= $\\ ->
    parse_quoted(Rest, Position + 2, Start, [C | Acc]);
parse_quoted([$' | Rest], Position, Start, Acc) ->
    {{exact, to_atom(lists:reverse(Acc), Start)}, {Rest, Position + 1}};
parse_quoted([C | Rest], Position, Start, Acc) ->
    parse_quoted(Rest, Position + 1, Start, [C | Acc]);
parse_quoted([], _, Start, _) ->
    bad(Start, "the quote is not closed").

word_name(Word, Position) ->
    case lists:member($*, Word) of
        true -> {glob, glob(Word)};
        false -> {exact, to_atom(Word, Position)}
    end.

%% The literal parts between the stars.
glob(Word) -> binary:split(unicode:characters_to_binary(Word), <<"*">>, [global]).

to_atom(Chars, Position) ->
    try
        list_to_atom(Chars)
    catch
        error:_ -> bad(Position, "a name has at most 255 characters")
    end.

%% "/arity", "(arguments) when guards", or nothing.
parse_head(any, {[$( | _], Position}) ->
    bad(Position, "arguments need the name of a function");
parse_head(_, {[$/ | Rest], Position}) ->
    case take_word(Rest, Position + 1, []) of
        {[], _} -> bad(Position + 1, "the arity is missing");
        {"_", In} -> {none, any, In};
        {"*", In} -> {none, any, In};
        {Word, In} -> {none, arity(to_integer(Word), Position + 1), In}
    end;
parse_head(_, {[$( | _] = Rest, Position}) ->
    parse_arguments(Rest, Position);
parse_head(_, In) ->
    {none, any, In}.

to_integer(Word) ->
    try
        list_to_integer(Word)
    catch
        error:badarg -> bad
    end.

%% Arguments and guards are Erlang syntax: erl_scan and erl_parse read them as the head of a
%% fun, which ms_transform converts to a match specification.
parse_arguments(Text, Position) ->
    {Before, After} = split_actions(Text, []),
    [_ | Tokens] = scan(Before, Position),
    End = {1, Position + length(Before)},
    {Arguments, Guards} = split_arguments(Tokens, 0, [], Position),
    L = {1, Position},
    Fun =
        [{'fun', L}, {'(', L}, {'[', L}] ++ Arguments ++ [{']', End}, {')', End}] ++ Guards ++
            [{'->', End}, {atom, End, true}, {'end', End}, {dot, End}],
    case erl_parse:parse_exprs(Fun) of
        {ok, [{'fun', _, {clauses, [{clause, _, [List], _, _}] = Clauses}}]} ->
            {Clauses, list_length(List, Position), {After, Position + length(Before)}};
        {ok, _} ->
            bad(Position, "not the arguments of a function");
        {error, {Location, Module, Reason}} ->
            bad(column(Location), Module:format_error(Reason))
    end.

scan(Text, Position) ->
    case erl_scan:string(Text, {1, Position}) of
        {ok, Tokens, _} -> Tokens;
        {error, {Location, Module, Reason}, _} -> bad(column(Location), Module:format_error(Reason))
    end.

column({_, Column}) -> Column;
column(_) -> none.

%% Splits at the first arrow outside of quotes, where the actions begin.
split_actions([C | Rest], Acc) when C =:= $"; C =:= $' ->
    {Quoted, After} = take_quoted(C, Rest, [C]),
    split_actions(After, Quoted ++ Acc);
split_actions([$$, C | Rest], Acc) ->
    split_actions(Rest, [C, $$ | Acc]);
split_actions("->" ++ _ = Rest, Acc) ->
    {lists:reverse(Acc), Rest};
split_actions([C | Rest], Acc) ->
    split_actions(Rest, [C | Acc]);
split_actions([], Acc) ->
    {lists:reverse(Acc), []}.

take_quoted(Q, [$\\, C | Rest], Acc) -> take_quoted(Q, Rest, [C, $\\ | Acc]);
take_quoted(Q, [Q | Rest], Acc) -> {[Q | Acc], Rest};
take_quoted(Q, [C | Rest], Acc) -> take_quoted(Q, Rest, [C | Acc]);
take_quoted(_, [], Acc) -> {Acc, []}.

split_arguments([{')', _} | Rest], 0, Acc, _) ->
    {lists:reverse(Acc), check_guards(Rest)};
split_arguments([Token | Rest], Depth, Acc, Position) ->
    Change =
        case element(1, Token) of
            '(' -> 1;
            ')' -> -1;
            _ -> 0
        end,
    split_arguments(Rest, Depth + Change, [Token | Acc], Position);
split_arguments([], _, _, Position) ->
    bad(Position, "the parenthesis is not closed").

check_guards([]) -> [];
check_guards([{'when', _} | _] = Guards) -> Guards;
check_guards([Token | _]) -> bad(column(element(2, Token)), "expected `when' or `->'").

list_length({cons, _, _, Tail}, Position) -> 1 + list_length(Tail, Position);
list_length({nil, _}, _) -> 0;
list_length(_, Position) -> bad(Position, "not the arguments of a function").

parse_actions({[], _}) ->
    [];
parse_actions({"->" ++ Rest, Position}) ->
    parse_action_list(skip_space({Rest, Position + 2}), []);
parse_actions({_, Position}) ->
    bad(Position, "expected `/arity', `(arguments)', `->' or the end").

parse_action_list({Rest, Position}, Acc) ->
    {Word, In} = take_word(Rest, Position, []),
    Actions = Acc ++ [action(Word, Position)],
    case skip_space(In) of
        {[], _} -> Actions;
        {[$, | More], At} -> parse_action_list(skip_space({More, At + 1}), Actions);
        {_, At} -> bad(At, "expected `,' or the end")
    end.

action("return", _) -> {exception_trace};
action("caller", _) -> {message, {caller}};
action(_, Position) -> bad(Position, "expected `return' or `caller'").

text_match_spec(none, []) ->
    [];
text_match_spec(none, Actions) ->
    [{'_', [], Actions}];
text_match_spec(Clauses, Actions) ->
    case ms_transform:transform_from_shell(dbg, Clauses, []) of
        [_ | _] = MatchSpec ->
            check_match_spec([{Head, Guards, Actions} || {Head, Guards, [true]} <- MatchSpec]);
        {error, [{_, [{Location, Module, Reason} | _]} | _], _} ->
            bad(column(Location), Module:format_error(Reason))
    end.

skip_space({[C | Rest], Position}) when C =:= $\s; C =:= $\t; C =:= $\n -> skip_space({Rest, Position + 1});
skip_space(In) -> In.

-spec bad(pos_integer() | none, unicode:chardata()) -> no_return().
bad(Position, Why) -> throw({bad, Position, Why}).
