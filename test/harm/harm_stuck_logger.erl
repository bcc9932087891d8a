%% SPDX-License-Identifier: Apache-2.0
-module(harm_stuck_logger).
-export([about/0, setup/0, truth/1]).

about() ->
    #{source => "https://www.erlang.org/doc/apps/kernel/logger_chapter", refusal => "logger",
      condition => "the process logger of the node is stuck"}.

setup() ->
    true = erlang:suspend_process(whereis(logger)),
    harm:pinger([harm:counter([]) || _ <- lists:seq(1, 10)]).

truth(Pinger) -> [{status, process_info(whereis(logger), status)} | harm:pings(Pinger)].
