%% SPDX-License-Identifier: Apache-2.0
-module(harm_cpu_max).
-export([about/0, setup/0, truth/1]).

about() ->
    #{source => "https://github.com/esl/amoc/pull/141", refusal => "busy|priority|overload|no answer|not answer|not respond", stalls => true,
      condition => "processes of priority max use all schedulers"}.

setup() ->
    [spawn_opt(fun() -> harm:burn(0) end, [link, {priority, max}]) || _ <- lists:seq(1, 2 * erlang:system_info(schedulers))].

truth(Burners) -> [{burning, length([P || P <- Burners, is_process_alive(P)])}].
