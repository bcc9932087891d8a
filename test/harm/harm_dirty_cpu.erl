%% SPDX-License-Identifier: Apache-2.0
-module(harm_dirty_cpu).
-export([about/0, setup/0, truth/1]).

about() ->
    #{source => "https://github.com/erlang/otp/issues/8119", refusal => "dirty|blocked|busy",
      condition => "all dirty CPU schedulers are occupied by calls that take 25 s"}.

setup() ->
    [spawn(fun() -> erts_debug:dirty_cpu(wait, 25000) end) || _ <- lists:seq(1, 4)],
    harm:pinger([harm:counter([]) || _ <- lists:seq(1, 10)]).

%% The code server answers all the time.
truth(Pinger) ->
    [{code_server, harm:within(5000, fun() -> is_list(code:get_path()) end)} | harm:pings(Pinger)].
