%% SPDX-License-Identifier: Apache-2.0
%% @private Connects to a node as the distribution protocol requires: finds its port, and proves
%% that both sides have the cookie. The result is a socket that carries the messages of {@link
%% kymo_attach_wire}.
%%
%% No module that attaching uses may match binaries: OTP 29 cannot load such code if an older
%% compiler made it, and the command runs with the user's release.
-module(kymo_attach_handshake).

-export([connect/3, send/2, wait_for_next/1, protocol/2]).
-export_type([client/0, protocol/0, socket/0, error/0]).

-type protocol() :: {inet | inet6, tcp | {tls, Options :: [term()]}}.

-type client() :: #{
    %% The name that the node sees, with a host, and a number that tells it from other clients that
    %% have had this name.
    name := string(),
    creation := pos_integer(),
    cookie := string(),
    protocol := protocol(),
    %% `none': the one that epmd knows.
    port := none | inet:port_number()
}.

-type socket() :: {gen_tcp, gen_tcp:socket()} | {ssl, ssl:sslsocket()}.

-type error() ::
    {no_address, term()}
    | {no_port, term()}
    | {no_connection, term()}
    | {refused, term()}
    | {old_release, string()}.

%% What a node of OTP 25 or later requires of the other side, and monitors. It cannot be asked to
%% start processes (DFLAG_SPAWN is missing), and has no cache of atoms.
-define(EXTENDED_REFERENCES, 16#4).
-define(MONITOR, 16#8).
-define(FUN_TAGS, 16#10).
-define(MONITOR_NAME, 16#20).
-define(NEW_FUN_TAGS, 16#80).
-define(EXTENDED_PIDS_PORTS, 16#100).
-define(EXPORT_PTR_TAG, 16#200).
-define(BIT_BINARIES, 16#400).
-define(NEW_FLOATS, 16#800).
-define(SMALL_ATOM_TAGS, 16#4000).
-define(UTF8_ATOMS, 16#10000).
-define(MAP_TAG, 16#20000).
-define(BIG_CREATION, 16#40000).
-define(HANDSHAKE_23, 16#1000000).
-define(UNLINK_ID, 16#2000000).
-define(MANDATORY_25_DIGEST, 16#4000000).
-define(V4_NC, (16#4 bsl 32)).
-define(FLAGS,
    (?EXTENDED_REFERENCES bor ?MONITOR bor ?FUN_TAGS bor ?MONITOR_NAME bor ?NEW_FUN_TAGS bor ?EXTENDED_PIDS_PORTS bor
        ?EXPORT_PTR_TAG bor ?BIT_BINARIES bor ?NEW_FLOATS bor ?SMALL_ATOM_TAGS bor ?UTF8_ATOMS bor ?MAP_TAG bor
        ?BIG_CREATION bor ?HANDSHAKE_23 bor ?UNLINK_ID bor ?MANDATORY_25_DIGEST bor ?V4_NC)
).

%% The version of the protocol that came with OTP 23.
-define(OLDEST_VERSION, 6).

%% Bytes of a file with TLS options.
-define(MAX_OPTFILE, (1 bsl 20)).

%% The largest message that is accepted: more than the largest answer of {@link kymo_attach_node}.
-define(MAX_MESSAGE, (8 bsl 20)).

%% @doc The calling process owns the socket. Ms limits each step.
-spec connect(node(), client(), Ms :: pos_integer()) -> {ok, socket()} | {error, error()}.
connect(Node, #{protocol := {Family, Transport}, port := Given} = Client, Ms) ->
    [Name, Host] = string:split(atom_to_list(Node), "@"),
    try
        Address = ok(no_address, inet:getaddr(Host, Family)),
        Port = port(Given, Name, Address, Ms),
        Socket = open(Transport, Family, Host, Address, Port, Ms),
        greet(Socket, Node, Client, Ms),
        ok = for_messages(Socket),
        {ok, Socket}
    catch
        throw:{error, _} = Error -> Error
    end.

ok(_, {ok, Value}) -> Value;
ok(Step, {error, Why}) -> throw({error, {Step, Why}}).

port(none, Name, Address, Ms) ->
    case erl_epmd:port_please(Name, Address, Ms) of
        {port, Port, Version} when Version >= ?OLDEST_VERSION -> Port;
        {port, _, _} -> throw({error, {old_release, "22 or older"}});
        Other -> throw({error, {no_port, Other}})
    end;
port(Port, _, _, _) ->
    Port.

open(tcp, Family, _, Address, Port, Ms) ->
    {gen_tcp, ok(no_connection, gen_tcp:connect(Address, Port, [Family, {packet, 2} | options()], Ms))};
open({tls, Options}, Family, Host, Address, Port, Ms) ->
    Own = [Family, {packet, 4}, {server_name_indication, Host} | options()],
    Given = [O || O <- Options, not is_tuple(O) orelse not lists:keymember(element(1, O), 1, Own)],
    {ok, _} = application:ensure_all_started(ssl),
    {ssl, ok(no_connection, ssl:connect(Address, Port, Given ++ Own, Ms))}.

options() -> [binary, {active, false}, {nodelay, true}, {packet_size, ?MAX_MESSAGE}].

greet(Socket, Node, #{name := Name, creation := Creation, cookie := Cookie}, Ms) ->
    sent(Socket, [$N, number(?FLAGS, 8), number(Creation, 4), number(length(Name), 2), Name]),
    case first(Socket, Ms) of
        "sok" -> ok;
        "sok_simultaneous" -> ok;
        %% The node has not yet noticed the end of an earlier client of this name.
        "salive" -> sent(Socket, "strue");
        Status -> throw({error, {refused, Status}})
    end,
    Theirs = challenge(received(Socket, Ms), atom_to_list(Node)),
    Ours = random(),
    sent(Socket, [$r, number(Ours, 4), digest(Cookie, Theirs)]),
    Right = [$a | binary_to_list(digest(Cookie, Ours))],
    case received(Socket, Ms) of
        Right -> ok;
        _ -> throw({error, {refused, cookie}})
    end.

challenge([$N, _, _, _, _, _, _, _, _, A, B, C, D, _, _, _, _, _, _ | Name], Name) ->
    (A bsl 24) bor (B bsl 16) bor (C bsl 8) bor D;
challenge([$n | _], _) ->
    throw({error, {old_release, "22 or older"}});
challenge(_, _) ->
    throw({error, {refused, name}}).

digest(Cookie, Challenge) ->
    try
        erlang:md5([Cookie | integer_to_list(Challenge)])
    catch
        %% A character that no cookie has.
        error:badarg -> throw({error, {refused, cookie}})
    end.

random() ->
    {ok, Device} = file:open("/dev/urandom", [read, raw, binary]),
    {ok, Bytes} = file:read(Device, 4),
    ok = file:close(Device),
    binary:decode_unsigned(Bytes).

sent({Module, Socket}, Data) ->
    case Module:send(Socket, Data) of
        ok -> ok;
        {error, Why} -> throw({error, {refused, Why}})
    end.

received({Module, Socket}, Ms) ->
    case Module:recv(Socket, 0, Ms) of
        {ok, Data} -> binary_to_list(Data);
        {error, Why} -> throw({error, {refused, Why}})
    end.

%% A node that refuses a name says so. One that ends says nothing.
first(Socket, Ms) ->
    try
        received(Socket, Ms)
    catch
        throw:{error, {refused, Why}} when Why =:= closed; Why =:= econnreset -> throw({error, {refused, unheard}})
    end.

for_messages({gen_tcp, Socket}) -> refused(inet:setopts(Socket, [{packet, 4}]));
for_messages({ssl, _}) -> ok.

refused(ok) -> ok;
refused({error, Why}) -> throw({error, {refused, Why}}).

%% A number in the order of the network.
number(_, 0) -> [];
number(N, Bytes) -> [(N bsr (8 * (Bytes - 1))) band 255 | number(N, Bytes - 1)].

%% @doc Sends a message. May wait for as long as the node reads nothing.
-spec send(socket(), iodata()) -> ok | {error, term()}.
send({Module, Socket}, Data) -> Module:send(Socket, Data).

%% @doc Has the next message sent to the owner of the socket.
-spec wait_for_next(socket()) -> ok | {error, term()}.
wait_for_next({gen_tcp, Socket}) -> inet:setopts(Socket, [{active, once}]);
wait_for_next({ssl, Socket}) -> ssl:setopts(Socket, [{active, once}]).

%% @doc The protocol for the values of --proto-dist and --ssl-dist-optfile.
-spec protocol(undefined | string(), undefined | file:filename()) ->
    {ok, protocol()} | {error, {unknown_protocol, string()} | {bad_optfile, file:filename(), term()}}.
protocol(undefined, File) -> protocol("inet_tcp", File);
protocol("inet_tcp", _) -> {ok, {inet, tcp}};
protocol("inet6_tcp", _) -> {ok, {inet6, tcp}};
protocol("inet_tls", File) -> tls(inet, File);
protocol("inet6_tls", File) -> tls(inet6, File);
protocol(Other, _) -> {error, {unknown_protocol, Other}}.

tls(Family, undefined) ->
    {ok, {Family, {tls, [{versions, ['tlsv1.3', 'tlsv1.2']}]}}};
tls(Family, File) ->
    case start_of(File) of
        {ok, Content} when byte_size(Content) > ?MAX_OPTFILE -> {error, {bad_optfile, File, too_large}};
        {ok, Content} -> tls(Family, File, terms(Content));
        eof -> {error, {bad_optfile, File, empty}};
        {error, Why} -> {error, {bad_optfile, File, Why}}
    end.

%% Not all of something that has no end.
start_of(File) ->
    case file:open(File, [read, raw, binary]) of
        {ok, Device} ->
            Read = file:read(Device, ?MAX_OPTFILE + 1),
            ok = file:close(Device),
            Read;
        {error, _} = Error ->
            Error
    end.

tls(Family, _, {ok, Options}) ->
    Client = proplists:get_value(client, Options, []),
    Versions = [{versions, ['tlsv1.3', 'tlsv1.2']} || not proplists:is_defined(versions, Client)],
    {ok, {Family, {tls, Versions ++ Client}}};
tls(_, File, {error, Why}) ->
    {error, {bad_optfile, File, Why}}.

%% The runtime evaluates the file of a node. Here it may belong to a user who must not choose what
%% the caller evaluates, so it is only read.
terms(Content) ->
    case erl_scan:string(characters(unicode:characters_to_list(Content), Content)) of
        {ok, [], _} -> {error, empty};
        {ok, Tokens, _} -> parsed(erl_parse:parse_term(Tokens), Tokens);
        {error, {Line, _, _}, _} -> {error, {syntax, Line}}
    end.

characters(Text, _) when is_list(Text) -> Text;
characters(_, Content) -> binary_to_list(Content).

parsed({ok, Options}, _) ->
    case is_list(Options) andalso lists:all(fun is_tuple/1, Options) of
        true -> {ok, Options};
        false -> {error, no_options}
    end;
parsed({error, {Line, _, _}}, Tokens) ->
    case erl_parse:parse_exprs(Tokens) of
        {ok, _} -> {error, no_terms};
        {error, _} -> {error, {syntax, Line}}
    end.
