%% SPDX-License-Identifier: Apache-2.0
%%
%% Another runtime behind a port, for benchmarks that measure several side by side. Requests and
%% replies are terms in external format.
-module(bench_worker).

-export([start/3, ask/2, stop/1, serve/1]).

%% @doc Starts the runtime `Erl' with more flags, and in it `Module:worker()', which
%% has to call {@link serve/1}. The caller owns the port.
-spec start(Erl :: string(), Flags :: iolist(), module()) -> port().
start(Erl, Flags, Module) ->
    Path = filename:dirname(code:which(Module)),
    open_port({spawn, lists:flatten([Erl, " ", Flags, " -noshell -noinput -pa ", Path,
                                     " -s ", atom_to_list(Module), " worker"])},
              [{packet, 4}, binary, exit_status, nouse_stdio]).

%% @doc Sends a request and waits for its reply. Raises an error if the runtime ends.
-spec ask(port(), term()) -> term().
ask(Port, Request) ->
    port_command(Port, term_to_binary(Request)),
    receive
        {Port, {data, Reply}} -> binary_to_term(Reply);
        {Port, {exit_status, Status}} -> error({worker_stopped, Status})
    end.

%% @doc Ends the runtime and waits until it has ended.
-spec stop(port()) -> ok.
stop(Port) ->
    port_command(Port, term_to_binary(stop)),
    receive {Port, {exit_status, _}} -> ok end.

%% @doc In the runtime to be measured: serves requests on file descriptors 3 and 4.
-spec serve(fun((term()) -> term())) -> no_return().
serve(Fun) ->
    loop(open_port({fd, 3, 4}, [{packet, 4}, binary, eof]), Fun).

loop(Port, Fun) ->
    receive
        {Port, {data, Request}} ->
            case binary_to_term(Request) of
                stop -> halt(0);
                R -> port_command(Port, term_to_binary(Fun(R)))
            end,
            loop(Port, Fun);
        {Port, eof} ->
            halt(1)
    end.
