%% SPDX-License-Identifier: Apache-2.0
%%
%% A term that all processes read without a copy is replaced many times a second.
%% Each replacement makes the virtual machine look through the heaps of all processes,
%% and those that still hold the old term collect their garbage and copy it.
-module(problem_hotel_guests_pause_together).

-export([about/0, start/0, reception/1, guest/1]).

about() ->
    #{
        title => "All processes are slow at the same moments, several times a second",
        source =>
            "OTP documentation, module persistent_term (erlang.org/doc/man/persistent_term); "
            "github.com/erlang/otp/pull/1989; github.com/electric-sql/electric/issues/3292",
        flags => ["+S", "2:2"],
        truth =>
            "hotel_reception replaces the persistent term room_plan 20 times a second; each "
            "persistent_term:put/2 starts a global garbage collection, in which the 2000 guests "
            "that hold the old term copy it",
        who => [
            "hotel_reception",
            "room_plan",
            "problem_hotel_guests_pause_together:(reception|reissue)/1",
            "persistent_term:put"
        ],
        what => [
            "persistent[_ -]terms?",
            "global (gc|garbage)",
            "garbage",
            "\\bgc\\b",
            "literal",
            "full ?sweep",
            "major collection"
        ]
    }.

start() ->
    ok = reissue(0),
    _ = [spawn(?MODULE, guest, [none]) || _ <- lists:seq(1, 2000)],
    true = register(hotel_reception, spawn(?MODULE, reception, [1])),
    ok.

%% The reception writes the whole plan anew for each guest who changes rooms.
reception(N) ->
    ok = reissue(N),
    timer:sleep(50),
    reception(N + 1).

reissue(N) ->
    persistent_term:put(room_plan, [{Room, N, "key"} || Room <- lists:seq(1, 400)]).

%% A guest keeps the plan that it last saw, and looks at the newest at times.
guest(_Plan) ->
    Plan = persistent_term:get(room_plan),
    receive
        leave -> length(Plan)
    after 100 + rand:uniform(200) ->
        {_, _, _} = hd(Plan),
        guest(Plan)
    end.
