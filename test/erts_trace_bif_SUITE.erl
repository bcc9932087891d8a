%% SPDX-License-Identifier: Apache-2.0
%%
%% The trace BIFs that act on everything there is: trace/3 on all processes and
%% ports, trace_info/2, system_monitor/2, system_profile/2. What they do is checked
%% on any runtime; that they don't stop the schedulers, only on the patched one.
-module(erts_trace_bif_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-export([all/0, groups/0, suite/0, init_per_suite/1, end_per_suite/1,
         init_per_group/2, end_per_group/2, init_per_testcase/2,
         end_per_testcase/2]).
-export([blocking_unknown_in_stock/1, blocking_counts/1, blocking_by_cause/1]).

suite() ->
    [{timetrap, {minutes, 5}}].

all() ->
    [blocking_unknown_in_stock, {group, patched}].

groups() ->
    [{patched, [], [blocking_counts, blocking_by_cause]}].

init_per_suite(Config) ->
    Config.

end_per_suite(_Config) ->
    ok.

init_per_group(patched, Config) ->
    case is_patched() of
        true -> Config;
        false -> {skip, "this runtime does not carry the kymo series"}
    end.

end_per_group(_Group, _Config) ->
    ok.

init_per_testcase(blocking_unknown_in_stock, Config) ->
    case is_patched() of
        true -> {skip, "this runtime carries the kymo series"};
        false -> Config
    end;
init_per_testcase(_Case, Config) ->
    Config.

end_per_testcase(_Case, _Config) ->
    ok.

is_patched() ->
    try erlang:system_info(kymo_blocking) of
        _ -> true
    catch
        error:badarg -> false
    end.

%%--------------------------------------------------------------------------
%% How often the schedulers were stopped, and why

blocking_unknown_in_stock(_Config) ->
    ?assertError(badarg, erlang:system_info(kymo_series)),
    ?assertError(badarg, erlang:system_info(kymo_blocking)).

%% Nothing is counted that doesn't block, and each time that something blocks is
%% counted, also when many do at once.
blocking_counts(_Config) ->
    {_, []} = blocked_by(fun() ->
                                 _ = [lists:seq(1, 1000) || _ <- lists:seq(1, 1000)],
                                 erlang:garbage_collect()
                         end),
    erts_debug:set_internal_state(available_internal_state, true),
    Blocker = fun(N) ->
                      fun() ->
                              [true = erts_debug:set_internal_state(block, 1)
                               || _ <- lists:seq(1, N)]
                      end
              end,
    {_, [{debug_block, 1}]} = blocked_by(Blocker(1)),
    {_, [{debug_block, 70}]} =
        blocked_by(fun() -> parallel([Blocker(7) || _ <- lists:seq(1, 10)]) end),
    erts_debug:set_internal_state(available_internal_state, false).

%% Each operation counts for its own cause.
blocking_by_cause(_Config) ->
    erts_debug:set_internal_state(available_internal_state, true),
    Min = element(2, erlang:system_info(min_heap_size)),
    MinBin = element(2, erlang:system_info(min_bin_vheap_size)),
    Max = erlang:system_info(max_heap_size),
    [?assertMatch({Cause, {_, [{Cause, 1}]}}, {Cause, blocked_by(Fun)})
     || {Cause, Fun} <-
            [{min_heap_size, fun() -> erlang:system_flag(min_heap_size, Min) end},
             {min_bin_vheap_size, fun() -> erlang:system_flag(min_bin_vheap_size, MinBin) end},
             {max_heap_size, fun() -> erlang:system_flag(max_heap_size, Max) end},
             {exact_reductions, fun() -> erlang:statistics(exact_reductions) end},
             {system_info_text, fun() -> erlang:system_info(info) end},
             {system_info_text, fun() -> erlang:system_info(loaded) end},
             {scheduler_stat, fun() -> erlang:system_flag(scheduling_statistics, disable) end},
             {debug_memory, fun() -> erts_debug:get_internal_state(memory) end},
             {debug_check_io, fun() -> erts_debug:get_internal_state(check_io_debug) end},
             {debug_node_references,
              fun() -> erts_debug:get_internal_state(node_and_dist_references) end},
             {debug_node_monitors,
              fun() -> erts_debug:get_internal_state(monitoring_nodes) end}]],
    erts_debug:set_internal_state(available_internal_state, false).

%%--------------------------------------------------------------------------
%% Help

%% What a function returns, and how often each cause has stopped the schedulers
%% meanwhile.
blocked_by(Fun) ->
    Before = erlang:system_info(kymo_blocking),
    Result = Fun(),
    After = erlang:system_info(kymo_blocking),
    {Result, [{Cause, N - maps:get(Cause, Before)}
              || {Cause, N} <- lists:sort(maps:to_list(After)),
                 N =/= maps:get(Cause, Before)]}.

%% The results of functions that run at the same time.
parallel(Funs) ->
    Pids = [spawn_monitor(fun() -> exit({done, Fun()}) end) || Fun <- Funs],
    [receive {'DOWN', Ref, process, Pid, {done, Result}} -> Result end || {Pid, Ref} <- Pids].
