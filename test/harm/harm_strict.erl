%% SPDX-License-Identifier: Apache-2.0
-module(harm_strict).
-export([about/0, setup/0, truth/1]).

about() ->
    #{source => "https://github.com/leo-project/leofs/issues/250",
      condition => "100 processes that count messages that they did not ask for, some of them group leaders, monitored and linked"}.

setup() ->
    Pids = [harm:counter([{priority, P}, {message_queue_data, Q}]) || P <- [low, normal, high], Q <- [on_heap, off_heap], _ <- lists:seq(1, 17)],
    [group_leader(hd(Pids), P) || P <- tl(Pids)],
    Pids.

truth(Pids) ->
    [{strays, lists:sum([harm:count(P) || P <- Pids])}, {group_leaders, lists:usort([process_info(P, group_leader) || P <- tl(Pids)]) =:= [{group_leader, hd(Pids)}]},
     {dictionaries, lists:usort([process_info(P, [dictionary, links, monitors, monitored_by, trap_exit, priority, error_handler]) || P <- Pids]) =:= usual(Pids)}].

usual(Pids) ->
    lists:usort([[{dictionary, []}, {links, []}, {monitors, []}, {monitored_by, []}, {trap_exit, false}, {priority, element(2, process_info(P, priority))},
        {error_handler, error_handler}] || P <- Pids]).
