%% SPDX-License-Identifier: Apache-2.0
%%
%% @doc The tracer module: the `erl_tracer' behaviour, in C.
%%
%% A tracer is `{kymo_tracer, State}', where `State' is returned by {@link open/1}. The
%% runtime accepts it wherever it accepts a tracer module:
%%
%% ```
%% {ok, State} = kymo_tracer:open(#{dir => "/var/tmp/recording"}),
%% erlang:trace(Pid, true, [call, {tracer, kymo_tracer, State}]),
%% erlang:trace_pattern(MFA, MatchSpec, [{meta, kymo_tracer, State}]),
%% dbg:tracer(module, {kymo_tracer, State}),
%% trace:session_create(Name, {kymo_tracer, State}, []),
%% seq_trace:set_system_tracer({kymo_tracer, State})
%% '''
%%
%% This is the lowest layer. It sets and removes no trace flags or patterns. Use {@link
%% kymo} unless you set these yourself. The callbacks (`enabled' and `trace' functions) are
%% for the runtime.
%%
%% == What is recorded ==
%% Each event has its time, thread, process or port, and subject (function, peer,
%% registered name). Contents are recorded if an option enables them, up to `content_bytes'
%% each; what does not fit is replaced by the atom `` '...' '', and marked as cut.
%% A local fun is recorded as `{'$fun', Text}', a native record as
%% `{'$record', Module, Name, #{Field => Value}}'.
%%
%% == Errors ==
%% All functions but {@link open/1} raise `badarg', with an explanation in the extended
%% error information, if their first argument is not a state of this module. As a tracer
%% such a state is harmless: the runtime removes it at the first event.
-module(kymo_tracer).

-behaviour(erl_tracer).

-export([define_process/4, define_process/6, info/1, let_go/1, note_measures/2, note_taken/2, open/1, pause/1, resume/1, snapshot/2, stop/1]).
-export([budget/3, note_shed/4, rates/1, sample/3]).
-export([note_counters/2, note_monitor/5, note_observed/6]).
-export([format_library/1, load_library/1, priv_dirs/0]).
-export([enabled/3, enabled_call/3, enabled_garbage_collection/3, enabled_ports/3, enabled_procs/3,
         enabled_receive/3, enabled_running_ports/3, enabled_running_procs/3, enabled_send/3,
         trace/5, trace_call/5, trace_garbage_collection/5, trace_ports/5, trace_procs/5,
         trace_receive/5, trace_running_ports/5, trace_running_procs/5, trace_send/5]).
-export([format_error/2]).

-export_type([state/0, options/0, tag/0, info/0, reason/0, no_library/0]).

-on_load(load/0).

-type state() :: reference().
%% A recorder. It ends when {@link stop/1} is called, its owner dies, a limit is
%% reached, or the last reference to it is gone.

-type tag() :: erl_tracer:trace_tag() | seq_trace | taken | slow
             | calls | messages | procs | ports | running | running_procs | running_ports
             | garbage_collection.
%% A trace tag, or a class of trace tags. `messages' includes `taken', `receive' does not.
%% `slow' are the calls that the action `slow' of a match specification reports, on runtimes that
%% have it; `calls' includes them.

-type options() ::
        #{dir := file:name_all(),
          policy => overwrite | discard,
          clock => auto | counter | monotonic,
          memory => pos_integer(),
          segment_size => pos_integer(),
          dict_size => pos_integer(),
          events => [tag()] | all,
          calls => arity | arguments,
          returns => none | values,
          messages => none | size | contents,
          terms => none | contents,
          gc => none | sizes,
          content_bytes => 0..16384,
          size_limit => 1..1000000,
          sample => pos_integer() | {process, pos_integer()},
          limit => #{bytes => pos_integer() | infinity,
                     events => pos_integer() | infinity,
                     duration => pos_integer() | infinity},
          file_size => pos_integer(),
          file_age => pos_integer(),
          max_files => pos_integer(),
          owner => pid()}.
%% <dl>
%% <dt>`dir'</dt><dd>the folder of the recording; created if it does not exist; must not
%%   contain a recording</dd>
%% <dt>`policy'</dt><dd>`overwrite' (default): the memory keeps the newest events;
%%   `discard': everything is written to files, and new events are lost while the disk
%%   cannot keep up</dd>
%% <dt>`clock'</dt><dd>`auto' (default) and `counter': the counter of the processor (TSC on
%%   x86-64, CNTVCT on ARM64) if it is reliable, else `monotonic'; `monotonic':
%%   `CLOCK_MONOTONIC'</dd>
%% <dt>`memory'</dt><dd>bytes of the recorder for all threads together, names included;
%%   default 48 MiB. Each thread that records takes 56 KiB more. The minimum depends on the
%%   number of threads of the runtime: 1 MiB is enough for 50</dd>
%% <dt>`segment_size'</dt><dd>bytes, a power of two, 4096 to 1048576; default: 65536, or
%%   less if `memory' is small for the number of threads</dd>
%% <dt>`dict_size'</dt><dd>bytes of `memory' for names, 4096 to 1073741824; default: a
%%   twelfth of `memory'</dd>
%% <dt>`events'</dt><dd>only these events are recorded; default `all'</dd>
%% <dt>`calls'</dt><dd>`arity' (default), or `arguments'</dd>
%% <dt>`returns'</dt><dd>the values of `return_from' and `exception_from': `none' (default)
%%   or `values'</dd>
%% <dt>`messages'</dt><dd>`size' (default): in heap words, as `erts_debug:flat_size/1';
%%   `contents': size and contents; or `none'</dd>
%% <dt>`terms'</dt><dd>exit reasons, arguments of spawned functions, sequential trace:
%%   `none' (default) or `contents'</dd>
%% <dt>`gc'</dt><dd>heap sizes of garbage collections: `sizes' (default) or `none'</dd>
%% <dt>`content_bytes'</dt><dd>the maximum size of each content in bytes; default 512, at
%%   most a quarter of a segment</dd>
%% <dt>`size_limit'</dt><dd>how many terms are visited to find the size of a message, which
%%   is a lower bound beyond that; default 256</dd>
%% <dt>`sample'</dt><dd>records one in N events, or the events of one in N processes;
%%   default 1</dd>
%% <dt>`limit'</dt><dd>the recording ends after these bytes (of segments), events, or
%%   milliseconds; default: no limit</dd>
%% <dt>`file_size', `file_age', `max_files'</dt><dd>policy `discard': bytes and seconds
%%   after which a new data file is started, and how many files are kept</dd>
%% <dt>`owner'</dt><dd>the recording ends when this process does; default: none</dd>
%% </dl>

