%% SPDX-License-Identifier: Apache-2.0
-module(harm_client_hangs).
-export([about/0, setup/0, truth/1]).

about() ->
    #{source => "https://www.erlang.org/doc/apps/kernel/kernel_app", tool => [hang], log => "not responding|Removing|REPORT|^$",
      args => ["-kernel", "net_ticktime", "8"],
      condition => "the command is stopped by a signal, as if the network failed; the node notices after 8 s"}.

setup() -> harm:pinger([harm:counter([]) || _ <- lists:seq(1, 10)]).

truth(Pinger) -> harm:pings(Pinger).
