%% SPDX-License-Identifier: Apache-2.0
%%
%% Programs with a planted cause of known size. A variant of a kind is a pure function of a
%% seed. Planting a variant starts its processes, makes one slow request, and returns what made
%% it slow and how long it took by the program's own clock. kymo_answers_SUITE runs them under a
%% recorder.
-module(kymo_answers_work).
-behaviour(gen_server).

-export([kinds/0, load/1, variant/2, plant/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).
%% Called with their module name, so that their calls are traced.
-export([hog/1, dirty_hog/1, spin/1, heap/1, ask/2, special/1, write/2]).

-type variant() :: #{
    kind := atom(),
    ms := pos_integer(),  % how long the cause takes
    n := 1..4,            % how often, or how much of it; depends on the kind
    hops := 0..3,         % servers that only pass the request on
    idle := 0..500,       % processes that do nothing
    load := 0..6          % pairs of processes that make requests of their own
}.
-type plant() :: #{
    causes := [atom()],           % names that `kymo why' may give to the cause
    where := [pid()],             % the processes in which it may be
    ms := non_neg_integer(),      % the least time that the cause took
    ns := non_neg_integer(),      % the time that the request took
    client := pid()
}.
-export_type([variant/0, plant/0]).

%% Loads the functions that block their scheduler from Dir/hog.so.
-spec load(file:filename()) -> ok | {error, term()}.
load(Dir) -> erlang:load_nif(filename:join(Dir, "hog"), 0).

-spec kinds() -> [atom()].
kinds() ->
    [backlog, selective, collection, starved, port, ets, downstream, timer, suspended, resumed_late, blocked, dirty,
     priority, asking, calling, disturbed, crowded,
     delegated, passed_on].

%% Returns the same variant for the same kind and seed on every runtime.
-spec variant(atom(), integer()) -> variant().
variant(Kind, Seed) ->
    Rand0 = rand:seed_s(exsss, {erlang:phash2(Kind), Seed, 14}),
    {[Ms, N, Hops, Idle, Load], _} = lists:mapfoldl(fun rand:uniform_s/2, Rand0, [120, 4, 4, 501, 7]),
    #{kind => Kind, ms => 60 + Ms, n => N, hops => Hops - 1, idle => Idle - 1, load => Load - 1}.

%% Runs a variant, then ends all processes that it has started.
-spec plant(variant()) -> plant().
plant(#{kind := Kind, ms := Ms, n := N, hops := Hops, idle := Idle, load := Load}) ->
    Before = processes(),
    [spawn(fun() -> receive stop -> ok end end) || _ <- lists:seq(1, Idle)],
    [spawn(fun() -> load(server(), I) end) || I <- lists:seq(1, Load)],
    {Causes, Process, Prepare, Server, Request} = prepare(Kind, Ms, N),
    Relays = relays(Hops, Server),
    Result = #{client := Client} = request(Prepare, hd(Relays ++ [Server]), pass(Hops, Request)),
    [exit(P, kill) || P <- processes() -- Before],
    Result#{
        causes => Causes,
        %% A process that keeps a server from running also keeps its clients from running.
        where => [Process | [P || Causes -- [running] =:= [scheduler], P <- [Client, Server | Relays]]],
        ms => least(Kind, Ms)
    }.

%% The part of the cause that the request certainly waited for.
least(backlog, Ms) -> Ms div 2;    % some of it is over when the client makes its request
least(collection, Ms) -> Ms div 2; % there is time between two collections
least(_, Ms) -> Ms * 8 div 10.

%% The request is made by a process of its own, as most requests are.
request(Prepare, Server, Request) ->
    Self = self(),
    {Pid, Ref} = spawn_monitor(fun() ->
        Prepare(),
        Start = erlang:monotonic_time(),
        ?MODULE:ask(Server, Request),
        End = erlang:monotonic_time(),
        Self ! {took, self(), erlang:convert_time_unit(End - Start, native, nanosecond)}
    end),
    receive
        {took, Pid, Ns} ->
            receive {'DOWN', Ref, process, Pid, _} -> ok end,
            #{client => Pid, ns => Ns};
        {'DOWN', Ref, process, Pid, Reason} ->
            error(Reason)
    end.

%% A chain of servers in front of another one, starting with the first.
relays(0, _) ->
    [];
relays(N, Server) ->
    Last = server(Server),
    relays(N - 1, Last) ++ [Last].

pass(0, Request) -> Request;
pass(N, Request) -> {pass, pass(N - 1, Request)}.

%% Makes small requests to a server of its own, again and again.
load(Server, I) ->
    ask(Server, {spin, 0}),
    receive
    after 3 + I -> load(Server, I)
    end.

nothing() -> ok.

%% Replies to one request after Ms milliseconds.
worker() ->
    receive {work, Ms, From} -> timer:sleep(Ms) end,
    gen_server:reply(From, ok).

%% {Names that `kymo why' may give to the cause, where it is, what the client does first, the
%% server it calls, the request}
prepare(backlog, Ms, N) ->
    S = server(),
    Others = fun() ->
        [spawn(?MODULE, ask, [S, {spin, Ms div N}]) || _ <- lists:seq(1, N)],
        wait_for(fun() -> process_info(S, status) =:= {status, running} end)
    end,
    {[queue], S, Others, S, {spin, 1}};
