%% SPDX-License-Identifier: Apache-2.0
%%
%% Each of 12 teachers asks who is present, and gets the whole list of 15000 pupils as a message, to look for one of
%% them.
-module(problem_school_roll_call_drags).
-behaviour(gen_server).

-export([about/0, start/0, teacher/1]).
-export([init/1, handle_call/3, handle_cast/2]).

about() ->
    #{
        title => "To ask whether one pupil is present takes a quarter of a second when all teachers ask",
        source =>
            "Phoenix, Presence timeout on heavy load: GenServer.call(App.Presence, {:list, ...}) times out "
            "(https://github.com/phoenixframework/phoenix_pubsub/issues/71); Tracker pool and dirty list "
            "(https://github.com/phoenixframework/phoenix_pubsub/pull/79)",
        flags => ["+S", "2:2"],
        truth =>
            "attendance_tracker answers each question with all 15000 entries: ets:tab2list/1 of the table roll_book "
            "and the copy of the answer into the heap of the caller take its time, 12 teachers wait for it",
        who => [
            "attendance_tracker", "roll_book", "ets:(tab2list|select|match_object)/\\d",
            "problem_school_roll_call_drags:(everyone/0|handle_call/3|present/1|teacher/1)"
        ],
        what => [
            "cop(y|ies|ied|ying)", "(large|big|whole|huge|long) (message|reply|answer|list|table|term|data)", "tab2list", "ets:select",
            "(whole|full|entire) (ets )?table", "table scan", "reads? (all|every)", "all (entries|rows|objects|records|elements)", "message (size|of [0-9])",
            "garbage", "\\bgc\\b", "single (process|server)", "bottleneck", "seriali[sz]", "saturat", "overload", "cpu", "processor time", "computes?", "busy"
        ]
    }.

start() ->
    {ok, _} = gen_server:start({local, attendance_tracker}, ?MODULE, [], []),
    lists:foreach(fun(N) -> spawn(?MODULE, teacher, [N]) end, lists:seq(1, 12)).

teacher(N) ->
    _ = present((N * 263) rem 15000 + 1),
    teacher(N + 1).

present(Pupil) ->
    All = gen_server:call(attendance_tracker, list, infinity),
    lists:keymember(Pupil, 1, All).

init([]) ->
    _ = ets:new(roll_book, [named_table, protected, ordered_set]),
    true = ets:insert(roll_book, [{P, {class, P rem 40}, [{phx_ref, P}, {since, 8, 0}]} || P <- lists:seq(1, 15000)]),
    {ok, none}.

handle_call(list, _, S) -> {reply, everyone(), S}.

handle_cast(_, S) -> {noreply, S}.

everyone() -> ets:tab2list(roll_book).
