%% SPDX-License-Identifier: Apache-2.0
%%
%% The cost of recording to the traced process does not depend on the size or kind of its terms:
%% as many allocator calls as for a small tuple, no growing memory, and no more bytes recorded
%% than `content_bytes' allows. Each case runs in a node of its own, in which little else
%% allocates.
-module(kymo_bounded_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-compile(export_all).
-compile(nowarn_export_all).

-define(MESSAGES, 100).
-define(CONTENT_BYTES, 512).
%% Allocator calls that unrelated activity in the node may add during a case.
-define(NOISE, 40).
-define(NOISE_BYTES, 1000000).

all() ->
    [{group, sizes}, {group, contents}, {group, paths}, appended, appended_messages, appended_contents, reference_idents,
     record_shown, atoms_shown, not_understood].

groups() ->
    Terms = [bits_at_offset, binary_at_offset, bitstring, part_of_binary, small_at_offset, large_map, small_map,
             bits_in_map, deep_list, deep_tuple, long_list, wide_tuple, local_fun, exported_fun, reference,
             alias_reference, object_reference, remote_terms, node_terms, large_integer, atoms, gen_call, record],
    Paths = [arguments, returns, exit_reasons, match_spec_results, labels, receives],
    [{sizes, [], Terms}, {contents, [], Terms},
     {paths, [], [{group, P} || P <- [peers | Paths]]},
     {peers, [], [alias_reference]}
     | [{P, [], [bits_at_offset, large_map, alias_reference, record]} || P <- Paths]].

suite() ->
    [{timetrap, {minutes, 2}}].

init_per_group(Group, Config) ->
    [{path, Group} | proplists:delete(path, Config)].

end_per_group(_, _) ->
    ok.

init_per_testcase(Case, Config) ->
    case lists:member(Case, [record, record_shown]) andalso not has_records() of
        true -> {skip, "this runtime has no native records"};
        false -> [{dir, filename:join(?config(priv_dir, Config), unique(Case))} | Config]
    end.

end_per_testcase(_, _) ->
    ok.

unique(Case) ->
    lists:flatten(io_lib:format("~p-~p", [Case, erlang:unique_integer([positive])])).

has_records() ->
    list_to_integer(erlang:system_info(otp_release)) >= 29.

%% ---- the terms ------------------------------------------------------------------

bits_at_offset(Config) -> case_of(bits_at_offset, Config).
binary_at_offset(Config) -> case_of(binary_at_offset, Config).
bitstring(Config) -> case_of(bitstring, Config).
part_of_binary(Config) -> case_of(part_of_binary, Config).
small_at_offset(Config) -> case_of(small_at_offset, Config).
large_map(Config) -> case_of(large_map, Config).
small_map(Config) -> case_of(small_map, Config).
bits_in_map(Config) -> case_of(bits_in_map, Config).
deep_list(Config) -> case_of(deep_list, Config).
deep_tuple(Config) -> case_of(deep_tuple, Config).
long_list(Config) -> case_of(long_list, Config).
wide_tuple(Config) -> case_of(wide_tuple, Config).
local_fun(Config) -> case_of(local_fun, Config).
exported_fun(Config) -> case_of(exported_fun, Config).
reference(Config) -> case_of(reference, Config).
alias_reference(Config) -> case_of(alias_reference, Config).
object_reference(Config) -> case_of(object_reference, Config).
remote_terms(Config) -> case_of(remote_terms, Config).
node_terms(Config) -> case_of(node_terms, Config).
large_integer(Config) -> case_of(large_integer, Config).
atoms(Config) -> case_of(atoms, Config).
gen_call(Config) -> case_of(gen_call, Config).
record(Config) -> case_of(record, Config).

term(control) -> {a, b, c, d, e};
term(others) -> {1 bsl 70, -1.5, [b], #{c => d}, self(), hd(erlang:ports())};
term(bits_at_offset) ->
    <<_:3, Bits/bits>> = large(),
    Bits;
term(binary_at_offset) ->
    Size = byte_size(large()) - 1,
    <<_:5, Binary:Size/binary, _/bits>> = large(),
    Binary;
term(bitstring) ->
    Size = bit_size(large()) - 3,
    <<Bits:Size/bits, _/bits>> = large(),
    Bits;
term(part_of_binary) -> binary:part(large(), 11, byte_size(large()) - 100);
term(small_at_offset) ->
    <<_:3, Small:40/binary, _/bits>> = <<1:400>>,
    {Small, <<5:3>>, <<5:3, 7>>};
term(large_map) -> maps:from_list([{N, {N}} || N <- lists:seq(1, 20000)]);
term(small_map) -> #{a => 1, <<"b">> => [2], {c} => #{d => 3}};
term(bits_in_map) -> #{term(bits_at_offset) => term(bitstring), x => term(binary_at_offset)};
term(deep_list) -> lists:foldl(fun(_, L) -> [L] end, [], lists:seq(1, 100000));
term(deep_tuple) -> lists:foldl(fun(_, T) -> {T, x} end, {}, lists:seq(1, 100000));
term(long_list) -> lists:seq(1, 300000);
term(wide_tuple) -> erlang:make_tuple(200000, <<"x">>);
term(local_fun) ->
    Held = term(bits_at_offset),
    fun() -> Held end;
term(exported_fun) -> fun lists:map/2;
term(reference) -> make_ref();
term(alias_reference) ->
    Alias = alias(),
    true = unalias(Alias),
    Alias;
term(object_reference) -> {atomics:new(1, []), ets:new(?MODULE, [])};
term(remote_terms) -> {kymo_conform:remote(pid), kymo_conform:remote(port), kymo_conform:remote(reference)};
term(node_terms) -> persistent_term:get({?MODULE, node_terms});
term(large_integer) -> {1 bsl 800000, -(1 bsl 200)};
term(atoms) -> {list_to_atom([955, 960]), list_to_atom("\"'\\" ++ [0, 7, $1, $\n, 127, 128, 150, 159, 160, 8364]),
                list_to_atom(lists:seq(1, 250) ++ [1024]), list_to_atom(lists:duplicate(100, 128512))};
term(gen_call) -> {'$gen_call', {self(), [alias | make_ref()]}, term(bits_at_offset)};
term(record) -> record_of([{N, term(bits_at_offset)} || N <- [one, two, three]]).

large() ->
    case persistent_term:get(?MODULE, none) of
        none ->
            persistent_term:put(?MODULE, binary:copy(<<"0123456789">>, 10000000)),
            large();
        Large ->
            Large
    end.

%% Built from its external form, because compilers may lack the syntax.
record_of(Fields) ->
    Atom = fun(A) -> Text = atom_to_binary(A), <<119, (byte_size(Text)), Text/binary>> end,
    Keys = << <<(Atom(K))/binary>> || {K, _} <- Fields >>,
    Values = << <<(binary:part(term_to_binary(N), 1, 2))/binary>> || N <- lists:seq(1, length(Fields)) >>,
    Record = binary_to_term(<<131, $C, (length(Fields)):32, 0, (Atom(kymo_test))/binary, (Atom(thing))/binary,
                              Keys/binary, Values/binary>>),
    %% A record that holds the terms themselves, not copies decoded from the external form.
    {Record, [V || {_, V} <- Fields]}.

%% ---- the comparison ----------------------------------------------------------------

case_of(Name, Config) ->
    Path = ?config(path, Config),
    Dir = ?config(dir, Config),
    [Peer | _] = Peers = start_nodes(Name),
    try
        {Info, {Calls, Bytes}, {ControlCalls, ControlBytes}} =
            peer:call(Peer, ?MODULE, compare, [Path, Name, Dir], infinity),
        #{events := Events, bytes := Recorded, lost := Lost} = Info,
        ct:pal("~p ~p: ~p calls, ~p bytes at most; control: ~p, ~p; ~p bytes recorded in ~p events",
               [Path, Name, Calls, Bytes, ControlCalls, ControlBytes, Recorded, Events]),
        ?assert(Events >= ?MESSAGES),
        ?assertEqual(0, lists:sum(maps:values(Lost))),
        ?assert(Calls =< ControlCalls + ?NOISE),
        ?assert(Bytes =< ControlBytes + ?NOISE_BYTES),
        ?assert(Recorded =< Events * (2 * ?CONTENT_BYTES + 128) + 65536)
    after
        [peer:stop(P) || P <- Peers]
    end.

%% A node with one scheduler, and the other nodes that the terms need.
start_nodes(node_terms) ->
    {Peer, Node} = start_node(#{name => peer:random_name()}),
    {Other, OtherNode} = start_node(#{name => peer:random_name()}),
    pong = peer:call(Other, net_adm, ping, [Node]),
    Terms = peer:call(Peer, rpc, call, [OtherNode, ?MODULE, own_terms, []]),
    ok = peer:call(Peer, persistent_term, put, [{?MODULE, node_terms}, Terms]),
    [Peer, Other];
start_nodes(_) ->
    {Peer, _} = start_node(#{}),
    [Peer].

start_node(Options) ->
    Paths = lists:usort([filename:dirname(code:which(M)) || M <- [?MODULE, kymo_tracer]]),
    Args = ["+S", "1:1" | lists:append([["-pa", P] || P <- Paths])] ++ erts_reload_work:emulator_flags(),
    {ok, Peer, Node} = peer:start(Options#{connection => standard_io, args => Args, wait_boot => 60000}),
    {Peer, Node}.

own_terms() ->
    {self(), hd(erlang:ports()), make_ref(), alias(), atomics:new(1, [])}.

%% In the node: the same work for the term and for the control. If a process exits with a term,
%% the runtime itself has costs that depend on the term, so the control is then the same term in
%% a recording without contents.
compare(Path, Name, Dir) ->
    [{module, _} = code:ensure_loaded(M) || M <- [kymo_tracer, kymo_workload, kymo_conform, seq_trace, ?MODULE]],
    set_patterns(Path),
    {ok, State} = kymo_tracer:open(options(Path, Dir)),
    Control = case Path of
                  exit_reasons ->
                      {ok, Other} = kymo_tracer:open(options(none, Dir ++ "-control")),
                      cost(Path, Name, Other);
                  _ ->
                      cost(Path, control, State)
              end,
    Cost = cost(Path, Name, State),
    Info = kymo_tracer:info(State),
    ok = kymo_tracer:stop(State),
    {Info, Cost, Control}.

options(Path, Dir) ->
    Base = #{dir => Dir, content_bytes => ?CONTENT_BYTES, memory => 16 bsl 20},
    case Path of
        sizes -> Base;
        peers -> Base;
        none -> Base;
        receives -> Base#{messages => contents};
        contents -> Base#{messages => contents};
        arguments -> Base#{calls => arguments};
        returns -> Base#{returns => values};
        _ -> Base#{terms => contents}
    end.

set_patterns(Path) ->
    MatchSpec = case Path of
                    returns -> [{'_', [], [{return_trace}]}];
                    match_spec_results -> [{['$1'], [], [{message, '$1'}]}];
                    _ -> true
                end,
    1 = erlang:trace_pattern({kymo_workload, id, 1}, MatchSpec, [local]).

%% {Allocator calls, peak of the bytes held in addition to those held before} for MESSAGES
%% events of a process that has built the term before.
cost(Path, Name, State) ->
    Self = self(),
    {Pid, Ref} = spawn_opt(fun() -> tracee(Path, Name, Self) end,
                           [monitor, {min_heap_size, 4000000}, {fullsweep_after, 100}]),
    receive {Pid, ready} -> ok end,
    trace(Path, Pid, State),
    run(Pid),
    erlang:garbage_collect(),
    Before = allocators(),
    run(Pid),
    After = allocators(),
    erlang:trace(Pid, false, [all]),
    seq_trace:set_system_tracer(false),
    exit(Pid, kill),
    receive {'DOWN', Ref, process, Pid, _} -> ok end,
    {calls(After) - calls(Before), held(Before, After)}.

trace(labels, _, State) ->
    seq_trace:set_system_tracer({kymo_tracer, State});
trace(Path, Pid, State) ->
    Flags = case Path of
                receives -> ['receive'];
                exit_reasons -> [procs, set_on_spawn];
                _ when Path =:= sizes; Path =:= contents; Path =:= peers -> [send];
                _ -> [call]
            end,
    1 = erlang:trace(Pid, true, Flags ++ [{tracer, kymo_tracer, State}]).

run(Pid) ->
    Pid ! {run, self()},
    receive {Pid, done} -> ok end.

tracee(Path, Name, Parent) ->
    Term = term(Name),
    Dead = spawn(fun() -> ok end),
    Parent ! {self(), ready},
    tracee_loop(Path, Term, Dead).

tracee_loop(Path, Term, Dead) ->
    receive
        {run, From} ->
            work(Path, Term, Dead, ?MESSAGES),
            From ! {self(), done},
            tracee_loop(Path, Term, Dead)
    end.

work(_, _, _, 0) -> ok;
work(Path, Term, Dead, N) ->
    event(Path, Term, Dead),
    work(Path, Term, Dead, N - 1).

event(arguments, Term, _) -> kymo_workload:id(Term);
event(returns, Term, _) -> kymo_workload:id(Term);
event(match_spec_results, Term, _) -> kymo_workload:id(Term);
event(exit_reasons, Term, _) ->
    {_, Ref} = spawn_monitor(fun() -> exit(Term) end),
    receive {'DOWN', Ref, process, _, _} -> ok end;
event(labels, Term, Dead) ->
    seq_trace:set_token(label, Term),
    seq_trace:set_token(print, true),
    seq_trace:print(x),
    seq_trace:set_token([]),
    Dead;
event(receives, Term, _) ->
    self() ! Term,
    receive Term -> ok end;
event(peers, Term, _) when is_reference(Term) -> Term ! x;
event(peers, _, _) -> self() ! x;   % the control, which ends in a mailbox, too
event(_, Term, Dead) -> Dead ! Term.

%% ---- what the allocators say ----------------------------------------------------------

allocators() ->
    [{{A, I}, Data} || A <- erlang:system_info(alloc_util_allocators),
                       Instances <- [erlang:system_info({allocator, A})], is_list(Instances),
                       {instance, I, Data} <- Instances].

calls(Instances) ->
    lists:sum([Giga * 1000000000 + N || {_, Data} <- Instances,
                                        {Call, Giga, N} <- proplists:get_value(calls, Data, []),
                                        is_of_alloc(atom_to_list(Call))]).

%% Except those of allocators that the allocator itself creates for its carriers.
is_of_alloc("mseg_" ++ _) -> false;
is_of_alloc("sys_" ++ _) -> false;
is_of_alloc(Name) -> lists:suffix("_alloc", Name) orelse lists:suffix("_realloc", Name).

%% The second number of a size is its maximum since it was last read.
held(Before, After) ->
    lists:sum([max(0, lists:sum([Max || {_, Max} <- sizes(Data)]) -
                       lists:sum([Now || {Now, _} <- sizes(proplists:get_value(Key, Before, []))]))
               || {Key, Data} <- After]).

sizes(Data) ->
    [{Now, Max} || Kind <- [mbcs, sbcs], {blocks, Blocks} <- proplists:get_value(Kind, Data, []),
                   {_, Of} <- Blocks, {size, Now, Max, _} <- Of].

%% ---- binaries that are appended to --------------------------------------------------------

-define(APPENDS, 30000).

%% Inspecting a binary that its process appends to would disable the runtime's in-place append:
%% each append would then copy the whole binary.
appended(Config) ->
    appended(Config, #{calls => arguments}, [call]).

appended_messages(Config) ->
    appended(Config, #{messages => contents}, [send]).

appended(Config, Options, Flags) ->
    {Peer, _} = start_node(#{}),
    try
        {Plain, Traced, Info} = peer:call(Peer, ?MODULE, compare_appending, [?config(dir, Config), Options, Flags],
                                          infinity),
        ct:pal("~p; traced: ~p", [Plain, Traced]),
        #{events := Events, lost := Lost} = Info,
        ?assert(Events >= ?APPENDS),
        ?assertEqual(0, lists:sum(maps:values(Lost))),
        {PlainCalls, PlainBytes} = Plain,
        {Calls, Bytes} = Traced,
        ?assert(Calls =< PlainCalls + 200),
        ?assert(Bytes =< 2 * PlainBytes + ?NOISE_BYTES)
    after
        peer:stop(Peer)
    end.

compare_appending(Dir, Options, Flags) ->
    {ok, State} = kymo_tracer:open(Options#{dir => Dir, content_bytes => 64, memory => 48 bsl 20}),
    {module, _} = code:ensure_loaded(kymo_workload),
    1 = erlang:trace_pattern({kymo_workload, id, 1}, true, [local]),
    Plain = appending(fun(_) -> ok end, Flags),
    Traced = appending(fun(Pid) -> 1 = erlang:trace(Pid, true, Flags ++ [{tracer, kymo_tracer, State}]) end, Flags),
    Info = kymo_tracer:info(State),
    ok = kymo_tracer:stop(State),
    {Plain, Traced, Info}.

%% Only calls of binary_alloc: garbage collections of the heap are not counted.
appending(Trace, [Flag]) ->
    Self = self(),
    Name = list_to_atom("nobody"),
    {Pid, Ref} = spawn_opt(fun() ->
                                   receive go -> ok end,
                                   append(Flag, Name, <<>>, ?APPENDS),
                                   Self ! {self(), done},
                                   receive stop -> ok end
                           end, [monitor, {min_heap_size, 4000000}]),
    _ = Trace(Pid),
    Before = binary_allocators(),
    Pid ! go,
    receive {Pid, done} -> ok end,
    After = binary_allocators(),
    Pid ! stop,
    receive {'DOWN', Ref, process, Pid, _} -> ok end,
    {calls(After) - calls(Before), held(Before, After)}.

binary_allocators() ->
    [A || {{binary_alloc, _}, _} = A <- allocators()].

append(_, _, _, 0) -> ok;
append(Flag, Name, Binary, N) ->
    See = case Flag of
              call -> fun kymo_workload:id/1;
              send -> fun(_) -> catch Name ! N end
          end,
    _ = See(Binary),
    append(Flag, Name, <<Binary/binary, N:64>>, N - 1).

%% A binary that is appended to is recorded with its contents at that moment, even if its bytes
%% have been moved.
appended_contents(Config) ->
    Dir = ?config(dir, Config),
    {ok, State} = kymo_tracer:open(#{dir => Dir, calls => arguments, content_bytes => 16000, segment_size => 65536,
                                     memory => 16 bsl 20}),
    {module, _} = code:ensure_loaded(kymo_workload),
    1 = erlang:trace_pattern({kymo_workload, id, 1}, true, [local]),
    {Pid, Ref} = spawn_monitor(
                   fun() ->
                           receive go -> ok end,
                           Parts = parts(<<>>, 60, []) ++ parts(<<1:3>>, 60, []),
                           [kymo_workload:id(P) || P <- Parts],
                           exit({parts, Parts})
                   end),
    1 = erlang:trace(Pid, true, [call, {tracer, kymo_tracer, State}]),
    Pid ! go,
    Parts = receive {'DOWN', Ref, process, Pid, {parts, Ps}} -> Ps end,
    1 = erlang:trace_pattern({kymo_workload, id, 1}, false, [local]),
    ok = kymo_tracer:stop(State),
    Calls = [A || {trace, _, call, {kymo_workload, id, [A]}} <- kymo_cli:events(Dir)],
    %% First the calls made while the binary grew, then those with each of its states.
    ?assertEqual(240, length(Calls)),
    {Grew, After} = lists:split(length(Parts), Calls),
    ?assertEqual(Parts, After),
    ?assertEqual(Parts, Grew).

parts(_, 0, Parts) -> lists:reverse(Parts);
parts(Begun, N, Parts) ->
    Part = <<Begun/bits, N:32, 0:(N rem 9), (N * N):777>>,
    parts(kymo_workload:id(Part), N - 1, [Part | Parts]).

%% ---- references as peers --------------------------------------------------------------------

%% A reference has one identity, whichever process sends to it, and no two references share one.
reference_idents(Config) ->
    Dir = ?config(dir, Config),
    {ok, State} = kymo_tracer:open(#{dir => Dir, memory => 4 bsl 20}),
    Aliases = [alias() || _ <- lists:seq(1, 50)],
    [begin
         {Pid, Ref} = spawn_monitor(fun() -> receive go -> [A ! x || A <- Aliases] end end),
         1 = erlang:trace(Pid, true, [send, {tracer, kymo_tracer, State}]),
         Pid ! go,
         receive {'DOWN', Ref, process, Pid, _} -> ok end
     end || _ <- [1, 2]],
    ok = kymo_tracer:stop(State),
    [unalias(A) || A <- Aliases],
    {0, Text} = kymo_cli:run(["print", Dir]),
    {match, Idents} = re:run(Text, "to=(#Ref<[0-9a-f]+>)", [global, {capture, [1], list}]),
    {First, Second} = lists:split(length(Aliases), Idents),
    ?assertEqual(First, Second),
    ?assertEqual(length(Aliases), length(lists:usort(First))).

%% ---- native records ----------------------------------------------------------------------------

record_shown(Config) ->
    {Record, _} = record_of([{one, 1}, {two, 2}]),
    Dir = ?config(dir, Config),
    {ok, State} = kymo_tracer:open(#{dir => Dir, messages => contents, memory => 4 bsl 20}),
    1 = erlang:trace(self(), true, [send, {tracer, kymo_tracer, State}]),
    self() ! {Record, #{Record => 1}},
    1 = erlang:trace(self(), false, [send]),
    ok = kymo_tracer:stop(State),
    Shown = {'$record', kymo_test, thing, #{one => 1, two => 2}},
    ?assertMatch([{trace, _, send, {Shown, Map}, _}] when map_get(Shown, Map) =:= 1, kymo_cli:events(Dir)),
    {0, Text} = kymo_cli:run(["print", Dir]),
    Words = erts_debug:flat_size({Record, #{Record => 1}}),
    ?assertMatch({match, _}, re:run(Text, "words=" ++ integer_to_list(Words) ++ " ")).

%% ---- names of atoms ----------------------------------------------------------------------------

%% Before OTP 26, the names of these atoms are available only as text that the runtime prints.
atoms_shown(Config) ->
    Dir = ?config(dir, Config),
    Atoms = tuple_to_list(term(atoms)) ++
        [list_to_atom([C, D, 955]) || C <- lists:seq(0, 300), D <- [$', $1]],
    {ok, State} = kymo_tracer:open(#{dir => Dir, messages => contents, memory => 4 bsl 20}),
    1 = erlang:trace(self(), true, [send, {tracer, kymo_tracer, State}]),
    [self() ! A || A <- Atoms],
    1 = erlang:trace(self(), false, [send]),
    ok = kymo_tracer:stop(State),
    ?assertEqual(Atoms, [A || {trace, _, send, A, _} <- kymo_cli:events(Dir)]).

%% ---- runtimes with another term layout -------------------------------------------------------

%% If the library finds sample terms laid out otherwise than it expects, the runtime has another
%% layout: terms of that kind are left out, and all others are recorded whole.
not_understood(Config) ->
    Whole = [control, reference, alias_reference, object_reference, others],
    Bits = [bits_at_offset, bitstring, part_of_binary, small_at_offset],
    left_out('Offset', Bits, Whole, Config),
    left_out('Magic', [object_reference], Whole -- [object_reference], Config),
    left_out('Alias', [alias_reference], Whole -- [alias_reference], Config),
    {[_], [{'$fun', <<"fun lists:map/2">>}]} = recorded_with('Export', [exported_fun], Config).

left_out(Sample, LeftOut, Whole, Config) ->
    {Terms, Recorded} = recorded_with(Sample, LeftOut ++ Whole, Config),
    {Expected, Same} = lists:split(length(LeftOut), Terms),
    ?assertEqual({Sample, [dots(T) || T <- Expected] ++ Same}, {Sample, Recorded}).

dots(T) when is_tuple(T) -> list_to_tuple(lists:duplicate(tuple_size(T), '...'));
dots(_) -> '...'.

%% Terms, and what a node records of them if its library is given a wrong sample.
recorded_with(Sample, Names, Config) ->
    Dir = ?config(dir, Config) ++ atom_to_list(Sample),
    {Peer, _} = start_node(#{}),
    try
        Terms = peer:call(Peer, ?MODULE, record_with, [Sample, Names, Dir], 60000),
        {Terms, [T || {trace, _, _, T, _} <- kymo_cli:events(Dir)]}
    after
        peer:stop(Peer)
    end.

record_with(Sample, Names, Dir) ->
    Beam = code:which(kymo_tracer),
    {ok, {_, [{abstract_code, {_, Forms}}]}} = beam_lib:chunks(Beam, [abstract_code]),
    {ok, kymo_tracer, Code} = compile:forms([spoil(Sample, F) || F <- Forms], [binary]),
    {module, _} = code:load_binary(kymo_tracer, Beam, Code),
    {ok, State} = kymo_tracer:open(#{dir => Dir, messages => contents, memory => 4 bsl 20, content_bytes => 4000}),
    Terms = [term(N) || N <- Names],
    {Dead, Ref} = spawn_monitor(fun() -> ok end),
    receive {'DOWN', Ref, process, Dead, _} -> ok end,
    1 = erlang:trace(self(), true, [send, {tracer, kymo_tracer, State}]),
    [Dead ! T || T <- Terms],
    1 = erlang:trace(self(), false, [send]),
    ok = kymo_tracer:stop(State),
    %% Without printing the large ones.
    [case is_bitstring(T) of true -> bits; false -> T end || T <- Terms].

%% Changes the sample in the tuple that load_file/1 passes to the library.
spoil(Sample, {function, _, load_file, 1, _} = Load) ->
    Wrong = #{'Offset' => {var, 0, 'Large'}, 'Magic' => {call, 0, {atom, 0, make_ref}, []},
              'Alias' => {call, 0, {atom, 0, make_ref}, []}, 'Export' => {var, 0, 'Fun'}},
    spoil_in(Sample, maps:get(Sample, Wrong), Load);
spoil(_, Form) ->
    Form.

spoil_in(Sample, Wrong, {tuple, Line, [_, _, {var, _, 'Large'} | _] = Elements}) ->
    {tuple, Line, [case E of {var, _, Sample} -> Wrong; _ -> E end || E <- Elements]};
spoil_in(Sample, Wrong, Term) when is_tuple(Term) ->
    list_to_tuple([spoil_in(Sample, Wrong, T) || T <- tuple_to_list(Term)]);
spoil_in(Sample, Wrong, Term) when is_list(Term) ->
    [spoil_in(Sample, Wrong, T) || T <- Term];
spoil_in(_, _, Term) ->
    Term.
