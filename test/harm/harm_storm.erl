%% SPDX-License-Identifier: Apache-2.0
-module(harm_storm).
-export([about/0, setup/0, truth/1]).

about() ->
    #{source => "https://github.com/processone/ejabberd/issues/1834",
      condition => "processes start and die all the time; a process that traps exits is linked to all of them"}.

setup() ->
    Counts = counters:new(3, []),
    spawn_link(fun() -> process_flag(trap_exit, true), storm(Counts) end),
    Counts.

storm(Counts) ->
    Pids = [spawn_link(fun() -> exit(N) end) || N <- lists:seq(1, 200)],
    [receive {'EXIT', P, _} -> ok end || P <- Pids],
    receive Stray -> counters:add(Counts, 2, 1), put(stray, Stray) after 0 -> ok end,
    counters:add(Counts, 1, 200),
    storm(Counts).

truth(Counts) ->
    N = counters:get(Counts, 1),
    Moves = harm:within(5000, fun() -> moved(Counts, N) end),
    [{moves, Moves}, {strays, counters:get(Counts, 2)}, {info_died, N}].

moved(Counts, N) ->
    case counters:get(Counts, 1) > N of
        true -> true;
        false -> receive after 20 -> moved(Counts, N) end
    end.
