%% SPDX-License-Identifier: Apache-2.0
%%
%% The commands that present the analysis, on recordings of this node. Durations are compared
%% with the program's own clock and with Perfetto's slices, text output with JSON, and counts
%% with what the program did.
-module(kymo_analysis_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-behaviour(gen_server).

-compile(export_all).
-compile(nowarn_export_all).

all() ->
    [
        stats_durations, stats_equal_perfetto, stats_processes, calls, calls_tree, other_requests, no_reply,
        mailboxes,
        why_adds_up, why_many, why_casts, why_queue, why_slower_call,
        why_arguments, diff_finds_the_slower, print_tree,
        print_json, speedscope, names_of_behaviours, names_of_relatives,
        names_of_relatives_in_elixir, timeouts_are_no_messages, names_in_exports, nothing_to_show
    ].

init_per_suite(Config) ->
    {module, _} = code:ensure_loaded(kymo),
    Dir = filename:join(?config(priv_dir, Config), "work"),
    [{recording, Dir}, {did, record(Dir, fun() -> work(3) end)} | Config].

end_per_suite(_) -> ok.

init_per_testcase(Case, Config) ->
    Dir = filename:join(?config(priv_dir, Config), atom_to_list(Case)),
    ok = file:make_dir(Dir),
    [{dir, Dir} | Config].

end_per_testcase(_, _) -> ok.

%% ---- what is recorded ----

record(Dir, Fun) ->
    record(Dir, Fun, [return_to, messages, procs, running, garbage_collection]).

record(Dir, Fun, Events) ->
    {ok, R} = kymo:start(#{dir => Dir, owner => none, memory => 64 bsl 20}),
    {ok, _} = kymo:trace(R, #{functions => ["kymo_analysis_SUITE:_/_", "gen_server:call/_"], events => Events}),
    try Fun() after kymo:stop(R) end.

%% Calls spin/1 with numbers of nanoseconds, a server, and the server behind that one.
work(Ms) ->
    {ok, Back} = gen_server:start({local, ?MODULE}, ?MODULE, none, []),
    {ok, Front} = gen_server:start(?MODULE, Back, []),
    Took = [timed(fun() -> ?MODULE:spin(Ms) end) || _ <- lists:seq(1, 5)],
    Asked = [timed(fun() -> gen_server:call(Front, {spin, Ms}) end) || _ <- lists:seq(1, 4)],
    gen_server:cast(Front, nothing),
    gen_server:stop(Front),
    gen_server:stop(Back),
    #{took => Took, asked => Asked, front => Front, back => Back, self => self()}.

timed(Fun) ->
    Start = erlang:monotonic_time(),
    _ = Fun(),
    erlang:convert_time_unit(erlang:monotonic_time() - Start, native, nanosecond).

init(Next) -> {ok, Next}.
handle_call({spin, Ms}, _, none) -> {reply, ?MODULE:spin(Ms), none};
handle_call({hold, Client}, _, Next) ->
    Client ! {held, self()},
    receive go -> {reply, ok, Next} end;
handle_call(Request, _, Next) -> {reply, gen_server:call(Next, Request), Next}.
handle_cast(nothing, Next) -> {noreply, Next};
handle_cast({spin, Ms, Client}, Next) ->
    ?MODULE:spin(Ms),
    Client ! {spun, self()},
    {noreply, Next}.

%% Not a tail call, which would end it where call trees are exact. The compiler would make one if the
%% result were the constant that spin_until/2 returns.
spin(Ms) ->
    ok = spin_until(erlang:monotonic_time(millisecond) + Ms, lists:duplicate(200, 1)),
    Ms.

nap(Ms) -> receive after Ms -> ok end.

%% Each turn is a recorded call. What it does beside that keeps their number small: 200 ms of turns
%% that do nothing fill the rings on a fast runtime.
spin_until(Deadline, Ones) ->
    _ = lists:foldl(fun erlang:max/2, 0, Ones),
    case erlang:monotonic_time(millisecond) < Deadline of
        true -> spin_until(Deadline, Ones);
        false -> ok
    end.

%% ---- the command ----

json(Args) ->
    {0, Out} = kymo_cli:run(Args),
    kymo_cli:json(unicode:characters_to_list(Out)).

%% Each line is a JSON object.
json_lines(Args) ->
    {0, Out} = kymo_cli:run(Args),
    [kymo_cli:json(unicode:characters_to_list(L) ++ "\n") || L <- string:split(Out, "\n", all), L =/= <<>>].

text(Args) ->
    {0, Out} = kymo_cli:run(Args),
    unicode:characters_to_list(Out).

row(Key, Name, #{<<"rows">> := Rows}) ->
    [Row] = [R || R <- Rows, maps:get(Key, R) =:= Name],
    Row.

pid(Pid) -> list_to_binary(pid_to_list(Pid)).

%% ---- tests ----

stats_durations(Config) ->
    #{took := Took, asked := Asked} = ?config(did, Config),
    Stats = json(["stats", "--json", "--top", "100", ?config(recording, Config)]),
    #{<<"calls">> := 9, <<"total_ns">> := Spin, <<"max_ns">> := Max, <<"p50_ns">> := P50, <<"running_ns">> := Running} =
        row(<<"function">>, <<"kymo_analysis_SUITE:spin/1">>, Stats),
    %% The program measured around the calls, so no call took longer than that.
    ?assert(Max =< lists:max(Took ++ Asked)),
    ?assert(Spin =< lists:sum(Took) + lists:sum(Asked)),
    ?assert(Spin > 9 * 2000000),
    ?assert(P50 =< Max andalso Running =< Spin),
    %% 8 calls between servers, in which the servers wait.
    #{<<"calls">> := 8, <<"self_ns">> := Self, <<"running_ns">> := CallRunning} =
        row(<<"function">>, <<"gen_server:call/2">>, Stats),
    ?assert(CallRunning < Self),
    %% Text has the same rows in the same order.
    Names = [F || #{<<"function">> := F} <- maps:get(<<"rows">>, Stats)],
    [_ | Lines] = string:lexemes(text(["stats", "-n", "100", ?config(recording, Config)]), "\n"),
    ?assertEqual(Names, [list_to_binary(lists:last(string:lexemes(L, " "))) || L <- Lines]).

%% The same calls with the same durations as in the export, which other code writes.
stats_equal_perfetto(Config) ->
    Dir = ?config(recording, Config),
    Out = filename:join(?config(dir, Config), "trace"),
    {0, _} = kymo_cli:run(["export", "perfetto", "-q", "-o", Out, Dir]),
    {Slices, _} = kymo_perfetto:read(Out),
    Perfetto = lists:foldl(
        fun({Name, A, B, _}, Acc) ->
            maps:update_with(Name, fun({N, T}) -> {N + 1, T + B - A} end, {1, B - A}, Acc)
        end,
        #{},
        Slices
    ),
    Spans = json_lines(["print", "--tree", "--json", Dir]),
    Tree = lists:foldl(
        fun
            (#{<<"function">> := Name, <<"total_ns">> := T}, Acc) when is_integer(T) ->
                maps:update_with(Name, fun({N, Sum}) -> {N + 1, Sum + T} end, {1, T}, Acc);
            (_, Acc) ->
                Acc
        end,
        #{},
        Spans
    ),
    ?assert(maps:size(Tree) > 5),
    [?assertEqual({Name, Value}, {Name, maps:get(Name, Perfetto)}) || {Name, Value} <- maps:to_list(Tree)].

stats_processes(Config) ->
    #{back := Back} = ?config(did, Config),
    Dir = ?config(recording, Config),
    Rows = json(["stats", "--by", "process", "--json", "-n", "1000", "-q", Dir]),
    Name = <<(pid(Back))/binary, " kymo_analysis_SUITE">>,
    #{<<"running_ns">> := Running, <<"waiting_ns">> := Waiting, <<"received">> := Received} =
        row(<<"process">>, Name, Rows),
    ?assert(Running > 4 * 2000000),
    ?assert(Waiting > 5 * 2000000),
    ?assert(Received >= 4),
    #{<<"processes">> := 1} =
        row(<<"role">>, <<"kymo_analysis_SUITE">>, json(["stats", "--by", "role", "--json", "-n", "1000", Dir])),
    #{<<"calls">> := Calls} =
        row(<<"module">>, <<"gen_server">>, json(["stats", "--by", "module", "--json", Dir])),
    ?assert(Calls >= 8).

calls(Config) ->
    #{asked := Asked, front := Front, self := Self} = ?config(did, Config),
    Dir = ?config(recording, Config),
    #{<<"slowest">> := Slowest, <<"servers">> := Servers} =
        json(["requests", "--json", "-n", "100", "--pid", pid_to_list(Front), Dir]),
    Mine = [R || #{<<"client_pid">> := P, <<"server_pid">> := S} = R <- Slowest, P =:= pid(Self), S =:= pid(Front),
                 maps:get(<<"function">>, R) =/= null],
    ?assertEqual(4, length(Mine)),
    [
        begin
            ?assertEqual(<<"kymo_analysis_SUITE:handle_call/3">>, F),
            ?assertEqual(Total, Queued + Handling + Reply),
            ?assert(Handling > 2000000),
            ?assertEqual(false, Inferred)
        end
     || #{<<"function">> := F, <<"total_ns">> := Total, <<"queued_ns">> := Queued, <<"handling_ns">> := Handling,
          <<"reply_ns">> := Reply, <<"inferred">> := Inferred} <- Mine
    ],
    Totals = [T || #{<<"total_ns">> := T} <- Mine],
    ?assertEqual(Totals, lists:reverse(lists:sort(Totals))),
    ?assert(lists:all(fun({T, A}) -> T =< A end, lists:zip(Totals, lists:reverse(lists:sort(Asked))))),
    ?assert(length(Servers) >= 2).

calls_tree(Config) ->
    #{front := Front, back := Back, self := Self} = ?config(did, Config),
    #{<<"slowest">> := [#{<<"client_pid">> := Client, <<"requests">> := [Inner]} | _]} =
        json(["requests", "--tree", "--json", "-n", "1", "--function", "kymo_analysis_SUITE:handle_call/3", "--pid",
              pid_to_list(Self), ?config(recording, Config)]),
    #{<<"client_pid">> := F, <<"server_pid">> := B, <<"requests">> := []} = Inner,
    ?assertEqual({pid(Self), pid(Front), pid(Back)}, {Client, F, B}),
    %% A request that is listed below another one is not listed again.
    #{<<"slowest">> := Trees} = json(["requests", "--tree", "--json", "-n", "1000", ?config(recording, Config)]),
    Sent = lists:append([sent(T) || T <- Trees]),
    ?assertEqual(lists:usort(Sent), lists:sort(Sent)),
    ?assert(lists:member(hd(sent(Inner)), Sent)).

sent(#{<<"client_pid">> := Client, <<"server_pid">> := Server, <<"sent_ns">> := At, <<"requests">> := Inner}) ->
    [{Client, Server, At} | lists:append([sent(R) || R <- Inner])].

%% gen_event, the io protocol, sys, a task whose reply carries the monitor's reference; and a
%% server that dies.
other_requests(Config) ->
    Dir = filename:join(?config(dir, Config), "rec"),
    {Event, Io, Task} = record(Dir, fun() ->
        {ok, E} = gen_event:start(),
        [] = gen_event:which_handlers(E),
        {ok, Fd} = file:open(filename:join(?config(dir, Config), "file"), [write]),
        ok = io:put_chars(Fd, "hello"),
        Self = self(),
        {T, Ref} = spawn_monitor(fun() -> receive {go, R} -> Self ! {R, done} end end),
        T ! {go, Ref},
        receive {Ref, done} -> ok end,
        {ok, S} = gen_server:start(?MODULE, none, []),
        catch gen_server:call(S, boom),
        {E, Fd, T}
    end),
    #{<<"slowest">> := Requests} = json(["requests", "--json", "-n", "1000", "-q", Dir]),
    Kinds = [{K, S, E} || #{<<"kind">> := K, <<"server_pid">> := S, <<"ended">> := E} <- Requests],
    ?assert(lists:member({<<"call">>, pid(Event), <<"replied">>}, Kinds)),
    ?assert(lists:member({<<"io">>, pid(Io), <<"replied">>}, Kinds)),
    ?assert(lists:member({<<"spawn">>, pid(Task), <<"replied">>}, Kinds)),
    ?assertEqual(1, length([D || {_, _, <<"down">>} = D <- Kinds])).

%% A call that times out, one whose server is killed, and one that is still open: the first two have a
%% duration and are explained by what their server did.
no_reply(Config) ->
    Dir = filename:join(?config(dir, Config), "rec"),
    {Silent, Killed, Open, Client} = record(Dir, fun() ->
        Sleeps = fun() -> receive {'$gen_call', _, _} -> timer:sleep(infinity) end end,
        {S, K, O} = {spawn(Sleeps), spawn(Sleeps), spawn(Sleeps)},
        Waits = spawn(fun() -> gen_server:call(O, hello, infinity) end),
        wait_until_waiting(Waits),
        {'EXIT', {timeout, _}} = (catch gen_server:call(S, hello, 150)),
        {C, Ref} = spawn_monitor(fun() -> gen_server:call(K, hello, infinity) end),
        wait_until_waiting(C),
        wait_until_sleeping(K),
        timer:sleep(50), % the cause that is looked for
        exit(K, kill),
        receive {'DOWN', Ref, process, C, {killed, _}} -> ok end,
        {S, K, O, C}
    end),
    #{<<"slowest">> := Requests} = json(["requests", "--json", "-n", "1000", "-q", Dir]),
    [Waited] = [T || #{<<"server_pid">> := S, <<"ended">> := <<"timeout">>, <<"total_ns">> := T} <- Requests,
                     S =:= pid(Silent)],
    ?assert(Waited >= 150000000),
    #{<<"answers">> := [#{<<"server_pid">> := Server, <<"total_ns">> := Waited, <<"parts">> := [Part | _]}]} =
        json(["why", "--json", "-q", "--pid", pid_to_list(Silent), Dir]),
    ?assertEqual(pid(Silent), Server),
    ?assertMatch(#{<<"cause">> := <<"timer">>, <<"process_pid">> := Server}, Part),
    #{<<"answers">> := [#{<<"parts">> := [Until | _]}]} =
        json(["why", "--json", "-q", "--pid", pid_to_list(Client), Dir]),
    ?assertEqual({<<"timer">>, pid(Killed)}, {maps:get(<<"cause">>, Until), maps:get(<<"process_pid">>, Until)}),
    {0, Text} = kymo_cli:run(["why", Dir]),
    ?assertNotEqual(nomatch, re:run(Text, "[12] requests? had no reply, the oldest for .* -> .*" ++ pid_to_list(Open))).

wait_until_sleeping(Pid) ->
    case process_info(Pid, current_function) of
        {_, {timer, sleep, 1}} -> ok;
        _ -> erlang:yield(), wait_until_sleeping(Pid)
    end.

mailboxes(Config) ->
    Dir = filename:join(?config(dir, Config), "rec"),
    Receiver = record(Dir, fun() ->
        Self = self(),
        Pid = spawn(fun() -> [receive {n, I} -> ok end || I <- lists:seq(1, 100)], Self ! done end),
        [Pid ! {n, I} || I <- lists:seq(1, 100)],
        receive done -> Pid end
    end),
    #{<<"received">> := 100, <<"senders">> := 1, <<"unreceived">> := 0, <<"words">> := 300, <<"max_ns">> := Max,
      <<"top_senders">> := [#{<<"messages">> := 100}]} = Row =
        hd([R || #{<<"process">> := P} = R <- maps:get(<<"rows">>, json(["mailboxes", "--json", "-n", "1000", Dir])),
                 string:prefix(P, pid_to_list(Receiver)) =/= nomatch]),
    ?assert(maps:get(<<"p50_ns">>, Row) =< Max),
    ?assertMatch({_, _}, binary:match(list_to_binary(text(["mailboxes", "-n", "1000", Dir])), pid(Receiver))).

why_adds_up(Config) ->
    Dir = ?config(recording, Config),
    #{<<"answers">> := Answers} = json(["why", "--json", "-n", "20", Dir]),
    ?assert(length(Answers) >= 8),
    [
        begin
            ?assertEqual(Total, lists:sum([N || #{<<"ns">> := N} <- Parts])),
            ?assertEqual(sums(Parts), sums(Path))
        end
     || #{<<"total_ns">> := Total, <<"parts">> := Parts, <<"path">> := Path} <- Answers
    ],
    #{<<"answers">> := [#{<<"kind">> := <<"call">>, <<"parts">> := Parts}]} =
        json(["why", "--json", "--function", "kymo_analysis_SUITE:spin/1", Dir]),
    %% On a busy machine the slowest one is the one that was interrupted.
    ?assertMatch([_ | _], [P || #{<<"cause">> := <<"running">>, <<"ns">> := Ns} = P <- Parts, Ns > 0]),
    %% The text leaves out only small parts, and says how many.
    [
        begin
            Shown = part_lines(text(["why", "-q", "-n", "20" | Options] ++ [Dir])),
            ?assertEqual([length(P) || #{<<"parts">> := P} <- Answers], [N || {N, _} <- Shown]),
            ?assertEqual([], [Percent || {_, Percent} <- Shown, Percent > 0.5, Options =:= []]),
            ?assertEqual([], [Percent || {_, Percent} <- Shown, Percent > 0, Options =/= []])
        end
     || Options <- [[], ["--path"]]
    ].

%% The time of each cause in each process.
sums(Stretches) ->
    lists:foldl(fun(#{<<"cause">> := Cause, <<"process_pid">> := Pid, <<"ns">> := Ns}, Sums) ->
                    maps:update_with({Cause, Pid}, fun(N) -> N + Ns end, Ns, Sums)
                end, #{}, Stretches).

%% A call that took much longer than the slowest request is mentioned, a call that made it is not.
why_slower_call(Config) ->
    Dir = filename:join(?config(dir, Config), "rec"),
    record(Dir, fun() ->
        {ok, S} = gen_server:start(?MODULE, none, []),
        gen_server:call(S, {spin, 5})
    end),
    {0, Same} = kymo_cli:run(["why", Dir]),
    ?assertEqual(nomatch, re:run(Same, "a call took longer")),
    Longer = filename:join(?config(dir, Config), "longer"),
    record(Longer, fun() ->
        {ok, S} = gen_server:start(?MODULE, none, []),
        gen_server:call(S, {spin, 1}),
        ?MODULE:spin(200),
        not_a_tail_call
    end),
    {0, Text} = kymo_cli:run(["why", Longer]),
    %% The fun that calls spin/1.
    Fun = "kymo_analysis_SUITE:'-why_slower_call/1-fun-",
    ?assertMatch({match, _}, re:run(Text, "a call took longer: .* ms, " ++ Fun ++ ".*; --function explains it")),
    #{<<"slowest_call">> := Call, <<"slowest_call_ns">> := Ns} = json(["why", "--json", "-q", Longer]),
    ?assertNotEqual(nomatch, string:prefix(Call, Fun)),
    ?assert(Ns >= 200000000).

%% For each answer: the number of parts, and the percentage of those that are only summed up.
part_lines(Text) ->
    Answers = re:split(Text, "^(?! *[0-9.]+ [a-z]+ +[0-9.]+ %).* from [0-9.]+ s on$", [multiline, {return, list}]),
    [
        case re:run(Answer, " ([0-9.]+) %  ([0-9]+) smaller parts", [{capture, all_but_first, list}]) of
            nomatch -> {lines_with_percent(Answer), 0};
            {match, [Percent, N]} -> {lines_with_percent(Answer) - 1 + list_to_integer(N), list_to_float(Percent)}
        end
     || Answer <- tl(Answers)
    ].

lines_with_percent(Text) ->
    case re:run(Text, "^ *[0-9.]+ [a-z]+ +[0-9.]+ %  ", [multiline, global]) of
        {match, Lines} -> length(Lines);
        nomatch -> 0
    end.

%% Explained together or one at a time, the answers are the same.
why_many(Config) ->
    Dir = ?config(recording, Config),
    #{<<"answers">> := [_, _ | _] = Answers} = json(["why", "--json", "-n", "1000", "-q", Dir]),
    Totals = [T || #{<<"total_ns">> := T} <- Answers],
    ?assertEqual(lists:reverse(lists:sort(Totals)), Totals),
    #{<<"answers">> := [Slowest]} = json(["why", "--json", Dir]),
    ?assertEqual(hd(Answers), Slowest),
    #{<<"answers">> := Two} = json(["why", "--json", "-n", "2", Dir]),
    ?assertEqual(lists:sublist(Answers, 2), Two).

%% A cast that took longer than any call is mentioned, and explained on demand.
why_casts(Config) ->
    Dir = filename:join(?config(dir, Config), "rec"),
    Server = record(Dir, fun() ->
        {ok, S} = gen_server:start(?MODULE, none, []),
        gen_server:cast(S, {spin, 50, self()}),
        receive {spun, S} -> ok end,
        gen_server:call(S, {spin, 1}),
        S
    end),
    #{<<"slowest_cast_ns">> := Cast} = json(["why", "--json", "-q", Dir]),
    ?assert(Cast >= 49000000),
    #{<<"answers">> := [#{<<"kind">> := <<"cast">>, <<"server_pid">> := Pid, <<"total_ns">> := Total} = Answer]} =
        json(["why", "--json", "-q", "--casts", Dir]),
    #{<<"parts">> := Parts} = Answer,
    ?assertEqual(pid(Server), Pid),
    ?assertEqual(Cast, Total),
    ?assertEqual(Total, lists:sum([N || #{<<"ns">> := N} <- Parts])),
    ?assertMatch([_ | _], [P || #{<<"cause">> := <<"running">>, <<"process_pid">> := P} <- Parts, P =:= Pid]),
    ?assert(says("a cast took longer", text(["why", Dir]))),
    ?assertNot(says("a cast took longer", text(["why", "--casts", Dir]))),
    ?assertNot(says("a cast took longer", text(["why", ?config(recording, Config)]))).

says(What, Text) -> string:find(Text, What) =/= nomatch.

%% "1 request" is singular.
why_queue(Config) ->
    Dir = filename:join(?config(dir, Config), "rec"),
    record(Dir, fun() ->
        {ok, S} = gen_server:start(?MODULE, none, []),
        First = gen_server:send_request(S, {hold, self()}),
        receive {held, S} -> ok end,
        {Client, Second} = spawn_monitor(fun() -> gen_server:call(S, {spin, 1}) end),
        wait_until_queued(S),
        wait_until_waiting(Client),
        S ! go,
        {reply, ok} = gen_server:wait_response(First, infinity),
        receive {'DOWN', Second, process, _, normal} -> ok end
    end),
    Text = text(["why", "-n", "2", Dir]),
    ?assert(says(" behind 1 other request", Text)),
    ?assertNot(says(" behind 1 other requests", Text)).

wait_until_queued(Server) ->
    case process_info(Server, message_queue_len) of
        {_, 1} -> ok;
        _ -> erlang:yield(), wait_until_queued(Server)
    end.

%% A client that the kernel has stopped after the send counts as running, and does not wait for
%% its turn.
wait_until_waiting(Client) ->
    case process_info(Client, status) of
        {_, waiting} -> ok;
        _ -> erlang:yield(), wait_until_waiting(Client)
    end.

why_arguments(Config) ->
    Dir = ?config(recording, Config),
    [
        begin
            {2, Out} = kymo_cli:run(["why", "-n", N, Dir]),
            ?assert(says("from 1 to 1000", Out))
        end
     || N <- ["0", "1001"]
    ],
    {0, Late} = kymo_cli:run(["why", "--at", "100h", Dir]),
    #{<<"first_ns">> := First, <<"last_ns">> := Last} = json(["why", "--json", Dir]),
    Seconds = fun(Ns) -> io_lib:format("~b.~9..0b s", [Ns div 1000000000, Ns rem 1000000000]) end,
    ?assert(says(["--at 100h: the recording has events from ", Seconds(First), " to ", Seconds(Last)], Late)),
    {0, Within} = kymo_cli:run(["why", "--at", io_lib:format("~.9fs", [(First + Last) / 2.0e9]), Dir]),
    ?assertNot(says("--at", Within)).

diff_finds_the_slower(Config) ->
    Dir = ?config(dir, Config),
    {A, B} = {filename:join(Dir, "a"), filename:join(Dir, "b")},
    %% Long enough for the mean to stand out even if other programs take the processors away.
    Work = fun(Ms) -> fun() -> [?MODULE:nap(Ms) || _ <- lists:seq(1, 20)] end end,
    record(A, Work(1)),
    record(B, Work(80)),
    Nap = <<"kymo_analysis_SUITE:nap/1">>,
    #{<<"verdict">> := <<"slower">>, <<"a">> := #{<<"calls">> := 20}, <<"b">> := #{<<"calls">> := 20}} =
        row(<<"function">>, Nap, json(["diff", "--json", "-n", "100", A, B])),
    #{<<"verdict">> := <<"faster">>} = row(<<"function">>, Nap, json(["diff", "--json", "-n", "100", B, A])),
    #{<<"verdict">> := <<"noise">>} = row(<<"function">>, Nap, json(["diff", "--json", "-n", "100", A, A])).

print_tree(Config) ->
    Dir = ?config(recording, Config),
    Lines = string:lexemes(text(["print", "--tree", "--function", "kymo_analysis_SUITE:handle_call/3", Dir]), "\n"),
    ?assertEqual(8, length([L || L <- Lines, string:find(L, " kymo_analysis_SUITE:handle_call/3") =/= nomatch])),
    ?assertEqual(4, length([L || L <- Lines, string:find(L, "   kymo_analysis_SUITE:spin/1") =/= nomatch])),
    Slow = json_lines(["print", "--tree", "--json", "--slower", "2ms", Dir]),
    ?assert(Slow =/= []),
    [?assert(T >= 2000000) || #{<<"total_ns">> := T} <- Slow],
    ?assertEqual(1, length(json_lines(["print", "--tree", "--json", "--limit", "1", Dir]))).

print_json(Config) ->
    Dir = ?config(recording, Config),
    Events = json_lines(["print", "--json", Dir]),
    Lines = string:lexemes(text(["print", Dir]), "\n"),
    ?assertEqual(length(Lines), length(Events)),
    Tags = [lists:nth(4, string:lexemes(L, " ")) || L <- Lines],
    ?assertEqual(Tags, [binary_to_list(E) || #{<<"event">> := E} <- Events]),
    Calls = [R || #{<<"event">> := <<"send">>, <<"message">> := <<"call">>, <<"reference">> := R} <- Events],
    Replies = [R || #{<<"event">> := <<"receive">>, <<"message">> := <<"reply">>, <<"reference">> := R} <- Events],
    ?assert(length([R || R <- Calls, lists:member(R, Replies)]) >= 8).

speedscope(Config) ->
    Dir = ?config(recording, Config),
    #{<<"shared">> := #{<<"frames">> := Frames}, <<"profiles">> := Profiles} =
        json(["export", "speedscope", "-q", "-o", "-", Dir]),
    Folded = [string:split(L, " ", trailing) || L <- string:lexemes(text(["export", "folded", "-q", "-o", "-", Dir]), "\n")],
    Total = lists:sum([list_to_integer(N) || [_, N] <- Folded]),
    [?assertEqual(<<"nanoseconds">>, U) || #{<<"unit">> := U} <- Profiles],
    ?assertEqual(Total, lists:sum([lists:sum(W) || #{<<"weights">> := W} <- Profiles])),
    ?assertEqual(length(Folded), lists:sum([length(S) || #{<<"samples">> := S} <- Profiles])),
    ?assert(lists:member(#{<<"name">> => <<"kymo_analysis_SUITE:spin/1">>}, Frames)),
    ?assert(lists:member(<<"kymo_analysis_SUITE">>, [N || #{<<"name">> := N} <- Profiles])).

%% A process that runs a behaviour is named after its callback module, and a supervisor after
%% its own.
names_of_behaviours(Config) ->
    #{front := Front} = ?config(did, Config),
    Spans = json_lines(["print", "--tree", "--json", ?config(recording, Config)]),
    ?assertEqual(
        [<<"kymo_analysis_SUITE:init/1">>],
        lists:usort([N || #{<<"process">> := N, <<"process_pid">> := P} <- Spans, P =:= pid(Front)])
    ).

%% A receive that times out is an event but not a message: 5 messages are sent while 40 receives
%% wait for another one; 5 are received, each with its wait. Tested with and without the pattern
%% that records the sender.
timeouts_are_no_messages(Config) ->
    [
        begin
            Rec = filename:join(?config(dir, Config), Name),
            {Pid, Ref} = spawn_monitor(fun() ->
                receive go -> ok end,
                [receive nothing -> ok after 1 -> ok end || _ <- lists:seq(1, 40)],
                [receive hello -> ok end || _ <- lists:seq(1, 5)]
            end),
            Record(Rec, Pid, fun() ->
                Pid ! go,
                [begin Pid ! hello, timer:sleep(5) end || _ <- lists:seq(1, 5)],
                receive {'DOWN', Ref, _, _, normal} -> ok end
            end),
            Mailboxes = json(["mailboxes", "--json", "--quiet", "--pid", pid_to_list(Pid), Rec]),
            #{<<"rows">> := [#{<<"received">> := 6, <<"unreceived">> := 0}]} = Mailboxes,
            Messages = [maps:get(<<"message">>, E, none) || E <- json_lines(["print", "--json", "--quiet", "--events", "receive",
                "--pid", pid_to_list(Pid), Rec])],
            ?assertEqual({40, 6}, {length([M || M <- Messages, M =:= <<"timeout">>]), length([M || M <- Messages, M =:= none])})
        end
     || {Name, Record} <- [
            {"sender", fun(Rec, Pid, Fun) ->
                {ok, R} = kymo:start(#{dir => Rec, owner => none}),
                {ok, _} = kymo:trace(R, #{processes => [Pid, self()], events => [messages]}),
                try Fun() after kymo:stop(R) end
            end},
            {"no_sender", fun(Rec, Pid, Fun) ->
                {ok, State} = kymo_tracer:open(#{dir => Rec}),
                [1 = erlang:trace(P, true, [send, 'receive', {tracer, kymo_tracer, State}]) || P <- [Pid, self()]],
                try Fun() after kymo_tracer:stop(State) end
            end}
        ]
    ].

%% A process without a name of its own is named after its parent or after the process that it
%% works for, whether it started before the recording or during it. Processes with the same role
%% are grouped by what their names share.
names_of_relatives(Config) ->
    Dir = filename:join(?config(dir, Config), "rec"),
    Self = self(),
    Loop = fun(Loop) -> receive stop -> ok; From -> From ! {self(), here}, Loop(Loop) end end,
    Worker = fun() -> Self ! {self(), here}, Loop(Loop) end,
    Spawner = fun() ->
        Parent = spawn(fun() ->
            register(boss_of_workers, self()),
            Self ! {self(), here},
            receive start -> Self ! {workers, [spawn(Worker), spawn(Worker)]} end,
            receive start -> Self ! {workers, [spawn(Worker)]} end,
            Loop(Loop)
        end),
        here(Parent),
        Parent
    end,
    Boss = Spawner(),
    Before = workers(Boss),
    Task = proc_lib:spawn(fun() -> put('$callers', [Boss, self()]), Worker() end),
    here(Task),
    {ok, R} = kymo:start(#{dir => Dir, owner => none}),
    {ok, _} = kymo:trace(R, #{events => [messages, procs]}),
    Later = workers(Boss),
    Odd = [
        proc_lib:spawn(fun() -> put('$ancestors', Ancestors), put('$callers', Callers), Worker() end)
     || {Ancestors, Callers} <- [{none, [1]}, {[a | b], none}, {[{a, b}], [[]]}, {[undefined], undefined}]
    ],
    [here(P) || P <- Odd],
    All = [Boss, Task | Before ++ Later ++ Odd],
    [begin P ! Self, here(P) end || P <- All],
    {ok, _} = kymo:stop(R),
    [P ! stop || P <- All],
    Names = names(Dir),
    Called = fun(P) -> maps:get(P, Names) end,
    ?assertEqual(pid(Boss, " boss_of_workers"), Called(Boss)),
    [?assertEqual(pid(P, " erlang:apply/2 under boss_of_workers"), Called(P)) || P <- Before ++ Later],
    ?assertMatch({match, _}, re:run(Called(Task), " kymo_analysis_SUITE:'-names_of_relatives.*'/0 for boss_of_workers$")),
    #{<<"rows">> := Rows} = json(["stats", "--by", "role", "--json", "-n", "1000", "-q", Dir]),
    [3] = [N || #{<<"role">> := <<"erlang:apply/2 under boss_of_workers">>, <<"processes">> := N} <- Rows].

workers(Boss) ->
    Boss ! start,
    receive {workers, Pids} -> [here(P) || P <- Pids] end.

here(Pid) -> receive {Pid, here} -> Pid end.

pid(Pid, Name) -> iolist_to_binary([pid_to_list(Pid), Name]).

%% The name that `kymo stats' gives to each process.
names(Dir) ->
    #{<<"rows">> := Rows} = json(["stats", "--by", "process", "--json", "-n", "1000", "-q", Dir]),
    maps:from_list([
        {list_to_pid(binary_to_list(hd(string:split(Name, " ")))), Name}
     || #{<<"process">> := <<"<", _/binary>> = Name} <- Rows
    ]).

names_of_relatives_in_elixir(Config) ->
    case kymo_subject:elixir() of
        {missing, Why} -> {skip, Why};
        {ok, Elixir} -> names_of_relatives_in_elixir(Elixir, Config)
    end.

names_of_relatives_in_elixir(Elixir, Config) ->
    Dir = filename:join(?config(dir, Config), "rec"),
    Script = filename:join(?config(data_dir, Config), "relatives.exs"),
    Ebin = filename:dirname(code:which(kymo)),
    Port = open_port({spawn_executable, Elixir}, [
        {args, ["-pa", Ebin, Script, Dir]}, {env, [{"KYMO_PRIV", filename:dirname(filename:dirname(kymo:cli_path()))}]},
        exit_status, binary, stderr_to_stdout
    ]),
    {0, Out} = kymo_cli:collect(Port, 60000),
    [Main, Orders, Agent, Task] = [list_to_pid(P) || P <- string:lexemes(binary_to_list(Out), " \n")],
    Names = names(Dir),
    [
        ?assertEqual(pid(Pid, Name), maps:get(Pid, Names))
     || {Pid, Name} <- [
            {Main, " :erlang.apply/2 under init"},
            {Orders, " Demo.Orders.init/1 under init"},
            {Task, " Demo.Work.run/1 for Demo.Orders.init/1"}
        ]
    ],
    ?assertMatch({match, _}, re:run(maps:get(Agent, Names), "-fun-0-'/0 under init$")).

%% The exports name processes and functions as the commands do: after the behaviour's callback
%% module, and in Elixir syntax on a node that runs Elixir.
names_in_exports(Config) ->
    #{front := Front} = ?config(did, Config),
    Behaviour = <<"kymo_analysis_SUITE:init/1">>,
    Known = <<(pid(Front))/binary, " ", Behaviour/binary>>,
    ?assertMatch([_ | _], [N || N <- running(Config, ?config(recording, Config)), string:prefix(N, Known) =/= nomatch]),
    ?assertMatch([_ | _], [L || [P | _] = L <- folded(?config(recording, Config)), P =:= Behaviour]),
    Elixir = filename:join(?config(dir, Config), "elixir"),
    Pid = record(Elixir, fun() ->
        {Worker, Ref} = spawn_monitor(fun() -> register('Elixir.Demo.Worker', self()), ?MODULE:spin(1) end),
        receive {'DOWN', Ref, process, Worker, normal} -> Worker end
    end),
    Running = running(Config, Elixir),
    ?assertMatch([_ | _], [N || N <- Running, N =:= <<":kymo_analysis_SUITE.spin/1">>]),
    ?assert(lists:member(<<(pid(Pid))/binary, " Demo.Worker">>, Running)),
    ?assert(lists:member(<<":kymo_analysis_SUITE.spin/1">>, lists:append(folded(Elixir)))).

%% Names of slices, including those of processes on schedulers.
running(Config, Dir) ->
    Out = filename:join(?config(dir, Config), filename:basename(Dir) ++ ".pftrace"),
    {0, _} = kymo_cli:run(["export", "perfetto", "-q", "-o", Out, Dir]),
    {Slices, _} = kymo_perfetto:read(Out),
    [element(1, S) || S <- Slices].

%% The frames of each line.
folded(Dir) ->
    [
        string:split(hd(string:split(list_to_binary(L), " ", trailing)), ";", all)
     || L <- string:lexemes(text(["export", "folded", "-q", "-o", "-", Dir]), "\n")
    ].

%% The commands say what the recording does not contain, and make nothing up.
nothing_to_show(Config) ->
    Dir = filename:join(?config(dir, Config), "rec"),
    record(Dir, fun() -> ?MODULE:spin(1) end, [calls]),
    [
        begin
            {0, Out} = kymo_cli:run([Command, Dir]),
            ?assertMatch({_, _}, binary:match(Out, <<"the recording has no ">>))
        end
     || Command <- ["stats", "requests", "mailboxes", "why"]
    ],
    %% why names the remedy: with messages in the recording, it is another one.
    {0, Why} = kymo_cli:run(["why", Dir]),
    ?assertMatch({_, _}, binary:match(Why, <<"options; record messages, or calls with returns">>)),
    {0, None} = kymo_cli:run(["why", "--function", "no:such", ?config(recording, Config)]),
    ?assertMatch({_, _}, binary:match(None, <<"options; give fewer options, or record for longer">>)),
    #{<<"total_ns">> := null, <<"self_ns">> := null, <<"p50_ns">> := null, <<"running_ns">> := null, <<"calls">> := 1} =
        row(<<"function">>, <<"kymo_analysis_SUITE:spin/1">>, json(["stats", "--json", "-q", Dir])).
