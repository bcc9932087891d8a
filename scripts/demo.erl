%% SPDX-License-Identifier: Apache-2.0
%%
%% The application that `make demo' records: a web server that compiles and pretty-prints Erlang
%% sources, with clients that keep it busy. Run by scripts/demo.
%%
%% A request for /File goes from a process of httpd to a pool, from there to a free worker, and
%% the worker answers. A request is therefore visible as calls, as messages between processes,
%% as waiting and as garbage.
%%
%% Before it compiles, a worker asks demo_cache, a gen_server, when the file was last requested.
%% From time to time that server scans all its entries (check/2), which takes long. Requests that
%% arrive during the scan wait: this is the planted cause that `kymo why' names.
-module(demo).
-behaviour(gen_server).

-include_lib("inets/include/httpd.hrl").

-export([main/0]).
%% Called by httpd, and entry points of processes.
-export([do/1, pool/0, worker/1, client/2]).
%% Callbacks of demo_cache.
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-define(CLIENTS, 6).
-define(WORKERS, 3).
%% Milliseconds between two checks, so that a slow machine does something else, too.
-define(CHECK_AFTER, 1000).
-define(KNOWN, 200000).

%% -demo SourceDir OutDir Seconds
main() ->
    {ok, [[Sources, Out, Seconds]]} = init:get_argument(demo),
    %% A separate process, which dies with any process that it starts, because this one traps
    %% exits.
    {_, Run} = spawn_monitor(fun() -> run(Sources, Out, list_to_integer(Seconds) * 1000) end),
    receive
        {'DOWN', Run, process, _, normal} ->
            halt(0);
        {'DOWN', Run, process, _, Reason} ->
            io:format(standard_error, "demo: ~tp~n", [Reason]),
            %% halt/1 can lose output that is still queued at a port.
            init:stop(1)
    end.

