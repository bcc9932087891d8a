%% SPDX-License-Identifier: Apache-2.0
%%
%% The command `kymo attach' with nodes that have no kymo. Whichever way attaching ends, the
%% node must look the same afterwards as before, both from inside (modules, processes, ports,
%% tracing) and from outside (open files, mapped files, folders).
-module(kymo_attach_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").
-include_lib("kernel/include/file.hrl").
-include_lib("public_key/include/public_key.hrl").

-import(kymo_cli, [await_text/2, contains/2]).

-export([all/0, suite/0, init_per_testcase/2, end_per_testcase/2]).
-export([record/1, slow/1, only_otp_stays/1, interrupt/1, kill_command/1, kill_runtime/1, disconnect/1, second_signal/1, third_signal/1, unfetched/1, guard_killed/1]).
-export([keep/1, folder_gone/1, something_else/1, several_nodes/1, busy/1, embedded/1, named_protocol/1, long_names/1, no_epmd/1, tls/1, sent_library/1, noexec/1, other_release/1, container/1,
    sidecar/1, other_user/1]).
-export([keep_for/1, pid_errors/1]).
-export([read_only/1]).
-export([progress_line/1, keep_with_snapshots/1, keep_without_input/1, keep_lost/1, triggers/1, trigger_limits/1, triggers_flood/1, keep_with_triggers/1, trigger_refusals/1, triggers_unseen/1]).
-export([top_node/1, top_first_window/1, top_screen/1, live_node/1, show_ends/1, show_kept/1, show_container/1, show_refusals/1]).
-export([own_kymo/1, other_kymo/1, list/1, list_late_name/1, no_erl/1, print/1, list_recorders/1, node_of_other_user/1]).
-export([wrong_cookie/1, no_node/1, bad_pattern/1, output_exists/1, no_folder/1, usage/1, no_dump/1, processes_of_nodes/1, strange_cookie_files/1, cookie_of_node/1, option_files/1, no_connections/1, removed_folder/1, foreign_process/1, strange_folders/1, not_allowed/1, tls_refusals/1, other_port/1, epmd_port/1, folder_stays/1, aborted_wait/1, aborted_snapshot/1, first_killed/1, old_code/1, group_leader_of_node/1, hidden_cookie/1, one_name/1, output_full/1, output_full_kept/1, named_runtime/1, no_standard_error/1, no_listener/1, moved_node/1, other_machine/1]).

all() ->
    [record, slow, only_otp_stays, interrupt, kill_command, kill_runtime, disconnect, second_signal, third_signal, unfetched, guard_killed,
        keep, folder_gone, something_else, several_nodes, busy, embedded, named_protocol, long_names, no_epmd, tls, sent_library, noexec, read_only, other_release, container, sidecar,
        other_user, keep_for, pid_errors,
        progress_line, keep_with_snapshots, keep_without_input, keep_lost, triggers, trigger_limits, triggers_flood, keep_with_triggers, trigger_refusals, triggers_unseen,
        top_node, top_first_window, top_screen, live_node, show_ends, show_kept, show_container, show_refusals,
        own_kymo, other_kymo, list, list_late_name, no_erl, print, list_recorders, node_of_other_user,
        wrong_cookie, no_node, bad_pattern, output_exists, no_folder, usage, no_dump,
        processes_of_nodes, strange_cookie_files, cookie_of_node, option_files, no_connections, removed_folder, foreign_process, strange_folders, not_allowed, tls_refusals, other_port, epmd_port, folder_stays, aborted_wait, aborted_snapshot,
        first_killed, old_code, group_leader_of_node, hidden_cookie, one_name, output_full, output_full_kept,
        named_runtime, no_standard_error, no_listener, moved_node, other_machine].

suite() -> [{timetrap, {minutes, 3}}].

-define(COOKIE, "kymo-attach-test").

init_per_testcase(Case, Config) ->
    Dir = filename:join(?config(priv_dir, Config), Case),
    ok = file:make_dir(Dir),
    Tmp = filename:join(Dir, "tmp"),
    ok = file:make_dir(Tmp),
    [{dir, Dir}, {tmp, Tmp} | Config].

end_per_testcase(_, Config) ->
    _ = os:cmd("umount -l " ++ filename:join(?config(dir, Config), "noexec") ++ " 2>/dev/null"),
    ok.

%% ---- recording -----------------------------------------------------------------------

%% Events of the node are in the recording, and the summary is printed.
record(Config) ->
    {Peer, Node} = node_with_work(Config, []),
    Before = warm_look(Peer, Node, Config),
    Out = sub(Config, rec),
    {0, Text} = run(["--functions", "lists:seq/2", "--for", "300ms", "-o", Out, Node]),
    contains(Text, [Node, "recording", ", 1 function in ", "closed: stopped", "lost         nothing", "kymo why",
                    "kymo: not recorded: messages, scheduling; add --events messages,running\n"]),
    {0, Print} = kymo_cli:run(["print", "-n", "3", "--events", "call", Out]),
    contains(Print, ["lists:seq/2"]),
    %% Calls have durations.
    {0, Returns} = kymo_cli:run(["print", "-n", "3", "--events", "return_to", Out]),
    contains(Returns, ["return_to"]),
    ?assertEqual(8#700, mode(Out)),
    [?assertEqual(8#600, mode(filename:join(Out, Name))) || Name <- ls(Out)],
    %% The node's counters and the reports of its system monitor are recorded.
    ?assertEqual([<<"counters">>, <<"system_monitor">>], notes(Out)),
    %% Unless they are switched off.
    Only = sub(Config, only_calls),
    {0, Said} = run(["--functions", "lists:seq/2", "--events", "calls", "--for", "100ms", "-o", Only,
                     "--counters", "off", "--system-monitor", "off", Node]),
    ?assertEqual(nomatch, string:find(Said, "not recorded")),
    ?assertEqual([], notes(Only)),
    {0, Without} = kymo_cli:run(["print", "-q", "--events", "return_to", Only]),
    ?assertEqual("", unicode:characters_to_list(Without)),
    same(Before, Peer, Config),
    peer:stop(Peer).

notes(Rec) ->
    {0, Json} = kymo_cli:run(["info", "--json", Rec]),
    #{<<"by_event">> := Tags} = kymo_cli:json(unicode:characters_to_list(Json)),
    [Tag || Tag <- [<<"counters">>, <<"system_monitor">>], is_map_key(Tag, Tags)].

%% Only calls that took long are recorded. On a runtime without slow calls nothing is, and the error
%% names what to use instead.
slow(Config) ->
    {Peer, Node} = node_with_work(Config, []),
    Sleep = "F = fun(G) -> timer:sleep(5), timer:sleep(0), G(G) end, F(F).",
    {ok, Tokens, _} = erl_scan:string(Sleep),
    {ok, Exprs} = erl_parse:parse_exprs(Tokens),
    _ = peer:call(Peer, erlang, spawn, [erl_eval, exprs, [Exprs, []]]),
    Out = sub(Config, rec),
    {2, Bad} = run(["--slow", "lists:seq(=1ms", "-o", Out, Node]),
    contains(Bad, ["bad pattern"]),
    Before = warm_look(Peer, Node, Config),
    Args = ["--slow", "timer:sleep/1=1m", "--slow", "timer:sleep/1=3ms", "--slow", "lists:seq/2=1m30s", "--for", "500ms", "-o", Out, Node],
    case erlang:match_spec_test([], [{'_', [], [{slow, 1}]}], trace) of
        {ok, _, _, _} ->
            {0, Text} = run(Args),
            contains(Text, ["2 functions", "See also: kymo print --tree " ++ Out]),
            {0, Print} = kymo_cli:run(["print", "-q", "--json", "--events", "calls,return_to", Out]),
            Calls = [kymo_cli:json(binary_to_list(Line) ++ "\n") || Line <- string:split(Print, "\n", all), Line =/= <<>>],
            ?assert(Calls =/= []),
            [?assertMatch(#{<<"event">> := <<"slow">>, <<"function">> := <<"timer:sleep/1">>, <<"duration_ns">> := Ns} when Ns >= 3000000, C)
             || C <- Calls];
        {error, _} ->
            {6, Text} = run(Args),
            contains(Text, ["does not report slow calls", "--functions instead of --slow", "print --tree --slower TIME"])
    end,
    same(Before, Peer, Config),
    peer:stop(Peer).

%% If the node has not used them before, modules of OTP are loaded on demand, and stay loaded.
only_otp_stays(Config) ->
    {Peer, Node} = node_with_work(Config, []),
    Before = look(Peer, Config),
    {0, _} = run(["--events", "running", "--for", "10ms", "-o", sub(Config, rec), "-q", Node]),
    #{modules := Modules} = settled(Before, Peer, Config, [modules, sessions]),
    Root = peer:call(Peer, code, root_dir, []),
    [?assertEqual({M, true}, {M, in_otp(peer:call(Peer, code, which, [M]), Root)})
     || M <- Modules -- maps:get(modules, Before)],
    peer:stop(Peer).

in_otp(preloaded, _) -> true;
in_otp(File, Root) -> lists:prefix(Root, File).

%% Ctrl-C ends the recording, which is then fetched.
interrupt(Config) ->
    {Peer, Node} = node_with_work(Config, []),
    Before = warm_look(Peer, Node, Config),
    Out = sub(Config, rec),
    Command = start(["--functions", "lists:seq/2", "-o", Out, Node]),
    await_text(Command, "recording"),
    signal("INT", os_pid(Command)),
    {0, _} = kymo_ended(Command),
    {0, Print} = kymo_cli:run(["print", "-n", "1", "--events", "call", Out]),
    contains(Print, ["lists:seq/2"]),
    same(Before, Peer, Config),
    peer:stop(Peer).

%% ---- sessions that end early -----------------------------------------------------------

kill_command(Config) ->
    interrupted(Config, fun(Command, _, _) -> signal("KILL", os_pid(Command)) end).

kill_runtime(Config) ->
    interrupted(Config, fun(Command, _, _) ->
        [Child] = children(os_pid(Command)),
        signal("KILL", Child),
        {6, Text} = kymo_ended(Command),
        contains(Text, ["killed by signal 9"])
    end).

disconnect(Config) ->
    interrupted(Config, fun(Command, Peer, _) ->
        [Hidden] = peer:call(Peer, erlang, nodes, [hidden]),
        true = peer:call(Peer, erlang, disconnect_node, [Hidden]),
        {6, Text} = kymo_ended(Command),
        contains(Text, ["connection to the node was lost"])
    end).

%% The node does not answer: the first Ctrl-C keeps waiting for it, the second one gives up the recording.
second_signal(Config) ->
    {Peer, Node} = node_with_work(Config, []),
    Before = warm_look(Peer, Node, Config),
    Command = start(["--functions", "lists:seq/2", "-o", sub(Config, rec), Node]),
    await_text(Command, "recording"),
    Pid = peer:call(Peer, os, getpid, []),
    signal("STOP", Pid),
    [Child] = children(os_pid(Command)),
    interrupted(Command),
    signal("INT", os_pid(Command)),
    {6, Text} = kymo_ended(Command),
    contains(Text, ["nothing was fetched; when the node goes on, it removes everything"]),
    ?assertEqual(false, filelib:is_dir("/proc/" ++ Child)),
    ?assertEqual(false, filelib:is_file(sub(Config, rec))),
    signal("CONT", Pid),
    same(Before, Peer, Config),
    peer:stop(Peer).

%% Sends a Ctrl-C to a command, and waits until it has taken that.
interrupted(Command) ->
    signal("INT", os_pid(Command)),
    true = kymo_cli:until(fun() -> pending(os_pid(Command)) =:= [] end).

%% The third one kills the part of the command that waits.
third_signal(Config) ->
    {Peer, Node} = node_with_work(Config, []),
    Before = warm_look(Peer, Node, Config),
    Command = start(["--functions", "lists:seq/2", "-o", sub(Config, rec), Node]),
    await_text(Command, "recording"),
    [Child] = children(os_pid(Command)),
    signal("STOP", Child),
    interrupted(Command),
    interrupted(Command),
    signal("INT", os_pid(Command)),
    {6, Text} = kymo_ended(Command),
    contains(Text, ["killed by signal 9"]),
    same(Before, Peer, Config),
    peer:stop(Peer).

%% The command was killed when it was about to fetch the recording: the next one says what is in the node.
unfetched(Config) ->
    {Peer, Node} = node_with_work(Config, []),
    Before = warm_look(Peer, Node, Config),
    Command = start(["--functions", "lists:seq/2", "-o", sub(Config, rec), Node]),
    await_text(Command, "recording"),
    Pid = peer:call(Peer, os, getpid, []),
    signal("STOP", Pid),
    [Child] = children(os_pid(Command)),
    interrupted(Command),
    signal("KILL", os_pid(Command)),
    true = kymo_cli:until(fun() -> not filelib:is_dir("/proc/" ++ Child) end),
    signal("CONT", Pid),
    Again = ["--for", "10ms", "-o", sub(Config, again), Node],
    true = kymo_cli:until(fun() ->
        {6, Text} = run(Again),
        ?assertEqual(nomatch, string:find(Text, "--keep")),
        string:find(Text, "ended before it had fetched its recording") =/= nomatch
    end),
    {0, _} = run(["--detach", Node]),
    {0, _} = run(Again),
    same(Before, Peer, Config),
    peer:stop(Peer).

%% Signals that are pending for a process.
pending(Pid) ->
    {ok, Status} = file:read_file("/proc/" ++ Pid ++ "/status"),
    [L || L <- string:lexemes(binary_to_list(Status), "\n"),
        lists:prefix("ShdPnd", L), string:trim(lists:nthtail(7, L)) =/= "0000000000000000"].

%% The process in the node that owns the recorder is killed.
guard_killed(Config) ->
    interrupted(Config, fun(Command, Peer, _) ->
        First = peer:call(Peer, erlang, whereis, [kymo_attach]),
        {monitors, Monitors} = peer:call(Peer, erlang, process_info, [First, monitors]),
        [true = peer:call(Peer, erlang, exit, [Guard, kill]) || {process, Guard} <- Monitors],
        {6, Text} = kymo_ended(Command),
        contains(Text, ["everything was removed from the node"])
    end).

%% The process that would clean up is killed: another one does.
first_killed(Config) ->
    {Peer, Node} = node_with_work(Config, []),
    Before = warm_look(Peer, Node, Config),
    {0, _} = run(["--keep", "--functions", "lists:seq/2", "-q", Node]),
    true = peer:call(Peer, erlang, exit, [peer:call(Peer, erlang, whereis, [kymo_attach]), kill]),
    same(Before, Peer, Config),
    {0, _} = run(["--functions", "lists:seq/2", "--for", "10ms", "-q", "-o", sub(Config, rec), Node]),
    peer:stop(Peer).

%% Later reports about the recorder go to the node's own logger.
group_leader_of_node(Config) ->
    {Peer, Node} = node_with_work(Config, []),
    {0, _} = run(["--keep", "--events", "running", "-q", Node]),
    [#{recorder := {kymo_recorder, Server, _, _}}] = peer:call(Peer, kymo, list, []),
    {group_leader, Leader} = peer:call(Peer, erlang, process_info, [Server, group_leader]),
    ?assertEqual(full_name(Peer), atom_to_list(node(Leader))),
    {0, _} = run(["--detach", Node]),
    peer:stop(Peer).

%% Something happens while the node is being recorded; afterwards the node must look as before.
interrupted(Config, Happens) ->
    {Peer, Node} = node_with_work(Config, []),
    Before = warm_look(Peer, Node, Config),
    Command = start(["--functions", "lists:seq/2", "--events", "messages", "-o", sub(Config, rec), Node]),
    await_text(Command, "recording"),
    ?assertEqual(true, peer:call(Peer, erlang, module_loaded, [kymo_server])),
    Happens(Command, Peer, Node),
    same(Before, Peer, Config),
    peer:stop(Peer).

%% The session ends with the command, whatever it is waiting for.
aborted_wait(_) ->
    Link = wired(fun(_) -> {answer, none} end),
    self() ! abort,
    ?assertThrow({error, aborted}, kymo_attach_link:call(Link, info)).

%% The command ends while a snapshot is copied: no part of it stays.
aborted_snapshot(Config) ->
    To = sub(Config, snapshot),
    Self = self(),
    Link = wired(fun
        (snapshot) -> {answer, {ok, <<"/there">>}};
        ({files, <<"/there">>}) -> {answer, {ok, [{"meta", 1}]}};
        ({read, <<"/there">>, "meta", 0, 1}) ->
            Self ! abort,
            {answer, none}
    end),
    ?assertThrow({error, aborted}, kymo_attach_snapshot:take(Link, To)),
    ?assertEqual(false, filelib:is_file(To)).

%% A connection to a peer that answers requests so.
wired(Answer) ->
    Node = 'evil@localhost',
    Port = kymo_evil:listen(atom_to_list(Node), ?COOKIE, Answer),
    Client = #{name => "kymo_attach_test@localhost", creation => 1, cookie => ?COOKIE, protocol => {inet, tcp}, port => Port},
    ok = kymo_attach_wire:connect(Node, Client, 10000),
    {Node, kymo_attach_wire:me(Node), kymo_attach_wire:tag(Node), {each, 60000}}.

%% ---- recorders that stay in the node ---------------------------------------------------

keep(Config) ->
    {Peer, Node} = node_with_work(Config, []),
    Before = warm_look(Peer, Node, Config),
    {0, _} = run(["--keep", "--functions", "lists:seq/2", Node]),
    true = kymo_cli:until(fun() -> peer:call(Peer, erlang, nodes, [hidden]) =:= [] end),
    {0, _} = run(["--snapshot", "-o", sub(Config, snap), Node]),
    {0, Print} = kymo_cli:run(["print", "-n", "1", "--events", "call", sub(Config, snap)]),
    contains(Print, ["lists:seq/2"]),
    %% The copy in the node is removed, the recording is kept.
    [Work] = ls(?config(tmp, Config)),
    true = kymo_cli:until(fun() -> ls(filename:join(?config(tmp, Config), Work)) =:= ["recording"] end),
    {0, _} = run(["--detach", "-o", sub(Config, rec), Node]),
    {0, Last} = kymo_cli:run(["print", "-n", "1", "--events", "call", sub(Config, rec)]),
    contains(Last, ["lists:seq/2"]),
    same(Before, Peer, Config),
    {6, Text} = run(["--detach", Node]),
    contains(Text, ["--keep"]),
    peer:stop(Peer).

%% Somebody removes old files while it is recorded: there is nothing to fetch, and nothing stays.
folder_gone(Config) ->
    {Peer, Node} = node_with_work(Config, []),
    Before = warm_look(Peer, Node, Config),
    [begin
         {0, _} = run(["--keep", "--functions", "lists:seq/2", Node]),
         [Work] = ls(?config(tmp, Config)),
         ok = Remove(filename:join(?config(tmp, Config), Work)),
         {6, Text} = run(["--detach", "-o", sub(Config, rec), Node]),
         contains(Text, ["were removed from their folder", "while it was recorded", "kymo was removed from the node", "--node-dir"]),
         ?assertNot(filelib:is_file(sub(Config, rec))),
         same(Before, Peer, Config)
     end || Remove <- [
        fun file:del_dir_r/1,
        fun(Dir) -> file:del_dir_r(filename:join(Dir, "recording")) end,
        fun(Dir) -> lists:foreach(fun(File) -> ok = file:delete(File) end, filelib:wildcard(filename:join(Dir, "recording/*"))) end,
        fun(Dir) -> replaced(filename:join(Dir, "recording"), filename:join(Dir, "x"), Dir) end
     ]],
    peer:stop(Peer).

%% A link is not followed.
replaced(Recording, To, Target) ->
    ok = file:rename(Recording, To),
    file:make_symlink(Target, Recording).

%% Only the files of the recording are fetched.
something_else(Config) ->
    {Peer, Node} = node_with_work(Config, []),
    Before = warm_look(Peer, Node, Config),
    {0, _} = run(["--keep", "--functions", "lists:seq/2", Node]),
    [Work] = ls(?config(tmp, Config)),
    Recording = filename:join([?config(tmp, Config), Work, "recording"]),
    ok = file:make_dir(filename:join(Recording, "folder")),
    ok = file:make_symlink("/etc/passwd", filename:join(Recording, "data.000001")),
    ok = file:write_file(filename:join(Recording, ".hidden file"), "x"),
    {0, _} = run(["--detach", "-o", sub(Config, rec), Node]),
    ?assertEqual(["dict", "meta", "ring"], ls(sub(Config, rec))),
    same(Before, Peer, Config),
    peer:stop(Peer).

%% The files are found again although the node has another current folder and environment.
moved_node(Config) ->
    {Peer, Node} = node_with_work(Config, []),
    [begin
         {0, _} = run(["--keep", "--events", "running", "-q", Node] ++ Options),
         [_] = ls(?config(tmp, Config)),
         ok = peer:call(Peer, file, set_cwd, ["/"]),
         true = peer:call(Peer, os, unsetenv, ["TMPDIR"]),
         {0, _} = run(["--detach", "-o", filename:join(?config(dir, Config), Rec), Node]),
         ?assertEqual([], ls(?config(tmp, Config))),
         ok = peer:call(Peer, file, set_cwd, [?config(dir, Config)])
     end || {Rec, Options} <- [{"a", []}, {"b", ["--node-dir", "tmp"]}]],
    peer:stop(Peer).

several_nodes(Config) ->
    Nodes = [{Peer, Node, warm_look(Peer, Node, Config)} || _ <- [1, 2], {Peer, Node} <- [node_with_work(Config, [])]],
    Out = sub(Config, recs),
    {0, _} = run(["--functions", "lists:seq/2", "--for", "200ms", "-o", Out] ++ [Node || {_, Node, _} <- Nodes]),
    [begin
         {0, Print} = kymo_cli:run(["print", "-n", "1", "--events", "call", filename:join(Out, full_name(Peer))]),
         contains(Print, ["lists:seq/2"]),
         same(Before, Peer, Config),
         peer:stop(Peer)
     end || {Peer, _, Before} <- Nodes].

busy(Config) ->
    {Peer, Node} = node_with_work(Config, []),
    Before = warm_look(Peer, Node, Config),
    Command = start(["--events", "running", "-o", sub(Config, rec), Node]),
    await_text(Command, "recording"),
    {6, Text} = run(["--events", "running", "--for", "10ms", "-o", sub(Config, second), Node]),
    contains(Text, ["another kymo command is attached to the node"]),
    ?assertEqual(false, filelib:is_file(sub(Config, second))),
    %% Another command does not end it, either.
    {6, Text2} = run(["--detach", Node]),
    contains(Text2, ["another kymo command"]),
    {6, Text3} = run(["--snapshot", "-o", sub(Config, snap), Node]),
    contains(Text3, ["another kymo command"]),
    signal("TERM", os_pid(Command)),
    {0, _} = kymo_ended(Command),
    same(Before, Peer, Config),
    peer:stop(Peer).

%% ---- kinds of nodes -----------------------------------------------------------------------

embedded(Config) -> records(Config, ["-mode", "embedded"]).

%% What is the default may be named.
named_protocol(Config) -> records(Config, ["-proto_dist", "inet_tcp"]).

long_names(Config) ->
    {ok, Peer, Name} = start_peer(Config, #{longnames => true, host => "127.0.0.1"}, []),
    records_from(Peer, atom_to_list(Name), [], Config).

%% The node is not registered with any epmd: its port is given.
no_epmd(Config) ->
    {ok, Socket} = gen_tcp:listen(0, []),
    {ok, Number} = inet:port(Socket),
    ok = gen_tcp:close(Socket),
    Port = integer_to_list(Number),
    Kernel = ["-kernel", "inet_dist_listen_min", Port, "inet_dist_listen_max", Port],
    {ok, Peer, Name} = start_peer(Config, #{}, ["-start_epmd", "false", "-erl_epmd_port", Port] ++ Kernel),
    records_from(Peer, atom_to_list(Name), ["--port", Port], Config).

%% Without the options, the error names the ones that are needed.
tls(Config) ->
    #{server_config := Server, client_config := Client} = certificates(),
    File = sub(Config, "dist.conf"),
    ok = file:write_file(File, io_lib:format("~p.~n", [[
        {server, [{verify, verify_none} | Server]}, {client, [{verify, verify_none} | Client]}
    ]])),
    {Peer, Node} = node_with_work(Config, ["-proto_dist", "inet_tls", "-ssl_dist_optfile", File]),
    {6, Text} = run(["--for", "10ms", "-o", sub(Config, rec), Node]),
    Options = ["--proto-dist", "inet_tls", "--ssl-dist-optfile", File],
    contains(Text, [lists:flatten(lists:join(" ", Options))]),
    {0, _} = run(["--events", "running", "--for", "10ms", "-o", sub(Config, warm)] ++ Options ++ ["-q", Node]),
    Before = settled_look(Peer, Config),
    Out = sub(Config, rec),
    {0, _} = run(["--functions", "lists:seq/2", "--for", "300ms", "-o", Out] ++ Options ++ [Node]),
    {0, Print} = kymo_cli:run(["print", "-n", "1", "--events", "call", Out]),
    contains(Print, ["lists:seq/2"]),
    %% OTP replaces the process that accepts TLS connections after each connection.
    After = settled(Before, Peer, Config, [processes, flags, modules]),
    ?assertEqual(length(maps:get(processes, Before)), length(maps:get(processes, After))),
    ?assertEqual([], [F || {_, {flags, [_ | _]} = F} <- maps:get(flags, After)]),
    ?assertEqual([], [M || M <- maps:get(modules, After), lists:prefix("kymo", atom_to_list(M))]),
    peer:stop(Peer).

%% For nodes with short names: those that are made by default are for the name with its domain.
certificates() ->
    Key = {key, {rsa, 2048, 65537}},
    {ok, Name} = inet:gethostname(),
    Host = hd(string:split(Name, ".")),
    Names = #'Extension'{extnID = ?'id-ce-subjectAltName', critical = false, extnValue = [{dNSName, Host}]},
    %% Clients of TLS 1.2 present no certificate that is signed with SHA-1, the default here.
    Both = [Key, {digest, sha256}],
    Chain = #{root => Both, intermediates => [], peer => Both ++ [{extensions, [Names]}]},
    public_key:pkix_test_data(#{server_chain => Chain, client_chain => Chain}).

records(Config, Args) ->
    {Peer, Node} = node_with_work(Config, Args),
    records_from(Peer, Node, [], Config).

records_from(Peer, Node, Options, Config) ->
    work(Peer),
    {0, _} = run(["--functions", "lists:seq/2", "--for", "10ms", "-o", sub(Config, warm)] ++ Options ++ ["-q", Node]),
    Before = settled_look(Peer, Config),
    Out = sub(Config, rec),
    {0, _} = run(["--functions", "lists:seq/2", "--for", "300ms", "-o", Out] ++ Options ++ [Node]),
    {0, Print} = kymo_cli:run(["print", "-n", "1", "--events", "call", Out]),
    contains(Print, ["lists:seq/2"]),
    same(Before, Peer, Config),
    peer:stop(Peer).

%% The node cannot see the files of this side, so the library is sent.
sent_library(Config) ->
    hidden_priv(Config, fun(Peer, Node) ->
        records_from(Peer, Node, [], Config),
        ?assertEqual([], ls(?config(tmp, Config)))
    end, "").

%% The first folder is mounted noexec, so the next one is used.
noexec(Config) ->
    Dir = filename:join(?config(dir, Config), "noexec"),
    ok = file:make_dir(Dir),
    Mount = "mount -t tmpfs -o noexec,size=80m tmpfs " ++ Dir ++ " || exit 9; ",
    hidden_priv(Config, fun(Peer, Node) ->
        records_from(Peer, Node, ["--node-dir", Dir], Config)
    end, Mount).

%% Only one of the usual folders is writable; the library is sent.
read_only(Config) ->
    Usual = [?config(tmp, Config), "/tmp", "/var/tmp"],
    case [Dir || Dir <- Usual, lists:prefix(Dir ++ "/", code:root_dir())] of
        [] -> read_only(Config, Usual);
        [Dir | _] -> {skip, "the runtime is in " ++ Dir ++ ", which the node would not see"}
    end.

read_only(Config, Usual) ->
    Mounts = ["mount -t tmpfs -o ro tmpfs " ++ Dir ++ " || exit 9; " || Dir <- Usual],
    Ours = fun() -> [Name || Name <- ls("/dev/shm"), lists:prefix("kymo-attach-", Name)] end,
    hidden_priv(Config, fun(Peer, Node) ->
        ?assertMatch({error, erofs}, peer:call(Peer, file, make_dir, ["/tmp/kymo_read_only"])),
        Shared = Ours(),
        {0, Text} = run(["--events", "running", "--for", "10ms", "-o", sub(Config, first), Node]),
        contains(Text, ["in /dev/shm/kymo-attach-"]),
        records_from(Peer, Node, [], Config),
        ?assertEqual([], Ours() -- Shared)
    end, lists:append(Mounts)).

%% A folder name that others may have seen is not used a second time: that folder could be
%% theirs.
folder_stays(Config) ->
    Small = filename:join(?config(dir, Config), "noexec"),
    ok = file:make_dir(Small),
    hidden_priv(Config, fun(Peer, Node) ->
        {0, _} = run(["--keep", "--events", "running", "--node-dir", Small, "-q", Node]),
        Tmp = ?config(tmp, Config),
        [Work] = ls(Tmp),
        {ok, [Work]} = peer:call(Peer, file, list_dir, [Small]),
        {ok, Tokens, _} = erl_scan:string(
            "kymo_attach ! {request, self(), t, {library, <<0>>}}, receive {t, A} -> A end."),
        {ok, Exprs} = erl_parse:parse_exprs(Tokens),
        {value, ok, _} = peer:call(Peer, erl_eval, exprs, [Exprs, []]),
        ?assertEqual({ok, [Work]}, peer:call(Peer, file, list_dir, [Small])),
        {0, _} = run(["--detach", Node]),
        ?assertEqual([], ls(Tmp)),
        ?assertEqual({ok, []}, peer:call(Peer, file, list_dir, [Small])),
        peer:stop(Peer)
    end, "mount -t tmpfs -o size=16k tmpfs " ++ Small ++ " || exit 9; ").

%% A node of another OTP release than kymo and the erl that runs the command.
other_release(Config) ->
    case os:getenv("KYMO_OTHER_ERL") of
        false ->
            {skip, "KYMO_OTHER_ERL names no runtime of another release"};
        Erl ->
            {ok, Peer, Name} = start_peer(Config, #{exec => {Erl, []}}, []),
            ?assertNotEqual(erlang:system_info(otp_release), peer:call(Peer, erlang, system_info, [otp_release])),
            %% Modules compiled by this release may be loaded on any release: the node's, and
            %% the command's.
            _ = application:load(kymo),
            {ok, Modules} = application:get_key(kymo, modules),
            [
                begin
                    {M, Code, _} = code:get_object_code(M),
                    ?assertMatch({M, Prepared} when is_reference(Prepared),
                                 {M, peer:call(Peer, erlang, prepare_loading, [M, Code])})
                end
             || M <- Modules
            ],
            records_from(Peer, atom_to_list(Name), [], Config)
    end.

%% The node has a network namespace and a host name of its own, which nothing on this side can
%% resolve.
container(Config) ->
    Script = "hostname kymo-container && ip link set lo up || exit 9; exec \"$@\"",
    case os:cmd("unshare -n -u sh -c 'hostname kymo-container && ip link set lo up && echo can'") of
        "can\n" ->
            Exec = {os:find_executable("unshare"), ["-n", "-u", "sh", "-c", Script, "sh", erl()]},
            {ok, Peer, Name} = start_peer(Config, #{exec => Exec, host => "kymo-container"}, []),
            ?assertMatch("kymo_attach_test_" ++ _, atom_to_list(Name)),
            work(Peer),
            Pid = peer:call(Peer, os, getpid, []),
            {0, _} = run(["--functions", "lists:seq/2", "--for", "10ms", "-q", "-o", sub(Config, warm), "--pid", Pid]),
            Before = settled_look(Peer, Config),
            Out = sub(Config, rec),
            {0, Text} = run(["--functions", "lists:seq/2", "--for", "300ms", "-o", Out, "--pid", Pid]),
            contains(Text, ["@kymo-container"]),
            {0, Print} = kymo_cli:run(["print", "-n", "1", "--events", "call", Out]),
            contains(Print, ["lists:seq/2"]),
            same(Before, Peer, Config),
            peer:stop(Peer);
        _ ->
            {skip, "this user may not make namespaces"}
    end.

%% Two containers of a pod: they share the network, the host name and the IPC namespace, but not
%% their files. Processes are shared too, with shareProcessNamespace, or not.
sidecar(Config) ->
    Namespaces = ["-n", "-u", "-i", "-m", "-p", "--fork", "--mount-proc"],
    Script = "hostname kymo-pod && ip link set lo up && mount -t tmpfs tmpfs " ++ ?config(tmp, Config) ++ " || exit 9; ",
    case kymo_cli:command(os:find_executable("unshare"), Namespaces ++ ["sh", "-c", Script ++ "echo can"]) of
        {0, <<"can\n">>} ->
            Exec = {os:find_executable("unshare"), Namespaces ++ ["sh", "-c", Script ++ "exec \"$@\"", "sh", erl()]},
            {ok, Peer, Name} = start_peer(Config, #{exec => Exec, host => "kymo-pod"}, []),
            work(Peer),
            {0, List} = run(["--list"]),
            [Line] = [L || L <- string:lexemes(binary_to_list(List), "\n"), string:prefix(L, short(Name)) =/= nomatch],
            Pid = lists:nth(2, string:lexemes(Line, " ")),
            Shared = fun(Args) -> in_pod(Pid, ["-p"], [], Config, Args) end,
            Apart = fun(Args) -> in_pod(Pid, [], ["-p", "--fork"], Config, Args) end,
            Record = ["--functions", "lists:seq/2", "--for", "300ms", atom_to_list(Name), "-o"],
            %% The node's process and files as this side sees them.
            Outside = [{os_pid, Pid} | lists:keyreplace(tmp, 1, Config, {tmp, "/proc/" ++ Pid ++ "/root" ++ ?config(tmp, Config)})],
            {0, _} = Shared(Record ++ [sub(Config, warm)]),
            Before = settled_look(Peer, Outside),
            {0, SharedList} = Shared(["--list"]),
            contains(SharedList, [short(Name), "command line of process 1"]),
            {0, Text} = Shared(Record ++ [sub(Config, shared)]),
            contains(Text, ["@kymo-pod"]),
            same(Before, Peer, Outside),
            {0, ApartList} = Apart(["--list"]),
            contains(ApartList, [short(Name)]),
            ?assertEqual(nomatch, string:find(ApartList, "command line")),
            {6, Refused} = Apart(Record ++ [sub(Config, apart)]),
            contains(Refused, ["there is no cookie", "--cookie-file"]),
            Cookie = sub(Config, cookie),
            ok = file:write_file(Cookie, ?COOKIE),
            ok = file:change_mode(Cookie, 8#600),
            {0, _} = Apart(["--cookie-file", Cookie | Record] ++ [sub(Config, apart)]),
            same(Before, Peer, Outside),
            [begin
                 {0, Print} = kymo_cli:run(["print", "-n", "1", "--events", "call", sub(Config, Rec)]),
                 contains(Print, ["lists:seq/2"])
             end || Rec <- [shared, apart]],
            peer:stop(Peer);
        _ ->
            {skip, "this user may not make namespaces"}
    end.

%% Runs the command in the namespaces of the pod of process Pid, with mounts of its own.
in_pod(Pid, Joined, New, Config, Args) ->
    Home = sub(Config, home),
    _ = file:make_dir(Home),
    kymo_cli:command(os:find_executable("nsenter"),
        ["-t", Pid, "-n", "-u", "-i"] ++ Joined ++ ["unshare", "-m"] ++ New ++
            ["sh", "-c", "mount -t proc proc /proc && HOME=" ++ Home ++ " && export HOME && exec \"$@\"", "sh",
                kymo:cli_path(), "attach", "--erl", erl() | Args]).

short(Name) -> hd(string:split(atom_to_list(Name), "@")).

%% Root attaches to a node of another user: files in the node belong to that user, fetched files
%% to root.
other_user(Config) ->
    SetPriv = "setpriv --reuid=65534 --regid=65534 --clear-groups ",
    case os:cmd(SetPriv ++ "test -x " ++ erl() ++ " && echo can") of
        "can\n" ->
            Exec = {os:find_executable("setpriv"), tl(string:lexemes(SetPriv, " ")) ++ [erl()]},
            %% That user may have no access to the folders of this test.
            Tmp = "/tmp/kymo_attach_test_" ++ os:getpid(),
            ok = file:make_dir(Tmp),
            ok = file:change_mode(Tmp, 8#777),
            Env = [{"ERL_LIBS", ""}, {"TMPDIR", Tmp}, {"HOME", "/nowhere"}],
            {ok, Peer, Name} = start_peer(Config, #{exec => Exec, env => Env}, []),
            {0, List} = run(["--list"]),
            [Line] = [L || L <- string:lexemes(binary_to_list(List), "\n"),
                string:find(L, hd(string:split(atom_to_list(Name), "@"))) =/= nomatch],
            ?assertNotEqual("root", lists:nth(3, string:lexemes(Line, " "))),
            records_from(Peer, atom_to_list(Name), [], lists:keystore(tmp, 1, Config, {tmp, Tmp})),
            ok = file:del_dir(Tmp),
            {ok, Info} = file:read_file_info(filename:join(sub(Config, rec), "meta")),
            ?assertEqual(0, Info#file_info.uid);
        _ ->
            {skip, "this user may not start a node as another one"}
    end.

%% The recorder ends by itself, and its recording stays until it is fetched.
keep_for(Config) ->
    {Peer, Node} = node_with_work(Config, []),
    Before = warm_look(Peer, Node, Config),
    {0, Text} = run(["--keep", "--for", "2s", "--functions", "lists:seq/2", Node]),
    contains(Text, ["--detach"]),
    true = kymo_cli:until(fun() ->
        [State || #{state := State} <- peer:call(Peer, kymo, list, [])] =:= [closed]
    end),
    {0, _} = run(["--detach", "-o", sub(Config, rec), Node]),
    {0, Info} = kymo_cli:run(["info", sub(Config, rec)]),
    contains(Info, ["limit"]),
    same(Before, Peer, Config),
    peer:stop(Peer).

pid_errors(Config) ->
    Cat = open_port({spawn_executable, os:find_executable("cat")}, []),
    {6, NoRuntime} = run(["--pid", os_pid(Cat), "--for", "1ms", "-o", sub(Config, rec)]),
    port_close(Cat),
    contains(NoRuntime, ["process", "not an Erlang runtime"]),
    %% The runtime that runs this test has no node name.
    {6, NoName} = run(["--pid", os:getpid(), "--for", "1ms", "-o", sub(Config, rec)]),
    contains(NoName, ["-sname"]).

%% On a terminal: events, losses, the cost of tracing, and what the budget has shed.
progress_line(Config) ->
    {Peer, Node} = node_with_work(Config, []),
    Command = lists:flatten(lists:join(" ", [
        "stty rows 24 cols 200; exec", kymo:cli_path(), "attach --erl", erl(), "--functions lists:_/_", "--budget 1/s", "-o", sub(Config, rec), Node])),
    Port = open_port({spawn_executable, os:find_executable("script")},
        [{args, ["-q", "-e", "-c", Command, "/dev/null"]}, exit_status, binary, use_stdio, hide]),
    Text = until_text(Port, "shed lists:[a-z_]+/[0-9] and [0-9]+ more"),
    ?assertMatch({match, _}, re:run(Text, "[0-9]+ s  [0-9]+ events  [0-9]+/s  0 lost  [0-9]+ MiB  cost [0-9]+[.][0-9] %")),
    port_command(Port, [3]),
    {0, _} = kymo_ended(Port),
    peer:stop(Peer).

%% Each Enter takes a snapshot. Ctrl-C leaves the recorder running, as does Ctrl-D.
keep_with_snapshots(Config) ->
    {Peer, Node} = node_with_work(Config, []),
    Before = warm_look(Peer, Node, Config),
    Out = sub(Config, snapshots),
    Command = start(["--keep", "--functions", "lists:seq/2", "-o", Out, Node]),
    await_text(Command, "Enter copies a snapshot"),
    port_command(Command, "\n"),
    await_text(Command, "snapshot in " ++ filename:join(Out, "snapshot-1")),
    port_command(Command, "\n"),
    await_text(Command, "snapshot-2"),
    ?assertEqual(["snapshot-1", "snapshot-2"], ls(Out)),
    %% The copies of the snapshots in the node are removed.
    [Work] = ls(?config(tmp, Config)),
    true = kymo_cli:until(fun() -> ls(filename:join(?config(tmp, Config), Work)) =:= ["recording"] end),
    signal("INT", os_pid(Command)),
    {0, Text} = kymo_ended(Command),
    contains(Text, ["the recorder stays"]),
    [begin
         ?assertEqual(8#700, mode(filename:join(Out, Name))),
         {0, Print} = kymo_cli:run(["print", "-n", "1", "--events", "call", filename:join(Out, Name)]),
         contains(Print, ["lists:seq/2"])
     end || Name <- ls(Out)],
    ?assertMatch([#{state := active} | _], peer:call(Peer, kymo, list, [])),
    {0, _} = run(["--detach", Node]),
    same(Before, Peer, Config),
    %% On a terminal.
    Typed = lists:flatten(lists:join(" ", ["exec", kymo:cli_path(), "attach --erl", erl(), "--keep --functions lists:seq/2 -o",
        sub(Config, typed), Node])),
    Port = open_port({spawn_executable, os:find_executable("script")},
        [{args, ["-q", "-e", "-c", Typed, "/dev/null"]}, exit_status, binary, use_stdio, hide]),
    await_text(Port, "Enter copies a snapshot"),
    port_command(Port, [4]),
    {0, Said} = kymo_ended(Port),
    contains(Said, ["the recorder stays"]),
    {0, _} = run(["--detach", Node]),
    same(Before, Peer, Config),
    peer:stop(Peer).

%% The end of other input ends nothing: the command goes on to copy snapshots of triggers.
keep_without_input(Config) ->
    {Peer, Node} = node_with_work(Config, []),
    Before = warm_look(Peer, Node, Config),
    Out = sub(Config, caught),
    Input = fun(Redirected, Args) ->
        ["-c", "exec \"$@\" " ++ Redirected, "sh", kymo:cli_path(), "attach", "--erl", erl(), "--keep" | Args] ++ [Node]
    end,
    Lines = sub(Config, lines),
    ok = file:write_file(Lines, "\n\n"),
    [begin
         Command = open_port({spawn_executable, "/bin/sh"},
             [{args, Input(Redirected, ["--events", "procs", "--trigger", "exit,for_kymo", "-o", Out])},
                 exit_status, stderr_to_stdout, binary, use_stdio, hide]),
         await_text(Command, Text),
         _ = exits(Peer, "for_kymo"),
         await_text(Command, "exit,for_kymo fired; snapshot in "),
         signal("TERM", os_pid(Command)),
         {0, Said} = kymo_ended(Command),
         contains(Said, ["the recorder stays"]),
         {0, _} = run(["--detach", Node]),
         ok = file:del_dir_r(Out)
     end || {Redirected, Text} <- [{"</dev/null", "Enter copies"}, {"<&-", "Enter copies"}, {"<" ++ Lines, "snapshot-2"}]],
    %% With --for, until the recording has ended.
    {0, Text} = kymo_cli:command("/bin/sh", Input("</dev/null", ["--for", "2s", "--events", "procs", "-o", Out])),
    contains(Text, ["the recorder stays"]),
    ?assertMatch([#{state := closed}], peer:call(Peer, kymo, list, [])),
    {0, _} = run(["--detach", Node]),
    same(Before, Peer, Config),
    peer:stop(Peer).

%% Neither a lost connection nor a killed command ends a recorder that was started with --keep.
keep_lost(Config) ->
    {Peer, Node} = node_with_work(Config, []),
    Before = warm_look(Peer, Node, Config),
    [begin
         Command = start(["--keep", "--functions", "lists:seq/2", "-o", sub(Config, "out" ++ integer_to_list(Status)), Node]),
         await_text(Command, "Enter copies a snapshot"),
         End(Command),
         {Status, Text} = kymo_ended(Command),
         contains(Text, Parts),
         true = kymo_cli:until(fun() -> peer:call(Peer, erlang, nodes, [hidden]) =:= [] end),
         ?assertMatch([#{state := active} | _], peer:call(Peer, kymo, list, [])),
         {0, _} = run(["--detach", Node]),
         same(Before, Peer, Config)
     end || {Status, Parts, End} <- [
        {6, ["the recorder stays there", "--detach"], fun(_) ->
            [Hidden] = peer:call(Peer, erlang, nodes, [hidden]),
            true = peer:call(Peer, erlang, disconnect_node, [Hidden])
        end},
        {137, [], fun(Command) -> signal("KILL", os_pid(Command)) end}]],
    peer:stop(Peer).

%% The command evaluates the triggers outside the node; the snapshot contains what fired.
triggers(Config) ->
    {Peer, Node} = node_with_work(Config, []),
    Before = warm_look(Peer, Node, Config),
    Out = sub(Config, rec),
    Command = start(["--functions", "lists:seq/2", "--trigger", "exit,for_kymo", "--trigger", "call,lists:seq/2,1h", "-o", Out, Node]),
    await_text(Command, "recording"),
    Pid = exits(Peer, "for_kymo"),
    await_text(Command, "exit,for_kymo fired; snapshot in " ++ Out ++ ".triggered/"),
    signal("INT", os_pid(Command)),
    {0, _} = kymo_ended(Command),
    [Name] = ls(Out ++ ".triggered"),
    Snapshot = filename:join(Out ++ ".triggered", Name),
    ?assertEqual({8#700, 8#700}, {mode(Out ++ ".triggered"), mode(Snapshot)}),
    {0, Exits} = kymo_cli:run(["print", "-q", "--events", "exit", "--pid", Pid, Snapshot]),
    contains(Exits, ["for_kymo"]),
    {0, Info} = kymo_cli:run(["info", Snapshot]),
    contains(Info, ["fired", "exit,for_kymo"]),
    {ok, Json} = file:read_file(filename:join(Snapshot, "firing.json")),
    contains(Json, ["\"held\":true"]),
    {0, _} = kymo_cli:run(["info", Out]),
    same(Before, Peer, Config),
    peer:stop(Peer).

%% Without a cool-down, until the limit is reached; the newest snapshots are kept.
trigger_limits(Config) ->
    {Peer, Node} = node_with_work(Config, []),
    Out = sub(Config, rec),
    Command = start(["--functions", "lists:seq/2", "--trigger", "exit,for_kymo*", "--cooldown", "0s", "--max", "3",
        "--keep-snapshots", "2", "--keep-bytes", "infinity", "-o", Out, Node]),
    await_text(Command, "recording"),
    [begin
         Pid = exits(Peer, "for_kymo" ++ N),
         await_text(Command, "fired; snapshot in"),
         ?assertMatch([_ | _], Pid)
     end || N <- ["1", "2"]],
    Last = exits(Peer, "for_kymo3"),
    await_text(Command, "taken 3 snapshots and take no more (--max)"),
    _ = exits(Peer, "for_kymo4"),
    signal("INT", os_pid(Command)),
    {0, _} = kymo_ended(Command),
    [_, Newest] = lists:sort(ls(Out ++ ".triggered")),
    {0, Exits} = kymo_cli:run(["print", "-q", "--events", "exit", "--pid", Last, filename:join(Out ++ ".triggered", Newest)]),
    contains(Exits, ["for_kymo3"]),
    peer:stop(Peer).

%% Firings that come faster than snapshots can be copied do not delay the end.
triggers_flood(Config) ->
    {Peer, Node} = node_with_work(Config, []),
    Before = warm_look(Peer, Node, Config),
    Out = sub(Config, rec),
    Command = start(["--events", "procs", "--trigger", "exit,for_kymo", "--cooldown", "0s", "--max", "infinity",
        "--keep-snapshots", "1", "-o", Out, Node]),
    await_text(Command, "recording"),
    {ok, Tokens, _} = erl_scan:string("[spawn(fun() -> exit(for_kymo) end) || _ <- lists:seq(1, 3000)]."),
    {ok, Exprs} = erl_parse:parse_exprs(Tokens),
    _ = peer:call(Peer, erl_eval, exprs, [Exprs, []]),
    await_text(Command, "fired; snapshot in"),
    signal("INT", os_pid(Command)),
    {0, Text} = kymo_ended(Command),
    contains(Text, ["firings came faster than snapshots can be copied", "--cooldown"]),
    ?assertMatch([_], ls(Out ++ ".triggered")),
    same(Before, Peer, Config),
    peer:stop(Peer).

keep_with_triggers(Config) ->
    {Peer, Node} = node_with_work(Config, []),
    Out = sub(Config, caught),
    Command = start(["--keep", "--events", "messages", "--trigger", "exit,for_kymo", "-o", Out, Node]),
    await_text(Command, "Enter copies a snapshot"),
    _ = exits(Peer, "for_kymo"),
    await_text(Command, "fired; snapshot in "),
    port_command(Command, "\n"),
    await_text(Command, "snapshot-1"),
    signal("TERM", os_pid(Command)),
    {0, _} = kymo_ended(Command),
    ?assertMatch([_, "snapshot-1"], ls(Out)),
    {0, _} = run(["--detach", Node]),
    peer:stop(Peer).

%% A process of the node that exits with this reason.
exits(Peer, Reason) ->
    Pid = peer:call(Peer, erlang, spawn, [erlang, exit, [list_to_atom(Reason)]]),
    peer:call(Peer, erlang, pid_to_list, [Pid]).

%% The node's recording cannot be read from this machine.
triggers_unseen(Config) ->
    {Peer, Node} = node_with_work(Config, []),
    Before = warm_look(Peer, Node, Config),
    Mount = "mount -t tmpfs tmpfs " ++ ?config(tmp, Config),
    Result = case os:cmd("unshare -m sh -c '" ++ Mount ++ " && echo can'") of
        "can\n" ->
            %% The command sees another folder of that name, and none of the node's processes.
            %% unshare can start nothing when it ends, so it must not look for leaks then.
            Leaks = "ASAN_OPTIONS=" ++ os:getenv("ASAN_OPTIONS", "") ++ ":detect_leaks=0",
            {6, Text} = kymo_cli:command(os:find_executable("env"), [Leaks, "unshare", "-m", "-p", "--fork", "--mount-proc", "sh", "-c",
                Mount ++ " && \"$@\"", "sh", kymo:cli_path(), "attach", "--erl", erl(), "--cookie", ?COOKIE,
                "--trigger", "exit,_", "-o", sub(Config, rec), Node]),
            contains(Text, ["can't be seen from here"]),
            ?assertEqual(false, filelib:is_file(sub(Config, rec))),
            same(Before, Peer, Config);
        _ ->
            {skip, "this user may not mount file systems"}
    end,
    peer:stop(Peer),
    Result.

trigger_refusals(Config) ->
    Out = sub(Config, rec),
    [begin
         {2, Text} = run_with_cookie(Args),
         contains(Text, Parts)
     end || {Args, Parts} <- [
        {["--trigger", "call,lists:seq/2,1ms", "-o", Out, "a@b"], ["--functions"]},
        {["--trigger", "nonsense,1", "-o", Out, "a@b"], ["--trigger"]},
        {["--trigger", "exit,_", "--keep", "a@b"], ["-o DIR"]},
        {["--trigger", "exit,_", "--print", "-o", Out], ["--print"]},
        {["--trigger", "exit,_", "--detach", "a@b"], ["--detach"]},
        {["--trigger", "stopped,1s", "--counters", "off", "-o", Out, "a@b"], ["leave out --counters off"]},
        {["--trigger", "reported,_", "--system-monitor", "off", "-o", Out, "a@b"], ["leave out --system-monitor off"]},
        {["--max", "3", "-o", Out, "a@b"], ["--max limits", "add --trigger"]},
        {["--cooldown", "soon", "--trigger", "exit,_", "-o", Out, "a@b"], ["--cooldown takes a time", "soon"]},
        {["--cooldown", "1000h", "--trigger", "exit,_", "-o", Out, "a@b"], ["--cooldown takes a time"]},
        {["--max", "0", "--trigger", "exit,_", "-o", Out, "a@b"], ["--max takes a number from 1 on, or infinity, not '0'"]},
        {["--keep-snapshots", "all", "--trigger", "exit,_", "-o", Out, "a@b"], ["--keep-snapshots takes a number"]},
        {["--keep-bytes", "-1", "--trigger", "exit,_", "-o", Out, "a@b"], ["--keep-bytes takes a number"]}]].

%% ---- kymo top NODE, kymo live NODE ---------------------------------------------------------

%% One window that covers a whole second of the node's work.
top_node(Config) ->
    {Peer, Node} = node_with_work(Config, []),
    Before = warm_look(Peer, Node, Config),
    {0, Text} = show(top, ["--functions", "lists:seq/2", "--once", "--json", Node]),
    [Said, Json] = string:split(Text, "\n"),
    contains(Said, [Node, "recording"]),
    #{<<"functions">> := [#{<<"function">> := <<"lists:seq/2">>, <<"calls">> := Calls}], <<"from_ns">> := From, <<"to_ns">> := To} =
        kymo_cli:json(binary_to_list(Json)),
    ?assert(Calls > 0),
    ?assert(To - From > 500_000_000),
    %% With -q, only the window is printed.
    {0, Quiet} = show(top, ["-q", "--functions", "lists:seq/2", "--once", "--json", Node]),
    ?assertMatch(#{<<"functions">> := [_]}, kymo_cli:json(binary_to_list(Quiet))),
    same(Before, Peer, Config),
    peer:stop(Peer).

%% The first window has all that was recorded in it: 200 samples of the counters, unless the
%% machine is busy.
top_first_window(Config) ->
    {Peer, Node} = node_with_work(Config, []),
    {0, Text} = show(top, ["--counters", "10ms", "-d", "2s", "--once", "--json", Node]),
    [_, Json] = string:split(Text, "\n"),
    #{<<"counters">> := #{<<"run_queue">> := #{<<"values">> := Values}}} = kymo_cli:json(binary_to_list(Json)),
    ?assert(Values > 20),
    peer:stop(Peer).

%% On a terminal: messages that are produced while the screen is shown are printed after it.
top_screen(Config) ->
    {Peer, Node} = node_with_work(Config, []),
    Before = warm_look(Peer, Node, Config),
    Command = lists:flatten(lists:join(" ", ["stty rows 24 cols 100; exec", kymo:cli_path(), "top -d 100ms --erl", erl(), "--functions lists:seq/2", Node])),
    Port = open_port({spawn_executable, os:find_executable("script")},
        [{args, ["-q", "-e", "-c", Command, "/dev/null"]}, exit_status, binary, use_stdio, hide, {env, [{"TERM", "xterm"}]}]),
    _ = until_text(Port, "q quit.*lists:seq/2"),
    [Hidden] = peer:call(Peer, erlang, nodes, [hidden]),
    true = peer:call(Peer, erlang, disconnect_node, [Hidden]),
    {Status, Text} = kymo_ended(Port),
    ?assert(lists:member(Status, [3, 6])),
    [_, After] = string:split(Text, "\e[?1049l"),
    contains(After, [Node ++ ": the connection to the node was lost"]),
    same(Before, Peer, Config),
    peer:stop(Peer).

live_node(Config) ->
    {Peer, Node} = node_with_work(Config, []),
    Before = warm_look(Peer, Node, Config),
    Command = start_show(live, ["--functions", "lists:seq/2", "--last", "1h", Node]),
    Text = until_text(Command, "http://127.0.0.1:[0-9]+/[0-9a-f]+/\n"),
    {match, [Host, Path]} = re:run(Text, "http://(127[0-9.:]+)(/[0-9a-f]+/)", [{capture, [1, 2], list}]),
    [_, Number] = string:split(Host, ":"),
    true = kymo_cli:until(fun() ->
        {ok, Socket} = gen_tcp:connect("127.0.0.1", list_to_integer(Number), [binary, {active, false}]),
        ok = gen_tcp:send(Socket, ["GET ", Path, "data HTTP/1.1\r\nHost: ", Host, "\r\n\r\n"]),
        string:find(read_all(Socket), "lists:seq/2") =/= nomatch
    end),
    signal("INT", os_pid(Command)),
    {0, _} = kymo_ended(Command),
    same(Before, Peer, Config),
    peer:stop(Peer).

read_all(Socket) ->
    case gen_tcp:recv(Socket, 0, 30000) of
        {ok, Data} -> <<Data/binary, (read_all(Socket))/binary>>;
        {error, closed} -> <<>>
    end.

%% The node looks as before, whichever way the commands end.
show_ends(Config) ->
    {Peer, Node} = node_with_work(Config, []),
    Before = warm_look(Peer, Node, Config),
    Pid = fun(Command) -> os_pid(Command) end,
    Child = fun(Command) -> [C] = children(os_pid(Command)), C end,
    [begin
         Command = start_show(What, Args ++ ["--functions", "lists:seq/2", Node]),
         _ = until_text(Command, Pattern),
         ?assertEqual(true, peer:call(Peer, erlang, module_loaded, [kymo_server])),
         signal(Signal, Of(Command)),
         {Status, _} = kymo_ended(Command),
         ?assert(lists:member(Status, Statuses), {What, Signal, Status}),
         same(Before, Peer, Config)
     end || {What, Args, Pattern} <- [{top, ["--json", "-d", "100ms"], "\\{"}, {live, [], "http://"}],
            {Signal, Of, Statuses} <- [{"INT", Pid, [0]}, {"TERM", Pid, [0]}, {"HUP", Pid, [0, 129]}, {"KILL", Pid, [137]}]
                ++ [{"KILL", Child, [3, 6]} || What =:= top]],
    peer:stop(Peer).

%% A recorder that was left in the node is shown, and keeps running.
show_kept(Config) ->
    {Peer, Node} = node_with_work(Config, []),
    {0, _} = run(["--keep", "--functions", "lists:seq/2", "-q", Node]),
    {0, Text} = show(top, ["--once", "--json", Node]),
    contains(Text, ["left there with --keep", "lists:seq/2"]),
    %% But not if other options are given.
    {6, Busy} = show(top, ["--once", "--functions", "lists:map/2", Node]),
    contains(Busy, ["already attached to the node", "--detach"]),
    ?assertMatch([#{state := active}], peer:call(Peer, kymo, list, [])),
    {0, _} = run(["--detach", Node]),
    peer:stop(Peer).

%% The node's files are visible in its own mount namespace, not in this one.
show_container(Config) ->
    Hidden = filename:join(?config(dir, Config), "noexec"),
    ok = file:make_dir(Hidden),
    hidden_priv(Config, fun(Peer, Node) ->
        work(Peer),
        {0, Text} = show(top, ["--functions", "lists:seq/2", "--once", "--json", "--node-dir", Hidden, Node]),
        contains(Text, [Hidden, "\"lists:seq/2\""]),
        ?assertEqual({ok, []}, peer:call(Peer, file, list_dir, [Hidden])),
        peer:stop(Peer)
    end, "mount -t tmpfs -o size=80m tmpfs " ++ Hidden ++ " || exit 9; ").

show_refusals(Config) ->
    [begin
         {Status, Text} = kymo_cli:run(Args),
         ?assertEqual({Args, 2}, {Args, Status}),
         contains(Text, Parts)
     end || What <- ["top", "live"],
            {Args, Parts} <- [
                {[What], ["one recording or one node"]},
                {[What, "a@b", "c@d"], ["not 2"]},
                {[What, "--pid", "1", "a@b"], ["--pid"]},
                {[What, "--functions", "lists:seq/2", ?config(dir, Config)], ["is no node", "name@host"]},
                {[What, "--node-port", "0", "a@b"], ["1 to 65535"]},
                {[What, "--policy", "discard", "a@b"], ["help " ++ What]},
                {[What, "--erl", erl(), "nonode@nohost"], ["not the name of a node"]}]],
    {3, NoHost} = kymo_cli:run(["top", "--once", "no_such_node"]),
    contains(NoHost, ["there is no recording 'no_such_node'", "no_such_node@localhost"]),
    {6, Text} = show(top, ["--cookie", "c", "--node-port", "1", "a@localhost"]),
    contains(Text, ["no node listens"]).

show(What, Args) -> kymo_cli:run([atom_to_list(What), "--erl", erl() | Args]).

start_show(What, Args) ->
    open_port(
        {spawn_executable, kymo:cli_path()},
        [{args, [atom_to_list(What), "--erl", erl() | Args]}, exit_status, stderr_to_stdout, binary, use_stdio, hide]
    ).

until_text(Port, Pattern) -> until_text(Port, Pattern, <<>>).

until_text(Port, Pattern, Got) ->
    case re:run(Got, Pattern, [dotall]) of
        nomatch ->
            receive
                {Port, {data, Data}} -> until_text(Port, Pattern, <<Got/binary, Data/binary>>);
                {Port, {exit_status, Status}} -> error({ended, Status, Got})
            end;
        _ ->
            Got
    end.

%% Runs a node in a mount namespace of its own, in which the folder with the library is hidden.
hidden_priv(Config, Fun, More) ->
    Script = "mount -t tmpfs tmpfs " ++ priv() ++ " || exit 9; " ++ More ++ "exec \"$@\"",
    case os:cmd("unshare -m sh -c '" ++ "mount -t tmpfs tmpfs " ++ priv() ++ " && echo can'") of
        "can\n" ->
            Exec = {os:find_executable("unshare"), ["-m", "sh", "-c", Script, "sh", erl()]},
            {ok, Peer, Name} = start_peer(Config, #{exec => Exec}, []),
            Fun(Peer, atom_to_list(Name));
        _ ->
            {skip, "this user may not mount file systems"}
    end.

%% A node that has loaded the same kymo keeps it, and keeps its recorders.
own_kymo(Config) ->
    {Peer, Node} = node_with_work(Config, ["-pa", filename:dirname(code:which(kymo))]),
    Own = #{dir => sub(Config, own), owner => none, name => own, memory => 8 bsl 20},
    {ok, _} = peer:call(Peer, kymo, start, [Own]),
    Before = warm_look(Peer, Node, Config),
    {0, _} = run(["--functions", "lists:seq/2", "--for", "10ms", "-q", "-o", sub(Config, rec), Node]),
    same(Before, Peer, Config),
    ?assertMatch(#{state := active}, peer:call(Peer, kymo, info, [own])),
    peer:stop(Peer).

%% Another build of kymo that is in use is not replaced.
other_kymo(Config) ->
    {Peer, Node} = node_with_work(Config, []),
    {ok, kymo_folder, Code} = compile:forms([{attribute, 1, module, kymo_folder}], []),
    {module, kymo_folder} = peer:call(Peer, code, load_binary, [kymo_folder, "kymo_folder.beam", Code]),
    {6, Text} = run(["--events", "running", "--for", "10ms", "-o", sub(Config, rec), Node]),
    contains(Text, ["another build", "kymo_folder"]),
    true = kymo_cli:until(fun() -> not peer:call(Peer, erlang, module_loaded, [kymo_attach_node]) end),
    ?assertEqual([kymo_folder], [M || M <- peer:call(Peer, erlang, loaded, []), lists:prefix("kymo", atom_to_list(M))]),
    peer:stop(Peer).

%% A process that still runs old code of kymo is not killed.
old_code(Config) ->
    {Peer, Node} = node_with_work(Config, []),
    {ok, Tokens, _} = erl_scan:string("f() -> receive stop -> ok end."),
    {ok, Function} = erl_parse:parse_form(Tokens),
    {ok, kymo_folder, Code} = compile:forms(
        [{attribute, 1, module, kymo_folder}, {attribute, 1, export, [{f, 0}]}, Function], []),
    {module, kymo_folder} = peer:call(Peer, code, load_binary, [kymo_folder, "kymo_folder.beam", Code]),
    Old = peer:call(Peer, erlang, spawn, [kymo_folder, f, []]),
    true = peer:call(Peer, code, delete, [kymo_folder]),
    {6, Text} = run(["--events", "running", "--for", "10ms", "-o", sub(Config, rec), Node]),
    contains(Text, ["kymo_folder", "code:purge"]),
    ?assert(peer:call(Peer, erlang, is_process_alive, [Old])),
    peer:stop(Peer).

%% ---- --print -----------------------------------------------------------------------------

list(Config) ->
    {Peer, Node} = node_with_work(Config, []),
    {0, Text} = run(["--list"]),
    [Name, _] = string:split(Node, "@"),
    [Line] = [L || L <- string:lexemes(binary_to_list(Text), "\n"), hd(string:lexemes(L, " ")) =:= Name],
    [Name, Pid, _User, Port | _] = string:lexemes(Line, " "),
    ?assertEqual(peer:call(Peer, os, getpid, []), Pid),
    {ok, Registered} = erl_epmd:names("localhost"),
    ?assertEqual({Name, list_to_integer(Port)}, lists:keyfind(Name, 1, Registered)),
    contains(Line, ["command line of process " ++ Pid]),
    peer:stop(Peer).

%% The name is not on the command line: the distribution was started later, as RabbitMQ does. The
%% node and its cookie are found by the port that is registered with epmd.
list_late_name(Config) ->
    Home = sub(Config, home),
    ok = file:make_dir(Home),
    ok = file:write_file(filename:join(Home, ".erlang.cookie"), "of_late_name"),
    ok = file:change_mode(filename:join(Home, ".erlang.cookie"), 8#400),
    {ok, Peer, nonode@nohost} = peer:start(#{
        connection => standard_io, env => [{"ERL_LIBS", ""}, {"HOME", Home}, {"TMPDIR", ?config(tmp, Config)}], wait_boot => 60000
    }),
    Pid = peer:call(Peer, os, getpid, []),
    Name = "kymo_late_" ++ os:getpid(),
    {ok, _} = peer:call(Peer, net_kernel, start, [[list_to_atom(Name ++ "@localhost"), shortnames]]),
    {0, Text} = run(["--list"]),
    [Line] = [L || L <- string:lexemes(binary_to_list(Text), "\n"), hd(string:lexemes(L, " ")) =:= Name],
    [Name, Pid, _User, _Port | _] = string:lexemes(Line, " "),
    contains(Line, [Home]),
    work(Peer),
    Out = sub(Config, rec),
    {0, _} = run(["--functions", "lists:seq/2", "--for", "300ms", "-q", "-o", Out, Name ++ "@localhost"]),
    {0, Print} = kymo_cli:run(["print", "-n", "1", "--events", "call", Out]),
    contains(Print, ["lists:seq/2"]),
    peer:stop(Peer).

%% --erl names a program that ends at once and says nothing.
no_erl(Config) ->
    {6, Text} = kymo_cli:run(["attach", "--erl", "/bin/false", "-o", sub(Config, rec), "a@b"]),
    contains(Text, ["/bin/false ended with status 1", "--erl"]).

%% The printed code is evaluated in a shell of the node.
print(Config) ->
    {Peer, _} = node_with_work(Config, []),
    Out = sub(Config, rec),
    {0, Text} = run(["--print", "--functions", "lists:seq/2", "--for", "1m", "-o", Out]),
    {ok, Tokens, _} = erl_scan:string(binary_to_list(Text)),
    {ok, Exprs} = erl_parse:parse_exprs(Tokens),
    {value, {ok, #{functions := 1}}, _} = peer:call(Peer, erl_eval, exprs, [Exprs, []]),
    {ok, _} = peer:call(Peer, kymo, stop, [attach]),
    {0, Info} = kymo_cli:run(["info", Out]),
    contains(Info, ["limit        60.000000000 s"]),
    %% Times are in microseconds there, and the shortest of a pattern applies.
    {0, Slow} = run(["--print", "--slow", "lists:seq(_, X) when X =:= 2=1.5us", "--slow", "lists:sort/1=1s", "--slow", "lists:sort/1=10ms", "-o", Out]),
    contains(Slow, ["\"lists:seq(_, X) when X =:= 2\" => 2", "\"lists:sort/1\" => 10000", "events => []"]),
    peer:stop(Peer).

list_recorders(Config) ->
    {Peer, Node} = node_with_work(Config, []),
    {0, None} = run(["--list-recorders", Node]),
    ?assertEqual(Node ++ ":\n  no recorders\n", binary_to_list(None)),
    {0, _} = run(["--keep", "--events", "running", "-q", Node]),
    {0, Text} = run(["--list-recorders", Node]),
    contains(Text, ["active", "overwrite", ?config(tmp, Config)]),
    {0, _} = run(["--detach", Node]),
    peer:stop(Peer),
    {ok, Own, Name} = start_peer(Config, #{}, ["-pa", filename:dirname(code:which(kymo))]),
    [There, Gone] = [begin
         Dir = sub(Config, Sub),
         {ok, R} = peer:call(Own, kymo, start, [#{dir => Dir, owner => none}]),
         {ok, _} = peer:call(Own, kymo, stop, [R]),
         Dir
     end || Sub <- [there, gone]],
    ok = file:del_dir_r(Gone),
    {0, Ended} = run(["--list-recorders", atom_to_list(Name)]),
    contains(Ended, ["closed", There]),
    ?assertEqual(nomatch, string:find(Ended, Gone)),
    peer:stop(Own).

%% A user who cannot read the cookie of the node's user learns whose node it is.
node_of_other_user(Config) ->
    SetPriv = ["--reuid=65534", "--regid=65534", "--clear-groups"],
    case os:cmd("setpriv " ++ lists:join(" ", SetPriv) ++ " sh -c 'test -x " ++ kymo:cli_path() ++ " && test -x " ++ erl() ++
                "' && echo can") of
        "can\n" ->
            Home = sub(Config, home),
            ok = file:make_dir(Home),
            ok = file:change_mode(Home, 8#700),
            {ok, Peer, Node} = start_peer(Config, #{args => [], env => [{"ERL_LIBS", ""}, {"HOME", Home}]}, []),
            {6, Text} = kymo_cli:command(os:find_executable("setpriv"),
                SetPriv ++ ["env", "HOME=/nowhere", kymo:cli_path(), "attach", "--erl", erl(),
                            "-o", "/tmp/kymo_no_such_folder", atom_to_list(Node)]),
            contains(Text, ["the node belongs to the user root", "--cookie-file"]),
            peer:stop(Peer),
            %% A name that is not on its command line.
            {ok, Late, nonode@nohost} = peer:start(#{
                connection => standard_io, env => [{"ERL_LIBS", ""}, {"HOME", Home}], wait_boot => 60000
            }),
            Name = "kymo_late_" ++ os:getpid() ++ "@localhost",
            {ok, _} = peer:call(Late, net_kernel, start, [[list_to_atom(Name), shortnames]]),
            {6, Text2} = kymo_cli:command(os:find_executable("setpriv"),
                SetPriv ++ ["env", "HOME=/nowhere", kymo:cli_path(), "attach", "--erl", erl(), "-o", "/tmp/kymo_no_such_folder", Name]),
            contains(Text2, ["the node belongs to the user root", "--cookie-file"]),
            peer:stop(Late);
        _ ->
            {skip, "this user may not run commands as another one, or that one may not run Erlang"}
    end.

%% ---- errors ---------------------------------------------------------------------------------

wrong_cookie(Config) ->
    {Peer, Node} = node_with_work(Config, []),
    {6, Text} = run(["--cookie", "wrong", "--for", "10ms", "-o", sub(Config, rec), Node]),
    contains(Text, ["cookie", "--cookie-file"]),
    ?assertEqual(false, filelib:is_file(sub(Config, rec))),
    peer:stop(Peer).

no_node(Config) ->
    {Peer, Node} = node_with_work(Config, []),
    {6, Text} = run(["--cookie", ?COOKIE, "-o", sub(Config, rec), "no_such_node"]),
    contains(Text, ["no node no_such_node", hd(string:split(Node, "@")), "--port", "--pid", "ERL_EPMD_PORT"]),
    {6, NoHost} = run(["--cookie", ?COOKIE, "-o", sub(Config, rec), "a@no-such-host-here"]),
    contains(NoHost, ["no-such-host-here"]),
    %% An address of IPv6 has no other.
    {6, OnV6} = run(["--cookie", ?COOKIE, "--proto-dist", "inet6_tcp", "-o", sub(Config, rec), "no_such_node@::1"]),
    ?assertEqual(nomatch, string:find(OnV6, "has no address")),
    %% With several nodes, no folder is left behind either.
    {6, _} = run(["--cookie", ?COOKIE, "-o", sub(Config, rec), "no_such_node", "nor_this_one"]),
    ?assertEqual(false, filelib:is_file(sub(Config, rec))),
    peer:stop(Peer).

bad_pattern(Config) ->
    {Peer, Node} = node_with_work(Config, []),
    Bad = ["--functions", "lists:seq(", "-o", sub(Config, rec), Node],
    {2, Text} = run(Bad),
    contains(Text, ["bad pattern"]),
    Before = warm_look(Peer, Node, Config),
    {2, Text} = run(Bad),
    {6, None} = run(["--functions", "lists:no_such_function/7", "-o", sub(Config, rec), Node]),
    contains(None, ["no_such_function"]),
    ?assertEqual(false, filelib:is_file(sub(Config, rec))),
    same(Before, Peer, Config),
    peer:stop(Peer).

%% The error is found before anything is done in the node.
output_exists(Config) ->
    {Peer, Node} = node_with_work(Config, []),
    Before = look(Peer, Config),
    Out = sub(Config, rec),
    ok = file:make_dir(Out),
    ok = file:write_file(filename:join(Out, "precious"), "x"),
    {4, Text} = run(["--for", "10ms", "-o", Out, Node]),
    contains(Text, ["not empty"]),
    ?assertEqual(["precious"], ls(Out)),
    same(Before, Peer, Config),
    peer:stop(Peer).

%% The recording stays in the node until it is fetched, and nothing of the copy is left.
output_full(Config) ->
    on_small_disk("64k", Config, fun(Small, Run) ->
        {Peer, Node} = node_with_work(Config, []),
        Before = warm_look(Peer, Node, Config),
        Full = filename:join(Small, rec),
        {4, Text} = Run(["--functions", "lists:seq/2", "--for", "300ms", "-o", Full, Node]),
        Remedy = "free some space, and run 'kymo attach --detach " ++ Node ++ " -o " ++ Full ++ "'",
        contains(Text, [Full, "no space left", "the recording stays in the node: " ++ Remedy, "left: 0\n"]),
        %% Without more space.
        {4, Again} = Run(["--detach", "-o", Full, Node]),
        contains(Again, ["no space left", Remedy, "left: 0\n"]),
        Out = sub(Config, rec),
        {0, _} = run(["--detach", "-o", Out, Node]),
        {0, Print} = kymo_cli:run(["print", "-n", "1", "--events", "call", Out]),
        contains(Print, ["lists:seq/2"]),
        same(Before, Peer, Config),
        peer:stop(Peer)
    end).

%% Snapshots of a recorder that stays: it continues.
output_full_kept(Config) ->
    on_small_disk("8k", Config, fun(Small, Run) ->
        {Peer, Node} = node_with_work(Config, []),
        Before = warm_look(Peer, Node, Config),
        {0, _} = run(["--keep", "--functions", "lists:seq/2", "-q", Node]),
        {4, Text} = Run(["--snapshot", "-o", filename:join(Small, snap), Node]),
        contains(Text, ["no space left", "the incomplete snapshot was removed: free some space", "left: 0\n"]),
        {0, _} = run(["--snapshot", "-o", sub(Config, snap), Node]),
        {0, _} = run(["--detach", "-o", sub(Config, rec), Node]),
        same(Before, Peer, Config),
        peer:stop(Peer)
    end).

%% Calls Fun(Dir, Run). Run(Args) runs the command where the file system of Dir has this size, and
%% then prints the number of files in it.
on_small_disk(Size, Config, Fun) ->
    Dir = sub(Config, small),
    ok = file:make_dir(Dir),
    Mount = "mount -t tmpfs -o size=" ++ Size ++ " tmpfs " ++ Dir,
    case os:cmd("unshare -m sh -c '" ++ Mount ++ " && echo can'") of
        "can\n" ->
            Script = Mount ++ " || exit 9; \"$@\"; status=$?; echo left: $(find " ++ Dir ++ " -mindepth 1 | wc -l); exit $status",
            Fun(Dir, fun(Args) ->
                kymo_cli:command(os:find_executable("unshare"),
                    ["-m", "sh", "-c", Script, "sh", kymo:cli_path(), "attach", "--erl", erl() | Args])
            end);
        _ ->
            {skip, "this user may not mount file systems"}
    end.

%% Every folder is tried, and the error names them all.
no_folder(Config) ->
    Tmp = ?config(tmp, Config),
    {Peer, Node} = node_with_work(Config, []),
    Before = warm_look(Peer, Node, Config),
    {6, Text} = run(["--memory", integer_to_list(1 bsl 40), "--timeout", "5m", "--for", "10ms", "-o", sub(Config, rec), Node]),
    contains(Text, [Tmp, "/tmp", "--node-dir", "no space left"]),
    same(Before, Peer, Config),
    peer:stop(Peer).

usage(Config) ->
    Out = sub(Config, rec),
    [begin
         {2, Text} = run_with_cookie(Args),
         contains(Text, Parts)
     end || {Args, Parts} <- [
        {[], ["node"]},
        {["a@b"], ["-o"]},
        {["-o", Out, "a@b", "a@b.c"], ["long names"]},
        {["-o", Out, "@b"], ["@b"]},
        {["--for", "soon", "-o", Out, "a@b"], ["--for"]},
        {["--for", "99999h", "-o", Out, "a@b"], ["--for", "596h"]},
        {["--cookie", "", "-o", Out, "a@b"], ["--cookie"]},
        {["--budget", "0%", "-o", Out, "a@b"], ["--budget", "0.01%"]},
        {["--budget", "100.5%", "-o", Out, "a@b"], ["--budget", "100%"]},
        {["--memory", "0", "-o", Out, "a@b"], ["--memory"]},
        {["--port", "65536", "-o", Out, "a@b"], ["--port"]},
        {["--port", "1", "-o", Out, "a@b", "c@d"], ["--port"]},
        {["--list", "a@b"], ["--list"]},
        {["--print", "-o", Out, "a@b"], ["--print"]},
        {["--pid", "1", "-o", Out, "a@b"], ["--pid"]},
        {["--keep", "--detach", "a@b"], ["--keep", "--detach"]},
        {["--detach", "--events", "running", "a@b"], ["--detach"]},
        {["--nonsense"], ["nonsense"]},
        {["-o", Out, "a@b", "a@b"], ["twice", "a@b"]},
        {["-o", Out, lists:duplicate(300, $a) ++ "@b"], ["not the name of a node"]},
        {["-o", Out, "--cookie", "c", "--process", lists:duplicate(300, $a), "a@b"], ["too long"]},
        {["-o", Out, "--events", "", "a@b"], ["--events"]},
        {["-o", Out, "--events", " , ", "a@b"], ["--events"]},
        {["-o", Out, "--functions", "", "a@b"], ["--functions"]},
        {["--detach", "--slow", "lists:seq/2=5ms", "a@b"], ["--detach"]},
        {["-o", <<"/tmp/", 255>>, "a@b"], ["not UTF-8"]}]],
    [begin
         {2, Text} = run(["--slow", Slow, "-o", Out, "a@b"]),
         contains(Text, ["--slow takes functions and a time up to 134s", "'lists:sort/1=10ms'", "not '" ++ Slow ++ "'"])
     end || Slow <- ["", "lists:seq/2", "lists:seq/2=", "=5ms", " =5ms", "lists:seq/2=5000", "lists:seq/2=-5ms", "lists:seq/2=5 parsecs",
                     "lists:seq/2=135s"]].

%% A value that cannot be used as a cookie is not shown, and is in no crash dump.
no_dump(Config) ->
    Cookie = lists:duplicate(300, $c),
    ok = file:write_file(sub(Config, cookie), Cookie),
    ok = file:set_cwd(?config(dir, Config)),
    {6, Text} = run(["--cookie-file", sub(Config, cookie), "-o", sub(Config, rec), "a@b"]),
    contains(Text, ["255", "--cookie-file", sub(Config, cookie)]),
    ?assertEqual(nomatch, string:find(Text, "cccc")),
    %% A worse failure: the runtime of the command does not find the folder with its modules.
    Alone = sub(Config, alone),
    ok = filelib:ensure_dir(filename:join([Alone, "priv", "bin", "kymo"])),
    {ok, _} = file:copy(kymo:cli_path(), filename:join([Alone, "priv", "bin", "kymo"])),
    ok = file:change_mode(filename:join([Alone, "priv", "bin", "kymo"]), 8#755),
    {6, Missing} = kymo_cli:command(filename:join([Alone, "priv", "bin", "kymo"]), ["attach", "--list"]),
    contains(Missing, [filename:join(Alone, "ebin"), "kymo_attach"]),
    ?assertEqual([], [Name || Name <- ls(?config(dir, Config)), lists:prefix("erl_crash", Name)]).

%% A name without a host means a node of this host only.
processes_of_nodes(_) ->
    Here = #{pid => "1", name => "shop"},
    There = #{pid => "2", name => "shop@there"},
    ?assertEqual(Here, kymo_attach_proc:find('shop@here', "here", [There, Here])),
    ?assertEqual(Here, kymo_attach_proc:find('shop@here.example.org', "here", [There, Here])),
    ?assertEqual(There, kymo_attach_proc:find('shop@there', "here", [Here, There])),
    ?assertEqual(none, kymo_attach_proc:find('shop@elsewhere', "here", [Here, There])),
    Late = #{pid => "3", name => "late", kind => registered},
    ?assertEqual(Late, kymo_attach_proc:find('late@here', "here", [Here, Late])),
    ?assertEqual(Late, kymo_attach_proc:find('late@127.0.0.1', "here", [Here, Late])),
    ?assertEqual(none, kymo_attach_proc:find('shop@127.0.0.1', "here", [Here, Late])),
    ?assertEqual(none, kymo_attach_proc:find('late@no.host.invalid', "here", [Here, Late])).

%% The cookie is not on a command line, where other users could see it.
hidden_cookie(Config) ->
    {Peer, Node} = node_with_work(Config, []),
    Command = start(["--cookie", ?COOKIE, "--events", "running", "-o", sub(Config, rec), Node]),
    await_text(Command, "recording"),
    [begin
         {ok, Line} = file:read_file("/proc/" ++ Pid ++ "/cmdline"),
         ?assertEqual({Line, nomatch}, {Line, string:find(Line, ?COOKIE)})
     end || Pid <- [os_pid(Command) | children(os_pid(Command))]],
    signal("INT", os_pid(Command)),
    {0, _} = kymo_ended(Command),
    peer:stop(Peer).

%% Attaching uses names again, because the node keeps an atom for each name it sees.
one_name(Config) ->
    {Peer, Node} = node_with_work(Config, []),
    Attach = fun() ->
        Command = start(["--events", "running", "-o", sub(Config, integer_to_list(erlang:unique_integer([positive]))), Node]),
        await_text(Command, "recording"),
        [Hidden] = peer:call(Peer, erlang, nodes, [hidden]),
        {Command, Hidden}
    end,
    Ended = fun({Command, Name}) ->
        signal("INT", os_pid(Command)),
        {0, _} = kymo_ended(Command),
        true = kymo_cli:until(fun() -> peer:call(Peer, erlang, nodes, [hidden]) =:= [] end),
        Name
    end,
    %% Other commands of this machine may have the first names at times.
    Names = [Ended(Attach()) || _ <- lists:seq(1, 4)],
    ?assert(length(lists:usort(Names)) < length(Names)),
    peer:stop(Peer).

%% The variables are for other runtimes: a name would let other nodes connect to this one.
named_runtime(Config) ->
    {Peer, Node} = node_with_work(Config, []),
    Name = "kymo_attach_named_" ++ os:getpid(),
    {0, _} = kymo_cli:command(os:find_executable("env"),
        ["ERL_FLAGS=-sname " ++ Name, "ERL_AFLAGS=word", "ERL_ZFLAGS=-extra word", kymo:cli_path(), "attach",
         "--erl", erl(), "--for", "300ms", "-o", sub(Config, rec), Node]),
    peer:stop(Peer).

%% Nobody can see what the command says.
no_standard_error(Config) ->
    {Peer, Node} = node_with_work(Config, []),
    Before = warm_look(Peer, Node, Config),
    [
        begin
            Out = sub(Config, "rec" ++ integer_to_list(N)),
            {0, _} = kymo_cli:command(os:find_executable("sh"),
                ["-c", "exec \"$0\" \"$@\" " ++ Redirection, kymo:cli_path(), "attach", "--erl", erl(), "--for", "300ms", "-o", Out, Node]),
            {0, _} = kymo_cli:run(["info", Out]),
            same(Before, Peer, Config)
        end
     || {N, Redirection} <- lists:enumerate(["2>/dev/full", "2>&-", "2>&- <&-"])
    ],
    peer:stop(Peer).

no_listener(Config) ->
    {ok, Socket} = gen_tcp:listen(0, []),
    {ok, Port} = inet:port(Socket),
    ok = gen_tcp:close(Socket),
    {6, Text} = run(["--cookie", ?COOKIE, "--port", integer_to_list(Port), "-o", sub(Config, rec), "a@localhost"]),
    contains(Text, ["no node listens", "--port", integer_to_list(Port)]),
    {2, Protocol} = run(["--cookie", ?COOKIE, "--proto-dist", "nonsense", "-o", sub(Config, rec), "a@localhost"]),
    contains(Protocol, ["check --proto-dist", "nonsense"]).

%% The command neither blocks on such files nor reads them without end.
strange_cookie_files(Config) ->
    Pipe = sub(Config, pipe),
    "" = os:cmd("mkfifo " ++ Pipe),
    [?assertEqual({File, none}, {File, kymo_attach_proc:find_cookie(File)}) || File <- [Pipe, "/dev/zero", ?config(dir, Config)]],
    %% Not even one that the user has named is read without end.
    {Zeros, "/dev/zero"} = kymo_attach_proc:read_cookie("/dev/zero"),
    ?assertMatch(Length when Length > 255 andalso Length < 100000, length(Zeros)),
    ok = file:write_file(sub(Config, good), "secret\nmore"),
    ?assertEqual({"secret", sub(Config, good)}, kymo_attach_proc:find_cookie(sub(Config, good))).

%% Files with TLS options that are none.
option_files(Config) ->
    File = sub(Config, "tls.conf"),
    [
        begin
            ok = file:write_file(File, Content),
            {Status, Text} = run(["--cookie", ?COOKIE, "--proto-dist", "inet_tls", "--ssl-dist-optfile", File, "--list-recorders", "a@localhost"]),
            ct:log("~b ~ts", [Status, Text]),
            ?assertEqual({Part, 2}, {Part, Status}),
            contains(Text, [File, Part, "--ssl-dist-optfile"])
        end
     || {Content, Part} <- [
            {"", "no options"},
            {"% Nothing.\n", "no options"},
            {"[{client, [{a", ":1: this is no Erlang term"},
            {"[{client, [}]}].\n", ":1: this is no Erlang term"},
            {"\n[{client, [$", ":2: this is no Erlang term"},
            {"client.\n", "no list of options"},
            {"[client].\n", "no list of options"},
            {"[{client, [{verify, os:getenv(\"A\")}]}].\n", "evaluates no expressions"},
            {lists:duplicate(2000, 0), "no options"},
            {<<200, 3, 7>>, "no Erlang term"},
            {lists:duplicate(2 bsl 20, 0), "larger than 1 MiB"}
        ]
    ],
    {2, Endless} = run(["--cookie", ?COOKIE, "--proto-dist", "inet_tls", "--ssl-dist-optfile", "/dev/zero", "--list-recorders", "a@localhost"]),
    contains(Endless, ["larger than 1 MiB"]).

%% Nodes that nothing can connect to.
no_connections(Config) ->
    Attach = fun(Args) -> run(["--cookie", ?COOKIE, "-o", sub(Config, rec) | Args]) end,
    Alone = fun(Args) ->
        {ok, Peer, _} = peer:start(#{connection => standard_io, args => Args, env => [{"ERL_LIBS", ""}], wait_boot => 60000}),
        {Peer, peer:call(Peer, os, getpid, [])}
    end,
    {Mute, OfMute} = Alone(["-sname", "kymo_mute_" ++ os:getpid(), "-dist_listen", "false"]),
    [
        begin
            {6, Text} = Attach(Args),
            contains(Text, ["accepts no connections (-dist_listen false)", "--print"])
        end
     || Args <- [["--pid", OfMute], ["kymo_mute_" ++ os:getpid()]]
    ],
    peer:stop(Mute),
    {Nameless, OfNameless} = Alone(["-sname", "undefined"]),
    {6, Text} = Attach(["--pid", OfNameless]),
    contains(Text, ["without a name of its own", "--print"]),
    peer:stop(Nameless).

removed_folder(Config) ->
    Gone = sub(Config, gone),
    ok = file:make_dir(Gone),
    {6, Text} = kymo_cli:command(os:find_executable("sh"), ["-c", "cd \"$0\" && rmdir \"$0\" && exec \"$@\"", Gone,
        kymo:cli_path(), "attach", "--erl", erl(), "--list-recorders", "a@localhost"]),
    contains(Text, ["the current folder can't be used", "change to another one"]),
    ?assertEqual([<<"kymo">>], [hd(binary:split(Line, <<":">>)) || Line <- binary:split(Text, <<"\n">>, [global, trim])]).

%% A process that is gone, and one of another user.
foreign_process(Config) ->
    {6, Gone} = run(["--cookie", ?COOKIE, "--pid", "4194304", "-o", sub(Config, rec)]),
    contains(Gone, ["there is no process 4194304", "kymo attach --list"]),
    SetPriv = ["--reuid=65534", "--regid=65534", "--clear-groups"],
    case os:cmd("setpriv " ++ lists:join(" ", SetPriv) ++ " test -x " ++ kymo:cli_path() ++ " && echo can") of
        "can\n" ->
            {6, Text} = kymo_cli:command(os:find_executable("setpriv"),
                SetPriv ++ [kymo:cli_path(), "attach", "--erl", erl(), "--pid", os:getpid(), "-o", "/tmp/kymo_no_such_folder"]),
            contains(Text, ["the network of process " ++ os:getpid(), "as root"]);
        _ ->
            {skip, "this user may not run commands as another one"}
    end.

%% A folder whose name a terminal would not show as it is is left out by the node.
strange_folders(Config) ->
    [
        begin
            Dir = sub(Config, Name),
            ok = file:make_dir(Dir),
            {ok, Peer, Node} = start_peer(Config, #{env => [{"ERL_LIBS", ""}, {"TMPDIR", Dir}]}, []),
            {0, Text} = run(["--events", "running", "--for", "10ms", "-o", sub(Config, "rec" ++ integer_to_list(N)), atom_to_list(Node)]),
            ?assertEqual({Name, Used}, {Name, string:find(Text, ["in ", Dir]) =/= nomatch}),
            ?assertEqual([], ls(Dir)),
            {Status, _} = run(["--for", "10ms", "--node-dir", Dir, "-o", sub(Config, rec), "a@localhost"]),
            ?assertEqual({Name, Used}, {Name, Status =/= 2}),
            peer:stop(Peer)
        end
     || {N, {Name, Used}} <- lists:enumerate([{"a space", true}, {"new\nline", false}, {"\e[31mred", false}, {[$a, 16#202E], false}])
    ].

%% The sentence has the call that admits the command.
not_allowed(Config) ->
    {Peer, Node} = node_with_work(Config, []),
    ok = peer:call(Peer, net_kernel, allow, [[other@host]]),
    {6, Text} = run(["--cookie", ?COOKIE, "-o", sub(Config, rec), Node]),
    {match, [Prefix, Host]} = re:run(
        Text, "net_kernel:allow\\(\\['(kymo_attach_[0-9]+_)[0-9]+@([^']+)'\\]\\)", [{capture, all_but_first, list}]
    ),
    %% Other commands of this machine may have the first numbers.
    ok = peer:call(Peer, net_kernel, allow, [[list_to_atom(lists:concat([Prefix, N, "@", Host])) || N <- lists:seq(1, 100)]]),
    {0, _} = run(["--list-recorders", Node]),
    peer:stop(Peer).

%% Each side ends the handshake for reasons of its own.
tls_refusals(Config) ->
    #{server_config := Server, client_config := Good} = certificates(),
    #{client_config := Other} = certificates(),
    Cas = proplists:get_value(cacerts, Good),
    OptFile = fun(Name, Options) ->
        ok = file:write_file(sub(Config, Name), io_lib:format("~0p.~n", [Options])),
        sub(Config, Name)
    end,
    {Peer, Node} = node_with_work(Config, [
        "-proto_dist", "inet_tls", "-ssl_dist_optfile",
        OptFile("node.conf", [{server, [{verify, verify_peer}, {fail_if_no_peer_cert, true} | Server]}, {client, Good}])
    ]),
    [
        begin
            File = OptFile(Name ++ ".conf", [{client, Options}]),
            {Status, Text} = run(["--proto-dist", "inet_tls", "--ssl-dist-optfile", File, "--list-recorders", Node]),
            ct:log("~s: ~b ~ts", [Name, Status, Text]),
            ?assertEqual({Name, Expected}, {Name, Status}),
            contains(Text, Parts)
        end
     || {Name, Expected, Options, Parts} <- [
            {"good", 0, [{verify, verify_peer} | Good], []},
            {"their_ca", 6, [{verify, verify_peer} | Other], ["this command does not accept", "cacertfile", "--ssl-dist-optfile"]},
            {"own_ca", 6, [{verify, verify_none}, {cacerts, Cas} | lists:keydelete(cacerts, 1, Other)],
                ["the node does not accept", "certfile", "--ssl-dist-optfile"]},
            {"no_certificate", 6, [{verify, verify_peer}, {cacerts, Cas}], ["the node does not accept", "certfile", "--ssl-dist-optfile"]},
            {"version", 6, [{verify, verify_peer}, {versions, ['tlsv1.1']}, {cacerts, Cas}], ["TLS handshake", "versions", "--ssl-dist-optfile"]},
            {"no_file", 6, [{verify, verify_none}, {certfile, "/nowhere/c.pem"}, {keyfile, "/nowhere/k.pem"}],
                ["can't be used", "/nowhere/", "no such file", "--ssl-dist-optfile"]},
            {"option", 6, [{verify, verify_none}, {no_such_option, 17}], ["can't be used", "no_such_option", "--ssl-dist-optfile"]}
        ]
    ],
    peer:stop(Peer).

%% Something else listens on the port, and is silent or closes the connection.
other_port(Config) ->
    {Peer, Node} = node_with_work(Config, []),
    {ok, Silent} = gen_tcp:listen(0, []),
    {ok, Closing} = gen_tcp:listen(0, []),
    Closer = spawn_link(fun() -> close_all(Closing) end),
    Run = fun(Socket, To) ->
        {ok, Port} = inet:port(Socket),
        {6, Text} = run(["--cookie", ?COOKIE, "--timeout", "2s", "--port", integer_to_list(Port), "--list-recorders", To]),
        contains(Text, ["port " ++ integer_to_list(Port), "--port"]),
        Text
    end,
    [contains(Run(Socket, Node), ["is not that of the node, which listens on"]) || Socket <- [Silent, Closing]],
    contains(Run(Silent, "a@localhost"), ["does not answer as a node"]),
    contains(Run(Closing, "a@localhost"), ["is that of something else"]),
    true = unlink(Closer),
    true = exit(Closer, kill),
    peer:stop(Peer).

close_all(Listening) ->
    {ok, Socket} = gen_tcp:accept(Listening),
    ok = gen_tcp:close(Socket),
    close_all(Listening).

%% OTP's client of epmd fails with what is no port.
epmd_port(_) ->
    [
        begin
            {2, Text} = kymo_cli:command(os:find_executable("env"), ["ERL_EPMD_PORT=" ++ Value, kymo:cli_path(), "attach", "--erl", erl() | Args]),
            contains(Text, ["ERL_EPMD_PORT", "'" ++ Value ++ "'", "4369"])
        end
     || Value <- ["foo", "0", "70000", "4369x"], Args <- [["--list"], ["--list-recorders", "a@localhost"]]
    ].

%% The node itself is asked which of the cookies on its command line and in its files it has.
cookie_of_node(Config) ->
    Plain = home(Config, home, ".erlang.cookie", "of_file"),
    Hidden = home(Config, home_config, ".config/erlang/.erlang.cookie", "of_config"),
    Other = ["-setcookie", "other@host", "of_other"],
    [
        begin
            {ok, Peer, Node} = start_peer(Config, #{args => Args, env => [{"ERL_LIBS", ""}, {"HOME", Home}]}, []),
            Pid = peer:call(Peer, os, getpid, []),
            [Found] = [F || #{pid := P} = F <- kymo_attach_proc:nodes([]), P =:= Pid],
            {Cookie, _} = kymo_attach_proc:cookie(Found),
            ?assertEqual({Args, atom_to_list(peer:call(Peer, erlang, get_cookie, []))}, {Args, Cookie}),
            ?assertMatch({0, _}, run(["--list-recorders", atom_to_list(Node)])),
            peer:stop(Peer)
        end
     || {Home, Args} <- [
            {Plain, []},
            {Plain, Other},
            {Plain, Other ++ ["-setcookie", "one"]},
            {Plain, ["-setcookie", "one"] ++ Other},
            {Plain, ["-setcookie", "one", "-setcookie", "two"]},
            {Plain, ["-setcookie", "-setcookie", "one"]},
            {Plain, ["-setcookie"]},
            {Plain, ["-setcookie", "a", "b", "c"]},
            {Plain, ["-nocookie"]},
            {Plain, ["-nocookie", "-setcookie", "one"]},
            {Hidden, Other}
        ]
    ].

home(Config, Name, File, Cookie) ->
    Path = filename:join(sub(Config, Name), File),
    ok = filelib:ensure_dir(Path),
    ok = file:write_file(Path, Cookie),
    ok = file:change_mode(Path, 8#400),
    sub(Config, Name).

%% ---- nodes ------------------------------------------------------------------------------------

node_with_work(Config, Args) ->
    {ok, Peer, Name} = start_peer(Config, #{}, Args),
    work(Peer),
    {Peer, atom_to_list(Name)}.

start_peer(Config, Options, Args) ->
    Name = "kymo_attach_test_" ++ os:getpid() ++ "_" ++ integer_to_list(erlang:unique_integer([positive])),
    {ok, Peer, Node} = peer:start(maps:merge(
        #{
            name => list_to_atom(Name),
            longnames => false,
            connection => standard_io,
            args => ["-setcookie", ?COOKIE | Args],
            env => [{"ERL_LIBS", ""}, {"TMPDIR", ?config(tmp, Config)}],
            wait_boot => 60000
        },
        Options
    )),
    {ok, Peer, Node}.

full_name(Peer) -> atom_to_list(peer:call(Peer, erlang, node, [])).

%% A process that calls lists:seq/2 all the time.
work(Peer) ->
    {ok, Tokens, _} = erl_scan:string("F = fun(G) -> lists:seq(1, 2), receive after 1 -> G(G) end end, F(F)."),
    {ok, Exprs} = erl_parse:parse_exprs(Tokens),
    _ = peer:call(Peer, erlang, spawn, [erl_eval, exprs, [Exprs, []]]),
    ok.

%% What a node looks like once modules of OTP have been loaded on demand.
warm_look(Peer, Node, Config) ->
    Out = filename:join(?config(dir, Config), "warm-" ++ integer_to_list(erlang:unique_integer([positive]))),
    {0, _} = run(["--functions", "lists:seq/2", "--for", "10ms", "-q", "-o", Out, Node]),
    settled_look(Peer, Config).

settled_look(Peer, Config) ->
    true = kymo_cli:until(fun() -> peer:call(Peer, erlang, nodes, [hidden]) =:= [] end),
    stable(look(Peer, Config), Peer, Config).

%% Processes and sockets of a connection end shortly after it.
stable(Before, Peer, Config) ->
    receive
    after 50 -> ok
    end,
    case look(Peer, Config) of
        Before -> Before;
        Other -> stable(Other, Peer, Config)
    end.

look(Peer, Config) ->
    Pid = case ?config(os_pid, Config) of
        undefined -> peer:call(Peer, os, getpid, []);
        Seen -> Seen
    end,
    {value, Inside, _} = peer:call(Peer, erl_eval, exprs, [inside(), []]),
    Inside#{
        descriptors => [target("/proc/" ++ Pid ++ "/fd/", Fd) || Fd <- ls("/proc/" ++ Pid ++ "/fd")],
        mapped => mapped(Pid),
        files => ls(?config(tmp, Config))
    }.

%% Runs in the node, in one process, which is left out of the result.
inside() ->
    {ok, Tokens, _} = erl_scan:string(
        "Processes = lists:sort(erlang:processes() -- [self()]),"
        "#{modules => lists:sort(erlang:loaded()),"
        "  processes => Processes,"
        "  registered => lists:sort(erlang:registered()),"
        "  ports => lists:sort(erlang:ports()),"
        "  environment => application:get_all_env(kymo),"
        "  pattern => erlang:trace_info({lists, seq, 2}, all),"
        "  system_monitor => erlang:system_monitor(),"
        "  wall_time => is_list(erlang:statistics(scheduler_wall_time)),"
        "  receive_pattern => erlang:trace_info('receive', match_spec),"
        "  new_processes => erlang:trace_info(new_processes, flags),"
        "  flags => [{P, erlang:trace_info(P, flags)} || P <- Processes],"
        "  sessions => case erlang:function_exported(trace, session_info, 1) of"
        "      true -> trace:session_info(all);"
        "      false -> none"
        "  end}."
    ),
    {ok, Exprs} = erl_parse:parse_exprs(Tokens),
    Exprs.

target(Dir, Fd) ->
    case file:read_link(Dir ++ Fd) of
        {ok, Target} -> {Fd, Target};
        {error, Why} -> {Fd, Why}
    end.

%% The library is never unloaded, so it stays mapped, whatever its file is called, as does the
%% library of the sanitizer that it may be built with.
mapped(Pid) ->
    {ok, Maps} = file:read_file("/proc/" ++ Pid ++ "/maps"),
    Files = [lists:last(string:lexemes(Line, " ")) || Line <- string:lexemes(binary_to_list(Maps), "\n"),
        string:find(Line, "/") =/= nomatch, string:find(Line, "kymo_tracer.so") =:= nomatch, string:find(Line, "libubsan.so") =:= nomatch],
    lists:usort(Files).

same(Before, Peer, Config) ->
    _ = settled(Before, Peer, Config, []),
    ok.

%% Everything but the parts in Except must eventually be as before.
settled(Before, Peer, Config, Except) ->
    Wanted = maps:without(Except, Before),
    Same = fun() -> maps:without(Except, look(Peer, Config)) =:= Wanted end,
    _ = kymo_cli:until(Same),
    After = look(Peer, Config),
    [?assertEqual({Key, maps:get(Key, Wanted)}, {Key, maps:get(Key, After)}) || Key <- maps:keys(Wanted)],
    After.

%% ---- the command --------------------------------------------------------------------------------

run(Args) -> kymo_cli:run(["attach", "--erl", erl() | Args]).

%% Some errors are found after the cookie, which a new user does not have.
run_with_cookie(Args) -> run(["--cookie", ?COOKIE | Args]).

start(Args) ->
    open_port(
        {spawn_executable, kymo:cli_path()},
        [{args, ["attach", "--erl", erl() | Args]}, exit_status, stderr_to_stdout, binary, use_stdio, hide]
    ).

kymo_ended(Port) -> kymo_ended(Port, <<>>).

kymo_ended(Port, Got) ->
    receive
        {Port, {data, Data}} -> kymo_ended(Port, <<Got/binary, Data/binary>>);
        {Port, {exit_status, Status}} -> {Status, Got}
    end.

os_pid(Port) ->
    {os_pid, Pid} = erlang:port_info(Port, os_pid),
    integer_to_list(Pid).

signal(Name, Pid) -> "" = os:cmd("kill -" ++ Name ++ " " ++ Pid).

children(Pid) ->
    {ok, Text} = file:read_file("/proc/" ++ Pid ++ "/task/" ++ Pid ++ "/children"),
    string:lexemes(binary_to_list(Text), " ").

erl() -> filename:join([code:root_dir(), "bin", "erl"]).

priv() -> filename:dirname(filename:dirname(kymo:cli_path())).

sub(Config, Name) -> filename:join(?config(dir, Config), Name).

ls(Dir) ->
    {ok, Names} = file:list_dir(Dir),
    lists:sort(Names).

mode(File) ->
    {ok, Info} = file:read_file_info(File),
    Info#file_info.mode band 8#777.

%% A library for another architecture is not sent.
other_machine(Config) ->
    {Peer, Node} = node_with_work(Config, []),
    Before = warm_look(Peer, Node, Config),
    Home = sub(Config, home),
    Bin = filename:join([Home, "priv", "bin", "kymo"]),
    Priv = filename:dirname(filename:dirname(kymo:cli_path())),
    ok = filelib:ensure_dir(Bin),
    {ok, _} = file:copy(kymo:cli_path(), Bin),
    ok = file:change_mode(Bin, 8#755),
    ok = file:make_symlink(filename:dirname(code:which(kymo)), filename:join(Home, "ebin")),
    {ok, <<Start:18/binary, Machine:16/little, Rest/binary>>} = file:read_file(filename:join(Priv, "kymo_tracer.so")),
    {Other, Name} = case Machine of 62 -> {183, "aarch64"}; _ -> {62, "x86_64"} end,
    ok = file:write_file(filename:join([Home, "priv", "kymo_tracer.so"]), <<Start/binary, Other:16/little, Rest/binary>>),
    Out = sub(Config, rec),
    {6, Text} = kymo_cli:command(Bin, ["attach", "--erl", erl(), "--events", "running", "--for", "10ms", "-o", Out, Node]),
    contains(Text, ["the library of this kymo is for " ++ Name]),
    ?assertEqual(false, filelib:is_file(Out)),
    same(Before, Peer, Config),
    peer:stop(Peer).
