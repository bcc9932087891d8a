/* SPDX-License-Identifier: Apache-2.0
 *
 * The streaming analysis: turns the events of a recording into facts, in one pass, for
 * all commands and exports. A fact is reported to the sinks when it has ended: a span
 * when the call ends, a message when it is received, a request when its reply arrives.
 * Facts of one kind and one process are reported in the order of their ends.
 *
 * Threads: single-threaded, like the reader. Sinks are called from within kymo_analyse;
 * they must not call it, nor the reader's next, rewind or close.
 *
 * Units: times are nanoseconds of CLOCK_MONOTONIC, as kymo_event.ns; durations are
 * nanoseconds. An unknown time or duration is KYMO_NO_TIME. Unknown values are never
 * guessed: a span without a recorded end has no end, a process without scheduling events
 * has no running time, and a message that cannot be matched to a send event with
 * certainty has no send time.
 *
 * Events before the horizon (kymo_reader.h) are not used. What was in progress at the
 * horizon is reported without a start.
 *
 * Memory is bounded by KYMO_RESIDENTS processes with 65,536 open calls each,
 * KYMO_REQUESTS_OPEN requests and KYMO_FLOWS_OPEN messages in flight; it does not grow
 * with the number of events. What has to be evicted is reported as far as it is known,
 * and counted in struct kymo_analysis_result.
 */
#ifndef KYMO_ANALYSIS_H
#define KYMO_ANALYSIS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kymo_reader.h"

struct kymo_lesson;

#define KYMO_NO_TIME INT64_MIN
/* Maximum number of requests without a reply; beyond it the oldest are reported as open. */
#define KYMO_REQUESTS_OPEN 131072u

/* b - a, or KYMO_NO_TIME if one of them is unknown. */
static inline int64_t kymo_since(int64_t a, int64_t b)
{
    return a == KYMO_NO_TIME || b == KYMO_NO_TIME ? KYMO_NO_TIME : b - a;
}

/* The beginning of a call that the runtime has reported as slow (KYMO_E_SLOW), in *start. Returns
 * false if the duration is damaged. */
static inline bool kymo_slow_start(const struct kymo_event *ev, int64_t *start)
{
    return ev->value <= INT64_MAX && !__builtin_sub_overflow(ev->ns, (int64_t)ev->value, start);
}

/* ---- call spans ---- */

/* How a call ended. */
enum kymo_span_end {
    KYMO_SPAN_RETURN = 0,    /* return_from, or a return_to that implies its end */
    KYMO_SPAN_EXCEPTION = 1, /* exception_from */
    KYMO_SPAN_TAIL = 2,      /* a tail call has replaced it; if events don't have the depth of the stack,
                                only if that led to the same function again */
    KYMO_SPAN_HIBERNATE = 3, /* the process hibernated */
    KYMO_SPAN_EXIT = 4,      /* the process exited */
    KYMO_SPAN_LOST = 5,      /* its end was not recorded, or events were lost while it was open: no
                                end, no durations */
    KYMO_SPAN_OPEN = 6,      /* open when the recording ended: no end, no durations */
    KYMO_SPAN_MOMENT = 7,    /* only the beginning of the call was recorded (no return
                                 events): only start is known */
};

/* One call of a traced function. Its total is the sum of self, the totals of the traced
 * calls that it made, and the collections directly in it. */
struct kymo_span {
    uint64_t id;      /* from 1, in the order of the calls' beginnings */
    uint64_t parent;  /* the span in which it was called; 0 = none or unknown */
    uint64_t process; /* ident */
    uint32_t mfa;     /* canonical dictionary id, 0 = unknown */
    uint32_t caller;  /* mfa of the parent, 0 = none */
    uint32_t depth;   /* number of open spans and collections around it */
    uint8_t ended;    /* enum kymo_span_end */
    bool recursive;   /* the same function is open further out: exclude from sums of totals */
    int64_t start, end;
    int64_t self;    /* without the traced calls and collections in it */
    int64_t running; /* part of end - start scheduled in; KYMO_NO_TIME without in and out */
    int64_t self_running;
    int64_t gc;    /* part of end - start in collections */
    uint32_t slot; /* thread in which it began */
};

