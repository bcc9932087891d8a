%% SPDX-License-Identifier: Apache-2.0
%% @doc The options `triggers' and `on_trigger' of {@link kymo:start/1}: when a recorder takes a
%% snapshot of itself.
%%
%% ```
%% kymo:start(#{dir => "/dev/shm/rec",
%%              triggers => [{request, '_', 500}, {exit, '_'}, {mailbox, 10000}],
%%              on_trigger => #{folder => "/var/tmp/caught", cooldown => 60000, keep => 5}})
%% '''
%%
%% The recorder starts the command `kymo watch', which reads the recording from outside the
%% node and judges its events with the analysis of `kymo why'. So a trigger sees what is traced
%% ({@link kymo:trace/2}) and nothing else: calls need their functions, and that their ends are
%% recorded (`returns => true', `-> return' or the event `return_to'); requests need `messages',
%% exits `procs', collections `garbage_collection', schedules `running'. The length of mailboxes, stops
%% of all schedulers, and funs are looked at in the node, whatever is traced.
%%
%% Times are milliseconds, and may be floats.
-module(kymo_trigger).

-export([parse/2, watched/1, looked/1, format_allowed/1]).
-export_type([trigger/0, on_trigger/0, plan/0, looked/0]).

-type pattern() :: string() | binary() | module() | {module(), Function :: atom()} | mfa().
%% `"shop:price/1"', `"shop:price"', `"shop"', `"_:handle_call/3"', `"my_*:_/_"'; `_' stands for
%% anything.

-type trigger() ::
    {call, pattern(), Ms :: number()}
    | {request, pattern(), Ms :: number()}
    | {mailbox, Messages :: non_neg_integer()}
    | {mailbox, [atom() | pid()], Messages :: non_neg_integer()}
    | {exit, Reason :: atom() | string() | binary()}
    | {collection, Ms :: number()}
    | {schedule, Ms :: number()}
    | {stopped, Ms :: number()}
    | {check, fun(() -> boolean() | {true, term()})}
    | {check, fun(() -> boolean() | {true, term()}), Interval :: pos_integer()}.
%% <ul>
%% <li>`call': a call of such a function takes longer.</li>
%% <li>`request': a request is not answered in that time. The pattern is the registered name of
%%   the server, the function that it runs, or the one that handles the request; `'_'' is any
%%   request.</li>
%% <li>`mailbox': a process has more messages. Up to 2,000 processes are looked at five times a
%%   second, in turns when there are more; or only the ones named.</li>
%% <li>`exit': a process exits with this reason, a pattern; of a tuple its first element counts.
%%   `normal' and `shutdown' never do.</li>
%% <li>`collection': a garbage collection takes longer. `schedule': a process keeps its scheduler
%%   longer; dirty schedulers do not count.</li>
%% <li>`stopped': a process of the highest priority could not run for so long while the runtime
%%   stopped all schedulers. Only on the runtime of `erts_patches', which counts these stops.</li>
%% <li>`check': the fun returns `true' or `{true, Why}'. It is called every `Interval' milliseconds
%%   (1000), in a process of its own that is killed after five seconds.</li>
%% </ul>

-type on_trigger() :: #{
    action => snapshot | stop | note,
    folder => file:name_all(),
    cooldown => non_neg_integer(),
    max => pos_integer() | infinity,
    keep => pos_integer() | infinity,
    keep_bytes => pos_integer() | infinity
}.
%% <ul>
%% <li>`action': take a snapshot (default), stop the recorder, or only note it for {@link
%%   kymo:info/1}.</li>
%% <li>`folder': each snapshot is a new folder in it. Default: the folder of the recording with
%%   `.triggered' behind its name.</li>
%% <li>`cooldown': for so many milliseconds after it has fired a trigger does not fire again
%%   (10000); what would have fired is counted.</li>
%% <li>`max': how many snapshots the recorder takes in all (100).</li>
%% <li>`keep', `keep_bytes': how many snapshots, and how many bytes of them, stay in the folder;
%%   the oldest are removed first, the newest is always kept (10, and 1 GiB). Snapshots of earlier
%%   recorders count, other files do not.</li>
%% </ul>

