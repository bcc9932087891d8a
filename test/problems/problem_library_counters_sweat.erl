%% SPDX-License-Identifier: Apache-2.0
%%
%% A whole catalogue is one object of an ETS table. Each question about one book
%% copies all of it to the heap of the process that asks.
-module(problem_library_counters_sweat).

-export([about/0, start/0, counter/1]).

about() ->
    #{
        title => "A look at one book takes milliseconds, with much garbage collection",
        source =>
            "Erlang/OTP Efficiency Guide, Tables and Databases, and Processes: an ETS lookup copies "
            "the object (erlang.org/doc/efficiency_guide/tablesdatabases); "
            "Fred Hebert, Erlang in Anger, chapter 7",
        flags => ["+S", "2:2"],
        truth =>
            "Each call of book/1 does ets:lookup/2 of the table library_shelf, whose only object is "
            "a list of 60000 books, and so copies about 5 MB to use one of them",
        who => [
            "library_shelf",
            "problem_library_counters_sweat:(book|counter)/1",
            "ets:lookup"
        ],
        what => [
            "\\bcop(y|ies|ied|ying)\\b",
            "(large|big|huge) (term|object|value|row|tuple|list|record)",
            "ets:lookup",
            "ets lookup",
            "lookups? (of|in) .*(ets|table)",
            "reads? .*(ets|table)"
        ]
    }.

start() ->
    Owner = self(),
    Keeper = spawn(fun() ->
        _ = ets:new(library_shelf, [named_table, public, set, {read_concurrency, true}]),
        Books = [{N, N rem 77, [N, N + 1]} || N <- lists:seq(1, 60000)],
        true = ets:insert(library_shelf, {all_books, Books}),
        Owner ! {self(), filled},
        receive
            close -> ok
        end
    end),
    receive
        {Keeper, filled} -> ok
    end,
    _ = [spawn(?MODULE, counter, [N * 100]) || N <- lists:seq(1, 4)],
    ok.

%% Readers ask at the counter for the place of a book.
counter(N) ->
    {N, _, _} = book(N),
    timer:sleep(5),
    counter(N rem 500 + 1).

book(N) ->
    [{all_books, Books}] = ets:lookup(library_shelf, all_books),
    {_, _, _} = lists:keyfind(N, 1, Books).
