%% SPDX-License-Identifier: Apache-2.0
%%
%% The ticker cuts the headline of 80 bytes out of each page of 64 kB and keeps it. A headline is a part of its page,
%% so that the page stays in memory with it. The ticker gets no larger itself.
-module(problem_newsroom_memory_climbs_all_day).
-behaviour(gen_server).

-export([about/0, start/0, press/1]).
-export([init/1, handle_call/3, handle_cast/2]).

about() ->
    #{
        title => "The memory of the newsroom grows by megabytes each second, no process is large",
        source =>
            "Fred Hebert, Erlang in Anger, chapter 7.2 (binaries), from Heroku's Logplex: memory held by "
            "references to large binaries; ReVault, Slow bin_leak (https://github.com/ferd/ReVault/issues/45)",
        flags => ["+S", "2:2"],
        truth =>
            "The process registered as headline_ticker keeps headlines that are sub-binaries of pages of 64 kB in its "
            "state, 40 more each second: it holds on to about 2.6 MB more of binary memory per second",
        who => ["headline_ticker", "problem_newsroom_memory_climbs_all_day:(handle_cast/2|headline/1)"],
        what => [
            "sub.?binar", "refc", "reference(s|d)?.?(count|to (\\S+ )?binar)", "(hold|keep|retain|refer|pin)\\S* (\\S+ ){0,4}binar", "binary:copy",
            "binary (memory|leak|heap|data)", "off.?heap", "binaries? (memory|leak|grow|are (held|kept)|held|kept|alive)", "memory.* binar", "binar\\S* .*(MB|memory|grow)",
            "memory (leak|grow)", "leak"
        ]
    }.

start() ->
    {ok, _} = gen_server:start({local, headline_ticker}, ?MODULE, [], []),
    _ = spawn(?MODULE, press, [1]),
    ok.

press(N) ->
    Headline = iolist_to_binary(io_lib:format("~80..0b", [N])),
    Page = <<Headline/binary, (binary:copy(<<"news ">>, 13000))/binary>>,
    gen_server:cast(headline_ticker, {page, Page}),
    %% The press itself lets the page go.
    true = erlang:garbage_collect(),
    timer:sleep(25),
    press(N + 1).

init([]) -> {ok, {0, queue:new()}}.

handle_call(_, _, S) -> {reply, ok, S}.

%% It keeps 3000 headlines (200 MB of pages), so that the machine survives.
handle_cast({page, Page}, {N, Q}) when N < 3000 -> {noreply, {N + 1, queue:in(headline(Page), Q)}};
handle_cast({page, Page}, {N, Q}) -> {noreply, {N, queue:in(headline(Page), queue:drop(Q))}}.

headline(<<Headline:80/binary, _/binary>>) -> Headline.
