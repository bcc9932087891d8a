%% SPDX-License-Identifier: Apache-2.0
%%
%% Shared by the suites: runs the command `kymo', and reads exported dbg files with OTP's own
%% reader.
-module(kymo_cli).

-include_lib("stdlib/include/assert.hrl").

-export([run/1, run/2, command/2, command/3, collect/2, await_text/2, contains/2, events/1, until/1, read_dbg/1, json/1]).

%% Runs the command. Returns its status and its output, including standard error.
run(Args) -> run(Args, 120000).

run(Args, Timeout) -> command(kymo:cli_path(), Args, Timeout).

%% The same for any other program, given by its path. Fails if the program writes nothing for
%% Timeout milliseconds.
command(Program, Args) -> command(Program, Args, 120000).

command(Program, Args, Timeout) ->
    Port = open_port(
        {spawn_executable, Program},
        [{args, Args}, exit_status, stderr_to_stdout, binary, use_stdio, hide]
    ),
    collect(Port, Timeout).

%% Everything that a port with `exit_status' writes, and its status.
collect(Port, Timeout) -> collect(Port, [], Timeout).

collect(Port, Acc, Timeout) ->
    receive
        {Port, {data, Data}} -> collect(Port, [Acc, Data], Timeout);
        {Port, {exit_status, Status}} -> {Status, iolist_to_binary(Acc)}
    after Timeout ->
        port_close(Port),
        error({no_end, iolist_to_binary(Acc)})
    end.

%% Waits until a port with `exit_status' has written this text.
await_text(Port, Text) -> await_text(Port, Text, <<>>).

await_text(Port, Text, Got) ->
    case string:find(Got, Text) of
        nomatch ->
            receive
                {Port, {data, Data}} -> await_text(Port, Text, <<Got/binary, Data/binary>>);
                {Port, {exit_status, Status}} -> error({ended, Status, Got})
            end;
        _ ->
            ok
    end.

%% Whether the text has each of these parts.
contains(Text, Parts) ->
    [?assertNotEqual({Part, nomatch}, {Part, string:find(Text, Part)}, Text) || Part <- Parts],
    ok.

%% The events of a recording, as a process tracer would have received them, without time stamps.
events(Dir) ->
    Unique = integer_to_list(erlang:unique_integer([positive])),
    File = filename:join(filename:dirname(Dir), "events-" ++ Unique ++ ".dbg"),
    case run(["export", "dbg", "-o", File, Dir]) of
        {0, _} -> [plain(E) || E <- read_dbg(File)];
        Failed -> error(Failed)
    end.

plain(Event) when element(1, Event) =:= trace_ts ->
    setelement(1, erlang:delete_element(tuple_size(Event), Event), trace);
plain(Event) ->
    Event.

read_dbg(File) ->
    Self = self(),
    Handler = fun
        (end_of_trace, Acc) -> Self ! {?MODULE, lists:reverse(Acc)}, [];
        (Event, Acc) -> [Event | Acc]
    end,
    Client = dbg:trace_client(file, File, {Handler, []}),
    Monitor = monitor(process, Client),
    Events =
        receive
            {?MODULE, Es} -> Es;
            {'DOWN', Monitor, process, Client, Reason} -> error({trace_client, Reason})
        end,
    receive {'DOWN', Monitor, process, Client, _} -> ok end,
    %% Ends only the server that this function has started. Not dbg:stop/0: it would clear flags
    %% that others have set.
    Server = whereis(dbg),
    Gone = monitor(process, Server),
    exit(Server, kill),
    receive {'DOWN', Gone, process, Server, _} -> Events end.

%% Waits for a condition that another process will soon make true and that cannot be waited for
%% otherwise. Returns false after sixty seconds.
until(Fun) -> until(Fun, erlang:monotonic_time(second) + 60).

until(Fun, Deadline) ->
    garbage_collect(),
    case Fun() of
        true ->
            true;
        false ->
            case erlang:monotonic_time(second) < Deadline of
                true ->
                    receive
                    after 5 -> until(Fun, Deadline)
                    end;
                false ->
                    false
            end
    end.

%% Decodes JSON as OTP 27's json:decode/1 does, for runtimes without it: only the subset that
%% the command writes, and strictly.
-spec json(string()) -> term().
json(Text) ->
    {Value, "\n"} = value(Text),
    Value.

value("{}" ++ R) -> {#{}, R};
value("{" ++ R) -> object(R, #{});
value("[]" ++ R) -> {[], R};
value("[" ++ R) -> array(R, []);
value("\"" ++ R) -> string(R, []);
value("true" ++ R) -> {true, R};
value("false" ++ R) -> {false, R};
value("null" ++ R) -> {null, R};
value(R) ->
    {Digits, Rest} = lists:splitwith(fun(C) -> C =:= $- orelse C >= $0 andalso C =< $9 end, R),
    {list_to_integer(Digits), Rest}.

object("\"" ++ R0, Map) ->
    {Key, ":" ++ R1} = string(R0, []),
    {Value, R2} = value(R1),
    false = is_map_key(Key, Map),
    case R2 of
        "," ++ R3 -> object(R3, Map#{Key => Value});
        "}" ++ R3 -> {Map#{Key => Value}, R3}
    end.

array(R0, Acc) ->
    case value(R0) of
        {V, "," ++ R} -> array(R, [V | Acc]);
        {V, "]" ++ R} -> {lists:reverse([V | Acc]), R}
    end.

string("\"" ++ R, Acc) -> {unicode:characters_to_binary(lists:reverse(Acc)), R};
string("\\u" ++ [A, B, C, D | R], Acc) -> string(R, [list_to_integer([A, B, C, D], 16) | Acc]);
string([$\\, C | R], Acc) when C =:= $\\; C =:= $" -> string(R, [C | Acc]);
string([C | R], Acc) when C >= 32, C =/= $\\ -> string(R, [C | Acc]).
