%% SPDX-License-Identifier: Apache-2.0
%% @private Error messages of `kymo attach': the cause and the remedy.
-module(kymo_attach_error).

-export([format/1, status/1]).

%% Exit statuses, as documented in kymo.1.
-define(USAGE, 2).
-define(WRITE, 4).
-define(NODE, 6).

%% @doc The exit status of the command.
-spec status(term()) -> pos_integer().
status({write, _, _}) -> ?WRITE;
status({copy, _, _}) -> ?WRITE;
status({no_snapshot, _, _}) -> ?WRITE;
status({stays, Why, _, _}) -> status(Why);
status({not_empty, _}) -> ?WRITE;
status({trace, Why}) -> status_of(Why);
status({start, Why}) -> status_of(Why);
status({bad_name, _}) -> ?USAGE;
status(mixed_names) -> ?USAGE;
status(named) -> ?USAGE;
status({twice, _}) -> ?USAGE;
status({too_long, _}) -> ?USAGE;
status({bad_budget, _}) -> ?USAGE;
status({bad_counters, _}) -> ?USAGE;
status({bad_system_monitor, _}) -> ?USAGE;
status({trigger_needs, _, _}) -> ?USAGE;
status({not_unicode, _}) -> ?USAGE;
status(_) -> ?NODE.

status_of(Why) when
    element(1, Why) =:= bad_option;
    element(1, Why) =:= bad_pattern;
    element(1, Why) =:= missing_option
->
    ?USAGE;
status_of(_) ->
    ?NODE.

-spec format(term()) -> unicode:chardata().
format({no_host, Host}) ->
    io_lib:format("the host ~ts has no address: check its name", [Host]);
format({no_epmd, Host}) ->
    io_lib:format(
        "no epmd answers on ~ts: start it, or name the port that the node listens on with --port", [Host]
    );
format({no_node, Name, Host, []}) ->
    io_lib:format(
        "no node ~ts is registered on ~ts, nor any other: start it, or name its port with --port", [Name, Host]
    );
format({no_node, Name, Host, Registered}) ->
    io_lib:format("no node ~ts is registered on ~ts; there are ~ts", [Name, Host, lists:join(", ", Registered)]);
format({no_listener, Host, Port, Why}) ->
    io_lib:format("no node listens on port ~b of ~ts (~tp): check --port", [Port, Host, Why]);
format({refused, Node, Source}) ->
    io_lib:format(
        "the node ~ts refuses the connection: the cookie (from ~ts) is not that of the node "
        "(see --cookie-file), its name is not ~ts, or it uses another distribution protocol "
        "(see --proto-dist)",
        [Node, Source, Node]
    );
format({other_protocol, Protocol, File}) ->
    [
        io_lib:format("the node uses another distribution protocol: add --proto-dist ~ts", [Protocol])
        | [io_lib:format(" --ssl-dist-optfile ~ts", [File]) || File =/= none]
    ];
format(no_cookie) ->
    "there is no cookie: name its file with --cookie-file";
format({no_cookie_of, User}) ->
    io_lib:format(
        "the node belongs to the user ~ts, whose cookie can't be read: run this command as that user or as root, or "
        "name a file with the cookie with --cookie-file",
        [User]
    );
format({no_cookie_file, File}) ->
    io_lib:format("no cookie can be read from ~ts: check --cookie-file", [File]);
format({old_release, Release}) ->
    io_lib:format("the node runs OTP ~ts; kymo needs OTP 25 or later", [Release]);
format({old_erl, Release}) ->
    io_lib:format("the erl that runs this command is from OTP ~ts; name one from OTP 25 or later with --erl", [Release]);
format({bad_node, Why}) ->
    io_lib:format("the node does not answer as expected: ~0tp", [Why]);
format({no_distribution, Why}) ->
    io_lib:format(
        "the distribution could not be started here: check --proto-dist and --ssl-dist-optfile, if they were given, "
        "and the name of this host (~0tP)",
        [Why, 12]
    );
format(named) ->
    "the runtime of this command was given a name, so that other nodes can connect to it: remove -name or -sname "
    "from ERL_FLAGS, ERL_AFLAGS and ERL_ZFLAGS";
format({no_runtime, Pid}) ->
    io_lib:format(
        "the process ~ts is not an Erlang runtime that this user can see: run the command as root, or find the node "
        "with 'kymo attach --list'",
        [Pid]
    );
format({not_distributed, Pid}) ->
    io_lib:format(
        "the node of process ~ts was started without a name (-sname or -name), so nothing can connect to it: "
        "'kymo attach --print' prints an expression for its shell",
        [Pid]
    );
format({bad_name, Name}) ->
    io_lib:format("~ts is not the name of a node, such as rabbit@host", [Name]);
format(mixed_names) ->
    "some nodes have short names and some have long names: attach to them one after the other";
format({trigger_needs, Trigger, counters}) ->
    io_lib:format("--trigger ~ts needs the node's counters: leave out --counters off", [Trigger]);
format({trigger_needs, Trigger, system_monitor}) ->
    io_lib:format("--trigger ~ts needs the system monitor: leave out --system-monitor off", [Trigger]);
format({twice, Node}) ->
    io_lib:format("the node ~ts is named twice: name it once", [Node]);
format({bad_counters, Text}) ->
    io_lib:format("--counters takes a time from 10ms to 3600s, such as 100ms, or off, not '~ts'", [Text]);
format({bad_system_monitor, Text}) ->
    io_lib:format("--system-monitor takes default or off, not '~ts'", [Text]);
format({bad_budget, Text}) ->
    io_lib:format("--budget takes a percentage from 0.01% to 100%, such as 5%, events per second such as 100000/s, or off, not '~ts'", [Text]);
format({too_long, Text}) ->
    io_lib:format("'~ts' is too long for a name: the maximum is 255 characters", [Text]);
format({not_unicode, {error, Good, _}}) ->
    io_lib:format("what follows '~ts' is not UTF-8: write this argument in UTF-8", [Good]);
format({bad_cookie, Source}) ->
    io_lib:format("the cookie from ~ts is longer than 255 characters: name its file with --cookie-file", [Source]);
format({internal, Where}) ->
    io_lib:format("internal error, please report it: ~0tp", [Where]);
format(busy) ->
    "kymo is already attached to the node: 'kymo attach --detach NODE' ends a recorder left by --keep";
format(in_use) ->
    "another kymo command is attached to the node: end it first";
format(not_attached) ->
    "no recorder was left in the node with --keep: 'kymo attach --list-recorders NODE' lists all recorders";
format({other_kymo, M}) ->
    io_lib:format("the node has another build of kymo loaded (~tp): use that one, from a remote shell", [M]);
format({old_code, M}) ->
    io_lib:format(
        "a process of the node still runs code of a kymo that was there before (~tp): "
        "code:purge(~tp) in the node ends that process",
        [M, M]
    );
format({no_load, M, Why}) ->
    io_lib:format(
        "the node can't load the module ~tp (~0tp): use a kymo that was built with the node's release of "
        "OTP or an older one",
        [M, Why]
    );
format({other_machine, Theirs, Ours}) ->
    io_lib:format(
        "the node runs on ~ts, and the library of this kymo is for ~ts: use a kymo that was built for ~ts",
        [Theirs, Ours, Theirs]
    );
format({other_system, Name}) ->
    io_lib:format("the node runs on ~tp: kymo records nodes on Linux only", [Name]);
format({no_object, M}) ->
    io_lib:format("the module ~tp of kymo is not installed here: run priv/bin/kymo of a complete installation", [M]);
format({no_library, Reason}) ->
    kymo_tracer:format_library(Reason);
format({no_folder, Tried}) ->
    [
        "no folder of the node can be used; name another one with --node-dir"
        | [["\n    ", Dir, ": ", of_folder(Why)] || {Dir, Why} <- Tried]
    ];
format({not_here, Dir, enoent}) ->
    io_lib:format(
        "the recording, ~ts of the node, can't be seen from here: run this command on the node's machine, or record "
        "with kymo attach",
        [Dir]
    );
format({not_here, Dir, Why}) ->
    io_lib:format("~ts: ~ts: run this command as the user of the node, or as root", [Dir, file:format_error(Why)]);
format({start, Why}) ->
    kymo:format_error(Why);
format({trace, no_slow_calls}) ->
    "the runtime of the node does not report slow calls, which needs the patched one: name the functions with "
    "--functions instead of --slow, and find their slow calls with kymo print --tree --slower TIME";
format({trace, Why}) ->
    kymo:format_error(Why);
format({fetch, Why}) ->
    ["the recording can't be read in the node: ", kymo:format_error(Why)];
format({write, File, Why}) ->
    io_lib:format("~ts: ~ts", [File, file:format_error(Why)]);
format({no_snapshot, File, Why}) ->
    io_lib:format(
        "~ts: ~ts; the incomplete snapshot was removed: ~ts, and take another one",
        [File, file:format_error(Why), remedy(Why)]
    );
format({stays, {copy, File, Why}, Node, Output}) ->
    io_lib:format(
        "~ts: ~ts; the recording stays in the node: ~ts, and run 'kymo attach --detach ~ts -o ~ts'",
        [File, file:format_error(Why), remedy(Why), Node, output(Why, Output)]
    );
format({stays, Why, Node, Output}) ->
    [format(Why), io_lib:format("; it stays there: 'kymo attach --detach ~ts -o ~ts' tries again", [Node, Output])];
format({not_empty, Dir}) ->
    io_lib:format("~ts: the folder is not empty: name a new one with -o", [Dir]);
format(disconnected) ->
    "the connection to the node was lost; the node removes everything that was sent to it, "
    "unless it has died: then its recording stays on its machine, in kymo-attach-*/recording in its "
    "temporary directory";
format(disconnected_kept) ->
    "the connection to the node was lost; the recorder stays there: 'kymo attach --detach NODE' ends it";
format(watch_missed) ->
    "events were overwritten before the triggers examined them: record less, or increase --memory";
format({watch, Line}) ->
    ["the triggers: ", Line];
format({watch_ended, Status}) ->
    io_lib:format("the triggers no longer fire: kymo watch ended with status ~b", [Status]);
format(aborted) ->
    "ended early; nothing was fetched";
format(already_stopped) ->
    kymo:format_error(already_stopped);
format(Other) ->
    io_lib:format("~0tp", [Other]).

remedy(Why) when Why =:= enospc; Why =:= edquot -> "free some space";
remedy(_) -> "choose another folder".

output(Why, Output) when Why =:= enospc; Why =:= edquot -> Output;
output(_, _) -> "DIR".

of_folder({noexec, _, Text}) -> ["no file can be executed there: ", Text];
of_folder(Why) -> kymo:format_error(Why).
