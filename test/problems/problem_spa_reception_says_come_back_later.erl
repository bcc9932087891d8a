%% SPDX-License-Identifier: Apache-2.0
%%
%% The web server of the spa takes four clients. Four browsers keep their connections open without a request, everybody
%% else is told that the service is not available.
-module(problem_spa_reception_says_come_back_later).

-export([about/0, start/0, lounger/1, visitor/1]).

about() ->
    #{
        title => "Visitors of the spa's web page get error 503 at once, though the server has nothing to do",
        source =>
            "inets httpd, max_clients and keep_alive_timeout (https://www.erlang.org/doc/man/httpd.html); Ranch, Problem when "
            "connection count reaches max_conn (https://github.com/ninenines/ranch/issues/78)",
        flags => ["+S", "2:2"],
        truth =>
            "All 4 places of httpd (max_clients) are held for good by idle keep-alive connections of lounger/1, whose "
            "httpd_request_handler processes wait for a request; each visitor gets 503",
        who => [
            "httpd", "httpd_request_handler", "httpd_(manager|acceptor)", "max_clients",
            "problem_spa_reception_says_come_back_later:(lounger/1|visitor/1)"
        ],
        what => [
            "max_clients", "503", "keep.?alive", "idle connection", "limit", "connections?", "sockets?", "tcp", "(silent|idle|slow) (client|peer)",
            "rejects?", "refus", "unavailable", "handshake", "accept", "peer", "network"
        ]
    }.

start() ->
    {ok, _} = application:ensure_all_started(inets),
    Dir = string:trim(os:cmd("mktemp -d")),
    ok = file:write_file(filename:join(Dir, "index.html"), <<"<p>Welcome to the spa</p>">>),
    {ok, Pid} = inets:start(httpd, [
        {port, 0},
        {bind_address, {127, 0, 0, 1}},
        {server_name, "spa"},
        {server_root, Dir},
        {document_root, Dir},
        {max_clients, 4},
        {keep_alive, true},
        {keep_alive_timeout, 3600},
        {modules, [mod_get, mod_head]}
    ]),
    [{port, Port}] = httpd:info(Pid, [port]),
    lists:foreach(fun(_) -> spawn(?MODULE, lounger, [Port]) end, lists:seq(1, 4)),
    timer:sleep(1000),
    lists:foreach(fun(_) -> spawn(?MODULE, visitor, [Port]) end, lists:seq(1, 6)).

lounger(Port) ->
    {ok, S} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}]),
    ok = gen_tcp:send(S, "GET /index.html HTTP/1.1\r\nHost: spa\r\nConnection: keep-alive\r\n\r\n"),
    {ok, _} = gen_tcp:recv(S, 0, 5000),
    timer:sleep(infinity).

visitor(Port) ->
    case gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}]) of
        {ok, S} ->
            _ = gen_tcp:send(S, "GET /index.html HTTP/1.1\r\nHost: spa\r\nConnection: close\r\n\r\n"),
            _ = gen_tcp:recv(S, 0, 5000),
            gen_tcp:close(S);
        {error, _} ->
            ok
    end,
    timer:sleep(100),
    visitor(Port).
