%% SPDX-License-Identifier: Apache-2.0
%%
%% Two servers ask each other for a confirmation while they answer a request.
%% Each is inside its own handle_call/3, without a time limit, so neither ever answers.
-module(problem_bank_transfers_hang).
-behaviour(gen_server).

-export([about/0, start/0, customer/1]).
-export([init/1, handle_call/3, handle_cast/2]).

about() ->
    #{
        title => "Money transfers never finish, and the node is idle",
        source =>
            "Max Lapshin, blog.erlyvideo.org/2013/01/03/deadlocks-1; "
            "Cesarini and Vinoski, Designing for Scalability with Erlang/OTP, chapter 4, "
            "on deadlocks of generic servers",
        flags => ["+S", "2:2"],
        truth =>
            "giro_desk waits for ever in handle_call/3 for savings_desk, which waits for ever "
            "in handle_call/3 for giro_desk: a deadlock of two servers; all customers wait for them",
        who => [
            "giro_desk",
            "savings_desk",
            "problem_bank_transfers_hang:handle_call/3",
            "problem_bank_transfers_hang:confirm/2"
        ],
        what => [
            "dead-?lock",
            "each other",
            "one another",
            "circular",
            "circle",
            "cycle",
            "mutual",
            "calls? (it )?back",
            "which (itself )?(waits|is waiting|calls) for \\S+, which",
            "both (wait|call)"
        ]
    }.

start() ->
    {ok, _} = gen_server:start({local, giro_desk}, ?MODULE, savings_desk, []),
    {ok, _} = gen_server:start({local, savings_desk}, ?MODULE, giro_desk, []),
    _ = [spawn(?MODULE, customer, [Desk]) || Desk <- [giro_desk, savings_desk], _ <- lists:seq(1, 8)],
    ok.

%% A customer transfers again and again; from the first deadlock on it only waits.
customer(Desk) ->
    {ok, _} = gen_server:call(Desk, {transfer, rand:uniform(100)}, infinity),
    customer(Desk).

init(Other) ->
    {ok, #{other => Other, balance => 0}}.

handle_call({transfer, Amount}, _, #{other := Other, balance := B} = S) ->
    %% The checks of the account take a while, and make it certain that the desks meet.
    timer:sleep(20),
    ok = confirm(Other, Amount),
    {reply, {ok, B + Amount}, S#{balance := B + Amount}};
handle_call({confirm, Amount}, _, S) when is_integer(Amount) ->
    {reply, ok, S}.

handle_cast(_, S) ->
    {noreply, S}.

confirm(Other, Amount) ->
    gen_server:call(Other, {confirm, Amount}, infinity).
