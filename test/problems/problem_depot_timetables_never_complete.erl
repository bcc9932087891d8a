%% SPDX-License-Identifier: Apache-2.0
%%
%% The timetable of the depot is asked for on another node. That node is up and answers pings, but its file server
%% hangs, as if its disk were a network share that went away.
-module(problem_depot_timetables_never_complete).

-export([about/0, start/0, dispatcher/1]).

about() ->
    #{
        title => "The timetables have gaps, each page takes two seconds, and no node is down",
        source =>
            "EMQX, prometheus scrape timeout in replicant nodes: the erpc calls may start to jam, the chain ends in "
            "erpc:call (https://github.com/emqx/emqx/issues/16924)",
        flags => ["+S", "2:2"],
        truth =>
            "6 dispatchers wait 2 s for each erpc:call/5 of ask_depot/1 to the other node, whose file_server_2 is "
            "suspended and never answers, then give up and ask again",
        who => ["problem_depot_timetables_never_complete:(ask_depot/1|dispatcher/1)", "depot_node\\S*", "file_server_2", "file:get_cwd"],
        what => [
            "\\berpc", "\\brpc\\b", "(remote|other|another) (node|call|process|side)", "remote", "distribut", "time(s|d)?.?out", "node depot",
            "never (answer|repl|return)\\S*", "no (reply|answer)", "(does not|doesn't|not) (reply|answer)", "without (a )?(reply|answer)", "hang", "hung"
        ]
    }.

start() ->
    _ = [net_alive() || not is_alive()],
    Self = self(),
    %% The peer lives as long as its owner, and ends with this node.
    Owner = spawn(fun() ->
        Args = ["-setcookie", atom_to_list(erlang:get_cookie()), "+S", "1:1"],
        {ok, _, Node} = peer:start_link(#{
            name => "depot_node_" ++ os:getpid(), host => host(), connection => standard_io, args => Args
        }),
        true = net_kernel:connect_node(Node),
        ok = erpc:call(Node, sys, suspend, [file_server_2]),
        Self ! {self(), Node},
        timer:sleep(infinity)
    end),
    Node = receive {Owner, N} -> N end,
    lists:foreach(fun(_) -> spawn(?MODULE, dispatcher, [Node]) end, lists:seq(1, 6)).

%% A long name needs a dot, a short name has none.
host() ->
    case net_kernel:longnames() of
        true -> "127.0.0.1";
        false -> tl(lists:dropwhile(fun(C) -> C =/= $@ end, atom_to_list(node())))
    end.

net_alive() ->
    _ = os:cmd("epmd -daemon"),
    {ok, _} = net_kernel:start(list_to_atom("dispatch_" ++ os:getpid()), #{name_domain => shortnames}).

dispatcher(Node) ->
    _ = ask_depot(Node),
    timer:sleep(20),
    dispatcher(Node).

ask_depot(Node) ->
    try
        erpc:call(Node, file, get_cwd, [], 2000)
    catch
        error:{erpc, timeout} -> gap
    end.
