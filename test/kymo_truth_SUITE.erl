%% SPDX-License-Identifier: Apache-2.0
%%
%% kymo's output is correct. A program that measures how long its calls take, and when its
%% messages are sent and received, is recorded until the memory has been reused several times.
%% Its measurements are compared with the output of every export.
%%
%% The program runs in a node of its own. It reads os:perf_counter/1, which is the clock of the
%% recordings, and erlang:monotonic_time/1, which is the clock of the time stamps in the dbg
%% export: before a call, at its beginning, at its end, and after it. An exported duration must
%% lie between the measurements inside and outside of the call.
-module(kymo_truth_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-compile(export_all).
-compile(nowarn_export_all).

-define(SEGMENT, 16384).
%% Calls per round: the memory holds about 60 rounds.
-define(CHUNK, 600).
%% Enough calls for more than one lap of the memory.
-define(LAP, 75000).

all() ->
    [
        {group, overwrite}, {group, discard},
        many_schedulers, slots_by_schedulers, small_disk, too_small_disk, history
    ].

groups() ->
    Exports = [printed, ctf, dbg, folded, perfetto, arrows, information],
    [{overwrite, [], Exports}, {discard, [], Exports}].

init_per_group(Policy, Config) ->
    Dir = filename:join(?config(priv_dir, Config), Policy),
    ok = file:make_dir(Dir),
    {Taken, Truth} = recordings(Policy, Dir),
    %% Stored in a file, because Common Test prints the whole configuration for each case.
    ok = file:write_file(filename:join(Dir, "exports"), term_to_binary({Taken, Truth})),
    [{group_dir, Dir} | Config].

end_per_group(_, Config) ->
    file:del_dir_r(?config(group_dir, Config)).

init_per_testcase(Case, Config) ->
    Dir = filename:join(?config(priv_dir, Config), Case),
    filelib:is_dir(Dir) orelse file:make_dir(Dir),
    [{dir, Dir} | Config].

end_per_testcase(_, Config) ->
    Disk = filename:join(?config(dir, Config), "disk"),
    filelib:is_dir(Disk) andalso os:cmd("umount -l " ++ Disk),
    ok.

%% ---- recordings ----

%% The exports of each recording: while it was active but the program paused, while the program
%% was running, of a snapshot, after stopping, and after kill -9.
recordings(Policy, Dir) ->
    {Peer, OsPid} = start_node("2:2"),
    ok = on_node(Peer, ?MODULE, start_program, []),
    First = filename:join(Dir, "first"),
    R = start_recorder(Peer, Policy, First),
    _ = on_node(Peer, ?MODULE, rounds, [150]),
    Age = fun(Recorder, Rec) -> age(Peer, Policy, Recorder, Rec, 10) end,
    Age(R, First),
    Active = take(First, {active, on_node(Peer, kymo, info, [R])}),
    Snap = filename:join(Dir, "copy"),
    {ok, _} = on_node(Peer, kymo, snapshot, [R, Snap]),
    Snapshot = take(Snap, {snapshot, none}),
    ok = on_node(Peer, ?MODULE, go_on, []),
    Living = take(First, {living, none}),
    ok = on_node(Peer, ?MODULE, rest, []),
    Age(R, First),
    {ok, Info} = on_node(Peer, kymo, stop, [R]),
    Stopped = take(First, {stopped, Info}),
    Second = filename:join(Dir, "second"),
    R2 = start_recorder(Peer, Policy, Second),
    _ = on_node(Peer, ?MODULE, rounds, [150]),
    Age(R2, Second),
    Truth = on_node(Peer, ?MODULE, known, []),
    %% One call is unfinished when the node dies.
    ok = on_node(Peer, ?MODULE, begin_nap, []),
    kill(Peer, OsPid),
    Killed = take(Second, {killed, none}),
    {[Active, Living, Snapshot, Stopped, Killed], Truth}.

start_node(Schedulers) ->
    {ok, Peer, _} = peer:start(#{
        connection => standard_io,
        exec => filename:join([code:root_dir(), "bin", "erl"]),
        args => ["+S", Schedulers, "-pa", filename:dirname(code:which(kymo)), filename:dirname(code:which(?MODULE))],
        env => [{"ERL_CRASH_DUMP_SECONDS", "0"}],
        peer_down => continue
    }),
    {Peer, on_node(Peer, os, getpid, [])}.

%% Without a timeout, because the machine may be busy.
on_node(Peer, M, F, A) ->
    peer:call(Peer, M, F, A, infinity).

peer_state(Peer) ->
    case peer:get_state(Peer) of
        {down, _} = Down -> Down;
        State -> {State, running}
    end.

kill(Peer, OsPid) ->
    [] = os:cmd("kill -KILL " ++ OsPid),
    true = kymo_cli:until(fun() -> element(1, peer_state(Peer)) =:= down end),
    peer:stop(Peer).

