%% SPDX-License-Identifier: Apache-2.0
-module(harm_cookie).
-export([about/0, setup/0, truth/1]).

about() ->
    #{source => "https://www.erlang.org/doc/system/distributed", refusal => "cookie", log => "Connection attempt|REPORT|^$",
      condition => "the cookie of the node has been changed since it started"}.

setup() ->
    erlang:set_cookie(node(), another),
    none.

truth(_) -> [{cookie, erlang:get_cookie()}].
