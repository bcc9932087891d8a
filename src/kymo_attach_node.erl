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
%% `{Tag, Answer}'.
%%
%% Until the modules of kymo have been sent, it uses only modules of kernel and stdlib.
-module(kymo_attach_node).

-export([run/1]).
-export_type([args/0, request/0, code/0]).

-type args() :: #{
    attacher := pid(),
    tag := reference(),
    %% A unique part of the names of the folders that are created on the node.
    token := string(),
    %% All modules that might be sent.
    modules := [module()],
    %% Folders to try before the usual ones.
    folders := [file:filename_all()]
}.

-type code() :: {module(), MD5 :: binary(), Object :: binary()}.

-type request() ::
    {load, [code()]}
    | {library_at, Dir :: file:filename_all(), MD5 :: binary()}
    | {library, Content :: binary()}
    | {start, kymo:options(), kymo:trace_spec()}
    | info
    | stop
    | snapshot
    | {files, Dir :: binary()}
    | {read, Dir :: binary(), Name :: string(), Offset :: non_neg_integer(), Size :: pos_integer()}
    | keep
    | is_kept
    | finish.

-record(guard, {
    first :: pid(),
    attacher :: none | reference(),
    %% Folders that may contain files; all are created by this module.
    folders :: [file:filename_all()],
    %% Removes everything from the node, in the first process.
    restore :: fun((none | kymo:recorder()) -> ok),
    recorder = none :: none | kymo:recorder(),
    dir = none :: none | binary(),
    %% Snapshots that are being fetched, and how many have been taken.
    snapshots = #{} :: #{reference() => binary()},
    taken = 0 :: non_neg_integer()
}).

-define(LIBRARY, "kymo_tracer").

%% @doc Returns when everything has been removed from the node except this module.
-spec run(args()) -> ok.
run(#{attacher := Attacher, tag := Tag, modules := Modules, token := Token, folders := Folders}) ->
    Before = #{
        loaded => [M || M <- Modules, erlang:module_loaded(M)],
        recorders => whereis(kymo_recorders)
    },
    First = self(),
    Work = work_folders(Token, Folders),
    %% The group leader must be local: the attaching node's ends with that node, and log
    %% messages would be lost.
    group_leader(whereis(init), First),
    Restore = fun(Recorder) -> restore(Before, Modules, Recorder, Work) end,
    {Guard, Monitor} = spawn_opt(
        fun() -> guard(First, Attacher, Tag, Work, Restore) end, [monitor]
    ),
    Restore(forward(Guard, Monitor, none)).

forward(Guard, Monitor, Recorder) ->
    receive
        {'DOWN', Monitor, process, Guard, _} ->
            Recorder;
        {recorder, Guard, Started} ->
            forward(Guard, Monitor, Started);
        {request, _, _, _} = Request ->
            Guard ! Request,
            forward(Guard, Monitor, Recorder);
        _ ->
            forward(Guard, Monitor, Recorder)
    end.

%% ---- the guard --------------------------------------------------------------

guard(First, Attacher, Tag, Work, Restore) ->
    process_flag(sensitive, true),
    process_flag(trap_exit, true),
    Monitor = monitor(process, Attacher),
    _ = monitor(process, First),
    answer(Attacher, {Tag, ready}),
    loop(#guard{first = First, attacher = Monitor, folders = Work, restore = Restore}).

loop(#guard{first = First, attacher = Attacher, snapshots = Snapshots, restore = Restore} = S) ->
    receive
        {'DOWN', _, process, First, _} ->
            %% The first process was killed. The recorder ends only after this process, so a
            %% new process waits for that. It takes the registered name, which prevents
            %% another attach until it is done.
            _ = stop(S),
            _ = spawn(fun() ->
                _ = (catch register(kymo_attach, self())),
                Restore(S#guard.recorder)
            end),
            ok;
        {request, From, Tag, finish} ->
            _ = stop(S),
            answer(From, {Tag, ok});
        {request, From, Tag, Request} ->
            {Answer, Served} = serve(Request, From, S),
            answer(From, {Tag, Answer}),
            loop(Served);
        {'DOWN', Attacher, process, _, _} ->
            _ = stop(S),
            ok;
        {'DOWN', Client, process, _, _} when is_map_key(Client, Snapshots) ->
            {Dir, Left} = maps:take(Client, Snapshots),
            _ = file:del_dir_r(Dir),
            loop(S#guard{snapshots = Left});
        _ ->
            loop(S)
    end.

%% Does not reconnect to a node that is gone: resolving its host name would start processes of
%% OTP that remain.
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
serve(stop, _, S) ->
    {stop(S), S};
serve(snapshot, From, #guard{recorder = R} = S) when R =/= none ->
    snapshot(From, S);
serve({files, Dir}, _, S) ->
    {files(Dir), S};
serve({read, Dir, Name, Offset, Size}, _, S) ->
    {read(filename:join(Dir, Name), Offset, Size), S};
serve(keep, _, #guard{attacher = Attacher} = S) when Attacher =/= none ->
    true = demonitor(Attacher, [flush]),
    {ok, S#guard{attacher = none}};
serve(is_kept, _, #guard{attacher = Attacher} = S) ->
    {{ok, Attacher =:= none}, S};
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
    case [M || {M, _, _} <- New, not code:soft_purge(M)] of
        [] -> load_purged(New);
        [M | _] -> {error, {old_code, M}}
    end.

load_purged(New) ->
    {OnLoad, Plain} = lists:partition(fun({M, _, _}) -> M =:= kymo_tracer end, New),
    case code:prepare_loading([{M, file_name(M), Object} || {M, _, Object} <- Plain]) of
        {ok, Prepared} ->
            loaded([code:finish_loading(Prepared)] ++ [load_one(C) || C <- OnLoad]);
        {error, [{M, Why} | _]} ->
            {error, {no_load, M, Why}}
    end.

load_one({M, _, Object}) ->
    case code:load_binary(M, file_name(M), Object) of
        {module, M} -> ok;
        {error, Why} -> {error, [{M, Why}]}
    end.

loaded(Results) ->
    case [Failed || {error, Failed} <- Results] of
        [] -> ok;
        [[{M, Why} | _] | _] -> {error, {no_load, M, Why}}
    end.

%% Not the path of a file, because the file is on another machine.
file_name(M) -> atom_to_list(M) ++ ".beam".

%% The path of the library on the attaching side, if the node finds the same file there. Then
%% the node maps the library only once, however often kymo attaches to it.
library_at(Dir, MD5) ->
    case file:read_file(filename:join(Dir, ?LIBRARY ++ ".so")) of
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
                case file:write_file(File, Content) of
                    ok -> kymo_tracer:load_library(Dir);
                    {error, _} = Error -> Error
                end;
            {error, _} = Error ->
                Error
        end,
    _ = file:delete(File),
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
            _ = file:del_dir_r(Recording),
            case is_of_folder(Why) of
                true -> start_in(Dirs, Options, [{Dir, Why} | Tried]);
                false -> {error, {start, Why}}
            end
    end.

%% Whether the error is specific to this folder, so that the next one should be tried.
is_of_folder({enospc, _, _}) -> true;
is_of_folder({missing_folder, _}) -> true;
is_of_folder(Why) -> is_atom(Why) andalso Why =/= too_many_recorders.

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
            Snapshots = (S#guard.snapshots)#{monitor(process, From) => Dir},
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
            _ = file:del_dir_r(Dir),
            snapshot_in(Folders, Name, R, [{Folder, Why} | Tried])
    end.

%% ---- files ------------------------------------------------------------------

files(Dir) ->
    case file:list_dir(Dir) of
        {ok, Names} -> {ok, [{Name, filelib:file_size(filename:join(Dir, Name))} || Name <- lists:sort(Names)]};
        {error, _} = Error -> Error
    end.

%% Ring files contain many zero bytes, which need not be sent.
read(File, Offset, Size) ->
    case file:open(File, [read, raw, binary]) of
        {ok, Device} ->
            Read = file:pread(Device, Offset, Size),
            ok = file:close(Device),
            case Read of
                {ok, Data} -> {ok, packed(Data)};
                eof -> {error, eof};
                {error, _} = Error -> Error
            end;
        {error, _} = Error ->
            Error
    end.

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
    Current = [Dir || {ok, Dir} <- [file:get_cwd()]],
    Usual = Named(["TMPDIR"]) ++ ["/tmp", "/var/tmp", "/dev/shm"] ++ Named(["XDG_RUNTIME_DIR", "HOME"]) ++ Current,
    [filename:absname(filename:join(Dir, "kymo-attach-" ++ Token)) || Dir <- unique(Given ++ Usual)].

unique([]) -> [];
unique([Dir | Dirs]) -> [Dir | unique([D || D <- Dirs, D =/= Dir])].

%% Creates a folder that only this user can read. If it already exists, this module has created
%% it, because its name contains a random token. Other users can see the name from then on, so
%% the folder stays until the end even if it is unused: if it were removed and created again,
%% another user could create the folder, or a link, in between.
make_private(Dir) ->
    case file:make_dir(Dir) of
        ok -> file:change_mode(Dir, 8#700);
        {error, eexist} -> ok;
        {error, _} = Error -> Error
    end.

%% ---- restoring the node -----------------------------------------------------

restore(#{loaded := Loaded, recorders := Recorders}, Modules, Recorder, Folders) ->
    await_end(Recorder),
    case is_used() of
        true ->
            ok;
        false ->
            [kill(Pid) || Recorders =:= undefined, Pid <- [whereis(kymo_recorders)], is_pid(Pid)],
            lists:foreach(
                fun unload/1,
                [M || M <- Modules, M =/= ?MODULE, not lists:member(M, Loaded), erlang:module_loaded(M)]
            )
    end,
    lists:foreach(fun file:del_dir_r/1, Folders).

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

unload(M) ->
    code:purge(M),
    code:delete(M),
    code:purge(M).
