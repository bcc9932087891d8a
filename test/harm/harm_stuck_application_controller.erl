%% SPDX-License-Identifier: Apache-2.0
-module(harm_stuck_application_controller).
-export([about/0, setup/0, truth/1]).

about() ->
    #{source => "https://www.erlang.org/doc/apps/kernel/application", refusal => "application_controller",
      condition => "the process application_controller of the node is stuck"}.

setup() ->
    true = erlang:suspend_process(whereis(application_controller)),
    harm:pinger([harm:counter([]) || _ <- lists:seq(1, 10)]).

truth(Pinger) -> [{status, process_info(whereis(application_controller), status)} | harm:pings(Pinger)].
