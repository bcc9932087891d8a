/* SPDX-License-Identifier: Apache-2.0
 *
 * The streaming analysis: turns the events of a recording into facts, once, for all
 * commands and exports. A fact is reported to a sink when its end is known: a call
 * span when the call ends, a message when it was received, a request when its reply
 * arrived. Facts of one kind and one process come in the order of their ends.
 *
 * Threads: single threaded, as the reader. A sink is called from within
 * kymo_analyse and must not call it, nor the reader's next, rewind or close.
 *
 * Units: times are nanoseconds of CLOCK_MONOTONIC, as kymo_event.ns; durations are
 * nanoseconds. KYMO_NO_TIME stands for a time or a duration that is not known. What is
 * not known is never guessed: a span whose end was not recorded has no end, a process
 * whose scheduling was not recorded has no running time, a message whose send is not
 * certain has no send time.
 *
 * The horizon (kymo_reader.h): nothing before it is used. What was open there starts
 * with its first event after it and is reported without a start.
 *
 * Memory is bounded by KYMO_RESIDENTS processes with 65,536 open calls each,
 * KYMO_REQUESTS_OPEN requests and KYMO_FLOWS_OPEN messages on their way; it does not
 * grow with the number of events. What is evicted is reported as far as it is known and
 * counted in struct kymo_analysis_result.
 */
#ifndef KYMO_ANALYSIS_H
#define KYMO_ANALYSIS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kymo_reader.h"

struct kymo_lesson;

#define KYMO_NO_TIME INT64_MIN
/* Requests without a reply that are kept at a time; the oldest are reported as open. */
#define KYMO_REQUESTS_OPEN 131072u

/* b - a, or KYMO_NO_TIME when one of them is not known. */
static inline int64_t kymo_since(int64_t a, int64_t b)
{
    return a == KYMO_NO_TIME || b == KYMO_NO_TIME ? KYMO_NO_TIME : b - a;
}

/* ---- call spans ---- */

/* How a call ended. */
enum kymo_span_end {
    KYMO_SPAN_RETURN = 0,    /* return_from, or a return_to that shows its end */
    KYMO_SPAN_EXCEPTION = 1, /* exception_from */
    KYMO_SPAN_TAIL = 2,      /* a tail call that led to the same function again */
    KYMO_SPAN_HIBERNATE = 3, /* the process hibernated */
    KYMO_SPAN_EXIT = 4,      /* the process exited */
    KYMO_SPAN_LOST = 5,      /* its end was not recorded, or events were lost while it was open: no
                                end, no durations */
    KYMO_SPAN_OPEN = 6,      /* open when the recording ended: no end, no durations */
    KYMO_SPAN_MOMENT = 7,    /* a call of which only the beginning is recorded (no return
                                 events): start alone is known */
};

/* One call of a traced function. total = self + the total of the traced calls that it
 * made + the collections directly in it. */
struct kymo_span {
    uint64_t id;      /* from 1, in the order of the calls */
    uint64_t parent;  /* the span that it was called in; 0 = none that is known */
    uint64_t process; /* ident */
    uint32_t mfa;     /* canonical dictionary id, 0 = unknown */
    uint32_t caller;  /* mfa of the parent, 0 = none */
    uint32_t depth;   /* spans and collections that it is in */
    uint8_t ended;    /* enum kymo_span_end */
    bool recursive;   /* the same function is open further down: for sums of total */
    int64_t start, end;
    int64_t self;    /* without the calls and collections in it */
    int64_t running; /* of end - start, scheduled in; KYMO_NO_TIME without in and out */
    int64_t self_running;
    int64_t gc;    /* of end - start, in collections */
    uint32_t slot; /* thread of its beginning */
};

/* ---- messages ---- */

/* One message, reported when it was received, or when it is known that it will not be
 * (the receiver exited), or when the analysis ends. Of kind KYMO_MSG_TIMEOUT it is none:
 * the process waited for messages until a time had passed. */
struct kymo_mail {
    uint64_t id;     /* from 1 */
    uint64_t from;   /* ident; KYMO_IDENT_NONE = not known */
    uint64_t to;     /* ident of the process when known, else as it was addressed */
    uint64_t ref;    /* hash of the reference in it, 0 = none or not known */
    int64_t sent;    /* KYMO_NO_TIME: no send is certain to belong to the receive */
    int64_t fetched; /* the receiver moved it into its mailbox; KYMO_NO_TIME = never seen */
    int64_t taken;   /* it left the mailbox; KYMO_NO_TIME where the runtime does not say */
    uint32_t size;   /* heap words, KYMO_SIZE_UNKNOWN */
    uint8_t kind;    /* enum kymo_message_kind (kymo_format.h) */
    bool to_nobody;  /* the receiver did not exist */
};

/* ---- requests ---- */

enum kymo_request_kind {
    KYMO_REQ_CALL = 1, /* gen:call: gen_server, gen_statem, gen_event, supervisor, sys, ... */
    KYMO_REQ_CAST = 2, /* '$gen_cast': has no reply */
    KYMO_REQ_IO = 3,   /* the io protocol */
    KYMO_REQ_SPAWN = 4 /* a process was started and its result came back with a
                          reference: Task, rpc and erpc */
};

enum kymo_request_end {
    KYMO_REQ_REPLIED = 0,
    KYMO_REQ_DOWN = 1,     /* 'DOWN' came instead of a reply */
    KYMO_REQ_OPEN = 2,     /* no reply until the end of the recording */
    KYMO_REQ_NO_REPLY = 3, /* a cast: ends with its handling */
    KYMO_REQ_GONE = 4      /* the client exited before */
};

