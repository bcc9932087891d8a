%% SPDX-License-Identifier: Apache-2.0
%%
%% Embassies ask with rpc:block_call/4, which runs each function in the node's only RPC server. A digest takes 600 ms.
-module(problem_embassy_cables_stuck_in_the_cipher_room).

-export([about/0, start/0, digest/0, short_cable/1, archivist/0, embassy/1]).

about() ->
    #{
        title => "Short cables to the ministry take half a second or more, to decipher one takes no time",
        source =>
            "rpc:block_call/4, blocks the RPC server until the request has been handled "
            "(https://www.erlang.org/doc/man/rpc.html#block_call-4); gen_rpc, Block call (https://github.com/priestjim/gen_rpc/pull/26); "
            "Erlang/OTP, rex as a bottleneck (https://github.com/erlang/otp/pull/2541)",
        flags => ["+S", "2:2"],
        truth =>
            "rex executes the functions of rpc:block_call/4 itself, one after another; digest/0, called by archivist/0, keeps it waiting for "
            "600 ms at a time, and the embassies' calls of short_cable/1 queue for it",
        who => ["\\brex\\b", "problem_embassy_cables_stuck_in_the_cipher_room:(digest/0|archivist/0)"],
        what => [
            "block_call", "digest", "slee", "timer:", "600 ms", "one (call |request )?at a time", "(waits|blocked|busy) (in|for)", "queue", "serial", "rpc"
        ]
    }.

start() ->
    true = register(archivist, spawn(?MODULE, archivist, [])),
    lists:foreach(fun(N) -> spawn(?MODULE, embassy, [N]) end, lists:seq(1, 8)).

digest() ->
    timer:sleep(600),
    digest.

short_cable(N) ->
    {received, N}.

archivist() ->
    digest = rpc:block_call(node(), ?MODULE, digest, []),
    timer:sleep(50),
    archivist().

embassy(N) ->
    {received, N} = rpc:block_call(node(), ?MODULE, short_cable, [N]),
    timer:sleep(20),
    embassy(N).
