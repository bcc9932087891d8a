%% SPDX-License-Identifier: Apache-2.0
%%
%% A process that executes funs for a test, so that its trace events are known; and the messages
%% that a test has received about it.
-module(erts_worker).

-export([worker/0, do/2, in/2, stop/1, until_waiting/1, told/1, flush/0, processors/0]).

%% How many schedulers can run at the same time.
processors() ->
    case erlang:system_info(logical_processors_available) of
        unknown -> erlang:system_info(schedulers_online);
        N -> min(N, erlang:system_info(schedulers_online))
    end.

%% The process executes what it is asked to, and nothing else.
worker() ->
    receive
        {do, Fun, From} -> Fun(), From ! {done, self()}, worker();
        stop -> ok
    end.

%% Returns when the worker has executed the fun. Exits with its reason if the worker dies.
do(Worker, Fun) ->
    Ref = monitor(process, Worker),
    Worker ! {do, Fun, self()},
    receive
        {done, Worker} -> demonitor(Ref, [flush]), ok;
        {'DOWN', Ref, process, Worker, Reason} -> error(Reason)
    end.

%% The result of the fun in the worker.
in(Worker, Fun) ->
    Self = self(),
    do(Worker, fun() -> Self ! {result, Fun()} end),
    receive {result, Result} -> Result end.

%% Returns when a process waits for a message. It must not exit before.
until_waiting(Pid) ->
    case process_info(Pid, status) of
        {status, waiting} -> ok;
        {status, _} -> erlang:yield(), until_waiting(Pid)
    end.

stop(Worker) ->
    Ref = monitor(process, Worker),
    Worker ! stop,
    receive {'DOWN', Ref, process, Worker, _} -> ok end.

%% All messages that the caller has received, including those of all trace events of this process
%% so far: the runtime may deliver these later than the events.
told(Tracee) ->
    Ref = erlang:trace_delivered(Tracee),
    receive {trace_delivered, Tracee, Ref} -> flush() end.

flush() ->
    receive M -> [M | flush()] after 0 -> [] end.
