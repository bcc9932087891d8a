%% SPDX-License-Identifier: Apache-2.0
%%
%% A server hibernates after each message, and the next comes at once. Each hibernation
%% collects all garbage of its large heap.
-module(problem_winery_cellar_overheats).
-behaviour(gen_server).

-export([about/0, start/0, probe/1]).
-export([init/1, handle_call/3, handle_cast/2]).

about() ->
    #{
        title => "A server that stores a number now and then uses a whole processor",
        source =>
            "OTP documentation, modules gen_server and erlang (hibernate/3): not for processes that "
            "get messages soon (erlang.org/doc/man/gen_server); Fred Hebert, Erlang in Anger, "
            "chapter 7, on hibernation against leaks",
        flags => ["+S", "2:2"],
        truth =>
            "barrel_cellar returns hibernate from handle_cast/2 for each message, up to 500 a "
            "second; each time its heap of about 4 MB is garbage collected in full",
        who => [
            "barrel_cellar",
            "problem_winery_cellar_overheats:handle_cast/2"
        ],
        what => [
            "hibernat",
            "garbage",
            "\\bgc\\b",
            "full ?sweep",
            "major collection"
        ]
    }.

start() ->
    {ok, _} = gen_server:start({local, barrel_cellar}, ?MODULE, [], []),
    _ = [spawn(?MODULE, probe, [N]) || N <- lists:seq(1, 10)],
    ok.

%% A probe measures, and asks at times for the place in the log.
probe(N) ->
    lists:foreach(
        fun(I) ->
            gen_server:cast(barrel_cellar, {celsius, N, 10 + I rem 4}),
            timer:sleep(20)
        end,
        lists:seq(1, 20)
    ),
    ok = gen_server:call(barrel_cellar, sync, infinity),
    probe(N).

init([]) ->
    Barrels = [{N, [{year, 2000 + N rem 20}, {litres, 225}]} || N <- lists:seq(1, 60000)],
    {ok, maps:from_list(Barrels)}.

handle_call(sync, _, Barrels) ->
    {reply, ok, Barrels}.

%% Saves memory, it was thought.
handle_cast({celsius, N, Degrees}, Barrels) ->
    {noreply, Barrels#{N := [{celsius, Degrees}]}, hibernate}.
