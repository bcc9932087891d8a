%% SPDX-License-Identifier: Apache-2.0
%%
%% A probe for a dashboard fetches the whole state of a server to show one number of it.
%% The server has to copy its state into the answer, and answers no one else meanwhile.
-module(problem_insurance_quotes_hiccup).
-behaviour(gen_server).

-export([about/0, start/0, agent/1, dashboard/0]).
-export([init/1, handle_call/3, handle_cast/2]).

about() ->
    #{
        title => "Quotes hiccup, and memory goes up and down, since the dashboard was installed",
        source =>
            "OTP documentation, module sys: get_state/1 is for debugging only "
            "(erlang.org/doc/man/sys); Erlang/OTP Efficiency Guide, Processes: all data in messages "
            "is copied; Fred Hebert, Erlang in Anger, chapter 5, on recon:get_state",
        flags => ["+S", "2:2"],
        truth =>
            "dashboard calls sys:get_state/1 of policy_book all the time; policy_book copies its state "
            "of 100000 policies, about 12 MB, into each answer, and the agents wait",
        who => [
            "policy_book",
            "dashboard",
            "problem_insurance_quotes_hiccup:dashboard/0"
        ],
        what => [
            "get_state",
            "\\bsys:",
            "\\bcop(y|ies|ied|ying)\\b",
            "(large|big|huge) (state|message|reply|answer|term|heap)",
            "system (message|request)",
            "whole state",
            "(sends|receives) .{0,40}(MB|words|large|big)"
        ]
    }.

start() ->
    {ok, _} = gen_server:start({local, policy_book}, ?MODULE, [], []),
    true = register(dashboard, spawn(?MODULE, dashboard, [])),
    _ = [spawn(?MODULE, agent, [N * 1000]) || N <- lists:seq(1, 5)],
    ok.

%% An agent asks for the price of a policy.
agent(N) ->
    Price = gen_server:call(policy_book, {quote, N}, infinity),
    true = Price > 0,
    timer:sleep(10),
    agent(N).

%% The dashboard shows the number of the policies.
dashboard() ->
    Policies = sys:get_state(policy_book, infinity),
    100000 = map_size(Policies),
    timer:sleep(20),
    dashboard().

init([]) ->
    {ok, maps:from_list([{N, {policy, [N, N + 1, N + 2], N rem 90 + 10}} || N <- lists:seq(1, 100000)])}.

handle_call({quote, N}, _, Policies) ->
    #{N := {policy, _, Price}} = Policies,
    {reply, Price, Policies}.

handle_cast(_, Policies) ->
    {noreply, Policies}.
