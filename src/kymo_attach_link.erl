%% SPDX-License-Identifier: Apache-2.0
%% @private The attaching side of the connection to {@link kymo_attach_node}, the part of kymo
%% that runs in the recorded node: loads it there, sends requests, and waits for its end.
-module(kymo_attach_link).

-export([connect/2, open/2, reopen/1, load/2, call/2, cast/2, receive_answer/2, finish/1]).
-export_type([t/0, error/0]).

-include_lib("kernel/include/inet.hrl").

-type t() :: {node(), First :: pid(), Monitor :: reference()}.

-type error() ::
    {no_host, Host :: string()}
    | {no_epmd, Host :: string()}
    | {no_node, Name :: string(), Host :: string(), Registered :: [string()]}
    | {no_listener, Host :: string(), inet:port_number(), inet:posix() | timeout}
    | {refused, node()}
    | {old_release, string()}
    | {bad_node, term()}
    | busy
    | in_use
    | not_attached
    | {other_kymo, module()}
    | {old_code, module()}
    | {no_load, module(), term()}
    | {no_module, module()}
    | {no_object, module()}
    | {no_library, kymo_tracer:no_library()}
    | {no_folder, [{file:filename_all(), term()}]}
    | disconnected.

%% The oldest release whose runtime can load kymo.
-define(OLDEST, 25).
-define(CONNECT_TIMEOUT, 5000).

%% @doc Connects, and returns the OTP release of the node. `Port' is the port that the node
%% listens on, for nodes that are not registered with epmd.
-spec connect(node(), Port :: none | inet:port_number()) -> {ok, Release :: string()} | {error, error()}.
connect(Node, Port) ->
    case net_kernel:hidden_connect_node(Node) of
        true -> release(Node);
        _ -> {error, why_not(Node, Port)}
    end.

release(Node) ->
    try erpc:call(Node, erlang, system_info, [otp_release], 15000) of
        Release ->
            case list_to_integer(Release) >= ?OLDEST of
                true -> {ok, Release};
                false -> {error, {old_release, Release}}
            end
    catch
        %% The node has no module erpc, which came with OTP 23.
        error:{exception, undef, _} -> {error, {old_release, "22 or older"}};
        _:Why -> {error, {bad_node, Why}}
    end.

why_not(Node, Port) ->
    [Name, Host] = string:split(atom_to_list(Node), "@"),
    case inet:gethostbyname(Host) of
        {error, _} -> {no_host, Host};
        {ok, _} when Port =:= none -> why_not_registered(Node, Name, Host, erl_epmd:names(Host));
        {ok, #hostent{h_addr_list = [Address | _]}} -> why_not_at(Node, Host, Address, Port)
    end.

why_not_registered(Node, Name, Host, {ok, Registered}) ->
    case lists:keymember(Name, 1, Registered) of
        true -> {refused, Node};
        false -> {no_node, Name, Host, [N || {N, _} <- Registered]}
    end;
why_not_registered(_, _, Host, {error, _}) ->
    {no_epmd, Host}.

why_not_at(Node, Host, Address, Port) ->
    case gen_tcp:connect(Address, Port, [], ?CONNECT_TIMEOUT) of
        {ok, Socket} ->
            ok = gen_tcp:close(Socket),
            {refused, Node};
        {error, Why} ->
            {no_listener, Host, Port, Why}
    end.

%% @doc Starts {@link kymo_attach_node} in the node. From then on, the node cleans up if this
%% process or the connection dies at any moment: a single process of the node loads the module,
%% runs it, and removes it.
-spec open(node(), #{token := string(), folders := [file:filename_all()]}) -> {ok, t()} | {error, error()}.
open(Node, Options) ->
    case object(kymo_attach_node) of
        {ok, {M, MD5, Object}} ->
            Tag = make_ref(),
            Args = Options#{attacher => self(), tag => Tag, modules => modules()},
            Bindings = [
                {'Attacher', self()}, {'Tag', Tag}, {'M', M}, {'MD5', MD5}, {'Object', Object}, {'Args', Args}
            ],
            {First, Monitor} = spawn_monitor(Node, erl_eval, exprs, [bootstrap(), Bindings]),
            receive
                {Tag, ready} -> {ok, {Node, First, Monitor}};
                {Tag, {error, Why}} -> {error, Why};
                abort -> throw({error, aborted});
                {'DOWN', Monitor, process, First, Why} -> {error, down(Why)}
            end;
        {error, _} = Error ->
            Error
    end.

bootstrap() ->
    parse(
        "erlang:process_flag(sensitive, true),"
        "case catch erlang:register(kymo_attach, erlang:self()) of"
        "  true ->"
        "    Before = erlang:module_loaded(M),"
        "    Loaded = case Before of"
        "      true -> {module, M};"
        "      false -> code:load_binary(M, erlang:atom_to_list(M) ++ \".beam\", Object)"
        "    end,"
        "    case Loaded of"
        "      {module, M} ->"
        "        case M:module_info(md5) of"
        "          MD5 -> M:run(Args);"
        "          _ -> Attacher ! {Tag, {error, {other_kymo, M}}}"
        "        end,"
        "        case Before of true -> ok; false -> code:delete(M), code:purge(M) end;"
        "      {error, Why} -> Attacher ! {Tag, {error, {no_load, M, Why}}}"
        "    end;"
        "  _ -> Attacher ! {Tag, {error, busy}}"
        "end."
    ).

parse(Text) ->
    {ok, Tokens, _} = erl_scan:string(Text),
    {ok, Exprs} = erl_parse:parse_exprs(Tokens),
    Exprs.

%% @doc Connects to the part of kymo that an earlier command has left in the node.
-spec reopen(node()) -> {ok, t()} | {error, error()}.
reopen(Node) ->
    Loaded = erpc:call(Node, erlang, module_loaded, [kymo_attach_node], 15000),
    case erpc:call(Node, erlang, whereis, [kymo_attach], 15000) of
        First when Loaded, is_pid(First) -> kept({Node, First, monitor(process, First)});
        _ -> {error, not_attached}
    end.

%% Fails if another command is still attached.
kept(Link) ->
    case call(Link, is_kept) of
        {ok, true} -> {ok, Link};
        {ok, false} -> {error, in_use};
        {error, bad_request} -> {error, {other_kymo, kymo_attach_node}};
        {error, disconnected} -> {error, not_attached}
    end.

%% @doc Loads kymo's modules and library in the node. If the node can read the same file in
%% `Priv', it loads the library from there; otherwise the library is sent.
-spec load(t(), Priv :: file:filename_all()) -> ok | {error, error()}.
load(Link, Priv) ->
    case objects(modules() -- [kymo_attach_node], []) of
        {ok, Objects} ->
            case call(Link, {load, Objects}) of
                ok -> load_library(Link, Priv, file:read_file(filename:join(Priv, "kymo_tracer.so")));
                {error, _} = Error -> Error
            end;
        {error, _} = Error ->
            Error
    end.

