%% SPDX-License-Identifier: Apache-2.0
%%
%% Two links to the patient records, forty receptionists. Each borrows a link for 250 ms, so that most of the time of
%% a booking passes in the line before the pool.
-module(problem_clinic_bookings_time_out).
-behaviour(gen_server).

-export([about/0, start/0, receptionist/0]).
-export([init/1, handle_call/3, handle_cast/2]).

about() ->
    #{
        title => "Bookings at the clinic take five seconds, although one query takes a quarter of a second",
        source =>
            "Ecto's db_connection: connection not available and request was dropped from queue after 2595ms "
            "(https://github.com/elixir-ecto/db_connection/issues/324); the same advice in "
            "https://github.com/supabase/supavisor/issues/172",
        flags => ["+S", "2:2"],
        truth =>
            "40 processes share the 2 links of the pool records_pool, and each holds a link for 250 ms in "
            "with_link/1: a booking waits about 5 s for its turn to check out",
        who => [
            "records_pool",
            "problem_clinic_bookings_time_out:(with_link/1|receptionist/0|check_?out/0|look_up/1|handle_call/3)"
        ],
        what => [
            "\\bpool\\b", "check.?out", "exhaust", "all (connections|links|workers|members|resources) (are )?(busy|taken|in use)",
            "too few", "(no|not) (free|available)", "late reply", "replies? later", "defer", "noreply",
            "waits? for (a |its )?(turn|link|connection|worker|resource|reply)", "capacity", "contention", "semaphore",
            "holds? (a|the|its) (link|connection|worker|resource)", "sleep"
        ]
    }.

start() ->
    {ok, _} = gen_server:start({local, records_pool}, ?MODULE, [], []),
    lists:foreach(fun(_) -> spawn(fun receptionist/0) end, lists:seq(1, 40)).

receptionist() ->
    with_link(fun look_up/1),
    receptionist().

with_link(F) ->
    Link = check_out(),
    F(Link),
    gen_server:cast(records_pool, {check_in, Link}).

check_out() -> gen_server:call(records_pool, check_out, infinity).

%% The query is slow in the database; here nothing is to do.
look_up(_Link) -> timer:sleep(250).

init([]) -> {ok, {[link_1, link_2], queue:new()}}.

handle_call(check_out, _, {[Link | Links], Q}) -> {reply, Link, {Links, Q}};
handle_call(check_out, From, {[], Q}) -> {noreply, {[], queue:in(From, Q)}}.

handle_cast({check_in, Link}, {Links, Q}) ->
    case queue:out(Q) of
        {{value, From}, Q1} ->
            gen_server:reply(From, Link),
            {noreply, {Links, Q1}};
        {empty, Q1} ->
            {noreply, {[Link | Links], Q1}}
    end.
