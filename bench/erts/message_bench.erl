%% SPDX-License-Identifier: Apache-2.0
%%
%% Messages between untraced processes, whose instructions are counted from outside.
-module(message_bench).

-export([main/0, echo/0]).

%% @doc Entry point of `bench/erts/message_run'. Flag of the command line: `-n N', the number of
%% rounds. Prints nothing.
-spec main() -> no_return().
main() ->
    {ok, [[N]]} = init:get_argument(n),
    loop(list_to_integer(N), spawn_link(?MODULE, echo, [])),
    halt(0).

%% A round: a request and its reply, sent to a pid, with two waits and two context switches; the
%% same with a reply to an alias; and a message that is received from behind another one in the
%% mailbox.
loop(0, _) ->
    ok;
loop(N, Echo) ->
    Echo ! {request, self(), [N]},
    receive {reply, Echo, _} -> ok end,
    Alias = monitor(process, Echo, [{alias, reply_demonitor}]),
    Echo ! {request, Alias, [N]},
    receive {reply, Echo, _} -> ok end,
    self() ! first,
    self() ! second,
    receive second -> ok end,
    receive first -> ok end,
    loop(N - 1, Echo).

%% @doc The other process.
-spec echo() -> no_return().
echo() ->
    receive {request, To, What} -> To ! {reply, self(), What} end,
    echo().
