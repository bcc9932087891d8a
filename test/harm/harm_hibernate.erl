%% SPDX-License-Identifier: Apache-2.0
-module(harm_hibernate).
-export([about/0, setup/0, truth/1, during/1, awake/1]).

about() ->
    #{source => "https://github.com/erlang/otp/issues/10651", tool => [attach, attach],
      condition => "200 processes hibernate with heaps of up to 1 MB; half of them get a message while recorded"}.

setup() ->
    Pids = [spawn_link(fun() -> awake(lists:seq(1, N * 300)) end) || N <- lists:seq(1, 200)],
    harm:wait_for(fun() -> lists:all(fun hibernates/1, Pids) end),
    Pids.

hibernates(P) -> process_info(P, current_function) =:= {current_function, {erlang, hibernate, 3}}.

awake(Data) ->
    receive
        {ping, From} -> From ! {pong, self(), length(Data)}
    after 0 -> ok
    end,
    erlang:hibernate(?MODULE, awake, [Data]).

during(Pids) -> ping([P || {N, P} <- lists:zip(lists:seq(1, 200), Pids), N rem 2 =:= 0]).

ping(Pids) ->
    [P ! {ping, self()} || P <- Pids],
    length([P || P <- Pids, receive {pong, P, _} -> true after 5000 -> false end]).

truth(Pids) ->
    Asleep = length([P || P <- Pids, hibernates(P)]),
    Heaps = erlang:phash2([process_info(P, total_heap_size) || P <- Pids]),
    Answered = ping(Pids),
    harm:wait_for(fun() -> lists:all(fun hibernates/1, Pids) end),
    [{asleep, Asleep}, {heaps, Heaps}, {answered, Answered}].
