%% SPDX-License-Identifier: Apache-2.0
-module(harm_named).
-export([about/0, setup/0, truth/1]).

about() ->
    #{source => "https://www.erlang.org/doc/apps/erts/erlang#register/2", refusal => "name[sd]? .*(taken|used|registered|another)|no recorder|not attached", tool => [attach, detach],
      condition => "processes of the application are registered with names that tools use, and with strange ones"}.

setup() ->
    [begin P = harm:counter([]), register(N, P), {N, P} end || N <- [kymo, kymo_attach, kymo_recorders, kymo_sup, kymo_server,
        kymo_recorder, kymo_janitor, recorder, attach, tracer, dbg, 'a b', 'ein\nname', 'äöü', list_to_atom(lists:duplicate(255, $n))]].

%% They still have their names, and nobody has sent them anything.
truth(Named) -> [{names, length([N || {N, P} <- Named, whereis(N) =:= P])}, {strays, [N || {N, P} <- Named, harm:count(P) =/= 0]}].
