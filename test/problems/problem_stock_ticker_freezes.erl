%% SPDX-License-Identifier: Apache-2.0
%%
%% A server sends each price to all subscribers over TCP. One of them has stopped to read, so
%% the buffers fill up, and the server waits in the send for this one.
-module(problem_stock_ticker_freezes).
-behaviour(gen_server).

-export([about/0, start/0, exchange/1, trader/2]).
-export([init/1, handle_call/3, handle_cast/2]).

about() ->
    #{
        title => "Prices stop for all traders when one of them has gone to lunch",
        source =>
            "Fred Hebert, Erlang in Anger, chapter 5 (Ports) and 9, busy ports; OTP documentation, "
            "gen_tcp:send/2 blocks without send_timeout, and erlang:system_monitor/2, busy_port",
        flags => ["+S", "2:2"],
        truth =>
            "ticker_feed is blocked for ever in gen_tcp:send/2 in publish/2 on the full socket of the "
            "trader lunch, who does not read; the exchange waits for ticker_feed",
        who => [
            "ticker_feed",
            "problem_stock_ticker_freezes:(publish|handle_call)/\\d",
            "tcp_inet",
            "#Port<"
        ],
        what => [
            "busy[_ ]port",
            "port (\\S+ )?(is |was |that is )?busy",
            "gen_tcp:send",
            "prim_inet:send",
            "inet_tcp:send",
            "tcp send",
            "\\bsend(s|ing)? .{0,40}(socket|tcp|port|subscriber)",
            "send buffer",
            "back-?pressure",
            "peer .{0,20}(not|slow)",
            "(does not|doesn't) read",
            "(socket|port).{0,40}(full|blocked|suspend)"
        ]
    }.

start() ->
    {ok, L} = gen_tcp:listen(0, [binary, {active, false}, {ip, {127, 0, 0, 1}}, {packet, 4}]),
    {ok, Port} = inet:port(L),
    {ok, Feed} = gen_server:start({local, ticker_feed}, ?MODULE, [], []),
    lists:foreach(
        fun(Kind) ->
            _ = spawn(?MODULE, trader, [Kind, Port]),
            {ok, Socket} = gen_tcp:accept(L),
            ok = gen_tcp:controlling_process(Socket, Feed),
            ok = gen_server:call(Feed, {subscribe, Socket})
        end,
        [eager, lunch, eager]
    ),
    _ = spawn(?MODULE, exchange, [1]),
    timer:sleep(1000).

exchange(N) ->
    Prices = [{share, I, (N * I) rem 977} || I <- lists:seq(1, 2000)],
    ok = gen_server:call(ticker_feed, {prices, Prices}, infinity),
    exchange(N + 1).

%% A trader at lunch keeps the connection, and reads nothing.
trader(Kind, Port) ->
    {ok, S} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}, {packet, 4}]),
    read(Kind, S).

read(lunch, S) ->
    receive
        {back, S} -> read(eager, S)
    end;
read(eager, S) ->
    {ok, _} = gen_tcp:recv(S, 0),
    read(eager, S).

init([]) ->
    {ok, []}.

handle_call({subscribe, Socket}, _, Sockets) ->
    {reply, ok, [Socket | Sockets]};
handle_call({prices, Prices}, _, Sockets) ->
    ok = publish(term_to_binary(Prices), Sockets),
    {reply, ok, Sockets}.

handle_cast(_, Sockets) ->
    {noreply, Sockets}.

publish(Prices, Sockets) ->
    lists:foreach(fun(Socket) -> ok = gen_tcp:send(Socket, Prices) end, Sockets).
