%% SPDX-License-Identifier: Apache-2.0
%%
%% The cost of a recorder that is always on, for three programs: see bench/always_run. Each
%% round measures all recorders in turn, each next to a measurement without one.
-module(always_bench).

-export([main/0]).
%% Called in the node under load.
-export([web_server/1, compile_for/2]).

-define(CLIENTS, 2).

%% From the minimum that is worth leaving on to the maximum.
recorders() ->
    Quiet = #{counters => 100, system_monitor => default},
    [
        {"counters", Quiet, none},
        {"procs", Quiet, [procs]},
        {"procs, gc", Quiet, [procs, garbage_collection]},
        {"all", Quiet, [messages, running, procs, garbage_collection]}
    ].

main() ->
    [Dir, Load, Rounds, Seconds] = [argument(Name) || Name <- [out, load, rounds, seconds]],
    Measure = fun(Subject, Once) -> measure(Subject, Once, Dir, list_to_integer(Rounds), list_to_float(Seconds)) end,
    case Load of
        "rabbitmq" -> rabbitmq(Dir, Measure);
        "web" -> web(Dir, Measure);
        "compile" -> compile(Dir, Measure)
    end,
    halt().

argument(Name) ->
    {ok, [[Value]]} = init:get_argument(Name),
    Value.

%% ---- rounds -----------------------------------------------------------------------

measure(Subject, Once, Dir, Rounds, Seconds) ->
    _ = Once(Seconds),
    Results = [[one(Subject, Once, Dir, Seconds, R) || R <- in_turn(recorders(), N)] || N <- lists:seq(1, Rounds)],
    io:format("  ~-12s ~27s ~27s ~10s~n", ["", "operations/s, with/without", "operations/CPU s, the same", "events/s"]),
    io:format("  ~-12s ~8s ~9s ~8s ~8s ~9s ~8s~n", ["recorder", "lower", "median", "upper", "lower", "median", "upper"]),
    lists:foreach(fun({Name, _, _}) -> row(Name, [R || Round <- Results, {N, R} <- Round, N =:= Name]) end, recorders()).

%% Rotates the list, so that each recorder is first in some rounds.
in_turn(List, N) ->
    {A, B} = lists:split(N rem length(List), List),
    B ++ A.

%% Lower and upper are quartiles.
row(Name, Ratios) ->
    [Ops, Cpu, Events] = [lists:sort(L) || L <- [[element(I, R) || R <- Ratios] || I <- [1, 2, 3]]],
    Of = fun(L, Q) -> lists:nth(max(1, round(length(L) * Q)), L) end,
    io:format("  ~-12s ~8.4f ~9.4f ~8.4f ~8.4f ~9.4f ~8.4f ~12b~n",
              [Name | [Of(L, Q) || L <- [Ops, Cpu], Q <- [0.25, 0.5, 0.75]]] ++ [Of(Events, 0.5)]).

%% Without a recorder and with it, in alternating order.
one(Subject, Once, Dir, Seconds, {Name, Options, Events}) ->
    Without = fun() -> {operations(Subject, Once, Seconds), 0} end,
    With = fun() -> recorded(Subject, Dir, Options, Events, fun() -> operations(Subject, Once, Seconds) end) end,
    {{{Ops0, Cpu0}, _}, {{Ops1, Cpu1}, Recorded}} =
        case rand:uniform(2) of
            1 -> First = Without(), {First, With()};
            2 -> Second = With(), {Without(), Second}
        end,
    {Name, {Ops1 / Ops0, (Ops1 / Cpu1) / (Ops0 / Cpu0), round(Recorded / Seconds)}}.

%% The number of operations, and the processor time that the node has used for them.
operations(Subject, Once, Seconds) ->
    Before = cpu(Subject),
    Ops = Once(Seconds),
    {Ops, cpu(Subject) - Before}.

cpu(Subject) -> element(1, kymo_subject:call(Subject, erlang, statistics, [runtime])).

