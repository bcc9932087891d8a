%% SPDX-License-Identifier: Apache-2.0
%% @private The triggers of `kymo attach': runs the command `kymo watch' on the attaching side,
%% which reads the recording in place. Nothing of this runs in the node.
-module(kymo_attach_watch).

-export([start/3, stop/1, judged/1, events/1, limits/1]).
-export_type([judgement/0, plan/0]).

-type judgement() :: {fired, kymo_trigger_json:object()} | {failed, term()} | nothing.

-type plan() :: #{
    %% In the syntax of `kymo watch'.
    triggers := [string()],
    cooldown := string(),
    %% As in kymo_trigger:on_trigger().
    max := pos_integer() | infinity,
    keep := pos_integer() | infinity,
    keep_bytes := pos_integer() | infinity
}.

%% @doc Returns the triggers and their limits. The defaults are those of `on_trigger'.
-spec limits([{string(), string()}]) -> plan().
limits(Args) ->
    Value = fun(Key, Default) ->
        case lists:keyfind(Key, 1, Args) of
            {_, "infinity"} -> infinity;
            {_, Text} -> list_to_integer(Text);
            false -> Default
        end
    end,
    #{
        triggers => [T || {"trigger", T} <- Args],
        cooldown => proplists:get_value("cooldown", Args, "10s"),
        max => Value("max", 100),
        keep => Value("keep", 10),
        keep_bytes => Value("keep_bytes", 1 bsl 30)
    }.

%% @doc Starts the command in `Priv' on the recording `Dir'. Its lines arrive as messages of the
%% port.
-spec start(plan(), Priv :: file:filename_all(), Dir :: binary()) -> none | port().
start(#{triggers := []}, _, _) ->
    none;
start(#{triggers := Triggers, cooldown := Cooldown}, Priv, Dir) ->
    Args =
        ["watch", "--piped", "--quiet", "--cooldown", Cooldown] ++
            lists:append([["--trigger", Trigger] || Trigger <- Triggers]) ++ ["--", Dir],
    open_port(
        {spawn_executable, filename:join([Priv, "bin", "kymo"])},
        [{args, Args}, {line, 65536}, exit_status, stderr_to_stdout, binary, hide]
    ).

%% @doc Closes the command's standard input, which ends it.
-spec stop(none | port()) -> ok.
stop(none) ->
    ok;
stop(Port) ->
    _ = (catch port_close(Port)),
    ok.

%% @doc Decodes a line.
-spec judged(binary()) -> judgement().
judged(Line) ->
    case kymo_trigger_json:decode(Line) of
        {ok, #{<<"kind">> := _, <<"start_unix_ns">> := _} = Firing} -> {fired, Firing};
        {ok, #{<<"missed">> := true}} -> {failed, watch_missed};
        {ok, _} -> nothing;
        error -> {failed, {watch, Line}}
    end.

%% @doc The events that these triggers need.
-spec events([string()]) -> [atom()].
events(Triggers) -> lists:usort(lists:append([event(hd(string:split(T, ","))) || T <- Triggers])).

event("request") -> [messages];
event("mailbox") -> [messages];
event("exit") -> [procs];
event("collection") -> [garbage_collection];
event("schedule") -> [running];
event(_) -> [].
