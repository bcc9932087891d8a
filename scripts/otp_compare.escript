#!/usr/bin/env escript
%% SPDX-License-Identifier: Apache-2.0
%%
%% Usage: otp_compare.escript TREE OTHER
%%
%% Whether two built source trees of OTP have the same files in the folders from which a node takes
%% code (ebin and priv of each application, bin), and the same modules: the same code, literals,
%% attributes and exports. Compiler options and debug information, which hold paths, may differ.
-mode(compile).

main([One, Other]) ->
    Files = files(One),
    Others = files(Other),
    Only = [["only in ", One, ": ", F] || F <- Files -- Others] ++ [["only in ", Other, ": ", F] || F <- Others -- Files],
    Modules = [F || F <- Files -- (Files -- Others), filename:extension(F) =:= ".beam"],
    Different = [["another module: ", F] || F <- Modules, contents(One, F) =/= contents(Other, F)],
    io:put_chars([[Line, $\n] || Line <- Only ++ Different]),
    io:format("~b files, ~b modules, ~b differences~n", [length(Files), length(Modules), length(Only ++ Different)]),
    Modules =/= [] orelse halt(1),
    Only ++ Different =:= [] orelse halt(1).

files(Tree) ->
    lists:sort(lists:append([filelib:wildcard(P, Tree) || P <- ["lib/*/ebin/*", "lib/*/priv/**/*.so", "bin/**/*"]])).

contents(Tree, File) ->
    Path = filename:join(Tree, File),
    {ok, {Module, [{attributes, Attributes}, Exports]}} = beam_lib:chunks(Path, [attributes, exports]),
    %% The compiler of ASN.1 adds its options.
    {beam_lib:md5(Path), Module, lists:keydelete(asn1_info, 1, Attributes), Exports}.
