%% SPDX-License-Identifier: Apache-2.0
%%
%% Random programs for erts_diff_SUITE, from a seed: what OTP's documentation says can be done with
%% tracing, code and processes, valid and invalid. erts_diff_run describes the operations.
-module(erts_diff_gen).

-export([program/2]).

%% Features: sessions, if the runtime has the module trace.
program(Seed, Features) ->
    rand:seed(exsss, {Seed, Seed * 7919 + 1, 104729}),
    Begin = [{spawn, driver, []}, {spawn, driver, []}, {spawn, driver, []}, load(d1, 1), load(d2, 1)],
    Sessions = [{session, Name, {'$t', T}, []} || lists:member(sessions, Features), {Name, T} <- [{s1, 2}, {s2, 3}]],
    %% A program concentrates on some kinds of operations.
    Weights = [{Weight * pick([0, 1, 2, 4]), Kind} || {Weight, Kind} <- kinds(Features)],
    Sum = lists:sum([W || {W, _} <- Weights]),
    Middle = [operation(weighted(Weights, Sum), Features) || _ <- lists:seq(1, 10 + rand:uniform(40))],
    Traced = lists:append([pick([[], [operation(flags, Features), operation(pattern, Features)]]) || _ <- [1, 2]]),
    Ops = Begin ++ Sessions ++ lists:append(Traced ++ Middle) ++ [dump],
    lists:zip(lists:seq(1, length(Ops)), Ops).

%% Sequential trace tokens only on request: with them, programs crash stock releases from 25 to 29 now and
%% then, and a runtime that crashes by chance can't be compared.
kinds(Features) ->
    [{2, token} || lists:member(tokens, Features)] ++
    [{20, call}, {10, pattern}, {8, flags}, {7, code}, {6, info}, {5, signal}, {3, alias}, {2, event_pattern},
     {3, spawn},
     {2, nest}, {2, state}, {2, ets}, {2, bad}, {2, hold}, {1, renew}, {1, system}, {2, message},
     {1, session},
     {1, dump}].

weighted(_, 0) -> call;
weighted(Weights, Sum) -> weighted_at(Weights, rand:uniform(Sum)).

weighted_at([{W, Kind} | _], N) when N =< W -> Kind;
weighted_at([{W, _} | Rest], N) -> weighted_at(Rest, N - W).

%% Operations of one kind

operation(call, _) -> [{worker, p(), many(3, fun call/0)}];
operation(pattern, F) -> [pattern(F)];
operation(event_pattern, F) -> [event_pattern(F)];
operation(flags, F) -> [flags(F)];
operation(code, _) -> code();
operation(info, F) -> [info(F)];
operation(signal, _) -> [signal()];
operation(alias, _) -> [alias_call()];
operation(spawn, _) ->
    Options = some([{priority, high}, {fullsweep_after, 3}, {message_queue_data, off_heap}]),
    [pick([{spawn, driver, Options}, {spawn, p(), Options}, {spawn, p(), some([link, monitor]) ++ Options}])];
operation(nest, _) -> [{worker, p(), pick([{enter, module()}, {enter, module()}, leave, leave, hibernate])}];
operation(state, _) -> [{worker, p(), [state()]}];
operation(ets, _) -> [{worker, p(), [ets()]}];
operation(token, _) -> token();
operation(bad, F) -> [bad(F)];
operation(hold, _) -> [hold()];
operation(renew, _) -> [{renew, rand:uniform(3)}];
operation(system, _) -> [system()];
operation(message, _) -> [message()];
operation(session, F) -> session(lists:member(sessions, F));
operation(dump, _) -> [dump].

call() ->
    M = module(),
    pick([{M, v, []}, {M, a, [pick([1, 2, x])]}, {M, b, [1]}, {M, l, [pick([0, 1, 5])]}, {M, r, [2]},
          {M, t, [pick([1, z])]},
          {M, x, [1]}, {M, e, [1]}, {M, th, [t]}, {M, ex, [u]}, {M, c, [1]}, {M, d, [1]}, {M, o, [pick([1, y])]},
          {M, q, [1]},
          {M, s, [q()]}, {M, bi, [[1, 2]]}, {M, bt, [[1]]}, {M, sp, [1]}, {M, ap, [[a, [1]]]}, {M, ap, [[dup, [1]]]},
          {M, gone, [1]}, {M, dup, [1]}, {M, nothing, []}, {lists, reverse, [[1, 2], []]}, {lists, reverse, [a, []]},
          {erts_diff_worker, apply_held, [held, [1]]}]).

