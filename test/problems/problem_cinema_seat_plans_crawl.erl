%% SPDX-License-Identifier: Apache-2.0
%%
%% A server builds a long list by appending one element at its end, again and again.
-module(problem_cinema_seat_plans_crawl).
-behaviour(gen_server).

-export([about/0, start/0, box_office/0]).
-export([init/1, handle_call/3, handle_cast/2]).

about() ->
    #{
        title => "The seat plan of a large hall takes far longer than four of half its size",
        source =>
            "Erlang/OTP Efficiency Guide, List Handling and The Eight Myths: the operator ++ "
            "copies its left operand (erlang.org/doc/efficiency_guide/listhandling)",
        flags => ["+S", "2:2"],
        truth =>
            "hall_planner builds the list of 6000 seats with Plan ++ [Seat] in arrange/3, which "
            "copies the whole list for each seat: quadratic, a processor is busy with it",
        who => [
            "hall_planner",
            "problem_cinema_seat_plans_crawl:(arrange|handle_call)/3"
        ],
        what => [
            "\\+\\+",
            "append",
            "quadratic",
            "O\\(n",
            "list.{0,30}(cop|concat|build|grow)",
            "(cop|concat|build|grow)\\w*.{0,30}\\blists?\\b",
            "arrange/3"
        ]
    }.

start() ->
    {ok, _} = gen_server:start({local, hall_planner}, ?MODULE, 6000, []),
    _ = [spawn(?MODULE, box_office, []) || _ <- lists:seq(1, 3)],
    ok.

box_office() ->
    Plan = gen_server:call(hall_planner, plan, infinity),
    true = Plan > 0,
    timer:sleep(50),
    box_office().

init(Seats) ->
    {ok, Seats}.

handle_call(plan, _, Seats) ->
    Plan = arrange([], 1, Seats),
    {reply, length(Plan), Seats}.

handle_cast(_, Seats) ->
    {noreply, Seats}.

%% The seats in the order of their numbers.
arrange(Plan, N, Seats) when N > Seats ->
    Plan;
arrange(Plan, N, Seats) ->
    arrange(Plan ++ [{N div 40, N rem 40}], N + 1, Seats).
