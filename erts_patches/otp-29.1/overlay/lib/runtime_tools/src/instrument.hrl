%% SPDX-License-Identifier: Apache-2.0
%%
%% Errors of instrument, instrument_map and instrument_picture: `Cause' is a map
%% of the position of an argument to what is wrong with it, for
%% instrument:format_error/2.
-define(BADARG(Args, Cause),
        erlang:error(badarg, Args,
                     [{error_info, #{cause => Cause, module => instrument}}])).