-type reason() :: {bad_option, Key :: atom(), Value :: term()}
                | {bad_option, memory, Value :: term(), {at_least, Bytes :: pos_integer()}}
                | {enospc, Needed :: pos_integer(), Available :: non_neg_integer()}
                | {unknown_option, Key :: term()}
                | {no_library, no_library()}
                | too_many_recorders
                | file:posix().
%% `bad_option': a value that is not allowed; for `memory' with the minimum for this node and
%% the other options, in bytes. `enospc': the file system has too little space, or a tmpfs too little memory; both numbers
%% are bytes. `unknown_option': no option has this name. `no_library': see {@link
%% no_library()}. `too_many_recorders': 64 recorders of this node are open. POSIX codes: the
%% folder or its files could not be created; `eexist': the folder contains a recording.
%% {@link kymo:format_error/1} returns a message.

-type no_library() :: {missing | noexec | unusable | refused, File :: string(), Text :: string()}.
%% Why the library could not be loaded. `missing': `File' is in none of the folders in
%% `Text'. `noexec': its file system does not allow execution. `unusable': it was built for
%% another system, or needs libraries that this one does not have. `refused': it does not
%% work with this runtime. Set the environment variable `KYMO_PRIV', or the parameter
%% `priv_dir' of the application `kymo', to a folder with a library that works, and call
%% {@link open/1} again.

-type info() ::
        #{state := idle | active | paused | stopping | closed,
          reason := none | stop | owner | bytes | events | duration | unload | collected,
          policy := overwrite | discard,
          clock := counter | monotonic,
          terms := native | external,
          interface := raw | behaviour,
          dir := binary(),
          events := non_neg_integer(),
          bytes := non_neg_integer(),
          sampled_out := non_neg_integer(),
          overwritten := non_neg_integer(),
          lost := lost(),
          dict := #{used := non_neg_integer(), size := pos_integer(), full := non_neg_integer()},
          memory := pos_integer(),
          memory_used := non_neg_integer(),
          complete_from := integer(),
          horizon := non_neg_integer(),
          clock_epochs := non_neg_integer(),
          files := non_neg_integer(),
          files_removed := non_neg_integer(),
          events_removed := non_neg_integer(),
          io_error := none | file:posix(),
          threads := [#{kind := scheduler | dirty_cpu | dirty_io | other,
                        number := non_neg_integer(),
                        name := binary(),
                        events := non_neg_integer(),
                        bytes := non_neg_integer(),
                        sampled_out := non_neg_integer(),
                        overwritten := non_neg_integer(),
                        lost := lost()}]}.
%% <dl>
%% <dt>`events', `sampled_out', `overwritten'</dt><dd>numbers of events: recorded, left out
%%   by sampling, and replaced by newer events after they were recorded</dd>
%% <dt>`memory', `memory_used'</dt><dd>bytes of the recorder, and how many of them have held
%%   events or names</dd>
%% <dt>`complete_from', `horizon'</dt><dd>nothing after `complete_from' (nanoseconds of
%%   `erlang:system_time/1') was overwritten or removed; `horizon' is the number of
%%   milliseconds from then until now, or until the end</dd>
%% <dt>`dict'</dt><dd>bytes used and available for names; `full' counts names for which
%%   there was no room</dd>
%% <dt>`clock_epochs'</dt><dd>how often the clock was corrected, after a suspend or a
%%   migration of the machine</dd>
%% <dt>`terms'</dt><dd>`external' on a runtime whose representation of pids and ports the
%%   library does not know: it converts them through the runtime, which adds 0.1 us to
%%   each event</dd>
%% <dt>`interface'</dt><dd>how the runtime passes events: `raw' on the patched runtime (see
%%   `erts_patches'), unless the node was started with `KYMO_EVENTS=behaviour' in its
%%   environment</dd>
%% </dl>

-type lost() :: #{ring_full := non_neg_integer(), io := non_neg_integer(),
                  no_slot := non_neg_integer(), too_big := non_neg_integer(),
                  bad_term := non_neg_integer(), reentry := non_neg_integer()}.
