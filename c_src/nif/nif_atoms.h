/* SPDX-License-Identifier: Apache-2.0
 *
 * The atoms that the library compares and returns. They are created at load and never change
 * afterwards, so any thread reads them without a lock.
 */
#ifndef KYMO_NIF_ATOMS_H
#define KYMO_NIF_ATOMS_H

#include <erl_nif.h>

#include "kymo_format.h"

/* clang-format off */
/* X(symbol, "text") */
#define NIF_ATOMS(X)                                                           \
    /* answers */                                                              \
    X(ok, "ok") X(error, "error") X(trace, "trace") X(discard, "discard")      \
    X(remove, "remove") X(trace_status, "trace_status")                        \
    X(undefined, "undefined") X(none, "none") X(erlang, "erlang")              \
    X(infinity, "infinity")                                                    \
    /* keys and values of the trace options */                                 \
    X(extra, "extra") X(match_spec_result, "match_spec_result")                \
    X(scheduler_id, "scheduler_id") X(timestamp, "timestamp")                  \
    X(cpu_timestamp, "cpu_timestamp") X(monotonic, "monotonic")                \
    X(strict_monotonic, "strict_monotonic")                                    \
    /* trace tags */                                                           \
    X(call, "call") X(return_to, "return_to") X(return_from, "return_from")    \
    X(exception_from, "exception_from") X(slow, "slow") X(send, "send")        \
    X(send_ne, "send_to_non_existing_process") X(receive, "receive") X(taken, "taken") \
    X(spawn, "spawn") X(spawned, "spawned") X(exit, "exit") X(link, "link")    \
    X(unlink, "unlink") X(getting_linked, "getting_linked")                    \
    X(getting_unlinked, "getting_unlinked") X(register_, "register")           \
    X(unregister, "unregister") X(open, "open") X(closed, "closed")            \
    X(in, "in") X(out, "out") X(in_exiting, "in_exiting")                      \
    X(out_exiting, "out_exiting") X(out_exited, "out_exited")                  \
    X(gc_minor_start, "gc_minor_start") X(gc_minor_end, "gc_minor_end")        \
    X(gc_major_start, "gc_major_start") X(gc_major_end, "gc_major_end")        \
    X(seq_trace, "seq_trace") X(print, "print")                                \
    /* classes of tags */                                                      \
    X(calls, "calls") X(messages, "messages") X(procs, "procs")                \
    X(ports, "ports") X(running, "running") X(running_procs, "running_procs")  \
    X(running_ports, "running_ports")                                          \
    X(garbage_collection, "garbage_collection")                                \
    /* options of open */                                                      \
    X(dir, "dir") X(policy, "policy") X(clock, "clock")                        \
    X(segment_size, "segment_size") X(at_least, "at_least")                    \
    X(threads, "threads") X(dict_size, "dict_size")                              \
    X(returns, "returns") X(terms, "terms") X(gc, "gc")                        \
    X(content_bytes, "content_bytes") X(size_limit, "size_limit")              \
    X(sample, "sample") X(limit, "limit") X(file_size, "file_size")            \
    X(file_age, "file_age") X(max_files, "max_files") X(owner, "owner")        \
    X(overwrite, "overwrite") X(auto_, "auto") X(counter, "counter") X(all, "all")     \
    X(native, "native") X(external, "external")                              \
    X(return_tos, "return_tos") X(shed, "shed") X(given_back, "given_back") X(busy, "busy") \
    X(arity, "arity") X(arguments, "arguments") X(values, "values")            \
    X(size, "size") X(contents, "contents") X(sizes, "sizes")                  \
    X(process, "process") X(bytes, "bytes") X(events, "events")                \
    X(duration, "duration")                                                    \
    /* reasons */                                                              \
    X(bad_option, "bad_option") X(unknown_option, "unknown_option")            \
    X(too_many_recorders, "too_many_recorders")                                \
    X(already_stopped, "already_stopped") X(already_paused, "already_paused")  \
    X(not_paused, "not_paused") X(stopped, "stopped")                          \
    X(dict_full, "dict_full") X(not_recorded, "not_recorded")                  \
    X(dots, "...")                                                             \
    /* info */                                                                 \
    X(state, "state") X(reason, "reason") X(segments, "segments")              \
    X(sampled_out, "sampled_out") X(overwritten, "overwritten")                \
    X(lost, "lost") X(dict, "dict") X(used, "used") X(full, "full")            \
    X(memory, "memory") X(memory_used, "memory_used")                          \
    X(complete_from, "complete_from") X(horizon, "horizon")                    \
    X(timeout, "timeout") X(clock_epochs, "clock_epochs") X(files, "files") X(files_removed, "files_removed")    \
    X(events_removed, "events_removed") X(io_error, "io_error")                \
    X(kind, "kind") X(number, "number") X(name, "name")                        \
    X(idle, "idle") X(active, "active")                                        \
    X(paused, "paused") X(stopping, "stopping") X(stop, "stop")                \
    X(collected, "collected") X(unload, "unload") X(ring_full, "ring_full")    \
    X(io, "io") X(no_slot, "no_slot") X(too_big, "too_big")                    \
    X(bad_term, "bad_term") X(reentry, "reentry") X(other, "other")            \
    X(scheduler, "scheduler") X(dirty_cpu, "dirty_cpu")                        \
    X(dirty_io, "dirty_io") X(interface, "interface") X(raw, "raw")            \
    X(behaviour, "behaviour")                                                  \
    /* protocols of OTP */                                                     \
    X(alias, "alias") X(gen_cast, "$gen_cast") X(DOWN, "DOWN")                 \
    X(io_request, "io_request") X(io_reply, "io_reply")                        \
    X(spawn_reply, "spawn_reply") X(proc_lib, "proc_lib") X(init_p, "init_p")  \
    X(gen, "gen") X(init_it, "init_it") X(init, "init")                        \
    X(supervisor, "supervisor")
/* clang-format on */

struct nif_atoms {
#define NIF_X(sym, text) ERL_NIF_TERM sym;
    NIF_ATOMS(NIF_X)
#undef NIF_X
    ERL_NIF_TERM gc_sizes[KYMO_GC_SIZES]; /* in the order of enum kymo_gc */
    ERL_NIF_TERM counters[KYMO_N_COUNT];  /* by enum kymo_counter; 0 = there is none */
    ERL_NIF_TERM monitored[KYMO_M_COUNT]; /* by enum kymo_monitor */
    ERL_NIF_TERM observed[KYMO_OB_COUNT]; /* by enum kymo_observed */
};

extern struct nif_atoms nif_am;

/* The index in enum kymo_gc of a heap size's name; -1 if it is unknown. */
static inline int nif_gc_index(ERL_NIF_TERM name)
{
    for (int i = 0; i < KYMO_GC_SIZES; i++) {
        if (nif_am.gc_sizes[i] == name) {
            return i;
        }
    }
    return -1;
}

/* Creates all atoms. During load only; idempotent. */
void nif_atoms_init(ErlNifEnv *env);

#endif
