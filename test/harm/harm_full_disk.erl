%% SPDX-License-Identifier: Apache-2.0
-module(harm_full_disk).
-export([about/0, setup/0, truth/1]).

about() ->
    #{source => "https://www.rabbitmq.com/docs/disk-alarms", refusal => "room|space|full", remedy => "--node-dir|--memory", node => own_files(),
      condition => "all file systems that the node can write to have 1 MB left"}.

%% A mount namespace, in which the folders that matter are a small file system.
own_files() ->
    "exec unshare -m sh -c 'for d in /tmp /var/tmp /dev/shm /run; do mount -t tmpfs -o size=1m tmpfs $d; done;"
    " mkdir -p \"$HARM_DIR/tmp\"; cd \"$HARM_DIR\"; export HOME=/tmp; unset XDG_RUNTIME_DIR; exec \"$@\"' sh \"$@\"".

setup() -> harm:pinger([harm:counter([]) || _ <- lists:seq(1, 10)]).

truth(Pinger) -> [{files, filelib:fold_files("/tmp", "kymo", true, fun(F, Fs) -> [F | Fs] end, [])} | harm:pings(Pinger)].
