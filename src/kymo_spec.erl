%% SPDX-License-Identifier: Apache-2.0
%% @private Checks the argument of `kymo:trace/2' and converts it to trace flags and functions.
-module(kymo_spec).

-export([parse/1, patterns/1, keys/0, events/0]).
-export_type([t/0, functions/0]).

-type functions() :: #{
    scope := local | global,
    match_spec := list(),
    functions := kymo_pattern:functions(),
    compiled := kymo_pattern:compiled(),
    %% Patterns whose functions were removed with untrace/2.
    except := [kymo_pattern:compiled()]
}.

-type t() :: #{
    processes := none | all | existing | new | [pid()],
    process_flags := [atom()],
    ports := none | all | existing | new | [port()],
    port_flags := [atom()],
    functions := [functions()],
    %% Flags that are set also where they can do harm.
    always := [atom()],
    senders := boolean()
}.

%% @doc The options that belong to a trace specification.
-spec keys() -> [atom()].
keys() -> kymo_options:trace().

%% @doc The names of the events.
-spec events() -> [atom()].
events() -> [Event || {Event, _, _} <- table()].

%% @doc Checks a specification. Loads the modules that it names exactly, and sets nothing.
-spec parse(kymo:trace_spec()) -> {ok, t()} | {error, kymo:trace_error()}.
parse(Spec) when is_map(Spec) ->
    try
        {ok, checked(Spec)}
    catch
        throw:{error, _} = Error -> Error
    end;
parse(Spec) ->
    {error, {bad_option, trace, Spec}}.

checked(Spec) ->
    ok = named(kymo_options:check_names(Spec, keys())),
    Scope = one_of(scope, [local, global], local, Spec),
    Returns = one_of(returns, [true, false], false, Spec),
    Functions =
        [functions(compiled(P), Scope, Returns) || P <- patterns(maps:get(functions, Spec, []))] ++
            [functions(P, Scope, false) || P <- slow(maps:get(slow, Spec, #{}))],
    Events = events(Spec, Functions),
    PortFlags = flags(Events, 3),
    DefaultPorts =
        case lists:member(ports, Events) orelse lists:member(running_ports, Events) of
            true -> all;
            false -> none
        end,
    #{
        processes => tracees(processes, maps:get(processes, Spec, all), fun process/1),
        process_flags => flags(Events, 2),
        ports => tracees(ports, maps:get(ports, Spec, DefaultPorts), fun port/1),
        port_flags => PortFlags,
        functions => Functions,
        always => [Flag || {Key, Flag} <- always(), one_of(Key, [auto, always], auto, Spec) =:= always],
        senders => one_of(senders, [true, false], true, Spec)
    }.

%% The options that have flags set on all runtimes.
always() -> [{garbage_collection, garbage_collection}, {received_messages, 'receive'}].

one_of(Key, Allowed, Default, Spec) ->
    Value = maps:get(Key, Spec, Default),
    case lists:member(Value, Allowed) of
        true -> Value;
        false -> fail({bad_option, Key, Value})
    end.

%% @doc A single pattern need not be in a list. Text is a list as well.
-spec patterns(term()) -> list().
patterns(Pattern) when is_binary(Pattern); is_tuple(Pattern); is_atom(Pattern) ->
    [Pattern];
patterns([]) ->
    [];
patterns(Patterns) when is_list(Patterns), length(Patterns) >= 0 ->
    case io_lib:char_list(Patterns) of
        true -> [Patterns];
        false -> Patterns
    end;
patterns(Other) ->
    fail({bad_option, functions, Other}).

compiled(Pattern) -> ok(kymo_pattern:compile(Pattern)).

%% Mistakes are reported on all runtimes; that a runtime has no slow calls, only for a correct map.
slow(Slow) when Slow =:= #{} ->
    [];
slow(Slow) when is_map(Slow) ->
    [fail({bad_option, slow, Micros}) || Micros <- maps:values(Slow), not is_threshold(Micros)],
    Compiled = [{compiled(Pattern), Micros} || {Pattern, Micros} <- maps:to_list(Slow)],
    kymo_pattern:has_slow() orelse fail(no_slow_calls),
    [kymo_pattern:slow(Pattern, Micros) || {Pattern, Micros} <- Compiled];
slow(Other) ->
    fail({bad_option, slow, Other}).

is_threshold(Micros) -> is_integer(Micros) andalso Micros >= 0 andalso Micros =< kymo_options:most_slow().

functions(Compiled, Scope, Returns) ->
    kymo_pattern:load(Compiled),
    #{
        scope => Scope,
        match_spec => kymo_pattern:match_spec(Compiled, Returns),
        functions => ok(kymo_pattern:functions(Compiled, Scope)),
        compiled => Compiled,
        except => []
    }.

events(#{events := Events}, Functions) when is_list(Events), length(Events) >= 0 ->
    [fail({bad_option, events, E}) || E <- Events, not lists:keymember(E, 1, table())],
    case Functions of
        [] when Events =:= [] -> fail({missing_option, events});
        [] -> Events;
        [_ | _] -> [calls | Events]
    end;
events(#{events := Events}, _) ->
    fail({bad_option, events, Events});
events(_, []) ->
    fail({missing_option, events});
events(_, [_ | _]) ->
    [calls].

flags(Events, Column) ->
    lists:usort(lists:append([element(Column, lists:keyfind(E, 1, table())) || E <- Events])).

%% event, trace flags of a process, trace flags of a port
table() ->
    [
        {calls, [call], []},
        {return_to, [call, return_to], []},
        {messages, [send, 'receive'], [send, 'receive']},
        {send, [send], [send]},
        {'receive', ['receive'], ['receive']},
        {procs, [procs], []},
        {ports, [], [ports]},
        {running, [running_procs], [running_ports]},
        {running_procs, [running_procs], []},
        {running_ports, [], [running_ports]},
        {exiting, [exiting], []},
        {garbage_collection, [garbage_collection], []},
        {set_on_spawn, [set_on_spawn], []},
        {set_on_first_spawn, [set_on_first_spawn], []},
        {set_on_link, [set_on_link], []},
        {set_on_first_link, [set_on_first_link], []}
    ].

tracees(_, Who, _) when Who =:= none; Who =:= all; Who =:= existing; Who =:= new ->
    Who;
tracees(_, Who, Find) when is_list(Who), length(Who) >= 0 ->
    [Find(W) || W <- Who];
tracees(Key, Who, _) ->
    fail({bad_option, Key, Who}).

process(Pid) when is_pid(Pid), node(Pid) =:= node() ->
    Pid;
process(Name) when is_atom(Name) ->
    case [Pid || Pid <- [whereis(Name), whereis_module(Name)], is_pid(Pid)] of
        [Pid | _] -> Pid;
        [] -> fail({no_process, Name})
    end;
process(Other) ->
    fail({bad_option, processes, Other}).

%% Elixir prints modules, which are often registered names, without their prefix.
whereis_module(Name) ->
    try
        whereis(list_to_existing_atom("Elixir." ++ atom_to_list(Name)))
    catch
        error:_ -> undefined
    end.

port(Port) when is_port(Port), node(Port) =:= node() ->
    Port;
port(Name) when is_atom(Name) ->
    case whereis(Name) of
        Port when is_port(Port) -> Port;
        _ -> fail({no_port, Name})
    end;
port(Other) ->
    fail({bad_option, ports, Other}).

named(ok) -> ok;
named({error, Reason}) -> fail(Reason).

ok({ok, Value}) -> Value;
ok({error, Reason}) -> fail(Reason).

-spec fail(term()) -> no_return().
fail(Reason) -> throw({error, Reason}).
