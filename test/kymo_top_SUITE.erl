%% SPDX-License-Identifier: Apache-2.0
%%
%% kymo top on a program that counts its calls and measures their durations: the windows add up
%% to the program's own numbers. The screen on a pseudo-terminal of script(1): keys, sizes, and
%% that the terminal is restored, however the command ends.
-module(kymo_top_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-compile(export_all).
-compile(nowarn_export_all).

all() ->
    [counts, times, processes, node_counters, table, sorting, skips, other_clock, node_dies, ended, replaced, refusals, output_goes_away,
     signals, screen, screen_restored, screen_resized, screen_ends].

init_per_suite(Config) ->
    {module, _} = code:ensure_loaded(kymo),
    Config.

end_per_suite(_) -> ok.

init_per_testcase(Case, Config) ->
    Dir = filename:join(?config(priv_dir, Config), atom_to_list(Case)),
    ok = file:make_dir(Dir),
    [{dir, Dir}, {rec, filename:join(Dir, "rec")} | Config].

end_per_testcase(_, _) -> ok.

%% ---- the program -------------------------------------------------------------

outer(Ns) -> inner(Ns).

%% Busy for Ns nanoseconds. Returns how long it was actually busy.
inner(Ns) ->
    Start = erlang:monotonic_time(),
    spin(Start, erlang:convert_time_unit(Ns, nanosecond, native)).

spin(Start, Units) ->
    case erlang:monotonic_time() - Start of
        Passed when Passed >= Units -> erlang:convert_time_unit(Passed, native, nanosecond);
        _ -> spin(Start, Units)
    end.

counted(X) -> X.

%% A process that executes the funs it is sent and returns their results.
worker() ->
    receive
        {From, Fun} ->
            From ! {self(), Fun()},
            worker()
    end.

ask(Worker, Fun) ->
    Worker ! {self(), Fun},
    receive {Worker, Result} -> Result end.

start(Config, Options, Spec) ->
    Worker = spawn_link(fun worker/0),
    {ok, R} = kymo:start(maps:merge(#{dir => ?config(rec, Config), memory => 8 bsl 20}, Options)),
    {ok, _} = kymo:trace(R, Spec#{processes => [Worker]}),
    {R, Worker}.

functions() -> ["kymo_top_SUITE:counted/1", "kymo_top_SUITE:outer/1", "kymo_top_SUITE:inner/1"].

%% ---- the command -------------------------------------------------------------

top(Args) -> run(kymo:cli_path(), ["top" | Args]).

run(Program, Args) ->
    open_port({spawn_executable, Program}, [
        {args, Args}, {line, 1 bsl 20}, exit_status, stderr_to_stdout, binary, hide
    ]).

line(Port) -> receive {Port, {data, {eol, Line}}} -> Line after 60000 -> error(no_line) end.

window(Port) -> kymo_cli:json(binary_to_list(line(Port)) ++ "\n").

%% The remaining windows, the messages at the end, and the status.
rest(Port) ->
    receive
        {Port, {data, {eol, <<"{", _/binary>> = Line}}} ->
            {Windows, Said, Status} = rest(Port),
            {[kymo_cli:json(binary_to_list(Line) ++ "\n") | Windows], Said, Status};
        {Port, {data, {eol, Line}}} ->
            {Windows, Said, Status} = rest(Port),
            {Windows, [Line | Said], Status};
        {Port, {exit_status, Status}} ->
            {[], [], Status}
    after 60000 -> error(no_end)
    end.

signal(Port, Name) ->
    {os_pid, Pid} = erlang:port_info(Port, os_pid),
    "" = os:cmd("kill -" ++ Name ++ " " ++ integer_to_list(Pid)).

%% The rows of one function or process in all windows.
rows(Key, Name, Windows) ->
    [Row || #{Key := Rows} <- Windows, Row <- Rows, lists:member(Name, maps:values(Row))].

sum(Key, Rows) -> lists:sum([maps:get(Key, Row) || Row <- Rows]).

function(Name, Windows) -> rows(<<"functions">>, <<"kymo_top_SUITE:", Name/binary>>, Windows).

%% Each window begins exactly where the previous one ended.
assert_gapless([#{<<"to_ns">> := To} | [#{<<"from_ns">> := From, <<"skipped_ns">> := 0} | _] = Rest]) ->
    ?assertEqual(To, From),
    assert_gapless(Rest);
assert_gapless([_]) ->
    ok.

%% ---- what it counts ------------------------------------------------------------

%% Each call is counted in exactly one window, with both policies.
counts(Config) ->
    [begin
         Rec = ?config(rec, Config) ++ atom_to_list(Policy),
         {R, W} = start([{rec, Rec} | Config], #{policy => Policy, segment_size => 4096}, #{functions => functions()}),
         Port = top(["--json", "-d", "100ms", Rec]),
         First = window(Port),
         Done = [ask(W, fun() -> [?MODULE:counted(I) || I <- lists:seq(1, N)], N end) || N <- [1, 10, 1000, 20000, 7]],
         Second = window(Port),
         {ok, #{events := Events}} = kymo:stop(R),
         {Windows, [Said], 0} = rest(Port),
         assert_gapless([First, Second | Windows]),
         ?assertEqual(lists:sum(Done), sum(<<"calls">>, function(<<"counted/1">>, [Second | Windows]))),
         ?assertEqual(Events, sum(<<"events">>, [Second | Windows])),
         ?assertEqual(lists:sum(Done), sum(<<"calls">>, rows(<<"processes">>, list_to_binary(pid_to_list(W)), [Second | Windows]))),
         ?assertMatch({_, _}, binary:match(Said, <<"the recorder has stopped (stop)">>))
     end || Policy <- [overwrite, discard]].

%% The program measures each call's duration both inside and outside of the call.
times(Config) ->
    {R, W} = start(Config, #{}, #{functions => functions(), returns => true}),
    Port = top(["--json", "-d", "100ms", ?config(rec, Config)]),
    First = window(Port),
    %% The first call of a function shows that its returns are recorded.
    _ = ask(W, fun() -> [?MODULE:outer(1), ?MODULE:inner(1)] end),
    Calls = ask(W, fun() ->
        [begin
             Start = erlang:monotonic_time(),
             Within = ?MODULE:inner(Ns),
             {Within, erlang:convert_time_unit(erlang:monotonic_time() - Start, native, nanosecond)}
         end || _ <- lists:seq(1, 40), Ns <- [100000, 3000000]]
    end),
    {ok, _} = kymo:stop(R),
    {Windows, _, 0} = rest(Port),
    assert_gapless([First | Windows]),
    Rows = function(<<"inner/1">>, Windows),
    {Within, Around} = lists:unzip(Calls),
    %% Two more calls at the beginning; the first may have no recorded end.
    ?assertEqual(length(Calls) + 2, sum(<<"calls">>, Rows)),
    ?assert(sum(<<"ended">>, Rows) >= length(Calls)),
    Self = sum(<<"self_ns">>, Rows),
    ?assert(Self >= lists:sum(Within)),
    ?assert(Self =< lists:sum(Around) + 20000000),
    Max = lists:max([Ns || #{<<"max_ns">> := Ns} <- Rows, Ns =/= null]),
    ?assert(Max >= lists:max(Within)),
    ?assert(Max =< lists:max([20000000 | Around])),
    [?assert(P50 =< P99 andalso P99 =< M) || #{<<"p50_ns">> := P50, <<"p99_ns">> := P99, <<"max_ns">> := M} <- Rows, M =/= null].

%% Messages, running time, requests that wait for a reply, schedulers.
processes(Config) ->
    {R, W} = start(Config, #{}, #{events => [messages, running]}),
    Port = top(["--json", "-d", "100ms", ?config(rec, Config)]),
    First = window(Port),
    N = 500,
    [ask(W, fun() -> inner(200000) end) || _ <- lists:seq(1, N)],
    {ok, _} = kymo:stop(R),
    {Windows, _, 0} = rest(Port),
    assert_gapless([First | Windows]),
    Rows = rows(<<"processes">>, list_to_binary(pid_to_list(W)), [First | Windows]),
    ?assertEqual(N, sum(<<"received">>, Rows)),
    ?assertEqual(N, sum(<<"sent">>, Rows)),
    Running = sum(<<"running_ns">>, Rows),
    %% The sum over all windows equals what another command reads, of runs since the first window
    %% began, except that the clock rate is known more precisely by then.
    #{<<"from_ns">> := Since} = First,
    Query = lists:concat(["select sum(start_ns + duration_ns - max(start_ns, ", Since, ")) as ns from running where pid = '",
                          pid_to_list(W), "' and start_ns + duration_ns > ", Since]),
    {0, Out} = kymo_cli:run(["sql", "--quiet", "--json", ?config(rec, Config), Query]),
    #{<<"ns">> := Ran} = kymo_cli:json(unicode:characters_to_list(Out)),
    ?assertMatch({true, _, _}, {abs(Running - Ran) =< Ran div 1000, Running, Ran}),
    Busy = lists:sum([Ns || #{<<"threads">> := Threads} <- [First | Windows], #{<<"busy_ns">> := Ns} <- Threads]),
    ?assertEqual(Running, Busy),
    [?assert(Ns =< To - From) || #{<<"from_ns">> := From, <<"to_ns">> := To, <<"threads">> := Threads} <- Windows,
                                 #{<<"busy_ns">> := Ns} <- Threads].

%% Counters and system monitor reports: each sample and each report is in one window.
node_counters(Config) ->
    Rec = ?config(rec, Config),
    {R, W} = start(Config, #{counters => 50, system_monitor => [{large_heap, 2000000}]}, #{functions => functions()}),
    Port = top(["--json", "-d", "300ms", Rec]),
    First = #{<<"to_ns">> := Since} = window(Port),
    Held = [spawn_link(fun() -> receive stop -> ok end end) || _ <- lists:seq(1, 3000)],
    _ = ask(W, fun() -> L = lists:seq(1, 2000000), garbage_collect(), length(L) end),
    true = kymo_cli:until(fun() ->
        #{counters := #{samples := N}, system_monitor := #{events := E}} = kymo:info(R),
        N > 20 andalso E > 0
    end),
    [P ! stop || P <- Held],
    {ok, _} = kymo:stop(R),
    {Windows, _, 0} = rest(Port),
    assert_gapless([First | Windows]),
    Sql = fun(Table, Where) ->
        {0, Out} = kymo_cli:run(["sql", "-q", "--json", Rec, lists:concat(["select count(*) as n, max(value) as most from ", Table, " where time_ns > ", Since, " and ", Where])]),
        kymo_cli:json(binary_to_list(Out))
    end,
    #{<<"n">> := Samples, <<"most">> := Most} = Sql(counters, "counter = 'process_count'"),
    Counts = [C || #{<<"counters">> := #{<<"process_count">> := C}} <- Windows],
    %% One sample may lie at the edge of the first window, because the clock is known more
    %% precisely at the end.
    ?assert(abs(sum(<<"values">>, Counts) - Samples) =< 1),
    ?assertEqual(Most, lists:max([maps:get(<<"max">>, C) || C <- Counts])),
    ?assert(Most >= 3000),
    #{<<"n">> := Reports} = Sql(system_monitor, "kind = 'large_heap'"),
    ?assert(Reports > 0),
    ?assertEqual(Reports, lists:sum([N || #{<<"system_monitor">> := #{<<"large_heap">> := N}} <- Windows])),
    Online = lists:seq(1, erlang:system_info(schedulers_online)),
    [?assertEqual(Online, [N || #{<<"scheduler">> := N, <<"utilization_ppm">> := Ppm} <- S, Ppm =< 1000000])
     || #{<<"schedulers">> := S, <<"counters">> := C} <- Windows, C =/= #{}],
    {0, Text} = kymo_cli:run(["top", "-q", "-d", "1h", Rec]),
    [?assertMatch({match, _}, re:run(Text, Line, [multiline]), Line) ||
        Line <- ["^schedulers  s1 [0-9]+ %", "^node  run queue [0-9]+.*, [0-9,]+ processes, .* reductions/s",
                 "^reports  .*[0-9]+ large_heap \\([0-9,]+ words <0\\."] ++
                ["^memory  [0-9.]+ MiB, processes " || kymo_peer:counts_memory()]].

%% The same as text, with the requested number of rows.
table(Config) ->
    {R, W} = start(Config, #{}, #{functions => functions()}),
    ask(W, fun() -> [?MODULE:counted(I) || I <- lists:seq(1, 100)], ?MODULE:outer(1) end),
    {ok, _} = kymo:stop(R),
    {0, Text} = kymo_cli:run(["top", "-q", "-d", "1h", "--sort", "calls", "--rows", "2", ?config(rec, Config)]),
    Lines = binary:split(Text, <<"\n">>, [global]),
    ?assertMatch({match, _}, re:run(hd(Lines), "^[0-9]{4}-[0-9-]{5} [0-9:]{8}  over ")),
    {match, [First, _]} = re:run(Text, "kymo_top_SUITE:[a-z]+/1", [global, {capture, first, binary}]),
    ?assertEqual([<<"kymo_top_SUITE:counted/1">>], First),
    ?assertMatch({_, _}, binary:match(Text, <<"schedulers not known">>)),
    ?assertEqual(nomatch, binary:match(Text, <<"\e">>)).

sorting(Config) ->
    {R, W} = start(Config, #{}, #{functions => functions(), returns => true}),
    ask(W, fun() -> [?MODULE:counted(I) || I <- lists:seq(1, 100)], [?MODULE:outer(3000000) || _ <- [1, 2, 3]] end),
    {ok, _} = kymo:stop(R),
    First = fun(Column) ->
        {0, Json} = kymo_cli:run(["top", "-q", "-d", "1h", "--json", "--sort", Column, ?config(rec, Config)]),
        #{<<"functions">> := [#{<<"function">> := F} | _]} = kymo_cli:json(binary_to_list(Json)),
        F
    end,
    ?assertEqual(<<"kymo_top_SUITE:counted/1">>, First("calls")),
    ?assertEqual(<<"kymo_top_SUITE:inner/1">>, First("self")),
    [?assertEqual(<<"kymo_top_SUITE:outer/1">>, First(C)) || C <- ["max"]],
    ?assertNotEqual(<<"kymo_top_SUITE:counted/1">>, First("p99")).

%% The command is stopped until events that it has not read were overwritten: it reports how
%% many it has skipped, and what it shows afterwards is correct.
skips(Config) ->
    {R, W} = start(Config, #{memory => 4 bsl 20}, #{functions => functions()}),
    Port = top(["--json", "-d", "100ms", ?config(rec, Config)]),
    First = window(Port),
    signal(Port, "STOP"),
    {os_pid, Pid} = erlang:port_info(Port, os_pid),
    true = kymo_cli:until(fun() -> string:find(os:cmd("cut -d' ' -f3 /proc/" ++ integer_to_list(Pid) ++ "/stat"), "T") =/= nomatch end),
    N = 1000000,
    ask(W, fun() -> [?MODULE:counted(I) || I <- lists:seq(1, N)] end),
    signal(Port, "CONT"),
    {ok, _} = kymo:stop(R),
    {Windows, _, 0} = rest(Port),
    Skipped = sum(<<"skipped_events">>, Windows),
    Called = sum(<<"calls">>, function(<<"counted/1">>, [First | Windows])),
    ?assert(Skipped > 0),
    ?assert(Called < N),
    ?assert(Called > 0),
    ?assert(sum(<<"skipped_ns">>, Windows) > 0),
    ?assert(abs(Skipped + Called - N) < N div 100).

%% ---- how it ends ---------------------------------------------------------------

%% The node's monotonic clock is an hour behind, or some seconds ahead: windows still show the
%% present.
other_clock(Config) ->
    case os:cmd("unshare -T --monotonic 3600 --fork echo can") of
        "can\n" ->
            {R, W} = start(Config, #{}, #{functions => functions()}),
            [begin
                 Port = run(os:find_executable("unshare"),
                            ["-T", "--monotonic", Offset, "--fork", kymo:cli_path(), "top", "-n", "3", "--json",
                             "-d", "500ms", ?config(rec, Config)]),
                 _ = ask(W, fun() -> ?MODULE:counted(1) end),
                 {Windows, [], 0} = rest(Port),
                 ?assertEqual(3, length(Windows)),
                 Now = erlang:system_time(nanosecond),
                 [?assert(abs(Now - Unix) < 60_000_000_000) || #{<<"unix_ns">> := Unix} <- Windows]
             end || Offset <- ["3600", "-5"]],
            {ok, _} = kymo:stop(R);
        Said ->
            {skip, "no time namespaces: " ++ string:trim(Said)}
    end.

%% A separate node that records is killed.
node_dies(Config) ->
    Rec = ?config(rec, Config),
    Start = lists:flatten(io_lib:format(
        "{ok, R} = kymo:start(#{dir => ~p, memory => 8 bsl 20}), "
        "{ok, _} = kymo:trace(R, #{processes => [self()], functions => \"lists:reverse/1\"}), "
        "io:put_chars(\"ready\\n\"), F = fun(F) -> lists:reverse([1]), receive after 1 -> F(F) end end, F(F).", [Rec])),
    Node = open_port({spawn_executable, os:find_executable("erl")}, [
        {args, ["-noshell", "-noinput", "-pa", filename:dirname(code:which(kymo)), "-eval", Start]},
        {line, 1000}, binary, exit_status, hide, {cd, ?config(dir, Config)}
    ]),
    <<"ready">> = line(Node),
    Port = top(["--json", "-d", "100ms", Rec]),
    _ = window(Port),
    signal(Node, "KILL"),
    {_, [Said], 0} = rest(Port),
    ?assertMatch({_, _}, binary:match(Said, <<"the node died">>)).

%% The last time in an ended recording, and when it ended.
ended(Config) ->
    {R, W} = start(Config, #{}, #{functions => functions()}),
    ask(W, fun() -> ?MODULE:counted(1) end),
    Snapshot = ?config(rec, Config) ++ ".snapshot",
    {ok, _} = kymo:snapshot(R, Snapshot),
    {ok, _} = kymo:stop(R),
    [begin
         {[Window], [Said], 0} = rest(top(["--json", "-d", "1h", Rec])),
         ?assertMatch([#{<<"calls">> := 1}], function(<<"counted/1">>, [Window])),
         ?assertMatch({_, _}, binary:match(Said, Why))
     end || {Rec, Why} <- [{?config(rec, Config), <<"has stopped">>}, {Snapshot, <<"snapshot">>}]].

%% The folder now holds another recording.
replaced(Config) ->
    Rec = ?config(rec, Config),
    {R, _} = start(Config, #{}, #{functions => functions()}),
    Port = top(["--json", "-d", "100ms", Rec]),
    _ = window(Port),
    {ok, Other} = kymo:start(#{dir => Rec ++ ".other", memory => 8 bsl 20}),
    signal(Port, "STOP"),
    ok = file:rename(Rec, Rec ++ ".moved"),
    ok = file:rename(Rec ++ ".other", Rec),
    signal(Port, "CONT"),
    {_, [Said | _], 3} = rest(Port),
    ?assertMatch({match, _}, re:run(Said, "another recording|No such file")),
    {ok, _} = kymo:stop(Other),
    {ok, _} = kymo:stop(R).

refusals(Config) ->
    {2, _} = kymo_cli:run(["top"]),
    {3, _} = kymo_cli:run(["top", ?config(dir, Config) ++ "/none"]),
    [begin
         {2, Out} = kymo_cli:run(["top" | Args] ++ [?config(dir, Config)]),
         ?assertMatch({_, _}, binary:match(Out, Hint))
     end || {Args, Hint} <- [{["-d", "1ms"], <<"100ms to 1h">>}, {["-d", "2h"], <<"100ms to 1h">>}, {["-n", "0"], <<"from 1">>},
                             {["--sort", "name"], <<"calls, self">>}, {["--rows", "x"], <<"from 1">>}, {["--bad"], <<"kymo help top">>}]].

output_goes_away(Config) ->
    {R, _} = start(Config, #{}, #{functions => functions()}),
    Command = kymo:cli_path() ++ " top -d 100ms " ++ ?config(rec, Config) ++ " | head -n 1 >/dev/null",
    {0, _} = kymo_cli:command("/bin/sh", ["-c", Command]),
    {ok, _} = kymo:stop(R).

signals(Config) ->
    {R, _} = start(Config, #{}, #{functions => functions()}),
    [begin
         Port = top(["--json", "-d", "1h", ?config(rec, Config)]),
         _ = window(Port),
         signal(Port, Name),
         ?assertMatch({[], [], 0}, rest(Port))
     end || Name <- ["INT", "TERM"]],
    {ok, _} = kymo:stop(R).

%% ---- the screen ----------------------------------------------------------------

%% kymo top on a terminal of 24 lines and 80 columns. The output of stty before and after, and
%% the number of the terminal, are written to files.
on_terminal(Config, Args) ->
    Dir = ?config(dir, Config),
    Script = filename:join(Dir, "run"),
    ok = file:write_file(Script, [
        "trap : INT; cd '", Dir, "'; stty rows 24 cols 80; tty >tty; stty -a >before\n",
        "sh -c 'echo $$ >pid; exec \"$@\"' sh '", kymo:cli_path(), "' top ", lists:join(" ", Args), " '", ?config(rec, Config), "'\n",
        "echo \"status $?\"; stty -a >after; echo \"the end\"\n"]),
    open_port({spawn_executable, os:find_executable("script")}, [
        {args, ["-q", "-c", "sh " ++ Script, "/dev/null"]}, exit_status, binary, hide, use_stdio
    ]).

%% Returns the output so far once it matches.
until_shown(Port, Pattern) -> until_shown(Port, Pattern, <<>>).

until_shown(Port, Pattern, Before) ->
    case re:run(Before, Pattern, [dotall]) of
        {match, _} ->
            Before;
        nomatch ->
            receive
                {Port, {data, Data}} -> until_shown(Port, Pattern, <<Before/binary, Data/binary>>);
                {Port, {exit_status, Status}} -> error({ended, Status, Before})
            after 60000 -> error({not_shown, Pattern, Before})
            end
    end.

file(Config, Name) ->
    {ok, Text} = file:read_file(filename:join(?config(dir, Config), Name)),
    string:trim(Text).

%% The command has ended, and the terminal is in its original state.
assert_restored(Port, Config, Status) ->
    Out = until_shown(Port, "the end"),
    ?assertMatch({_, _}, binary:match(Out, <<"status ", Status/binary>>)),
    ?assertMatch({_, _}, binary:match(Out, <<"\e[?1049l">>)),
    ?assertMatch({_, _}, binary:match(Out, <<"\e[?25h">>)),
    ?assertEqual(file(Config, "before"), file(Config, "after")),
    {_, _} = kymo_cli:collect(Port, 60000).

screen(Config) ->
    {R, W} = start(Config, #{}, #{functions => functions()}),
    Port = on_terminal(Config, ["-d", "100ms"]),
    _ = until_shown(Port, "\e\\[\\?1049h.*by self and running.*q quit"),
    ask(W, fun() -> ?MODULE:counted(1) end),
    _ = until_shown(Port, "kymo_top_SUITE:counted/1"),
    port_command(Port, "c"),
    _ = until_shown(Port, "by calls and running"),
    port_command(Port, "i"),
    _ = until_shown(Port, "by calls and in"),
    port_command(Port, " "),
    _ = until_shown(Port, "PAUSED"),
    %% The sort order can be changed while the display is paused.
    port_command(Port, "9"),
    _ = until_shown(Port, "by p99 and in, PAUSED"),
    port_command(Port, " "),
    _ = until_shown(Port, "by p99 and in\e"),
    port_command(Port, "q"),
    assert_restored(Port, Config, <<"0">>),
    {ok, _} = kymo:stop(R).

%% Ctrl-C, signals, a crash.
screen_restored(Config) ->
    {R, _} = start(Config, #{}, #{functions => functions()}),
    [begin
         Port = on_terminal(Config, ["-d", "100ms"]),
         _ = until_shown(Port, "q quit"),
         End(Port, binary_to_list(file(Config, "pid"))),
         assert_restored(Port, Config, Status)
     end || {End, Status} <- [{fun(Port, _) -> port_command(Port, [3]) end, <<"0">>},
                              {fun(_, Pid) -> os:cmd("kill -TERM " ++ Pid) end, <<"0">>},
                              {fun(_, Pid) -> os:cmd("kill -HUP " ++ Pid) end, <<"0">>},
                              {fun(_, Pid) -> os:cmd("kill -SEGV " ++ Pid) end, <<"139">>},
                              {fun(_, Pid) -> os:cmd("kill -ABRT " ++ Pid) end, <<"134">>}]],
    {ok, _} = kymo:stop(R).

screen_resized(Config) ->
    {R, _} = start(Config, #{}, #{functions => functions()}),
    Port = on_terminal(Config, ["-d", "1h"]),
    _ = until_shown(Port, "q quit"),
    %% The last line does not fit.
    "" = os:cmd("stty -F " ++ binary_to_list(file(Config, "tty")) ++ " rows 4 cols 40"),
    Small = until_shown(Port, "\e\\[H.*\e\\[J"),
    ?assertEqual(nomatch, binary:match(Small, <<"q quit">>)),
    %% stty may change rows and columns one after the other, and each change redraws the screen.
    [_ | Screens] = binary:split(Small, <<"\e[H">>, [global]),
    [?assertEqual(3, length(binary:matches(Screen, <<"\r\n">>))) || Screen <- Screens, binary:match(Screen, <<"\e[J">>) =/= nomatch],
    port_command(Port, "q"),
    _ = until_shown(Port, "the end"),
    {_, _} = kymo_cli:collect(Port, 60000),
    {ok, _} = kymo:stop(R).

%% The recorder stops: the message appears on the restored terminal.
screen_ends(Config) ->
    {R, _} = start(Config, #{}, #{functions => functions()}),
    Port = on_terminal(Config, ["-d", "100ms"]),
    _ = until_shown(Port, "q quit"),
    {ok, _} = kymo:stop(R),
    Out = until_shown(Port, "the end"),
    ?assertMatch({match, _}, re:run(Out, "\e\\[\\?1049l.*the recorder has stopped \\(stop\\).*status 0", [dotall])),
    {_, _} = kymo_cli:collect(Port, 60000).
