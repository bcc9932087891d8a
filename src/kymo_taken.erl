%% SPDX-License-Identifier: Apache-2.0
%% @private Detects that another tracer, or a user, has removed the trace patterns, flags or
%% session of a recorder. Otherwise the recording would be empty from then on, as if nothing
%% had happened.
%%
%% Each check examines the session, a bounded sample of the traced processes and ports, and a
%% bounded number of functions; the next check continues with further functions. It wakes no
%% process: it compares the trace flags of all tracers with those of the first check
%% ({@link kymo_quiet}), and asks only a process that has lost some.
-module(kymo_taken).

-export([new/0, look/3, note/2, count/1, describe/1]).
-export_type([t/0, description/0]).

-record(taken, {
    functions = #{} :: #{mfa() => []},
    tracees = #{} :: #{pid() | port() | atom() => []},
    session = false :: boolean(),
    %% Unix time in milliseconds.
    since = none :: none | integer(),
    %% Functions that have not been examined in this round yet.
    left = [] :: [mfa()],
    %% The trace bits of processes, and with which flags of the recorder they were read.
    bits = #{} :: #{pid() => {Flags :: [atom()], Bits :: non_neg_integer()}}
}).

-opaque t() :: #taken{}.

-type description() :: none | #{
    functions := non_neg_integer(),
    processes := non_neg_integer(),
    session := boolean(),
    since := integer()
}.
%% How many functions lost their trace patterns, how many of the processes and
%% ports in the sample lost their trace flags, whether the trace session was
%% destroyed, and when that was first noticed, as Unix time in milliseconds.

-spec new() -> t().
new() -> #taken{}.

%% @doc Examines up to `Max' functions, the sample of tracees, and the session. Returns `suspect'
%% if something is missing. Processes that have ended are removed from the second result.
-spec look(kymo_tracing:t(), Max :: pos_integer(), t()) -> {clean | suspect, kymo_tracing:t(), t()}.
look(T, Max, #taken{left = Left} = Taken) ->
    case kymo_tracing:is_alive(T) of
        false when Taken#taken.session ->
            {clean, T, Taken};
        false ->
            {suspect, T, Taken};
        true ->
            Functions = kymo_tracing:functions(T),
            {Now, Later} = split(Max, round_of(Left, Functions)),
            {Missing, Living, Bits} = missing_tracees(T, Taken),
            Suspect = Missing =/= [] orelse missing_functions(T, Now, Taken) =/= [],
            {
                case Suspect of true -> suspect; false -> clean end,
                Living,
                Taken#taken{left = Later, bits = Bits}
            }
    end.

round_of([], Functions) -> maps:keys(Functions);
round_of(Left, _) -> Left.

split(Max, List) ->
    case length(List) > Max of
        true -> lists:split(Max, List);
        false -> {List, []}
    end.

missing_functions(T, MFAs, #taken{functions = Known}) ->
    Set = kymo_tracing:functions(T),
    [
        MFA
     || MFA <- MFAs,
        is_map_key(MFA, Set),
        not is_map_key(MFA, Known),
        kymo_tracing:is_in_place(T, MFA) =:= false
    ].

missing_tracees(T, #taken{tracees = Known, bits = Bits}) ->
    Seen = [{One, look_at(T, One, Flags, Bits)} || {One, Flags} <- maps:to_list(kymo_tracing:tracees(T))],
    {
        [One || {One, false} <- Seen, not is_map_key(One, Known)],
        kymo_tracing:forget_tracees(T, [One || {One, gone} <- Seen]),
        maps:from_list([{One, Kept} || {One, Result} <- Seen, Kept <- kept(Result, maps:find(One, Bits))])
    }.

%% `gone', or whether the flags are in place; true with the bits if they were compared. A process that
%% is executing is left to the next check.
look_at(T, One, Flags, Bits) when is_pid(One) ->
    case {kymo_quiet:trace_bits(One), Bits} of
        {{ok, Now}, #{One := {Flags, Before}}} when Now band Before =:= Before -> {true, {Flags, Before}};
        {{ok, Now}, #{One := {Flags, _}}} ->
            case kymo_tracing:is_in_place(T, One) of
                true -> {true, {Flags, Now}};
                Other -> Other
            end;
        {{ok, Now}, _} -> {true, {Flags, Now}};
        {busy, _} -> true;
        {gone, _} -> gone
    end;
look_at(T, One, _, _) ->
    kymo_tracing:is_in_place(T, One).

kept({true, Compared}, _) -> [Compared];
kept(gone, _) -> [];
kept(_, {ok, Before}) -> [Before];
kept(_, error) -> [].

%% @doc Examines everything, and adds what is missing.
-spec note(kymo_tracing:t(), t()) -> t().
note(T, Taken) ->
    case kymo_tracing:is_alive(T) of
        false ->
            since(Taken#taken{session = true});
        true ->
            MFAs = missing_functions(T, maps:keys(kymo_tracing:functions(T)), Taken),
            {Tracees, _, _} = missing_tracees(T, Taken),
            since(Taken#taken{
                functions = add(MFAs, Taken#taken.functions), tracees = add(Tracees, Taken#taken.tracees)
            })
    end.

add(New, Known) -> maps:merge(Known, maps:from_list([{One, []} || One <- New])).

since(#taken{since = none} = Taken) ->
    case count(Taken) of
        0 -> Taken;
        _ -> Taken#taken{since = erlang:system_time(millisecond)}
    end;
since(Taken) ->
    Taken.

%% @doc The number of settings that were removed: functions, processes and ports, and 1 for
%% the session.
-spec count(t()) -> non_neg_integer().
count(#taken{functions = Functions, tracees = Tracees, session = Session}) ->
    map_size(Functions) + map_size(Tracees) + case Session of true -> 1; false -> 0 end.

%% @doc For {@link kymo:info/1}.
-spec describe(t()) -> description().
describe(#taken{since = none}) ->
    none;
describe(#taken{functions = Functions, tracees = Tracees, session = Session, since = Since}) ->
    #{
        functions => map_size(Functions),
        processes => map_size(Tracees),
        session => Session,
        since => Since
    }.
