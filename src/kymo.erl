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
    start/1,
    stop/1,
    pause/1,
    resume/1,
    info/1,
    snapshot/2,
    trace/2,
    untrace/1,
    untrace/2,
    tracer/1,
    record/3,
    cli_path/0,
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
    tracer/0
]).

-type recorder() :: {kymo_recorder, pid(), reference()} | atom().
%% What {@link start/1} returned, or the name given to it.

-type tracer() :: {kymo_tracer, reference()}.

-type options() :: #{
    dir := file:name_all(),
    owner => pid() | none,
    name => atom(),
    names => non_neg_integer(),
    tracing => auto | kymo_tracing:mode(),
    atom() => term()
}.
%% <ul>
%% <li>`dir': the folder of the recording. It is made, with mode 0700, when it
%%   does not exist, and must not hold a recording yet.</li>
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
%% <li>All others: see {@link kymo_tracer:open/1}. The most useful ones are
%%   `policy' (`overwrite', default: keep the newest; `discard': keep everything in
%%   files that the recorder writes as it goes), `ring_size' (bytes per thread),
%%   `calls', `returns', `messages', `terms', `gc' (how much of an event is
%%   recorded), `content_bytes' (bound of one term), `sample', and `limit'.</li>
%% </ul>

-type option_error() ::
    {bad_option, Key :: atom(), Value :: term()}
    | {unknown_option, Key :: term()}
    | {missing_option, Key :: atom()}
    | {already_started, Name :: atom()}
    | too_many_recorders
    | file:posix().
%% The POSIX codes are those of making the folder and its files; `eexist': it
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
    | ended
    | already_stopped.
%% `already_traced': another tracer holds the only thing that was named.
%% `ended': the recorder has reached a limit.

-type info() :: #{atom() => term()}.
%% As {@link kymo_tracer:info/1}, and `tracing': what is set, `none' or a map with
%% the `mode' and the number of `functions'.

%% Raises in the function that was called, as its `badarg'.
-define(HANDLE(Recorder, Args),
    case handle(Recorder) of
        {error, Why} -> erlang:error(badarg, Args, info_of([{1, Why}]));
        Handle -> Handle
    end
).

-define(OWN_OPTIONS, [owner, name, names, tracing]).
-define(MAX_NAMES, 10000).

%% ---- a recorder -------------------------------------------------------------

%% @doc Starts a recorder. It records nothing until something is traced with it:
%% {@link trace/2}, or the runtime's own functions with {@link tracer/1}.
%%
%% The application `kymo' need not run; when it does, it supervises the recorder.
-spec start(options()) -> {ok, recorder()} | {error, option_error()}.
start(Options) when is_map(Options) ->
    try
        Args = #{
            owner => option(owner, Options, self(), fun is_owner/1),
            name => option(name, Options, undefined, fun is_name/1),
            names => option(names, Options, ?MAX_NAMES, fun is_count/1),
            mode => mode(option(tracing, Options, auto, fun is_mode/1)),
            tracer_options => maps:without(?OWN_OPTIONS, Options)
        },
        is_map_key(dir, Options) orelse throw({error, {missing_option, dir}}),
        case kymo_server:start(Args) of
            {ok, Pid, State} -> {ok, {kymo_recorder, Pid, State}};
            {error, _} = Error -> Error
        end
    catch
        throw:{error, _} = Bad -> Bad
    end;
