%% SPDX-License-Identifier: Apache-2.0
-module(harm_seq_trace).
-export([about/0, setup/0, truth/1, during/1]).

about() ->
    #{source => "https://github.com/erlang/otp/issues/3780",
      condition => "another tool is the system tracer of seq_trace, and follows a token through ten processes"}.

setup() ->
    Tracer = harm:tracer(),
    seq_trace:set_system_tracer(Tracer),
    {Tracer, lists:foldl(fun(_, Next) -> spawn_link(fun() -> pass(Next) end) end, self(), lists:seq(1, 10))}.

pass(Next) ->
    receive M -> Next ! M end,
    pass(Next).

during(State) -> follow(State).

follow({_, First}) ->
    seq_trace:set_token(label, harm),
    [seq_trace:set_token(Flag, true) || Flag <- [send, 'receive']],
    First ! token,
    receive token -> ok end,
    seq_trace:set_token([]).

%% A round is eleven sends and eleven receives.
truth({Tracer, _} = State) ->
    follow(State),
    receive after 200 -> ok end,
    Events = harm:traced(Tracer),
    [{whole_rounds, length(Events) rem 22 =:= 0}, {info_events, length(Events)}, {tracer, seq_trace:get_system_tracer() =:= Tracer}].
