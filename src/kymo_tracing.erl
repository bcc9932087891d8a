%% SPDX-License-Identifier: Apache-2.0
%% @private Sets trace flags and patterns for one recorder, and removes exactly what it has
%% set.
%%
%% Two modes. `session': a trace session of its own (OTP 27 and later), apart
%% from all other tracing. `global': the tracing of older runtimes, which all tracers share.
%% There a process has one tracer and a function one match specification, so settings of
%% other tracers are left alone, and a setting is removed only if it is still the
%% recorder's own.
%%
%% {@link plan/2} returns what will be set, without setting it. Its last result is passed to the
%% janitor before {@link apply_plan/2} runs, so that everything is removed even if the server
%% dies in between: clearing more than was set is harmless.
-module(kymo_tracing).

-export([end_left/0, clear_left/1, modes/0, new/3, watch/1, loaded/1, plan/2, replan/1, unplan/2, apply_plan/2, clear/1, describe/1]).
-export([shed/3, changed/2, apply_shed/3, give_back/3, apply_give_back/3, can_give_back/2, is_slow/2, kinds/1, around_self/5]).
-export([is_alive/1, functions/1, tracees/1, is_in_place/2, forget_tracees/2, drain/0]).
-export_type([t/0, mode/0, plan/0, result/0, tracees/0, kind/0, change/0]).

-type mode() :: session | global.

-record(tracing, {
    mode :: mode(),
    tracer :: kymo:tracer(),
    avoid :: [kymo_faults:measure()],
    session = none :: term(),
    %% What was set or is about to be set, and what the last plan has replaced.
    functions = #{} :: kymo_wanted:set(),
    former = #{} :: kymo_wanted:set(),
    patterns = [] :: kymo_wanted:t(),
    %% A sample of the processes and ports with flags, to detect that flags were removed.
    tracees = #{} :: tracees(),
    %% The flags that trace_info shows for these bits of kymo_quiet.
    shown = #{} :: #{pos_integer() => [Flag :: atom()]},
    %% Processes and ports that other tracers traced when flags of all were set.
    others = [] :: [pid() | port()],
    senders = false :: boolean(),
    %% What a budget has shed; and the requests that set or removed flags of processes and
    %% ports, the last first.
    shed = #{} :: #{mfa() => []},
    muted = [] :: [kind()],
    asked = [] :: [{set | unset, process | port, Who :: atom() | [pid() | port()], Flags :: [atom()]}],
    %% The process that is notified when code was loaded; set before anything is traced.
    watcher = none :: none | pid() | {session, term()}
}).

-opaque t() :: #tracing{}.

-type kind() :: messages | running | garbage_collection | procs | ports | calls.
%% Kinds of events that a budget sheds; `calls' only while it sheds functions.

-opaque change() ::
    {shed, [mfa()], [kind()]} | {give_back, [mfa()], kymo_wanted:set(), [kind()]}.

-opaque plan() :: #{
    spec := kymo_spec:t(),
    how := boolean(),
    set := kymo_wanted:set(),
    unset := kymo_wanted:set(),
    senders := boolean(),
    skipped := [skipped()]
}.

-type tracees() :: #{pid() | port() | new_processes | new_ports => [Flag :: atom()]}.

-type skipped() :: pid() | port() | mfa() | 'receive'.

-type result() :: #{
    processes := non_neg_integer(),
    ports := non_neg_integer(),
    functions := non_neg_integer(),
    skipped := [skipped()]
}.

%% Receive events have no sender. This pattern adds it as the match specification's result.
-define(SENDER, [{['_', '$1', '_'], [], [{message, '$1'}]}]).
%% The size of the sample of processes and ports.
-define(MAX_SAMPLE, 128).
%% The name of the sessions of recorders, which no other tool gives to its own.
-define(SESSION, '$kymo').
%% Flags that the runtime clears itself, or that trace_info does not show.
-define(PASSING_FLAGS, [set_on_first_spawn, set_on_first_link]).
%% Setting up to this many functions takes a negligible time.
-define(AT_ONCE, 4).
-define(LOADED, {erlang, finish_loading, 1}).
-define(LOADED_SPEC, [{'_', [], [{return_trace}]}]).

%% @doc The modes that this runtime supports, the best first.
-spec modes() -> [mode()].
modes() ->
    %% Where there is no such module, the code server would look for it, and may hang.
    _ = list_to_integer(erlang:system_info(otp_release)) >= 27 andalso code:ensure_loaded(api()),
    case erlang:function_exported(api(), session_create, 3) of
        true -> [session, global];
        false -> [global]
    end.

%% The module `trace' came with OTP 27. Calls through this function compile without warnings on
%% older releases.
api() -> trace.

%% Hides the called function from Dialyzer: the specs in OTP 25 include neither tracer modules
%% nor 'receive'.
runtime(Function, Arguments) -> apply(erlang, Function, Arguments).

%% @doc The initial state, in which nothing is traced. A session ends with the last reference to
%% it.
-spec new(mode(), kymo:tracer(), [kymo_faults:measure()]) -> t().
new(session, Tracer, Avoid) ->
    #tracing{mode = session, tracer = Tracer, avoid = Avoid, session = session(Tracer)};
