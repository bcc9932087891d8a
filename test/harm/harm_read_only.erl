%% SPDX-License-Identifier: Apache-2.0
-module(harm_read_only).
-export([about/0, setup/0, truth/1]).

about() ->
    #{source => "https://docs.docker.com/reference/cli/docker/container/run/#read-only", refusal => "read-only|writ|erofs", node => own_files(),
      condition => "the node can write to no file system"}.

%% A mount namespace, in which the folders that matter cannot be written to.
own_files() ->
    "exec unshare -m sh -c 'for d in /tmp /var/tmp /dev/shm /run; do mount -t tmpfs -o ro tmpfs $d; done;"
    " cd /tmp; export HOME=/tmp; unset XDG_RUNTIME_DIR; exec \"$@\"' sh \"$@\"".

setup() -> harm:pinger([harm:counter([]) || _ <- lists:seq(1, 10)]).

truth(Pinger) -> [{files, filelib:fold_files("/tmp", "kymo", true, fun(F, Fs) -> [F | Fs] end, [])} | harm:pings(Pinger)].
