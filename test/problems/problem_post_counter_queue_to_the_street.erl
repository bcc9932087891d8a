%% SPDX-License-Identifier: Apache-2.0
%%
%% A post counter accepts connections in one process, which also reads the greeting of each new
%% customer. Customers who come in and say nothing for a while hold up all that follow.
-module(problem_post_counter_queue_to_the_street).

-export([about/0, start/0, counter/1, customer/2]).

about() ->
    #{
        title => "A post office's customers get a connection at once, and an answer after seconds",
        source =>
            "gen_tcp:accept/1, option backlog of gen_tcp:listen/2: https://www.erlang.org/doc/man/gen_tcp.html; "
            "Erlang in Anger 3.2 (work to do before the next accept)",
        flags => ["+S", "2:2"],
        truth =>
            "post_counter, the only acceptor, waits in gen_tcp:recv/2 (greeting/1) for each new customer's first "
            "words, 300 ms for slow ones, and accepts nobody else in the meantime",
        who => [
            "post_counter",
            "problem_post_counter_queue_to_the_street:(counter/1|greeting/1)"
        ],
        what => [
            "gen_tcp:(recv|accept)",
            "prim_inet:(recv|accept)",
            "\\brecv",
            "(wait|block|read|receiv|idl)[a-z]*.{0,40}(socket|tcp|client|peer|network|connection)",
            "(wait|block|read|receiv|idl)[a-z]*.{0,40}(greeting|hand.?shake|data|input)",
            "(socket|tcp|client|peer|network|connection).{0,30}(silent|slow|idle|input|data|says nothing|read)",
            "accept.{0,30}(one at a time|serial|single|only one|backlog)"
        ]
    }.

start() ->
    Me = self(),
    true = register(post_counter, spawn(fun() -> init(Me) end)),
    receive
        {port, P} ->
            lists:foreach(fun(Wait) -> spawn(?MODULE, customer, [P, Wait]) end, [0, 0, 0, 300])
    end.

%% Comes, hesitates, says what is wanted, gets the answer, goes.
customer(Port, Wait) ->
    {ok, S} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}]),
    timer:sleep(Wait),
    ok = gen_tcp:send(S, <<"stamp">>),
    {ok, <<"there">>} = gen_tcp:recv(S, 5),
    ok = gen_tcp:close(S),
    timer:sleep(10),
    customer(Port, Wait).

init(From) ->
    {ok, L} = gen_tcp:listen(0, [binary, {ip, {127, 0, 0, 1}}, {active, false}, {backlog, 50}]),
    {ok, Port} = inet:port(L),
    From ! {port, Port},
    counter(L).

counter(L) ->
    {ok, S} = gen_tcp:accept(L),
    <<"stamp">> = greeting(S),
    Clerk = spawn(fun() -> clerk(S) end),
    ok = gen_tcp:controlling_process(S, Clerk),
    Clerk ! yours,
    counter(L).

greeting(S) ->
    {ok, Words} = gen_tcp:recv(S, 5),
    Words.

clerk(S) ->
    receive
        yours -> ok
    end,
    ok = gen_tcp:send(S, <<"there">>),
    _ = gen_tcp:recv(S, 0),
    gen_tcp:close(S).
