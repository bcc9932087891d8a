%% SPDX-License-Identifier: Apache-2.0
%%
%% The throughput of RabbitMQ with a budget while all its functions are traced. Rounds alternate
%% between untraced and traced with the budget; the last one has no budget. See
%% bench/budget_run.
-module(budget_bench).

-export([main/0]).
%% Called in the node of RabbitMQ.
-export([ping/1]).


main() ->
    [Dir, Rounds, Seconds, Percent] = [argument(Name) || Name <- [out, rounds, seconds, percent]],
    case kymo_rabbitmq:missing() of
        [] ->
            kymo_rabbitmq:with(Dir, fun(Subject, Amqp) ->
                run(Subject, Amqp, Dir, list_to_integer(Rounds), list_to_integer(Seconds), number(Percent))
            end);
        Missing ->
            io:format("  SKIPPED: there is no ~ts~n", [lists:join(", ", Missing)])
    end,
    halt().

argument(Name) ->
    {ok, [[Value]]} = init:get_argument(Name),
    Value.

number(Text) ->
    try
        list_to_integer(Text)
    catch
        error:badarg -> list_to_float(Text)
    end.

run(Subject, Amqp, Dir, Rounds, Seconds, Percent) ->
    _ = round_of(Subject, Amqp, Seconds),
    Budget = #{budget => #{cpu => Percent}},
    Results = [{round_of(Subject, Amqp, Seconds), traced(Subject, Amqp, Dir, Seconds, Budget)} || _ <- lists:seq(1, Rounds)],
    io:format("  ~31s ~31s ~23s~n", ["messages/s", "p99 of a ping, us", ""]),
    io:format("  ~10s ~10s ~9s ~10s ~10s ~9s ~7s ~7s ~7s~n",
              ["untraced", "beginning", "later", "untraced", "beginning", "later", "traced", "shed", "used"]),
    [row(R) || R <- Results],
    io:format("~n  medians of the ratios to the untraced round before:~n"
              "  messages/s ~.3f in the beginning, ~.3f later; p99 ~.1f and ~.1f~n", medians(Results)),
    {_, {Free, P99}, _, _} = traced(Subject, Amqp, Dir, Seconds, #{}),
    io:format("  without a budget, once: ~b messages/s, p99 ~.1f us~n", [Free, P99]).

row({{U, P}, {{F, Q}, {T, S}, Set, #{budget := #{shed := #{functions := Shed}, used := Used}}}}) ->
    io:format("  ~10b ~10b ~9b ~10.1f ~10.1f ~9.1f ~7b ~7b ~7.2f~n", [U, F, T, P, Q, S, Set, length(Shed), Used]).

medians(Results) ->
    [
        median([element(Part, element(Phase, Traced)) / element(Part, Untraced) || {Untraced, Traced} <- Results])
     || Part <- [1, 2], Phase <- [1, 2]
    ].

median(List) -> lists:nth((length(List) + 1) div 2, lists:sort(List)).

%% The load is already running when tracing begins. Measures the round in which it begins, and
%% the next one.
traced(Subject, Amqp, Dir, Seconds, Options) ->
    Folder = filename:join(Dir, "rec"),
    {ok, R} = kymo_subject:call(Subject, kymo, start, [Options#{dir => Folder, owner => none}]),
    Start = fun() ->
        {ok, #{functions := Set}} = kymo_subject:call(Subject, kymo, trace, [R, #{functions => "_:_/_", events => [return_to]}]),
        Set
    end,
    {Set, First} = loaded(Subject, Amqp, Seconds, Start),
    Later = round_of(Subject, Amqp, Seconds),
    Info = kymo_subject:call(Subject, kymo, info, [R]),
    {ok, _} = kymo_subject:call(Subject, kymo, stop, [R]),
    ok = kymo_folder:remove_recording(Folder),
    {First, Later, Set, Info}.

round_of(Subject, Amqp, Seconds) -> element(2, loaded(Subject, Amqp, Seconds, fun() -> ok end)).

loaded(Subject, Amqp, Seconds, Before) ->
    Clients = amqp_clients:start(filename:join(argument(scripts), "load.py"), Amqp),
    ok = amqp_clients:load(Clients, Seconds),
    Done = Before(),
    P99 = kymo_subject:call(Subject, ?MODULE, ping, [Seconds * 1000 - 1000]),
    Count = amqp_clients:counts(Clients),
    ok = amqp_clients:stop(Clients),
    {Done, {round(Count / Seconds), P99}}.

%% ---- in the node --------------------------------------------------------------------

%% The round trip of a message to another process, measured a thousand times per second: the
%% 99th percentile in microseconds.
ping(Milliseconds) ->
    Pong = spawn_link(fun pong/0),
    Times = ping(Pong, erlang:monotonic_time(millisecond) + Milliseconds, []),
    unlink(Pong),
    exit(Pong, kill),
    Sorted = lists:sort(Times),
    lists:nth(max(1, length(Sorted) * 99 div 100), Sorted) / 1000.

ping(Pong, End, Acc) ->
    Start = erlang:monotonic_time(nanosecond),
    Pong ! {ping, self()},
    receive
        pong -> ok
    end,
    Taken = erlang:monotonic_time(nanosecond) - Start,
    receive
    after 1 -> ok
    end,
    case erlang:monotonic_time(millisecond) > End of
        true -> Acc;
        false -> ping(Pong, End, [Taken | Acc])
    end.

pong() ->
    receive
        {ping, From} -> From ! pong
    end,
    pong().
