%% SPDX-License-Identifier: Apache-2.0
%% @private The faults of stock Erlang/OTP that something kymo does can trigger, and what kymo does
%% instead on a runtime that has them. `doc/runtime-faults.md' shows the same list to users, and
%% kymo_faults_SUITE has a test for each fault.
%%
%% <b>Which faults a runtime has</b> follows from the version of ERTS, which every runtime knows of
%% itself, also if a patch was applied to an installation. A fault has a range of versions for each release
%% of OTP that had it when the fix was made. A runtime that is newer than all of them does not have it. A
%% fault without a known fix is in all versions from its first on, however new they are. A patched
%% runtime (`erts_patches') does not have the faults that its series fixes.
%%
%% A runtime can have a fix that its version does not have, for example in a package of a
%% distribution. The parameter `fixed_faults' of the application `kymo', or the environment variable
%% `KYMO_FIXED_FAULTS', lists the names of such faults.
-module(kymo_faults).

-export([table/0, affected/1, avoided/0, unsafe/1, runtime/0, measure/1, encoded/1, format/1, page/0]).
-export_type([fault/0, measure/0, described/0, runtime/0]).

-type version() :: [non_neg_integer()].
%% Versions compare as lists of their numbers.

-type measure() :: collections | signals | received | monitor.
%% What is avoided: events of collections; signals to processes of the application; events of received
%% messages; a system monitor in a session.

-type release() :: {Otp :: string(), Erts :: string()}.

-type fault() :: #{
    name := atom(),
    %% Reports, and the ticket in the release notes.
    reports := [string()],
    %% The first release that has it, and the first after it that has not, each with its version of ERTS;
    %% `none' if no release is known to have the fix.
    releases := [{From :: release(), Fixed :: release() | none}],
    %% The releases for which a patch series fixes it.
    series := [pos_integer()],
    happens := string(),
    trigger := string(),
    %% What is avoided because of it.
    measure := measure(),
    instead := string(),
    test := atom()
}.

-type described() :: #{measure := measure(), left_out := binary(), fixed_in := binary() | none}.
%% A measure that is in force: what is not recorded because of it, empty if nothing is missing, and
%% the release that has the fix.

-type runtime() :: #{release := string(), erts := version(), series := none | pos_integer()}.

