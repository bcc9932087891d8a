%% SPDX-License-Identifier: Apache-2.0
%%
%% Reads a Perfetto trace that the exporter has written, without using the exporter's code:
%% slices with their durations, and arrows. kymo_export_SUITE shows with Perfetto's own
%% trace_processor that Perfetto reads such traces in the same way.
-module(kymo_perfetto).

-export([read/1, instants/1]).

-export_type([slice/0, instant/0, arrow/0]).

-type annotations() :: #{binary() => binary() | integer()}.
-type slice() :: {Name :: binary(), Begin :: integer(), End :: integer(), annotations()}.
%% Times are nanoseconds of CLOCK_MONOTONIC. Annotations are those of the begin and the end
%% event.

-type instant() :: {Name :: binary(), Time :: integer(), annotations()}.

-type arrow() :: {{Begin :: integer(), annotations()}, {End :: integer(), annotations()}}.

-record(state, {
    now = 0,
    names = #{},
    keys = #{},
    strings = #{},
    %% Open slices of each track, innermost first.
    open = #{},
    slices = [],
    instants = [],
    flows = #{},
    arrows = []
}).

-spec read(file:name_all()) -> {[slice()], [arrow()]}.
read(File) ->
    {ok, Bytes} = file:read_file(File),
    #state{slices = Slices, arrows = Arrows, open = Open} = packets(Bytes, #state{}),
    [] = lists:append(maps:values(Open)),
    {lists:reverse(Slices), lists:reverse(Arrows)}.

%% Instants of all tracks, in order.
-spec instants(file:name_all()) -> [instant()].
instants(File) ->
    {ok, Bytes} = file:read_file(File),
    #state{instants = Instants} = packets(Bytes, #state{}),
    lists:reverse(Instants).

packets(<<>>, S) ->
    S;
packets(Bytes, S) ->
    {1, Packet, Rest} = field(Bytes),
    packets(Rest, packet(fields(Packet), S)).

%% Interned data also applies to the packet that contains it.
packet(Fields, S) ->
    Interned = interned(maps:get(12, Fields, <<>>), S),
    case Fields of
        #{6 := Snapshot} -> Interned#state{now = monotonic(Snapshot)};
        #{11 := Event, 8 := Ts, 58 := 3} -> event(Event, Ts, Interned);
        #{11 := Event, 8 := Ts} -> event(Event, Interned#state.now + Ts, Interned#state{now = Interned#state.now + Ts});
        #{} -> Interned
    end.

%% The value of clock 3 (monotonic) in the snapshot.
monotonic(Snapshot) ->
    [Ns] = [Ns || {1, Clock} <- list(Snapshot), #{1 := 3, 2 := Ns} <- [fields(Clock)]],
    Ns.

interned(<<>>, S) ->
    S;
interned(Bytes, S) ->
    lists:foldl(
        fun({Kind, Entry}, Acc) ->
            #{1 := Id, 2 := Text} = fields(Entry),
            case Kind of
                2 -> Acc#state{names = (Acc#state.names)#{Id => Text}};
                3 -> Acc#state{keys = (Acc#state.keys)#{Id => Text}};
                29 -> Acc#state{strings = (Acc#state.strings)#{Id => Text}};
                _ -> Acc
            end
        end,
        S,
        list(Bytes)
    ).

%% Event types: 1 begins and 2 ends a slice, 3 is an instant.
event(Event, Ts, #state{open = Open, slices = Slices} = S) ->
    List = list(Event),
    #{9 := Type, 11 := Track} = Fields = maps:from_list(List),
    Annotations = maps:from_list([annotation(fields(A), S) || {4, A} <- List]),
    case Type of
        1 ->
            Slice = {maps:get(maps:get(10, Fields), S#state.names), Ts, Annotations},
            S#state{open = maps:update_with(Track, fun(Os) -> [Slice | Os] end, [Slice], Open)};
        2 ->
            #{Track := [{Name, Begin, First} | Outer]} = Open,
            Slice = {Name, Begin, Ts, maps:merge(First, Annotations)},
            S#state{open = Open#{Track := Outer}, slices = [Slice | Slices]};
        3 ->
            Instant = {maps:get(maps:get(10, Fields), S#state.names), Ts, Annotations},
            flow(Fields, {Ts, Annotations}, S#state{instants = [Instant | S#state.instants]});
        _ ->
            S
    end.

%% A flow through three events is two arrows.
flow(#{47 := Id}, Event, #state{flows = Flows} = S) when is_map_key(Id, Flows) ->
    Arrow = {map_get(Id, Flows), Event},
    S#state{flows = Flows#{Id => Event}, arrows = [Arrow | S#state.arrows]};
flow(#{47 := Id}, Event, #state{flows = Flows} = S) ->
    S#state{flows = Flows#{Id => Event}};
flow(#{48 := Id}, Event, #state{flows = Flows, arrows = Arrows} = S) ->
    {Begin, Rest} = maps:take(Id, Flows),
    S#state{flows = Rest, arrows = [{Begin, Event} | Arrows]};
flow(_, _, S) ->
    S.

annotation(#{1 := Key} = Fields, #state{keys = Keys, strings = Strings}) ->
    Value =
        case Fields of
            #{6 := Text} -> Text;
            #{17 := Id} -> maps:get(Id, Strings);
            #{3 := N} -> N
        end,
    {maps:get(Key, Keys), Value}.

%% ---- protobuf ----

fields(Bytes) -> maps:from_list(list(Bytes)).

list(<<>>) ->
    [];
list(Bytes) ->
    {Number, Value, Rest} = field(Bytes),
    [{Number, Value} | list(Rest)].

field(Bytes) ->
    {Key, Rest} = varint(Bytes),
    case Key band 7 of
        0 ->
            {Value, After} = varint(Rest),
            {Key bsr 3, Value, After};
        1 ->
            <<Value:64/little, After/binary>> = Rest,
            {Key bsr 3, Value, After};
        2 ->
            {Length, After} = varint(Rest),
            <<Value:Length/binary, End/binary>> = After,
            {Key bsr 3, Value, End}
    end.

varint(<<0:1, N:7, Rest/binary>>) -> {N, Rest};
varint(<<1:1, N:7, Rest/binary>>) ->
    {More, After} = varint(Rest),
    {More bsl 7 bor N, After}.
