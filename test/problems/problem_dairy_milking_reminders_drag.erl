%% SPDX-License-Identifier: Apache-2.0
%%
%% Many processes set and cancel reminders with the module timer. All of them pass
%% through its one server.
-module(problem_dairy_milking_reminders_drag).

-export([about/0, start/0, cow/1, remind/1]).

about() ->
    #{
        title => "To set a reminder takes long as soon as the whole herd is in the stable",
        source =>
            "Erlang/OTP Efficiency Guide, Common Caveats, Timer Module "
            "(erlang.org/doc/efficiency_guide/commoncaveats)",
        flags => ["+S", "2:2"],
        truth =>
            "60 processes call timer:apply_after/4 and timer:cancel/1 all the time; each call goes "
            "to the single process timer_server, which is busy all the time, and they wait for it",
        who => [
            "timer_server",
            "timer:(handle_call|apply_after|cancel|req|init)",
            "problem_dairy_milking_reminders_drag:cow/1"
        ],
        what => [
            "bottleneck",
            "single (process|server)",
            "one (process|server)",
            "serial",
            "overload",
            "saturat",
            "queue",
            "apply_after",
            "timer:cancel",
            "timer:handle_call",
            "busy",
            "(wait(s|ed|ing)?|blocked|calls?) (for |on |by |in |to )*(the )?(\\S+ )?timer[_ ]server",
            "sets? .*timers?"
        ]
    }.

start() ->
    _ = [spawn(?MODULE, cow, [N]) || N <- lists:seq(1, 60)],
    ok.

%% Each movement of a cow moves its reminder.
cow(N) ->
    {ok, T} = timer:apply_after(3600000, ?MODULE, remind, [N]),
    _ = moved(N, 20),
    {ok, cancel} = timer:cancel(T),
    cow(N).

%% A short look at the sensors of the collar.
moved(N, 0) -> N;
moved(N, Steps) -> moved((N * 31 + Steps) rem 1009, Steps - 1).

remind(N) ->
    io:format("milk cow ~b~n", [N]).