/* ---- messages ---- */

/* One message, reported when it is received, when its receiver exits, or when the
 * analysis ends. If the recording has the events `taken`, a received message is reported when
 * it is taken, or, if it never is, later. sent is exact if `exact` is true: runtimes with
 * version 2 of erl_nif_tracer.h number messages. KYMO_MSG_TIMEOUT is not a message but a
 * receive that timed out. */
struct kymo_mail {
    uint64_t id;     /* from 1 */
    uint64_t from;   /* ident; KYMO_IDENT_NONE = unknown */
    uint64_t to;     /* ident of the process if known, else the name it was sent to */
    uint64_t ref;    /* hash of the reference in it, 0 = none or unknown */
    int64_t sent;    /* KYMO_NO_TIME: no send event matches with certainty */
    int64_t fetched; /* by the receiver into its mailbox; KYMO_NO_TIME = unknown */
    int64_t taken;   /* out of the mailbox; KYMO_NO_TIME unless the runtime reports it */
    uint32_t size;   /* heap words, KYMO_SIZE_UNKNOWN */
    uint8_t kind;    /* enum kymo_message_kind (kymo_format.h) */
    bool to_nobody;  /* the receiver did not exist */
    bool exact;      /* it has a number: it is known for sure which send belongs to it, if any */
    bool assumed;    /* received messages were not recorded: it was fetched at `fetched` or later */
    uint32_t passed; /* messages before it in the mailbox when it was taken, KYMO_PASSED_MANY */
};

/* The time in the mailbox, if taken is known, or else until it was fetched into it;
 * KYMO_NO_TIME. */
static inline int64_t kymo_mail_waited(const struct kymo_mail *m)
{
    return m->assumed ? KYMO_NO_TIME : kymo_since(m->sent, m->taken != KYMO_NO_TIME ? m->taken : m->fetched);
}

/* ---- requests ---- */

enum kymo_request_kind {
    KYMO_REQ_CALL = 1, /* gen:call: gen_server, gen_statem, gen_event, supervisor, sys, ... */
    KYMO_REQ_CAST = 2, /* '$gen_cast': has no reply */
    KYMO_REQ_IO = 3,   /* the io protocol */
    KYMO_REQ_SPAWN = 4 /* a process that was started and returned its result with a
                          reference: Task, rpc and erpc */
};

enum kymo_request_end {
    KYMO_REQ_REPLIED = 0,
    KYMO_REQ_DOWN = 1,     /* 'DOWN' instead of a reply */
    KYMO_REQ_OPEN = 2,     /* no reply before the end of the recording; a cast: no callback, although
                              those of the server are traced */
    KYMO_REQ_NO_REPLY = 3, /* a cast: ends when it has been handled, if that is known */
    KYMO_REQ_GONE = 4,     /* the client exited first */
    KYMO_REQ_TIMEOUT = 5   /* the client stopped waiting at `received`; the reply may have been sent later */
};

