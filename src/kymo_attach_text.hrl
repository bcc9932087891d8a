%% SPDX-License-Identifier: Apache-2.0
%% Characters that a line for a terminal must not have, as a guard: control characters, separators of lines, and
%% what changes the direction of the text.
-define(IS_HIDDEN(C),
    C < 32; C >= 127, C < 160; C =:= 16#61C; C >= 16#200E, C =< 16#200F; C >= 16#2028, C =< 16#202E; C >= 16#2066, C =< 16#2069
).
