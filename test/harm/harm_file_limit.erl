%% SPDX-License-Identifier: Apache-2.0
-module(harm_file_limit).
-export([about/0, setup/0, truth/1]).

about() ->
    #{source => "https://github.com/Eonblast/Emysql/issues/95", node => "ulimit -n 64; exec \"$@\"", refusal => "emfile|open files|descriptor", remedy => "ulimit|close|limit",
      log => "emfile|^$", condition => "two more open files, and the node has as many as ulimit -n allows"}.

setup() ->
    Files = fill([]),
    [prim_file:close(F) || F <- lists:sublist(Files, 2)],
    {lists:nthtail(2, Files), harm:pinger([harm:counter([]) || _ <- lists:seq(1, 10)])}.

fill(Files) ->
    case prim_file:open("/dev/null", [read]) of
        {ok, File} -> fill([File | Files]);
        {error, emfile} -> Files
    end.

truth({Files, Pinger}) -> [{open, length([F || F <- Files, {ok, _} <- [prim_file:position(F, cur)]])} | harm:pings(Pinger)].
