%% SPDX-License-Identifier: Apache-2.0
%%
%% kymo_tracer records what a process tracer receives. Each kind of event is traced in real work
%% and compared with the trace messages of the runtime.
-module(kymo_tracer_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-compile(export_all).
-compile(nowarn_export_all).

-import(kymo_conform, [role/2]).

all() ->
    [{group, Mode} || Mode <- kymo_conform:modes()] ++ [{group, ways}].

groups() ->
    Tags = [call, call_terms, call_arity, call_global, return_to, return_from, exception_from,
            send, send_terms, send_to_nobody, receive_, receive_sender,
            spawn_, exit_, links, links_remote, names, ports, port_messages, port_to_nobody,
            running, running_ports, exiting, collections, heap_limit,
            sequential, match_spec_result, scheduler_id, silent,
            timestamp, cpu_timestamp, monotonic, strict_monotonic],
    %% Two sessions that trace garbage collections of the same process: OTP 27 passes freed
    %% memory to the second one, and may crash.
    [{same_run, [], Tags -- [sequential, collections, heap_limit]},
     {two_runs, [], Tags},
     {ways, [], [meta, meta_returns, dbg_tracer, seq_system_tracer] ++
                [session || lists:member(same_run, kymo_conform:modes())]}].

suite() ->
    [{timetrap, {minutes, 2}}].

%% Code is loaded now, because loading it in a case would add messages, calls and processes.
init_per_suite(Config) ->
    [{module, _} = code:ensure_loaded(M) ||
        M <- [kymo_tracer, kymo_workload, kymo_conform, kymo_cli, seq_trace, timer, dbg, ?MODULE]],
    Config.

end_per_suite(_) ->
    ok.

init_per_group(ways, Config) ->
    Config;
init_per_group(Mode, Config) ->
    [{mode, Mode} | Config].

end_per_group(_, _) ->
    ok.

init_per_testcase(Case, Config) ->
    Name = io_lib:format("~p-~p", [Case, erlang:unique_integer([positive])]),
    [{dir, filename:join(?config(priv_dir, Config), lists:flatten(Name))} | Config].

end_per_testcase(_, Config) ->
    _ = erlang:trace(all, false, [all]),
    _ = erlang:trace_pattern({'_', '_', '_'}, false, [local, meta]),
    _ = erlang:trace_pattern('receive', true, []),
    _ = erlang:trace_pattern(send, true, []),
    ok = file:del_dir_r(?config(dir, Config)).

%% ---- the comparison -----------------------------------------------------------

%% The tags in Tags must occur, so that two empty recordings do not count as equal.
conform(Config, Tags, Spec) ->
    conform(Config, Tags, Spec, fun(E) -> E end).

conform(Config, Tags, Spec, Change) ->
    {Expected, Got} = kymo_conform:run(?config(mode, Config), Spec, ?config(dir, Config)),
    Seen = lists:usort([element(3, E) || Es <- maps:values(Expected), E <- Es]),
    ?assertEqual([], Tags -- Seen),
    E = maps:map(fun(_, V) -> lists:map(Change, V) end, Expected),
    G = maps:map(fun(_, V) -> lists:map(Change, V) end, Got),
    ?assertEqual(lists:sort(maps:keys(E)), lists:sort(maps:keys(G))),
    [compare(Who, maps:get(Who, E), maps:get(Who, G)) || Who <- maps:keys(E)],
    ok.

compare(_, [], []) -> ok;
compare(Who, [E | Es], [E | Gs]) -> compare(Who, Es, Gs);
compare(Who, Es, Gs) ->
    ct:pal("~p~nexpected ~p~nrecorded ~p", [Who, lists:sublist(Es, 5), lists:sublist(Gs, 5)]),
    ?assertEqual({Who, lists:sublist(Es, 2)}, {Who, lists:sublist(Gs, 2)}).

functions(Names, MS, Flags) ->
    [{{kymo_workload, F, A}, MS, Flags} || {F, A} <- Names].

is_tag(Tags) ->
    fun(E) -> lists:member(element(3, E), Tags) end.

%% ---- calls ---------------------------------------------------------------------

call(Config) ->
    conform(Config, [call],
            #{flags => [call], functions => functions([{id, 1}, {add, 2}, {nothing, 0}, {many, 3}], true, [local]),
              workload => fun() ->
                                  kymo_workload:id(x),
                                  kymo_workload:nothing(),
                                  kymo_workload:add(1, 2),
                                  kymo_workload:many(a, "b", <<"c">>),
                                  kymo_workload:loop(20)
                          end}).