load_library(Link, Priv, {ok, Content}) ->
    case call(Link, {library_at, Priv, erlang:md5(Content)}) of
        ok -> ok;
        {error, disconnected} = Error -> Error;
        {error, _} -> call(Link, {library, Content})
    end;
load_library(_, Priv, {error, _}) ->
    {error, {no_library, {missing, "kymo_tracer.so", Priv}}}.

%% The modules that attaching loads in the node.
modules() -> [kymo_attach_node | kymo:modules()].

objects([], Found) ->
    {ok, lists:reverse(Found)};
objects([M | Ms], Found) ->
    case object(M) of
        {ok, Object} -> objects(Ms, [Object | Found]);
        {error, _} = Error -> Error
    end.

object(M) ->
    case code:get_object_code(M) of
        {M, Object, _} -> {ok, {M, code:module_md5(Object), Object}};
        error -> {error, {no_object, M}}
    end.

%% @doc Sends a request and waits for its answer.
-spec call(t(), kymo_attach_node:request()) -> term() | {error, disconnected}.
call(Link, Request) -> receive_answer(Link, cast(Link, Request)).

%% @doc Sends a request. Answers come in the order of requests.
-spec cast(t(), kymo_attach_node:request()) -> reference().
cast({_, First, _}, Request) ->
    Tag = make_ref(),
    First ! {request, self(), Tag, Request},
    Tag.

%% @doc Waits for the answer to a request. The message `abort' ends the wait; the node notices
%% when this process ends.
-spec receive_answer(t(), reference()) -> term() | {error, disconnected}.
receive_answer({_, First, Monitor}, Tag) ->
    receive
        {Tag, Answer} ->
            Answer;
        abort ->
            throw({error, aborted});
        {'DOWN', Monitor, process, First, _} = Down ->
            %% So that the next request fails as well.
            self() ! Down,
            {error, disconnected}
    end.

%% @doc Ends the part of kymo in the node. `ok' means that everything has been removed.
-spec finish(t()) -> ok | {error, disconnected}.
finish({_, First, Monitor} = Link) ->
    _ = cast(Link, finish),
    receive
        {'DOWN', Monitor, process, First, normal} -> ok;
        {'DOWN', Monitor, process, First, _} -> {error, disconnected}
    end.

down(noconnection) -> disconnected;
down(Why) -> {bad_node, Why}.
