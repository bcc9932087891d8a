%% SPDX-License-Identifier: Apache-2.0
%%
%% Unions of match specifications. The runtime itself decides which calls each of them traces,
%% and with which actions.
-module(kymo_match_spec_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0]).
-export([always/1, one_condition/1, two_conditions/1, variables/1, maps_and_constants/1, messages/1,
    slow_calls/1, any_order/1, too_large/1, random/1]).

all() ->
    [always, one_condition, two_conditions, variables, maps_and_constants, messages, slow_calls, any_order, too_large, random].

-define(RETURN, [{'_', [], [{exception_trace}]}]).

always(_) ->
    {ok, []} = kymo_match_spec:union([[]]),
    {ok, []} = kymo_match_spec:union([[], [], [{'_', [], []}]]),
    {ok, ?RETURN} = kymo_match_spec:union([[], ?RETURN]),
    {ok, ?RETURN} = kymo_match_spec:union([?RETURN, ?RETURN]).

one_condition(_) ->
    Large = [{[{'$1', '_'}], [{'>', '$1', 5}], [{exception_trace}]}],
    {ok, [{[{'$1', '_'}], [{'>', '$1', 5}], [{exception_trace}]}, {'_', [], []}]} =
        kymo_match_spec:union([[], Large]).

two_conditions(_) ->
    A = [{['$1'], [{is_list, '$1'}], [{exception_trace}]}],
    B = [{[[a | '_']], [], [{message, {{m, {caller}}}}]}],
    same([A, B], [[[a]], [[b]], [[]], [a], [{a}]]).

%% A variable that occurs twice, in both positions of the second specification, and the list of
%% all variables.
variables(_) ->
    A = [{['$1', '$1'], [], [{exception_trace}]}],
    B = [{['$1', '$2'], [{'<', '$2', '$1'}], [{message, {{m, '$$'}}}]}],
    C = [{['$1', {'$2', ['$2' | '$1']}], [], [{message, {{m, '$2'}}}]}],
    same([A, B, C], [[1, 1], [2, 1], [1, 2], [[], {x, [x]}], [[], {x, [y]}], [[], {x, []}], [{}, {x}]]).

