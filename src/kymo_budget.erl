%% SPDX-License-Identifier: Apache-2.0
%% @private Decides what a recorder with a budget sheds, and when it restores it. The functions
%% are pure: time and counts are arguments, so that decisions are reproducible. {@link
%% kymo_server} calls {@link tick/3} every {@link interval/0} milliseconds and carries out the
%% decisions. An item is a function or a kind of events.
%%
%% <b>When to shed.</b> Each thread's event rate is averaged over about half a second. A burst
%% of many times the budget exceeds it within one or two intervals. A `cpu' budget applies to
%% the thread with the highest rate, an `events' budget to the sum of all threads.
%%
%% <b>What to shed.</b> A sample of the newest records gives the share of each item in the
%% cost. The most expensive functions are shed in one step, as many as are necessary to reach
%% `?TARGET' of the budget. Kinds of events are shed if functions alone are not enough.
%%
%% <b>When to restore.</b> The present cost of an item that is shed is unknown. It is assumed
%% to halve after each period `hold'. The item is restored when the present cost plus this
%% estimate is below `?TARGET' of the budget. If it has to be shed again soon, its hold is
%% doubled, so items that stay expensive are restored less and less often.
-module(kymo_budget).

-export([check/1, interval/0, new/2, cleared/1, tick/3, sampled/4, shed/3, given_back/3, kept/3, describe/1, format/1, ppm/1, events/1]).
-export_type([option/0, t/0, rates/0, sample/0, item/0, description/0]).

-type option() :: none | #{cpu => number(), events => pos_integer()}.

-type rates() :: {Ticks :: non_neg_integer(), [Offered :: non_neg_integer()]}.
%% As {@link kymo_tracer:rates/1}.

-type sample() :: {#{kymo_cost:kind() => non_neg_integer()}, [{mfa(), non_neg_integer()}]}.
%% As {@link kymo_tracer:sample/3}.

-type item() :: mfa() | kymo_tracing:kind().

-type milliseconds() :: integer().

-type description() :: none | #{
    cpu => number(),
    events => pos_integer(),
    used := float(),
    cost := float(),
    times := non_neg_integer(),
    shed := #{functions := [mfa()], events := [kymo_tracing:kind()]}
}.
%% The budget; the share of it that tracing uses now (1.0: all of it); the estimated cost of
%% tracing for the busiest thread, in percent of its time; how often something was shed or
%% restored; and what is shed now.

-record(away, {
    %% The share of the budget that the item used when it was shed.
    used :: float(),
    since :: milliseconds(),
    hold :: milliseconds()
}).

-record(budget, {
    option :: option(),
    costs :: kymo_cost:t(),
    %% Times of the last intervals, the newest first; as many as a sample covers.
    ticks = [] :: [non_neg_integer()],
    last = none :: none | {milliseconds(), [non_neg_integer()]},
    %% Events per second of each thread.
    rates = [] :: [float()],
    %% The same in the last interval only, without averaging.
    latest = [] :: [float()],
    %% Nanoseconds of an average event.
    average :: float(),
    sampled = none :: none | milliseconds(),
    away = #{} :: #{item() => #away{}},
    %% Restored items, with the time and their hold.
    back = #{} :: #{item() => {milliseconds(), milliseconds()}},
    changed = 0 :: milliseconds(),
    times = 0 :: non_neg_integer()
}).

-opaque t() :: #budget{}.

-define(INTERVAL, 50).
%% Time constant of the average, in ms.
-define(TAU, 500).
%% The number of intervals that a sample covers.
-define(REACH, 10).
%% The share of the budget to be used after shedding, and at most after restoring.
-define(TARGET, 0.6).
%% The maximum share of a program's time that tracing is assumed to take.
-define(MOST_SLOWED, 0.9).
%% The maximum number of items restored in one step.
-define(BACK_AT_ONCE, 64).
%% Items are restored only while less than this share of the budget is used.
-define(QUIET, 0.4).
%% Nothing is restored for this time after a change, in ms.
-define(PAUSE, 1000).
-define(HOLD, 5000).
-define(MAX_HOLD, 300000).
%% The measured average cost of an event is assumed to be valid for this time, in ms.
-define(SURE, 1000).
%% An item that stays recorded for this many holds gets the default hold again.
-define(FORGET, 8).

-spec interval() -> milliseconds().
interval() -> ?INTERVAL.

%% @doc Whether the term is a valid budget.
-spec check(term()) -> boolean().
check(none) -> true;
check(#{} = Option) when map_size(Option) > 0 -> lists:all(fun is_good/1, maps:to_list(Option));
check(_) -> false.

is_good({cpu, Percent}) -> is_number(Percent) andalso Percent >= 0.01 andalso Percent =< 100;
is_good({events, N}) -> is_integer(N) andalso N > 0 andalso N < 1 bsl 40;
is_good(_) -> false.

%% @doc The limit for the recording, in millionths of the time; 0 for none.
-spec ppm(option()) -> non_neg_integer().
ppm(#{cpu := Percent}) -> round(Percent * 10000);
ppm(_) -> 0.

-spec events(option()) -> non_neg_integer().
events(#{events := N}) -> N;
events(_) -> 0.

-spec new(option(), kymo_cost:t()) -> t().
new(Option, Costs) ->
    #budget{option = Option, costs = Costs, average = float(map_get(calls, Costs))}.

%% @doc To be called when tracing was removed: nothing is shed any more.
-spec cleared(t()) -> t().
cleared(B) -> B#budget{away = #{}, back = #{}, rates = []}.

%% @doc Evaluates the counters at a time. Returns `ok'; or `sample': call {@link sampled/4} with
%% a sample of the records since these ticks; or `give_back': restore these items.
-spec tick(rates(), milliseconds(), t()) -> {ok | {sample, Since :: non_neg_integer()} | {give_back, [item()]}, t()}.
tick({Ticks, Offered}, Now, #budget{last = none} = B) ->
    {ok, B#budget{last = {Now, Offered}, ticks = [Ticks]}};
tick(_, Now, #budget{last = {Now, _}} = B) ->
    {ok, B};
tick({Ticks, Offered}, Now, #budget{last = {Before, Earlier}, rates = Rates, ticks = Known} = B) ->
    Passed = max(1, Now - Before),
    Share = 1 - math:exp(-Passed / ?TAU),
    Next = B#budget{
        last = {Now, Offered},
        rates = averages(Offered, Earlier, Rates, Passed, Share),
        latest = averages(Offered, Earlier, [], Passed, 1.0),
        ticks = lists:sublist([Ticks | Known], ?REACH + 1)
    },
    decide(Now, used(Next), Next).

%% Threads that have started since the last interval had no events before.
averages([], _, _, _, _) ->
    [];
averages([O | Os], Earlier, Rates, Passed, Share) ->
    {E, Es} = first(Earlier, 0),
    {R, Rs} = first(Rates, 0.0),
    [R + (1000 * max(0, O - E) / Passed - R) * Share | averages(Os, Es, Rs, Passed, Share)].

first([One | More], _) -> {One, More};
first([], Default) -> {Default, []}.

decide(_, Used, #budget{ticks = Ticks} = B) when Used > 1 ->
    {{sample, lists:last(Ticks)}, B};
decide(Now, Used, #budget{ticks = Ticks, sampled = Sampled, costs = Costs} = B) when
    Sampled =:= none; Now - Sampled >= ?SURE
->
    %% The average may be outdated: sample if all events being of the most expensive kind would
    %% exceed the budget.
    case used(B#budget{average = float(lists:max(maps:values(Costs)))}) > 1 of
        true -> {{sample, lists:last(Ticks)}, B};
        false -> give_back(Now, Used, B)
    end;
decide(Now, Used, B) ->
    give_back(Now, Used, B).

give_back(Now, Used, #budget{changed = Changed} = B) when Used < ?QUIET, Now - Changed >= ?PAUSE ->
    case fitting(Now, ?TARGET - Used, B) of
        [] -> {ok, B};
        Items -> {{give_back, Items}, B}
    end;
give_back(_, _, B) ->
    {ok, B}.

%% The share of the budget that is used: the larger one if there are two limits.
used(#budget{option = Option, rates = Rates, average = Average}) ->
    lists:max([used(Kind, Limit, Rates, Average) || {Kind, Limit} <- maps:to_list(Option)]).

cost(#budget{rates = Rates, average = Average}) -> lists:max([0.0 | Rates]) * Average / 1.0e7.

used(_, _, [], _) -> 0.0;
used(cpu, Percent, Rates, Average) -> lists:max(Rates) * Average / (Percent * 1.0e7);
used(events, Limit, Rates, _) -> lists:sum(Rates) / Limit.

%% The items that fit into Room, those with the lowest estimate first.
fitting(Now, Room, #budget{away = Away}) ->
    Expected = lists:sort([{expected(Now, A), Item} || {Item, A} <- maps:to_list(Away)]),
    {Items, _} = lists:foldl(
        fun
            ({Use, Item}, {Acc, Left}) when Use =< Left -> {[Item | Acc], Left - Use};
            (_, {Acc, _}) -> {Acc, -1.0}
        end,
        {[], Room},
        Expected
    ),
    lists:sublist(lists:reverse(Items), ?BACK_AT_ONCE).

expected(Now, #away{used = Used, since = Since, hold = Hold}) ->
    case Now - Since < Hold of
        true -> infinity;
        false -> Used * math:pow(2, -min(60, (Now - Since) / Hold))
    end.

%% @doc Evaluates a sample. `IsOurs' returns whether the recorder itself traces an item, so that
%% it can shed it. Returns `ok', or `shed' and the items to shed; to be passed to {@link shed/3}
%% when that is done.
-spec sampled(sample(), fun((item()) -> boolean()), milliseconds(), t()) -> {ok | {shed, [{item(), float()}]}, t()}.
sampled({Counts, Functions}, IsOurs, Now, #budget{costs = Costs} = B) ->
    case lists:sum(maps:values(Counts)) of
        0 ->
            {ok, B#budget{sampled = Now}};
        N ->
            Known = B#budget{sampled = Now, average = kymo_cost:weight(Counts, Costs) / N},
            case used(Known) of
                %% The average lags behind a burst, so use the latest rates if they are higher.
                Used when Used > 1 -> choose(Counts, Functions, IsOurs, max(Used, used(Known#budget{rates = Known#budget.latest})), Known);
                _ -> {ok, Known}
            end
    end.

choose(Counts, Functions, IsOurs, Used, B) ->
    Weights = weights(B),
    Total = kymo_cost:weight(Counts, Weights),
    Unit = Used / Total,
    Kinds = [{K, Unit * N * map_get(K, Weights)} || {K, N} <- maps:to_list(Counts), N > 0, K =/= calls, IsOurs(K)],
    %% A call's share of the return_to events is part of its cost.
    #{calls := Calls, return_tos := ReturnTos} = Counts,
    OneCall = Unit * (map_get(calls, Weights) + map_get(return_tos, Weights) * ReturnTos / max(1, Calls)),
    Ones = [{F, OneCall * N} || {F, N} <- Functions, IsOurs(F)],
    Rest = Used - sum(Ones) - sum(Kinds),
    Target = target(B),
    {LostKinds, Left} = loudest_first(Kinds, Rest + sum(Kinds), Target),
    {LostOnes, _} = loudest_first(Ones, Left + sum(Ones), Target),
    case LostOnes ++ LostKinds of
        [] -> {ok, B};
        Items -> {{shed, Items}, B}
    end.

%% A program that tracing slows down will do more work, and produce more of the remaining
%% events, once functions are shed. So the target is lower the more it is slowed down.
target(#budget{rates = Rates, latest = Latest, average = Average}) ->
    Slowed = min(?MOST_SLOWED, lists:max([0.0 | Rates ++ Latest]) * Average * 1.0e-9),
    ?TARGET * (1 - Slowed).

%% Weights for the limit that is exceeded the most.
weights(#budget{option = #{cpu := Percent, events := Limit}, rates = Rates, average = Average, costs = Costs}) ->
    case used(cpu, Percent, Rates, Average) >= used(events, Limit, Rates, Average) of
        true -> Costs;
        false -> ones(Costs)
    end;
weights(#budget{option = #{cpu := _}, costs = Costs}) ->
    Costs;
weights(#budget{costs = Costs}) ->
    ones(Costs).

ones(Costs) -> maps:map(fun(_, _) -> 1 end, Costs).

sum(Items) -> lists:sum([Use || {_, Use} <- Items]).

%% Takes the most expensive items until the rest fits.
loudest_first(Items, Used, Target) ->
    Sorted = lists:sort(fun({A, X}, {B, Y}) -> {-X, A} =< {-Y, B} end, Items),
    loudest_first(Sorted, Used, Target, []).

loudest_first([{_, Use} = Item | More], Used, Target, Acc) when Used > Target ->
    loudest_first(More, Used - Use, Target, [Item | Acc]);
loudest_first(_, Used, _, Acc) ->
    {lists:reverse(Acc), Used}.

%% @doc To be called when these items have been shed.
-spec shed([{item(), float()}], milliseconds(), t()) -> t().
shed(Items, Now, #budget{away = Away, back = Back, rates = Rates, times = Times} = B) ->
    Used = used(B),
    Left = max(0.0, Used - sum(Items)) / max(Used, 1.0e-9),
    Gone = maps:from_list([{Item, #away{used = Use, since = Now, hold = hold(Item, Now, Back)}} || {Item, Use} <- Items]),
    B#budget{
        away = maps:merge(Away, Gone),
        back = recent(Now, maps:without(maps:keys(Gone), Back)),
        %% Rates are reduced by the expected amount, and the interval in which the items were
        %% shed is not counted.
        rates = [Rate * Left || Rate <- Rates],
        last = none,
        ticks = [],
        changed = Now,
        times = Times + 1
    }.

hold(Item, Now, Back) ->
    case Back of
        #{Item := {Since, Hold}} when Now - Since < ?FORGET * Hold -> min(?MAX_HOLD, 2 * Hold);
        #{} -> ?HOLD
    end.

recent(Now, Back) -> maps:filter(fun(_, {Since, Hold}) -> Now - Since < ?FORGET * Hold end, Back).

%% @doc To be called when these items are recorded again.
-spec given_back([item()], milliseconds(), t()) -> t().
given_back(Items, Now, #budget{away = Away, back = Back, times = Times} = B) ->
    New = maps:from_list([{Item, {Now, A#away.hold}} || Item <- Items, #{Item := A} <- [Away]]),
    B#budget{
        away = maps:without(Items, Away),
        back = maps:merge(recent(Now, Back), New),
        changed = Now,
        times = Times + 1
    }.

%% @doc To be called when these items could not be restored. Their hold begins again.
-spec kept([item()], milliseconds(), t()) -> t().
kept(Items, Now, #budget{away = Away} = B) ->
    B#budget{away = maps:map(fun(Item, A) -> kept_one(lists:member(Item, Items), A, Now) end, Away)}.

kept_one(true, A, Now) -> A#away{since = Now};
kept_one(false, A, _) -> A.

%% @doc For {@link kymo:info/1}.
-spec describe(t()) -> description().
describe(#budget{option = Option, away = Away, times = Times} = B) ->
    {Functions, Kinds} = lists:partition(fun is_tuple/1, lists:sort(maps:keys(Away))),
    Option#{used => used(B), cost => cost(B), times => Times, shed => #{functions => Functions, events => Kinds}}.

%% @doc The cost, and what is shed, of several recorders on one line. Empty if there are none.
-spec format([description()]) -> iolist().
format([]) ->
    "";
format(Budgets) ->
    Shed = [S || #{shed := S} <- Budgets],
    Functions = lists:append([Fs || #{functions := Fs} <- Shed]),
    Kinds = lists:usort(lists:append([Ks || #{events := Ks} <- Shed])),
    [
        io_lib:format("  cost ~.1f %", [lists:max([Cost || #{cost := Cost} <- Budgets])]),
        case {Functions, Kinds} of
            {[], []} -> "";
            {[], _} -> ["  shed ", lists:join(", ", [atom_to_list(Kind) || Kind <- Kinds])];
            {[F], []} -> ["  shed ", format_function(F)];
            {[F | More], _} -> ["  shed ", format_function(F), io_lib:format(" and ~b more", [length(More) + length(Kinds)])]
        end
    ].

format_function({M, F, A}) -> io_lib:format("~tp:~tp/~b", [M, F, A]).
