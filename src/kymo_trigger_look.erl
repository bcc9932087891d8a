%% SPDX-License-Identifier: Apache-2.0
%% @private Triggers that are checked in the node, each in a process of its own: lengths of
%% mailboxes, stops of all schedulers, and funs. The process sends `{looked, Text, Firing}' to
%% its parent, and ends with it.
-module(kymo_trigger_look).

-export([start_link/2]).
-export([init/2, answer/2]).

%% Interval in ms between checks of mailboxes, and how many are checked at a time. One takes
%% about a microsecond.
-define(MAILBOX_INTERVAL, 200).
-define(MAILBOX_PROCESSES, 2000).

%% The maximum run time of a fun, in ms.
-define(CHECK_TIME, 5000).

%% @doc Starts checking. A firing is a map with some of the members of an object of {@link
%% kymo_trigger_json}; `ns' is how long ago the cause began.
-spec start_link(Text :: binary(), kymo_trigger:looked()) -> pid().
start_link(Text, Looked) ->
    spawn_opt(?MODULE, init, [Looked, {self(), Text}], [link, {max_heap_size, 0}]).

%% @private
-spec init(kymo_trigger:looked(), {pid(), binary()}) -> no_return().
init(Looked, {Parent, _} = Tell) ->
    process_flag(sensitive, true),
    process_flag(trap_exit, true),
    %% If the parent has ended normally before that, there was no message.
    is_process_alive(Parent) orelse exit(normal),
    look(Looked, Tell).

tell({To, Text}, Firing) ->
    To ! {looked, Text, Firing},
    ok.

look({mailbox, Which, Limit}, Tell) -> mailboxes(Which, [], Limit, #{}, Tell);
look({stopped, Ns}, Tell) -> stops(Ns, stopped_so_far(), Tell);
look({check, Fun, Interval}, Tell) -> checks(Fun, Interval, {false, none}, Tell).

%% ---- mailboxes --------------------------------------------------------------

%% Full contains the processes that have fired. They are removed when their mailbox has shrunk to
%% half of the limit.
mailboxes(Which, [], Limit, Full, Tell) when Which =/= all ->
    Living = [P || P <- lists:map(fun pid/1, Which), is_pid(P)],
    Left = lists:foldl(fun(P, F) -> mailbox(P, Limit, F, Tell) end, maps:with(Living, Full), Living),
    wait(?MAILBOX_INTERVAL),
    mailboxes(Which, [], Limit, Left, Tell);
mailboxes(all, [], Limit, Full, Tell) ->
    Left = maps:filter(fun(P, _) -> is_process_alive(P) end, Full),
    mailboxes(all, {processes(), ?MAILBOX_PROCESSES}, Limit, Left, Tell);
mailboxes(all, {[P | Rest], N}, Limit, Full, Tell) when N > 0 ->
    mailboxes(all, {Rest, N - 1}, Limit, mailbox(P, Limit, Full, Tell), Tell);
mailboxes(all, {Rest, _}, Limit, Full, Tell) ->
    wait(?MAILBOX_INTERVAL),
    case Rest of
        [] -> mailboxes(all, [], Limit, Full, Tell);
        _ -> mailboxes(all, {Rest, ?MAILBOX_PROCESSES}, Limit, Full, Tell)
    end.

pid(P) when is_pid(P) -> P;
pid(Name) -> whereis(Name).

mailbox(P, _, Full, _) when P =:= self() ->
    Full;
mailbox(P, Limit, Full, Tell) ->
    case process_info(P, message_queue_len) of
        {_, N} when N > Limit, not is_map_key(P, Full) ->
            tell(Tell, #{
                <<"kind">> => <<"mailbox">>,
                <<"value">> => N,
                <<"limit">> => Limit,
                <<"process">> => name(P),
                <<"process_pid">> => list_to_binary(pid_to_list(P)),
                ns => 0
            }),
            Full#{P => full};
        {_, N} when N =< Limit div 2 ->
            maps:remove(P, Full);
        _ ->
            Full
    end.

