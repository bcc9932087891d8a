%% SPDX-License-Identifier: Apache-2.0
%% @private Checks what a node answers before it is used: names of files stay in their folder, and
%% values have the types that the command relies on. The node may be hostile.
-module(kymo_attach_answer).

-export([checked/2, data/2, known/3, left/1, recorders/1, release/1]).

%% Names have no more than this many characters; a recording has `meta', `dict' and the like.
-define(MAX_NAME, 64).
-define(MAX_FILES, 100000).
%% Bytes of a whole recording.
-define(MAX_SIZE, (1 bsl 42)).
-define(MAX_PATH, 4000).
-define(MAX_NUMBER, (1 bsl 64)).

%% @doc The answer to a request, or an error.
-spec checked(kymo_attach_node:request(), term()) -> term() | {error, {bad_node, term()}}.
checked(_, ok) -> ok;
checked(_, {error, _} = Error) -> Error;
checked(Request, {ok, Value}) ->
    try is_right(Request, Value) of
        true -> {ok, Value};
        false -> wrong(Request)
    catch
        error:_ -> wrong(Request)
    end;
checked(Request, _) ->
    wrong(Request).

wrong(Request) when is_tuple(Request) -> wrong(element(1, Request));
wrong(Name) -> {error, {bad_node, {answer, Name}}}.

is_right({start, _, _}, #{functions := F, processes := P, skipped := Skipped, dir := Dir}) ->
    is_number_of(F) andalso is_number_of(P) andalso length(Skipped) >= 0 andalso is_path(Dir);
is_right(info, #{state := State, dir := Dir, complete_from := From} = Info) ->
    is_atom(State) andalso is_path(Dir) andalso is_integer(From) andalso are_sums(Info);
is_right(progress, #{state := State, bytes := Bytes} = Info) ->
    is_atom(State) andalso is_number_of(Bytes) andalso are_sums(Info) andalso is_budget(maps:get(budget, Info, none));
is_right(stop, Info) -> are_sums(Info);
is_right(snapshot, Dir) -> is_path(Dir);
is_right(is_kept, Kept) -> is_boolean(Kept);
is_right(is_held, Held) -> is_boolean(Held);
is_right({files, _}, Files) ->
    length(Files) =< ?MAX_FILES andalso lists:all(fun is_file/1, Files) andalso
        lists:sum([Size || {_, Size} <- Files]) =< ?MAX_SIZE andalso
        length(lists:usort([Name || {Name, _} <- Files])) =:= length(Files);
is_right({read, _, _, _, _}, _) -> true;
is_right(_, _) -> false.

are_sums(#{events := Events, lost := Lost}) -> is_number_of(Events) andalso lists:all(fun is_number_of/1, maps:values(Lost)).

is_number_of(N) -> is_integer(N) andalso N >= 0 andalso N < ?MAX_NUMBER.

is_budget(#{cost := Cost, shed := #{functions := Functions, events := Events}}) ->
    is_number(Cost) andalso abs(Cost) < 1.0e9 andalso lists:all(fun is_atom/1, Events) andalso
        lists:all(fun({M, F, A}) -> is_atom(M) andalso is_atom(F) andalso is_number_of(A) end, Functions);
is_budget(Budget) ->
    not is_map(Budget).

%% An absolute path that a terminal shows as it is.
is_path(Dir) when is_binary(Dir), byte_size(Dir) > 1, byte_size(Dir) =< ?MAX_PATH ->
    Path = unicode:characters_to_list(Dir),
    is_list(Path) andalso hd(Path) =:= $/ andalso Path =:= kymo_attach_text:line(Path) andalso
        not lists:member("..", filename:split(Path));
is_path(_) ->
    false.

%% No name is hidden, has a separator or a link's meaning, or can be taken for an option.
is_file({[First | _] = Name, Size}) when is_integer(Size), Size >= 0, Size =< ?MAX_SIZE ->
    length(Name) =< ?MAX_NAME andalso First =/= $. andalso First =/= $- andalso lists:all(fun is_plain/1, Name);
is_file(_) ->
    false.

is_plain(C) when C >= $a, C =< $z; C >= $A, C =< $Z; C >= $0, C =< $9 -> true;
is_plain(C) -> lists:member(C, "._-").

%% @doc A part of a file of this size: `zeros', or its bytes.
-spec data(Size :: non_neg_integer(), term()) -> {ok, zeros | binary()} | {error, {bad_node, term()}}.
data(Size, {zeros, Size}) -> {ok, zeros};
data(Size, Data) when is_binary(Data), byte_size(Data) =< Size -> {ok, Data};
data(_, _) -> wrong(read).

%% @doc The error that says which folders could not be removed.
-spec left(term()) -> {error, {left, [binary()]} | {bad_node, term()}}.
left(Folders) ->
    try lists:all(fun is_path/1, Folders) of
        true -> {error, {left, Folders}};
        false -> wrong(finish)
    catch
        error:_ -> wrong(finish)
    end.

%% @doc The list of recorders of a node.
-spec recorders(term()) -> {ok, [kymo:listed()]} | {error, {bad_node, term()}}.
recorders(Listed) ->
    try lists:all(fun is_recorder/1, Listed) of
        true -> {ok, Listed};
        false -> wrong(list)
    catch
        error:_ -> wrong(list)
    end.

is_recorder(#{state := State, policy := Policy, dir := Dir, name := Name}) ->
    is_atom(State) andalso is_atom(Policy) andalso is_atom(Name) andalso (is_binary(Dir) orelse is_list(Dir)).

%% @doc What a function of the module `erlang' has returned in the node.
-spec known(Function :: atom(), [term()], term()) -> {ok, term()} | {error, {bad_node, term()}}.
known(Function, Args, Value) ->
    case is_known(Function, Args, Value) of
        true -> {ok, Value};
        false -> wrong(Function)
    end.

is_known(system_info, [os_type], {Family, Name}) -> is_atom(Family) andalso is_atom(Name);
is_known(system_info, [Key], Number) when
    Key =:= atom_count; Key =:= atom_limit; Key =:= process_count; Key =:= process_limit; Key =:= port_count; Key =:= port_limit
->
    is_integer(Number) andalso Number >= 0;
is_known(system_info, _, Text) -> is_text(Text);
is_known(get_module_info, _, MD5) -> is_binary(MD5);
is_known(process_info, [_, Item], Info) ->
    Info =:= undefined orelse (is_tuple(Info) andalso tuple_size(Info) =:= 2 andalso element(1, Info) =:= Item);
is_known(whereis, _, Registered) -> Registered =:= undefined orelse is_pid(Registered) orelse is_port(Registered);
is_known(_, _, Value) -> is_boolean(Value).

is_text(Text) -> is_list(Text) andalso kymo_attach_text:line(Text) =:= Text andalso length(Text) =< ?MAX_NAME.

%% @doc The number of an OTP release.
-spec release(term()) -> {ok, integer()} | {error, {bad_node, term()}}.
release(Text) ->
    try
        {ok, list_to_integer(Text)}
    catch
        error:_ -> wrong(release)
    end.
