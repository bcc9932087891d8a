%% SPDX-License-Identifier: Apache-2.0
%%
%% Follows doc/tutorial.md as a reader would: runs its commands in order in one shell, and makes
%% the change that it describes to the example. claims/0 has what the tutorial says about the
%% output of each command.
-module(kymo_tutorial_SUITE).

-include_lib("common_test/include/ct.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1]).
-export([followed/1, shows_real_output/1]).

all() -> [followed, shows_real_output].

suite() -> [{timetrap, {minutes, 5}}].

init_per_suite(Config) ->
    Sources = filename:dirname(filename:dirname(proplists:get_value(source, kymo:module_info(compile)))),
    {ok, Text} = file:read_file(filename:join([Sources, "doc", "tutorial.md"])),
    [{steps, steps(binary:split(Text, <<"\n">>, [global]))} | Config].

end_per_suite(_) -> ok.

%% ---- the tutorial as steps ----------------------------------------------------------

%% [{run, Command, Lines of output} | {change, Diff}], from the code blocks of the page.
steps([]) -> [];
steps([<<"```diff">> | Lines]) ->
    {Block, Rest} = block(Lines),
    [{change, lists:join("\n", Block)} | steps(Rest)];
steps([<<"```">> | Lines]) ->
    {Block, Rest} = block(Lines),
    commands(Block) ++ steps(Rest);
steps([_ | Lines]) -> steps(Lines).

block(Lines) ->
    {Block, [<<"```">> | Rest]} = lists:splitwith(fun(Line) -> Line =/= <<"```">> end, Lines),
    {Block, Rest}.

commands([]) -> [];
commands([<<"$ ", Command/binary>> | Lines]) ->
    {Output, Rest} = lists:splitwith(fun(Line) -> not is_command(Line) end, Lines),
    [{run, Command, Output} | commands(Rest)].

is_command(<<"$ ", _/binary>>) -> true;
is_command(_) -> false.

%% ---- following the tutorial ---------------------------------------------------------

%% With the address sanitizer the node of the tutorial is so slow that its requests take longer than
%% its recordings.
followed(Config) ->
    case os:getenv("ASAN_OPTIONS") of
        false -> follow(Config);
        _ -> {skip, "too slow with the address sanitizer"}
    end.

follow(Config) ->
    Dir = ?config(priv_dir, Config),
    [Epmd] = kymo_subject:free_ports(1),
    Bin = filename:join(code:root_dir(), "bin"),
    Env = [
        {"HOME", Dir},
        {"ERL_EPMD_PORT", integer_to_list(Epmd)},
        {"PATH", lists:join(":", [Bin, filename:dirname(kymo:cli_path()), os:getenv("PATH")])}
    ],
    kymo_subject:with_epmd(Epmd, fun() ->
        Shell = open_port({spawn_executable, "/bin/bash"}, [
            {args, ["--norc"]},
            {env, [{K, lists:flatten(V)} || {K, V} <- Env]},
            {cd, Dir},
            exit_status,
            stderr_to_stdout,
            binary
        ]),
        try
            [step(Step, Shell, Dir) || Step <- ?config(steps, Config)],
            %% Confirms the fix: prices no longer reads the list in handle_info/2.
            true = reads_in_handle_info(tree(Dir, "before")),
            false = reads_in_handle_info(tree(Dir, "after"))
        after
            _ = run(Shell, "kill %1 2>&-; wait"),
            port_close(Shell)
        end
    end).

step({change, Diff}, Shell, Dir) ->
    ok = file:write_file(filename:join(Dir, "diff"), [Diff, "\n"]),
    {0, _} = run(Shell, "patch -p0 <diff");
step({run, Command, _}, Shell, _) ->
    {Status, Output} = run(Shell, Command),
    ct:log("$ ~ts~n~ts", [Command, Output]),
    {Status, _} = {status(Command), Output},
    true = claim(Command, Output),
    %% A reader would type the next command once the node is up.
    case binary:last(Command) of
        $& -> {0, _} = run(Shell, "until epmd -names | grep -q '^name shop '; do :; done");
        _ -> ok
    end.

%% kymo check has findings.
status(<<"kymo check ", _/binary>>) -> 7;
status(_) -> 0.

%% Returns the output of a command and its status.
run(Shell, Command) ->
    End = integer_to_binary(erlang:unique_integer([positive])),
    port_command(Shell, ["{ ", Command, "\n} </dev/null; echo \"@", End, " $?\"\n"]),
    output(Shell, <<"@", End/binary, " ">>, <<>>).

output(Shell, End, Acc) ->
    case string:split(Acc, End) of
        [Output, Status] ->
            case string:split(Status, "\n") of
                [Number, <<>>] -> {binary_to_integer(Number), Output};
                [_] -> more(Shell, End, Acc)
            end;
        [_] ->
            more(Shell, End, Acc)
    end.

more(Shell, End, Acc) ->
    receive
        {Shell, {data, Data}} -> output(Shell, End, <<Acc/binary, Data/binary>>);
        {Shell, {exit_status, Status}} -> error({shell_ended, Status, Acc})
    end.

%% ---- what the tutorial claims -------------------------------------------------------

%% What must be in the output of the command that begins with the given text. The machine may be
%% busy, so there are no claims about times, nor about findings after the fix.
claims() ->
    [
        {"cp ", []},
        {"erlc ", []},
        {"erl ", []},
        {"kill ", []},
        {"cat shop.log", []},
        {"tail ", ["^(customer [1-4] waited \\d+ ms\n?){4}$"]},
        {"kymo attach shop ", ["(?m)^state +closed: stopped$", "(?m)^lost +nothing$", "(?m)^damage +none$"]},
        {"kymo attach -q shop ", ["^$"]},
        {"kymo check slow", ["(?m)^ *\\d+  .*prices.*  \\[(queueing|slow_server|cpu_hog|memory_growth|stuck_request)\\]$"]},
        %% A customer's request to a cart, which was slow because of the work in prices; or only the
        %% cart's request to prices, if the recording ended between the two replies. The latter may
        %% have been queued behind those of other carts.
        {"kymo why slow", [
            "(?m)^<[\\d.]+> (shop:customer/1.* -> <[\\d.]+> cart_[1-4]|cart_[1-4] -> <[\\d.]+> prices): ",
            "\n.* (running +|queue .* of it running: )<[\\d.]+> prices, mostly in (shop|maps|binary|lists|erlang):"
        ]},
        %% The requests of the carts to prices are below those of the customers.
        {"kymo requests --tree ", [
            "(?m)  prices$", "shop:customer/1.* -> <[\\d.]+> (cart_[1-4])\n.*    <[\\d.]+> \\g1 -> <[\\d.]+> prices"
        ]},
        {"kymo stats before", ["(?m)  shop:handle_call/3$", "(?m)  shop:handle_info/2$", "(?m)  shop:read/1$"]},
        {"kymo print --tree ", [nested()]},
        {"kymo diff before after", [
            "(?m)  shop:handle_call/3$", "(?m) (faster|noise) +shop:handle_info/2$", "(?m)  shop:read/1$"
        ]},
        {"kymo report ", ["^slow.html: [\\d,]+ events, "]}
    ].

claim(Command, Output) ->
    {_, Patterns} = lists:keyfind(true, 1, [{string:prefix(Command, C) =/= nomatch, P} || {C, P} <- claims()]),
    [] =:= [P || P <- Patterns, re:run(Output, P) =:= nomatch].

%% read/1 below handle_info/2, in prices.
nested() -> "> prices .* shop:handle_info/2\n.*> prices .*   shop:read/1".

reads_in_handle_info(Tree) -> re:run(Tree, nested()) =/= nomatch.

tree(Dir, Recording) ->
    {0, Tree} = kymo_cli:run(["print", "--tree", "--pid", "prices", filename:join(Dir, Recording)]),
    Tree.

%% The output blocks on the page match real output, and each claim is about one of them.
shows_real_output(Config) ->
    Runs = [{Command, lists:join("\n", Output)} || {run, Command, Output} <- ?config(steps, Config)],
    [true = claim(Command, Output) || {Command, Output} <- Runs],
    [] = [C || {C, _} <- claims(), [] =:= [x || {Command, _} <- Runs, string:prefix(Command, C) =/= nomatch]].
