%% SPDX-License-Identifier: Apache-2.0
%%
%% Runs the same workload under a process tracer and under kymo_tracer, and returns what each of
%% them reports.
%%
%% `same_run': one run with two trace sessions. Then everything must be equal, including pids,
%% references and heap sizes. `two_runs': two runs, each in the global tracing. Then pids, ports
%% and references are replaced by the names that the workload gives them with role/2, or by one
%% common word if it gives none.
-module(kymo_conform).

-export([run/3, role/2, modes/0, by_tracee/1, collector/0, collected/1, recorded/1, normal/2, remote/1]).

%% #{workload := fun(() -> term())           runs in the process that is traced
%%   flags => [atom()]
%%   ports => [atom()]                        flags of ports that are opened by it
%%   functions => [{mfa(), match_spec(), [atom()]}]
%%   send => match_spec(), 'receive' => match_spec()
%%   options => map()                         for kymo_tracer:open/1
%%   keep => fun((Event) -> boolean())}       default: all

modes() ->
    _ = code:ensure_loaded(trace),
    case erlang:function_exported(trace, session_create, 3) of
        true -> [same_run, two_runs];
        false -> [two_runs]
    end.

%% {what the process tracer received, what kymo recorded}: lists by tracee.
run(same_run, Spec, Dir) ->
    {ok, State} = open(Spec, Dir),
    Collector = collector(),
    A = {session, trace:session_create(expected, Collector, [])},
    B = {session, trace:session_create(recorded, {kymo_tracer, State}, [])},
    Root = root(Spec),
    [set(S, tracer, Spec, Root) || S <- [A, B]],
    _ = go(Root),
    Expected = collected(Collector, A),
    [trace:session_destroy(S) || {session, S} <- [A, B]],
    ok = kymo_tracer:stop(State),
    {by_tracee(keep(Spec, Expected)), by_tracee(keep(Spec, recorded(Dir)))};
run(two_runs, Spec, Dir) ->
    Collector = collector(),
    Root1 = root(Spec),
    set(global, {tracer, Collector}, Spec, Root1),
    Roles1 = go(Root1),
    Expected = collected(Collector, global),
    clear(Spec),
    {ok, State} = open(Spec, Dir),
    Root2 = root(Spec),
    set(global, {tracer, kymo_tracer, State}, Spec, Root2),
    Roles2 = go(Root2),
    clear(Spec),
    ok = kymo_tracer:stop(State),
    {by_tracee(normal(Roles1, keep(Spec, Expected))), by_tracee(normal(Roles2, keep(Spec, recorded(Dir))))}.

