%% SPDX-License-Identifier: Apache-2.0
%% @private Optional: kymo works without its application. With it, recorders
%% are children of a supervisor and stop when the application does.
-module(kymo_app).

-behaviour(application).

-export([start/2, stop/1]).

-spec start(application:start_type(), term()) -> {ok, pid()} | {error, term()}.
start(_, _) -> kymo_sup:start_link().

-spec stop(term()) -> ok.
stop(_) -> ok.
