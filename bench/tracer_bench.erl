%% SPDX-License-Identifier: Apache-2.0
%%
%% The cost of a traced event to the traced process, with kymo and with other tracers. All
%% tracers take turns in every round, so that other work on the machine affects them alike.
%% Prints the median of the rounds, and the median of the ratios within each round. `cpu' is the
%% processor time of the scheduler thread that the traced process is bound to. `wall' is the
%% elapsed time, including the time for which a tracer blocks the process and the time in which
%% other programs use the processor.
%%
%% Arguments of the runtime: -out Dir (scratch), -rounds N, -events N.
-module(tracer_bench).

-export([main/0, callee/1]).

-define(COLUMNS, "  ~-34ts ~9.1f ~9.1f ~9.1f ~8.3f  ~ts~n").

main() ->
    Out = argument(out, "bench_out"),
    Rounds = list_to_integer(argument(rounds, "21")),
    Events = list_to_integer(argument(events, "100000")),
    ok = null_tracer:load(Out),
    {module, _} = code:ensure_loaded(kymo_tracer),
    {_, Failed} = lists:foldl(
                    fun(Part, {N, Bad}) -> {N + 1, Bad + part(Part, filename:join(Out, integer_to_list(N)), Rounds, Events)} end,
                    {1, 0}, parts()),
    Missed = Failed + rate(filename:join(Out, "rate")),
    io:format("~n~b limits missed~n", [Missed]),
    erlang:halt(min(Missed, 1)).

argument(Key, Default) ->
    case init:get_argument(Key) of
        {ok, [[Value]]} -> Value;
        error -> Default
    end.

