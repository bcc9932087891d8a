%% SPDX-License-Identifier: Apache-2.0
-module(harm_aborts).
-export([about/0, setup/0, truth/1, during/1]).

about() ->
    #{source => "https://github.com/emqx/emqx/issues/12369", ends => true, args => ["+t", "100000"], refusal => "ended|died|down|lost|gone|closed",
      condition => "while recorded, the node runs out of atoms"}.

setup() -> none.

during(_) -> _ = [list_to_atom(integer_to_list(N)) || N <- lists:seq(1, 2000000)].

truth(_) -> [].
