%% SPDX-License-Identifier: Apache-2.0
%% @doc A flight recorder for the BEAM.
%%
%% A recorder writes trace events of this node into a folder, in memory that the
%% operating system keeps when the node dies. Its size is fixed by its options,
%% whatever the load, and what does not fit is counted. The command `kymo' reads
%% the folder, also while it is being written: {@link cli_path/0}.
%%
%% ```
%% {ok, R} = kymo:start(#{dir => "/tmp/rec"}),
%% {ok, _} = kymo:trace(R, #{functions => ["my_app_*:_/_"], events => [messages]}),
%% ...
%% {ok, _} = kymo:snapshot(R, "/tmp/what-just-happened"),
%% {ok, Info} = kymo:stop(R).
%% '''
%%
%% Or, around one call: {@link record/3}.
%%
%% A recorder ends when {@link stop/1} is called, when its owner dies, when a
%% limit is reached, and when the node halts. Then, whatever died in between,
%% the flags and patterns that it has set are gone, and nothing that others have
%% set was touched.
%%
%% The semantics of the events are those of the runtime's tracing: see the
%% functions `trace:process/4' and `trace:function/4' (OTP 27 and later), or
%% `erlang:trace/3' and `erlang:trace_pattern/3', in the documentation of
%% Erlang/OTP. Where the runtime has trace sessions, each recorder uses its own
%% and meets no other tracer. On older runtimes a process has one tracer and a
%% function one match specification: what somebody else holds is left to them
%% and reported, see {@link trace/2}.
%%
%% Functions that take a recorder take what {@link start/1} returned, or the
%% name that it was given. Anything else is a `badarg'.
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
    info/0,
    listed/0,
    tracer/0,
    asked/0,
    answer/0
]).

-type recorder() :: {kymo_recorder, pid(), reference()} | atom().
%% What {@link start/1} returned, or the name given to it. It keeps no memory of the
%% recorder. Some functions also answer for a recorder that has ended: the last 16
%% of a node are remembered.

-type tracer() :: {kymo_tracer, reference()}.

-type options() :: #{
    dir => file:name_all(),
    owner => pid() | none,
    name => atom(),
    names => non_neg_integer(),
    tracing => auto | kymo_tracing:mode(),
    budget => kymo_budget:option(),
    triggers => [kymo_trigger:trigger()],
    on_trigger => kymo_trigger:on_trigger(),
    atom() => term()
}.
%% <ul>
%% <li>`dir': the folder of the recording. Default: a new one below `$TMPDIR' or
%%   `/tmp', which {@link info/1} names. It is made, with mode 0700, when it
%%   does not exist, and so is its parent folder; no more than these two. It must
%%   not hold a recording yet.</li>
%% <li>`owner': the recorder ends when this process does. Default: the caller of
%%   start/1. `none' when nobody owns it; use that in a remote shell or through
%%   `rpc', where the calling process is soon gone.</li>
%% <li>`name': a name for the recorder, to be used in place of what start/1
%%   returns. It has nothing to do with the names of processes.</li>
%% <li>`names': how many processes at most are described in the recording by
%%   their registered names and initial calls. They are looked up after {@link
%%   trace/2}, and when {@link snapshot/2} or {@link stop/1} is called. Default:
%%   10000; 0 for none.</li>
%% <li>`tracing': `session' for a trace session of its own, `global' for the
%%   tracing that all share, `auto' (default) for the first where the runtime
%%   has it.</li>
%% <li>`budget': what tracing may cost. `#{cpu => Percent}': of the time of each scheduler
%%   thread; `#{events => N}': events per second of the node. When more is traced, the
%%   recorder sheds functions, the most frequently called first, and when that is not
%%   enough, kinds of events. It gives them back when it is quiet. Default: `none'. What is
%%   missing is in {@link info/1} and in the recording; all else is recorded exactly.</li>
%% <li>`triggers': when to take a snapshot, as in `[{request, '_', 500}, {exit, '_'}]': see {@link
%%   kymo_trigger}. Default: never. `on_trigger': where to, how often, and how many are
%%   kept.</li>
%% <li>All others: see {@link kymo_tracer:open/1}. The most useful ones are
%%   `policy' (`overwrite', default: keep the newest; `discard': keep everything in
%%   files that the recorder writes as it goes), `memory' (bytes, default 48 MiB, whatever the number of threads),
%%   `calls', `returns', `messages', `terms', `gc' (how much of an event is
%%   recorded), `content_bytes' (bound of one term), `sample', and `limit'.</li>
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
    | {no_command, file:filename_all(), file:posix()}
    | too_many_recorders
    | file:posix().
%% `unknown_option' is reported before all else. `missing_folder': the first
%% folder on the way to `dir' that does not exist. `no_library': the library of
%% the recorder could not be loaded, see {@link kymo_tracer}. `no_module': a module
%% of kymo is neither loaded nor in the code path. The POSIX codes are those of making the folder and its files; `eexist': it
%% holds a recording already. {@link format_error/1} puts all of them in words.

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
%% The trace flags of the runtime, and `calls' for `call', `messages' for `send'
%% with `receive', `running' for `running_procs' with `running_ports'.

-type trace_spec() :: #{
    processes => none | all | existing | new | [pid() | atom()],
    ports => none | all | existing | new | [port() | atom()],
    events => [event()],
    functions => kymo_pattern:pattern() | [kymo_pattern:pattern()],
    scope => local | global,
    returns => boolean(),
    senders => boolean()
}.
%% <ul>
%% <li>`processes': whose events, by pid or registered name. Default:
%%   `all'.</li>
%% <li>`ports': likewise. Default: `all' when `ports' or `running_ports' is among
%%   the events, else `none'.</li>
%% <li>`events': what is recorded of them. Default: `[calls]', which is always
%%   there when there are functions. Without functions, it must be given.</li>
%% <li>`functions': the functions whose calls are recorded, see {@link
%%   kymo_pattern}. They stay set when their module is loaded again.</li>
%% <li>`scope': `local' (default) for all calls, `global' for those that go
%%   through the module's name to an exported function.</li>
%% <li>`returns': also record return values' or exceptions' events of these
%%   functions. Default: `false'. Beware: a call that is watched for its return is
%%   no tail call any more, so a process that loops through such a function
%%   grows with every turn until it is out of memory.</li>
%% <li>`senders': let receive events carry their sender, which the arrows from
%%   a sender to its receiver need. Default: `true'.</li>
%% </ul>

-type trace_result() :: #{
    processes := non_neg_integer(),
    ports := non_neg_integer(),
    functions := non_neg_integer(),
    skipped := [pid() | port() | mfa() | 'receive']
}.
%% How many processes, ports and functions the runtime says were set. `skipped'
%% is what another tracer holds; always empty where the recorder has a session.

-type trace_error() ::
    {bad_option, Key :: atom(), Value :: term()}
    | {unknown_option, Key :: term()}
    | {missing_option, events}
    | kymo_pattern:error()
    | {no_process, pid() | atom()}
    | {no_port, port() | atom()}
    | {already_traced, pid() | port() | mfa() | new_processes | new_ports}
    | {too_many_patterns, mfa()}
    | ended
    | already_stopped.
%% `too_many_patterns': the patterns for this function have so many different
%% conditions that their union has more than 256 clauses. `already_traced': another tracer holds the only thing that was named.
%% `ended': the recorder has reached a limit.

-type info() :: #{atom() => term()}.
%% As {@link kymo_tracer:info/1}, and
%% <ul>
%% <li>`tracing': what is set, `none' or a map with the `mode', the number of
%%   `functions', and `taken': `none', or what other tools have taken away: a map
%%   with how many `functions' lost their trace patterns, how many `processes' and
%%   ports their trace flags, whether the `session' was destroyed, and `since' when
%%   (Unix time in milliseconds, when the first of these was noticed).</li>
%% <li>`budget': `none', or a map with the budget, `used' (the share of it that tracing uses
%%   now, 1.0 for all of it), `shed' (the `functions' and kinds of `events' that are not
%%   recorded now) and `times' (how often something was shed or given back).</li>
%% <li>`triggers': `none', or a map: how often triggers have `fired' and firings were
%%   `suppressed' by the cool-down or because too many came at once; how many were `acted' upon;
%%   the last 20 `firings', the newest first, with their `trigger', `kind', `value' and `limit'
%%   (nanoseconds or messages), `process', `function', `snapshot', and whether it `held' the cause; `folder', and how many snapshots were
%%   `removed' from it; the last `error'; the state of the `watcher', the command that judges the
%%   recording (`running', `waiting' to be started again after `watcher_error', `stopped', or `none'
%%   where no trigger needs it), how often it was started, up to which time it has judged the
%%   recording (`judged_until', nanoseconds after the start), and how often events were
%%   overwritten before it saw them (`missed').</li>
%% <li>`taken': the sum of these, also after the end. When it is not 0, events are
%%   missing from the recording that no other counter shows.</li>
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
%% A recorder: what functions of this module take, its name or `undefined', its
%% folder, its state and why it ended, when it was started (Unix time in
%% milliseconds), and its policy.

%% Raises in the function that was called, as its `badarg'.
-define(HANDLE(Recorder, Args),
    case handle(Recorder) of
        {error, Why} -> erlang:error(badarg, Args, info_of([{1, Why}]));
        Handle -> Handle
    end
).

-define(OWN_OPTIONS, [owner, name, names, tracing, budget, triggers, on_trigger]).
-define(MAX_NAMES, 10000).

%% What a recorder needs. In embedded mode the code server loads nothing by itself.
-define(MODULES, [
    kymo_budget,
    kymo_cost,
    kymo_folder,
    kymo_janitor,
    kymo_match_spec,
    kymo_names,
    kymo_options,
    kymo_pattern,
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

%% @doc Starts a recorder. It records nothing until something is traced with it:
%% {@link trace/2}, or the runtime's own functions with {@link tracer/1}.
%%
%% The application `kymo' need not run; when it does, it supervises the recorder.
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
            mode => mode(option(tracing, Options, auto, fun is_mode/1)),
            budget => option(budget, Options, none, fun kymo_budget:check/1),
            triggers => triggers(Options),
            tracer_options => maps:without(?OWN_OPTIONS, Options)
        },
        _ = kymo_recorders:ensure(),
        case kymo_folder:with_parent(maps:get(dir, Options), fun() -> kymo_server:start(Args) end) of
            {ok, Pid, Ref} -> {ok, {kymo_recorder, Pid, Ref}};
            {error, _} = Error -> Error
        end
    catch
        throw:{error, _} = Bad -> Bad
    end;
start(Options) ->
    erlang:error(badarg, [Options], info_of([{1, "not a map"}])).

%% @doc {@link start/1} with the defaults of all options.
-spec start() -> {ok, recorder()} | {error, option_error()}.
start() -> start(#{}).

triggers(Options) ->
    case kymo_trigger:parse(maps:get(triggers, Options, []), maps:get(on_trigger, Options, #{})) of
        {ok, none} ->
            none;
        {ok, #{watched := Watched, folder := Folder} = Plan} ->
            ok = ok(kymo_trigger_folder:check(Folder)),
            Watched =:= [] orelse ok(has_command(cli_path())),
            Plan;
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
    case [M || M <- ?MODULES, not (erlang:module_loaded(M) orelse is_loaded_now(M))] of
        [] -> ok;
        [M | _] -> {error, {no_module, M}}
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

%% @doc Ends the recording. Takes away everything that the recorder has set,
%% closes its files, gives its memory and its name back, and returns the last
%% {@link info/1}. For a recorder that has ended at a limit: its last info.
%% `already_stopped' also when the owner's death has stopped it.
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

%% @doc Records nothing until {@link resume/1}. Trace flags and patterns stay set,
%% so each event still costs a check in the traced process.
-spec pause(recorder()) -> ok | {error, already_paused | already_stopped | file:posix()}.
pause(Recorder) ->
    {Pid, _} = ?HANDLE(Recorder, [Recorder]),
    paused(kymo_server:call(Pid, pause)).

%% @doc Ends a pause.
-spec resume(recorder()) -> ok | {error, not_paused | already_stopped | file:posix()}.
resume(Recorder) ->
    {Pid, _} = ?HANDLE(Recorder, [Recorder]),
    paused(kymo_server:call(Pid, resume)).

paused(gone) -> {error, already_stopped};
paused({error, stopped}) -> {error, already_stopped};
paused(Answer) -> Answer.

%% @doc Counters, losses and state. After the end the last ones, for the last 16
%% recorders that have ended; for older ones a `badarg'.
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

%% @doc The recorders of this node, those that run first, then up to 16 that have
%% ended, the last one first. Those of {@link kymo_tracer:open/1} are not among
%% them.
-spec list() -> [listed()].
list() ->
    case erlang:module_loaded(kymo_recorders) of
        true ->
            {Living, Ended} = kymo_recorders:list(),
            [listed(E, State, none) || E <- by_start(Living), {ok, State} <- [kymo_server:call(maps:get(pid, E), state)]] ++
                [listed(E, State, Reason) || {E, #{state := State, reason := Reason}} <- Ended];
        false ->
            []
    end.

by_start(Entries) -> lists:sort(fun(#{since := A}, #{since := B}) -> A =< B end, Entries).

listed(#{pid := Pid, ref := Ref} = Entry, State, Reason) ->
    (maps:with([name, dir, since, policy], Entry))#{
        recorder => {kymo_recorder, Pid, Ref}, state => State, reason => Reason
    }.

%% @doc Copies what the recorder holds now into a new recording, without
%% stopping it, together with the names of the processes that live now. The
%% folder is made when it does not exist, and so is its parent, and must not hold
%% a recording. When the recorder has ended, its own folder is what can be copied.
-spec snapshot(recorder(), file:name_all()) ->
    {ok, #{segments := non_neg_integer(), events := non_neg_integer()}}
    | {error, already_stopped | {missing_folder, file:filename_all()} | file:posix() | term()}.
snapshot(Recorder, Dir) ->
    {Pid, _} = ?HANDLE(Recorder, [Recorder, Dir]),
    answer(kymo_folder:with_parent(Dir, fun() -> kymo_server:call(Pid, {snapshot, Dir}) end)).

%% ---- tracing ----------------------------------------------------------------

%% @doc Traces with the recorder, in addition to what it traces already.
%%
%% A function that several patterns name, in one call or in several, gets the union
%% of what they ask for, whatever their order: a call is recorded when one of them
%% matches it, and with its return when one of those that match asks for returns.
%% When one asks for the scope `local' and another one for `global', it is `local'.
%%
%% All or nothing: on an error nothing is set. It is an error when a process,
%% port or module named exactly does not exist, when a pattern matches no
%% function, and, without trace sessions, when somebody else's tracer holds one
%% of the processes named, the processes to be started, or all functions of a
%% pattern. What they hold beyond that is left out and listed in the result.
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

%% @doc Takes away all that {@link trace/2} has set; the recorder stays.
-spec untrace(recorder()) -> ok | {error, already_stopped}.
untrace(Recorder) ->
    {Pid, _} = ?HANDLE(Recorder, [Recorder]),
    answer(kymo_server:call(Pid, {untrace, all})).

%% @doc Takes away a part of it: the flags of the events from the processes and
%% ports, and the functions. To take away functions only, say `processes => none'.
%%
%% A pattern that was given to {@link trace/2}, in this or another spelling, is
%% taken back: functions that other patterns name as well stay traced, as those
%% ask for. From a pattern that was not given, all its functions are no longer
%% traced, whatever patterns name them. After `["lists:_/_", "lists:seq/2 ->
%% return"]', taking away `"lists:seq/2 -> return"' ends the recording of returns
%% only, and taking away `"lists:seq/_"' that of `lists:seq/2' and `lists:seq/3'.
-spec untrace(recorder(), trace_spec()) -> ok | {error, trace_error()}.
untrace(Recorder, Spec) ->
    {Pid, _} = ?HANDLE(Recorder, [Recorder, Spec]),
    case kymo_spec:parse(Spec) of
        {ok, Parsed} -> answer(kymo_server:call(Pid, {untrace, Parsed}));
        {error, _} = Error -> Error
    end.

%% @doc The recorder as tracer for the runtime's own functions:
%% `erlang:trace(P, true, [send, {tracer, Module, State}])',
%% `erlang:trace_pattern(MFA, Spec, [{meta, Module, State}])',
%% `dbg:tracer(module, Tracer)', `trace:session_create(Name, Tracer, [])',
%% `seq_trace:set_system_tracer(Tracer)'. What is set so is yours to take away,
%% except for flags on processes and ports and the system tracer. The tracer keeps
%% the memory of the recorder for as long as something refers to it. A `badarg'
%% when the recorder has ended.
-spec tracer(recorder()) -> tracer().
tracer(Recorder) ->
    {Pid, _} = ?HANDLE(Recorder, [Recorder]),
    case kymo_server:call(Pid, tracer) of
        {ok, Tracer} -> Tracer;
        gone -> erlang:error(badarg, [Recorder], info_of([{1, "the recorder has ended"}]))
    end.

%% @doc Records while `Fun' runs in the calling process.
%%
%% `Options' holds the options of {@link start/1}, except for `dir', and those of
%% {@link trace/2} together; `returns => values' asks for return events with their
%% values. Different defaults: `policy => discard', `processes
%% => [self()]', and without functions and events, `events => [procs, messages,
%% running, garbage_collection, set_on_spawn]'. An exception of `Fun' comes out as
%% it was, after the recorder was stopped.
%% On an error there is neither a recorder nor a recording.
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
        _ -> Spec#{events => [procs, messages, running, garbage_collection, set_on_spawn]}
    end.

%% ---- from a shell -------------------------------------------------------------

-type asked() :: #{
    time => pos_integer(),
    count => pos_integer(),
    processes => all | existing | new | [pid() | atom()],
    functions => kymo_pattern:pattern() | [kymo_pattern:pattern()]
}.
%% For how many milliseconds at most is recorded, how many answers are printed at most, and
%% of which processes (default: all).

-type answer() ::
    ok | {error, option_error() | trace_error() | {no_command, file:filename_all(), term()} | {command_failed, integer()}}.
%% `no_command': the command `kymo' cannot be started. `command_failed': its exit status; it
%% has printed why.

%% @doc Prints calls of the functions, with arguments and results, as they happen, and ends
%% by itself: `kymo:calls("lists:seq/2")'. {@link calls/2} with the defaults.
-spec calls(kymo_pattern:pattern() | [kymo_pattern:pattern()]) -> answer().
calls(Functions) -> calls(Functions, #{}).

%% @doc The same; by default until 20 events were printed, and at most for 10 seconds
%% (`#{count => 20, time => 10000}').
-spec calls(kymo_pattern:pattern() | [kymo_pattern:pattern()], asked()) -> answer().
calls(Functions, Options) when is_map(Options) ->
    loaded(fun() -> kymo_shell:calls(Functions, Options) end);
calls(Functions, Options) ->
    erlang:error(badarg, [Functions, Options], info_of([{2, "not a map"}])).

%% @doc Records for 10 seconds and prints the calls of the functions that took at least `Ms'
%% milliseconds: `kymo:slow("gen_server:call", 50)'. {@link slow/3} with the defaults.
-spec slow(kymo_pattern:pattern() | [kymo_pattern:pattern()], Ms :: number()) -> answer().
slow(Functions, Ms) -> slow(Functions, Ms, #{}).

%% @doc The same; by default for 10 seconds and at most 20 calls.
-spec slow(kymo_pattern:pattern() | [kymo_pattern:pattern()], Ms :: number(), asked()) -> answer().
slow(Functions, Ms, Options) when is_number(Ms), Ms >= 0, is_map(Options) ->
    loaded(fun() -> kymo_shell:slow(Functions, Ms, Options) end);
slow(Functions, Ms, Options) ->
    Causes =
        [{2, "not a number of milliseconds"} || not (is_number(Ms) andalso Ms >= 0)] ++
            [{3, "not a map"} || not is_map(Options)],
    erlang:error(badarg, [Functions, Ms, Options], info_of(Causes)).

%% @doc Records for 5 seconds and prints what made the slowest request slow. {@link why/1}
%% with the defaults.
-spec why() -> answer().
why() -> why(#{}).

%% @doc The same; `functions' names the code that the answer then can name, and `count' is
%% how many of the slowest requests are explained (1).
-spec why(asked()) -> answer().
why(Options) when is_map(Options) ->
    loaded(fun() -> kymo_shell:why(Options) end);
why(Options) ->
    erlang:error(badarg, [Options], info_of([{1, "not a map"}])).

loaded(Fun) ->
    case load_modules() of
        ok -> Fun();
        {error, _} = Error -> Error
    end.

%% @doc The command that reads recordings.
-spec cli_path() -> file:filename_all().
cli_path() ->
    _ = load_modules(),
    Paths = [filename:join([Dir, "bin", "kymo"]) || Dir <- kymo_tracer:priv_dirs()],
    hd([Path || Path <- Paths, filelib:is_regular(Path)] ++ Paths).

%% @private The modules of a recorder, this one included.
-spec modules() -> [module()].
modules() -> [?MODULE | ?MODULES].

%% ---- errors -----------------------------------------------------------------

%% @doc The reason of an `{error, Reason}' of this module in words.
-spec format_error(Reason :: term()) -> unicode:chardata().
format_error({bad_option, memory, undefined, {at_least, Least}}) ->
    io_lib:format("the default of memory is too small for the other options; set it to at least ~b bytes", [Least]);
format_error({bad_option, memory, Value, {at_least, Least}}) ->
    io_lib:format(
        "memory is ~0tp; with these options the threads of this node need at least ~b bytes", [Value, Least]
    );
format_error({enospc, Needed, Available}) ->
    io_lib:format(
        "no space left on device: the recording needs ~b bytes and the file system has ~b; "
        "set `memory' to fewer bytes or `dir' to a folder elsewhere",
        [Needed, Available]
    );
format_error({bad_option, Key, Value}) ->
    kymo_options:format_bad(Key, Value);
format_error({unknown_option, Key}) ->
    kymo_options:format_unknown(Key);
format_error({missing_option, Key}) ->
    io_lib:format("option ~tp is missing", [Key]);
format_error({bad_pattern, _, _, _} = Error) ->
    kymo_pattern:format_error(Error);
format_error({no_functions, _} = Error) ->
    kymo_pattern:format_error(Error);
format_error({no_process, Process}) ->
    io_lib:format("there is no process ~tp", [Process]);
format_error({no_port, Port}) ->
    io_lib:format("there is no port ~tp", [Port]);
format_error({already_traced, {M, F, A}}) ->
    io_lib:format("another tracer has set ~tp:~tp/~tp", [M, F, A]);
format_error({already_traced, Tracee}) ->
    io_lib:format("another tracer traces ~tp", [Tracee]);
format_error({too_many_patterns, {M, F, A}}) ->
    io_lib:format("too many patterns with conditions for ~tp:~tp/~tp", [M, F, A]);
format_error({missing_folder, Dir}) ->
    io_lib:format("the folder ~ts does not exist", [Dir]);
format_error({no_library, Reason}) ->
    kymo_tracer:format_library(Reason);
format_error({no_command, Command, Reason}) ->
    io_lib:format("the command ~ts cannot be started: ~tp; build it with make, or set KYMO_PRIV", [Command, Reason]);
format_error({command_failed, Status}) ->
    io_lib:format("the command kymo has ended with the status ~b, and has printed why", [Status]);
format_error({no_module, M}) ->
    io_lib:format("the module ~tp of kymo is neither loaded nor in the code path: add the folder ebin of kymo to it", [M]);
format_error({already_started, Name}) ->
    io_lib:format("a recorder with the name ~tp is running", [Name]);
format_error(too_many_recorders) ->
    "too many recorders are open";
format_error(already_stopped) ->
    "the recorder has stopped";
format_error(ended) ->
    "the recorder has reached a limit and takes no more events";
format_error(eexist) ->
    "the folder holds a recording already";
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

handle({kymo_recorder, Pid, Ref}) when is_pid(Pid), is_reference(Ref) ->
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
        {ok, Pid, Ref} ->
            {Pid, Ref};
        gone ->
            case kymo_recorders:find_name(Name) of
                {ended, #{pid := Pid, ref := Ref}} -> {Pid, Ref};
                gone -> gone
            end
    end.

answer(gone) -> {error, already_stopped};
answer(Answer) -> Answer.
