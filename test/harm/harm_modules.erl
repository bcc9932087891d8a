%% SPDX-License-Identifier: Apache-2.0
-module(harm_modules).
-export([about/0, setup/0, truth/1]).

about() ->
    #{source => "https://www.erlang.org/doc/apps/kernel/code", refusal => "module|kymo_(names|server)|another build",
      condition => "the application has modules of its own that are named kymo_names and kymo_server"}.

setup() -> [load(M) || M <- [kymo_names, kymo_server]].

load(Module) ->
    Forms = [{attribute, 1, module, Module}, {attribute, 1, export, [{mine, 0}]},
        {function, 1, mine, 0, [{clause, 1, [], [], [{atom, 1, yes}]}]}],
    {ok, _, Beam} = compile:forms(Forms),
    {module, Module} = code:load_binary(Module, "mine.erl", Beam),
    Module.

truth(Modules) -> [{mine, [catch M:mine() || M <- Modules]}].
