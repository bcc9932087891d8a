%% SPDX-License-Identifier: Apache-2.0
%%
%% `kymo attach' with nodes whose settings, code or other tools could end its processes, or be changed by
%% them.
-module(kymo_attach_settings_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-import(kymo_cli, [await_text/2, contains/2]).
-import(kymo_hung_attach, [prepare/2, clean/1, node/2, out/1]).
-import(kymo_hung_attach, [attach/3, records/2, start/3, interrupt/1, look/2, same/3]).

-export([all/0, suite/0, init_per_testcase/2, end_per_testcase/2]).
-export([heap_limit/1, reloaded/1, latin_names/1, own_session/1, traced_before/1, undeletable/1, refused_calls/1, refused_namespace/1, own_limits/1]).

all() -> [heap_limit, reloaded, latin_names, own_session, traced_before, undeletable, refused_calls, refused_namespace, own_limits].

suite() -> [{timetrap, {minutes, 2}}].

init_per_testcase(Case, Config) -> prepare(Case, Config).

end_per_testcase(_, Config) ->
    _ = os:cmd("chattr -a " ++ ?config(tmp, Config) ++ " 2>/dev/null"),
    clean(Config).

in(Node, M, F, As) -> kymo_hung_node:call(Node, M, F, As).

%% The node has printed nothing since it was started: no report of an error.
silent() ->
    receive
        {Port, {data, Line}} when is_port(Port) -> ?assertEqual(silent, Line)
    after 0 -> ok
    end.

%% The node's default ends processes with heaps of more words.
heap_limit(Config) ->
    Node = node(Config, []),
    records(Node, Config),
    Before = look(Node, Config),
    _ = in(Node, erlang, system_flag, [max_heap_size, #{size => 5000, kill => true, error_logger => true}]),
    {0, _} = attach(["--functions", "lists:*/*", "--events", "messages,running,procs", "--for", "300ms"], Node, Config),
    _ = in(Node, erlang, system_flag, [max_heap_size, 0]),
    silent(),
    same(Before, Node, Config),
    kymo_hung_node:stop(Node).

%% The second purge of a module ends the processes that still execute its oldest code.
reloaded(Config) ->
    Node = node(Config, []),
    records(Node, Config),
    Before = look(Node, Config),
    true = in(Node, code, unstick_mod, [lists]),
    Port = start([], Node, Config),
    await_text(Port, "recording"),
    [
        begin
            _ = in(Node, code, purge, [M]),
            {module, M} = in(Node, code, load_file, [M])
        end
     || M <- [lists, lists, lists]
    ],
    interrupt(Port),
    {0, _} = kymo_cli:collect(Port, 60000),
    {0, _} = kymo_cli:run(["info", out(Config)]),
    silent(),
    same(Before, Node, Config),
    kymo_hung_node:stop(Node).

%% A folder whose name is other bytes for the node.
latin_names(Config) ->
    Tmp = filename:join(?config(tmp, Config), [$h, 16#FC, $t]),
    ok = filelib:ensure_dir(filename:join(Tmp, "x")),
    Node = node([{tmp, Tmp} | Config], ["+fnl"]),
    records(Node, Config),
    ?assertEqual({ok, []}, file:list_dir(Tmp)),
    kymo_hung_node:stop(Node).

%% A trace session of another tool stays as it is, whatever its name is.
own_session(Config) ->
    case code:ensure_loaded(trace) of
        {error, _} ->
            {skip, "this runtime has no trace sessions"};
        {module, trace} ->
            Node = node(Config, []),
            _ = kymo_hung_node:call(Node, kymo_hung_node, traces, [kymo]),
            Traced = in(Node, kymo_hung_node, traced, [kymo]),
            ?assertEqual({traced, local}, Traced),
            records(Node, Config),
            ?assertEqual(Traced, in(Node, kymo_hung_node, traced, [kymo])),
            kymo_hung_node:stop(Node)
    end.

%% Another tool traces new processes. Without sessions, kymo can't; the node's log says nothing about that.
traced_before(Config) ->
    Node = node(Config, []),
    records(Node, Config),
    ok = in(Node, kymo_hung_node, traces_new, []),
    case attach(["--for", "100ms"], Node, Config) of
        {0, _} -> ok;
        {6, Text} -> contains(Text, ["another tracer of the node"])
    end,
    silent(),
    kymo_hung_node:stop(Node).

%% The folder of the node cannot be removed.
undeletable(Config) ->
    case os:cmd("chattr +a " ++ ?config(tmp, Config) ++ " 2>&1") of
        "" ->
            Node = node(Config, []),
            {0, Text} = attach(["--for", "100ms"], Node, Config),
            contains(Text, ["can't remove " ++ ?config(tmp, Config), "remove it"]),
            "" = os:cmd("chattr -a " ++ ?config(tmp, Config)),
            kymo_hung_node:stop(Node);
        _ ->
            {skip, "this file system or user can't forbid to remove files"}
    end.

%% The command runs under a filter of system calls.
refused_calls(Config) ->
    Deny = filename:join(filename:dirname(code:which(?MODULE)), "tool_deny"),
    case filelib:is_regular(Deny) of
        false ->
            {skip, "scripts/run-ct builds tool_deny"};
        true ->
            Node = node(Config, []),
            Name = kymo_hung_node:name(Node),
            Args = ["--erl", kymo_hung_attach:erl(), "--cookie", kymo_hung_attach:cookie(), "-o", out(Config), Name],
            [
                begin
                    {6, Text} = kymo_cli:command(Deny, [Call, Errno, kymo:cli_path(), "attach" | With]),
                    contains(Text, ["its system call " ++ Call ++ " is refused", "seccomp", "allow"])
                end
             || Call <- ["socket", "bind", "connect"], Errno <- ["1", "13", "38"], With <- [Args, ["--erl", kymo_hung_attach:erl(), "--list"]]
            ],
            records(Node, Config),
            kymo_hung_node:stop(Node)
    end.

%% The command has limits with which no runtime starts; it raises those that it may raise.
own_limits(Config) ->
    case os:find_executable("prlimit") of
        false ->
            {skip, "prlimit is not installed"};
        Prlimit ->
            Node = node(Config, []),
            Run = fun(Limit) ->
                kymo_cli:command(Prlimit, [
                    Limit, kymo:cli_path(), "attach", "--erl", kymo_hung_attach:erl(), "--cookie", kymo_hung_attach:cookie(), "--for",
                    "100ms", "-o", out(Config), kymo_hung_node:name(Node)
                ])
            end,
            [
                begin
                    {6, Text} = Run(Limit),
                    contains(Text, Parts)
                end
             || {Limit, Parts} <- [
                    {"--nofile=20", ["may open only 20 files", "(ulimit -n) to 64 or more"]},
                    {"--nofile=12", ["may open only 12 files", "(ulimit -n) to 64 or more"]},
                    {"--as=600000000", ["may use only 572 MiB of addresses", "(ulimit -v) to 4 GiB or more"]}
                ]
            ],
            {0, _} = Run("--nofile=20:1024"),
            kymo_hung_node:stop(Node)
    end.

%% Root in a container may lack the permission to join the network of a process.
refused_namespace(_) ->
    Deny = filename:join(filename:dirname(code:which(?MODULE)), "tool_deny"),
    case {filelib:is_regular(Deny), os:cmd("unshare -n -u echo can")} of
        {true, "can\n"} ->
            Port = open_port(
                {spawn_executable, os:find_executable("unshare")},
                [{args, ["-n", "-u", "sh", "-c", "echo ready; exec cat"]}, exit_status, binary]
            ),
            await_text(Port, "ready"),
            {os_pid, Pid} = erlang:port_info(Port, os_pid),
            {6, Text} = kymo_cli:command(Deny, ["setns", "1", kymo:cli_path(), "attach", "--pid", integer_to_list(Pid), "-o", "/none"]),
            contains(Text, ["can't be joined (setns: Operation not permitted)", "CAP_SYS_ADMIN", "seccomp"]),
            true = port_close(Port);
        _ ->
            {skip, "scripts/run-ct builds tool_deny, and this user must be able to make namespaces"}
    end.
