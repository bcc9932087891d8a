%% SPDX-License-Identifier: Apache-2.0
%%
%% A server keeps eight bytes of each large report. The eight bytes are a part of the
%% large binary, which therefore stays in memory as long as they do.
-module(problem_truck_positions_fill_the_memory).
-behaviour(gen_server).

-export([about/0, start/0, truck/1]).
-export([init/1, handle_call/3, handle_cast/2]).

about() ->
    #{
        title => "Memory grows by megabytes a second although only positions of 8 bytes are kept",
        source =>
            "Fred Hebert, Erlang in Anger, chapter 7, Binaries, Leaks; Erlang/OTP Efficiency Guide, "
            "Constructing and Matching Binaries: binary:copy/1 and referenced_byte_size/1",
        flags => ["+S", "2:2"],
        truth =>
            "fleet_map keeps 8-byte sub-binaries of reports of 64 KB in its state (handle_cast/2), so "
            "the whole reports stay: about 2 MB a second of off-heap binaries, up to 160 MB",
        who => [
            "fleet_map",
            "problem_truck_positions_fill_the_memory:(handle_cast/2|keep/2)"
        ],
        what => [
            "sub-?binar",
            "\\bbinar(y|ies)\\b",
            "ref-?c(ounted)?\\b",
            "off-?heap",
            "vheap",
            "virtual (binary )?heap"
        ]
    }.

start() ->
    {ok, _} = gen_server:start({local, fleet_map}, ?MODULE, [], []),
    _ = [spawn(?MODULE, truck, [N]) || N <- lists:seq(1, 4)],
    ok.

%% A truck sends its position with a picture of the road, eight times a second.
truck(N) ->
    Picture = binary:copy(<<N>>, 64 * 1024),
    Report = <<N:32, (rand:uniform(1000)):32, Picture/binary>>,
    gen_server:cast(fleet_map, {report, Report}),
    timer:sleep(125),
    truck(N).

init([]) ->
    {ok, queue:new()}.

handle_call(count, _, Track) ->
    {reply, queue:len(Track), Track}.

handle_cast({report, <<Position:8/binary, _/binary>>}, Track) ->
    {noreply, keep(Position, Track)}.

%% The track has an end, though a far one: 2500 positions.
keep(Position, Track0) ->
    Track = queue:in(Position, Track0),
    case queue:len(Track) > 2500 of
        true -> queue:drop(Track);
        false -> Track
    end.
