%% SPDX-License-Identifier: Apache-2.0
%%
%% Started by live_run: the cost of a call of a traced process, watched and not watched.
%% Measures processor time, because other programs on the machine affect elapsed time.
-module(live_bench).

-export([main/0, work/1]).

main() ->
    [[Out], [Rounds], [Seconds]] = [hd(element(2, init:get_argument(A))) || A <- [out, rounds, seconds]],
    io:format("OTP ~s, ~s rounds of ~s s~n", [erlang:system_info(otp_release), Rounds, Seconds]),
    [rows(Out, list_to_integer(Rounds), list_to_integer(Seconds), Load) || Load <- [paced, full]],
    halt().

rows(Out, Rounds, Seconds, Load) ->
    Dir = filename:join(Out, atom_to_list(Load)),
    {ok, R} = kymo:start(#{dir => Dir, owner => none}),
    Worker = spawn_link(fun() -> worker(Load) end),
    {ok, _} = kymo:trace(R, #{processes => [Worker], functions => "live_bench:work/1", events => [running, return_to]}),
    Modes = [alone, top, live],
    _ = round_of(Dir, 1, Worker, alone),
    Results = [[{Mode, round_of(Dir, Seconds, Worker, Mode)} || Mode <- rotated(N, Modes)] || N <- lists:seq(1, Rounds)],
    {ok, _} = kymo:stop(R),
    Of = fun(Mode) -> [proplists:get_value(Mode, Result) || Result <- Results] end,
    io:format("~n~p: ~.1f ns of the node's processor time for each call, alone~n  beside   ns   ratio   quartiles of the ratios~n", [Load, median(Of(alone))]),
    [begin
         Ratios = lists:sort([B / A || {A, B} <- lists:zip(Of(alone), Of(Mode))]),
         io:format("  ~-5s ~5.1f   ~.3f   ~.3f to ~.3f~n", [Mode, median(Of(Mode)), median(Ratios), at(Ratios, 0.25), at(Ratios, 0.75)])
     end || Mode <- [top, live]].

rotated(N, List) ->
    {A, B} = lists:split(N rem length(List), List),
    B ++ A.

%% The node's processor time per call in ns.
round_of(Dir, Seconds, Worker, Mode) ->
    Watcher = watch(Mode, Dir),
    Worker ! {run, self(), Seconds},
    Cost = receive {calls, N, Ns} -> Ns / N end,
    Watcher =:= none orelse stop(Watcher),
    Cost.

stop(Watcher) ->
    {os_pid, Pid} = erlang:port_info(Watcher, os_pid),
    _ = os:cmd("kill -TERM -" ++ integer_to_list(Pid)),
    ended(Watcher).

ended(Port) -> receive {Port, {exit_status, _}} -> ok; {Port, _} -> ended(Port) end.

%% Each child of the runtime has a process group of its own; the command is at work when this
%% returns.
watch(alone, _) -> none;
watch(top, Dir) -> shell("exec '" ++ kymo:cli_path() ++ "' top --json '" ++ Dir ++ "'");
watch(live, Dir) ->
    shell("'" ++ kymo:cli_path() ++ "' live '" ++ Dir ++ "' | { read -r url; n=0; "
          "while size=$(curl -sf -o /dev/null -w '%{size_download}' \"${url}data?$n\"); do n=$((n + 1)); echo \"$size\"; done; }").

shell(Command) ->
    Port = open_port({spawn_executable, "/bin/sh"}, [{args, ["-c", Command]}, exit_status, {line, 1 bsl 20}]),
    receive {Port, {data, _}} -> Port after 60000 -> error({silent, Command}) end.

worker(Load) ->
    receive {run, From, Seconds} ->
        Before = cpu(),
        N = run(Load, erlang:monotonic_time() + erlang:convert_time_unit(Seconds, second, native), 0),
        From ! {calls, N, cpu() - Before},
        worker(Load)
    end.

%% The processor time of all threads of the node in ns.
cpu() ->
    lists:sum([begin
                   {ok, Text} = file:read_file(File),
                   binary_to_integer(hd(binary:split(Text, <<" ">>)))
               end || File <- filelib:wildcard("/proc/self/task/*/schedstat")]).

run(Load, End, N) ->
    _ = [?MODULE:work(I) || I <- lists:seq(1, 1000)],
    Load =:= full orelse receive after 5 -> ok end,
    case erlang:monotonic_time() < End of
        true -> run(Load, End, N + 1000);
        false -> N + 1000
    end.

work(X) -> X.

at(Sorted, Part) -> lists:nth(1 + round(Part * (length(Sorted) - 1)), Sorted).

median(List) -> at(lists:sort(List), 0.5).
