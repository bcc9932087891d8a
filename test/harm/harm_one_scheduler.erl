%% SPDX-License-Identifier: Apache-2.0
-module(harm_one_scheduler).
-export([about/0, setup/0, truth/1]).

about() ->
    #{source => "https://github.com/erlang/otp/issues/3067", args => ["+S", "1", "+SDio", "1"],
      condition => "a node with one scheduler of each kind, which one process keeps busy"}.

setup() ->
    spawn_link(fun() -> harm:burn(0) end),
    harm:pinger([harm:counter([]) || _ <- lists:seq(1, 10)]).

truth(Pinger) -> harm:pings(Pinger).