prepare(selective, Ms, N) ->
    %% A server that looks for one message behind many others, until the time is up.
    S = server(),
    {[running], S, fun nothing/0, S, {selective, 5000 * N, Ms}};
prepare(collection, Ms, N) ->
    S = server(),
    ask(S, {heap, 200000 * (N + 2)}),
    {[gc], S, fun nothing/0, S, {collect, Ms}};
prepare(starved, Ms, _) ->
    S = server(),
    Hogs = fun() -> [spawn_opt(?MODULE, hog, [Ms], [{scheduler, I}]) || I <- schedulers(online)] end,
    {[scheduler], S, Hogs, S, {spin, 1}};
prepare(port, Ms, N) ->
    S = server(),
    Open = fun() ->
        %% Another process opens the port, so that the client's only request is the slow one.
        {_, Ref} = spawn_monitor(?MODULE, ask, [S, {open, Ms, N bsl 19}]),
        receive {'DOWN', Ref, process, _, normal} -> ok end
    end,
    {[port], S, Open, S, write};
prepare(ets, Ms, N) ->
    %% A table with a single lock, which other processes write to all the time.
    Table = ets:new(table, [public]),
    S = server(),
    [
        spawn_opt(fun() -> forever(fun() -> ets:insert(Table, {X, X}) end) end, [{priority, low}])
     || X <- lists:seq(1, N)
    ],
    {[running, scheduler], S, fun nothing/0, S, {ets, Table, Ms}};
prepare(downstream, Ms, N) ->
    Last = server(),
    {[running], Last, fun nothing/0, hd(relays(N, Last)), pass(N, {spin, Ms})};
prepare(timer, Ms, _) ->
    S = server(),
    {[timer], S, fun nothing/0, S, {sleep, Ms}};
prepare(delegated, Ms, _) ->
    %% Another process replies.
    S = server(),
    Worker = spawn(fun worker/0),
    {[timer], Worker, fun nothing/0, S, {delegate, Worker, Ms}};
prepare(passed_on, Ms, _) ->
    %% Another server gets the request, and replies.
    S = server(),
    Other = server(),
    {[timer], Other, fun nothing/0, S, {pass_on, Other, {sleep, Ms}}};
prepare(suspended, Ms, _) ->
    S = server(),
    Wait = suspend(S, Ms, fun nothing/0),
    {[suspended], S, Wait, S, {spin, 1}};
