%% SPDX-License-Identifier: Apache-2.0
%%
%% Servers that call each other, for kymo_otlp_SUITE. Each server records when its callbacks
%% began and ended, so that the suite knows what the export must show.
-module(kymo_otlp_work).
-behaviour(gen_server).

-export([start/1, start_registered/1, ask/2, spin/1]).
-export([init/1, handle_call/3, handle_continue/2, handle_cast/2, handle_info/2]).

%% A server that is registered as Name.
-spec start(atom()) -> pid().
start(Name) ->
    {ok, Pid} = gen_server:start({local, Name}, ?MODULE, Name, []),
    Pid.

%% The same, called from another node.
-spec start_registered(atom()) -> {ok, pid()}.
start_registered(Name) -> {ok, start(Name)}.

%% Asks the first server to spin for its number of milliseconds and then to ask the rest.
%% Returns the nanoseconds that each server measured around its callback and that the client
%% measured around the call.
-spec ask([{atom() | {atom(), node()} | pid(), pos_integer()}], timeout()) -> [non_neg_integer()].
ask([{Server, Ms} | Rest], Timeout) ->
    Start = erlang:monotonic_time(),
    Inner = gen_server:call(Server, {work, Ms, Rest}, Timeout),
    [since(Start) | Inner].

since(Start) -> erlang:convert_time_unit(erlang:monotonic_time() - Start, native, nanosecond).

init(Name) -> {ok, Name}.

handle_call({work, Ms, Rest}, _, Name) ->
    ok = ?MODULE:spin(Ms),
    {reply, case Rest of [] -> []; _ -> ?MODULE:ask(Rest, infinity) end, Name};
handle_call(crash, _, _) ->
    exit(planted);
handle_call({never, Tell}, _, Name) ->
    {noreply, Name, {continue, {tell, Tell}}};
handle_call({hold, Tell}, _, Name) ->
    Tell ! {began, Name},
    receive after infinity -> ok end.

%% The callback that did not answer has returned.
handle_continue({tell, Tell}, Name) ->
    Tell ! {began, Name},
    {noreply, Name}.

handle_cast({work, Ms}, Name) ->
    ok = ?MODULE:spin(Ms),
    {noreply, Name};
handle_cast({ask, Servers}, Name) ->
    _ = ?MODULE:ask(Servers, infinity),
    {noreply, Name}.

handle_info(_, Name) -> {noreply, Name}.

-spec spin(non_neg_integer()) -> ok.
spin(Ms) -> spin_until(erlang:monotonic_time(millisecond) + Ms).

spin_until(Deadline) ->
    case erlang:monotonic_time(millisecond) < Deadline of
        true -> spin_until(Deadline);
        false -> ok
    end.
