%% SPDX-License-Identifier: Apache-2.0
%% @private The recorders that were started while the application runs.
-module(kymo_sup).

-behaviour(supervisor).

-export([start_link/0, init/1]).

-spec start_link() -> supervisor:startlink_ret().
start_link() -> supervisor:start_link({local, ?MODULE}, ?MODULE, []).

-spec init([]) -> {ok, {supervisor:sup_flags(), [supervisor:child_spec()]}}.
init([]) ->
    %% Closing the files of a recorder may take a while on a slow disk.
    Recorder = #{
        id => recorder,
        start => {kymo_server, start_link, []},
        restart => temporary,
        shutdown => 30000
    },
    {ok, {#{strategy => simple_one_for_one}, [Recorder]}}.
