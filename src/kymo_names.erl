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

%% @doc Names the given processes, or all. Tells the recorder only what it does
%% not know yet, of at most `Max' processes in total, and asks each process only
%% once: an answer may have to wait until the process is scheduled.
-spec define(reference(), processes | [pid()], Max :: non_neg_integer(), known()) -> known().
define(_, _, 0, Known) ->
    Known;
define(State, Which, Max, Known) ->
    %% The given ones first; then those that are known already, so that they stay so.
    Alive = [Pid || Pid <- maps:keys(Known), runtime(is_process_alive, [Pid])],
    Ordered =
        case Which of
            processes -> Alive ++ (processes() -- Alive);
            Pids -> Pids ++ (Alive -- Pids)
        end,
    Chosen = lists:sublist(Ordered, Max),
    Registered = maps:from_list([{whereis(Name), Name} || Name <- registered()]),
    Read = reader(),
    lists:foldl(
        fun(Pid, Acc) ->
            case name(Pid, Read, Registered, Known) of
                none -> Acc;
                Name -> tell(State, Pid, Name, Known, Acc)
            end
        end,
        #{},
        Chosen
    ).

%% The result holds living processes only, so that it does not grow for ever.
tell(State, Pid, {Name, MFA} = New, Known, Acc) ->
    %% A name that finds no room in the dictionary is counted there.
    _ =
        case Known of
            #{Pid := New} -> ok;
            _ -> kymo_tracer:define_process(State, Pid, Name, MFA)
        end,
    Acc#{Pid => New}.

name(Pid, Read, Registered, Known) ->
    case Known of
        #{Pid := {Name, MFA}} -> {maps:get(Pid, Registered, Name), MFA};
        _ -> ask(Pid, Read, maps:get(Pid, Registered, undefined))
    end.

reader() ->
    try runtime(process_info, [self(), {dictionary, '$initial_call'}]) of
        _ -> keys
    catch
        error:badarg -> whole
    end.

%% The specification of process_info/2 in OTP 25 knows no keys of the dictionary,
%% so Dialyzer must not see what is called.
runtime(Function, Arguments) -> apply(erlang, Function, Arguments).

ask(Pid, keys, Name) ->
    Keys = [initial_call, {dictionary, '$initial_call'}, {dictionary, '$process_label'}],
    case runtime(process_info, [Pid, Keys]) of
        undefined -> none;
        [{_, Call}, {_, Initial}, {_, Label}] -> {best(Name, Label), initial(Initial, Call)}
    end;
ask(Pid, whole, Name) ->
    case process_info(Pid, [initial_call, total_heap_size]) of
        undefined -> none;
        [{_, {proc_lib, _, _} = Call}, {_, Words}] when Words =< ?MAX_HEAP_WORDS ->
            {Name, initial(dictionary(Pid), Call)};
        [{_, Call}, _] ->
            {Name, Call}
    end.

dictionary(Pid) ->
    case process_info(Pid, dictionary) of
        {dictionary, Dictionary} -> proplists:get_value('$initial_call', Dictionary);
        undefined -> undefined
    end.

best(undefined, Label) when is_atom(Label) -> Label;
best(Name, _) -> Name.

%% proc_lib notes what it was really asked to start.
initial({M, F, A}, _) when is_atom(M), is_atom(F), is_integer(A) -> {M, F, A};
initial({M, F, As}, _) when is_atom(M), is_atom(F), is_list(As) -> {M, F, length(As)};
initial(_, Call) -> Call.
