%% SPDX-License-Identifier: Apache-2.0
%%
%% Requests to a server that has messages in its mailbox when the recording begins. The clients and
%% the server note when each request was sent and handled, and `kymo requests' must say the same, or
%% that it is unknown.
-module(kymo_backlog_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-behaviour(gen_server).

-compile(export_all).
-compile(nowarn_export_all).

-define(CLIENTS, 20).
%% How long a callback takes, and how much the clocks may differ.
-define(SPIN_NS, 3000000).
-define(CLOCKS_NS, 500000).

all() -> [calls, calls_without_returns, calls_after_the_horizon, casts].

init_per_suite(Config) ->
    {module, _} = code:ensure_loaded(kymo),
    Config.

end_per_suite(_) -> ok.

init_per_testcase(Case, Config) ->
    [{dir, filename:join(?config(priv_dir, Config), Case)} | Config].

end_per_testcase(_, _) -> ok.

%% ---- the server: its state is what it has handled, newest first ----

init([]) -> {ok, []}.

handle_call(handled, _, Handled) -> {reply, Handled, Handled};
handle_call(hold, {Client, _}, Handled) ->
    Client ! {held, self()},
    receive go -> {reply, ok, Handled} end;
handle_call(Key, _, Handled) -> {reply, ok, handle(Key, Handled)}.

handle_cast({hold, Client}, Handled) ->
    Client ! {held, self()},
    receive go -> {noreply, Handled} end;
handle_cast(Key, Handled) -> {noreply, handle(Key, Handled)}.

handle(Key, Handled) ->
    Start = now_ns(),
    spin(Start + ?SPIN_NS),
    [{Key, Start, now_ns()} | Handled].

spin(Until) ->
    case now_ns() < Until of
        true -> spin(Until);
        false -> ok
    end.

now_ns() -> erlang:monotonic_time(nanosecond).

%% ---- the clients ----

%% Makes requests, and `Noise' traced calls after each of the first three. Exits with what it did.
client(Server, Requests, Noise) ->
    exit({did, [request(Server, N, Noise) || N <- lists:seq(1, Requests)]}).

request(Server, N, Noise) ->
    Key = {self(), N},
    Before = now_ns(),
    Id = gen_server:send_request(Server, Key),
    After = now_ns(),
    {reply, ok} = gen_server:wait_response(Id, infinity),
    _ = [?MODULE:noise() || N =< 3, _ <- lists:seq(1, Noise)],
    {Key, Before, After}.

noise() -> ok.

%% Clients begin before the recording, and their first requests are in the mailbox then. Returns
%% when each request was sent and handled.
calls_with_backlog(Dir, Options, Events, Requests, Noise) ->
    {ok, Server} = gen_server:start(?MODULE, [], []),
    Hold = gen_server:send_request(Server, hold),
    receive {held, Server} -> ok end,
    Clients = [spawn_monitor(?MODULE, client, [Server, Requests, Noise]) || _ <- lists:seq(1, ?CLIENTS)],
    wait_until(fun() -> process_info(Server, message_queue_len) =:= {message_queue_len, ?CLIENTS} end),
    record(Dir, Options, Events, fun() ->
        Server ! go,
        {reply, ok} = gen_server:wait_response(Hold, infinity),
        Did = lists:append([receive {'DOWN', M, process, P, {did, D}} -> D end || {P, M} <- Clients]),
        {Did, gen_server:call(Server, handled, infinity)}
    end).

wait_until(Fun) ->
    case Fun() of
        true -> ok;
        false -> erlang:yield(), wait_until(Fun)
    end.

