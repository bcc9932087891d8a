%% SPDX-License-Identifier: Apache-2.0
-module(harm_embedded).
-export([about/0, setup/0, truth/1]).

about() ->
    #{source => "https://www.erlang.org/doc/system/system_principles", args => ["-mode", "embedded", "-hidden"], tool => [attach, keep],
      condition => "a hidden node in embedded mode: no module but the tool's own may be loaded"}.

setup() -> none.

truth(_) -> [{loaded, length(erlang:loaded())}].
