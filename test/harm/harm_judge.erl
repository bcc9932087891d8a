%% SPDX-License-Identifier: Apache-2.0
%%
%% Starts a node for each program of this folder, runs kymo on it as a user would, and prints one
%% line for each: survived, refused: SENTENCE, or harmed: WHAT. README.md says what that means.
-module(harm_judge).

-export([main/0, table/0]).

-define(LIMIT, 60000). % of one command
-define(OURS, "kymo-|kymo_"). % names of files of the tool

%% What about/0 of a program can say; source and condition are required.
defaults() ->
    #{
        tool => [attach],      % steps, in this order: see step/2
        args => [],            % more arguments of erl
        erl => {25, 99},       % releases for which the program is
        node => "exec \"$@\"", % shell command that starts the node
        refusal => none,       % regular expression: the true reason for which the tool may refuse
        remedy => "--[a-z]|try|again|use |stop|resume|free|rais|increas|wait|set |start|remov|run |detach|name|end ",
        stalls => false,       % may the node be slow to answer by itself?
        ends => false,         % does the node end (true), or start anew (again), by itself?
        ignore => [],          % facts of harm:footprint/1 that the condition itself changes
        log => none,           % regular expression: lines that the node may log
        shell => none,         % what is typed into the node during the recording
        recording => fun(_, _) -> [] end % (folder, truth after): what is wrong with the recording
    }.

main() ->
    [Erl, Out | Names] = init:get_plain_arguments(),
    put(log, Out ++ ".log"),
    Release = release(Erl),
    Wanted = [list_to_atom("harm_" ++ N) || N <- Names],
    Results = [kept(Out, judge(Erl, Release, P)) || P <- Wanted, for(P, Release)],
    halt(min(1, length([x || {_, _, {harmed, _}, _} <- Results]))).

kept(Out, {Name, Release, Verdict, First}) ->
    Result = {Name, Release, text(Verdict), First},
    ok = file:write_file(Out, unicode:characters_to_binary(io_lib:format("~tp.~n", [Result])), [append]),
    Result.

text({Kind, Text}) -> {Kind, unicode:characters_to_list(Text)};
text(Verdict) -> Verdict.

for(Program, Release) ->
    {From, To} = maps:get(erl, about(Program)),
    From =< Release andalso Release =< To.

about(Program) ->
    About = maps:merge(defaults(), Program:about()),
    About#{during => erlang:function_exported(Program, during, 1)}.

release(Erl) ->
    list_to_integer(string:trim(os:cmd(Erl ++ " -noinput -eval 'io:put_chars(erlang:system_info(otp_release)), halt().'"))).

