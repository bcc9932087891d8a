%% SPDX-License-Identifier: Apache-2.0
%%
%% The oven reads its orders 16 kB every half second. The feed has more to say, so that it is suspended in its send
%% until the oven has read on.
-module(problem_bakery_orders_stand_still).

-export([about/0, start/0, oven/1, feed/1]).

about() ->
    #{
        title => "Orders of the bakery come through in jerks, and the shops stand still in between",
        source =>
            "RabbitMQ, Introduce outbound internal AMQP flow control: a client that does not receive fast enough "
            "causes TCP back-pressure to the writer (https://github.com/rabbitmq/rabbitmq-server/pull/11307); also "
            "https://github.com/2600hz/kazoo/pull/6606, stuck in prim_inet:send/3",
        flags => ["+S", "2:2"],
        truth =>
            "The process registered as oven_feed is stopped in gen_tcp:send/2 for almost all of the time, as its "
            "peer reads 16 kB each 500 ms and the buffers of the socket are full",
        who => ["oven_feed", "problem_bakery_orders_stand_still:(feed/1|push/2)"],
        what => [
            "busy.?port", "gen_tcp:send", "prim_inet:send", "blocked (in|on|by) (\\S+ )?send", "back.?pressure",
            "slow (reader|consumer|receiver|peer|client)", "(does not|doesn't|not) read", "(send|socket|driver) buffers?",
            "buffers? (is|are) full", "full buffer", "flow control", "port (queue|buffer)", "high.?water",
            "suspended (in|by|on|for) (a |the |its )?(send|port|socket)", "socket", "tcp", "network"
        ]
    }.

start() ->
    Small = [{active, false}, {recbuf, 8192}, {sndbuf, 8192}, {ip, {127, 0, 0, 1}}],
    {ok, L} = gen_tcp:listen(0, [binary | Small]),
    {ok, Port} = inet:port(L),
    Oven = spawn(?MODULE, oven, [L]),
    ok = gen_tcp:controlling_process(L, Oven),
    Feed = spawn(?MODULE, feed, [Port]),
    register(oven_feed, Feed),
    lists:foreach(fun(N) -> spawn(fun() -> shop(N) end) end, lists:seq(1, 5)).

oven(L) ->
    {ok, S} = gen_tcp:accept(L),
    bake(S).

bake(S) ->
    {ok, _} = gen_tcp:recv(S, 16384),
    timer:sleep(500),
    bake(S).

%% A shop waits until its order has left the house.
shop(N) ->
    Ref = make_ref(),
    oven_feed ! {order, self(), Ref, binary:copy(<<N>>, 4000)},
    receive
        {sent, Ref} -> shop(N)
    end.

feed(Port) when is_integer(Port) ->
    Options = [binary, {active, false}, {sndbuf, 8192}, {high_watermark, 4096}, {low_watermark, 1024}],
    {ok, S} = gen_tcp:connect({127, 0, 0, 1}, Port, Options),
    feed(S);
feed(S) ->
    receive
        {order, From, Ref, Loaves} ->
            push(S, Loaves),
            From ! {sent, Ref},
            feed(S)
    end.

push(S, Loaves) -> ok = gen_tcp:send(S, Loaves).
