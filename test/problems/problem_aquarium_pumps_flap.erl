%% SPDX-License-Identifier: Apache-2.0
%%
%% A server fails on the same bad value again and again, and its supervisor starts it anew
%% each time, without limit. Its clients meet a missing process or an exit.
-module(problem_aquarium_pumps_flap).
-behaviour(supervisor).

-export([about/0, start/0, start_pump/0, keeper/1]).
-export([init/1, pump_init/0]).

about() ->
    #{
        title => "Fish keepers get errors from the pump most of the time",
        source =>
            "Fred Hebert, Erlang in Anger, chapter 2 (It's about the guarantees) and 4: restarts "
            "without an end; OTP Design Principles, Supervisor Behaviour, maximum restart intensity",
        flags => ["+S", "2:2", "-kernel", "logger_level", "none"],
        truth =>
            "tank_pump crashes with badarith in level/1 about 15 ms after each start, and the "
            "supervisor tank_sup restarts it at once, dozens of times a second",
        who => [
            "tank_pump",
            "tank_sup",
            "problem_aquarium_pumps_flap:(pump_init/0|pump/1|level/1|start_pump/0)"
        ],
        what => [
            "restart",
            "crash",
            "badarith",
            "arithmetic",
            "\\bdie[sd]?\\b",
            "\\bexit(s|ed|ing)?\\b",
            "terminat",
            "started (again|anew)",
            "fail(s|ed|ing|ure)?\\b",
            "short-?lived"
        ]
    }.

start() ->
    Owner = self(),
    House = spawn(fun() ->
        {ok, _} = supervisor:start_link({local, tank_sup}, ?MODULE, []),
        Owner ! {self(), filled},
        receive
            close -> ok
        end
    end),
    receive
        {House, filled} -> ok
    end,
    _ = [spawn(?MODULE, keeper, [N]) || N <- lists:seq(1, 3)],
    ok.

init([]) ->
    Pump = #{id => pump, start => {?MODULE, start_pump, []}, restart => permanent},
    {ok, {#{strategy => one_for_one, intensity => 100000, period => 1}, [Pump]}}.

start_pump() ->
    proc_lib:start_link(?MODULE, pump_init, []).

pump_init() ->
    true = register(tank_pump, self()),
    proc_lib:init_ack({ok, self()}),
    %% The sensor has not measured anything yet.
    timer:sleep(15),
    pump(level(0)).

level(Measures) ->
    1000 / Measures.

pump(Level) ->
    receive
        {level, From, Ref} -> From ! {Ref, Level}
    end,
    pump(Level).

keeper(N) ->
    Ref = make_ref(),
    _ = catch tank_pump ! {level, self(), Ref},
    receive
        {Ref, Level} -> Level
    after 50 -> none
    end,
    keeper(N).
