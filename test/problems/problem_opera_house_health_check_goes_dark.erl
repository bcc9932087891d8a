%% SPDX-License-Identifier: Apache-2.0
%%
%% The stage application is restarted again and again, and one of its children needs 1.5 seconds to shut down. All that
%% time the application controller waits, and the doorman's health check, application:which_applications, with it.
-module(problem_opera_house_health_check_goes_dark).
-behaviour(application).
-behaviour(supervisor).

-export([about/0, start/0, start/2, stop/1, init/1, start_curtain/0, curtain/1, director/0, doorman/0]).

about() ->
    #{
        title => "The health check of the opera house takes a second and more, while all services answer at once",
        source =>
            "RabbitMQ, Investigate possible application_controller hang, an application failing to stop blocks it in application_master:call "
            "(https://github.com/rabbitmq/rabbitmq-server/issues/836); Channel health checks should use a sensible timeout "
            "(https://github.com/rabbitmq/rabbitmq-server/issues/1783)",
        flags => ["+S", "2:2"],
        truth =>
            "application_controller waits in application_master:stop for opera_stage, whose child curtain/1 needs 1.5 s to shut down; "
            "doorman/0 waits for it in application:which_applications",
        who => [
            "application_controller", "opera_stage", "problem_opera_house_health_check_goes_dark:(curtain/1|lower/0|director/0|stop/1|init/1)",
            "application_master"
        ],
        what => [
            "shut.?s?.?down", "terminat", "(ends?|stops?|stopping|ending)\\b", "application:stop", "application_master:(stop|call)", "stop_application", "slee",
            "waits? (for|until|in) .{0,80}(exit|end|down|child|master)"
        ]
    }.

start() ->
    ok = application:load({application, opera_stage, [{vsn, "1"}, {modules, [?MODULE]}, {registered, []}, {applications, [kernel, stdlib]}, {mod, {?MODULE, []}}]}),
    true = register(director, spawn(?MODULE, director, [])),
    lists:foreach(fun(_) -> spawn(?MODULE, doorman, []) end, lists:seq(1, 4)).

start(_, _) ->
    supervisor:start_link({local, opera_stage_sup}, ?MODULE, []).

stop(_) ->
    ok.

init([]) ->
    {ok, {#{}, [#{id => curtain, start => {?MODULE, start_curtain, []}, shutdown => 10000}]}}.

start_curtain() ->
    {ok, proc_lib:spawn_link(?MODULE, curtain, [self()])}.

curtain(Parent) ->
    _ = process_flag(trap_exit, true),
    receive
        {'EXIT', Parent, shutdown} -> lower()
    end.

lower() ->
    timer:sleep(1500),
    exit(shutdown).

director() ->
    ok = application:start(opera_stage),
    timer:sleep(200),
    ok = application:stop(opera_stage),
    director().

doorman() ->
    _ = application:which_applications(infinity),
    timer:sleep(50),
    doorman().