call_terms(Config) ->
    conform(Config, [call],
            #{flags => [call], functions => functions([{id, 1}], true, [local]),
              workload => fun() -> [kymo_workload:id(T) || T <- kymo_workload:terms()] end}).

call_arity(Config) ->
    conform(Config, [call],
            #{flags => [call, arity], functions => functions([{id, 1}, {add, 2}], true, [local]),
              workload => fun() -> kymo_workload:id(x), kymo_workload:add(1, 2) end}).

call_global(Config) ->
    conform(Config, [call],
            #{flags => [call], functions => functions([{id, 1}, {add, 2}], true, [global]),
              workload => fun() -> kymo_workload:id(x), kymo_workload:add(1, 2), kymo_workload:loop(3) end}).

return_to(Config) ->
    conform(Config, [call, return_to],
            #{flags => [call, return_to],
              functions => functions([{outer, 1}, {inner, 1}, {tail, 1}, {fail, 2}], true, [local]),
              workload => fun() ->
                                  kymo_workload:outer(5),
                                  catch kymo_workload:fail(throw, gone)
                          end}).

return_from(Config) ->
    conform(Config, [call, return_from],
            #{flags => [call],
              functions => functions([{id, 1}, {outer, 1}, {inner, 1}, {tail, 1}],
                                     [{'_', [], [{return_trace}]}], [local]),
              workload => fun() ->
                                  kymo_workload:outer(3),
                                  [kymo_workload:id(T) || T <- kymo_workload:terms()]
                          end}).

exception_from(Config) ->
    conform(Config, [call, return_from, exception_from],
            #{flags => [call],
              functions => functions([{fail, 2}, {id, 1}], [{'_', [], [{exception_trace}]}], [local]),
              workload => fun() ->
                                  catch kymo_workload:fail(throw, {ball, self()}),
                                  catch kymo_workload:fail(error, badarg),
                                  catch kymo_workload:fail(exit, "reason"),
                                  kymo_workload:id(fine)
                          end}).

%% ---- messages --------------------------------------------------------------------

%% A process that receives messages until it is told to exit.
sink() ->
    spawn(fun F() -> receive stop -> ok; _ -> F() end end).

send(Config) ->
    conform(Config, [send],
            #{flags => [send],
              workload => fun() ->
                                  Sink = role(sink, sink()),
                                  register(kymo_sink, Sink),
                                  Sink ! one,
                                  kymo_sink ! two,
                                  {kymo_sink, node()} ! three,
                                  erlang:send(Sink, {four, self()}, [noconnect]),
                                  self() ! five,
                                  Alias = role(alias, alias()),
                                  Alias ! {six, Alias},
                                  Monitor = role(monitor, monitor(process, Sink)),
                                  Sink ! stop,
                                  receive {'DOWN', Monitor, _, _, _} -> ok end
                          end}).

send_terms(Config) ->
    conform(Config, [send],
            #{flags => [send],
              workload => fun() -> [self() ! T || T <- kymo_workload:terms()] end}).

