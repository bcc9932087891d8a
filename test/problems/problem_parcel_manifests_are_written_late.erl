%% SPDX-License-Identifier: Apache-2.0
%%
%% Two readers open named pipes of barcode scanners, which write seldom. Each open(2) holds a dirty
%% I/O scheduler until then, and the node has only two. All other file operations queue.
-module(problem_parcel_manifests_are_written_late).

-export([about/0, start/0, scanner/1, manifest/1]).

about() ->
    #{
        title => "The parcel depot's manifests are written a second late, the disk has nothing to do",
        source =>
            "erl man page, +SDio (number of dirty I/O schedulers, all files of prim_file run there); "
            "erlang-questions: opening a FIFO blocks file operations",
        flags => ["+S", "2:2", "+SDio", "2"],
        truth =>
            "scanner_1 and scanner_2 are blocked for 0.8 s at a time in opening a FIFO for reading (file:open/2 "
            "in listen/1), and occupy both dirty I/O schedulers; the manifest's writer waits for one",
        who => [
            "scanner_[12]",
            "problem_parcel_manifests_are_written_late:(scanner/1|listen/1)",
            "scanner_[12]\\.fifo"
        ],
        what => [
            "dirty.?i/?o",
            "dirty.{0,20}(scheduler|run.?queue|thread|nif|job)",
            "fifo",
            "named pipe",
            "file:open",
            "prim_file:open",
            "open_nif",
            "opens?\\b.{0,30}file",
            "blocked.{0,30}open"
        ]
    }.

start() ->
    Dir = string:trim(os:cmd("mktemp -d")),
    lists:foreach(
        fun(N) ->
            Name = "scanner_" ++ integer_to_list(N),
            Path = filename:join(Dir, Name ++ ".fifo"),
            _ = os:cmd("mkfifo " ++ Path),
            register(list_to_atom(Name), spawn(fun() -> init(Path) end))
        end,
        [1, 2]
    ),
    timer:sleep(200),
    true = register(manifest_writer, spawn(?MODULE, manifest, [filename:join(Dir, "manifest")])),
    ok.

%% The device writes one code each 0.8 s. It ends soon after the node has.
init(Path) ->
    Device = "for i in `seq 200`; do sleep 0.8; timeout 3 sh -c 'echo code > " ++ Path ++ "' || exit; done",
    _ = open_port({spawn_executable, "/bin/sh"}, [{args, ["-c", Device]}]),
    scanner(Path).

scanner(Path) ->
    {ok, F} = listen(Path),
    _ = file:read(F, 100),
    ok = file:close(F),
    scanner(Path).

listen(Path) ->
    file:open(Path, [read, raw, binary, device]).

manifest(Path) ->
    ok = file:write_file(Path, <<"parcel 1\n">>),
    timer:sleep(100),
    manifest(Path).