%% Numbers of lost events by cause: the files could not keep up; a file could not be written
%% (see `io_error'); more threads recorded than there are slots; the event was larger than a
%% segment; a term could not be read; the thread was already recording an event.

%% Raises badarg in the function that was called, with an explanation of its
%% own.
%% Functions whose names are looked up in one go, so that no scheduler is kept for long.
-define(NOTED_AT_ONCE, 512).

%% KYMO_MEASURES_BYTES of kymo_format.h.
-define(MEASURES_BYTES, 1536).

-define(EXPLAIN(Call, Args),
        try
            Call
        catch
            %% Without the library there is no state that could be right.
            error:Why when Why =:= badarg; Why =:= not_loaded ->
                erlang:error(badarg, Args, [{error_info, #{module => ?MODULE}}])
        end).

-define(NOT_LOADED, erlang:nif_error(not_loaded)).

%% ---- control ----------------------------------------------------------------

%% @doc Starts a recorder. It records immediately, whatever is traced with it.
-spec open(options()) -> {ok, state()} | {error, reason()}.
open(#{dir := Dir} = Options) ->
    case open_with_library(Options#{dir := native(Dir)}) of
        {error, {bad_option, dir, _}} -> {error, {bad_option, dir, Dir}};
        Result -> Result
    end;
open(Options) ->
    open_with_library(Options).

open_with_library(Options) ->
    try
        nif_open(Options, threads())
    catch
        error:not_loaded ->
            case load_library() of
                ok -> nif_open(Options, threads());
                {error, Reason} -> {error, {no_library, Reason}}
            end
    end.

%% The threads of the runtime that may record: schedulers of all kinds, those of the
%% asynchronous pool, and some more for threads of drivers and NIFs.
threads() ->
    Kinds = [schedulers, dirty_cpu_schedulers, dirty_io_schedulers, thread_pool_size],
    min(4096, 8 + lists:sum([erlang:system_info(Kind) || Kind <- Kinds])).

%% @doc Ends a recording. When it returns, all files are complete. `already_stopped': it was
%% stopped before. POSIX codes: the last error of writing to its files.
-spec stop(state()) -> ok | {error, already_stopped | file:posix()}.
stop(State) ->
    ?EXPLAIN(nif_stop(State), [State]).

%% @doc Pauses the recorder: nothing is recorded until {@link resume/1}. Trace flags stay set.
%% `already_paused': it is paused. `stopped': it has ended, or is ending.
-spec pause(state()) -> ok | {error, already_paused | stopped | file:posix()}.
pause(State) ->
    ?EXPLAIN(nif_pause(State), [State]).

%% @doc Continues recording after {@link pause/1}. `not_paused': it is recording. `stopped': it
%% has ended, or is ending.
-spec resume(state()) -> ok | {error, not_paused | stopped | file:posix()}.
resume(State) ->
    ?EXPLAIN(nif_resume(State), [State]).

%% @doc Returns counters and state, also after the end.
-spec info(state()) -> info().
info(State) ->
    ?EXPLAIN(nif_info(State), [State]).

%% @doc Keeps no file of a stopped recorder open or mapped, so that the space of files that are
%% removed is free although a tracer with this state still exists. Snapshots fail with `eshutdown' from
%% then on. `ebusy': it has not been stopped.
-spec let_go(state()) -> ok | {error, file:posix() | ebusy}.
let_go(State) ->
    ?EXPLAIN(nif_let_go(State), [State]).

%% @doc Copies what the recorder holds now into a new recording in the folder `Dir', without
%% stopping it. Returns how many segments and events were copied. Errors are those of {@link
%% open/1}.
-spec snapshot(state(), Dir :: file:name_all()) ->
          {ok, #{segments := non_neg_integer(), events := non_neg_integer()}} | {error, reason()}.
snapshot(State, Dir) ->
    case ?EXPLAIN(nif_snapshot(State, native(Dir)), [State, Dir]) of
        {error, {bad_option, dir, _}} -> {error, {bad_option, dir, Dir}};
        Result -> Result
    end.

%% @doc Writes the name and the initial call of a process into the recording, for processes
%% that started before it. `Name' is the registered name, or any UTF-8 text of up to 255
%% characters; `undefined' if there is none. `dict_full': there is no room for it.
%% `not_recorded': the recorder is paused, or has no slot for this thread. `stopped': it has
%% ended.
-spec define_process(state(), pid() | port(), Name :: atom() | binary(), mfa() | undefined) ->
          ok | {error, stopped | not_recorded | dict_full}.
define_process(State, Pid, Name, MFA) ->
    ?EXPLAIN(nif_define_process(State, Pid, checked_name(Name), MFA, undefined, undefined), [State, Pid, Name, MFA]).

%% @doc Writes the name, the initial call and the relatives of a process into the recording.
%% `Parent' is the process that started it, `Caller' the one that it works for: a pid of any
%% node or a registered name, `undefined' if there is none or it is unknown. See {@link
%% define_process/4} for the errors `stopped', `not_recorded' and `dict_full'.
-spec define_process(state(), pid() | port(), Name :: atom() | binary(), mfa() | undefined,
                     Parent :: pid() | atom(), Caller :: pid() | atom()) ->
          ok | {error, stopped | not_recorded | dict_full}.
define_process(State, Pid, Name, MFA, Parent, Caller) ->
    ?EXPLAIN(nif_define_process(State, Pid, checked_name(Name), MFA, Parent, Caller),
             [State, Pid, Name, MFA, Parent, Caller]).

%% The library rejects other terms.
checked_name(Name) ->
    case is_name(Name) of
        true -> Name;
        false -> 0
    end.

%% @doc Notes in the recording that other tracers have removed `Count' of its trace patterns,
%% flags and sessions. The largest count is kept. Allowed after the end, too.
-spec note_taken(state(), Count :: non_neg_integer()) -> ok.
note_taken(State, Count) ->
    ?EXPLAIN(nif_note_taken(State, Count), [State, Count]).

%% @doc Notes in the recording what the recorder leaves undone because of faults of this runtime, as
%% {@link kymo_faults:encoded/1} writes it. The text must begin with that of the call before. Allowed
%% after the end, too.
-spec note_measures(state(), Text :: binary()) -> ok.
note_measures(State, Text) ->
    ?EXPLAIN(nif_note_measures(State, Text), [State, Text]).

%% @doc Notes the recorder's budget in the recording: millionths of the time of each
%% scheduler, and events per second. 0 means no bound.
-spec budget(state(), Millionths :: non_neg_integer(), Events :: non_neg_integer()) -> ok.
budget(State, Millionths, Events) ->
    ?EXPLAIN(nif_budget(State, Millionths, Events), [State, Millionths, Events]).

%% @doc Returns how many events each thread has been offered so far (recorded, lost and
%% sampled out), always in the same order, and the time, for {@link sample/3}. Takes about a
%% microsecond. `not_recorded': the recorder is paused or has ended.
-spec rates(state()) -> kymo_budget:rates() | not_recorded.
rates(State) ->
    ?EXPLAIN(nif_rates(State), [State]).

%% @doc Counts events by kind and by function in a part of the newest records, not older than
%% `Since' (see {@link rates/1}). Returns at most `Most' functions, the most frequent first.
%% `busy': a snapshot is being taken, or the recorder is ending.
-spec sample(state(), Since :: non_neg_integer(), Most :: 0..65536) -> {ok, kymo_budget:sample()} | {error, busy}.
sample(State, Since, Most) ->
    case ?EXPLAIN(nif_sample(State, Since, Most), [State, Since, Most]) of
        {ok, Kinds, Functions} -> {ok, {Kinds, Functions}};
        {error, busy} -> {error, busy}
    end.

%% @doc Notes in the recording that from now on events of these kinds and calls of these
%% functions are no longer recorded (`shed'), or are recorded again (`given_back').
%% `not_recorded': the recorder is paused or has ended.
-spec note_shed(state(), shed | given_back, [kymo_tracing:kind()], [mfa()]) -> ok | {error, not_recorded}.
note_shed(State, What, Kinds, Functions) when length(Functions) > ?NOTED_AT_ONCE ->
    {Part, Rest} = lists:split(?NOTED_AT_ONCE, Functions),
    case note_shed(State, What, Kinds, Part) of
        ok -> note_shed(State, What, Kinds, Rest);
        {error, not_recorded} = Error -> Error
    end;
note_shed(State, What, Kinds, Functions) ->
    ?EXPLAIN(nif_note_shed(State, What, Kinds, Functions), [State, What, Kinds, Functions]).

%% @doc Records values of counters of the node, at most 127, as of now, and
%% `cpu_time': their names are those of `KYMO_COUNTERS_OF_NODE' in `kymo_format.h', the index
%% is the number of a scheduler, the rank of a process, or 0, and only `busy_process' has a pid. `not_recorded': the recorder is paused or has ended.
-spec note_counters(state(), [kymo_counters:value()]) -> ok | {error, not_recorded}.
note_counters(State, Values) ->
    ?EXPLAIN(nif_note_counters(State, Values), [State, Values]).

