%% SPDX-License-Identifier: Apache-2.0
%%
%% Functions that suites trace.
-module(kymo_workload).

-export([id/1, add/2, fail/2, outer/1, inner/1, tail/1, many/3, nothing/0, terms/0, loop/1]).

id(X) -> X.

add(A, B) -> A + B.

nothing() -> ok.

many(_, _, _) -> ok.

fail(Class, Reason) -> erlang:raise(Class, Reason, []).

outer(X) -> {outer, ?MODULE:inner(X)}.

inner(X) -> {inner, ?MODULE:tail(X)}.

tail(0) -> zero;
tail(N) -> ?MODULE:tail(N - 1).

loop(0) -> ok;
loop(N) ->
    id(N),
    loop(N - 1).

%% A term of each kind that a message can contain.
terms() ->
    Big = binary:copy(<<"0123456789">>, 100),
    [0, 1, -1, 255, 256, -256, 1 bsl 27, 1 bsl 31, -(1 bsl 31), 1 bsl 32, (1 bsl 59) - 1, 1 bsl 59, -(1 bsl 59),
     -(1 bsl 59) - 1, (1 bsl 63) - 1, 1 bsl 63, -(1 bsl 63), (1 bsl 64) - 1, 1 bsl 64, -(1 bsl 70), 1 bsl 2000,
     0.0, -0.0, 1.5, -1.0e300, 5.0e-324,
     atom, '', 'with space', 'åäö', 'λόγος', list_to_atom(lists:duplicate(255, $a)),
     list_to_atom(lists:duplicate(255, 955)),
     [], [a], [a | b], [1 | 2], "string", [255, 256], [0], lists:seq(0, 255), lists:duplicate(300, $x),
     [[1, 2, 3 | improper], []], lists:seq(1, 300, 3),
     {}, {a}, {a, {b, {c}}}, erlang:make_tuple(255, x), erlang:make_tuple(256, y), erlang:make_tuple(300, []),
     #{}, #{a => 1}, #{{b, c} => [d], "e" => <<"f">>, 1.5 => self()},
     maps:from_list([{N, {N}} || N <- lists:seq(1, 32)]), maps:from_list([{N, N} || N <- lists:seq(1, 33)]),
     maps:from_list([{[N], -N} || N <- lists:seq(1, 200)]),
     <<>>, <<1, 2, 3>>, Big, binary:part(Big, 3, 10), binary:part(Big, 1, 900), <<1:1>>, <<5:3, 1, 2, 3>>,
     <<Big/binary, 1:7>>,
     self(), hd(erlang:ports()), make_ref(), alias(),
     fun lists:map/2, fun ?MODULE:id/1,
     kymo_conform:remote(pid), kymo_conform:remote(port), kymo_conform:remote(reference),
     {<<"deep">>, lists:foldl(fun(N, T) -> [N, {T}] end, end_of_it, lists:seq(1, 20))}].
