%% SPDX-License-Identifier: Apache-2.0
%%
%% Nodes that attack what connects to them: a program that runs in a node, and a peer that speaks
%% the distribution protocol itself and answers what it is told to answer.
-module(kymo_evil).

-export([start/1, results/0]).
-export([listen/3, frame/1, frame/2]).

%% ---- in a node ----------------------------------------------------------------

%% Tries to run a command on each side that connects. The command leaves a file in Dir, which anybody may write to.
start(Dir) ->
    Self = self(),
    Pid = spawn(fun() ->
        true = register(?MODULE, self()),
        ok = net_kernel:monitor_nodes(true, [{node_type, all}]),
        Self ! {self(), ready},
        loop(Dir, [])
    end),
    receive {Pid, ready} -> ok end.

%% What was tried, and how it ended.
results() ->
    ?MODULE ! {results, self()},
    receive {?MODULE, Results} -> Results end.

loop(Dir, Results) ->
    receive
        {nodeup, Node, _} ->
            Self = self(),
            spawn(fun() ->
                [Self ! {tried, Name, (catch Attack(Node, Dir ++ "/" ++ atom_to_list(Name)))} || {Name, Attack} <- attacks()]
            end),
            loop(Dir, Results);
        {tried, Name, Result} ->
            loop(Dir, [{Name, Result} | Results]);
        {results, From} ->
            From ! {?MODULE, Results},
            loop(Dir, Results);
        _ ->
            loop(Dir, Results)
    end.

%% One after the other. The last ones would end the other side.
attacks() ->
    [
        {erpc, fun(Node, File) -> erpc:call(Node, os, cmd, [command(File)], 5000) end},
        {rpc, fun(Node, File) -> rpc:call(Node, os, cmd, [command(File)], 5000) end},
        {cast, fun(Node, File) -> rpc:cast(Node, os, cmd, [command(File)]) end},
        {spawned, fun(Node, File) -> spawn(Node, os, cmd, [command(File)]) end},
        {child, fun(Node, File) ->
            Child = #{id => evil, start => {os, cmd, [command(File)]}, restart => temporary},
            gen_server:call({kernel_safe_sup, Node}, {start_child, Child}, 5000)
        end},
        {loaded, fun(Node, File) ->
            Code = [{attribute, 1, module, evil}, {attribute, 1, on_load, {f, 0}},
                {function, 1, f, 0, [{clause, 1, [], [], [erl_parse:abstract(ok)]}]}],
            {ok, evil, Binary} = compile:forms(Code, []),
            {rpc:call(Node, code, load_binary, [evil, "evil.beam", Binary], 5000), File}
        end},
        {cookie, fun(Node, File) ->
            Cookie = rpc:call(Node, erlang, get_cookie, [], 5000),
            is_atom(Cookie) andalso file:write_file(File, atom_to_list(Cookie)),
            Cookie
        end},
        {stop, fun(Node, _) -> {init, Node} ! {stop, stop} end},
        {killed, fun(Node, _) -> exit({init, Node}, kill) end}
    ].

command(File) -> "id > " ++ File.

%% ---- a peer ---------------------------------------------------------------------

