%% SPDX-License-Identifier: Apache-2.0
%%
%% A programme of 150 concerts asks the archive for one artist at a time, over a socket. Each answer takes the archive
%% 2 ms, the programme takes all of them in a row.
-module(problem_festival_programme_slow_to_print).

-export([about/0, start/0, archive/1, printer/1]).

about() ->
    #{
        title => "Printing the festival programme takes most of a second, the archive answers in 2 ms",
        source =>
            "Ecto, the N+1 query antipattern "
            "(https://hexdocs.pm/oeditus_credo/OeditusCredo.Check.Warning.NPlusOneQuery.html, "
            "https://hex.pm/packages/one_plus_n_detector)",
        flags => ["+S", "2:2"],
        truth =>
            "The process registered as programme_printer waits in gen_tcp:recv/2 of artist/2 for the archive: 150 "
            "questions for one programme, one after the other, about 3 ms each",
        who => [
            "programme_printer",
            "problem_festival_programme_slow_to_print:(artist/2|programme/1|printer/1|'?-programme)"
        ],
        what => [
            "N ?\\+ ?1", "round.?trips?", "one (query|request|question|call|row) (per|for each|at a time|after)",
            "(many|repeated|sequential|serial|small|chatty) (\\S+ )?(queries|requests|questions|calls|reads|exchanges)",
            "gen_tcp:recv", "prim_inet:recv", "recv", "socket", "tcp", "network", "(remote )?peer", "remote (end|side|system)",
            "port [0-9#<]"
        ]
    }.

start() ->
    {ok, L} = gen_tcp:listen(0, [binary, {packet, 2}, {active, false}, {ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(L),
    Archive = spawn(?MODULE, archive, [L]),
    ok = gen_tcp:controlling_process(L, Archive),
    Self = self(),
    Pid = spawn(?MODULE, printer, [{Port, Self}]),
    register(programme_printer, Pid),
    receive
        {Pid, connected} -> ok
    end.

%% The archive stands for a database on another machine.
archive(L) ->
    {ok, S} = gen_tcp:accept(L),
    answer(S).

answer(S) ->
    {ok, <<"artist ", N/binary>>} = gen_tcp:recv(S, 0),
    timer:sleep(2),
    ok = gen_tcp:send(S, ["name of ", N]),
    answer(S).

printer({Port, Parent}) ->
    {ok, S} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {packet, 2}, {active, false}, {nodelay, true}]),
    Parent ! {self(), connected},
    printer(S);
printer(S) ->
    programme(S),
    printer(S).

programme(S) ->
    Rows = [{N, artist(S, N)} || N <- lists:seq(1, 150)],
    erlang:phash2(Rows).

artist(S, N) ->
    ok = gen_tcp:send(S, ["artist ", integer_to_binary(N)]),
    {ok, Name} = gen_tcp:recv(S, 0),
    Name.
