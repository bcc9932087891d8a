%% SPDX-License-Identifier: Apache-2.0
%%
%% Invalid arguments: every NIF is called with random terms of all kinds, generated from a fixed
%% seed. A call that the NIF does not understand is answered, refused or counted; the recorder
%% continues, and its files can be read.
-module(kymo_misuse_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_testcase/2, end_per_testcase/2]).
-export([callbacks/1, callbacks_of_ended/1, control/1, open/1, every_function/1, classic/1]).

%% Functions that the cases below call: the callbacks, each with the tags that it handles.
-define(CALLBACKS, [
    {enabled, trace, {seq_trace, trace_status, unheard_of}},
    {enabled_call, trace_call, {call, return_to, return_from, exception_from}},
    {enabled_garbage_collection, trace_garbage_collection,
        {gc_minor_start, gc_minor_end, gc_major_start, gc_major_end}},
    {enabled_ports, trace_ports, {open, closed, link, unlink, getting_linked, getting_unlinked}},
    {enabled_procs, trace_procs,
        {spawn, spawned, exit, link, unlink, getting_linked, getting_unlinked, register, unregister}},
    {enabled_receive, trace_receive, {'receive'}},
    {enabled_running_ports, trace_running_ports, {in, out, in_exiting, out_exiting, out_exited}},
    {enabled_running_procs, trace_running_procs, {in, out, in_exiting, out_exiting, out_exited}},
    {enabled_send, trace_send, {send, send_to_non_existing_process}}
]).
-define(CONTROL, [
    {stop, 1}, {let_go, 1}, {pause, 1}, {resume, 1}, {info, 1}, {snapshot, 2}, {define_process, 4}, {define_process, 6},
    {note_taken, 2}, {note_measures, 2}, {budget, 3}, {rates, 1}, {sample, 3}, {note_shed, 4},
    {note_counters, 2}, {note_monitor, 5}, {note_observed, 6}
]).

all() -> [every_function, callbacks, callbacks_of_ended, control, open, classic].

suite() -> [{timetrap, {minutes, 4}}].

init_per_testcase(Case, Config) ->
    _ = rand:seed(exsss, {27, 3, 4}),
    _ = process_flag(message_queue_data, off_heap),
    [{dir, filename:join(?config(priv_dir, Config), Case)} | Config].

end_per_testcase(_, Config) ->
    [file:del_dir_r(Dir) || Dir <- filelib:wildcard(?config(dir, Config) ++ "*")],
    ok.

%% Every exported function is tested here.
every_function(_) ->
    %% These do not call the library. The folder that load_library/1 gets is kymo's own choice.
    Others = [
        {module_info, 0}, {module_info, 1}, {format_error, 2}, {format_library, 1}, {load_library, 1}, {priv_dirs, 0}
    ],
    Exports = kymo_tracer:module_info(exports) -- Others,
    Callbacks = lists:append([[{E, 3}, {T, 5}] || {E, T, _} <- ?CALLBACKS]),
    Called = Callbacks ++ ?CONTROL ++ [{open, 1}],
    ?assertEqual(lists:sort(Exports), lists:sort(Called)).

%% ---- the callbacks ------------------------------------------------------------------

