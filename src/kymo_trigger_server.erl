%% SPDX-License-Identifier: Apache-2.0
%% @private The triggers of one recorder: runs the command `kymo watch', which evaluates the
%% recording outside the node, and carries out the actions of firings. The process belongs to
%% the server of the recorder, which restarts it if it is killed. The data for {@link info/1} is
%% in an ETS table of the server, so it survives this process.
-module(kymo_trigger_server).

-behaviour(gen_server).

-export([new/2, watches/2, down/2, again/1, info/1, stop/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).
-export_type([handle/0]).

-opaque handle() :: none | #{plan := kymo_trigger:plan(), about := about(), process := none | {pid(), reference()}}.

-type about() :: #{server := pid(), state := reference(), dir := binary(), table := ets:table(), start := integer()}.

%% The delay in ms before the command is restarted. It is doubled each time, up to the maximum,
%% and reset once the command has run for the maximum.
-define(FIRST_PAUSE, 1000).
-define(LONGEST_PAUSE, 60000).

%% The number of firings kept for info, and to detect repeated ones after a restart of the
%% command.
-define(REMEMBERED, 100).
-define(SHOWN, 20).

%% No snapshot is taken while more messages than this wait: a snapshot takes longer than it takes
%% for another firing to arrive, and the command has no flow control.
-define(MOST_WAITING, 100).

%% The keys of a firing that info returns.
-define(KEYS, [
    trigger, kind, value, limit, open, start_ns, end_ns, process, process_pid, server, server_pid, function, reason,
    fired_ms, held
]).

-record(triggers, {
    plan :: kymo_trigger:plan(),
    about :: about(),
    port = none :: none | port(),
    since = 0 :: integer(),
    pause = ?FIRST_PAUSE :: pos_integer(),
    quiet = #{} :: #{binary() => integer()},
    seen = [] :: [term()],
    info :: map()
}).

%% ---- for the server of the recorder ------------------------------------------

%% @doc Starts the triggers for the calling process, the server, after it has opened its recorder.
-spec new(kymo_trigger:plan() | none, reference()) -> handle().
new(none, _) ->
    none;
new(Plan, State) ->
    #{dir := Dir, complete_from := Start} = kymo_tracer:info(State),
    Table = ets:new(?MODULE, [public]),
    About = #{server => self(), state => State, dir => filename:absname(Dir), table => Table, start => Start},
    Folder =
        case Plan of
            #{folder := default} -> <<(maps:get(dir, About))/binary, ".triggered">>;
            #{folder := Given} -> native(filename:absname(Given))
        end,
    true = ets:insert(Table, {info, first_info(Plan, Folder)}),
    started(#{plan => Plan#{folder := Folder}, about => About, process => none}).

%% Converts a name to a binary, like that of `dir'.
native(Name) when is_list(Name) -> unicode:characters_to_binary(Name, unicode, file:native_name_encoding());
native(Name) -> Name.

