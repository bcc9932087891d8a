%% SPDX-License-Identifier: Apache-2.0
-module(harm_idle).
-export([about/0, setup/0, truth/1]).

about() ->
    #{source => "https://github.com/erlang/otp/pull/2935", erl => {27, 99},
      condition => "500 idle processes, which a trace session of another tool sees being scheduled"}.

setup() ->
    Idle = [spawn_link(fun() -> receive stop -> ok end end) || _ <- lists:seq(1, 500)],
    harm:wait_for(fun() -> lists:all(fun(P) -> process_info(P, status) =:= {status, waiting} end, Idle) end),
    Tracer = harm:tracer(),
    Session = trace:session_create(other_tool, Tracer, []),
    [1 = trace:process(Session, P, true, [running]) || P <- Idle],
    {Tracer, Session, length(Idle)}.

truth({Tracer, _, Idle}) ->
    Runs = length([x || {trace, _, in, _} <- harm:traced(Tracer)]),
    [{runs_of_each, (Runs + Idle div 2) div Idle}, {info_runs, Runs}].
