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
-module(instrument_picture).
-moduledoc """
Draws memory maps: who owns the memory, and how fragmented the carriers are.

```erlang
> instrument:store_memory_map("now.map").
> instrument_picture:write("now.html", {file, "now.map"}).
ok
```

The page needs no network and has no scripts: any browser shows it.
""".

-export([write/2, write/3]).

-export_type([options/0]).

-include("instrument.hrl").

-define(WIDTH, 1200).
-define(HEIGHT, 640).
-define(HEADING, 15).
-define(CELLS, 256).
-define(SHADES, 8).
-define(ROW, 18).
-define(BAR_LEFT, 330).
-define(TYPES, 12).

-doc """
Options of `write/3`:

- **`by`** - what the areas of the first picture represent, see
  `t:instrument_map:by/0`.
  Defaults to `name`.
- **`owners`** - how many of them are shown, 1 to 1000; the others are in one area.
  Defaults to 100.
- **`carriers`** - how many carriers are shown, those with the most free bytes, 0 to
  10000. Defaults to 100.
- **`title`** - title of the page.
""".
-type options() :: #{by => instrument_map:by(),
                     owners => 1..1000,
                     carriers => 0..10000,
                     title => unicode:chardata()}.

-doc #{equiv => write(File, Source, #{})}.
-doc(#{since => <<"OTP 27.3.4">>}).
-spec write(File, Source) -> ok | {error, Reason} when
    File :: file:name_all(),
    Source :: instrument_map:source(),
    Reason :: instrument_map:reason().
write(File, Source) ->
    case write_1(File, Source, defaults()) of
        {bad, N, Text} -> ?BADARG([File, Source], #{N => Text});
        Result -> Result
    end.

-doc """
Writes a page of HTML with two pictures of a map to `File`.

The first shows the live blocks as areas of the size of their bytes: one area for
each owner, and in it one for each type of block. The second shows carriers, each
as a bar from its first to its last byte, light where memory is free and yellow
where freed blocks are kept for the next allocation. The mouse pointer over an area
shows its name and numbers.

Returns an error if the map cannot be read or the file cannot be written. The file is
not changed before the map has been read.
""".
-doc(#{since => <<"OTP 27.3.4">>}).
-spec write(File, Source, Options) -> ok | {error, Reason} when
    File :: file:name_all(),
    Source :: instrument_map:source(),
    Options :: options(),
    Reason :: instrument_map:reason().
write(File, Source, Options) ->
    Args = [File, Source, Options],
    case is_map(Options) andalso check(maps:to_list(Options)) of
        ok ->
            case write_1(File, Source, maps:merge(defaults(), Options)) of
                {bad, N, Text} -> ?BADARG(Args, #{N => Text});
                Result -> Result
            end;
        false -> ?BADARG(Args, #{3 => "not a map"});
        Cause -> ?BADARG(Args, #{3 => Cause})
    end.

defaults() ->
    #{by => name, owners => 100, carriers => 100, title => "Memory map"}.

check([{by, _} | Rest]) ->
    check(Rest);
check([{owners, N} | Rest]) when is_integer(N), N >= 1, N =< 1000 ->
    check(Rest);
check([{carriers, N} | Rest]) when is_integer(N), N >= 0, N =< 10000 ->
    check(Rest);
check([{title, Title} | Rest]) ->
    try unicode:characters_to_binary(Title) of
        Bin when is_binary(Bin) -> check(Rest);
        _ -> "the title is not text"
    catch
        error:badarg -> "the title is not text"
    end;
check([{Option, _} | _]) when Option =:= owners; Option =:= carriers ->
    atom_to_list(Option) ++ " is not a number in its range";
check([_ | _]) ->
    "unknown option";
check([]) ->
    ok.

write_1(File, Source, Options) ->
    try page(Source, Options) of
        {ok, Page} ->
            case file:write_file(File, Page) of
                {error, badarg} -> {bad, 1, "not the name of a file"};
                Result -> Result
            end;
        Error ->
            Error
    catch
        %% An argument is wrong, or this module has a bug.
        error:badarg:Stack ->
            case Stack of
                [{instrument_map, owners, [_, _], _} | _] ->
                    {bad, 3, "by is not a thing to group blocks by"};
                [{instrument_map, info, [_], _} | _] ->
                    {bad, 2, "neither {file, Name} nor a list of binaries"};
                _ ->
                    erlang:raise(error, badarg, Stack)
            end
    end.

page(Source, #{by := By, owners := Owners, carriers := Count, title := Title}) ->
    maybe
        {ok, Dict} ?= instrument_map:info(Source),
        {ok, Pairs} ?= instrument_map:owners({By, type}, Source),
        {ok, Carriers} ?= instrument_map:carriers(Source),
        Shown = lists:sublist(Carriers, Count),
        {ok, Cells} ?= cells(Shown, Source),
        {ok, [head(Title, Dict, Carriers),
              treemap(group(Pairs, Owners)),
              "<h2>Carriers</h2>\n",
              note(Shown, Carriers),
              bars(Shown, Cells),
              "</body>\n</html>\n"]}
    end.

%%--------------------------------------------------------------------------
%% What is to be drawn

%% [{Label, {Blocks, Bytes}, [{Type, {Blocks, Bytes}}]}], the largest first.
group(Pairs, Max) ->
    Owners = maps:fold(fun({Owner, Type}, Count, Acc) ->
                               Types = maps:get(Owner, Acc, []),
                               Acc#{Owner => [{label(Type), Count} | Types]}
                       end, #{}, Pairs),
    All = [{label(Owner), sum(Types), Types} ||
              {Owner, Types} <- maps:to_list(Owners)],
    {Shown, Rest} = split(Max, by_bytes(All)),
    Others = case Rest of
                 [] ->
                     [];
                 _ ->
                     [{lists:concat([length(Rest), " others"]),
                       sum([{L, C} || {L, C, _} <- Rest]),
                       merge([T || {_, _, Types} <- Rest, T <- Types])}]
             end,
    [{Label, Count, few(Types)} || {Label, Count, Types} <- Shown ++ Others].

few(Types) ->
    case split(?TYPES, by_bytes(Types)) of
        {Shown, []} -> Shown;
        {Shown, Rest} -> Shown ++ [{"other types", sum(Rest)}]
    end.

merge(Types) ->
    maps:to_list(
      lists:foldl(fun({Label, Count}, Acc) ->
                          Acc#{Label => plus(Count, maps:get(Label, Acc, {0, 0}))}
                  end, #{}, Types)).

plus({A, B}, {X, Y}) -> {A + X, B + Y}.

sum(Types) ->
    lists:foldl(fun({_, Count}, Acc) -> plus(Count, Acc) end, {0, 0}, Types).

split(N, List) when length(List) > N -> lists:split(N, List);
split(_N, List) -> {List, []}.

by_bytes(List) ->
    lists:sort(fun(A, B) ->
                       {-element(2, element(2, A)), element(1, A)} =<
                           {-element(2, element(2, B)), element(1, B)}
               end, List).

label(none) -> "no owner";
label({process, {Node, Num, Serial}}) -> io_lib:format("<~0tp.~0tp.~0tp>", [Node, Num, Serial]);
label({port, Num}) -> io_lib:format("#Port<0.~0tp>", [Num]);
label({module, Module}) -> io_lib:format("~0tp (machine code)", [Module]);
label({code, Addr}) -> io_lib:format("code at 16#~.16b", [Addr]);
label({M, F, A}) when is_atom(M), is_atom(F), is_integer(A) ->
    io_lib:format("~0tp:~0tp/~w", [M, F, A]);
label({A, B}) -> [label(A), ", ", label(B)];
label(Term) -> io_lib:format("~0tp", [Term]).

%% How much of each cell of the carriers shown is free, and cached.
cells(Shown, Source) ->
    Sizes = #{Addr => Size || #{address := Addr, size := Size} <- Shown},
    Fun = fun({section, #{address := Addr}}, {_, _, Acc}) ->
                  {maps:get(Addr, Sizes, none), Addr, Acc};
             ({Kind, Addr, Size}, {Total, Carrier, Acc}) when Total =/= none ->
                  {Total, Carrier,
                   fill(Kind, Addr - Carrier, Addr - Carrier + Size,
                        Total / ?CELLS, Carrier, Acc)};
             (_, Acc) ->
                  Acc
          end,
    case instrument_map:fold(Fun, {none, 0, #{}}, Source) of
        {ok, {_, _, Cells}, _Dict} -> {ok, Cells};
        Error -> Error
    end.

fill(Kind, From, To, Width, Carrier, Acc) when From < To ->
    Cell = min(?CELLS - 1, trunc(From / Width)),
    End = case Cell of
              ?CELLS - 1 -> To;
              _ -> min(To, (Cell + 1) * Width)
          end,
    Key = {Carrier, Kind, Cell},
    Acc1 = Acc#{Key => maps:get(Key, Acc, 0) + (End - From) / Width},
    fill(Kind, max(End, From + 1), To, Width, Carrier, Acc1);
fill(_Kind, _From, _To, _Width, _Carrier, Acc) ->
    Acc.

%%--------------------------------------------------------------------------
%% HTML

head(Title, Dict, Carriers) ->
    Text = escape(Title),
    Facts = [[escape(Name), ": ", escape(Value)] ||
                {Name, Value} <-
                    [fact("blocks", blocks, Dict), fact("bytes", bytes, Dict),
                     fact("OTP", otp_release, Dict), fact("node", node, Dict),
                     {"carriers", integer_to_list(length(Carriers))}],
                Value =/= none],
    ["<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
     "<title>", Text, "</title>\n<style>\n"
     "body { font: 14px sans-serif; margin: 16px; color: #222; }\n"
     "svg { display: block; font: 11px sans-serif; }\n"
     "svg text { pointer-events: none; }\n"
     ".owner { stroke: #fff; stroke-width: 1; }\n"
     ".type { stroke: #fff; stroke-width: 0.5; }\n"
     ".carrier { fill: #2b6ca3; }\n"
     ".free { fill: #f3efe6; }\n"
     ".cached { fill: #e0a030; }\n"
     "</style>\n</head>\n<body>\n<h1>", Text, "</h1>\n<p>",
     lists:join(" &#183; ", Facts), "</p>\n<h2>Owners</h2>\n"].

fact(Name, Key, Dict) ->
    case Dict of
        #{Key := Value} when is_integer(Value) -> {Name, integer_to_list(Value)};
        #{Key := Value} when is_atom(Value) -> {Name, atom_to_list(Value)};
        #{Key := Value} ->
            case io_lib:printable_unicode_list(Value) of
                true -> {Name, Value};
                false -> {Name, io_lib:format("~0tp", [Value])}
            end;
        #{} -> {Name, none}
    end.

note(Shown, Carriers) ->
    ["<p>", integer_to_list(length(Shown)), " of ",
     integer_to_list(length(Carriers)),
     ", those with the most free bytes. Blue: in use, light: free, "
     "yellow: freed and cached.</p>\n"].

treemap(Owners) ->
    Areas = squarify([{Bytes, Owner} || {_, {_, Bytes}, _} = Owner <- Owners,
                                        Bytes > 0],
                     {0.0, 0.0, float(?WIDTH), float(?HEIGHT)}),
    svg("treemap", ?HEIGHT, [area(Area) || Area <- Areas]).

area({{X, Y, W, H} = Rect, {Label, Count, Types}}) ->
    Hue = erlang:phash2(unicode:characters_to_binary(Label), 360),
    Title = [Label, count(Count)],
    Inner = case W > 40 andalso H > ?HEADING * 2 of
                true ->
                    [type(Area, Hue, Label) ||
                        Area <- squarify([{Bytes, T} ||
                                             {_, {_, Bytes}} = T <- Types,
                                             Bytes > 0],
                                         {X + 1, Y + ?HEADING,
                                          W - 2, H - ?HEADING - 1})];
                false ->
                    []
            end,
    ["<g>", rect("owner", Rect, ["fill=\"", hsl(Hue, 72), "\""], Title),
     text(Rect, Label), Inner, "</g>\n"].

type({Rect, {Type, Count}}, Hue, Owner) ->
    Light = 78 + erlang:phash2(unicode:characters_to_binary(Type), 14),
    [rect("type", Rect, ["fill=\"", hsl(Hue, Light), "\""],
          [Owner, ": ", Type, count(Count)]),
     text(Rect, Type)].

hsl(Hue, Light) ->
    io_lib:format("hsl(~w,45%,~w%)", [Hue, Light]).

count({Blocks, Bytes}) ->
    lists:concat([", ", Bytes, " bytes in ", Blocks, " blocks"]).

bars(Shown, Cells) ->
    {Rows, Height} =
        lists:mapfoldl(fun(Carrier, Y) -> {bar(Carrier, Y, Cells), Y + ?ROW} end,
                       0, Shown),
    svg("carriers", max(1, Height), Rows).

bar(#{address := Addr, size := Size, allocator := Allocator, instance := Instance,
      free_bytes := Free, cached_bytes := Cached, live_blocks := Live,
      largest_free := Largest, fragmentation := Fragmentation}, Y, Cells) ->
    Label = io_lib:format("~ts ~w, ~w KiB, ~w% free",
                          [label(Allocator), Instance, Size div 1024,
                           percent(Free, Size)]),
    Title = io_lib:format("~ts, instance ~w, carrier at 16#~.16b: ~w bytes, "
                          "~w live blocks, ~w bytes free, the largest ~w, "
                          "~w cached; fragmentation ~.2f",
                          [label(Allocator), Instance, Addr, Size, Live, Free,
                           Largest, Cached, Fragmentation]),
    ["<g>", rect("carrier", {float(?BAR_LEFT), float(Y),
                             float(?WIDTH - ?BAR_LEFT), ?ROW - 3.0}, "", Title),
     "<text x=\"0\" y=\"", integer_to_list(Y + 12), "\">", escape(Label),
     "</text>",
     [runs(Kind, Addr, Y, Cells, Title) || Kind <- [free, cached]],
     "</g>\n"].

percent(_, 0) -> 0;
percent(Part, Whole) -> Part * 100 div Whole.

%% Neighbours of the same shade are one rectangle.
runs(Kind, Carrier, Y, Cells, Title) ->
    Shades = [{Cell, shade(maps:get({Carrier, Kind, Cell}, Cells, 0))} ||
                 Cell <- lists:seq(0, ?CELLS - 1)],
    runs(Shades, Kind, Y, Title).

runs([{_, 0} | Rest], Kind, Y, Title) ->
    runs(Rest, Kind, Y, Title);
runs([{Cell, Shade} | _] = Cells, Kind, Y, Title) ->
    {Run, Rest} = lists:splitwith(fun({_, S}) -> S =:= Shade end, Cells),
    Width = (?WIDTH - ?BAR_LEFT) / ?CELLS,
    [rect(atom_to_list(Kind),
          {?BAR_LEFT + Cell * Width, float(Y), length(Run) * Width, ?ROW - 3.0},
          ["fill-opacity=\"", number(Shade / ?SHADES), "\""], Title)
    | runs(Rest, Kind, Y, Title)];
runs([], _Kind, _Y, _Title) ->
    [].

%% A small part is never shown as none.
shade(Part) when Part > 0 -> max(1, min(?SHADES, round(Part * ?SHADES)));
shade(_) -> 0.

svg(Id, Height, Content) ->
    Size = io_lib:format("width=\"~w\" height=\"~w\" viewBox=\"0 0 ~w ~w\"",
                         [?WIDTH, Height, ?WIDTH, Height]),
    ["<svg xmlns=\"http://www.w3.org/2000/svg\" id=\"", Id, "\" ", Size, ">\n",
     Content, "</svg>\n"].

rect(Class, {X, Y, W, H}, Attributes, Title) ->
    ["<rect class=\"", Class, "\" x=\"", number(X), "\" y=\"", number(Y),
     "\" width=\"", number(W), "\" height=\"", number(H), "\" ", Attributes,
     "><title>", escape(Title), "</title></rect>"].

%% Only what fits: about 7 units for each character.
text({X, Y, W, H}, Label) when W > 30, H > ?HEADING - 2 ->
    Chars = unicode:characters_to_list(Label),
    Room = trunc((W - 6) / 7),
    Shown = case length(Chars) > Room of
                true -> lists:sublist(Chars, max(1, Room - 1)) ++ [16#2026];
                false -> Chars
            end,
    ["<text x=\"", number(X + 3), "\" y=\"", number(Y + 11), "\">",
     escape(Shown), "</text>"];
text(_Rect, _Label) ->
    [].

number(N) ->
    float_to_binary(float(N), [{decimals, 3}, compact]).

%% Characters that have a meaning in HTML, and characters that it must not contain.
escape(Text) ->
    << <<(escape_char(C))/binary>> || C <- unicode:characters_to_list(Text) >>.

escape_char($<) -> <<"&lt;">>;
escape_char($>) -> <<"&gt;">>;
escape_char($&) -> <<"&amp;">>;
escape_char($") -> <<"&quot;">>;
escape_char($') -> <<"&#39;">>;
escape_char(C) when C < $\s; C >= 16#7f, C =< 16#9f; C band 16#fffe =:= 16#fffe ->
    <<16#fffd/utf8>>;
escape_char(C) -> <<C/utf8>>.

%%--------------------------------------------------------------------------
%% Areas

%% Divides a rectangle among [{Size, Item}], the largest first: rows along the
%% shorter side, each as long as its areas become more like squares by that.
squarify([], _Rect) ->
    [];
squarify(Items, {_, _, W, H} = Rect) ->
    Scale = W * H / lists:sum([Size || {Size, _} <- Items]),
    rows([{Size * Scale, Item} || {Size, Item} <- Items], Rect).

rows([], _Rect) ->
    [];
rows([{Area, _} = First | Rest], {_, _, W, H} = Rect) ->
    Side = min(W, H),
    {Row, Sum, Later} = row(Rest, [First], Area, Area, Side),
    {Placed, Remaining} = place(lists:reverse(Row), Sum, Rect),
    Placed ++ rows(Later, Remaining).

row([{Area, _} = Next | Rest] = Items, [{Smallest, _} | _] = Row, Sum, Largest,
    Side) ->
    case worst(Sum + Area, Area, Largest, Side) =< worst(Sum, Smallest, Largest, Side) of
        true -> row(Rest, [Next | Row], Sum + Area, Largest, Side);
        false -> {Row, Sum, Items}
    end;
row([], Row, Sum, _Largest, _Side) ->
    {Row, Sum, []}.

%% The largest ratio of the sides of the areas in a row.
worst(Sum, Smallest, Largest, Side) ->
    max(Side * Side * Largest / (Sum * Sum), Sum * Sum / (Side * Side * Smallest)).

place(Row, Sum, {X, Y, W, H}) when W >= H ->
    Width = min(W, Sum / H),
    {Placed, _} = lists:mapfoldl(fun({Area, Item}, At) ->
                                         Height = H * Area / Sum,
                                         {{{X, At, Width, Height}, Item}, At + Height}
                                 end, Y, Row),
    {Placed, {X + Width, Y, rest(W - Width), H}};
place(Row, Sum, {X, Y, W, H}) ->
    Height = min(H, Sum / W),
    {Placed, _} = lists:mapfoldl(fun({Area, Item}, At) ->
                                         Width = W * Area / Sum,
                                         {{{At, Y, Width, Height}, Item}, At + Width}
                                 end, X, Row),
    {Placed, {X, Y + Height, W, rest(H - Height)}}.

%% Rounding must leave something for the remaining ones.
rest(Length) -> max(1.0e-6, Length).
