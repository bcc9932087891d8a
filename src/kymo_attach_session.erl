%% SPDX-License-Identifier: Apache-2.0
%% @private The work of `kymo attach' for one node, in a process of its own.
%%
%% Sends these messages to its parent, each as `{session, Node, What}': `{step, Step}' (what it
%% does now, until the next message, except for `connecting'), `{connecting, Seen}' (that takes long, as the node is too busy), `{silent, Seen}' (the node does not answer), `{connected,
%% Release}', `{started, Result}', `{shown, Dir, new | kept}', `{stays, Output}', `{progress,
%% Info}', `{snapshot, Dir}', `{fired, Firing, Dir}', `{limited, Max}' (the triggers take no more
%% snapshots), `{left_out, N}' (firings without a snapshot), `{warning, Error}', `{fetching,
%% Info}', `{unloading, Why}' (nothing of kymo is left but modules, which the node removes by itself), `interrupted' (it connects again to fetch the rest), and last `{done, Result}' or
%% `{failed, Error}'. Receives the messages `stop' (end the recording and fetch it), `snapshot' (of a
%% recorder that stays) and `abort' (leave at once; after `drop', without leaving a recording that this command has
%% begun in the node).
-module(kymo_attach_session).

-include_lib("kernel/include/file.hrl").

-export([record/2, show/2, keep/2, snapshot/2, detach/2, recorders/2]).
-export_type([options/0]).

-type options() :: #{
    node := node(),
    client := kymo_attach_handshake:client(),
    %% The node's process id on this machine, if it is known.
    os_pid := none | string(),
    %% An option that selects what is recorded was given.
    selects := boolean(),
    watch := kymo_attach_watch:plan(),
    %% Nobody fetches the recording if this command does not.
    temporary := boolean(),
    priv := file:filename_all(),
    folders := [file:filename_all()],
    %% The folder for the recording; created by this module.
    output := none | file:filename_all(),
    %% Until when recording must have begun (as erlang:monotonic_time(millisecond)), and the milliseconds
    %% to wait for the answer to each request after that.
    until := integer(),
    wait := pos_integer(),
    start := kymo:options(),
    spec := kymo:trace_spec(),
    %% Milliseconds to record for.
    for := pos_integer() | infinity
}.

-export_type([step/0]).

%% `dropped': of a recording that is not held for another command.
-type step() :: connect | ask | load | start | snapshot | stop | fetch | dropped | finish | answer.

%% A recording that was not fetched completely stays in the node for so many milliseconds.
-define(HOLD, 600000).

%% How long to wait until a recording that is given up is removed from the node.
-define(DROP_WAIT, 2000).

%% How long to wait for the numbers that the progress shows.
-define(PROGRESS_WAIT, 2000).

%% State during the recording.
-record(work, {
    main :: pid(),
    node :: node(),
    os_pid :: none | string(),
    link :: kymo_attach_link:t(),
    %% The folder of the recording in the node.
    dir :: binary(),
    %% The node has not answered the last request.
    silent = false :: boolean(),
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

%% Connecting takes less in a node that is not too busy.
-define(LONG_CONNECT, 2000).
-define(PROGRESS_INTERVAL, 500).
%% How long to wait for each step of removing what the killed processes have left.
-define(SWEEP_WAIT, 5000).
%% More waiting messages than this are not worked off: each firing needs a snapshot.
-define(WAITING_MAX, 100).
%% If the connection to this side is lost, the recorder ends this many ms after `for'.
-define(GRACE, 10000).

%% @doc Records until `for' is over or a `stop', fetches the recording, and leaves.
-spec record(pid(), options()) -> ok.
record(Main, Options) ->
    run(Main, Options, fun() ->
        with_output(Options, fun(Output) ->
            {Link, Dir} = started(Main, Options),
            _ = put({?MODULE, link}, Link),
            try
                recorded_to(Output, Main, Link, Dir, Options)
            catch
                throw:{error, Why} -> throw({error, given_up(Why, Dir, Output, Options)})
            end
        end)
    end).

