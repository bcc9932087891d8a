%% SPDX-License-Identifier: Apache-2.0
%%
%% Counters of the node and reports of its system monitor. Values are compared with what the
%% runtime returns to a program at the same time; reports are provoked; another process may have
%% set the system monitor; nothing may be left behind. Each case runs in a node of its own.
-module(kymo_counters_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-compile(export_all).
-compile(nowarn_export_all).

-import(kymo_cli, [until/1]).

all() ->
    [
        values,
        busiest,
        busiest_among_many,
        busy_schedulers,
        idle_schedulers,
        rates,
        shown_by_the_command,
        exported,
        in_perfetto,
        provoked,
        long_queue,
        held_by_another,
        taken_over,
        taken_over_between_samples,
        in_a_session,
        too_many,
        owner_dies,
        process_killed,
        measuring_killed,
        no_more_processes,
        server_killed,
        paused,
        bad_options,
        options_of_attach
    ].

suite() -> [{timetrap, {minutes, 3}}].

init_per_testcase(Case, Config) ->
    Args = [{peer_args, ["+P", "1024"]} || Case =:= no_more_processes],
    kymo_peer:start(Args ++ [{dir, filename:join(?config(priv_dir, Config), Case)} | Config]).

end_per_testcase(_, Config) -> kymo_peer:stop(Config).

in_peer(Config, Function, Args) -> kymo_peer:call(Config, ?MODULE, Function, Args).

rows(Dir, Statement) ->
    {0, Lines} = kymo_cli:run(["sql", "--json", Dir, Statement]),
    lines(Lines).

lines(Lines) -> [json([Line, "\n"]) || Line <- binary:split(Lines, <<"\n">>, [global, trim])].

json(Text) -> kymo_cli:json(unicode:characters_to_list(Text)).

%% The values of a counter in order of time.
of_counter(Dir, Counter) -> of_counter(Dir, Counter, "value").

of_counter(Dir, Counter, Column) ->
    [maps:get(list_to_binary(Column), Row) || Row <- rows(Dir, ["select ", Column, " from counters where counter = '", Counter, "' order by time_ns"])].

reports(Dir) -> [{K, P} || #{<<"kind">> := K, <<"pid">> := P} <- rows(Dir, "select distinct kind, pid from system_monitor")].

kinds(Dir) -> [Kind || #{<<"kind">> := Kind} <- rows(Dir, "select kind from system_monitor order by time_ns")].

%% What could be left while no recorder runs: the process, the setting, and the measurement.
nothing_left() ->
    until(fun() -> erlang:statistics(scheduler_wall_time) =:= undefined end) andalso
        erlang:system_monitor() =:= undefined andalso
        in(kymo_counters) =:= [] andalso in(kymo_busiest) =:= [].

%% Not the process that has switched on the measurement of time.
counting() ->
    [
        P
     || P <- in(kymo_counters), {_, Stack} <- [process_info(P, current_stacktrace)], [loop | _] <- [[F || {kymo_counters, F, _, _} <- lists:reverse(Stack)]]
    ].

in(Module) ->
    [P || P <- processes(), {_, Stack} <- [process_info(P, current_stacktrace)], lists:keymember(Module, 1, Stack)].

samples(R) ->
    #{counters := #{samples := N}} = kymo:info(R),
    N.

%% Waits for so many samples that began after this call.
more_samples(R, N) ->
    Before = samples(R),
    true = until(fun() -> samples(R) >= Before + N end),
    Before.

%% ---- values -----------------------------------------------------------------------

%% A sample is taken between two readings of the same quantities by the program.
values(Config) ->
    Dir = ?config(dir, Config),
    {From, To, Before, After} = in_peer(Config, hold_and_look, [Dir]),
    lists:foreach(
        fun({Counter, Low}) ->
            High = maps:get(Counter, After),
            Values = lists:sublist(of_counter(Dir, atom_to_list(Counter)), From + 1, To - From),
            ?assertEqual(To - From, length(Values)),
            [?assert(V >= min(Low, High) andalso V =< max(Low, High), {Counter, Low, V, High}) || V <- Values]
        end,
        maps:to_list(Before)
    ).

hold_and_look(Dir) ->
    {ok, R} = kymo:start(#{dir => Dir, counters => 10}),
    Waiting = [spawn(fun() -> receive stop -> ok end end) || _ <- lists:seq(1, 2000)],
    Tables = [ets:new(t, []) || _ <- lists:seq(1, 50)],
    Ports = [open_port({spawn, "cat"}, []) || _ <- lists:seq(1, 3)],
    [port_command(P, "hello") || P <- Ports],
    [receive {P, {data, _}} -> ok end || P <- Ports],
    Binary = binary:copy(<<1>>, 20000000),
    garbage_collect(),
    Before = truth(),
    From = more_samples(R, 5),
    To = samples(R),
    After = truth(),
    {ok, _} = kymo:stop(R),
    true = byte_size(Binary) > 0 andalso length(Waiting) + length(Tables) > 0,
    {From, To, Before, After}.

%% Quantities that do not change while the program waits, and quantities that only grow.
truth() ->
    {Reductions, _} = erlang:statistics(reductions),
    {Switches, _} = erlang:statistics(context_switches),
    {Collections, Words, _} = erlang:statistics(garbage_collection),
    {{input, In}, {output, Out}} = erlang:statistics(io),
    Counts = [{C, erlang:system_info(C)} || C <- [process_count, port_count, atom_count, ets_count]],
    Memory = [{C, erlang:memory(Kind)} || {C, Kind} <- [{memory_atom, atom}, {memory_code, code}], kymo_peer:counts_memory()],
    maps:from_list(
        Counts ++ Memory ++
            [
                {reductions, Reductions},
                {context_switches, Switches},
                {garbage_collections, Collections},
                {garbage_reclaimed, Words * erlang:system_info(wordsize)},
                {io_input, In},
                {io_output, Out}
            ]
    ).

%% Processes with known mailboxes and heaps among 1,000 others, beyond what one sample measures,
%% are found and ranked, with the values that the runtime returns to the program.
busiest(Config) -> found(Config, 1000).

%% Every part of the process table has its turn, and those found stay.
busiest_among_many(Config) -> found(Config, 20000).

found(Config, Others) ->
    Dir = ?config(dir, Config),
    {Mailboxes, Heap} = in_peer(Config, plant, [Dir, Others]),
    Last = last_of(Dir, "mailbox_length"),
    ?assertEqual(Mailboxes, [{P, N} || #{<<"pid">> := P, <<"value">> := N} <- Last]),
    ?assertEqual([1, 2, 3], [Rank || #{<<"rank">> := Rank, <<"scheduler">> := null} <- Last]),
    [#{<<"pid">> := P, <<"value">> := Bytes} | _] = last_of(Dir, "heap_size"),
    ?assertEqual(Heap, {P, Bytes}),
    %% In kymo info, and in print.
    {0, Json} = kymo_cli:run(["info", "--json", Dir]),
    {_, Most} = hd(Mailboxes),
    ?assertMatch(#{<<"counters">> := #{<<"mailbox_length">> := #{<<"last">> := Most}}}, json(Json)),
    {0, Info} = kymo_cli:run(["info", Dir]),
    {Longest, _} = hd(Mailboxes),
    {match, _} = re:run(Info, ["mailbox_length, highest of ", Longest]),
    %% In kymo mailboxes, which knows of no message.
    {0, Rows} = kymo_cli:run(["mailboxes", "--json", "--quiet", Dir]),
    [?assertEqual([N], [L || #{<<"process">> := Who, <<"longest">> := L} <- maps:get(<<"rows">>, json(Rows)),
                             string:prefix(Who, Pid) =/= nomatch]) || {Pid, N} <- Mailboxes],
    {0, Text} = kymo_cli:run(["print", Dir]),
    [?assertMatch({_, _}, binary:match(Text, iolist_to_binary(io_lib:format("mailbox_length[~b]=~b of ~ts", [Rank, N, Pid]))))
     || {Rank, {Pid, N}} <- lists:zip([1, 2, 3], Mailboxes)],
    %% In the exports.
    Lengths = [{maps:get(<<"rank">>, Row), maps:get(<<"value">>, Row)}
               || Row <- rows(Dir, "select rank, value from counters where counter = 'mailbox_length' order by time_ns, rank")],
    ?assertEqual(Lengths, of_perfetto(Dir)),
    ?assertEqual(Lengths, of_ctf(Dir, Lengths)).

%% One track for each rank.
of_perfetto(Dir) ->
    Out = Dir ++ ".pftrace",
    {0, _} = kymo_cli:run(["export", "perfetto", "-o", Out, Dir]),
    [Rows] = kymo_trace_processor:query(kymo_trace_processor:find(), Out, [
        "select cast(substr(t.name, 16) as int), cast(c.value as int) from counter c join track t on c.track_id = t.id "
        "where t.name glob 'mailbox_length *' order by c.ts, 1"
    ]),
    [{Rank, N} || [Rank, N] <- Rows].

%% What babeltrace2 reads; the lengths as given where it is not installed.
of_ctf(Dir, Given) ->
    in_babeltrace(Dir, "name = \\( \"mailbox_length\" [^}]*index = ([0-9]+)[^}]*value = ([0-9]+)", fun
        (none) -> Given;
        (Found) -> [{Rank, N} || [Rank, N] <- Found]
    end).

%% The numbers that the groups of an expression match in the output of babeltrace2.
in_babeltrace(Dir, Expression, Fun) ->
    case os:find_executable("babeltrace2") of
        false ->
            Fun(none);
        Babeltrace ->
            Out = Dir ++ ".ctf",
            {0, _} = kymo_cli:run(["export", "ctf", "-o", Out, Dir]),
            {0, Read} = kymo_cli:command(Babeltrace, [Out]),
            {match, Found} = re:run(Read, Expression, [global, {capture, all_but_first, list}]),
            Fun([[list_to_integer(N) || N <- Groups] || Groups <- Found])
    end.

last_of(Dir, Counter) ->
    rows(Dir, ["select rank, scheduler, pid, value from counters where counter = '", Counter,
        "' and time_ns = (select max(time_ns) from counters where counter = '", Counter, "') order by rank"]).

plant(Dir, Others) ->
    Wait = fun() -> receive stop -> ok end end,
    Some = fun(N) -> [spawn_opt(Wait, [{min_heap_size, 12}]) || _ <- lists:seq(1, N)] end,
    Before = Some(Others div 2),
    Planted = [begin P = spawn(Wait), [P ! x || _ <- lists:seq(1, N)], {P, N} end || N <- [700, 600, 500, 400]],
    Self = self(),
    Big = spawn(fun() -> L = lists:seq(1, 3000000), garbage_collect(), Self ! ready, receive stop -> length(L) end end),
    receive ready -> ok end,
    After = Some(Others - length(Before)),
    {ok, R} = kymo:start(#{dir => Dir, counters => 10}),
    %% A round through the table takes a measurement for each 200 processes, and at most one is
    %% made for each sample.
    Wanted = [{text(pid_to_list(P)), N} || {P, N} <- lists:sublist(Planted, 3)],
    Heap = {text(pid_to_list(Big)), heap(Big)},
    true = until(fun() ->
        [{P, N} || #{<<"pid">> := P, <<"value">> := N} <- last_of(Dir, "mailbox_length")] =:= Wanted andalso
            [{P, N} || #{<<"rank">> := 1, <<"pid">> := P, <<"value">> := N} <- last_of(Dir, "heap_size")] =:= [Heap]
    end),
    ?assertEqual([Len || {_, Len} <- lists:sublist(Planted, 3)],
        [Len || {P, _} <- lists:sublist(Planted, 3), {message_queue_len, Len} <- [process_info(P, message_queue_len)]]),
    {ok, _} = kymo:stop(R),
    true = nothing_left(),
    [exit(P, kill) || P <- [Big | Before ++ After] ++ [P || {P, _} <- Planted]],
    {Wanted, Heap}.

%% total_heap_size, which the recorder does not ask for, is the size without the message area.
heap(Pid) ->
    {total_heap_size, Words} = process_info(Pid, total_heap_size),
    Words * erlang:system_info(wordsize).

%% A scheduler with a process that never waits is busy, whatever else the machine does, and
%% runnable processes are in its queue.
busy_schedulers(Config) ->
    Dir = ?config(dir, Config),
    ok = in_peer(Config, spin, [Dir]),
    ?assert(lists:max(of_counter(Dir, "schedulers_utilization")) >= 950000),
    Busy = rows(Dir, "select scheduler, max(value) as most from counters where counter = 'scheduler_utilization' group by 1 order by 1"),
    ?assertMatch([#{<<"scheduler">> := 1}, #{<<"scheduler">> := 2}], Busy),
    [?assert(Most >= 950000) || #{<<"most">> := Most} <- Busy],
    Queued = lists:max(of_counter(Dir, "run_queue")),
    ?assert(Queued >= 15 andalso Queued =< 30, Queued),
    %% Before and after that, the scheduler was idle at times.
    ?assertEqual(0, lists:min(of_counter(Dir, "run_queue"))),
    ?assert(lists:min(of_counter(Dir, "schedulers_utilization")) < 900000).

spin(Dir) ->
    {ok, R} = kymo:start(#{dir => Dir, counters => 20}),
    _ = more_samples(R, 3),
    Spinning = [spawn_opt(fun forever/0, [{priority, low}]) || _ <- lists:seq(1, 20)],
    _ = more_samples(R, 6),
    [exit(P, kill) || P <- Spinning],
    _ = more_samples(R, 3),
    {ok, _} = kymo:stop(R),
    ok.

forever() -> forever().

%% The processes that take the samples and find the busiest processes are not counted in the run
%% queue.
idle_schedulers(Config) ->
    Dir = ?config(dir, Config),
    ok = in_peer(Config, idle, [Dir]),
    Lengths = lists:sort(of_counter(Dir, "run_queue")),
    ?assertEqual(0, lists:nth((length(Lengths) + 1) div 2, Lengths), Lengths).

idle(Dir) ->
    {ok, R} = kymo:start(#{dir => Dir, counters => 20}),
    ok = await_seldom(fun() -> samples(R) >= 20 end),
    {ok, _} = kymo:stop(R),
    ok.

%% On a busy machine, a process that looks all the time is often in the run queue.
await_seldom(Fun) ->
    case Fun() of
        true -> ok;
        false -> receive after 1000 -> await_seldom(Fun) end
    end.

%% A counter that counts up has a rate, and its increases add up to its value.
rates(Config) ->
    Dir = ?config(dir, Config),
    ok = in_peer(Config, spin, [Dir]),
    [First | _] = All = of_counter(Dir, "reductions"),
    [null | Rates] = of_counter(Dir, "reductions", "per_second"),
    Times = of_counter(Dir, "reductions", "time_ns"),
    Seconds = [(B - A) / 1.0e9 || {A, B} <- lists:zip(lists:droplast(Times), tl(Times))],
    Sum = lists:sum([Rate * S || {Rate, S} <- lists:zip(Rates, Seconds)]),
    ?assert(abs(Sum - (lists:last(All) - First)) =< length(Rates) + 1),
    ?assertEqual([null], lists:usort(of_counter(Dir, "process_count", "per_second"))),
    ?assertEqual([<<"bytes">> || kymo_peer:counts_memory()], lists:usort(of_counter(Dir, "memory_total", "unit"))),
    %% Processor time cannot exceed the number of threads that may use it.
    [Cpu | _] = lists:reverse(lists:sort(tl(of_counter(Dir, "cpu_time", "per_second")))),
    ?assert(Cpu > 0 andalso Cpu =< 128 * 1000000000).

shown_by_the_command(Config) ->
    Dir = ?config(dir, Config),
    _ = in_peer(Config, hold_and_look, [Dir]),
    {0, Text} = kymo_cli:run(["info", Dir]),
    [?assertMatch({match, _}, re:run(Text, Line), Line) ||
        Line <- ["process_count", "reductions per second"] ++ ["memory_binary" || kymo_peer:counts_memory()]],
    {0, Json} = kymo_cli:run(["info", "--json", Dir]),
    #{<<"counters">> := #{<<"process_count">> := #{<<"max">> := Most, <<"unit">> := <<"count">>}}} = json(Json),
    ?assertEqual(Most, lists:max(of_counter(Dir, "process_count"))),
    {0, Lines} = kymo_cli:run(["print", "--json", Dir]),
    Printed = lines(Lines),
    Counts = [N || #{<<"event">> := <<"counters">>, <<"process_count">> := N} <- Printed],
    ?assertEqual(of_counter(Dir, "process_count"), Counts).

%% Read with programs that are not part of kymo.
exported(Config) ->
    Dir = ?config(dir, Config),
    _ = in_peer(Config, hold_and_look, [Dir]),
    Out = Dir ++ ".out",
    {0, _} = kymo_cli:run(["export", "ndjson", "-o", Out, Dir]),
    {ok, File} = file:read_file(filename:join(Out, "counters.ndjson")),
    Rows = lines(File),
    Processes = [V || #{<<"counter">> := <<"process_count">>, <<"value">> := V} <- Rows],
    ?assertEqual(of_counter(Dir, "process_count"), Processes),
    in_babeltrace(Dir, "name = \\( \"process_count\" [^}]*value = ([0-9]+)", fun
        (none) -> ok;
        (Found) -> ?assertEqual(Processes, lists:append(Found))
    end).

%% In Perfetto's trace_processor: one track per counter, and the reports.
in_perfetto(Config) ->
    Dir = ?config(dir, Config),
    _ = in_peer(Config, provoke, [Dir]),
    Out = Dir ++ ".pftrace",
    {0, _} = kymo_cli:run(["export", "perfetto", "-o", Out, Dir]),
    [Values, Tracks, Reports] = kymo_trace_processor:query(kymo_trace_processor:find(), Out, [
        "select cast(c.value as int) from counter c join track t on c.track_id = t.id where t.name = 'process_count' order by c.ts",
        "select t.name from track t where t.name in ('memory_total', 'reductions/s', 'scheduler_utilization 2 %', 'cpu_time %') order by 1",
        "select count(*) from slice where category = 'system_monitor'"
    ]),
    ?assertEqual(of_counter(Dir, "process_count"), [V || [V] <- Values]),
    ?assertEqual(["cpu_time %"] ++ ["memory_total" || kymo_peer:counts_memory()] ++ ["reductions/s", "scheduler_utilization 2 %"],
        [unicode:characters_to_list(Name) || [Name] <- Tracks]),
    [#{<<"n">> := N}] = rows(Dir, "select count(*) as n from system_monitor"),
    ?assertEqual([[N]], Reports).

%% ---- the system monitor ----------------------------------------------------------

provoked(Config) ->
    Dir = ?config(dir, Config),
    {Collector, Heap, Sender, Port, Slow} = in_peer(Config, provoke, [Dir]),
    Of = fun(Kind) -> rows(Dir, ["select * from system_monitor where kind = '", Kind, "'"]) end,
    ?assertMatch([#{<<"duration_ns">> := Ns, <<"start_ns">> := Start, <<"time_ns">> := Time} | _] when
        Ns >= 1000000 andalso Start =:= Time - Ns, [R || #{<<"pid">> := P} = R <- Of("long_gc"), P =:= Collector]),
    ?assert(lists:max([W || #{<<"pid">> := P, <<"words">> := W} <- Of("large_heap"), P =:= Collector]) >= Heap),
    ?assertMatch([#{<<"pid">> := Sender, <<"port">> := Port} | _], Of("busy_port")),
    [_ | _] = [Ns || #{<<"pid">> := P, <<"duration_ns">> := Ns} <- Of("long_schedule"), P =:= Slow],
    ?assertEqual(<<"set">>, hd(kinds(Dir))).

%% Until the runtime has reported each of them; a single report takes milliseconds.
provoke(Dir) ->
    Settings = [{long_gc, 1}, {large_heap, 1000000}, busy_port, {long_schedule, 1}],
    {ok, R} = kymo:start(#{dir => Dir, system_monitor => Settings, counters => 50}),
    Collector = spawn(fun() -> collect([]) end),
    Slow = spawn(fun block/0),
    Port = open_port({spawn, "sleep 100"}, [binary]),
    Sender = spawn(fun() -> receive {start, P} -> port_command(P, binary:copy(<<1>>, 1 bsl 24)), port_command(P, <<1>>) end end),
    port_connect(Port, Sender),
    unlink(Port),
    Sender ! {start, Port},
    Of = fun(Pid) -> text(pid_to_list(Pid)) end,
    Wanted = [{<<"long_gc">>, Of(Collector)}, {<<"large_heap">>, Of(Collector)}, {<<"busy_port">>, Of(Sender)},
              {<<"long_schedule">>, Of(Slow)}],
    _ = until(fun() -> Wanted -- reports(Dir) =:= [] end),
    ?assertEqual([], Wanted -- reports(Dir)),
    Answer = {Of(Collector), 1000000, Of(Sender), text(erlang:port_to_list(Port)), Of(Slow)},
    [exit(P, kill) || P <- [Collector, Slow, Sender]],
    {ok, _} = kymo:stop(R),
    true = nothing_left(),
    Answer.

text(List) -> list_to_binary(List).

collect(Kept) when length(Kept) > 20 -> collect([]);
collect(Kept) ->
    More = lists:seq(1, 500000),
    garbage_collect(),
    collect([More | Kept]).

%% A runtime function that does not yield.
block() ->
    _ = list_to_tuple(lists:seq(1, 4000000)),
    block().

long_queue(Config) ->
    case list_to_integer(erlang:system_info(otp_release)) >= 27 of
        true ->
            Dir = ?config(dir, Config),
            Pid = in_peer(Config, fill_mailbox, [Dir]),
            Reports = rows(Dir, "select pid, value from system_monitor where kind = 'long_message_queue' order by time_ns"),
            ?assertEqual([{Pid, 1}, {Pid, 0}], [{P, V} || #{<<"pid">> := P, <<"value">> := V} <- Reports]);
        false ->
            {skip, "this runtime does not report long message queues"}
    end.

fill_mailbox(Dir) ->
    {ok, R} = kymo:start(#{dir => Dir, system_monitor => [{long_message_queue, {2, 20}}]}),
    Pid = spawn(fun() -> receive empty -> flush() end end),
    [Pid ! N || N <- lists:seq(1, 30)],
    reported(R, 1),
    Pid ! empty,
    reported(R, 2),
    exit(Pid, kill),
    {ok, _} = kymo:stop(R),
    true = nothing_left(),
    text(pid_to_list(Pid)).

flush() -> receive _ -> flush() end.

reported(R, N) -> true = until(fun() -> #{system_monitor := #{events := E}} = kymo:info(R), E >= N end).

%% A setting of another process is neither replaced nor lost. Once that process is gone, the
%% recorder's is set.
held_by_another(Config) ->
    Dir = ?config(dir, Config),
    Other = in_peer(Config, with_another, [Dir]),
    Notes = rows(Dir, "select kind, pid from system_monitor where kind in ('set', 'held') order by time_ns"),
    ?assertEqual([{<<"held">>, Other}, {<<"set">>, null}], [{K, P} || #{<<"kind">> := K, <<"pid">> := P} <- Notes]),
    {0, Info} = kymo_cli:run(["info", Dir]),
    {match, _} = re:run(Info, "1  held: another process has set the system monitor").

with_another(Dir) ->
    Other = spawn(fun flush/0),
    undefined = erlang:system_monitor(Other, [busy_port]),
    {ok, R} = kymo:start(#{dir => Dir, tracing => global, system_monitor => [{large_heap, 1000000}], counters => 20}),
    true = until(fun() -> element(1, state(R)) =/= off end),
    {held, Other} = state(R),
    {Other, [busy_port]} = erlang:system_monitor(),
    exit(Other, kill),
    true = until(fun() -> {set, none} =:= state(R) end),
    {Ours, [{large_heap, 1000000}]} = erlang:system_monitor(),
    [Ours] = counting(),
    {ok, _} = kymo:stop(R),
    true = nothing_left(),
    text(pid_to_list(Other)).

state(R) ->
    #{system_monitor := #{state := State, held_by := By}} = kymo:info(R),
    {State, By}.

%% Another process replaces the recorder's setting during the recording: this is noticed, and
%% the new setting is left alone, also at the end.
taken_over(Config) -> taken_over(Config, 20).

%% It does not have to wait for the next sample, which may be an hour away.
taken_over_between_samples(Config) -> taken_over(Config, 3600000).

taken_over(Config, Interval) ->
    Dir = ?config(dir, Config),
    ok = in_peer(Config, take_over, [Dir, Interval]),
    ?assertEqual([<<"set">>, <<"held">>], kinds(Dir)).

take_over(Dir, Interval) ->
    {ok, R} = kymo:start(#{dir => Dir, tracing => global, system_monitor => [busy_port], counters => Interval}),
    true = until(fun() -> {set, none} =:= state(R) end),
    Other = spawn(fun flush/0),
    {_, [busy_port]} = erlang:system_monitor(Other, [{long_gc, 1000}]),
    true = until(fun() -> {held, Other} =:= state(R) end),
    {ok, _} = kymo:stop(R),
    {Other, [{long_gc, 1000}]} = erlang:system_monitor(),
    ok.

%% On runtimes that have a system monitor per session, settings do not conflict.
in_a_session(Config) ->
    case code:ensure_loaded(trace) =:= {module, trace} andalso erlang:function_exported(trace, system, 3) of
        true -> ok = in_peer(Config, beside_another, [?config(dir, Config)]);
        false -> {skip, "this runtime has no system monitor for sessions"}
    end.

beside_another(Dir) ->
    Self = self(),
    undefined = erlang:system_monitor(Self, [{large_heap, 1000000}]),
    {ok, R} = kymo:start(#{dir => Dir, system_monitor => [{large_heap, 1000000}]}),
    true = until(fun() -> {set, none} =:= state(R) end),
    #{system_monitor := #{mode := session}} = kymo:info(R),
    {Self, [{large_heap, 1000000}]} = erlang:system_monitor(),
    Pid = spawn(fun() -> collect([]) end),
    receive {monitor, Pid, large_heap, _} -> ok end,
    reported(R, 1),
    exit(Pid, kill),
    {ok, _} = kymo:stop(R),
    {Self, [{large_heap, 1000000}]} = erlang:system_monitor(),
    ok.

%% Thousands of reports per second: those beyond the limit are counted instead of recorded.
too_many(Config) ->
    Dir = ?config(dir, Config),
    ok = in_peer(Config, flood, [Dir]),
    Kinds = kinds(Dir),
    ?assert(lists:member(<<"too_many">>, Kinds)),
    [?assert(N >= 1) || #{<<"value">> := N} <- rows(Dir, "select value from system_monitor where kind = 'too_many'")],
    %% The limit per second holds, whatever the node does. The reports may begin in any part of a
    %% second, and a slow node may need several to reach the limit.
    [#{<<"n">> := N, <<"seconds">> := Seconds}] = rows(Dir,
        "select count(*) as n, (max(time_ns) - min(time_ns)) / 1000000000 as seconds from system_monitor "
        "where kind = 'large_heap' and time_ns <= (select min(time_ns) from system_monitor where kind = 'too_many')"),
    ?assert(N =< 500 * (Seconds + 2)).

flood(Dir) ->
    {ok, R} = kymo:start(#{dir => Dir, system_monitor => [{large_heap, 1}], counters => 20}),
    Pids = [spawn(fun() -> garbage(lists:seq(1, 20000)) end) || _ <- lists:seq(1, 4)],
    true = until(fun() -> lists:member(<<"too_many">>, kinds(Dir)) end),
    [exit(P, kill) || P <- Pids],
    {ok, _} = kymo:stop(R),
    true = nothing_left(),
    ok.

%% The runtime accepts no limit below 16,384 words.
garbage(Kept) ->
    garbage_collect(),
    garbage(Kept).

%% ---- the end --------------------------------------------------------------------------

%% A node that cannot start any more processes is still recorded, and what was killed meanwhile is
%% started again as soon as it can.
no_more_processes(Config) ->
    Dir = ?config(dir, Config),
    ok = in_peer(Config, fill_process_table, [Dir]),
    ?assert(lists:max(of_counter(Dir, "process_count")) >= 1000).

fill_process_table(Dir) ->
    {ok, {kymo_recorder, Server, _, _} = R} = kymo:start(#{dir => Dir, counters => 20, system_monitor => default}),
    [Counting] = counting(),
    %% Repeatedly, because a process of the runtime may end in between.
    Others = lists:foldl(fun(_, Pids) ->
        More = as_many_as_possible(Pids),
        {ok, _} = kymo:trace(R, #{events => [procs]}),
        More
    end, [], lists:seq(1, 20)),
    more_samples(R, 5),
    %% The server notices only when the place of the killed process is taken.
    true = erlang:suspend_process(Server),
    Ref = monitor(process, Counting),
    exit(Counting, kill),
    receive {'DOWN', Ref, process, _, _} -> ok end,
    More = as_many_as_possible(Others),
    true = erlang:resume_process(Server),
    #{state := active} = kymo:info(R),
    [exit(P, kill) || P <- More],
    true = until(fun() -> #{counters := Counters} = kymo:info(R), is_map(Counters) end),
    more_samples(R, 5),
    {ok, _} = kymo:stop(R),
    true = nothing_left(),
    ok.

as_many_as_possible(Pids) ->
    try spawn(fun forever_waiting/0) of
        Pid -> as_many_as_possible([Pid | Pids])
    catch
        error:system_limit -> Pids
    end.

forever_waiting() -> receive never -> ok end.

owner_dies(Config) ->
    Dir = ?config(dir, Config),
    ok = in_peer(Config, owned, [Dir]),
    true = until(fun() ->
        {0, Json} = kymo_cli:run(["info", "--json", Dir]),
        maps:with([<<"state">>, <<"reason">>], json(Json)) =:= #{<<"state">> => <<"closed">>, <<"reason">> => <<"owner">>}
    end).

owned(Dir) ->
    Self = self(),
    Owner = spawn(fun() ->
        {ok, R} = kymo:start(#{dir => Dir, counters => 10, system_monitor => default}),
        Self ! {recorder, R},
        receive stop -> ok end
    end),
    R = receive {recorder, Recorder} -> Recorder end,
    _ = more_samples(R, 3),
    [Counting] = counting(),
    Gone = monitor(process, Counting),
    exit(Owner, kill),
    receive {'DOWN', Gone, process, _, _} -> ok end,
    true = nothing_left(),
    ok.

%% The server restarts the process, and it continues.
process_killed(Config) -> ok = in_peer(Config, kill_counting, [?config(dir, Config)]).

kill_counting(Dir) ->
    {ok, R} = kymo:start(#{dir => Dir, counters => 10, system_monitor => [busy_port]}),
    _ = more_samples(R, 2),
    [Counting] = counting(),
    exit(Counting, kill),
    true = until(fun() -> case counting() of [New] -> New =/= Counting; _ -> false end end),
    _ = more_samples(R, 2),
    true = until(fun() -> {set, none} =:= state(R) end),
    {ok, _} = kymo:stop(R),
    true = nothing_left(),
    ok.

%% The samples go on, and a process found later is in them.
measuring_killed(Config) -> ok = in_peer(Config, kill_measuring, [?config(dir, Config)]).

kill_measuring(Dir) ->
    {ok, R} = kymo:start(#{dir => Dir, counters => 10}),
    Counting = counting(),
    _ = more_samples(R, 2),
    [Measuring] = in(kymo_busiest),
    exit(Measuring, kill),
    true = until(fun() -> case in(kymo_busiest) of [New] -> New =/= Measuring; _ -> false end end),
    Full = spawn(fun() -> receive stop -> ok end end),
    [Full ! N || N <- lists:seq(1, 4321)],
    true = until(fun() -> lists:member(4321, of_counter(Dir, "mailbox_length")) end),
    ?assertEqual(Counting, counting()),
    {ok, _} = kymo:stop(R),
    true = nothing_left(),
    exit(Full, kill),
    ok.

server_killed(Config) -> ok = in_peer(Config, kill_server, [?config(dir, Config)]).

kill_server(Dir) ->
    {ok, {kymo_recorder, Server, _, _} = R} = kymo:start(#{dir => Dir, counters => 10, system_monitor => [busy_port]}),
    _ = more_samples(R, 2),
    exit(Server, kill),
    true = until(fun() -> counting() =:= [] end),
    true = nothing_left(),
    ok.

paused(Config) ->
    Dir = ?config(dir, Config),
    Before = in_peer(Config, pause, [Dir]),
    ?assertEqual(Before, length(of_counter(Dir, "process_count"))).

%% Nothing is recorded while it is paused; the last sample is taken at the moment of the pause.
pause(Dir) ->
    {ok, R} = kymo:start(#{dir => Dir, counters => 10}),
    _ = more_samples(R, 3),
    ok = kymo:pause(R),
    Recorded = length(of_counter(Dir, "process_count")),
    _ = more_samples(R, 5),
    {ok, _} = kymo:stop(R),
    Recorded.

%% ---- options --------------------------------------------------------------------------

bad_options(Config) ->
    Dir = ?config(dir, Config),
    Bad = [{counters, V} || V <- [0, 9, 3600001, 1.0, on, -100]] ++
        [{system_monitor, V} || V <- [true, [], [{long_gc, x}], [busy], [busy_port, busy_port], [{long_gc, 1 bsl 40}],
                                      [{long_gc, 1}, {long_gc, 2}], [busy_port | busy_dist_port], #{long_gc => 1}]],
    [?assertEqual({Option, {error, {bad_option, Option, V}}}, {Option, kymo:start(#{dir => Dir, Option => V})}) || {Option, V} <- Bad],
    [?assertMatch([_ | _], lists:flatten(kymo:format_error({bad_option, Option, V}))) || {Option, V} <- Bad],
    ?assertNot(filelib:is_dir(Dir)).

%% The options that kymo attach accepts, and those that the recorder receives.
options_of_attach(_) ->
    Start = fun(Args) -> maps:with([counters, system_monitor], kymo_attach_options:start(Args)) end,
    ?assertEqual(#{counters => 100, system_monitor => default}, Start([])),
    ?assertEqual(#{counters => none, system_monitor => none}, Start([{"counters", "off"}, {"system_monitor", "off"}])),
    [?assertMatch(#{counters := Ms}, Start([{"counters", Text}])) || {Text, Ms} <- [{"10ms", 10}, {"2s", 2000}, {"3600s", 3600000}]],
    [?assertThrow({error, {bad_counters, Text}}, Start([{"counters", Text}])) || Text <- ["9ms", "100", "3601s", "1m", "", "-5ms"]],
    ?assertThrow({error, {bad_system_monitor, "on"}}, Start([{"system_monitor", "on"}])).
