%% SPDX-License-Identifier: Apache-2.0
%%
%% Runs one suite for scripts/run-ct, and is the Common Test hook that prints a line for each
%% test case. Totals are those that ct:run_test/1 returns.
-module(kymo_ct).

-export([main/0]).
-export([init/2, post_end_per_testcase/5, on_tc_fail/4, on_tc_skip/4, terminate/1]).

%% Arguments of the runtime: -suite Name -dir Dir -logdir Dir -totals File -times N, by which the time
%% limits of test cases are multiplied, and optionally -case Name...
main() ->
    {ok, [[Suite]]} = init:get_argument(suite),
    {ok, [[Dir]]} = init:get_argument(dir),
    {ok, [[LogDir]]} = init:get_argument(logdir),
    {ok, [[Totals]]} = init:get_argument(totals),
    {ok, [[Times]]} = init:get_argument(times),
    Cases = case init:get_argument('case') of
                {ok, [Names]} -> [{testcase, [list_to_atom(N) || N <- Names]}];
                error -> []
            end,
    %% No other tool traces in the nodes of the other suites, which test what kymo does without measures,
    %% except against the faults in KYMO_AVOID.
    Avoided = string:lexemes(os:getenv("KYMO_AVOID", ""), ","),
    Faults = [atom_to_list(Name) || M <- loaded(), #{name := Name} <- M:table()],
    _ = Suite =:= "kymo_faults_SUITE" orelse os:putenv("KYMO_FIXED_FAULTS", lists:join($,, Faults -- Avoided)),
    Result = ct:run_test([{dir, Dir}, {suite, list_to_atom(Suite)}, {auto_compile, false},
                          {logdir, LogDir}, {multiply_timetraps, list_to_integer(Times)},
                          {ct_hooks, [?MODULE]} | Cases]),
    Line = case Result of
               {Ok, Failed, {User, Auto}} ->
                   %% Cases that Common Test itself skips could not run, and count as failures.
                   io_lib:format("~b ~b ~b~n", [Ok, Failed + Auto, User]);
               Error ->
                   io:format("##   FAILED ~p~n", [Error]),
                   "0 1 0\n"
           end,
    ok = file:write_file(Totals, Line),
    erlang:halt(0).

%% The other programs that suites test have no such module.
loaded() -> [M || M <- [kymo_faults], {module, _} <- [code:ensure_loaded(M)]].

init(_Id, _Opts) ->
    {ok, #{}}.

post_end_per_testcase(Suite, Case, Config, Return, State) ->
    case proplists:get_value(tc_status, Config) of
        ok when not is_tuple(Return) ->
            line("ok     ", Suite, Case, ""),
            remove_recordings(proplists:get_value(dir, Config), proplists:get_value(priv_dir, Config));
        _ ->
            ok
    end,
    {Return, State}.

%% Rings are large, so the recordings of a case that passed are removed from its folder (`dir',
%% by convention of the suites) to leave room for those of other cases.
remove_recordings(Dir, Priv) when is_list(Dir), is_list(Priv), Dir =/= Priv ->
    case lists:prefix(Priv, Dir) of
        true -> file:del_dir_r(Dir);
        false -> ok
    end;
remove_recordings(_, _) ->
    ok.

on_tc_fail(Suite, Case, Reason, State) ->
    line("FAILED ", Suite, Case, io_lib:format("~n~s", [shorten(Reason)])),
    State.

on_tc_skip(Suite, Case, {tc_user_skip, Reason}, State) ->
    line("skip   ", Suite, Case, [": ", text(Reason)]),
    State;
on_tc_skip(Suite, Case, {tc_auto_skip, Reason}, State) ->
    line("FAILED ", Suite, Case, [": could not run: ", shorten(Reason)]),
    State.

terminate(_State) ->
    ok.

line(What, Suite, Case, More) ->
    Name = case Case of
               {C, Group} -> io_lib:format("~p.~p", [Group, C]);
               C -> io_lib:format("~p", [C])
           end,
    io:format(user, "##   ~s ~p:~ts~ts~n", [What, Suite, Name, More]).

shorten(Reason) ->
    Lines = string:split(io_lib:format("~0tP", [Reason, 60]), "\n", all),
    lists:join("\n", [["##       ", L] || L <- Lines]).

text(Reason) ->
    case io_lib:printable_unicode_list(Reason) of
        true -> Reason;
        false -> io_lib:format("~0tp", [Reason])
    end.
