%% SPDX-License-Identifier: Apache-2.0
-module(harm_timers).
-behaviour(gen_statem).
-export([about/0, setup/0, truth/1, init/1, callback_mode/0, handle_event/4]).

about() ->
    #{source => "https://github.com/erlang/otp/pull/9579",
      condition => "100 state machines with state timeouts of 500 ms, which measure when they fire"}.

setup() ->
    Late = counters:new(2, []),
    [{ok, _} = gen_statem:start_link(?MODULE, Late, []) || _ <- lists:seq(1, 100)],
    Late.

init(Late) -> {ok, waiting, {Late, now_ms()}, [{state_timeout, 500, go}]}.
callback_mode() -> handle_event_function.

handle_event(state_timeout, go, _, {Late, Since}) ->
    Took = now_ms() - Since,
    counters:add(Late, 1, 1),
    Took >= 499 andalso Took < 3000 orelse counters:add(Late, 2, 1),
    {next_state, make_ref(), {Late, now_ms()}, [{state_timeout, 500, go}]};
handle_event(_, _, _, {Late, _} = Data) ->
    counters:add(Late, 2, 1),
    {keep_state, Data}.

now_ms() -> erlang:monotonic_time(millisecond).

truth(Late) -> [{late_or_stray, counters:get(Late, 2)}, {info_fired, counters:get(Late, 1)}].
