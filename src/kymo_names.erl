%% SPDX-License-Identifier: Apache-2.0
%% @private Looks up names of processes for the recorder: the registered name, or else the label
%% of `proc_lib:set_label/1'; the initial call; the parent; and the caller, which for example
%% Elixir's tasks store under `$callers'. A label that is not an atom is passed as text, because
%% an atom would never be freed.
%%
%% One process_info/2 per process returns all of this, a few words that rarely change. The
%% process need not be traced. For a process that ends before it is looked up, the recording
%% has only its `spawned' event.
-module(kymo_names).

-export([define/4]).
-export_type([known/0]).

-type described() :: {
    Name :: atom() | binary(), mfa() | undefined, Parent :: pid() | atom(), Caller :: pid() | atom()
}.
-type known() :: #{pid() => described()}.
%% What was passed to the recorder before.

%% Newer runtimes can read single keys of a process dictionary. Older ones copy it as a whole,
%% so there it is read only from processes with a small heap.
-define(MAX_HEAP_WORDS, 1000000).

%% Characters of a label.
-define(MAX_LABEL, 255).

%% The keys that are read.
-define(KEYS, ['$initial_call', '$process_label', '$ancestors', '$callers']).

%% The number of ancestors that are checked, to find one that is alive or has a name.
-define(MAX_ANCESTORS, 16).

%% @doc Names the given processes, or all. Passes only what is new to the recorder, for at most
%% `Max' processes in total. Calls process_info/2 only once per process, since it may have to
%% wait until the process is scheduled.
-spec define(reference(), processes | [pid()], Max :: non_neg_integer(), known()) -> known().
define(_, _, 0, Known) ->
    Known;
define(State, Which, Max, Known) ->
    %% The given processes first, then those known already, which keeps them within `Max'.
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
            case describe(Pid, Read, Registered, Known) of
                none -> Acc;
                Described -> tell(State, Pid, Described, Known, Acc)
            end
        end,
        #{},
        Chosen
    ).

%% The result contains only processes that are alive, so that it does not grow for ever.
tell(State, Pid, {Name, MFA, Parent, Caller} = New, Known, Acc) ->
    %% If the dictionary is full, the recorder counts the name.
    _ =
        case Known of
            #{Pid := New} -> ok;
            _ -> kymo_tracer:define_process(State, Pid, Name, MFA, Parent, Caller)
        end,
    Acc#{Pid => New}.

describe(Pid, Read, Registered, Known) ->
    case Known of
        #{Pid := Described} -> setelement(1, Described, maps:get(Pid, Registered, element(1, Described)));
        _ -> ask(Pid, Read, maps:get(Pid, Registered, undefined))
    end.

reader() ->
    try runtime(process_info, [self(), {dictionary, '$initial_call'}]) of
        _ -> keys
    catch
        error:badarg -> whole
    end.

%% Hides the call from Dialyzer: the spec of process_info/2 in OTP 25 does not include keys of
%% the dictionary.
runtime(Function, Arguments) -> apply(erlang, Function, Arguments).

ask(Pid, keys, Name) ->
    Keys = [initial_call, parent | [{dictionary, Key} || Key <- ?KEYS]],
    case runtime(process_info, [Pid, Keys]) of
        undefined -> none;
        [{_, Call}, {_, Parent} | Values] -> described(Name, Call, Parent, [Value || {_, Value} <- Values])
    end;
ask(Pid, whole, Name) ->
    case runtime(process_info, [Pid, [initial_call, parent, total_heap_size]]) of
        undefined ->
            none;
        [{_, {proc_lib, _, _} = Call}, {_, Parent}, {_, Words}] when Words =< ?MAX_HEAP_WORDS ->
            described(Name, Call, Parent, values(process_info(Pid, dictionary)));
        [{_, Call}, {_, Parent}, _] ->
            described(Name, Call, Parent, values(undefined))
    end.

%% Does not use proplists, because a key may be any term.
values({dictionary, Dictionary}) ->
    [
        case lists:keyfind(Key, 1, Dictionary) of
            {_, Found} -> Found;
            false -> undefined
        end
     || Key <- ?KEYS
    ];
values(undefined) ->
    [undefined || _ <- ?KEYS].

described(Name, Call, Parent, [Initial, Label, Ancestors, Callers]) ->
    {best(Name, Label), initial(Initial, Call), parent(Ancestors, ?MAX_ANCESTORS, Parent), caller(Callers)}.

%% The nearest ancestor that has a name or is alive. If proc_lib has not stored ancestors, the
%% process that called spawn.
parent([Name | _], N, _) when N > 0, is_atom(Name), Name =/= undefined -> Name;
parent([Pid | More], N, Parent) when N > 0, is_pid(Pid) ->
    case node(Pid) =:= node() andalso runtime(is_process_alive, [Pid]) of
        true -> Pid;
        false -> parent(More, N - 1, Parent)
    end;
parent(_, _, Parent) ->
    Parent.

caller([Caller | _]) when is_pid(Caller); is_atom(Caller) -> Caller;
caller(_) -> undefined.

best(undefined, Label) when is_atom(Label) -> Label;
best(undefined, Label) -> label(Label);
best(Name, _) -> Name.

%% Text is unchanged; other terms are formatted.
label(Label) ->
    Text =
        case is_binary(Label) andalso unicode:characters_to_list(Label) of
            Chars when is_list(Chars) -> Chars;
            _ -> Label
        end,
    Printed =
        case io_lib:printable_unicode_list(Text) andalso Text =/= [] of
            true -> Text;
            false -> unicode:characters_to_list(io_lib:format("~0tp", [Label], [{chars_limit, ?MAX_LABEL}]))
        end,
    unicode:characters_to_binary(lists:sublist(Printed, ?MAX_LABEL)).

%% The initial call that proc_lib has stored, rather than that of proc_lib itself.
initial({M, F, A}, _) when is_atom(M), is_atom(F), is_integer(A) -> {M, F, A};
initial({M, F, As}, _) when is_atom(M), is_atom(F), is_list(As) -> {M, F, length(As)};
initial(_, Call) -> Call.
