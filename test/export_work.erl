%% SPDX-License-Identifier: Apache-2.0
%%
%% The workload that the suite of the exporters records: the same calls, messages and processes
%% every time. kymo_export_SUITE has their exact numbers; change both together.
-module(export_work).

-compile([export_all, nowarn_export_all]).

%% All parts that are the same in each run.
scenario() ->
    6 = sum(mapped([1, 2, 3])),
    12 = tail(10),
    done = loop(50),
    120 = fact(5),
    caught = catcher(),
    Server = spawn_link(?MODULE, server, [0]),
    true = register(export_work_server, Server),
    [ask(Server, N) || N <- lists:seq(1, 10)],
    [ask(export_work_server, N) || N <- lists:seq(1, 10)],
    Monitor = monitor(process, Server),
    Server ! stop,
    receive
        {'DOWN', Monitor, process, Server, Reason} -> Reason
    end.

%% A function that is not traced calls one that is.
mapped(L) -> lists:map(fun(X) -> id(X) end, L).
id(X) -> X.
sum(L) -> lists:sum(L).

%% A chain of tail calls.
tail(X) -> tail1(X + 1).
tail1(X) -> tail2(X + 1).
tail2(X) -> X.

loop(0) -> done;
loop(N) -> loop(N - 1).

fact(0) -> 1;
fact(N) -> N * fact(N - 1).

catcher() ->
    try
        thrower()
    catch
        throw:ball -> caught
    end.
thrower() -> throw(ball).

ask(To, N) ->
    To ! {self(), N},
    receive
        {answer, N2} -> N2
    end.

server(Total) ->
    receive
        {From, N} ->
            answer(From, N),
            server(Total + N);
        stop ->
            Total
    end.
answer(From, N) ->
    From ! {answer, N + 1},
    ok.

%% Work on all schedulers, with garbage.
busy(Processes, Rounds) ->
    Monitors = [spawn_monitor(?MODULE, rounds, [Rounds]) || _ <- lists:seq(1, Processes)],
    [
        receive
            {'DOWN', Ref, process, Pid, normal} -> ok
        end
     || {Pid, Ref} <- Monitors
    ],
    ok.

%% More than a small recorder can write: processes that make calls with large arguments.
flood(Processes, Calls) ->
    Large = lists:seq(1, 400),
    Flood = fun() -> lists:foreach(fun(_) -> id(Large) end, lists:seq(1, Calls)) end,
    Monitors = [spawn_monitor(Flood) || _ <- lists:seq(1, Processes)],
    [
        receive
            {'DOWN', Ref, process, Pid, normal} -> ok
        end
     || {Pid, Ref} <- Monitors
    ],
    ok.

rounds(0) ->
    ok;
rounds(N) ->
    fact(20),
    garbage(100),
    erlang:yield(),
    rounds(N - 1).

garbage(N) -> length([{X, X} || X <- lists:seq(1, N)]).
