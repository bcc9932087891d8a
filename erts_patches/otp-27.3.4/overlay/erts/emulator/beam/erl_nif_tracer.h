/* SPDX-License-Identifier: Apache-2.0
 *
 * Events of a trace for a tracer NIF, without building terms for them.
 *
 * A tracer module has the functions of the behaviour erl_tracer, as in any
 * runtime. A runtime that has this interface then calls the C function `event'
 * for the events of processes and ports, instead of enabled*() and trace*(). The
 * functions of the behaviour are still called for everything else: trace_status
 * when tracing is set or queried, and seq_trace.
 *
 * So a sentence in the documentation of erl_tracer does not apply to such a tracer:
 * that the functions of the behaviour are called whenever a tracepoint is triggered.
 * enabled*() and trace*() are not called for events, and neither is trace_status,
 * except when a process is scheduled in. The function `enabled' of this interface is
 * called before some events only; its description lists them.
 *
 * The interface is looked up when the library is loaded, so the same library works
 * in runtimes with and without it:
 *
 *     static const ErlNifTracer tracer = {ERL_NIF_TRACER_VERSION, 0, enabled, event};
 *     static int load(ErlNifEnv *env, void **priv_data, ERL_NIF_TERM load_info)
 *     {
 *         ErlNifTracerRegister *set = dlsym(RTLD_DEFAULT, ERL_NIF_TRACER_REGISTER);
 *         if (set != NULL)
 *             set(env, &tracer);
 *         ...
 *
 * Compatibility: A runtime supports all versions from 1 to its own. Members are only
 * added, at the end of a structure, with a new version; their meaning does not
 * change. Kinds and flags are added too, but are not passed to a tracer that has
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

/* The functions of the behaviour that correspond to the event. */
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
     * it. The tag is taken, the term is the message. Reported with the trace flag
     * receive, as receive is, unless the pattern for receive is false. A match
     * specification for receive is not evaluated: messages that it discards are reported
     * when they are taken. A message that is dropped is not taken: when the process
     * exits, or when a message from another node cannot be decoded. The behaviour has no
     * function for this event, and `enabled' is not called. */
    ERL_NIF_TRACE_TAKEN,
    /* Version 2. A call took at least as long as the action {slow, Microseconds} of its
     * match specification specifies. Reported when it returns or an exception passes it;
     * faster calls are not reported. The tag is slow; mfa, depth, start and duration are
     * set. In the behaviour it is an event of trace_call. `enabled' is not called, unless
     * the match specification has other actions. */
    ERL_NIF_TRACE_SLOW,
    /* Version 2, with ERL_NIF_TRACER_STOPPED. All schedulers were stopped: the runtime
     * did something that must not run at the same time as other code. The tag is stopped;
     * the term is the cause, an atom, one of the keys of the map that
     * erlang:system_info(kymo_blocking) returns; start, duration and missed are set. Dirty
     * schedulers are not stopped, and erlang:system_flag(multi_scheduling, block) is not
     * reported.
     *
     * Reported once in each session, before the next event of the kind RUNNING_PROCS whose
     * tracer has the flag. The tracee is the process of that event: it has nothing to do
     * with the cause. A stop that ends before the session is created is not reported; in
     * the session of erlang:trace/3, stops since the start of the runtime are. A session
     * without events of RUNNING_PROCS has no events of this kind. The behaviour has no
     * function for it, and `enabled' is not called. */
    ERL_NIF_TRACE_STOPPED
} ErlNifTraceKind;

/* How many sizes a garbage collection has. */
#define ERL_NIF_TRACE_SIZES 12

/* The value of `passed' if there are too many messages to count. */
#define ERL_NIF_TRACE_MANY ((ErlNifUInt64) -1)

/* The result of a tracer. REMOVE, for a call or a slow call, removes the tracer from the
 * tracee, as `remove' for trace_status does; for any other event it has the effect of
 * DISCARD. */
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

/* Bits of `flags': the requested time stamp, as `timestamp' in the options of the
 * behaviour, at most one of them; and whether scheduler_id is requested. */
