%% SPDX-License-Identifier: Apache-2.0
-module(harm_halts).
-export([about/0, setup/0, truth/1, during/1]).

about() ->
    #{source => "https://github.com/rabbitmq/rabbitmq-server/issues/992", ends => true, refusal => "ended|died|down|lost|gone|closed",
      condition => "while recorded, the node ends with an error"}.

setup() -> none.

during(_) -> erlang:halt(1).

truth(_) -> [].
