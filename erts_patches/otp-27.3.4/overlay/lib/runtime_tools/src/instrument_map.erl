%%
%% %CopyrightBegin%
%%
%% SPDX-License-Identifier: Apache-2.0
%%
%% Licensed under the Apache License, Version 2.0 (the "License");
%% you may not use this file except in compliance with the License.
%% You may obtain a copy of the License at
%%
%%     http://www.apache.org/licenses/LICENSE-2.0
%%
%% Unless required by applicable law or agreed to in writing, software
%% distributed under the License is distributed on an "AS IS" BASIS,
%% WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
%% See the License for the specific language governing permissions and
%% limitations under the License.
%%
%% %CopyrightEnd%
%%
-module(instrument_map).
-moduledoc """
Reads memory maps: who owns the memory, and what it looks like inside.

The maps are those of `instrument:store_memory_map/1` (a file) or
`instrument:memory_map_read/1` (a list of binaries, in order). Any emulator can
read them, not only the one that has made them.

Files are read once from beginning to end, 256 KiB at a time. The memory that a
function needs does not grow with the number of blocks, unless its description
states otherwise.

Every function returns `{error, Reason}` for a map that it cannot read:

- **`not_a_map`** - it does not begin like a map.
- **`{version, V}`** - it has a version that this module does not know.
- **`truncated`** - it has no end, like a map that is still being written.
- **`{damaged, Offset}`** - it is inconsistent at this offset.
- **a `t:file:posix/0`** - the file cannot be read.

A dictionary holds atoms: the names of types, modules, functions and registered
processes of the emulator that made the map. Reading it creates those that are
missing, so read only maps that you trust.

## Format of a map

All integers are little-endian. A header of 64 bytes: `ERTSMAP1`; 16 bits each for
the version (1), the size of this header, of the header of a section (64), of a
record (16), and of a unit (8); the offset of the data in a block, the overhead of a
block, the size of a word; 64 bits for the time at which the scan began, in
microseconds.

Then sections, each with a header of 64 bytes: `EMAP`; 16 bits for the kind (1 and
2: carrier of many blocks or of one; 3: blocks from malloc; 4: machine code; 5:
memory that mseg keeps for the next carrier, free), 16 bits of flags (1 first and 2
last part of its carrier, 4 in the migration pool, 8 from mseg, 16 main carrier, 32
given up while it was read); 32 bits for the number of records; 16 bits each for the number of the allocator and of its instance; 64
bits each for address and size of the carrier and the address of the first block;
16 bits each for the allocator and instance that created the carrier; zeros.

A record of kinds 1 and 2 is a block: 32 bits for its size in units (all ones: up
to the end of the carrier), 16 bits for its type (0 free, 16#fffe cached, 16#ffff
without a tag), 16 bits for the NIF or driver, 64 bits for its owner. Each block
begins where the one before ends. In kinds 3 to 5 a block takes two records:
address and size of its data, 64 bits each; 32 bits of zeros, then type, NIF or
driver, and owner as above.

The upper 4 bits of an owner determine what the other 60 are: 1 the number (28 bits)
and serial (32 bits) of a process, 2 the number of a port, 3 an address in code, 4
the number of a module. The owner is 0 if there is none.

The last section is of kind 16#ffff; its size is that of the dictionary that
follows, a map in the external term format. The last 16 bytes are its offset
and `ERTSMAPE`.
""".

-export([info/1, fold/3, owner/2, type/2, memory_data/1,
         carriers/1, holes/1, owners/2, top/3,
         diff/3, growth/2, dead_owners/1, dead_owners/2]).

-export_type([source/0, item/0, section/0, owner_key/0, owner/0, dictionary/0,
              by/0, reason/0, count/0, carrier/0]).

-include("instrument.hrl").

