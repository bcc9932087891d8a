%% SPDX-License-Identifier: Apache-2.0
%%
%% Node packages that suites compare results with. The package-lock.json in a folder of a
%% suite's data pins the versions of each set.
-module(kymo_npm).

-export([packages/1]).

%% The folder with the packages of a package-lock.json, or the reason why it is not available.
-spec packages(file:filename()) -> {ok, file:filename()} | {skip, string()}.
packages(Folder) ->
    Get = filename:join([filename:dirname(code:which(?MODULE)), "kymo_otlp_SUITE_data", "npm_get.sh"]),
    case kymo_cli:command("/bin/bash", [Get, Folder], 360000) of
        {0, Packages} ->
            {ok, string:trim(unicode:characters_to_list(Packages))};
        {_, Why} ->
            {skip, lists:flatten(["the packages of ", filename:basename(Folder), " are absent, so it did NOT check: ",
                string:trim(unicode:characters_to_list(Why))])}
    end.
