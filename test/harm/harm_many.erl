%% SPDX-License-Identifier: Apache-2.0
-module(harm_many).
-export([about/0, setup/0, truth/1]).

about() ->
    #{source => "https://github.com/emqx/emqx/issues/1550", args => ["+P", "1000000"],
      condition => "200,000 processes"}.

setup() ->
    Pids = [harm:counter([]) || _ <- lists:seq(1, 200000)],
    {length(Pids), harm:pinger(lists:sublist(Pids, 10))}.

truth({N, Pinger}) -> [{processes, erlang:system_info(process_count) div 1000 =:= N div 1000} | harm:pings(Pinger)].