judge(Erl, Release, Program) ->
    About = about(Program),
    Dir = string:trim(os:cmd("mktemp -d /tmp/harm.XXXXXX")),
    Node = spawn_node(Erl, Program, About, Dir),
    put(first, none),
    erase(folder),
    put(told, false),
    Verdict =
        case until_ready(Node) of
            {ok, Ctx} ->
                try
                    Before = truth(Ctx, "before"),
                    Harms = lists:flatmap(fun(Step) -> step(Step, Ctx#{before => Before}) end, maps:get(tool, About)),
                    Refused = [S || {refused, S} <- Harms],
                    put(told, re:run(Refused, "stays on its machine", [{capture, none}]) =:= match),
                    case lists:usort(Harms -- [{refused, S} || S <- Refused]) ++ compare(Ctx, Before) of
                        [] when Refused =:= [] -> survived;
                        [] -> {refused, hd(Refused)};
                        Bad -> {harmed, lists:join("; ", Bad)}
                    end
                catch
                    throw:What -> {harmed, [What]}
                end;
            {error, What} ->
                {broken, What}
        end,
    log("~ts~n", [lists:join("\n", lists:reverse(maps:get(lines, ask(Node))))]),
    stop_node(Node),
    os:cmd("umount " ++ Dir ++ "/* 2>/dev/null; rm -rf " ++ Dir),
    "harm_" ++ Name = atom_to_list(Program),
    io:format("~-24s ~w  ~ts  (~s)~n", [Name, Release, words(Verdict), first(get(first))]),
    {Name, Release, Verdict, get(first)}.

words(survived) -> "survived";
words({Kind, Text}) -> [atom_to_list(Kind), ": ", Text].

first(none) -> "nothing recorded, no refusal";
first(Ms) -> io_lib:format("~.1f s", [Ms / 1000]).

%% ---- the node: a process that owns its port and the connection of the program ----

spawn_node(Erl, Program, About, Dir) ->
    Judge = self(),
    "harm_" ++ Short = atom_to_list(Program),
    Name = "harm" ++ os:getpid() ++ Short,
    spawn_link(fun() ->
        {ok, Listen} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}, {packet, 4}, {active, true}, {reuseaddr, true}]),
        {ok, TcpPort} = inet:port(Listen),
        Tmp = Dir ++ "/tmp",
        ok = file:make_dir(Tmp),
        Input = case maps:get(shell, About) of none -> ["-noinput"]; _ -> [] end,
        Args = ["-c", maps:get(node, About), "sh", Erl] ++ Input ++
            ["-sname", Name, "-setcookie", "harm", "-pa", filename:dirname(code:which(?MODULE)), "-eval", "{module, _} = code:load_file(harm), harm:start()."] ++
            maps:get(args, About),
        Env = [{"HARM_PORT", integer_to_list(TcpPort)}, {"HARM_NAME", atom_to_list(Program)}, {"HARM_DIR", Dir},
            {"TMPDIR", Tmp}, {"ERL_CRASH_DUMP", "/dev/null"}],
        Port = open_port({spawn_executable, "/bin/sh"},
            [{args, Args}, {env, Env}, {cd, Dir}, {line, 2000}, exit_status, stderr_to_stdout, binary]),
        {os_pid, Group} = erlang:port_info(Port, os_pid),
        node_loop(accept(Listen, #{port => Port, listen => Listen, group => Group, judge => Judge, name => Name,
            dir => Dir, about => About, socket => none, lines => [], truths => [], pings => #{}, max => 0, dead => false}))
    end).

%% The program connects once, and again when its node starts anew.
accept(Listen, State) ->
    Owner = self(),
    spawn_link(fun Accept() ->
        case gen_tcp:accept(Listen) of
            {ok, Socket} -> ok = gen_tcp:controlling_process(Socket, Owner), Owner ! {socket, Socket}, Accept();
            _ -> ok
        end
    end),
    {ok, _} = timer:send_interval(200, ping),
    State.

node_loop(#{port := Port, socket := Socket, judge := Judge, pings := Pings} = State) ->
    receive
        {Port, {data, {_, Line}}} ->
            #{lines := Lines} = State,
            node_loop(State#{lines := [Line | Lines]});
        {Port, {exit_status, Status}} ->
            Judge ! {node_died, Status},
            node_loop(State#{dead := Status});
        {socket, New} -> node_loop(State#{socket := New, pings := #{}});
        {tcp, Socket, "PONG " ++ N} ->
            node_loop((longest(State))#{pings := maps:remove(N, Pings)});
        {tcp, Socket, "READY " ++ Pid} ->
            Judge ! {ready, State#{os_pid => Pid, node => self()}},
            node_loop(State);
        {tcp, Socket, "TRUTH " ++ Facts} ->
            Judge ! {truth, string:lexemes(Facts, " ")},
            node_loop(State);
        ping when Socket =/= none ->
            N = integer_to_list(erlang:unique_integer([positive])),
            _ = gen_tcp:send(Socket, ["ping ", N]),
            node_loop((longest(State))#{pings := Pings#{N => erlang:monotonic_time(millisecond)}});
        {send, Text} when Socket =/= none ->
            _ = gen_tcp:send(Socket, Text),
            node_loop(State);
        {type, Text} ->
            port_command(Port, Text),
            node_loop(State);
        {ask, From} ->
            From ! {node, longest(State)},
            node_loop(State);
        calm ->
            node_loop(State#{max := 0, lines := []});
        {stop, From} ->
            catch port_close(Port),
            From ! stopped;
        _ -> node_loop(State)
    end.

longest(#{pings := Pings, max := Max} = State) ->
    Now = erlang:monotonic_time(millisecond),
    State#{max := lists:max([Max | [Now - T || T <- maps:values(Pings)]])}.

ask(Node) ->
    Node ! {ask, self()},
    receive {node, State} -> State end.

until_ready(Node) ->
    receive
        {ready, Ctx} -> {ok, Ctx};
        {node_died, _} -> {error, ["the node ended: ", last_line(Node)]}
    after 60000 -> {error, ["not ready after a minute: ", last_line(Node)]}
    end.

last_line(Node) ->
    #{dead := Status, lines := All} = ask(Node),
    Lines = [L || L <- All, L =/= <<>>],
    io_lib:format("~ts (exit status ~w)", [hd([L || L <- Lines, slogan(L)] ++ Lines ++ ["no output"]), Status]).

slogan(Line) -> re:run(Line, "erminat|egmentation|abort|system_limit|crash|no more", [{capture, none}]) =:= match.

stop_node(Node) ->
    #{group := Group} = ask(Node),
    os:cmd(io_lib:format("kill -s CONT -- -~w; kill -s KILL -- -~w", [Group, Group])),
    unlink(Node),
    Node ! {stop, self()},
    receive stopped -> ok end,
    flush().

flush() ->
    receive _ -> flush() after 0 -> ok end.

%% ---- truths ----

truth(#{node := Node, name := Name}, When) ->
    Node ! {send, When},
    receive
        {truth, Facts} ->
            log("~s: TRUTH ~ts~n", [Name, lists:join(" ", Facts)]),
            [F || F <- Facts, F =/= "when=" ++ When];
        {node_died, _} -> throw(["crash: the node ended: ", last_line(Node)])
    after 30000 -> throw(["stuck: no truth " ++ When ++ " in 30 s"])
    end.

%% All that was said, beside the results.
log(Format, Args) -> ok = file:write_file(get(log), unicode:characters_to_binary(io_lib:format(Format, Args)), [append]).

%% What differs afterwards. A tool may take ten seconds to clean up.
compare(Ctx, Before) -> compare(Ctx, Before, erlang:monotonic_time(millisecond) + 10000).

compare(Ctx, Before, Until) ->
    case differences(Before, Ctx) ++ left_over(Ctx) of
        [] -> in_the_end(Ctx);
        Differences ->
            case erlang:monotonic_time(millisecond) < Until of
                true -> receive after 500 -> compare(Ctx, Before, Until) end;
                false -> Differences ++ in_the_end(Ctx)
            end
    end.

differences(_, #{about := #{ends := Ends}}) when Ends =/= false -> [];
differences(Before, #{about := #{ignore := Ignore}} = Ctx) ->
    After = maps:from_list([fact(F) || F <- truth(Ctx, "after")]),
    [changed(Key, Was, Is) ||
        {Key, Was} <- [fact(F) || F <- Before], string:prefix(Key, "info_") =:= nomatch, not lists:member(list_to_atom(Key), Ignore),
        Is <- [maps:get(Key, After, maps:get("truth_failed", After, "unknown"))], Is =/= Was].

%% Of long lists, what has come and gone.
changed(Key, Was, Is) ->
    case [string:lexemes(string:slice(T, 1, length(T) - 2), ",") || T <- [Was, Is], [$[ | _] <- [T]] of
        [A, B] when length(A) + length(B) > 4 -> io_lib:format("~s: gone ~s, new ~s", [Key, cut(lists:join(",", A -- B)), cut(lists:join(",", B -- A))]);
        _ -> io_lib:format("~s was ~s, is ~s", [Key, cut(Was), cut(Is)])
    end.

fact(Text) ->
    [Key, Value] = string:split(Text, "="),
    {Key, Value}.

cut(Text) ->
    case lists:flatten(Text) of
        [] -> "none";
        Long when length(Long) > 90 -> lists:sublist(Long, 85) ++ " ...";
        Short -> Short
    end.

%% Seen from outside: files of the tool, and what the node holds of it. When the node has died, the
%% recording may stay if the command says so.
left_over(#{dir := Dir, os_pid := Pid, about := #{ends := Ends}}) ->
    Files = [F || not get(told), F <- files(Dir), re:run(F, "kymo", [{capture, none}]) =:= match],
    Held = [{File, L} || Ends =/= true, File <- ["maps", "fd"], L <- held(Pid, File)],
    [["left in the file system: ", hd(Files)] || Files =/= []] ++
        [["still held: ", L] || {_, L} <- lists:sublist(Held, 1)].

files(Dir) -> string:lexemes(os:cmd("find " ++ Dir ++ "/tmp " ++ named() ++ " 2>/dev/null"), "\n").

%% The folder that the tool said it uses in the node.
named() ->
    case get(folder) of
        undefined -> "";
        Folder -> Folder
    end.

%% The library stays mapped, which is documented.
held(Pid, "maps") -> string:lexemes(os:cmd("grep -aE '" ++ ?OURS ++ "' /proc/" ++ Pid ++ "/maps 2>/dev/null | grep -v '\\.so' | sed 's/.* //' | sort -u"), "\n");
held(Pid, "fd") -> string:lexemes(os:cmd("ls -l /proc/" ++ Pid ++ "/fd 2>/dev/null | grep -E '" ++ ?OURS ++ "' | sed 's/.*-> //'"), "\n").

in_the_end(#{node := Node, about := About}) ->
    #{max := Max, lines := Lines, dead := Dead} = ask(Node),
    #{stalls := Stalls, ends := Ends, log := Log} = About,
    Logged = [L || L <- lists:reverse(Lines), L =/= <<>>, Log =:= none orelse re:run(L, Log, [{capture, none}]) =:= nomatch],
    [io_lib:format("stall: the node did not answer for ~w ms", [Max]) || Max > 5000, not Stalls, Ends =:= false] ++
        [["crash: the node ended: ", last_line(Node)] || Dead =/= false, Ends =:= false] ++
        [["logged: ", hd([L || L <- Logged ++ Logged, slogan(L)] ++ Logged)] || Logged =/= [], Ends =:= false].

%% ---- what a user does ----

step(attach, Ctx) -> step({attach, []}, Ctx);
step({attach, More}, #{name := Name} = Ctx) ->
    record(["attach", Name, "--for", "3s", "-o", rec(Ctx) | More], Ctx, fun(_) -> ok end);
step(pid, #{os_pid := Pid} = Ctx) ->
    record(["attach", "--pid", Pid, "--for", "2s", "-o", rec(Ctx)], Ctx, fun(_) -> ok end);
step(interrupt, #{name := Name} = Ctx) ->
    record(["attach", Name, "--for", "5m", "-o", rec(Ctx)], Ctx, fun(Group) -> signal("INT", Group) end);
step(kill, #{name := Name} = Ctx) ->
    #{lines := Lines} = command(["attach", Name, "--for", "5m", "-o", rec(Ctx)], Ctx, fun(Group) -> os:cmd("kill -KILL " ++ integer_to_list(Group)) end),
    [["could not record: ", hd(Lines)] || get(first) =:= none, Lines =/= []];
step(hang, #{name := Name, before := Before} = Ctx) ->
    command(["attach", Name, "--for", "5m", "-o", rec(Ctx)], Ctx, fun(Group) ->
        All = stop_all(Group),
        put(hang, compare(Ctx, Before, erlang:monotonic_time(millisecond) + 45000)),
        os:cmd("kill -s KILL " ++ All)
    end),
    get(hang);
step(two, #{name := Name} = Ctx) ->
    Other = rec(Ctx),
    Result = record(["attach", Name, "--for", "3s", "-o", rec(Ctx)], Ctx, fun(_) ->
        put(other, command(["attach", Name, "--for", "3s", "-o", Other], Ctx, fun(_) -> ok end))
    end),
    Result ++ judged(get(other), Other, Ctx#{about := (maps:get(about, Ctx))#{refusal := "(already|another|one) .*attach"}});
step(stopped, #{os_pid := Pid} = Ctx) ->
    os:cmd("kill -s STOP " ++ Pid),
    Result = step(attach, Ctx),
    os:cmd("kill -s CONT " ++ Pid),
    Result;
step(keep, #{name := Name} = Ctx) ->
    One = record(["attach", "--keep", Name], Ctx, fun(_) -> ok end, none),
    Two = record(["attach", "--snapshot", Name, "-o", rec(Ctx)], Ctx, fun(_) -> ok end),
    One ++ Two ++ record(["attach", "--detach", Name, "-o", rec(Ctx)], Ctx, fun(_) -> ok end);
step(detach, #{name := Name} = Ctx) ->
    record(["attach", "--detach", Name], Ctx, fun(_) -> ok end, none);
step(top, Ctx) ->
    record(["top", full(Ctx), "-n", "2"], Ctx, fun(_) -> ok end, none);
step(live, Ctx) ->
    Result = command(["live", full(Ctx)], Ctx, fun(_) -> ok end),
    case [L || <<"http://", _/binary>> = L <- maps:get(lines, Result)] of
        [Url | _] -> [["kymo live served nothing at ", Url] || maps:get(served, Result, 0) < 1000];
        [] -> judged(Result, none, Ctx)
    end.

full(#{name := Name}) ->
    {ok, Host} = inet:gethostname(),
    Name ++ "@" ++ Host.

%% A new folder for a recording.
rec(#{dir := Dir}) -> filename:join(Dir, "rec" ++ integer_to_list(erlang:unique_integer([positive]))).

signal(Signal, Group) -> os:cmd(io_lib:format("kill -s ~s -- -~w", [Signal, Group])).

record(Args, Ctx, OnRecording) ->
    ["-o", Folder | _] = lists:dropwhile(fun(A) -> A =/= "-o" end, Args),
    record(Args, Ctx, OnRecording, Folder).
record(Args, Ctx, OnRecording, Folder) -> judged(command(Args, Ctx, OnRecording), Folder, Ctx).

judged(#{hang := true, lines := Lines}, _, _) ->
    [io_lib:format("hang: not ended after ~w s; it said: ~ts", [?LIMIT div 1000, last(Lines)])];
judged(#{status := 0}, none, _) -> [];
judged(#{status := 0, lines := Lines}, Folder, #{about := #{recording := Check}} = Ctx) ->
    {Status, Info} = sh(["kymo info --json '", Folder, "' 2>&1"]),
    case Status =:= 0 andalso re:run(Info, "\"events\":", [{capture, none}]) of
        match -> Check(Folder, Ctx);
        _ -> [["no usable recording: ", last(Lines)]]
    end;
judged(#{status := Status, lines := Lines}, _, #{name := Name, about := #{refusal := Reason, remedy := Helps, ends := Ends}}) ->
    Sentence = lists:flatten(string:replace(said(Lines), Name, "NODE", all)),
    True = Reason =/= none andalso re:run(Sentence, Reason, [{capture, none}, caseless]) =:= match,
    Remedy = re:run(Sentence, Helps, [{capture, none}, caseless]) =:= match,
    Raw = re:run(Sentence, "badmatch|function_clause|undef|#Ref|<<|\\{[a-z_]+,", [{capture, none}]) =:= match,
    if
        True, not Raw, Remedy orelse Ends =/= false -> [{refused, Sentence}];
        Reason =:= none -> [io_lib:format("refused without need (~w): ~ts", [Status, Sentence])];
        True, Raw -> ["misleading, internal terms: ", Sentence];
        True -> [["misleading, no remedy: ", Sentence]];
        true -> [["misleading, not the reason: ", Sentence]]
    end.

said(Lines) ->
    string:trim(lists:join(" ", [unicode:characters_to_list(L) || L <- Lines, re:run(L, "recording \\d+ proc|events, \\d+ lost", [{capture, none}]) =:= nomatch])).

last([]) -> "nothing";
last(Lines) -> lists:last(Lines).

sh(Command) ->
    Out = os:cmd(lists:flatten([Command, "; s=$?; echo; echo $s"])),
    Lines = string:lexemes(Out, "\n"),
    {list_to_integer(lists:last(Lines)), lists:droplast(Lines)}.

%% The command may have given programs that it starts groups of their own.
stop_all(Pid) ->
    os:cmd(io_lib:format("p=~w; while [ -n \"$p\" ]; do kill -s STOP $p; echo $p; p=$(pgrep -P $(echo $p | tr ' ' ,)); done | tr '\\n' ' '", [Pid])).

%% Runs kymo, in a process group of its own. OnRecording gets the group when it says that it records.
command(Args, #{node := Node, dir := Dir} = Ctx, OnRecording) ->
    Node ! calm,
    %% A terminal does not ignore Ctrl-C, as this node does.
    Port = open_port({spawn_executable, os:find_executable("env")},
        [{args, ["--default-signal", "kymo" | Args]}, {cd, Dir}, {line, 2000}, exit_status, stderr_to_stdout, binary]),
    Group = case erlang:port_info(Port, os_pid) of {os_pid, P} -> P; undefined -> 0 end,
    Timer = erlang:start_timer(?LIMIT, self(), Port),
    Result = watch(#{port => Port, group => Group, start => erlang:monotonic_time(millisecond), timer => Timer,
        lines => [], hang => false, ctx => Ctx, on => OnRecording}),
    _ = erlang:cancel_timer(Timer),
    log("$ kymo ~ts~n~ts~nstatus ~w~n", [lists:join(" ", Args), lists:join("\n", [unicode:characters_to_list(L) || L <- maps:get(lines, Result)]), maps:get(status, Result)]),
    Result.

watch(#{port := Port, group := Group, timer := Timer, lines := Lines, ctx := Ctx, on := OnRecording} = Run) ->
    receive
        {Port, {data, {_, Line}}} ->
            case Line of
                <<>> -> ok;
                _ -> seen(maps:get(start, Run))
            end,
            Served = on_line(Line, Ctx, Group, OnRecording),
            watch(maps:merge(Run#{lines := Lines ++ [Line || Line =/= <<>>]}, Served));
        {Port, {exit_status, Status}} -> Run#{status => Status};
        {timeout, Timer, _} ->
            signal("KILL", Group),
            receive {Port, {exit_status, Status}} -> Run#{status => Status, hang := true} end
    end.

seen(Start) ->
    case get(first) of
        none -> put(first, erlang:monotonic_time(millisecond) - Start);
        _ -> ok
    end.

on_line(<<"http://", _/binary>> = Url, _, Group, _) ->
    Page = os:cmd("curl -s --max-time 20 " ++ binary_to_list(Url)),
    signal("INT", Group),
    #{served => length(Page)};
on_line(Line, #{node := Node, about := #{shell := Shell, during := During}}, Group, OnRecording) ->
    case re:run(Line, "recording \\d+ proc.* in (/\\S+)", [{capture, [1], list}]) of
        {match, [Folder]} ->
            put(folder, filename:dirname(Folder)),
            [Node ! {send, "during"} || During],
            [Node ! {type, Shell} || Shell =/= none],
            OnRecording(Group);
        nomatch -> ok
    end,
    #{}.

%% ---- the table of README.md ----

table() ->
    Files = init:get_plain_arguments(),
    Results = lists:append([element(2, file:consult(F)) || F <- Files]),
    Releases = lists:usort([R || {_, R, _, _} <- Results]),
    io:format("| program | condition | source |~s~n|---|---|---|~s~n", [[io_lib:format(" OTP ~w |", [R]) || R <- Releases], ["---|" || _ <- Releases]]),
    [row(Name, Releases, Results) || Name <- lists:usort([N || {N, _, _, _} <- Results])],
    halt(0).

row(Name, Releases, Results) ->
    #{source := Source, condition := Condition} = about(list_to_atom("harm_" ++ Name)),
    io:format("| `~s` | ~ts | ~ts |~ts~n", [Name, Condition, Source, [[" ", cell(Name, R, Results), " |"] || R <- Releases]]).

cell(Name, Release, Results) ->
    case [{V, Ms} || {N, R, V, Ms} <- Results, N =:= Name, R =:= Release] of
        [] -> "-";
        Found ->
            {Verdict, Ms} = lists:last(Found),
            Words = lists:foldl(fun({What, By}, T) -> re:replace(T, What, By, [global, unicode, {return, list}]) end,
                unicode:characters_to_list(words(Verdict)),
                [{"\\|", "\\\\|"}, {"/tmp/harm\\.\\w+", "DIR"}, {"/\\S*kymo-attach-\\w+", "FOLDER"}, {"process \\d+", "process PID"}, {"harm\\d+[a-z_]+", "NODE"}, {"NODE@\\w+", "NODE"}, {"kymo: (NODE: )?", ""}, {" +", " "}]),
            [shorter(Words), case Ms of none -> ""; _ -> [", ", first(Ms)] end]
    end.

shorter(Words) when length(Words) > 100 -> string:trim(lists:sublist(Words, 95)) ++ " ...";
shorter(Words) -> Words.
