%% SPDX-License-Identifier: Apache-2.0
%% @doc The options `triggers' and `on_trigger' of {@link kymo:start/1}: conditions on which a
%% recorder takes a snapshot of itself.
%%
%% ```
%% kymo:start(#{dir => "/dev/shm/rec",
%%              triggers => [{request, '_', 500}, {exit, '_'}, {mailbox, 10000}],
%%              on_trigger => #{folder => "/var/tmp/caught", cooldown => 60000, keep => 5}})
%% '''
%%
%% The recorder starts the command `kymo watch', which reads the recording from outside the
%% node and applies the analysis of `kymo why' to it. So a trigger sees only what is traced
%% with {@link kymo:trace/2}: calls need the functions and their returns (`returns => true',
%% `-> return' or the event `return_to'), requests need `messages', exits `procs', collections
%% `garbage_collection', schedules `running'. Mailboxes, stops of all schedulers, and funs are
%% checked in the node, whatever is traced. Reports need the option `system_monitor', and
%% stops, except on the runtime of `erts_patches', the option `counters'.
%%
%% Times are in milliseconds, and may be floats.
-module(kymo_trigger).

-export([parse/2, missing/2, watched/1, looked/1, format_allowed/1, format_missing/2]).
-export_type([trigger/0, on_trigger/0, plan/0, looked/0]).

-type pattern() :: string() | binary() | module() | {module(), Function :: atom()} | mfa().
%% `"shop:price/1"', `"shop:price"', `"shop"', `"_:handle_call/3"', `"my_*:_/_"'; `_' matches
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
    | {reported, atom() | string() | binary()}
    | {check, fun(() -> boolean() | {true, term()})}
    | {check, fun(() -> boolean() | {true, term()}), Interval :: pos_integer()}.
%% <ul>
%% <li>`call': a call of a matching function takes longer than this.</li>
%% <li>`request': a request is not answered within this time. The pattern matches the registered
%%   name of the server, the function that the server runs, or the one that handles the request;
%%   `` '_' '' matches any request.</li>
%% <li>`mailbox': a process has more messages than this. Only the named processes are checked, or
%%   all: up to 2,000 of them five times a second, in turns if there are more.</li>
%% <li>`exit': a process exits with a reason that matches the pattern; for a tuple, the first
%%   atom in it. `normal' and `shutdown' never match.</li>
%% <li>`collection': a garbage collection takes longer than this.</li>
%% <li>`schedule': a process keeps its scheduler longer than this. Dirty schedulers do not
%%   count.</li>
%% <li>`stopped': no process could run for this time. On the runtime of `erts_patches', which
%%   counts the times that it stops all schedulers: one of the highest priority, because of such
%%   a stop. Elsewhere the process that samples the counters, with high priority, for longer than
%%   twice the usual interval, for whatever reason: also because the operating system did not run
%%   the node.</li>
%% <li>`reported': the system monitor has reported this: `long_gc', `long_schedule',
%%   `large_heap', `busy_port', `busy_dist_port', `long_message_queue', or a pattern.</li>
%% <li>`check': the fun returns `true' or `{true, Why}'. It is called every `Interval'
%%   milliseconds (default 1000), in a process of its own, which is killed after five
%%   seconds.</li>
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
%% <li>`action': `snapshot' (default) takes a snapshot, `stop' stops the recorder, `note' only
%%   lists the firing in {@link kymo:info/1}.</li>
%% <li>`folder': the folder in which each snapshot makes a new folder. Default: the folder of the
%%   recording with `.triggered' appended to its name.</li>
%% <li>`cooldown': the time in milliseconds after a firing during which the same trigger does not
%%   fire again. Default: 10000. Suppressed firings are counted.</li>
%% <li>`max': the maximum number of snapshots of this recorder. Default: 100.</li>
%% <li>`keep', `keep_bytes': the maximum number and total size (bytes) of the snapshots in the
%%   folder. Default: 10, and 1 GiB. The oldest are removed first; the newest is always kept.
%%   Snapshots of earlier recorders count, other files do not.</li>
%% </ul>

