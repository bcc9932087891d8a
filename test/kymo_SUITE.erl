%% SPDX-License-Identifier: Apache-2.0
%%
%% The API. Every case runs in the global tracing and, on runtimes with trace sessions, also in
%% a session. Each case must leave the node as it found it: processes, ports, tables, open and
%% mapped files, trace flags, breakpoints, sessions.
-module(kymo_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").
-include_lib("kernel/include/file.hrl").

-compile(export_all).
-compile(nowarn_export_all).

-import(kymo_cli, [events/1, until/1]).

all() ->
    Session =
        case lists:member(session, kymo_tracing:modes()) of
            true -> {group, session};
            false -> no_sessions
        end,
    [{group, global}, Session, cli_path].

groups() ->
    Common = [
        start_stop, start_errors, bad_handles, error_texts, named,
        owner_dies, owner_none, owner_given, server_killed, janitor_killed, both_killed_in_turn,
        killed_while_setting, spawn_storm, system_tracer_cleared,
        calls, calls_arguments, global_calls, return_to, returns, text_match_spec, messages_and_senders,
        senders_off, every_event, new_processes, existing_processes, registered_names, ports,
        nothing_or_all, spec_errors, untrace_all, untrace_parts, untrace_new, reload,
        reload_without_gap, load_first, pause_resume,
        overlap_any_order, overlap_of_calls, overlap_scopes, untrace_overlap, untrace_part_of_pattern,
        untraced_stays, too_many_patterns, too_many_by_load,
        limit_ends, limit_gives_back, stop_gives_back, lets_files_go, listed, listed_while_ending, remembers_some, recorders_killed,
        taken_functions, taken_by_reset, taken_flags, reload_is_not_taken, reload_while_setting, taken_while_flying,
        trace_error_leaves_nothing,
        snapshot, process_names, names_within, process_labels, huge_labels, many_processes,
        record, record_raises, record_errors, application, own_processes, several
    ],
    [
        {global, [],
            [tracer_purged | Common] ++
                [
                    held_process, held_function, held_calls, held_receive, held_new, held_existing, others_untouched,
                    replaced_by_other
                ]},
        {session, [], [tracer_purged | Common] ++ [others_untouched, both_at_once, one_commit, taken_session]}
    ].

init_per_suite(Config) ->
    %% Start or load now what is started or loaded on first use, so that it does not look like
    %% something a recorder has left behind.
    Modules = [kymo_tracer, kymo, kymo_server, kymo_janitor, kymo_app, kymo_sup, dbg],
    [{module, _} = code:ensure_loaded(M) || M <- Modules],
    _ = kymo_recorders:ensure(),
    Config.

end_per_suite(_) ->
    ok.

init_per_group(Mode, Config) ->
    [{mode, Mode} | Config].

end_per_group(_, _) ->
    ok.

init_per_testcase(Case, Config) ->
    Unique = integer_to_list(erlang:unique_integer([positive])),
    Dir = filename:join(?config(priv_dir, Config), atom_to_list(Case) ++ Unique),
    ok = file:make_dir(Dir),
    [{dir, Dir}, {before, node_state(Dir)} | Config].

end_per_testcase(_, Config) ->
    case ?config(tc_status, Config) of
        ok -> nothing_left(Config);
        _ -> ok
    end.

nothing_left(Config) ->
    Before = ?config(before, Config),
    Dir = ?config(dir, Config),
    case until(fun() -> node_state(Dir) =:= Before end) of
        true ->
            ok = file:del_dir_r(Dir);
        false ->
            Now = node_state(Dir),
            {fail,
                {left_behind, [
                    {Key, {new, New -- Old}, {gone, Old -- New}}
                 || {Key, New} <- maps:to_list(Now), Old <- [maps:get(Key, Before)], New =/= Old
                ]}}
    end.

%% Everything that tracing could leave behind, as sorted lists.
node_state(Dir) ->
    #{
        processes => [
            {P, Call}
         || P <- lists:sort(processes() -- [self(), whereis(kymo_recorders)]), {_, Call} <- [process_info(P, initial_call)]
        ],
        ports => lists:sort(erlang:ports()),
        tables => lists:sort(ets:all()),
        files => files(Dir),
        flags => flags(),
        breakpoints => breakpoints(),
        'receive' => [erlang:trace_info('receive', match_spec), erlang:trace_info(send, match_spec)],
        system_tracer => [seq_trace:get_system_tracer()],
        sessions => sessions()
    }.

files(Dir) ->
    {ok, Fds} = file:list_dir("/proc/self/fd"),
    Links = [L || Fd <- Fds, {ok, L} <- [file:read_link("/proc/self/fd/" ++ Fd)]],
    {ok, Maps} = file:read_file("/proc/self/maps"),
    Lines = string:split(binary_to_list(Maps), "\n", all),
    lists:sort([L || L <- Links ++ Lines, string:find(L, Dir) =/= nomatch]).

flags() ->
    [
        {P, F}
     || P <- [new_processes, new_ports | lists:sort(processes() ++ erlang:ports())],
        {flags, F} <- [erlang:trace_info(P, flags)],
        F =/= []
    ].

breakpoints() ->
    lists:sort([
        {M, F, A}
     || {M, _} <- code:all_loaded(),
        {F, A} <- erlang:get_module_info(M, functions),
        {all, Set} <- [erlang:trace_info({M, F, A}, all)],
        Set =/= false,
        Set =/= undefined
    ]).

sessions() ->
    case lists:member(session, kymo_tracing:modes()) of
        true -> lists:sort(apply(trace, session_info, [all]));
        false -> []
    end.

%% ---- lifecycle ------------------------------------------------------------------

