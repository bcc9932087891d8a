%% SPDX-License-Identifier: Apache-2.0
%%
%% Each badge at the zoo is checked by a script outside of the node. The script needs 300 ms, there is one of it, and
%% the keepers come all at eight.
-module(problem_zoo_keepers_locked_out_in_the_morning).
-behaviour(gen_server).

-export([about/0, start/0, keeper/1]).
-export([init/1, handle_call/3, handle_cast/2]).

about() ->
    #{
        title => "In the morning the keepers stand before the gate, one badge takes seconds",
        source =>
            "ejabberd, External authentication program failed when calling 'check_password': timeout "
            "(https://github.com/processone/ejabberd/issues/4343, https://github.com/processone/ejabberd/issues/2463)",
        flags => ["+S", "2:2"],
        truth =>
            "badge_gate asks an external program (a port to sh) in ask/2 and waits 300 ms for each answer; 15 keepers "
            "queue for the one server and its one port",
        who => [
            "badge_gate",
            "problem_zoo_keepers_locked_out_in_the_morning:(ask/2|handle_call/3)",
            "(port|program|command|executable)\\S* (\\S+ )?(/bin/)?sh\\b", "/bin/sh", "while read"
        ],
        what => [
            "external (program|process|command|script|executable)", "\\bport\\b", "#Port", "port program", "os process", "child program", "spawn_executable",
            "open_port", "spawned program", "script", "operating system (process|program)", "program outside", "stdin", "stdout", "pipe"
        ]
    }.

start() ->
    {ok, _} = gen_server:start({local, badge_gate}, ?MODULE, [], []),
    lists:foreach(fun(N) -> spawn(?MODULE, keeper, [N]) end, lists:seq(1, 15)).

keeper(N) ->
    yes = gen_server:call(badge_gate, {badge, N}, infinity),
    keeper(N).

init([]) ->
    Loop = "while read badge; do sleep 0.3; echo yes; done",
    Port = open_port({spawn_executable, "/bin/sh"}, [{args, ["-c", Loop]}, {line, 80}, binary, use_stdio]),
    {ok, Port}.

handle_call({badge, N}, _, Port) -> {reply, ask(Port, N), Port}.

handle_cast(_, S) -> {noreply, S}.

ask(Port, N) ->
    true = port_command(Port, ["badge ", integer_to_list(N), "\n"]),
    receive
        {Port, {data, {eol, <<"yes">>}}} -> yes
    end.
