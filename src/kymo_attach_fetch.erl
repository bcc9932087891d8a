%% SPDX-License-Identifier: Apache-2.0
%% @private Copies the folder of a recording from a node over its connection.
%%
%% Several requests are outstanding at a time: enough to keep the connection busy, few enough
%% that neither side queues more than a few MiB.
-module(kymo_attach_fetch).

-export([fetch/3, files/2, fetch/4]).
-export_type([file/0, error/0]).

-type file() :: {Name :: string(), Size :: non_neg_integer()}.

-type error() ::
    {fetch, file:posix() | term()}
    | {copy, file:filename_all(), file:posix()}
    | {bad_node, term()}
    | disconnected
    | {no_answer, answer}
    | aborted.

-define(CHUNK, (256 * 1024)).
-define(UNDER_WAY, 8).

%% @doc Copies all files of `Dir' in the node to the empty folder `To', or none of them. Returns their
%% size in bytes. Parts of a file that hold zeros only become holes.
-spec fetch(kymo_attach_link:t(), Dir :: binary(), To :: file:filename_all()) -> {ok, Bytes :: non_neg_integer()} | {error, error()}.
fetch(Link, Dir, To) ->
    case files(Link, Dir) of
        {ok, Files} -> all_or_none(fetch(Link, Dir, Files, To), Files, To);
        {error, _} = Error -> Error
    end.

all_or_none({ok, _} = Fetched, _, _) ->
    Fetched;
all_or_none({error, _} = Error, Files, To) ->
    lists:foreach(fun({Name, _}) -> file:delete(filename:join(To, Name)) end, Files),
    Error.

%% @doc The files of `Dir' in the node.
-spec files(kymo_attach_link:t(), Dir :: binary()) -> {ok, [file()]} | {error, error()}.
files(Link, Dir) ->
    try
        {ok, from_node(kymo_attach_link:call(Link, {files, Dir}))}
    catch
        throw:{error, _} = Error -> Error
    end.

%% @doc Copies these files, which don't change. A file that is in `To' already is gone on with at its size.
-spec fetch(kymo_attach_link:t(), Dir :: binary(), [file()], To :: file:filename_all()) ->
    {ok, Bytes :: non_neg_integer()} | {error, error()}.
fetch(Link, Dir, Files, To) ->
    try
        lists:foreach(fun({Name, Size}) -> copy(Link, Dir, Name, Size, filename:join(To, Name)) end, Files),
        {ok, lists:sum([Size || {_, Size} <- Files])}
    catch
        throw:{error, _} = Error -> Error
    end.

from_node({ok, Value}) -> Value;
from_node({error, disconnected} = Error) -> throw(Error);
from_node({error, {no_answer, _}} = Error) -> throw(Error);
from_node({error, {bad_node, _}} = Error) -> throw(Error);
from_node({error, Why}) -> throw({error, {fetch, Why}}).

%% Nothing is written through a link, or over a file, that somebody has put there.
copy(Link, Dir, Name, Size, File) ->
    case kymo_attach_folder:size(File) of
        {ok, Size} -> ok;
        {ok, Less} when Less < Size -> copy(Link, Dir, Name, Size, File, Less, file:open(File, [read, write, raw, binary]));
        {error, enoent} -> copy(Link, Dir, Name, Size, File, 0, file:open(File, [write, raw, binary, exclusive]));
        {ok, _} -> throw({error, {copy, File, eexist}});
        {error, Why} -> throw({error, {copy, File, Why}})
    end.

copy(_, _, _, _, File, _, {error, Why}) ->
    throw({error, {copy, File, Why}});
copy(Link, Dir, Name, Size, File, From, {ok, Device}) ->
    try
        written(File, file:change_mode(File, 8#600)),
        Ask = fun(Offset) ->
            Bytes = min(?CHUNK, Size - Offset),
            {Offset, Bytes, kymo_attach_link:cast(Link, {read, Dir, Name, Offset, Bytes})}
        end,
        write_all(Link, Ask, File, Device, queue:new(), From, Size),
        extended(File, Device, Size)
    of
        %% Some file systems report a lack of space only when the file is closed.
        ok -> written(File, file:close(Device))
    catch
        throw:{error, _} = Error ->
            _ = file:close(Device),
            throw(Error)
    end.

%% Next is the offset of the first part that was not asked for.
write_all(Link, Ask, File, Device, UnderWay, Next, Size) ->
    case Next < Size andalso queue:len(UnderWay) < ?UNDER_WAY of
        true -> write_all(Link, Ask, File, Device, queue:in(Ask(Next), UnderWay), Next + ?CHUNK, Size);
        false -> write_next(Link, Ask, File, Device, queue:out(UnderWay), Next, Size)
    end.

write_next(_, _, _, _, {empty, _}, _, _) ->
    ok;
write_next(Link, Ask, File, Device, {{value, {Offset, Bytes, Tag}}, Others}, Next, Size) ->
    Part = from_node(kymo_attach_link:receive_answer(Link, Tag)),
    case from_node(kymo_attach_answer:data(Bytes, Part)) of
        %% The size of the file is what has arrived.
        zeros -> extended(File, Device, Offset + Bytes);
        Data -> written(File, file:pwrite(Device, Offset, Data))
    end,
    write_all(Link, Ask, File, Device, Others, Next, Size).

extended(File, Device, Size) ->
    case file:position(Device, Size) of
        {ok, _} -> written(File, file:truncate(Device));
        {error, Why} -> throw({error, {copy, File, Why}})
    end.

written(_, ok) -> ok;
written(File, {error, Why}) -> throw({error, {copy, File, Why}}).
