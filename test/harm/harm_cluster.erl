%% SPDX-License-Identifier: Apache-2.0
-module(harm_cluster).
-export([about/0, setup/0, truth/1]).

about() ->
    #{source => "https://github.com/erlang/otp/issues/6470", log => "^$",
      condition => "a node of a cluster of three, which counts nodes that come and go, visible or hidden, with net_kernel"}.

setup() ->
    Counter = harm:counter([link]),
    Nodes = [start(N) || N <- ["a", "b"]],
    [true = net_kernel:connect_node(N) || N <- Nodes],
    harm:wait_for(fun() -> length([N || N <- Nodes, lists:sort(rpc:call(N, erlang, nodes, [])) =:= lists:sort([node() | Nodes] -- [N])]) =:= 2 end),
    spawn_link(fun() -> ok = net_kernel:monitor_nodes(true), watch(Counter) end),
    {Nodes, Counter}.

watch(Counter) ->
    receive {What, _} -> Counter ! What end,
    watch(Counter).

start(Suffix) ->
    [Name, Host] = string:split(atom_to_list(node()), "@"),
    Other = Name ++ Suffix,
    Erl = filename:join([code:root_dir(), "bin", "erl"]),
    open_port({spawn_executable, Erl}, [{args, ["-noinput", "-sname", Other, "-setcookie", "harm", "-eval",
        "spawn(fun Up() -> timer:sleep(1000), case net_kernel:connect_node('" ++ atom_to_list(node()) ++ "') of true -> Up(); _ -> halt() end end)"]}]),
    Node = list_to_atom(Other ++ "@" ++ Host),
    harm:wait_for(fun() -> net_kernel:connect_node(Node) end),
    Node.

truth({Nodes, Counter}) ->
    [{members, [lists:sort(rpc:call(N, erlang, nodes, [])) || N <- Nodes]}, {visible, lists:sort(nodes()) =:= lists:sort(Nodes)},
     {up_or_down, harm:count(Counter)}].
