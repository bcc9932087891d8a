%% SPDX-License-Identifier: Apache-2.0
%%
%% A kitchen's clock process starts a timer for each egg, and cancels and starts it anew at each
%% look at the egg: some hundred thousands of timer operations in a second.
-module(problem_kitchen_clocks_tick_late).

-export([about/0, start/0, clock/2]).

about() ->
    #{
        title => "A kitchen for 50000 eggs ticks late, one processor does nothing but watch the time",
        source =>
            "https://github.com/erlang/otp/issues/7480 (erlang:send_after possible scaling issue); "
            "efficiency guide, timer module: https://www.erlang.org/doc/efficiency_guide/commoncaveats.html",
        flags => ["+S", "2:2"],
        truth =>
            "egg_clock cancels and starts timers of 50000 eggs by erlang:cancel_timer/1 and erlang:send_after/3 "
            "(look/2, wind/1) without a pause, and uses one processor for it",
        who => ["egg_clock", "problem_kitchen_clocks_tick_late:(clock/2|wind/1|look/2)"],
        what => ["timer", "send_after"]
    }.

start() ->
    true = register(egg_clock, spawn(fun init/0)),
    ok.

init() ->
    Eggs = lists:seq(1, 50000),
    clock(Eggs, maps:from_list([{E, wind(E)} || E <- Eggs])).

%% Each round looks at all eggs.
clock(Eggs, Timers) ->
    Next = lists:foldl(fun look/2, Timers, Eggs),
    receive
        {boiled, _} -> ok
    after 0 -> ok
    end,
    clock(Eggs, Next).

%% An egg was looked at: its time begins anew.
look(Egg, Timers) ->
    _ = erlang:cancel_timer(maps:get(Egg, Timers)),
    Timers#{Egg := wind(Egg)}.

%% Between four and six minutes.
wind(Egg) ->
    erlang:send_after(240000 + rand:uniform(120000), self(), {boiled, Egg}).
