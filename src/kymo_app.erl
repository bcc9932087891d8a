%% SPDX-License-Identifier: Apache-2.0
%% @private Optional: kymo works without its application. With it, recorders
%% are children of a supervisor and stop when the application does.
-module(kymo_app).

-behaviour(application).

-export([start/0, start/2, stop/1]).

%% @doc Starts the application: for `erl -s kymo_app'.
-spec start() -> ok.
start() ->
    case application:ensure_all_started(kymo) of
        {ok, _} -> ok;
        {error, Reason} -> error(Reason)
    end.

-spec start(application:start_type(), term()) -> {ok, pid()} | {error, term()}.
start(_, _) ->
    case kymo_sup:start_link() of
        {ok, _} = Started ->
            ok = kymo_always:start(),
            Started;
        {error, _} = Error ->
            Error
    end.

-spec stop(term()) -> ok.
stop(_) -> ok.
