%% SPDX-License-Identifier: Apache-2.0
%%
%% kymo in independent programs: RabbitMQ with a client in Python, and an Elixir application.
%% Each program is recorded under load twice, once unchanged and once with something slow in it,
%% and every question that kymo answers is asked. The answers are compared with what the client
%% measured.
-module(kymo_subjects_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-compile(export_all).
-compile(nowarn_export_all).

all() -> [rabbitmq, elixir].

init_per_testcase(Case, Config) ->
    Dir = filename:join(?config(priv_dir, Config), atom_to_list(Case)),
    ok = file:make_dir(Dir),
    [{dir, Dir} | Config].

end_per_testcase(_, _) -> ok.

%% How long the slow part of the slow recording takes.
-define(SLOW_MS, 300).
%% The least that a request must have waited: a client that asks after the slow part has begun
%% waits only for the rest of it, and a slow client for at least half.
-define(SLOW_NS, (?SLOW_MS * 500000)).

%% ---- RabbitMQ ----

rabbitmq(Config) ->
    case kymo_rabbitmq:missing() of
        [] -> kymo_rabbitmq:with(?config(dir, Config), fun(Subject, Amqp) -> ask_rabbitmq(Config, Subject, Amqp) end);
        Missing -> {skip, lists:append(["RabbitMQ was NOT recorded: there is no " | lists:join(", ", Missing)])}
    end.

ask_rabbitmq(Config, Subject, Amqp) ->
    Queue = <<"orders">>,
    Client = fun(While) -> rabbitmq_client(Config, Amqp, Queue, While) end,
    Functions = ["rabbit_amqqueue_process:handle_call/3", "rabbit_channel:handle_method/3",
                 "rabbit_amqqueue:basic_get/5", {erlang, suspend_process, 1}, {erlang, resume_process, 1}],
    {Calm, _} = record(Config, Subject, "calm", Functions, fun() -> Client(fun() -> ok end) end),
    Pid = fun() ->
        {ok, Q} = kymo_subject:call(Subject, rabbit_amqqueue, lookup, [{resource, <<"/">>, queue, Queue}]),
        kymo_subject:call(Subject, amqqueue, get_pid, [Q])
    end,
    %% The queue's process is suspended while the client makes requests.
    Hold = fun() -> kymo_subject:call(Subject, kymo_subject, suspend, [Pid(), ?SLOW_MS]) end,
    {Slow, #{gets := Gets, slowest := Slowest}} =
        record(Config, Subject, "slow", Functions, fun() -> Client(Hold) end),
    ?assert(Slowest >= ?SLOW_NS),
    ask_all(Config, Calm, Slow, #{
        server => "rabbit_prequeue:init/1",
        requests => Gets,
        slowest => Slowest,
        cause => <<"suspended">>,
        handler => "rabbit_amqqueue_process:handle_call/3",
        slower => "rabbit_channel:handle_method/3"
    }).

%% Runs the client, and calls While when the client is busy.
rabbitmq_client(Config, Amqp, Queue, While) ->
    Script = filename:join(?config(data_dir, Config), "rabbit.py"),
    Port = open_port({spawn_executable, "/usr/bin/python3"},
                     [{args, [Script, integer_to_list(Amqp), Queue]}, {line, 1000}, exit_status, use_stdio, hide]),
    "busy" = line(Port),
    While(),
    port_command(Port, "stop\n"),
    Line = line(Port),
    {match, [Gets, Slowest]} = re:run(Line, "^([0-9]+) ([0-9]+)$", [{capture, all_but_first, list}]),
    receive {Port, {exit_status, 0}} -> ok end,
    #{gets => list_to_integer(Gets), slowest => list_to_integer(Slowest)}.

line(Port) ->
    receive
        {Port, {data, {eol, Line}}} -> Line;
        {Port, {exit_status, Status}} -> error({client, Status})
    end.

%% ---- Elixir ----

elixir(Config) ->
    case kymo_subject:elixir() of
        {missing, Why} -> {skip, "No application of Elixir was recorded: " ++ Why};
        {ok, Elixir} -> with_elixir(Config, Elixir)
    end.

with_elixir(Config, Elixir) ->
    Dir = ?config(dir, Config),
    Script = filename:join(?config(data_dir, Config), "shop.exs"),
    Args = ["--no-halt", "--erl", kymo_subject:erl_args(), Script],
    Subject = kymo_subject:start(Elixir, Args, [{"HOME", Dir}], filename:join(Dir, "elixir.log")),
    try
        Loaded = fun() -> kymo_subject:call(Subject, erlang, function_exported, ['Elixir.Shop', order, 2]) end,
        true = kymo_cli:until(Loaded),
        ask_elixir(Config, Subject)
    after
        kymo_subject:stop(Subject)
    end.

ask_elixir(Config, Subject) ->
    Items = lists:seq(1, 200),
    Functions = ["Shop.Prices._/_", "Shop.Orders._/_", "GenServer.call/_"],
    Load = fun(Ms) ->
        fun() ->
            ok = kymo_subject:call(Subject, 'Elixir.Shop', start, [150, Ms]),
            Slowest = kymo_subject:call(Subject, 'Elixir.Shop', order, [Items, 4]),
            ok = kymo_subject:call(Subject, 'Elixir.Shop', stop, []),
            #{slowest => Slowest}
        end
    end,
    {Calm, _} = record(Config, Subject, "calm", Functions, Load(0)),
    {Slow, #{slowest := Slowest}} = record(Config, Subject, "slow", Functions, Load(?SLOW_MS)),
    ?assert(Slowest >= ?SLOW_NS),
    ask_all(Config, Calm, Slow, #{
        server => "Shop.Orders",
        requests => length(Items),
        slowest => Slowest,
        cause => <<"running">>,
        handler => "Shop.Prices.handle_call/3",
        slower => "Shop.Prices.handle_call/3"
    }).

%% ---- recording and asking ----

%% Records what Fun does to the subject. Returns the recording and the result of Fun.
record(Config, Subject, Name, Functions, Fun) ->
    Dir = filename:join(?config(dir, Config), Name),
    {ok, R} = kymo_subject:call(Subject, kymo, start, [#{dir => Dir, owner => none, memory => 128 bsl 20}]),
    Events = [return_to, messages, procs, running, garbage_collection],
    {ok, _} = kymo_subject:call(Subject, kymo, trace, [R, #{functions => Functions, events => Events}]),
    Result = Fun(),
    {ok, _} = kymo_subject:call(Subject, kymo, stop, [R]),
    {Dir, Result}.

ask_all(Config, Calm, Slow, Expected) ->
    [ask(Question, Config, Calm, Slow, Expected) || Question <- [why, calls, stats, mailboxes, diff, sql, report, otlp]].

%% The slowest request of all is one of the client's.
ask(why, _, _, Slow, #{slowest := Slowest, cause := Cause}) ->
    #{<<"answers">> := [#{<<"total_ns">> := Total, <<"parts">> := [First | _] = Parts}]} = json(["why", Slow]),
    ?assert(Total >= ?SLOW_NS),
    ?assert(Total =< Slowest),
    ?assertEqual(Total, lists:sum([N || #{<<"ns">> := N} <- Parts])),
    ?assert(2 * maps:get(<<"ns">>, First) > Total),
    ?assertMatch(#{<<"cause">> := Cause}, held_up(First));
%% All of the client's requests are in the recording, and none is longer than the client
%% measured.
ask(calls, _, _, Slow, #{server := Server, requests := Requests, slowest := Slowest}) ->
    #{<<"servers">> := Servers} = json(["requests", "-n", "1000", Slow]),
    [#{<<"requests">> := N, <<"max_ns">> := Max}] = rows(<<"server">>, Server, Servers),
    ?assert(N >= Requests),
    ?assert(Max >= ?SLOW_NS),
    ?assert(Max =< Slowest);
ask(stats, _, _, Slow, #{handler := Handler, requests := Requests}) ->
    #{<<"rows">> := Rows} = json(["stats", "-n", "1000", Slow]),
    [#{<<"calls">> := Calls}] = rows(<<"function">>, Handler, Rows),
    ?assert(Calls >= Requests);
ask(mailboxes, _, _, Slow, #{server := Server, requests := Requests}) ->
    #{<<"rows">> := Rows} = json(["mailboxes", "--by", "role", "-n", "1000", Slow]),
    [#{<<"received">> := Received}] = rows(<<"role">>, Server, Rows),
    ?assert(Received >= Requests);
%% The function that became slower is the one that was slowed down.
ask(diff, _, Calm, Slow, #{slower := Function, slowest := Slowest}) ->
    #{<<"rows">> := Rows} = json(["diff", "-n", "1000", Calm, Slow]),
    [#{<<"a">> := #{<<"max_ns">> := Before}, <<"b">> := #{<<"max_ns">> := After}}] =
        rows(<<"function">>, Function, Rows),
    ?assert(After >= ?SLOW_NS),
    ?assert(After =< Slowest),
    ?assert(Before < After);
%% SQL gives the same answers as the other commands.
ask(sql, _, _, Slow, #{server := Server}) ->
    #{<<"servers">> := Servers} = json(["requests", "-n", "1000", Slow]),
    [#{<<"requests">> := N, <<"max_ns">> := Max}] = rows(<<"server">>, Server, Servers),
    Query = "select count(*) as n, max(duration_ns) as slowest from requests where kind = 'call' and server = '" ++
        Server ++ "'",
    {0, Out} = kymo_cli:run(["sql", "--quiet", "--json", Slow, Query]),
    ?assertEqual(#{<<"n">> => N, <<"slowest">> => Max}, kymo_cli:json(unicode:characters_to_list(Out)));
ask(report, Config, _, Slow, #{server := Server, handler := Handler}) ->
    File = filename:join(?config(dir, Config), "report.html"),
    {0, _} = kymo_cli:run(["report", "--quiet", "-o", File, Slow]),
    {ok, Page} = file:read_file(File),
    ?assertMatch(<<"<!doctype html>", _/binary>>, Page),
    [?assertMatch({Text, {_, _}}, {Text, binary:match(Page, list_to_binary(Text))}) || Text <- [Server, Handler]];
%% Each request of the client is a span with the duration that the other commands show.
ask(otlp, Config, _, Slow, #{requests := Requests, slowest := Slowest}) ->
    File = filename:join(?config(dir, Config), "spans.jsonl"),
    {0, _} = kymo_cli:run(["export", "otlp", "--quiet", "-o", File, Slow]),
    {ok, Text} = file:read_file(File),
    %% There are hundreds of megabytes of other spans, which need not be decoded.
    {match, Spans} = re:run(Text, "\"kind\":2,\"startTimeUnixNano\":\"(\\d+)\",\"endTimeUnixNano\":\"(\\d+)\"",
                            [global, {capture, all_but_first, binary}]),
    Ends = [binary_to_integer(End) - binary_to_integer(Start) || [Start, End] <- Spans],
    ?assert(length(Ends) >= Requests),
    ?assert(lists:max(Ends) =< Slowest).

%% The slowest request may have been queued behind the one that took so long.
held_up(#{<<"cause">> := <<"queue">>, <<"held_up">> := Part}) -> Part;
held_up(Part) -> Part.

rows(Key, Name, Rows) -> [Row || Row <- Rows, maps:get(Key, Row) =:= list_to_binary(Name)].

json(Args) ->
    {0, Out} = kymo_cli:run(Args ++ ["--json", "--quiet"]),
    kymo_cli:json(unicode:characters_to_list(Out)).
