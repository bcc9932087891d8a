%% SPDX-License-Identifier: Apache-2.0
%%
%% @private Checks that the library that `kymo attach' would send is built for the node's
%% machine, before anything is sent.
-module(kymo_attach_machine).

-export([check/3]).

%% Bytes of an ELF header up to and including the field that identifies the machine.
-define(HEADER, 20).

%% @doc Compares the architecture of the node with that of the library in Priv. Accepts an
%% architecture that this module does not know: loading the library will fail in the node if
%% it does not match.
-spec check(node(), Priv :: file:filename_all(), kymo_attach_link:wait()) ->
    ok
    | {error,
        {other_system, Name :: atom()}
        | {other_machine, Theirs :: string(), Ours :: string()}
        | kymo_attach_link:error()}.
check(Node, Priv, Wait) ->
    Info = fun(Key) -> kymo_attach_link:ask(Node, system_info, [Key], Wait) end,
    case {Info(os_type), Info(system_architecture)} of
        {{ok, {unix, linux}}, {ok, Theirs}} ->
            compare(known(Theirs), of_library(filename:join(Priv, "kymo_tracer.so")));
        {{ok, {_, Name}}, {ok, _}} ->
            {error, {other_system, Name}};
        {{error, _} = Error, _} ->
            Error;
        {_, {error, _} = Error} ->
            Error
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

%% Matches a list, because OTP 29 cannot load code of older compilers that matches binaries, and
%% the command runs with the user's release.
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

%% 64-bit architectures on which Erlang runs under Linux: the ELF number and the GNU name.
machines() ->
    [{62, "x86_64"}, {183, "aarch64"}, {243, "riscv64"}, {21, "powerpc64le"}, {22, "s390x"}, {258, "loongarch64"}].
