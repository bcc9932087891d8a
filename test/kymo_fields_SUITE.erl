%% SPDX-License-Identifier: Apache-2.0
%%
%% The fields of events, in all that shows events: a handmade recording has each kind of record, with all
%% that it can have and with as little as possible. One list says which fields each has. The views are
%% compared with it; each has a table of the names that differ. The recording is written from
%% doc/format.md, without kymo's code.
-module(kymo_fields_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-compile(export_all).
-compile(nowarn_export_all).

all() -> [text, json, tables, ndjson, perfetto, dbg].

init_per_suite(Config) ->
    Dir = filename:join(?config(priv_dir, Config), "every_kind"),
    Older = filename:join(?config(priv_dir, Config), "older"),
    Events = events(),
    write(Dir, Events, 0),
    write(Older, Events, at(length(Events))),
    [{recording, Dir}, {older, Older}, {events, Events} | Config].

end_per_suite(_) ->
    ok.

%% ---- what each kind of record has ----

%% {Id, Event, Letters of the record's fields, Fields beside the process, in order, Content}. Notes of the
%% recorder have neither content nor options.
records() ->
    Gc = [{gc, Name} || Name <- gc_names()],
    [
        {1, "call", "WM", [function], args},
        {2, "return_to", "WM", [function], term},
        {3, "return_from", "WM", [function], value},
        {4, "exception_from", "WMA", [function, {atom, "class"}], value},
        {5, "send", "WPS", [{peer, "to"}, words], msg},
        {6, "send_to_non_existing_process", "WPS", [{peer, "to"}, words], msg},
        {7, "receive", "WPS", [{peer, "from"}, words], msg},
        {8, "spawn", "WPM", [{peer, "peer"}, function], args},
        {9, "spawned", "WPM", [{peer, "by"}, function], args},
        {10, "exit", "WA", [{atom, "reason"}], reason},
        {11, "link", "WP", [{peer, "peer"}], term},
        {12, "unlink", "WP", [{peer, "peer"}], term},
        {13, "getting_linked", "WP", [{peer, "peer"}], term},
        {14, "getting_unlinked", "WP", [{peer, "peer"}], term},
        {15, "register", "WA", [{atom, "name"}], term},
        {16, "unregister", "WA", [{atom, "name"}], term},
        {17, "open", "WPA", [{peer, "by"}, {atom, "driver"}], driver},
        {18, "closed", "WA", [{atom, "reason"}], reason},
        {19, "in", "WM", [function], term},
        {20, "out", "WM", [function], term},
        {21, "in_exiting", "WM", [function], term},
        {22, "out_exiting", "WM", [function], term},
        {23, "out_exited", "WM", [function], term},
        {24, "in", "WA", [{atom, "op"}], term},
        {25, "out", "WA", [{atom, "op"}], term},
        {26, "in_exiting", "WA", [{atom, "op"}], term},
        {27, "out_exiting", "WA", [{atom, "op"}], term},
        {28, "out_exited", "WA", [{atom, "op"}], term},
        {29, "gc_minor_start", "WG", Gc, term},
        {30, "gc_minor_end", "WG", Gc, term},
        {31, "gc_major_start", "WG", Gc, term},
        {32, "gc_major_end", "WG", Gc, term},
        {33, "seq_trace", "WPKUQS", [{peer, "to"}, {kind, "print"}, serial, label, words], term},
        {34, "other", "WA", [{atom, "tag"}], cell},
        {35, "send", "WPSR", [{peer, "to"}, words, message, reference], msg},
        {36, "receive", "WPSR", [{peer, "from"}, words, message, reference], msg},
        {37, "spawned", "WPMI", [{peer, "by"}, function, initial_call], args},
        {38, "send", "WPSN", [{peer, "to"}, words, number], msg},
        {39, "receive", "WPSN", [{peer, "from"}, words, number], msg},
        {40, "send", "WPSRN", [{peer, "to"}, words, message, reference, number], msg},
        {41, "receive", "WPSRN", [{peer, "from"}, words, message, reference, number], msg},
        {42, "taken", "WNL", [number, passed], term},
        {43, "in", "WMKQ", [function, {runnable_by, "port"}, waited], term},
        {44, "out", "WMK", [function, {out_reason, "dirty"}], term},
        {45, "call", "WMD", [function, depth], args},
        {46, "return_to", "WMD", [function, depth], term},
        {47, "return_from", "WMD", [function, depth], value},
        {48, "exception_from", "WMAD", [function, {atom, "class"}, depth], value},
        {49, "slow", "WMQ", [function, duration], term},
        {50, "slow", "WMQD", [function, depth, duration], term},
        {51, "stopped", "WAQBO", [{atom, "cause"}, duration, began, omitted], term},
        {52, "exit", "WAM", [exit_in, {atom, "reason"}], reason},
        {57, "observed", "WPMJAKQ", [{peer, "waits_for"}, function, {atom, "lock"}, {kind, "holds_global_lock"}, mailbox, {in, "called_from"}], none},
        {58, "counters", "C", [counters], none},
        {59, "system_monitor", "WPKQMJ", [{peer, "port"}, {kind, "large_heap"}, {value, "words"}, {in, "in"}, out], none},
        {60, "kymo_state", "K", [{state, "stopping"}], none},
        {61, "kymo_lost", "KQ", [{cause, "too_big"}, count], none}
    ].

-define(FIRST_NOTE, 57).

%% The word for K = 3 is that of the list above.
-define(KIND, 3).

gc_names() ->
    ["wordsize", "old_heap_block_size", "heap_block_size", "mbuf_size", "recent_size", "stack_size", "old_heap_size",
     "heap_size", "bin_vheap_size", "bin_vheap_block_size", "bin_old_vheap_size", "bin_old_vheap_block_size"].

%% Each record with all that it can have; nothing of it known; cut, with the other time stamps; and the
%% sends whose peer is in the content.
events() ->
    Records = records(),
    Events = [event(R, all) || R <- Records] ++ [event(R, nothing) || R <- Records] ++
        [event(R, cut) || {Id, _, _, _, _} = R <- Records, Id < ?FIRST_NOTE] ++
        [event(R, paired) || {_, "send" ++ _, _, _, msg} = R <- Records],
    [E#{at => at(I)} || {I, E, _} <- numbered(Events, Events)].

event({Id, Event, Letters, Fields, Content}, How) ->
    #{id => Id, event => Event, letters => Letters, content => Content, how => How,
      fields => lists:append([field(F, How, Content) || F <- Fields]) ++ content(Content, How) ++ options(Id, How)}.

%% ---- their fields: {What, Name, Value} ----

field(function, nothing, _) -> [{function, "function", unknown}];
field(function, _, args) -> [{function, "function", {call, "m:f/1", "(10)"}}];
field(function, _, _) -> [{function, "function", "m:f/1"}];
field(exit_in, nothing, _) -> [];
field(exit_in, _, _) -> [{function, "function", "m:f/1"}];
field({atom, _}, nothing, _) -> [];
field({atom, Name}, _, Content) ->
    %% The content says the same, or more.
    Short = Name =:= atom_to_list(Content),
    [{atom, Name, if Short -> {short, "why"}; true -> "why" end}];
field({peer, "by"}, nothing, driver) -> [{peer, "by", none}];
field({peer, _}, nothing, _) -> [];
field({peer, Name}, _, _) -> [{peer, Name, "<0.2.0>"}];
field(words, nothing, _) -> [];
field(words, _, _) -> [{words, "words", {at_least, 5}}];
field(initial_call, nothing, _) -> [];
field(initial_call, _, _) -> [{initial_call, "initial_call", "m:init/1"}];
field({kind, _}, nothing, _) -> [{kind, "kind", "?"}];
field({kind, Kind}, _, _) -> [{kind, "kind", Kind}];
field(serial, nothing, _) -> [{serial, "serial", {0, 0}}];
field(serial, _, _) -> [{serial, "serial", {3, 4}}];
field(label, nothing, _) -> [{label, "label", 0}];
field(label, _, _) -> [{label, "label", 1000}];
field(message, nothing, _) -> [];
field(message, _, _) -> [{message, "message", "call"}];
field(reference, nothing, _) -> [];
field(reference, _, _) -> [{reference, "reference", "#Ref<000000000000abc>"}];
field(number, nothing, _) -> [];
field(number, _, _) -> [{number, "number", "0xfedcba9876543210"}];
field(passed, nothing, _) -> [{passed, "passed", many}];
field(passed, _, _) -> [{passed, "passed", 7}];
field(depth, nothing, _) -> [{depth, "stack_words", 0}];
field(depth, _, _) -> [{depth, "stack_words", 200}];
field(duration, How, _) -> [{duration, "duration_ns", known(1000, How)}];
field(began, How, _) -> [{began, "began_ns_ago", known(2000, How)}];
field(omitted, How, _) -> [{omitted, "omitted", known(2, How)}];
field({runnable_by, _}, nothing, _) -> [];
field({runnable_by, By}, _, _) -> [{runnable_by, "runnable_by", By}];
field(waited, nothing, _) -> [];
field(waited, _, _) -> [{waited, "waited_ns", 1000}];
field({out_reason, _}, nothing, _) -> [];
field({out_reason, Reason}, _, _) -> [{out_reason, "reason", Reason}];
field({gc, _}, nothing, _) -> [];
field({gc, Name}, _, _) -> [{gc, Name, 10 * index(Name, gc_names())}];
field(counters, nothing, _) -> [];
field(counters, _, _) -> [{counter, "run_queue", 11}, {counter, "mailbox_length[1]", {22, "<0.2.0>"}}];
field({value, _}, nothing, _) -> [];
field({value, Name}, _, _) -> [{value, Name, 1000}];
field(mailbox, How, _) -> [{mailbox, "mailbox", known(1000, How)}];
field({in, _}, nothing, _) -> [];
field({in, Name}, _, _) -> [{in, Name, "m:in/0"}];
field(out, nothing, _) -> [];
field(out, _, _) -> [{out, "out", "m:f/1"}];
field({state, _}, nothing, _) -> [{state, "state", "idle"}];
field({state, State}, _, _) -> [{state, "state", State}];
field({cause, _}, nothing, _) -> [{cause, "cause", "ring_full"}];
field({cause, Cause}, _, _) -> [{cause, "cause", Cause}];
field(count, How, _) -> [{count, "count", known(1000, How)}].

known(_, nothing) -> 0;
known(N, _) -> N.

index(X, List) -> length(lists:takewhile(fun(Y) -> Y =/= X end, List)) + 1.

content(_, nothing) -> [];
content(none, _) -> [];
content(args, How) -> [{content, "args", {args, "(10)", How}}];
content(cell, How) -> [{content, "term", {term, "{v,1}", How}}, {extra, "extra", {term, "x", How}}];
content(Name, How) -> [{content, atom_to_list(Name), {term, "{v,1}", How}}].

options(Id, How) when How =:= nothing; Id >= ?FIRST_NOTE -> [];
options(Id, How) ->
    Stamp = case stamp(Id, How) of
                1 -> {"timestamp", -5};
                2 -> {"cpu_timestamp", -5};
                3 -> {"monotonic", -5};
                4 -> {"strict_monotonic", {-5, 77}}
            end,
    [{scheduler, "scheduler", 3}, {stamp, element(1, Stamp), element(2, Stamp)},
     {result, "match_spec_result", {term, "{r,1}", How}}].

stamp(Id, cut) -> 1 + (Id + 1) rem 4;
stamp(Id, _) -> 1 + Id rem 4.

%% ---- cases ----

text(Config) ->
    Lines = lines(["print", "-q", ?config(recording, Config)]),
    Events = ?config(events, Config),
    ?assertEqual(length(Events), length(Lines)),
    equal([{text_of(I, E), string:lexemes(L, " ")} || {I, E, L} <- numbered(Events, Lines)]).

equal(Pairs) -> ?assertEqual([], [P || {Expected, Got} = P <- Pairs, Expected =/= Got]).

text_of(I, #{event := Event, fields := Fields} = E) ->
    Process = case has_process(E) of
                  true -> "<0.1.0>(boss)";
                  false -> "-"
              end,
    Ns = at(I) - start(),
    Time = io_lib:format("~b.~9..0b", [Ns div 1000000000, Ns rem 1000000000]),
    [lists:flatten(Time), "s1", Process, Event | lists:append([text_field(F, E) || F <- Fields])].

text_field({function, _, unknown}, #{id := Id}) when Id =:= 2; Id =:= 46; Id >= 19, Id =< 23; Id =:= 43; Id =:= 44 ->
    ["undefined"];
text_field({function, _, unknown}, _) -> ["?"];
text_field({function, _, {call, _, Args}}, #{how := cut}) -> ["m:f" ++ Args ++ "(cut)"];
text_field({function, _, {call, _, Args}}, _) -> ["m:f" ++ Args];
text_field({function, _, Mfa}, _) -> [Mfa];
text_field({content, "args", _}, _) -> [];
text_field({atom, _, {short, _}}, _) -> [];
text_field({depth, _, _}, _) -> [];
text_field({omitted, _, 0}, _) -> [];
text_field({kind, _, Kind}, #{id := Id}) when Id =:= 57; Id =:= 59 -> [Kind];
text_field({reference, _, Ref}, _) -> ["ref=" ++ Ref];
text_field({peer, Name, none}, _) -> [Name ++ "=undefined"];
text_field({words, Name, {at_least, N}}, _) -> [Name ++ "=" ++ integer_to_list(N) ++ "+"];
text_field({passed, Name, many}, _) -> [Name ++ "=many"];
text_field({serial, Name, {A, B}}, _) -> [lists:flatten(io_lib:format("~s={~b,~b}", [Name, A, B]))];
text_field({stamp, Name, {A, B}}, _) -> [lists:flatten(io_lib:format("~s=~b,~b", [Name, A, B]))];
text_field({counter, Name, {N, Pid}}, _) -> [lists:flatten(io_lib:format("~s=~b", [Name, N])), "of", Pid];
text_field({content, Name, {term, Term, paired}}, _) -> [Name ++ "+peer=" ++ Term];
text_field({_, Name, {term, Term, cut}}, _) -> [Name ++ "(cut)=" ++ Term];
text_field({_, Name, {term, Term, _}}, _) -> [Name ++ "=" ++ Term];
text_field({_, Name, N}, _) when is_integer(N) -> [Name ++ "=" ++ integer_to_list(N)];
text_field({_, Name, Text}, _) -> [Name ++ "=" ++ Text].

%% kymo_cli:json/1 fails if an object has a member twice.
json(Config) ->
    Lines = lines(["print", "-q", "--json", ?config(recording, Config)]),
    Events = ?config(events, Config),
    ?assertEqual(length(Events), length(Lines)),
    equal([{json_of(I, E), kymo_cli:json(L ++ "\n")} || {I, E, L} <- numbered(Events, Lines)]).

json_of(I, #{event := Event, fields := Fields} = E) ->
    Head = [{"ns", at(I) - start()}, {"thread", "s1"}, {"event", Event}],
    Process = [M || has_process(E), M <- [{"process", "<0.1.0>"}, {"process_name", "boss"}]],
    Members = Head ++ Process ++ lists:append([json_field(F) || F <- Fields]),
    maps:from_list([{list_to_binary(K), json_value(V)} || {K, V} <- Members]).

json_value([N | _] = Text) when is_integer(N), N >= 32 -> list_to_binary(Text);
json_value({array, List}) -> List;
json_value(Value) -> Value.

json_field({function, _, unknown}) -> [];
json_field({function, Name, {call, Mfa, _}}) -> [{Name, Mfa}];
json_field({atom, _, {short, _}}) -> [];
json_field({peer, _, none}) -> [];
json_field({peer, _, Pid}) -> [{"peer", Pid}];
json_field({words, Name, {at_least, N}}) -> [{Name, N}, {Name ++ "_more", true}];
json_field({passed, _, many}) -> [];
json_field({What, Name, {A, B}}) when What =:= serial; What =:= stamp -> [{Name, {array, [A, B]}}];
json_field({counter, Name, {N, Pid}}) -> [{Name, N}, {lists:flatten(string:replace(Name, "[", "_pid[")), Pid}];
json_field({in, _, Mfa}) -> [{"in_function", Mfa}];
json_field({out, _, Mfa}) -> [{"function", Mfa}];
json_field({content, Name, {_, Text, How}}) ->
    [{Name, Text}] ++ [{"cut", true} || How =:= cut] ++ [{"pair", true} || How =:= paired];
json_field({extra, Name, {_, Text, _}}) -> [{Name, Text}];
json_field({result, Name, {_, Text, How}}) -> [{Name, Text}] ++ [{Name ++ "_cut", true} || How =:= cut];
json_field({_, Name, Value}) -> [{Name, Value}].

%% Notes are no rows.
tables(Config) ->
    Events = [E || #{id := Id} = E <- ?config(events, Config), Id < ?FIRST_NOTE],
    Lines = lines(["sql", "-q", "--json", ?config(recording, Config), "select * from events order by id"]),
    compare_rows(Events, Lines).

ndjson(Config) ->
    Out = filename:join(?config(priv_dir, Config), "tables"),
    {0, _} = kymo_cli:run(["export", "ndjson", "-q", "-o", Out, ?config(recording, Config)]),
    {ok, Bytes} = file:read_file(filename:join(Out, "events.ndjson")),
    Events = [E || #{id := Id} = E <- ?config(events, Config), Id < ?FIRST_NOTE],
    compare_rows(Events, string:lexemes(binary_to_list(Bytes), "\n")).

compare_rows(Events, Lines) ->
    ?assertEqual(length(Events), length(Lines)),
    Same = [<<"id">>, <<"time_ns">>, <<"time">>, <<"thread">>, <<"process">>, <<"peer">>],
    Rows = [maps:map(fun decoded/2, maps:without(Same, kymo_cli:json(L ++ "\n"))) || L <- Lines],
    equal(lists:zip([row_of(E) || E <- Events], Rows)).

%% SQLite has no type for booleans and objects.
decoded(<<"content_cut">>, 0) -> false;
decoded(<<"content_cut">>, 1) -> true;
decoded(<<"details">>, Text) when is_binary(Text) -> kymo_cli:json(binary_to_list(Text) ++ "\n");
decoded(_, Value) -> Value.

row_of(#{event := Event, fields := Fields} = E) ->
    Empty = maps:from_list([{C, null} || C <- [peer_pid, function, module, initial_call, duration_ns, atom, words, message,
                                               reference, content, content_cut, match_result, details]]),
    Known = maps:from_list([{pid, "<0.1.0>"} || has_process(E)] ++ [{event, Event}] ++ lists:append([cells(F) || F <- Fields]) ++
                           details(Fields)),
    maps:from_list([{atom_to_binary(K, utf8), json_value(V)} || {K, V} <- maps:to_list(maps:merge(Empty, Known))]).

%% What has no column.
details(Fields) ->
    Columns = [function, peer, initial_call, duration, atom, words, message, reference, content, extra, result],
    case lists:append([json_field(F) || {What, _, _} = F <- Fields, not lists:member(What, Columns)]) of
        [] -> [];
        Members -> [{details, maps:from_list([{list_to_binary(K), json_value(V)} || {K, V} <- Members])}]
    end.

cells({function, _, unknown}) -> [];
cells({function, _, {call, Mfa, _}}) -> cells({function, "", Mfa});
cells({function, _, Mfa}) -> [{function, Mfa}, {module, "m"}];
cells({peer, _, none}) -> [];
cells({peer, _, Pid}) -> [{peer_pid, Pid}];
cells({atom, _, {short, Atom}}) -> [{atom, Atom}];
cells({words, _, {at_least, N}}) -> [{words, N}];
cells({duration, _, N}) -> [{duration_ns, N}];
cells({content, _, {_, Text, How}}) -> [{content, Text}, {content_cut, How =:= cut}];
cells({extra, _, {_, Text, _}}) -> [{content, "[{v,1}|" ++ Text ++ "]"}];
cells({result, _, {_, Text, _}}) -> [{match_result, Text}];
cells({What, _, Value}) ->
    [{What, Value} || lists:member(What, [initial_call, atom, message, reference])].

%% All events of a recording are before its horizon: each is an instant with its fields.
perfetto(Config) ->
    Out = filename:join(?config(priv_dir, Config), "older.pftrace"),
    {0, _} = kymo_cli:run(["export", "perfetto", "-q", "--all", "-o", Out, ?config(older, Config)]),
    Events = [{I, E} || {I, #{id := Id} = E} <- lists:zip(lists:seq(0, length(?config(events, Config)) - 1), ?config(events, Config)), Id < ?FIRST_NOTE],
    Instants = maps:from_list([{Ns, {Name, Annotations}} || {Name, Ns, Annotations} <- kymo_perfetto:instants(Out)]),
    equal([{annotated(E), map_get(at(I), Instants)} || {I, E} <- Events]).

annotated(#{id := Id, event := Event, fields := Fields, how := How}) ->
    IsCall = Id =:= 1 orelse Id =:= 45,
    Name = if IsCall, How =:= nothing -> "?"; IsCall -> "m:f/1"; true -> Event end,
    Of = lists:append([annotations(F, Id) || {What, _, _} = F <- Fields, not (IsCall andalso What =:= function)]),
    {list_to_binary(Name), maps:from_list([{list_to_binary(K), json_value(V)} || {K, V} <- Of])}.

annotations({function, _, unknown}, _) -> [];
annotations({function, _, {call, Mfa, _}}, Id) -> annotations({function, "", Mfa}, Id);
annotations({function, _, Mfa}, Id) when Id =:= 8; Id =:= 9; Id =:= 37 -> [{"initial_call", Mfa}];
annotations({function, _, Mfa}, _) -> [{"at", Mfa}];
annotations({initial_call, _, Mfa}, _) -> [{"runs", Mfa}];
annotations({peer, _, none}, _) -> [];
annotations({peer, _, Pid}, _) -> [{"peer", Pid}];
annotations({atom, _, {short, _}}, _) -> [];
annotations({atom, "op", Atom}, _) -> [{"at", Atom}];
annotations({words, _, {at_least, N}}, _) -> [{"size_words", N}];
annotations({message, _, Kind}, _) -> [{"message_kind", Kind}];
annotations({passed, _, many}, _) -> [];
annotations({serial, Name, {A, B}}, _) -> [{Name, lists:flatten(io_lib:format("~b -> ~b", [A, B]))}];
annotations({waited, _, N}, _) -> [{"run_queue_ns", N}];
annotations({out_reason, _, Reason}, _) -> [{"out_reason", Reason}];
annotations({content, "args", {_, Text, How}}, _) -> [{"arguments", cut(Text, How)}];
annotations({content, "msg", {_, Text, How}}, _) -> [{"message", cut(Text, How)}];
annotations({stamp, _, _}, _) -> [];
annotations({_, Name, {Term, Text, How}}, _) when Term =:= term -> [{Name, cut(Text, How)}];
annotations({_, Name, Value}, _) -> [{Name, Value}].

cut(Text, cut) -> Text ++ " (cut)";
cut(Text, _) -> Text.

%% Terms are those of a process tracer, so fields that these do not have are missing.
dbg(Config) ->
    Out = filename:join(?config(priv_dir, Config), "every_kind.dbg"),
    {0, _} = kymo_cli:run(["export", "dbg", "-q", "-o", Out, ?config(recording, Config)]),
    Events = [E || #{id := Id} = E <- ?config(events, Config), Id < ?FIRST_NOTE orelse Id =:= 61, Id =/= 42, Id =/= 51],
    Terms = kymo_cli:read_dbg(Out),
    %% Nothing is written for a note that says that none was lost.
    Expected = lists:append([term_of(E) || E <- Events]),
    ?assertEqual(length(Expected), length(Terms)),
    equal(lists:zip(Expected, Terms)).

term_of(#{id := 61, how := nothing}) -> [];
term_of(#{id := 61}) -> [{drop, 1000}];
term_of(#{id := 33, how := How}) when How =/= nothing -> [list_to_tuple([seq_trace, v, 1] ++ extras(33, How))];
term_of(#{id := 33, how := nothing}) ->
    [{seq_trace, 0, {'$kymo_unknown', {0, 0}, the_pid(1), [], '$kymo_not_recorded'}}];
term_of(#{id := 34, how := nothing}) -> [{trace, the_pid(1), '?', '$kymo_not_recorded'}];
term_of(#{id := 34, how := How}) -> [list_to_tuple([trace_ts, the_pid(1), why, {v, 1}, x] ++ extras(34, How))];
%% The call began in Erlang monotonic time, which is 0 at the start of this recording.
term_of(#{id := Id, how := How, at := At}) when Id =:= 49; Id =:= 50 ->
    Ns = known(1000, How),
    Head = [case How of nothing -> trace; _ -> trace_ts end, the_pid(1), slow, function(How, false, undefined)],
    [list_to_tuple(Head ++ [{At - start() - Ns, Ns} | extras(Id, How)])];
term_of(#{id := Id, event := Event, letters := Letters, content := Content, how := How}) ->
    Head = [case How of nothing -> trace; _ -> trace_ts end, the_pid(1), list_to_atom(Event)],
    [list_to_tuple(Head ++ elements(Id, Letters, Content, How) ++ extras(Id, How))].

extras(_, nothing) -> [];
extras(Id, How) ->
    Stamp = case stamp(Id, How) of
                3 -> -5;
                4 -> {-5, 77};
                _ -> {0, 0, 0}
            end,
    [{r, 1}, 3, Stamp].

elements(_, [_, $G | _], _, nothing) -> [[]];
elements(_, [_, $G | _], _, _) -> [[{list_to_atom(N), 10 * index(N, gc_names())} || N <- gc_names()]];
elements(_, _, msg, paired) -> [v, 1];
elements(Id, _, msg, nothing) when Id =:= 7; Id =:= 36; Id =:= 39; Id =:= 41 -> ['$kymo_not_recorded'];
elements(_, _, msg, nothing) -> ['$kymo_not_recorded', undefined];
elements(_, _, msg, _) -> [{v, 1}, the_pid(2)];
elements(Id, _, args, How) when Id =:= 1; Id =:= 45 -> [function(How, true, undefined)];
elements(_, _, args, How) -> [peer(How), function(How, true, undefined)];
elements(Id, _, value, How) when Id =:= 3; Id =:= 47 -> [function(How, false, undefined), dbg_content(How)];
elements(_, _, value, How) ->
    [function(How, false, undefined), {case How of nothing -> '?'; _ -> why end, dbg_content(How)}];
elements(Id, _, _, How) when Id =:= 2; Id =:= 46 -> [function(How, false, undefined)];
elements(_, [$W, $M | _], _, How) -> [function(How, false, 0)];
elements(_, "WPA", _, How) -> [peer(How), dbg_content(How)];
elements(_, [$W, $A | _], reason, How) -> [dbg_content(How)];
elements(Id, "WA", _, nothing) when Id >= 24 -> [0];
elements(_, "WA", _, nothing) -> ['?'];
elements(_, "WA", _, _) -> [why];
elements(_, "WP", _, How) -> [peer(How)].

function(nothing, _, Unknown) -> Unknown;
function(_, true, _) -> {m, f, [10]};
function(_, false, _) -> {m, f, 1}.

peer(nothing) -> undefined;
peer(_) -> the_pid(2).

dbg_content(nothing) -> '$kymo_not_recorded';
dbg_content(_) -> {v, 1}.

%% A process of the node of the recording.
the_pid(N) -> binary_to_term(<<131, 88, 119, 13, "nonode@nohost", N:32, 0:32, 0:32>>).

has_process(#{id := 59, how := nothing}) -> false;
has_process(#{letters := Letters}) -> hd(Letters) =:= $W.

numbered(A, B) -> lists:zip3(lists:seq(0, length(A) - 1), A, B).

lines(Args) ->
    {0, Out} = kymo_cli:run(Args),
    string:lexemes(unicode:characters_to_list(Out), "\n").

%% ---- the recording ----

-define(SEGMENT, 65536).

start() -> 1000000.
at(I) -> 2 * start() + 1000 * I.

%% Gone: the time up to which events have been overwritten, 0 = none.
write(Dir, Events, Gone) ->
    ok = file:make_dir(Dir),
    Dict = dict(),
    Slot = [{0, <<1:32/little, 1:32/little, 1:32/little>>}, {128, <<(min(Gone, 1)):64/little, Gone:64/little>>}],
    Meta = [meta(byte_size(Dict)), zeroes(4096), bytes(256, Slot)],
    ok = file:write_file(filename:join(Dir, "meta"), Meta),
    ok = file:write_file(filename:join(Dir, "dict"), Dict),
    ok = file:write_file(filename:join(Dir, "ring"), [segment(Events), zeroes(3 * ?SEGMENT)]).

meta(DictBytes) ->
    bytes(4096, [
        {0, <<"KYMOREC1", 3:32/little, 4096:32/little, (uuid())/binary, 0:32, 4:32/little, 1:32/little, 1:32/little,
              ?SEGMENT:32/little, 4:32/little, 0:32, 0:32, 1000000000:64/little, (start()):64/little, (start()):64/little,
              1700000000000000000:64/little>>},
        {112, <<1:64/little, DictBytes:64/little, DictBytes:64/little>>},
        {216, <<1:32/little>>},
        {244, <<13:32/little, "nonode@nohost">>},
        {504, <<"25">>}, {520, <<"13.1.5">>}
    ]).

uuid() -> <<"0123456789abcdef">>.

zeroes(N) -> <<0:N/unit:8>>.

%% N bytes with these parts at their offsets.
bytes(N, Parts) ->
    Bytes = lists:foldl(fun({At, Part}, Acc) -> <<Acc/binary, (zeroes(At - byte_size(Acc)))/binary, Part/binary>> end, <<>>, Parts),
    <<Bytes/binary, (zeroes(N - byte_size(Bytes)))/binary>>.

dict() ->
    Entries = [{1, <<"m">>}, {1, <<"f">>}, {2, mfa(1, 2, 1)}, {1, <<"init">>}, {2, mfa(1, 4, 1)}, {1, <<"in">>},
               {2, mfa(1, 6, 0)}, {1, <<"boss">>}, {1, <<"why">>},
               {4, <<(pid(1)):64/little, 0:64, 8:32/little, 0:32>>}],
    iolist_to_binary([entry(Kind, Id, Payload) || {Id, {Kind, Payload}} <- lists:zip(lists:seq(1, length(Entries)), Entries)]).

mfa(M, F, A) -> <<M:32/little, F:32/little, A:32/little>>.

entry(Kind, Id, Payload) ->
    Rest = <<Kind, 0, (byte_size(Payload)):16/little, Id:32/little, Payload/binary>>,
    Entry = <<16#444d594b:32/little, (erlang:crc32(Rest)):32/little, Rest/binary>>,
    [Entry, zeroes(-byte_size(Entry) band 7)].

pid(N) -> N.

segment(Events) ->
    Records = iolist_to_binary([record(I, E) || {I, E, _} <- numbered(Events, Events)]),
    Length = 160 + byte_size(Records),
    true = Length =< ?SEGMENT,
    Header = bytes(160, [
        {0, <<16#C1FC1FC1:32/little, (uuid())/binary, 0:32, 0:64, (at(0)):64/little, (at(length(Events) - 1)):64/little,
              (8 * Length):64/little, (8 * ?SEGMENT):64/little, 1:64/little, 0:64, Length:64/little,
              (length([E || #{id := Id} = E <- Events, Id < ?FIRST_NOTE])):64/little, 1:32/little, 1:32/little>>},
        {128, <<1:64/little, 0:64, (at(0)):64/little>>}
    ]),
    bytes(?SEGMENT, [{0, <<Header/binary, Records/binary>>}]).

record(I, #{id := Id, letters := Letters, content := Content, how := How}) ->
    Note = Id >= ?FIRST_NOTE,
    Variant = if Note; How =:= nothing -> 0; true -> 16#c0 end,
    Contents = [encoded_content(Content, How) || Variant =/= 0],
    Options = [encoded_options(Id, How) || Variant =/= 0],
    [<<(Id bor Variant), (at(I)):32/little>>, [letter(L, of_letter(L, Id, How)) || L <- Letters], Contents, Options].

%% Only reports of the system monitor may have no process.
of_letter($W, 59, nothing) -> nothing;
of_letter($W, _, _) -> all;
of_letter(_, _, How) -> How.

letter($W, nothing) -> <<(15 bsl 60):64/little>>;
letter($W, _) -> <<(pid(1)):64/little>>;
letter($P, nothing) -> <<(15 bsl 60):64/little>>;
letter($P, _) -> <<(pid(2)):64/little>>;
letter($M, How) -> id(3, How);
letter($A, How) -> id(9, How);
letter($I, How) -> id(5, How);
letter($J, How) -> id(7, How);
letter($S, nothing) -> <<16#ffffffff:32/little>>;
letter($S, _) -> <<(16#80000000 bor 5):32/little>>;
letter($K, How) -> <<(known(?KIND, How))>>;
letter($Q, How) -> <<(known(1000, How)):64/little>>;
letter($U, How) -> <<(known(3, How)):32/little, (known(4, How)):32/little>>;
letter($R, How) -> <<(known(1, How)), (known(16#abc, How)):64/little>>;
letter($N, How) -> <<(known(16#fedcba9876543210, How)):64/little>>;
letter($D, nothing) -> <<0>>;
letter($D, _) -> <<(200 bsl 1 bor 1):32/little>>;
letter($L, nothing) -> <<16#ffffffff:32/little>>;
letter($L, _) -> <<7:32/little>>;
letter($B, How) -> <<(known(2000, How)):64/little>>;
letter($O, How) -> <<(known(2, How)):32/little>>;
letter($G, nothing) -> <<0>>;
letter($G, _) -> [12, [<<(10 * N):64/little>> || N <- lists:seq(1, 12)]];
letter($C, nothing) -> <<0:16>>;
letter($C, _) -> [<<3:16/little>> | [<<Counter:16/little, Index:16/little, Value:64/little>>
                                     || {Counter, Index, Value} <- [{1, 0, 11}, {26, 1, pid(2)}, {27, 1, 22}]]].

id(_, nothing) -> <<0:32>>;
id(Id, _) -> <<Id:32/little>>.

encoded_content(args, How) -> blob(flags(How), <<108, 1:32, 97, 10, 106>>);
encoded_content(cell, How) -> blob(flags(How), <<108, 1:32, (etf({v, 1}))/binary, (etf(x))/binary>>);
encoded_content(_, How) -> blob(flags(How), etf({v, 1})).

flags(cut) -> 1;
flags(paired) -> 2;
flags(_) -> 0.

blob(Flags, Bytes) -> <<Flags, (byte_size(Bytes)):16/little, Bytes/binary>>.

encoded_options(Id, How) ->
    Cut = case How of cut -> 8; _ -> 0 end,
    Result = etf({r, 1}),
    <<(7 bor Cut), 3:16/little, (stamp(Id, How)), -5:64/little, 77:64/little, (byte_size(Result)):16/little, Result/binary>>.

etf(Term) ->
    <<131, Bytes/binary>> = term_to_binary(Term),
    Bytes.
