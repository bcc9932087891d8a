%% SPDX-License-Identifier: Apache-2.0
%%
%% A cache is emptied with ets:delete_all_objects/1 twice a second, which nobody can read meanwhile, and then filled again.
-module(problem_cloakroom_forgets_all_coats_at_once).

-export([about/0, start/0, janitor/0, guest/0]).

about() ->
    #{
        title => "Twice a second all guests wait for their coats, the cloakroom itself is a table without a process",
        source =>
            "nebulex, Processes reading from cache blocked by generational gc process: ets:delete_all_objects of 1 GB takes a second "
            "(https://github.com/elixir-nebulex/nebulex/issues/197); ra, Delete mem tables outside of ra process (https://github.com/rabbitmq/ra/pull/43)",
        flags => ["+S", "2:2"],
        truth =>
            "coat_janitor deletes all 200000 objects of table cloakroom with ets:delete_all_objects/1 in empty/0, which holds the table's lock, and fills it "
            "again in refill/1; readers guest/0 wait for the table or help to delete",
        who => ["coat_janitor", "cloakroom", "problem_cloakroom_forgets_all_coats_at_once:(janitor/0|empty/0|refill/1)"],
        what => ["delete_all", "ets:(internal_)?delete", "internal_delete_all", "ets:insert", "clear", "empt(y|ie)", "lock", "deletes? all", "refill", "ets_internal"]
    }.

start() ->
    Self = self(),
    Pid = spawn(fun() ->
        cloakroom = ets:new(cloakroom, [named_table, public, set, {read_concurrency, true}]),
        refill(200000),
        Self ! filled,
        janitor()
    end),
    register(coat_janitor, Pid),
    receive filled -> ok end,
    lists:foreach(fun(_) -> spawn(?MODULE, guest, []) end, lists:seq(1, 8)).

janitor() ->
    timer:sleep(250),
    empty(),
    refill(200000),
    janitor().

empty() ->
    true = ets:delete_all_objects(cloakroom).

refill(0) ->
    ok;
refill(N) ->
    true = ets:insert(cloakroom, {N, {coat, N, [N, black, wool, large]}}),
    refill(N - 1).

guest() ->
    _ = ets:lookup(cloakroom, rand:uniform(200000)),
    timer:sleep(1),
    guest().