open(Spec, Dir) ->
    All = #{dir => Dir, policy => overwrite, memory => 16 bsl 20,
            calls => arguments, returns => values, messages => contents, terms => contents, gc => sizes,
            content_bytes => 16384},
    kymo_tracer:open(maps:merge(All, maps:get(options, Spec, #{}))).

keep(Spec, Events) ->
    lists:filter(maps:get(keep, Spec, fun(_) -> true end), Events).

%% ---- the traced process -------------------------------------------------------

root(#{workload := Workload}) ->
    Self = self(),
    {Pid, _} = spawn_monitor(
                 fun() ->
                         put(?MODULE, [{test, Self}, {root, self()}]),
                         receive go -> ok end,
                         _ = Workload(),
                         exit({shutdown, {roles, get(?MODULE)}})
                 end),
    Pid.

%% Called by the workload: names this process, port or reference.
role(Name, Id) ->
    put(?MODULE, [{Name, Id} | get(?MODULE)]),
    Id.

go(Root) ->
    Root ! go,
    receive
        {'DOWN', _, process, Root, {shutdown, {roles, Roles}}} -> Roles;
        {'DOWN', _, process, Root, Other} -> error({workload, Other})
    end.

%% ---- tracing --------------------------------------------------------------------

set(Where, Tracer, Spec, Root) ->
    [1 = pattern(Where, MFA, MS, Flags) || {MFA, MS, Flags} <- maps:get(functions, Spec, [])],
    [pattern(Where, Event, maps:get(Event, Spec), []) || Event <- [send, 'receive'], is_map_key(Event, Spec)],
    case Spec of
        #{flags := Flags} -> 1 = trace(Where, process, Root, Flags, Tracer);
        _ -> ok
    end,
    case Spec of
        #{ports := PortFlags} -> trace(Where, port, new, PortFlags, Tracer);
        _ -> ok
    end.

pattern(global, What, MS, Flags) -> erlang:trace_pattern(What, MS, Flags);
pattern({session, S}, send, MS, Flags) -> trace:send(S, MS, Flags);
pattern({session, S}, 'receive', MS, Flags) -> trace:recv(S, MS, Flags);
pattern({session, S}, What, MS, Flags) -> trace:function(S, What, MS, Flags).

trace(global, port, new, Flags, Tracer) -> erlang:trace(new_ports, true, [Tracer | Flags]);
trace(global, _, Who, Flags, Tracer) -> erlang:trace(Who, true, [Tracer | Flags]);
trace({session, S}, process, Who, Flags, _) -> trace:process(S, Who, true, Flags);
trace({session, S}, port, Who, Flags, _) -> trace:port(S, Who, true, Flags).

clear(Spec) ->
    _ = erlang:trace(all, false, [all]),
    [erlang:trace_pattern(MFA, false, Flags) || {MFA, _, Flags} <- maps:get(functions, Spec, [])],
    [erlang:trace_pattern(Event, true, []) || Event <- [send, 'receive'], is_map_key(Event, Spec)],
    ok.

%% ---- results ----------------------------------------------------------------------

collector() ->
    spawn_link(fun() -> collect([]) end).

collect(Events) ->
    receive
        {stop, From} -> From ! {self(), lists:reverse(Events)};
        Event -> collect([Event | Events])
    end.

collected(Collector) ->
    collected(Collector, global).

collected(Collector, Where) ->
    Ref = case Where of
              global -> erlang:trace_delivered(all);
              {session, S} -> trace:delivered(S, all)
          end,
    receive {trace_delivered, all, Ref} -> ok end,
    Collector ! {stop, self()},
    receive {Collector, Events} -> Events end.

%% The events of a recording in the form in which a process tracer receives them.
recorded(Dir) ->
    File = Dir ++ ".dbg",
    {0, _} = kymo_cli:run(["export", "dbg", "-o", File, Dir]),
    Events = kymo_cli:read_dbg(File),
    ok = file:delete(File),
    Events.

by_tracee(Events) ->
    lists:foldr(fun(E, Map) -> maps:update_with(element(2, E), fun(L) -> [E | L] end, [E], Map) end, #{}, Events).

normal(Roles, Term) ->
    Names = maps:from_list([{Id, {role, Name}} || {Name, Id} <- Roles]),
    normal1(Names, Term).

normal1(Names, T) when is_pid(T), node(T) =:= node() -> maps:get(T, Names, some_process);
normal1(Names, T) when is_port(T), node(T) =:= node() -> maps:get(T, Names, some_port);
normal1(Names, T) when is_reference(T), node(T) =:= node() -> maps:get(T, Names, some_reference);
normal1(Names, [H | T]) -> [normal1(Names, H) | normal1(Names, T)];
normal1(Names, T) when is_tuple(T) -> list_to_tuple(normal1(Names, tuple_to_list(T)));
normal1(Names, T) when is_map(T) -> maps:from_list(normal1(Names, maps:to_list(T)));
normal1(_, T) -> T.

%% A pid, port or reference of a node that does not exist.
remote(What) ->
    Node = <<119, 10, "other@host">>,
    binary_to_term(
      case What of
          pid -> <<131, 88, Node/binary, 77:32, 3:32, 42:32>>;
          port -> <<131, 89, Node/binary, 78:32, 42:32>>;
          reference -> <<131, 90, 3:16, Node/binary, 42:32, 1:32, 2:32, 3:32>>
      end).
