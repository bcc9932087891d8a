%% SPDX-License-Identifier: Apache-2.0
%% @private Looks up names of processes for the recorder: the registered name, or else the label
%% of `proc_lib:set_label/1'; the initial call; the parent; and the caller, which for example
%% Elixir's tasks store under `$callers'. A label that is not an atom is passed as text, because
%% an atom would never be freed.
%%
%% process_info/2 returns all of this, a few words that rarely change. The
%% process need not be traced. For a process that ends before it is looked up, the recording
%% has only its `spawned' event.
%%
%% All but the registered name, the parent and the first function is in the dictionary of the
%% process, so it is woken and asked. That is done once per process when tracing begins and ends.
%% In between, for snapshots, no process is woken ({@link kymo_quiet}): processes that were
%% spawned meanwhile have no label and no caller then. What proc_lib runs is in their `spawned' event.
-module(kymo_names).

-export([define/6, define_own/2]).
-export_type([known/0, how/0]).

-type described() :: {
    Name :: atom() | binary(), mfa() | undefined, Parent :: pid() | atom(), Caller :: pid() | atom()
}.
-type known() :: #{pid() => {how(), described()}}.
%% What was passed to the recorder before.

-type how() :: ask | quiet | registered.
%% Whether processes are asked, are looked up without waking them, or are not looked up at all, so
%% that only registered names are known.

-type within() :: infinity | milliseconds().
-type milliseconds() :: non_neg_integer().

%% Newer runtimes can read single keys of a process dictionary. Older ones copy it as a whole. Both
%% copy the values, which may be huge, so they are read only from processes with a small heap.
-define(MAX_HEAP_WORDS, 1000000).

%% Characters of a label.
-define(MAX_LABEL, 255).
-define(MAX_LABEL_BYTES, (4 * ?MAX_LABEL)).

%% The keys that are read.
-define(KEYS, ['$initial_call', '$process_label', '$ancestors', '$callers']).

%% The number of ancestors that are checked, to find one that is alive or has a name.
-define(MAX_ANCESTORS, 16).

%% @doc Names the calling process, which is one of the recorder's, by the function that it runs. Its
%% dictionary cannot be read because it is sensitive. Readers leave out kymo's own processes.
-spec define_own(reference(), mfa()) -> ok.
define_own(State, MFA) ->
    _ = kymo_tracer:define_process(State, self(), undefined, MFA),
    ok.

%% @doc Names the given processes, or all. Passes only what is new to the recorder, for at most
%% `Max' processes in total. Calls process_info/2 at most twice per process, since it may have
%% to wait until the process is scheduled: in a node that is overloaded, after all others. Asks no further
%% process when the time is over.
-spec define(reference(), how(), within(), processes | [pid()], Max :: non_neg_integer(), known()) -> known().
define(_, _, _, _, 0, Known) ->
    Known;
define(State, registered, _, Which, Max, Known) ->
    Named = [One || {Pid, _} = One <- registered_processes(), Which =:= processes orelse lists:member(Pid, Which)],
    lists:foldl(
        fun({Pid, Name}, Acc) -> tell(State, Pid, {registered, {Name, undefined, undefined, undefined}}, Known, Acc) end,
        #{},
        lists:sublist(Named, Max)
    );
define(State, How, Within, Which, Max, Known) ->
    Registered = maps:from_list(registered_processes()),
    %% Of all processes those with a registered name first, as they matter most. Otherwise the given ones. Then
    %% those known already, which keeps them within `Max'.
    Alive = [Pid || Pid <- maps:keys(Known), runtime(is_process_alive, [Pid])],
    First =
        case Which of
            processes -> maps:keys(Registered);
            Pids -> Pids
        end,
    Rest =
        case Which of
            processes -> processes() -- (First ++ Alive);
            _ -> []
        end,
    Chosen = lists:sublist(First ++ (Alive -- First) ++ Rest, Max),
    Read =
        case How of
            quiet -> quiet;
            ask -> reader()
        end,
    Begun = erlang:monotonic_time(millisecond),
    Observer = kymo_observed:new(State),
    Names = lists:foldl(
        fun(Pid, Acc) ->
            IsOver = Within =/= infinity andalso erlang:monotonic_time(millisecond) - Begun >= Within,
            case described_within(IsOver, Pid, {Read, Observer}, Registered, Known) of
                none -> Acc;
                Described -> tell(State, Pid, Described, Known, Acc)
            end
        end,
        #{},
        Chosen
    ),
    _ = Read =/= quiet andalso Which =:= processes andalso kymo_observed:locks(Observer),
    Names.

