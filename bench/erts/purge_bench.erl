%% SPDX-License-Identifier: Apache-2.0
%% @private What purging a module waits for: the time of erts_code_purger:soft_purge/1 in a
%% runtime with the given number of idle processes. Run by purge_run.
-module(purge_bench).

-export([main/0]).

-define(TIMES, 300).

-spec main() -> no_return().
main() ->
    {ok, [[Text]]} = init:get_argument(processes),
    _ = [spawn(fun() -> receive after infinity -> ok end end) || _ <- lists:seq(1, list_to_integer(Text))],
    Code = [code(N) || N <- [1, 2]],
    Times = lists:sort([purge(Code) || _ <- lists:seq(1, ?TIMES)]),
    {Lists, _} = lists:unzip([timer:tc(fun erlang:processes/0) || _ <- lists:seq(1, ?TIMES)]),
    io:format("~w ~w ~w ~w~n", [
        erlang:system_info(process_count), hd(Times), lists:nth(?TIMES div 2, Times), lists:min(Lists)
    ]),
    halt().

%% In microseconds.
purge(Code) ->
    _ = [{module, M} = code:load_binary(M, "", Binary) || {M, Binary} <- Code],
    {Time, true} = timer:tc(fun() -> erts_code_purger:soft_purge(purge_bench_subject) end),
    Time.

code(N) ->
    Forms = [
        {attribute, 1, module, purge_bench_subject},
        {attribute, 1, export, [{f, 0}]},
        {function, 1, f, 0, [{clause, 1, [], [], [{integer, 1, N}]}]}
    ],
    {ok, M, Binary} = compile:forms(Forms),
    {M, Binary}.
