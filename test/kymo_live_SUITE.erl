%% SPDX-License-Identifier: Apache-2.0
%%
%% kymo live: which requests get an answer, what the reports contain, clients that misbehave,
%% and the page in Chromium while it updates.
-module(kymo_live_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-compile(export_all).
-compile(nowarn_export_all).

all() ->
    [numbers, window, waits_for_news, waits_long, waits_in_vain, token, foreign, methods, listens_locally, bad_requests, slow_clients,
     reads_only, recovers, node_dies, replaced, port_in_use, refusals, no_poll, {group, browser}].

groups() -> [{browser, [], [page_moves, page_pauses, page_ends, page_accessible]}].

init_per_suite(Config) ->
    {module, _} = code:ensure_loaded(kymo),
    Config.

end_per_suite(_) -> ok.

init_per_group(browser, Config) ->
    case kymo_browser:find() of
        false -> {skip, "Chromium is absent, so nothing has shown the page"};
        _ -> Config
    end.

end_per_group(_, _) -> ok.

init_per_testcase(Case, Config) ->
    Dir = filename:join(?config(priv_dir, Config), atom_to_list(Case)),
    ok = file:make_dir(Dir),
    [{dir, Dir}, {rec, filename:join(Dir, "rec")} | Config].

end_per_testcase(_, _) -> ok.

%% ---- the program and the command ----------------------------------------------

counted(X) -> X.
later(X) -> X.

start(Config) -> start(Config, #{}).

start(Config, Options) ->
    {ok, R} = kymo:start(maps:merge(#{dir => ?config(rec, Config), memory => 16 bsl 20}, Options)),
    {ok, _} = kymo:trace(R, #{processes => [self()], returns => true, events => [running, messages],
                              functions => ["kymo_live_SUITE:counted/1", "kymo_live_SUITE:later/1"]}),
    R.

work(N) -> _ = [?MODULE:counted(I) || I <- lists:seq(1, N)], ok.

%% Starts the server. Returns {Port, "http://127.0.0.1:P/TOKEN/", P, Token}.
live(Args) ->
    Port = open_port({spawn_executable, kymo:cli_path()}, [
        {args, ["live" | Args]}, {line, 4096}, exit_status, stderr_to_stdout, binary, hide
    ]),
    receive
        {Port, {data, {eol, Line}}} ->
            {match, [Number, Token]} = re:run(Line, "^http://127\\.0\\.0\\.1:([0-9]+)/([0-9a-f]{32})/$", [{capture, [1, 2], list}]),
            {Port, binary_to_list(Line), list_to_integer(Number), Token}
    after 60000 -> error(no_address)
    end.

os_pid(Port) ->
    {os_pid, Pid} = erlang:port_info(Port, os_pid),
    integer_to_list(Pid).

stop(Port) ->
    "" = os:cmd("kill -TERM " ++ os_pid(Port)),
    receive {Port, {exit_status, Status}} -> ?assertEqual(0, Status) after 60000 -> error(does_not_end) end.

%% ---- a client ------------------------------------------------------------------

connect(Number) -> {ok, S} = gen_tcp:connect({127, 0, 0, 1}, Number, [binary, {active, false}]), S.

read(S) -> read(S, <<>>).

read(S, Acc) ->
    case gen_tcp:recv(S, 0, 60000) of
        {ok, Data} -> read(S, <<Acc/binary, Data/binary>>);
        {error, closed} -> Acc
    end.

%% Sends bytes and reads the whole response.
exchange(Number, Bytes) ->
    S = connect(Number),
    ok = gen_tcp:send(S, Bytes),
    Answer = read(S),
    ok = gen_tcp:close(S),
    Answer.

host(Number) -> ["127.0.0.1:", integer_to_list(Number)].

get(Number, Path) -> get(Number, Path, host(Number), "").

get(Number, Path, Host, More) ->
    split(exchange(Number, ["GET ", Path, " HTTP/1.1\r\nHost: ", Host, "\r\n", More, "\r\n"])).

split(Answer) ->
    [Head, Body] = binary:split(Answer, <<"\r\n\r\n">>),
    <<"HTTP/1.1 ", Status:3/binary, _/binary>> = Head,
    {match, [Length]} = re:run(Head, "Content-Length: ([0-9]+)", [{capture, [1], list}]),
    {binary_to_integer(Status), Head, Body, list_to_integer(Length)}.

status(Answer) -> element(1, Answer).

%% The newest report after number N, requested as the page does it.
report({_, _, Number, Token}, N) ->
    {200, Head, Body, Length} = get(Number, ["/", Token, "/data?", integer_to_list(N)]),
    ?assertEqual(Length, byte_size(Body)),
    {match, [Next]} = re:run(Head, "Kymo-Report: ([0-9]+)", [{capture, [1], list}]),
    {list_to_integer(Next), kymo_cli:json(unicode:characters_to_list(Body))}.

%% The first report for which Fun returns true.
until_report(Live, Fun) -> until_report(Live, 0, Fun).

until_report(Live, N, Fun) ->
    {Next, Report} = report(Live, N),
    case Fun(Report) of
        true -> Report;
        false -> until_report(Live, Next, Fun)
    end.

is_over(#{<<"live">> := #{<<"over">> := Over}}) -> Over.

calls(Name, #{<<"functions">> := #{<<"rows">> := Rows}}) ->
    lists:sum([N || #{<<"function">> := F, <<"calls">> := N} <- Rows, F =:= <<"kymo_live_SUITE:", Name/binary>>]).

%% ---- reports ---------------------------------------------------------------------

%% All calls of the program; in the end the numbers are exact.
numbers(Config) ->
    R = start(Config),
    Live = live(["--last", "1h", ?config(rec, Config)]),
    work(1000),
    Report = until_report(Live, fun(Rep) -> calls(<<"counted/1">>, Rep) =:= 1000 end),
    ?assertMatch(#{<<"live">> := #{<<"over">> := false, <<"window_ns">> := 3600000000000}}, Report),
    work(234),
    {ok, _} = kymo:stop(R),
    Last = until_report(Live, fun is_over/1),
    ?assertEqual(1234, calls(<<"counted/1">>, Last)),
    ?assertMatch(#{<<"live">> := #{<<"why">> := <<"the recorder has stopped (stop)">>}}, Last),
    {0, Stats} = kymo_cli:run(["stats", "-q", "--json", ?config(rec, Config)]),
    ?assertEqual(1234, calls(<<"counted/1">>, #{<<"functions">> => kymo_cli:json(binary_to_list(Stats))})),
    stop(element(1, Live)).

%% Events that are older than the window are not in it.
window(Config) ->
    R = start(Config),
    Live = live(["--last", "500ms", "-d", "500ms", ?config(rec, Config)]),
    work(1000),
    _ = until_report(Live, fun(Rep) -> calls(<<"counted/1">>, Rep) =:= 0 end),
    ?MODULE:later(1),
    _ = until_report(Live, fun(Rep) -> calls(<<"later/1">>, Rep) =:= 1 end),
    Gone = until_report(Live, fun(Rep) -> calls(<<"later/1">>, Rep) =:= 0 end),
    ?assertEqual(0, calls(<<"counted/1">>, Gone)),
    {ok, _} = kymo:stop(R),
    stop(element(1, Live)).

%% Each report is newer than the one before. A client that does not have the latest one gets it
%% at once.
waits_for_news(Config) ->
    R = start(Config),
    Live = live([?config(rec, Config)]),
    {First, _} = report(Live, 0),
    {Second, _} = report(Live, First),
    ?assert(Second > First),
    {ok, _} = kymo:stop(R),
    _ = until_report(Live, fun is_over/1),
    {_, Over} = report(Live, 1000000),
    ?assert(is_over(Over)),
    stop(element(1, Live)).

%% A client that waits longer than the time after which an unwatched server stops making reports
%% still gets reports.
waits_long(Config) ->
    R = start(Config),
    Live = live(["-d", "12s", ?config(rec, Config)]),
    {First, _} = report(Live, 0),
    {Second, _} = report(Live, First),
    ?assert(Second > First),
    {ok, _} = kymo:stop(R),
    stop(element(1, Live)).

%% An answer without a report is not an error: the page asks again at once.
waits_in_vain(Config) ->
    R = start(Config),
    {Port, _, Number, Token} = Live = live(["-d", "1h", ?config(rec, Config)]),
    {First, _} = report(Live, 0),
    ?assertMatch({200, _, <<"null">>, 4}, get(Number, ["/", Token, "/data?", integer_to_list(First)])),
    {ok, _} = kymo:stop(R),
    stop(Port).

%% ---- requests that are refused -----------------------------------------------------

token(Config) ->
    R = start(Config),
    {Port, _, Number, Token} = Live = live([?config(rec, Config)]),
    {200, Head, Page, _} = get(Number, ["/", Token, "/"]),
    ?assertMatch({match, _}, re:run(Page, "connect-src 'self'")),
    [?assertMatch({_, _}, binary:match(Head, H)) || H <- [<<"Cache-Control: no-store">>, <<"X-Frame-Options: DENY">>,
                                                         <<"Referrer-Policy: no-referrer">>, <<"Cross-Origin-Resource-Policy: same-origin">>]],
    ?assertEqual(nomatch, binary:match(Head, <<"Access-Control">>)),
    _ = report(Live, 0),
    [First | Others] = Token,
    Wrong = [case First of $0 -> $1; _ -> $0 end | Others],
    Refused = [get(Number, Path) || Path <- [
        "/", "/data", ["/", Wrong, "/"], ["/", Wrong, "/data"], ["/", Token], ["/", lists:droplast(Token), "/data"],
        ["/", Token, "0/data"], ["//", Token, "/data"], ["/", string:uppercase(Token), "x/data"], ["/", Token, "/data/"],
        ["/", Token, "/../", Token, "/data"], ["/", Token, "/data?x"], ["/", Token, "/data?1&2"], ["/", Token, "/meta"],
        ["/", Token, "/%64ata"], "/favicon.ico"]],
    ?assertEqual([{404, "Nothing is here"}], lists:usort([{S, binary_to_list(binary:part(B, 0, 15))} || {S, _, B, _} <- Refused])),
    %% Another server's token is not accepted.
    {Other, _, _, OtherToken} = live([?config(rec, Config)]),
    ?assertNotEqual(Token, OtherToken),
    stop(Other),
    {ok, _} = kymo:stop(R),
    stop(Port).

%% A host name that resolves to this machine, as in DNS rebinding, and pages of other origins.
foreign(Config) ->
    R = start(Config),
    {Port, _, Number, Token} = live([?config(rec, Config)]),
    P = integer_to_list(Number),
    Path = ["/", Token, "/data"],
    [?assertEqual(403, status(get(Number, Path, Host, More)))
     || {Host, More} <- [{"evil.example", ""}, {["evil.example:", P], ""}, {"127.0.0.1", ""}, {["127.0.0.1.evil.example:", P], ""},
                         {["127.0.0.1:", P, "0"], ""}, {"", ""}, {["0.0.0.0:", P], ""}, {["[::1]:", P], ""},
                         {host(Number), "Origin: http://evil.example\r\n"}, {host(Number), "Origin: null\r\n"},
                         {host(Number), ["Origin: https://127.0.0.1:", P, "\r\n"]}]],
    [?assertEqual(200, status(get(Number, Path, Host, More)))
     || {Host, More} <- [{host(Number), ""}, {["localhost:", P], ""}, {host(Number), ["Origin: http://127.0.0.1:", P, "\r\n"]}]],
    {ok, _} = kymo:stop(R),
    stop(Port).

methods(Config) ->
    R = start(Config),
    {Port, _, Number, Token} = live([?config(rec, Config)]),
    Ask = fun(Method) ->
        exchange(Number, [Method, " /", Token, "/ HTTP/1.1\r\nHost: ", host(Number), "\r\n\r\n"])
    end,
    [?assertMatch(<<"HTTP/1.1 405", _/binary>>, Ask(M)) || M <- ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT"]],
    {200, _, <<>>, Length} = split(Ask("HEAD")),
    {200, _, Page, Length} = split(Ask("GET")),
    ?assertEqual(Length, byte_size(Page)),
    {ok, _} = kymo:stop(R),
    stop(Port).

%% The kernel's table of listening sockets, and the machine's other addresses.
listens_locally(Config) ->
    R = start(Config),
    {Port, _, Number, _} = live([?config(rec, Config)]),
    Hex = io_lib:format("~4.16.0B", [Number]),
    Listening = fun(File) ->
        {ok, Text} = file:read_file(File),
        case re:run(Text, ["^ *[0-9]+: ([0-9A-F]+):", Hex, " [0-9A-F]+:0000 0A"], [global, multiline, {capture, [1], list}]) of
            {match, Found} -> lists:append(Found);
            nomatch -> []
        end
    end,
    ?assertEqual(["0100007F"], Listening("/proc/net/tcp")),
    ?assertEqual([], Listening("/proc/net/tcp6")),
    {ok, Interfaces} = inet:getifaddrs(),
    [?assertMatch({error, _}, gen_tcp:connect(A, Number, [], 5000))
     || {_, Options} <- Interfaces, {addr, A} <- Options, tuple_size(A) =:= 4, A =/= {127, 0, 0, 1}],
    {ok, _} = kymo:stop(R),
    stop(Port).

%% ---- clients that misbehave --------------------------------------------------------

bad_requests(Config) ->
    R = start(Config),
    {Port, _, Number, _} = Live = live([?config(rec, Config)]),
    Big = binary:copy(<<"a">>, 9000),
    [?assertMatch({Status, _, _, _}, split(exchange(Number, Bytes)))
     || {Bytes, Status} <- [{"nonsense\r\n\r\n", 400}, {"GET / HTTP/1.1\r\n\r\n", 400}, {<<0, 1, 2, 10>>, 400},
                            {"GET / HTTP/9.9\r\n\r\n", 505}, {["GET /", Big, " HTTP/1.1\r\n"], 431},
                            {["GET / HTTP/1.1\r\nHost: x\r\nX: ", Big, "\r\n\r\n"], 431},
                            {["GET / HTTP/1.1\r\n", [["X: ", integer_to_list(I), "\r\n"] || I <- lists:seq(1, 5000)], "\r\n"], 431}]],
    %% A client that sends nothing and disconnects.
    ok = gen_tcp:close(connect(Number)),
    %% A client that disconnects before its answer.
    S = connect(Number),
    ok = gen_tcp:send(S, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
    ok = inet:setopts(S, [{linger, {true, 0}}]),
    ok = gen_tcp:close(S),
    _ = report(Live, 0),
    {ok, _} = kymo:stop(R),
    stop(Port).

%% Many clients that send nothing, send byte by byte, or never read: other clients get their
%% answers, and the number of connections never exceeds the limit.
slow_clients(Config) ->
    R = start(Config),
    {Port, _, Number, Token} = Live = live([?config(rec, Config)]),
    Silent = [connect(Number) || _ <- lists:seq(1, 100)],
    _ = report(Live, 0),
    Slow = [begin S = connect(Number), ok = gen_tcp:send(S, "GET /"), S end || _ <- lists:seq(1, 100)],
    _ = report(Live, 0),
    Deaf = [begin
                {ok, S} = gen_tcp:connect({127, 0, 0, 1}, Number, [binary, {active, false}, {recbuf, 2048}]),
                ok = gen_tcp:send(S, ["GET /", Token, "/ HTTP/1.1\r\nHost: ", host(Number), "\r\n\r\n"]),
                S
            end || _ <- lists:seq(1, 100)],
    {_, _} = report(Live, 0),
    Descriptors = length(filelib:wildcard("/proc/" ++ os_pid(Port) ++ "/fd/*")),
    ?assert(Descriptors < 32 + 16),
    %% The server closes the connection of a silent client.
    {error, closed} = gen_tcp:recv(hd(Silent), 0, 60000),
    [gen_tcp:close(S) || S <- Silent ++ Slow ++ Deaf],
    {ok, _} = kymo:stop(R),
    stop(Port).

%% ---- the recording -------------------------------------------------------------------

%% The command opens no file of the recording for writing, and changes and adds none.
reads_only(Config) ->
    R = start(Config),
    work(1000),
    {ok, _} = kymo:stop(R),
    Rec = ?config(rec, Config),
    State = fun() ->
        [{File, file:read_file(File), element(6, element(2, file:read_file_info(File)))} || File <- filelib:wildcard(Rec ++ "/*")]
    end,
    Before = State(),
    {Port, _, _, _} = Live = live([Rec]),
    _ = until_report(Live, fun is_over/1),
    ?assertEqual(Before, State()),
    stop(Port),
    R2 = start([{rec, Rec ++ "2"} | Config]),
    {Port2, _, _, _} = Live2 = live([Rec ++ "2"]),
    {N, _} = report(Live2, 0),
    {_, _} = report(Live2, N),
    Proc = "/proc/" ++ os_pid(Port2),
    Maps = os:cmd("grep -c '" ++ Rec ++ "' " ++ Proc ++ "/maps"),
    ?assertEqual("0", string:trim(Maps)),
    [begin
         {ok, Info} = file:read_file(Proc ++ "/fdinfo/" ++ filename:basename(Fd)),
         {match, _} = re:run(Info, "flags:\\s+[0-7]*0\n")
     end || Fd <- filelib:wildcard(Proc ++ "/fd/*"), {ok, To} <- [file:read_link(Fd)], lists:prefix(Rec, To)],
    {ok, _} = kymo:stop(R2),
    stop(Port2).

%% ---- lifecycle --------------------------------------------------------------------------

%% The command temporarily cannot open files: it reports this, waits without spinning, and then
%% continues.
recovers(Config) ->
    case os:find_executable("prlimit") of
        false -> {skip, "prlimit is not installed"};
        _ -> recovers_from(Config)
    end.

recovers_from(Config) ->
    R = start(Config),
    {Port, _, _, _} = Live = live(["-d", "500ms", ?config(rec, Config)]),
    ?assert(lists:any(fun(_) -> fails_for_a_while(Live) end, lists:seq(1, 5))),
    #{<<"live">> := #{<<"why">> := <<>>}} = until_report(Live, fun(Report) -> is_map_key(<<"recording">>, Report) end),
    {ok, _} = kymo:stop(R),
    #{<<"live">> := #{<<"why">> := <<"the recorder has stopped (stop)">>}} = until_report(Live, fun is_over/1),
    stop(Port).

%% Whether making a report failed while no file could be opened. On a very slow machine, the
%% report that was waited for may have been made before.
fails_for_a_while({Port, _, Number, Token} = Live) ->
    Pid = os_pid(Port),
    {Last, _} = report(Live, 0),
    %% The listening socket, and the one that is being accepted.
    true = kymo_cli:until(fun() -> sockets(Pid) =:= 1 end),
    Waiting = connect(Number),
    true = kymo_cli:until(fun() -> sockets(Pid) =:= 2 end),
    Most = string:trim(os:cmd("prlimit --pid " ++ Pid ++ " --nofile -o SOFT --noheadings")),
    limit(Pid, integer_to_list(free_descriptor(Pid, 0))),
    Ticks = ticks(Pid),
    ok = gen_tcp:send(Waiting, ["GET /", Token, "/data?", integer_to_list(Last + 3), " HTTP/1.1\r\nHost: ", host(Number), "\r\n\r\n"]),
    Newcomer = connect(Number),
    {200, _, Body, _} = split(read(Waiting)),
    #{<<"live">> := #{<<"why">> := Why, <<"over">> := false}} = kymo_cli:json(unicode:characters_to_list(Body)),
    Spent = ticks(Pid) - Ticks,
    limit(Pid, Most),
    ok = gen_tcp:send(Newcomer, ["GET /", Token, "/ HTTP/1.1\r\nHost: ", host(Number), "\r\n\r\n"]),
    {200, _, _, _} = split(read(Newcomer)),
    %% Out of about 150 ticks: it has waited instead of retrying accept all the time.
    ?assert(Spent < 50, {ticks, Spent}),
    string:find(Why, "Too many open files") =/= nomatch.

sockets(Pid) ->
    {ok, Names} = file:list_dir("/proc/" ++ Pid ++ "/fd"),
    length([N || N <- Names, {ok, "socket:" ++ _} <- [file:read_link("/proc/" ++ Pid ++ "/fd/" ++ N)]]).

%% The first descriptor after those that stay open.
free_descriptor(Pid, N) ->
    case file:read_link("/proc/" ++ Pid ++ "/fd/" ++ integer_to_list(N)) of
        %% A file of the recording that is being read.
        {ok, "/" ++ _} when N > 2 -> N;
        {ok, _} -> free_descriptor(Pid, N + 1);
        {error, _} -> N
    end.

limit(Pid, Most) -> "" = os:cmd("prlimit --pid " ++ Pid ++ " --nofile=" ++ Most ++ ":").

%% Processor time that a process has used, in hundredths of a second.
ticks(Pid) ->
    {ok, Stat} = file:read_file("/proc/" ++ Pid ++ "/stat"),
    [_, After] = string:split(Stat, ") "),
    Fields = string:lexemes(After, " "),
    binary_to_integer(lists:nth(12, Fields)) + binary_to_integer(lists:nth(13, Fields)).

node_dies(Config) ->
    Rec = ?config(rec, Config),
    Start = lists:flatten(io_lib:format(
        "{ok, R} = kymo:start(#{dir => ~p, memory => 8 bsl 20}), "
        "{ok, _} = kymo:trace(R, #{processes => [self()], functions => \"lists:reverse/1\"}), "
        "io:put_chars(\"ready\\n\"), F = fun(F) -> lists:reverse([1]), receive after 1 -> F(F) end end, F(F).", [Rec])),
    Node = open_port({spawn_executable, os:find_executable("erl")}, [
        {args, ["-noshell", "-noinput", "-pa", filename:dirname(code:which(kymo)), "-eval", Start]},
        {line, 1000}, binary, exit_status, hide, {cd, ?config(dir, Config)}
    ]),
    receive {Node, {data, {eol, <<"ready">>}}} -> ok after 60000 -> error(no_node) end,
    {Port, _, _, _} = Live = live(["--last", "1h", Rec]),
    _ = until_report(Live, fun(#{<<"events">> := N}) -> N > 0 end),
    "" = os:cmd("kill -KILL " ++ os_pid(Node)),
    Last = until_report(Live, fun is_over/1),
    ?assertMatch(#{<<"live">> := #{<<"why">> := <<"the node died">>}}, Last),
    ?assert(maps:get(<<"events">>, Last) > 0),
    stop(Port).

replaced(Config) ->
    Rec = ?config(rec, Config),
    R = start(Config),
    {Port, _, _, _} = Live = live([Rec]),
    {First, _} = report(Live, 0),
    {ok, Other} = kymo:start(#{dir => Rec ++ ".other", memory => 8 bsl 20}),
    ok = file:rename(Rec, Rec ++ ".moved"),
    ok = file:rename(Rec ++ ".other", Rec),
    #{<<"live">> := #{<<"why">> := Why}} = until_report(Live, First, fun is_over/1),
    ?assertMatch({match, _}, re:run(Why, "another recording|No such file")),
    [{ok, _} = kymo:stop(X) || X <- [R, Other]],
    stop(Port).

port_in_use(Config) ->
    R = start(Config),
    {ok, S} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}]),
    {ok, Number} = inet:port(S),
    {4, Out} = kymo_cli:run(["live", "--port", integer_to_list(Number), ?config(rec, Config)]),
    ?assertMatch({match, _}, re:run(Out, "port [0-9]+ of 127.0.0.1: Address already in use")),
    ok = gen_tcp:close(S),
    {Port, _, Number, _} = live(["--port", integer_to_list(Number), ?config(rec, Config)]),
    {ok, _} = kymo:stop(R),
    stop(Port).

refusals(Config) ->
    {2, _} = kymo_cli:run(["live"]),
    {3, _} = kymo_cli:run(["live", ?config(dir, Config) ++ "/none"]),
    [?assertMatch({2, _}, kymo_cli:run(["live" | Args] ++ [?config(dir, Config)]))
     || Args <- [["-d", "1ms"], ["--last", "0"], ["--port", "65536"], ["--port", "x"], ["--bad"]]].

%% Under a filter of system calls it ends with an error, instead of trying again and again.
no_poll(Config) ->
    R = start(Config),
    {ok, _} = kymo:stop(R),
    Deny = filename:join(filename:dirname(code:which(?MODULE)), "tool_deny"),
    case filelib:is_regular(Deny) of
        false ->
            {skip, "scripts/run-ct builds tool_deny"};
        true ->
            {Status, Text} = kymo_cli:command(Deny, ["poll", "38", kymo:cli_path(), "live", ?config(rec, Config)], 30000),
            ?assertEqual(4, Status),
            kymo_cli:contains(Text, ["the system call poll is refused", "seccomp"])
    end.

%% ---- the page ---------------------------------------------------------------------------

with_page(Config, Args, Fun) ->
    R = start(Config),
    {Port, Url, _, _} = live(Args ++ [?config(rec, Config)]),
    B = kymo_browser:open(kymo_browser:find(), filename:join(?config(dir, Config), "profile")),
    try
        ok = kymo_browser:size(B, 1280, 800),
        ok = kymo_browser:visit(B, Url),
        Fun(B, R, Url)
    after
        kymo_browser:close(B),
        kymo:stop(R),
        stop(Port)
    end.

%% Waits in the page until the expression is true.
until_true(B, Expression) ->
    case kymo_browser:ask(B, ["new Promise((done) => { let n = 0; const look = () => { if (", Expression,
                              ") done(true); else if (++n > 1200) done(document.body.innerText.replace(/\\s+/g, ' ').slice(0, 2000)); "
                              "else setTimeout(look, 50); }; look(); })"]) of
        true -> ok;
        Text -> error({never_true, iolist_to_binary(Expression), Text, kymo_browser:trouble(B, "http:")})
    end.

shows(Selector, Text) ->
    ["(document.querySelector('", Selector, "')?.textContent || '').includes('", Text, "')"].

page_moves(Config) ->
    with_page(Config, [], fun(B, _, Url) ->
        work(100),
        until_true(B, shows("#functions", "kymo_live_SUITE:counted/1")),
        ?assertEqual(false, kymo_browser:ask(B, shows("#functions", "kymo_live_SUITE:later/1"))),
        ok = kymo_browser:picture(B, filename:join(?config(dir, Config), "first.png")),
        [?MODULE:later(I) || I <- lists:seq(1, 7)],
        until_true(B, shows("#functions", "kymo_live_SUITE:later/1")),
        until_true(B, shows(".live", "Live")),
        until_true(B, shows(".live .when", "the last 10.0")),
        ?assertEqual([], kymo_browser:trouble(B, Url)),
        ok = kymo_browser:theme(B, dark),
        ok = kymo_browser:run(B, "document.getElementById('functions').scrollIntoView()"),
        ok = kymo_browser:picture(B, filename:join(?config(dir, Config), "moved.png"))
    end).

%% Paused by its button, or while an element in it has the focus.
page_pauses(Config) ->
    with_page(Config, [], fun(B, _, Url) ->
        work(1),
        until_true(B, shows("#functions", "kymo_live_SUITE:counted/1")),
        ok = kymo_browser:run(B, "document.querySelector('.live button').click()"),
        until_true(B, shows(".live", "Paused")),
        %% A report has arrived since then and is not shown.
        Come = "new Promise((done) => { const n = performance.getEntriesByType('resource').length; const look = () => { "
               "if (performance.getEntriesByType('resource').length > n + 1) done(true); else setTimeout(look, 50); }; look(); })",
        ?MODULE:later(1),
        true = kymo_browser:ask(B, Come),
        ?assertEqual(false, kymo_browser:ask(B, shows("#functions", "kymo_live_SUITE:later/1"))),
        ok = kymo_browser:run(B, "document.querySelector('.live button').click()"),
        until_true(B, shows("#functions", "kymo_live_SUITE:later/1")),
        ok = kymo_browser:run(B, "document.querySelector('#functions button').focus()"),
        until_true(B, shows(".live", "Held while you use the page")),
        ok = kymo_browser:run(B, "window.kept = document.querySelector('#functions button')"),
        true = kymo_browser:ask(B, Come),
        ?assertEqual(true, kymo_browser:ask(B, "window.kept.isConnected")),
        ok = kymo_browser:key(B, "Escape"),
        until_true(B, "!window.kept.isConnected"),
        until_true(B, shows(".live [role=status]", "Live")),
        ?assertEqual([], kymo_browser:trouble(B, Url))
    end).

page_ends(Config) ->
    with_page(Config, [], fun(B, R, Url) ->
        work(1),
        until_true(B, shows("#functions", "kymo_live_SUITE:counted/1")),
        {ok, _} = kymo:stop(R),
        until_true(B, shows(".live", "The end: the recorder has stopped (stop)")),
        ?assertEqual(0, kymo_browser:ask(B, "document.querySelectorAll('.live button').length")),
        ?assertEqual([], kymo_browser:trouble(B, Url)),
        ok = kymo_browser:picture(B, filename:join(?config(dir, Config), "end.png"))
    end).

page_accessible(Config) ->
    Get = filename:join([filename:dirname(string:trim(?config(data_dir, Config), trailing, "/")), "kymo_report_SUITE_data", "axe_get.sh"]),
    case kymo_cli:command("/bin/bash", [Get], 600000) of
        {0, File} ->
            {ok, Axe} = file:read_file(string:trim(File)),
            with_page(Config, [], fun(B, _, _) ->
                work(10),
                until_true(B, shows("#functions", "kymo_live_SUITE:counted/1")),
                ok = kymo_browser:run(B, "document.querySelector('.live button').click()"),
                %% Run through the debugger, to which the page's content security policy does
                %% not apply.
                ok = kymo_browser:run(B, Axe),
                Found = kymo_browser:ask(B, "axe.run().then((r) => ({ passes: r.passes.length, violations: r.violations.map((v) => "
                                            "[v.id, v.help, ...v.nodes.slice(0, 3).map((n) => n.target.join(' ') + ' ' + n.failureSummary)]) }))"),
                ?assertMatch(#{<<"violations">> := []}, Found),
                ?assert(maps:get(<<"passes">>, Found) > 20)
            end);
        {_, Why} ->
            {skip, "axe-core is absent, so it has not checked the page: " ++ unicode:characters_to_list(Why)}
    end.