start(Options) ->
    erlang:error(badarg, [Options], info_of([{1, "not a map"}])).

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
%% closes its files, and returns the last {@link info/1}. `already_stopped' also
%% when the owner's death has stopped it.
-spec stop(recorder()) -> {ok, info()} | {error, already_stopped}.
stop(Recorder) ->
    {Pid, _} = ?HANDLE(Recorder, [Recorder]),
    answer(kymo_server:call(Pid, stop)).

%% @doc Records nothing until {@link resume/1}. What is set stays, at the cost of
%% an event that nobody wants.
-spec pause(recorder()) -> ok | {error, already_paused | already_stopped | file:posix()}.
pause(Recorder) ->
    {_, State} = ?HANDLE(Recorder, [Recorder]),
    stopped(kymo_tracer:pause(State)).

%% @doc Goes on after {@link pause/1}.
-spec resume(recorder()) -> ok | {error, not_paused | already_stopped | file:posix()}.
resume(Recorder) ->
    {_, State} = ?HANDLE(Recorder, [Recorder]),
    stopped(kymo_tracer:resume(State)).

%% @doc Counters, losses and state; also after the end.
-spec info(recorder()) -> info().
info(Recorder) ->
    {Pid, State} = ?HANDLE(Recorder, [Recorder]),
    case kymo_server:call(Pid, info) of
        {ok, Info} -> Info;
        gone -> (kymo_tracer:info(State))#{tracing => none}
    end.

%% @doc Copies what the recorder holds now into a new recording, without
%% stopping it, together with the names of the processes that live now. The
%% folder is made when it does not exist, and must not hold a recording.
-spec snapshot(recorder(), file:name_all()) ->
    {ok, #{segments := non_neg_integer(), events := non_neg_integer()}}
    | {error, file:posix() | term()}.
snapshot(Recorder, Dir) ->
    {Pid, State} = ?HANDLE(Recorder, [Recorder, Dir]),
    case kymo_server:call(Pid, {snapshot, Dir}) of
        gone -> kymo_tracer:snapshot(State, Dir);
        Answer -> Answer
    end.

%% ---- tracing ----------------------------------------------------------------

%% @doc Traces with the recorder, in addition to what it traces already.
%%
%% All or nothing: on an error nothing is set. It is an error when a process,
%% port or module named exactly does not exist, when a pattern matches no
%% function, and, without trace sessions, when somebody else's tracer holds one
%% of the processes named, the processes to be started, or all functions of a
%% pattern. What they hold beyond that is left out and listed in the result.
-spec trace(recorder(), trace_spec()) -> {ok, trace_result()} | {error, trace_error()}.
trace(Recorder, Spec) ->
    {Pid, _} = ?HANDLE(Recorder, [Recorder, Spec]),
    case kymo_spec:parse(Spec) of
        {ok, Parsed} -> answer(kymo_server:call(Pid, {trace, Parsed}));
        {error, _} = Error -> Error
    end.

%% @doc Takes away all that {@link trace/2} has set; the recorder stays.
-spec untrace(recorder()) -> ok | {error, already_stopped}.
untrace(Recorder) ->
    {Pid, _} = ?HANDLE(Recorder, [Recorder]),
    answer(kymo_server:call(Pid, {untrace, all})).

%% @doc Takes away a part of it: the flags of the events from the processes and
%% ports, and the functions. To take away functions only, say `processes => none'.
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
%% except for flags on processes and ports and the system tracer.
-spec tracer(recorder()) -> tracer().
tracer(Recorder) ->
    {_, State} = ?HANDLE(Recorder, [Recorder]),
    {kymo_tracer, State}.

%% @doc Records while `Fun' runs in the calling process.
%%
%% `Options' holds the options of {@link start/1}, except for `dir', and those of
%% {@link trace/2} together; `returns => values' asks for return events with their
%% values. Different defaults: `policy => discard', `processes
%% => [self()]', and without functions and events, `events => [procs, messages,
%% running, garbage_collection, set_on_spawn]'. An exception of `Fun' comes out as
%% it was, after the recorder was stopped.
-spec record(Dir :: file:name_all(), options() | trace_spec(), fun(() -> Result)) ->
    {ok, Result, info()} | {error, option_error() | trace_error()}.
record(Dir, Options, Fun) when is_map(Options), is_function(Fun, 0) ->
    case start(maps:merge(#{policy => discard}, record_start(Options#{dir => Dir}))) of
        {ok, Recorder} ->
            try trace(Recorder, record_spec(Options)) of
                {ok, _} ->
                    Result = Fun(),
                    _ = stop(Recorder),
                    {ok, Result, info(Recorder)};
                {error, _} = Error ->
                    Error
            after
                _ = stop(Recorder)
            end;
        {error, _} = Error ->
            Error
    end;
record(Dir, Options, Fun) ->
    Causes =
        [{2, "not a map"} || not is_map(Options)] ++
            [{3, "not a fun of arity 0"} || not is_function(Fun, 0)],
    erlang:error(badarg, [Dir, Options, Fun], info_of(Causes)).

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

%% @doc The command that reads recordings.
-spec cli_path() -> file:filename_all().
cli_path() ->
    Priv =
        case code:priv_dir(kymo) of
            {error, bad_name} ->
                %% The folder is not called kymo or kymo-Version.
                filename:join(filename:dirname(filename:dirname(code:which(?MODULE))), "priv");
            Dir ->
                Dir
        end,
    filename:join([Priv, "bin", "kymo"]).

%% ---- errors -----------------------------------------------------------------

%% @doc The reason of an `{error, Reason}' of this module in words.
-spec format_error(Reason :: term()) -> unicode:chardata().
format_error({bad_option, Key, Value}) ->
    io_lib:format("option ~tp cannot be ~0tp", [Key, Value]);
format_error({unknown_option, Key}) ->
    io_lib:format("there is no option ~tp", [Key]);
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
format_error({already_started, Name}) ->
    io_lib:format("a recorder with the name ~tp runs already", [Name]);
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

handle({kymo_recorder, Pid, State}) when is_pid(Pid), is_reference(State) ->
    {Pid, State};
handle(Name) when is_atom(Name) ->
    case kymo_server:find(Name) of
        {ok, Pid, State} -> {Pid, State};
        gone -> {error, "no recorder has this name"}
    end;
handle(_) ->
    {error, "not a recorder"}.

stopped({error, stopped}) -> {error, already_stopped};
stopped(Answer) -> Answer.

answer(gone) -> {error, already_stopped};
answer(Answer) -> Answer.
