%% SPDX-License-Identifier: Apache-2.0
%% @private Reads what is known of a process without sending it a signal.
%%
%% A signal wakes a process that waits: it is scheduled in, handles the signal, and is scheduled out
%% again. That costs time, is in the recording, and on some releases a process that hibernates at
%% that moment is never woken again. The runtime reads some items of `process_info/2' itself if the
%% process is not executing and has no signals to handle; of all other processes and items it
%% asks the process by a signal, and so do `erlang:trace_info/2', `link/1' and `monitor/2'.
-module(kymo_quiet).

-export([info/2, trace_bits/1]).
-export_type([item/0]).

-type item() :: message_queue_len | garbage_collection_info | initial_call | parent | trace.
%% The items that need no signal, of those that kymo uses.

%% @doc The values of the items in their order. `busy': the process is executing, so it would have
%% to be asked.
-spec info(pid(), [item()]) -> {ok, [term()]} | busy | gone.
info(Pid, Items) ->
    case process_info(Pid, status) of
        {_, Status} when Status =:= running; Status =:= garbage_collecting; Status =:= exiting -> busy;
        {_, _} -> values(process_info(Pid, Items));
        undefined -> gone
    end.

values(undefined) -> gone;
values(Values) -> {ok, [Value || {_, Value} <- Values]}.

%% @doc The trace flags of a process, as bits that differ between releases: those of all tracers and
%% sessions. 0 means that nothing traces it.
-spec trace_bits(pid()) -> {ok, non_neg_integer()} | busy | gone.
trace_bits(Pid) ->
    case info(Pid, [trace]) of
        {ok, [Bits]} -> {ok, Bits};
        Other -> Other
    end.
