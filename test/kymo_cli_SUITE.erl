%% SPDX-License-Identifier: Apache-2.0
%%
%% The command `kymo', run as a user does, on recordings of this node: exit statuses, help,
%% printed output, filters, damaged recordings, and outputs that fail. Printed output is
%% compared with what the recorder counted, with what OTP's dbg reads from an export, and with
%% how io_lib formats terms.
-module(kymo_cli_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-compile(export_all).
-compile(nowarn_export_all).

all() ->
    [
        help, wrong_usage, not_a_recording,
        info_text, info_one, info_json, info_top,
        print_lines, print_clocks, print_limit, print_pids, print_tags, print_modules, print_times,
        export_filters, export_refusals,
        terms_like_the_shell, arguments, cut_terms, elixir_names, names_are_safe,
        strict, missing_file, nothing_to_show, cut_file, flipped_bits, no_dictionary, full_dictionary, foreign_files,
        closed_pipe, full_disk, while_recording, horizon, snapshot, progress_on_a_terminal
    ].

init_per_suite(Config) ->
    {module, _} = code:ensure_loaded(kymo),
    Priv = ?config(priv_dir, Config),
    Dir = filename:join(Priv, "work"),
    Pid = record(Dir, #{calls => arguments, messages => contents}, fun work/0),
    [{recording, Dir}, {worker, Pid} | Config].

end_per_suite(_) ->
    ok.

init_per_testcase(Case, Config) ->
    Dir = filename:join(?config(priv_dir, Config), atom_to_list(Case)),
    ok = file:make_dir(Dir),
    [{dir, Dir} | Config].

end_per_testcase(_, _) ->
    ok.

%% ---- recordings ----

%% The recorded process makes 50 calls of functions in this module and 20 in lists, and sends 10
%% messages to another process, which has a name.
work() ->
    Echo = spawn_link(fun() -> echo() end),
    register(cli_suite_echo, Echo),
    [traced(N) || N <- lists:seq(1, 50)],
    [lists:nth(1, [N]) || N <- lists:seq(1, 20)],
    [begin Echo ! {self(), N}, receive {Echo, N} -> ok end end || N <- lists:seq(1, 10)],
    unlink(Echo),
    Monitor = monitor(process, Echo),
    exit(Echo, kill),
    receive {'DOWN', Monitor, process, Echo, killed} -> ok end.

traced(X) -> X.

echo() ->
    receive {From, N} -> From ! {self(), N}, echo() end.

record(Dir, Options, Fun) ->
    record(Dir, Options, Fun, fun(_) -> ok end).

%% While is called with the recorder after Fun has returned and before the recorder is stopped.
record(Dir, Options, Fun, While) ->
    {ok, R} = kymo:start(maps:merge(#{dir => Dir, policy => discard}, Options)),
    {Pid, Monitor} = spawn_monitor(fun() -> receive go -> Fun() end end),
    {ok, _} = kymo:trace(R, #{processes => [Pid], events => [calls, messages, procs, set_on_spawn],
                              functions => [{?MODULE, traced, 1}, {lists, nth, 2}]}),
    Pid ! go,
    receive {'DOWN', Monitor, process, Pid, normal} -> ok end,
    While(R),
    {ok, _} = kymo:stop(R),
    Pid.

%% ---- the command ----

%% Standard output only. The command must succeed, possibly with warnings.
out(Args) ->
    {0, Out, Err} = run(Args),
    Warnings = ["kymo: nothing to show: ", "kymo: incomplete: "],
    Other = [Line || Line <- string:lexemes(Err, "\n"), not lists:any(fun(W) -> lists:prefix(W, Line) end, Warnings)],
    ?assertEqual([], Other),
    Out.

lines(Args) ->
    string:lexemes(out(Args), "\n").

%% Status, standard output, standard error, as lists of characters.
run(Args) ->
    shell(["exec ", [[quote(A), $ ] || A <- [kymo:cli_path() | Args]]]).

shell(Command) ->
    Tmp = filename:join(os:getenv("TMPDIR", "/tmp"), "kymo-cli-" ++ os:getpid() ++ "-" ++
                            integer_to_list(erlang:unique_integer([positive]))),
    Port = open_port({spawn_executable, "/bin/sh"},
                     [{args, ["-c", unicode:characters_to_binary(["{ ", Command, "; } 2>", quote(Tmp)])]},
                      exit_status, binary, use_stdio]),
    {Status, Out} = collect(Port, []),
    {ok, Err} = file:read_file(Tmp),
    ok = file:delete(Tmp),
    {Status, text(Out), text(Err)}.

text(Bytes) ->
    case unicode:characters_to_list(Bytes) of
        Text when is_list(Text) -> Text;
        _ -> error({not_utf8, Bytes})
    end.

collect(Port, Acc) ->
    receive
        {Port, {data, Data}} -> collect(Port, [Acc, Data]);
        {Port, {exit_status, Status}} -> {Status, iolist_to_binary(Acc)}
    after 120000 ->
        error({no_end, iolist_to_binary(Acc)})
    end.

quote(Text) ->
    ["'", string:replace(Text, "'", "'\\''", all), "'"].

contains(Text, What) ->
    string:find(Text, What) =/= nomatch.

%% ---- usage ----

help(_) ->
    {0, General, ""} = run(["--help"]),
    {0, General, ""} = run(["help"]),
    {0, General, ""} = run(["-h"]),
    [?assert(contains(General, W)) || W <- ["kymo info", "kymo print", "export perfetto", "export ctf",
                                            "export folded", "export dbg", "export speedscope", "kymo stats", "kymo requests",
                                            "kymo mailboxes", "kymo why", "kymo diff", "kymo attach", "Exit status"]],
    [begin
         {0, Text, ""} = run(["help", Command]),
         {0, Text, ""} = run([Command, "--help"]),
         {0, Text, ""} = run([Command, "/nowhere", "-h"]),
         ?assert(contains(Text, "Usage: kymo " ++ Command)),
         ?assert(contains(Text, "--strict"))
     end || Command <- ["info", "print", "export", "stats", "requests", "mailboxes", "why", "check", "diff"]],
    _ = application:load(kymo),
    {ok, Vsn} = application:get_key(kymo, vsn),
    ?assert(contains(out(["--version"]), "kymo " ++ Vsn)).

wrong_usage(Config) ->
    Dir = ?config(recording, Config),
    Wrong = [
        [], ["frobnicate"], ["--frobnicate"], ["help", "frobnicate"],
        ["info"], ["info", Dir, Dir], ["info", "--frobnicate", Dir], ["info", "--top", "many", Dir],
        ["info", "--top", "-1", Dir], ["info", "--top"],
        ["print"], ["print", "--limit", "x", Dir], ["print", "--from", "yesterday", Dir],
        ["print", "--from", "1.5parsecs", Dir], ["print", "--to", "99999999999999999999s", Dir],
        ["print", "--from", "2s", "--to", "1s", Dir], ["print", "--events", "call,frob", Dir],
        ["print", "--events", "", Dir], ["print", "--pid", "<0.1>", Dir], ["print", "--pid", "", Dir],
        ["print", "--module", "", Dir], ["print", "--json", "--utc", Dir],
        ["print", "--tree", "--slower", "fast", Dir], ["print", "--slower", "1ms", Dir],
        ["export"], ["export", Dir, "-o", "x"], ["export", "xml", Dir, "-o", "x"], ["export", "dbg", Dir],
        ["export", "ctf", Dir, "-o", "-"], ["export", "dbg", "--wall", Dir, "-o", "-"],
        ["export", "dbg", Dir, "-o", ""], ["export", "dbg", "", "-o", "x"], ["info", ""], ["print", ""],
        ["print", "--utc", "--erlang", Dir], ["--version", "x"], ["help", "info", "x"],
        ["info", "--json=1", Dir], ["export", "ctf", "--wall", Dir, "-o", "x"],
        ["export", "speedscope", "--all", Dir, "-o", "x"],
        ["stats"], ["stats", "--by", "colour", Dir], ["stats", "--sort", "name", Dir],
        ["stats", "--sort", "sent", Dir], ["stats", "--by", "role", "--sort", "self", Dir],
        ["stats", "--function", "", Dir], ["stats", "--by", "role", "--module", "lists", Dir], ["requests", Dir, Dir], ["requests", "--top", "x", Dir],
        ["mailboxes", "--by", "module", Dir], ["mailboxes", "--sort", "x", Dir],
        ["mailboxes", "--module", "lists", Dir], ["why", "--at", "noon", Dir], ["why"],
        ["diff", Dir], ["diff", Dir, Dir, Dir], ["diff", Dir, ""]
    ],
    [begin
         {Status, Out, Err} = run(Args),
         ?assertEqual({Args, 2, ""}, {Args, Status, Out}),
         ?assert(contains(Err, "kymo"))
     end || Args <- Wrong],
    {2, "", Err} = run(["print", "--events", "call,frob", Dir]),
    ?assert(contains(Err, "'frob'")),
    ?assert(contains(Err, "kymo help print")).

not_a_recording(Config) ->
    Dir = ?config(dir, Config),
    File = filename:join(Dir, "file"),
    ok = file:write_file(File, "x"),
    [Wrong, Empty] = [filename:join(Dir, Name) || Name <- ["wrong", "empty"]],
    [ok = file:make_dir(D) || D <- [Wrong, Empty]],
    ok = file:write_file(filename:join(Wrong, "meta"), binary:copy(<<"kymo">>, 4096)),
    Newer = copy(?config(recording, Config), Dir, "newer"),
    patch(filename:join(Newer, "meta"), 8, <<4:32/little>>),
    Older = copy(?config(recording, Config), Dir, "older"),
    patch(filename:join(Older, "meta"), 8, <<1:32/little>>),
    %% Every record of version 2 is also valid in version 3.
    Previous = copy(?config(recording, Config), Dir, "previous"),
    patch(filename:join(Previous, "meta"), 8, <<2:32/little>>),
    patch(filename:join(Previous, "meta"), 608, <<0:32>>),
    ?assertEqual(out(["print", Previous]), out(["print", ?config(recording, Config)])),
    [begin
         {3, "", Err} = run(Command ++ [Path]),
         ?assert(contains(Err, Path)),
         ?assert(contains(Err, Why))
     end || Command <- [["info"], ["print"], ["export", "dbg", "-o", "-"]],
            {Path, Why} <- [{filename:join(Dir, "nothing"), "No such file"}, {"a@b", "use 'kymo attach a@b'"}, {File, "Not a directory"},
                            {Empty, "not a recording"}, {Wrong, "magic"}, {Newer, "format version 4; this program reads versions 2 to 3"},
                            {Older, "format version 1; this program reads versions 2 to 3"}]].

%% ---- info ----

info_text(Config) ->
    Dir = ?config(recording, Config),
    Text = out(["info", Dir]),
    [?assert(contains(Text, W), W) ||
        W <- [Dir, "closed: stopped", atom_to_list(node()), "OTP " ++ erlang:system_info(otp_release),
              os:getpid(), "policy       discard", "lost         nothing", "damage       none",
              "kymo_cli_SUITE:traced/1", "lists:nth/2", "call", "send", pid_to_list(?config(worker, Config))]].

info_one(Config) ->
    Dir = filename:join(?config(dir, Config), "one"),
    {ok, R} = kymo:start(#{dir => Dir, policy => discard, limit => #{events => 1}}),
    {ok, _} = kymo:trace(R, #{functions => "kymo_cli_SUITE:traced/1", processes => [self()]}),
    one = ?MODULE:traced(one),
    {ok, _} = kymo:stop(R),
    {0, Text} = kymo_cli:run(["info", Dir]),
    kymo_cli:contains(Text, ["limit        1 event\n", " in 1 data file, "]).

info_json(Config) ->
    Dir = ?config(recording, Config),
    Json = kymo_cli:json(out(["info", "--json", Dir])),
    Events = length(lines(["print", Dir, "--events", all_tags()])),
    ?assertMatch(#{<<"format">> := 3, <<"state">> := <<"closed">>, <<"reason">> := <<"stop">>,
                   <<"policy">> := <<"discard">>, <<"complete">> := true, <<"overwritten">> := 0,
                   <<"lost">> := #{<<"total">> := 0, <<"ring_full">> := 0, <<"io">> := 0},
                   <<"damage">> := #{<<"segments_bad">> := 0, <<"records_bad">> := 0}}, Json),
    ?assertEqual(list_to_integer(os:getpid()), maps:get(<<"os_pid">>, Json)),
    ?assertEqual(atom_to_binary(node()), maps:get(<<"node">>, Json)),
    ?assertEqual(Events, maps:get(<<"events">>, Json)),
    ?assertEqual(Events, maps:get(<<"recorded">>, Json)),
    Tags = maps:get(<<"by_event">>, Json),
    ?assertEqual(70, maps:get(<<"call">>, Tags)),
    ?assertEqual(20, maps:get(<<"send">>, Tags)),
    ?assertEqual(Events, lists:sum([N || {Tag, N} <- maps:to_list(Tags), not lists:prefix("kymo_", binary_to_list(Tag))])),
    ?assertEqual(Events, lists:sum([maps:get(<<"events">>, T) || T <- maps:get(<<"threads">>, Json)])),
    [?assertEqual({ok, <<Name/binary, "\n">>}, file:read_file(["/proc/self/task/", integer_to_list(Id), "/comm"]))
     || #{<<"name">> := Name, <<"os_thread">> := Id} <- maps:get(<<"threads">>, Json)],
    ?assertEqual(Events, lists:sum([maps:get(<<"events">>, P) || P <- maps:get(<<"processes">>, Json)])),
    ?assertEqual([{50, <<"kymo_cli_SUITE:traced/1">>}, {20, <<"lists:nth/2">>}],
                 [{N, F} || #{<<"calls">> := N, <<"function">> := F} <- maps:get(<<"functions">>, Json)]),
    ?assert(maps:get(<<"last_ns">>, Json) >= maps:get(<<"first_ns">>, Json)).

info_top(Config) ->
    Dir = ?config(recording, Config),
    #{<<"processes">> := [_], <<"process_count">> := N, <<"functions">> := [_], <<"function_count">> := 2} =
        kymo_cli:json(out(["info", "--json", "-n", "1", Dir])),
    ?assert(N >= 2),
    #{<<"processes">> := [], <<"functions">> := []} = kymo_cli:json(out(["info", "--json", "--top", "0", Dir])).

%% ---- print ----

print_lines(Config) ->
    Dir = ?config(recording, Config),
    Worker = pid_to_list(?config(worker, Config)),
    Lines = lines(["print", Dir]),
    %% Every line has a time, a thread, a process and an event.
    Times = [begin
                 {match, [Time]} = re:run(L, "^(\\d+\\.\\d{9}) [scit]\\d+ (<0\\.\\d+\\.\\d+>(\\([^)]*\\))?|-) [a-z_]+( |$)",
                                          [{capture, [1], list}]),
                 Time
             end || L <- Lines],
    ?assertEqual(Times, lists:sort(Times)),
    Calls = [L || L <- Lines, contains(L, " call kymo_cli_SUITE:traced(")],
    ?assertEqual([lists:flatten(io_lib:format("~s call kymo_cli_SUITE:traced(~b)", [Worker, N]))
                  || N <- lists:seq(1, 50)],
                 [after_thread(L) || L <- Calls]),
    %% As many events as OTP reads from the dbg file, which has no `taken'.
    ?assertEqual(length(kymo_cli:events(Dir)),
                 length([L || L <- Lines, not contains(L, " - kymo_"), tag(L) =/= "taken"])),
    ?assertEqual(10, length([L || L <- Lines, contains(L, Worker ++ " send to="), contains(L, "(cli_suite_echo)"),
                                  contains(L, "msg={" ++ Worker)])),
    ?assertEqual(1, length([L || L <- Lines, contains(L, " register name=cli_suite_echo")])).

