%% SPDX-License-Identifier: Apache-2.0
%%
%% A state machine postpones all requests while it moves. After each change of its state
%% all of them come back, and all are postponed again, since it moves again.
-module(problem_lift_cabins_come_late).
-behaviour(gen_statem).

-export([about/0, start/0, button/1]).
-export([init/1, callback_mode/0, stopped/3, moving/3]).

about() ->
    #{
        title => "The lift uses a whole processor in the morning, and comes minutes late",
        source =>
            "OTP Design Principles, gen_statem Behaviour, Postponing Events; OTP documentation, "
            "module gen_statem, action postpone: after a state change the queue restarts with the "
            "postponed events (erlang.org/docs/24/man/gen_statem)",
        flags => ["+S", "2:2"],
        truth =>
            "lift_cabin postpones about 60000 requests in moving/3; after each of its state changes it "
            "goes through all of them again, which takes most of the time of a processor",
        who => [
            "lift_cabin",
            "problem_lift_cabins_come_late:(moving|stopped)/3"
        ],
        what => [
            "postpon",
            "retr(y|ied|ies)",
            "re-?(process|deliver|queue|play|handle)",
            "defer",
            "(handles|goes through|looks at) .{0,30}(again|all) .{0,20}(event|message|request)s?",
            "gen_statem:loop",
            "event queue",
            "queue of events"
        ]
    }.

start() ->
    {ok, Lift} = gen_statem:start({local, lift_cabin}, ?MODULE, [], []),
    %% The whole house wants to leave at eight.
    lists:foreach(fun(N) -> gen_statem:cast(Lift, {want, N rem 30}) end, lists:seq(1, 60000)),
    _ = [spawn(?MODULE, button, [Floor]) || Floor <- lists:seq(1, 5)],
    ok.

%% People press the button again while they stand there.
button(Floor) ->
    gen_statem:cast(lift_cabin, {want, Floor}),
    timer:sleep(500),
    button(Floor).

init([]) ->
    {ok, moving, 0, [{state_timeout, 15, arrived}]}.

callback_mode() ->
    state_functions.

%% The cabin stops for one request only, for the floor where it is; it moves on at once.
stopped(cast, {want, Floor}, Floor) ->
    {next_state, moving, Floor, [{state_timeout, 15, arrived}]};
stopped(cast, {want, _}, Floor) ->
    {keep_state, Floor, [postpone]};
stopped(state_timeout, leave, Floor) ->
    {next_state, moving, Floor, [{state_timeout, 15, arrived}]}.

moving(cast, {want, _}, Floor) ->
    {keep_state, Floor, [postpone]};
moving(state_timeout, arrived, Floor) ->
    {next_state, stopped, (Floor + 7) rem 31, [{state_timeout, 5, leave}]}.
