%% SPDX-License-Identifier: Apache-2.0
%%
%% Many processes list a folder of many pictures. The module file does this in its one
%% server, so they, and all others who need files, stand in its queue.
-module(problem_photo_albums_refuse_to_open).

-export([about/0, start/0, album/1, visitor/1]).

about() ->
    #{
        title => "To open a small picture takes long since the albums show their number of pictures",
        source =>
            "Fred Hebert, Erlang in Anger, chapter 3 and 8: the file server as a bottleneck; OTP "
            "documentation, module file, Performance: file operations go through one file server "
            "process (erlang.org/doc/man/file)",
        flags => ["+S", "2:2"],
        truth =>
            "10 album processes call file:list_dir/1 of a folder of 2000 files all the time; "
            "file_server_2 does this one by one, and the visitor's file:read_file_info/1 waits for it",
        who => [
            "file_server_2",
            "file_server:",
            "problem_photo_albums_refuse_to_open:album/1"
        ],
        what => [
            "list_dir",
            "lists? .*(folder|director)",
            "directory",
            "file server.*(busy|queue|bottleneck|serial|overload|single|wait)",
            "single (process|server)",
            "bottleneck",
            "serial",
            "overload",
            "queue",
            "(wait(s|ed|ing)?|blocked|calls?) (for |on |by |in |to )*(the )?(\\S+ )?file[_ ]server",
            "file_server\\w*.*(busy|serves|handles)",
            "file operations"
        ]
    }.

start() ->
    Top = os:getenv("TMPDIR", "/tmp"),
    Name = io_lib:format("albums.~s.~b", [os:getpid(), erlang:unique_integer([positive])]),
    Folder = filename:join(Top, lists:flatten(Name)),
    ok = file:make_dir(Folder),
    lists:foreach(
        fun(N) ->
            ok = file:write_file(picture(Folder, N), <<>>, [raw])
        end,
        lists:seq(1, 2000)
    ),
    _ = [spawn(?MODULE, album, [Folder]) || _ <- lists:seq(1, 10)],
    _ = spawn(?MODULE, visitor, [picture(Folder, 7)]),
    ok.

picture(Folder, N) ->
    filename:join(Folder, "picture_" ++ integer_to_list(N)).

%% An album shows how many pictures it has.
album(Folder) ->
    {ok, Names} = file:list_dir(Folder),
    true = length(Names) > 0,
    timer:sleep(5),
    album(Folder).

visitor(Picture) ->
    {ok, _} = file:read_file_info(Picture),
    timer:sleep(20),
    visitor(Picture).
