%% SPDX-License-Identifier: Apache-2.0
%%
%% Deadlock of the code permissions in OTP 29.1.1; see code_permissions.md.
%%
%%     erlc code_permissions.erl && erl +S 8:8 -noshell -s code_permissions
%%
%% prints "done" and ends, or prints nothing any more and stays.
-module(code_permissions).

-export([start/0]).

start() ->
    Modules = [{M, code(M)} || I <- lists:seq(1, 6), M <- [list_to_atom("loaded_" ++ integer_to_list(I))]],
    [spawn_link(fun trace/0) || _ <- [1, 2]],
    Loaders = [spawn_monitor(fun() -> load(M, Code, 20) end) || {M, Code} <- Modules],
    [receive {'DOWN', Ref, process, Pid, normal} -> erlang:display({M, loaded}) end
     || {{Pid, Ref}, {M, _}} <- lists:zip(Loaders, Modules)],
    erlang:display(done),
    halt().

%% Seizes the permission to modify code.
trace() ->
    erlang:trace_pattern({lists, reverse, 1}, true, [local]),
    erlang:trace_pattern({lists, reverse, 1}, false, [local]),
    trace().

%% Loading and deleting want the permissions to stage and to modify; purging code
%% with funs holds the first from its first step to its last, and then wants both.
load(_M, _Code, 0) ->
    ok;
load(M, Code, N) ->
    {module, M} = erlang:load_module(M, Code),
    true = erlang:delete_module(M),
    true = erlang:purge_module(M),
    load(M, Code, N - 1).

%% A module with a fun.
code(M) ->
    Fun = {'fun', 1, {clauses, [{clause, 1, [], [], [{atom, 1, M}]}]}},
    {ok, M, Code} = compile:forms([{attribute, 1, module, M}, {attribute, 1, export, [{make, 0}]},
                                   {function, 1, make, 0, [{clause, 1, [], [], [Fun]}]}]),
    Code.
