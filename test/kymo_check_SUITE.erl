%% SPDX-License-Identifier: Apache-2.0
%%
%% `kymo check' on nodes that have one problem each: it names the culprit, and finds nothing in a node that
%% has none. Further problems are in test/problems. Given a node, it records the node first.
-module(kymo_check_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-compile(export_all).
-compile(nowarn_export_all).

all() ->
    [nothing, quoted, crash_loop, deadlock, processes, memory, blocked, stuck, pool, slow, port, output, acceptor, literals, collections, copies,
     inspector, long_runs, atoms, cpu, sender, mailbox, burst, one_long_run, one_step, files, commands_port, one_report, own_rules, wrong_rules, usage, documented,
     node_with_problem, node_without, node_by_pid, node_interrupted, rules_before_node, wrong_node, node_usage].

suite() -> [{timetrap, {minutes, 3}}].

init_per_testcase(Case, Config) ->
    Dir = filename:join(?config(priv_dir, Config), atom_to_list(Case)),
    ok = file:make_dir(Dir),
    [{dir, Dir} | Config].

end_per_testcase(_, Config) -> kymo_hung_attach:clean(Config).

%% Records a node for a second after a function has started something. Returns the recording.
recorded(Start, Config) ->
    Dir = filename:join(?config(dir, Config), "rec"),
    Peer = kymo_peer:start(Config),
    ok = kymo_peer:call(Peer, ?MODULE, record, [Dir, Start]),
    kymo_peer:stop(Peer),
    Dir.

record(Dir, Start) ->
    {ok, R} = kymo:start(#{dir => Dir, memory => 16 bsl 20, counters => 20, system_monitor => default}),
    {ok, _} = kymo:trace(R, #{processes => all, events => [messages, running, procs, garbage_collection]}),
    ?MODULE:Start(),
    receive after 1000 -> ok end,
    {ok, _} = kymo:stop(R),
    ok.

findings(Dir) -> findings(Dir, []).

findings(Dir, Args) ->
    {Status, Text} = kymo_cli:run(["check", "-q", "--json" | Args] ++ [Dir]),
    #{<<"findings">> := Findings} = kymo_cli:json(binary_to_list(Text)),
    ?assertEqual(case Findings of [] -> 0; _ -> 7 end, Status),
    %% Text shows the same.
    {Status, Shown} = kymo_cli:run(["check", "-q" | Args] ++ [Dir]),
    _ = [?assertNotEqual(nomatch, string:find(Shown, Finding)) || #{<<"finding">> := Finding} <- Findings],
    Findings.

of_rule(Rule, Findings) -> [Text || #{<<"rule">> := R, <<"finding">> := Text} <- Findings, R =:= Rule].

%% The recording has such events: stock releases with faults have no received messages, or collections.
has(Event, Dir) ->
    {0, Text} = kymo_cli:run(["sql", "-q", "--csv", Dir, "select count(*) from events where event = '" ++ Event ++ "'"]),
    hd(lists:reverse(string:lexemes(binary_to_list(iolist_to_binary(Text)), "\r\n"))) =/= "0".

%% Some of these rules have found nothing.
not_found(Rules, Dir) ->
    ?assertEqual([], [F || #{<<"rule">> := Rule} = F <- findings(Dir), lists:member(Rule, Rules)]).

%% A rule has found this, and all of these parts are in its sentence.
found(Rule, Parts, Dir) ->
    Findings = findings(Dir),
    Texts = of_rule(Rule, Findings),
    ?assertMatch([_ | _], Texts, Findings),
    ?assertMatch([_ | _], [Text || Text <- Texts, lists:all(fun(Part) -> string:find(Text, Part) =/= nomatch end, Parts)], Findings).

%% The suggested commands are words of a shell, whatever the name of the folder is.
quoted(Config) ->
    Dir = recorded(crashes, Config),
    Odd = filename:join(?config(dir, Config), "an 'odd' $(name); \"x\""),
    ok = file:rename(Dir, Odd),
    {7, Text} = kymo_cli:run(["check", "-q", Odd]),
    {match, [Command]} = re:run(Text, "see kymo (sql .*)", [{capture, [1], list}]),
    Shown = os:cmd(kymo:cli_path() ++ " " ++ Command),
    ?assertNotEqual(nomatch, string:find(Shown, "check_crashes"), Shown).

%% ---- problems --------------------------------------------------------------------------

nothing(Config) ->
    Dir = recorded(idle, Config),
    %% The machine may be busy.
    ?assertEqual([], [F || #{<<"rule">> := Rule} = F <- findings(Dir), Rule =/= <<"processor">>]).

idle() -> ok.

crash_loop(Config) ->
    found(<<"crash_loop">>, ["check_crashes", "badarith", "times"], recorded(crashes, Config)).

crashes() ->
    Crash = fun Crash() ->
        {_, Monitor} = spawn_monitor(fun() ->
            true = register(check_crashes, self()),
            receive after 10 -> erlang:error(badarith) end
        end),
        receive {'DOWN', Monitor, process, _, _} -> Crash() end
    end,
    _ = spawn(Crash),
    ok.

deadlock(Config) ->
    found(<<"deadlock">>, ["check_a waits for check_b", "check_b waits for check_a"], recorded(locked, Config)).

locked() ->
    _ = [server(Name) || Name <- [check_a, check_b]],
    check_a ! {call, check_b},
    check_b ! {call, check_a},
    ok.

server(Name) ->
    Self = self(),
    Pid = spawn(fun() ->
        true = register(Name, self()),
        Self ! {self(), ready},
        receive {call, Other} -> gen_server:call(Other, hello, infinity) end
    end),
    receive {Pid, ready} -> Pid end.

processes(Config) ->
    found(<<"process_growth">>, ["grow in number", "check_spawner starts them"], recorded(spawns, Config)).

spawns() ->
    _ = spawn(fun() ->
        true = register(check_spawner, self()),
        spawn_more()
    end),
    ok.

spawn_more() ->
    _ = spawn(?MODULE, stay, []),
    receive after 5 -> spawn_more() end.

stay() -> receive stop -> ok end.

memory(Config) ->
    Dir = recorded(hoards, Config),
    Held = case has("gc_minor_end", Dir) of true -> ["virtual binary heap"]; false -> [] end,
    found(<<"memory_growth">>, ["binaries", "check_hoard" | Held], Dir).

hoards() ->
    _ = spawn(fun() ->
        true = register(check_hoard, self()),
        hoard([])
    end),
    ok.

hoard(All) ->
    receive after 10 -> hoard([binary:copy(<<0>>, 100000) | All]) end.

%% The peer of a socket reads nothing.
blocked(Config) ->
    found(<<"blocked">>, ["check_sender", "a socket", "prim_inet:"], recorded(sends, Config)).

sends() ->
    {ok, L} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}, {active, false}]),
    {ok, Port} = inet:port(L),
    _ = spawn(fun() ->
        true = register(check_sender, self()),
        {ok, S} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary]),
        send(S, binary:copy(<<0>>, 1 bsl 20))
    end),
    {ok, Accepted} = gen_tcp:accept(L),
    ok = gen_tcp:controlling_process(Accepted, whereis(init)).

send(S, Data) ->
    ok = gen_tcp:send(S, Data),
    send(S, Data).

%% A server that never answers.
stuck(Config) ->
    found(<<"stuck_request">>, ["check_stuck", "check_client", "no reply"], recorded(asks, Config)).

asks() ->
    Stuck = server(check_stuck),
    _ = spawn(fun() ->
        true = register(check_client, self()),
        gen_server:call(Stuck, hello, infinity)
    end),
    ok.

%% A server that lends one thing, which is in use: it has replied to one client, and waits for nothing.
pool(Config) ->
    Dir = recorded(borrows, Config),
    Idle = case has("receive", Dir) of true -> ["is idle in gen_server:loop", "without a reply", "1 process has received one"]; false -> [] end,
    found(<<"stuck_request">>, ["2 requests to check_pool", " in gen:do_call/" | Idle], Dir).

borrows() ->
    {ok, Pool} = gen_server:start({local, check_pool}, ?MODULE, [], []),
    _ = [spawn(fun() -> lent = gen_server:call(Pool, borrow, infinity), stay() end) || _ <- lists:seq(1, 3)],
    ok.

%% A server that waits for an external program, and others that wait for the server.
port(Config) ->
    Dir = recorded(commands, Config),
    Waits = case has("receive", Dir) of true -> ["port"]; false -> [] end,
    found(<<"slow_server">>, ["check_port", "waits in kymo_check_SUITE:ask/1" | Waits], Dir).

commands() ->
    {ok, Server} = gen_server:start({local, check_port}, ?MODULE, [], []),
    _ = spawn(fun Ask() -> told = gen_server:call(Server, command), Ask() end),
    ok.

ask(Port) ->
    true = port_command(Port, "\n"),
    receive {Port, {data, _}} -> told end.

%% A slow device, to which several processes write.
output(Config) ->
    found(<<"queueing">>, ["check_device", "for I/O (io:format"], recorded(writes, Config)).

writes() ->
    Device = spawn(fun Write() ->
        receive
            {io_request, From, As, _} ->
                receive after 10 -> ok end,
                From ! {io_reply, As, ok},
                Write()
        end
    end),
    true = register(check_device, Device),
    _ = [spawn(fun Print() -> ok = io:format(Device, "x", []), Print() end) || _ <- lists:seq(1, 5)],
    ok.

%% Of a server that reads from each connection before it accepts the next one, and one that has others do it.
acceptor(Config) ->
    found(<<"acceptor">>, ["check_acceptor", "prim_inet:recv0/3"], recorded(accepts, Config)),
    not_found([<<"acceptor">>], recorded(hands_over, [{dir, filename:join(?config(dir, Config), "healthy")} | Config])).

accepts() -> serve(check_acceptor, fun(S) -> gen_tcp:recv(S, 0) end).

hands_over() ->
    Workers = [spawn(fun Work() -> receive {read, S} -> _ = gen_tcp:recv(S, 0), Work() end end) || _ <- lists:seq(1, 3)],
    serve(check_handing, fun(S) ->
        Worker = lists:nth(rand:uniform(length(Workers)), Workers),
        ok = gen_tcp:controlling_process(S, Worker),
        Worker ! {read, S}
    end).

serve(Name, Use) ->
    Self = self(),
    Server = spawn(fun() ->
        true = register(Name, self()),
        {ok, L} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}, {active, false}]),
        {ok, Port} = inet:port(L),
        Self ! {self(), Port},
        (fun Accept() ->
            {ok, S} = gen_tcp:accept(L),
            _ = Use(S),
            Accept()
        end)()
    end),
    receive
        {Server, Port} ->
            _ = [spawn(fun() -> connect(Port) end) || _ <- lists:seq(1, 3)],
            ok
    end.

%% A client that is slow to speak.
connect(Port) ->
    {ok, S} = gen_tcp:connect({127, 0, 0, 1}, Port, []),
    receive after 100 -> ok end,
    ok = gen_tcp:send(S, "hello"),
    ok = gen_tcp:close(S),
    connect(Port).

%% A persistent term that is replaced, in a node with many processes. New ones hurt none.
literals(Config) ->
    Dir = recorded(replaces, Config),
    case has("receive", Dir) of
        true ->
            found(<<"literals">>, ["persistent terms are replaced", "check_putter"], Dir),
            not_found([<<"literals">>], recorded(adds, [{dir, filename:join(?config(dir, Config), "healthy")} | Config]));
        false ->
            {skip, "received messages are left out on this release"}
    end.

replaces() -> puts(check_putter, fun(_) -> check_term end).

adds() -> puts(check_adder, fun(N) -> {check_term, N} end).

puts(Name, Key) ->
    ok = persistent_term:put(Key(0), {0}),
    _ = [spawn(fun() -> Term = persistent_term:get(Key(0)), receive stop -> Term end end) || _ <- lists:seq(1, 3000)],
    _ = spawn(fun() ->
        true = register(Name, self()),
        (fun Put(N) ->
            ok = persistent_term:put(Key(N), {N}),
            receive after 50 -> Put(N + 1) end
        end)(1)
    end),
    ok.

%% Processes with large heaps, of which one has collections made.
collections(Config) ->
    Dir = recorded(cleans, Config),
    case has("gc_major_end", Dir) andalso has("receive", Dir) of
        true -> found(<<"garbage_collection">>, ["3 processes of ", " in kymo_check_SUITE:keep/1", "check_cleaner asks"], Dir);
        false -> {skip, "collections are left out on this release"}
    end.

cleans() ->
    Pids = [spawn(fun() -> keep(lists:seq(1, 100000)) end) || _ <- lists:seq(1, 3)],
    _ = spawn(fun() ->
        true = register(check_cleaner, self()),
        (fun Clean() -> _ = [erlang:garbage_collect(Pid) || Pid <- Pids], Clean() end)()
    end),
    ok.

keep(List) ->
    receive stop -> List end.

%% Large terms in messages, and out of a table.
copies(Config) ->
    Dir = recorded(sends_large, Config),
    case has("gc_minor_end", Dir) of
        true ->
            found(<<"copies">>, ["copied to check_taker", "check_giver sent it", "large messages"], Dir),
            found(<<"copies">>, ["copied to check_reader", "ets:lookup/2"],
                  recorded(reads, [{dir, filename:join(?config(dir, Config), "ets")} | Config]));
        false ->
            {skip, "collections are left out on this release"}
    end.

sends_large() ->
    Taker = spawn(fun Take() -> receive {From, _} -> From ! more, Take() end end),
    true = register(check_taker, Taker),
    _ = spawn(fun() ->
        true = register(check_giver, self()),
        List = lists:seq(1, 200000),
        (fun Give() ->
            Taker ! {self(), List},
            receive more -> Give() end
        end)()
    end),
    ok.

reads() ->
    _ = spawn(fun() ->
        true = register(check_reader, self()),
        Table = ets:new(check_table, []),
        true = ets:insert(Table, {list, lists:seq(1, 200000)}),
        (fun Read() ->
            [_] = ets:lookup(Table, list),
            receive after 1 -> Read() end
        end)()
    end),
    ok.

%% Sending copies the message in one go.
long_runs(Config) ->
    found(<<"long_runs">>, ["check_long runs", "without a break"], recorded(runs_long, Config)).

runs_long() ->
    Self = self(),
    Sink = spawn(fun Take() -> receive _ -> Take() end end),
    Pid = spawn(fun() ->
        true = register(check_long, self()),
        List = lists:seq(1, 2000000),
        Self ! {self(), built},
        (fun Send() ->
            Sink ! List,
            receive after 10 -> Send() end
        end)()
    end),
    receive {Pid, built} -> ok end.

%% A process that asks all others about themselves.
inspector(Config) ->
    Dir = recorded(inspects, Config),
    case has("receive", Dir) of
        true -> found(<<"process_info">>, ["check_inspector asks", "process_info/2"], Dir);
        false -> {skip, "received messages are left out on this release"}
    end.

inspects() ->
    _ = [spawn(fun stay/0) || _ <- lists:seq(1, 500)],
    _ = spawn(fun() ->
        true = register(check_inspector, self()),
        (fun Inspect() ->
            _ = [process_info(Pid, [current_stacktrace, links]) || Pid <- processes()],
            receive after 20 -> Inspect() end
        end)()
    end),
    ok.

%% A server that sleeps in its callback.
slow(Config) ->
    found(<<"slow_server">>, ["check_slow", "timer:sleep/1"], recorded(dawdles, Config)).

dawdles() ->
    {ok, Slow} = gen_server:start({local, check_slow}, ?MODULE, [], []),
    _ = spawn(fun Ask() -> late = gen_server:call(Slow, hello), Ask() end),
    ok.

init([]) -> {ok, none}.

handle_call(borrow, _, none) -> {reply, lent, all_lent};
handle_call(borrow, _, all_lent) -> {noreply, all_lent};
handle_call(command, _, State) ->
    Port = open_port({spawn, "sh -c 'while read x; do sleep 0.1; echo $x; done'"}, []),
    told = ask(Port),
    true = port_close(Port),
    {reply, told, State};
handle_call(hello, _, State) ->
    ok = timer:sleep(100),
    {reply, late, State}.

handle_cast(_, State) -> {noreply, State}.

atoms(Config) ->
    found(<<"atoms">>, ["never freed", "check_namer"], recorded(names, Config)).

names() ->
    _ = spawn(fun() ->
        true = register(check_namer, self()),
        name(1)
    end),
    ok.

name(N) ->
    _ = list_to_atom("check_atom_" ++ integer_to_list(N)),
    receive after 2 -> name(N + 1) end.

cpu(Config) ->
    Dir = recorded(spins, Config),
    found(<<"cpu_hog">>, ["check_hog", "kymo_check_SUITE:spin/1"], Dir),
    not_found([<<"long_runs">>], Dir).

spins() ->
    _ = spawn(fun() ->
        true = register(check_hog, self()),
        spin(0)
    end),
    ok.

spin(N) -> spin(N + 1).

%% A process that sends much to many.
sender(Config) ->
    found(<<"cpu_hog">>, ["check_sends", "messages per second to 50 processes"], recorded(broadcasts, Config)).

broadcasts() ->
    Pids = [spawn(fun Take() -> receive {_, N} when N > 0 -> Take() end end) || _ <- lists:seq(1, 50)],
    _ = spawn(fun() ->
        true = register(check_sends, self()),
        (fun Send() ->
            _ = [Pid ! {self(), 1} || Pid <- Pids, _ <- lists:seq(1, 3)],
            _ = lists:sum(lists:seq(1, 100000)),
            Send()
        end)()
    end),
    ok.

mailbox(Config) ->
    found(<<"mailbox">>, ["check_full", "messages"], recorded(fills, Config)).

fills() ->
    Pid = spawn(fun stay/0),
    true = register(check_full, Pid),
    _ = [Pid ! N || N <- lists:seq(1, 3000)],
    ok.

%% ---- no problem ------------------------------------------------------------------------

%% A mailbox that was long and is empty.
burst(Config) -> not_found([<<"mailbox">>], recorded(drains, Config)).

drains() ->
    Pid = spawn(fun() -> receive go -> drain() end end),
    _ = [Pid ! N || N <- lists:seq(1, 3000)],
    receive after 200 -> ok end,
    Pid ! go,
    ok.

drain() -> receive _ -> drain() end.

%% One run that the runtime reports, because a BIF did not yield for once.
one_long_run(Config) ->
    Dir = recorded(runs_long_once, Config),
    {0, Text} = kymo_cli:run(["sql", "-q", "--csv", Dir,
                              "select count(*) from system_monitor where kind = 'long_schedule' and process like '%check_once%'"]),
    ?assertMatch({match, _}, re:run(Text, "^1\r?$", [multiline])),
    ?assertEqual([], [Found || Found <- of_rule(<<"reports">>, findings(Dir)), string:find(Found, "check_once") =/= nomatch]).

runs_long_once() ->
    Self = self(),
    _ = spawn(fun() -> Self ! {doublings, doublings([], 0)} end),
    receive {doublings, N} -> ok end,
    {Pid, Monitor} = spawn_monitor(fun() ->
        true = register(check_once, self()),
        erts_debug:flat_size(shared(N + 1))
    end),
    receive {'DOWN', Monitor, process, Pid, normal} -> ok end.

%% How often a list is doubled until to count its words takes longer than the limit of the monitor.
doublings(Shared, N) ->
    receive after 1 -> ok end,
    case timer:tc(fun() -> erts_debug:flat_size(Shared) end) of
        {Us, _} when Us > 100000 -> N;
        _ -> doublings([Shared | Shared], N + 1)
    end.

shared(0) -> [];
shared(N) -> Shared = shared(N - 1), [Shared | Shared].

%% Memory that grows once, soon after the recording began, and stays.
one_step(Config) -> not_found([<<"memory_growth">>], recorded(grows_once, Config)).

grows_once() ->
    Self = self(),
    _ = spawn(fun() ->
        Binary = binary:copy(<<0>>, 100000000),
        Self ! grown,
        receive {stop, Pid} -> Pid ! Binary end
    end),
    receive grown -> ok end.

%% A server that reads files on dirty schedulers: it does not wait for messages there.
files(Config) ->
    Dir = recorded(reads_files, Config),
    [Finding] = of_rule(<<"queueing">>, findings(Dir)),
    ?assertMatch({match, _}, re:run(Finding, "check_files.* spends .* in prim_file:read_info_nif/2, on a dirty scheduler .*or waiting for one")).

reads_files() ->
    {ok, File} = file:get_cwd(),
    Pid = spawn(fun() -> read_files(File) end),
    true = register(check_files, Pid),
    Call = fun Call() ->
        Ref = monitor(process, Pid),
        Pid ! {'$gen_call', {self(), Ref}, go},
        receive {Ref, ok} -> true = demonitor(Ref) end,
        Call()
    end,
    _ = [spawn(Call) || _ <- lists:seq(1, 3)],
    ok.

read_files(File) ->
    receive
        {'$gen_call', {Client, Ref}, go} ->
            _ = [file:read_file_info(File, [raw]) || _ <- lists:seq(1, 500)],
            Client ! {Ref, ok},
            read_files(File)
    end.

%% Where a process commands a port, a run ends too: not in the BIF that was called last.
commands_port(Config) ->
    Dir = recorded(writes_to_port, Config),
    [Finding] = of_rule(<<"cpu_hog">>, findings(Dir)),
    ?assertMatch({match, _}, re:run(Finding, "check_writer uses .* its runs end mostly in functions that are not known")),
    ?assertEqual(nomatch, string:find(Finding, "erlang:put/2")).

writes_to_port() ->
    _ = spawn(fun() ->
        true = register(check_writer, self()),
        write_to_port(open_port({spawn_executable, "/bin/cat"}, [binary]))
    end),
    ok.

write_to_port(Port) ->
    _ = put(size, [erts_debug:flat_size(List) || List <- lists:duplicate(100, lists:seq(1, 100000))]),
    Port ! {self(), {command, <<"abc">>}},
    receive {Port, {data, _}} -> write_to_port(Port) end.

%% A report that comes once.
one_report(Config) ->
    found(<<"reports">>, ["reported large_heap 1 time for check_large"], recorded(grows, Config)).

grows() ->
    _ = spawn_opt(fun() ->
        true = register(check_large, self()),
        true = garbage_collect(),
        stay()
    end, [{min_heap_size, 20 bsl 20}]),
    ok.

%% ---- rules -----------------------------------------------------------------------------

own_rules(Config) ->
    Dir = recorded(idle, Config),
    Folder = rules(Config, "select 'it took ' || duration(1500000) || ' and ' || bytes(2097152) || "
        "' of ' || counted(1, 'process') || ', ' || counted(2.4, 'process') || ', ' || counted(0, 'time') as finding, "
        "recorded_ns() > 5e8 and recording_end_ns() >= recorded_ns() as weight, 'print REC -n 1' as more"),
    Findings = findings(Dir, ["--rules", Folder]),
    Rule = unicode:characters_to_binary(filename:join(Folder, "own.sql")),
    [First] = [F || #{<<"rule">> := R} = F <- Findings, R =:= Rule],
    More = unicode:characters_to_binary(["kymo print ", Dir, " -n 1"]),
    ?assertMatch(#{<<"finding">> := <<"it took 1.50 ms and 2 MiB of 1 process, 2 processes, 0 times">>, <<"weight_percent">> := 100, <<"more">> := More}, First).

rules(Config, Text) ->
    Folder = filename:join(?config(dir, Config), "rules"),
    File = filename:join(Folder, "own.sql"),
    ok = filelib:ensure_dir(File),
    ok = file:write_file(File, Text),
    Folder.

wrong_rules(Config) ->
    Dir = recorded(idle, Config),
    [
        begin
            Folder = rules(Config, Rule),
            {1, Text} = kymo_cli:run(["check", "--rules", Folder, Dir]),
            ?assertNotEqual(nomatch, string:find(Text, "own.sql: "), Text),
            ?assertNotEqual(nomatch, string:find(Text, Part), Text)
        end
     || {Rule, Part} <- [{"select 1", "finding, weight and more"}, {"", "finding, weight and more"}, {"selekt", "syntax error"},
                         {"select finding, weight, more from nowhere", "no such table"},
                         {"attach 'x' as y", "not authorized"}]
    ],
    Empty = filename:join(?config(dir, Config), "empty"),
    ok = file:make_dir(Empty),
    {2, _} = kymo_cli:run(["check", "--rules", Empty, Dir]),
    {3, _} = kymo_cli:run(["check", "--rules", Empty ++ "/none", Dir]).

usage(Config) ->
    Dir = ?config(dir, Config),
    {2, _} = kymo_cli:run(["check"]),
    {2, _} = kymo_cli:run(["check", Dir, Dir]),
    {2, _} = kymo_cli:run(["check", "--list", Dir]),
    {2, _} = kymo_cli:run(["check", "--print", "none"]),
    {3, _} = kymo_cli:run(["check", Dir]).

%% The page has each rule, with the two comments of it.
documented(_) ->
    {0, List} = kymo_cli:run(["check", "--list"]),
    Names = [hd(string:lexemes(Line, " ")) || Line <- string:lexemes(binary_to_list(List), "\n")],
    Source = proplists:get_value(source, ?MODULE:module_info(compile)),
    {ok, Page} = file:read_file(filename:join([filename:dirname(Source), "..", "doc", "check.md"])),
    Rows = [Row || <<"| `", _/binary>> = Row <- binary:split(Page, <<"\n">>, [global]), length(binary:matches(Row, <<"|">>)) =:= 4,
            binary:match(Row, <<"` | text |">>) =:= nomatch, binary:match(Row, <<"` | real |">>) =:= nomatch],
    Documented = [
        begin
            {0, Rule} = kymo_cli:run(["check", "--print", Name]),
            [_, <<"-- ", What/binary>>, <<"-- ", When/binary>> | _] = binary:split(Rule, <<"\n">>, [global]),
            iolist_to_binary(["| `", Name, "` | ", dotless(What), " | ", dotless(When), " |"])
        end
     || Name <- Names
    ],
    ?assertEqual(Documented, Rows).

