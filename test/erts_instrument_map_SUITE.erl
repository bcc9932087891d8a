%% SPDX-License-Identifier: Apache-2.0
%%
%% What the ERTS patches derive from memory maps and lists of blocks: the classic functions of
%% instrument, instrument_map and instrument_picture. Unless a case says otherwise, the maps are
%% built here from the description of their format. Functions that run in a node with +Mim true
%% begin with do_.
-module(erts_instrument_map_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1]).
-export([classic_functions/1, classic_holes/1, classic_files/1, old_files/1,
         classic_status_files/1, classic_bad_arguments/1,
         items/1, pieces/1, large_section/1, owner_keys/1, carriers/1, parts/1,
         owners/1, top/1, unknown_numbers/1, memory_data/1, diff/1,
         diff_in_passes/1, growth/1, dead_owners/1, bad_arguments/1,
         truncated/1, damaged/1, bounded_memory/1, live_map/1, pooled/1,
         picture/1, picture_of_nothing/1, picture_errors/1]).
-export([do_live_map/1, do_pooled/1]).

-define(CARRIER, 16#7f0000000000).

suite() ->
    [{timetrap, {minutes, 5}}].

all() ->
    [classic_functions, classic_holes, classic_files, old_files,
     classic_status_files, classic_bad_arguments,
     items, pieces, large_section, owner_keys, carriers, parts, owners, top,
     unknown_numbers, memory_data, diff, diff_in_passes, growth, dead_owners,
     bad_arguments, truncated, damaged, bounded_memory, live_map, pooled,
     picture, picture_of_nothing, picture_errors].

init_per_suite(Config) ->
    case code:ensure_loaded(instrument_map) of
        {module, instrument_map} -> Config;
        _ -> {skip, "this runtime lacks instrument_map of the ERTS patches"}
    end.

end_per_suite(_Config) ->
    ok.

%%--------------------------------------------------------------------------
%% Lists of blocks

data() ->
    {{instr_hdr, 2, 24, {{heap, eheap_alloc, process_data},
                         {binary, binary_alloc, binary_data}}},
     [{2, 5000, 100, undefined},
      {1, 1000, 232, {0, 70, 3}},
      {1, 1256, 40, {0, 71, 0}}]}.

classic_functions(_Config) ->
    Data = {Header, [Binary, Heap1, Heap2]} = data(),
    ?assertEqual(24, instrument:block_header_size(Data)),
    ?assertEqual({1, 2}, instrument:type_no_range(Data)),
    ?assertEqual([heap, binary],
                 [instrument:type_descr(Data, N) || N <- [1, 2]]),
    ?assertEqual([eheap_alloc, binary_alloc],
                 [instrument:allocator_descr(Data, N) || N <- [1, 2]]),
    ?assertEqual([process_data, binary_data],
                 [instrument:class_descr(Data, N) || N <- [1, 2]]),
    [?assertEqual(invalid_type, instrument:F(Data, N)) ||
        F <- [type_descr, allocator_descr, class_descr],
        N <- [-1, 0, 3, 1 bsl 70]],
    ?assertEqual(372, instrument:sum_blocks(Data)),
    Sorted = {Header, [Heap1, Heap2, Binary]},
    ?assertEqual(Sorted, instrument:sort(Data)),
    ?assertEqual({1000, 5100}, instrument:mem_limits(Sorted)),
    ?assertEqual({Header, [{binary, 5000, 100, undefined},
                           {heap, 1000, 232, list_to_pid("<0.70.3>")},
                           {heap, 1256, 40, list_to_pid("<0.71.0>")}]},
                 instrument:descr(Data)),
    %% Data of a system with more processes than this one can have.
    Foreign = {0, 1 bsl 40, 0},
    ?assertEqual({Header, [{heap, 8, 8, Foreign}]},
                 instrument:descr({Header, [{1, 8, 8, Foreign}]})),
    ?assertEqual(0, instrument:sum_blocks({Header, []})),
    ?assertEqual({Header, []}, instrument:sort({Header, []})).

%% A hole is memory that neither the data nor the header of a block uses.
classic_holes(_Config) ->
    {Header, _} = data(),
    Holes = fun(Blocks) ->
                    {ok, Text} = printed(fun() ->
                                                 instrument:holes({Header, Blocks})
                                         end),
                    [list_to_integer(S) || S <- string:lexemes(Text, " \n")]
            end,
    ?assertEqual([], Holes([])),
    ?assertEqual([], Holes([{1, 1000, 8, undefined}])),
    ?assertEqual([3680],
                 Holes(element(2, instrument:sort(data())))),
    ?assertEqual([8, 100000],
                 Holes([{1, 1000, 76, undefined}, {1, 1100, 60, undefined},
                        {1, 1192, 100, undefined}, {1, 1323, 1, undefined},
                        {1, 101348, 1, undefined}])).

%% The output of a fun, and its result.
printed(Fun) ->
    Self = self(),
    Pid = spawn_link(fun() ->
                             group_leader(Self, self()),
                             Self ! {done, self(), Fun()}
                     end),
    printed(Pid, []).

printed(Pid, Acc) ->
    receive
        {io_request, From, ReplyAs, Request} ->
            From ! {io_reply, ReplyAs, ok},
            Text = case Request of
                       {put_chars, _, Chars} -> Chars;
                       {put_chars, _, M, F, A} -> apply(M, F, A)
                   end,
            printed(Pid, [Acc, Text]);
        {done, Pid, Result} ->
            {Result, unicode:characters_to_list(Acc)}
    end.

classic_files(Config) ->
    {Header, Blocks} = Data = data(),
    File = file(Config, "classic.txt"),
    ok = write_terms(File, [Header | Blocks]),
    ?assertEqual(Data, instrument:read_memory_data(File)),
    ok = write_terms(File, [Header]),
    ?assertEqual({Header, []}, instrument:read_memory_data(File)),
    [begin
         ok = write_terms(File, Terms),
         ?assertEqual({Terms, {error, eio}},
                      {Terms, instrument:read_memory_data(File)})
     end || Terms <- [[], [foo], [Header, foo], [Header, {1, 2, 3}],
                      [Header, {1, 2, 3, {a, 1, 2}}], [{1, 2, 3, {0, 1}}],
                      [setelement(2, Header, 3) | Blocks],
                      [setelement(4, Header, foo) | Blocks],
                      [{instr_hdr}], [{instr_vsn, 2}, {total, []}]]],
    ok = file:write_file(File, "{instr_hdr,2,24,{}}.\n{1,"),
    ?assertMatch({error, {_, _, _}}, instrument:read_memory_data(File)),
    ?assertEqual({error, enoent}, instrument:read_memory_data(File ++ "x")).

%% Before R9C there was no header, blocks needed 32 bytes, and the names of types were not in
%% the file.
old_files(Config) ->
    File = file(Config, "old.txt"),
    Blocks = [{-1, 4096, 16, undefined}, {8, 8192, 32, {0, 12, 1}}],
    Header = {instr_hdr, 1, 32},
    Files = [Blocks, [Header | Blocks]],
    [begin
         ok = write_terms(File, Terms),
         Data = instrument:read_memory_data(File),
         ?assertEqual({Header, Blocks}, Data),
         ?assertEqual(32, instrument:block_header_size(Data)),
         ?assertEqual({-1, 1000}, instrument:type_no_range(Data)),
         [?assertEqual("unknown", instrument:F(Data, N)) ||
             F <- [type_descr, allocator_descr, class_descr], N <- [-1, 8, 1000]],
         [?assertEqual(invalid_type, instrument:F(Data, N)) ||
             F <- [type_descr, allocator_descr, class_descr], N <- [-2, 1001]],
         ?assertEqual({4096, 8224}, instrument:mem_limits(Data)),
         ?assertEqual(48, instrument:sum_blocks(Data))
     end || Terms <- Files].

classic_status_files(Config) ->
    File = file(Config, "status.txt"),
    Status = [{total, [{total, [{sizes, 1, 2, 3}, {blocks, 1, 1, 1}]}]},
              {types, [{heap, [{sizes, 1, 2, 3}, {blocks, 1, 1, 1}]}]}],
    [begin
         ok = write_terms(File, [{instr_vsn, Version} | Status]),
         ?assertEqual(Status, instrument:read_memory_status(File))
     end || Version <- [1, 2]],
    [begin
         ok = write_terms(File, Terms),
         ?assertEqual({Terms, {error, eio}},
                      {Terms, instrument:read_memory_status(File)})
     end || Terms <- [[], Status, [{instr_vsn, 2}, foo],
                      [{instr_vsn, 2}, {total, foo}], [{instr_hdr, 2, 24, {}}]]],
    ?assertEqual({error, enoent}, instrument:read_memory_status(File ++ "x")).

classic_bad_arguments(_Config) ->
    {Header, _} = Data = data(),
    Lists = [descr, holes, mem_limits, sort, sum_blocks],
    [badarg(instrument, 1, fun() -> instrument:F(Bad) end) ||
        F <- [block_header_size, type_no_range | Lists],
        Bad <- [foo, {error, enoent}, {foo, []}, {Header, foo},
                {Header, [foo | bar]}, {{instr_hdr, 7, 24, {}}, []}]],
    [badarg(instrument, 1, fun() -> instrument:F({Header, [foo]}) end) ||
        F <- Lists],
    badarg(instrument, 1, fun() -> instrument:mem_limits({Header, []}) end),
    [begin
         badarg(instrument, 1, fun() -> instrument:F(foo, 1) end),
         badarg(instrument, 2, fun() -> instrument:F(Data, 1.0) end)
     end || F <- [type_descr, allocator_descr, class_descr]],
    [badarg(instrument, 1, fun() -> instrument:F({foo}) end) ||
        F <- [read_memory_data, read_memory_status]].

%%--------------------------------------------------------------------------
%% Synthetic maps

-define(OFFSET, 8).
-define(OVERHEAD, 24).

dict() ->
    #{version => 1, otp_release => "27", node => 'a<b>&"c"@d',
      types => {{heap, eheap_alloc, process_data},
                {binary, binary_alloc, binary_data},
                {db_term, ets_alloc, ets_data}},
      allocators => {sys_alloc, eheap_alloc, ets_alloc},
      origins => {prim_file, my_nif},
      modules => {lists, maps},
      code => #{16#1000 => {lists, reverse, 1}},
      registered => [{'<script>alert("&")</script>', {0, 70, 3}}],
      blocks => 5, bytes => 1000}.

