%% SPDX-License-Identifier: Apache-2.0
%%
%% A Common Test hook for scripts/otp-blocking: counts for each suite how often the schedulers
%% of the node that runs it were stopped, and why.
-module(otp_blocking).

-export([init/2, pre_init_per_suite/3, post_end_per_suite/4, terminate/1]).

%% The option is the file to which the counts are appended: one line for each suite and cause.
init(_Id, File) ->
    {ok, {lists:flatten(File), counts()}}.

pre_init_per_suite(_Suite, Config, {File, _}) ->
    {Config, {File, counts()}}.

post_end_per_suite(Suite, _Config, Return, {File, Before}) ->
    After = counts(),
    ok = file:write_file(File,
                         [io_lib:format("~s ~s ~b~n", [Suite, Cause, N - maps:get(Cause, Before)])
                          || {Cause, N} <- lists:sort(maps:to_list(After)),
                             N > maps:get(Cause, Before)],
                         [append]),
    {Return, {File, After}}.

terminate(_State) ->
    ok.

counts() ->
    erlang:system_info(kymo_blocking).
