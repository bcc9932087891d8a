%% SPDX-License-Identifier: Apache-2.0
-module(harm_chaos).
-export([about/0, setup/0, truth/1, during/1]).

about() ->
    #{tool => [attach, attach], source => "https://github.com/dLuna/chaos_monkey", refusal => "end|died|kill|stop|gone",
      log => ".", condition => "while recorded, a chaos monkey kills every process that was not there before"}.

setup() -> sets:from_list(processes()).

during(Known) -> [exit(P, kill) || P <- processes(), P =/= self(), not sets:is_element(P, Known)].

truth(_) -> [].
