%% SPDX-License-Identifier: Apache-2.0
%%
%% Twelve scales add to one total of the harvest in a Mnesia transaction, and ask the mill for the price while they
%% hold the lock of the record.
-module(problem_harvest_weights_stuck_in_the_ledger).

-export([about/0, start/0, scale/1]).

about() ->
    #{
        title => "With twelve scales the harvest is weighed no faster than with one",
        source =>
            "RabbitMQ, Mnesia contention when a node restarts (https://github.com/rabbitmq/rabbitmq-server/issues/"
            "1513); EMQX, taking Mnesia locks is expensive (https://github.com/emqx/emqx/pull/4709)",
        flags => ["+S", "2:2"],
        truth =>
            "12 scales wait for mnesia_locker, as each holds the write lock of the one record {harvest_total, wheat} "
            "for 40 ms in add/1, while it sleeps in price/0; who meets the lock is restarted by mnesia_tm after a pause",
        who => [
            "harvest_total", "mnesia_locker", "mnesia_tm(:\\S+)?", "mnesia:(transaction|write|read|wread|lock)\\S*",
            "problem_harvest_weights_stuck_in_the_ledger:(add/1|price/0|scale/1|'?-add)"
        ],
        what => [
            "\\block(s|ed|ing|er)?\\b", "mnesia_locker", "transaction", "contention", "contended", "same record", "one record", "hot (record|key|row)",
            "seriali[sz]", "mutual exclusion", "restart(s|ed)? (of )?(the |a |its )?transaction", "deadlock"
        ]
    }.

start() ->
    ok = application:set_env(mnesia, schema_location, ram),
    {ok, _} = application:ensure_all_started(mnesia),
    {atomic, ok} = mnesia:create_table(harvest_total, [{ram_copies, [node()]}, {attributes, [crop, kilos]}]),
    {atomic, ok} = mnesia:transaction(fun() -> mnesia:write({harvest_total, wheat, 0}) end),
    lists:foreach(fun(N) -> spawn(?MODULE, scale, [N]) end, lists:seq(1, 12)).

scale(N) ->
    {atomic, ok} = mnesia:transaction(fun() -> add(N) end),
    scale(N).

add(Kilos) ->
    [{harvest_total, wheat, Sum}] = mnesia:read(harvest_total, wheat, write),
    _ = price(),
    mnesia:write({harvest_total, wheat, Sum + Kilos}).

%% The mill answers after 40 ms.
price() ->
    timer:sleep(40),
    21.
