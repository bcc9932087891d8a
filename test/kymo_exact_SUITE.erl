%% SPDX-License-Identifier: Apache-2.0
%%
%% What a runtime with version 2 of the raw interface reports: numbers of messages, when
%% messages leave the mailbox, and times in run queues. The contents of the messages identify
%% them, and the receiver knows the order in which it takes them. On other runtimes none of this
%% is recorded, and no output claims to be exact. Each case runs in a node of its own.
-module(kymo_exact_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-compile(export_all).
-compile(nowarn_export_all).

all() -> [numbers, taken, without_senders, losses, run_queues, run_queues_in_perfetto, perfetto, taken_as_a_tag, without_taken,
          trees, trees_with_returns, trees_in_exports, stops, stops_without_running, stop_is_the_cause].

suite() -> [{timetrap, {minutes, 3}}].

init_per_testcase(Case, Config) ->
    kymo_peer:start([{dir, filename:join(?config(priv_dir, Config), Case)} | Config]).

end_per_testcase(_, Config) -> kymo_peer:stop(Config).

%% Whether the runtime has version 2.
is_exact(Dir) ->
    #{<<"exact">> := #{<<"messages">> := Is, <<"run_queues">> := Is}} = json(["info", "--json", "-q", Dir]),
    Is.

numbers(Config) ->
    Dir = messages(Config, #{}, #{}, 300),
    Events = events(Dir),
    Numbered = [E || #{<<"number">> := _} = E <- Events],
    case is_exact(Dir) of
        false ->
            ?assertEqual([], Numbered),
            ?assertMatch({_, nomatch}, {info, re:run(text(["info", "-q", Dir]), "^exact ", [multiline])});
        true ->
            Sent = maps:from_list([{N, M} || #{<<"event">> := <<"send">>, <<"number">> := N, <<"msg">> := M} <- Events]),
            Received = [{N, M} || #{<<"event">> := <<"receive">>, <<"number">> := N, <<"msg">> := M} <- Events],
            ?assertEqual(600, length([M || {_, M} <- Received, is_ours(M)])),
            ?assertEqual([], [{N, M} || {N, M} <- Received, is_ours(M), maps:find(N, Sent) =/= {ok, M}]),
            ?assertMatch({match, _}, re:run(text(["info", "-q", Dir]), "^exact +senders of messages, waits in mailboxes, waits in run queues$", [multiline]))
    end,
    ?assertEqual(is_exact(Dir), same_contents(Dir, 600)).

%% The receiver first takes all messages of one sender, in order, then those of the other.
taken(Config) ->
    Dir = messages(Config, #{}, #{}, 50),
    Taken = [{M, P} || #{<<"event">> := <<"taken">>, <<"number">> := N, <<"passed">> := P} <- events(Dir),
                       #{<<"event">> := <<"receive">>, <<"number">> := N1, <<"msg">> := M} <- events_of(Dir, <<"receive">>),
                       N1 =:= N, is_ours(M)],
    Rows = rows(Dir, "select wait_ns, taken_ns - sent_ns as inside, fetched_ns <= taken_ns as later, passed "
                     "from messages where exact and taken_ns is not null and words = 4"),
    case is_exact(Dir) of
        false ->
            ?assertEqual({[], []}, {Taken, Rows});
        true ->
            ?assertEqual([term([S, I]) || S <- [a, b], I <- lists:seq(1, 50)], [M || {M, _} <- Taken]),
            %% When a message of b is taken, none is before it; before one of a there are at
            %% most the 50 of b.
            {OfA, OfB} = lists:split(50, [P || {_, P} <- Taken]),
            ?assertEqual(lists:duplicate(50, 0), OfB),
            ?assert(lists:max(OfA) =< 50),
            ?assertEqual(100, length(Rows)),
            ?assertEqual([], [R || #{<<"wait_ns">> := W, <<"inside">> := I, <<"later">> := L} = R <- Rows, W =/= I orelse L =/= 1]),
            #{<<"rows">> := Receivers, <<"has">> := #{<<"taken">> := true}} = json(["mailboxes", "--json", "-q", Dir]),
            ?assertEqual([], [R || #{<<"waits">> := W, <<"waits_until_taken">> := T} = R <- Receivers, T > W]),
            ?assert(lists:max([T || #{<<"waits_until_taken">> := T} <- Receivers]) >= 100),
            ?assertMatch({match, _}, re:run(text(["mailboxes", "-q", Dir]), "^exact: senders of messages, waits in mailboxes"))
    end.

%% The match specification that records senders makes no difference.
without_senders(Config) ->
    Dir = messages(Config, #{}, #{senders => false}, 100),
    Is = is_exact(Dir),
    ?assertMatch(#{<<"exact">> := #{<<"messages">> := Is, <<"taken">> := Is}}, json(["info", "--json", "-q", Dir])),
    Taken = [N || #{<<"number">> := N} <- events_of(Dir, <<"taken">>)],
    Received = [N || #{<<"number">> := N, <<"msg">> := M} <- events_of(Dir, <<"receive">>), is_ours(M)],
    ?assertEqual([], Received -- Taken),
    ?assertEqual(Is, same_contents(Dir, 200)).

%% Half of the events of all three kinds are removed at random, without any record of the loss.
%% Arrows between the remaining events must never connect different messages.
losses(Config) ->
    Dir = messages(Config, #{sample => 2}, #{}, 1500),
    #{<<"sampled_out">> := Lost} = json(["info", "--json", "-q", Dir]),
    ?assert(Lost > 1000),
    case is_exact(Dir) of
        true -> ?assert(same_contents(Dir, 300));
        false -> ok
    end.

run_queues(Config) ->
    Dir = in_peer(Config, record_running, [?config(dir, Config)]),
    Rows = rows(Dir, "select runnable_ns, waited_ns, runnable_by, out_reason from running where pid like '<%'"),
    Known = [R || #{<<"runnable_ns">> := N} = R <- Rows, is_integer(N)],
    case is_exact(Dir) of
        false ->
            ?assertEqual([], Known),
            ?assertEqual([null], lists:usort([R || #{<<"out_reason">> := R} <- Rows]));
        true ->
            ?assertEqual([], [R || #{<<"runnable_ns">> := N, <<"waited_ns">> := W} = R <- Known, is_integer(W), N > W]),
            Reasons = lists:usort([{By, Out} || #{<<"runnable_by">> := By, <<"out_reason">> := Out} <- Known]),
            [?assert(lists:keymember(By, 1, Reasons)) || By <- [<<"spawn">>, <<"timer">>, <<"out">>, <<"message">>]],
            [?assert(lists:keymember(Out, 2, Reasons)) || Out <- [<<"waiting">>, <<"reductions">>]]
    end.

%% Each running slice has its reasons, the same as in SQL.
run_queues_in_perfetto(Config) ->
    Dir = in_peer(Config, record_running, [?config(dir, Config)]),
    File = Dir ++ ".pftrace",
    {0, _} = kymo_cli:run(["export", "perfetto", "-q", "-o", File, Dir]),
    [Slices] = kymo_trace_processor:query(kymo_trace_processor:find(), File, [
        "select extract_arg(arg_set_id, 'debug.runnable_by') as by, extract_arg(arg_set_id, 'debug.out_reason') as out, "
        "count(*) from slice where category = 'running' group by by, out"]),
    Shown = [{By, Out, N} || [By, Out, N] <- Slices, is_binary(By), is_binary(Out)],
    Rows = [{By, Out, N} || #{<<"runnable_by">> := By, <<"out_reason">> := Out, <<"n">> := N}
                                <- rows(Dir, "select runnable_by, out_reason, count(*) as n from running group by 1, 2"),
                            is_binary(By), is_binary(Out)],
    ?assertEqual(is_exact(Dir), Shown =/= []),
    ?assertEqual(lists:sort(Rows), lists:sort(Shown)).

%% trace_processor finds the same arrows.
perfetto(Config) ->
    Dir = messages(Config, #{}, #{}, 20),
    File = Dir ++ ".pftrace",
    {0, _} = kymo_cli:run(["export", "perfetto", "-q", "-o", File, Dir]),
    [Arrows] = kymo_trace_processor:query(kymo_trace_processor:find(), File, [
        "select a.name, b.name, b.ts >= a.ts from flow f "
        "join slice a on f.slice_out = a.id join slice b on f.slice_in = b.id"]),
    Count = fun(Arrow) -> length([A || A <- Arrows, A =:= Arrow]) end,
    case is_exact(Dir) of
        true ->
            ?assert(Count([<<"send">>, <<"receive">>, 1]) >= 40),
            ?assert(Count([<<"receive">>, <<"taken">>, 1]) >= 40),
            ?assertEqual(2, length(lists:usort(Arrows)));
        false ->
            ?assertEqual([], lists:usort(Arrows) -- [[<<"send">>, <<"receive">>, 1]])
    end.

taken_as_a_tag(Config) ->
    Dir = messages(Config, #{events => [taken]}, #{}, 5),
    Events = [E || #{<<"event">> := Event} = E <- events(Dir), Event =/= <<"kymo_state">>],
    ?assertEqual(Events, events_of(Dir, <<"taken">>)),
    ?assertEqual(is_exact(Dir), Events =/= []),
    Shown = [kymo_cli:run(["print", "-q", "--events", Tag, Dir]) || Tag <- ["messages", "taken"]],
    ?assertMatch([Same, Same], Shown).

%% The tag 'receive' does not include it.
without_taken(Config) ->
    Dir = messages(Config, #{events => [send, 'receive']}, #{}, 5),
    ?assertEqual([], events_of(Dir, <<"taken">>)),
    ?assert(length(events_of(Dir, <<"receive">>)) >= 10),
    ?assertEqual(is_exact(Dir), same_contents(Dir, 10)).

%% ---- call trees ----
%% A process runs a random script of calls, tail calls and exceptions, from which also follows what the
%% tree is. Half of the functions between are not traced.

trees(Config) ->
    [tree(Config, Seed, []) || Seed <- lists:seq(1, 5)].

trees_with_returns(Config) ->
    [tree(Config, Seed, Returns) || {Seed, Returns} <- [{6, [fa]}, {7, [fb, fc]}, {8, [fa, fb, fc]}]].

tree(Config, Seed, Returns) ->
    {Dir, Script} = run_script(Config, Seed, Returns),
    Rows = rows(Dir, "select id, parent_id, function, ended, start_ns, end_ns, duration_ns, self_ns from spans order by id"),
    Json = json(["info", "--json", "-q", Dir]),
    Depths = [D || #{<<"stack_words">> := D} <- events(Dir)],
    #{<<"exact">> := #{<<"calls">> := Is}} = Json,
    #{<<"has">> := #{<<"call_depths">> := Is}} = json(["stats", "--json", "-q", Dir]),
    case Is of
        false ->
            ?assertNot(is_exact(Dir)),
            ?assertEqual([], Depths);
        true ->
            ?assertMatch({match, _}, re:run(text(["info", "-q", Dir]), "^exact .*call trees$", [multiline])),
            Truth = truth(Script, Returns),
            Found = [{F, P, E} || #{<<"function">> := F, <<"parent_id">> := P, <<"ended">> := E} <- Rows],
            ?assertEqual({Seed, Truth}, {Seed, Found}),
            Printed = [{F, case P of 0 -> null; _ -> P end, E}
                       || #{<<"function">> := F, <<"parent">> := P, <<"ended">> := E}
                              <- lists:sort(fun(#{<<"id">> := A}, #{<<"id">> := B}) -> A =< B end,
                                            lines(text(["print", "--tree", "--json", "-q", Dir])))],
            ?assertEqual(Found, Printed),
            check_times(Rows)
    end,
    {Dir, Is}.

%% The times add up, and a tail call begins when its caller ends.
check_times(Rows) ->
    Inner = lists:foldl(fun(#{<<"parent_id">> := P, <<"duration_ns">> := D}, Sums) ->
                                maps:update_with(P, fun(S) -> S + D end, D, Sums)
                        end, #{}, Rows),
    ?assertEqual([], [R || #{<<"id">> := Id, <<"duration_ns">> := D, <<"self_ns">> := Self} = R <- Rows,
                           D =/= Self + maps:get(Id, Inner, 0)]),
    Starts = [{P, S} || #{<<"parent_id">> := P, <<"start_ns">> := S} <- Rows],
    ?assertEqual([], [{P, E} || #{<<"ended">> := <<"tail">>, <<"parent_id">> := P, <<"end_ns">> := E} <- Rows] -- Starts).

trees_in_exports(Config) ->
    {Dir, Is} = tree(Config, 9, []),
    case Is of
        false -> ok;
        true -> same_in_exports(Dir)
    end.

same_in_exports(Dir) ->
    Rows = rows(Dir, "select c.function as f, p.function as p, count(*) as n from spans c "
                     "left join spans p on p.id = c.parent_id group by 1, 2"),
    File = Dir ++ ".pftrace",
    {0, _} = kymo_cli:run(["export", "perfetto", "-q", "-o", File, Dir]),
    [Slices] = kymo_trace_processor:query(kymo_trace_processor:find(), File, [
        "select s.name, p.name, count(*) from slice s join slice p on p.id = s.parent_id "
        "where s.category = 'call' group by 1, 2"]),
    ?assertEqual(lists:sort([[F, case P of null -> <<"alive">>; _ -> P end, N]
                             || #{<<"f">> := F, <<"p">> := P, <<"n">> := N} <- Rows]),
                 lists:sort(Slices)),
    Paths = paths(rows(Dir, "select id, parent_id, function from spans order by id"), #{}),
    Text = unicode:characters_to_list(text(["export", "folded", "--wall", "-q", "-o", "-", Dir])),
    Folded = [tl(string:lexemes(hd(string:split(Line, " ", trailing)), ";")) || Line <- string:lexemes(Text, "\n")],
    ?assert(length(Folded) > 10),
    ?assertEqual([], Folded -- [[] | lists:usort(maps:values(Paths))]).

paths(Rows, Paths) ->
    lists:foldl(fun(#{<<"id">> := Id, <<"parent_id">> := P, <<"function">> := F}, Acc) ->
                        Acc#{Id => maps:get(P, Acc, []) ++ [unicode:characters_to_list(F)]}
                end, Paths, Rows).

run_script(Config, Seed, Returns) ->
    Dir = filename:join(?config(dir, Config), integer_to_list(Seed)),
    ok = filelib:ensure_dir(Dir),
    Script = script(Seed),
    {in_peer(Config, record_script, [Dir, Script, Returns]), Script}.

record_script(Dir, Script, Returns) ->
    {ok, R} = kymo:start(#{dir => Dir, policy => discard, memory => 32 bsl 20}),
    {Pid, Ref} = spawn_monitor(fun() -> receive go -> steps(Script) end end),
    Functions = [lists:concat([?MODULE, ":", F, "/1", lists:append([" -> return" || lists:member(F, Returns)])]) || F <- [fa, fb, fc]],
    {ok, _} = kymo:trace(R, #{processes => [Pid], functions => Functions, events => [calls, return_to]}),
    Pid ! go,
    receive {'DOWN', Ref, _, _, normal} -> ok end,
    {ok, _} = kymo:stop(R),
    Dir.

script(Seed) ->
    {Script, _} = lists:mapfoldl(fun(_, Rand) ->
                                         {Steps, Next} = script(12, 4, Rand),
                                         {{caught, Steps}, Next}
                                 end, rand:seed_s(exsss, Seed), lists:seq(1, 100)),
    Script.

%% At most N steps, which nest at most Most deep.
script(Most, N, Rand) when Most =:= 0; N =:= 0 ->
    {[], Rand};
script(Most, N, Rand0) ->
    {What, Rand1} = rand:uniform_s(12, Rand0),
    {F, Rand2} = pick([fa, fa, fb, fc, fu], Rand1),
    {More, Rand3} = rand:uniform_s(4, Rand2),
    {Inner, Rand4} = script(Most - 1, More, Rand3),
    if
        What =:= 1 -> {[throw], Rand4};
        What < 5 -> {[{tail, F, Inner}], Rand4};
        true ->
            Step = case What of 5 -> {caught, Inner}; _ -> {call, F, Inner} end,
            {Rest, Rand5} = script(Most, N - 1, Rand4),
            {[Step | Rest], Rand5}
    end.

pick(List, Rand) ->
    {I, Next} = rand:uniform_s(length(List), Rand),
    {lists:nth(I, List), Next}.

%% ---- the functions of the scripts: fa, fb and fc are traced ----

steps([{call, F, Inner} | Rest]) -> _ = ?MODULE:F(Inner), steps(Rest);
steps([{caught, Inner} | Rest]) -> _ = try steps(Inner) catch throw:ball -> [] end, steps(Rest);
steps([{tail, F, Inner}]) -> ?MODULE:F(Inner);
steps([throw]) -> throw(ball);
steps([]) -> [].

fa(Steps) -> steps(Steps).
fb(Steps) -> [steps(Steps)].
%% Has a larger frame, and a part of the stack that it has no use for any more.
fc(Steps) ->
    {A, B, C} = {make_ref(), make_ref(), make_ref()},
    _ = lists:member(A, [B, C]),
    X = steps(Steps),
    {A, B, C, X}.
fu(Steps) -> {steps(Steps)}.

%% ---- what their tree is ----

%% [{Function, number of the parent or null, how it ended}] in the order of the calls. A position of the
%% stack has the call that holds it, and the one below.
truth(Script, Returns) ->
    {_, Spans} = walk([{caught, Script}], {null, none}, #{}, Returns),
    [maps:get(I, Spans) || I <- lists:seq(1, map_size(Spans))].

walk([], _, Spans, _) ->
    {ok, Spans};
walk([throw], _, Spans, _) ->
    {throw, Spans};
walk([{tail, F, Inner}], Position, Spans, Returns) ->
    enter(F, Inner, Position, Spans, Returns);
walk([{caught, Inner} | Rest], Position, Spans0, Returns) ->
    {_, Spans} = walk(Inner, {around(Position), none}, Spans0, Returns),
    walk(Rest, Position, Spans, Returns);
walk([{call, F, Inner} | Rest], Position, Spans0, Returns) ->
    case enter(F, Inner, {around(Position), none}, Spans0, Returns) of
        {ok, Spans} -> walk(Rest, Position, Spans, Returns);
        Thrown -> Thrown
    end.

around({Below, none}) -> Below;
around({_, Holder}) -> Holder.

enter(fu, Inner, Position, Spans, Returns) ->
    walk(Inner, {around(Position), none}, Spans, Returns);
enter(F, Inner, {Below, Holder}, Spans0, Returns) ->
    {Parent, Spans1} = replace(Below, Holder, Spans0, Returns),
    Id = map_size(Spans1) + 1,
    Function = iolist_to_binary(io_lib:format("~s:~s/1", [?MODULE, F])),
    Position = case F of fa -> {Parent, Id}; _ -> {Id, none} end,
    {How, Spans2} = walk(Inner, Position, Spans1#{Id => {Function, Parent, <<"return">>}}, Returns),
    case How =:= throw andalso lists:member(F, Returns) of
        true -> {How, Spans2#{Id => {Function, Parent, <<"exception">>}}};
        false -> {How, Spans2}
    end.

%% A call whose return is recorded stays open when a tail call replaces it.
replace(Below, none, Spans, _) ->
    {Below, Spans};
replace(Below, Holder, Spans, Returns) ->
    {Function, Parent, _} = maps:get(Holder, Spans),
    case [F || F <- Returns, string:find(Function, atom_to_list(F)) =/= nomatch] of
        [] -> {Below, Spans#{Holder => {Function, Parent, <<"tail">>}}};
        _ -> {Holder, Spans}
    end.

%% ---- stops of all schedulers ----

%% The program stops them, and knows when and for how long at least.
stops(Config) ->
    {Dir, Truth} = in_peer(Config, record_stops, [?config(dir, Config), [running, procs]]),
    Stops = events_of(Dir, <<"stopped">>),
    #{<<"exact">> := #{<<"stops">> := Is}} = json(["info", "--json", "-q", Dir]),
    ?assertEqual(is_exact(Dir), Is),
    case Is of
        false ->
            ?assertEqual([], Stops);
        true ->
            ?assertMatch({match, _}, re:run(text(["info", "-q", Dir]), "^exact .*stops of all schedulers$", [multiline])),
            ?assertEqual([Cause || {Cause, _, _, _} <- Truth], [C || #{<<"cause">> := C} <- Stops]),
            [?assertEqual(0, N) || #{<<"omitted">> := N} <- Stops],
            Times = [{T - Ago, D} || #{<<"ns">> := T, <<"began_ns_ago">> := Ago, <<"duration_ns">> := D} <- Stops],
            [?assert(D >= Least andalso D =< To - From)
             || {{_, Least, From, To}, {_, D}} <- lists:zip(Truth, Times)],
            %% The clocks differ by a constant, of which each stop gives bounds.
            %% A preempted thread reads one of them later than the other.
            Bounds = [{From - Began, To - Began - D} || {{_, _, From, To}, {Began, D}} <- lists:zip(Truth, Times)],
            ?assert(lists:max([A || {A, _} <- Bounds]) =< lists:min([B || {_, B} <- Bounds]) + 20000000),
            same_stops(Dir, Stops)
    end.

%% Print, SQL and Perfetto show the same.
same_stops(Dir, Stops) ->
    Durations = [D || #{<<"duration_ns">> := D} <- Stops],
    Lines = text(["print", "-q", "--events", "stopped", Dir]),
    {match, Printed} = re:run(Lines, "> stopped cause=[a-z_]+ duration_ns=([0-9]+) began_ns_ago=[0-9]+$",
                              [multiline, global, {capture, all_but_first, binary}]),
    ?assertEqual(Durations, [binary_to_integer(D) || [D] <- Printed]),
    ?assertEqual([#{<<"atom">> => C, <<"duration_ns">> => D} || #{<<"cause">> := C, <<"duration_ns">> := D} <- Stops],
                 rows(Dir, "select atom, duration_ns from events where event = 'stopped' order by id")),
    File = Dir ++ ".pftrace",
    {0, _} = kymo_cli:run(["export", "perfetto", "-q", "-o", File, Dir]),
    [Slices] = kymo_trace_processor:query(kymo_trace_processor:find(), File, [
        "select extract_arg(s.arg_set_id, 'debug.cause') as cause, s.dur, t.name from slice s "
        "join track t on t.id = s.track_id where category = 'stopped' order by s.ts"]),
    %% A slice does not overlap the one before it, so it is shorter if a thread was preempted between
    %% reading the clock for the event and for its beginning.
    ?assertEqual([[C, <<"all schedulers stopped">>] || #{<<"cause">> := C} <- Stops], [[C, T] || [C, _, T] <- Slices]),
    [?assert(Slice =< D andalso Slice > D - 20000000)
     || {D, [_, Slice, _]} <- lists:zip(Durations, Slices)].

%% They are recorded with the scheduling of processes only.
stops_without_running(Config) ->
    {Dir, _} = in_peer(Config, record_stops, [?config(dir, Config), [procs]]),
    ?assertEqual([], events_of(Dir, <<"stopped">>)),
    ?assertMatch(#{<<"exact">> := #{<<"stops">> := false}}, json(["info", "--json", "-q", Dir])).

record_stops(Dir, Events) ->
    {ok, R} = kymo:start(#{dir => Dir, policy => discard, memory => 32 bsl 20}),
    Worker = spawn_link(fun echo/0),
    {ok, _} = kymo:trace(R, #{processes => [Worker], events => Events}),
    echo(Worker),
    Truth = [F() || F <- [fun set_flag/0 | [fun() -> stop_schedulers(Ms) end || Ms <- [30, 100, 5]]]],
    echo(Worker),
    {ok, _} = kymo:stop(R),
    {Dir, Truth}.

echo() ->
    receive {From, Ref} -> From ! Ref, echo() end.

echo(Worker) ->
    Ref = make_ref(),
    Worker ! {self(), Ref},
    receive Ref -> ok end.

%% Returns the cause, for how many nanoseconds at least, and when it began and ended at most.
stop_schedulers(Ms) ->
    erts_debug:set_internal_state(available_internal_state, true),
    {From, To} = timed(fun() -> erts_debug:set_internal_state(block, Ms) end),
    {<<"debug_block">>, Ms * 1000000, From, To}.

%% A flag that keeps its value.
set_flag() ->
    {_, Size} = erlang:system_info(min_heap_size),
    {From, To} = timed(fun() -> erlang:system_flag(min_heap_size, Size) end),
    {<<"min_heap_size">>, 0, From, To}.

timed(Fun) ->
    From = erlang:monotonic_time(nanosecond),
    Fun(),
    {From, erlang:monotonic_time(nanosecond)}.

%% A request took long, also because all schedulers were stopped.
stop_is_the_cause(Config) ->
    Dir = in_peer(Config, record_stopped_server, [?config(dir, Config)]),
    #{<<"answers">> := [#{<<"total_ns">> := Total, <<"parts">> := Parts}]} = json(["why", "--json", "-q", Dir]),
    ?assertEqual(Total, lists:sum([N || #{<<"ns">> := N} <- Parts])),
    Stopped = [{N, Blame} || #{<<"cause">> := <<"stopped">>, <<"ns">> := N, <<"blame">> := Blame} <- Parts],
    ?assert(Total >= 200000000),
    case is_exact(Dir) of
        false ->
            ?assertEqual([], Stopped);
        true ->
            ?assert(lists:sum([N || {N, _} <- Stopped]) >= 180000000),
            [?assertEqual(<<"debug_block">>, Blame) || {_, Blame} <- Stopped],
            ?assertMatch({match, _}, re:run(text(["why", "-q", Dir]),
                                            " %  stopped +.* could run while all schedulers were stopped: debug_block$",
                                            [multiline]))
    end.

%% A request of a second, in the middle of which all schedulers are stopped.
record_stopped_server(Dir) ->
    {ok, R} = kymo:start(#{dir => Dir, policy => discard, memory => 32 bsl 20}),
    {ok, Server} = gen_server:start_link(kymo_analysis_SUITE, none, []),
    {ok, _} = kymo:trace(R, #{processes => [Server, self()], events => [running, messages]}),
    Request = gen_server:send_request(Server, {spin, 1000}),
    true = kymo_cli:until(fun() -> process_info(Server, current_function) =/= {current_function, {gen_server, loop, 7}} end),
    stop_schedulers(200),
    {reply, 1000} = gen_server:wait_response(Request, infinity),
    {ok, _} = kymo:stop(R),
    Dir.

%% ---- the recording ----

%% Two senders send N messages each, and wait until the receiver has them all in its mailbox.
messages(Config, Options, Spec, N) ->
    in_peer(Config, record, [?config(dir, Config), Options, Spec, N]).

record(Dir, Options, Spec, N) ->
    {ok, R} = kymo:start(maps:merge(#{dir => Dir, policy => discard, memory => 32 bsl 20, messages => contents}, Options)),
    Self = self(),
    Receiver = spawn_link(fun() -> receiver(Self, N) end),
    Senders = [spawn_link(fun() -> sender(Self, Receiver, Name, N) end) || Name <- [a, b]],
    {ok, _} = kymo:trace(R, Spec#{processes => [Receiver | Senders], events => [messages]}),
    [S ! go || S <- Senders],
    [receive {S, sent} -> ok end || S <- Senders],
    Receiver ! take,
    receive {Receiver, all_taken} -> ok end,
    {ok, _} = kymo:stop(R),
    Dir.

sender(Parent, Receiver, Name, N) ->
    receive go -> ok end,
    [Receiver ! [Name, I] || I <- lists:seq(1, N)],
    Parent ! {self(), sent},
    receive never -> ok end.

receiver(Parent, N) ->
    receive take -> ok end,
    [receive [a, I] -> ok end || I <- lists:seq(1, N)],
    [receive [b, I] -> ok end || I <- lists:seq(1, N)],
    Parent ! {self(), all_taken},
    receive never -> ok end.

record_running(Dir) ->
    {ok, R} = kymo:start(#{dir => Dir, policy => discard, memory => 32 bsl 20}),
    Self = self(),
    Busy = [spawn_link(fun() -> receive go -> count(10000000), Self ! {self(), done} end end) || _ <- lists:seq(1, 4)],
    Spawner = spawn_link(fun() ->
        receive go -> ok end,
        {_, Ref} = spawn_monitor(fun() -> receive after 5 -> ok end end),
        receive {'DOWN', Ref, _, _, _} -> Self ! {self(), done} end
    end),
    {ok, _} = kymo:trace(R, #{processes => [Spawner | Busy], events => [running, set_on_spawn]}),
    [P ! go || P <- [Spawner | Busy]],
    [receive {P, done} -> ok end || P <- [Spawner | Busy]],
    {ok, _} = kymo:stop(R),
    Dir.

count(0) -> ok;
count(N) -> count(N - 1).

in_peer(Config, Function, Args) -> kymo_peer:call(Config, ?MODULE, Function, Args).

%% ---- checks ----

%% For each of our messages with a sender: the event at the time of sending and the event at the
%% time of taking have the same contents. There must be at least so many. Returns false if no
%% message has a number.
same_contents(Dir, Least) ->
    Rows = rows(Dir, "select m.id, s.content as sent, r.content as received from messages m "
                     "join events s on s.event = 'send' and s.time_ns = m.sent_ns and s.pid = m.sender_pid "
                     "join events r on r.event = 'receive' and r.time_ns = m.fetched_ns and r.pid = m.receiver_pid "
                     "where m.exact"),
    Times = lists:usort([S || #{<<"sent">> := S, <<"received">> := S} <- Rows, is_ours(S)]),
    %% Several events of one process may have the same time.
    Right = lists:usort([Id || #{<<"id">> := Id, <<"sent">> := S, <<"received">> := S} <- Rows]),
    ?assertEqual([], lists:usort([Id || #{<<"id">> := Id} <- Rows]) -- Right),
    case Rows of
        [] -> false;
        _ -> ?assert(length(Times) >= Least), true
    end.

is_ours(Text) -> re:run(Text, "^\\[[ab],[0-9]+\\]$", [{capture, none}]) =:= match.

term(T) -> unicode:characters_to_binary(io_lib:format("~w", [T])).

events(Dir) -> lines(text(["print", "--json", "-q", Dir])).

events_of(Dir, Event) -> [E || #{<<"event">> := E0} = E <- events(Dir), E0 =:= Event].

rows(Dir, Statement) -> lines(text(["sql", "--json", "-q", Dir, Statement])).

text(Args) ->
    {0, Text} = kymo_cli:run(Args),
    Text.

json(Args) -> kymo_cli:json(unicode:characters_to_list(text(Args))).

lines(Text) -> [kymo_cli:json(unicode:characters_to_list([Line, "\n"])) || Line <- string:split(Text, "\n", all), Line =/= <<>>, Line =/= ""].
