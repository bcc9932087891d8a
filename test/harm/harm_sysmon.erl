%% SPDX-License-Identifier: Apache-2.0
-module(harm_sysmon).
-export([about/0, setup/0, truth/1]).

about() ->
    #{source => "https://github.com/erlang/otp/issues/8479",
      condition => "the node's own monitor owns the system monitor"}.

setup() ->
    Owner = harm:counter([link]),
    erlang:system_monitor(Owner, [{large_heap, 200000}, busy_port]),
    Owner.

%% A process with a large heap is still reported to the owner.
truth(Owner) ->
    Before = harm:count(Owner),
    {_, Ref} = spawn_monitor(fun() -> L = lists:seq(1, 300000), erlang:garbage_collect(), exit(length(L)) end),
    receive {'DOWN', Ref, _, _, _} -> ok end,
    [{reported, harm:count(Owner) > Before}, {owner, erlang:system_monitor() =:= {Owner, [busy_port, {large_heap, 200000}]}}].
