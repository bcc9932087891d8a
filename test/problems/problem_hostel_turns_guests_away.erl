%% SPDX-License-Identifier: Apache-2.0
%%
%% Each guest of a hostel is a process that waits for a key which nobody hands out, and so never
%% ends. When the node's process table is almost full, the front desk starts no more of them.
-module(problem_hostel_turns_guests_away).
-behaviour(gen_server).

-export([about/0, start/0, traveller/0, guest/1]).
-export([init/1, handle_call/3, handle_cast/2]).

about() ->
    #{
        title => "The hostel turns all travellers away although nobody is at work in the house",
        source =>
            "erl man page, +P (maximum number of processes); crash dump guide, system_limit: "
            "https://www.erlang.org/doc/apps/erts/crash_dump.html; recon, process counts",
        flags => ["+S", "2:2", "+P", "1024"],
        truth =>
            "About 800 processes guest/1 wait for a message that never comes and never end, so that the process "
            "limit (+P 1024) is reached but for a reserve of 200, and hostel_desk starts no more of them",
        who => [
            "problem_hostel_turns_guests_away:(guest/1|let_in/1|handle_call/3)",
            "hostel_desk"
        ],
        what => [
            "system_limit",
            "process.?(limit|table|count)",
            "(limit|maximum|number|count) (of|on|for) (the )?processes",
            "too many processes",
            "out of processes",
            "processes.{0,40}(leak|never (end|exit|finish|terminat|stop)|pile|accumulat|grow)",
            "leak.{0,20}process"
        ]
    }.

start() ->
    {ok, _} = gen_server:start({local, hostel_desk}, ?MODULE, [], []),
    lists:foreach(fun(_) -> spawn(?MODULE, traveller, []) end, lists:seq(1, 3)),
    timer:sleep(500).

%% Who is turned away comes back after a while.
traveller() ->
    case gen_server:call(hostel_desk, bed, infinity) of
        welcome -> ok;
        full -> timer:sleep(100)
    end,
    traveller().

init([]) -> {ok, 0}.

%% The house keeps the last 200 places of the process table for its own staff.
handle_call(bed, _, N) ->
    case erlang:system_info(process_limit) - erlang:system_info(process_count) > 200 of
        true -> {reply, let_in(N), N + 1};
        false -> {reply, full, N}
    end.

handle_cast(_, S) -> {noreply, S}.

let_in(N) ->
    _ = spawn(?MODULE, guest, [N]),
    welcome.

guest(N) ->
    receive
        {key, Room} -> {N, Room}
    end.
