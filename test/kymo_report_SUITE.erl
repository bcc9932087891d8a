%% SPDX-License-Identifier: Apache-2.0
%%
%% `kymo report': the page in Chromium with the network off, and its numbers compared with those
%% of the other commands.
-module(kymo_report_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-compile(export_all).
-compile(nowarn_export_all).

all() ->
    [numbers, causes, policy, detail, usage, {group, browser}].

groups() ->
    [{browser, [], [first_screen, phone, keyboard, accessible, sections, counters, hostile_names, empty, cut, losses, budget]}].

init_per_suite(Config) ->
    {module, _} = code:ensure_loaded(kymo),
    Dir = filename:join(?config(priv_dir, Config), "planted"),
    Plants = [plant(Dir ++ atom_to_list(K), K) || K <- [timer, backlog]],
    Pages = [{K, report(D)} || {K, D, _} <- Plants],
    [{plants, Plants}, {pages, Pages} | Config].

end_per_suite(_) -> ok.

init_per_group(browser, Config) ->
    case kymo_browser:find() of
        false -> {skip, "Chromium is absent, so nothing has shown the page"};
        Program -> [{program, Program} | Config]
    end.

end_per_group(_, _) -> ok.

init_per_testcase(Case, Config) ->
    Dir = filename:join(?config(priv_dir, Config), atom_to_list(Case)),
    ok = file:make_dir(Dir),
    [{dir, Dir} | Config].

end_per_testcase(_, _) -> ok.

%% ---- recordings and pages ----

record(Dir, Options, Functions, Work) ->
    {ok, R} = kymo:start(maps:merge(#{dir => Dir, owner => none, memory => 64 bsl 20}, Options)),
    {ok, _} = kymo:trace(R, #{functions => Functions,
                              events => [return_to, messages, procs, running, garbage_collection]}),
    try Work() after kymo:stop(R) end.

plant(Dir, Kind) ->
    Functions = ["kymo_answers_work:_/_", "gen_server:call/_", "timer:sleep/1"],
    %% Only the cause itself, without other processes.
    Variant = (kymo_answers_work:variant(Kind, 5))#{hops := 0, idle := 0, load := 0},
    Plant = record(Dir, #{}, Functions, fun() -> kymo_answers_work:plant(Variant) end),
    {Kind, Dir, Plant}.

report(Dir) -> report(Dir, Dir ++ ".html", []).

report(Dir, Page, Options) ->
    {0, <<>>} = kymo_cli:run(["report", "-q", "-o", Page] ++ Options ++ [Dir]),
    Page.

%% The data of a page, with the text of its element.
data(Page) ->
    {ok, Html} = file:read_file(Page),
    [_, After] = binary:split(Html, <<"<script type=\"application/json\" id=\"data\">\n">>),
    [Json, _] = binary:split(After, <<"</script>">>),
    {kymo_cli:json(unicode:characters_to_list(Json)), Json}.

json(Args) ->
    {0, Out} = kymo_cli:run(Args),
    kymo_cli:json(unicode:characters_to_list(Out)).

page(Config, Kind) -> proplists:get_value(Kind, ?config(pages, Config)).

with_browser(Config, Fun) ->
    B = kymo_browser:open(?config(program, Config), filename:join(?config(dir, Config), "profile")),
    try Fun(B) after kymo_browser:close(B) end.

%% Opens a page, which must not produce errors.
open(B, Page) ->
    ok = kymo_browser:load(B, Page),
    ?assertEqual([], kymo_browser:trouble(B)).

ask(B, Expression) -> kymo_browser:ask(B, Expression).

text(B, Selector) ->
    ask(B, ["document.querySelector('", Selector, "').textContent"]).

contains(Text, Part) ->
    ?assertMatch({_, _}, binary:match(Text, unicode:characters_to_binary(Part)), Text).

%% ---- the data ----

without_histograms(Rows) -> [maps:remove(<<"histogram">>, Row) || Row <- Rows].

%% What other commands report about the same recording.
numbers(Config) ->
    [numbers_of(Dir, page(Config, Kind)) || {Kind, Dir, _} <- ?config(plants, Config)].

numbers_of(Dir, Page) ->
    {Data, _} = data(Page),
    [
        begin
            #{Key := #{<<"rows">> := Rows} = Table} = Data,
            #{<<"rows">> := Wanted} = Same = json(Args ++ ["--json", "-q", "-n", "500", Dir]),
            ?assertEqual(Wanted, without_histograms(Rows)),
            ?assertEqual(Same#{<<"rows">> := Rows}, Table)
        end
     || {Key, Args} <- [{<<"functions">>, ["stats"]}, {<<"processes">>, ["stats", "--by", "process"]},
                        {<<"roles">>, ["stats", "--by", "role"]}, {<<"mailboxes">>, ["mailboxes"]}]
    ],
    #{<<"requests">> := #{<<"servers">> := Servers} = Calls, <<"answers">> := [#{<<"why">> := Why} | _]} = Data,
    ?assertEqual(json(["requests", "--json", "-q", "-n", "100", Dir]),
                 Calls#{<<"servers">> := without_histograms(Servers)}),
    ?assertMatch(#{<<"answers">> := [Why]}, json(["why", "--json", "-q", Dir])),
    histograms(Servers ++ maps:get(<<"rows">>, maps:get(<<"functions">>, Data))),
    flames(Data).

%% Each duration is counted in one bar.
histograms(Rows) ->
    [
        ?assertEqual(maps:get(<<"calls_with_end">>, Row, Sum), Sum)
     || #{<<"histogram">> := Bars} = Row <- Rows, Sum <- [lists:sum([N || [_, N] <- Bars])]
    ].

%% The frames of a function add up to its own time, in both graphs.
flames(#{<<"names">> := Names, <<"flame">> := Flames, <<"functions">> := #{<<"rows">> := Rows}}) ->
    Wanted = maps:from_list([{F, Ns} || #{<<"function">> := F, <<"self_ns">> := Ns} <- Rows, Ns =/= null, Ns > 0]),
    [
        begin
            #{<<"name">> := Ids, <<"self">> := Selfs} = maps:get(By, Flames),
            Sums = lists:foldl(
                fun({Id, Self}, Acc) ->
                    Name = lists:nth(Id + 1, Names),
                    maps:update_with(Name, fun(N) -> N + Self end, Self, Acc)
                end, #{}, lists:zip(Ids, Selfs)),
            ?assertEqual(Wanted, maps:with(maps:keys(Wanted), Sums))
        end
     || By <- [<<"role">>, <<"process">>]
    ].

%% The page has a description and a colour for each cause that `kymo why' can name.
causes(Config) ->
    [{_, Page} | _] = ?config(pages, Config),
    {ok, Html} = file:read_file(Page),
    Causes = [
        running, running_dirty, gc, queue, scheduler, dirty_queue, port, timer, suspended, node, active, network,
        stopped, unknown
    ],
    [
        {Cause, {match, _}} = {Cause, re:run(Html, Text ++ atom_to_list(Cause) ++ ":")}
     || Cause <- Causes, Text <- ["--cause-", "\\n  "]
    ].


