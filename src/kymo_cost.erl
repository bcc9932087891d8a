%% SPDX-License-Identifier: Apache-2.0
%% @private Measures the cost of an event of each kind for the traced process on this runtime
%% and machine, in nanoseconds. A process of its own runs small loops with tracing and without,
%% and records into a small temporary recorder. This takes a few milliseconds.
%%
%% In these loops the caches are warm and the functions few. In a program with thousands of
%% traced functions an event costs more, which the factor `?COLD' accounts for.
-module(kymo_cost).

-export([measure/3, clear/1, weight/2]).
-export([probe/1]).
-export_type([t/0, kind/0]).

-type kind() :: return_tos | kymo_tracing:kind() | other.
-type t() :: #{kind() => pos_integer()}.
%% Nanoseconds per event.

%% Used if nothing can be measured, because another tracer traces all new processes, there is no room
%% for the recorder, or the runtime has a fault that measuring might trigger: the process that measures
%% can inherit the flags of another tracer, and each measurement ends a session.
-define(UNKNOWN, #{calls => 200, return_tos => 200, messages => 200, running => 300, garbage_collection => 600,
                   procs => 300, ports => 300, other => 300}).

%% Bounds for the results.
-define(LEAST, 30).
-define(MOST, 20000).

%% The cost of an event in a large program, divided by that measured here (bench/budget_run).
-define(COLD, 2).

-define(ROUNDS, 7).
-define(TIMES, 100).
-define(MEMORY, 4194304).

%% @doc Measures with a recorder in a temporary folder inside the recording `Recording'.
-spec measure(kymo_tracing:mode(), Recording :: file:name_all(), [kymo_faults:measure()]) -> t().
measure(Mode, Recording, Avoid) ->
    case lists:member(signals, Avoid) of
        true -> ?UNKNOWN;
        false -> measure_in(Mode, Recording, Avoid)
    end.

measure_in(Mode, Recording, Avoid) ->
    Dir = folder(Recording),
    case kymo_tracer:open(#{dir => Dir, memory => ?MEMORY, dict_size => 65536}) of
        {ok, State} ->
            try
                measured(Mode, State, Avoid)
            after
                _ = kymo_tracer:stop(State),
                kymo_folder:remove_recording(Dir)
            end;
        {error, _} ->
            ?UNKNOWN
    end.

%% @doc Removes the files of a measurement that was killed.
-spec clear(Recording :: file:name_all()) -> ok.
clear(Recording) -> kymo_folder:remove_recording(folder(Recording)).

folder(Recording) -> filename:join(Recording, "calibration").

%% Measures in a new process, so that the trace flags end with it.
measured(Mode, State, Avoid) ->
    Self = self(),
    Probe = fun() ->
        try
            %% Otherwise the runtime would log the attempt.
            true = Mode =:= session orelse erlang:trace_info(self(), tracer) =:= {tracer, []},
            Self ! {self(), costs(Mode, {kymo_tracer, State}, Avoid)}
        catch
            %% Another tracer traces this process. That is not worth a log message.
            error:_ -> ok
        end
    end,
    {Pid, Monitor} = spawn_opt(Probe, [monitor | kymo_server:spawn_options(high)]),
    receive
        {Pid, Costs} ->
            demonitor(Monitor, [flush]),
            Costs;
        {'DOWN', Monitor, process, _, _} ->
            ?UNKNOWN
    end.

costs(Mode, Tracer, Avoid) ->
    Difference = fun(Flags, Events, Fun) -> difference(Mode, Tracer, Avoid, Flags, Events, Fun) end,
    Calls = Difference([call], ?TIMES, fun() -> calls(?TIMES) end),
    Both = Difference([call, return_to], ?TIMES, fun() -> calls(?TIMES) end),
    Messages = Difference([send, 'receive'], 2 * ?TIMES, fun() -> messages(?TIMES) end),
    Running = Difference([running_procs], 2, fun() -> erlang:yield() end),
    Costs = maps:map(
        fun(_, Ns) -> bounded(Ns) end,
        #{
            calls => Calls,
            return_tos => Both - Calls,
            messages => Messages,
            running => Running,
            procs => Messages,
            ports => Messages,
            other => Messages
        }
    ),
    case lists:member(collections, Avoid) of
        true ->
            Costs#{garbage_collection => map_get(garbage_collection, ?UNKNOWN)};
        false ->
            Costs#{garbage_collection => bounded(Difference([garbage_collection], 2, fun() -> erlang:garbage_collect() end))}
    end.

bounded(Ns) -> ?COLD * max(?LEAST, min(?MOST, Ns)).

%% Uses the minimum of several rounds, since interruptions only add time.
difference(Mode, Tracer, Avoid, Flags, Events, Fun) ->
    Without = least(Fun),
    With = kymo_tracing:around_self({Mode, Avoid}, Tracer, Flags, {?MODULE, probe, 1}, fun() -> least(Fun) end),
    (With - Without) div Events.

least(Fun) -> lists:min([timed(Fun) || _ <- lists:seq(1, ?ROUNDS)]).

timed(Fun) ->
    Start = erlang:monotonic_time(nanosecond),
    _ = Fun(),
    erlang:monotonic_time(nanosecond) - Start.

calls(0) ->
    ok;
calls(N) ->
    N = ?MODULE:probe(N),
    calls(N - 1).

%% @private
-spec probe(Any) -> Any.
probe(N) -> N.

messages(0) ->
    ok;
messages(N) ->
    self() ! N,
    receive
        N -> messages(N - 1)
    end.

%% @doc The total cost of these numbers of events, in nanoseconds.
-spec weight(#{kind() => non_neg_integer()}, t()) -> non_neg_integer().
weight(Counts, Costs) ->
    maps:fold(fun(Kind, N, Sum) -> Sum + N * map_get(Kind, Costs) end, 0, Counts).
