%% SPDX-License-Identifier: Apache-2.0
%%
%% During maintenance somebody suspended the points' motor with erlang:suspend_process/1,
%% and forgot to resume it. Trains ask it and get no answer.
-module(problem_railway_points_never_answer).
-behaviour(gen_server).

-export([about/0, start/0, maintenance/0, train/1]).
-export([init/1, handle_call/3, handle_cast/2]).

about() ->
    #{
        title => "Trains of the model railway wait at the points, which neither work nor crash",
        source =>
            "erlang:suspend_process/1 (for debugging only): "
            "https://www.erlang.org/doc/man/erlang.html#suspend_process-1; "
            "crash dump guide, process state Suspended: https://www.erlang.org/doc/apps/erts/crash_dump.html",
        flags => ["+S", "2:2"],
        truth =>
            "The server points_motor is suspended by erlang:suspend_process/1, called in maintenance/0, "
            "and is never resumed; its message queue grows",
        who => [
            "points_motor",
            "problem_railway_points_never_answer:(maintenance/0|handle_call/3|init/1)"
        ],
        what => ["suspend"]
    }.

start() ->
    {ok, _} = gen_server:start({local, points_motor}, ?MODULE, [], []),
    lists:foreach(fun(N) -> spawn(?MODULE, train, [N]) end, lists:seq(1, 5)),
    timer:sleep(200),
    _ = spawn(?MODULE, maintenance, []),
    timer:sleep(100).

%% Keeps the suspension: it would end with this process.
maintenance() ->
    true = erlang:suspend_process(whereis(points_motor)),
    receive
        finished -> erlang:resume_process(whereis(points_motor))
    end.

train(N) ->
    try gen_server:call(points_motor, {turn, N}, 4000) of
        left -> ok;
        right -> ok
    catch
        exit:{timeout, _} -> red_signal
    end,
    timer:sleep(100),
    train(N).

init([]) -> {ok, left}.

handle_call({turn, N}, _, _) when N rem 2 =:= 0 -> {reply, left, left};
handle_call({turn, _}, _, _) -> {reply, right, right}.

handle_cast(_, S) -> {noreply, S}.