recorded_to(Output, Main, Link, Dir, #{node := Node} = Options) ->
    Triggered = unicode:characters_to_list([Output, ".triggered"]),
    Work = watching(Options, work(Main, Options, Link, Dir, Triggered)),
    ok = recorded(Work, Options),
    step(Main, Node, stop, fun() -> ok(kymo_attach_link:call(Link, {hold, hold(Options)})) end),
    {Stopped, Left} = stopped(Main, Link, Dir, Output, Options),
    fetched(Main, Left, Dir, Output, Stopped, Options).

%% Long enough to connect again.
hold(#{temporary := true, wait := Wait}) -> Wait;
hold(_) -> ?HOLD.

%% The node holds what was not fetched, for another command. Here, none will come for it, or the user has
%% ended this command at once.
given_up(disconnected, _, _, _) ->
    disconnected;
given_up(Why, Dir, Output, #{node := Node, temporary := Temporary}) ->
    case is_dropped() orelse Temporary of
        true ->
            kymo_attach_copy:remove(Node, Dir, Output),
            Link = kymo_attach_link:waiting(get({?MODULE, link}), {each, ?DROP_WAIT}),
            dropped(Why, kymo_attach_link:finish(Link));
        false ->
            Why
    end.

is_dropped() -> receive drop -> true after 0 -> false end.

dropped({held, Why, _}, Finished) -> dropped(Why, Finished);
dropped(aborted, {error, {no_answer, _}}) -> {dropped, aborted};
dropped({no_answer, _}, _) -> {no_answer, dropped};
dropped({stays, {copy, File, Why}, _, _}, _) -> {dropped, {copy, File, Why}};
dropped({stays, Why, _, _}, _) -> Why;
dropped(Why, _) -> Why.

work(Main, #{node := Node, os_pid := Pid, watch := Plan}, Link, Dir, Triggered) ->
    #work{main = Main, node = Node, os_pid = Pid, link = Link, dir = Dir, triggered = Triggered, plan = Plan}.

finish(Main, {Node, _, _, _} = Link) ->
    step(Main, Node, finish, fun() ->
        case kymo_attach_link:finish(Link) of
            {error, {left, Folders}} -> tell(Main, Node, {left, Folders});
            unloading -> tell(Main, Node, {unloading, kymo_attach_link:why_unloading(Node)});
            Result -> ok(Result)
        end
    end).

with_output(Options, Fun) -> with_output(Options, fun kymo_attach_folder:is_empty/1, Fun).

with_output(#{output := Output, priv := Priv}, Check, Fun) ->
    %% Before anything is done in the node, or to its recorder.
    Claim = value(kymo_attach_folder:claim(Output, Priv)),
    try
        ok(Check(Output)),
        Fun(Output)
    catch
        throw:Error ->
            %% Removes the folder only if it is empty.
            _ = file:del_dir(Output),
            throw(Error)
    after
        ok = kymo_attach_folder:leave(Claim)
    end.

%% @doc Records until a `stop', for a command that reads the recording in place. If a recorder
%% was left in the node, uses that one and leaves it there.
-spec show(pid(), options()) -> ok.
show(Main, #{node := Node, selects := Selects} = Options) ->
    run(Main, Options, fun() ->
        {Whose, Link, Dir} =
            try started(Main, Options) of
                {New, In} -> {new, New, In}
            catch
                throw:{error, busy} when not Selects ->
                    Kept = reopened(Main, Options),
                    {kept, Kept, maps:get(dir, value(kymo_attach_link:call(Kept, info)))}
            end,
        tell(Main, Node, {shown, seen_from_here(Dir, Options), Whose}),
        await_stop(Link),
        Whose =:= kept orelse finish(Main, Link),
        #{}
    end).

%% The path of a recording on this machine: the same path, or below the root of the node's
%% container. The name has a random part, so a folder with this name is the right one.
seen_from_here(Dir, #{os_pid := none}) -> readable([Dir], Dir, enoent);
seen_from_here(Dir, #{os_pid := Pid}) -> readable([Dir, iolist_to_binary(["/proc/", Pid, "/root", Dir])], Dir, enoent).

readable([], Dir, Why) ->
    throw({error, {not_here, Dir, Why}});
readable([Place | Places], Dir, Why) ->
    File = filename:join(Place, "meta"),
    case opened(File, file:read_link_info(File, [raw])) of
        {ok, Device} ->
            ok = file:close(Device),
            Place;
        {error, enoent} ->
            readable(Places, Dir, Why);
        {error, Other} ->
            readable(Places, Dir, Other)
    end.

%% Opening another kind of file might block or have an effect.
opened(File, {ok, #file_info{type = regular}}) -> file:open(File, [read, raw]);
opened(_, {ok, _}) -> {error, einval};
opened(_, {error, _} = Error) -> Error.

await_stop({_, First, Monitor, _}) ->
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
            {Link, Dir} = kept(Main, Options),
            tell(Main, Node, {stays, Output}),
            Work = (work(Main, Options, Link, Dir, Output))#work{asked = Output},
            try
                ok = progress(watching(Options, Work)),
                #{kept => true}
            catch
                throw:{error, disconnected} -> throw({error, gone(Node)})
            end
        end)
    end).

%% A recorder that should stay: if the connection is there, its processes have ended.
gone(Node) ->
    case kymo_attach_wire:is_connected(Node) of
        true -> disconnected;
        false -> disconnected_kept
    end.

kept(Main, #{start := Start, for := For} = Options) ->
    {Link, _} = Started = started(Main, Options#{start := limited(Start, For), for := infinity}),
    ok(kymo_attach_link:call(Link, keep)),
    Started.

%% @doc Fetches a snapshot of a recorder that has stayed.
-spec snapshot(pid(), options()) -> ok.
snapshot(Main, #{node := Node} = Options) ->
    run(Main, Options, fun() ->
        Link = reopened(Main, Options),
        with_output(Options, fun(Output) ->
            Dir = step(Main, Node, snapshot, fun() -> value(kymo_attach_link:call(Link, snapshot)) end),
            case kymo_attach_fetch:fetch(Link, Dir, Output) of
                {ok, Bytes} ->
                    #{bytes => Bytes};
                {error, disconnected} ->
                    throw({error, disconnected_kept});
                {error, {no_answer, _}} ->
                    throw({error, {no_answer, snapshot}});
                {error, Why} ->
                    throw({error, kymo_attach_snapshot:reason(Why)})
            end
        end)
    end).

%% @doc Ends a recorder that has stayed, or one whose recording is held, fetches the recording if an output is
%% named, or what is missing there, and removes everything.
-spec detach(pid(), options()) -> ok.
detach(Main, #{node := Node, output := Output} = Options) ->
    run(Main, Options, fun() ->
        Link = reopened(Main, Options),
        case Output of
            none ->
                finish(Main, Link),
                #{};
            _ ->
                #{dir := Dir} = value(kymo_attach_link:call(Link, info)),
                Check = fun(To) -> kymo_attach_copy:check(Node, Dir, To) end,
                with_output(Options, Check, fun(To) ->
                    {Stopped, Left} = stopped(Main, Link, Dir, To, Options),
                    fetched(Main, Left, Dir, To, Stopped, Options)
                end)
        end
    end).

%% @doc Asks the node for all its recorders, except those that have ended and whose folder is gone.
-spec recorders(pid(), options()) -> ok.
recorders(Main, #{node := Node} = Options) ->
    run(Main, Options, fun() ->
        _ = connected(Main, Options),
        step(Main, Node, ask, fun() ->
            case value(kymo_attach_link:ask(Node, module_loaded, [kymo], until(Options))) of
                true ->
                    Recorders = value(kymo_attach_answer:recorders(asked_of(Options, kymo, list, []))),
                    #{recorders => [R || R <- Recorders, is_left(Options, R)]};
                _ -> #{recorders => []}
            end
        end)
    end).

is_left(Options, #{state := closed, dir := Dir}) -> asked_of(Options, filelib, is_dir, [Dir]) =:= true;
is_left(_, _) -> true.

asked_of(#{node := Node} = Options, M, F, As) -> value(kymo_attach_link:call_there(Node, {M, F, As}, until(Options))).

%% What can be seen of the node from outside belongs to an error that it does not answer.
run(Main, #{node := Node, client := Client, os_pid := Pid, wait := Wait} = Options, Fun) ->
    Result =
        try
            {done, Fun()}
        catch
            throw:{error, {no_answer, epmd}} -> {failed, {no_answer, epmd}};
            throw:{error, {no_answer, load}} -> {failed, not_loaded(Options)};
            throw:{error, {no_answer, Step}} -> {failed, at_port({no_answer, Step, Wait, kymo_attach_outside:look(Pid)}, Client, Pid)};
            throw:{error, {refused, _, _} = Why} -> {failed, at_port(Why, Client, Pid)};
            throw:{error, no_file_operations} -> {failed, {no_file_operations, kymo_attach_outside:look(Pid)}};
            throw:{error, {held, {no_answer, _}, Output}} -> {failed, {held, {no_answer, fetch, Wait, kymo_attach_outside:look(Pid)}, Node, Output}};
            throw:{error, {held, Why, Output}} -> {failed, {held, Why, Node, Output}};
            throw:{error, disconnected} -> {failed, disconnected(Options)};
            throw:{error, Why} -> {failed, Why}
        end,
    Main ! {session, Node, Result},
    ok.

%% Loading a module with a library needs a process of the node.
not_loaded(#{node := Node, wait := Wait, os_pid := Pid}) ->
    try kymo_attach_link:why_unloading(Node) of
        suspended -> {purger_suspended, Wait};
        slow -> {no_answer, load, Wait, kymo_attach_outside:look(Pid)}
    catch
        throw:{error, aborted} -> aborted
    end.

%% What listens on the port that the user has named may be something else.
at_port(Why, #{port := Port}, Pid) when Port =/= none, element(1, Why) =:= refused; Port =/= none, element(2, Why) =:= connect ->
    Ports = [P || Pid =/= none, P <- kymo_attach_ports:of_process(Pid, kymo_attach_ports:listening())],
    case {Ports, lists:member(Port, Ports)} of
        {[], false} when element(1, Why) =:= no_answer -> {at_port, Port, Why};
        {[_ | _], false} -> {other_port, Port, lists:usort(Ports)};
        _ -> Why
    end;
at_port(Why, _, _) ->
    Why.

%% The node may be there, without the processes of kymo.
disconnected(#{node := Node, client := Client, spec := Spec}) ->
    Patterns = get({?MODULE, patterns}),
    Cleared =
        case Patterns of
            own -> Spec;
            _ -> none
        end,
    try kymo_attach_link:sweep(Node, Client, Cleared, {each, ?SWEEP_WAIT}) of
        lost -> {disconnected, get({?MODULE, dir})};
        {error, _} -> disconnected_again;
        _ when Patterns =:= shared -> {disconnected_shared, maps:get(functions, Spec)};
        _ -> disconnected_removed
    catch
        throw:{error, aborted} -> aborted
    end.

%% Whose patterns the functions of the specification have. `none': they are in a session, which ends with the
%% processes of the recorder. `shared': those that the recorder has left out are those of another tracer.
patterns(Release, _, _) when Release >= 27 -> none;
patterns(_, #{functions := [_ | _]}, Skipped) ->
    case lists:all(fun(One) -> is_pid(One) orelse is_port(One) end, Skipped) of
        true -> own;
        false -> shared
    end;
patterns(_, _, ['receive']) -> none;
patterns(_, _, _) -> own.

%% Names what is being done, for the progress and for the error if there is no answer.
step(Main, Node, Step, Fun) ->
    tell(Main, Node, {step, Step}),
    try
        Fun()
    catch
        throw:{error, {no_answer, What}} when What =/= epmd -> throw({error, {no_answer, Step}})
    end.

until(#{until := Until}) -> {until, Until}.

connected(Main, #{node := Node, client := Client} = Options) ->
    Looks = looks(Main, Options),
    Release = step(Main, Node, connect, fun() -> value(kymo_attach_link:connect(Node, Client, until(Options))) end),
    true = exit(Looks, kill),
    tell(Main, Node, {connected, Release}),
    value(kymo_attach_answer:release(Release)).

%% Says once that the node is too busy, if connecting takes long and this is seen.
looks(Main, #{node := Node, os_pid := Pid}) ->
    Session = self(),
    spawn(fun() -> look(Main, Node, Pid, monitor(process, Session)) end).

look(Main, Node, Pid, Monitor) ->
    receive
        {'DOWN', Monitor, process, _, _} -> ok
    after ?LONG_CONNECT ->
        Seen = kymo_attach_outside:look(Pid),
        case kymo_attach_outside:is_busy(Seen) of
            true -> tell(Main, Node, {connecting, Seen});
            false -> look(Main, Node, Pid, Monitor)
        end
    end.

reopened(Main, #{node := Node, wait := Wait} = Options) ->
    _ = connected(Main, Options),
    Link = step(Main, Node, ask, fun() -> value(kymo_attach_link:reopen(Node, until(Options))) end),
    kymo_attach_link:waiting(Link, {each, Wait}).

started(Main, #{node := Node, priv := Priv, folders := Folders, start := Start, spec := Spec, wait := Wait} = Options) ->
    Release = connected(Main, Options),
    Link = step(Main, Node, load, fun() ->
        ok(kymo_attach_room:check(Node, until(Options))),
        ok(kymo_attach_machine:check(Node, Priv, until(Options))),
        case kymo_attach_link:open(Node, #{token => token(), folders => Folders}, until(Options)) of
            {error, busy} -> throw({error, kymo_attach_link:why_busy(Node, {each, min(Wait, ?DROP_WAIT)})});
            Opened -> value(Opened)
        end
    end),
    Limited =
        case Options of
            #{for := infinity} -> Start;
            #{for := For} -> limited(Start, For + ?GRACE)
        end,
    try
        step(Main, Node, load, fun() -> ok(kymo_attach_link:load(Link, Priv)) end),
        %% Not known before the answer.
        _ = put({?MODULE, patterns}, patterns(Release, Spec, [unknown])),
        Started = step(Main, Node, start, fun() -> value(kymo_attach_link:call(Link, {start, Limited, Spec})) end),
        tell(Main, Node, {started, Started}),
        _ = put({?MODULE, patterns}, patterns(Release, Spec, maps:get(skipped, Started))),
        _ = put({?MODULE, dir}, maps:get(dir, Started)),
        {kymo_attach_link:waiting(Link, {each, Wait}), maps:get(dir, Started)}
    catch
        throw:{error, Why} = Error when Why =/= aborted, element(1, Why) =/= no_answer ->
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
watching(#{priv := Priv} = Options, #work{dir = Dir, plan = Plan} = Work) ->
    Work#work{watch = kymo_attach_watch:start(Plan, Priv, seen_from_here(Dir, Options))}.

%% Waits for the end of the recording.
recorded(Work, #{for := For}) ->
    For =:= infinity orelse erlang:send_after(For, self(), stop),
    progress(Work).

%% Goes on without an answer: what is recorded meanwhile is not lost.
progress(#work{main = Main, node = Node, link = Link} = Work) ->
    case kymo_attach_link:call(kymo_attach_link:waiting(Link, {each, ?PROGRESS_WAIT}), progress) of
        {ok, #{state := closed} = Info} ->
            tell(Main, Node, {progress, Info}),
            ended(Work);
        {ok, Info} ->
            tell(Main, Node, {progress, Info}),
            wait(soon(), Work#work{silent = false});
        {error, {no_answer, _}} ->
            Work#work.silent orelse tell(Main, Node, {silent, kymo_attach_outside:look(Work#work.os_pid)}),
            wait(soon(), Work#work{silent = true});
        {error, _} = Error ->
            throw(Error)
    end.

soon() -> erlang:monotonic_time(millisecond) + ?PROGRESS_INTERVAL.

ended(#work{main = Main, node = Node, watch = Watch, left_out = LeftOut}) ->
    ok = kymo_attach_watch:stop(Watch),
    LeftOut > 0 andalso tell(Main, Node, {left_out, LeftOut}),
    ok.

%% What the user asks for, and what ends the recording, comes before firings, which may come
%% faster than snapshots are copied.
wait(Until, #work{link = {_, First, Monitor, _}} = Work) ->
    receive
        stop -> ended(Work);
        snapshot when Work#work.asked =/= none -> wait(Until, asked(Work));
        abort -> throw({error, aborted});
        {'DOWN', Monitor, process, First, _} -> throw({error, disconnected})
    after 0 ->
        case erlang:monotonic_time(millisecond) >= Until of
            true -> progress(Work);
            false -> wait_for_any(Until, Work)
        end
    end.

wait_for_any(Until, #work{link = {_, First, Monitor, _}, watch = Watch} = Work) ->
    receive
        stop -> ended(Work);
        abort -> throw({error, aborted});
        snapshot when Work#work.asked =/= none -> wait(Until, asked(Work));
        {'DOWN', Monitor, process, First, _} -> throw({error, disconnected});
        {Watch, {data, {_, Line}}} -> wait(Until, judged(kymo_attach_watch:judged(Line), Work));
        %% The command has reached the end of the recording.
        {Watch, {exit_status, 0}} -> wait(Until, Work#work{watch = none});
        {Watch, {exit_status, Status}} -> wait(Until, warned({watch_ended, Status}, Work#work{watch = none}))
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
    To = kymo_trigger_folder:new(Folder, erlang:system_time(millisecond), Kind),
    case taken(Link, Folder, To) of
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

taken(Link, Folder, To) ->
    case kymo_attach_folder:make(Folder) of
        ok -> kymo_attach_snapshot:take(Link, To);
        {error, _} = Error -> Error
    end.

acted(#work{main = Main, node = Node, acted = N, plan = #{max := Max}} = Work) ->
    N + 1 =:= Max andalso tell(Main, Node, {limited, Max}),
    Work#work{acted = N + 1}.

%% Whether the snapshot has the whole cause; see kymo_trigger_server:is_held/2.
is_held(Link, #{<<"start_unix_ns">> := Start}) ->
    #{complete_from := From} = value(kymo_attach_link:call(Link, info)),
    Start >= From.

%% Connects again if the connection is lost meanwhile: the node holds the recording.
stopped(Main, {Node, _, _, _} = Link, Dir, Output, Options) ->
    step(Main, Node, stop, fun() ->
        case kymo_attach_link:call(Link, stop) of
            {ok, Stopped} ->
                {Stopped, Link};
            {error, disconnected} ->
                case again(Main, disconnected, Options) of
                    {ok, Again} -> {value(kymo_attach_link:call(Again, stop)), Again};
                    {error, Why} -> not_fetched(Why, Link, Dir, Output)
                end;
            {error, _} = Error ->
                throw(Error)
        end
    end).

%% Also removes everything from the node.
fetched(Main, Link, Dir, Output, Stopped, #{node := Node} = Options) ->
    tell(Main, Node, {fetching, Stopped}),
    case kymo_attach_copy:copy(Link, Dir, Output, fun(Why) -> again(Main, Why, Options) end) of
        {{ok, Bytes}, Left} ->
            finish(Main, Left),
            Stopped#{bytes => Bytes};
        {{error, Why}, Left} ->
            not_fetched(Why, Left, Dir, Output)
    end.

again(Main, Why, #{node := Node, client := Client, os_pid := Pid, wait := Wait}) ->
    tell(Main, Node, interrupted),
    try kymo_attach_outside:look(Pid) of
        {gone, _} ->
            {error, Why};
        _ ->
            case kymo_attach_link:again(Node, Client, {until, erlang:monotonic_time(millisecond) + Wait}) of
                {ok, Link} ->
                    _ = put({?MODULE, link}, Link),
                    {ok, kymo_attach_link:waiting(Link, {each, Wait})};
                {error, not_attached} -> {error, not_attached};
                {error, _} -> {error, Why}
            end
    catch
        throw:{error, aborted} -> {error, aborted}
    end.

-spec not_fetched(term(), kymo_attach_link:t(), Dir :: binary(), file:filename_all()) -> no_return().
%% The node keeps the recording, and the next command goes on with the copy.
not_fetched(disconnected, _, Dir, Output) ->
    throw({error, {held, {disconnected, Dir}, Output}});
not_fetched(Why, _, _, Output) when Why =:= aborted; element(1, Why) =:= no_answer ->
    throw({error, {held, Why, Output}});
%% Meanwhile something has ended the processes of kymo in the node.
not_fetched(not_attached, {Node, _, _, _}, Dir, Output) ->
    kymo_attach_copy:remove(Node, Dir, Output),
    throw({error, disconnected});
%% Somebody has removed the folder in the node: trying again is in vain.
not_fetched({fetch, enoent} = Why, {Node, _, _, _} = Link, Dir, Output) ->
    _ = kymo_attach_link:finish(Link),
    kymo_attach_copy:remove(Node, Dir, Output),
    throw({error, Why});
%% The copy failed, and the connection is good: the recording stays in the node.
not_fetched(Why, {Node, _, _, _} = Link, Dir, Output) ->
    ok(kymo_attach_link:call(Link, keep)),
    %% What is no part of a copy of this recording is not touched.
    element(1, Why) =:= not_empty orelse kymo_attach_copy:remove(Node, Dir, Output),
    throw({error, {stays, Why, Node, Output}}).

tell(Main, Node, What) ->
    Main ! {session, Node, What},
    ok.

value({ok, Value}) -> Value;
value({error, _} = Error) -> throw(Error).

ok(ok) -> ok;
ok({error, _} = Error) -> throw(Error).
