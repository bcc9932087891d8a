%% SPDX-License-Identifier: Apache-2.0
-module(harm_atom_limit).
-export([about/0, setup/0, truth/1]).

about() ->
    #{source => "https://github.com/processone/ejabberd/issues/2977", args => ["+t", "20000"], refusal => "atom", remedy => "\\+t|limit|restart",
      condition => "200 more atoms, and the node has as many as +t allows, when it ends with a crash dump"}.

setup() ->
    Free = erlang:system_info(atom_limit) - erlang:system_info(atom_count) - 200,
    _ = [list_to_atom("harm_atom_" ++ integer_to_list(N)) || N <- lists:seq(1, Free)],
    none.

truth(_) -> [].
