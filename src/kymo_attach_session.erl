%% SPDX-License-Identifier: Apache-2.0
%% @private The work of `kymo attach' for one node, in a process of its own.
%%
%% Sends these messages to its parent, each as `{session, Node, What}': `{connected,
%% Release}', `{started, Result}', `{shown, Dir, new | kept}', `{stays, Output}', `{progress,
%% Info}', `{snapshot, Dir}', `{fired, Firing, Dir}', `{limited, Max}' (the triggers take no more
%% snapshots), `{left_out, N}' (firings without a snapshot), `{warning, Error}', `{fetching, Info}', and last `{done, Result}' or `{failed,
%% Error}'. Receives the messages `stop' (end the recording and fetch it), `snapshot' (of a
%% recorder that stays) and `abort' (leave at once).
-module(kymo_attach_session).

-export([record/2, show/2, keep/2, snapshot/2, detach/2, recorders/2]).
-export_type([options/0]).

-type options() :: #{
    node := node(),
    port := none | inet:port_number(),
    %% The node's process id on this machine, if it is known.
    os_pid := none | string(),
    %% An option that selects what is recorded was given.
    selects := boolean(),
    watch := kymo_attach_watch:plan(),
    priv := file:filename_all(),
    folders := [file:filename_all()],
    %% The folder for the recording; created by this module.
    output := none | file:filename_all(),
    start := kymo:options(),
    spec := kymo:trace_spec(),
    %% Milliseconds to record for.
    for := pos_integer() | infinity
}.

%% State during the recording.
-record(work, {
    main :: pid(),
    node :: node(),
    link :: kymo_attach_link:t(),
    %% The folders for snapshots: those of triggers, and those that were requested.
    triggered :: file:filename_all(),
    asked = none :: none | file:filename_all(),
    plan :: kymo_attach_watch:plan(),
    watch = none :: none | port(),
    taken = 0 :: non_neg_integer(),
    %% By triggers.
    acted = 0 :: non_neg_integer(),
    %% Firings that came faster than snapshots can be copied.
    left_out = 0 :: non_neg_integer(),
    missed = false :: boolean()
}).

-define(PROGRESS_INTERVAL, 500).
%% More waiting messages than this are not worked off: each firing needs a snapshot.
-define(WAITING_MAX, 100).
%% If the connection to this side is lost, the recorder ends this many ms after `for'.
-define(GRACE, 10000).

%% @doc Records until `for' is over or a `stop', fetches the recording, and leaves.
-spec record(pid(), options()) -> ok.
record(Main, Options) ->
    run(Main, Options, fun() ->
        with_output(Options, fun(Output) ->
            Link = started(Main, Options),
            Triggered = unicode:characters_to_list([Output, ".triggered"]),
            Work = watching(Options, #work{
                main = Main, node = maps:get(node, Options), link = Link, triggered = Triggered, plan = maps:get(watch, Options)
            }),
            Fetched = fetched(Main, Link, recorded(Work, Options), Output, new),
            ok(kymo_attach_link:finish(Link)),
            Fetched
        end)
    end).

with_output(Options, Fun) ->
    Output = make_output(Options),
    try
        Fun(Output)
    catch
        throw:Error ->
            %% Removes the folder only if it is empty.
            _ = file:del_dir(Output),
            throw(Error)
    end.

