%% SPDX-License-Identifier: Apache-2.0
%% @private Gives the recorder names of processes: registered name (or the label
%% of `proc_lib:set_label/1' when it is an atom) and initial call.
-module(kymo_names).

-export([define/4]).
-export_type([known/0]).

-type known() :: #{pid() => {atom(), mfa() | undefined}}.
%% What the recorder was told already.

%% The dictionary of a process can be read by key only on newer runtimes; on
%% older ones it comes as a whole, so only from processes with a small heap.
-define(MAX_HEAP_WORDS, 1000000).

%% @doc Names the given processes and then all others, at most `Max' in total.
%% Tells the recorder only what it does not know yet.
-spec define(reference(), [pid()], Max :: non_neg_integer(), known()) -> known().
define(_, _, 0, Known) ->
    Known;
define(State, First, Max, Known) ->
    Pids = lists:sublist(First ++ (processes() -- First), Max),
    Read = reader(),
    lists:foldl(
        fun(Pid, Acc) ->
            case name(Pid, Read) of
                none -> Acc;
                Name -> tell(State, Pid, Name, Known, Acc)
            end
        end,
        #{},
        Pids
    ).

%% The result holds living processes only, so that it does not grow for ever.
tell(State, Pid, {Name, MFA} = New, Known, Acc) ->
    case Known of
        #{Pid := New} -> ok;
        _ -> kymo_tracer:define_process(State, Pid, Name, MFA)
    end,
    Acc#{Pid => New}.

reader() ->
    try process_info(self(), {dictionary, '$initial_call'}) of
        _ -> keys
    catch
        error:badarg -> whole
    end.

name(Pid, keys) ->
    Keys = [
        registered_name, initial_call, {dictionary, '$initial_call'}, {dictionary, '$process_label'}
    ],
    case process_info(Pid, Keys) of
        undefined -> none;
        [{_, Name}, {_, Call}, {_, Initial}, {_, Label}] -> {best(Name, Label), initial(Initial, Call)}
    end;
name(Pid, whole) ->
    case process_info(Pid, [registered_name, initial_call, total_heap_size]) of
        undefined -> none;
        [{_, Name}, {_, {proc_lib, _, _} = Call}, {_, Words}] when Words =< ?MAX_HEAP_WORDS ->
            {best(Name, undefined), initial(dictionary(Pid), Call)};
        [{_, Name}, {_, Call}, _] ->
            {best(Name, undefined), Call}
    end.

dictionary(Pid) ->
    case process_info(Pid, dictionary) of
        {dictionary, Dictionary} -> proplists:get_value('$initial_call', Dictionary);
        undefined -> undefined
    end.

best([], Label) when is_atom(Label) -> Label;
best([], _) -> undefined;
best(Name, _) -> Name.

%% proc_lib notes what it was really asked to start.
initial({M, F, A}, _) when is_atom(M), is_atom(F), is_integer(A) -> {M, F, A};
initial({M, F, As}, _) when is_atom(M), is_atom(F), is_list(As) -> {M, F, length(As)};
initial(_, {M, F, A}) -> {M, F, A};
initial(_, _) -> undefined.