%% @doc The faults.
-spec table() -> [fault()].
table() ->
    [
        #{
            name => collections_in_sessions,
            reports => ["erlang/otp#11624", "erlang/otp#11623"],
            releases => [{{"27.0", "15.0"}, none}],
            series => [27, 29],
            happens =>
                "The node crashes, or sizes of the second session are wrong (0 in place of the right "
                "`bin_old_vheap_block_size`).",
            trigger =>
                "Two trace sessions trace `garbage_collection` in the same process. The tracing that `dbg`, "
                "`fprof` and `erlang:trace/3` share is such a session, and each recorder has one.",
            measure => collections,
            instead =>
                "Collections are not recorded, because another tool may begin to trace them at any time. Calls "
                "of `kymo:trace/2` for which only collections are left fail. `garbage_collection => always` of "
                "`kymo:trace/2` and `--garbage-collection always` of `kymo attach` record them all the same: "
                "make sure that no other tool does. The budget uses a fixed cost for a collection. Reports "
                "`long_gc` of the system monitor are recorded as usual.",
            test => collections_beside_others
        },
        (hibernation())#{
            name => hibernation,
            happens => "A process that hibernates is not woken up by a message, and is stuck until something else wakes it up.",
            trigger =>
                "A signal that is not a message arrives while a process with a large heap hibernates. Such signals "
                "are sent by `process_info/2`, `is_process_alive/1` and `trace:info/3`, to all processes by the end "
                "of each trace session, and to all processes by purging code with literals.",
            measure => signals,
            instead =>
                "No such signals are sent. Counters have no mailboxes and heaps of processes. Processes that were "
                "there before the recording have no names except registered ones. Triggers for mailboxes are "
                "refused; `long_message_queue` of the system monitor needs no signals. Whether another tool has "
                "removed trace flags from a process is not checked. The budget uses fixed costs in place of measured "
                "ones. Trace sessions are emptied at the end, and kept until the node ends, with 2 MB for each recording "
                "of the default size. The modules that `kymo attach` has loaded stay loaded. `tracing => global` is refused.",
            test => hibernating_processes
        },
        (hibernation())#{
            name => hibernation_received,
            happens => "A process that hibernates is not woken up by a message, and is stuck until the next one arrives.",
            trigger =>
                "A message arrives while a process with a large heap hibernates, and the messages that the process receives "
                "are traced (trace flag `receive`): they are handled like signals that are no messages.",
            measure => received,
            instead =>
                "Received messages are not recorded. The answers take a message between processes of the node as received "
                "when it was sent; those from ports, timers and other nodes are unknown, and so are signals like `DOWN`. Calls of "
                "`kymo:trace/2` for which only received messages are left fail. `received_messages => always` of "
                "`kymo:trace/2` and `--received-messages always` of `kymo attach` record them all the same: make sure "
                "that no process hibernates with a large heap.",
            test => hibernating_receivers
        },
        #{
            name => monitor_in_session,
            reports => ["erts_patches/reports/system_monitor_session.md"],
            releases => [{{"28.0", "16.0"}, none}],
            series => [29],
            happens => "The node crashes.",
            trigger => "A process with a system monitor in a session (`trace:system/3`) ends while the monitor reports something.",
            measure => monitor,
            instead =>
                "The option `system_monitor` uses the setting of the node (`erlang:system_monitor/2`), as on OTP 27 and "
                "older. One that another process has made is kept; `kymo info` shows that as `held`.",
            test => monitor_of_killed_process
        }
    ].

%% What the two faults of hibernation have in common.
hibernation() ->
    #{
        reports => ["erlang/otp#10651", "erlang/otp#10696", "OTP-19983"],
        releases => [
            {{"27.0", "15.0"}, {"27.3.4.8", "15.2.7.6"}},
            {{"28.0", "16.0"}, {"28.3.2", "16.2.1"}}
        ],
        series => [27]
    }.

%% @doc The runtime that this node is.
-spec runtime() -> runtime().
runtime() ->
    #{release => erlang:system_info(otp_release), erts => version(erlang:system_info(version)), series => series()}.

series() ->
    try erlang:system_info(kymo_series)
    catch
        error:badarg -> none
    end.

version(Text) -> [list_to_integer(N) || N <- string:lexemes(Text, ".")].

