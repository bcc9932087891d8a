%% SPDX-License-Identifier: Apache-2.0
%%
%% Processes print a line for each visitor. Their group leader answers slowly, and
%% each io:format/2 is a request to it that has to be answered.
-module(problem_theme_park_rides_load_slowly).

-export([about/0, start/0, console/0, ride/1]).

about() ->
    #{
        title => "All rides are slow since the console in the office is connected over a slow line",
        source =>
            "OTP documentation, The Erlang I/O Protocol (stdlib user's guide); Fred Hebert, Erlang in "
            "Anger, chapter 3, on error logging and standard output as hidden bottlenecks",
        flags => ["+S", "2:2"],
        truth =>
            "office_console is the group leader of all rides and sleeps 40 ms for each io_request; "
            "8 rides wait for it in io:format/2",
        who => [
            "office_console",
            "problem_theme_park_rides_load_slowly:(console/0|show/1)"
        ],
        what => [
            "group[_ ]leader",
            "\\bio:(format|request|put_chars|fwrite|wait_io)",
            "io_request",
            "i/?o (request|protocol|server|device)",
            "print(s|ing|ed)?",
            "output",
            "standard[_ ]io",
            "sleep"
        ]
    }.

start() ->
    Console = spawn(?MODULE, console, []),
    true = register(office_console, Console),
    lists:foreach(
        fun(N) ->
            spawn(fun() ->
                true = group_leader(Console, self()),
                ride(N)
            end)
        end,
        lists:seq(1, 8)
    ).

%% The console speaks the protocol of input and output, but over a slow line.
console() ->
    receive
        {io_request, From, Ref, Request} ->
            Answer = show(Request),
            From ! {io_reply, Ref, Answer},
            console()
    end.

show({put_chars, _, _, _, _}) ->
    timer:sleep(40),
    ok;
show({put_chars, _, _}) ->
    timer:sleep(40),
    ok;
show(_) ->
    {error, request}.

ride(N) ->
    ok = admit(N, rand:uniform(100)),
    ride(N).

admit(N, Visitor) ->
    io:format("ride ~b: visitor ~b~n", [N, Visitor]).
