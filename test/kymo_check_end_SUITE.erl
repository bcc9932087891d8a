%% SPDX-License-Identifier: Apache-2.0
%%
%% `kymo check NODE' that does not end as planned: it is interrupted, or can't write. It says what happened,
%% and leaves nothing behind that it does not name, in the node or here.
-module(kymo_check_end_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-import(kymo_check_SUITE, [check/2, node_with/2, reached/1, rules/2, sub/2, temporary/1]).

-export([all/0, suite/0, init_per_testcase/2, end_per_testcase/2]).
-export([interrupted/1, interrupted_at_once/1, interrupted_twice/1, ended_while_judging/1, full_disk/1, unnamed/1, unwritten/1]).

all() -> [interrupted, interrupted_at_once, interrupted_twice, ended_while_judging, full_disk, unnamed, unwritten].

suite() -> [{timetrap, {minutes, 3}}].

init_per_testcase(Case, Config) -> kymo_check_SUITE:init_per_testcase(Case, Config).

end_per_testcase(Case, Config) -> kymo_check_SUITE:end_per_testcase(Case, Config).

%% ---- signals ---------------------------------------------------------------------------

%% What was recorded until then is judged; that it is not all comes first.
interrupted(Config) ->
    {Node, Name, Tmp} = node_with(crashes, Config),
    [
        begin
            Port = started(["--for", "1h", Name], Config),
            %% This much should be recorded.
            receive after 1000 -> ok end,
            signal(Signal, Port),
            {7, Text} = kymo_cli:collect(Port, 60000),
            ?assertMatch({match, _}, re:run(Text, "^kymo: interrupted after [0-9.]+ m?s of 3600 s: the recording is incomplete\n", [multiline]), Text),
            [_, Findings] = string:split(Text, "is incomplete\n"),
            ?assertNotEqual(nomatch, string:find(Findings, "[crash_loop]"), Text),
            left_nothing(Node, Tmp)
        end
     || Signal <- ["INT", "TERM", "HUP"]
    ],
    kymo_hung_node:stop(Node).

%% Nothing was recorded from which anything follows.
interrupted_at_once(Config) ->
    {Node, Name, Tmp} = node_with(idle, Config),
    Port = started([Name], Config),
    signal("TERM", Port),
    {6, Text} = kymo_cli:collect(Port, 60000),
    ?assertEqual(nomatch, string:find(Text, "nothing found"), Text),
    ?assertMatch({match, _}, re:run(Text, "interrupted after .* of 5.00 s: that is too little to judge the node"), Text),
    ?assertEqual([], temporary(Config)),
    left_nothing(Node, Tmp),
    kymo_hung_node:stop(Node).

%% The second signal gives up the recording. The node, which was stopped all the time, removes everything.
interrupted_twice(Config) ->
    {Node, Name, Tmp} = node_with(idle, Config),
    Port = started([Name], Config),
    Pid = kymo_hung_node:os_pid(Node),
    "" = os:cmd("kill -STOP " ++ Pid),
    signal("INT", Port),
    signal("TERM", Port),
    {6, Text} = kymo_cli:collect(Port, 60000),
    ?assertNotEqual(nomatch, string:find(Text, "when the node goes on, it removes everything"), Text),
    ?assertEqual([], temporary(Config)),
    "" = os:cmd("kill -CONT " ++ Pid),
    left_nothing(Node, Tmp),
    %% A node that answers has removed it when the command ends.
    Again = started([Name], Config),
    signal("INT", Again),
    signal("TERM", Again),
    {6, Ended} = kymo_cli:collect(Again, 60000),
    ?assertNotEqual(nomatch, string:find(Ended, "ended early; nothing was fetched\n"), Ended),
    ?assertEqual([], temporary(Config)),
    ?assertMatch({0, _, _}, check(reached(["-q", "--for", "300ms", Name]), Config)),
    left_nothing(Node, Tmp),
    kymo_hung_node:stop(Node).

%% A rule that never ends is ended by a signal. The recording has been copied, so it stays.
ended_while_judging(Config) ->
    {Node, Name, Tmp} = node_with(idle, Config),
    Rules = rules(Config, "with recursive n(i) as (values (1) union all select i + 1 from n) select i as finding, 1.0 as weight, '' as more from n where i < 0"),
    [
        begin
            Before = temporary(Config),
            Port = started(["--for", "500ms", "--rules", Rules, Name], Config),
            {os_pid, Pid} = erlang:port_info(Port, os_pid),
            Children = "/proc/" ++ integer_to_list(Pid) ++ "/task/" ++ integer_to_list(Pid) ++ "/children",
            true = kymo_cli:until(fun() -> file:read_file(Children) =:= {ok, <<>>} end),
            signal(Signal, Port),
            {Status, Text} = kymo_cli:collect(Port, 60000),
            [Rec] = temporary(Config) -- Before,
            ?assertEqual({128 + Number, true}, {Status, string:find(Text, ["what was recorded is in ", Rec, "\n"]) =/= nomatch}, Text)
        end
     || {Signal, Number} <- [{"INT", 2}, {"TERM", 15}, {"HUP", 1}]
    ],
    left_nothing(Node, Tmp),
    kymo_hung_node:stop(Node).

%% Starts the command, and waits until it records.
started(Args, Config) ->
    Port = open_port({spawn_executable, kymo:cli_path()}, [
        {args, ["check" | reached(Args)]}, {env, [{"TMPDIR", sub("tmp", Config)}]}, exit_status, stderr_to_stdout, binary, hide
    ]),
    ok = kymo_cli:await_text(Port, ": recording "),
    Port.

signal(Name, Port) ->
    {os_pid, Pid} = erlang:port_info(Port, os_pid),
    "" = os:cmd("kill -" ++ Name ++ " " ++ integer_to_list(Pid)).

left_nothing(Node, Tmp) ->
    true = kymo_cli:until(fun() ->
        kymo_hung_node:call(Node, erlang, whereis, [kymo_attach]) =:= undefined andalso
            not kymo_hung_node:call(Node, erlang, module_loaded, [kymo_attach_node])
    end),
    ?assertEqual(false, kymo_hung_node:call(Node, erlang, module_loaded, [kymo])),
    ?assertEqual({ok, []}, file:list_dir(Tmp)).

%% ---- output ----------------------------------------------------------------------------

%% The folder for temporary files has no room for the recording.
full_disk(Config) ->
    {Node, Name, Tmp} = node_with(crashes, Config),
    Small = sub("small", Config),
    Mount = "mount -t tmpfs -o size=64k tmpfs " ++ Small,
    Result = case os:cmd("unshare -m sh -c '" ++ Mount ++ " && echo can'") of
        "can\n" ->
            Script = Mount ++ " || exit 9; export TMPDIR=" ++ Small ++ "; \"$@\"; status=$?; ls -A " ++ Small ++ "; exit $status",
            {4, Text} = kymo_cli:command(os:find_executable("unshare"),
                ["-m", "sh", "-c", Script, "sh", kymo:cli_path(), "check" | reached(["-q", "--for", "500ms", Name])]),
            ?assertMatch({match, _}, re:run(Text, "^kymo: [^ ]+: " ++ Small ++ "/kymo-check-[^ ]+: no space left on device; the recording was "
                "removed from the node: free some space, or [^\n]*TMPDIR\n$"), Text),
            left_nothing(Node, Tmp),
            {7, _, _} = check(reached(["-q", "--for", "500ms", Name]), Config);
        _ ->
            {skip, "this user may not mount file systems"}
    end,
    kymo_hung_node:stop(Node),
    Result.

%% Nothing shows where the recording is: it is not kept.
unnamed(Config) ->
    {Node, Name, _} = node_with(crashes, Config),
    {7, Text, <<>>} = check(reached(["-q", "--brief", "--for", "500ms", Name]), Config),
    ?assertNotEqual(nomatch, string:find(Text, "[crash_loop]")),
    ?assertEqual([], temporary(Config)),
    {7, Json, <<>>} = check(reached(["-q", "--brief", "--json", "--for", "500ms", Name]), Config),
    #{<<"recording">> := Rec} = kymo_cli:json(binary_to_list(Json)),
    ?assertEqual([binary_to_list(Rec)], temporary(Config)),
    kymo_hung_node:stop(Node).

%% The findings can't be written: the recording is kept, and named where they can't be.
unwritten(Config) ->
    {Node, Name, _} = node_with(crashes, Config),
    [
        begin
            Before = temporary(Config),
            Script = "export TMPDIR=\"$1\"; shift; \"$@\" 2>&1 " ++ Output ++ "; echo status $?",
            {0, Text} = kymo_cli:command("/bin/sh", ["-c", Script, "sh", sub("tmp", Config), kymo:cli_path(), "check"
                | reached(["-q", "--for", "500ms", Name])]),
            [Rec] = temporary(Config) -- Before,
            ?assertNotEqual(nomatch, string:find(Text, ["the recording is in ", Rec, "\nstatus 4\n"]), Text)
        end
     || Output <- [">/dev/full", ">&-"]
    ],
    kymo_hung_node:stop(Node).
