%% SPDX-License-Identifier: Apache-2.0
%%
%% The question functions for the shell: what they print matches what the program has done, they
%% end by themselves, and nothing is left behind, even if the shell is interrupted.
-module(kymo_shell_SUITE).
-behaviour(gen_server).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([calls/1, of_others/1, nothing/1, slow/1, why/1, check/1, check_nothing/1, start_alone/1, errors/1, interrupted/1]).
-export([init/1, handle_call/3, handle_cast/2]).
-export([work/1]).

all() -> [calls, of_others, nothing, slow, why, check, check_nothing, start_alone, errors, interrupted].

init_per_testcase(_, Config) ->
    {module, _} = code:ensure_loaded(kymo),
    [{folders, folders()} | Config].

%% A question leaves nothing behind.
end_per_testcase(_, Config) ->
    {_, Before} = lists:keyfind(folders, 1, Config),
    case {folders() -- Before, [R || #{state := State} = R <- kymo:list(), State =/= closed], is_traced()} of
        {[], [], false} -> ok;
        Left -> {fail, {left_behind, Left}}
    end.

folders() -> filelib:wildcard(filename:join(os:getenv("TMPDIR", "/tmp"), "kymo-" ++ os:getpid() ++ "-*")).

is_traced() ->
    element(2, erlang:trace_info({?MODULE, work, 1}, traced)) =/= false.

%% Sleeps for so many milliseconds.
work(Ms) ->
    receive after Ms -> {slept, Ms} end.

%% Calls work/1 with the numbers repeatedly until Fun returns.
during(Numbers, Fun) ->
    Worker = spawn_link(fun() -> over_and_over(Numbers) end),
    ct:capture_start(),
    Answer = Fun(),
    ct:capture_stop(),
    unlink(Worker),
    exit(Worker, kill),
    {Answer, unicode:characters_to_list(ct:capture_get())}.

over_and_over(Numbers) ->
    [?MODULE:work(N) || N <- Numbers],
    over_and_over(Numbers).

calls(_) ->
    {ok, Text} = during([1], fun() -> kymo:calls("kymo_shell_SUITE:work/1", #{count => 6, time => 60000}) end),
    Lines = string:lexemes(Text, "\n"),
    ?assertEqual(6, length(Lines)),
    Calls = [L || L <- Lines, string:find(L, " call kymo_shell_SUITE:work(1)") =/= nomatch],
    Returns = [L || L <- Lines, string:find(L, "return_from kymo_shell_SUITE:work/1 value={slept,1}") =/= nomatch],
    ?assertEqual(6, length(Calls) + length(Returns)),
    ?assert(length(Calls) >= 2).

%% The calls that the calling process makes to ask its question are none of the answer.
of_others(_) ->
    Self = list_to_binary(pid_to_list(self())),
    ct:capture_start(),
    ok = kymo:calls(["lists:_/_", "filename:_/_", "io_lib:_/_"], #{time => 200, count => 1000}),
    ct:capture_stop(),
    Lines = string:lexemes(unicode:characters_to_list(ct:capture_get()), "\n"),
    ?assertEqual([], [L || L <- Lines, string:find(L, [" ", Self]) =/= nomatch]).

%% Nothing is called: they end when the time is over, and say so.
nothing(_) ->
    F = "kymo_shell_SUITE:work/1",
    "no calls of these functions in 200 ms\n" = printed(fun() -> kymo:calls(F, #{time => 200}) end),
    %% A list of pairs, as Elixir's keyword lists, has the same effect.
    "no calls of these functions in 200 ms\n" = printed(fun() -> kymo:calls(F, [{time, 200}]) end),
    ok = kymo:slow(F, 1, [{time, 1}]),
    {error, {unknown_option, tme}} = kymo:why([{tme, 1}]),
    "no call of these functions took 0.5 ms or more, in 200 ms\n" =
        printed(fun() -> kymo:slow(F, 0.5, #{time => 200}) end),
    "no request (a call of " ++ Requests = printed(fun() -> kymo:why(#{time => 200, processes => [self()]}) end),
    {match, _} = re:run(Requests, " was answered in 200 ms\n$").

printed(Fun) -> printed(ok, Fun).

printed(Answer, Fun) ->
    ct:capture_start(),
    ?assertEqual(Answer, Fun()),
    ct:capture_stop(),
    lists:append(ct:capture_get()).

slow(_) ->
    {ok, Text} = during([1, 60], fun() -> kymo:slow("kymo_shell_SUITE:work/1", 50, #{time => 3000, count => 1}) end),
    [Line] = [L || L <- string:lexemes(Text, "\n"), string:find(L, "kymo_shell_SUITE:work/1") =/= nomatch],
    {match, [Ms]} = re:run(Line, "([0-9.]+) ms", [{capture, all_but_first, list}]),
    ?assert(binary_to_float(iolist_to_binary([Ms, [".0" || not lists:member($., Ms)]])) >= 50.0),
    %% The line says whether the runtime has reported the call.
    Reports = element(1, erlang:match_spec_test([], [{'_', [], [{slow, 1}]}], trace)) =:= ok,
    ?assertEqual(Reports, lists:suffix("  (slow)", Line)).

why(_) ->
    {ok, Server} = gen_server:start_link(?MODULE, [], []),
    Caller = spawn_link(fun() -> ask(Server) end),
    ct:capture_start(),
    ok = kymo:why(#{time => 500, functions => "kymo_shell_SUITE:_/_", processes => [Server, Caller]}),
    ct:capture_stop(),
    Text = unicode:characters_to_list(ct:capture_get()),
    unlink(Caller),
    exit(Caller, kill),
    gen_server:stop(Server),
    %% The server waits for a timeout.
    ?assertMatch({match, _}, re:run(Text, "-> .*kymo_shell_SUITE:handle_call/3: .*\n .* timer ")).

ask(Server) ->
    {slept, 20} = gen_server:call(Server, 20),
    ask(Server).

%% A process crashes again and again. No command is suggested, since the recording is removed.
check(_) ->
    Crash = spawn_link(fun crash_often/0),
    Text = printed(fun() -> kymo:check(#{time => 1000}) end),
    unlink(Crash),
    exit(Crash, kill),
    ?assertMatch({match, _}, re:run(Text, " shell_crashes .*planted.*\\[crash_loop\\]\n")),
    %% Each line is a finding.
    Lines = string:lexemes(Text, "\n"),
    ?assertEqual([], [L || L <- Lines, re:run(L, "^ ?[0-9]+  .*\\.  \\[[a-z_]+\\]$") =:= nomatch]).

crash_often() ->
    {_, Monitor} = spawn_monitor(fun() ->
        true = register(shell_crashes, self()),
        receive after 10 -> exit(planted) end
    end),
    receive {'DOWN', Monitor, process, _, _} -> crash_often() end.

%% Of one process that does nothing, nothing can be wrong; what counters and reports say of the node may be.
check_nothing(_) ->
    Idle = spawn_link(fun() -> receive stop -> ok end end),
    Text = printed(fun() -> kymo:check([{time, 300}, {processes, [Idle]}]) end),
    unlink(Idle),
    exit(Idle, kill),
    Rules = [lists:last(string:lexemes(Line, "[]")) || Line <- string:lexemes(Text, "\n"), Line =/= "nothing found"],
    ?assertEqual([], Rules -- ["processor", "schedulers", "reports", "memory_growth"]),
    ?assertEqual(Rules =:= [], Text =:= "nothing found\n").

init([]) -> {ok, none}.
handle_call(Ms, _, none) -> {reply, work(Ms), none}.
handle_cast(_, none) -> {noreply, none}.

%% A folder is chosen automatically; the handle and info/1 name it.
start_alone(_) ->
    {ok, {kymo_recorder, _, _, Dir} = Recorder} = kymo:start(),
    ?assertMatch(#{dir := Dir}, kymo:info(Recorder)),
    ?assertMatch([_], [R || #{recorder := R} <- kymo:list(), R =:= Recorder]),
    {ok, #{events := 0}} = kymo:stop(Recorder),
    {ok, Names} = file:list_dir(Dir),
    true = lists:member("meta", Names),
    {ok, {kymo_recorder, _, _, Second} = Other} = kymo:start(#{}),
    ?assertNotEqual(Dir, Second),
    {ok, _} = kymo:stop(Other),
    [kymo_folder:remove_recording(D) || D <- [Dir, Second]].

errors(_) ->
    F = "kymo_shell_SUITE:work/1",
    {error, {unknown_option, dir}} = kymo:calls(F, #{dir => "x"}),
    {error, {bad_option, time, 0}} = kymo:calls(F, #{time => 0}),
    {error, {bad_option, count, many}} = kymo:slow(F, 1, #{count => many}),
    {error, {unknown_option, functions}} = kymo:slow(F, 1, #{functions => F}),
    %% An error is also printed as a sentence.
    No = "kymo_shell_SUITE:no_such/7",
    "kymo: no loaded function matches " ++ _ = Text = printed({error, {no_functions, No}}, fun() -> kymo:calls(No) end),
    ?assertEqual($\n, lists:last(Text)),
    "kymo: there is no option tme; allowed: count, functions, processes, time\n" =
        printed({error, {unknown_option, tme}}, fun() -> kymo:why(#{tme => 1}) end),
    "kymo: time is 0; allowed: a number from 1 on\n" =
        printed({error, {bad_option, time, 0}}, fun() -> kymo:slow(F, 1, #{time => 0}) end),
    ?assertError(badarg, kymo:slow(F, fast)),
    ?assertError(badarg, kymo:calls(F, [time])),
    ?assertError(badarg, kymo:why(soon)),
    ?assertError(badarg, kymo:check(soon)),
    "kymo: there is no option count; allowed: processes, time\n" =
        printed({error, {unknown_option, count}}, fun() -> kymo:check(#{count => 1}) end),
    with_wrong_command(fun() ->
        {error, {no_command, _, _} = Reason} = kymo:calls(F, #{time => 100}),
        {match, _} = re:run(kymo:format_error(Reason), "KYMO_PRIV")
    end).

%% The library is loaded already; the command does not exist in this folder.
with_wrong_command(Fun) ->
    Priv = filename:join(kymo_folder:unused(), "priv"),
    true = os:putenv("KYMO_PRIV", Priv),
    try Fun() after os:unsetenv("KYMO_PRIV") end.

%% The shell's process is killed while it waits for the answer.
interrupted(_) ->
    Shell = spawn(fun() -> kymo:calls("kymo_shell_SUITE:work/1", #{time => 600000}) end),
    true = kymo_cli:until(fun is_traced_now/0),
    [#{recorder := {kymo_recorder, Server, _, _}}] = [R || #{state := active} = R <- kymo:list()],
    Ended = monitor(process, Server),
    exit(Shell, kill),
    receive {'DOWN', Ended, process, _, _} -> ok end,
    true = kymo_cli:until(fun() -> folders() =:= [] end).

%% On runtimes with sessions, the pattern is in the recorder's own session.
is_traced_now() ->
    [] =/= [R || #{state := active} = R <- kymo:list()] andalso
        (is_traced() orelse erlang:function_exported(trace, session_info, 1)).
