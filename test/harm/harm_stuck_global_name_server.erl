%% SPDX-License-Identifier: Apache-2.0
-module(harm_stuck_global_name_server).
-export([about/0, setup/0, truth/1]).

about() ->
    #{source => "https://github.com/erlang/otp/issues/6470", refusal => "global_name_server",
      condition => "the process global_name_server of the node is stuck"}.

setup() ->
    true = erlang:suspend_process(whereis(global_name_server)),
    harm:pinger([harm:counter([]) || _ <- lists:seq(1, 10)]).

truth(Pinger) -> [{status, process_info(whereis(global_name_server), status)} | harm:pings(Pinger)].
