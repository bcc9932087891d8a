%% SPDX-License-Identifier: Apache-2.0
-module(harm_net_kernel).
-export([about/0, setup/0, truth/1]).

about() ->
    #{source => "https://github.com/erlang/otp/issues/3178", refusal => "net_kernel|not (respond|answer)|no answer|stuck|hang",
      condition => "net_kernel is stuck: connections to the node are accepted, but nothing happens"}.

setup() ->
    true = erlang:suspend_process(whereis(net_kernel)),
    harm:pinger([harm:counter([]) || _ <- lists:seq(1, 10)]).

truth(Pinger) -> [{status, process_info(whereis(net_kernel), status)} | harm:pings(Pinger)].
