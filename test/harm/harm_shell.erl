%% SPDX-License-Identifier: Apache-2.0
-module(harm_shell).
-export([about/0, setup/0, truth/1, during/1]).

about() ->
    #{source => "https://www.erlang.org/doc/apps/stdlib/shell", shell => "X = 6.\nharm ! {value, X * 7}.\nlists:sort([3, 1, 2]).\n",
      condition => "somebody works in the shell of the node", log => "Eshell|^ ?[0-9]+>|^$|Erlang/OTP|^\\(|^42|^\\[|^\\{|^6"}.

setup() -> none.

during(_) -> put(typed, true).

%% What was typed has been evaluated.
truth(_) ->
    Answer =
        case get(typed) of
            undefined -> 42;
            true ->
                receive {value, X} -> self() ! {value, X}, X
                after 5000 -> none
                end
        end,
    [{answer, Answer}].
