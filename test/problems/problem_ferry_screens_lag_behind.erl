%% SPDX-License-Identifier: Apache-2.0
%%
%% One hub per terminal passes each departure on to every screen itself. The board that it sends is large, and is
%% copied for each of the 1500 screens, so that one announcement takes the hub a long time.
-module(problem_ferry_screens_lag_behind).
-behaviour(gen_server).

-export([about/0, start/0, screen/0, harbour_master/0]).
-export([init/1, handle_call/3, handle_cast/2]).

about() ->
    #{
        title => "Screens at the ferry terminal show a departure seconds after it was announced",
        source =>
            "Discord, How Discord Scaled Elixir to 5,000,000 Concurrent Users, and Maxjourney: Pushing Discord's "
            "Limits (https://discord.com/blog/maxjourney-pushing-discords-limits-with-a-million-plus-online-users-"
            "in-a-single-server): one guild process sends to each session",
        flags => ["+S", "2:2"],
        truth =>
            "The process registered as departure_hub keeps a processor busy, as it sends the whole board of 400 "
            "rows to each of 1500 screens in fan_out/2, one message at a time",
        who => [
            "departure_hub",
            "problem_ferry_screens_lag_behind:(fan_out/2|handle_cast/2|handle_call/3|'?-fan_out)"
        ],
        what => [
            "fan.?out", "broadcast", "multicast", "many (receivers|recipients|subscribers|processes)",
            "sends? (\\S+ ){0,4}(each|every|all|many|thousands|[0-9]+ (processes|messages))", "message passing",
            "message sending", "sending (of )?(large |big |many )?messages", "messages per second", "send rate",
            "cop(y|ies|ied|ying)", "(large|big) messages?", "erlang:send", "erlang:'!'"
        ]
    }.

start() ->
    {ok, Hub} = gen_server:start({local, departure_hub}, ?MODULE, [], []),
    lists:foreach(fun(_) -> gen_server:cast(Hub, {join, spawn(fun screen/0)}) end, lists:seq(1, 1500)),
    _ = spawn(fun harbour_master/0),
    ok.

%% A screen forgets what it shows.
screen() ->
    receive
        {departures, _Board} -> screen()
    end.

%% The master waits until the terminal has the news, then has the next.
harbour_master() ->
    ok = gen_server:call(departure_hub, announce, infinity),
    timer:sleep(20),
    harbour_master().

init([]) ->
    {ok, {[], [{N, {ferry, N}, {quay, N rem 7}, [platform, N, on_time]} || N <- lists:seq(1, 400)]}}.

handle_call(announce, _, {Screens, Board} = S) ->
    fan_out(Screens, Board),
    {reply, ok, S}.

handle_cast({join, Pid}, {Screens, Board}) -> {noreply, {[Pid | Screens], Board}}.

fan_out([Pid | T], Board) ->
    Pid ! {departures, Board},
    fan_out(T, Board);
fan_out([], _) ->
    ok.
