%% SPDX-License-Identifier: Apache-2.0
%%
%% Runs a program of this folder in a node, under the control of harm_judge. A program is a module
%% harm_NAME with
%%   about()     where it is from, and what to do to it (harm_judge:defaults/0); called by the judge
%%   setup()     makes the condition in the node, returns a state
%%   truth(St)   facts as [{Key, Value}], asked before and after; all but info_* must stay the same
%%   during(St)  optional: called when the tool says that it records
%% All of them but about/0 run in the same process of the node, which is called harm.
-module(harm).

-export([start/0]).
-export([within/2, pinger/1, pings/1, counter/1, count/1, burn/1, wait_for/1, tracer/0, traced/1]).

%% Connects to the judge, and tells it when the condition is set up.
-spec start() -> pid().
start() -> spawn(fun link_to_judge/0).

link_to_judge() ->
    process_flag(priority, max),
    Port = list_to_integer(os:getenv("HARM_PORT")),
    {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, Port, [{packet, 4}, {active, true}, {nodelay, true}]),
    Program = list_to_atom(os:getenv("HARM_NAME")),
    {module, _} = code:load_file(Program),
    Known = otp_modules(),
    %% A condition may keep the node from loading what a truth needs.
    _ = [fact(F) || F <- footprint(Known) ++ traces() ++ pings(pinger([]))],
    _ = [code:load_file(M) || M <- [counters, timer, filelib], not erlang:module_loaded(M)],
    Judge = self(),
    Worker = spawn_opt(fun() ->
        register(harm, self()),
        State = Program:setup(),
        Judge ! {say, ["READY ", os:getpid()]},
        work(Program, State, Known, Judge)
    end, [{priority, max}]),
    judge(Socket, Worker).

%% Answers the pings of the judge itself, so that it can be asked while a condition is being made.
judge(Socket, Worker) ->
    receive
        {tcp, Socket, "ping " ++ N} -> ok = gen_tcp:send(Socket, ["PONG ", N]);
        {tcp, Socket, Line} -> Worker ! {judge, Line};
        {say, Text} -> ok = gen_tcp:send(Socket, Text);
        {tcp_closed, Socket} -> erlang:halt(0, [{flush, false}])
    end,
    judge(Socket, Worker).

work(Program, State, Known, Judge) ->
    receive
        {judge, "during"} ->
            Program:during(State),
            work(Program, State, Known, Judge);
        {judge, When} ->
            Told = try Program:truth(State) catch Class:Why -> [{truth_failed, {Class, Why}}] end,
            Facts = lists:append([Told | [within(5000, F) || F <- [fun() -> footprint(Known) end, fun traces/0]]]),
            Judge ! {say, ["TRUTH when=", When | [fact(F) || F <- Facts]]},
            work(Program, State, Known, Judge)
    end.

fact({Key, Value}) -> io_lib:format(" ~w=~ts", [Key, string:replace(io_lib:format("~tw", [Value]), " ", "_", all)]).

%% What a tool could leave in any node, whatever the condition.
footprint(Known) ->
    Sessions =
        case erlang:function_exported(trace, session_info, 1) of
            true -> lists:sort([element(1, S) || S <- trace:session_info(all), element(1, S) =/= legacy]);
            false -> []
        end,
    [
        {registered, lists:sort(registered())},
        {modules, [M || M <- lists:sort(erlang:loaded()), not is_map_key(M, Known)]},
        {named_tables, lists:sort([T || T <- ets:all(), is_atom(T)])},
        {sessions, Sessions},
        {system_monitor, erlang:system_monitor()},
        {system_profile, erlang:system_profile()},
        {seq_tracer, seq_trace:get_system_tracer()},
        {wall_time, erlang:statistics(scheduler_wall_time) =/= undefined},
        {nodes, nodes(connected)},
        {applications, ets:info(ac_tab, size)},
        {handlers, logger:get_handler_ids()},
        {info_processes, erlang:system_info(process_count)},
        {info_ports, erlang:system_info(port_count)},
        {info_atoms, erlang:system_info(atom_count)},
        {info_terms, maps:get(count, persistent_term:info())}
    ].