recorded(Subject, Dir, Options, Events, Fun) ->
    Folder = filename:join(Dir, "rec"),
    {ok, R} = kymo_subject:call(Subject, kymo, start, [Options#{dir => Folder, owner => none}]),
    _ = Events =:= none orelse ({ok, _} = kymo_subject:call(Subject, kymo, trace, [R, #{events => Events}])),
    Result = Fun(),
    {ok, #{events := Recorded}} = kymo_subject:call(Subject, kymo, stop, [R]),
    ok = kymo_folder:remove_recording(Folder),
    {Result, Recorded}.

%% ---- loads ------------------------------------------------------------------------

rabbitmq(Dir, Measure) ->
    case kymo_rabbitmq:missing() of
        [] ->
            kymo_rabbitmq:with(Dir, fun(Subject, Amqp) ->
                with_clients(Amqp, fun(Once) -> Measure(Subject, Once) end)
            end);
        Missing ->
            skip(Missing)
    end.

%% The clients keep their connections, so that only the recorder differs between rounds.
with_clients(Amqp, Measure) ->
    Clients = amqp_clients:start(filename:join(argument(scripts), "budget/load.py"), Amqp),
    Measure(fun(Seconds) ->
        ok = amqp_clients:load(Clients, Seconds),
        amqp_clients:counts(Clients)
    end),
    amqp_clients:stop(Clients).

%% The web server of inets, serving a file of one kilobyte.
web(Dir, Measure) ->
    case os:find_executable("wrk") of
        false ->
            skip(["wrk"]);
        Wrk ->
            with_node(Dir, fun(Subject) ->
                Number = kymo_subject:call(Subject, ?MODULE, web_server, [Dir]),
                Url = lists:concat(["http://127.0.0.1:", Number, "/page.html"]),
                Measure(Subject, fun(Seconds) -> requests(Wrk, Url, Seconds) end)
            end)
    end.

requests(Wrk, Url, Seconds) ->
    {0, Text} = kymo_cli:command(Wrk, ["-t1", "-c16", lists:concat(["-d", ceil(Seconds), "s"]), Url]),
    {match, [N]} = re:run(Text, "([0-9]+) requests in", [{capture, [1], list}]),
    list_to_integer(N).

web_server(Dir) ->
    ok = file:write_file(filename:join(Dir, "page.html"), binary:copy(<<"x">>, 1024)),
    {ok, _} = application:ensure_all_started(inets),
    {ok, Pid} = inets:start(httpd, [{port, 0}, {bind_address, {127, 0, 0, 1}}, {server_name, "bench"},
                                    {socket_type, {ip_comm, [{nodelay, true}]}}, {server_root, Dir}, {document_root, Dir}, {keep_alive, true},
                                    {max_keep_alive_request, 1000000}]),
    [{port, Number}] = httpd:info(Pid, [port]),
    Number.

compile(Dir, Measure) ->
    with_node(Dir, fun(Subject) ->
        Sources = filelib:wildcard(filename:join(argument(sources), "kymo*.erl")),
        Measure(Subject, fun(Seconds) -> kymo_subject:call(Subject, ?MODULE, compile_for, [Sources, round(Seconds * 1000)]) end)
    end).

%% Two processes compile the modules of kymo repeatedly.
compile_for(Sources, Milliseconds) ->
    End = erlang:monotonic_time(millisecond) + Milliseconds,
    Pids = [spawn_monitor(fun() -> exit({done, compile_until(Sources, Sources, End, 0)}) end) || _ <- lists:seq(1, ?CLIENTS)],
    lists:sum([receive {'DOWN', Ref, process, Pid, {done, N}} -> N end || {Pid, Ref} <- Pids]).

%% Counts bytes of source, so that it matters little where it stops.
compile_until([], All, End, N) ->
    compile_until(All, All, End, N);
compile_until([Source | Rest], All, End, N) ->
    case erlang:monotonic_time(millisecond) < End of
        true ->
            _ = compile:file(Source, [binary]),
            compile_until(Rest, All, End, N + filelib:file_size(Source));
        false ->
            N
    end.

with_node(Dir, Fun) ->
    Erl = os:find_executable("erl"),
    Args = ["-noshell", "-noinput", "-pa", filename:dirname(code:which(?MODULE)) | string:lexemes(kymo_subject:erl_args(), " ")],
    Subject = kymo_subject:start(Erl, Args, [], filename:join(Dir, "node.log")),
    try
        Fun(Subject)
    after
        kymo_subject:stop(Subject)
    end.

skip(Missing) ->
    io:format("  SKIPPED, not measured: there is no ~ts (scripts/bootstrap bench installs what is missing)~n",
              [lists:join(", ", Missing)]).
