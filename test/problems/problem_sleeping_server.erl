%% SPDX-License-Identifier: Apache-2.0
%%
%% A server does slow work in its callback, and its clients wait.
-module(problem_sleeping_server).
-behaviour(gen_server).

-export([about/0, start/0, client/0]).
-export([init/1, handle_call/3, handle_cast/2]).

about() ->
    #{
        title => "Requests take 200 ms although nothing uses a processor",
        source => "Fred Hebert, Erlang in Anger, chapter 3: blocking in a gen_server",
        flags => ["+S", "2:2"],
        truth => "The server registered as price_list sleeps 200 ms in handle_call/3 for each request",
        who => ["price_list", "problem_sleeping_server:handle_call/3"],
        what => ["sleep", "timer", "waits? for a time"]
    }.

start() ->
    {ok, _} = gen_server:start({local, price_list}, ?MODULE, [], []),
    _ = spawn(fun client/0),
    ok.

client() ->
    _ = gen_server:call(price_list, price),
    client().

init([]) -> {ok, none}.

handle_call(price, _, S) ->
    timer:sleep(200),
    {reply, 10, S}.

handle_cast(_, S) -> {noreply, S}.