after_thread(Line) ->
    [_, _, Rest] = re:split(Line, " ", [{parts, 3}, {return, list}, unicode]),
    Rest.

print_clocks(Config) ->
    Dir = ?config(recording, Config),
    [Plain, Wall, Erlang] = [[hd(string:lexemes(L, " ")) || L <- lines(["print", Dir] ++ O)]
                             || O <- [[], ["--utc"], ["--erlang"]]],
    #{<<"start_unix_ns">> := Unix, <<"start_erlang_ns">> := Mono} = kymo_cli:json(out(["info", "--json", Dir])),
    Since = [nanoseconds(T) || T <- Plain],
    ?assertEqual([Mono + T || T <- Since], [list_to_integer(T) || T <- Erlang]),
    ?assertEqual([Unix + T || T <- Since],
                 [calendar:rfc3339_to_system_time(T, [{unit, nanosecond}]) || T <- Wall]),
    %% The times are those of this node's clocks.
    Now = erlang:monotonic_time(nanosecond),
    ?assert(Mono < Now),
    ?assert(Mono > Now - 3600 * 1000000000),
    Offset = erlang:time_offset(nanosecond),
    ?assert(abs(Unix - (Mono + Offset)) < 60 * 1000000000).

nanoseconds(Text) ->
    [Seconds, Fraction] = string:lexemes(Text, "."),
    list_to_integer(Seconds) * 1000000000 + list_to_integer(Fraction).

