%% SPDX-License-Identifier: Apache-2.0
%%
%% The reference that h(kymo) in the Erlang shell and h :kymo in iex show, as edoc generates it
%% from the sources: it documents every public function and type, with a specification, and
%% names every error. And the pages: the guide has all options, the page of the patches all
%% patches, and links lead to files and headings that exist.
-module(kymo_docs_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("kernel/include/file.hrl").
-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1]).
-export([modules/1, functions/1, types/1, errors/1, built/1, options/1, patches/1, figures/1, links/1]).

%% Modules that users call. All others are hidden.
-define(PUBLIC, [erl_msg_tracer, kymo, kymo_pattern, kymo_tracer, kymo_trigger]).

all() -> [modules, functions, types, errors, built, options, patches, figures, links].

init_per_suite(Config) ->
    case code:which(edoc_doclet_chunks) of
        non_existing -> {skip, "this runtime has no edoc"};
        _ -> [{chunks, chunks(?config(priv_dir, Config))} | Config]
    end.

end_per_suite(_) -> ok.

%% #{Module => {Forms, Chunk}} of all modules.
chunks(Dir) ->
    ok = edoc:files(sources(), [
        {doclet, edoc_doclet_chunks}, {layout, edoc_layout_chunks}, {dir, Dir}, {preprocess, true}
    ]),
    maps:from_list([{module_of(File), {forms(File), chunk(Dir, module_of(File))}} || File <- sources()]).

sources() ->
    {source, File} = lists:keyfind(source, 1, kymo:module_info(compile)),
    filelib:wildcard(filename:join(filename:dirname(File), "*.erl")).

top() -> filename:dirname(filename:dirname(hd(sources()))).

module_of(File) -> list_to_atom(filename:basename(File, ".erl")).

forms(File) ->
    {ok, Forms} = epp:parse_file(File, []),
    Forms.

chunk(Dir, Module) ->
    {ok, Bytes} = file:read_file(filename:join([Dir, "chunks", atom_to_list(Module) ++ ".chunk"])),
    binary_to_term(Bytes).

%% ---- the sources -----------------------------------------------------------------------

exported(Attribute, Forms) -> lists:append([List || {attribute, _, A, List} <- Forms, A =:= Attribute]).

specs(Forms) -> maps:from_list([{FA, Types} || {attribute, _, spec, {FA, Types}} <- Forms]).

type_definitions(Forms) ->
    maps:from_list([
        {{Name, length(Args)}, Type}
     || {attribute, _, Kind, {Name, Type, Args}} <- Forms, Kind =:= type orelse Kind =:= opaque
    ]).

%% ---- the documentation -------------------------------------------------------------------

module_doc({docs_v1, _, _, _, Doc, _, _}) -> text(Doc).

%% #{{function | type, Name, Arity} => text or hidden}.
entries({docs_v1, _, _, _, _, _, Entries}) -> maps:from_list([{Id, text(Doc)} || {Id, _, _, Doc, _} <- Entries]).

