%% SPDX-License-Identifier: Apache-2.0
-module(harm_suspended).
-export([about/0, setup/0, truth/1]).

about() ->
    #{source => "https://github.com/erlang/otp/issues/4390",
      condition => "100 processes are suspended, as a debugger or a busy port does"}.

setup() ->
    Pids = [harm:counter([link]) || _ <- lists:seq(1, 100)],
    [true = erlang:suspend_process(P) || P <- Pids],
    [P ! message || P <- Pids],
    Pids.

%% They are still suspended, and go on where they were.
truth(Pids) ->
    Suspended = length([P || P <- Pids, process_info(P, status) =:= {status, suspended}]),
    [erlang:resume_process(P) || P <- Pids],
    Counts = lists:usort([harm:count(P) || P <- Pids]),
    [erlang:suspend_process(P) || P <- Pids],
    [{suspended, Suspended}, {counts, Counts}].
