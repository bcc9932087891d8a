%% SPDX-License-Identifier: Apache-2.0
%%
%% Recordings of two connected nodes: what one node records of a message, the other records,
%% too.
-module(kymo_nodes_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-behaviour(gen_server).

-compile(export_all).
-compile(nowarn_export_all).

all() -> [same_references].

init_per_suite(Config) ->
    {module, _} = code:ensure_loaded(kymo),
    case os:find_executable("epmd") of
        false -> {skip, "epmd is not installed"};
        Epmd -> [{epmd, Epmd} | Config]
    end.

end_per_suite(_) -> ok.

%% The nodes have an epmd of their own, which ends with them.
with_nodes(Config, Fun) ->
    {ok, Listen} = gen_tcp:listen(0, []),
    {ok, Number} = inet:port(Listen),
    ok = gen_tcp:close(Listen),
    Epmd = open_port({spawn_executable, ?config(epmd, Config)}, [
        {args, ["-address", "127.0.0.1", "-port", integer_to_list(Number)]}, exit_status, stderr_to_stdout, binary
    ]),
    {os_pid, OsPid} = erlang:port_info(Epmd, os_pid),
    try
        true = kymo_cli:until(fun() ->
            case gen_tcp:connect({127, 0, 0, 1}, Number, []) of
                {ok, S} -> gen_tcp:close(S), true;
                {error, _} -> false
            end
        end),
        Nodes = [
            begin
                {ok, Peer, Node} = peer:start_link(#{
                    connection => standard_io,
                    name => peer:random_name(),
                    host => "127.0.0.1",
                    longnames => true,
                    env => [{"ERL_EPMD_PORT", integer_to_list(Number)}],
                    args => ["-setcookie", "kymo_nodes", "-pa" | code:get_path()]
                }),
                {Peer, Node}
            end
         || _ <- [client, server]
        ],
        try Fun(Nodes) after [peer:stop(Peer) || {Peer, _} <- Nodes] end
    after
        os:cmd("kill " ++ integer_to_list(OsPid)),
        receive {Epmd, {exit_status, _}} -> ok end
    end.

init(none) -> {ok, none}.
handle_call(later, From, none) -> {noreply, From};
handle_call(Request, _, State) -> {reply, Request, State}.
handle_cast(now, From) -> gen_server:reply(From, later), {noreply, none}.

recorder(Dir, Pid) ->
    {ok, R} = kymo:start(#{dir => Dir, owner => none}),
    {ok, _} = kymo:trace(R, #{processes => [Pid], events => [messages]}),
    R.

serve(Dir) ->
    {ok, Pid} = gen_server:start({local, ?MODULE}, ?MODULE, none, []),
    recorder(Dir, Pid).

%% A call with an alias, one with a plain reference, and one whose reply is delayed.
ask(Dir, Node) ->
    R = recorder(Dir, self()),
    hello = gen_server:call({?MODULE, Node}, hello),
    Mref = monitor(process, {?MODULE, Node}),
    {?MODULE, Node} ! {'$gen_call', {self(), Mref}, plain},
    receive {Mref, plain} -> demonitor(Mref, [flush]) end,
    Id = gen_server:send_request({?MODULE, Node}, later),
    gen_server:cast({?MODULE, Node}, now),
    {reply, later} = gen_server:wait_response(Id, 60000),
    {ok, _} = kymo:stop(R),
    ok.

same_references(Config) ->
    [A, B] = [filename:join(?config(priv_dir, Config), Name) || Name <- ["client", "server"]],
    with_nodes(Config, fun([{Client, _}, {Server, Node}]) ->
        R = peer:call(Server, ?MODULE, serve, [B], 60000),
        ok = peer:call(Client, ?MODULE, ask, [A, Node], 60000),
        {ok, _} = peer:call(Server, kymo, stop, [R], 60000)
    end),
    References = fun(Dir, Event, Message) ->
        {0, Out} = kymo_cli:run(["print", "-q", "--json", "--events", Event, Dir]),
        [Ref || L <- binary:split(Out, <<"\n">>, [global, trim]),
                #{<<"message">> := M, <<"reference">> := Ref} <- [kymo_cli:json(binary_to_list(L) ++ "\n")],
                M =:= Message]
    end,
    %% The fourth call ends the recording.
    [_, _, _, _] = All = References(A, "send", <<"call">>),
    Asked = lists:sublist(All, 3),
    ?assertEqual(3, length(lists:usort(Asked))),
    ?assertEqual(Asked, References(B, "receive", <<"call">>)),
    ?assertEqual(Asked, References(B, "send", <<"reply">>)),
    ?assertEqual(Asked, [Ref || Ref <- References(A, "receive", <<"reply">>), lists:member(Ref, Asked)]),
    %% Times of both recordings in one statement.
    {0, Rows} = kymo_cli:run(["sql", "-q", "--csv", A,
        "create virtual table temp.there using kymo('" ++ B ++ "', 'events');"
        "select count(*) from events a join there b on a.reference = b.reference "
        "where a.event = 'send' and b.event = 'receive'"]),
    ?assertEqual(<<"3">>, lists:last(re:split(Rows, "\r?\n", [trim]))).
