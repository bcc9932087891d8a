%% SPDX-License-Identifier: Apache-2.0
%%
%% Runs problems, and judges what `kymo why' or `kymo check' says of them: see README.md in this folder.
-module(problem_judge).

-export([main/0]).

-define(COOKIE, "kymo-problems").

%% Arguments after -extra: the command, the erl, the folder of the programs, and the names of problems.
main() ->
    process_flag(trap_exit, true),
    [Command, Erl, Ebin, Work | Names] = init:get_plain_arguments(),
    Verdicts = [{Name, judge(Command, Erl, Ebin, Work, list_to_atom("problem_" ++ Name))} || Name <- Names],
    _ = [io:format("~-40ts ~s~n", [Name, Verdict]) || {Name, Verdict} <- Verdicts],
    Counts = [io_lib:format("~b ~s", [length([V || {_, V} <- Verdicts, V =:= Kind]), Kind]) || Kind <- kinds()],
    io:format("~ts~n", [lists:join(", ", Counts)]),
    halt(0).

kinds() -> [right, vague, wrong, silent, failed].

judge(Command, Erl, Ebin, Work, Problem) ->
    About = Problem:about(),
    Node = lists:concat([Problem, "_", os:getpid(), "@localhost"]),
    Args = ["-noshell", "-name", Node, "-setcookie", ?COOKIE, "-pa", Ebin] ++ maps:get(flags, About, []) ++
        ["-eval", lists:concat([Problem, ":start(), io:format(\"~s~n\", [going_on])."])],
    Port = open_port({spawn_executable, Erl}, [{args, Args}, {line, 1000}, exit_status, stderr_to_stdout, hide]),
    {os_pid, Pid} = erlang:port_info(Port, os_pid),
    Dir = filename:join(Work, atom_to_list(Problem)),
    Verdict =
        case goes_on(Port) of
            true ->
                _ = run("kymo", ["attach", "--cookie", ?COOKIE, "-q", "--for", "3s", "-o", Dir, Node]),
                verdict(About, run("kymo", [Command, Dir]));
            false ->
                failed
        end,
    _ = os:cmd("kill -KILL " ++ integer_to_list(Pid)),
    Verdict.

goes_on(Port) ->
    receive
        {Port, {data, {_, "going_on"}}} -> true;
        {Port, {data, _}} -> goes_on(Port);
        {Port, {exit_status, _}} -> false
    after 60000 -> false
    end.

run(Command, Args) ->
    Port = open_port({spawn_executable, os:find_executable(Command)}, [{args, Args}, exit_status, stderr_to_stdout, binary, hide]),
    output(Port, <<>>).

output(Port, Text) ->
    receive
        {Port, {data, More}} -> output(Port, <<Text/binary, More/binary>>);
        {Port, {exit_status, _}} -> unicode:characters_to_list(Text)
    after 120000 -> unicode:characters_to_list(Text)
    end.

verdict(#{who := Who, what := What}, Text) ->
    io:format("~ts~n", [Text]),
    Shown = [Line || Line <- string:lexemes(Text, "\n"), weighs(Line)],
    Matches = fun(Regexps) -> lists:any(fun(R) -> re:run(lists:join("\n", Shown), R, [caseless, unicode]) =/= nomatch end, Regexps) end,
    case {Matches(Who), Matches(What)} of
        {true, true} -> right;
        {false, false} -> guess(Shown);
        _ -> vague
    end.

%% The first line that explains: of `kymo why' one with a share, of `kymo check' a finding.
guess(Shown) ->
    case [Line || Line <- Shown, share(Line) =/= none orelse re:run(Line, "^ *1  ") =/= nomatch] of
        [First | _] ->
            case re:run(First, "unknown", [caseless]) of
                nomatch -> wrong;
                _ -> silent
            end;
        [] ->
            silent
    end.

%% Has at least a fifth of the time, or no share.
weighs(Line) ->
    case share(Line) of
        none -> true;
        Share -> Share >= 20.0
    end.

share(Line) ->
    case re:run(Line, "^ +[0-9.]+ [a-z]+ +([0-9]+\\.[0-9]) %", [{capture, [1], list}]) of
        {match, [Share]} -> list_to_float(Share);
        nomatch -> none
    end.
