%% SPDX-License-Identifier: Apache-2.0
%%
%% The lamp has to beat each 10 ms. The same node signs its log in native code that does not give the scheduler back
%% before it has done.
-module(problem_lighthouse_beats_drop_out).
-behaviour(gen_server).

-export([about/0, start/0, lamp/1, log_book/1]).
-export([init/1, handle_call/3, handle_cast/2]).

about() ->
    #{
        title => "The lamp misses beats for hundreds of milliseconds, though the node is not fully loaded",
        source =>
            "Riak, Add Erlang VM reduction count 'bumps' to all NIF calls: the \"stuck schedulers\" problem "
            "(https://github.com/basho/eleveldb/pull/42); LeoFS, threads of the runtime are blocked in eleveldb "
            "(https://github.com/leo-project/leofs/issues/668)",
        flags => ["+S", "1:1"],
        truth =>
            "brine_vault calls crypto:mod_pow/3 with 8192-bit numbers, a native function that occupies the only normal "
            "scheduler for some 100 ms without a yield; all other processes wait in the run queue meanwhile",
        who => [
            "brine_vault", "crypto:mod_(pow|exp)\\S*", "mod_exp_nif",
            "problem_lighthouse_beats_drop_out:(seal/1|handle_call/3)"
        ],
        what => [
            "\\bNIFs?\\b", "native", "long.?schedule", "(does not|doesn't|without|no|never) (a )?yield", "(blocks?|occup\\S+|holds?|hogs?|keeps?|monopoli\\S+) (\\S+ )?(the |a |its )?(only |normal |whole )?scheduler",
            "scheduler (is )?(blocked|occupied|stuck|held)", "run.?queue", "uninterrupt", "preempt", "not (be )?(pre-?empted|interrupted|scheduled out)",
            "crypto", "mod_(pow|exp)", "modular", "cpu", "processor time", "computes?"
        ]
    }.

start() ->
    {ok, _} = gen_server:start({local, brine_vault}, ?MODULE, [], []),
    _ = spawn(?MODULE, log_book, [1]),
    lists:foreach(fun(N) -> spawn(?MODULE, lamp, [N]) end, lists:seq(1, 4)).

lamp(Beat) ->
    timer:sleep(10),
    lamp(Beat + 1).

log_book(Page) ->
    _ = gen_server:call(brine_vault, {seal, Page}, infinity),
    timer:sleep(100),
    log_book(Page + 1).

%% An odd modulus and an exponent of 8192 bits.
init([]) -> {ok, {rand_bits(8192) bor 1, rand_bits(8192)}}.

handle_call({seal, Page}, _, {M, E}) -> {reply, byte_size(seal({Page + 3, E, M})), {M, E}}.

handle_cast(_, S) -> {noreply, S}.

seal({Base, E, M}) -> crypto:mod_pow(Base, E, M).

rand_bits(N) ->
    Bytes = crypto:strong_rand_bytes(N div 8),
    binary:decode_unsigned(Bytes) bor (1 bsl (N - 1)).
