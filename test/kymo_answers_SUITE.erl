%% SPDX-License-Identifier: Apache-2.0
%%
%% `kymo why' over programs with planted causes: what it names first is what was
%% planted, its parts add up to the time that the request took, and that time is the one
%% that the program measured itself. Many variants of each kind; a machine that is busy
%% with other things may add causes of its own, so that a few may be wrong or unknown.
-module(kymo_answers_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-compile(export_all).
-compile(nowarn_export_all).

%% Variants of each kind: KYMO_ANSWERS in the environment changes that.
-define(VARIANTS, 5).

all() -> [planted, without_scheduling].

init_per_suite(Config) ->
    {module, _} = code:ensure_loaded(kymo),
    Priv = ?config(priv_dir, Config),
    cc(filename:join(?config(data_dir, Config), "hog.c"), filename:join(Priv, "hog.so")),
    ok = kymo_answers_work:load(Priv),
    Config.

end_per_suite(_) -> ok.

init_per_testcase(Case, Config) ->
    Dir = filename:join(?config(priv_dir, Config), atom_to_list(Case)),
    ok = file:make_dir(Dir),
    [{dir, Dir} | Config].

end_per_testcase(_, _) -> ok.

cc(Source, So) ->
    Command = lists:flatten(["${CC:-cc} -shared -fPIC -I'", include_dir(), "' -o '", So, "' '", Source, "' 2>&1"]),
    ?assertEqual({"", true}, {os:cmd(Command), filelib:is_regular(So)}).

%% Where erl_nif.h is: told by the build, else that of the installed runtime.
include_dir() ->
    Root = code:root_dir(),
    Dirs = [D || D <- [os:getenv("ERTS_INCLUDE_DIR")], is_list(D)] ++
        [filename:join([Root, "erts-" ++ erlang:system_info(version), "include"]),
         filename:join([Root, "usr", "include"])],
    hd([Dir || Dir <- Dirs, filelib:is_regular(filename:join(Dir, "erl_nif.h"))]).

%% ---- one program ----

events() -> [return_to, messages, procs, running, garbage_collection].

record(Dir, Events, Kind, Seed) ->
    {ok, R} = kymo:start(#{dir => Dir, owner => none, memory => 256 bsl 20}),
    Functions = ["kymo_answers_work:_/_", "gen_server:call/_", "ets:insert/2", "timer:sleep/1",
                 {erlang, suspend_process, 1}, {erlang, resume_process, 1}],
    {ok, _} = kymo:trace(R, #{functions => Functions, events => Events}),
    try kymo_answers_work:plant(Kind, rand:seed_s(exsss, Seed)) after kymo:stop(R) end.

why(Dir, Client) ->
    {0, Out} = kymo_cli:run(["why", "--json", "--quiet", "--pid", pid_to_list(Client), Dir]),
    #{<<"answers">> := [Answer]} = kymo_cli:json(unicode:characters_to_list(Out)),
    Answer.

%% right | unknown | {wrong, What}.
judge(Kind, Plant, #{<<"parts">> := Parts} = Answer) ->
    case [P || #{<<"cause">> := Cause} = P <- Parts, lists:member(Cause, never(Kind))] of
        [] -> judge_first(Plant, Answer);
        Impossible -> {wrong, Impossible}
    end.

%% Not even a small part of a process that waits for nothing is a timer.
never(crowded) -> [<<"timer">>];
never(_) -> [].

%% Who keeps a server from running keeps its client, too.
judge_first(#{causes := Causes, process := Process, client := Client}, #{<<"parts">> := [First | _]}) ->
    #{<<"cause">> := Cause, <<"process_pid">> := Pid} = First,
    Where = [Process] ++ [Client || Causes =:= [scheduler]],
    Right = lists:member(binary_to_atom(Cause), Causes) andalso
        lists:member(binary_to_list(Pid), [pid_to_list(P) || P <- Where]),
    case Cause of
        _ when Right -> right;
        <<"unknown">> -> unknown;
        _ -> {wrong, First}
    end.

%% The parts are the time, and the time is that of the program.
check_sums(#{ns := Ns}, #{<<"total_ns">> := Total, <<"parts">> := Parts}) ->
    Sum = lists:sum([N || #{<<"ns">> := N} <- Parts]),
    ?assert(abs(Sum - Total) =< Total div 100),
    ?assert(Total =< Ns),
    Ns - Total.

variants() ->
    list_to_integer(os:getenv("KYMO_ANSWERS", integer_to_list(?VARIANTS))).

%% ---- tests ----

planted(Config) ->
    Results = [
        one(Config, Kind, Seed)
     || Seed <- lists:seq(1, variants()), Kind <- kymo_answers_work:kinds()
    ],
    Wrong = [{K, S, W} || {K, S, {wrong, W}} <- Results],
    Unknown = [{K, S} || {K, S, unknown} <- Results],
    ct:pal("~b programs, ~b right; unknown: ~0p~nwrong: ~0p", [
        length(Results), length(Results) - length(Wrong) - length(Unknown), Unknown, Wrong
    ]),
    ?assert((length(Wrong) + length(Unknown)) * 20 =< length(Results)).

%% What other programs do to this machine is a cause, too: what was not named is planted
%% once more.
one(Config, Kind, Seed) ->
    case one(Config, Kind, Seed, "") of
        {_, _, right} = Right ->
            Right;
        First ->
            Second = one(Config, Kind, Seed, "-again"),
            ct:pal("~0p, then ~0p", [First, Second]),
            Second
    end.

one(Config, Kind, Seed, Again) ->
    Dir = filename:join(?config(dir, Config), atom_to_list(Kind) ++ integer_to_list(Seed) ++ Again),
    #{client := Client} = Plant = record(Dir, events(), Kind, Seed),
    Answer = why(Dir, Client),
    _ = check_sums(Plant, Answer),
    Judged = judge(Kind, Plant, Answer),
    Judged =:= right andalso file:del_dir_r(Dir),
    {Kind, Seed, Judged}.

%% With messages and calls alone nothing is said about schedulers, but the server two
%% hops away is still named, and a backlog too.
without_scheduling(Config) ->
    [
        begin
            Dir = filename:join(?config(dir, Config), atom_to_list(Kind)),
            #{client := Client, process := Process} =
                Plant = record(Dir, [return_to, messages], Kind, 17),
            #{<<"parts">> := [#{<<"cause">> := Cause, <<"process_pid">> := Pid} | _]} =
                Answer = why(Dir, Client),
            _ = check_sums(Plant, Answer),
            ?assertEqual({Named, pid_to_list(Process)}, {Cause, binary_to_list(Pid)})
        end
     || {Kind, Named} <- [{downstream, <<"active">>}, {backlog, <<"queue">>}]
    ].
