%% SPDX-License-Identifier: Apache-2.0
%% @doc A flight recorder for the BEAM.
%%
%% A recorder writes the trace events of this node to memory-mapped files in a folder.
%% Their size is fixed when the recorder starts, and they survive the death of the node.
%% Events that do not fit are counted. The command `kymo' ({@link cli_path/0}) reads the
%% folder, also during the recording.
%%
%% ```
%% {ok, R} = kymo:start(#{dir => "/tmp/rec"}),
%% {ok, _} = kymo:trace(R, #{functions => ["my_app_*:_/_"], events => [messages]}),
%% ...
%% {ok, _} = kymo:snapshot(R, "/tmp/what-just-happened"),
%% {ok, Info} = kymo:stop(R).
%% '''
%%
%% {@link record/3} records one function call. {@link calls/1}, {@link slow/2}, {@link
%% why/0} and {@link check/0} answer one question in a shell, and end by themselves.
%%
%% A recorder ends when {@link stop/1} is called, its owner dies, a limit is reached, or
%% the node halts. It then removes the trace flags and patterns that it has set, and no
%% others, even if its process was killed.
%%
%% Events have the semantics of the runtime's tracing: see `trace:process/4' and
%% `trace:function/4' (OTP 27 and later), or `erlang:trace/3' and `erlang:trace_pattern/3',
%% in the documentation of Erlang/OTP. If the runtime has trace sessions, each recorder
%% uses its own, and does not interfere with other tracers. On older runtimes a process
%% has one tracer and a function one match specification. kymo does not take them from
%% another tracer, and reports this: see {@link trace/2}.
%%
%% Functions with the argument `Recorder' take the value that {@link start/1} returned, or
%% the recorder's name. Any other value raises `badarg'.
-module(kymo).

-export([
    start/0,
    start/1,
    stop/1,
    pause/1,
    resume/1,
    info/1,
    list/0,
    snapshot/2,
    trace/2,
    untrace/1,
    untrace/2,
    tracer/1,
    record/3,
    calls/1,
    calls/2,
    slow/2,
    slow/3,
    why/0,
    why/1,
    check/0,
    check/1,
    cli_path/0,
    modules/0,
    format_error/1,
    format_error/2
]).
-export_type([
    recorder/0,
    options/0,
    option_error/0,
    trace_spec/0,
    event/0,
    trace_result/0,
    trace_error/0,
    unsafe/0,
    info/0,
    listed/0,
    tracer/0,
    asked/0,
    answer/0
]).

-type recorder() :: {kymo_recorder, pid(), reference(), Dir :: binary()} | atom().
%% The value that {@link start/1} returned, or the name given to it. `Dir' is the folder of the
%% recording. Holding it keeps no memory of the recorder allocated. Some functions also accept a
%% recorder that has ended: a node remembers the last 16.

-type tracer() :: {kymo_tracer, reference()}.
%% A tracer module and its state, as the runtime takes them: see {@link tracer/1}.

-type options() :: #{
    dir => file:name_all(),
    owner => pid() | none,
    name => atom(),
    names => non_neg_integer(),
    tracing => auto | kymo_tracing:mode(),
    budget => kymo_budget:option(),
    triggers => [kymo_trigger:trigger()],
    on_trigger => kymo_trigger:on_trigger(),
    counters => kymo_counters:option(),
    system_monitor => kymo_monitor:option(),
    atom() => term()
}.
%% <ul>
%% <li>`dir': the folder of the recording. Default: a new folder below `$TMPDIR' or
%%   `/tmp', which {@link info/1} returns. It must not contain a recording. If it does not
%%   exist, it is created with mode 0700; so is its parent, but no folder above that.</li>
%% <li>`owner': a process; the recorder ends when it does. Default: the caller of start/1.
%%   `none': no process. Use `none' in a shell and through `rpc': the Erlang shell replaces
%%   its process after each exception, and that of a remote call is short-lived.</li>
%% <li>`name': a name for the recorder, which the functions of this module take. It is not
%%   registered as the name of a process.</li>
%% <li>`names': the maximum number of processes whose registered names and initial calls
%%   are written into the recording. They are looked up after {@link trace/2}, and during
%%   {@link snapshot/2} and {@link stop/1}. Default: 10000; 0 disables this.</li>
%% <li>`tracing': `session' uses a trace session of its own, `global' the tracing that all
%%   tracers of the node share. Default: `auto', which is `session' if the runtime has
%%   sessions.</li>
%% <li>`budget': a bound on the cost of tracing. `#{cpu => Percent}': percent of the time of
%%   each scheduler thread; `#{events => N}': events per second of the node. If it is
%%   exceeded, the recorder sheds functions, the most frequently called first, and then
%%   kinds of events. It records them again when the load allows it. Default: `none'. {@link
%%   info/1} and the recording say what was shed and when; everything else is recorded
%%   exactly.</li>
%% <li>`triggers': conditions on which the recorder takes a snapshot, such as `[{request, '_',
%%   500}, {exit, '_'}]'. `on_trigger': the folder, rate and number of these snapshots. See
%%   {@link kymo_trigger}. Default: no triggers.</li>
%% <li>`counters': records the counters of the node at this interval in milliseconds, at
%%   least 10, usually 100: run queues, utilisation of schedulers, memory by kind, numbers of
%%   processes, ports, atoms and ETS tables, reductions, context switches, garbage collections,
%%   bytes read and written by ports, and processor time. Default: `none'. The cost does not
%%   depend on the number of processes. During the recording, `scheduler_wall_time' is on, and
%%   the second number of `erlang:statistics(reductions)' is relative to the last sample.</li>
%% <li>`system_monitor': records what `erlang:system_monitor/2' reports. A list of its options,
%%   such as `[busy_port, {long_gc, 50}]', or `default': `busy_port', `busy_dist_port',
%%   `{long_gc, 100}', `{long_schedule, 100}', `{large_heap, 16777216}', and where the runtime has
%%   it (OTP 27 and later) `{long_message_queue, {1000, 10000}}'. Default: `none'. Patched, from OTP 28
%%   on it uses a trace session of its own. Older runtimes have one setting for the node: one
%%   that another process has made is kept, and {@link info/1} and the recording say so.</li>
%% <li>Further options: see {@link kymo_tracer:options()}. The most useful ones are `policy'
%%   (`overwrite', the default, keeps the newest events; `discard' writes everything to
%%   files), `memory' (bytes for all threads together, default 48 MiB), `calls', `returns',
%%   `messages', `terms' and `gc' (the contents of events), `content_bytes' (the maximum
%%   size of one term), `sample', and `limit'.</li>
%% </ul>

-type option_error() ::
    {bad_option, Key :: atom(), Value :: term()}
    | {bad_option, memory, Value :: term(), {at_least, Bytes :: pos_integer()}}
    | {enospc, Needed :: pos_integer(), Available :: non_neg_integer()}
    | {unknown_option, Key :: term()}
    | {missing_option, Key :: atom()}
    | {already_started, Name :: atom()}
    | {missing_folder, file:filename_all()}
    | {no_library, kymo_tracer:no_library()}
    | {no_module, module()}
    | kymo_room:error()
    | {no_command, file:filename_all(), file:posix()}
    | unsafe()
    | too_many_recorders
    | file:posix().
%% <ul>
%% <li>`bad_option': a value that is not allowed; for `memory' with the minimum for this
%%   node and the other options, in bytes.</li>
%% <li>`enospc': the file system of `dir' has too little space, or, if it is a tmpfs, the machine or the memory
%% cgroup of the node has less than twice as much memory available; both numbers are bytes.</li>
%% <li>`unknown_option': no option has this name. It is reported before other errors.</li>
%% <li>`missing_option': this option is required.</li>
%% <li>`already_started': a running recorder has this name.</li>
%% <li>`missing_folder': the first folder in the path of `dir' that does not exist.</li>
%% <li>`no_library': the C library of the recorder could not be loaded, see {@link
%%   kymo_tracer:no_library()}.</li>
%% <li>`no_module': a module of kymo is neither loaded nor in the code path.</li>
%% <li>`no_room': the node has too few free atoms, processes or ports to load kymo.</li>
%% <li>`no_command': `triggers' need the command `kymo', which is not at this path.</li>
%% <li>`unsafe': a trigger for mailboxes, or `tracing' `global', on a runtime that can lose the wake-up of a
%%   process to which they send signals.</li>
%% <li>`too_many_recorders': 64 recorders of this node are open.</li>
%% <li>POSIX codes: the folder or its files could not be created; `eexist': the folder
%%   contains a recording.</li>
%% </ul>
%% {@link format_error/1} returns a message with the remedy.

-type unsafe() :: {unsafe, kymo_faults:measure(), Runtime :: binary(), Fixed :: binary() | none}.
%% This runtime has a fault that what was asked for can trigger; the release that has the fix, if one is
%% known. See `doc/runtime-faults.md'.

-type event() ::
    calls
    | return_to
    | messages
    | send
    | 'receive'
    | procs
    | ports
    | running
    | running_procs
    | running_ports
    | exiting
    | garbage_collection
    | set_on_spawn
    | set_on_first_spawn
    | set_on_link
    | set_on_first_link.
%% Trace flags of the runtime, where `calls' stands for `call', `messages' for `send' and
%% `receive', and `running' for `running_procs' and `running_ports'.

-type trace_spec() :: #{
    processes => none | all | existing | new | [pid() | atom()],
    ports => none | all | existing | new | [port() | atom()],
    events => [event()],
    functions => kymo_pattern:pattern() | [kymo_pattern:pattern()],
    slow => #{kymo_pattern:pattern() => Microseconds :: non_neg_integer()},
    scope => local | global,
    returns => boolean(),
    garbage_collection => auto | always,
    received_messages => auto | always,
    senders => boolean()
}.
%% <ul>
%% <li>`processes': the processes to trace, by pid or registered name, which may lack the prefix
%% `Elixir.'. Default: `all'.</li>
%% <li>`ports': the ports to trace. Default: `all' if `ports' or `running_ports' is among the
%%   events, else `none'.</li>
%% <li>`events': the kinds of events to record. Default: `[calls]'. Required if there are neither
%%   `functions' nor `slow'; `calls' is added if there are.</li>
%% <li>`functions': the functions whose calls are recorded, see {@link kymo_pattern}. They
%%   stay traced when their module is loaded again.</li>
%% <li>`slow': functions of which only calls that take at least this many microseconds are
%%   recorded, as events `slow' with their duration, for example `#{"gen_server:call/_" =>
%%   5000}'. A faster call costs two readings of the clock and no event. Only on a runtime that
%%   reports slow calls.</li>
%% <li>`scope': `local' (default) records all calls, `global' only calls of exported
%%   functions through the module name.</li>
%% <li>`returns': `true' also records how the calls of these functions end. Default: `false'.
%%   A call whose return is traced is not a tail call: the stack of a process that loops
%%   through such a function grows until memory is exhausted.</li>
%% <li>`garbage_collection': `auto' (default) leaves out the events `garbage_collection' on runtimes that
%%   crash if another tool traces them, too: OTP 27.0 and later that are not patched. `always' records
%%   them there all the same. The recording says what was left out.</li>
%% <li>`received_messages': `auto' (default) leaves out the event `receive' on runtimes where a process that
%%   hibernates with a large heap may then not be woken up by a message: OTP 27.0 to 27.3.4.7 and 28.0 to
%%   28.3.1 that are not patched. Messages between the processes of the node are known from their sends there.
%%   `always' records it all the same.</li>
%% <li>`senders': `true' (default) records the sender in receive events. Timelines need it
%%   for their arrows, unless the runtime numbers messages (`exact' of `kymo info').</li>
%% </ul>

-type trace_result() :: #{
    processes := non_neg_integer(),
    ports := non_neg_integer(),
    functions := non_neg_integer(),
    skipped := [pid() | port() | mfa() | 'receive']
}.
%% The numbers of processes, ports and functions that were set, as the runtime returned
%% them. `skipped' lists what another tracer holds; it is empty if the recorder has a
%% session.

-type trace_error() ::
    {bad_option, Key :: atom(), Value :: term()}
    | {unknown_option, Key :: term()}
    | {missing_option, events}
    | kymo_pattern:error()
    | {no_process, pid() | atom()}
    | {no_port, port() | atom()}
    | {already_traced, pid() | port() | mfa() | new_processes | new_ports}
    | {calls_traced, pid()}
    | {too_many_patterns, mfa()}
    | no_slow_calls
    | unsafe()
    | ended
    | already_stopped.
%% <ul>
%% <li>`bad_option', `unknown_option': as in {@link option_error()}.</li>
%% <li>`missing_option': there are neither `events' nor `functions' nor `slow'.</li>
%% <li>`no_process', `no_port': the pid, port or registered name does not exist.</li>
%% <li>`already_traced': another tracer holds this process, port or function, or the flags
%%   for new processes or ports. Only without trace sessions.</li>
%% <li>`calls_traced': eprof profiles this process, and would end with the first call of these
%%   functions that it is sent. Only without trace sessions.</li>
%% <li>`too_many_patterns': the patterns for this function have so many different conditions
%%   that their union has more than 256 clauses.</li>
%% <li>`no_slow_calls': this runtime does not report slow calls.</li>
%% <li>`unsafe': nothing else was asked for than what the options `garbage_collection' and
%%   `received_messages' leave out, or a trigger needs collections.</li>
%% <li>`ended': the recorder has reached a limit. `already_stopped': it has ended for
%%   another reason.</li>
%% </ul>

-type info() :: #{atom() => term()}.
%% The keys of {@link kymo_tracer:info()}, and
%% <ul>
%% <li>`measures': what the recorder leaves undone because of faults of this runtime, as {@link
%%   kymo_faults:described()}.</li>
%% <li>`tracing': `none', or a map with the `mode', the number of traced `functions', and
%%   `taken', which is `none' or describes what other tools have removed: how many
%%   `functions' lost their trace patterns, how many `processes' and ports their trace
%%   flags, whether the `session' was destroyed, and `since' when the first of these was
%%   noticed (Unix time in milliseconds).</li>
%% <li>`taken': the number of patterns, flags and sessions that other tools have removed,
%%   also after the end. If it is not 0, events are missing that no other counter
%%   includes.</li>
%% <li>`budget': `none', or a map with the budget, `used' (the share of it that tracing uses
%%   now; 1.0 is all of it), `cost' (what tracing costs the busiest thread now, in percent of
%%   its time), `shed' (the `functions' and kinds of `events' that are not
%%   recorded now), and `times' (how often something was shed or recorded again).</li>
%% <li>`triggers': `none', or a map:
%%   <ul>
%%   <li>`fired': how often a trigger fired; `suppressed': how often the cool-down or too
%%     many firings at once prevented it; `acted': how many firings led to the action</li>
%%   <li>`firings': the last 20, the newest first, each with its `trigger', `kind', `value' and
%%     `limit' (nanoseconds or messages), `process', `function', `snapshot', and whether the
%%     snapshot `held' the cause</li>
%%   <li>`folder': where the snapshots are; `removed': how many were deleted there; `error':
%%     the last error</li>
%%   <li>`watcher': the state of the command that evaluates the recording: `running',
%%     `waiting' to be started again after `watcher_error', `stopped', or `none' if no
%%     trigger needs it; `watcher_starts': how often it was started; `judged_until': the time
%%     up to which it has evaluated the recording, in nanoseconds after the start; `missed':
%%     how often events were overwritten before it read them</li>
%%   </ul></li>
%% <li>`counters': `none', or a map with the `interval', how many `samples' were taken and
%%   `skipped' because the node was too busy, and the mean time of one in `microseconds'.</li>
%% <li>`system_monitor': `none', or a map: its `state' (`set'; `held' when the process `held_by'
%%   has set another one; `too_many' after more than 500 reports within a second; `off'),
%%   its `mode' (`session' or `global'), its `settings', and how many `events' were recorded.</li>
%% </ul>

-type listed() :: #{
    recorder := recorder(),
    name := atom(),
    dir := binary(),
    state := active | paused | stopping | closed,
    reason := none | stop | owner | bytes | events | duration | unload | collected,
    since := integer(),
    policy := overwrite | discard
}.
%% A recorder of this node: the value that the functions of this module take, its name (or
%% `undefined'), folder, state, the reason of its end, the time of its start (Unix time in
%% milliseconds), and its policy.

%% Raises in the function that was called, as its `badarg'.
-define(HANDLE(Recorder, Args),
    case handle(Recorder) of
        {error, Why} -> erlang:error(badarg, Args, info_of([{1, Why}]));
        Handle -> Handle
    end
).

-define(OWN_OPTIONS, [owner, name, names, tracing, budget, triggers, on_trigger, counters, system_monitor]).
-define(MAX_NAMES, 10000).

%% What a recorder needs. In embedded mode the code server loads nothing by itself.
-define(MODULES, [
    kymo_budget,
    kymo_cost,
    kymo_counters,
    kymo_faults,
    kymo_folder,
    kymo_janitor,
    kymo_match_spec,
    kymo_monitor,
    kymo_busiest,
    kymo_names,
    kymo_observed,
    kymo_options,
    kymo_pattern,
    kymo_quiet,
    kymo_recorders,
    kymo_server,
    kymo_shell,
    kymo_spec,
    kymo_taken,
    kymo_tracer,
    kymo_tracing,
    kymo_trigger,
    kymo_trigger_folder,
    kymo_trigger_json,
    kymo_trigger_look,
    kymo_trigger_server,
    kymo_wanted
]).

%% ---- a recorder -------------------------------------------------------------

%% @doc Starts a recorder.
%%
%% It records nothing until something is traced with it: with {@link trace/2}, or with the
%% runtime's own functions and {@link tracer/1}. All options have defaults: see {@link
%% options()}. {@link format_error/1} explains an error.
%%
%% The application `kymo' need not be started. If it is, it supervises the recorder.
%%
%% Raises `badarg' if the argument is not a map.
-spec start(options()) -> {ok, recorder()} | {error, option_error()}.
start(Given) when is_map(Given) ->
    try
        ok = ok(load_modules()),
        Options = with_dir(Given),
        ok = ok(kymo_options:check_names(Options, kymo_options:start())),
        Args = #{
            owner => option(owner, Options, self(), fun is_owner/1),
            name => option(name, Options, undefined, fun is_name/1),
            names => option(names, Options, ?MAX_NAMES, fun is_count/1),
            mode => safe_mode(mode(option(tracing, Options, auto, fun is_mode/1))),
            budget => option(budget, Options, none, fun kymo_budget:check/1),
            triggers => triggers(Options),
            counters => option(counters, Options, none, fun kymo_counters:check/1),
            system_monitor => option(system_monitor, Options, none, fun kymo_monitor:check/1),
            tracer_options => maps:without(?OWN_OPTIONS, Options)
        },
        _ = kymo_recorders:ensure(),
        case kymo_folder:with_parent(maps:get(dir, Options), fun() -> kymo_server:start(Args) end) of
            {ok, Entry} -> {ok, recorder(Entry)};
            {error, _} = Error -> Error
        end
    catch
        throw:{error, _} = Bad -> Bad
    end;
start(Options) ->
    erlang:error(badarg, [Options], info_of([{1, "not a map"}])).

%% @doc Starts a recorder with the defaults of all options: it keeps the newest events in
%% 48 MiB, in a new folder, which is part of the result. See {@link start/1}.
-spec start() -> {ok, recorder()} | {error, option_error()}.
start() -> start(#{}).

triggers(Options) ->
    case kymo_trigger:parse(maps:get(triggers, Options, []), maps:get(on_trigger, Options, #{})) of
        {ok, none} ->
            none;
        {ok, #{watched := Watched, looked := Looked, folder := Folder} = Plan} ->
            _ = [safe(signals, Text) || {Text, {mailbox, _, _}} <- Looked],
            ok = ok(kymo_trigger_folder:check(Folder)),
            Watched =:= [] orelse ok(has_command(cli_path())),
            case kymo_trigger:missing(Watched, Options) of
                none -> Plan;
                Missing -> throw({error, {bad_option, triggers, {missing, Missing}}})
            end;
        {error, _} = Error ->
            throw(Error)
    end.

%% It judges the recording: without it nothing would ever fire.
has_command(Command) ->
    case filelib:is_regular(Command) of
        true -> ok;
        false -> {error, {no_command, Command, enoent}}
    end.

with_dir(#{dir := _} = Options) -> Options;
with_dir(Options) -> Options#{dir => kymo_folder:unused()}.

load_modules() ->
    case [M || M <- ?MODULES, not erlang:module_loaded(M)] of
        [] -> ok;
        Missing -> load(Missing)
    end.

load(Missing) ->
    case is_loaded_now(kymo_room) andalso kymo_room:check() of
        false -> {error, {no_module, kymo_room}};
        {error, _} = Error -> Error;
        ok ->
            case [M || M <- Missing, not is_loaded_now(M)] of
                [] -> ok;
                [M | _] -> {error, {no_module, M}}
            end
    end.

%% By the code path, or from the folder that this module came from.
is_loaded_now(M) ->
    Beside = [filename:dirname(File) || File <- [code:which(?MODULE)], is_list(File)],
    Loads =
        [fun() -> code:ensure_loaded(M) end, fun() -> code:load_file(M) end] ++
            [fun() -> code:load_abs(filename:join(Dir, atom_to_list(M))) end || Dir <- Beside],
    lists:any(fun(Load) -> element(1, Load()) =:= module end, Loads).

ok(ok) -> ok;
ok({error, _} = Error) -> throw(Error).

option(Key, Options, Default, Check) ->
    Value = maps:get(Key, Options, Default),
    case Check(Value) of
        true -> Value;
        false -> throw({error, {bad_option, Key, Value}})
    end.

is_owner(none) -> true;
is_owner(Owner) -> is_pid(Owner) andalso node(Owner) =:= node().

is_name(Name) -> is_atom(Name) andalso length(atom_to_list(Name)) =< 200.

is_count(N) -> is_integer(N) andalso N >= 0.

is_mode(auto) -> true;
is_mode(Mode) -> lists:member(Mode, kymo_tracing:modes()).

mode(auto) -> hd(kymo_tracing:modes());
mode(Mode) -> Mode.

%% Without a session, the runtime is asked who traces a process, which is a signal to it.
safe_mode(session) -> session;
safe_mode(global) -> safe(signals, global).

safe(Measure, Value) ->
    case lists:member(Measure, kymo_faults:avoided()) of
        true -> throw({error, kymo_faults:unsafe(Measure)});
        false -> Value
    end.

%% @doc Ends the recording.
%%
%% Removes everything that the recorder has set, closes its files, releases its memory and
%% its name, and returns its last {@link info/1}. If the recorder has already ended at a
%% limit, its last info is returned. If it has ended for another reason, such as the death
%% of its owner, the result is `already_stopped'.
-spec stop(recorder()) -> {ok, info()} | {error, already_stopped}.
stop(Recorder) ->
    {Pid, Ref} = ?HANDLE(Recorder, [Recorder]),
    case kymo_server:call(Pid, stop) of
        gone -> stopped(kymo_recorders:find(Ref));
        Answer -> Answer
    end.

stopped({ended, #{reason := Reason} = Info}) when Reason =:= bytes; Reason =:= events; Reason =:= duration ->
    {ok, Info};
stopped(_) ->
    {error, already_stopped}.

%% @doc Pauses the recorder: nothing is recorded until {@link resume/1}.
%%
%% Trace flags and patterns stay set, so each event still costs the traced process a check.
%% `already_paused': it is paused. `already_stopped': it has ended, or is ending.
-spec pause(recorder()) -> ok | {error, already_paused | already_stopped | file:posix()}.
pause(Recorder) ->
    {Pid, _} = ?HANDLE(Recorder, [Recorder]),
    paused(kymo_server:call(Pid, pause)).

%% @doc Continues recording after {@link pause/1}. `not_paused': it is recording.
%% `already_stopped': it has ended, or is ending.
-spec resume(recorder()) -> ok | {error, not_paused | already_stopped | file:posix()}.
resume(Recorder) ->
    {Pid, _} = ?HANDLE(Recorder, [Recorder]),
    paused(kymo_server:call(Pid, resume)).

paused(gone) -> {error, already_stopped};
paused({error, stopped}) -> {error, already_stopped};
paused(Answer) -> Answer.

%% @doc Returns counters, losses and state of a recorder.
%%
%% For one that has ended these are the last ones. Raises `badarg' if more than 16 recorders
%% of this node have ended since.
-spec info(recorder()) -> info().
info(Recorder) ->
    {Pid, Ref} = ?HANDLE(Recorder, [Recorder]),
    case kymo_server:call(Pid, info) of
        {ok, Info} ->
            Info;
        gone ->
            case kymo_recorders:find(Ref) of
                {ended, Info} -> Info;
                gone -> erlang:error(badarg, [Recorder], info_of([{1, "the recorder ended too long ago"}]))
            end
    end.

%% @doc Returns the recorders of this node: the running ones in the order of their starts,
%% then up to 16 that have ended, the most recent first. Recorders of {@link
%% kymo_tracer:open/1} are not included.
-spec list() -> [listed()].
list() ->
    case erlang:module_loaded(kymo_recorders) of
        true ->
            {Living, Ended} = kymo_recorders:list(),
            Asked = [{E, kymo_server:call(maps:get(pid, E), state)} || E <- by_start(Living)],
            %% Those that have ended meanwhile.
            Newly = [{E, Info} || {#{ref := Ref} = E, gone} <- Asked, {ended, Info} <- [kymo_recorders:find(Ref)]],
            [listed(E, State, none) || {E, {ok, State}} <- Asked] ++
                [listed(E, State, Reason) || {E, #{state := State, reason := Reason}} <- lists:reverse(Newly) ++ Ended];
        false ->
            []
    end.

by_start(Entries) -> lists:sort(fun(#{since := A}, #{since := B}) -> A =< B end, Entries).

listed(Entry, State, Reason) ->
    (maps:with([name, dir, since, policy], Entry))#{
        recorder => recorder(Entry), state => State, reason => Reason
    }.

%% @doc Copies what the recorder holds now into a new recording, without stopping it.
%%
%% The copy also has the names of the processes that are alive now. `Dir' must not contain
%% a recording; it and its parent are created if they do not exist. Returns how many
%% segments of memory and how many events were copied.
%%
%% `already_stopped': the recorder has ended; copy its folder instead. `missing_folder': the
%% first folder in the path of `Dir' that does not exist. POSIX codes: as for {@link start/1}.
-spec snapshot(recorder(), file:name_all()) ->
    {ok, #{segments := non_neg_integer(), events := non_neg_integer()}}
    | {error, already_stopped | {missing_folder, file:filename_all()} | file:posix() | term()}.
snapshot(Recorder, Dir) ->
    {Pid, _} = ?HANDLE(Recorder, [Recorder, Dir]),
    answer(kymo_folder:with_parent(Dir, fun() -> kymo_server:call(Pid, {snapshot, Dir}) end)).

%% ---- tracing ----------------------------------------------------------------

%% @doc Adds to what the recorder traces.
%%
%% If several patterns match a function, in one call of trace/2 or in several, they add up
%% in any order: a call is recorded if one of the patterns matches it, and so is its return
%% if one of the matching patterns asks for returns. Scope `local' wins over `global'.
%%
%% On an error, nothing is set. Errors are: a process, port or module that is named exactly
%% does not exist; a pattern matches no function; and, without trace sessions, another
%% tracer holds a process that is named, the flags of new processes, or all functions of a
%% pattern. Anything else that another tracer holds is skipped and listed in the result.
-spec trace(recorder(), trace_spec()) -> {ok, trace_result()} | {error, trace_error()}.
trace(Recorder, Spec) ->
    {Pid, Ref} = ?HANDLE(Recorder, [Recorder, Spec]),
    case kymo_spec:parse(Spec) of
        {ok, Parsed} ->
            case kymo_server:call(Pid, {trace, Parsed}) of
                gone -> ended(kymo_recorders:find(Ref));
                Answer -> Answer
            end;
        {error, _} = Error ->
            Error
    end.

ended(Found) ->
    case stopped(Found) of
        {ok, _} -> {error, ended};
        Error -> Error
    end.

%% @doc Removes everything that {@link trace/2} has set. The recorder continues to run.
%% `already_stopped': it has ended, and nothing is set.
-spec untrace(recorder()) -> ok | {error, already_stopped}.
untrace(Recorder) ->
    {Pid, _} = ?HANDLE(Recorder, [Recorder]),
    answer(kymo_server:call(Pid, {untrace, all})).

%% @doc Removes a part of what {@link trace/2} has set: the flags of these events from these
%% processes and ports, and these functions. Use `processes => none' to remove functions
%% only.
%%
%% A pattern that was given to trace/2, in any spelling, is withdrawn: functions that other
%% patterns match stay traced as those require. If the pattern was not given, none of its
%% functions stays traced, whatever other patterns match them. For example, after
%% `["lists:_/_", "lists:seq/2 -> return"]', removing `"lists:seq/2 -> return"' ends only the
%% recording of returns, and removing `"lists:seq/_"' ends that of `lists:seq/2' and
%% `lists:seq/3'.
-spec untrace(recorder(), trace_spec()) -> ok | {error, trace_error()}.
untrace(Recorder, Spec) ->
    {Pid, _} = ?HANDLE(Recorder, [Recorder, Spec]),
    case kymo_spec:parse(Spec) of
        {ok, Parsed} -> answer(kymo_server:call(Pid, {untrace, Parsed}));
        {error, _} = Error -> Error
    end.

%% @doc Returns the recorder as a tracer for the runtime's own functions.
%%
%% ```
%% {Module, State} = Tracer = kymo:tracer(R),
%% erlang:trace(P, true, [send, {tracer, Module, State}]),
%% erlang:trace_pattern(MFA, Spec, [{meta, Module, State}]),
%% dbg:tracer(module, Tracer),
%% trace:session_create(Name, Tracer, []),
%% seq_trace:set_system_tracer(Tracer)
%% '''
%%
%% When the recorder ends, the runtime removes the flags of such a tracer from processes and
%% ports, and the system tracer. Remove patterns and sessions yourself. The memory of the
%% recorder is not released while anything refers to the tracer.
%%
%% Raises `badarg' if the recorder has ended.
-spec tracer(recorder()) -> tracer().
tracer(Recorder) ->
    {Pid, _} = ?HANDLE(Recorder, [Recorder]),
    case kymo_server:call(Pid, tracer) of
        {ok, Tracer} -> Tracer;
        gone -> erlang:error(badarg, [Recorder], info_of([{1, "the recorder has ended"}]))
    end.

%% @doc Records while `Fun' runs in the calling process.
%%
%% `Options' takes the options of {@link start/1} (except `dir') and of {@link trace/2};
%% `returns => values' records returns with their values. These defaults differ: `policy =>
%% discard', `processes => [self()]', and if there are neither functions nor events, `events
%% => [procs, messages, running, garbage_collection, set_on_spawn]'.
%%
%% Returns the result of `Fun' and the last {@link info/1}. If `Fun' raises an exception, the
%% recorder is stopped and the exception is raised again, unchanged. After an error there is
%% neither a recorder nor a recording.
-spec record(Dir :: file:name_all(), options() | trace_spec(), fun(() -> Result)) ->
    {ok, Result, info()} | {error, option_error() | trace_error()}.
record(Dir, Options, Fun) when is_map(Options), is_function(Fun, 0) ->
    case prepared(Options) of
        {ok, Spec} ->
            case start(maps:merge(#{policy => discard}, record_start(Options#{dir => Dir}))) of
                {ok, Recorder} -> record_with(Recorder, Dir, Spec, Fun);
                {error, _} = Error -> Error
            end;
        {error, _} = Error ->
            Error
    end;
record(Dir, Options, Fun) ->
    Causes =
        [{2, "not a map"} || not is_map(Options)] ++
            [{3, "not a fun of arity 0"} || not is_function(Fun, 0)],
    erlang:error(badarg, [Dir, Options, Fun], info_of(Causes)).

%% Mistakes are found before there is anything to clean up.
prepared(Options) ->
    try
        ok = ok(load_modules()),
        ok = ok(kymo_options:check_names(Options, kymo_options:start() ++ kymo_options:trace())),
        Spec = record_spec(Options),
        case kymo_spec:parse(Spec) of
            {ok, _} -> {ok, Spec};
            {error, _} = Error -> Error
        end
    catch
        throw:{error, _} = Bad -> Bad
    end.

record_with(Recorder, Dir, Spec, Fun) ->
    try trace(Recorder, Spec) of
        {ok, _} ->
            Result = Fun(),
            {ok, Result, last_info(Recorder)};
        {error, _} = Error ->
            _ = stop(Recorder),
            kymo_folder:remove_recording(Dir),
            Error
    after
        _ = stop(Recorder)
    end.

last_info(Recorder) ->
    case stop(Recorder) of
        {ok, Info} -> Info;
        {error, already_stopped} -> info(Recorder)
    end.

%% `returns' belongs to both: its words are the recorder's, and then calls are
%% watched for their return.
record_start(#{returns := Returns} = Options) when not is_boolean(Returns) ->
    (maps:without(kymo_spec:keys(), Options))#{returns => Returns};
record_start(Options) ->
    maps:without(kymo_spec:keys(), Options).

record_spec(#{returns := Returns} = Options) when not is_boolean(Returns) ->
    record_spec(Options#{returns := Returns =:= values});
record_spec(Options) ->
    Spec = maps:merge(#{processes => [self()]}, maps:with(kymo_spec:keys(), Options)),
    case Spec of
        #{events := _} -> Spec;
        #{functions := _} -> Spec;
        #{slow := _} -> Spec;
        _ -> Spec#{events => [procs, messages, running, garbage_collection, set_on_spawn]}
    end.

%% ---- from a shell -------------------------------------------------------------

-define(NOT_ASKED, "neither a map nor a list of pairs").

-type asked() ::
    #{
        time => pos_integer(),
        count => pos_integer(),
        processes => all | existing | new | [pid() | atom()],
        functions => kymo_pattern:pattern() | [kymo_pattern:pattern()]
    }
    | [{atom(), term()}].
%% A map, or a list of pairs with the same keys: `kymo:why([{time, 100}])', in Elixir
%% `:kymo.why(time: 100)'.
%% <ul>
%% <li>`time': the maximum duration of the recording, in milliseconds.</li>
%% <li>`count': the maximum number of lines, calls or requests that are printed. Not for {@link
%%   check/1}.</li>
%% <li>`processes': only events of these processes. Default: `all'.</li>
%% <li>`functions': only for {@link why/1}.</li>
%% </ul>

-type answer() ::
    ok | {error, option_error() | trace_error() | {no_command, file:filename_all(), term()} | {command_failed, integer()}}.
%% `no_command': the command `kymo' could not be started. `command_failed': the command
%% exited with this status, and has printed the reason.

%% @doc Prints calls of the functions as they happen, with arguments and results, for
%% example `kymo:calls("lists:seq/2")'. Ends after 20 lines or 10 seconds. See {@link calls/2}.
-spec calls(kymo_pattern:pattern() | [kymo_pattern:pattern()]) -> answer().
calls(Functions) -> calls(Functions, #{}).

%% @doc Prints calls of the functions as they happen, with arguments and results.
%%
%% Ends after `count' lines or `time' milliseconds, by default `#{count => 20, time =>
%% 10000}', or when the calling process dies. The recorder and its files are removed. An
%% error is printed, with its remedy, and returned. Raises `badarg' if `Options' is neither a map nor
%% a list of pairs.
-spec calls(kymo_pattern:pattern() | [kymo_pattern:pattern()], asked()) -> answer().
calls(Functions, Options) ->
    case asked(Options) of
        {ok, Asked} -> loaded(fun() -> kymo_shell:calls(Functions, Asked) end);
        error -> erlang:error(badarg, [Functions, Options], info_of([{2, ?NOT_ASKED}]))
    end.

%% @doc Records for 10 seconds and prints the calls of the functions that took at least `Ms'
%% milliseconds, for example `kymo:slow("gen_server:call", 50)'. See {@link slow/3}.
-spec slow(kymo_pattern:pattern() | [kymo_pattern:pattern()], Ms :: number()) -> answer().
slow(Functions, Ms) -> slow(Functions, Ms, #{}).

%% @doc Records for `time' milliseconds (10000), and prints at most `count' (20) calls of the
%% functions that took at least `Ms' milliseconds. The recorder and its files are removed.
%%
%% A runtime that reports slow calls reports only these, and the line ends with `(slow)'. On other
%% runtimes all calls of the functions and their returns are recorded: see `returns' of {@link
%% trace_spec()}. Raises `badarg' if `Ms' is not a number of 0 or more, or `Options' is neither a map
%% nor a list of pairs.
-spec slow(kymo_pattern:pattern() | [kymo_pattern:pattern()], Ms :: number(), asked()) -> answer().
slow(Functions, Ms, Options) ->
    case {is_number(Ms) andalso Ms >= 0, asked(Options)} of
        {true, {ok, Asked}} ->
            loaded(fun() -> kymo_shell:slow(Functions, Ms, Asked) end);
        {IsTime, Read} ->
            Causes = [{2, "not a number of milliseconds"} || not IsTime] ++ [{3, ?NOT_ASKED} || Read =:= error],
            erlang:error(badarg, [Functions, Ms, Options], info_of(Causes))
    end.

%% @doc Records for 5 seconds and prints why the slowest request was slow. See {@link why/1}.
-spec why() -> answer().
why() -> why(#{}).

%% @doc Records for `time' milliseconds (5000), and prints why the `count' (1) slowest requests
%% were slow: the parts of each request's critical path, as the command `kymo why' does.
%%
%% `functions' are traced in addition, so that the answer can name them, for example
%% `kymo:why(#{functions => "my_app_*:_/_"})'. The recorder and its files are removed. Raises
%% `badarg' if `Options' is neither a map nor a list of pairs.
-spec why(asked()) -> answer().
why(Options) ->
    case asked(Options) of
        {ok, Asked} -> loaded(fun() -> kymo_shell:why(Asked) end);
        error -> erlang:error(badarg, [Options], info_of([{1, ?NOT_ASKED}]))
    end.

%% @doc Records for 5 seconds and prints what is wrong with this node. See {@link check/1}.
-spec check() -> answer().
check() -> check(#{}).

%% @doc Records for `time' milliseconds (5000), and prints what is wrong with this node, the most important
%% first, as the command `kymo check' does.
%%
%% Records what `kymo attach' records by default: messages, scheduling, the life of processes, garbage
%% collections, and the counters and the system monitor of the node, with a budget of 5%. Returns `ok' with
%% and without findings. The recorder and its files are removed. Raises `badarg' if `Options' is neither a
%% map nor a list of pairs.
-spec check(asked()) -> answer().
check(Options) ->
    case asked(Options) of
        {ok, Asked} -> loaded(fun() -> kymo_shell:check(Asked) end);
        error -> erlang:error(badarg, [Options], info_of([{1, ?NOT_ASKED}]))
    end.

asked(Options) when is_map(Options) -> {ok, Options};
asked(Options) when is_list(Options) ->
    try
        {ok, maps:from_list(Options)}
    catch
        error:badarg -> error
    end;
asked(_) -> error.

loaded(Fun) ->
    case load_modules() of
        ok -> Fun();
        {error, _} = Error -> Error
    end.

%% @doc Returns the path of the command `kymo', which reads recordings.
-spec cli_path() -> file:filename_all().
cli_path() ->
    _ = load_modules(),
    Paths = [filename:join([Dir, "bin", "kymo"]) || Dir <- kymo_tracer:priv_dirs()],
    hd([Path || Path <- Paths, filelib:is_regular(Path)] ++ Paths).

%% @private The modules of a recorder, this one included.
-spec modules() -> [module()].
modules() -> [?MODULE | ?MODULES].

%% ---- errors -----------------------------------------------------------------

%% @doc Returns a message for the `Reason' of an `{error, Reason}' of this module: what is
%% wrong, and where it is known, the remedy.
-spec format_error(Reason :: term()) -> unicode:chardata().
format_error({bad_option, memory, undefined, {at_least, Least}}) ->
    io_lib:format("the default of memory is too small for the other options; set it to at least ~b bytes", [Least]);
format_error({bad_option, memory, Value, {at_least, Least}}) ->
    io_lib:format(
        "memory is ~0tp; with these options the threads of this node need at least ~b bytes", [Value, Least]
    );
format_error({enospc, Needed, Available}) ->
    io_lib:format(
        "no space left on device: the recording needs ~b bytes and the folder has room for ~b; "
        "set `memory' to fewer bytes or `dir' to a folder elsewhere",
        [Needed, Available]
    );
format_error({bad_option, triggers, {missing, {Text, Option}}}) ->
    kymo_trigger:format_missing(Text, Option);
format_error({bad_option, Key, Value}) ->
    kymo_options:format_bad(Key, Value);
format_error({unknown_option, Key}) ->
    kymo_options:format_unknown(Key);
format_error({missing_option, events}) ->
    "there is nothing to trace: name events, functions, or both";
format_error({missing_option, Key}) ->
    io_lib:format("option ~tp is missing", [Key]);
format_error({bad_pattern, _, _, _} = Error) ->
    kymo_pattern:format_error(Error);
format_error({no_functions, _} = Error) ->
    kymo_pattern:format_error(Error);
format_error({no_process, Process}) ->
    io_lib:format("there is no process ~tp: check its pid or registered name", [Process]);
format_error({no_port, Port}) ->
    io_lib:format("there is no port ~tp: check its identifier or registered name", [Port]);
format_error({already_traced, {M, F, A}}) ->
    io_lib:format("another tracer has set ~tp:~tp/~tp: end it first (kymo:list() names recorders)", [M, F, A]);
format_error({already_traced, Tracee}) ->
    io_lib:format("another tracer traces ~tp: end it first (kymo:list() names recorders)", [Tracee]);
format_error({calls_traced, Pid}) ->
    io_lib:format(
        "eprof profiles ~tp, and would end with the first call of these functions: end it first "
        "(eprof:stop_profiling()), or record without functions",
        [Pid]
    );
format_error({too_many_patterns, {M, F, A}}) ->
    io_lib:format("too many patterns with conditions for ~tp:~tp/~tp: untrace some of them", [M, F, A]);
format_error({missing_folder, Dir}) ->
    io_lib:format("the folder ~ts does not exist: create it, or name another one", [Dir]);
format_error({no_library, Reason}) ->
    kymo_tracer:format_library(Reason);
format_error({no_command, Command, Reason}) ->
    io_lib:format("the command ~ts cannot be started: ~tp; build it with make, or set KYMO_PRIV", [Command, Reason]);
format_error({command_failed, Status}) ->
    io_lib:format("the command kymo has ended with status ~b, and printed the reason", [Status]);
format_error({no_module, M}) ->
    io_lib:format("the module ~tp of kymo is neither loaded nor in the code path: add the folder ebin of kymo to it", [M]);
format_error({no_room, Table, Used, Limit}) ->
    kymo_room:format(Table, Used, Limit);
format_error({already_started, Name}) ->
    io_lib:format("a recorder with the name ~tp is running: stop it, or choose another name", [Name]);
format_error(no_slow_calls) ->
    "this runtime does not report slow calls, which needs the patched one: record the functions with "
    "returns => true instead, and read them with kymo print --tree --slower TIME";
format_error({unsafe, Measure, Runtime, Fixed}) ->
    [
        case Measure of
            collections ->
                "garbage collections are not recorded: if another tool traces them, too, this node, ";
            received ->
                "received messages are not recorded: if they are traced, this node, ";
            signals ->
                "triggers for mailboxes and tracing => global send signals to processes, and this node, "
        end,
        Runtime,
        case Measure of
            collections ->
                ", crashes; if no other tool does, add garbage_collection => always, or --garbage-collection always of kymo attach";
            received ->
                ", may not wake up a process that hibernates with a large heap; if none does, add received_messages => always, "
                "or --received-messages always of kymo attach";
            signals ->
                ", may then not wake up a process that hibernates; use the system monitor's long_message_queue instead"
        end,
        [[", or upgrade to OTP ", Fixed] || Fixed =/= none],
        " (doc/runtime-faults.md)"
    ];
format_error(too_many_recorders) ->
    "64 recorders are open, which is the maximum: stop some of those in kymo:list()";
format_error(already_stopped) ->
    "the recorder has stopped: start another one";
format_error(ended) ->
    "the recorder has reached a limit and records no more events: start another one";
format_error(eexist) ->
    "the folder contains a recording: name another folder";
format_error(Posix) when is_atom(Posix) ->
    file:format_error(Posix);
format_error(Other) ->
    io_lib:format("~0tp", [Other]).

%% @private The runtime asks for the arguments' part in a `badarg'.
-spec format_error(term(), erlang:stacktrace()) -> #{pos_integer() => unicode:chardata()}.
format_error(_, [{_, _, _, Info} | _]) ->
    #{cause := Cause} = proplists:get_value(error_info, Info, #{cause => #{}}),
    Cause.

info_of(Causes) ->
    [{error_info, #{module => ?MODULE, cause => maps:from_list(Causes)}}].

%% ---- handles ----------------------------------------------------------------

recorder(#{pid := Pid, ref := Ref, dir := Dir}) -> {kymo_recorder, Pid, Ref, Dir}.

handle({kymo_recorder, Pid, Ref, _}) when is_pid(Pid), is_reference(Ref) ->
    {Pid, Ref};
handle(Name) when is_atom(Name) ->
    case erlang:module_loaded(kymo_server) andalso named(Name) of
        {_, _} = Found -> Found;
        _ -> {error, "no recorder has this name"}
    end;
handle(_) ->
    {error, "not a recorder"}.

%% One that runs, else the last one that has ended.
named(Name) ->
    case kymo_server:find(Name) of
        {ok, #{pid := Pid, ref := Ref}} ->
            {Pid, Ref};
        gone ->
            case kymo_recorders:find_name(Name) of
                {ended, #{pid := Pid, ref := Ref}} -> {Pid, Ref};
                gone -> gone
            end
    end.

answer(gone) -> {error, already_stopped};
answer(Answer) -> Answer.