%% Accepts connections, one after the other, and answers requests with Answer(Request), where `{ask, Function,
%% Arguments}' is a call of a function of the module erlang. It returns `{answer, Term}', `{frames,
%% [iodata()], Term}', to send these before the answer, `close', to close the connection, `restart', to
%% forget what was sent to it, too, or `default'. Returns the port. The owner gets `{evil, Request}' for each
%% request that is answered, and `{evil, closed}' at the end of a connection. As a node does, it forgets then what
%% was sent to it, unless it was asked to keep that.
listen(Name, Cookie, Answer) ->
    {ok, Listen} = gen_tcp:listen(0, [binary, {active, false}, {packet, 2}, {ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(Listen),
    Owner = self(),
    Pid = spawn_link(fun() -> receive go -> accept(Listen, Name, Cookie, Answer, Owner) end end),
    ok = gen_tcp:controlling_process(Listen, Pid),
    Pid ! go,
    Port.

accept(Listen, Name, Cookie, Answer, Owner) ->
    accept(Listen, Cookie, #{name => Name, answer => Answer, owner => Owner, attached => false, stays => false}).

accept(Listen, Cookie, S) ->
    {ok, Socket} = gen_tcp:accept(Listen),
    Served =
        case greeted(Socket, Cookie, S) of
            ok -> serve(Socket, S);
            %% Only to find out whether somebody listens.
            {error, closed} -> S
        end,
    ok = gen_tcp:close(Socket),
    accept(Listen, Cookie, Served).

greeted(Socket, Cookie, #{name := Name}) ->
    case gen_tcp:recv(Socket, 0) of
        {ok, <<$N, Theirs:64, _/binary>>} ->
            %% Neither a cache of atoms, nor senders, nor parts of messages.
            Flags = Theirs band bnot 16#882000,
            ok = gen_tcp:send(Socket, "sok"),
            ok = gen_tcp:send(Socket, [<<$N, Flags:64, 4711:32, 1:32, (length(Name)):16>>, Name]),
            {ok, <<$r, Challenge:32, _/binary>>} = gen_tcp:recv(Socket, 0),
            ok = gen_tcp:send(Socket, [$a, erlang:md5([Cookie, integer_to_list(Challenge)])]),
            inet:setopts(Socket, [{packet, 4}]);
        {error, closed} = Closed ->
            Closed
    end.

serve(Socket, #{owner := Owner} = S) ->
    case gen_tcp:recv(Socket, 0) of
        {ok, <<>>} ->
            serve(Socket, S);
        {ok, <<112, Data/binary>>} ->
            {Control, Used} = binary_to_term(Data, [used]),
            Rest = binary:part(Data, Used, byte_size(Data) - Used),
            case handle(Control, Rest, Socket, S) of
                {close, Handled} ->
                    %% What was sent before arrives: a socket that is closed with unread data resets the connection.
                    ok = gen_tcp:shutdown(Socket, write),
                    ok = drained(Socket),
                    closed(Handled);
                Handled -> serve(Socket, Handled)
            end;
        {error, _} ->
            closed(S)
    end.

drained(Socket) ->
    case gen_tcp:recv(Socket, 0) of
        {ok, _} -> drained(Socket);
        {error, _} -> ok
    end.

closed(#{owner := Owner, attached := Attached, stays := Stays} = S) ->
    Owner ! {evil, closed},
    S#{attached := Attached andalso Stays}.

handle({29, Ref, From, _, {lists, foldl, 3}, _}, Rest, Socket, S) ->
    [_, [_, [Fun] | Lists], _] = binary_to_term(Rest),
    {name, Name} = erlang:fun_info(Fun, name),
    send(Socket, frame({31, Ref, From, 2, pid(1, S)})),
    Asked = [A || [[A]] <- Lists],
    Reason = case (maps:get(answer, S))({ask, Name, Asked}) of
        {answer, Answer} -> [Answer];
        _ -> try [known(Name, Asked, S)] catch error:Why -> {Why, []} end
    end,
    send(Socket, frame({21, pid(1, S), From, Ref, Reason})),
    S;
handle({29, Ref, From, _, {lists, zipwith, 3}, _}, Rest, Socket, S) ->
    [_, _, Lists] = binary_to_term(Rest),
    [#{tag := Tag, attacher := Attacher}] = [Args || [_, run, [#{tag := _} = Args]] <- Lists],
    send(Socket, frame({31, Ref, From, 3, pid(2, S)})),
    S#{tag => Tag, attacher => Attacher, ref => Ref};
handle({2, _, _}, Rest, Socket, S) ->
    case binary_to_term(Rest) of
        {request, From, Tag, Request} ->
            requested(Request, From, Tag, Socket, S);
        run ->
            S;
        {Tag, go} ->
            send(Socket, frame({2, '', maps:get(attacher, S)}, {Tag, {ready, #{loaded => [], recorders => undefined}}})),
            S#{attached := true, stays := false}
    end;
%% A monitor.
handle({19, _, _, Ref}, _, _, S) ->
    S#{ref => Ref};
handle(_, _, _, S) ->
    S.

requested(Request, From, Tag, Socket, #{answer := Answer} = S) ->
    case Answer(Request) of
        {answer, Term} ->
            answered(Request, Term, From, Tag, Socket, S);
        {frames, Frames, Term} ->
            [send(Socket, F) || F <- Frames],
            answered(Request, Term, From, Tag, Socket, S);
        default ->
            answered(Request, default(Request), From, Tag, Socket, S);
        close ->
            {close, S};
        restart ->
            {close, S#{stays := false}}
    end.

answered(Request, Reply, From, Tag, Socket, #{owner := Owner} = S) ->
    Owner ! {evil, Request},
    Reply =:= none orelse send(Socket, frame({2, '', From}, {Tag, Reply})),
    case Request of
        finish ->
            send(Socket, frame({21, pid(2, S), From, maps:get(ref, S), normal})),
            S#{attached := false};
        {hold, _} ->
            S#{stays := true};
        keep ->
            S#{stays := true};
        _ ->
            S
    end.

known(system_info, [otp_release], _) -> erlang:system_info(otp_release);
known(system_info, [os_type], _) -> {unix, linux};
known(system_info, [Key], _) -> erlang:system_info(Key);
known(module_loaded, [kymo_attach_node], #{attached := Attached}) -> Attached;
known(module_loaded, _, _) -> false;
known(whereis, [kymo_attach], #{attached := true} = S) -> pid(2, S);
known(whereis, _, _) -> undefined;
known(register, _, _) -> true.

default({start, _, _}) -> {ok, #{functions => 1, processes => 1, skipped => [], dir => <<"/tmp/kymo-attach-evil/recording">>}};
default(info) -> {ok, #{state => closed, events => 0, lost => #{}, dir => <<"/tmp/kymo-attach-evil/recording">>, complete_from => 0}};
default(progress) -> {ok, #{state => closed, events => 0, lost => #{}, bytes => 0}};
default(stop) -> {ok, #{state => closed, events => 0, lost => #{}, bytes => 0}};
default(is_kept) -> {ok, true};
default({files, _}) -> {ok, [{"meta", 3}]};
default({read, _, _, _, Size}) -> {ok, binary:copy(<<"x">>, Size)};
default(_) -> ok.

send(Socket, Data) -> gen_tcp:send(Socket, Data).

frame(Control) -> [112, term_to_binary(Control)].

frame(Control, Message) -> [frame(Control), term_to_binary(Message)].

pid(N, #{name := Name}) -> binary_to_term(<<131, 88, 119, (length(Name)), (list_to_binary(Name))/binary, N:32, 0:32, 1:32>>).