pattern(F) ->
    MFA = pick([mfa(), mfa(), mfa(), {module(), '_', '_'}, {'_', a, 1}, {'_', a, '_'}, {'_', '_', '_'}, on_load,
                {lists, reverse, 2}, {erlang, put, 2}, {erlang, link, 1}, {d9, a, 1}, {module(), pick([a, b]), '_'}]),
    %% A tracer that meta traces all functions traces itself, without an end, and others than workers
    %% call BIFs.
    Kind = pick_kind(MFA, [[], [global], [local], [local], [local], [meta], [{meta, t()}], [call_count], [call_time],
                           [call_memory], [local, meta], [local, call_count, call_time], [call_count, call_memory],
                           [local, {meta, t()}]]),
    %% What pause and restart do to other patterns than counters is not defined.
    Spec = case [K || K <- Kind, not lists:member(K, [call_count, call_time, call_memory])] of
               [] when Kind =/= [] -> pick([true, true, true, false, pause, restart]);
               Kind -> pick([true, false, false, spec(), spec(), spec(), spec(), spec()]);
               _ -> pick([true, true, false])
           end,
    pick_session(F, {driver, erlang, trace_pattern, [MFA, Spec, Kind]},
                 fun(S) -> {driver, trace, function, [S, MFA, Spec, without_meta_tracer(Kind)]} end).

pick_kind({M, F, _}, Kinds) when M =:= lists; M =:= erlang; F =:= '_', M =:= '_' ->
    [K || K <- pick(Kinds), K =/= meta, not is_tuple(K)];
pick_kind(_, Kinds) -> pick(Kinds).

%% A session has its own tracer.
without_meta_tracer(Kind) -> [case K of {meta, _} -> meta; _ -> K end || K <- Kind].

event_pattern(F) ->
    Event = pick([send, 'receive']),
    Head = case Event of send -> pick(['_', ['_', {sent, '_'}], ['$1', '$2']]); _ -> pick(['_',
                                                                                           ['_', '_',
                                                                                            {sent, '$1'}]]) end,
    Spec = pick([true, true, false, [{Head, pick([[], [{'==', 1, 1}], [{'==', 1, 2}]]),
                                      some([{message, {const, hello}},
                                                                                             {message, true}])}]]),
    pick_session(F, {driver, erlang, trace_pattern, [Event, Spec, []]},
                 fun(S) -> {driver, trace, pick([send, recv]), [S, Spec, []]} end).

spec() ->
    Head = pick(['_', '_', ['$1'], [1], ['_'], []]),
    Guard = pick([[], [], [], [{'>', 1, 0}], [{is_integer, '$1'}], [{'=:=', {self}, q()}], [{'==', 1, 2}]]),
    Clause = {Head, Guard, many(3, fun action/0)},
    pick([[Clause], [Clause], [Clause], [], [{'_', [], [{return_trace}]}], [{'_', [], [{exception_trace}]}],
          [Clause, {'_', [], [action()]}]]).

action() ->
    pick([{return_trace}, {exception_trace}, {exception_trace}, {message, {self}}, {message, {caller}},
          {message, false},
          {message, '$_'}, {message, {const, c}}, {message, [{caller}, {get_tcw}]}, {message, {get_seq_token}},
          {message, {is_seq_trace}}, {silent, true}, {silent, false}, {enable_trace, flag()}, {disable_trace, flag()},
          {enable_trace, q(), flag()}, {disable_trace, q(), flag()}, {trace, [flag()], [flag()]},
          {trace, q(), [], [flag()]}, {set_seq_token, pick([label, serial, send, 'receive']), pick([1, true, 17])},
          {set_tcw, 5}, {display_nothing}, {message, {caller_line}}, {message, {current_stacktrace, 1}}]).

flag() ->
    pick([send, 'receive', call, call, call, procs, ports, arity, return_to, silent, set_on_spawn, set_on_first_spawn,
          set_on_link, set_on_first_link, timestamp, strict_monotonic_timestamp, monotonic_timestamp, running,
          exiting,
          running_procs]).

