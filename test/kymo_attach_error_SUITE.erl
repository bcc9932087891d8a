%% SPDX-License-Identifier: Apache-2.0
%%
%% The sentences of `kymo attach' name what its user can do: options of the command, not options and functions
%% of kymo in the node.
-module(kymo_attach_error_SUITE).

-include_lib("stdlib/include/assert.hrl").

-import(kymo_cli, [contains/2]).
-import(kymo_hung_attach, [prepare/2, clean/1, node/2, attach/3]).

-export([all/0, suite/0, init_per_testcase/2, end_per_testcase/2]).
-export([sentences/1, of_the_command/1, of_the_node/1, refusals/1, other_tracer/1]).

all() -> [sentences, of_the_command, of_the_node, refusals, other_tracer].

suite() -> [{timetrap, {minutes, 2}}].

init_per_testcase(Case, Config) -> prepare(Case, Config).

end_per_testcase(_, Config) -> clean(Config).

%% Options and functions of Erlang.
-define(ERLANG, "kymo:|application:|KYMO_|=>|`|untrace|option |(^|[^-])\\b(memory|dir|events|functions|processes|garbage_collection) (is|to)\\b").

%% Errors that a recorder in the node returns, in the forms in which they reach the command.
sentences(_) ->
    Reasons = [
        {bad_option, memory, undefined, {at_least, 4096}},
        {bad_option, memory, 1, {at_least, 4096}},
        {bad_option, memory, 1 bsl 60},
        {bad_option, policy, foo},
        {bad_option, calls, foo},
        {bad_option, messages, foo},
        {bad_option, events, foo},
        {bad_option, garbage_collection, foo},
        {bad_option, processes, all},
        {bad_option, slow, 1 bsl 60},
        {enospc, 50000000, 40000},
        {bad_pattern, "lists", 6, "a colon is missing"},
        {no_functions, "lists:mpa"},
        {no_process, nobody},
        {already_traced, self()},
        {already_traced, new_processes},
        {already_traced, {lists, map, 2}},
        {too_many_patterns, {lists, map, 2}},
        {missing_folder, "/nowhere"},
        {unsafe, collections, <<"OTP 27.3.4">>, none},
        {unsafe, collections, <<"OTP 27.3.4">>, <<"99">>},
        {no_library, {unusable, "/tmp/kymo_tracer.so", "a symbol is missing"}},
        {no_library, {refused, "/tmp/kymo_tracer.so", "(2) no"}},
        no_slow_calls,
        too_many_recorders,
        already_stopped,
        ended,
        emfile,
        enfile,
        efbig,
        enomem,
        eagain
    ],
    [
        begin
            Text = unicode:characters_to_list(kymo_attach_error:format(Error)),
            ?assertEqual({Text, nomatch}, {Text, re:run(Text, ?ERLANG)})
        end
     || Reason <- Reasons, Error <- [{start, Reason}, {trace, Reason}, {no_folder, [{"/tmp/x", Reason}]}]
    ],
    ?assertEqual(
        "--policy takes overwrite, discard, not 'foo'", unicode:characters_to_list(kymo_attach_error:format({start, {bad_option, policy, foo}}))
    ),
    ?assertEqual(2, kymo_attach_error:status({start, {bad_option, policy, foo}})),
    contains(unicode:characters_to_list(kymo_attach_error:format({no_folder, [{"/tmp/x", {enospc, 2, 1}}]})), ["--memory", "--node-dir"]),
    contains(unicode:characters_to_list(kymo_attach_error:format({no_folder, [{"/tmp/x", enoent}, {"/tmp/y", eagain}]})), ["prlimit --nproc"]),
    contains(unicode:characters_to_list(kymo_attach_error:format({trace, {already_traced, self()}})), ["--list-recorders"]),
    contains(unicode:characters_to_list(kymo_attach_error:format({no_library, {missing, "kymo_tracer.so", "/opt"}})), ["/opt"]).

%% All texts in the modules that make the sentences of the command.
of_the_command(_) ->
    [?assertEqual({M, Text, nomatch}, {M, Text, re:run(Text, ?ERLANG)}) || M <- [kymo_attach_error, kymo_attach_reason], Text <- texts(forms(M))].

%% The command has a sentence of its own for each one of kymo:format_error/1 that does not suit it.
of_the_node(_) ->
    Own = lists:usort([tag(C) || C <- clauses(format, kymo_attach_reason)]),
    Others = [{tag(C), Text} || C <- clauses(format_error, kymo), Text <- texts(C), re:run(Text, ?ERLANG) =/= nomatch],
    ?assert(length(Others) > 5),
    %% No option of the command leads to these.
    Unreachable = [unknown_option, missing_option, no_command, no_module, already_started],
    ?assertEqual([], [{Tag, Text} || {Tag, Text} <- Others, not lists:member(Tag, Own ++ Unreachable)]).

forms(M) ->
    {ok, {M, [{abstract_code, {_, Forms}}]}} = beam_lib:chunks(code:which(M), [abstract_code]),
    Forms.

clauses(Function, M) -> lists:append([Cs || {function, _, F, 1, Cs} <- forms(M), F =:= Function]).

%% Of the reason that a clause is about.
tag({clause, _, [Pattern], _, _}) -> tag(Pattern);
tag({match, _, Pattern, _}) -> tag(Pattern);
tag({tuple, _, [First | _]}) -> tag(First);
tag({atom, _, Name}) -> Name;
tag({var, _, _}) -> any.

texts({string, _, Text}) -> [Text];
texts(Form) when is_tuple(Form) -> texts(tuple_to_list(Form));
texts([Form | Forms]) -> texts(Form) ++ texts(Forms);
texts(_) -> [].

%% What the user gets to see.
refusals(Config) ->
    Node = node(Config, []),
    [
        begin
            {Status, Text} = attach(Args, Node, Config),
            ?assertEqual({Status, Text}, {Expected, Text}),
            contains(Text, Parts)
        end
     || {Args, Expected, Parts} <- [
            {["--policy", "foo"], 2, ["--policy takes overwrite, discard, not 'foo'"]},
            {["--messages", "foo"], 2, ["--messages takes none, size, contents, not 'foo'"]},
            {["--events", "messages,foo"], 2, ["--events takes a list of", "not 'foo'"]},
            {["--garbage-collection", "foo"], 2, ["--garbage-collection takes auto, always, not 'foo'"]},
            {["--memory", "4096"], 2, ["--memory 4096 is too little", "at least"]},
            {["--process", "nobody"], 6, ["no process nobody", "check --process"]}
        ]
    ],
    kymo_hung_node:stop(Node).

%% Since OTP 27 a recorder has a trace session of its own.
other_tracer(Config) ->
    case list_to_integer(erlang:system_info(otp_release)) of
        Release when Release >= 27 ->
            {skip, "tracers do not exclude each other"};
        _ ->
            Node = node(Config, []),
            _ = kymo_hung_node:call(Node, erlang, trace, [new_processes, true, [send]]),
            {6, Text} = attach(["--for", "100ms"], Node, Config),
            contains(Text, ["another tracer of the node", "traces new processes", "'kymo attach --list-recorders NODE' lists recorders"]),
            kymo_hung_node:stop(Node)
    end.
