%% SPDX-License-Identifier: Apache-2.0
%%
%% An event of the scales is given to all handlers that are attached, in the process that had the event. One of the
%% handlers works out the median of the last 20000 weights for each event.
-module(problem_pharmacy_scales_slow_with_statistics).

-export([about/0, start/0, scales/1, median_of_day/2, count_one/2]).

about() ->
    #{
        title => "Since the statistics were added, a prescription is weighed in 20 ms and not in 0.1 ms",
        source =>
            "telemetry, handlers are run in the process that executes the event "
            "(https://hexdocs.pm/telemetry/telemetry.html); Question: Design Considerations, every call "
            "to telemetry.execute is synchronous (https://github.com/beam-telemetry/telemetry_metrics_prometheus_core/"
            "issues/30)",
        flags => ["+S", "2:2"],
        truth =>
            "The process dispensary spends almost all of its time in the handler median_of_day/2, which sorts 20000 "
            "weights for each event, in line with the request",
        who => [
            "median_of_day", "problem_pharmacy_scales_slow_with_statistics:(median_of_day/2|execute/2|scales/1)", "dispensary",
            "scale_handlers"
        ],
        what => [
            "telemetry", "event handler", "\\bhandlers?\\b", "\\bu?sort", "median", "statistic", "computes?", "cpu", "processor time", "inline", "in.?line", "synchronous",
            "measur", "metric", "executes? (code|erlang|beam)", "busy"
        ]
    }.

start() ->
    Self = self(),
    Owner = spawn(fun() ->
        _ = ets:new(scale_handlers, [named_table, public, bag, {read_concurrency, true}]),
        true = ets:insert(scale_handlers, [{weighed, ?MODULE, count_one}, {weighed, ?MODULE, median_of_day}]),
        Self ! {self(), ready},
        timer:sleep(infinity)
    end),
    receive
        {Owner, ready} -> ok
    end,
    Pid = spawn(?MODULE, scales, [1]),
    true = register(dispensary, Pid),
    lists:foreach(fun(N) -> spawn(fun() -> patient(N) end) end, lists:seq(1, 6)).

patient(N) ->
    Ref = monitor(process, dispensary),
    dispensary ! {weigh, self(), Ref, N},
    receive
        {weight, Ref, _} -> demonitor(Ref, [flush])
    end,
    timer:sleep(5),
    patient(N + 1).

scales(N) ->
    receive
        {weigh, From, Ref, What} ->
            Weight = (What * 37 + N) rem 1000,
            execute(weighed, Weight),
            From ! {weight, Ref, Weight},
            scales(N + 1)
    end.

execute(Event, Value) ->
    lists:foreach(fun({_, M, F}) -> M:F(Event, Value) end, ets:lookup(scale_handlers, Event)).

count_one(_, _) ->
    put(events, 1 + case get(events) of undefined -> 0; Events -> Events end).

median_of_day(_, Value) ->
    Old = case get(weights) of undefined -> [(W * 7919) rem 100003 || W <- lists:seq(1, 20000)]; L -> L end,
    New = [Value | lists:droplast(Old)],
    put(weights, New),
    put(median, lists:nth(10000, lists:sort(New))).
