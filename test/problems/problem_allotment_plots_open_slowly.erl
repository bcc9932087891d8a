%% SPDX-License-Identifier: Apache-2.0
%%
%% One registry opens every plot, and keeps the order of their last use in a list. To open a plot moves it to the
%% front, so that the registry walks along 30000 plots for each request.
-module(problem_allotment_plots_open_slowly).
-behaviour(gen_server).

-export([about/0, start/0, gardener/1]).
-export([init/1, handle_call/3, handle_cast/2]).

about() ->
    #{
        title => "To open a plot took no time in the first year, now the gardeners stand in line at the gate",
        source =>
            "CouchDB, Couch server sharding: break up the monolithic couch_server to avoid a bottleneck "
            "(https://github.com/apache/couchdb/pull/3366); Process stuck with growing message queue, couch_server_10 "
            "(https://github.com/apache/couchdb/issues/5420); update_lru",
        flags => ["+S", "2:2"],
        truth =>
            "25 gardeners wait for the one process plot_registry, which spends its time in lists:keydelete/3 of a list "
            "with 30000 elements in touch/2 for each open request",
        who => [
            "plot_registry",
            "problem_allotment_plots_open_slowly:(touch/2|handle_call/3)"
        ],
        what => [
            "lists:key", "keydelete", "linear", "O\\(n\\)", "(long|large|big|whole) list", "list (of|with) ", "walk", "scan", "travers",
            "single (process|server|gen_server)", "one (process|server) (serves|for) ", "bottleneck", "seriali[sz]", "LRU",
            "computes?", "cpu", "processor time", "busy", "saturat", "overload"
        ]
    }.

start() ->
    {ok, _} = gen_server:start({local, plot_registry}, ?MODULE, [], []),
    lists:foreach(fun(N) -> spawn(?MODULE, gardener, [N]) end, lists:seq(1, 25)).

gardener(N) ->
    {plot, _} = gen_server:call(plot_registry, {open, (N * 7919) rem 30000 + 1}, infinity),
    gardener((N * 31 + 17) rem 100003).

init([]) -> {ok, [{N, opened} || N <- lists:seq(1, 30000)]}.

handle_call({open, N}, _, Used) -> {reply, {plot, N}, touch(N, Used)}.

handle_cast(_, S) -> {noreply, S}.

%% The plot that was used last is the first.
touch(N, Used) -> [{N, opened} | lists:keydelete(N, 1, Used)].