maps_and_constants(_) ->
    A = [{[#{k => '$1'}, '_'], [{'>', '$1', 1}], []}],
    B = [{[#{k => '_', j => a}, "text"], [], [{message, {const, {m, {'$1', '$_'}}}}]}],
    C = [{['_', 1.5], [], [{exception_trace}]}, {['_', {}], [], []}],
    same([A, B, C], [[M, T] || M <- [#{}, #{k => 1}, #{k => 2}, #{k => 2, j => a}, a], T <- ["text", 1.5, 1, {}, ""]]).

messages(_) ->
    Caller = [{'_', [], [{message, {caller}}]}],
    Silent = [{'_', [], [{message, false}]}],
    {ok, Caller} = kymo_match_spec:union([Caller, Silent]),
    {ok, [{'_', [], []}]} = kymo_match_spec:union([[], Silent]),
    {ok, Silent} = kymo_match_spec:union([Silent, Silent]),
    {ok, [{'_', [], [{message, [a, b]}]}]} =
        kymo_match_spec:union([[{'_', [], [{message, b}]}], [{'_', [], [{message, a}]}]]).

%% Slow calls are reported beside what the other specifications report, and with the shortest time.
slow_calls(_) ->
    Slow = fun(Micros) -> [{'_', [], [{slow, Micros}]}] end,
    Caller = [{'_', [], [{message, {caller}}]}],
    Silent = [{'_', [], [{message, false}]}],
    Unions = [
        {[Slow(2), Slow(1), Slow(3)], [{slow, 1}]},
        {[Slow(2), Silent], [{slow, 2}]},
        {[Slow(2), []], [{slow, 2}, {message, true}]},
        {[Slow(2), Slow(1), []], [{slow, 1}, {message, true}]},
        {[Slow(2), ?RETURN], [{exception_trace}, {slow, 2}, {message, true}]},
        {[Slow(2), Caller], [{slow, 2}, {message, {caller}}]},
        {[Slow(2), [{'_', [], [{slow, 1}, {message, true}]}]], [{slow, 1}, {message, true}]},
        {[Slow(2), [{'_', [], [{message, true}, {slow, 1}]}]], [{slow, 1}]}
    ],
    [
        ?assertEqual({Specs, {ok, [{'_', [], Expected}]}}, {Specs, kymo_match_spec:union(Order)})
     || {Specs, Expected} <- Unions, Order <- [Specs, lists:reverse(Specs)]
    ],
    [
        %% The runtime reports the call if one of the specifications does.
        ?assertEqual({Specs, wanted(Specs, [1])}, {Specs, traced([{'_', [], Union}], [1])})
     || {Specs, Union} <- Unions, knows_slow(), not lists:member(Caller, Specs)
    ],
    Some = [{['$1'], [{'>', '$1', 5}], [{slow, 7}]}],
    ?assertEqual(Slow(2), kymo_match_spec:cover([Some, Slow(2)])),
    ?assertEqual([{'_', [], [{slow, 7}, {message, true}]}], kymo_match_spec:cover([Some, []])),
    ?assertEqual([{'_', [], [{exception_trace}, {slow, 7}, {message, true}]}], kymo_match_spec:cover([Some, ?RETURN])),
    ?assertEqual([{'_', [], [{exception_trace}]}], kymo_match_spec:cover([?RETURN, Silent])).

knows_slow() -> element(1, erlang:match_spec_test([], [{'_', [], [{slow, 1}]}], trace)) =:= ok.

any_order(_) ->
    [A, B, C] = [
        [{['$1'], [{'>', '$1', 5}], [{exception_trace}]}], [{[7], [], [{message, {caller}}]}], ?RETURN
    ],
    Unions = [kymo_match_spec:union(P) || P <- [[A, B, C], [A, C, B], [B, A, C], [B, C, A], [C, A, B], [C, B, A]]],
    [{ok, _}] = lists:usort(Unions).

too_large(_) ->
    Specs = [[{['$1'], [{'=:=', '$1', N}], []}] || N <- lists:seq(1, 20)],
    {ok, _} = kymo_match_spec:union(lists:sublist(Specs, 8)),
    too_large = kymo_match_spec:union(Specs),
    [] = kymo_match_spec:cover(Specs),
    ?RETURN = kymo_match_spec:cover([?RETURN | Specs]),
    %% Specifications that trace everything add no clauses.
    {ok, ?RETURN} = kymo_match_spec:union([[], ?RETURN | [[] || _ <- Specs]]).

random(_) ->
    _ = rand:seed(exsss, {27, 3, 4}),
    Values = [1, 2, a, [], [1], [1, 2], {}, {1, a}, #{a => 1}, #{}],
    Calls = [[X, Y] || X <- Values, Y <- Values],
    [same([spec(Values) || _ <- lists:seq(1, rand:uniform(3))], Calls) || _ <- lists:seq(1, 300)].

spec(Values) ->
    case rand:uniform(5) of
        1 -> [];
        _ -> [clause(Values) || _ <- lists:seq(1, rand:uniform(2))]
    end.

clause(Values) ->
    Guards = [[], [{is_tuple, '$1'}], [{'=:=', '$1', {const, pick(Values)}}], [{'orelse', {is_map, '$1'}, {is_atom, '$1'}}]],
    {['$1', pattern(Values)], pick(Guards), pick([[], [{exception_trace}], [{message, {{m, '$1'}}}], [{message, {const, {m, 2}}}], [{return_trace}]])}.

pattern(Values) -> pick(['_', '$1', '$2', [1 | '$1'], {'$2', '_'}, #{a => '$1'} | Values]).

pick(List) -> lists:nth(rand:uniform(length(List)), List).

%% The union traces a call if one of the specifications does, with the actions of all that do.
same(Specs, Calls) ->
    {ok, Union} = kymo_match_spec:union(Specs),
    [
        ?assertEqual({Specs, Call, wanted(Specs, Call)}, {Specs, Call, traced(Union, Call)})
     || Call <- Calls
    ].

wanted(Specs, Call) ->
    case [T || Spec <- Specs, {true, _, _} = T <- [traced(Spec, Call)]] of
        [] ->
            false;
        All ->
            Flags = lists:usort(lists:append([F || {true, F, _} <- All])),
            {true, without_return(Flags), lists:usort(lists:append([Ms || {true, _, Ms} <- All]))}
    end.

normal([]) -> [{'_', [], []}];
normal(Spec) -> Spec.

without_return(Flags) ->
    case lists:member(exception_trace, Flags) of
        true -> Flags -- [return_trace];
        false -> Flags
    end.

%% `[]' is not a match specification that erlang:match_spec_test/3 accepts.
traced(Spec, Call) ->
    case erlang:match_spec_test(Call, normal(Spec), trace) of
        {ok, false, _, _} -> false;
        {ok, Message, Flags, _} -> {true, without_return(lists:usort(Flags)), lists:usort(messages_of(Message))}
    end.

%% Each message is marked; those of several specifications come in lists.
messages_of(true) -> [];
messages_of({m, _} = Message) -> [Message];
messages_of([A, B]) -> messages_of(A) ++ messages_of(B).
