%% SPDX-License-Identifier: Apache-2.0
%%
%% A NIF that occupies a normal scheduler for some milliseconds; see erts_storm_SUITE_data/nap.c.
-module(erts_storm_nap).

-export([load/1, nap/1]).
-nifs([nap/1]).

%% The library's path without its extension.
load(So) -> erlang:load_nif(So, 0).

nap(_Millis) -> erlang:nif_error(not_loaded).
