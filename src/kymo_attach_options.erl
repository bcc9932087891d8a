%% SPDX-License-Identifier: Apache-2.0
%% @private What `kymo attach' was asked to record, as options of {@link kymo:start/1}
%% and {@link kymo:trace/2}. Whether they are right is for the node to say.
-module(kymo_attach_options).

-export([start/1, spec/1, to_atom/1]).

-define(DEFAULT_BUDGET, "5%").
-define(DEFAULT_EVENTS, [messages, running, procs, garbage_collection]).

%% @doc Of the recorder.
-spec start([{string(), string()}]) -> map().
start(Args) ->
    Options = [
        {policy, fun atom/1},
        {memory, fun list_to_integer/1},
        {calls, fun atom/1},
        {messages, fun atom/1},
        {budget, fun budget/1}
    ],
    maps:from_list([
        {Key, Read(Value)}
     || {Key, Read} <- Options, {Name, Value} <- [{"budget", ?DEFAULT_BUDGET} | Args], Name =:= atom_to_list(Key)
    ]).

%% "off", "5%" and "10000/s".
budget("off") ->
    none;
budget(Text) ->
    Wrong = {error, {bad_budget, Text}},
    case re:run(Text, "^([0-9]{1,12})(\\.[0-9]{1,6})?(%|/s)$", [{capture, all_but_first, list}]) of
        {match, [Whole, "", "%"]} -> #{cpu => list_to_integer(Whole)};
        {match, [Whole, Part, "%"]} -> #{cpu => list_to_float(Whole ++ Part)};
        {match, [Whole, "", "/s"]} -> #{events => list_to_integer(Whole)};
        _ -> throw(Wrong)
    end.

%% @doc Of the trace. Without functions and events: what shows how processes wait for
%% each other. With functions also where they return to, since without that no call has a
%% duration; `calls' among the events leaves it out.
-spec spec([{string(), string()}]) -> map().
spec(Args) ->
    Functions = [F || {"functions", F} <- Args],
    Events = lists:append([[atom(E) || E <- string:lexemes(Es, ",")] || {"events", Es} <- Args]),
    Named = [atom(P) || {"process", P} <- Args],
    maps:merge(
        case {Functions, Events} of
            {[], []} -> #{events => ?DEFAULT_EVENTS};
            {_, []} -> #{functions => Functions, events => [return_to]};
            {[], _} -> #{events => Events};
            {_, _} -> #{functions => Functions, events => Events ++ [return_to || not lists:member(calls, Events)]}
        end,
        case Named of
            [] -> #{};
            _ -> #{processes => Named}
        end
    ).

atom(Text) ->
    case to_atom(string:trim(Text)) of
        {ok, Atom} -> Atom;
        error -> throw({error, {too_long, Text}})
    end.

%% @doc `error': an atom can't be that long.
-spec to_atom(string()) -> {ok, atom()} | error.
to_atom(Text) ->
    case length(Text) =< 255 of
        true -> {ok, list_to_atom(Text)};
        false -> error
    end.
