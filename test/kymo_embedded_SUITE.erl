%% SPDX-License-Identifier: Apache-2.0
%%
%% Nodes in embedded mode, which is how every release starts them, and libraries that cannot be
%% loaded: on a file system mounted noexec, missing, or built for another system.
-module(kymo_embedded_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-import(kymo_cli, [contains/2]).

-export([all/0, suite/0, init_per_testcase/2, end_per_testcase/2]).
-export([in_path/1, in_path_load_named/1, beside_kymo/1, not_there/1, in_boot_file/1, boot_without_library/1]).
-export([noexec/1, missing/1, foreign/1, application_parameter/1, upgrade_keeps_old/1]).
%% Called in peers.
-export([record_lists/1, start_error/1]).

all() ->
    [in_path, in_path_load_named, beside_kymo, not_there, in_boot_file, boot_without_library,
        noexec, missing, foreign, application_parameter, upgrade_keeps_old].

suite() -> [{timetrap, {minutes, 2}}].

init_per_testcase(Case, Config) ->
    Dir = filename:join(?config(priv_dir, Config), Case),
    ok = file:make_dir(Dir),
    [{dir, Dir} | Config].

end_per_testcase(_, Config) ->
    _ = os:cmd("umount -l " ++ filename:join(?config(dir, Config), "noexec") ++ " 2>/dev/null"),
    ok.

%% ---- embedded ------------------------------------------------------------------------

%% Only the module `kymo' was loaded explicitly; the others are found in the code path.
in_path(Config) ->
    Peer = embedded(["-pa", ebin()]),
    ?assertEqual(embedded, peer:call(Peer, code, get_mode, [])),
    ?assertEqual(false, peer:call(Peer, erlang, module_loaded, [kymo])),
    {module, kymo} = peer:call(Peer, code, load_file, [kymo]),
    ?assert(filelib:is_regular(peer:call(Peer, kymo, cli_path, []))),
    ?assertEqual([], peer:call(Peer, kymo, list, [])),
    load_suite(Peer),
    ?assertEqual(1, peer:call(Peer, ?MODULE, record_lists, [sub(Config, rec)])),
    ?assertMatch([#{state := closed}], peer:call(Peer, kymo, list, [])),
    peer:stop(Peer).

%% The same for modules that a pattern names exactly.
in_path_load_named(Config) ->
    Peer = embedded(["-pa", ebin(), "-pa", filename:dirname(code:which(?MODULE))]),
    {module, kymo} = peer:call(Peer, code, load_file, [kymo]),
    {ok, R} = peer:call(Peer, kymo, start, [(small(Config))#{owner => none}]),
    ?assertEqual(false, peer:call(Peer, erlang, module_loaded, [?MODULE])),
    Spec = #{functions => [{?MODULE, all, 0}]},
    ?assertMatch({ok, #{functions := 1}}, peer:call(Peer, kymo, trace, [R, Spec])),
    ?assertMatch({ok, _}, peer:call(Peer, kymo, stop, [R])),
    peer:stop(Peer).

%% Loaded by its file name: the other modules are in the same folder, which is not in the code
%% path.
beside_kymo(Config) ->
    Peer = embedded([]),
    ?assertEqual(non_existing, peer:call(Peer, code, which, [kymo])),
    {module, kymo} = peer:call(Peer, code, load_abs, [filename:join(ebin(), "kymo")]),
    load_suite(Peer),
    ?assertEqual(1, peer:call(Peer, ?MODULE, record_lists, [sub(Config, rec)])),
    peer:stop(Peer).

not_there(Config) ->
    Peer = embedded([]),
    {ok, Code} = file:read_file(filename:join(ebin(), "kymo.beam")),
    {module, kymo} = peer:call(Peer, code, load_binary, [kymo, "nowhere/kymo.beam", Code]),
    {error, {no_module, M}} = Error = peer:call(Peer, kymo, start, [small(Config)]),
    Text = text(peer:call(Peer, kymo, format_error, [element(2, Error)])),
    contains(Text, [atom_to_list(M), "code path"]),
    Record = [sub(Config, rec), #{}, fun erlang:node/0],
    ?assertEqual(Error, peer:call(Peer, kymo, record, Record)),
    peer:stop(Peer).

%% A release: the boot file loads everything.
in_boot_file(Config) ->
    Peer = embedded(["-boot", boot_file(Config)]),
    ?assertEqual(true, peer:call(Peer, erlang, module_loaded, [kymo])),
    ?assertEqual(true, peer:call(Peer, erlang, module_loaded, [kymo_wanted])),
    ?assertEqual(true, is_pid(peer:call(Peer, erlang, whereis, [kymo_sup]))),
    load_suite(Peer),
    ?assertEqual(1, peer:call(Peer, ?MODULE, record_lists, [sub(Config, rec)])),
    peer:stop(Peer).

%% The node boots, and the cause is in the error, not only in the log.
boot_without_library(Config) ->
    Peer = embedded(["-boot", boot_file(Config), "-env", "KYMO_PRIV", sub(Config, nowhere)]),
    load_suite(Peer),
    {{missing, "kymo_tracer.so", Where}, Text} = peer:call(Peer, ?MODULE, start_error, [sub(Config, rec)]),
    ?assertEqual(sub(Config, nowhere), Where),
    contains(Text, ["kymo_tracer.so", Where, "KYMO_PRIV"]),
    %% Repaired while the node runs.
    true = peer:call(Peer, os, putenv, ["KYMO_PRIV", priv()]),
    ?assertEqual(1, peer:call(Peer, ?MODULE, record_lists, [sub(Config, rec)])),
    peer:stop(Peer).

%% A boot file as systools makes it, which rebar3 and mix release use.
boot_file(Config) ->
    Name = sub(Config, release),
    Version = fun(App) ->
        _ = application:load(App),
        {ok, V} = application:get_key(App, vsn),
        {App, V}
    end,
    Release = {release, {"kymo_test", "1"}, {erts, erlang:system_info(version)}, [Version(A) || A <- [kernel, stdlib, kymo]]},
    ok = file:write_file(Name ++ ".rel", io_lib:format("~p.~n", [Release])),
    {ok, Cwd} = file:get_cwd(),
    ok = file:set_cwd(?config(dir, Config)),
    try
        {ok, _, _} = systools:make_script("release", [silent, local, {path, [ebin()]}])
    after
        file:set_cwd(Cwd),
        application:unload(kymo)
    end,
    Name.

%% ---- libraries that cannot be loaded ----------------------------------------------------

noexec(Config) ->
    Dir = sub(Config, noexec),
    ok = file:make_dir(Dir),
    case os:cmd("mount -t tmpfs -o noexec,size=16m tmpfs " ++ Dir ++ " && echo mounted") of
        "mounted\n" ->
            {ok, _} = file:copy(filename:join(priv(), "kymo_tracer.so"), filename:join(Dir, "kymo_tracer.so")),
            Peer = interactive(["-env", "KYMO_PRIV", Dir]),
            {{noexec, File, _}, Text} = peer:call(Peer, ?MODULE, start_error, [sub(Config, rec)]),
            ?assertEqual(filename:join(Dir, "kymo_tracer.so"), File),
            contains(Text, [File, "noexec", "KYMO_PRIV", "priv_dir"]),
            %% The library in another folder.
            true = peer:call(Peer, os, putenv, ["KYMO_PRIV", priv()]),
            ?assertEqual(1, peer:call(Peer, ?MODULE, record_lists, [sub(Config, rec)])),
            peer:stop(Peer);
        Why ->
            {skip, "no file system can be mounted: " ++ string:trim(Why)}
    end.

missing(Config) ->
    Peer = interactive(["-env", "KYMO_PRIV", sub(Config, nowhere)]),
    {{missing, "kymo_tracer.so", Where}, Text} = peer:call(Peer, ?MODULE, start_error, [sub(Config, rec)]),
    ?assertEqual(sub(Config, nowhere), Where),
    contains(Text, [Where, "KYMO_PRIV"]),
    %% kymo_tracer itself returns the same error, and does not accept any term as a state.
    ?assertMatch({error, {no_library, {missing, _, _}}}, peer:call(Peer, kymo_tracer, open, [#{dir => sub(Config, rec)}])),
    {'EXIT', {badarg, _}} = peer:call(Peer, erlang, apply, [fun(M) -> catch M:info(make_ref()) end, [kymo_tracer]]),
    peer:stop(Peer).

%% A library for another processor, and a file that is no library.
foreign(Config) ->
    {ok, <<Start:18/binary, _:16, Rest/binary>>} = file:read_file(filename:join(priv(), "kymo_tracer.so")),
    [
        begin
            Dir = sub(Config, Name),
            ok = file:make_dir(Dir),
            File = filename:join(Dir, "kymo_tracer.so"),
            ok = file:write_file(File, Content),
            Peer = interactive(["-env", "KYMO_PRIV", Dir]),
            {{unusable, File, Said}, Text} = peer:call(Peer, ?MODULE, start_error, [sub(Config, rec)]),
            contains(Text, [File, Said, "another system"]),
            peer:stop(Peer)
        end
     || {Name, Content} <- [{machine, [Start, <<16#ffff:16>>, Rest]}, {text, "not a library"}]
    ].

application_parameter(Config) ->
    Peer = interactive(["-kymo", "priv_dir", "\"" ++ sub(Config, nowhere) ++ "\""]),
    ok = peer:call(Peer, application, load, [kymo]),
    {{missing, _, Where}, _} = peer:call(Peer, ?MODULE, start_error, [sub(Config, rec)]),
    ?assertEqual(sub(Config, nowhere), Where),
    ok = peer:call(Peer, application, set_env, [kymo, priv_dir, priv()]),
    ?assertEqual(filename:join([priv(), "bin", "kymo"]), peer:call(Peer, kymo, cli_path, [])),
    ?assertEqual(1, peer:call(Peer, ?MODULE, record_lists, [sub(Config, rec)])),
    peer:stop(Peer).

%% A new version of the module that cannot load its library does not replace a version that
%% works.
upgrade_keeps_old(Config) ->
    Peer = interactive([]),
    ?assertEqual(1, peer:call(Peer, ?MODULE, record_lists, [sub(Config, rec)])),
    true = peer:call(Peer, os, putenv, ["KYMO_PRIV", sub(Config, nowhere)]),
    ?assertEqual({error, on_load_failure}, peer:call(Peer, code, load_file, [kymo_tracer])),
    ?assertEqual(1, peer:call(Peer, ?MODULE, record_lists, [sub(Config, rec2)])),
    peer:stop(Peer).

%% ---- in peers ----------------------------------------------------------------------------

%% The number of events that one call made.
record_lists(Dir) ->
    {ok, [1, 2], #{events := N, state := closed}} =
        kymo:record(Dir, (sizes())#{functions => "lists:seq/2"}, fun() -> lists:seq(1, 2) end),
    N.

start_error(Dir) ->
    {error, {no_library, Reason} = Error} = kymo:start((sizes())#{dir => Dir}),
    %% The same error from record/3, twice.
    {error, Error} = kymo:record(Dir, (sizes())#{functions => "lists:seq/2"}, fun() -> error(called) end),
    {Reason, text(kymo:format_error(Error))}.

%% ---- helpers -------------------------------------------------------------------------------

embedded(Args) -> peer_of(["-mode", "embedded" | Args], no_libs).

interactive(Args) -> peer_of(["-pa", filename:dirname(code:which(?MODULE)) | Args], libs).

%% Applications from ERL_LIBS are in the code path. Embedded nodes are started without ERL_LIBS.
peer_of(Args, Libs) ->
    Env = [{"ERL_LIBS", ""} || Libs =:= no_libs],
    {ok, Peer, _} = peer:start(#{connection => standard_io, args => Args, env => Env, wait_boot => 60000}),
    Peer.

load_suite(Peer) ->
    {?MODULE, Code, File} = code:get_object_code(?MODULE),
    {module, ?MODULE} = peer:call(Peer, code, load_binary, [?MODULE, File, Code]).

ebin() -> filename:dirname(code:which(kymo)).

priv() -> filename:join(filename:dirname(ebin()), "priv").

small(Config) -> (sizes())#{dir => sub(Config, rec)}.

sizes() -> #{memory => 8 bsl 20, segment_size => 16384, dict_size => 1048576}.

sub(Config, Name) -> filename:join(?config(dir, Config), Name).

text(Chardata) -> unicode:characters_to_list(Chardata).
