%% SPDX-License-Identifier: Apache-2.0
-module(harm_stuck_code_server).
-export([about/0, setup/0, truth/1]).

about() ->
    #{source => "https://github.com/erlang/otp/issues/8300", refusal => "code_server",
      condition => "the process code_server of the node is stuck"}.

setup() ->
    true = erlang:suspend_process(whereis(code_server)),
    harm:pinger([harm:counter([]) || _ <- lists:seq(1, 10)]).

truth(Pinger) -> [{status, process_info(whereis(code_server), status)} | harm:pings(Pinger)].
