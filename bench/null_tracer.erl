%% SPDX-License-Identifier: Apache-2.0
%%
%% The Erlang half of null_tracer.c.
-module(null_tracer).

-export([count_from/0, count_to/1, cpu_time/0, load/1]).
-export([enabled/3, enabled_call/3, enabled_send/3, trace/5, trace_call/5, trace_send/5]).

load(Dir) ->
    erlang:load_nif(filename:join(Dir, ?MODULE), []).

count_from() -> erlang:nif_error(not_loaded).
count_to(_) -> erlang:nif_error(not_loaded).
cpu_time() -> erlang:nif_error(not_loaded).
enabled(_, _, _) -> erlang:nif_error(not_loaded).
enabled_call(_, _, _) -> erlang:nif_error(not_loaded).
enabled_send(_, _, _) -> erlang:nif_error(not_loaded).
trace(_, _, _, _, _) -> erlang:nif_error(not_loaded).
trace_call(_, _, _, _, _) -> erlang:nif_error(not_loaded).
trace_send(_, _, _, _, _) -> erlang:nif_error(not_loaded).
