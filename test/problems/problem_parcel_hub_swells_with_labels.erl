%% SPDX-License-Identifier: Apache-2.0
%%
%% Each label from outside becomes an atom. Atoms are never collected, and the node ends
%% when their table is full.
-module(problem_parcel_hub_swells_with_labels).

-export([about/0, start/0, intake/1]).

about() ->
    #{
        title => "The node grows by the hour, and ends in the second week",
        source =>
            "Erlang/OTP Efficiency Guide, Common Caveats, list_to_atom/1 "
            "(erlang.org/docs/23/efficiency_guide/commoncaveats); Fred Hebert, Erlang in Anger, "
            "chapter 7, Atom; prog21.dadgum.com/43.html",
        flags => ["+S", "2:2"],
        truth =>
            "parcel_intake makes about 2000 new atoms a second with list_to_atom/1 from the labels of "
            "parcels, in read_label/1; the atom table grows, and is never freed",
        who => [
            "parcel_intake",
            "problem_parcel_hub_swells_with_labels:(intake|read_label)/1"
        ],
        what => ["\\batoms?\\b", "list_to_atom", "atom[_ ]table", "atom_count"]
    }.

start() ->
    true = register(parcel_intake, spawn(?MODULE, intake, [1])),
    ok.

%% A van brings forty parcels every 20 ms.
intake(N) ->
    Van = [read_label(I) || I <- lists:seq(N, N + 39)],
    true = lists:all(fun is_atom/1, Van),
    timer:sleep(20),
    intake(N + 40).

%% The label is a word that no parcel had before, with street and town of the receiver.
read_label(N) ->
    Street = lists:nth(N rem 3 + 1, ["high_street", "mill_lane", "station_road"]),
    Town = lists:nth(N rem 4 + 1, ["ulm", "bath", "lyon", "turin"]),
    list_to_atom(lists:concat(["to_", Town, "_", Street, "_no_", N])).