send_to_nobody(Config) ->
    conform(Config, [send, send_to_non_existing_process],
            #{flags => [send],
              workload => fun() ->
                                  {Pid, Ref} = spawn_monitor(fun() -> ok end),
                                  role(dead, Pid),
                                  role(monitor, Ref),
                                  receive {'DOWN', Ref, _, _, _} -> ok end,
                                  Pid ! anybody,
                                  kymo_conform:remote(pid) ! hello,
                                  {there_is_none, node()} ! hello,
                                  {name, 'other@host'} ! hello,
                                  self() ! end_of_it
                          end}).

receive_(Config) ->
    conform(Config, ['receive'],
            #{flags => ['receive'], workload => fun receiving/0}).

receiving() ->
    Self = self(),
    {Pid, Ref} = spawn_monitor(fun() -> [Self ! T || T <- [one, {two, 2}, "three"]] end),
    role(sender, Pid),
    role(monitor, Ref),
    receive {'DOWN', Ref, _, _, _} -> ok end,
    [self() ! T || T <- kymo_workload:terms()],
    receive after 1 -> ok end,
    flush().

flush() ->
    receive _ -> flush() after 0 -> ok end.

receive_sender(Config) ->
    conform(Config, ['receive'],
            #{flags => ['receive'],
              'receive' => [{['_', '$1', '_'], [], [{message, '$1'}]}],
              workload => fun receiving/0}).

%% ---- processes and ports -----------------------------------------------------------

spawn_(Config) ->
    conform(Config, [spawn, spawned, exit],
            #{flags => [procs, set_on_spawn],
              workload =>
                  fun() ->
                          Start = fun(F) ->
                                          {Pid, Ref} = F(),
                                          receive {'DOWN', Ref, _, _, _} -> ok end,
                                          Pid
                                  end,
                          role(one, Start(fun() -> spawn_monitor(kymo_workload, id, [{a, "list", <<"binary">>}]) end)),
                          role(two, Start(fun() -> spawn_monitor(erlang, apply, [kymo_workload, nothing, []]) end)),
                          role(three, Start(fun() -> spawn_opt(kymo_workload, add, [1, 2], [monitor]) end)),
                          role(four, Start(fun() -> spawn_monitor(kymo_workload, id, [kymo_workload:terms()]) end))
                  end}).

exit_(Config) ->
    Reasons = [normal, shutdown, {shutdown, why}, {a, b, {c, "d"}}, "string", 4711, #{map => true},
               {badarg, [{m, f, 1, []}]}, undefined, {}, {1}],
    conform(Config, [exit],
            #{flags => [procs, set_on_spawn],
              workload =>
                  fun() ->
                          [begin
                               {Pid, Ref} = spawn_monitor(erlang, exit, [Reason]),
                               role({exits, Reason}, Pid),
                               receive {'DOWN', Ref, _, _, _} -> ok end
                           end || Reason <- Reasons],
                          {Killed, Ref} = spawn_monitor(timer, sleep, [infinity]),
                          role(killed, Killed),
                          exit(Killed, kill),
                          receive {'DOWN', Ref, _, _, _} -> ok end
                  end}).

links(Config) ->
    conform(Config, [link, unlink, getting_linked, getting_unlinked],
            #{flags => [procs, set_on_spawn],
              workload =>
                  fun() ->
                          process_flag(trap_exit, true),
                          Self = self(),
                          Ask = fun(Pid, What) -> Pid ! {Self, What}, receive {Pid, done} -> ok end end,
                          Loop = fun F() ->
                                         receive
                                             {Self, {link, P}} -> link(P), Self ! {self(), done}, F();
                                             {Self, {unlink, P}} -> unlink(P), Self ! {self(), done}, F();
                                             {Self, nothing} -> Self ! {self(), done}, F();
                                             {Self, stop} -> ok
                                         end
                                 end,
                          Pid = role(other, proc_lib_free(Loop)),
                          link(Pid),
                          Ask(Pid, nothing),
                          unlink(Pid),
                          Ask(Pid, nothing),
                          Ask(Pid, {link, Self}),
                          Ask(Pid, {unlink, Self}),
                          Ref = monitor(process, Pid),
                          Pid ! {Self, stop},
                          receive {'DOWN', Ref, _, _, _} -> ok end,
                          catch link(Pid),
                          receive {'EXIT', Pid, noproc} -> ok end
                  end}).

