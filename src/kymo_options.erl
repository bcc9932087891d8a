%% SPDX-License-Identifier: Apache-2.0
%% @private The options of `kymo:start/1' and `kymo:trace/2': their names and allowed values,
%% for error messages.
-module(kymo_options).

-export([start/0, trace/0, check_names/2, format_bad/2, allowed/1, format_unknown/1, most_slow/0]).

%% Microseconds; what 32-bit systems accept, which is 134 seconds.
-define(MOST_SLOW, 134217727).

-type kind() ::
    {one_of, [atom()]}
    | {some_of, [atom()]}
    | {range, Min :: integer(), Max :: integer() | infinity, Unit :: string()}
    | string().

%% @doc The names of the options of `kymo:start/1'.
-spec start() -> [atom()].
start() -> [Key || {Key, _} <- start_table()].

%% @doc The names of the options of `kymo:trace/2'.
-spec trace() -> [atom()].
trace() -> [Key || {Key, _} <- trace_table()].

-spec start_table() -> [{atom(), kind()}].
start_table() ->
    [
        {dir, "the name of a folder as a string, a binary or an atom"},
        {owner, "a process of this node, none"},
        {name, "an atom of at most 200 characters"},
        {names, {range, 0, infinity, "processes"}},
        {tracing, {one_of, [auto | kymo_tracing:modes()]}},
        {budget,
            "none, a map of cpu (0.01 to 100, percent of the time of each scheduler) and events (1 to 1099511627775 per second), or of one of them"},
        {counters, "none, milliseconds from 10 to 3600000"},
        {system_monitor,
            "none, default, a list of options as erlang:system_monitor/2 of this release takes them, each once"},
        {policy, {one_of, [overwrite, discard]}},
        {clock, {one_of, [auto, counter, monotonic]}},
        {segment_size, {range, 4096, 1048576, "bytes, a power of two"}},
        {memory, "bytes, at most 4398046511104, and enough for two segments of each thread of the runtime"},
        {dict_size, {range, 4096, 1073741824, "bytes"}},
        {events, "all, a list of tags"},
        {calls, {one_of, [arity, arguments]}},
        {returns, {one_of, [none, values]}},
        {messages, {one_of, [none, size, contents]}},
        {terms, {one_of, [none, contents]}},
        {gc, {one_of, [none, sizes]}},
        {content_bytes, {range, 0, 16384, "bytes, not more than a quarter of segment_size"}},
        {size_limit, {range, 1, 1000000, "terms"}},
        {sample, "N, {process, N}, where N is from 1 to 1073741824"},
        {limit, "a map of bytes, events and duration (milliseconds), each at least 1 or infinity"},
        {file_size, {range, 4096, infinity, "bytes, not less than segment_size"}},
        {file_age, {range, 1, 1000000000, "seconds"}},
        {max_files, {range, 1, 1000000, "files"}},
        {triggers, kymo_trigger:format_allowed(triggers)},
        {on_trigger, kymo_trigger:format_allowed(on_trigger)}
    ].

-spec trace_table() -> [{atom(), kind()}].
trace_table() ->
    [
        {processes, "all, existing, new, none, a list of local pids and registered names"},
        {ports, "all, existing, new, none, a list of local ports and registered names"},
        {events, {some_of, kymo_spec:events()}},
        {functions, "a pattern, a list of patterns"},
        {slow, io_lib:format("a map of patterns to microseconds, each from 0 to ~b", [?MOST_SLOW])},
        {scope, {one_of, [local, global]}},
        {returns, {one_of, [true, false]}},
        {garbage_collection, {one_of, [auto, always]}},
        {received_messages, {one_of, [auto, always]}},
        {senders, {one_of, [true, false]}}
    ].

%% @doc The longest time of the option `slow', in microseconds.
-spec most_slow() -> pos_integer().
most_slow() -> ?MOST_SLOW.

%% @doc Returns an error for the first unknown name.
-spec check_names(map(), [atom()]) -> ok | {error, {unknown_option, term()}}.
check_names(Options, Known) ->
    case lists:sort(maps:keys(Options) -- Known) of
        [] -> ok;
        [Key | _] -> {error, {unknown_option, Key}}
    end.

%% @doc A message with the wrong value and the allowed ones.
-spec format_bad(term(), term()) -> iolist().
format_bad(trace, Value) ->
    io_lib:format("the second argument of trace/2 is ~0tp; allowed: a map of options", [Value]);
format_bad(Key, Value) ->
    [io_lib:format("~0tp is ~0tP", [Key, Value, 20]) | [["; allowed: ", Allowed] || [_ | _] = Allowed <- [allowed(Key)]]].

%% @doc The allowed values of an option; none if there is no such option.
-spec allowed(term()) -> iolist().
allowed(Key) ->
    lists:join(", ", [kind(Kind) || Kind <- lists:usort([Kind || {K, Kind} <- start_table() ++ trace_table(), K =:= Key])]).

kind({one_of, Atoms}) -> atoms(Atoms);
kind({some_of, Atoms}) -> ["a list of ", atoms(Atoms)];
kind({range, Min, infinity, Unit}) -> io_lib:format("~b or more ~ts", [Min, Unit]);
kind({range, Min, Max, Unit}) -> io_lib:format("~b to ~b ~ts", [Min, Max, Unit]);
kind(Text) -> Text.

atoms(Atoms) -> lists:join(", ", [io_lib:format("~0tp", [Atom]) || Atom <- Atoms]).

%% @doc A message with the option that has the most similar name, if there is one.
-spec format_unknown(term()) -> iolist().
format_unknown(Key) ->
    case lists:member(Key, trace()) of
        true -> io_lib:format("~p is an option of kymo:trace/2", [Key]);
        false -> no_option(Key)
    end.

no_option(Key) ->
    [io_lib:format("there is no option ~0tp", [Key]) | [["; did you mean ", N, "?"] || N <- nearest(Key)]].

nearest(Key) when is_atom(Key) ->
    Name = atom_to_list(Key),
    Distances = lists:sort([{distance(Name, atom_to_list(K)), K} || K <- lists:usort(start() ++ trace())]),
    case Distances of
        [{D, K} | _] when D =< 2, D < length(Name) -> [atom_to_list(K)];
        _ -> []
    end;
nearest(_) ->
    [].

%% The edit distance. Names are short: an atom has at most 255 characters.
distance(A, B) ->
    First = lists:seq(0, length(B)),
    lists:last(
        lists:foldl(fun({N, C}, Row) -> row(C, B, Row, [N]) end, First, lists:zip(lists:seq(1, length(A)), A))
    ).

row(_, [], [_], Acc) ->
    lists:reverse(Acc);
row(C, [B | Bs], [Diagonal | [Up | _] = Row], [Left | _] = Acc) ->
    Replaced =
        case B of
            C -> Diagonal;
            _ -> Diagonal + 1
        end,
    row(C, Bs, Row, [lists:min([Replaced, Up + 1, Left + 1]) | Acc]).