map(Sections) ->
    map(Sections, dict()).

map(Sections, Dict) ->
    Body = iolist_to_binary([header() | Sections]),
    Term = term_to_binary(Dict),
    [Body, <<"EMAP", 16#ffff:16/little, 0:(18 * 8), (byte_size(Term)):64/little,
             0:(32 * 8), Term/binary, (byte_size(Body)):64/little, "ERTSMAPE">>].

header() ->
    <<"ERTSMAP1", 1:16/little, 64:16/little, 64:16/little, 16:16/little,
      8:16/little, ?OFFSET:16/little, ?OVERHEAD:16/little, 8:16/little,
      1000000:64/little, 0:(32 * 8)>>.

section(Kind, Flags, Carrier, Size, First, Records) ->
    section(Kind, Flags, {2, 1}, Carrier, Size, First, Records).

section(Kind, Flags, {Allocator, Instance}, Carrier, Size, First, Records) ->
    Bytes = iolist_to_binary(Records),
    <<"EMAP", Kind:16/little, Flags:16/little, (byte_size(Bytes) div 16):32/little,
      Allocator:16/little, Instance:16/little, Carrier:64/little, Size:64/little,
      First:64/little, 3:16/little, 4:16/little, 0:(20 * 8), Bytes/binary>>.

block(Size, Type, Origin, Owner) ->
    <<(Size div 8):32/little, Type:16/little, Origin:16/little, Owner:64/little>>.

free(Size) -> block(Size, 0, 0, 0).

loose(Addr, Size, Type, Origin, Owner) ->
    <<Addr:64/little, Size:64/little, 0:32, Type:16/little, Origin:16/little,
      Owner:64/little>>.

process(Num, Serial) -> (1 bsl 60) bor (Serial bsl 28) bor Num.
port(Num) -> (2 bsl 60) bor Num.
code(Addr) -> (3 bsl 60) bor Addr.
module(N) -> (4 bsl 60) bor N.

%% One record of each kind: a carrier of 4096 bytes whose blocks begin at 64.
sample() ->
    sample(process(70, 3)).

