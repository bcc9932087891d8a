%% SPDX-License-Identifier: Apache-2.0
-module(harm_logger).
-export([about/0, setup/0, truth/1]).

about() ->
    #{source => "https://www.erlang.org/doc/apps/kernel/logger_chapter", log => "flood|[hH]andler|REPORT|^$",
      condition => "five processes log as fast as they can, the handler drops and flushes"}.

setup() ->
    Config = logger:get_handler_config(),
    [spawn_link(fun() -> flood(1) end) || _ <- lists:seq(1, 5)],
    {Config, harm:pinger([harm:counter([]) || _ <- lists:seq(1, 10)])}.

flood(N) ->
    logger:error("flood ~w", [N]),
    flood(N + 1).

truth({Config, Pinger}) -> [{config, logger:get_handler_config() =:= Config} | harm:pings(Pinger)].