flags(F) ->
    Who = pick([q(), q(), q(), q(), q(), new, new_processes, existing_processes, processes, all, existing, new_ports,
                ports]),
    On = pick([true, true, true, false]),
    Flags = pick([[call], [call, flag()], [call, flag(), flag()], [call, procs, send, 'receive'], [call, return_to],
                  many(4, fun flag/0), many(4, fun flag/0), [all]]),
    %% Two tracers that each trace what the other receives never end, so all processes are traced by
    %% one tracer. A stock runtime may crash if two sessions report garbage collections, which all
    %% includes.
    Legacy = case Flags of
                 [all] when On -> [call, send, 'receive', procs];
                 _ -> Flags
             end,
    Tracer = case is_atom(Who) of
                 true -> [{tracer, {'$t', 1}}];
                 false -> [{tracer, t()} || rand:uniform(8) > 1]
             end,
    ForSession = case is_atom(Who) of
                     true -> [Flag || Flag <- Legacy, not lists:member(Flag, [send, 'receive'])];
                     false -> Legacy
                 end,
    pick_session(F, {driver, erlang, trace, [Who, On, Legacy ++ [T || On, T <- Tracer]]},
                 fun(S) -> {driver, trace, process, [S, Who, On, ForSession]} end).

code() ->
    M = module(),
    V = version(),
    pick([[load(M, V)], [load(M, V)], [load(M, V), load(M, version())],
          [{driver, erlang, load_module, [M, {'$code', M, pick([1, 2, 3])}]}],
          [{driver, code, delete, [M]}], [{driver, code, purge, [M]}], [{driver, code, soft_purge, [M]}],
          [{driver, erlang, purge_module, [M]}], [{driver, erlang, delete_module, [M]}],
          [{driver, erlang, check_old_code, [M]}], [{driver, erlang, check_process_code, [q(), M]}],
          [{driver, erlang, check_process_code, [q(), M, [{allow_gc, false}]]}],
          [{driver, erlang, module_loaded, [M]}],
          [{driver, erlang, function_exported, [M, pick([a, b, gone]), 1]}],
          [{driver, erlang, get_module_info, [M, exports]}],
          [{driver, code, atomic_load, [[{A, "none", {'$code', A, version()}} || A <- some([d1, d2, d3])]]}],
          [{driver, code, delete, [M]}, {driver, code, purge, [M]}, load(M, V)],
          [{driver, code, load_binary, [M, "none", pick([<<>>, <<"FOR1">>, {'$code', d1, 1}])]}]]).

load(M, V) -> {driver, code, load_binary, [M, "none", {'$code', M, V}]}.

info(F) ->
    {Subject, Item} = pick([{q(), pick([flags, tracer])}, {mfa(), item()}, {mfa(), item()},
                            {{lists, reverse, 2}, pick([traced, match_spec, meta])},
                            {on_load, item()}, {pick([new, new_processes, new_ports]), pick([flags, tracer])},
                            {pick([send, 'receive']), match_spec}, {nobody, flags}, {{d1, '_', '_'}, all}]),
    pick_session(F, {driver, erlang, trace_info, [Subject, Item]},
                 fun(S) -> pick([{driver, trace, info, [S, Subject, Item]}, {driver, trace, session_info, [q()]},
                                 {driver, trace, session_info, [mfa()]},
                                 {driver, trace, session_info, [on_load]}]) end).

item() -> pick([traced, match_spec, meta, meta_match_spec, call_count, call_time, call_memory, all, all, all]).

signal() ->
    Q = q(),
    pick([{worker, p(), [{erlang, link, [Q]}]}, {worker, p(), [{erlang, unlink, [Q]}]},
          {worker, p(), [{erlang, monitor, [process, pick([Q, n1, n2])]}]},
          {worker, p(), [{erlang, demonitor, [v(), [flush]]}]},
          {worker, p(), [{erlang, demonitor, [v(), [info]]}]}, {worker, p(), [{erlang, exit, [Q, reason()]}]},
          {driver, erlang, exit, [Q, reason()]}, {worker, p(),
                                                  [{erlang, process_flag, [trap_exit, pick([true, true, false])]}]},
          {driver, erlang, suspend_process, [Q]}, {driver, erlang, resume_process, [Q]},
          {worker, p(), [{erlang, suspend_process, [Q, pick([[], [unless_suspending], [asynchronous]])]}]},
          {worker, p(), [{erlang, resume_process, [Q]}]}, {driver, erlang, is_process_alive, [Q]},
          {worker, p(), [{erlang, group_leader, [Q, p_of()]}]}, {driver, erlang, garbage_collect, [Q]},
          {worker, p(), [{erlang, register, [pick([n1, n2]), Q]}]}, {driver, erlang, unregister, [pick([n1, n2])]},
          {driver, erlang, whereis, [pick([n1, n2])]},
          {worker, p(), [{erlang, spawn_link, [module(), pick([v, nothing]), []]}]},
          {driver, erlang, process_info, [Q, process_item()]}]).

process_item() ->
    pick([links, monitors, monitored_by, registered_name, dictionary, messages, message_queue_len, status, trap_exit,
          priority,
          suspending, initial_call, error_handler, message_queue_data, group_leader, max_heap_size,
          garbage_collection,
          current_function, label, parent, async_dist, nothing, [links, status], []]).

