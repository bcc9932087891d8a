%% SPDX-License-Identifier: Apache-2.0
%%
%% Readings of a river's gauges go to a table of type bag, all of one day under the same key. Each
%% insert compares the new row with all the rows of its key.
-module(problem_river_gauge_readings_bunch_up).
-behaviour(gen_server).

-export([about/0, start/0, gauge/1]).
-export([init/1, handle_call/3, handle_cast/2]).

about() ->
    #{
        title => "Gauges deliver readings slower toward the evening, in the morning all is well",
        source =>
            "https://github.com/erlang/otp/issues/4205 (VM not yielding on long ets:inserts: bag with many "
            "objects of the same key)",
        flags => ["+S", "2:2"],
        truth =>
            "The server river_log inserts into the bag gauge_rows under one key with 12000 rows and more (store/2), "
            "so that each ets:insert/2 compares with all of them, 0.2 ms to 1 ms each, 100 of them per request",
        who => [
            "river_log",
            "problem_river_gauge_readings_bunch_up:(handle_call/3|store/2)",
            "gauge_rows"
        ],
        what => [
            "ets:insert",
            "\\bbag\\b",
            "insert",
            "same key",
            "(ets|table).{0,25}(writ|updat|chain|linear|operation)"
        ]
    }.

start() ->
    {ok, _} = gen_server:start({local, river_log}, ?MODULE, [], []),
    lists:foreach(fun(N) -> spawn(?MODULE, gauge, [N]) end, lists:seq(1, 3)).

%% Each gauge delivers a hundred readings at a time.
gauge(N) ->
    Readings = [{N, erlang:unique_integer(), rand:uniform(400)} || _ <- lists:seq(1, 100)],
    ok = gen_server:call(river_log, {readings, Readings}, infinity),
    timer:sleep(200),
    gauge(N).

%% The day so far: 12000 rows.
init([]) ->
    gauge_rows = ets:new(gauge_rows, [named_table, bag]),
    true = ets:insert(gauge_rows, [{today, {0, I, 100}} || I <- lists:seq(1, 12000)]),
    {ok, none}.

handle_call({readings, Readings}, _, S) ->
    {reply, store(today, Readings), S}.

handle_cast(_, S) -> {noreply, S}.

store(Day, Readings) ->
    lists:foreach(fun(R) -> true = ets:insert(gauge_rows, {Day, R}) end, Readings).
