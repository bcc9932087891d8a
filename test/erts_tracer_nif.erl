%% SPDX-License-Identifier: Apache-2.0
%%
%% Tracers in C for the suites of the runtime: compiles erts_event_SUITE_data/event_tracer.c,
%% and generates modules that load it.
-module(erts_tracer_nif).

-include_lib("stdlib/include/assert.hrl").

-export([source/0, cc/3, header_dir/0, code_with/3, codes/2, load/1]).

%% The file is next to the suites.
source() ->
    filename:join([filename:dirname(code:which(?MODULE)), "erts_event_SUITE_data", "event_tracer.c"]).

cc(Source, So, Flags) ->
    Out = os:cmd("${CC:-gcc} -std=gnu11 -O1 -I '" ++ include_dir() ++ "' -fPIC -shared " ++
                     lists:flatten(lists:join($\s, Flags)) ++ " -o '" ++ So ++ "' '" ++ Source ++ "' 2>&1"),
    ?assertEqual({"", true}, {Out, filelib:is_regular(So)}).

%% The folder of erl_nif.h: given by the build, else that of the installed runtime.
include_dir() ->
    Dirs = [Dir || Dir <- [os:getenv("ERTS_INCLUDE_DIR")], is_list(Dir)] ++
        [filename:join([code:root_dir(), "erts-" ++ erlang:system_info(version), "include"]),
         filename:join([code:root_dir(), "usr", "include"])],
    hd([Dir || Dir <- Dirs, filelib:is_regular(filename:join(Dir, "erl_nif.h"))]).

%% The folder of kymo's copy of the header for raw events.
header_dir() ->
    Source = proplists:get_value(source, kymo_tracer:module_info(compile)),
    filename:absname(filename:join([filename:dirname(Source), "..", "c_src", "nif"])).

%% The code is loaded with -on_load, so its NIFs exist as soon as it is current.
code_with(M, So, Info) ->
    Fs = [{enabled, 3}, {enabled_call, 3}, {enabled_send, 3}, {trace, 5}, {trace_call, 5}, {trace_send, 5},
          {counts, 0}, {registering, 0}, {dirty_cpu, 2}, {dirty_io, 2}],
    NotLoaded = {call, 1, {remote, 1, {atom, 1, erlang}, {atom, 1, nif_error}}, [{atom, 1, not_loaded}]},
    {ok, M, Bin} =
        compile:forms([{attribute, 1, module, M}, {attribute, 1, export, Fs}, {attribute, 1, on_load, {load, 0}},
                       {function, 1, load, 0,
                        [{clause, 1, [], [],
                          [{call, 1, {remote, 1, {atom, 1, erlang}, {atom, 1, load_nif}},
                            [{string, 1, So}, {integer, 1, Info}]}]}]}
                       | [{function, 1, F, A, [{clause, 1, lists:duplicate(A, {var, 1, '_'}), [], [NotLoaded]}]}
                          || {F, A} <- Fs]], []),
    Bin.

%% Compiles a tracer, with these flags of the compiler, for each module. Returns their code.
codes(Dir, Tracers) ->
    [begin
         So = filename:join(Dir, atom_to_list(M)),
         cc(source(), So ++ ".so", ["-DMODULE=" ++ atom_to_list(M), "-DVERSION=1", "-I", header_dir() | Flags]),
         {M, code_with(M, So, 0)}
     end || {M, Flags} <- Tracers].

%% Loads them anew.
load(Codes) ->
    [begin
         {module, M} = code:load_binary(M, "", Code),
         code:purge(M)
     end || {M, Code} <- Codes].
