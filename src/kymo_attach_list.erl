%% SPDX-License-Identifier: Apache-2.0
%% @private Output of `kymo attach' with --list, --list-recorders and --print: nodes of this
%% machine, recorders, and an expression for the shell of a node.
-module(kymo_attach_list).

-export([nodes/0, expression/2, recorders/1]).

%% @doc A line for each node of this machine that epmd or `/proc' knows.
-spec nodes() -> unicode:chardata().
nodes() ->
    Registered = kymo_attach_proc:registered(),
    Found = [F || #{name := Name} = F <- kymo_attach_proc:nodes(Registered), Name =/= none],
    Known = [hd(string:split(Name, "@")) || #{name := Name} <- Found],
    Rows =
        [["NODE", "PID", "USER", "PORT", "COOKIE"]] ++
            [row(F, Registered) || F <- Found] ++
            [[kymo_attach_text:line(Name), "-", "-", integer_to_list(Port), "-"] || {Name, Port} <- Registered, not lists:member(Name, Known)],
    Widths = [lists:max([string:length(lists:nth(N, Row)) || Row <- Rows]) || N <- [1, 2, 3, 4]] ++ [0],
    [[string:trim(line(Row, Widths), trailing), "\n"] || Row <- Rows].

line(Row, Widths) -> lists:join("  ", [string:pad(Cell, Width) || {Cell, Width} <- lists:zip(Row, Widths)]).

row(#{name := Name, pid := Pid, uid := Uid} = Found, Registered) ->
    Port =
        case lists:keyfind(hd(string:split(Name, "@")), 1, Registered) of
            {_, Number} -> integer_to_list(Number);
            false -> "-"
        end,
    Cookie =
        case kymo_attach_proc:cookie(Found) of
            {_, Source} -> Source;
            none -> "not readable"
        end,
    %% Other users choose the command lines of their processes.
    [kymo_attach_text:line(Name), Pid, kymo_attach_proc:user(Uid), Port, kymo_attach_text:line(Cookie)].

%% @doc An expression that, entered in the shell of a node, records as attaching would. The
%% node must be able to read the folder `Ebin'. It is a single line, and binds no variables.
-spec expression(Ebin :: file:filename_all(), map()) -> unicode:chardata().
expression(Ebin, #{output := Output, start := Start, spec := Spec, for := For}) ->
    Limit =
        case For of
            infinity -> #{};
            _ -> #{limit => #{duration => For}}
        end,
    Options = maps:merge(Start#{dir => Output, owner => none, name => attach}, Limit),
    io_lib:format(
        "begin erlang:module_loaded(kymo) orelse code:load_abs(~0tp), "
        "case kymo:start(~0tp) of {ok, _} -> kymo:trace(attach, ~0tp); E__ -> E__ end end.~n",
        [filename:join(Ebin, "kymo"), Options, Spec]
    ).

%% @doc A line for each recorder of a node, as {@link kymo:list/0} describes it.
-spec recorders([kymo:listed()]) -> unicode:chardata().
recorders([]) ->
    "  no recorders\n";
recorders(Recorders) ->
    [
        ["  ", kymo_attach_text:line(io_lib:format("~ts  ~tp  ~ts~ts", [State, Policy, Dir, [["  name ", atom_to_list(Name)] || Name =/= undefined]])), "\n"]
     || #{state := State, policy := Policy, dir := Dir, name := Name} <- Recorders
    ].
