%% SPDX-License-Identifier: Apache-2.0
%% @private Combines the match specifications of several patterns for the same function into
%% one, because the runtime keeps only one per function.
-module(kymo_match_spec).

-export([union/1, cover/1]).
-export_type([t/0]).

-type t() :: list().
%% A match specification of `erlang:trace_pattern/3'. `[]' traces every call.

-define(ALWAYS, {'_', [], []}).

%% Each conditional clause can double the size of the result.
-define(MAX_CLAUSES, 256).

%% @doc The match specification that traces a call when at least one of the
%% given ones does, and then executes the actions of all that do. The result
%% does not depend on the order of the list. `too_large' when it would have more
%% than 256 clauses; the size doubles with each specification that has
%% conditions, and is not affected by those that trace every call.
%%
%% If two specifications return different results with `{message, _}', the combined one returns
%% a list of both. `{message, false}', which suppresses the event, has no effect if another
%% specification traces the call. The same applies to `{slow, Microseconds}', which suppresses it
%% unless a message follows. Of several of these the shortest time counts.
-spec union([t(), ...]) -> {ok, t()} | too_large.
union(Specs) ->
    case lists:usort([normal(Spec) || Spec <- Specs]) of
        [[?ALWAYS]] ->
            {ok, []};
        [One] ->
            {ok, One};
        Several ->
            combine(Several)
    end.

%% @doc A match specification that traces every call, with returns when one of the
%% given ones reports returns: more than the union, but never too large. If all of them report
%% slow calls only, so does the result.
-spec cover([t(), ...]) -> t().
cover(Specs) ->
    Clauses = [Actions || Spec <- Specs, {_, _, Actions} <- normal(Spec)],
    Actions = lists:append(Clauses),
    Reports = lists:any(fun(Action) -> lists:member(Action, Actions) end, [{exception_trace}, {return_trace}]),
    Returns = [{exception_trace} || Reports],
    case {Returns, slow(Actions)} of
        {[], []} -> [];
        {_, []} -> [{'_', [], Returns}];
        {_, Slow} ->
            Silent = lists:all(fun(Clause) -> slow(Clause) =/= [] andalso message(Clause) =:= false end, Clauses),
            [{'_', [], Returns ++ Slow ++ [{message, true} || not Silent]}]
    end.

normal([]) -> [?ALWAYS];
normal(Spec) -> Spec.

combine(Specs) ->
    try
        {ok, lists:foldl(fun(Spec, Acc) -> both(Acc, Spec) end, hd(Specs), tl(Specs))}
    catch
        throw:too_large -> too_large
    end.

%% Calls that match clauses of both come first, then those that match one only.
%% The first clause that matches decides, so order within each is kept.
both(As, Bs) ->
    Clauses = cut([conjunction(A, B) || A <- As, B <- Bs] ++ As ++ Bs, []),
    length(Clauses) =< ?MAX_CLAUSES orelse throw(too_large),
    Clauses.

%% Nothing after a clause that matches every call is ever tried, nor is a clause
%% with the head and guards of an earlier one.
cut([{'_', [], _} = Last | _], Acc) ->
    lists:reverse(Acc, [Last]);
cut([{Head, Guards, _} = Clause | Rest], Acc) ->
    case [same || {H, G, _} <- Acc, H =:= Head, G =:= Guards] of
        [] -> cut(Rest, [Clause | Acc]);
        [_ | _] -> cut(Rest, Acc)
    end;
cut([], Acc) ->
    lists:reverse(Acc).

conjunction({Head, Guards, ActionsA}, {Head, Guards, ActionsB}) ->
    {Head, Guards, actions(ActionsA, ActionsB)};
conjunction({'_', [], ActionsA}, {Head, Guards, ActionsB}) ->
    {Head, Guards, actions(ActionsA, ActionsB)};
conjunction({Head, Guards, ActionsA}, {'_', [], ActionsB}) ->
    {Head, Guards, actions(ActionsA, ActionsB)};
conjunction({HeadA, GuardsA, ActionsA}, {HeadB, GuardsB, ActionsB}) ->
    %% Only one head can bind variables. The other one becomes guards on the list
    %% of arguments, and its variables become expressions that take the list apart.
    {Guards, Variables} = head_guards(HeadB),
    {HeadA, GuardsA ++ Guards ++ substitute(GuardsB, Variables),
        actions(ActionsA, substitute(ActionsB, Variables))}.

%% ---- heads as guards ----------------------------------------------------------

