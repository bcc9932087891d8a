%% SPDX-License-Identifier: Apache-2.0
%%
%% What is left of a recording when its node ends, for every way in which a node can end, and
%% what happens to it when the module is loaded again.
-module(kymo_crash_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-compile(export_all).
-compile(nowarn_export_all).

all() ->
    [{group, overwrite}, {group, discard}, {group, code}].

groups() ->
    Ends = [killed, aborted, out_of_memory],
    [{overwrite, [], [{group, crash}, ring_wraps, {group, clean}]},
     {discard, [], [{group, crash}, {group, clean}]},
     {crash, [], Ends},
     {clean, [], [halted, halted_without_flush, init_stop]},
     {code, [], [reload, reload_under_load, purged, deleted_while_tracing, other_build, plain_ebin, no_library]}].

suite() ->
    [{timetrap, {minutes, 3}}].

init_per_group(Policy, Config) when Policy =:= overwrite; Policy =:= discard ->
    [{policy, Policy} | Config];
init_per_group(_, Config) ->
    Config.

end_per_group(_, _) ->
    ok.

init_per_testcase(Case, Config) ->
    Name = io_lib:format("~p-~p", [Case, erlang:unique_integer([positive])]),
    [{dir, filename:join(?config(priv_dir, Config), lists:flatten(Name))} | Config].

end_per_testcase(_, Config) ->
    [ok = file:del_dir_r(Dir) || Dir <- filelib:wildcard(?config(dir, Config) ++ "*"), filelib:is_dir(Dir)],
    ok.

%% ---- the node that ends -------------------------------------------------------

start_node(_Config) ->
    start_node(_Config, #{}).

start_node(_Config, Options) ->
    Paths = [filename:dirname(code:which(M)) || M <- [?MODULE, kymo_tracer]],
    Args = lists:append([["-pa", P] || P <- Paths]),
    Default = #{connection => standard_io, args => Args, peer_down => continue, wait_boot => 60000},
    {ok, Peer, _} = peer:start(maps:merge(Default, Options)),
    Peer.

call(Peer, M, F, A) ->
    peer:call(Peer, M, F, A, 60000).

%% Ends the node by a call that the node itself makes.
ends(Peer, M, F, A) ->
    Ref = monitor(process, Peer),
    peer:cast(Peer, M, F, A),
    gone(Peer, Ref).

gone(Peer, Ref) ->
    receive
        {'DOWN', Ref, process, Peer, _} -> ok
    after 500 ->
        case catch peer:get_state(Peer) of
            {down, _} -> catch peer:stop(Peer), ok;
            {'EXIT', _} -> ok;
            _ -> gone(Peer, Ref)
        end
    end.

%% ---- load: workers number their calls ------------------------------------------

%% In the node. Workers call a traced function with {Worker, Number}, counting up, as often as
%% fits in the ring of one thread. Returns when there are some events and many more are still to
%% come.
load(Options, Workers, Enough) ->
    {ok, State} = kymo_tracer:open(Options),
    load(State, Workers),
    wait_for(State, Enough),
    persistent_term:put(?MODULE, State),
    list_to_integer(os:getpid()).

load(State, Workers) ->
    {module, _} = code:ensure_loaded(kymo_workload),
    1 = erlang:trace_pattern({kymo_workload, id, 1}, true, [local]),
    [begin
         Pid = spawn(?MODULE, worker, [{W, erlang:unique_integer()}]),
         1 = erlang:trace(Pid, true, [call, send, running, {tracer, kymo_tracer, State}]),
         Pid ! go
     end || W <- lists:seq(1, Workers)],
    ok.

worker(W) ->
    receive go -> worker(W, 1) end.

%% Slowed down, so that other processes can run.
worker(_, 10000) ->
    receive after infinity -> ok end;
worker(W, N) ->
    kymo_workload:id({W, N}),
    _ = [receive after 1 -> ok end || N rem 50 =:= 0],
    worker(W, N + 1).

wait_for(State, Enough) ->
    case kymo_tracer:info(State) of
        #{events := Events} when Events >= Enough -> ok;
        _ -> receive after 5 -> wait_for(State, Enough) end
    end.

options(Config) ->
    #{dir => list_to_binary(?config(dir, Config)), policy => ?config(policy, Config), calls => arguments,
      memory => 48 bsl 20, owner => undefined}.

start_load(Peer, Config) ->
    Options = maps:remove(owner, options(Config)),
    call(Peer, ?MODULE, load, [Options, 20, 20000]).

%% ---- what must be left ------------------------------------------------------------

%% Every committed event must be there, in order and with names: the number of events equals the
%% recorder's count, and no number of any worker is missing.
check(Config) ->
    Dir = ?config(dir, Config),
    #{events := Events, recorded := Recorded} = Info = info(Dir),
    ?assertMatch(#{overwritten := 0, lost := 0, damage := 0}, Info),
    ?assertEqual(Recorded, Events),
    Calls = calls(kymo_conform:recorded(Dir)),
    ?assert(maps:size(Calls) >= 1),
    [?assertEqual({W, lists:seq(1, length(Ns))}, {W, Ns}) || {W, Ns} <- maps:to_list(Calls)],
    ?assert(lists:sum([length(Ns) || Ns <- maps:values(Calls)]) > 10000),
    Info.

calls(Events) ->
    Calls = [WN || {trace, _, call, {kymo_workload, id, [WN]}} <- Events],
    lists:foldr(fun({W, N}, M) -> maps:update_with(W, fun(L) -> [N | L] end, [N], M) end, #{}, Calls).

info(Dir) ->
    {0, Text} = kymo_cli:run(["info", "--json", Dir]),
    Number = fun(Key) ->
                     {match, [N]} = re:run(Text, ["\"", Key, "\":([0-9]+)"], [{capture, all_but_first, list}]),
                     list_to_integer(N)
             end,
    Word = fun(Key) ->
                   {match, [W]} = re:run(Text, ["\"", Key, "\":\"([a-z_]+)\""], [{capture, all_but_first, list}]),
                   list_to_atom(W)
           end,
    #{events => Number("events"), recorded => Number("recorded"), overwritten => Number("overwritten"),
      lost => Number("total"), damage => Number("records_bad") + Number("segments_bad") + Number("dict_bad"),
      state => Word("state"), reason => Word("reason")}.

killed(Config) ->
    Peer = start_node(Config),
    Pid = start_load(Peer, Config),
    Ref = monitor(process, Peer),
    _ = os:cmd("kill -9 " ++ integer_to_list(Pid)),
    gone(Peer, Ref),
    check(Config).

aborted(Config) ->
    Peer = start_node(Config, #{env => [{"ERL_CRASH_DUMP", ?config(dir, Config) ++ ".dump"}, {"ERL_CRASH_DUMP_SECONDS", "0"}]}),
    _ = start_load(Peer, Config),
    ends(Peer, erlang, halt, [abort]),
    check(Config).

%% The emulator runs out of memory and calls abort().
out_of_memory(Config) ->
    Dump = [{"ERL_CRASH_DUMP", ?config(dir, Config) ++ ".dump"}, {"ERL_CRASH_DUMP_SECONDS", "0"}],
    Peer = start_node(Config, #{env => Dump}),
    Pid = start_load(Peer, Config),
    "" = os:cmd("prlimit --pid " ++ integer_to_list(Pid) ++ " --as=" ++ integer_to_list(address_space(Pid) + (64 bsl 20))),
    ends(Peer, ?MODULE, eat, [[]]),
    check(Config).

address_space(Pid) ->
    {ok, Text} = file:read_file("/proc/" ++ integer_to_list(Pid) ++ "/status"),
    {match, [KiB]} = re:run(Text, "VmSize:\\s+([0-9]+) kB", [{capture, all_but_first, list}]),
    list_to_integer(KiB) * 1024.

eat(L) -> eat([binary:copy(<<0>>, 1 bsl 31) | L]).

%% The ring has wrapped many times: what it contains is in order.
ring_wraps(Config) ->
    Peer = start_node(Config),
    Options = (maps:remove(owner, options(Config)))#{memory => 4 bsl 20},
    Pid = call(Peer, ?MODULE, load, [Options, 20, 150000]),
    Ref = monitor(process, Peer),
    _ = os:cmd("kill -9 " ++ integer_to_list(Pid)),
    gone(Peer, Ref),
    #{events := Here, recorded := Recorded} = info(?config(dir, Config)),
    ?assert(Recorded >= 150000),
    ?assert(Here < Recorded),
    Events = kymo_conform:recorded(?config(dir, Config)),
    ?assertEqual(Here, length(Events)),
    [?assertEqual({W, lists:sort(Ns)}, {W, Ns}) || {W, Ns} <- maps:to_list(calls(Events))],
    ?assertEqual([], [E || {trace, _, call, _} = E <- Events, element(1, element(4, E)) =/= kymo_workload]).

%% ---- orderly ends ----------------------------------------------------------------------

closed(Config, Halt) ->
    Peer = start_node(Config),
    _ = start_load(Peer, Config),
    Halt(Peer),
    Info = check(Config),
    ?assertMatch(#{state := closed, reason := unload}, Info).

halted(Config) ->
    closed(Config, fun(Peer) -> ends(Peer, erlang, halt, [0]) end).

%% Newer runtimes exit immediately in this case, without calling any module or library.
halted_without_flush(Config) ->
    Peer = start_node(Config),
    _ = start_load(Peer, Config),
    ends(Peer, erlang, halt, [0, [{flush, false}]]),
    check(Config).

init_stop(Config) ->
    closed(Config, fun(Peer) -> ends(Peer, init, stop, []) end).

%% ---- code ---------------------------------------------------------------------------------

code_options(Config) ->
    #{dir => list_to_binary(?config(dir, Config)), calls => arguments, memory => 48 bsl 20}.

%% The same library is loaded again: recorders, states and traced processes continue.
reload(Config) ->
    Peer = start_node(Config),
    ?assertEqual({active, 3}, call(Peer, ?MODULE, reload_here, [code_options(Config)])),
    ?assertEqual([1, 2, 3], [N || {trace, _, call, {_, _, [N]}} <- kymo_conform:recorded(?config(dir, Config))]),
    peer:stop(Peer).

reload_here(Options) ->
    {ok, State} = kymo_tracer:open(Options),
    Step = fun(N) ->
                   1 = erlang:trace(self(), true, [call, {tracer, kymo_tracer, State}]),
                   kymo_workload:id(N)
           end,
    {module, _} = code:ensure_loaded(kymo_workload),
    1 = erlang:trace_pattern({kymo_workload, id, 1}, true, [local]),
    Step(1),
    {module, kymo_tracer} = code:load_file(kymo_tracer),
    Step(2),
    code:purge(kymo_tracer),
    garbage_collect(),
    Step(3),
    #{state := Is, events := Events} = kymo_tracer:info(State),
    ok = kymo_tracer:stop(State),
    {Is, Events}.

%% Twenty times while everything is traced. Only events during which the module is not loaded
%% are lost.
reload_under_load(Config) ->
    Peer = start_node(Config),
    _ = call(Peer, ?MODULE, load, [code_options(Config), 20, 10000]),
    ?assertEqual(ok, call(Peer, ?MODULE, reload_often, [20])),
    peer:stop(Peer),
    Calls = calls(kymo_conform:recorded(?config(dir, Config))),
    [?assertEqual({W, lists:usort(Ns)}, {W, Ns}) || {W, Ns} <- maps:to_list(Calls)],
    ?assertMatch(#{lost := 0}, info(?config(dir, Config))).

reload_often(0) -> ok;
reload_often(N) ->
    State = persistent_term:get(?MODULE),
    {module, kymo_tracer} = code:load_file(kymo_tracer),
    code:purge(kymo_tracer),
    load(State, 2),
    #{events := Before, state := active} = kymo_tracer:info(State),
    wait_for(State, Before + 500),
    reload_often(N - 1).

%% The module is purged while everything is traced. The runtime removes the tracer, and keeps
%% the library while states of it exist; a recorder ends with the last reference to it.
purged(Config) ->
    Peer = start_node(Config),
    _ = call(Peer, ?MODULE, load, [code_options(Config), 20, 20000]),
    ?assertEqual({false, []}, call(Peer, ?MODULE, purge_here, [])),
    check(Config),
    ?assertEqual(ok, call(Peer, ?MODULE, again, [(code_options(Config))#{dir => list_to_binary(?config(dir, Config) ++ "-2")}])),
    true = call(Peer, persistent_term, erase, [?MODULE]),
    ?assert(kymo_cli:until(fun() ->
                                   [call(Peer, erlang, garbage_collect, [P]) || P <- call(Peer, erlang, processes, [])],
                                   maps:get(state, info(?config(dir, Config))) =:= closed
                           end)),
    ?assertMatch(#{reason := collected}, check(Config)),
    peer:stop(Peer).

%% Is the module loaded, and what is still traced?
purge_here() ->
    true = code:delete(kymo_tracer),
    _ = code:purge(kymo_tracer),
    true = kymo_cli:until(fun() -> traced_processes() =:= [] end),
    {code:is_loaded(kymo_tracer) =/= false, traced_processes()}.

traced_processes() ->
    [P || P <- processes(), {tracer, T} <- [erlang:trace_info(P, tracer)], T =/= []].

%% It can be loaded once more and works.
again(Options) ->
    {ok, State} = kymo_tracer:open(Options),
    1 = erlang:trace(self(), true, [call, {tracer, kymo_tracer, State}]),
    kymo_workload:id(again),
    #{events := 1} = kymo_tracer:info(State),
    kymo_tracer:stop(State).

%% The module is deleted and purged repeatedly while everything is traced.
deleted_while_tracing(Config) ->
    Peer = start_node(Config),
    ?assertEqual(ok, call(Peer, ?MODULE, delete_often, [code_options(Config), 10])),
    peer:stop(Peer).

delete_often(_, 0) -> ok;
delete_often(#{dir := Dir} = Options, N) ->
    This = <<Dir/binary, (integer_to_binary(N))/binary>>,
    {ok, State} = kymo_tracer:open(Options#{dir => This}),
    load(State, 10),
    wait_for(State, 1000),
    true = code:delete(kymo_tracer),
    _ = code:purge(kymo_tracer),
    {module, kymo_tracer} = code:ensure_loaded(kymo_tracer),
    delete_often(Options, N - 1).

%% Another build cannot take over a recorder, so the loaded module stays.
other_build(Config) ->
    Peer = start_node(Config),
    Other = copy_of_app(?config(dir, Config) ++ "-app"),
    ?assertEqual(ok, call(Peer, ?MODULE, other_build_here, [code_options(Config), Other])),
    peer:stop(Peer).

copy_of_app(Dir) ->
    Ebin = filename:join(Dir, "ebin"),
    Priv = filename:join(Dir, "priv"),
    [ok = filelib:ensure_dir(filename:join(D, "x")) || D <- [Ebin, Priv]],
    Beam = code:which(kymo_tracer),
    Library = filename:join([filename:dirname(Beam), "..", "priv", "kymo_tracer.so"]),
    {ok, _} = file:copy(Beam, filename:join(Ebin, "kymo_tracer.beam")),
    {ok, _} = file:copy(Library, filename:join(Priv, "kymo_tracer.so")),
    Ebin.

other_build_here(Options, Other) ->
    true = logger:set_primary_config(level, none) =:= ok,
    {ok, State} = kymo_tracer:open(Options),
    [code:del_path(P) || P <- code:get_path(), filelib:is_regular(filename:join(P, "kymo_tracer.beam"))],
    true = code:add_patha(Other),
    {error, on_load_failure} = code:load_file(kymo_tracer),
    #{state := active} = kymo_tracer:info(State),
    1 = erlang:trace(self(), true, [send, {tracer, kymo_tracer, State}]),
    self() ! message,
    #{events := 1} = kymo_tracer:info(State),
    erlang:trace(self(), false, [send]),
    ok = kymo_tracer:stop(State),
    forget(Other).

%% Once nothing refers to a recorder any more, it can.
forget(Other) ->
    Try = fun F(0) -> never;
              F(N) ->
                  [garbage_collect(P) || P <- processes()],
                  case code:load_file(kymo_tracer) of
                      {module, kymo_tracer} -> true = lists:prefix(Other, code:which(kymo_tracer)), ok;
                      {error, on_load_failure} -> receive after 50 -> F(N - 1) end
                  end
          end,
    Try(100).

%% Without the application and ERL_LIBS: the library is found next to the module.
plain_ebin(Config) ->
    Ebin = copy_of_app(?config(dir, Config) ++ "-app"),
    Peer = start_node(Config, #{args => ["-pa", Ebin, "-pa", filename:dirname(code:which(?MODULE))], env => [{"ERL_LIBS", ""}]}),
    ?assertEqual(Ebin, filename:dirname(call(Peer, code, which, [kymo_tracer]))),
    ?assertMatch({ok, _}, call(Peer, kymo_tracer, open, [code_options(Config)])),
    peer:stop(Peer).

no_library(Config) ->
    Ebin = copy_of_app(?config(dir, Config) ++ "-app"),
    ok = file:delete(filename:join([Ebin, "..", "priv", "kymo_tracer.so"])),
    Peer = start_node(Config, #{args => ["-pa", Ebin, "-kernel", "logger_level", "none"], env => [{"ERL_LIBS", ""}]}),
    ?assertEqual({module, kymo_tracer}, call(Peer, code, ensure_loaded, [kymo_tracer])),
    ?assertMatch({error, {no_library, {missing, "kymo_tracer.so", _}}},
                 call(Peer, kymo_tracer, open, [code_options(Config)])),
    peer:stop(Peer).
