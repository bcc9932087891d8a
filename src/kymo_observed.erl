%% SPDX-License-Identifier: Apache-2.0
%% @private What processes did when tracing began: who waited, since before the recording, in a function of
%% OTP that is not the main loop of a server, and for whom, or with messages in its mailbox; who was
%% suspended; who held a lock of global, then and when tracing ended. The recording has it as
%% `observed'. Processes of OTP that wait for whatever comes next are left out, and kymo's own.
%%
%% {@link kymo_names} asks each process once, and passes on what it has learnt. Only processes that are
%% observed to wait are asked once more, for the process that they monitor; at most ?MAX processes are
%% recorded. So a node with many processes has few more signals than it has for their names.
-module(kymo_observed).

-export([new/1, items/0, observe/3, locks/1]).
-export_type([observer/0]).

-type observer() :: {State :: reference(), Otp :: #{module() => []}, Recorded :: counters:counters_ref()}.

%% Processes that are recorded; locks and their holders, too.
-define(MAX, 500).

%% Modules of kymo that call its processes.
-define(OWN, [kymo_server, kymo_counters, kymo_attach_node, kymo_trigger_server]).

%% Applications whose modules are not named as those that call a function of OTP.
-define(OTP, [kernel, stdlib, mnesia, sasl, compiler]).

%% @doc For one pass over the processes.
-spec new(reference()) -> observer().
new(State) ->
    Modules = lists:append([Modules || App <- ?OTP, {ok, Modules} <- [application:get_key(App, modules)]]),
    {State, maps:from_keys(erlang:pre_loaded() ++ Modules, []), counters:new(1, [])}.

%% @doc The items of process_info/2 that {@link observe/3} needs, in this order.
-spec items() -> [atom()].
items() -> [current_stacktrace, message_queue_len, status].

%% @doc Records what a process does, if it is something of that kind. The values are those of {@link items/0}.
-spec observe(observer(), pid(), [{atom(), term()}]) -> ok.
observe({_, Otp, _} = Observer, Pid, [{_, Stack}, {_, Mailbox}, {_, Status}]) ->
    Where = where(Stack, Otp),
    case is_full(Observer) orelse is_own(Where) orelse kind(Status, Where, Mailbox, Otp) of
        true -> ok;
        none -> ok;
        waits -> note(Observer, waits, {Pid, waits_for(Pid, Where)}, undefined, Mailbox, Where);
        suspended -> note(Observer, suspended, {Pid, undefined}, undefined, Mailbox, Where)
    end.

is_full({_, _, Recorded}) -> counters:get(Recorded, 1) >= ?MAX.


%% kymo's processes wait for each other while tracing begins.
is_own({_, {M, _, _}}) -> lists:member(M, ?OWN);
is_own(_) -> false.

kind(suspended, _, _, _) -> suspended;
kind(waiting, {undefined, _}, _, _) -> none;
kind(waiting, {{M, F, _}, From}, Mailbox, Otp) ->
    case is_idle(M, F) of
        true -> none;
        false when M =:= gen; Mailbox > 0; is_map_key(M, Otp), From =/= undefined -> waits;
        false -> none
    end;
kind(_, _, _, _) -> none.

%% The functions in which the processes of OTP's behaviours wait for whatever comes next.
is_idle(gen_server, loop) -> true;
is_idle(gen_statem, loop_receive) -> true;
is_idle(gen_event, fetch_msg) -> true;
is_idle(erlang, hibernate) -> true;
is_idle(_, _) -> false.

%% The function at the top of a stack, and the first that is not part of OTP.
where([], _) ->
    {undefined, undefined};
where([{M, F, A, _} | _] = Stack, Otp) ->
    case [{M1, F1, arity(A1)} || {M1, F1, A1, _} <- Stack, not is_map_key(M1, Otp)] of
        [From | _] -> {{M, F, arity(A)}, From};
        [] -> {{M, F, arity(A)}, undefined}
    end.

arity(As) when is_list(As) -> length(As);
arity(A) -> A.

%% A process that calls another one monitors it until it has the answer. If it monitors more than one, nobody
%% knows for which of them it waits.
waits_for(Pid, {{M, F, _}, _}) ->
    case is_call(M, F) andalso process_info(Pid, monitors) of
        {_, [{process, For}]} when is_pid(For) -> For;
        {_, [{process, {Name, Node}}]} when Node =:= node() -> whereis(Name);
        _ -> undefined
    end.

%% Functions of OTP that wait for the answer of a process that they monitor.
is_call(gen, do_call) -> true;
is_call(io, wait_io_mon_reply) -> true;
is_call(dets, req) -> true;
is_call(disk_log, monitor_request) -> true;
is_call(_, _) -> false.

note({State, _, Recorded}, Kind, Whose, Lock, Mailbox, Where) ->
    counters:add(Recorded, 1, 1),
    _ = kymo_tracer:note_observed(State, Kind, Whose, Lock, Mailbox, Where),
    ok.

%% ---- locks --------------------------------------------------------------------------------

%% @doc Records who holds locks of global. Reads its table, and asks nobody but the holders.
-spec locks(observer()) -> ok.
locks(Observer) ->
    Held = [{name(Id), Pid} || {Id, _, Holders} <- rows(global_locks), {Pid, _} <- Holders],
    lists:foreach(fun({Lock, Pid}) -> is_full(Observer) orelse holds(Observer, Lock, Pid) end, lists:usort(Held)).

holds({_, Otp, _} = Observer, Lock, Pid) when is_pid(Pid), node(Pid) =:= node() ->
    case process_info(Pid, [current_stacktrace, message_queue_len]) of
        [{_, Stack}, {_, Mailbox}] ->
            note(Observer, holds_global_lock, {Pid, undefined}, Lock, Mailbox, where(Stack, Otp));
        undefined ->
            ok
    end;
holds(_, _, _) ->
    ok.

%% The table may end meanwhile, with its owner.
rows(Table) ->
    try
        case ets:info(Table, size) of
            N when is_integer(N), N =< ?MAX -> ets:tab2list(Table);
            _ -> []
        end
    catch
        error:badarg -> []
    end.

name(Name) when is_atom(Name) -> Name;
name(Id) when is_tuple(Id) -> hd([A || A <- tuple_to_list(Id), is_atom(A)] ++ [undefined]);
name(_) -> undefined.
