%% SPDX-License-Identifier: Apache-2.0
%% @private JSON for the lines of `kymo watch' and the file that describes a firing: flat objects
%% of integers, strings, booleans and null.
-module(kymo_trigger_json).

-export([decode/1, encode/1]).
-export_type([object/0]).

-type value() :: integer() | binary() | boolean() | null.
-type object() :: #{binary() => value()}.

%% The parser works on lists, because OTP 29 cannot load code of older compilers that matches
%% binaries, and a node may run another release than the one that kymo was built with.

%% @doc Returns the object in a line, or `error' if there is none.
-spec decode(binary()) -> {ok, object()} | error.
decode(Line) ->
    case binary_to_list(Line) of
        "{}" ->
            {ok, #{}};
        "{" ++ Rest ->
            try {ok, members(Rest, #{})}
            catch
                throw:bad -> error
            end;
        _ ->
            error
    end.

members(Text, Map) ->
    case string(Text) of
        {Key, ":" ++ After} ->
            case value(After) of
                {Value, "," ++ Rest} -> members(Rest, Map#{Key => Value});
                {Value, "}"} -> Map#{Key => Value};
                _ -> throw(bad)
            end;
        _ ->
            throw(bad)
    end.

value("null" ++ Rest) -> {null, Rest};
value("true" ++ Rest) -> {true, Rest};
value("false" ++ Rest) -> {false, Rest};
value([$" | _] = Text) -> string(Text);
value(Text) ->
    case string:to_integer(Text) of
        {N, Rest} when is_integer(N) -> {N, Rest};
        _ -> throw(bad)
    end.

string([$" | Text]) -> string(Text, []);
string(_) -> throw(bad).

string([$" | Rest], Acc) -> {list_to_binary(lists:reverse(Acc)), Rest};
string([$\\, $u, A, B, C, D | Rest], Acc) ->
    try list_to_integer([A, B, C, D], 16) of
        Code when Code >= 0, Code < 16#D800 -> string(Rest, [<<Code/utf8>> | Acc]);
        _ -> throw(bad)
    catch
        error:badarg -> throw(bad)
    end;
string([$\\, C | Rest], Acc) when C =:= $\\; C =:= $"; C =:= $/ -> string(Rest, [C | Acc]);
string([C | Rest], Acc) when C >= 32, C =/= $\\ -> string(Rest, [C | Acc]);
string(_, _) -> throw(bad).

%% @doc Returns the object as JSON. Strings must be UTF-8.
-spec encode(object()) -> iodata().
encode(Map) ->
    [${, lists:join($,, [[text(K), $:, encode_value(V)] || {K, V} <- lists:sort(maps:to_list(Map))]), $}].

encode_value(N) when is_integer(N) -> integer_to_list(N);
encode_value(B) when is_boolean(B) -> atom_to_list(B);
encode_value(null) -> "null";
encode_value(Text) -> text(Text).

text(Text) -> [$", [escaped(C) || C <- unicode:characters_to_list(Text)], $"].

escaped(C) when C =:= $"; C =:= $\\ -> [$\\, C];
escaped(C) when C < 32; C =:= 127 -> io_lib:format("\\u~4.16.0b", [C]);
escaped(C) -> <<C/utf8>>.
