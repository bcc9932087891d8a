%% SPDX-License-Identifier: Apache-2.0
%% @private Starts a recorder when the node starts, without any code of the user. The
%% application parameter `always', or the environment variable `KYMO_ALWAYS', has its options.
%% If these name neither events nor functions, a profile determines what is recorded: `light'
%% (default), which is cheap enough to be left on (bench/always_run), or `full'.
-module(kymo_always).

-include_lib("kernel/include/logger.hrl").

-export([start/0]).

-define(KEEP, 5).
-define(OWN, [folder, keep, profile]).

%% @doc Starts the recorder if one is configured. Errors are logged, and never prevent the node
%% from starting.
-spec start() -> ok.
start() ->
    try wanted() of
        none -> ok;
        Wanted when is_map(Wanted) -> logged(start(Wanted));
        Other -> logged({error, {bad_option, always, Other}})
    catch
        Class:Reason -> logged({error, {Class, Reason}})
    end.

wanted() ->
    case {os:getenv("KYMO_ALWAYS"), application:get_env(kymo, always)} of
        {false, {ok, Wanted}} -> Wanted;
        {Unset, undefined} when Unset =:= false; Unset =:= "" -> none;
        {"", {ok, Wanted}} -> Wanted;
        {[$#, ${ | _] = Text, _} -> term(Text);
        {Folder, _} -> #{folder => Folder}
    end.

%% Text that is not an Erlang term is returned unchanged, and rejected later as a bad option.
term(Text) ->
    case erl_scan:string(Text ++ ".") of
        {ok, Tokens, _} ->
            case erl_parse:parse_term(Tokens) of
                {ok, Term} -> Term;
                {error, _} -> Text
            end;
        {error, _, _} ->
            Text
    end.

start(#{folder := Folder} = Wanted) ->
    Keep = maps:get(keep, Wanted, ?KEEP),
    Profile = maps:get(profile, Wanted, light),
    case {is_integer(Keep) andalso Keep > 0, lists:member(Profile, [light, full])} of
        {true, true} -> start(Folder, Keep, Profile, maps:without(?OWN, Wanted));
        {false, _} -> {error, {bad_option, keep, Keep}};
        {true, false} -> {error, {bad_option, profile, Profile}}
    end;
start(_) ->
    {error, {missing_option, folder}}.

start(Folder, Keep, Profile, Options) ->
    {Spec, Own} = lists:foldl(fun moved/2, {#{}, Options}, kymo_spec:keys()),
    Start = maps:merge(#{name => always, counters => 100, system_monitor => default}, Own),
    Dir = filename:join(Folder, name()),
    case kymo:start(Start#{dir => Dir, owner => none}) of
        {ok, Recorder} -> traced(Recorder, kymo:trace(Recorder, what(Spec, Profile)), Dir, Keep);
        {error, _} = Error ->
            Error
    end.

%% `returns' is an option of the recorder unless it is a boolean, as for kymo:record/3.
moved(Key, {Spec, Options}) ->
    case Options of
        #{returns := Returns} when Key =:= returns, not is_boolean(Returns) -> {Spec, Options};
        #{Key := Value} -> {Spec#{Key => Value}, maps:remove(Key, Options)};
        #{} -> {Spec, Options}
    end.

what(#{events := _} = Spec, _) -> Spec;
what(#{functions := _} = Spec, _) -> Spec;
what(Spec, light) -> Spec#{events => [procs]};
what(Spec, full) -> Spec#{events => [messages, running, procs, garbage_collection]}.

traced(_, {ok, _}, Dir, Keep) ->
    remove_old(filename:dirname(Dir), Keep);
traced(Recorder, {error, _} = Error, Dir, _) ->
    _ = kymo:stop(Recorder),
    kymo_folder:remove_recording(Dir),
    Error.

logged(ok) ->
    ok;
logged({error, Reason}) ->
    ?LOG_ERROR("kymo: the recorder of the parameter 'always' was not started: ~ts", [kymo:format_error(Reason)]),
    ok.

%% ---- folders -----------------------------------------------------------------------

%% The name of the folder: names sort by time, and contain the operating system's process id.
name() ->
    {{Y, Mo, D}, {H, Mi, S}} = calendar:universal_time(),
    lists:flatten(
        io_lib:format("~ts-~4..0b~2..0b~2..0bT~2..0b~2..0b~2..0bZ-~s", [node(), Y, Mo, D, H, Mi, S, os:getpid()])
    ).

%% Removes the oldest recordings of earlier runs of this node, except those still being written.
remove_old(Folder, Keep) ->
    Pattern = "^" ++ quoted(atom_to_list(node())) ++ "-\\d{8}T\\d{6}Z-(\\d+)$",
    {ok, Names} = file:list_dir(Folder),
    Ours = [{Name, Pid} || Name <- lists:sort(Names), {match, [Pid]} <- [re:run(Name, Pattern, [unicode, {capture, [1], list}])]],
    Old = lists:sublist(Ours, max(0, length(Ours) - Keep)),
    _ = [kymo_folder:remove_recording(filename:join(Folder, Name)) || {Name, Pid} <- Old, not runs(Pid)],
    ok.

quoted(Text) -> "\\Q" ++ Text ++ "\\E".

runs(Pid) -> filelib:is_dir(filename:join("/proc", Pid)).
