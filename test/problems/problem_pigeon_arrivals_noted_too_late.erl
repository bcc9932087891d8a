%% SPDX-License-Identifier: Apache-2.0
%%
%% Transponders announce racing pigeons by UDP. The receiver has the socket in {active, true}
%% and needs 2 ms for each packet, but a thousand arrive in a second: its mailbox grows.
-module(problem_pigeon_arrivals_noted_too_late).

-export([about/0, start/0, transponder/2]).

about() ->
    #{
        title => "Arrivals of racing pigeons are noted ever later, minutes after the finish",
        source =>
            "https://github.com/esl/MongooseICE/issues/38 ({active, true} is not an option: uncontrolled message "
            "queue flooding), https://github.com/dnsimple/erldns/issues/37",
        flags => ["+S", "2:2"],
        truth =>
            "loft_clock gets some 1000 UDP packets in a second by {active, true}, and needs 2 ms of computing "
            "for each (note/2), so that its message queue grows without bound",
        who => [
            "loft_clock",
            "problem_pigeon_arrivals_noted_too_late:(loft/1|note/2|speed/2)"
        ],
        what => [
            "message.?queue",
            "mail.?box",
            "queue.{0,30}(grow|long|length|full|messages)",
            "messages.{0,40}(waiting|pile|pending|unread|queued|faster|behind|accumul)",
            "backlog",
            "overload",
            "(packets|datagrams|udp).{0,40}(faster|flood|more|than|rate)",
            "flood",
            "falls? behind",
            "arriv[a-z]+ faster",
            "cpu.?(bound|hog|time|use|burn)",
            "(uses|occupies|takes|keeps|burns|hogs|computes|runs).{0,30}(scheduler|processor|cpu|core)"
        ]
    }.

start() ->
    Me = self(),
    true = register(loft_clock, spawn(fun() -> init(Me) end)),
    receive
        {port, P} ->
            lists:foreach(fun(N) -> spawn(fun() -> transponder(open(), {N, P}) end) end, [1, 2])
    end.

open() ->
    {ok, S} = gen_udp:open(0, [binary, {ip, {127, 0, 0, 1}}]),
    S.

%% Five packets in 10 ms.
transponder(S, {N, Port}) ->
    lists:foreach(
        fun(I) -> ok = gen_udp:send(S, {127, 0, 0, 1}, Port, <<N, I, "blue hen">>) end,
        lists:seq(1, 5)
    ),
    timer:sleep(9),
    transponder(S, {N, Port}).

init(From) ->
    {ok, S} = gen_udp:open(0, [binary, {ip, {127, 0, 0, 1}}, {active, true}, {recbuf, 1000000}]),
    {ok, Port} = inet:port(S),
    From ! {port, Port},
    loft(#{}).

loft(Seen) ->
    receive
        {udp, _, _, _, Packet} -> loft(note(Packet, Seen))
    end.

note(<<N, I, Ring/binary>>, Seen) ->
    Seen#{{N, I, Ring} => speed(erlang:monotonic_time(microsecond) + 2000, 1.0)}.

speed(Until, X) ->
    case erlang:monotonic_time(microsecond) < Until of
        true -> speed(Until, math:sqrt(X + 2.0));
        false -> X
    end.
