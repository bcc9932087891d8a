%% SPDX-License-Identifier: Apache-2.0
-module(harm_restarts).
-export([about/0, setup/0, truth/1, during/1]).

about() ->
    #{source => "https://www.erlang.org/doc/apps/erts/init", ends => again, refusal => "ended|died|down|lost|gone|closed|restart",
      condition => "while recorded, the node starts anew in the same operating system process (init:restart/0)"}.

setup() -> none.

during(_) -> init:restart().

truth(_) -> [].