%% Raises badarg for the argument that an inner function has found to be wrong.
-define(CHECKED(Args, Expr),
        case Expr of
            {bad, Bad, Why} -> ?BADARG(Args, #{position(Bad, Args) => Why});
            Good -> Good
        end).

-define(CHUNK, (256 * 1024)).
-define(SECTION_SIZE, 64).
-define(RECORD_SIZE, 16).
-define(TAIL_SIZE, 16).
-define(UNIT, 8).

-define(KIND_MBC, 1).
-define(KIND_SBC, 2).
-define(KIND_LOOSE, 3).
-define(KIND_SEGMENTS, 5).
-define(KIND_DICTIONARY, 16#ffff).

-define(FLG_FIRST, 1).
-define(FLG_LAST, 2).
-define(FLG_POOL, 4).
-define(FLG_MSEG, 8).
-define(FLG_MAIN, 16).
-define(FLG_GONE, 32).

-define(UNITS_TO_END, 16#ffffffff).
-define(TYPE_FREE, 0).
-define(TYPE_CODE, 16#fffd).
-define(TYPE_CACHED, 16#fffe).
-define(TYPE_UNTAGGED, 16#ffff).

-define(OWNER_NONE, 0).
-define(OWNER_PID, 1).
-define(OWNER_PORT, 2).
-define(OWNER_CODE, 3).
-define(OWNER_MODULE, 4).

%% Blocks of the first map that diff/3 has in memory at a time.
-define(DIFF_BLOCKS, 500000).

-doc "A stored map, or all binaries that `instrument:memory_map_read/1` has returned.".
-type source() :: {file, file:name_all()} | [binary()].

-type reason() :: not_a_map | {version, non_neg_integer()} | truncated
                | {damaged, Offset :: non_neg_integer()}
                | file:posix() | badarg | terminated.

-doc "See `instrument:store_memory_map/1`. Has at least the keys below.".
-type dictionary() :: #{types := tuple(), allocators := tuple(),
                        origins := tuple(), modules := tuple(),
                        code := #{non_neg_integer() => mfa()},
                        registered := [{atom(), tuple()}],
                        atom() => term()}.

-doc """
A section of the map: a carrier or the next part of one (`multi`, `single`), or
memory that is in none (`loose`, `code`, `segments`).
""".
-type section() ::
    #{kind := multi | single | loose | code | segments,
      address := non_neg_integer(),
      size := non_neg_integer(),
      allocator := non_neg_integer(),
      instance := non_neg_integer(),
      creator := {Allocator :: non_neg_integer(),
                  Instance :: non_neg_integer()},
      first := boolean(), last := boolean(), in_pool := boolean(),
      mseg := boolean(), main := boolean(), gone := boolean()}.

-doc "An owner as a number, to be compared with others of the same map.".
-type owner_key() :: non_neg_integer().

-doc """
What `fold/3` calls its fun with. Address and size of a `block` are those of its
data; of a `free` or `cached` one, those of the whole block. A cached block has been
freed and is kept for the next allocation. Types and origins are numbers, see
`type/2` and the dictionary's `origins`.
""".
-type item() ::
    {section, section()} |
    {block, Address :: non_neg_integer(), Size :: non_neg_integer(),
     Type :: pos_integer(), Origin :: non_neg_integer(), owner_key()} |
    {free | cached, Address :: non_neg_integer(), Size :: non_neg_integer()}.

-type owner() :: none
               | {process, {0, non_neg_integer(), non_neg_integer()}}
               | {port, non_neg_integer()}
               | mfa()
               | {code, Address :: non_neg_integer()}
               | {module, module() | non_neg_integer()}.

-doc """
What to group blocks by:

- **`owner`** - process, port, function or module, whatever there is.
- **`pid`** - process or port; `none` for blocks of code.
- **`name`** - registered name, otherwise as `pid`.
- **`mfa`** - function (with `+M<S>atags code`) or module; `none` for blocks of
  processes and ports.
- **`origin`** - NIF or driver; `none` for blocks of the emulator itself.
- **`type`**, **`class`**, **`allocator`** - those of the block's type.
- **`{A, B}`** - both.
""".
-type by() :: owner | pid | name | mfa | origin | type | class | allocator
            | {by(), by()}.

-type count() :: {Blocks :: non_neg_integer(), Bytes :: non_neg_integer()}.

-doc """
A carrier. The bytes of live blocks are those of their data; free and cached ones
are whole. `fragmentation` is the part of the free bytes that is not in the largest
free block: 0.0 if all of it is in one.
""".
-type carrier() ::
    #{address := non_neg_integer(), size := non_neg_integer(),
      kind := multi | single,
      allocator := atom() | {allocator, non_neg_integer()},
      instance := non_neg_integer(),
      in_pool := boolean(), mseg := boolean(), main := boolean(),
      gone := boolean(),
      live_blocks := non_neg_integer(), live_bytes := non_neg_integer(),
      cached_blocks := non_neg_integer(), cached_bytes := non_neg_integer(),
      free_blocks := non_neg_integer(), free_bytes := non_neg_integer(),
      largest_free := non_neg_integer(), fragmentation := float()}.

%% Where the stream is read: the bytes up to the dictionary, those in the buffer
%% included, are `left`.
-record(in, {from :: file:io_device() | [binary()],
             left :: integer(),
             stop :: non_neg_integer(),
             offset :: non_neg_integer(),
             header :: non_neg_integer()}).

%%--------------------------------------------------------------------------
%% Reading

-doc "Returns the dictionary of a map. Only the end of a file is read.".
-doc(#{since => <<"OTP 27.3.4">>}).
-spec info(Source) -> {ok, dictionary()} | {error, reason()} when
    Source :: source().
info(Source) ->
    ?CHECKED([Source], with_map(Source, fun(_In, Dict) -> {ok, Dict} end)).

-doc """
Calls `Fun(Item, Acc)` for each item of a map, in its order, and returns the last
`Acc` with the dictionary.

A section comes before the blocks in it. The parts of a carrier come in order, but
there may be other sections between them.
""".
-doc(#{since => <<"OTP 27.3.4">>}).
-spec fold(Fun, Acc0, Source) -> {ok, Acc1, dictionary()} | {error, reason()} when
    Fun :: fun((item(), AccIn) -> AccOut),
    Acc0 :: Acc, Acc1 :: Acc, AccIn :: Acc, AccOut :: Acc, Acc :: term(),
    Source :: source().
fold(Fun, Acc, Source) when is_function(Fun, 2) ->
    ?CHECKED([Fun, Acc, Source],
             fold_dict(fun(_Dict) -> {Fun, Acc} end, Source));
fold(Fun, Acc, Source) ->
    ?BADARG([Fun, Acc, Source], #{1 => "not a fun of two arguments"}).

%% As fold/3 with a fun that depends on the dictionary.
fold_dict(Init, Source) ->
    with_map(Source,
             fun(In, Dict) ->
                     {Fun, Acc0} = Init(Dict),
                     case sections(<<>>, In, Fun, Acc0) of
                         {ok, Acc} -> {ok, Acc, Dict};
                         Error -> Error
                     end
             end).

with_map({file, Name} = Source, Fun) ->
    try file:open(Name, [read, raw, binary]) of
        {ok, Fd} ->
            try
                with_dictionary(Fd, Fun)
            after
                ok = file:close(Fd)
            end;
        {error, badarg} ->
            bad_source(Source);
        Error ->
            Error
    catch
        error:badarg -> bad_source(Source)
    end;
with_map(Source, Fun) when is_list(Source) ->
    case is_binaries(Source) of
        true -> with_dictionary(Source, Fun);
        false -> bad_source(Source)
    end;
with_map(Source, _Fun) ->
    bad_source(Source).

is_binaries([Bin | Rest]) -> is_binary(Bin) andalso is_binaries(Rest);
is_binaries(Rest) -> Rest =:= [].

bad_source(Source) ->
    {bad, Source, "neither {file, Name} nor a list of binaries"}.

position(Arg, [Arg | _]) -> 1;
position(Arg, [_ | Args]) -> 1 + position(Arg, Args).

with_dictionary(From, Fun) ->
    maybe
        {ok, Size} ?= total_size(From),
        {ok, Header} ?= part(From, 0, min(Size, 64)),
        {ok, HeaderSize, Offset, Overhead} ?= check_header(Header),
        {ok, Tail} ?= part(From, max(0, Size - ?TAIL_SIZE), ?TAIL_SIZE),
        {ok, At} ?= check_tail(Tail, HeaderSize, Size),
        {ok, Section} ?= part(From, At, ?SECTION_SIZE),
        {ok, Length} ?= check_dictionary(Section, At, Size - ?TAIL_SIZE),
        {ok, Bytes} ?= part(From, At + ?SECTION_SIZE, Length),
        {ok, Dict} ?= read_dictionary(Bytes, At),
        {ok, Begin} ?= start(From, HeaderSize),
        Fun(#in{from = Begin, left = At - HeaderSize, stop = At,
                offset = Offset, header = Overhead},
            Dict)
    end.

total_size(From) when is_list(From) -> {ok, iolist_size(From)};
total_size(Fd) -> file:position(Fd, eof).

part(From, At, Size) when is_list(From) ->
    {Bytes, _} = take(drop(From, At), Size, []),
    {ok, Bytes};
part(Fd, At, Size) ->
    case file:pread(Fd, At, Size) of
        {ok, Bytes} -> {ok, Bytes};
        eof -> {ok, <<>>};
        Error -> Error
    end.

start(From, At) when is_list(From) ->
    {ok, drop(From, At)};
start(Fd, At) ->
    maybe
        {ok, _} ?= file:position(Fd, At),
        {ok, Fd}
    end.

drop([Bin | Rest], N) when N >= byte_size(Bin) -> drop(Rest, N - byte_size(Bin));
drop([Bin | Rest], N) -> [binary:part(Bin, N, byte_size(Bin) - N) | Rest];
drop([], _) -> [].

take([Bin | Rest], N, Acc) when N >= byte_size(Bin) ->
    take(Rest, N - byte_size(Bin), [Acc, Bin]);
take([Bin | Rest], N, Acc) ->
    {iolist_to_binary([Acc, binary:part(Bin, 0, N)]),
     [binary:part(Bin, N, byte_size(Bin) - N) | Rest]};
take([], _, Acc) ->
    {iolist_to_binary(Acc), []}.

check_header(<<"ERTSMAP1", 1:16/little, HeaderSize:16/little,
               ?SECTION_SIZE:16/little, ?RECORD_SIZE:16/little,
               ?UNIT:16/little, Offset:16/little, Overhead:16/little,
               _/binary>>) when HeaderSize >= 64 ->
    {ok, HeaderSize, Offset, Overhead};
check_header(<<"ERTSMAP1", 1:16/little, _:(54 * 8)>>) ->
    {error, {damaged, 10}};
check_header(<<"ERTSMAP1", Version:16/little, _/binary>>) when Version =/= 1 ->
    {error, {version, Version}};
check_header(<<"ERTSMAP1", _/binary>>) ->
    {error, truncated};
check_header(_) ->
    {error, not_a_map}.

check_tail(<<At:64/little, "ERTSMAPE">>, HeaderSize, Size) ->
    if
        At >= HeaderSize, At + ?SECTION_SIZE + ?TAIL_SIZE =< Size ->
            {ok, At};
        true ->
            {error, {damaged, Size - ?TAIL_SIZE}}
    end;
check_tail(_, _, _) ->
    {error, truncated}.

check_dictionary(<<"EMAP", ?KIND_DICTIONARY:16/little, _:16, 0:32, _:64, _:32,
                   Size:64/little, _:(32 * 8)>>, At, End)
  when At + ?SECTION_SIZE + Size =:= End ->
    {ok, Size};
check_dictionary(_, At, _End) ->
    {error, {damaged, At}}.

%% None is compressed, so a few damaged bytes cannot become a huge term.
read_dictionary(<<131, Tag, _/binary>> = Bytes, At) when Tag =/= $P ->
    try binary_to_term(Bytes) of
        #{types := Types, allocators := Allocators, origins := Origins,
          modules := Modules, code := Code, registered := Registered} = Dict
          when is_tuple(Types), is_tuple(Allocators), is_tuple(Origins),
               is_tuple(Modules), is_map(Code), length(Registered) >= 0 ->
            {ok, Dict};
        _ ->
            {error, {damaged, At}}
    catch
        error:badarg -> {error, {damaged, At}}
    end;
read_dictionary(_, At) ->
    {error, {damaged, At}}.

more(Buf, #in{from = From, left = Left} = In) ->
    case fetch(From, min(?CHUNK, Left - byte_size(Buf))) of
        {ok, Bytes, From1} -> {ok, <<Buf/binary, Bytes/binary>>, In#in{from = From1}};
        Error -> Error
    end.

fetch([Bin | Rest], N) when byte_size(Bin) =< N ->
    {ok, Bin, Rest};
fetch([Bin | Rest], N) when N > 0 ->
    <<Bytes:N/binary, Later/binary>> = Bin,
    {ok, Bytes, [Later | Rest]};
fetch(Fd, N) when N > 0, not is_list(Fd) ->
    case file:read(Fd, N) of
        {ok, Bytes} -> {ok, Bytes, Fd};
        %% The file has become shorter since its size was read.
        eof -> {error, truncated};
        Error -> Error
    end.

damaged(#in{left = Left, stop = Stop}) ->
    {error, {damaged, Stop - Left}}.

sections(_, #in{left = 0}, _Fun, Acc) ->
    {ok, Acc};
sections(<<"EMAP", Kind:16/little, Flags:16/little, Count:32/little,
           Allocator:16/little, Instance:16/little,
           Carrier:64/little, Size:64/little, First:64/little,
           Creator:16/little, CreatorInstance:16/little, _:20/binary,
           Rest/binary>>, #in{left = Left0} = In0, Fun, Acc0) ->
    Left = Left0 - ?SECTION_SIZE,
    In = In0#in{left = Left},
    if
        Count * ?RECORD_SIZE > Left ->
            damaged(In0);
        Kind =:= ?KIND_MBC, First >= Carrier; Kind =:= ?KIND_SBC, First >= Carrier ->
            Acc = Fun({section,
                       section(Kind, Flags, Carrier, Size, Allocator, Instance,
                               {Creator, CreatorInstance})}, Acc0),
            blocks(Count, First, Rest, Carrier + Size, In, Fun, Acc);
        (Kind >= ?KIND_LOOSE andalso Kind =< ?KIND_SEGMENTS),
        Count rem 2 =:= 0 ->
            Acc = Fun({section,
                       section(Kind, Flags, Carrier, Size, Allocator, Instance,
                               {Creator, CreatorInstance})}, Acc0),
            loose(Kind, Count div 2, Rest, In, Fun, Acc);
        true ->
            damaged(In0)
    end;
sections(Buf, #in{left = Left} = In, Fun, Acc)
  when byte_size(Buf) < ?SECTION_SIZE, Left >= ?SECTION_SIZE ->
    case more(Buf, In) of
        {ok, Buf1, In1} -> sections(Buf1, In1, Fun, Acc);
        Error -> Error
    end;
sections(_, In, _Fun, _Acc) ->
    damaged(In).

section(Kind, Flags, Carrier, Size, Allocator, Instance, Creator) ->
    #{kind => element(Kind, {multi, single, loose, code, segments}),
      address => Carrier, size => Size,
      allocator => Allocator, instance => Instance, creator => Creator,
      first => Flags band ?FLG_FIRST =/= 0,
      last => Flags band ?FLG_LAST =/= 0,
      in_pool => Flags band ?FLG_POOL =/= 0,
      mseg => Flags band ?FLG_MSEG =/= 0,
      main => Flags band ?FLG_MAIN =/= 0,
      gone => Flags band ?FLG_GONE =/= 0}.

%% The position is known from the buffer. #in{} is updated only at the end of the
%% buffer or of the section.
blocks(Count, Addr, Buf, End, #in{left = Left} = In, Fun, Acc) ->
    N = min(Count, byte_size(Buf) div ?RECORD_SIZE),
    case records(N, Addr, Buf, End, In#in.offset, In#in.header, Fun, Acc) of
        {Addr1, Rest, Acc1} ->
            In1 = In#in{left = Left - N * ?RECORD_SIZE},
            if
                Addr1 > End ->
                    damaged(In1);
                N =:= Count ->
                    sections(Rest, In1, Fun, Acc1);
                true ->
                    case more(Rest, In1) of
                        {ok, Buf1, In2} ->
                            blocks(Count - N, Addr1, Buf1, End, In2, Fun, Acc1);
                        Error ->
                            Error
                    end
            end;
        {bad, Before} ->
            damaged(In#in{left = Left - (N - Before) * ?RECORD_SIZE})
    end.

records(N, Addr,
        <<Units:32/little, Type:16/little, Origin:16/little,
          Low:56/little, Top, Rest/binary>>,
        End, Offset, Header, Fun, Acc) when N > 0 ->
    case Units of
        ?UNITS_TO_END ->
            Size = End - Addr;
        _ ->
            Size = Units * ?UNIT
    end,
    if
        Size =< 0 ->
            {bad, N};
        Type =:= ?TYPE_FREE ->
            records(N - 1, Addr + Size, Rest, End, Offset, Header, Fun,
                    Fun({free, Addr, Size}, Acc));
        Type =:= ?TYPE_CACHED ->
            records(N - 1, Addr + Size, Rest, End, Offset, Header, Fun,
                    Fun({cached, Addr, Size}, Acc));
        true ->
            Block = {block, Addr + Offset, max(0, Size - Header), Type, Origin,
                     owner_key(Low, Top)},
            records(N - 1, Addr + Size, Rest, End, Offset, Header, Fun,
                    Fun(Block, Acc))
    end;
records(_, Addr, Buf, _End, _Offset, _Header, _Fun, Acc) ->
    {Addr, Buf, Acc}.

loose(_Kind, 0, Buf, In, Fun, Acc) ->
    sections(Buf, In, Fun, Acc);
loose(Kind, Count, <<Addr:64/little, Size:64/little, _:32, Type:16/little,
                     Origin:16/little, Low:56/little, Top, Rest/binary>>,
      #in{left = Left} = In, Fun, Acc)
  when Kind =/= ?KIND_SEGMENTS, Type =/= ?TYPE_FREE, Type =/= ?TYPE_CACHED ->
    Block = {block, Addr, Size, Type, Origin, owner_key(Low, Top)},
    loose(Kind, Count - 1, Rest, In#in{left = Left - 2 * ?RECORD_SIZE}, Fun,
          Fun(Block, Acc));
loose(?KIND_SEGMENTS, Count,
      <<Addr:64/little, Size:64/little, _:32, ?TYPE_FREE:16, _:80, Rest/binary>>,
      #in{left = Left} = In, Fun, Acc) ->
    loose(?KIND_SEGMENTS, Count - 1, Rest,
          In#in{left = Left - 2 * ?RECORD_SIZE}, Fun,
          Fun({free, Addr, Size}, Acc));
loose(Kind, Count, Buf, In, Fun, Acc) when byte_size(Buf) < 2 * ?RECORD_SIZE ->
    case more(Buf, In) of
        {ok, Buf1, In1} -> loose(Kind, Count, Buf1, In1, Fun, Acc);
        Error -> Error
    end;
loose(_Kind, _Count, _Buf, In, _Fun, _Acc) ->
    damaged(In).

%% The kind comes last, so that almost all of them are small integers.
owner_key(Low, Top) when Top band 15 =:= 0 ->
    (Low bsl 4) bor (Top bsr 4);
owner_key(Low, Top) ->
    ((((Top band 15) bsl 56) bor Low) bsl 4) bor (Top bsr 4).

-doc "Returns the owner for a number that `fold/3` has passed.".
-doc(#{since => <<"OTP 27.3.4">>}).
-spec owner(Key, Dict) -> owner() when
    Key :: owner_key(),
    Dict :: dictionary().
owner(Key, #{code := Code, modules := Modules})
  when is_integer(Key), Key >= 0, is_map(Code), is_tuple(Modules) ->
    Value = Key bsr 4,
    case Key band 15 of
        ?OWNER_PID ->
            {process, {0, Value band 16#fffffff, Value bsr 28}};
        ?OWNER_PORT ->
            {port, Value};
        ?OWNER_CODE ->
            maps:get(Value, Code, {code, Value});
        ?OWNER_MODULE ->
            {module, nth(Value, Modules, Value)};
        _ ->
            none
    end;
owner(Key, Dict) ->
    ?BADARG([Key, Dict], #{}).

-doc """
Returns the description of a type number. `machine_code` is code that the JIT has made
from modules. Blocks without a tag, which are older than the tags, are `untagged`. A
number that is not in the dictionary is returned in a tuple.
""".
-doc(#{since => <<"OTP 27.3.4">>}).
-spec type(TypeNo, Dict) -> {Type, Allocator, Class} when
    TypeNo :: non_neg_integer(),
    Dict :: dictionary(),
    Type :: atom() | {type, non_neg_integer()},
    Allocator :: atom(),
    Class :: atom().
type(?TYPE_CODE, _Dict) ->
    {machine_code, machine_code, code_data};
type(?TYPE_UNTAGGED, _Dict) ->
    {untagged, untagged, untagged};
type(TypeNo, #{types := Types})
  when is_integer(TypeNo), TypeNo >= 0, is_tuple(Types) ->
    case nth(TypeNo, Types, undefined) of
        {_, _, _} = Type -> Type;
        _ -> {{type, TypeNo}, unknown, unknown}
    end;
type(TypeNo, Dict) ->
    ?BADARG([TypeNo, Dict], #{}).

nth(N, Tuple, _Default) when N >= 1, N =< tuple_size(Tuple) -> element(N, Tuple);
nth(_, _Tuple, Default) -> Default.

-doc """
Converts a map to what `instrument:memory_data/0` returns: the live blocks, without
machine code. There is no limit: the list takes about 90 bytes for each block.
""".
-doc(#{since => <<"OTP 27.3.4">>}).
-spec memory_data(Source) -> {ok, MemoryData} | {error, reason()} when
    Source :: source(),
    MemoryData :: {{instr_hdr, 2, non_neg_integer(), tuple()}, [tuple()]}.
memory_data(Source) ->
    ?CHECKED([Source], memory_data_1(Source)).

memory_data_1(Source) ->
    with_map(Source,
             fun(In, #{types := Types}) ->
                     case sections(<<>>, In, fun classic/2, []) of
                         {ok, Blocks} ->
                             {ok, {{instr_hdr, 2, In#in.header, Types}, Blocks}};
                         Error ->
                             Error
                     end
             end).

classic({block, _, _, ?TYPE_CODE, _, _}, Acc) ->
    Acc;
classic({block, Addr, Size, Type, _, Owner}, Acc) ->
    TypeNo = case Type of
                 ?TYPE_UNTAGGED -> 0;
                 _ -> Type
             end,
    Process = case Owner band 15 of
                  ?OWNER_PID ->
                      {0, (Owner bsr 4) band 16#fffffff, Owner bsr 32};
                  _ ->
                      undefined
              end,
    [{TypeNo, Addr, Size, Process} | Acc];
classic(_, Acc) ->
    Acc.

%%--------------------------------------------------------------------------
%% Carriers

-record(c, {section :: section() | undefined,
            live = 0, live_bytes = 0, cached = 0, cached_bytes = 0,
            free = 0, free_bytes = 0, largest = 0}).

-doc """
Returns all carriers with their contents, those with the most free bytes first. Needs
about 40 words for each carrier.
""".
-doc(#{since => <<"OTP 27.3.4">>}).
-spec carriers(Source) -> {ok, [carrier()]} | {error, reason()} when
    Source :: source().
carriers(Source) ->
    ?CHECKED([Source], carriers_1(Source)).

carriers_1(Source) ->
    case fold_dict(fun(_) -> {fun carrier_item/2, {#c{}, #{}, []}} end, Source) of
        {ok, {Last, Open, Done}, Dict} ->
            {Open1, Done1} = put_carrier(Last, Open, Done),
            All = Done1 ++ maps:values(Open1),
            Carriers = [carrier(C, Dict) || C <- All],
            {ok, lists:sort(fun(#{free_bytes := A, address := X},
                                #{free_bytes := B, address := Y}) ->
                                    {-A, X} =< {-B, Y}
                            end, Carriers)};
        Error ->
            Error
    end.

carrier_item({block, _, Size, _, _, _},
             {#c{live = N, live_bytes = Bytes} = C, Open, Done}) ->
    {C#c{live = N + 1, live_bytes = Bytes + Size}, Open, Done};
carrier_item({free, _, Size},
             {#c{free = N, free_bytes = Bytes, largest = L} = C, Open, Done}) ->
    {C#c{free = N + 1, free_bytes = Bytes + Size, largest = max(L, Size)},
     Open, Done};
carrier_item({cached, _, Size},
             {#c{cached = N, cached_bytes = Bytes} = C, Open, Done}) ->
    {C#c{cached = N + 1, cached_bytes = Bytes + Size}, Open, Done};
carrier_item({section, #{address := Addr, first := First} = Section},
             {Before, Open0, Done0}) ->
    {Open, Done} = put_carrier(Before, Open0, Done0),
    case Open of
        #{Addr := C} when not First ->
            %% It may be in another state than when its previous part was read.
            {C#c{section = Section}, maps:remove(Addr, Open), Done};
        #{Addr := C} ->
            %% The earlier carrier at this address has ended.
            {#c{section = Section}, maps:remove(Addr, Open), [C | Done]};
        #{} ->
            {#c{section = Section}, Open, Done}
    end.


put_carrier(#c{section = #{kind := Kind, address := Addr, last := Last}} = C,
            Open, Done) when Kind =:= multi; Kind =:= single ->
    case Last of
        true -> {Open, [C | Done]};
        false -> {Open#{Addr => C}, Done}
    end;
put_carrier(_, Open, Done) ->
    {Open, Done}.

carrier(#c{section = Section, free_bytes = Free, largest = Largest} = C, Dict) ->
    #{allocator := Allocator} = Section,
    (maps:with([address, size, kind, instance, in_pool, mseg, main, gone],
               Section))#{
        allocator => allocator(Allocator, Dict),
        live_blocks => C#c.live, live_bytes => C#c.live_bytes,
        cached_blocks => C#c.cached, cached_bytes => C#c.cached_bytes,
        free_blocks => C#c.free, free_bytes => Free,
        largest_free => Largest,
        fragmentation => case Free of
                             0 -> 0.0;
                             _ -> (Free - Largest) / Free
                         end}.

allocator(N, #{allocators := Allocators}) ->
    nth(N, Allocators, {allocator, N}).

-doc """
Returns the free blocks of all carriers, their headers included, and the segments
that are kept for the next carrier, in the order of the map. `Carrier` is the address
of the carrier, 0 for segments. The whole result is in memory.
""".
-doc(#{since => <<"OTP 27.3.4">>}).
-spec holes(Source) -> {ok, [{Address, Size, Carrier}]} | {error, reason()} when
    Source :: source(),
    Address :: non_neg_integer(),
    Size :: pos_integer(),
    Carrier :: non_neg_integer().
holes(Source) ->
    ?CHECKED([Source], holes_1(Source)).

holes_1(Source) ->
    Fun = fun({free, Addr, Size}, {Carrier, Acc}) ->
                  {Carrier, [{Addr, Size, Carrier} | Acc]};
             ({section, #{address := Carrier}}, {_, Acc}) ->
                  {Carrier, Acc};
             (_, Acc) ->
                  Acc
          end,
    case fold_dict(fun(_) -> {Fun, {0, []}} end, Source) of
        {ok, {_, Holes}, _Dict} -> {ok, lists:reverse(Holes)};
        Error -> Error
    end.

%%--------------------------------------------------------------------------
%% Owners

-doc """
Returns how many live blocks each owner has and how many bytes are in them. Needs a few
words for each owner.
""".
-doc(#{since => <<"OTP 27.3.4">>}).
-spec owners(By, Source) -> {ok, #{Owner => count()}} | {error, reason()} when
    By :: by(),
    Source :: source(),
    Owner :: term().
owners(By, Source) ->
    ?CHECKED([By, Source], owners_1(By, Source)).

owners_1(By, Source) ->
    case is_by(By) of
        true -> owners_2(By, Source);
        false -> {bad, By, "not a thing to group blocks by"}
    end.

owners_2(By, Source) ->
    Key = key_fun(By),
    Fun = fun({block, _, Size, _, _, _} = Block, Acc) ->
                  add(Key(Block), 1, Size, Acc);
             (_, Acc) ->
                  Acc
          end,
    case fold_dict(fun(_) -> {Fun, #{}} end, Source) of
        {ok, Counts, Dict} -> {ok, named(By, Counts, Dict)};
        Error -> Error
    end.

add(Key, Blocks, Bytes, Counts) ->
    case Counts of
        #{Key := {N, Sum}} -> Counts#{Key := {N + Blocks, Sum + Bytes}};
        #{} -> Counts#{Key => {Blocks, Bytes}}
    end.

%% The blocks are counted by the numbers in the map. Names follow at the end, once
%% for each number, and several numbers may have the same name.
named(By, Counts, Dict) ->
    Name = name_fun(By, Dict),
    maps:fold(fun(Key, {Blocks, Bytes}, Acc) ->
                      add(Name(Key), Blocks, Bytes, Acc)
              end, #{}, Counts).

is_by({A, B}) -> is_by(A) andalso is_by(B);
is_by(By) ->
    lists:member(By, [owner, pid, name, mfa, origin, type, class, allocator]).

key_fun({A, B}) ->
    KeyA = key_fun(A),
    KeyB = key_fun(B),
    fun(Block) -> [KeyA(Block) | KeyB(Block)] end;
key_fun(origin) ->
    fun({block, _, _, _, Origin, _}) -> Origin end;
key_fun(By) when By =:= type; By =:= class; By =:= allocator ->
    fun({block, _, _, Type, _, _}) -> Type end;
key_fun(_Owner) ->
    fun({block, _, _, _, _, Owner}) -> Owner end.

name_fun({A, B}, Dict) ->
    NameA = name_fun(A, Dict),
    NameB = name_fun(B, Dict),
    fun([KeyA | KeyB]) -> {NameA(KeyA), NameB(KeyB)} end;
name_fun(type, Dict) ->
    fun(Key) -> element(1, type(Key, Dict)) end;
name_fun(allocator, Dict) ->
    fun(Key) -> element(2, type(Key, Dict)) end;
name_fun(class, Dict) ->
    fun(Key) -> element(3, type(Key, Dict)) end;
name_fun(origin, #{origins := Origins}) ->
    fun(0) -> none;
       (Key) -> nth(Key, Origins, {origin, Key})
    end;
name_fun(owner, Dict) ->
    fun(Key) -> owner(Key, Dict) end;
name_fun(pid, Dict) ->
    fun(Key) -> process_or_port(owner(Key, Dict)) end;
name_fun(name, #{registered := Registered} = Dict) ->
    Names = maps:from_list([{{process, Pid}, Name} ||
                               {Name, Pid} <- Registered]),
    fun(Key) ->
            Owner = process_or_port(owner(Key, Dict)),
            maps:get(Owner, Names, Owner)
    end;
name_fun(mfa, Dict) ->
    fun(Key) ->
            Owner = owner(Key, Dict),
            case process_or_port(Owner) of
                none -> Owner;
                _ -> none
            end
    end.

process_or_port({process, _} = Owner) -> Owner;
process_or_port({port, _} = Owner) -> Owner;
process_or_port(_) -> none.

-doc "Returns the `N` owners that have the most bytes, as `owners/2`.".
-doc(#{since => <<"OTP 27.3.4">>}).
-spec top(By, N, Source) -> {ok, [{Owner, Blocks, Bytes}]} | {error, reason()} when
    By :: by(),
    N :: non_neg_integer(),
    Source :: source(),
    Owner :: term(),
    Blocks :: non_neg_integer(),
    Bytes :: non_neg_integer().
top(By, N, Source) when is_integer(N), N >= 0 ->
    ?CHECKED([By, N, Source],
             case owners_1(By, Source) of
                 {ok, Owners} -> {ok, lists:sublist(largest(Owners), N)};
                 Error -> Error
             end);
top(By, N, Source) ->
    ?BADARG([By, N, Source], #{2 => "not a number of owners"}).

largest(Owners) ->
    lists:sort(fun({A, _, X}, {B, _, Y}) -> {-X, A} =< {-Y, B} end,
               [{Owner, Blocks, Bytes} ||
                   {Owner, {Blocks, Bytes}} <- maps:to_list(Owners)]).

%%--------------------------------------------------------------------------
%% Several maps

-doc """
Compares two maps of the same runtime system.

`owners` has each owner with its blocks and bytes in the first and in the second
map, those that have grown most first. A block survives if it is in both maps with
the same address, size, type, origin and owner (it cannot be distinguished from another
one that took its place in between); `gone` are the blocks only in the first map, `new`
those only in the second.

The maps are read once for every 500,000 blocks in the first one. Needs about 20 words
for each of these.
""".
-doc(#{since => <<"OTP 27.3.4">>}).
-spec diff(By, Source1, Source2) -> {ok, Diff} | {error, reason()} when
    By :: by(),
    Source1 :: source(),
    Source2 :: source(),
    Diff :: #{owners := [{Owner, First :: count(), Second :: count()}],
              survivors := count(),
              survivors_by := [{Owner, Blocks, Bytes}],
              gone := count(), new := count()},
    Owner :: term(),
    Blocks :: non_neg_integer(),
    Bytes :: non_neg_integer().
diff(By, Source1, Source2) ->
    ?CHECKED([By, Source1, Source2], diff_1(By, Source1, Source2)).

diff_1(By, Source1, Source2) ->
    maybe
        {ok, Owners1} ?= owners_1(By, Source1),
        {ok, Owners2} ?= owners_1(By, Source2),
        Total1 = total(Owners1),
        Passes = element(1, Total1) div ?DIFF_BLOCKS + 1,
        {ok, Stayed} ?= survivors(Passes, Passes, By, Source1, Source2, #{}),
        Survivors = total(Stayed),
        {ok, #{owners => changes(Owners1, Owners2),
               survivors => Survivors,
               survivors_by => largest(Stayed),
               gone => minus(Total1, Survivors),
               new => minus(total(Owners2), Survivors)}}
    end.

total(Owners) ->
    maps:fold(fun(_, {Blocks, Bytes}, {N, Sum}) ->
                      {N + Blocks, Sum + Bytes}
              end, {0, 0}, Owners).

minus({N1, Sum1}, {N2, Sum2}) ->
    {N1 - N2, Sum1 - Sum2}.

changes(Owners1, Owners2) ->
    Changes = [{Owner, maps:get(Owner, Owners1, {0, 0}),
                maps:get(Owner, Owners2, {0, 0})} ||
                  Owner <- maps:keys(maps:merge(Owners1, Owners2))],
    lists:sort(fun({A, {_, A1}, {_, A2}}, {B, {_, B1}, {_, B2}}) ->
                       {A1 - A2, A} =< {B1 - B2, B}
               end, Changes).

survivors(0, _Passes, _By, _Source1, _Source2, Acc) ->
    {ok, Acc};
survivors(Pass, Passes, By, Source1, Source2, Acc) ->
    Mine = fun(Addr) -> (Addr bsr 4) rem Passes =:= Pass - 1 end,
    maybe
        {ok, Blocks, _} ?=
            fold_dict(fun(Dict) ->
                              {fun(Item, A) -> remember(Item, Mine, Dict, A) end,
                               #{}}
                      end, Source1),
        {ok, {_, Counts}, Dict2} ?=
            fold_dict(fun(Dict) ->
                              Key = key_fun(By),
                              {fun(Item, A) -> recall(Item, Mine, Dict, Key, A) end,
                               {Blocks, #{}}}
                      end, Source2),
        Acc1 = maps:fold(fun(Owner, {N, Bytes}, A) -> add(Owner, N, Bytes, A) end,
                         Acc, named(By, Counts, Dict2)),
        survivors(Pass - 1, Passes, By, Source1, Source2, Acc1)
    end.

remember({block, Addr, _, _, _, _} = Block, Mine, Dict, Acc) ->
    case Mine(Addr) of
        true -> Acc#{Addr => identity(Block, Dict)};
        false -> Acc
    end;
remember(_, _Mine, _Dict, Acc) ->
    Acc.

%% A block that has been found is removed, so it counts once even if it is in the
%% second map twice.
recall({block, Addr, Size, _, _, _} = Block, Mine, Dict, Key,
       {Blocks, Counts} = Acc) ->
    case Mine(Addr) andalso maps:find(Addr, Blocks) of
        {ok, Same} ->
            case identity(Block, Dict) of
                Same ->
                    {maps:remove(Addr, Blocks),
                     add(Key(Block), 1, Size, Counts)};
                _ ->
                    Acc
            end;
        _ ->
            Acc
    end;
recall(_, _Mine, _Dict, _Key, Acc) ->
    Acc.

%% Indexes of modules and origins differ from map to map; the other numbers belong to
%% the runtime system.
identity({block, _, Size, Type, Origin, Owner}, #{origins := Origins} = Dict) ->
    Name = case Owner band 15 of
               ?OWNER_MODULE -> owner(Owner, Dict);
               _ -> Owner
           end,
    {Size, Type, nth(Origin, Origins, Origin), Name}.

-doc """
Returns how the bytes of each owner have changed over a series of maps, given in the
order of time. Owners that have grown most from the first to the last map come first.
An owner that grows from each map to the next may have a leak.
""".
-doc(#{since => <<"OTP 27.3.4">>}).
-spec growth(By, Sources) -> {ok, [{Owner, Growth, Bytes}]} | {error, reason()} when
    By :: by(),
    Sources :: [source()],
    Owner :: term(),
    Growth :: integer(),
    Bytes :: [non_neg_integer()].
growth(By, [_, _ | _] = Sources) when length(Sources) >= 2 ->
    ?CHECKED([By, Sources],
             case growth(By, Sources, []) of
                 {bad, element, Text} -> {bad, Sources, Text};
                 Result -> Result
             end);
growth(By, Sources) ->
    ?BADARG([By, Sources], #{2 => "not a list of two maps or more"}).

growth(By, [Source | Sources], Maps) ->
    case owners_1(By, Source) of
        {ok, Owners} -> growth(By, Sources, [Owners | Maps]);
        {bad, Source, _} -> {bad, element, "not a list of maps"};
        Error -> Error
    end;
growth(_By, [], Reversed) ->
    Maps = lists:reverse(Reversed),
    All = maps:keys(lists:foldl(fun maps:merge/2, #{}, Maps)),
    Series = [begin
                  Bytes = [element(2, maps:get(Owner, Map, {0, 0})) || Map <- Maps],
                  {Owner, lists:last(Bytes) - hd(Bytes), Bytes}
              end || Owner <- All],
    {ok, lists:sort(fun({A, X, _}, {B, Y, _}) -> {-X, A} =< {-Y, B} end, Series)}.

-doc """
Returns the blocks whose process or port is not alive in this runtime system, which has
to be the one that has made the map.
""".
-doc(#{since => <<"OTP 27.3.4">>}).
-spec dead_owners(Source) -> {ok, [{Owner, Blocks, Bytes}]} | {error, reason()} when
    Source :: source(),
    Owner :: owner(),
    Blocks :: pos_integer(),
    Bytes :: non_neg_integer().
dead_owners(Source) ->
    ?CHECKED([Source], dead_owners_1(Source, fun is_alive/1)).

-doc """
Returns the blocks whose process or port is not alive, those with the most bytes
first. `IsAlive` is called once for each process or port. Needs a few words for each
owner.
""".
-doc(#{since => <<"OTP 27.3.4">>}).
-spec dead_owners(Source, IsAlive) ->
          {ok, [{Owner, Blocks, Bytes}]} | {error, reason()} when
    Source :: source(),
    IsAlive :: fun((Owner) -> boolean()),
    Owner :: owner(),
    Blocks :: pos_integer(),
    Bytes :: non_neg_integer().
dead_owners(Source, IsAlive) when is_function(IsAlive, 1) ->
    ?CHECKED([Source, IsAlive], dead_owners_1(Source, IsAlive));
dead_owners(Source, IsAlive) ->
    ?BADARG([Source, IsAlive], #{2 => "not a fun of one argument"}).

dead_owners_1(Source, IsAlive) ->
    case owners_1(pid, Source) of
        {ok, Owners} ->
            {ok, largest(maps:filter(fun(none, _) -> false;
                                        (Owner, _) -> not IsAlive(Owner)
                                     end, Owners))};
        Error ->
            Error
    end.

is_alive({process, {Node, Num, Serial}}) ->
    Text = lists:concat(["<", Node, ".", Num, ".", Serial, ">"]),
    try
        is_process_alive(list_to_pid(Text))
    catch
        error:badarg -> false
    end;
is_alive({port, Num}) ->
    try
        undefined =/= erlang:port_info(list_to_port("#Port<0." ++
                                                        integer_to_list(Num) ++ ">"))
    catch
        error:badarg -> false
    end.
