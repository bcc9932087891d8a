%% SPDX-License-Identifier: Apache-2.0
-module(harm_killed).
-export([about/0, setup/0, truth/1, during/1]).

about() ->
    #{source => "https://www.erlang-in-anger.com/", ends => true, refusal => "ended|died|down|lost|gone|closed",
      condition => "while recorded, the node is killed by the kernel"}.

setup() -> none.

during(_) -> os:cmd("kill -KILL " ++ os:getpid()).

truth(_) -> [].
