%% SPDX-License-Identifier: Apache-2.0
%%
%% One acceptor serves the gate of the lift, and reads the ticket of a guest before it accepts the next. Every second
%% guest is silent, and costs it a timeout of 400 ms.
-module(problem_ski_lift_gates_let_few_through).

-export([about/0, start/0, turnstile/1, guest/2]).

about() ->
    #{
        title => "Guests connect at once, but get no answer for seconds, and the lift runs half empty",
        source =>
            "RabbitMQ, Accepting AMQP connection is slow (https://github.com/rabbitmq/rabbitmq-server/issues/1334) and "
            "Make number of Ranch acceptors configurable (https://github.com/rabbitmq/rabbitmq-server/pull/542); "
            "Handshake timeout (https://github.com/rabbitmq/rabbitmq-common/issues/21)",
        flags => ["+S", "2:2"],
        truth =>
            "The only acceptor turnstile_1 waits up to 400 ms in gen_tcp:recv/3 of check_ticket/1 for guests that send "
            "nothing, and does not accept the next one meanwhile; the others wait in recv for their answer",
        who => ["turnstile_1", "problem_ski_lift_gates_let_few_through:(check_ticket/1|turnstile/1)"],
        what => [
            "gen_tcp:recv", "prim_inet:recv", "\\brecv", "accept", "handshake", "(silent|slow|idle) (client|peer|guest|connection)", "socket", "tcp",
            "network", "remote (end|side|peer|system)", "peer", "receives? timeout", "timeout of (a |the )?(recv|read|socket)", "head.?of.?line"
        ]
    }.

start() ->
    Options = [binary, {packet, line}, {active, false}, {backlog, 200}, {ip, {127, 0, 0, 1}}],
    {ok, L} = gen_tcp:listen(0, Options),
    {ok, Port} = inet:port(L),
    Acceptor = spawn(?MODULE, turnstile, [L]),
    ok = gen_tcp:controlling_process(L, Acceptor),
    register(turnstile_1, Acceptor),
    lists:foreach(fun(N) -> spawn(?MODULE, guest, [N, Port]) end, lists:seq(1, 16)).

turnstile(L) ->
    {ok, S} = gen_tcp:accept(L),
    check_ticket(S),
    turnstile(L).

check_ticket(S) ->
    _ =
        case gen_tcp:recv(S, 0, 400) of
            {ok, <<"ticket ", _/binary>>} -> gen_tcp:send(S, "go\n");
            {ok, _} -> gen_tcp:send(S, "stop\n");
            {error, _} -> gen_tcp:send(S, "too late\n")
        end,
    gen_tcp:close(S).

%% Guests with an even number fumble for their ticket until the gate has lost patience.
guest(N, Port) ->
    {ok, S} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {packet, line}, {active, false}]),
    _ = [gen_tcp:send(S, ["ticket ", integer_to_list(N), "\n"]) || N rem 2 =:= 1],
    _ = gen_tcp:recv(S, 0),
    ok = gen_tcp:close(S),
    timer:sleep(50),
    guest(N, Port).
