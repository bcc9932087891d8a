%% SPDX-License-Identifier: Apache-2.0
%% @private The server process of one recorder. It opens the recorder, serialises requests, and
%% closes the recorder on request, when its owner dies, or when a limit has ended it. Then the
%% process ends, which releases the memory and the name; {@link kymo_recorders} keeps the last
%% info. If this process is killed, {@link kymo_janitor} cleans up.
-module(kymo_server).

-behaviour(gen_server).

-export([start/1, start_link/1, find/1, call/2, priority/1, spawn_options/1, name_all/5]).
-export([init/1, handle_continue/2, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

-record(server, {
    state :: reference(),
    entry :: kymo_recorders:entry(),
    recorders :: reference(),
    owner :: none | reference(),
    janitor :: {pid(), reference()},
    mode :: kymo_tracing:mode(),
    tracing = none :: none | kymo_tracing:t(),
    taken = kymo_taken:new() :: kymo_taken:t(),
    arity :: boolean(),
    %% What faults of the runtime make it avoid, and what that has affected so far.
    avoid :: [kymo_faults:measure()],
    measures = [] :: [kymo_faults:described()],
    budget = none :: none | kymo_budget:t(),
    max_names :: non_neg_integer(),
    names = #{} :: kymo_names:known(),
    triggers :: kymo_trigger_server:handle(),
    counted :: {kymo_counters:option(), kymo_monitor:option()},
    counters :: kymo_counters:handle(),
    stopped = false :: boolean()
}).

-type args() :: #{
    owner := pid() | none,
    name := atom(),
    mode := kymo_tracing:mode(),
    budget := kymo_budget:option(),
    names := non_neg_integer(),
    triggers := kymo_trigger:plan() | none,
    counters := kymo_counters:option(),
    system_monitor := kymo_monitor:option(),
    tracer_options := map()
}.

%% Interval at which a recorder with limits is checked, in ms.
-define(CHECK_INTERVAL, 200).
%% The server asks processes for their names for so many milliseconds. In an overloaded node, each answers only after
%% all others have run.
-define(NAMES_WITHIN, 2000).

%% Interval in ms of the check that settings are still in place, and the number of functions
%% checked each time. A function takes about a microsecond.
-define(LOOK_INTERVAL, 2000).
-define(LOOK_FUNCTIONS, 250).

%% Maximum number of functions that are counted in a sample of the newest records.
-define(SAMPLED_FUNCTIONS, 8192).

%% How many checks in a row must agree, and how often they begin again because code was loaded.
-define(SURE_ROUNDS, 10).
-define(MAX_ROUNDS, 5).

%% Number of functions that are checked when info or a snapshot is requested.
-define(LOOK_FUNCTIONS_ASKED, 2000).

%% @doc Starts a server that is not linked to the caller. The application's supervisor uses
%% start_link/1.
-spec start(args()) -> {ok, kymo_recorders:entry()} | {error, term()}.
start(Args) ->
    case whereis(kymo_sup) of
        undefined -> started(gen_server_start(start, Args), Args);
        _ -> started(start_child(Args), Args)
    end.

%% The application may stop at any moment.
start_child(Args) ->
    try
        supervisor:start_child(kymo_sup, [Args])
    catch
        exit:_ -> gen_server_start(start, Args)
    end.

-spec start_link(args()) -> {ok, pid()} | {error, term()}.
start_link(Args) -> gen_server_start(start_link, Args).

gen_server_start(Start, #{name := undefined} = Args) ->
    gen_server:Start(?MODULE, Args, [{spawn_opt, spawn_options(normal)}]);
gen_server_start(Start, #{name := Name} = Args) ->
    gen_server:Start({local, registered(Name)}, ?MODULE, Args, [{spawn_opt, spawn_options(normal)}]).

%% @doc The options of spawn_opt/2 for each process of kymo: its priority, and no limit for its heap. With
%% the limit that a node may have for all processes, it could be killed.
-spec spawn_options(normal | high) -> [{priority, normal | high | max} | {max_heap_size, 0}].
spawn_options(Least) -> [priority(Least), {max_heap_size, 0}].

%% @doc The priority of the calling process if that is higher than this one, as an option of
%% spawn_opt/2. So a process that must not starve in an overloaded node starts others that do
%% not, either.
-spec priority(normal | high) -> {priority, normal | high | max}.
priority(Least) ->
    case process_info(self(), priority) of
        {priority, max} -> {priority, max};
        {priority, high} -> {priority, high};
        _ -> {priority, Least}
    end.

raise_priority(Least) ->
    {priority, Level} = priority(Least),
    process_flag(priority, Level).

%% The prefix separates names of recorders from those of other processes.
registered(Name) -> list_to_atom("kymo:" ++ atom_to_list(Name)).

%% @doc The recorder with a name.
-spec find(atom()) -> {ok, kymo_recorders:entry()} | gone.
find(Name) ->
    try list_to_existing_atom("kymo:" ++ atom_to_list(Name)) of
        Registered -> find_registered(whereis(Registered))
    catch
        error:badarg -> gone
    end.

find_registered(undefined) ->
    gone;
find_registered(Pid) ->
    call(Pid, entry).

started({ok, Pid}, _) ->
    case call(Pid, entry) of
        {ok, Entry} -> {ok, Entry};
        gone -> {error, already_stopped}
    end;
started({error, {already_started, _}}, #{name := Name}) ->
    {error, {already_started, Name}};
started({error, {shutdown, Reason}}, _) ->
    {error, Reason};
started({error, _} = Error, _) ->
    Error.

%% @doc Returns the answer, or `gone' if the server has stopped or stops before answering.
-spec call(pid() | atom(), term()) -> term() | gone.
call(Server, Request) ->
    try
        gen_server:call(Server, Request, infinity)
    catch
        exit:{Reason, {gen_server, call, _}} when
            Reason =:= noproc;
            Reason =:= normal;
            Reason =:= killed;
            Reason =:= shutdown
        ->
            gone
    end.

%% ---------------------------------------------------------------------------

%% @private
-spec init(args()) -> {ok, #server{}} | {stop, {shutdown, term()}}.
init(#{owner := Owner, name := Name, mode := Mode, budget := Budget, names := MaxNames, tracer_options := Options} =
         Args) ->
    %% Keeps the recorder's own events out of the recording.
    process_flag(sensitive, true),
    process_flag(trap_exit, true),
    case kymo_tracer:open(Options#{owner => tracer_owner(Owner)}) of
        {ok, State} ->
            ok = kymo_names:define_own(State, {?MODULE, init, 1}),
            is_map_key(limit, Options) andalso check_later(),
            look_later(),
            #{dir := Dir, policy := Policy} = kymo_tracer:info(State),
            Entry = #{
                pid => self(),
                ref => make_ref(),
                name => Name,
                dir => Dir,
                policy => Policy,
                since => erlang:system_time(millisecond)
            },
            #{counters := Interval, system_monitor := Settings} = Args,
            Avoid = kymo_faults:avoided(),
            Server = #server{
                state = State,
                avoid = Avoid,
                counted = {Interval, Settings},
                counters = kymo_counters:start(State, Interval, Settings, Mode, Avoid),
                entry = Entry,
                recorders = kymo_recorders:enter(Entry),
                owner = watch_owner(Owner),
                janitor = kymo_janitor:start(State, none, Entry),
                mode = Mode,
                budget = budget(Budget, Mode, Dir, State, Avoid),
                arity = maps:get(calls, Options, arity) =:= arity,
                max_names = MaxNames,
                triggers = kymo_trigger_server:new(maps:get(triggers, Args), State)
            },
            {ok, measures(
                [signals || Interval =/= none orelse MaxNames > 0] ++ [monitor || Settings =/= none], Server
            )};
        {error, Reason} ->
            {stop, {shutdown, Reason}}
    end.

%% The C library monitors the owner, so its death ends the recording even if kymo's processes
%% are gone.
tracer_owner(none) -> self();
tracer_owner(Owner) -> Owner.

watch_owner(none) -> none;
watch_owner(Owner) -> monitor(process, Owner).

%% With a budget the process has high priority, so that it reacts even if the node is overloaded.
budget(none, _, _, _, _) ->
    none;
budget(Budget, Mode, Dir, State, Avoid) ->
    Costs = kymo_cost:measure(Mode, Dir, Avoid),
    _ = raise_priority(high),
    ok = kymo_tracer:budget(State, kymo_budget:ppm(Budget), kymo_budget:events(Budget)),
    budget_later(),
    kymo_budget:new(Budget, Costs).

budget_later() -> erlang:send_after(kymo_budget:interval(), self(), budget).

check_later() -> erlang:send_after(?CHECK_INTERVAL, self(), check).

%% As a cast: gen_server only logs any other message that no module handles, so that this process would stay if
%% somebody deleted the module.
look_later() -> erlang:send_after(?LOOK_INTERVAL, self(), {'$gen_cast', look}).

%% @private
-spec handle_call(term(), gen_server:from(), #server{}) ->
    {reply, term(), #server{}}
    | {reply, term(), #server{}, {continue, names | finish}}
    | {stop, normal, term(), #server{}}.
handle_call(entry, _, #server{entry = Entry} = S) ->
    {reply, {ok, Entry}, S};
handle_call(tracer, _, S) ->
    {reply, {ok, tracer(S)}, S};
handle_call(state, _, S) ->
    #{state := Life} = kymo_tracer:info(S#server.state),
    {reply, {ok, Life}, S};
handle_call(pause, _, S) ->
    {reply, kymo_tracer:pause(S#server.state), S};
handle_call(resume, _, S) ->
    {reply, kymo_tracer:resume(S#server.state), S};
handle_call({trace, Spec}, _, S) ->
    case is_ended(S) of
        true ->
            {reply, {error, ended}, S, {continue, finish}};
        false ->
            {Reply, Traced} = trace(Spec, S),
            {reply, Reply, Traced, {continue, names}}
    end;
handle_call({untrace, Spec}, _, S) ->
    {Reply, Untraced} = untrace(Spec, without_session(S)),
    {reply, Reply, Untraced};
handle_call({snapshot, Dir}, _, S) ->
    Named = define_names(quiet, processes, look(?LOOK_FUNCTIONS_ASKED, S)),
    {reply, kymo_tracer:snapshot(S#server.state, Dir), Named};
handle_call(info, _, S) ->
    Looked = look(?LOOK_FUNCTIONS_ASKED, S),
    {reply, {ok, info(Looked)}, Looked};
handle_call(progress, _, #server{state = State, budget = Budget} = S) ->
    {reply, {ok, (kymo_tracer:info(State))#{budget => describe(Budget)}}, S};
handle_call(stop, _, S) ->
    {Info, Stopped} = finish(S),
    {stop, normal, {ok, Info}, Stopped}.

%% @private The names of all processes are looked up after the caller has its answer.
-spec handle_continue(names | finish, #server{}) -> {noreply, #server{}} | {stop, normal, #server{}}.
handle_continue(names, #server{budget = none} = S) ->
    {noreply, define_names(ask, processes, S)};
handle_continue(names, S) ->
    {noreply, define_names_beside(S)};
handle_continue(finish, S) ->
    {stop, normal, S}.

%% @private
-spec handle_cast(term(), #server{}) -> {noreply, #server{}} | {stop, normal, #server{}}.
handle_cast(look, S) ->
    look_later(),
    stop_if_ended(look(?LOOK_FUNCTIONS, S));
handle_cast(_, S) ->
    {noreply, S}.

%% @private
-spec handle_info(term(), #server{}) -> {noreply, #server{}} | {stop, normal, #server{}}.
handle_info({'DOWN', Ref, process, _, _}, #server{owner = Ref} = S) ->
    {stop, normal, S};
handle_info({'DOWN', Ref, process, _, _} = Down, #server{janitor = {_, Ref}} = S) ->
    {noreply, replaced(Down, S, fun() ->
        S#server{janitor = kymo_janitor:start(S#server.state, S#server.tracing, S#server.entry)}
    end)};
%% Not at once: it may end again at once.
handle_info({'DOWN', Ref, process, _, _}, #server{counters = {_, Ref}} = S) ->
    _ = erlang:send_after(?CHECK_INTERVAL, self(), counters),
    {noreply, S};
handle_info(counters, #server{counted = {Interval, Settings}} = S) ->
    {noreply, replaced(counters, S, fun() ->
        S#server{counters = kymo_counters:start(S#server.state, Interval, Settings, S#server.mode, S#server.avoid)}
    end)};
handle_info({'DOWN', Ref, process, _, _} = Down, #server{recorders = Ref} = S) ->
    {noreply, replaced(Down, S, fun() -> S#server{recorders = kymo_recorders:enter(S#server.entry)} end)};
handle_info(triggers, #server{triggers = T} = S) ->
    {noreply, S#server{triggers = kymo_trigger_server:again(T)}};
handle_info(check, S) ->
    check_later(),
    stop_if_ended(S);
handle_info(names, S) ->
    {noreply, define_names_beside(S)};
handle_info({names, Known}, S) ->
    {noreply, S#server{names = Known}};
handle_info(budget, S) ->
    budget_later(),
    {noreply, keep_budget(S)};
handle_info(Message, #server{triggers = T} = S) ->
    case kymo_tracing:loaded(Message) of
        true -> {noreply, set_again(S)};
        false -> {noreply, S#server{triggers = kymo_trigger_server:down(Message, T)}}
    end.

stop_if_ended(S) ->
    case is_ended(S) of
        true -> {stop, normal, S};
        false -> {noreply, S}
    end.

is_ended(#server{state = State}) ->
    case kymo_tracer:info(State) of
        #{state := Life} -> Life =:= closed orelse Life =:= stopping
    end.

%% @private Also called when the owner dies, and for a shutdown or a crash of this process.
-spec terminate(term(), #server{}) -> ok.
terminate(_, S) ->
    {_, Stopped} = finish(S),
    kymo_janitor:leave(Stopped#server.janitor).

%% Ends the recording and stores its last info. The name is free before the caller gets the
%% answer.
finish(#server{stopped = true} = S) ->
    {none, S};
finish(#server{entry = Entry, state = State, triggers = T} = S) ->
    Looked = look(?LOOK_FUNCTIONS_ASKED, S#server{triggers = kymo_trigger_server:stop(T)}),
    Counted = kymo_counters:info(S#server.counters),
    Ended = ended(Looked#server{counters = kymo_counters:stop(S#server.counters)}),
    _ = kymo_tracer:stop(State),
    _ = kymo_tracer:let_go(State),
    Info = maps:merge(info(Ended), Counted),
    kymo_recorders:ended(Entry, Info),
    unregister_name(Entry),
    {Info, Ended#server{stopped = true}}.

%% Removes the settings, and names the processes that were spawned while it recorded. Both wake
%% processes, and the recording should not show that: processes are asked for their names only after
%% tracing has ended, and nothing is recorded any more when flags have to be removed one by one.
ended(#server{mode = session} = S) ->
    define_names(ask, processes, clear(S));
ended(#server{state = State} = S) ->
    Named = define_names(quiet, processes, S),
    _ = kymo_tracer:pause(State),
    clear(Named).

unregister_name(#{name := undefined}) ->
    ok;
unregister_name(#{name := Name}) ->
    true = unregister(registered(Name)),
    ok.

%% ---------------------------------------------------------------------------

tracer(#server{state = State}) -> {kymo_tracer, State}.

%% On an error nothing has changed; a session that was created for the call is removed.
trace(Given, S) ->
    case without_unsafe(Given, S) of
        {ok, Spec, Measured} -> trace_safely(Spec, Measured);
        {error, _} = Error -> {Error, S}
    end.

trace_safely(Spec, S0) ->
    S = without_session(S0),
    Ready = ensure_tracing(S),
    case calmly(S, fun() -> kymo_tracing:plan(Ready#server.tracing, with_arity(Spec, S)) end) of
        {ok, Plan, Planned} ->
            Named = define_names(ask, pids(Spec), update(Planned, Ready)),
            {Result, Set} = kymo_tracing:apply_plan(Planned, Plan),
            {{ok, Result}, look(1, Named#server{tracing = Set})};
        {error, _} = Error when S#server.tracing =:= none ->
            {Error, clear(Ready)};
        {error, _} = Error ->
            {Error, Ready}
    end.

%% Leaves out the events that can do harm on this runtime.
without_unsafe(Spec, S) ->
    lists:foldl(
        fun({Flag, Measure}, {ok, Left, Measured}) -> without(Flag, Measure, Left, Measured);
           (_, Error) -> Error
        end,
        {ok, Spec, S},
        [{garbage_collection, collections}, {'receive', received}]
    ).

without(Flag, Measure, #{process_flags := Flags, always := Always} = Spec, #server{avoid = Avoid} = S) ->
    case lists:member(Flag, Flags) andalso not lists:member(Flag, Always) andalso lists:member(Measure, Avoid) of
        true ->
            Left = Spec#{process_flags := Flags -- [Flag]},
            case is_empty(Left) orelse is_watched(Measure, S) of
                true -> {error, kymo_faults:unsafe(Measure)};
                false -> {ok, Left, measures([Measure], S)}
            end;
        false ->
            {ok, Spec, S}
    end.

%% A trigger has no other events.
is_watched(collections, S) -> kymo_trigger_server:watches(<<"collection,">>, S#server.triggers);
is_watched(received, _) -> false.

is_empty(#{process_flags := Flags, ports := Ports, port_flags := PortFlags, functions := Functions}) ->
    Flags -- [set_on_spawn, set_on_first_spawn, set_on_link, set_on_first_link] =:= [] andalso
        (Ports =:= none orelse PortFlags =:= []) andalso Functions =:= [].

%% Notes the measures that are in force on this runtime and were not noted before in the recording.
measures(Wanted, #server{avoid = Avoid, measures = Known, state = State} = S) ->
    case [M || M <- Wanted, lists:member(M, Avoid), not lists:any(fun(#{measure := K}) -> K =:= M end, Known)] of
        [] ->
            S;
        New ->
            All = Known ++ [kymo_faults:measure(M) || M <- New],
            ok = kymo_tracer:note_measures(State, kymo_faults:encoded(All)),
            S#server{measures = All}
    end.

%% Runs slow work that is not urgent at normal priority: with a budget this process has high
%% priority.
calmly(#server{budget = none}, Fun) ->
    Fun();
calmly(_, Fun) ->
    case priority(normal) of
        %% It has this priority because normal processes do not run.
        {priority, max} ->
            Fun();
        {priority, Level} ->
            Level = process_flag(priority, normal),
            try Fun() after process_flag(priority, Level) end
    end.

untrace(_, #server{tracing = none} = S) ->
    {ok, S};
untrace(all, S) ->
    {ok, clear(S)};
untrace(Spec, #server{tracing = T} = S) ->
    {ok, Plan, Planned} = calmly(S, fun() -> kymo_tracing:unplan(T, with_arity(Spec, S)) end),
    Updated = update(Planned, S),
    {_, Left} = kymo_tracing:apply_plan(Planned, Plan),
    {ok, Updated#server{tracing = Left}}.

%% If the session was destroyed, continues without it.
without_session(#server{tracing = none} = S) ->
    S;
without_session(#server{tracing = T} = S) ->
    case kymo_tracing:is_alive(T) of
        true -> S;
        false -> clear(look(1, S))
    end.

%% Adds the flag `arity', without which the runtime builds a list of the arguments that is never
%% read.
with_arity(#{process_flags := Flags} = Spec, #server{arity = true}) ->
    case lists:member(call, Flags) of
        true -> Spec#{process_flags := [arity | Flags]};
        false -> Spec
    end;
with_arity(Spec, _) ->
    Spec.

pids(#{processes := Pids}) when is_list(Pids) -> Pids;
pids(_) -> [].

ensure_tracing(#server{tracing = none, mode = Mode, avoid = Avoid} = S) ->
    %% The janitor gets the session before anything is set in it.
    Ready = update(kymo_tracing:new(Mode, tracer(S), Avoid), S),
    update(kymo_tracing:watch(Ready#server.tracing), Ready);
ensure_tracing(S) ->
    S.

update(T, #server{janitor = {Janitor, _}} = S) ->
    kymo_janitor:update(Janitor, T),
    S#server{tracing = T}.

%% The cost does not depend on how much is traced.
change(Change, #server{janitor = {Janitor, _}, tracing = T} = S) ->
    kymo_janitor:change(Janitor, Change),
    S#server{tracing = kymo_tracing:changed(T, Change)}.

clear(#server{tracing = none} = S) ->
    S;
clear(#server{tracing = T, budget = none} = S) ->
    kymo_tracing:clear(T),
    S#server{tracing = none};
clear(#server{tracing = T, budget = Budget, state = State} = S) ->
    kymo_tracing:clear(T),
    %% From here on nothing is traced, so nothing counts as shed.
    #{shed := #{functions := Functions, events := Kinds}} = kymo_budget:describe(Budget),
    _ = [kymo_tracer:note_shed(State, given_back, Kinds, Functions) || {Functions, Kinds} =/= {[], []}],
    S#server{tracing = none, budget = kymo_budget:cleared(Budget)}.

%% ---- the budget --------------------------------------------------------------

keep_budget(#server{tracing = none} = S) ->
    S;
keep_budget(#server{state = State, budget = Budget} = S) ->
    case kymo_tracer:rates(State) of
        not_recorded ->
            S;
        Rates ->
            {What, Ticked} = kymo_budget:tick(Rates, now_ms(), Budget),
            keep_budget(What, S#server{budget = Ticked})
    end.

keep_budget(ok, S) ->
    S;
keep_budget({sample, Since}, #server{state = State, tracing = T, budget = Budget} = S) ->
    case kymo_tracer:sample(State, Since, ?SAMPLED_FUNCTIONS) of
        {ok, Sample} ->
            Set = kymo_tracing:functions(T),
            Kinds = kymo_tracing:kinds(T),
            IsOurs = fun(Item) -> is_map_key(Item, Set) orelse lists:member(Item, Kinds) end,
            {What, Sampled} = kymo_budget:sampled(Sample, IsOurs, now_ms(), Budget),
            keep_budget(What, S#server{budget = Sampled});
        {error, busy} ->
            S
    end;
keep_budget({shed, Items}, #server{state = State, budget = Budget} = S) ->
    {Functions, Kinds} = split_items([Item || {Item, _} <- Items]),
    case kymo_tracer:note_shed(State, shed, Kinds, Functions) of
        ok ->
            Shed = without_calls(length(Functions), fun(Now) -> shed(Functions, Kinds, Now) end, S),
            Shed#server{budget = kymo_budget:shed(Items, now_ms(), Budget)};
        {error, not_recorded} ->
            %% The recorder is paused or has ended.
            S
    end;
keep_budget({give_back, Items}, #server{tracing = T, budget = Budget} = S) ->
    {Functions, All} = split_items(Items),
    {Kinds, Never} = lists:partition(fun(K) -> kymo_tracing:can_give_back(T, K) end, All),
    {Stay, Back} = give_back(Functions, Kinds, S),
    Now = now_ms(),
    Given = kymo_budget:given_back((Functions -- Stay) ++ Kinds, Now, Budget),
    Back#server{budget = kymo_budget:kept(Stay ++ Never, Now, Given)}.

%% On a stock runtime all schedulers synchronise for each function, which takes long while they
%% record many calls. So if Fun changes many functions, no calls at all are recorded until it is
%% done.
without_calls(N, Fun, #server{state = State, tracing = T} = S) ->
    Short = kymo_tracing:is_slow(T, N) andalso kymo_tracing:can_give_back(T, calls) andalso
        kymo_tracer:note_shed(State, shed, [calls], []) =:= ok,
    case Short of
        true -> element(2, give_back([], [calls], Fun(shed([], [calls], S))));
        false -> Fun(S)
    end.

%% The caller has noted the shedding in the recording.
shed(Functions, Kinds, #server{tracing = T} = S) ->
    {Unset, Change} = kymo_tracing:shed(T, Functions, Kinds),
    #server{tracing = Planned} = Changed = change(Change, S),
    Changed#server{tracing = kymo_tracing:apply_shed(Planned, Unset, Kinds)}.

%% Items count as shed until the note, which is written after they are traced again. Returns the
%% functions that stay shed, too.
give_back([], [], S) ->
    {[], S};
give_back(Functions, Kinds, #server{state = State, tracing = T} = S) ->
    {Set, Stay, Change} = kymo_tracing:give_back(T, Functions, Kinds),
    #server{tracing = Planned} = Changed = change(Change, S),
    Back = kymo_tracing:apply_give_back(Planned, Set, Kinds),
    _ = kymo_tracer:note_shed(State, given_back, Kinds, Functions -- Stay),
    {Stay, Changed#server{tracing = Back}}.

split_items(Items) -> lists:partition(fun is_tuple/1, Items).

now_ms() -> erlang:monotonic_time(millisecond).

%% ---- code that was loaded, and settings that other tracers removed -----------

set_again(#server{tracing = none} = S) ->
    S;
set_again(#server{tracing = T} = S) ->
    case kymo_tracing:is_alive(T) andalso kymo_tracing:replan(T) of
        {ok, Plan, Planned} ->
            Updated = update(Planned, S),
            {_, Set} = kymo_tracing:apply_plan(Planned, Plan),
            Updated#server{tracing = Set};
        _ ->
            S
    end.

look(_, #server{tracing = none} = S) ->
    S;
look(Max, #server{tracing = T, taken = Taken} = S) ->
    case kymo_taken:look(T, Max, Taken) of
        {clean, Living, Looked} ->
            S#server{tracing = Living, taken = Looked};
        {suspect, Living, Looked} ->
            look_closely(?MAX_ROUNDS, ?SURE_ROUNDS, S#server{tracing = Living, taken = Looked})
    end.

%% Loading code removes patterns as well. A missing pattern was removed by another tracer only if
%% no code was loaded until after it was found missing; otherwise it is set again. Since loads
%% are reported with a delay, several checks in a row must agree. If code is being loaded all
%% the time, the decision is left to the next check.
look_closely(0, _, S) ->
    S;
look_closely(Rounds, Sure, #server{tracing = T, taken = Before} = S) ->
    Noted = kymo_taken:note(T, Before),
    case was_loading() of
        true ->
            look_closely(Rounds - 1, ?SURE_ROUNDS, set_again(S));
        false when Sure > 0 ->
            look_closely(Rounds, Sure - 1, S);
        false ->
            %% The runtime clears the flags of a recorder that has ended.
            case is_ended(S) of
                true -> S;
                false -> taken(Noted, S)
            end
    end.

%% The code server answers after its current load, so trace messages of that load have been sent
%% by then.
was_loading() ->
    _ = code:root_dir(),
    Delivered = erlang:trace_delivered(whereis(code_server)),
    receive
        {trace_delivered, _, Delivered} -> ok
    end,
    kymo_tracing:drain().

%% Notes the count in the recording.
taken(Taken, #server{state = State, taken = Before} = S) ->
    case {kymo_taken:count(Before), kymo_taken:count(Taken)} of
        {Same, Same} -> ok;
        {_, Count} -> kymo_tracer:note_taken(State, Count)
    end,
    S#server{taken = Taken}.

define_names(How, Which, #server{state = State, max_names = Max, names = Known} = S) ->
    case is_ended(S) of
        true -> S;
        false -> S#server{names = kymo_names:define(State, how(How, S), ?NAMES_WITHIN, Which, Max, Known)}
    end.

how(How, #server{avoid = Avoid}) ->
    case lists:member(signals, Avoid) of
        true -> registered;
        false -> How
    end.

%% Looks up names in a process of its own: a process may answer only when it is scheduled, and
%% checks of the budget must not wait for that.
define_names_beside(#server{state = State, max_names = Max, names = Known} = S) ->
    Server = self(),
    How = how(ask, S),
    _ = is_ended(S) orelse
        replaced(names, S, fun() ->
            spawn_opt(?MODULE, name_all, [Server, State, How, Max, Known], [link, {max_heap_size, 0}])
        end),
    S.

%% @private Spawned with this function, so that readers know the process as kymo's own.
-spec name_all(pid(), reference(), kymo_names:how(), non_neg_integer(), kymo_names:known()) -> ok.
name_all(Server, State, How, Max, Known) ->
    process_flag(sensitive, true),
    Server ! {names, kymo_names:define(State, How, infinity, processes, Max, Known)},
    ok.

%% Starts a process. While the node already has as many processes as it can have, which a recorder
%% must survive, the message is sent again later instead.
replaced(Message, S, Start) ->
    try
        Start()
    catch
        error:system_limit ->
            _ = erlang:send_after(?CHECK_INTERVAL, self(), Message),
            S
    end.

info(#server{state = State, tracing = T, taken = Taken, budget = Budget, triggers = Triggers, counters = Counters} = S) ->
    Info = (maps:merge(kymo_tracer:info(State), kymo_counters:info(Counters)))#{
        measures => S#server.measures,
        taken => kymo_taken:count(Taken),
        budget => describe(Budget),
        triggers => kymo_trigger_server:info(Triggers)
    },
    case T of
        none -> Info#{tracing => none};
        _ -> Info#{tracing => (kymo_tracing:describe(T))#{taken => kymo_taken:describe(Taken)}}
    end.

describe(none) -> none;
describe(Budget) -> kymo_budget:describe(Budget).
