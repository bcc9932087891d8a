%% SPDX-License-Identifier: Apache-2.0
%%
%% What is left of a recording when the node, the disk or the folder goes away.
%%
%% A separate node runs workers. Each worker numbers its steps in the first argument of a traced
%% call, so the recording itself shows their order and any gaps. Steps that the node confirmed
%% before it ended must be in the recording, which is read with the command `kymo'.
-module(kymo_durability_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-compile(export_all).
-compile(nowarn_export_all).

-define(WORKERS, 4).

all() ->
    [
        kill_9, kill_9_wrapped, kill_9_discard, segmentation_fault, halt_abort, out_of_memory,
        halt_now, orderly_stop, application_stop, snapshot_under_load, read_while_written,
        limit_events, limit_bytes, limit_duration, rotation_by_size, rotation_by_age,
        disk_full, disk_full_kill_9, disk_full_at_start, read_only, not_permitted, folder_removed, paused_when_killed
    ].

init_per_testcase(Case, Config) ->
    Dir = filename:join(?config(priv_dir, Config), atom_to_list(Case)),
    ok = file:make_dir(Dir),
    [{dir, Dir} | Config].

end_per_testcase(_, Config) ->
    Mount = sub(Config, "disk"),
    %% A lazy unmount, because a failed case may have left a node that uses it.
    filelib:is_dir(Mount) andalso os:cmd("umount -l " ++ Mount),
    case ?config(tc_status, Config) of
        ok -> file:del_dir_r(?config(dir, Config));
        _ -> ok
    end.

%% ---- the node ends --------------------------------------------------------------

kill_9(Config) ->
    killed(Config, #{}, fun(Peer, OsPid) -> signal(Peer, OsPid, "KILL") end).

%% The rings are so small that the workers wrap them many times.
kill_9_wrapped(Config) ->
    Info = killed(
        Config,
        #{memory => 1 bsl 20, segment_size => 4096},
        fun(Peer, OsPid) -> signal(Peer, OsPid, "KILL") end
    ),
    #{overwritten := Overwritten} = Info,
    true = Overwritten > 0.

kill_9_discard(Config) ->
    killed(Config, #{policy => discard}, fun(Peer, OsPid) -> signal(Peer, OsPid, "KILL") end).

segmentation_fault(Config) ->
    killed(Config, #{}, fun(Peer, OsPid) -> signal(Peer, OsPid, "SEGV") end).

halt_abort(Config) ->
    killed(Config, #{}, fun(Peer, _) -> cast_and_wait(Peer, erlang, halt, [abort]) end).

out_of_memory(Config) ->
    case os:getenv("ASAN_OPTIONS") of
        false ->
            killed(Config, #{}, fun(Peer, _) ->
                %% More than the memory limit that the node was started with.
                cast_and_wait(Peer, binary, copy, [<<0>>, 1 bsl 33])
            end);
        _ ->
            {skip, "the memory of the address sanitizer cannot be limited"}
    end.

%% Ends the node under load in the given way, and checks what is left.
killed(Config, Options, Kill) ->
    {Peer, OsPid} = start_node(),
    Rec = sub(Config, "rec"),
    start_load(Peer, Options#{dir => Rec}),
    Confirmed = wait_for_steps(Peer, 40000),
    Kill(Peer, OsPid),
    Info = check(Rec, Confirmed),
    #{state := "crashed"} = Info,
    %% Names of processes that existed before the recorder.
    Text = output(["info", Rec]),
    {match, _} = re:run(Text, "kymo_worker_1"),
    Info.

%% Orderly ends: the files are complete and say so.
halt_now(Config) ->
    ended(Config, ["unload"], fun(Peer) -> cast_and_wait(Peer, erlang, halt, [0]) end).

%% init:stop/0 kills all processes first, in no particular order for those of the recorder.
orderly_stop(Config) ->
    ended(Config, ["owner", "stop", "unload"], fun(Peer) -> cast_and_wait(Peer, init, stop, []) end).

application_stop(Config) ->
    {Peer, _} = start_node(),
    {ok, _} = peer:call(Peer, application, ensure_all_started, [kymo]),
    Rec = sub(Config, "rec"),
    start_load(Peer, #{dir => Rec, policy => discard}),
    Confirmed = wait_for_steps(Peer, 20000),
    ok = peer:call(Peer, application, stop, [kymo]),
    #{state := "closed", reason := "stop"} = check(Rec, Confirmed),
    [] = peer:call(Peer, ?MODULE, traced, []),
    stop_node(Peer).

ended(Config, Reasons, End) ->
    [
        begin
            {Peer, _} = start_node(),
            Rec = sub(Config, atom_to_list(Policy)),
            start_load(Peer, #{dir => Rec, policy => Policy}),
            Confirmed = wait_for_steps(Peer, 20000),
            End(Peer),
            #{state := "closed", reason := Reason} = check(Rec, Confirmed),
            true = lists:member(Reason, Reasons)
        end
     || Policy <- [overwrite, discard]
    ].

paused_when_killed(Config) ->
    {Peer, OsPid} = start_node(),
    Rec = sub(Config, "rec"),
    R = start_load(Peer, #{dir => Rec}),
    Confirmed = wait_for_steps(Peer, 10000),
    ok = peer:call(Peer, kymo, pause, [R]),
    #{events := N} = peer:call(Peer, kymo, info, [R]),
    signal(Peer, OsPid, "KILL"),
    #{state := "crashed", events := N} = check(Rec, Confirmed).

%% ---- while the node runs ------------------------------------------------------------

%% Segments are complete although the writers never wait.
snapshot_under_load(Config) ->
    {Peer, _} = start_node(),
    R = start_load(Peer, #{dir => sub(Config, "rec"), memory => 1 bsl 20, segment_size => 4096}),
    [
        begin
            Confirmed = wait_for_steps(Peer, 20000 * N),
            Snap = sub(Config, "snap" ++ integer_to_list(N)),
            {ok, #{events := Events}} = peer:call(Peer, kymo, snapshot, [R, Snap]),
            #{events := Events} = check(Snap, Confirmed),
            named(output(["info", Snap]))
        end
     || N <- [1, 2, 3, 4, 5]
    ],
    {ok, _} = peer:call(Peer, kymo, stop, [R]),
    stop_node(Peer).

%% Every worker is shown with its name. Which of them are shown depends on what ran last.
named(Info) ->
    {match, [_ | _] = Names} = re:run(Info, "\\S+(?= kymo_durability_SUITE:worker/2)", [
        global, {capture, first, list}
    ]),
    [{match, _} = re:run(Name, "^kymo_worker_[1-4]$") || [Name] <- Names].

read_while_written(Config) ->
    {Peer, _} = start_node(),
    [
        begin
            Rec = sub(Config, atom_to_list(Policy)),
            R = start_load(Peer, #{dir => Rec, policy => Policy}),
            Confirmed = wait_for_steps(Peer, 20000),
            #{state := "active"} = check(Rec, Confirmed),
            {ok, _} = peer:call(Peer, kymo, stop, [R]),
            peer:call(Peer, ?MODULE, stop_workers, [])
        end
     || Policy <- [overwrite, discard]
    ],
    stop_node(Peer).

%% ---- limits and rotation ---------------------------------------------------------------

limit_events(Config) ->
    %% Threads take their share of the limit in batches, so part of it may stay unused.
    limited(Config, #{events => 12345}, "events", fun(#{events := Events}, _) ->
        true = Events =< 12345,
        true = Events > 12000
    end).

limit_bytes(Config) ->
    limited(Config, #{bytes => 1048576}, "bytes", fun(_, Size) -> true = Size =< 1048576 end).

limit_duration(Config) ->
    limited(Config, #{duration => 300}, "duration", fun(#{last_ns := Last}, _) ->
        true = Last =< 2000000000
    end).

limited(Config, Limit, Reason, Check) ->
    {Peer, _} = start_node(),
    Rec = sub(Config, "rec"),
    R = start_load(Peer, #{
        dir => Rec, policy => discard, segment_size => 4096, memory => 4 bsl 20, limit => Limit
    }),
    true = kymo_cli:until(fun() -> maps:get(state, peer:call(Peer, kymo, info, [R])) =:= closed end),
    %% Nothing is traced any more, and the node continues to work.
    true = kymo_cli:until(fun() -> peer:call(Peer, ?MODULE, traced, []) =:= [] end),
    wait_for_steps(Peer, 1000),
    Info = check(Rec, #{}),
    #{state := "closed", reason := Reason} = Info,
    Check(Info, lists:sum([filelib:file_size(F) || F <- data_files(Rec)])),
    stop_node(Peer).

%% Events that were removed with old files are counted.
rotation_by_size(Config) ->
    {Peer, _} = start_node(),
    Rec = sub(Config, "rec"),
    R = start_load(Peer, #{
        dir => Rec, policy => discard, segment_size => 4096, file_size => 262144, max_files => 3
    }),
    true = kymo_cli:until(fun() -> maps:get(files_removed, peer:call(Peer, kymo, info, [R])) >= 3 end),
    {ok, Info} = peer:call(Peer, kymo, stop, [R]),
    #{events := Events, events_removed := Removed, files := Newest, files_removed := Gone} = Info,
    Files = data_files(Rec),
    true = length(Files) =< 3,
    [true = filelib:file_size(F) =< 262144 || F <- Files],
    Newest = Gone + length(Files),
    #{events := Here} = check(Rec, #{}),
    Events = Here + Removed,
    stop_node(Peer).

rotation_by_age(Config) ->
    {Peer, _} = start_node(),
    Rec = sub(Config, "rec"),
    R = start_load(Peer, #{dir => Rec, policy => discard, segment_size => 4096, file_age => 1}),
    true = kymo_cli:until(fun() -> maps:get(files, peer:call(Peer, kymo, info, [R])) >= 2 end),
    {ok, #{events := Events}} = peer:call(Peer, kymo, stop, [R]),
    #{events := Events} = check(Rec, #{}),
    stop_node(Peer).

%% ---- bad disks ---------------------------------------------------------------------------

%% Each event is either in the recording or counted as lost.
disk_full(Config) ->
    on_full_disk(Config, fun(Peer, _, R, Rec, Steps) ->
        {ok, #{lost := #{io := Lost}}} = peer:call(Peer, kymo, stop, [R]),
        #{events := Here, lost := #{io := Lost, total := Total}} = check(Rec, #{}),
        ?assertEqual(Steps, Here + Total),
        stop_node(Peer)
    end).

%% Events that the worker could not write to files are in the rings.
disk_full_kill_9(Config) ->
    on_full_disk(Config, fun(Peer, OsPid, _, Rec, Steps) ->
        signal(Peer, OsPid, "KILL"),
        #{state := "crashed", events := Here, lost := #{total := Total}} = check(Rec, #{}),
        ?assertEqual(Steps, Here + Total)
    end).

%% Calls Fun with a node that has lost events because the disk is full, and with the number of
%% steps that were traced.
on_full_disk(Config, Fun) ->
    on_disk(Config, "size=24m", fun(Disk) ->
        {Peer, OsPid} = start_node(),
        Rec = filename:join(Disk, "rec"),
        R = start_load(Peer, #{
            dir => Rec, policy => discard, segment_size => 4096, memory => 4 bsl 20, dict_size => 1048576
        }),
        true = kymo_cli:until(fun() ->
            #{lost := #{io := Io}} = peer:call(Peer, kymo, info, [R]),
            Io > 0
        end),
        %% The node continues to work, and the recorder reports why it cannot write.
        wait_for_steps(Peer, 1000),
        #{io_error := enospc} = peer:call(Peer, kymo, info, [R]),
        Steps = lists:sum(maps:values(peer:call(Peer, ?MODULE, finish_workers, []))),
        Fun(Peer, OsPid, R, Rec, Steps)
    end).

disk_full_at_start(Config) ->
    on_disk(Config, "size=1m", fun(Disk) ->
        {error, {enospc, Needed, Available} = Why} = kymo:start(#{dir => filename:join(Disk, "rec")}),
        true = Available =< 1 bsl 20 andalso Needed > Available,
        {match, _} = re:run(kymo:format_error(Why), "`memory'"),
        {ok, []} = file:list_dir(Disk),
        {ok, R} = kymo:start(#{dir => sub(Config, "rec")}),
        {ok, _} = kymo:trace(R, #{processes => [self()], functions => "kymo_durability_SUITE:step/2"}),
        [step(N, 1) || N <- lists:seq(1, 100000)],
        {error, enospc} = kymo:snapshot(R, filename:join(Disk, "snap")),
        {ok, []} = file:list_dir(Disk),
        {ok, _} = kymo:stop(R)
    end).

read_only(Config) ->
    on_disk(Config, "ro", fun(Disk) ->
        {error, erofs} = kymo:start(#{dir => filename:join(Disk, "rec")})
    end).

not_permitted(Config) ->
    Dir =
        case os:cmd("id -u") of
            %% Not even the superuser can create anything here.
            "0\n" -> "/sys";
            _ -> sub(Config, "closed")
        end,
    Dir =:= "/sys" orelse file:make_dir(Dir) =:= ok andalso file:change_mode(Dir, 8#500),
    {error, Why} = kymo:start(#{dir => filename:join(Dir, "rec")}),
    true = lists:member(Why, [eacces, eperm, erofs]),
    {error, _} = file:list_dir(filename:join(Dir, "rec")).

folder_removed(Config) ->
    [
        begin
            {Peer, OsPid} = start_node(),
            Rec = sub(Config, atom_to_list(Policy)),
            R = start_load(Peer, #{
                dir => Rec, policy => Policy, segment_size => 4096, memory => 1 bsl 20, file_size => 262144
            }),
            wait_for_steps(Peer, 10000),
            %% Stopped: on a busy machine the recorder creates files faster than they are removed here.
            [] = os:cmd("kill -STOP " ++ OsPid),
            true = kymo_cli:until(fun() -> file:del_dir_r(Rec) =:= ok end),
            [] = os:cmd("kill -CONT " ++ OsPid),
            wait_for_steps(Peer, 50000),
            #{state := active} = Info = peer:call(Peer, kymo, info, [R]),
            %% No file is left to continue with.
            case Policy of
                discard ->
                    true = kymo_cli:until(fun() ->
                        maps:get(io_error, peer:call(Peer, kymo, info, [R])) =:= enoent
                    end);
                overwrite ->
                    #{io_error := none} = Info
            end,
            {ok, #{state := closed}} = peer:call(Peer, kymo, stop, [R]),
            stop_node(Peer)
        end
     || Policy <- [overwrite, discard]
    ].

%% Runs Fun with a small file system of its own.
on_disk(Config, Options, Fun) ->
    Disk = sub(Config, "disk"),
    ok = file:make_dir(Disk),
    case os:cmd("mount -t tmpfs -o " ++ Options ++ " kymo_test " ++ Disk ++ " && echo mounted") of
        "mounted\n" -> Fun(Disk);
        Why -> {skip, "no file system can be mounted: " ++ string:trim(Why)}
    end.

%% ---- what was recorded -----------------------------------------------------------------------

%% Reads a whole recording: the steps of every worker are in order, the only gaps are those that
%% the recording counts as lost, overwritten or removed, and no confirmed step is missing.
%% Returns what `kymo info' says.
check(Rec, Confirmed) ->
    Lines = binary:split(output(["print", "--quiet", "--events", "call", Rec]), <<"\n">>, [global, trim]),
    Calls = [call(L) || L <- Lines],
    Info = info(Rec),
    #{lost := Lost, overwritten := Overwritten, events_removed := Removed} = Info,
    Total = maps:get(total, Lost),
    Whole = Overwritten =:= 0 andalso Removed =:= 0 andalso Total =:= 0,
    %% The output begins at the horizon, from where no events of any thread are missing.
    maps:foreach(
        fun(Worker, Ns) ->
            ?assertEqual({Worker, Ns}, {Worker, lists:usort(Ns)}),
            Holes = lists:last(Ns) - hd(Ns) + 1 - length(Ns),
            Total =:= 0 andalso ?assertEqual({Worker, 0}, {Worker, Holes}),
            ?assert(Holes =< Total),
            Whole andalso ?assertEqual({Worker, 1}, {Worker, hd(Ns)})
        end,
        maps:groups_from_list(fun({_, _, W, _}) -> W end, fun({_, _, _, N}) -> N end, Calls)
    ),
    Last = maps:from_list([{W, N} || {_, _, W, N} <- Calls]),
    %% A worker that did not run for long may have no events after the horizon.
    Total =:= 0 andalso
        maps:foreach(
            fun(W, N) ->
                case Last of
                    #{W := Newest} -> ?assert(Newest >= N);
                    #{} -> ?assertNot(Whole)
                end
            end,
            Confirmed
        ),
    ct:log("~ts", [output(["info", Rec])]),
    Info.

%% "12.345678901 s1 <0.1.0>(name) call kymo_durability_SUITE:step(17, 3)"
call(Line) ->
    [Time, Thread, <<"<0.", _/binary>>, <<"call">>, <<"kymo_durability_SUITE:step(", First/binary>>, W] =
        binary:split(Line, <<" ">>, [global]),
    [Seconds, <<Nanos:9/binary>>] = binary:split(Time, <<".">>),
    [N, <<>>] = binary:split(First, <<",">>),
    {
        binary_to_integer(Seconds) * 1000000000 + binary_to_integer(Nanos),
        Thread,
        binary_to_integer(binary:part(W, 0, byte_size(W) - 1)),
        binary_to_integer(N)
    }.

%% The fields of `kymo info --json' that the cases need.
info(Rec) ->
    Json = output(["info", "--json", Rec]),
    Number = fun(Text, Key) ->
        case re:run(Text, ["\"", Key, "\":(\\d+|null)"], [{capture, all_but_first, list}]) of
            {match, ["null"]} -> 0;
            {match, [N]} -> list_to_integer(N)
        end
    end,
    Word = fun(Key) ->
        {match, [W]} = re:run(Json, ["\"", Key, "\":\"([^\"]*)\""], [{capture, all_but_first, list}]),
        W
    end,
    {match, [Lost]} = re:run(Json, "\"lost\":({[^}]*})", [{capture, all_but_first, binary}]),
    {match, [Damage]} = re:run(Json, "\"damage\":({[^}]*})", [{capture, all_but_first, binary}]),
    [?assertEqual(0, Number(Damage, Key)) || Key <- ["segments_bad", "records_bad", "dict_bad"]],
    #{
        state => Word("state"),
        reason => Word("reason"),
        events => Number(Json, "events") + Number(Json, "incomplete_events"),
        overwritten => Number(Json, "overwritten"),
        events_removed => Number(Json, "events_removed"),
        last_ns => Number(Json, "last_ns"),
        lost => #{total => Number(Lost, "total"), io => Number(Lost, "io")}
    }.

output(Args) ->
    {0, Text} = kymo_cli:run(Args),
    Text.

data_files(Rec) ->
    filelib:wildcard(filename:join(Rec, "data.*")).

sub(Config, Name) ->
    filename:join(?config(dir, Config), Name).

%% ---- the node under load --------------------------------------------------------------------------

%% A separate runtime with a memory limit of a few gigabytes (the address sanitizer needs terabytes of
%% addresses), reached without distribution.
start_node() ->
    [Erl | _] = [E || E <- [filename:join([code:root_dir(), "bin", "erl"])], filelib:is_regular(E)],
    Sh = os:find_executable("sh"),
    {ok, Peer, _} = peer:start(#{
        connection => standard_io,
        exec => {Sh, ["-c", "[ -n \"$ASAN_OPTIONS\" ] || ulimit -v 6000000; ulimit -c 0; exec \"$@\"", "sh", Erl]},
        args => ["-pa", filename:dirname(code:which(kymo)), filename:dirname(code:which(?MODULE))],
        env => [{"ERL_CRASH_DUMP_SECONDS", "0"}],
        peer_down => continue
    }),
    {Peer, peer:call(Peer, os, getpid, [])}.

stop_node(Peer) ->
    peer:stop(Peer).

signal(Peer, OsPid, Signal) ->
    Monitor = monitor(process, Peer),
    [] = os:cmd("kill -" ++ Signal ++ " " ++ OsPid),
    wait_for_end(Peer, Monitor).

cast_and_wait(Peer, M, F, A) ->
    Monitor = monitor(process, Peer),
    ok = peer:cast(Peer, M, F, A),
    wait_for_end(Peer, Monitor).

wait_for_end(Peer, _) ->
    true = kymo_cli:until(fun() -> element(1, peer_state(Peer)) =:= down end),
    peer:stop(Peer).

peer_state(Peer) ->
    case peer:get_state(Peer) of
        {down, _} = Down -> Down;
        State -> {State, running}
    end.

%% Starts workers, and a recorder that traces them with arguments. No process owns the recorder:
%% the calling process in the other node exits at once.
start_load(Peer, Options) ->
    ok = peer:call(Peer, ?MODULE, start_workers, []),
    {ok, R} = peer:call(Peer, kymo, start, [
        maps:merge(#{owner => none, calls => arguments, memory => 16 bsl 20}, Options)
    ]),
    Workers = [worker_name(W) || W <- lists:seq(1, ?WORKERS)],
    Spec = #{processes => Workers, functions => "kymo_durability_SUITE:step/2"},
    {ok, #{functions := 1, processes := ?WORKERS}} = peer:call(Peer, kymo, trace, [R, Spec]),
    ok = peer:call(Peer, ?MODULE, go, []),
    R.

%% Waits until the workers have done so many steps in total. Returns the steps of each worker
%% that had ended before this call.
wait_for_steps(Peer, Steps) ->
    Begin = lists:sum(maps:values(peer:call(Peer, ?MODULE, steps, []))),
    wait_for_steps(Peer, Begin + Steps, #{}).

wait_for_steps(Peer, Goal, _) ->
    Now = peer:call(Peer, ?MODULE, steps, []),
    case lists:sum(maps:values(Now)) >= Goal of
        true -> Now;
        false -> wait_for_steps(Peer, Goal, Now)
    end.

%% In the node.

worker_name(W) -> list_to_atom("kymo_worker_" ++ integer_to_list(W)).

start_workers() ->
    Counters = counters:new(?WORKERS + 1, []),
    persistent_term:put(?MODULE, Counters),
    [
        register(worker_name(W), spawn(?MODULE, worker, [W, Counters]))
     || W <- lists:seq(1, ?WORKERS)
    ],
    ok.

go() ->
    [worker_name(W) ! go || W <- lists:seq(1, ?WORKERS)],
    ok.

stop_workers() ->
    [
        begin
            Pid = whereis(worker_name(W)),
            Monitor = monitor(process, Pid),
            exit(Pid, kill),
            receive {'DOWN', Monitor, process, Pid, _} -> ok end
        end
     || W <- lists:seq(1, ?WORKERS)
    ],
    ok.

%% Lets each worker finish its current step: every step that it has done was traced.
finish_workers() ->
    Monitors = [monitor(process, worker_name(W)) || W <- lists:seq(1, ?WORKERS)],
    counters:put(persistent_term:get(?MODULE), ?WORKERS + 1, 1),
    [receive {'DOWN', Monitor, process, _, _} -> ok end || Monitor <- Monitors],
    steps().

steps() ->
    Counters = persistent_term:get(?MODULE),
    maps:from_list([{W, counters:get(Counters, W)} || W <- lists:seq(1, ?WORKERS)]).

worker(W, Counters) ->
    receive go -> work(W, Counters, 1) end.

work(W, Counters, N) ->
    step(N, W),
    counters:put(Counters, W, N),
    case counters:get(Counters, ?WORKERS + 1) of
        0 -> work(W, Counters, N + 1);
        _ -> ok
    end.

step(N, W) ->
    %% Slowed down, so that checking the recording does not take minutes.
    {lists:sum(lists:seq(1, 200)) + N, W}.

%% Processes with trace flags, and functions with breakpoints, in the global tracing.
traced() ->
    [P || P <- processes(), erlang:trace_info(P, flags) =/= {flags, []}] ++
        [step || erlang:trace_info({?MODULE, step, 2}, all) =/= {all, false}].
