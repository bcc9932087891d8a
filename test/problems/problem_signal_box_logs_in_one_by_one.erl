%% SPDX-License-Identifier: Apache-2.0
%%
%% An SSH daemon without parallel_login. Port scanners connect and say nothing, and each holds the only login for a second.
-module(problem_signal_box_logs_in_one_by_one).

-export([about/0, start/0, scanner/1, signaller/2]).

about() ->
    #{
        title => "A login to the signal box by SSH takes seconds, after that each command is quick",
        source =>
            "Erlang/OTP ssh, Hardening: parallel_login, if false only one login is handled at a time, negotiation_timeout, hello_timeout "
            "(https://erlang.org/doc/apps/ssh/hardening); Erlang/OTP, dist inet_tls stops accept()'ing because of port scanners "
            "(https://github.com/erlang/otp/issues/3287)",
        flags => ["+S", "2:2"],
        truth =>
            "The daemon's ssh_acceptor handles one login at a time (parallel_login is false), and waits up to 1 s for each silent scanner/1 "
            "(negotiation timeout); signaller/2 waits in ssh:connect",
        who => ["ssh_acceptor", "ssh_connection_handler", "ssh_system_sup", "ssh_acceptor_sup", "sshd", "problem_signal_box_logs_in_one_by_one:scanner/1"],
        what => [
            "login", "log.?in", "handshake", "negotiat", "hello", "accept", "one at a time", "(silent|slow|idle) (client|peer|connection)", "authenti", "peer",
            "ssh:connect", "connect", "socket", "tcp"
        ]
    }.

start() ->
    {ok, _} = application:ensure_all_started(ssh),
    Dir = string:trim(os:cmd("mktemp -d")),
    Key = public_key:generate_key({namedCurve, secp256r1}),
    Pem = public_key:pem_encode([public_key:pem_entry_encode('ECPrivateKey', Key)]),
    ok = file:write_file(filename:join(Dir, "ssh_host_ecdsa_key"), Pem),
    {ok, D} = ssh:daemon({127, 0, 0, 1}, 0, [
        {system_dir, Dir},
        {user_passwords, [{"signal", "red"}]},
        {auth_methods, "password"},
        {negotiation_timeout, 1000},
        {hello_timeout, 1000}
    ]),
    {ok, Info} = ssh:daemon_info(D),
    Port = proplists:get_value(port, Info),
    %% The first login loads the code.
    ok = log_in(Port, Dir),
    lists:foreach(fun(_) -> spawn(?MODULE, scanner, [Port]) end, lists:seq(1, 3)),
    lists:foreach(fun(_) -> spawn(?MODULE, signaller, [Port, Dir]) end, lists:seq(1, 2)).

scanner(Port) ->
    case gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}]) of
        {ok, S} ->
            read_all(S),
            gen_tcp:close(S);
        {error, _} ->
            ok
    end,
    timer:sleep(20),
    scanner(Port).

read_all(S) ->
    case gen_tcp:recv(S, 0) of
        {ok, _} -> read_all(S);
        {error, _} -> ok
    end.

signaller(Port, Dir) ->
    _ = log_in(Port, Dir),
    timer:sleep(100),
    signaller(Port, Dir).

log_in(Port, Dir) ->
    Options = [
        {user, "signal"}, {password, "red"}, {user_dir, Dir}, {silently_accept_hosts, true}, {save_accepted_host, false}, {user_interaction, false}
    ],
    case ssh:connect("127.0.0.1", Port, Options, 30000) of
        {ok, C} -> ssh:close(C);
        {error, _} -> late
    end.
