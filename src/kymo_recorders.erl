%% SPDX-License-Identifier: Apache-2.0
%% @private Keeps a list of the running recorders of this node, and the last info of those that
%% have ended. A single process, started with the first recorder. It holds no references that
%% keep the memory of a recorder allocated.
-module(kymo_recorders).

-behaviour(gen_server).

-export([ensure/0, enter/1, ended/2, find/1, find_name/1, list/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).
-export_type([entry/0]).

-type entry() :: #{
    pid := pid(),
    ref := reference(),
    name := atom(),
    dir := binary(),
    policy := overwrite | discard,
    since := integer()
}.

-record(recorders, {
    living = #{} :: #{pid() => entry()},
    %% The most recent first.
    ended = [] :: [{entry(), kymo:info()}]
}).

%% How many ended recorders are remembered. An info takes about 500 bytes, plus 300 for each
%% thread that has recorded.
-define(MAX_ENDED, 16).

%% @doc Starts the process unless it is running.
-spec ensure() -> pid().
ensure() ->
    case whereis(?MODULE) of
        undefined ->
            case gen_server:start({local, ?MODULE}, ?MODULE, [], [{spawn_opt, kymo_server:spawn_options(high)}]) of
                {ok, Pid} -> Pid;
                {error, {already_started, Pid}} -> Pid
            end;
        Pid ->
            Pid
    end.

%% @doc Adds a recorder that has started. Returns a monitor of this module's process.
-spec enter(entry()) -> reference().
enter(Entry) ->
    Monitor = monitor(process, ensure()),
    _ = call({enter, Entry}),
    Monitor.

%% @doc Stores the last info of a recorder that has ended.
-spec ended(entry(), kymo:info()) -> ok.
ended(Entry, Info) ->
    _ = ensure(),
    _ = call({ended, Entry, Info}),
    ok.

%% @doc The last info of a recorder that has ended.
-spec find(reference()) -> {ended, kymo:info()} | gone.
find(Ref) -> call({find, Ref}).

%% @doc The last recorder with this name that has ended.
-spec find_name(atom()) -> {ended, entry()} | gone.
find_name(Name) -> call({find_name, Name}).

%% @doc All living recorders, and those that have ended with their last info.
-spec list() -> {[entry()], [{entry(), kymo:info()}]}.
list() ->
    case call(list) of
        gone -> {[], []};
        Lists -> Lists
    end.

call(Request) ->
    try
        gen_server:call(?MODULE, Request, infinity)
    catch
        exit:{Reason, _} when Reason =:= noproc; Reason =:= normal; Reason =:= killed; Reason =:= shutdown -> gone
    end.

%% ---------------------------------------------------------------------------

%% @private
-spec init([]) -> {ok, #recorders{}}.
init([]) ->
    process_flag(sensitive, true),
    %% A process of the application may link to all others, and fail.
    process_flag(trap_exit, true),
    {ok, #recorders{}}.

%% @private
-spec handle_call(term(), gen_server:from(), #recorders{}) -> {reply, term(), #recorders{}}.
handle_call({enter, #{pid := Pid} = Entry}, _, #recorders{living = Living} = S) ->
    _ = monitor(process, Pid),
    {reply, ok, S#recorders{living = Living#{Pid => Entry}}};
handle_call({ended, #{pid := Pid} = Entry, Info}, _, #recorders{living = Living, ended = Ended} = S) ->
    %% Stored once per recorder: if the server is killed while ending, the janitor reports it
    %% again.
    Remembered =
        case first([known || {#{pid := P}, _} <- Ended, P =:= Pid]) of
            known -> Ended;
            gone -> lists:sublist([{Entry, Info} | Ended], ?MAX_ENDED)
        end,
    {reply, ok, S#recorders{living = maps:remove(Pid, Living), ended = Remembered}};
handle_call({find, Ref}, _, #recorders{ended = Ended} = S) ->
    {reply, first([{ended, Info} || {#{ref := R}, Info} <- Ended, R =:= Ref]), S};
handle_call({find_name, Name}, _, #recorders{ended = Ended} = S) ->
    {reply, first([{ended, Entry} || {#{name := N} = Entry, _} <- Ended, N =:= Name, N =/= undefined]), S};
handle_call(list, _, #recorders{living = Living, ended = Ended} = S) ->
    {reply, {maps:values(Living), Ended}, S}.

first([]) -> gone;
first([One | _]) -> One.

%% @private
-spec handle_cast(term(), #recorders{}) -> {noreply, #recorders{}}.
handle_cast(_, S) -> {noreply, S}.

%% @private
-spec handle_info(term(), #recorders{}) -> {noreply, #recorders{}}.
handle_info({'DOWN', _, process, Pid, _}, #recorders{living = Living} = S) ->
    {noreply, S#recorders{living = maps:remove(Pid, Living)}};
handle_info(_, S) ->
    {noreply, S}.