run(Sources, Out, Time) ->
    Url = start_server(Sources, Out),
    Files = [filename:basename(F) || F <- filelib:wildcard(filename:join(Sources, "*.erl"))],
    Clients = [spawn_link(?MODULE, client, [Url, rotate(N, Files)]) || N <- lists:seq(1, ?CLIENTS)],
    [Client ! {next, self()} || Client <- Clients],
    [receive answered -> ok end || _ <- Clients],
    io:format("An HTTP server compiles ~b Erlang modules for ~b clients.~n", [length(Files), ?CLIENTS]),

    io:format("Recording for ~b s, everything to files ...~n", [Time div 1000]),
    Spec = #{
        functions => [
            "demo:_/_", "compile:_/_", "epp:parse_file", "erl_pp:form", "httpd_*:_/_", "httpc_*:_/_"
        ],
        events => [return_to, messages, procs, ports, running, garbage_collection]
    },
    {ok, Recorder} = kymo:start(#{
        dir => filename:join(Out, "recording"),
        policy => discard,
        memory => 32 bsl 20,
        gc => sizes,
        terms => contents
    }),
    Before = requests(),
    {ok, #{processes := Processes, functions := Functions}} = kymo:trace(Recorder, Spec),
    End = erlang:monotonic_time(millisecond) + Time,
    %% On a slow machine the recording takes longer, so that it has a whole check, and the answer to
    %% a request that has been made after it. No functions here: their calls would be recorded.
    demo_cache ! {report, self()},
    receive checked -> ok end,
    receive checked -> ok end,
    hd(Clients) ! {next, self()},
    receive answered -> ok end,
    receive after max(0, End - erlang:monotonic_time(millisecond)) -> ok end,
    {ok, Info} = kymo:stop(Recorder),
    io:format("  ~b processes, ~b functions traced; ~b requests answered~n", [
        Processes, Functions, requests() - Before
    ]),
    summary(Info),

    io:format("Recording again, with the newest events in memory only, and taking a snapshot ...~n"),
    {ok, Flight} = kymo:start(#{dir => filename:join(Out, "flight"), memory => 4 bsl 20}),
    {ok, _} = kymo:trace(Flight, Spec),
    receive after 1000 -> ok end,
    {ok, #{events := Held}} = kymo:snapshot(Flight, filename:join(Out, "snapshot")),
    {ok, FlightInfo} = kymo:stop(Flight),
    io:format("  the snapshot holds ~b events~n", [Held]),
    summary(FlightInfo),
    %% Each client finishes its request first. The server ends with the node: if it is stopped
    %% while its connections end, it sometimes logs reports that do not belong to the
    %% demonstration.
    Ended = [begin C ! stop, monitor(process, C) end || C <- Clients],
    [receive {'DOWN', E, process, _, normal} -> ok end || E <- Ended].

summary(#{events := Events, overwritten := Overwritten, lost := Lost, memory := Memory}) ->
    io:format("  ~b events recorded, ~b overwritten, ~b lost; ~b MiB of memory~n", [
        Events, Overwritten, lists:sum(maps:values(Lost)), Memory bsr 20
    ]).

rotate(N, List) ->
    {A, B} = lists:split(N rem length(List), List),
    B ++ A.

requests() -> counters:get(persistent_term:get(?MODULE), 1).

%% ---- the server -----------------------------------------------------------------

start_server(Sources, Out) ->
    {ok, _} = application:ensure_all_started(inets),
    persistent_term:put(?MODULE, counters:new(1, [])),
    {ok, _} = gen_server:start_link({local, demo_cache}, ?MODULE, [], []),
    register(demo_pool, spawn_link(?MODULE, pool, [])),
    [
        register(list_to_atom("demo_worker_" ++ integer_to_list(N)), spawn_link(?MODULE, worker, [Sources]))
     || N <- lists:seq(1, ?WORKERS)
    ],
    {ok, Server} = inets:start(httpd, [
        {port, 0},
        {bind_address, {127, 0, 0, 1}},
        {server_name, "demo"},
        {server_root, Out},
        {document_root, Out},
        {modules, [?MODULE]}
    ]),
    [{port, Port}] = httpd:info(Server, [port]),
    lists:flatten(io_lib:format("http://127.0.0.1:~b/", [Port])).

%% Callback of an httpd module: called in the process of the connection.
do(#mod{request_uri = "/" ++ File}) ->
    Ref = make_ref(),
    demo_pool ! {job, self(), Ref, File},
    receive
        {answer, Ref, Text} -> {proceed, [{response, {200, Text}}]}
    end.

pool() -> pool(queue:new(), []).

%% Waiting jobs and free workers: at most one of the lists is non-empty.
pool(Jobs, Free) ->
    receive
        {free, Worker} ->
            case queue:out(Jobs) of
                {{value, Job}, Rest} -> Worker ! Job, pool(Rest, Free);
                {empty, _} -> pool(Jobs, [Worker | Free])
            end;
        {job, _, _, _} = Job ->
            case Free of
                [Worker | Rest] -> Worker ! Job, pool(Jobs, Rest);
                [] -> pool(queue:in(Job, Jobs), [])
            end
    end.

worker(Sources) ->
    demo_pool ! {free, self()},
    receive
        {job, From, Ref, File} ->
            From ! {answer, Ref, handle(filename:join(Sources, filename:basename(File)))}
    end,
    worker(Sources).

handle(File) ->
    _ = gen_server:call(demo_cache, {last, File}, infinity),
    Forms = parse(File),
    {ok, Module, Code} = compile(Forms),
    Text = pretty(Forms),
    counters:add(persistent_term:get(?MODULE), 1, 1),
    lists:flatten(io_lib:format("~s: ~b bytes of code~n~ts", [Module, byte_size(Code), Text])).

parse(File) ->
    {ok, Forms} = epp:parse_file(File, []),
    Forms.

compile(Forms) ->
    {ok, Module, Code, _} = compile:forms(Forms, [binary, return]),
    {ok, Module, Code}.

pretty(Forms) ->
    [erl_pp:form(F) || F <- Forms, element(1, F) =/= eof].

%% ---- when files were requested ----------------------------------------------------

init([]) ->
    check_later(),
    {ok, {#{}, lists:seq(1, ?KNOWN), []}}.

check_later() -> erlang:send_after(?CHECK_AFTER, self(), check).

handle_call({last, File}, _From, {Last, Known, Reports}) ->
    {reply, maps:find(File, Last), {Last#{File => erlang:monotonic_time()}, Known, Reports}}.

handle_cast(_, State) -> {noreply, State}.

handle_info({report, To}, {Last, Known, _}) ->
    {noreply, {Last, Known, [To]}};
handle_info(check, {_, Known, Reports} = State) ->
    false = check(500, Known),
    [To ! checked || To <- Reports],
    check_later(),
    {noreply, State}.

%% Creates no garbage, so its whole duration is running time.
check(0, _) -> false;
check(N, Known) -> lists:member(-N, Known) orelse check(N - 1, Known).

%% ---- a client -----------------------------------------------------------------------

client(Url, [File | Files]) ->
    receive
        stop -> ok;
        {next, From} ->
            fetch(Url ++ File),
            From ! answered,
            client(Url, Files ++ [File])
    after 0 ->
        fetch(Url ++ File),
        client(Url, Files ++ [File])
    end.

%% Since OTP 26, httpc loads the system's certificates even if the request needs none and they are
%% not installed, unless it gets explicit options.
fetch(Url) ->
    Options = [{timeout, 30000}, {ssl, []}],
    {ok, {{_, 200, _}, _, Body}} = httpc:request(get, {Url, []}, Options, [{body_format, binary}]),
    true = byte_size(Body) > 0.
