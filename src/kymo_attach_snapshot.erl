%% SPDX-License-Identifier: Apache-2.0
%% @private Takes and fetches snapshots of the recorder in a node during the recording.
-module(kymo_attach_snapshot).

-export([take/2, reason/1]).

%% @doc Takes a snapshot and copies it into the new folder `To', which is removed if this fails.
%% The message `abort' ends the wait.
-spec take(kymo_attach_link:t(), To :: file:filename_all()) -> {ok, Bytes :: non_neg_integer()} | {error, term()}.
take(Link, To) ->
    case file:make_dir(To) of
        ok -> take_into(Link, To);
        {error, Why} -> {error, {write, To, Why}}
    end.

%% The copy is made by a process of its own: the node removes its files when that process ends.
take_into({Node, First, _, Wait}, To) ->
    Self = self(),
    {Pid, Monitor} = spawn_monitor(fun() ->
        Self ! {self(), taken({Node, First, kymo_attach_wire:monitor(Node, First), Wait}, To)}
    end),
    case result(Pid, Monitor, false) of
        {{ok, _} = Taken, false} ->
            Taken;
        {{ok, _}, true} ->
            throw({error, aborted});
        {{error, _} = Error, Aborted} ->
            _ = file:del_dir_r(To),
            Aborted andalso throw({error, aborted}),
            Error
    end.

%% The copying process ends before the folder is removed, since it writes there.
result(Pid, Monitor, Aborted) ->
    receive
        {Pid, Result} ->
            true = demonitor(Monitor, [flush]),
            {Result, Aborted};
        {'DOWN', Monitor, process, Pid, Why} ->
            {{error, Why}, Aborted};
        abort ->
            Pid ! abort,
            result(Pid, Monitor, true)
    end.

taken(Link, To) ->
    try
        case file:change_mode(To, 8#700) of
            ok -> copied(Link, kymo_attach_link:call(Link, snapshot), To);
            {error, Why} -> {error, {write, To, Why}}
        end
    catch
        throw:{error, _} = Error -> Error
    end.

copied(Link, {ok, Dir}, To) ->
    case kymo_attach_fetch:fetch(Link, Dir, To) of
        {ok, Bytes} -> {ok, Bytes};
        {error, Why} -> {error, reason(Why)}
    end;
copied(_, {error, _} = Error, _) ->
    Error.

%% @doc The error of a snapshot, for an error of {@link kymo_attach_fetch:fetch/3}.
-spec reason(term()) -> term().
reason({copy, File, Why}) -> {no_snapshot, File, Why};
reason({fetch, enoent}) -> snapshot_removed;
reason(Why) -> Why.