start_stop(Config) ->
    Dir = sub(Config, rec),
    R = start(Config, #{dir => Dir}),
    #{state := active, tracing := none, events := 0} = kymo:info(R),
    {kymo_tracer, State} = kymo:tracer(R),
    true = is_reference(State),
    {ok, #{state := closed, reason := stop, tracing := none}} = kymo:stop(R),
    {error, already_stopped} = kymo:stop(R),
    {error, already_stopped} = kymo:trace(R, #{events => [procs]}),
    {error, already_stopped} = kymo:untrace(R),
    {error, already_stopped} = kymo:untrace(R, #{events => [procs]}),
    {error, already_stopped} = kymo:pause(R),
    {error, already_stopped} = kymo:resume(R),
    #{state := closed, tracing := none} = kymo:info(R),
    {error, already_stopped} = kymo:snapshot(R, sub(Config, snap)),
    {error, eexist} = kymo:start(#{dir => Dir}).

start_errors(Config) ->
    Dir = sub(Config, rec),
    [
        ?assertEqual({Options, {error, Error}}, {Options, kymo:start(maps:merge(#{dir => Dir}, Options))})
     || {Options, Error} <- [
            {#{owner => me}, {bad_option, owner, me}},
            {#{name => "n"}, {bad_option, name, "n"}},
            {#{names => -1}, {bad_option, names, -1}},
            {#{tracing => wild}, {bad_option, tracing, wild}},
            {#{no_such => 1}, {unknown_option, no_such}},
            {#{policy => keep}, {bad_option, policy, keep}},
            {#{dir => 1}, {bad_option, dir, 1}}
        ]
    ],
    No = sub(Config, "no"),
    {error, {missing_folder, No}} = kymo:start(#{dir => sub(Config, "no/such/folder")}),
    %% When start/1 fails, it also removes the parent folder that it has created.
    {error, {bad_option, policy, keep}} = kymo:start(#{dir => sub(Config, "no/such"), policy => keep}),
    %% Unknown options are reported first.
    {error, {unknown_option, dirr}} = kymo:start(#{dirr => Dir}),
    {error, {unknown_option, dirr}} = kymo:start(#{dirr => Dir, names => -1, policy => keep}),
    %% One missing parent folder is created, with the same private mode as the recording.
    R = start(Config, #{dir => sub(Config, "parent/rec")}),
    {ok, _} = kymo:stop(R),
    {ok, #file_info{mode = Mode}} = file:read_file_info(sub(Config, "parent")),
    8#700 = Mode band 8#777,
    ok = file:del_dir_r(sub(Config, "parent")),
    File = sub(Config, file),
    ok = file:write_file(File, "x"),
    {error, Why} = kymo:start(#{dir => File}),
    true = lists:member(Why, [enotdir, eexist]),
    %% None of these calls has created anything.
    {ok, ["file"]} = file:list_dir(?config(dir, Config)).

bad_handles(Config) ->
    R = start(Config),
    Dir = sub(Config, snap),
    Wrong = [self(), 1, "x", no_such_recorder, undefined, {kymo_recorder, 1, 2, "x"}, {kymo_tracer, make_ref()}],
    [
        bad_argument(1, F, [H | Args])
     || H <- Wrong,
        {F, Args} <- [
            {stop, []}, {pause, []}, {resume, []}, {info, []}, {snapshot, [Dir]}, {trace, [#{}]},
            {untrace, []}, {untrace, [#{}]}, {tracer, []}
        ]
    ],
    bad_argument(1, start, [[{dir, Dir}]]),
    bad_argument(2, record, [Dir, [], fun() -> ok end]),
    bad_argument(3, record, [Dir, #{}, fun(_) -> ok end]),
    %% A forged handle: its process is not a recorder.
    {kymo_recorder, _, State, Rec} = R,
    Other = tracee(),
    run(Other, fun() -> ok end),
    gone(Other),
    {error, already_stopped} = kymo:stop({kymo_recorder, Other, State, Rec}),
    {ok, _} = kymo:stop(R).

%% Uses the runtime's error_info to find out which argument was reported as wrong.
bad_argument(N, Function, Args) ->
    try apply(kymo, Function, Args) of
        Value -> error({no_exception, Function, Args, Value})
    catch
        error:badarg:Stack ->
            [{kymo, Function, _, Info} = Top | _] = Stack,
            #{module := kymo} = proplists:get_value(error_info, Info),
            #{N := Text} = kymo:format_error(badarg, [Top]),
            true = is_list(Text) andalso Text =/= ""
    end.

error_texts(Config) ->
    R = start(Config, #{dir => sub(Config, texts)}),
    [
        ?assertEqual({Call, Text}, {Call, lists:flatten(kymo:format_error(Reason))})
     || {Call, {error, Reason}, Text} <- [
            {start, kymo:start(#{dir => "x", policy => foo}), "policy is foo; allowed: overwrite, discard"},
            {start, kymo:start(#{dir => "x", names => -1}), "names is -1; allowed: 0 or more processes"},
            {start, kymo:start(#{dir => "x", file_age => 0}), "file_age is 0; allowed: 1 to 1000000000 seconds"},
            {start, kymo:start(#{dirr => "x"}), "there is no option dirr; did you mean dir?"},
            {start, kymo:start(#{tracin => x, dir => "x"}), "there is no option tracin; did you mean tracing?"},
            {start, kymo:start(#{whatever => x}), "there is no option whatever"},
            {start, kymo:start(#{1 => x}), "there is no option 1"},
            {trace, kymo:trace(R, #{functions => "lists", scope => here}), "scope is here; allowed: local, global"},
            {trace, kymo:trace(R, #{event => [procs]}), "there is no option event; did you mean events?"},
            {record, kymo:record("x", #{function => "lists"}, fun() -> never end),
                "there is no option function; did you mean functions?"}
        ]
    ],
    "events is sneezes; allowed: a list of calls, " ++ Rest =
        lists:flatten(kymo:format_error(element(2, kymo:trace(R, #{events => [sneezes]})))),
    [_ | _] = string:find(Rest, "set_on_first_link"),
    {ok, _} = kymo:stop(R),
    [
        ?assertMatch({_, [_ | _]}, {Reason, lists:flatten(kymo:format_error(Reason))})
     || Reason <- [
            {bad_option, a, 1}, {unknown_option, b}, {missing_option, dir}, {no_process, c}, {no_port, d},
            {already_traced, self()}, {already_traced, {lists, map, 2}}, {calls_traced, self()}, {already_started, n},
            already_stopped, ended, too_many_recorders, eexist, enospc, {some, thing},
            {missing_folder, "/no"}, {no_module, m}, {too_many_patterns, {m, f, 1}}, {no_library, {noexec, "f", "t"}},
            {no_library, {missing, "f", "t"}}, {no_library, {unusable, "f", "t"}}, {no_library, {refused, "f", "t"}}
        ]
    ],
    "another tracer has set lists:map/2: end it first (kymo:list() names recorders)" =
        lists:flatten(kymo:format_error({already_traced, {lists, map, 2}})).

named(Config) ->
    R = start(Config, #{dir => sub(Config, rec), name => flight}),
    {error, {already_started, flight}} = kymo:start(#{dir => sub(Config, rec2), name => flight}),
    %% A recorder's name does not conflict with a registered process of the same name.
    true = register(flight, self()),
    {ok, _} = kymo:trace(flight, #{processes => [self()], events => [procs]}),
    true = kymo:tracer(R) =:= kymo:tracer(flight),
    ok = kymo:untrace(flight),
    true = unregister(flight),
    {ok, _} = kymo:stop(flight),
    {error, already_stopped} = kymo:stop(flight),
    {error, already_stopped} = kymo:trace(flight, #{events => [procs]}),
    #{state := closed, reason := stop} = kymo:info(flight),
    bad_argument(1, tracer, [flight]),
    bad_argument(1, stop, [flight_2]),
    %% The name is free again.
    R2 = start(Config, #{dir => sub(Config, rec3), name => flight}),
    {ok, _} = kymo:stop(R2).

owner_dies(Config) ->
    Self = self(),
    {Owner, Monitor} = spawn_monitor(fun() ->
        R = start(Config),
        {ok, _} = trace_all(R),
        Self ! {recorder, R},
        receive
            never -> ok
        end
    end),
    R = receive {recorder, Recorder} -> Recorder end,
    Watched = watch(R),
    exit(Owner, kill),
    receive {'DOWN', Monitor, process, Owner, killed} -> ok end,
    gone(Watched),
    {error, already_stopped} = kymo:stop(R),
    #{state := closed, reason := owner, taken := 0} = kymo:info(R).

owner_none(Config) ->
    Self = self(),
    {_, Monitor} = spawn_monitor(fun() ->
        Self ! {recorder, start(Config, #{dir => sub(Config, rec), owner => none})}
    end),
    R = receive {recorder, Recorder} -> Recorder end,
    receive {'DOWN', Monitor, process, _, normal} -> ok end,
    #{state := active} = kymo:info(R),
    {ok, _} = kymo:stop(R).

owner_given(Config) ->
    Owner = tracee(),
    R = start(Config, #{dir => sub(Config, rec), owner => Owner}),
    {ok, _} = trace_all(R),
    Watched = watch(R),
    gone(Owner),
    gone(Watched).

server_killed(Config) ->
    R = start(Config),
    {ok, _} = trace_all(R),
    [Server | _] = Watched = watch(R),
    exit(element(1, Server), kill),
    gone(Watched),
    {error, already_stopped} = kymo:stop(R),
    #{state := closed} = kymo:info(R).

janitor_killed(Config) ->
    R = start(Config),
    {ok, _} = trace_all(R),
    [_, {Janitor, Monitor}] = watch(R),
    exit(Janitor, kill),
    receive {'DOWN', Monitor, process, Janitor, killed} -> ok end,
    #{state := active} = kymo:info(R),
    {ok, #{functions := 1}} = kymo:trace(R, #{functions => "lists:seq/2"}),
    {ok, #{reason := stop}} = kymo:stop(R).

both_killed_in_turn(Config) ->
    R = start(Config),
    {ok, _} = trace_all(R),
    [_, {Janitor, Monitor}] = watch(R),
    exit(Janitor, kill),
    receive {'DOWN', Monitor, process, Janitor, killed} -> ok end,
    %% The server's answer shows that it has processed the exit.
    _ = kymo:info(R),
    [{Server, _} | _] = Watched = watch(R),
    exit(Server, kill),
    gone(Watched).

%% The recorder's process is killed at a random moment while it sets many patterns.
killed_while_setting(Config) ->
    [
        begin
            R = start(Config, #{dir => sub(Config, N)}),
            [{Server, _} | _] = Watched = watch(R),
            {_, Caller} = spawn_monitor(fun() ->
                kymo:trace(R, #{
                    functions => ["lists:_/_", "_:handle_call/3"], events => [messages, procs, set_on_spawn]
                })
            end),
            [erlang:yield() || _ <- lists:seq(1, N * 3)],
            exit(Server, kill),
            receive {'DOWN', Caller, process, _, _} -> ok end,
            gone(Watched),
            case breakpoints() of
                [] -> ok;
                Left -> error({left, N, Left})
            end
        end
     || N <- lists:seq(1, 25)
    ].

%% Tracees spawn more tracees while trace flags are being cleared.
spawn_storm(Config) ->
    R = start(Config),
    Self = self(),
    Storm = spawn(fun() -> storm(Self, 20000) end),
    {ok, _} = kymo:trace(R, #{processes => [Storm], events => [procs, set_on_spawn]}),
    Storm ! go,
    receive storming -> ok end,
    {ok, #{events := Events}} = kymo:stop(R),
    true = Events > 0,
    [] = flags(),
    receive over -> ok end.

storm(Parent, 20000) ->
    receive go -> ok end,
    Parent ! storming,
    storm_on(Parent, 20000).

storm_on(Parent, 0) ->
    Parent ! over;
storm_on(Parent, N) ->
    spawn(fun() -> storm_on(Parent, N - 1) end).

system_tracer_cleared(Config) ->
    R = start(Config),
    Tracer = kymo:tracer(R),
    seq_trace:set_system_tracer(Tracer),
    Tracer = seq_trace:get_system_tracer(),
    {ok, _} = kymo:trace(R, #{processes => [self()], events => [procs]}),
    {ok, _} = kymo:stop(R),
    false = seq_trace:get_system_tracer(),
    %% The same with nothing traced.
    R2 = start(Config, #{dir => sub(Config, rec2)}),
    seq_trace:set_system_tracer(kymo:tracer(R2)),
    {ok, _} = kymo:stop(R2),
    false = seq_trace:get_system_tracer().

%% ---- what is recorded --------------------------------------------------------------

calls(Config) ->
    {P, R} = traced(Config, #{}, #{functions => "kymo_SUITE:f/1"}),
    run(P, fun() -> ?MODULE:f(1), f(2), g(3) end),
    Events = stop_and_read(Config, R),
    [{trace, P, call, {?MODULE, f, 1}}, {trace, P, call, {?MODULE, f, 1}}] = Events,
    gone(P).

calls_arguments(Config) ->
    {P, R} = traced(Config, #{calls => arguments, content_bytes => 200}, #{
        functions => [{?MODULE, f, 1}, {?MODULE, g}]
    }),
    run(P, fun() -> f([a, #{b => 1}]) end),
    [{trace, P, call, {?MODULE, f, [[a, #{b := 1}]]}}, {trace, P, call, {?MODULE, g, [[a, #{b := 1}]]}}] =
        stop_and_read(Config, R),
    gone(P).

global_calls(Config) ->
    {P, R} = traced(Config, #{}, #{functions => "kymo_SUITE:f/1", scope => global}),
    run(P, fun() -> f(1), ?MODULE:f(2) end),
    [{trace, P, call, {?MODULE, f, 1}}] = stop_and_read(Config, R),
    gone(P).

return_to(Config) ->
    {P, R} = traced(Config, #{}, #{functions => "kymo_SUITE:f/1", events => [return_to]}),
    run(P, fun returning/0),
    [{trace, P, call, {?MODULE, f, 1}}, {trace, P, return_to, {?MODULE, returning, 0}}] =
        stop_and_read(Config, R),
    gone(P).

returning() ->
    f(1),
    ok.

returns(Config) ->
    {P, R} = traced(Config, #{returns => values, content_bytes => 200}, #{
        functions => ["kymo_SUITE:f/1", "kymo_SUITE:boom"], returns => true
    }),
    run(P, fun() -> f(1), catch boom(because), ok end),
    [
        {trace, P, call, {?MODULE, f, 1}},
        {trace, P, return_from, {?MODULE, f, 1}, {1}},
        {trace, P, call, {?MODULE, boom, 1}},
        {trace, P, exception_from, {?MODULE, boom, 1}, {throw, because}}
    ] = stop_and_read(Config, R),
    gone(P).

text_match_spec(Config) ->
    {P, R} = traced(Config, #{calls => arguments, content_bytes => 200}, #{
        functions => "kymo_SUITE:f(X) when X > 5 -> return"
    }),
    run(P, fun() -> [f(N) || N <- [1, 6, 5, 7]] end),
    [
        {trace, P, call, {?MODULE, f, [6]}},
        {trace, P, return_from, {?MODULE, f, 1}, _},
        {trace, P, call, {?MODULE, f, [7]}},
        {trace, P, return_from, {?MODULE, f, 1}, _}
    ] = stop_and_read(Config, R),
    gone(P).

messages_and_senders(Config) ->
    R = start(Config, #{dir => sub(Config, rec), messages => contents, content_bytes => 200}),
    P = tracee(),
    Q = tracee(),
    {ok, #{processes := 2}} = kymo:trace(R, #{processes => [P, Q], events => [messages]}),
    run(P, fun() -> Q ! {hello, 1} end),
    {hello, 1} = asked(Q),
    Events = stop_and_read(Config, R),
    [{trace, P, send, {hello, 1}, Q}] = [E || {trace, _, send, {hello, _}, _} = E <- Events],
    %% The match spec result is the sender.
    [{trace, Q, 'receive', {hello, 1}, P}] = received(Events, {hello, 1}),
    gone(P),
    gone(Q).

senders_off(Config) ->
    R = start(Config, #{dir => sub(Config, rec), messages => contents, content_bytes => 200}),
    P = tracee(),
    {ok, _} = kymo:trace(R, #{processes => [P], events => ['receive'], senders => false}),
    true = erlang:trace_info('receive', match_spec) =:= {match_spec, true},
    P ! {hello, 2},
    {hello, 2} = asked(P),
    Events = stop_and_read(Config, R),
    [{trace, P, 'receive', {hello, 2}}] = received(Events, {hello, 2}),
    gone(P).

received(Events, Message) ->
    [E || E <- Events, element(3, E) =:= 'receive', element(4, E) =:= Message].

%% Each event that the specification allows is accepted and records events of its kind.
every_event(Config) ->
    {P, R} = traced(Config, #{}, #{
        functions => "kymo_SUITE:f/1",
        events => [
            calls, return_to, messages, send, 'receive', procs, ports, running, running_procs, running_ports,
            exiting, garbage_collection, set_on_spawn, set_on_first_spawn, set_on_link, set_on_first_link
        ]
    }),
    run(P, fun() ->
        f(1),
        garbage_collect(),
        {_, M} = spawn_monitor(fun() -> f(2) end),
        receive {'DOWN', M, _, _, _} -> ok end
    end),
    Events = stop_and_read(Config, R),
    Tags = lists:usort([element(3, E) || E <- Events]),
    Expected = [
        call, return_to, send, 'receive', spawn, spawned, exit, in, out, gc_major_start, gc_major_end
    ],
    [] = Expected -- Tags,
    %% set_on_spawn: the child's call is recorded, too.
    2 = length(lists:usort([element(2, E) || E <- Events, element(3, E) =:= call])),
    gone(P).

new_processes(Config) ->
    R = start(Config),
    Old = tracee(),
    {ok, #{processes := 0}} = kymo:trace(R, #{processes => new, functions => "kymo_SUITE:f/1"}),
    New = tracee(),
    run(Old, fun() -> f(1) end),
    run(New, fun() -> f(2) end),
    [{trace, New, call, {?MODULE, f, 1}}] = stop_and_read(Config, R),
    gone(Old),
    gone(New).

existing_processes(Config) ->
    R = start(Config),
    Old = tracee(),
    {ok, #{processes := N}} = kymo:trace(R, #{processes => existing, functions => "kymo_SUITE:f/1"}),
    true = N >= 1,
    New = tracee(),
    run(Old, fun() -> f(1) end),
    run(New, fun() -> f(2) end),
    [{trace, Old, call, {?MODULE, f, 1}}] = stop_and_read(Config, R),
    gone(Old),
    gone(New).

registered_names(Config) ->
    P = tracee(),
    register(kymo_some_name, P),
    R = start(Config),
    {ok, #{processes := 1, functions := 1}} =
        kymo:trace(R, #{processes => [kymo_some_name], functions => {?MODULE, f, 1}}),
    run(P, fun() -> f(1) end),
    [{trace, P, call, _}] = stop_and_read(Config, R),
    {error, {no_process, kymo_no_such_name}} =
        kymo:trace(R, #{processes => [kymo_no_such_name], events => [procs]}),
    Q = tracee(),
    register('Elixir.Kymo.SomeName', Q),
    Second = start(Config, #{dir => sub(Config, again)}),
    {ok, #{processes := 1}} = kymo:trace(Second, #{processes => ['Kymo.SomeName'], events => [procs]}),
    {ok, _} = kymo:stop(Second),
    gone(Q),
    gone(P).

ports(Config) ->
    R = start(Config),
    {ok, #{processes := 0}} = kymo:trace(R, #{processes => none, ports => new, events => [ports]}),
    {0, _} = kymo_cli:run(["--version"]),
    Events = stop_and_read(Config, R),
    [open, closed] = [
        element(3, E)
     || E <- Events, is_port(element(2, E)), lists:member(element(3, E), [open, closed])
    ].

%% ---- the specification ----------------------------------------------------------------

nothing_or_all(Config) ->
    R = start(Config),
    Dead = tracee(),
    gone(Dead),
    Closed = open_port({spawn_executable, "/bin/cat"}, []),
    true = port_close(Closed),
    P = tracee(),
    Clean = flags(),
    [
        begin
            ?assertEqual({Spec, {error, Error}}, {Spec, kymo:trace(R, Spec)}),
            ?assertEqual({Spec, [], Clean}, {Spec, breakpoints(), flags()})
        end
     || {Spec, Error} <- [
            {#{functions => ["lists:seq/2", "lists:no/2"]}, {no_functions, "lists:no/2"}},
            {#{functions => ["lists:seq/2"], processes => [P, Dead]}, {no_process, Dead}},
            {#{functions => ["lists:seq/2"], processes => [P, nobody]}, {no_process, nobody}},
            {#{events => [ports], ports => [nobody]}, {no_port, nobody}},
            {#{functions => ["lists:seq/2"], events => [ports], ports => [Closed]}, {no_port, Closed}},
            {#{functions => ["lists:seq/2", {a, b, c, d, e}]},
                {bad_pattern, {a, b, c, d, e}, none, "neither a text nor {Module, Function, Arity}"}}
        ]
    ],
    {ok, #{events := 0}} = kymo:stop(R),
    gone(P).

spec_errors(Config) ->
    R = start(Config),
    [
        ?assertEqual({Spec, {error, Error}}, {Spec, kymo:trace(R, Spec)})
     || {Spec, Error} <- [
            {[], {bad_option, trace, []}},
            {#{}, {missing_option, events}},
            {#{functions => []}, {missing_option, events}},
            {#{events => []}, {missing_option, events}},
            {#{event => [procs]}, {unknown_option, event}},
            {#{events => procs}, {bad_option, events, procs}},
            {#{events => [procs, sneezes]}, {bad_option, events, sneezes}},
            {#{events => [procs | x]}, {bad_option, events, [procs | x]}},
            {#{events => [procs], processes => some}, {bad_option, processes, some}},
            {#{events => [procs], processes => [1]}, {bad_option, processes, 1}},
            {#{events => [procs], processes => [self() | x]}, {bad_option, processes, [self() | x]}},
            {#{events => [ports], ports => self()}, {bad_option, ports, self()}},
            {#{events => [ports], ports => [self()]}, {bad_option, ports, self()}},
            {#{functions => 1}, {bad_option, functions, 1}},
            {#{functions => "lists", scope => here}, {bad_option, scope, here}},
            {#{functions => "lists", returns => yes}, {bad_option, returns, yes}},
            {#{events => [messages], senders => 1}, {bad_option, senders, 1}}
        ]
    ],
    {ok, _} = kymo:stop(R).

untrace_all(Config) ->
    {P, R} = traced(Config, #{}, #{functions => "kymo_SUITE:f/1", events => [procs, messages]}),
    run(P, fun() -> f(1) end),
    ok = kymo:untrace(R),
    ok = kymo:untrace(R),
    [] = flags(),
    [] = breakpoints(),
    #{events := Events, tracing := none} = kymo:info(R),
    true = Events > 0,
    run(P, fun() -> f(1) end),
    #{events := Events} = kymo:info(R),
    %% The same again.
    {ok, _} = kymo:trace(R, #{processes => [P], functions => "kymo_SUITE:f/1"}),
    run(P, fun() -> f(1) end),
    Again = Events + 1,
    {ok, #{events := Again}} = kymo:stop(R),
    gone(P).

untrace_parts(Config) ->
    {P, R} = traced(Config, #{}, #{functions => ["kymo_SUITE:f/1", "kymo_SUITE:g/1"]}),
    run(P, fun() -> f(1) end),
    #{events := 2} = kymo:info(R),
    ok = kymo:untrace(R, #{functions => "kymo_SUITE:g/1", processes => none}),
    run(P, fun() -> f(1) end),
    #{events := 3, tracing := #{functions := 1}} = kymo:info(R),
    ok = kymo:untrace(R, #{processes => [P], events => [calls]}),
    [] = flags(),
    run(P, fun() -> f(1) end),
    #{events := 3} = kymo:info(R),
    {ok, _} = kymo:stop(R),
    gone(P).

%% New processes keep the flags that are not removed.
untrace_new(Config) ->
    R = start(Config),
    {ok, _} = kymo:trace(R, #{processes => new, events => [procs, messages]}),
    ok = kymo:untrace(R, #{processes => new, events => [messages]}),
    P = spawn(fun() -> receive stop -> ok end end),
    P ! stop,
    ?assert(until(fun() -> maps:get(events, kymo:info(R)) > 0 end)),
    {ok, #{dir := Dir}} = kymo:stop(R),
    Tags = [element(3, E) || E <- events(binary_to_list(Dir)), element(2, E) =:= P],
    ?assert(lists:member(spawned, Tags)),
    ?assertEqual([], [T || T <- Tags, lists:member(T, [send, 'receive'])]).

%% Loading a module removes its breakpoints. kymo sets them again, also on functions that only
%% the new version has.
reload(Config) ->
    load_version(1),
    {P, R} = traced(Config, #{}, #{functions => "kymo_reloaded:_/_"}),
    run(P, fun() -> kymo_reloaded:version() end),
    #{events := 1} = kymo:info(R),
    load_version(2),
    true = until(fun() -> #{tracing := #{functions := N}} = kymo:info(R), N >= 4 end),
    run(P, fun() -> kymo_reloaded:version(), kymo_reloaded:added() end),
    {ok, #{events := 3}} = kymo:stop(R),
    gone(P),
    unload_version().

%% A runtime whose sessions keep their patterns leaves no gap.
reload_without_gap(Config) ->
    case proplists:get_value(mode, Config) =/= global andalso keeps_patterns() of
        true ->
            load_version(1),
            {P, R} = traced(Config, #{}, #{functions => "kymo_reloaded:version/0"}),
            [
                begin
                    load_version(1 + N rem 2),
                    run(P, fun() -> kymo_reloaded:version() end)
                end
             || N <- lists:seq(1, 200)
            ],
            {ok, #{events := 200}} = kymo:stop(R),
            gone(P),
            unload_version();
        false ->
            {skip, "patterns are forgotten when code is loaded"}
    end.

keeps_patterns() ->
    try trace:session_create(?MODULE, self(), [keep_patterns]) of
        Session -> trace:session_destroy(Session)
    catch
        error:_ -> false
    end.

%% A wildcard also matches modules that are loaded later.
load_first(Config) ->
    {P, R} = traced(Config, #{}, #{functions => ["_:version/0"]}),
    #{tracing := #{functions := Before}} = kymo:info(R),
    load_version(1),
    true = until(fun() -> #{tracing := #{functions := N}} = kymo:info(R), N > Before end),
    run(P, fun() -> kymo_reloaded:version() end),
    {ok, #{events := 1}} = kymo:stop(R),
    gone(P),
    unload_version().

load_version(N) ->
    Functions = [version | [added || N > 1]],
    Forms =
        [{attribute, 1, module, kymo_reloaded}, {attribute, 1, export, [{F, 0} || F <- Functions]}] ++
            [{function, 1, F, 0, [{clause, 1, [], [], [{integer, 1, N}]}]} || F <- Functions],
    {ok, kymo_reloaded, Code} = compile:forms(Forms),
    code:purge(kymo_reloaded),
    {module, kymo_reloaded} = code:load_binary(kymo_reloaded, "kymo_reloaded", Code).

unload_version() ->
    code:purge(kymo_reloaded),
    code:delete(kymo_reloaded),
    code:purge(kymo_reloaded).

pause_resume(Config) ->
    {P, R} = traced(Config, #{}, #{functions => "kymo_SUITE:f/1"}),
    run(P, fun() -> f(1) end),
    ok = kymo:pause(R),
    {error, already_paused} = kymo:pause(R),
    #{state := paused} = kymo:info(R),
    run(P, fun() -> f(1) end),
    ok = kymo:resume(R),
    {error, not_paused} = kymo:resume(R),
    run(P, fun() -> f(1) end),
    {ok, #{events := 2}} = kymo:stop(R),
    gone(P).

%% ---- overlapping patterns --------------------------------------------------------------

%% The order of the patterns does not matter, nor whether they are given in one call or in
%% several.
overlap_any_order(Config) ->
    Patterns = ["kymo_SUITE:f/1 -> return", "kymo_SUITE:_/_", "kymo_SUITE:f(X) when X > 5 -> caller"],
    Orders = [[A, B, C] || A <- Patterns, B <- Patterns -- [A], C <- Patterns -- [A, B]],
    Ways = [{N, O, How} || {N, O} <- lists:zip(lists:seq(1, 6), Orders), How <- [together, apart]],
    Expected = [{call, f}, {call, g}, {return_from, f}, {call_from, f}, {call, g}, {return_from, f}],
    [
        begin
            R = start(Config, #{dir => sub(Config, [atom_to_list(How), $0 + N])}),
            P = tracee(),
            Specs = case How of together -> [Order]; apart -> Order end,
            Results = [kymo:trace(R, #{processes => [P], functions => Some}) || Some <- Specs],
            true = lists:all(fun({ok, #{skipped := []}}) -> true; (_) -> false end, Results),
            All = length(?MODULE:module_info(functions)),
            %% A function that several patterns match is counted once.
            How =:= apart orelse ?assertMatch([{ok, #{functions := All}}], Results),
            ?assertMatch(#{tracing := #{functions := All}}, kymo:info(R)),
            run(P, fun() -> f(1), f(6) end),
            {ok, _} = kymo:stop(R),
            Events = [kind(E) || E <- events(sub(Config, [atom_to_list(How), $0 + N])), is_of(E, [f, g])],
            ?assertEqual({Order, How, Expected}, {Order, How, Events}),
            gone(P)
        end
     || {N, Order, How} <- Ways
    ].

is_of(Event, Functions) ->
    case element(4, Event) of
        {?MODULE, F, _} -> lists:member(F, Functions);
        _ -> false
    end.

kind({trace, _, call, {_, F, _}, _}) -> {call_from, F};
kind({trace, _, Tag, {_, F, _}}) -> {Tag, F};
kind({trace, _, Tag, {_, F, _}, _}) -> {Tag, F}.

%% Later calls add to earlier ones.
overlap_of_calls(Config) ->
    {P, R} = traced(Config, #{}, #{functions => "kymo_SUITE:f/1", returns => true}),
    {ok, _} = kymo:trace(R, #{processes => [P], functions => "kymo_SUITE:f/1"}),
    {ok, _} = kymo:trace(R, #{processes => [P], functions => {?MODULE, '_', '_', []}}),
    run(P, fun() -> f(1) end),
    [{call, f}, {call, g}, {return_from, f}] =
        [kind(E) || E <- stop_and_read(Config, R), is_of(E, [f, g])],
    gone(P).

%% If both scopes are requested, all calls are recorded. Each scope can be removed without the
%% other.
overlap_scopes(Config) ->
    P = tracee(),
    R = start(Config),
    Global = #{processes => [P], functions => "kymo_SUITE:f/1", scope => global},
    Both = fun(Specs) ->
        [{ok, #{functions := 1}} = kymo:trace(R, Spec) || Spec <- Specs],
        #{events := Before} = kymo:info(R),
        run(P, fun() -> f(1), ?MODULE:f(2) end),
        #{events := After} = kymo:info(R),
        After - Before
    end,
    2 = Both([Global, #{processes => [P], functions => "kymo_SUITE:f(_)"}]),
    ok = kymo:untrace(R, #{processes => none, functions => "kymo_SUITE:f(_)"}),
    1 = Both([]),
    2 = Both([#{processes => [P], functions => "kymo_SUITE:f(_)"}]),
    ok = kymo:untrace(R, #{processes => none, functions => "kymo_SUITE:f/1"}),
    2 = Both([]),
    ok = kymo:untrace(R),
    2 = Both([#{processes => [P], functions => "kymo_SUITE:f(_)"}, Global]),
    {ok, _} = kymo:stop(R),
    gone(P).

%% Removing a pattern that was given removes only that one, however it is spelled.
untrace_overlap(Config) ->
    {P, R} = traced(Config, #{}, #{functions => ["kymo_SUITE:_/_", "kymo_SUITE:f/1 -> return"]}),
    Run = fun() ->
        #{events := Before} = kymo:info(R),
        run(P, fun() -> f2(1), f(1) end),
        #{events := After, tracing := #{functions := N}} = kymo:info(R),
        {After - Before, N}
    end,
    All = length(?MODULE:module_info(functions)),
    {Most, All} = Run(),
    ok = kymo:untrace(R, #{processes => none, functions => <<"kymo_SUITE:f/1 -> return">>}),
    {Calls, All} = Run(),
    1 = Most - Calls,
    {ok, _} = kymo:trace(R, #{processes => none, functions => "kymo_SUITE:f/1 -> return"}),
    ok = kymo:untrace(R, #{processes => none, functions => {?MODULE, '_', '_'}}),
    {2, 1} = Run(),
    {ok, _} = kymo:stop(R),
    gone(P).

%% A pattern that was not given excludes its functions from those that were.
untrace_part_of_pattern(Config) ->
    {P, R} = traced(Config, #{}, #{functions => ["kymo_SUITE:f/1", "kymo_SUITE:f", "kymo_SUITE:g/1 -> return"]}),
    ok = kymo:untrace(R, #{processes => none, functions => "kymo_SUITE:f*/1"}),
    run(P, fun() -> f(1) end),
    #{tracing := #{functions := 1}} = kymo:info(R),
    [{call, g}, {return_from, g}] = [kind(E) || E <- stop_and_read(Config, R)],
    gone(P).

%% This also holds for code that is loaded later. The functions can be traced again.
untraced_stays(Config) ->
    load_version(2),
    {P, R} = traced(Config, #{}, #{functions => "kymo_reloaded:_/_"}),
    ok = kymo:untrace(R, #{processes => none, functions => "kymo_reloaded:version/0"}),
    load_version(2),
    Added = fun(N) ->
        #{events := Before} = kymo:info(R),
        run(P, fun() -> kymo_reloaded:version(), kymo_reloaded:added() end),
        #{events := After} = kymo:info(R),
        After - Before =:= N
    end,
    true = until(fun() -> Added(1) end),
    {ok, _} = kymo:trace(R, #{processes => [P], functions => "kymo_reloaded:version/0"}),
    true = Added(2),
    {ok, _} = kymo:stop(R),
    gone(P),
    unload_version().

too_many_patterns(Config) ->
    {P, R} = traced(Config, #{}, #{functions => "kymo_SUITE:g/1"}),
    Patterns = [lists:flatten(io_lib:format("kymo_SUITE:f(X) when X > ~b", [N])) || N <- lists:seq(1, 9)],
    {error, {too_many_patterns, {?MODULE, f, 1}}} = kymo:trace(R, #{processes => [P], functions => Patterns}),
    #{tracing := #{functions := 1}} = kymo:info(R),
    {ok, #{functions := 1}} = kymo:trace(R, #{processes => [P], functions => tl(Patterns)}),
    run(P, fun() -> [f(N) || N <- lists:seq(1, 10)] end),
    %% Calls of f with an argument greater than 2, and all calls of g.
    {ok, #{events := 18}} = kymo:stop(R),
    gone(P).

%% Only code that is loaded later makes the union too large: then all its calls are recorded.
too_many_by_load(Config) ->
    Digits = lists:seq($1, $9),
    load_functions([[$n, D] || D <- Digits]),
    Patterns = [lists:flatten(["kymo_reload*:*n", D, "*(X) when X > ", D]) || D <- Digits],
    {P, R} = traced(Config, #{}, #{functions => Patterns}),
    run(P, fun() -> kymo_reloaded:n1(1), kymo_reloaded:n1(2) end),
    #{events := 1, tracing := #{functions := 9}} = kymo:info(R),
    load_functions([lists:append([[$n, D] || D <- Digits])]),
    true = until(fun() -> #{tracing := #{functions := N}} = kymo:info(R), N =:= 1 end),
    run(P, fun() -> kymo_reloaded:n1n2n3n4n5n6n7n8n9(0) end),
    {ok, #{events := 2}} = kymo:stop(R),
    gone(P),
    unload_version().

%% Loads a module with these functions of one argument.
load_functions(Names) ->
    Functions = [list_to_atom(N) || N <- Names],
    Body = [{clause, 1, [{var, 1, '_'}], [], [{atom, 1, ok}]}],
    Forms =
        [{attribute, 1, module, kymo_reloaded}, {attribute, 1, export, [{F, 1} || F <- Functions]}] ++
            [{function, 1, F, 1, Body} || F <- Functions],
    {ok, kymo_reloaded, Code} = compile:forms(Forms),
    code:purge(kymo_reloaded),
    {module, kymo_reloaded} = code:load_binary(kymo_reloaded, "kymo_reloaded", Code).

%% ---- the end of a recorder ---------------------------------------------------------------

%% A recorder that has reached a limit removes its own trace flags and patterns.
limit_ends(Config) ->
    {P, R} = traced(Config, #{limit => #{events => 10}}, #{functions => "kymo_SUITE:f/1"}),
    run(P, fun() -> [f(N) || N <- lists:seq(1, 100)] end),
    true = until(fun() -> breakpoints() =:= [] andalso flags() =:= [] end),
    true = until(fun() -> #{tracing := T, state := S} = kymo:info(R), {T, S} =:= {none, closed} end),
    %% The runtime clears the flags of a recorder that has ended; they do not count as taken
    %% away by another tracer.
    #{reason := events, events := 10, taken := 0} = kymo:info(R),
    {error, ended} = kymo:trace(R, #{events => [procs]}),
    {ok, #{reason := events}} = kymo:stop(R),
    gone(P).

%% A recorder that has ended releases its memory and its name even while its handle is still
%% referenced.
limit_gives_back(Config) ->
    {P, R} = traced(Config, #{limit => #{events => 10}, name => flight}, #{functions => "kymo_SUITE:f/1"}),
    [_ | _] = files(?config(dir, Config)),
    Watched = watch(R),
    run(P, fun() -> [f(N) || N <- lists:seq(1, 100)] end),
    gone(Watched),
    true = until(fun() -> files(?config(dir, Config)) =:= [] end),
    R2 = start(Config, #{dir => sub(Config, rec2), name => flight}),
    #{state := active} = kymo:info(flight),
    #{state := closed, reason := events, events := 10, tracing := none} = kymo:info(R),
    {error, ended} = kymo:trace(R, #{events => [procs]}),
    {ok, #{reason := events, events := 10}} = kymo:stop(R),
    {ok, #{reason := events, events := 10}} = kymo:stop(R),
    {ok, _} = kymo:stop(R2),
    gone(P).

stop_gives_back(Config) ->
    {P, R} = traced(Config, #{}, #{functions => "kymo_SUITE:f/1"}),
    [_ | _] = files(?config(dir, Config)),
    {ok, _} = kymo:stop(R),
    true = until(fun() -> files(?config(dir, Config)) =:= [] end),
    #{state := closed, reason := stop} = kymo:info(R),
    gone(P).

%% Nothing of the recording is held, even if somebody keeps the tracer, whether the recorder is
%% stopped or killed.
lets_files_go(Config) ->
    [begin
         R = start(Config, #{dir => sub(Config, Name)}),
         {ok, _} = trace_all(R),
         Tracer = kymo:tracer(R),
         [_ | _] = files(?config(dir, Config)),
         Watched = watch(R),
         End(R, Watched),
         gone(Watched),
         ?assertEqual([], files(?config(dir, Config))),
         ?assertMatch({kymo_tracer, _}, Tracer)
     end || {Name, End} <- [{stopped, fun(R, _) -> {ok, _} = kymo:stop(R) end},
                            {killed, fun(_, [{Server, _} | _]) -> exit(Server, kill) end}]].

listed(Config) ->
    Before = erlang:system_time(millisecond),
    R = start(Config, #{dir => sub(Config, rec), name => flight}),
    R2 = start(Config, #{dir => sub(Config, rec2), policy => discard}),
    ok = kymo:pause(R2),
    Dir = unicode:characters_to_binary(sub(Config, rec)),
    [
        #{
            recorder := R, name := flight, dir := Dir, state := active, reason := none, policy := overwrite,
            since := Since
        },
        #{recorder := R2, name := undefined, state := paused, policy := discard, since := Since2}
    ] = [L || #{state := State} = L <- kymo:list(), State =/= closed],
    true = Before =< Since andalso Since =< Since2 andalso Since2 =< erlang:system_time(millisecond),
    {ok, _} = kymo:stop(R),
    {ok, _} = kymo:stop(R2),
    [#{recorder := R2}, #{recorder := R, name := flight, state := closed, reason := stop} | _] = kymo:list().

%% A recorder that ends while it is asked for its state is listed as one that has ended.
listed_while_ending(Config) ->
    R = {kymo_recorder, Server, _, _} = start(Config, #{dir => sub(Config, rec)}),
    Self = self(),
    Waits = fun(N) -> until(fun() -> {message_queue_len, N} =:= process_info(Server, message_queue_len) end) end,
    true = erlang:suspend_process(Server),
    spawn_link(fun() -> Self ! {stopped, kymo:stop(R)} end),
    true = Waits(1),
    spawn_link(fun() -> Self ! {listed, kymo:list()} end),
    true = Waits(2),
    true = erlang:resume_process(Server),
    receive {stopped, {ok, _}} -> ok end,
    receive {listed, Listed} -> [#{state := closed, reason := stop}] = [L || #{recorder := Of} = L <- Listed, Of =:= R] end.

%% Only the last few ended recorders are remembered.
remembers_some(Config) ->
    [First | _] = Rs = [start(Config, #{dir => sub(Config, N)}) || N <- lists:seq(1, 17)],
    [{ok, _} = kymo:stop(R) || R <- Rs],
    16 = length(kymo:list()),
    #{state := closed} = kymo:info(lists:nth(2, Rs)),
    bad_argument(1, info, [First]),
    {error, already_stopped} = kymo:stop(First).

%% Nothing but this memory is lost if the process that remembers ended recorders dies.
recorders_killed(Config) ->
    R = start(Config, #{dir => sub(Config, rec), name => flight}),
    Recorders = whereis(kymo_recorders),
    gone(Recorders),
    true = until(fun() -> [flight] =:= [N || #{name := N} <- kymo:list()] end),
    {ok, #{reason := stop}} = kymo:stop(flight),
    #{reason := stop} = kymo:info(R).

%% ---- flags and patterns that others remove -------------------------------------------------

%% Another tracer clears one function: with erlang:trace_pattern/3, or in the recorder's own
%% session through its weak reference.
take(_, Config, MFA) ->
    case mode(Config) of
        global -> erlang:trace_pattern(MFA, false, [local]);
        session -> apply(trace, function, [weak_session(), MFA, false, [local]])
    end.

%% The session that has the patterns, not the one that waits for loads.
weak_session() ->
    [S] = [
        S
     || {'$kymo', _} = S <- apply(trace, session_info, [all]),
        {traced, false} =:= apply(trace, info, [S, {erlang, finish_loading, 1}, traced]),
        {meta, M} <- [apply(trace, info, [S, {erlang, finish_loading, 1}, meta])],
        M =:= false orelse M =:= []
    ],
    S.

%% A case that is run on its own is in no group.
mode(Config) -> proplists:get_value(mode, Config, hd(kymo_tracing:modes())).

taken_functions(Config) ->
    {P, R} = traced(Config, #{}, #{functions => ["kymo_SUITE:f/1", "kymo_SUITE:g/1"]}),
    run(P, fun() -> f(1) end),
    #{taken := 0, tracing := #{taken := none}} = kymo:info(R),
    {0, _} = kymo_cli:run(["info", "--strict", sub(Config, rec)]),
    Before = erlang:system_time(millisecond),
    1 = take(R, Config, {?MODULE, g, 1}),
    #{taken := 1, tracing := #{taken := #{functions := 1, processes := 0, session := false, since := Since}}} =
        kymo:info(R),
    true = Before =< Since andalso Since =< erlang:system_time(millisecond),
    %% The same loss is counted once, and the count stays when the function is traced again.
    #{taken := 1} = kymo:info(R),
    {ok, _} = kymo:trace(R, #{processes => [P], functions => "kymo_SUITE:g/1"}),
    #{taken := 1} = kymo:info(R),
    taken_shown(Config, 1),
    {ok, #{taken := 1}} = kymo:stop(R),
    taken_shown(Config, 1),
    gone(P).

%% The recording says so, too.
taken_shown(Config, N) ->
    Dir = sub(Config, rec),
    {1, Strict} = kymo_cli:run(["info", "--strict", Dir]),
    {match, _} = re:run(Strict, ["taken +", integer_to_list(N), " trace patterns, flags or sessions"]),
    {match, _} = re:run(Strict, "kymo: incomplete: .*another tracer removed"),
    {0, Json} = kymo_cli:run(["info", "--json", Dir]),
    {match, _} = re:run(Json, ["\"taken\":", integer_to_list(N), ","]),
    {match, _} = re:run(Json, "\"complete\":false").

%% What recon_trace:calls/2 does first: it clears all flags and patterns of all tracers.
taken_by_reset(Config) ->
    case mode(Config) of
        global ->
            {P, R} = traced(Config, #{}, #{functions => "kymo_SUITE:_/_", events => [procs]}),
            erlang:trace(all, false, [all]),
            erlang:trace_pattern({'_', '_', '_'}, false, [local, meta, call_count, call_time]),
            run(P, fun() -> f(1) end),
            All = length(?MODULE:module_info(functions)),
            {ok, #{taken := N}} = kymo:stop(R),
            ?assertEqual(All + 1, N),
            taken_shown(Config, N),
            gone(P);
        session ->
            {skip, "nobody resets a session"}
    end.

taken_flags(Config) ->
    {P, R} = traced(Config, #{}, #{functions => "kymo_SUITE:f/1", events => [procs, messages]}),
    Q = tracee(),
    {ok, _} = kymo:trace(R, #{processes => [Q], events => [procs]}),
    Clear = fun(Who, Flags) ->
        case mode(Config) of
            global -> erlang:trace(Who, false, Flags);
            session -> apply(trace, process, [weak_session(), Who, false, Flags])
        end
    end,
    #{taken := 0} = kymo:info(R),
    %% One missing flag of several is enough.
    1 = Clear(P, [send]),
    #{taken := 1, tracing := #{taken := #{processes := 1, functions := 0}}} = kymo:info(R),
    %% A process that has exited, or that is no longer to be traced, is not counted.
    ok = kymo:untrace(R, #{processes => [Q], events => [procs]}),
    gone(P),
    {ok, #{taken := 1}} = kymo:stop(R),
    gone(Q).

%% Loading code removes patterns, too, but they are set again and not counted.
reload_is_not_taken(Config) ->
    load_version(1),
    {P, R} = traced(Config, #{}, #{functions => "kymo_reloaded:_/_"}),
    %% info/1 is called at random moments of a load.
    {Loader, Monitor} = spawn_monitor(fun() -> [load_version(1 + N rem 2) || N <- lists:seq(1, 100)] end),
    Ask = fun Ask(N) ->
        #{taken := 0} = kymo:info(R),
        receive
            {'DOWN', Monitor, process, Loader, normal} -> N
        after 0 -> Ask(N + 1)
        end
    end,
    true = Ask(0) > 0,
    unload_version(),
    {ok, #{taken := 0}} = kymo:stop(R),
    gone(P).

%% A load removes the patterns between two of the operations that set them.
reload_while_setting(Config) ->
    %% The first one in the new code is the last one in the order of names.
    Functions = [lists:concat([f, N]) || N <- lists:seq(99, 70, -1)],
    load_functions(Functions),
    {P, R} = traced(Config, #{}, #{functions => "kymo_reloaded:f*/1"}),
    [
        begin
            load_functions(Functions),
            %% The next load is while the server sets the patterns again.
            erlang:yield()
        end
     || _ <- lists:seq(1, 50)
    ],
    #{taken := 0} = kymo:info(R),
    run(P, fun() -> [kymo_reloaded:(list_to_atom(F))(1) || F <- Functions] end),
    {ok, #{taken := 0, events := 30}} = kymo:stop(R),
    gone(P),
    unload_version().

%% The loss is noticed without a call of info/1.
taken_while_flying(Config) ->
    {P, R} = traced(Config, #{}, #{functions => ["kymo_SUITE:f/1", "kymo_SUITE:g/1"]}),
    %% Loads the code that wait_for_taken/2 needs: patterns are set again after each load.
    {0, _} = kymo_cli:run(["info", "--json", sub(Config, rec)]),
    true = until(fun() -> re:run("x", "x") =/= nomatch end),
    _ = kymo:info(R),
    1 = take(R, Config, {?MODULE, f, 1}),
    {match, _} = wait_for_taken(sub(Config, rec), 1),
    {ok, #{taken := 1}} = kymo:stop(R),
    gone(P).

wait_for_taken(Dir, N) ->
    Taken = fun() ->
        {_, Json} = kymo_cli:run(["info", "--json", Dir]),
        re:run(Json, ["\"taken\":", integer_to_list(N), ","])
    end,
    true = until(fun() -> Taken() =/= nomatch end),
    Taken().

%% The session is destroyed through its weak reference, which any process can get. The next
%% trace/2 creates another one.
taken_session(Config) ->
    {P, R} = traced(Config, #{}, #{functions => "kymo_SUITE:f/1"}),
    true = apply(trace, session_destroy, [weak_session()]),
    run(P, fun() -> f(1) end),
    #{state := active, events := 0, taken := 1, tracing := #{taken := #{session := true}}} = kymo:info(R),
    ok = kymo:untrace(R, #{processes => none, functions => "kymo_SUITE:f/1"}),
    {ok, #{functions := 1}} = kymo:trace(R, #{processes => [P], functions => "kymo_SUITE:f/1"}),
    run(P, fun() -> f(1) end),
    #{events := 1, taken := 1} = kymo:info(R),
    {ok, _} = kymo:stop(R),
    taken_shown(Config, 1),
    gone(P).

%% Someone unloads the tracer module: the runtime then clears the flags of each process that has
%% an event.
tracer_purged(Config) ->
    {ok, Peer, _} = peer:start(#{
        connection => standard_io, args => ["-pa", filename:dirname(code:which(?MODULE))], wait_boot => 60000
    }),
    Options = (small(Config))#{dir => sub(Config, rec), owner => none},
    {ok, R} = peer:call(Peer, kymo, start, [Options]),
    Spec = #{processes => [code_server], events => [messages]},
    {ok, #{processes := 1}} = peer:call(Peer, kymo, trace, [R, Spec]),
    true = peer:call(Peer, code, delete, [kymo_tracer]),
    %% Not code:purge/1: it kills the recorder's process if that is executing a NIF of the
    %% library at that moment.
    true = until(fun() -> peer:call(Peer, code, soft_purge, [kymo_tracer]) end),
    true = until(fun() ->
        _ = peer:call(Peer, code, root_dir, []),
        #{taken := Taken} = peer:call(Peer, kymo, info, [R]),
        Taken =:= 1
    end),
    {ok, #{taken := 1}} = peer:call(Peer, kymo, stop, [R]),
    peer:stop(Peer),
    taken_shown(Config, 1).

%% A mistake in the first trace/2 leaves the recorder unchanged: it creates no session and no
%% trace pattern on loads, and leaves nothing to replan.
trace_error_leaves_nothing(Config) ->
    R = start(Config),
    Before = maps:with([flags, breakpoints, sessions], ?config(before, Config)),
    {error, {no_process, nobody}} = kymo:trace(R, #{processes => [nobody], functions => "kymo_SUITE:f/1"}),
    Dead = tracee(),
    gone(Dead),
    {error, {no_process, Dead}} = kymo:trace(R, #{processes => [Dead], functions => "kymo_SUITE:f/1"}),
    Before = maps:with([flags, breakpoints, sessions], node_state(?config(dir, Config))),
    #{tracing := none} = kymo:info(R),
    {ok, _} = kymo:stop(R).

%% ---- snapshots and names ---------------------------------------------------------------

snapshot(Config) ->
    {P, R} = traced(Config, #{}, #{functions => "kymo_SUITE:f/1"}),
    run(P, fun() -> f(1) end),
    Snap = sub(Config, snap),
    {ok, #{events := 1, segments := 1}} = kymo:snapshot(R, Snap),
    {error, eexist} = kymo:snapshot(R, Snap),
    No = sub(Config, "no"),
    {error, {missing_folder, No}} = kymo:snapshot(R, sub(Config, "no/such/folder")),
    {ok, #{events := 1}} = kymo:snapshot(R, sub(Config, "made/for_it")),
    [{trace, P, call, {?MODULE, f, 1}}] = events(Snap),
    %% The recorder continues.
    run(P, fun() -> f(1) end),
    2 = length(stop_and_read(Config, R)),
    gone(P).

%% Names of processes that existed before the recorder are in the recording.
process_names(Config) ->
    P = tracee(),
    register(kymo_named_tracee, P),
    Q = proc_lib:spawn(?MODULE, tracee_loop, []),
    R = start(Config),
    {ok, _} = kymo:trace(R, #{processes => [P, Q], functions => "kymo_SUITE:f/1"}),
    run(P, fun() -> f(1) end),
    run(Q, fun() -> f(1) end),
    Snap = sub(Config, snap),
    {ok, _} = kymo:snapshot(R, Snap),
    {ok, _} = kymo:stop(R),
    [
        begin
            {0, Text} = kymo_cli:run(["info", Dir]),
            {match, _} = re:run(Text, "kymo_named_tracee"),
            {match, _} = re:run(Text, "kymo_SUITE:tracee_loop/0")
        end
     || Dir <- [Snap, sub(Config, rec)]
    ],
    gone(P),
    gone(Q).

%% No process is asked when the time is over. What is known without asking is recorded all the same.
names_within(Config) ->
    P = tracee(),
    register(kymo_named_tracee, P),
    Q = proc_lib:spawn(?MODULE, tracee_loop, []),
    {ok, State} = kymo_tracer:open(#{dir => sub(Config, rec)}),
    Define = fun(Within, Known) -> kymo_names:define(State, ask, Within, [P, Q], 10, Known) end,
    Late = Define(0, #{}),
    ?assertEqual(#{P => {registered, {kymo_named_tracee, undefined, undefined, undefined}}}, Late),
    #{P := {ask, {kymo_named_tracee, _, _, _}}, Q := {ask, {_, {?MODULE, tracee_loop, 0}, _, _}}} = All = Define(infinity, Late),
    ?assertEqual(All, Define(0, All)),
    ok = kymo_tracer:stop(State),
    gone(P),
    gone(Q).

%% Labels are arbitrary terms, set by proc_lib:set_label/1 or, before OTP 27, in the way Elixir
%% does. Recording them creates no atoms.
process_labels(Config) ->
    Long = lists:duplicate(300, $x),
    Labels = [an_atom, {worker, 7}, "text", <<"gr\x{c3}\x{bc}n">>, [1, {2, "three"}], #{a => self()}, {long, Long}, Long, []],
    Self = self(),
    Ps = [
        proc_lib:spawn(fun() ->
            set_label(Label),
            Self ! labelled,
            ?MODULE:tracee_loop()
        end)
     || Label <- Labels
    ],
    [receive labelled -> ok end || _ <- Ps],
    R = start(Config),
    Atoms = erlang:system_info(atom_count),
    {ok, _} = kymo:trace(R, #{processes => Ps, functions => "kymo_SUITE:f/1"}),
    %% The recorder answers after it has recorded the names.
    _ = kymo:info(R),
    ?assertEqual(Atoms, erlang:system_info(atom_count)),
    [run(P, fun() -> f(1) end) || P <- Ps],
    {ok, _} = kymo:stop(R),
    Shown = fun(P) ->
        {0, Lines} = kymo_cli:run(["print", "--events", "call", "--pid", pid_to_list(P), sub(Config, rec)]),
        {match, [Name]} = re:run(Lines, "<[0-9.]+>\\((.*?)\\) call", [unicode, {capture, [1], list}]),
        Name
    end,
    Pid = pid_to_list(self()),
    [
        "an_atom", "'{worker,7}'", "text", [$g, $r, 252, $n], "'[1,{2,\"three\"}]'", Map, "'{long," ++ Cut, Xs, "'[]'"
    ] = [Shown(P) || P <- Ps],
    ?assertEqual("'#{a => " ++ Pid ++ "}'", Map),
    true = length(Cut) =< 255,
    ?assertEqual(lists:duplicate(255, $x), Xs),
    %% The label can be searched for.
    {0, Found} = kymo_cli:run(["print", "--events", "call", "--pid", "{worker,7}", sub(Config, rec)]),
    1 = length(string:split(string:trim(Found), "\n", all)),
    [gone(P) || P <- Ps].

%% A huge label is not copied; the process has no name then.
huge_labels(Config) ->
    Self = self(),
    Ps = [
        spawn(fun() ->
            put(Key, lists:seq(1, 2000000)),
            Self ! {self(), ready},
            ?MODULE:tracee_loop()
        end)
     || Key <- ['$process_label', '$ancestors', '$callers', '$initial_call']
    ],
    [receive {P, ready} -> ok end || P <- Ps],
    R = {kymo_recorder, Server, _, _} = start(Config),
    1 = erlang:trace(Server, true, [garbage_collection]),
    {ok, _} = kymo:trace(R, #{processes => Ps, functions => "kymo_SUITE:f/1"}),
    _ = kymo:info(R),
    {memory, Memory} = process_info(Server, memory),
    {ok, _} = kymo:stop(R),
    Heaps = [proplists:get_value(heap_size, Info) + proplists:get_value(mbuf_size, Info) || {trace, P, _, Info} <- collected(), P =:= Server],
    ?assert(lists:max([Memory div 8 | Heaps]) < 3000000),
    [gone(P) || P <- Ps].

collected() ->
    receive Message when element(1, Message) =:= trace -> [Message | collected()] after 0 -> [] end.

set_label(Label) ->
    case erlang:function_exported(proc_lib, set_label, 1) of
        true -> apply(proc_lib, set_label, [Label]);
        false -> put('$process_label', Label)
    end.

%% Processes beyond the limit `names' are still traced. Those with a registered name are looked up first.
many_processes(Config) ->
    Self = self(),
    Body = fun() ->
        receive go -> f(1), Self ! done end,
        receive stop -> ok end
    end,
    Ps = [spawn(Body) || _ <- lists:seq(1, 10000)],
    true = register(kymo_late, lists:last(Ps)),
    R = start(Config, #{dir => sub(Config, rec), names => 1000}),
    {ok, #{processes := N}} = kymo:trace(R, #{functions => "kymo_SUITE:f/1"}),
    true = N >= 10000,
    [P ! go || P <- Ps],
    [receive done -> ok end || _ <- Ps],
    {ok, #{events := 10000}} = kymo:stop(R),
    {0, Text} = kymo_cli:run(["print", "-q", "--pid", "kymo_late", sub(Config, rec)]),
    ?assertMatch({match, [_]}, re:run(Text, "kymo_late", [global, {capture, first}])),
    Ms = [monitor(process, P) || P <- Ps],
    [P ! stop || P <- Ps],
    [receive {'DOWN', M, _, _, _} -> ok end || M <- Ms].

%% ---- record/3 ------------------------------------------------------------------------

record(Config) ->
    Dir = sub(Config, rec),
    {ok, 42, #{events := 3, state := closed}} =
        kymo:record(Dir, (small(Config))#{functions => "kymo_SUITE:f/1"}, fun() ->
            [f(N) || N <- lists:seq(1, 3)],
            42
        end),
    Self = self(),
    [{trace, Self, call, {?MODULE, f, 1}}, _, _] = events(Dir),
    %% `returns' as an option of start/1 and of trace/2.
    Tail = fun(Name, Returns) ->
        Sub = sub(Config, Name),
        {ok, _, _} = kymo:record(
            Sub, (small(Config))#{functions => "kymo_SUITE:f2/1", returns => Returns},
            fun() -> f2(7) end
        ),
        tl(events(Sub))
    end,
    [{trace, Self, return_from, {?MODULE, f2, 1}, 7}] = Tail(values, values),
    [{trace, Self, return_from, {?MODULE, f2, 1}, _}] = Tail(true, true),
    [] = Tail(false, false),
    [] = Tail(none, none),
    %% By default, the process's own events and those of its children are recorded.
    Dir2 = sub(Config, rec2),
    {ok, ok, _} = kymo:record(Dir2, small(Config), fun() ->
        {_, M} = spawn_monitor(fun() -> ok end),
        receive {'DOWN', M, _, _, _} -> ok end
    end),
    Tags = lists:usort([element(3, E) || E <- events(Dir2)]),
    [] = [spawn, spawned, exit, send, 'receive', in, out] -- ([send | Tags] -- []).

record_raises(Config) ->
    [
        try
            kymo:record(sub(Config, Class), (small(Config))#{functions => "kymo_SUITE:f/1"}, fun() ->
                raise(Class)
            end)
        of
            _ -> error(no_exception)
        catch
            Class:because:Stack ->
                %% The stack trace still shows where the exception was raised.
                [{?MODULE, raise, 1, _} | _] = Stack,
                [{trace, _, call, {?MODULE, f, 1}}] = events(sub(Config, Class))
        end
     || Class <- [error, throw, exit]
    ].

raise(Class) ->
    f(1),
    erlang:Class(because).

record_errors(Config) ->
    Never = fun() -> error(called) end,
    {error, {unknown_option, event}} = kymo:record(sub(Config, a), #{event => []}, Never),
    {error, {no_functions, "lists:no/1"}} = kymo:record(sub(Config, b), #{functions => "lists:no/1"}, Never),
    No = sub(Config, "no"),
    {error, {missing_folder, No}} = kymo:record(sub(Config, "no/such/folder"), #{}, Never),
    {error, {no_process, nobody}} =
        kymo:record(sub(Config, e), #{processes => [nobody], events => [procs]}, Never),
    %% None of them has left a recording or a running recorder.
    {ok, []} = file:list_dir(?config(dir, Config)),
    Running = [R || #{state := State} = R <- kymo:list(), State =/= closed],
    [] = Running,
    %% The recorder stops during the call, by a limit or explicitly.
    Limited = (small(Config))#{functions => "kymo_SUITE:f/1", limit => #{events => 2}},
    {ok, done, #{reason := events, events := 2}} =
        kymo:record(sub(Config, c), Limited, fun() ->
            [f(N) || N <- lists:seq(1, 10)],
            done
        end),
    {ok, done, #{reason := stop}} = kymo:record(sub(Config, d), (small(Config))#{name => by_hand}, fun() ->
        {ok, _} = kymo:stop(by_hand),
        done
    end).

%% ---- other tracers and the application -----------------------------------------------

%% With the application, recorders are supervised, and stop with it.
application(Config) ->
    {ok, _} = application:ensure_all_started(kymo),
    try
        R = start(Config, #{dir => sub(Config, rec), owner => none}),
        {ok, _} = trace_all(R),
        [{_, Server, worker, [kymo_server]}] = supervisor:which_children(kymo_sup),
        {kymo_recorder, Server, _, _} = R,
        R2 = start(Config, #{dir => sub(Config, rec2)}),
        {error, {unknown_option, no_such}} = kymo:start(#{dir => sub(Config, rec3), no_such => 1}),
        {ok, _} = kymo:stop(R2),
        %% Its server ends after it has answered.
        true = kymo_cli:until(fun() -> length(supervisor:which_children(kymo_sup)) =:= 1 end),
        ok = application:stop(kymo),
        [] = flags(),
        [] = breakpoints(),
        #{state := closed, reason := stop} = kymo:info(R)
    after
        application:stop(kymo),
        application:unload(kymo)
    end.

%% Neither events of the recorder's own processes nor its own calls are recorded.
own_processes(Config) ->
    R = start(Config, #{dir => sub(Config, rec), names => 0}),
    [{Server, _}, {Janitor, _}] = Watched = watch(R),
    {ok, _} = kymo:trace(R, #{events => [messages, procs, running, garbage_collection]}),
    [kymo:info(R) || _ <- lists:seq(1, 10)],
    Events = stop_and_read(Config, R),
    gone(Watched),
    [] = [E || E <- Events, lists:member(element(2, E), [Server, Janitor])].

%% Two recorders at once, each with its own events. In the global tracing they need distinct
%% processes and functions.
several(Config) ->
    {P, R1} = traced(Config, #{}, #{functions => "kymo_SUITE:f2/1"}),
    Q = tracee(),
    R2 = start(Config, #{dir => sub(Config, rec2), calls => arguments, content_bytes => 100}),
    {ok, _} = kymo:trace(R2, #{functions => "kymo_SUITE:g/1", processes => [Q]}),
    run(P, fun() -> f2(1) end),
    run(Q, fun() -> g(2) end),
    {ok, #{events := 1}} = kymo:stop(R1),
    run(Q, fun() -> g(3) end),
    {ok, #{events := 2}} = kymo:stop(R2),
    [{trace, Q, call, {?MODULE, g, [2]}}, {trace, Q, call, {?MODULE, g, [3]}}] = events(sub(Config, rec2)),
    gone(P),
    gone(Q).

%% What another tracer holds in the global tracing.

held_process(Config) ->
    P = tracee(),
    Free = tracee(),
    with_other(fun(Other) ->
        1 = erlang:trace(P, true, [send, {tracer, Other}]),
        R = start(Config),
        Spec = #{processes => [Free, P], functions => "kymo_SUITE:f/1"},
        {error, {already_traced, P}} = kymo:trace(R, Spec),
        [] = breakpoints() -- [{erlang, finish_loading, 1}],
        [{P, [send]}] = flags(),
        {ok, _} = kymo:stop(R),
        {tracer, Other} = erlang:trace_info(P, tracer),
        1 = erlang:trace(P, false, [send])
    end),
    gone(P),
    gone(Free).

held_existing(Config) ->
    P = tracee(),
    with_other(fun(Other) ->
        1 = erlang:trace(P, true, [send, {tracer, Other}]),
        R = start(Config),
        {ok, #{skipped := [P]}} = kymo:trace(R, #{processes => existing, events => [procs]}),
        {flags, [send]} = erlang:trace_info(P, flags),
        {ok, _} = kymo:stop(R),
        {tracer, Other} = erlang:trace_info(P, tracer),
        [{P, [send]}] = flags(),
        1 = erlang:trace(P, false, [send])
    end),
    gone(P).

held_function(Config) ->
    Spec = [{[1], [], []}],
    1 = erlang:trace_pattern({?MODULE, f, 1}, Spec, [local]),
    {P, R} = traced(Config, #{}, #{functions => "kymo_SUITE:g/1"}),
    {error, {already_traced, {?MODULE, f, 1}}} =
        kymo:trace(R, #{functions => "kymo_SUITE:f/1", processes => [P]}),
    {ok, #{skipped := [{?MODULE, f, 1}], functions := N}} =
        kymo:trace(R, #{functions => "kymo_SUITE:_/_", processes => [P]}),
    N = length(?MODULE:module_info(functions)) - 1,
    {match_spec, Spec} = erlang:trace_info({?MODULE, f, 1}, match_spec),
    {ok, _} = kymo:stop(R),
    {match_spec, Spec} = erlang:trace_info({?MODULE, f, 1}, match_spec),
    [{?MODULE, f, 1}] = breakpoints(),
    1 = erlang:trace_pattern({?MODULE, f, 1}, false, [local]),
    gone(P).

%% eprof would be sent the calls that are recorded, and end.
held_calls(Config) ->
    P = tracee(),
    {ok, _} = eprof:start(),
    profiling = eprof:start_profiling([P], {?MODULE, g, 1}),
    R = start(Config),
    {error, {calls_traced, P}} = kymo:trace(R, #{functions => "kymo_SUITE:f/1", processes => [self()]}),
    {ok, _} = kymo:trace(R, #{processes => [self()], events => [send]}),
    run(P, fun() -> f(1) end),
    profiling_stopped = eprof:stop_profiling(),
    {ok, #{functions := 1}} = kymo:trace(R, #{functions => "kymo_SUITE:f/1", processes => [P]}),
    stopped = eprof:stop(),
    {ok, _} = kymo:stop(R),
    gone(P).

held_receive(Config) ->
    Spec = [{['_', '_', '_'], [], [{message, mine}]}],
    erlang:trace_pattern('receive', Spec, []),
    R = start(Config),
    {ok, #{skipped := ['receive']}} = kymo:trace(R, #{processes => [self()], events => ['receive']}),
    {match_spec, Spec} = erlang:trace_info('receive', match_spec),
    {ok, _} = kymo:stop(R),
    {match_spec, Spec} = erlang:trace_info('receive', match_spec),
    erlang:trace_pattern('receive', true, []).

held_new(Config) ->
    with_other(fun(Other) ->
        erlang:trace(new_processes, true, [send, {tracer, Other}]),
        R = start(Config),
        {error, {already_traced, new_processes}} = kymo:trace(R, #{processes => new, events => [procs]}),
        {error, {already_traced, new_processes}} = kymo:trace(R, #{processes => all, events => [procs]}),
        {ok, _} = kymo:trace(R, #{processes => [self()], events => [procs]}),
        {ok, _} = kymo:stop(R),
        {tracer, Other} = erlang:trace_info(new_processes, tracer),
        {flags, [send]} = erlang:trace_info(new_processes, flags),
        erlang:trace(new_processes, false, [send])
    end).

%% Two recorders trace the same process and function, which sessions make possible.
both_at_once(Config) ->
    Self = self(),
    P = tracee(),
    {ok, _} = dbg:tracer(process, {fun(E, _) -> Self ! {dbg, E} end, none}),
    {ok, _} = dbg:p(P, [call]),
    {ok, _} = dbg:tpl(?MODULE, g, 1, [{[2], [], []}]),
    R = start(Config),
    {ok, #{skipped := []}} = kymo:trace(R, #{processes => [P], functions => "kymo_SUITE:g/1"}),
    run(P, fun() -> g(1), g(2) end),
    {ok, #{events := 2}} = kymo:stop(R),
    run(P, fun() -> g(2) end),
    Expected = {trace, P, call, {?MODULE, g, [2]}},
    [Expected, Expected] = [receive {dbg, E} -> E end || _ <- [1, 2]],
    stop_dbg(),
    gone(P).

%% The patched runtime gets all functions in one call, other runtimes get one call for each. The
%% server must not be traced, so this test does what the server does.
one_commit(Config) ->
    Count = apply(trace, session_create, [?FUNCTION_NAME, self(), []]),
    Calls = fun(Do) ->
        MFAs = [{trace, patterns, 2}, {trace, function, 4}],
        [apply(trace, function, [Count, MFA, How, [call_count]]) || MFA <- MFAs, How <- [true, restart]],
        Result = Do(),
        {Result, [
            N
         || MFA <- MFAs, {call_count, N} <- [apply(trace, info, [Count, MFA, call_count])], is_integer(N)
        ]}
    end,
    R = start(Config),
    P = tracee(),
    {ok, Spec} = kymo_spec:parse(#{
        processes => [P], functions => ["kymo_SUITE:f/1", "kymo_SUITE:g/1", "kymo_names:_/_"]
    }),
    {ok, Plan, T} = kymo_tracing:plan(kymo_tracing:new(session, kymo:tracer(R), []), Spec),
    {{#{functions := N}, T0}, Set} = Calls(fun() -> kymo_tracing:apply_plan(T, Plan) end),
    ?assertEqual(2 + length(kymo_names:module_info(functions)), N),
    run(P, fun() -> f(1) end),
    {ok, Unplan, T1} = kymo_tracing:unplan(T0, Spec),
    {{_, T2}, Cleared} = Calls(fun() -> kymo_tracing:apply_plan(T1, Unplan) end),
    #{functions := 0} = kymo_tracing:describe(T2),
    run(P, fun() -> f(1) end),
    ok = kymo_tracing:clear(T2),
    true = apply(trace, session_destroy, [Count]),
    Expected = case erlang:function_exported(trace, patterns, 2) of true -> [1, 0]; false -> [3] end,
    ?assertEqual({Expected, Expected}, {Set, Cleared}),
    ?assertEqual([{trace, P, call, {?MODULE, F, 1}} || F <- [f, g]], stop_and_read(Config, R)),
    gone(P).

%% dbg keeps working beside a recorder that traces other things, and after it.
others_untouched(Config) ->
    Self = self(),
    P = tracee(),
    Q = tracee(),
    {ok, _} = dbg:tracer(process, {fun(E, _) -> Self ! {dbg, E} end, none}),
    {ok, _} = dbg:p(P, [call]),
    {ok, _} = dbg:tpl(?MODULE, g, 1, []),
    R = start(Config),
    {ok, _} = kymo:trace(R, #{processes => [Q], functions => "kymo_SUITE:f2/1"}),
    run(P, fun() -> g(1) end),
    run(Q, fun() -> f2(1) end),
    #{events := 1} = kymo:info(R),
    {ok, #{events := 1}} = kymo:stop(R),
    run(P, fun() -> g(3) end),
    Seen = [receive {dbg, E} -> E end || _ <- [g1, g3]],
    [{trace, P, call, {?MODULE, g, [1]}}, {trace, P, call, {?MODULE, g, [3]}}] = Seen,
    stop_dbg(),
    gone(P),
    gone(Q).

%% On OTP 25 and 26 stop/0 leaves the patterns set, because they belong to the node, not to dbg.
stop_dbg() ->
    Dbg = monitor(process, dbg),
    {ok, _} = dbg:ctpl(),
    _ = dbg:stop(),
    receive {'DOWN', Dbg, process, _, _} -> ok end.

%% A pattern that another tracer has set in place of the recorder's is left to it.
replaced_by_other(Config) ->
    {P, R} = traced(Config, #{}, #{functions => ["kymo_SUITE:f/1", "kymo_SUITE:g/1"]}),
    Spec = [{[7], [], []}],
    1 = erlang:trace_pattern({?MODULE, f, 1}, Spec, [local]),
    {ok, _} = kymo:stop(R),
    {match_spec, Spec} = erlang:trace_info({?MODULE, f, 1}, match_spec),
    [{?MODULE, f, 1}] = breakpoints(),
    1 = erlang:trace_pattern({?MODULE, f, 1}, false, [local]),
    gone(P).

no_sessions(_) ->
    {skip, "this runtime has no trace sessions"}.

cli_path(_) ->
    Path = kymo:cli_path(),
    {0, <<"kymo ", _/binary>>} = kymo_cli:run(["--version"]),
    true = filelib:is_regular(Path).

%% ---- helpers ---------------------------------------------------------------------------

sub(Config, Name) ->
    filename:join(?config(dir, Config), lists:flatten(io_lib:format("~s", [
        case Name of
            N when is_integer(N) -> integer_to_list(N);
            _ -> Name
        end
    ]))).

start(Config) ->
    start(Config, #{dir => sub(Config, rec)}).

start(Config, Options) ->
    {ok, R} = kymo:start(maps:merge(small(Config), Options)),
    R.

%% Options for small recordings.
small(Config) ->
    #{
        tracing => proplists:get_value(mode, Config, auto),
        memory => 8 bsl 20,
        segment_size => 16384,
        dict_size => 2097152
    }.

%% A process, and a recorder that traces it.
traced(Config, Options, Spec) ->
    R = start(Config, Options#{dir => sub(Config, rec)}),
    P = tracee(),
    {ok, #{skipped := []}} = kymo:trace(R, Spec#{processes => [P]}),
    {P, R}.

trace_all(R) ->
    kymo:trace(R, #{
        functions => ["lists:_/_", "_:handle_info/2"],
        events => [messages, procs, ports, running, garbage_collection, set_on_spawn, set_on_link]
    }).

stop_and_read(Config, R) ->
    {ok, #{events := N}} = kymo:stop(R),
    Dir = sub(Config, rec),
    Events = events(Dir),
    %% dbg has no event for what only a runtime with version 2 of the raw interface reports.
    {0, Taken} = kymo_cli:run(["print", "-q", "--events", "taken", Dir]),
    ?assertEqual(N, length(Events) + length(binary:matches(Taken, <<"\n">>))),
    Events.

tracee() ->
    spawn(?MODULE, tracee_loop, []).

tracee_loop() ->
    receive
        {run, From, Ref, Fun} ->
            Fun(),
            From ! {ran, Ref},
            ?MODULE:tracee_loop();
        {ask, From, Ref} ->
            receive Message -> From ! {ran, Ref, Message} end,
            ?MODULE:tracee_loop()
    end.

%% Makes the process run the function.
run(P, Fun) ->
    Ref = make_ref(),
    P ! {run, self(), Ref, Fun},
    receive {ran, Ref} -> ok end.

%% The first message to the process that is not part of the protocol of this suite.
asked(P) ->
    Ref = make_ref(),
    P ! {ask, self(), Ref},
    receive {ran, Ref, Message} -> Message end.

%% Monitors the server and its janitor.
watch({kymo_recorder, Server, _, _}) ->
    %% The janitor may not have reached its loop yet.
    true = until(fun() -> length(janitors(Server)) =:= 1 end),
    [{P, monitor(process, P)} || P <- [Server | janitors(Server)]].

janitors(Server) ->
    {monitors, Monitored} = process_info(Server, monitors),
    [
        P
     || {process, P} <- Monitored,
        {current_function, {kymo_janitor, loop, 4}} =:= process_info(P, current_function)
    ].

gone(Watched) when is_list(Watched) ->
    [receive {'DOWN', M, process, P, _} -> ok end || {P, M} <- Watched];
gone(P) ->
    M = monitor(process, P),
    exit(P, kill),
    receive {'DOWN', M, process, P, _} -> ok end.

with_other(Fun) ->
    Other = spawn(fun F() -> receive _ -> F() end end),
    Fun(Other),
    gone(Other).

%% ---- traced ----------------------------------------------------------------------------

f(X) ->
    g(X),
    {X}.

f2(X) ->
    X.

version() ->
    0.

g(X) ->
    X.

boom(Why) ->
    throw(Why).
