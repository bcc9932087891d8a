%% SPDX-License-Identifier: Apache-2.0
%%
%% `kymo attach', `top' and `live' with nodes that attack the command: what they run, what they
%% write, and what they show on the terminal.
-module(kymo_hostile_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").
-include_lib("kernel/include/file.hrl").

-import(kymo_cli, [contains/2]).

-export([all/0, suite/0, init_per_testcase/2, end_per_testcase/2]).
-export([attach/1, top/1, node_of_other_user/1, command_of_other_user/1, container/1, container_as_itself/1]).
-export([names/1, sizes/1, parts/1, links/1, answers/1, escapes/1, frames/1, paths/1, listed/1]).
-export([folders/1, cookie_in_arguments/1, cookie_links/1, optfile/1, text/1]).

all() ->
    [attach, top, node_of_other_user, command_of_other_user, container, container_as_itself,
        names, sizes, parts, links, answers, escapes, frames, paths, listed,
        folders, cookie_in_arguments, cookie_links, optfile, text].

suite() -> [{timetrap, {minutes, 2}}].

-define(COOKIE, "kymo-hostile-test").
-define(ATTACKS, [erpc, rpc, cast, spawned, child, loaded, cookie, stop, killed]).

init_per_testcase(Case, Config) ->
    Dir = filename:join(?config(priv_dir, Config), Case),
    ok = file:make_dir(Dir),
    %% Any user may write here.
    Open = filename:join("/tmp", lists:concat(["kymo_hostile_", os:getpid(), "_", Case])),
    ok = file:make_dir(Open),
    ok = file:change_mode(Open, 8#1777),
    [{dir, Dir}, {open, Open} | Config].

end_per_testcase(_, Config) -> file:del_dir_r(?config(open, Config)).

%% ---- nodes that run code in what connects to them ----------------------------------

%% Nothing of what the node tries runs, whoever the two users are, and the recording is made.
attach(Config) ->
    attacked(Config, #{}, [], fun(Peer, Node) -> recorded(Peer, ["-o", sub(Config, rec), Node]) end).

top(Config) ->
    attacked(Config, #{}, [], fun(Peer, Node) ->
        Port = open(kymo:cli_path(), ["top", "--erl", erl(), "--json", "-d", "100ms", Node]),
        first_window(Port),
        watched(Peer, Port)
    end).

first_window(Port) ->
    receive
        {Port, {data, Text}} ->
            case string:find(Text, "{") of
                nomatch -> first_window(Port);
                _ -> ok
            end
    end.

node_of_other_user(Config) ->
    case can(["test", "-x", erl()]) of
        true ->
            Exec = {os:find_executable("setpriv"), nobody() ++ [erl()]},
            attacked(Config, #{exec => Exec}, [], fun(Peer, Node) ->
                recorded(Peer, ["-o", sub(Config, rec), Node])
            end);
        false ->
            {skip, "this user may not start a node as another one"}
    end.

%% An ordinary user, and a node that belongs to somebody else.
command_of_other_user(Config) ->
    case can(["sh", "-c", "test -x " ++ erl() ++ " && test -x " ++ kymo:cli_path()]) of
        true ->
            Cookie = ?config(open, Config) ++ "/cookie",
            ok = file:write_file(Cookie, ?COOKIE),
            attacked(Config, #{}, ["cookie"], fun(Peer, Node) ->
                Args = nobody() ++ ["env", "HOME=/nowhere", kymo:cli_path(), "attach", "--erl", erl(), "--cookie-file", Cookie,
                    "-o", ?config(open, Config) ++ "/rec", Node],
                Ended = watched(Peer, open(os:find_executable("setpriv"), Args)),
                _ = file:del_dir_r(?config(open, Config) ++ "/rec"),
                Ended
            end);
        false ->
            {skip, "this user may not run commands as another one, or that one may not run Erlang"}
    end.

%% With --pid, into the network of a container whose user is root in it.
container(Config) -> in_container(["-U", "-r"], Config).

%% A container without users of its own: its root is root here, but sees other files.
container_as_itself(Config) -> in_container([], Config).

in_container(Users, Config) ->
    Namespaces = Users ++ ["-n", "-u", "-i", "-m", "-p", "--fork", "--mount-proc"],
    %% The container's files are not those of this side: what appears here was written from outside.
    Script = "hostname kymo-evil && ip link set lo up && mkdir -p " ++ sub(Config, inside) ++ " && mount --bind " ++
        sub(Config, inside) ++ " " ++ ?config(open, Config) ++ " || exit 9; ",
    case kymo_cli:command(os:find_executable("unshare"), Namespaces ++ ["sh", "-c", Script ++ "echo can"]) of
        {0, <<"can\n">>} ->
            Exec = {os:find_executable("unshare"), Namespaces ++ ["sh", "-c", Script ++ "exec \"$@\"", "sh", erl()]},
            attacked(Config, #{exec => Exec, host => "kymo-evil"}, [], fun(Peer, Node) ->
                recorded(Peer, ["-o", sub(Config, rec), "--pid", outside_pid(Node)])
            end);
        _ ->
            {skip, "this user may not make namespaces"}
    end.

outside_pid(Node) ->
    {0, List} = kymo_cli:run(["attach", "--erl", erl(), "--list"]),
    [Name, _] = string:split(Node, "@"),
    [Pid] = [P || Line <- string:lexemes(binary_to_list(List), "\n"), [N, P | _] <- [string:lexemes(Line, " ")], string:prefix(N, Name) =/= nomatch],
    Pid.

%% Runs an evil node. Afterwards it has tried everything, and only Left is in the folder where its
%% commands would leave files.
attacked(Config, Options, Left, Fun) ->
    Name = "kymo_hostile_" ++ os:getpid() ++ "_" ++ integer_to_list(erlang:unique_integer([positive])),
    {ok, Peer, Node} = peer:start(maps:merge(#{
        name => list_to_atom(Name), longnames => false, connection => standard_io, wait_boot => 60000,
        args => ["-setcookie", ?COOKIE], env => [{"ERL_LIBS", ""}, {"TMPDIR", "/tmp"}, {"HOME", "/nowhere"}]
    }, Options)),
    {kymo_evil, Code, _} = code:get_object_code(kymo_evil),
    {module, kymo_evil} = peer:call(Peer, code, load_binary, [kymo_evil, "kymo_evil.beam", Code]),
    ok = peer:call(Peer, kymo_evil, start, [?config(open, Config)]),
    {Status, Text} = Fun(Peer, atom_to_list(Node)),
    Results = peer:call(Peer, kymo_evil, results, []),
    peer:stop(Peer),
    ct:pal("~p", [Results]),
    ?assertEqual({Left, 0, Text, Results}, {ls(?config(open, Config)), Status, Text, Results}).

recorded(Peer, Args) -> watched(Peer, open(kymo:cli_path(), ["attach", "--erl", erl() | Args])).

%% Ends the command, unless the node has done that, as soon as the node has tried everything.
watched(Peer, Port) ->
    true = kymo_cli:until(fun() ->
        ?ATTACKS -- [Name || {Name, _} <- peer:call(Peer, kymo_evil, results, [])] =:= []
    end),
    case erlang:port_info(Port, os_pid) of
        {os_pid, Pid} -> _ = os:cmd("kill -INT " ++ integer_to_list(Pid));
        undefined -> ok
    end,
    kymo_cli:collect(Port, 60000).

nobody() -> ["--reuid=65534", "--regid=65534", "--clear-groups"].

can(Command) ->
    case os:find_executable("setpriv") of
        false -> false;
        SetPriv -> element(1, kymo_cli:command(SetPriv, nobody() ++ Command)) =:= 0
    end.

%% ---- answers that are not those of kymo ---------------------------------------------

%% Files stay in the folder of the recording.
names(Config) ->
    Absolute = sub(Config, absolute),
    [refused(Config, #{{files} => {ok, [{Name, 3}]}})
     || Name <- ["../escaped", "../../escaped", "a/b", Absolute, ".", "..", "", "-o", ".hidden", "a\0b", "a\nb", "a\e[2Jb",
            lists:duplicate(300, $a), name, <<"meta">>, ["meta"], [233], {}]],
    refused(Config, #{{files} => {ok, [{"meta", 3}, {"meta", 3}]}}),
    refused(Config, #{{files} => {ok, [{"meta", 3} | tail]}}),
    refused(Config, #{{files} => {ok, lists:duplicate(200000, {"meta", 3})}}),
    refused(Config, #{{files} => {ok, meta}}).

%% No file of an absurd size.
sizes(Config) ->
    [refused(Config, #{{files} => {ok, [{"meta", Size}]}}) || Size <- [-1, 1 bsl 60, 1 bsl 200, 1.5, large]].

%% No more bytes than were asked for.
parts(Config) ->
    [refused(Config, #{{read} => {ok, Part}})
     || Part <- [<<"four">>, {zeros, 4}, {zeros, 1 bsl 80}, [1, 2, 3], meta]].

%% Whoever can write to the parent folder can't have the command write elsewhere.
links(Config) ->
    Precious = sub(Config, precious),
    ok = file:write_file(Precious, "precious"),
    Out = sub(Config, rec),
    %% The link appears between the list of files and the first of them.
    Answer = fun
        ({files, _}) ->
            ok = file:make_symlink(Precious, filename:join(Out, "meta")),
            default;
        (_) -> default
    end,
    {Status, Text} = run_with(Answer, ["-q", "-o", Out]),
    ?assertEqual({4, Text}, {Status, Text}),
    ?assertEqual({ok, <<"precious">>}, file:read_file(Precious)).

%% Values of other types are an error of the node, which is explained.
answers(Config) ->
    [refused(Config, #{Request => Answer})
     || {Request, Answers} <- [
            {{start}, [{ok, #{}}, {ok, #{functions => a, processes => 1, dir => <<"/tmp/x">>}}, ok_then, {ok, [1 | 2]}]},
            {progress, [{ok, []}, {ok, #{state => closed, events => -1, lost => #{}, bytes => 0}},
                {ok, #{state => closed, events => 1, lost => #{a => b}, bytes => 0}},
                {ok, #{state => closed, events => 1, lost => #{}, bytes => 0, budget => #{cost => a, shed => b}}}]},
            {stop, [{ok, x}]}],
        Answer <- Answers],
    [refused(Config, fun
        ({ask, F, [A | _]}) when F =:= Function, A =:= Arg -> {answer, Answer};
        (_) -> default
     end)
     || {Function, Arg, Answers} <- [
            {system_info, otp_release, ["x", x, "\e[2J", [], lists:duplicate(10000, $9)]},
            {system_info, os_type, [linux, {1, 2}]},
            {system_info, system_architecture, [1, [$x | $y], "\e[2J", [-1]]},
            {module_loaded, kymo_attach_node, [1]},
            {whereis, kymo_attach, ["x"]}],
        Answer <- Answers].

%% What the node says is shown as text.
escapes(Config) ->
    Evil = "\e]0;evil\a\e[2J\r\x{9b}31m\x{202e}\nkymo: forged\n",
    Bytes = unicode:characters_to_binary(Evil),
    [begin
         {_, Text} = run_with(answering(#{Request => Answer}), ["-o", sub(Config, rec)]),
         _ = file:del_dir_r(sub(Config, rec)),
         plain(Text)
     end || {Request, Answer} <- [
        {{start}, {error, {no_host, Evil}}},
        {{start}, {error, {no_load, kymo, Evil}}},
        {{start}, {error, {no_library, {missing, Evil, Bytes}}}},
        {{start}, {error, {other_machine, Evil, Evil}}},
        {{start}, {error, {other_protocol, Evil, Evil}}},
        {{start}, {error, {no_folder, [{Bytes, {noexec, x, Evil}}]}}},
        {{start}, {error, {start, Evil}}},
        {{start}, {error, {trace, {bad_pattern, Bytes, Evil}}}},
        {{start}, {error, list_to_atom(lists:sublist(Evil, 20))}},
        {{start}, {ok, #{functions => 1, processes => 1, dir => <<"/tmp/", Bytes/binary>>}}},
        {{load}, {error, {other_kymo, list_to_atom(lists:sublist(Evil, 20))}}},
        {{files}, {error, Evil}},
        {{files}, {error, {fetch, <<255, 27, 7>>}}}]].

%% Each character is printed as it is, and each line is one of the command's or continues one.
plain(Text) ->
    Characters = unicode:characters_to_list(Text),
    ?assert(is_list(Characters)),
    ?assertEqual([], [C || C <- Characters, C < 32, C =/= $\n orelse C >= 127, C < 160 orelse C =:= 16#202e]),
    ?assertEqual(nomatch, re:run(Text, "^kymo: forged", [multiline])).

%% Messages that ask for something, or that no node sends, have no effect, or end the connection.
frames(Config) ->
    Open = ?config(open, Config),
    Marker = Open ++ "/ran",
    Gone = fun() -> ?assertEqual([], ls(Open)) end,
    Us = self(),
    Pid = binary_to_term(<<131, 88, 119, 14, "evil@localhost", 9:32, 0:32, 1:32>>),
    Ref = binary_to_term(<<131, 90, 0, 3, 119, 14, "evil@localhost", 1:32, 1:32, 2:32, 3:32>>),
    Harmless = [
        kymo_evil:frame({29, Ref, Pid, Pid, {os, cmd, 1}, [monitor]}, ["id > " ++ Marker]),
        kymo_evil:frame({6, Pid, '', rex}, {cast, os, cmd, ["id > " ++ Marker], Pid}),
        kymo_evil:frame({6, Pid, '', init}, {stop, stop}),
        kymo_evil:frame({2, '', Us}, stop),
        kymo_evil:frame({8, Pid, Us, kill}),
        kymo_evil:frame({1, Pid, Us}),
        kymo_evil:frame({3, Pid, Us, kill}),
        kymo_evil:frame({19, Pid, rex, Ref}),
        kymo_evil:frame({21, Pid, Us, Ref, kill}),
        kymo_evil:frame({31, Ref, Us, 0, Pid}),
        kymo_evil:frame({4711}),
        kymo_evil:frame(nothing),
        []
    ],
    {0, _} = run_with(before(progress, Harmless), ["-q", "-o", sub(Config, harmless)]),
    Gone(),
    Bomb = zlib:compress(binary:copy(<<0>>, 1000000)),
    Atoms = fun(N) -> kymo_evil:frame({2, '', Pid}, [list_to_atom(lists:concat(["kymo_evil_", N, "_", I])) || I <- lists:seq(1, 20000)]) end,
    [begin
         {6, Text} = run_with(before(progress, Bad), ["-q", "-o", sub(Config, bad)]),
         _ = file:del_dir_r(sub(Config, bad)),
         plain(Text),
         Gone()
     end || Bad <- [[<<112, 131>>], [<<0>>], [<<112, 131, 80, 16#ffffffff:32, Bomb/binary>>], [<<255, 255, 255>>],
            [<<112, 131, 108, 16#ffffffff:32>>], [binary:copy(<<0>>, 9 bsl 20)]]],
    %% New atoms are not read without end.
    {_, Flooded} = run_with(before(progress, [Atoms(N) || N <- lists:seq(1, 10)]), ["-q", "-o", sub(Config, atoms)]),
    plain(Flooded).

%% The path that a command reads in place is a plain one.
paths(Config) ->
    [begin
         {Status, Text} = run_with(answering(#{{start} => {ok, #{functions => 1, processes => 1, dir => Dir}}}), top, ["--once"]),
         ?assertEqual({6, Text}, {Status, Text}),
         plain(Text)
     end || Dir <- [<<"relative">>, <<"/tmp/../etc">>, <<"/tmp/\e[2J">>, <<"/tmp/\nkymo: x">>, <<255>>, <<>>, "/tmp", 1, binary:copy(<<"/x">>, 5000)]],
    %% Nor does it wait for a pipe.
    Pipe = sub(Config, pipe),
    ok = file:make_dir(Pipe),
    "" = os:cmd("mkfifo " ++ filename:join(Pipe, "meta")),
    {6, _} = run_with(answering(#{{start} => {ok, #{functions => 1, processes => 1, dir => unicode:characters_to_binary(Pipe)}}}), top, ["--once"]).

%% Another user chooses the command line of a process that looks like a node.
listed(_) ->
    Port = open_port({spawn_executable, "/bin/sh"}, [
        {args, ["-c", "read x", "-root", "/", "-progname", "erl", "-sname", "evil\e[2J\nforged", "-setcookie", "x"]}, exit_status, hide
    ]),
    {os_pid, Pid} = erlang:port_info(Port, os_pid),
    {0, Text} = kymo_cli:run(["attach", "--erl", erl(), "--list"]),
    port_close(Port),
    contains(Text, ["evil\\x1b[2J\\x0aforged ", " " ++ integer_to_list(Pid) ++ " "]),
    ?assertEqual(nomatch, string:find(Text, "\e")).

refused(Config, Answers) ->
    Before = [ls(?config(dir, Config)), ls(?config(priv_dir, Config)), ls(?config(open, Config))],
    Out = sub(Config, rec),
    {Status, Text} = run_with(answering(Answers), ["-q", "-o", Out]),
    ?assertEqual({6, Text}, {Status, Text}),
    contains(Text, ["does not answer as expected"]),
    plain(Text),
    ?assertEqual([], [Name || Name <- case file:list_dir(Out) of {ok, Names} -> Names; _ -> [] end]),
    _ = file:del_dir(Out),
    ?assertEqual(Before, [ls(?config(dir, Config)), ls(?config(priv_dir, Config)), ls(?config(open, Config))]).

%% A tuple with the name of a request means any request of that name.
answering(Answer) when is_function(Answer) ->
    Answer;
answering(Answers) ->
    fun(Request) ->
        Key = case Request of
            Tuple when is_tuple(Tuple) -> {element(1, Tuple)};
            Atom -> Atom
        end,
        case Answers of
            #{Key := Answer} -> {answer, Answer};
            _ -> default
        end
    end.

before(Key, Frames) ->
    fun
        (Request) when Request =:= Key ->
            {frames, Frames, {ok, #{state => closed, events => 0, lost => #{}, bytes => 0}}};
        (_) ->
            default
    end.

run_with(Answer, Args) -> run_with(Answer, attach, Args).

run_with(Answer, Command, Args) ->
    Port = kymo_evil:listen("evil@localhost", ?COOKIE, Answer),
    Option = case Command of top -> "--node-port"; attach -> "--port" end,
    kymo_cli:run([atom_to_list(Command), "--erl", erl(), "--cookie", ?COOKIE, Option, integer_to_list(Port)] ++ Args ++ ["evil@localhost"]).

%% ---- files of other users -----------------------------------------------------------

%% Another user has made the folder, or a link of its name.
folders(Config) ->
    Open = ?config(open, Config),
    Own = sub(Config, own),
    ok = file:make_dir(Own),
    [Link, Theirs, Mine, Left] = [filename:join(Open, Name) || Name <- ["link", "theirs", "mine", "left"]],
    ok = file:make_symlink(Own, Mine),
    ?assertEqual(ok, kymo_attach_folder:make(Mine)),
    ?assertEqual(8#700, mode(Own)),
    ok = file:write_file(Left, ""),
    ?assertEqual({error, {write, Left, enotdir}}, kymo_attach_folder:make(Left)),
    ok = file:change_mode(Own, 8#755),
    case can(["sh", "-c", "mkdir " ++ Theirs ++ " && ln -s " ++ Own ++ " " ++ Link]) of
        true ->
            [begin
                 ?assertEqual({error, {not_yours, Dir}}, kymo_attach_folder:make(Dir)),
                 {4, Text} = run_with(fun(_) -> default end, ["-q", "-o", Dir]),
                 contains(Text, [Dir, "belongs to another user"]),
                 ?assertEqual({ok, []}, file:list_dir(Dir)),
                 {4, Several} = kymo_cli:run(["attach", "--erl", erl(), "--cookie", "c", "-o", Dir, "a@localhost", "b@localhost"]),
                 contains(Several, ["belongs to another user"])
             end || Dir <- [Link, Theirs]],
            ?assertEqual(8#755, mode(Own));
        false ->
            {skip, "this user may not make files as another one"}
    end.

mode(File) ->
    {ok, Info} = file:read_file_info(File),
    Info#file_info.mode band 8#777.

%% The cookie is in no command line, and in no environment that another user can read.
cookie_in_arguments(Config) ->
    Answer = fun
        (progress) ->
            [begin
                 {ok, Line} = file:read_file("/proc/" ++ Pid ++ "/cmdline"),
                 ?assertEqual({Line, nomatch}, {Line, string:find(Line, ?COOKIE)})
             end || Pid <- ls("/proc"), lists:all(fun(C) -> C >= $0 andalso C =< $9 end, Pid),
                filelib:is_regular("/proc/" ++ Pid ++ "/cmdline"), is_ours(Pid)],
            default;
        (_) ->
            default
    end,
    {0, _} = run_with(Answer, ["-q", "-o", sub(Config, rec)]).

is_ours(Pid) ->
    case file:read_file("/proc/" ++ Pid ++ "/cmdline") of
        {ok, Line} -> string:find(Line, "kymo_attach") =/= nomatch orelse string:find(Line, "evil@localhost") =/= nomatch;
        {error, _} -> false
    end.

%% The cookie of a node is in a file of its user, in the node's file system. A link leads to no other
%% file, whose contents the node could find out.
cookie_links(Config) ->
    Root = sub(Config, root),
    Uid = kymo_attach_proc:own_uid(),
    Cookie = fun(File) -> kymo_attach_proc:cookie_of(Uid, Root, File) end,
    ok = filelib:ensure_dir(filename:join(Root, "home/x")),
    ok = filelib:ensure_dir(filename:join(Root, "data/x")),
    ok = file:write_file(filename:join(Root, "data/.erlang.cookie"), "inside"),
    ok = file:write_file(sub(Config, secret), "secret"),
    Link = fun(Target, Name) -> ok = file:make_symlink(Target, filename:join(Root, Name)) end,
    Link("/data", "home/absolute"),
    Link("../data", "home/relative"),
    Link("/data/.erlang.cookie", "home/.erlang.cookie"),
    [?assertMatch({File, {"inside", _}}, {File, Cookie(File)})
     || File <- ["/data/.erlang.cookie", "/home/absolute/.erlang.cookie", "/home/relative/.erlang.cookie", "/home/.erlang.cookie",
            "/../../data/.erlang.cookie", "/data/../../../data/.erlang.cookie"]],
    Link(sub(Config, secret), "home/outside"),
    Link("../../secret", "home/up"),
    Link("loop", "home/loop"),
    [?assertEqual({File, none}, {File, Cookie(File)})
     || File <- ["/home/outside", "/home/up", "/home/loop", "/../secret", "/home", "/nothing", "/dev/zero"]],
    ?assertEqual(none, kymo_attach_proc:cookie_of(Uid + 1, Root, "/data/.erlang.cookie")),
    Pipe = filename:join(Root, "pipe"),
    "" = os:cmd("mkfifo " ++ Pipe),
    ?assertEqual(none, Cookie("/pipe")).

%% Options of TLS are read, and not evaluated: the file may be that of the node's user.
optfile(Config) ->
    File = sub(Config, "dist.conf"),
    Marker = ?config(open, Config) ++ "/ran",
    ok = file:write_file(File, "[{client, [{verify, begin os:cmd(\"touch " ++ Marker ++ "\"), verify_none end}]}]."),
    {2, Text} = kymo_cli:run(["attach", "--erl", erl(), "--cookie", ?COOKIE, "--proto-dist", "inet_tls", "--ssl-dist-optfile", File,
        "-o", sub(Config, rec), "evil@localhost"]),
    contains(Text, [File, "evaluates no expressions"]),
    ?assertEqual([], ls(?config(open, Config))).

text(_) ->
    ?assertEqual("a\n    b", kymo_attach_text:clean("a\nb")),
    ?assertEqual("a\n    b", kymo_attach_text:clean("a\n    b")),
    ?assertEqual("a\\x0ab", kymo_attach_text:line("a\nb")),
    ?assertEqual("\\x1b[2J\\x7f\\x9b\\x{202e}ü", kymo_attach_text:clean("\e[2J\x7f\x{9b}\x{202e}ü")),
    ?assertEqual("ok\\xff\\x1b", kymo_attach_text:clean(<<"ok", 255, 27>>)),
    ?assertEqual("?", kymo_attach_text:clean([foo])),
    ?assertEqual(8003, length(kymo_attach_text:clean(lists:duplicate(1000000, $a)))).

%% ---------------------------------------------------------------------------------------

open(Program, Args) ->
    open_port({spawn_executable, Program}, [{args, Args}, exit_status, stderr_to_stdout, binary, use_stdio, hide]).

erl() -> filename:join([code:root_dir(), "bin", "erl"]).

sub(Config, Name) -> filename:join(?config(dir, Config), Name).

ls(Dir) ->
    {ok, Names} = file:list_dir(Dir),
    lists:sort(Names).
