%% SPDX-License-Identifier: Apache-2.0
%% @private Errors of a recorder in the node, for the user of `kymo attach': what {@link
%% kymo:format_error/1} says about options and functions of kymo, in options of the command.
-module(kymo_attach_reason).

-export([format/1, is_limit/1]).

-spec format(term()) -> unicode:chardata().
format({bad_option, memory, undefined, {at_least, Least}}) ->
    io_lib:format("the default of --memory is too little for the threads of the node, which need at least ~b bytes", [Least]);
format({bad_option, memory, Value, {at_least, Least}}) ->
    io_lib:format("--memory ~0tp is too little for the threads of the node, which need at least ~b bytes", [Value, Least]);
format({bad_option, Key, Value}) ->
    io_lib:format("~ts takes ~ts, not '~ts'", [option(Key), allowed(Key), text(Value)]);
format({enospc, Needed, Available}) ->
    io_lib:format(
        "no space left on device: the recording needs ~b bytes and the folder has room for ~b; "
        "reduce --memory, or name a folder elsewhere with --node-dir",
        [Needed, Available]
    );
format({no_process, Process}) ->
    io_lib:format("there is no process ~tp in the node: check --process", [Process]);
format({already_traced, {M, F, A}}) ->
    already_traced(io_lib:format("has set ~tp:~tp/~b", [M, F, A]));
format({already_traced, Tracees}) when is_atom(Tracees) ->
    already_traced(["traces " | string:replace(atom_to_list(Tracees), "_", " ")]);
format({already_traced, Tracee}) ->
    already_traced(io_lib:format("traces ~tp", [Tracee]));
format({too_many_patterns, {M, F, A}}) ->
    io_lib:format("too many patterns with conditions for ~tp:~tp/~b: name fewer with --functions", [M, F, A]);
format({no_library, {missing, File, Dir}}) ->
    io_lib:format("the library ~ts is not in ~ts: run priv/bin/kymo of a complete installation", [File, Dir]);
format({no_library, {unusable, _, Text}}) ->
    io_lib:format(
        "the node can't load the library of kymo, which was built for another system, or needs a library that is "
        "missing there: ~ts; use a kymo that was built on a system like that of the node",
        [Text]
    );
format({no_library, {_, _, Text}}) ->
    io_lib:format("the library of kymo does not work in the node's runtime: ~ts", [Text]);
format(no_slow_calls) ->
    "the runtime of the node does not report slow calls, which needs the patched one: name the functions with "
    "--functions instead of --slow, and find their slow calls with kymo print --tree --slower TIME";
format({unsafe, Measure, Runtime, Fixed}) ->
    [
        case Measure of
            collections ->
                ["garbage collections are not recorded: if another tool traces them, too, the node, ", Runtime,
                    ", crashes; if no other tool does, add --garbage-collection always"];
            received ->
                ["received messages are not recorded: if they are traced, the node, ", Runtime,
                    ", may not wake up a process that hibernates with a large heap; if none does, add --received-messages always"]
        end,
        [[", or upgrade to OTP ", Fixed] || Fixed =/= none],
        " (doc/runtime-faults.md)"
    ];
format(too_many_recorders) ->
    "64 recorders are open in the node, which is the maximum: end some of those that 'kymo attach --list-recorders NODE' lists";
format(already_stopped) ->
    "the recorder has ended: 'kymo attach --detach NODE -o DIR' copies its recording";
format(emfile) ->
    "the node has as many open files as the limit of its process allows (ulimit -n): close some, or raise the limit with "
    "prlimit --nofile";
format(enfile) ->
    "the machine of the node has as many open files as fs.file-max allows: close some, or raise that limit with sysctl";
format(efbig) ->
    "the process of the node may not write files of this size (ulimit -f): raise the limit with prlimit --fsize, or reduce "
    "--memory";
format(enomem) ->
    "the process of the node gets no more memory: raise the limit of its address space (ulimit -v) with prlimit --as, "
    "or that of its cgroup (memory.max), or reduce --memory";
format(eagain) ->
    "the process of the node can start no thread: raise the limit of its user (ulimit -u) with prlimit --nproc, or that of "
    "its cgroup (pids.max)";
format(Other) ->
    kymo:format_error(Other).

%% @doc Whether a limit of the node's process is the reason, which is the same in each folder.
-spec is_limit(term()) -> boolean().
is_limit(Why) -> lists:member(Why, [emfile, enfile, efbig, enomem, eagain]).

already_traced(What) ->
    [
        "another tracer of the node, such as fprof, dbg or a recorder, ", What, ": end it first "
        "('kymo attach --list-recorders NODE' lists recorders)"
    ].

option(processes) -> "--process";
option(Key) -> ["--" | string:replace(atom_to_list(Key), "_", "-", all)].

allowed(processes) -> "the registered name of a process";
allowed(functions) -> "a pattern such as 'lists:_/_'";
allowed(slow) -> io_lib:format("a pattern and a time of at most ~b microseconds", [kymo_options:most_slow()]);
allowed(Key) -> kymo_options:allowed(Key).

text(Value) when is_atom(Value) -> atom_to_list(Value);
text(Value) -> io_lib:format("~0tP", [Value, 20]).
