%% SPDX-License-Identifier: Apache-2.0
%%
%% A clerk sends telegrams over one TCP connection. The far end reads a few kilobytes and then
%% pauses, so that the socket's buffers are full, and the clerk is stopped inside gen_tcp:send/2.
-module(problem_telegraph_office_wires_crawl).
-behaviour(gen_server).

-export([about/0, start/0, sender/1, far_end/1]).
-export([init/1, handle_call/3, handle_cast/2]).

about() ->
    #{
        title => "Customers of the telegraph office stand for seconds until a telegram is accepted",
        source =>
            "Erlang in Anger 5.1.2 and 'Suspended Ports' (busy_port of erlang:system_monitor/2): "
            "https://zhongwencool.gitbooks.io/erlang_in_anger/content/chapter_8_cpu_and_scheduler_hogs/suspended_ports.html",
        flags => ["+S", "2:2"],
        truth =>
            "telegraph_clerk is held in gen_tcp:send/2 for some 0.3 s per telegram, since the peer of its "
            "TCP socket reads too slowly and the socket's buffers are full",
        who => [
            "telegraph_clerk",
            "problem_telegraph_office_wires_crawl:(transmit/2|handle_call/3|init/1)"
        ],
        what => [
            "gen_tcp:send",
            "prim_inet:send",
            "busy.?port",
            "(port|socket|connection|driver|peer).{0,40}(busy|full|slow|back.?pressure)",
            "(full|busy|slow).{0,40}(port|socket|connection|peer|send buffer)",
            "(peer|other side|far end|remote|receiver).{0,40}(not|n.t|slow|late).{0,15}(read|receiv|drain|consum|tak)",
            "back.?pressure",
            "(sends?|sending|writes?|writing).{0,30}(socket|tcp|network|peer|port)",
            "tcp.{0,20}(send|write)",
            "send.?buffer"
        ]
    }.

start() ->
    {ok, _} = gen_server:start({local, telegraph_clerk}, ?MODULE, [], []),
    lists:foreach(fun(N) -> spawn(?MODULE, sender, [N]) end, lists:seq(1, 3)).

%% A customer hands in one telegram after the other.
sender(N) ->
    Words = binary:copy(<<N, "stop please send mules ">>, 1600),
    ok = gen_server:call(telegraph_clerk, {telegram, Words}, infinity),
    timer:sleep(20),
    sender(N).

init([]) ->
    Loop = {127, 0, 0, 1},
    {ok, L} = gen_tcp:listen(0, [binary, {ip, Loop}, {active, false}, {recbuf, 8192}]),
    {ok, Port} = inet:port(L),
    _ = spawn_link(?MODULE, far_end, [L]),
    {ok, S} = gen_tcp:connect(Loop, Port, [binary, {active, false}, {sndbuf, 8192}]),
    {ok, S}.

handle_call({telegram, Words}, _, S) ->
    {reply, transmit(S, Words), S}.

handle_cast(_, S) -> {noreply, S}.

transmit(S, Words) ->
    ok = gen_tcp:send(S, Words).

%% The office at the far end takes about 130 kilobytes in a second.
far_end(L) ->
    {ok, S} = gen_tcp:accept(L),
    read(S).

read(S) ->
    {ok, _} = gen_tcp:recv(S, 8192),
    timer:sleep(60),
    read(S).
