%% SPDX-License-Identifier: Apache-2.0
%%
%% `kymo why --all' on a server that sleeps for one request in 40, and on one that has a slow helper: it names what
%% the program does, its figures are those that SQL computes from the requests, and its parts add up.
-module(kymo_why_all_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-behaviour(gen_server).

-compile(export_all).
-compile(nowarn_export_all).

all() -> [sleeps, helper, equals_sql, adds_up, text, order, few, usage].

suite() -> [{timetrap, {minutes, 2}}].

%% For how long a slow request is slow, and one in how many.
-define(SLOW_MS, 100).
-define(ONE_IN, 40).
-define(REQUESTS, 800).

init_per_suite(Config) ->
    {module, _} = code:ensure_loaded(kymo),
    Dir = filename:join(?config(priv_dir, Config), "rec"),
    {ok, R} = kymo:start(#{dir => Dir, owner => none, memory => 64 bsl 20}),
    Servers = [server(all_sleeper, sleeps), server(all_helper, spins), server(all_asker, asks), server(all_fast, nothing)],
    {ok, _} = kymo:trace(R, #{processes => all, events => [messages, running, garbage_collection, procs]}),
    ask(all_sleeper, 3, ?REQUESTS),
    ask(all_asker, 1, ?REQUESTS div 2),
    ask(all_fast, 1, 10),
    {ok, _} = kymo:stop(R),
    _ = [gen_server:stop(Server) || Server <- Servers],
    [{recording, Dir} | Config].

end_per_suite(_) -> ok.

server(Name, Does) ->
    {ok, Pid} = gen_server:start({local, Name}, ?MODULE, {Does, 0}, []),
    Pid.

%% Clients that make so many requests in all.
ask(Server, Clients, N) ->
    Pids = [spawn_monitor(fun() -> [ok = gen_server:call(Server, go, infinity) || _ <- lists:seq(1, N div Clients)] end)
            || _ <- lists:seq(1, Clients)],
    [receive {'DOWN', Monitor, process, Pid, normal} -> ok end || {Pid, Monitor} <- Pids],
    ok.

init(State) -> {ok, State}.

handle_call(go, _, {Does, N}) ->
    (N + 1) rem ?ONE_IN =:= 0 andalso does(Does),
    {reply, ok, {Does, N + 1}};
handle_call(spin, _, State) ->
    spin(erlang:monotonic_time(millisecond) + ?SLOW_MS),
    {reply, ok, State}.

handle_cast(_, State) -> {noreply, State}.

does(sleeps) -> timer:sleep(?SLOW_MS);
does(asks) -> gen_server:call(all_helper, spin, infinity);
does(nothing) -> ok.

spin(Until) ->
    case erlang:monotonic_time(millisecond) < Until of
        true -> spin(Until);
        false -> ok
    end.

%% ---- the command ----

kinds(Config) -> kinds(Config, []).

kinds(Config, Args) ->
    {0, Text} = kymo_cli:run(["why", "--all", "--json", "-q" | Args] ++ [?config(recording, Config)]),
    #{<<"kinds">> := Kinds} = kymo_cli:json(unicode:characters_to_list(Text)),
    Kinds.

kind(Server, Config) ->
    [Kind] = [K || #{<<"server">> := S} = K <- kinds(Config), S =:= Server],
    Kind.

ns(Ms) -> Ms * 1000000.

%% ---- what the program did ----

%% The requests that wait behind a slow one are slow for the same reason. Without it, none is.
sleeps(Config) ->
    #{<<"causes">> := [First | _], <<"p99_ns">> := P99} = kind(<<"all_sleeper">>, Config),
    ?assertMatch(#{<<"cause">> := <<"timer">>, <<"role">> := <<"all_sleeper">>, <<"function">> := <<"timer:sleep/1">>}, First),
    #{<<"slow_ns">> := Slow, <<"normal_ns">> := Normal, <<"p99_without_ns">> := Without} = First,
    ?assert(P99 >= ns(?SLOW_MS * 8 div 10)),
    ?assert(Slow >= ns(?SLOW_MS * 8 div 10)),
    ?assert(Normal < ns(?SLOW_MS) div 10),
    ?assert(Without < P99 div 2).

%% The cause is in another process than the server.
helper(Config) ->
    #{<<"causes">> := [#{<<"cause">> := Cause, <<"role">> := Role, <<"slow_ns">> := Slow} | _]} = kind(<<"all_asker">>, Config),
    ?assertEqual({<<"running">>, <<"all_helper">>}, {Cause, Role}),
    ?assert(Slow >= ns(?SLOW_MS) div 2).

%% ---- figures ----

equals_sql(Config) ->
    Query = "with r as materialized (select server, duration_ns as ns, row_number() over (partition by server order by duration_ns) - 1 as i, "
        "count(*) over (partition by server) as n from requests where kind <> 'cast' and duration_ns is not null and not passed_on) "
        "select server, n as requests, max(ns) as max_ns, max(ns) filter (where i = n / 2) as p50_ns, "
        "max(ns) filter (where i = n - 1 - n / 100) as p99_ns from r group by server",
    {0, Text} = kymo_cli:run(["sql", "--json", "-q", ?config(recording, Config), Query]),
    Rows = maps:from_list([{maps:get(<<"server">>, Row), maps:remove(<<"server">>, Row)} || Line <- string:lexemes(binary_to_list(Text), "\n"),
                           Row <- [kymo_cli:json(Line ++ "\n")]]),
    [_, _ | _] = Kinds = kinds(Config),
    _ = [?assertEqual(maps:get(Server, Rows), maps:with([<<"requests">>, <<"max_ns">>, <<"p50_ns">>, <<"p99_ns">>], Kind))
         || #{<<"server">> := Server} = Kind <- Kinds].

%% Causes do not overlap, and are all of the time but for roundings. Less of one makes no request slower.
adds_up(Config) ->
    _ = [
        begin
            ?assertEqual(false, Cut),
            [?assert(abs(lists:sum([maps:get(Key, C) || C <- Causes]) - Mean) =< length(Causes))
             || {Key, #{<<"mean_ns">> := Mean}} <- [{<<"slow_ns">>, Slow}, {<<"normal_ns">>, Normal}]],
            [?assert(Without =< P99) || #{<<"p99_without_ns">> := Without} <- Causes]
        end
     || #{<<"causes">> := Causes, <<"slow">> := Slow, <<"normal">> := Normal, <<"p99_ns">> := P99, <<"cut">> := Cut} <- kinds(Config)
    ].

text(Config) ->
    {0, Text} = kymo_cli:run(["why", "--all", "-q", "-n", "1", ?config(recording, Config)]),
    ?assertMatch({match, _}, re:run(Text, "^all_sleeper: [0-9]+ requests, p50 .*, p99 [0-9.]+ ms, max ")),
    ?assertMatch({match, _}, re:run(Text, "\n *[0-9.]+ ms .* timer +all_sleeper, mostly in timer:sleep/1; .* of it behind other requests\n")).

%% The servers whose slow requests took most come first, and --top is their number.
order(Config) ->
    [#{<<"server">> := First}, _ | _] = kinds(Config),
    ?assertEqual(<<"all_sleeper">>, First),
    ?assertMatch([#{<<"server">> := First}], kinds(Config, ["-n", "1"])).

%% A server with few requests is not compared.
few(Config) ->
    ?assertEqual([], [K || #{<<"server">> := <<"all_fast">>} = K <- kinds(Config, ["-n", "100"])]),
    {0, Text} = kymo_cli:run(["why", "--all", "--to", "0.000001", ?config(recording, Config)]),
    ?assertNotEqual(nomatch, string:find(Text, "no server has 20 requests with a reply")).

usage(Config) ->
    [begin
         {2, Text} = kymo_cli:run(["why", "--all" | Args] ++ [?config(recording, Config)]),
         ?assertNotEqual(nomatch, string:find(Text, "--all explains requests of any time"))
     end || Args <- [["--at", "1s"], ["--path"], ["--casts"], ["--function", "lists:map/2"], ["--module", "lists"]]].
