%% SPDX-License-Identifier: Apache-2.0
%% @private Removes the trace flags and patterns of a server that was killed. The server
%% reports what it will set before it sets it, so the janitor always knows everything. It also
%% holds a reference to the trace session, which ends with the last reference.
-module(kymo_janitor).

-export([start/3, update/2, change/2, leave/1]).
-export([init/4]).

%% @doc Starts one that watches the calling process.
-spec start(State :: reference(), kymo_tracing:t() | none, kymo_recorders:entry()) ->
    {pid(), Monitor :: reference()}.
start(State, Tracing, Entry) ->
    spawn_opt(?MODULE, init, [self(), State, Tracing, Entry], [monitor | kymo_server:spawn_options(normal)]).

%% @doc Reports what the server has set or is about to set. A dead janitor is not an error:
%% the server monitors it, and starts another one.
-spec update(pid(), kymo_tracing:t()) -> ok.
update(Janitor, Tracing) -> told(Janitor, update, Tracing).

%% @doc The same as a difference to what was reported before. With many functions, the whole is
%% too large to be copied often.
-spec change(pid(), kymo_tracing:change()) -> ok.
change(Janitor, Change) -> told(Janitor, change, Change).

told(Janitor, How, What) ->
    Tag = monitor(process, Janitor, [{alias, reply_demonitor}]),
    Janitor ! {How, Tag, What},
    receive
        {Tag, ok} -> ok;
        {'DOWN', Tag, process, _, _} -> ok
    end.

%% @doc To be called when everything has been removed. Ends the janitor, and returns when it has
%% ended.
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
        {change, From, Change} ->
            From ! {From, ok},
            loop(Monitor, State, kymo_tracing:changed(Tracing, Change), Entry);
        leave ->
            ok;
        {'DOWN', Monitor, process, _, _} ->
            clear(Tracing),
            _ = kymo_tracer:stop(State),
            _ = kymo_tracer:let_go(State),
            ok = kymo_cost:clear(maps:get(dir, Entry)),
            kymo_recorders:ended(Entry, (kymo_tracer:info(State))#{tracing => none, taken => 0, measures => [], budget => none, triggers => none,
                counters => none, system_monitor => none});
        _ ->
            loop(Monitor, State, Tracing, Entry)
    end.

clear(none) -> ok;
clear(Tracing) -> kymo_tracing:clear(Tracing).