%% @doc Records what `erlang:system_monitor/2' has reported, or a note about that: what, of
%% which process, at which port, with which value, and for `long_schedule' where the process
%% was scheduled out and in. `not_recorded': the recorder is paused or has ended.
-spec note_monitor(state(), Kind :: atom(), {pid() | port() | undefined, port() | undefined}, non_neg_integer(),
                   {mfa() | undefined, mfa() | undefined}) -> ok | {error, not_recorded}.
note_monitor(State, Kind, {Process, Port} = Whose, Value, {Out, In} = Where) ->
    ?EXPLAIN(nif_note_monitor(State, Kind, Process, Port, Value, Out, In), [State, Kind, Whose, Value, Where]);
note_monitor(State, Kind, Whose, Value, Where) ->
    erlang:error(badarg, [State, Kind, Whose, Value, Where], [{error_info, #{module => ?MODULE}}]).

%% @doc Records what a process did when it was named: `waits' or `suspended' in a function, called from another
%% one, with so many messages in its mailbox and, if it is known, the process that it waits for; or
%% that it holds a lock of global, and which. `not_recorded': the recorder is paused or has ended.
-spec note_observed(state(), Kind :: waits | suspended | holds_global_lock, {pid(), pid() | undefined}, Lock :: atom(),
                    Mailbox :: non_neg_integer(), {mfa() | undefined, mfa() | undefined}) -> ok | {error, not_recorded}.
note_observed(State, Kind, {Process, For} = Whose, Lock, Mailbox, {Function, From} = Where) ->
    ?EXPLAIN(nif_note_observed(State, Kind, Process, For, Lock, Mailbox, Function, From),
             [State, Kind, Whose, Lock, Mailbox, Where]);
note_observed(State, Kind, Whose, Lock, Mailbox, Where) ->
    erlang:error(badarg, [State, Kind, Whose, Lock, Mailbox, Where], [{error_info, #{module => ?MODULE}}]).

%% @doc Explains a `badarg' of this module for the shell and the logger, as the extended error
%% information of Erlang/OTP requires.
-spec format_error(Reason :: term(), Stack :: [term()]) -> #{pos_integer() | general => binary()}.
format_error(badarg, [{?MODULE, define_process, [State, Pid, Name, MFA | Relatives], _} | _]) ->
    explain([{1, is_state(State), <<"not a recorder of kymo_tracer">>},
             {2, is_local(Pid), <<"not a process or port of this node">>},
             {3, is_name(Name), <<"neither an atom nor UTF-8 text of up to 255 characters">>},
             {4, is_mfa(MFA), <<"neither undefined nor {Module, Function, Arity}">>} |
             [{N, is_atom(Relative) orelse is_pid(Relative), <<"neither a process nor a registered name">>} ||
                 {N, Relative} <- lists:zip(lists:seq(5, 4 + length(Relatives)), Relatives)]]);
