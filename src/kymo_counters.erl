%% SPDX-License-Identifier: Apache-2.0
%% @private A process that records the node's counters at intervals, and the reports of
%% `erlang:system_monitor/2' ({@link kymo_monitor}). It belongs to the server of a recorder:
%% it ends with the server, which restarts it if it dies.
%%
%% The cost of a sample does not depend on the number of processes. The runtime reads most
%% values from a few words of memory, and asks each scheduler once for memory, utilisation,
%% collections and I/O. The busiest processes come from {@link kymo_busiest}, which measures a
%% bounded number of processes between two samples.
-module(kymo_counters).

-export([check/1, start/5, stop/1, info/1]).
-export([init/1]).
-export_type([option/0, value/0, handle/0]).

-type option() :: none | pos_integer().
%% Milliseconds between samples.

-type value() :: {Counter :: atom(), Index :: non_neg_integer(), Value :: non_neg_integer() | pid()}.
%% The index is the number of a scheduler, the rank of a process, or 0.

-type handle() :: none | {pid(), Monitor :: reference()}.

-record(counters, {
    recorder :: reference(),
    server :: reference(),
    interval :: option(),
    avoid :: [kymo_faults:measure()],
    busiest = none :: none | pid(),
    %% Of the newest measurement; `asked' until it arrives.
    busy = [] :: asked | kymo_busiest:values(),
    monitor :: none | kymo_monitor:t(),
    next :: integer(),
    times = #{} :: #{pos_integer() => {Active :: integer(), Total :: integer()}},
    samples = 0 :: non_neg_integer(),
    skipped = 0 :: non_neg_integer(),
    spent = 0 :: non_neg_integer()
}).

%% Interval in ms of the check whether the system monitor is still set. It does not depend on the
%% interval of the samples, which may be an hour.
-define(LOOK_INTERVAL, 200).

%% How long a process of a node that is not overloaded takes to answer, at most, in ms.
-define(PROMPT, 100).

%% Values per record. The library adds one value of its own to each.
-define(AT_ONCE, 100).

%% Shortest interval in ms. More frequent samples would be a noticeable load.
-define(LEAST, 10).
-define(MOST, 3600000).

