%% SPDX-License-Identifier: Apache-2.0
-module(harm_tprof).
-export([about/0, setup/0, truth/1, during/1, work/1]).

about() ->
    #{source => "https://github.com/erlang/otp/pull/9648", erl => {27, 99}, tool => [{attach, ["--functions", "harm_tprof:_/_"]}],
      condition => "tprof measures the time of the function that kymo traces"}.

setup() ->
    {ok, _} = tprof:start(#{type => call_time}),
    tprof:set_pattern(?MODULE, work, 1),
    tprof:enable_trace(self()),
    none.

during(_) -> ?MODULE:work(1000).

work(0) -> ok;
work(N) -> work(N - 1).

truth(_) ->
    ?MODULE:work(1000),
    tprof:pause(),
    {call_time, [{?MODULE, work, 1, Of}]} = tprof:collect(),
    tprof:continue(),
    Calls = lists:sum([N || {_, N, _} <- Of]),
    [{whole_rounds, Calls rem 1001 =:= 0 andalso Calls > 0}, {info_calls, Calls}].
