%% SPDX-License-Identifier: Apache-2.0
-module(harm_stopped).
-export([about/0, setup/0, truth/1]).

about() ->
    #{source => "https://github.com/erlang/otp/issues/3178", refusal => "not (respond|answer)|no answer|stopped|stuck|hang", stalls => true, tool => [stopped],
      condition => "the node is stopped by a signal before the command starts"}.

setup() -> none.

truth(_) -> [].
