%% SPDX-License-Identifier: Apache-2.0
%%
%% The florist's client of HTTP pipelines all requests of a host on one connection. A wedding needs 700 ms, and each
%% bunch of tulips behind it as well.
-module(problem_florist_orders_behind_the_wedding).

-export([about/0, start/0, wholesaler/1, buyer/2, answer/2]).

about() ->
    #{
        title => "The florist orders tulips in most of a second, the wholesaler's log shows no time for tulips",
        source =>
            "httpc, pipeline_timeout and max_sessions (https://www.erlang.org/doc/man/httpc.html#set_options-1); Document effects of "
            "enabling HTTP pipelining, head-of-line problem (https://github.com/akka/akka-core/issues/17595)",
        flags => ["+S", "2:2"],
        truth =>
            "All requests are pipelined by httpc on one session (httpc_handler), so those for /tulips wait behind /wedding, which the "
            "wholesaler answers after 700 ms (wedding in answer/2)",
        who => ["httpc", "httpc_handler", "httpc_manager", "problem_florist_orders_behind_the_wedding:(answer/2|wholesaler/1|serve/2)"],
        what => [
            "pipelin", "head.?of.?line", "one (connection|session|socket)", "connections?", "session", "http", "tcp", "socket", "network", "peer",
            "one (request )?at a time", "slee", "700 ms", "serial", "behind"
        ]
    }.

start() ->
    {ok, _} = application:ensure_all_started(inets),
    {ok, L} = gen_tcp:listen(0, [binary, {packet, http_bin}, {active, false}, {backlog, 50}, {ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(L),
    Acceptor = spawn(?MODULE, wholesaler, [L]),
    ok = gen_tcp:controlling_process(L, Acceptor),
    ok = httpc:set_options([{pipeline_timeout, 60000}, {max_pipeline_length, 50}, {max_sessions, 1}]),
    Host = "http://127.0.0.1:" ++ integer_to_list(Port),
    spawn(?MODULE, buyer, [Host ++ "/wedding", 0]),
    timer:sleep(1500),
    lists:foreach(fun(_) -> spawn(?MODULE, buyer, [Host ++ "/tulips", 20]) end, lists:seq(1, 6)).

wholesaler(L) ->
    {ok, S} = gen_tcp:accept(L),
    Pid = spawn(fun() -> receive go -> serve(S, none) end end),
    ok = gen_tcp:controlling_process(S, Pid),
    Pid ! go,
    wholesaler(L).

serve(S, Path) ->
    case gen_tcp:recv(S, 0) of
        {ok, {http_request, _, {abs_path, New}, _}} -> serve(S, New);
        {ok, {http_header, _, _, _, _}} -> serve(S, Path);
        {ok, http_eoh} -> answer(S, Path), serve(S, none);
        {error, _} -> ok
    end.

answer(S, Path) ->
    _ = [timer:sleep(700) || Path =:= <<"/wedding">>],
    _ = gen_tcp:send(S, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
    ok.

buyer(Url, Pause) ->
    _ = httpc:request(get, {Url, []}, [], []),
    timer:sleep(Pause),
    buyer(Url, Pause).
