%% SPDX-License-Identifier: Apache-2.0
-module(harm_linked).
-export([about/0, setup/0, truth/1, during/1]).

about() ->
    #{source => "https://github.com/ankhers/havoc/issues/18", refusal => "end|died|kill|stop|gone",
      log => ".", condition => "while recorded, a process links to every new process, and then fails"}.

setup() -> sets:from_list(processes()).

during(Known) ->
    {_, Ref} = spawn_monitor(fun() ->
        [catch link(P) || P <- processes(), P =/= self(), not sets:is_element(P, Known)],
        exit(failed)
    end),
    receive {'DOWN', Ref, _, _, _} -> ok end.

truth(_) -> [].