start_recorder(Peer, Policy, Dir) ->
    Memory =
        case Policy of
            overwrite -> #{memory => 2 bsl 20};
            %% Large enough to lose nothing, however late the files are written.
            discard -> #{memory => 48 bsl 20, file_size => 256 * 1024, max_files => 12}
        end,
    {ok, R} = on_node(Peer, kymo, start, [Memory#{
        dir => Dir, owner => none, policy => Policy, segment_size => ?SEGMENT,
        calls => arguments, returns => values, messages => contents, content_bytes => 1024
    }]),
    ok = on_node(Peer, ?MODULE, trace_program, [R]),
    R.

%% Pauses the program on scheduler 2 for more than a lap, so that its earlier events there are
%% older than everything that scheduler 1 still has. The old segment may happen to be the next
%% one that is reused: then this is repeated. It is also repeated if the disk was so slow that
%% events of the last rounds were lost.
age(Peer, Policy, R, Rec, Tries) ->
    %% The memory must have room for the flood. Otherwise that is lost, and the files keep what was
    %% recorded at full speed, with losses.
    Policy =:= overwrite orelse (true = kymo_cli:until(fun() -> drained(Rec) end)),
    _ = on_node(Peer, ?MODULE, rounds, [3]),
    ok = on_node(Peer, ?MODULE, begin_nap, []),
    ok = on_node(Peer, ?MODULE, send_late, []),
    #{files_removed := Removed} = on_node(Peer, kymo, info, [R]),
    ok = on_node(Peer, ?MODULE, only_flood, [case Policy of overwrite -> ?LAP; discard -> 2 * ?LAP end]),
    Policy =:= overwrite orelse
        (true = kymo_cli:until(fun() ->
            maps:get(files_removed, on_node(Peer, kymo, info, [R])) >= Removed + 14 andalso drained(Rec)
        end)),
    ok = on_node(Peer, ?MODULE, send_late, []),
    ok = on_node(Peer, ?MODULE, end_nap, []),
    ok = on_node(Peer, ?MODULE, receive_late, []),
    #{lost := Lost} = on_node(Peer, kymo, info, [R]),
    _ = on_node(Peer, ?MODULE, rounds, [15]),
    #{lost := LostNow} = on_node(Peer, kymo, info, [R]),
    case {older_on(2, json(Rec)), LostNow} of
        {Older, Lost} when Older > 0 -> ok;
        _ when Tries > 0 -> age(Peer, Policy, R, Rec, Tries - 1)
    end.

%% Waits until everything but the open segment of each thread is in files. Otherwise a segment
%% of scheduler 2 that is closed during the next rounds would be written before the rest of the
%% flood, because it was opened earlier, and could be removed with it.
drained(Rec) ->
    {ok, <<_:8192/binary, Slots/binary>>} = file:read_file(filename:join(Rec, "meta")),
    [] =:= [
        Seq
     || <<1:32/native, _:44/binary, Seq:64/native, _:136/binary, Drained:64/native, _:56/binary>> <= Slots,
        Drained + 1 < Seq
    ].

%% Events before the horizon that a scheduler still has.
older_on(Scheduler, Json) ->
    Pattern = "\"kind\":\"scheduler\",\"number\":" ++ integer_to_list(Scheduler) ++
        ",\"name\":\"[^\"]*\",\"os_thread\":\\d+,\"events\":\\d+,\"incomplete_events\":(\\d+)",
    {match, [N]} = re:run(Json, Pattern, [{capture, all_but_first, list}]),
    list_to_integer(N).

json(Rec) ->
    output(["info", "--json", Rec]).

number(Json, Key) ->
    {match, [N]} = re:run(Json, "\"" ++ Key ++ "\":(-?\\d+)", [{capture, all_but_first, list}]),
    list_to_integer(N).

lost(Json) ->
    {match, [N]} = re:run(Json, "\"lost\":{\"total\":(\\d+)", [{capture, all_but_first, list}]),
    list_to_integer(N).

output(Args) ->
    {0, Text} = kymo_cli:run(Args),
    Text.

%% All output of kymo for a recording at this moment.
take(Rec, {State, Info}) ->
    Out = filename:join(filename:dirname(Rec), State),
    ok = file:make_dir(Out),
    Export = fun(Format, Options) ->
        File = filename:join(Out, Format),
        {0, _} = kymo_cli:run(["export", Format, "--quiet", "-o", File] ++ Options ++ [Rec]),
        File
    end,
    Print = output(["print", "--quiet", Rec]),
    {State, #{
        print => Print,
        ctf => Export("ctf", []),
        dbg => Export("dbg", []),
        folded => Export("folded", ["--wall"]),
        perfetto => Export("perfetto", []),
        json => json(Rec),
        text => output(["info", Rec]),
        info => Info
    }}.

for_all(Config, Fun) ->
    {ok, Bytes} = file:read_file(filename:join(?config(group_dir, Config), "exports")),
    {Taken, Truth} = binary_to_term(Bytes),
    [Fun(State, Exports, Truth) || {State, Exports} <- Taken],
    ok.

