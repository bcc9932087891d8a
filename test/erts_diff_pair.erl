%% SPDX-License-Identifier: Apache-2.0
%%
%% Two nodes for erts_diff_SUITE, one on the runtime under test and one on the runtime that it is
%% compared with: runs programs in both, and shrinks a program that they observe differently.
%%
%% A runtime is {Erl, Fault}: the path of erl, and what erts_diff_run leaves out of what it observed.
%% The nodes belong to the calling process, and are started and replaced as needed.
-module(erts_diff_pair).

-export([start/1, compare/3, stop/0, stable/3, shrink/2, first/2, describe/1]).

%% What both observe, at the same time; {no_answer, Reason} of a node that crashes or hangs. Nodes in
%% which the same program has had different effects are not used again.
compare(A, B, Program) ->
    Nodes = nodes_of({A, B}),
    Self = self(),
    Runs = [spawn_monitor(fun() -> Self ! {self(), run(Node, Program)} end) || Node <- Nodes],
    Observed = [receive
                    {Pid, O} -> demonitor(Monitor, [flush]), O;
                    {'DOWN', Monitor, process, Pid, Reason} -> {no_answer, Reason}
                end || {Pid, Monitor} <- Runs],
    case Observed of
        [Same, Same] when is_list(Same) -> ok;
        _ -> stop()
    end,
    Observed.

run({Peer, Fault}, Program) ->
    try peer:call(Peer, erts_diff_run, program, [Program, Fault], 90000)
    catch
        _:{timeout, _} -> {no_answer, timeout};
        _:{Reason, {gen_server, call, _}} -> {no_answer, Reason};
        _:Reason -> {no_answer, Reason}
    end.

nodes_of(Runtimes) ->
    case get(?MODULE) of
        {Runtimes, Nodes} ->
            Nodes;
        _ ->
            stop(),
            Code = code_of_modules(),
            Nodes = [node_of(Runtime, Code) || Runtime <- tuple_to_list(Runtimes)],
            put(?MODULE, {Runtimes, Nodes}),
            Nodes
    end.

%% Compiled once, by the runtime under test.
code_of_modules() ->
    case get({?MODULE, code}) of
        undefined ->
            Code = erts_diff_modules:binaries(),
            put({?MODULE, code}, Code),
            Code;
        Code ->
            Code
    end.

stop() ->
    case erase(?MODULE) of
        undefined -> ok;
        {_, Nodes} -> [stop(Peer) || {Peer, _} <- Nodes], ok
    end.

stop(Peer) ->
    try peer:stop(Peer)
    catch exit:_ -> crashed_before
    end.

node_of({Erl, Fault}, Code) ->
    {ok, Peer} = start(Erl),
    ok = peer:call(Peer, erts_diff_run, prepare, [Code], 60000),
    {Peer, Fault}.

start(Erl) ->
    Own = filename:join([code:root_dir(), "bin", "erl"]),
    %% Options of an emulator that only the runtime under test has are not for others.
    Flags = [{"ERL_OTP" ++ integer_to_list(R) ++ "_FLAGS", ""} || R <- lists:seq(25, 35)] ++ [{"LD_PRELOAD", ""}],
    {ok, Peer, _} = peer:start(#{
        connection => standard_io,
        wait_boot => 60000,
        exec => Erl,
        env => [Flag || Erl =/= Own, Flag <- Flags] ++ [{"ERL_CRASH_DUMP_SECONDS", "0"}],
        args => ["+S", "2:2", "-pa", filename:dirname(code:which(?MODULE))]
    }),
    %% The owner of a pair must not die with a node that crashes.
    unlink(Peer),
    {ok, Peer}.

%% {Release, Series, HasSessions} of a runtime; the series is none if it has no patches.
describe(Erl) ->
    {ok, Peer} = start(Erl),
    try
        Release = peer:call(Peer, erlang, system_info, [otp_release]),
        Series = try peer:call(Peer, erlang, system_info, [kymo_series]) catch error:badarg -> none end,
        {Release, Series, {module, trace} =:= peer:call(Peer, code, ensure_loaded, [trace])}
    after
        peer:stop(Peer)
    end.

%% Whether it is the runtime that makes a difference, in new nodes: B observes the same each time, and
%% A something else at least once. If not, what B observed, or no_answer if it crashed.
stable(A, B, Program) ->
    Runs = [begin stop(), compare(A, B, Program) end || _ <- [1, 2, 3]],
    case lists:usort([OfB || [_, OfB] <- Runs]) of
        [Same] when is_list(Same) -> lists:any(fun([OfA, _]) -> OfA =/= Same end, Runs);
        [One, Other | _] when is_list(One), is_list(Other) -> {false, first(One, Other)};
        _ -> no_answer
    end.

%% The program without the operations that a difference doesn't need; Differs is asked each time.
shrink(Program, Differs) -> shrink(Program, max(1, length(Program) div 2), Differs).

shrink(Program, Size, Differs) ->
    case without(Program, 0, Size, Differs) of
        Program when Size =:= 1 -> Program;
        Program -> shrink(Program, Size div 2, Differs);
        Smaller -> shrink(Smaller, max(1, min(Size, length(Smaller) div 2)), Differs)
    end.

without(Program, Begin, _, _) when Begin >= length(Program) ->
    Program;
without(Program, Begin, Size, Differs) ->
    {Before, Rest} = lists:split(Begin, Program),
    Smaller = Before ++ lists:nthtail(min(Size, length(Rest)), Rest),
    case Differs(Smaller) of
        true -> without(Smaller, Begin, Size, Differs);
        false -> without(Program, Begin + Size, Size, Differs)
    end.

%% The first parts of two observations that differ, with what is around them in the observation of one
%% operation.
first(A, B) when is_list(A), is_list(B) ->
    {X, Y} = hd([{X, Y} || {X, Y} <- lists:zip(A, B), X =/= Y]),
    lists:nth(3, first(X, Y, [{X, Y}, {X, Y}, {X, Y}]));
first(A, B) ->
    {answered(A), answered(B)}.

answered({no_answer, _} = A) -> A;
answered(_) -> answers.

first([Same | A], [Same | B], Around) -> first(A, B, Around);
first([A | _], [B | _], Around) -> first(A, B, [{A, B} | Around]);
first(A, B, Around) when tuple_size(A) =:= tuple_size(B) ->
    {X, Y} = hd([{X, Y} || {X, Y} <- lists:zip(tuple_to_list(A), tuple_to_list(B)), X =/= Y]),
    first(X, Y, [{X, Y} | Around]);
first(_, _, Around) -> Around.
