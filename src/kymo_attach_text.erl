%% SPDX-License-Identifier: Apache-2.0
%% @private Text from a node or from another user's process, for the terminal: it cannot control
%% the terminal, nor look like a line of its own.
-module(kymo_attach_text).

-export([clean/1, line/1]).

-include("kymo_attach_text.hrl").

-define(MAX, 8000).

%% @doc Shows control characters as hexadecimal numbers, indents all lines but the first, cuts
%% what is too long, and hides what may be secret in a URL that was given instead of a node. Bytes that are not UTF-8 are shown as numbers, too.
-spec clean(unicode:chardata()) -> string().
clean(Text) -> cut(lists:flatmap(fun(C) -> shown(C) end, indented(without_password(characters(Text))))).

%% @doc The same on a single line.
-spec line(unicode:chardata()) -> string().
line(Text) -> cut(lists:flatmap(fun($\n) -> hex($\n); (C) -> shown(C) end, characters(Text))).

without_password(Text) ->
    case string:split(Text, "://") of
        [Scheme, Rest] ->
            Address =
                case string:split(Rest, "@", trailing) of
                    [_, Shown] -> "***@" ++ Shown;
                    [_] -> Rest
                end,
            Scheme ++ "://" ++ without_query(string:split(Address, "?"));
        [_] ->
            Text
    end.

without_query([Address, Query]) -> Address ++ "?***" ++ lists:dropwhile(fun(C) -> C =/= $\s andalso C =/= $\n end, Query);
without_query([Address]) -> Address.

cut(Text) ->
    case length(Text) > ?MAX of
        true -> lists:sublist(Text, ?MAX) ++ "...";
        false -> Text
    end.

characters(Text) ->
    try unicode:characters_to_list(Text) of
        {_, Good, [Bad | Rest]} when is_list(Bad); is_binary(Bad) -> characters_bytes(Good, [Bad | Rest]);
        {_, Good, Rest} -> characters_bytes(Good, Rest);
        Characters -> Characters
    catch
        error:_ -> "?"
    end.

characters_bytes(Good, Rest) ->
    Bytes = try iolist_to_binary(Rest) catch error:_ -> <<"?">> end,
    Good ++ lists:flatmap(fun hex/1, binary_to_list(Bytes)).

indented([$\n, $\s, $\s, $\s, $\s | Rest]) -> [$\n, $\s, $\s, $\s, $\s | indented(Rest)];
indented([$\n | Rest]) -> [$\n, $\s, $\s, $\s, $\s | indented(Rest)];
indented([C | Rest]) -> [C | indented(Rest)];
indented([]) -> [].

shown($\n) -> "\n";
shown(C) when ?IS_HIDDEN(C) -> hex(C);
shown(C) -> [C].

hex(C) when C < 256 -> io_lib:format("\\x~2.16.0b", [C]);
hex(C) -> io_lib:format("\\x{~.16b}", [C]).