%% With contents and without, truncated, and of sampled processes only.
callbacks(Config) ->
    All = #{calls => arguments, messages => contents, terms => contents, returns => values},
    lists:foreach(
        fun({N, Options}) ->
            Dir = ?config(dir, Config) ++ integer_to_list(N),
            State = recorder(Dir, Options),
            Odd = odd([State]),
            repeat(800, fun() -> callbacks_once(Odd, State) end),
            #{events := Events, lost := #{bad_term := Bad}} = kymo_tracer:info(State),
            ?assert(Events > 0 andalso Bad > 0),
            ok = kymo_tracer:stop(State),
            _ = kymo_conform:recorded(Dir)
        end,
        lists:enumerate([#{}, All, All#{content_bytes => 5}, #{messages => none, gc => none, sample => {process, 2}}])
    ).

callbacks_of_ended(Config) ->
    State = recorder(?config(dir, Config), #{}),
    Odd = odd([State]),
    ok = kymo_tracer:pause(State),
    repeat(200, fun() -> callbacks_once(Odd, State) end),
    ok = kymo_tracer:resume(State),
    ok = kymo_tracer:stop(State),
    repeat(200, fun() -> callbacks_once(Odd, State) end),
    ok = kymo_tracer:let_go(State),
    repeat(200, fun() -> callbacks_once(Odd, State) end),
    ?assertMatch(#{events := 0}, kymo_tracer:info(State)).

callbacks_once(Odd, State) ->
    [
        begin
            Question = [tag(Tags, Odd), state(Odd, State), term(Odd, 3)],
            Answer = apply(kymo_tracer, Enabled, Question),
            ?assert(lists:member(Answer, [trace, discard, remove]), {Enabled, Question, Answer}),
            Event = [tag(Tags, Odd), state(Odd, State), term(Odd, 2), alone(subject(Odd)), alone(options(Odd))],
            ?assertEqual(ok, apply(kymo_tracer, Trace, Event), {Trace, Event})
        end
     || {Enabled, Trace, Tags} <- ?CALLBACKS
    ].

%% Mostly a tag that the function handles.
tag(Tags, Odd) ->
    case rand:uniform(10) of
        1 -> term(Odd, 1);
        2 -> pick(element(3, lists:nth(rand:uniform(length(?CALLBACKS)), ?CALLBACKS)));
        _ -> pick(Tags)
    end.

%% Often almost a valid subject of an event.
subject(Odd) ->
    case rand:uniform(6) of
        1 -> {lists, map, pick({0, 2, 256, [a, b], [a | b], term(Odd, 2)})};
        2 -> {pick({lists, 1}), pick({map, []}), term(Odd, 1)};
        3 -> [pick({{heap_size, 1}, {stack_size, term(Odd, 1)}, {heap_size}, term(Odd, 1)}) || _ <- [1, 2, 3]];
        4 -> {pick({send, print, a}), pick({{1, 2}, {1}, term(Odd, 1)}), self(), term(Odd, 1), term(Odd, 2)};
        _ -> term(Odd, 4)
    end.

%% A message outside of the heap has a block of exactly its size, so that the address sanitizer
%% sees reads beyond its end.
alone(Term) ->
    case erts_debug:flat_size(Term) < 200 of
        true ->
            self() ! Term,
            receive
                Copy ->
                    ?assertEqual(Term, Copy),
                    Copy
            end;
        false ->
            Term
    end.

state(Odd, State) ->
    case rand:uniform(4) of
        1 -> term(Odd, 1);
        _ -> State
    end.

options(Odd) ->
    Keys = {extra, match_spec_result, scheduler_id, timestamp, unheard_of},
    Stamps = {timestamp, cpu_timestamp, monotonic, strict_monotonic},
    Values = fun
        (timestamp) -> pick(Stamps);
        (_) -> term(Odd, 3)
    end,
    case rand:uniform(6) of
        1 -> term(Odd, 1);
        2 -> #{};
        3 -> #{extra => term(Odd, 1)};
        4 -> #{extra => term(Odd, 3)};
        _ -> maps:from_list([{K, Values(K)} || _ <- lists:seq(1, 3), K <- [pick(Keys)]])
    end.

%% The same for the example tracer erl_msg_tracer.
classic(_) ->
    ok = erl_msg_tracer:load(),
    Tracer = spawn(fun() -> receive stop -> ok end end),
    Odd = odd([Tracer]),
    Tags = {send, trace_status, call},
    repeat(2000, fun() ->
        Question = [tag(Tags, Odd), state(Odd, Tracer), term(Odd, 2)],
        Answer = apply(erl_msg_tracer, enabled, Question),
        ?assert(lists:member(Answer, [trace, discard, remove]), {Question, Answer}),
        Event = [tag(Tags, Odd), state(Odd, Tracer), term(Odd, 1), term(Odd, 2), options(Odd)],
        ?assertEqual(ok, apply(erl_msg_tracer, trace, Event), Event)
    end),
    true = is_process_alive(Tracer),
    exit(Tracer, kill).

%% ---- control --------------------------------------------------------------------------

%% Which results are allowed depends on whether the argument is a state.
control(Config) ->
    Dir = ?config(dir, Config),
    State = recorder(Dir, #{}),
    Other = recorder(Dir ++ "-other", #{}),
    ok = kymo_tracer:stop(Other),
    Odd = odd([State, Other]),
    repeat(1500, fun() ->
        {F, Arity} = pick(list_to_tuple(?CONTROL -- [{stop, 1}])),
        First = state(Odd, State),
        Args = [First | [argument(F, Odd) || _ <- lists:seq(2, Arity)]],
        answers(F, First =:= State orelse First =:= Other, Args, catch apply(kymo_tracer, F, Args))
    end),
    _ = kymo_tracer:resume(State),
    repeat(300, fun() ->
        Term = term(Odd, 3),
        Term =:= State orelse answers(stop, Term =:= Other, [Term], catch kymo_tracer:stop(Term))
    end),
    ?assertMatch(#{state := active}, kymo_tracer:info(State)),
    ok = kymo_tracer:stop(State).

%% Not the name of a folder, because the snapshot would be written there.
argument(snapshot, Odd) -> no_name(Odd);
%% Often almost a valid argument of the function.
argument(F, Odd) when F =:= budget; F =:= sample; F =:= note_shed ->
    case rand:uniform(4) of
        1 -> pick({0, 1, 100, 1 bsl 16, 1 bsl 63, 1 bsl 64, -1});
        2 -> pick({shed, given_back, [], [calls, messages], [calls | messages], [{lists, map, 2}]});
        3 -> pick({[{lists, map, 256}], [{lists, map, 2} | term(Odd, 1)], [{lists, map, term(Odd, 1)}]});
        4 -> term(Odd, 2)
    end;
argument(note_counters, Odd) ->
    Counter = {pick({process_count, memory_total, unheard_of}), pick({0, 1, 65535, -1}), pick({7, 1 bsl 64, term(Odd, 1)})},
    pick({term(Odd, 2), [], [Counter], [Counter | Counter], lists:duplicate(pick({127, 128}), Counter)});
argument(note_monitor, Odd) ->
    Function = pick({undefined, {lists, map, 2}, {lists, map, 256}}),
    pick({long_gc, busy_port, 1, 1 bsl 63, {self(), undefined}, {undefined, term(Odd, 1)}, {Function, undefined},
          term(Odd, 2)});
argument(note_observed, Odd) ->
    Function = pick({undefined, {lists, map, 2}, {lists, map, 256}}),
    pick({waits, suspended, lock, 1, 1 bsl 63, {self(), undefined}, {undefined, term(Odd, 1)}, {Function, undefined},
          term(Odd, 2)});
argument(_, Odd) -> term(Odd, 2).

answers(_, false, Args, {'EXIT', {badarg, [{kymo_tracer, _, Args, _} | _]}}) -> ok;
answers(info, true, _, #{state := _}) -> ok;
answers(let_go, true, _, ok) -> ok;
answers(let_go, true, _, {error, ebusy}) -> ok;
answers(snapshot, true, [_, Dir], {error, {bad_option, dir, Dir}}) -> ok;
answers(define_process, true, _, ok) -> ok;
answers(define_process, true, _, {error, Why}) when is_atom(Why) -> ok;
answers(define_process, true, Args, {'EXIT', {badarg, [{kymo_tracer, _, Args, _} | _]}}) -> ok;
answers(budget, true, [_, Millionths, Events], ok) when is_integer(Millionths), is_integer(Events) -> ok;
answers(rates, true, _, not_recorded) -> ok;
answers(rates, true, _, {Time, Events}) when is_integer(Time), is_list(Events) -> ok;
answers(sample, true, [_, _, Most], {ok, {#{}, Functions}}) when length(Functions) =< Most -> ok;
answers(sample, true, _, {error, busy}) -> ok;
answers(note_shed, true, [_, Which, Kinds, Functions], ok) when length(Kinds) >= 0, length(Functions) >= 0 ->
    ?assert(lists:member(Which, [shed, given_back]));
answers(note_counters, true, [_, Values], ok) when length(Values) =< 127 -> ok;
answers(note_monitor, true, [_, Kind, {_, _}, Value, {_, _}], ok) when is_atom(Kind), is_integer(Value) -> ok;
answers(note_observed, true, [_, Kind, {_, _}, Lock, N, {_, _}], ok) when is_atom(Kind), is_atom(Lock), is_integer(N) -> ok;
answers(F, true, _, {error, not_recorded}) when F =:= note_shed; F =:= note_counters; F =:= note_monitor; F =:= note_observed ->
    ok;
answers(F, true, Args, {'EXIT', {badarg, [{kymo_tracer, _, Args, _} | _]}}) when
    F =:= budget; F =:= sample; F =:= note_shed; F =:= note_counters; F =:= note_monitor; F =:= note_observed
->
    ok;
answers(note_taken, true, [_, N], ok) when is_integer(N), N >= 0, N < 1 bsl 64 -> ok;
answers(note_taken, true, [_, N] = Args, {'EXIT', {badarg, [{kymo_tracer, _, Args, _} | _]}}) ->
    ?assertNot(is_integer(N) andalso N >= 0 andalso N < 1 bsl 64);
answers(note_measures, true, [_, Text], ok) when is_binary(Text), byte_size(Text) =< 1536 -> ok;
answers(note_measures, true, [_, Text] = Args, {'EXIT', {badarg, [{kymo_tracer, _, Args, _} | _]}}) ->
    ?assertNot(is_binary(Text) andalso byte_size(Text) =< 1536);
answers(F, true, _, ok) when F =:= pause; F =:= resume -> ok;
answers(F, true, _, {error, Why}) when is_atom(Why), F =:= pause; is_atom(Why), F =:= resume -> ok;
answers(stop, true, _, {error, already_stopped}) -> ok;
answers(F, IsState, Args, Answer) -> ct:fail({F, IsState, Args, Answer}).

%% ---- options ---------------------------------------------------------------------------

%% Numeric sizes are not used, because they could be valid and large.
open(Config) ->
    Dir = ?config(dir, Config),
    Odd = odd([]),
    Sizes = [segment_size, memory, dict_size],
    Keys = list_to_tuple(
        Sizes ++
            [policy, clock, events, calls, returns, messages, terms, gc, content_bytes, size_limit, sample, limit,
                file_size, file_age, max_files, owner]
    ),
    repeat(3000, fun() ->
        Key = pick(Keys),
        Value = value(Key, Odd),
        Good = lists:member(Key, Sizes) andalso is_integer(Value),
        Good orelse opened(kymo_tracer:open((small(Dir))#{Key => Value}), Dir, {bad_option, Key, Value})
    end),
    repeat(1000, fun() ->
        Key = term(Odd, 2),
        Known = lists:member(Key, [dir | tuple_to_list(Keys)]),
        Known orelse ?assertEqual({error, {unknown_option, Key}}, kymo_tracer:open((small(Dir))#{Key => 1})),
        Name = no_name(Odd),
        ?assertEqual({error, {bad_option, dir, Name}}, kymo_tracer:open((small(Dir))#{dir := Name}))
    end),
    repeat(500, fun() ->
        Options = term(Odd, 2),
        ?assertMatch({error, {Why, _, _}} when Why =:= bad_option, no_options(Options), Options)
    end),
    ?assertEqual({error, enoent}, file:list_dir(Dir)).

value(events, Odd) -> pick({term(Odd, 2), [term(Odd, 1), call], [call, send | term(Odd, 1)]});
value(sample, Odd) -> pick({term(Odd, 2), {process, term(Odd, 1)}});
value(limit, Odd) -> pick({term(Odd, 2), #{pick({bytes, events, duration, time}) => term(Odd, 1)}});
value(_, Odd) -> term(Odd, 2).

%% By chance the options may be valid.
opened({ok, State}, Dir, _) ->
    _ = kymo_tracer:stop(State),
    ok = file:del_dir_r(Dir);
opened(Error, _, Reason) ->
    ?assertEqual({error, Reason}, Error).

no_options(Map) when is_map(Map), map_size(Map) > 0 ->
    case kymo_tracer:open(Map) of
        {error, {unknown_option, Key}} -> {error, {bad_option, Key, unknown}};
        Other -> Other
    end;
no_options(Options) ->
    kymo_tracer:open(Options).

%% ---- terms -----------------------------------------------------------------------------

recorder(Dir, Options) ->
    {ok, State} = kymo_tracer:open(maps:merge(small(Dir), Options)),
    State.

%% Any value of the options lets the largest content fit into a segment.
small(Dir) ->
    #{dir => Dir, segment_size => 65536, memory => 16 bsl 20, dict_size => 1048576}.

repeat(N, Fun) -> lists:foreach(fun(_) -> Fun() end, lists:seq(1, N)).

pick(Tuple) -> element(rand:uniform(tuple_size(Tuple)), Tuple).

%% Terms of all kinds, in sizes around those at which the runtime changes their representation.
%% None may be a valid file name.
odd(States) ->
    Bytes = binary:copy(<<"kymo">>, 1000),
    Big = maps:from_list([{N, Bytes} || N <- lists:seq(1, 500)]),
    <<_:3, Bits:77/bitstring, _/bitstring>> = Bytes,
    Numbers = [
        Sign * ((1 bsl Bit) + Add)
     || Bit <- [0, 7, 8, 15, 16, 27, 28, 31, 32, 58, 59, 60, 63, 64, 2000], Add <- [-1, 0, 1], Sign <- [1, -1]
    ],
    list_to_tuple(
        States ++ Numbers ++
            [a, undefined, '', '...', list_to_atom([955, 0]), list_to_atom(lists:duplicate(255, 955)),
                [], {}, 0.0, 1.5e300, #{}, #{a => 1}, #{extra => a}, Big, maps:with(lists:seq(1, 32), Big),
                maps:with(lists:seq(1, 33), Big), <<>>, <<1:3>>, <<0:64/unit:8>>, <<0:65/unit:8>>, Bytes, Bits,
                binary:part(Bytes, 1, 3), binary:part(Bytes, 7, 3000), "text", [1, 2 | 3], [a | b],
                lists:duplicate(65536, 1), lists:seq(1, 3000), {a, b, 1}, {a, b, [1, 2]}, {a, b, [1 | 2]}, {a, b}, {a},
                list_to_tuple(lists:seq(1, 255)), list_to_tuple(lists:seq(1, 256)),
                lists:foldl(fun(N, T) -> [T, N] end, [], lists:seq(1, 5000)),
                lists:foldl(fun(N, T) -> {N, T} end, {}, lists:seq(1, 5000)),
                lists:foldl(fun(N, T) -> #{T => N} end, [], lists:seq(1, 200)),
                self(), hd(erlang:ports()), make_ref(), atomics:new(1, []), ets:new(odd, []),
                kymo_conform:remote(pid), kymo_conform:remote(port), kymo_conform:remote(reference),
                fun lists:map/2, fun() -> Big end, fun(X) -> X end, {send, {1, 2}, self(), self(), Bytes}]
    ).

term(Odd, 0) ->
    pick(Odd);
term(Odd, Depth) ->
    Some = fun() -> [term(Odd, Depth - 1) || _ <- lists:seq(1, rand:uniform(6) - 1)] end,
    case rand:uniform(10) of
        1 -> list_to_tuple(Some());
        2 -> pick({{pick(Odd)}, {pick(Odd), term(Odd, Depth - 1)}, Some()});
        3 -> Some() ++ term(Odd, Depth - 1);
        4 -> maps:from_list([{term(Odd, Depth - 1), V} || V <- Some()]);
        5 -> {pick(Odd), pick(Odd), term(Odd, Depth - 1)};
        6 -> {lists, pick({map, a, ''}), term(Odd, Depth - 1)};
        _ -> pick(Odd)
    end.

%% A term that cannot be the name of a folder.
no_name(Odd) ->
    case term(Odd, 2) of
        Name when is_atom(Name); is_binary(Name); is_list(Name) -> {Name};
        Term -> Term
    end.