alias_call() ->
    pick([{worker, p(), [{erlang, alias, [pick([[], [reply], [explicit_unalias], [wrong]])]}]},
          {worker, p(), [{erlang, unalias, [v()]}]}, {worker, p(), [{erlang, send, [v(), {to_alias, 1}]}]},
          {driver, erlang, send, [v(), {to_alias, 2}]},
          {worker, p(), [{erlang, monitor, [process, q(),
                                            [{alias, pick([explicit_unalias, demonitor, reply_demonitor])}]]}]},
          {worker, p(), [{erts_diff_worker, request, [q(), question]}]}, {driver, erlang, exit, [v(), gone]},
          {worker, p(), [{erlang, monitor, [process, q(), [{tag, tagged}]]}]}]).

state() ->
    pick([{erlang, put, [pick([a, b]), 1]}, {erlang, erase, []},
          {erlang, process_flag, [priority, pick([low, normal, high])]},
          {erlang, process_flag, [message_queue_data, pick([on_heap, off_heap])]},
          {erlang, process_flag, [min_heap_size, pick([233, 1000])]}, {erlang, process_flag, [nothing, 1]},
          {erlang, process_flag, [save_calls, pick([0, 3])]}, {erlang, garbage_collect, []},
          {erlang, garbage_collect, [q(), [{type, pick([minor, major])}]]}, {erlang, get, []},
          {erts_diff_worker, timer, [pick([a, b])]}, {erlang, start_timer, [100000000, q(), far]},
          {erlang, cancel_timer, [v()]}, {erlang, read_timer, [v()]}, {erts_diff_worker, own_info, [process_item()]},
          {persistent_term, put, [pick([k1, k2]), pick([1, {a, b}])]}, {persistent_term, get, [pick([k1, k2])]},
          {persistent_term, erase, [pick([k1, k2])]}, {erlang, yield, []}]).

ets() ->
    E = pick([e1, e2]),
    pick([{ets, new, [E, [named_table, public]]}, {ets, new, [E, [named_table, {heir, q(), inherited}]]},
          {ets, insert, [E, {1, 2}]},
          {ets, lookup, [E, 1]}, {ets, delete, [E]}, {erts_diff_worker, give, [E, q(), given]},
          {ets, info, [E, owner]},
          {ets, setopts, [E, {heir, q(), later}]}, {ets, info, [E, heir]}]).

token() ->
    Set = [{seq_trace, set_token, [Flag, true]} || Flag <- some([send, 'receive', print, timestamp])],
    [{driver, seq_trace, set_system_tracer, [pick([t(), t(), t(), false])]},
     {worker, p(), [{seq_trace, set_token, [label, pick([1, 17])]} | Set]
         ++ [pick([{module(), s, [q()]}, {erlang, send, [q(), with_token]}]), {seq_trace, get_token, []},
             {seq_trace, print, [1, text]}, {module(), a, [1]}]}].

bad(F) ->
    pick([{driver, erlang, trace, [pick([nobody, {'$p', 99}]), true, [call]]},
          {driver, erlang, trace, [q(), true, [nothing]]},
          {driver, erlang, trace, [q(), maybe_not, [call]]}, {driver, erlang, trace, [q(), true, call]},
          {driver, erlang, trace_pattern, [{d1, a}, true, [local]]},
          {driver, erlang, trace_pattern, [mfa(), true, [nothing]]},
          {driver, erlang, trace_pattern, [mfa(), [{'$1', [], [nothing]}], [local]]},
          {driver, erlang, trace_pattern, [mfa(), [{'_', [{'$1'}], []}], [local]]},
          {driver, erlang, trace_pattern, [mfa(), pause, [local]]},
          {driver, erlang, trace_pattern, [{'_', '_', 1}, true, [local]]},
          {driver, erlang, trace_pattern, [{module(), '_', 1}, true, [local]]},
          {driver, erlang, trace_info, [{lists, reverse, 2}, pick([nothing, flags])]},
          {driver, erlang, trace_pattern, [mfa(), true, [global, local]]},
          {driver, erlang, trace_pattern, [mfa(), true, local]},
          {driver, erlang, trace_pattern, [{1, a, 1}, true, []]},
          {driver, erlang, trace_pattern, [{d1, a, 300}, true, []]},
          {driver, erlang, trace_delivered, [nobody]}, {driver, erlang, purge_module, [17]},
          {driver, erlang, check_process_code, [nobody, d1]},
          {driver, erlang, check_process_code, [q(), d1, [nothing]]},
          {driver, erlang, match_spec_test, [[1], spec(), pick([trace, table])]},
          {driver, erlang, suspend_process, [nobody]},
          {driver, erlang, system_flag, [nothing, 1]}, {driver, erlang, process_info, [q(), [links | status]]}]
         ++ [B || lists:member(sessions, F),
                  B <- [{driver, trace, process, [s(), q(), true, [{tracer, t()}]]},
                        {driver, trace, process, [nobody, q(), true, [call]]},
                        {driver, trace, function, [s(), mfa(), true, [{meta, t()}]]},
                        {driver, trace, function, [s(), mfa(), true, [x]]},
                        {driver, trace, session_create, [s9, nobody, []]},
                        {driver, trace, session_create, [s9, {'$t', 1}, [x]]},
                        {driver, trace, session_create, ["s", {'$t', 1}, []]},
                        {driver, trace, info, [s(), {lists, reverse, 2}, nothing]},
                        {driver, trace, session_destroy, [nobody]}, {driver, trace, port, [s(), q(), true, [call]]},
                        {driver, trace, process, [s(), ports, true, [send]]},
                        {driver, trace, delivered, [s(), nobody]}]]).