#define ERL_NIF_TRACE_TIMESTAMP         (1 << 0)
#define ERL_NIF_TRACE_CPU_TIMESTAMP     (1 << 1)
#define ERL_NIF_TRACE_MONOTONIC         (1 << 2)
#define ERL_NIF_TRACE_STRICT_MONOTONIC  (1 << 3)
#define ERL_NIF_TRACE_SCHEDULER_ID      (1 << 4)

/* Why a process was scheduled out: the first of these that applies at that moment. */
typedef enum {
    ERL_NIF_TRACE_OUT_UNKNOWN,
    ERL_NIF_TRACE_OUT_EXITING,
    ERL_NIF_TRACE_OUT_SUSPENDED,        /* by erlang:suspend_process/1, a busy port, a lock */
    ERL_NIF_TRACE_OUT_DIRTY,            /* to a dirty scheduler, or from one */
    ERL_NIF_TRACE_OUT_WAITING,          /* in a receive, or hibernating */
    ERL_NIF_TRACE_OUT_TRAP,             /* reductions used up in a BIF or NIF that continues later */
    ERL_NIF_TRACE_OUT_REDUCTIONS,       /* reductions used up elsewhere, or by signals and
                                         * system tasks, or given up (erlang:yield/0) */
    ERL_NIF_TRACE_OUT_PORT              /* trace flag running_procs: it calls a port */
} ErlNifTraceOut;

/* What put a process in the run queue from which it was taken. */
typedef enum {
    ERL_NIF_TRACE_BY_UNKNOWN,           /* it was in none, or was not traced at that time */
    ERL_NIF_TRACE_BY_OUT,               /* it could still run when it was scheduled out */
    ERL_NIF_TRACE_BY_MESSAGE,           /* from a process, the runtime, or a non-scheduler thread */
    ERL_NIF_TRACE_BY_PORT,              /* a message or signal that a port sent */
    ERL_NIF_TRACE_BY_TIMER,             /* the timeout of a receive, or a message of a timer */
    ERL_NIF_TRACE_BY_SPAWN,
    ERL_NIF_TRACE_BY_RESUME,
    ERL_NIF_TRACE_BY_SIGNAL             /* a signal other than a message, or a system task */
} ErlNifTraceRunnable;

/* An event. All of it belongs to the runtime, and is valid only during the call. A
 * term that does not exist is 0, which is not a valid term. */