format_error(badarg, [{?MODULE, note_taken, [State, Count], _} | _]) ->
    explain([{1, is_state(State), <<"not a recorder of kymo_tracer">>},
             {2, is_uint64(Count), <<"not a number from 0 to 2^64 - 1">>}]);
format_error(badarg, [{?MODULE, note_measures, [State, Text], _} | _]) ->
    explain([{1, is_state(State), <<"not a recorder of kymo_tracer">>},
             {2, is_binary(Text) andalso byte_size(Text) =< ?MEASURES_BYTES, <<"not a binary of at most 1536 bytes">>}]);
format_error(badarg, [{?MODULE, budget, [State, Millionths, Events], _} | _]) ->
    explain([{1, is_state(State), <<"not a recorder of kymo_tracer">>} |
             [{N, is_uint64(Arg), <<"not a number from 0 to 2^64 - 1">>} || {N, Arg} <- [{2, Millionths}, {3, Events}]]]);
format_error(badarg, [{?MODULE, sample, [State, Since, Most], _} | _]) ->
    explain([{1, is_state(State), <<"not a recorder of kymo_tracer">>},
             {2, is_uint64(Since), <<"not a number from 0 to 2^64 - 1">>},
             {3, is_uint64(Most) andalso Most =< 65536, <<"not a number from 0 to 65536">>}]);
format_error(badarg, [{?MODULE, note_shed, [State, What, Kinds, Functions], _} | _]) ->
    explain([{1, is_state(State), <<"not a recorder of kymo_tracer">>},
             {2, lists:member(What, [shed, given_back]), <<"neither shed nor given_back">>},
             {3, is_list(Kinds), <<"not a list of kinds of events">>},
             {4, is_list(Functions), <<"not a list of {Module, Function, Arity}, at most 65536">>}]);
format_error(badarg, [{?MODULE, note_counters, [State, Values], _} | _]) ->
    explain([{1, is_state(State), <<"not a recorder of kymo_tracer">>},
             {2, is_values(Values), <<"not a list of at most 127 {Counter, Index, Value}">>}]);
format_error(badarg, [{?MODULE, note_monitor, [State, Kind, Whose, Value, Where], _} | _]) ->
    explain([{1, is_state(State), <<"not a recorder of kymo_tracer">>},
             {2, is_atom(Kind), <<"not an atom">>},
             {3, is_pair(Whose, fun is_local/1), <<"not {Process, Port} of this node, undefined if there is none">>},
             {4, is_uint64(Value), <<"not a number from 0 to 2^64 - 1">>},
             {5, is_pair(Where, fun is_mfa/1), <<"not a pair of undefined or {Module, Function, Arity}">>}]);
