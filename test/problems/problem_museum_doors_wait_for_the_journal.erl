%% SPDX-License-Identifier: Apache-2.0
%%
%% Each door writes to the journal, and the journal is in synchronous mode: a door goes on when all handlers have seen
%% its event. The handler lays out the whole floor plan as text for each event.
-module(problem_museum_doors_wait_for_the_journal).
-behaviour(gen_event).

-export([about/0, start/0, door/1]).
-export([init/1, handle_event/2, handle_call/2]).

about() ->
    #{
        title => "The doors of the museum open late since the journal was turned up",
        source =>
            "lager_event message queue growth, the current function is lager_default_formatter:make_printable/1 "
            "and the whole system slows down in synchronous mode "
            "(https://github.com/erlang-lager/lager/issues/324)",
        flags => ["+S", "2:2"],
        truth =>
            "All 25 doors wait in gen_event:sync_notify/2 for the one event manager guard_journal, which is busy with "
            "io_lib:format/2 of a large term in handle_event/2 for each event",
        who => [
            "guard_journal",
            "problem_museum_doors_wait_for_the_journal:(handle_event/2|lay_out/1)"
        ],
        what => [
            "io_lib", "format", "pretty.?print", "print(s|ed|ing|able)", "logg?(ing|er|s)?\\b", "journal(ling| entr)",
            "sync_notify", "synchronous(ly)? (log|notif|event|mode|handler)", "event (manager|handler)", "gen_event",
            "\\btext", "convert", "~p", "~s", "string", "serialis"
        ]
    }.

start() ->
    {ok, _} = gen_event:start({local, guard_journal}),
    ok = gen_event:add_handler(guard_journal, ?MODULE, []),
    lists:foreach(fun(N) -> spawn(?MODULE, door, [N]) end, lists:seq(1, 25)).

door(N) ->
    ok = gen_event:sync_notify(guard_journal, {door, N, opened, floor_plan(N)}),
    timer:sleep(10),
    door(N).

floor_plan(N) ->
    [{room, R, [{exhibit, E, "a vase"} || E <- lists:seq(1, 4)], N} || R <- lists:seq(1, 400)].

init([]) -> {ok, 0}.

handle_event(Event, Bytes) -> {ok, Bytes + iolist_size(lay_out(Event))}.

lay_out(Event) -> io_lib:format("~p~n", [Event]).

handle_call(_, S) -> {ok, S, S}.
