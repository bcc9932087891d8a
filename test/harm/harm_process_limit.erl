%% SPDX-License-Identifier: Apache-2.0
-module(harm_process_limit).
-export([about/0, setup/0, truth/1]).

about() ->
    #{source => "https://github.com/apache/couchdb/issues/5544", args => ["+P", "1024"], refusal => "too many processes|process (limit|table)|no more processes", remedy => "\\+P|limit|free|end",
      condition => "eight more processes, and the node has as many as +P allows", log => "^$"}.

setup() ->
    Free = erlang:system_info(process_limit) - erlang:system_info(process_count) - 8,
    Pids = [harm:counter([]) || _ <- lists:seq(1, Free)],
    {Pids, harm:pinger(lists:sublist(Pids, 10))}.

truth({Pids, Pinger}) ->
    [{alive, length([P || P <- Pids, is_process_alive(P)]) =:= length(Pids)},
     {kernel, [is_pid(whereis(N)) || N <- [net_kernel, rex, code_server, kernel_sup, application_controller]]} | harm:pings(Pinger)].
