%% SPDX-License-Identifier: Apache-2.0
-module(harm_secret).
-export([about/0, setup/0, truth/1, check/2, login/2]).

-define(SECRET, "hunter2hunter2hunter2").

about() ->
    #{source => "https://github.com/elixir-ecto/postgrex/issues/340", tool => [attach, {attach, ["--functions", "harm_secret:_/_", "--events", "calls,messages,procs,running"]}],
      recording => fun harm_secret:check/2,
      condition => "a password in the state, the messages, the dictionary, the arguments and the exit reason of processes"}.

setup() ->
    Secret = list_to_binary(?SECRET),
    Server = spawn_link(fun() -> put(password, Secret), serve(Secret) end),
    spawn_link(fun() -> client(Server, Secret) end),
    none.

serve(Secret) ->
    receive {login, From, Secret} -> From ! {ok, Secret, ?SECRET} end,
    serve(Secret).

client(Server, Secret) ->
    {ok, _, _} = ?MODULE:login(Server, Secret),
    {_, Ref} = spawn_monitor(erlang, exit, [{shutdown, Secret}]),
    receive {'DOWN', Ref, _, _, _} -> ok end,
    receive after 5 -> client(Server, Secret) end.

login(Server, Secret) ->
    Server ! {login, self(), Secret},
    receive Answer -> Answer end.

truth(_) -> [].

%% None of the files of a recording contains it.
check(Folder, _) ->
    Files = [F || F <- filelib:wildcard(filename:join(Folder, "**")), filelib:is_regular(F)],
    [["secret in the recording: ", filename:basename(F)] || F <- Files, {ok, Data} <- [file:read_file(F)], binary:match(Data, <<?SECRET>>) =/= nomatch].
