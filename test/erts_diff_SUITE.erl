%% SPDX-License-Identifier: Apache-2.0
%%
%% Random programs of traces, code loading and signals behave as on the runtime without the patches.
%% Each program runs in a node of the runtime under test and in one of the stock runtime of the same
%% release, KYMO_STOCK_ERL, and both must observe the same. A difference is shrunk to the operations
%% that it needs. A runtime without the patches is compared with itself if KYMO_STOCK_ERL is not
%% set, which shows that what is compared doesn't depend on time.
%%
%% KYMO_DIFF=N is the number of programs, KYMO_DIFF_SEED=S the seed of the first, KYMO_DIFF_TOKENS=1 adds
%% sequential trace tokens, which crash stock releases from time to time.
-module(erts_diff_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1]).
-export([same/1, finds_difference/1, intended/1, invariants/1]).

-define(PROGRAMS, 250).

suite() -> [{timetrap, {seconds, 300 + number("KYMO_DIFF", ?PROGRAMS)}}].

all() -> [same, finds_difference, intended, invariants].

init_per_suite(Config) ->
    Own = filename:join([code:root_dir(), "bin", "erl"]),
    {_, Series, OwnSessions} = erts_diff_pair:describe(Own),
    case os:getenv("KYMO_STOCK_ERL", "") of
        "" when Series =/= none ->
            {skip, "KYMO_STOCK_ERL names no runtime of this release without the patches"};
        "" ->
            [{own, Own}, {stock, Own}, {features, features(OwnSessions)} | Config];
        Stock ->
            {Release, none, Sessions} = erts_diff_pair:describe(Stock),
            ct:pal("compared with OTP ~s, ~s", [Release, Stock]),
            [{own, Own}, {stock, Stock}, {features, features(OwnSessions andalso Sessions)} | Config]
    end.

end_per_suite(_Config) -> ok.

features(Sessions) -> [sessions || Sessions] ++ [tokens || os:getenv("KYMO_DIFF_TOKENS", "") =/= ""].

number(Name, Default) ->
    case os:getenv(Name, "") of
        "" -> Default;
        Text -> list_to_integer(Text)
    end.

