%% SPDX-License-Identifier: Apache-2.0
-module(harm_mailbox).
-export([about/0, setup/0, truth/1]).

about() ->
    #{source => "https://github.com/erlang/otp/pull/1745",
      condition => "a server that receives selectively has 1,000,000 messages, another 300,000 off heap"}.

setup() ->
    Servers = [spawn_opt(fun selective/0, [link, {message_queue_data, Where}]) || Where <- [on_heap, off_heap]],
    [P ! {job, N} || {P, Many} <- lists:zip(Servers, [1000000, 300000]), N <- lists:seq(1, Many)],
    {Servers, harm:pinger(Servers)}.

selective() ->
    receive {ping, From} -> From ! {pong, self()} end,
    selective().

truth({Servers, Pinger}) ->
    [{queues, [element(2, process_info(P, message_queue_len)) div 1000 || P <- Servers]} | harm:pings(Pinger)].