format_error(badarg, [{?MODULE, note_observed, [State, Kind, Whose, Lock, Mailbox, Where], _} | _]) ->
    explain([{1, is_state(State), <<"not a recorder of kymo_tracer">>},
             {2, is_atom(Kind), <<"not an atom">>},
             {3, is_pair(Whose, fun is_local/1), <<"not {Process, WaitsFor} of this node, undefined if there is none">>},
             {4, is_atom(Lock), <<"not an atom">>},
             {5, is_uint64(Mailbox), <<"not a number from 0 to 2^64 - 1">>},
             {6, is_pair(Where, fun is_mfa/1), <<"not a pair of undefined or {Module, Function, Arity}">>}]);
format_error(badarg, [{?MODULE, _, _, _} | _]) ->
    #{1 => <<"not a recorder of kymo_tracer">>};
format_error(_, _) ->
    #{}.

is_pair({A, B}, Is) -> lists:all(fun(X) -> X =:= undefined orelse Is(X) end, [A, B]);
is_pair(_, _) -> false.

%% An improper list makes the guard fail.
is_values(Values) when length(Values) =< 127 ->
    lists:all(fun({C, I, V}) -> is_atom(C) andalso is_integer(I) andalso (is_pid(V) orelse is_uint64(V)); (_) -> false end, Values);
is_values(_) -> false.

is_uint64(N) -> is_integer(N) andalso N >= 0 andalso N < 1 bsl 64.

explain(Checks) ->
    maps:from_list([{N, Text} || {N, false, Text} <- Checks]).

is_state(State) ->
    try nif_info(State) of
        _ -> true
    catch
        error:Why when Why =:= badarg; Why =:= not_loaded -> false
    end.

is_local(Pid) ->
    (is_pid(Pid) orelse is_port(Pid)) andalso node(Pid) =:= node().

is_name(Name) when is_binary(Name) ->
    case unicode:characters_to_list(Name) of
        Text when is_list(Text) -> length(Text) =< 255;
        _ -> false
    end;
is_name(Name) ->
    is_atom(Name).

is_mfa(undefined) -> true;
is_mfa({M, F, A}) -> is_atom(M) andalso is_atom(F) andalso is_integer(A) andalso A >= 0 andalso A =< 255;
is_mfa(_) -> false.

%% Converts a file name to the bytes for the operating system. Returns other terms unchanged;
%% the library rejects them.
native(Name) when is_atom(Name) ->
    native(atom_to_list(Name));
native(Name) when is_list(Name) ->
    try unicode:characters_to_binary(filename:flatten(Name), unicode, file:native_name_encoding()) of
        Bytes when is_binary(Bytes) -> Bytes;
        _ -> Name
    catch
        error:_ -> Name
    end;
native(Name) ->
    Name.

%% ---- loading ----------------------------------------------------------------

%% Without the library the module stays loaded, so that open/1 can report the cause and try
%% again. During an upgrade the load fails instead, and the old code stays current.
load() ->
    case load_library() of
        ok ->
            ok;
        {error, {_, _, Text}} ->
            case erlang:module_loaded(?MODULE) of
                true -> {error, Text};
                false -> ok
            end
    end.

-spec load_library() -> ok | {error, no_library()}.
load_library() ->
    case file_server_runs() of
        false ->
            %% The node is booting in embedded mode; open/1 will try again.
            {error, {missing, ?MODULE_STRING ".so", "the node is starting"}};
        true ->
            load_file(library())
    end.

