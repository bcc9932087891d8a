%% SPDX-License-Identifier: Apache-2.0
%%
%% @doc The smallest useful tracer module, to learn from.
%%
%% Of every message that a traced process or port sends, it tells the tracer
%% process who sent it to whom, as `{trace, From, To}', and nothing more. The
%% work is done in C, in `c_src/classic/erl_msg_tracer.c'.
%%
%% ```
%% $ gcc -I $ERTS/include -fPIC -shared -o erl_msg_tracer.so erl_msg_tracer.c
%% $ erl
%% 1> c(erl_msg_tracer), erl_msg_tracer:load().
%% ok
%% 2> Tracer = spawn(fun F() -> receive M -> io:format("~p~n", [M]), F() end end).
%% 3> erlang:trace(new, true, [send, {tracer, erl_msg_tracer, Tracer}]).
%% '''
%%
%% For recording a node in production use {@link kymo}.
-module(erl_msg_tracer).

-export([enabled/3, load/0, trace/5]).

%% @doc Loads the native half: `erl_msg_tracer.so' in the current directory, or
%% the one that kymo was built with. The error is that of
%% `erlang:load_nif/2'.
-spec load() -> ok | {error, {Reason :: atom(), Text :: string()}}.
load() ->
    Beam = filename:dirname(code:which(?MODULE)),
    Dirs = [".", filename:join([Beam, "..", "priv"])] ++
        [Priv || Priv <- [code:priv_dir(kymo)], is_list(Priv)],
    Found = [File || Dir <- Dirs, File <- [filename:join(Dir, ?MODULE)],
                     filelib:is_regular(File ++ ".so")],
    erlang:load_nif(hd(Found ++ [atom_to_list(?MODULE)]), []).

%% @doc Asked by the runtime before it reports an event. `trace' for `send',
%% and for `trace_status' while the tracer lives; `remove' for `trace_status'
%% once the tracer is dead; `discard' for all else and for the tracer itself.
%% `error' before {@link load/0}: the runtime then takes the tracer off.
-spec enabled(Tag, Tracer, Tracee) -> trace | discard | remove | error when
      Tag :: erl_tracer:trace_tag() | trace_status,
      Tracer :: pid(),
      Tracee :: erl_tracer:tracee().
enabled(_Tag, _Tracer, _Tracee) ->
    error.

%% @doc Sends `{trace, Tracee, Recipient}' to the tracer. Always `ok', also when
%% the tracer has died meanwhile. `error' before {@link load/0}.
-spec trace(Tag, Tracer, Tracee, Message, Opts) -> ok | error when
      Tag :: erl_tracer:trace_tag(),
      Tracer :: pid(),
      Tracee :: erl_tracer:tracee(),
      Message :: term(),
      Opts :: erl_tracer:trace_opts().
trace(_Tag, _Tracer, _Tracee, _Message, _Opts) ->
    error.
