%% SPDX-License-Identifier: Apache-2.0
%% @private Clears up after a server that died without doing so itself (killed).
%% It is told what will be set before it is set, so it never knows too little.
%% It also keeps the trace session alive: sessions go with their last holder.
-module(kymo_janitor).

-export([start/3, update/2, leave/1]).
-export([init/4]).

%% @doc Starts one that watches the calling process.
-spec start(State :: reference(), kymo_tracing:t() | none, kymo_recorders:entry()) ->
    {pid(), Monitor :: reference()}.
start(State, Tracing, Entry) ->
    proc_lib:spawn_opt(?MODULE, init, [self(), State, Tracing, Entry], [monitor]).

%% @doc Says what the server has set or is about to set. A janitor that is dead
%% is no error here: its monitor tells the server, which starts another one.
-spec update(pid(), kymo_tracing:t()) -> ok.
update(Janitor, Tracing) ->
    Tag = monitor(process, Janitor, [{alias, reply_demonitor}]),
    Janitor ! {update, Tag, Tracing},
    receive
        {Tag, ok} -> ok;
        {'DOWN', Tag, process, _, _} -> ok
    end.

%% @doc Everything is cleared. Returns when the janitor is gone.
-spec leave({pid(), Monitor :: reference()}) -> ok.
leave({Janitor, Monitor}) ->
    Janitor ! leave,
    receive
        {'DOWN', Monitor, process, _, _} -> ok
    end.

%% @private
-spec init(pid(), reference(), kymo_tracing:t() | none, kymo_recorders:entry()) -> ok.
init(Server, State, Tracing, Entry) ->
    process_flag(sensitive, true),
    process_flag(trap_exit, true),
    Monitor = monitor(process, Server),
    loop(Monitor, State, Tracing, Entry).

loop(Monitor, State, Tracing, Entry) ->
    receive
        {update, From, New} ->
            From ! {From, ok},
            loop(Monitor, State, New, Entry);
        leave ->
            ok;
        {'DOWN', Monitor, process, _, _} ->
            clear(Tracing),
            _ = kymo_tracer:stop(State),
            kymo_recorders:ended(Entry, (kymo_tracer:info(State))#{tracing => none, taken => 0, budget => none, triggers => none});
        _ ->
            loop(Monitor, State, Tracing, Entry)
    end.

clear(none) -> ok;
clear(Tracing) -> kymo_tracing:clear(Tracing).
