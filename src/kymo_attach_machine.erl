%% SPDX-License-Identifier: Apache-2.0
%%
%% @private Whether the library that `kymo attach' would send is for the machine of a
%% node: asked before anything is put there.
-module(kymo_attach_machine).

-export([check/2]).

%% The end of the part of an ELF header that says for which machine a file is.
-define(HEADER, 20).

%% @doc Compares the architecture of the node with that of the library in Priv. An
%% architecture that this module does not know is not refused: the node says then whether
%% it can load the library.
-spec check(node(), Priv :: file:filename_all()) ->
    ok
    | {error,
        {other_system, Name :: atom()}
        | {other_machine, Theirs :: string(), Ours :: string()}
        | {bad_node, term()}}.
check(Node, Priv) ->
    try {erpc:call(Node, os, type, []), erpc:call(Node, erlang, system_info, [system_architecture])} of
        {{unix, linux}, Theirs} ->
            compare(known(Theirs), of_library(filename:join(Priv, "kymo_tracer.so")));
        {{_, Name}, _} ->
            {error, {other_system, Name}}
    catch
        _:Why -> {error, {bad_node, Why}}
    end.

compare(Theirs, Ours) when Theirs =:= unknown; Ours =:= unknown; Theirs =:= Ours -> ok;
compare(Theirs, Ours) -> {error, {other_machine, Theirs, Ours}}.

%% "aarch64-unknown-linux-gnu" and the like.
known(Architecture) ->
    [Machine | _] = string:split(Architecture, "-"),
    case lists:keymember(Machine, 2, machines()) of
        true -> Machine;
        false -> unknown
    end.

%% In a list: with a pattern of a binary, the code of an older compiler could not be loaded
%% by OTP 29, and the command runs with the user's release.
of_library(File) ->
    case read(File) of
        {ok, [16#7f, $E, $L, $F, _, Order | _] = Header} when length(Header) =:= ?HEADER ->
            [A, B] = lists:nthtail(?HEADER - 2, Header),
            case Order of
                1 -> of_number(B bsl 8 + A);
                2 -> of_number(A bsl 8 + B);
                _ -> unknown
            end;
        _ ->
            unknown
    end.

read(File) ->
    case file:open(File, [read, raw]) of
        {ok, Device} ->
            try file:read(Device, ?HEADER) after file:close(Device) end;
        {error, _} = Error ->
            Error
    end.

of_number(Number) ->
    case lists:keyfind(Number, 1, machines()) of
        {_, Machine} -> Machine;
        false -> unknown
    end.

%% Those that Linux runs Erlang on with 64 bits, as ELF and as GNU names them.
machines() ->
    [{62, "x86_64"}, {183, "aarch64"}, {243, "riscv64"}, {21, "powerpc64le"}, {22, "s390x"}, {258, "loongarch64"}].
