%% SPDX-License-Identifier: Apache-2.0
-module(harm_stopped_while).
-export([about/0, setup/0, truth/1, during/1]).

about() ->
    #{source => "https://github.com/leo-project/leofs/issues/817", stalls => true,
      condition => "while recorded, the node is stopped by a signal for 10 s, as when its machine is migrated"}.

setup() -> harm:counter([]).

during(_) ->
    Pid = os:getpid(),
    os:cmd("(kill -STOP " ++ Pid ++ "; sleep 10; kill -CONT " ++ Pid ++ ") >/dev/null 2>&1 &").

truth(Pid) -> [{count, harm:count(Pid)}].