-type looked() ::
    {mailbox, all | [atom() | pid()], non_neg_integer()}
    | {stopped, Ns :: pos_integer()}
    | {check, fun(() -> boolean() | {true, term()}), Interval :: pos_integer()}.

-type plan() :: #{
    watched := [binary()],
    looked := [{Text :: binary(), looked()}],
    action := snapshot | stop | note,
    folder := default | file:name_all(),
    cooldown := non_neg_integer(),
    max := pos_integer() | infinity,
    keep := pos_integer() | infinity,
    keep_bytes := pos_integer() | infinity
}.

-define(MAX_TRIGGERS, 64).
-define(MAX_MS, 1000000000).
-define(DEFAULTS, #{
    action => snapshot,
    folder => default,
    cooldown => 10000,
    max => 100,
    keep => 10,
    keep_bytes => 1 bsl 30
}).

%% @doc Both options as they are carried out; `none' without triggers.
-spec parse(term(), term()) -> {ok, plan() | none} | {error, {bad_option, triggers | on_trigger, term()}}.
parse(Triggers, On) ->
    try {triggers(Triggers), on(On)} of
        {[], _} -> {ok, none};
        {Parsed, Plan} -> {ok, Plan#{watched => [T || {watched, T} <- Parsed], looked => [L || {looked, L} <- Parsed]}}
    catch
        throw:{bad, Key, Value} -> {error, {bad_option, Key, Value}}
    end.

%% @doc The triggers that the command judges.
-spec watched(plan()) -> [binary()].
watched(#{watched := Watched}) -> Watched.

%% @doc Those that the node looks at.
-spec looked(plan()) -> [{binary(), looked()}].
looked(#{looked := Looked}) -> Looked.

%% @doc What is allowed, for an error message.
-spec format_allowed(triggers | on_trigger) -> string().
format_allowed(triggers) ->
    "a list of at most 64 of {call, Functions, Ms}, {request, Functions, Ms}, {mailbox, N}, {mailbox, Names, N}, "
    "{exit, Reason}, {collection, Ms}, {schedule, Ms}, {check, Fun}, {check, Fun, Ms}" ++
        case is_counting() of
            true -> ", {stopped, Ms}";
            false -> "; {stopped, Ms} needs the runtime of erts_patches"
        end;
format_allowed(on_trigger) ->
    "a map of action (snapshot, stop, note), folder, cooldown (milliseconds), max, keep and keep_bytes "
    "(each at least 1 or infinity)".

%% ---- triggers ---------------------------------------------------------------

triggers(List) when is_list(List), length(List) =< ?MAX_TRIGGERS -> [trigger(T) || T <- List];
triggers(Other) -> bad(triggers, Other).

trigger({call, Pattern, Ms} = T) -> watched(T, ["call,", pattern(T, Pattern), $,, ms(T, Ms)]);
trigger({request, Pattern, Ms} = T) -> watched(T, ["request,", pattern(T, Pattern), $,, ms(T, Ms)]);
trigger({exit, Reason} = T) when is_atom(Reason); is_list(Reason); is_binary(Reason) ->
    watched(T, ["exit,", pattern(T, Reason)]);
trigger({collection, Ms} = T) -> watched(T, ["collection,", ms(T, Ms)]);
trigger({schedule, Ms} = T) -> watched(T, ["schedule,", ms(T, Ms)]);
trigger({mailbox, N} = T) -> looked(T, {mailbox, all, count(T, N)});
trigger({mailbox, Names, N} = T) when is_list(Names), Names =/= [] ->
    lists:all(fun is_process/1, Names) orelse bad(triggers, T),
    looked(T, {mailbox, Names, count(T, N)});
trigger({stopped, Ms} = T) ->
    is_counting() orelse bad(triggers, T),
    _ = ms(T, Ms),
    looked(T, {stopped, round(Ms * 1000000)});
trigger({check, Fun}) -> trigger({check, Fun, 1000});
trigger({check, Fun, Interval} = T) when is_function(Fun, 0), is_integer(Interval), Interval > 0, Interval =< ?MAX_MS ->
    looked(T, {check, Fun, Interval});
trigger(T) -> bad(triggers, T).

watched(T, Text) ->
    try unicode:characters_to_binary(Text) of
        Binary when is_binary(Binary) -> {watched, Binary};
        _ -> bad(triggers, T)
    catch
        error:badarg -> bad(triggers, T)
    end.

%% As text as the command would take it.
looked(_, {mailbox, all, N} = L) -> {looked, {text("mailbox,~b", [N]), L}};
looked(_, {mailbox, Names, N} = L) -> {looked, {text("mailbox,~0tp,~b", [Names, N]), L}};
looked({stopped, Ms}, L) -> {looked, {text("stopped,~wms", [Ms]), L}};
looked(_, {check, Fun, Interval} = L) -> {looked, {text("check,~0tp,~bms", [Fun, Interval]), L}}.

text(Format, Args) -> unicode:characters_to_binary(io_lib:format(Format, Args)).

pattern(T, Text) when is_list(Text); is_binary(Text) ->
    case characters(Text) of
        [_ | _] = Chars -> Chars;
        _ -> bad(triggers, T)
    end;
pattern(_, Name) when is_atom(Name) -> name(Name);
pattern(_, {M, F}) when is_atom(M), is_atom(F) -> [name(M), $:, name(F)];
pattern(_, {M, F, A}) when is_atom(M), is_atom(F), is_integer(A), A >= 0, A < 256 ->
    [name(M), $:, name(F), $/, integer_to_list(A)];
pattern(_, {M, F, '_'}) when is_atom(M), is_atom(F) -> [name(M), $:, name(F), "/_"];
pattern(T, _) -> bad(triggers, T).

%% One line of text, or `[]'.
characters(Text) ->
    try unicode:characters_to_list(Text) of
        Chars when is_list(Chars) ->
            case lists:any(fun(C) -> C < 32 end, Chars) of
                true -> [];
                false -> Chars
            end;
        _ ->
            []
    catch
        error:badarg -> []
    end.

