%% SPDX-License-Identifier: Apache-2.0
%%
%% A survey boat sends charts of 1 MB to another node, and the tide gauge sends a few bytes to the same node. The link
%% between the nodes is full, as the other one is slow, so that both are suspended in their sends.
-module(problem_seabed_charts_hold_up_the_tide).

-export([about/0, start/0, survey_boat/1, tide_gauge/1]).

about() ->
    #{
        title => "The tide is reported late whenever the survey boat delivers its charts",
        source =>
            "Riak, busy_dist_port monitoring (https://github.com/basho/riak/pull/106), verify_busy_dist_port "
            "(https://github.com/basho/riak_test/issues/577)",
        flags => ["+S", "2:2", "+zdbbl", "64"],
        truth =>
            "survey_boat and tide_gauge are suspended by busy_dist_port in erlang:send/2 to the node quay_node, as "
            "survey_boat fills the distribution buffer of 64 kB with messages of 1 MB and the other node reads slowly",
        who => ["survey_boat", "tide_gauge", "quay_node\\S*", "problem_seabed_charts_hold_up_the_tide:(survey_boat|tide_gauge)/1"],
        what => [
            "busy.?dist", "dist(ribution)?.?(port|buffer|channel|link|connection|entry|queue|controller)", "distribut", "busy.?port", "(remote|other|another) node",
            "zdbbl", "back.?pressure", "(full|busy) (buffer|link|channel|connection|port)", "suspended (in|by|on|for) (a |the |its )?(send|port|link|connection|node)",
            "to (the )?node", "connection (to|with) (the )?(node|other)"
        ]
    }.

start() ->
    _ = [net_alive() || not is_alive()],
    Self = self(),
    %% The peer lives as long as its owner, and ends with this node.
    Owner = spawn(fun() ->
        Args = ["-setcookie", atom_to_list(erlang:get_cookie()), "+S", "1:1"],
        {ok, _, Node} = peer:start_link(#{
            name => "quay_node_" ++ os:getpid(), host => host(), connection => standard_io, args => Args
        }),
        true = net_kernel:connect_node(Node),
        Self ! {self(), Node},
        timer:sleep(infinity)
    end),
    Node = receive {Owner, N} -> N end,
    make_slow(Node),
    register(survey_boat, spawn(?MODULE, survey_boat, [Node])),
    register(tide_gauge, spawn(?MODULE, tide_gauge, [Node])),
    ok.

%% A long name needs a dot, a short name has none.
host() ->
    case net_kernel:longnames() of
        true -> "127.0.0.1";
        false -> tl(lists:dropwhile(fun(C) -> C =/= $@ end, atom_to_list(node())))
    end.

net_alive() ->
    _ = os:cmd("epmd -daemon"),
    {ok, _} = net_kernel:start(list_to_atom("boat_" ++ os:getpid()), #{name_domain => shortnames}).

%% The only scheduler of the other node computes in stretches of about 100 ms, for some minutes.
make_slow(Node) ->
    E = (1 bsl 8192) - 1,
    M = (1 bsl 8191) + 1,
    L = lists:seq(3, 3000),
    _ = spawn(Node, lists, zipwith3, [fun crypto:mod_pow/3, L, [E || _ <- L], [M || _ <- L]]),
    ok.

survey_boat(Node) ->
    {quay_clerk, Node} ! {chart, binary:copy(<<7>>, 1000000)},
    survey_boat(Node).

tide_gauge(Node) ->
    {quay_clerk, Node} ! {tide, erlang:system_time(second)},
    timer:sleep(20),
    tide_gauge(Node).