name(P) ->
    case process_info(P, registered_name) of
        {_, Name} -> text("~s ~0tp", [pid_to_list(P), Name]);
        _ -> list_to_binary(pid_to_list(P))
    end.

%% ---- stops of all schedulers ------------------------------------------------

%% Fires if this process woke up too late and the runtime has stopped all schedulers in that
%% time.
stops(Ns, Before, Tell) ->
    _ = process_flag(priority, max),
    Tick = max(Ns div 2000000, 1),
    Start = erlang:monotonic_time(nanosecond),
    wait(Tick),
    Late = erlang:monotonic_time(nanosecond) - Start - Tick * 1000000,
    Now = stopped_so_far(),
    Causes = [C || {C, N} <- lists:sort(maps:to_list(Now)), N > maps:get(C, Before, 0)],
    _ = Late > Ns andalso Causes =/= [] andalso
        tell(Tell, #{
            <<"kind">> => <<"stopped">>,
            <<"value">> => Late,
            <<"limit">> => Ns,
            <<"reason">> => text("~ts", [lists:join(", ", [atom_to_list(C) || C <- Causes])]),
            ns => Late
        }),
    stops(Ns, Now, Tell).

stopped_so_far() -> erlang:system_info(kymo_blocking).

%% ---- funs -------------------------------------------------------------------

%% Fires when the result becomes true, and again only after it has been false.
checks(Fun, Interval, Before, Tell) ->
    Answer = asked(Fun),
    case Answer of
        {true, Why} when element(1, Before) =/= true -> tell(Tell, checked(<<"check">>, Why));
        {failed, Why} when Answer =/= Before -> tell(Tell, checked(failed, Why));
        _ -> ok
    end,
    wait(Interval),
    checks(Fun, Interval, Answer, Tell).

checked(Kind, Why) ->
    #{<<"kind">> => Kind, <<"value">> => 0, <<"limit">> => 0, <<"reason">> => text("~0tP", [Why, 30]), ns => 0}.

%% Runs the fun in a process that always exits normally, so that its exit does not fire a
%% trigger. The process is not made sensitive: it may be traced already, and its `out' event
%% would be missing, so that it would seem to run for ever.
asked(Fun) ->
    Asker = self(),
    try spawn_monitor(?MODULE, answer, [Asker, Fun]) of
        {Pid, Monitor} -> answer_of(Pid, Monitor)
    catch
        error:system_limit -> {failed, system_limit}
    end.

answer_of(Pid, Monitor) ->
    receive
        {Pid, Answer} ->
            demonitor(Monitor, [flush]),
            Answer;
        {'DOWN', Monitor, process, Pid, Reason} ->
            {failed, Reason};
        {'EXIT', _, Reason} ->
            %% The result is no longer needed, and the fun might run for ever.
            exit(Pid, kill),
            exit(Reason)
    after ?CHECK_TIME ->
        exit(Pid, kill),
        receive {'DOWN', Monitor, process, Pid, _} -> ok end,
        receive {Pid, Answer} -> Answer after 0 -> {failed, timeout} end
    end.

%% @private
-spec answer(pid(), fun()) -> ok.
answer(Asker, Fun) ->
    Asker ! {self(), answered(Fun)},
    ok.

answered(Fun) ->
    try Fun() of
        true -> {true, true};
        {true, Why} -> {true, Why};
        false -> {false, none};
        Other -> {failed, {bad_answer, Other}}
    catch
        Class:Reason -> {failed, {Class, Reason}}
    end.

%% ---- small things -----------------------------------------------------------

%% Waits, and exits if the parent has ended, even normally.
wait(Ms) ->
    receive
        {'EXIT', _, Reason} -> exit(Reason)
    after Ms -> ok
    end.

text(Format, Args) -> unicode:characters_to_binary(io_lib:format(Format, Args)).
