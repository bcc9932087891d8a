%% SPDX-License-Identifier: Apache-2.0
%%
%% `kymo why' on programs with planted causes. The first cause that it names must be the planted
%% one, with the planted size. The parts of an answer must add up to the duration of the
%% request, and that duration must match the program's own measurement and Perfetto's. Each kind
%% of cause has many variants, in how it is planted and in how it is recorded, chosen by seed. A
%% busy machine adds causes of its own: a few answers may be `unknown', but none may be wrong
%% twice.
%%
%% Environment variables: KYMO_ANSWERS is the number of variants of each kind; KYMO_ANSWERS_SEED
%% is the seed of the first one, and the others count up from it; KYMO_ANSWERS_KINDS restricts
%% the run to these kinds.
-module(kymo_answers_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-compile(export_all).
-compile(nowarn_export_all).

%% Variants of each kind: more than 200 in all.
-define(VARIANTS, 13).

all() -> [planted, without_scheduling, suspended_before, same_in_perfetto].

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

%% The folder of erl_nif.h: given by the build, else that of the installed runtime.
include_dir() ->
    Root = code:root_dir(),
    Dirs = [D || D <- [os:getenv("ERTS_INCLUDE_DIR")], is_list(D)] ++
        [filename:join([Root, "erts-" ++ erlang:system_info(version), "include"]),
         filename:join([Root, "usr", "include"])],
    hd([Dir || Dir <- Dirs, filelib:is_regular(filename:join(Dir, "erl_nif.h"))]).

%% ---- one variant ----

%% How a variant is recorded: always the same for a kind and a seed, and with at least the
%% events that show the cause.
recording(Kind, Seed) ->
    Rand0 = rand:seed_s(exsss, {erlang:phash2(Kind), Seed, 15}),
    {Policy, Rand1} = one_of([overwrite, discard], Rand0),
    {Functions, Rand2} = one_of([all, callbacks], Rand1),
    {Events, _} = one_of(event_sets(Kind), Rand2),
    #{policy => Policy, functions => Functions, events => Events}.

one_of(List, Rand0) ->
    {N, Rand} = rand:uniform_s(length(List), Rand0),
    {lists:nth(N, List), Rand}.

event_sets(Kind) ->
    [complete, running_procs, no_returns, no_processes] ++
        [no_collections || Kind =/= collection] ++
        %% Its answer comes from a process that receives the request as a plain message.
        [no_scheduling || Kind =/= asking].

events(complete) -> [return_to, messages, procs, running, garbage_collection];
events(running_procs) -> [return_to, messages, procs, running_procs, garbage_collection];
events(no_returns) -> [messages, procs, running, garbage_collection];
events(no_processes) -> [return_to, messages, running, garbage_collection];
events(no_collections) -> [return_to, messages, procs, running];
events(no_scheduling) -> [return_to, messages].

%% If all functions are traced, a process that spins makes calls all the time.
functions(all) ->
    {256 bsl 20, ["kymo_answers_work:_/_", "gen_server:call/_", "ets:insert/2", "timer:sleep/1" | suspending()]};
functions(callbacks) ->
    {32 bsl 20, ["kymo_answers_work:handle_call/3" | suspending()]}.

suspending() -> [{erlang, suspend_process, 1}, {erlang, resume_process, 1}].

record(Dir, #{policy := Policy, functions := Which, events := Events}, Variant) ->
    {Memory, Functions} = functions(Which),
    {ok, R} = kymo:start(#{dir => Dir, owner => none, policy => Policy, memory => Memory}),
    {ok, _} = kymo:trace(R, #{functions => Functions, events => events(Events)}),
    try kymo_answers_work:plant(Variant) after kymo:stop(R) end.

%% The answers for the client's only request: a list of one, or empty if it was not found.
why(Dir, Client) ->
    {0, Out} = kymo_cli:run(["why", "--json", "--quiet", "--pid", pid_to_list(Client), Dir]),
    #{<<"answers">> := Answers} = kymo_cli:json(unicode:characters_to_list(Out)),
    Answers.

%% right | unknown | {wrong, What}.
judge(_, _, _, []) ->
    unknown;
judge(Kind, Recording, #{ms := Ms} = Plant, [#{<<"parts">> := Parts}]) ->
    Impossible = [P || #{<<"cause">> := Cause} = P <- Parts, lists:member(Cause, never(Kind))],
    Planted = lists:sum([N || #{<<"ns">> := N} = P <- Parts, is_of_plant(Plant, P)]),
    case hd(Parts) of
        _ when Impossible =/= [] -> {wrong, {impossible, Impossible}};
        #{<<"cause">> := <<"unknown">>} -> unknown;
        First ->
            case is_planted(Recording, Plant, First) of
                true when Planted >= Ms * 1000000 -> right;
                true -> {wrong, {too_short, Planted, Ms, Parts}};
                false -> {wrong, Parts}
            end
    end.

%% A process that waits for nothing must not have even a small part with a timer.
never(crowded) -> [<<"timer">>];
never(_) -> [].

is_planted(Recording, Plant, #{<<"cause">> := Cause} = Part) ->
    is_of_plant(Plant, Part) andalso lists:member(binary_to_atom(Cause), causes(Recording, Plant)).

%% Whatever the planted process did during the request counts. Other programs may keep it from
%% running, which may be reported as unknown.
is_of_plant(_, #{<<"cause">> := <<"unknown">>}) -> true;
is_of_plant(#{where := Where}, #{<<"process_pid">> := Pid}) ->
    lists:member(binary_to_list(Pid), [pid_to_list(P) || P <- Where]).

%% Without scheduling events the answer cannot say what a process did, only which process it
%% was.
causes(#{events := no_scheduling}, #{causes := Causes}) when Causes =/= [queue] -> [active];
causes(_, #{causes := Causes}) -> Causes.

%% The parts add up to the duration, and the duration matches the program's. Returns by how much
%% the program's measurement is longer, as a fraction of it.
check_sums(#{ns := Ns}, #{<<"total_ns">> := Total, <<"parts">> := Parts}) ->
    Sum = lists:sum([N || #{<<"ns">> := N} <- Parts]),
    ?assert(abs(Sum - Total) =< Total div 100),
    ?assert(Total =< Ns),
    (Ns - Total) / Ns.

number(Variable, Default) ->
    list_to_integer(os:getenv(Variable, integer_to_list(Default))).

kinds() ->
    case os:getenv("KYMO_ANSWERS_KINDS") of
        false -> kymo_answers_work:kinds();
        Text -> [list_to_existing_atom(Kind) || Kind <- string:lexemes(Text, " ,")]
    end.

%% ---- tests ----

planted(Config) ->
    First = number("KYMO_ANSWERS_SEED", 1),
    Seeds = lists:seq(First, First + number("KYMO_ANSWERS", ?VARIANTS) - 1),
    Results = [one(Config, Kind, Seed) || Seed <- Seeds, Kind <- kinds()],
    Unknown = [{K, S, R} || {K, S, R, unknown, _} <- Results],
    Wrong = [{K, S, R, W} || {K, S, R, {wrong, W}, _} <- Results],
    Clock = lists:sort([Longer || {_, _, _, _, Longer} <- Results]),
    Named = length(Results) - length(Unknown) - length(Wrong),
    Text = io_lib:format("~b of ~b named first, ~b unknown, ~b wrong (kind, seed, recording)~n~0p~n~0p~n"
                         "the program's clock: ~.3f % longer in the median, ~.3f % at most~n",
                         [Named, length(Results), length(Unknown), length(Wrong), Unknown, Wrong,
                          100 * median(Clock), 100 * lists:last(Clock)]),
    ct:pal("~ts", [Text]),
    ?assertEqual([], Wrong),
    ?assert(Named * 100 >= length(Results) * 95),
    ?assert(median(Clock) =< 0.01).

median(Sorted) -> lists:nth((length(Sorted) + 1) div 2, Sorted).

%% A machine that is busy with other programs suspends threads of the runtime at any time, and a
%% process that could not run looks as if it had done something else. So a wrong answer is tried
%% again with the cause planted once more: it counts as wrong if it is wrong again, and as
%% unknown otherwise.
one(Config, Kind, Seed) ->
    case one(Config, Kind, Seed, "") of
        {_, _, _, {wrong, _}, _} = Wrong ->
            ct:pal("~0p", [Wrong]),
            case one(Config, Kind, Seed, "-again") of
                {_, _, _, {wrong, _}, _} = Again -> Again;
                Other -> setelement(4, Other, unknown)
            end;
        Result ->
            Result
    end.

one(Config, Kind, Seed, Again) ->
    Dir = filename:join(?config(dir, Config), atom_to_list(Kind) ++ integer_to_list(Seed) ++ Again),
    Recording = recording(Kind, Seed),
    #{client := Client} = Plant = record(Dir, Recording, kymo_answers_work:variant(Kind, Seed)),
    Answers = why(Dir, Client),
    Judged = judge(Kind, Recording, Plant, Answers),
    Longer = lists:sum([check_sums(Plant, Answer) || Answer <- Answers]),
    Judged =:= right andalso file:del_dir_r(Dir),
    {Kind, Seed, Recording, Judged, Longer}.

%% With only messages and calls recorded, the answer does not mention schedulers, but it still
%% names the server two hops away, and a backlog.
without_scheduling(Config) ->
    Recording = #{policy => overwrite, functions => all, events => no_scheduling},
    [
        begin
            Dir = filename:join(?config(dir, Config), atom_to_list(Kind)),
            Variant = kymo_answers_work:variant(Kind, 17),
            #{client := Client, where := [Process]} = Plant = record(Dir, Recording, Variant),
            [#{<<"parts">> := [#{<<"cause">> := Cause, <<"process_pid">> := Pid} | _]} = Answer] = why(Dir, Client),
            _ = check_sums(Plant, Answer),
            ?assertEqual({Named, pid_to_list(Process)}, {Cause, binary_to_list(Pid)})
        end
     || {Kind, Named} <- [{downstream, <<"active">>}, {backlog, <<"queue">>}]
    ].

%% The process that suspended the server did so before the request, and its call has already
%% returned.
suspended_before(Config) ->
    Variant = (kymo_answers_work:variant(suspended, 1))#{hops := 0, idle := 500},
    Recording = #{policy => overwrite, functions => all, events => complete},
    #{client := Client} = Plant = record(filename:join(?config(dir, Config), "rec"), Recording, Variant),
    ?assertEqual(right, judge(suspended, Recording, Plant, why(filename:join(?config(dir, Config), "rec"), Client))).

%% In Perfetto, the client's request lasts at least as long as `kymo why' says (from the sending
%% of the request to its reply), and at most as long as the program measured around the call.
same_in_perfetto(Config) ->
    case kymo_trace_processor:find() of
        {ok, _} = Found -> [same_in_perfetto(Config, Found, Kind) || Kind <- [downstream, timer, selective]];
        Skip -> Skip
    end.

same_in_perfetto(Config, TraceProcessor, Kind) ->
    Dir = filename:join(?config(dir, Config), atom_to_list(Kind)),
    Trace = Dir ++ ".pftrace",
    Recording = #{policy => overwrite, functions => all, events => complete},
    #{client := Client, ns := Ns} = record(Dir, Recording, kymo_answers_work:variant(Kind, 1)),
    [#{<<"total_ns">> := Total}] = why(Dir, Client),
    {0, _} = kymo_cli:run(["export", "perfetto", "--quiet", "-o", Trace, "--pid", pid_to_list(Client), Dir]),
    Query = "select max(dur) from slice where name glob 'gen_server:call/*'",
    [[[Duration]]] = kymo_trace_processor:query(TraceProcessor, Trace, [Query]),
    ?assertMatch({Kind, {T, D, N}} when T =< D andalso D =< N, {Kind, {Total, Duration, Ns}}).
