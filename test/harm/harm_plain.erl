%% SPDX-License-Identifier: Apache-2.0
%% Nothing special: whatever fails here is not due to a condition.
-module(harm_plain).
-export([about/0, setup/0, truth/1]).

about() ->
    #{source => "-", condition => "a quiet node, and all ways to use the command",
      tool => [attach, pid, interrupt, kill, two, keep, top, live]}.

setup() -> harm:pinger([harm:counter([]) || _ <- lists:seq(1, 10)]).

truth(Pinger) -> harm:pings(Pinger).
