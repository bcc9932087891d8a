%% SPDX-License-Identifier: Apache-2.0
-module(harm_sysmon_late).
-export([about/0, setup/0, truth/1, during/1]).

about() ->
    #{source => "https://github.com/supabase/realtime/pull/1405", ignore => [system_monitor],
      condition => "while recorded, an application of the node takes the system monitor"}.

setup() ->
    Owner = harm:counter([link]),
    put(owner, none),
    Owner.

during(Owner) ->
    erlang:system_monitor(Owner, [{long_gc, 500}]),
    put(owner, Owner).

truth(Owner) ->
    Now = erlang:system_monitor(),
    [{as_set, case get(owner) of none -> Now =:= undefined; Owner -> Now =:= {Owner, [{long_gc, 500}]} end}, {strays, harm:count(Owner)}].