%% @doc Records until a `stop', for a command that reads the recording in place. If a recorder
%% was left in the node, uses that one and leaves it there.
-spec show(pid(), options()) -> ok.
show(Main, #{node := Node, selects := Selects} = Options) ->
    run(Main, Options, fun() ->
        {Whose, Link, Dir} =
            try started(Main, Options) of
                New -> {new, New, maps:get(dir, value(kymo_attach_link:call(New, info)))}
            catch
                throw:{error, busy} when not Selects ->
                    Kept = value(kymo_attach_link:reopen(Node)),
                    {kept, Kept, maps:get(dir, value(kymo_attach_link:call(Kept, info)))}
            end,
        tell(Main, Node, {shown, seen_from_here(Dir, Options), Whose}),
        await_stop(Link),
        Whose =:= kept orelse ok(kymo_attach_link:finish(Link)),
        #{}
    end).

%% The path of a recording on this machine: the same path, or below the root of the node's
%% container. The name has a random part, so a folder with this name is the right one.
seen_from_here(Dir, #{os_pid := none}) -> readable([Dir], Dir, enoent);
seen_from_here(Dir, #{os_pid := Pid}) -> readable([Dir, iolist_to_binary(["/proc/", Pid, "/root", Dir])], Dir, enoent).

readable([], Dir, Why) ->
    throw({error, {not_here, Dir, Why}});
readable([Place | Places], Dir, Why) ->
    case file:open(filename:join(Place, "meta"), [read, raw]) of
        {ok, File} ->
            ok = file:close(File),
            Place;
        {error, enoent} ->
            readable(Places, Dir, Why);
        {error, Other} ->
            readable(Places, Dir, Other)
    end.

await_stop({_, First, Monitor}) ->
    receive
        stop -> ok;
        abort -> throw({error, aborted});
        {'DOWN', Monitor, process, First, _} -> throw({error, disconnected})
    end.

%% @doc Starts a recorder that stays in the node. With `for' it ends after that time; its
%% recording stays. With an output, copies snapshots there until a `stop', or until the recorder
%% ends.
-spec keep(pid(), options()) -> ok.
keep(Main, #{output := none} = Options) ->
    run(Main, Options, fun() ->
        _ = kept(Main, Options),
        #{kept => true}
    end);
keep(Main, #{node := Node} = Options) ->
    run(Main, Options, fun() ->
        with_output(Options, fun(Output) ->
            Link = kept(Main, Options),
            tell(Main, Node, {stays, Output}),
            Work = #work{
                main = Main, node = Node, link = Link, triggered = Output, asked = Output, plan = maps:get(watch, Options)
            },
            try
                _ = progress(watching(Options, Work)),
                #{kept => true}
            catch
                throw:{error, disconnected} -> throw({error, disconnected_kept})
            end
        end)
    end).

kept(Main, #{start := Start, for := For} = Options) ->
    Link = started(Main, Options#{start := limited(Start, For), for := infinity}),
    ok(kymo_attach_link:call(Link, keep)),
    Link.

%% @doc Fetches a snapshot of a recorder that has stayed.
-spec snapshot(pid(), options()) -> ok.
snapshot(Main, #{node := Node} = Options) ->
    run(Main, Options, fun() ->
        _ = connected(Main, Options),
        Link = value(kymo_attach_link:reopen(Node)),
        with_output(Options, fun(Output) ->
            Dir = value(kymo_attach_link:call(Link, snapshot)),
            case kymo_attach_fetch:fetch(Link, Dir, Output) of
                {ok, Bytes} ->
                    #{bytes => Bytes};
                {error, disconnected} ->
                    empty(Output),
                    throw({error, disconnected_kept});
                {error, Why} ->
                    empty(Output),
                    throw({error, kymo_attach_snapshot:reason(Why)})
            end
        end)
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
                    with_output(Options, fun(To) -> fetched(Main, Link, Dir, To, kept) end)
            end,
        ok(kymo_attach_link:finish(Link)),
        Result
    end).

%% @doc Asks the node for all its recorders, except those that have ended and whose folder is gone.
-spec recorders(pid(), options()) -> ok.
recorders(Main, #{node := Node} = Options) ->
    run(Main, Options, fun() ->
        _ = connected(Main, Options),
        case erpc:call(Node, erlang, module_loaded, [kymo]) of
            true -> #{recorders => [R || R <- erpc:call(Node, kymo, list, []), is_left(Node, R)]};
            false -> #{recorders => []}
        end
    end).

is_left(Node, #{state := closed, dir := Dir}) -> erpc:call(Node, filelib, is_dir, [Dir]);
is_left(_, _) -> true.

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
    Limited =
        case Options of
            #{for := infinity} -> Start;
            #{for := For} -> limited(Start, For + ?GRACE)
        end,
    try
        ok(kymo_attach_link:load(Link, Priv)),
        tell(Main, Node, {started, value(kymo_attach_link:call(Link, {start, Limited, Spec}))}),
        Link
    catch
        throw:{error, Why} = Error when Why =/= aborted ->
            %% The next command must not find what this one has put into the node.
            _ = kymo_attach_link:finish(Link),
            throw(Error)
    end.

%% Random, so that no other user can create the folder before the node does.
token() ->
    {ok, Device} = file:open("/dev/urandom", [read, raw, binary]),
    {ok, Bytes} = file:read(Device, 10),
    ok = file:close(Device),
    string:lowercase(integer_to_list(binary:decode_unsigned(Bytes), 36)).

limited(Start, infinity) -> Start;
limited(Start, For) -> Start#{limit => #{duration => For}}.

%% ---- while it records ----------------------------------------------------------

watching(_, #work{plan = #{triggers := []}} = Work) ->
    Work;
watching(#{priv := Priv} = Options, #work{link = Link, plan = Plan} = Work) ->
    #{dir := Dir} = value(kymo_attach_link:call(Link, info)),
    Work#work{watch = kymo_attach_watch:start(Plan, Priv, seen_from_here(Dir, Options))}.

%% Waits for the end of the recording. Returns its folder in the node.
recorded(Work, #{for := For}) ->
    For =:= infinity orelse erlang:send_after(For, self(), stop),
    #{dir := Dir} = progress(Work),
    Dir.

progress(#work{main = Main, node = Node, link = Link} = Work) ->
    Info = value(kymo_attach_link:call(Link, info)),
    tell(Main, Node, {progress, Info}),
    case Info of
        #{state := closed} -> ended(Info, Work);
        _ -> wait(Info, erlang:monotonic_time(millisecond) + ?PROGRESS_INTERVAL, Work)
    end.

ended(Info, #work{main = Main, node = Node, watch = Watch, left_out = LeftOut}) ->
    ok = kymo_attach_watch:stop(Watch),
    LeftOut > 0 andalso tell(Main, Node, {left_out, LeftOut}),
    Info.

%% What the user asks for, and what ends the recording, comes before firings, which may come
%% faster than snapshots are copied.
wait(Info, Until, #work{link = {_, First, Monitor}} = Work) ->
    receive
        stop -> ended(Info, Work);
        snapshot when Work#work.asked =/= none -> wait(Info, Until, asked(Work));
        abort -> throw({error, aborted});
        {'DOWN', Monitor, process, First, _} -> throw({error, disconnected})
    after 0 ->
        case erlang:monotonic_time(millisecond) >= Until of
            true -> progress(Work);
            false -> wait_for_any(Info, Until, Work)
        end
    end.

wait_for_any(Info, Until, #work{link = {_, First, Monitor}, watch = Watch} = Work) ->
    receive
        stop -> ended(Info, Work);
        abort -> throw({error, aborted});
        snapshot when Work#work.asked =/= none -> wait(Info, Until, asked(Work));
        {'DOWN', Monitor, process, First, _} -> throw({error, disconnected});
        {Watch, {data, {_, Line}}} -> wait(Info, Until, judged(kymo_attach_watch:judged(Line), Work));
        %% The command has reached the end of the recording.
        {Watch, {exit_status, 0}} -> wait(Info, Until, Work#work{watch = none});
        {Watch, {exit_status, Status}} -> wait(Info, Until, warned({watch_ended, Status}, Work#work{watch = none}))
    after max(0, Until - erlang:monotonic_time(millisecond)) -> progress(Work)
    end.

%% Leaves out the firings that have arrived during a snapshot if there are too many of them.
bounded(Work) ->
    case process_info(self(), message_queue_len) of
        {_, Waiting} when Waiting > ?WAITING_MAX -> leave_out(Work);
        _ -> Work
    end.

leave_out(#work{watch = Watch, left_out = N} = Work) ->
    receive
        {Watch, {data, {_, Line}}} ->
            case kymo_attach_watch:judged(Line) of
                {fired, _} -> leave_out(Work#work{left_out = N + 1});
                Other -> leave_out(judged(Other, Work))
            end
    after 0 -> Work
    end.

warned(Why, #work{main = Main, node = Node} = Work) ->
    tell(Main, Node, {warning, Why}),
    Work.

asked(#work{main = Main, node = Node, link = Link, asked = Folder, taken = N} = Work) ->
    To = filename:join(Folder, "snapshot-" ++ integer_to_list(N + 1)),
    case kymo_attach_snapshot:take(Link, To) of
        {ok, _} ->
            tell(Main, Node, {snapshot, To}),
            Work#work{taken = N + 1};
        {error, Why} ->
            warned(Why, Work)
    end.

judged(nothing, Work) ->
    Work;
judged({failed, watch_missed}, #work{missed = true} = Work) ->
    Work;
judged({failed, Why}, Work) ->
    warned(Why, Work#work{missed = Work#work.missed orelse Why =:= watch_missed});
judged({fired, _}, #work{acted = N, plan = #{max := Max}} = Work) when N >= Max ->
    Work;
judged({fired, #{<<"kind">> := Kind} = Firing}, #work{main = Main, node = Node, link = Link, triggered = Folder} = Work) ->
    #work{plan = Plan} = Work,
    _ = file:make_dir(Folder),
    _ = file:change_mode(Folder, 8#700),
    To = kymo_trigger_folder:new(Folder, erlang:system_time(millisecond), Kind),
    case kymo_attach_snapshot:take(Link, To) of
        {ok, _} ->
            Written = kymo_trigger_folder:write(To, Firing#{<<"held">> => is_held(Link, Firing)}),
            _ = [warned({write, To, Why}, Work) || {error, Why} <- [Written]],
            _ = kymo_trigger_folder:remove_old(Folder, Plan),
            tell(Main, Node, {fired, Firing, To}),
            bounded(acted(Work));
        %% The recorder has ended by itself. Its recording is fetched, or stays.
        {error, already_stopped} ->
            Work;
        {error, Why} ->
            bounded(warned(Why, Work))
    end.

acted(#work{main = Main, node = Node, acted = N, plan = #{max := Max}} = Work) ->
    N + 1 =:= Max andalso tell(Main, Node, {limited, Max}),
    Work#work{acted = N + 1}.

%% Whether the snapshot has the whole cause; see kymo_trigger_server:is_held/2.
is_held(Link, #{<<"start_unix_ns">> := Start}) ->
    #{complete_from := From} = value(kymo_attach_link:call(Link, info)),
    Start >= From.

fetched(Main, {Node, _, _} = Link, Dir, Output, Whose) ->
    Info = value(kymo_attach_link:call(Link, stop)),
    tell(Main, Node, {fetching, Info}),
    case kymo_attach_fetch:fetch(Link, Dir, Output) of
        {ok, Bytes} -> Info#{bytes => Bytes};
        {error, Why} -> not_fetched(Why, Link, Output, Whose)
    end.

-spec not_fetched(term(), kymo_attach_link:t(), file:filename_all(), new | kept) -> no_return().
%% The node removes the recording after this: what has been copied is all there is.
not_fetched(Why, _, _, new) when Why =:= disconnected; Why =:= aborted ->
    throw({error, Why});
%% The copy failed, and the connection is good: the recording stays in the node.
not_fetched(Why, Link, Output, new) ->
    ok(kymo_attach_link:call(Link, keep)),
    not_fetched(Why, Link, Output, kept);
not_fetched(Why, {Node, _, _}, Output, kept) ->
    empty(Output),
    throw({error, case Why of
        disconnected -> disconnected_kept;
        aborted -> aborted;
        _ -> {stays, Why, Node, Output}
    end}).

%% Removes what has been copied into a folder of {@link make_output/1}.
empty(Output) ->
    {ok, Names} = file:list_dir(Output),
    lists:foreach(fun(Name) -> file:delete(filename:join(Output, Name)) end, Names).

%% Called before anything is done in the node.
make_output(#{output := Output}) ->
    case file:make_dir(Output) of
        ok -> ok;
        {error, eexist} -> check_empty(Output, file:list_dir(Output));
        {error, Why} -> throw({error, {write, Output, Why}})
    end,
    case file:change_mode(Output, 8#700) of
        ok -> Output;
        {error, Reason} -> throw({error, {write, Output, Reason}})
    end.

check_empty(_, {ok, []}) -> ok;
check_empty(Output, {ok, _}) -> throw({error, {not_empty, Output}});
check_empty(Output, {error, Why}) -> throw({error, {write, Output, Why}}).

tell(Main, Node, What) ->
    Main ! {session, Node, What},
    ok.

value({ok, Value}) -> Value;
value({error, _} = Error) -> throw(Error).

ok(ok) -> ok;
ok({error, _} = Error) -> throw(Error).
