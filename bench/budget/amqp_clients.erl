%% SPDX-License-Identifier: Apache-2.0
%%
%% Clients of RabbitMQ that publish and consume (load.py), each a Python program behind a port.
-module(amqp_clients).

-export([start/2, load/2, counts/1, stop/1]).

-define(CLIENTS, 2).

%% Returns when all are connected to the port number Amqp.
-spec start(file:filename(), inet:port_number()) -> [port()].
start(Script, Amqp) ->
    Clients = [open_port({spawn_executable, "/usr/bin/python3"},
                         [{args, [Script, integer_to_list(Amqp)]}, {line, 1000}, exit_status, use_stdio, hide])
               || _ <- lists:seq(1, ?CLIENTS)],
    ["ready" = line(C) || C <- Clients],
    Clients.

%% They begin with a load for some seconds.
-spec load([port()], number()) -> ok.
load(Clients, Seconds) ->
    lists:foreach(fun(C) -> port_command(C, io_lib:format("~p\n", [Seconds])) end, Clients).

%% Waits for the end of the load; how many messages came back.
-spec counts([port()]) -> non_neg_integer().
counts(Clients) ->
    lists:sum([list_to_integer(line(C)) || C <- Clients]).

-spec stop([port()]) -> ok.
stop(Clients) ->
    lists:foreach(fun erlang:port_close/1, Clients).

line(Port) ->
    receive
        {Port, {data, {eol, Line}}} -> Line;
        {Port, {exit_status, Status}} -> error({client, Status})
    end.
