%% SPDX-License-Identifier: Apache-2.0
%%
%% What memory maps find and cost, and the cost of their flags per block, on an unpatched and a
%% patched runtime in alternating rounds.
-module(instrument_bench).

-export([main/0, pairs/0, worker/0]).

-define(ANCHORS, 20000).
-define(SCANS, 40).
-define(PAIRS, 50000).
-define(MAPS, 10).
-define(STEP_OBJECTS, 100000).
-define(STEP_MAPS, 60).

%% Targets: nanoseconds per pair of operations, step durations in nanoseconds, memory in KiB.
-define(MAX_PAIR, 15).
-define(MAX_STEP, 60000).
-define(MAX_MEMORY, 8192).

%%
%% The driver
%%

%% @doc Entry point of `bench/erts/instrument_run'. Flags of the command line:
%% `-stock ERL', `-patched ERL', `-objects N', `-rounds N', `-dir DIR'. Halts with
%% status 1 if a target is missed.
-spec main() -> no_return().
main() ->
    [Stock, Patched, Dir] = [flag(F) || F <- [stock, patched, dir]],
    [Objects, Rounds] = [list_to_integer(flag(F)) || F <- [objects, rounds]],
    Tags = ["+MEatags", "true"],
    Status = [whole(Stock, Patched, Tags, Objects, Dir),
              steps(Patched),
              churn(Stock, Patched, Tags),
              cost(Stock, Patched, Tags, Rounds)],
    halt(lists:max(Status)).

flag(F) ->
    {ok, [[Value]]} = init:get_argument(F),
    Value.

with(Erl, Args, Fun) ->
    {ok, Peer, _} = peer:start(#{connection => standard_io, exec => Erl,
                                 args => Args ++
                                     ["-pa", filename:dirname(
                                               code:which(?MODULE))]}),
    try
        Fun(fun(Request) ->
                    peer:call(Peer, erlang, apply, [Request, []], infinity)
            end)
    after
        peer:stop(Peer)
    end.

whole(Stock, Patched, Tags, Objects, Dir) ->
    {SFound, SUnscanned} =
        with(Stock, Tags,
             fun(Ask) -> Ask(fun() -> fill(Objects), allocations([]) end) end),
    File = filename:join(Dir, "map"),
    {Found, Blocks, Scan, Stored, Memory, Size, Fold} =
        with(Patched, ["+Mim", "true"],
             fun(Ask) ->
                     Ask(fun() -> fill(Objects), map_numbers(File) end)
             end),
    io:format("~n~b objects                  stock    patched~n"
              "db_term blocks found     ~10b ~10b~n"
              "bytes not looked at      ~10b ~10b~n"
              "ns for a block                     - ~10.1f~n"
              "stored in s                        - ~10.2f  (~b blocks, ~b MB)~n"
              "peak of memory for that, KiB       - ~10b~n"
              "folded, ns for a block             - ~10.1f~n",
              [Objects, SFound, Found, SUnscanned, 0, Scan, Stored, Blocks,
               Size div 1000000, Memory, Fold]),
    lists:max([target("all objects found", Found >= Objects),
               target("stored in less than 3 us for a block",
                      Stored * 1.0e6 / Blocks < 3),
               target("stored with at most 8 MiB", Memory =< ?MAX_MEMORY),
               target("folded in less than 50 ns for a block", Fold < 50)]).

%% The longest steps of maps in CPU time. On a busy machine, work of the kernel for other
%% programs is often charged to the running process. A process that only reads the clock for as
%% long as a map takes shows how much that is.
steps(Patched) ->
    {Steps, Gaps} =
        with(Patched, ["+Mim", "true"],
             fun(Ask) ->
                     Ask(fun() -> fill(?STEP_OBJECTS), step_numbers() end)
             end),
    io:format("~n~b maps of ~b objects, us~n"
              "                           minimum  quartile    median   maximum~n"
              "longest step              ~s~n"
              "gap in reading the clock  ~s~n",
              [?STEP_MAPS, ?STEP_OBJECTS, quartiles(Steps), quartiles(Gaps)]),
    target("steps of at most 60 us (quartile)",
           lists:nth(?STEP_MAPS div 4, lists:sort(Steps)) =< ?MAX_STEP).

quartiles(L0) ->
    L = lists:sort(L0),
    N = length(L),
    [io_lib:format("~8.1f  ", [lists:nth(I, L) / 1000]) ||
        I <- [1, N div 4, N div 2, N]].

churn(Stock, Patched, Tags) ->
    S = with(Stock, Tags ++ ["+S", "4:4"],
             fun(Ask) -> Ask(fun() -> churned(fun allocations/1) end) end),
    P = with(Patched, ["+Mim", "true", "+S", "4:4"],
             fun(Ask) -> Ask(fun() -> churned(fun map_count/1) end) end),
    Right = fun(L) -> length([x || ?ANCHORS <- L]) end,
    io:format("~n~b blocks while carriers move: right in ~b of ~b scans "
              "(stock ~b), found ~b to ~b (stock ~b to ~b)~n",
              [?ANCHORS, Right(P), ?SCANS, Right(S), lists:min(P), lists:max(P),
               lists:min(S), lists:max(S)]),
    target("all scans right", Right(P) =:= ?SCANS).

