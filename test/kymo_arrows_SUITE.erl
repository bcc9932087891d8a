%% SPDX-License-Identifier: Apache-2.0
%%
%% No arrow connects two different messages, however many events are lost. Each message carries its
%% sender and its number. They are in the recorded contents, but kymo cannot use them to match: all
%% messages look like replies with the same reference, and have the same size.
%%
%% Processes pass messages on. Each message also names the one that its sender has taken directly before,
%% so that for an arrow to `taken', which has no contents, the message is known as well. The receiver
%% sometimes takes a message that is not the first in its mailbox. A program without kymo's code compares
%% the ends of all arrows of the Perfetto export, and SQL those of the table `messages'.
%%
%% There are three rounds, in which events are lost because the memory is full, are overwritten, and are
%% left out at random. KYMO_STRESS_MESSAGES sets how many messages are sent, in as many rounds as it takes.
-module(kymo_arrows_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-compile(export_all).
-compile(nowarn_export_all).

-define(PROCESSES, 8).
%% Messages that each process holds at first. With as many as there are processes, none ever starves.
-define(HELD, 64).
%% So that the files of a round stay below 200 MB.
-define(ROUND, 500000).

all() -> [no_wrong_arrow].

suite() -> [{timetrap, {hours, 24}}].

init_per_testcase(Case, Config) ->
    Dir = filename:join(?config(priv_dir, Config), Case),
    ok = filelib:ensure_dir(filename:join(Dir, "x")),
    kymo_peer:start([{dir, Dir} | Config]).

end_per_testcase(_, Config) -> kymo_peer:stop(Config).

no_wrong_arrow(Config) ->
    Messages = list_to_integer(os:getenv("KYMO_STRESS_MESSAGES", "300000")),
    Size = min(?ROUND, Messages div 3),
    Checker = checker(Config),
    %% SQL needs much longer, so it has one small round of each kind.
    case [messages_table(Config, Kind) || Kind <- kinds()] of
        [exact, exact, exact] ->
            Seconds = list_to_integer(os:getenv("KYMO_STRESS_SECONDS", "100000000")),
            Until = erlang:monotonic_time(second) + Seconds,
            rounds(Config, Checker, Size, Until, Messages, 1, #{});
        _ ->
            {skip, "this runtime does not number messages"}
    end.

kinds() -> [full, overwritten, sampled].

%% Ends after the messages or the time, but not before there was a round of each kind.
rounds(Config, Checker, Size, Until, Left, Round, Sums) ->
    case Round > 3 andalso (Left =< 0 orelse erlang:monotonic_time(second) >= Until) of
        true -> finish(Round, Sums);
        false -> round(Config, Checker, Size, Until, Left, Round, Sums)
    end.

finish(Round, Sums) ->
    ct:log("~b rounds: ~p", [Round - 1, Sums]),
    [?assert(maps:get({Kind, lost}, Sums) > 0) || Kind <- kinds()],
    [?assert(maps:get(What, Sums) > 0) || What <- [arrows, takes]],
    {comment, io_lib:format("~b messages, ~b arrows, ~b to `taken'",
                            [maps:get(messages, Sums), maps:get(arrows, Sums), maps:get(takes, Sums)])}.

round(Config, Checker, Size, Until, Left, Round, Sums) ->
    Kind = lists:nth(1 + Round rem 3, kinds()),
    {Dir, Sent, Lost} = record(Config, Kind, Size),
    Counts = arrows(Checker, Dir),
    ok = file:del_dir_r(Dir),
    ct:log("round ~b, ~p: ~b messages, ~b events lost, ~p", [Round, Kind, Sent, Lost, Counts]),
    ?assertMatch(#{wrong := 0, wrong_takes := 0, missing := 0}, Counts),
    Add = maps:merge(Counts, #{messages => Sent, {Kind, lost} => Lost}),
    rounds(Config, Checker, Size, Until, Left - Sent, Round + 1,
           maps:fold(fun(K, N, Acc) -> Acc#{K => N + maps:get(K, Acc, 0)} end, Sums, Add)).

%% ---- checks ----

checker(Config) ->
    Program = filename:join(?config(priv_dir, Config), "arrows"),
    Source = filename:join(?config(data_dir, Config), "arrows.c"),
    ?assertEqual("", os:cmd("${CC:-cc} -O2 -std=gnu11 -Wall -o '" ++ Program ++ "' '" ++ Source ++ "' 2>&1")),
    Program.

arrows(Checker, Dir) ->
    Pipe = "set -o pipefail; \"$0\" export perfetto -q -o - \"$1\" | \"$2\"",
    {0, Text} = kymo_cli:command("/bin/bash", ["-c", Pipe, kymo:cli_path(), Dir, Checker], 1800000),
    {ok, Tokens, _} = erl_scan:string(binary_to_list(Text)),
    {ok, Counts} = erl_parse:parse_term(Tokens),
    Counts.

%% Several events of one process may have the same time, so one of them must be the right one.
messages_table(Config, Kind) ->
    {Dir, _, _} = record(Config, Kind, 2000),
    {0, Info} = kymo_cli:run(["info", "--json", "-q", Dir]),
    Answer =
        case kymo_cli:json(binary_to_list(Info)) of
            #{<<"exact">> := #{<<"messages">> := true}} -> check_messages_table(Dir, Kind), exact;
            #{} -> inexact
        end,
    ok = file:del_dir_r(Dir),
    Answer.

check_messages_table(Dir, Kind) ->
    {0, Text} = kymo_cli:run(["sql", "--json", "-q", Dir,
        "with s as materialized (select time_ns, pid, content from events where event = 'send'), "
        "r as materialized (select time_ns, pid, content from events where event = 'receive'), "
        "m as materialized (select * from messages where exact) "
        "select count(*) as n, sum(ok) as right, count(taken_ns) as taken from ("
        "select m.id, m.taken_ns, max(s.content = r.content) as ok from m "
        "join s on s.time_ns = m.sent_ns and s.pid = m.sender_pid "
        "join r on r.time_ns = m.fetched_ns and r.pid = m.receiver_pid group by m.id)"]),
    #{<<"n">> := N, <<"right">> := Right, <<"taken">> := Taken} = kymo_cli:json(binary_to_list(Text)),
    ct:log("~p: ~b messages with both times, ~b taken", [Kind, N, Taken]),
    ?assert(N > 0),
    ?assert(Taken > 0),
    ?assertEqual(N, Right).

%% ---- recordings ----

%% Returns the folder, how many messages were sent, and how many events were lost.
record(Config, Kind, Messages) ->
    Dir = filename:join(?config(dir, Config), Kind),
    Each = max(1, Messages div ?PROCESSES div (?PROCESSES - 1)) * (?PROCESSES - 1),
    Lost = peer:call(?config(peer, Config), ?MODULE, run, [Dir, options(Kind, Messages), Each], infinity),
    {Dir, Each * ?PROCESSES, Lost}.

options(full, _) -> #{policy => discard, memory => 512 bsl 10, dict_size => 65536, segment_size => 4096};
%% About half of the events fit.
options(overwritten, Messages) -> #{policy => overwrite, memory => (1 bsl 20) + 120 * Messages};
options(sampled, _) -> #{policy => discard, memory => 64 bsl 20, sample => 3}.

%% In the node.
run(Dir, Options, Each) ->
    {ok, R} = kymo:start(Options#{dir => Dir, owner => none, messages => contents}),
    Self = self(),
    Ref = make_ref(),
    Processes = [spawn_link(fun() -> passer(Self, Ref, I, Each) end) || I <- lists:seq(1, ?PROCESSES)],
    {ok, _} = kymo:trace(R, #{processes => Processes, events => [messages]}),
    [P ! {all, list_to_tuple(Processes)} || P <- Processes],
    [P ! {Ref, {0, N, 0, 0}} || N <- lists:seq(1, ?HELD), P <- Processes],
    [receive {done, P} -> ok end || P <- Processes],
    {ok, #{lost := Lost, sampled_out := SampledOut, overwritten := Overwritten}} = kymo:stop(R),
    [unlink(P) || P <- Processes],
    [exit(P, kill) || P <- Processes],
    lists:sum(maps:values(Lost)) + SampledOut + Overwritten.

passer(Parent, Ref, Me, Each) ->
    receive {all, All} -> ok end,
    pass(Ref, Me, All, Each, 1),
    [take(1) || _ <- lists:seq(1, ?HELD)],
    Parent ! {done, self()},
    receive never -> ok end.

%% Sends as many messages to each of the others, in turns.
pass(_, _, _, Each, N) when N > Each ->
    ok;
pass(Ref, Me, All, Each, N) ->
    {Sender, Number} = take(N),
    To = 1 + (Me + N rem (?PROCESSES - 1)) rem ?PROCESSES,
    element(To, All) ! {Ref, {Me, N, Sender, Number}},
    pass(Ref, Me, All, Each, N + 1).

take(N) when N rem 8 =:= 0 ->
    receive
        {_, {Sender, Number, _, _}} when Number rem 2 =:= 1 -> {Sender, Number}
    after 0 -> take(1)
    end;
take(_) ->
    receive {_, {Sender, Number, _, _}} -> {Sender, Number} end.
