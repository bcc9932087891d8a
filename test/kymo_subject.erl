%% SPDX-License-Identifier: Apache-2.0
%%
%% Starts the node of another program and calls functions in it. The node needs no distribution:
%% it runs an agent, which connects to the test, executes the calls, and ends with the
%% connection.
-module(kymo_subject).

-export([start/4, call/4, stop/1, erl_args/0, with_epmd/2, free_ports/1, elixir/0]).
-export([agent/1, suspend/2]).

-opaque subject() :: #{listen := gen_tcp:socket(), socket := gen_tcp:socket(), port := port(), log := file:io_device()}.
-export_type([subject/0]).

%% The arguments of `erl' for the node: the paths of kymo and of this module, and the agent. Env
%% of start/4 tells the agent where to connect.
-spec erl_args() -> string().
erl_args() ->
    Paths = [filename:dirname(code:which(M)) || M <- [kymo, ?MODULE]],
    lists:flatten([["-pa ", P, " "] || P <- Paths] ++ ["-run ", atom_to_list(?MODULE), " agent KYMO_SUBJECT_PORT"]).

%% The installed Elixir, if it runs on this runtime: it is compiled for Debian's release of OTP,
%% and later ones do not load all that was compiled for an early one.
-spec elixir() -> {ok, file:filename()} | {missing, string()}.
elixir() ->
    case os:find_executable("elixir") of
        false ->
            {missing, "elixir is NOT installed"};
        Elixir ->
            case kymo_cli:command(Elixir, ["-e", ":ok"]) of
                {0, _} -> {ok, Elixir};
                {_, _} -> {missing, "the installed elixir does NOT run on OTP " ++ erlang:system_info(otp_release)}
            end
    end.

%% Starts a program whose node has the arguments erl_args/0, and waits until its agent has
%% connected. The program's output is kept in a file. Fails if the program ends first.
-spec start(file:filename(), [string()], [{string(), string() | false}], file:filename()) -> subject().
start(Program, Args, Env, Log) ->
    {ok, Listen} = gen_tcp:listen(0, [binary, {packet, 4}, {active, false}, {ip, {127, 0, 0, 1}}]),
    {ok, Number} = inet:port(Listen),
    {ok, File} = file:open(Log, [write, raw]),
    Port = open_port(
        {spawn_executable, Program},
        [{args, Args}, {env, [{"KYMO_SUBJECT_PORT", integer_to_list(Number)} | Env]}, {cd, filename:dirname(Log)},
         exit_status, stderr_to_stdout, binary, use_stdio, hide]
    ),
    #{listen => Listen, socket => accept(Listen, Port, File), port => Port, log => File}.

accept(Listen, Port, File) ->
    written(Port, File),
    case gen_tcp:accept(Listen, 100) of
        {ok, Socket} -> Socket;
        {error, timeout} -> accept(Listen, Port, File)
    end.

%% Stores the program's output. Fails if the program has ended.
written(Port, File) ->
    receive
        {Port, {data, Data}} -> ok = file:write(File, Data), written(Port, File);
        {Port, {exit_status, Status}} -> error({ended, Status})
    after 0 -> ok
    end.

%% Calls a function in the node. Exceptions are raised in the caller.
-spec call(subject(), module(), atom(), [term()]) -> term().
call(#{socket := Socket, port := Port, log := File}, M, F, A) ->
    ok = gen_tcp:send(Socket, term_to_binary({M, F, A})),
    Answer = gen_tcp:recv(Socket, 0),
    written(Port, File),
    {ok, Bytes} = Answer,
    case binary_to_term(Bytes) of
        {ok, Value} -> Value;
        {Class, Reason, Stack} -> erlang:raise(Class, {there, Reason, Stack}, [])
    end.

%% Ends the node, and returns when the program has ended.
-spec stop(subject()) -> ok.
stop(#{listen := Listen, socket := Socket, port := Port, log := File}) ->
    ok = gen_tcp:close(Socket),
    ok = gen_tcp:close(Listen),
    ended(Port, File),
    ok = file:close(File).

ended(Port, File) ->
    receive
        {Port, {data, Data}} -> ok = file:write(File, Data), ended(Port, File);
        {Port, {exit_status, _}} -> ok
    end.

%% ---- in the node ----

%% Called with -run while the node starts.
-spec agent([string()]) -> pid().
agent([Variable]) ->
    Number = list_to_integer(os:getenv(Variable)),
    spawn(fun() ->
        {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, Number, [binary, {packet, 4}, {active, false}]),
        serve(Socket)
    end).

serve(Socket) ->
    case gen_tcp:recv(Socket, 0) of
        {ok, Bytes} ->
            {M, F, A} = binary_to_term(Bytes),
            ok = gen_tcp:send(Socket, term_to_binary(run(M, F, A))),
            serve(Socket);
        {error, _} ->
            erlang:halt(0, [{flush, false}])
    end.

run(M, F, A) ->
    try
        {ok, apply(M, F, A)}
    catch
        Class:Reason:Stack -> {Class, Reason, Stack}
    end.

%% Called by tests: suspends a process for some milliseconds.
-spec suspend(pid(), non_neg_integer()) -> ok.
suspend(Pid, Ms) ->
    erlang:suspend_process(Pid),
    timer:sleep(Ms),
    erlang:resume_process(Pid),
    ok.

%% Runs Fun with an epmd that ends afterwards.
with_epmd(Number, Fun) ->
    Port = open_port({spawn_executable, epmd()},
                     [{args, ["-port", integer_to_list(Number), "-address", "127.0.0.1"]}, exit_status, hide]),
    {os_pid, Pid} = erlang:port_info(Port, os_pid),
    try
        true = kymo_cli:until(fun() -> listens(Number) end),
        Fun()
    after
        {0, _} = kymo_cli:command("/bin/kill", [integer_to_list(Pid)]),
        receive {Port, {exit_status, _}} -> ok end
    end.

%% The path of epmd in an installed runtime or in the build tree of a runtime.
epmd() ->
    Installed = ["erts-" ++ erlang:system_info(version), "bin", "epmd"],
    [Program | _] = filelib:wildcard(filename:join([code:root_dir() | Installed])) ++
        filelib:wildcard(filename:join([code:root_dir(), "bin", "*", "epmd"])),
    Program.

listens(Number) ->
    case gen_tcp:connect({127, 0, 0, 1}, Number, []) of
        {ok, Socket} -> ok =:= gen_tcp:close(Socket);
        {error, econnrefused} -> false
    end.

free_ports(N) ->
    Sockets = [element(2, {ok, _} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}])) || _ <- lists:seq(1, N)],
    Ports = [element(2, {ok, _} = inet:port(Socket)) || Socket <- Sockets],
    [ok = gen_tcp:close(Socket) || Socket <- Sockets],
    Ports.
