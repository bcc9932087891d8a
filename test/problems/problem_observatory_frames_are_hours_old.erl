%% SPDX-License-Identifier: Apache-2.0
%%
%% Cameras cast their frames to a server that can't keep up. Nothing holds them back, so
%% its mailbox grows, and what it works on is ever older.
-module(problem_observatory_frames_are_hours_old).
-behaviour(gen_server).

-export([about/0, start/0, camera/1]).
-export([init/1, handle_call/3, handle_cast/2]).

about() ->
    #{
        title => "The sky on the screen is ever older, and memory grows all night",
        source =>
            "Fred Hebert, Erlang in Anger, chapter 3, Planning for Overload, and chapter 5: mailbox "
            "growth of asynchronous casts; the library pobox (github.com/ferd/pobox)",
        flags => ["+S", "2:2"],
        truth =>
            "star_catalog gets 1600 casts a second from the cameras and handles fewer than 600 of them "
            "in handle_cast/2, which computes the brightness: its mailbox grows without limit",
        who => [
            "star_catalog",
            "problem_observatory_frames_are_hours_old:(handle_cast/2|brightness/2)"
        ],
        what => [
            "mail ?box",
            "message queue",
            "queue",
            "backlog",
            "overload",
            "keep(s|ing)? up",
            "more messages",
            "faster than",
            "brightness",
            "messages? .{0,40}(grow|pile|accumulat|wait)"
        ]
    }.

start() ->
    {ok, _} = gen_server:start({local, star_catalog}, ?MODULE, [], []),
    _ = [spawn(?MODULE, camera, [N]) || N <- lists:seq(1, 8)],
    ok.

%% A camera takes some frames each 20 ms, and never asks whether they are wanted.
camera(N) ->
    lists:foreach(
        fun(I) -> gen_server:cast(star_catalog, {frame, N, I}) end,
        lists:seq(1, 4)
    ),
    timer:sleep(20),
    camera(N).

init([]) ->
    {ok, #{}}.

handle_call(count, _, Stars) ->
    {reply, map_size(Stars), Stars}.

handle_cast({frame, N, I}, Stars) ->
    {noreply, Stars#{{N, I} => brightness(N * I, 150000)}}.

brightness(Light, 0) ->
    Light;
brightness(Light, Pixels) ->
    brightness((Light * 1103515245 + Pixels) band 16#ffffff, Pixels - 1).
