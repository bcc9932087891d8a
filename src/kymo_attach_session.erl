%% SPDX-License-Identifier: Apache-2.0
%% @private What `kymo attach' does with one node, in a process of its own.
%%
%% Tells the process that has started it, as `{session, Node, What}': `{connected,
%% Release}', `{started, Result}', `{progress, Info}', `{fetching, Info}', and last
%% `{done, Result}' or `{failed, Error}'. Takes the messages `stop' (end the recording and
%% fetch it) and `abort' (leave at once).
-module(kymo_attach_session).

-export([record/2, keep/2, snapshot/2, detach/2, recorders/2]).
-export_type([options/0]).

-type options() :: #{
    node := node(),
    port := none | inet:port_number(),
    priv := file:filename_all(),
    folders := [file:filename_all()],
    %% Where the recording goes; made by this module.
    output := none | file:filename_all(),
    start := kymo:options(),
    spec := kymo:trace_spec(),
    %% Milliseconds to record for.
    for := pos_integer() | infinity
}.

-define(PROGRESS_INTERVAL, 500).
%% By how much the recorder outlives `for' when nothing is heard from this side.
-define(GRACE, 10000).

%% @doc Records until `for' is over or a `stop', fetches the recording, and leaves.
-spec record(pid(), options()) -> ok.
record(Main, Options) ->
    run(Main, Options, fun() ->
        Output = make_output(Options),
        try
            Link = started(Main, Options),
            Fetched = fetched(Main, Link, recorded(Main, Link, Options), Output),
            ok(kymo_attach_link:finish(Link)),
            Fetched
        catch
            throw:Error ->
                %% Nothing but an empty folder.
                _ = file:del_dir(Output),
                throw(Error)
        end
    end).

%% @doc Starts a recorder that stays. With `for' it ends by itself; its recording stays.
-spec keep(pid(), options()) -> ok.
keep(Main, #{start := Start, for := For} = Options) ->
    run(Main, Options, fun() ->
        Link = started(Main, Options#{start := limited(Start, For), for := infinity}),
        ok(kymo_attach_link:call(Link, keep)),
        #{kept => true}
    end).

%% @doc Fetches a snapshot of a recorder that has stayed.
-spec snapshot(pid(), options()) -> ok.
snapshot(Main, #{node := Node} = Options) ->
    run(Main, Options, fun() ->
        _ = connected(Main, Options),
        Link = value(kymo_attach_link:reopen(Node)),
        Output = make_output(Options),
        Dir = value(kymo_attach_link:call(Link, snapshot)),
        #{bytes => value(kymo_attach_fetch:fetch(Link, Dir, Output))}
    end).

%% @doc Ends a recorder that has stayed, fetches its recording if an output is named,
%% and removes everything.
-spec detach(pid(), options()) -> ok.
detach(Main, #{node := Node, output := Output} = Options) ->
    run(Main, Options, fun() ->
        _ = connected(Main, Options),
        Link = value(kymo_attach_link:reopen(Node)),
        Result =
            case Output of
                none ->
                    #{};
                _ ->
                    #{dir := Dir} = value(kymo_attach_link:call(Link, info)),
                    fetched(Main, Link, Dir, make_output(Options))
            end,
        ok(kymo_attach_link:finish(Link)),
        Result
    end).

%% @doc Asks the node for its recorders, whoever has started them.
-spec recorders(pid(), options()) -> ok.
recorders(Main, #{node := Node} = Options) ->
    run(Main, Options, fun() ->
        _ = connected(Main, Options),
        case erpc:call(Node, erlang, module_loaded, [kymo]) of
            true -> #{recorders => erpc:call(Node, kymo, list, [])};
            false -> #{recorders => []}
        end
    end).

run(Main, #{node := Node}, Fun) ->
    Result =
        try
            {done, Fun()}
        catch
            throw:{error, Why} -> {failed, Why}
        end,
    Main ! {session, Node, Result},
    ok.

connected(Main, #{node := Node, port := Port}) ->
    Release = value(kymo_attach_link:connect(Node, Port)),
    tell(Main, Node, {connected, Release}).

started(Main, #{node := Node, priv := Priv, folders := Folders, start := Start, spec := Spec} = Options) ->
    _ = connected(Main, Options),
    ok(kymo_attach_machine:check(Node, Priv)),
    Link = value(kymo_attach_link:open(Node, #{token => token(), folders => Folders})),
    ok(kymo_attach_link:load(Link, Priv)),
    Limited =
        case Options of
            #{for := infinity} -> Start;
            #{for := For} -> limited(Start, For + ?GRACE)
        end,
    Result = value(kymo_attach_link:call(Link, {start, Limited, Spec})),
    tell(Main, Node, {started, Result}),
    Link.

%% Nobody can guess it, and so nobody can make the folder before the node does.
token() ->
    {ok, Device} = file:open("/dev/urandom", [read, raw, binary]),
    {ok, Bytes} = file:read(Device, 10),
    ok = file:close(Device),
    string:lowercase(integer_to_list(binary:decode_unsigned(Bytes), 36)).

limited(Start, infinity) -> Start;
limited(Start, For) -> Start#{limit => #{duration => For}}.

%% The folder of the recording in the node, when it is time to fetch it.
recorded(Main, Link, #{node := Node, for := For}) ->
    For =:= infinity orelse erlang:send_after(For, self(), stop),
    {ok, #{dir := Dir}} = progress(Main, Node, Link),
    Dir.

progress(Main, Node, Link) ->
    Info = value(kymo_attach_link:call(Link, info)),
    tell(Main, Node, {progress, Info}),
    case Info of
        #{state := closed} ->
            {ok, Info};
        _ ->
            receive
                stop -> {ok, Info};
                abort -> throw({error, aborted});
                {'DOWN', _, process, _, _} -> throw({error, disconnected})
            after ?PROGRESS_INTERVAL -> progress(Main, Node, Link)
            end
    end.

fetched(Main, {Node, _, _} = Link, Dir, Output) ->
    Info = value(kymo_attach_link:call(Link, stop)),
    tell(Main, Node, {fetching, Info}),
    Bytes = value(kymo_attach_fetch:fetch(Link, Dir, Output)),
    Info#{bytes => Bytes}.

%% Before anything is done in the node.
make_output(#{output := Output}) ->
    case file:make_dir(Output) of
        ok -> ok;
        {error, eexist} -> empty(Output, file:list_dir(Output));
        {error, Why} -> throw({error, {write, Output, Why}})
    end,
    case file:change_mode(Output, 8#700) of
        ok -> Output;
        {error, Reason} -> throw({error, {write, Output, Reason}})
    end.

empty(_, {ok, []}) -> ok;
empty(Output, {ok, _}) -> throw({error, {not_empty, Output}});
empty(Output, {error, Why}) -> throw({error, {write, Output, Why}}).

tell(Main, Node, What) ->
    Main ! {session, Node, What},
    ok.

value({ok, Value}) -> Value;
value({error, _} = Error) -> throw(Error).

ok(ok) -> ok;
ok({error, _} = Error) -> throw(Error).
