%% SPDX-License-Identifier: Apache-2.0
%%
%% The clerks open a new TLS connection for each deed, and close it after. Almost all processor time goes into the
%% handshakes with an RSA key of 4096 bits.
-module(problem_notary_desk_hot_after_reconnects).

-export([about/0, start/0, desk/1, clerk/2]).

about() ->
    #{
        title => "Ten deeds per second keep a processor of the notary busy, though each has 12 bytes",
        source =>
            "RabbitMQ, Connections, high connection churn (https://rabbitmq.com/connections.html); TLS handshakes "
            "consume the processor time (https://github.com/openziti/ziti/issues/1904)",
        flags => ["+S", "2:2"],
        truth =>
            "2 clerks make a full TLS handshake for each deed; the private key operation with 4096 bits "
            "(public_key:sign, crypto) in the server's tls_connection takes most of the processor time",
        who => [
            "tls_\\S+", "ssl(_\\S+|:\\S+)", "public_key(:\\S+)?", "crypto:\\S+", "pkey_sign\\S*",
            "problem_notary_desk_hot_after_reconnects:(clerk/2|desk/1)"
        ],
        what => [
            "hand.?shake", "\\btls\\b", "\\bssl\\b(?!:)", "\\brsa\\b", "sign(s|ing|ature)?\\b", "private key", "public.?key", "crypt", "certificate", "key exchange",
            "(new|short.?lived|many|repeated) connections?", "connection churn", "reconnect", "\\bconnect(s|ing)?\\b"
        ]
    }.

start() ->
    {ok, _} = application:ensure_all_started(ssl),
    Key = [{key, {rsa, 4096, 65537}}, {digest, sha256}],
    #{server_config := Server} = public_key:pkix_test_data(#{
        server_chain => #{root => [{key, {rsa, 2048, 65537}}], intermediates => [], peer => Key},
        client_chain => #{root => [{key, {rsa, 2048, 65537}}], intermediates => [], peer => [{key, {rsa, 2048, 65537}}]}
    }),
    Options = [binary, {active, false}, {reuseaddr, true}, {ip, {127, 0, 0, 1}}, {versions, ['tlsv1.2']}],
    Self = self(),
    Desk = spawn(fun() ->
        {ok, L} = ssl:listen(0, Options ++ [{reuse_sessions, false} | Server]),
        {ok, {_, Port}} = ssl:sockname(L),
        Self ! {self(), Port},
        desk(L)
    end),
    Port = receive {Desk, P} -> P end,
    lists:foreach(fun(N) -> spawn(?MODULE, clerk, [N, Port]) end, lists:seq(1, 2)).

desk(L) ->
    {ok, T} = ssl:transport_accept(L),
    case ssl:handshake(T, 30000) of
        {ok, S} ->
            _ = ssl:recv(S, 12, 30000),
            _ = ssl:send(S, "sealed"),
            ssl:close(S);
        {error, _} ->
            ok
    end,
    desk(L).

clerk(N, Port) ->
    Options = [binary, {active, false}, {verify, verify_none}, {reuse_sessions, false}, {versions, ['tlsv1.2']}],
    {ok, S} = ssl:connect({127, 0, 0, 1}, Port, Options, 30000),
    ok = ssl:send(S, <<"deed of sale">>),
    {ok, _} = ssl:recv(S, 6, 30000),
    ok = ssl:close(S),
    clerk(N + 1, Port).
