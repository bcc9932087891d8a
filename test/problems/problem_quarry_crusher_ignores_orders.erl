%% SPDX-License-Identifier: Apache-2.0
%%
%% The crusher is driven through an external program that doesn't read its standard input. When
%% the pipe and the port's queue are full, the process that owns the port is suspended.
-module(problem_quarry_crusher_ignores_orders).

-export([about/0, start/0, link_loop/1, foreman/0]).

about() ->
    #{
        title => "The quarry's crusher takes no more orders a moment after the node's start",
        source =>
            "erlang:port_command/2 (suspends the caller when the port is busy), {busy_limits_port, _} of open_port/2, "
            "Erlang in Anger 5.1.2, 'Suspended Ports'",
        flags => ["+S", "2:2"],
        truth =>
            "crusher_link is suspended without end in port_command/2, since the external program (sleep) "
            "of its port doesn't read, the port is busy; the foremen wait for an answer",
        who => [
            "crusher_link",
            "problem_quarry_crusher_ignores_orders:(link_loop/1|order/2)",
            "sleep 180"
        ],
        what => [
            "busy.?port",
            "port.{0,40}(busy|full|block|stuck|suspend)",
            "(busy|full|blocked on|suspended (by|on|for)).{0,20}port",
            "port_command",
            "(program|command|pipe|reader|other (side|end)|external).{0,40}(not|n.t|never|stopped).{0,12}(read|drain)",
            "(program|command|pipe|reader|other (side|end)|external).{0,40}(not|n.t|never|stopped).{0,12}(consum|tak)",
            "pipe.{0,20}full",
            "back.?pressure",
            "(sends?|sending|writes?|writing).{0,20}(to )?(a |the |its )?(port|external|program|pipe)"
        ]
    }.

start() ->
    true = register(crusher_link, spawn(fun init/0)),
    lists:foreach(fun(_) -> spawn(?MODULE, foreman, []) end, lists:seq(1, 3)).

%% Three foremen order stones of a certain size.
foreman() ->
    Ref = make_ref(),
    crusher_link ! {crush, self(), Ref, binary:copy(<<"granite 32 ">>, 400)},
    receive
        {Ref, done} -> ok
    end,
    timer:sleep(5),
    foreman().

init() ->
    %% Stands for a driver program that hangs.
    Port = open_port({spawn, "sleep 180"}, [binary, stream]),
    link_loop(Port).

link_loop(Port) ->
    receive
        {crush, From, Ref, Order} ->
            true = order(Port, Order),
            From ! {Ref, done}
    end,
    link_loop(Port).

order(Port, Order) ->
    erlang:port_command(Port, Order).
