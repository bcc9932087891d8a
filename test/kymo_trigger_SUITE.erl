%% SPDX-License-Identifier: Apache-2.0
%%
%% Triggers of kymo:start/1. Processes plant causes and measure them from inside and from
%% outside. A cause whose inside measurement exceeds the limit must fire exactly once; one whose
%% outside measurement is below the limit must not fire.
-module(kymo_trigger_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-compile(export_all).
-compile(nowarn_export_all).

-define(ALL_EVENTS, [messages, procs, running, garbage_collection]).

all() ->
    [refusals, calls, requests, exits, mailboxes, schedules, collections, checks, nothing_fires, stopped, reported,
     cooldown, maximum, retention, retention_by_size, earlier_files_stay, stop_action, note_action,
     overwritten_cause, missed, killed_watcher, killed_process, killed_recorder, looks_end, looks_end_early, nothing_left, bad_folder,
     full_folder, many_calls, many_exits, many_mailboxes, many_snapshots, each_kind, too_many_snapshots, at_node_start, from_a_shell,
     damaged_firing].

init_per_suite(Config) ->
    {module, _} = code:ensure_loaded(kymo),
    Config.

end_per_suite(_) -> ok.

init_per_testcase(Case, Config) ->
    Dir = filename:join(?config(priv_dir, Config), atom_to_list(Case)),
    ok = file:make_dir(Dir),
    [{dir, Dir} | Config].

%% Removes what a failed case has left, so that it does not affect other cases.
end_per_testcase(_, _) ->
    {Living, _} = kymo_recorders:list(),
    _ = [exit(Server, kill) || #{pid := Server} <- Living],
    true = kymo_cli:until(fun() -> element(1, kymo_recorders:list()) =:= [] end),
    ok.

%% ---- what is planted ------------------------------------------------------------

%% Nanoseconds.
now_ns() -> erlang:monotonic_time(nanosecond).

%% Not a tail call, so that its end is recorded. Returns its duration as measured inside.
slow(Ms) ->
    Start = now_ns(),
    receive after Ms -> ok end,
    now_ns() - Start.

%% Makes the call in a separate process. Returns that process, and the durations measured inside
%% and outside of the call.
measured_slow(Ms) ->
    in_process(fun() ->
        Start = now_ns(),
        Inside = ?MODULE:slow(Ms),
        {Inside, now_ns() - Start}
    end).

in_process(Fun) ->
    {Pid, Monitor} = spawn_monitor(fun() -> exit({shutdown, Fun()}) end),
    receive {'DOWN', Monitor, process, Pid, {shutdown, Answer}} -> {Pid, Answer} end.

%% A gen_server with slow callbacks.
init(_) -> {ok, none}.
handle_call({take, Ms}, _, S) -> {reply, ?MODULE:slow(Ms), S}.
handle_cast(_, S) -> {noreply, S}.

%% ---- a recorder --------------------------------------------------------------------

start(Config, Triggers, On) -> start(Config, Triggers, On, #{}).

start(Config, Triggers, On, Options) ->
    Rec = rec(Config),
    {ok, R} = kymo:start(maps:merge(#{dir => Rec, memory => 4 bsl 20, triggers => Triggers, on_trigger => On}, Options)),
    {ok, _} = kymo:trace(R, #{functions => [{?MODULE, slow, 1}], returns => true, events => ?ALL_EVENTS}),
    R.

rec(Config) -> filename:join(?config(dir, Config), "rec").

folder(Config) -> rec(Config) ++ ".triggered".

triggers(R) -> maps:get(triggers, kymo:info(R)).

%% Waits until Fun returns true for the state of the triggers.
until(R, Fun) ->
    Looks = fun() -> kymo_cli:until(fun() -> Fun(triggers(R)) end) end,
    %% Two attempts, for busy machines.
    Looks() orelse Looks() orelse error({not_so, triggers(R)}),
    triggers(R).

fired(R, N) -> until(R, fun(#{fired := Fired}) -> Fired >= N end).

%% Waits until everything that has happened so far was evaluated.
judged(R) ->
    #{dir := Dir} = kymo:info(R),
    Started = json(["info", "--json", "-q", Dir], <<"start_unix_ns">>),
    Now = erlang:system_time(nanosecond) - Started,
    until(R, fun(#{judged_until := Until}) -> Until > Now + 100000000 end).

json(Args, Key) -> maps:get(Key, json(Args)).

json(Args) ->
    {0, Out} = kymo_cli:run(Args),
    kymo_cli:json(binary_to_list(Out)).

text(Pid) -> list_to_binary(pid_to_list(Pid)).

snapshots(Folder) ->
    case file:list_dir(Folder) of
        {ok, Names} -> lists:sort(Names);
        {error, enoent} -> []
    end.

%% The snapshot names the firing and contains its cause, and the cause is in this process.
check_snapshot(#{snapshot := Dir, kind := Kind, value := Value, held := true} = Firing) ->
    #{<<"firing">> := InInfo, <<"state">> := <<"snapshot">>} = json(["info", "--json", "-q", Dir]),
    ?assertMatch(#{<<"kind">> := Kind, <<"value">> := Value, <<"held">> := true}, InInfo),
    {0, Text} = kymo_cli:run(["info", "-q", Dir]),
    ?assertMatch({_, _}, binary:match(Text, <<"all of it is in this recording">>)),
    #{process_pid := Pid} = Firing,
    {0, Printed} = kymo_cli:run(["print", "-q", "--pid", Pid, Dir]),
    ?assertNotEqual(<<>>, Printed),
    Printed.

%% ---- options --------------------------------------------------------------------------

refusals(Config) ->
    Bad = [
        x, [x], [{call, "m:f/1"}], [{call, "m:f/1", 0}], [{call, "m:f/1", soon}], [{call, "", 1}], [{call, 5, 1}],
        [{call, "a\nb", 1}], [{call, {m, f, -1}, 1}], [{request, '_', -1}], [{mailbox, -1}], [{mailbox, [], 1}],
        [{mailbox, ["x"], 1}], [{exit, 1}], [{collection, x}], [{schedule, 1.0e20}], [{check, fun(X) -> X end}],
        [{check, fun() -> true end, 0}], [{stopped, 0}], [{reported, long}], [{reported, 5}], [{reported, ""}],
        lists:duplicate(65, {exit, '_'})
    ],
    [
        begin
            {error, {bad_option, triggers, _} = Error} = kymo:start(#{dir => rec(Config), triggers => B}),
            Text = lists:flatten(kymo:format_error(Error)),
            ?assertMatch({match, _}, re:run(Text, "allowed: a list of at most 64 of \\{call, Functions, Ms\\}"))
        end
     || B <- Bad
    ],
    BadOn = [
        x, #{actions => stop}, #{action => kill}, #{folder => 5}, #{cooldown => -1}, #{cooldown => infinity}, #{max => 0},
        #{keep => 0}, #{keep_bytes => x}
    ],
    [
        begin
            {error, {bad_option, on_trigger, _} = Error} =
                kymo:start(#{dir => rec(Config), triggers => [{exit, '_'}], on_trigger => B}),
            Text = lists:flatten(kymo:format_error(Error)),
            ?assertMatch({match, _}, re:run(Text, "action \\(snapshot, stop, note\\), folder, cooldown"))
        end
     || B <- BadOn
    ],
    Missing = filename:join([?config(dir, Config), "no", "such", "folder"]),
    {error, {missing_folder, _}} =
        kymo:start(#{dir => rec(Config), triggers => [{exit, '_'}], on_trigger => #{folder => Missing}}),
    false = filelib:is_file(rec(Config)),
    %% All that are allowed.
    Good = [
        {call, "m:f/1", 1}, {call, <<"m:f">>, 0.5}, {call, m, 1}, {call, {m, f}, 1}, {call, {m, f, 1}, 1}, {call, {'_', f, '_'}, 1},
        {request, '_', 1}, {request, "m:_/_", 1}, {mailbox, 0}, {mailbox, [init, self()], 5}, {exit, '_'}, {exit, killed},
        {exit, "bad*"}, {collection, 1}, {schedule, 1.5}, {stopped, 1.5}, {reported, long_gc}, {reported, "busy_*"}, {reported, '_'}, {check, fun() -> false end}, {check, fun() -> false end, 10}
    ],
    {ok, R} = kymo:start(#{dir => rec(Config), triggers => Good, on_trigger => #{action => note}, counters => 1000, system_monitor => default}),
    ?assertMatch(#{watcher := running, watcher_error := none, error := none}, judged(R)),
    {ok, #{triggers := #{watcher := stopped}}} = kymo:stop(R),
    %% Triggers that could never fire are refused.
    [begin
         {error, Never} = kymo:start(#{dir => rec(Config) ++ "3", triggers => [{exit, '_'}, Trigger]}),
         ?assertEqual(Text, lists:flatten(kymo:format_error(Never)))
     end || {Trigger, Text} <- [{{reported, long_gc}, "the trigger reported,long_gc needs the option system_monitor of kymo:start/1"}] ++
                [{{stopped, 1}, "the trigger stopped,1000us needs the option counters of kymo:start/1"} || not is_counting()]],
    false = filelib:is_file(rec(Config) ++ "3"),
    {ok, Without} = kymo:start(#{dir => rec(Config) ++ "2"}),
    ?assertEqual(none, triggers(Without)),
    {ok, #{triggers := none}} = kymo:stop(Without).

%% ---- each kind ----------------------------------------------------------------------------

calls(Config) ->
    R = start(Config, [{call, {?MODULE, slow, 1}, 50}], #{cooldown => 0}),
    {Pid, {Inside, Outside}} = measured_slow(80),
    #{firings := [Firing]} = fired(R, 1),
    #{value := Value, limit := 50000000, kind := <<"call">>, process_pid := Who, function := F} = Firing,
    ?assertEqual(text(Pid), Who),
    ?assertEqual(<<"kymo_trigger_SUITE:slow/1">>, F),
    is_open(Firing) orelse ?assert(Value >= Inside andalso Value =< Outside),
    Printed = check_snapshot(Firing),
    ?assertMatch({_, _}, binary:match(Printed, <<"call kymo_trigger_SUITE:slow/1">>)),
    %% The trigger is the first line of the answer.
    #{snapshot := Dir} = Firing,
    {0, Why} = kymo_cli:run(["why", "-q", Dir]),
    ?assertMatch(<<"fired        call,kymo_trigger_SUITE:slow/1,50000us: ", _/binary>>, Why),
    #{<<"answers">> := [#{<<"process_pid">> := Who} | _]} = json(["why", "-q", "--json", Dir]),
    {ok, _} = kymo:stop(R).

is_open(#{open := Open}) -> Open.

%% Fires while the server is still working; the answer of `kymo why' is about this request.
requests(Config) ->
    {ok, Server} = gen_server:start({local, ?MODULE}, ?MODULE, [], []),
    R = start(Config, [{request, ?MODULE, 100}, {request, nobody, 1}], #{cooldown => 0}),
    {Client, _} = in_process(fun() -> gen_server:call(Server, {take, 1500}) end),
    #{firings := [Firing]} = judged(R),
    ?assertMatch(#{kind := <<"request">>, limit := 100000000}, Firing),
    ?assertEqual(text(Client), maps:get(process_pid, Firing)),
    ?assertEqual(text(Server), maps:get(server_pid, Firing)),
    ?assert(maps:get(value, Firing) > 100000000),
    _ = check_snapshot(Firing),
    #{snapshot := Dir} = Firing,
    #{<<"answers">> := [Answer | _]} = json(["why", "-q", "--json", Dir]),
    ?assertMatch(#{<<"kind">> := <<"request">>}, Answer),
    ?assertEqual(text(Client), maps:get(<<"process_pid">>, Answer)),
    {ok, _} = kymo:stop(R),
    gen_server:stop(Server).

exits(Config) ->
    R = start(Config, [{exit, '_'}, {exit, "boo*"}], #{cooldown => 0}),
    Reasons = [normal, shutdown, {shutdown, x}, boom, {boo, 17}, {{tuple, 1}, []}, kill],
    Pids = [{died(Reason), Reason} || Reason <- Reasons],
    #{firings := Firings} = judged(R),
    Found = [{maps:get(process_pid, F), maps:get(trigger, F), maps:get(reason, F, none)} || F <- Firings],
    Expected =
        [{text(P), <<"exit,_">>, Reason} || {P, R0} <- Pids, {yes, Reason} <- [abnormal(R0)]] ++
            [{text(P), <<"exit,boo*">>, atom_to_binary(A, utf8)} || {P, R0} <- Pids, A <- [first(R0)], A =:= boom orelse A =:= boo],
    ?assertEqual(lists:sort(Expected), lists:sort(Found)),
    [?assertMatch({_, _}, binary:match(check_snapshot(F), <<" exit">>)) || F <- Firings],
    {ok, _} = kymo:stop(R).

died(kill) ->
    {Pid, Monitor} = spawn_monitor(fun() -> receive never -> ok end end),
    exit(Pid, kill),
    receive {'DOWN', Monitor, process, Pid, killed} -> Pid end;
died(Reason) ->
    {Pid, Monitor} = spawn_monitor(fun() -> exit(Reason) end),
    receive {'DOWN', Monitor, process, Pid, _} -> Pid end.

abnormal(normal) -> no;
abnormal(shutdown) -> no;
abnormal({shutdown, _}) -> no;
abnormal(kill) -> {yes, <<"killed">>};
abnormal({{tuple, 1}, []}) -> {yes, <<"tuple">>};
abnormal(Reason) -> {yes, atom_to_binary(first(Reason), utf8)}.

first(Reason) when is_tuple(Reason) -> element(1, Reason);
first(Reason) -> Reason.

mailboxes(Config) ->
    R = start(Config, [{mailbox, 100}, {mailbox, [?MODULE, nobody], 5}], #{cooldown => 0}),
    Full = parked(101),
    AtLimit = parked(100),
    Named = parked(6),
    true = register(?MODULE, Named),
    #{firings := Firings} = fired(R, 2),
    ?assertEqual(
        lists:sort([{text(Full), 101, 100}, {text(Named), 6, 5}]),
        lists:sort([{P, V, L} || #{process_pid := P, value := V, limit := L, kind := <<"mailbox">>} <- Firings])
    ),
    [?assert(filelib:is_dir(maps:get(snapshot, F))) || F <- Firings],
    %% The trigger is re-armed once the mailbox has shrunk to half of the limit.
    AtLimit ! one_more,
    #{firings := [#{process_pid := Third} | _]} = fired(R, 3),
    ?assertEqual(text(AtLimit), Third),
    {ok, _} = kymo:stop(R),
    [exit(P, kill) || P <- [Full, AtLimit, Named]].

%% A process with so many messages in its mailbox.
parked(N) ->
    Parent = self(),
    Pid = spawn(fun() ->
        receive go -> ok end,
        Parent ! {self(), parked},
        receive never -> ok end
    end),
    [Pid ! x || _ <- lists:seq(1, N)],
    Pid ! go,
    receive {Pid, parked} -> Pid end.

%% The process keeps its scheduler busy without running Erlang code.
schedules(Config) ->
    R = start(Config, [{schedule, 50}], #{cooldown => 0, action => note}),
    {Pid, {Inside, Outside}} = in_process(fun() ->
        Start = now_ns(),
        keep_scheduler(sleep, 100),
        {100000000, now_ns() - Start}
    end),
    #{firings := Firings} = judged(R),
    [#{value := Value, kind := <<"schedule">>} = Firing] = [F || #{process_pid := P} = F <- Firings, P =:= text(Pid)],
    is_open(Firing) orelse ?assert(Value >= Inside),
    ?assert(Value > 50000000 andalso Value < Outside + 100000000),
    {ok, _} = kymo:stop(R).

%% How: sleep keeps only this scheduler; block stops all schedulers.
keep_scheduler(How, Ms) ->
    _ = erts_debug:set_internal_state(available_internal_state, true),
    _ = erts_debug:set_internal_state(How, Ms),
    _ = erts_debug:set_internal_state(available_internal_state, false),
    ok.

collections(Config) ->
    R = start(Config, [{collection, 1}], #{cooldown => 0, action => note}),
    {Pid, Took} = in_process(fun() -> collect([], 1) end),
    #{firings := Firings} = judged(R),
    Ours = [V || #{process_pid := P, value := V, kind := <<"collection">>} <- Firings, P =:= text(Pid)],
    ?assertNotEqual([], Ours),
    [?assert(V > 1000000 andalso V =< Took) || V <- Ours],
    {ok, _} = kymo:stop(R).

%% Grows the heap until a collection takes long enough. Returns how long everything took.
collect(Before, N) ->
    Start = now_ns(),
    Heap = [lists:seq(1, 100000 * N) | Before],
    true = garbage_collect(),
    Collected = now_ns(),
    true = garbage_collect(),
    One = now_ns() - Collected,
    _ = [length(L) || L <- Heap],
    case One > 20000000 orelse N > 30 of
        true -> now_ns() - Start + One;
        false -> now_ns() - Start + collect(Heap, N + 1)
    end.

checks(Config) ->
    Table = ets:new(truth, [public]),
    ets:insert(Table, {bad, false}),
    Fun = fun() -> [{bad, Bad}] = ets:lookup(Table, bad), Bad end,
    R = start(Config, [{check, Fun, 10}, {check, fun() -> error(mistake) end}], #{cooldown => 0}),
    ets:insert(Table, {bad, {true, {queue, 17}}}),
    #{firings := [#{kind := <<"check">>, reason := <<"{queue,17}">>, snapshot := Dir}]} = fired(R, 1),
    ?assert(filelib:is_dir(Dir)),
    %% Fires once each time the condition becomes true.
    ets:insert(Table, {bad, false}),
    ets:insert(Table, {bad, true}),
    _ = until(R, fun(#{fired := N, error := E}) ->
        ets:insert(Table, {bad, N < 2 andalso erlang:system_time(millisecond) rem 100 < 50}),
        N >= 2 andalso E =/= none
    end),
    #{error := Error} = triggers(R),
    ?assertMatch({_, _}, binary:match(Error, <<"mistake">>)),
    {ok, _} = kymo:stop(R).

%% As many events of every kind, all below the limits.
nothing_fires(Config) ->
    {ok, Server} = gen_server:start(?MODULE, [], []),
    R = start(
        Config,
        [{call, {?MODULE, slow, 1}, 60000}, {request, '_', 60000}, {schedule, 60000}, {collection, 60000}, {mailbox, 1000000},
         {exit, '_'}, {check, fun() -> false end, 10}],
        #{cooldown => 0}
    ),
    _ = [measured_slow(N rem 3) || N <- lists:seq(1, 100)],
    _ = [gen_server:call(Server, {take, 1}) || _ <- lists:seq(1, 100)],
    _ = [died(Reason) || Reason <- [normal, shutdown, {shutdown, x}], _ <- lists:seq(1, 50)],
    _ = [exit(parked(100), shutdown) || _ <- lists:seq(1, 10)],
    ?assertMatch(#{fired := 0, suppressed := 0, missed := 0, firings := [], error := none}, judged(R)),
    {ok, #{triggers := #{fired := 0}}} = kymo:stop(R),
    ?assertEqual([], snapshots(folder(Config))),
    gen_server:stop(Server).

%% The patched runtime reports what stopped its schedulers.
is_counting() -> is_map(catch erlang:system_info(kymo_blocking)).

stopped(Config) ->
    case is_counting() of
        true ->
            {ok, R} = kymo:start(#{dir => rec(Config), triggers => [{stopped, 50}], on_trigger => #{action => note, cooldown => 0}}),
            ?assertMatch(#{watcher := none}, triggers(R)),
            keep_scheduler(block, 200),
            #{firings := [#{kind := <<"stopped">>, value := Late, reason := Reason}]} = fired(R, 1),
            ct:log("~b ns, by ~ts", [Late, Reason]),
            ?assert(Late > 50000000),
            {ok, _} = kymo:stop(R);
        false ->
            {ok, R} = kymo:start(#{dir => rec(Config), triggers => [{stopped, 400}], on_trigger => #{cooldown => 0}, counters => 20}),
            true = kymo_cli:until(fun() -> #{counters := #{samples := N}} = kymo:info(R), N > 20 end),
            {From, To} = stop_all(1000),
            Ours = fun(Firings) -> [F || F <- Firings, is_stop(F, From, To)] end,
            #{firings := Firings} = until(R, fun(#{firings := F}) -> Ours(F) =/= [] end),
            [#{kind := <<"stopped">>, value := Value, held := true, snapshot := Dir} | _] = Ours(Firings),
            ?assert(Value > 400000000),
            ?assertMatch(#{<<"firing">> := #{<<"kind">> := <<"stopped">>, <<"held">> := true}}, json(["info", "--json", "-q", Dir])),
            {ok, _} = kymo:stop(R)
    end.

%% Stops all schedulers for that long. Returns the system time before and after, in nanoseconds.
stop_all(Ms) ->
    From = erlang:system_time(nanosecond),
    keep_scheduler(block, Ms),
    {From, erlang:system_time(nanosecond)}.

%% Most of the reported time lies within that interval.
is_stop(#{kind := <<"stopped">>, fired_ms := Fired, value := Value}, From, To) ->
    Fired * 1000000 >= From andalso Fired * 1000000 =< To + 60000000000 andalso Value >= (To - From) div 2;
is_stop(_, _, _) ->
    false.

%% Reports of the system monitor, with nothing traced.
reported(Config) ->
    {ok, R} = kymo:start(#{dir => rec(Config), triggers => [{reported, "long_*"}, {reported, busy_port}], on_trigger => #{cooldown => 0, action => snapshot},
        system_monitor => [{long_gc, 1}, {large_heap, 1000000}]}),
    Who = text(collected()),
    Ours = fun(Firings) -> [F || #{process_pid := P} = F <- Firings, P =:= Who] end,
    #{firings := Firings} = until(R, fun(#{firings := F}) -> Ours(F) =/= [] end),
    %% The large heap is not reported.
    ?assertEqual([{<<"reported">>, <<"long_gc">>}], lists:usort([{K, Reason} || #{kind := K, reason := Reason} <- Firings])),
    [#{value := Value, start_ns := Start, end_ns := End, held := true, snapshot := Dir} | _] = Ours(Firings),
    ?assert(Value >= 1000000),
    ?assertEqual(Value, End - Start),
    {0, Text} = kymo_cli:run(["info", "-q", Dir]),
    ?assertMatch({match, _}, re:run(Text, "fired +reported,long_\\*: long_gc, [0-9.]+ ms")),
    #{<<"n">> := N} = json(["sql", "-q", "--json", Dir,
        lists:concat(["select count(*) as n from system_monitor where kind = 'long_gc' and pid = '", binary_to_list(Who), "'"])]),
    ?assert(N > 0),
    %% Printing the events of a process includes the reports about it, and no others.
    {0, Printed} = kymo_cli:run(["print", "-q", "--pid", Who, Dir]),
    ?assertEqual(N, length(binary:matches(Printed, <<" long_gc ">>))),
    {0, Other} = kymo_cli:run(["print", "-q", "--pid", pid_to_list(self()), "--events", "system_monitor", Dir]),
    ?assertEqual(nomatch, binary:match(Other, Who)),
    {ok, _} = kymo:stop(R).

%% ---- actions --------------------------------------------------------------------------------

cooldown(Config) ->
    R = start(Config, [{exit, one}, {exit, two}], #{cooldown => 1000000}),
    _ = [died(Reason) || Reason <- [one, two], _ <- lists:seq(1, 10)],
    #{fired := 2, acted := 2, suppressed := 18, firings := Firings} = judged(R),
    ?assertEqual([<<"one">>, <<"two">>], lists:sort([Reason || #{reason := Reason} <- Firings])),
    ?assertEqual(2, length(snapshots(folder(Config)))),
    {ok, #{triggers := #{suppressed := 18}}} = kymo:stop(R).

maximum(Config) ->
    R = start(Config, [{exit, '_'}], #{cooldown => 0, max => 3}),
    _ = [died(boom) || _ <- lists:seq(1, 10)],
    #{fired := 10, acted := 3, firings := Firings} = judged(R),
    ?assertEqual(7, length([1 || #{error := max_reached} <- Firings])),
    ?assertEqual(3, length(snapshots(folder(Config)))),
    {ok, _} = kymo:stop(R).

retention(Config) ->
    Folder = filename:join(?config(dir, Config), "caught"),
    R = start(Config, [{exit, '_'}], #{cooldown => 0, keep => 2, folder => Folder}),
    _ = [died(boom) || _ <- lists:seq(1, 6)],
    #{fired := 6, acted := 6, removed := 4, firings := [#{snapshot := Last}, #{snapshot := Before} | _], folder := Folder0} =
        judged(R),
    ?assertEqual(Folder, binary_to_list(iolist_to_binary(Folder0))),
    ?assertEqual(lists:sort([filename:basename(iolist_to_binary(D)) || D <- [Last, Before]]),
                 [list_to_binary(N) || N <- snapshots(Folder)]),
    {ok, _} = kymo:stop(R).

%% The newest snapshot is kept, whatever its size.
retention_by_size(Config) ->
    R = start(Config, [{exit, '_'}], #{cooldown => 0, keep_bytes => 1}),
    _ = [died(boom) || _ <- lists:seq(1, 4)],
    #{fired := 4, removed := 3, firings := [#{snapshot := Last} | _]} = judged(R),
    ?assertEqual([binary_to_list(filename:basename(iolist_to_binary(Last)))], snapshots(folder(Config))),
    {ok, _} = kymo:stop(R).

earlier_files_stay(Config) ->
    Folder = folder(Config),
    ok = file:make_dir(Folder),
    Others = ["20000101T000000.000Z-x", "notes", "zzz"],
    [ok = file:make_dir(filename:join(Folder, N)) || N <- Others],
    Earlier = "20000101T000000.000Z-001-call",
    ok = file:make_dir(filename:join(Folder, Earlier)),
    %% As left by a node that was killed while writing it.
    ok = file:write_file(filename:join([Folder, Earlier, "firing.json.new"]), "{"),
    R = start(Config, [{exit, '_'}], #{cooldown => 0, keep => 1}),
    died(boom),
    _ = until(R, fun(#{removed := N}) -> N =:= 1 end),
    Left = snapshots(Folder),
    ?assertEqual([], Others -- Left),
    ?assertEqual(false, lists:member(Earlier, Left)),
    ?assertEqual(4, length(Left)),
    {ok, _} = kymo:stop(R).

stop_action(Config) ->
    R = start(Config, [{exit, boom}], #{action => stop}, #{owner => none}),
    Pid = died(boom),
    true = kymo_cli:until(fun() -> maps:get(state, kymo:info(R)) =:= closed end),
    #{reason := stop, triggers := #{acted := 1, firings := [#{process_pid := Who}], watcher := stopped}} = kymo:info(R),
    ?assertEqual(text(Pid), Who),
    ?assertEqual({error, already_stopped}, kymo:stop(R)),
    #{<<"state">> := <<"closed">>, <<"firing">> := #{<<"process_pid">> := Who, <<"held">> := true}} =
        json(["info", "--json", "-q", rec(Config)]),
    ?assertEqual([], snapshots(folder(Config))).

note_action(Config) ->
    R = start(Config, [{exit, boom}], #{action => note, cooldown => 0}),
    _ = [died(boom) || _ <- lists:seq(1, 50)],
    #{fired := 50, acted := 0, firings := Firings} = judged(R),
    ?assertEqual(20, length(Firings)),
    {ok, _} = kymo:stop(R),
    ?assertEqual([], snapshots(folder(Config))).

%% ---- the cause has been overwritten ----------------------------------------------------------

%% The server cannot take the snapshot until the ring no longer contains the cause: the firing
%% reports that.
overwritten_cause(Config) ->
    R = {kymo_recorder, Server, _, _} = start(Config, [{exit, boom}], #{cooldown => 0}, #{memory => 2 bsl 20}),
    #{complete_from := Start} = kymo:info(R),
    ok = sys:suspend(Server),
    Pid = died(boom),
    %% The trigger process waits for the server, so it monitors the server like any caller.
    {connected, Triggers} = erlang:port_info(hd(ports()), connected),
    true = kymo_cli:until(fun() ->
        {monitors, Watched} = process_info(Triggers, monitors),
        length([1 || {process, P} <- Watched, P =:= Server]) =:= 2
    end),
    flood(),
    ok = sys:resume(Server),
    #{firings := [#{held := false, snapshot := Dir, process_pid := Who}]} = fired_and_done(R),
    ?assertEqual(text(Pid), Who),
    ?assert(maps:get(complete_from, kymo:info(R)) > Start),
    #{<<"firing">> := #{<<"held">> := false}} = json(["info", "--json", "-q", Dir]),
    {0, Text} = kymo_cli:run(["info", "-q", Dir]),
    ?assertMatch({_, _}, binary:match(Text, <<"its beginning had been overwritten before the snapshot was taken">>)),
    {ok, _} = kymo:stop(R).

fired_and_done(R) -> until(R, fun(#{firings := Firings}) -> Firings =/= [] end).

%% More events than a small recorder's memory holds.
flood() ->
    _ = in_process(fun() -> _ = [?MODULE:slow(0) || _ <- lists:seq(1, 50000)], ok end),
    ok.

%% The command cannot keep up, and reports it.
missed(Config) ->
    R = start(Config, [{exit, boom}], #{cooldown => 0}, #{memory => 2 bsl 20}),
    _ = judged(R),
    Os = watcher(R),
    signal(Os, "STOP"),
    flood(),
    signal(Os, "CONT"),
    #{missed := Missed} = until(R, fun(#{missed := N}) -> N > 0 end),
    ?assert(Missed >= 1),
    Pid = died(boom),
    #{firings := [#{process_pid := Who} | _]} = fired(R, 1),
    ?assertEqual(text(Pid), Who),
    {ok, _} = kymo:stop(R).

%% ---- processes that die ------------------------------------------------------------------------

%% The operating system process id of the command.
watcher(R) ->
    _ = until(R, fun(#{watcher := W}) -> W =:= running end),
    [Port] = ports(),
    {os_pid, Os} = erlang:port_info(Port, os_pid),
    Os.

ports() ->
    Command = kymo:cli_path(),
    [P || P <- erlang:ports(), {name, Name} <- [erlang:port_info(P, name)], Name =:= Command].

signal(Os, Name) -> "" = os:cmd("kill -" ++ Name ++ " " ++ integer_to_list(Os)).

is_gone(Os) -> not filelib:is_dir("/proc/" ++ integer_to_list(Os)).

killed_watcher(Config) ->
    R = start(Config, [{exit, boom}], #{cooldown => 0, action => note}),
    First = died(boom),
    _ = fired(R, 1),
    Os = watcher(R),
    signal(Os, "KILL"),
    #{watcher_error := Error} = until(R, fun(#{watcher := W}) -> W =:= waiting end),
    ?assertMatch({_, _}, binary:match(Error, <<"signal 9">>)),
    %% Events before the restart are evaluated, too, and no event twice.
    Second = died(boom),
    #{firings := Firings} = until(R, fun(#{fired := N, watcher_starts := S}) -> N >= 2 andalso S =:= 2 end),
    ?assertEqual([text(Second), text(First)], [P || #{process_pid := P} <- Firings]),
    #{fired := 2, watcher := running, watcher_error := none} = judged(R),
    true = kymo_cli:until(fun() -> is_gone(Os) end),
    {ok, _} = kymo:stop(R).

%% The trigger process in the node is killed, too.
killed_process(Config) ->
    R = start(Config, [{exit, boom}], #{cooldown => 0, action => note}),
    _ = died(boom),
    _ = fired(R, 1),
    Os = watcher(R),
    {connected, Pid} = erlang:port_info(hd(ports()), connected),
    exit(Pid, kill),
    _ = until(R, fun(#{restarts := N, watcher_starts := S}) -> N =:= 1 andalso S =:= 2 end),
    true = kymo_cli:until(fun() -> is_gone(Os) end),
    Second = died(boom),
    #{firings := [#{process_pid := Who} | _]} = until(R, fun(#{firings := [#{process_pid := P} | _]}) -> P =:= text(Second) end),
    ?assertEqual(text(Second), Who),
    {ok, _} = kymo:stop(R).

%% No part of the triggers outlives the recorder's process.
killed_recorder(Config) ->
    {kymo_recorder, Server, _, _} = R = start(Config, [{exit, boom}], #{}),
    _ = judged(R),
    Os = watcher(R),
    {connected, Pid} = erlang:port_info(hd(ports()), connected),
    exit(Server, kill),
    true = kymo_cli:until(fun() -> not is_process_alive(Pid) andalso ports() =:= [] andalso is_gone(Os) end).

%% The evaluation of triggers ends with the recorder, however the recorder ends, and so does a
%% fun that is being evaluated.
looks_end(Config) ->
    {ok, First} = kymo:start(#{dir => rec(Config) ++ "0"}),
    {ok, _} = kymo:stop(First),
    [looks_end(Config, How) || How <- [stop, kill]].

looks_end(Config, How) ->
    Before = processes(),
    Test = self(),
    Hanging = fun() ->
        Test ! {asked, self()},
        receive never -> ok end
    end,
    {ok, {kymo_recorder, Server, _, _} = R} = kymo:start(#{
        dir => filename:join(?config(dir, Config), How),
        triggers => [{mailbox, 1000000}, {mailbox, [self()], 1000000}, {check, fun() -> false end, 1000}, {check, Hanging}]
    }),
    Asked = receive {asked, Pid} -> Pid end,
    case How of
        stop -> {ok, _} = kymo:stop(R);
        kill -> exit(Server, kill)
    end,
    Left = fun() -> [{P, I} || P <- processes() -- Before, I <- [process_info(P, [initial_call, current_stacktrace])], I =/= undefined] end,
    _ = kymo_cli:until(fun() -> not is_process_alive(Asked) andalso Left() =:= [] end),
    ?assertEqual({false, []}, {is_process_alive(Asked), Left()}).

%% The parent ends before they have begun.
looks_end_early(_) ->
    Before = processes(),
    _ = [
        spawn_opt(fun() -> kymo_trigger_look:start_link(<<"t">>, {check, fun() -> false end, 1000}) end, [{priority, high}])
     || _ <- lists:seq(1, 1000)
    ],
    Left = fun() -> [P || P <- processes() -- Before, {initial_call, {kymo_trigger_look, _, _}} <- [process_info(P, initial_call)]] end,
    ?assert(kymo_cli:until(fun() -> Left() =:= [] end)).

nothing_left(Config) ->
    {ok, First} = kymo:start(#{dir => rec(Config) ++ "0"}),
    {ok, _} = kymo:stop(First),
    Before = {processes(), ports(), length(ets:all())},
    R = start(Config, [{exit, boom}, {mailbox, 10}, {check, fun() -> false end}], #{}),
    _ = judged(R),
    Os = watcher(R),
    {ok, _} = kymo:stop(R),
    true = kymo_cli:until(fun() -> is_gone(Os) end),
    true = kymo_cli:until(fun() -> {processes() -- element(1, Before), ports(), length(ets:all())} =:= {[], [], element(3, Before)} end),
    ?assertEqual(["rec", "rec0"], snapshots(?config(dir, Config))).

%% ---- folders -------------------------------------------------------------------------------------

bad_folder(Config) ->
    File = filename:join(?config(dir, Config), "file"),
    ok = file:write_file(File, "x"),
    R = start(Config, [{exit, boom}], #{cooldown => 0, folder => File}),
    died(boom),
    #{error := enotdir, firings := [#{error := enotdir}]} = until(R, fun(#{error := E}) -> E =/= none end),
    {ok, <<"x">>} = file:read_file(File),
    {ok, #{triggers := #{error := enotdir}}} = kymo:stop(R).

%% A separate file system in a mount namespace of its own.
full_folder(Config) ->
    Dir = ?config(dir, Config),
    Mount = "mount -t tmpfs -o size=16k tmpfs " ++ filename:join(Dir, "full"),
    ok = file:make_dir(filename:join(Dir, "full")),
    case os:cmd("unshare -r -m true 2>&1") of
        "" ->
            Ebin = filename:dirname(code:which(kymo)),
            Suite = filename:dirname(code:which(?MODULE)),
            Eval = io_lib:format("kymo_trigger_SUITE:fill(~p), halt().", [Dir]),
            Command = ["exec erl -noinput -pa '", Ebin, "' '", Suite, "' -eval '", lists:flatten(Eval), "'"],
            Out = os:cmd(lists:flatten(["unshare -r -m sh -c \"", Mount, " && ", escaped(lists:flatten(Command)), "\" 2>&1"])),
            ?assertMatch({_, {match, _}}, {Out, re:run(Out, "full: enospc enospc \\[\\] fired again")});
        No ->
            {skip, "no name space for a file system: " ++ No}
    end.

escaped(Text) -> lists:flatmap(fun($") -> "\\\""; ($\\) -> "\\\\"; (C) -> [C] end, Text).

%% In a node of its own: the folder's file system is full, no part of a snapshot is left, and
%% the recorder continues.
fill(Dir) ->
    Folder = filename:join(Dir, "full"),
    {ok, R} = kymo:start(#{dir => filename:join(Dir, "rec"), memory => 4 bsl 20, triggers => [{exit, boom}],
                           on_trigger => #{cooldown => 0, folder => Folder}}),
    {ok, _} = kymo:trace(R, #{events => [procs, running]}),
    died(boom),
    #{error := E, firings := [#{error := F}]} = until(R, fun(#{error := E0}) -> E0 =/= none end),
    {ok, Left} = file:list_dir(Folder),
    died(boom),
    _ = fired(R, 2),
    io:format("full: ~p ~p ~p fired again~n", [E, F, Left]),
    {ok, _} = kymo:stop(R).

%% ---- many firings ---------------------------------------------------------------------------------

%% Runs Fun beside a busy process that is not recorded.
busy(Fun) ->
    Burner = spawn(fun() ->
        process_flag(sensitive, true),
        (fun Burn() -> _ = lists:seq(1, 1000), Burn() end)()
    end),
    try Fun()
    after exit(Burner, kill)
    end.

%% Half of the calls take about as long as the limit; only their own measurements can tell
%% whether they must fire.
many_calls(Config) ->
    Limit = 5000000,
    R = start(Config, [{call, {?MODULE, slow, 1}, 5}], #{cooldown => 0, action => note}, #{memory => 32 bsl 20}),
    Measured = busy(fun() ->
        lists:append([
            begin
                Asked = [spawn_measured(if N rem 2 =:= 0 -> 10; true -> N rem 6 end) || N <- lists:seq(1, 400)],
                Answers = [receive {P, Measures} -> {P, Measures} end || P <- Asked],
                _ = judged(R),
                Answers
            end
         || _ <- lists:seq(1, 10)
        ])
    end),
    #{fired := Fired, missed := 0, suppressed := 0} = judged(R),
    Surely = length([P || {P, {Inside, _}} <- Measured, Inside > Limit]),
    Maybe = length([P || {P, {_, Outside}} <- Measured, Outside > Limit]),
    ct:log("~b fired, ~b to ~b planted", [Fired, Surely, Maybe]),
    ?assert(Surely >= 2000),
    ?assert(Fired >= Surely andalso Fired =< Maybe, {Surely, Fired, Maybe}),
    {ok, _} = kymo:stop(R).

%% Without the exit of the process, which would be another event.
spawn_measured(Ms) ->
    Parent = self(),
    spawn(fun() ->
        Start = now_ns(),
        Inside = ?MODULE:slow(Ms),
        Parent ! {self(), {Inside, now_ns() - Start}}
    end).

many_exits(Config) ->
    R = start(Config, [{exit, boom}], #{cooldown => 0, action => note}, #{memory => 32 bsl 20}),
    busy(fun() ->
        [
            begin
                _ = [died(if N rem 2 =:= 0 -> boom; true -> normal end) || N <- lists:seq(1, 1000)],
                judged(R)
            end
         || _ <- lists:seq(1, 10)
        ]
    end),
    #{fired := 5000, missed := 0, suppressed := 0} = judged(R),
    {ok, _} = kymo:stop(R).

many_mailboxes(Config) ->
    %% More messages than any other process has on a busy machine.
    R = start(Config, [{mailbox, 100}], #{cooldown => 0, action => note}),
    Full = [parked(100 + N rem 2) || N <- lists:seq(1, 1500)],
    _ = fired(R, 750),
    %% When this one fires, the other mailboxes have been checked again.
    Last = parked(101),
    #{fired := 751, firings := [#{process_pid := Who} | _]} = fired(R, 751),
    ?assertEqual(text(Last), Who),
    {ok, _} = kymo:stop(R),
    [exit(P, kill) || P <- [Last | Full]].

%% Every firing has a snapshot that contains its cause, even on a busy machine.
many_snapshots(Config) ->
    R = start(Config, [{exit, boom}, {call, {?MODULE, slow, 1}, 20}], #{cooldown => 0, max => infinity, keep => infinity}, #{memory => 8 bsl 20}),
    Pids = busy(fun() ->
        lists:append([
            begin
                Died = died(boom),
                {Slow, _} = measured_slow(30),
                _ = fired(R, 2 * N),
                [Died, Slow]
            end
         || N <- lists:seq(1, 10)
        ])
    end),
    _ = judged(R),
    {ok, #{triggers := #{error := none, missed := 0}}} = kymo:stop(R),
    Folder = folder(Config),
    Found = [
        begin
            Dir = filename:join(Folder, Name),
            #{<<"firing">> := #{<<"process_pid">> := Pid, <<"held">> := true, <<"kind">> := Kind}} = json(["info", "--json", "-q", Dir]),
            Tag = case Kind of <<"exit">> -> "exit"; <<"call">> -> "call" end,
            {0, Printed} = kymo_cli:run(["print", "-q", "--pid", Pid, "--events", Tag, Dir]),
            ?assertNotEqual(<<>>, Printed),
            Pid
        end
     || Name <- snapshots(Folder)
    ],
    ?assertEqual([], [text(P) || P <- Pids] -- Found).

%% Firings of all kinds at the same time, each with a snapshot that contains its cause: as many
%% of each kind as KYMO_STRESS_FIRINGS says, or as many as fit into KYMO_STRESS_SECONDS.
each_kind() -> [{timetrap, {hours, 12}}].

each_kind(Config) ->
    Wanted = list_to_integer(os:getenv("KYMO_STRESS_FIRINGS", "10")),
    %% Few at a time: on a busy machine more fires than was planted, and firings beyond 100
    %% waiting ones are suppressed.
    AtOnce = min(2, Wanted),
    Dir = memory_folder(Config),
    Budget = counters:new(1, []),
    %% Fires when the condition becomes true.
    Check = fun() ->
        Left = counters:get(Budget, 1),
        Left > 0 andalso begin counters:sub(Budget, 1, 1), Left rem 2 =:= 0 andalso {true, Left} end
    end,
    Servers = [
        begin
            Name = list_to_atom("each_kind_" ++ integer_to_list(I)),
            {ok, _} = gen_server:start({local, Name}, ?MODULE, [], []),
            Name
        end
     || I <- lists:seq(1, AtOnce)
    ],
    Folder = filename:join(Dir, "caught"),
    Until = erlang:monotonic_time(second) + list_to_integer(os:getenv("KYMO_STRESS_SECONDS", "100000000")),
    %% On the patched runtime the node itself detects stops, and counts them by cause.
    Kinds = [call, check, collection, exit, mailbox, reported, request, schedule] ++ [stopped || not is_counting()],
    %% While a process with a signal collects on a dirty scheduler, OTP's dirty signal handler sends
    %% messages to itself without a break: 20 MB a second.
    {ok, R} = kymo:start(#{
        dir => filename:join(Dir, "rec"), memory => 32 bsl 20, counters => 10, system_monitor => [{large_heap, 6000000}],
        triggers => [{call, {?MODULE, slow, 1}, 20}, {request, "each_kind_*", 20}, {exit, boom}, {collection, 1},
                     {schedule, 40}, {mailbox, 500}, {check, Check, 5}, {reported, large_heap}] ++
            [{stopped, 60} || lists:member(stopped, Kinds)],
        on_trigger => #{cooldown => 0, max => infinity, keep => infinity, keep_bytes => infinity, folder => Folder}
    }),
    {ok, _} = kymo:trace(R, #{functions => [{?MODULE, slow, 1}], returns => true, events => ?ALL_EVENTS}),
    {Planted, Held} = each_kind_rounds(R, Folder, Servers, Budget, {Wanted, Until}, {0, AtOnce, Kinds}, #{}),
    ct:pal("~b planted of each kind; firings that hold their cause: ~0p", [Planted, Held]),
    ?assertEqual(lists:sort(Kinds), lists:sort(maps:keys(Held))),
    [?assertMatch({_, N} when N >= Planted, One) || One <- maps:to_list(Held)],
    #{error := none, missed := 0, suppressed := 0} = triggers(R),
    {ok, _} = kymo:stop(R),
    [gen_server:stop(S) || S <- Servers],
    ok = file:del_dir_r(Dir).

%% Snapshots in memory, because on disk they would wait for it.
memory_folder(Config) ->
    Dir = "/dev/shm/kymo_each_kind_" ++ os:getpid(),
    case file:make_dir(Dir) of
        ok -> Dir;
        {error, _} -> ?config(dir, Config)
    end.

each_kind_rounds(R, Folder, Servers, Budget, {Wanted, Until} = End, {Done, AtOnce, Kinds}, Held) ->
    case Done >= Wanted orelse (Done > 0 andalso erlang:monotonic_time(second) >= Until) of
        true ->
            {Done, Held};
        false ->
            N = min(AtOnce, Wanted - Done),
            Found = each_kind_round(R, Folder, Servers, Budget, N, Kinds),
            Sum = lists:foldl(fun(Kind, Acc) -> maps:update_with(Kind, fun(X) -> X + 1 end, 1, Acc) end, Held, Found),
            each_kind_rounds(R, Folder, Servers, Budget, End, {Done + N, AtOnce, Kinds}, Sum)
    end.

each_kind_round(R, Folder, Servers, Budget, N, Kinds) ->
    Parked = [parked(501) || _ <- lists:seq(1, N)],
    Planted =
        [{text(P), mailbox} || P <- Parked] ++
            lists:append([
                [{text(died(boom)), exit}, {text(element(1, measured_slow(30))), call},
                 {text(element(1, in_process(fun() -> gen_server:call(Server, {take, 30}) end))), request},
                 {text(collected()), collection}, {text(grown()), reported},
                 {text(element(1, in_process(fun() -> keep_scheduler(sleep, 60) end))), schedule}]
             || Server <- lists:sublist(Servers, N)
            ]) ++
            [{stop_all(300 + 4 * sampled(R)), stopped} || lists:member(stopped, Kinds), _ <- lists:seq(1, N)],
    counters:put(Budget, 1, 2 * N),
    Found = each_kind_found(R, Folder, maps:from_list(Planted), N, []),
    [exit(P, kill) || P <- Parked],
    Found.

%% Waits until two samples of the counters were taken, so that an earlier stop is no longer
%% reported. Returns how many milliseconds that took: on a busy machine, only what is longer than twice the
%% usual time between samples is a stop.
sampled(R) ->
    Samples = fun() -> #{counters := #{samples := N}} = kymo:info(R), N end,
    Begun = now_ns(),
    Before = Samples(),
    true = kymo_cli:until(fun() -> Samples() >= Before + 2 end),
    (now_ns() - Begun) div 1000000.

%% Builds a heap that is large enough for a report of the system monitor, and fast to collect.
grown() ->
    {Pid, Monitor} = spawn_opt(fun() -> true = garbage_collect() end, [monitor, {min_heap_size, 9000000}]),
    receive {'DOWN', Monitor, process, Pid, normal} -> Pid end.

%% A collection that takes a few milliseconds: the heap is not collected before.
collected() ->
    Self = self(),
    {Pid, Monitor} = spawn_opt(fun() ->
        %% Enough for a millisecond when the memory has been used before, too.
        List = lists:seq(1, 2000000),
        true = garbage_collect(),
        Self ! {self(), length(List)}
    end, [monitor, {min_heap_size, 10000000}]),
    receive {Pid, 2000000} -> ok end,
    receive {'DOWN', Monitor, process, Pid, _} -> Pid end.

%% Checks and removes snapshots until there was one for each planted cause.
each_kind_found(_, _, Planted, 0, Found) when map_size(Planted) =:= 0 ->
    Found;
each_kind_found(R, Folder, Planted, Checks, Found) ->
    case [Name || Name <- snapshots(Folder), filelib:is_file(filename:join([Folder, Name, "firing.json"]))] of
        [] ->
            true = kymo_cli:until(fun() -> snapshots(Folder) =/= [] end) orelse ct:fail({missing, Planted, Checks, triggers(R)}),
            each_kind_found(R, Folder, Planted, Checks, Found);
        [Name | _] ->
            Dir = filename:join(Folder, Name),
            {ok, Json} = file:read_file(filename:join(Dir, "firing.json")),
            #{<<"kind">> := Text, <<"held">> := true} = Firing = kymo_cli:json(binary_to_list(Json)),
            Kind = binary_to_atom(Text, utf8),
            Key = each_kind_key(Kind, Firing, Planted),
            Known = maps:get(Key, Planted, none) =:= Kind,
            Known andalso each_kind_cause(Kind, Key, Firing, Dir),
            ok = file:del_dir_r(Dir),
            case {Known, Kind} of
                {true, _} -> each_kind_found(R, Folder, maps:remove(Key, Planted), Checks, [Kind | Found]);
                {false, check} -> each_kind_found(R, Folder, Planted, Checks - 1, [Kind | Found]);
                %% On a busy machine other processes are delayed, too, and fire.
                {false, _} -> each_kind_found(R, Folder, Planted, Checks, Found)
            end
    end.

%% The key of a firing: the process, or the interval in which all schedulers were stopped.
each_kind_key(stopped, #{<<"start_unix_ns">> := Start, <<"value">> := Value}, Planted) ->
    case [{From, To} || {{From, To}, stopped} <- maps:to_list(Planted), Start < To, Start + Value > From] of
        [Key | _] -> Key;
        [] -> none
    end;
each_kind_key(_, Firing, _) ->
    maps:get(<<"process_pid">>, Firing, none).

%% The snapshot contains the event that is the cause, or the one with which the cause begins.
each_kind_cause(stopped, _, #{<<"start_ns">> := Start, <<"end_ns">> := End}, Dir) ->
    %% There are samples before and after the stop, and none in between. A sample consists of
    %% several events, and a busy machine can come between them.
    Near = (End - Start) div 4,
    Samples = fun(From, To) ->
        #{<<"n">> := N} = json(["sql", "-q", "--json", Dir, lists:concat(["select count(*) as n from counters where counter = 'run_queue' "
            "and time_ns between ", From, " and ", To])]),
        N
    end,
    ?assert(Samples(Start - Near, Start + Near) > 0),
    ?assertEqual(0, Samples(Start + Near + 1, End - Near - 1)),
    ?assert(Samples(End - Near, End + Near) > 0);
each_kind_cause(reported, Pid, _, Dir) ->
    #{<<"n">> := N} = json(["sql", "-q", "--json", Dir, lists:concat(["select count(*) as n from system_monitor "
        "where kind = 'large_heap' and pid = '", binary_to_list(Pid), "'"])]),
    ?assert(N > 0);
each_kind_cause(Kind, Pid, _, Dir) ->
    {Tag, Wanted} =
        case Kind of
            call -> {"call", "call kymo_trigger_SUITE:slow/1"};
            request -> {"send", "(each_kind_"};
            exit -> {"exit", "exit"};
            collection -> {"garbage_collection", "gc_"};
            schedule -> {"running", " in"};
            mailbox -> {"receive", "receive"}
        end,
    {0, Printed} = kymo_cli:run(["print", "-q", "--pid", Pid, "--events", Tag, "-n", "20", Dir]),
    ?assertNotEqual({Kind, nomatch, Printed}, {Kind, string:find(Printed, Wanted), Printed}).

%% More firings than snapshots can be taken: the queue is bounded, and the rest is counted.
too_many_snapshots(Config) ->
    R = start(Config, [{exit, boom}], #{cooldown => 0, max => infinity, keep => 1}),
    _ = judged(R),
    [Port] = ports(),
    {connected, Triggers} = erlang:port_info(Port, connected),
    true = erlang:suspend_process(Triggers),
    _ = [died(boom) || _ <- lists:seq(1, 500)],
    true = kymo_cli:until(fun() -> element(2, process_info(Triggers, message_queue_len)) >= 500 end),
    true = erlang:resume_process(Triggers),
    #{fired := Fired, acted := Fired, suppressed := Suppressed} =
        until(R, fun(#{fired := F, suppressed := N}) -> F + N =:= 500 end),
    %% The 99 others of the last 100 wait behind the first one; a few more may have been
    %% evaluated before.
    ?assert(Fired =< 101),
    ?assert(Suppressed >= 399),
    {ok, _} = kymo:stop(R).

%% ---- without code ---------------------------------------------------------------------------------

at_node_start(Config) ->
    Dir = ?config(dir, Config),
    Ebin = filename:dirname(code:which(kymo)),
    Always = io_lib:format("#{folder => ~p, events => [procs], triggers => [{exit, boom}]}", [Dir]),
    Out = os:cmd(lists:flatten([
        "KYMO_ALWAYS='", Always, "' erl -noinput -pa '", Ebin, "' '", filename:dirname(code:which(?MODULE)),
        "' -s kymo_app -eval 'kymo_trigger_SUITE:at_start(), halt().'"
    ])),
    ?assertMatch({match, _}, re:run(Out, "caught <<\"boom\">> true")).

at_start() ->
    true = kymo_cli:until(fun() -> kymo:list() =/= [] end),
    died(boom),
    #{firings := [#{reason := Reason, snapshot := Dir}]} = fired_and_done(always),
    io:format("caught ~p ~p~n", [Reason, filelib:is_dir(Dir)]).

%% ---- the command kymo ------------------------------------------------------------------------------

from_a_shell(Config) ->
    R = start(Config, [], #{}),
    Pids = [element(1, measured_slow(30)) || _ <- lists:seq(1, 5)],
    _ = [measured_slow(0) || _ <- lists:seq(1, 5)],
    {ok, _} = kymo:stop(R),
    Rec = rec(Config),
    Watch = fun(Args) ->
        {0, Out} = kymo_cli:run(["watch", "-q" | Args]),
        [kymo_cli:json(binary_to_list(L) ++ "\n") || L <- binary:split(Out, <<"\n">>, [global, trim])]
    end,
    Slow = ["--trigger", "call,kymo_trigger_SUITE:_/_,20ms"],
    All = [P || #{<<"process_pid">> := P, <<"value">> := V} <- Watch(Slow ++ [Rec]), V > 20000000],
    ?assertEqual([text(P) || P <- Pids], All -- (All -- [text(P) || P <- Pids])),
    ?assertEqual(2, length(Watch(["-n", "2" | Slow] ++ [Rec]))),
    ?assertEqual(1, length(Watch(["--cooldown", "1h" | Slow] ++ [Rec]))),
    ?assertEqual([], Watch(["--from", "1h" | Slow] ++ [Rec])),
    ?assertEqual([], Watch(["--trigger", "call,nothing:_/_,1us", Rec])),
    [
        begin
            {2, Out} = kymo_cli:run(["watch" | Args]),
            ?assertMatch({_, _}, binary:match(Out, Says))
        end
     || {Args, Says} <- [
            {[Rec], <<"at least one --trigger is needed">>},
            {["--trigger", "slow,x,1ms", Rec], <<"is not a trigger; allowed: call,FUNCTIONS,TIME">>},
            {["--trigger", "call,x", Rec], <<"has no time">>},
            {["--cooldown", "soon" | Slow] ++ [Rec], <<"--cooldown: 'soon' is not a time such as">>},
            {["--from", "noon" | Slow] ++ [Rec], <<"--from: 'noon' is not a time">>},
            {["-n", "x" | Slow] ++ [Rec], <<"--limit: 'x' is not a number">>},
            {Slow, <<"name one recording, not 0">>}
        ]
    ].

%% A file that is not a valid firing is ignored.
damaged_firing(Config) ->
    R = start(Config, [{exit, boom}], #{cooldown => 0}),
    died(boom),
    #{firings := [#{snapshot := Dir}]} = fired(R, 1),
    {ok, _} = kymo:stop(R),
    File = filename:join(Dir, "firing.json"),
    {ok, Good} = file:read_file(File),
    Cut = [binary:part(Good, 0, N) || N <- lists:seq(0, byte_size(Good) - 3, 7)],
    Others = [
        <<"{}">>, <<"[]">>, <<"{\"kind\":5}">>, <<"{\"kind\":\"exit\",}">>, <<"{\"kind\":\"exit\"">>, <<0>>,
        <<"{\"kind\":\"\\u00zz\"}">>, <<"{\"kind\":\"\\">>, <<"{\"value\":99999999999999999999,\"kind\":\"exit\"}">>,
        binary:copy(<<"x">>, 100000), <<"{\"kind\":\"", (binary:copy(<<"x">>, 50000))/binary, "\"}">>
    ],
    [
        begin
            ok = file:write_file(File, Bad),
            {Bad, null} = {Bad, json(["info", "--json", "-q", Dir], <<"firing">>)},
            {0, _} = kymo_cli:run(["why", "-q", Dir])
        end
     || Bad <- lists:sublist(Cut, 40) ++ Others
    ],
    %% No terminal control sequences, and only valid characters.
    Evil = <<"\\u009b2J\\u001b[2J\\ud800\\r ", 16#c2, 16#9b, " ", 16#9b, " ", 127, " ", 16#f0, 16#9f>>,
    ok = file:write_file(File, [<<"{\"kind\":\"exit\",\"trigger\":\"">>, Evil, <<" \",\"process\":\"">>, lists:duplicate(200, <<"\x{1f600}"/utf8>>), <<"\"}">>]),
    {0, Shown} = kymo_cli:run(["info", "-q", Dir]),
    ?assertMatch({_, _}, binary:match(Shown, <<"?2J?[2J?? ? ? ? ??">>)),
    ?assertEqual(127, length(binary:matches(Shown, <<"\x{1f600}"/utf8>>))),
    ?assertEqual(nomatch, re:run(Shown, "[\\x00-\\x09\\x0b-\\x1f\\x7f-\\x9f]", [unicode, {capture, none}])),
    %% Times that cannot be in any recording.
    [
        begin
            Times = io_lib:format("{\"kind\":\"exit\",\"process_pid\":\"<0.1.0>\",\"start_ns\":~b,\"end_ns\":~b}", [From, To]),
            ok = file:write_file(File, Times),
            Firing = json(["info", "--json", "-q", Dir], <<"firing">>),
            ?assertNotMatch(#{<<"held">> := true}, Firing),
            {0, _} = kymo_cli:run(["info", "-q", Dir]),
            {0, _} = kymo_cli:run(["why", "-q", Dir])
        end
     || {From, To} <- [{1 bsl 63 - 1, 1 bsl 63 - 1}, {0, 1 bsl 63 - 1}, {1000, 0}, {1 bsl 63 - 1, -(1 bsl 63)}]
    ],
    ok = file:write_file(File, Good),
    #{<<"kind">> := <<"exit">>} = json(["info", "--json", "-q", Dir], <<"firing">>).
