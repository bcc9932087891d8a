%% SPDX-License-Identifier: Apache-2.0
%%
%% The classic example tracer. What it reports is compared with what the runtime's own process
%% tracer reports for the same work.
-module(erl_msg_tracer_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2, end_per_testcase/2]).
-export([one_event_per_send/1, nothing_for_other_tags/1, messages_of_ports/1, dead_tracer/1,
         dead_tracer_is_taken_off/1, tracer_is_tracee/1, not_a_local_pid/1, before_load/1,
         second_load/1, upgrade_while_tracing/1, upgrade_refuses_strangers/1,
         tracer_dies_under_load/1, printed_session/1]).

suite() ->
    [{timetrap, {minutes, 2}}].

all() ->
    [one_event_per_send, nothing_for_other_tags, messages_of_ports, dead_tracer,
     dead_tracer_is_taken_off, tracer_is_tracee, not_a_local_pid, before_load, second_load,
     upgrade_while_tracing, upgrade_refuses_strangers, tracer_dies_under_load, printed_session].

init_per_suite(Config) ->
    Beam = code:which(erl_msg_tracer),
    Source = proplists:get_value(source, erl_msg_tracer:module_info(compile)),
    CSource = filename:join([filename:dirname(Source), "..", "c_src", "classic", "erl_msg_tracer.c"]),
    true = filelib:is_regular(CSource),
    [{beam, Beam}, {source, Source}, {c_source, CSource} | Config].

end_per_suite(_Config) ->
    ok.

init_per_testcase(_Case, Config) ->
    reload(?config(beam, Config)),
    Config.

end_per_testcase(_Case, _Config) ->
    erlang:trace(all, false, [all]),
    ok.

%%% What is reported

one_event_per_send(_Config) ->
    ok = erl_msg_tracer:load(),
    Work = fun chatter/1,
    Expected = [{From, To} || {trace, From, send, _, To} <- traced(Work, fun(T) -> [send, {tracer, T}] end)],
    Got = traced(Work, fun(T) -> [send, {tracer, erl_msg_tracer, T}] end),
    ?assertEqual(300, length(Expected)),
    ?assertEqual(shape(Expected), shape([{From, To} || {trace, From, To} <- Got])),
    ?assertEqual(300, length(Got)).

nothing_for_other_tags(_Config) ->
    ok = erl_msg_tracer:load(),
    Work = fun(Peer) ->
                   Pid = spawn_link(fun() -> receive stop -> ok end end),
                   register(erl_msg_tracer_suite_name, self()),
                   unregister(erl_msg_tracer_suite_name),
                   Pid ! stop,
                   catch erl_msg_tracer_suite_name ! nobody,
                   erlang:yield(),
                   erlang:garbage_collect(),
                   lists:reverse([1, 2, 3]),
                   Peer ! one
           end,
    Flags = [send, 'receive', procs, running, garbage_collection, call, exiting],
    erlang:trace_pattern({lists, reverse, '_'}, true, [local]),
    Got = traced(Work, fun(T) -> Flags ++ [{tracer, erl_msg_tracer, T}] end),
    Reference = traced(Work, fun(T) -> Flags ++ [{tracer, T}] end),
    erlang:trace_pattern({lists, reverse, '_'}, false, [local]),
    %% The reference has more than messages, so events that the tracer leaves out did occur.
    Tags = lists:usort([element(3, E) || E <- Reference]),
    ?assertEqual([], [call, gc_major_start, in, link, out, 'receive', register, send, spawn, unregister] -- Tags),
    ?assertEqual([kind(To) || {trace, _, send, _, To} <- Reference], [kind(To) || {trace, _, To} <- Got]),
    ?assertEqual([pid, erl_msg_tracer_suite_name, pid], [kind(To) || {trace, _, To} <- Got]).

%% Ports are traced, too: the runtime then calls the NIF outside of any process.
messages_of_ports(_Config) ->
    ok = erl_msg_tracer:load(),
    Self = self(),
    Tracer = collector(),
    Port = open_port({spawn, "cat"}, [stream, exit_status]),
    1 = erlang:trace(Port, true, [send, {tracer, erl_msg_tracer, Tracer}]),
    true = port_command(Port, "x"),
    receive {Port, {data, "x"}} -> ok end,
    ?assertEqual([{trace, Port, Self}], collected(Tracer, Port)),
    port_close(Port).

%%% The end of the tracer