prepare(resumed_late, Ms, _) ->
    %% The server's timeout expires while it is suspended, and no scheduler is free when it is
    %% resumed.
    S = server(),
    ask(S, {timeout, Ms div 4}),
    Busy = fun() -> busy(max, Ms div 4) end,
    Wait = suspend(S, Ms, Busy),
    {[suspended], S, Wait, S, {spin, 1}};
prepare(blocked, Ms, _) ->
    %% Stops all schedulers, as loading code or setting a breakpoint may do.
    S = server(),
    erts_debug:set_internal_state(available_internal_state, true),
    {[node, running, stopped], S, fun nothing/0, S, {block, Ms}};
prepare(dirty, Ms, _) ->
    S = server(),
    Hogs = fun() ->
        [spawn(?MODULE, dirty_hog, [Ms]) || _ <- schedulers(dirty_cpu)],
        erlang:yield()
    end,
    {[dirty_queue], S, Hogs, S, {dirty_hog, 1}};
prepare(priority, Ms, _) ->
    S = server(),
    ask(S, low),
    {[scheduler], S, fun() -> busy(high, Ms) end, S, {spin, 1}};

%% Other processes call the server while it waits in a callback; it waits for none of them.
prepare(asking, Ms, N) ->
    S = server(),
    Db = spawn(fun() -> receive {query, From} -> ?MODULE:spin(Ms), From ! {answer, self()} end end),
    {[running], Db, fun() -> bystanders(S, Ms, N) end, S, {query, Db}};
prepare(calling, Ms, N) ->
    Last = server(),
    S = server(Last),
    {[running], Last, fun() -> bystanders(S, Ms, N) end, S, pass(1, {spin, Ms})};
prepare(disturbed, Ms, N) ->
    S = server(),
    {[timer], S, fun() -> bystanders(S, Ms, N) end, S, {sleep, Ms}};
%% The server never waits for anything but a scheduler.
prepare(crowded, Ms, N) ->
    S = server(),
    Crowd = fun() -> [spawn(?MODULE, spin, [Ms]) || _ <- lists:seq(1, N + 2)] end,
    {[running, scheduler], S, Crowd, S, {spin, Ms}}.

%% They call while the server handles a request that takes Ms milliseconds.
bystanders(Server, Ms, N) ->
    [
        spawn(fun() -> timer:sleep(I * Ms div (8 + N)), ask(Server, {spin, 0}) end)
     || I <- lists:seq(1, 7 + N)
    ].

%% Suspends a process. It is resumed Ms milliseconds after the returned function was called, and
%% after First was called.
suspend(Pid, Ms, First) ->
    Self = self(),
    Suspend = fun() ->
        erlang:suspend_process(Pid),
        Self ! suspended,
        receive {wait, From} -> From ! waiting end,
        timer:sleep(Ms),
        First(),
        erlang:resume_process(Pid),
        receive stop -> ok end
    end,
    Jailer = spawn_opt(Suspend, [{priority, max}]),
    receive suspended -> ok end,
    fun() ->
        Jailer ! {wait, self()},
        receive waiting -> ok end
    end.

%% Keeps all schedulers busy.
busy(Priority, Ms) ->
    [spawn_opt(?MODULE, spin, [Ms], [{priority, Priority}, {scheduler, I}]) || I <- schedulers(online)],
    ok.

schedulers(online) -> lists:seq(1, erlang:system_info(schedulers_online));
schedulers(dirty_cpu) -> lists:seq(1, erlang:system_info(dirty_cpu_schedulers_online)).

wait_for(Fun) ->
    case Fun() of
        true -> ok;
        false -> erlang:yield(), wait_for(Fun)
    end.

forever(Fun) -> Fun(), forever(Fun).

%% ---- the server ----

server() -> server(none).

server(Next) ->
    {ok, Pid} = gen_server:start(?MODULE, Next, []),
    Pid.

ask(Server, Request) -> gen_server:call(Server, Request, infinity).