%% The minimum of many short rounds of each runtime, because other work on the machine only
%% makes rounds longer. The cost of flags is the difference to the patched runtime without
%% flags.
cost(Stock, Patched, Tags, Rounds) ->
    Kinds = [{"stock", Stock, []}, {"stock +MEatags", Stock, Tags},
             {"patched", Patched, []}, {"patched +Mis", Patched, ["+Mis", "true"]},
             {"patched +Mim", Patched, ["+Mim", "true"]}],
    Peers = [begin
                 {ok, Peer, _} =
                     peer:start(#{connection => standard_io, exec => Erl,
                                  args => Args ++ ["+S", "1:1", "-pa",
                                                   filename:dirname(
                                                     code:which(?MODULE))]}),
                 {Name, Peer}
             end || {Name, Erl, Args} <- Kinds],
    Times = [[peer:call(Peer, ?MODULE, worker, [], infinity)
              || {_, Peer} <- Peers] || _ <- lists:seq(0, Rounds)],
    [peer:stop(Peer) || {_, Peer} <- Peers],
    Minima = [lists:min(L) || L <- transpose(tl(Times))],
    [_, _, Off, Mis, Mim] = Minima,
    io:format("~nns for inserting and deleting an object: a block each~n"),
    [io:format("~-16s ~8.1f~n", [Name, Q]) ||
        {{Name, _, _}, Q} <- lists:zip(Kinds, Minima)],
    max(target("+Mis: at most 15 ns", Mis - Off =< ?MAX_PAIR),
        target("+Mim: at most 15 ns", Mim - Off =< ?MAX_PAIR)).

transpose([[] | _]) -> [];
transpose(L) -> [[hd(X) || X <- L] | transpose([tl(X) || X <- L])].

target(What, true) -> io:format("  met: ~s~n", [What]), 0;
target(What, false) -> io:format("  MISSED: ~s~n", [What]), 1.

%%
%% In the runtimes
%%

%% @doc Nanoseconds for inserting and deleting an object.
-spec worker() -> float().
worker() ->
    T = ets:new(t, []),
    T0 = erlang:monotonic_time(),
    pairs(T, ?PAIRS),
    T1 = erlang:monotonic_time(),
    ets:delete(T),
    erlang:convert_time_unit(T1 - T0, native, nanosecond) / ?PAIRS.