%% While the program runs it may be faster than the disk. Then only the exports that show
%% durations are certain to report losses.
for_all_whole(Config, Fun) ->
    for_all(Config, fun(State, #{json := Json} = Exports, Truth) ->
        case State =:= living andalso lost(Json) of
            Lost when is_integer(Lost), Lost > 0 -> ct:log("~b events lost", [Lost]);
            _ -> Fun(State, Exports, Truth)
        end
    end).

%% ---- durations ----

%% Calls and returns of one function in order: {call, N, Ns} and {return, N, Ns}. None is
%% missing after the horizon.
printed(Config) ->
    for_all_whole(Config, fun(State, #{print := Text}, Truth) ->
        Lines = binary:split(Text, <<"\n">>, [global, trim]),
        durations(State, [E || L <- Lines, E <- printed_event(L)], Truth, perf)
    end).

%% Only lines that contain these words need to be parsed.
has(Line, Words) ->
    binary:match(Line, Words) =/= nomatch.

printed_event(Line) ->
    case has(Line, [<<"kymo_truth_SUITE:step">>, <<"kymo_truth_SUITE:nap">>]) of
        true -> printed_event_of(Line);
        false -> []
    end.

printed_event_of(Line) ->
    Call = "^(\\d+)\\.(\\d{9}) \\S+ \\S+ call kymo_truth_SUITE:(step|nap)\\((\\d+)\\)",
    Return = "^(\\d+)\\.(\\d{9}) \\S+ \\S+ return_from kymo_truth_SUITE:(step|nap)/1 value=\\{(\\d+),",
    [
        {Tag, list_to_atom(F), list_to_integer(N), list_to_integer(S ++ Ns)}
     || {Tag, Pattern} <- [{call, Call}, {return, Return}],
        {match, [S, Ns, F, N]} <- [re:run(Line, Pattern, [{capture, all_but_first, list}])]
    ].

ctf(Config) ->
    Babeltrace = os:find_executable("babeltrace2"),
    case Babeltrace of
        false ->
            {skip, "babeltrace2 is not installed: the CTF export was NOT checked"};
        _ ->
            for_all_whole(Config, fun(State, #{ctf := Dir}, Truth) ->
                {0, Text} = kymo_cli:command(
                    "/usr/bin/timeout", ["120", Babeltrace, "--clock-seconds", "--no-delta", Dir]
                ),
                Lines = binary:split(Text, <<"\n">>, [global, trim]),
                Mfas = maps:from_list([Mfa || L <- Lines, has(L, [<<" kymo_mfa: ">>]), Mfa <- ctf_function(L)]),
                Ids = [iolist_to_binary([" mfa = ", Id, ","]) || Id <- maps:keys(Mfas)],
                durations(State, [E || L <- Lines, has(L, Ids), E <- ctf_event(L, Mfas)], Truth, perf)
            end)
    end.

ctf_function(Line) ->
    Pattern = " kymo_mfa: .* id = (\\d+), .*name = \"kymo_truth_SUITE:(step|nap)/1\"",
    case re:run(Line, Pattern, [{capture, all_but_first, list}]) of
        {match, [Id, F]} -> [{Id, list_to_atom(F)}];
        nomatch -> []
    end.

ctf_event(Line, Mfas) ->
    Pattern = "^\\[(\\d+)\\.(\\d{9})\\].* (call|return_from): .* mfa = (\\d+), [^[]*content = \\[ (.*?\\d) \\]",
    case re:run(Line, Pattern, [{capture, all_but_first, list}]) of
        {match, [S, Ns, Tag, Mfa, Bytes]} when is_map_key(Mfa, Mfas) ->
            Values = [list_to_integer(lists:last(string:split(B, "= "))) || B <- string:split(Bytes, ", ", all)],
            N =
                case binary_to_term(list_to_binary([131 | Values])) of
                    [X] -> X;
                    Result -> element(1, Result)
                end,
            [{hd([return || Tag =:= "return_from"] ++ [call]), maps:get(Mfa, Mfas), N, list_to_integer(S ++ Ns)}];
        _ ->
            []
    end.

dbg(Config) ->
    for_all_whole(Config, fun(State, #{dbg := File}, Truth) ->
        durations(State, [E || T <- kymo_cli:read_dbg(File), E <- dbg_event(T)], Truth, erlang)
    end).

dbg_event({trace_ts, _, call, {?MODULE, F, [N]}, Ns}) -> [{call, F, N, Ns}];
dbg_event({trace_ts, _, return_from, {?MODULE, F, 1}, Result, Ns}) -> [{return, F, element(1, Result), Ns}];
dbg_event(_) -> [].

durations(State, Events, Truth, Clock) ->
    Steps = [{Tag, N} || {Tag, step, N, _} <- Events],
    ?assertEqual({State, Steps}, {State, in_order(Steps)}),
    Shown = pairs(Events, #{}),
    ct:log("~p: ~p durations", [State, length(Shown)]),
    ?assert(length([N || {step, N, _, _} <- Shown]) >= least(State)),
    [check(State, Call, Truth, Clock) || Call <- Shown].

%% The minimum number of rounds that must be shown. While the program runs, a slow reader may
%% find that everything that it has started to read has been overwritten.
least(living) -> 0;
least(_) -> 10.

%% All steps between the first and the last of these, without gaps.
in_order([]) ->
    [];
in_order(Steps) ->
    {_, First} = hd(Steps),
    {_, Last} = lists:last(Steps),
    All = lists:append([[{call, N}, {return, N}] || N <- lists:seq(First, Last)]),
    From = lists:dropwhile(fun(S) -> S =/= hd(Steps) end, All),
    lists:sublist(From, length(Steps)).

%% Pairs each return with the last call of the same function, as a reader would: {Function, N of
%% the call, Begin, End}.
pairs([{call, F, N, Ns} | Rest], Open) ->
    pairs(Rest, Open#{F => {N, Ns}});
pairs([{return, F, _, End} | Rest], Open) ->
    case Open of
        #{F := {N, Begin}} -> [{F, N, Begin, End} | pairs(Rest, maps:remove(F, Open))];
        #{} -> pairs(Rest, Open)
    end;
pairs([], _) ->
    [].

check(State, {F, N, Begin, End} = Call, Truth, Clock) ->
    {Inner, Outer} = bracket(maps:get({F, N}, Truth), Clock),
    Inner =< End - Begin andalso End - Begin =< Outer orelse
        ct:fail({State, Call, shown, End - Begin, measured, Inner, Outer}).

bracket({OuterBegin, InnerBegin, InnerEnd, OuterEnd}, Clock) ->
    At = fun({Perf, Erlang}) -> case Clock of perf -> Perf; erlang -> Erlang end end,
    {At(InnerEnd) - At(InnerBegin), At(OuterEnd) - At(OuterBegin)}.

%% The sum of all calls that the same recording shows completely.
folded(Config) ->
    for_all(Config, fun
        (living, _, _) ->
            %% Printed at a different time, so not comparable.
            ok;
        (State, #{folded := File, print := Text}, Truth) ->
            {ok, Folded} = file:read_file(File),
            Sum = fun(F) ->
                case re:run(Folded, "mover;kymo_truth_SUITE:" ++ F ++ "/1 (\\d+)", [{capture, all_but_first, list}]) of
                    {match, [N]} -> list_to_integer(N);
                    nomatch -> 0
                end
            end,
            Lines = binary:split(Text, <<"\n">>, [global, trim]),
            Shown = pairs([E || L <- Lines, E <- printed_event(L)], #{}),
            Brackets = [bracket(maps:get({step, N}, Truth), perf) || {step, N, _, _} <- Shown],
            {Inner, Outer} = lists:unzip(Brackets),
            Steps = Sum("step"),
            lists:sum(Inner) =< Steps andalso Steps =< lists:sum(Outer) orelse
                ct:fail({State, shown, Steps, measured, lists:sum(Inner), lists:sum(Outer)})
    end).

perfetto(Config) ->
    for_all(Config, fun(State, #{perfetto := File}, Truth) ->
        {Slices, _} = kymo_perfetto:read(File),
        Calls = [
            {list_to_atom(F), N, Begin, End, maps:get(<<"ended">>, Annotations, returned)}
         || {<<"kymo_truth_SUITE:", Name/binary>>, Begin, End, Annotations} <- Slices,
            F <- ["step", "nap"],
            Name =:= list_to_binary(F ++ "/1"),
            N <- [argument(Annotations)],
            State =/= living orelse not is_map_key(<<"events_lost_meanwhile">>, Annotations)
        ],
        Whole = [{F, N, Begin, End} || {F, N, Begin, End, returned} <- Calls],
        ?assert(length([N || {step, N, _, _} <- Whole]) >= least(State)),
        [check(State, Call, Truth, perf) || Call <- Whole],
        %% The other calls have not returned.
        Open = [{F, Ended} || {F, _, _, _, Ended} <- Calls, Ended =/= returned],
        Ways = [<<"end of the recording">>, <<"with its process">>],
        ?assertEqual({State, []}, {State, [Call || {_, Ended} = Call <- Open, not lists:member(Ended, Ways)]}),
        ?assertEqual({State, State =:= killed}, {State, lists:keymember(nap, 1, Open)})
    end).

argument(#{<<"arguments">> := Text}) ->
    binary_to_integer(binary:part(Text, 1, byte_size(Text) - 2)).

%% ---- arrows ----

arrows(Config) ->
    for_all(Config, fun(State, #{perfetto := File}, Truth) ->
        %% Some runtimes also have arrows from `receive' to `taken', which has no message.
        {_, All} = kymo_perfetto:read(File),
        Arrows = [Arrow || {_, {_, #{<<"message">> := _}}} = Arrow <- All],
        ct:log("~p: ~p arrows", [State, length(Arrows)]),
        ?assert(length(Arrows) >= 2 * least(State)),
        [
            begin
                ?assertEqual({State, message(Out)}, {State, message(In)}),
                {Begin, End} = maps:get(message(Out), Truth),
                Sent =< Received andalso Received - Sent =< End - Begin orelse
                    ct:fail({State, message(Out), shown, Sent, Received, measured, Begin, End})
            end
         || {{Sent, Out}, {Received, In}} <- Arrows
        ]
    end).

%% Messages are recognized by their end; see pad/0.
message(#{<<"message">> := Text}) ->
    case re:run(Text, ",(ping|pong|late),(\\d+)", [{capture, all_but_first, list}]) of
        {match, [Kind, N]} -> {list_to_atom(Kind), list_to_integer(N)};
        nomatch -> Text
    end.

%% ---- information ----

%% kymo:info/1, `kymo info' and the exports agree on where the recording begins.
information(Config) ->
    for_all(Config, fun(State, #{json := Json, text := Text, info := Info, print := Print}, _) ->
        Since = number(Json, "complete_from_ns"),
        {match, [Policy]} = re:run(Json, "\"policy\":\"(\\w+)\"", [{capture, all_but_first, list}]),
        case {State, Policy} of
            {snapshot, "discard"} ->
                %% This refers to the pool, which still has the events that were removed from
                %% the files.
                {match, _} = re:run(Json, "\"whole\":true");
            _ ->
                ?assert(Since > 0),
                {match, _} = re:run(Json, "\"whole\":false"),
                {match, _} = re:run(Text, "\ncomplete     from .* after the start: the last ")
        end,
        %% Nothing counts as complete if no event has been recorded since the last loss.
        ?assertEqual(number(Json, "complete_for_ns"), max(0, number(Json, "last_ns") - Since)),
        ?assert(number(Json, "events") =:= 0 orelse number(Json, "first_ns") >= Since),
        case State of
            living -> ok;
            _ ->
                {match, [S, Ns]} = re:run(Print, "^(\\d+)\\.(\\d{9}) ", [{capture, all_but_first, list}]),
                Oldest = list_to_integer(S ++ Ns),
                ?assert(Oldest >= number(Json, "first_ns"))
        end,
        Info =:= none orelse information(State, Info, Json)
    end).

information(State, Info, Json) ->
    #{complete_from := From, horizon := Horizon, overwritten := Overwritten} = Info,
    #{memory := Memory, memory_used := Used} = Info,
    ct:log("~p ~p ~p", [State, From, number(Json, "complete_from_unix_ns")]),
    ?assertEqual({State, Memory}, {State, number(Json, "memory")}),
    ?assertEqual({State, Overwritten}, {State, number(Json, "overwritten")}),
    %% The node and the reader calibrate the same clock independently.
    ?assert(abs(From - number(Json, "complete_from_unix_ns")) < 1000000),
    ?assert(Used =< Memory),
    ?assert(Horizon * 1000000 >= number(Json, "complete_for_ns") - 1000000),
    Pool = number(Json, "pool_segments") * number(Json, "segment_bytes"),
    State =:= stopped orelse ?assertEqual({State, Used}, {State, Pool + number(Json, "dict_used")}).

%% ---- many schedulers ----

%% With 16 schedulers, one of which does little, the output of all schedulers goes back equally
%% far, measured in calls, which are numbered.
many_schedulers(Config) ->
    [many_schedulers(Policy, filename:join(?config(dir, Config), Policy)) || Policy <- [overwrite, discard]],
    ok.

many_schedulers(Policy, Dir) ->
    ok = file:make_dir(Dir),
    {Peer, OsPid} = start_node("16:16"),
    Rec = filename:join(Dir, "recording"),
    Memory =
        case Policy of
            overwrite -> #{memory => 4 bsl 20};
            discard -> #{memory => 48 bsl 20, file_size => 256 * 1024, max_files => 16}
        end,
    {ok, R} = on_node(Peer, kymo, start, [Memory#{
        dir => Rec, owner => none, policy => Policy, segment_size => ?SEGMENT, calls => arguments
    }]),
    {ok, _} = on_node(Peer, kymo, trace, [R, #{processes => all, functions => "kymo_truth_SUITE:tick/1"}]),
    ok = on_node(Peer, ?MODULE, ticking, [150, 200]),
    Policy =:= overwrite orelse
        (true = kymo_cli:until(fun() -> maps:get(files_removed, on_node(Peer, kymo, info, [R])) >= 10 end)),
    true = equally_far(active, Rec),
    Snap = filename:join(Dir, "copy"),
    {ok, _} = on_node(Peer, kymo, snapshot, [R, Snap]),
    %% The pool still has the events that were removed from the files.
    Policy =:= discard orelse (true = equally_far(snapshot, Snap)),
    kill(Peer, OsPid),
    true = equally_far(killed, Rec).

equally_far(State, Rec) ->
    Ticks = [
        {binary_to_list(Thread), binary_to_integer(binary:part(N, 0, byte_size(N) - 1))}
     || Line <- binary:split(output(["print", "--quiet", "--events", "call", Rec]), <<"\n">>, [global, trim]),
        [_, Thread, _, _, <<"kymo_truth_SUITE:tick(", N/binary>>] <- [binary:split(Line, <<" ">>, [global])]
    ],
    Newest = lists:max([N || {_, N} <- Ticks]),
    ByThread = maps:groups_from_list(fun({T, _}) -> T end, fun({_, N}) -> N end, Ticks),
    Ages = maps:map(fun(_, Ns) -> Newest - lists:min(Ns) end, ByThread),
    ct:log("~p: ~p", [State, Ages]),
    ?assertEqual({State, 16}, {State, map_size(Ages)}),
    ?assert(lists:max(maps:values(Ages)) =< 2 * lists:min(maps:values(Ages))),
    ct:log("~ts", [output(["info", Rec])]),
    number(json(Rec), "complete_from_ns") > 0 orelse throw({State, complete}).

%% In the node: rounds in which each scheduler makes Count calls, except the last scheduler,
%% which makes one.
ticking(Rounds, Count) ->
    Numbers = atomics:new(1, []),
    Last = erlang:system_info(schedulers),
    Self = self(),
    Tickers = [
        spawn_link(fun() ->
            on(Scheduler),
            ticker(Numbers, case Scheduler of Last -> 1; _ -> Count end)
        end)
     || Scheduler <- lists:seq(1, Last)
    ],
    [
        begin
            [Ticker ! {go, Self} || Ticker <- Tickers],
            [receive {done, Ticker} -> ok end || Ticker <- Tickers]
        end
     || _ <- lists:seq(1, Rounds)
    ],
    ok.

ticker(Numbers, Count) ->
    receive
        {go, From} ->
            [tick(atomics:add_get(Numbers, 1, 1)) || _ <- lists:seq(1, Count)],
            From ! {done, self()},
            ticker(Numbers, Count)
    end.

tick(_) -> ok.

%% There is a slot for each thread of the runtime, however few processors there are.
slots_by_schedulers(Config) ->
    {Peer, _} = start_node("24:24"),
    Rec = filename:join(?config(dir, Config), "recording"),
    {ok, R} = on_node(Peer, kymo, start, [#{dir => Rec, owner => none}]),
    Spec = #{functions => "kymo_truth_SUITE:flood/1", events => [calls, running, garbage_collection]},
    {ok, _} = on_node(Peer, kymo, trace, [R, Spec]),
    ok = on_node(Peer, ?MODULE, flood_all, [25000]),
    {ok, #{lost := Lost, overwritten := Overwritten, threads := Threads}} = on_node(Peer, kymo, stop, [R]),
    peer:stop(Peer),
    ?assertEqual({0, []}, {Overwritten, [L || {_, N} = L <- maps:to_list(Lost), N =/= 0]}),
    ?assertEqual(600000, number(json(Rec), "call")),
    ?assertEqual(lists:seq(1, 24), lists:sort([N || #{kind := scheduler, number := N} <- Threads])),
    ?assert([T || #{kind := dirty_cpu} = T <- Threads] =/= []),
    ok.

%% In the node: Count calls on each scheduler, and collections of heaps so large that dirty
%% schedulers perform them.
flood_all(Count) ->
    Monitors = [
        spawn_monitor(fun() ->
            on(Scheduler),
            [flood(I) || I <- lists:seq(1, Count)],
            Large = lists:seq(1, 300000),
            garbage_collect(),
            300000 = length(Large)
        end)
     || Scheduler <- lists:seq(1, erlang:system_info(schedulers))
    ],
    [receive {'DOWN', Monitor, process, Pid, Reason} -> normal = Reason end || {Pid, Monitor} <- Monitors],
    ok.

%% ---- memory ----

small_disk(Config) ->
    on_disk(Config, "size=64m", fun(Disk) ->
        Rec = filename:join(Disk, "recording"),
        {ok, R} = kymo:start(#{dir => Rec}),
        {ok, _} = kymo:trace(R, #{processes => [self()], functions => "kymo_truth_SUITE:flood/1"}),
        [flood(I) || I <- lists:seq(1, 100000)],
        {ok, #{lost := Lost}} = kymo:stop(R),
        ?assertEqual([0], lists:usort(maps:values(Lost))),
        ?assertEqual(100000, number(json(Rec), "call")),
        ok
    end).

too_small_disk(Config) ->
    on_disk(Config, "size=16m", fun(Disk) ->
        Error = kymo:start(#{dir => filename:join(Disk, "recording")}),
        {error, {enospc, Needed, Available} = Why} = Error,
        ?assert(Needed > Available),
        ?assert(Available =< 16 bsl 20),
        Text = lists:flatten(kymo:format_error(Why)),
        [?assertMatch({match, _}, re:run(Text, Word)) || Word <- ["memory", "dir", integer_to_list(Needed)]],
        ?assertEqual({ok, []}, file:list_dir(Disk)),
        %% The remedy that the error names.
        {ok, R} = kymo:start(#{dir => filename:join(Disk, "recording"), memory => 8 bsl 20}),
        {ok, _} = kymo:stop(R)
    end).

on_disk(Config, Options, Fun) ->
    Disk = filename:join(?config(dir, Config), "disk"),
    ok = file:make_dir(Disk),
    case os:cmd("mount -t tmpfs -o " ++ Options ++ " kymo_test " ++ Disk ++ " && echo mounted") of
        "mounted\n" -> Fun(Disk);
        Why -> {skip, "no file system can be mounted: " ++ string:trim(Why)}
    end.

%% The default memory holds at least five times as many events as 4 MiB for each of two
%% schedulers did. A call without arguments takes 17 bytes.
history(Config) ->
    {Peer, _} = start_node("2:2"),
    Rec = filename:join(?config(dir, Config), "recording"),
    {ok, R} = on_node(Peer, kymo, start, [#{dir => Rec, owner => none}]),
    {ok, _} = on_node(Peer, kymo, trace, [R, #{functions => "kymo_truth_SUITE:flood/1"}]),
    ok = on_node(Peer, ?MODULE, flood_all, [2000000]),
    {ok, #{events := Events, overwritten := Overwritten}} = on_node(Peer, kymo, stop, [R]),
    peer:stop(Peer),
    ?assert(Overwritten > 0),
    Kept = Events - Overwritten,
    ct:log("~b events kept", [Kept]),
    ?assert(Kept * 17 >= 5 * (8 bsl 20) * 95 div 100).

%% ---- the program ----
%%
%% In each round, one process makes many calls on scheduler 1, another one makes a call that
%% begins on one scheduler and returns on the other, and two exchange messages between the
%% schedulers. The next round begins when all are done, so a lap of the memory takes about the
%% same number of rounds on any machine.

start_program() ->
    Self = self(),
    {Driver, _} = spawn_monitor(fun() ->
        Start = fun(Name, Scheduler, Fun) ->
            register(Name, spawn_link(fun() -> on(Scheduler), Fun() end))
        end,
        Start(flooder, 1, fun flooder/0),
        Start(mover, 2, fun() -> mover([]) end),
        Start(sleeper, 2, fun() -> sleeper([]) end),
        Start(ponger, 1, fun() -> ponger([]) end),
        Start(pinger, 2, fun() -> pinger([]) end),
        Start(late, 1, fun() -> late([]) end),
        register(driver, self()),
        Self ! started,
        driver(#{round => 1, nap => 1, late => 1})
    end),
    receive
        started -> ok;
        {'DOWN', _, process, Driver, Reason} -> error(Reason)
    end.

%% Messages of the mover and the sleeper are not traced, nor are calls of other processes.
trace_program(R) ->
    {ok, _} = kymo:trace(R, #{processes => [flooder], functions => "kymo_truth_SUITE:flood/1"}),
    {ok, _} = kymo:trace(R, #{processes => [pinger, ponger, late], events => [messages]}),
    {kymo_tracer, State} = kymo:tracer(R),
    Flags = [call, monotonic_timestamp, {tracer, kymo_tracer, State}],
    [1 = erlang:trace(whereis(P), true, Flags) || P <- [mover, sleeper]],
    [1 = erlang:trace_pattern({?MODULE, F, 1}, [{'_', [], [{return_trace}]}], [local]) || F <- [step, nap]],
    ok.

rounds(Count) -> ask({rounds, Count}).
only_flood(Count) -> ask({flood, Count}).
begin_nap() -> ask(begin_nap).
end_nap() -> ask(end_nap).
send_late() -> ask(send_late).
receive_late() -> ask(receive_late).
go_on() -> ask(go_on).
rest() -> ask(rest).

ask(What) ->
    Monitor = monitor(process, driver),
    driver ! {What, self()},
    receive
        {driver, Answer} -> demonitor(Monitor, [flush]), Answer;
        {'DOWN', Monitor, process, _, Reason} -> error(Reason)
    end.

%% The measurements of the processes: for each call, and for each message when the sender began
%% to send it and when the receiver had it.
known() ->
    Known = lists:append([
        begin
            Process ! {known, self()},
            receive {known, List} -> List end
        end
     || Process <- [mover, sleeper, pinger, ponger, late]
    ]),
    Seen = maps:from_list([{Key, At} || {seen, Key, At} <- Known]),
    maps:from_list(
        [{Key, Times} || {call, Key, Times} <- Known] ++
            [{Key, {At, maps:get(Key, Seen)}} || {sent, Key, At} <- Known, is_map_key(Key, Seen)]
    ).

driver(#{round := N, nap := Nap, late := Late} = State) ->
    receive
        {rest, From} ->
            From ! {driver, ok},
            driver(maps:remove(go_on, State));
        {What, From} ->
            {Answer, New} =
                case What of
                    {rounds, Count} -> one_by_one(N, Count), {N + Count, State#{round := N + Count}};
                    {flood, Count} -> call(flooder, {flood, Count}), {ok, State};
                    begin_nap -> call(sleeper, {nap, Nap}), {ok, State};
                    end_nap -> call(sleeper, wake), {ok, State#{nap := Nap + 1}};
                    send_late ->
                        %% The process is suspended, so it receives nothing until it is resumed.
                        is_map_key(suspended, State) orelse erlang:suspend_process(whereis(late)),
                        call(pinger, {late, Late}),
                        {ok, State#{late := Late + 1, suspended => true}};
                    receive_late ->
                        erlang:resume_process(whereis(late)),
                        call(late, look),
                        {ok, maps:remove(suspended, State)};
                    go_on ->
                        {ok, State#{go_on => true}}
                end,
            From ! {driver, Answer},
            driver(New)
    after
        case State of #{go_on := true} -> 0; #{} -> infinity end ->
            one_by_one(N, 1),
            driver(State#{round := N + 1})
    end.

one_by_one(N, Count) ->
    [
        begin
            Tasks = [{flooder, {flood, ?CHUNK}}, {mover, {move, I}}, {pinger, {ping, I}}],
            [Process ! {What, self()} || {Process, What} <- Tasks],
            [receive {done, Process} -> ok end || Process <- [flooder, mover, pinger]]
        end
     || I <- lists:seq(N, N + Count - 1)
    ].

call(Process, What) ->
    Process ! {What, self()},
    receive {done, Process} -> ok end.

on(Scheduler) ->
    process_flag(scheduler, Scheduler),
    Scheduler = erlang:system_info(scheduler_id).

now_() -> {os:perf_counter(nanosecond), erlang:monotonic_time(nanosecond)}.

flooder() ->
    receive
        {{flood, Count}, From} ->
            [flood(I) || I <- lists:seq(1, Count)],
            From ! {done, flooder},
            flooder()
    end.

flood(_) -> ok.

mover(Known) ->
    receive
        {{move, N}, From} ->
            Begin = now_(),
            {N, InnerBegin, InnerEnd} = step(N),
            End = now_(),
            From ! {done, mover},
            mover([{call, {step, N}, {Begin, InnerBegin, InnerEnd, End}} | Known]);
        {known, From} ->
            From ! {known, Known},
            mover(Known)
    end.

%% Odd calls end on scheduler 2, where the next one begins.
step(N) ->
    Begin = now_(),
    on(1 + N rem 2),
    {N, Begin, now_()}.

sleeper(Known) ->
    receive
        {{nap, N}, From} ->
            self() ! {begun, From},
            on(2),
            Begin = now_(),
            {N, InnerBegin, InnerEnd} = nap(N),
            End = now_(),
            receive {woken, Waker} -> Waker ! {done, sleeper} end,
            sleeper([{call, {nap, N}, {Begin, InnerBegin, InnerEnd, End}} | Known]);
        {known, From} ->
            From ! {known, Known},
            sleeper(Known)
    end.

nap(N) ->
    Begin = now_(),
    receive {begun, From} -> From ! {done, sleeper} end,
    asleep(N, Begin).

asleep(N, Begin) ->
    receive
        {wake, From} ->
            on(1),
            self() ! {woken, From},
            {N, Begin, now_()}
    end.

pinger(Known) ->
    receive
        {{ping, N}, From} ->
            Begin = os:perf_counter(nanosecond),
            ponger ! {pad(), ping, N, self()},
            receive {_, pong, N} -> ok end,
            End = os:perf_counter(nanosecond),
            From ! {done, pinger},
            pinger([{sent, {ping, N}, Begin}, {seen, {pong, N}, End} | Known]);
        {{late, N}, From} ->
            Begin = os:perf_counter(nanosecond),
            whereis(late) ! {pad(), late, N, self()},
            From ! {done, pinger},
            pinger([{sent, {late, N}, Begin} | Known]);
        {known, From} ->
            From ! {known, Known},
            pinger(Known)
    end.

%% Messages are numbered, but so long that the exporter can match them only by order, as if it
%% knew nothing but their sizes.
pad() -> binary:copy(<<"x">>, 600).

ponger(Known) ->
    receive
        {Pad, ping, N, From} ->
            Seen = os:perf_counter(nanosecond),
            From ! {Pad, pong, N},
            ponger([{seen, {ping, N}, Seen}, {sent, {pong, N}, Seen} | Known]);
        {known, From} ->
            From ! {known, Known},
            ponger(Known)
    end.

late(Known) ->
    receive
        {_, late, N, _} ->
            late([{seen, {late, N}, os:perf_counter(nanosecond)} | Known]);
        {look, From} ->
            From ! {done, late},
            late(Known);
        {known, From} ->
            From ! {known, Known},
            late(Known)
    end.
