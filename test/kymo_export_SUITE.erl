%% SPDX-License-Identifier: Apache-2.0
%%
%% The exporters. Each export is read by an independent program: OTP's dbg, babeltrace2, and
%% Perfetto's trace_processor. The results must agree with each other and with what export_work
%% is known to do.
-module(kymo_export_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-compile(export_all).
-compile(nowarn_export_all).

all() ->
    [
        dbg_equals_process_tracer, dbg_time_stamps, dbg_what_was_not_recorded,
        ctf_command, ctf_library, ctf_lost,
        perfetto_story, perfetto_counts, perfetto_tables, perfetto_lost,
        folded_stacks, folded_wall,
        windows, refusals, damaged
    ].

init_per_suite(Config) ->
    [{module, _} = code:ensure_loaded(M) || M <- [export_work, dbg, kymo_tracer, kymo]],
    Priv = ?config(priv_dir, Config),
    %% One recording of the scenario and one of many processes, shared by all cases.
    Scenario = filename:join(Priv, "scenario"),
    record(Scenario, #{}, fun export_work:scenario/0),
    Busy = filename:join(Priv, "busy"),
    record(Busy, #{}, fun() -> export_work:busy(10, 20) end),
    [{scenario, Scenario}, {busy, Busy}, {trace_processor, kymo_trace_processor:find()} | Config].

end_per_suite(_) ->
    ok.

init_per_testcase(Case, Config) ->
    Dir = filename:join(?config(priv_dir, Config), atom_to_list(Case)),
    ok = file:make_dir(Dir),
    [{dir, Dir} | Config].

end_per_testcase(_, _) ->
    ok.

%% ---- recordings and readers ----

-define(EVENTS, [calls, return_to, procs, messages, running, garbage_collection, set_on_spawn]).

%% Records Fun in a process of its own, from its first call to its last.
record(Dir, Options, Fun) ->
    record(Dir, #{events => ?EVENTS, functions => ["export_work:_/_"]}, Options, Fun).

record(Dir, Spec, Options, Fun) ->
    {ok, Recorder} = kymo:start(maps:merge(#{dir => Dir, policy => discard}, Options)),
    in_process(fun(Pid) -> {ok, _} = kymo:trace(Recorder, Spec#{processes => [Pid]}) end, Fun),
    {ok, Info} = kymo:stop(Recorder),
    Info.

%% A process that waits until it is traced, then calls Fun.
in_process(Trace, Fun) ->
    {Pid, Monitor} = spawn_monitor(fun() -> receive go -> ok end, Fun() end),
    Trace(Pid),
    Pid ! go,
    receive
        {'DOWN', Monitor, process, Pid, Reason} -> ?assertEqual(normal, Reason)
    end.

export(Config, Format, Dir) ->
    export(Config, Format, Dir, []).

export(Config, Format, Dir, Options) ->
    Out = filename:join(?config(dir, Config), filename:basename(Dir) ++ "." ++ Format),
    {0, _} = kymo_cli:run(["export", Format, "--quiet", "-o", Out] ++ Options ++ [Dir]),
    Out.

dbg(Config, Dir) ->
    kymo_cli:read_dbg(export(Config, "dbg", Dir)).

%% The tags of all events. dbg has no event for `taken', which only some runtimes report.
tags(Config, Dir) ->
    [text(tag(E)) || E <- dbg(Config, Dir)] ++ lists:duplicate(taken(Dir), <<"taken">>).

taken(Dir) ->
    {0, Printed} = kymo_cli:run(["print", "--quiet", "--events", "taken", Dir]),
    length(binary:matches(Printed, <<"\n">>)).

tag(Event) when element(1, Event) =:= trace; element(1, Event) =:= trace_ts -> element(3, Event);
tag(Event) -> element(1, Event).

count(Keys) ->
    lists:sort(maps:to_list(lists:foldl(fun(K, M) -> maps:update_with(K, fun(N) -> N + 1 end, 1, M) end, #{}, Keys))).

text({M, F, A}) when is_integer(A) -> iolist_to_binary(io_lib:format("~tw:~tw/~b", [M, F, A]));
text(Atom) -> atom_to_binary(Atom, utf8).

data(Config, File) ->
    filename:join(?config(data_dir, Config), File).

%% What babeltrace2's library finds; see ctf_read.py.
ctf(Config, Dir) ->
    case os:find_executable("babeltrace2") of
        false -> throw({skip, "babeltrace2 is not installed: the CTF export was NOT checked"});
        _ -> ok
    end,
    {Status, Text} = kymo_cli:command("/usr/bin/python3", [data(Config, "ctf_read.py"), export(Config, "ctf", Dir)]),
    case Status of
        0 ->
            File = filename:join(?config(dir, Config), "ctf.terms"),
            ok = file:write_file(File, Text),
            {ok, Terms} = file:consult(File),
            Terms;
        _ ->
            case re:run(Text, "No module named 'bt2'") of
                nomatch -> ct:fail({ctf_read, Status, Text});
                _ -> throw({skip, "python3-bt2 is not installed: the CTF export was NOT checked"})
            end
    end.

%% The rows of each query.
sql(Config, Trace, Queries) ->
    kymo_trace_processor:query(?config(trace_processor, Config), Trace, Queries).

skippable(Fun) ->
    try Fun()
    catch
        throw:{skip, _} = Skip -> Skip
    end.

%% ---- dbg ----

%% The same run, recorded with contents and sent to a process tracer.
dbg_equals_process_tracer(Config) ->
    Dir = filename:join(?config(dir, Config), "recording"),
    Flags = [call, return_to, send, 'receive', procs, set_on_spawn],
    Spec = #{events => [calls, return_to, messages, procs, set_on_spawn], functions => ["export_work:_/_"], senders => false},
    record(Dir, Spec, #{calls => arguments, returns => values, messages => contents, terms => contents}, fun export_work:scenario/0),
    Recorded = dbg(Config, Dir),
    Collector = spawn(fun Loop() ->
        receive
            {get, From} -> From ! {collected, element(2, process_info(self(), messages))};
            never -> Loop()
        end
    end),
    %% The collector's mailbox may grow: a `get' message is matched first.
    ?assert(erlang:trace_pattern({export_work, '_', '_'}, true, [local]) > 0),
    in_process(fun(Pid) -> erlang:trace(Pid, true, [{tracer, Collector} | Flags]) end, fun export_work:scenario/0),
    Ref = erlang:trace_delivered(all),
    receive
        {trace_delivered, all, Ref} -> ok
    end,
    erlang:trace_pattern({export_work, '_', '_'}, false, [local]),
    Collector ! {get, self()},
    Sent =
        receive
            {collected, Messages} -> [M || M <- Messages, element(1, M) =:= trace]
        end,
    ?assertEqual(by_process(Sent), by_process(Recorded)),
    ?assert(length(Sent) > 200).

%% The events of each process in their order, and the processes in the order in which they were
%% created: events of different processes may arrive in any order. Pids are replaced by that position,
%% including those in references and pids of other processes.
by_process(Events) ->
    Pids = [P || {_, P} <- lists:usort([{pid_key(P), P} || E <- Events, P <- [element(2, E)]])],
    Names = maps:from_list(lists:zip([pid_key(P) || P <- Pids], lists:seq(1, length(Pids)))),
    [[plain(E, Names) || E <- Events, element(2, E) =:= P] || P <- Pids].

plain(P, Names) when is_pid(P) -> {pid, maps:get(pid_key(P), Names, other)};
plain(R, _) when is_reference(R) -> reference;
plain(T, Names) when is_tuple(T) -> list_to_tuple(plain(tuple_to_list(T), Names));
plain([H | T], Names) -> [plain(H, Names) | plain(T, Names)];
plain(T, _) -> T.

%% In a recording of a node that was not alive, pids are those of another node.
pid_key(P) ->
    [_, B, C] = string:lexemes(pid_to_list(P), "<.>"),
    {list_to_integer(C), list_to_integer(B)}.

dbg_time_stamps(Config) ->
    [time_stamps(Config, Flag, Check) || {Flag, Check} <- [
        {monotonic_timestamp, fun(T) -> is_integer(T) end},
        {strict_monotonic_timestamp, fun({T, U}) -> is_integer(T) andalso is_integer(U) end},
        {timestamp, fun({_, _, _} = T) -> abs(timer:now_diff(os:timestamp(), T)) < 600 * 1000000 end},
        {cpu_timestamp, fun({M, S, U}) -> is_integer(M) andalso is_integer(S) andalso U < 1000000 end}
    ]],
    ok.

%% Tuples of the same size as the runtime's own, with the scheduler before the time stamp.
time_stamps(Config, Flag, Check) ->
    Dir = filename:join(?config(dir, Config), Flag),
    {ok, Recorder} = kymo:start(#{dir => Dir, policy => discard}),
    Self = self(),
    try
        in_process(
            fun(Pid) ->
                Options = [call, procs, running, scheduler_id, Flag],
                try erlang:trace(Pid, true, [{tracer, kymo_tracer, element(2, kymo:tracer(Recorder))} | Options]) of
                    1 -> erlang:trace_pattern({export_work, fact, 1}, [{'_', [], [{message, {{seen, 1}}}]}], [local])
                catch
                    error:badarg when Flag =:= cpu_timestamp -> Self ! unsupported
                end
            end,
            fun() -> export_work:fact(2) end
        )
    after
        erlang:trace_pattern({export_work, fact, 1}, false, [local])
    end,
    {ok, _} = kymo:stop(Recorder),
    receive
        unsupported -> ok
    after 0 ->
        Events = dbg(Config, Dir),
        Calls = [E || E <- Events, tag(E) =:= call],
        ?assertEqual(3, length(Calls)),
        Schedulers = erlang:system_info(schedulers),
        [
            begin
                ?assertMatch({trace_ts, _, call, {export_work, fact, 1}, {seen, 1}, S, _} when S >= 1 andalso S =< Schedulers, E),
                ?assert(Check(element(7, E)))
            end
         || E <- Calls
        ],
        ?assertMatch([{trace_ts, _, exit, normal, _, _}], [E || E <- Events, tag(E) =:= exit]),
        ?assert(lists:member(in, [tag(E) || E <- Events]))
    end.

dbg_what_was_not_recorded(Config) ->
    Events = dbg(Config, ?config(scenario, Config)),
    ?assertMatch([{trace, _, call, {export_work, fact, 1}} | _], [E || {trace, _, call, {_, fact, _}} = E <- Events]),
    Sent = [M || {trace, _, send, M, _} <- Events],
    [?assertMatch({'$kymo_size', N} when is_integer(N), M) || M <- Sent],
    Received = [E || E <- Events, tag(E) =:= 'receive'],
    ?assertMatch([{trace, _, 'receive', {'$kymo_size', _}, Pid} | _] when is_pid(Pid), tl(Received)).

%% ---- ctf ----

ctf_command(Config) ->
    skippable(fun() ->
        Babeltrace = os:find_executable("babeltrace2"),
        Babeltrace =/= false orelse throw({skip, "babeltrace2 is not installed: the CTF export was NOT checked"}),
        Out = export(Config, "ctf", ?config(scenario, Config)),
        {0, Text} = kymo_cli:command("/usr/bin/timeout", ["60", Babeltrace, Out]),
        Names = [Name || Line <- string:split(string:trim(Text), "\n", all),
                         {match, [Name]} <- [re:run(Line, "^\\[.*?\\] \\(.*?\\) ([^:]+):", [{capture, [1], binary}])]],
        Expected = tags(Config, ?config(scenario, Config)),
        ?assertEqual(count(Expected), [C || {N, _} = C <- count(Names), not lists:prefix("kymo_", binary_to_list(N))]),
        ?assertEqual(nomatch, re:run(Text, "discarded|WARN|ERROR"))
    end).

ctf_library(Config) ->
    skippable(fun() ->
        Dir = ?config(busy, Config),
        Before = erlang:system_time(nanosecond) - 3600 * 1000000000,
        Terms = ctf(Config, Dir),
        Events = dbg(Config, Dir),
        ?assertEqual({events, count(tags(Config, Dir))}, lists:keyfind(events, 1, Terms)),
        Calls = count([text(MFA) || {trace, _, call, MFA} <- Events]),
        ?assertEqual({functions, Calls}, lists:keyfind(functions, 1, Terms)),
        ?assertEqual({lost, 0, 0}, lists:keyfind(lost, 1, Terms)),
        ?assertEqual({sorted, true}, lists:keyfind(sorted, 1, Terms)),
        {time, First, Last} = lists:keyfind(time, 1, Terms),
        ?assert(First > Before),
        ?assert(Last > First),
        ?assert(Last < erlang:system_time(nanosecond)),
        {threads, Threads} = lists:keyfind(threads, 1, Terms),
        ?assertEqual(length(Events) + taken(Dir), lists:sum([N || {_, _, N} <- Threads])),
        ?assert(lists:any(fun({Kind, No, _}) -> Kind =:= <<"scheduler">> andalso No >= 1 end, Threads))
    end).

%% A recording with gaps: as many lost events as the recorder says.
lossy(Dir) ->
    Info = record(
        Dir,
        #{events => [calls, return_to, set_on_spawn], functions => ["export_work:_/_"]},
        #{memory => 448 * 1024, segment_size => 4096, dict_size => 65536, calls => arguments, content_bytes => 1024},
        fun() -> export_work:flood(4, 50000) end
    ),
    #{lost := Lost} = Info,
    lists:sum(maps:values(Lost)).

ctf_lost(Config) ->
    skippable(fun() ->
        Dir = filename:join(?config(dir, Config), "lossy"),
        Lost = lossy(Dir),
        Lost > 0 orelse throw({skip, "the recorder was too fast to lose anything"}),
        Terms = ctf(Config, Dir),
        Events = dbg(Config, Dir),
        ?assertEqual(Lost, lists:sum([N || {drop, N} <- Events])),
        ?assertEqual({lost, Lost, 0}, lists:keyfind(lost, 1, Terms))
    end).

%% ---- perfetto ----

has_depths(Dir) ->
    {0, Info} = kymo_cli:run(["info", "--json", "-q", Dir]),
    #{<<"exact">> := #{<<"calls">> := Has}} = kymo_cli:json(unicode:characters_to_list(Info)),
    Has.

-define(STATS, "select name, value from stats where severity = 'error' and value > 0").
-define(STATE, "select sum(value) from stats where name = 'packet_skipped_seq_needs_incremental_state_invalid'").
%% Slices that end after the slice that contains them.
-define(OVERLAPS,
    "select count(*) from slice c join slice p on c.parent_id = p.id "
    "where c.ts < p.ts or c.ts + c.dur > p.ts + p.dur"
).
-define(OPEN, "select count(*) from slice where dur < 0").

clean(Config, Trace) ->
    [Errors, State, Overlaps, Open] = sql(Config, Trace, [?STATS, ?STATE, ?OVERLAPS, ?OPEN]),
    ?assertEqual([], Errors),
    ?assertEqual([[0]], State),
    ?assertEqual([[0]], Overlaps),
    ?assertEqual([[0]], Open).

perfetto_story(Config) ->
    skippable(fun() ->
        Trace = export(Config, "perfetto", ?config(scenario, Config)),
        clean(Config, Trace),
        Tree = "select (select name from slice p where p.id = s.parent_id), s.name, count(*) from slice s "
               "where category = 'call' group by 1, 2 order by 1, 2",
        Arrows = "select a.name, b.name, count(*), sum(a.ts > b.ts) from flow f join slice a on f.slice_out = a.id "
                 "join slice b on f.slice_in = b.id group by 1, 2",
        Tracks = "select distinct t.name from slice s join thread_track k on s.track_id = k.id join thread t using (utid) "
                 "where s.name = 'alive'",
        [Calls, Flows, Alive] = sql(Config, Trace, [Tree, Arrows, Tracks]),
        Call = fun(Parent, Name) ->
            lists:sum([N || [P, C, N] <- Calls, P =:= Parent, C =:= Name])
        end,
        W = fun(Name) -> <<"export_work:", Name/binary>> end,
        Scenario = W(<<"scenario/0">>),
        %% Through lists:map/2, which is not traced.
        ?assertEqual(1, Call(Scenario, W(<<"mapped/1">>))),
        ?assertEqual(3, Call(W(<<"mapped/1">>), W(<<"'-mapped/1-fun-0-'/1">>))),
        %% A tail call ends its caller if the recording has the depth of the stack; otherwise the
        %% caller contains it. A loop of tail calls never nests.
        {OfId, OfTail2} = case has_depths(?config(scenario, Config)) of
                              true -> {W(<<"mapped/1">>), Scenario};
                              false -> {W(<<"'-mapped/1-fun-0-'/1">>), W(<<"tail1/1">>)}
                          end,
        ?assertEqual(3, Call(OfId, W(<<"id/1">>))),
        ?assertEqual(1, Call(Scenario, W(<<"tail/1">>))),
        ?assertEqual(1, Call(OfTail2, W(<<"tail2/1">>))),
        ?assertEqual(51, Call(Scenario, W(<<"loop/1">>))),
        %% Recursion nests.
        ?assertEqual(1, Call(Scenario, W(<<"fact/1">>))),
        ?assertEqual(5, Call(W(<<"fact/1">>), W(<<"fact/1">>))),
        %% An exception ends both calls, and the rounds of the server follow each other.
        ?assertEqual(1, Call(W(<<"catcher/0">>), W(<<"thrower/0">>))),
        ?assertEqual(21, Call(<<"alive">>, W(<<"server/1">>))),
        ?assertEqual(20, Call(W(<<"server/1">>), W(<<"answer/2">>))),
        %% 20 questions, 20 answers and `stop', each with an arrow, on some runtimes with two.
        ?assertEqual([[<<"send">>, <<"receive">>, 41, 0]], Flows -- [[<<"receive">>, <<"taken">>, 41, 0]]),
        ?assertEqual(2, length(Alive))
    end).

perfetto_counts(Config) ->
    skippable(fun() ->
        Dir = ?config(busy, Config),
        Trace = export(Config, "perfetto", Dir),
        clean(Config, Trace),
        Events = dbg(Config, Dir),
        Tags = count([tag(E) || E <- Events]),
        Number = fun(Tag) -> proplists:get_value(Tag, Tags, 0) end,
        [Categories, Instants, [[Alive]], [[Sizes]]] = sql(Config, Trace, [
            "select category, count(*) from slice where dur > 0 or category in ('call', 'gc') group by 1",
            "select name, count(*) from slice where category in ('message', 'process') and name <> 'alive' group by 1",
            "select count(*) from slice where name = 'alive'",
            "select count(distinct s.id) from slice s join args a on s.arg_set_id = a.arg_set_id "
            "where category = 'gc' and a.key = 'debug.heap_size'"
        ]),
        Category = fun(Name) -> lists:sum([N || [C, N] <- Categories, C =:= Name]) end,
        Instant = fun(Name) -> lists:sum([N || [C, N] <- Instants, C =:= Name]) end,
        ?assertEqual(Number(call), Category(<<"call">>)),
        Collections = Number(gc_minor_start) + Number(gc_major_start),
        ?assert(Collections > 0),
        ?assertEqual(Collections, Category(<<"gc">>)),
        ?assertEqual(Collections, Sizes),
        ?assert(abs(Number(in) + Number(in_exiting) - Category(<<"running">>)) =< 1),
        ?assertEqual(Number(send), Instant(<<"send">>)),
        ?assertEqual(Number('receive'), Instant(<<"receive">>)),
        ?assertEqual(Number(spawn), Instant(<<"spawn">>)),
        ?assertEqual(1 + Number(spawned), Alive)
    end).

%% Perfetto's own tables: the node is a process with its pid, schedulers and Erlang processes
%% are its threads, counters agree with kymo's tables, and no track is empty.
perfetto_tables(Config) ->
    skippable(fun() ->
        Dir = ?config(busy, Config),
        Trace = export(Config, "perfetto", Dir),
        clean(Config, Trace),
        [Processes, Threads, Calls, Empty, Heaps, Running, [[Slices]], Loose] = sql(Config, Trace, [
            "select pid, name from process where upid in (select upid from thread where tid <> 0)",
            "select t.name, count(*) from slice s join thread_track k on s.track_id = k.id join thread t using (utid) "
            "where s.name = 'alive' group by t.utid",
            "select t.name, count(*) from slice s join thread_track k on s.track_id = k.id join thread t using (utid) "
            "where s.category = 'call' group by t.utid",
            "select t.type, t.name from track t where not exists (select 1 from slice s where s.track_id = t.id) "
            "and not exists (select 1 from counter c where c.track_id = t.id)",
            "select t.name, cast(c.value as int) from counter c join thread_counter_track k on c.track_id = k.id "
            "join thread t using (utid) where k.name = 'heap after gc'",
            "select cast(min(value) as int), cast(sum(value * (next - ts)) as int) from (select c.value, c.ts, "
            "lead(c.ts) over (order by c.ts, c.id) as next from counter c join process_counter_track k "
            "on c.track_id = k.id where k.name = 'running')",
            "select sum(dur) from slice where category = 'running'",
            "select count(*) from slice where category in ('call', 'gc', 'running') "
            "and track_id not in (select id from thread_track)"
        ]),
        OsPid = list_to_integer(os:getpid()),
        ?assertEqual([[OsPid, atom_to_binary(node())]], Processes),
        ?assertEqual([], Empty),
        ?assertEqual([[0]], Loose),
        Of = fun(Query) -> [string:split(L, ",", all) || L <- kymo_sql(Dir, Query)] end,
        Count = fun(Rows) -> lists:sort([{hd(string:split(Name, " ")), N} || [Name, N] <- Rows]) end,
        Number = fun(Rows) -> [[Name, binary_to_integer(N)] || [Name, N] <- Rows] end,
        ?assertEqual(
            Count(Number(Of("select pid, count(*) from spans group by pid"))),
            Count(Calls)
        ),
        ?assertEqual(lists:usort([P || [P] <- Of("select pid from processes where pid like '<%'")]), [P || {P, 1} <- Count(Threads)]),
        ?assertEqual(
            Count(Number(Of("select pid, coalesce(words_after, 0) * 8 from collections where duration_ns is not null"))), Count(Heaps)
        ),
        %% The sum of all running times. kymo's table leaves out runs whose end is unknown.
        ?assertEqual([[0, Slices]], Running),
        [[Ran]] = Of("select sum(duration_ns) from running"),
        ?assert(binary_to_integer(Ran) =< Slices)
    end).

kymo_sql(Dir, Query) ->
    {0, Out} = kymo_cli:run(["sql", "-q", "--csv", Dir, Query]),
    [_ | Rows] = re:split(Out, "\r?\n", [trim]),
    Rows.

perfetto_lost(Config) ->
    skippable(fun() ->
        Dir = filename:join(?config(dir, Config), "lossy"),
        Lost = lossy(Dir),
        Lost > 0 orelse throw({skip, "the recorder was too fast to lose anything"}),
        Trace = export(Config, "perfetto", Dir),
        clean(Config, Trace),
        [[[Seen]]] = sql(Config, Trace, [
            "select sum(a.int_value) from slice s join args a on s.arg_set_id = a.arg_set_id "
            "where s.name = 'events lost' and a.key = 'debug.count'"
        ]),
        ?assertEqual(Lost, Seen)
    end).

%% ---- folded ----

folded(Config, Dir, Options) ->
    {ok, Text} = file:read_file(export(Config, "folded", Dir, Options)),
    [
        begin
            {match, [Stack, Own]} = re:run(Line, "^(\\S.*) ([1-9][0-9]*)$", [unicode, {capture, [1, 2], binary}]),
            {string:split(Stack, ";", all), binary_to_integer(Own)}
        end
     || Line <- string:split(string:trim(Text), "\n", all)
    ].

folded_stacks(Config) ->
    Lines = folded(Config, ?config(scenario, Config), []),
    Stacks = [Rest || {[_ | Rest], _} <- Lines],
    W = fun(Names) -> [<<"export_work:", N/binary>> || N <- Names] end,
    %% A tail call ends its caller, as in perfetto_story.
    {OfId, OfTail2} = case has_depths(?config(scenario, Config)) of
                          true -> {[], []};
                          false -> {[<<"'-mapped/1-fun-0-'/1">>], [<<"tail/1">>, <<"tail1/1">>]}
                      end,
    %% Every stack of the scenario, whichever way the time was measured.
    [
        ?assert(lists:member(W(Names), Stacks))
     || Names <- [
            [<<"scenario/0">>],
            [<<"scenario/0">>, <<"mapped/1">>] ++ OfId ++ [<<"id/1">>],
            [<<"scenario/0">>] ++ OfTail2 ++ [<<"tail2/1">>],
            [<<"scenario/0">>, <<"loop/1">>],
            [<<"scenario/0">> | lists:duplicate(6, <<"fact/1">>)],
            [<<"scenario/0">>, <<"catcher/0">>, <<"thrower/0">>],
            [<<"server/1">>, <<"answer/2">>]
        ]
    ],
    ?assertNot(lists:member(W([<<"scenario/0">>, <<"loop/1">>, <<"loop/1">>]), Stacks)),
    ?assertEqual(length(Lines), length(lists:usort([S || {S, _} <- Lines]))).

%% Time scheduled in is part of the wall-clock time.
folded_wall(Config) ->
    Sum = fun(Options) -> lists:sum([N || {_, N} <- folded(Config, ?config(busy, Config), Options)]) end,
    ?assert(Sum([]) < Sum(["--wall"])).

%% ---- options and errors ----

windows(Config) ->
    Dir = ?config(scenario, Config),
    All = length(dbg(Config, Dir)),
    Out = filename:join(?config(dir, Config), "part.dbg"),
    {0, _} = kymo_cli:run(["export", "dbg", "--quiet", "-o", Out, "--events", "call", Dir]),
    Calls = kymo_cli:read_dbg(Out),
    ?assert(length(Calls) > 0),
    ?assert(length(Calls) < All),
    ?assertEqual([call], lists:usort([tag(E) || E <- Calls])).

refusals(Config) ->
    Dir = ?config(scenario, Config),
    Out = filename:join(?config(dir, Config), "out"),
    Refuse = fun(Args, Words) ->
        {Status, Text} = kymo_cli:run(["export" | Args]),
        ?assertNotEqual(0, Status),
        ?assertMatch({match, _}, re:run(Text, Words)),
        ?assertEqual({ok, []}, file:list_dir(?config(dir, Config)))
    end,
    Refuse(["folded", "-o", Out, "--all", Dir], "--all"),
    Refuse(["dbg", "-o", "/dev/full", Dir], "/dev/full"),
    Refuse(["perfetto", "-o", filename:join([Out, "none", "x"]), Dir], "none"),
    Refuse(["folded", "-o", Out, Out], "out").

%% ---- damage ----

%% Independent programs can read the whole export of a ring in which bits were flipped, blocks
%% were replaced by zeros or foreign data, or the end is missing.
damaged(Config) ->
    skippable(fun() ->
        Babeltrace = os:find_executable("babeltrace2"),
        Babeltrace =/= false orelse throw({skip, "babeltrace2 is not installed: damaged exports were NOT checked"}),
        Whole = filename:join(?config(dir, Config), "whole"),
        %% Segments of a ring have no checksums, so damage reaches the exporter.
        record(Whole, #{events => ?EVENTS, functions => ["export_work:_/_"]},
               #{policy => overwrite, segment_size => 4096, memory => 1 bsl 20,
                 calls => arguments, returns => values, messages => contents, terms => contents, gc => sizes},
               fun export_work:scenario/0),
        {ok, Ring} = file:read_file(filename:join(Whole, "ring")),
        Used = used(Ring, 0),
        _ = rand:seed(exsss, {11, 12, 13}),
        [begin
             Dir = filename:join(?config(dir, Config), "damaged-" ++ integer_to_list(N)),
             ok = file:make_dir(Dir),
             [{ok, _} = file:copy(filename:join(Whole, F), filename:join(Dir, F)) || F <- ["meta", "dict"]],
             ok = file:write_file(filename:join(Dir, "ring"), damage(How, Ring, Used)),
             {0, Printed} = kymo_cli:run(["print", "--quiet", Dir]),
             Events = length([L || L <- binary:split(Printed, <<"\n">>, [global, trim]), not note(L)]),
             ?assertEqual({How, Events}, {How, length([E || E <- dbg(Config, Dir), not is_drop(E)]) + taken(Dir)}),
             {ok, Rows} = file:read_file(filename:join(export(Config, "ndjson", Dir), "events.ndjson")),
             ?assertEqual({How, Events}, {How, length(binary:matches(Rows, <<"\n">>))}),
             {Status, Text} = kymo_cli:command("/usr/bin/timeout", ["60", Babeltrace, export(Config, "ctf", Dir)]),
             Lines = [L || L <- binary:split(Text, <<"\n">>, [global, trim]), re:run(L, "^\\[[^]]*\\] \\([^)]*\\) (?!kymo_)") =/= nomatch],
             ?assertEqual({How, 0}, {How, Status}),
             %% CTF consists of whole segments, and leaves out those that are damaged.
             ?assert(length(Lines) =:= Events orelse How =/= none andalso length(Lines) < Events),
             N rem 5 =/= 0 orelse clean(Config, export(Config, "perfetto", Dir))
         end || {N, How} <- lists:enumerate([none | lists:append(lists:duplicate(5, [flip, flips, zero, foreign, cut]))])],
        ok
    end).

is_drop({drop, _}) -> true;
is_drop(_) -> false.

note(Line) ->
    re:run(Line, "^\\S+ \\S+ - kymo_") =/= nomatch.

%% The committed bytes of the segments: {Begin, Length}.
used(Ring, At) when At < byte_size(Ring) ->
    <<_:At/binary, Magic:32/little, _:76/binary, Commit:64/little, _/binary>> = Ring,
    [{At, Commit} || Magic =:= 16#C1FC1FC1] ++ used(Ring, At + 4096);
used(_, _) ->
    [].

somewhere(Used) ->
    {Begin, Length} = lists:nth(rand:uniform(length(Used)), Used),
    Begin + rand:uniform(Length) - 1.

damage(none, Ring, _) ->
    Ring;
damage(flip, Ring, Used) ->
    At = somewhere(Used),
    patch(Ring, At, <<(binary:at(Ring, At) bxor (1 bsl (rand:uniform(8) - 1)))>>);
damage(flips, Ring, Used) ->
    lists:foldl(fun(_, R) -> damage(flip, R, Used) end, Ring, lists:seq(1, 40));
damage(zero, Ring, Used) ->
    patch(Ring, somewhere(Used) band bnot 511, binary:copy(<<0>>, 512));
damage(foreign, Ring, Used) ->
    patch(Ring, somewhere(Used) band bnot 511, binary:copy(<<"This is something else.\n">>, 20));
damage(cut, Ring, Used) ->
    binary:part(Ring, 0, somewhere(Used)).

patch(Bytes, At, New) ->
    N = byte_size(New),
    <<Before:At/binary, _:N/binary, After/binary>> = Bytes,
    <<Before/binary, New/binary, After/binary>>.
