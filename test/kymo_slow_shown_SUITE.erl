%% SPDX-License-Identifier: Apache-2.0
%%
%% What the commands show of slow calls, on all runtimes: the tracer is called as a runtime that
%% reports slow calls would call it, with durations that are known.
-module(kymo_slow_shown_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-export([all/0, tree/1, tree_of_both/1, top/1, otlp/1, report/1, report_of_many/1, report_of_none/1]).

all() -> [tree, tree_of_both, top, otlp, report, report_of_many, report_of_none].

%% Each slow call is a line of the tree, if it took long enough.
tree(Config) ->
    Dir = recorded(Config, [{slow, {lists, sort, 1}, 12000000}, {slow, {gen_server, call, 2}, 7000000}]),
    {0, Text} = kymo_cli:run(["print", "--tree", Dir]),
    ?assertMatch({match, [_, _]}, re:run(Text, "^-?[0-9.]+ s[0-9]+ <[0-9.]+> +(12.0 ms lists:sort/1|7.00 ms gen_server:call/2)  \\(slow\\)$",
                                         [multiline, global])),
    [Sort, Call] = json_lines(["print", "--tree", "--json", "-q", Dir]),
    ?assertMatch(#{<<"function">> := <<"lists:sort/1">>, <<"total_ns">> := 12000000, <<"ended">> := <<"slow">>}, Sort),
    ?assertMatch(#{<<"function">> := <<"gen_server:call/2">>, <<"total_ns">> := 7000000}, Call),
    %% The start is the time of the event minus the duration.
    [#{<<"ns">> := At} | _] = json_lines(["print", "--json", "-q", "--events", "slow", Dir]),
    ?assertEqual(At - 12000000, maps:get(<<"start_ns">>, Sort)),
    ?assertEqual([Sort], json_lines(["print", "--tree", "--json", "-q", "--slower", "12ms", Dir])),
    ?assertEqual([], json_lines(["print", "--tree", "--json", "-q", "--slower", "13ms", Dir])),
    ?assertEqual([Call], json_lines(["print", "--tree", "--json", "-q", "--function", "gen_server:call/2", Dir])),
    ?assertEqual([Sort], json_lines(["print", "--tree", "--json", "-q", "--limit", "1", Dir])).

%% A call that is recorded itself is shown once.
tree_of_both(Config) ->
    Dir = recorded(Config, [{call, {lists, sort, 1}}, {slow, {lists, sort, 1}, 1}, {return_from, {lists, sort, 1}},
                            {slow, {gen_server, call, 2}, 7000000}]),
    ?assertEqual([{<<"gen_server:call/2">>, <<"slow">>}, {<<"lists:sort/1">>, <<"return">>}],
                 lists:sort([{F, E} || #{<<"function">> := F, <<"ended">> := E} <- json_lines(["print", "--tree", "--json", "-q", Dir])])).

%% A slow call counts as a call of its function, and one that is recorded itself counts once.
top(Config) ->
    Dir = recorded(Config, [{slow, {gen_server, call, 2}, 7000000}, {slow, {gen_server, call, 2}, 9000000},
                            {call, {lists, sort, 1}}, {slow, {lists, sort, 1}, 1000000}, {return_from, {lists, sort, 1}}]),
    [#{<<"functions">> := Functions}] = json_lines(["top", "--once", "--json", "--delay", "1h", "-q", Dir]),
    ?assertEqual([{<<"gen_server:call/2">>, 2, 2}, {<<"lists:sort/1">>, 1, 1}],
                 lists:sort([{F, N, E} || #{<<"function">> := F, <<"calls">> := N, <<"ended">> := E} <- Functions])),
    [Max] = [M || #{<<"function">> := <<"gen_server:call/2">>, <<"max_ns">> := M} <- Functions],
    ?assertEqual(9000000, Max).

%% A slow call becomes a span of its duration; one that is recorded itself does not.
otlp(Config) ->
    Dir = recorded(Config, [{slow, {gen_server, call, 2}, 7000000}, {slow, {gen_server, call, 2}, 9000000},
                            {call, {lists, sort, 1}}, {slow, {lists, sort, 1}, 1000000}, {return_from, {lists, sort, 1}}]),
    {0, _} = kymo_cli:run(["export", "otlp", "-q", "-o", Dir ++ ".otlp", Dir]),
    {ok, Text} = file:read_file(Dir ++ ".otlp"),
    Lines = [kymo_cli:json(binary_to_list(Line) ++ "\n") || Line <- string:split(Text, "\n", all), Line =/= <<>>],
    Spans = [Span || #{<<"resourceSpans">> := Rs} <- Lines, #{<<"scopeSpans">> := Ss} <- Rs, #{<<"spans">> := Sp} <- Ss, Span <- Sp],
    ?assertEqual([{<<"gen_server:call/2">>, 7000000}, {<<"gen_server:call/2">>, 9000000}],
                 lists:sort([{N, binary_to_integer(E) - binary_to_integer(S)}
                             || #{<<"name">> := N, <<"startTimeUnixNano">> := S, <<"endTimeUnixNano">> := E} <- Spans])),
    ?assertEqual(2, length(lists:usort([{T, I} || #{<<"traceId">> := T, <<"spanId">> := I} <- Spans]))).

%% The slowest are first; calls that are recorded themselves are among them. The page shows them in a
%% section of its own.
report(Config) ->
    Dir = recorded(Config, [{slow, {gen_server, call, 2}, 7000000}, {slow, {gen_server, call, 2}, 9000000},
                            {call, {lists, sort, 1}}, {slow, {lists, sort, 1}, 12000000}, {return_from, {lists, sort, 1}}]),
    #{<<"slow_calls">> := #{<<"rows">> := Rows, <<"rows_in_all">> := 3}} = page_data(Dir),
    ?assertEqual([{<<"lists:sort/1">>, 12000000}, {<<"gen_server:call/2">>, 9000000}, {<<"gen_server:call/2">>, 7000000}],
                 [{F, Ns} || #{<<"function">> := F, <<"total_ns">> := Ns} <- Rows]),
    Pid = list_to_binary(pid_to_list(self())),
    ?assertEqual([Pid], lists:usort([P || #{<<"process_pid">> := P} <- Rows])),
    %% Each starts its duration before its event.
    Ends = [At || #{<<"ns">> := At} <- json_lines(["print", "--json", "-q", "--events", "slow", Dir])],
    ?assertEqual(Ends, lists:sort([S + Ns || #{<<"start_ns">> := S, <<"total_ns">> := Ns} <- Rows])),
    in_browser(Dir, fun(B) ->
        Row = kymo_browser:ask(B, "document.querySelector('#slow tbody tr').textContent"),
        ?assertMatch({match, _}, re:run(Row, "12.0.ms.*lists:sort/1$", [unicode])),
        ?assertEqual(3, kymo_browser:ask(B, "document.querySelectorAll('#slow tbody tr').length"))
    end).

%% Opens the report, which must not produce errors.
in_browser(Dir, Fun) ->
    case kymo_browser:find() of
        false -> {comment, "Chromium is absent, so nothing has shown the page"};
        Program ->
            B = kymo_browser:open(Program, Dir ++ ".profile"),
            try
                ok = kymo_browser:load(B, Dir ++ ".html"),
                ?assertEqual([], kymo_browser:trouble(B)),
                Fun(B)
            after
                kymo_browser:close(B)
            end
    end.

%% The report has the slowest of them, and their number. The answers, which are about other calls,
%% refer to them.
report_of_many(Config) ->
    Dir = recorded(Config, [{slow, {lists, sort, 1}, N * 1000} || N <- lists:seq(1, 600)]),
    #{<<"slow_calls">> := #{<<"rows">> := Rows, <<"rows_in_all">> := 600}} = page_data(Dir),
    ?assertEqual([N * 1000 || N <- lists:seq(600, 101, -1)], [Ns || #{<<"total_ns">> := Ns} <- Rows]),
    in_browser(Dir, fun(B) ->
        ?assertEqual(<<"#slow">>, kymo_browser:ask(B, "document.querySelector('#answers .empty a').getAttribute('href')")),
        ?assertMatch({_, _}, binary:match(kymo_browser:ask(B, "document.querySelector('.lacks').textContent"), <<"calls other than slow ones">>)),
        ?assertMatch({_, _}, binary:match(kymo_browser:ask(B, "document.querySelector('#slow .more').textContent"), <<"500 of 600 rows">>))
    end).

%% Without slow calls there is no section.
report_of_none(Config) ->
    Dir = recorded(Config, [{call, {lists, sort, 1}}, {return_from, {lists, sort, 1}}]),
    ?assertNot(maps:is_key(<<"slow_calls">>, page_data(Dir))),
    in_browser(Dir, fun(B) ->
        ?assertEqual(false, kymo_browser:ask(B, "document.getElementById('slow') !== null")),
        ?assertEqual(0, kymo_browser:ask(B, "document.querySelectorAll('a[href=\"#slow\"]').length"))
    end).

page_data(Dir) ->
    {0, <<>>} = kymo_cli:run(["report", "-q", "-o", Dir ++ ".html", Dir]),
    {ok, Html} = file:read_file(Dir ++ ".html"),
    [_, After] = binary:split(Html, <<"<script type=\"application/json\" id=\"data\">\n">>),
    [Json, _] = binary:split(After, <<"</script>">>),
    kymo_cli:json(unicode:characters_to_list(Json)).

recorded(Config, Events) ->
    Dir = filename:join(?config(priv_dir, Config), "rec" ++ integer_to_list(erlang:unique_integer([positive]))),
    {ok, State} = kymo_tracer:open(#{dir => Dir, policy => discard, memory => 16 bsl 20, owner => self()}),
    [ok = event(State, Event) || Event <- Events],
    ok = kymo_tracer:stop(State),
    Dir.

event(State, {slow, MFA, Ns}) -> kymo_tracer:trace(slow, State, self(), MFA, #{extra => {0, Ns}});
event(State, {return_from, MFA}) -> kymo_tracer:trace(return_from, State, self(), MFA, #{extra => ok});
event(State, {call, MFA}) -> kymo_tracer:trace(call, State, self(), MFA, #{}).

json_lines(Args) ->
    {0, Out} = kymo_cli:run(Args),
    [kymo_cli:json(binary_to_list(Line) ++ "\n") || Line <- string:split(Out, "\n", all), Line =/= <<>>].