/* sent <= fetched <= handled <= handled_end, sent <= replied <= received. */
struct kymo_request {
    uint64_t id;               /* from 1 */
    uint64_t client, server;   /* idents; server may be KYMO_IDENT_NONE or a name */
    uint64_t ref;              /* hash of the reference, 0 = none */
    uint64_t mail, reply_mail; /* ids of the messages, 0 = not matched */
    uint64_t handler;          /* id of the span that handled it, 0 = not known */
    uint64_t waiter;           /* id of the client's innermost span at the send, 0 = not known */
    uint32_t handler_mfa;      /* Module:handle_call/3 and the like, 0 = not known */
    uint32_t waiter_mfa;
    uint8_t kind;    /* enum kymo_request_kind */
    uint8_t ended;   /* enum kymo_request_end */
    bool inferred;   /* handled follows from the order of the server's replies: its callbacks were
                      not traced */
    int64_t sent;    /* by the client */
    int64_t fetched; /* into the server's mailbox */
    int64_t handled; /* the server began with it */
    int64_t handled_end;
    int64_t replied;  /* the reply was sent; equals received when only that is known */
    int64_t received; /* by the client */
    uint32_t ahead;   /* requests to this server without a reply when it was sent */
};

/* How long it took: until the reply came, or until a cast was handled; KYMO_NO_TIME. */
int64_t kymo_request_total(const struct kymo_request *q);
/* Parts of it, which add up to the total where all are known. */
int64_t kymo_request_queued(const struct kymo_request *q);
int64_t kymo_request_handling(const struct kymo_request *q);
int64_t kymo_request_reply(const struct kymo_request *q);
/* "call", "cast", ... and "replied", "down", ...; "?" for other numbers. */
const char *kymo_request_kind_name(unsigned kind);
const char *kymo_request_end_name(unsigned end);
/* "return", "exception", ...; "?" for other numbers. */
const char *kymo_span_end_name(unsigned end);

/* ---- running, collections, life ---- */

/* A process or port had a scheduler. */
struct kymo_run {
    uint64_t process;
    uint32_t slot;            /* the thread */
    uint32_t in_mfa, out_mfa; /* functions; 0 = not known */
    int64_t start, end;       /* KYMO_NO_TIME where `in` or `out` was not recorded */
    int64_t waited;           /* since its last `out`, for anything; KYMO_NO_TIME */
    int64_t runnable;         /* in a run queue before; KYMO_NO_TIME where the runtime does not say */
    bool dirty;               /* on a dirty scheduler */
    bool hibernated;          /* left its scheduler to hibernate */
    bool exited;
};

struct kymo_collection {
    uint64_t process;
    uint64_t span;                    /* innermost open span, 0 = none */
    int64_t start, end;               /* KYMO_NO_TIME where one was not recorded */
    uint64_t heap_before, heap_after; /* words, old heap included; 0 = not recorded */
    bool major;
};

/* The life of a process or port as far as it is in the recording, reported at its exit, at
 * the end, or when it is evicted. Counts are of what was recorded. */
struct kymo_life {
    uint64_t process;
    uint64_t parent;     /* KYMO_IDENT_NONE = not known */
    uint32_t spawned_as; /* function that it was spawned with, 0 = not known */
    uint32_t reason;     /* atom of the exit reason, 0 = not known or alive */
    int64_t first, last; /* times of its first and last event */
    int64_t start;       /* spawned; KYMO_NO_TIME = before its first event */
    int64_t end;         /* KYMO_NO_TIME = not seen to exit */
    int64_t running;     /* KYMO_NO_TIME without in and out */
    int64_t waiting;     /* scheduled out, for anything */
    int64_t gc;
    uint64_t calls, runs, collections, sent, received;
    uint64_t requests, requests_handled; /* asked by it, asked of it */
    uint32_t mailbox_max;                /* largest number of requests to it without a reply */
};

/* ---- the run ---- */

/* NULL members are not called. `event` gets each event and note of the window before
 * the facts that it gives rise to. */
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
    /* Called now and then with the work done so far; may be NULL. */
    void (*progress)(void *arg, uint64_t done, uint64_t total);
    void *progress_arg;
    /* NULL, or where the first look at the recording (kymo_lesson.h) is kept for later runs
     * with the same reader: all zero bytes before the first of them. The caller frees its
     * facts in the end. */
    struct kymo_lesson *lesson;
};

/* What the recording has, which tells what its facts can say. */
struct kymo_analysis_result {
    int64_t first, last; /* times of the first and last event; KYMO_NO_TIME = no event */
    uint64_t events;     /* without notes */
    uint64_t lost;       /* events that the recorder reports as lost within the window */
    uint64_t spans, mails, requests, runs, collections;
    uint64_t evicted;            /* processes, requests and messages that were given up to bound memory */
    bool has_calls, has_ends;    /* calls; how they end */
    bool has_messages, has_refs; /* messages; references in them */
    bool has_running, has_gc;
};

/* Reads the recording from the horizon on and reports its facts to the n sinks, each in
 * turn. 0, or a negative errno with a sentence in err (-ENOMEM, -EIO). The reader is
 * rewound before. */
int kymo_analyse(struct kymo_reader *r, const struct kymo_analysis_options *o,
                 const struct kymo_analysis_sink *sinks, size_t n, struct kymo_analysis_result *res,
                 char *err, size_t err_size);

#endif
