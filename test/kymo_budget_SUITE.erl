%% SPDX-License-Identifier: Apache-2.0
%%
%% The budget of a recorder: what is shed, what is kept and stays exact, what the recording says
%% about it, and how shed events come back. Decisions are tested with given numbers
%% (`decisions'), everything else in the global tracing and, on runtimes that have them, in
%% trace sessions.
-module(kymo_budget_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-compile(export_all).
-compile(nowarn_export_all).

-import(kymo_cli, [until/1]).

all() -> [{group, M} || M <- [decisions | lists:sort(kymo_tracing:modes())]] ++ [exports, many_functions, bad_options, options_of_attach].

groups() ->
    Cases = [functions, kinds, patterns, held_by_another, ends_at_any_time, server_killed, untraced, calibration],
    [
        {decisions, [], [loudest_first, kinds_last, slow_mix, burst, comes_back, comes_back_less_often, both_limits, cleared, of_several_nodes]},
        {global, [], Cases},
        {session, [], Cases}
    ].

init_per_group(Group, Config) -> [{mode, Group} | Config].
end_per_group(_, _) -> ok.

init_per_testcase(Case, Config) ->
    Name = lists:concat([Case, "_", erlang:unique_integer([positive])]),
    Dir = filename:join(?config(priv_dir, Config), Name),
    ok = file:make_dir(Dir),
    [{dir, Dir} | Config].

end_per_testcase(_, _) -> ok.

%% ---- decisions ------------------------------------------------------------------------

-define(COSTS, #{calls => 100, return_tos => 100, messages => 100, running => 200, garbage_collection => 400,
                 procs => 100, ports => 100, other => 100}).
-define(F(Name), {m, Name, 1}).

%% One line for several nodes: some may have shed functions, and others kinds of events.
of_several_nodes(_) ->
    Shed = fun(Functions, Kinds) ->
        #{cpu => 5, used => 0.5, cost => 2.5, times => 1, shed => #{functions => Functions, events => Kinds}}
    end,
    Line = fun(Budgets) -> lists:flatten(kymo_budget:format(Budgets)) end,
    "" = Line([]),
    "  cost 2.5 %" = Line([Shed([], [])]),
    "  cost 2.5 %  shed m:f/1" = Line([Shed([], []), Shed([?F(f)], [])]),
    "  cost 2.5 %  shed m:f/1 and 1 more" = Line([Shed([], [running]), Shed([?F(f)], [])]),
    "  cost 2.5 %  shed m:f/1 and 2 more" = Line([Shed([?F(f)], [running]), Shed([?F(g)], [running])]),
    "  cost 2.5 %  shed messages, running" = Line([Shed([], [running]), Shed([], [messages, running])]),
    ok.

%% So many events per second for each function, and as given for the other kinds.
sample(Functions, Kinds) ->
    Zero = maps:map(fun(_, _) -> 0 end, ?COSTS),
    Calls = lists:sum([N || {_, N} <- Functions]),
    {maps:merge(Zero, Kinds#{calls => Calls}), Functions}.

total({Counts, _}) -> lists:sum(maps:values(Counts)).

%% Runs one thread at this rate for so many milliseconds and returns the last decision. The
%% state is the time, the number of events so far, and the budget.
run(Rate, For, State) ->
    lists:foldl(fun(_, {_, S}) -> tick(Rate, S) end, {ok, State}, lists:seq(1, For div kymo_budget:interval())).

tick(Rate, {Now, Offered, B}) ->
    At = Now + kymo_budget:interval(),
    More = Offered + Rate * kymo_budget:interval() div 1000,
    {What, Next} = kymo_budget:tick({At, [More]}, At, B),
    {What, {At, More, Next}}.

new(Option) -> element(2, tick(0, {0, 0, kymo_budget:new(Option, ?COSTS)})).

sampled(Sample, State) -> sampled(Sample, fun(_) -> true end, State).

sampled(Sample, IsOurs, {Now, Offered, B}) ->
    {What, Next} = kymo_budget:sampled(Sample, IsOurs, Now, B),
    {What, {Now, Offered, Next}}.

shed_now(Items, {Now, Offered, B}) -> {Now, Offered, kymo_budget:shed(Items, Now, B)}.
back_now(Items, {Now, Offered, B}) -> {Now, Offered, kymo_budget:given_back(Items, Now, B)}.
describe({_, _, B}) -> kymo_budget:describe(B).

%% After two seconds of this load.
loaded(Option, Sample) ->
    {{sample, _}, S} = run(total(Sample), 2000, new(Option)),
    S.

%% What is then shed.
shed_at(Option, Sample) -> sampled(Sample, loaded(Option, Sample)).

names(Items) -> [Item || {Item, _} <- Items].

loudest_first(_) ->
    Sample = sample([{?F(a), 100}, {?F(b), 50000}, {?F(c), 300}, {?F(d), 20000}], #{}),
    %% 60 % of 1,000 may be kept: the two quiet functions are.
    {{shed, Items}, S} = shed_at(#{events => 1000}, Sample),
    ?assertEqual([?F(b), ?F(d)], names(Items)),
    ?assertMatch(#{shed := #{functions := [], events := []}, times := 0}, describe(S)),
    #{shed := #{functions := Gone, events := []}, times := 1, used := Used} = describe(shed_now(Items, S)),
    ?assertEqual([?F(b), ?F(d)], Gone),
    ?assert(Used < 0.6),
    %% Events that the recorder did not ask for cannot be shed.
    Loaded = loaded(#{events => 1000}, Sample),
    {{shed, Others}, _} = sampled(Sample, fun(Item) -> Item =/= ?F(b) end, Loaded),
    ?assertEqual([?F(a), ?F(c), ?F(d)], lists:sort(names(Others))),
    ?assertMatch({ok, _}, sampled(Sample, fun(_) -> false end, Loaded)).

kinds_last(_) ->
    %% Shedding one function is enough.
    {{shed, Few}, _} = shed_at(#{events => 1000}, sample([{?F(a), 900}, {?F(b), 50}], #{messages => 400})),
    ?assertEqual([?F(a)], names(Few)),
    %% Shedding the function is not enough: the loudest kind is shed, and then the function can
    %% stay.
    {{shed, Kinds}, _} = shed_at(#{events => 1000}, sample([{?F(a), 50}], #{messages => 40000, running => 300})),
    ?assertEqual([messages], names(Kinds)),
    {{shed, All}, _} = shed_at(#{events => 1000}, sample([], #{messages => 40000, running => 30000, procs => 5})),
    ?assertEqual([messages, running], lists:sort(names(All))).

%% The average cost of an event is learnt, even if only a few events are expensive.
slow_mix(_) ->
    %% 30,000 collections of 400 ns and as many calls of 100 ns: 1.5 %.
    Mix = sample([{?F(a), 30000}], #{garbage_collection => 30000}),
    {ok, S} = shed_at(#{cpu => 2}, Mix),
    #{used := Used} = describe(S),
    ?assert(abs(Used - 0.75) < 0.05),
    %% 60,000 collections: 2.4 %.
    {{shed, [{garbage_collection, _}]}, _} = shed_at(#{cpu => 2}, sample([], #{garbage_collection => 60000})),
    %% No sample is taken if even the most expensive events would stay within the budget.
    ?assertMatch({ok, _}, run(1000, 2000, new(#{cpu => 3}))).

%% A load of many times the budget is noticed in the first interval.
burst(_) ->
    {ok, Idle} = run(0, 1000, new(#{cpu => 5})),
    ?assertMatch({{sample, _}, _}, tick(10000000, Idle)).

comes_back(_) ->
    Sample = sample([{?F(a), 10000}, {?F(b), 100}], #{}),
    {{shed, Items}, S0} = shed_at(#{events => 1000}, Sample),
    [?F(a)] = names(Items),
    %% Not immediately, and not while the remaining events are frequent.
    {ok, S1} = run(100, 4000, shed_now(Items, S0)),
    {ok, S2} = run(700, 60000, S1),
    S3 = until_back(100, S2, 100),
    ?assertMatch(#{shed := #{functions := []}, times := 2}, describe(back_now([?F(a)], S3))).

%% Runs until shed items may come back, for at most so many intervals.
until_back(Rate, S, N) when N > 0 ->
    case tick(Rate, S) of
        {{give_back, [?F(a)]}, Next} -> Next;
        {ok, Next} -> until_back(Rate, Next, N - 1)
    end.

%% An item that is loud each time it comes back does so less and less often.
comes_back_less_often(_) ->
    Sample = sample([{?F(a), 10000}, {?F(b), 100}], #{}),
    {{shed, Items}, S} = shed_at(#{events => 1000}, Sample),
    {_, Times} = lists:foldl(
        fun(_, {{From, _, _} = Shed, Acc}) ->
            {At, _, _} = Ready = until_back(100, Shed, 100000),
            {{sample, _}, Loud} = run(10100, 1000, back_now([?F(a)], Ready)),
            {{shed, Again}, Sampled} = sampled(Sample, Loud),
            {shed_now(Again, Sampled), [At - From | Acc]}
        end,
        {shed_now(Items, S), []},
        lists:seq(1, 4)
    ),
    [Last | Earlier] = Times,
    ?assertEqual(lists:reverse(lists:sort(Times)), Times),
    ?assert(Last > 5 * lists:last(Earlier)).

both_limits(_) ->
    Sample = sample([{?F(a), 5000}, {?F(b), 100}], #{garbage_collection => 200000}),
    %% A kind must be shed because of its cost even if the number of events is within the
    %% budget.
    {{shed, Items}, _} = shed_at(#{events => 1 bsl 30, cpu => 2}, Sample),
    ?assert(lists:member(garbage_collection, names(Items))),
    ?assertMatch({ok, _}, run(total(Sample), 2000, new(#{events => 1 bsl 30}))).

cleared(_) ->
    {{shed, Items}, S} = shed_at(#{events => 1000}, sample([{?F(a), 10000}], #{})),
    {_, _, B} = shed_now(Items, S),
    ?assertMatch(#{shed := #{functions := [], events := []}}, kymo_budget:describe(kymo_budget:cleared(B))).

%% ---- recordings --------------------------------------------------------------------------

%% A loud function is shed, a quiet one stays and is exact, the recording says so, and the loud
%% one comes back once it is quiet.
functions(Config) ->
    {R, Rec} = start(Config, #{events => 8000}),
    {ok, _} = kymo:trace(R, #{functions => ["kymo_budget_SUITE:loud/1", "kymo_budget_SUITE:quiet/1"]}),
    Quiet = spawn_link(fun() -> quietly(0) end),
    Loud = spawn_link(fun() -> loudly(0) end),
    ?assert(until(fun() -> shed(R) =:= {[{?MODULE, loud, 1}], []} end)),
    Before = calls(Loud),
    ?assert(until(fun() -> calls(Loud) >= Before + 1000 end)),
    Calls = stopped(Loud),
    back(R),
    [I = loud(I) || I <- lists:seq(1, 10)],
    Quietly = stopped(Quiet),
    #{shed := #{functions := [], events := []}, times := Times} = maps:get(budget, stop(R)),
    ?assert(Times >= 2),
    ?assertEqual(Quietly, count(Rec, "select count(*) n from events where function = 'kymo_budget_SUITE:quiet/1'")),
    ?assert(count(Rec, "select count(*) n from events where function = 'kymo_budget_SUITE:loud/1'") =< Calls - 1000 + 10),
    %% No calls in the interval that the recording names, and all calls after it.
    ?assertEqual(
        10,
        count(Rec, "select count(*) n from events where function = 'kymo_budget_SUITE:loud/1' "
                   "and time_ns > (select max(to_ns) from shed)")
    ),
    [#{<<"function">> := <<"kymo_budget_SUITE:loud/1">>, <<"events">> := null} | _] =
        rows(Rec, "select * from shed where function is not null"),
    #{<<"budget">> := #{<<"events_per_second">> := 8000, <<"shed">> := [#{<<"function">> := _, <<"to_ns">> := To} | _]},
      <<"complete">> := false} = json(["info", "-q", "--json", Rec]),
    ?assert(is_integer(To)),
    {1, Warned} = kymo_cli:run(["info", "--strict", Rec]),
    ?assertMatch({match, _}, re:run(Warned, "left out calls of kymo_budget_SUITE:loud/1")),
    %% Rates refer to the time in which the calls were recorded.
    #{<<"a_ns">> := All, <<"rows">> := Rows} = json(["diff", "-q", "--json", Rec, Rec]),
    [LoudNs, QuietNs] = [
        hd([Ns || #{<<"function">> := F, <<"a">> := #{<<"recorded_ns">> := Ns}} <- Rows, F =:= Function])
     || Function <- [<<"kymo_budget_SUITE:loud/1">>, <<"kymo_budget_SUITE:quiet/1">>]
    ],
    Shed = count(Rec, "select sum(to_ns - from_ns) n from shed where function = 'kymo_budget_SUITE:loud/1'"),
    ?assert(Shed > 0),
    ?assert(LoudNs =< All - Shed + 1000 andalso LoudNs > 0),
    ?assert(QuietNs > All - Shed div 2 andalso QuietNs =< All).

%% Kinds of events are shed as a whole; the others stay exact.
kinds(Config) ->
    {R, Rec} = start(Config, #{events => 8000}),
    Echo = spawn_link(fun echo/0),
    Chatty = spawn(fun() -> receive go -> chattily(Echo, 0) end end),
    {ok, _} = kymo:trace(R, #{processes => [Chatty, self()], events => [messages, procs]}),
    Chatty ! go,
    ?assert(until(fun() -> shed(R) =:= {[], [messages]} end)),
    Spawned = [spawn(fun() -> ok end) || _ <- lists:seq(1, 20)],
    _ = stopped(Chatty),
    back(R),
    Mark = spawn_link(fun() -> receive _ -> ok end end),
    Mark ! {mark, self()},
    _ = stop(R),
    unlink(Echo),
    exit(Echo, kill),
    Pids = [list_to_binary(pid_to_list(P)) || P <- Spawned],
    Seen = [P || #{<<"peer_pid">> := P} <- rows(Rec, "select peer_pid from events where event = 'spawn'")],
    ?assertEqual([], Pids -- Seen),
    [#{<<"events">> := <<"messages">>, <<"function">> := null} | _] = rows(Rec, "select * from shed"),
    ?assertEqual(
        1,
        count(Rec, "select count(*) n from events where event = 'send' and peer_pid = '" ++ pid_to_list(Mark) ++ "'")
    ).

%% Every command that reads the recording, and every export, shows what is missing and from when
%% to when. Times are compared with the table `shed'.
exports(Config) ->
    {R, Rec} = start(Config, #{events => 8000}),
    {ok, _} = kymo:trace(R, #{functions => ["kymo_budget_SUITE:loud/1", "kymo_budget_SUITE:quiet/1"], events => [messages]}),
    1 = quiet(1),
    _ = supervisor:which_children(kernel_sup),
    Loud = spawn_link(fun() -> loudly(0) end),
    ?assert(until(fun() -> shed(R) =:= {[{?MODULE, loud, 1}], []} end)),
    _ = stopped(Loud),
    back(R),
    _ = supervisor:which_children(kernel_sup),
    1 = quiet(1),
    _ = stop(R),
    Export = fun(Format) ->
        Out = Rec ++ "." ++ Format,
        {0, _} = kymo_cli:run(["export", Format, "-q", Rec, "-o", Out]),
        Out
    end,
    Shed = rows(Rec, "select *, to_ns - from_ns as duration from shed where function is not null"),
    Durations = lists:sort([D || #{<<"duration">> := D} <- Shed]),
    [_ | _] = Durations,
    %% Perfetto: slices on a separate track.
    {Slices, _} = kymo_perfetto:read(Export("perfetto")),
    Left = [{From, To} || {<<"left out to keep the budget">>, From, To, #{<<"left_out">> := What}} <- Slices,
                          string:find(What, "kymo_budget_SUITE:loud/1") =/= nomatch],
    ?assertEqual(lists:sum(Durations), lists:sum([To - From || {From, To} <- Left])),
    %% ndjson: the table `shed'.
    {ok, Lines} = file:read_file(filename:join(Export("ndjson"), "shed.ndjson")),
    ?assertEqual(count(Rec, "select count(*) n from shed"), length(binary:matches(Lines, <<"\n">>))),
    %% OpenTelemetry: resource attributes.
    {ok, Otlp} = file:read_file(Export("otlp")),
    [Line | _] = binary:split(Otlp, <<"\n">>),
    #{<<"resourceSpans">> := [#{<<"resource">> := #{<<"attributes">> := Attributes}}]} =
        kymo_cli:json(unicode:characters_to_list([Line, $\n])),
    [Text] = [T || #{<<"key">> := <<"kymo.shed">>, <<"value">> := #{<<"stringValue">> := T}} <- Attributes],
    ?assertNotEqual(nomatch, string:find(Text, "kymo_budget_SUITE:loud/1")),
    [?assertEqual(<<"8000">>, N) || #{<<"key">> := <<"kymo.budget.events">>, <<"value">> := #{<<"intValue">> := N}} <- Attributes],
    %% CTF: the environment of the trace, read with babeltrace2's library.
    Script = "import sys, bt2\n"
        "for m in bt2.TraceCollectionMessageIterator(sys.argv[1]):\n"
        "    if type(m) is bt2._StreamBeginningMessageConst:\n"
        "        e = m.stream.trace.environment\n"
        "        [print(e['shed_%d_to' % i] - e['shed_%d_from' % i]) for i in range(e['shed'])\n"
        "         if e['shed_%d' % i] == 'kymo_budget_SUITE:loud/1' and e['budget_events'] == 8000]\n"
        "        break\n",
    case kymo_cli:command("/usr/bin/python3", ["-c", Script, Export("ctf")]) of
        {0, Said} ->
            ?assertEqual(Durations, lists:sort([binary_to_integer(D) || D <- binary:split(Said, <<"\n">>, [global, trim_all])]));
        {_, Why} ->
            {match, _} = re:run(Why, "No module named 'bt2'"),
            {skip, "python3-bt2 is not installed: the CTF export was NOT checked"}
    end.

%% A shed function stays shed when patterns that match it are added and removed.
patterns(Config) ->
    {R, Rec} = start(Config, #{events => 8000}),
    MFA = {?MODULE, loud, 1},
    {ok, _} = kymo:trace(R, #{functions => ["kymo_budget_SUITE:loud/1", "kymo_budget_SUITE:quiet/1"]}),
    Loud = spawn_link(fun() -> loudly(0) end),
    ?assert(until(fun() -> shed(R) =:= {[MFA], []} end)),
    {ok, _} = kymo:trace(R, #{functions => "kymo_budget_SUITE:loud/1 -> return"}),
    {ok, _} = kymo:trace(R, #{functions => "kymo_budget_SUITE:echo/0"}),
    ?assertEqual({[MFA], []}, shed(R)),
    ok = kymo:untrace(R, #{processes => none, functions => "kymo_budget_SUITE:echo/0"}),
    ok = kymo:untrace(R, #{processes => none, functions => "kymo_budget_SUITE:loud/1 -> return"}),
    _ = stopped(Loud),
    back(R),
    %% As the remaining pattern specifies: without returns.
    1 = loud(1),
    _ = stop(R),
    Since = "where time_ns > (select max(to_ns) from shed) and function = 'kymo_budget_SUITE:loud/1'",
    ?assertEqual([#{<<"event">> => <<"call">>}], rows(Rec, "select event from events " ++ Since)).

%% Without sessions, another tracer may have traced what is to come back: it then stays shed
%% until that tracer is gone, and is recorded afterwards.
held_by_another(Config) ->
    held_by_another(?config(mode, Config), Config).

held_by_another(session, _) ->
    {skip, "others set nothing in a session"};
held_by_another(global, Config) ->
    {R, Rec} = start(Config, #{events => 8000}),
    MFA = {?MODULE, loud, 1},
    {ok, _} = kymo:trace(R, #{functions => ["kymo_budget_SUITE:loud/1", "kymo_budget_SUITE:quiet/1"]}),
    Loud = spawn_link(fun() -> loudly(0) end),
    ?assert(until(fun() -> shed(R) =:= {[MFA], []} end)),
    1 = erlang:trace_pattern(MFA, [{'_', [], [{return_trace}]}], [local]),
    _ = stopped(Loud),
    #{budget := #{times := Times}} = kymo:info(R),
    ?assert(until(fun() -> maps:get(times, maps:get(budget, kymo:info(R))) > Times end)),
    ?assertEqual({[MFA], []}, shed(R)),
    ?assertEqual({match_spec, [{'_', [], [{return_trace}]}]}, erlang:trace_info(MFA, match_spec)),
    1 = erlang:trace_pattern(MFA, false, [local]),
    back(R),
    1 = loud(1),
    _ = stop(R),
    Since = "where time_ns > (select max(to_ns) from shed) and function = 'kymo_budget_SUITE:loud/1'",
    ?assertEqual([#{<<"event">> => <<"call">>}], rows(Rec, "select event from events " ++ Since)).

%% Stopping while items are shed leaves nothing behind.
ends_at_any_time(Config) ->
    Loud = [spawn_link(fun() -> loudly(0) end) || _ <- [1, 2]],
    [
        begin
            {R, _} = start(Config, #{cpu => 0.01}),
            {ok, _} = kymo:trace(R, #{functions => ["kymo_budget_SUITE:_/_", "lists:_/_", "maps:_/_"]}),
            case Round rem 3 of
                0 -> ok;
                1 -> true = until(fun() -> element(1, shed(R)) =/= [] end);
                2 -> ok = kymo:untrace(R)
            end,
            _ = stop(R),
            nothing_left()
        end
     || Round <- lists:seq(0, 8)
    ],
    [stopped(L) || L <- Loud],
    ok.

%% The janitor knows what is set and what is shed.
server_killed(Config) ->
    {{kymo_recorder, Pid, _, _} = R, Rec} = start(Config, #{events => 8000}),
    %% As if the server had been killed while it measured the cost of events.
    Calibration = filename:join(Rec, "calibration"),
    {ok, _} = kymo_tracer:open(#{dir => Calibration, memory => 4 bsl 20, dict_size => 65536}),
    {ok, _} = kymo:trace(R, #{functions => ["kymo_budget_SUITE:loud/1", "kymo_budget_SUITE:quiet/1"]}),
    Loud = spawn_link(fun() -> loudly(0) end),
    ?assert(until(fun() -> element(1, shed(R)) =/= [] end)),
    exit(Pid, kill),
    ?assert(until(fun() -> kymo:stop(R) =:= {error, already_stopped} end)),
    ?assert(until(fun() -> element(2, erlang:trace_info({?MODULE, quiet, 1}, traced)) =:= false end)),
    _ = stopped(Loud),
    ?assert(until(fun() -> not filelib:is_file(Calibration) end)),
    nothing_left().

%% After untrace/1 the events are missing because they are not traced, and the recording says
%% so.
untraced(Config) ->
    {R, Rec} = start(Config, #{events => 8000}),
    Spec = #{functions => ["kymo_budget_SUITE:loud/1", "kymo_budget_SUITE:quiet/1"], events => [procs]},
    {ok, _} = kymo:trace(R, Spec),
    Loud = spawn_link(fun() -> loudly(0) end),
    ?assert(until(fun() -> element(1, shed(R)) =/= [] end)),
    ok = kymo:untrace(R),
    ?assertEqual({[], []}, shed(R)),
    _ = stopped(Loud),
    {ok, _} = kymo:trace(R, Spec),
    1 = loud(1),
    _ = stop(R),
    ?assertEqual(0, count(Rec, "select count(*) n from shed where to_ns is null")),
    ?assertEqual(1, count(Rec, "select count(*) n from events where function = 'kymo_budget_SUITE:loud/1' "
                               "and time_ns > (select max(to_ns) from shed)")).

%% The shed functions fit into one note or into several, however many there are.
many_functions(Config) ->
    {R, Rec} = start(Config, #{events => 8000}),
    {_, State} = kymo:tracer(R),
    Functions = lists:usort([{M, F, A} || M <- [erlang, lists, maps, string, file, ets, gen, gen_server, io_lib, binary, unicode, re],
                                          {F, A} <- M:module_info(exports)]),
    ?assert(length(Functions) > 512),
    ok = kymo_tracer:note_shed(State, shed, [procs], Functions),
    ok = kymo_tracer:note_shed(State, given_back, [procs], tl(Functions)),
    _ = stop(R),
    ?assertEqual(length(Functions) + 1, count(Rec, "select count(distinct coalesce(function, events)) n from shed")),
    ?assertEqual(1, count(Rec, "select count(*) n from shed where to_ns is null")).

%% Calibration measures a cost on every runtime, and leaves nothing in the folder.
calibration(Config) ->
    Rec = ?config(dir, Config),
    Dir = filename:join(Rec, "calibration"),
    Costs = kymo_cost:measure(?config(mode, Config), Rec, []),
    ?assertEqual({error, enoent}, file:list_dir(Dir)),
    [?assert(Ns > 0 andalso Ns < 1000000) || Ns <- maps:values(Costs)],
    ?assertEqual(lists:sort(maps:keys(?COSTS)), lists:sort(maps:keys(Costs))),
    nothing_left(),
    %% A process that another tracer traces cannot be measured.
    Collector = spawn_link(fun echo/0),
    erlang:trace(new_processes, true, [procs, {tracer, Collector}]),
    ?assertEqual(lists:sort(maps:keys(?COSTS)), lists:sort(maps:keys(kymo_cost:measure(?config(mode, Config), Rec, [])))),
    erlang:trace(new_processes, false, [all]),
    ?assertEqual({error, enoent}, file:list_dir(Dir)),
    unlink(Collector),
    exit(Collector, kill).

%% ---- options -------------------------------------------------------------------------------

bad_options(Config) ->
    Bad = [
        #{}, 5, #{cpu => 0}, #{cpu => 101}, #{cpu => "5"}, #{events => 0}, #{events => 1.5}, #{percent => 5},
        #{cpu => 5, percent => 5}, off, [{cpu, 5}]
    ],
    [
        begin
            {error, Reason} = kymo:start(#{dir => filename:join(?config(dir, Config), "rec"), budget => B}),
            ?assertEqual({bad_option, budget, B}, Reason),
            Text = unicode:characters_to_list(kymo:format_error(Reason)),
            ?assertMatch({match, _}, re:run(Text, "allowed: none, a map of cpu"))
        end
     || B <- Bad
    ],
    [
        begin
            {ok, R} = kymo:start(#{dir => filename:join(?config(dir, Config), integer_to_list(N)), budget => B}),
            ?assertMatch({N, {ok, #{budget := _}}}, {N, kymo:stop(R)})
        end
     || {N, B} <- [{1, none}, {2, #{cpu => 0.01}}, {3, #{cpu => 100}}, {4, #{events => 1}}, {5, #{cpu => 5, events => 7}}]
    ].

options_of_attach(_) ->
    Budget = fun(Args) -> maps:get(budget, kymo_attach_options:start(Args)) end,
    ?assertEqual(#{cpu => 5}, Budget([])),
    ?assertEqual(#{cpu => 2.5}, Budget([{"budget", "2.5%"}])),
    ?assertEqual(#{events => 100000}, Budget([{"budget", "100000/s"}])),
    ?assertEqual(none, Budget([{"budget", "off"}])),
    [
        ?assertThrow({error, {bad_budget, Text}}, Budget([{"budget", Text}]))
     || Text <- ["5", "%", "1.5/s", "-1%", "five", "5 %", "none"]
    ].

%% ---- helpers -------------------------------------------------------------------------------

start(Config, Budget) ->
    Rec = filename:join(?config(dir, Config), integer_to_list(erlang:unique_integer([positive]))),
    Mode = proplists:get_value(mode, Config, auto),
    {ok, R} = kymo:start(#{dir => Rec, tracing => Mode, budget => Budget, names => 0}),
    {R, Rec}.

stop(R) ->
    {ok, Info} = kymo:stop(R),
    Info.

shed(R) ->
    #{budget := #{shed := #{functions := Functions, events := Kinds}}} = kymo:info(R),
    {Functions, Kinds}.

nothing_left() ->
    ?assertEqual([], [P || P <- processes(), {flags, [_ | _]} <- [erlang:trace_info(P, flags)]]),
    ?assertEqual({flags, []}, erlang:trace_info(new_processes, flags)),
    [
        ?assertEqual({MFA, {traced, false}}, {MFA, erlang:trace_info(MFA, traced)})
     || MFA <- [{?MODULE, loud, 1}, {?MODULE, quiet, 1}, {lists, reverse, 1}, {maps, get, 2}, {kymo_cost, probe, 1}]
    ].

%% One line for each row.
rows(Rec, Query) ->
    {0, Text} = kymo_cli:run(["sql", "-q", "--json", Rec, Query]),
    [kymo_cli:json(unicode:characters_to_list([Line, $\n])) || Line <- binary:split(Text, <<"\n">>, [global, trim_all])].

json(Args) ->
    {0, Text} = kymo_cli:run(Args),
    kymo_cli:json(unicode:characters_to_list(Text)).

%% A loud item stays shed for some seconds, twice as long if it was twice as loud.
back(R) -> ?assert(lists:any(fun(_) -> until(fun() -> shed(R) =:= {[], []} end) end, lists:seq(1, 6))).

count(Rec, Query) ->
    [#{<<"n">> := N}] = rows(Rec, Query),
    N.

%% ---- workloads with known rates --------------------------------------------------------------

loud(N) -> N.
quiet(N) -> N.

%% 40,000 calls per second on average, even if the process gets its scheduler late.
loudly(Calls) ->
    Start = erlang:monotonic_time(microsecond),
    loudly(Calls, Start).

loudly(Calls, Start) ->
    Due = (erlang:monotonic_time(microsecond) - Start) div 25,
    Now = call(Calls, Due),
    receive
        {stop, From} -> From ! {self(), Now};
        {calls, From} -> From ! {self(), Now}, loudly(Now, Start)
    after 1 -> loudly(Now, Start)
    end.

call(N, Due) when N >= Due -> N;
call(N, Due) ->
    N = ?MODULE:loud(N),
    call(N + 1, Due).

quietly(Calls) ->
    Calls = ?MODULE:quiet(Calls),
    receive
        {stop, From} -> From ! {self(), Calls + 1}
    after 10 -> quietly(Calls + 1)
    end.

echo() ->
    receive
        {From, Message} when is_pid(From) -> From ! {self(), Message};
        _ -> ok
    end,
    echo().

%% Four events per round: to and from the other process.
chattily(Echo, N) ->
    [begin Echo ! {self(), I}, receive {Echo, I} -> ok end end || I <- lists:seq(1, 40)],
    receive
        {stop, From} -> From ! {self(), N + 40}
    after 1 -> chattily(Echo, N + 40)
    end.

stopped(Pid) -> asked(Pid, stop).
calls(Pid) -> asked(Pid, calls).

asked(Pid, What) ->
    Pid ! {What, self()},
    receive
        {Pid, N} -> N
    end.
