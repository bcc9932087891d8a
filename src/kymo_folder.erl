%% SPDX-License-Identifier: Apache-2.0
%% @private Creates the folder of a recording, and cleans up if the recording could not be
%% started.
%%
%% Does not use the file server, which may hang in a file operation.
-module(kymo_folder).

-include_lib("kernel/include/file.hrl").

-export([unused/0, with_parent/2, set_mode/2, remove_recording/1, is_file/1]).

%% @doc A random name of a temporary folder that does not exist.
-spec unused() -> file:filename().
unused() ->
    Name = lists:flatten(io_lib:format("kymo-~s-~12.16.0b", [os:getpid(), rand:uniform(1 bsl 48) - 1])),
    Dir = filename:join(os:getenv("TMPDIR", "/tmp"), Name),
    case prim_file:read_link_info(Dir) of
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
    try filename:dirname(absolute(name(Dir))) of
        Parent -> with_existing(Parent, exists(Parent), Make)
    catch
        %% Dir is not a file name. The function will report this.
        error:_ -> Make()
    end.

name(Name) when is_atom(Name) -> atom_to_list(Name);
name(Name) -> Name.

absolute(Name) ->
    case prim_file:get_cwd() of
        {ok, Current} -> filename:absname(Name, Current);
        {error, _} -> filename:absname(Name, "/")
    end.

exists(Name) -> element(1, prim_file:read_file_info(Name)) =:= ok.

with_existing(_, true, Make) ->
    Make();
with_existing(Parent, false, Make) ->
    Grandparent = filename:dirname(Parent),
    case exists(Grandparent) of
        false -> {error, {missing_folder, first_missing(Grandparent)}};
        true -> made(Parent, prim_file:make_dir(Parent), Make)
    end.

first_missing(Dir) ->
    Parent = filename:dirname(Dir),
    case Parent =:= Dir orelse exists(Parent) of
        true -> Dir;
        false -> first_missing(Parent)
    end.

made(Parent, ok, Make) ->
    _ = set_mode(Parent, 8#700),
    case Make() of
        {error, _} = Error ->
            _ = prim_file:del_dir(Parent),
            Error;
        Answer ->
            Answer
    end;
%% Another process has created the parent in between.
made(_, {error, eexist}, Make) ->
    Make();
made(_, {error, _} = Error, _) ->
    Error.

%% @doc Sets the permissions of a file or folder that this process has just created. The function of OTP for this
%% also sets owner and times. A seccomp filter may end the node at such a call, so under one the permissions stay
%% as they are if others can only read.
-spec set_mode(file:name_all(), Mode :: non_neg_integer()) -> ok | {error, file:posix() | badarg}.
set_mode(Name, Mode) ->
    case prim_file:read_file_info(Name) of
        {ok, #file_info{mode = Now}} when Now band 8#777 =:= Mode -> ok;
        {ok, #file_info{mode = Now}} -> change_mode(Now band 8#022 =:= 0 andalso is_filtered(), Name, Mode);
        {error, _} = Error -> Error
    end.

change_mode(true, _, _) -> ok;
change_mode(false, Name, Mode) -> prim_file:write_file_info(Name, #file_info{mode = Mode}).

%% As kymo_filtered of the recorder.
is_filtered() ->
    case prim_file:read_file("/proc/self/status") of
        {ok, Status} -> binary:match(Status, <<"\nSeccomp:\t2\n">>) =/= nomatch;
        {error, _} -> true
    end.

%% @doc Removes the files of a recording and its folder; anything else in it stays.
-spec remove_recording(file:name_all()) -> ok.
remove_recording(Dir) ->
    Names =
        case prim_file:list_dir(Dir) of
            {ok, All} -> [Name || Name <- All, is_file(Name)];
            %% There may be no file descriptor left. Only a recording on disk has more files.
            {error, _} -> ["meta", "dict", "ring"]
        end,
    _ = [prim_file:delete(filename:join(Dir, Name)) || Name <- Names],
    _ = prim_file:del_dir(Dir),
    ok.

%% @doc Whether a recording has files of this name.
-spec is_file(Name :: term()) -> boolean().
is_file("meta") -> true;
is_file("dict") -> true;
is_file("ring") -> true;
is_file("data." ++ Number) -> Number =/= "" andalso lists:all(fun(C) -> C >= $0 andalso C =< $9 end, Number);
is_file(_) -> false.