%% @doc Entry point for valgrind: inserts and deletes `-n N' objects.
-spec pairs() -> no_return().
pairs() ->
    pairs(ets:new(t, []), list_to_integer(flag(n))),
    halt(0).

pairs(_T, 0) -> ok;
pairs(T, N) -> ets:insert(T, {x, N}), ets:delete(T, x), pairs(T, N - 1).

fill(Objects) ->
    Self = self(),
    spawn_link(fun() ->
                       T = ets:new(t, [public]),
                       insert(T, Objects),
                       Self ! filled,
                       receive stop -> ok end
               end),
    receive filled -> ok end.

insert(_T, 0) -> ok;
insert(T, N) -> ets:insert(T, {N, N}), insert(T, N - 1).

%% ETS blocks, and bytes that were not inspected: of all processes, or of the given ones.
allocations([]) ->
    {ok, {_, Unscanned, Map}} = instrument:allocations(),
    {count_types(Map), Unscanned};
allocations(Pids) ->
    {ok, {_, _, Map}} = instrument:allocations(#{flags => [per_process]}),
    count_types(maps:with(Pids, Map)).

count_types(Map) ->
    lists:sum([lists:sum(tuple_to_list(H)) ||
                  #{db_term := H} <- maps:values(Map)]).

map_numbers(File) ->
    garbage_collect(),
    %% Resets the peak.
    ok = file:write_file("/proc/self/clear_refs", <<"5">>),
    Before = process_status("VmRSS"),
    {Us, {ok, Dict}} = timer:tc(fun() -> instrument:store_memory_map(File) end),
    Memory = process_status("VmHWM") - Before,
    #{blocks := Blocks, free_blocks := Free, types := Types} = Dict,
    ScanUs = lists:min([element(1, timer:tc(fun longest_step/0)) ||
                           _ <- lists:seq(1, ?MAPS)]),
    No = type_no(db_term, Types, 1),
    Count = fun({block, _, _, T, _, _}, N) when T =:= No -> N + 1;
               (_, N) -> N
            end,
    {FoldUs, {ok, Found, _}} =
        timer:tc(fun() -> instrument_map:fold(Count, 0, {file, File}) end),
    {Found, Blocks, ScanUs * 1000 / (Blocks + Free), Us / 1.0e6, Memory,
     filelib:file_size(File), FoldUs * 1000 / (Blocks + Free)}.

process_status(Key) ->
    {ok, Text} = file:read_file("/proc/self/status"),
    {match, [KiB]} = re:run(Text, Key ++ ":\\s+(\\d+)",
                            [{capture, all_but_first, list}]),
    list_to_integer(KiB).

step_numbers() ->
    lists:unzip([begin
                     {Us, Step} = timer:tc(fun longest_step/0),
                     {Step, longest_gap(Us)}
                 end || _ <- lists:seq(1, ?STEP_MAPS)]).

longest_step() ->
    {ok, Map} = instrument:memory_map(),
    longest_step(Map, <<>>).

longest_step(Map, Last) ->
    case instrument:memory_map_read(Map) of
        {ok, Bytes, Next} ->
            longest_step(Next, Bytes);
        eof ->
            <<"EMAP", 16#ffff:16/little, _:18/binary, Size:64/little,
              _:32/binary, Dict:Size/binary, _/binary>> = Last,
            maps:get(longest_step_ns, binary_to_term(Dict))
    end.

longest_gap(Us) ->
    Now = erlang:monotonic_time(nanosecond),
    longest_gap(Now, Now + Us * 1000, 0).

longest_gap(Last, End, Gap) when Last < End ->
    Now = erlang:monotonic_time(nanosecond),
    longest_gap(Now, End, max(Gap, Now - Last));
longest_gap(_, _, Gap) ->
    Gap.

type_no(Name, Types, N) when element(1, element(N, Types)) =:= Name -> N;
type_no(Name, Types, N) -> type_no(Name, Types, N + 1).

map_count(Pids) ->
    {ok, Map} = instrument:memory_map(),
    Bytes = read_all(Map, []),
    Owners = maps:from_keys(
               [begin
                    [_, Num, Serial] = [list_to_integer(X) ||
                                           X <- string:lexemes(
                                                  pid_to_list(Pid), "<.>")],
                    1 bsl 60 bor (Serial bsl 28) bor Num
                end || Pid <- Pids], x),
    <<_:64/binary, Sections/binary>> = Bytes,
    count_owned(Sections, Owners, 0).

read_all(Map, Acc) ->
    case instrument:memory_map_read(Map) of
        {ok, Bytes, Next} -> read_all(Next, [Bytes | Acc]);
        eof -> iolist_to_binary(lists:reverse(Acc))
    end.

count_owned(<<"EMAP", 16#ffff:16/little, _:18/binary, Size:64/little,
              _:32/binary, Dict:Size/binary, _/binary>>, _Owners, Records) ->
    No = type_no(db_term, maps:get(types, binary_to_term(Dict)), 1),
    maps:get(No, Records, 0);
count_owned(<<"EMAP", Kind:16/little, _:16, N:32/little, _:52/binary,
              Records:N/binary-unit:128, Rest/binary>>, Owners, Acc0) ->
    Acc = case Acc0 of 0 -> #{}; _ -> Acc0 end,
    Types = [T || Kind =< 2,
                  <<_:32, T:16/little, _:16, O:64/little>> <= Records,
                  is_map_key(O, Owners)],
    count_owned(Rest, Owners,
                lists:foldl(fun(T, M) ->
                                    M#{T => maps:get(T, M, 0) + 1}
                            end, Acc, Types)).

%% Objects of idle processes, between those of others that are created and exit on all
%% schedulers.
churned(Count) ->
    Self = self(),
    N = erlang:system_info(schedulers),
    Anchors = [spawn_opt(fun() -> anchor(Self, ?ANCHORS div N) end,
                         [link, {scheduler, I}]) || I <- lists:seq(1, N)],
    [receive {anchored, Pid} -> ok end || Pid <- Anchors],
    Churners = [spawn_opt(fun() -> churner(ets:new(t, []), 1) end,
                          [{scheduler, I}]) || I <- lists:seq(1, N)],
    Found = [Count(Anchors) || _ <- lists:seq(1, ?SCANS)],
    [exit(Pid, kill) || Pid <- Churners],
    Found.

anchor(Parent, N) ->
    T = ets:new(t, []),
    G = ets:new(g, []),
    [begin
         ets:insert(T, {I, lists:duplicate(20, I)}),
         [ets:insert(G, {{I, J}, lists:duplicate(J * 7, I)}) ||
             J <- lists:seq(1, 5)]
     end || I <- lists:seq(1, N)],
    ets:delete(G),
    Parent ! {anchored, self()},
    receive stop -> ets:delete(T) end.

churner(T, N) ->
    [ets:insert(T, {{N, I}, lists:duplicate((I * 31) rem 150, I)}) ||
        I <- lists:seq(1, 5000)],
    [ets:delete(T, {N, I}) || I <- lists:seq(1, 5000), I rem 10 =/= 0],
    ets:match_delete(T, {{N - 3, '_'}, '_'}),
    churner(T, N + 1).
