%% SPDX-License-Identifier: Apache-2.0
-module(harm_recon).
-export([about/0, setup/0, truth/1, during/1]).

about() ->
    #{source => "https://github.com/ferd/recon/blob/master/src/recon_trace.erl", ignore => [patterns, traced], tool => [{attach, ["--functions", "lists:_/_"]}],
      condition => "while recorded, somebody clears all tracing of the node, and traces lists:reverse/1, as recon_trace does"}.

setup() -> harm:tracer().

during(Tracer) ->
    erlang:trace(all, false, [all]),
    [erlang:trace_pattern({'_', '_', '_'}, false, Flags) || Flags <- [[local, meta, call_count, call_time], []]],
    erlang:trace_pattern({lists, reverse, 1}, true, [local]),
    1 = erlang:trace(self(), true, [call, {tracer, Tracer}]),
    [lists:reverse([N]) || N <- lists:seq(1, 100)],
    put(traced, true).

%% The other tool still traces, and has got its hundred calls and nothing else.
truth(Tracer) ->
    case get(traced) of
        undefined -> [{foreign, 0}, {hundreds, true}, {still_traced, true}, {info_calls, 0}];
        true ->
            Before = harm:traced(Tracer),
            lists:reverse([last]),
            receive after 200 -> ok end,
            Events = harm:traced(Tracer),
            Calls = [E || {trace, _, call, {lists, reverse, _}} = E <- Events],
            [{foreign, length(Events) - length(Calls)}, {hundreds, length(Calls) >= 100},
             {still_traced, length(Events) > length(Before)}, {info_calls, length(Calls)}]
    end ++ [{own_flags, mine(get(traced))}].

mine(undefined) -> ok;
mine(true) ->
    case {erlang:trace_info(self(), flags), erlang:trace_info({lists, reverse, 1}, traced)} of
        {{flags, [call]}, {traced, local}} -> ok;
        Other -> Other
    end.