hold() ->
    pick([{worker, p(), [{erts_diff_worker, hold, [module(), pick([fu, lf, ef, lit])]}]},
          {worker, p(), [{erts_diff_worker, apply_held, [held, [1]]}]},
          {worker, p(), [{erts_diff_worker, fetch, [held]}]},
          {worker, p(), [{erlang, erase, [held]}]}]).

system() ->
    pick([{driver, erlang, system_monitor, [t(), some([busy_port, busy_dist_port, {long_gc, 100000},
                                                       {large_heap, 100000000}])]},
          {driver, erlang, system_monitor, []}, {driver, erlang, system_monitor, [undefined]},
          {driver, erlang, system_profile, []},
          {driver, erlang, system_profile, [t(), some([runnable_procs, exclusive])]},
          {driver, erlang, system_profile, [undefined, []]},
          {driver, erlang, system_monitor, [nobody, []]}, {driver, erlang, system_monitor, [t(), [nothing]]},
          {driver, seq_trace, reset_trace, []}, {driver, seq_trace, get_system_tracer, []},
          {driver, erlang, trace_delivered, [q()]}]).

message() ->
    pick([{worker, p(), [{erlang, send, [q(), {sent, 0}]}]},
          {worker, p(), [{erlang, send, [pick([n1, n2]), {sent, 0}]}]},
          {worker, p(), [{erts_diff_worker, drain, []}]}, {driver, erlang, send, [q(), {sent, v()}]},
          {worker, p(), [{erlang, send, [q(), {sent, {'$v', rand:uniform(20)}},
                                         pick([[], [nosuspend], [noconnect]])]}]}]).

session(false) -> [dump];
session(true) ->
    pick([[{driver, trace, session_destroy, [s()]}], [{session, pick([s1, s2, s3]), t(), []}],
          [{driver, trace, session_info, [q()]}], [{driver, trace, delivered, [s(), q()]}]]).

%% Half of what can be done in a session is done in one.
pick_session(F, Legacy, InSession) ->
    case lists:member(sessions, F) andalso rand:uniform(2) =:= 1 of
        true -> InSession(s());
        false -> Legacy
    end.

%% Values

p() -> pick([1, 1, 1, 1, 2, 2, 2, 3, 4]).
p_of() -> {'$p', p()}.
q() -> p_of().
t() -> {'$t', pick([1, 1, 2, 3])}.
s() -> {'$s', pick([s1, s1, s2])}.
v() -> {'$v', rand:uniform(40)}.
module() -> pick([d1, d1, d1, d2, d2, d3]).
version() -> pick([1, 1, 2, 2, 3, 4, 5, 6]).
reason() -> pick([normal, kill, crash, shutdown, {q(), why}]).

mfa() ->
    {F, A} = pick([{v, 0}, {a, 1}, {a, 1}, {b, 1}, {b, 1}, {l, 1}, {r, 1}, {t, 1}, {e, 1}, {th, 1}, {c, 1}, {d, 1},
                   {stay, 1},
                   {bi, 1}, {bt, 1}, {gone, 1}, {dup, 1}, {s, 1}, {nothing, 0}]),
    {module(), F, A}.

pick(L) -> lists:nth(rand:uniform(length(L)), L).

%% Each with the same probability.
some(L) -> [E || E <- L, rand:uniform(2) =:= 1].

%% At least one.
many(Max, F) -> [F() || _ <- lists:seq(1, rand:uniform(Max))].
