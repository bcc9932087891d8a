%% SPDX-License-Identifier: Apache-2.0
%%
%% What a program of erts_diff_SUITE observed, without what two correct runtimes may do
%% differently: identifiers become names in order of their appearance, times are left out, and
%% lists without a documented order are sorted.
-module(erts_diff_norm).

-export([new/0, name/3, named/2, term/2, result/4, events/2]).

%% The names of identifiers: #{Identifier => Name}, and how many of each kind have none of the program's own.
new() -> {#{}, #{}}.

%% Names a process or session.
name(Id, Name, {Names, Counts}) -> {Names#{Id => Name}, Counts}.

named(Id, {Names, _}) -> maps:find(Id, Names).

%% A term and the names after it.
term(T, S) when is_pid(T) -> identifier(pid, T, S);
term(T, S) when is_reference(T) -> identifier(ref, T, S);
term(T, S) when is_port(T) -> identifier(port, T, S);
term(T, S) when is_function(T) ->
    Info = [element(2, erlang:fun_info(T, Item)) || Item <- [type, module, arity, env]],
    {L, S1} = term(Info, S),
    {list_to_tuple(['fun' | L]), S1};
term([H | T], S) ->
    {H1, S1} = term(H, S),
    {T1, S2} = term(T, S1),
    {[H1 | T1], S2};
%% A line of a stack; the runtimes need not have the same sources.
term({M, F, A, Info}, S) when is_atom(M), is_atom(F), is_list(Info), (is_integer(A) orelse is_list(A)) ->
    {A1, S1} = term(A, S),
    {{M, F, A1, [cause || {error_info, _} <- Info]}, S1};
term(T, {Names, _} = S) when is_tuple(T) ->
    case Names of
        #{T := Name} ->
            {Name, S};
        _ ->
            {L, S1} = term(tuple_to_list(T), S),
            {list_to_tuple(L), S1}
    end;
term(T, S) when is_map(T) ->
    {L, S1} = term(lists:sort(maps:to_list(T)), S),
    {{map, L}, S1};
term(T, S) ->
    {T, S}.

identifier(Kind, Id, {Names, Counts} = S) ->
    case Names of
        #{Id := Name} ->
            {Name, S};
        _ ->
            N = maps:get(Kind, Counts, 0) + 1,
            Name = {Kind, N},
            {Name, {Names#{Id => Name}, Counts#{Kind => N}}}
    end.

%% The result of a call of M:F.
result(M, F, {ok, Value}, S) ->
    {V, S1} = term(value(M, F, Value, S), S),
    {{ok, V}, S1};
result(_, _, {C, R, Stack}, S) ->
    {R1, S1} = term(R, S),
    {{C, R1, explained(R, Stack)}, S1};
result(_, _, Other, S) ->
    term(Other, S).

%% What the runtime says about the arguments that were wrong.
explained(Reason, [{M, _, _, Info} | _] = Stack) ->
    case proplists:get_value(error_info, Info) of
        undefined ->
            none;
        #{} = E ->
            Module = maps:get(module, E, M),
            try maps:map(fun(_, Text) -> text(Text) end, Module:(maps:get(function, E, format_error))(Reason, Stack))
            catch C:R -> {C, R}
            end
    end;
explained(_, _) ->
    none.

text(T) -> try unicode:characters_to_list(T) catch _:_ -> T end.

%% Of all processes and functions, the runtimes have different numbers.
value(erlang, trace, N, _) when is_integer(N), N > 10 -> many;
value(trace, process, N, _) when is_integer(N), N > 10 -> many;
value(erlang, trace_pattern, N, _) when is_integer(N), N > 30 -> many;
value(trace, function, N, _) when is_integer(N), N > 30 -> many;
value(_, info, Value, S) -> info(Value, S);
value(erlang, trace_info, Value, S) -> info(Value, S);
value(erlang, F, Value, _) when F =:= read_timer; F =:= cancel_timer -> is_integer(Value);
value(erlang, system_monitor, {_, L} = V, _) when is_list(L) -> setelement(2, V, lists:sort(L));
value(trace, session_info, {M, L}, _) when is_list(L) -> {M, lists:sort(L)};
value(erlang, process_info, L, _) when is_list(L) -> [item(I) || I <- L];
value(erlang, process_info, {_, _} = I, _) -> item(I);
value(erlang, F, L, _) when is_list(L), F =:= get orelse F =:= erase -> lists:sort(L);
value(erlang, get_module_info, L, _) when is_list(L) -> lists:sort(L);
value(_, _, Value, _) -> Value.

info({all, L}, S) when is_list(L) -> {all, lists:sort([info(I, S) || I <- L])};
info({flags, L}, _) when is_list(L) -> {flags, lists:sort(L)};
info({call_time, L}, S) when is_list(L) -> {call_time, counted([{P, N} || {P, N, _, _} <- L], S)};
%% How many words depends on when the heap is collected.
info({call_memory, L}, S) when is_list(L) -> {call_memory, counted([{P, N} || {P, N, _} <- L], S)};
info(Value, _) -> Value.

%% By process, of those that have a name.
counted(L, {Names, _}) ->
    lists:sort([setelement(1, E, Name) || E <- L, {ok, Name} <- [maps:find(element(1, E), Names)]]).

item({Item, L}) when Item =:= links; Item =:= monitors; Item =:= monitored_by; Item =:= suspending;
                     Item =:= dictionary ->
    {Item, lists:sort(L)};
%% Whether a worker that has answered waits already is a matter of time.
item({status, Status}) when Status =/= suspended -> {status, able};
item({garbage_collection, L}) when is_list(L) ->
    {garbage_collection, lists:sort(lists:keydelete(minor_gcs, 1, L))};
item(I) ->
    I.

%% The messages of a tracer as [{Tracee, [Message]}], of the workers: what the driver does while it
%% waits is not defined, nor is the order of messages of different tracees.
events(dead, S) ->
    {dead, S};
events(Messages, S) ->
    Kept = [{source(T, M), strip(M)} || M <- Messages, keep(M), {ok, {worker, _} = T} <- [tracee(M, S)]],
    lists:mapfoldl(fun(Source, S0) ->
        {L, S1} = term([M || {T, M} <- Kept, T =:= Source], S0),
        {{Source, L}, S1}
    end, S, lists:usort([T || {T, _} <- Kept])).

%% When a running process finds what was sent to it isn't defined.
source(Tracee, M) when element(3, M) =:= 'receive' -> {Tracee, receives};
source(Tracee, _) -> Tracee.

tracee({seq_trace, _, Info}, S) -> tracee_of_token(Info, S);
tracee({seq_trace, _, Info, _}, S) -> tracee_of_token(Info, S);
tracee(M, S) -> named(element(2, M), S).

tracee_of_token({'receive', _, _, To, _}, S) -> named(To, S);
tracee_of_token({_, _, From, _, _}, S) -> named(From, S);
tracee_of_token(_, _) -> error.

strip(M) when element(1, M) =:= trace_ts -> erlang:delete_element(tuple_size(M), M);
strip({seq_trace, Label, Info, _}) -> {seq_trace_ts, Label, Info};
strip(M) -> M.

keep(M) when is_tuple(M), tuple_size(M) >= 3 ->
    lists:member(element(1, M), [trace, trace_ts, seq_trace])
        andalso (element(1, M) =:= seq_trace orelse keep(element(3, M), M));
keep(_) ->
    false.

%% When a process is scheduled or collects garbage isn't defined, and functions of OTP may be called
%% by others.
keep(Tag, M) when Tag =:= call; Tag =:= return_from; Tag =:= exception_from; Tag =:= return_to ->
    keep_function(element(4, M));
keep(Tag, _) ->
    not lists:member(Tag, [in, out, in_exiting, out_exiting, out_exited, gc_minor_start, gc_minor_end,
                           gc_major_start, gc_major_end]).

keep_function(MFA) when is_tuple(MFA) ->
    M = element(1, MFA),
    lists:member(M, erts_diff_modules:names())
        orelse lists:member({M, element(2, MFA)}, [{lists, reverse}, {erlang, put}, {erlang, link}, {erlang, send},
                                                   {erlang, exit}, {erts_diff_worker, one}]);
keep_function(_) ->
    true.