-type looked() ::
    {mailbox, all | [atom() | pid()], non_neg_integer()}
    | {stopped, Ns :: pos_integer()}
    | {check, fun(() -> boolean() | {true, term()}), Interval :: pos_integer()}.
%% A trigger that is checked in the node.

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
%% Both options, checked, with defaults: `watched' are the triggers that `kymo watch' evaluates,
%% `looked' those that are checked in the node.

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

%% @private Checks both options. Returns what the recorder carries out; `none' without triggers.
-spec parse(term(), term()) -> {ok, plan() | none} | {error, {bad_option, triggers | on_trigger, term()}}.
parse(Triggers, On) ->
    try {triggers(Triggers), on(On)} of
        {[], _} -> {ok, none};
        {Parsed, Plan} -> {ok, Plan#{watched => [T || {watched, T} <- Parsed], looked => [L || {looked, L} <- Parsed]}}
    catch
        throw:{bad, Key, Value} -> {error, {bad_option, Key, Value}}
    end.

%% @private The first trigger that would never fire without an option of the recorder that is
%% `none', and that option.
-spec missing([binary()], #{counters | system_monitor => term(), _ => _}) -> none | {binary(), counters | system_monitor}.
missing(Watched, Options) ->
    Needs = [{<<"stopped,">>, counters}, {<<"reported,">>, system_monitor}],
    Missing = [
        {Text, Option}
     || Text <- Watched, {Kind, Option} <- Needs, string:prefix(Text, Kind) =/= nomatch, maps:get(Option, Options, none) =:= none
    ],
    case Missing of
        [] -> none;
        [First | _] -> First
    end.

%% @private What to do about it.
-spec format_missing(binary(), counters | system_monitor) -> iolist().
format_missing(Text, Option) ->
    io_lib:format("the trigger ~ts needs the option ~ts of kymo:start/1", [Text, Option]).

%% @private Returns the triggers that the command `kymo watch' evaluates, as its arguments.
-spec watched(plan()) -> [binary()].
watched(#{watched := Watched}) -> Watched.

%% @private Returns the triggers that are checked in the node.
-spec looked(plan()) -> [{binary(), looked()}].
looked(#{looked := Looked}) -> Looked.

%% @private Returns the allowed values of an option, for an error message.
-spec format_allowed(triggers | on_trigger) -> string().
format_allowed(triggers) ->
    "a list of at most 64 of {call, Functions, Ms}, {request, Functions, Ms}, {mailbox, N}, {mailbox, Names, N}, "
    "{exit, Reason}, {collection, Ms}, {schedule, Ms}, {stopped, Ms}, {reported, Kind}, {check, Fun}, {check, Fun, Ms}";
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
    Text = ["stopped,", ms(T, Ms)],
    case is_counting() of
        true -> looked(T, {stopped, round(Ms * 1000000)});
        false -> watched(T, Text)
    end;
trigger({reported, Kind} = T) when is_atom(Kind); is_list(Kind); is_binary(Kind) ->
    Pattern = unicode:characters_to_list(pattern(T, Kind)),
    is_reported(Pattern) orelse bad(triggers, T),
    watched(T, ["reported,", Pattern]);
trigger({check, Fun}) -> trigger({check, Fun, 1000});
trigger({check, Fun, Interval} = T) when is_function(Fun, 0), is_integer(Interval), Interval > 0, Interval =< ?MAX_MS ->
    looked(T, {check, Fun, Interval});
trigger(T) -> bad(triggers, T).

%% Another one would never fire. What fits a pattern is for the command to say.
is_reported(Pattern) ->
    lists:any(fun(C) -> C =:= $* end, Pattern) orelse
        lists:member(Pattern, [
            "_", "long_gc", "long_schedule", "large_heap", "busy_port", "busy_dist_port", "long_message_queue"
        ]).

watched(T, Text) ->
    try unicode:characters_to_binary(Text) of
        Binary when is_binary(Binary) -> {watched, Binary};
        _ -> bad(triggers, T)
    catch
        error:badarg -> bad(triggers, T)
    end.

%% With the text in the syntax of the command.
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

%% The wildcard is written without the quotes of the atom.
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

%% ---- actions ----------------------------------------------------------------

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
