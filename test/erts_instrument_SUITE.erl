%% SPDX-License-Identifier: Apache-2.0
%%
%% The memory status (+Mis true) and the memory map (+Mim true) of the ERTS patches: the data
%% that the emulator writes. Everything that needs flags runs in nodes of its own; the functions
%% that run there begin with do_.
-module(erts_instrument_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-export([all/0, groups/0, suite/0, init_per_suite/1, end_per_suite/1,
         init_per_group/2, end_per_group/2]).
-export([off/1, bad_arguments/1, bad_flags/1,
         status_counts/1, status_matches_allocators/1, status_maxima/1,
         status_levels/1, status_files/1, status_of_threads/1,
         data_is_whole/1, data_files/1, data_limit/1, holes_are_exact/1,
         map_matches_allocators/1, cached_are_not_live/1, exact_under_churn/1,
         large_blocks/1, map_of_code/1, all_in_carriers/1, steps_are_bounded/1,
         one_at_a_time/1, my_own/1, closed/1, owner_dies/1, left_behind/1,
         forgotten/1, not_mine/1, old_file/1,
         disk_full/1, disk_half_full/1, segments/1, outside/1,
         slow_reader/1, allocations_meanwhile/1, stress/1]).
-export([do_off/0, do_status_counts/0, do_status_matches/0, do_status_maxima/0,
         do_status_levels/0, do_status_files/1, do_status_of_threads/0,
         do_data_is_whole/0, do_data_files/1, do_data_limit/0, do_holes/0,
         do_matches/0, do_cached/0, do_churn/1, do_large_blocks/0, do_code/0,
         do_all_in_carriers/0,
         do_steps/0, do_one_at_a_time/0, do_my_own/0, do_closed/0,
         do_owner_dies/0, do_left_behind/0, do_forgotten/0, do_not_mine/0,
         do_old_file/1, do_disk_full/0, do_disk_half_full/1,
         do_segments/0, do_outside/0, do_slow_reader/0,
         do_allocations/0, do_stress/0]).

-define(ANCHORS, 20000).
-define(TYPE_FREE, 0).
-define(TYPE_CACHED, 16#fffe).

suite() ->
    [{timetrap, {minutes, 5}}].

all() ->
    [off, bad_arguments, bad_flags, {group, status}, {group, map},
     {group, flags}].

%% Cases that depend on the configuration of allocators also run with other configurations.
groups() ->
    [{status, [],
      [status_counts, status_matches_allocators, status_maxima, status_levels,
       status_files, status_of_threads]},
     {map, [], map_cases() ++
          [data_limit, all_in_carriers, steps_are_bounded, my_own, left_behind, forgotten,
           not_mine, old_file, disk_full, disk_half_full, segments, outside, one_at_a_time, slow_reader, allocations_meanwhile]},
     {flags, [],
      [{meamin, [], [data_is_whole, data_files, stress, status_counts]},
       {status_meamin, [], [status_counts, status_files, status_of_threads]},
       {meamax, [], map_cases()},
       {muramv, [], map_cases()},
       {mdai, [], map_cases()},
       {no_migration, [], map_cases()},
       {age_order, [], map_cases()},
       {common_pool, [], map_cases()},
       {code_tags, [], [data_is_whole]}]}].

map_cases() ->
    [data_is_whole, data_files, holes_are_exact, map_matches_allocators,
     cached_are_not_live, exact_under_churn, large_blocks, map_of_code,
     closed, owner_dies, stress].

init_per_suite(Config) ->
    case code:ensure_loaded(instrument) of
        {module, instrument} ->
            case erlang:function_exported(instrument, memory_map, 1) of
                true ->
                    Config;
                false ->
                    {skip, "this runtime lacks instrument:memory_map/1 of the "
                     "ERTS patches"}
            end;
        _ ->
            {skip, "this runtime has no module instrument"}
    end.

end_per_suite(_Config) ->
    ok.

init_per_group(Group, Config) ->
    Scans = [{scans, 40} || Group =:= map],
    case group_flags(Group) of
        undefined -> Config;
        Flags ->
            case lists:member("+Meamin", Flags) orelse kymo_peer:counts_memory() of
                true -> Scans ++ [{flags, Flags} | Config];
                false -> {skip, "the allocators of this emulator are switched off, as with the "
                          "address sanitizer"}
            end
    end.

end_per_group(_Group, _Config) ->
    ok.

group_flags(status) -> ["+Mis", "true"];
group_flags(map) -> ["+Mim", "true"];
group_flags(flags) -> undefined;
group_flags(meamin) -> ["+Mim", "true", "+Meamin"];
group_flags(status_meamin) -> ["+Mis", "true", "+Meamin"];
group_flags(meamax) -> ["+Mim", "true", "+Meamax"];
group_flags(muramv) -> ["+Mim", "true", "+Muramv", "true"];
group_flags(mdai) -> ["+Mim", "true", "+Mdai", "max"];
group_flags(no_migration) -> ["+Mim", "true", "+Muacul", "0"];
group_flags(age_order) -> ["+Mim", "true", "+Muas", "ageffcbf"];
group_flags(common_pool) -> ["+Mim", "true", "+Mucp", "@"];
group_flags(code_tags) -> ["+Mim", "true", "+MEatags", "code"].

%%--------------------------------------------------------------------------
%% Without flags

off(_Config) ->
    in_node([], do_off, []),
    in_node(["+Mim", "false", "+Mis", "false"], do_off, []).

do_off() ->
    File = "instrument_off.tmp",
    ?assertEqual(false, instrument:memory_data()),
    ?assertEqual(false, instrument:store_memory_data(File)),
    ?assertEqual(false, instrument:memory_map()),
    ?assertEqual(false, instrument:store_memory_map(File)),
    [?assertEqual(false, instrument:memory_status(Type)) ||
        Type <- [total, allocators, classes, types]],
    ?assertEqual(false, instrument:store_memory_status(File)),
    ?assertEqual({error, enoent}, file:read_file_info(File)),
    ok.

bad_arguments(_Config) ->
    badarg(1, fun() -> instrument:memory_status(foo) end),
    badarg(1, fun() -> instrument:memory_status([]) end),
    [badarg(1, fun() -> instrument:memory_map(Options) end) ||
        Options <- [[], #{step => 4}, #{step => 1.0}, #{step => 100001},
                    #{window => 0}, #{window => 257}, #{wait => 1},
                    #{foo => 1}]],
    badarg(2, fun() -> instrument:store_memory_map("f", #{step => 0}) end),
    badarg(1, fun() -> instrument:memory_map_read(foo) end),
    badarg(1, fun() -> instrument:memory_map_close(foo) end),
    ?assertError(badarg, instrument:request(foo, bar)),
    ?assertError(badarg, instrument:request(status, "total")).

%% The error information says which argument is wrong.
badarg(Position, Fun) ->
    try Fun() of
        Res -> error({no_badarg, Res})
    catch
        error:badarg:Stack ->
            [{M, F, A, Info} | _] = Stack,
            #{module := Module} = proplists:get_value(error_info, Info),
            #{Position := Text} = Module:format_error(badarg, Stack),
            ?assert(is_list(Text)),
            ?assertMatch({instrument, _, _}, {M, F, A})
    end.

%% The emulator refuses other values, as for all boolean flags.
bad_flags(_Config) ->
    Erl = filename:join([code:root_dir(), "bin", "erl"]),
    [begin
         Port = open_port({spawn_executable, Erl},
                          [{args, [Flag, Value, "-noshell", "-s", "init",
                                   "stop"]},
                           exit_status, stderr_to_stdout, binary]),
         {Status, Text} = port_output(Port, <<>>),
         ?assertNotEqual(0, Status),
         ?assertMatch({_, _}, binary:match(Text, <<"bad ">>))
     end || {Flag, Value} <- [{"+Mim", "yes"}, {"+Mis", "1"}]].

port_output(Port, Acc) ->
    receive
        {Port, {data, Data}} -> port_output(Port, <<Acc/binary, Data/binary>>);
        {Port, {exit_status, Status}} -> {Status, Acc}
    end.

%%--------------------------------------------------------------------------
%% Status

status_counts(Config) ->
    in_node(Config, do_status_counts, []).

%% No other process has objects in tables that change.
do_status_counts() ->
    {_, _} = count_of(types, db_term),
    T = ets:new(t, []),
    {Blocks0, Sizes0} = count_of(types, db_term),
    [begin
         [ets:insert(T, {I, lists:seq(1, 10)}) || I <- lists:seq(1, N)],
         {Blocks1, Sizes1} = count_of(types, db_term),
         ?assertEqual(N, Blocks1 - Blocks0),
         ?assert(Sizes1 - Sizes0 >= N * (20 + 3) * 8),
         ?assert(Sizes1 - Sizes0 =< N * (20 + 3 + 20) * 8),
         ets:delete_all_objects(T),
         ?assertEqual({Blocks0, Sizes0}, settled(types, db_term, Blocks0))
     end || N <- [1, 100, 20000]],
    ok.

%% delete_all_objects/1 may continue in the background.
settled(Level, About, Blocks) ->
    case count_of(Level, About) of
        {Blocks, _} = Count -> Count;
        _ -> erlang:yield(), settled(Level, About, Blocks)
    end.

status_matches_allocators(Config) ->
    in_node(Config, do_status_matches, []).

%% The allocators count their blocks, too; their sizes include headers.
do_status_matches() ->
    T = ets:new(t, []),
    [ets:insert(T, {I, lists:duplicate(I rem 100, x)}) ||
        I <- lists:seq(1, 10000)],
    Header = case instrument:memory_data() of
                 false -> 8;
                 {{instr_hdr, 2, Size, _}, _} -> Size
             end,
    {Blocks, Sizes} = count_of(allocators, ets_alloc),
    {AllocatorBlocks, AllocatorSizes} = allocator_blocks(ets_alloc),
    ?assertEqual(AllocatorBlocks, Blocks),
    ?assertEqual(AllocatorSizes, Sizes + Blocks * Header),
    ok.

status_maxima(Config) ->
    in_node(Config, do_status_maxima, []).

do_status_maxima() ->
    T = ets:new(t, []),
    {Blocks0, _} = count_of(types, db_term),
    {_, _} = count_of(classes, ets_data),
    Bound = 1024 * (erlang:system_info(schedulers) + 1),
    [ets:insert(T, {I}) || I <- lists:seq(1, 100000)],
    ets:delete_all_objects(T),
    _ = settled_quietly(T, Blocks0),
    {_, [_, {blocks, C1, M1, E1}]} = status_of(types, db_term),
    ?assertEqual(Blocks0, C1),
    ?assert(M1 =< Blocks0 + 100000),
    ?assert(M1 >= Blocks0 + 100000 - Bound),
    ?assertEqual(M1, E1),
    %% Only the maximum of its own level was reset.
    {_, [_, {blocks, C2, M2, E2}]} = status_of(types, db_term),
    ?assertEqual({C1, C1, E1}, {C2, M2, E2}),
    {_, [_, {blocks, C3, M3, E3}]} = status_of(classes, ets_data),
    ?assert(M3 >= C3 + 100000 - Bound),
    ?assert(E3 >= M3),
    {_, [_, {blocks, C4, M4, E3}]} = status_of(classes, ets_data),
    ?assert(M4 < C4 + Bound),
    ok.

%% Without calling the function that resets the maximum.
settled_quietly(T, _Blocks) ->
    true = ets:delete(T),
    [receive after 1 -> ok end || _ <- lists:seq(1, 10)].

status_levels(Config) ->
    in_node(Config, do_status_levels, []).

do_status_levels() ->
    [{total, [{sizes, S, MS, ES}, {blocks, B, MB, EB}]}] =
        instrument:memory_status(total),
    ?assert(S =< MS andalso MS =< ES),
    ?assert(B =< MB andalso MB =< EB),
    Names = fun(Level) ->
                    [Name || {Name, [{sizes, _, _, _}, {blocks, _, _, _}]} <-
                                 instrument:memory_status(Level)]
            end,
    ?assertEqual([atom_data, binary_data, code_data, ets_data, process_data,
                  system_data], lists:sort(Names(classes))),
    ?assert(lists:member(sys_alloc, Names(allocators))),
    ?assertEqual([], Names(allocators)
                 -- [element(1, A) || A <- [list_to_tuple([N]) || N <- enabled()]]),
    ?assert(length(Names(types)) > 200),
    %% The levels describe the same blocks. Reading them allocates some.
    Sums = [lists:sum([C || {_, [_, {blocks, C, _, _}]} <-
                                instrument:memory_status(Level)]) ||
               Level <- [total, allocators, classes, types]],
    ?assert(lists:max(Sums) - lists:min(Sums) < 1000),
    ok.

enabled() ->
    [sys_alloc | erlang:system_info(alloc_util_allocators)].

status_files(Config) ->
    in_node(Config, do_status_files, [?config(priv_dir, Config)]).

do_status_files(Dir) ->
    File = filename:join(Dir, "status"),
    ?assertEqual(true, instrument:store_memory_status(File)),
    {ok, [{instr_vsn, _} | Levels]} = file:consult(File),
    ?assertEqual([total, allocators, classes, types],
                 [Level || {Level, _} <- Levels]),
    ?assertEqual(false, instrument:store_memory_status(
                          filename:join([Dir, "no", "status"]))),
    ok.

status_of_threads(Config) ->
    in_node(Config, do_status_of_threads, []).

%% Processes on all schedulers allocate at the same time, and free what others have allocated.
do_status_of_threads() ->
    {Blocks0, Sizes0} = count_of(types, db_term),
    T = ets:new(t, [public, {write_concurrency, true}]),
    N = erlang:system_info(schedulers),
    run_all(N, fun(I) ->
                       [ets:insert(T, {{I, J}, lists:duplicate(J rem 50, x)})
                        || J <- lists:seq(1, 5000)]
               end),
    {Blocks1, _} = count_of(types, db_term),
    ?assertEqual(5000 * N, Blocks1 - Blocks0),
    run_all(N, fun(I) ->
                       [ets:delete(T, {I rem N + 1, J}) ||
                           J <- lists:seq(1, 5000)]
               end),
    ?assertEqual({Blocks0, Sizes0}, count_of(types, db_term)),
    ok.

run_all(N, Fun) ->
    Pids = [spawn_opt(fun() -> Fun(I) end, [{scheduler, I}, monitor]) ||
               I <- lists:seq(1, N)],
    [receive {'DOWN', Ref, process, Pid, normal} -> ok end ||
        {Pid, Ref} <- Pids].

status_of(Level, About) ->
    lists:keyfind(About, 1, instrument:memory_status(Level)).

count_of(Level, About) ->
    {About, [{sizes, Sizes, _, _}, {blocks, Blocks, _, _}]} =
        status_of(Level, About),
    {Blocks, Sizes}.

%% Sums of blocks and their sizes in all instances and the migration pools.
allocator_blocks(Name) ->
    Instances = [Info || {instance, _, Info} <-
                             erlang:system_info({allocator, Name})],
    {lists:sum([N || Info <- Instances, {_, N, _} <- blocks_in(Name, Info)]),
     lists:sum([S || Info <- Instances, {_, _, S} <- blocks_in(Name, Info)])}.

blocks_in(Name, Info) ->
    [{Name, value(count, L), value(size, L)} ||
        Key <- [mbcs, mbcs_pool, sbcs],
        {blocks, Types} <- proplists:get_value(Key, Info, []),
        {T, L} <- Types, T =:= Name].

value(Key, List) ->
    element(2, lists:keyfind(Key, 1, List)).

%%--------------------------------------------------------------------------
%% Map

data_is_whole(Config) ->
    in_node(Config, do_data_is_whole, []).

%% Objects in a table: that many blocks with their type and process.
do_data_is_whole() ->
    T = ets:new(t, []),
    [ets:insert(T, {I, I}) || I <- lists:seq(1, 10000)],
    {{instr_hdr, 2, Header, Types}, Blocks} = instrument:memory_data(),
    ?assert(is_integer(Header)),
    DbTerm = type_no(db_term, Types),
    [_, Num, Serial] = [list_to_integer(X) ||
                           X <- string:lexemes(pid_to_list(self()), "<.>")],
    Mine = [B || {Type, _, _, {0, N, S}} = B <- Blocks,
                 Type =:= DbTerm, N =:= Num, S =:= Serial],
    Tagged = case length(Mine) of
                 0 -> %% tagged with code
                     [B || {Type, _, _, undefined} = B <- Blocks,
                           Type =:= DbTerm];
                 _ -> Mine
             end,
    ?assert(length(Tagged) >= 10000),
    ?assert(length(Tagged) < 11000),
    ?assert(lists:all(fun({_, _, Size, _}) -> Size >= 3 * 8 end, Tagged)),
    no_overlap(Blocks),
    [?assert(No >= 1 andalso No =< tuple_size(Types)) ||
        {No, _, _, _} <- Blocks],
    ok.

%% No two blocks overlap.
no_overlap(Blocks) ->
    lists:foldl(fun({_, Addr, Size, _}, End) ->
                        ?assert(Addr >= End),
                        Addr + Size
                end, 0, lists:keysort(2, Blocks)).

type_no(Name, Types) ->
    type_no(Name, Types, 1).

type_no(Name, Types, N) when element(1, element(N, Types)) =:= Name -> N;
type_no(Name, Types, N) -> type_no(Name, Types, N + 1).

data_files(Config) ->
    in_node(Config, do_data_files, [?config(priv_dir, Config)]).

do_data_files(Dir) ->
    Text = filename:join(Dir, "data.txt"),
    ?assertEqual(true, instrument:store_memory_data(Text)),
    {ok, [{instr_hdr, 2, _, Types} | Blocks]} = file:consult(Text),
    ?assert(is_tuple(Types)),
    ?assert(length(Blocks) > 1000),
    no_overlap(Blocks),
    ?assertEqual(false, instrument:store_memory_data(
                          filename:join([Dir, "no", "data"]))),

    File = filename:join(Dir, "data.map"),
    {ok, Dict} = instrument:store_memory_map(File),
    {ok, Bytes} = file:read_file(File),
    {Dict, Sections} = parse(Bytes),
    #{blocks := Live, loose_blocks := Loose, free_blocks := Free,
      cached_blocks := Cached} = Dict,
    ?assertEqual(Live, length([x || #{blocks := Bs} <- carriers(Sections),
                                    {_, _, T, _, _} <- Bs,
                                    T =/= ?TYPE_FREE, T =/= ?TYPE_CACHED])),
    ?assertEqual(Loose, length([x || #{kind := K, blocks := Bs} <- Sections,
                                     K =:= 3 orelse K =:= 4, _ <- Bs])),
    ?assertEqual(Free, length([x || #{blocks := Bs} <- carriers(Sections),
                                    {_, _, ?TYPE_FREE, _, _} <- Bs])),
    ?assertEqual(Cached, length([x || #{blocks := Bs} <- carriers(Sections),
                                      {_, _, ?TYPE_CACHED, _, _} <- Bs])),
    ?assertEqual({error, enoent}, instrument:store_memory_map(
                                    filename:join([Dir, "no", "map"]))),
    ok.

carriers(Sections) ->
    [S || #{kind := K} = S <- Sections, K =:= 1 orelse K =:= 2].

data_limit(Config) ->
    in_node(Config, do_data_limit, []).

do_data_limit() ->
    T = ets:new(t, []),
    [ets:insert(T, {I}) || I <- lists:seq(1, 1000000)],
    ?assertEqual({error, {block_limit, 1000000}}, instrument:memory_data()),
    ets:delete(T),
    %% What is left of the old map does not affect the next one.
    {{instr_hdr, 2, _, _}, _} = instrument:memory_data(),
    ok.

holes_are_exact(Config) ->
    in_node(Config, do_holes, []).

%% The blocks of a multiblock carrier and the free ranges between them cover it completely.
do_holes() ->
    T = ets:new(t, []),
    [ets:insert(T, {I, lists:duplicate(I rem 64, I)}) ||
        I <- lists:seq(1, 20000)],
    [ets:delete(T, I) || I <- lists:seq(1, 20000, 3)],
    Sections = [S || #{kind := 1} = S <- read_sections(#{})],
    Carriers = maps:groups_from_list(fun(#{addr := A}) -> A end, Sections),
    maps:foreach(
      fun(Addr, [#{size := Size, first := First, flags := Flags} | _] = Parts) ->
              ?assertEqual(1, Flags band 1),
              ?assertEqual(2, maps:get(flags, lists:last(Parts)) band 2),
              End = lists:foldl(
                      fun(#{first := F, blocks := Bs}, At) ->
                              ?assertEqual(At, F),
                              At + lists:sum([S || {_, S, _, _, _} <- Bs])
                      end, First, Parts),
              ?assert(First > Addr),
              ?assert(End =< Addr + Size),
              ?assert(End > Addr + Size - 16)
      end, Carriers),
    ?assert(map_size(Carriers) > 5),
    ok.

map_matches_allocators(Config) ->
    in_node(Config, do_matches, []).

%% The carriers contain as many blocks as the allocators count, including cached ones.
do_matches() ->
    T = ets:new(t, []),
    [ets:insert(T, {I, I}) || I <- lists:seq(1, 50000)],
    ets:insert(T, {big, lists:duplicate(1000000, x)}),
    %% Loads everything that reading needs.
    {_, _} = read_map(#{}),
    {Dict, Sections} = read_map(#{}),
    #{types := Types} = Dict,
    Blocks = [{element(2, element(Type, Types)), Size} ||
                 #{blocks := Bs} <- carriers(Sections),
                 {_, Size, Type, _, _} <- Bs,
                 Type =/= ?TYPE_FREE, Type =/= ?TYPE_CACHED],
    Of = [Size || {ets_alloc, Size} <- Blocks],
    {Count, Sum} = allocator_blocks(ets_alloc),
    ?assertEqual({Count, Sum}, {length(Of), lists:sum(Of)}),
    ok.

cached_are_not_live(Config) ->
    in_node(Config, do_cached, []).

%% Dead processes leave blocks that are cached for new ones.
do_cached() ->
    Pids = [spawn_monitor(fun() -> receive stop -> ok end end) ||
               _ <- lists:seq(1, 900)],
    Before = live(proc, read_map(#{})),
    [Pid ! stop || {Pid, _} <- Pids],
    [receive {'DOWN', Ref, process, Pid, _} -> ok end || {Pid, Ref} <- Pids],
    until(fun() -> live(proc, read_map(#{})) =< Before - 900 end),
    ok.

%% A process is freed some time after it has exited.
until(Fun) ->
    case Fun() of
        true -> ok;
        false -> receive after 10 -> until(Fun) end
    end.

live(Name, {#{types := Types}, Sections}) ->
    No = type_no(Name, Types),
    length([x || #{blocks := Bs} <- Sections, {_, _, T, _, _} <- Bs, T =:= No]).

exact_under_churn(Config) ->
    N = proplists:get_value(scans, Config, 8),
    {Fetched, Rounds} =
        in_node(Config, do_churn, [N], ["+S", "4:4"]),
    ct:log("~p scans, ~p carriers fetched from pools meanwhile, rounds ~p",
           [length(Rounds), Fetched, Rounds]),
    ok.

%% Blocks of idle processes lie between those of processes that are created and exit on all
%% schedulers, so that carriers migrate.
do_churn(N) ->
    Self = self(),
    Schedulers = erlang:system_info(schedulers),
    Each = ?ANCHORS div Schedulers,
    Anchors = [spawn_opt(fun() -> anchor(Self, Each) end,
                         [link, {scheduler, I}]) ||
                  I <- lists:seq(1, Schedulers)],
    [receive {anchored, Pid} -> ok end || Pid <- Anchors],
    Churners = [spawn_opt(fun() -> churn(Self) end, [link, {scheduler, I}]) ||
                   I <- lists:seq(1, Schedulers)],
    [receive {churning, Pid} -> ok end || Pid <- Churners],
    Fetched0 = fetched(),
    Owners = maps:from_keys([{pid, Num, Serial} ||
                                Pid <- Anchors,
                                {_, Num, Serial} <- [pid_triple(Pid)]], x),
    Until = erlang:monotonic_time(second) + 200,
    Scan = fun(I) ->
                   {Dict, Sections} = read_map(#{step => 40}),
                   No = type_no(db_term, maps:get(types, Dict)),
                   Found = [Addr || #{blocks := Bs} <- Sections,
                                    {Addr, _, T, _, Owner} <- Bs,
                                    T =:= No, is_map_key(Owner, Owners)],
                   ?assertEqual({I, Each * Schedulers, Each * Schedulers},
                                {I, length(Found), length(lists:usort(Found))}),
                   maps:get(rounds, Dict)
           end,
    %% Fewer only where in_node/4 would otherwise run out of time.
    Scans = [Scan(I) || I <- lists:seq(1, N), I =< 8 orelse erlang:monotonic_time(second) < Until],
    Fetched = fetched() - Fetched0,
    [begin unlink(Pid), exit(Pid, kill) end || Pid <- Churners],
    [Pid ! {check, self()} || Pid <- Anchors],
    [receive {Pid, Each} -> ok end || Pid <- Anchors],
    %% Otherwise nothing would have been tested.
    case erlang:system_info({allocator, ets_alloc}) of
        [{instance, _, _} | _] = Is ->
            Acul = [value(acul, Os) || {instance, I, Info} <- Is, I > 0,
                                       {options, Os} <- Info],
            ?assert(lists:all(fun(0) -> true; (_) -> Fetched > 0 end, Acul));
        _ ->
            ok
    end,
    {Fetched, Scans}.

%% Objects that stay, between others that are deleted.
anchor(Parent, N) ->
    T = ets:new(anchor, []),
    G = ets:new(garbage, []),
    [begin
         ets:insert(T, {I, lists:duplicate(20, I)}),
         [ets:insert(G, {{I, J}, lists:duplicate(J * 7, I)}) ||
             J <- lists:seq(1, 5)]
     end || I <- lists:seq(1, N)],
    ets:delete(G),
    Parent ! {anchored, self()},
    receive
        {check, From} -> From ! {self(), ets:info(T, size)}
    end,
    receive stop -> ok end.

pid_triple(Pid) ->
    list_to_tuple([list_to_integer(X) ||
                      X <- string:lexemes(pid_to_list(Pid), "<.>")]).

churn(Parent) ->
    T = ets:new(churn, []),
    churn_round(T, 1),
    Parent ! {churning, self()},
    churn_loop(T, 2).

churn_loop(T, N) ->
    churn_round(T, N),
    churn_loop(T, N + 1).

%% Many carriers are filled, most of their blocks are freed, and the rest later. The process
%% reallocates its heap, too.
churn_round(T, N) ->
    [ets:insert(T, {{N, I}, lists:duplicate((I * 31) rem 150, I)}) ||
        I <- lists:seq(1, 5000)],
    [ets:delete(T, {N, I}) || I <- lists:seq(1, 5000), I rem 10 =/= 0],
    ets:match_delete(T, {{N - 3, '_'}, '_'}),
    _ = binary:copy(<<0>>, 100 * (N rem 1000) + 100),
    ok.

%% The number of carriers that were fetched from pools.
fetched() ->
    lists:sum([Giga * 1000000000 + N ||
                  {instance, _, Info} <-
                      erlang:system_info({allocator, ets_alloc}),
                  {mbcs_pool, Pool} <- Info, {fetch, Giga, N} <- Pool]).

large_blocks(Config) ->
    in_node(Config, do_large_blocks, []).

%% Blocks in single-block carriers.
do_large_blocks() ->
    {_, Before} = read_map(#{}),
    Bins = [binary:copy(<<I>>, 3000000 + I) || I <- lists:seq(1, 50)],
    {Dict, After} = read_map(#{}),
    No = type_no(binary, maps:get(types, Dict)),
    Count = fun(Sections) ->
                    length([x || #{kind := 2, blocks := [{_, Size, T, _, _}]} <-
                                     Sections,
                                 T =:= No, Size >= 3000000])
            end,
    ?assertEqual(50, Count(After) - Count(Before)),
    ?assertEqual(50, length(Bins)),
    ok.

all_in_carriers(Config) ->
    in_node(Config, do_all_in_carriers, []).

%% For blocks from malloc() the map needs more than 16 bytes. There are no such blocks that live
%% long unless allocators are disabled.
do_all_in_carriers() ->
    {{instr_hdr, 2, _, Types}, Blocks} = Data = instrument:memory_data(),
    ?assertEqual([], lists:usort([instrument:type_descr(Data, T) ||
                                     {T, _, _, _} <- Blocks,
                                     instrument:allocator_descr(Data, T) =:= sys_alloc])),
    ?assertMatch({environment, ll_alloc, system_data},
                 lists:keyfind(environment, 1, tuple_to_list(Types))),
    Old = blocks_of(environment, Data),
    Vars = ["KYMO_" ++ integer_to_list(I) || I <- lists:seq(1, 100)],
    [os:putenv(Var, "value") || Var <- Vars],
    ?assertEqual(Old + 100, blocks_of(environment, instrument:memory_data())),
    [os:unsetenv(Var) || Var <- Vars],
    ?assertEqual(Old, blocks_of(environment, instrument:memory_data())),
    ok.

blocks_of(Type, {_, Blocks} = Data) ->
    length([x || {T, _, _, _} <- Blocks, instrument:type_descr(Data, T) =:= Type]).

map_of_code(Config) ->
    in_node(Config, do_code, []).

%% All modules are in the map, with the JIT in sections of their own.
do_code() ->
    {_, _} = read_map(#{}),
    Loaded = [M || {M, _} <- code:all_loaded()],
    {#{modules := Modules}, Sections} = read_map(#{}),
    Code = [B || #{kind := 4, blocks := Bs} <- Sections, B <- Bs],
    case erlang:system_info(emu_flavor) of
        jit ->
            ?assertEqual([], Loaded -- tuple_to_list(Modules)),
            Owners = lists:usort([I || {_, _, _, _, {module, I}} <- Code]),
            ?assertEqual(lists:seq(1, tuple_size(Modules)), Owners),
            ?assert(lists:sum([S || {_, S, _, _, _} <- Code])
                    =< erlang:memory(code)),
            ?assert(lists:sum([S || {_, S, _, _, _} <- Code]) > 100000);
        emu ->
            ?assertEqual([], Code)
    end,
    ok.

steps_are_bounded(Config) ->
    in_node(Config, do_steps, []).

%% Steps end on time; a smaller step size makes more of them. (The benchmark measures their
%% duration.)
do_steps() ->
    T = ets:new(t, []),
    [ets:insert(T, {I}) || I <- lists:seq(1, 300000)],
    {#{steps := Large, blocks := N}, _} = read_map(#{step => 100000}),
    {#{steps := Small}, _} = read_map(#{step => 10}),
    %% 64 KiB are 4096 records.
    ?assert(Large >= N div 4096),
    ?assert(Small > 2 * Large),
    ok.

one_at_a_time(Config) ->
    in_node(Config, do_one_at_a_time, []).

do_one_at_a_time() ->
    {ok, Map} = instrument:memory_map(),
    {ok, <<"ERTSMAP1", _/binary>>, Map1} = instrument:memory_map_read(Map),
    ?assertEqual({error, busy}, instrument:memory_map()),
    ?assertEqual({error, busy}, instrument:store_memory_map("x")),
    %% All waiting processes get their turn.
    Waiting = [spawn_monitor(fun() ->
                                     {{instr_hdr, 2, _, _}, [_ | _]} =
                                         instrument:memory_data()
                             end) || _ <- lists:seq(1, 5)],
    {Dict, _} = read_on(Map1),
    ?assert(is_map(Dict)),
    [receive {'DOWN', Ref, process, Pid, Reason} ->
             ?assertEqual(normal, Reason)
     end || {Pid, Ref} <- Waiting],
    ok.

my_own(Config) ->
    in_node(Config, do_my_own, []).

%% A process does not wait for a map that only it could end.
do_my_own() ->
    [begin
         {ok, Map} = instrument:memory_map(#{window => 1}),
         Map1 = read_some(N, Map),
         ?assertEqual({error, busy}, instrument:memory_data()),
         ?assertEqual({error, busy}, instrument:memory_map(#{wait => true})),
         ?assertEqual(false, instrument:store_memory_data("x")),
         ?assertEqual({error, enoent}, file:read_file_info("x")),
         ok = instrument:memory_map_close(Map1),
         ?assertMatch({_, [_ | _]}, instrument:memory_data())
     end || N <- [0, 1, 2, 5]],
    %% Without garbage_collect/0
    [begin
         begin_and_forget(N),
         ?assertMatch({_, [_ | _]}, instrument:memory_data())
     end || N <- [0, 1, 2, 5]],
    ok.

closed(Config) ->
    in_node(Config, do_closed, []).

%% Wherever the map is closed, nothing is left behind: there is no message, and the next map is
%% complete.
do_closed() ->
    T = ets:new(t, []),
    [ets:insert(T, {I}) || I <- lists:seq(1, 100000)],
    [begin
         {ok, Map} = instrument:memory_map(#{window => 2}),
         Map1 = read_some(N, Map),
         ?assertEqual(ok, instrument:memory_map_close(Map1)),
         ?assert(lists:member(read_to_error(Map1), [{error, closed}, eof])),
         ?assertEqual(ok, instrument:memory_map_close(Map1)),
         ?assertEqual({messages, []}, process_info(self(), messages))
     end || N <- lists:seq(0, 30)],
    all_there(100000),
    ok.

%% Or reads to the end.
read_some(0, Map) ->
    Map;
read_some(N, Map) ->
    case instrument:memory_map_read(Map) of
        {ok, _, Next} -> read_some(N - 1, Next);
        eof -> Map
    end.

read_to_error(Map) ->
    case instrument:memory_map_read(Map) of
        {ok, _, Next} -> read_to_error(Next);
        Other -> Other
    end.

%% A map finds at least N objects in tables.
all_there(N) ->
    Found = live(db_term, read_map(#{wait => true})),
    ?assert(Found >= N).

owner_dies(Config) ->
    in_node(Config, do_owner_dies, []).

do_owner_dies() ->
    T = ets:new(t, []),
    [ets:insert(T, {I}) || I <- lists:seq(1, 100000)],
    [begin
         {Pid, Ref} = spawn_monitor(
                        fun() ->
                                {ok, Map} = instrument:memory_map(
                                              #{window => 1, wait => true}),
                                _ = read_some(N, Map),
                                exit(done)
                        end),
         receive {'DOWN', Ref, process, Pid, done} -> ok end
     end || N <- lists:seq(0, 20)],
    all_there(100000),
    %% The reader is killed at any time.
    [begin
         {Pid, Ref} = spawn_monitor(fun() -> read_map(#{wait => true}) end),
         [erlang:yield() || _ <- lists:seq(1, N * 20)],
         exit(Pid, kill),
         receive {'DOWN', Ref, process, Pid, _} -> ok end
     end || N <- lists:seq(0, 30)],
    all_there(100000),
    ok.

left_behind(Config) ->
    in_node(Config, do_left_behind, []).

%% A map that a dead process has started and another one still references.
do_left_behind() ->
    T = ets:new(t, []),
    [ets:insert(T, {I}) || I <- lists:seq(1, 100000)],
    Self = self(),
    Begin = fun(N) ->
                    Owner = spawn_monitor(
                              fun() ->
                                      {ok, Map} = instrument:memory_map(#{window => 1}),
                                      Self ! {map, read_some(N, Map)},
                                      receive go -> ok end
                              end),
                    receive {map, Map} -> {Owner, Map} end
            end,
    End = fun({Owner, _}) -> Owner ! go end,
    [begin
         {Owner, Map} = Begin(N),
         ?assertEqual({error, busy}, instrument:memory_map()),
         End(Owner),
         down(Owner),
         {ok, Next} = instrument:memory_map(),
         {_, _} = read_on(Next),
         ?assertError(badarg, instrument:memory_map_read(Map))
     end || N <- [0, 1, 2, 5]],
    %% Other processes are already waiting.
    [begin
         {Owner, Map} = Begin(N),
         Waiting = [spawn_monitor(fun() ->
                                          {_, [_ | _]} = instrument:memory_data()
                                  end) || _ <- [1, 2, 3]],
         [erts_worker:until_waiting(Pid) || {Pid, _} <- Waiting],
         End(Owner),
         [down(Process) || Process <- [Owner | Waiting]],
         ?assertError(badarg, instrument:memory_map_read(Map))
     end || N <- [0, 1, 2, 5]],
    ?assertEqual({messages, []}, process_info(self(), messages)),
    all_there(100000).

down({Pid, Ref}) ->
    receive {'DOWN', Ref, process, Pid, Reason} -> ?assertEqual(normal, Reason) end.

forgotten(Config) ->
    in_node(Config, do_forgotten, []).

%% A map ends when it is no longer referenced.
do_forgotten() ->
    [begin
         begin_and_forget(N),
         erlang:garbage_collect(),
         {_, _} = read_map(#{wait => true})
     end || N <- [0, 1, 2, 5]],
    ok.

begin_and_forget(N) ->
    {ok, Map} = instrument:memory_map(#{window => 1}),
    _ = read_some(N, Map),
    ok.

not_mine(Config) ->
    in_node(Config, do_not_mine, []).

do_not_mine() ->
    {ok, Map} = instrument:memory_map(),
    Other = spawn_monitor(
              fun() ->
                      ?assertError(badarg, instrument:memory_map_read(Map)),
                      ?assertError(badarg, instrument:memory_map_close(Map))
              end),
    {Pid, Ref} = Other,
    receive {'DOWN', Ref, process, Pid, Reason} ->
            ?assertEqual(normal, Reason)
    end,
    [?assertError(badarg, instrument:map_request(Op, Arg)) ||
        Op <- [start, wait, scan, continue, loose, code, rest, left, info,
               code_owners, segments, received, is_running, stop, foo],
        Arg <- [[], make_ref(), {}, {make_ref(), 1, 1, true}, {a, b, c},
                {-1, 1, make_ref()}],
        not (Op =:= wait andalso is_reference(Arg))],
    ok = instrument:memory_map_close(Map),
    ok.

old_file(Config) ->
    in_node(Config, do_old_file, [?config(priv_dir, Config)]).

%% An obstacle to writing a map does not damage an existing file.
do_old_file(Dir) ->
    File = filename:join(Dir, "old"),
    Old = binary:copy(<<"old">>, 5000000),
    ok = file:write_file(File, Old),
    {ok, Map} = instrument:memory_map(),
    ?assertEqual({error, busy}, instrument:store_memory_map(File)),
    ?assertEqual(false, instrument:store_memory_data(File)),
    ?assertEqual({ok, Old}, file:read_file(File)),
    ok = instrument:memory_map_close(Map),
    %% The old contents are replaced completely, although they were longer.
    {ok, Dict} = instrument:store_memory_map(File),
    {ok, New} = file:read_file(File),
    ?assert(byte_size(New) < byte_size(Old)),
    ?assertMatch({Dict, _}, parse(New)),
    ok = file:write_file(File, Old),
    ?assertEqual(true, instrument:store_memory_data(File)),
    ?assertMatch({ok, [{instr_hdr, 2, _, _} | _]}, file:consult(File)),
    ok = file:write_file(File, Old),
    ?assertEqual(true, instrument:store_memory_status(File)),
    ?assertMatch({ok, [{instr_vsn, 2}, {total, _} | _]}, file:consult(File)),
    ok.

disk_full(Config) ->
    case file:read_file_info("/dev/full") of
        {ok, _} -> in_node(Config, do_disk_full, []);
        {error, _} -> {skip, "no /dev/full"}
    end.

do_disk_full() ->
    %% Symbolic links, because a file that cannot be written completely is removed.
    Link = fun(Name) -> ok = file:make_symlink("/dev/full", Name), Name end,
    Dir = filename:basedir(user_cache, "erts_instrument_" ++ os:getpid()),
    ok = filelib:ensure_dir(filename:join(Dir, "x")),
    File = filename:join(Dir, "full"),
    ?assertEqual({error, enospc}, instrument:store_memory_map(Link(File))),
    ?assertEqual({error, enoent}, file:read_link(File)),
    ?assertEqual(false, instrument:store_memory_data(Link(File))),
    ?assertEqual(false, instrument:store_memory_status(Link(File))),
    _ = file:delete(File),
    ok = file:del_dir(Dir),
    {_, _} = read_map(#{}),
    ok.

disk_half_full(Config) ->
    Dir = filename:join(?config(priv_dir, Config), "small"),
    ok = file:make_dir(Dir),
    %% In a mount namespace of its own, so the file system disappears with the node.
    Mount = "mount -t tmpfs -o size=1m kymo \"$0\"",
    case os:cmd("unshare -rm sh -c '" ++ Mount ++ " && echo mounted' '" ++
                    Dir ++ "'") of
        "mounted\n" ->
            Erl = filename:join([code:root_dir(), "bin", "erl"]),
            Exec = {os:find_executable("unshare"),
                    ["-rm", "sh", "-c", Mount ++ " && exec \"$@\"", Dir, Erl]},
            in_node(Config, do_disk_half_full, [Dir], [], #{exec => Exec});
        Why ->
            {skip, "no file system of its own: " ++ Why}
    end.

%% A partly written file is removed, and another map can be made.
do_disk_half_full(Dir) ->
    T = ets:new(t, []),
    [ets:insert(T, {I}) || I <- lists:seq(1, 300000)],
    File = filename:join(Dir, "map"),
    ?assertEqual({error, enospc}, instrument:store_memory_map(File)),
    ?assertEqual({ok, []}, file:list_dir(Dir)),
    ?assertEqual(false, instrument:store_memory_data(File)),
    ?assertEqual({ok, []}, file:list_dir(Dir)),
    ?assertEqual(ok, file:write_file(File, binary:copy(<<0>>, 900000))),
    {error, enospc} = file:write_file(filename:join(Dir, "rest"), binary:copy(<<0>>, 900000)),
    ?assertEqual(false, instrument:store_memory_status(filename:join(Dir, "status"))),
    ?assertEqual({ok, ["map", "rest"]}, sorted_dir(Dir)),
    ?assertEqual({messages, []}, process_info(self(), messages)),
    all_there(300000).

sorted_dir(Dir) ->
    {ok, Names} = file:list_dir(Dir),
    {ok, lists:sort(Names)}.

segments(Config) ->
    in_node(Config, do_segments, []).

%% There are as many segments as mseg says it caches: freed large blocks leave some for a while.
do_segments() ->
    {Dict, Sections} = do_segments(cached_segments()),
    Segments = [{A, S} || #{kind := 5, blocks := Bs} <- Sections,
                          {A, S, ?TYPE_FREE, 0, none} <- Bs],
    ?assertMatch(#{segments := N, segments_bytes := Sum}
                   when N =:= length(Segments), Dict),
    #{segments_bytes := Sum} = Dict,
    ?assertEqual(Sum, lists:sum([S || {_, S} <- Segments])),
    ?assertEqual(length(Segments), length(lists:usort(Segments))),
    ok.

%% The number of segments varies, so this repeats until there are some, and as many afterwards
%% as before.
do_segments(Before) ->
    _ = [binary:copy(<<I>>, 1500000 + I * 200000) || I <- lists:seq(1, 5)],
    erlang:garbage_collect(),
    {#{segments := N}, _} = Map = read_map(#{}),
    case cached_segments() of
        Before when Before =:= N, N > 0 -> Map;
        Other -> do_segments(Other)
    end.

cached_segments() ->
    lists:sum([N || {instance, _, Info} <-
                        erlang:system_info({allocator, mseg_alloc}),
                    {memkind, Kind} <- Info,
                    {status, Status} <- Kind,
                    {cached_segments, N} <- Status]).

outside(Config) ->
    case file:read_file_info("/proc/self/status") of
        {ok, _} -> in_node(Config, do_outside, []);
        {error, _} -> {skip, "no /proc"}
    end.

%% Resident memory that is in no part of the map.
do_outside() ->
    {#{rss := Rss, outside := Outside, carriers_bytes := Carriers,
       loose_bytes := Loose, segments_bytes := Segments}, Sections} =
        read_map(#{}),
    Sum = fun(Kinds) ->
                  lists:sum([S || #{kind := K, flags := F, size := S} <-
                                      Sections,
                                  lists:member(K, Kinds),
                                  K > 2 orelse F band 2 =/= 0])
          end,
    ?assertEqual(Carriers, Sum([1, 2])),
    ?assertEqual(Loose, Sum([3, 4])),
    ?assertEqual(Segments, Sum([5])),
    ?assertEqual(Outside, Rss - Carriers - Loose - Segments),
    %% The emulator itself has several megabytes of resident memory.
    ?assert(Rss > 4000000),
    ok.

slow_reader(Config) ->
    in_node(Config, do_slow_reader, []).

%% The window limits how much is produced in advance.
do_slow_reader() ->
    T = ets:new(t, []),
    [ets:insert(T, {I}) || I <- lists:seq(1, 300000)],
    {ok, Map} = instrument:memory_map(#{window => 3}),
    slow_read(Map, 0).

slow_read(Map, Max) ->
    case instrument:memory_map_read(Map) of
        {ok, _, Next} ->
            [erlang:yield() || _ <- lists:seq(1, 50)],
            {messages, Ms} = process_info(self(), messages),
            Bins = length([x || {_, Bin} <- Ms, is_binary(Bin)]),
            ?assert(Bins =< 3),
            slow_read(Next, max(Max, Bins));
        eof ->
            ?assert(Max > 0),
            ok
    end.

allocations_meanwhile(Config) ->
    in_node(Config, do_allocations, []).

%% Scans of the other kind use the same threads as a map that is paused.
do_allocations() ->
    T = ets:new(t, []),
    [ets:insert(T, {I}) || I <- lists:seq(1, 100000)],
    {ok, Map} = instrument:memory_map(#{window => 1}),
    Map1 = read_some(3, Map),
    {ok, {_, _, Allocations}} = instrument:allocations(),
    ?assert(is_map(Allocations)),
    {ok, {_, Carriers}} = instrument:carriers(),
    ?assert(length(Carriers) > 5),
    {Dict, Sections} = read_on(Map1),
    ?assert(live(db_term, {Dict, Sections}) >= 100000),
    ok.

stress(Config) ->
    in_node(Config, do_stress, [], ["+S", "4:4"]).

%% Many processes allocate, reallocate and free blocks of all kinds while maps are started,
%% abandoned and started again; afterwards everything is consistent.
do_stress() ->
    Self = self(),
    Pids = [spawn_link(fun() -> stress_loop(Self, I, 1) end) ||
               I <- lists:seq(1, 12)],
    [receive {stressing, Pid} -> ok end || Pid <- Pids],
    [begin
         {ok, Map} = instrument:memory_map(#{window => 1 + N rem 4,
                                             step => 5 + 7 * N,
                                             wait => true}),
         case N rem 3 of
             0 ->
                 ok = instrument:memory_map_close(read_some(N, Map));
             _ ->
                 {Dict, Sections} = read_on(Map),
                 check_sections(Dict, Sections)
         end
     end || N <- lists:seq(1, 10)],
    [begin unlink(Pid), exit(Pid, kill) end || Pid <- Pids],
    {Dict, Sections} = read_map(#{}),
    check_sections(Dict, Sections),
    [_ | _] = instrument:memory_status(types),
    ok.

%% The types, origins and owners all exist.
check_sections(#{types := Types, origins := Origins, modules := Modules},
               Sections) ->
    [begin
         ?assert(T =< tuple_size(Types) orelse T >= 16#fffd),
         ?assert(T =/= 16#ffff),
         ?assert(Origin =< tuple_size(Origins)),
         case Owner of
             {module, I} -> ?assert(I =< tuple_size(Modules));
             _ -> ok
         end
     end || #{blocks := Bs} <- Sections, {_, _, T, Origin, Owner} <- Bs].

stress_loop(Parent, I, N) ->
    T = ets:new(t, []),
    [ets:insert(T, {J, binary:copy(<<J>>, J)}) || J <- lists:seq(1, 200)],
    L = grow([], N rem 5000),
    {_, Ref} = spawn_monitor(fun() -> length(L) end),
    B = grow_binary(<<>>, 300),
    receive {'DOWN', Ref, process, _, _} -> ok end,
    ?assert(byte_size(B) > 300),
    Timer = erlang:send_after(1000, self(), x),
    _ = erlang:cancel_timer(Timer),
    ets:delete(T),
    N =:= 1 andalso (Parent ! {stressing, self()}),
    stress_loop(Parent, I, N + 1).

grow(L, 0) -> L;
grow(L, N) -> grow([N | L], N - 1).

%% Reallocates.
grow_binary(B, 0) -> B;
grow_binary(B, N) -> grow_binary(<<B/binary, 0:(N * 8)>>, N - 1).

%%--------------------------------------------------------------------------
%% Reading maps independently of instrument.erl

read_sections(Options) ->
    {_, Sections} = read_map(Options),
    Sections.

read_map(Options) ->
    {ok, Map} = instrument:memory_map(Options),
    read_on(Map).

read_on(Map) ->
    Bytes = read_bytes(Map),
    case Bytes of
        <<"ERTSMAP1", _/binary>> -> parse(Bytes);
        %% The file header has already been read.
        _ -> parse(<<"ERTSMAP1", 1:16/little, 64:16/little, 0:(52*8),
                     Bytes/binary>>)
    end.

read_bytes(Map) ->
    read_bytes(Map, []).

read_bytes(Map, Acc) ->
    case instrument:memory_map_read(Map) of
        {ok, Bytes, Next} -> read_bytes(Next, [Bytes | Acc]);
        eof -> iolist_to_binary(lists:reverse(Acc))
    end.

parse(<<"ERTSMAP1", 1:16/little, 64:16/little, _:52/binary, _/binary>> = All) ->
    Tail = byte_size(All) - 16,
    <<_:64/binary, Sections/binary>> = All,
    <<_:Tail/binary, _Offset:64/little, "ERTSMAPE">> = All,
    parse_sections(Sections, []).

parse_sections(<<"EMAP", 16#ffff:16/little, _:18/binary, Size:64/little,
                 _:32/binary, Dict:Size/binary, _:64, "ERTSMAPE">>, Acc) ->
    {binary_to_term(Dict), lists:reverse(Acc)};
parse_sections(<<"EMAP", Kind:16/little, Flags:16/little, N:32/little,
                 Allocator:16/little, Instance:16/little,
                 Addr:64/little, Size:64/little, First:64/little,
                 _:24/binary, Records:N/binary-unit:128, Rest/binary>>, Acc) ->
    Blocks = case Kind of
                 K when K =:= 1; K =:= 2 ->
                     records(Records, First, Addr + Size);
                 _ ->
                     [{A, S, T, Origin, owner(O)} ||
                         <<A:64/little, S:64/little, _:32, T:16/little,
                           Origin:16/little, O:64/little>> <= Records]
             end,
    parse_sections(Rest, [#{kind => Kind, flags => Flags, addr => Addr,
                            allocator => Allocator, instance => Instance,
                            size => Size, first => First, blocks => Blocks}
                          | Acc]).

records(<<16#ffffffff:32, T:16/little, Origin:16/little, O:64/little>>, At, End) ->
    [{At, End - At, T, Origin, owner(O)}];
records(<<Units:32/little, T:16/little, Origin:16/little, O:64/little,
          Rest/binary>>, At, End) ->
    [{At, Units * 8, T, Origin, owner(O)} | records(Rest, At + Units * 8, End)];
records(<<>>, _At, _End) ->
    [].

owner(0) -> none;
owner(O) ->
    Data = O band ((1 bsl 60) - 1),
    case O bsr 60 of
        1 -> {pid, Data band 16#fffffff, Data bsr 28};
        2 -> {port, Data};
        3 -> {code, Data};
        4 -> {module, Data}
    end.

%%--------------------------------------------------------------------------

in_node(ConfigOrFlags, Function, Args) ->
    in_node(ConfigOrFlags, Function, Args, []).

in_node(ConfigOrFlags, Function, Args, More) ->
    in_node(ConfigOrFlags, Function, Args, More, #{}).

in_node([{_, _} | _] = Config, Function, Args, More, Options) ->
    in_node(?config(flags, Config), Function, Args, More, Options);
in_node(Flags, Function, Args, More, Options) ->
    {ok, Peer, _Node} =
        peer:start_link(Options#{
                          connection => standard_io,
                          args => Flags ++ More ++ erts_reload_work:emulator_flags()}),
    try
        peer:call(Peer, ?MODULE, Function, Args, 280000)
    after
        peer:stop(Peer)
    end.
