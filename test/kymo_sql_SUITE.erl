%% SPDX-License-Identifier: Apache-2.0
%%
%% A recording as tables: kymo sql, the extension in other programs that use SQLite, and kymo
%% export ndjson. The results are compared with what the program did and measured, with the
%% other commands, and with each other.
-module(kymo_sql_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-behaviour(gen_server).

-compile(export_all).
-compile(nowarn_export_all).

all() ->
    [
        truth, equals_info, equals_stats, equals_calls, equals_print, equals_running, equals_sizes,
        pushed_down, joins, many_rows, windows,
        documented_queries, documented_queries_in_duckdb, documented_tables, formats, mistakes, read_only,
        other_programs, sqlite3_command, two_recordings, living
    ].

%% Calls of one/1 by many/1: their spans do not fit in the memory of a table.
-define(MANY, 60000).

init_per_suite(Config) ->
    {module, _} = code:ensure_loaded(kymo),
    Dir = filename:join(?config(priv_dir, Config), "work"),
    [{recording, Dir}, {did, record(Dir, [return_to, messages, procs, running, garbage_collection], fun work/0)} | Config].

end_per_suite(_) -> ok.

init_per_testcase(Case, Config) ->
    Dir = filename:join(?config(priv_dir, Config), atom_to_list(Case)),
    ok = file:make_dir(Dir),
    [{dir, Dir} | Config].

end_per_testcase(_, _) -> ok.

%% ---- what is recorded ----

record(Dir, Events, Fun) ->
    {ok, R} = kymo:start(#{dir => Dir, owner => none, memory => 64 bsl 20, calls => arguments}),
    {ok, _} = kymo:trace(R, #{functions => traced(), events => Events}),
    try Fun() after kymo:stop(R) end.

%% Without the loop of spin/1, whose calls would be most of the recording.
traced() ->
    ["gen_server:call/_" | ["kymo_sql_SUITE:" ++ F || F <- ["spin/1", "fails/0", "garbage/1", "many/1", "one/1", "handle_call/3", "handle_cast/2"]]].

%% A server behind another one, calls that fail, garbage, a process that exits.
work() ->
    {ok, Back} = gen_server:start({local, ?MODULE}, ?MODULE, none, []),
    {ok, Front} = gen_server:start(?MODULE, Back, []),
    Took = [timed(fun() -> ?MODULE:spin(3) end) || _ <- lists:seq(1, 5)],
    Asked = [timed(fun() -> gen_server:call(Front, {spin, 2}) end) || _ <- lists:seq(1, 4)],
    _ = [catch ?MODULE:fails() || _ <- lists:seq(1, 3)],
    Length = length(?MODULE:garbage(50000)),
    {Gone, Monitor} = spawn_monitor(fun() -> exit(enough) end),
    receive {'DOWN', Monitor, process, Gone, enough} -> ok end,
    {Empty, _} = spawn_monitor(fun() -> true = erlang:garbage_collect(), true = erlang:garbage_collect() end),
    receive {'DOWN', _, process, Empty, normal} -> ok end,
    gen_server:cast(Front, nothing),
    gen_server:stop(Front),
    gen_server:stop(Back),
    #{took => Took, asked => Asked, front => Front, back => Back, gone => Gone, self => self(), length => Length}.

timed(Fun) ->
    Start = erlang:monotonic_time(),
    _ = Fun(),
    erlang:convert_time_unit(erlang:monotonic_time() - Start, native, nanosecond).

init(Next) -> {ok, Next}.
handle_call({spin, Ms}, _, none) -> {reply, ?MODULE:spin(Ms), none};
handle_call(Request, _, Next) -> {reply, gen_server:call(Next, Request), Next}.
handle_cast(nothing, Next) -> {noreply, Next}.

spin(Ms) -> spin_until(erlang:monotonic_time(millisecond) + Ms).

spin_until(Deadline) ->
    case erlang:monotonic_time(millisecond) < Deadline of
        true -> spin_until(Deadline);
        false -> ok
    end.

fails() -> error(planned).

garbage(N) -> lists:foldl(fun(I, Acc) -> [{I, integer_to_list(I)} | Acc] end, [], lists:seq(1, N)).

many(0) -> ok;
many(N) ->
    ok = ?MODULE:one(N),
    ?MODULE:many(N - 1).

one(_) -> ok.

%% ---- the command ----

%% Rows as maps; only integers, text and NULL.
rows(Dir, Sql) ->
    {0, Out} = kymo_cli:run(["sql", "--json", "-q", Dir, Sql]),
    [kymo_cli:json(unicode:characters_to_list(L) ++ "\n") || L <- string:split(Out, "\n", all), L =/= <<>>].

row(Dir, Sql) ->
    [Row] = rows(Dir, Sql),
    Row.

%% The only value of the only row.
value(Dir, Sql) ->
    [Value] = maps:values(row(Dir, Sql)),
    Value.

json(Args) ->
    {0, Out} = kymo_cli:run(Args),
    kymo_cli:json(unicode:characters_to_list(Out)).

text(Args) ->
    {0, Out} = kymo_cli:run(Args),
    unicode:characters_to_list(Out).

pid(Pid) -> list_to_binary(pid_to_list(Pid)).

tables() ->
    ["events", "spans", "messages", "requests", "processes", "collections", "running", "waits", "functions", "losses", "shed", "counters", "system_monitor", "observed"].

extension() -> filename:join(code:priv_dir(kymo), "kymo_sqlite").

%% ---- sums and their parts ----

%% waits is what SQL adds up from running: a wait lasts from the end of a run to the beginning of the next one of the
%% process, or to the end of the recording, which is known to a millisecond here.
equals_running(Config) ->
    Dir = ?config(recording, Config),
    Sums = "with outs as (select pid, out_function as function, duration_ns, end_ns, exited, "
        "lead(start_ns, 1, (select max(time_ns) from events)) over (partition by pid order by start_ns) - end_ns as wait "
        "from running where not dirty and out_reason is not 'port' and pid not in (select pid from running where dirty)) "
        "select pid, function, count(*) as runs, sum(duration_ns) as running_ns, count(*) filter (where not exited and wait > 0) as waits, "
        "total(wait) filter (where not exited) as waiting_ns, max(wait) filter (where not exited and wait > 0) as longest_ns "
        "from outs where end_ns is not null group by pid, function",
    [#{<<"n">> := N, <<"same">> := Same, <<"far">> := Far, <<"most">> := Most}] = rows(
        Dir,
        ["with s as materialized (", Sums, "), w as materialized (select * from waits) "
         "select count(*) as n, sum(w.runs = s.runs and w.running_ns = s.running_ns and abs(w.waits - s.waits) <= 1) as same, "
         "sum(abs(w.waiting_ns - s.waiting_ns) > 1e6 or abs(coalesce(w.longest_ns, 0) - coalesce(s.longest_ns, 0)) > 1e6) as far, "
         "max(w.waiting_ns) / 1000000 as most from s left join w on w.pid = s.pid and w.function is s.function"]),
    ?assertEqual({N, 0}, {Same, Far}),
    ?assert(N > 5 andalso Most > 10),
    %% One row for each function.
    ?assertEqual(0, value(Dir, "select count(*) - count(distinct pid || ' ' || coalesce(function, '')) as n from waits")),
    ?assertMatch([_ | _], rows(Dir, "select * from waits where idle and function like 'gen_server:loop/%'")).

%% Sizes of a collection are those of its two events.
equals_sizes(Config) ->
    Dir = ?config(recording, Config),
    Sizes = fun(Event, Side) ->
        {rows(Dir, ["select pid, time_ns as ns, details ->> '$.mbuf_size' as fragments, "
                    "(details ->> '$.bin_vheap_size') + (details ->> '$.bin_old_vheap_size') as binaries "
                    "from events where event in ('gc_minor_", Event, "', 'gc_major_", Event, "') order by time_ns, pid"]),
         rows(Dir, ["select pid, ", Event, "_ns as ns, fragments_", Side, " as fragments, binaries_", Side, " as binaries "
                    "from collections where ", Event, "_ns is not null order by 2, pid"])}
    end,
    %% A heap may be empty after a collection.
    #{<<"unknown">> := 0} = row(Dir, "select count(*) filter (where words_before is null or end_ns is not null and words_after is null) as unknown from collections"),
    [begin ?assertMatch([_ | _], Rows), ?assertEqual(Events, Rows) end || {Events, Rows} <- [Sizes("start", "before"), Sizes("end", "after")]].

%% ---- what the program did ----

truth(Config) ->
    Dir = ?config(recording, Config),
    #{took := Took, asked := Asked, self := Self, front := Front, back := Back, gone := Gone} = ?config(did, Config),
    %% No call took longer than the program measured around it.
    #{<<"n">> := 5, <<"longest">> := Longest, <<"shortest">> := Shortest} = row(
        Dir,
        ["select count(*) as n, max(duration_ns) as longest, min(duration_ns) as shortest from spans where function = ",
         "'kymo_sql_SUITE:spin/1' and pid = '", pid_to_list(Self), "'"]
    ),
    ?assert(Longest =< lists:max(Took) andalso Shortest >= 2000000 andalso Shortest =< lists:min(Took)),
    %% Four requests to the front server, each with one to the back server within it.
    Requests = rows(
        Dir,
        ["select f.duration_ns as outer_ns, b.duration_ns as inner_ns, f.server_pid as front, b.server_pid as back, ",
         "b.server as name, f.queued_ns + f.handling_ns + f.reply_ns as parts from requests f join requests b ",
         "on b.client_pid = f.server_pid and b.sent_ns between f.handled_ns and f.replied_ns ",
         "where f.kind = 'call' and f.client_pid = '", pid_to_list(Self), "' order by f.id"]
    ),
    [
        begin
            ?assertEqual({pid(Front), pid(Back), <<"kymo_sql_SUITE">>}, {maps:get(<<"front">>, R), maps:get(<<"back">>, R), maps:get(<<"name">>, R)}),
            #{<<"outer_ns">> := Outer, <<"inner_ns">> := Inner, <<"parts">> := Parts} = R,
            ?assert(Inner < Outer andalso Outer =< Measured andalso Parts =:= Outer)
        end
     || {R, Measured} <- lists:zip(Requests, Asked)
    ],
    ?assertEqual(1, value(Dir, "select count(*) from requests where kind = 'cast' and ended = 'no_reply'")),
    %% Failed calls, exits, and garbage collections.
    ?assertEqual(3, value(Dir, "select count(*) from spans where function = 'kymo_sql_SUITE:fails/0'")),
    ?assertEqual(
        #{<<"exit_reason">> => <<"enough">>, <<"parent_pid">> => pid(Self), <<"known">> => 1},
        row(Dir, ["select exit_reason, parent_pid, end_ns > start_ns as known from processes where pid = '", pid_to_list(Gone), "'"])
    ),
    ?assert(value(Dir, "select count(*) from collections where span_id in "
        "(select id from spans where function = 'kymo_sql_SUITE:garbage/1')") > 0),
    %% Dates are those of the wall clock.
    Date = value(Dir, "select time from events limit 1"),
    Micros = calendar:rfc3339_to_system_time(binary_to_list(Date), [{unit, microsecond}]),
    ?assert(abs(erlang:system_time(microsecond) - Micros) < 3600 * 1000000).

%% ---- the other commands ----

equals_info(Config) ->
    Dir = ?config(recording, Config),
    #{<<"events">> := Events, <<"by_event">> := Tags} = json(["info", "--json", "-q", Dir]),
    ?assertEqual(Events, value(Dir, "select count(*) from events")),
    Counted = maps:from_list([
        {E, N}
     || #{<<"event">> := E, <<"n">> := N} <- rows(Dir, "select event, count(*) as n from events group by event")
    ]),
    ?assertEqual(Counted, maps:with(maps:keys(Counted), Tags)),
    ?assertEqual(lists:sum(maps:values(Counted)), Events),
    ?assertEqual(#{<<"least">> => 1, <<"most">> => Events}, row(Dir, "select min(id) as least, max(id) as most from events")).

equals_stats(Config) ->
    Dir = ?config(recording, Config),
    #{<<"rows">> := Stats} = json(["stats", "--json", "-q", "-n", "1000", Dir]),
    Keys = [<<"function">>, <<"calls">>, <<"calls_with_end">>, <<"exceptions">>, <<"total_ns">>, <<"self_ns">>,
            <<"running_ns">>, <<"self_running_ns">>, <<"gc_ns">>, <<"p50_ns">>, <<"p99_ns">>, <<"max_ns">>],
    Expected = lists:sort([maps:with(Keys, R) || R <- Stats]),
    ?assertEqual(Expected, lists:sort([maps:with(Keys, R) || R <- rows(Dir, "select * from functions")])),
    %% The same sums computed from the individual calls.
    Sums = rows(Dir, "select function, count(*) as calls, sum(self_ns) as self_ns, max(duration_ns) as max_ns "
        "from spans group by function"),
    ?assertEqual(
        lists:sort([maps:with([<<"function">>, <<"calls">>, <<"self_ns">>, <<"max_ns">>], R) || R <- Stats]),
        lists:sort(Sums)
    ),
    %% Processes, too.
    #{<<"rows">> := Processes} = json(["stats", "--json", "-q", "--by", "process", "-n", "1000", Dir]),
    %% The command also appends the parent or the client to the name of a process that is named
    %% after its code.
    Own = fun(Name) -> re:replace(Name, " (under|for) .*$", "", [{return, binary}]) end,
    Received = fun(Key, Rows) -> lists:sort([{Own(maps:get(Key, R)), maps:get(<<"received">>, R), maps:get(<<"sent">>, R)} || R <- Rows]) end,
    ?assertEqual(
        Received(<<"process">>, Processes),
        Received(<<"name">>, rows(Dir, "select case process when pid then pid else pid || ' ' || process end as name, received, sent from processes"))
    ).

equals_calls(Config) ->
    Dir = ?config(recording, Config),
    #{<<"slowest">> := Slowest} = json(["requests", "--json", "-q", "--casts", "-n", "1000", Dir]),
    ?assert(length(Slowest) >= 9),
    Of = fun(R, Keys) -> [maps:get(K, R) || K <- Keys] end,
    Calls = [Of(R, [<<"client_pid">>, <<"server_pid">>, <<"kind">>, <<"sent_ns">>, <<"total_ns">>, <<"queued_ns">>, <<"handling_ns">>, <<"reply_ns">>, <<"ahead">>]) || R <- Slowest],
    Rows = [Of(R, [<<"client_pid">>, <<"server_pid">>, <<"kind">>, <<"sent_ns">>, <<"duration_ns">>, <<"queued_ns">>, <<"handling_ns">>, <<"reply_ns">>, <<"ahead">>]) || R <- rows(Dir, "select * from requests where duration_ns is not null")],
    ?assertEqual(lists:sort(Calls), lists:sort(Rows)).

%% The same events with the same times and texts, in the same order.
equals_print(Config) ->
    Dir = ?config(recording, Config),
    {0, Out} = kymo_cli:run(["print", "--json", "-q", "--events", "call,send,exit", Dir]),
    Printed = [kymo_cli:json(unicode:characters_to_list(L) ++ "\n") || L <- string:split(Out, "\n", all), L =/= <<>>],
    Rows = rows(Dir, "select * from events where event in ('call', 'send', 'exit')"),
    ?assertEqual(length(Printed), length(Rows)),
    Default = fun(K, M) -> maps:get(K, M, null) end,
    [
        ?assertEqual(
            [Default(K, P) || K <- [<<"ns">>, <<"thread">>, <<"event">>, <<"process">>, <<"peer">>, <<"words">>, <<"message">>, <<"reference">>, <<"args">>]],
            [Default(K, R) || K <- [<<"time_ns">>, <<"thread">>, <<"event">>, <<"pid">>, <<"peer_pid">>, <<"words">>, <<"message">>, <<"reference">>]] ++
                [case maps:get(<<"event">>, R) of <<"call">> -> Default(<<"content">>, R); _ -> null end]
        )
     || {P, R} <- lists:zip(Printed, Rows)
    ].

%% ---- conditions ----

%% Each condition that is pushed down gives the same rows as an equivalent form that is not.
pushed_down(Config) ->
    Dir = ?config(recording, Config),
    Middle = value(Dir, "select (min(time_ns) + max(time_ns)) / 2 from events"),
    M = integer_to_list(Middle),
    Some = integer_to_list(value(Dir, "select sent_ns from requests where duration_ns is not null order by id limit 1")),
    Conditions = [
        {Table, Column, Condition}
     || {Table, Column} <- [{"events", "time_ns"}, {"spans", "start_ns"}, {"messages", "sent_ns"}, {"requests", "sent_ns"},
                            {"running", "start_ns"}, {"collections", "start_ns"}, {"spans", "id"}, {"requests", "id"}],
        Condition <- ["> " ++ M, ">= " ++ M, "< " ++ M, "<= " ++ M, "= " ++ M, "= " ++ Some, "< " ++ M ++ ".5", "> " ++ M ++ ".5",
                      "< -1.5", "> -1.5", "between " ++ M ++ " and 1e300", "> -1e300", "< 9223372036854775807", "= 3", "= 3.0",
                      "= 3.5", "= '3'", "< '" ++ M ++ "'", "= null", "is null", "= 'x'", "> 'x'", "< x''", "in (1, 3, " ++ Some ++ ")",
                      "= -1", "= 0", "= 9223372036854775807"]
    ],
    %% Conditions are not pushed down into a select with a limit.
    Counts = rows(Dir, [
        ["select (select count(*) from ", Table, " where ", Column, " ", Condition, ") as down, "
         "(select count(*) from (select ", Column, " from ", Table, " limit -1) where ", Column, " ", Condition, ") as above;"]
     || {Table, Column, Condition} <- Conditions
    ]),
    [?assertEqual({C, Above}, {C, Down}) || {C, #{<<"down">> := Down, <<"above">> := Above}} <- lists:zip(Conditions, Counts)],
    %% The conditions do select different numbers of rows.
    ?assert(length(lists:usort([N || #{<<"down">> := N} <- Counts])) > 10),
    %% The query plan shows it.
    [#{<<"detail">> := Plan}] = rows(Dir, "explain query plan select * from spans where id = 1"),
    ?assertMatch({match, _}, re:run(Plan, "INDEX 1")).

joins(Config) ->
    Dir = ?config(recording, Config),
    Handled = "select q.id, s.function, s.start_ns = q.handled_ns as same from requests q join spans s on ",
    Rows = rows(Dir, [Handled, "s.id = q.handler_id order by q.id"]),
    ?assertEqual(Rows, rows(Dir, [Handled, "+s.id = q.handler_id order by q.id"])),
    ?assert(length(Rows) >= 9),
    [?assertMatch(#{<<"same">> := 1}, R) || R <- Rows],
    ?assertEqual([<<"kymo_sql_SUITE:handle_call/3">>, <<"kymo_sql_SUITE:handle_cast/2">>], lists:usort([F || #{<<"function">> := F} <- Rows])),
    %% Each span lies within its parent.
    ?assertEqual(0, value(Dir, "select count(*) from spans s join spans p on p.id = s.parent_id "
        "where s.start_ns < p.start_ns or s.end_ns > p.end_ns or s.pid <> p.pid or s.caller <> p.function")),
    %% A self-join, also of events: two cursors at the same time.
    ?assertEqual(3, value(Dir, "select count(*) from (select id from events limit 3) a join events b on b.id = a.id")),
    %% The messages of a request.
    ?assertEqual(0, value(Dir, "select count(*) from requests q join messages m on m.id = q.message_id "
        "where m.sent_ns <> q.sent_ns or m.kind <> q.kind")).

%% More rows than the memory of a table holds: the rest is in a temporary file, which has
%% already been unlinked.
many_rows(Config) ->
    Dir = filename:join(?config(dir, Config), "many"),
    ok = record(Dir, [return_to], fun() -> ?MODULE:many(?MANY) end),
    Temporary = filename:join(?config(dir, Config), "tmp"),
    ok = file:make_dir(Temporary),
    os:putenv("SQLITE_TMPDIR", Temporary),
    try
        ?assertEqual(
            #{<<"n">> => ?MANY, <<"ids">> => ?MANY, <<"found">> => ?MANY},
            row(Dir, "select count(*) as n, count(distinct s.id) as ids, sum(t.function = s.function) as found "
                "from spans s join spans t on t.id = s.id where s.function = 'kymo_sql_SUITE:one/1'")
        )
    after
        os:unsetenv("SQLITE_TMPDIR")
    end,
    ?assertEqual({ok, []}, file:list_dir(Temporary)).

windows(Config) ->
    Dir = ?config(recording, Config),
    Out = filename:join(?config(dir, Config), "part"),
    #{<<"first_at">> := From, <<"last_at">> := To} = row(Dir,
        "select min(start_ns) as first_at, max(end_ns) as last_at from spans where function = 'kymo_sql_SUITE:fails/0'"),
    Option = fun(Ns) -> integer_to_list(Ns) ++ "ns" end,
    {0, _} = kymo_cli:run(["export", "ndjson", "-q", "--from", Option(From), "--to", Option(To), "-o", Out, Dir]),
    Lines = fun(Table) ->
        {ok, Text} = file:read_file(filename:join(Out, Table ++ ".ndjson")),
        length(binary:matches(Text, <<"\n">>))
    end,
    Between = fun(Sql) -> value(Dir, io_lib:format(Sql, [From, To])) end,
    ?assertEqual(Between("select count(*) from events where time_ns between ~b and ~b"), Lines("events")),
    ?assertEqual(Between("select count(*) from spans where end_ns >= ~b and start_ns <= ~b"), Lines("spans")),
    ?assert(Lines("spans") < value(Dir, "select count(*) from spans")).

%% ---- documentation ----

%% The folder doc/ next to the folder of the suites, found from the path of their sources.
sql_md(Config) ->
    Source = filename:dirname(proplists:get_value(source, ?MODULE:module_info(compile))),
    Files = [filename:join(Folders ++ ["..", "doc", "sql.md"]) || Folders <- [[Source], [?config(data_dir, Config), ".."]]],
    {ok, Text} = file:read_file(hd([F || F <- Files, filelib:is_regular(F)])),
    Text.

%% Each query of the page also returns rows for this recording.
documented_queries(Config) ->
    Dir = ?config(recording, Config),
    Queries = queries(Config),
    ?assertEqual(10, length(Queries)),
    [
        begin
            Here = string:replace(Query, "'shop_new'", ["'", Dir, "'"]),
            {Status, Out} = kymo_cli:run(["sql", "-q", Dir, unicode:characters_to_list(Here)]),
            ?assertEqual({Query, 0, Out}, {Query, Status, Out}),
            ?assert(length(string:lexemes(Out, "\n")) >= 2)
        end
     || Query <- Queries
    ].

queries(Config) ->
    {match, Queries} = re:run(sql_md(Config), "```sql\n(.*?)```", [global, dotall, {capture, all_but_first, list}]),
    [Query || [Query] <- Queries].

%% The queries return the same rows in a database other than SQLite that has loaded the export.
%% Which of equal rows a limit selects is undefined, so the last one is left out; rows of equal
%% rank have no order.
documented_queries_in_duckdb(Config) ->
    case kymo_npm:packages(filename:join(?config(data_dir, Config), "duckdb")) of
        {ok, Packages} -> in_duckdb(Config, Packages);
        Skip -> Skip
    end.

in_duckdb(Config, Packages) ->
    Dir = ?config(recording, Config),
    [Out, Other] = [filename:join(?config(dir, Config), Name) || Name <- ["tables", "new_tables"]],
    [?assertMatch({0, _}, kymo_cli:run(["export", "ndjson", "-q", "-o", O, Dir])) || O <- [Out, Other]],
    Files = [
        begin
            File = filename:join(?config(dir, Config), io_lib:format("~2..0b.sql", [N])),
            Here = string:replace(re:replace(Query, " limit \\d+;\\s*$", ";"), "'shop_new'", ["'", Dir, "'"]),
            ok = file:write_file(File, Here),
            File
        end
     || {N, Query} <- lists:zip(lists:seq(1, 10), queries(Config))
    ],
    Script = filename:join(?config(data_dir, Config), "duckdb.mjs"),
    {Status, Text} = command(os:find_executable("node"), [Script, Packages, kymo:cli_path(), Dir, Out, Other | Files]),
    ?assertEqual({0, Text}, {Status, Text}),
    Rows = [binary_to_integer(L) || L <- string:lexemes(Text, "\n")],
    ?assertEqual({10, []}, {length(Rows), [N || N <- Rows, N < 1]}).

%% The page lists exactly the existing tables and columns, with their types.
documented_tables(Config) ->
    Dir = ?config(recording, Config),
    Tables = text(["sql", "--tables"]),
    ?assertMatch({_, _}, binary:match(sql_md(Config), unicode:characters_to_binary(Tables))),
    Written = [{T, columns(Part)} || Part <- string:split(Tables, "### ", all), Part =/= "", T <- [hd(string:split(Part, "\n"))]],
    ?assertEqual(tables(), [T || {T, _} <- Written]),
    [
        ?assertEqual(
            {T, Columns},
            {T, [{binary_to_list(N), string:lowercase(binary_to_list(Type))} || #{<<"name">> := N, <<"type">> := Type} <-
                    rows(Dir, ["select name, type from pragma_table_info('", T, "')"])]}
        )
     || {T, Columns} <- Written
    ].

columns(Text) ->
    {match, Found} = re:run(Text, "^\\| `(\\w+)` \\| (\\w+) \\| \\S.* \\|$", [global, multiline, {capture, all_but_first, list}]),
    [{Name, Type} || [Name, Type] <- Found].

%% ---- the command ----

formats(Config) ->
    Dir = ?config(recording, Config),
    Sql = "select 7 as n, null as unknown, 'a\"b,c' as t, 9007199254740993 as big, x'00ff' as b; select 1.5 as f, '' as e where 1",
    ?assertEqual(
        "n  unknown  t                   big  b\n"
        "7     NULL  a\"b,c  9007199254740993  x'00ff'\n"
        "\n"
        "  f  e\n"
        "1.5  \n",
        text(["sql", Dir, Sql])
    ),
    ?assertEqual(
        "{\"n\":7,\"unknown\":null,\"t\":\"a\\\"b,c\",\"big\":\"9007199254740993\",\"b\":\"x'00ff'\"}\n{\"f\":1.5,\"e\":\"\"}\n",
        text(["sql", "--json", Dir, Sql])
    ),
    ?assertEqual(
        "n,unknown,t,big,b\r\n7,,\"a\"\"b,c\",9007199254740993,x'00ff'\r\n\r\nf,e\r\n1.5,\"\"\r\n",
        text(["sql", "--csv", Dir, Sql])
    ),
    %% No control characters that a terminal would interpret.
    ?assertEqual("t\na\\e[31m\\nb\n", text(["sql", Dir, "select 'a' || char(27) || '[31m' || char(10) || 'b' as t"])),
    %% More rows than those from which the column widths are computed.
    Many = text(["sql", Dir, "with recursive n(i) as (select 1 union all select i + 1 from n where i < 2500) select i from n"]),
    ?assertEqual(["i" | [integer_to_list(I) || I <- lists:seq(1, 2500)]], string:lexemes(Many, " \n")),
    %% Statements from standard input.
    Script = io_lib:format("echo 'select count(*) as n from losses;' | '~ts' sql --json '~ts' -", [kymo:cli_path(), Dir]),
    ?assertEqual("{\"n\":0}\n", os:cmd(lists:flatten(Script))).

mistakes(Config) ->
    Dir = ?config(recording, Config),
    Fails = fun(Args) ->
        {Status, Out} = kymo_cli:run(["sql" | Args]),
        {Status, unicode:characters_to_list(Out)}
    end,
    Says = fun(Status, Words, Args) ->
        {Got, Out} = Fails(Args),
        ?assertEqual({Args, Status}, {Args, Got}),
        [?assert(string:find(Out, W) =/= nomatch, {Args, Out}) || W <- Words]
    end,
    Says(1, ["kymo: near \"selec\": syntax error"], [Dir, "selec 1"]),
    Says(1, ["no such table: nope" | tables()], [Dir, "select * from nope"]),
    Says(1, ["no such column: nope", "kymo sql --tables"], [Dir, "select nope from spans"]),
    Says(2, ["kymo help sql"], [Dir]),
    Says(2, ["kymo help sql"], [Dir, "select 1", "select 2"]),
    Says(2, ["kymo help sql"], ["--frob", Dir, "select 1"]),
    Says(2, ["kymo help sql"], ["", "select 1"]),
    Says(2, ["--tables takes no argument"], ["--tables", Dir]),
    Says(3, ["not a recording"], [?config(dir, Config), "select 1"]),
    Says(3, ["No such file"], [filename:join(Dir, "nope"), "select 1"]),
    ?assertEqual({1, "kymo: integer overflow\n"}, Fails([Dir, "select abs(-9223372036854775807 - 1)"])),
    %% The statements before an error have been executed.
    Says(1, ["1\n", "syntax error"], [Dir, "select 1; selec"]),
    Out = filename:join(?config(dir, Config), "out"),
    [
        begin
            {2, Said} = kymo_cli:run(["export", "ndjson", "-o", Out, Dir | Options]),
            ?assertMatch({_, _}, binary:match(Said, <<"only --from and --to">>))
        end
     || Options <- [["--events", "call"], ["--pid", "<0.1.0>"], ["--module", "lists"], ["--all"]]
    ],
    ok = file:make_dir(Out),
    ok = file:write_file(filename:join(Out, "mine"), "x"),
    {4, Exists} = kymo_cli:run(["export", "ndjson", "-q", "-o", Out, Dir]),
    ?assertMatch({_, _}, binary:match(Exists, <<"needs a new folder">>)),
    ?assertEqual({ok, ["mine"]}, file:list_dir(Out)).

%% Neither the recording nor any other file is written.
read_only(Config) ->
    Dir = ?config(recording, Config),
    Other = filename:join(?config(dir, Config), "other.db"),
    Files = fun() -> {ok, Names} = file:list_dir(Dir), [{N, erlang:md5(element(2, file:read_file(filename:join(Dir, N))))} || N <- lists:sort(Names)] end,
    Before = Files(),
    [
        begin
            {Status, _} = kymo_cli:run(["sql", Dir, Sql]),
            ?assertEqual({Sql, 1}, {Sql, Status})
        end
     || Sql <- ["insert into spans (id) values (1)", "delete from spans", "update spans set id = 1",
                "attach '" ++ Other ++ "' as other", "vacuum into '" ++ Other ++ "'"]
    ],
    ?assertEqual(2, value(Dir, "create temp table x as select 2 as n; select n from x")),
    ?assertEqual(Before, Files()),
    ?assertNot(filelib:is_file(Other)).

%% ---- other programs ----

%% Python's sqlite3 with the extension, and its json module with ndjson: all rows of all tables.
other_programs(Config) ->
    Dir = ?config(recording, Config),
    Out = filename:join(?config(dir, Config), "tables"),
    {0, _} = kymo_cli:run(["export", "ndjson", "-q", "-o", Out, Dir]),
    Args = [filename:join(?config(data_dir, Config), "tables.py"), extension(), Dir, Out],
    case command("/usr/bin/python3", Args) of
        {2, <<>>} ->
            {skip, "Python can't load extensions of SQLite: the tables were NOT checked"};
        {Status, Text} ->
            ?assertEqual({0, Text}, {Status, Text}),
            Rows = [list_to_tuple(string:lexemes(L, " ")) || L <- string:lexemes(binary_to_list(Text), "\n")],
            Counts = [{T, integer_to_list(value(Dir, ["select count(*) from ", T]))} || T <- tables()],
            ?assertEqual(Counts, Rows)
    end.

command(Program, Args) ->
    Port = open_port({spawn_executable, Program}, [{args, Args}, exit_status, stderr_to_stdout, binary, hide]),
    collect(Port, <<>>).

collect(Port, Acc) ->
    receive
        {Port, {data, Data}} -> collect(Port, <<Acc/binary, Data/binary>>);
        {Port, {exit_status, Status}} -> {Status, Acc}
    end.

sqlite3(Statements) ->
    case os:find_executable("sqlite3") of
        false -> throw({skip, "sqlite3 is not installed: the extension was NOT checked with it"});
        Program -> command(Program, [":memory:", ".load " ++ extension() | [unicode:characters_to_list(S) || S <- Statements]])
    end.

sqlite3_command(Config) ->
    Dir = ?config(recording, Config),
    Open = ["select kymo_open('", Dir, "')"],
    try
        Count = integer_to_list(value(Dir, "select count(*) from spans")),
        ?assertEqual({0, list_to_binary(["14\n", Count, "\n"])}, sqlite3([Open, "select count(*) from spans"])),
        %% A table created under another name, then dropped.
        Create = ["create virtual table mine using kymo('", Dir, "', \"spans\")"],
        ?assertEqual({0, list_to_binary([Count, "\n"])}, sqlite3([Create, "select count(*) from mine", "drop table mine"])),
        [
            begin
                {1, Said} = sqlite3(Statements),
                ?assert(string:find(Said, Words) =/= nomatch, {Statements, Said})
            end
         || {Words, Statements} <- [
                {"No such file", [["select kymo_open('", Dir, "/nope')"]]},
                {"kymo_open(folder", ["select kymo_open(null)"]},
                {"kymo_open(folder", ["select kymo_open()"]},
                {"kymo_open(folder", [["select kymo_open('", Dir, "', '', '')"]]},
                {"kymo_open(folder", [["select kymo_open('", Dir, "', 'a b')"]]},
                {"table events exists", [Open, Open]},
                {"has no table nope", [["create virtual table x using kymo('", Dir, "', 'nope')"]]},
                {"two arguments", ["create virtual table x using kymo"]},
                {"no such table: kymo", ["select * from kymo"]}
            ]
        ]
    catch
        throw:{skip, _} = Skip -> Skip
    end.

%% Two recordings in one statement, one of which is then closed.
two_recordings(Config) ->
    Dir = ?config(recording, Config),
    Other = filename:join(?config(dir, Config), "other"),
    ok = record(Other, [return_to], fun() -> ?MODULE:many(10) end),
    ?assertEqual(
        [#{<<"opened">> => 14}, #{<<"here">> => 0, <<"there">> => 10}, #{<<"left">> => 11}],
        rows(Dir, ["select kymo_open('", Other, "', 'b_') as opened; "
            "select (select count(*) from spans where function like '%:one/1') as here, "
            "(select count(*) from b_spans where function like '%:one/1') as there; "
            "drop table b_spans; select count(*) as left from b_events where event = 'call' and function like '%:many/1'"])
    ).

%% While the recording is being written.
living(Config) ->
    Dir = filename:join(?config(dir, Config), "living"),
    record(Dir, [return_to], fun() ->
        ok = ?MODULE:many(100),
        ?assertEqual(100, value(Dir, "select count(*) from spans where function like '%:one/1'")),
        ok = ?MODULE:many(50),
        ?assertEqual(
            #{<<"spans">> => 150, <<"events">> => 150},
            row(Dir, "select (select count(*) from spans where function like '%:one/1') as spans, "
                "(select count(*) from events where event = 'call' and function like '%:one/1') as events")
        )
    end).