%% @doc Whether the term is a valid value of the option `counters'.
-spec check(term()) -> boolean().
check(none) -> true;
check(Interval) -> is_integer(Interval) andalso Interval >= ?LEAST andalso Interval =< ?MOST.

%% @doc Starts the process for the calling process, the server; starts none if neither counters
%% nor the system monitor are to be recorded. Returns when the first sample has been taken and
%% the system monitor is set.
-spec start(State :: reference(), option(), kymo_monitor:option(), kymo_tracing:mode(), [kymo_faults:measure()]) -> handle().
start(_, none, none, _, _) ->
    none;
start(State, Interval, Monitor, Mode, Avoid) ->
    Settings = kymo_monitor:options(Monitor),
    {Pid, Down} = spawn_opt(?MODULE, init, [{self(), State, Interval, Settings, Mode, Avoid}], [
        monitor | kymo_server:spawn_options(high)
    ]),
    receive
        {Pid, ready} -> ok;
        {'DOWN', Down, process, _, _} = Died -> self() ! Died
    end,
    {Pid, Down}.

%% @doc Takes a last sample, restores the node's settings and ends the process. Returns when
%% the process has ended.
-spec stop(handle()) -> none.
stop(none) ->
    none;
stop({Pid, Monitor}) ->
    Pid ! stop,
    receive
        {'DOWN', Monitor, process, _, _} -> none
    end.

%% @doc The members `counters' and `system_monitor' of `kymo:info/1'.
-spec info(handle()) -> #{counters := none | map(), system_monitor := none | map()}.
info(none) ->
    none();
info({Pid, _}) ->
    Tag = monitor(process, Pid, [{alias, reply_demonitor}]),
    Pid ! {info, Tag},
    receive
        {Tag, Info} -> Info;
        {'DOWN', Tag, process, _, _} -> none()
    end.

none() -> #{counters => none, system_monitor => none}.

%% ---- the process ----------------------------------------------------------------

%% @private
-spec init({pid(), reference(), option(), none | list(), kymo_tracing:mode(), [kymo_faults:measure()]}) -> ok.
init({Server, State, Interval, Settings, Mode, Avoid}) ->
    process_flag(sensitive, true),
    process_flag(trap_exit, true),
    _ = Interval =:= none orelse measure_wall_time(),
    Monitor =
        case Settings of
            none -> none;
            _ -> kymo_monitor:new(Settings, monitor_mode(Mode, Avoid))
        end,
    C = #counters{
        recorder = State,
        server = monitor(process, Server),
        interval = Interval,
        avoid = Avoid,
        monitor = Monitor,
        next = now_ms()
    },
    Ready = look_later(look(later(sample(measuring(C))))),
    Server ! {self(), ready},
    loop(Ready).

%% A process of the node, kernel_refc, switches it on, and off when the last process that has enabled
%% it ends. In an overloaded node it may not run, so another process asks it, which ends with this one.
measure_wall_time() ->
    Self = self(),
    try spawn_opt(fun() -> wall_time_for(Self) end, kymo_server:spawn_options(high)) of
        Asks -> receive {Asks, on} -> ok after ?PROMPT -> ok end
    catch
        %% The node already has as many processes as it can have.
        error:system_limit -> erlang:system_flag(scheduler_wall_time, true)
    end.

wall_time_for(Counting) ->
    process_flag(sensitive, true),
    Monitor = monitor(process, Counting),
    _ = erlang:system_flag(scheduler_wall_time, true),
    Counting ! {self(), on},
    receive {'DOWN', Monitor, process, _, _} -> ok end.

monitor_mode(Mode, Avoid) ->
    case lists:member(monitor, Avoid) of
        true -> global;
        false -> Mode
    end.

loop(#counters{server = Server} = C) ->
    receive
        {timeout, _, tick} ->
            loop(later(sample(C)));
        {timeout, _, look} ->
            loop(look_later(look(C)));
        {busiest, Pid, Values} when Pid =:= C#counters.busiest ->
            loop(C#counters{busy = Values});
        {'EXIT', Pid, _} when Pid =:= C#counters.busiest ->
            loop(measuring(C));
        {info, Tag} ->
            Tag ! {Tag, describe(C)},
            loop(C);
        stop ->
            leave(sample(C));
        {'DOWN', Server, process, _, _} ->
            leave(C);
        Message ->
            loop(monitored(Message, C))
    end.

leave(#counters{monitor = Monitor, busiest = Busiest}) ->
    _ = Busiest =:= none orelse kymo_busiest:stop(Busiest),
    _ = Monitor =:= none orelse kymo_monitor:clear(Monitor),
    ok.

measuring(#counters{interval = none} = C) ->
    C;
measuring(#counters{avoid = Avoid} = C) ->
    case lists:member(signals, Avoid) of
        true -> C;
        false -> start_measuring(C)
    end.

start_measuring(C) ->
    %% It is tried again with the next sample if the node has as many processes as it can have.
    Busiest =
        try
            kymo_busiest:start()
        catch
            error:system_limit -> none
        end,
    C#counters{busiest = Busiest, busy = []}.

%% The values of the newest measurement, if there is one since the last sample. Not waiting for it
%% keeps the samples on time.
busiest(#counters{busy = asked}) -> [];
busiest(#counters{busy = Values}) -> Values.

%% Requests the next measurement. At the end of a sample, because the process that measures would
%% otherwise be counted in the run queue.
measured(#counters{busiest = none} = C) ->
    measuring(C);
measured(#counters{busy = asked} = C) ->
    C;
measured(#counters{busiest = Busiest} = C) ->
    kymo_busiest:ask(Busiest),
    C#counters{busy = asked}.

%% Skips the samples that are overdue on a busy machine, so that none follow each other closely.
later(#counters{interval = none} = C) ->
    C;
later(#counters{interval = Interval, next = Next} = C) ->
    Skipped = max(0, now_ms() - Next) div Interval,
    Then = Next + (Skipped + 1) * Interval,
    _ = erlang:start_timer(Then, self(), tick, [{abs, true}]),
    C#counters{next = Then, skipped = C#counters.skipped + Skipped}.

now_ms() -> erlang:monotonic_time(millisecond).

look_later(#counters{monitor = none} = C) ->
    C;
look_later(C) ->
    _ = erlang:start_timer(?LOOK_INTERVAL, self(), look),
    C.

look(#counters{monitor = none} = C) ->
    C;
look(#counters{monitor = Monitor} = C) ->
    {Notes, Looked} = kymo_monitor:look(now_ms(), Monitor),
    lists:foreach(fun(Note) -> record(Note, C) end, Notes),
    C#counters{monitor = Looked}.

monitored(_, #counters{monitor = none} = C) ->
    C;
monitored(Message, #counters{monitor = Monitor} = C) ->
    {Note, Left} = kymo_monitor:event(Message, Monitor),
    record(Note, C),
    C#counters{monitor = Left}.

%% Notes are dropped while the recorder is paused.
record(ignore, _) ->
    ok;
record({Kind, Whose, Value, Where}, #counters{recorder = State, busiest = Busiest}) ->
    _ = is_pid(Busiest) andalso is_busy(Kind) andalso kymo_busiest:reported(Busiest, element(1, Whose)),
    _ = kymo_tracer:note_monitor(State, Kind, Whose, Value, Where),
    ok.

is_busy(Kind) -> Kind =:= large_heap orelse Kind =:= long_message_queue.

describe(#counters{interval = Interval, monitor = Monitor, samples = N, skipped = Skipped, spent = Spent}) ->
    #{
        counters =>
            case Interval of
                none -> none;
                _ -> #{interval => Interval, samples => N, skipped => Skipped, microseconds => Spent div max(1, N)}
            end,
        system_monitor =>
            case Monitor of
                none -> none;
                _ -> kymo_monitor:describe(Monitor)
            end
    }.

%% ---- a sample ---------------------------------------------------------------------

sample(#counters{interval = none} = C) ->
    C;
sample(#counters{recorder = State, samples = N, spent = Spent} = C) ->
    Start = erlang:monotonic_time(),
    {Utilization, Times} = utilization(C#counters.times),
    %% First, because each value must be in one record with the process that it belongs to.
    note(State, busiest(C) ++ memory() ++ counts() ++ sums() ++ run_queues() ++ Utilization),
    Took = erlang:convert_time_unit(erlang:monotonic_time() - Start, native, microsecond),
    measured(C#counters{times = Times, samples = N + 1, spent = Spent + Took}).

note(State, Values) when length(Values) > ?AT_ONCE ->
    {Now, Rest} = lists:split(?AT_ONCE, Values),
    note(State, Now),
    note(State, Rest);
note(State, Values) ->
    _ = kymo_tracer:note_counters(State, Values),
    ok.

%% erlang:memory/1 is not available if allocators are disabled.
memory() ->
    try
        Kinds = [total, processes, system, atom, binary, code, ets],
        [{memory(Kind), 0, Bytes} || {Kind, Bytes} <- erlang:memory(Kinds)]
    catch
        error:notsup -> []
    end.

memory(total) -> memory_total;
memory(processes) -> memory_processes;
memory(system) -> memory_system;
memory(atom) -> memory_atom;
memory(binary) -> memory_binary;
memory(code) -> memory_code;
memory(ets) -> memory_ets.

counts() -> [{Count, 0, erlang:system_info(Count)} || Count <- [process_count, port_count, atom_count, ets_count]].

sums() ->
    {Reductions, _} = erlang:statistics(reductions),
    {Switches, _} = erlang:statistics(context_switches),
    {Collections, Words, _} = erlang:statistics(garbage_collection),
    {{input, In}, {output, Out}} = erlang:statistics(io),
    [
        {reductions, 0, Reductions},
        {context_switches, 0, Switches},
        {garbage_collections, 0, Collections},
        {garbage_reclaimed, 0, Words * erlang:system_info(wordsize)},
        {io_input, 0, In},
        {io_output, 0, Out}
    ].

%% The list has a queue for each scheduler, then one for all dirty CPU schedulers and one for
%% all dirty I/O schedulers.
run_queues() ->
    {Normal, [Cpu, Io]} = lists:split(
        erlang:system_info(schedulers), erlang:statistics(run_queue_lengths_all)
    ),
    [{run_queue, 0, lists:sum(Normal)}, {run_queue_dirty_cpu, 0, Cpu}, {run_queue_dirty_io, 0, Io}].

%% Shares of the time since the last sample; none in the first sample.
utilization(Before) ->
    case erlang:statistics(scheduler_wall_time_all) of
        undefined ->
            {[], #{}};
        Now ->
            Spent = [{Id, since(Active, Total, maps:get(Id, Before, none))} || {Id, Active, Total} <- lists:sort(Now)],
            {shares([S || {_, {_, T}} = S <- Spent, T > 0]), maps:from_list([{Id, {A, T}} || {Id, A, T} <- Now])}
    end.

since(_, _, none) -> {0, 0};
since(Active, Total, {ActiveThen, TotalThen}) -> {max(0, Active - ActiveThen), max(0, Total - TotalThen)}.

shares(Spent) ->
    Online = erlang:system_info(schedulers_online),
    Normal = erlang:system_info(schedulers),
    Cpu = Normal + erlang:system_info(dirty_cpu_schedulers),
    [{scheduler_utilization, Id, share([Time])} || {Id, Time} <- Spent, Id =< Online] ++
        all(schedulers_utilization, [Time || {Id, Time} <- Spent, Id =< Online]) ++
        all(dirty_cpu_utilization, [Time || {Id, Time} <- Spent, Id > Normal, Id =< Cpu]) ++
        all(dirty_io_utilization, [Time || {Id, Time} <- Spent, Id > Cpu]).

all(_, []) -> [];
all(Name, Times) -> [{Name, 0, share(Times)}].

share(Times) ->
    min(1000000, 1000000 * lists:sum([A || {A, _} <- Times]) div lists:sum([T || {_, T} <- Times])).
