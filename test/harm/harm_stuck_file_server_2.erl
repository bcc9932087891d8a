%% SPDX-License-Identifier: Apache-2.0
-module(harm_stuck_file_server_2).
-export([about/0, setup/0, truth/1]).

about() ->
    #{source => "https://github.com/ninenines/cowboy/issues/704", refusal => "file_server_2",
      condition => "the process file_server_2 of the node is stuck"}.

setup() ->
    true = erlang:suspend_process(whereis(file_server_2)),
    harm:pinger([harm:counter([]) || _ <- lists:seq(1, 10)]).

truth(Pinger) -> [{status, process_info(whereis(file_server_2), status)} | harm:pings(Pinger)].