init(Next) -> {ok, #{next => Next}}.

handle_call({spin, Ms}, _, State) ->
    {reply, ?MODULE:spin(Ms), State};
handle_call({selective, Junk, Ms}, _, State) ->
    [self() ! {junk, I} || I <- lists:seq(1, Junk)],
    {reply, ?MODULE:special(now_ms() + Ms), State};
handle_call({heap, N}, _, State) ->
    {reply, ok, State#{heap => ?MODULE:heap(N)}};
handle_call({collect, Ms}, _, State) ->
    collect(now_ms() + Ms),
    {reply, ok, State};
handle_call({open, Ms, Bytes}, _, State) ->
    %% The program reads one line, and nothing more until it exits: the time begins with the write,
    %% however late that is.
    Wait = io_lib:format("read line; exec sleep ~.3f", [Ms / 1000]),
    Port = open_port({spawn_executable, "/bin/sh"}, [{args, ["-c", lists:flatten(Wait)]}, binary, stream]),
    %% The port exits with epipe when the other end is closed in the middle of a write.
    true = unlink(Port),
    {reply, ok, State#{port => Port, block => <<"\n", (binary:copy(<<0>>, Bytes))/binary>>}};
handle_call(write, _, #{port := Port, block := Block} = State) ->
    [?MODULE:write(Port, Block) || _ <- lists:seq(1, 2)],
    catch port_close(Port),
    {reply, ok, State};
handle_call({ets, Table, Ms}, _, State) ->
    insert(Table, now_ms() + Ms),
    {reply, ok, State};
handle_call({pass, Request}, _, #{next := Next} = State) ->
    {reply, ?MODULE:ask(Next, Request), State};
handle_call({sleep, Ms}, _, State) ->
    {reply, timer:sleep(Ms), State};
handle_call({delegate, Worker, Ms}, From, State) ->
    Worker ! {work, Ms, From},
    {noreply, State};
handle_call({pass_on, Other, Request}, From, State) ->
    Other ! {'$gen_call', From, Request},
    {noreply, State};
handle_call({query, Db}, _, State) ->
    Db ! {query, self()},
    receive {answer, Db} -> {reply, ok, State} end;
handle_call({block, Ms}, _, State) ->
    {reply, erts_debug:set_internal_state(block, Ms), State};
handle_call({dirty_hog, Ms}, _, State) ->
    {reply, ?MODULE:dirty_hog(Ms), State};
handle_call({timeout, Ms}, _, State) ->
    {reply, ok, State, Ms};
handle_call(low, _, State) ->
    process_flag(priority, low),
    {reply, ok, State}.

handle_cast(_, State) -> {noreply, State}.
handle_info({junk, _}, State) -> {noreply, State};
handle_info(timeout, State) -> {noreply, State}.

%% The port may be closed by the time the pipe can be written to again.
write(Port, Data) ->
    try port_command(Port, Data) catch error:badarg -> closed end.

collect(Deadline) ->
    garbage_collect(),
    case now_ms() < Deadline of
        true -> collect(Deadline);
        false -> ok
    end.

insert(Table, Deadline) ->
    ets:insert(Table, {1, 1}),
    case now_ms() < Deadline of
        true -> insert(Table, Deadline);
        false -> ok
    end.

%% Each round of the receive scans all messages in the mailbox.
special(Deadline) ->
    receive
        special -> error(unexpected)
    after 0 ->
        case now_ms() < Deadline of
            true -> ?MODULE:special(Deadline);
            false -> ok
        end
    end.

heap(N) -> [{I, <<I:64>>} || I <- lists:seq(1, N)].

spin(Ms) -> spin_until(now_ms() + Ms).

spin_until(Deadline) ->
    case now_ms() < Deadline of
        true -> spin_until(Deadline);
        false -> ok
    end.

now_ms() -> erlang:monotonic_time(millisecond).

hog(_) -> erlang:nif_error(not_loaded).
dirty_hog(_) -> erlang:nif_error(not_loaded).
