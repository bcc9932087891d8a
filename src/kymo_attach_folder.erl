%% SPDX-License-Identifier: Apache-2.0
%% @private The folders of this side that a recording is copied into.
-module(kymo_attach_folder).

-export([make/1, check/1, claim/2, leave/1, is_empty/1, size/1]).
-export_type([claim/0]).

-include_lib("kernel/include/file.hrl").

-type error() :: {write, file:filename_all(), file:posix() | badarg} | {not_yours, file:filename_all()}.

-opaque claim() :: port().

%% @doc Creates a folder that only this user can read, or makes an existing one such a folder.
-spec make(file:filename_all()) -> ok | {error, error()}.
make(Dir) ->
    case file:make_dir(Dir) of
        ok -> made(Dir, private(Dir));
        {error, eexist} -> made(Dir, existing(Dir, check(Dir)));
        {error, Why} -> {error, {write, Dir, Why}}
    end.

%% Another command may have removed it in between, because it was empty, and a third one may have created it again.
made(Dir, {error, {write, Dir, enoent}} = Error) ->
    case file:read_link_info(Dir, [raw]) of
        {ok, #file_info{type = symlink}} -> Error;
        _ -> make(Dir)
    end;
made(_, Result) ->
    Result.

existing(Dir, ok) -> private(Dir);
existing(_, {error, _} = Error) -> Error.

private(Dir) ->
    case file:change_mode(Dir, 8#700) of
        ok -> ok;
        {error, Why} -> {error, {write, Dir, Why}}
    end.

%% @doc Whether an existing folder is one of this user. Others can create a folder, or a link, of a name that
%% they foresee, as in `/tmp', and would choose where this user writes.
-spec check(file:filename_all()) -> ok | {error, error()}.
check(Dir) ->
    Uid = kymo_attach_proc:own_uid(),
    case {file:read_link_info(Dir, [raw]), file:read_file_info(Dir, [raw])} of
        {{ok, #file_info{uid = Uid}}, {ok, #file_info{uid = Uid, type = directory}}} -> ok;
        {{ok, #file_info{uid = Uid}}, {ok, #file_info{uid = Uid}}} -> {error, {write, Dir, enotdir}};
        {{ok, _}, {ok, _}} -> {error, {not_yours, Dir}};
        {{error, Why}, _} -> {error, {write, Dir, Why}};
        {_, {error, Why}} -> {error, {write, Dir, Why}}
    end.

%% @doc Creates the folder, as {@link make/1}, and makes this process the only one of all commands that writes into
%% it, until {@link leave/1} or its end. A program in `Priv' holds a lock: the kernel releases it when that program
%% ends, which it does when this runtime ends.
-spec claim(file:filename_all(), Priv :: file:filename_all()) ->
    {ok, claim()} | {error, {in_use, file:filename_all()} | {no_claim, file:filename_all(), string()} | error()}.
claim(Dir, Priv) ->
    case make(Dir) of
        ok -> claimed(Dir, Priv, started(Dir, Priv));
        {error, _} = Error -> Error
    end.

started(Dir, Priv) ->
    try
        open_port({spawn_executable, filename:join([Priv, "bin", "kymo"])}, [
            {args, ["claim", Dir]}, {line, 1024}, exit_status, stderr_to_stdout, hide
        ])
    catch
        error:Why -> {error, {no_claim, Dir, file:format_error(Why)}}
    end.

claimed(_, _, {error, _} = Error) ->
    Error;
claimed(Dir, Priv, Port) ->
    receive
        {Port, {data, {_, "claimed"}}} ->
            {ok, Port};
        {Port, {data, {_, Answer}}} ->
            ok = ended(Port),
            case Answer of
                "taken" -> {error, {in_use, Dir}};
                %% Another command has removed the folder, which was empty, in between.
                "gone" -> claim(Dir, Priv);
                Why -> {error, {no_claim, Dir, Why}}
            end;
        {Port, {exit_status, Status}} ->
            {error, {no_claim, Dir, lists:concat(["status ", Status])}}
    end.

%% @doc Ends what {@link claim/2} has begun. The next one finds the folder free.
-spec leave(claim()) -> ok.
leave(Port) ->
    %% Somebody may have killed the program: then writing to it ends the port.
    true = unlink(Port),
    _ = (catch port_command(Port, "\n")),
    ended(Port).

ended(Port) ->
    Monitor = monitor(port, Port),
    receive {'DOWN', Monitor, port, _, _} -> ok end,
    receive {Port, {exit_status, _}} -> ok after 0 -> ok end.

%% @doc Whether nothing is in a folder.
-spec is_empty(file:filename_all()) -> ok | {error, {not_empty, file:filename_all()} | {write, file:filename_all(), term()}}.
is_empty(Dir) ->
    case file:list_dir(Dir) of
        {ok, []} -> ok;
        {ok, _} -> {error, {not_empty, Dir}};
        {error, Why} -> {error, {write, Dir, Why}}
    end.

%% @doc The size of a file of this user in such a folder. It is no link, and no folder.
-spec size(file:filename_all()) -> {ok, non_neg_integer()} | {error, file:posix() | badarg}.
size(File) ->
    Uid = kymo_attach_proc:own_uid(),
    case file:read_link_info(File, [raw]) of
        {ok, #file_info{uid = Uid, type = regular, size = Size}} -> {ok, Size};
        {ok, _} -> {error, eexist};
        {error, _} = Error -> Error
    end.
