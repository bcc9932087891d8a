%% SPDX-License-Identifier: Apache-2.0
%% @private Creates the folder of a recording, and cleans up if the recording could not be
%% started.
-module(kymo_folder).

-export([unused/0, with_parent/2, remove_recording/1]).

%% @doc A random name of a temporary folder that does not exist.
-spec unused() -> file:filename().
unused() ->
    Name = lists:flatten(io_lib:format("kymo-~s-~12.16.0b", [os:getpid(), rand:uniform(1 bsl 48) - 1])),
    Dir = filename:join(os:getenv("TMPDIR", "/tmp"), Name),
    case file:read_link_info(Dir) of
        {ok, _} -> unused();
        {error, _} -> Dir
    end.

%% @doc Runs the function, which creates the folder `Dir'. If only the parent of `Dir' is
%% missing, creates the parent first, with mode 0700, and removes it again if the function
%% returns an error. If more folders are missing, returns the first of them as an error.
-spec with_parent(term(), fun(() -> Answer)) ->
    Answer | {error, {missing_folder, file:filename_all()} | file:posix()}
when
    Answer :: {error, term()} | tuple().
with_parent(Dir, Make) ->
    try filename:dirname(filename:absname(name(Dir))) of
        Parent -> with_existing(Parent, filelib:is_file(Parent), Make)
    catch
        %% Dir is not a file name. The function will report this.
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
%% Another process has created the parent in between.
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
