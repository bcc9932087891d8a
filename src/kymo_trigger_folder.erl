%% SPDX-License-Identifier: Apache-2.0
%% @private The folder of the snapshots that triggers take: names of snapshots, the file that
%% describes the firing, and removal of old snapshots.
-module(kymo_trigger_folder).

-export([check/1, new/3, write/2, remove_old/2]).

-define(FIRING, "firing.json").
-define(UNFINISHED, "firing.json.new").

%% @doc Checks that the folder, or the one in which it will be created, exists.
-spec check(default | file:name_all()) -> ok | {error, {missing_folder, file:filename_all()}}.
check(default) ->
    ok;
check(Folder) ->
    Parent = filename:dirname(filename:absname(Folder)),
    case filelib:is_dir(Folder) orelse filelib:is_dir(Parent) of
        true -> ok;
        false -> {error, {missing_folder, Parent}}
    end.

%% @doc The name of a new snapshot in the folder. Names sort by time.
-spec new(file:name_all(), Unix :: integer(), Kind :: binary()) -> file:filename_all().
new(Folder, UnixMs, Kind) -> new(Folder, UnixMs, Kind, 1).

new(Folder, UnixMs, Kind, N) ->
    {{Y, Mo, D}, {H, Mi, S}} = calendar:system_time_to_universal_time(UnixMs, millisecond),
    Name = lists:flatten(
        io_lib:format("~4..0b~2..0b~2..0bT~2..0b~2..0b~2..0b.~3..0bZ-~3..0b-~s", [Y, Mo, D, H, Mi, S, UnixMs rem 1000, N, Kind])
    ),
    Dir = filename:join(Folder, Name),
    case file:read_link_info(Dir) of
        {error, enoent} -> Dir;
        {ok, _} when N < 999 -> new(Folder, UnixMs, Kind, N + 1);
        _ -> Dir
    end.

%% @doc Writes the firing into the folder of a recording, atomically.
-spec write(file:name_all(), kymo_trigger_json:object()) -> ok | {error, file:posix()}.
write(Dir, Firing) ->
    File = filename:join(Dir, ?FIRING),
    New = filename:join(Dir, ?UNFINISHED),
    Written =
        case file:write_file(New, [kymo_trigger_json:encode(Firing), $\n]) of
            ok ->
                _ = kymo_folder:set_mode(New, 8#600),
                file:rename(New, File);
            Error ->
                Error
        end,
    Written =:= ok orelse file:delete(New),
    Written.

%% @doc Removes the oldest snapshots beyond the bounds, but never the newest one, and nothing
%% with another name. Returns the number of removed snapshots.
-spec remove_old(file:name_all(), #{keep := pos_integer() | infinity, keep_bytes := pos_integer() | infinity, _ => _}) ->
    non_neg_integer().
remove_old(Folder, #{keep := Keep, keep_bytes := Bytes}) ->
    case file:list_dir(Folder) of
        {ok, Names} ->
            Ours = lists:reverse(lists:sort([Name || Name <- Names, is_ours(Name)])),
            Old = old([filename:join(Folder, Name) || Name <- Ours], Keep, Bytes),
            lists:foreach(fun remove/1, Old),
            length(Old);
        {error, _} ->
            0
    end.

is_ours(Name) ->
    re:run(Name, "^\\d{8}T\\d{6}\\.\\d{3}Z-\\d{3,}-[a-z]+$", [{capture, none}]) =:= match.

%% The newest first.
old([], _, _) -> [];
old([Newest | Older], Keep, Bytes) -> beyond(Older, less(Keep, 1), less(Bytes, size_of(Newest))).

%% `infinity' works as a bound, because atoms compare greater than numbers.
beyond([], _, _) ->
    [];
beyond([Dir | Older], Keep, Bytes) ->
    Size = size_of(Dir),
    case Keep > 0 andalso Bytes >= Size of
        true -> beyond(Older, less(Keep, 1), less(Bytes, Size));
        false -> [Dir | Older]
    end.

less(infinity, _) -> infinity;
less(N, By) -> N - By.

size_of(Dir) ->
    case file:list_dir(Dir) of
        {ok, Names} -> lists:sum([filelib:file_size(filename:join(Dir, Name)) || Name <- Names]);
        {error, _} -> 0
    end.

remove(Dir) ->
    _ = file:delete(filename:join(Dir, ?FIRING)),
    %% Exists if a node was killed while writing it.
    _ = file:delete(filename:join(Dir, ?UNFINISHED)),
    kymo_folder:remove_recording(Dir).
