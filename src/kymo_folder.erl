%% SPDX-License-Identifier: Apache-2.0
%% @private Makes the folder that a recording is put into, and cleans up after a
%% recording that could not be started.
-module(kymo_folder).

-export([unused/0, with_parent/2, remove_recording/1]).

%% @doc The name of a folder for temporary files that does not exist yet, and that nobody
%% can guess.
-spec unused() -> file:filename().
unused() ->
    Name = lists:flatten(io_lib:format("kymo-~s-~12.16.0b", [os:getpid(), rand:uniform(1 bsl 48) - 1])),
    Dir = filename:join(os:getenv("TMPDIR", "/tmp"), Name),
    case file:read_link_info(Dir) of
        {ok, _} -> unused();
        {error, _} -> Dir
    end.

%% @doc Runs the function, which makes the folder `Dir'. When only the parent of
%% `Dir' is missing it is made first, with mode 0700, and removed again when the
%% function returns an error. Names the first missing folder when more are.
-spec with_parent(term(), fun(() -> Answer)) ->
    Answer | {error, {missing_folder, file:filename_all()} | file:posix()}
when
    Answer :: {error, term()} | tuple().
with_parent(Dir, Make) ->
    try filename:dirname(filename:absname(name(Dir))) of
        Parent -> with_existing(Parent, filelib:is_file(Parent), Make)
    catch
        %% Not a name: whoever makes the folder says so.
        error:_ -> Make()
    end.

name(Name) when is_atom(Name) -> atom_to_list(Name);
name(Name) -> Name.

with_existing(_, true, Make) ->
    Make();
with_existing(Parent, false, Make) ->
    Grandparent = filename:dirname(Parent),
    case filelib:is_file(Grandparent) of
        false -> {error, {missing_folder, first_missing(Grandparent)}};
        true -> made(Parent, file:make_dir(Parent), Make)
    end.

first_missing(Dir) ->
    Parent = filename:dirname(Dir),
    case Parent =:= Dir orelse filelib:is_file(Parent) of
        true -> Dir;
        false -> first_missing(Parent)
    end.

made(Parent, ok, Make) ->
    _ = file:change_mode(Parent, 8#700),
    case Make() of
        {error, _} = Error ->
            _ = file:del_dir(Parent),
            Error;
        Answer ->
            Answer
    end;
%% Somebody else was faster.
made(_, {error, eexist}, Make) ->
    Make();
made(_, {error, _} = Error, _) ->
    Error.

%% @doc Removes the files of a recording and its folder; anything else in it stays.
-spec remove_recording(file:name_all()) -> ok.
remove_recording(Dir) ->
    case file:list_dir(Dir) of
        {ok, Names} ->
            _ = [file:delete(filename:join(Dir, Name)) || Name <- Names, is_ours(Name)],
            _ = file:del_dir(Dir),
            ok;
        {error, _} ->
            ok
    end.

is_ours("meta") -> true;
is_ours("dict") -> true;
is_ours("ring") -> true;
is_ours("data." ++ Number) -> Number =/= "" andalso lists:all(fun(C) -> C >= $0 andalso C =< $9 end, Number);
is_ours(_) -> false.
