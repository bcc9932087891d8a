%% SPDX-License-Identifier: Apache-2.0
%% @private The part of `kymo attach' that runs in the recorded node.
%%
%% It consists of two processes. The first calls {@link run/1}, is registered as
%% `kymo_attach', and only forwards requests to the second, the guard. When the guard has
%% ended, for whatever reason, the first process removes the files, processes and modules that
%% were not in the node before. The guard owns the recorder and serves the requests. It ends
%% on request, or when the attaching process or its node is gone, unless that process has
%% asked it to stay. If the first process is killed, the guard has the same things removed,
%% except for this module.
%%
%% A request is `{request, From, Tag, Request}', sent to the first process. The answer is
%% `{Tag, Answer}'. `finish' is answered by the first process when nothing of kymo but modules is left in the
%% node; it ends when these are removed, too.
%%
%% It asks no process of the node for anything, because any of them may be suspended, hang in a file
%% operation, or starve: it does not use the code server nor the file server. Both processes, and those
%% of the recorder, have high priority, or the highest one if normal processes do not run within
%% ?PROMPT.
-module(kymo_attach_node).

-include_lib("kernel/include/file.hrl").
-include("kymo_attach_text.hrl").

-export([run/1]).
-export_type([args/0, before/0, request/0, code/0]).

-type args() :: #{
    attacher := pid(),
    tag := reference(),
    %% A unique part of the names of the folders that are created on the node.
    token := string(),
    %% All modules that might be sent.
    modules := [module()],
    %% Folders to try before the usual ones.
    folders := [file:filename_all()],
    %% Whether this module is removed at the end.
    removes := boolean(),
    %% What was in the node before an earlier call with the same token, whose processes were killed.
    before => before()
}.

-type before() :: #{loaded := [module()], recorders := undefined | pid(), requests := pos_integer()}.

-type code() :: {module(), MD5 :: binary(), Object :: binary()}.

-type request() ::
    {load, [code()]}
    | {library_at, Dir :: file:filename_all(), MD5 :: binary()}
    | {library, Content :: binary()}
    | {start, kymo:options(), kymo:trace_spec()}
    | info
    | progress
    | stop
    | snapshot
    | {files, Dir :: binary()}
    | {read, Dir :: binary(), Name :: string(), Offset :: non_neg_integer(), Size :: pos_integer()}
    | keep
    | {hold, Ms :: non_neg_integer()}
    | is_kept
    %% Whether that is for a while only, until another command fetches the recording.
    | is_held
    %% Removes what killed processes of a recorder with this specification have left.
    | {clear_left, kymo:trace_spec()}
    | finish.

-record(guard, {
    first :: pid(),
    attacher :: none | reference(),
    %% After the death of the attaching process, the recording stays for so many milliseconds, for
    %% another one that fetches it.
    hold = 0 :: non_neg_integer(),
    held = none :: none | reference(),
    %% Folders that may contain files; all are created by this module.
    folders :: [file:filename_all()],
    %% Removes everything from the node, in the first process, and calls a function when only modules are left.
    restore :: fun((none | kymo:recorder(), fun(() -> ok)) -> ok),
    recorder = none :: none | kymo:recorder(),
    dir = none :: none | binary(),
    %% The file that was read last is open, since it is read in many parts.
    reading = none :: none | {File :: file:filename_all(), file:fd()},
    %% Snapshots that are being fetched, and how many have been taken.
    snapshots = #{} :: #{reference() => binary()},
    taken = 0 :: non_neg_integer()
}).

-define(LIBRARY, "kymo_tracer").

%% Within so many milliseconds a process of normal priority runs in a node that is not overloaded.
-define(PROMPT, 50).
%% Within so many milliseconds a file operation that needs no device ends, unless all threads for
%% file operations are blocked; and a code server that answers within ?PROMPT loads what is needed.
-define(PATIENCE, 2000).
%% A purge asks at least so many processes at the same time.
-define(ASKED, 100).
%% The runtime allows no more.
-define(MAX_ASKED, (1 bsl 27 - 1)).

%% Modules of OTP that a recorder needs. Most nodes have loaded them.
-define(NEEDED, [binary, erl_parse, erl_scan, erts_debug, ets, filename, gen, gen_server, io_lib, io_lib_format, lists, maps,
    ms_transform, proc_lib, proplists, re, seq_trace, string, unicode, unicode_util]).

