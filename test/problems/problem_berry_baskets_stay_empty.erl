%% SPDX-License-Identifier: Apache-2.0
%%
%% A cook asks the bush for ten berries. The bush has four, hands them out, and forgets that six are still asked for.
%% Berries grow on, the cook waits for six and asks no more: both are idle.
-module(problem_berry_baskets_stay_empty).
-behaviour(gen_server).

-export([about/0, start/0, cook/1, sun/0]).
-export([init/1, handle_call/3, handle_cast/2]).

about() ->
    #{
        title => "The bush is full of berries, the cook is idle, and no jam is made",
        source =>
            "GenStage, Trouble with producer that initially has no events: consumers ask only once, demand that is "
            "not served has to be stored (https://github.com/elixir-lang/gen_stage/issues/80)",
        flags => ["+S", "2:2"],
        truth =>
            "The consumer jam_cook waits forever in await/2 for 6 more berries: berry_bush has dropped the pending "
            "demand in handle_cast/2, and waits itself for a new demand while its buffer grows",
        who => ["jam_cook", "berry_bush", "problem_berry_baskets_stay_empty:(cook/1|await/2|handle_cast/2)"],
        what => [
            "demand", "never (gets|receives|got|answered|sent|comes|arrives|delivered)", "(no|without) (message|event|reply|answer|berries|delivery)\\S* (\\S+ )?(comes?|arrives?|sent|received|to)",
            "lost (request|message|demand|wake)", "stall", "forever", "stuck", "deadlock", "each other", "since the (start|begin)", "whole (time|recording|window)",
            "waits? (in receive )?for (a )?(messages?|berries|events?) (that|which|of|from|to)", "no (progress|work)", "starv", "receives? nothing", "nobody sends", "no one sends",
            "(does not|doesn't) (send|answer|reply|deliver)"
        ]
    }.

start() ->
    {ok, _} = gen_server:start({local, berry_bush}, ?MODULE, [], []),
    register(jam_cook, spawn(?MODULE, cook, [0])),
    _ = spawn(fun sun/0),
    timer:sleep(100).

%% A berry each 50 ms.
sun() ->
    gen_server:cast(berry_bush, grow),
    timer:sleep(50),
    sun().

cook(Jars) ->
    gen_server:cast(berry_bush, {ask, self(), 10}),
    await(10, Jars).

await(0, Jars) ->
    cook(Jars + 1);
await(N, Jars) ->
    receive
        {berries, L} -> await(N - length(L), Jars)
    end.

%% Four berries are ripe at the begin.
init([]) -> {ok, [1, 2, 3, 4]}.

handle_call(_, _, S) -> {reply, ok, S}.

%% What cannot be served at once is forgotten. A bush bears 5000 berries at most.
handle_cast({ask, Pid, N}, Ripe) ->
    {Give, Keep} = lists:split(min(N, length(Ripe)), Ripe),
    Pid ! {berries, Give},
    {noreply, Keep};
handle_cast(grow, Ripe) when length(Ripe) < 5000 ->
    {noreply, [erlang:unique_integer([positive]) | Ripe]};
handle_cast(grow, Ripe) ->
    {noreply, Ripe}.
