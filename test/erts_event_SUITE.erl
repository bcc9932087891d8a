%% SPDX-License-Identifier: Apache-2.0
%%
%% How events reach a tracer NIF: which calls of it are made, what its answers do, and that this
%% does not change while the tracer is loaded again, purged and removed; and which calls are
%% counted. Where an unpatched runtime behaves in the same way, it is checked, too, as the
%% reference for the patched one.
-module(erts_event_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-export([all/0, groups/0, suite/0, init_per_suite/1, end_per_suite/1,
         init_per_group/2, end_per_group/2, init_per_testcase/2, end_per_testcase/2]).
-export([answers/1, questions/1, questions_of_each_tag/1, raw_questions_of_each_tag/1,
         random_answers/1, spec_clears_tracer/1,
         largest_arity/1, silent_and_sensitive/1,
         process_tracer_dies/1, running_tracer_dies/1, process_traces_itself/1,
         reload_takes_effect/1, reload_under_load/1, purge_under_load/1,
         many_tracers/1, sessions_under_load/1, dirty_collections/1, dirty_senders/1,
         raw_registration/1, raw_answers/1, raw_like_behaviour/1, raw_meta/1, raw_spec/1,
         dirty_senders_with_token/1, send_spec_clears_tracer/1, spec_sets_flags_anew/1, raises/1,
         raw_reload/1, raw_under_load/1, raw_sessions_under_load/1, raw_header/1,
         meta_questions/1, port_questions/1, no_garbage/1, collections_in_two_sessions/1,
         count_exact/1, count_restart/1, count_pause/1, count_many/1, count_grows/1, count_memory/1, breakpoints_of_others/1]).
-export([breakpoint/3]).
-export([f/1, g/2, counted/1, quits/1, memory_of_counters/1]).

-import(erts_tracer_nif, [cc/3, header_dir/0, code_with/3]).
-import(erts_worker, [do/2, stop/1, told/1, flush/0]).

-define(TRACER, event_tracer).
-define(RAW, event_tracer_raw).
-define(MANY, 100).

suite() ->
    [{timetrap, {minutes, 2}}].

all() ->
    [answers, questions, questions_of_each_tag, random_answers, spec_clears_tracer, largest_arity,
     silent_and_sensitive, process_tracer_dies, running_tracer_dies, process_traces_itself,
     reload_takes_effect, reload_under_load, purge_under_load, many_tracers,
     dirty_collections, dirty_senders, count_exact, count_restart, count_pause, count_many,
     count_grows, breakpoints_of_others, {group, patched}].

groups() ->
    [{patched, [], [raw_registration, raw_answers, raw_questions_of_each_tag, raw_like_behaviour, raw_meta, raw_spec,
                    dirty_senders_with_token, send_spec_clears_tracer, spec_sets_flags_anew, raises,
                    raw_reload, raw_under_load, raw_header,
                    meta_questions, port_questions, no_garbage,
                    collections_in_two_sessions, sessions_under_load, raw_sessions_under_load, count_memory]}].

init_per_suite(Config) ->
    Dir = ?config(priv_dir, Config),
    Source = erts_tracer_nif:source(),
    Versions = [begin
               So = filename:join(Dir, "event_tracer_" ++ integer_to_list(V)),
               cc(Source, So ++ ".so", ["-DMODULE=event_tracer", "-DVERSION=" ++ integer_to_list(V)]),
               {V, code_with(?TRACER, So, 0)}
           end || V <- [1, 2]],
    RawSo = filename:join(Dir, "event_tracer_raw"),
    cc(Source, RawSo ++ ".so", ["-DMODULE=event_tracer_raw", "-DVERSION=1", "-DRAW=1", "-I", header_dir()]),
    [{versions, Versions}, {raw_so, RawSo} | Config].

end_per_suite(_Config) ->
    ok.

init_per_group(patched, Config) ->
    try erlang:system_info(kymo_series) of
        _ -> Config
    catch
        error:badarg -> {skip, "this runtime lacks the ERTS patches"}
    end.

end_per_group(_Group, _Config) ->
    ok.

init_per_testcase(_Case, Config) ->
    load_tracer(?TRACER, 1, Config),
    load_code(?RAW, code_with(?RAW, ?config(raw_so, Config), 0)),
    Config.

end_per_testcase(_Case, _Config) ->
    erlang:trace(all, false, [all]),
    erlang:trace_pattern({'_', '_', '_'}, false, [local, meta, call_count]),
    erlang:trace_pattern(send, true, []),
    ok.

%%--------------------------------------------------------------------------
%% Questions and answers

%% Effects of the answers to trace_status and call. For trace_status only `remove' matters. The
%% answer to call decides: all but trace and discard remove the tracer.
answers(_Config) ->
    [begin
         Got = call_with(Status, Call),
         ?assertEqual({Status, Call, expected(Status, Call)}, {Status, Call, Got})
     end || Status <- [trace, discard, remove, raise, nonsense],
            Call <- [trace, discard]],
    %% The debug emulator of an unpatched runtime aborts with these answers.
    [?assertEqual({trace, Call, {0, false}}, {trace, Call, call_with(trace, Call)})
     || Call <- [remove, raise, nonsense], is_patched() orelse not is_debug()].

expected(remove, _) -> {0, false};
expected(_, trace) -> {1, true};
expected(_, discard) -> {0, true}.

%% {Events of one call, whether the process is still traced afterwards}.
call_with(Status, Call) ->
    Tracee = spawn_link(fun erts_worker:worker/0),
    erlang:trace_pattern({?MODULE, f, 1}, true, [local]),
    1 = erlang:trace(Tracee, true, [call, {tracer, ?TRACER, {Status, Call, none, none}}]),
    {_, _, Before} = ?TRACER:counts(),
    do(Tracee, fun() -> ?MODULE:f(1) end),
    {_, _, After} = ?TRACER:counts(),
    Traced = {tracer, []} =/= erlang:trace_info(Tracee, tracer),
    stop(Tracee),
    {After - Before, Traced}.

%% A call is two questions to the tracer, in this order; every other event is one or none. Which
%% questions are asked depends on the functions that the module exports. (trace_status is also
%% asked when a process is scheduled in.)
questions(_Config) ->
    Tracee = spawn_link(fun erts_worker:worker/0),
    erlang:trace_pattern({?MODULE, f, 1}, [{'_', [], [{return_trace}]}], [local]),
    trace_asking(Tracee, [call, send, 'receive', garbage_collection, running, return_to]),
    do(Tracee, fun() ->
                       ?MODULE:f(1),
                       garbage_collect(),
                       self() ! done
               end),
    stop(Tracee),
    Told = told(all),
    Calls = [T || T <- Told,
                  lists:member(tag(T), [trace_status, call, return_from])],
    ?assertMatch([{asked, enabled, trace_status}, {asked, enabled_call, call},
                  {trace_call, call, Tracee, {?MODULE, f, [1]}, #{}},
                  {trace_call, return_from, Tracee, {?MODULE, f, 1}, #{extra := 1}}],
                 of_calls(Calls)),
    [?assertEqual({Tag, true}, {Tag, asked_once_for_each(Tag, Ask, Fun, Told)})
     || {Tag, Ask, Fun} <- [{send, enabled_send, trace_send}, {'receive', enabled, trace},
                            {gc_major_start, enabled, trace}, {gc_major_end, enabled, trace},
                            {in, enabled, trace}, {out, enabled, trace}]].

%% The number of questions per event for each tag, on all runtimes. There are two where the
%% answers may differ: `remove' to trace_status, and the answer to the event itself.
questions_of_each_tag(_Config) ->
    asked_for_each_tag(?TRACER, fun({_, Questions, _}) -> Questions end).

raw_questions_of_each_tag(_Config) ->
    asked_for_each_tag(?RAW, fun({_, _, Raw}) -> Raw end).

asked_for_each_tag(Tracer, Expected) ->
    [begin
         Told = asked_by(Tracer, Flags, Spec, Fun),
         Questions = [{Tag, lists:sort(Expected(E))} || {Tag, _, _} = E <- Events],
         Status = [{enabled, trace_status}],
         [?assertEqual({Flags, Spec, Tag, Qs -- Status}, {Flags, Spec, Tag, for_each(Tag, Told)})
          || {Tag, Qs} <- Questions],
         %% trace_status has no tag. It is also asked when a process is scheduled in, but that
         %% is rare, and when tracing begins.
         Often = length([T || {asked, _, trace_status} = T <- Told]) >= ?MANY - 3,
         ?assertEqual({Flags, Spec, lists:member(Status, [Qs -- (Qs -- Status) || {_, Qs} <- Questions])},
                      {Flags, Spec, Often})
     end || {Flags, Spec, Fun, Events} <- tags()],
    ok.

%% {Trace flags, match spec of f/1, action, [{Tag, questions per event, questions of a tracer
%% that wants raw events}]}. (For a raw tracer an event is a question, too.) Ports are traced on
%% their own. (For spawn the tracer is called while locks are held, so it cannot send to this
%% process.)
tags() ->
    Status = {enabled, trace_status},
    Call = {enabled_call, call},
    Calls = fun() -> ?MODULE:g(1, 2) end,
    Messages = fun() -> self() ! a, receive a -> ok end end,
    One = fun(Tag, F) -> {Tag, [{F, Tag}], [{raw_event, Tag}]} end,
    Procs = fun(Tag) -> One(Tag, enabled) end,
    Asked = fun(Tag, F) -> {Tag, [{F, Tag}], [{raw_enabled, Tag}, {raw_event, Tag}]} end,
    [{[call], true, Calls, [{call, [Status, Call], [{raw_event, call}]}]},
     {[call], [{'_', [], [{message, spec}]}], Calls,
      [{call, [Status, Call], [{raw_enabled, call}, {raw_event, call}]}]},
     {[call], [{'_', [], [{return_trace}]}], Calls,
      [{call, [Status, Call], [{raw_enabled, call}, {raw_event, call}]}, {return_from, [], []}]},
     {[call, return_to], true, Calls,
      [{call, [Status, Call], [{raw_event, call}]}, {return_to, [], []}]},
     {[send], true, Messages, [One(send, enabled_send)]},
     {['receive'], true, Messages, [One('receive', enabled)]},
     {[running], true, fun() -> erlang:yield() end,
      [{in, [Status, {enabled, in}], [Status, {raw_event, in}]}, One(out, enabled)]},
     {[garbage_collection], true, fun() -> garbage_collect() end,
      [Asked(gc_major_start, enabled), Asked(gc_major_end, enabled)]},
     {[procs], true, fun() -> register(some_name, self()), unregister(some_name) end,
      [Procs(T) || T <- [register, unregister]]},
     {[port, send], true, none, [Asked(send, enabled_send)]},
     {[port, 'receive'], true, none, [Asked('receive', enabled)]},
     {[port, ports], true, none, [Asked(register, enabled), Asked(unregister, enabled)]},
     {[port, running_ports], true, none, [Asked(in, enabled)]}].

asked_by(Tracer, [port | Flags], _, _) ->
    Port = open_port({spawn, "cat"}, [binary]),
    1 = erlang:trace(Port, true, [{tracer, Tracer, {trace, trace, self(), self()}} | Flags]),
    Told = [begin
                true = register(some_port, Port),
                true = unregister(some_port),
                Port ! {self(), {command, <<"echo">>}},
                echoed(Port)
            end || _ <- lists:seq(1, ?MANY)],
    port_close(Port),
    flush(),
    lists:append(Told);
asked_by(Tracer, Flags, Spec, Fun) ->
    [1 = erlang:trace_pattern({?MODULE, F, A}, Spec, [local]) || {F, A} <- [{f, 1}, {g, 2}]],
    Tracee = spawn_link(fun erts_worker:worker/0),
    1 = erlang:trace(Tracee, true, [{tracer, Tracer, {trace, trace, self(), self()}} | Flags]),
    do(Tracee, fun() -> repeat(?MANY, Fun) end),
    Told = told(Tracee),
    erlang:trace(Tracee, false, [all]),
    erlang:trace_pattern({?MODULE, '_', '_'}, false, [local]),
    stop(Tracee),
    flush(),
    Told.

%% Everything that arrives before the echo.
echoed(Port) ->
    receive
        {Port, {data, <<"echo">>}} -> [];
        M -> [M | echoed(Port)]
    end.

%% The questions that are asked as often as there are events with this tag. Questions and events
%% may overtake each other on their way here, so they are counted, and the last ones may be
%% missing.
for_each(Tag, Told) ->
    Events = length([T || T <- Told, element(1, T) =/= asked, tag(T) =:= Tag]),
    ?assertEqual({Tag, true}, {Tag, Events >= ?MANY - 3}),
    Asked = [{F, T} || {asked, F, T} <- Told, T =:= Tag],
    [begin
         N = length([K || K <- Asked, K =:= Kind]),
         ?assertEqual({Kind, N, Events, true}, {Kind, N, Events, abs(N - Events) =< 3}),
         Kind
     end || Kind <- lists:usort(Asked)].

of_calls([{asked, _, trace_status} = S, {asked, _, call} = C | Rest]) -> [S, C | of_calls(Rest)];
of_calls([{asked, _, trace_status} | Rest]) -> of_calls(Rest);
of_calls([Other | Rest]) -> [Other | of_calls(Rest)];
of_calls([]) -> [].

tag({asked, _, Tag}) -> Tag;
tag({_, Tag, _, _, _}) -> Tag.

asked_once_for_each(Tag, Ask, Fun, Told) ->
    Of = [case T of
              {asked, F, _} -> {asked, F};
              {F, _, _, _, _} -> {told, F}
          end || T <- Told, tag(T) =:= Tag],
    {Asked, Others} = lists:partition(fun(T) -> T =:= {asked, Ask} end, Of),
    Asked =/= [] andalso Others =:= [{told, Fun} || _ <- Asked].

%% Meta tracing calls the same functions as other tracing.
meta_questions(_Config) ->
    Self = self(),
    erlang:trace_pattern({?MODULE, f, 1}, true, [{meta, ?TRACER, {trace, trace, Self, Self}}]),
    Tracee = spawn_link(fun erts_worker:worker/0),
    do(Tracee, fun() -> ?MODULE:f(7) end),
    ?assertMatch([{asked, enabled, trace_status}, {asked, enabled_call, call},
                  {trace_call, call, Tracee, {?MODULE, f, [7]}, #{timestamp := timestamp}}],
                 told(Tracee)),
    stop(Tracee),
    %% The tracer answers remove.
    erlang:trace_pattern({?MODULE, f, 1}, false, [meta]),
    erlang:trace_pattern({?MODULE, f, 1}, true, [{meta, ?TRACER, {remove, trace, none, none}}]),
    ?MODULE:f(8),
    ?assertMatch({meta, X} when X =:= false; X =:= [], erlang:trace_info({?MODULE, f, 1}, meta)).

%% A port sends a message to a process that does not exist.
port_questions(_Config) ->
    {Owner, Ref} = spawn_monitor(fun() ->
                                         Port = open_port({spawn, "cat"}, [binary]),
                                         receive {connect, From} -> From ! {port, Port} end,
                                         receive stop -> ok end
                                 end),
    Owner ! {connect, self()},
    Port = receive {port, P} -> P end,
    erlang:port_connect(Port, self()),
    unlink(Port),
    1 = erlang:trace(Port, true, [send, {tracer, ?TRACER, {trace, trace, self(), self()}}]),
    flush(),
    Port ! {self(), {command, <<"echo">>}},
    receive {Port, {data, <<"echo">>}} -> ok end,
    Told = flush(),
    ?assertMatch([_ | _], Told),
    [?assertEqual(enabled_send, F) || {asked, F, Tag} <- Told, Tag =/= trace_status],
    ?assertMatch([_ | _], [T || {trace_send, send, _, {_, {data, <<"echo">>}}, _} = T <- Told]),
    catch port_close(Port),
    Owner ! stop,
    receive {'DOWN', Ref, process, Owner, _} -> ok end.

%% All kinds of answers, on all schedulers, while tracing is set repeatedly.
random_answers(_Config) ->
    _ = [?assert(is_patched()) || is_debug()],
    erlang:trace_pattern({?MODULE, f, 1}, [{'_', [], [{return_trace}]}], [local]),
    Workers = load_of(erts_worker:processors() + 1, fun everything/0),
    {_, Before, _} = ?TRACER:counts(),
    trace_until_asked(Workers, Before + 20000),
    stop_load(Workers).

trace_until_asked(Workers, Enough) ->
    [1 = erlang:trace(W, true, [call, return_to, send, 'receive', procs, running, garbage_collection,
                                {tracer, ?TRACER, {random, random, none, none}}]) || W <- Workers],
    [done = ask(W) || W <- Workers],
    case ?TRACER:counts() of
        {_, Asked, _} when Asked >= Enough -> ok;
        _ -> trace_until_asked(Workers, Enough)
    end.

%% A match spec clears the trace flags: the call that it is run for is still reported.
spec_clears_tracer(_Config) ->
    Tracee = spawn_link(fun erts_worker:worker/0),
    erlang:trace_pattern({?MODULE, f, 1}, [{['$1'], [], [{trace, [all], []}, {message, '$1'}]}], [local]),
    [begin
         trace(Tracee, [call]),
         do(Tracee, fun() -> ?MODULE:f(N), ?MODULE:f(N) end),
         ?assertMatch([{trace_call, call, Tracee, {?MODULE, f, [N]}, #{match_spec_result := N}}],
                      told(Tracee)),
         ?assertMatch({tracer, X} when X =:= [], erlang:trace_info(Tracee, tracer))
     end || N <- lists:seq(1, 100)],
    stop(Tracee).

%% The unpatched runtime uses freed memory here.
send_spec_clears_tracer(_Config) ->
    Tracee = spawn_link(fun erts_worker:worker/0),
    erlang:trace_pattern(send, [{'_', [], [{trace, [all], []}]}], []),
    [begin
         1 = erlang:trace(Tracee, true, [send, {tracer, Tracer, {trace, trace, self(), none}}]),
         do(Tracee, fun() -> self() ! N, receive N -> ok end end),
         ?assertEqual([], told(Tracee)),
         ?assertEqual({tracer, []}, erlang:trace_info(Tracee, tracer))
     end || N <- lists:seq(1, 100), Tracer <- [?TRACER, ?RAW]],
    stop(Tracee).

%% The event reflects the flags that are set in the end.
spec_sets_flags_anew(_Config) ->
    Tracee = spawn_link(fun erts_worker:worker/0),
    S = trace:session_create(?MODULE, self(), []),
    Flags = [call, arity, timestamp],
    1 = trace:process(S, Tracee, true, Flags),
    1 = trace:function(S, {?MODULE, f, 1},
                       [{'_', [], [{trace, [all], []}, {trace, [], Flags}]}], [local]),
    [begin
         do(Tracee, fun() -> ?MODULE:f(N) end),
         ?assertMatch([{trace_ts, Tracee, call, {?MODULE, f, 1}, {_, _, _}}], told(Tracee))
     end || N <- lists:seq(1, 100)],
    trace:session_destroy(S),
    stop(Tracee).

%% An exception in a tracer does not affect the tracee.
raises(_Config) ->
    Tracer = {tracer, ?TRACER, {trace, trace, raise, none}},
    erlang:trace_pattern({?MODULE, f, 1}, true, [local]),
    Tracee = spawn_link(fun erts_worker:worker/0),
    1 = erlang:trace(Tracee, true, [call, send, 'receive', running, garbage_collection, Tracer]),
    do(Tracee, fun() ->
                       [begin
                            [N, N] = ?MODULE:f([N, N]),
                            garbage_collect()
                        end || N <- lists:seq(1, 100)]
               end),
    stop(Tracee),
    erlang:trace_pattern({?MODULE, quits, 1}, [{'_', [], [{exception_trace}]}], [local]),
    [begin
         {Quitter, Ref} = spawn_monitor(fun() -> receive go -> ?MODULE:quits(Reason) end end),
         1 = erlang:trace(Quitter, true, [call, exiting, running, procs, Tracer]),
         Quitter ! go,
         receive {'DOWN', Ref, process, Quitter, Why} -> ?assertEqual(Reason, Why) end
     end || Reason <- [normal, {a, [reason]}], _ <- lists:seq(1, 20)],
    ok.

largest_arity(_Config) ->
    M = largest_arity_mod,
    Args = [{var, 1, list_to_atom("A" ++ integer_to_list(I))} || I <- lists:seq(1, 255)],
    {ok, M, Bin} = compile:forms([{attribute, 1, module, M}, {attribute, 1, export, [{f, 255}]},
                                  {function, 1, f, 255, [{clause, 1, Args, [], [lists:last(Args)]}]}], []),
    {module, M} = code:load_binary(M, "", Bin),
    1 = erlang:trace_pattern({M, f, 255}, true, [local]),
    Tracee = spawn_link(fun erts_worker:worker/0),
    Terms = [{I, [I, <<I:4000>>]} || I <- lists:seq(1, 255)],
    trace(Tracee, [call]),
    do(Tracee, fun() -> apply(M, f, Terms) end),
    ?assertMatch([{trace_call, call, Tracee, {M, f, Terms}, #{}}], told(Tracee)),
    stop(Tracee),
    true = code:delete(M),
    code:purge(M).

%% The tracer is asked about a silent process, but gets no events. It is not asked about a
%% sensitive process.
silent_and_sensitive(_Config) ->
    erlang:trace_pattern({?MODULE, f, 1}, true, [local]),
    Tracee = spawn_link(fun erts_worker:worker/0),
    trace_asking(Tracee, [call, silent]),
    do(Tracee, fun() -> ?MODULE:f(1) end),
    ?assertEqual([{asked, enabled, trace_status}, {asked, enabled_call, call}], lists:usort(told(Tracee))),
    do(Tracee, fun() -> process_flag(sensitive, true), ?MODULE:f(1) end),
    ?assertEqual([], [T || {asked, enabled_call, _} = T <- told(Tracee)]),
    stop(Tracee).

%% The first call finds that the tracer is dead, and removes it.
process_tracer_dies(_Config) ->
    erlang:trace_pattern({?MODULE, f, 1}, true, [local]),
    [begin
         Tracee = spawn_link(fun erts_worker:worker/0),
         {Tracer, Ref} = spawn_monitor(fun() -> receive stop -> ok end end),
         1 = erlang:trace(Tracee, true, [call, {tracer, Tracer}]),
         do(Tracee, fun() -> ?MODULE:f(1) end),
         ?assertMatch({tracer, Tracer}, erlang:trace_info(Tracee, tracer)),
         exit(Tracer, kill),
         receive {'DOWN', Ref, process, Tracer, killed} -> ok end,
         do(Tracee, fun() ->
                            ?MODULE:f(1),
                            {flags, []} = erlang:trace_info(self(), flags)
                    end),
         stop(Tracee)
     end || _ <- lists:seq(1, 50)].

%% The same, found when the tracee is scheduled in.
running_tracer_dies(_Config) ->
    [begin
         Tracee = spawn_link(fun erts_worker:worker/0),
         {Tracer, Ref} = spawn_monitor(fun() -> collect([]) end),
         1 = erlang:trace(Tracee, true, [Flag, {tracer, Tracer}]),
         do(Tracee, fun() -> erlang:yield() end),
         ?assertMatch({tracer, Tracer}, erlang:trace_info(Tracee, tracer)),
         Delivered = erlang:trace_delivered(Tracee),
         receive {trace_delivered, Tracee, Delivered} -> ok end,
         Tracer ! {get, self()},
         Ins = receive {Tracer, Events} -> [in || {trace, P, in, {_, _, _}} <- Events, P =:= Tracee] end,
         ?assertEqual({Flag, Flag =:= running}, {Flag, length(Ins) >= 2}),
         exit(Tracer, kill),
         receive {'DOWN', Ref, process, Tracer, Reason} -> ?assert(Reason =:= killed orelse Reason =:= normal) end,
         do(Tracee, fun() ->
                            erlang:yield(),
                            {flags, []} = erlang:trace_info(self(), flags)
                    end),
         stop(Tracee)
     end || Flag <- [running, set_on_spawn], _ <- lists:seq(1, 20)].

%% The event is discarded, the tracing is kept.
process_traces_itself(_Config) ->
    erlang:trace_pattern({?MODULE, f, 1}, true, [local, {meta, Self = self()}]),
    Tracer = spawn_link(fun erts_worker:worker/0),
    1 = erlang:trace(Self, true, [call, {tracer, Tracer}]),
    ?MODULE:f(1),
    erlang:trace(Self, false, [all]),
    erlang:trace_pattern({?MODULE, f, 1}, false, [meta]),
    Tracee = spawn_link(fun erts_worker:worker/0),
    1 = erlang:trace(Tracee, true, [call, {tracer, Tracer}]),
    do(Tracee, fun() -> ?MODULE:f(2) end),
    do(Tracer, fun() ->
                       receive {trace, Self, call, {?MODULE, f, [1]}} -> ok end,
                       receive {trace, Tracee, call, {?MODULE, f, [2]}} -> ok end
               end),
    [stop(P) || P <- [Tracee, Tracer]],
    ?assertEqual([], flush()).

%%--------------------------------------------------------------------------
%% The tracer's code changes

%% Once the new code is current, only the new code is called.
reload_takes_effect(Config) ->
    erlang:trace_pattern({?MODULE, f, 1}, true, [local]),
    Tracees = [spawn_opt(fun erts_worker:worker/0, [link, {scheduler, S}]) || S <- lists:seq(1, schedulers())],
    [1 = erlang:trace(T, true, [call, {tracer, ?TRACER, {trace, trace, none, none}}]) || T <- Tracees],
    [begin
         load_tracer(?TRACER, V, Config),
         {V, _, Before} = ?TRACER:counts(),
         [do(T, fun() -> ?MODULE:f(1) end) || T <- Tracees],
         ?assertEqual({V, Before + length(Tracees)}, {V, element(3, ?TRACER:counts())})
     end || _ <- lists:seq(1, 20), V <- [2, 1]],
    [stop(T) || T <- Tracees].

reload_under_load(Config) ->
    erlang:trace_pattern({?MODULE, f, 1}, [{'_', [], [{return_trace}]}], [local]),
    Workers = load_of(erts_worker:processors() + 1, fun everything/0),
    [1 = erlang:trace(W, true, [call, return_to, send, 'receive', procs, running, garbage_collection,
                                {tracer, ?TRACER, {trace, trace, none, none}}]) || W <- Workers],
    repeat(40, fun() -> [load_tracer(?TRACER, V, Config) || V <- [2, 1]] end),
    {1, _, Events} = ?TRACER:counts(),
    ?assert(Events > 0),
    [?assertMatch({tracer, {?TRACER, _}}, erlang:trace_info(W, tracer)) || W <- Workers],
    stop_load(Workers).

%% There is no tracer for some time. A process notices when it calls a traced function, and is
%% then no longer traced.
purge_under_load(Config) ->
    erlang:trace_pattern({?MODULE, f, 1}, true, [local]),
    Workers = load_of(erts_worker:processors() + 1, fun everything/0),
    repeat(40, fun() ->
                        [1 = erlang:trace(W, true, [call, send, 'receive', garbage_collection,
                                                    {tracer, ?TRACER, {trace, trace, none, none}}])
                         || W <- Workers],
                        true = code:delete(?TRACER),
                        code:purge(?TRACER),
                        [done = ask(W) || W <- Workers],
                        [?assertEqual({tracer, []}, erlang:trace_info(W, tracer)) || W <- Workers],
                        load_tracer(?TRACER, 1, Config)
                end),
    stop_load(Workers).

%% More tracers than a scheduler caches, used in turn.
many_tracers(Config) ->
    Names = [list_to_atom("event_tracer_copy_" ++ integer_to_list(I)) || I <- lists:seq(1, 9)],
    Base = filename:join(?config(priv_dir, Config), "copy_"),
    Source = erts_tracer_nif:source(),
    [begin
         So = Base ++ atom_to_list(M),
         cc(Source, So ++ ".so", ["-DVERSION=1", "-DMODULE=" ++ atom_to_list(M)]),
         load_code(M, code_with(M, So, 0))
     end || M <- Names],
    erlang:trace_pattern({?MODULE, f, 1}, true, [local]),
    Tracees = [{M, spawn_link(fun erts_worker:worker/0)} || M <- Names],
    [1 = erlang:trace(T, true, [call, {tracer, M, {trace, trace, none, none}}]) || {M, T} <- Tracees],
    [[do(T, fun() -> ?MODULE:f(1) end) || {_, T} <- Tracees] || _ <- lists:seq(1, 100)],
    ?assertEqual([{M, 100} || M <- Names], [{M, element(3, M:counts())} || M <- Names]),
    [stop(T) || {_, T} <- Tracees],
    [begin true = code:delete(M), code:purge(M) end || M <- Names].

sessions_under_load(_Config) ->
    sessions_of(?TRACER).

raw_sessions_under_load(_Config) ->
    sessions_of(?RAW).

sessions_of(Tracer) ->
    Workers = load_of(erts_worker:processors() + 1, fun everything/0),
    repeat(60, fun() ->
                        Ss = [trace:session_create(N, {Tracer, {trace, trace, none, none}}, []) || N <- [one, two]],
                        [begin
                             1 = trace:function(S, {?MODULE, f, 1}, [{'_', [], [{return_trace}]}], [local]),
                             [1 = trace:process(S, W, true, [call, send, 'receive', running, garbage_collection])
                              || W <- Workers]
                         end || S <- Ss],
                        [done = ask(W) || W <- Workers],
                        [true = trace:session_destroy(S) || S <- Ss]
                end),
    {_, _, Events} = Tracer:counts(),
    ?assert(Events > 0),
    stop_load(Workers).

%% Large heaps are collected by dirty schedulers.
dirty_collections(Config) ->
    Workers = load_of(3, fun() -> collect_large(lists:seq(1, 300000)) end),
    [1 = erlang:trace(W, true, [garbage_collection, {tracer, ?TRACER, {trace, trace, none, none}}]) || W <- Workers],
    repeat(20, fun() ->
                       [done = ask(W) || W <- Workers],
                       [load_tracer(?TRACER, V, Config) || V <- [2, 1]]
               end),
    [done = ask(W) || W <- Workers],
    {1, _, Events} = ?TRACER:counts(),
    ?assert(Events > 0),
    stop_load(Workers).

%% A process on a dirty scheduler sends, and is scheduled there and elsewhere. Its tracer is
%% loaded again, and called in threads that have no tracer cache.
dirty_senders(Config) ->
    Tracers = [{?TRACER, ?RAW, [proplists:get_value(V, ?config(versions, Config)) || V <- [2, 1]]} |
               [{?RAW, ?TRACER, [code_with(?RAW, ?config(raw_so, Config), How) || How <- [1, 0]]} || is_patched()]],
    [begin
         Workers = load_of(3, fun() -> dirty_work(Sender) end),
         Answers = case is_patched() orelse is_debug() of
                       true -> [trace, random];
                       false -> [trace]
                   end,
         repeat(10, fun() ->
                            [begin
                                 [1 = erlang:trace(W, true, [send, 'receive', running, procs,
                                                             {tracer, Tracer, {trace, Answer, none, none}}])
                                  || W <- Workers],
                                 [done = ask(W) || W <- Workers],
                                 [load_code(Tracer, Code) || Code <- Codes],
                                 [done = ask(W) || W <- Workers],
                                 [1 = erlang:trace(W, false, [all]) || W <- Workers]
                             end || Answer <- Answers]
                    end),
         Collector = spawn_link(fun() -> collect([]) end),
         [W | _] = Workers,
         1 = erlang:trace(W, true, [send, {tracer, Tracer, {trace, trace, Collector, none}}]),
         [done = ask(W) || _ <- [1, 2, 3]],
         stop_load(Workers),
         Collector ! {get, self()},
         Told = receive {Collector, Events} -> Events end,
         ?assertMatch({Tracer, [_ | _]}, {Tracer, [T || {trace_send, send, P, from_dirty, _} = T <- Told, P =:= W]})
     end || {Tracer, Sender, Codes} <- Tracers].

%% The system tracer is unloaded and replaced at the same time.
dirty_senders_with_token(Config) ->
    Work = fun() ->
                   seq_trace:set_token(send, true),
                   dirty_work(?RAW),
                   seq_trace:set_token([])
           end,
    Workers = load_of(3, Work),
    Collector = spawn_link(fun() -> collect([]) end),
    repeat(20, fun() ->
                       [begin
                            seq_trace:set_system_tracer({?TRACER, {trace, Answer, Collector, none}}),
                            [done = ask(W) || W <- Workers],
                            [load_tracer(?TRACER, V, Config) || V <- [2, 1]]
                        end || Answer <- [trace, discard, remove, raise]]
               end),
    stop_load(Workers),
    _ = seq_trace:set_system_tracer(false),
    seq_trace:reset_trace(),
    Collector ! {get, self()},
    Told = receive {Collector, Events} -> Events end,
    ?assertMatch([_ | _], [T || {trace, seq_trace, _, {send, _, P, P, from_dirty}, _} = T <- Told,
                                lists:member(P, Workers)]).

%% On both kinds of dirty schedulers.
dirty_work(Sender) ->
    [begin
         ok = Sender:Send(self(), from_dirty),
         receive from_dirty -> ok end
     end || Send <- [dirty_cpu, dirty_io]].

collect_large(L) ->
    garbage_collect(),
    length(L).

%%--------------------------------------------------------------------------
%% Raw events

%% An invalid registration is refused with an error, and the behaviour is used instead. The same
%% applies to a registration after load.
raw_registration(Config) ->
    [begin
         load_code(?RAW, code_with(?RAW, ?config(raw_so, Config), How)),
         ?assertEqual({How, {Error, 22}}, {How, ?RAW:registering()}),
         Tracee = spawn_link(fun erts_worker:worker/0),
         1 = erlang:trace(Tracee, true, [send, {tracer, ?RAW, {trace, trace, none, self()}}]),
         flush(),
         do(Tracee, fun() -> ok end),
         Asked = [F || {asked, F, send} <- told(Tracee)],
         ?assertEqual({How, [if Error =:= 0 -> raw_event; true -> enabled_send end]}, {How, lists:usort(Asked)}),
         stop(Tracee)
     end || {How, Error} <- [{0, 0}, {1, 22}, {2, 95}, {3, 95}, {4, 22}, {5, 22}, {6, 22}, {8, 22},
                             {9, 95}, {10, 95}, {11, 95}, {0, 0}]],
    %% A module can register only once.
    load_code(?RAW, code_with(?RAW, ?config(raw_so, Config), 7)),
    ?assertEqual({22, 22}, ?RAW:registering()).

%% The answer remove to a call removes the tracer; trace_status is still asked when tracing is
%% inspected.
raw_answers(_Config) ->
    1 = erlang:trace_pattern({?MODULE, f, 1}, true, [local]),
    [begin
         Tracee = spawn_link(fun erts_worker:worker/0),
         1 = erlang:trace(Tracee, true, [call, send, {tracer, ?RAW, {trace, Answer, self(), none}}]),
         do(Tracee, fun() -> self() ! x, receive x -> ok end, ?MODULE:f(1) end),
         Calls = length([T || {trace_call, call, _, _, _} = T <- told(Tracee)]),
         ?assertEqual({Answer, {Expected, Traced}},
                      {Answer, {Calls, {tracer, []} =/= erlang:trace_info(Tracee, tracer)}}),
         stop(Tracee)
     end || {Answer, Expected, Traced} <- [{trace, 1, true}, {discard, 0, true}, {remove, 0, false}]],
    Gone = spawn_link(fun erts_worker:worker/0),
    1 = erlang:trace(Gone, true, [send, {tracer, ?RAW, {remove, trace, none, none}}]),
    do(Gone, fun() -> ok end),
    ?assertEqual({tracer, []}, erlang:trace_info(Gone, tracer)),
    %% Discarded calls have no return events.
    Tracee = spawn_link(fun erts_worker:worker/0),
    1 = erlang:trace(Tracee, true, [call, return_to, {tracer, ?RAW, {trace, discard, self(), none}}]),
    do(Tracee, fun() -> [?MODULE:f(1)] end),
    ?assertEqual([], told(Tracee)),
    stop(Tracee),
    stop(Gone).

%% Two sessions trace the same events, one through each interface.
raw_like_behaviour(_Config) ->
    [same_events(Flags, Spec)
     || Flags <- [[], [arity], [timestamp], [monotonic_timestamp], [strict_monotonic_timestamp]],
        Spec <- [true, [{'_', [], [{return_trace}]}], [{'_', [], [{exception_trace}, {message, {{a, self}}}]}]]].

same_events(Flags, Spec) ->
    [{B, B1}, {R, R1}] =
        [begin
             Collector = spawn_link(fun() -> collect([]) end),
             {Collector, trace:session_create(M, {M, {trace, trace, Collector, none}}, [])}
         end || M <- [?TRACER, ?RAW]],
    Tracee = spawn_link(fun erts_worker:worker/0),
    [begin
         [1 = trace:function(S, {?MODULE, F, A}, Spec, [local]) || {F, A} <- [{f, 1}, {g, 2}]],
         1 = trace:process(S, Tracee, true,
                           [call, return_to, send, 'receive', procs, running, garbage_collection, set_on_spawn | Flags])
     end || S <- [B1, R1]],
    do(Tracee, fun() ->
                       ?MODULE:g({a, <<1:70>>}, 2.5),
                       _ = catch ?MODULE:g(1, []),
                       garbage_collect(),
                       Child = spawn_link(fun() -> receive stop -> exit({done, self()}) end end),
                       unlink(Child),
                       register(some_name, self()),
                       unregister(some_name),
                       Child ! stop,
                       everything()
               end),
    told(Tracee),
    [true = trace:session_destroy(S) || S <- [B1, R1]],
    stop(Tracee),
    [EB, ER] = [begin C ! {get, self()}, receive {C, Events} -> Events end end || C <- [B, R]],
    Tags = lists:usort([element(2, E) || E <- EB]),
    [?assertEqual({Flags, Tag, true}, {Flags, Tag, lists:member(Tag, Tags)})
     || Tag <- [call, return_to, send, 'receive', spawn, register, in, out, gc_major_start, gc_major_end]],
    %% One session begins before the other and ends before it.
    Of = fun(Es) ->
                 Began = lists:dropwhile(fun(E) -> element(2, E) =/= 'receive' end,
                                         [E || E <- Es, element(3, E) =:= Tracee]),
                 lists:takewhile(fun(E) -> element(4, E) =/= {done, Tracee} end, Began)
         end,
    ?assertEqual({Flags, Spec, Of(EB)}, {Flags, Spec, Of(ER)}).

collect(Events) ->
    receive
        {get, From} -> From ! {self(), lists:reverse(Events)};
        Event -> collect([Event | Events])
    end.

raw_meta(_Config) ->
    1 = erlang:trace_pattern({?MODULE, f, 1}, true, [{meta, ?RAW, {trace, trace, self(), none}}]),
    Tracee = spawn_link(fun erts_worker:worker/0),
    do(Tracee, fun() -> ?MODULE:f(7) end),
    ?assertMatch([{trace_call, call, Tracee, {?MODULE, f, [7]}, #{timestamp := timestamp}}], told(Tracee)),
    stop(Tracee),
    1 = erlang:trace_pattern({?MODULE, f, 1}, false, [meta]),
    1 = erlang:trace_pattern({?MODULE, f, 1}, true, [{meta, ?RAW, {trace, remove, none, none}}]),
    ?MODULE:f(8),
    ?assertMatch({meta, X} when X =:= false; X =:= [], erlang:trace_info({?MODULE, f, 1}, meta)).

%% The tracer is asked before a match spec is run, because a discarded call must not have the
%% side effects of the match spec. The answer may remove the tracer.
raw_spec(_Config) ->
    Silence = [{'_', [], [{silent, true}]}],
    1 = erlang:trace_pattern({?MODULE, f, 1}, Silence, [local]),
    [begin
         Tracee = spawn_link(fun erts_worker:worker/0),
         1 = erlang:trace(Tracee, true, [call, {tracer, ?RAW, {trace, Answer, none, self()}}]),
         do(Tracee, fun() -> ?MODULE:f(1) end),
         ?assertEqual({Answer, [raw_enabled]}, {Answer, [F || {asked, F, call} <- told(Tracee)]}),
         {flags, Flags} = erlang:trace_info(Tracee, flags),
         ?assertEqual({Answer, Answer =:= trace}, {Answer, lists:member(silent, Flags)}),
         stop(Tracee)
     end || Answer <- [trace, discard]],
    Off = [{['$1'], [], [{trace, [all], []}, {message, '$1'}]}],
    1 = erlang:trace_pattern({?MODULE, f, 1}, Off, [local]),
    Tracee = spawn_link(fun erts_worker:worker/0),
    1 = erlang:trace(Tracee, true, [call, {tracer, ?RAW, {trace, trace, self(), none}}]),
    do(Tracee, fun() -> ?MODULE:f(5), ?MODULE:f(5) end),
    ?assertMatch([{trace_call, call, Tracee, {?MODULE, f, [5]}, #{match_spec_result := 5}}],
                 [T || T <- told(Tracee), element(1, T) =/= asked]),
    stop(Tracee).

%% Each version of the code registers by itself, or not at all.
raw_reload(Config) ->
    Tracee = spawn_link(fun erts_worker:worker/0),
    1 = erlang:trace(Tracee, true, [send, {tracer, ?RAW, {trace, trace, none, self()}}]),
    [begin
         load_code(?RAW, code_with(?RAW, ?config(raw_so, Config), How)),
         told(Tracee),
         do(Tracee, fun() -> ok end),
         ?assertEqual({How, [Expected]}, {How, lists:usort([F || {asked, F, send} <- told(Tracee)])})
     end || _ <- lists:seq(1, 10), {How, Expected} <- [{1, enabled_send}, {0, raw_event}]],
    stop(Tracee).

raw_under_load(Config) ->
    erlang:trace_pattern({?MODULE, f, 1}, [{'_', [], [{return_trace}]}], [local]),
    Codes = [code_with(?RAW, ?config(raw_so, Config), How) || How <- [1, 0]],
    Workers = load_of(erts_worker:processors() + 1, fun everything/0),
    Trace = fun(Answer) ->
                    [begin
                         1 = erlang:trace(W, false, [all]),
                         1 = erlang:trace(W, true, [call, return_to, send, 'receive', procs, running,
                                                    garbage_collection, {tracer, ?RAW, {trace, Answer, none, none}}])
                     end || W <- Workers]
            end,
    repeat(20, fun() ->
                       Trace(trace),
                       [load_code(?RAW, Code) || Code <- Codes],
                       Trace(random),
                       [load_code(?RAW, Code) || Code <- Codes],
                       [done = ask(W) || W <- Workers]
               end),
    {1, _, Events} = ?RAW:counts(),
    ?assert(Events > 0),
    true = code:delete(?RAW),
    code:purge(?RAW),
    [done = ask(W) || W <- Workers],
    stop_load(Workers).

%% kymo's copy of the header equals the runtime's in each series with an overlay;
%% scripts/otp-patch check compares it with the other series.
raw_header(_Config) ->
    Series = filename:join([header_dir(), "..", "..", "erts_patches", "otp-*", "overlay"]),
    {ok, Bytes} = file:read_file(filename:join(header_dir(), "erl_nif_tracer.h")),
    Dirs = [_ | _] = filelib:wildcard(Series),
    [?assertEqual({ok, Bytes},
                  file:read_file(filename:join([Dir, "erts", "emulator", "beam", "erl_nif_tracer.h"])))
     || Dir <- Dirs].

%%--------------------------------------------------------------------------
%% What is left behind

%% Words that a collection reclaims after so many events.
no_garbage(_Config) ->
    erlang:trace_pattern({?MODULE, f, 1}, true, [local]),
    erlang:trace_pattern({?MODULE, g, 2}, [{'_', [], [{return_trace}]}], [local]),
    N = 1000,
    Kinds = [{call, [call], fun() -> ?MODULE:f(1) end},
             {call_arity, [call, arity], fun() -> ?MODULE:f(1) end},
             {call_returns, [call, return_to], fun() -> ?MODULE:g(1, 2) end},
             {running, [running], fun() -> erlang:yield() end},
             {send, [send], fun() -> self() ! x, receive x -> ok end end},
             {'receive', ['receive'], fun() -> self() ! x, receive x -> ok end end}],
    [begin
         Without = garbage(N, [], Fun),
         With = garbage(N, Flags, Fun),
         ct:pal("~p: ~p words without, ~p with ~p events", [Kind, Without, With, N]),
         ?assert(With - Without < N)
     end || {Kind, Flags, Fun} <- Kinds].

%% Other processes produce garbage, too, so this is the minimum of several runs.
garbage(N, Flags, Fun) ->
    lists:min([garbage_once(N, Flags, Fun) || _ <- lists:seq(1, 3)]).

garbage_once(N, Flags, Fun) ->
    Self = self(),
    Tracee = spawn_opt(fun() ->
                               receive go -> ok end,
                               garbage_collect(),
                               {_, Before, _} = statistics(garbage_collection),
                               repeat(N, Fun),
                               garbage_collect(),
                               {_, After, _} = statistics(garbage_collection),
                               Self ! {self(), After - Before}
                       end, [link, {min_heap_size, 1000000}]),
    [1 = erlang:trace(Tracee, true, [{tracer, ?TRACER, {trace, trace, none, none}} | Flags]) || Flags =/= []],
    Tracee ! go,
    receive {Tracee, Words} -> Words end.

%% Both sessions get the same events, and all of them.
collections_in_two_sessions(_Config) ->
    Self = self(),
    Tracee = spawn_link(fun erts_worker:worker/0),
    Ss = [trace:session_create(N, {?TRACER, {trace, trace, Self, none}}, []) || N <- [one, two]],
    [1 = trace:process(S, Tracee, true, [garbage_collection]) || S <- Ss],
    do(Tracee, fun() -> [garbage_collect() || _ <- lists:seq(1, 100)] end),
    [true = trace:session_destroy(S) || S <- Ss],
    Told = [{Tag, Info} || {trace, Tag, _, Info, _} <- told(Tracee)],
    stop(Tracee),
    ?assert(length(Told) >= 400),
    same_twice(Told),
    [?assertMatch({true, _}, {lists:all(fun({K, V}) -> is_atom(K) andalso is_integer(V) end, Info), Info})
     || {_, Info} <- Told].

same_twice([A, A | Rest]) -> same_twice(Rest);
same_twice(Rest) -> ?assertEqual([], lists:sublist(Rest, 2)).

%%--------------------------------------------------------------------------
%% Counting calls

count_exact(_Config) ->
    N = 20000,
    1 = erlang:trace_pattern({?MODULE, counted, 1}, true, [call_count]),
    in_parallel(4 * schedulers(), fun() -> repeat(N, fun() -> ?MODULE:counted(1) end) end),
    ?assertEqual({call_count, 4 * schedulers() * N}, erlang:trace_info({?MODULE, counted, 1}, call_count)).

%% Counts restart from zero, and are never negative.
count_restart(_Config) ->
    1 = erlang:trace_pattern({?MODULE, counted, 1}, true, [call_count]),
    Workers = load_of(erts_worker:processors(), fun() -> ?MODULE:counted(1) end),
    repeat(200, fun() ->
                        1 = erlang:trace_pattern({?MODULE, counted, 1}, restart, [call_count]),
                        {call_count, A} = erlang:trace_info({?MODULE, counted, 1}, call_count),
                        {call_count, B} = erlang:trace_info({?MODULE, counted, 1}, call_count),
                        ?assert(0 =< A andalso A =< B andalso B < 1 bsl 50)
                end),
    stop_load(Workers),
    1 = erlang:trace_pattern({?MODULE, counted, 1}, restart, [call_count]),
    ?assertEqual({call_count, 0}, erlang:trace_info({?MODULE, counted, 1}, call_count)),
    ?MODULE:counted(1),
    ?assertEqual({call_count, 1}, erlang:trace_info({?MODULE, counted, 1}, call_count)).

count_pause(_Config) ->
    1 = erlang:trace_pattern({?MODULE, counted, 1}, true, [call_count]),
    repeat(10, fun() -> ?MODULE:counted(1) end),
    1 = erlang:trace_pattern({?MODULE, counted, 1}, pause, [call_count]),
    in_parallel(schedulers(), fun() -> ?MODULE:counted(1) end),
    ?assertEqual({call_count, 10}, erlang:trace_info({?MODULE, counted, 1}, call_count)),
    1 = erlang:trace_pattern({?MODULE, counted, 1}, true, [call_count]),
    ?assertEqual({call_count, 0}, erlang:trace_info({?MODULE, counted, 1}, call_count)).

%% More counters than in one block, set and cleared in any order: each counts only its own
%% function, from zero.
count_many(_Config) ->
    M = count_many_mod,
    Fs = load_functions(M, 300),
    lists:foldl(
      fun(Round, On) ->
              [1 = erlang:trace_pattern({M, F, 0}, true, [call_count]) || F <- Fs -- On],
              in_parallel(schedulers(), fun() -> [M:F() || {I, F} <- lists:enumerate(Fs), _ <- lists:seq(1, I)] end),
              [?assertEqual({F, {call_count, count_of(lists:member(F, On), I)}},
                            {F, erlang:trace_info({M, F, 0}, call_count)})
               || {I, F} <- lists:enumerate(Fs)],
              Off = [F || F <- Fs, erlang:phash2({Round, F}, 3) > 0],
              [1 = erlang:trace_pattern({M, F, 0}, false, [call_count]) || F <- Off],
              [?assertEqual({F, {call_count, false}}, {F, erlang:trace_info({M, F, 0}, call_count)}) || F <- Off],
              %% The others restart in the next round.
              [1 = erlang:trace_pattern({M, F, 0}, restart, [call_count]) || F <- Fs -- Off],
              Fs -- Off
      end, [], lists:seq(1, 5)),
    true = code:delete(M),
    code:purge(M).

count_of(_Kept, I) -> I * schedulers().

%% A process that reads while others call sees no call counted twice, and never a decreasing
%% count.
count_grows(_Config) ->
    1 = erlang:trace_pattern({?MODULE, counted, 1}, true, [call_count]),
    Workers = load_of(erts_worker:processors(), fun() -> ?MODULE:counted(1) end),
    lists:foldl(fun(_, Last) ->
                        {call_count, Now} = erlang:trace_info({?MODULE, counted, 1}, call_count),
                        ?assert(Now >= Last),
                        Now
                end, 0, lists:seq(1, 2000)),
    stop_load(Workers).

%% Counters use memory only for the schedulers that have counted calls of these functions or of
%% their neighbours. The numbers are those of the first and the last scheduler whose words are
%% in the same place, and of the very last scheduler.
count_memory(_Config) ->
    N = 1280,
    Schedulers = [1, 64, 65, 129],
    {ok, Peer, _} = peer:start_link(#{connection => standard_io, wait_boot => 60000,
                                      args => ["+S", "129:129", "+Mis", "true" | erts_reload_work:emulator_flags()]}),
    {Set, Counted} =
        try peer:call(Peer, ?MODULE, memory_of_counters, [{N, Schedulers}], 60000)
        after peer:stop(Peer)
        end,
    ct:log("~p functions: ~p bytes when set, ~p after calls on each of schedulers ~w~n",
           [N, Set, Counted, Schedulers]),
    %% With 8 bytes for each scheduler, each counter would need 1040.
    ?assert(Set < 400 * N),
    Grown = [B - A || {A, B} <- lists:zip([Set | lists:droplast(Counted)], Counted)],
    [?assert(G >= 8 * N andalso G =< 24 * N) || G <- Grown].

memory_of_counters({N, Schedulers}) ->
    M = count_memory_mod,
    Fs = load_functions(M, N),
    Before = bytes_of_breakpoints(),
    Traced = erlang:trace_pattern({M, '_', '_'}, true, [call_count]),
    Set = bytes_of_breakpoints() - Before,
    Counted = [begin
                   {_, Ref} = spawn_opt(fun() -> [M:F() || F <- Fs] end, [monitor, {scheduler, S}]),
                   receive {'DOWN', Ref, process, _, normal} -> ok end,
                   bytes_of_breakpoints() - Before
               end || S <- Schedulers],
    [{call_count, Calls} = erlang:trace_info({M, F, 0}, call_count) || F <- Fs, Calls <- [length(Schedulers)]],
    Traced = erlang:trace_pattern({M, '_', '_'}, false, [call_count]),
    wait_for_free(Before + N),
    {Set, Counted}.

%% Breakpoints are freed some time after they were cleared.
wait_for_free(Most) ->
    case bytes_of_breakpoints() < Most of
        true -> ok;
        false -> erlang:yield(), wait_for_free(Most)
    end.

bytes_of_breakpoints() ->
    {bpd, Infos} = lists:keyfind(bpd, 1, instrument:memory_status(types)),
    {sizes, Bytes, _, _} = lists:keyfind(sizes, 1, Infos),
    Bytes.

%% Loads a module with functions f1 to fN.
load_functions(M, N) ->
    Fs = [list_to_atom("f" ++ integer_to_list(I)) || I <- lists:seq(1, N)],
    {ok, M, Bin} = compile:forms([{attribute, 1, module, M}, {attribute, 1, export, [{F, 0} || F <- Fs]}
                                  | [{function, 1, F, 0, [{clause, 1, [], [], [{atom, 1, F}]}]} || F <- Fs]], []),
    {module, M} = code:load_binary(M, "", Bin),
    Fs.

%%--------------------------------------------------------------------------
%% Traced functions

f(X) -> X.
g(X, _) -> [X, f(X)].
counted(X) -> X.
quits(Reason) -> exit(Reason).

%%--------------------------------------------------------------------------
%% Helpers

is_patched() ->
    try erlang:system_info(kymo_series) of
        _ -> true
    catch
        error:badarg -> false
    end.

is_debug() ->
    erlang:system_info(build_type) =:= debug.

schedulers() ->
    erlang:system_info(schedulers_online).

load_tracer(M, Version, Config) ->
    load_code(M, proplists:get_value(Version, ?config(versions, Config))).

load_code(M, Bin) ->
    {module, M} = code:load_binary(M, "", Bin),
    code:purge(M),
    ok.

%% Traces a process; this process receives the events.
trace(Tracee, Flags) ->
    1 = erlang:trace(Tracee, true, [{tracer, ?TRACER, {trace, trace, self(), none}} | Flags]),
    ok.

%% The same, and this process receives the questions, too.
trace_asking(Tracee, Flags) ->
    1 = erlang:trace(Tracee, true, [{tracer, ?TRACER, {trace, trace, self(), self()}} | Flags]),
    ok.

repeat(0, _) -> ok;
repeat(N, Fun) -> Fun(), repeat(N - 1, Fun).

in_parallel(N, Fun) ->
    Refs = [element(2, spawn_opt(Fun, [monitor, {scheduler, I rem schedulers() + 1}])) || I <- lists:seq(1, N)],
    [receive {'DOWN', Ref, process, _, Reason} -> ?assertEqual(normal, Reason) end || Ref <- Refs],
    ok.

%% Processes that do something repeatedly, and answer in between, on schedulers that are far from each
%% other. There are about as many as can run: more would only wait for each other.
load_of(N, Fun) ->
    Distance = max(1, schedulers() div N),
    [spawn_opt(fun() -> load_loop(Fun) end, [link, {scheduler, I * Distance rem schedulers() + 1}]) || I <- lists:seq(1, N)].

load_loop(Fun) ->
    Fun(),
    receive
        {ask, From} -> Fun(), From ! {answer, self()}, load_loop(Fun);
        stop -> ok
    after 0 -> load_loop(Fun)
    end.

ask(Worker) ->
    Worker ! {ask, self()},
    receive {answer, Worker} -> done end.

stop_load(Workers) ->
    [stop(W) || W <- Workers],
    ok.

%% Produces each kind of event.
everything() ->
    X = ?MODULE:f([1, 2, 3]),
    Self = self(),
    Self ! {x, X},
    receive {x, X} -> ok end,
    _ = catch ?MODULE:f(a) + 1,
    garbage_collect(Self, [{type, minor}]),
    erlang:yield().

%%--------------------------------------------------------------------------
%% Breakpoints that a process runs into which is not traced

%% A breakpoint of a session that traces other processes does nothing. It does not hide what
%% another session does in all processes: counting, meta tracing and the debugger's breakpoints.
breakpoints_of_others(_Config) ->
    case code:ensure_loaded(trace) of
        {error, _} -> {skip, "this runtime has no trace sessions"};
        _ -> [breakpoints_of_others(First, Second) || {First, Second} <- [{calls, all}, {all, calls}]]
    end.

breakpoints_of_others(First, Second) ->
    MFA = {?MODULE, counted, 1},
    Traced = caller(),
    Other = caller(),
    Sessions = #{calls := Calls, all := All} =
        maps:from_list([{Name, trace:session_create(Name, self(), [])} || Name <- [First, Second]]),
    1 = trace:process(Calls, Traced, true, [call]),
    Set = #{calls => fun() -> 1 = trace:function(Calls, MFA, true, [local]) end,
            all => fun() -> 1 = trace:function(All, MFA, true, [call_count]) end},
    [(maps:get(Name, Set))() || Name <- [First, Second]],
    call(Other, 100),
    ?assertEqual({call_count, 100}, trace:info(All, MFA, call_count)),
    ?assertEqual([], events_of(Other)),
    1 = trace:function(All, MFA, pause, [call_count]),
    call(Other, 1),
    ?assertEqual({call_count, 100}, trace:info(All, MFA, call_count)),
    1 = trace:function(All, MFA, false, [call_count]),
    1 = trace:function(All, MFA, true, [meta]),
    call(Other, 3),
    ?assertEqual(lists:duplicate(3, meta), events_of(Other)),
    call(Traced, 1),
    ?assertEqual([call, meta], lists:sort(events_of(Traced))),
    1 = trace:function(All, MFA, false, [meta]),
    call(Other, 1),
    ?assertEqual([], events_of(Other)),
    true = trace:session_destroy(All),
    1 = erts_debug:breakpoint(MFA, true),
    try
        ?assertEqual({broken, [1]}, call(Other, 1)),
        ?assertEqual([], events_of(Other))
    after
        1 = erts_debug:breakpoint(MFA, false),
        true = trace:session_destroy(map_get(calls, Sessions))
    end,
    ?assertEqual(1, call(Other, 1)),
    [exit(P, kill) || P <- [Traced, Other]].

%% A process that makes calls, with the error handler that the debugger's breakpoints call.
caller() ->
    spawn(fun() -> process_flag(error_handler, ?MODULE), calls_made() end).

calls_made() ->
    receive
        {From, Ref, N} ->
            From ! {Ref, lists:last([?MODULE:counted(I) || I <- lists:seq(1, N)])},
            calls_made()
    end.

call(Pid, N) ->
    Ref = make_ref(),
    Pid ! {self(), Ref, N},
    receive {Ref, Answer} -> Answer after 10000 -> error(timeout) end.

breakpoint(?MODULE, counted, Args) -> {broken, Args}.

%% Which events of the process have arrived, after all of them have.
events_of(Pid) ->
    Ref = erlang:trace_delivered(Pid),
    receive {trace_delivered, Pid, Ref} -> ok end,
    events_of(Pid, []).

events_of(Pid, Told) ->
    receive
        {trace, Pid, call, {?MODULE, counted, _}} -> events_of(Pid, [call | Told]);
        {trace_ts, Pid, call, {?MODULE, counted, _}, _} -> events_of(Pid, [meta | Told])
    after 0 -> Told
    end.