%% ---- nodes -----------------------------------------------------------------------------

%% A node on this machine, which has the code of this suite.
node_with(Start, Config) ->
    Tmp = sub("node-tmp", Config),
    Node = kymo_hung_attach:node([{tmp, Tmp} | Config], ["+sbwt", "none", "-pa", filename:dirname(code:which(?MODULE))]),
    _ = kymo_hung_node:call(Node, ?MODULE, Start, []),
    {Node, full_name(Node), Tmp}.

full_name(Node) ->
    {ok, Host} = inet:gethostname(),
    kymo_hung_node:name(Node) ++ "@" ++ Host.

sub(Name, Config) ->
    Dir = filename:join(?config(dir, Config), Name),
    ok = filelib:ensure_dir(filename:join(Dir, "x")),
    Dir.

%% Runs the command with a folder for temporary files of its own. Returns its status, and what it wrote to
%% standard output and standard error.
check(Args, Config) ->
    Tmp = sub("tmp", Config),
    Said = filename:join(?config(dir, Config), "said"),
    Script = "export TMPDIR=\"$1\"; said=$2; shift 2; exec \"$@\" 2>\"$said\"",
    {Status, Text} = kymo_cli:command("/bin/sh", ["-c", Script, "sh", Tmp, Said, kymo:cli_path(), "check" | Args]),
    {ok, Errors} = file:read_file(Said),
    ct:log("~b~n~ts~n~ts", [Status, Text, Errors]),
    {Status, Text, Errors}.

