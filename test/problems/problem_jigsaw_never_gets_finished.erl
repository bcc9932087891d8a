%% SPDX-License-Identifier: Apache-2.0
%%
%% A worker that sorts jigsaw pieces has a max_heap_size, which a large puzzle exceeds. It is
%% killed halfway, and its owner starts it anew with the same puzzle, for ever.
-module(problem_jigsaw_never_gets_finished).

-export([about/0, start/0, table/0, sorter/1]).

about() ->
    #{
        title => "A jigsaw of a million pieces is always almost finished",
        source =>
            "https://github.com/erlang/otp/pull/1032 (max_heap_size), https://github.com/emqx/emqx/issues/2731 "
            "(maximum heap size reached)",
        flags => ["+S", "2:2"],
        truth =>
            "The process sorter/1 is killed at its max_heap_size of 4 million words in pile/2 after a fraction of "
            "a second, and jigsaw_table starts it anew again and again",
        who => [
            "problem_jigsaw_never_gets_finished:(sorter/1|pile/2|table/0)",
            "jigsaw_table"
        ],
        what => [
            "max.?heap",
            "maximum heap",
            "heap.?(limit|size)",
            "\\bkill",
            "memory limit",
            "(exit|dies|died|die|crash|terminat)[a-z]*.{0,40}(again|repeat|restart|each|loop|anew)",
            "restart|respawn",
            "garbage.?collect",
            "collect[a-z]* garbage",
            "\\bgcs?\\b"
        ]
    }.

start() ->
    ok = logger:set_primary_config(level, none),
    true = register(jigsaw_table, spawn(?MODULE, table, [])),
    ok.

%% Starts the next sorter when the last one is gone.
table() ->
    Opts = [monitor, {max_heap_size, #{size => 4000000, kill => true, error_logger => false}}],
    {Pid, Ref} = spawn_opt(?MODULE, sorter, [3000000], Opts),
    receive
        {'DOWN', Ref, process, Pid, killed} -> ok;
        {'DOWN', Ref, process, Pid, finished} -> exit(finished)
    end,
    timer:sleep(50),
    table().

sorter(Pieces) ->
    Pile = pile(Pieces, []),
    exit({finished, length(Pile)}).

pile(0, Pile) -> Pile;
pile(N, Pile) -> pile(N - 1, [{piece, N, N * 7 rem 360, [sky]} | Pile]).
