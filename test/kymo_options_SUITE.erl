%% SPDX-License-Identifier: Apache-2.0
%%
%% What error messages say about options is exactly what the recorder accepts and refuses.
-module(kymo_options_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([all_known/1, closed_sets/1, ranges/1, others/1, trace_options/1, slow_calls/1, names/1, no_room/1]).
-export([without_processes/1, without_atoms/1]).

all() -> [all_known, closed_sets, ranges, others, trace_options, slow_calls, names, no_room].

init_per_testcase(Case, Config) ->
    [{dir, filename:join(?config(priv_dir, Config), Case)} | Config].

end_per_testcase(_, Config) ->
    _ = file:del_dir_r(?config(dir, Config)),
    ok.

%% Every option that the library knows is in the table, and vice versa.
all_known(Config) ->
    Own = [owner, name, names, tracing, budget, triggers, on_trigger, counters, system_monitor],
    [
        ?assertMatch(
            {Key, {error, {bad_option, Key, _}}},
            {Key, kymo_tracer:open(#{dir => ?config(dir, Config), Key => {no, value}})}
        )
     || Key <- kymo_options:start() -- Own
    ],
    [?assertMatch({Key, {error, {bad_option, Key, _}}}, {Key, start(Config, Key, {no, value})}) || Key <- Own],
    ?assertEqual({error, {unknown_option, size}}, kymo_tracer:open(#{dir => ?config(dir, Config), size => 1})).

%% Each value that the text names is accepted, and all others are refused.
closed_sets(Config) ->
    Sets = [{Key, Words} || Key <- kymo_options:start() -- kymo_options:trace(), {words, Words} <- [allowed(Key)]],
    [tracing, policy, clock, calls, messages, terms, gc] = [Key || {Key, _} <- Sets],
    [
        begin
            [taken(start(Config, Key, list_to_atom(W))) || W <- [_, _ | _] = Words],
            ?assertEqual({error, {bad_option, Key, foo}}, start(Config, Key, foo))
        end
     || {Key, Words} <- Sets
    ],
    %% Options of start/1 and of trace/2.
    {words, Returns} = allowed(returns),
    ["false", "none", "true", "values"] = lists:sort(Returns),
    [taken(start(Config, returns, W)) || W <- [none, values]],
    {error, {bad_option, returns, true}} = start(Config, returns, true).

%% The smallest and the largest value, and their neighbours. The largest sizes are not opened,
%% because they would allocate that much memory.
ranges(Config) ->
    Ranges = [{Key, Min, Max} || Key <- kymo_options:start(), {range, Min, Max} <- [allowed(Key)]],
    [names, segment_size, dict_size, content_bytes, size_limit, file_size, file_age, max_files] =
        [Key || {Key, _, _} <- Ranges],
    [
        begin
            taken(start(Config, Key, Min)),
            ?assertEqual({error, {bad_option, Key, Min - 1}}, start(Config, Key, Min - 1)),
            case Max of
                infinity ->
                    taken(start(Config, Key, 1 bsl 40));
                _ ->
                    ?assertEqual({error, {bad_option, Key, Max + 1}}, start(Config, Key, Max + 1)),
                    lists:member(Key, [segment_size, dict_size]) orelse taken(start(Config, Key, Max))
            end
        end
     || {Key, Min, Max} <- Ranges
    ].

others(Config) ->
    Good = [
        {owner, self()}, {owner, none}, {name, n}, {events, all}, {events, [call, messages]}, {sample, 1},
        {sample, {process, 1 bsl 30}}, {memory, 48 bsl 20}, {limit, #{bytes => infinity, events => 1, duration => 1000000}}
    ],
    Bad = [
        {owner, me}, {name, list_to_atom(lists:duplicate(201, $n))}, {events, [no_tag]},
        {sample, 0}, {sample, {process, (1 bsl 30) + 1}}, {memory, 0}, {limit, #{bytes => 0}}, {limit, #{size => 1}}
    ],
    [taken(start(Config, Key, Value)) || {Key, Value} <- Good],
    [
        begin
            ?assertEqual({error, {bad_option, Key, Value}}, start(Config, Key, Value)),
            ?assertNotEqual(nomatch, string:find(text({bad_option, Key, Value}), "; allowed: "))
        end
     || {Key, Value} <- Bad
    ].

trace_options(Config) ->
    {ok, R} = kymo:start(small(Config)),
    [
        begin
            Spec = #{functions => "lists:seq/2", Key => {no, [value]}},
            {error, {bad_option, Key, _} = Reason} = kymo:trace(R, Spec),
            ?assertNotEqual(nomatch, string:find(text(Reason), "; allowed: "))
        end
     || Key <- kymo_options:trace(), Key =/= functions
    ],
    {words, Events} = allowed(events),
    ["a list of calls" | _] = Events,
    {ok, _} = kymo:trace(R, #{processes => [self()], events => kymo_spec:events()}),
    {ok, _} = kymo:stop(R).

%% Slow calls need the runtime; the rest of the option is checked on all of them.
slow_calls(Config) ->
    {ok, R} = kymo:start(small(Config)),
    Trace = fun(Slow) -> kymo:trace(R, #{processes => [self()], slow => Slow}) end,
    [
        begin
            {error, {bad_option, slow, Bad} = Reason} = Trace(#{"lists:seq/2" => 5000, lists => Bad}),
            "slow is " ++ _ = Text = text(Reason),
            ?assertNotEqual(nomatch, string:find(Text, "allowed: a map of patterns to microseconds, each from 0 to "))
        end
     || Bad <- [-1, 5.0, "5ms", kymo_options:most_slow() + 1]
    ],
    {error, {bad_option, slow, ["lists:seq/2"]}} = Trace(["lists:seq/2"]),
    {error, {bad_pattern, "lists:seq/x", _, _}} = Trace(#{"lists:seq/x" => 5000}),
    {error, {missing_option, events}} = Trace(#{}),
    case erlang:match_spec_test([], [{'_', [], [{slow, 1}]}], trace) of
        {ok, _, _, _} ->
            {ok, #{functions := 1}} = Trace(#{"lists:seq/2" => kymo_options:most_slow()});
        {error, _} ->
            {error, no_slow_calls} = Trace(#{"lists:seq/2" => 5000}),
            ?assertNotEqual(nomatch, string:find(text(no_slow_calls), "returns => true"))
    end,
    {ok, _} = kymo:stop(R).

names(_) ->
    Meant = fun(Key) -> lists:flatten(kymo_options:format_unknown(Key)) end,
    "there is no option polcy; did you mean policy?" = Meant(polcy),
    "there is no option memry; did you mean memory?" = Meant(memry),
    "there is no option 'Dir'; did you mean dir?" = Meant('Dir'),
    "there is no option x" = Meant(x),
    "there is no option \"dir\"" = Meant("dir"),
    {error, {unknown_option, b}} = kymo_options:check_names(#{a => 1, c => 2, b => 3}, [a]),
    ok = kymo_options:check_names(#{a => 1}, [a, b]).

%% ---- helpers -----------------------------------------------------------------------------

%% The allowed values according to the error text.
allowed(Key) ->
    Text = text({bad_option, Key, {no, value}}),
    [_, Allowed] = string:split(Text, "; allowed: "),
    case re:run(Allowed, "^([0-9]+) (?:to ([0-9]+)|or more) ", [{capture, all_but_first, list}]) of
        {match, [Min, Max]} when Max =/= [] -> {range, list_to_integer(Min), list_to_integer(Max)};
        {match, [Min | _]} -> {range, list_to_integer(Min), infinity};
        nomatch ->
            Words = string:split(Allowed, ", ", all),
            case lists:all(fun(W) -> re:run(W, "^(a list of )?[a-z_]+$|^'receive'$") =/= nomatch end, Words) of
                true -> {words, Words};
                false -> other
            end
    end.

text(Reason) -> lists:flatten(kymo:format_error(Reason)).

start(Config, file_size, Value) -> kymo:start((small(Config))#{file_size => Value, segment_size => 4096});
start(Config, Key, Value) -> kymo:start((small(Config))#{Key => Value}).

taken(Started) ->
    {ok, R} = Started,
    {ok, #{dir := Dir}} = kymo:stop(R),
    ok = file:del_dir_r(Dir).

%% Contents of the maximum size fit into a quarter of a segment.
small(Config) ->
    #{dir => ?config(dir, Config), memory => 16 bsl 20, segment_size => 65536, dict_size => 65536}.

%% A node whose tables are nearly full, and that has not loaded kymo: it is refused, and the node lives on.
no_room(Config) ->
    _ = [
        begin
            Peer = kymo_peer:start([{peer_args, Args} | Config]),
            ?assertEqual({Table, Text}, {Table, kymo_peer:call(Peer, ?MODULE, Fun, [?config(dir, Config)])}),
            kymo_peer:stop(Peer)
        end
     || {Table, Args, Fun, Text} <- [
            {processes, ["+P", "1024"], without_processes, "the process limit of the node is nearly reached"},
            {atoms, ["+t", "20000"], without_atoms, "the atom limit of the node is nearly reached"}
        ]
    ].

without_processes(Dir) ->
    Free = fun() -> erlang:system_info(process_limit) - erlang:system_info(process_count) end,
    All = [spawn(fun() -> receive stop -> ok end end) || _ <- lists:seq(1, Free() - 40)],
    Text = refused(processes, Dir),
    _ = [exit(P, kill) || P <- All],
    true = kymo_cli:until(fun() -> Free() > 500 end),
    {ok, R} = kymo:start(#{dir => Dir}),
    {ok, _} = kymo:stop(R),
    Text.

without_atoms(Dir) ->
    Free = erlang:system_info(atom_limit) - erlang:system_info(atom_count),
    _ = [list_to_atom("kymo_options_" ++ integer_to_list(N)) || N <- lists:seq(1, Free - 3000)],
    refused(atoms, Dir).

%% The same for what needs no recorder of the caller's.
refused(Table, Dir) ->
    {error, {no_room, Table, _, _} = Why} = kymo:start(#{dir => Dir}),
    {error, {no_room, Table, _, _}} = kymo:calls(#{time => 10}),
    hd(string:split(lists:flatten(kymo:format_error(Why)), ":")).
