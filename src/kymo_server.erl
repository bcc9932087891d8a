%% SPDX-License-Identifier: Apache-2.0
%% @private The process behind one recorder: opens it, serialises what is asked
%% of it, and closes it when asked to, when its owner dies, or when it ended by
%% itself at a limit. {@link kymo_janitor} takes over when this process is killed.
-module(kymo_server).

-behaviour(gen_server).

-export([start/1, start_link/1, find/1, call/2]).
-export([init/1, handle_continue/2, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

-record(server, {
    state :: reference(),
    owner :: none | reference(),
    janitor :: {pid(), reference()},
    mode :: kymo_tracing:mode(),
    tracing = none :: none | kymo_tracing:t(),
    arity :: boolean(),
    max_names :: non_neg_integer(),
    names = #{} :: kymo_names:known(),
    %% Ended: the recorder takes no more events. Stopped: its files are whole.
    ended = false :: boolean(),
    stopped = false :: boolean()
}).

-type args() :: #{
    owner := pid() | none,
    name := atom(),
    mode := kymo_tracing:mode(),
    names := non_neg_integer(),
    tracer_options := map()
}.

%% How often a recorder with limits is asked whether it has reached one, in ms.
-define(CHECK_INTERVAL, 200).

%% @doc Not linked. The supervisor of the application uses start_link/1.
-spec start(args()) -> {ok, pid(), reference()} | {error, term()}.
start(Args) ->
    case whereis(kymo_sup) of
        undefined -> started(gen_server_start(start, Args), Args);
        _ -> started(start_child(Args), Args)
    end.

%% The application may stop just now.
start_child(Args) ->
    try
        supervisor:start_child(kymo_sup, [Args])
    catch
        exit:_ -> gen_server_start(start, Args)
    end.

-spec start_link(args()) -> {ok, pid()} | {error, term()}.
start_link(Args) -> gen_server_start(start_link, Args).

gen_server_start(Start, #{name := undefined} = Args) ->
    gen_server:Start(?MODULE, Args, []);
gen_server_start(Start, #{name := Name} = Args) ->
    gen_server:Start({local, registered(Name)}, ?MODULE, Args, []).

%% Names of recorders are kept apart from those of all other processes.
registered(Name) -> list_to_atom("kymo:" ++ atom_to_list(Name)).

%% @doc The recorder with a name.
-spec find(atom()) -> {ok, pid(), reference()} | gone.
find(Name) ->
    try list_to_existing_atom("kymo:" ++ atom_to_list(Name)) of
        Registered -> find_registered(whereis(Registered))
    catch
        error:badarg -> gone
    end.

find_registered(undefined) ->
    gone;
find_registered(Pid) ->
    case call(Pid, state) of
        {ok, State} -> {ok, Pid, State};
        gone -> gone
    end.

started({ok, Pid}, _) ->
    case call(Pid, state) of
        {ok, State} -> {ok, Pid, State};
        gone -> {error, already_stopped}
    end;
started({error, {already_started, _}}, #{name := Name}) ->
    {error, {already_started, Name}};
started({error, {shutdown, Reason}}, _) ->
    {error, Reason};
started({error, _} = Error, _) ->
    Error.

%% @doc The answer, or `gone' when the server has stopped or stops meanwhile.
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
init(#{owner := Owner, mode := Mode, names := MaxNames, tracer_options := Options}) ->
    %% Our own events would only be noise in the recording.
    process_flag(sensitive, true),
    process_flag(trap_exit, true),
    case kymo_tracer:open(Options#{owner => tracer_owner(Owner)}) of
        {ok, State} ->
            is_map_key(limit, Options) andalso check_later(),
            {ok, #server{
                state = State,
                owner = watch_owner(Owner),
                janitor = kymo_janitor:start(State, none),
                mode = Mode,
                arity = maps:get(calls, Options, arity) =:= arity,
                max_names = MaxNames
            }};
        {error, Reason} ->
            {stop, {shutdown, Reason}}
    end.

%% The owner's death ends the recording even when nothing of ours lives any more.
tracer_owner(none) -> self();
tracer_owner(Owner) -> Owner.

watch_owner(none) -> none;
watch_owner(Owner) -> monitor(process, Owner).

check_later() -> erlang:send_after(?CHECK_INTERVAL, self(), check).

%% @private
-spec handle_call(term(), gen_server:from(), #server{}) ->
    {reply, term(), #server{}}
    | {reply, term(), #server{}, {continue, names}}
    | {stop, normal, term(), #server{}}.
handle_call(state, _, S) ->
    {reply, {ok, S#server.state}, S};
handle_call({trace, Spec}, _, #server{ended = false} = S) ->
    {Reply, Traced} = trace(Spec, S),
    {reply, Reply, Traced, {continue, names}};
handle_call({trace, _}, _, S) ->
    {reply, {error, ended}, S};
handle_call({untrace, _}, _, #server{tracing = none} = S) ->
    {reply, ok, S};
handle_call({untrace, all}, _, S) ->
    {reply, ok, clear(S)};
handle_call({untrace, Spec}, _, #server{tracing = T} = S) ->
    {reply, ok, update(kymo_tracing:unset(T, with_arity(Spec, S)), S)};
handle_call({snapshot, Dir}, _, S) ->
    Named = define_names(processes, S),
    {reply, kymo_tracer:snapshot(S#server.state, Dir), Named};
handle_call(info, _, S) ->
    {reply, {ok, info(S)}, S};
handle_call(stop, _, S) ->
    Stopped = stop(S),
    {stop, normal, {ok, info(Stopped)}, Stopped}.

%% @private Nobody waits for the names of all processes.
-spec handle_continue(names, #server{}) -> {noreply, #server{}}.
handle_continue(names, S) ->
    {noreply, define_names(processes, S)}.

%% @private
-spec handle_cast(term(), #server{}) -> {noreply, #server{}}.
handle_cast(_, S) ->
    {noreply, S}.

%% @private
-spec handle_info(term(), #server{}) -> {noreply, #server{}} | {stop, normal, #server{}}.
handle_info({'DOWN', Ref, process, _, _}, #server{owner = Ref} = S) ->
    {stop, normal, S};
handle_info({'DOWN', Ref, process, _, _}, #server{janitor = {_, Ref}} = S) ->
    {noreply, S#server{janitor = kymo_janitor:start(S#server.state, S#server.tracing)}};
handle_info(check, #server{ended = false} = S) ->
    case is_ended(S) of
        true ->
            {noreply, (clear(S))#server{ended = true}};
        false ->
            check_later(),
            {noreply, S}
    end;
handle_info(Message, #server{tracing = T} = S) when T =/= none ->
    case kymo_tracing:loaded(Message) andalso kymo_tracing:replan(T) of
        {ok, Plan, Planned} ->
            Updated = update(Planned, S),
            _ = kymo_tracing:apply_plan(Planned, Plan),
            {noreply, Updated};
        _ ->
            {noreply, S}
    end;
handle_info(_, S) ->
    {noreply, S}.

is_ended(#server{state = State}) ->
    case kymo_tracer:info(State) of
        #{state := Life} -> Life =:= closed orelse Life =:= stopping
    end.

%% @private Also for the owner's death, a shutdown and a crash of this process.
-spec terminate(term(), #server{}) -> ok.
terminate(_, S) ->
    _ = stop(S),
    kymo_janitor:leave(S#server.janitor).

stop(#server{stopped = true} = S) ->
    S;
stop(S) ->
    Cleared = clear(define_names(processes, S)),
    _ = kymo_tracer:stop(S#server.state),
    Cleared#server{ended = true, stopped = true}.

%% ---------------------------------------------------------------------------

trace(Spec, S) ->
    Ready = ensure_tracing(S),
    case kymo_tracing:plan(Ready#server.tracing, with_arity(Spec, S)) of
        {ok, Plan, Planned} ->
            Named = define_names(pids(Spec), update(Planned, Ready)),
            {{ok, kymo_tracing:apply_plan(Planned, Plan)}, Named};
        {error, _} = Error ->
            {Error, Ready}
    end.

%% Without it the runtime builds a list of the arguments that nobody reads.
with_arity(#{process_flags := Flags} = Spec, #server{arity = true}) ->
    case lists:member(call, Flags) of
        true -> Spec#{process_flags := [arity | Flags]};
        false -> Spec
    end;
with_arity(Spec, _) ->
    Spec.

pids(#{processes := Pids}) when is_list(Pids) -> Pids;
pids(_) -> [].

ensure_tracing(#server{tracing = none, mode = Mode, state = State} = S) ->
    %% The janitor holds a session before anything is set in it.
    Ready = update(kymo_tracing:new(Mode, {kymo_tracer, State}), S),
    update(kymo_tracing:watch(Ready#server.tracing), Ready);
ensure_tracing(S) ->
    S.

update(T, #server{janitor = {Janitor, _}} = S) ->
    kymo_janitor:update(Janitor, T),
    S#server{tracing = T}.

clear(#server{tracing = none} = S) ->
    S;
clear(#server{tracing = T} = S) ->
    kymo_tracing:clear(T),
    S#server{tracing = none}.

define_names(_, #server{ended = true} = S) ->
    S;
define_names(Which, #server{state = State, max_names = Max, names = Known} = S) ->
    S#server{names = kymo_names:define(State, Which, Max, Known)}.

info(#server{state = State, tracing = T}) ->
    Info = kymo_tracer:info(State),
    case T of
        none -> Info#{tracing => none};
        _ -> Info#{tracing => kymo_tracing:describe(T)}
    end.
