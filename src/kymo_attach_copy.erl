%% SPDX-License-Identifier: Apache-2.0
%% @private Copies a recording that has ended, and goes on where it was when the connection to the node
%% was lost, when the node did not answer, and when an earlier command was interrupted.
%%
%% The files of such a recording never change. The folder of a copy that is not complete has a file that names
%% its recording; a node can't name a file so.
-module(kymo_attach_copy).

-export([check/3, copy/4, remove/3]).
-export_type([again/0]).

%% Connects again to the part of kymo in the node, or returns why that is impossible.
-type again() :: fun((Why :: term()) -> {ok, kymo_attach_link:t()} | {error, term()}).

-record(copy, {
    dir :: binary(),
    to :: file:filename_all(),
    again :: again(),
    %% The files of the recording, when they are known.
    files = none :: none | [kymo_attach_fetch:file()],
    %% What had been copied when the connection was lost the last time.
    done = none :: none | non_neg_integer()
}).

-define(MARKER, ".incomplete").
%% Nobody has a reason to write more into the file.
-define(MARKER_MAX, 8192).

%% @doc Whether a copy of this recording may go into this folder: it is empty, or has a part of that copy.
-spec check(node(), Dir :: binary(), To :: file:filename_all()) -> ok | {error, term()}.
check(Node, Dir, To) ->
    case kymo_attach_folder:is_empty(To) of
        {error, {not_empty, _}} ->
            case check_marker(marker(Node, Dir), To) of
                none -> ok;
                Checked -> Checked
            end;
        Empty ->
            Empty
    end.

%% `none' if an earlier command ended while it wrote the marker, before it copied anything.
check_marker(Expected, To) ->
    File = filename:join(To, ?MARKER),
    case kymo_attach_folder:size(File) of
        {ok, Size} when Size =< ?MARKER_MAX ->
            case file:read_file(File) of
                {ok, Expected} ->
                    ok;
                {ok, Part} ->
                    case {binary:longest_common_prefix([Part, Expected]), file:list_dir(To)} of
                        {Size, {ok, [?MARKER]}} -> none;
                        _ -> {error, {not_empty, To}}
                    end;
                _ ->
                    {error, {not_empty, To}}
            end;
        _ ->
            {error, {not_empty, To}}
    end.

marker(Node, Dir) -> unicode:characters_to_binary([atom_to_list(Node), $\n, Dir, $\n]).

%% @doc Copies all files of the folder `Dir' in the node into `To', which {@link check/3} has found good. Connects
%% again as long as something arrives each time. Returns the size of the files, and the connection that is
%% left.
-spec copy(kymo_attach_link:t(), Dir :: binary(), To :: file:filename_all(), again()) ->
    {{ok, Bytes :: non_neg_integer()} | {error, term()}, kymo_attach_link:t()}.
copy(Link, Dir, To, Again) -> copy(Link, #copy{dir = Dir, to = To, again = Again}).

copy(Link, #copy{files = none, dir = Dir} = C) ->
    case kymo_attach_fetch:files(Link, Dir) of
        {ok, Files} ->
            case begun(Link, Files, C) of
                ok -> copy(Link, C#copy{files = Files});
                {error, _} = Error -> {Error, Link}
            end;
        {error, Why} ->
            interrupted(Why, 0, Link, C)
    end;
copy(Link, #copy{files = Files, dir = Dir, to = To} = C) ->
    case kymo_attach_fetch:fetch(Link, Dir, Files, To) of
        {ok, Bytes} -> {ended(Bytes, To), Link};
        {error, Why} -> interrupted(Why, copied(Files, To), Link, C)
    end.

begun({Node, _, _, _}, Files, #copy{dir = Dir, to = To}) ->
    case file:list_dir(To) of
        {ok, Names} -> begun(Names, Files, marker(Node, Dir), To);
        {error, Why} -> {error, {copy, To, Why}}
    end.

%% There is nothing but parts of these files.
begun(Names, Files, Marker, To) ->
    Fits = fun(Name) ->
        case {lists:keyfind(Name, 1, Files), kymo_attach_folder:size(filename:join(To, Name))} of
            {{_, Size}, {ok, There}} -> There =< Size;
            _ -> false
        end
    end,
    case lists:all(Fits, lists:delete(?MARKER, Names)) of
        true -> marked(To, Marker, lists:member(?MARKER, Names));
        false -> {error, {not_empty, To}}
    end.

%% While it was recorded, another folder may have come in the place of the one that was checked then.
marked(To, Marker, true) ->
    case check_marker(Marker, To) of
        none -> mark(To, Marker, []);
        Checked -> Checked
    end;
marked(To, Marker, false) ->
    mark(To, Marker, [exclusive]).

mark(To, Marker, How) ->
    File = filename:join(To, ?MARKER),
    case file:write_file(File, Marker, How) of
        ok -> ok;
        {error, Why} -> {error, {copy, File, Why}}
    end.

ended(Bytes, To) ->
    File = filename:join(To, ?MARKER),
    case file:delete(File) of
        ok -> {ok, Bytes};
        {error, Why} -> {error, {copy, File, Why}}
    end.

%% @doc Removes what has been copied of this recording, if the copy is not complete.
-spec remove(node(), Dir :: binary(), To :: file:filename_all()) -> ok.
remove(Node, Dir, To) ->
    case {check_marker(marker(Node, Dir), To), file:list_dir(To)} of
        {ok, {ok, Names}} -> lists:foreach(fun(Name) -> file:delete(filename:join(To, Name)) end, Names);
        _ -> ok
    end.

copied(Files, To) -> lists:sum([Size || {Name, _} <- Files, {ok, Size} <- [kymo_attach_folder:size(filename:join(To, Name))]]).

interrupted(Why, Done, Link, #copy{done = Done}) ->
    {{error, Why}, Link};
interrupted(Why, Done, Link, #copy{again = Again} = C) when Why =:= disconnected; element(1, Why) =:= no_answer ->
    case Again(Why) of
        {ok, New} -> copy(New, C#copy{done = Done});
        {error, _} = Error -> {Error, Link}
    end;
interrupted(Why, _, Link, _) ->
    {{error, Why}, Link}.
