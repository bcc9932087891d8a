%% SPDX-License-Identifier: Apache-2.0
%%
%% What a recorder does to processes that only wait: nothing, from the end of the calls that start it
%% to the beginning of the one that stops it, while all of kymo is in use. Two witnesses: the
%% reductions of the processes, and a trace session of another tracer where the runtime has sessions.
-module(kymo_observer_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-compile(export_all).
-compile(nowarn_export_all).

-define(COOKIE, "kymo_observer").

all() -> [witnesses_see, everything_on, without_budget, shed, taken_is_noticed, attached, own_is_hidden].

suite() -> [{timetrap, {minutes, 3}}].

init_per_testcase(Case, Config) ->
    Dir = filename:join(?config(priv_dir, Config), atom_to_list(Case)),
    ok = file:make_dir(Dir),
    [{dir, Dir} | Config].

end_per_testcase(_, _) -> ok.

in_peer(Config, Function) ->
    Peer = kymo_peer:start(Config),
    try
        kymo_peer:call(Peer, ?MODULE, Function, [?config(dir, Config)])
    after
        kymo_peer:stop(Peer)
    end.

%% ---- processes that wait, and witnesses ------------------------------------------------

%% Processes of several kinds.
waiters() ->
    Plain = [spawn(fun() -> receive stop -> ok end end) || _ <- lists:seq(1, 20)],
    Proc = [proc_lib:spawn(fun() -> receive stop -> ok end end) || _ <- lists:seq(1, 5)],
    Hibernating = [spawn(fun() -> erlang:hibernate(?MODULE, waits, []) end) || _ <- lists:seq(1, 5)],
    Large = [
        spawn(fun() ->
            L = lists:seq(1, 200000),
            receive stop -> length(L) end
        end)
     || _ <- lists:seq(1, 3)
    ],
    Full = [spawn(fun() -> receive stop -> ok end end) || _ <- lists:seq(1, 3)],
    _ = [P ! N || P <- Full, N <- lists:seq(1, 50)],
    All = Plain ++ Proc ++ Hibernating ++ Large ++ Full,
    _ = [waiting(P) || P <- All],
    All.

waits() -> receive stop -> ok end.

%% Returns when the process waits, without waking it.
waiting(P) ->
    true = kymo_cli:until(fun() -> process_info(P, status) =:= {status, waiting} end),
    P.

%% Processes of the node that only wait as long as nobody asks something of them. The file server is
%% not among them: snapshot/2 asks it about the folder.
system() ->
    [P || Name <- [application_controller, kernel_refc, init, code_server],
          P <- [whereis(Name)], is_pid(P)].

%% What the witnesses see of these processes from now on.
watch(Processes) ->
    Readers = [P || P <- processes(), {initial_call, {kymo_busiest, init, 1}} <- [process_info(P, initial_call)]],
    Session =
        case has_sessions() of
            true ->
                S = apply(trace, session_create, [observer, self(), []]),
                _ = [1 = apply(trace, process, [S, P, true, [running]]) || P <- Processes],
                S;
            false ->
                none
        end,
    _ = flushed(),
    {Session, Readers, alone(Readers, fun() -> [{P, reductions(P)} || P <- Processes] end)}.

%% Calls a function while kymo's processes that read sizes of all processes do not: of two that read of
%% one process at the same moment, the second asks it by a signal, and wakes it.
alone(Readers, Fun) ->
    Suspended = [P || P <- Readers, is_process_alive(P), erlang:suspend_process(P)],
    try
        Fun()
    after
        [true = erlang:resume_process(P) || P <- Suspended]
    end.

%% Asks no process, unlike code:ensure_loaded/1.
has_sessions() -> list_to_integer(erlang:system_info(otp_release)) >= 27.

%% The processes that have run since, with the number of times that the session has seen and the
%% difference of the reductions.
woken({Session, Readers, Before}) ->
    In = [P || {trace, P, in, _} <- delivered(Session)],
    Now = alone(Readers, fun() -> [{P, Then, reductions(P)} || {P, Then} <- Before] end),
    [{P, length([Q || Q <- In, Q =:= P]), Reductions - Then, about(P)}
     || {P, Then, Reductions} <- Now, lists:member(P, In) orelse Reductions =/= Then].

about(P) -> {process_info(P, registered_name), process_info(P, initial_call)}.

reductions(P) ->
    {reductions, N} = process_info(P, reductions),
    N.

delivered(none) ->
    [];
delivered(Session) ->
    Ref = apply(trace, delivered, [Session, all]),
    receive {trace_delivered, all, Ref} -> flushed() end.

flushed() ->
    receive
        {trace, _, _, _} = T -> [T | flushed()]
    after 0 -> []
    end.

%% ---- cases --------------------------------------------------------------------------

%% The witnesses see a process that is woken.
witnesses_see(Config) -> in_peer(Config, peer_witnesses_see).

peer_witnesses_see(_) ->
    [P, Q | _] = All = waiters(),
    Watched = watch(All),
    [] = woken(Watched),
    {links, []} = process_info(P, links),
    waiting(P),
    ?assertMatch([{P, _, Reductions, _}] when Reductions > 0, woken(Watched)),
    Again = watch([Q]),
    _ = erlang:trace_info(Q, flags),
    waiting(Q),
    ?assertMatch([{Q, _, _, _}], woken(Again)),
    ok.

everything_on(Config) -> in_peer(Config, peer_everything_on).

peer_everything_on(Dir) -> on(Dir, #{budget => #{cpu => 50}, counters => 10, system_monitor => default, triggers => triggers()}).

%% All that this runtime allows.
triggers() ->
    Avoided = kymo_faults:avoided(),
    [{call, "lists:_/_", 10000}, {schedule, 10000}, {exit, '_'}] ++
        [{mailbox, 40} || not lists:member(signals, Avoided)] ++
        [{collection, 10000} || not lists:member(collections, Avoided)].

without_budget(Config) -> in_peer(Config, peer_without_budget).

peer_without_budget(Dir) -> on(Dir, #{counters => 10, system_monitor => default}).

on(Dir, Options) ->
    Rec = filename:join(Dir, "rec"),
    Old = waiters(),
    System = system(),
    Load = spawn(fun load/0),
    {ok, R} = kymo:start(Options#{dir => Rec, memory => 8 bsl 20}),
    {ok, _} = kymo:trace(R, spec()),
    started(R),
    New = waiters(),
    %% Everything once, which loads the code of this suite and of OTP that is used.
    Command = kymo:cli_path(),
    use(R, Dir, Rec, Command, 0),
    Watched = watch(Old ++ System ++ New),
    [] = woken(Watched),
    _ = [use(R, Dir, Rec, Command, N) || N <- lists:seq(1, 3)],
    ?assertEqual([], woken(Watched)),
    {ok, _} = kymo:stop(R),
    io:format("woken by the stop: ~p~n", [woken(Watched)]),
    exit(Load, kill),
    ok.

use(R, Dir, Rec, Command, N) ->
    To = filename:join(Dir, integer_to_list(N)),
    {ok, _} = kymo:snapshot(R, To),
    used(R, 20),
    {0, _} = kymo_cli:command(Command, ["top", "-n", "2", "-d", "100ms", Rec]),
    {0, _} = kymo_cli:command(Command, ["info", To]).

spec() ->
    #{processes => all, ports => all, events => [messages, running, procs, ports, garbage_collection],
      functions => ["lists:seq/2", "lists:sort/1"]}.

%% Tracing has been set, and the names of the processes are known. With a budget a process of its own
%% looks them up.
started(R) ->
    #{state := active} = kymo:info(R),
    Names = fun() -> [P || P <- processes(), {initial_call, {kymo_server, name_all, _}} <- [process_info(P, initial_call)]] end,
    true = kymo_cli:until(fun() -> Names() =:= [] end),
    #{state := active} = kymo:info(R),
    ok.

%% Asks for the info, and waits until the recorder has taken that many more samples.
used(R, Samples) ->
    #{counters := #{samples := N}} = kymo:info(R),
    true = kymo_cli:until(fun() -> #{counters := #{samples := Now}} = kymo:info(R), Now >= N + Samples end).

load() ->
    Self = self(),
    _ = spawn(fun() -> Self ! {self(), lists:sort(lists:seq(1, 100))} end),
    receive {_, _} -> ok end,
    receive after 1 -> load() end.

%% A budget that sheds whole kinds of events changes the flags of all processes. On runtimes without
%% sessions each of them has to be asked whether another tracer traces it: it is woken then, and at no
%% other time.
shed(Config) -> in_peer(Config, peer_shed).

peer_shed(Dir) ->
    Old = waiters(),
    Load = [spawn(fun() -> chatter(self()) end) || _ <- [1, 2]],
    {ok, R} = kymo:start(#{dir => filename:join(Dir, "rec"), memory => 8 bsl 20, budget => #{events => 1000}}),
    {ok, _} = kymo:trace(R, #{processes => all, events => [messages, running, procs]}),
    started(R),
    Watched = watch(Old),
    true = kymo_cli:until(fun() ->
        #{budget := #{shed := #{events := Events}}} = kymo:info(R),
        lists:member(messages, Events)
    end),
    #{budget := #{times := Times}} = kymo:info(R),
    Woken = woken(Watched),
    io:format("shed ~p times, woken: ~p~n", [Times, Woken]),
    _ = has_sessions() andalso ?assertEqual([], Woken),
    [?assert(Reductions =< 4 * Times) || {_, _, Reductions, _} <- Woken],
    {ok, _} = kymo:stop(R),
    _ = [exit(P, kill) || P <- Load],
    ok.

chatter(Self) ->
    Self ! hello,
    receive hello -> chatter(Self) end.

%% Flags that another tracer has removed are noticed nevertheless, also in a process that waits, and only
%% that process is asked.
taken_is_noticed(Config) -> in_peer(Config, peer_taken_is_noticed).

peer_taken_is_noticed(Dir) ->
    [P | Others] = waiters(),
    {ok, R} = kymo:start(#{dir => filename:join(Dir, "rec"), memory => 4 bsl 20}),
    {ok, _} = kymo:trace(R, #{processes => all, events => [messages, running]}),
    started(R),
    Watched = watch(Others),
    #{taken := 0} = kymo:info(R),
    case kymo_tracing:modes() of
        [session | _] ->
            [Weak] = [S || {'$kymo', _} = S <- apply(trace, session_info, [P])],
            1 = apply(trace, process, [Weak, P, false, [send]]);
        [global] ->
            1 = erlang:trace(P, false, [send])
    end,
    #{taken := 1, tracing := #{taken := #{processes := 1}}} = kymo:info(R),
    [] = woken(Watched),
    {ok, #{taken := 1}} = kymo:stop(R),
    ok.

%% The same while kymo attach records: it shows its progress, takes snapshots, and other commands
%% attach to the recorder.
attached(Config) ->
    Dir = ?config(dir, Config),
    Name = "kymo_observed_" ++ os:getpid(),
    {ok, Peer, Node} = peer:start(#{
        name => list_to_atom(Name), longnames => false, connection => standard_io, wait_boot => 60000,
        args => ["+S", "2:2", "-setcookie", ?COOKIE, "-pa", filename:dirname(code:which(?MODULE))],
        env => [{"ERL_LIBS", ""}, {"TMPDIR", Dir}]
    }),
    Out = filename:join(Dir, "out"),
    Witness = peer:call(Peer, ?MODULE, witness, []),
    Command = attach(["--keep", "--events", "messages,running,procs,garbage_collection,calls", "--functions", "lists:seq/2",
                      "--counters", "10ms", "-o", Out, atom_to_list(Node)]),
    kymo_cli:await_text(Command, "Enter copies a snapshot"),
    ok = peer:call(Peer, ?MODULE, witness_begins, [Witness]),
    port_command(Command, "\n"),
    kymo_cli:await_text(Command, "snapshot-1"),
    port_command(Command, "\n"),
    kymo_cli:await_text(Command, "snapshot-2"),
    {os_pid, Os} = erlang:port_info(Command, os_pid),
    _ = os:cmd("kill -INT " ++ integer_to_list(Os)),
    {0, _} = kymo_cli:collect(Command, 60000),
    {0, _} = kymo(["attach", "--snapshot", "-o", filename:join(Dir, "third"), atom_to_list(Node)]),
    {0, _} = kymo(["top", "-n", "2", "-d", "100ms", atom_to_list(Node)]),
    ?assertEqual([], peer:call(Peer, ?MODULE, witness_saw, [Witness])),
    {0, _} = kymo(["attach", "--detach", atom_to_list(Node)]),
    peer:stop(Peer).

%% No command shows processes of kymo, or what other processes have asked of them. --pid shows them.
own_is_hidden(Config) -> in_peer(Config, peer_own_is_hidden).

peer_own_is_hidden(Dir) ->
    Rec = filename:join(Dir, "rec"),
    Load = spawn(fun load/0),
    Before = processes(),
    {ok, R} = kymo:start(#{dir => Rec, memory => 8 bsl 20, budget => #{cpu => 50}, counters => 10, system_monitor => default,
                           triggers => [{exit, '_'}, {check, fun() -> false end, 10}]}),
    {ok, _} = kymo:trace(R, #{processes => all, events => [messages, running, procs]}),
    started(R),
    used(R, 5),
    {ok, _} = kymo:snapshot(R, filename:join(Dir, "snapshot")),
    used(R, 5),
    Own = [list_to_binary(pid_to_list(P)) || P <- processes() -- Before, process_info(P, links) =/= undefined,
           {_, Parent} <- [process_info(P, parent)], Parent =/= Load],
    {ok, _} = kymo:stop(R),
    exit(Load, kill),
    Server = list_to_binary(pid_to_list(element(2, R))),
    ?assert(lists:member(Server, Own)),
    _ = [begin
             {0, Text} = kymo_cli:run(Args ++ [Rec]),
             [?assertEqual({Args, nomatch}, {Args, string:find(Text, Shown)})
              || Shown <- ["kymo_server", "kymo_janitor", "kymo_counters", "kymo_busiest", "kymo_trigger", <<Server/binary, " ">>]]
         end || Args <- [["requests"], ["stats", "--by", "process"], ["why", "-n", "5"], ["mailboxes"]]],
    %% Parents of processes have names, too; rows are what has a role.
    {0, Page} = kymo_cli:run(["report", "-q", "-o", "-", Rec]),
    ?assertEqual(nomatch, re:run(Page, "\"role\":\"kymo_(server|janitor|counters|busiest|trigger)", [{capture, first, binary}])),
    {0, Asked} = kymo_cli:run(["requests", "--pid", Server, Rec]),
    ?assertNotEqual(nomatch, string:find(Asked, "kymo_server")),
    ok.

kymo([Command | Args]) -> kymo_cli:run([Command, "--erl", erl(), "--cookie", ?COOKIE | Args]).

attach(Args) ->
    open_port(
        {spawn_executable, kymo:cli_path()},
        [{args, ["attach", "--erl", erl(), "--cookie", ?COOKIE | Args]}, exit_status, stderr_to_stdout, binary, use_stdio, hide]
    ).

erl() -> filename:join([code:root_dir(), "bin", "erl"]).

%% A process of the observed node that has processes wait, and watches them.
witness() ->
    spawn(fun() ->
        Old = waiters(),
        receive
            {begins, From} ->
                Watched = watch(Old ++ waiters()),
                From ! {self(), ok},
                receive {saw, To} -> To ! {self(), woken(Watched)} end
        end
    end).

witness_begins(Witness) -> asked(Witness, begins).
witness_saw(Witness) -> asked(Witness, saw).

asked(Witness, What) ->
    Witness ! {What, self()},
    receive {Witness, Answer} -> Answer end.
