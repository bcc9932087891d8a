%% SPDX-License-Identifier: Apache-2.0
%%
%% A stage hand greets the theatre in init/1, which takes 150 ms. A supervisor starts one child at a time, and has all
%% shows wait.
-module(problem_stage_crews_hired_one_at_a_time).
-behaviour(supervisor).

-export([about/0, start/0, show/1, hand_start/1]).
-export([init/1]).

about() ->
    #{
        title => "A show begins after two seconds when twelve of them are set up, alone it begins at once",
        source =>
            "Elixir, Add DynamicSupervisor, the supervisor as the bottleneck of start_child "
            "(https://github.com/elixir-lang/elixir/pull/7006); WhatsApp's gen_factory "
            "(https://highscalability.com/how-whatsapp-grew-to-nearly-500-million-users-11000-cores-an/)",
        flags => ["+S", "2:2"],
        truth =>
            "12 shows wait in supervisor:start_child/2 for stage_sup, which itself waits for each child in "
            "proc_lib:start_link, while the child sleeps 150 ms in its start function greet/2",
        who => ["stage_sup", "problem_stage_crews_hired_one_at_a_time:(greet/2|hand_start/1|init/1)"],
        what => [
            "start_child", "starts? (\\S+ )?(child|children|workers?|process)", "starting (\\S+ )?(child|children|workers?)", "child\\S* (start|init)", "slow (init|start)",
            "\\binit\\b", "initiali[sz]", "proc_lib:(sync_)?start", "start_link", "supervis\\S+ (waits|is busy|is blocked|blocks|starts)", "sleep",
            "one (child|worker|start) (after|at a time|at once)"
        ]
    }.

start() ->
    Self = self(),
    Owner = spawn(fun() ->
        {ok, _} = supervisor:start_link({local, stage_sup}, ?MODULE, []),
        Self ! {self(), ready},
        timer:sleep(infinity)
    end),
    receive
        {Owner, ready} -> ok
    end,
    lists:foreach(fun(N) -> spawn(?MODULE, show, [N]) end, lists:seq(1, 12)).

%% A show hires a hand, and lets it go when it is over.
show(N) ->
    {ok, Pid} = supervisor:start_child(stage_sup, [N]),
    Ref = monitor(process, Pid),
    Pid ! curtain,
    receive
        {'DOWN', Ref, process, Pid, _} -> show(N)
    end.

init([]) ->
    Hand = #{id => hand, start => {?MODULE, hand_start, []}, restart => temporary},
    {ok, {#{strategy => simple_one_for_one, intensity => 1000, period => 1}, [Hand]}}.

hand_start(N) ->
    Parent = self(),
    proc_lib:start_link(erlang, apply, [fun() -> greet(Parent, N) end, []]).

greet(Parent, _N) ->
    timer:sleep(150),
    proc_lib:init_ack(Parent, {ok, self()}),
    receive
        curtain -> ok
    end.
