%% SPDX-License-Identifier: Apache-2.0
%% @private The system calls that a connection needs. A filter of system calls, under which the command runs, may
%% refuse them.
-module(kymo_attach_calls).

-export([check/0, is_refusal/1]).

%% @doc Makes each of them, without sending anything. Otherwise the name of the host would be a wrong one, and a
%% node or an epmd would seem not to answer.
-spec check() -> ok | {error, {refused_call, Call :: atom(), inet:posix()}}.
check() ->
    case prim_inet:open(udp, inet, dgram) of
        {ok, Socket} ->
            try
                first([
                    {bind, fun() -> prim_inet:bind(Socket, {0, 0, 0, 0}, 0) end},
                    {connect, fun() -> prim_inet:connect(Socket, {127, 0, 0, 1}, 9) end}
                ])
            after
                prim_inet:close(Socket)
            end;
        {error, Why} ->
            refused(socket, Why, fun() -> ok end)
    end.

first([]) ->
    ok;
first([{Call, Make} | More]) ->
    case Make() of
        {error, Why} -> refused(Call, Why, fun() -> first(More) end);
        _ -> first(More)
    end.

%% Another error, such as a limit, has its own sentence later.
refused(Call, Why, Else) ->
    case is_refusal(Why) of
        true -> {error, {refused_call, Call, Why}};
        false -> Else()
    end.

%% @doc Whether a filter answers so, and no network, host or limit.
-spec is_refusal(term()) -> boolean().
is_refusal(Why) -> lists:member(Why, [eperm, eacces, enosys, einval, enotsup, eopnotsupp]).