record(Dir, Options, Events, Fun) ->
    {ok, R} = kymo:start(Options#{dir => Dir, owner => none}),
    Functions = [?MODULE_STRING ++ F || F <- [":handle_call/3", ":handle_cast/2", ":noise/0"]],
    {ok, _} = kymo:trace(R, #{functions => Functions, events => Events}),
    try Fun() after kymo:stop(R) end.

%% ---- what kymo says ----

requests(Dir, Options) ->
    {0, Out} = kymo_cli:run(["requests", "--json", "-q", "-n", "1000"] ++ Options ++ [Dir]),
    #{<<"slowest">> := Requests} = kymo_cli:json(unicode:characters_to_list(Out)),
    Requests.

%% The limits of the time in the mailbox, by key of the request: a callback begins after the one
%% before it has ended.
waits(Did, [_ | _] = Handled) ->
    [{_, Earliest, _} | _] = Oldest = lists:reverse(Handled),
    {_, Waits} = lists:foldl(
        fun({Key, Start, End}, {Last, Waits}) ->
            {Key, Before, After} = lists:keyfind(Key, 1, Did),
            {End, Waits#{Key => {Last - After - ?CLOCKS_NS, Start - Before + ?CLOCKS_NS}}}
        end, {Earliest - ?SPIN_NS, #{}}, Oldest),
    Waits.

%% Each recorded request of the clients waited as long as it did. Returns how many there are.
check_calls(Dir, {Did, Handled}, Requests) ->
    Waits = waits(Did, Handled),
    All = requests(Dir, []),
    Clients = lists:usort([P || {{P, _}, _, _} <- Did]),
    lists:sum([check_client(Client, Requests, Waits, All) || Client <- Clients]).

check_client(Client, Requests, Waits, All) ->
    Pid = list_to_binary(pid_to_list(Client)),
    Mine = lists:sort([{Sent, Queued, Inferred}
                       || #{<<"client_pid">> := P, <<"sent_ns">> := Sent, <<"queued_ns">> := Queued,
                            <<"inferred">> := Inferred, <<"ended">> := <<"replied">>} <- All, P =:= Pid]),
    First = Requests - length(Mine) + 1,
    [begin
         {Least, Most} = maps:get({Client, N}, Waits),
         ?assertMatch({_, Q, false} when Q >= Least andalso Q =< Most, Request, {N, Least, Most})
     end || {N, Request} <- lists:zip(lists:seq(First, Requests), Mine)],
    length(Mine).

%% ---- tests ----

calls(Config) ->
    Dir = ?config(dir, Config),
    Did = calls_with_backlog(Dir, #{}, [return_to, messages, procs, running], 3, 0),
    %% The first request of each client was sent before the recording.
    ?assertEqual(2 * ?CLIENTS, check_calls(Dir, Did, 3)),
    {0, Out} = kymo_cli:run(["why", "--json", "-q", Dir]),
    #{<<"answers">> := [#{<<"parts">> := [First | _]}]} = kymo_cli:json(unicode:characters_to_list(Out)),
    ?assertMatch(#{<<"cause">> := <<"queue">>, <<"requests">> := N} when N > ?CLIENTS div 2, First).

calls_without_returns(Config) ->
    Dir = ?config(dir, Config),
    Did = calls_with_backlog(Dir, #{}, [messages, procs], 3, 0),
    ?assertEqual(2 * ?CLIENTS, check_calls(Dir, Did, 3)).

%% The same in the middle of an overwriting recording.
calls_after_the_horizon(Config) ->
    Dir = ?config(dir, Config),
    Requests = 6,
    Did = calls_with_backlog(Dir, #{policy => overwrite, memory => 4 bsl 20}, [return_to, messages, procs, running],
                             Requests, 8000),
    N = check_calls(Dir, Did, Requests),
    ct:pal("~b of ~b requests are recorded", [N, ?CLIENTS * Requests]),
    ?assert(N > 0 andalso N < ?CLIENTS * (Requests - 1)).

%% The order does not tell when casts to a server with a backlog were handled, until the server has
%% waited for the next message.
casts(Config) ->
    Dir = ?config(dir, Config),
    {ok, Server} = gen_server:start(?MODULE, [], []),
    gen_server:cast(Server, {hold, self()}),
    receive {held, Server} -> ok end,
    _ = casts(Server, 1, 20),
    {Did, Handled} = record(Dir, #{}, [return_to, messages, procs, running], fun() ->
        Unknown = casts(Server, 21, 40),
        Server ! go,
        wait_until(fun() -> is_idle(Server) end),
        {Unknown ++ casts(Server, 41, 45), gen_server:call(Server, handled, infinity)}
    end),
    Casts = lists:sort([{Sent, Total, Queued}
                        || #{<<"kind">> := <<"cast">>, <<"sent_ns">> := Sent, <<"total_ns">> := Total,
                             <<"queued_ns">> := Queued} <- requests(Dir, ["--casts"])]),
    %% If the runtime reports which message is taken, all are known.
    Known = case taken(Dir) of true -> 25; false -> 5 end,
    ?assertEqual(Known, length(Casts)),
    Waits = waits(Did, lists:sublist(Handled, 25)),
    [begin
         {Least, Most} = maps:get(N, Waits),
         ?assertMatch({_, _, Q} when Q >= Least andalso Q =< Most, Cast, {N, Least, Most})
     end || {N, Cast} <- lists:zip(lists:seq(46 - Known, 45), Casts)],
    {0, Text} = kymo_cli:run(["requests", "--casts", Dir]),
    ?assertEqual(Known =:= 25, string:find(Text, "20 casts were handled") =:= nomatch).

taken(Dir) ->
    {0, Out} = kymo_cli:run(["mailboxes", "--json", "-q", Dir]),
    #{<<"has">> := #{<<"taken">> := Taken}} = kymo_cli:json(unicode:characters_to_list(Out)),
    Taken.

casts(Server, First, Last) ->
    [begin
         Before = now_ns(),
         ok = gen_server:cast(Server, N),
         {N, Before, now_ns()}
     end || N <- lists:seq(First, Last)].

%% Whether it waits for the next message.
is_idle(Server) ->
    process_info(Server, [status, message_queue_len]) =:= [{status, waiting}, {message_queue_len, 0}].