print_limit(Config) ->
    Dir = ?config(recording, Config),
    All = lines(["print", Dir]),
    [?assertEqual(lists:sublist(All, N), lines(["print", "-n", integer_to_list(N), Dir])) || N <- [0, 1, 17, 100000]].

print_pids(Config) ->
    Dir = ?config(recording, Config),
    All = lines(["print", Dir]),
    Worker = pid_to_list(?config(worker, Config)),
    OfWorker = [L || L <- All, lists:prefix(Worker, after_thread(L))],
    ?assert(length(OfWorker) > 70),
    ?assertEqual(OfWorker, lines(["print", Dir, "--pid", Worker])),
    ?assertEqual(OfWorker, lines(["print", Dir, "--pid", string:trim(Worker, both, "<>")])),
    OfEcho = [L || L <- All, contains(after_thread(L), "(cli_suite_echo) ")
                       andalso not lists:prefix(Worker, after_thread(L))],
    ?assert(length(OfEcho) > 20),
    ?assertEqual(OfEcho, lines(["print", Dir, "--pid", "cli_suite_echo"])),
    ?assertEqual(lists:sort(OfWorker ++ OfEcho),
                 lists:sort(lines(["print", Dir, "--pid", Worker, "--pid", "cli_suite_echo"]))),
    ?assertEqual([], lines(["print", Dir, "--pid", "<0.0.99>"])),
    {0, "", Warning} = run(["print", Dir, "--pid", "no_such_name"]),
    ?assert(contains(Warning, "'no_such_name'")),
    ?assertNot(contains(Warning, "give the pid")),
    {0, "", Function} = run(["print", Dir, "--pid", "gen_server:loop/7"]),
    ?assert(contains(Function, "give the pid")).

