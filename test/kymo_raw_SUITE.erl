%% SPDX-License-Identifier: Apache-2.0
%%
%% Recordings made through the patched runtime's interface for tracers and through the behaviour
%% must be the same. Two nodes do the same work, one with each, and the output of `kymo print'
%% is compared line by line, without times and without what only version 2 of the interface
%% reports (see kymo_exact_SUITE).
-module(kymo_raw_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1]).
-export([interface_is_told/1, plain/1, contents/1, options/1, sampled/1, tags/1, overwriting/1,
         ended_takes_itself_off/1, paused_stays/1]).
-export([record/1, child/0]).

suite() ->
    [{timetrap, {minutes, 2}}].

all() ->
    [interface_is_told, plain, contents, options, sampled, tags, overwriting,
     ended_takes_itself_off, paused_stays].

init_per_suite(Config) ->
    [{module, _} = code:ensure_loaded(M) || M <- [kymo_tracer, kymo_workload]],
    Config.

end_per_suite(_Config) ->
    ok.

has_interface() ->
    try erlang:system_info(kymo_series) of
        _ -> true
    catch
        error:badarg -> false
    end.

%% The raw interface is used if there is one, unless the environment says otherwise.
interface_is_told(Config) ->
    {Raw, _} = on_node(Config, "raw", false, #{}),
    {Behaviour, _} = on_node(Config, "behaviour", "behaviour", #{}),
    ?assertEqual({case has_interface() of true -> raw; false -> behaviour end, behaviour}, {Raw, Behaviour}).

plain(Config) ->
    same(Config, #{}, [call, return_to, send, 'receive', spawn, link, register, gc_major_start]).

contents(Config) ->
    same(Config, #{options => #{calls => arguments, returns => values, messages => contents, terms => contents,
                                gc => sizes},
                   spec => [{'_', [], [{exception_trace}]}]},
         [call, return_from, exception_from, return_to, send, 'receive', spawn, link, register, gc_major_end]).

options(Config) ->
    [same(Config, #{flags => Flags, options => #{calls => arguments},
                    spec => [{'_', [], [{return_trace}, {message, {{self, 1.5}}}]}]},
          [call, return_from, send])
     || Flags <- [[scheduler_id], [timestamp], [monotonic_timestamp, arity], [strict_monotonic_timestamp, scheduler_id]]].

%% One of N processes, selected by pid. Pids are the same in both nodes: either the tracee is
%% selected, or nothing is recorded.
sampled(Config) ->
    [same(Config, #{options => #{sample => {process, N}}}, [call || N =:= 1]) || N <- [1, 2, 3, 4]].

tags(Config) ->
    [same(Config, #{options => #{events => Tags}}, Tags)
     || Tags <- [[call], [return_to], [send], ['receive'], [spawn], [gc_major_end], [call, send]]].

overwriting(Config) ->
    same(Config, #{options => #{policy => overwrite}}, [call, send]).

%% A tracee is released at its first call after the recorder has ended, and not before.
ended_takes_itself_off(Config) ->
    State = open(filename:join(?config(priv_dir, Config), "ended"), #{}),
    1 = erlang:trace_pattern({kymo_workload, id, 1}, true, [local]),
    Tracee = spawn_link(fun tracee/0),
    1 = erlang:trace(Tracee, true, [call, send, {tracer, kymo_tracer, State}]),
    go(Tracee),
    ?assertMatch({tracer, {kymo_tracer, _}}, erlang:trace_info(Tracee, tracer)),
    ok = kymo_tracer:stop(State),
    go(Tracee),
    ?assertEqual({tracer, []}, erlang:trace_info(Tracee, tracer)),
    erlang:trace_pattern({kymo_workload, id, 1}, false, [local]),
    unlink(Tracee),
    exit(Tracee, kill).

paused_stays(Config) ->
    State = open(filename:join(?config(priv_dir, Config), "paused"), #{}),
    1 = erlang:trace_pattern({kymo_workload, id, 1}, true, [local]),
    Tracee = spawn_link(fun tracee/0),
    1 = erlang:trace(Tracee, true, [call, {tracer, kymo_tracer, State}]),
    Counts = [begin
                  ok = Change(State),
                  go(Tracee),
                  #{events := N} = kymo_tracer:info(State),
                  N
              end || Change <- [fun(_) -> ok end, fun kymo_tracer:pause/1, fun kymo_tracer:resume/1]],
    ?assertEqual([1, 1, 2], Counts),
    ?assertMatch({tracer, {kymo_tracer, _}}, erlang:trace_info(Tracee, tracer)),
    ok = kymo_tracer:stop(State),
    erlang:trace_pattern({kymo_workload, id, 1}, false, [local]),
    unlink(Tracee),
    exit(Tracee, kill).

tracee() ->
    receive {go, From} -> kymo_workload:id(x), From ! {gone, self()}, tracee() end.

go(Tracee) ->
    Tracee ! {go, self()},
    receive {gone, Tracee} -> ok end.

%%--------------------------------------------------------------------------
%% The comparison

%% The tags in Tags must occur, so that two empty recordings do not count as equal.
same(Config, Spec, Tags) ->
    {_, Raw} = on_node(Config, "raw", false, Spec),
    {behaviour, Behaviour} = on_node(Config, "behaviour", "behaviour", Spec),
    [?assertMatch({Tag, {match, _}}, {Tag, re:run(Raw, [" ", atom_to_list(Tag), "( |\n)"], [{capture, first}])}) || Tag <- Tags],
    ?assertEqual(string:split(Behaviour, "\n", all), string:split(Raw, "\n", all)).

%% Runs a node of its own. Returns {Interface, printed output}.
on_node(Config, Name, Events, Spec) ->
    Unique = integer_to_list(erlang:unique_integer([positive])),
    Dir = filename:join(?config(priv_dir, Config), Name ++ "-" ++ Unique),
    ok = filelib:ensure_dir(filename:join(Dir, "x")),
    ok = file:write_file(filename:join(Dir, "spec"), term_to_binary(Spec)),
    Erl = filename:join([code:root_dir(), "bin", "erl"]),
    Port = open_port({spawn_executable, Erl},
                     [{args, ["+S", "1:1", "-noshell", "-noinput", "-pa", filename:dirname(code:which(?MODULE)),
                              filename:dirname(code:which(kymo_tracer)),
                              "-eval", lists:flatten(io_lib:format("kymo_raw_SUITE:record(~p), halt(0).", [Dir]))]},
                      {env, [{"KYMO_EVENTS", Events}]}, exit_status, stderr_to_stdout, binary]),
    ?assertEqual({0, <<>>}, ended(Port, <<>>)),
    {ok, Interface} = file:read_file(filename:join(Dir, "interface")),
    {0, Text} = kymo_cli:run(["print", "-q", filename:join(Dir, "recording")]),
    {binary_to_term(Interface), without_times(without_version_2(Text))}.

without_version_2(Text) ->
    Lines = [L || L <- string:split(Text, "\n", all), re:run(L, " taken( |$)", [{capture, none}]) =:= nomatch],
    re:replace(lists:join("\n", Lines), " number=0x[0-9a-f]+", "", [global, {return, list}]).

ended(Port, Said) ->
    receive
        {Port, {data, More}} -> ended(Port, <<Said/binary, More/binary>>);
        {Port, {exit_status, Status}} -> {Status, Said}
    end.

%% Time stamps that were requested are printed in the line: they have more digits than any other
%% number here. Pids and references differ between nodes, so they are numbered in order of
%% appearance.
without_times(Text) ->
    Lines = [re:replace(L, "^[0-9.]+ ", "", [{return, binary}]) || L <- string:split(Text, "\n", all)],
    Stamps = re:replace(lists:join("\n", Lines), "[0-9]{10,}|[0-9]+\\.[0-9]{6,}", "T", [global, {return, binary}]),
    {Named, _} = lists:foldl(fun name/2, {[], #{}}, re:split(Stamps, "(<[0-9]+\\.[0-9]+\\.[0-9]+>|#Ref<[0-9.]+>)")),
    iolist_to_binary(lists:reverse(Named)).

name(<<C, _/binary>> = Id, {Out, Names}) when C =:= $<; C =:= $# ->
    case Names of
        #{Id := Name} -> {[Name | Out], Names};
        _ ->
            Name = ["id", integer_to_list(map_size(Names))],
            {[Name | Out], Names#{Id => Name}}
    end;
name(Other, {Out, Names}) ->
    {[Other | Out], Names}.

%%--------------------------------------------------------------------------
%% On the node

record(Dir) ->
    {ok, Bytes} = file:read_file(filename:join(Dir, "spec")),
    Spec = binary_to_term(Bytes),
    [{module, _} = code:ensure_loaded(M) || M <- [kymo_workload, kymo_tracer, ?MODULE]],
    State = open(filename:join(Dir, "recording"), maps:get(options, Spec, #{})),
    #{interface := Interface} = kymo_tracer:info(State),
    ok = file:write_file(filename:join(Dir, "interface"), term_to_binary(Interface)),
    [1 = erlang:trace_pattern({kymo_workload, F, A}, maps:get(spec, Spec, true), [local])
     || {F, A} <- [{id, 1}, {add, 2}, {outer, 1}, {inner, 1}, {tail, 1}, {fail, 2}, {many, 3}]],
    {Tracee, Ref} = spawn_monitor(fun() -> receive go -> workload() end end),
    1 = erlang:trace(Tracee, true, [call, return_to, send, 'receive', procs, garbage_collection,
                                    {tracer, kymo_tracer, State} | maps:get(flags, Spec, [])]),
    Tracee ! go,
    receive {'DOWN', Ref, process, Tracee, finished} -> ok end,
    ok = kymo_tracer:stop(State),
    #{lost := Lost} = kymo_tracer:info(State),
    [] = [L || {_, N} = L <- maps:to_list(Lost), N =/= 0],
    ok.

open(Dir, Options) ->
    {ok, State} = kymo_tracer:open(maps:merge(#{dir => Dir, policy => discard, memory => 16 bsl 20,
                                                owner => self()}, Options)),
    State.

workload() ->
    Self = self(),
    kymo_workload:id({some, "term", [1, 2.5, #{a => <<1:70>>}]}),
    kymo_workload:add(1, 2),
    kymo_workload:outer(3),
    _ = catch kymo_workload:fail(throw, {value, Self}),
    _ = catch kymo_workload:fail(error, badarg),
    kymo_workload:many(a, [b], #{c => d}),
    [Self ! M || M <- [x, {tuple, [1, 2, 3]}, lists:seq(1, 300), <<0:4096>>]],
    [receive _ -> ok end || _ <- lists:seq(1, 4)],
    garbage_collect(),
    Child = spawn(?MODULE, child, []),
    link(Child),
    unlink(Child),
    Child ! stop,
    register(kymo_raw_workload, Self),
    kymo_raw_workload ! named,
    receive named -> ok end,
    unregister(kymo_raw_workload),
    exit(finished).

%% @doc The function that the workload spawns.
child() ->
    receive stop -> ok end.
