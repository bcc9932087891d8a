%% SPDX-License-Identifier: Apache-2.0
%%
%% Starts RabbitMQ as Debian has it, for tests and benchmarks.
-module(kymo_rabbitmq).

-export([missing/0, with/2]).

servers() -> filelib:wildcard("/usr/lib/rabbitmq/lib/*/sbin/rabbitmq-server").

%% What this machine lacks for it.
-spec missing() -> [string()].
missing() ->
    [Name || {Name, Found} <- [
        {"rabbitmq-server of Debian", servers() =/= []},
        {"/usr/bin/python3 with pika", has_pika()}
    ], not Found].

has_pika() ->
    filelib:is_regular("/usr/bin/python3") andalso
        element(1, kymo_cli:command("/usr/bin/python3", ["-c", "import pika"])) =:= 0.

%% A node of its own, with its own epmd, so that nothing is shared with what runs here.
%% The function gets it and the port for AMQP. All its files are in the folder.
-spec with(file:filename(), fun((kymo_subject:subject(), inet:port_number()) -> Result)) -> Result.
with(Dir, Fun) ->
    [Server | _] = servers(),
    [Amqp, Dist, Epmd] = kymo_subject:free_ports(3),
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
        {"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", kymo_subject:erl_args()}
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