print_tags(Config) ->
    Dir = ?config(recording, Config),
    All = lines(["print", Dir]),
    [?assertEqual([L || L <- All, lists:member(tag(L), Tags)], lines(["print", Dir, "--events", Option]))
     || {Option, Tags} <- [{"call", ["call"]}, {"send,receive", ["send", "receive"]},
                           {"messages", ["send", "receive", "taken", "send_to_non_existing_process"]},
                           {"calls,exit", ["call", "exit"]}, {"kymo_state", ["kymo_state"]},
                           {"garbage_collection", []}, {"spawned", ["spawned"]}]],
    ?assertEqual(70, length(lines(["print", Dir, "--events", "call"]))).

tag(Line) ->
    case re:run(after_thread(Line), "^(?:<[^>]*>(?:\\([^)]*\\))?|-) ([a-z_]+)", [{capture, [1], list}, unicode]) of
        {match, [Tag]} -> Tag
    end.

all_tags() ->
    "calls,messages,procs,ports,running,garbage_collection,seq_trace,other".

print_modules(Config) ->
    Dir = ?config(recording, Config),
    Calls = lines(["print", Dir, "--events", "call"]),
    ?assertEqual([L || L <- Calls, contains(L, " call lists:nth(1, ")],
                 lines(["print", Dir, "--module", "lists", "--events", "calls"])),
    ?assertEqual(Calls, lines(["print", Dir, "--module", "lists", "--module", "kymo_cli_SUITE", "--events", "call"])),
    {0, "", Warning} = run(["print", Dir, "--module", "no_such_module"]),
    ?assert(contains(Warning, "'no_such_module'")).

print_times(Config) ->
    Dir = ?config(recording, Config),
    All = lines(["print", Dir]),
    Stamped = [{nanoseconds(hd(string:lexemes(L, " "))), L} || L <- All],
    {From, _} = lists:nth(length(All) div 3, Stamped),
    {To, _} = lists:nth(2 * length(All) div 3, Stamped),
    {Last, _} = lists:last(Stamped),
    #{<<"start_unix_ns">> := Unix} = kymo_cli:json(out(["info", "--json", Dir])),
    Ns = fun(T) -> integer_to_list(T) ++ "ns" end,
    Date = fun(T) -> calendar:system_time_to_rfc3339(Unix + T, [{unit, nanosecond}, {offset, "Z"}]) end,
    Window = [L || {T, L} <- Stamped, T >= From, T =< To],
    Tail = [L || {T, L} <- Stamped, T >= From],
    ?assert(length(Window) > 10),
    [?assertEqual(Expected, lines(["print", Dir] ++ Options))
     || {Expected, Options} <- [
         {Window, ["--from", Ns(From), "--to", "+" ++ Ns(To)]},
         {Window, ["--from", Date(From), "--to", Date(To)]},
         {Window, ["--from", "-" ++ Ns(Last - From), "--to", "-" ++ Ns(Last - To)]},
         {Tail, ["--from", seconds(From)]},
         {All, ["--from", "0", "--to", "1h2m3s"]},
         {All, ["--from", "-1h"]},
         {[], ["--from", "1h"]}]].

%% Through all units: 1234567890 ns as 1s234ms567us890ns.
seconds(Ns) ->
    lists:flatten(io_lib:format("~bs~bms~bus~bns", [Ns div 1000000000, Ns div 1000000 rem 1000,
                                                    Ns div 1000 rem 1000, Ns rem 1000])).

%% ---- export ----

export_filters(Config) ->
    Dir = ?config(recording, Config),
    Worker = ?config(worker, Config),
    File = filename:join(?config(dir, Config), "out.dbg"),
    Export = fun(Options) ->
                 {0, "", ""} = run(["export", "dbg", Dir, "-q", "-o", File] ++ Options),
                 [E || E <- kymo_cli:read_dbg(File)]
             end,
    ?assertEqual(70, length(Export(["--events", "call"]))),
    ?assertEqual(20, length(Export(["--events", "call", "--module", "lists"]))),
    OfWorker = Export(["--pid", pid_to_list(Worker)]),
    ?assertEqual([Worker], lists:usort([element(2, E) || E <- OfWorker])),
    {0, "", Summary} = run(["export", "dbg", Dir, "-o", File]),
    ?assert(contains(Summary, File)),
    ?assert(contains(Summary, "events")),
    {0, Stream, ""} = shell([quote(kymo:cli_path()), " export folded ", quote(Dir), " -o - | wc -l"]),
    ?assert(list_to_integer(string:trim(Stream)) > 0).

export_refusals(Config) ->
    Dir = ?config(recording, Config),
    [begin
         {4, "", Err} = run(["export", Format, Dir, "-o", "/proc/kymo/no/such"]),
         ?assert(contains(Err, "/proc/kymo/no/such"))
     end || Format <- ["perfetto", "ctf", "folded", "dbg"]].

%% ---- terms ----

