%% SPDX-License-Identifier: Apache-2.0
%%
%% For suites whose cases each run in a node of their own, with two schedulers. The node has the
%% code of kymo and of the suites.
-module(kymo_peer).

-export([start/1, stop/1, call/4, counts_memory/0]).

%% Adds the node to the configuration of the case.
start(Config) ->
    {ok, Peer, _} = peer:start(#{
        connection => standard_io,
        wait_boot => 60000,
        env => proplists:get_value(peer_env, Config, []),
        exec => filename:join([code:root_dir(), "bin", "erl"]),
        args => proplists:get_value(peer_args, Config, []) ++
            ["+S", "2:2", "-pa", filename:dirname(code:which(kymo)), filename:dirname(code:which(?MODULE))]
    }),
    [{peer, Peer} | Config].

stop(Config) -> peer:stop(peer(Config)).

%% Calls a function in the node, in a process that lives until the function returns.
call(Config, Module, Function, Args) -> peer:call(peer(Config), Module, Function, Args, 120000).

peer(Config) -> proplists:get_value(peer, Config).

%% The runtime does not count memory if its allocators are switched off, as with the address sanitizer.
counts_memory() ->
    try is_integer(erlang:memory(total))
    catch error:notsup -> false
    end.
