%% SPDX-License-Identifier: Apache-2.0
%%
%% Headless Chromium for suites: opens a file with the network off, evaluates JavaScript in the
%% page, presses keys, takes screenshots. It is controlled through its debugging pipe (file
%% descriptors 3 and 4, which a port opened with `nouse_stdio' provides); no network port is
%% opened.
-module(kymo_browser).

-export([find/0, environment/0, open/2, close/1, load/2, visit/2, ask/2, run/2, key/2, theme/2, size/3, picture/2, trouble/1, trouble/2]).

-export_type([browser/0]).

-record(browser, {port :: port(), session :: binary(), guard :: pid()}).
-opaque browser() :: #browser{}.

%% The path of Chromium, or false if it is not installed.
-spec find() -> file:filename() | false.
find() ->
    Names = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"],
    hd([Path || Name <- Names, Path <- [os:find_executable(Name)], Path =/= false] ++ [false]).

%% What to change in its environment. It has an allocator of its own, which does not work with that
%% of the address sanitizer.
-spec environment() -> [{string(), false}].
environment() -> [{Name, false} || Name <- ["LD_PRELOAD", "ASAN_OPTIONS", "UBSAN_OPTIONS"]].

%% Starts it with a profile in the folder Profile, and one empty page without a network. It is
%% killed when its owner, the calling process, ends without close/1.
-spec open(file:filename(), file:filename()) -> browser().
open(Program, Profile) ->
    Args = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run",
            "--disable-background-networking", "--user-data-dir=" ++ Profile, "about:blank"],
    Port = open_port({spawn_executable, Program}, [{args, Args}, {env, environment()}, nouse_stdio, binary, exit_status]),
    put({?MODULE, Port}, {0, <<>>, []}),
    Guard = guard(Port),
    Target = text(<<"targetId">>, call(Port, none, "Target.createTarget", [{"url", "about:blank"}])),
    Session = text(<<"sessionId">>, call(Port, none, "Target.attachToTarget",
                                         [{"targetId", Target}, {"flatten", true}])),
    B = #browser{port = Port, session = Session, guard = Guard},
    [command(B, Domain ++ ".enable", []) || Domain <- ["Page", "Runtime", "Log", "Network"]],
    network(B, false),
    B.

%% A browser that spins does not see that its pipe has been closed.
guard(Port) ->
    Owner = self(),
    {os_pid, Group} = erlang:port_info(Port, os_pid), % the child of a port leads a group of processes
    spawn(fun() ->
        Ended = monitor(process, Owner),
        receive
            {closed, Owner} -> ok;
            {'DOWN', Ended, process, _, _} -> os:cmd("kill -KILL -- -" ++ integer_to_list(Group))
        end
    end).

network(B, On) ->
    command(B, "Network.emulateNetworkConditions",
            [{"offline", not On}, {"latency", 0}, {"downloadThroughput", -1}, {"uploadThroughput", -1}]).

-spec close(browser()) -> ok.
close(#browser{port = Port, guard = Guard}) ->
    send(Port, none, 0, "Browser.close", []),
    wait_exit(Port),
    Guard ! {closed, self()},
    ok.

wait_exit(Port) ->
    receive
        {Port, {exit_status, _}} -> erase({?MODULE, Port});
        {Port, {data, _}} -> wait_exit(Port)
    after 20000 ->
        error(browser_does_not_end)
    end.

%% Opens a file and waits until its scripts have run. Clears what trouble/1 has collected.
-spec load(browser(), file:filename()) -> ok.
load(B, File) -> navigate(B, "file://" ++ File).

%% The same with the URL of a server and with the network on.
-spec visit(browser(), string()) -> ok.
visit(B, Url) ->
    network(B, true),
    navigate(B, Url).

navigate(#browser{port = Port} = B, Url) ->
    {N, Rest, _} = get({?MODULE, Port}),
    put({?MODULE, Port}, {N, Rest, []}),
    Answer = command(B, "Page.navigate", [{"url", Url}]),
    nomatch = binary:match(Answer, <<"errorText">>),
    %% The new document has answered, but it may still be loading.
    1 = ask(B, "new Promise((done) => document.readyState === 'complete' ? done(1) : addEventListener('load', () => done(1)))"),
    ok.

%% The value of a JavaScript expression, or of its promise. Numbers must be integers.
-spec ask(browser(), iodata()) -> term().
ask(B, Expression) ->
    Wrapped = ["(async () => btoa(unescape(encodeURIComponent(JSON.stringify(await (", Expression, ")) ?? 'null'))))()"],
    Answer = evaluate(B, Wrapped),
    case re:run(Answer, "\"type\":\"string\",\"value\":\"([A-Za-z0-9+/=]*)\"", [{capture, all_but_first, binary}]) of
        {match, [Base64]} -> kymo_cli:json(unicode:characters_to_list(base64:decode(Base64)) ++ "\n");
        nomatch -> error({script_failed, Answer})
    end.

%% Runs a script for its effect.
-spec run(browser(), iodata()) -> ok.
run(B, Script) ->
    Answer = evaluate(B, Script),
    nomatch = binary:match(Answer, <<"exceptionDetails">>),
    ok.

evaluate(B, Expression) ->
    command(B, "Runtime.evaluate", [{"expression", iolist_to_binary(Expression)}, {"awaitPromise", true},
                                    {"returnByValue", true}]).

%% Presses and releases a key: "Tab", "Enter", "ArrowDown", "+", ...
-spec key(browser(), string()) -> ok.
key(B, Key) ->
    Codes = #{"Tab" => 9, "Enter" => 13, "Escape" => 27, "ArrowLeft" => 37, "ArrowUp" => 38, "ArrowRight" => 39,
              "ArrowDown" => 40},
    Text = case Key of "Enter" -> [{"text", "\r"}]; [_] -> [{"text", Key}]; _ -> [] end,
    Common = [{"key", Key}, {"windowsVirtualKeyCode", maps:get(Key, Codes, 0)}],
    command(B, "Input.dispatchKeyEvent", [{"type", "keyDown"} | Common ++ Text]),
    command(B, "Input.dispatchKeyEvent", [{"type", "keyUp"} | Common]),
    ok.

-spec theme(browser(), light | dark) -> ok.
theme(B, Theme) ->
    command(B, "Emulation.setEmulatedMedia",
            [{"features", [[{"name", "prefers-color-scheme"}, {"value", atom_to_list(Theme)}]]}]),
    ok.

-spec size(browser(), pos_integer(), pos_integer()) -> ok.
size(B, Width, Height) ->
    command(B, "Emulation.setDeviceMetricsOverride",
            [{"width", Width}, {"height", Height}, {"deviceScaleFactor", 1}, {"mobile", Width < 600}]),
    ok.

%% A screenshot as PNG.
-spec picture(browser(), file:filename()) -> ok.
picture(B, File) ->
    Answer = command(B, "Page.captureScreenshot", [{"format", "png"}]),
    ok = file:write_file(File, base64:decode(text(<<"data">>, Answer))).

%% Errors on the console, exceptions, and requests for anything but the file itself, since
%% the page was loaded.
-spec trouble(browser()) -> [binary()].
trouble(B) -> trouble(B, "file:").

%% The same, but requests for URLs that begin with Origin are allowed.
-spec trouble(browser(), string()) -> [binary()].
trouble(#browser{port = Port} = B, Origin) ->
    _ = ask(B, "1"), % all earlier messages have been read when this returns
    {_, _, Events} = get({?MODULE, Port}),
    [E || E <- Events, is_trouble(E, Origin)].

is_trouble(Event, Origin) ->
    Is = fun(Pattern) -> re:run(Event, Pattern, [{capture, none}]) =:= match end,
    Is("\"method\":\"Runtime.exceptionThrown\"") orelse
        Is("\"method\":\"Runtime.consoleAPICalled\".*\"type\":\"(error|warning|assert)\"") orelse
        Is("\"method\":\"Log.entryAdded\".*\"level\":\"(error|warning)\"") orelse
        (Is("\"method\":\"Network.requestWillBeSent\"") andalso not Is("\"url\":\"(file:|data:|about:|" ++ Origin ++ ")")).

%% ---- the protocol ----

command(#browser{port = Port, session = Session}, Method, Params) -> call(Port, Session, Method, Params).

call(Port, Session, Method, Params) ->
    {N, Rest, Events} = get({?MODULE, Port}),
    put({?MODULE, Port}, {N + 1, Rest, Events}),
    send(Port, Session, N + 1, Method, Params),
    answer(Port, iolist_to_binary(["{\"id\":", integer_to_list(N + 1), ","])).

send(Port, Session, Id, Method, Params) ->
    Members = [{"id", Id}, {"method", Method}, {"params", Params}] ++ [{"sessionId", Session} || Session =/= none],
    true = port_command(Port, [object(Members), 0]).

answer(Port, Begin) ->
    Message = next(Port),
    case Message of
        <<Begin:(byte_size(Begin))/binary, "\"error\"", _/binary>> -> error({browser, Message});
        <<Begin:(byte_size(Begin))/binary, _/binary>> -> Message;
        _ -> answer(Port, Begin)
    end.

%% Returns the next message; events are stored.
next(Port) ->
    {N, Rest, Events} = get({?MODULE, Port}),
    case binary:split(Rest, <<0>>) of
        [<<"{\"id\":", _/binary>> = Message, More] ->
            put({?MODULE, Port}, {N, More, Events}),
            Message;
        [Event, More] ->
            put({?MODULE, Port}, {N, More, [Event | Events]}),
            Event;
        [_] ->
            receive
                {Port, {data, Data}} ->
                    put({?MODULE, Port}, {N, <<Rest/binary, Data/binary>>, Events}),
                    next(Port);
                {Port, {exit_status, Status}} ->
                    error({browser_ended, Status})
            after 120000 ->
                error(browser_is_silent)
            end
    end.

text(Key, Json) ->
    {match, [Value]} = re:run(Json, ["\"", Key, "\":\"([^\"]*)\""], [{capture, all_but_first, binary}]),
    Value.

%% A list of pairs becomes an object, a list of such lists an array.
object(Members) ->
    ["{", lists:join(",", [[string(K), ":", value(V)] || {K, V} <- Members]), "}"].

value(true) -> "true";
value(false) -> "false";
value(N) when is_integer(N) -> integer_to_list(N);
value([]) -> "{}";
value([{_, _} | _] = Members) -> object(Members);
value([[{_, _} | _] | _] = List) -> ["[", lists:join(",", [object(M) || M <- List]), "]"];
value(Text) -> string(Text).

string(Text) ->
    Escape = fun
        (C) when C < 32; C =:= $"; C =:= $\\; C > 126 -> escape(C);
        (C) -> C
    end,
    ["\"", [Escape(C) || C <- unicode:characters_to_list(Text)], "\""].

escape(C) when C > 16#ffff ->
    [escape(16#d800 + ((C - 16#10000) bsr 10)), escape(16#dc00 + ((C - 16#10000) band 16#3ff))];
escape(C) ->
    io_lib:format("\\u~4.16.0b", [C]).
