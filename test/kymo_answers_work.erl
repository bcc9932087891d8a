%% SPDX-License-Identifier: Apache-2.0
%%
%% Programs with a planted cause of known size. Each plant is a function of a seed: it
%% starts its processes, makes one slow request, and says what made it slow and how long
%% it took by the clock of the program itself. Run under a recorder by
%% kymo_answers_SUITE.
-module(kymo_answers_work).
-behaviour(gen_server).

-export([kinds/0, load/1, plant/2]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).
%% Called through their module, so that calls of them are seen.
-export([hog/1, dirty_hog/1, spin/1, heap/1, ask/2, special/1, write/2]).

-type cause() :: atom().
-export_type([cause/0]).

%% Loads the functions that give no scheduler back from Dir/hog.so.
-spec load(file:filename()) -> ok | {error, term()}.
load(Dir) -> erlang:load_nif(filename:join(Dir, "hog"), 0).

-spec kinds() -> [atom()].
kinds() ->
    [backlog, selective, collection, starved, port, ets, downstream, timer, suspended, blocked, dirty,
     priority, asking, calling, disturbed, crowded].

%% The cause of a slow request: what `kymo why' calls it, the process that it happens
%% in, and the nanoseconds that the request took.
-spec plant(atom(), rand:state()) ->
    #{causes := [cause()], process := pid(), ns := non_neg_integer(), client := pid()}.
plant(Kind, Seed0) ->
    {X, Seed1} = rand:uniform_s(60, Seed0),
    {N, _} = rand:uniform_s(4, Seed1),
    Ms = 100 + X,
    Before = processes(),
    {Causes, Process, Request} = prepare(Kind, Ms, N),
    Result = request(Request),
    [exit(P, kill) || P <- processes() -- Before, P =/= Process],
    exit(Process, kill),
    Result#{causes => Causes, process => Process}.

%% From a process of its own, as most requests are.
request(Fun) ->
    Self = self(),
    {Pid, Ref} = spawn_monitor(fun() ->
        Start = erlang:monotonic_time(),
        Fun(),
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

%% {What `kymo why' may call it, where, the request}
prepare(backlog, Ms, N) ->
    S = server(),
    [spawn(?MODULE, ask, [S, {spin, Ms div N}]) || _ <- lists:seq(1, N)],
    wait_for(fun() -> process_info(S, status) =:= {status, running} end),
    {[queue], S, fun() -> ask(S, {spin, 1}) end};
prepare(selective, Ms, _) ->
    %% A server that looks for one message behind many others, until the time is up.
    S = server(),
    {[running], S, fun() -> ask(S, {selective, Ms}) end};
prepare(collection, Ms, N) ->
    S = server(),
    ask(S, {heap, 200000 * (N + 2)}),
    {[gc], S, fun() -> ask(S, {collect, Ms}) end};
prepare(starved, Ms, _) ->
    S = server(),
    {[scheduler], S, fun() ->
        [spawn_opt(?MODULE, hog, [Ms], [{scheduler, I}]) || I <- schedulers(online)],
        ask(S, {spin, 1})
    end};
prepare(port, Ms, _) ->
    S = server(),
    ask(S, {open, Ms}),
    {[port], S, fun() -> ask(S, write) end};
prepare(ets, Ms, N) ->
    %% A table that others write to all the time, under one lock.
    Table = ets:new(table, [public]),
    S = server(),
    [
        spawn_opt(fun() -> forever(fun() -> ets:insert(Table, {X, X}) end) end, [{priority, low}])
     || X <- lists:seq(1, N)
    ],
    {[running, scheduler], S, fun() -> ask(S, {ets, Table, Ms}) end};
prepare(downstream, Ms, N) ->
    Last = server(),
    First = lists:foldl(fun(_, Next) -> server(Next) end, Last, lists:seq(1, N)),
    {[running], Last, fun() -> ask(First, {down, {spin, Ms}}) end};
prepare(timer, Ms, _) ->
    S = server(),
    {[timer], S, fun() -> ask(S, {sleep, Ms}) end};
prepare(suspended, Ms, _) ->
    S = server(),
    Self = self(),
    Jailer = spawn(fun() ->
        erlang:suspend_process(S),
        Self ! suspended,
        receive {wait, From} -> From ! waiting end,
        timer:sleep(Ms),
        erlang:resume_process(S),
        receive stop -> ok end
    end),
    receive suspended -> ok end,
    {[suspended], S, fun() ->
        Jailer ! {wait, self()},
        receive waiting -> ok end,
        ask(S, {spin, 1})
    end};
prepare(blocked, Ms, _) ->
    %% As loading code or setting a breakpoint does where it must stop all schedulers.
    S = server(),
    erts_debug:set_internal_state(available_internal_state, true),
    {[node, running], S, fun() -> ask(S, {block, Ms}) end};