%% Funs are recorded as text that differs between runs, so none may be in the recorded terms.
proc_lib_free(Fun) ->
    persistent_term:put({?MODULE, fun_to_run}, Fun),
    spawn(?MODULE, run_stored_fun, []).

run_stored_fun() ->
    (persistent_term:get({?MODULE, fun_to_run}))().

links_remote(Config) ->
    conform(Config, [link],
            #{flags => [procs],
              workload =>
                  fun() ->
                          process_flag(trap_exit, true),
                          catch link(kymo_conform:remote(pid)),
                          receive {'EXIT', _, _} -> ok after 100 -> ok end
                  end}).

names(Config) ->
    conform(Config, [register, unregister],
            #{flags => [procs],
              workload => fun() ->
                                  register(kymo_name, self()),
                                  unregister(kymo_name),
                                  register('λ name', self()),
                                  unregister('λ name')
                          end}).

ports(Config) ->
    conform(Config, [open, closed, link, unlink, getting_unlinked, register, unregister],
            #{flags => [procs], ports => [ports], workload => fun port_life/0}).

port_life() ->
    process_flag(trap_exit, true),
    Cat = role(cat, open_port({spawn, "cat"}, [binary, stream])),
    register(kymo_cat, Cat),
    unregister(kymo_cat),
    unlink(Cat),
    link(Cat),
    Cat ! {self(), {command, <<"to and fro">>}},
    receive {Cat, {data, _}} -> ok end,
    Cat ! {self(), {connect, self()}},
    receive {Cat, connected} -> ok after 100 -> ok end,
    Cat ! {self(), close},
    receive {Cat, closed} -> ok end,
    receive {'EXIT', Cat, _} -> ok after 100 -> ok end.

port_messages(Config) ->
    conform(Config, [send, 'receive'],
            #{flags => [send, 'receive'], ports => [send, 'receive'],
              workload =>
                  fun() ->
                          process_flag(trap_exit, true),
                          Cat = role(cat, open_port({spawn, "cat"}, [binary, stream])),
                          port_command(Cat, <<"one">>),
                          receive {Cat, {data, _}} -> ok end,
                          Cat ! {self(), {command, ["two", <<"three">>]}},
                          receive {Cat, {data, _}} -> ok end,
                          port_close(Cat),
                          receive {'EXIT', Cat, _} -> ok end
                  end,
              %% An operation on a port is done at once, or is answered with a message.
              keep => fun(E) -> not (varies(Config) andalso is_port_reply(element(4, E))) end}).

%% Whether two runs may differ in what depends on the order of signals, some of which the debug
%% emulator delays.
varies(Config) -> ?config(mode, Config) =:= two_runs andalso erlang:system_info(build_type) =:= debug.

is_port_reply({Ref, _}) -> is_reference(Ref);
is_port_reply(_) -> false.

%% The driver replies to a process that has exited: the runtime then calls the tracer in a
%% special way (see c_src/nif/nif_trace.c).
port_to_nobody(Config) ->
    conform(Config, [send, send_to_non_existing_process],
            #{flags => [procs], ports => [send],
              workload =>
                  fun() ->
                          {ok, Listen} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}, {active, false}, binary]),
                          {ok, Number} = inet:port(Listen),
                          {ok, Client} = gen_tcp:connect({127, 0, 0, 1}, Number, [{active, false}, binary]),
                          {ok, Server} = gen_tcp:accept(Listen),
                          [role(Name, Port) || {Name, Port} <- [{listen, Listen}, {client, Client}, {server, Server}]],
                          [begin
                               {Pid, Ref} = spawn_monitor(?MODULE, ask_and_die, [Server]),
                               role(asks, Pid),
                               receive {'DOWN', Ref, _, _, _} -> ok end,
                               ok = gen_tcp:send(Client, <<"data">>),
                               true = kymo_cli:until(fun() -> inet:getstat(Server, [recv_oct]) =:= {ok, [{recv_oct, 4 * N}]} end),
                               {error, timeout} = gen_tcp:recv(Client, 0, 50)
                           end || N <- lists:seq(1, 3)],
                          [gen_tcp:close(S) || S <- [Server, Client, Listen]]
                  end,
              keep => fun(E) -> is_port(element(2, E)) andalso element(1, element(4, E)) =:= inet_async end},
            fun({T, Who, Tag, Msg, To}) -> {T, Who, Tag, setelement(3, Msg, id), To} end).

