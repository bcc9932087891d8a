%% SPDX-License-Identifier: Apache-2.0
%%
%% What a recording says of the ends of processes: the first atom of the reason, and the function at the top of
%% the stack in it. The truth is the reason that a monitor gets.
-module(kymo_exits_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-compile(export_all).
-compile(nowarn_export_all).

all() -> [reasons, server].

suite() -> [{timetrap, {minutes, 2}}].

init_per_testcase(Case, Config) ->
    Dir = filename:join(?config(priv_dir, Config), atom_to_list(Case)),
    ok = file:make_dir(Dir),
    [{dir, filename:join(Dir, "rec")} | Config].

end_per_testcase(_, _) -> ok.

%% Records processes that run these functions. Returns the reason of each, and its row.
ends(Funs, Config) ->
    Dir = ?config(dir, Config),
    {ok, R} = kymo:start(#{dir => Dir}),
    {ok, _} = kymo:trace(R, #{processes => all, events => [procs]}),
    Ended = [ended(Fun) || Fun <- Funs],
    {ok, _} = kymo:stop(R),
    [{Reason, row(Dir, Pid)} || {Pid, Reason} <- Ended].

ended(server) ->
    {ok, Pid} = gen_server:start(?MODULE, [], []),
    Monitor = monitor(process, Pid),
    Pid ! go,
    ended(Pid, Monitor);
ended(Fun) ->
    {Pid, Monitor} = spawn_monitor(Fun),
    ended(Pid, Monitor).

ended(Pid, Monitor) -> receive {'DOWN', Monitor, process, Pid, Reason} -> {Pid, Reason} end.

row(Dir, Pid) ->
    {0, Text} = kymo_cli:run(["sql", "-q", "--json", Dir, "select exit_reason, exit_function from processes where pid = '" ++ pid_to_list(Pid) ++ "'"]),
    #{<<"exit_reason">> := Reason, <<"exit_function">> := Function} = kymo_cli:json(binary_to_list(Text)),
    {Reason, Function}.

%% ---- the truth --------------------------------------------------------------------------

first_atom(Reason) when is_atom(Reason) -> atom_to_binary(Reason);
first_atom(Reason) when is_tuple(Reason), tuple_size(Reason) > 0 -> first_atom(element(1, Reason));
first_atom(_) -> null.

%% The first function in a stack that is not of the module erlang, or else the first.
top({_, [_ | _] = Stack}) when is_list(Stack) ->
    case [E || E <- Stack, element(1, E) =/= erlang] ++ Stack of
        [{M, F, A, _} | _] when is_list(A) -> mfa(M, F, length(A));
        [{M, F, A, _} | _] -> mfa(M, F, A)
    end;
top(_) ->
    null.

mfa(M, F, A) -> iolist_to_binary(io_lib:format("~w:~w/~b", [M, F, A])).

%% ---- cases ------------------------------------------------------------------------------

reasons(Config) ->
    Ended = ends([
        fun() -> ok end,
        fun() -> exit(enough) end,
        fun() -> exit({shutdown, enough}) end,
        fun() -> exit({{{deep, 1}, 2}, 3}) end,
        fun() -> exit("text") end,
        fun() -> exit({"text", 1}) end,
        fun() -> exit({}) end,
        fun() -> exit(self(), kill), receive stop -> ok end end,
        fun() -> ?MODULE:divides(0) end,
        fun() -> ?MODULE:looks_up(#{}) end,
        fun() -> ?MODULE:unknown_function(1, 2) end,
        fun() -> ?MODULE:divides(a, b, c) end,
        fun() -> throw(thrown) end,
        fun() -> error({badkey, lists:seq(1, 100000)}) end,
        fun() -> _ = list_to_integer("x"), ok end
    ], Config),
    _ = [?assertEqual({first_atom(Reason), top(Reason)}, Row) || {Reason, Row} <- Ended],
    %% The last one's top is this suite, not erlang:list_to_integer/1.
    {_, {<<"badarg">>, Last}} = lists:last(Ended),
    ?assertMatch(<<"kymo_exits_SUITE:", _/binary>>, Last),
    %% What looks like a stack and is none.
    NoStacks = ends([
        fun() -> exit({no_stack, [1, 2]}) end,
        fun() -> exit({no_stack, [{m, f, 1}]}) end,
        fun() -> exit({no_stack, [{m, f, a, []}]}) end,
        fun() -> exit({no_stack, [{m, f, 1000, []}]}) end,
        fun() -> exit({no_stack, [{m, f, [a | b], []} | c]}) end,
        fun() -> exit({no_stack, []}) end,
        fun() -> exit({no_stack, a}) end
    ], [{dir, ?config(dir, Config) ++ "2"} | Config]),
    _ = [?assertEqual({<<"no_stack">>, null}, Row) || {_, Row} <- NoStacks].

divides(N) -> 1 / N + 1.

looks_up(Map) -> maps:get(key, Map) + 1.

%% A server that crashes in a callback: print and SQL say where.
server(Config) ->
    [{{{badkey, key}, _} = Reason, Row}] =
        ends([server], Config),
    ?assertEqual({<<"badkey">>, top(Reason)}, Row),
    {0, Text} = kymo_cli:run(["print", "-q", "--events", "exit", ?config(dir, Config)]),
    ?assertNotEqual(nomatch, string:find(Text, ["exit ", element(2, Row), " reason=badkey"])).

init(State) -> {ok, State}.
handle_info(go, _) -> {noreply, looks_up(#{})}.