%% What of it is the tracing of all tools without a session. Asks processes, which a condition may prevent.
traces() ->
    [
        {traced_new, [erlang:trace_info(new_processes, flags), erlang:trace_info(on_load, all)]},
        {patterns, [{M, F, A} || M <- [lists, gen_server], {F, A} <- M:module_info(exports),
            erlang:trace_info({M, F, A}, all) =/= {all, false}]},
        {traced, length([P || P <- processes(), {flags, [_ | _]} <- [erlang:trace_info(P, flags)]])}
    ].

%% OTP's own modules may be loaded by anybody.
otp_modules() ->
    Beams = filelib:wildcard(filename:join([code:root_dir(), "lib", "*", "ebin", "*.beam"])),
    maps:from_list([{list_to_atom(filename:basename(B, ".beam")), true} || B <- Beams] ++ [{M, true} || M <- erlang:loaded()]).

%% ---- for the programs ----

%% What Check returns, or that it did not in so many milliseconds.
-spec within(timeout(), fun(() -> Result)) -> Result | [{late, true}].
within(Ms, Check) ->
    {Pid, Ref} = spawn_opt(fun() -> exit({done, Check()}) end, [monitor, {priority, max}]),
    receive
        {'DOWN', Ref, process, Pid, {done, Result}} -> Result;
        {'DOWN', Ref, process, Pid, Reason} -> [{failed, Reason}]
    after Ms ->
        demonitor(Ref, [flush]),
        exit(Pid, kill),
        [{late, true}]
    end.

%% Asks the processes all the time, ten times a second, and counts answers that took longer than 5 s.
-spec pinger([pid()]) -> pid().
pinger(Pids) ->
    spawn_link(fun() ->
        process_flag(priority, high),
        ping(Pids, 0, 0)
    end).

ping(Pids, Late, Max) ->
    T0 = erlang:monotonic_time(millisecond),
    Missing = [P || P <- Pids, begin P ! {ping, self()}, true end, receive {pong, P} -> false after 5000 -> true end],
    Took = erlang:monotonic_time(millisecond) - T0,
    receive
        {get, From} -> From ! {pings, Late + length(Missing), max(Max, Took)}
    after 100 -> ok
    end,
    ping(Pids, Late + length(Missing), max(Max, Took)).

-spec pings(pid()) -> [{atom(), term()}].
pings(Pinger) ->
    Pinger ! {get, self()},
    receive
        {pings, Late, Max} -> [{late_pings, Late}, {info_max_ping_ms, Max}]
    after 10000 -> [{late_pings, pinger_stuck}]
    end.

%% A process that counts the messages that it gets, except some kinds that it answers.
-spec counter([term()]) -> pid().
counter(Options) -> spawn_opt(fun() -> counting(0) end, Options).

counting(N) ->
    receive
        {ping, From} -> From ! {pong, self()}, counting(N);
        {count, From} -> From ! {count, self(), N}, counting(N);
        _ -> counting(N + 1)
    end.

-spec count(pid()) -> non_neg_integer() | unknown.
count(Pid) ->
    Pid ! {count, self()},
    receive
        {count, Pid, N} -> N
    after 5000 -> unknown
    end.

-spec burn(integer()) -> no_return().
burn(N) -> burn((N + 1) band 16#ffff).

-spec wait_for(fun(() -> boolean())) -> ok.
wait_for(Check) -> wait_for(Check, 600).

wait_for(_, 0) -> exit(waited_for_a_minute);
wait_for(Check, N) ->
    case Check() of
        true -> ok;
        false ->
            receive after 100 -> wait_for(Check, N - 1) end
    end.

%% The tracer process of another tool: keeps what it gets.
-spec tracer() -> pid().
tracer() -> spawn_link(fun() -> trace_loop([]) end).

trace_loop(Got) ->
    receive
        {got, From} -> From ! {traced, self(), lists:reverse(Got)}, trace_loop(Got);
        Event -> trace_loop([Event | Got])
    end.

-spec traced(pid()) -> [tuple()].
traced(Tracer) ->
    Tracer ! {got, self()},
    receive
        {traced, Tracer, Events} -> Events
    after 5000 -> [stuck]
    end.
