%% SPDX-License-Identifier: Apache-2.0
%%
%% A stamp catalogue is keyed by number, but collectors ask for a motif: each request makes
%% ets:select/2 go through all of 150000 stamps.
-module(problem_stamp_albums_leaf_slowly).
-behaviour(gen_server).

-export([about/0, start/0, collector/0]).
-export([init/1, handle_call/3, handle_cast/2]).

about() ->
    #{
        title => "Collectors wait tens of milliseconds for a handful of stamps, ever since the catalogue is complete",
        source =>
            "efficiency guide, tables: ets:select with an unbound key scans the whole table: "
            "https://www.erlang.org/doc/efficiency_guide/tablesdatabases.html",
        flags => ["+S", "2:2"],
        truth =>
            "The server stamp_catalogue runs ets:select/2 in by_motif/1 without the key for each request, a scan "
            "of all 150000 rows of the table stamps",
        who => [
            "stamp_catalogue",
            "problem_stamp_albums_leaf_slowly:(handle_call/3|by_motif/1)",
            "\\bstamps\\b"
        ],
        what => [
            "ets:(select|match|foldl|tab2list)",
            "scan",
            "(whole|entire|full|every row|all rows).{0,20}table",
            "table.{0,20}(travers|walk|whole)",
            "ets.{0,30}(quer|search|select|match|read|operation)"
        ]
    }.

start() ->
    {ok, _} = gen_server:start({local, stamp_catalogue}, ?MODULE, [], []),
    lists:foreach(fun(_) -> spawn(?MODULE, collector, []) end, lists:seq(1, 3)).

collector() ->
    Motif = {bird, rand:uniform(5000)},
    [_ | _] = gen_server:call(stamp_catalogue, {motif, Motif}, infinity),
    timer:sleep(30),
    collector().

init([]) ->
    stamps = ets:new(stamps, [named_table, set, protected]),
    lists:foreach(
        fun(N) -> ets:insert(stamps, {N, {bird, N rem 5000 + 1}, 1901 + N rem 100, N / 7}) end,
        lists:seq(1, 150000)
    ),
    {ok, none}.

handle_call({motif, Motif}, _, S) ->
    {reply, by_motif(Motif), S}.

handle_cast(_, S) -> {noreply, S}.

%% The motif is not the key.
by_motif(Motif) ->
    ets:select(stamps, [{{'$1', Motif, '$2', '_'}, [{'>', '$2', 1900}], [{{'$1', '$2'}}]}]).