/* sent <= fetched <= handled <= handled_end, sent <= replied <= received (not if it timed out). */
struct kymo_request {
    uint64_t id;               /* from 1 */
    uint64_t client, server;   /* idents; server may be KYMO_IDENT_NONE or a name */
    uint64_t replier;          /* the process that sent the reply; KYMO_IDENT_NONE = unknown, or none did */
    uint64_t ref;              /* hash of the reference, 0 = none */
    uint64_t mail, reply_mail; /* ids of the messages, 0 = not matched */
    uint64_t handler;          /* id of the span that handled it, 0 = unknown */
    uint64_t waiter;           /* id of the client's innermost span at the send, 0 = unknown */
    uint32_t handler_mfa;      /* such as Module:handle_call/3, 0 = unknown */
    uint32_t waiter_mfa;
    uint8_t kind;    /* enum kymo_request_kind */
    uint8_t ended;   /* enum kymo_request_end */
    bool inferred;   /* handled was derived from the order of the server's replies, because its
                      callbacks were not traced */
    bool passed_on;  /* the client passed on a request of another process, which waits for the reply:
                        received is the time there */
    int64_t sent;    /* by the client */
    int64_t fetched; /* into the server's mailbox */
    int64_t handled; /* the server began to handle it, or took it out of its mailbox */
    int64_t handled_end;
    int64_t replied;  /* the reply was sent; equals received if only that is known */
    int64_t received; /* by the client: the reply, the 'DOWN', or the timeout */
    uint32_t ahead;   /* requests to this server without a reply when it was sent */
    uint32_t behind;  /* callbacks of the server that ended after it was sent and began before it was
                         handled; 0 = none, or not known */
};

/* Its duration, until the reply arrived or a cast was handled; KYMO_NO_TIME. */
int64_t kymo_request_total(const struct kymo_request *q);
/* Its parts, which add up to the total if all are known. */
int64_t kymo_request_queued(const struct kymo_request *q);
int64_t kymo_request_handling(const struct kymo_request *q);
int64_t kymo_request_reply(const struct kymo_request *q);
/* When the server was done with it: its callback ended, or it replied if that is all that is known;
 * KYMO_NO_TIME. */
int64_t kymo_request_done(const struct kymo_request *q);
/* "call", "cast", ... and "replied", "down", ...; "?" for other numbers. */
const char *kymo_request_kind_name(unsigned kind);
const char *kymo_request_end_name(unsigned end);
/* "return", "exception", ...; "?" for other numbers. */
const char *kymo_span_end_name(unsigned end);

/* ---- running, collections, life ---- */

/* A period in which a process or port was scheduled in. */
struct kymo_run {
    uint64_t process;
    uint32_t slot;            /* the thread */
    uint32_t in_mfa, out_mfa; /* functions; 0 = unknown */
    int64_t start, end;       /* KYMO_NO_TIME if `in` or `out` was not recorded */
    int64_t waited;           /* since its last `out`, for any reason; KYMO_NO_TIME */
    int64_t runnable;         /* in a run queue before; KYMO_NO_TIME unless the runtime reports it */
    uint8_t by;               /* enum kymo_runnable: what made it runnable */
    uint8_t reason;           /* enum kymo_out_reason: why it was scheduled out */
    bool dirty;               /* on a dirty scheduler */
    bool hibernated;          /* was scheduled out to hibernate */
    bool exited;
    bool open; /* nothing contradicts that it still runs: see kymo_run_state */
};

/* What is known of a run. */
enum kymo_run_state {
    KYMO_RUN_ENDED = 0,  /* its `out` was recorded */
    KYMO_RUN_OPEN = 1,   /* the process ran when the recording ended: nothing else has run on the thread
                            since, and earlier runs of the process have an `out` */
    KYMO_RUN_UNKNOWN = 2 /* it has no `out`, so it is unknown how long it lasted. The process may have become
                            sensitive, or is no longer traced, or events were lost */
};

/* The rule for all views: only a run that has ended has a duration, and only such a run can be the
 * reason why another process did not run. */
static inline enum kymo_run_state kymo_run_state(const struct kymo_run *run)
{
    return run->end != KYMO_NO_TIME ? KYMO_RUN_ENDED : run->open ? KYMO_RUN_OPEN : KYMO_RUN_UNKNOWN;
}

struct kymo_collection {
    uint64_t process;
    uint64_t span;      /* innermost open span, 0 = none */
    int64_t start, end; /* KYMO_NO_TIME if it was not recorded */
    struct kymo_heap {
        uint64_t heap;      /* words, old heap included */
        uint64_t fragments; /* words outside of it */
        uint64_t binaries;  /* words of the binaries to which the process refers */
        bool known;         /* the sizes were recorded */
    } before, after;
    bool major;
};

