%% SPDX-License-Identifier: Apache-2.0
-module(harm_stuck_user).
-export([about/0, setup/0, truth/1]).

about() ->
    #{source => "https://github.com/erlang/otp/issues/3753", refusal => "user",
      condition => "the process user of the node is stuck"}.

setup() ->
    true = erlang:suspend_process(whereis(user)),
    harm:pinger([harm:counter([]) || _ <- lists:seq(1, 10)]).

truth(Pinger) -> [{status, process_info(whereis(user), status)} | harm:pings(Pinger)].