typedef struct {
    ErlNifTraceKind kind;
    unsigned flags;
    ERL_NIF_TERM tag;                   /* an atom, as in the behaviour */
    ERL_NIF_TERM state;                 /* of the tracer */
    ERL_NIF_TERM tracee;                /* a process or port */
    /* The function of a call, or of a process that is scheduled; NULL if there is none,
     * or if it is not known. */
    const ErlNifTraceMFA *mfa;
    /* For the tag call: the arguments, mfa->arity of them, or NULL with the trace flag
     * arity. */
    const ERL_NIF_TERM *args;
    /* The fourth argument of trace*(), except for calls and processes that are
     * scheduled: their functions are in mfa and args. */
    ERL_NIF_TERM term;
    ERL_NIF_TERM extra;                 /* as in the options of the behaviour */
    ERL_NIF_TERM match_spec_result;
    ErlNifUInt64 scheduler_id;
    ErlNifTime time;                    /* with ERL_NIF_TRACER_TIME, else 0 */

    /* The following members are for tracers that have registered version 2 or later. */

    /* For the tags out, out_exiting and out_exited. */
    ErlNifTraceOut out_reason;
    /* For the tags in and in_exiting: what made the process runnable, and for how many
     * nanoseconds it has been in the run queue since then; 0 if that is unknown. If
     * several things made it runnable, the first one counts. */
    ErlNifTraceRunnable runnable_by;
    ErlNifTime runnable_for;
    /* For the tags send, receive and taken: the number of the message. It is the same in
     * all of them, in all sessions, and differs from that of any other message of this
     * runtime. It is 0 if there is no number: for a message to another node, to a port or
     * to a process that does not exist, for a timeout, and for a message that was in the
     * mailbox before its receiver was traced. A message whose sender was not traced gets
     * its number at its receiver. */
    ErlNifUInt64 message;
    /* For the tag taken: how many messages are before it in the mailbox, or
     * ERL_NIF_TRACE_MANY. The receive has examined them, and they did not match; or it
     * skipped them because they cannot match, as when it waits for a reply with a new
     * reference. */
    ErlNifUInt64 passed;
    /* For events of calls: the number of words on the stack, without the frames that
     * tracing has put on top of it. For the tag call: at the start of the function. For
     * return_from, exception_from and slow: the same as for their call. For return_to: less
     * than at the start of any of the functions that have ended, and not less than at the
     * start of the function that is returned to.
     *
     * So a call at a depth ends all calls at this depth, or at a greater one, that have
     * not returned yet: it is a tail call of theirs, or an exception has ended them. A
     * return_to ends all calls that have a greater depth. */
    ErlNifUInt64 depth;
    /* For the tag slow: when the function was called, as enif_monotonic_time(ERL_NIF_NSEC),
     * and how many nanoseconds the call took. With ERL_NIF_TRACER_TIME, time is the sum of
     * the two. For the tag stopped: when a thread began to stop the schedulers, and how many
     * nanoseconds later they could continue; time is when the event is reported. */
    ErlNifTime start;
    ErlNifTime duration;
    /* For the tags in and in_exiting: the thread of the scheduler, as gettid() returns it,
     * which is also its name in /proc/self/task. It never changes for a scheduler. 0 if it
     * is not known, which is so on all systems except Linux. */
    ErlNifUInt64 kernel_thread;
    /* For the tags in and in_exiting, with ERL_NIF_TRACER_CPU: the number of the CPU that
     * executes the thread at this moment; -1 without the flag, or if it is not known. */
    int cpu;
    /* For the tag stopped: how many stops before this one are not reported in this session,
     * because there were more than 16 between two events of the kind RUNNING_PROCS. */
    ErlNifUInt64 missed;
    /* For the start and the end of a garbage collection, with ERL_NIF_TRACER_SIZES: the ERL_NIF_TRACE_SIZES numbers
     * of the list that is the fourth argument of trace_garbage_collection, in its order:
     * wordsize, old_heap_block_size, heap_block_size, mbuf_size, recent_size, stack_size,
     * old_heap_size, heap_size, bin_vheap_size, bin_vheap_block_size, bin_old_vheap_size,
     * bin_old_vheap_block_size. NULL without the flag and for other events (gc_max_heap_size has
     * a term). */
    const ErlNifUInt64 *sizes;
} ErlNifTraceEvent;

/* Flags of a tracer. TIME: events have enif_monotonic_time(ERL_NIF_NSEC). For version 2,
 * CPU: events of the tags in and in_exiting have the CPU. STOPPED: it gets events of the
 * kind STOPPED. SIZES: the start and the end of a garbage collection have sizes and no
 * term, and `enabled' is not called for them. */
#define ERL_NIF_TRACER_TIME             (1 << 0)
#define ERL_NIF_TRACER_CPU              (1 << 1)
#define ERL_NIF_TRACER_STOPPED          (1 << 2)
#define ERL_NIF_TRACER_SIZES            (1 << 3)

/*
 * The functions of a tracer. They are called in the thread in which the event
 * happens, like those of the behaviour, and have the same restrictions. The
 * environment has no process, not even for calls. Terms built in it exist only until
 * they return; an exception has no effect.
 *
 * event: one event. Its result matters for the tag call: if the call is discarded,
 *     it has no return_to.
 * enabled: whether the tracer wants an event. It is called if the event requires
 *     expensive work: before the match spec of a call is run, and before a long term
 *     is built. Only kind, tag, state and tracee are set. `event' is called afterwards
 *     if the result is TRACE, unless the match spec rejects the call.
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
 *   ENOTSUP  the runtime does not know the version, or a flag does not exist in it
 * After an error, `set' can be called again, for example with fewer flags. Without an
 * interface, the functions of the behaviour are called. Each version of the code of a
 * module registers separately.
 */
typedef int ErlNifTracerRegister(ErlNifEnv *env, const ErlNifTracer *tracer);

#ifdef __cplusplus
}
#endif

#endif
