%% SPDX-License-Identifier: Apache-2.0
%%
%% kymo print --follow on a recording that this node is making: each event is printed exactly
%% once until the recording ends or a signal arrives.
-module(kymo_follow_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-compile(export_all).
-compile(nowarn_export_all).

all() ->
    [follows, follows_json, names_that_come_later, limit, ends_at_signals, ended_recording, overwritten, replaced, refusals].

init_per_suite(Config) ->
    {module, _} = code:ensure_loaded(kymo),
    Config.

end_per_suite(_) -> ok.

init_per_testcase(Case, Config) ->
    Dir = filename:join(?config(priv_dir, Config), atom_to_list(Case)),
    ok = file:make_dir(Dir),
    [{rec, filename:join(Dir, "rec")} | Config].

end_per_testcase(_, _) -> ok.

traced(X) -> X.

start(Dir, Options) ->
    {ok, R} = kymo:start(maps:merge(#{dir => Dir, calls => arguments, memory => 8 bsl 20}, Options)),
    {ok, _} = kymo:trace(R, #{processes => [self()], functions => "kymo_follow_SUITE:traced/1", events => [procs]}),
    R.

follow(Args) ->
    open_port({spawn_executable, kymo:cli_path()}, [
        {args, ["print", "--follow" | Args]}, {line, 4096}, exit_status, stderr_to_stdout, binary, hide
    ]).

%% Returns the next N lines.
lines(_, 0) -> [];
lines(Port, N) -> receive {Port, {data, {eol, Line}}} -> [Line | lines(Port, N - 1)] after 60000 -> error({no_line, N}) end.

%% The remaining output, and the status.
rest(Port) ->
    receive
        {Port, {data, {eol, Line}}} -> {Lines, Status} = rest(Port), {[Line | Lines], Status};
        {Port, {exit_status, Status}} -> {[], Status}
    after 60000 -> error(no_end)
    end.

signal(Port, Name) ->
    {os_pid, Pid} = erlang:port_info(Port, os_pid),
    "" = os:cmd("kill -" ++ Name ++ " " ++ integer_to_list(Pid)),
    Pid.

%% Stops the command as Ctrl-Z would.
halted(Port) ->
    Stat = "cut -d' ' -f3 /proc/" ++ integer_to_list(signal(Port, "STOP")) ++ "/stat",
    true = kymo_cli:until(fun() -> string:find(os:cmd(Stat), "T") =/= nomatch end).

numbers(Lines) ->
    [begin {match, [N]} = re:run(L, "traced\\(([0-9]+)\\)", [{capture, [1], list}]), list_to_integer(N) end || L <- Lines].

%% With both policies: events from before, during and after the start of the command, in more
%% than one segment.
follows(Config) ->
    [begin
         Dir = ?config(rec, Config) ++ atom_to_list(Policy),
         R = start(Dir, #{policy => Policy, segment_size => 4096}),
         _ = [?MODULE:traced(N) || N <- lists:seq(1, 500)],
         Port = follow(["-q", "--events", "call", Dir]),
         First = lines(Port, 500),
         _ = [?MODULE:traced(N) || N <- lists:seq(501, 2000)],
         Second = lines(Port, 1500),
         ?MODULE:traced(2001),
         Third = lines(Port, 1),
         ?MODULE:traced(2002),
         {ok, _} = kymo:stop(R),
         {Last, 0} = rest(Port),
         All = First ++ Second ++ Third ++ Last,
         ?assertEqual(lists:seq(1, 2002), numbers(All)),
         {0, Printed} = kymo_cli:run(["print", "-q", "--events", "call", Dir]),
         %% Times after the last calibration point of the clock are estimates until there is a
         %% newer point.
         Text = fun(L) -> [_, T] = binary:split(L, <<" ">>), T end,
         ?assertEqual([Text(L) || L <- binary:split(Printed, <<"\n">>, [global, trim])], [Text(L) || L <- All])
     end || Policy <- [overwrite, discard]].

follows_json(Config) ->
    Dir = ?config(rec, Config),
    R = start(Dir, #{}),
    Port = follow(["-q", "--json", "--events", "call", Dir]),
    ?MODULE:traced(1),
    [First] = lines(Port, 1),
    ?MODULE:traced(2),
    [Second] = lines(Port, 1),
    {ok, _} = kymo:stop(R),
    {[], 0} = rest(Port),
    [#{<<"event">> := <<"call">>, <<"function">> := <<"kymo_follow_SUITE:traced/1">>} =
         kymo_cli:json(binary_to_list(L) ++ "\n") || L <- [First, Second]].

%% A filter by a name that no process has yet.
names_that_come_later(Config) ->
    Dir = ?config(rec, Config),
    R = start(Dir, #{}),
    Port = follow(["--events", "call", "--pid", "comes_later", Dir]),
    [Warning] = lines(Port, 1),
    ?assertMatch({_, _}, binary:match(Warning, <<"no process called 'comes_later'">>)),
    ?MODULE:traced(1),
    register(comes_later, self()),
    ?MODULE:traced(2),
    [Line] = lines(Port, 1),
    ?assertEqual([2], numbers([Line])),
    unregister(comes_later),
    {ok, _} = kymo:stop(R),
    {[], 0} = rest(Port).

limit(Config) ->
    Dir = ?config(rec, Config),
    R = start(Dir, #{}),
    Port = follow(["-q", "--events", "call", "-n", "2", Dir]),
    ?MODULE:traced(1),
    [_] = lines(Port, 1),
    _ = [?MODULE:traced(N) || N <- [2, 3]],
    {[Line], 0} = rest(Port),
    ?assertEqual([2], numbers([Line])),
    {ok, _} = kymo:stop(R).

ends_at_signals(Config) ->
    Dir = ?config(rec, Config),
    R = start(Dir, #{}),
    [begin
         Port = follow(["-q", "-n", "1000", "--events", "call", Dir]),
         ?MODULE:traced(1),
         _ = lines(Port, 1),
         signal(Port, Name),
         {_, 0} = rest(Port)
     end || Name <- ["INT", "TERM"]],
    {ok, _} = kymo:stop(R).

%% The recording has ended, so there is nothing to wait for.
ended_recording(Config) ->
    Dir = ?config(rec, Config),
    R = start(Dir, #{}),
    ?MODULE:traced(1),
    {ok, _} = kymo:stop(R),
    {[Line], 0} = rest(follow(["-q", "--events", "call", Dir])),
    ?assertEqual([1], numbers([Line])).

%% A command that cannot keep up says so; with --strict that is an error.
overwritten(Config) ->
    Dir = ?config(rec, Config),
    R = start(Dir, #{policy => overwrite, memory => 4 bsl 20}),
    Port = follow(["--strict", "--events", "call", Dir]),
    ?MODULE:traced(1),
    [Line] = lines(Port, 1),
    ?assertEqual([1], numbers([Line])),
    halted(Port),
    _ = [?MODULE:traced(N) || N <- lists:seq(2, 300000)],
    signal(Port, "CONT"),
    {ok, _} = kymo:stop(R),
    {Lines, 1} = rest(Port),
    ?assertMatch([_], [L || L <- Lines, binary:match(L, <<"overwritten or removed before they could be printed">>) =/= nomatch]).

%% The folder now holds another recording, whose events do not continue the first one.
replaced(Config) ->
    Dir = ?config(rec, Config),
    R = start(Dir, #{}),
    ?MODULE:traced(1),
    Port = follow(["--events", "call", Dir]),
    [_] = lines(Port, 1),
    {ok, Other} = kymo:start(#{dir => Dir ++ ".other", memory => 8 bsl 20}),
    halted(Port),
    ok = file:rename(Dir, Dir ++ ".moved"),
    ok = file:rename(Dir ++ ".other", Dir),
    signal(Port, "CONT"),
    {Lines, 3} = rest(Port),
    ?assertMatch([_], [L || L <- Lines, binary:match(L, <<"another recording">>) =/= nomatch]),
    {ok, _} = kymo:stop(Other),
    {ok, _} = kymo:stop(R).

refusals(Config) ->
    Dir = ?config(rec, Config),
    {ok, _} = kymo:stop(start(Dir, #{})),
    [begin
         {2, Out} = kymo_cli:run(["print", "-f" | Args] ++ [Dir]),
         ?assertMatch({_, _}, binary:match(Out, <<"--follow">>))
     end || Args <- [["--tree"], ["--to", "1s"]]].
