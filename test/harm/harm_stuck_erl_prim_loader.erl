%% SPDX-License-Identifier: Apache-2.0
-module(harm_stuck_erl_prim_loader).
-export([about/0, setup/0, truth/1]).

about() ->
    #{source => "https://github.com/erlang/otp/issues/4223", refusal => "erl_prim_loader",
      condition => "the process erl_prim_loader of the node is stuck"}.

setup() ->
    true = erlang:suspend_process(whereis(erl_prim_loader)),
    harm:pinger([harm:counter([]) || _ <- lists:seq(1, 10)]).

truth(Pinger) -> [{status, process_info(whereis(erl_prim_loader), status)} | harm:pings(Pinger)].