%% @private Loads the library in the folder `Dir', unless one is loaded already.
-spec load_library(Dir :: file:filename_all()) -> ok | {error, no_library()}.
load_library(Dir) ->
    load_file({ok, filename:join(Dir, ?MODULE)}).

file_server_runs() -> whereis(file_server_2) =/= undefined andalso whereis(code_server) =/= undefined.

load_file({error, _} = Error) ->
    Error;
load_file({ok, File}) ->
    _ = code:ensure_loaded(erts_debug),
    Fun = fun() -> ok end,
    %% The library determines the runtime's representation of terms from these.
    Large = list_to_binary([N rem 251 || N <- lists:seq(0, 999)]),
    <<_:3, Offset/bits>> = Large,
    Begun = <<(binary:part(Large, 0, 998))/binary, (binary:at(Large, 998))>>,
    Built = <<Begun/binary, (binary:at(Large, 999))>>,
    Magic = atomics:new(1, []),
    Alias = alias(),
    true = unalias(Alias),
    Export = fun erlang:self/0,
    Info = {min(erts_debug:flat_size(Fun), erts_debug:flat_size(fun erlang:self/0)),
            erts_debug:flat_size(#{}),
            Large, Offset, Built, Magic, Alias, Export,
            erlang:convert_time_unit(1, second, native)},
    case erlang:load_nif(File, Info) of
        ok ->
            ok;
        {error, {reload, _}} ->
            %% Another process has loaded it in between.
            ok;
        {error, {Why, Text}} ->
            {error, {cause(Why, Text), File ++ ".so", explain_load(lists:flatten(Text))}}
    end.

%% Messages of dlopen differ between systems, except for these words.
cause(load_failed, Text) ->
    case string:find(Text, "failed to map segment") of
        nomatch -> unusable;
        _ -> noexec
    end;
cause(_, _) ->
    refused.

%% The first folder that has the library. If the user has named a folder, only that one is
%% searched.
library() ->
    Dirs = priv_dirs(),
    Files = [filename:join(Dir, ?MODULE) || Dir <- Dirs],
    case [File || File <- Files, filelib:is_regular(File ++ ".so")] of
        [File | _] -> {ok, File};
        [] -> {error, {missing, ?MODULE_STRING ".so", lists:flatten(lists:join(", ", Dirs))}}
    end.

%% @private Folders that may contain the compiled C code: the one that the environment variable
%% `KYMO_PRIV' or the application parameter `priv_dir' names; otherwise the priv folder of the
%% application, and that beside the module's folder, which may be a release, a checkout or a
%% build folder. During an upgrade code:which/1 still returns the path of the old module.
-spec priv_dirs() -> [file:filename()].
priv_dirs() ->
    case {os:getenv("KYMO_PRIV"), application:get_env(kymo, priv_dir)} of
        {[_ | _] = Dir, _} ->
            [Dir];
        {_, {ok, Dir}} ->
            [Dir];
        _ ->
            Beams = [code:where_is_file(?MODULE_STRING ++ ".beam"), code:which(?MODULE)],
            Near = [filename:join([filename:dirname(Beam), "..", "priv"]) || Beam <- Beams, is_list(Beam)],
            [Priv || Priv <- [code:priv_dir(kymo)], is_list(Priv)] ++ Near
    end.

%% @private A message with the cause and the remedy.
-spec format_library(no_library()) -> unicode:chardata().
format_library({missing, File, Dirs}) ->
    io_lib:format("the library ~ts is not in ~ts; ~ts", [File, Dirs, elsewhere()]);
format_library({noexec, File, Text}) ->
    io_lib:format("the library ~ts is on a file system that does not allow execution (noexec): ~ts; "
                  "copy its folder to another one and ~ts", [File, Text, elsewhere()]);
format_library({unusable, File, Text}) ->
    io_lib:format("the library ~ts was built for another system, or a library that it needs is missing: ~ts; "
                  "build kymo on a system like this one and ~ts", [File, Text, elsewhere()]);
format_library({refused, File, Text}) ->
    io_lib:format("the library ~ts does not work in this runtime: ~ts", [File, Text]).

elsewhere() ->
    "name the folder of the library in the environment variable KYMO_PRIV, "
    "or with application:set_env(kymo, priv_dir, Dir)".

%% The runtime only passes on the number that the library's load function has returned.
explain_load(Text) ->
    Reasons = [{1, "the resource type is taken"},
               {2, "the runtime cannot call the library when it halts"},
               {3, "no exit handler can be installed"},
               {4, "another build of the library still has recorders: stop them and drop their states first"},
               {11, "atoms are not what was expected: a runtime that kymo does not know"},
               {12, "integers are not what was expected: a runtime that kymo does not know"},
               {13, "lists are not what was expected: a runtime that kymo does not know"},
               {14, "kymo_tracer.beam and kymo_tracer.so are of different versions"},
               {15, "no process to load from"},
               {16, "no memory"}],
    case re:run(Text, "\\((-?[0-9]+)\\)", [{capture, [1], list}]) of
        {match, [N]} ->
            case lists:keyfind(list_to_integer(N), 1, Reasons) of
                {_, Reason} -> Text ++ " " ++ Reason;
                false -> Text
            end;
        nomatch ->
            Text
    end.

nif_open(_Options, _Threads) -> ?NOT_LOADED.
nif_stop(_State) -> ?NOT_LOADED.
nif_pause(_State) -> ?NOT_LOADED.
nif_resume(_State) -> ?NOT_LOADED.
nif_info(_State) -> ?NOT_LOADED.
nif_let_go(_State) -> ?NOT_LOADED.
nif_snapshot(_State, _Dir) -> ?NOT_LOADED.
nif_define_process(_State, _Pid, _Name, _MFA, _Parent, _Caller) -> ?NOT_LOADED.
nif_note_taken(_State, _Count) -> ?NOT_LOADED.
nif_note_measures(_State, _Text) -> ?NOT_LOADED.
nif_budget(_State, _Millionths, _Events) -> ?NOT_LOADED.
nif_rates(_State) -> ?NOT_LOADED.
nif_sample(_State, _Since, _Most) -> ?NOT_LOADED.
nif_note_shed(_State, _What, _Kinds, _Functions) -> ?NOT_LOADED.
nif_note_counters(_State, _Values) -> ?NOT_LOADED.
nif_note_monitor(_State, _Kind, _Process, _Port, _Value, _Out, _In) -> ?NOT_LOADED.
nif_note_observed(_State, _Kind, _Process, _For, _Lock, _Mailbox, _Function, _From) -> ?NOT_LOADED.