%% Both runtimes observe the same.
same(Config) ->
    First = number("KYMO_DIFF_SEED", 1),
    N = number("KYMO_DIFF", case is_itself(Config) of true -> ?PROGRAMS div 5; false -> ?PROGRAMS end),
    Results = [program(Seed, Config) || Seed <- lists:seq(First, First + N - 1)],
    erts_diff_pair:stop(),
    Counts = maps:to_list(lists:foldl(fun(R, M) -> maps:update_with(R, fun(C) -> C + 1 end, 1, M) end, #{}, Results)),
    ct:pal("~b programs: ~p", [N, Counts]),
    io:format(user, "##   ~b programs: ~p~n", [N, Counts]),
    ?assertEqual(0, proplists:get_value(different, Counts, 0)),
    %% Programs must not depend on time.
    ?assert(proplists:get_value(unstable, Counts, 0) =< 1 + N div 50),
    %% What doesn't run in the stock runtime is not compared.
    ?assert(proplists:get_value(stock_fails, Counts, 0) =< 1 + N div 20).

%% A runtime without the patches shows only that the observations do not depend on chance.
is_itself(Config) -> proplists:get_value(own, Config) =:= proplists:get_value(stock, Config).

program(Seed, Config) ->
    A = {proplists:get_value(own, Config), none},
    B = {proplists:get_value(stock, Config), none},
    Program = erts_diff_gen:program(Seed, proplists:get_value(features, Config)),
    Observed = erts_diff_pair:compare(A, B, Program),
    %% A runtime without the patches that crashes is what `stock_fails' counts, whichever of the two it is.
    OfStock = is_itself(Config) andalso not is_list(hd(Observed)),
    case judge(Program, Observed) of
        different when OfStock ->
            stock_fails(Seed);
        different ->
            case erts_diff_pair:stable(A, B, Program) of
                true ->
                    put(last_difference, Observed),
                    report(Seed, A, B, Program),
                    different;
                no_answer ->
                    stock_fails(Seed);
                false ->
                    {OfA, OfB} = apply(erts_diff_pair, first, Observed),
                    ct:pal("seed ~b: the difference is not there in new nodes:~n~p~n~p", [Seed, OfA, OfB]),
                    unstable;
                {false, {One, Other}} ->
                    ct:pal("seed ~b: the stock runtime itself observes different things:~n~p~n~p",
                           [Seed, One, Other]),
                    unstable
            end;
        stock_fails ->
            stock_fails(Seed);
        Result ->
            Result
    end.

stock_fails(Seed) ->
    ct:pal("seed ~b: the stock runtime crashes or hangs", [Seed]),
    stock_fails.

judge(_, [Same, Same]) when is_list(Same) -> same;
judge(_, [_, {no_answer, _}]) -> stock_fails;
judge(_, [{no_answer, _}, _]) -> different;
judge(Program, [OfA, OfB]) ->
    case [Pair || {X, Y} = Pair <- lists:zip(OfA, OfB), X =/= Y, not is_intended(Program, X, Y)] of
        [] -> intended;
        _ -> different
    end.

report(Seed, A, B, Program) ->
    Differs = fun(P) ->
        Observed = erts_diff_pair:compare(A, B, P),
        judge(P, Observed) =:= different andalso begin put(last_difference, Observed), true end
    end,
    Smallest = erts_diff_pair:shrink(Program, Differs),
    [OfA, OfB] = erase(last_difference),
    {PartA, PartB} = erts_diff_pair:first(OfA, OfB),
    Text = io_lib:format("seed ~b differs. The program:~n~p~nThe first difference, under test:~n~p~nstock:~n~p~n",
                         [Seed, Smallest, PartA, PartB]),
    ct:log("~ts~nAll that was observed, under test:~n~p~nstock:~n~p~n", [Text, OfA, OfB]),
    io:format(user, "~ts~n", [Text]).

%% A runtime that lacks one kind of trace message is found, and the program shrinks to what causes
%% the message.
finds_difference(Config) ->
    Own = proplists:get_value(own, Config),
    Good = {Own, none},
    Bad = {Own, no_exceptions},
    %% Programs that crash a runtime differ from themselves, too.
    Differs = fun(P) -> lists:keymember(exception_from, 3, missing(erts_diff_pair:compare(Bad, Good, P))) end,
    Features = proplists:get_value(features, Config),
    Found = first_that(Differs, [erts_diff_gen:program(Seed, Features) || Seed <- lists:seq(1, 200)]),
    Smallest = erts_diff_pair:shrink(Found, Differs),
    ct:pal("~p~nshrunk from ~b operations", [Smallest, length(Found)]),
    ?assert(Differs(Smallest)),
    erts_diff_pair:stop(),
    %% A process, code, flags, a pattern, and a call, in a session and with a second process at most.
    ?assert(length(Smallest) =< 8).

%% The trace messages that only the second runtime has sent.
missing([OfBad, OfGood]) when is_list(OfBad), is_list(OfGood) -> messages(OfGood) -- messages(OfBad);
missing(_) -> [].

messages(Observed) -> [M || {_, _, Events, _} <- Observed, M <- flat(Events)].

first_that(Pred, [P | Rest]) ->
    case Pred(P) of
        true -> P;
        false -> first_that(Pred, Rest)
    end.

flat(Events) -> [M || {_, L} <- Events, is_list(L), {_, Messages} <- L, M <- Messages].

%% Differences that the documentation of the series announces. Each must still be there.
intended(Config) ->
    A = {proplists:get_value(own, Config), none},
    B = {proplists:get_value(stock, Config), none},
    case is_itself(Config) of
        true ->
            {skip, "compared with itself"};
        false ->
            [?assertEqual({Sentence, intended}, {Sentence, judge(Program, erts_diff_pair:compare(A, B, Program))})
             || {Sentence, Program, _, _} <- intentions()],
            erts_diff_pair:stop()
    end.

is_intended(Program, X, Y) ->
    lists:any(fun({_, _, May, Excused}) -> lists:any(May, Program) andalso equal_but(Excused, X, Y) end,
              intentions()).

%% Two observations that are equal but for parts that are excused.
equal_but(_, Same, Same) -> true;
equal_but(Excused, X, Y) ->
    Excused(X, Y) orelse equal_parts(Excused, X, Y).

equal_parts(Excused, [X | Xs], [Y | Ys]) -> equal_but(Excused, X, Y) andalso equal_but(Excused, Xs, Ys);
equal_parts(Excused, X, Y) when tuple_size(X) =:= tuple_size(Y) -> equal_but(Excused, tuple_to_list(X),
                                                                             tuple_to_list(Y));
equal_parts(_, _, _) -> false.

%% {Sentence and where it is documented, program that shows it, whether a program can show it, whether
%% two parts of what is observed may differ because of it}
intentions() ->
    [{"pause and restart change existing counters only, as OTP documents (erts_pattern_SUITE: "
      "restart_without_breakpoint)",
      [{1, {driver, code, load_binary, [d1, "none", {'$code', d1, 1}]}},
       {2, {driver, erlang, trace_pattern, [{d1, a, 1}, true, [local]]}},
       {3, {driver, erlang, trace_pattern, [{d1, a, 1}, restart, [call_count]]}},
       {4, {driver, erlang, trace_info, [{d1, a, 1}, call_count]}}],
      fun pauses/1,
      fun({Counter, false}, {Counter, _}) -> lists:member(Counter, [call_count, call_time, call_memory]);
         (_, _) -> false
      end}]
    ++ [{"clearing a pattern of a BIF does not untrace it in other sessions (erts_patches: 0011)",
         [{1, {spawn, driver, []}},
          {2, {session, s1, {'$t', 2}, []}},
          {3, {driver, erlang, trace, [{'$p', 1}, true, [call, {tracer, {'$t', 1}}]]}},
          {4, {driver, erlang, trace_pattern, [{lists, reverse, 2}, true, [local]]}},
          {5, {driver, trace, function, [{'$s', s1}, {lists, reverse, 2}, false, [call_count]]}},
          {6, {driver, code, load_binary, [d1, "none", {'$code', d1, 1}]}},
          {7, {worker, 1, [{d1, bi, [[1, 2]]}]}}],
         fun sets_bifs/1,
         fun({Id, Result, X, Deaths}, {Id, Result, Y, Deaths}) -> without_bifs(X) =:= without_bifs(Y);
            (_, _) -> false
         end} || erlang:system_info(otp_release) =:= "27"].

pauses({_, {driver, _, F, Args}}) when F =:= trace_pattern; F =:= function ->
    lists:member(pause, Args) orelse lists:member(restart, Args);
pauses(_) ->
    false.

sets_bifs({_, {driver, trace, function, [_, {M, _, _} | _]}}) -> lists:member(M, ['_', lists, erlang]);
sets_bifs({_, {driver, erlang, trace_pattern, [{M, _, _} | _]}}) -> lists:member(M, ['_', lists, erlang]);
sets_bifs(_) -> false.

%% The messages of tracers that don't concern BIFs.
without_bifs(Events) ->
    [{T, Kept} || {T, L} <- Events, is_list(L),
                  Kept <- [[{Tracee, M} || {Tracee, Messages} <- L, M <- Messages, not of_bif(M)]], Kept =/= []].

of_bif(M) ->
    tuple_size(M) >= 4 andalso is_tuple(element(4, M)) andalso lists:member(element(1, element(4, M)),
                                                                            [lists, erlang]).

%% While other processes load code, set patterns, trace and end, what must not depend on them
%% holds: erts_diff_chaos.
invariants(Config) ->
    {ok, Peer} = erts_diff_pair:start(proplists:get_value(own, Config)),
    ok = peer:call(Peer, erts_diff_run, prepare, [erts_diff_modules:binaries()], 60000),
    First = number("KYMO_DIFF_SEED", 1),
    N = max(1, number("KYMO_DIFF", ?PROGRAMS) div 25),
    [?assertEqual({Seed, []}, {Seed, peer:call(Peer, erts_diff_chaos, run, [Seed], 120000)})
     || Seed <- lists:seq(First, First + N - 1)],
    peer:stop(Peer).