sample(Owner) ->
    [section(1, 1 bor 2 bor 8, ?CARRIER, 4096, ?CARRIER + 64,
             [block(256, 1, 0, Owner), free(512), block(128, 16#fffe, 0, 0),
              block(1024, 3, 2, port(9)), block(64, 16#ffff, 0, 0),
              free(2048)]),
     section(2, 1 bor 2, {3, 0}, ?CARRIER + 16#10000, 8192,
             ?CARRIER + 16#10000 + 48,
             [<<16#ffffffff:32, 2:16/little, 1:16/little,
                (code(16#1000)):64/little>>]),
     section(3, 0, {1, 0}, 0, 77, 0, [loose(16#5000, 77, 2, 0, 0)]),
     section(4, 0, {0, 0}, 0, 500, 0, [loose(16#6000, 500, 16#fffd, 0, module(2))]),
     section(5, 0, {0, 1}, 0, 8192, 0, [loose(16#8000, 8192, 0, 0, 0)])].

items(Config) ->
    Expected =
        [{block, ?CARRIER + 64 + 8, 232, 1, 0, {process, {0, 70, 3}}},
         {free, ?CARRIER + 64 + 256, 512},
         {cached, ?CARRIER + 64 + 768, 128},
         {block, ?CARRIER + 64 + 896 + 8, 1000, 3, 2, {port, 9}},
         {block, ?CARRIER + 64 + 1920 + 8, 40, 16#ffff, 0, none},
         {free, ?CARRIER + 64 + 1984, 2048},
         {block, ?CARRIER + 16#10000 + 48 + 8, 8192 - 48 - 24, 2, 1,
          {lists, reverse, 1}},
         {block, 16#5000, 77, 2, 0, none},
         {block, 16#6000, 500, 16#fffd, 0, {module, maps}},
         {free, 16#8000, 8192}],
    Map = map(sample()),
    File = file(Config, "items.map"),
    ok = file:write_file(File, Map),
    [begin
         ?assertEqual({ok, dict()}, instrument_map:info(Source)),
         ?assertEqual(Expected, items_of(Source)),
         {ok, Sections, _} =
             instrument_map:fold(fun({section, S}, Acc) -> [S | Acc];
                                    (_, Acc) -> Acc
                                 end, [], Source),
         ?assertMatch([#{kind := multi, address := ?CARRIER, size := 4096,
                         allocator := 2, instance := 1, creator := {3, 4},
                         first := true, last := true, mseg := true,
                         in_pool := false, main := false, gone := false},
                       #{kind := single, mseg := false, allocator := 3},
                       #{kind := loose}, #{kind := code},
                       #{kind := segments, size := 8192}],
                      lists:reverse(Sections))
     end || Source <- [{file, File}, {file, list_to_binary(File)}, Map]].

%% All items except sections, with readable owners.
items_of(Source) ->
    {ok, Items, Dict} = instrument_map:fold(fun({section, _}, Acc) -> Acc;
                                               (Item, Acc) -> [Item | Acc]
                                            end, [], Source),
    [case Item of
         {block, _, _, _, _, Key} ->
             setelement(6, Item, instrument_map:owner(Key, Dict));
         _ ->
             Item
     end || Item <- lists:reverse(Items)].

%% The result does not depend on how the stream is split.
pieces(_Config) ->
    Map = map(sample()),
    Items = items_of(Map),
    Bytes = iolist_to_binary(Map),
    [?assertEqual({N, Items}, {N, items_of([<<>> | cut(Bytes, N)] ++ [<<>>])}) ||
        N <- [1, 3, 16, 17, 63, 64, 65, 100, 1000, byte_size(Bytes)]].

cut(Bytes, N) when byte_size(Bytes) > N ->
    <<Piece:N/binary, Rest/binary>> = Bytes,
    [Piece | cut(Rest, N)];
cut(Bytes, _) ->
    [Bytes].

%% More records than the reader handles at a time, after a header of odd size.
large_section(Config) ->
    Count = 100000,
    Records = [block(48, 1 + I rem 3, 0, process(I, 0)) || I <- lists:seq(1, Count)],
    Loose = [loose(16#900000000000 + I * 64, 40, 2, 0, process(I, 1)) ||
                I <- lists:seq(1, Count)],
    File = file(Config, "large.map"),
    ok = file:write_file(File,
                         map([section(1, 3, ?CARRIER, 48 * Count + 24,
                                      ?CARRIER + 24, Records),
                              section(3, 0, 0, 40 * Count, 0, Loose)])),
    Items = items_of({file, File}),
    ?assertEqual([{block, ?CARRIER + 24 + 48 * (I - 1) + 8, 24, 1 + I rem 3, 0,
                   {process, {0, I, 0}}} || I <- lists:seq(1, Count)] ++
                     [{block, 16#900000000000 + I * 64, 40, 2, 0,
                       {process, {0, I, 1}}} || I <- lists:seq(1, Count)],
                 Items).

%% All bits of an owner are significant.
owner_keys(_Config) ->
    Owners = [{process(0, 0), {process, {0, 0, 0}}},
              {process(16#fffffff, 16#ffffffff),
               {process, {0, 16#fffffff, 16#ffffffff}}},
              {process(1, 16#10000000), {process, {0, 1, 16#10000000}}},
              {port((1 bsl 60) - 1), {port, (1 bsl 60) - 1}},
              {code(16#1000), {lists, reverse, 1}},
              {code(16#1001), {code, 16#1001}},
              {module(1), {module, lists}}, {module(3), {module, 3}},
              {module(0), {module, 0}},
              {0, none}, {9 bsl 60, none}],
    Map = map([section(1, 3, ?CARRIER, 100000, ?CARRIER,
                       [block(64, 1, 0, Word) || {Word, _} <- Owners])]),
    ?assertEqual([Owner || {_, Owner} <- Owners],
                 [Owner || {block, _, _, _, _, Owner} <- items_of(Map)]).

carriers(_Config) ->
    {ok, [C1, C2]} = instrument_map:carriers(map(sample())),
    ?assertEqual(#{address => ?CARRIER, size => 4096, kind => multi,
                   allocator => eheap_alloc, instance => 1, in_pool => false,
                   mseg => true, main => false, gone => false,
                   live_blocks => 3, live_bytes => 232 + 1000 + 40,
                   cached_blocks => 1, cached_bytes => 128,
                   free_blocks => 2, free_bytes => 2560, largest_free => 2048,
                   fragmentation => 0.2}, C1),
    ?assertMatch(#{kind := single, allocator := ets_alloc, live_blocks := 1,
                   free_bytes := 0, fragmentation := F} when F == 0, C2),
    ?assertEqual({ok, [{?CARRIER + 64 + 256, 512, ?CARRIER},
                       {?CARRIER + 64 + 1984, 2048, ?CARRIER},
                       {16#8000, 8192, 0}]},
                 instrument_map:holes(map(sample()))).

%% The parts of a carrier belong together even if others lie between them. A new carrier at the
%% address of a freed one is a different carrier.
parts(_Config) ->
    Other = ?CARRIER + 16#100000,
    Map = map([section(1, 1, ?CARRIER, 4096, ?CARRIER + 64,
                       [block(64, 1, 0, 0), free(64)]),
               section(1, 3, Other, 4096, Other + 64, [free(4000)]),
               section(1, 4, ?CARRIER, 4096, ?CARRIER + 192, [free(128)]),
               section(3, 0, 0, 8, 0, [loose(16#5000, 8, 1, 0, 0)]),
               section(1, 2 bor 32, ?CARRIER, 4096, ?CARRIER + 320,
                       [block(64, 1, 0, 0)]),
               section(1, 1, Other, 2048, Other + 64, [block(64, 1, 0, 0)]),
               section(1, 3, Other, 1024, Other + 64, [block(96, 1, 0, 0)])]),
    {ok, Carriers} = instrument_map:carriers(Map),
    ?assertMatch([#{address := Other, free_bytes := 4000, live_blocks := 0},
                  #{address := ?CARRIER, free_bytes := 192, free_blocks := 2,
                    largest_free := 128, live_blocks := 2, gone := true}
                  | _], Carriers),
    ?assertEqual([{1024, 72}, {2048, 40}],
                 lists:sort([{Size, Bytes} || #{size := Size, live_bytes := Bytes,
                                                free_blocks := 0} <- Carriers])).

owners(_Config) ->
    Name = '<script>alert("&")</script>',
    Code = {lists, reverse, 1},
    Large = 8192 - 48 - 24,
    [?assertEqual({By, {ok, Expected}},
                  {By, instrument_map:owners(By, map(sample()))}) ||
        {By, Expected} <-
            [{owner, #{{process, {0, 70, 3}} => {1, 232}, {port, 9} => {1, 1000},
                       Code => {1, Large}, {module, maps} => {1, 500},
                       none => {2, 117}}},
             {pid, #{{process, {0, 70, 3}} => {1, 232}, {port, 9} => {1, 1000},
                     none => {4, Large + 617}}},
             {name, #{Name => {1, 232}, {port, 9} => {1, 1000},
                      none => {4, Large + 617}}},
             {mfa, #{Code => {1, Large}, {module, maps} => {1, 500},
                     none => {4, 1349}}},
             {origin, #{none => {4, 849}, my_nif => {1, 1000},
                        prim_file => {1, Large}}},
             {type, #{heap => {1, 232}, db_term => {1, 1000}, untagged => {1, 40},
                      binary => {2, Large + 77}, machine_code => {1, 500}}},
             {class, #{process_data => {1, 232}, ets_data => {1, 1000},
                       untagged => {1, 40}, binary_data => {2, Large + 77},
                       code_data => {1, 500}}},
             {allocator, #{eheap_alloc => {1, 232}, ets_alloc => {1, 1000},
                           untagged => {1, 40}, binary_alloc => {2, Large + 77},
                           machine_code => {1, 500}}},
             {{origin, {pid, type}},
              #{{none, {{process, {0, 70, 3}}, heap}} => {1, 232},
                {my_nif, {{port, 9}, db_term}} => {1, 1000},
                {none, {none, untagged}} => {1, 40},
                {prim_file, {none, binary}} => {1, Large},
                {none, {none, binary}} => {1, 77},
                {none, {none, machine_code}} => {1, 500}}}]].

top(_Config) ->
    Map = map(sample()),
    ?assertEqual({ok, []}, instrument_map:top(type, 0, Map)),
    ?assertEqual({ok, [{binary, 2, 8197}, {db_term, 1, 1000}]},
                 instrument_map:top(type, 2, Map)),
    {ok, All} = instrument_map:top(type, 100, Map),
    ?assertEqual([8197, 1000, 500, 232, 40], [Bytes || {_, _, Bytes} <- All]).

%% A dictionary that lacks entries that the records refer to.
unknown_numbers(_Config) ->
    Map = map([section(1, 3, {77, 0}, ?CARRIER, 4096, ?CARRIER,
                       [block(64, 99, 98, module(97))])]),
    [?assertEqual({ok, [{Name, 1, 40}]}, instrument_map:top(By, 9, Map)) ||
        {By, Name} <- [{type, {type, 99}}, {origin, {origin, 98}},
                       {owner, {module, 97}}, {class, unknown},
                       {allocator, unknown}]],
    ?assertMatch({ok, [#{allocator := {allocator, 77}}]},
                 instrument_map:carriers(Map)).

memory_data(_Config) ->
    {ok, Data} = instrument_map:memory_data(map(sample())),
    ?assertEqual({{instr_hdr, 2, 24, maps:get(types, dict())},
                  [{2, 16#5000, 77, undefined},
                   {1, ?CARRIER + 72, 232, {0, 70, 3}},
                   {3, ?CARRIER + 64 + 904, 1000, undefined},
                   {0, ?CARRIER + 64 + 1928, 40, undefined},
                   {2, ?CARRIER + 16#10000 + 56, 8120, undefined}]},
                 instrument:sort(Data)).

diff(_Config) ->
    Carrier = fun(Records, Dict) ->
                      map([section(1, 3, ?CARRIER, 16#10000, ?CARRIER, Records)],
                          Dict)
              end,
    %% Modules and origins have different numbers in the second map.
    Dict = dict(),
    First = Carrier([block(64, 1, 1, module(1)),        % stays
                     block(64, 1, 0, process(1, 0)),    % goes
                     block(128, 2, 0, process(2, 0)),   % stays
                     block(64, 2, 0, process(2, 0)),    % becomes another type
                     block(64, 2, 2, 0),                % another NIF
                     free(64)], Dict),
    Second = Carrier([block(64, 1, 2, module(2)),
                      free(64),
                      block(128, 2, 0, process(2, 0)),
                      block(64, 3, 0, process(2, 0)),
                      block(64, 2, 2, 0),
                      block(64, 2, 0, process(3, 0))],
                     Dict#{modules := {maps, lists}, origins := {my_nif, prim_file}}),
    {ok, Diff} = instrument_map:diff(pid, First, Second),
    [P1, P2, P3] = [{process, {0, N, 0}} || N <- [1, 2, 3]],
    ?assertEqual(#{survivors => {2, 40 + 104},
                   survivors_by => [{P2, 1, 104}, {none, 1, 40}],
                   gone => {3, 120}, new => {3, 120},
                   owners => [{P3, {0, 0}, {1, 40}},
                              {none, {2, 80}, {2, 80}},
                              {P2, {2, 144}, {2, 144}},
                              {P1, {1, 40}, {0, 0}}]}, Diff),
    {ok, Same} = instrument_map:diff(type, First, First),
    ?assertMatch(#{survivors := {5, 264}, gone := {0, 0}, new := {0, 0}}, Same).

%% More blocks than are compared in one pass.
diff_in_passes(Config) ->
    Count = 500001,
    File = file(Config, "passes.map"),
    Map = fun(Owner) ->
                  Records = [[block(48, 1, 0, Owner), block(48, 2, 0, process(7, 7))] ||
                                _ <- lists:seq(1, Count)],
                  map([section(1, 3, ?CARRIER, 96 * Count, ?CARRIER, Records)])
          end,
    ok = file:write_file(File, Map(process(1, 1))),
    {ok, Diff} = instrument_map:diff(type, {file, File}, Map(process(2, 1))),
    ?assertMatch(#{survivors := {Count, _}, survivors_by := [{binary, Count, _}],
                   gone := {Count, _}, new := {Count, _}}, Diff).

growth(_Config) ->
    Maps = [map([section(1, 3, ?CARRIER, 16#100000, ?CARRIER,
                         [block(64, 1, 0, process(1, 0)) || _ <- lists:seq(1, N)] ++
                             [block(1024, 1, 0, process(2, 0))] ++
                             [block(512, 1, 0, process(3, 0)) || N =:= 1])])
            || N <- [1, 5, 20]],
    [P1, P2, P3] = [{process, {0, N, 0}} || N <- [1, 2, 3]],
    ?assertEqual({ok, [{P1, 760, [40, 200, 800]},
                       {P2, 0, [1000, 1000, 1000]},
                       {P3, -488, [488, 0, 0]}]},
                 instrument_map:growth(pid, Maps)).

dead_owners(_Config) ->
    {Dead, Ref} = spawn_monitor(fun() -> ok end),
    receive {'DOWN', Ref, process, Dead, _} -> ok end,
    Word = fun(Pid) ->
                   {0, N, S} = pid_parts(Pid),
                   process(N, S)
           end,
    [Port | _] = erlang:ports(),
    {ok, [PortNo], []} = io_lib:fread("#Port<0.~d>", erlang:port_to_list(Port)),
    Map = map([section(1, 3, ?CARRIER, 16#10000, ?CARRIER,
                       [block(64, 1, 0, Word(self())), block(64, 1, 0, Word(Dead)),
                        block(128, 1, 0, Word(Dead)), block(64, 1, 0, port(PortNo)),
                        block(64, 1, 0, port((1 bsl 28) - 2)),
                        block(64, 1, 0, code(16#1000)),
                        block(4096, 1, 0, process(16#fffffff, 16#ffffffff)),
                        block(64, 1, 0, 0)])]),
    {_, Num, Serial} = pid_parts(Dead),
    DeadPort = {port, (1 bsl 28) - 2},
    NoPid = {process, {0, 16#fffffff, 16#ffffffff}},
    ?assertEqual({ok, [{NoPid, 1, 4072}, {{process, {0, Num, Serial}}, 2, 144},
                       {DeadPort, 1, 40}]},
                 instrument_map:dead_owners(Map)),
    ?assertEqual({ok, [{DeadPort, 1, 40}]},
                 instrument_map:dead_owners(Map, fun(O) -> O =/= DeadPort end)).

pid_parts(Pid) ->
    {ok, [Num, Serial], []} = io_lib:fread("<0.~d.~d>", pid_to_list(Pid)),
    {0, Num, Serial}.

bad_arguments(_Config) ->
    M = instrument_map,
    Map = map(sample()),
    Fun = fun(_, Acc) -> Acc end,
    [begin
         badarg(M, 1, fun() -> M:info(Bad) end),
         badarg(M, 1, fun() -> M:memory_data(Bad) end),
         badarg(M, 1, fun() -> M:carriers(Bad) end),
         badarg(M, 1, fun() -> M:holes(Bad) end),
         badarg(M, 1, fun() -> M:dead_owners(Bad) end),
         badarg(M, 3, fun() -> M:fold(Fun, [], Bad) end),
         badarg(M, 2, fun() -> M:owners(type, Bad) end),
         badarg(M, 3, fun() -> M:top(type, 1, Bad) end),
         badarg(M, 2, fun() -> M:diff(type, Bad, Map) end),
         badarg(M, 3, fun() -> M:diff(type, Map, Bad) end)
     end || Bad <- [foo, [foo], [<<1:1>>], [<<>> | <<>>], {file, {}}, {foo, "x"},
                    <<"x">>]],
    [begin
         badarg(M, 1, fun() -> M:owners(By, Map) end),
         badarg(M, 1, fun() -> M:top(By, 1, Map) end),
         badarg(M, 1, fun() -> M:diff(By, Map, Map) end),
         badarg(M, 1, fun() -> M:growth(By, [Map, Map]) end)
     end || By <- [foo, {type}, {type, foo}, [type]]],
    badarg(M, 1, fun() -> M:fold(foo, [], Map) end),
    badarg(M, 2, fun() -> M:top(type, -1, Map) end),
    badarg(M, 2, fun() -> M:growth(type, [Map]) end),
    badarg(M, 2, fun() -> M:growth(type, [Map, Map | foo]) end),
    badarg(M, 2, fun() -> M:growth(type, [Map, foo]) end),
    badarg(M, 2, fun() -> M:dead_owners(Map, foo) end),
    badarg(M, 1, fun() -> M:dead_owners(foo, fun(_) -> true end) end),
    ?assertError(badarg, M:owner(foo, dict())),
    ?assertError(badarg, M:type(foo, dict())),
    [?assertEqual({error, enoent}, F({file, "no such file"})) || F <- readers()],
    %% An exception in the caller's fun is not reported as damage of the map.
    ?assertError(mine, M:fold(fun(_, _) -> error(mine) end, [], Map)).

badarg(Module, Position, Fun) ->
    try Fun() of
        Res -> error({no_badarg, Res})
    catch
        error:badarg:Stack ->
            [{Module, Function, Args, Info} | _] = Stack,
            ?assert(erlang:function_exported(Module, Function, length(Args))),
            #{module := Explains} = proplists:get_value(error_info, Info),
            #{Position := Text} = Explains:format_error(badarg, Stack),
            ?assert(is_list(Text))
    end.

%%--------------------------------------------------------------------------
%% Damaged maps

readers() ->
    [fun instrument_map:info/1, fun instrument_map:memory_data/1,
     fun instrument_map:carriers/1, fun instrument_map:holes/1,
     fun instrument_map:dead_owners/1,
     fun(S) -> instrument_map:owners({name, {origin, mfa}}, S) end,
     fun(S) -> instrument_map:diff(type, S, S) end,
     fun(S) -> instrument_map:growth(class, [S, S]) end].

truncated(Config) ->
    Bytes = iolist_to_binary(map(sample())),
    File = file(Config, "truncated.map"),
    [begin
         Cut = binary:part(Bytes, 0, N),
         Expected = if
                        N < 8 -> not_a_map;
                        true -> truncated
                    end,
         ok = file:write_file(File, Cut),
         [?assertEqual({N, {error, Expected}}, {N, F(Source)}) ||
             F <- readers(), Source <- [[Cut], {file, File}]]
     end || N <- lists:seq(0, byte_size(Bytes) - 1)],
    ?assertEqual({error, not_a_map}, instrument_map:info([])),
    ?assertEqual({error, not_a_map}, instrument_map:info([<<"ERTSMAP2", 0:1000>>])),
    ?assertEqual({error, {version, 2}},
                 instrument_map:info([<<"ERTSMAP1", 2:16/little, 0:1000>>])).

%% Every reader returns an answer for any damage: each byte of a map is changed to other values,
%% one at a time. The reader either finds no error or says which.
damaged(Config) ->
    Map = map(sample()),
    Bytes = iolist_to_binary(Map),
    Picture = file(Config, "damaged.html"),
    Pictures = fun(S) -> instrument_picture:write(Picture, S) end,
    [begin
         <<Before:N/binary, Byte, After/binary>> = Bytes,
         Bad = [<<Before/binary, (Byte bxor Bits), After/binary>>],
         [case F(Bad) of
              ok -> ok;
              {ok, _} -> ok;
              {error, not_a_map} -> ok;
              {error, truncated} -> ok;
              {error, {version, _}} -> ok;
              {error, {damaged, At}} when At >= 0, At < byte_size(Bytes) -> ok
          end || F <- [Pictures | readers()]]
     end || N <- lists:seq(0, byte_size(Bytes) - 1), Bits <- [1, 16#80, 16#ff]],
    %% Contradictions are found, with their position.
    [?assertEqual({What, {error, {damaged, At}}},
                  {What, instrument_map:carriers(map([section(3, 0, 0, 0, 0, []), S]))})
     || {What, At, S} <-
            [{kind, 128, section(6, 3, ?CARRIER, 4096, ?CARRIER, [free(64)])},
             {too_long, 192 + 16,
              section(1, 3, ?CARRIER, 64, ?CARRIER, [free(128)])},
             {empty_block, 192 + 32,
              section(1, 3, ?CARRIER, 4096, ?CARRIER, [free(64), free(64), free(0)])},
             {first, 128, section(1, 3, ?CARRIER, 4096, ?CARRIER - 8, [free(64)])},
             {past_the_end, 192 + 16,
              section(1, 3, ?CARRIER, 64, ?CARRIER, [free(64), <<-1:32, 0:96>>])},
             {odd, 128, section(3, 0, 0, 64, 0, [free(64)])},
             {block_in_segments, 192, section(5, 0, 0, 64, 0, [loose(8, 8, 1, 0, 0)])},
             {free_loose, 192, section(3, 0, 0, 64, 0, [loose(8, 8, 0, 0, 0)])},
             {rest, 128, <<0:64>>}, {magic, 128, <<0:(64 * 8)>>}]],
    Dicts = [[], #{}, (dict())#{types := []}, (dict())#{code := []},
             (dict())#{registered := foo}, maps:remove(origins, dict())],
    [?assertEqual({D, {error, {damaged, 64}}}, {D, instrument_map:info(map([], D))}) ||
        D <- Dicts].

%% A process with a limit of 4 MiB, including binaries, reads 24 MiB.
bounded_memory(Config) ->
    File = file(Config, "bounded.map"),
    PerSection = 4000,
    Section = section(1, 3, ?CARRIER, 48 * PerSection, ?CARRIER,
                      [block(48, 1 + I rem 3, 0, process(I rem 10, 0)) ||
                          I <- lists:seq(1, PerSection)]),
    Sections = 24 * 1024 * 1024 div byte_size(Section),
    ok = file:write_file(File, map(lists:duplicate(Sections, Section))),
    Self = self(),
    Read = fun() ->
                   {ok, Owners} = instrument_map:owners(pid, {file, File}),
                   {ok, N, _} = instrument_map:fold(fun({section, _}, N) -> N;
                                                       (_, N) -> N + 1
                                                    end, 0, {file, File}),
                   Self ! {read, self(), maps:size(Owners), N}
           end,
    {Pid, Ref} =
        spawn_opt(Read, [monitor,
                         {max_heap_size,
                          #{size => 4 * 1024 * 1024 div erlang:system_info(wordsize),
                            include_shared_binaries => true, kill => true,
                            error_logger => false}}]),
    receive
        {read, Pid, Owners, Blocks} ->
            ?assertEqual({10, Sections * PerSection}, {Owners, Blocks});
        {'DOWN', Ref, process, Pid, Why} ->
            error({read, Why})
    end.

%%--------------------------------------------------------------------------
%% A real map

%% The classic text and the native format of the same runtime system: blocks that do not move in
%% between are equal in both.
live_map(Config) ->
    ok = in_node([], do_live_map, Config).

in_node(Flags, Function, Config) ->
    {ok, Peer, _Node} =
        peer:start_link(#{connection => standard_io,
                          args => ["+Mim", "true" | Flags ++ erts_reload_work:emulator_flags()]}),
    try
        peer:call(Peer, ?MODULE, Function, [?config(priv_dir, Config)], 240000)
    after
        peer:stop(Peer)
    end.

do_live_map(Dir) ->
    [Text, Native, Later] =
        [filename:join(Dir, F) || F <- ["live.txt", "live.map", "later.map"]],
    Count = 3000,
    Self = self(),
    Owner = spawn_link(fun() -> hoard(Self, Count) end),
    register(hoarder, Owner),
    receive {hoarded, Owner} -> ok end,
    true = instrument:store_memory_data(Text),
    {ok, Dict} = instrument:store_memory_map(Native),
    {Header, Stored} = instrument:read_memory_data(Text),
    {ok, {NativeHeader, Blocks}} = instrument_map:memory_data({file, Native}),
    ?assertEqual(Header, NativeHeader),
    Mine = fun(List) ->
                   lists:sort([B || {T, _, _, P} = B <- List,
                                    P =:= pid_parts(Owner),
                                    instrument:type_descr({Header, []}, T) =:= db_term])
           end,
    ?assert(length(Mine(Stored)) >= Count),
    ?assertEqual(Mine(Stored), Mine(Blocks)),
    {ok, #{{hoarder, db_term} := {N, Bytes}}} =
        instrument_map:owners({name, type}, {file, Native}),
    ?assertEqual({length(Mine(Blocks)), lists:sum([S || {_, _, S, _} <- Mine(Blocks)])},
                 {N, Bytes}),
    %% The emulator's own counts, taken while it made the map.
    {ok, Carriers} = instrument_map:carriers({file, Native}),
    Sum = fun(Key) -> lists:sum([maps:get(Key, C) || C <- Carriers]) end,
    [?assertEqual({Key, maps:get(Key, Dict)}, {Key, Sum(Of)}) ||
        {Key, Of} <- [{blocks, live_blocks}, {free_blocks, free_blocks},
                      {free_bytes, free_bytes}, {cached_blocks, cached_blocks},
                      {carriers_bytes, size}]],
    ?assertEqual(maps:get(carriers, Dict), length(Carriers)),
    {ok, Holes} = instrument_map:holes({file, Native}),
    {Segments, InCarriers} = lists:partition(fun({_, _, C}) -> C =:= 0 end, Holes),
    ?assertEqual(maps:get(free_blocks, Dict), length(InCarriers)),
    ?assertEqual({maps:get(segments, Dict), maps:get(segments_bytes, Dict)},
                 {length(Segments), lists:sum([S || {_, S, _} <- Segments])}),
    %% It gives the table to a process that stays alive, and exits.
    Owner ! {give, self()},
    Monitor = monitor(process, Owner),
    receive {'DOWN', Monitor, process, Owner, _} -> ok end,
    {ok, _} = instrument:store_memory_map(Later),
    {ok, Dead} = instrument_map:dead_owners({file, Later}),
    {_, DeadBlocks, _} = lists:keyfind({process, pid_parts(Owner)}, 1, Dead),
    ?assert(DeadBlocks >= Count),
    {ok, #{survivors_by := Survivors}} =
        instrument_map:diff({pid, type}, {file, Native}, {file, Later}),
    {_, N, Bytes} = lists:keyfind({{process, pid_parts(Owner)}, db_term}, 1, Survivors),
    ok.

%% A map says which carriers were in the pool, also if they have many blocks.
pooled(Config) ->
    case kymo_peer:counts_memory() of
        true -> ok = in_node(["+S", "3:3"], do_pooled, Config);
        false -> {skip, "the allocators of this emulator are switched off"}
    end.

do_pooled(Dir) ->
    Self = self(),
    Owners = [spawn_opt(fun() -> sparse_table(Self) end, [link, {scheduler, S}]) || S <- [1, 2, 3]],
    [receive {sparse, Owner} -> ok end || Owner <- Owners],
    InPool = pooled_carriers(),
    File = filename:join(Dir, "pooled.map"),
    {ok, _} = instrument:store_memory_map(File),
    {ok, Carriers} = instrument_map:carriers({file, File}),
    Pooled = [Blocks || #{in_pool := true, allocator := ets_alloc, live_blocks := Blocks} <- Carriers],
    ?assertEqual(InPool, length(Pooled)),
    ?assert(lists:max(Pooled) > 256),
    ok.

%% Most carriers of the table are given up.
sparse_table(Parent) ->
    Table = ets:new(sparse, []),
    [ets:insert(Table, {Key, lists:seq(1, 20)}) || Key <- lists:seq(1, 60000)],
    [ets:delete(Table, Key) || Key <- lists:seq(1, 60000), Key rem 10 =/= 0],
    Parent ! {sparse, self()},
    receive after infinity -> ok end.

pooled_carriers() ->
    lists:sum([proplists:get_value(carriers, Pool)
               || {instance, _, Info} <- erlang:system_info({allocator, ets_alloc}),
                  {mbcs_pool, Pool} <- Info]).

hoard(Parent, Count) ->
    Table = ets:new(hoard, [public]),
    true = ets:insert(Table, [{I, I} || I <- lists:seq(1, Count)]),
    Parent ! {hoarded, self()},
    receive
        {give, Heir} ->
            unlink(Parent),
            true = ets:give_away(Table, Heir, kept)
    end.

%%--------------------------------------------------------------------------
%% Pictures

picture(Config) ->
    %% Registered names may contain any characters.
    Dict = (dict())#{registered := [{'<b>&"\'\n\x{e9}\x{4e2d}', {0, 70, 3}}]},
    Title = "T <i>&amp; \x{e9}\x{4e2d}",
    Map = map(sample(), Dict),
    File = file(Config, "picture.html"),
    ok = instrument_picture:write(File, Map, #{title => Title, by => name}),
    #{<<"title">> := Shown, <<"heading">> := Shown, <<"owners">> := Owners,
      <<"types">> := Types, <<"bars">> := Bars, <<"free">> := Free,
      <<"cached">> := Cached, <<"outside">> := Outside, <<"hidden">> := Hidden,
      <<"others">> := Others} = in_browser(Config, File),
    ?assertEqual(unicode:characters_to_binary(Title), Shown),
    %% The areas: their order, their names, and that they are proportional to the bytes.
    Live = [{<<"no owner, 8737 bytes in 4 blocks">>, 8737},
            {<<"#Port<0.9>, 1000 bytes in 1 blocks">>, 1000},
            {unicode:characters_to_binary(
               io_lib:format("~0tp, 232 bytes in 1 blocks",
                             ['<b>&"\'\n\x{e9}\x{4e2d}'])), 232}],
    Total = 8737 + 1000 + 232,
    ?assertEqual([Name || {Name, _} <- Live], [Name || [Name, _] <- Owners]),
    [?assert(abs(Area / (1200 * 640) - Bytes / Total) < 0.001) ||
        {[_, Area], {_, Bytes}} <- lists:zip(Owners, Live)],
    ?assertMatch([<<"no owner: binary, 8197 bytes in 2 blocks">> | _],
                 [Name || [Name, _] <- Types]),
    ?assert(lists:any(fun([Name, _]) ->
                              Name =:= <<"#Port<0.9>: db_term, 1000 bytes in 1 blocks">>
                      end, Types)),
    %% Nothing lies outside of the picture, and each area is visible.
    ?assertEqual({0, 0}, {Outside, Hidden}),
    %% No name was interpreted as an element or attribute.
    ?assertEqual(0, Others),
    ?assertMatch([<<"eheap_alloc, instance 1, carrier at 16#7f0000000000: 4096 bytes, "
                    "3 live blocks, 2560 bytes free, the largest 2048, 128 cached; "
                    "fragmentation 0.20">>, <<"ets_alloc, ", _/binary>>], Bars),
    %% The position in the bar: [From, To] as fractions.
    near([[(64 + 256) / 4096, (64 + 768) / 4096],
          [(64 + 1984) / 4096, (64 + 1984 + 2048) / 4096]], Free),
    near([[(64 + 768) / 4096, (64 + 896) / 4096]], Cached).

near(Expected, Found) ->
    ?assertEqual(length(Expected), length(Found)),
    [?assert(abs(A - B) < 0.005) ||
        {As, Bs} <- lists:zip(Expected, Found), {A, B} <- lists:zip(As, Bs)].

%% Opens a page in a browser and asks it how it has interpreted the page.
in_browser(Config, File) ->
    Program = browser(),
    {ok, Page} = file:read_file(File),
    ?assertEqual(nomatch, binary:match(Page, [<<"<script">>, <<"href=">>, <<"src=">>,
                                              <<"url(">>])),
    Copy = filename:rootname(File) ++ "_asked.html",
    [Before, After] = binary:split(Page, <<"</body>">>),
    ok = file:write_file(Copy, [Before, "<script>", question(), "</script></body>",
                                After]),
    Args = ["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1400,4000",
            "--user-data-dir=" ++ file(Config, "browser"),
            "--virtual-time-budget=20000", "--dump-dom", "file://" ++ Copy],
    Port = open_port({spawn_executable, Program},
                     [{args, Args}, {env, kymo_browser:environment()}, exit_status, binary, hide]),
    {0, Dom} = output(Port, <<>>),
    {match, [Answer]} = re:run(Dom, "<pre id=\"answer\">([A-Za-z0-9+/=]*)</pre>",
                               [{capture, all_but_first, binary}]),
    {Result, ok, <<>>} = json:decode(base64:decode(Answer), ok, #{}),
    Result.

browser() ->
    Found = [os:find_executable(Name) ||
                Name <- ["chromium-headless-shell", "chromium", "chromium-browser",
                         "google-chrome"]],
    case [Path || Path <- Found, Path =/= false] of
        [Path | _] -> Path;
        [] -> throw({skip, "Chromium is absent, so nothing has shown the picture"})
    end.

output(Port, Acc) ->
    receive
        {Port, {data, Data}} -> output(Port, <<Acc/binary, Data/binary>>);
        {Port, {exit_status, Status}} -> {Status, Acc}
    end.

question() ->
    "const all = (s) => Array.from(document.querySelectorAll(s));"
    "const name = (e) => e.querySelector('title').textContent;"
    "const box = (e) => e.getBoundingClientRect();"
    "const tree = box(document.getElementById('treemap'));"
    "const area = (e) => { const b = box(e); return [name(e), b.width * b.height]; };"
    "const rects = all('#treemap rect');"
    "const out = (e) => { const b = box(e); return b.left < tree.left - 0.1 ||"
    "  b.top < tree.top - 0.1 || b.right > tree.right + 0.1 ||"
    "  b.bottom > tree.bottom + 0.1; };"
    %% The pointer must hit the heading of an owner, or a corner of a type, at its position.
    "const hidden = (e) => { const b = box(e);"
    "  return document.elementFromPoint(b.left + b.width / 2,"
    "    b.top + Math.min(5, b.height / 2)) !== e; };"
    "const bars = all('#carriers rect.carrier').map(box);"
    "const part = (e) => { const b = box(e);"
    "  const of = bars.find((c) => Math.abs(c.top - b.top) < 1);"
    "  return [(b.left - of.left) / of.width, (b.right - of.left) / of.width]; };"
    %% Neighbours with different shades are joined into one range.
    "const join = (l) => l.reduce((acc, x) => {"
    "  const last = acc[acc.length - 1];"
    "  if (last && Math.abs(last[1] - x[0]) < 0.0001) { last[1] = x[1]; }"
    "  else { acc.push(x); } return acc; }, []);"
    "const known = ['HTML', 'HEAD', 'META', 'TITLE', 'STYLE', 'BODY', 'H1', 'H2', 'P',"
    "  'SCRIPT', 'svg', 'g', 'rect', 'text', 'title'];"
    "const answer = { title: document.title,"
    "  heading: document.querySelector('h1').textContent,"
    "  owners: all('#treemap rect.owner').map(area),"
    "  types: all('#treemap rect.type').map(area),"
    "  bars: all('#carriers rect.carrier').map(name),"
    "  free: join(all('#carriers rect.free').map(part)),"
    "  cached: join(all('#carriers rect.cached').map(part)),"
    "  outside: rects.filter(out).length,"
    "  hidden: rects.filter(hidden).length,"
    "  others: all('*').filter((e) => !known.includes(e.tagName)).length };"
    "const bytes = new TextEncoder().encode(JSON.stringify(answer));"
    "const pre = document.createElement('pre');"
    "pre.id = 'answer';"
    "pre.textContent = btoa(String.fromCharCode(...bytes));"
    "document.body.appendChild(pre);".

%% Maps without blocks, without carriers, and with more owners than are shown.
picture_of_nothing(Config) ->
    File = file(Config, "nothing.html"),
    ok = instrument_picture:write(File, map([])),
    ?assertMatch(#{<<"owners">> := [], <<"bars">> := [], <<"others">> := 0},
                 in_browser(Config, File)),
    Many = map([section(1, 3, ?CARRIER, 16#100000, ?CARRIER,
                        [block(8 * I + 32, 1, 0, process(I, 0)) ||
                            I <- lists:seq(1, 200)])]),
    ok = instrument_picture:write(File, Many, #{owners => 7, carriers => 0,
                                         by => {pid, class}}),
    #{<<"owners">> := Owners, <<"bars">> := [], <<"outside">> := 0} =
        in_browser(Config, File),
    ?assertEqual(8, length(Owners)),
    ?assertMatch([[<<"<0.200.0>, process_data, ", _/binary>>, _] | _], Owners),
    [Last, _] = lists:last(Owners),
    ?assertMatch(<<"193 others, ", _/binary>>, Last).

picture_errors(Config) ->
    File = file(Config, "errors.html"),
    Map = map(sample()),
    P = instrument_picture,
    ?assertEqual({error, enoent}, P:write(File, {file, "no such file"})),
    ?assertEqual({error, truncated}, P:write(File, [<<"ERTSMAP1", 1:16/little, 0:64>>])),
    ?assertEqual({error, enoent}, file:read_file_info(File)),
    ?assertEqual({error, enoent}, P:write(File ++ "/no/such", Map)),
    [badarg(P, 2, fun() -> P:write(File, Bad) end) || Bad <- [foo, [foo]]],
    [badarg(P, 3, fun() -> P:write(File, Map, Bad) end) ||
        Bad <- [[], #{by => foo}, #{owners => 0}, #{owners => 1001},
                #{carriers => -1}, #{title => foo}, #{title => [16#d800]}, #{foo => 1}]],
    badarg(P, 1, fun() -> P:write({}, Map) end),
    ?assertEqual({error, enoent}, file:read_file_info(File)).

%%--------------------------------------------------------------------------

file(Config, Name) ->
    filename:join(?config(priv_dir, Config), Name).

write_terms(File, Terms) ->
    file:write_file(File, [io_lib:format("~0p.~n", [Term]) || Term <- Terms]).
