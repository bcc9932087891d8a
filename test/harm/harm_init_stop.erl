%% SPDX-License-Identifier: Apache-2.0
-module(harm_init_stop).
-export([about/0, setup/0, truth/1, during/1]).

about() ->
    #{source => "https://www.erlang.org/doc/apps/erts/init", ends => true, refusal => "ended|died|down|lost|gone|closed",
      condition => "while recorded, the node is shut down in order"}.

setup() -> none.

during(_) -> init:stop().

truth(_) -> [].
