%% SPDX-License-Identifier: Apache-2.0
%% @private Converts options of `kymo attach' to those of {@link kymo:start/1} and {@link
%% kymo:trace/2}, which check them in the node.
-module(kymo_attach_options).

-export([start/1, spec/1, unrecorded/1, to_atom/1]).

-define(DEFAULT_BUDGET, "5%").
-define(DEFAULT_EVENTS, [messages, running, procs, garbage_collection]).

%% @doc The options of the recorder.
-spec start([{string(), string()}]) -> map().
start(Args) ->
    Options = [
        {policy, fun atom/1},
        {memory, fun list_to_integer/1},
        {calls, fun atom/1},
        {messages, fun atom/1},
        {budget, fun budget/1},
        {counters, fun counters/1},
        {system_monitor, fun system_monitor/1}
    ],
    Defaults = [{"budget", ?DEFAULT_BUDGET}, {"counters", "100ms"}, {"system_monitor", "default"}],
    maps:from_list([
        {Key, Read(Value)}
     || {Key, Read} <- Options, {Name, Value} <- Defaults ++ Args, Name =:= atom_to_list(Key)
    ]).

%% "off", "5%" and "10000/s".
budget("off") ->
    none;
budget(Text) ->
    Wrong = {error, {bad_budget, Text}},
    case re:run(Text, "^([0-9]{1,12})(\\.[0-9]{1,6})?(%|/s)$", [{capture, all_but_first, list}]) of
        {match, [Whole, "", "%"]} -> in_range(cpu, list_to_integer(Whole), 0.01, 100, Wrong);
        {match, [Whole, Part, "%"]} -> in_range(cpu, list_to_float(Whole ++ Part), 0.01, 100, Wrong);
        {match, [Whole, "", "/s"]} -> in_range(events, list_to_integer(Whole), 1, 999999999999, Wrong);
        _ -> throw(Wrong)
    end.

in_range(Key, N, Min, Max, _) when N >= Min, N =< Max -> #{Key => N};
in_range(_, _, _, _, Wrong) -> throw(Wrong).

%% "off", "100ms" and "1s".
counters("off") ->
    none;
counters(Text) ->
    case re:run(Text, "^([0-9]{1,9})(ms|s)$", [{capture, all_but_first, list}]) of
        {match, [N, "ms"]} -> interval(list_to_integer(N), Text);
        {match, [N, "s"]} -> interval(1000 * list_to_integer(N), Text);
        _ -> throw({error, {bad_counters, Text}})
    end.

interval(Ms, Text) ->
    case kymo_counters:check(Ms) of
        true -> Ms;
        false -> throw({error, {bad_counters, Text}})
    end.

system_monitor("off") -> none;
system_monitor("default") -> default;
system_monitor(Text) -> throw({error, {bad_system_monitor, Text}}).

%% @doc The trace specification. Without functions and events: the events that show how
%% processes wait for each other. With functions, `return_to' is added, which gives calls their
%% durations, unless `calls' is among the events. Slow calls have theirs without it. Triggers add
%% the events that they need.
-spec spec([{string(), string()}]) -> map().
spec(Args) ->
    Functions = [F || {"functions", F} <- Args],
    Slow = slow([S || {"slow", S} <- Args]),
    Events = lists:append([[atom(E) || E <- string:lexemes(Es, ",")] || {"events", Es} <- Args]),
    Named = [atom(P) || {"process", P} <- Args],
    Watched = kymo_attach_watch:events([T || {"trigger", T} <- Args]),
    Recorded =
        case {Functions, Events} of
            {[], []} when Slow =/= #{} ->
                #{events => Watched};
            {[], []} ->
                #{events => lists:usort(?DEFAULT_EVENTS ++ Watched)};
            {_, []} ->
                #{functions => Functions, events => [return_to | Watched]};
            {[], _} ->
                #{events => lists:usort(Events ++ Watched)};
            {_, _} ->
                Ends = [return_to || not lists:member(calls, Events)],
                #{functions => Functions, events => lists:usort(Events ++ Watched ++ Ends)}
        end,
    Always = [{atom(Key), atom(What)} || {Key, What} <- Args, Key =:= "garbage_collection" orelse Key =:= "received_messages"],
    maps:merge(
        Recorded,
        maps:from_list(Always ++ [{slow, Slow} || Slow =/= #{}] ++ [{processes, Named} || Named =/= []])
    ).

%% @doc The kinds of events that answers need and that are not recorded because functions were named
%% and events were not, with a description.
-spec unrecorded([{string(), string()}]) -> [{atom(), string()}].
unrecorded(Args) ->
    case proplists:is_defined("functions", Args) andalso not proplists:is_defined("events", Args) of
        true ->
            #{events := Recorded} = spec(Args),
            [Kind || {Event, _} = Kind <- [{messages, "messages"}, {running, "scheduling"}], not lists:member(Event, Recorded)];
        false ->
            []
    end.

%% `Pattern=Microseconds'. Of several times for the same pattern the shortest applies.
slow(Texts) ->
    lists:foldl(
        fun(Text, Slow) ->
            [Pattern, Digits] = string:split(Text, "=", trailing),
            Micros = list_to_integer(Digits),
            maps:update_with(Pattern, fun(Other) -> min(Other, Micros) end, Micros, Slow)
        end,
        #{},
        Texts
    ).

atom(Text) ->
    case to_atom(string:trim(Text)) of
        {ok, Atom} -> Atom;
        error -> throw({error, {too_long, Text}})
    end.

%% @doc Returns `error' if the text is too long for an atom.
-spec to_atom(string()) -> {ok, atom()} | error.
to_atom(Text) ->
    case length(Text) =< 255 of
        true -> {ok, list_to_atom(Text)};
        false -> error
    end.
