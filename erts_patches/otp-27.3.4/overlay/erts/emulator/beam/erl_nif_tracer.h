/* SPDX-License-Identifier: Apache-2.0
 *
 * Events of a trace for a tracer NIF, without terms being built for them.
 *
 * A tracer module has the functions of the behaviour erl_tracer, as in any
 * runtime. A runtime that has this interface then calls the C function `event'
 * for the events of processes and ports, in place of enabled*() and trace*(). The
 * functions of the behaviour are still called for what is none: trace_status when
 * tracing is set or looked at, and seq_trace.
 *
 * So a sentence in the documentation of erl_tracer does not hold for such a tracer:
 * that the functions of the behaviour are called whenever a tracepoint is triggered.
 * enabled*() and trace*() are not called for events, and neither is trace_status,
 * except when a process is scheduled in. The function `enabled' of this interface is
 * called before some events only; its description lists them.
 *
 * The interface is found when the library is loaded, so that one library serves
 * runtimes that have it and others:
 *
 *     static const ErlNifTracer tracer = {ERL_NIF_TRACER_VERSION, 0, enabled, event};
 *     static int load(ErlNifEnv *env, void **priv_data, ERL_NIF_TERM load_info)
 *     {
 *         ErlNifTracerRegister *set = dlsym(RTLD_DEFAULT, ERL_NIF_TRACER_REGISTER);
 *         if (set != NULL)
 *             set(env, &tracer);
 *         ...
 *
 * What is promised: A runtime serves all versions from 1 to its own. Members are
 * only ever added, at the end of a structure, with a new version; their meaning
 * stays. Kinds and flags are added too, but are not passed to a tracer that has
 * registered an older version. So a library built with this header works in each
 * runtime that registers it, and the header can be copied into other projects.
 */
#ifndef ERL_NIF_TRACER_H
#define ERL_NIF_TRACER_H

#include "erl_nif.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ERL_NIF_TRACER_VERSION 1
#define ERL_NIF_TRACER_REGISTER "enif_tracer_register"

/* Which functions of the behaviour the event would be for. */
typedef enum {
    ERL_NIF_TRACE_CALL,                 /* call, return_to, return_from, exception_from */
    ERL_NIF_TRACE_SEND,                 /* enabled_send, trace_send */
    ERL_NIF_TRACE_RECEIVE,
    ERL_NIF_TRACE_PROCS,
    ERL_NIF_TRACE_PORTS,
    ERL_NIF_TRACE_RUNNING_PROCS,
    ERL_NIF_TRACE_RUNNING_PORTS,
    ERL_NIF_TRACE_GARBAGE_COLLECTION
} ErlNifTraceKind;

/* What a tracer answers. REMOVE, to a call, takes the tracer off the tracee, as
 * `remove' to trace_status does; to anything else it is DISCARD. */
typedef enum {
    ERL_NIF_TRACER_DISCARD,
    ERL_NIF_TRACER_TRACE,
    ERL_NIF_TRACER_REMOVE
} ErlNifTracerAnswer;

typedef struct {
    ERL_NIF_TERM module;
    ERL_NIF_TERM function;
    size_t arity;
} ErlNifTraceMFA;

/* Bits of `flags': which time stamp is asked for, as `timestamp' in the options of
 * the behaviour, none or one of them; and whether scheduler_id is. */
#define ERL_NIF_TRACE_TIMESTAMP         (1 << 0)
#define ERL_NIF_TRACE_CPU_TIMESTAMP     (1 << 1)
#define ERL_NIF_TRACE_MONOTONIC         (1 << 2)
#define ERL_NIF_TRACE_STRICT_MONOTONIC  (1 << 3)
#define ERL_NIF_TRACE_SCHEDULER_ID      (1 << 4)

/* An event. All of it is the runtime's, and valid during the call only. A term
 * that there isn't is 0, which is no term. */
typedef struct {
    ErlNifTraceKind kind;
    unsigned flags;
    ERL_NIF_TERM tag;                   /* an atom, as in the behaviour */
    ERL_NIF_TERM state;                 /* of the tracer */
    ERL_NIF_TERM tracee;                /* a process or port */
    /* The function of a call, and of a process that runs; NULL when there is
     * none, or it isn't known. */
    const ErlNifTraceMFA *mfa;
    /* Of the tag call: as many arguments as mfa->arity, or NULL with the trace
     * flag arity. */
    const ERL_NIF_TERM *args;
    /* The fourth argument of trace*(), but not of calls and of processes that run:
     * theirs is in mfa and args. */
    ERL_NIF_TERM term;
    ERL_NIF_TERM extra;                 /* as in the options of the behaviour */
    ERL_NIF_TERM match_spec_result;
    ErlNifUInt64 scheduler_id;
    ErlNifTime time;                    /* with ERL_NIF_TRACER_TIME, else 0 */
} ErlNifTraceEvent;

/* Flags of a tracer. TIME: that events carry enif_monotonic_time(ERL_NIF_NSEC). */
#define ERL_NIF_TRACER_TIME             (1 << 0)

/*
 * The functions of a tracer. They are called in the thread in which the event
 * happens, like those of the behaviour, and the same is forbidden in them. The
 * environment has no process, not even for calls. Terms built in it are gone when
 * they return; an exception counts for nothing.
 *
 * event: one event. Its answer matters for the tag call: an event that is
 *     discarded has no return_to.
 * enabled: whether an event would be wanted, asked where finding out more costs
 *     much: before the match spec of a call is run, and before a long term is
 *     built. kind, tag, state and tracee are set, and nothing else. `event' follows
 *     if the answer is TRACE, and unless the match spec says no.
 */
typedef struct {
    unsigned version;                   /* ERL_NIF_TRACER_VERSION */
    unsigned flags;
    ErlNifTracerAnswer (*enabled)(ErlNifEnv *env, const ErlNifTraceEvent *event);
    ErlNifTracerAnswer (*event)(ErlNifEnv *env, const ErlNifTraceEvent *event);
} ErlNifTracer;

/*
 * To be called once by `load' or `upgrade', with their environment; what `tracer'
 * points to is copied. Returns 0, or
 *   EINVAL   not called by them, called before, or a function is missing
 *   ENOTSUP  a version or a flag that this runtime doesn't know
 * and the functions of the behaviour are called then. Each version of the code of
 * a module registers for itself.
 */
typedef int ErlNifTracerRegister(ErlNifEnv *env, const ErlNifTracer *tracer);

#ifdef __cplusplus
}
#endif

#endif
