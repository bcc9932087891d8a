%% SPDX-License-Identifier: Apache-2.0
%% @private One question from a shell: records into a folder of its own, lets the command
%% `kymo' print the answer to the caller's group leader, and leaves nothing behind.
-module(kymo_shell).

-export([calls/2, slow/3, why/1]).

-define(PART, 4096).

%% Prints calls while they happen, until there were enough or the time is over.
-spec calls(Patterns :: term(), kymo:asked()) -> kymo:answer().
calls(Functions, Options) ->
    asked(Options, #{time => 10000, count => 20}, fun(#{time := Time, count := Count} = Asked) ->
        Start = #{calls => arguments, returns => values},
        Spec = #{functions => Functions, returns => true},
        recorded(Asked, Start, Spec, fun(Recorder, Dir) ->
            stop_in(Time, Recorder),
            Tags = "call,return_from,exception_from",
            shown(["print", "--follow", "--quiet", "--tag", Tags, "--limit", integer_to_list(Count), Dir])
        end)
    end).

%% Prints those that took at least Ms milliseconds, with their callers, when the time is over.
-spec slow(Patterns :: term(), number(), kymo:asked()) -> kymo:answer().
slow(Functions, Ms, Options) ->
    asked(Options, #{time => 10000, count => 20}, fun(#{count := Count} = Asked) ->
        Spec = #{functions => Functions, returns => true, events => [running]},
        recorded(Asked, #{}, Spec, fun(Recorder, Dir) ->
            ok = ended(Recorder, Asked),
            Slower = lists:flatten(io_lib:format("~bus", [round(Ms * 1000)])),
            shown(["print", "--tree", "--quiet", "--slower", Slower, "--limit", integer_to_list(Count), Dir])
        end)
    end).

%% Prints what made the slowest requests slow.
-spec why(kymo:asked()) -> kymo:answer().
why(Options) ->
    asked(Options, #{time => 5000, count => 1, functions => []}, fun(#{count := Count, functions := Functions} = Asked) ->
        Spec = #{functions => Functions, events => [messages, running, procs, garbage_collection]},
        recorded(Asked, #{}, Spec, fun(Recorder, Dir) ->
            ok = ended(Recorder, Asked),
            shown(["why", "--quiet", "--top", integer_to_list(Count), Dir])
        end)
    end).

%% ---- options ------------------------------------------------------------------

asked(Options, Defaults, Fun) ->
    case maps:keys(maps:without(maps:keys(Defaults) ++ [processes], Options)) of
        [Unknown | _] -> {error, {unknown_option, Unknown}};
        [] -> checked(maps:to_list(maps:with([time, count], Options)), maps:merge(Defaults, Options), Fun)
    end.

checked([], Asked, Fun) ->
    Fun(Asked);
checked([{_, Value} | Rest], Asked, Fun) when is_integer(Value), Value > 0 ->
    checked(Rest, Asked, Fun);
checked([{Key, Value} | _], _, _) ->
    {error, {bad_option, Key, Value}}.

%% ---- a recording for one answer --------------------------------------------------

recorded(Asked, Start, Spec, Show) ->
    Dir = kymo_folder:unused(),
    case kymo:start(Start#{dir => Dir}) of
        {ok, Recorder} ->
            Remover = remove_after(self(), Recorder, Dir),
            try kymo:trace(Recorder, maps:merge(Spec, maps:with([processes], Asked))) of
                {ok, _} -> Show(Recorder, Dir);
                {error, _} = Error -> Error
            after
                _ = kymo:stop(Recorder),
                Remover ! done,
                Monitor = monitor(process, Remover),
                receive {'DOWN', Monitor, process, _, _} -> ok end
            end;
        {error, _} = Error ->
            Error
    end.

%% The recorder has the caller as its owner and ends with it; so does the folder, when a
%% shell is interrupted.
remove_after(Caller, {kymo_recorder, Server, _}, Dir) ->
    spawn(fun() ->
        Monitor = monitor(process, Caller),
        receive
            done -> ok;
            {'DOWN', Monitor, process, _, _} -> ok
        end,
        Ended = monitor(process, Server),
        receive {'DOWN', Ended, process, _, _} -> ok end,
        kymo_folder:remove_recording(Dir)
    end).

%% Stops it when the time is over, which counts from now. It may have ended before.
stop_in(Time, {kymo_recorder, Server, _} = Recorder) ->
    spawn(fun() ->
        Monitor = monitor(process, Server),
        receive
            {'DOWN', Monitor, process, _, _} -> ok
        after Time -> kymo:stop(Recorder)
        end
    end).

ended(Recorder, #{time := Time}) ->
    receive after Time -> ok end,
    _ = kymo:stop(Recorder),
    ok.

%% ---- the command -------------------------------------------------------------------

%% Its lines go to the group leader as they come.
shown(Args) ->
    Command = kymo:cli_path(),
    try open_port({spawn_executable, Command}, [{args, Args}, {line, ?PART}, exit_status, stderr_to_stdout, binary, hide]) of
        Port -> lines(Port)
    catch
        error:Reason -> {error, {no_command, Command, Reason}}
    end.

lines(Port) ->
    receive
        {Port, {data, {eol, Line}}} -> io:put_chars([Line, $\n]), lines(Port);
        {Port, {data, {noeol, Part}}} -> io:put_chars(Part), lines(Port);
        {Port, {exit_status, 0}} -> ok;
        {Port, {exit_status, Status}} -> {error, {command_failed, Status}}
    end.