reached(Args) -> ["--erl", kymo_hung_attach:erl(), "--cookie", kymo_hung_attach:cookie() | Args].

temporary(Config) -> filelib:wildcard(filename:join(sub("tmp", Config), "*")).

%% Without options, it records five seconds of what its rules need, into a folder that stays, because the
%% commands of the findings read it.
node_with_problem(Config) ->
    {Node, Name, Tmp} = node_with(crashes, Config),
    Rules = rules(Config, "select 'length ' || recorded_ns() as finding, 0 as weight, null as more"),
    {7, Json, Said} = check(reached(["--json", "--rules", Rules, Name]), Config),
    #{<<"recording">> := Rec, <<"findings">> := Findings} = kymo_cli:json(binary_to_list(Json)),
    ?assertEqual([binary_to_list(Rec)], temporary(Config)),
    ?assertNotEqual(nomatch, string:find(Said, ["the recording is in ", Rec, "\n"])),
    ?assertMatch([_ | _], [F || F <- of_rule(<<"crash_loop">>, Findings), string:find(F, "check_crashes") =/= nomatch]),
    [<<"length ", Ns/binary>>] = [F || #{<<"finding">> := <<"length ", _/binary>> = F} <- Findings],
    ?assert(binary_to_integer(Ns) > 4500000000),
    ?assert(binary_to_integer(Ns) < 60000000000),
    [More] = lists:usort([M || #{<<"rule">> := <<"crash_loop">>, <<"more">> := M} <- Findings]),
    {0, Shown} = kymo_cli:command("/bin/sh", ["-c", iolist_to_binary(["kymo() { \"$KYMO\" \"$@\"; }; KYMO='", kymo:cli_path(), "'; ", More])]),
    ?assertNotEqual(nomatch, string:find(Shown, "check_crashes")),
    %% In text, and with a folder.
    Out = filename:join(?config(dir, Config), "out"),
    {7, Text, SaidToo} = check(reached(["--for", "1s", "-o", Out, kymo_hung_node:name(Node)]), Config),
    ?assertMatch({match, _}, re:run(Text, ["check_crashes .*\\[crash_loop\\]\n +see kymo .*", Out])),
    ?assertNotEqual(nomatch, string:find(SaidToo, ["the recording is in ", Out, "\n"])),
    {0, _} = kymo_cli:run(["info", "-q", Out]),
    %% Briefly, no commands.
    {7, Brief} = kymo_cli:run(["check", "-q", "--brief", Out]),
    ?assertEqual(nomatch, string:find(Brief, "see kymo")),
    ?assertNotEqual(nomatch, string:find(Brief, "[crash_loop]")),
    ?assertEqual({ok, []}, file:list_dir(Tmp)),
    kymo_hung_node:stop(Node).

%% The temporary folder is removed: no command reads it. A folder that was named stays.
node_without(Config) ->
    {Node, Name, Tmp} = node_with(idle, Config),
    ?assertMatch({0, <<"nothing found\n">>, _}, check(reached(["--for", "500ms", Name]), Config)),
    ?assertEqual([], temporary(Config)),
    Out = filename:join(?config(dir, Config), "out"),
    {0, Json, <<>>} = check(reached(["-q", "--json", "--for", "500ms", "-o", Out, Name]), Config),
    #{<<"findings">> := [], <<"recording">> := Rec} = kymo_cli:json(binary_to_list(Json)),
    ?assertEqual(Out, binary_to_list(Rec)),
    {0, _} = kymo_cli:run(["info", "-q", Out]),
    ?assertEqual({ok, []}, file:list_dir(Tmp)),
    kymo_hung_node:stop(Node).

node_by_pid(Config) ->
    {Node, _, _} = node_with(crashes, Config),
    {7, Text, _} = check(reached(["--for", "1s", "--pid", kymo_hung_node:os_pid(Node)]), Config),
    ?assertNotEqual(nomatch, string:find(Text, "[crash_loop]")),
    kymo_hung_node:stop(Node).

%% Ctrl-C ends the recording, which is then checked.
node_interrupted(Config) ->
    {Node, Name, Tmp} = node_with(crashes, Config),
    Out = filename:join(?config(dir, Config), "out"),
    Port = open_port({spawn_executable, kymo:cli_path()}, [
        {args, ["check" | reached(["--for", "1h", "-o", Out, Name])]}, exit_status, stderr_to_stdout, binary, hide
    ]),
    ok = kymo_cli:await_text(Port, ": recording "),
    %% This much should be recorded.
    receive after 1000 -> ok end,
    "" = kymo_hung_attach:interrupt(Port),
    {Status, Text} = kymo_cli:collect(Port, 60000),
    ?assertNotEqual(nomatch, string:find(Text, ["the recording is in ", Out])),
    {Again, Findings} = kymo_cli:run(["check", "-q", Out]),
    ?assertEqual(Again, Status),
    ?assertNotEqual(nomatch, string:find(Text, Findings)),
    ?assertEqual({ok, []}, file:list_dir(Tmp)),
    kymo_hung_node:stop(Node).

%% Rules that cannot be read are noticed before anything connects to the node.
rules_before_node(Config) ->
    {ok, Listen} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}, {active, false}]),
    {ok, Port} = inet:port(Listen),
    At = ["--port", integer_to_list(Port), "--timeout", "1s", "check@localhost"],
    Empty = sub("empty", Config),
    Folder = sub("rules/x.sql", Config),
    {2, <<>>, None} = check(reached(["--rules", Empty | At]), Config),
    ?assertNotEqual(nomatch, string:find(None, "it has no rules")),
    {3, <<>>, _} = check(reached(["--rules", Empty ++ "/none" | At]), Config),
    {3, <<>>, Unread} = check(reached(["--rules", filename:dirname(Folder) | At]), Config),
    ?assertNotEqual(nomatch, string:find(Unread, "x.sql: ")),
    ?assertEqual({error, timeout}, gen_tcp:accept(Listen, 0)),
    ?assertEqual([], temporary(Config)),
    %% Without these rules, the command connects.
    {6, <<>>, _} = check(reached(At), Config),
    {ok, _} = gen_tcp:accept(Listen, 0).

