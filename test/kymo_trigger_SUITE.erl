%% SPDX-License-Identifier: Apache-2.0
%%
%% Triggers of kymo:start/1. Causes of known size are planted by processes that measure
%% themselves: what took longer than the limit by the measure inside fires, once; what took
%% less by the measure outside does not.
-module(kymo_trigger_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-compile(export_all).
-compile(nowarn_export_all).

-define(ALL_EVENTS, [messages, procs, running, garbage_collection]).

all() ->
    [refusals, calls, requests, exits, mailboxes, schedules, collections, checks, nothing_fires, stopped,
     cooldown, maximum, retention, retention_by_size, earlier_files_stay, stop_action, note_action,
     overwritten_cause, missed, killed_watcher, killed_process, killed_recorder, looks_end, nothing_left, bad_folder,
     full_folder, many_calls, many_exits, many_mailboxes, many_snapshots, too_many_snapshots, at_node_start, from_a_shell,
     damaged_firing].

init_per_suite(Config) ->
    {module, _} = code:ensure_loaded(kymo),
    Config.

end_per_suite(_) -> ok.

init_per_testcase(Case, Config) ->
    Dir = filename:join(?config(priv_dir, Config), atom_to_list(Case)),
    ok = file:make_dir(Dir),
    [{dir, Dir} | Config].

%% What a case that failed has left would be in the way of the others.
end_per_testcase(_, _) ->
    {Living, _} = kymo_recorders:list(),
    _ = [exit(Server, kill) || #{pid := Server} <- Living],
    true = kymo_cli:until(fun() -> element(1, kymo_recorders:list()) =:= [] end),
    ok.

%% ---- what is planted ------------------------------------------------------------

%% Nanoseconds.
now_ns() -> erlang:monotonic_time(nanosecond).

%% Not a tail call: so it has an end of its own. The answer is its duration as it sees it itself.
slow(Ms) ->
    Start = now_ns(),
    receive after Ms -> ok end,
    now_ns() - Start.

%% In a process of its own. The process, and the measures inside and outside of the call.
measured_slow(Ms) ->
    in_process(fun() ->
        Start = now_ns(),
        Inside = ?MODULE:slow(Ms),
        {Inside, now_ns() - Start}
    end).

in_process(Fun) ->
    {Pid, Monitor} = spawn_monitor(fun() -> exit({shutdown, Fun()}) end),
    receive {'DOWN', Monitor, process, Pid, {shutdown, Answer}} -> {Pid, Answer} end.

%% A gen_server that takes its time.
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

%% Waits until triggers look so.
until(R, Fun) ->
    Looks = fun() -> kymo_cli:until(fun() -> Fun(triggers(R)) end) end,
    %% On a machine that has much else to do.
    Looks() orelse Looks() orelse Looks() orelse Looks() orelse error({not_so, triggers(R)}),
    triggers(R).

fired(R, N) -> until(R, fun(#{fired := Fired}) -> Fired >= N end).

%% All that has happened until now was judged.
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

%% The snapshot says what fired, holds its cause, and the cause is that of this process.
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
        [{check, fun() -> true end, 0}], lists:duplicate(65, {exit, '_'})
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
        {exit, "bad*"}, {collection, 1}, {schedule, 1.5}, {check, fun() -> false end}, {check, fun() -> false end, 10}
    ],
    {ok, R} = kymo:start(#{dir => rec(Config), triggers => Good, on_trigger => #{action => note}}),
    ?assertMatch(#{watcher := running, watcher_error := none, error := none}, judged(R)),
    {ok, #{triggers := #{watcher := stopped}}} = kymo:stop(R),
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
    %% What it was about comes first.
    #{snapshot := Dir} = Firing,
    {0, Why} = kymo_cli:run(["why", "-q", Dir]),
    ?assertMatch(<<"fired        call,kymo_trigger_SUITE:slow/1,50000us: ", _/binary>>, Why),
    #{<<"answers">> := [#{<<"process_pid">> := Who} | _]} = json(["why", "-q", "--json", Dir]),
    {ok, _} = kymo:stop(R).

is_open(#{open := Open}) -> Open.

%% Fires while the server still works on it; the answer of why is about this request.
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
abnormal({{tuple, 1}, []}) -> {yes, none};
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
    %% Not again until it has been half full.
    AtLimit ! one_more,
    #{firings := [#{process_pid := Third} | _]} = fired(R, 3),
    ?assertEqual(text(AtLimit), Third),
    {ok, _} = kymo:stop(R),
    [exit(P, kill) || P <- [Full, AtLimit, Named]].

%% A process with so many messages.
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

%% The process keeps its scheduler without running any code of Erlang.
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

%% How: sleep, this scheduler only; block, with all schedulers stopped.
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

%% A larger heap until its collection takes long enough. How long all of it took.
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
    %% Once for each time that it becomes true.
    ets:insert(Table, {bad, false}),
    ets:insert(Table, {bad, true}),
    _ = until(R, fun(#{fired := N, error := E}) ->
        ets:insert(Table, {bad, N < 2 andalso erlang:system_time(millisecond) rem 100 < 50}),
        N >= 2 andalso E =/= none
    end),
    #{error := Error} = triggers(R),
    ?assertMatch({_, _}, binary:match(Error, <<"mistake">>)),
    {ok, _} = kymo:stop(R).

%% As much of everything, within the limits.
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

%% Only the patched runtime knows; the others say so.
stopped(Config) ->
    case catch erlang:system_info(kymo_blocking) of
        Counts when is_map(Counts) ->
            {ok, R} = kymo:start(#{dir => rec(Config), triggers => [{stopped, 50}], on_trigger => #{action => note, cooldown => 0}}),
            ?assertMatch(#{watcher := none}, triggers(R)),
            keep_scheduler(block, 200),
            #{firings := [#{kind := <<"stopped">>, value := Late, reason := Reason}]} = fired(R, 1),
            ct:log("~b ns, by ~ts", [Late, Reason]),
            ?assert(Late > 50000000),
            {ok, _} = kymo:stop(R);
        _ ->
            {error, Error} = kymo:start(#{dir => rec(Config), triggers => [{stopped, 1}]}),
            ?assertMatch({match, _}, re:run(kymo:format_error(Error), "\\{stopped, Ms\\} needs the runtime of erts_patches"))
    end.

%% ---- what is done ---------------------------------------------------------------------------

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

%% The newest stays, whatever its size.
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
    %% As a node leaves it that is killed while it writes.
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

%% ---- the cause is gone -----------------------------------------------------------------------

%% The server cannot take the snapshot until the ring has none of it: the firing says so.
overwritten_cause(Config) ->
    R = {kymo_recorder, Server, _} = start(Config, [{exit, boom}], #{cooldown => 0}, #{memory => 2 bsl 20}),
    #{complete_from := Start} = kymo:info(R),
    ok = sys:suspend(Server),
    Pid = died(boom),
    %% The triggers' process waits for the server: it watches it as a caller does, too.
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

%% More events than the memory of a small recorder holds.
flood() ->
    _ = in_process(fun() -> _ = [?MODULE:slow(0) || _ <- lists:seq(1, 50000)], ok end),
    ok.

%% The command cannot keep up, and says so.
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

%% ---- what dies ---------------------------------------------------------------------------------

%% The process id of the command.
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
    %% Also what happens before it is back. Nothing twice.
    Second = died(boom),
    #{firings := Firings} = until(R, fun(#{fired := N, watcher_starts := S}) -> N >= 2 andalso S =:= 2 end),
    ?assertEqual([text(Second), text(First)], [P || #{process_pid := P} <- Firings]),
    #{fired := 2, watcher := running, watcher_error := none} = judged(R),
    true = kymo_cli:until(fun() -> is_gone(Os) end),
    {ok, _} = kymo:stop(R).

%% The process in the node, too.
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

%% Nothing of the triggers outlives the recorder's process.
killed_recorder(Config) ->
    {kymo_recorder, Server, _} = R = start(Config, [{exit, boom}], #{}),
    _ = judged(R),
    Os = watcher(R),
    {connected, Pid} = erlang:port_info(hd(ports()), connected),
    exit(Server, kill),
    true = kymo_cli:until(fun() -> not is_process_alive(Pid) andalso ports() =:= [] andalso is_gone(Os) end).

%% What looks for triggers ends with the recorder, however that ends, and so does a fun that
%% it waits for.
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
    {ok, {kymo_recorder, Server, _} = R} = kymo:start(#{
        dir => filename:join(?config(dir, Config), How),
        triggers => [{mailbox, 1000000}, {mailbox, [self()], 1000000}, {check, fun() -> false end, 1000}, {check, Hanging}]
    }),
    Asked = receive {asked, Pid} -> Pid end,
    case How of
        stop -> {ok, _} = kymo:stop(R);
        kill -> exit(Server, kill)
    end,
    true = kymo_cli:until(fun() -> not is_process_alive(Asked) andalso processes() -- Before =:= [] end).

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

%% A file system of its own, in a name space of its own.
full_folder(Config) ->
    Dir = ?config(dir, Config),
    Mount = "mount -t tmpfs -o size=64k tmpfs " ++ filename:join(Dir, "full"),
    ok = file:make_dir(filename:join(Dir, "full")),
    case os:cmd("unshare -r -m true 2>&1") of
        "" ->
            Ebin = filename:dirname(code:which(kymo)),
            Suite = filename:dirname(code:which(?MODULE)),
            Eval = io_lib:format("kymo_trigger_SUITE:fill(~p), halt().", [Dir]),
            Command = ["exec erl -noinput -pa '", Ebin, "' '", Suite, "' -eval '", lists:flatten(Eval), "'"],
            Out = os:cmd(lists:flatten(["unshare -r -m sh -c \"", Mount, " && ", escaped(lists:flatten(Command)), "\" 2>&1"])),
            ?assertMatch({match, _}, re:run(Out, "full: enospc enospc \\[\\] fired again"));
        No ->
            {skip, "no name space for a file system: " ++ No}
    end.

escaped(Text) -> lists:flatmap(fun($") -> "\\\""; ($\\) -> "\\\\"; (C) -> [C] end, Text).

%% In a node of its own: the folder is full, nothing of the snapshot stays, and the recorder goes on.
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

%% ---- many -----------------------------------------------------------------------------------------

%% Beside a process that wants a scheduler for itself, and is not recorded.
busy(Fun) ->
    Burner = spawn(fun() ->
        process_flag(sensitive, true),
        (fun Burn() -> _ = lists:seq(1, 1000), Burn() end)()
    end),
    try Fun()
    after exit(Burner, kill)
    end.

%% Half of them just around the limit, which only they themselves can tell.
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

%% Without its process's exit, which is no part of this.
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
    R = start(Config, [{mailbox, 10}], #{cooldown => 0, action => note}),
    Full = [parked(10 + N rem 2) || N <- lists:seq(1, 1500)],
    _ = fired(R, 750),
    %% The others have been looked at again when this one was.
    Last = parked(11),
    #{fired := 751, firings := [#{process_pid := Who} | _]} = fired(R, 751),
    ?assertEqual(text(Last), Who),
    {ok, _} = kymo:stop(R),
    [exit(P, kill) || P <- [Last | Full]].

%% Each has a snapshot, which holds its cause, on a busy machine.
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
            {0, Printed} = kymo_cli:run(["print", "-q", "--pid", Pid, "--tag", Tag, Dir]),
            ?assertNotEqual(<<>>, Printed),
            Pid
        end
     || Name <- snapshots(Folder)
    ],
    ?assertEqual([], [text(P) || P <- Pids] -- Found).

%% More firings than snapshots can be taken: what waits is bounded, and the rest is counted.
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
    %% 99 others waited behind the first of the last 100, or some more about what was judged.
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

%% ---- the command -----------------------------------------------------------------------------------

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
            {["--trigger", "slow,x,1ms", Rec], <<"no kind of trigger; allowed: call,FUNCTIONS,TIME">>},
            {["--trigger", "call,x", Rec], <<"has no time">>},
            {["--cooldown", "soon" | Slow] ++ [Rec], <<"--cooldown: 'soon' is not a time such as">>},
            {["--from", "noon" | Slow] ++ [Rec], <<"--from: 'noon' is not a time">>},
            {["-n", "x" | Slow] ++ [Rec], <<"--limit: 'x' is not a number">>},
            {Slow, <<"name one recording, not 0">>}
        ]
    ].

%% A file that is no firing is none.
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
    %% Nothing that a terminal takes for a command, and nothing but characters.
    Evil = <<"\\u009b2J\\u001b[2J\\ud800\\r ", 16#c2, 16#9b, " ", 16#9b, " ", 127, " ", 16#f0, 16#9f>>,
    ok = file:write_file(File, [<<"{\"kind\":\"exit\",\"trigger\":\"">>, Evil, <<" \",\"process\":\"">>, lists:duplicate(200, <<"\x{1f600}"/utf8>>), <<"\"}">>]),
    {0, Shown} = kymo_cli:run(["info", "-q", Dir]),
    ?assertMatch({_, _}, binary:match(Shown, <<"?2J?[2J?? ? ? ? ??">>)),
    ?assertEqual(127, length(binary:matches(Shown, <<"\x{1f600}"/utf8>>))),
    ?assertEqual(nomatch, re:run(Shown, "[\\x00-\\x09\\x0b-\\x1f\\x7f-\\x9f]", [unicode, {capture, none}])),
    %% Times that no recording has.
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
