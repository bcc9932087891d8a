%% SPDX-License-Identifier: Apache-2.0
%%
%% Four parrots protocol each word by io:format/3 to one file that was opened without raw. Its I/O
%% server formats and writes for all of them, one request at a time.
-module(problem_parrot_repeats_too_late).

-export([about/0, start/0, parrot/1]).

about() ->
    #{
        title => "Parrots repeat words ever later, the more so the more they are to protocol",
        source =>
            "https://github.com/ferd/batchio (io:format when the io server of a node becomes a bottleneck); "
            "file:open/2, option raw: https://www.erlang.org/doc/man/file.html#open-2",
        flags => ["+S", "2:2"],
        truth =>
            "Four parrots call io:format/3 without a pause (say/2) and wait for the one I/O server parrot_paper "
            "(file_io_server), which handles the requests one by one",
        who => [
            "parrot_paper",
            "problem_parrot_repeats_too_late:(parrot/1|say/2)",
            "file_io_server"
        ],
        what => [
            "io:(format|fwrite|request|put_chars)",
            "io.?(request|protocol|server|device)",
            "file_io_server",
            "print",
            "format",
            "(writes?|writing|write) ?(to|of|in)?.{0,12}(file|disk|log|device|output)",
            "file.{0,12}writ",
            "output",
            "logging"
        ]
    }.

start() ->
    Me = self(),
    _ = spawn(fun() -> birdhouse(Me) end),
    receive
        singing -> ok
    end.

%% The paper belongs to the birdhouse.
birdhouse(From) ->
    {ok, Paper} = file:open("/dev/null", [write, {encoding, utf8}]),
    true = register(parrot_paper, Paper),
    lists:foreach(fun(_) -> spawn_link(?MODULE, parrot, [0]) end, lists:seq(1, 4)),
    From ! singing,
    receive
        night -> ok
    end.

parrot(N) ->
    ok = say(N, lists:seq(1, 30)),
    parrot(N + 1).

say(N, Words) ->
    io:format(parrot_paper, "~tp ~10.3.0w: ~tp wants a biscuit, and says ~tp~n", [self(), N, "Pölly", Words]).