started(#{plan := Plan, about := About} = Handle) ->
    %% Linked, so that it ends with the server even if somebody has deleted this module.
    {ok, Pid} = gen_server:start_link(?MODULE, {Plan, About}, []),
    Handle#{process := {Pid, monitor(process, Pid)}}.

first_info(#{action := Action} = Plan, Folder) ->
    #{
        watcher =>
            case kymo_trigger:watched(Plan) of
                [] -> none;
                _ -> starting
            end,
        watcher_starts => 0,
        watcher_error => none,
        judged_until => 0,
        missed => 0,
        action => Action,
        folder => Folder,
        fired => 0,
        suppressed => 0,
        suppressed_by_watcher => 0,
        acted => 0,
        removed => 0,
        error => none,
        restarts => 0,
        firings => []
    }.

%% @doc Whether the command evaluates a trigger whose text begins like this.
-spec watches(binary(), handle()) -> boolean().
watches(_, none) -> false;
watches(Kind, #{plan := Plan}) -> lists:any(fun(T) -> string:prefix(T, Kind) =/= nomatch end, kymo_trigger:watched(Plan)).

%% @doc Handles a message to the server. If it reports that the triggers' process was killed
%% before the recorder has ended, the message `triggers' follows after a delay.
-spec down(term(), handle()) -> handle().
down({'DOWN', Monitor, process, _, _}, #{process := {_, Monitor}, about := #{table := Table}} = Handle) ->
    [{info, #{restarts := N} = Info}] = ets:lookup(Table, info),
    true = ets:insert(Table, {info, Info#{restarts := N + 1}}),
    _ = erlang:send_after(?FIRST_PAUSE, self(), triggers),
    Handle#{process := none};
down(_, Handle) ->
    Handle.

%% @doc Restarts the process after its death.
-spec again(handle()) -> handle().
again(#{process := none} = Handle) -> started(Handle);
again(Handle) -> Handle.

%% @doc The value of `triggers' in kymo:info/1.
-spec info(handle()) -> none | map().
info(none) ->
    none;
info(#{about := #{table := Table}}) ->
    [{info, #{suppressed := Here, suppressed_by_watcher := There, firings := Firings} = Info}] = ets:lookup(Table, info),
    (maps:remove(suppressed_by_watcher, Info))#{
        suppressed := Here + There, firings := lists:sublist(Firings, ?SHOWN)
    }.

%% @doc Stops the triggers. The command ends when its standard input is closed.
-spec stop(handle()) -> handle().
stop(#{process := {Pid, Monitor}} = Handle) ->
    exit(Pid, kill),
    receive {'DOWN', Monitor, process, _, _} -> ok end,
    close_watcher(Handle),
    Handle#{process := none};
stop(Handle) ->
    Handle.

%% Updates the state in info. The port itself is closed when the process ends.
close_watcher(#{about := #{table := Table}}) ->
    [{info, Info}] = ets:lookup(Table, info),
    case Info of
        #{watcher := none} -> ok;
        _ -> ets:insert(Table, {info, Info#{watcher := stopped}}), ok
    end.

%% ---- the process --------------------------------------------------------------

%% @private
-spec init({kymo_trigger:plan(), about()}) -> {ok, #triggers{}}.
init({Plan, #{server := Server, state := State, table := Table} = About}) ->
    process_flag(sensitive, true),
    ok = kymo_names:define_own(State, {?MODULE, init, 1}),
    _ = monitor(process, Server),
    [{info, Info}] = ets:lookup(Table, info),
    _ = [kymo_trigger_look:start_link(Text, Looked) || {Text, Looked} <- kymo_trigger:looked(Plan)],
    {ok, watching(#triggers{plan = Plan, about = About, info = Info})}.

%% @private
-spec handle_call(term(), gen_server:from(), #triggers{}) -> {noreply, #triggers{}}.
handle_call(_, _, S) -> {noreply, S}.

%% @private
-spec handle_cast(term(), #triggers{}) -> {noreply, #triggers{}}.
handle_cast(_, S) -> {noreply, S}.

%% @private
-spec handle_info(term(), #triggers{}) -> {noreply, #triggers{}} | {stop, normal, #triggers{}}.
handle_info({Port, {data, {eol, Line}}}, #triggers{port = Port} = S) ->
    {noreply, line(kymo_trigger_json:decode(Line), Line, S)};
handle_info({Port, {exit_status, Status}}, #triggers{port = Port} = S) ->
    {noreply, ended(Status, S#triggers{port = none})};
handle_info({looked, Text, Firing}, S) ->
    {noreply, looked(Text, Firing, S)};
handle_info(watch, S) ->
    {noreply, watching(S)};
handle_info({'DOWN', _, process, Server, _}, #triggers{about = #{server := Server}} = S) ->
    {stop, normal, S};
handle_info(_, S) ->
    {noreply, S}.

noted(#triggers{about = #{table := Table}} = S, Changes) ->
    Info = maps:merge(S#triggers.info, Changes),
    true = ets:insert(Table, {info, Info}),
    S#triggers{info = Info}.

add(Key, N, #triggers{info = Info} = S) -> noted(S, #{Key => maps:get(Key, Info) + N}).

%% ---- the command --------------------------------------------------------------

watching(#triggers{plan = Plan} = S) ->
    case kymo_trigger:watched(Plan) of
        [] -> S;
        Watched -> watching(Watched, S)
    end.

watching(Watched, #triggers{plan = #{cooldown := Cooldown}, about = #{dir := Dir}, info = Info} = S) ->
    #{judged_until := Until, watcher_starts := Starts} = Info,
    Args =
        ["watch", "--piped", "--quiet", "--from", micros(Until), "--cooldown", micros(Cooldown * 1000000)] ++
            lists:append([["--trigger", Text] || Text <- Watched]) ++ ["--", Dir],
    try
        open_port(
            {spawn_executable, kymo:cli_path()},
            [{args, Args}, {line, 65536}, exit_status, stderr_to_stdout, binary, hide]
        )
    of
        Port ->
            noted(S#triggers{port = Port, since = now_ms()}, #{watcher => running, watcher_starts => Starts + 1})
    catch
        error:Reason -> again_later(text("~0tp", [Reason]), S)
    end.

micros(Ns) -> integer_to_list(Ns div 1000) ++ "us".

now_ms() -> erlang:monotonic_time(millisecond).

%% The command exits with status 0 at the end of the recording, which ends this process as well.
%% Any other exit is an error.
ended(Status, #triggers{info = #{watcher_error := Error}} = S) ->
    again_later(
        case Status of
            _ when Error =/= none -> Error;
            _ when Status >= 128 -> text("ended by signal ~b", [Status - 128]);
            _ -> text("ended with status ~b", [Status])
        end,
        S
    ).

again_later(Error, #triggers{pause = Pause, since = Since, port = none} = S) ->
    Now =
        case now_ms() - Since >= ?LONGEST_PAUSE of
            true -> ?FIRST_PAUSE;
            false -> Pause
        end,
    _ = erlang:send_after(Now, self(), watch),
    noted(S#triggers{pause = min(2 * Now, ?LONGEST_PAUSE)}, #{watcher => waiting, watcher_error => Error}).

line({ok, #{<<"seen_ns">> := Seen, <<"suppressed">> := Suppressed}}, _, #triggers{info = Info} = S) ->
    noted(S, #{
        judged_until => Seen,
        watcher_error => none,
        suppressed_by_watcher => max(Suppressed, maps:get(suppressed_by_watcher, Info))
    });
line({ok, #{<<"missed">> := true}}, _, S) ->
    add(missed, 1, S);
line({ok, #{<<"kind">> := _, <<"number">> := Number, <<"start_ns">> := Start, <<"process_pid">> := Pid} = Firing}, _, S) ->
    Key = {Number, Start, Pid},
    case lists:member(Key, S#triggers.seen) of
        true -> S;
        false -> fired(Firing, S#triggers{seen = lists:sublist([Key | S#triggers.seen], ?REMEMBERED)})
    end;
line(_, Line, S) ->
    noted(S, #{watcher_error => Line}).

%% ---- checks in the node ---------------------------------------------------------

looked(Text, #{<<"kind">> := failed, <<"reason">> := Why}, S) ->
    noted(S, #{error => text("~ts: ~ts", [Text, Why])});
looked(Text, #{ns := Ago} = Firing, #triggers{plan = #{cooldown := Cooldown}, about = #{start := Start}} = S) ->
    Now = now_ms(),
    case S#triggers.quiet of
        #{Text := Until} when Now < Until ->
            add(suppressed, 1, S);
        Quiet ->
            End = erlang:system_time(nanosecond),
            Times = #{
                <<"trigger">> => Text,
                <<"open">> => true,
                <<"start_ns">> => End - Ago - Start,
                <<"end_ns">> => End - Start,
                <<"start_unix_ns">> => End - Ago
            },
            fired(maps:merge(maps:remove(ns, Firing), Times), S#triggers{quiet = Quiet#{Text => Now + Cooldown}})
    end.

%% ---- firings ----------------------------------------------------------------------

fired(Firing, #triggers{plan = #{action := Action, max := Max}, info = #{acted := Acted}} = S) ->
    Times = Firing#{<<"fired_ms">> => erlang:system_time(millisecond)},
    case Action of
        note -> remembered(Times, #{}, S);
        _ when Acted >= Max -> remembered(Times, #{error => max_reached}, S);
        snapshot -> snapshot_in_time(process_info(self(), message_queue_len), Times, S);
        stop -> stop_recorder(Times, add(acted, 1, S))
    end.

snapshot_in_time({_, Waiting}, _, S) when Waiting > ?MOST_WAITING -> add(suppressed, 1, S);
snapshot_in_time(_, Firing, S) -> snapshot(Firing, add(acted, 1, S)).

snapshot(Firing, #triggers{plan = #{folder := Folder} = Plan, about = #{server := Server}} = S) ->
    #{<<"kind">> := Kind, <<"fired_ms">> := Ms} = Firing,
    Dir = kymo_trigger_folder:new(Folder, Ms, Kind),
    case kymo_folder:with_parent(Dir, fun() -> taken(kymo_server:call(Server, {snapshot, Dir})) end) of
        {ok, _} ->
            Held = is_held(Firing, S),
            Whole = Firing#{<<"held">> => Held},
            case kymo_trigger_folder:write(Dir, Whole) of
                ok ->
                    Removed = kymo_trigger_folder:remove_old(Folder, Plan),
                    remembered(Whole, #{snapshot => Dir}, add(removed, Removed, S));
                {error, Reason} ->
                    remembered(Whole, #{snapshot => Dir, error => Reason}, noted(S, #{error => Reason}))
            end;
        {error, Reason} ->
            remembered(Firing, #{error => Reason}, noted(S, #{error => Reason}))
    end.

taken(gone) -> {error, already_stopped};
taken(Answer) -> Answer.

%% Whether the snapshot has the whole cause. Only events that were overwritten before the
%% snapshot was complete can be missing in it.
is_held(#{<<"start_unix_ns">> := Start}, #triggers{about = #{state := State}}) ->
    #{complete_from := From} = kymo_tracer:info(State),
    Start >= From.

%% Everything else is done first, because the server ends this process when it stops.
stop_recorder(Firing, #triggers{about = #{server := Server, dir := Dir}} = S) ->
    Whole = Firing#{<<"held">> => is_held(Firing, S)},
    Written = kymo_trigger_folder:write(Dir, Whole),
    More = maps:from_list([{error, Reason} || {error, Reason} <- [Written]]),
    Noted = remembered(Whole, More, S),
    _ = kymo_server:call(Server, stop),
    Noted.

%% The newest first.
remembered(Firing, More, #triggers{info = #{firings := Firings, fired := Fired}} = S) ->
    Known = maps:from_list([{K, V} || K <- ?KEYS, {ok, V} <- [maps:find(atom_to_binary(K, utf8), Firing)], V =/= null]),
    noted(S, #{fired => Fired + 1, firings => lists:sublist([maps:merge(Known, More) | Firings], ?REMEMBERED)}).

text(Format, Args) -> unicode:characters_to_binary(io_lib:format(Format, Args)).
