%% SPDX-License-Identifier: Apache-2.0
%%
%% Starts RabbitMQ as packaged by Debian, for tests and benchmarks: the installed one, or the
%% rabbitmq-server that KYMO_RABBITMQ names.
-module(kymo_rabbitmq).

-export([missing/0, with/2]).

servers() ->
    case os:getenv("KYMO_RABBITMQ") of
        false -> filelib:wildcard("/usr/lib/rabbitmq/lib/*/sbin/rabbitmq-server");
        Server -> [Server]
    end.

%% The requirements that are missing on this machine.
-spec missing() -> [string()].
missing() ->
    [Name || {Name, Found} <- [
        {"rabbitmq-server of Debian", servers() =/= []},
        {"RabbitMQ for OTP " ++ erlang:system_info(otp_release), is_for_this_release()},
        {"/usr/bin/python3 with pika", has_pika()}
    ], not Found].

%% Debian's is for Debian's release of OTP.
is_for_this_release() ->
    os:getenv("KYMO_RABBITMQ") =/= false orelse servers() =:= [] orelse
        kymo_cli:command("/usr/bin/erl", ["-noinput", "-eval", "io:put_chars(erlang:system_info(otp_release)), halt()."]) =:=
            {0, list_to_binary(erlang:system_info(otp_release))}.

has_pika() ->
    filelib:is_regular("/usr/bin/python3") andalso
        element(1, kymo_cli:command("/usr/bin/python3", ["-c", "import pika"])) =:= 0.

%% Starts a node with its own epmd, so that it shares nothing with other programs on this
%% machine. The function gets the node and its AMQP port. All files are in the folder.
-spec with(file:filename(), fun((kymo_subject:subject(), inet:port_number()) -> Result)) -> Result.
with(Dir, Fun) ->
    [Server | _] = servers(),
    [Amqp, Dist, Epmd] = kymo_subject:free_ports(3),
    ok = file:write_file(filename:join(Dir, "enabled_plugins"), "[].\n"),
    Own = [
        {"HOME", Dir},
        {"ERL_EPMD_PORT", integer_to_list(Epmd)},
        {"ERL_EPMD_ADDRESS", "127.0.0.1"},
        {"RABBITMQ_NODENAME", "kymo_" ++ integer_to_list(Amqp) ++ "@localhost"},
        {"RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1"},
        {"RABBITMQ_NODE_PORT", integer_to_list(Amqp)},
        {"RABBITMQ_DIST_PORT", integer_to_list(Dist)},
        {"RABBITMQ_CONF_ENV_FILE", "/dev/null"},
        {"RABBITMQ_CONFIG_FILE", filename:join(Dir, "rabbitmq")},
        {"RABBITMQ_MNESIA_BASE", filename:join(Dir, "mnesia")},
        {"RABBITMQ_LOG_BASE", filename:join(Dir, "log")},
        {"RABBITMQ_PID_FILE", filename:join(Dir, "pid")},
        {"RABBITMQ_ENABLED_PLUGINS_FILE", filename:join(Dir, "enabled_plugins")},
        {"RABBITMQ_GENERATED_CONFIG_DIR", filename:join(Dir, "config")},
        {"RABBITMQ_FEATURE_FLAGS_FILE", filename:join(Dir, "feature_flags")},
        {"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", kymo_subject:erl_args() ++ erts_app()}
    ],
    kymo_subject:with_epmd(Epmd, fun() ->
        Subject = kymo_subject:start(Server, [], Own, filename:join(Dir, "server.log")),
        try
            ok = kymo_subject:call(Subject, rabbit, await_startup, []),
            Fun(Subject, Amqp)
        after
            kymo_subject:stop(Subject)
        end
    end).

%% In the build tree of a runtime, erts.app is next to the applications, where the code server
%% does not look.
erts_app() ->
    Ebin = filename:join([code:root_dir(), "erts", "ebin"]),
    case filelib:is_regular(filename:join(Ebin, "erts.app")) of
        true -> " -pa " ++ Ebin;
        false -> ""
    end.
