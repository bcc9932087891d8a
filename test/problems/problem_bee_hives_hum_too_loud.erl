%% SPDX-License-Identifier: Apache-2.0
%%
%% A home-made process viewer asks each of 15000 processes for its state four times a second.
-module(problem_bee_hives_hum_too_loud).

-export([about/0, start/0, inspector/0, bee/1]).

about() ->
    #{
        title => "The apiary's node uses a whole processor at night when no bee flies",
        source =>
            "recon:proc_count/2, proc_window/3 (process_info of all processes), observer_cli's and etop's "
            "own load: https://ferd.github.io/recon/recon.html, https://www.erlang.org/doc/apps/observer/etop_ug.html",
        flags => ["+S", "2:2"],
        truth =>
            "hive_inspector calls process_info/2 for all 15000 bees without a pause of note, "
            "and so uses a processor",
        who => [
            "hive_inspector",
            "problem_bee_hives_hum_too_loud:(inspector/0|inspect/1)"
        ],
        what => [
            "process_info",
            "process.?(info|state|statistics).{0,40}(all|every|each|many)",
            "(inspect|asks?|quer|poll|interrogat|list)[a-z]*.{0,30}(all|every|each|thousands).{0,20}process"
        ]
    }.

start() ->
    lists:foreach(fun(N) -> spawn(?MODULE, bee, [N]) end, lists:seq(1, 15000)),
    true = register(hive_inspector, spawn(?MODULE, inspector, [])),
    ok.

%% The five heaviest bees, again and again.
inspector() ->
    Weights = [inspect(P) || P <- processes()],
    _ = lists:sublist(lists:reverse(lists:sort(Weights)), 5),
    timer:sleep(50),
    inspector().

inspect(P) ->
    case
        erlang:process_info(P, [memory, message_queue_len, reductions, current_stacktrace, binary, links])
    of
        [{memory, M} | _] -> {M, P};
        undefined -> {0, P}
    end.

bee(N) ->
    receive
        {fly, To} -> bee(To)
    after 60000 + N -> bee(N)
    end.
