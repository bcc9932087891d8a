%% SPDX-License-Identifier: Apache-2.0
%% @private Copies the folder of a recording from a node over its connection.
%%
%% Several requests are outstanding at a time: enough to keep the connection busy, few enough
%% that neither side queues more than a few MiB.
-module(kymo_attach_fetch).

-export([fetch/3]).

-define(CHUNK, (256 * 1024)).
-define(UNDER_WAY, 8).

%% @doc Copies all files of `Dir' in the node to the new folder `To'. Returns their
%% size in bytes. Parts of a file that hold zeros only become holes.
-spec fetch(kymo_attach_link:t(), Dir :: binary(), To :: file:filename_all()) ->
    {ok, Bytes :: non_neg_integer()}
    | {error, {fetch, file:posix() | term()} | {copy, file:filename_all(), file:posix()} | disconnected | aborted}.
fetch(Link, Dir, To) ->
    try
        Files = from_node(kymo_attach_link:call(Link, {files, Dir})),
        lists:foreach(fun({Name, Size}) -> copy(Link, Dir, Name, Size, filename:join(To, Name)) end, Files),
        {ok, lists:sum([Size || {_, Size} <- Files])}
    catch
        throw:{error, _} = Error -> Error
    end.

from_node({ok, Value}) -> Value;
from_node({error, disconnected} = Error) -> throw(Error);
from_node({error, Why}) -> throw({error, {fetch, Why}}).

copy(Link, Dir, Name, Size, File) ->
    Device = opened(File, file:open(File, [write, raw, binary, exclusive])),
    try
        written(File, file:change_mode(File, 8#600)),
        Offsets = lists:seq(0, Size - 1, ?CHUNK),
        {First, Rest} = lists:split(min(?UNDER_WAY, length(Offsets)), Offsets),
        Ask = fun(Offset) ->
            {Offset, kymo_attach_link:cast(Link, {read, Dir, Name, Offset, min(?CHUNK, Size - Offset)})}
        end,
        write_all(Link, Ask, File, Device, queue:from_list([Ask(O) || O <- First]), Rest),
        {ok, _} = file:position(Device, Size),
        written(File, file:truncate(Device))
    of
        %% Some file systems report a lack of space only when the file is closed.
        ok -> written(File, file:close(Device))
    catch
        throw:{error, _} = Error ->
            _ = file:close(Device),
            throw(Error)
    end.

write_all(Link, Ask, File, Device, UnderWay, Rest) ->
    case queue:out(UnderWay) of
        {empty, _} ->
            ok;
        {{value, {Offset, Tag}}, Others} ->
            case from_node(kymo_attach_link:receive_answer(Link, Tag)) of
                {zeros, _} -> ok;
                Data -> written(File, file:pwrite(Device, Offset, Data))
            end,
            case Rest of
                [Next | After] -> write_all(Link, Ask, File, Device, queue:in(Ask(Next), Others), After);
                [] -> write_all(Link, Ask, File, Device, Others, [])
            end
    end.

opened(_, {ok, Device}) -> Device;
opened(File, {error, Why}) -> throw({error, {copy, File, Why}}).

written(_, ok) -> ok;
written(File, {error, Why}) -> throw({error, {copy, File, Why}}).