%% @doc The faults that a runtime has.
-spec affected(runtime()) -> [fault()].
affected(Runtime) ->
    Fixed = fixed_faults(),
    [F || #{name := Name} = F <- table(), not lists:member(Name, Fixed), range(F, Runtime) =/= none].

%% Anything else than a list of names is ignored, so that a mistake makes kymo careful.
fixed_faults() ->
    Variable = string:lexemes(os:getenv("KYMO_FIXED_FAULTS", ""), ", "),
    Named = [Name || #{name := Name} <- table(), lists:member(atom_to_list(Name), Variable)],
    case application:get_env(kymo, fixed_faults) of
        {ok, Names} when is_list(Names) -> Names ++ Named;
        _ -> Named
    end.

range(#{series := Patched, releases := Releases}, #{release := Release, erts := Erts, series := Series}) ->
    IsFixed = Series =/= none andalso lists:member(list_to_integer(Release), Patched),
    case [R || {{_, From}, Fixed} = R <- Releases, not IsFixed, Erts >= version(From), is_before(Erts, Fixed)] of
        [] -> none;
        [Range | _] -> Range
    end.

is_before(_, none) -> true;
is_before(Erts, {_, Fixed}) -> Erts < version(Fixed).

%% @doc What is to be avoided on this runtime.
-spec avoided() -> [measure()].
avoided() -> lists:usort([M || #{measure := M} <- affected(runtime())]).

%% @doc The error if a measure makes impossible what was asked for.
-spec unsafe(measure()) -> {unsafe, measure(), Runtime :: binary(), Fixed :: binary() | none}.
unsafe(Measure) ->
    #{fixed_in := Fixed} = measure(Measure),
    {unsafe, Measure, unicode:characters_to_binary(format(runtime())), Fixed}.

%% @doc Describes a measure on this runtime, for a recording.
-spec measure(measure()) -> described().
measure(Measure) ->
    Runtime = runtime(),
    Fixes = [range(F, Runtime) || #{measure := M} = F <- affected(Runtime), M =:= Measure],
    #{
        measure => Measure,
        left_out => left_out(Measure),
        fixed_in =>
            case [Fixed || {_, Fixed} <- Fixes] of
                [none | _] -> none;
                [{Fixed, _} | _] -> list_to_binary(Fixed);
                [] -> none
            end
    }.

left_out(collections) -> <<"garbage collections">>;
left_out(signals) -> <<"mailboxes and heaps of processes, and names of processes that were there before and are not registered">>;
left_out(received) -> <<"received messages">>;
left_out(monitor) -> <<>>.

%% @doc The measures as the recording stores them: see `kymo_meta' in `kymo_format.h'.
-spec encoded([described()]) -> binary().
encoded(Described) ->
    iolist_to_binary([
        [atom_to_binary(Measure), $\t, [Fixed || Fixed =/= none], $\t, LeftOut, $\n]
     || #{measure := Measure, left_out := LeftOut, fixed_in := Fixed} <- Described
    ]).

%% @doc Names the runtime, for error messages.
-spec format(runtime()) -> iolist().
format(#{release := Release, erts := Erts}) ->
    ["OTP ", Release, " (ERTS ", lists:join(".", [integer_to_list(N) || N <- Erts]), ")"].

%% Faults that tracing can trigger whatever kymo does, or that no program of kymo's tests has triggered:
%% releases, what happens, and reports.
known() ->
    [
        {"25.0 to 25.2.3", "The node can crash when a process is traced that executes on a dirty scheduler.", "erlang/otp#5984, erlang/otp#6448, OTP-18398"},
        {"25.0 to 25.3.2.7, 26.0 to 26.1.2",
            "A process with `message_queue_data` `off_heap` can stop for ever when its `receive` is traced or its mailbox is looked at, "
            "and so can one that executes on dirty schedulers.",
            "erlang/otp#7801, OTP-18838, OTP-18839"},
        {"25.0 to 25.3.2.5, 26.0", "A signal to a process with `message_queue_data` `off_heap` can stay unhandled until the next one.", "OTP-18647"},
        {"25.0 to 25.3.2.10, 26.0 to 26.2.3",
            "The node can crash when trace flags of all processes are set while a dirty scheduler traces, or when a traced process on a "
            "dirty scheduler gets an exit signal.",
            "erlang/otp#8286, erlang/otp#8342, OTP-19043"},
        {"25.0 to 25.3.2.18, 26.0 to 26.2.5.9, 27.0 to 27.3", "Events `receive` can come late in a process that waits without looking at its mailbox.", "OTP-19527"},
        {"27.0 to 27.0.1", "Events `return_to` are missing if several sessions trace a process, and sometimes after exceptions.", "OTP-19122"},
        {"27.0 and later 27, 28.0 to 28.2",
            "When a session ends or stops tracing a function that is written in C, other sessions do not get its calls any more. Trace such a "
            "function again if another tool has traced it.",
            "OTP-19840"},
        {"27.0 and later",
            "The node can crash when a session is destroyed while traced processes spawn or link with `set_on_spawn` or `set_on_link`.",
            "erts_patches/reports/destroyed_sessions.md, erts_patches/reports/late_references.md"},
        {"27.0 and later",
            "If a global pattern is set while the `-on_load` function of its module runs, calls lead to the old code. The patterns of kymo are "
            "local unless `scope` is `global`.",
            "erts_patches/reports/on_load.md"},
        {"27.0 and later, without JIT",
            "The emulator can crash if `return_to` and `returns` are traced together, and when a global pattern is removed.",
            "erts_patches/reports/interpreter.md"},
        {"25.2.3 and later",
            "The node can crash when a message with a sequential trace token waits in a mailbox, is a literal, and the literal is freed, "
            "by `persistent_term:erase/1` or by purging code. Nothing needs to be traced: do not set tokens.",
            "erts_patches/reports/literal_messages.md"},
        {"25.2.3 and later",
            "Labels that a match spec sets in sequential trace tokens can become other terms, and the node can crash. Atoms, small integers "
            "and pids are safe.",
            "erts_patches/reports/labels.md"},
        {"25.2.3 and later",
            "The serials of a process in events `seq_trace` are too high once it has spawned another with a token.",
            "erts_patches/reports/spawn_serial.md"},
        {"25.0 and later",
            "A node that has as many processes as it can have ends when another node, or anything else, connects to it: `kymo attach`, too. "
            "Record such a node from inside.",
            "erts_patches/reports/full_process_table.md"},
        {"29.1 and later",
            "Loading, purging and tracing code at the same time, outside the code server, can block all three for ever.",
            "erts_patches/reports/code_permissions.md"}
    ].

%% @doc The sections of `doc/runtime-faults.md' on the faults.
-spec page() -> iolist().
page() ->
    [
        [[section(F), "\n"] || F <- table()],
        "## Faults that are not avoided\n\n"
        "Tracing can trigger these on stock runtimes, whatever kymo does. None was seen in the tests of kymo, except "
        "those with functions written in C and with sequential trace tokens. The releases are those of the release notes, or of the reports.\n\n"
        "| releases | what happens | reports |\n|---|---|---|\n",
        [["| ", Releases, " | ", Happens, " | ", reports(Reports), " |\n"] || {Releases, Happens, Reports} <- known()]
    ].

reports(Text) -> lists:join(", ", [report(R) || R <- string:split(Text, ", ", all)]).

section(#{name := Name, reports := Reports, releases := Releases, series := Series} = F) ->
    #{happens := Happens, trigger := Trigger, instead := Instead, measure := Measure, test := Test} = F,
    [
        io_lib:format("## ~s\n\n", [Name]),
        rows([
            {"releases", lists:join("; ", [released(R) || R <- Releases])},
            {"patched runtimes that have the fix", lists:join(", ", [io_lib:format("OTP ~b", [S]) || S <- Series])},
            {"what happens", Happens},
            {"cause", Trigger},
            {"what kymo does", Instead},
            {"name in `kymo info`", io_lib:format("`~s`", [Measure])},
            {"reports", lists:join(", ", [report(R) || R <- Reports])},
            {"test", io_lib:format("`kymo_faults_SUITE:~s`", [Test])}
        ])
    ].

rows(Rows) -> ["| | |\n|---|---|\n", [["| ", Key, " | ", Value, " |\n"] || {Key, Value} <- Rows]].

released({From, none}) -> [version_of(From), " and later; no release with a fix is known"];
released({From, Fixed}) -> [version_of(From), " and later, fixed in ", version_of(Fixed)].

version_of({Otp, Erts}) -> [Otp, " (ERTS ", Erts, ")"].

report("erlang/otp#" ++ Number = Text) -> ["[", Text, "](https://github.com/erlang/otp/issues/", Number, ")"];
report("erts_patches/reports/" ++ _ = File) -> ["[", filename:basename(File, ".md"), "](../", File, ")"];
report(Ticket) -> Ticket.
