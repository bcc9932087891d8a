%% SPDX-License-Identifier: Apache-2.0
%%
%% What memory maps find and cost, and what the flags for them cost for each
%% block: an unpatched and a patched runtime side by side, taking turns.
-module(instrument_bench).

-export([main/0, pairs/0, worker/0]).

-define(ANCHORS, 20000).
-define(SCANS, 40).
-define(PAIRS, 300000).
-define(MAPS, 30).

%% Targets: nanoseconds for a block and for a pair, steps in nanoseconds.
-define(MAX_PAIR, 15).
-define(MAX_STEP, 60000).

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
    {Found, Blocks, Scan, Step, Stored, Fold} =
        with(Patched, ["+Mim", "true"],
             fun(Ask) ->
                     Ask(fun() -> fill(Objects), map_numbers(File) end)
             end),
    io:format("~n~b objects                     stock    patched~n"
              "db_term blocks found     ~10b ~10b~n"
              "bytes not looked at      ~10b ~10b~n"
              "ns for a block                     - ~10.1f~n"
              "longest step of a map, us          - ~10.1f~n"
              "stored in s                        - ~10.2f  (~b blocks)~n"
              "folded, ns for a block             - ~10.1f~n",
              [Objects, SFound, Found, SUnscanned, 0, Scan, Step / 1000,
               Stored, Blocks, Fold]),
    lists:max([target("all objects found", Found >= Objects),
               target("stored in less than 3 us for a block",
                      Stored * 1.0e6 / Blocks < 3),
               target("folded in less than 50 ns for a block", Fold < 50),
               target("steps of at most 60 us", Step =< ?MAX_STEP)]).

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

%% The lower quartile of rounds of each runtime. What flags cost is the
%% difference to the patched runtime without.
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
    Quartiles = [lists:nth(1 + Rounds div 4, lists:sort(L)) ||
                    L <- transpose(tl(Times))],
    [_, _, Off, Mis, Mim] = Quartiles,
    io:format("~nns for inserting and deleting an object: a block each~n"),
    [io:format("~-16s ~8.1f~n", [Name, Q]) ||
        {{Name, _, _}, Q} <- lists:zip(Kinds, Quartiles)],
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
                       [ets:insert(T, {I, I}) || I <- lists:seq(1, Objects)],
                       Self ! filled,
                       receive stop -> ok end
               end),
    receive filled -> ok end.

%% Blocks of ETS objects and bytes that have not been looked at. With pids: of
%% these processes.
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
    {ok, Dict} = instrument:store_memory_map(File),
    {Us, {ok, _}} = timer:tc(fun() -> instrument:store_memory_map(File) end),
    #{blocks := Blocks, free_blocks := Free, types := Types} = Dict,
    Scans = [timer:tc(fun() -> drain(instrument:memory_map(), <<>>) end) ||
                _ <- lists:seq(1, ?MAPS)],
    {ScanUs, _} = lists:min(Scans),
    Step = lists:min([Step1 || {_, Step1} <- Scans]),
    {ok, <<_:64/binary, Sections/binary>>} = file:read_file(File),
    No = type_no(db_term, Types, 1),
    {FoldUs, Found} = timer:tc(fun() -> fold(Sections, No, 0) end),
    {Found, Blocks, ScanUs * 1000 / (Blocks + Free), Step, Us / 1.0e6,
     FoldUs * 1000 / (Blocks + Free)}.

%% The longest step. A thread that loses its processor in a step is charged for
%% that on some machines, so the map with the shortest one tells.
drain({ok, Map}, Last) ->
    case instrument:memory_map_read(Map) of
        {ok, Bytes, Next} ->
            drain({ok, Next}, Bytes);
        eof ->
            <<"EMAP", 16#ffff:16/little, _:18/binary, Size:64/little,
              _:32/binary, Dict:Size/binary, _/binary>> = Last,
            maps:get(longest_step_ns, binary_to_term(Dict))
    end.

type_no(Name, Types, N) when element(1, element(N, Types)) =:= Name -> N;
type_no(Name, Types, N) -> type_no(Name, Types, N + 1).

fold(<<"EMAP", 16#ffff:16/little, _/binary>>, _No, Acc) ->
    Acc;
fold(<<"EMAP", Kind:16/little, _:16, N:32/little, _:52/binary,
       Records:N/binary-unit:128, Rest/binary>>, No, Acc) when Kind =< 2 ->
    fold(Rest, No, records(Records, No, Acc));
fold(<<"EMAP", _:32, N:32/little, _:52/binary, _:N/binary-unit:128,
       Rest/binary>>, No, Acc) ->
    fold(Rest, No, Acc).

records(<<_:32, No:16/little, _:80, Rest/binary>>, No, Acc) ->
    records(Rest, No, Acc + 1);
records(<<_:128, Rest/binary>>, No, Acc) ->
    records(Rest, No, Acc);
records(<<>>, _No, Acc) ->
    Acc.

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

%% Objects of processes that do nothing meanwhile, between those of others that
%% come and go on all schedulers.
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