%% The status is that of kymo attach.
wrong_node(Config) ->
    Full = sub("full", Config),
    ok = file:write_file(filename:join(Full, "file"), <<>>),
    {Node, Name, Tmp} = node_with(idle, Config),
    [
        begin
            Out = case Output of none -> filename:join(?config(dir, Config), "none"); _ -> Output end,
            {Expected, _} = kymo_cli:run(["attach", "--for", "100ms", "-o", Out | reached(Args)]),
            {Status, <<>>, Said} = check(reached(["--json" | [A || Output =/= none, A <- ["-o", Output]] ++ Args]), Config),
            ?assertEqual({Args, Expected}, {Args, Status}),
            ?assertNotEqual(<<>>, Said),
            ?assertEqual([], temporary(Config))
        end
     || {Output, Args} <- [
            {none, ["--port", "1", "check_no_such_node@localhost"]},
            {none, ["--events", "nonsense", Name]},
            {none, ["--budget", "1", Name]},
            {none, ["--pid", "1"]},
            {Full, [Name]}
        ]
    ],
    {6, <<>>, Neither} = check(reached(["check_neither"]), Config),
    ?assertNotEqual(nomatch, string:find(Neither, "no recording 'check_neither', so")),
    ?assertEqual({ok, []}, file:list_dir(Tmp)),
    kymo_hung_node:stop(Node).

node_usage(Config) ->
    Dir = ?config(dir, Config),
    [
        begin
            {Status, Text} = kymo_cli:run(["check" | Args]),
            ?assertEqual({Args, 2}, {Args, Status}),
            ?assertNotEqual({Args, nomatch}, {Args, string:find(Text, Part)})
        end
     || {Args, Part} <- [
            {["--for", "5s", Dir], "is no node"},
            {["-o", Dir ++ "/out", Dir], "is no node"},
            {["--cookie", "c", Dir], "is no node"},
            {["--for", "soon", "a@localhost"], "--for takes a time"},
            {["-o", "", "a@localhost"], "output is empty"},
            {["--pid", "1", "a@localhost"], "--pid"},
            {["a@localhost", "b@localhost"], "not 2"},
            {["--list", "--for", "5s"], "--list and --print"}
        ]
    ],
    %% A recording with the name of a node is read.
    ok = file:make_dir(filename:join(Dir, "a@localhost")),
    {3, _} = kymo_cli:command("/bin/sh", ["-c", "cd \"$1\" && exec \"$2\" check a@localhost", "sh", Dir, kymo:cli_path()]).

dotless(Text) -> string:trim(Text, trailing, ".").
