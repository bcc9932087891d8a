%% SPDX-License-Identifier: Apache-2.0
%%
%% The recorder's interface kymo_tracer: options, lifecycle, and misuse.
-module(kymo_recorder_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").
-include_lib("kernel/include/file.hrl").

-compile(export_all).
-compile(nowarn_export_all).

all() ->
    [bad_options, bad_folders, good_options, file_names, too_many,
     tags, several, details, detail_none, message_sizes, size_limit, content_bytes, cut_terms, funs,
     sample_events, sample_processes, limit_events, limit_bytes, limit_duration,
     pause_resume, stop_twice, after_stop, let_go, bad_states, notes_taken, error_texts, foreign_states,
     stopped_while_traced, forgotten, owner_dies, owner_is_dead, owner_dies_first,
     info_keys, snapshot_live, snapshot_errors, process_names, names_run_out,
     ten_thousand, exits_while_traced, huge_terms, dirty_schedulers, rotation].

suite() ->
    [{timetrap, {minutes, 2}}].

init_per_suite(Config) ->
    [{module, _} = code:ensure_loaded(M) || M <- [kymo_tracer, kymo_workload, kymo_conform, kymo_cli, timer, ?MODULE]],
    Config.

end_per_suite(_) ->
    ok.

init_per_testcase(Case, Config) ->
    Name = io_lib:format("~p-~p", [Case, erlang:unique_integer([positive])]),
    [{dir, filename:join(?config(priv_dir, Config), lists:flatten(Name))} | Config].

%% Recordings are removed, because they have their full size from the beginning.
end_per_testcase(_, Config) ->
    _ = erlang:trace(all, false, [all]),
    _ = erlang:trace_pattern({'_', '_', '_'}, false, [local]),
    [ok = file:del_dir_r(Dir) || Dir <- filelib:wildcard(?config(dir, Config) ++ "*"), filelib:is_dir(Dir)],
    ok.

%% ---- helpers --------------------------------------------------------------------

small(Config) ->
    #{dir => ?config(dir, Config), segment_size => 4096, memory => 1 bsl 20, dict_size => 65536}.

open(Config) ->
    open(Config, #{}).

open(Config, More) ->
    {ok, State} = kymo_tracer:open(maps:merge(small(Config), More)),
    State.

%% The events that a recorder with these options records of a workload.
events(Config, Options, Flags, Work) ->
    Dir = ?config(dir, Config) ++ integer_to_list(erlang:unique_integer([positive])),
    State = open(Config, Options#{dir => Dir}),
    _ = traced(State, Flags, Work),
    ok = kymo_tracer:stop(State),
    kymo_conform:recorded(Dir).

traced(State, Flags, Work) ->
    {Pid, Ref} = spawn_monitor(fun() -> receive go -> ok end, exit({shutdown, Work()}) end),
    _ = [erlang:trace_pattern({kymo_workload, '_', '_'}, true, [local]) || lists:member(call, Flags)],
    1 = erlang:trace(Pid, true, [{tracer, kymo_tracer, State} | Flags]),
    Pid ! go,
    receive {'DOWN', Ref, process, Pid, {shutdown, Result}} -> Result end.

times(N, F) ->
    fun() -> [F(I) || I <- lists:seq(1, N)] end.

lost(State) ->
    maps:get(lost, kymo_tracer:info(State)).

none_lost(State) ->
    ?assertEqual([0], lists:usort(maps:values(lost(State)))).

until(State, Key, Value) ->
    ?assert(kymo_cli:until(fun() -> maps:get(Key, kymo_tracer:info(State)) =:= Value end)).

json(Dir) ->
    {0, Text} = kymo_cli:run(["info", "--json", Dir]),
    Text.

%% ---- options ----------------------------------------------------------------------

bad_options(Config) ->
    Dir = ?config(dir, Config),
    Bad = #{dir => [<<>>, "", 17, self(), [0], "a\0b", <<"a", 0, "b">>, binary:copy(<<"x">>, 5000), [[], []], {a}],
            policy => [keep, <<"overwrite">>, 1],
            clock => [clock, 0, tsc, "counter"],
            segment_size => [0, 1, 4095, 5000, 2097152, -4096, a, 4096.0, 1 bsl 70],
            memory => [0, -1, 1 bsl 60, 1 bsl 70, infinity],
            dict_size => [0, 4095, (1 bsl 30) + 1, large],
            events => [none, [nothing], [calls | send], [calls, "send"], calls, 1],
            calls => [true, args], returns => [true], messages => [true, all], terms => [true], gc => [true],
            content_bytes => [-1, 16385, 1 bsl 65, all],
            size_limit => [0, 1000001, -5, none],
            sample => [0, -1, 1.5, {process, 0}, {process}, {event, 2}, {process, 1, 2}, 1 bsl 40],
            limit => [10, [], #{bytes => 0}, #{events => -1}, #{duration => x}, #{time => 1},
                      #{bytes => 100, segments => 1}, #{bytes => 1}],
            file_size => [0, 4095, a, 1 bsl 64], file_age => [0, -1, a, 1 bsl 40], max_files => [0, a, 1 bsl 30],
            owner => [owner, undefined, make_ref(), kymo_conform:remote(pid)]},
    [?assertEqual({error, {bad_option, Key, Value}}, kymo_tracer:open(maps:put(Key, Value, #{dir => Dir}))) ||
        {Key, Values} <- maps:to_list(Bad), Value <- Values],
    [?assertEqual({error, {unknown_option, Key}}, kymo_tracer:open(#{dir => Dir, Key => 1})) ||
        Key <- [size, "dir", <<"dir">>, 1, {a, b}, self()]],
    [?assertMatch({error, {bad_option, dir, _}}, kymo_tracer:open(Options)) ||
        Options <- [#{}, [], [{dir, Dir}], <<"dir">>, Dir, self()]],
    %% Too little for two segments per thread: the error names the minimum, which is accepted.
    {error, {bad_option, memory, 65536, {at_least, Least}}} = kymo_tracer:open(#{dir => Dir, memory => 65536}),
    {ok, Smallest} = kymo_tracer:open(#{dir => Dir ++ "-least", memory => Least}),
    ?assertMatch(#{memory := M} when M =< Least, kymo_tracer:info(Smallest)),
    ok = kymo_tracer:stop(Smallest),
    %% More than a quarter of a segment.
    ?assertEqual({error, {bad_option, content_bytes, 1025}},
                 kymo_tracer:open(#{dir => Dir, segment_size => 4096, content_bytes => 1025})),
    ?assertEqual({error, enoent}, file:list_dir(Dir)).

bad_folders(Config) ->
    Dir = ?config(dir, Config),
    ?assertEqual({error, enoent}, kymo_tracer:open(#{dir => filename:join([Dir, "no", "folder"])})),
    File = Dir ++ ".file",
    ok = file:write_file(File, ""),
    ?assertMatch({error, E} when E =:= enotdir; E =:= eexist, kymo_tracer:open(#{dir => File})),
    ?assertMatch({error, enotdir}, kymo_tracer:open(#{dir => filename:join(File, "below")})),
    State = open(Config),
    ?assertEqual({error, eexist}, kymo_tracer:open(small(Config))),
    ok = kymo_tracer:stop(State),
    ?assertEqual({error, eexist}, kymo_tracer:open(small(Config))),
    ?assertMatch({error, _}, kymo_tracer:open(#{dir => "/proc/nothing/can/be/made/here"})).

good_options(Config) ->
    Dir = ?config(dir, Config),
    Good = #{policy => [overwrite, discard], clock => [auto, counter, monotonic],
             segment_size => [4096, 1048576], memory => [16 bsl 20, 48 bsl 20], dict_size => [4096],
             events => [all, [], [calls, messages, send, 'receive', procs, ports, running, running_procs, running_ports,
                                garbage_collection, seq_trace],
                      [call, return_to, return_from, exception_from, send_to_non_existing_process, spawn, spawned,
                       exit, link, unlink, getting_linked, getting_unlinked, register, unregister, open, closed, in,
                       out, in_exiting, out_exiting, out_exited, gc_minor_start, gc_minor_end, gc_major_start,
                       gc_major_end]],
             calls => [arity, arguments], returns => [none, values], messages => [none, size, contents],
             terms => [none, contents], gc => [none, sizes], content_bytes => [0, 16384], size_limit => [1, 1000000],
             sample => [1, 100, {process, 1}, {process, 7}],
             limit => [#{}, #{bytes => infinity, events => infinity, duration => infinity},
                       #{bytes => 1 bsl 30, events => 1, duration => 100000}],
             file_size => [65536], file_age => [1], max_files => [1], owner => [self()]},
    [begin
         This = Dir ++ integer_to_list(erlang:unique_integer([positive])),
         Base = #{dir => This, memory => 64 bsl 20},
         {ok, State} = kymo_tracer:open(maps:put(Key, Value, Base)),
         ok = kymo_tracer:stop(State)
     end || {Key, Values} <- maps:to_list(Good), Value <- Values],
    ok.

file_names(Config) ->
    Dir = ?config(dir, Config),
    Greek = Dir ++ "-λόγος",
    %% The locale may not support Greek; a binary is used as it is.
    InLocale = file:native_name_encoding() =:= utf8,
    InLocale orelse ?assertEqual({error, {bad_option, dir, Greek}}, kymo_tracer:open((small(Config))#{dir => Greek})),
    [begin
         {ok, State} = kymo_tracer:open((small(Config))#{dir => Name}),
         #{dir := As} = kymo_tracer:info(State),
         ?assert(filelib:is_regular(filename:join(As, "meta"))),
         {ok, #file_info{mode = Mode}} = file:read_file_info(filename:join(As, "meta")),
         ?assertEqual(8#600, Mode band 8#777),
         ok = kymo_tracer:stop(State)
     end || Name <- [Dir ++ "-list", list_to_binary(Dir ++ "-binary"), list_to_atom(Dir ++ "-atom"),
                     [Dir, $-, "deep"], unicode:characters_to_binary(Dir ++ "-ψ") | [Greek || InLocale]]],
    ok.

too_many(Config) ->
    Dir = ?config(dir, Config),
    Options = fun(N) -> #{dir => Dir ++ integer_to_list(N), segment_size => 4096, memory => 512 * 1024,
                          dict_size => 4096} end,
    {Open, {error, Reason}} = open_all(Options, 1, []),
    ?assertEqual(too_many_recorders, Reason),
    [kymo_tracer:stop(S) || S <- Open],
    %% Keeps the states alive: an ended recorder exists until its last reference is gone.
    _ = length(Open),
    ok.

open_all(Options, N, Open) ->
    case kymo_tracer:open(Options(N)) of
        {ok, State} when N < 1000 -> open_all(Options, N + 1, [State | Open]);
        Error -> {Open, Error}
    end.

%% ---- what is recorded -----------------------------------------------------------------

tags(Config) ->
    Flags = [call, return_to, send, 'receive', procs, garbage_collection, running],
    Work = fun() ->
                   kymo_workload:outer(2),
                   self() ! message,
                   receive message -> ok end,
                   spawn(kymo_workload, nothing, []),
                   erlang:garbage_collect(),
                   receive after 5 -> ok end
           end,
    Seen = fun(Tags) -> lists:usort([element(3, E) || E <- events(Config, #{events => Tags}, Flags, Work)]) end,
    All = Seen(all),
    Classes = #{calls => [call, return_to], send => [send], 'receive' => ['receive'],
                messages => ['receive', send], procs => [exit, spawn],
                garbage_collection => [gc_major_end, gc_major_start],
                running_procs => [in, out], running => [in, out], running_ports => [], ports => [], seq_trace => []},
    [begin
         ?assertEqual([], (Tags -- All)),
         Without = [gc_minor_start, gc_minor_end, spawned],
         ?assertEqual({Class, Tags}, {Class, Seen([Class]) -- Without})
     end || {Class, Tags} <- maps:to_list(Classes)],
    [?assertEqual([Tag], Seen([Tag])) || Tag <- [call, return_to, send, 'receive', spawn, exit, in, out, gc_major_start]],
    ?assertEqual([call, send], Seen([call, send])),
    ?assertEqual([], Seen([])).

%% Several recorders at once, each with its own options.
several(Config) ->
    Dir = ?config(dir, Config),
    Make = fun(N, Options) -> {ok, S} = kymo_tracer:open(maps:merge(small(Config), Options#{dir => Dir ++ N})), S end,
    A = Make("a", #{events => [calls], calls => arguments}),
    B = Make("b", #{events => [messages], messages => contents}),
    C = Make("c", #{sample => 1000000, policy => discard}),
    erlang:trace_pattern({kymo_workload, id, 1}, true, [local]),
    Pids = [begin
                {Pid, _} = spawn_monitor(fun() ->
                                                 receive go -> ok end,
                                                 [begin kymo_workload:id(I), self() ! I end || I <- lists:seq(1, 100)]
                                         end),
                1 = erlang:trace(Pid, true, [call, send, {tracer, kymo_tracer, S}]),
                Pid
            end || S <- [A, B, C]],
    [P ! go || P <- Pids],
    [receive {'DOWN', _, _, P, normal} -> ok end || P <- Pids],
    [ok = kymo_tracer:stop(S) || S <- [A, B, C]],
    [PidA, PidB, _] = Pids,
    ?assertEqual([{trace, PidA, call, {kymo_workload, id, [I]}} || I <- lists:seq(1, 100)], kymo_conform:recorded(Dir ++ "a")),
    ?assertEqual([{trace, PidB, send, I, PidB} || I <- lists:seq(1, 100)], kymo_conform:recorded(Dir ++ "b")),
    #{events := Events, sampled_out := Out} = kymo_tracer:info(C),
    ?assertEqual(200, Events + Out).

details(Config) ->
    Secret = <<"secret">>,
    Work = fun() ->
                   kymo_workload:id(Secret),
                   self() ! Secret,
                   catch kymo_workload:fail(throw, Secret),
                   spawn(kymo_workload, id, [Secret]),
                   exit({shutdown, Secret})
           end,
    Flags = [call, send, 'receive', procs],
    Run = fun(Options) ->
                  Dir = ?config(dir, Config) ++ integer_to_list(erlang:unique_integer([positive])),
                  State = open(Config, Options#{dir => Dir}),
                  _ = traced(State, Flags, Work),
                  ok = kymo_tracer:stop(State),
                  {ok, Names} = file:list_dir(Dir),
                  Bytes = [begin {ok, B} = file:read_file(filename:join(Dir, Name)), B end || Name <- Names],
                  binary:match(iolist_to_binary(Bytes), Secret) =/= nomatch
          end,
    ?assertEqual(false, Run(#{})),
    [?assertEqual({Option, true}, {Option, Run(maps:from_list([Option]))}) ||
        Option <- [{calls, arguments}, {messages, contents}, {terms, contents}]].

detail_none(Config) ->
    Work = times(10, fun(I) -> self() ! I, kymo_workload:id(I) end),
    {0, Text} = kymo_cli:run(["print", print_dir(Config, #{messages => none}, [send, call], Work)]),
    ?assertEqual(nomatch, binary:match(Text, <<"words=">>)),
    {0, Sized} = kymo_cli:run(["print", print_dir(Config, #{messages => size}, [send, call], Work)]),
    ?assertNotEqual(nomatch, binary:match(Sized, <<"words=0">>)).

print_dir(Config, Options, Flags, Work) ->
    Dir = ?config(dir, Config) ++ integer_to_list(erlang:unique_integer([positive])),
    State = open(Config, Options#{dir => Dir}),
    _ = traced(State, Flags, Work),
    ok = kymo_tracer:stop(State),
    Dir.

%% The size equals erts_debug:flat_size/1 for all terms that can be measured exactly; for others
%% it is a marked lower bound.
message_sizes(Config) ->
    Terms = kymo_workload:terms() ++ [fun() -> Config end, fun(X) -> X end],
    Dir = print_dir(Config, #{messages => size, size_limit => 1000000, memory => 4 bsl 20}, [send],
                    fun() -> [self() ! T || T <- Terms] end),
    {0, Text} = kymo_cli:run(["print", Dir]),
    {match, Words} = re:run(Text, "words=(>=|>)?([0-9]+)(\\+)?", [global, {capture, all, list}]),
    Sizes = [{list_to_integer(lists:nth(3, W)), lists:nth(2, W) =/= "" orelse length(W) > 3} || W <- Words],
    ?assertEqual(length(Terms), length(Sizes)),
    Marked = [begin
                  Exact = erts_debug:flat_size(T),
                  case More of
                      false -> ?assertEqual({T, Exact}, {T, Size});
                      true -> ?assert(Size =< Exact)
                  end,
                  {More, T}
              end || {T, {Size, More}} <- lists:zip(Terms, Sizes)],
    [?assert(inexact(T)) || {true, T} <- Marked],
    ct:pal("lower bounds: ~p", [length([T || {true, T} <- Marked])]).

%% The kinds of terms that the header of nif_size.h lists.
inexact(T) when is_function(T) -> true;
inexact(_) -> false.

size_limit(Config) ->
    Text = fun(Limit) ->
                   {0, T} = kymo_cli:run(["print", print_dir(Config, #{size_limit => Limit}, [send],
                                                             fun() -> self() ! lists:seq(1, 100) end)]),
                   T
           end,
    ?assertMatch({match, _}, re:run(Text(100), "words=200( |$)", [multiline])),
    ?assertMatch({match, _}, re:run(Text(99), "words=198\\+( |$)", [multiline])),
    ?assertMatch({match, _}, re:run(Text(10), "words=20\\+( |$)", [multiline])).

content_bytes(Config) ->
    Terms = kymo_workload:terms(),
    [begin
         Events = events(Config, #{messages => contents, content_bytes => Bytes, segment_size => 65536,
                                   memory => 4 bsl 20}, [send], fun() -> [self() ! T || T <- Terms] end),
         ?assertEqual(length(Terms), length(Events)),
         [check_cut(T, Got, max(Bytes, 5)) || {T, {trace, _, send, Got, _}} <- lists:zip(Terms, Events)]
     end || Bytes <- [0, 1, 4, 5, 6, 10, 15, 20, 40, 64, 100, 255, 256, 257, 300, 1000, 4000]].

%% A term that fits is recorded whole, otherwise a part of it that does not exceed the limit.
check_cut(T, T, _) -> ok;
check_cut(T, Got, Bytes) ->
    ?assert(byte_size(term_to_binary(Got, [{minor_version, 2}])) - 1 =< Bytes + slack(Got)),
    ?assert(is_part(T, Got) orelse error({no_part, Bytes, T, Got})).

%% The runtime formats names of atoms and lists of bytes differently from kymo.
slack(Got) -> 8 * length(lists:flatten(io_lib:format("~0p", [Got]))).

is_part(T, T) -> true;
is_part(_, '...') -> true;
is_part(T, Got) when is_bitstring(T), is_binary(Got) ->
    Size = byte_size(Got),
    case T of
        <<Got:Size/binary, _/bits>> -> true;
        _ -> false
    end;
is_part(T, Got) when is_tuple(T), is_tuple(Got) ->
    tuple_size(Got) =< tuple_size(T) andalso are_parts(tuple_to_list(T), tuple_to_list(Got));
is_part([H | T], [GH | GT]) -> is_part(H, GH) andalso is_part(T, GT);
is_part(T, Got) when is_map(T), is_map(Got) ->
    lists:all(fun({'...', '...'}) -> true;
                 ({K, V}) -> is_map_key(K, T) andalso is_part(maps:get(K, T), V)
              end, maps:to_list(Got));
is_part(T, {'$fun', Text}) when is_function(T), is_binary(Text) -> true;
is_part(_, _) -> false.

are_parts(_, []) -> true;
are_parts([T | Ts], [G | Gs]) -> is_part(T, G) andalso are_parts(Ts, Gs);
are_parts([], _) -> false.

%% Random terms and random limits: the result is always a part of what was sent.
cut_terms(Config) ->
    Seed = {1, 2, erlang:unique_integer()},
    ct:pal("seed ~p", [Seed]),
    _ = rand:seed(exsss, Seed),
    Runs = [{rand:uniform(400), [random_term(6) || _ <- lists:seq(1, 200)]} || _ <- lists:seq(1, 10)],
    [begin
         Events = events(Config, #{messages => contents, content_bytes => Bytes, segment_size => 65536,
                                   memory => 4 bsl 20}, [send], fun() -> [self() ! T || T <- Terms] end),
         [check_cut(T, Got, max(Bytes, 5)) || {T, {trace, _, send, Got, _}} <- lists:zip(Terms, Events)]
     end || {Bytes, Terms} <- Runs],
    ok.

random_term(0) -> lists:nth(rand:uniform(8), [a, [], {}, 1, 1 bsl 70, <<>>, #{}, 2.5]);
random_term(Depth) ->
    Some = fun() -> [random_term(Depth - 1) || _ <- lists:seq(1, rand:uniform(6) - 1)] end,
    case rand:uniform(9) of
        1 -> rand:uniform(1 bsl 40) - (1 bsl 39);
        2 -> binary:copy(<<(rand:uniform(256) - 1)>>, rand:uniform(100));
        3 -> list_to_tuple(Some());
        4 -> Some();
        5 -> Some() ++ random_term(Depth - 1);
        6 -> maps:from_list([{random_term(Depth - 1), V} || V <- Some()]);
        7 -> [rand:uniform(256) - 1 || _ <- lists:seq(1, rand:uniform(60))];
        8 -> list_to_atom(lists:duplicate(rand:uniform(40), $a + rand:uniform(20)));
        9 -> random_term(0)
    end.

%% The environment of a fun is not recorded, because it may contain anything.
funs(Config) ->
    Big = lists:seq(1, 10000),
    Events = events(Config, #{messages => contents, content_bytes => 1000}, [send],
                    fun() -> [self() ! F || F <- [fun() -> Big end, {fun(X) -> {X, Big} end}, fun lists:map/2]] end),
    ?assertMatch([{trace, _, send, {'$fun', <<"#Fun<kymo_recorder_SUITE.", _/binary>>}, _},
                  {trace, _, send, {{'$fun', <<"#Fun<kymo_recorder_SUITE.", _/binary>>}}, _},
                  {trace, _, send, _, _}], Events),
    ?assertEqual(fun lists:map/2, element(4, lists:last(Events))).

%% ---- sampling and limits ------------------------------------------------------------------

sample_events(Config) ->
    State = open(Config, #{sample => 10, memory => 4 bsl 20}),
    _ = traced(State, [call], times(10000, fun kymo_workload:id/1)),
    #{events := Events, sampled_out := Out} = kymo_tracer:info(State),
    ?assertEqual(10000, Events + Out),
    ?assert(Events > 500 andalso Events < 2000),
    ok = kymo_tracer:stop(State).

sample_processes(Config) ->
    State = open(Config, #{sample => {process, 4}, memory => 4 bsl 20}),
    erlang:trace_pattern({kymo_workload, id, 1}, true, [local]),
    Pids = [begin
                {Pid, Ref} = spawn_monitor(fun() -> receive go -> kymo_workload:loop(10) end end),
                1 = erlang:trace(Pid, true, [call, {tracer, kymo_tracer, State}]),
                Pid ! go,
                receive {'DOWN', Ref, _, _, _} -> Pid end
            end || _ <- lists:seq(1, 400)],
    ok = kymo_tracer:stop(State),
    Events = kymo_conform:by_tracee(kymo_conform:recorded(?config(dir, Config))),
    %% All events of a process or none.
    ?assertEqual([10], lists:usort([length(E) || E <- maps:values(Events)])),
    ?assertEqual([], maps:keys(Events) -- Pids),
    N = maps:size(Events),
    ?assert(N > 40 andalso N < 200).

limit_events(Config) ->
    State = open(Config, #{limit => #{events => 1000}, memory => 4 bsl 20}),
    _ = traced(State, [call], times(5000, fun kymo_workload:id/1)),
    until(State, state, closed),
    ?assertMatch(#{reason := events, events := 1000}, kymo_tracer:info(State)),
    ?assertEqual({error, stopped}, kymo_tracer:pause(State)),
    ?assertEqual(1000, length(kymo_conform:recorded(?config(dir, Config)))),
    tracer_gone(State).

limit_bytes(Config) ->
    State = open(Config, #{limit => #{bytes => 65536}, policy => discard, memory => 4 bsl 20}),
    _ = traced(State, [call], times(50000, fun kymo_workload:id/1)),
    until(State, state, closed),
    #{reason := bytes, bytes := Bytes} = kymo_tracer:info(State),
    ?assert(Bytes =< 65536).

limit_duration(Config) ->
    State = open(Config, #{limit => #{duration => 100}}),
    until(State, state, closed),
    ?assertMatch(#{reason := duration}, kymo_tracer:info(State)),
    tracer_gone(State).

%% A tracer whose recorder has ended is removed at the next event.
tracer_gone(State) ->
    {Pid, Ref} = spawn_monitor(fun F() -> receive stop -> ok; _ -> F() end end),
    _ = (catch erlang:trace(Pid, true, ['receive', {tracer, kymo_tracer, State}])),
    Pid ! message,
    ?assert(kymo_cli:until(fun() -> erlang:trace_info(Pid, tracer) =:= {tracer, []} end)),
    Pid ! stop,
    receive {'DOWN', Ref, _, _, _} -> ok end.

%% ---- lifecycle ------------------------------------------------------------------------------

pause_resume(Config) ->
    State = open(Config, #{calls => arguments}),
    ?assertEqual({error, not_paused}, kymo_tracer:resume(State)),
    Step = fun(What) -> traced(State, [call], fun() -> kymo_workload:id(What) end) end,
    Step(first),
    ok = kymo_tracer:pause(State),
    ?assertEqual({error, already_paused}, kymo_tracer:pause(State)),
    ?assertMatch(#{state := paused}, kymo_tracer:info(State)),
    Step(second),
    ok = kymo_tracer:resume(State),
    Step(third),
    ok = kymo_tracer:stop(State),
    ?assertEqual([first, third],
                 [Arg || {trace, _, call, {_, id, [Arg]}} <- kymo_conform:recorded(?config(dir, Config))]),
    none_lost(State).

stop_twice(Config) ->
    State = open(Config),
    ok = kymo_tracer:stop(State),
    ?assertEqual({error, already_stopped}, kymo_tracer:stop(State)),
    ?assertEqual({error, already_stopped}, kymo_tracer:stop(State)).

after_stop(Config) ->
    State = open(Config),
    _ = traced(State, [call], fun() -> kymo_workload:id(x) end),
    ok = kymo_tracer:stop(State),
    ?assertEqual({error, stopped}, kymo_tracer:pause(State)),
    ?assertEqual({error, stopped}, kymo_tracer:resume(State)),
    ?assertEqual({error, stopped}, kymo_tracer:define_process(State, self(), me, undefined)),
    ?assertMatch(#{state := closed, reason := stop, events := 1}, kymo_tracer:info(State)),
    Copy = ?config(dir, Config) ++ "-copy",
    ?assertMatch({ok, #{events := 1}}, kymo_tracer:snapshot(State, Copy)),
    ?assertMatch([{trace, _, call, _}], kymo_conform:recorded(Copy)),
    tracer_gone(State).

%% It keeps no file, and the counters.
let_go(Config) ->
    State = open(Config),
    _ = traced(State, [call], fun() -> kymo_workload:id(x) end),
    ?assertEqual({error, ebusy}, kymo_tracer:let_go(State)),
    ok = kymo_tracer:stop(State),
    Info = kymo_tracer:info(State),
    ?assertEqual(ok, kymo_tracer:let_go(State)),
    ?assertEqual(ok, kymo_tracer:let_go(State)),
    ?assertEqual(Info, kymo_tracer:info(State)),
    {ok, Maps} = file:read_file("/proc/self/maps"),
    ?assertEqual(nomatch, string:find(Maps, ?config(dir, Config))),
    ?assertEqual({error, eshutdown}, kymo_tracer:snapshot(State, ?config(dir, Config) ++ "-copy")),
    ?assertMatch([{trace, _, call, _}], kymo_conform:recorded(?config(dir, Config))),
    tracer_gone(State).

bad_states(_) ->
    States = [undefined, 1, self(), make_ref(), {kymo_tracer, x}, ets:new(t, []), atomics:new(1, []), [], <<1>>,
              persistent_term:get(none, 1.5)],
    Table = ets:whereis(ets:new(named_table, [named_table])),
    [?assertError(badarg, F(S)) ||
        S <- [Table | States],
        F <- [fun kymo_tracer:stop/1, fun kymo_tracer:pause/1, fun kymo_tracer:resume/1, fun kymo_tracer:info/1, fun kymo_tracer:let_go/1,
              fun(X) -> kymo_tracer:snapshot(X, "dir") end,
              fun(X) -> kymo_tracer:note_taken(X, 1) end,
              fun(X) -> kymo_tracer:define_process(X, self(), undefined, undefined) end]].

%% The largest count is kept, even if it is reported after the end.
notes_taken(Config) ->
    State = open(Config),
    Taken = fun() ->
                    {0, Json} = kymo_cli:run(["info", "--json", ?config(dir, Config)]),
                    {match, [N]} = re:run(Json, "\"taken\":([0-9]+),", [{capture, all_but_first, list}]),
                    list_to_integer(N)
            end,
    ?assertEqual(0, Taken()),
    ok = kymo_tracer:note_taken(State, 3),
    ok = kymo_tracer:note_taken(State, 2),
    ?assertEqual(3, Taken()),
    [?assertError(badarg, kymo_tracer:note_taken(State, N)) || N <- [-1, 1 bsl 64, 1.0, a]],
    ok = kymo_tracer:stop(State),
    ok = kymo_tracer:note_taken(State, 1 bsl 64 - 1),
    ?assertEqual(1 bsl 64 - 1, Taken()).

error_texts(Config) ->
    State = open(Config),
    Text = fun(F) ->
                   try F(), error(no_error)
                   catch error:badarg:Stack ->
                           [{M, _, _, Info} | _] = Stack,
                           #{module := M} = proplists:get_value(error_info, Info),
                           M:format_error(badarg, Stack)
                   end
           end,
    ?assertEqual(#{1 => <<"not a recorder of kymo_tracer">>}, Text(fun() -> kymo_tracer:stop(nothing) end)),
    ?assertEqual(#{2 => <<"not a process or port of this node">>},
                 Text(fun() -> kymo_tracer:define_process(State, kymo_conform:remote(pid), a, undefined) end)),
    Longest = binary:copy(<<"\x{3bb}"/utf8>>, 255),
    [?assertEqual(#{3 => <<"neither an atom nor UTF-8 text of up to 255 characters">>},
                  Text(fun() -> kymo_tracer:define_process(State, self(), Name, undefined) end)) ||
        Name <- ["a", {a, 1}, <<255>>, <<1:1>>, <<Longest/binary, "a">>]],
    [?assertEqual(ok, kymo_tracer:define_process(State, self(), Name, undefined)) || Name <- [a, <<>>, <<"{a,1}">>, Longest]],
    [?assertMatch(#{4 := _}, Text(fun() -> kymo_tracer:define_process(State, self(), a, MFA) end)) ||
        MFA <- [{a, b}, {a, b, 256}, {a, b, -1}, {"a", b, 1}, none, {a, b, [c]}]],
    Related = fun(Parent, Caller) -> kymo_tracer:define_process(State, self(), a, undefined, Parent, Caller) end,
    No = <<"neither a process nor a registered name">>,
    [?assertEqual(maps:from_list([{N, No} || {N, R} <- [{5, P}, {6, C}], is_list(R)]), Text(fun() -> Related(P, C) end)) ||
        {P, C} <- [{"init", init}, {self(), [self()]}, {"a", "b"}]],
    [?assertEqual(ok, Related(P, C)) || {P, C} <- [{init, undefined}, {self(), kymo_conform:remote(pid)}]],
    ok = kymo_tracer:stop(State).

%% If a tracer state is not a recorder, the tracer is removed and nothing is recorded.
foreign_states(_) ->
    erlang:trace_pattern({kymo_workload, id, 1}, true, [local]),
    [begin
         {Pid, Ref} = spawn_monitor(fun() -> receive go -> kymo_workload:loop(10) end end),
         _ = (catch erlang:trace(Pid, true, [call, send, 'receive', procs, running, garbage_collection,
                                             {tracer, kymo_tracer, State}])),
         Pid ! go,
         receive {'DOWN', Ref, _, _, Reason} -> ?assertEqual(normal, Reason) end
     end || State <- [nothing, 1, 1.5, self(), make_ref(), {a, b}, [], <<"state">>, atomics:new(1, []),
                      ets:whereis(ets:new(foreign, [named_table])), #{}, fun lists:map/2, 1 bsl 80]],
    ok.

stopped_while_traced(Config) ->
    State = open(Config, #{memory => 4 bsl 20}),
    erlang:trace_pattern({kymo_workload, id, 1}, true, [local]),
    Workers = [spawn_monitor(fun F() -> kymo_workload:loop(100), receive stop -> ok after 0 -> F() end end) ||
                  _ <- lists:seq(1, 10)],
    [1 = erlang:trace(P, true, [call, send, running, garbage_collection, {tracer, kymo_tracer, State}]) ||
        {P, _} <- Workers],
    ?assert(kymo_cli:until(fun() -> maps:get(events, kymo_tracer:info(State)) > 10000 end)),
    ok = kymo_tracer:stop(State),
    #{events := Events} = kymo_tracer:info(State),
    ?assert(kymo_cli:until(fun() -> [T || {P, _} <- Workers, {tracer, T} <- [erlang:trace_info(P, tracer)], T =/= []] =:= [] end)),
    ?assertMatch(#{events := Events}, kymo_tracer:info(State)),
    [P ! stop || {P, _} <- Workers],
    [receive {'DOWN', Ref, _, _, normal} -> ok end || {_, Ref} <- Workers],
    ok.

%% With the last reference to the state gone, the recorder ends.
forgotten(Config) ->
    Dir = ?config(dir, Config),
    Options = small(Config),
    {Pid, Ref} = spawn_monitor(fun() ->
                                       {ok, State} = kymo_tracer:open(Options),
                                       traced(State, [call], fun() -> kymo_workload:id(x) end)
                               end),
    receive {'DOWN', Ref, process, Pid, normal} -> ok end,
    ?assert(kymo_cli:until(fun() -> binary:match(json(Dir), <<"\"closed\"">>) =/= nomatch end)),
    ?assertMatch([{trace, _, call, _}], kymo_conform:recorded(Dir)),
    ?assert(kymo_cli:until(fun() -> maps_of(Dir) =:= [] end)).

%% Mappings of the recording's files in this process.
maps_of(Dir) ->
    {ok, Maps} = file:read_file("/proc/self/maps"),
    [L || L <- binary:split(Maps, <<"\n">>, [global]), binary:match(L, iolist_to_binary(Dir)) =/= nomatch].

owner_dies(Config) ->
    Owner = spawn(fun() -> receive stop -> ok end end),
    State = open(Config, #{owner => Owner}),
    _ = traced(State, [call], fun() -> kymo_workload:id(x) end),
    ?assertMatch(#{state := active}, kymo_tracer:info(State)),
    Owner ! stop,
    until(State, state, closed),
    ?assertMatch(#{reason := owner, events := 1}, kymo_tracer:info(State)),
    tracer_gone(State).

owner_is_dead(Config) ->
    {Pid, Ref} = spawn_monitor(fun() -> ok end),
    receive {'DOWN', Ref, _, _, _} -> ok end,
    State = open(Config, #{owner => Pid}),
    until(State, state, closed),
    ?assertMatch(#{reason := owner}, kymo_tracer:info(State)).

owner_dies_first(Config) ->
    Owner = spawn(fun() -> receive stop -> ok end end),
    State = open(Config, #{owner => Owner}),
    ok = kymo_tracer:stop(State),
    Ref = monitor(process, Owner),
    Owner ! stop,
    receive {'DOWN', Ref, _, _, _} -> ok end,
    ?assertMatch(#{reason := stop, state := closed}, kymo_tracer:info(State)).

%% ---- info, snapshots, names ------------------------------------------------------------------

info_keys(Config) ->
    State = open(Config, #{policy => discard, clock => monotonic}),
    _ = traced(State, [call], times(100, fun kymo_workload:id/1)),
    Info = kymo_tracer:info(State),
    ?assertEqual(lists:sort([state, reason, policy, clock, terms, interface, dir, events, bytes, sampled_out, overwritten, lost, dict,
                             memory, memory_used, complete_from, horizon, clock_epochs, files, files_removed, events_removed, io_error, threads]),
                 lists:sort(maps:keys(Info))),
    #{policy := discard, clock := monotonic, terms := native, events := 100, state := active, reason := none,
      io_error := none, lost := Lost, threads := Threads, memory := Memory, dict := #{used := Used, size := 65536, full := 0}} = Info,
    ?assertEqual([bad_term, io, no_slot, reentry, ring_full, too_big], lists:sort(maps:keys(Lost))),
    ?assert(Used > 0),
    ?assertEqual(100, lists:sum([N || #{events := N} <- Threads])),
    [?assertMatch(#{kind := scheduler, name := <<_, _/binary>>}, T) || T <- Threads],
    [?assert(N > 0 andalso N =< erlang:system_info(schedulers)) || #{number := N} <- Threads],
    ok = kymo_tracer:stop(State),
    ?assertMatch(#{memory := Memory, state := closed, files := 1}, kymo_tracer:info(State)).

snapshot_live(Config) ->
    State = open(Config, #{calls => arguments, memory => 4 bsl 20}),
    Dir = ?config(dir, Config),
    Snap = fun(N) -> Name = Dir ++ "-snap" ++ integer_to_list(N), {ok, #{events := E}} = kymo_tracer:snapshot(State, Name),
                     {E, kymo_conform:recorded(Name)} end,
    _ = traced(State, [call], times(1000, fun kymo_workload:id/1)),
    {1000, First} = Snap(1),
    ?assertEqual(lists:seq(1, 1000), [I || {trace, _, call, {_, _, [I]}} <- First]),
    _ = traced(State, [call], times(500, fun kymo_workload:id/1)),
    {1500, Second} = Snap(2),
    ?assertEqual(1500, length(Second)),
    ok = kymo_tracer:stop(State).

snapshot_errors(Config) ->
    State = open(Config),
    Dir = ?config(dir, Config),
    ?assertEqual({error, enoent}, kymo_tracer:snapshot(State, filename:join([Dir, "a", "b"]))),
    ?assertEqual({error, eexist}, kymo_tracer:snapshot(State, Dir)),
    [?assertEqual({error, {bad_option, dir, D}}, kymo_tracer:snapshot(State, D)) || D <- [17, "", <<>>, {a, b}, "a\0b"]],
    ok = kymo_tracer:stop(State).

process_names(Config) ->
    State = open(Config),
    ok = kymo_tracer:define_process(State, self(), test_server, {?MODULE, process_names, 1}),
    ok = kymo_tracer:define_process(State, hd(erlang:ports()), a_port, undefined),
    ok = kymo_tracer:define_process(State, whereis(init), undefined, undefined),
    self() ! go,
    1 = erlang:trace(self(), true, [send, {tracer, kymo_tracer, State}]),
    self() ! message,
    erlang:trace(self(), false, [send]),
    ok = kymo_tracer:stop(State),
    {0, Text} = kymo_cli:run(["info", ?config(dir, Config)]),
    ?assertNotEqual(nomatch, binary:match(Text, <<"test_server">>)).

%% A full dictionary loses names, but no events.
names_run_out(Config) ->
    State = open(Config, #{dict_size => 4096, memory => 4 bsl 20}),
    Names = [list_to_atom("a_long_name_" ++ lists:duplicate(50, $x) ++ integer_to_list(N)) || N <- lists:seq(1, 300)],
    _ = traced(State, [procs], fun() -> [begin register(N, self()), unregister(N) end || N <- Names] end),
    ?assertMatch(#{events := 601, dict := #{full := Full}} when Full > 0, kymo_tracer:info(State)),
    none_lost(State),
    ok = kymo_tracer:stop(State),
    ?assertEqual(601, length(kymo_conform:recorded(?config(dir, Config)))).

%% ---- resource limits -----------------------------------------------------------------------------

ten_thousand(Config) ->
    State = open(Config, #{memory => 48 bsl 20, dict_size => 1 bsl 20}),
    erlang:trace_pattern({kymo_workload, id, 1}, true, [local]),
    erlang:trace(new_processes, true, [procs, call, running, {tracer, kymo_tracer, State}]),
    Pids = [spawn_monitor(fun() -> receive go -> kymo_workload:loop(5) end end) || _ <- lists:seq(1, 10000)],
    [P ! go || {P, _} <- Pids],
    [receive {'DOWN', Ref, _, _, normal} -> ok end || {_, Ref} <- Pids],
    erlang:trace(new_processes, false, [all]),
    none_lost(State),
    ok = kymo_tracer:stop(State),
    Events = kymo_conform:by_tracee(kymo_conform:recorded(?config(dir, Config))),
    [begin
         Tags = [element(3, E) || E <- maps:get(P, Events)],
         ?assertEqual([spawned, call, call, call, call, call, exit], [T || T <- Tags, T =/= in, T =/= out, T =/= register])
     end || {P, _} <- Pids].

exits_while_traced(Config) ->
    State = open(Config, #{calls => arguments, terms => contents, messages => contents, memory => 2 bsl 20}),
    erlang:trace_pattern({kymo_workload, id, 1}, true, [local]),
    Flags = [procs, call, send, 'receive', running, exiting, garbage_collection, set_on_spawn,
             {tracer, kymo_tracer, State}],
    [begin
         {Pid, Ref} = spawn_monitor(fun F() ->
                                            kymo_workload:id(binary:copy(<<1>>, 100)),
                                            spawn_link(fun() -> receive never -> ok end end),
                                            self() ! lists:seq(1, 100),
                                            F()
                                    end),
         1 = erlang:trace(Pid, true, Flags),
         receive after rand:uniform(3) -> exit(Pid, kill) end,
         receive {'DOWN', Ref, _, _, killed} -> ok end
     end || _ <- lists:seq(1, 100)],
    ok = kymo_tracer:stop(State),
    _ = kymo_conform:recorded(?config(dir, Config)),
    ok.

huge_terms(Config) ->
    State = open(Config, #{calls => arguments, terms => contents, messages => contents, returns => values,
                           segment_size => 65536, memory => 16 bsl 20, content_bytes => 16384, size_limit => 1000000}),
    N = traced(State, [call, procs, return_to], fun() ->
                                                        Terms = huge(),
                                                        [kymo_workload:id(T) || T <- Terms],
                                                        length(Terms)
                                                end),
    none_lost(State),
    ok = kymo_tracer:stop(State),
    ?assertEqual(N, length([T || {trace, _, call, {_, id, [T]}} <- kymo_conform:recorded(?config(dir, Config))])).

%% Some of these terms cannot be copied: without sharing they are larger than any memory.
huge() ->
    Deep = lists:foldl(fun(_, T) -> [T] end, bottom, lists:seq(1, 1000000)),
    DeepTuple = lists:foldl(fun(N, T) -> {N, T} end, bottom, lists:seq(1, 1000000)),
    DeepMap = lists:foldl(fun(N, T) -> #{N => T} end, bottom, lists:seq(1, 100000)),
    Wide = erlang:make_tuple(1000000, x),
    Shared = lists:foldl(fun(_, T) -> [T, T] end, leaf, lists:seq(1, 60)),
    [Deep, DeepTuple, DeepMap, Wide, Shared, lists:seq(1, 1000000), binary:copy(<<7>>, 10000000), 1 bsl 1000000,
     maps:from_list([{N, N} || N <- lists:seq(1, 100000)]), [[Deep] | DeepTuple], {Shared, Shared},
     fun() -> Shared end].

dirty_schedulers(Config) ->
    State = open(Config, #{memory => 4 bsl 20}),
    _ = traced(State, [running, garbage_collection],
               fun() -> [begin erts_debug:dirty_cpu(wait, 1), erts_debug:dirty_io(wait, 1) end || _ <- lists:seq(1, 20)] end),
    #{threads := Threads} = kymo_tracer:info(State),
    ok = kymo_tracer:stop(State),
    none_lost(State),
    Kinds = lists:usort([Kind || #{kind := Kind, events := N} <- Threads, N > 0]),
    ?assertEqual([dirty_cpu, dirty_io], Kinds -- [scheduler]).

rotation(Config) ->
    State = open(Config, #{policy => discard, file_size => 65536, max_files => 3, memory => 4 bsl 20}),
    _ = traced(State, [call], times(30000, fun kymo_workload:id/1)),
    ok = kymo_tracer:stop(State),
    #{files := Files, files_removed := Removed, events_removed := Gone, events := Events} = kymo_tracer:info(State),
    ?assert(Files > 4),
    ?assertEqual(3, Files - Removed),
    ?assertEqual(Events - Gone, length(kymo_conform:recorded(?config(dir, Config)))).
