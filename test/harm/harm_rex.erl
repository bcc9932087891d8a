%% SPDX-License-Identifier: Apache-2.0
-module(harm_rex).
-export([about/0, setup/0, truth/1]).

about() ->
    #{source => "https://github.com/processone/ejabberd/issues/4270", refusal => "rex|rpc",
      condition => "rex, the server of rpc, is stuck, with 100,000 requests in its mailbox"}.

setup() ->
    Rex = whereis(rex),
    true = erlang:suspend_process(Rex),
    [rex ! {stray, N} || N <- lists:seq(1, 100000)],
    {Rex, harm:pinger([harm:counter([]) || _ <- lists:seq(1, 10)])}.

truth({Rex, Pinger}) ->
    [{status, process_info(Rex, status)}, {same, whereis(rex) =:= Rex} | harm:pings(Pinger)].