%% Anything is written without the quotes that the atom has.
name('_') -> "_";
name(Name) -> io_lib:format("~tp", [Name]).

ms(_, Ms) when is_number(Ms), Ms >= 0.001, Ms =< ?MAX_MS -> [integer_to_list(round(Ms * 1000)), "us"];
ms(T, _) -> bad(triggers, T).

count(_, N) when is_integer(N), N >= 0 -> N;
count(T, _) -> bad(triggers, T).

is_process(P) -> is_atom(P) orelse (is_pid(P) andalso node(P) =:= node()).

is_counting() ->
    try is_map(erlang:system_info(kymo_blocking))
    catch
        error:badarg -> false
    end.

%% ---- what is done -----------------------------------------------------------

on(On) when is_map(On) ->
    case maps:keys(On) -- maps:keys(?DEFAULTS) of
        [] -> maps:map(fun allowed/2, maps:merge(?DEFAULTS, On));
        [Key | _] -> bad(on_trigger, {Key, maps:get(Key, On)})
    end;
on(Other) ->
    bad(on_trigger, Other).

allowed(action, A) when A =:= snapshot; A =:= stop; A =:= note -> A;
allowed(folder, default) -> default;
allowed(folder, Folder) when is_list(Folder), Folder =/= ""; is_binary(Folder), Folder =/= <<>> -> Folder;
allowed(cooldown, Ms) when is_integer(Ms), Ms >= 0, Ms =< ?MAX_MS -> Ms;
allowed(Key, infinity) when Key =:= max; Key =:= keep; Key =:= keep_bytes -> infinity;
allowed(Key, N) when is_integer(N), N > 0, Key =/= action, Key =/= folder, Key =/= cooldown -> N;
allowed(Key, Value) -> bad(on_trigger, {Key, Value}).

-spec bad(triggers | on_trigger, term()) -> no_return().
bad(Key, Value) -> throw({bad, Key, Value}).