prepare(dirty, Ms, _) ->
    S = server(),
    {[dirty_queue], S, fun() ->
        [spawn(?MODULE, dirty_hog, [Ms]) || _ <- schedulers(dirty_cpu)],
        erlang:yield(),
        ask(S, {dirty_hog, 1})
    end};
prepare(priority, Ms, _) ->
    S = server(),
    ask(S, low),
    {[scheduler], S, fun() ->
        [spawn_opt(?MODULE, spin, [Ms], [{priority, high}, {scheduler, I}]) || I <- schedulers(online)],
        ask(S, {spin, 1})
    end};

%% Others call the server while it waits in a callback: none of them is what it waits for.
prepare(asking, Ms, N) ->
    S = server(),
    Db = spawn(fun() -> receive {query, From} -> ?MODULE:spin(Ms), From ! {answer, self()} end end),
    {[running], Db, fun() -> bystanders(S, Ms, N), ask(S, {query, Db}) end};
prepare(calling, Ms, N) ->
    Last = server(),
    S = server(Last),
    {[running], Last, fun() -> bystanders(S, Ms, N), ask(S, {down, {spin, Ms}}) end};
prepare(disturbed, Ms, N) ->
    S = server(),
    {[timer], S, fun() -> bystanders(S, Ms, N), ask(S, {sleep, Ms}) end};
%% It never waits for anything but a scheduler.
prepare(crowded, Ms, N) ->
    S = server(),
    {[running, scheduler], S, fun() ->
        [spawn(?MODULE, spin, [Ms]) || _ <- lists:seq(1, N + 2)],
        ask(S, {spin, Ms})
    end}.

%% They call while the server handles a request that takes Ms.
bystanders(Server, Ms, N) ->
    [
        spawn(fun() -> timer:sleep(I * Ms div (8 + N)), ask(Server, {spin, 0}) end)
     || I <- lists:seq(1, 7 + N)
    ].

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
handle_call({selective, Ms}, _, State) ->
    [self() ! {junk, I} || I <- lists:seq(1, 20000)],
    {reply, ?MODULE:special(now_ms() + Ms), State};
handle_call({heap, N}, _, State) ->
    {reply, ok, State#{heap => ?MODULE:heap(N)}};
handle_call({collect, Ms}, _, State) ->
    collect(now_ms() + Ms),
    {reply, ok, State};
handle_call({open, Ms}, _, State) ->
    %% A pipe that nobody reads from, until its other end is closed.
    Seconds = float_to_list(Ms / 1000, [{decimals, 3}]),
    Port = open_port({spawn_executable, "/bin/sleep"}, [{args, [Seconds]}, binary, stream]),
    {reply, ok, State#{port => Port, block => binary:copy(<<0>>, 1 bsl 20)}};
handle_call(write, _, #{port := Port, block := Block} = State) ->
    [?MODULE:write(Port, Block) || _ <- lists:seq(1, 2)],
    catch port_close(Port),
    {reply, ok, State};
handle_call({ets, Table, Ms}, _, State) ->
    insert(Table, now_ms() + Ms),
    {reply, ok, State};
handle_call({down, Request}, _, #{next := Next} = State) ->
    {reply, ?MODULE:ask(Next, down(Next, Request)), State};
handle_call({sleep, Ms}, _, State) ->
    {reply, timer:sleep(Ms), State};
handle_call({query, Db}, _, State) ->
    Db ! {query, self()},
    receive {answer, Db} -> {reply, ok, State} end;
handle_call({block, Ms}, _, State) ->
    {reply, erts_debug:set_internal_state(block, Ms), State};
handle_call({dirty_hog, Ms}, _, State) ->
    {reply, ?MODULE:dirty_hog(Ms), State};
handle_call(low, _, State) ->
    process_flag(priority, low),
    {reply, ok, State};
handle_call(last, _, #{next := Next} = State) ->
    {reply, Next =:= none, State}.

handle_cast(_, State) -> {noreply, State}.
handle_info({junk, _}, State) -> {noreply, State}.

%% The last server of the chain does the work.
down(Next, Request) ->
    case ?MODULE:ask(Next, last) of
        true -> Request;
        false -> {down, Request}
    end.

%% The port may be gone when the pipe can be written to again.
write(Port, Data) ->
    try port_command(Port, Data) catch error:badarg -> closed end.

collect(Deadline) ->
    garbage_collect(),
    case now_ms() < Deadline of
        true -> collect(Deadline);
        false -> ok
    end.

insert(Table, Deadline) ->
    ets:insert(Table, {now_ms(), Deadline}),
    case now_ms() < Deadline of
        true -> insert(Table, Deadline);
        false -> ok
    end.

%% Each round passes all messages that wait.
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
