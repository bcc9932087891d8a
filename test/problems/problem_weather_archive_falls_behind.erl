%% SPDX-License-Identifier: Apache-2.0
%%
%% One subscriber reads the measurements of all stations. They come at twice the rate that it can take, nobody waits
%% for it, and its mailbox grows.
-module(problem_weather_archive_falls_behind).

-export([about/0, start/0, station/1, archive/1]).

about() ->
    #{
        title => "The archive shows the weather of a minute ago, and of two minutes ago later on",
        source =>
            "EMQX, eheap_alloc: Cannot allocate 8162366936 bytes: the single subscriber of topic/# cannot consume so "
            "many messages (https://github.com/emqx/emqx/issues/2494); message_queue_too_long "
            "(https://github.com/emqx/emqx/issues/13038)",
        flags => ["+S", "2:2"],
        truth =>
            "The process registered as rain_archive gets about 700 messages per second from 20 stations, needs some "
            "4 ms of processor for each in smooth/2, and its message queue grows by hundreds each second",
        who => ["rain_archive", "problem_weather_archive_falls_behind:(smooth/2|archive/1|year/2)"],
        what => [
            "(message )?queue (grow|of|length|has|is)", "mailbox", "inbox", "backlog", "queued? messages", "messages? (in|wait|pile|queue)", "overload",
            "cannot keep up", "can't keep up", "falls? behind", "faster than", "saturat", "no back.?pressure", "bottleneck", "consumer", "cpu", "processor time",
            "computes?", "busy"
        ]
    }.

start() ->
    register(rain_archive, spawn(?MODULE, archive, [year(366, [])])),
    lists:foreach(fun(N) -> spawn(?MODULE, station, [N]) end, lists:seq(1, 20)).

%% At most 200000 measurements are under way, for the sake of the machine.
station(N) ->
    case process_info(whereis(rain_archive), message_queue_len) of
        {message_queue_len, L} when L < 200000 -> rain_archive ! {rain, N, erlang:system_time()};
        _ -> ok
    end,
    timer:sleep(27),
    station(N).

archive(Year) ->
    receive
        {rain, Station, At} -> archive(smooth({Station, At rem 366}, Year))
    end.

%% The whole year is made smooth again for each drop.
smooth({_, Day}, Year) ->
    lists:foldl(fun(_, Y) -> [(A * 3 + Day) div 4 || A <- Y] end, Year, lists:seq(1, 1500)).

year(0, Acc) -> Acc;
year(N, Acc) -> year(N - 1, [N * 100 | Acc]).