%% {Title, kind of event, base, [{tracer, limit}]}. The limit applies to the ratio to the base
%% in processor time. {times, N} means that the elapsed time of a tracer is at least N times that
%% of kymo with the policy discard.
parts() ->
    [{"call, arity", call, null, [{kymo(discard, #{}), 1.15}, {kymo(overwrite, #{}), 1.15},
                                  {process, {times, 2.3}}, {port, {times, 4.0}}]},
     {"send, size of the message", send, null, [{kymo(discard, #{}), 1.15}, {kymo(overwrite, #{}), 1.15},
                                                {process, none}, {port, none}]},
     {"call, not recorded", call, null_discard, [{kymo_paused, 1.05}, {kymo(overwrite, #{events => [send]}), 1.05}]},
     {"send, not recorded", send, null_discard, [{kymo_paused, 1.05}, {kymo(overwrite, #{events => [calls]}), 1.05}]},
     {"call, all that is asked for", call, null, [{kymo(overwrite, #{calls => arguments}), none},
                                                  {kymo(overwrite, #{sample => 100}), none},
                                                  {kymo(overwrite, #{clock => monotonic}), none}]},
     {"send, contents", send, null, [{kymo(overwrite, #{messages => contents}), none},
                                     {kymo(overwrite, #{messages => none}), none}]}].

kymo(Policy, Options) ->
    {kymo, Policy, Options}.

name(null) -> "a NIF that returns at once";
name(null_discard) -> "a NIF that answers discard";
name(untraced) -> "not traced";
name(kymo_paused) -> "kymo, paused";
name(process) -> "process tracer";
name(port) -> "dbg file port";
name({kymo, Policy, Options}) ->
    [io_lib:format("kymo ~p", [Policy]), [io_lib:format(" ~p ~0p", [K, V]) || {K, V} <- maps:to_list(Options)]].

part({Title, Kind, Base, Others}, Out, Rounds, Events) ->
    Tracers = [untraced, Base | [Name || {Name, _} <- Others]],
    io:format("~n~ts~n  ~-34ts ~9ts ~9ts ~9ts ~8ts~n", [Title, "ns per event", "cpu", "tracing", "wall", "ratio"]),
    ok = filelib:ensure_dir(filename:join(Out, "x")),
    Ready = [{T, start(T, filename:join(Out, integer_to_list(N)))} ||
                {N, T} <- lists:zip(lists:seq(1, length(Tracers)), Tracers)],
    _ = [run(Kind, Tracer, Events) || {_, Tracer} <- Ready],
    Table = [[run(Kind, Tracer, Events) || {_, Tracer} <- Ready] || _ <- lists:seq(1, Rounds)],
    Lost = [stop(Tracer) || {_, Tracer} <- Ready],
    Columns = transpose(Table),
    [Untraced, BaseColumn, Kymo | _] = Columns,
    Limits = [none, none | [Limit || {_, Limit} <- Others]],
    lists:sum([line(T, C, {Untraced, BaseColumn, Kymo}, L, Limit) ||
                  {T, C, L, Limit} <- zip4(Tracers, Columns, Lost, Limits)]).

line(Tracer, Column, {Untraced, Base, Kymo}, Lost, Limit) ->
    Ratio = ratio(1, Column, Base),
    Net = median([element(1, A) - element(1, B) || {A, B} <- lists:zip(Column, Untraced)]),
    {Kept, Text} = case Limit of
                       none -> {true, ""};
                       {times, N} ->
                           Times = ratio(2, Column, Kymo),
                           {Times >= N, io_lib:format("~.2f times kymo, at least ~.1f ", [Times, N])};
                       Max -> {Ratio =< Max, io_lib:format("at most ~.2f ", [Max])}
                   end,
    Note = [Text, ["kept" || Limit =/= none, Kept], ["MISSED" || not Kept], [io_lib:format(" ~b lost", [Lost]) || Lost > 0]],
    io:format(?COLUMNS, [name(Tracer), column(1, Column), Net, column(2, Column), Ratio, Note]),
    if Kept -> 0; true -> 1 end.

column(N, Column) ->
    median([element(N, T) || T <- Column]).

ratio(N, Column, Base) ->
    median([element(N, A) / element(N, B) || {A, B} <- lists:zip(Column, Base)]).

%% Two processes on two schedulers make 250,000 calls per second each for two seconds, and
%% everything is written to files.
rate(Dir) ->
    {_, State} = Tracer = start({kymo, discard, #{max_files => 1000000}}, Dir),
    T0 = erlang:monotonic_time(microsecond),
    Workers = [begin
                   {Pid, Ref} = spawn_opt(fun() -> receive go -> paced(erlang:monotonic_time(millisecond), 2000) end end,
                                          [monitor, {scheduler, N}]),
                   trace(call, Tracer, Pid),
                   Pid ! go,
                   {Pid, Ref}
               end || N <- [1, 2]],
    [receive {'DOWN', Ref, process, Pid, normal} -> ok end || {Pid, Ref} <- Workers],
    Seconds = (erlang:monotonic_time(microsecond) - T0) / 1000000,
    Lost = stop(Tracer),
    #{events := Events} = kymo_tracer:info(State),
    io:format("~ncall, to files\n  ~b events in ~.2f s, ~b events/s, ~b lost  none may be: ~ts~n",
              [Events, Seconds, round(Events / Seconds), Lost, if Lost =:= 0 -> "kept"; true -> "MISSED" end]),
    min(Lost, 1).

paced(_, 0) -> ok;
paced(Now, N) ->
    loop(call, 250),
    receive after max(0, Now + 1 - erlang:monotonic_time(millisecond)) -> paced(Now + 1, N - 1) end.

zip4([A | As], [B | Bs], [C | Cs], [D | Ds]) -> [{A, B, C, D} | zip4(As, Bs, Cs, Ds)];
zip4([], [], [], []) -> [].

transpose([[] | _]) -> [];
transpose(Rows) -> [[hd(R) || R <- Rows] | transpose([tl(R) || R <- Rows])].

median(List) ->
    Sorted = lists:sort(List),
    lists:nth((length(Sorted) + 1) div 2, Sorted).

%% ---- tracers ------------------------------------------------------------------

start(untraced, _) -> untraced;
start(null, _) -> {null_tracer, trace};
start(null_discard, _) -> {null_tracer, discard};
start(process, _) -> spawn_opt(fun drain/0, [{scheduler, 2}]);
start(port, Dir) -> (dbg:trace_port(file, Dir ++ ".trace"))();
start(kymo_paused, Dir) ->
    {_, State} = Tracer = start({kymo, overwrite, #{}}, Dir),
    ok = kymo_tracer:pause(State),
    Tracer;
start({kymo, Policy, Options}, Dir) ->
    Room = #{dir => Dir, policy => Policy, memory => 48 bsl 20,
             file_size => 64 bsl 20, max_files => 2},
    {ok, State} = kymo_tracer:open(maps:merge(Room, Options)),
    {kymo_tracer, State}.

drain() ->
    receive
        stop -> ok;
        _ -> drain()
    end.

%% The number of lost events.
stop(untraced) -> 0;
stop({null_tracer, _}) -> 0;
stop(Pid) when is_pid(Pid) -> Pid ! stop, 0;
stop(Port) when is_port(Port) -> port_close(Port), 0;
stop({kymo_tracer, State}) ->
    ok = kymo_tracer:stop(State),
    #{lost := Lost} = kymo_tracer:info(State),
    lists:sum(maps:values(Lost)).

%% ---- one run --------------------------------------------------------------------

%% {Cpu, Wall} nanoseconds per event, measured in a separate process.
run(Kind, Tracer, Events) ->
    {Pid, Ref} = spawn_opt(fun() -> exit({ns, tracee(Kind, Events)}) end,
                           [monitor, {min_heap_size, 100000}, {scheduler, 1}]),
    trace(Kind, Tracer, Pid),
    Pid ! go,
    receive {'DOWN', Ref, process, Pid, {ns, Ns}} -> Ns end.

trace(_, untraced, _) ->
    erlang:trace_pattern({?MODULE, callee, 1}, false, [local]);
trace(Kind, Tracer, Pid) ->
    1 = erlang:trace_pattern({?MODULE, callee, 1}, true, [local]),
    Arg = case Tracer of
              {Module, State} -> {tracer, Module, State};
              Other -> {tracer, Other}
          end,
    1 = erlang:trace(Pid, true, [Kind, Arg | [arity || Kind =:= call]]).

tracee(Kind, Events) ->
    receive go -> ok end,
    erlang:garbage_collect(),
    W0 = erlang:monotonic_time(nanosecond),
    T0 = null_tracer:cpu_time(),
    loop(Kind, Events),
    T1 = null_tracer:cpu_time(),
    {(T1 - T0) / Events, (erlang:monotonic_time(nanosecond) - W0) / Events}.

loop(_, 0) -> ok;
loop(call, N) ->
    callee(N),
    loop(call, N - 1);
loop(send, N) ->
    self() ! {message, N, [a, b, c]},
    receive {message, _, _} -> loop(send, N - 1) end.

callee(N) -> N.