%% @doc The process exits with `{left, Folders}' if it could not remove these. It must have called this last,
%% since it removes this module.
-spec run(args()) -> term().
run(#{attacher := Attacher, tag := Tag, modules := Modules, token := Token, folders := Folders, removes := Removes} = Args) ->
    Before =
        case Args of
            #{before := Earlier} -> Earlier;
            _ -> #{
                loaded => [M || M <- Modules, erlang:module_loaded(M)],
                recorders => whereis(kymo_recorders),
                requests => erlang:system_info(outstanding_system_requests_limit)
            }
        end,
    First = self(),
    process_flag(sensitive, true),
    %% A process of the application may link to all others, and fail.
    process_flag(trap_exit, true),
    case is_prompt({prim_file, read_link_info, ["/"]}, max, ?PATIENCE) of
        true -> run(First, Attacher, Tag, work_folders(Token, Folders), Before, Modules, Removes);
        false ->
            answer(Attacher, {Tag, {error, no_file_operations}}),
            leave(Removes, erlang:system_info(outstanding_system_requests_limit), [])
    end.

run(First, Attacher, Tag, Work, Before, Modules, Removes) ->
    %% The group leader must be local: the attaching node's ends with that node, and log
    %% messages would be lost.
    group_leader(whereis(init), First),
    Restore = fun(Recorder, Tell) -> restore(Before, Modules, Recorder, Work, Removes, Tell) end,
    {Guard, Monitor} = spawn_opt(
        fun() -> guard(First, Attacher, {Tag, {ready, Before}}, Work, Restore) end, [monitor, {priority, max}, {max_heap_size, 0}]
    ),
    {Recorder, Tell} = forward(Guard, Monitor, none, fun() -> ok end),
    Restore(Recorder, Tell).

%% Whether a function returns in time, in a process of this priority, which does not outlive this. It
%% is not a fun of this module, whose code can be removed only when nobody uses it.
is_prompt({M, F, As}, Priority, Ms) ->
    {Pid, Monitor} = spawn_opt(M, F, As, [monitor, {priority, Priority}, {max_heap_size, 0}]),
    receive
        {'DOWN', Monitor, process, Pid, _} -> true
    after Ms ->
        true = demonitor(Monitor, [flush]),
        exit(Pid, kill),
        false
    end.

%% Returns the recorder, and what answers the request that has ended the guard.
forward(Guard, Monitor, Recorder, Tell) ->
    receive
        {'DOWN', Monitor, process, Guard, _} ->
            {Recorder, Tell};
        {recorder, Guard, Started} ->
            forward(Guard, Monitor, Started, Tell);
        {request, From, Tag, finish} = Request ->
            Guard ! Request,
            forward(Guard, Monitor, Recorder, fun() -> answer(From, {Tag, ok}) end);
        {request, _, _, _} = Request ->
            Guard ! Request,
            forward(Guard, Monitor, Recorder, Tell);
        _ ->
            forward(Guard, Monitor, Recorder, Tell)
    end.

%% ---- the guard --------------------------------------------------------------

guard(First, Attacher, Ready, Work, Restore) ->
    process_flag(sensitive, true),
    process_flag(trap_exit, true),
    Monitor = watch(Attacher),
    _ = monitor(process, First),
    _ = is_prompt({erlang, self, []}, normal, ?PROMPT) andalso process_flag(priority, high),
    answer(Attacher, Ready),
    loop(#guard{first = First, attacher = Monitor, folders = Work, restore = Restore}).

loop(#guard{first = First, attacher = Attacher, snapshots = Snapshots, restore = Restore} = S) ->
    receive
        {'DOWN', _, process, First, _} ->
            %% The first process was killed. The recorder ends only after this process, so a
            %% new process waits for that. It takes the registered name, which prevents
            %% another attach until it is done.
            ended(S),
            Last = fun() ->
                _ = (catch register(kymo_attach, self())),
                Restore(S#guard.recorder, fun() -> ok end)
            end,
            _ = spawn_opt(Last, [{max_heap_size, 0}]),
            ok;
        {request, _, _, finish} ->
            ended(S);
        {request, From, Tag, Request} ->
            {Answer, Served} = serve(Request, From, held(S)),
            answer(From, {Tag, Answer}),
            loop(Served);
        %% It was about to fetch the recording, or does so.
        {'DOWN', Attacher, process, _, _} when S#guard.hold > 0 ->
            _ = stop(S),
            loop(held(S#guard{attacher = none, held = make_ref()}));
        {'DOWN', Attacher, process, _, _} ->
            ended(S);
        {timeout, Held, hold} when Held =:= S#guard.held ->
            ended(S);
        {'DOWN', Client, process, _, _} when is_map_key(Client, Snapshots) ->
            {Dir, Left} = maps:take(Client, Snapshots),
            Closed = closed(S#guard{snapshots = Left}),
            remove(Dir),
            loop(Closed);
        _ ->
            loop(S)
    end.

%% A folder that can't be listed later is not removed with what is in it.
ended(#guard{snapshots = Snapshots} = S) ->
    _ = stop(S),
    _ = [remove(Dir) || Dir <- maps:values(Snapshots)],
    ok.

%% A recording that is held stays for that time after the last request.
held(#guard{held = none} = S) ->
    S;
held(#guard{held = Timer, hold = Ms} = S) ->
    _ = erlang:cancel_timer(Timer),
    S#guard{held = erlang:start_timer(Ms, self(), hold)}.

%% Stays until a request ends it.
kept(#guard{attacher = Attacher, held = Timer} = S) ->
    _ = [demonitor(Attacher, [flush]) || Attacher =/= none],
    _ = [erlang:cancel_timer(Timer) || Timer =/= none],
    S#guard{attacher = none, held = none}.

%% These two do not reconnect to a node that is gone: resolving its host name would start processes of
%% OTP that remain.
watch(Pid) ->
    case lists:member(node(Pid), nodes(connected)) of
        true ->
            monitor(process, Pid);
        false ->
            Gone = make_ref(),
            self() ! {'DOWN', Gone, process, Pid, noconnection},
            Gone
    end.

answer(To, Message) ->
    _ = erlang:send(To, Message, [noconnect]),
    ok.

serve({load, Code}, _, S) ->
    {load(Code), S};
serve({library_at, Dir, MD5}, _, S) ->
    {library_at(Dir, MD5), S};
serve({library, Content}, _, S) ->
    {library(Content, S#guard.folders, []), S};
serve({start, Options, Spec}, _, #guard{recorder = none} = S) ->
    start(Options, Spec, S);
serve(info, _, #guard{recorder = R, dir = Dir} = S) when R =/= none ->
    {{ok, (kymo:info(R))#{dir => Dir}}, S};
serve(progress, _, #guard{recorder = R} = S) when R =/= none ->
    {{ok, progress(R)}, S};
serve(stop, _, S) ->
    {stop(S), S};
serve(snapshot, From, #guard{recorder = R} = S) when R =/= none ->
    snapshot(From, S);
serve({files, Dir}, _, S) ->
    {files(Dir), S};
serve({read, Dir, Name, Offset, Size}, _, S) ->
    read(filename:join(Dir, Name), Offset, Size, S);
serve({hold, Ms}, _, S) ->
    {ok, S#guard{hold = Ms}};
serve(keep, _, S) ->
    {ok, kept(S)};
serve(is_kept, _, #guard{attacher = Attacher} = S) ->
    {{ok, Attacher =:= none}, S};
serve(is_held, _, #guard{held = Held} = S) ->
    {{ok, Held =/= none}, S};
serve({clear_left, Spec}, _, S) ->
    {clear_left(Spec), S};
serve(_, _, S) ->
    {{error, bad_request}, S}.

%% ---- code -------------------------------------------------------------------

%% Modules that are already loaded are in use and not replaced. All others are loaded in one
%% step, which blocks the schedulers once; none of them may have an on_load function.
load(Code) ->
    {Loaded, New} = lists:partition(fun({M, _, _}) -> erlang:module_loaded(M) end, Code),
    case [M || {M, MD5, _} <- Loaded, M:module_info(md5) =/= MD5] of
        [] -> load_new(New);
        [M | _] -> {error, {other_kymo, M}}
    end.

load_new(New) ->
    case [M || {M, _, _} <- New, erlang:check_old_code(M), not erts_code_purger:soft_purge(M)] of
        [] -> load_needed(New);
        [M | _] -> {error, {old_code, M}}
    end.

%% Modules of OTP are loaded as the node itself would.
load_needed(New) ->
    Needed = [M || M <- ?NEEDED ++ since_27(), not erlang:module_loaded(M)],
    _ = Needed =:= [] orelse
        %% To load a module, the code server waits for its turn about ten times.
        (is_prompt({code, root_dir, []}, max, ?PROMPT) andalso
            is_prompt({lists, foreach, [fun code:ensure_loaded/1, Needed]}, max, ?PATIENCE)),
    case [M || M <- Needed, not erlang:module_loaded(M), not is_loaded_now(M)] of
        [] -> load_purged(New);
        Missing -> {error, {no_code_server, Missing}}
    end.

%% The module for trace sessions.
since_27() -> [trace || list_to_integer(erlang:system_info(otp_release)) >= 27].

%% The code server does not answer in time. Reads the file from where the runtime is installed; the code
%% server loads it again if it is asked to.
is_loaded_now(M) ->
    Files = [
        lists:concat([Root, "/lib/", Folder, "/ebin/", M, ".beam"])
     || [_ | _] = Root <- [os:getenv("ROOTDIR")],
        App <- [stdlib, kernel],
        {ok, Version} <- [application:get_key(App, vsn)],
        %% In the source tree, the folders have no versions.
        Folder <- [lists:concat([App, "-", Version]), App]
    ],
    lists:any(
        fun(File) ->
            case prim_file:read_file(File) of
                {ok, Object} -> erlang:load_module(M, Object) =:= {module, M};
                {error, _} -> false
            end
        end,
        Files
    ).

%% Not by the code server, which may not answer. The module with the library has a function that
%% runs when it is loaded and looks for the library of an installation; that is left out here.
load_purged(New) ->
    Prepared = [{M, prepared(M, Object)} || {M, _, Object} <- New],
    case [{M, Why} || {M, {error, Why}} <- Prepared] of
        [] ->
            {OnLoad, Plain} = lists:partition(fun({_, P}) -> erlang:has_prepared_code_on_load(P) end, Prepared),
            ok = erlang:finish_loading([P || {_, P} <- Plain]),
            lists:foreach(
                fun({M, P}) ->
                    {on_load, [M]} = erlang:finish_loading([P]),
                    _ = erts_code_purger:finish_after_on_load(M, true),
                    true = erlang:module_loaded(M)
                end,
                OnLoad
            );
        [{M, Why} | _] ->
            {error, {no_load, M, Why}}
    end.

%% Takes about a millisecond at high priority. Then others may run.
prepared(M, Object) ->
    receive after 1 -> ok end,
    erlang:prepare_loading(M, Object).

%% The path of the library on the attaching side, if the node finds the same file there. Then
%% the node maps the library only once, however often kymo attaches to it.
library_at(Dir, MD5) ->
    case prim_file:read_file(filename:join(Dir, ?LIBRARY ++ ".so")) of
        {ok, Content} ->
            case erlang:md5(Content) of
                MD5 -> kymo_tracer:load_library(Dir);
                _ -> {error, other_file}
            end;
        {error, _} = Error ->
            Error
    end.

%% Writes the library to the first folder from which it can be loaded. Once loaded, its file
%% is no longer needed.
library(_, [], Tried) ->
    {error, {no_folder, lists:reverse(Tried)}};
library(Content, [Dir | Dirs], Tried) ->
    File = filename:join(Dir, ?LIBRARY ++ ".so"),
    Result =
        case make_private(Dir) of
            ok ->
                case prim_file:write_file(File, Content) of
                    ok -> kymo_tracer:load_library(Dir);
                    {error, _} = Error -> Error
                end;
            {error, _} = Error ->
                Error
        end,
    _ = prim_file:delete(File),
    case Result of
        ok -> ok;
        {error, {Cause, _, Text}} when Cause =/= noexec -> {error, {no_library, {Cause, File, Text}}};
        {error, Why} -> library(Content, Dirs, [{Dir, Why} | Tried])
    end.

%% ---- recording --------------------------------------------------------------

start(Options, Spec, #guard{first = First, folders = Folders} = S) ->
    case start_in(Folders, Options, []) of
        {ok, Recorder, Dir} ->
            First ! {recorder, self(), Recorder},
            case kymo:trace(Recorder, Spec) of
                {ok, Result} ->
                    {{ok, Result#{dir => Dir}}, S#guard{recorder = Recorder, dir = Dir}};
                {error, Why} ->
                    _ = kymo:stop(Recorder),
                    {{error, {trace, Why}}, S}
            end;
        {error, _} = Error ->
            {Error, S}
    end.

start_in([], _, Tried) ->
    {error, {no_folder, lists:reverse(Tried)}};
start_in([Dir | Dirs], Options, Tried) ->
    Recording = filename:join(Dir, "recording"),
    Started =
        case make_private(Dir) of
            ok -> kymo:start(Options#{dir => Recording, owner => self()});
            {error, _} = Error -> Error
        end,
    case Started of
        {ok, Recorder} ->
            {ok, Recorder, unicode:characters_to_binary(Recording)};
        {error, Why} ->
            remove(Recording),
            case is_of_folder(Why) of
                true -> start_in(Dirs, Options, [{Dir, Why} | Tried]);
                false -> {error, {start, Why}}
            end
    end.

%% Whether the error is specific to this folder, so that the next one should be tried.
is_of_folder({enospc, _, _}) -> true;
is_of_folder({missing_folder, _}) -> true;
is_of_folder(Why) -> is_atom(Why) andalso Why =/= too_many_recorders.

%% What changes during the recording: unlike kymo:info/1, this looks at no other process.
progress({kymo_recorder, Server, _, _} = R) ->
    case kymo_server:call(Server, progress) of
        {ok, Info} -> Info;
        gone -> kymo:info(R)
    end.

stop(#guard{recorder = none}) ->
    {error, not_started};
stop(#guard{recorder = R}) ->
    case kymo:stop(R) of
        {ok, Info} -> {ok, Info};
        {error, already_stopped} -> {ok, kymo:info(R)}
    end.

%% The files of a snapshot are removed when the process that fetches it ends.
snapshot(From, #guard{recorder = R, folders = Folders, taken = N} = S) ->
    Name = "snapshot-" ++ integer_to_list(N + 1),
    case snapshot_in(Folders, Name, R, []) of
        {ok, Dir} ->
            Snapshots = (S#guard.snapshots)#{watch(From) => Dir},
            {{ok, Dir}, S#guard{snapshots = Snapshots, taken = N + 1}};
        {error, _} = Error ->
            {Error, S}
    end.

snapshot_in([], _, _, Tried) ->
    {error, {no_folder, lists:reverse(Tried)}};
snapshot_in([Folder | Folders], Name, R, Tried) ->
    Dir = filename:join(Folder, Name),
    Result =
        case make_private(Folder) of
            ok -> kymo:snapshot(R, Dir);
            {error, _} = Error -> Error
        end,
    case Result of
        {ok, _} ->
            {ok, unicode:characters_to_binary(Dir)};
        {error, already_stopped} = Ended ->
            Ended;
        {error, Why} ->
            remove(Dir),
            snapshot_in(Folders, Name, R, [{Folder, Why} | Tried])
    end.

clear_left(Spec) ->
    case is_used() of
        true -> {error, in_use};
        false -> kymo_tracing:clear_left(Spec)
    end.

%% ---- files ------------------------------------------------------------------

%% The files that a recording has, and nothing else that somebody may have put there. Without `meta' it is none: its
%% files were removed, or something else is in the place of its folder.
files(Dir) ->
    case {prim_file:read_link_info(Dir), prim_file:list_dir(Dir)} of
        {{ok, #file_info{type = directory}}, {ok, Names}} ->
            Files = [{Name, Size} || Name <- lists:sort(Names), kymo_folder:is_file(Name), {ok, Size} <- [size(Dir, Name)]],
            case lists:keymember("meta", 1, Files) of
                true -> {ok, Files};
                false -> {error, enoent}
            end;
        {{ok, #file_info{type = directory}}, {error, _} = Error} ->
            Error;
        {{ok, _}, _} ->
            {error, enoent};
        {{error, _} = Error, _} ->
            Error
    end.

size(Dir, Name) ->
    case prim_file:read_link_info(filename:join(Dir, Name)) of
        {ok, #file_info{type = regular, size = Size}} -> {ok, Size};
        _ -> error
    end.

%% Ring files contain many zero bytes, which need not be sent.
read(File, Offset, Size, S) ->
    case opened(File, S) of
        {ok, Device, Opened} ->
            case prim_file:pread(Device, Offset, Size) of
                {ok, Data} -> {{ok, packed(Data)}, Opened};
                eof -> {{error, eof}, Opened};
                {error, _} = Error -> {Error, Opened}
            end;
        {error, _} = Error ->
            {Error, S#guard{reading = none}}
    end.

opened(File, #guard{reading = {File, Device}} = S) ->
    {ok, Device, S};
opened(File, S) ->
    Closed = closed(S),
    case prim_file:open(File, [read, raw, binary]) of
        {ok, Device} -> {ok, Device, Closed#guard{reading = {File, Device}}};
        {error, _} = Error -> Error
    end.

closed(#guard{reading = none} = S) ->
    S;
closed(#guard{reading = {_, Device}} = S) ->
    _ = prim_file:close(Device),
    S#guard{reading = none}.

packed(Data) ->
    Size = byte_size(Data),
    case binary:copy(<<0>>, Size) of
        Data -> {zeros, Size};
        _ -> Data
    end.

%% ---- folders ----------------------------------------------------------------

%% Candidates for our folder, in the order in which they are tried. Computed once at the
%% beginning, because the environment and the current folder may change.
work_folders(Token, Given) ->
    Named = fun(Names) -> [Dir || Name <- Names, [_ | _] = Dir <- [os:getenv(Name)]] end,
    Current = [Dir || {ok, Dir} <- [prim_file:get_cwd()]],
    Usual = Named(["TMPDIR"]) ++ ["/tmp", "/var/tmp", "/dev/shm"] ++ Named(["XDG_RUNTIME_DIR", "HOME"]) ++ Current,
    Folders = [absolute(filename:join(Dir, "kymo-attach-" ++ Token), Current) || Dir <- unique(Given ++ Usual)],
    [Dir || Dir <- Folders, lists:all(fun is_shown/1, Dir), is_portable(Dir, file:native_name_encoding())].

%% Both sides write paths in UTF-8, which names another file if file names are in Latin-1 here.
is_portable(_, utf8) -> true;
is_portable(Dir, latin1) -> lists:all(fun(C) -> C < 128 end, Dir).

%% The other side refuses paths that its terminal does not show as they are.
is_shown(C) when ?IS_HIDDEN(C) -> false;
is_shown(_) -> true.

absolute(Dir, [Current]) -> filename:absname(Dir, Current);
absolute(Dir, []) -> Dir.

unique([]) -> [];
unique([Dir | Dirs]) -> [Dir | unique([D || D <- Dirs, D =/= Dir])].

%% Creates a folder that only this user can read. If it already exists, this module has created
%% it, because its name contains a random token. Other users can see the name from then on, so
%% the folder stays until the end even if it is unused: if it were removed and created again,
%% another user could create the folder, or a link, in between.
make_private(Dir) ->
    case prim_file:make_dir(Dir) of
        ok -> kymo_folder:set_mode(Dir, 8#700);
        {error, eexist} -> ok;
        {error, _} = Error -> Error
    end.

%% Removes a file or folder and everything in it. A link is removed, not followed.
remove(File) ->
    case prim_file:read_link_info(File) of
        {ok, #file_info{type = directory}} ->
            _ = [remove(filename:join(File, Name)) || Name <- names(File)],
            _ = prim_file:del_dir(File),
            ok;
        {ok, _} ->
            _ = prim_file:delete(File),
            ok;
        {error, _} ->
            ok
    end.

%% There may be no file descriptor left. Then these are what the guard and a recorder put into their folders.
names(Dir) ->
    case prim_file:list_dir(Dir) of
        {ok, Names} -> Names;
        {error, _} -> [?LIBRARY ++ ".so", "recording", "meta", "dict", "ring" | data_files(Dir, 1)]
    end.

data_files(Dir, N) ->
    Name = "data." ++ tl(integer_to_list(1000000 + N)),
    case prim_file:read_link_info(filename:join(Dir, Name)) of
        {ok, _} -> [Name | data_files(Dir, N + 1)];
        {error, _} -> []
    end.

%% ---- restoring the node -----------------------------------------------------

%% Nothing here is called by a function of OTP, whose code somebody may replace meanwhile.
restore(#{loaded := Loaded, recorders := Recorders, requests := Requests}, Modules, Recorder, Folders, Removes, Tell) ->
    await_end(Recorder),
    Stays = stays(),
    Used = is_used(),
    Used orelse lists:member(kymo, Loaded) orelse not erlang:module_loaded(kymo_tracing) orelse kymo_tracing:end_left(),
    [kill(Pid) || not Used, Recorders =:= undefined, Pid <- [whereis(kymo_recorders)], is_pid(Pid)],
    _ = [remove(Folder) || Folder <- Folders],
    Left = [Folder || Folder <- Folders, exists(Folder)],
    Left =:= [] andalso Tell(),
    Sent = [M || M <- Modules, not Used, not Stays, M =/= ?MODULE, not lists:member(M, Loaded), erlang:module_loaded(M)],
    %% So that the next command sees that only modules are left.
    _ = [catch erlang:delete_module(M) || M <- Sent],
    (Sent =/= [] orelse Removes andalso not Stays) andalso await_turns(Requests),
    _ = [unload(M, Requests) || M <- Sent],
    ask_at_once(Requests),
    leave(Removes andalso not Stays, Requests, Left).

%% Removes this module when the process has left its code: with a tail call.
leave(Removes, Requests, Left) ->
    Purge = [{fun erlang:delete_module/1, [?MODULE]}, {fun erts_code_purger:purge/1, [?MODULE]}],
    Limit = fun(N) -> {fun erlang:system_flag/2, [outstanding_system_requests_limit, N]} end,
    Steps = [Step || Removes, Step <- [Limit(asked(Requests))] ++ Purge ++ [Limit(Requests)]] ++
        [{fun erlang:exit/1, [{left, [unicode:characters_to_binary(Dir) || Dir <- Left]}]} || Left =/= []],
    {Funs, Lists} = lists:unzip(Steps),
    lists:zipwith(fun erlang:apply/2, Funs, Lists).

exists(File) ->
    case prim_file:read_link_info(File) of
        {ok, _} -> true;
        {error, _} -> false
    end.

%% Waits for the recorder, which ends after its owner, the guard.
await_end(none) ->
    ok;
await_end({kymo_recorder, Server, _, _}) ->
    Monitor = monitor(process, Server),
    receive
        {'DOWN', Monitor, process, Server, _} -> ok
    end.

%% Whether another process has started a recorder with the modules that were sent.
is_used() ->
    erlang:module_loaded(kymo) andalso
        lists:any(fun(#{state := State}) -> State =/= closed end, kymo:list()).

kill(Pid) ->
    Monitor = monitor(process, Pid),
    exit(Pid, kill),
    receive
        {'DOWN', Monitor, process, Pid, _} -> ok
    end.

%% Whether the modules stay loaded: purging them sends a signal to each process, which not all
%% runtimes bear.
stays() -> erlang:module_loaded(kymo_faults) andalso lists:member(signals, kymo_faults:avoided()).

%% A purge asks each process, and a process answers when it is scheduled. With the default, two for each
%% scheduler are asked at the same time, so that a purge waits for many turns of long run queues. As many as can
%% run anyway may be asked: then all of these answer in the same turn, and the run queues become no more than twice
%% as long. Without a limit, all processes that wait would run, and others would wait for all of them.
asked(Requests) -> lists:max([Requests, ?ASKED, min(?MAX_ASKED, erlang:statistics(total_run_queue_lengths))]).

%% A purge that has begun waits until each process has run, and whoever loads or removes code waits for the purge.
%% A process that never waits keeps others from running if its priority is higher than theirs. So none begins before
%% each process has answered once: a process of normal priority asks, as that of a purge does. Those that execute on a
%% dirty scheduler answer a purge without being scheduled.
await_turns(Requests) ->
    {Pid, Monitor} = spawn_opt(fun() -> ask_all(processes(), 0, asked(Requests)) end, [monitor, {max_heap_size, 0}]),
    receive
        {'DOWN', Monitor, process, Pid, _} -> ok
    end.

ask_all([], 0, _) ->
    ok;
ask_all([P | Ps], Asked, Most) when Asked < Most ->
    case erts_internal:is_process_executing_dirty(P) of
        true ->
            ask_all(Ps, Asked, Most);
        false ->
            async = erlang:check_process_code(P, ?MODULE, [{async, turn}]),
            ask_all(Ps, Asked + 1, Most)
    end;
ask_all(Ps, Asked, Most) ->
    receive
        {check_process_code, turn, _} -> ask_all(Ps, Asked - 1, Most)
    end.

ask_at_once(Processes) ->
    _ = erlang:system_flag(outstanding_system_requests_limit, Processes),
    ok.

%% Somebody else may do the same.
unload(M, Requests) ->
    ask_at_once(asked(Requests)),
    _ = erlang:check_old_code(M) andalso erts_code_purger:purge(M),
    _ = (catch erlang:delete_module(M)),
    _ = erts_code_purger:purge(M),
    ok.
