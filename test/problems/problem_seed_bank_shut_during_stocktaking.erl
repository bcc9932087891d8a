%% SPDX-License-Identifier: Apache-2.0
%%
%% The seed bank copies its stock to a second house, one sort of seeds at a time, and answers nobody until it has
%% done. Then the stock is copied again.
-module(problem_seed_bank_shut_during_stocktaking).
-behaviour(gen_server).

-export([about/0, start/0, breeder/1, second_house/0]).
-export([init/1, handle_call/3, handle_cast/2]).

about() ->
    #{
        title => "For a minute no breeder gets any seeds, since the second house was opened",
        source =>
            "RabbitMQ, improve mirror queue sync performance: messages are sent to the slaves one by one, during "
            "synchronization queues are unresponsive (https://github.com/rabbitmq/rabbitmq-server/issues/336)",
        flags => ["+S", "2:2"],
        truth =>
            "seed_bank does not answer, as it copies 30000 items to second_house in copy_stock/1, one by one, and "
            "waits for each confirmation; second_house compresses each item for about 1 ms",
        who => [
            "seed_bank", "second_house",
            "problem_seed_bank_shut_during_stocktaking:(copy_stock/1|second_house/0|handle_cast/2|breeder/1|confirmed/2)"
        ],
        what => [
            "mirror", "synchroni[sz]", "\\bsync", "replic", "cop(y|ies|ying)", "one (by one|at a time|after)", "for each (item|element|message)",
            "compress", "zlib", "deflate", "(does not|doesn't|not) (answer|reply|respond|serve|take|handle|read)", "unresponsive",
            "waits? for (the |an? )?(\\S+ )?(confirm|acknowledg|ack\\b|reply|answer|second_house)", "round.?trip",
            "inside (of )?(a |its |the )?callback", "long callback", "in handle_cast", "blocks? (its|the|all|every)"
        ]
    }.

start() ->
    register(second_house, spawn(fun second_house/0)),
    {ok, _} = gen_server:start({local, seed_bank}, ?MODULE, [], []),
    ok = gen_server:cast(seed_bank, mirror),
    lists:foreach(fun(N) -> spawn(?MODULE, breeder, [N]) end, lists:seq(1, 10)).

breeder(N) ->
    _ = gen_server:call(seed_bank, {seeds, N}, infinity),
    breeder(N + 1).

%% It stores what it gets in a compressed form.
second_house() ->
    receive
        {store, From, Ref, Item} ->
            Z = zlib:compress([term_to_binary({Item, N}) || N <- lists:seq(1, 700)]),
            From ! {confirmed, Ref, byte_size(Z)},
            second_house()
    end.

init([]) -> {ok, [{seed, N, [wheat, rye, barley]} || N <- lists:seq(1, 30000)]}.

handle_call({seeds, N}, _, Stock) -> {reply, lists:nth(N rem 100 + 1, Stock), Stock}.

handle_cast(mirror, Stock) ->
    copy_stock(Stock),
    gen_server:cast(self(), mirror),
    {noreply, Stock}.

copy_stock([Item | T]) ->
    Ref = make_ref(),
    second_house ! {store, self(), Ref, Item},
    confirmed(Ref, 60000),
    copy_stock(T);
copy_stock([]) ->
    ok.

confirmed(Ref, Timeout) ->
    receive
        {confirmed, Ref, _} -> ok
    after Timeout -> exit(no_second_house)
    end.
