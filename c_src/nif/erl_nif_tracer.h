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

#define ERL_NIF_TRACER_VERSION 2
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
    ERL_NIF_TRACE_GARBAGE_COLLECTION,

    /* Version 2. The process takes a message out of its mailbox: a receive has matched
     * it. The tag is taken, the term the message. Told with the trace flag receive, as
     * receive is, unless the pattern for receive is false. A match specification for
     * receive is not asked: what it discards is told when it is taken. A message that is
     * dropped is not taken: when the process exits, or when a message from another node
     * cannot be decoded. There is no such function in the behaviour, and `enabled' is
     * not called. */
    ERL_NIF_TRACE_TAKEN,
    /* Version 2. A call took at least as long as the action {slow, Microseconds} of its
     * match specification specifies. Reported when it returns or an exception passes it;
     * faster calls are not reported. The tag is slow; mfa, depth, start and duration are
     * set. In the behaviour it is an event of trace_call. `enabled' is not called, unless
     * the match specification has other actions. */
    ERL_NIF_TRACE_SLOW
} ErlNifTraceKind;

/* Of `passed': more than can be counted in short time. */
#define ERL_NIF_TRACE_MANY ((ErlNifUInt64) -1)

/* What a tracer answers. REMOVE, to a call or a slow call, takes the tracer off the
 * tracee, as `remove' to trace_status does; to anything else it is DISCARD. */
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

/* Why a process was scheduled out: the first of these that holds at that moment. */
typedef enum {
    ERL_NIF_TRACE_OUT_UNKNOWN,
    ERL_NIF_TRACE_OUT_EXITING,
    ERL_NIF_TRACE_OUT_SUSPENDED,        /* by erlang:suspend_process/1, a busy port, a lock */
    ERL_NIF_TRACE_OUT_DIRTY,            /* to a dirty scheduler, or from one */
    ERL_NIF_TRACE_OUT_WAITING,          /* in a receive, or hibernating */
    ERL_NIF_TRACE_OUT_TRAP,             /* reductions used up in a BIF or NIF that goes on later */
    ERL_NIF_TRACE_OUT_REDUCTIONS,       /* reductions used up elsewhere, or by signals and
                                         * system tasks, or given up (erlang:yield/0) */
    ERL_NIF_TRACE_OUT_PORT              /* trace flag running_procs: it calls a port */
} ErlNifTraceOut;

/* What put a process in the run queue that it was taken from. */
typedef enum {
    ERL_NIF_TRACE_BY_UNKNOWN,           /* it was in none, or was not traced then */
    ERL_NIF_TRACE_BY_OUT,               /* it could still run when it was scheduled out */
    ERL_NIF_TRACE_BY_MESSAGE,           /* from a process or the runtime, or not from a scheduler */
    ERL_NIF_TRACE_BY_PORT,              /* a message or signal that a port sent */
    ERL_NIF_TRACE_BY_TIMER,             /* the timeout of a receive, or a message of a timer */
    ERL_NIF_TRACE_BY_SPAWN,
    ERL_NIF_TRACE_BY_RESUME,
    ERL_NIF_TRACE_BY_SIGNAL             /* a signal other than a message, or a system task */
} ErlNifTraceRunnable;

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

    /* The following for those that have registered version 2 or later. */

    /* Of the tags out, out_exiting and out_exited. */
    ErlNifTraceOut out_reason;
    /* Of the tags in and in_exiting: what made the process runnable, and for how many
     * nanoseconds it has been in the run queue since; 0 when that is unknown. When
     * several things made it runnable, the first one counts. */
    ErlNifTraceRunnable runnable_by;
    ErlNifTime runnable_for;
    /* Of the tags send, receive and taken: the number of the message, the same in all
     * of them, in all sessions, and unlike that of any other message of this runtime. 0
     * when there is none: of a message to another node, to a port or to a process that
     * does not exist, of a timeout, and of one that was in the mailbox before its
     * receiver was traced. A message whose sender was not traced has its number from
     * its receiver. */
    ErlNifUInt64 message;
    /* Of the tag taken: how many messages are before it in the mailbox, or
     * ERL_NIF_TRACE_MANY. The receive has looked at them, and they did not match; or
     * it knew that they would not, as for a reply in messages with a new reference. */
    ErlNifUInt64 passed;
    /* Of events of calls: the words on the stack, without the frames that tracing has
     * put on top of it. Of the tag call: when the function begins. Of return_from and
     * exception_from and slow: that of their call. Of return_to: less than
     * when any of the functions began that have been left by now, and not less than when
     * the function began that is returned to.
     *
     * So a call at a depth ends all calls at this depth or below it on the stack (a
     * greater depth) that have had no return yet: it is a tail call of theirs, or an
     * exception has left them; and return_to ends all that have a greater depth. */
    ErlNifUInt64 depth;
    /* Of the tag slow: when the function was called, as enif_monotonic_time() of
     * nanoseconds, and the nanoseconds that it has taken since. With ERL_NIF_TRACER_TIME,
     * time is the sum of the two. */
    ErlNifTime start;
    ErlNifTime duration;
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
    unsigned version;                   /* ERL_NIF_TRACER_VERSION, or a lower one */
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