%% ---- the behaviour: for the runtime ------------------------------------------
%%
%% The `enabled' functions return `trace', or `discard' for events that the options exclude, for
%% a recorder that is paused or has ended, and for a state of another module. For `trace_status'
%% they return `remove' in the last two cases. The trace functions return `ok' for any arguments.

-type answer() :: trace | discard | remove.

%% @private
-spec enabled(erl_tracer:trace_tag() | seq_trace | trace_status, term(), erl_tracer:tracee()) -> answer().
enabled(_Tag, _State, _Tracee) -> ?NOT_LOADED.

%% @private
-spec enabled_call(erl_tracer:trace_tag_call(), term(), erl_tracer:tracee()) -> answer().
enabled_call(_Tag, _State, _Tracee) -> ?NOT_LOADED.

%% @private
-spec enabled_garbage_collection(erl_tracer:trace_tag_gc(), term(), erl_tracer:tracee()) -> answer().
enabled_garbage_collection(_Tag, _State, _Tracee) -> ?NOT_LOADED.

%% @private
-spec enabled_ports(erl_tracer:trace_tag_ports(), term(), erl_tracer:tracee()) -> answer().
enabled_ports(_Tag, _State, _Tracee) -> ?NOT_LOADED.

%% @private
-spec enabled_procs(erl_tracer:trace_tag_procs(), term(), erl_tracer:tracee()) -> answer().
enabled_procs(_Tag, _State, _Tracee) -> ?NOT_LOADED.

%% @private
-spec enabled_receive(erl_tracer:trace_tag_receive(), term(), erl_tracer:tracee()) -> answer().
enabled_receive(_Tag, _State, _Tracee) -> ?NOT_LOADED.

%% @private
-spec enabled_running_ports(erl_tracer:trace_tag_running_ports(), term(), erl_tracer:tracee()) -> answer().
enabled_running_ports(_Tag, _State, _Tracee) -> ?NOT_LOADED.

%% @private
-spec enabled_running_procs(erl_tracer:trace_tag_running_procs(), term(), erl_tracer:tracee()) -> answer().
enabled_running_procs(_Tag, _State, _Tracee) -> ?NOT_LOADED.

%% @private
-spec enabled_send(erl_tracer:trace_tag_send(), term(), erl_tracer:tracee()) -> answer().
enabled_send(_Tag, _State, _Tracee) -> ?NOT_LOADED.

%% @private
-spec trace(erl_tracer:trace_tag() | seq_trace, term(), erl_tracer:tracee() | term(), term(),
            erl_tracer:trace_opts()) -> ok.
trace(_Tag, _State, _Tracee, _Term, _Opts) -> ?NOT_LOADED.

%% @private
-spec trace_call(erl_tracer:trace_tag_call(), term(), erl_tracer:tracee(), term(),
                 erl_tracer:trace_opts()) -> ok.
trace_call(_Tag, _State, _Tracee, _Term, _Opts) -> ?NOT_LOADED.

%% @private
-spec trace_garbage_collection(erl_tracer:trace_tag_gc(), term(), erl_tracer:tracee(), term(),
                               erl_tracer:trace_opts()) -> ok.
trace_garbage_collection(_Tag, _State, _Tracee, _Term, _Opts) -> ?NOT_LOADED.

%% @private
-spec trace_ports(erl_tracer:trace_tag(), term(), erl_tracer:tracee(), term(),
                  erl_tracer:trace_opts()) -> ok.
trace_ports(_Tag, _State, _Tracee, _Term, _Opts) -> ?NOT_LOADED.

%% @private
-spec trace_procs(erl_tracer:trace_tag(), term(), erl_tracer:tracee(), term(),
                  erl_tracer:trace_opts()) -> ok.
trace_procs(_Tag, _State, _Tracee, _Term, _Opts) -> ?NOT_LOADED.

%% @private
-spec trace_receive(erl_tracer:trace_tag_receive(), term(), erl_tracer:tracee(), term(),
                    erl_tracer:trace_opts()) -> ok.
trace_receive(_Tag, _State, _Tracee, _Term, _Opts) -> ?NOT_LOADED.

%% @private
-spec trace_running_ports(erl_tracer:trace_tag_running_ports(), term(), erl_tracer:tracee(), term(),
                          erl_tracer:trace_opts()) -> ok.
trace_running_ports(_Tag, _State, _Tracee, _Term, _Opts) -> ?NOT_LOADED.

%% @private
-spec trace_running_procs(erl_tracer:trace_tag_running_procs(), term(), erl_tracer:tracee(), term(),
                          erl_tracer:trace_opts()) -> ok.
trace_running_procs(_Tag, _State, _Tracee, _Term, _Opts) -> ?NOT_LOADED.

%% @private
-spec trace_send(erl_tracer:trace_tag_send(), term(), erl_tracer:tracee(), term(),
                 erl_tracer:trace_opts()) -> ok.
trace_send(_Tag, _State, _Tracee, _Term, _Opts) -> ?NOT_LOADED.
