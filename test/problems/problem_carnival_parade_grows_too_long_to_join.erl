%% SPDX-License-Identifier: Apache-2.0
%%
%% 20000 dancers are in one group of pg. Each that joins or leaves makes the scope copy the group's whole list, twice.
-module(problem_carnival_parade_grows_too_long_to_join).

-export([about/0, start/0, guest/0]).

about() ->
    #{
        title => "To join the carnival parade takes milliseconds, in a small village it takes none",
        source =>
            "syn, Registering processes timing out, 330k processes to add to the group (https://github.com/ostinelli/syn/issues/37); "
            "Erlang/OTP, pg: distributed named process groups (https://github.com/erlang/otp/pull/2524)",
        flags => ["+S", "2:2"],
        truth =>
            "The pg scope parade_scope is busy all the time: each pg:join and pg:leave of guest/0 copies the member list of the only group "
            "(20000 members, table parade_scope) in and out of ETS; guests queue for it",
        who => ["parade_scope", "\\bpg:(init|handle_call|join|leave|join_local|leave_local|\\w+)/\\d"],
        what => [
            "pg:(join|leave)", "join", "leave", "large (group|list|object|record)", "members?", "ets:(insert|lookup|\\w+)", "garbage", "\\bgc\\b", "copie?s?", "lists:delete",
            "busy", "bottleneck", "queue", "runs? (for|all)", "% of (the |its )?(time|a scheduler)"
        ]
    }.

start() ->
    {ok, Scope} = pg:start(parade_scope),
    true = is_pid(Scope),
    Members = [spawn(fun() -> timer:sleep(infinity) end) || _ <- lists:seq(1, 20000)],
    ok = pg:join(parade_scope, parade, Members),
    lists:foreach(fun(_) -> spawn(?MODULE, guest, []) end, lists:seq(1, 8)).

guest() ->
    ok = pg:join(parade_scope, parade, self()),
    timer:sleep(2),
    ok = pg:leave(parade_scope, parade, self()),
    timer:sleep(2),
    guest().
