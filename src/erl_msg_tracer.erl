%% SPDX-License-Identifier: Apache-2.0
%%
%% @doc The smallest useful tracer module, to learn from.
%%
%% For each message that a traced process or port sends, it sends `{trace, From, To}' to the
%% tracer process, and nothing more. It is written in C: `c_src/classic/erl_msg_tracer.c'.
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
%% To record a node in production, use {@link kymo}.
-module(erl_msg_tracer).

-export([enabled/3, load/0, trace/5]).

%% @doc Loads the C library: `erl_msg_tracer.so' in the current directory, or else the one in
%% kymo's folder `priv'. Errors are those of `erlang:load_nif/2'.
-spec load() -> ok | {error, {Reason :: atom(), Text :: string()}}.
load() ->
    Beam = filename:dirname(code:which(?MODULE)),
    Dirs = [".", filename:join([Beam, "..", "priv"])] ++
        [Priv || Priv <- [code:priv_dir(kymo)], is_list(Priv)],
    Found = [File || Dir <- Dirs, File <- [filename:join(Dir, ?MODULE)],
                     filelib:is_regular(File ++ ".so")],
    erlang:load_nif(hd(Found ++ [atom_to_list(?MODULE)]), []).

%% @doc Called by the runtime before it reports an event. Returns `trace' for `send', and for
%% `trace_status' while the tracer process is alive; `remove' for `trace_status' when it is
%% dead; `discard' for all other events, and for those of the tracer process itself. Before
%% {@link load/0} it returns `error', and the runtime removes the tracer.
-spec enabled(Tag, Tracer, Tracee) -> trace | discard | remove | error when
      Tag :: erl_tracer:trace_tag() | trace_status,
      Tracer :: pid(),
      Tracee :: erl_tracer:tracee().
enabled(_Tag, _Tracer, _Tracee) ->
    error.

%% @doc Sends `{trace, Tracee, Recipient}' to the tracer process. Always returns `ok', even if
%% that process has died; `error' before {@link load/0}.
-spec trace(Tag, Tracer, Tracee, Message, Opts) -> ok | error when
      Tag :: erl_tracer:trace_tag(),
      Tracer :: pid(),
      Tracee :: erl_tracer:tracee(),
      Message :: term(),
      Opts :: erl_tracer:trace_opts().
trace(_Tag, _Tracer, _Tracee, _Message, _Opts) ->
    error.
