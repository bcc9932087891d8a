%% SPDX-License-Identifier: Apache-2.0
-module(harm_cprof).
-export([about/0, setup/0, truth/1, during/1, work/1]).

about() ->
    #{source => "https://www.erlang.org/doc/apps/tools/cprof_chapter", tool => [{attach, ["--functions", "harm_cprof:_/_"]}],
      condition => "cprof counts the calls of the module that kymo traces"}.

setup() ->
    cprof:start(?MODULE, work),
    none.

during(_) -> ?MODULE:work(1000).

work(0) -> ok;
work(N) -> work(N - 1).

%% Each round is 1001 calls.
truth(_) ->
    ?MODULE:work(1000),
    cprof:pause(),
    {?MODULE, Sum, Calls} = cprof:analyse(?MODULE),
    erlang:trace_pattern({?MODULE, work, 1}, restart, [call_count]),
    [{whole_rounds, Sum rem 1001 =:= 0 andalso Sum > 0}, {info_calls, Sum}, {functions, [F || {F, _} <- Calls]}].
