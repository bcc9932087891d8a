%% SPDX-License-Identifier: Apache-2.0
%% @private Sets trace flags and patterns for one recorder, and takes away
%% exactly what it has set.
%%
%% Two modes. `session': a trace session of its own (OTP 27 and later), apart
%% from everything that others trace. `global': the one tracing that older
%% runtimes have, shared by all. There a process has one tracer and a function
%% one match specification, so what somebody else has set is left alone, and
%% clearing looks first whether a thing is still ours.
%%
%% {@link plan/2} answers what will be set without setting it. Its second
%% result, given to the janitor before {@link apply_plan/2} runs, makes that no
%% death in between leaves anything behind: clearing more than was set is harmless.
-module(kymo_tracing).

-export([modes/0, new/2, watch/1, loaded/1, plan/2, replan/1, apply_plan/2, unset/2, clear/1, describe/1]).
-export_type([t/0, mode/0, plan/0, result/0]).

-type mode() :: session | global.

-record(tracing, {
    mode :: mode(),
    tracer :: kymo:tracer(),
    session = none :: term(),
    %% What was set, or is about to be.
    functions = #{} :: #{mfa() => {local | global, list()}},
    patterns = [] :: [kymo_spec:functions()],
    senders = false :: boolean(),
    %% Is told when code was loaded; known before it is set, too.
    watcher = none :: none | pid() | {session, term()}
}).

-opaque t() :: #tracing{}.

-opaque plan() :: #{
    spec := kymo_spec:t(),
    functions := [kymo_spec:functions()],
    senders := boolean(),
    skipped := [skipped()]
}.

-type skipped() :: pid() | port() | mfa() | 'receive'.

-type result() :: #{
    processes := non_neg_integer(),
    ports := non_neg_integer(),
    functions := non_neg_integer(),
    skipped := [skipped()]
}.

%% A receive event lacks the sender; a pattern brings it as match spec result.
-define(SENDER, [{['_', '$1', '_'], [], [{message, '$1'}]}]).
-define(LOADED, {erlang, finish_loading, 1}).
-define(LOADED_SPEC, [{'_', [], [{return_trace}]}]).

%% @doc What this runtime can do, best first.
-spec modes() -> [mode()].
modes() ->
    _ = code:ensure_loaded(api()),
    case erlang:function_exported(api(), session_create, 3) of
        true -> [session, global];
        false -> [global]
    end.

