%% SPDX-License-Identifier: Apache-2.0
-module(harm_throughput).
-export([about/0, setup/0, truth/1, during/1]).

about() ->
    #{source => "https://github.com/rabbitmq/looking_glass/issues/5", tool => [attach, {attach, ["--functions", "_:_/_"]}],
      condition => "rings of processes pass messages as fast as they can; a quarter of the work must still be done while recorded"}.

setup() ->
    Count = counters:new(1, []),
    [ring(Count) || _ <- lists:seq(1, 4)],
    {Count, work(Count, 2000)}.

ring(Count) ->
    First = spawn_link(fun() -> receive {next, P} -> pass(P, Count) end end),
    Last = lists:foldl(fun(_, P) -> spawn_link(fun() -> pass(P, Count) end) end, First, lists:seq(1, 49)),
    First ! {next, Last},
    First ! token.

pass(Next, Count) ->
    receive M -> counters:add(Count, 1, 1), Next ! M end,
    pass(Next, Count).

%% Messages for each millisecond of processor time that the node got, since others use the machine too.
work(Count, Ms) ->
    {N, {Cpu, _}} = {counters:get(Count, 1), erlang:statistics(runtime)},
    receive after Ms -> ok end,
    {Now, _} = erlang:statistics(runtime),
    (counters:get(Count, 1) - N) div max(1, Now - Cpu).

during({Count, _}) -> put(during, work(Count, 2000)).

truth({Count, Base}) ->
    During = case get(during) of undefined -> Base; D -> D end,
    After = work(Count, 1000),
    [{slow_during, During * 4 < Base}, {slow_after, After * 2 < Base}, {info_rates, {Base, During, After}}].
