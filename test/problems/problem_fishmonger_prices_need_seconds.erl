%% SPDX-License-Identifier: Apache-2.0
%%
%% Each price is asked for from a harbour by name. The first of the two name servers is silent, so that each look-up
%% runs into the timeout of 700 ms and is answered by the second.
-module(problem_fishmonger_prices_need_seconds).

-export([about/0, start/0, name_server/1, stall/1]).

about() ->
    #{
        title => "A price of fish needs most of a second, although the harbour answers in a millisecond",
        source =>
            "fusco, Slow DNS on first request: 4.5-5 s in inet_gethost_native (https://github.com/esl/fusco/issues/19); "
            "RabbitMQ, Accepting AMQP connection is slow, more than 8 seconds, multiples of the resolver's timeouts "
            "(https://github.com/rabbitmq/rabbitmq-server/issues/1334)",
        flags => ["+S", "2:2"],
        truth =>
            "All 8 stalls wait in harbour_address/1 for DNS (inet_res:resolve/5): the first name server never answers, "
            "700 ms pass until the second is asked",
        who => [
            "inet_res(:\\S+)?", "inet_(db|udp|gethost\\S*)", "(name|dns) ?-?server",
            "problem_fishmonger_prices_need_seconds:(harbour_address/1|stall/1)"
        ],
        what => [
            "\\bdns\\b", "name.?server", "resol(v|ution)", "(host ?)?names? (look.?up|resolution|service)", "look(s|ed)?.?up (of )?(a |the )?(host|name)",
            "inet_res", "nslookup", "gethostby", "udp", "gen_udp:recv", "host ?name", "prim_inet:recv(from)?", "socket", "network"
        ]
    }.

start() ->
    {ok, Silent} = gen_udp:open(0, [binary, {active, false}, {ip, {127, 0, 0, 1}}]),
    {ok, Good} = gen_udp:open(0, [binary, {active, false}, {ip, {127, 0, 0, 1}}]),
    {ok, P1} = inet:port(Silent),
    {ok, P2} = inet:port(Good),
    %% Nobody reads the first socket.
    Keeper = spawn(fun() -> timer:sleep(infinity) end),
    ok = gen_udp:controlling_process(Silent, Keeper),
    Server = spawn(?MODULE, name_server, [Good]),
    ok = gen_udp:controlling_process(Good, Server),
    Servers = [{{127, 0, 0, 1}, P1}, {{127, 0, 0, 1}, P2}],
    lists:foreach(fun(_) -> spawn(?MODULE, stall, [Servers]) end, lists:seq(1, 8)).

%% Repeats the question, says that it is an answer, and adds the address.
name_server(S) ->
    case gen_udp:recv(S, 0) of
        {ok, {Ip, Port, <<Id:16, _:16, 1:16, _:48, Rest/binary>>}} ->
            Question = question(Rest),
            Answer = <<16#C00C:16, 1:16, 1:16, 0:32, 4:16, 10, 0, 0, 1>>,
            _ = gen_udp:send(S, Ip, Port, <<Id:16, 16#8580:16, 1:16, 1:16, 0:32, Question/binary, Answer/binary>>);
        _ ->
            ok
    end,
    name_server(S).

question(Bin) ->
    {At, 1} = binary:match(Bin, <<0>>),
    binary:part(Bin, 0, At + 5).

stall(Servers) ->
    {10, 0, 0, 1} = harbour_address(Servers),
    timer:sleep(5),
    stall(Servers).

harbour_address(Servers) ->
    Options = [{nameservers, Servers}, {timeout, 700}, {retry, 1}, {edns, false}],
    case inet_res:resolve("harbour.example", in, a, Options, 5000) of
        {ok, Msg} ->
            [Rr | _] = inet_dns:msg(Msg, anlist),
            inet_dns:rr(Rr, data);
        {error, _} ->
            {10, 0, 0, 1}
    end.
