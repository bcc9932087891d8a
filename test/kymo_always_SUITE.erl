%% SPDX-License-Identifier: Apache-2.0
%%
%% A recorder that starts with the node, without code: configured by environment variables or by
%% application parameters. Old recordings are removed, and no mistake in the configuration keeps
%% a node from starting.
-module(kymo_always_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_testcase/2, end_per_testcase/2]).
-export([only_flags/1, by_environment/1, by_parameter/1, a_term/1, keeps_the_newest/1, mistakes/1]).

all() -> [only_flags, by_environment, by_parameter, a_term, keeps_the_newest, mistakes].

suite() -> [{timetrap, {minutes, 2}}].

init_per_testcase(Case, Config) ->
    [{folder, filename:join(?config(priv_dir, Config), Case)} | Config].

end_per_testcase(_, _) -> ok.

%% A node with these environment variables and arguments that has started the application kymo.
node_with(Env, Args) ->
    {ok, Peer, _} = peer:start(#{
        connection => standard_io,
        exec => filename:join([code:root_dir(), "bin", "erl"]),
        args => ["-pa", filename:dirname(code:which(kymo)), "-s", "kymo_app" | Args],
        env => Env
    }),
    true = kymo_cli:until(fun() -> lists:keymember(kymo, 1, peer:call(Peer, application, which_applications, [])) end),
    Peer.

