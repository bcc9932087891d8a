%% SPDX-License-Identifier: Apache-2.0
%%
%% Perfetto's own trace_processor, for suites that compare durations with it. Uses the scripts
%% of kymo_export_SUITE.
-module(kymo_trace_processor).

-export([find/0, query/3]).

%% The folder of its WebAssembly build, or the reason to skip tests that need it.
-spec find() -> {ok, file:filename()} | {skip, string()}.
find() ->
    case kymo_cli:command("/bin/bash", [script("trace_processor_get.sh")], 360000) of
        {0, Dir} ->
            {ok, string:trim(binary_to_list(Dir))};
        {_, Why} ->
            {skip,
                "Perfetto's trace_processor is absent, so it did NOT check: " ++
                    string:trim(binary_to_list(Why))}
    end.

%% Loads a trace and returns the rows of each query. Fails the test case if trace_processor
%% fails, and skips it if there is none.
-spec query({ok, file:filename()} | {skip, string()}, file:filename(), [string()]) -> [[[term()]]].
query({ok, Assets}, Trace, Queries) ->
    Args = [script("trace_processor.mjs"), Assets, Trace | Queries],
    {Status, Text} = kymo_cli:command(os:find_executable("node"), Args),
    Status =:= 0 orelse ct:fail({trace_processor, Status, Text}),
    [rows(Line) || Line <- string:split(string:trim(Text), "\n", all)];
query({skip, _} = Skip, _, _) ->
    throw(Skip).

script(Name) ->
    filename:join([filename:dirname(code:which(?MODULE)), "kymo_export_SUITE_data", Name]).

%% JSON arrays of strings, numbers and null are valid Erlang terms except for null and the
%% encoding of strings.
rows(Line) ->
    Terms = re:replace(Line, "\"((?:[^\"\\\\]|\\\\.)*)\"", "<<\"\\1\"/utf8>>", [global, unicode, {return, list}]),
    {ok, Tokens, _} = erl_scan:string(Terms ++ "."),
    {ok, Rows} = erl_parse:parse_term(Tokens),
    Rows.
