%% SPDX-License-Identifier: Apache-2.0
%%
%% The processes of the programs of erts_diff_SUITE: workers, which call what the driver
%% (erts_diff_run) tells them to, and tracers, which keep what they receive until the driver asks
%% for it. A worker leaves all other messages in its mailbox.
-module(erts_diff_worker).

-export([loop/0, tracer/0, cast/2, call/2, flush/1]).
%% What workers are told to call, besides functions of OTP.
-export([spawn_child/1, drain/0, timer/1, hold/2, fetch/1, apply_held/2, give/3, request/2,
         own_info/1]).

%% Executes commands until it is told to leave. A command is a list of calls {M, F, Args}, or
%% {enter, Module}, which executes commands from within a function of that module.
loop() ->
    receive
        {'$cmd', From, Ref, leave} ->
            From ! {Ref, left},
            left;
        {'$cmd', From, Ref, {enter, Module}} ->
            try put(left, Module:stay(fun() -> From ! {Ref, entered}, ?MODULE:loop() end))
            catch error:undef -> From ! {Ref, not_entered}
            end,
            loop();
        {'$cmd', From, Ref, hibernate} ->
            From ! {Ref, hibernating},
            erlang:hibernate(?MODULE, loop, []);
        {'$cmd', From, Ref, Calls} ->
            From ! {Ref, [one(Call) || Call <- Calls]},
            loop()
    end.

one({M, F, Args}) ->
    try {ok, apply(M, F, Args)}
    catch C:R:Stack -> {C, R, Stack}
    end.

%% Sends a command; its answer is {Ref, Result}.
cast(Pid, Command) ->
    Ref = make_ref(),
    Pid ! {'$cmd', self(), Ref, Command},
    Ref.

%% The result of a command, or died if the process doesn't exist before it answers.
call(Pid, Command) ->
    Monitor = monitor(process, Pid),
    Ref = cast(Pid, Command),
    receive
        {Ref, Result} ->
            demonitor(Monitor, [flush]),
            Result;
        {'DOWN', Monitor, process, Pid, _} ->
            %% Its answer came first if it died after that.
            receive {Ref, Result} -> Result after 0 -> died end
    end.

tracer() -> tracer([]).

tracer(Got) ->
    receive
        {'$flush', From, Ref} ->
            From ! {Ref, lists:reverse(Got)},
            tracer([]);
        Message ->
            tracer([Message | Got])
    end.

%% What a tracer has received since the last flush, in order; dead if it is.
flush(Tracer) ->
    Monitor = monitor(process, Tracer),
    Tracer ! {'$flush', self(), Monitor},
    receive
        {Monitor, Got} ->
            demonitor(Monitor, [flush]),
            Got;
        {'DOWN', Monitor, process, _, _} ->
            dead
    end.

spawn_child(Options) -> spawn_opt(?MODULE, loop, [], Options).

%% All messages, which are removed.
drain() ->
    receive Message -> [Message | drain()]
    after 0 -> []
    end.

%% A timer of 0 ms, when it has expired.
timer(Message) ->
    Ref = erlang:start_timer(0, self(), Message),
    receive {timeout, Ref, Message} -> expired end.

%% Keeps the result of a function, which may be a fun or literals of a module.
hold(M, F) -> put(held, apply(M, F, [1])).

fetch(Key) -> get(Key).

apply_held(Key, Args) -> apply(get(Key), Args).

give(Table, Heir, Data) -> ets:give_away(Table, Heir, Data).

%% Sends to a process with an alias for the reply, as gen_server:call/2 does.
request(Pid, Message) ->
    Ref = monitor(process, Pid, [{alias, reply_demonitor}]),
    Pid ! {Ref, Message},
    Ref.

own_info(Item) -> process_info(self(), Item).
