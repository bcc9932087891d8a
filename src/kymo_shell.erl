%% SPDX-License-Identifier: Apache-2.0
%% @private Answers one question from a shell: records into a temporary folder, has the command
%% `kymo' print the answer to the caller's group leader, and removes everything.
-module(kymo_shell).

-export([calls/2, slow/3, why/1, check/1]).

-define(PART, 4096).

%% The exit status of `kymo check' if there are findings.
-define(FINDINGS, 7).

%% Prints calls as they happen, until `count' or `time' is reached.
-spec calls(Patterns :: term(), kymo:asked()) -> kymo:answer().
calls(Functions, Options) ->
    asked(Options, #{time => 10000, count => 20}, fun(#{time := Time, count := Count} = Asked) ->
        Start = #{calls => arguments, returns => values},
        Spec = #{functions => Functions, returns => true},
        Tags = "call,return_from,exception_from",
        Args = ["print", "--follow", "--quiet", "--events", Tags, "--limit", integer_to_list(Count)],
        Nothing = io_lib:format("no calls of these functions in ~b ms", [Time]),
        recorded(Asked, Start, Spec, fun(Recorder) -> stop_in(Time, Recorder) end, Args, Nothing)
    end).

%% Records for `time', then prints the calls that took at least Ms milliseconds, with their
%% callers.
-spec slow(Patterns :: term(), number(), kymo:asked()) -> kymo:answer().
slow(Functions, Ms, Options) ->
    asked(Options, #{time => 10000, count => 20}, fun(#{time := Time, count := Count} = Asked) ->
        Micros = round(Ms * 1000),
        Spec = slow_spec(Functions, Micros),
        Slower = lists:flatten(io_lib:format("~bus", [Micros])),
        Args = ["print", "--tree", "--quiet", "--slower", Slower, "--limit", integer_to_list(Count)],
        Nothing = io_lib:format("no call of these functions took ~w ms or more, in ~b ms", [Ms, Time]),
        recorded(Asked, #{}, Spec, fun(Recorder) -> ended(Recorder, Time) end, Args, Nothing)
    end).

%% What records these calls: where the runtime reports slow calls, no others.
slow_spec(Functions, Micros) ->
    case kymo_pattern:has_slow() andalso Micros =< kymo_options:most_slow() of
        true -> #{slow => maps:from_list([{P, Micros} || P <- kymo_spec:patterns(Functions)])};
        false -> #{functions => Functions, returns => true, events => [running]}
    end.

%% Records for `time', then prints the causes of the slowest requests.
-spec why(kymo:asked()) -> kymo:answer().
why(Options) ->
    Defaults = #{time => 5000, count => 1, functions => []},
    asked(Options, Defaults, fun(#{time := Time, count := Count, functions := Functions} = Asked) ->
        Spec = #{functions => Functions, events => [messages, running, procs, garbage_collection]},
        Args = ["why", "--quiet", "--top", integer_to_list(Count)],
        Nothing = io_lib:format(
            "no request (a call of a gen_server, gen_statem or gen_event, of an I/O server, or a task) was "
            "answered in ~b ms",
            [Time]
        ),
        recorded(Asked, #{}, Spec, fun(Recorder) -> ended(Recorder, Time) end, Args, Nothing)
    end).

%% Records for `time' what `kymo attach' records by default, then prints what is wrong. The commands that
%% show more are left out, because the recording is removed.
-spec check(kymo:asked()) -> kymo:answer().
check(Options) ->
    asked(Options, #{time => 5000}, fun(#{time := Time} = Asked) ->
        Start = kymo_attach_options:start([]),
        Spec = kymo_attach_options:spec([]),
        Args = ["check", "--quiet", "--brief"],
        recorded(Asked, Start, Spec, fun(Recorder) -> ended(Recorder, Time) end, Args, [])
    end).

%% ---- options ------------------------------------------------------------------

%% An error is printed, as a sentence, and returned.
asked(Options, Defaults, Fun) ->
    case answer(Options, Defaults, Fun) of
        {error, {command_failed, _}} = Error ->
            Error;
        {error, Reason} = Error ->
            io:put_chars(["kymo: ", explained(Reason, Defaults), $\n]),
            Error;
        ok ->
            ok
    end.

%% These functions have options of their own.
explained({unknown_option, Key}, Defaults) ->
    Allowed = lists:usort([processes | maps:keys(Defaults)]),
    io_lib:format("there is no option ~0tp; allowed: ~ts", [Key, lists:join(", ", [atom_to_list(K) || K <- Allowed])]);
explained({bad_option, Key, Value}, _) when Key =:= time; Key =:= count ->
    io_lib:format("~ts is ~0tP; allowed: a number from 1 on", [Key, Value, 20]);
explained(Reason, _) ->
    kymo:format_error(Reason).

answer(Options, Defaults, Fun) ->
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

%% Everything is ready before the tracing begins, which would record the preparations of this
%% process too.
recorded(Asked, Start, Spec, Wait, Args, Nothing) ->
    Dir = kymo_folder:unused(),
    Command = kymo:cli_path(),
    Port = [{args, Args ++ [Dir]}, {line, ?PART}, exit_status, stderr_to_stdout, binary, hide],
    case kymo:start(Start#{dir => Dir}) of
        {ok, Recorder} ->
            Remover = remove_after(self(), Recorder, Dir),
            try kymo:trace(Recorder, maps:merge(Spec, maps:with([processes], Asked))) of
                {ok, _} ->
                    _ = Wait(Recorder),
                    shown(Command, Port, [[Nothing, $\n] || Nothing =/= []]);
                {error, _} = Error ->
                    Error
            after
                _ = kymo:stop(Recorder),
                Remover ! done,
                Monitor = monitor(process, Remover),
                receive {'DOWN', Monitor, process, _, _} -> ok end
            end;
        {error, _} = Error ->
            Error
    end.

%% The caller owns the recorder, which ends with it. Removes the folder, too, if the shell is
%% interrupted.
remove_after(Caller, {kymo_recorder, Server, _, _}, Dir) ->
    spawn_opt(fun() ->
        Monitor = monitor(process, Caller),
        receive
            done -> ok;
            {'DOWN', Monitor, process, _, _} -> ok
        end,
        Ended = monitor(process, Server),
        receive {'DOWN', Ended, process, _, _} -> ok end,
        kymo_folder:remove_recording(Dir)
    end, kymo_server:spawn_options(normal)).

%% Stops the recorder after Time from now, if it has not ended before.
stop_in(Time, {kymo_recorder, Server, _, _} = Recorder) ->
    spawn_opt(fun() ->
        Monitor = monitor(process, Server),
        receive
            {'DOWN', Monitor, process, _, _} -> ok
        after Time -> kymo:stop(Recorder)
        end
    end, kymo_server:spawn_options(normal)).

ended(Recorder, Time) ->
    receive after Time -> ok end,
    kymo:stop(Recorder).

%% ---- the command -------------------------------------------------------------------

%% Prints the command's lines to the group leader as they arrive, or Nothing if there are none.
shown(Command, Options, Nothing) ->
    try open_port({spawn_executable, Command}, Options) of
        Port -> lines(Port, Nothing)
    catch
        error:Reason -> {error, {no_command, Command, Reason}}
    end.

lines(Port, Last) ->
    receive
        {Port, {data, {eol, Line}}} -> io:put_chars([Line, $\n]), lines(Port, []);
        {Port, {data, {noeol, Part}}} -> io:put_chars(Part), lines(Port, []);
        {Port, {exit_status, 0}} -> io:put_chars(Last);
        {Port, {exit_status, ?FINDINGS}} -> ok;
        {Port, {exit_status, Status}} -> {error, {command_failed, Status}}
    end.