%% Calls with many kinds of terms: they are printed as io_lib formats them.
terms_like_the_shell(Config) ->
    Dir = filename:join(?config(dir, Config), "rec"),
    Terms = terms(),
    record(Dir, #{calls => arguments, content_bytes => 8192}, fun() -> [traced(T) || T <- Terms] end),
    Printed = [begin
                   [_, Args] = string:split(L, " call kymo_cli_SUITE:traced("),
                   Args
               end || L <- lines(["print", Dir, "--events", "call"])],
    ?assertEqual(length(Terms), length(Printed)),
    [?assertEqual(lists:flatten(io_lib:format("~0tp)", [T])), P) || {T, P} <- lists:zip(Terms, Printed)].

%% Each argument is a term of its own. An argument list is never printed as a string; arguments
%% that are strings are.
arguments(Config) ->
    Dir = filename:join(?config(dir, Config), "rec"),
    Long = lists:seq(1000, 2000),
    {ok, R} = kymo:start(#{dir => Dir, policy => discard, calls => arguments, terms => contents, content_bytes => 40}),
    {ok, _} = kymo:trace(R, #{processes => [self()], events => [procs], functions => ["kymo_cli_SUITE:args"]}),
    [apply(?MODULE, args, A) || A <- [[], [10], [32, 32], [10, foo], ["\n", [10]], ["ab", 97], [Long, 1, 2], [1, Long, 3]]],
    {Spawned, Monitor} = spawn_monitor(?MODULE, args, [10]),
    receive {'DOWN', Monitor, process, Spawned, normal} -> ok end,
    {ok, _} = kymo:stop(R),
    %% Truncated arguments are shown as dots, once for each argument.
    ?assertEqual(["args()", "args(10)", "args(32, 32)", "args(10, foo)", "args(\"\\n\", \"\\n\")", "args(\"ab\", 97)",
                  "args([1000,1001,1002,1003|'...'], '...', '...')(cut)", "args(1, [1000,1001,1002|'...'], '...')(cut)"],
                 [string:prefix(after_process(L), "call kymo_cli_SUITE:") || L <- lines(["print", Dir, "--events", "call"])]),
    [Spawn] = lines(["print", Dir, "--events", "spawn"]),
    ?assertEqual("spawn peer=" ++ pid_to_list(Spawned) ++ " kymo_cli_SUITE:args(10)", after_process(Spawn)),
    %% The same arguments as OTP reads from the dbg file.
    Calls = [A || E <- kymo_cli:events(Dir), element(3, E) =:= call, A <- [element(3, element(4, E))]],
    ?assertEqual([[], [10], [32, 32], [10, foo], ["\n", [10]], ["ab", 97]], lists:sublist(Calls, 6)).

args() -> ok.
args(_) -> ok.
args(_, _) -> ok.
args(_, _, _) -> ok.

after_process(Line) ->
    [_, Rest] = re:split(after_thread(Line), " ", [{parts, 2}, {return, list}, unicode]),
    Rest.

terms() ->
    _ = rand:seed(exsss, {1, 2, 3}),
    Floats = [0.0, -0.0, 1.0, -1.5, 0.1, 100.0, 1.0e10, 123456789.125, 1.0e21, 1.0e22, 1.0e23, 9007199254740991.0,
              9007199254740992.0, 1.0e-4, 1.0e-5, 0.00012345, 1.7976931348623157e308, 5.0e-324, 2.2250738585072014e-308,
              123456.0e-7, 1.0e-10, 1234567.0e5] ++ [random_float() || _ <- lists:seq(1, 300)],
    [[] , 0, 255, 256, -1, 1 bsl 27, 1 bsl 31, -(1 bsl 31), 1 bsl 60, -(1 bsl 64), 1 bsl 200, -(1 bsl 2000),
     a, 'A', '', 'hello world', 'it\'s', 'with\nnewline', 'n\x{e5}ja', '\x{44f}', 'after', 'cond', 'let', maybe_not,
     a@b, 'a-b', '1a', '\x{f7}x', '_', '\\', 'a\x{7f}',
     {}, {a}, {a, {b, {c}}}, [1], [1, 2], [1 | 2], [a, b | c], [[]], [[], [[]]], [{}],
     "hello", "with \"quotes\" and \\", "tab\tnewline\n\e\d\b\f\v\r", "\x{e9}t\x{e9}", [0], [$a, 0], [256, 257],
     lists:seq(1, 100), lists:duplicate(300, $x), [$a | b], "~p",
     <<>>, <<"text">>, <<1, 2, 3>>, <<"\x{e9}"/utf8>>, <<255>>, <<"a\nb">>, <<"quote\"">>, <<1:1>>, <<5, 3:3>>, <<0:7>>,
     <<200, 201>>, binary:copy(<<"abc">>, 100),
     #{}, #{a => 1}, #{1 => #{2 => 3}}, #{"k" => [v]},
     fun lists:map/2, fun ?MODULE:all/0, self(), make_ref(), hd(erlang:ports()),
     list_to_tuple(lists:seq(1, 300)), {1, 2.5, "x", <<"y">>, z} | Floats].

random_float() ->
    case <<(rand:uniform(1 bsl 64) - 1):64>> of
        <<F/float>> -> F;
        _ -> random_float()
    end.

cut_terms(Config) ->
    Dir = filename:join(?config(dir, Config), "rec"),
    record(Dir, #{calls => arguments, content_bytes => 64}, fun() -> traced(lists:seq(1000, 2000)), traced(short) end),
    [Long, Short] = lines(["print", Dir, "--events", "call"]),
    ?assertMatch({match, _}, re:run(Long, "traced\\(\\[1000,.*'...'\\]\\)\\(cut\\)$")),
    ?assert(contains(Short, ":traced(short)")).

%% Elixir processes are registered under module names.
elixir_names(Config) ->
    Dir = filename:join(?config(dir, Config), "rec"),
    record(Dir, #{}, fun() -> register('Elixir.Demo.Worker', self()), traced(1) end),
    [_] = Calls = lines(["print", Dir, "--events", "call"]),
    [?assertEqual({Name, Calls}, {Name, lines(["print", Dir, "--events", "call", "--pid", Name])})
     || Name <- ["Demo.Worker", "Elixir.Demo.Worker", "'Elixir.Demo.Worker'"]],
    {0, "", Warning} = run(["print", Dir, "--pid", "Demo"]),
    ?assert(contains(Warning, "'Demo'")).

%% No text from the node reaches the terminal as a control character.
names_are_safe(Config) ->
    Dir = filename:join(?config(dir, Config), "rec"),
    Name = 'evil\e[31m\n name',
    record(Dir, #{calls => arguments, messages => contents},
           fun() ->
               register(Name, self()),
               traced(['\e]0;x\a', "\e[2J", <<"\e[2J">>, <<155, 49>>, {Name}]),
               Name ! "\e[0m",
               exit(normal)
           end),
    [begin
         Text = out(Command ++ [Dir]),
         ?assertEqual([], [C || C <- Text, C < 32 andalso C =/= $\n orelse C >= 127 andalso C < 160])
     end || Command <- [["print"], ["info"], ["info", "--json"]]],
    %% Nor does the name of the folder, in the output or in messages.
    Folder = filename:join(?config(dir, Config), "\e[31mred\n" ++ [16#9b]),
    ok = file:rename(Dir, Folder),
    {0, Info, _} = run(["info", Folder]),
    {3, _, Err} = run(["info", filename:join(Folder, "none")]),
    {0, Top, _} = run(["top", "--once", Folder]),
    [begin
         ?assertEqual([], [C || C <- Text, C < 32 andalso C =/= $\n orelse C >= 127 andalso C < 160]),
         ?assertNotEqual(nomatch, string:find(Text, "\\x{1b}[31mred\\x{0a}\\x{9b}"))
     end || Text <- [Info, Err]],
    ?assertEqual([], [C || C <- Top, C < 32 andalso C =/= $\n orelse C >= 127 andalso C < 160]),
    ok = file:rename(Folder, Dir),
    ?assert(contains(out(["print", Dir]), "('evil\\e[31m\\n name')")),
    ?assertNotEqual([], lines(["print", Dir, "--pid", atom_to_list(Name), "--events", "call"])).

%% ---- damage ----

strict(Config) ->
    Whole = ?config(recording, Config),
    [{0, _, _} = run([C, "--strict", Whole]) || C <- ["info", "print"]],
    Cut = copy(Whole, ?config(dir, Config), "cut"),
    cut(data_file(Cut), 20),
    {0, _, ""} = run(["info", Cut]),
    Out = filename:join(?config(dir, Config), "x.dbg"),
    Warning = "kymo: incomplete: the recording is damaged\n",
    [begin
         {1, _, Err} = run(Command ++ ["--strict", Cut]),
         ?assert(contains(Err, Warning))
     end || Command <- [["info"], ["print"], ["export", "dbg", "-o", Out]]],
    [begin
         {0, _, Err} = run(Command ++ [Cut]),
         ?assert(contains(Err, Warning)),
         {0, _, ""} = run(Command ++ ["--quiet", Cut])
     end || Command <- [["print"], ["export", "dbg", "-o", Out]]].

%% A file of the recording is removed, or cut at the end of a segment: recorded events are missing.
missing_file(Config) ->
    Whole = ?config(recording, Config),
    Flight = filename:join(?config(dir, Config), "flight"),
    {ok, R} = kymo:start(#{dir => Flight}),
    {ok, _} = kymo:trace(R, #{processes => [self()], events => [messages]}),
    self() ! message,
    receive message -> ok end,
    {ok, _} = kymo:stop(R),
    [begin
         Dir = copy(From, ?config(dir, Config), "without-" ++ File),
         ok = file:delete(filename:join(Dir, File)),
         ?assert(contains(out(["info", Dir]), "the file '" ++ File ++ "' is missing (copy the recording again)")),
         lost_all(Dir, "because the file '" ++ File ++ "' is missing (copy the recording again)")
     end || {From, File} <- [{Flight, "ring"}, {Whole, "data.000001"}]],
    Nameless = copy(Flight, ?config(dir, Config), "without-dict"),
    ok = file:delete(filename:join(Nameless, "dict")),
    ?assert(contains(out(["info", Nameless]), "the file 'dict' is missing (copy the recording again)")),
    {0, _, Err} = run(["print", Nameless]),
    ?assert(contains(Err, "names are missing because the file 'dict' is missing (copy the recording again)")),
    Cut = copy(Whole, ?config(dir, Config), "emptied"),
    cut(data_file(Cut), filelib:file_size(data_file(Cut))),
    lost_all(Cut, "because a file was cut or damaged (copy the recording again)").

lost_all(Dir, Why) ->
    Info = out(["info", Dir]),
    ?assert(contains(Info, "complete     no: recorded events are missing")),
    #{<<"complete">> := false, <<"whole">> := false, <<"recorded">> := N,
      <<"missing_events">> := N, <<"damage">> := #{<<"events_missing">> := N}} =
        kymo_cli:json(out(["info", "--json", Dir])),
    Page = Dir ++ ".html",
    [begin
         {3, _, Err} = run(Command),
         ?assert(contains(Err, "kymo: nothing to show: ")),
         ?assert(contains(Err, Why))
     end || Command <- [["why", Dir], ["why", "--quiet", Dir], ["report", Dir, "-o", Page]]],
    ?assertNot(filelib:is_file(Page)),
    {0, _, Err} = run(["print", Dir]),
    ?assert(contains(Err, Why)).

%% If there is nothing to show, the command says why.
nothing_to_show(Config) ->
    Whole = ?config(recording, Config),
    Out = filename:join(?config(dir, Config), "x.dbg"),
    Why = fun(Words, Recording) ->
        [begin
             {0, _, Err} = run(Command ++ [Recording]),
             ?assert(contains(Err, "kymo: nothing to show: " ++ Words))
         end || Command <- [["print", "--events", "seq_trace"], ["export", "dbg", "--events", "seq_trace", "-o", Out]]]
    end,
    Why("no event matches", Whole),
    Empty = filename:join(?config(dir, Config), "empty"),
    {ok, R} = kymo:start(#{dir => Empty}),
    {ok, _} = kymo:stop(R),
    {0, _, Err} = run(["export", "perfetto", "-o", Out, Empty]),
    ?assert(contains(Err, "kymo: nothing to show: the recording has no events")).

%% For any length of the file: everything before the cut is read.
cut_file(Config) ->
    Whole = ?config(recording, Config),
    Lines = nameless(Whole),
    Size = filelib:file_size(data_file(Whole)),
    Counts = [begin
                  Dir = copy(Whole, ?config(dir, Config), "cut-" ++ integer_to_list(N)),
                  cut(data_file(Dir), Size - N),
                  Left = nameless(Dir),
                  ?assertEqual([], Left -- Lines),
                  length(Left)
              end || N <- lists:seq(0, Size, max(1, Size div 25))],
    ?assertEqual(0, hd(Counts)),
    ?assertEqual(Counts, lists:sort(Counts)),
    ?assert(lists:last(Counts) > 100).

%% All lines, without the names that events give to processes, because the event that gives the
%% name may be the one that is lost.
nameless(Dir) ->
    string:lexemes(string:replace(out(["print", Dir]), "(cli_suite_echo)", "", all), "\n").

%% A flipped bit in the records makes the reader skip the segment and count it; the lines that
%% are still printed are lines of the undamaged recording.
flipped_bits(Config) ->
    Whole = ?config(recording, Config),
    Lines = nameless(Whole),
    Size = filelib:file_size(data_file(Whole)),
    [begin
         Dir = copy(Whole, ?config(dir, Config), "flip-" ++ integer_to_list(At)),
         {ok, Bytes} = file:read_file(data_file(Dir)),
         patch(data_file(Dir), At, <<(binary:at(Bytes, At) bxor 16)>>),
         Left = nameless(Dir),
         ?assertEqual([], Left -- Lines),
         #{<<"damage">> := #{<<"segments_bad">> := Bad}, <<"complete">> := Complete} =
             kymo_cli:json(out(["info", "--json", Dir])),
         ?assertEqual({At, length(Left) =:= length(Lines)}, {At, Bad =:= 0}),
         ?assertEqual({At, Bad =:= 0}, {At, Complete})
     end || At <- lists:seq(128, Size - 1, max(1, Size div 20)), in_records(data_file(Whole), At)].

%% Whether a byte belongs to the records of a segment, determined from the headers.
in_records(File, At) ->
    {ok, Bytes} = file:read_file(File),
    in_records(Bytes, 0, At).

in_records(Bytes, Begin, At) when Begin < byte_size(Bytes) ->
    <<_:Begin/binary, _:48/binary, Content:64/little, Packet:64/little, _/binary>> = Bytes,
    if
        At >= Begin + Packet div 8 -> in_records(Bytes, Begin + Packet div 8, At);
        true -> At >= Begin + 128 andalso At < Begin + Content div 8
    end;
in_records(_, _, _) ->
    false.

no_dictionary(Config) ->
    Dir = copy(?config(recording, Config), ?config(dir, Config), "nodict"),
    ok = file:delete(filename:join(Dir, "dict")),
    Lines = lines(["print", Dir, "--events", "call"]),
    ?assertEqual(70, length(Lines)),
    [?assert(contains(L, " call ?(")) || L <- Lines],
    Info = out(["info", Dir]),
    ?assert(contains(Info, "complete     no: names are missing\n")),
    %% Nothing else is damaged, so the line has the label.
    ?assert(contains(Info, "damage       the file 'dict' is missing (copy the recording again)\n")),
    ?assertNot(contains(Info, "damage       none")),
    %% A part of it.
    Cut = copy(?config(recording, Config), ?config(dir, Config), "cutdict"),
    cut(filename:join(Cut, "dict"), 64),
    CutInfo = out(["info", Cut]),
    ?assert(contains(CutInfo, "complete     no: names are missing\n")),
    ?assert(contains(CutInfo, " bytes of the dictionary were skipped\n")),
    %% Events are missing, too.
    ok = file:delete(data_file(Dir)),
    BothInfo = out(["info", Dir]),
    ?assert(contains(BothInfo, "complete     no: recorded events are missing\n")),
    ?assertMatch({match, [_]}, re:run(BothInfo, "^damage  ", [multiline, global, {capture, first}])),
    ?assert(contains(BothInfo, "             the file 'dict' is missing (copy the recording again)\n")).

%% Events whose names did not fit in the dictionary are kept, with `?' in place of the names.
full_dictionary(Config) ->
    Dir = filename:join(?config(dir, Config), "rec"),
    Fill = fun() -> [list_to_atom("cli_suite_" ++ integer_to_list(N) ++ lists:duplicate(200, $x)) || N <- lists:seq(1, 40)] end,
    record(Dir, #{dict_size => 4096},
           fun() -> [begin true = register(A, self()), true = unregister(A) end || A <- Fill()], traced(1) end),
    Info = out(["info", Dir]),
    ?assert(contains(Info, "definitions")),
    ?assert(contains(Info, "complete     no: names are missing\n")),
    [Line] = lines(["print", Dir, "--events", "call"]),
    ?assert(lists:suffix(" call ?", Line)),
    [{trace, _, call, undefined}] = [E || E <- kymo_cli:events(Dir), element(3, E) =:= call].

%% Foreign files with the names of files of a recording.
foreign_files(Config) ->
    Whole = ?config(recording, Config),
    Junk = crypto_free_noise(200000),
    [begin
         Dir = copy(Whole, ?config(dir, Config), "foreign-" ++ Name),
         ok = file:write_file(filename:join(Dir, Name), Junk),
         {Status, _, _} = run(["info", Dir]),
         ?assertEqual({Name, Expected}, {Name, Status}),
         {Status, _, _} = run(["print", Dir]),
         {Status, _, _} = run(["export", "perfetto", Dir, "-q", "-o", filename:join(?config(dir, Config), "x")])
     end || {Name, Expected} <- [{"meta", 3}, {"dict", 0}, {"ring", 0}, {"data.000001", 0}, {"data.000007", 0},
                                 {"data.x", 0}]].

crypto_free_noise(N) ->
    _ = rand:seed(exsss, {4, 5, 6}),
    << <<(rand:uniform(256) - 1)>> || _ <- lists:seq(1, N) >>.

%% ---- outputs that fail ----

closed_pipe(Config) ->
    Dir = ?config(recording, Config),
    Kymo = quote(kymo:cli_path()),
    Big = filename:join(?config(dir, Config), "rec"),
    %% More than a pipe can hold.
    record(Big, #{calls => arguments}, fun() -> [traced(N) || N <- lists:seq(1, 20000)] end),
    Many = filename:join(?config(dir, Config), "many"),
    record(Many, #{},
           fun() -> [begin {_, M} = spawn_monitor(fun() -> ok end), receive {'DOWN', M, _, _, _} -> ok end end
                     || _ <- lists:seq(1, 4000)] end),
    [begin
         {0, Out, Err} = shell(["{ ", Kymo, Command, quote(D), "; echo status $? >&2; } | head -c 10 | wc -c"]),
         ?assertEqual("10", string:trim(Out)),
         ?assertEqual("status 0\n", Err)
     end || {Command, D} <- [{" print ", Big}, {" info ", Dir}, {" info -n 10000 ", Many}, {" info --json -n 10000 ", Many},
                             {" export dbg -q -o - ", Big},
                             {" export folded -q -o - ", Dir}]].

full_disk(Config) ->
    Dir = ?config(recording, Config),
    Kymo = quote(kymo:cli_path()),
    [begin
         {Status, "", Err} = shell(["exec ", Kymo, Command, quote(Dir), " >/dev/full"]),
         ?assertEqual({Command, 4}, {Command, Status}),
         ?assert(contains(Err, "No space left on device"), Err)
     end || Command <- [" print ", " info ", " info --json ", " export dbg -o - ", " export folded -o - ",
                        " export perfetto -o - "]],
    [begin
         {Status, "", Err} = run(["export", Format, Dir, "-o", "/dev/full"]),
         ?assertEqual({Format, 4}, {Format, Status}),
         ?assert(contains(Err, "/dev/full"), Err)
     end || Format <- ["dbg", "folded", "perfetto"]].

%% ---- lifecycle ----

while_recording(Config) ->
    Dir = filename:join(?config(dir, Config), "rec"),
    [begin
         D = Dir ++ atom_to_list(Policy),
         record(D, #{calls => arguments, policy => Policy}, fun() -> [traced(N) || N <- lists:seq(1, 1000)] end,
                fun(_) ->
                    ?assertEqual(1000, length(lines(["print", D, "--events", "call"]))),
                    #{<<"state">> := <<"active">>, <<"complete">> := true, <<"reason">> := <<"none">>} =
                        kymo_cli:json(out(["info", "--json", D])),
                    ?assert(contains(out(["info", D]), "state        recording"))
                end)
     end || Policy <- [overwrite, discard]].

%% One process fills the memory, while processes on other schedulers still have older events.
horizon(Config) ->
    Dir = filename:join(?config(dir, Config), "rec"),
    Busy = fun() -> [traced(N) || N <- lists:seq(1, 200000)] end,
    Quiet = fun(Id) ->
        spawn_opt(fun() -> receive go -> traced(Id) end, receive stop -> traced(Id) end end, [link, {scheduler, Id}])
    end,
    Work = fun() ->
        Pids = [Quiet(Id) || Id <- lists:seq(2, erlang:system_info(schedulers))],
        [P ! go || P <- Pids],
        Busy(),
        [P ! stop || P <- Pids],
        Busy()
    end,
    record(Dir, #{policy => overwrite, calls => arguments, memory => 4 * 1024 * 1024}, Work),
    Json = kymo_cli:json(out(["info", "--json", Dir])),
    #{<<"whole">> := false, <<"complete">> := true, <<"complete_from_ns">> := From, <<"events">> := Events,
      <<"incomplete_events">> := Older, <<"recorded">> := Recorded, <<"overwritten">> := Overwritten,
      <<"memory">> := Memory} = Json,
    ?assert(Memory =< 4 * 1024 * 1024),
    ?assertEqual(Recorded, Events + Older + Overwritten),
    ?assertEqual(Overwritten, lists:sum([maps:get(<<"overwritten">>, T) || T <- maps:get(<<"threads">>, Json)])),
    All = lists:append([["--events", all_tags()], [Dir]]),
    ?assertEqual(Events, length(lines(["print" | All]))),
    Marked = lines(["print", "--all" | All]),
    ?assertEqual(Events + Older, length(Marked)),
    ?assertEqual(Older, length([L || [$?, $\s | _] = L <- Marked])),
    ?assertEqual(Events, length([L || [$., $\s | _] = L <- Marked])),
    ?assert(contains(out(["info", Dir]), "\ncomplete     from 2")),
    {0, _, Warning} = run(["print", "--from", "0", "-n", "1", Dir]),
    ?assert(From > 0),
    ?assert(contains(Warning, "complete from")).

snapshot(Config) ->
    Dir = filename:join(?config(dir, Config), "rec"),
    Copy = filename:join(?config(dir, Config), "snapshot"),
    record(Dir, #{calls => arguments, policy => overwrite}, fun() -> [traced(N) || N <- lists:seq(1, 100)] end,
           fun(R) -> {ok, _} = kymo:snapshot(R, Copy) end),
    %% The copy has one calibration point less, so its times differ.
    Calls = fun(D) -> [tl(string:split(L, " ")) || L <- lines(["print", D, "--events", "call"])] end,
    ?assertEqual(Calls(Dir), Calls(Copy)),
    %% A stopped ring takes no more disk space than its events, if the file system supports
    %% that.
    #{<<"ring_bytes">> := Size, <<"ring_disk_bytes">> := OnDisk} = kymo_cli:json(out(["info", "--json", Dir])),
    Ring = filename:join(Dir, "ring"),
    ?assertEqual(filelib:file_size(Ring), Size),
    ?assertEqual(512 * list_to_integer(string:trim(os:cmd("stat -c %b " ++ Ring))), OnDisk),
    ?assertEqual(OnDisk < Size, contains(out(["info", Dir]), " of it on disk")),
    #{<<"state">> := <<"snapshot">>, <<"complete">> := true} = kymo_cli:json(out(["info", "--json", Copy])).

%% With a terminal as standard error, a command that is kept waiting shows its progress; --quiet
%% turns that off. `script' provides the terminal.
progress_on_a_terminal(Config) ->
    case os:find_executable("script") of
        false ->
            {skip, "no `script' (package bsdutils): the bar of progress is not tested"};
        _ ->
            Dir = filename:join(?config(dir, Config), "rec"),
            record(Dir, #{calls => arguments}, fun() -> [traced(N) || N <- lists:seq(1, 60000)] end),
            %% Nothing reads for a second: the pipe is full, so the command takes longer than
            %% the delay after which the progress bar appears.
            Run = fun(Options) ->
                      {0, Out, _} = shell(["script -qec ", quote(lists:flatten(
                          [quote(kymo:cli_path()), " print ", Options, quote(Dir), " | { sleep 1; cat >/dev/null; }"])),
                          " /dev/null"]),
                      Out
                  end,
            ?assert(contains(Run(""), "kymo: printing [")),
            ?assertNot(contains(Run("-q "), "printing"))
    end.

%% ---- helpers ----

copy(From, Dir, Name) ->
    To = filename:join(Dir, Name),
    ok = file:make_dir(To),
    {ok, Files} = file:list_dir(From),
    [{ok, _} = file:copy(filename:join(From, F), filename:join(To, F)) || F <- Files],
    To.

data_file(Dir) ->
    [File] = filelib:wildcard(filename:join(Dir, "data.*")),
    File.

patch(File, At, Bytes) ->
    {ok, Fd} = file:open(File, [read, write, raw, binary]),
    ok = file:pwrite(Fd, At, Bytes),
    ok = file:close(Fd).

%% Removes N bytes from the end.
cut(File, N) ->
    {ok, Fd} = file:open(File, [read, write, raw, binary]),
    {ok, _} = file:position(Fd, max(0, filelib:file_size(File) - N)),
    ok = file:truncate(Fd),
    ok = file:close(Fd).
