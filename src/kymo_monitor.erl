%% SPDX-License-Identifier: Apache-2.0
%% @private Receives reports of `erlang:system_monitor/2' for a recorder: sets the monitor for
%% the calling process, detects when another process has set it, and unsets it at the end.
%%
%% On OTP 28 and later it uses a trace session of its own, which is independent of the settings
%% of other processes. On older releases a node has only one setting. If another process has
%% set it, that setting is left unchanged and recorded as `held', and the recorder sets its own
%% when that process has ended.
-module(kymo_monitor).

-export([check/1, options/1, new/2, look/2, event/2, clear/1, describe/1]).
-export_type([option/0, t/0, note/0]).

-type option() :: none | default | [setting()].
-type setting() ::
    {long_gc, Milliseconds :: non_neg_integer()}
    | {long_schedule, Milliseconds :: non_neg_integer()}
    | {large_heap, Words :: non_neg_integer()}
    | {long_message_queue, {Short :: non_neg_integer(), Long :: pos_integer()}}
    | busy_port
    | busy_dist_port.
%% As `erlang:system_monitor/2' takes them.

-type note() :: {Kind :: atom(), {pid() | port() | undefined, port() | undefined}, non_neg_integer(),
                 {mfa() | undefined, mfa() | undefined}}.

-record(monitor, {
    settings :: [setting()],
    session :: none | term(),
    state = off :: off | set | {held, pid() | port()} | too_many,
    events = 0 :: non_neg_integer(),
    left_out = 0 :: non_neg_integer(),
    %% The start of the second for which `in_window' counts.
    window = none :: none | integer(),
    in_window = 0 :: non_neg_integer()
}).
-opaque t() :: #monitor{}.

%% The maximum number of reports recorded per second. Beyond it the monitor is unset until the
%% next second, because one busy port may suspend thousands of processes.
-define(MOST, 500).

%% @doc Whether the term is a valid value of the option `system_monitor'.
-spec check(term()) -> boolean().
check(none) -> true;
check(default) -> true;
check([_ | _] = List) ->
    is_proper(List) andalso lists:all(fun is_setting/1, List) andalso
        length(lists:usort([name(S) || S <- List])) =:= length(List);
check(_) -> false.

is_proper(List) -> is_integer(catch length(List)).

is_setting({Time, Ms}) when Time =:= long_gc; Time =:= long_schedule -> is_limit(Ms);
is_setting({large_heap, Words}) -> is_limit(Words);
is_setting({long_message_queue, {Short, Long}}) ->
    has_long_message_queue() andalso is_limit(Short) andalso is_limit(Long) andalso Short < Long;
is_setting(Port) -> Port =:= busy_port orelse Port =:= busy_dist_port.

%% The runtime rejects larger values.
is_limit(N) -> is_integer(N) andalso N >= 0 andalso N < 1 bsl 31.

name({Name, _}) -> Name;
name(Name) -> Name.

has_long_message_queue() -> list_to_integer(erlang:system_info(otp_release)) >= 27.

%% @doc The settings for the value of the option.
-spec options(option()) -> none | [setting()].
options(default) ->
    [busy_port, busy_dist_port, {long_gc, 100}, {long_schedule, 100}, {large_heap, 16 * 1024 * 1024}] ++
        [{long_message_queue, {1000, 10000}} || has_long_message_queue()];
options(Option) ->
    Option.

%% @doc The calling process receives the messages. `session' uses a trace session of its own, if
%% the runtime supports it.
-spec new([setting()], session | global) -> t().
new(Settings, session) ->
    _ = code:ensure_loaded(api()),
    case erlang:function_exported(api(), system, 3) of
        true -> #monitor{settings = Settings, session = (api()):session_create(kymo_monitor, self(), [])};
        false -> new(Settings, global)
    end;
new(Settings, global) ->
    #monitor{settings = Settings, session = none}.

