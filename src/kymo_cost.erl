%% SPDX-License-Identifier: Apache-2.0
%% @private What an event of each kind costs the traced process on this runtime and
%% machine, in nanoseconds of processor time: a process of our own does what is traced,
%% with tracing and without, into a small recorder that is removed again. Takes a few
%% milliseconds.
%%
%% The caches are warm here and the functions few. In a program with thousands of traced
%% functions an event costs more; {@link scaled/1} accounts for that.
-module(kymo_cost).

-export([measure/2, weight/2]).
-export([probe/1]).
-export_type([t/0, kind/0]).

-type kind() :: return_tos | kymo_tracing:kind() | other.
-type t() :: #{kind() => pos_integer()}.
%% Nanoseconds for one event.

%% Where nothing can be measured: another tracer traces all new processes, or there is no
%% room for the recorder.
-define(UNKNOWN, #{calls => 200, return_tos => 200, messages => 200, running => 300, garbage_collection => 600,
                   procs => 300, ports => 300, other => 300}).

%% What is measured is never taken for less or more than this.
-define(LEAST, 30).
-define(MOST, 20000).

%% An event in a large program, compared with the same event here (bench/budget_run).
-define(COLD, 2).

-define(ROUNDS, 7).
-define(TIMES, 100).
-define(MEMORY, 4194304).

%% @doc Measures with a recorder in the folder `Dir', which is made for that and removed.
-spec measure(kymo_tracing:mode(), file:name_all()) -> t().
measure(Mode, Dir) ->
    case kymo_tracer:open(#{dir => Dir, memory => ?MEMORY, dict_size => 65536}) of
        {ok, State} ->
            try
                measured(Mode, State)
            after
                _ = kymo_tracer:stop(State),
                kymo_folder:remove_recording(Dir)
            end;
        {error, _} ->
            ?UNKNOWN
    end.

%% In a process of its own: nobody else traces it, and its flags go with it.
measured(Mode, State) ->
    Self = self(),
    {Pid, Monitor} = spawn_monitor(fun() ->
        process_flag(priority, high),
        try
            Self ! {self(), costs(Mode, {kymo_tracer, State})}
        catch
            %% Another tracer has this process: no reason to say so in the log.
            error:_ -> ok
        end
    end),
    receive
        {Pid, Costs} ->
            demonitor(Monitor, [flush]),
            Costs;
        {'DOWN', Monitor, process, _, _} ->
            ?UNKNOWN
    end.

costs(Mode, Tracer) ->
    Calls = difference(Mode, Tracer, [call], ?TIMES, fun() -> calls(?TIMES) end),
    Both = difference(Mode, Tracer, [call, return_to], ?TIMES, fun() -> calls(?TIMES) end),
    Messages = difference(Mode, Tracer, [send, 'receive'], 2 * ?TIMES, fun() -> messages(?TIMES) end),
    Running = difference(Mode, Tracer, [running_procs], 2, fun() -> erlang:yield() end),
    Collections = difference(Mode, Tracer, [garbage_collection], 2, fun() -> erlang:garbage_collect() end),
    maps:map(
        fun(_, Ns) -> ?COLD * max(?LEAST, min(?MOST, Ns)) end,
        #{
            calls => Calls,
            return_tos => Both - Calls,
            messages => Messages,
            running => Running,
            garbage_collection => Collections,
            procs => Messages,
            ports => Messages,
            other => Messages
        }
    ).

%% The least of several rounds: whatever interrupts one only adds.
difference(Mode, Tracer, Flags, Events, Fun) ->
    Without = least(Fun),
    With = kymo_tracing:around_self(Mode, Tracer, Flags, {?MODULE, probe, 1}, fun() -> least(Fun) end),
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

%% @doc The cost of so many events of each kind, in nanoseconds.
-spec weight(#{kind() => non_neg_integer()}, t()) -> non_neg_integer().
weight(Counts, Costs) ->
    maps:fold(fun(Kind, N, Sum) -> Sum + N * map_get(Kind, Costs) end, 0, Counts).
