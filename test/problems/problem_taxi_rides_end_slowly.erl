%% SPDX-License-Identifier: Apache-2.0
%%
%% One handler of an event manager is slow. All handlers run in the manager's process, so
%% everyone who notifies it synchronously is as slow.
-module(problem_taxi_rides_end_slowly).
-behaviour(gen_event).

-export([about/0, start/0, taxi/1]).
-export([init/1, handle_event/2, handle_call/2]).

about() ->
    #{
        title => "The end of a ride takes seconds to book, although the meter itself is quick",
        source =>
            "Cesarini and Vinoski, Designing for Scalability with Erlang/OTP, chapter 7, Event "
            "Handlers; Fred Hebert, Learn You Some Erlang, Event Handlers",
        flags => ["+S", "2:2"],
        truth =>
            "The handler printer of the event manager ride_events needs 60 ms for each event in "
            "handle_event/2 (it sleeps for its paper); 12 taxis wait in gen_event:sync_notify/2",
        who => [
            "ride_events",
            "problem_taxi_rides_end_slowly:(handle_event/2|print/1)"
        ],
        what => [
            "handle_event",
            "event handler",
            "handler",
            "sleep",
            "sync_notify",
            "event manager.*(slow|busy|blocked)",
            "slow.*handler"
        ]
    }.

start() ->
    {ok, Manager} = gen_event:start({local, ride_events}),
    ok = gen_event:add_handler(Manager, {?MODULE, meter}, {meter, 0}),
    ok = gen_event:add_handler(Manager, {?MODULE, printer}, {printer, 0}),
    _ = [spawn(?MODULE, taxi, [N]) || N <- lists:seq(1, 12)],
    ok.

%% A taxi drives a little, and reports the end of its ride.
taxi(N) ->
    timer:sleep(20 + N),
    ok = gen_event:sync_notify(ride_events, {ride, N, rand:uniform(30)}),
    taxi(N).

init({Role, Sum}) ->
    {ok, {Role, Sum}}.

%% The meter only adds.
handle_event({ride, _, Km}, {meter, Sum}) ->
    {ok, {meter, Sum + Km}};
handle_event({ride, N, Km}, {printer, Sum}) ->
    ok = print({N, Km}),
    {ok, {printer, Sum + 1}}.

handle_call(sum, {Role, Sum}) ->
    {ok, Sum, {Role, Sum}}.

%% The printer of receipts reports its paper after a time.
print({N, Km}) ->
    _ = integer_to_binary(N * Km),
    timer:sleep(60).
