%% SPDX-License-Identifier: Apache-2.0
%%
%% A supervisor ends a child that needs 1.2 seconds for its goodbyes, and starts no child meanwhile.
-module(problem_ballroom_waits_for_the_last_goodbye).
-behaviour(supervisor).

-export([about/0, start/0, init/1, start_dance/0, dance/1, usher/0, couple/0]).

about() ->
    #{
        title => "New couples wait at the ballroom's door for a second, each time that one couple leaves",
        source =>
            "Erlang/OTP, Mention blocking supervisor operations in Supervision Principles "
            "(https://github.com/erlang/otp/pull/8361); poolboy, workers terminate slowly (https://github.com/devinus/poolboy/issues/5)",
        flags => ["+S", "2:2"],
        truth =>
            "ballroom_sup is in supervisor:terminate_child for 1.2 s at a time (usher/0), waiting until the child's shutdown is over "
            "(goodbye/0), and start_child of the couples queues behind it",
        who => ["ballroom_sup", "problem_ballroom_waits_for_the_last_goodbye:(goodbye/0|dance/1|usher/0|init/1)", "supervisor:(shutdown|terminate_child|do_terminate)"],
        what => [
            "shutdown", "shut.?s? down", "terminat", "(ends|stops|stopping|ending) (a |of a |its )?child", "trap_exit", "'?DOWN'?", "goodbye", "slee",
            "waits? (for|until) .{0,60}(exit|end|down|child)", "exit"
        ]
    }.

start() ->
    Self = self(),
    spawn(fun() ->
        {ok, _} = supervisor:start_link({local, ballroom_sup}, ?MODULE, []),
        Self ! started,
        timer:sleep(infinity)
    end),
    receive started -> ok end,
    true = register(usher, spawn(?MODULE, usher, [])),
    lists:foreach(fun(_) -> spawn(?MODULE, couple, []) end, lists:seq(1, 8)).

init([]) ->
    Child = #{id => dance, start => {?MODULE, start_dance, []}, restart => temporary, shutdown => 5000},
    {ok, {#{strategy => simple_one_for_one}, [Child]}}.

start_dance() ->
    {ok, proc_lib:spawn_link(?MODULE, dance, [self()])}.

dance(Parent) ->
    _ = process_flag(trap_exit, true),
    receive
        {'EXIT', Parent, shutdown} -> goodbye();
        home -> ok
    end.

goodbye() ->
    timer:sleep(1200),
    exit(shutdown).

usher() ->
    {ok, Pid} = supervisor:start_child(ballroom_sup, []),
    timer:sleep(200),
    _ = supervisor:terminate_child(ballroom_sup, Pid),
    usher().

couple() ->
    {ok, Pid} = supervisor:start_child(ballroom_sup, []),
    timer:sleep(50),
    Pid ! home,
    couple().
