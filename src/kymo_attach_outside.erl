%% SPDX-License-Identifier: Apache-2.0
%% @private What can be seen of a node from outside, in `/proc' and in the files of its cgroup, when
%% it does not answer: what its threads do, what limits it, and recordings that it writes.
-module(kymo_attach_outside).

-export([look/1, look/2, summary/1, is_busy/1, details/1]).
-export_type([seen/0]).

-type kind() :: scheduler | dirty_cpu | dirty_io | other.

-type thread() :: #{
    kind := kind(),
    number := non_neg_integer(),
    name := string(),
    %% The letter of /proc/PID/stat: R, S, D, T, t, Z.
    state := char(),
    %% The system call it is blocked in, and the kernel function; "" if unknown or not blocked.
    call := string(),
    function := string(),
    %% Functions of the kernel, innermost first.
    stack := [string()],
    %% Nanoseconds on a processor, and of waiting for one, while it was looked at.
    ran := non_neg_integer(),
    waited := non_neg_integer()
}.

-type seen() ::
    %% The node is not on this machine, or not known to be.
    elsewhere
    | {gone, Pid :: string()}
    | #{
        pid := string(),
        %% Nanoseconds for which it was looked at.
        time := pos_integer(),
        %% The process that traces it, or none.
        tracer := none | string(),
        threads := [thread()],
        memory := [{Name :: string(), KiB :: non_neg_integer()}],
        cgroup := cgroup(),
        recordings := [string()]
    }.

-type cgroup() :: #{
    frozen := boolean(),
    %% Processors, in hundredths.
    cpus := none | non_neg_integer(),
    %% Nanoseconds for which it was kept from running while it was looked at.
    throttled := non_neg_integer(),
    memory_limit := none | pos_integer(),
    memory_used := none | non_neg_integer()
}.

-define(INTERVAL, 250).
%% Limits of memory that are as large are none.
-define(UNLIMITED, (1 bsl 60)).
%% Functions of a stack that are shown.
-define(STACK, 4).

%% @doc Looks at a process for a quarter of a second.
-spec look(none | string()) -> seen().
look(Pid) -> look(Pid, #{proc => "/proc", cgroup => "/sys/fs/cgroup"}).

%% @doc The same with other folders in place of /proc and /sys/fs/cgroup.
-spec look(none | string(), #{proc := string(), cgroup := string()}) -> seen().
look(none, _) ->
    elsewhere;
look(Pid, #{proc := Proc} = Roots) ->
    Dir = filename:join(Proc, Pid),
    Times = fun() -> {erlang:monotonic_time(nanosecond), times(Dir), throttled(Dir, Roots)} end,
    {Begun, First, Held} = Times(),
    receive after ?INTERVAL -> ok end,
    {Ended, Second, StillHeld} = Times(),
    case status(Dir) of
        #{"State" := [Letter | _]} when Letter =:= $Z; Letter =:= $X ->
            {gone, Pid};
        #{} = Status when map_size(Status) > 0 ->
            #{
                pid => Pid,
                time => Ended - Begun,
                tracer => tracer(maps:get("TracerPid", Status, "0")),
                threads => [thread(Dir, Tid, First, Second) || Tid <- tids(Dir)],
                memory => [{Name, kib(maps:get(Key, Status, "0"))} || {Name, Key} <- [{"memory", "VmRSS"}, {"swapped", "VmSwap"}]],
                cgroup => (limits(Dir, Roots))#{throttled => max(0, StillHeld - Held)},
                recordings => recordings(Dir)
            };
        _ ->
            {gone, Pid}
    end.

%% ---- reading --------------------------------------------------------------------

text(File) ->
    case file:read_file(File) of
        {ok, Text} -> unicode:characters_to_list(Text, latin1);
        {error, _} -> ""
    end.

lines(File) -> string:lexemes(text(File), "\n").

status(Dir) ->
    maps:from_list([
        {Key, string:trim(Value)}
     || Line <- lines(filename:join(Dir, "status")), [Key, Value] <- [string:split(Line, ":")]
    ]).

tracer("0") -> none;
tracer(Pid) -> Pid.

kib(Text) -> number(hd(string:lexemes(Text, " ") ++ ["0"])).

number(Text) ->
    case string:to_integer(Text) of
        {N, _} when is_integer(N) -> N;
        _ -> 0
    end.

tids(Dir) ->
    case file:list_dir(filename:join(Dir, "task")) of
        {ok, Names} -> lists:sort([number(Name) || Name <- Names]);
        {error, _} -> []
    end.

%% By thread: nanoseconds on a processor, and of waiting for one.
times(Dir) ->
    maps:from_list([
        {Tid, {number(Ran), number(Waited)}}
     || Tid <- tids(Dir), [Ran, Waited | _] <- [string:lexemes(text(of_task(Dir, Tid, "schedstat")), " \n")]
    ]).

of_task(Dir, Tid, Name) -> filename:join([Dir, "task", integer_to_list(Tid), Name]).

thread(Dir, Tid, First, Second) ->
    Name = string:trim(text(of_task(Dir, Tid, "comm"))),
    {Kind, Number} = kind(Name),
    {RanNow, WaitedNow} = maps:get(Tid, Second, {0, 0}),
    {Ran, Waited} = maps:get(Tid, First, {RanNow, WaitedNow}),
    #{
        kind => Kind,
        number => Number,
        name => Name,
        state => state(text(of_task(Dir, Tid, "stat"))),
        call => call(text(of_task(Dir, Tid, "syscall"))),
        function => function(text(of_task(Dir, Tid, "wchan"))),
        stack => [
            hd(string:split(F, "+"))
         || Line <- lines(of_task(Dir, Tid, "stack")), [_, F | _] <- [string:lexemes(Line, " ")]
        ],
        ran => RanNow - Ran,
        waited => WaitedNow - Waited
    }.

%% The name is in parentheses, and may contain any character.
state(Stat) ->
    case string:split(Stat, ") ", trailing) of
        [_, [Letter | _]] -> Letter;
        _ -> $?
    end.

%% As OTP names its threads, since 26 and before.
kind("erts_sched_" ++ N) -> {scheduler, number(N)};
kind("erts_dcpus_" ++ N) -> {dirty_cpu, number(N)};
kind("erts_dios_" ++ N) -> {dirty_io, number(N)};
kind(Name) ->
    case string:split(Name, "_") of
        [N, "scheduler"] -> {scheduler, number(N)};
        [N, "dirty_cpu" ++ _] -> {dirty_cpu, number(N)};
        [N, "dirty_io" ++ _] -> {dirty_io, number(N)};
        _ -> {other, 0}
    end.

call(Text) ->
    case string:lexemes(Text, " \n") of
        [[Digit | _] = N | _] when Digit >= $0, Digit =< $9 -> call_name(machine(), number(N));
        _ -> ""
    end.

function(Text) ->
    case string:trim(Text) of
        "0" -> "";
        Name -> hd(string:split(Name, "."))
    end.

machine() -> hd(string:split(erlang:system_info(system_architecture), "-")).

call_name(Machine, N) ->
    case [Name || {Name, X86, Arm} <- calls(), N =:= of_machine(Machine, X86, Arm)] of
        [Name | _] -> Name;
        [] -> "system call " ++ integer_to_list(N)
    end.

of_machine("x86_64", N, _) -> N;
of_machine("aarch64", _, N) -> N;
of_machine(_, _, _) -> none.

%% Name, number on x86_64, number on aarch64.
calls() ->
    [{"read", 0, 63}, {"write", 1, 64}, {"open", 2, none}, {"stat", 4, none}, {"poll", 7, none}, {"lseek", 8, 62},
     {"mmap", 9, 222}, {"pread", 17, 67}, {"pwrite", 18, 68}, {"readv", 19, 65}, {"writev", 20, 66},
     {"nanosleep", 35, 101}, {"connect", 42, 203}, {"accept", 43, 202}, {"sendto", 44, 206}, {"recvfrom", 45, 207},
     {"sendmsg", 46, 211}, {"recvmsg", 47, 212}, {"wait4", 61, 260}, {"fcntl", 72, 25}, {"flock", 73, 32},
     {"fsync", 74, 82}, {"fdatasync", 75, 83}, {"ftruncate", 77, 46}, {"rename", 82, 38}, {"mkdir", 83, 34},
     {"rmdir", 84, none}, {"unlink", 87, 35}, {"futex", 202, 98}, {"getdents", 217, 61}, {"clock_nanosleep", 230, 115},
     {"epoll_wait", 232, none}, {"openat", 257, 56}, {"newfstatat", 262, 79}, {"select", 270, 72}, {"ppoll", 271, 73},
     {"epoll_wait", 281, 22}, {"fallocate", 285, 47}, {"statx", 332, 291}, {"openat", 437, 437},
     {"epoll_wait", 441, 441}].

%% ---- the cgroup -----------------------------------------------------------------

%% The folder of each controller; of version 2 the same for all.
folders(Dir, #{cgroup := Root}) ->
    lists:append([
        case string:split(Line, ":", all) of
            ["0", "", Path] -> [{"", filename:join([Root, "unified" ++ Path])}, {"", Root ++ Path}];
            [_, Controllers, Path] -> [{C, filename:join(Root, C) ++ Path} || C <- string:lexemes(Controllers, ",")];
            _ -> []
        end
     || Line <- lines(filename:join(Dir, "cgroup"))
    ]).

%% The content of the first of these files that exists, or "".
first(Controller, Name, Folders) ->
    hd([T || {C, F} <- Folders, C =:= Controller, T <- [string:trim(text(filename:join(F, Name)))], T =/= ""] ++ [""]).

fields(Text) -> maps:from_list([{K, number(V)} || Line <- string:lexemes(Text, "\n"), [K, V] <- [string:lexemes(Line, " ")]]).

throttled(Dir, Roots) ->
    Folders = folders(Dir, Roots),
    case {fields(first("", "cpu.stat", Folders)), fields(first("cpu", "cpu.stat", Folders))} of
        {#{"throttled_usec" := Us}, _} -> Us * 1000;
        {_, #{"throttled_time" := Ns}} -> Ns;
        _ -> 0
    end.

limits(Dir, Roots) ->
    Folders = folders(Dir, Roots),
    Frozen = [
        fields(first("", "cgroup.events", Folders)) =:= #{} orelse
            maps:get("frozen", fields(first("", "cgroup.events", Folders)), 0) =:= 0,
        first("freezer", "freezer.state", Folders) =/= "FROZEN"
    ],
    #{
        frozen => lists:member(false, Frozen),
        cpus => cpus(
            string:lexemes(first("", "cpu.max", Folders), " "),
            [number(first("cpu", "cpu.cfs_" ++ Name ++ "_us", Folders)) || Name <- ["quota", "period"]]
        ),
        memory_limit => limit([first("", "memory.max", Folders), first("memory", "memory.limit_in_bytes", Folders)]),
        memory_used => used([first("", "memory.current", Folders), first("memory", "memory.usage_in_bytes", Folders)])
    }.

cpus(["max" | _], _) -> none;
cpus([Quota, Period], _) -> hundredths(number(Quota), number(Period));
cpus(_, [Quota, Period]) -> hundredths(Quota, Period).

hundredths(Quota, Period) when Quota > 0, Period > 0 -> Quota * 100 div Period;
hundredths(_, _) -> none.

limit(Texts) -> hd([N || T <- Texts, N <- [number(T)], N > 0, N < ?UNLIMITED] ++ [none]).

used(Texts) -> hd([N || T <- Texts, N <- [number(T)], N > 0] ++ [none]).

%% ---- recordings ---------------------------------------------------------------------

%% Folders in which the process has mapped the files of a recording, as this side sees them.
recordings(Dir) ->
    Mapped = lists:usort([filename:dirname(File) || Line <- lines(filename:join(Dir, "maps")), File <- file(Line),
        filename:basename(File) =:= "meta"]),
    [Seen || Folder <- Mapped, Seen <- seen([Folder, filename:join(Dir, "root") ++ Folder])].

file(Line) ->
    case string:find(Line, "/") of
        nomatch -> [];
        File -> [File]
    end.

seen(Places) ->
    lists:sublist([P || P <- Places, lists:all(fun(Name) -> filelib:is_regular(filename:join(P, Name)) end, ["meta", "dict"])], 1).

%% ---- words ----------------------------------------------------------------------

%% @doc Why a node that looks like this does not answer: the end of a sentence.
-spec summary(seen()) -> unicode:chardata().
summary(elsewhere) ->
    "its threads can't be seen from here; on its machine, run kymo as its user or as root";
summary({gone, Pid}) ->
    ["its process ", Pid, " has ended"];
summary(#{pid := Pid, tracer := Tracer, threads := Threads, cgroup := #{frozen := Frozen}} = Seen) ->
    States = lists:usort([S || #{state := S} <- Threads]),
    if
        Frozen -> ["the cgroup of its process ", Pid, " is frozen: thaw it"];
        States =:= [$t] -> ["its process ", Pid, " is stopped by a debugger, process ", tracer_name(Tracer), ": let it continue"];
        States =:= [$T] -> ["its process ", Pid, " is stopped by a signal: 'kill -CONT ", Pid, "' continues it"];
        true -> first_reason([throttle(Seen), blocked(scheduler, Seen), blocked(dirty_io, Seen), busy(Seen), blocked(dirty_cpu, Seen), uninterruptible(Seen)], Seen)
    end.

tracer_name(none) -> "unknown";
tracer_name(Pid) -> Pid.

first_reason([], #{pid := Pid}) ->
    [
        "the threads of its process ", Pid, " are idle: a process that it needs for this, such as net_kernel, auth or "
        "code_server, is suspended or waits"
    ];
first_reason([[] | More], Seen) ->
    first_reason(More, Seen);
first_reason([Reason | _], _) ->
    Reason.

throttle(#{cgroup := #{cpus := none}}) ->
    [];
throttle(#{pid := Pid, time := Time, threads := Threads, cgroup := #{throttled := Held, cpus := Cpus}}) ->
    %% The kernel may count a pause only after its end.
    Ready = [T || #{state := $R} = T <- Threads] =/= [],
    Used = lists:sum([R || #{ran := R} <- Threads]) * 1000 > 7 * Cpus * Time,
    case Held * 4 > Time orelse (Ready andalso Used) of
        true -> ["the cgroup of its process ", Pid, " allows it ", processors(Cpus), " and held it back: raise its limit"];
        false -> []
    end.

processors(Hundredths) -> io_lib:format("~b.~2..0b processors", [Hundredths div 100, Hundredths rem 100]).

of_kind(Kind, Threads) -> [T || #{kind := K} = T <- Threads, K =:= Kind].

%% All threads of a kind.
blocked(Kind, #{pid := Pid, threads := Threads}) ->
    All = of_kind(Kind, Threads),
    case All =/= [] andalso lists:all(fun is_blocked/1, All) of
        true ->
            io_lib:format("~ts of its process ~ts ~ts blocked, in ~ts~ts", [
                all(Kind, length(All)), Pid, are(length(All)), places(All), remedy(Kind)
            ]);
        false ->
            []
    end.

are(1) -> "is";
are(_) -> "are".

all(scheduler, 1) -> "the scheduler thread";
all(scheduler, N) -> io_lib:format("all ~b scheduler threads", [N]);
all(dirty_io, 1) -> "the thread for file operations (dirty I/O)";
all(dirty_io, N) -> io_lib:format("all ~b threads for file operations (dirty I/O)", [N]);
all(dirty_cpu, 1) -> "the thread for long computations (dirty CPU)";
all(dirty_cpu, N) -> io_lib:format("all ~b threads for long computations (dirty CPU)", [N]).

remedy(scheduler) -> ": a NIF or driver waits there";
remedy(dirty_io) -> ": look at the file systems that it uses";
remedy(dirty_cpu) -> ": a NIF waits there".

places(Threads) -> lists:join(", ", lists:usort([place(T) || T <- Threads])).

place(#{call := "", function := Function}) -> Function;
place(#{call := Call, function := ""}) -> Call;
place(#{call := Call, function := Function}) -> [Call, " (", Function, ")"].

%% Schedulers without work sleep in these.
is_blocked(#{state := $D}) -> true;
is_blocked(#{state := $S, call := "", function := Function}) ->
    Function =/= "" andalso
        not lists:any(fun(Part) -> string:find(Function, Part) =/= nomatch end, ["futex", "poll", "hrtimer_nanosleep"]);
is_blocked(#{state := $S, call := Call}) -> not lists:member(Call, ["futex", "epoll_wait", "ppoll", "poll", "select"]);
is_blocked(_) -> false.

%% @doc Whether it does not answer because its scheduler threads have too much to do.
-spec is_busy(seen()) -> boolean().
is_busy(#{cgroup := #{frozen := false}} = Seen) -> throttle(Seen) =:= [] andalso busy(Seen) =/= [];
is_busy(_) -> false.

busy(#{pid := Pid, time := Time, threads := Threads}) ->
    Schedulers = of_kind(scheduler, Threads),
    Ran = lists:sum([R || #{ran := R} <- Schedulers]),
    Waited = lists:sum([W || #{waited := W} <- Schedulers]),
    N = length([T || #{state := $R} = T <- Schedulers]),
    case N > 0 andalso (Ran + Waited) * 10 > 7 * Time * N of
        true ->
            io_lib:format(
                "it is too busy: ~b of ~b scheduler threads of its process ~ts run, for ~b % of the time on a processor~ts", [
                    N, length(Schedulers), Pid, percent(Ran, Time * N),
                    [io_lib:format(", and wait for one for ~b %", [percent(Waited, Time * N)]) || Waited * 20 > Time * N]
                ]
            );
        false ->
            []
    end.

percent(Part, Whole) -> min(100, (Part * 100 + Whole div 2) div Whole).

uninterruptible(#{pid := Pid, threads := Threads}) ->
    case [T || #{state := $D} = T <- Threads] of
        [] ->
            [];
        Some ->
            io_lib:format("~b of ~b threads of its process ~ts sleep uninterruptibly, in ~ts", [
                length(Some), length(Threads), Pid, places(Some)
            ])
    end.

%% @doc Lines with everything that was seen.
-spec details(seen()) -> [unicode:chardata()].
details(#{time := Time, threads := Threads, memory := Memory, cgroup := Cgroup, recordings := Recordings}) ->
    Rows = [["THREADS", "STATE", "CPU", "WAITS FOR CPU", "IN"]] ++ rows(Threads, Time),
    Widths = [lists:max([string:length(lists:nth(N, Row)) || Row <- Rows]) || N <- [1, 2, 3, 4]] ++ [0],
    [string:trim(lists:join("  ", [string:pad(Cell, Width) || {Cell, Width} <- lists:zip(Row, Widths)]), trailing) || Row <- Rows] ++
        [lists:join(", ", [io_lib:format("~ts ~b MiB", [Name, KiB div 1024]) || {Name, KiB} <- Memory])] ++
        [["cgroup: ", lists:join(", ", Limits)] || [_ | _] = Limits <- [of_cgroup(Cgroup, Time)]] ++
        [["a recorder writes ", Folder, ", which kymo reads meanwhile, as with kymo why"] || Folder <- Recordings];
details(_) ->
    [].

of_cgroup(#{frozen := Frozen, cpus := Cpus, throttled := Held, memory_limit := Limit, memory_used := Used}, Time) ->
    ["frozen" || Frozen] ++
        [[processors(Cpus), io_lib:format(", held back for ~b % of the time", [percent(Held, Time)])] || Cpus =/= none] ++
        [io_lib:format("~b of ~b MiB of memory", [Used bsr 20, Limit bsr 20]) || Limit =/= none, Used =/= none].

%% Threads of a kind that do the same share a row.
rows(Threads, Time) ->
    Keyed = [{{order(K), word(T), place_of(T)}, T} || #{kind := K} = T <- Threads],
    Groups = [{Key, [T || {K, T} <- Keyed, K =:= Key]} || Key <- lists:usort([K || {K, _} <- Keyed])],
    [
        [
            names(Kind, Members),
            Word,
            percentage(lists:sum([R || #{ran := R} <- Members]), Time),
            percentage(lists:sum([W || #{waited := W} <- Members]), Time),
            Place
        ]
     || {{{_, Kind}, Word, Place}, Members} <- Groups
    ].

percentage(Part, Whole) -> integer_to_list((Part * 100 + Whole div 2) div Whole) ++ " %".

order(scheduler) -> {1, scheduler};
order(dirty_cpu) -> {2, dirty_cpu};
order(dirty_io) -> {3, dirty_io};
order(other) -> {4, other}.

names(other, Members) -> io_lib:format("~b others", [length(Members)]);
names(Kind, Members) -> [label(Kind), " ", ranges(lists:sort([N || #{number := N} <- Members]))].

label(scheduler) -> "scheduler";
label(dirty_cpu) -> "dirty CPU";
label(dirty_io) -> "dirty I/O".

ranges([First | Rest]) -> lists:join(",", ranges(First, First, Rest)).

ranges(First, Last, [Next | Rest]) when Next =:= Last + 1 -> ranges(First, Next, Rest);
ranges(First, Last, Rest) -> [range(First, Last) | case Rest of [] -> []; [Next | More] -> ranges(Next, Next, More) end].

range(N, N) -> integer_to_list(N);
range(First, Last) -> io_lib:format("~b-~b", [First, Last]).

word(#{state := $R}) -> "runnable";
word(#{state := $D}) -> "uninterruptible";
word(#{state := $T}) -> "stopped";
word(#{state := $t}) -> "traced";
word(#{state := $S} = T) ->
    case is_blocked(T) of
        true -> "blocked";
        false -> "idle"
    end;
word(#{state := Other}) -> [Other].

place_of(#{kind := other}) -> "";
place_of(#{state := $R}) -> "";
place_of(#{stack := Stack} = T) ->
    Shown = lists:sublist(Stack, ?STACK),
    case is_blocked(T) andalso Shown =/= [] of
        true -> [place(T), ": ", lists:join(" < ", Shown)];
        false -> place(T)
    end.
