%% SPDX-License-Identifier: Apache-2.0
%%
%% A relay passes pings on to a UDP socket. It has once fallen behind, and 150000 pings are in its mailbox. Each send
%% looks for its own confirmation behind all of them, so that the relay cannot catch up.
-module(problem_sonar_pings_leave_ever_slower).

-export([about/0, start/0, hydrophone/1, relay/3]).

about() ->
    #{
        title => "After a short outage the sonar pings leave slowly, and the backlog does not go down",
        source =>
            "Erlang/OTP, gen_udp:send execution time increases with caller's queue length "
            "(https://github.com/erlang/otp/issues/6455)",
        flags => ["+S", "2:2"],
        truth =>
            "The process registered as sonar_relay runs through its mailbox of 150000 messages within each "
            "gen_udp:send/2 (prim_inet:sendto), a selective receive for the reply of the port",
        who => ["sonar_relay", "problem_sonar_pings_leave_ever_slower:relay/3", "gen_udp:send/\\d", "prim_inet:\\S+"],
        what => [
            "selective", "mailbox", "message queue", "(long|large|big|huge) (in)?(queue|box)", "queue (length|of [0-9]+|has)",
            "queued? messages", "[0-9]+ messages", "backlog", "scan", "walks? (through|over|along)", "search",
            "receive of (a |the )?reply", "inbox"
        ]
    }.

start() ->
    Done = counters:new(1, []),
    {ok, Sink} = gen_udp:open(0, [binary, {active, false}, {recbuf, 4096}, {ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(Sink),
    Relay = spawn(fun() ->
        {ok, S} = gen_udp:open(0, [binary, {active, false}, {ip, {127, 0, 0, 1}}]),
        receive
            go -> relay(S, Port, Done)
        end
    end),
    register(sonar_relay, Relay),
    %% The sink belongs to a process that never reads; the kernel drops what is too much.
    Keeper = spawn(fun() -> timer:sleep(infinity) end),
    ok = gen_udp:controlling_process(Sink, Keeper),
    _ = spawn(?MODULE, hydrophone, [{Relay, Done, 150000}]),
    timer:sleep(1000),
    Relay ! go,
    ok.

%% The sea is as loud as the relay is fast: the backlog stays the same.
hydrophone({Relay, Done, More}) ->
    lists:foreach(fun(N) -> Relay ! {ping, N, N rem 360} end, lists:seq(1, More)),
    hydrophone({Relay, Done, 0, 0});
hydrophone({Relay, Done, Seen, _}) ->
    timer:sleep(20),
    Now = counters:get(Done, 1),
    lists:foreach(fun(N) -> Relay ! {ping, N, N rem 360} end, lists:seq(1, Now - Seen)),
    hydrophone({Relay, Done, Now, 0}).

relay(S, Port, Done) ->
    receive
        {ping, N, Bearing} ->
            ok = gen_udp:send(S, {127, 0, 0, 1}, Port, <<N:32, Bearing:16>>),
            counters:add(Done, 1, 1),
            relay(S, Port, Done)
    end.
