%% SPDX-License-Identifier: Apache-2.0
%%
%% A puppet master is linked to 30000 strings, dies each second of a bad pull, and is hired anew.
%% Each of the strings traps exits, gets the exit signal, and links itself to the next master.
-module(problem_puppet_strings_go_slack).

-export([about/0, start/0, theatre/1, master/0, strand/0]).

about() ->
    #{
        title => "Once in a second all strings of the puppet theatre go slack, and the stage stands still",
        source =>
            "Erlang in Anger 3.2.1 (restart, links) and 5.1.3; crash dump guide, Link list: "
            "https://www.erlang.org/doc/apps/erts/crash_dump.html",
        flags => ["+S", "2:2"],
        truth =>
            "puppet_master crashes in pull/1 each second with 30000 linked processes, so that 30000 exit signals "
            "are sent and handled and 30000 links made anew",
        who => [
            "puppet_master",
            "problem_puppet_strings_go_slack:(master/0|pull/1|theatre/1)",
            "problem_puppet_strings_go_slack:(strand/0|tie/1)"
        ],
        what => [
            "\\blink",
            "exit.?(signal|reason|message)",
            "\\b(exit|die|dying|dies|crash|terminat|kill|restart|death)[a-z]*",
            "bad_pull"
        ]
    }.

start() ->
    Strands = [spawn(?MODULE, strand, []) || _ <- lists:seq(1, 30000)],
    _ = spawn(?MODULE, theatre, [Strands]),
    ok.

%% Hires the next master as soon as the last one is gone, and hands over the strings.
theatre(Strands) ->
    {Pid, Ref} = spawn_monitor(?MODULE, master, []),
    lists:foreach(fun(S) -> S ! {tie, Pid} end, Strands),
    receive
        {'DOWN', Ref, process, Pid, _} -> theatre(Strands)
    end.

master() ->
    true = register(puppet_master, self()),
    timer:sleep(700),
    pull(left_arm).

pull(Limb) -> exit({bad_pull, Limb}).

strand() ->
    _ = process_flag(trap_exit, true),
    receive
        {tie, Master} -> tie(Master);
        {'EXIT', _, _} -> ok
    end,
    strand().

tie(Master) ->
    try
        link(Master)
    catch
        error:noproc -> gone
    end.