%% The module `trace' came with OTP 27; a name known at run time only keeps the
%% code free of warnings on older ones.
api() -> trace.

%% The specifications of these functions in OTP 25 know neither tracer modules nor
%% 'receive', so Dialyzer must not see which of them is called.
runtime(Function, Arguments) -> apply(erlang, Function, Arguments).

%% @doc Nothing is traced yet. A session lives as long as somebody holds it.
-spec new(mode(), kymo:tracer()) -> t().
new(session, Tracer) ->
    #tracing{mode = session, tracer = Tracer, session = session(Tracer)};
new(global, Tracer) ->
    #tracing{mode = global, tracer = Tracer, watcher = self()}.

%% Where the runtime can, it keeps the patterns itself when code is loaded.
session(Tracer) ->
    try
        (api()):session_create(kymo, Tracer, [keep_patterns])
    catch
        error:badarg -> (api()):session_create(kymo, Tracer, [])
    end.

%% @doc Looks for conflicts.
-spec plan(t(), kymo_spec:t()) -> {ok, plan(), t()} | {error, kymo:trace_error()}.
plan(T, Spec) ->
    try
        check_tracees(T, Spec),
        {Functions, Skipped} = lists:mapfoldl(
            fun(Pattern, Acc) -> free_or_fail(T, Pattern, Acc) end, [], maps:get(functions, Spec)
        ),
        {Senders, SkippedReceive} = check_senders(T, Spec),
        Plan = #{
            spec => Spec,
            functions => Functions,
            senders => Senders,
            skipped => SkippedReceive ++ Skipped
        },
        {ok, Plan, T#tracing{
            functions = maps:merge(T#tracing.functions, to_set(Functions)),
            patterns = patterns(T, Spec),
            senders = T#tracing.senders orelse Senders
        }}
    catch
        throw:{error, _} = Error -> Error
    end.

to_set(Functions) ->
    maps:from_list([
        {{M, F, A}, {Scope, MatchSpec}}
     || #{scope := Scope, match_spec := MatchSpec, functions := Mods} <- Functions,
        {M, FAs} <- Mods,
        {F, A} <- FAs
    ]).

%% For replan/1; a pattern that is given again replaces the earlier one.
patterns(#tracing{patterns = Old}, #{functions := New}) ->
    Sources = [S || #{source := S} <- New],
    [P || #{source := S} = P <- Old, not lists:member(S, Sources)] ++ New.

check_tracees(#tracing{mode = session}, #{processes := Processes, ports := Ports}) ->
    [fail({no_process, P}) || is_list(Processes), P <- Processes, not is_process_alive(P)],
    [fail({no_port, P}) || is_list(Ports), P <- Ports, erlang:port_info(P, id) =:= undefined],
    ok;
check_tracees(T, #{processes := Processes, ports := Ports}) ->
    check_free(T, Processes, new_processes, no_process),
    check_free(T, Ports, new_ports, no_port).

check_free(T, Who, New, _) when Who =:= all; Who =:= new ->
    check_free(T, [New], New, none);
check_free(T, Who, _, Missing) when is_list(Who) ->
    lists:foreach(
        fun(One) ->
            case holder(T, One) of
                other -> fail({already_traced, One});
                dead -> fail({Missing, One});
                _ -> ok
            end
        end,
        Who
    );
check_free(_, _, _, _) ->
    ok.

%% Whose tracee is it?
holder(#tracing{tracer = Tracer}, Tracee) ->
    try runtime(trace_info, [Tracee, tracer]) of
        {tracer, Tracer} -> ours;
        {tracer, []} -> nobody;
        {tracer, _} -> other;
        undefined -> dead
    catch
        error:badarg -> dead
    end.

free_or_fail(T, Pattern, Skipped) ->
    case free(T, Pattern, Skipped) of
        {#{functions := []}, [Taken | _]} -> fail({already_traced, Taken});
        Free -> Free
    end.

%% Leaves out the functions that somebody else traces.
free(#tracing{mode = session}, Pattern, Skipped) ->
    {Pattern, Skipped};
free(T, #{functions := Mods} = Pattern, Skipped) ->
    Split = [{M, lists:partition(fun({F, A}) -> is_free(T, {M, F, A}) end, FAs)} || {M, FAs} <- Mods],
    Taken = [{M, F, A} || {M, {_, FAs}} <- Split, {F, A} <- FAs],
    {Pattern#{functions := [{M, FAs} || {M, {[_ | _] = FAs, _}} <- Split]}, Taken ++ Skipped}.

%% Free, or set by this recorder.
is_free(T, MFA) ->
    case runtime(trace_info, [MFA, traced]) of
        {traced, Traced} when Traced =:= local; Traced =:= global -> is_ours(T, MFA, Traced);
        {traced, _} -> true
    end.

is_ours(#tracing{functions = Set}, MFA, Traced) ->
    case Set of
        #{MFA := {Traced, MatchSpec}} ->
            runtime(trace_info, [MFA, match_spec]) =:= {match_spec, MatchSpec};
        _ ->
            false
    end.

check_senders(T, #{senders := Wanted, process_flags := Flags, port_flags := PortFlags}) ->
    Senders = Wanted andalso lists:member('receive', Flags ++ PortFlags),
    case Senders andalso not T#tracing.senders andalso T#tracing.mode =:= global of
        true -> free_senders(runtime(trace_info, ['receive', match_spec]));
        false -> {Senders, []}
    end.

%% The pattern that we want may be there already, and is not ours to clear then.
free_senders({match_spec, true}) -> {true, []};
free_senders({match_spec, ?SENDER}) -> {false, []};
free_senders({match_spec, _}) -> {false, ['receive']}.

%% @doc Sets what was planned. What has gone since is not counted.
-spec apply_plan(t(), plan()) -> result().
apply_plan(T, #{spec := Spec, functions := Functions, senders := Senders, skipped := Skipped}) ->
    #{processes := Processes, process_flags := PFlags, ports := Ports, port_flags := OFlags} = Spec,
    FunctionCount = set_functions(T, lists:append([operations(F) || F <- Functions])),
    Senders andalso set_senders(T, ?SENDER),
    ProcessCount = set_tracees(T, process, Processes, PFlags),
    PortCount = set_tracees(T, port, Ports, OFlags),
    #{
        processes => ProcessCount,
        ports => PortCount,
        functions => FunctionCount,
        skipped => Skipped ++ others(T, Processes, processes()) ++ others(T, Ports, erlang:ports())
    }.

%% Existing tracees of somebody else, which the runtime passed over.
others(#tracing{mode = global} = T, Who, Existing) when Who =:= all; Who =:= existing ->
    [One || One <- Existing, holder(T, One) =:= other];
others(_, _, _) ->
    [].

operations(#{scope := Scope, match_spec := MatchSpec, functions := Mods}) ->
    lists:append([operations(M, FAs, MatchSpec, Scope) || {M, FAs} <- Mods]).

%% One operation for a whole module: in a runtime that sets one by one, each of
%% them makes all schedulers agree.
operations(M, FAs, MatchSpec, Scope) ->
    case length(FAs) > 1 andalso lists:sort(FAs) =:= lists:sort(module_functions(M, Scope)) of
        true -> [{{M, '_', '_'}, MatchSpec, [Scope]}];
        false -> [{{M, F, A}, MatchSpec, [Scope]} || {F, A} <- FAs]
    end.

module_functions(M, local) -> module_info(M, functions);
module_functions(M, global) -> module_info(M, exports).

%% The module may have gone.
module_info(M, What) ->
    try
        erlang:get_module_info(M, What)
    catch
        error:badarg -> []
    end.

%% Answers how many functions there were. The runtime of erts_patches takes all
%% operations at once, and no process ever sees a part of them.
set_functions(_, []) ->
    0;
set_functions(T, Operations) ->
    case erlang:function_exported(api(), patterns, 2) of
        true -> lists:sum((api()):patterns(handle(T), Operations));
        false -> lists:sum([set_function(T, Operation) || Operation <- Operations])
    end.

%% How that runtime calls what is traced.
handle(#tracing{mode = session, session = Session}) -> Session;
handle(#tracing{mode = global}) -> {legacy, default}.

set_function(#tracing{mode = session, session = Session}, {MFA, MatchSpec, Flags}) ->
    (api()):function(Session, MFA, MatchSpec, Flags);
set_function(#tracing{mode = global}, {MFA, MatchSpec, Flags}) ->
    runtime(trace_pattern, [MFA, MatchSpec, Flags]).

set_senders(#tracing{mode = session, session = Session}, MatchSpec) ->
    (api()):recv(Session, MatchSpec, []);
set_senders(#tracing{mode = global}, MatchSpec) ->
    runtime(trace_pattern, ['receive', MatchSpec, []]).

set_tracees(_, _, none, _) ->
    0;
set_tracees(_, _, _, []) ->
    0;
set_tracees(T, Kind, Who, Flags) when is_list(Who) ->
    lists:sum([set_tracee(T, Kind, One, true, Flags) || One <- Who]);
set_tracees(#tracing{mode = session} = T, Kind, Who, Flags) ->
    set_flags(T, Kind, Who, true, Flags);
set_tracees(T, Kind, Who, Flags) ->
    set_flags(T, Kind, plural(Who, Kind), true, Flags).

plural(all, process) -> processes;
plural(all, port) -> ports;
plural(existing, process) -> existing_processes;
plural(existing, port) -> existing_ports;
plural(new, process) -> new_processes;
plural(new, port) -> new_ports.

%% It may have gone meanwhile.
set_tracee(T, Kind, One, How, Flags) ->
    try
        set_flags(T, Kind, One, How, Flags)
    catch
        error:badarg -> 0
    end.

set_flags(#tracing{mode = session, session = Session}, process, Who, How, Flags) ->
    (api()):process(Session, Who, How, Flags);
set_flags(#tracing{mode = session, session = Session}, port, Who, How, Flags) ->
    (api()):port(Session, Who, How, Flags);
set_flags(#tracing{mode = global, tracer = {Module, State}}, _, Who, true, Flags) ->
    erlang:trace(Who, true, [{tracer, Module, State} | Flags]);
set_flags(#tracing{mode = global}, _, Who, false, Flags) ->
    erlang:trace(Who, false, Flags).

%% @doc Takes away what the specification names, as far as it is ours.
-spec unset(t(), kymo_spec:t()) -> t().
unset(T, Spec) ->
    #{functions := Functions, process_flags := PFlags, port_flags := OFlags} = Spec,
    #{processes := Processes, ports := Ports} = Spec,
    MFAs = [{M, F, A} || #{functions := Mods} <- Functions, {M, FAs} <- Mods, {F, A} <- FAs],
    unset_functions(T, maps:with(MFAs, T#tracing.functions)),
    unset_tracees(T, process, Processes, PFlags),
    unset_tracees(T, port, Ports, OFlags),
    Sources = [S || #{source := S} <- Functions],
    T#tracing{
        functions = maps:without(MFAs, T#tracing.functions),
        patterns = [P || #{source := S} = P <- T#tracing.patterns, not lists:member(S, Sources)]
    }.

unset_tracees(_, _, none, _) ->
    ok;
unset_tracees(_, _, _, []) ->
    ok;
unset_tracees(#tracing{mode = session} = T, Kind, Who, Flags) when is_atom(Who) ->
    set_flags(T, Kind, Who, false, Flags),
    ok;
unset_tracees(T, Kind, all, Flags) ->
    unset_tracees(T, Kind, new, Flags),
    unset_tracees(T, Kind, existing, Flags);
unset_tracees(T, Kind, new, Flags) ->
    unset_tracees(T, Kind, [plural(new, Kind)], Flags);
unset_tracees(T, process, existing, Flags) ->
    unset_tracees(T, process, processes(), Flags);
unset_tracees(T, port, existing, Flags) ->
    unset_tracees(T, port, erlang:ports(), Flags);
unset_tracees(T, Kind, Who, Flags) ->
    _ = [set_tracee(T, Kind, One, false, Flags) || One <- Who, is_held(T, One)],
    ok.

is_held(#tracing{mode = session}, _) -> true;
is_held(T, One) -> holder(T, One) =:= ours.

unset_functions(T, Set) ->
    Groups = maps:groups_from_list(
        fun({{M, _, _}, {Scope, _}}) -> {M, Scope} end,
        fun({{_, F, A}, _}) -> {F, A} end,
        maps:to_list(Set)
    ),
    _ = set_functions(
        T,
        lists:append([
            operations(M, [FA || {F, A} = FA <- FAs, is_set(T, {M, F, A}, Scope)], false, Scope)
         || {{M, Scope}, FAs} <- maps:to_list(Groups)
        ])
    ),
    ok.

%% In a session nobody else sets anything.
is_set(#tracing{mode = session}, _, _) -> true;
is_set(T, MFA, Scope) -> is_ours(T, MFA, Scope).

%% @doc Takes away everything. Works in any process, after the recorder has
%% ended, and more than once.
-spec clear(t()) -> ok.
clear(#tracing{tracer = Tracer} = T) ->
    unwatch(T),
    lists:member(seq_trace:get_system_tracer(), [Tracer]) andalso seq_trace:set_system_tracer(false),
    clear_mode(T).

clear_mode(#tracing{mode = session, session = Session}) ->
    (api()):session_destroy(Session),
    ok;
clear_mode(T) ->
    unset_tracees(T, process, new, [all]),
    unset_tracees(T, port, new, [all]),
    clear_existing(T, process, fun erlang:processes/0),
    clear_existing(T, port, fun erlang:ports/0),
    unset_functions(T, T#tracing.functions),
    Ours = {match_spec, ?SENDER},
    case T#tracing.senders andalso runtime(trace_info, ['receive', match_spec]) of
        Ours -> set_senders(T, true);
        _ -> ok
    end,
    ok.

%% A tracee that is not cleared yet may have spawned another that inherits its
%% flags, so until none is found.
clear_existing(T, Kind, All) ->
    case [One || One <- All(), holder(T, One) =:= ours] of
        [] ->
            ok;
        Found ->
            _ = [set_tracee(T, Kind, One, false, [all]) || One <- Found],
            clear_existing(T, Kind, All)
    end.

%% ---- code that is loaded later ---------------------------------------------


%% @doc Asks the runtime to tell the caller when code was loaded: loading a
%% module takes away the breakpoints in it. {@link loaded/1} recognises the
%% message. In mode `global' only when nobody else watches the same function.
-spec watch(t()) -> t().
watch(#tracing{mode = session} = T) ->
    %% One of its own: the messages of a session all go to one tracer.
    Session = (api()):session_create(kymo, self(), []),
    (api()):function(Session, ?LOADED, ?LOADED_SPEC, [meta]),
    T#tracing{watcher = {session, Session}};
watch(#tracing{watcher = Watcher} = T) ->
    case runtime(trace_info, [?LOADED, meta]) of
        {meta, Tracer} when Tracer =:= false; Tracer =:= [] ->
            runtime(trace_pattern, [?LOADED, ?LOADED_SPEC, [{meta, Watcher}]]),
            T;
        _ ->
            T
    end.

%% @doc Is this message that of the end of a load?
-spec loaded(term()) -> boolean().
loaded(Message) ->
    is_tuple(Message) andalso tuple_size(Message) >= 4 andalso
        element(1, Message) =:= trace_ts andalso element(3, Message) =:= return_from.

unwatch(#tracing{watcher = none}) ->
    ok;
unwatch(#tracing{watcher = {session, Session}}) ->
    (api()):session_destroy(Session),
    ok;
unwatch(#tracing{watcher = Watcher}) ->
    case runtime(trace_info, [?LOADED, meta]) of
        %% [] for a watcher that is dead, as ours when this is the janitor.
        {meta, Tracer} when Tracer =:= Watcher; Tracer =:= [] ->
            runtime(trace_pattern, [?LOADED, false, [meta]]),
            ok;
        _ ->
            ok
    end.

%% @doc Plans what code that was loaded since has made necessary: the patterns
%% in modules that came anew, and with wildcards in modules that came first.
-spec replan(t()) -> {ok, plan(), t()} | unchanged.
replan(#tracing{patterns = Patterns} = T) ->
    case lists:append([lost(T, P) || P <- Patterns]) of
        [] ->
            unchanged;
        Lost ->
            {Functions, Skipped} = lists:mapfoldl(fun(P, Acc) -> free(T, P, Acc) end, [], Lost),
            Spec = #{
                processes => none,
                process_flags => [],
                ports => none,
                port_flags => [],
                functions => Functions,
                senders => false
            },
            Plan = #{spec => Spec, functions => Functions, senders => false, skipped => Skipped},
            {ok, Plan, T#tracing{functions = maps:merge(T#tracing.functions, to_set(Functions))}}
    end.

lost(T, #{compiled := Compiled, scope := Scope} = Pattern) ->
    case kymo_pattern:functions(Compiled, Scope) of
        {ok, Mods} ->
            case [Mod || Mod <- Mods, not is_in_place(T, Scope, Mod)] of
                [] -> [];
                Gone -> [Pattern#{functions := Gone}]
            end;
        {error, _} ->
            []
    end.

%% The breakpoints of a module go all at once, so one function tells, unless the
%% module came with more functions than before.
is_in_place(T, Scope, {M, [{F, A} | _] = FAs}) ->
    lists:all(fun({Fun, Arity}) -> is_map_key({M, Fun, Arity}, T#tracing.functions) end, FAs) andalso
        traced(T, {M, F, A}) =:= Scope.

traced(#tracing{mode = session, session = Session}, MFA) ->
    element(2, (api()):info(Session, MFA, traced));
traced(#tracing{mode = global}, MFA) ->
    element(2, runtime(trace_info, [MFA, traced])).

%% @doc For {@link kymo:info/1}.
-spec describe(t()) -> #{mode := mode(), functions := non_neg_integer()}.
describe(#tracing{mode = Mode, functions = Functions}) ->
    #{mode => Mode, functions => map_size(Functions)}.

-spec fail(term()) -> no_return().
fail(Reason) -> throw({error, Reason}).
