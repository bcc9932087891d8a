%% SPDX-License-Identifier: Apache-2.0
%%
%% What was wrong before the recording began: processes that wait for each other or for a server, or are
%% suspended, since before tracing began. Each case starts such a node, and knows who waits for whom. The
%% recording has it (table observed), and `kymo check' names the culprit; in a node where the same calls are
%% answered it finds nothing of the kind.
-module(kymo_observed_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-compile(export_all).
-compile(nowarn_export_all).

all() ->
    [deadlock, postponed, endless_loop, suspended, busy_port, global_lock, mailbox, answered, idle, not_calls, bounded, huge_stack,
     ambiguous, wrong_arguments].

suite() -> [{timetrap, {minutes, 3}}].

init_per_testcase(Case, Config) ->
    Dir = filename:join(?config(priv_dir, Config), atom_to_list(Case)),
    ok = file:make_dir(Dir),
    [{dir, Dir} | Config].

end_per_testcase(_, _) -> ok.

%% Calls a function in a node, and records the node for half a second after that.
recorded(Start, Config) ->
    Dir = filename:join(?config(dir, Config), "rec"),
    Peer = kymo_peer:start(Config),
    ok = kymo_peer:call(Peer, ?MODULE, record, [Dir, Start]),
    kymo_peer:stop(Peer),
    Dir.

record(Dir, Start) ->
    ?MODULE:Start(),
    {ok, R} = kymo:start(#{dir => Dir, memory => 16 bsl 20, counters => 20}),
    {ok, _} = kymo:trace(R, #{processes => all, events => [messages, running, procs]}),
    receive after 500 -> ok end,
    {ok, _} = kymo:stop(R),
    ok.

rows(Dir, Where) ->
    {0, Text} = kymo_cli:run(["sql", "-q", "--json", Dir, "select * from observed where " ++ Where]),
    [kymo_cli:json(Line ++ "\n") || Line <- string:lexemes(binary_to_list(Text), "\n")].

findings(Dir) ->
    {_, Text} = kymo_cli:run(["check", "-q", "--json", Dir]),
    #{<<"findings">> := Findings} = kymo_cli:json(binary_to_list(Text)),
    [{binary_to_atom(Rule), Sentence} || #{<<"rule">> := Rule, <<"finding">> := Sentence} <- Findings].

%% The first finding is of this rule, and has all of these parts.
first(Rule, Parts, Dir) ->
    [{First, Sentence} | _] = All = findings(Dir),
    ?assertEqual({Rule, []}, {First, [Part || Part <- Parts, string:find(Sentence, Part) =:= nomatch]}, All).

none(Rules, Dir) -> ?assertEqual([], [F || {Rule, _} = F <- findings(Dir), lists:member(Rule, Rules)]).

%% ---- the processes ----------------------------------------------------------------------

%% A registered process that runs a function. Returns when it waits or is suspended.
named(Name, Fun) ->
    Self = self(),
    Pid = spawn(fun() -> true = register(Name, self()), Self ! {self(), named}, Fun() end),
    receive {Pid, named} -> rests(Pid) end.

rests(Pid) ->
    true = kymo_cli:until(fun() ->
        lists:member(process_info(Pid, status), [{status, waiting}, {status, suspended}])
    end),
    Pid.

asks(Server) -> gen_server:call(Server, hello, infinity).

%% A gen_server that handles calls with a function.
init(Handle) -> {ok, Handle}.
handle_call(Request, From, Handle) -> Handle(Request, From, Handle).
handle_cast(_, Handle) -> {noreply, Handle}.

server(Name, Handle) ->
    {ok, _} = gen_server:start({local, Name}, ?MODULE, Handle, []),
    ok.

%% ---- cases ------------------------------------------------------------------------------

deadlock(Config) ->
    Dir = recorded(locked, Config),
    ?assertMatch([#{<<"waits_for">> := <<"left">>, <<"function">> := <<"gen:do_call/", _/binary>>,
                    <<"called_from">> := <<"kymo_observed_SUITE:", _/binary>>}], rows(Dir, "process = 'right'")),
    first(deadlock, ["left waits for right", "right waits for left"], Dir),
    %% Those that wait behind it.
    Hung = [Text || {hung, Text} <- findings(Dir)],
    ?assertMatch([_], [Text || Text <- Hung, string:find(Text, "4 processes") =/= nomatch, string:find(Text, "the answer of left") =/= nomatch]).

locked() ->
    server(left, fun(_, _, H) -> {reply, asks(right), H} end),
    server(right, fun(_, _, H) -> {reply, asks(left), H} end),
    _ = [rests(spawn(?MODULE, asks, [left])) || _ <- lists:seq(1, 3)],
    _ = [rests(whereis(Name)) || Name <- [left, right]],
    ok.

%% As a pool whose resources are all in use.
postponed(Config) ->
    Dir = recorded(exhausted, Config),
    ?assertEqual(3, length(rows(Dir, "waits_for = 'pool'"))),
    first(hung, ["3 processes, such as client_1, wait", "the answer of pool", "taken the requests"], Dir).

exhausted() ->
    server(pool, fun(_, _, H) -> {noreply, H} end),
    _ = [named(Name, fun() -> asks(pool) end) || Name <- [client_1, client_2, client_3]],
    ok.

endless_loop(Config) ->
    first(hung, ["waiter", "the answer of busy", "busy runs for ", "in kymo_observed_SUITE:forever/0"], recorded(loops, Config)).

loops() ->
    server(busy, fun(_, _, _) -> forever() end),
    named(waiter, fun() -> asks(busy) end),
    ok.

forever() -> forever().

suspended(Config) ->
    Dir = recorded(suspends, Config),
    ?assertMatch([#{<<"kind">> := <<"suspended">>, <<"mailbox">> := 1}], rows(Dir, "process = 'halted'")),
    first(hung, ["client", "the answer of halted", "halted is suspended"], Dir),
    ?assertMatch([_ | _], [T || {suspended, T} <- findings(Dir), string:find(T, "suspend_process") =/= nomatch]).

%% The process that suspends must live.
suspends() ->
    server(halted, fun(_, _, H) -> {reply, ok, H} end),
    _ = named(holder, fun() -> true = erlang:suspend_process(whereis(halted)), receive stop -> ok end end),
    named(client, fun() -> asks(halted) end),
    ok.

busy_port(Config) ->
    Dir = recorded(writes, Config),
    first(suspended, ["writer", "erlang:port_command/", "does not read"], Dir).

writes() ->
    named(writer, fun() ->
        Port = open_port({spawn, "sleep 100"}, [binary]),
        write(Port, binary:copy(<<0>>, 1 bsl 20))
    end),
    ok.

write(Port, Data) ->
    true = erlang:port_command(Port, Data),
    write(Port, Data).

global_lock(Config) ->
    Dir = recorded(locks, Config),
    ?assertMatch([#{<<"process">> := <<"keeper">>, <<"lock">> := <<"the_lock">>, <<"called_from">> := <<"kymo_observed_SUITE:keeps/0">>}],
                 rows(Dir, "kind = 'holds_global_lock' and time_ns = (select min(time_ns) from observed where kind = 'holds_global_lock')")).

locks() ->
    named(keeper, fun ?MODULE:keeps/0),
    ok.

keeps() ->
    true = global:set_lock({the_lock, self()}, [node()]),
    timer:sleep(infinity),
    ok.

%% A selective receive that passes over what is there.
mailbox(Config) ->
    Dir = recorded(passes_over, Config),
    ?assertMatch([#{<<"mailbox">> := 5, <<"function">> := <<"kymo_observed_SUITE:picks/0">>}], rows(Dir, "process = 'picky'")).

passes_over() ->
    P = named(picky, fun ?MODULE:picks/0),
    _ = [P ! N || N <- [1, 2, 3, 4, 5]],
    rests(P),
    ok.

picks() -> receive this -> ok end.

%% Calls that take a while, but are answered.
answered(Config) ->
    Dir = recorded(serves, Config),
    none([hung, deadlock, suspended], Dir).

serves() ->
    server(slow, fun(_, _, H) -> receive after 20 -> {reply, ok, H} end end),
    _ = [spawn(?MODULE, asks_on, [slow]) || _ <- lists:seq(1, 5)],
    ok.

asks_on(Server) ->
    asks(Server),
    asks_on(Server).

%% Processes that wait for whatever comes next are left out: those of OTP, of behaviours, and of others.
idle(Config) ->
    Dir = recorded(rest, Config),
    ?assertEqual([], rows(Dir, "called_from is null or process in ('server', 'loop')")),
    none([hung, deadlock, suspended, blocked], Dir).

rest() ->
    server(server, fun(_, _, H) -> {reply, ok, H} end),
    named(loop, fun ?MODULE:picks/0),
    ok.

%% Processes that monitor one process for life, and wait for something else, or have a message left.
not_calls(Config) ->
    Dir = recorded(watch_and_wait, Config),
    ?assertEqual([], rows(Dir, "waits_for is not null")),
    none([hung, deadlock, suspended], Dir).

watch_and_wait() ->
    {ok, L} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}, {active, false}]),
    {ok, Port} = inet:port(L),
    {ok, C} = gen_tcp:connect({127, 0, 0, 1}, Port, [{active, false}]),
    {ok, _} = gen_tcp:accept(L),
    _ = [named(Name, fun() -> _ = monitor(process, init), Wait(), ok end)
         || {Name, Wait} <- [{accepts, fun() -> gen_tcp:accept(L) end},
                             {sleeps, fun() -> timer:sleep(60000) end},
                             {picks, fun ?MODULE:picks/0}]],
    _ = named(receives, fun() -> _ = monitor(process, init), receive {socket, S} -> gen_tcp:recv(S, 0) end, ok end),
    ok = gen_tcp:controlling_process(C, whereis(receives)),
    receives ! {socket, C},
    picks ! stray,
    _ = [rests(whereis(Name)) || Name <- [receives, picks]],
    ok.

bounded(Config) ->
    Dir = recorded(many, Config),
    N = length(rows(Dir, "waits_for = 'pool'")),
    ?assert(N > 100 andalso N =< 500, N),
    first(hung, ["At least ", "the answer of pool"], Dir).

many() ->
    server(pool, fun(_, _, H) -> {noreply, H} end),
    _ = [rests(spawn(?MODULE, asks, [pool])) || _ <- lists:seq(1, 3000)],
    ok.

%% Only the top of a stack is read.
huge_stack(Config) ->
    Dir = recorded(recurses, Config),
    ?assertMatch([#{<<"waits_for">> := <<"pool">>, <<"called_from">> := <<"kymo_observed_SUITE:deep/1">>}], rows(Dir, "process = 'deep'")).

recurses() ->
    server(pool, fun(_, _, H) -> {noreply, H} end),
    named(deep, fun() -> deep(1000000) end),
    ok.

deep(0) -> asks(pool) + 1;
deep(N) -> deep(N - 1) + 1.

%% Of a process that monitors several, nobody says for which of them it waits.
ambiguous(Config) ->
    Dir = recorded(monitors, Config),
    ?assertMatch([#{<<"waits_for">> := null}], rows(Dir, "process = 'client'")),
    none([hung, deadlock], Dir).

monitors() ->
    server(pool, fun(_, _, H) -> {noreply, H} end),
    named(client, fun() -> _ = monitor(process, init), asks(pool) end),
    ok.

wrong_arguments(Config) ->
    {ok, R} = kymo:start(#{dir => filename:join(?config(dir, Config), "rec")}),
    {kymo_tracer, State} = kymo:tracer(R),
    Good = [State, waits, {self(), undefined}, undefined, 0, {undefined, {m, f, 1}}],
    ?assertEqual(ok, apply(kymo_tracer, note_observed, Good)),
    Wrong = [{1, make_ref()}, {2, sleeps}, {3, {self(), other}}, {3, self()}, {4, "lock"}, {5, -1}, {6, {m, undefined}}, {6, mfa}],
    [?assertError(badarg, apply(kymo_tracer, note_observed, lists:sublist(Good, N - 1) ++ [Bad] ++ lists:nthtail(N, Good)))
     || {N, Bad} <- Wrong],
    {ok, _} = kymo:stop(R),
    ?assertEqual({error, not_recorded}, apply(kymo_tracer, note_observed, Good)).