ask_and_die(Socket) ->
    {ok, _} = prim_inet:async_recv(Socket, 0, -1).

%% ---- scheduling and garbage collection -------------------------------------------------

running(Config) ->
    Spec = #{flags => [running, 'receive'], workload => fun running_work/0},
    conform(Config, [in, out], Spec#{keep => steady(Config)}).

running_work() ->
    [receive after 2 -> ok end || _ <- lists:seq(1, 20)],
    kymo_workload:loop(1000).

%% When a process is scheduled differs between runs; what it does each time it runs does not.
steady(Config) ->
    case ?config(mode, Config) of
        same_run -> fun(_) -> true end;
        two_runs -> first_of_each()
    end.

first_of_each() ->
    Table = ets:new(seen, [public]),
    fun(E) -> ets:insert_new(Table, {{element(3, E), self_of(E), element(4, E)}}) end.

self_of(E) -> element(2, E).

running_ports(Config) ->
    Keep = case ?config(mode, Config) of
               same_run -> fun(E) -> is_port(element(2, E)) end;
               two_runs ->
                   First = first_of_each(),
                   Varies = varies(Config),
                   fun(E) ->
                       %% Other operations are done at once, or later by a task of the port, which is 0.
                       Compared = case Varies of
                                      true -> lists:member(element(4, E), [open, 0]);
                                      false -> element(4, E) =/= undefined
                                  end,
                       is_port(element(2, E)) andalso Compared andalso First(E)
                   end
           end,
    conform(Config, [in, out],
            #{flags => [procs], ports => [running_ports, exiting], workload => fun port_life/0, keep => Keep},
            fun(E) -> E end).

exiting(Config) ->
    conform(Config, [in_exiting, out_exiting, out_exited],
            #{flags => [running, exiting, set_on_spawn],
              workload =>
                  fun() ->
                          {Pid, Ref} = spawn_monitor(?MODULE, dies_slowly, []),
                          role(exits, Pid),
                          receive {'DOWN', Ref, _, _, _} -> ok end
                  end,
              keep => case ?config(mode, Config) of
                          same_run -> fun(_) -> true end;
                          two_runs ->
                              First = first_of_each(),
                              fun(E) -> lists:member(element(3, E), [in_exiting, out_exiting, out_exited]) andalso First(E) end
                      end}).

%% Deleting its table takes so long that the process is scheduled out while it exits.
dies_slowly() ->
    Table = ets:new(table, [public]),
    ets:insert(Table, [{N, N} || N <- lists:seq(1, 100000)]),
    exit(self(), kill).

collections(Config) ->
    Sizes = case ?config(mode, Config) of
                same_run -> fun(E) -> E end;
                two_runs -> fun({T, W, Tag, L}) -> {T, W, Tag, [K || {K, _} <- L]} end
            end,
    conform(Config, [gc_major_start, gc_major_end, gc_minor_start, gc_minor_end],
            #{flags => [garbage_collection],
              workload => fun() ->
                                  [erlang:garbage_collect(self(), [{type, minor}]) || _ <- lists:seq(1, 3)],
                                  [erlang:garbage_collect() || _ <- lists:seq(1, 3)],
                                  L = [binary:copy(<<N>>, 1000) || N <- lists:seq(1, 100)],
                                  erlang:garbage_collect(),
                                  L
                          end}, Sizes).

