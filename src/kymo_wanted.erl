%% SPDX-License-Identifier: Apache-2.0
%% @private The patterns of one recorder, and the resulting trace pattern of each function. A
%% function that several patterns name gets their union, independent of the order in which they
%% were given.
-module(kymo_wanted).

-export([add/2, remove/2, found/2, only/2, functions/2]).
-export_type([t/0, set/0]).

-type t() :: [kymo_spec:functions()].

-type set() :: #{mfa() => {local | global, kymo_match_spec:t()}}.

%% @doc Adds patterns. One that is there already, with the same scope and match
%% specification, is replaced: its functions may have changed.
-spec add(t(), [kymo_spec:functions()]) -> t().
add(Patterns, New) ->
    [P || P <- Patterns, not lists:any(fun(N) -> is_same(P, N) end, New)] ++ New.

is_same(#{scope := S, match_spec := MS} = A, #{scope := S, match_spec := MS} = B) -> is_same_text(A, B);
is_same(_, _) -> false.

%% Different spellings of the same pattern are equal.
is_same_text(#{compiled := A}, #{compiled := B}) -> kymo_pattern:is_same(A, B).

%% @doc Removes patterns. If a pattern was added before, it is removed, and functions that other
%% patterns name stay wanted. If it was not added, its functions are excluded from all patterns,
%% also when code is loaded later.
-spec remove(t(), [kymo_spec:functions()]) -> t().
remove(Patterns, Removed) ->
    lists:foldl(fun remove_one/2, Patterns, Removed).

remove_one(R, Patterns) ->
    case [P || P <- Patterns, not is_same_text(P, R)] of
        Patterns -> [P || #{functions := [_ | _]} = P <- [except(P, R) || P <- Patterns]];
        Others -> Others
    end.

except(#{except := Except, functions := Functions} = P, #{compiled := Compiled, functions := Removed}) ->
    Known = lists:any(fun(E) -> kymo_pattern:is_same(E, Compiled) end, Except),
    P#{
        functions := without(Functions, Removed),
        except := [Compiled || not Known] ++ Except
    }.

without(Functions, Removed) ->
    ByModule = maps:from_list(Removed),
    [
        {M, Left}
     || {M, FAs} <- Functions, [_ | _] = Left <- [FAs -- maps:get(M, ByModule, [])]
    ].

%% @doc The functions that a pattern matches now.
-spec found(kymo_spec:functions(), local | global) -> kymo_pattern:functions().
found(#{compiled := Compiled, except := Except}, Scope) ->
    lists:foldl(
        fun(E, Functions) -> without(Functions, functions_of(E, local)) end,
        functions_of(Compiled, Scope),
        Except
    ).

functions_of(Compiled, Scope) ->
    case kymo_pattern:functions(Compiled, Scope) of
        {ok, Functions} -> Functions;
        {error, {no_functions, _}} -> []
    end.

%% @doc The patterns restricted to these functions. The cost depends on their number only.
-spec only(t(), [mfa()]) -> t().
only(Patterns, MFAs) ->
    Wanted = maps:from_list([{MFA, []} || MFA <- MFAs]),
    Modules = maps:from_list([{M, []} || {M, _, _} <- MFAs]),
    [
        P#{functions := [
            {M, [FA || {F, A} = FA <- FAs, is_map_key({M, F, A}, Wanted)]}
         || {M, FAs} <- Functions, is_map_key(M, Modules)
        ]}
     || #{functions := Functions} = P <- Patterns
    ].

%% @doc The match specification and scope for each function. If both scopes are wanted, `local'
%% is used, which includes global calls. If a union is too large, `exact' returns an error, and
%% `cover' traces all calls of the function.
-spec functions(t(), exact | cover) -> {ok, set()} | {error, {too_many_patterns, mfa()}}.
functions(Patterns, How) ->
    Wanted = lists:foldl(fun wanted/2, #{}, Patterns),
    try
        {Set, _} = lists:mapfoldl(
            fun(One, Cache) -> combined(How, One, Cache) end, #{}, maps:to_list(Wanted)
        ),
        {ok, maps:from_list(Set)}
    catch
        throw:{error, _} = Error -> Error
    end.

wanted(#{scope := Scope, match_spec := MatchSpec, functions := Functions}, Wanted) ->
    One = {Scope, MatchSpec},
    lists:foldl(
        fun(MFA, Acc) ->
            case Acc of
                #{MFA := Ones} -> Acc#{MFA := [One | Ones]};
                _ -> Acc#{MFA => [One]}
            end
        end,
        Wanted,
        [{M, F, A} || {M, FAs} <- Functions, {F, A} <- FAs]
    ).

%% Many functions share few combinations, so results are cached.
combined(How, {MFA, Ones}, Cache) ->
    case Cache of
        #{Ones := Combined} ->
            {{MFA, Combined}, Cache};
        _ ->
            {Scopes, MatchSpecs} = lists:unzip(Ones),
            Combined = {scope(lists:usort(Scopes)), match_spec(How, MFA, MatchSpecs)},
            {{MFA, Combined}, Cache#{Ones => Combined}}
    end.

scope([One]) -> One;
scope([_, _]) -> local.

match_spec(How, MFA, MatchSpecs) ->
    case kymo_match_spec:union(MatchSpecs) of
        {ok, MatchSpec} -> MatchSpec;
        too_large when How =:= cover -> kymo_match_spec:cover(MatchSpecs);
        too_large -> throw({error, {too_many_patterns, MFA}})
    end.
