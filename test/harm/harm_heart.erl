%% SPDX-License-Identifier: Apache-2.0
-module(harm_heart).
-export([about/0, setup/0, truth/1]).

about() ->
    #{source => "https://github.com/erlang/otp/pull/1745", args => ["-heart", "+P", "300000", "-env", "HEART_BEAT_TIMEOUT", "11"],
      condition => "heart kills the node if it does not beat for 11 s; there are 100,000 processes", log => "^heart|^$"}.

setup() ->
    [harm:counter([]) || _ <- lists:seq(1, 100000)],
    whereis(heart).

truth(Heart) -> [{heart, is_pid(Heart) andalso whereis(heart) =:= Heart}].
