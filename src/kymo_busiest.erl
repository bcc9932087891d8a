%% SPDX-License-Identifier: Apache-2.0
%% @private A process that finds the longest mailboxes and the largest heaps of the node for
%% {@link kymo_counters}.
%%
%% It measures at most ?SLICE + 2 * ?KEPT + ?REPORTED processes each time, however many the node
%% has: those that were the busiest so far, those that the system monitor has reported since, and
%% the next part of the process table. So every process is measured once per round through the
%% table.
%%
%% It is a process of its own because `process_info/2' waits for a process that is executing.
%% The process that takes the samples must not wait: the trigger `stopped' depends on its
%% punctuality.
-module(kymo_busiest).

-export([start/0, stop/1, ask/1, reported/2]).
-export([init/1]).
-export_type([values/0]).

-type values() :: [{busy_process | mailbox_length | heap_size, Rank :: pos_integer(), pid() | non_neg_integer()}].
%% For each rank a `busy_process', if there is one, and then the value.

-record(busiest, {
    rest = none :: none | [pid()] | {iterator, term()},
    kept = [] :: [pid()],
    reported = [] :: [pid()]
}).

%% Processes of the table measured at a time.
-define(SLICE, 200).
%% Processes with the longest mailboxes, and with the largest heaps, that are measured each time.
-define(KEPT, 16).
%% Processes named by the system monitor that are measured at a time.
-define(REPORTED, 32).
%% Ranks returned.
-define(RANKS, 3).

%% @doc Starts the process, linked to the calling process.
-spec start() -> pid().
start() -> spawn_opt(?MODULE, init, [self()], [link, {max_heap_size, 0}]).

%% @doc Ends the process. Returns when it has ended.
-spec stop(pid()) -> ok.
stop(Pid) ->
    Down = monitor(process, Pid),
    unlink(Pid),
    exit(Pid, kill),
    receive
        {'DOWN', Down, process, _, _} -> ok
    end.

%% @doc Requests a measurement. The calling process, which has started this one, receives
%% `{busiest, Pid, Values}'. To be called again only after that.
-spec ask(pid()) -> ok.
ask(Pid) ->
    Pid ! measure,
    ok.

%% @doc The next measurement includes a process.
-spec reported(pid(), pid()) -> ok.
reported(Pid, Process) ->
    Pid ! {reported, Process},
    ok.

%% @private
-spec init(pid()) -> no_return().
init(Parent) ->
    process_flag(sensitive, true),
    loop(Parent, #busiest{}).

loop(Parent, #busiest{reported = Reported} = B) ->
    receive
        measure ->
            {Values, Next} = measure(B),
            Parent ! {busiest, self(), Values},
            loop(Parent, Next);
        {reported, Process} when length(Reported) < ?REPORTED ->
            loop(Parent, B#busiest{reported = [Process | Reported]});
        _ ->
            loop(Parent, B)
    end.

measure(#busiest{rest = Rest, kept = Kept, reported = Reported}) ->
    {Slice, Then} = slice(?SLICE, Rest, []),
    Pids = lists:usort(Kept ++ Reported ++ Slice) -- [self()],
    Measured = [M || P <- Pids, M <- sizes(P)],
    Mailboxes = most([{Length, P} || {P, Length, _} <- Measured, Length > 0]),
    Heaps = most([{Bytes, P} || {P, _, Bytes} <- Measured]),
    {ranked(mailbox_length, 1, Mailboxes) ++ ranked(heap_size, 1, Heaps), #busiest{
        rest = Then, kept = lists:usort([P || {_, P} <- Mailboxes ++ Heaps])
    }}.

most(List) -> lists:sublist(lists:reverse(lists:sort(List)), ?KEPT).

%% Every rank has a value, so that charts fall to 0 when fewer mailboxes have messages.
ranked(_, Rank, _) when Rank > ?RANKS -> [];
ranked(Counter, Rank, []) -> [{Counter, Rank, 0} | ranked(Counter, Rank + 1, [])];
ranked(Counter, Rank, [{N, P} | Rest]) -> [{busy_process, Rank, P}, {Counter, Rank, N} | ranked(Counter, Rank + 1, Rest)].

%% The runtime reads these items of a process that is not executing without scheduling it, unlike
%% `memory' and `total_heap_size', which would also add events to the recording.
sizes(Pid) ->
    case process_info(Pid, [message_queue_len, garbage_collection_info]) of
        [{_, Length}, {_, Info}] -> [{Pid, Length, bytes(Info)}];
        _ -> []
    end.

bytes(Info) ->
    Words = [N || {Key, N} <- Info, Key =:= heap_block_size orelse Key =:= old_heap_block_size orelse Key =:= mbuf_size],
    lists:sum(Words) * erlang:system_info(wordsize).

%% ---- the process table ------------------------------------------------------------

%% The next N processes of the round; fewer at its end. The next call begins a new round.
slice(N, none, []) ->
    case erlang:function_exported(erlang, processes_iterator, 0) of
        true -> slice(N, {iterator, (runtime()):processes_iterator()}, []);
        false -> slice(N, processes(), [])
    end;
slice(N, {iterator, Iterator}, Pids) when N > 0 ->
    case (runtime()):processes_next(Iterator) of
        {Pid, Next} -> slice(N - 1, {iterator, Next}, [Pid | Pids]);
        none -> {Pids, none}
    end;
slice(N, [Pid | Rest], Pids) when N > 0 ->
    slice(N - 1, Rest, [Pid | Pids]);
slice(_, [], Pids) ->
    {Pids, none};
slice(_, Rest, Pids) ->
    {Pids, Rest}.

%% processes_iterator/0 came with OTP 28. Calls through this function compile without warnings on
%% older releases.
runtime() -> erlang.