described_within(true, Pid, _, Registered, Known) when not is_map_key(Pid, Known) ->
    case Registered of
        #{Pid := Name} -> {registered, {Name, undefined, undefined, undefined}};
        _ -> none
    end;
described_within(true, Pid, _, _, Known) ->
    map_get(Pid, Known);
described_within(false, Pid, Read, Registered, Known) ->
    describe(Pid, Read, Registered, Known).

%% Names of ports are left out, and those that have ended meanwhile.
registered_processes() -> [{Pid, Name} || Name <- registered(), Pid <- [whereis(Name)], is_pid(Pid)].

%% The result contains only processes that are alive, so that it does not grow for ever.
tell(State, Pid, {_, {Name, MFA, Parent, Caller} = New} = Described, Known, Acc) ->
    %% If the dictionary is full, the recorder counts the name.
    _ =
        case Known of
            #{Pid := {_, New}} -> ok;
            _ -> kymo_tracer:define_process(State, Pid, Name, MFA, Parent, Caller)
        end,
    Acc#{Pid => Described}.

describe(Pid, {Read, Observer}, Registered, Known) ->
    case Known of
        #{Pid := {How, Described}} when How =:= ask; Read =:= quiet ->
            {How, setelement(1, Described, maps:get(Pid, Registered, element(1, Described)))};
        _ ->
            case ask(Pid, Read, Observer, maps:get(Pid, Registered, undefined)) of
                none -> none;
                Described when Read =:= quiet -> {quiet, Described};
                Described -> {ask, Described}
            end
    end.

-spec reader() -> keys | whole.
reader() ->
    try runtime(process_info, [self(), {dictionary, '$initial_call'}]) of
        _ -> keys
    catch
        error:badarg -> whole
    end.

%% Hides the call from Dialyzer: the spec of process_info/2 in OTP 25 does not include keys of
%% the dictionary.
runtime(Function, Arguments) -> apply(erlang, Function, Arguments).

ask(Pid, quiet, _, Name) ->
    case kymo_quiet:info(Pid, [initial_call, parent]) of
        {ok, [{proc_lib, _, _}, Parent]} -> {Name, undefined, Parent, undefined};
        {ok, [Call, Parent]} -> {Name, Call, Parent, undefined};
        busy when Name =/= undefined -> {Name, undefined, undefined, undefined};
        _ -> none
    end;
ask(Pid, Read, Observer, Name) ->
    case runtime(process_info, [Pid, [initial_call, parent, total_heap_size | kymo_observed:items()]]) of
        undefined ->
            none;
        [{_, Call}, {_, Parent}, {_, Words} | Observed] ->
            ok = kymo_observed:observe(Observer, Pid, Observed),
            Values =
                case Words =< ?MAX_HEAP_WORDS of
                    true -> looked_up(Read, Pid, Call);
                    false -> values(undefined)
                end,
            described(Name, Call, Parent, Values)
    end.

looked_up(keys, Pid, _) ->
    case runtime(process_info, [Pid, [{dictionary, Key} || Key <- ?KEYS]]) of
        undefined -> values(undefined);
        Values -> [Value || {_, Value} <- Values]
    end;
looked_up(whole, Pid, {proc_lib, _, _}) ->
    values(process_info(Pid, dictionary));
looked_up(whole, _, _) ->
    values(undefined).

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
        case is_binary(Label) andalso unicode:characters_to_list(beginning(Label)) of
            Chars when is_list(Chars) -> Chars;
            {incomplete, Chars, _} when byte_size(Label) > ?MAX_LABEL_BYTES -> Chars;
            _ -> Label
        end,
    Printed =
        case io_lib:printable_unicode_list(Text) andalso Text =/= [] of
            true -> Text;
            false -> unicode:characters_to_list(io_lib:format("~0tp", [Label], [{chars_limit, ?MAX_LABEL}]))
        end,
    unicode:characters_to_binary(lists:sublist(Printed, ?MAX_LABEL)).

%% As many characters as are kept; the last one may be incomplete.
beginning(Label) -> binary:part(Label, 0, min(byte_size(Label), ?MAX_LABEL_BYTES)).

%% The initial call that proc_lib has stored, rather than that of proc_lib itself.
initial({M, F, A}, _) when is_atom(M), is_atom(F), is_integer(A) -> {M, F, A};
initial({M, F, As}, _) when is_atom(M), is_atom(F), is_list(As) -> {M, F, length(As)};
%% A sensitive process, whose dictionary cannot be read.
initial(undefined, {proc_lib, _, _}) -> undefined;
initial(_, Call) -> Call.
