%% SPDX-License-Identifier: Apache-2.0
%% @private The attaching side of the connection to {@link kymo_attach_node}, the part of kymo
%% that runs in the recorded node: loads it there, sends requests, and waits for its end.
-module(kymo_attach_link).

-export([connect/3, open/3, reopen/2, why_busy/2, why_unloading/1, ask/4, call_there/3, load/2, call/2, cast/2, receive_answer/2, finish/1, again/3, sweep/4]).
-export([within/2, waiting/2]).
-export_type([t/0, wait/0, error/0, unloading/0]).

-type t() :: {node(), First :: pid(), Monitor :: reference(), wait()}.

%% How long to wait for an answer: until a time of erlang:monotonic_time(millisecond), or for so
%% many milliseconds each time.
-type wait() :: {until, integer()} | {each, non_neg_integer()}.

%% What removing modules waits for.
-type unloading() :: slow | suspended.

-type error() ::
    {no_host, Host :: string()}
    | {no_epmd, Host :: string()}
    | {no_node, Name :: string(), Host :: string(), Registered :: [string()]}
    | {no_listener, Host :: string(), inet:port_number(), inet:posix() | timeout}
    | {refused_call, Call :: atom(), inet:posix()}
    | {refused, node(), Over :: #{port := none | inet:port_number(), tls := boolean()}}
    %% The node has named the reason: its function net_kernel:allow/1 was called without the client's name.
    | {not_allowed, Client :: string()}
    %% When this connected.
    | {ended, node()}
    | {no_tls, ours | theirs, Alert :: atom()}
    | {bad_tls_option, term()}
    %% `epmd': not the node, but the epmd of its host.
    | {no_answer, connect | epmd | ask | load | atom()}
    | {old_release, string()}
    | {bad_node, term()}
    | busy
    %% The node still removes the modules of an earlier command.
    | {unloading, unloading()}
    | name_taken
    | in_use
    %% The recording of a command that has ended is still there.
    | unfetched
    | not_attached
    | {other_kymo, module()}
    | {old_code, module()}
    | {no_load, module(), term()}
    | {no_module, module()}
    | {no_object, module()}
    | {no_library, kymo_tracer:no_library()}
    | {no_folder, [{file:filename_all(), term()}]}
    | no_file_operations
    | no_process
    | {no_code_server, [module()]}
    | disconnected.

%% The oldest release whose runtime can load kymo.
-define(OLDEST, 25).
-define(CONNECT_TIMEOUT, 1000).
%% A node refuses at once. One that does not finish a handshake gives up after the time
%% net_setuptime of the application kernel: seven seconds, unless it was changed.
-define(REFUSAL_TIMEOUT, 4000).
%% Between two attempts to connect again.
-define(RETRY, 500).
%% How long a node takes to end that something has ended.
-define(END_TIMEOUT, 3000).
%% How long to wait for the end of the process in the node, when only modules are left there.
-define(UNLOAD_WAIT, 5000).
%% So often, what ends processes or deletes modules in the node may end those that remove everything, too.
-define(SWEEPS, 6).

%% @doc Connects, and returns the OTP release of the node. The client names the port that the node
%% listens on, if it is not registered with epmd. A node that closes the connection soon
%% refuses it; one that closes it late gave up because it is too busy, so this tries again.
-spec connect(node(), kymo_attach_handshake:client(), wait()) -> {ok, Release :: string()} | {error, error()}.
connect(Node, Client, Wait) ->
    Begun = now_ms(),
    case kymo_attach_wire:connect(Node, Client, max(1, left(Wait))) of
        ok ->
            release(Node, Wait);
        {error, {old_release, _}} = Old ->
            Old;
        {error, timeout} ->
            {error, unanswered(Node, Client)};
        {error, {_, {tls_alert, {Alert, Text}}}} ->
            {error, {no_tls, whose(Text), Alert}};
        {error, {no_connection, Option}} when element(1, Option) =:= options; element(1, Option) =:= option ->
            {error, {bad_tls_option, Option}};
        {error, {no_connection, {badarg, _} = Option}} ->
            {error, {bad_tls_option, Option}};
        {error, {refused, "snot_allowed"}} ->
            {error, {not_allowed, maps:get(name, Client)}};
        {error, Error} ->
            Late = now_ms() - Begun >= ?REFUSAL_TIMEOUT,
            Ends = Error =:= {refused, unheard} andalso not Late andalso ends(Node, Client, now_ms() + min(?END_TIMEOUT, left(Wait))),
            case Ends orelse within(?CONNECT_TIMEOUT, fun() -> why_not(Node, Client) end) of
                true -> {error, {ended, Node}};
                {ok, refused} when Late -> connect_again(Node, Client, Wait);
                {ok, refused} -> {error, {refused, Node, over(Client)}};
                {ok, Why} -> {error, Why};
                none -> {error, {no_answer, connect}}
            end
    end.

%% Whether the node is no longer there soon.
ends(Node, Client, Until) ->
    case within(?CONNECT_TIMEOUT, fun() -> why_not(Node, Client) end) of
        {ok, refused} ->
            receive
                abort -> throw({error, aborted})
            after ?RETRY -> now_ms() < Until andalso ends(Node, Client, Until)
            end;
        {ok, Why} ->
            element(1, Why) =:= no_node orelse element(1, Why) =:= no_listener;
        none ->
            false
    end.

over(#{port := Port, protocol := {_, Transport}}) -> #{port => Port, tls => Transport =/= tcp}.

%% Which side has ended the handshake.
whose(Text) ->
    case string:find(Text, "CLIENT ALERT") of
        nomatch -> theirs;
        _ -> ours
    end.

connect_again(Node, Client, Wait) ->
    case left(Wait) > 0 of
        true -> connect(Node, Client, Wait);
        false -> {error, {no_answer, connect}}
    end.

%% Nothing has come back in time. The reason may be something else than the node.
unanswered(Node, #{port := Port} = Client) ->
    case within(?CONNECT_TIMEOUT, fun() -> why_not(Node, Client) end) of
        {ok, refused} -> {no_answer, connect};
        {ok, Why} -> Why;
        none when Port =:= none -> {no_answer, epmd};
        none -> {no_answer, connect}
    end.

release(Node, Wait) ->
    case ask(Node, system_info, [otp_release], Wait) of
        {ok, Release} ->
            case kymo_attach_answer:release(Release) of
                {ok, Number} when Number >= ?OLDEST -> {ok, Release};
                {ok, _} -> {error, {old_release, Release}};
                {error, _} = Error -> Error
            end;
        {error, _} = Error ->
            Error
    end.

why_not(Node, #{port := Port, protocol := {Family, _}}) ->
    [Name, Host] = string:split(atom_to_list(Node), "@"),
    case inet:getaddr(Host, Family) of
        {error, _} -> {no_host, Host};
        {ok, Address} when Port =:= none -> why_not_registered(Name, Host, erl_epmd:names(Address));
        {ok, Address} -> why_not_at(Host, Address, Port)
    end.

why_not_registered(Name, Host, {ok, Registered}) ->
    case lists:keymember(Name, 1, Registered) of
        true -> refused;
        false -> {no_node, Name, Host, [N || {N, _} <- Registered]}
    end;
why_not_registered(_, Host, {error, _}) ->
    {no_epmd, Host}.

why_not_at(Host, Address, Port) ->
    case gen_tcp:connect(Address, Port, [], ?CONNECT_TIMEOUT) of
        {ok, Socket} ->
            ok = gen_tcp:close(Socket),
            refused;
        {error, Why} ->
            case kymo_attach_calls:is_refusal(Why) of
                true -> {refused_call, connect, Why};
                false -> {no_listener, Host, Port, Why}
            end
    end.

%% @doc Starts {@link kymo_attach_node} in the node. From then on, the node cleans up if this
%% process or the connection dies at any moment: a single process of the node loads the module,
%% runs it, and removes it.
%%
%% That process has the highest priority, and uses only functions that are part of the runtime, and
%% `lists:zipwith/3', which every node has loaded: so it needs no process of the node, which may be
%% suspended or starve. It waits until it has the name `kymo_attach', which only one can have, and
%% is linked to this process until then. It hibernates to call the module, so that it executes no code of
%% OTP from then on: when a node purges a module, the processes that execute its old code are killed.
-spec open(node(), #{token := string(), folders := [file:filename_all()]}, wait()) -> {ok, t()} | {error, error()}.
open(Node, Options, Wait) ->
    case object(kymo_attach_node) of
        {ok, Code} -> open(Node, Options, Code, Wait);
        {error, _} = Error -> Error
    end.

open(Node, Options, {M, MD5, Object} = Code, Wait) ->
    Opened =
        case loaded_md5(Node, M, Wait) of
            {ok, none} -> begin_there(Node, Options, {M, Object}, Wait);
            {ok, MD5} -> begin_there(Node, Options, {M, none}, Wait);
            {ok, _} -> {error, {other_kymo, M}};
            {error, _} = Error -> Error
        end,
    case Opened =:= {error, busy} andalso unloading(Node, Wait) of
        {ok, Pid} -> after_end(Node, Options, Code, Pid, Wait);
        _ -> Opened
    end.

%% The process that still removes modules: `kymo' first, and its own last.
unloading(Node, Wait) ->
    case {ask(Node, module_loaded, [kymo], Wait), ask(Node, whereis, [kymo_attach], Wait)} of
        {{ok, false}, {ok, Pid}} when is_pid(Pid) -> {ok, Pid};
        _ -> false
    end.

after_end(Node, Options, Code, Pid, Wait) ->
    Monitor = kymo_attach_wire:monitor(Node, Pid),
    receive
        {'DOWN', Monitor, process, _, noconnection} -> {error, disconnected};
        {'DOWN', Monitor, process, _, _} -> open(Node, Options, Code, Wait);
        abort -> throw({error, aborted})
    after min(?RETRY, left(Wait)) ->
        ok = kymo_attach_wire:demonitor(Node, Monitor),
        %% It may have just started, and is another command that is attached.
        case left(Wait) of
            0 -> {error, {unloading, why_unloading(Node)}};
            _ -> open(Node, Options, Code, Wait)
        end
    end.

loaded_md5(Node, M, Wait) ->
    case ask(Node, module_loaded, [M], Wait) of
        {ok, true} -> ask(Node, get_module_info, [M, md5], Wait);
        {ok, false} -> {ok, none};
        {error, _} = Error -> Error
    end.

begin_there(Node, Options, {M, Object}, Wait) ->
    %% An earlier process of this command has loaded the module.
    Removes = Object =/= none orelse is_map_key(before, Options),
    Me = kymo_attach_wire:me(Node),
    Tag = kymo_attach_wire:tag(Node),
    Args = Options#{attacher => Me, tag => Tag, modules => modules(), removes => Removes},
    Load = [{erlang, load_module, [M, Object]} || Object =/= none],
    Steps =
        [{erlang, process_flag, [sensitive, true]}, {erts_internal, await_result, [Tag]}, {erlang, unlink, [Me]}] ++
            Load ++ [{erlang, hibernate, [M, run, [Args]]}],
    Funs = [erlang:make_fun(F, G, length(As)) || {F, G, As} <- Steps],
    Lists = [As || {_, _, As} <- Steps],
    Call = {lists, zipwith, [fun erlang:apply/2, Funs, Lists]},
    Monitor = kymo_attach_wire:spawn_request(Node, Call, [spawned, link, monitor, {priority, max}, {max_heap_size, 0}], [Tag]),
    receive
        {spawned, Monitor, First} ->
            Result = named({Node, First, Monitor, Wait}, Tag),
            ok = kymo_attach_wire:unlink(Node, First),
            opened(Result, Removes, Options);
        {'DOWN', Monitor, process, _, Why} ->
            {error, down(Why)};
        abort ->
            throw({error, aborted})
    after left(Wait) ->
        {error, {no_answer, load}}
    end.

%% The calling process remembers what was in the node, for sweep/4.
opened({ok, Link, Before}, true, Options) ->
    _ = put({?MODULE, opened}, Options#{before => Before}),
    {ok, Link};
opened({ok, Link, _}, false, _) ->
    {ok, Link};
opened({error, _} = Error, _, _) ->
    Error.

named({Node, First, _, Wait} = Link, Tag) ->
    case ask(Node, whereis, [kymo_attach], Wait) of
        {ok, undefined} ->
            case ask(Node, register, [kymo_attach, First], Wait) of
                {ok, true} ->
                    %% The first message, which nobody takes, lets it continue when it hibernates.
                    ok = kymo_attach_wire:send(Node, First, run),
                    ok = kymo_attach_wire:send(Node, First, {Tag, go}),
                    ready(Link, Tag);
                {error, {bad_node, _}} ->
                    kymo_attach_wire:exit(Node, First, kill),
                    {error, busy};
                {error, _} = Error ->
                    kymo_attach_wire:exit(Node, First, kill),
                    Error
            end;
        {ok, Pid} ->
            kymo_attach_wire:exit(Node, First, kill),
            %% Without the module, it is no process of kymo, or one that has just started, or removes the module.
            case ask(Node, module_loaded, [kymo_attach_node], Wait) of
                {ok, false} -> taken_by(ask(Node, process_info, [Pid, initial_call], Wait));
                _ -> {error, busy}
            end;
        {error, _} = Error ->
            kymo_attach_wire:exit(Node, First, kill),
            Error
    end.

%% kymo's process begins with lists:zipwith/3 (begin_there/4).
taken_by({ok, {initial_call, {lists, zipwith, 3}}}) -> {error, busy};
taken_by({ok, undefined}) -> {error, busy};
taken_by({ok, _}) -> {error, name_taken};
%% A function whose name is not known here.
taken_by({error, {bad_node, _}}) -> {error, name_taken};
taken_by({error, _} = Error) -> Error.

ready({_, First, Monitor, Wait} = Link, Tag) ->
    receive
        {Tag, {ready, Before}} -> {ok, Link, Before};
        {Tag, {error, Why}} ->
            %% It removes its module now.
            receive {'DOWN', Monitor, process, First, _} -> {error, Why} after left(Wait) -> {error, Why} end;
        abort -> throw({error, aborted});
        {'DOWN', Monitor, process, First, {undef, [{kymo_attach_node = M, run, _, _} | _]}} -> {error, {no_load, M, badfile}};
        {'DOWN', Monitor, process, First, Why} -> {error, down(Why)}
    after left(Wait) -> {error, {no_answer, load}}
    end.

%% @doc Calls a function of the module `erlang' in the node, with one or two arguments. A process of
%% the highest priority does this, with nothing but functions that every node has loaded; the
%% result is the reason of its exit.
-spec ask(node(), Function :: atom(), [term()], wait()) -> {ok, term()} | {error, error()}.
ask(Node, Function, Args, Wait) ->
    Fun = erlang:make_fun(erlang, Function, length(Args)),
    %% Applied to the first list of arguments, the first function returns [[Result]], and exit/1 takes
    %% this as its list of arguments.
    {First, Call} =
        case Args of
            [A] -> {fun lists:zipwith/3, [fun lists:map/2, [Fun], [[A]]]};
            [A, B] -> {fun lists:zipwith3/4, [fun lists:zipwith/3, [Fun], [[A]], [[B]]]}
        end,
    Run = {lists, foldl, [fun erlang:apply/2, Call, [First, fun erlang:exit/1]]},
    Monitor = kymo_attach_wire:spawn_request(Node, Run, [monitor, {priority, max}, {max_heap_size, 0}], []),
    receive
        {'DOWN', Monitor, process, _, [Result]} -> kymo_attach_answer:known(Function, Args, Result);
        {'DOWN', Monitor, process, _, Why} -> {error, down(Why)};
        abort -> throw({error, aborted})
    after left(Wait) ->
        ok = kymo_attach_wire:demonitor(Node, Monitor),
        {error, {no_answer, ask}}
    end.

%% @doc Calls any function in the node, in a process of normal priority.
-spec call_there(node(), {module(), Function :: atom(), [term()]}, wait()) -> {ok, term()} | {error, error()}.
call_there(Node, {M, F, As}, Wait) ->
    Tag = kymo_attach_wire:tag(Node),
    %% What erpc:call/4 of another node does.
    Monitor = kymo_attach_wire:spawn_request(Node, {erpc, execute_call, [Tag, M, F, As]}, [monitor, {max_heap_size, 0}], []),
    receive
        {'DOWN', Monitor, process, _, {Tag, return, Result}} -> {ok, Result};
        {'DOWN', Monitor, process, _, Why} -> {error, down(Why)};
        abort -> throw({error, aborted})
    after left(Wait) ->
        ok = kymo_attach_wire:demonitor(Node, Monitor),
        {error, {no_answer, ask}}
    end.

%% @doc Connects to the part of kymo that an earlier command has left in the node.
-spec reopen(node(), wait()) -> {ok, t()} | {error, error()}.
reopen(Node, Wait) ->
    case {ask(Node, module_loaded, [kymo_attach_node], Wait), ask(Node, whereis, [kymo_attach], Wait)} of
        {{ok, true}, {ok, First}} when is_pid(First) -> kept({Node, First, kymo_attach_wire:monitor(Node, First), Wait});
        {{error, _} = Error, _} -> Error;
        {_, {error, _} = Error} -> Error;
        _ -> {error, not_attached}
    end.

%% Fails if another command is still attached.
kept(Link) ->
    case call(Link, is_kept) of
        {ok, true} -> {ok, Link};
        {ok, false} -> {error, in_use};
        {error, bad_request} -> {error, {other_kymo, kymo_attach_node}};
        {error, disconnected} -> {error, not_attached};
        {error, _} = Error -> Error
    end.

%% @doc Why the node is busy: something was left there, or another command is attached.
-spec why_busy(node(), wait()) -> busy | in_use | unfetched | error().
why_busy(Node, Wait) ->
    case reopen(Node, Wait) of
        {ok, Link} ->
            case call(Link, is_held) of
                {ok, true} -> unfetched;
                _ -> busy
            end;
        {error, in_use} -> in_use;
        %% It is being removed, or has just begun.
        {error, Why} when Why =:= not_attached; element(1, Why) =:= no_answer -> in_use;
        {error, Why} -> Why
    end.

%% @doc What the node, which removes modules, waits for.
-spec why_unloading(node()) -> unloading().
why_unloading(Node) ->
    Wait = {until, now_ms() + ?RETRY},
    case ask(Node, whereis, [erts_code_purger], Wait) of
        {ok, Purger} when is_pid(Purger) ->
            case ask(Node, process_info, [Purger, status], Wait) of
                {ok, {status, suspended}} -> suspended;
                _ -> slow
            end;
        _ ->
            slow
    end.

%% @doc The same connection with another limit for its requests.
-spec waiting(t(), wait()) -> t().
waiting({Node, First, Monitor, _}, Wait) -> {Node, First, Monitor, Wait}.

%% @doc Loads kymo's modules and library in the node. If the node can read the same file in
%% `Priv', it loads the library from there; otherwise the library is sent.
-spec load(t(), Priv :: file:filename_all()) -> ok | {error, error()}.
load(Link, Priv) ->
    case load_modules(Link) of
        ok -> load_library(Link, Priv, file:read_file(filename:join(Priv, "kymo_tracer.so")));
        {error, _} = Error -> Error
    end.

load_modules(Link) ->
    case objects(modules() -- [kymo_attach_node], []) of
        {ok, Objects} -> call(Link, {load, Objects});
        {error, _} = Error -> Error
    end.

load_library(Link, Priv, {ok, Content}) ->
    case call(Link, {library_at, Priv, erlang:md5(Content)}) of
        ok -> ok;
        {error, disconnected} = Error -> Error;
        {error, {no_answer, _}} = Error -> Error;
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
-spec call(t(), kymo_attach_node:request()) -> term() | {error, disconnected | {no_answer, answer}}.
call(Link, Request) -> kymo_attach_answer:checked(Request, receive_answer(Link, cast(Link, Request))).

%% @doc Sends a request. Answers come in the order of requests.
-spec cast(t(), kymo_attach_node:request()) -> reference().
cast({Node, First, _, _}, Request) ->
    Tag = kymo_attach_wire:tag(Node),
    ok = kymo_attach_wire:request(Node, First, Tag, {request, kymo_attach_wire:me(Node), Tag, Request}),
    Tag.

%% @doc Waits for the answer to a request. The message `abort' ends the wait; the node notices
%% when this process ends.
-spec receive_answer(t(), reference()) -> term() | {error, disconnected | {no_answer, answer}}.
receive_answer({_, First, Monitor, Wait}, Tag) ->
    receive
        {Tag, Answer} ->
            Answer;
        abort ->
            throw({error, aborted});
        {'DOWN', Monitor, process, First, _} = Down ->
            %% So that the next request fails as well.
            self() ! Down,
            {error, disconnected}
    after left(Wait) -> {error, {no_answer, answer}}
    end.

%% @doc Ends the part of kymo in the node. `ok' means that everything has been removed, and `unloading' that
%% only modules are left, which the node goes on to remove by itself.
-spec finish(t()) -> ok | unloading | {error, disconnected | {no_answer, finish} | {left, [binary()]} | {bad_node, term()}}.
finish({_, First, Monitor, Wait} = Link) ->
    Tag = cast(Link, finish),
    receive
        {Tag, _} ->
            receive
                {'DOWN', Monitor, process, First, noconnection} -> {error, disconnected};
                {'DOWN', Monitor, process, First, _} -> ok
            after min(?UNLOAD_WAIT, left(Wait)) -> unloading
            end;
        {'DOWN', Monitor, process, First, normal} -> ok;
        {'DOWN', Monitor, process, First, {left, Folders}} -> kymo_attach_answer:left(Folders);
        {'DOWN', Monitor, process, First, _} -> {error, disconnected}
    after left(Wait) -> {error, {no_answer, finish}}
    end.

%% @doc Connects again to the part of kymo in the node, which keeps a recording, after the connection was lost or
%% the node did not answer. Tries that until the time is over; `not_attached' if there is nothing in the
%% node.
-spec again(node(), kymo_attach_handshake:client(), {until, integer()}) -> {ok, t()} | {error, error()}.
again(Node, Client, Wait) ->
    ok = kymo_attach_wire:disconnect(Node),
    Result =
        case connect(Node, Client, Wait) of
            {ok, _} -> reopen(Node, Wait);
            {error, _} = Error -> Error
        end,
    case Result of
        {ok, _} ->
            Result;
        {error, Why} ->
            case left(Wait) =:= 0 orelse (Why =:= not_attached andalso kymo_attach_wire:is_connected(Node)) of
                true ->
                    Result;
                %% As with `in_use', when the node has not noticed yet that the connection was lost.
                false ->
                    receive abort -> throw({error, aborted}) after min(?RETRY, left(Wait)) -> again(Node, Client, Wait) end
            end
    end.

%% @doc Removes what this process has put into the node with {@link open/3}, after the processes there
%% were killed, its modules deleted, or the connection was lost; the process that holds it in the node may have
%% been killed, too. Also removes what is left of this specification. Connects again if necessary; `lost'
%% if that fails, or if there is nothing to remove.
-spec sweep(node(), kymo_attach_handshake:client(), none | kymo:trace_spec(), wait()) -> ok | unloading | lost | {error, error()}.
sweep(Node, Client, Spec, Wait) ->
    case get({?MODULE, opened}) of
        undefined ->
            lost;
        Options ->
            case connected(Node, Client, Wait) of
                true -> removed(Node, Client, Options, Spec, Wait, ?SWEEPS);
                false -> lost
            end
    end.

connected(Node, Client, Wait) -> kymo_attach_wire:is_connected(Node) orelse element(1, connect(Node, Client, Wait)) =:= ok.

%% What disturbs that, such as a loop over all modules or processes, may not have ended yet, and may end the process
%% of the connection, too.
removed(Node, Client, Options, Spec, Wait, Attempts) ->
    case removed(Node, Options, Spec, Wait) of
        {error, disconnected} when Attempts > 1 ->
            receive abort -> throw({error, aborted}) after ?RETRY -> ok end,
            case connected(Node, Client, Wait) of
                true -> removed(Node, Client, Options, Spec, Wait, Attempts - 1);
                false -> {error, disconnected}
            end;
        Result ->
            Result
    end.

%% The guard may be doing that already; then its process has the name.
removed(Node, Options, Spec, Wait) ->
    case ask(Node, whereis, [kymo_attach], Wait) of
        {ok, Pid} when is_pid(Pid) ->
            Monitor = kymo_attach_wire:monitor(Node, Pid),
            receive
                {'DOWN', Monitor, process, _, _} -> removed(Node, Options, Spec, Wait);
                abort -> throw({error, aborted})
            after left(Wait) ->
                ok = kymo_attach_wire:demonitor(Node, Monitor),
                case unloading(Node, Wait) of
                    {ok, Pid} -> unloading;
                    _ -> {error, {no_answer, finish}}
                end
            end;
        {ok, _} ->
            case open(Node, Options, Wait) of
                {ok, Link} ->
                    Cleared = cleared(Link, Spec),
                    case finish(Link) of
                        Finished when Cleared =:= ok -> Finished;
                        {error, _} = Error -> Error;
                        _ -> Cleared
                    end;
                {error, _} = Error ->
                    Error
            end;
        {error, _} = Error ->
            Error
    end.

%% The modules may have been removed already.
cleared(_, none) ->
    ok;
cleared(Link, Spec) ->
    case load_modules(Link) of
        ok -> call(Link, {clear_left, Spec});
        {error, _} = Error -> Error
    end.

now_ms() -> erlang:monotonic_time(millisecond).

left({until, End}) -> max(0, End - now_ms());
left({each, Ms}) -> Ms.

%% @doc Runs a function that may hang, in a process of its own, and returns its result, or `none'
%% if there is none within so many milliseconds. The message `abort' ends the wait.
-spec within(non_neg_integer(), fun(() -> Result)) -> {ok, Result} | none.
within(Ms, Fun) ->
    Self = self(),
    Tag = make_ref(),
    {Pid, Monitor} = spawn_monitor(fun() -> Self ! {Tag, Fun()} end),
    receive
        {Tag, Result} ->
            true = demonitor(Monitor, [flush]),
            {ok, Result};
        {'DOWN', Monitor, process, Pid, _} ->
            none;
        abort ->
            throw({error, aborted})
    after Ms ->
        true = exit(Pid, kill),
        %% A result that is sent until then is dropped.
        receive {'DOWN', Monitor, process, Pid, _} -> ok end,
        receive {Tag, _} -> none after 0 -> none end
    end.

down(noconnection) -> disconnected;
down(system_limit) -> no_process;
down(Why) -> {bad_node, Why}.
