%% SPDX-License-Identifier: Apache-2.0
%% @private Takes and fetches snapshots of the recorder in a node during the recording.
-module(kymo_attach_snapshot).

-export([take/2]).

%% @doc Takes a snapshot and copies it into the new folder `To'. To be called in a process of
%% its own: the node removes its copy when that process ends. The message `abort' ends the
%% wait.
-spec take(kymo_attach_link:t(), To :: file:filename_all()) -> {ok, Bytes :: non_neg_integer()} | {error, term()}.
take({Node, First, _}, To) ->
    Self = self(),
    {Pid, Monitor} = spawn_monitor(fun() ->
        Self ! {self(), taken({Node, First, monitor(process, First)}, To)}
    end),
    receive
        {Pid, Result} ->
            true = demonitor(Monitor, [flush]),
            Result;
        {'DOWN', Monitor, process, Pid, Why} ->
            {error, Why};
        abort ->
            exit(Pid, kill),
            throw({error, aborted})
    end.

taken(Link, To) ->
    case kymo_attach_link:call(Link, snapshot) of
        {ok, Dir} -> fetched(Link, Dir, To, file:make_dir(To));
        {error, _} = Error -> Error
    end.

fetched(Link, Dir, To, ok) ->
    ok = file:change_mode(To, 8#700),
    case kymo_attach_fetch:fetch(Link, Dir, To) of
        {ok, Bytes} ->
            {ok, Bytes};
        {error, _} = Error ->
            _ = file:del_dir_r(To),
            Error
    end;
fetched(_, _, To, {error, Why}) ->
    {error, {write, To, Why}}.
