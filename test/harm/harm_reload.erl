%% SPDX-License-Identifier: Apache-2.0
-module(harm_reload).
-export([about/0, setup/0, truth/1]).

about() ->
    #{source => "https://github.com/erlang/otp/issues/8300", tool => [{attach, ["--functions", "harm_victim:_/_"]}, attach],
      condition => "a module is loaded and purged in a loop, and called all the time"}.

setup() ->
    Beams = [beam(N) || N <- lists:seq(0, 9)],
    Counts = counters:new(3, []),
    load(hd(Beams)),
    spawn_link(fun() -> reload(Beams, Counts) end),
    [spawn_link(fun() -> call(Counts) end) || _ <- lists:seq(1, 2)],
    Counts.

beam(N) ->
    Forms = [{attribute, 1, module, harm_victim}, {attribute, 1, export, [{version, 1}]},
        {function, 1, version, 1, [{clause, 1, [{var, 1, 'X'}], [], [{tuple, 1, [{var, 1, 'X'}, {integer, 1, N}]}]}]}],
    {ok, _, Beam} = compile:forms(Forms),
    Beam.

load(Beam) ->
    code:purge(harm_victim),
    {module, harm_victim} = code:load_binary(harm_victim, "harm_victim.erl", Beam).

reload(Beams, Counts) ->
    [begin load(B), counters:add(Counts, 1, 1) end || B <- Beams],
    reload(Beams, Counts).

call(Counts) ->
    Wrong = [x || _ <- lists:seq(1, 100), case catch harm_victim:version(x) of {x, N} -> N > 9; _ -> true end],
    counters:add(Counts, 2, 100),
    counters:add(Counts, 3, length(Wrong)),
    receive after 1 -> call(Counts) end.

%% It still goes on: both counters move. The calls were never wrong.
truth(Counts) ->
    [Loads, Calls] = [counters:get(Counts, I) || I <- [1, 2]],
    Moves = harm:within(20000, fun() -> moved(Counts, Loads + 3, Calls + 1000) end),
    [{moves, Moves}, {wrong, counters:get(Counts, 3)}, {info_loads, Loads}].

moved(Counts, Loads, Calls) ->
    case counters:get(Counts, 1) > Loads andalso counters:get(Counts, 2) > Calls of
        true -> true;
        false -> receive after 20 -> moved(Counts, Loads, Calls) end
    end.