head_guards(Head) ->
    {Guards, Variables} = match(Head, '$_', [], #{}),
    {lists:reverse(Guards), Variables}.

%% Guards come in the order in which they protect each other.
match('_', _, Guards, Variables) ->
    {Guards, Variables};
match(Atom, Path, Guards, Variables) when is_atom(Atom) ->
    case is_variable(Atom) of
        true when is_map_key(Atom, Variables) ->
            {[{'=:=', map_get(Atom, Variables), Path} | Guards], Variables};
        true ->
            {Guards, Variables#{Atom => Path}};
        false ->
            {[{'=:=', Path, {const, Atom}} | Guards], Variables}
    end;
match([Head | Tail], Path, Guards, Variables) ->
    IsCons = [{'=/=', Path, []}, {is_list, Path} | Guards],
    {Guards1, Variables1} = match(Head, {hd, Path}, IsCons, Variables),
    match(Tail, {tl, Path}, Guards1, Variables1);
match(Tuple, Path, Guards, Variables) when is_tuple(Tuple) ->
    IsTuple = [{'=:=', {size, Path}, tuple_size(Tuple)}, {is_tuple, Path} | Guards],
    lists:foldl(
        fun({N, Element}, {Gs, Vs}) -> match(Element, {element, N, Path}, Gs, Vs) end,
        {IsTuple, Variables},
        lists:zip(lists:seq(1, tuple_size(Tuple)), tuple_to_list(Tuple))
    );
match(Map, Path, Guards, Variables) when is_map(Map) ->
    lists:foldl(
        fun({Key, Value}, {Gs, Vs}) ->
            HasKey = {is_map_key, {const, Key}, Path},
            match(Value, {map_get, {const, Key}, Path}, [HasKey | Gs], Vs)
        end,
        {[{is_map, Path} | Guards], Variables},
        lists:sort(maps:to_list(Map))
    );
match(Literal, Path, Guards, Variables) ->
    {[{'=:=', Path, {const, Literal}} | Guards], Variables}.

is_variable(Atom) ->
    case atom_to_list(Atom) of
        [$$, C | Digits] when C >= $0, C =< $9 -> lists:all(fun(D) -> D >= $0 andalso D =< $9 end, Digits);
        _ -> false
    end.

substitute({const, _} = Constant, _) ->
    Constant;
substitute('$$', Variables) ->
    [Path || {_, Path} <- lists:sort([{number(V), P} || {V, P} <- maps:to_list(Variables)])];
substitute(Atom, Variables) when is_atom(Atom), is_map_key(Atom, Variables) ->
    map_get(Atom, Variables);
substitute([Head | Tail], Variables) ->
    [substitute(Head, Variables) | substitute(Tail, Variables)];
substitute(Tuple, Variables) when is_tuple(Tuple) ->
    list_to_tuple(substitute(tuple_to_list(Tuple), Variables));
substitute(Map, Variables) when is_map(Map) ->
    maps:map(fun(_, Value) -> substitute(Value, Variables) end, Map);
substitute(Other, _) ->
    Other.

number(Variable) -> list_to_integer(tl(atom_to_list(Variable))).

%% ---- actions --------------------------------------------------------------------

actions(Same, Same) ->
    Same;
actions(As, Bs) ->
    [OthersA, OthersB] = [lists:filter(fun is_other/1, Actions) || Actions <- [As, Bs]],
    Message = message(message(As), message(Bs)),
    Others = without_return((OthersA ++ (OthersB -- OthersA)) -- [true]),
    case {slow(As ++ Bs), Message} of
        {[], _} -> Message ++ Others;
        {Slow, [{message, false}]} -> Others ++ Slow;
        {Slow, []} -> Others ++ Slow ++ [{message, true}];
        {Slow, _} -> Others ++ Slow ++ Message
    end.

is_other({message, _}) -> false;
is_other({slow, _}) -> false;
is_other(_) -> true.

%% The shortest of the times.
slow(Actions) ->
    case [Micros || {slow, Micros} <- Actions] of
        [] -> [];
        All -> [{slow, lists:min(All)}]
    end.

%% What a clause reports of the call. The last action that sets it decides.
message(Actions) ->
    lists:foldl(
        fun
            ({message, Value}, _) -> Value;
            ({slow, _}, _) -> false;
            (_, Value) -> Value
        end,
        none,
        Actions
    ).

message(Same, Same) when Same =/= none -> [{message, Same}];
message(A, B) ->
    case [Value || Value <- [A, B], Value =/= none, Value =/= false, Value =/= true] of
        [] -> [];
        [Value] -> [{message, Value}];
        Both -> [{message, lists:sort(Both)}]
    end.

%% An exception trace reports returns too.
without_return(Actions) ->
    case lists:member({exception_trace}, Actions) of
        true -> Actions -- [{return_trace}];
        false -> Actions
    end.
