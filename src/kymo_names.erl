%% SPDX-License-Identifier: Apache-2.0
%% @private Gives the recorder names of processes: the registered name, else the
%% label of `proc_lib:set_label/1', the initial call, the parent, and the caller, which
%% Elixir's tasks and others note in `$callers'. A label that is no atom is
%% given as text: atoms made of it would never be freed.
%%
%% All of it comes from one process_info/2 for each process, which copies a few words
%% that hardly ever change. The process need not be traced, and its events cost no more.
%% One that ends before it was asked has what its `spawned' event says.
-module(kymo_names).

-export([define/4]).
-export_type([known/0]).

-type described() :: {
    Name :: atom() | binary(), mfa() | undefined, Parent :: pid() | atom(), Caller :: pid() | atom()
}.
-type known() :: #{pid() => described()}.
%% What the recorder was told already.

%% The dictionary of a process can be read by key only on newer runtimes; on
%% older ones it comes as a whole, so only from processes with a small heap.
-define(MAX_HEAP_WORDS, 1000000).

%% Characters of a label.
-define(MAX_LABEL, 255).

%% What is read of the dictionary of a process.
-define(KEYS, ['$initial_call', '$process_label', '$ancestors', '$callers']).

%% Ancestors that are looked at for one that is alive or has a name.
-define(MAX_ANCESTORS, 16).

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
            case describe(Pid, Read, Registered, Known) of
                none -> Acc;
                Described -> tell(State, Pid, Described, Known, Acc)
            end
        end,
        #{},
        Chosen
    ).

%% The result holds living processes only, so that it does not grow for ever.
tell(State, Pid, {Name, MFA, Parent, Caller} = New, Known, Acc) ->
    %% A name that finds no room in the dictionary is counted there.
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

%% The specification of process_info/2 in OTP 25 knows no keys of the dictionary,
%% so Dialyzer must not see what is called.
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

%% Not proplists: any term may be a key.
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

%% The nearest ancestor of which more can be known: one with a name, or alive. Where
%% proc_lib has noted none, the process that called spawn.
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

%% Text as it is, all other terms as they are printed.
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

%% proc_lib notes what it was really asked to start.
initial({M, F, A}, _) when is_atom(M), is_atom(F), is_integer(A) -> {M, F, A};
initial({M, F, As}, _) when is_atom(M), is_atom(F), is_list(As) -> {M, F, length(As)};
initial(_, Call) -> Call.
