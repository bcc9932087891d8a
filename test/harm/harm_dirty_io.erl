%% SPDX-License-Identifier: Apache-2.0
-module(harm_dirty_io).
-export([about/0, setup/0, truth/1]).

about() ->
    #{source => "https://github.com/erlang/otp/issues/4798", refusal => "dirty|blocked|stuck|file system",
      args => ["+SDio", "10"],
      condition => "all dirty I/O schedulers wait for a FIFO that nobody writes to"}.

setup() ->
    Fifo = os:getenv("HARM_DIR") ++ "/fifo",
    os:cmd("mkfifo " ++ Fifo),
    Done = counters:new(1, []),
    [spawn_link(fun() -> {ok, _} = prim_file:read_file(Fifo), counters:add(Done, 1, 1) end) || _ <- lists:seq(1, 12)],
    harm:wait_for(fun() -> lists:sum(erlang:statistics(run_queue_lengths_all)) >= 2 end),
    {Done, harm:pinger([harm:counter([]) || _ <- lists:seq(1, 10)])}.

truth({Done, Pinger}) -> [{readers_done, counters:get(Done, 1)} | harm:pings(Pinger)].
