%% SPDX-License-Identifier: Apache-2.0
%%
%% `kymo attach' with nodes that have reached a limit, or whose own processes get in its way. It
%% must refuse before it does anything, with an error that names the reason and the remedy, or
%% remove everything although its processes are killed.
-module(kymo_attach_limits_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-import(kymo_cli, [await_text/2, contains/2]).
-import(kymo_hung_attach, [prepare/2, clean/1, node/2, node/4, node_erl/0, call/3, out/1]).
-import(kymo_hung_attach, [attach/3, records/2, start/3, interrupt/1, warm/1, look/2, same/3]).

-export([all/0, suite/0, init_per_testcase/2, end_per_testcase/2]).
-export([room/1, atoms/1, processes/1, processes_full/1, ports/1, tables/1, no_process/1, processes_meanwhile/1, files/1, few_files/1, no_file_at_end/1, size_of_files/1, memory/1, linked/1, killed/1, deleted/1, deleted_with_others/1, deleted_kept/1, name_taken/1, still_unloading/1, all_killed/1]).

all() -> [room, atoms, processes, processes_full, ports, tables, no_process, processes_meanwhile, files, few_files, no_file_at_end, size_of_files, memory, linked, killed, deleted, deleted_with_others, deleted_kept, name_taken, still_unloading, all_killed].

suite() -> [{timetrap, {minutes, 4}}].

init_per_testcase(Case, Config) -> prepare(Case, Config).

end_per_testcase(_, Config) -> clean(Config).

%% ---- limits --------------------------------------------------------------------------

%% What is asked for is at least twice what a node needs that has loaded nothing yet.
room(Config) ->
    Node = node(Config, []),
    Before = kymo_hung_node:call(Node, erlang, system_info, [atom_count]),
    {0, _} = attach(["--functions", "lists:*/*", "--events", "calls,messages,procs,ports,running,garbage_collection", "--for", "100ms"],
        Node, Config),
    Atoms = kymo_hung_node:call(Node, erlang, system_info, [atom_count]) - Before,
    ct:log("~b atoms", [Atoms]),
    ?assert(Atoms * 2 =< kymo_room:needed(atoms)),
    kymo_hung_node:stop(Node).

%% Another atom too many would end the node.
atoms(Config) ->
    Node = node(Config, ["+t", "20000"]),
    warm(Node),
    Before = quiet_look(Node, Config),
    Room = kymo_room:needed(atoms),
    ok = call(Node, fill_atoms, [Room + 50]),
    records(Node, Config),
    ok = call(Node, fill_atoms, [200]),
    {6, Text} = attach([], Node, Config),
    contains(Text, ["the atom limit of the node is nearly reached", "of 20000 atoms", "restart it", "+t"]),
    same(Before, Node, Config),
    kymo_hung_node:stop(Node).

processes(Config) ->
    Node = node(Config, ["+P", "1024"]),
    warm(Node),
    Before = quiet_look(Node, Config),
    Pids = call(Node, fill_processes, [8]),
    {6, Text} = attach([], Node, Config),
    contains(Text, ["the process limit of the node is nearly reached", "of 1024 processes", "end some of them", "+P"]),
    release(Pids, Node),
    same(Before, Node, Config),
    records(Node, Config),
    kymo_hung_node:stop(Node).

%% Any connection ends such a node; the command says so.
processes_full(Config) ->
    Node = node(Config, ["+P", "1024"]),
    _ = call(Node, fill_processes, [0]),
    {6, Text} = attach([], Node, Config),
    contains(Text, ["has ended while this command connected to it", "as many processes as it can have (+P)", "system_limit in net_kernel"]),
    kymo_hung_node:stop(Node).

%% The connection takes one.
ports(Config) ->
    Node = node(Config, ["+Q", "1024"]),
    warm(Node),
    Before = quiet_look(Node, Config),
    Room = kymo_room:needed(ports),
    Few = call(Node, fill_ports, [Room]),
    {6, Text} = attach([], Node, Config),
    contains(Text, ["the port limit of the node is nearly reached", "of 1024 ports", "close some of them", "+Q"]),
    release(Few, Node),
    same(Before, Node, Config),
    Enough = call(Node, fill_ports, [Room + 2]),
    records(Node, Config),
    release(Enough, Node),
    same(Before, Node, Config),
    kymo_hung_node:stop(Node).

%% The runtime has a limit of ETS tables, and more than that are made.
tables(Config) ->
    Node = node(Config, ["+e", "256"]),
    warm(Node),
    Before = quiet_look(Node, Config),
    Pids = call(Node, fill_tables, [100]),
    ?assert(kymo_hung_node:call(Node, erlang, system_info, [ets_count]) > kymo_hung_node:call(Node, erlang, system_info, [ets_limit])),
    records(Node, Config),
    release(Pids, Node),
    same(Before, Node, Config),
    kymo_hung_node:stop(Node).

%% The node refuses the first process.
no_process(_) ->
    Text = unicode:characters_to_list(kymo_attach_error:format(no_process)),
    contains(Text, ["the process limit of the node is reached", "+P"]).

%% The node runs out of processes while it is recorded.
processes_meanwhile(Config) ->
    Node = node(Config, ["+P", "1024"]),
    records(Node, Config),
    Before = quiet_look(Node, Config),
    Port = start([], Node, Config),
    await_text(Port, "recording"),
    Pids = call(Node, fill_processes, [0]),
    interrupt(Port),
    {0, _} = kymo_cli:collect(Port, 60000),
    {0, _} = kymo_cli:run(["info", out(Config)]),
    release(Pids, Node),
    same(Before, Node, Config),
    kymo_hung_node:stop(Node).

files(Config) ->
    Node = node("/bin/sh", Config, ["-c", "ulimit -n 64; exec \"$0\" \"$@\"", node_erl()], []),
    warm(Node),
    Before = quiet_look(Node, Config),
    Pids = call(Node, fill_files, [2]),
    {6, Text} = attach([], Node, Config),
    contains(Text, ["as many open files as the limit", "ulimit -n", "prlimit"]),
    release(Pids, Node),
    same(Before, Node, Config),
    records(Node, Config),
    kymo_hung_node:stop(Node).

%% With a few more, a recording begins, and perhaps no more. Whatever it has left is removed by what the
%% command names.
few_files(Config) ->
    Node = node("/bin/sh", Config, ["-c", "ulimit -n 64; exec \"$0\" \"$@\"", node_erl()], []),
    warm(Node),
    Before = quiet_look(Node, Config),
    [
        begin
            Pids = call(Node, fill_files, [Free]),
            case attach(["--for", "200ms"], Node, Config) of
                {0, _} -> ok;
                {6, Text} -> contains(Text, ["as many open files as the limit"])
            end,
            _ = file:del_dir_r(out(Config)),
            release(Pids, Node),
            same(Before, Node, Config)
        end
     || Free <- lists:seq(3, 10)
    ],
    kymo_hung_node:stop(Node).

%% The node has no file descriptor left when everything is removed from it.
no_file_at_end(Config) ->
    Node = node("/bin/sh", Config, ["-c", "ulimit -n 64; exec \"$0\" \"$@\"", node_erl()], []),
    records(Node, Config),
    Before = quiet_look(Node, Config),
    Port = start([], Node, Config),
    await_text(Port, "recording"),
    Pids = call(Node, hold_files, []),
    %% The command would need a descriptor for that, if it had to connect.
    _ = kymo_hung_node:call(Node, erlang, send, [kymo_attach, {request, self(), make_ref(), finish}]),
    {6, _} = kymo_cli:collect(Port, 60000),
    release(Pids, Node),
    same(Before, Node, Config),
    kymo_hung_node:stop(Node).

%% Each folder fails for the same reason, and another one would not help.
size_of_files(Config) ->
    limited(Config, "fsize", 100000, ["may not write files of this size (ulimit -f)", "prlimit --fsize", "--memory"]).

%% The node has twice the memory that it uses, and the recording needs more.
memory(Config) ->
    Node = node(Config, []),
    {ok, Status} = file:read_file("/proc/" ++ kymo_hung_node:os_pid(Node) ++ "/status"),
    kymo_hung_node:stop(Node),
    {match, [KiB]} = re:run(Status, "VmSize:\\s*([0-9]+)", [{capture, all_but_first, list}]),
    Bytes = 2048 * list_to_integer(KiB),
    limited(Config, "as", Bytes, ["gets no more memory", "prlimit --as", "--memory"], ["--memory", integer_to_list(4 * Bytes)]).

limited(Config, Limit, Value, Parts) -> limited(Config, Limit, Value, Parts, []).

limited(Config, Limit, Value, Parts, Args) ->
    Node = node(Config, []),
    warm(Node),
    Before = quiet_look(Node, Config),
    Set = fun(To) -> "" = os:cmd(["prlimit --pid ", kymo_hung_node:os_pid(Node), " --", Limit, "=", To, ":unlimited"]) end,
    Set(integer_to_list(Value)),
    {6, Text} = attach(Args, Node, Config),
    contains(Text, Parts),
    ?assertEqual(nomatch, string:find(Text, "--node-dir")),
    same(Before, Node, Config),
    Set("unlimited"),
    records(Node, Config),
    kymo_hung_node:stop(Node).

%% ---- processes of the node that get in the way ------------------------------------------

%% A process links to all new ones, and fails.
linked(Config) ->
    meanwhile(Config, link_new).

%% A process kills all new ones. Nobody in the node is left who removes what was sent to it.
killed(Config) ->
    meanwhile(Config, kill_new).

%% The modules of kymo are deleted. What they have set stays if nobody else removes it.
deleted(Config) ->
    meanwhile(Config, delete_kymo).

%% The process of the connection is a new one, too.
meanwhile(Config, Happens) ->
    Node = node(Config, []),
    records(Node, Config),
    Before = quiet_look(Node, Config),
    Text = disturbed([], Happens, Node, Config),
    contains(Text, ["the connection to the node was lost", "its modules were deleted", "everything was removed from the node"]),
    same_collected(Before, Node, Config),
    records(Node, Config),
    kymo_hung_node:stop(Node).

disturbed(Args, Happens, Node, Config) ->
    ok = call(Node, known, []),
    Port = start(["--functions", "lists:seq/2", "--events", "messages,calls,procs" | Args], Node, Config),
    await_text(Port, "recording"),
    ok = call(Node, Happens, [failed]),
    {6, Text} = kymo_cli:collect(Port, 60000),
    Text.

%% A report about a process that crashed is in the logger's garbage, and refers to the files of the recorder.
same_collected(Before, Node, Config) ->
    _ = kymo_cli:until(fun() ->
        ok = call(Node, collect, []),
        look(Node, Config) =:= Before
    end),
    same(Before, Node, Config).

%% Without sessions, nobody knows whose the patterns of functions are if another tracer has some of them.
deleted_with_others(Config) ->
    Node = node(Config, []),
    records(Node, Config),
    1 = in(Node, trace_pattern, [{lists, reverse, 2}, true, [local]]),
    Before = quiet_look(Node, Config),
    Text = disturbed(["--functions", "lists:*/2"], delete_kymo, Node, Config),
    case erlang:system_info(otp_release) of
        Release when Release < "27" ->
            contains(Text, ["patterns", "lists:seq/2", "erlang:trace_pattern({M, F, A}, false, [local])"]);
        _ ->
            contains(Text, ["everything was removed from the node"]),
            same_collected(Before, Node, Config)
    end,
    ?assertEqual({traced, local}, in(Node, trace_info, [{lists, reverse, 2}, traced])),
    kymo_hung_node:stop(Node).

%% A recorder that should have stayed.
deleted_kept(Config) ->
    Node = node(Config, []),
    records(Node, Config),
    Before = quiet_look(Node, Config),
    Text = disturbed(["--keep"], delete_kymo, Node, Config),
    contains(Text, ["everything was removed from the node"]),
    same_collected(Before, Node, Config),
    kymo_hung_node:stop(Node).

in(Node, Function, Args) -> kymo_hung_node:call(Node, erlang, Function, Args).

%% A process of the application has the name that kymo uses.
name_taken(Config) ->
    Node = node(Config, []),
    warm(Node),
    Before = quiet_look(Node, Config),
    Pids = call(Node, named, [kymo_attach]),
    {6, Text} = attach([], Node, Config),
    contains(Text, ["another process of the node is registered as kymo_attach", "give it another name"]),
    release(Pids, Node),
    same(Before, Node, Config),
    kymo_hung_node:stop(Node).

%% The process of an earlier command has removed its module, but not yet its old code. A later command waits.
still_unloading(Config) ->
    Node = node(Config, []),
    warm(Node),
    ok = call(Node, unload_slowly, []),
    {0, _} = attach(["--for", "100ms"], Node, Config),
    kymo_hung_node:stop(Node).

%% A process kills all new ones, such as those of each connection.
all_killed(Config) ->
    Node = node(Config, []),
    warm(Node),
    _ = call(Node, kill_all_new, []),
    {6, Text} = attach(["--timeout", "5s"], Node, Config),
    contains(Text, ["something in it ends new processes"]),
    kymo_hung_node:stop(Node).

%% ---- helpers -------------------------------------------------------------------------

%% Ends these processes, and those that are linked to them.
release(Pids, Node) ->
    _ = call(Node, kill_all, [Pids]),
    true = kymo_cli:until(fun() -> kymo_hung_node:call(Node, erlang, system_info, [process_count]) < 200 end),
    ok.

%% What the node is like when earlier connections have ended.
quiet_look(Node, Config) ->
    true = kymo_cli:until(fun() -> kymo_hung_node:call(Node, erlang, nodes, [connected]) =:= [] andalso call(Node, connections, []) =:= [] end),
    look(Node, Config).