%% An event that the documentation of the erl_tracer behaviour does not mention.
heap_limit(Config) ->
    conform(Config, [],
            #{flags => [garbage_collection, set_on_spawn],
              workload =>
                  fun() ->
                          {Pid, Ref} = spawn_opt(?MODULE, grow, [[]],
                                                 [monitor, {max_heap_size, #{size => 5000, kill => true,
                                                                             error_logger => false}}]),
                          role(grows, Pid),
                          receive {'DOWN', Ref, _, _, _} -> ok end
                  end,
              keep => fun(E) -> not lists:member(element(3, E), [gc_minor_start, gc_minor_end, gc_major_start,
                                                                 gc_major_end]) end},
            fun({T, W, Tag, L}) when is_list(L) -> {T, W, Tag, [K || {K, _} <- L]};
               (E) -> E
            end).

grow(L) -> grow([L | [{L}, L]]).

%% ---- sequential trace, and options of the events ---------------------------------------------

sequential(Config) ->
    Dir = ?config(dir, Config),
    Collector = kymo_conform:collector(),
    erlang:system_flag(max_heap_size, 0),
    Run = fun(Tracer) ->
                  seq_trace:set_system_tracer(Tracer),
                  Result = sequential_work(),
                  seq_trace:set_system_tracer(false),
                  Result
          end,
    Roles1 = Run(Collector),
    Expected = kymo_conform:normal(Roles1, kymo_conform:collected(Collector)),
    {ok, State} = kymo_tracer:open(#{dir => Dir, events => [seq_trace], terms => contents, messages => contents,
                                     content_bytes => 4096}),
    Roles2 = Run({kymo_tracer, State}),
    ok = kymo_tracer:stop(State),
    Got = kymo_conform:normal(Roles2, kymo_conform:recorded(Dir)),
    Kinds = lists:usort([element(1, element(3, E)) || E <- Expected]),
    ?assertEqual([print, 'receive', send], Kinds),
    case varies(Config) of
        true -> ?assertEqual(by_actor(Expected), by_actor(Got));
        false -> ?assertEqual(Expected, Got)
    end.

%% For an emulator in which events of different processes may arrive in any order.
by_actor(Events) -> maps:groups_from_list(fun actor/1, Events).

actor({seq_trace, _, {'receive', _, _, To, _}}) -> To;
actor({seq_trace, _, {_, _, From, _, _}}) -> From.

sequential_work() ->
    Self = self(),
    {Pid, Ref} = spawn_monitor(
                   fun() ->
                           Other = spawn_link(fun() -> receive {From, X} -> From ! {self(), got, X} end end),
                           [seq_trace:set_token(F, true) || F <- [send, 'receive', print]],
                           seq_trace:set_token(label, 17),
                           seq_trace:print(17, {printed, "text"}),
                           Other ! {self(), #{a => <<"message">>}},
                           receive {Other, got, _} -> ok end,
                           seq_trace:set_token(label, {label, is, "a term"}),
                           seq_trace:set_token(timestamp, false),
                           seq_trace:print({label, is, "a term"}, last),
                           seq_trace:set_token([]),
                           Self ! {roles, [{first, self()}, {other, Other}]}
                   end),
    receive {'DOWN', Ref, process, Pid, normal} -> ok end,
    receive {roles, Roles} -> Roles end.

match_spec_result(Config) ->
    conform(Config, [call],
            #{flags => [call],
              functions => functions([{id, 1}], [{['$1'], [], [{message, {{result, '$1', {self}}}}]}], [local]) ++
                  functions([{add, 2}], [{['$1', '_'], [{'>', '$1', 5}], [{message, '$1'}]},
                                         {'_', [], [{message, false}]}], [local]) ++
                  functions([{nothing, 0}], [{[], [], [{message, true}]}], [local]),
              workload => fun() ->
                                  [kymo_workload:id(T) || T <- kymo_workload:terms()],
                                  [kymo_workload:add(N, N) || N <- [1, 6, 3, 9]],
                                  kymo_workload:nothing()
                          end}).

