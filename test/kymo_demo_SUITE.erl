%% SPDX-License-Identifier: Apache-2.0
%%
%% The demonstration: it can run repeatedly, leaves other files alone, and ends with files that
%% independent programs can show: speedscope, in Chromium.
-module(kymo_demo_SUITE).

-include_lib("common_test/include/ct.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1]).
-export([
    files_and_summary/1, runs_again/1, spares_other_folders/1, wrong_seconds/1, not_built/1, flame_graph/1,
    no_certificates/1, failure_ends_it/1
]).

all() ->
    [
        files_and_summary,
        spares_other_folders,
        wrong_seconds,
        not_built,
        flame_graph,
        runs_again,
        no_certificates,
        failure_ends_it
    ].

%% The project's scripts with the build under test.
init_per_suite(Config) ->
    Top = filename:join(?config(priv_dir, Config), "top"),
    ok = filelib:ensure_dir(filename:join([Top, "scripts", "x"])),
    App = filename:dirname(filename:dirname(code:which(kymo))),
    Sources = sources(proplists:get_value(source, kymo:module_info(compile))),
    [
        {ok, _} = file:copy(filename:join([Sources, "scripts", F]), filename:join([Top, "scripts", F]))
     || F <- ["demo", "demo.erl", "lib.sh"]
    ],
    [
        ok = file:make_symlink(From, filename:join(Top, Name))
     || {Name, From} <- [
            {"src", filename:join(Sources, "src")},
            {"ebin", filename:join(App, "ebin")},
            {"priv", filename:join(App, "priv")}
        ]
    ],
    [{top, Top}, {out, filename:join(?config(priv_dir, Config), "out")} | Config].

sources(Kymo) -> filename:dirname(filename:dirname(Kymo)).

end_per_suite(Config) ->
    file:del_dir_r(?config(out, Config)).

files_and_summary(Config) ->
    {0, Text} = demo(Config, [{"DEMO_SECONDS", "3"}]),
    %% If there is a report, the failure shows which one.
    nomatch = re:run(Text, "=[A-Z ]+ REPORT=.*", [dotall, {capture, first, list}]),
    {match, [Events]} = re:run(Text, "\\n  (\\d+) events recorded", [{capture, all_but_first, list}]),
    true = list_to_integer(Events) > 1000,
    {match, [Requests]} = re:run(Text, "; (\\d+) requests answered", [{capture, all_but_first, list}]),
    true = list_to_integer(Requests) > 0,
    {match, _} = re:run(Text, "The command is .*/priv/bin/kymo; "),
    %% The summary table has everything that is promised.
    [
        {match, _} = re:run(Text, ["\\n +[\\d,]+ +[\\d.]+  ", Tag, "\\n"])
     || Tag <- ["call", "return_to", "send", "receive", "spawn", "exit", "in", "out", "gc_minor_start"]
    ],
    {match, _} = re:run(Text, "ui.perfetto.dev"),
    %% The slowest request is one of those that wait for the planted cause. On a busy machine it
    %% may have waited mostly for a scheduler.
    {match, _} = re:run(Text, "-> \\S+ demo_cache demo:handle_call/3: .*\\n(  .*\\n)* .* mostly in demo:check/2 "),
    Out = ?config(out, Config),
    [
        begin
            {match, _} = re:run(Text, ["\\n  ", Name, " "]),
            true = filelib:is_regular(filename:join(Out, File)),
            true = filelib:file_size(filename:join(Out, File)) > 1000
        end
     || {Name, File} <- [
            {"recording", "recording/meta"},
            {"snapshot", "snapshot/meta"},
            {"report.html", "report.html"},
            {"demo.perfetto-trace", "demo.perfetto-trace"},
            {"snapshot.perfetto-trace", "snapshot.perfetto-trace"},
            {"demo.folded", "demo.folded"},
            {"demo.ctf", "demo.ctf/metadata"},
            {"demo.dbg", "demo.dbg"}
        ]
    ].

%% Results of an earlier run are replaced.
runs_again(Config) ->
    Stale = filename:join(?config(out, Config), "stale"),
    ok = file:write_file(Stale, ""),
    {0, _} = demo(Config, []),
    false = filelib:is_file(Stale).

spares_other_folders(Config) ->
    Other = filename:join(?config(priv_dir, Config), "other"),
    Kept = filename:join(Other, "kept"),
    ok = filelib:ensure_dir(Kept),
    ok = file:write_file(Kept, "x"),
    {1, Text} = demo(Config, [{"DEMO_OUT", Other}]),
    {match, _} = re:run(Text, "not from an earlier run"),
    {ok, <<"x">>} = file:read_file(Kept).

wrong_seconds(Config) ->
    [{1, _} = demo(Config, [{"DEMO_SECONDS", S}]) || S <- ["0", "x", "-1", "1.5"]].

not_built(Config) ->
    Link = filename:join(?config(top, Config), "priv"),
    {ok, Priv} = file:read_link(Link),
    ok = file:delete(Link),
    try
        {1, Text} = demo(Config, []),
        {match, _} = re:run(Text, "run make")
    after
        ok = file:make_symlink(Priv, Link)
    end.

%% A minimal system has no certificates, and httpc would look for them.
no_certificates(Config) ->
    Absent = filename:join(?config(priv_dir, Config), "absent.pem"),
    {0, _} = demo(Config, [
        {"ERL", erl() ++ " -public_key cacerts_path \"" ++ Absent ++ "\" -eval application:load(public_key)"}
    ]).

%% If a part of the demonstration dies, the demonstration ends instead of waiting forever.
failure_ends_it(Config) ->
    Link = filename:join(?config(top, Config), "src"),
    {ok, Sources} = file:read_link(Link),
    Wrong = filename:join([?config(priv_dir, Config), "wrong", "wrong.erl"]),
    ok = filelib:ensure_dir(Wrong),
    ok = file:write_file(Wrong, "-module(wrong).\nf() -> undefined_variable = X.\n"),
    ok = file:delete(Link),
    ok = file:make_symlink(filename:dirname(Wrong), Link),
    try
        {1, Text} = demo(Config, []),
        {match, _} = re:run(Text, "demo: {{badmatch,")
    after
        ok = file:delete(Link),
        ok = file:make_symlink(Sources, Link)
    end.

%% speedscope lists the functions of the folded stacks.
flame_graph(Config) ->
    Get = filename:join(?config(data_dir, Config), "speedscope_get.sh"),
    case {kymo_browser:find(), run("/bin/bash", [Get], [])} of
        {false, _} ->
            {skip, "Chromium is absent, so nothing has shown the flame graph"};
        {_, {Status, Why}} when Status =/= 0 ->
            {skip, "speedscope is absent, so it has not shown the flame graph: " ++ text(Why)};
        {Browser, {0, Index}} ->
            {ok, Folded} = file:read_file(filename:join(?config(out, Config), "demo.folded")),
            Script = filename:join(?config(priv_dir, Config), "profile.js"),
            ok = file:write_file(Script, [
                "speedscope.loadFileFromBase64(\"demo.folded\", \"", base64:encode(Folded), "\")"
            ]),
            Url = "file://" ++ text(Index) ++ "#localProfilePath=" ++ Script ++ "&view=sandwich",
            Limited = ["-s", "KILL", "100", Browser | browser_options(Config)],
            {0, Dom} = run(os:find_executable("timeout"), Limited ++ ["--dump-dom", Url], kymo_browser:environment()),
            {match, _} = re:run(Dom, "demo\\.folded"),
            {match, _} = re:run(Dom, "(compile|demo|erl_pp):[a-z_]+/\\d")
    end.

text(Output) -> string:trim(unicode:characters_to_list(Output)).

browser_options(Config) ->
    Profile = filename:join(?config(priv_dir, Config), "browser"),
    [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--allow-file-access-from-files",
        "--user-data-dir=" ++ Profile,
        "--virtual-time-budget=20000"
    ].

%% ---- helpers ----------------------------------------------------------------------

demo(Config, Env) ->
    Defaults = [
        {"DEMO_OUT", ?config(out, Config)},
        {"DEMO_SECONDS", "1"},
        {"ERL", erl()}
    ],
    Script = filename:join([?config(top, Config), "scripts", "demo"]),
    Result = run("/bin/bash", [Script], Defaults ++ Env),
    ct:log("~ts", [element(2, Result)]),
    Result.

erl() -> filename:join([code:root_dir(), "bin", "erl"]).

%% Returns the status and the output, including standard error.
run(Program, Args, Env) ->
    Port = open_port({spawn_executable, Program}, [
        {args, Args}, {env, Env}, exit_status, stderr_to_stdout, binary, use_stdio, hide
    ]),
    collect(Port, <<>>).

collect(Port, Acc) ->
    receive
        {Port, {data, Data}} -> collect(Port, <<Acc/binary, Data/binary>>);
        {Port, {exit_status, Status}} -> {Status, Acc}
    end.
