%% SPDX-License-Identifier: Apache-2.0
%%
%% Turnstiles check PINs with PBKDF2. In OTP 25 that is a NIF which keeps a normal scheduler until it
%% is done, 60 ms and more. With four turnstiles both schedulers are almost always taken by it.
-module(problem_gym_turnstiles_queue_up).
-behaviour(gen_server).

-export([about/0, start/0, turnstile/1, check_pin/2, guard/0]).
-export([init/1, handle_call/3, handle_cast/2]).

about() ->
    #{
        title => "While members enter the gym, even the trivial question who is in takes a tenth of a second",
        source =>
            "https://github.com/erlang/otp/issues/7769 (pbkdf2_hmac function blocks the main schedulers); "
            "long_schedule of erlang:system_monitor/2",
        flags => ["+S", "2:2"],
        truth =>
            "Four turnstiles run crypto:pbkdf2_hmac/5 in check_pin/2, a NIF that holds a normal scheduler for 60 ms "
            "and more without yielding, so that all other processes wait for a scheduler",
        who => ["problem_gym_turnstiles_queue_up:(turnstile/1|check_pin/2)", "turnstile_[1-4]"],
        what => [
            "pbkdf2",
            "crypto:",
            "hash(es|ing)",
            "key derivation",
            "\\bnif\\b",
            "wait[a-z]* for (a|the|its|another) ?(scheduler|processor|cpu|core|turn)",
            "run.?queue",
            "long.?schedul",
            "ran instead"
        ]
    }.

start() ->
    {ok, _} = gen_server:start({local, gym_roll}, ?MODULE, [], []),
    _ = spawn(?MODULE, guard, []),
    lists:foreach(
        fun(N) ->
            Name = list_to_atom("turnstile_" ++ integer_to_list(N)),
            register(Name, spawn(?MODULE, turnstile, [N]))
        end,
        lists:seq(1, 4)
    ).

%% Asks who is in.
guard() ->
    _ = gen_server:call(gym_roll, count, infinity),
    timer:sleep(20),
    guard().

%% Members arrive one after the other.
turnstile(N) ->
    true = is_binary(check_pin(<<"4711">>, <<"salt of member ", N>>)),
    ok = gen_server:call(gym_roll, enter, infinity),
    timer:sleep(10),
    turnstile(N).

check_pin(Pin, Salt) ->
    crypto:pbkdf2_hmac(sha256, Pin, Salt, 60000, 32).

init([]) -> {ok, 0}.

handle_call(count, _, N) -> {reply, N, N};
handle_call(enter, _, N) -> {reply, ok, N + 1}.

handle_cast(_, N) -> {noreply, N}.