new(global, Tracer, Avoid) ->
    #tracing{mode = global, tracer = Tracer, avoid = Avoid, watcher = self()}.

avoids(Measure, #tracing{avoid = Avoid}) -> lists:member(Measure, Avoid).

%% If the runtime supports it, the session keeps its patterns when code is loaded.
session(Tracer) ->
    try
        (api()):session_create(?SESSION, Tracer, [keep_patterns])
    catch
        error:badarg -> (api()):session_create(?SESSION, Tracer, [])
    end.

%% @doc Plans what to set, and checks for conflicts with other tracers.
-spec plan(t(), kymo_spec:t()) -> {ok, plan(), t()} | {error, kymo:trace_error()}.
plan(T, Spec) ->
    try
        check_tracees(T, Spec),
        check_callers(T, Spec),
        {Functions, Skipped} = lists:mapfoldl(
            fun(Pattern, Acc) -> free_or_fail(T, Pattern, Acc) end, [], maps:get(functions, Spec)
        ),
        {Senders, SkippedReceive} = check_senders(T, Spec),
        Patterns = kymo_wanted:add(T#tracing.patterns, Functions),
        Wanted = wanted(T, Patterns, exact),
        Set = maps:with(mfas(Functions), Wanted),
        Plan = #{
            spec => Spec,
            how => true,
            set => Set,
            unset => moved(T, Set),
            senders => Senders,
            skipped => SkippedReceive ++ Skipped
        },
        {ok, Plan, (wants(T, Patterns, Wanted))#tracing{
            senders = T#tracing.senders orelse Senders
        }}
    catch
        throw:{error, _} = Error -> Error
    end.

