%% SPDX-License-Identifier: Apache-2.0
%%
%% The dome's server asks an external program for the wind in each call, by os:cmd/1.
-module(problem_observatory_dome_lags_the_stars).
-behaviour(gen_server).

-export([about/0, start/0, telescope/0]).
-export([init/1, handle_call/3, handle_cast/2]).

about() ->
    #{
        title => "An observatory's dome lags behind the stars, no processor of the node is busy",
        source =>
            "os:cmd/1 (waits for the command): https://www.erlang.org/doc/man/os.html#cmd-1; "
            "Erlang in Anger 3.2.2",
        flags => ["+S", "2:2"],
        truth =>
            "The server dome_motor waits about 250 ms in os:cmd/1 (wind/0), a shell command, in each call of "
            "the telescopes",
        who => [
            "dome_motor",
            "problem_observatory_dome_lags_the_stars:(handle_call/3|wind/0)"
        ],
        what => [
            "os:cmd",
            "os:(do_cmd|get_data)",
            "shell",
            "(external|system|foreign|os|operating system|child|unix|other) ?(program|process|command)",
            "sub.?process",
            "command",
            "(port|program).{0,30}(answer|output|reply|finish|data)"
        ]
    }.

start() ->
    {ok, _} = gen_server:start({local, dome_motor}, ?MODULE, [], []),
    lists:foreach(fun(_) -> spawn(?MODULE, telescope, []) end, [1, 2]).

telescope() ->
    ok = gen_server:call(dome_motor, {azimuth, rand:uniform(360)}, infinity),
    timer:sleep(20),
    telescope().

init([]) -> {ok, 0}.

handle_call({azimuth, A}, _, _) ->
    case wind() of
        calm -> {reply, ok, A};
        storm -> {reply, closed, A}
    end.

handle_cast(_, A) -> {noreply, A}.

%% Stands for the program that reads the anemometer.
wind() ->
    case string:trim(os:cmd("sleep 0.25; echo calm")) of
        "calm" -> calm;
        _ -> storm
    end.
