%% SPDX-License-Identifier: Apache-2.0
%%
%% `kymo attach' and the nodes of kymo_hung_node, for the suites that hinder such nodes.
-module(kymo_hung_attach).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-export([prepare/2, clean/1, node/2, node/4, node_erl/0, erl/0, cookie/0, call/3, out/1]).
-export([run/1, attach/3, records/2, start/3, interrupt/1, warm/1, look/2, same/3]).

%% The folders of a case.
prepare(Case, Config) ->
    Dir = filename:join(?config(priv_dir, Config), Case),
    Tmp = filename:join(Dir, "tmp"),
    ok = filelib:ensure_dir(filename:join(Tmp, "x")),
    [{dir, Dir}, {tmp, Tmp} | Config].

%% A case that fails leaves its node.
clean(Config) ->
    _ = [kymo_hung_node:kill(filename:dirname(File)) || File <- filelib:wildcard(filename:join(?config(dir, Config), "node-*/pid"))],
    ok.

node(Config, Args) -> node(node_erl(), Config, [], Args).

%% Started by another program, with arguments of its own before those of the node.
node(Program, Config, Before, Args) ->
    kymo_hung_node:start(Program, Args, #{
        cookie => cookie(),
        tmp => ?config(tmp, Config),
        before => Before,
        dir => filename:join(?config(dir, Config), "node-" ++ integer_to_list(erlang:unique_integer([positive])))
    }).

%% The runtime of the node, which may be another one than that of the command.
node_erl() -> os:getenv("KYMO_OTHER_ERL", erl()).

erl() -> filename:join([code:root_dir(), "bin", "erl"]).

cookie() -> "kymo-hung-test".

call(Node, Function, Args) -> kymo_hung_node:call(Node, kymo_hung_node, Function, Args).

out(Config) -> filename:join(?config(dir, Config), "rec").

run(Args) -> kymo_cli:run(["attach" | with_cookie(Args)]).

with_cookie(Args) -> ["--erl", erl(), "--cookie", cookie() | Args].

attach(Args, Node, Config) ->
    Begun = erlang:monotonic_time(millisecond),
    {Status, Text} = run(to(Args, Node, Config)),
    ct:log("~b ms: ~b~n~ts", [erlang:monotonic_time(millisecond) - Begun, Status, Text]),
    {Status, Text}.

to(Args, Node, Config) -> Args ++ ["-o", out(Config), kymo_hung_node:name(Node)].

%% Attaches and records events.
records(Node, Config) ->
    {Status, Text} = attach(["--for", "200ms"], Node, Config),
    ?assertEqual({0, Text}, {Status, Text}),
    {0, Print} = kymo_cli:run(["print", "-q", "-n", "1", out(Config)]),
    ?assertNotEqual(<<>>, Print),
    "" = os:cmd("rm -r " ++ out(Config)),
    ok.

start(Args, Node, Config) ->
    open_port(
        {spawn_executable, kymo:cli_path()},
        [{args, ["attach" | with_cookie(to(Args, Node, Config))]}, exit_status, stderr_to_stdout, binary, use_stdio, hide]
    ).

interrupt(Port) ->
    {os_pid, Pid} = erlang:port_info(Port, os_pid),
    "" = os:cmd("kill -INT " ++ integer_to_list(Pid)).

%% Has the node load what it needs to be connected.
warm(Node) -> {0, _} = run(["--list-recorders", kymo_hung_node:name(Node)]).

look(Node, Config) -> kymo_hung_node:look(Node, ?config(tmp, Config)).

%% Processes and sockets of a connection end shortly after it.
same(Before, Node, Config) ->
    _ = kymo_cli:until(fun() -> look(Node, Config) =:= Before end),
    After = look(Node, Config),
    %% Not the whole of both: what differs is what a reader of the log needs.
    Differs = fun(Key, Value) -> Value =/= maps:get(Key, Before) end,
    New = maps:filter(Differs, After),
    ?assertEqual(maps:with(maps:keys(New), Before), New).