listed(Peer) ->
    [maps:with([name, state, policy], R) || #{state := State} = R <- peer:call(Peer, kymo, list, []), State =/= closed].

%% The recording of a node that has ended, and the tags in it.
recorded(Peer, Folder) ->
    [Name] = Names = filelib:wildcard("nonode@nohost-*", Folder),
    ?assertEqual(1, length(Names)),
    OsPid = peer:call(Peer, os, getpid, []),
    ?assertMatch({match, _}, re:run(Name, "-\\d{8}T\\d{6}Z-" ++ OsPid ++ "$")),
    peer:stop(Peer),
    Rec = filename:join(Folder, Name),
    true = kymo_cli:until(fun() ->
        {0, Json} = kymo_cli:run(["info", "--json", Rec]),
        re:run(Json, "\"state\":\"closed\"", [{capture, none}]) =:= match
    end),
    {lists:usort([Tag || {Tag, _} <- tags(kymo_cli:events(Rec))]), Rec}.

tags(Events) -> [{element(3, E), E} || E <- Events].

%% Two environment variables are all that is needed: the node's arguments are those of an
%% ordinary application, and its first actions are recorded. The light profile.
only_flags(Config) ->
    Folder = ?config(folder, Config),
    {ok, Peer, _} = peer:start(#{
        connection => standard_io,
        exec => filename:join([code:root_dir(), "bin", "erl"]),
        env => [{"ERL_FLAGS", "-pa " ++ filename:dirname(code:which(kymo)) ++ " -s kymo_app"}, {"KYMO_ALWAYS", Folder}]
    }),
    true = kymo_cli:until(fun() -> lists:keymember(kymo, 1, peer:call(Peer, application, which_applications, [])) end),
    _ = peer:call(Peer, erlang, spawn, [erlang, exit, [planted]]),
    Info = peer:call(Peer, kymo, info, [always]),
    ?assertMatch(#{state := active, counters := #{interval := 100}, system_monitor := #{state := set}}, Info),
    true = kymo_cli:until(fun() ->
        #{counters := #{samples := N}} = peer:call(Peer, kymo, info, [always]),
        N >= 2
    end),
    {Tags, Rec} = recorded(Peer, Folder),
    [?assert(lists:member(Tag, Tags)) || Tag <- [spawn, spawned, exit]],
    [?assertNot(lists:member(Tag, Tags)) || Tag <- [send, 'receive', in, out, gc_minor_start]],
    {0, Exits} = kymo_cli:run(["print", "--events", "exit", Rec]),
    ?assertMatch({match, _}, re:run(Exits, " exit reason=planted")),
    {0, Json} = kymo_cli:run(["info", "--json", Rec]),
    #{<<"by_event">> := #{<<"counters">> := Samples}} = kymo_cli:json(unicode:characters_to_list(Json)),
    ?assert(Samples >= 2).

by_environment(Config) ->
    Folder = ?config(folder, Config),
    Peer = node_with([{"KYMO_ALWAYS", lists:flatten(io_lib:format("~0p", [#{folder => Folder, profile => full}]))}], []),
    ?assertEqual([#{name => always, state => active, policy => overwrite}], listed(Peer)),
    {Tags, _} = recorded(Peer, Folder),
    [?assert(lists:member(Tag, Tags)) || Tag <- [send, 'receive', in, out]].

by_parameter(Config) ->
    Folder = ?config(folder, Config),
    Always = #{folder => Folder, policy => discard, events => [procs], name => flight},
    Peer = node_with([], ["-kymo", "always", lists:flatten(io_lib:format("~0p", [Always]))]),
    ?assertEqual([#{name => flight, state => active, policy => discard}], listed(Peer)),
    _ = peer:call(Peer, proc_lib, spawn, [erlang, now, []]),
    {Tags, _} = recorded(Peer, Folder),
    ?assert(lists:member(spawn, Tags)),
    ?assertNot(lists:member(send, Tags)).

a_term(Config) ->
    Folder = ?config(folder, Config),
    Always = #{folder => Folder, functions => ["lists:seq/2"], returns => values},
    Peer = node_with([{"KYMO_ALWAYS", lists:flatten(io_lib:format("~0p", [Always]))}], []),
    ?assertEqual([1, 2], peer:call(Peer, lists, seq, [1, 2])),
    {Tags, _} = recorded(Peer, Folder),
    ?assertEqual([call], Tags).

%% Recordings of other nodes and of running nodes, and folders that are not recordings, are
%% kept.
keeps_the_newest(Config) ->
    Folder = ?config(folder, Config),
    Old = ["nonode@nohost-202001" ++ Day ++ "T000000Z-4194305" || Day <- ["01", "02", "03", "04"]],
    Running = "nonode@nohost-20190101T000000Z-" ++ os:getpid(),
    Others = ["other@nohost-20190101T000000Z-4194305", "nonode@nohost-notes"],
    [recording(filename:join(Folder, Name)) || Name <- [Running | Old ++ Others]],
    Peer = node_with([{"KYMO_ALWAYS", lists:flatten(io_lib:format("~0p", [#{folder => Folder, keep => 3}]))}], []),
    [#{dir := Dir}] = peer:call(Peer, kymo, list, []),
    peer:stop(Peer),
    {ok, Left} = file:list_dir(Folder),
    New = unicode:characters_to_list(filename:basename(Dir)),
    ?assertEqual(lists:sort([New, Running | lists:nthtail(2, Old) ++ Others]), lists:sort(Left)).

recording(Dir) ->
    ok = filelib:ensure_dir(filename:join(Dir, "meta")),
    ok = file:write_file(filename:join(Dir, "meta"), "").

%% The node starts, and its log says what is wrong.
mistakes(Config) ->
    Folder = ?config(folder, Config),
    File = filename:join(?config(priv_dir, Config), "a_file"),
    ok = file:write_file(File, ""),
    [
        begin
            Log = filename:join(?config(priv_dir, Config), "log"),
            _ = file:delete(Log),
            Logged = "[{handler,default,logger_std_h,#{config=>#{file=>\"" ++ Log ++ "\"}}}]",
            Peer = node_with([{"KYMO_ALWAYS", Value}], ["-kernel", "logger", Logged]),
            ?assertEqual([], listed(Peer)),
            ok = peer:call(Peer, logger_std_h, filesync, [default]),
            peer:stop(Peer),
            {ok, Text} = file:read_file(Log),
            ?assertEqual([], filelib:wildcard("*", Folder)),
            ?assertMatch({_, {match, _}}, {Text, re:run(Text, "was not started: .*" ++ Words)})
        end
     || {Value, Words} <- [
            {"#{foldr => \"/x\"}", "folder is missing"},
            {"#{folder", "bad|always"},
            {"#{folder => \"" ++ Folder ++ "\", keep => 0}", "keep"},
            {"#{folder => \"" ++ Folder ++ "\", profile => loud}", "profile"},
            {"#{folder => \"" ++ Folder ++ "\", wings => 2}", "wings"},
            {"#{folder => \"" ++ Folder ++ "\", functions => \"no_such:f/1\"}", "no_such"},
            {File, "."}
        ]
    ].
