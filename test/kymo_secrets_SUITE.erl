%% SPDX-License-Identifier: Apache-2.0
%%
%% Passwords and tokens that are given to `kymo' are in no message, and in no list of processes.
-module(kymo_secrets_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-import(kymo_cli, [contains/2]).

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1]).
-export([messages/1, posted/1, refused/1, unreachable/1, files/1, hidden_urls/1]).

all() -> [messages, posted, refused, unreachable, files, hidden_urls].

suite() -> [{timetrap, {minutes, 2}}].

-define(SECRET, "s3cr3t").

init_per_suite(Config) ->
    {module, _} = code:ensure_loaded(kymo),
    %% One request, so that there is something to post.
    Dir = filename:join(?config(priv_dir, Config), rec),
    Server = spawn_link(fun Answer() -> receive {'$gen_call', {From, Tag}, ask} -> From ! {Tag, ok}, Answer() end end),
    {ok, ok, _} = kymo:record(Dir, #{events => [messages]}, fun() -> gen_server:call(Server, ask) end),
    unlink(Server),
    exit(Server, kill),
    Before = [{V, os:getenv(V)} || V <- ["no_proxy", "NO_PROXY"]],
    [os:putenv(V, "127.0.0.1") || {V, _} <- Before],
    [{recording, Dir}, {before, Before} | Config].

end_per_suite(Config) ->
    [case Value of false -> os:unsetenv(V); _ -> os:putenv(V, Value) end || {V, Value} <- ?config(before, Config)],
    ok.

%% Wherever a URL is given, also where none is expected.
messages(Config) ->
    Dir = ?config(recording, Config),
    [begin
         {Status, Text} = kymo_cli:run(Args),
         ?assertEqual({Args, true}, {Args, Status =/= 0 andalso byte_size(Text) > 0}),
         hidden(Args, Text)
     end || Url <- urls(), Args <- [
        [Url], ["help", Url], ["info", Url], ["print", Url], ["sql", Url, "select 1"], ["why", Url], ["stats", Url], ["report", Url],
        ["watch", Url], ["top", Url], ["live", Url], ["diff", Url, Url], ["attach", "-o", "/proc/nonexistent/x", Url], ["attach", "--detach", Url],
        ["export", Url], ["export", Url, Dir], ["export", "otlp", Url], ["export", "otlp", "-o", "/proc/nonexistent/x", Url],
        ["export", "perfetto", "-o", "/proc/nonexistent/x", Url], ["export", "dbg", "-o", "x", "--endpoint", Url, Dir],
        ["export", "otlp", "-o", "x", "--endpoint", Url, Dir], ["export", "otlp", "--endpoint", Url, "/proc/nonexistent"],
        ["export", "otlp", "--endpoint", Url, "--cacert", "/proc/nonexistent", Dir],
        ["export", "otlp", "--endpont=" ++ Url, Dir], ["export", "otlp", "--quiet=" ++ Url, Dir], ["export", "otlp", "-o", Url, Dir],
        ["print", "--endpoint=" ++ Url, Dir], ["export", "otlp", "--header=" ++ ?SECRET, Dir]]].

%% Nothing listens on the port.
urls() ->
    Long = lists:duplicate(10000, $x),
    ["https://bob:" ++ ?SECRET ++ "@127.0.0.1:1/", "http://" ++ ?SECRET ++ "@127.0.0.1:1", "http://127.0.0.1:1/x?key=" ++ ?SECRET,
        "ftp://bob:" ++ ?SECRET ++ "@127.0.0.1:1/", "http://bob:p@" ++ ?SECRET ++ "/?#@127.0.0.1:1",
        "http://bob:" ++ ?SECRET ++ Long ++ "@127.0.0.1:1"].

hidden(Args, Text) ->
    ?assertEqual({Args, nomatch, Text}, {Args, string:find(Text, ?SECRET), Text}).

%% The collector gets the password and the headers; the list of processes and the output show neither.
posted(Config) ->
    {Port, Received} = collector("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"),
    {0, Text} = kymo_cli:run(["export", "otlp", "--endpoint", url(Port, "?key=" ++ ?SECRET), "--header", "X-Token: " ++ ?SECRET, ?config(recording, Config)]),
    hidden(posted, Text),
    contains(Text, ["http://***@127.0.0.1:" ++ integer_to_list(Port), " spans"]),
    {Request, Lines} = Received(),
    contains(Request, ["Authorization: Basic " ++ binary_to_list(base64:encode("bob:" ++ ?SECRET)), "X-Token: " ++ ?SECRET]),
    ?assertMatch([_ | _], Lines),
    [hidden(Line, Line) || Line <- Lines].

%% What the collector answers is shown with its address.
refused(Config) ->
    {Port, Received} = collector("HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno"),
    {1, Text} = kymo_cli:run(["export", "otlp", "--endpoint", url(Port, ""), ?config(recording, Config)]),
    contains(Text, ["http://***@127.0.0.1:", "answered 401"]),
    hidden(refused, Text),
    _ = Received().

unreachable(Config) ->
    {1, Text} = kymo_cli:run(["export", "otlp", "--endpoint", url(1, ""), ?config(recording, Config)]),
    contains(Text, ["http://***@127.0.0.1:1/v1/traces: "]),
    hidden(unreachable, Text).

%% The values can be in files, which nobody else can read.
files(Config) ->
    {Port, Received} = collector("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"),
    [Address, Headers, Empty] = [filename:join(?config(priv_dir, Config), F) || F <- [address, headers, empty]],
    ok = file:write_file(Address, [url(Port, ""), "\n"]),
    ok = file:write_file(Headers, ["X-Token: ", ?SECRET, "\r\n\nX-Other: 2\n"]),
    ok = file:write_file(Empty, "\n"),
    Args = fun(Endpoint) -> ["export", "otlp", "--endpoint", "@" ++ Endpoint, "--header", "@" ++ Headers, ?config(recording, Config)] end,
    {0, Text} = kymo_cli:run(Args(Address)),
    hidden(files, Text),
    {Request, Lines} = Received(),
    contains(Request, ["Authorization: Basic ", "X-Token: " ++ ?SECRET ++ "\r\n", "X-Other: 2\r\n"]),
    [hidden(Line, Line) || Line <- Lines],
    {2, NoFile} = kymo_cli:run(Args(Address ++ "-none")),
    contains(NoFile, ["--endpoint: ", "No such file"]),
    {2, NoAddress} = kymo_cli:run(Args(Empty)),
    contains(NoAddress, ["has no address"]).

url(Port, More) -> lists:concat(["http://bob:", ?SECRET, "@127.0.0.1:", Port, More]).

%% Answers each request of one connection. The result is the port, and a function that returns the first
%% request and the command lines that contained the port while it was answered.
collector(Answer) ->
    {ok, Listen} = gen_tcp:listen(0, [binary, {active, false}, {ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(Listen),
    Owner = self(),
    Pid = spawn_link(fun() ->
        {ok, Socket} = gen_tcp:accept(Listen),
        Request = request(Socket, <<>>),
        Owner ! {self(), {Request, command_lines()}},
        serve(Socket, Answer)
    end),
    {Port, fun() -> receive {Pid, Received} -> Received end end}.

serve(Socket, Answer) ->
    ok = gen_tcp:send(Socket, Answer),
    case request(Socket, <<>>) of
        closed -> ok;
        _ -> serve(Socket, Answer)
    end.

request(Socket, Got) ->
    case re:run(Got, "^(.*?\r\n\r\n)(.*)$", [dotall, {capture, all_but_first, binary}]) of
        {match, [Head, Body]} ->
            {match, [Size]} = re:run(Head, "Content-Length: ([0-9]+)", [caseless, {capture, all_but_first, list}]),
            case list_to_integer(Size) - byte_size(Body) of
                0 -> Got;
                _ -> more(Socket, Got)
            end;
        nomatch ->
            more(Socket, Got)
    end.

more(Socket, Got) ->
    case gen_tcp:recv(Socket, 0) of
        {ok, Data} -> request(Socket, <<Got/binary, Data/binary>>);
        {error, closed} -> closed
    end.

command_lines() ->
    {ok, Names} = file:list_dir("/proc"),
    [Line || Name <- Names, hd(Name) >= $0, hd(Name) =< $9, {ok, Line} <- [file:read_file("/proc/" ++ Name ++ "/cmdline")],
        string:find(Line, "--endpoint") =/= nomatch].

%% In the part of `attach' that is written in Erlang.
hidden_urls(_) ->
    [?assertEqual(Shown, kymo_attach_text:clean(Text))
     || {Shown, Text} <- [{"x http://***@h: no", "x http://a:b@h: no"}, {"http://***@h", "http://a@b:c@h"}, {"http://h", "http://h"}, {"http://h?*** no", "http://h?k=s no"}, {"a@b", "a@b"}]].
