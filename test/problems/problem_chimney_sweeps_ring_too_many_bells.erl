%% SPDX-License-Identifier: Apache-2.0
%%
%% The guild lends ladders to sweeps that live for ever. It sets a monitor at each loan, a second one when the sweep had
%% to queue, and takes away only the first.
-module(problem_chimney_sweeps_ring_too_many_bells).
-behaviour(gen_server).

-export([about/0, start/0, sweep/0, init/1, handle_call/3, handle_cast/2]).

about() ->
    #{
        title => "Memory of the sweeps' guild grows all day, its state stays small and its queue is empty",
        source =>
            "poolboy, Fix setting monitors on calling processes: 12 million monitors, long_schedule alarms "
            "(https://github.com/devinus/poolboy/pull/58); riak_repl, Monitor leak "
            "(https://github.com/basho/riak_repl/issues/204)",
        flags => ["+S", "2:2"],
        truth =>
            "ladder_guild sets two monitors per loan in lend/2 and removes one, so its monitors of the 8 long-lived sweeps grow "
            "by thousands a second, and memory with them",
        who => ["ladder_guild", "problem_chimney_sweeps_ring_too_many_bells:(lend/2|init/1|handle_call/3)"],
        what => ["monitor"]
    }.

start() ->
    {ok, _} = gen_server:start({local, ladder_guild}, ?MODULE, [], []),
    lists:foreach(fun(_) -> spawn(?MODULE, sweep, []) end, lists:seq(1, 8)).

sweep() ->
    lists:foreach(
        fun(_) ->
            ok = gen_server:call(ladder_guild, borrow),
            ok = gen_server:call(ladder_guild, give_back)
        end,
        lists:seq(1, 5)
    ),
    timer:sleep(5),
    sweep().

init([]) ->
    {ok, #{}}.

handle_call(borrow, {Pid, _}, Loans) ->
    {reply, ok, lend(Pid, Loans)};
handle_call(give_back, {Pid, _}, Loans) ->
    {Ref, Rest} = maps:take(Pid, Loans),
    true = erlang:demonitor(Ref, [flush]),
    {reply, ok, Rest}.

handle_cast(_, Loans) ->
    {noreply, Loans}.

lend(Pid, Loans) ->
    _ = erlang:monitor(process, Pid),
    Loans#{Pid => erlang:monitor(process, Pid)}.