%% The module `trace' came with OTP 27, its function system/3 with OTP 28. Calls through this
%% function compile without warnings on older releases.
api() -> trace.

set_session(Session, Settings) ->
    lists:foreach(fun({Name, Value}) -> (api()):system(Session, Name, Value) end, Settings).

%% @doc Sets the monitor if that is possible now, and checks whether another process has set it.
%% `Now' is in milliseconds. To be called at least every second.
-spec look(integer(), t()) -> {[note()], t()}.
look(Now, #monitor{window = none} = M) ->
    look(Now, M#monitor{window = Now});
look(Now, #monitor{state = too_many, window = Window, left_out = N} = M) when Now - Window >= 1000 ->
    {Notes, Set} = set(M#monitor{state = off, in_window = 0, window = Now, left_out = 0}),
    {[note(too_many, undefined, N) | Notes], Set};
look(_, #monitor{state = too_many} = M) ->
    {[], M};
look(Now, #monitor{window = Window} = M) when Now - Window >= 1000 ->
    set(M#monitor{in_window = 0, window = Now});
look(_, M) ->
    set(M).

set(#monitor{session = none} = M) ->
    Self = self(),
    case erlang:system_monitor() of
        {Self, _} -> {[], M};
        undefined -> set_global(M);
        {Other, _} -> held(Other, M)
    end;
set(#monitor{state = set} = M) ->
    {[], M};
set(#monitor{session = Session, settings = Settings} = M) ->
    set_session(Session, proplists:unfold(Settings)),
    {[note(set, undefined, 0)], M#monitor{state = set}}.

%% Another process may have set it in between.
set_global(#monitor{settings = Settings} = M) ->
    case erlang:system_monitor(self(), Settings) of
        undefined ->
            {[note(set, undefined, 0)], M#monitor{state = set}};
        {Other, Theirs} ->
            give_back(Other, Theirs),
            held(Other, M)
    end.

give_back(Other, Theirs) ->
    _ =
        try
            erlang:system_monitor(Other, Theirs)
        catch
            error:badarg -> erlang:system_monitor(undefined)
        end,
    ok.

held(Other, #monitor{state = {held, Other}} = M) -> {[], M};
held(Other, M) -> {[note(held, Other, 0)], M#monitor{state = {held, Other}}}.

note(Kind, Process, Value) -> {Kind, {Process, undefined}, Value, {undefined, undefined}}.

%% @doc Decodes a message of the monitor. Returns `ignore' for other messages, and for reports
%% beyond the maximum.
-spec event(term(), t()) -> {note() | ignore, t()}.
event({monitor, _, _, _}, #monitor{state = too_many, left_out = N} = M) ->
    {ignore, M#monitor{left_out = N + 1}};
event({monitor, Process, Kind, Info}, #monitor{in_window = N} = M) when is_pid(Process); is_port(Process) ->
    case said(Kind, Process, Info) of
        ignore -> {ignore, M};
        _ when N >= ?MOST -> {ignore, too_many(M)};
        Note -> {Note, M#monitor{in_window = N + 1, events = M#monitor.events + 1}}
    end;
event(_, M) ->
    {ignore, M}.

too_many(M) -> (unset(M))#monitor{state = too_many, left_out = 1}.

said(Kind, Process, Info) when Kind =:= long_gc; Kind =:= long_schedule ->
    {Kind, {Process, undefined}, value(timeout, Info), {function(out, Info), function(in, Info)}};
said(large_heap, Process, Info) ->
    note(large_heap, Process, value(heap_block_size, Info) + value(old_heap_block_size, Info));
said(Kind, Process, Port) when Kind =:= busy_port; Kind =:= busy_dist_port ->
    {Kind, {Process, local_port(Port)}, 0, {undefined, undefined}};
said(long_message_queue, Process, true) ->
    note(long_message_queue, Process, 1);
said(long_message_queue, Process, false) ->
    note(long_message_queue, Process, 0);
said(_, _, _) ->
    ignore.

local_port(Port) when is_port(Port) -> Port;
local_port(_) -> undefined.

value(Key, Info) ->
    case lists:keyfind(Key, 1, Info) of
        {_, N} when is_integer(N), N >= 0 -> N;
        _ -> 0
    end.

function(Key, Info) ->
    case lists:keyfind(Key, 1, Info) of
        {_, {M, F, A}} when is_atom(M), is_atom(F), is_integer(A) -> {M, F, A};
        _ -> undefined
    end.

%% @doc Unsets the monitor, unless another process has set it.
-spec clear(t()) -> ok.
clear(#monitor{session = none} = M) ->
    _ = unset(M),
    ok;
clear(#monitor{session = Session}) ->
    _ = (api()):session_destroy(Session),
    ok.

unset(#monitor{session = none} = M) ->
    Self = self(),
    case erlang:system_monitor() of
        {Self, _} ->
            %% Another process may have set it since the check.
            case erlang:system_monitor(undefined) of
                {Other, Theirs} when Other =/= Self -> give_back(Other, Theirs);
                _ -> ok
            end;
        _ ->
            ok
    end,
    M#monitor{state = off};
unset(#monitor{session = Session, settings = Settings} = M) ->
    set_session(Session, [{name(S), false} || S <- Settings]),
    M#monitor{state = off}.

%% @doc For `kymo:info/1'.
-spec describe(t()) -> map().
describe(#monitor{state = State, session = Session, settings = Settings, events = Events}) ->
    #{
        state => case State of {held, _} -> held; _ -> State end,
        held_by => case State of {held, Other} -> Other; _ -> none end,
        mode => case Session of none -> global; _ -> session end,
        settings => Settings,
        events => Events
    }.
