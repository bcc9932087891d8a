%% SPDX-License-Identifier: Apache-2.0
%% @private Error messages of `kymo attach': the cause and the remedy.
-module(kymo_attach_error).

-export([format/1, status/1, step/1, busy_connect/0, unloading/1]).

%% Exit statuses, as documented in kymo.1.
-define(USAGE, 2).
-define(WRITE, 4).
-define(NODE, 6).

%% @doc The exit status of the command.
-spec status(term()) -> pos_integer().
status({write, _, _}) -> ?WRITE;
status({copy, _, _}) -> ?WRITE;
status({no_snapshot, _, _}) -> ?WRITE;
status({dropped, Why}) -> status(Why);
status({stays, Why, _, _}) -> status(Why);
status({not_empty, _}) -> ?WRITE;
status({in_use, _}) -> ?WRITE;
status({no_claim, _, _}) -> ?WRITE;
status({not_yours, _}) -> ?WRITE;
status({trace, Why}) -> status_of(Why);
status({start, Why}) -> status_of(Why);
status({bad_name, _}) -> ?USAGE;
status(mixed_names) -> ?USAGE;
status(named) -> ?USAGE;
status({twice, _}) -> ?USAGE;
status({unknown_protocol, _}) -> ?USAGE;
status({bad_optfile, _, _}) -> ?USAGE;
status({bad_epmd_port, _}) -> ?USAGE;
status({bad_folder, _}) -> ?USAGE;
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
format({refused_call, Call, Why}) ->
    io_lib:format(
        "this command can't connect to anything: its system call ~ts is refused (~ts), probably by a filter of system calls "
        "(seccomp) or another policy of the container, sandbox or service that it runs in: run it outside of that, or allow the "
        "calls socket, bind and connect there",
        [Call, file:format_error(Why)]
    );
format({no_epmd, Host}) ->
    io_lib:format(
        "no epmd answers on port ~ts of ~ts: start it, set ERL_EPMD_PORT to the port of the node's epmd, or name the port that the "
        "node listens on with --port",
        [epmd_port(), Host]
    );
format({no_node, Name, Host, Registered}) ->
    io_lib:format(
        "no node ~ts is registered on ~ts; there ~ts: check its name; if it has another epmd than that of port ~ts, set "
        "ERL_EPMD_PORT to the port of that, or name the port of the node with --port; if it is in a container, name its process "
        "with --pid",
        [Name, Host, registered(Registered), epmd_port()]
    );
format({no_listener, Host, Port, Why}) ->
    io_lib:format("no node listens on port ~b of ~ts (~tp): check --port", [Port, Host, Why]);
format({refused, Node, #{port := Port, tls := Tls}, Source}) ->
    [
        io_lib:format(
            "the node ~ts refuses the connection: the cookie (from ~ts) is not that of the node "
            "(see --cookie-file), its name is not ~ts, it uses another distribution protocol (see --proto-dist), ",
            [Node, Source, Node]
        ),
        [io_lib:format("port ~b is that of something else (see --port), ", [Port]) || Port =/= none],
        ["it does not accept the certificate of this command (see --ssl-dist-optfile), " || Tls],
        "it has no free process (+P) or file descriptor (ulimit -n) for a connection, or something in it ends new processes, "
        "such as that of a connection"
    ];
format({ended, Node}) ->
    io_lib:format(
        "~ts has ended while this command connected to it. A node that has as many processes as it can have (+P) ends when anything "
        "connects to it: if its log has system_limit in net_kernel, start it with a higher +P",
        [Node]
    );
format({not_allowed, Client}) ->
    io_lib:format(
        "the node accepts only nodes that were named to its net_kernel:allow/1: evaluate net_kernel:allow(['~ts']) in its shell",
        [Client]
    );
format({no_tls, ours, Alert}) ->
    io_lib:format(
        "this command does not accept the TLS handshake of the node (~ts): check cacertfile, the certificate of the node and "
        "versions, in the options for client in the file of --ssl-dist-optfile",
        [alert(Alert)]
    );
format({no_tls, theirs, Alert}) ->
    io_lib:format(
        "the node does not accept the TLS handshake of this command (~ts): check certfile, keyfile and versions, in the "
        "options for client in the file of --ssl-dist-optfile, and cacertfile of the node",
        [alert(Alert)]
    );
format({bad_tls_option, Option}) ->
    ["the options for client in the file of --ssl-dist-optfile can't be used: check ", tls_option(Option)];
format({other_port, Port, Ports}) ->
    io_lib:format("port ~b is not that of the node, which listens on ~ts: check --port", [
        Port, lists:join(", ", [integer_to_list(P) || P <- Ports])
    ]);
format({at_port, Port, Why}) ->
    [io_lib:format("what listens on port ~b does not answer as a node: check --port; if that is right: ", [Port]), format(Why)];
format({bad_folder, Dir}) ->
    ["--node-dir '", kymo_attach_text:line(Dir), "' has control characters: name another folder"];
format({bad_epmd_port, Text}) ->
    io_lib:format("the environment variable ERL_EPMD_PORT is '~ts': set it to a port, such as 4369, or remove it", [Text]);
format({other_protocol, Protocol, File}) ->
    [
        io_lib:format("the node uses another distribution protocol: add --proto-dist ~ts", [Protocol])
        | [io_lib:format(" --ssl-dist-optfile ~ts", [File]) || File =/= none]
    ];
format({no_answer, epmd}) ->
    io_lib:format(
        "the epmd of the node's host does not answer on port ~ts: set ERL_EPMD_PORT to the port of the node's epmd, or name the "
        "port that the node listens on with --port",
        [epmd_port()]
    );
format({no_answer, _}) ->
    "the node does not answer";
format({purger_suspended, Ms}) ->
    io_lib:format(
        "the node does not answer (~ts, --timeout ~ts): its process erts_code_purger, which it needs for that, is suspended: resume it, "
        "or end what has suspended it; ~ts",
        [step(load), seconds(Ms), left_behind(load)]
    );
format({no_answer, Step, Ms, Seen}) ->
    [
        io_lib:format("the node does not answer (~ts, --timeout ~ts): ", [step(Step), seconds(Ms)]),
        kymo_attach_outside:summary(Seen),
        [["; ", After] || After <- [left_behind(Step)], After =/= ""],
        [["; ", busy_connect(), ": try again, or raise --timeout"] || Step =:= connect, kymo_attach_outside:is_busy(Seen)],
        details(Seen)
    ];
format({no_file_operations, Seen}) ->
    [
        "the node can't open files, which a recording needs: ",
        kymo_attach_outside:summary(Seen),
        "; nothing was left in the node",
        details(Seen)
    ];
format({no_room, Table, Used, Limit}) ->
    kymo_room:format(Table, Used, Limit);
format(no_process) ->
    "the process limit of the node is reached: end some of them, or restart it with a higher limit (+P)";
format({no_code_server, Modules}) ->
    io_lib:format(
        "the code server of the node does not answer, and ~ts not loaded: "
        "find out what the process code_server of the node waits for",
        [names(Modules)]
    );
format({held, Why, Node, Output}) ->
    [
        "the recording was not fetched completely and stays in the node, for ten minutes unless it was left there with "
        "--keep: 'kymo attach --detach ", atom_to_list(Node), " -o ", Output, "' copies the rest; ", interrupted(Why)
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
    io_lib:format("the node does not answer as expected: please report this, unless it is not meant to be a node: ~0tp", [Why]);
format({unknown_protocol, Protocol}) ->
    io_lib:format(
        "kymo does not know the distribution protocol ~ts: check --proto-dist, which takes inet_tcp, inet6_tcp, "
        "inet_tls or inet6_tls",
        [Protocol]
    );
format({bad_optfile, File, no_terms}) ->
    io_lib:format(
        "~ts: kymo evaluates no expressions: write the options as terms into another file, and name that with "
        "--ssl-dist-optfile",
        [File]
    );
format({bad_optfile, File, {syntax, Line}}) ->
    io_lib:format("~ts:~b: this is no Erlang term with a full stop at its end: correct it, or check --ssl-dist-optfile", [File, Line]);
format({bad_optfile, File, empty}) ->
    io_lib:format("~ts: the file has no options: check --ssl-dist-optfile", [File]);
format({bad_optfile, File, too_large}) ->
    io_lib:format("~ts: the file is larger than 1 MiB: check --ssl-dist-optfile", [File]);
format({bad_optfile, File, no_options}) ->
    io_lib:format("~ts: the file has no list of options, such as [{client, [{verify, verify_peer}]}]: check --ssl-dist-optfile", [File]);
format({bad_optfile, File, Why}) ->
    io_lib:format("~ts: ~ts: check --ssl-dist-optfile", [File, file:format_error(Why)]);
format(named) ->
    "the runtime of this command was given a name, so that other nodes can run code in it: remove -name or -sname "
    "from the program that --erl names";
format({no_runtime, Pid}) ->
    io_lib:format(
        "the process ~ts is not an Erlang runtime that this user can see: run the command as root, or find the node "
        "with 'kymo attach --list'",
        [Pid]
    );
format({not_distributed, Pid}) ->
    io_lib:format(
        "the node of process ~ts was started without a name of its own (-sname or -name), so nothing can connect to it: "
        "'kymo attach --print' prints an expression for its shell",
        [Pid]
    );
format({not_listening, Pid}) ->
    io_lib:format(
        "the node of process ~ts accepts no connections (-dist_listen false): "
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
format({unloading, Why}) ->
    ["the node still unloads the modules of an earlier kymo command, ", unloading(Why), [": try again later, or raise --timeout" || Why =:= slow]];
format(busy) ->
    "kymo is already attached to the node: 'kymo attach --detach NODE' ends a recorder left by --keep";
format(name_taken) ->
    "another process of the node is registered as kymo_attach, a name that kymo uses: give it another name; if another kymo command is "
    "just starting, end that one";
format(in_use) ->
    "another kymo command is attached to the node: end it first";
format(unfetched) ->
    "an earlier kymo command ended before it had fetched its recording, which stays in the node for ten minutes: "
    "'kymo attach --detach NODE -o DIR' fetches it, and 'kymo attach --detach NODE' removes it";
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
format({no_library, _} = Why) ->
    kymo_attach_reason:format(Why);
format({no_folder, Tried}) ->
    case [Why || {_, Why} <- Tried, kymo_attach_reason:is_limit(Why)] of
        [Limit | _] ->
            kymo_attach_reason:format(Limit);
        [] ->
            [
                "no folder of the node can be used; name another one with --node-dir"
                | [["\n    ", Dir, ": ", of_folder(Why)] || {Dir, Why} <- Tried]
            ]
    end;
format({not_here, Dir, enoent}) ->
    io_lib:format(
        "the recording, ~ts of the node, can't be seen from here: run this command on the node's machine, or record "
        "with kymo attach",
        [Dir]
    );
format({not_here, Dir, Why}) ->
    io_lib:format("~ts: ~ts: run this command as the user of the node, or as root", [Dir, file:format_error(Why)]);
format({start, Why}) ->
    kymo_attach_reason:format(Why);
format({trace, Why}) ->
    kymo_attach_reason:format(Why);
format({fetch, enoent}) ->
    "the files of the recording were removed from their folder in the node while it was recorded, or something else was put in "
    "its place; nothing was fetched, and kymo was removed from the node: record again, with a folder that nothing cleans "
    "in --node-dir";
format(snapshot_removed) ->
    "the files of the snapshot were removed from their folder in the node; nothing was fetched, and the recorder goes on: take "
    "another one, or record again, with a folder that nothing cleans in --node-dir";
format({fetch, Why}) ->
    ["the recording can't be read in the node: ", kymo_attach_reason:format(Why)];
format({write, File, Why}) when Why =:= enospc; Why =:= edquot ->
    io_lib:format("~ts: ~ts: ~ts", [File, file:format_error(Why), remedy(Why)]);
format({write, File, Why}) ->
    io_lib:format("~ts: ~ts: name another folder with -o", [File, file:format_error(Why)]);
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
format({stays, {not_empty, Dir}, Node, _}) ->
    io_lib:format(
        "~ts: the folder is not empty; the recording stays in the node: choose another folder, and run "
        "'kymo attach --detach ~ts -o DIR'",
        [Dir, Node]
    );
format({stays, Why, Node, Output}) ->
    [format(Why), io_lib:format("; it stays there: 'kymo attach --detach ~ts -o ~ts' tries again", [Node, Output])];
format({not_yours, Dir}) ->
    io_lib:format("~ts: the folder, or a link to it, belongs to another user: name a new one with -o", [Dir]);
format({in_use, Dir}) ->
    io_lib:format("~ts: another kymo command writes there: name another folder with -o, or wait until it has ended", [Dir]);
format({no_claim, Dir, Why}) ->
    io_lib:format("~ts: the folder can't be locked (~ts): name another folder with -o", [Dir, Why]);
format({not_empty, Dir}) ->
    io_lib:format("~ts: the folder is not empty: name a new one with -o", [Dir]);
format({disconnected, undefined}) ->
    "the connection to the node was lost; the node removes everything that was sent to it, unless it has died or was restarted";
format({disconnected, Dir}) ->
    [
        "the connection to the node was lost; the node removes everything that was sent to it, "
        "unless it has died or was restarted: then its recording stays on its machine, in ", Dir, ", until you remove it"
    ];
format(disconnected_removed) ->
    [lost_or_ended(), "; nothing was fetched, and everything was removed from the node"];
format({disconnected_shared, Functions}) ->
    [
        lost_or_ended(), "; nothing was fetched. Everything was removed from the node, except for trace patterns of the functions ",
        lists:join(", ", Functions), ", some of which another tracer has traced before: when that tracer has ended, evaluate "
        "erlang:trace_pattern({M, F, A}, false, [local]) for them in the shell of the node"
    ];
format(disconnected_again) ->
    [
        lost_or_ended(), ", and the attempts to remove what was sent to it failed: its modules kymo*, the process "
        "kymo_recorders, trace patterns and folders kymo-attach-* in its temporary directory may have stayed: find out what "
        "ends new processes or deletes modules, then restart the node or remove them in its shell"
    ];
format(disconnected_kept) ->
    "the connection to the node was lost; the recorder stays there: 'kymo attach --detach NODE' ends it";
format(watch_missed) ->
    "events were overwritten before the triggers examined them: record less, or increase --memory";
format({watch, Line}) ->
    ["the triggers: ", Line];
format({watch_ended, Status}) ->
    io_lib:format("the triggers no longer fire: kymo watch ended with status ~b", [Status]);
format({dropped, {copy, File, Why}}) ->
    io_lib:format(
        "~ts: ~ts; the recording was removed from the node: ~ts",
        [File, file:format_error(Why), dropped_remedy(Why)]
    );
format({dropped, aborted}) ->
    [format(aborted), "; when the node goes on, it removes everything that was sent to it"];
format(aborted) ->
    "ended early; nothing was fetched";
format(already_stopped) ->
    kymo_attach_reason:format(already_stopped);
format(Other) ->
    io_lib:format("~0tp", [Other]).

%% @doc What a session is doing.
-spec step(kymo_attach_session:step()) -> string().
step(connect) -> "connecting";
step(ask) -> "asking it for its recorders";
step(load) -> "loading kymo";
step(start) -> "starting to record";
step(snapshot) -> "taking a snapshot";
step(stop) -> "ending the recording";
step(fetch) -> "fetching the recording";
step(dropped) -> "fetching the recording";
step(finish) -> "removing kymo from the node";
step(answer) -> "waiting for an answer".

lost_or_ended() -> "the connection to the node was lost, a process of the node ended those of kymo, or its modules were deleted".

seconds(Ms) when Ms rem 1000 =:= 0 -> io_lib:format("~bs", [Ms div 1000]);
seconds(Ms) -> io_lib:format("~bms", [Ms]).

%% @doc What the node needs to unload modules.
-spec unloading(kymo_attach_link:unloading()) -> string().
unloading(slow) -> "for which each of its processes must run once per module";
unloading(suspended) -> "for which it needs its process erts_code_purger, which is suspended: resume it, or end what has suspended it".

%% @doc Why a busy node takes long to accept a connection.
-spec busy_connect() -> string().
busy_connect() ->
    "a connection needs processes of normal priority, which wait for all others that can run; the first one to a node needs "
    "more turns than later ones, because the node loads code for it".

%% What happens to what was sent to the node.
left_behind(finish) -> "the recording was fetched; the node removes everything when it goes on";
left_behind(stop) ->
    "when it goes on, the recording stays in the node for ten minutes, or, with --keep, until it is fetched: "
    "'kymo attach --detach NODE -o DIR' copies it";
left_behind(Step) when Step =:= load; Step =:= start; Step =:= dropped -> "the node removes everything that was sent to it when it goes on";
left_behind(_) -> "".

interrupted({disconnected, Dir}) ->
    ["the connection was lost; if the node has died, its recording stays on its machine, in ", Dir, ", until you remove it"];
interrupted(aborted) ->
    "the command ended early";
interrupted(Why) ->
    format(Why).

details(Seen) -> [["\n    ", Line] || Line <- kymo_attach_outside:details(Seen)].

names([M]) -> io_lib:format("its module ~tp is", [M]);
names(Modules) -> io_lib:format("its modules ~ts are", [lists:join(", ", [io_lib:format("~tp", [M]) || M <- Modules])]).

remedy(Why) when Why =:= enospc; Why =:= edquot -> "free some space";
remedy(_) -> "choose another folder".

dropped_remedy(Why) when Why =:= enospc; Why =:= edquot -> "free some space, or name a folder on another disk with -o or TMPDIR";
dropped_remedy(_) -> "name another folder with -o".

epmd_port() -> os:getenv("ERL_EPMD_PORT", "4369").

registered([]) -> "is none";
registered(Names) -> ["are ", lists:join(", ", Names)].

alert(Alert) -> string:replace(atom_to_list(Alert), "_", " ", all).

%% The value of an option may be secret. OTP takes what it does not know for an option of the socket, and names all of
%% them, with those of kymo.
tls_option({_, {socket_options, Options}}) when is_list(Options) ->
    foreign([atom_to_list(Key) || {Key, _} <- Options, is_atom(Key)]);
%% OTP 29 has a text that shows a call with the options.
tls_option({badarg, Call}) when is_list(Call) ->
    case re:run(Call, "{([a-z][a-z_0-9]*),", [global, unicode, {capture, all_but_first, list}]) of
        {match, Keys} -> foreign(lists:append(Keys));
        nomatch -> "its options"
    end;
tls_option({_, {Key, File, {error, Why}}}) when is_atom(Key), is_atom(Why) ->
    io_lib:format("~tp (~ts: ~ts)", [Key, File, file:format_error(Why)]);
tls_option({_, Option}) when is_tuple(Option), is_atom(element(1, Option)) ->
    io_lib:format("~tp", [element(1, Option)]);
tls_option({_, Key}) when is_atom(Key) ->
    io_lib:format("~tp", [Key]);
tls_option(_) ->
    "its options".

%% Those that the command does not set itself.
foreign(Keys) -> lists:join(" and ", Keys -- ["active", "nodelay", "packet", "packet_size", "mode", "header"]).

output(Why, Output) when Why =:= enospc; Why =:= edquot -> Output;
output(_, _) -> "DIR".

of_folder({noexec, _, Text}) -> ["no file can be executed there: ", Text];
of_folder(Why) -> kymo_attach_reason:format(Why).