/* The life of a process or port, as far as it was recorded; reported when it exits, at the
 * end, or when it is evicted. Counts include recorded events only. */
struct kymo_life {
    uint64_t process;
    uint64_t parent;     /* KYMO_IDENT_NONE = unknown */
    uint32_t spawned_as; /* function with which it was spawned, 0 = unknown */
    uint32_t reason;     /* atom of the exit reason, 0 = unknown or alive */
    uint32_t exited_in;  /* function in which it crashed, 0 = unknown, or it did not */
    int64_t first, last; /* times of its first and last event */
    int64_t start;       /* spawned; KYMO_NO_TIME = before its first event */
    int64_t end;         /* KYMO_NO_TIME = its exit was not recorded */
    int64_t running;     /* KYMO_NO_TIME without in and out */
    int64_t waiting;     /* scheduled out, for any reason */
    int64_t gc;
    uint64_t calls, runs, collections, sent, received;
    uint64_t requests, requests_handled; /* made by it, made to it */
    uint32_t mailbox_max;                /* largest number of requests to it without a reply */
};

/* ---- the run ---- */

/* NULL members are not called. `event` is called for each event and note of the window,
 * before the facts that follow from it. */
struct kymo_analysis_sink {
    void *arg;
    void (*event)(void *arg, const struct kymo_event *ev);
    void (*span_open)(void *arg, const struct kymo_span *s); /* only what is known at the start */
    void (*span)(void *arg, const struct kymo_span *s);
    void (*mail)(void *arg, const struct kymo_mail *m);
    void (*request)(void *arg, const struct kymo_request *q);
    void (*run)(void *arg, const struct kymo_run *run);
    void (*collection)(void *arg, const struct kymo_collection *c);
    void (*life)(void *arg, const struct kymo_life *life);
};

struct kymo_analysis_options {
    /* Window, in ns since the start of the recording (meta.t0_mono_ns), both ends
     * included; INT64_MIN and INT64_MAX = no bound. */
    int64_t from_ns, to_ns;
    /* Called repeatedly with the work done so far; may be NULL. */
    void (*progress)(void *arg, uint64_t done, uint64_t total);
    void *progress_arg;
    /* NULL, or where the first look at the recording (kymo_lesson.h) is kept for later runs
     * with the same reader: all zero bytes before the first of them. The caller frees its
     * facts in the end. */
    struct kymo_lesson *lesson;
};

/* Totals, and which kinds of events the recording has. */
struct kymo_analysis_result {
    int64_t first, last; /* times of the first and last event; KYMO_NO_TIME = no event */
    uint64_t events;     /* without notes */
    uint64_t lost;       /* events that the recorder reports as lost within the window */
    uint64_t spans, mails, requests, runs, collections;
    uint64_t unplaced;           /* casts that may have been handled, but it is unknown by which callback */
    uint64_t evicted;            /* processes, requests and messages dropped to bound memory */
    bool has_calls, has_ends;    /* calls; how they end */
    bool has_slow;               /* slow calls, which are no spans */
    bool has_messages, has_refs; /* messages; references in them */
    bool has_running, has_gc;
    /* What a runtime with version 2 of erl_nif_tracer.h adds: numbers of messages, when they
     * are taken out of the mailbox, times in run queues, the depth of the stack at calls. */
    bool has_numbers, has_taken, has_runnable, has_depths;
};

/* Rewinds the reader, reads the recording from the horizon on, and reports each fact to
 * the n sinks in turn. Returns 0, or a negative errno and a message in err (-ENOMEM,
 * -EIO). */
int kymo_analyse(struct kymo_reader *r, const struct kymo_analysis_options *o,
                 const struct kymo_analysis_sink *sinks, size_t n, struct kymo_analysis_result *res,
                 char *err, size_t err_size);

#endif
