%% SPDX-License-Identifier: Apache-2.0
%%
%% Recordings of calls that took long, with the action {slow, Microseconds} of match
%% specifications. The process measures each call from inside and from outside: the recorded
%% duration is between the two, a call that took long enough inside is recorded, and one that was
%% shorter outside is not. Each case runs with both interfaces for tracers, in a node of its own.
-module(kymo_slow_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-compile(export_all).
-compile(nowarn_export_all).

%% The threshold in microseconds, and calls clearly above and below it.
-define(THRESHOLD, 3000).
-define(LONG, 5000).
-define(SHORT, 100).

all() ->
    [durations, tail_loops, contents, tags, sampled, paused, ended, shown, as_dbg_terms, in_perfetto, in_sql, combined, option, trigger].

suite() -> [{timetrap, {minutes, 2}}].

init_per_suite(Config) ->
    case erlang:match_spec_test([], slow(1), trace) of
        {ok, false, [], []} -> Config;
        {error, _} -> {skip, "this runtime does not know slow calls"}
    end.

end_per_suite(_) -> ok.

init_per_testcase(Case, Config) ->
    [{'case', Case} | Config].

end_per_testcase(_, _) -> ok.

%% Runs the case in two nodes.
both(Config, Case) -> [with(Interface, Case, Config) || Interface <- [raw, behaviour]].

with(Interface, Case, Config) ->
    Dir = filename:join([?config(priv_dir, Config), Interface, ?config('case', Config)]),
    ok = filelib:ensure_dir(Dir),
    Peer = kymo_peer:start([{peer_env, [{"KYMO_EVENTS", atom_to_list(Interface)}]}, {interface, Interface}, {dir, Dir} | Config]),
    try
        ?assertEqual(Interface, kymo_peer:call(Peer, ?MODULE, interface, [Dir ++ ".empty"])),
        Case(Peer)
    after
        kymo_peer:stop(Peer)
    end.

%% ---- cases ----------------------------------------------------------------------

%% Nested calls, calls that throw, and short ones.
durations(Config) -> both(Config, fun durations_with/1).

durations_with(Config) ->
    {Dir, Truth} = record(Config, #{}, [{spins, ?LONG}, {spins, ?SHORT}, {throws, ?LONG}, {throws, ?SHORT},
                                        {outer, ?LONG}, {outer, ?SHORT}, {sleeps, ?LONG}, {spins, ?SHORT},
                                        {spins, 2 * ?LONG}]),
    Events = events(Dir),
    ?assertEqual([], [E || #{<<"event">> := Event} = E <- Events, Event =/= <<"slow">>]),
    check(Truth, Events),
    Functions = [F || #{<<"function">> := F} <- Events],
    ?assertEqual([], [F || F <- [spins, throws, outer, inner, sleeps], not lists:member(name(F), Functions)]),
    %% Only a raw tracer gets the depth of the stack.
    Depths = [D || #{<<"stack_words">> := D} <- Events],
    case ?config(interface, Config) of
        raw ->
            ?assertEqual(length(Events), length(Depths)),
            Depth = fun(F) -> hd([D || #{<<"function">> := G, <<"stack_words">> := D} <- Events, G =:= name(F)]) end,
            ?assert(Depth(inner) > Depth(outer));
        behaviour ->
            ?assertEqual([], Depths)
    end.

%% A tail call is part of the call that made it.
tail_loops(Config) -> both(Config, fun tail_loops_with/1).

tail_loops_with(Config) ->
    {Dir, Truth} = record(Config, #{}, [{loop, 50}, {loop, 1}, {ping, 51}]),
    Events = events(Dir),
    check(Truth, Events),
    %% The commands that need all calls say so.
    [?assertEqual({0, <<"kymo: the recording has no calls other than slow ones, which kymo print --events slow shows: ", What/binary, "\n">>},
                  kymo_cli:run(Args ++ [Dir]))
     || {Args, What} <- [{["stats"], <<"functions cannot be shown">>}]],
    ?assertEqual({0, <<"kymo: nothing to explain: the recording has slow calls only, which kymo print --tree shows; "
                       "record messages too, or calls with returns\n">>}, kymo_cli:run(["why", Dir])),
    {0, Folded} = kymo_cli:run(["export", "folded", "-o", Dir ++ ".folded", Dir]),
    ?assertMatch(<<"kymo: no stacks: they need calls with their returns, ", _/binary>>, Folded),
    %% A tree shows what there is.
    ?assertEqual([{F, D} || #{<<"function">> := F, <<"duration_ns">> := D} <- Events],
                 [{F, D} || #{<<"function">> := F, <<"total_ns">> := D} <- json_lines(["print", "--tree", "--json", "-q", Dir])]),
    ?assertEqual([name(loop), name(ping)], lists:usort([F || #{<<"function">> := F} <- Events])).

%% With the contents of everything else, time stamps and the result of the match specification.
contents(Config) -> both(Config, fun contents_with/1).

contents_with(Config) ->
    Options = #{calls => arguments, returns => values, terms => contents, messages => contents},
    Spec = [{'_', [], [{slow, ?THRESHOLD}, {message, {{self, 1}}}]}],
    {Dir, Truth} = record(Config, #{options => Options, spec => Spec, flags => [monotonic_timestamp, scheduler_id]},
                          [{spins, ?LONG}, {spins, ?SHORT}]),
    check(Truth, [E || #{<<"event">> := <<"slow">>} = E <- events(Dir)]),
    %% As the call is reported too, so is its argument.
    ?assertEqual([<<"(5000)">>, <<"(100)">>], [A || #{<<"event">> := <<"call">>, <<"args">> := A} <- events(Dir)]),
    {0, Text} = kymo_cli:run(["print", "-q", "--events", "slow", Dir]),
    ?assertMatch({match, _}, re:run(Text, "^[0-9.]+ s[0-9]+ <[0-9.]+> slow kymo_slow_SUITE:spins/1 duration_ns=[0-9]+ "
                                          "scheduler=[0-9]+ monotonic=-?[0-9]+", [multiline])).

tags(Config) -> both(Config, fun tags_with/1).

tags_with(Config) ->
    [begin
         {Dir, Truth} = record(Config, #{options => #{events => Tags}, name => integer_to_list(I)}, [{spins, ?LONG}]),
         check([T || T <- Truth, Expected], events(Dir))
     end || {I, Tags, Expected} <- [{1, [slow], true}, {2, [calls], true}, {3, [call, return_from], false}, {4, [send], false}]].

%% The processes whose slow calls are recorded are those whose other calls are.
sampled(Config) -> both(Config, fun sampled_with/1).

sampled_with(Config) ->
    {Dir, _} = record(Config, #{options => #{sample => {process, 4}}, processes => 48}, [{spins, ?LONG}]),
    Pids = fun(Event) -> lists:usort([P || #{<<"event">> := E, <<"process">> := P} <- events(Dir), E =:= Event]) end,
    ?assertEqual(Pids(<<"call">>), Pids(<<"slow">>)),
    ?assert(length(Pids(<<"slow">>)) > 0),
    ?assert(length(Pids(<<"slow">>)) < 48).

%% What ends during a pause is not recorded. The tracee stays traced.
paused(Config) -> both(Config, fun paused_with/1).

paused_with(Config) ->
    {Dir, [_, _, _] = Truth} = record(Config, #{}, [{spins, ?LONG}, pause, {spins, ?LONG}, resume, {spins, 2 * ?LONG}]),
    check([hd(Truth), lists:last(Truth)], [E || #{<<"event">> := <<"slow">>} = E <- events(Dir)]).

%% The first slow call after the recorder has ended releases the process.
ended(Config) -> both(Config, fun ended_with/1).

ended_with(Config) ->
    {Dir, Truth} = record(Config, #{}, [{spins, ?LONG}, stop, {spins, ?LONG}, flags]),
    ?assertEqual({flags, []}, lists:keyfind(flags, 1, Truth)),
    check([hd(Truth)], [E || #{<<"event">> := <<"slow">>} = E <- events(Dir)]).

shown(Config) -> both(Config, fun shown_with/1).

shown_with(Config) ->
    {Dir, Truth} = record(Config, #{also => id}, [{spins, ?LONG}, {id, 1}, {spins, ?LONG}]),
    Slow = [E || #{<<"event">> := <<"slow">>} = E <- events(Dir)],
    check([T || T <- Truth, element(1, T) =:= spins], Slow),
    ?assertEqual(Slow, json_lines(["print", "-q", "--json", "--events", "slow", Dir])),
    ?assertEqual(length(Slow) + 1, length(json_lines(["print", "-q", "--json", "--events", "calls", Dir]))),
    {0, Info} = kymo_cli:run(["info", "-q", Dir]),
    ?assertMatch({match, _}, re:run(Info, "^ +2 +[0-9.]+  slow$", [multiline])),
    {0, Text} = kymo_cli:run(["print", "-q", "--events", "slow", Dir]),
    ?assertMatch({match, [_, _]}, re:run(Text, "> slow kymo_slow_SUITE:spins/1 duration_ns=[0-9]+$", [multiline, global])).

as_dbg_terms(Config) -> both(Config, fun as_dbg_terms_with/1).

as_dbg_terms_with(Config) ->
    {Dir, Truth} = record(Config, #{}, [{spins, ?LONG}, {outer, ?LONG}]),
    File = Dir ++ ".dbg",
    {0, _} = kymo_cli:run(["export", "dbg", "-q", "-o", File, Dir]),
    Self = self(),
    Reader = dbg:trace_client(file, File, {fun(Term, Acc) -> collect(Self, Term, Acc) end, []}),
    Terms = receive {terms, Reader, Ts} -> Ts end,
    ?assertMatch([{trace, _, slow, {?MODULE, spins, 1}, {_, _}}, {trace, _, slow, {?MODULE, inner, 1}, {_, _}},
                  {trace, _, slow, {?MODULE, outer, 1}, {_, _}}], Terms),
    ?assertEqual([D || #{<<"duration_ns">> := D} <- events(Dir)], [D || {trace, _, _, _, {_, D}} <- Terms]),
    %% The clocks of the recording and of Erlang differ by a correction.
    ?assertEqual([], [{F, Start, At} || {{F, At, _, _}, {trace, _, _, _, {Start, _}}} <- lists:zip(Truth, Terms),
                                        abs(Start - At) > 200000000]).

%% trace_processor finds a slice of the recorded duration for each call.
in_perfetto(Config) -> both(Config, fun in_perfetto_with/1).

in_perfetto_with(Config) ->
    {Dir, Truth} = record(Config, #{}, [{spins, ?LONG}, {outer, ?LONG}, {outer, 2 * ?LONG}, {spins, ?LONG}]),
    check(Truth, events(Dir)),
    File = Dir ++ ".pftrace",
    {0, _} = kymo_cli:run(["export", "perfetto", "-q", "-o", File, Dir]),
    [Slices, Errors] = kymo_trace_processor:query(kymo_trace_processor:find(), File, [
        "select s.name, s.dur, t.name from slice s join track t on t.id = s.track_id where category = 'slow' order by s.ts + s.dur",
        "select name, value from stats where severity = 'error' and value > 0"]),
    ?assertEqual([[F, D, <<"slow calls">>] || #{<<"function">> := F, <<"duration_ns">> := D} <- events(Dir)], Slices),
    ?assertEqual([], Errors).

in_sql(Config) -> both(Config, fun in_sql_with/1).

in_sql_with(Config) ->
    {Dir, Truth} = record(Config, #{}, [{outer, ?LONG}]),
    Events = events(Dir),
    check(Truth, Events),
    Query = "select function, duration_ns from events where event = 'slow' order by id",
    ?assertEqual([maps:with([<<"function">>, <<"duration_ns">>], E) || E <- Events],
                 json_lines(["sql", "--json", "-q", Dir, Query])).

collect(To, end_of_trace, Acc) ->
    To ! {terms, self(), lists:reverse(Acc)},
    Acc;
collect(_, Term, Acc) -> [Term | Acc].

%% Another pattern for the same function still records its calls.
combined(Config) -> both(Config, fun combined_with/1).

combined_with(Config) ->
    Dir = ?config(dir, Config),
    Truth = kymo_peer:call(Config, ?MODULE, combined_here, [Dir]),
    {Slow, Calls} = lists:partition(fun(#{<<"event">> := Event}) -> Event =:= <<"slow">> end, events(Dir)),
    check(Truth, Slow),
    ?assertEqual([{<<"call">>, name(spins)}, {<<"call">>, name(spins)}],
                 [{E, F} || #{<<"event">> := E, <<"function">> := F} <- Calls]).

combined_here(Dir) ->
    {ok, R} = kymo:start(#{dir => Dir, policy => discard}),
    put(truth, []),
    Functions = [{?MODULE, spins, 1, slow(?THRESHOLD)}, {?MODULE, spins, 1}, {?MODULE, inner, 1, slow(?THRESHOLD)}],
    {ok, _} = kymo:trace(R, #{processes => [self()], functions => Functions}),
    [measured(F, N) || {F, N} <- [{spins, ?SHORT}, {spins, ?LONG}, {inner, ?LONG}, {inner, ?SHORT}]],
    {ok, _} = kymo:stop(R),
    lists:reverse(get(truth)).

%% The option slow of kymo:trace/2, until its pattern is withdrawn.
option(Config) -> both(Config, fun option_with/1).

option_with(Config) ->
    Dir = ?config(dir, Config),
    Truth = kymo_peer:call(Config, ?MODULE, option_here, [Dir]),
    check([T || T <- Truth, element(1, T) =/= inner], events(Dir)).

option_here(Dir) ->
    {ok, R} = kymo:start(#{dir => Dir, policy => discard}),
    put(truth, []),
    Slow = #{"kymo_slow_SUITE:spins/1" => ?THRESHOLD, {?MODULE, throws, 1} => 2 * ?THRESHOLD},
    {ok, #{functions := 2}} = kymo:trace(R, #{processes => [self()], slow => Slow}),
    [measured(F, N) || {F, N} <- [{spins, ?SHORT}, {spins, ?LONG}, {throws, 4 * ?LONG}, {inner, ?LONG}]],
    ok = kymo:untrace(R, #{processes => none, slow => Slow}),
    Truth = lists:reverse(get(truth)),
    measured(spins, ?LONG),
    {ok, _} = kymo:stop(R),
    Truth.

%% A trigger for calls fires once for each slow call that exceeds its limit.
trigger(Config) -> both(Config, fun trigger_with/1).

trigger_with(Config) ->
    {Truth, #{fired := Fired, suppressed := 0}} = kymo_peer:call(Config, ?MODULE, trigger_here, [?config(dir, Config)]),
    ?assert(Fired >= longer(3, Truth)),
    ?assert(Fired =< longer(4, Truth)).

%% How many calls exceed the limit, as measured inside or outside.
longer(Element, Truth) -> length([T || T <- Truth, element(Element, T) > 2 * ?LONG * 1000]).

%% The limit is twice LONG; the last call is at least that.
trigger_here(Dir) ->
    {ok, R} = kymo:start(#{dir => Dir, triggers => [{call, "kymo_slow_SUITE:spins/1", 2 * ?LONG / 1000}],
                           on_trigger => #{action => note, cooldown => 0}}),
    put(truth, []),
    {ok, _} = kymo:trace(R, #{processes => [self()], functions => [{?MODULE, spins, 1, slow(?THRESHOLD)}]}),
    [measured(spins, N) || N <- [?SHORT, ?LONG, 4 * ?LONG]],
    Expected = longer(3, get(truth)),
    true = kymo_cli:until(fun() -> maps:get(fired, maps:get(triggers, kymo:info(R))) >= Expected end),
    Triggers = maps:get(triggers, kymo:info(R)),
    {ok, _} = kymo:stop(R),
    {lists:reverse(get(truth)), Triggers}.

%% ---- what must be recorded --------------------------------------------------------

%% Truth is [{Function, Start, Inside, Outside}] in the order in which the calls ended, in nanoseconds.
check([], Events) ->
    ?assertEqual([], Events);
check([{F, _, Inside, Outside} | Truth], Events) ->
    Name = name(F),
    case Events of
        [#{<<"event">> := <<"slow">>, <<"function">> := Name, <<"duration_ns">> := Ns} | Rest]
          when Inside =< Ns, Ns =< Outside ->
            ?assert(Ns >= ?THRESHOLD * 1000),
            check(Truth, Rest);
        _ ->
            ?assertEqual({F, short}, {F, if Inside < ?THRESHOLD * 1000 -> short; true -> {missing, Inside, Outside, Events} end}),
            check(Truth, Events)
    end.

name(F) -> iolist_to_binary(io_lib:format("~s:~s/1", [?MODULE, F])).

events(Dir) ->
    [E || #{<<"event">> := Event} = E <- json_lines(["print", "-q", "--json", Dir]), Event =/= <<"kymo_state">>].

json_lines(Args) ->
    {0, Out} = kymo_cli:run(Args),
    [kymo_cli:json(binary_to_list(Line) ++ "\n") || Line <- string:split(Out, "\n", all), Line =/= <<>>].

%% ---- in the node --------------------------------------------------------------------

interface(Dir) ->
    {ok, State} = kymo_tracer:open(#{dir => Dir, owner => self()}),
    #{interface := Interface} = kymo_tracer:info(State),
    ok = kymo_tracer:stop(State),
    Interface.

record(Config, How, Work) ->
    Dir = ?config(dir, Config) ++ maps:get(name, How, ""),
    {Dir, kymo_peer:call(Config, ?MODULE, record_here, [Dir, How, Work])}.

record_here(Dir, How, Work) ->
    {ok, State} = kymo_tracer:open(maps:merge(#{dir => Dir, policy => discard, memory => 16 bsl 20, owner => self()},
                                              maps:get(options, How, #{}))),
    S = trace:session_create(?MODULE, {kymo_tracer, State}, []),
    Spec = maps:get(spec, How, slow(?THRESHOLD)),
    [1 = trace:function(S, {?MODULE, F, 1}, Spec, [local])
     || F <- [spins, throws, outer, inner, sleeps, loop, ping, pong]],
    1 = trace:function(S, {?MODULE, id, 1}, true, [local]),
    Truths = [works(S, State, Work, maps:get(flags, How, []), maps:get(processes, How, 1) > 1)
              || _ <- lists:seq(1, maps:get(processes, How, 1))],
    true = trace:session_destroy(S),
    _ = catch kymo_tracer:stop(State),
    #{lost := Lost} = kymo_tracer:info(State),
    [] = [L || {_, N} = L <- maps:to_list(Lost), N =/= 0],
    lists:append(Truths).

%% Identified: the process makes a call that is recorded in any case.
works(S, State, Work, Flags, Identified) ->
    {Pid, Ref} = spawn_monitor(fun() ->
        receive go -> ok end,
        _ = [?MODULE:id(1) || Identified],
        put(truth, []),
        [work(What, S, State) || What <- Work],
        exit({shutdown, lists:reverse(get(truth))})
    end),
    1 = trace:process(S, Pid, true, [call, arity | Flags] -- [arity || Flags =/= []]),
    Pid ! go,
    receive {'DOWN', Ref, process, Pid, {shutdown, Truth}} -> Truth end.

work(pause, _, State) -> ok = kymo_tracer:pause(State);
work(resume, _, State) -> ok = kymo_tracer:resume(State);
work(stop, _, State) -> ok = kymo_tracer:stop(State);
work(flags, S, _) -> put(truth, [trace:info(S, self(), flags) | get(truth)]);
work({F, N}, _, _) -> measured(F, N).

%% The function returns or throws the nanoseconds that it has measured inside.
measured(F, N) ->
    T0 = now_ns(),
    Inside = try ?MODULE:F(N) catch throw:Ns -> Ns end,
    T1 = now_ns(),
    put(truth, [{F, T0, Inside, T1 - T0} | get(truth)]),
    Inside.

now_ns() -> erlang:monotonic_time(nanosecond).

slow(Micros) -> [{'_', [], [{slow, Micros}]}].

spin(Start, Micros) ->
    case now_ns() - Start of
        Ns when Ns >= Micros * 1000 -> Ns;
        _ -> spin(Start, Micros)
    end.

spins(Micros) -> spin(now_ns(), Micros).

throws(Micros) -> throw(spin(now_ns(), Micros)).

sleeps(Micros) ->
    Start = now_ns(),
    timer:sleep(Micros div 1000),
    now_ns() - Start.

outer(Micros) ->
    Start = now_ns(),
    measured(inner, Micros),
    now_ns() - Start.

inner(Micros) -> spin(now_ns(), Micros).

%% The start of the first round is in the process dictionary.
loop(N) -> round(loop, loop, N).

ping(N) -> round(ping, pong, N).

pong(N) -> round(ping, ping, N).

round(First, _, 1) ->
    Start = erase(First),
    case Start of
        undefined -> 0;
        _ -> now_ns() - Start
    end;
round(First, Next, N) ->
    _ = get(First) =/= undefined orelse put(First, now_ns()),
    _ = spin(now_ns(), 200),
    ?MODULE:Next(N - 1).

id(X) -> X.