text(hidden) -> hidden;
text(none) -> "";
text(#{<<"en">> := Doc}) -> lists:flatten(words(Doc));
text(#{}) -> "".

words({_, _, Content}) -> words(Content);
words(List) when is_list(List) -> [words(Part) || Part <- List];
words(Text) when is_binary(Text) -> unicode:characters_to_list(Text).

%% ---- cases ---------------------------------------------------------------------------------

modules(Config) ->
    Docs = [{M, module_doc(Chunk)} || {M, {_, Chunk}} <- maps:to_list(?config(chunks, Config))],
    [] = [M || {M, hidden} <- Docs, lists:member(M, ?PUBLIC)],
    [] = [M || {M, Doc} <- Docs, Doc =/= hidden, not lists:member(M, ?PUBLIC)],
    [] = [M || {M, ""} <- Docs].

%% Callbacks of the runtime and the shell are hidden. Every other exported function has a
%% specification and a text.
functions(Config) ->
    [] = [
        {M, F, A}
     || {M, Forms, Docs, Specs} <- public(Config),
        {F, A} <- exported(export, Forms),
        not is_documented({function, F, A}, Docs) orelse not maps:is_key({F, A}, Specs)
    ],
    %% Not everything is hidden.
    [Start] = [maps:get({function, start, 1}, Docs) || {kymo, _, Docs, _} <- public(Config)],
    true = has_word(Start, recorder).

is_documented(Id, Docs) ->
    case Docs of
        #{Id := hidden} -> true;
        #{Id := Doc} -> Doc =/= "";
        #{} -> omits_hidden()
    end.

%% Since OTP 29, edoc omits what is hidden. What has no text is there in all releases.
omits_hidden() -> list_to_integer(erlang:system_info(otp_release)) >= 29.

types(Config) ->
    [] = [
        {M, T, A}
     || {M, Forms, Docs, _} <- public(Config),
        {T, A} <- exported(export_type, Forms),
        not is_documented({type, T, A}, Docs)
    ].

public(Config) ->
    [
        {M, Forms, entries(Chunk), specs(Forms)}
     || {M, {Forms, Chunk}} <- maps:to_list(?config(chunks, Config)), lists:member(M, ?PUBLIC)
    ].

%% Each atom in {error, Reason} of a specification is named in the text of the function, of a
%% type that the specification refers to, or of the module.
errors(Config) ->
    Chunks = ?config(chunks, Config),
    Missing = [
        {M, F, A, Atom}
     || {M, Forms, Docs, Specs} <- public(Config),
        {{F, A}, Types} <- maps:to_list(Specs),
        [_ | _] = Doc <- [maps:get({function, F, A}, Docs, hidden)],
        Reason <- reasons(Types),
        {Atom, Texts} <- named(Reason, M, Forms, Chunks, [Doc, module_doc(element(2, map_get(M, Chunks)))]),
        not lists:any(fun(Text) -> has_word(Text, Atom) end, Texts)
    ],
    [] = lists:usort(Missing),
    %% The search does find reasons.
    [_ | _] = [x || {{trace, 2}, Types} <- maps:to_list(specs(element(1, map_get(kymo, Chunks)))), _ <- reasons(Types)].

reasons({type, _, tuple, [{atom, _, error}, Reason]}) -> [Reason];
reasons(Tuple) when is_tuple(Tuple) -> reasons(tuple_to_list(Tuple));
reasons([_ | _] = List) -> lists:append([reasons(Part) || Part <- List]);
reasons(_) -> [].

%% [{Atom, Texts that may name it}] of the alternatives of a type.
named({atom, _, Atom}, _, _, _, Texts) -> [{Atom, Texts}];
named({type, _, union, Types}, M, Forms, Chunks, Texts) ->
    lists:append([named(Type, M, Forms, Chunks, Texts) || Type <- Types]);
named({type, _, tuple, [Tag | _]}, M, Forms, Chunks, Texts) -> named(Tag, M, Forms, Chunks, Texts);
named({ann_type, _, [_, Type]}, M, Forms, Chunks, Texts) -> named(Type, M, Forms, Chunks, Texts);
named({user_type, _, Name, Args}, M, Forms, Chunks, Texts) ->
    Id = {Name, length(Args)},
    #{Id := Type} = type_definitions(Forms),
    #{M := {_, Chunk}} = Chunks,
    named(Type, M, Forms, Chunks, [text_of_type(Id, Chunk) | Texts]);
named({remote_type, _, [{atom, _, M}, {atom, At, Name}, Args]}, _, _, Chunks, Texts) ->
    case Chunks of
        #{M := {Forms, _}} -> named({user_type, At, Name, Args}, M, Forms, Chunks, Texts);
        #{} -> []
    end;
named(_, _, _, _, _) -> [].

text_of_type({Name, Arity}, Chunk) -> maps:get({type, Name, Arity}, entries(Chunk), "").

has_word(Text, Atom) ->
    nomatch =/= re:run(Text, ["\\b", atom_to_list(Atom), "\\b"], [unicode]).

%% `make' builds what h(kymo) in a shell shows, and only once.
built(Config) ->
    Out = filename:join(?config(priv_dir, Config), "out"),
    Erl = filename:join([code:root_dir(), "bin", "erl"]),
    Top = top(),
    Make = fun() -> kymo_cli:command(os:find_executable("make"), ["-sC", Top, "chunks", "OUT=" ++ Out, "ERL=" ++ Erl]) end,
    {0, _} = Make(),
    Chunk = filename:join([Out, "doc", "chunks", "kymo.chunk"]),
    {ok, #file_info{inode = Inode}} = file:read_file_info(Chunk),
    {0, _} = Make(),
    ?assertMatch({ok, #file_info{inode = Inode}}, file:read_file_info(Chunk)).

%% ---- pages ---------------------------------------------------------------------------------

%% The guide has a table of all options of kymo:trace/2, and one of those of kymo:start/1.
options(_) ->
    Guide = page("doc/guide.md"),
    ?assertEqual(lists:sort(kymo_options:trace()), lists:sort(keys(table("## What to record", Guide)))),
    ?assertEqual(lists:sort(kymo_options:start()), lists:sort(keys(table("## The options of a recorder", Guide)))).

keys(Rows) -> [list_to_atom(Key) || [Cell | _] <- Rows, Key <- found(Cell, "`([a-z_]+)`")].

%% The page of the patches has each patch of 27.3.4 with its subject, in order, and beside them and
%% after them those of 29.1.
patches(_) ->
    Rows = table("## The patches", page("erts_patches/README.md")),
    ?assertEqual(subjects("otp-27.3.4"), [{No, Subject} || [No, Subject, _] <- Rows, No =/= ""]),
    Newer = subjects("otp-29.1"),
    ?assertEqual(
        [No || {No, _} <- Newer],
        lists:usort([No || [_, _, Cell] <- Rows, No <- found(Cell, "([0-9]{4})")])
    ),
    [] = [Row || ["", Subject, No] = Row <- Rows, not lists:member({No, Subject}, Newer)].

%% What the patches gain is in two pages.
figures(_) ->
    Figures = [[What, Stock, Patched] || [What, Stock, Patched, _] <- table("# Patches for ERTS", page("erts_patches/README.md"))],
    5 = length(Figures),
    ?assertEqual(Figures, table("## The patches", page("README.md"))).

subjects(Series) ->
    [
        {string:slice(filename:basename(File), 0, 4), subject(File)}
     || File <- lists:sort(filelib:wildcard(filename:join([top(), "erts_patches", Series, "*.patch"])))
    ].

subject(File) ->
    {ok, Bytes} = file:read_file(File),
    {match, [Subject]} = re:run(Bytes, "^Subject: \\[PATCH\\] (.*(?:\n .*)*)", [multiline, {capture, all_but_first, list}]),
    lists:flatten(string:replace(Subject, "\n ", " ", all)).

%% Relative links lead to files, and to headings of pages.
links(_) ->
    Links = [{Page, Link} || Page <- pages(), Link <- links_of(page(Page))],
    [_ | _] = [Link || {"README.md", Link} <- Links],
    [] = [Broken || {Page, Link} = Broken <- Links, not leads_somewhere(Page, Link)].

pages() ->
    Names = ["*.md", "doc/*.md", "c_src/model/*.md", "test/*/*.md", "erts_patches/*.md", "erts_patches/*/*.md", "erts_patches/*/topics/*.md"],
    lists:append([filelib:wildcard(Name, top()) || Name <- Names]).

links_of(Text) ->
    [Link || Link <- found(without_code(Text), "\\]\\(([^)\\s]+)\\)"), nomatch =:= re:run(Link, "^[a-z]+:")].

without_code(Text) -> re:replace(Text, "^```.*?^```$", "", [multiline, dotall, global, unicode, {return, list}]).

leads_somewhere(Page, Link) ->
    {File, Heading} =
        case string:split(Link, "#") of
            ["", H] -> {Page, H};
            [F, H] -> {filename:join(filename:dirname(Page), F), H};
            [F] -> {filename:join(filename:dirname(Page), F), none}
        end,
    filelib:is_file(filename:join(top(), File)) andalso (Heading =:= none orelse lists:member(Heading, anchors(page(File)))).

anchors(Text) ->
    [anchor(Heading) || Heading <- found(without_code(Text), "^#+ (.*)$")].

anchor(Heading) ->
    [dash(C) || C <- string:lowercase(Heading), C =:= $\s orelse C =:= $- orelse C =:= $_ orelse is_alphanumeric(C)].

dash($\s) -> $-;
dash(C) -> C.

is_alphanumeric(C) -> (C >= $a andalso C =< $z) orelse (C >= $0 andalso C =< $9).

page(Name) ->
    {ok, Bytes} = file:read_file(filename:join(top(), Name)),
    [_ | _] = unicode:characters_to_list(Bytes).

%% The rows of the first table after a heading, as lists of cells, without its head.
table(Heading, Text) ->
    [_, After] = string:split("\n" ++ Text, "\n" ++ Heading ++ "\n"),
    Lines = lists:dropwhile(fun(Line) -> not is_row(Line) end, string:split(After, "\n", all)),
    [_, _ | Rows] = lists:takewhile(fun is_row/1, Lines),
    [[string:trim(Cell) || Cell <- string:split(string:trim(Row, both, "|"), "|", all)] || Row <- Rows].

is_row(Line) -> string:prefix(Line, "|") =/= nomatch.

found(Text, Pattern) ->
    case re:run(Text, Pattern, [global, multiline, unicode, {capture, all_but_first, list}]) of
        {match, Groups} -> lists:append(Groups);
        nomatch -> []
    end.
