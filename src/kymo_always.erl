%% SPDX-License-Identifier: Apache-2.0
%% @private A recorder from the start of the node, without code: the parameter `always' of
%% the application, or the environment variable `KYMO_ALWAYS', says where and what.
-module(kymo_always).

-include_lib("kernel/include/logger.hrl").

-export([start/0]).

-define(KEEP, 5).
-define(OWN, [folder, keep]).

%% @doc Starts the recorder if one is wanted. A node never fails to start for its sake: what
%% is wrong goes to the log.
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

%% What is no term stays a text, and is refused as such.
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
    case is_integer(Keep) andalso Keep > 0 of
        true -> start(Folder, Keep, maps:without(?OWN, Wanted));
        false -> {error, {bad_option, keep, Keep}}
    end;
start(_) ->
    {error, {missing_option, folder}}.

start(Folder, Keep, Options) ->
    {Spec, Own} = lists:foldl(fun moved/2, {#{}, Options}, kymo_spec:keys()),
    Start = maps:merge(#{name => always}, Own),
    Dir = filename:join(Folder, name()),
    case kymo:start(Start#{dir => Dir, owner => none}) of
        {ok, Recorder} -> traced(Recorder, kymo:trace(Recorder, what(Spec)), Dir, Keep);
        {error, _} = Error ->
            Error
    end.

%% `returns' is the recorder's, unless it is a boolean: see kymo:record/3.
moved(Key, {Spec, Options}) ->
    case Options of
        #{returns := Returns} when Key =:= returns, not is_boolean(Returns) -> {Spec, Options};
        #{Key := Value} -> {Spec#{Key => Value}, maps:remove(Key, Options)};
        #{} -> {Spec, Options}
    end.

what(#{events := _} = Spec) -> Spec;
what(#{functions := _} = Spec) -> Spec;
what(Spec) -> Spec#{events => [messages, running, procs, garbage_collection]}.

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

%% In the order of time, and with the process that writes it.
name() ->
    {{Y, Mo, D}, {H, Mi, S}} = calendar:universal_time(),
    lists:flatten(
        io_lib:format("~ts-~4..0b~2..0b~2..0bT~2..0b~2..0b~2..0bZ-~s", [node(), Y, Mo, D, H, Mi, S, os:getpid()])
    ).

%% Recordings of earlier nodes of this name, the oldest ones; not of one that runs.
remove_old(Folder, Keep) ->
    Pattern = "^" ++ quoted(atom_to_list(node())) ++ "-\\d{8}T\\d{6}Z-(\\d+)$",
    {ok, Names} = file:list_dir(Folder),
    Ours = [{Name, Pid} || Name <- lists:sort(Names), {match, [Pid]} <- [re:run(Name, Pattern, [unicode, {capture, [1], list}])]],
    Old = lists:sublist(Ours, max(0, length(Ours) - Keep)),
    _ = [kymo_folder:remove_recording(filename:join(Folder, Name)) || {Name, Pid} <- Old, not runs(Pid)],
    ok.

quoted(Text) -> "\\Q" ++ Text ++ "\\E".

runs(Pid) -> filelib:is_dir(filename:join("/proc", Pid)).