dead_tracer(_Config) ->
    ok = erl_msg_tracer:load(),
    Dead = dead_process(),
    Tags = [send, send_to_non_existing_process, 'receive', call, return_to, spawn, exit, in, out,
            gc_minor_start, open, seq_trace],
    ?assertEqual(remove, erl_msg_tracer:enabled(trace_status, Dead, self())),
    ?assertEqual([discard], lists:usort([erl_msg_tracer:enabled(T, Dead, self()) || T <- Tags])),
    ?assertEqual(ok, erl_msg_tracer:trace(send, Dead, self(), x, #{extra => self()})),
    Alive = collector(),
    ?assertEqual(trace, erl_msg_tracer:enabled(trace_status, Alive, self())),
    ?assertEqual(trace, erl_msg_tracer:enabled(send, Alive, self())),
    ?assertEqual([discard], lists:usort([erl_msg_tracer:enabled(T, Alive, self()) || T <- Tags -- [send]])),
    erlang:trace(self(), true, [send, {tracer, erl_msg_tracer, Dead}]),
    ?assertEqual({tracer, []}, erlang:trace_info(self(), tracer)).

dead_tracer_is_taken_off(_Config) ->
    ok = erl_msg_tracer:load(),
    Tracer = collector(),
    {Tracee, Run} = tracee(fun(_) -> self() ! again end),
    1 = erlang:trace(Tracee, true, [send, {tracer, erl_msg_tracer, Tracer}]),
    ?assertEqual({tracer, {erl_msg_tracer, Tracer}}, erlang:trace_info(Tracee, tracer)),
    kill(Tracer),
    Run(self()),
    ?assertEqual({tracer, []}, erlang:trace_info(Tracee, tracer)),
    kill(Tracee).

tracer_is_tracee(_Config) ->
    ok = erl_msg_tracer:load(),
    ?assertEqual(discard, erl_msg_tracer:enabled(send, self(), self())),
    ?assertEqual(discard, erl_msg_tracer:enabled(trace_status, self(), self())),
    {Tracee, Run} = tracee(fun(Peer) -> Peer ! hello end),
    erlang:trace(Tracee, true, [send, {tracer, erl_msg_tracer, Tracee}]),
    Run(self()),
    receive hello -> ok end,
    Delivered = erlang:trace_delivered(Tracee),
    receive {trace_delivered, Tracee, Delivered} -> ok end,
    ?assertEqual({message_queue_len, 0}, process_info(Tracee, message_queue_len)),
    kill(Tracee).

not_a_local_pid(_Config) ->
    ok = erl_msg_tracer:load(),
    [begin
         ?assertEqual(remove, erl_msg_tracer:enabled(trace_status, State, self())),
         ?assertEqual(discard, erl_msg_tracer:enabled(send, State, self())),
         ?assertEqual(ok, erl_msg_tracer:trace(send, State, self(), x, #{extra => self()})),
         ?assertEqual(ok, erl_msg_tracer:trace(send, State, self(), x, not_a_map))
     end || State <- [[], undefined, 17, {self()}, make_ref(), remote_pid()]].

%% Processes send continuously while tracers exit and are replaced.
tracer_dies_under_load(_Config) ->
    ok = erl_msg_tracer:load(),
    Sink = collector(),
    Busy = [spawn_link(fun F() -> Sink ! x, receive stop -> ok after 0 -> F() end end) || _ <- lists:seq(1, 4)],
    [begin
         Tracer = collector(),
         [erlang:trace(P, true, [send, {tracer, erl_msg_tracer, Tracer}]) || P <- Busy],
         first_event(Tracer),
         kill(Tracer),
         [erlang:trace(P, false, [all]) || P <- Busy]
     end || _ <- lists:seq(1, 50)],
    [begin unlink(P), P ! stop end || P <- Busy],
    kill(Sink).

%%% Loading

before_load(_Config) ->
    ?assertEqual(error, erl_msg_tracer:enabled(send, self(), self())),
    ?assertEqual(error, erl_msg_tracer:trace(send, self(), self(), x, #{})).

second_load(_Config) ->
    ok = erl_msg_tracer:load(),
    ?assertMatch({error, {reload, _}}, erl_msg_tracer:load()),
    ?assertEqual(discard, erl_msg_tracer:enabled(call, self(), self())).

upgrade_while_tracing(Config) ->
    ok = erl_msg_tracer:load(),
    Tracer = collector(),
    {Tracee, Run} = tracee(fun(Peer) -> Peer ! hello end),
    1 = erlang:trace(Tracee, true, [send, {tracer, erl_msg_tracer, Tracer}]),
    Run(self()),
    {ok, Bin} = file:read_file(?config(beam, Config)),
    {module, _} = code:load_binary(erl_msg_tracer, ?config(beam, Config), Bin),
    ok = erl_msg_tracer:load(),
    true = code:soft_purge(erl_msg_tracer),
    %% Between the two loads the new code had no NIFs, so the runtime removed the tracer.
    1 = erlang:trace(Tracee, true, [send, {tracer, erl_msg_tracer, Tracer}]),
    Run(self()),
    Self = self(),
    Events = collected(Tracer, Tracee),
    ?assertEqual([{trace, Tracee, Self}], lists:usort(Events)),
    kill(Tracee).

upgrade_refuses_strangers(Config) ->
    Dir = ?config(priv_dir, Config),
    So = filename:join(Dir, "stranger"),
    cc(filename:join(?config(data_dir, Config), "stranger.c"), So ++ ".so"),
    ok = load_stranger(So, Dir),
    ?assertEqual(stranger, erl_msg_tracer:enabled(send, self(), self())),
    {ok, Bin} = file:read_file(?config(beam, Config)),
    {module, _} = code:load_binary(erl_msg_tracer, ?config(beam, Config), Bin),
    ?assertMatch({error, {upgrade, _}}, erl_msg_tracer:load()),
    ?assertEqual(error, erl_msg_tracer:enabled(send, self(), self())).

%%% The session that the documentation of erl_tracer shows

printed_session(Config) ->
    Dir = filename:join(?config(priv_dir, Config), "session"),
    ok = filelib:ensure_dir(filename:join(Dir, "x")),
    {ok, _} = file:copy(?config(source, Config), filename:join(Dir, "erl_msg_tracer.erl")),
    {ok, _} = file:copy(?config(c_source, Config), filename:join(Dir, "erl_msg_tracer.c")),
    "" = os:cmd("cd '" ++ Dir ++ "' && gcc -I '" ++ include_dir() ++
                    "' -fPIC -shared -o erl_msg_tracer.so erl_msg_tracer.c 2>&1"),
    Data = filename:join(Dir, "tmp.data"),
    Erl = filename:join([code:root_dir(), "bin", "erl"]),
    Port = open_port({spawn_executable, Erl},
                     [{args, ["+pc", "unicode"]}, {cd, Dir}, binary, stream, exit_status, stderr_to_stdout,
                      {env, [{"TERM", "dumb"}, {"ERL_LIBS", false}, {"ERL_FLAGS", false}]}]),
    Steps = [{"c(erl_msg_tracer), erl_msg_tracer:load().", "1> ok\n"},
                {"Tracer = spawn(fun F() -> receive M -> io:format(\"~p~n\",[M]), F() end end).",
                 "<0\\.[0-9]+\\.0>\n"},
                {"erlang:trace(new, true, [send,{tracer, erl_msg_tracer, Tracer}]).", "0\n"},
                %% The tracer and the shell print in any order.
                {"{ok, D} = file:open(\"" ++ Data ++ "\",[write]).",
                 "(?=(.|\n)*\\{ok,<0\\.[0-9]+\\.0>\\}\n)((.|\n)*\\{trace,<0\\.[0-9]+\\.0>,<0\\.[0-9]+\\.0>\\}\n){2}"},
                {"tl([end_of, session]).", "\\[session\\]\n"}],
    Out = lists:foldl(fun({Line, Pattern}, Seen) ->
                              true = port_command(Port, [Line, "\n"]),
                              Seen ++ expect(Port, Pattern, <<>>)
                      end, [], Steps),
    true = port_command(Port, "erlang:halt(0).\n"),
    receive {Port, {exit_status, 0}} -> ok end,
    Text = iolist_to_binary(Out),
    ct:log("~ts", [Text]),
    Traces = [L || L <- binary:split(Text, <<"\n">>, [global]), binary:match(L, <<"{trace,">>) =/= nomatch],
    ?assert(length(Traces) >= 2),
    %% An event may be printed after a prompt; it always has three elements.
    [?assertMatch({match, _},
                  re:run(L, "\\{trace,(<0\\.[0-9]+\\.0>|#Port<0\\.[0-9]+>),<0\\.[0-9]+\\.0>\\}$"))
     || L <- Traces],
    ?assertEqual(nomatch, binary:match(Text, <<"error">>)).

%%% Helpers

%% Loads the module again, without its library.
reload(Beam) ->
    code:purge(erl_msg_tracer),
    code:delete(erl_msg_tracer),
    code:purge(erl_msg_tracer),
    {module, erl_msg_tracer} = code:load_abs(filename:rootname(Beam)).

load_stranger(So, Dir) ->
    Source = filename:join(Dir, "erl_msg_tracer.erl"),
    ok = file:write_file(Source, ["-module(erl_msg_tracer).\n-export([enabled/3, load/1]).\n"
                                  "load(File) -> erlang:load_nif(File, []).\n"
                                  "enabled(_, _, _) -> error.\n"]),
    {ok, erl_msg_tracer, Bin} = compile:file(Source, [binary]),
    code:purge(erl_msg_tracer),
    {module, _} = code:load_binary(erl_msg_tracer, Source, Bin),
    code:purge(erl_msg_tracer),
    erl_msg_tracer:load(So).

cc(Source, So) ->
    Out = os:cmd("gcc -I '" ++ include_dir() ++ "' -fPIC -shared -o '" ++ So ++ "' '" ++ Source ++ "' 2>&1"),
    ?assertEqual({"", true}, {Out, filelib:is_regular(So)}).

%% The folder of erl_nif.h: given by the build, else that of the installed runtime.
include_dir() ->
    Dirs = [Dir || Dir <- [os:getenv("ERTS_INCLUDE_DIR")], is_list(Dir)] ++
        [filename:join([code:root_dir(), "erts-" ++ erlang:system_info(version), "include"]),
         filename:join([code:root_dir(), "usr", "include"])],
    hd([Dir || Dir <- Dirs, filelib:is_regular(filename:join(Dir, "erl_nif.h"))]).

%% Runs Work in a process that is traced with the flags that Flags returns for a tracer.
traced(Work, Flags) ->
    Tracer = collector(),
    {Tracee, Run} = tracee(Work),
    1 = erlang:trace(Tracee, true, Flags(Tracer)),
    Run(self()),
    erlang:trace(Tracee, false, [all]),
    Events = collected(Tracer, Tracee),
    kill(Tracee),
    Events.

%% Sends 300 messages: to a pid, to a registered name, and with send/3.
chatter(Peer) ->
    register(erl_msg_tracer_suite_peer, Peer),
    [begin
         Peer ! N,
         erl_msg_tracer_suite_peer ! N,
         erlang:send(Peer, {N, binary:copy(<<0>>, 1000)}, [noconnect])
     end || N <- lists:seq(1, 100)],
    unregister(erl_msg_tracer_suite_peer).

%% Replaces pids, which differ between runs.
shape(Pairs) ->
    [From] = lists:usort([From || {From, _} <- Pairs]),
    [{is_pid(From), To =:= self(), kind(To)} || {_, To} <- Pairs].

kind(Pid) when is_pid(Pid) -> pid;
kind(Name) -> Name.

%% A process that runs Work(Peer) when Run(Peer) is called. Only the messages of Work are
%% traced: Run gets its answer through the exit of a helper process.
tracee(Work) ->
    Pid = spawn(fun() -> tracee_loop(Work) end),
    {Pid, fun(Peer) -> tracee_run(Pid, Peer) end}.

tracee_loop(Work) ->
    receive
        {run, Helper, Peer} -> Work(Peer), exit(Helper, done), tracee_loop(Work);
        _ -> tracee_loop(Work)
    end.

tracee_run(Pid, Peer) ->
    {Helper, Ref} = spawn_monitor(fun() -> receive never -> ok end end),
    Pid ! {run, Helper, Peer},
    receive {'DOWN', Ref, process, Helper, done} -> ok end.

collector() ->
    spawn(fun() -> collect([]) end).

collect(Acc) ->
    receive
        {collected, From} -> From ! {self(), lists:reverse(Acc)};
        {first, From} when Acc =/= [] -> From ! {self(), first}, collect(Acc);
        Event when element(1, Event) =:= trace -> collect([Event | Acc])
    end.

%% The messages of the collector, once all trace messages caused by Tracee have been delivered.
collected(Tracer, Tracee) when is_pid(Tracee) ->
    Ref = erlang:trace_delivered(Tracee),
    receive {trace_delivered, Tracee, Ref} -> ok end,
    collected(Tracer);
collected(Tracer, Port) when is_port(Port) ->
    first_event(Tracer),
    collected(Tracer).

collected(Tracer) ->
    Tracer ! {collected, self()},
    receive {Tracer, Events} when is_list(Events) -> Events end.

first_event(Tracer) ->
    Tracer ! {first, self()},
    receive {Tracer, first} -> ok end.

dead_process() ->
    {Pid, Ref} = spawn_monitor(fun() -> ok end),
    receive {'DOWN', Ref, process, Pid, _} -> Pid end.

kill(Pid) ->
    unlink(Pid),
    Ref = monitor(process, Pid),
    exit(Pid, kill),
    receive {'DOWN', Ref, process, Pid, _} -> ok end.

%% A pid in external term format: NEW_PID_EXT of a node that does not exist.
remote_pid() ->
    Node = <<"nowhere@nowhere">>,
    binary_to_term(<<131, 88, 119, (byte_size(Node)), Node/binary, 1:32, 2:32, 3:32>>).

expect(Port, Pattern, Acc) ->
    receive
        {Port, {data, Data}} ->
            Seen = <<Acc/binary, Data/binary>>,
            case re:run(Seen, Pattern, [{capture, none}]) of
                match -> [Seen];
                nomatch -> expect(Port, Pattern, Seen)
            end;
        {Port, {exit_status, Status}} ->
            ct:fail("the shell ended with ~p after ~ts", [Status, Acc])
    after 30000 ->
            ct:fail("no ~ts in ~ts", [Pattern, Acc])
    end.
