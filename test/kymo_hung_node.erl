%% SPDX-License-Identifier: Apache-2.0
%%
%% A node that can be overloaded or blocked in every way, and that still does what a suite asks it:
%% a process of the highest priority, which is given UDP packets by the runtime, needs no other
%% process of the node for that.
-module(kymo_hung_node).

-export([start/3, call/4, stop/1, kill/1, os_pid/1, is_stopped/1, name/1, look/2, glance/2]).
%% In the node.
-export([main/0, seen/0, glanced/0, spin/1, hogs/2, many/1, opened/2, dirty/1, fill/2, suspend/1, resume/1, on/2, kill_all/1]).
-export([traces/1, traced/1, traces_new/0, watch_limit/0, limits_seen/0]).
-export([fill_atoms/1, fill_processes/1, fill_ports/1, fill_tables/1, fill_files/1, hold_files/0, named/1, unload_slowly/0, known/0, link_new/1, kill_new/1, kill_all_new/0, delete_kymo/1, collect/0, connections/0]).

-record(hung, {port :: port(), name :: string(), pid :: string(), socket :: gen_udp:socket(), to :: inet:port_number()}).

%% ---- the side of the suite ---------------------------------------------------------

%% Starts `Program' with these arguments before its own, as a node with this cookie. `Dir' is a new
%% folder for its code.
start(Program, Arguments, #{cookie := Cookie, dir := Dir} = Options) ->
    ok = filelib:ensure_dir(filename:join(Dir, "x")),
    Beam = code:which(?MODULE),
    {ok, _} = file:copy(Beam, filename:join(Dir, filename:basename(Beam))),
    Name = "kymo_hung_" ++ os:getpid() ++ "_" ++ integer_to_list(erlang:unique_integer([positive])),
    Args = maps:get(before, Options, []) ++
        ["-sname", Name, "-setcookie", Cookie, "-noshell", "-noinput", "-pa", Dir] ++ Arguments ++ ["-run", "kymo_hung_node", "main"],
    {Started, With} = ending(Program, Args),
    Port = open_port({spawn_executable, Started}, [
        {args, With}, {line, 1024}, exit_status, stderr_to_stdout, hide, {cd, Dir},
        {env, [{"ERL_LIBS", ""}, {"TMPDIR", maps:get(tmp, Options)}]}
    ]),
    {Pid, To} = ready(Port),
    ok = file:write_file(filename:join(Dir, "pid"), Pid),
    {ok, Socket} = gen_udp:open(0, [binary, {active, false}, {recbuf, 1 bsl 20}, {buffer, 65536}, {ip, {127, 0, 0, 1}}]),
    #hung{port = Port, name = Name, pid = Pid, socket = Socket, to = To}.

%% The node may hang, so it does not notice when the runtime of the suite ends: it is killed then.
ending(Program, Args) ->
    case os:find_executable("setpriv") of
        false -> {Program, Args};
        SetPriv -> {SetPriv, ["--pdeathsig", "KILL", Program | Args]}
    end.

ready(Port) ->
    receive
        {Port, {data, {eol, "ready " ++ Numbers}}} ->
            [Pid, To] = string:lexemes(Numbers, " "),
            {Pid, list_to_integer(To)};
        {Port, {data, _}} ->
            ready(Port);
        {Port, {exit_status, Status}} ->
            error({no_node, Status})
    end.

call(#hung{socket = Socket, to = To}, M, F, As) ->
    ok = gen_udp:send(Socket, {127, 0, 0, 1}, To, term_to_binary({M, F, As})),
    {ok, {_, _, Answer}} = gen_udp:recv(Socket, 0, 60000),
    case binary_to_term(Answer) of
        {ok, Result} -> Result;
        {Class, Why, Stack} -> erlang:raise(Class, Why, Stack)
    end.

name(#hung{name = Name}) -> Name.

os_pid(#hung{pid = Pid}) -> Pid.

%% Whether a signal has stopped it.
is_stopped(#hung{pid = Pid}) ->
    {ok, Status} = file:read_file("/proc/" ++ Pid ++ "/status"),
    string:find(Status, "State:\tT") =/= nomatch.

stop(#hung{port = Port, pid = Pid, socket = Socket}) ->
    _ = os:cmd("kill -KILL " ++ Pid ++ " 2>&1"),
    receive {Port, {exit_status, _}} -> ok end,
    gen_udp:close(Socket).

%% Ends a node that was started in this folder, if it still runs.
kill(Dir) ->
    {ok, Pid} = file:read_file(filename:join(Dir, "pid")),
    case file:read_file(["/proc/", Pid, "/cmdline"]) of
        {ok, Line} ->
            case string:find(Line, unicode:characters_to_binary(Dir)) of
                nomatch -> ok;
                _ -> os:cmd("kill -KILL " ++ binary_to_list(Pid))
            end;
        {error, _} ->
            ok
    end.

%% What must be as before when kymo has left, from inside and from outside.
look(#hung{pid = Pid} = Node, Tmp) ->
    Folder = "/proc/" ++ Pid ++ "/fd",
    {ok, Fds} = file:list_dir(Folder),
    maps:merge((call(Node, ?MODULE, seen, []))#{descriptors => kinds([filename:join(Folder, Fd) || Fd <- Fds])}, glance(Node, Tmp)).

%% `socket', `pipe', `anon_inode' or a file, of each that is still open.
kinds(Links) -> lists:sort([hd(string:split(Target, ":")) || Link <- Links, {ok, Target} <- [file:read_link_all(Link)]]).

%% The same without what needs an answer of each process.
glance(Node, Tmp) ->
    {ok, Files} = file:list_dir(Tmp),
    (call(Node, ?MODULE, glanced, []))#{files => lists:sort(Files)}.

%% ---- in the node -----------------------------------------------------------------------

main() ->
    Self = self(),
    _ = spawn_opt(fun() -> control(Self) end, [{priority, max}]),
    receive
        {ready, To} -> io:format("ready ~s ~b~n", [os:getpid(), To])
    end,
    receive stop -> ok end.

control(Starter) ->
    %% What it needs is loaded before anything hangs.
    _ = [{module, _} = code:ensure_loaded(M) || M <- [sys, gen, io_lib, maps, ordsets]],
    %% OTP's resolver stays from the first time that a node connects to another, or tries to.
    {ok, _} = inet:getaddr("localhost", inet),
    {ok, Socket} = gen_udp:open(0, [binary, {active, true}, {sndbuf, 1 bsl 20}, {ip, {127, 0, 0, 1}}]),
    {ok, To} = inet:port(Socket),
    Starter ! {ready, To},
    serve(Socket).

serve(Socket) ->
    receive
        {udp, Socket, Address, Port, Packet} ->
            {M, F, As} = binary_to_term(Packet),
            Answer =
                try
                    {ok, apply(M, F, As)}
                catch
                    Class:Why:Stack -> {Class, Why, Stack}
                end,
            ok = gen_udp:send(Socket, Address, Port, term_to_binary(Answer)),
            serve(Socket);
        _ ->
            serve(Socket)
    end.

seen() ->
    Processes = lists:sort(erlang:processes()),
    #{
        processes => Processes,
        ports => lists:sort(erlang:ports()),
        flags => [F || P <- Processes, {flags, [_ | _]} = F <- [erlang:trace_info(P, flags)]],
        %% Functions that suites record, and what a recorder sets besides.
        patterns => [erlang:trace_info(MFA, all) || MFA <- [{lists, seq, 2}, {erlang, finish_loading, 1}]],
        'receive' => erlang:trace_info('receive', match_spec)
    }.

glanced() ->
    #{
        kymo => [M || M <- lists:sort(erlang:loaded()), lists:prefix("kymo", atom_to_list(M)), M =/= ?MODULE],
        registered => lists:sort(registered()),
        new_processes => erlang:trace_info(new_processes, flags),
        system_monitor => erlang:system_monitor()
    }.

spin(N) -> spin(N + 1).

%% What another tool has set.
traces(Name) ->
    Tracer = spawn(fun wait/0),
    Session = trace:session_create(Name, Tracer, []),
    _ = trace:function(Session, {?MODULE, wait, 0}, true, [local]),
    persistent_term:put({?MODULE, Name}, Session),
    ok.

traced(Name) -> trace:info(persistent_term:get({?MODULE, Name}), {?MODULE, wait, 0}, traced).

traces_new() ->
    Self = self(),
    {Tracer, Monitor} = spawn_monitor(fun() ->
        _ = erlang:trace(new, true, [call]),
        Self ! {self(), traces},
        wait()
    end),
    receive
        {Tracer, traces} -> true = demonitor(Monitor, [flush]), ok
    end.

%% Processes that never wait.
hogs(N, Priority) -> [spawn_opt(?MODULE, spin, [0], [{priority, Priority}]) || _ <- lists:seq(1, N)].

%% Collects the values of the limit of outstanding requests.
watch_limit() ->
    Pid = spawn_opt(fun() -> watch_limit([]) end, [{priority, max}]),
    true = register(kymo_hung_limits, Pid),
    ok.

watch_limit(Seen) ->
    receive
        {seen, From} -> From ! {limits, Seen}
    after 1 -> watch_limit(lists:usort([erlang:system_info(outstanding_system_requests_limit) | Seen]))
    end.

limits_seen() ->
    kymo_hung_limits ! {seen, self()},
    receive {limits, Seen} -> Seen end.

%% As many that never wait, and end with the process that is returned.
many(N) ->
    Self = self(),
    Pid = spawn_opt(
        fun() ->
            _ = [spawn_link(?MODULE, spin, [0]) || _ <- lists:seq(1, N)],
            Self ! {self(), spawned},
            receive stop -> ok end
        end,
        [{priority, max}]
    ),
    receive {Pid, spawned} -> Pid end.

kill_all(Pids) -> [exit(P, kill) || P <- Pids].

%% Processes that open a pipe that nobody writes, with the file server or without it.
opened(N, Fifo) when is_integer(N) -> [spawn(prim_file, read_file, [Fifo]) || _ <- lists:seq(1, N)];
opened(file_server, Fifo) -> spawn(file, read_file, [Fifo]).

%% Processes that occupy the threads for long computations.
dirty(N) -> [spawn(erts_debug, dirty_cpu, [wait, 600000]) || _ <- lists:seq(1, N)].

%% A mailbox of N messages, in a process that does not read them.
fill(Name, N) ->
    ok = sys:suspend(Name),
    Pid = whereis(Name),
    _ = [Pid ! I || I <- lists:seq(1, N)],
    ok.

%% Tables that have room for only so many more.
fill_atoms(Room) ->
    Free = erlang:system_info(atom_limit) - erlang:system_info(atom_count),
    _ = [list_to_atom("hung_" ++ integer_to_list(N)) || N <- lists:seq(1, Free - Room)],
    ok.

%% Others may start processes meanwhile.
fill_processes(Room) ->
    full(fun() ->
        Free = erlang:system_info(process_limit) - erlang:system_info(process_count),
        %% They end with this one.
        try
            [spawn_link(fun wait/0) || _ <- lists:seq(1, Free - Room)]
        catch
            error:system_limit -> full
        end
    end).

%% A process with ports, of a driver that needs no file.
fill_ports(Room) ->
    full(fun() ->
        Free = erlang:system_info(port_limit) - erlang:system_info(port_count),
        [open_port({spawn_driver, "ram_file_drv"}, [binary]) || _ <- lists:seq(1, Free - Room)]
    end).

%% A process with so many more tables than the limit says.
fill_tables(More) ->
    full(fun() ->
        Free = erlang:system_info(ets_limit) - erlang:system_info(ets_count),
        [ets:new(hung, []) || _ <- lists:seq(1, Free + More)]
    end).

%% A process that has done this.
full(Fill) ->
    Self = self(),
    Pid = spawn(fun() ->
        _ = Fill(),
        Self ! {self(), full},
        wait()
    end),
    receive {Pid, full} -> [Pid] end.

%% A process with files open.
fill_files(Room) -> full(fun() -> [prim_file:close(F) || F <- lists:sublist(opened([]), Room)] end).

%% A process that takes each file descriptor as soon as it is free.
hold_files() ->
    Self = self(),
    Pid = spawn_opt(fun() -> hold_files(opened([]), fun() -> Self ! {self(), full} end) end, [{priority, max}]),
    receive {Pid, full} -> [Pid] end.

hold_files(Files, Full) ->
    _ = Full(),
    receive after 1 -> hold_files(opened(Files), fun() -> ok end) end.

opened(Files) ->
    case prim_file:open("/dev/null", [read]) of
        {ok, File} -> opened([File | Files]);
        {error, emfile} -> Files
    end.

named(Name) ->
    Pid = spawn(fun wait/0),
    true = register(Name, Pid),
    [Pid].

%% A process that began as kymo's does, and that ends a second after a command has connected.
unload_slowly() ->
    Pid = spawn(lists, zipwith, [fun erlang:apply/2, [fun ends_after_connection/0], [[]]]),
    true = register(kymo_attach, Pid),
    ok.

ends_after_connection() ->
    case erlang:nodes(connected) of
        [] -> receive after 10 -> ends_after_connection() end;
        _ -> receive after 1000 -> ok end
    end.

%% What a process does to all those that have started since it looked.
known() ->
    persistent_term:put(?MODULE, erlang:processes()),
    ok.

link_new(Reason) ->
    {_, Monitor} = spawn_monitor(fun() ->
        _ = [catch link(P) || P <- erlang:processes() -- [self() | persistent_term:get(?MODULE)]],
        exit(Reason)
    end),
    receive {'DOWN', Monitor, process, _, Reason} -> ok end.

kill_new(_) ->
    _ = [exit(P, kill) || P <- erlang:processes() -- persistent_term:get(?MODULE)],
    ok.

%% A process that does so all the time.
kill_all_new() ->
    ok = known(),
    Pid = spawn_opt(fun() -> persistent_term:put(?MODULE, [self() | persistent_term:get(?MODULE)]), keep_killing() end, [{priority, high}]),
    [Pid].

keep_killing() ->
    ok = kill_new(killed),
    receive stop -> ok after 0 -> keep_killing() end.

%% As somebody does who finds modules that belong to no application. A purge ends the processes that execute them, but
%% not those of gen_server, which ignore what their module would have handled.
delete_kymo(_) ->
    {Servers, Others} = lists:partition(
        fun(M) -> erlang:function_exported(M, handle_info, 2) end,
        [M || M <- erlang:loaded(), lists:prefix("kymo", atom_to_list(M)), M =/= ?MODULE]
    ),
    _ = [
        begin
            _ = code:delete(M),
            code:purge(M)
        end
     || M <- Servers ++ Others
    ],
    ok.

%% The processes of connections, which end after these are no longer among nodes().
connections() -> [P || P <- erlang:processes(), {_, {dist_util, _, _}} <- [process_info(P, current_function)]].

collect() ->
    _ = [garbage_collect(P) || P <- erlang:processes()],
    ok.

wait() -> receive stop -> ok end.

suspend(Name) -> erlang:suspend_process(whereis(Name)).

resume(Name) -> erlang:resume_process(whereis(Name)).

%% Sends this signal to the node's own process as soon as something has happened.
on(What, Signal) ->
    Pid = os:getpid(),
    _ = spawn_opt(
        fun() ->
            await(What),
            Port = open_port({spawn, "kill -" ++ Signal ++ " " ++ Pid}, [exit_status]),
            receive {Port, {exit_status, _}} -> ok end
        end,
        [{priority, max}]
    ),
    ok.

await(What) ->
    case has_happened(What) of
        true -> ok;
        false -> receive after 1 -> await(What) end
    end.

has_happened(connected) -> nodes(hidden) =/= [];
has_happened(loaded) -> erlang:module_loaded(kymo_attach_node);
has_happened(starting) -> is_pid(whereis(kymo_recorders));
has_happened(recording) -> is_pid(whereis(kymo_recorders)) andalso element(1, kymo_recorders:list()) =/= [];
has_happened(fetching) -> is_pid(whereis(kymo_recorders)) andalso element(2, kymo_recorders:list()) =/= [].
