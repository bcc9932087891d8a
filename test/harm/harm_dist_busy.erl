%% SPDX-License-Identifier: Apache-2.0
-module(harm_dist_busy).
-export([about/0, setup/0, truth/1]).

about() ->
    #{source => "https://github.com/rabbitmq/aten/issues/2", args => ["+zdbbl", "1"], log => "not responding|Removing|^$",
      condition => "ten processes are suspended because the connection to a stopped node is busy"}.

setup() ->
    [Name, Host] = string:split(atom_to_list(node()), "@"),
    Erl = filename:join([code:root_dir(), "bin", "erl"]),
    Other = list_to_atom(Name ++ "peer@" ++ Host),
    open_port({spawn_executable, Erl}, [{args, ["-noinput", "-hidden", "-sname", Name ++ "peer", "-setcookie", "harm", "-eval",
        "register(sink, spawn(fun Sink() -> receive _ -> Sink() end end)), erlang:monitor_node('" ++ atom_to_list(node()) ++ "', true), receive {nodedown, _} -> halt() end"]}]),
    harm:wait_for(fun() -> net_kernel:connect_node(Other) =:= true andalso rpc:call(Other, erlang, whereis, [sink]) =/= undefined end),
    Pid = rpc:call(Other, os, getpid, []),
    os:cmd("kill -STOP " ++ Pid),
    os:cmd("(tail --pid=" ++ os:getpid() ++ " -f /dev/null; kill -KILL " ++ Pid ++ ") >/dev/null 2>&1 &"),
    Senders = [spawn(fun() -> send({sink, Other}, binary:copy(<<0>>, 100000)) end) || _ <- lists:seq(1, 10)],
    harm:wait_for(fun() -> suspended(Senders) =:= 10 end),
    {Senders, harm:pinger([harm:counter([]) || _ <- lists:seq(1, 10)])}.

send(To, Data) ->
    To ! Data,
    send(To, Data).

suspended(Pids) -> length([P || P <- Pids, process_info(P, status) =:= {status, suspended}]).

truth({Senders, Pinger}) -> [{suspended, suspended(Senders)} | harm:pings(Pinger)].