scheduler_id(Config) ->
    conform(Config, [call, send],
            #{flags => [call, send, scheduler_id], functions => functions([{id, 1}], true, [local]),
              workload => fun() -> kymo_workload:id(x), self() ! message, kymo_workload:id(y) end},
            case ?config(mode, Config) of
                same_run -> fun(E) -> E end;
                two_runs -> fun(E) when is_integer(element(tuple_size(E), E)) -> setelement(tuple_size(E), E, id) end
            end).

silent(Config) ->
    conform(Config, [call],
            #{flags => [call, silent],
              functions => functions([{nothing, 0}], [{'_', [], [{silent, false}]}], [local]) ++
                  functions([{id, 1}], true, [local]),
              workload => fun() ->
                                  kymo_workload:id(not_seen),
                                  kymo_workload:nothing(),
                                  kymo_workload:id(seen)
                          end}).

timestamp(Config) ->
    timestamped(Config, timestamp, fun({A, B, C}) -> ((A * 1000000 + B) * 1000000 + C) * 1000 end,
                fun() -> erlang:system_time(nanosecond) end).

%% A flag of the whole node, which changes the meaning of `timestamp'.
cpu_timestamp(Config) ->
    _ = erlang:trace(all, true, [cpu_timestamp]),
    try
        timestamped(Config, timestamp, fun({0, S, Us}) -> (S * 1000000 + Us) * 1000 end,
                    fun processor_time/0)
    after
        erlang:trace(all, false, [cpu_timestamp])
    end.

%% Processor time as the operating system counts it, in ticks of ten milliseconds.
processor_time() ->
    {ok, Stat} = file:read_file("/proc/self/stat"),
    [_, After] = binary:split(Stat, <<") ">>),
    Fields = binary:split(After, <<" ">>, [global]),
    lists:sum([binary_to_integer(lists:nth(N, Fields)) || N <- [12, 13]]) * 10000000.

monotonic(Config) ->
    timestamped(Config, monotonic_timestamp, fun(T) when is_integer(T) -> T end, fun nanoseconds/0).

strict_monotonic(Config) ->
    timestamped(Config, strict_monotonic_timestamp,
                fun({T, Unique}) when is_integer(T), is_integer(Unique) -> T end, fun nanoseconds/0).

nanoseconds() ->
    erlang:convert_time_unit(erlang:monotonic_time(), native, nanosecond).

%% The format is that of the process tracer, and the time lies within the run, as far as the
%% clock read beside it can show.
timestamped(Config, Flag, Nanoseconds, Now) ->
    Before = Now(),
    {Expected, Got} = timestamped_run(Config, Flag),
    After = Now(),
    Strip = fun(E) -> erlang:delete_element(tuple_size(E), E) end,
    ?assertEqual(lists:map(Strip, Expected), lists:map(Strip, Got)),
    Times = [Nanoseconds(element(tuple_size(E), E)) || E <- Got],
    _ = [Nanoseconds(element(tuple_size(E), E)) || E <- Expected],
    ?assertEqual(lists:sort(Times), Times),
    ?assert(hd(Times) >= Before - 20000000),
    ?assert(lists:last(Times) =< After + 20000000).

timestamped_run(Config, Flag) ->
    Spec = #{flags => [call, send, Flag], functions => functions([{id, 1}], true, [local]),
             workload => fun() -> [begin kymo_workload:id(N), self() ! N end || N <- lists:seq(1, 5)] end},
    {Expected, Got} = kymo_conform:run(?config(mode, Config), Spec, ?config(dir, Config)),
    [{Who, Es}] = maps:to_list(Expected),
    [{Who, Gs}] = maps:to_list(Got),
    {Es, Gs}.

%% ---- other ways to trace -----------------------------------------------------------------------

meta(Config) ->
    meta(Config, true, [call], fun() -> kymo_workload:id({x, y}), kymo_workload:add(1, 2) end).

meta_returns(Config) ->
    meta(Config, [{'_', [], [{exception_trace}]}], [call, return_from, exception_from],
         fun() ->
                 kymo_workload:id(x),
                 catch kymo_workload:fail(exit, gone)
         end).

meta(Config, MS, Tags, Work) ->
    Run = fun(Flag) ->
                  _ = erlang:trace_pattern({kymo_workload, '_', '_'}, MS, [Flag]),
                  {Pid, Ref} = spawn_monitor(Work),
                  receive {'DOWN', Ref, _, _, _} -> ok end,
                  erlang:trace_pattern({kymo_workload, '_', '_'}, false, [meta]),
                  [{worker, Pid}]
          end,
    Collector = kymo_conform:collector(),
    Roles1 = Run({meta, Collector}),
    Expected = kymo_conform:normal(Roles1, kymo_conform:collected(Collector)),
    {ok, State} = kymo_tracer:open(#{dir => ?config(dir, Config), calls => arguments, returns => values}),
    Roles2 = Run({meta, kymo_tracer, State}),
    ok = kymo_tracer:stop(State),
    Got = kymo_conform:normal(Roles2, kymo_conform:recorded(?config(dir, Config))),
    Strip = fun(E) ->
                    ?assertEqual(trace_ts, element(1, E)),
                    ?assertMatch({_, _, _}, element(tuple_size(E), E)),
                    erlang:delete_element(tuple_size(E), E)
            end,
    ?assertEqual(Tags, Tags -- (Tags -- [element(3, E) || E <- Expected])),
    ?assertEqual(lists:map(Strip, Expected), lists:map(Strip, Got)).

dbg_tracer(Config) ->
    {ok, State} = kymo_tracer:open(#{dir => ?config(dir, Config), calls => arguments}),
    {ok, _} = dbg:tracer(module, {kymo_tracer, State}),
    {ok, _} = dbg:tpl(kymo_workload, id, 1, []),
    {ok, _} = dbg:p(self(), [c]),
    kymo_workload:id(through_dbg),
    dbg_stop(),
    ok = kymo_tracer:stop(State),
    Self = self(),
    ?assertEqual([{trace, Self, call, {kymo_workload, id, [through_dbg]}}],
                 kymo_conform:recorded(?config(dir, Config))).

dbg_stop() ->
    Pid = whereis(dbg),
    Ref = monitor(process, Pid),
    _ = dbg:stop(),
    receive {'DOWN', Ref, _, _, _} -> ok end.

session(Config) ->
    {ok, State} = kymo_tracer:open(#{dir => ?config(dir, Config), calls => arguments}),
    Session = trace:session_create(kymo, {kymo_tracer, State}, []),
    1 = trace:function(Session, {kymo_workload, id, 1}, true, [local]),
    1 = trace:process(Session, self(), true, [call]),
    kymo_workload:id(in_a_session),
    true = trace:session_destroy(Session),
    kymo_workload:id(no_more),
    ok = kymo_tracer:stop(State),
    Self = self(),
    ?assertEqual([{trace, Self, call, {kymo_workload, id, [in_a_session]}}],
                 kymo_conform:recorded(?config(dir, Config))).

%% The tracer is set for as long as the recorder records.
seq_system_tracer(Config) ->
    {ok, State} = kymo_tracer:open(#{dir => ?config(dir, Config)}),
    false = seq_trace:set_system_tracer({kymo_tracer, State}),
    {kymo_tracer, State} = seq_trace:get_system_tracer(),
    ok = kymo_tracer:stop(State),
    _ = sequential_work(),
    false = seq_trace:get_system_tracer(),
    ?assertEqual([], kymo_conform:recorded(?config(dir, Config))).