%% Only the page's own script and style may run, and nothing is fetched.
policy(Config) ->
    {ok, Html} = file:read_file(page(Config, timer)),
    {match, [Policy]} = re:run(Html, "http-equiv=\"Content-Security-Policy\" content=\"([^\"]*)\"",
                               [{capture, all_but_first, binary}]),
    Hash = fun(Open, Close) ->
        [_, After] = binary:split(Html, Open),
        [Content, _] = binary:split(After, Close),
        ["'sha256-", base64:encode(crypto:hash(sha256, Content)), "'"]
    end,
    Wanted = ["default-src 'none'; script-src ", Hash(<<"<script>">>, <<"</script>">>),
              "; style-src ", Hash(<<"<style>">>, <<"</style>">>), "; connect-src 'none'; base-uri 'none'; form-action 'none'"],
    ?assertEqual(iolist_to_binary(Wanted), Policy),
    [?assertEqual(nomatch, re:run(Html, Pattern, [{capture, none}]))
     || Pattern <- ["<(img|link|iframe|object|embed)[ >]", " src=", "@import", "url\\(", "innerHTML", "\\beval\\b"]].

%% A million events give a page of less than 5 MB, which says what it contains.
detail(Config) ->
    Dir = filename:join(?config(dir, Config), "million"),
    record(Dir, #{memory => 512 bsl 20}, ["lists:reverse/1", "lists:seq/2"], fun() ->
        Works = [spawn_monitor(fun() -> [lists:seq(1, N rem 7) || N <- lists:seq(1, 45000)] end) || _ <- lists:seq(1, 12)],
        [receive {'DOWN', Ref, process, Pid, _} -> ok end || {Pid, Ref} <- Works]
    end),
    Page = report(Dir),
    {#{<<"events">> := Events, <<"timeline">> := #{<<"calls">> := #{<<"in_all">> := InAll, <<"start">> := Kept}}}, _} = data(Page),
    ?assert(Events > 1000000),
    ?assert(filelib:file_size(Page) < 5000000),
    ?assert(length(Kept) < InAll).

usage(Config) ->
    {_, Dir, _} = hd(?config(plants, Config)),
    Inside = filename:join(Dir, "x.html"),
    [
        ?assertMatch({{2, _}, _}, {kymo_cli:run(Args), Args})
     || Args <- [["report", Dir], ["report", "-o", "", Dir], ["report", "-o", "x"], ["report", "-o", Inside, Dir],
                 ["report", "-o", "x", "--from", "never", Dir], ["report", "-o", "x", "--pid", "<0.1.0>", Dir]]
    ],
    ?assertNot(filelib:is_file(Inside)),
    Nowhere = filename:join(?config(dir, Config), "none/x.html"),
    ?assertMatch({4, _}, kymo_cli:run(["report", "-o", Nowhere, Dir])),
    {0, ToOut} = kymo_cli:run(["report", "-q", "-o", "-", Dir]),
    ?assertMatch(<<"<!doctype html>", _/binary>>, ToOut),
    %% A report on part of the time has only part of the events.
    #{<<"first_ns">> := First, <<"last_ns">> := Last} = json(["info", "--json", "-q", Dir]),
    Part = report(Dir, Dir ++ "-part.html", ["--to", io_lib:format("~.9fs", [(First + Last) / 2.0e9])]),
    {#{<<"events">> := Fewer, <<"part">> := true}, _} = data(Part),
    {#{<<"events">> := All, <<"part">> := false}, _} = data(page(Config, timer)),
    ?assert(Fewer < All).

%% ---- the page ----

%% Is the element in the part of the page that is visible without scrolling?
-define(IN_VIEW(Selector),
    "(() => { const r = document.querySelector('" Selector "').getBoundingClientRect();"
    " return scrollY === 0 && r.width > 0 && r.top >= 0 && r.bottom <= innerHeight && r.left >= 0 && r.right <= innerWidth; })()").

first_screen(Config) ->
    with_browser(Config, fun(B) ->
        [
            begin
                ok = kymo_browser:size(B, 1280, 800),
                ok = kymo_browser:theme(B, Theme),
                open(B, page(Config, Kind)),
                ?assert(ask(B, ?IN_VIEW("#cause .verdict"))),
                ?assert(ask(B, ?IN_VIEW("#cause .bar"))),
                ?assert(ask(B, ?IN_VIEW(".health"))),
                contains(text(B, "#cause .verdict"), Words),
                contains(text(B, ".health"), "Complete."),
                Picture = lists:concat([Kind, "-", Theme, ".png"]),
                ok = kymo_browser:picture(B, filename:join(?config(dir, Config), Picture)),
                ct:log("<img src=\"~ts/~ts\" width=800>", [?config(dir, Config), Picture])
            end
         || {Kind, Words} <- [{timer, "waited for a time to pass, in timer:sleep/1"},
                              {backlog, "the request waited in the mailbox of kymo_answers_work:init/1"}],
            Theme <- [light, dark]
        ],
        %% The themes differ.
        [Light, Dark] = [begin ok = kymo_browser:theme(B, T), ask(B, "getComputedStyle(document.body).backgroundColor") end || T <- [light, dark]],
        ?assertNotEqual(Light, Dark)
    end).

phone(Config) ->
    with_browser(Config, fun(B) ->
        ok = kymo_browser:size(B, 390, 844),
        open(B, page(Config, timer)),
        ?assert(ask(B, ?IN_VIEW("#cause .verdict"))),
        %% Nothing is wider than the screen, except elements that scroll by themselves.
        ?assert(ask(B, "document.documentElement.scrollWidth <= innerWidth")),
        ok = kymo_browser:picture(B, filename:join(?config(dir, Config), "phone.png"))
    end).

%% Everything can be done without a mouse.
keyboard(Config) ->
    with_browser(Config, fun(B) ->
        ok = kymo_browser:size(B, 1280, 800),
        open(B, page(Config, backlog)),
        Focus = fun(Selector) -> ok = kymo_browser:run(B, ["document.querySelector('", Selector, "').focus()"]) end,
        Active = fun(What) -> ask(B, ["document.activeElement.", What]) end,
        Key = fun(K) -> kymo_browser:key(B, K) end,
        Key("Tab"),
        ?assertEqual(<<"#answers">>, Active("getAttribute('href')")),
        Key("Tab"),
        ?assertEqual(<<"#answers">>, Active("closest('nav a').getAttribute('href')")),
        %% The timeline can be zoomed and moved.
        Range = fun() -> text(B, "#timeline .range") end,
        Whole = Range(),
        Focus("#timeline canvas"),
        [Key("+") || _ <- lists:seq(1, 4)],
        Zoomed = Range(),
        ?assertNotEqual(Whole, Zoomed),
        Key("ArrowRight"),
        Moved = Range(),
        ?assertNotEqual(Zoomed, Moved),
        %% The button of the first answer moves the timeline to its time.
        Focus("#cause button"),
        Key("Enter"),
        ?assertEqual(<<"timeline-title">>, Active("id")),
        ?assertNotEqual(Moved, Range()),
        Focus("#timeline canvas"),
        Key("0"),
        ?assertEqual(Whole, Range()),
        %% The flame graph: move down to the first frame, zoom in, and go back.
        Focus("#flame .frame"),
        Root = Active("textContent"),
        Key("ArrowDown"),
        Child = Active("textContent"),
        ?assertNotEqual(Root, Child),
        ?assertEqual(<<"2">>, Active("getAttribute('aria-level')")),
        Frames = fun() -> ask(B, "document.querySelector('#flame caption').textContent") end,
        Before = Frames(),
        Key("Enter"),
        ?assertNotEqual(Before, Frames()),
        ?assertEqual(Child, Active("textContent")),
        Key("Escape"),
        ?assertEqual(Before, Frames()),
        %% A table is sorted by the column whose header is pressed.
        Focus("#functions th button"),
        Key("Enter"),
        ?assertEqual(<<"descending">>, Active("closest('th').getAttribute('aria-sort')")),
        Key("Enter"),
        ?assertEqual(<<"ascending">>, Active("closest('th').getAttribute('aria-sort')")),
        ?assertEqual([], kymo_browser:trouble(B))
    end).

%% axe-core reports no problems, in both themes and widths, with all details open.
accessible(Config) ->
    Get = filename:join(?config(data_dir, Config), "axe_get.sh"),
    Port = open_port({spawn_executable, "/bin/bash"}, [{args, [Get]}, exit_status, stderr_to_stdout, binary]),
    case collect(Port, <<>>) of
        {0, File} ->
            {ok, Axe} = file:read_file(string:trim(File)),
            with_browser(Config, fun(B) ->
                [violations(B, Axe, page(Config, Kind), Theme, Size)
                 || {Kind, Theme, Size} <- [{timer, light, {1280, 800}}, {backlog, dark, {1280, 800}}, {backlog, light, {390, 844}}]]
            end);
        {_, Why} ->
            {skip, "axe-core is absent, so it has not checked the page: " ++ unicode:characters_to_list(Why)}
    end.

violations(B, Axe, Page, Theme, {Width, Height}) ->
    ok = kymo_browser:size(B, Width, Height),
    ok = kymo_browser:theme(B, Theme),
    open(B, Page),
    ok = kymo_browser:run(B, "document.querySelectorAll('details').forEach((d) => { d.open = true; })"),
    ok = kymo_browser:run(B, Axe),
    Found = ask(B, "axe.run().then((r) => ({ passes: r.passes.length, violations: r.violations.map((v) => "
                   "[v.id, v.help, ...v.nodes.slice(0, 3).map((n) => n.target.join(' ') + ' ' + n.failureSummary)]) }))"),
    #{<<"passes">> := Passes, <<"violations">> := Violations} = Found,
    ?assertEqual([], Violations),
    ?assert(Passes > 20).

collect(Port, Acc) ->
    receive
        {Port, {data, Data}} -> collect(Port, <<Acc/binary, Data/binary>>);
        {Port, {exit_status, Status}} -> {Status, Acc}
    end.

%% Each section shows what the data has; the search of the flame graph finds a function.
sections(Config) ->
    Page = page(Config, backlog),
    {#{<<"functions">> := #{<<"rows">> := [#{<<"function">> := Function} | _] = Rows}}, _} = data(Page),
    with_browser(Config, fun(B) ->
        ok = kymo_browser:size(B, 1280, 800),
        open(B, Page),
        ?assertEqual(min(15, length(Rows)), ask(B, "document.querySelectorAll('#functions .table tbody tr').length")),
        contains(text(B, "#functions .table tbody tr"), Function),
        [?assert(ask(B, ["document.querySelectorAll('#", Id, " tbody tr').length"]) > 0)
         || Id <- ["flame", "functions", "requests", "mailboxes", "processes", "schedulers"]],
        ?assert(ask(B, "document.querySelectorAll('#functions svg rect').length") > 0),
        contains(text(B, "#requests .latency"), "kymo_answers_work:init/1"),
        ok = kymo_browser:run(B, "const s = document.querySelector('#flame input'); s.value = 'handle_call'; s.dispatchEvent(new Event('input'))"),
        ?assert(ask(B, "document.querySelectorAll('#flame .frame.match').length") > 0),
        contains(text(B, "#flame .found"), "in functions that match"),
        %% The canvas of the timeline is not blank: it has the colours of runs and calls.
        ?assert(ask(B, "(() => { const c = document.querySelector('canvas'); const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
                       " const seen = new Set(); for (let i = 0; i < d.length; i += 4) seen.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]); return seen.size; })()") > 5),
        ?assertEqual([], kymo_browser:trouble(B)),
        [begin
             ok = kymo_browser:run(B, ["document.getElementById('", Id, "').scrollIntoView()"]),
             ok = kymo_browser:picture(B, filename:join(?config(dir, Config), Id ++ ".png"))
         end || Id <- ["timeline", "flame", "functions", "requests", "about"]]
    end).

%% A chart for the counters of each unit, with the same numbers as `kymo info', and the reports
%% of the system monitor. One process has a mailbox of a length that is known.
counters(Config) ->
    Dir = filename:join(?config(dir, Config), "counted"),
    Messages = 54321,
    Full = spawn(fun() -> receive stop -> ok end end),
    [Full ! N || N <- lists:seq(1, Messages)],
    record(Dir, #{counters => 10, system_monitor => [{large_heap, 16384}]}, "lists:seq/2", fun() ->
        {Pid, Ref} = spawn_monitor(fun() -> L = lists:seq(1, 200000), garbage_collect(), exit({length(L)}) end),
        receive {'DOWN', Ref, process, Pid, _} -> ok end,
        true = kymo_cli:until(fun() -> lists:any(fun(#{system_monitor := M}) -> is_map(M) andalso maps:get(events, M) > 0 end,
                                                 [kymo:info(maps:get(recorder, L)) || L <- kymo:list(), maps:get(state, L) =:= active]) end),
        true = kymo_cli:until(fun() -> maps:is_key(<<"mailbox_length">>, counted(Dir)) end)
    end),
    exit(Full, kill),
    Page = report(Dir),
    {#{<<"counters">> := #{<<"lines">> := Lines, <<"reports">> := Reports}}, _} = data(Page),
    Info = counted(Dir),
    ?assertMatch(#{<<"mailbox_length">> := #{<<"max">> := Messages}}, Info),
    [?assertEqual({C, maps:with([<<"min">>, <<"max">>, <<"last">>, <<"mean">>], maps:get(C, Info))},
                  {C, maps:with([<<"min">>, <<"max">>, <<"last">>, <<"mean">>], L)})
     || #{<<"counter">> := C, <<"scheduler">> := 0} = L <- Lines],
    [_ | _] = [R || #{<<"kind">> := <<"large_heap">>} = R <- Reports],
    with_browser(Config, fun(B) ->
        ok = kymo_browser:size(B, 1280, 1000),
        open(B, Page),
        Memory = length([memory || kymo_peer:counts_memory()]),
        ?assertEqual(10 + Memory, ask(B, "document.querySelectorAll('#counters figure').length")),
        contains(text(B, "#counters"), "Messages in the longest mailboxes up to 54,321"),
        %% Not drawn: atom_count, garbage_reclaimed and, if memory is counted, memory_system.
        ?assertEqual(length(Lines) - 2 - Memory, ask(B, "document.querySelectorAll('#counters svg path.line').length")),
        ?assertEqual(0, ask(B, "[...document.querySelectorAll('#counters svg path.line')].filter((p) => !p.getAttribute('d').startsWith('M')).length")),
        contains(text(B, "#counters"), "large heap"),
        ?assertEqual([], kymo_browser:trouble(B)),
        ok = kymo_browser:run(B, "document.getElementById('counters').scrollIntoView()"),
        ok = kymo_browser:picture(B, filename:join(?config(dir, Config), "counters.png"))
    end).

counted(Dir) ->
    {0, Json} = kymo_cli:run(["info", "--json", Dir]),
    #{<<"counters">> := Info} = kymo_cli:json(unicode:characters_to_list(Json)),
    Info.

%% Names from the recorded node are always shown as text.
hostile_names(Config) ->
    Evil = '</script><img src=x onerror="window.evil=1">',
    Function = '<!--<script>window.evil=2//\x{2028}\\"',
    {ok, Module, Binary} = compile:forms(
        [{attribute, 1, module, Evil}, {attribute, 1, export, [{Function, 1}]},
         {function, 1, Function, 1, [{clause, 1, [{var, 1, 'X'}], [], [{call, 1, {remote, 1, {atom, 1, lists}, {atom, 1, reverse}}, [{var, 1, 'X'}]}]}]}], []),
    {module, Module} = code:load_binary(Module, "evil", Binary),
    Dir = filename:join(?config(dir, Config), "</script><img src=y>"),
    %% The slash in the name creates a folder.
    ok = filelib:ensure_dir(Dir),
    record(Dir, #{}, [{Evil, Function, 1}, "gen_server:call/_"], fun() ->
        Pid = spawn(fun() -> receive {go, From} -> [Evil:Function([N]) || N <- lists:seq(1, 100)], From ! done end end),
        register('<b onclick=evil()>"\'&amp;', Pid),
        Pid ! {go, self()},
        receive done -> ok end
    end),
    Page = filename:join(?config(dir, Config), "evil.html"),
    {0, <<>>} = kymo_cli:run(["report", "-q", "-o", Page, Dir]),
    {_, Json} = data(Page),
    ?assertEqual(nomatch, binary:match(Json, <<"<">>)),
    with_browser(Config, fun(B) ->
        open(B, Page),
        ?assertEqual(0, ask(B, "document.querySelectorAll('img, b, script:not([type]) ~ script').length")),
        ?assert(ask(B, "window.evil === undefined")),
        contains(text(B, "#functions tbody"), "</script><img src=x onerror=\"window.evil=1\">"),
        contains(text(B, "#mailboxes tbody"), "<b onclick=evil()>"),
        ?assertEqual([], kymo_browser:trouble(B))
    end).

empty(Config) ->
    Dir = filename:join(?config(dir, Config), "empty"),
    {ok, R} = kymo:start(#{dir => Dir, owner => none}),
    {ok, _} = kymo:stop(R),
    {_, Planted, _} = hd(?config(plants, Config)),
    Later = filename:join(?config(dir, Config), "later.html"),
    with_browser(Config, fun(B) ->
        [
            begin
                open(B, Page),
                contains(text(B, "#answers"), "no events, so there is nothing to explain"),
                contains(text(B, "#functions"), "No calls were recorded")
            end
         || Page <- [report(Dir), report(Planted, Later, ["--from", "1000s"])]
        ],
        ok = kymo_browser:picture(B, filename:join(?config(dir, Config), "empty.png"))
    end).

%% In one recording the beginning was overwritten, in another the end of a file is missing.
cut(Config) ->
    Dir = filename:join(?config(dir, Config), "cut"),
    record(Dir, #{policy => overwrite, memory => 4 bsl 20}, ["lists:seq/2"],
           fun() -> [lists:seq(1, 5) || _ <- lists:seq(1, 300000)] end),
    Page = report(Dir),
    {#{<<"recording">> := #{<<"whole">> := Whole}}, _} = data(Page),
    ?assertNot(Whole),
    Damaged = filename:join(?config(dir, Config), "damaged"),
    record(Damaged, #{policy => discard}, ["lists:seq/2"], fun() -> [lists:seq(1, 5) || _ <- lists:seq(1, 20000)] end),
    [File | _] = filelib:wildcard(filename:join(Damaged, "data.*")),
    truncate(File, 1000),
    with_browser(Config, fun(B) ->
        open(B, Page),
        contains(text(B, ".health"), "Not complete. Older events were overwritten: it is complete from "),
        ok = kymo_browser:picture(B, filename:join(?config(dir, Config), "cut.png")),
        open(B, report(Damaged)),
        contains(text(B, ".health"), "Its files are damaged"),
        contains(text(B, "#about dl"), "Damage: bytes cut")
    end).

%% Removes N bytes from the end.
truncate(File, N) ->
    {ok, Fd} = file:open(File, [read, write, raw, binary]),
    {ok, _} = file:position(Fd, filelib:file_size(File) - N),
    ok = file:truncate(Fd),
    ok = file:close(Fd).

%% More events than the smallest recorder can write.
lossy(Dir) ->
    {ok, R} = kymo:start(#{dir => Dir, owner => none, policy => discard, memory => 448 * 1024, segment_size => 4096,
                           dict_size => 65536, calls => arguments, content_bytes => 1024}),
    {ok, _} = kymo:trace(R, #{functions => ["export_work:_/_"], events => [calls, return_to, set_on_spawn]}),
    export_work:flood(4, 50000),
    {ok, #{lost := #{ring_full := Lost}}} = kymo:stop(R),
    Lost.

losses(Config) ->
    Dir = filename:join(?config(dir, Config), "lossy"),
    Lost = lossy(Dir),
    ?assert(Lost > 0),
    Page = report(Dir),
    {#{<<"recording">> := #{<<"lost_total">> := Said}}, _} = data(Page),
    ?assertEqual(Lost, Said),
    with_browser(Config, fun(B) ->
        open(B, Page),
        contains(text(B, ".health"), "events were lost while recording"),
        contains(text(B, "#about dl"), "Lost while recording"),
        ok = kymo_browser:picture(B, filename:join(?config(dir, Config), "losses.png"))
    end).

%% With a budget, as kymo attach sets one: the data is valid JSON, and the page says what is
%% missing.
budget(Config) ->
    Dir = filename:join(?config(dir, Config), "budget"),
    {ok, R} = kymo:start(#{dir => Dir, owner => none, budget => #{cpu => 2.5, events => 2000}}),
    {ok, _} = kymo:trace(R, #{functions => ["export_work:_/_"], events => [calls, return_to, set_on_spawn]}),
    true = kymo_cli:until(fun() ->
        export_work:flood(1, 5000),
        #{budget := #{times := Times}} = kymo:info(R),
        Times > 0
    end),
    {ok, _} = kymo:stop(R),
    Page = filename:join(?config(dir, Config), "budget.html"),
    %% The command prints nothing: all output is in the page.
    {0, <<>>} = kymo_cli:run(["report", "-q", "-o", Page, Dir]),
    with_browser(Config, fun(B) ->
        open(B, Page),
        contains(text(B, ".health"), "The recorder left out export_work:"),
        contains(text(B, ".health"), "to keep its budget")
    end).
