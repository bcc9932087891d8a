%% SPDX-License-Identifier: Apache-2.0
%%
%% `kymo attach' with nodes that are overloaded or hang. It must record, or end in time with an
%% error that says what the node does; and when the node goes on, nothing of kymo may be in it.
-module(kymo_attach_hung_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-import(kymo_cli, [await_text/2, contains/2]).
-import(kymo_hung_attach, [prepare/2, clean/1, node/2, node/4, erl/0, cookie/0, call/3, out/1]).
-import(kymo_hung_attach, [run/1, attach/3, records/2, start/3, interrupt/1, warm/1, look/2, same/3]).

-export([all/0, suite/0, init_per_testcase/2, end_per_testcase/2]).
-export([normal_hogs/1, high_hogs/1, one_high_hog/1, max_hogs/1, many_processes/1, asked_at_once/1, unloading/1, purger/1, dirty_io/1, file_server/1, dirty_cpu/1, rex/1, net_kernel/1,
    code_server/1, cold/1]).
-export([stopped_before/1, stopped_connected/1, stopped_loading/1, stopped_starting/1, stopped_recording/1, stopped_and_goes_on/1,
    stopped_fetching/1, stopped_top/1, killed/1, interrupted_fetch/1]).
-export([full_disk/1, hung_epmd/1, no_epmd/1, wrong_cookie/1, usage/1]).
-export([seen_throttled/1, seen_frozen/1, seen_old_cgroup/1, seen_blocked/1, seen_busy/1, seen_gone/1, throttled/1, recorder_there/1]).

all() ->
    [normal_hogs, high_hogs, one_high_hog, max_hogs, many_processes, asked_at_once, unloading, purger, dirty_io, file_server, dirty_cpu, rex, net_kernel, code_server, cold,
        stopped_before, stopped_connected, stopped_loading, stopped_starting, stopped_recording, stopped_and_goes_on, stopped_fetching,
        stopped_top, killed, interrupted_fetch, full_disk, hung_epmd, no_epmd, wrong_cookie, usage,
        seen_throttled, seen_frozen, seen_old_cgroup, seen_blocked, seen_busy, seen_gone, throttled, recorder_there].

suite() -> [{timetrap, {minutes, 2}}].

init_per_testcase(many_processes = Case, Config) ->
    ct:timetrap({minutes, 5}),
    prepare(Case, Config);
init_per_testcase(Case, Config) ->
    prepare(Case, Config).

end_per_testcase(_, Config) ->
    ok = clean(Config),
    _ = os:cmd("umount -l " ++ ?config(tmp, Config) ++ " 2>/dev/null"),
    ok.

%% ---- nodes that are busy -----------------------------------------------------------

normal_hogs(Config) -> hogs(normal, Config).

high_hogs(Config) -> hogs(high, Config).

max_hogs(Config) -> hogs(max, Config).

%% Six processes that never wait, on two schedulers. If their priority is higher than normal, the
%% process that knows the cookie of the node, auth, does not run, and the node can't be connected.
hogs(Priority, Config) ->
    Node = node(Config, ["+S", "2:2"]),
    Before = look(Node, Config),
    Hogs = call(Node, hogs, [6, Priority]),
    case Priority of
        normal ->
            records(Node, Config);
        _ ->
            %% Until all of them run, auth and others may run in between.
            case attach(["--timeout", "12s", "--for", "200ms"], Node, Config) of
                {0, _} ->
                    {0, _} = kymo_cli:run(["info", out(Config)]);
                {6, Text} ->
                    contains(Text, ["still connecting: it is too busy: ", "--timeout 12s): it is too busy: "]),
                    string:find(Text, "(connecting, ") =:= nomatch orelse
                        contains(Text, ["a connection needs processes of normal priority", "try again, or raise --timeout"])
            end
    end,
    _ = call(Node, kill_all, [Hogs]),
    same(Before, Node, Config),
    kymo_hung_node:stop(Node).

%% Some processes never run then, so modules can't be removed; that does not keep the node from loading
%% others.
one_high_hog(Config) ->
    Node = node(Config, ["+S", "2:2"]),
    warm(Node),
    Before = look(Node, Config),
    [Hog] = call(Node, hogs, [1, high]),
    {0, _} = attach(["--for", "100ms"], Node, Config),
    {0, _} = kymo_cli:run(["info", out(Config)]),
    [?assertEqual({module, M}, kymo_hung_node:call(Node, code, ensure_loaded, [M])) || M <- [zip, erl_tar, dets, digraph]],
    _ = call(Node, kill_all, [[Hog]]),
    same(Before, Node, Config),
    kymo_hung_node:stop(Node).

%% A process of normal priority waits for all the others before it runs. Once for each connection
%% the node has to wait for auth, which is one; on a machine that does other things that is too long.
many_processes(Config) ->
    Node = node(Config, ["+S", "2:2", "+P", "200000"]),
    warm(Node),
    Before = glance(Node, Config),
    Busy = call(Node, many, [100000]),
    case attach(["--for", "200ms"], Node, Config) of
        {0, _} -> {0, _} = kymo_cli:run(["info", out(Config)]);
        {6, Text} -> contains(Text, ["does not answer", "--timeout 30s): it is too busy: 2 of 2 scheduler threads"])
    end,
    %% The node goes on with the removal of modules when the command has ended.
    _ = call(Node, kill_all, [[Busy]]),
    ?assert(kymo_cli:until(fun() -> glance(Node, Config) =:= Before end)),
    kymo_hung_node:stop(Node).

%% To remove a module, each process is asked, and answers when it runs: at least as many as can run are asked at the
%% same time, so that one turn of the run queues is enough for each module.
asked_at_once(Config) ->
    Node = node(Config, ["+S", "2:2"]),
    warm(Node),
    Usual = kymo_hung_node:call(Node, erlang, system_info, [outstanding_system_requests_limit]),
    ok = call(Node, watch_limit, []),
    Before = glance(Node, Config),
    Busy = call(Node, many, [3000]),
    {0, _} = attach(["--for", "100ms"], Node, Config),
    true = kymo_cli:until(fun() -> glance(Node, Config) =:= Before end),
    Seen = call(Node, limits_seen, []),
    _ = call(Node, kill_all, [[Busy]]),
    ct:log("limits while attached: ~w", [Seen]),
    ?assert(lists:max(Seen) > 2500),
    ?assert(kymo_cli:until(fun() -> kymo_hung_node:call(Node, erlang, system_info, [outstanding_system_requests_limit]) =:= Usual end)),
    kymo_hung_node:stop(Node).

%% The node does not go on with the removal of modules: the command ends all the same, since the recording was
%% fetched, and the next one waits.
unloading(Config) ->
    Node = node(Config, []),
    warm(Node),
    Before = look(Node, Config),
    Command = start([], Node, Config),
    await_text(Command, "recording"),
    true = call(Node, suspend, [erts_code_purger]),
    interrupt(Command),
    {0, Text} = ended(Command),
    contains(Text, ["nothing of kymo runs in the node any more", "still unloads kymo's modules", "process erts_code_purger, which is suspended"]),
    {0, _} = kymo_cli:run(["info", out(Config)]),
    "" = os:cmd("rm -r " ++ out(Config)),
    #{files := Files} = Before,
    ?assertMatch(#{files := Files}, glance(Node, Config)),
    {6, Busy} = attach(["--timeout", "3s"], Node, Config),
    contains(Busy, ["still unloads the modules of an earlier kymo command", "process erts_code_purger, which is suspended"]),
    Next = start(["--for", "100ms"], Node, Config),
    true = call(Node, resume, [erts_code_purger]),
    {0, _} = ended(Next),
    {0, _} = kymo_cli:run(["info", out(Config)]),
    same(Before, Node, Config),
    kymo_hung_node:stop(Node).

%% It is needed before the recording, too.
purger(Config) ->
    Node = node(Config, []),
    warm(Node),
    Before = look(Node, Config),
    true = call(Node, suspend, [erts_code_purger]),
    {6, Text} = attach(["--timeout", "4s", "--for", "100ms"], Node, Config),
    contains(Text, ["does not answer (loading kymo, --timeout 4s)", "erts_code_purger", "is suspended", "the node removes everything"]),
    true = call(Node, resume, [erts_code_purger]),
    same(Before, Node, Config),
    records(Node, Config),
    kymo_hung_node:stop(Node).

%% All threads for file operations wait for a pipe that nobody writes.
dirty_io(Config) ->
    Node = node(Config, []),
    warm(Node),
    Before = look(Node, Config),
    Fifo = fifo(Config),
    _ = call(Node, opened, [10, Fifo]),
    true = kymo_cli:until(fun() -> all_blocked(Node) end),
    {6, Text} = attach(["--for", "100ms"], Node, Config),
    contains(Text, ["the node can't open files", "all 10 threads for file operations (dirty I/O)", "are blocked", "openat (wait_for_partner)",
                    "dirty I/O 1-10", "nothing was left in the node"]),
    ?assertEqual([], maps:get(kymo, glance(Node, Config))),
    release(Fifo),
    same(Before, Node, Config),
    records(Node, Config),
    kymo_hung_node:stop(Node).

all_blocked(Node) ->
    #{threads := Threads} = kymo_attach_outside:look(kymo_hung_node:os_pid(Node)),
    length([T || #{kind := dirty_io, function := "wait_for_partner"} = T <- Threads]) =:= 10.

%% The file server does, and nothing else.
file_server(Config) ->
    Node = node(Config, []),
    Before = look(Node, Config),
    Fifo = fifo(Config),
    _ = call(Node, opened, [file_server, Fifo]),
    records(Node, Config),
    release(Fifo),
    same(Before, Node, Config),
    kymo_hung_node:stop(Node).

fifo(Config) ->
    Fifo = filename:join(?config(dir, Config), "fifo"),
    "" = os:cmd("mkfifo " ++ Fifo),
    Fifo.

%% Lets everyone go on who waits for the pipe.
release(Fifo) ->
    "" = os:cmd("sh -c ': > " ++ Fifo ++ "'"),
    ok.

dirty_cpu(Config) ->
    Node = node(Config, ["+SDcpu", "2:2"]),
    _ = call(Node, dirty, [4]),
    Before = look(Node, Config),
    records(Node, Config),
    same(Before, Node, Config),
    kymo_hung_node:stop(Node).

%% ---- processes of the node that do not answer ------------------------------------------

rex(Config) ->
    Node = node(Config, []),
    ok = call(Node, fill, [rex, 1000000]),
    Before = look(Node, Config),
    records(Node, Config),
    same(Before, Node, Config),
    kymo_hung_node:stop(Node).

%% It accepts connections for the node.
net_kernel(Config) ->
    Node = node(Config, []),
    Before = look(Node, Config),
    true = call(Node, suspend, [net_kernel]),
    {6, Text} = attach(["--timeout", "4s", "--for", "100ms"], Node, Config),
    contains(Text, ["does not answer (connecting, --timeout 4s)", "idle", "net_kernel"]),
    true = call(Node, resume, [net_kernel]),
    same(Before, Node, Config),
    records(Node, Config),
    kymo_hung_node:stop(Node).

code_server(Config) ->
    Node = node(Config, []),
    warm(Node),
    true = call(Node, suspend, [code_server]),
    Before = look(Node, Config),
    records(Node, Config),
    same(Before, Node, Config),
    true = call(Node, resume, [code_server]),
    kymo_hung_node:stop(Node).

%% A node that was never connected has not loaded the code that accepts connections.
cold(Config) ->
    Node = node(Config, []),
    Before = look(Node, Config),
    true = call(Node, suspend, [code_server]),
    {6, Text} = attach(["--timeout", "4s"], Node, Config),
    contains(Text, ["does not answer (connecting, --timeout 4s)", "idle", "code_server"]),
    true = call(Node, resume, [code_server]),
    same(Before, Node, Config),
    kymo_hung_node:stop(Node).

%% ---- nodes that are stopped, or die --------------------------------------------------

stopped_before(Config) ->
    Node = node(Config, []),
    Before = look(Node, Config),
    signal("STOP", Node),
    {6, Text} = attach(["--timeout", "3s"], Node, Config),
    contains(Text, ["does not answer (connecting, --timeout 3s)", "stopped by a signal", "'kill -CONT " ++ kymo_hung_node:os_pid(Node) ++ "'"]),
    ?assertEqual(nomatch, string:find(Text, "cookie")),
    signal("CONT", Node),
    same(Before, Node, Config),
    kymo_hung_node:stop(Node).

stopped_connected(Config) -> stopped(connected, "does not answer (loading kymo", Config).

stopped_loading(Config) -> stopped(loaded, "does not answer (loading kymo", Config).

stopped_starting(Config) -> stopped(starting, "does not answer (starting to record", Config).

%% The node is stopped as soon as something has happened in it.
stopped(When, Expected, Config) ->
    Node = node(Config, []),
    Before = look(Node, Config),
    ok = call(Node, on, [When, "STOP"]),
    Begun = erlang:monotonic_time(second),
    {6, Text} = attach(["--timeout", "4s"], Node, Config),
    %% Before the connection ends by itself, after a minute.
    ?assert(erlang:monotonic_time(second) - Begun < 40),
    contains(Text, [Expected, "stopped by a signal"]),
    signal("CONT", Node),
    same(Before, Node, Config),
    kymo_hung_node:stop(Node).

stopped_recording(Config) ->
    Node = node(Config, []),
    Before = look(Node, Config),
    Command = start(["--timeout", "3s"], Node, Config),
    await_text(Command, "recording"),
    signal("STOP", Node),
    await_text(Command, "is still recorded: its process"),
    interrupt(Command),
    {6, Text} = ended(Command),
    contains(Text, ["does not answer (ending the recording", "stopped by a signal", "a recorder writes " ++ ?config(tmp, Config), "--detach"]),
    signal("CONT", Node),
    true = kymo_cli:until(fun() -> element(1, attach(["--detach"], Node, Config)) =:= 0 end),
    {0, _} = kymo_cli:run(["info", out(Config)]),
    same(Before, Node, Config),
    kymo_hung_node:stop(Node).

%% A pause of the node does not end the recording.
stopped_and_goes_on(Config) ->
    Node = node(Config, []),
    Before = look(Node, Config),
    Command = start(["--timeout", "20s"], Node, Config),
    await_text(Command, "recording"),
    signal("STOP", Node),
    await_text(Command, "is still recorded: its process"),
    signal("CONT", Node),
    interrupt(Command),
    {0, _} = ended(Command),
    {0, _} = kymo_cli:run(["info", out(Config)]),
    same(Before, Node, Config),
    kymo_hung_node:stop(Node).

%% What was not fetched can be fetched later.
stopped_fetching(Config) ->
    Node = node(Config, []),
    Before = look(Node, Config),
    ok = call(Node, on, [fetching, "STOP"]),
    {6, Text} = attach(["--timeout", "10s", "--memory", "200000000", "--for", "100ms"], Node, Config),
    contains(Text, ["stays in the node, for ten minutes", "--detach", "stopped by a signal"]),
    signal("CONT", Node),
    resumed(Node, Config),
    same(Before, Node, Config),
    kymo_hung_node:stop(Node).

%% The command that fetches is killed.
interrupted_fetch(Config) ->
    Node = node(Config, []),
    Before = look(Node, Config),
    ok = call(Node, on, [fetching, "STOP"]),
    Command = start(["--timeout", "30s", "--memory", "200000000", "--for", "100ms"], Node, Config),
    await_text(Command, "fetching"),
    true = kymo_cli:until(fun() -> kymo_hung_node:is_stopped(Node) end),
    {os_pid, Pid} = erlang:port_info(Command, os_pid),
    "" = os:cmd("kill -KILL " ++ integer_to_list(Pid)),
    {_, _} = ended(Command),
    signal("CONT", Node),
    resumed(Node, Config),
    same(Before, Node, Config),
    kymo_hung_node:stop(Node).

%% The node may not yet have noticed that the command is gone.
resumed(Node, Config) ->
    Detach = fun() -> run(["--detach", "-o", out(Config), kymo_hung_node:name(Node)]) end,
    true = kymo_cli:until(fun() ->
        case Detach() of
            {0, _} -> true;
            {6, Text} -> contains(Text, ["another kymo command"]), false
        end
    end),
    {0, _} = kymo_cli:run(["info", out(Config)]).

stopped_top(Config) ->
    Node = node(Config, []),
    Before = look(Node, Config),
    {ok, Host} = inet:gethostname(),
    signal("STOP", Node),
    {6, Text} = kymo_cli:run(["top", "--erl", erl(), "--cookie", cookie(), "--timeout", "3s", "--once", kymo_hung_node:name(Node) ++ "@" ++ Host]),
    contains(Text, ["does not answer (connecting, --timeout 3s)", "stopped by a signal"]),
    signal("CONT", Node),
    same(Before, Node, Config),
    kymo_hung_node:stop(Node).

%% The node dies in each step.
killed(Config) ->
    [
        begin
            Node = node(Config, []),
            ok = call(Node, on, [When, "KILL"]),
            {6, Text} = attach(["--timeout", "10s"], Node, Config),
            contains(Text, ["connection to the node was lost"]),
            kymo_hung_node:stop(Node)
        end
     || When <- [loaded, starting, recording]
    ].

%% ---- other causes ----------------------------------------------------------------------

%% No folder of the node has room.
full_disk(Config) ->
    Tmp = ?config(tmp, Config),
    Usual = [Tmp, "/tmp", "/var/tmp", "/dev/shm"],
    Home = filename:join(?config(dir, Config), "node"),
    case [Dir || Dir <- tl(Usual), lists:prefix(Dir ++ "/", Home) orelse lists:prefix(Dir ++ "/", code:root_dir())] of
        [_ | _] ->
            {skip, "the runtime or this folder would be hidden"};
        [] ->
            Mounts = ["mount -t tmpfs -o size=64k tmpfs " ++ Dir ++ " || exit 9; " || Dir <- [Home, ?config(dir, Config) | Usual], Dir =/= Home, Dir =/= ?config(dir, Config)],
            Before = ["-m", "sh", "-c", lists:append(Mounts) ++ "export HOME=" ++ Tmp ++ " XDG_RUNTIME_DIR=; cd " ++ Tmp ++ "; exec \"$@\"", "sh", erl()],
            case os:cmd("unshare -m sh -c 'mount -t tmpfs tmpfs /tmp && echo can'") of
                "can\n" ->
                    Node = node(os:find_executable("unshare"), Config, Before, []),
                    {6, Text} = attach(["--for", "100ms"], Node, Config),
                    contains(Text, ["no folder of the node can be used", "/dev/shm", "--node-dir", "no space left", "reduce --memory"]),
                    ?assertMatch(#{kymo := []}, call(Node, glanced, [])),
                    ?assertEqual({ok, []}, kymo_hung_node:call(Node, prim_file, list_dir, [Tmp])),
                    kymo_hung_node:stop(Node);
                _ ->
                    {skip, "this user may not mount file systems"}
            end
    end.

%% It accepts connections, and does not answer.
hung_epmd(Config) ->
    {ok, Socket} = gen_tcp:listen(0, []),
    {ok, Port} = inet:port(Socket),
    {6, Text} = with_epmd(Port, fun() -> run(["--timeout", "3s", "-o", out(Config), "some_node"]) end),
    contains(Text, ["epmd of the node's host does not answer", "port " ++ integer_to_list(Port), "--port", "ERL_EPMD_PORT"]),
    ?assertEqual(false, filelib:is_file(out(Config))),
    ok = gen_tcp:close(Socket).

no_epmd(Config) ->
    {ok, Socket} = gen_tcp:listen(0, []),
    {ok, Port} = inet:port(Socket),
    ok = gen_tcp:close(Socket),
    {6, Text} = with_epmd(Port, fun() -> run(["--timeout", "3s", "-o", out(Config), "some_node"]) end),
    contains(Text, ["no epmd answers", "port " ++ integer_to_list(Port), "--port", "ERL_EPMD_PORT"]).

with_epmd(Port, Fun) ->
    true = os:putenv("ERL_EPMD_PORT", integer_to_list(Port)),
    try Fun() after os:unsetenv("ERL_EPMD_PORT") end.

%% A refusal is told apart from silence, and comes at once.
wrong_cookie(Config) ->
    Node = node(Config, []),
    Before = look(Node, Config),
    {6, Text} = kymo_cli:run(["attach", "--erl", erl(), "--cookie", "wrong", "-o", out(Config), kymo_hung_node:name(Node)]),
    contains(Text, ["refuses the connection", "cookie"]),
    same(Before, Node, Config),
    kymo_hung_node:stop(Node).

usage(Config) ->
    [
        begin
            {2, Text} = run(["--timeout", Bad, "-o", out(Config), "a@b"]),
            contains(Text, ["--timeout takes a time from 1s to 1h", "not '" ++ Bad ++ "'"])
        end
     || Bad <- ["", "0s", "soon", "999ms", "2h"]
    ].

%% ---- what is seen from outside ------------------------------------------------------

%% Version 2 of cgroups.
seen_throttled(Config) ->
    Roots = roots(Config, "0::/shop\n", [{"scheduler", 1, "S", "futex_do_wait", "202"}]),
    cgroup(Roots, "shop/cpu.max", "50000 100000\n"),
    cgroup(Roots, "shop/memory.max", "536870912\n"),
    cgroup(Roots, "shop/memory.current", "104857600\n"),
    cgroup(Roots, "shop/cpu.stat", "usage_usec 5\nthrottled_usec 1000000\n"),
    Seen = changing(filename:join(maps:get(cgroup, Roots), "shop/cpu.stat"), "usage_usec 5\nthrottled_usec 1200000\n", Roots),
    contains(unicode:characters_to_binary(kymo_attach_outside:summary(Seen)), ["allows it 0.50 processors and held it back"]),
    contains(details(Seen), ["cgroup: 0.50 processors, held back for", "100 of 512 MiB of memory"]).

seen_old_cgroup(Config) ->
    Roots = roots(Config, "4:memory:/shop\n1:cpu:/shop\n0::/\n", [{"scheduler", 1, "S", "futex_do_wait", "202"}]),
    cgroup(Roots, "cpu/shop/cpu.cfs_quota_us", "150000\n"),
    cgroup(Roots, "cpu/shop/cpu.cfs_period_us", "100000\n"),
    cgroup(Roots, "memory/shop/memory.limit_in_bytes", "9223372036854771712\n"),
    cgroup(Roots, "cpu/shop/cpu.stat", "nr_throttled 1\nthrottled_time 1\n"),
    Seen = changing(filename:join(maps:get(cgroup, Roots), "cpu/shop/cpu.stat"), "nr_throttled 9\nthrottled_time 200000001\n", Roots),
    contains(unicode:characters_to_binary(kymo_attach_outside:summary(Seen)), ["allows it 1.50 processors and held it back"]),
    ?assertEqual(nomatch, string:find(details(Seen), "of memory")).

%% The file changes while the process is looked at.
changing(File, Text, Roots) ->
    Self = self(),
    Looks = spawn_link(fun() -> Self ! {self(), kymo_attach_outside:look("7", Roots)} end),
    {ok, Before} = file:read_file(File),
    true = kymo_cli:until(fun() -> process_info(Looks, status) =:= {status, waiting} andalso
        process_info(Looks, current_function) =:= {current_function, {kymo_attach_outside, look, 2}} end),
    ?assertNotEqual(unicode:characters_to_binary(Text), Before),
    ok = file:write_file(File, Text),
    receive {Looks, Seen} -> Seen end.

seen_frozen(Config) ->
    Roots = roots(Config, "0::/shop\n", [{"scheduler", 1, "S", "futex_do_wait", "202"}]),
    cgroup(Roots, "shop/cgroup.events", "populated 1\nfrozen 1\n"),
    contains(seen(Roots), ["the cgroup of its process 7 is frozen: thaw it"]).

seen_blocked(Config) ->
    Roots = roots(Config, "", [{"1_scheduler", 1, "S", "wait_for_partner", "0"}, {"2_scheduler", 2, "D", "nfs_wait", ""},
        {"erts_dios_1", 3, "S", "futex_do_wait", "202"}]),
    contains(seen(Roots), ["all 2 scheduler threads of its process 7 are blocked, in nfs_wait, read (wait_for_partner): a NIF or driver waits there"]),
    Idle = roots(Config, "", [{"erts_sched_1", 1, "S", "do_epoll_wait", "232"}, {"erts_dcpus_1", 2, "S", "futex_do_wait", "202"}]),
    contains(seen(Idle), ["are idle", "net_kernel"]).

seen_busy(Config) ->
    Roots = roots(Config, "", [{"erts_sched_1", 1, "R", "0", "running"}, {"erts_sched_2", 2, "S", "futex_do_wait", "202"}]),
    Seen = changing(task(Roots, 1, "schedstat"), "1230000000 40000000 1\n", Roots),
    contains(unicode:characters_to_binary(kymo_attach_outside:summary(Seen)), ["it is too busy: 1 of 2 scheduler threads"]).

seen_gone(Config) ->
    Roots = roots(Config, "", []),
    {gone, "8"} = Gone = kymo_attach_outside:look("8", Roots),
    contains(unicode:characters_to_binary(kymo_attach_outside:summary(Gone)), ["its process 8 has ended"]),
    contains(unicode:characters_to_binary(kymo_attach_outside:summary(kymo_attach_outside:look(none))), ["can't be seen from here"]).

seen(Roots) -> unicode:characters_to_binary(kymo_attach_outside:summary(kymo_attach_outside:look("7", Roots))).

details(Seen) -> unicode:characters_to_binary(lists:join("\n", kymo_attach_outside:details(Seen))).

%% A folder like /proc, with the process 7 and these threads.
roots(Config, Cgroup, Threads) ->
    Root = filename:join(?config(dir, Config), "roots-" ++ integer_to_list(erlang:unique_integer([positive]))),
    Roots = #{proc => filename:join(Root, "proc"), cgroup => filename:join(Root, "cgroup")},
    put_file(filename:join(Root, "proc/7/status"), "Name:\tbeam.smp\nState:\tS (sleeping)\nVmRSS:\t  2048 kB\nTracerPid:\t0\n"),
    put_file(filename:join(Root, "proc/7/cgroup"), Cgroup),
    [
        begin
            put_file(task(Roots, Tid, "comm"), [Name, "\n"]),
            put_file(task(Roots, Tid, "stat"), [integer_to_list(Tid), " (a (b) c) ", State, " 1 1 1"]),
            put_file(task(Roots, Tid, "wchan"), Function),
            put_file(task(Roots, Tid, "syscall"), case Call of "running" -> Call; "" -> ""; _ -> [Call, " 0x1 0x2"] end),
            put_file(task(Roots, Tid, "schedstat"), "1000000000 10 1\n")
        end
     || {Name, Tid, State, Function, Call} <- Threads
    ],
    Roots.

task(#{proc := Proc}, Tid, Name) -> filename:join([Proc, "7", "task", integer_to_list(Tid), Name]).

cgroup(#{cgroup := Root}, Name, Text) -> put_file(filename:join(Root, Name), Text).

put_file(File, Text) ->
    ok = filelib:ensure_dir(File),
    ok = file:write_file(File, Text).

%% A real cgroup of version 1 that gives the node a hundredth of a processor.
throttled(Config) ->
    Group = "/sys/fs/cgroup/cpu/kymo-hung-" ++ os:getpid(),
    case file:make_dir(Group) =:= ok andalso filelib:is_file(Group ++ "/cpu.cfs_quota_us") of
        false ->
            _ = file:del_dir(Group),
            {skip, "this user can't make a cgroup with a limit of processor time"};
        true ->
            Node = node(Config, ["+S", "2:2"]),
            Before = look(Node, Config),
            Hogs = call(Node, hogs, [2, normal]),
            ok = file:write_file(Group ++ "/cpu.cfs_quota_us", "2000"),
            ok = file:write_file(Group ++ "/cgroup.procs", kymo_hung_node:os_pid(Node)),
            Result = attach(["--timeout", "5s", "--for", "100ms"], Node, Config),
            ok = file:write_file("/sys/fs/cgroup/cpu/cgroup.procs", kymo_hung_node:os_pid(Node)),
            case Result of
                {0, _} -> ok;
                {6, Text} -> contains(Text, ["allows it 0.02 processors and held it back"])
            end,
            _ = call(Node, kill_all, [Hogs]),
            same(Before, Node, Config),
            kymo_hung_node:stop(Node),
            ok = file:del_dir(Group)
    end.

%% A recorder that is already in a node that hangs.
recorder_there(Config) ->
    Node = node(Config, []),
    {0, _} = run(["--keep", "--events", "running", kymo_hung_node:name(Node)]),
    signal("STOP", Node),
    {6, Text} = run(["--timeout", "3s", "--snapshot", "-o", out(Config), kymo_hung_node:name(Node)]),
    {match, [Folder]} = re:run(Text, "a recorder writes ([^,]*), which kymo reads meanwhile", [{capture, [1], list}]),
    {0, _} = kymo_cli:run(["info", Folder]),
    signal("CONT", Node),
    {0, _} = run(["--detach", kymo_hung_node:name(Node)]),
    kymo_hung_node:stop(Node).

%% ---- helpers -------------------------------------------------------------------------

signal(Name, Node) -> "" = os:cmd("kill -" ++ Name ++ " " ++ kymo_hung_node:os_pid(Node)).

ended(Port) -> kymo_cli:collect(Port, 60000).

glance(Node, Config) -> kymo_hung_node:glance(Node, ?config(tmp, Config)).