wanted(#tracing{shed = Shed}, Patterns, How) ->
    case kymo_wanted:functions(Patterns, How) of
        {ok, Wanted} -> maps:without(maps:keys(Shed), Wanted);
        {error, Reason} -> fail(Reason)
    end.

mfas(Functions) ->
    [{M, F, A} || #{functions := Mods} <- Functions, {M, FAs} <- Mods, {F, A} <- FAs].

%% Replaced settings still belong to the recorder until the plan has been applied.
wants(#tracing{functions = Old} = T, Patterns, Wanted) ->
    Former = maps:filter(fun(MFA, Set) -> maps:get(MFA, Wanted, none) =/= Set end, Old),
    T#tracing{patterns = Patterns, functions = Wanted, former = Former}.

%% Functions that change their scope.
moved(#tracing{functions = Old}, Set) ->
    maps:filter(
        fun(MFA, {Scope, _}) ->
            case Set of
                #{MFA := {Scope, _}} -> false;
                #{MFA := _} -> true;
                _ -> false
            end
        end,
        Old
    ).

check_tracees(#tracing{mode = session} = T, #{processes := Processes, ports := Ports}) ->
    [fail({no_process, P}) || is_list(Processes), P <- Processes, not is_living(T, P)],
    [fail({no_port, P}) || is_list(Ports), P <- Ports, erlang:port_info(P, id) =:= undefined],
    ok;
check_tracees(T, #{processes := Processes, ports := Ports}) ->
    check_free(T, Processes, new_processes, no_process),
    check_free(T, Ports, new_ports, no_port).

%% Without a signal to the process if signals are avoided.
is_living(T, P) ->
    case avoids(signals, T) of
        true -> lists:member(P, processes());
        false -> is_process_alive(P)
    end.

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

%% A pattern holds for every process that is traced for calls, whichever tracer traces it. dbg and the
%% like are then sent calls that they have not asked for; eprof ends with the first one.
check_callers(#tracing{mode = global}, #{functions := [_ | _]}) ->
    case whereis(eprof) of
        undefined -> ok;
        Eprof ->
            _ = [fail({calls_traced, P}) || P <- processes(), may_be_traced(P), has_tracer(P, Eprof)],
            ok
    end;
check_callers(_, _) ->
    ok.

has_tracer(P, Tracer) -> runtime(trace_info, [P, tracer]) =:= {tracer, Tracer}.

%% Which tracer traces this process or port.
holder(#tracing{tracer = Tracer}, Tracee) ->
    try runtime(trace_info, [Tracee, tracer]) of
        {tracer, Tracer} -> ours;
        {tracer, []} -> nobody;
        {tracer, _} -> other;
        undefined -> dead
    catch
        error:badarg -> dead
    end.

%% Finds out without asking the process, which would wake it, and in an overloaded node has to run
%% before it answers.
may_be_traced(Pid) when is_pid(Pid) ->
    case kymo_quiet:trace_bits(Pid) of
        {ok, 0} -> false;
        gone -> false;
        _ -> true
    end;
may_be_traced(_) ->
    true.

free_or_fail(T, Pattern, Skipped) ->
    case free(T, Pattern, Skipped) of
        {#{functions := []}, [Taken | _]} -> fail({already_traced, Taken});
        Free -> Free
    end.

%% Leaves out the functions that another tracer holds.
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

is_ours(#tracing{functions = Set, former = Former}, MFA, Traced) ->
    Ours = [MatchSpec || #{MFA := {Scope, MatchSpec}} <- [Set, Former], Scope =:= Traced],
    Ours =/= [] andalso lists:member(element(2, runtime(trace_info, [MFA, match_spec])), Ours).

check_senders(T, #{senders := Wanted, process_flags := Flags, port_flags := PortFlags}) ->
    Senders = Wanted andalso lists:member('receive', Flags ++ PortFlags),
    case Senders andalso not T#tracing.senders andalso T#tracing.mode =:= global of
        true -> free_senders(runtime(trace_info, ['receive', match_spec]));
        false -> {Senders, []}
    end.

%% If another tracer has set the same pattern, it must not be cleared.
free_senders({match_spec, true}) -> {true, []};
free_senders({match_spec, ?SENDER}) -> {false, []};
free_senders({match_spec, _}) -> {false, ['receive']}.

%% @doc Sets or removes what was planned. Processes and functions that no longer exist are
%% not counted.
-spec apply_plan(t(), plan()) -> {result(), t()}.
apply_plan(T, #{how := false, spec := Spec, set := Set, unset := Unset}) ->
    #{processes := Processes, process_flags := PFlags, ports := Ports, port_flags := OFlags} = Spec,
    unset_functions(T, Unset),
    _ = set_all(T, Set),
    unset_tracees(T, process, Processes, PFlags),
    unset_tracees(T, port, Ports, OFlags),
    Left = unsample(unsample(T#tracing.tracees, process, Processes, PFlags), port, Ports, OFlags),
    {
        #{processes => 0, ports => 0, functions => 0, skipped => []},
        asked(unset, Spec, T#tracing{tracees = Left, former = #{}})
    };
apply_plan(T, #{spec := Spec, set := Set, unset := Unset, senders := Senders, skipped := Skipped}) ->
    #{processes := Processes, ports := Ports} = Spec,
    PFlags = maps:get(process_flags, Spec) -- muted_flags(T),
    OFlags = maps:get(port_flags, Spec) -- muted_flags(T),
    unset_functions(T, Unset),
    FunctionCount = set_all(T, Set),
    Senders andalso set_senders(T, ?SENDER),
    Others = others(T, Processes, processes()) ++ others(T, Ports, erlang:ports()),
    ProcessCount = set_tracees(T, process, Processes, PFlags),
    PortCount = set_tracees(T, port, Ports, OFlags),
    Sample = sample(sample(T#tracing{others = Others}, process, Processes, PFlags), port, Ports, OFlags),
    {
        #{
            processes => ProcessCount,
            ports => PortCount,
            functions => FunctionCount,
            skipped => Skipped ++ Others
        },
        asked(set, Spec, Sample#tracing{former = #{}})
    }.

%% The existing tracees of other tracers, which the runtime has skipped.
others(#tracing{mode = global} = T, Who, Existing) when Who =:= all; Who =:= existing ->
    [One || One <- Existing, may_be_traced(One), holder(T, One) =:= other];
others(_, _, _) ->
    [].

%% Returns the number of functions.
set_all(T, Set) ->
    set_functions(
        T,
        lists:append([
            set_operations(M, Scope, FAs)
         || {{M, Scope}, FAs} <- maps:to_list(by_module(Set))
        ])
    ).

by_module(Set) ->
    maps:groups_from_list(
        fun({{M, _, _}, {Scope, _}}) -> {M, Scope} end,
        fun({{_, F, A}, {_, MatchSpec}}) -> {{F, A}, MatchSpec} end,
        maps:to_list(Set)
    ).

%% One operation for the whole module, then one for each exception, in ascending order, on which
%% is_module_in_place/2 relies: on a stock runtime all schedulers synchronise for each operation.
%% Operations that set a function again have the factor 0, so that it is counted once.
set_operations(M, Scope, FAs) ->
    Singly = fun(Count, Ones) -> [{Count, {{M, F, A}, MS, [Scope]}} || {{F, A}, MS} <- lists:sort(Ones)] end,
    case is_whole(M, Scope, [FA || {FA, _} <- FAs]) of
        true ->
            Main = most_frequent([MatchSpec || {_, MatchSpec} <- FAs]),
            [{1, {{M, '_', '_'}, Main, [Scope]}} | Singly(0, [One || {_, MS} = One <- FAs, MS =/= Main])];
        false ->
            Singly(1, FAs)
    end.

most_frequent(MatchSpecs) ->
    Counts = lists:foldl(fun(MS, Acc) -> maps:update_with(MS, fun(N) -> N + 1 end, 1, Acc) end, #{}, MatchSpecs),
    {_, Main} = lists:max([{N, MS} || {MS, N} <- maps:to_list(Counts)]),
    Main.

is_whole(M, Scope, FAs) ->
    length(FAs) > 1 andalso lists:sort(FAs) =:= lists:sort(module_functions(M, Scope)).

module_functions(M, local) -> module_info(M, functions);
module_functions(M, global) -> module_info(M, exports).

%% The module may have been deleted.
module_info(M, What) ->
    try
        erlang:get_module_info(M, What)
    catch
        error:badarg -> []
    end.

%% Returns the number of functions that the operations with factor 1 have set. The patched
%% runtime (erts_patches) applies all operations atomically.
set_functions(_, []) ->
    0;
set_functions(T, Operations) ->
    {Factors, Plain} = lists:unzip(Operations),
    Counts =
        case erlang:function_exported(api(), patterns, 2) of
            true -> (api()):patterns(handle(T), Plain);
            false -> [set_function(T, Operation) || Operation <- Plain]
        end,
    lists:sum(lists:zipwith(fun(Factor, Count) -> Factor * Count end, Factors, Counts)).

%% The first argument of the patched runtime's function.
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

%% The process or port may have ended.
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
%% The tracer must be given, or the runtime would remove it, and with it all other flags for new
%% processes or ports.
set_flags(#tracing{mode = global, tracer = {Module, State}}, _, Who, false, Flags) when
    Who =:= new_processes; Who =:= new_ports
->
    erlang:trace(Who, false, [{tracer, Module, State} | Flags]);
set_flags(#tracing{mode = global}, _, Who, false, Flags) ->
    erlang:trace(Who, false, Flags).

%% @doc Plans the removal of what the specification names. Functions that other patterns name
%% stay traced as those patterns require.
-spec unplan(t(), kymo_spec:t()) -> {ok, plan(), t()}.
unplan(#tracing{functions = Old} = T, #{functions := Functions} = Spec) ->
    Patterns = kymo_wanted:remove(T#tracing.patterns, Functions),
    Wanted = wanted(T, Patterns, cover),
    Set = maps:filter(fun(MFA, New) -> is_map_key(MFA, Old) andalso map_get(MFA, Old) =/= New end, Wanted),
    Unset = maps:merge(maps:without(maps:keys(Wanted), Old), moved(T, Set)),
    Plan = #{spec => Spec, how => false, set => Set, unset => Unset, senders => false, skipped => []},
    {ok, Plan, wants(T, Patterns, Wanted)}.

unset_tracees(_, _, none, _) ->
    ok;
unset_tracees(_, _, _, []) ->
    ok;
%% If any flag for new processes or ports is removed, the runtime also removes their tracer and
%% the other flags, so those are set again.
unset_tracees(#tracing{mode = session, session = Session} = T, Kind, new, Flags) ->
    {flags, Held} = (api()):info(Session, plural(new, Kind), flags),
    set_flags(T, Kind, new, false, Flags),
    _ = [set_flags(T, Kind, new, true, Held -- Flags) || Held -- Flags =/= []],
    ok;
unset_tracees(#tracing{mode = session} = T, Kind, Who, Flags) when is_atom(Who), Who =/= all ->
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
    _ = set_functions(
        T,
        lists:append([
            unset_operations(M, [FA || {{F, A} = FA, _} <- FAs, is_set(T, {M, F, A}, Scope)], Scope)
         || {{M, Scope}, FAs} <- maps:to_list(by_module(Set))
        ])
    ),
    ok.

unset_operations(M, FAs, Scope) ->
    case is_whole(M, Scope, FAs) of
        true -> [{1, {{M, '_', '_'}, false, [Scope]}}];
        false -> [{1, {{M, F, A}, false, [Scope]}} || {F, A} <- FAs]
    end.

%% No other tracer can set anything in a session.
is_set(#tracing{mode = session}, _, _) -> true;
is_set(T, MFA, Scope) -> is_ours(T, MFA, Scope).

%% ---- what a budget sheds -------------------------------------------------------

kind_flags(messages) -> [send, 'receive'];
kind_flags(running) -> [running_procs, running_ports];
kind_flags(calls) -> [call];
kind_flags(Kind) -> [Kind].

muted_flags(#tracing{muted = Kinds}) -> lists:append([kind_flags(K) || K <- Kinds]).

%% Remembers which flags were requested for which processes and ports, to restore them later. A
%% request for all of them replaces earlier requests for the same flags.
asked(How, #{processes := Processes, process_flags := PFlags, ports := Ports, port_flags := OFlags}, T) ->
    asked(How, port, Ports, OFlags, asked(How, process, Processes, PFlags, T)).

asked(_, _, Who, Flags, T) when Who =:= none; Who =:= []; Flags =:= [] ->
    T;
asked(How, Kind, all, Flags, #tracing{asked = Asked} = T) ->
    Left = [{H, K, Who, left(K =:= Kind, Fs, Flags)} || {H, K, Who, Fs} <- Asked],
    T#tracing{asked = [{How, Kind, all, Flags} | [One || {_, _, _, [_ | _]} = One <- Left]]};
asked(How, Kind, Who, Flags, #tracing{asked = Asked} = T) ->
    T#tracing{asked = [{How, Kind, Who, Flags} | lists:delete({How, Kind, Who, Flags}, Asked)]}.

left(true, Flags, Taken) -> Flags -- Taken;
left(false, Flags, _) -> Flags.

%% @doc The kinds of events that were asked for and are recorded.
-spec kinds(t()) -> [kind()].
kinds(#tracing{asked = Asked, muted = Muted}) ->
    Flags = lists:append([Fs || {set, _, _, Fs} <- Asked]),
    [
        K
     || K <- [messages, running, garbage_collection, procs, ports],
        not lists:member(K, Muted),
        lists:any(fun(F) -> lists:member(F, Flags) end, kind_flags(K))
    ].

%% @doc Whether setting this many functions takes long on a busy node. On a stock runtime all
%% schedulers synchronise for each of them; the patched runtime sets all in one operation.
-spec is_slow(t(), Functions :: non_neg_integer()) -> boolean().
is_slow(_, Functions) -> Functions > ?AT_ONCE andalso not erlang:function_exported(api(), patterns, 2).

%% @doc Plans to shed functions and kinds of events. The change must be passed to the janitor
%% before {@link apply_shed/3} is called.
-spec shed(t(), [mfa()], [kind()]) -> {Unset :: kymo_wanted:set(), change()}.
shed(#tracing{functions = Old}, MFAs, Kinds) -> {maps:with(MFAs, Old), {shed, MFAs, Kinds}}.

%% @doc The state after a planned change. Changes are small even if the state is large, so the
%% janitor is sent only changes.
-spec changed(t(), change()) -> t().
changed(#tracing{functions = Old, shed = Shed, muted = Muted} = T, {shed, MFAs, Kinds}) ->
    T#tracing{
        functions = maps:without(MFAs, Old),
        former = maps:with(MFAs, Old),
        shed = maps:merge(Shed, maps:from_list([{MFA, []} || MFA <- MFAs])),
        muted = lists:usort(Kinds ++ Muted)
    };
changed(#tracing{functions = Old, shed = Shed, muted = Muted} = T, {give_back, MFAs, Set, Kinds}) ->
    T#tracing{
        functions = maps:merge(Old, Set),
        former = maps:filter(fun(MFA, Was) -> map_get(MFA, Set) =/= Was end, maps:with(maps:keys(Set), Old)),
        shed = maps:without(MFAs, Shed),
        muted = Muted -- Kinds
    }.

%% @doc Carries out what {@link shed/3} has planned.
-spec apply_shed(t(), kymo_wanted:set(), [kind()]) -> t().
apply_shed(#tracing{tracees = Tracees} = T, Unset, Kinds) ->
    Flags = lists:append([kind_flags(K) || K <- Kinds]),
    unset_functions(T, Unset),
    unset_tracees(T, process, all, flags_of(process, Flags)),
    unset_tracees(T, port, all, flags_of(port, Flags)),
    T#tracing{former = #{}, tracees = unsample(unsample(Tracees, process, all, Flags), port, all, Flags)}.

flags_of(process, Flags) -> Flags -- [ports, running_ports];
flags_of(port, Flags) -> Flags -- [call, procs, running_procs, garbage_collection].

%% @doc Whether it is known which processes and ports have to get the flags of this kind. That is
%% unknown for processes of `existing', and for processes that have inherited flags.
-spec can_give_back(t(), kind()) -> boolean().
can_give_back(#tracing{asked = Asked}, Kind) ->
    Flags = kind_flags(Kind),
    lists:all(
        fun({How, _, Who, Fs}) ->
            Who =:= all orelse Who =:= new orelse How =:= unset orelse Fs -- Flags =:= Fs orelse
                (is_list(Who) andalso Fs -- [set_on_spawn, set_on_first_spawn, set_on_link, set_on_first_link] =:= Fs)
        end,
        Asked
    ).

%% @doc Plans to restore what was shed, as far as it is still wanted. Functions that another
%% tracer has set since stay shed.
-spec give_back(t(), [mfa()], [kind()]) -> {Set :: kymo_wanted:set(), Stay :: [mfa()], change()}.
give_back(#tracing{patterns = Patterns} = T, MFAs, Kinds) ->
    {ok, Wanted} = kymo_wanted:functions(kymo_wanted:only(Patterns, MFAs), cover),
    Stay = [MFA || MFA <- maps:keys(Wanted), T#tracing.mode =/= session, not is_free(T, MFA)],
    Set = maps:without(Stay, Wanted),
    {Set, Stay, {give_back, MFAs -- Stay, Set, Kinds}}.

%% @doc Carries out what {@link give_back/3} has planned.
-spec apply_give_back(t(), kymo_wanted:set(), [kind()]) -> t().
apply_give_back(#tracing{asked = Asked} = T, Set, Kinds) ->
    Flags = lists:append([kind_flags(K) || K <- Kinds]),
    _ = set_all(T, Set),
    lists:foldr(
        fun({How, Kind, Who, Asked1}, Acc) -> again(How, Kind, Who, [F || F <- Asked1, lists:member(F, Flags)], Acc) end,
        T#tracing{former = #{}},
        Asked
    ).

again(_, _, _, [], T) ->
    T;
again(set, Kind, Who, Flags, T) ->
    _ = set_tracees(T, Kind, Who, Flags),
    sample(T, Kind, Who, Flags);
again(unset, Kind, Who, Flags, #tracing{tracees = Tracees} = T) ->
    unset_tracees(T, Kind, Who, Flags),
    T#tracing{tracees = unsample(Tracees, Kind, Who, Flags)}.

%% ---- measuring -------------------------------------------------------------------

%% @doc Runs `Fun' while the calling process is traced with these flags, and a function.
-spec around_self({mode(), [kymo_faults:measure()]}, kymo:tracer(), [atom()], mfa(), fun(() -> Result)) -> Result.
around_self({Mode, Avoid}, Tracer, Flags, MFA, Fun) ->
    T = new(Mode, Tracer, Avoid),
    Set = #{MFA => {local, []}},
    try
        _ = set_all(T, Set),
        1 = set_flags(T, process, self(), true, Flags),
        Fun()
    after
        set_tracee(T, process, self(), false, Flags),
        unset_functions(T#tracing{functions = Set}, Set),
        Mode =:= session andalso end_session(T, T#tracing.session)
    end.

%% @doc Removes everything. Works in any process, after the recorder has ended, and more than
%% once.
-spec clear(t()) -> ok.
clear(#tracing{tracer = Tracer} = T) ->
    unwatch(T),
    lists:member(seq_trace:get_system_tracer(), [Tracer]) andalso seq_trace:set_system_tracer(false),
    clear_mode(T).

clear_mode(#tracing{mode = session, session = Session} = T) ->
    end_session(T, Session);
clear_mode(T) ->
    unset_tracees(T, process, new, [all]),
    unset_tracees(T, port, new, [all]),
    clear_existing(T, process, fun erlang:processes/0),
    clear_existing(T, port, fun erlang:ports/0),
    unset_functions(T, T#tracing.former),
    unset_functions(T, T#tracing.functions),
    Ours = {match_spec, ?SENDER},
    case T#tracing.senders andalso runtime(trace_info, ['receive', match_spec]) of
        Ours -> set_senders(T, true);
        _ -> ok
    end,
    ok.

%% The end of a session sends a signal to each process of the node. If signals are avoided, it is kept
%% instead, with nothing set in it.
end_session(#tracing{avoid = Avoid}, Session) ->
    end_session_of(Avoid, Session).

%% @doc Ends the sessions of recorders all of whose processes were killed. To be called when no recorder
%% is left.
-spec end_left() -> ok.
end_left() ->
    case modes() of
        [session | _] ->
            Left = [Session || {?SESSION, _} = Session <- (api()):session_info(all)],
            lists:foreach(fun(Session) -> end_session_of(kymo_faults:avoided(), Session) end, Left);
        [global] ->
            ok
    end.

%% @doc Without sessions: removes what is left of this specification of a recorder all of whose processes were
%% killed, except for flags of processes and ports, which end with the recorder. To be called when no recorder is
%% left. What another tracer had set before the recorder looks the same, and is removed, too.
-spec clear_left(kymo:trace_spec()) -> ok.
clear_left(Given) ->
    case {modes(), kymo_spec:parse(Given)} of
        {[global], {ok, #{functions := Functions, senders := Senders, process_flags := Flags, port_flags := PortFlags}}} ->
            {ok, Set} = kymo_wanted:functions(kymo_wanted:add([], Functions), cover),
            %% Nobody's tracer.
            T = new(global, {kymo_tracer, make_ref()}, kymo_faults:avoided()),
            clear(T#tracing{functions = Set, senders = Senders andalso lists:member('receive', Flags ++ PortFlags)});
        %% The functions may be gone.
        _ ->
            ok
    end.

end_session_of(Avoid, Session) ->
    case lists:member(signals, Avoid) of
        true ->
            empty(Session),
            persistent_term:put({?MODULE, Session}, Session);
        false ->
            _ = (api()):session_destroy(Session)
    end,
    ok.

%% Somebody else may have destroyed it.
empty(Session) ->
    try
        _ = (api()):process(Session, all, false, [all]),
        _ = (api()):port(Session, all, false, [all]),
        _ = [(api()):function(Session, {'_', '_', '_'}, false, [Scope]) || Scope <- [local, global]],
        _ = (api()):function(Session, ?LOADED, false, [meta]),
        _ = (api()):recv(Session, true, []),
        ok
    catch
        error:badarg -> ok
    end.

%% Repeated until no tracee is found, because one that was not cleared yet may have spawned
%% another that inherits its flags.
clear_existing(T, Kind, All) ->
    case [One || One <- All(), may_be_traced(One), holder(T, One) =:= ours] of
        [] ->
            ok;
        Found ->
            _ = [set_tracee(T, Kind, One, false, [all]) || One <- Found],
            clear_existing(T, Kind, All)
    end.

%% ---- code that is loaded later ---------------------------------------------


%% @doc Makes the runtime notify the caller when code was loaded: loading a module removes its
%% breakpoints. {@link loaded/1} recognises the message. In mode `global' this works only if
%% no other tracer watches the same function.
-spec watch(t()) -> t().
watch(#tracing{mode = session} = T) ->
    %% A session of its own, because all messages of a session go to one tracer.
    Session = (api()):session_create(?SESSION, self(), []),
    (api()):function(Session, ?LOADED, ?LOADED_SPEC, [meta]),
    T#tracing{watcher = {session, Session}};
watch(#tracing{watcher = Watcher} = T) ->
    case watcher() of
        none ->
            runtime(trace_pattern, [?LOADED, ?LOADED_SPEC, [{meta, Watcher}]]),
            T;
        _ ->
            T
    end.

%% The process that is notified now. The runtime may show one that has ended until code is loaded.
watcher() ->
    case runtime(trace_info, [?LOADED, meta]) of
        {meta, Tracer} when Tracer =:= false; Tracer =:= [] -> none;
        {meta, Pid} when is_pid(Pid), node(Pid) =:= node() ->
            case is_process_alive(Pid) of
                true -> Pid;
                false -> none
            end;
        {meta, Other} -> Other
    end.

%% @doc Whether the message reports that code was loaded.
-spec loaded(term()) -> boolean().
loaded(Message) ->
    is_tuple(Message) andalso tuple_size(Message) >= 4 andalso
        element(1, Message) =:= trace_ts andalso element(3, Message) =:= return_from.

unwatch(#tracing{watcher = none}) ->
    ok;
unwatch(#tracing{watcher = {session, Session}} = T) ->
    end_session(T, Session);
unwatch(#tracing{watcher = Watcher}) ->
    case watcher() of
        %% `none' if it has ended, as when the janitor calls this function.
        One when One =:= Watcher; One =:= none ->
            runtime(trace_pattern, [?LOADED, false, [meta]]),
            ok;
        _ ->
            ok
    end.

%% @doc Plans what is necessary because of code loaded since the last plan: patterns in modules
%% that were loaded again, and wildcards in modules that were loaded for the first time.
-spec replan(t()) -> {ok, plan(), t()} | unchanged.
replan(#tracing{patterns = Patterns} = T) ->
    case [{P, Lost} || P <- Patterns, [_ | _] = Lost <- [lost(T, P)]] of
        [] ->
            unchanged;
        Changed ->
            {Found, Skipped} = lists:mapfoldl(
                fun({P, Lost}, Acc) -> free(T, P#{functions := Lost}, Acc) end, [], Changed
            ),
            Updates = maps:from_list(lists:zip([P || {P, _} <- Changed], Found)),
            Updated = [updated(P, maps:get(P, Updates, P)) || P <- Patterns],
            Wanted = wanted(T, Updated, cover),
            Spec = #{
                processes => none,
                process_flags => [],
                ports => none,
                port_flags => [],
                functions => Found,
                senders => false
            },
            Plan = #{
                spec => Spec,
                how => true,
                set => maps:with(mfas(Found), Wanted),
                unset => #{},
                senders => false,
                skipped => Skipped
            },
            {ok, Plan, wants(T, Updated, Wanted)}
    end.

updated(#{functions := Old} = P, #{functions := New}) ->
    P#{functions := lists:foldl(fun({M, _} = Mod, Acc) -> lists:keystore(M, 1, Acc, Mod) end, Old, New)}.

lost(T, #{scope := Scope} = Pattern) ->
    [Mod || Mod <- kymo_wanted:found(Pattern, Scope), not is_module_in_place(T, not_shed(T, Mod))].

not_shed(#tracing{shed = Shed}, {M, FAs}) -> {M, [FA || {F, A} = FA <- FAs, not is_map_key({M, F, A}, Shed)]}.

%% A load removes all breakpoints of a module at once, possibly between two of the operations that
%% set them. For each match spec, the first function is the one that is set first, and it is set
%% only once: if it is in place, so are the others, unless the new module has more functions
%% than the old one.
is_module_in_place(T, {M, FAs}) ->
    is_module_in_place(T, M, lists:sort(FAs), #{}).

is_module_in_place(_, _, [], _) ->
    true;
is_module_in_place(#tracing{functions = Set} = T, M, [{F, A} | Rest], Checked) ->
    case Set of
        #{{M, F, A} := How} when is_map_key(How, Checked) ->
            is_module_in_place(T, M, Rest, Checked);
        #{{M, F, A} := {Scope, _} = How} ->
            traced(T, {M, F, A}) =:= Scope andalso is_module_in_place(T, M, Rest, Checked#{How => []});
        #{} ->
            false
    end.

traced(T, MFA) -> element(2, trace_info(T, MFA, traced)).

%% ---- what is still in place --------------------------------------------------

%% @doc False if the session was destroyed.
-spec is_alive(t()) -> boolean().
is_alive(#tracing{mode = global}) ->
    true;
is_alive(#tracing{mode = session, session = Session, watcher = Watcher}) ->
    is_session(Session) andalso is_watching(Watcher).

is_watching({session, Session}) -> is_session(Session);
is_watching(none) -> true.

is_session(Session) ->
    try (api()):info(Session, new_processes, flags) of
        _ -> true
    catch
        error:badarg -> false
    end.

%% @doc The functions that are set.
-spec functions(t()) -> kymo_wanted:set().
functions(#tracing{functions = Functions}) -> Functions.

%% @doc Removes messages about loaded code from the mailbox. Returns whether there were any.
-spec drain() -> boolean().
drain() -> drain(false).

drain(Any) ->
    receive
        {trace_ts, _, return_from, _, _, _} -> drain(true)
    after 0 -> Any
    end.

%% @doc The sample of processes and ports for is_in_place/2, at most ?MAX_SAMPLE.
-spec tracees(t()) -> tracees().
tracees(#tracing{tracees = Tracees}) -> Tracees.

%% @doc Removes processes and ports that have ended from the sample.
-spec forget_tracees(t(), [pid() | port()]) -> t().
forget_tracees(#tracing{tracees = Tracees} = T, Gone) -> T#tracing{tracees = maps:without(Gone, Tracees)}.

%% @doc Whether the settings of this function or tracee are still in place. `gone': it no longer
%% exists.
-spec is_in_place(t(), mfa() | pid() | port() | new_processes | new_ports) -> boolean() | gone.
is_in_place(#tracing{functions = Set} = T, {_, _, _} = MFA) ->
    #{MFA := {Scope, MatchSpec}} = Set,
    case traced(T, MFA) of
        undefined -> gone;
        Scope -> trace_info(T, MFA, match_spec) =:= {match_spec, MatchSpec};
        _ -> false
    end;
is_in_place(#tracing{tracees = Tracees} = T, Tracee) ->
    #{Tracee := Wanted} = Tracees,
    case flags(T, Tracee) of
        gone -> gone;
        Flags -> Wanted -- Flags =:= [] andalso is_held(T, Tracee)
    end.

trace_info(#tracing{mode = session, session = Session}, What, Item) ->
    (api()):info(Session, What, Item);
trace_info(#tracing{mode = global}, What, Item) ->
    runtime(trace_info, [What, Item]).

%% Chooses the first ones in the order of pids, which are the oldest, and the defaults for new
%% ones. Includes only those that have the flags now: a sensitive process has none.
sample(T, _, none, _) ->
    T;
sample(T, _, _, []) ->
    T;
sample(#tracing{tracees = Old, others = Others} = T, Kind, Who, Flags) ->
    Room = max(0, ?MAX_SAMPLE - map_size(Old)),
    Watched = (Flags -- ?PASSING_FLAGS) ++ lists:append(maps:values(Old)),
    Candidates = lists:sublist(candidates(Kind, Who), Room) -- Others,
    {Found, Sampled} = lists:mapfoldl(fun(One, Acc) -> shown(One, Watched, Acc) end, T, Candidates),
    Sampled#tracing{tracees = maps:merge(Old, maps:from_list([F || {_, [_ | _]} = F <- Found]))}.

%% The flags of the sampled process or port. A process is asked only if no other one with the same
%% bits has been, and if the runtime bears that.
shown(One, Watched, T) when is_pid(One) ->
    case not avoids(signals, T) andalso kymo_quiet:trace_bits(One) of
        {ok, Bits} when Bits =/= 0 ->
            Asked = asked_for(One, Bits, T),
            {{One, watched(maps:get(Bits, Asked#tracing.shown), Watched)}, Asked};
        _ ->
            {{One, []}, T}
    end;
shown(One, Watched, T) ->
    Flags =
        case is_held(T, One) of
            true -> flags(T, One);
            false -> gone
        end,
    {{One, watched(Flags, Watched)}, T}.

asked_for(One, Bits, #tracing{shown = Known} = T) ->
    case Known of
        #{Bits := _} -> T;
        _ -> T#tracing{shown = Known#{Bits => flags(T, One)}}
    end.

watched(gone, _) -> [];
watched(Flags, Watched) -> [F || F <- Flags, lists:member(F, Watched)].

flags(T, Tracee) ->
    try trace_info(T, Tracee, flags) of
        {flags, Flags} -> Flags;
        undefined -> gone
    catch
        error:badarg -> gone
    end.

candidates(_, Who) when is_list(Who) -> Who;
candidates(Kind, new) -> [plural(new, Kind)];
candidates(Kind, all) -> [plural(new, Kind) | existing(Kind)];
candidates(Kind, existing) -> existing(Kind).

existing(process) -> processes();
existing(port) -> erlang:ports().

unsample(Tracees, _, none, _) ->
    Tracees;
unsample(Tracees, Kind, Who, Flags) ->
    Left = maps:map(
        fun(One, Old) ->
            case is_meant(Kind, Who, One) of
                true -> Old -- Flags;
                false -> Old
            end
        end,
        Tracees
    ),
    maps:filter(fun(_, Watched) -> Watched =/= [] end, Left).

is_meant(_, Who, One) when is_list(Who) -> lists:member(One, Who);
is_meant(Kind, new, One) -> One =:= plural(new, Kind);
is_meant(process, existing, One) -> is_pid(One);
is_meant(port, existing, One) -> is_port(One);
is_meant(Kind, all, One) -> is_meant(Kind, new, One) orelse is_meant(Kind, existing, One).

%% @doc For {@link kymo:info/1}.
-spec describe(t()) -> #{mode := mode(), functions := non_neg_integer()}.
describe(#tracing{mode = Mode, functions = Functions}) ->
    #{mode => Mode, functions => map_size(Functions)}.

-spec fail(term()) -> no_return().
fail(Reason) -> throw({error, Reason}).
