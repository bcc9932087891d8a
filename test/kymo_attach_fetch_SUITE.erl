%% SPDX-License-Identifier: Apache-2.0
%%
%% `kymo attach' copies a recording while connections are lost, nodes pause and commands are killed:
%% what has arrived is not sent again, and a hostile node gains nothing.
-module(kymo_attach_fetch_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-import(kymo_cli, [await_text/2, contains/2]).
-import(kymo_hung_attach, [prepare/2, clean/1, node/2, call/3, out/1, run/1, start/3, interrupt/1, look/2, same/3]).

-export([all/0, suite/0, init_per_testcase/2, end_per_testcase/2]).
-export([connection_lost/1, lost_at_stop/1, lost_again/1, no_progress/1, gone/1, snapshot_gone/1, killed/1, other_folders/1, cut_marker/1, other_files/1]).
-export([output_gone/1, output_replaced/1, snapshot_output_gone/1]).
-export([node_pauses/1, killed_with_node/1, node_dies/1, one_writer/1, one_of_many/1, one_of_removed/1, one_of_made/1, two_commands/1]).

all() ->
    [lost_at_stop, connection_lost, lost_again, no_progress, gone, snapshot_gone, killed, other_folders, cut_marker, other_files, output_gone, output_replaced,
        snapshot_output_gone, node_pauses, killed_with_node, node_dies, one_writer,
        one_of_many, one_of_removed, one_of_made, two_commands].

suite() -> [{timetrap, {minutes, 2}}].

init_per_testcase(Case, Config) -> prepare(Case, Config).

end_per_testcase(_, Config) -> clean(Config).

-define(PEER, "evil@localhost").
%% The size of the parts that are asked for.
-define(PART, (256 * 1024)).
%% The file in a copy that is not complete.
-define(MARKER, ".incomplete").

%% ---- connections that end -------------------------------------------------------------

%% The command connects again and goes on where it was.
connection_lost(Config) ->
    Peer = peer([{"b", 3, close}]),
    {0, <<>>} = attach(Peer, [], Config),
    Asked = asked(Peer),
    ?assertMatch([_], [F || {files, _} = F <- Asked]),
    ?assertEqual([{"a", 0}, {"b", 0}, {"b", 1}, {"b", 2}, closed, {"b", 3}, {"c", 0}], parts(Asked)),
    copied(Config).

%% The same when the connection is lost while the recorder stops.
lost_at_stop(Config) ->
    Peer = peer([{stop, close}]),
    {0, Text} = attach(Peer, [], Config),
    ?assertEqual(<<>>, Text),
    ?assertEqual([{"a", 0}, {"b", 0}, {"b", 1}, {"b", 2}, {"b", 3}, {"c", 0}], [P || P <- parts(asked(Peer)), P =/= closed]),
    copied(Config).

%% As long as something arrives each time.
lost_again(Config) ->
    Peer = peer([{"b", 1, close}, {"b", 3, close}, {"c", 0, close}]),
    {0, _} = attach(Peer, [], Config),
    ?assertEqual([{"a", 0}, {"b", 0}, closed, {"b", 1}, {"b", 2}, closed, {"b", 3}, closed, {"c", 0}], parts(asked(Peer))),
    copied(Config).

no_progress(Config) ->
    Peer = peer([{"b", 1, close}, {"b", 1, close}]),
    {6, Text} = attach(Peer, [], Config),
    contains(Text, ["stays in the node", "'kymo attach --detach " ++ ?PEER ++ " -o " ++ out(Config) ++ "' copies the rest"]),
    ?assertEqual([{"a", 0}, {"b", 0}, closed], parts(asked(Peer))),
    {0, _} = attach(Peer, ["--detach"], Config),
    ?assertEqual([{"b", 1}, {"b", 2}, {"b", 3}, {"c", 0}], parts(asked(Peer))),
    copied(Config).

%% Nothing is left in the node.
gone(Config) ->
    Peer = peer([{"b", 1, restart}]),
    {6, Text} = attach(Peer, [], Config),
    contains(Text, ["the connection to the node was lost"]),
    ?assertEqual(nomatch, string:find(Text, "--detach")),
    ?assertEqual(false, filelib:is_file(out(Config))).

%% A snapshot was removed in the node before it was copied. The recorder stays.
snapshot_gone(Config) ->
    Peer = peer([{files, {answer, {error, enoent}}}]),
    {0, _} = attach(Peer, ["--keep"], Config),
    {6, Text} = attach(Peer, ["--snapshot"], Config),
    contains(Text, ["the files of the snapshot were removed from their folder in the node", "the recorder goes on"]),
    ?assertEqual(nomatch, string:find(Text, "kymo was removed")),
    ?assertEqual(false, filelib:is_file(out(Config))).

%% ---- commands that end -----------------------------------------------------------------

killed(Config) ->
    Peer = peer([{"b", 2, {answer, none}}]),
    Command = started(Peer, [], Config),
    true = kymo_cli:until(fun() -> filelib:file_size(in("b", Config)) =:= 2 * ?PART end),
    kill_runtime(Command),
    {6, Text} = kymo_cli:collect(Command, 60000),
    contains(Text, ["killed by signal 9", "'kymo attach --detach NODE -o DIR' copies the rest"]),
    _ = asked(Peer),
    Before = file:read_file_info(in("a", Config)),
    {0, _} = attach(Peer, ["--detach"], Config),
    ?assertEqual([{"b", 2}, {"b", 3}, {"c", 0}], parts(asked(Peer))),
    ?assertEqual(Before, file:read_file_info(in("a", Config))),
    copied(Config).

%% Only a copy of the same recording is gone on with.
other_folders(Config) ->
    Peer = interrupted(Config),
    Marker = in(?MARKER, Config),
    {ok, Mine} = file:read_file(Marker),
    {4, New} = attach(Peer, [], Config),
    contains(New, [out(Config), "not empty"]),
    Other = filename:join(?config(dir, Config), "other"),
    [
        begin
            "" = os:cmd("rm -r " ++ Marker),
            ok = Make(),
            Before = files(Config),
            {4, Text} = attach(Peer, ["--detach"], Config),
            contains(Text, [out(Config), "not empty"]),
            ?assertEqual(Before, files(Config))
        end
     || Make <- [
            fun() -> file:write_file(Marker, ["x", Mine]) end,
            fun() -> ok = file:write_file(Other, Mine), file:make_symlink(Other, Marker) end,
            fun() -> file:make_dir(Marker) end
        ]
    ],
    ?assertEqual({ok, Mine}, file:read_file(Other)).

%% An earlier command ended while it wrote the marker.
cut_marker(Config) ->
    Peer = interrupted(Config),
    {ok, Mine} = file:read_file(in(?MARKER, Config)),
    [
        begin
            "" = os:cmd("cd " ++ out(Config) ++ " && rm -f a b c"),
            ok = file:write_file(in(?MARKER, Config), binary:part(Mine, 0, Size)),
            set(Peer, [{"b", 1, close}, {"b", 1, close}]),
            {6, _} = attach(Peer, ["--detach"], Config),
            ?assertEqual({ok, Mine}, file:read_file(in(?MARKER, Config)))
        end
     || Size <- [0, 5]
    ],
    {0, _} = attach(Peer, ["--detach"], Config),
    copied(Config).

%% The node names other files, or smaller ones, or something else is in the place of one.
other_files(Config) ->
    Peer = interrupted(Config),
    Outside = filename:join(?config(dir, Config), "outside"),
    ok = file:write_file(Outside, "precious"),
    [
        begin
            set(Peer, [{files, {answer, {ok, Files}}}]),
            Before = files(Config),
            {4, Text} = attach(Peer, ["--detach"], Config),
            contains(Text, [out(Config), "not empty"]),
            ?assertEqual(Before, files(Config)),
            ?assertEqual([], parts(asked(Peer)))
        end
     || Files <- [[{"b", 3 * ?PART + 5}, {"c", ?PART}], [{"a", 10}, {"b", ?PART - 1}], [{"a", 9}, {"b", 3 * ?PART + 5}]]
    ],
    ok = file:delete(in("b", Config)),
    ok = file:make_symlink(Outside, in("b", Config)),
    {4, _} = attach(Peer, ["--detach"], Config),
    ?assertEqual({ok, <<"precious">>}, file:read_file(Outside)),
    ok = file:delete(in("b", Config)),
    _ = asked(Peer),
    {0, _} = attach(Peer, ["--detach"], Config),
    ?assertEqual([{"b", 0}, {"b", 1}, {"b", 2}, {"b", 3}, {"c", 0}], parts(asked(Peer))),
    copied(Config).

%% The folder is removed while the command records, copies, or has copied everything. The recording stays in the
%% node, and can be copied into another folder.
output_gone(Config) ->
    Remove = fun() -> "" = os:cmd("rm -r " ++ out(Config)) end,
    File = fun() -> Remove(), ok = file:write_file(out(Config), "precious") end,
    [
        begin
            Peer = peer(Plan),
            {4, Text} = attach(Peer, [], Config),
            contains(Text, [out(Config), Why, "the recording stays in the node: choose another folder", "'kymo attach --detach " ++ ?PEER]),
            Left = file:read_file(out(Config)),
            ?assertEqual(Expected, Left),
            _ = file:delete(out(Config)),
            _ = asked(Peer),
            {0, _} = attach(Peer, ["--detach"], Config),
            copied(Config),
            Remove()
        end
     || {Plan, Why, Expected} <- [
            {[{files, Remove}], "no such file or directory", {error, enoent}},
            {[{files, File}], "not a directory", {ok, <<"precious">>}},
            {[{"a", 0, Remove}], "no such file or directory", {error, enoent}},
            {[{"c", 0, Remove}], "no such file or directory", {error, enoent}}
        ]
    ].

%% What somebody has put there is left alone.
output_replaced(Config) ->
    Precious = in("precious", Config),
    Replace = fun() ->
        "" = os:cmd("rm -r " ++ out(Config)),
        ok = filelib:ensure_dir(Precious),
        ok = file:write_file(Precious, "precious")
    end,
    Add = fun() -> ok = file:write_file(Precious, "precious") end,
    %% Another copy is made there.
    Other = fun() -> "" = os:cmd("rm -rf " ++ out(Config) ++ "/*"), ok = file:write_file(in(?MARKER, Config), "x@y\n/tmp/other\n"), Add() end,
    Copy = fun() -> ok = file:write_file(in(?MARKER, Config), "x@y\n/tmp/other\n") end,
    [
        begin
            Peer = peer(Plan),
            {4, Text} = attach(Peer, [], Config),
            contains(Text, [out(Config), "the recording stays in the node: choose another folder", "'kymo attach --detach " ++ ?PEER]),
            ?assertEqual(Stays, [Name || Name <- Stays, filelib:is_regular(in(Name, Config))]),
            "" = os:cmd("rm -r " ++ out(Config)),
            _ = asked(Peer),
            {0, _} = attach(Peer, ["--detach"], Config),
            copied(Config),
            "" = os:cmd("rm -r " ++ out(Config))
        end
     || {Plan, Stays} <- [
            {[{files, Replace}], ["precious"]},
            {[{files, Add}], ["precious"]},
            {[{files, Other}], ["precious", ?MARKER]},
            {[{files, Copy}], [?MARKER]},
            {[{"a", 0, Replace}], ["precious"]},
            {[{"c", 0, Replace}], ["precious"]}
        ]
    ].

%% The recorder in the node goes on.
snapshot_output_gone(Config) ->
    Remove = fun() -> "" = os:cmd("rm -r " ++ out(Config)) end,
    Peer = peer([]),
    {0, _} = attach(Peer, ["--keep"], Config),
    [
        begin
            set(Peer, Plan),
            {4, Text} = attach(Peer, ["--snapshot"], Config),
            contains(Text, [out(Config), "no such file or directory", "choose another folder"]),
            ?assertEqual(false, filelib:is_file(out(Config)))
        end
     || Plan <- [[{files, Remove}], [{"a", 0, Remove}]]
    ],
    {0, _} = attach(Peer, ["--snapshot"], Config),
    copied(Config).

%% A peer with a recording of which a part is copied.
interrupted(Config) ->
    Peer = peer([{"b", 1, close}, {"b", 1, close}]),
    {6, _} = attach(Peer, [], Config),
    _ = asked(Peer),
    ?assertEqual([?MARKER, "a", "b"], [Name || {Name, _} <- files(Config)]),
    Peer.

%% ---- nodes -----------------------------------------------------------------------------

%% Longer than the command waits for a part.
node_pauses(Config) ->
    Node = node(Config, []),
    Before = look(Node, Config),
    ok = call(Node, on, [fetching, "STOP"]),
    Command = kymo_hung_attach:start(["--timeout", "4s", "--memory", "200000000", "--for", "100ms"], Node, Config),
    await_text(Command, "the copy was interrupted: connecting again"),
    signal("CONT", Node),
    {0, _} = kymo_cli:collect(Command, 60000),
    {0, _} = kymo_cli:run(["info", out(Config)]),
    ?assertEqual(false, filelib:is_file(in(?MARKER, Config))),
    same(Before, Node, Config),
    kymo_hung_node:stop(Node).

%% The runtime of the command is killed. The node may not yet have noticed that.
killed_with_node(Config) ->
    Node = node(Config, []),
    Before = look(Node, Config),
    ok = call(Node, on, [fetching, "STOP"]),
    Command = kymo_hung_attach:start(["--memory", "200000000", "--for", "100ms"], Node, Config),
    await_text(Command, "fetching"),
    true = kymo_cli:until(fun() -> kymo_hung_node:is_stopped(Node) end),
    kill_runtime(Command),
    {6, _} = kymo_cli:collect(Command, 60000),
    signal("CONT", Node),
    true = kymo_cli:until(fun() ->
        case run(["--detach", "-o", out(Config), kymo_hung_node:name(Node)]) of
            {0, _} -> true;
            {6, Text} -> contains(Text, ["another kymo command"]), false
        end
    end),
    {0, _} = kymo_cli:run(["info", out(Config)]),
    ?assertEqual(false, filelib:is_file(in(?MARKER, Config))),
    same(Before, Node, Config),
    kymo_hung_node:stop(Node).

%% The command does not wait for it.
node_dies(Config) ->
    Node = node(Config, []),
    ok = call(Node, on, [fetching, "KILL"]),
    Begun = erlang:monotonic_time(second),
    {6, Text} = kymo_hung_attach:attach(["--timeout", "60s", "--memory", "200000000", "--for", "100ms"], Node, Config),
    contains(Text, ["its recording stays on its machine, in " ++ ?config(tmp, Config) ++ "/kymo-attach-", "/recording, until"]),
    ?assert(erlang:monotonic_time(second) - Begun < 50),
    kymo_hung_node:stop(Node).

signal(Name, Node) -> "" = os:cmd("kill -" ++ Name ++ " " ++ kymo_hung_node:os_pid(Node)).

%% ---- the peer ----------------------------------------------------------------------------

%% Has a recording of three files. The plan says what happens instead of an answer: `{Name, Part, What}' for
%% a part of a file, once each, in this order, and `{files, What}'. A function is called for it.
peer(Plan) ->
    Table = ets:new(plan, [public]),
    true = ets:insert(Table, {plan, Plan}),
    {links, Before} = process_info(self(), links),
    Port = kymo_evil:listen(?PEER, kymo_hung_attach:cookie(), fun(Request) -> answer(Request, Table) end),
    {links, After} = process_info(self(), links),
    [Pid] = [P || P <- After -- Before, is_pid(P)],
    {Port, Table, Pid}.

set({_, Table, _}, Plan) -> true = ets:insert(Table, {plan, Plan}).

answer({files, _}, Table) ->
    case ets:lookup(Table, plan) of
        [{_, [{files, What}]}] ->
            set({none, Table, none}, []),
            happens(What, {ok, [{"a", 10}, {"b", 3 * ?PART + 5}, {"c", ?PART}]});
        _ ->
            {answer, {ok, [{"a", 10}, {"b", 3 * ?PART + 5}, {"c", ?PART}]}}
    end;
answer({read, _, Name, Offset, Size}, Table) ->
    case ets:lookup(Table, plan) of
        [{_, [{Name, Part, What} | Plan]}] when Part =:= Offset div ?PART ->
            set({none, Table, none}, Plan),
            happens(What, part(Name, Offset, Size));
        _ ->
            {answer, part(Name, Offset, Size)}
    end;
answer(stop, Table) ->
    case ets:lookup(Table, plan) of
        [{_, [{stop, What}]}] ->
            set({none, Table, none}, []),
            What;
        _ ->
            default
    end;
answer(snapshot, _) ->
    {answer, {ok, <<"/tmp/kymo-attach-evil/snapshot-1">>}};
answer(_, _) ->
    default.

happens(What, Answer) when is_function(What) ->
    _ = What(),
    {answer, Answer};
happens(What, _) ->
    What.

part("c", _, Size) -> {ok, {zeros, Size}};
part(_, Offset, Size) -> {ok, bytes(Offset, Size)}.

bytes(Offset, Size) -> << <<(N rem 251)>> || N <- lists:seq(Offset, Offset + Size - 1) >>.

attach(Peer, Args, Config) -> kymo_cli:collect(started(Peer, Args, Config), 60000).

started({Port, _, _}, Args, Config) ->
    All = ["attach", "-q", "--erl", kymo_hung_attach:erl(), "--cookie", kymo_hung_attach:cookie(), "--port", integer_to_list(Port), "-o", out(Config)],
    open_port(
        {spawn_executable, kymo:cli_path()},
        [{args, All ++ Args ++ [?PEER]}, exit_status, stderr_to_stdout, binary, use_stdio, hide]
    ).

kill_runtime(Command) ->
    {os_pid, Pid} = erlang:port_info(Command, os_pid),
    Text = integer_to_list(Pid),
    {ok, Children} = file:read_file(["/proc/", Text, "/task/", Text, "/children"]),
    "" = os:cmd("kill -KILL " ++ binary_to_list(Children)).

%% What the peer was asked for, when no connection is left.
asked({_, _, Pid}) ->
    true = kymo_cli:until(fun() ->
        {current_function, {M, F, _}} = process_info(Pid, current_function),
        M =:= prim_inet andalso lists:prefix("accept", atom_to_list(F))
    end),
    received().

received() ->
    receive {evil, Request} -> [Request | received()] after 0 -> [] end.

%% The parts of files, and where a connection has ended that was not the last one.
parts(Asked) ->
    closed = lists:last(Asked),
    lists:append([part(A) || A <- lists:droplast(Asked)]).

part({read, _, Name, Offset, _}) -> [{Name, Offset div ?PART}];
part(closed) -> [closed];
part(_) -> [].

in(Name, Config) -> filename:join(out(Config), Name).

%% Names and contents.
files(Config) ->
    {ok, Names} = file:list_dir_all(out(Config)),
    [{Name, {file:read_link_info(in(Name, Config)), file:read_file(in(Name, Config))}} || Name <- lists:sort(Names)].

%% The copy is complete.
copied(Config) ->
    ?assertEqual(
        [{"a", bytes(0, 10)}, {"b", bytes(0, 3 * ?PART + 5)}, {"c", binary:copy(<<0>>, ?PART)}],
        [{Name, Content} || {Name, {_, {ok, Content}}} <- files(Config)]
    ).

%% Of two commands with the same folder, the second ends at once and leaves the folder alone. A command that was
%% killed keeps no folder.
one_writer(Config) ->
    [Node, Other] = Nodes = [node(Config, []), node(Config, [])],
    First = start([], Node, Config),
    await_text(First, "recording"),
    [
        begin
            {4, Text} = kymo_hung_attach:attach([], N, Config),
            contains(Text, [out(Config), "writes there: name another folder with -o"])
        end
     || N <- Nodes
    ],
    interrupt(First),
    {0, _} = kymo_cli:collect(First, 60000),
    {0, _} = kymo_cli:run(["info", out(Config)]),
    {ok, Files} = file:list_dir(out(Config)),
    ?assertEqual(["dict", "meta", "ring"], lists:sort(Files)),
    ok = file:del_dir_r(out(Config)),
    Killed = start([], Other, Config),
    await_text(Killed, "recording"),
    kill_runtime(Killed),
    {_, _} = kymo_cli:collect(Killed, 60000),
    kymo_hung_attach:records(Node, Config),
    _ = [kymo_hung_node:stop(N) || N <- Nodes],
    ok.

%% Of commands that begin at the same time, one gets the folder, whether it is new or a command that was killed had it.
one_of_many(Config) ->
    Dir = out(Config),
    Priv = filename:dirname(filename:dirname(kymo:cli_path())),
    [
        begin
            {ok, Stale} = kymo_attach_folder:claim(Dir, Priv),
            Self = self(),
            Claims = [
                spawn_monitor(fun() ->
                    receive go -> ok end,
                    Claim = kymo_attach_folder:claim(Dir, Priv),
                    Self ! {claim, Claim},
                    receive leave -> ok end,
                    _ = [kymo_attach_folder:leave(Port) || {ok, Port} <- [Claim]]
                end)
             || _ <- lists:seq(1, 6)
            ],
            {os_pid, Pid} = erlang:port_info(Stale, os_pid),
            _ = [P ! go || {P, _} <- Claims],
            case Round rem 2 of
                0 -> "" = os:cmd("kill -KILL " ++ integer_to_list(Pid));
                1 -> ok
            end,
            ok = kymo_attach_folder:leave(Stale),
            Results = [receive {claim, Claim} -> Claim end || _ <- Claims],
            {Got, Not} = lists:partition(fun(Claim) -> element(1, Claim) =:= ok end, Results),
            ?assertMatch({[_], [_, _, _, _, _]}, {Got, Not}),
            ?assertEqual([{error, {in_use, Dir}}], lists:usort(Not)),
            _ = [P ! leave || {P, _} <- Claims],
            [receive {'DOWN', Monitor, process, _, Why} -> normal = Why end || {_, Monitor} <- Claims],
            %% Nothing of it is in the folder.
            ok = file:del_dir(Dir)
        end
     || Round <- lists:seq(1, 10)
    ].

%% The command that has failed removes its folder, which is empty, while others wait for it.
one_of_removed(Config) ->
    Dir = out(Config),
    Priv = filename:dirname(filename:dirname(kymo:cli_path())),
    [
        begin
            Claims = [
                spawn_monitor(fun() ->
                    receive go -> ok end,
                    {ok, Claim} = kymo_attach_folder:claim(Dir, Priv),
                    Own = filename:join(Dir, "x"),
                    ok = file:write_file(Own, "", [exclusive]),
                    ok = file:delete(Own),
                    ok = file:del_dir(Dir),
                    ok = kymo_attach_folder:leave(Claim)
                end)
             || _ <- lists:seq(1, 4)
            ],
            _ = [P ! go || {P, _} <- Claims],
            [receive {'DOWN', Monitor, process, _, Why} -> ?assertEqual(normal, Why) end || {_, Monitor} <- Claims]
        end
     || _ <- lists:seq(1, 50)
    ].

%% The same without the lock, more often: a third command may have created the folder again.
one_of_made(Config) ->
    Dir = out(Config),
    Made = [
        spawn_monitor(fun() ->
            [
                begin
                    ok = kymo_attach_folder:make(Dir),
                    _ = file:del_dir(Dir)
                end
             || _ <- lists:seq(1, 3000)
            ]
        end)
     || _ <- lists:seq(1, 4)
    ],
    [receive {'DOWN', Monitor, process, _, Why} -> ?assertEqual(normal, Why) end || {_, Monitor} <- Made],
    _ = file:del_dir(Dir),
    %% A link to nothing is not such a folder.
    ok = file:make_symlink(Dir ++ ".nothing", Dir),
    ?assertEqual({error, {write, Dir, enoent}}, kymo_attach_folder:make(Dir)).

%% The same with commands as a whole.
two_commands(Config) ->
    Nodes = [node(Config, []), node(Config, [])],
    [
        begin
            Commands = [start(["--for", "200ms"], Node, Config) || Node <- Nodes],
            Results = lists:sort([kymo_cli:collect(Command, 60000) || Command <- Commands]),
            ?assertMatch([{0, _}, {4, _}], Results),
            {0, _} = kymo_cli:run(["info", out(Config)]),
            {ok, Files} = file:list_dir(out(Config)),
            ?assertEqual(["dict", "meta", "ring"], lists:sort(Files)),
            ok = file:del_dir_r(out(Config))
        end
     || _ <- lists:seq(1, 5)
    ],
    _ = [kymo_hung_node:stop(Node) || Node <- Nodes],
    ok.
