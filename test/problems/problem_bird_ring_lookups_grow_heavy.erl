%% SPDX-License-Identifier: Apache-2.0
%%
%% Each sighting of a ringed bird was kept as one more version of the same record. The record has 20000 of them now,
%% and is unpacked as a whole for each lookup.
-module(problem_bird_ring_lookups_grow_heavy).
-behaviour(gen_server).

-export([about/0, start/0, watcher/0]).
-export([init/1, handle_call/3, handle_cast/2]).

about() ->
    #{
        title => "Lookups of one famous stork take ever longer, other birds are found quickly as long as nobody asks for it",
        source =>
            "Riak, sibling explosion: the objects become very large and impair the whole system "
            "(https://github.com/basho/riak_cs/pull/1011, https://github.com/basho/riak_kv/pull/680)",
        flags => ["+S", "2:2"],
        truth =>
            "The process registered as nest_store spends its time in binary_to_term/1 and term_to_binary/1 of one "
            "record with 20000 versions (1 MB, 25 ms) in merge/2 for each request; 6 watchers wait for it",
        who => ["nest_store", "problem_bird_ring_lookups_grow_heavy:(merge/2|handle_call/3|prune/1)"],
        what => [
            "binary_to_term", "term_to_binary", "(de)?seriali[sz]", "decod", "encod", "unpack", "(large|big|huge|whole) (object|record|term|value|binar)",
            "sibling", "versions", "external term", "garbage", "\\bgc\\b", "heap (grows|size|of)", "cpu", "processor time", "computes?", "busy"
        ]
    }.

start() ->
    {ok, _} = gen_server:start({local, nest_store}, ?MODULE, [], []),
    lists:foreach(fun(_) -> spawn(fun watcher/0) end, lists:seq(1, 6)).

watcher() ->
    {ok, _} = gen_server:call(nest_store, {seen, stork_7, erlang:monotonic_time()}, infinity),
    watcher().

init([]) ->
    Versions = [{N, [{place, "the river"}, {by, N rem 97}], float(N)} || N <- lists:seq(1, 20000)],
    {ok, #{stork_7 => term_to_binary(Versions)}}.

handle_call({seen, Bird, At}, _, Store) ->
    {Last, Bin} = merge(maps:get(Bird, Store), At),
    {reply, {ok, Last}, Store#{Bird := Bin}}.

handle_cast(_, S) -> {noreply, S}.

%% All versions are unpacked, the oldest goes, the new one comes, and all are packed again.
merge(Bin, At) ->
    Versions = binary_to_term(Bin),
    New = {At, [{place, "the meadow"}, {by, 1}], 1.0},
    {New, term_to_binary([New | prune(Versions)])}.

prune(Versions) -> lists:droplast(Versions).
