/* SPDX-License-Identifier: Apache-2.0
 *
 * State of one run of the analysis. An event passes through these files in one direction:
 *   live.c       a run over a recording that is being written
 *   analysis.c   the run: window, lesson, dispatch, the end
 *   arrivals.c   messages whose receive events were left out
 *   functions.c  the role of a function, by its name
 *   requests.c   requests and replies
 *   turns.c      callbacks that handle requests; request_table.c holds the open requests
 *   mails.c      messages: pairs sends with receives
 *   spans.c      calls and collections
 *   processes.c  processes: their runs and their lives
 *   report.c     facts to sinks
 * Each calls those below it only.
 */
#ifndef KYMO_ANALYSIS_INT_H
#define KYMO_ANALYSIS_INT_H

#include "kymo_analysis.h"
#include "kymo_breaks.h"
#include "kymo_flows.h"
#include "kymo_lesson.h"
#include "kymo_residents.h"
#include "kymo_timeline.h"

/* Processes remembered after their exit, for events that still come from them. Must be a
 * power of two. */
enum { KYMO_AN_DEAD_MAX = 1024 };
/* Messages that were fetched and may still be taken. Must be a power of two. */
enum { KYMO_AN_HELD_MAX = 1 << 18 };

/* A process fetches all waiting messages at once. Messages that were in transit at the
 * horizon are among the first that it receives after it, so only messages that were sent
 * later can be matched by order. */
enum kymo_an_mailbox { KYMO_AN_MAIL_UNKNOWN = 0, KYMO_AN_MAIL_FIRST, KYMO_AN_MAIL_KNOWN };

/* Messages that have the form of requests, but for which no send event is known. */
struct kymo_an_unknown {
    uint32_t calls, casts;
};

/* A callback that handles a request, until the next one. */
struct kymo_an_turn {
    uint64_t span;      /* 0 = none */
    uint64_t going_on;  /* the same, or of the call that has replaced it; 0 = of the next call */
    uint64_t placing;   /* kymo_an.placings when it began */
    int64_t start, end; /* end: KYMO_NO_TIME = unknown */
    uint32_t mfa;
    uint32_t request; /* index + 1; 0 = unknown */
    uint8_t what;     /* KYMO_AN_F_HANDLES */
    bool open;        /* the callback has not ended, and its end is recorded */
    bool replied;     /* a reply was sent after its end */
    bool confirmed;   /* the reply of its request was sent, or the request has ended */
};

/* A shown frame of a process's stack, by its depth. */
struct kymo_an_open {
    struct kymo_span span;     /* of a collection: id 0 */
    int64_t busy;              /* time scheduled in when it began, KYMO_NO_TIME */
    int64_t gc;                /* time in collections when it began */
    int64_t below, below_busy; /* times of calls and collections that have ended in it */
    uint64_t loss_epoch;       /* when it began */
    struct kymo_heap heap;     /* collections: before */
    uint32_t sched;            /* kymo_an_process.sched when it began */
    bool inner_unknown;        /* something in it has ended at an unknown time */
};

/* A list of requests: the index + 1 of the first and of the last, or of the neighbours; 0 = none. */
struct kymo_an_list {
    uint32_t first, last;
};
struct kymo_an_link {
    uint32_t prev, next;
};

struct kymo_an_process {
    uint64_t ident;
    uint32_t place; /* among the residents */
    struct kymo_stack stack;
    struct kymo_an_open *open;
    uint32_t open_room;
    int64_t last; /* time of its newest event; never decreases */
    /* Scheduling. */
    uint32_t sched;     /* incremented when its scheduling becomes unknown for a time; 0 = unknown */
    uint64_t runs_lost; /* kymo_an.runs_lost when that was last taken into account */
    bool running;
    uint32_t slot, in_mfa;
    int64_t run_start, out_at; /* KYMO_NO_TIME */
    int64_t runnable;          /* before run_start: see struct kymo_run */
    uint8_t by;
    int64_t busy; /* time scheduled in so far, up to run_start */
    /* Messages and requests. */
    uint64_t name; /* registered name as an ident, or KYMO_IDENT_NONE */
    enum kymo_an_mailbox mail;
    int64_t received;               /* newest receive while KYMO_AN_MAIL_FIRST */
    struct kymo_an_list queue;      /* requests fetched but not yet handled */
    struct kymo_an_unknown unknown; /* messages fetched after the last of them */
    struct kymo_an_turn turn;       /* the newest */
    uint64_t turns;                 /* so far */
    uint64_t placed;       /* kymo_an.placings: all that is ahead of `queue` is known; else it is not */
    bool in_loop;          /* it may have waited for the next request when it was scheduled out */
    uint8_t handlers_seen; /* its callbacks are traced: KYMO_AN_F_HANDLES */
    int64_t replied;       /* time of its newest reply */
    uint32_t pending;      /* calls to it without a reply */
    uint32_t asked;        /* calls by it without a reply */
    uint32_t newest_call;  /* its newest request of kind KYMO_REQ_CALL: index + 1 */
    /* Processes on other nodes that it spawned and that have exited, without a 'DOWN' yet:
     * how many, and the newest. */
    uint32_t far_exits;
    uint64_t far_child;
    int64_t far_start, far_end;
    bool far_unsure; /* there were several at a time: their 'DOWN's cannot be assigned */
    struct kymo_life life;
};

/* The role of a function, derived from its name. */
enum kymo_an_function {
    KYMO_AN_F_KNOWN = 1,
    KYMO_AN_F_HIBERNATE = 2, /* erlang:hibernate/3 */
    /* Callbacks that handle requests. */
    KYMO_AN_F_CALL = 4,
    KYMO_AN_F_CAST = 8,
    KYMO_AN_F_ASKS = 16, /* gen:do_call/4, which waits for the reply to a call */
    KYMO_AN_F_HANDLES = KYMO_AN_F_CALL | KYMO_AN_F_CAST,
    /* A server waits in it for the next message, and takes any. */
    KYMO_AN_F_LOOP = 32
};

/* How often a request can be passed on. After that, the newest is changed. */
enum { KYMO_AN_HOPS_MAX = 16 };

/* The lists that a request may be in. */
enum kymo_an_among { KYMO_AN_OPEN, KYMO_AN_QUEUED, KYMO_AN_OF_SERVER, KYMO_AN_LISTS };

/* A request that has not ended. */
struct kymo_an_request {
    struct kymo_request q;
    struct kymo_an_link link[KYMO_AN_LISTS];
    struct kymo_an_process *queued; /* in whose queue it is, NULL = none */
    uint32_t outer;                 /* the request that was passed on as this one: index + 1; 0 = none */
    uint8_t hops;                   /* how many there are, up to KYMO_AN_HOPS_MAX */
    struct kymo_an_unknown unknown; /* messages between the one before it in that queue and it */
    uint64_t turns;                 /* turns of the server that had ended when it was sent */
    int64_t taken;                  /* out of the mailbox; KYMO_NO_TIME */
    uint64_t loss_epoch;            /* when it was sent */
    uint8_t timeouts; /* since the client's receive for the reply has timed out, with that one; up to 2 */
    bool used, counted;
    bool awaited; /* its `taken` event is expected */
    /* Between nodes: the send event is recorded after the message has been passed on, so the
     * receive event may be older. */
    bool early; /* it was fetched, and no send event has been seen yet */
    bool late;  /* its reply was received, and no send event of the reply has been seen yet */
};

/* Size of the cache of recent processes, indexed by the low bits of the ident. A power of
 * two, larger than the number of schedulers, whose events alternate. */
#define KYMO_AN_RECENT 64u

/* The kinds of facts, as struct kymo_analysis_sink has them. */
#define KYMO_AN_FACTS(X) X(event) X(span_open) X(span) X(mail) X(request) X(run) X(collection) X(life)

/* The sinks for one kind of facts. */
struct kymo_an_sinks {
    const struct kymo_analysis_sink **sink;
    size_t n;
};

struct kymo_an {
    struct kymo_reader *r;
    const struct kymo_analysis_options *o;
    const struct kymo_analysis_sink **sinks; /* all those of the lists below */
#define KYMO_X(kind) struct kymo_an_sinks to_##kind;
    KYMO_AN_FACTS(KYMO_X)
#undef KYMO_X
    struct kymo_analysis_result *res;
    struct kymo_lesson lesson;
    struct kymo_residents residents;
    struct kymo_map processes;                      /* ident -> struct kymo_an_process * */
    struct kymo_an_process *recent[KYMO_AN_RECENT]; /* of the newest events: most come in runs */
    struct kymo_map dead;                           /* set of idents that have exited recently */
    uint64_t dead_ring[KYMO_AN_DEAD_MAX];
    uint32_t dead_next;    /* free-running */
    struct kymo_map names; /* registered name (canonical atom) -> ident */
    struct kymo_flows flows;
    struct kymo_map held;               /* kymo_message_key -> struct kymo_mail: fetched, not yet taken */
    uint64_t *held_ring;                /* their keys, oldest first; NULL until there is one */
    uint64_t held_next;                 /* free-running place in it */
    bool takes;                         /* the recording has events `taken` */
    bool unreceived[KYMO_TIMELINE_MAX]; /* by recording: received messages were left out */
    struct kymo_breaks breaks;
    struct kymo_an_request *requests; /* requests_room of them, a power of two */
    uint32_t requests_room;
    uint64_t requests_made;     /* the next place in requests, free-running */
    struct kymo_an_list open;   /* all that are used, in the order in which they began */
    struct kymo_an_list queued; /* those in the queues of all servers */
    uint64_t placings;          /* from 1; incremented when the places of all servers become unknown */
    struct kymo_map by_ref;     /* reference -> index + 1 */
    struct kymo_map by_mail;    /* id of a cast's message -> index + 1 */
    uint8_t *functions;         /* by canonical id: KYMO_AN_F_*, 0 = not determined yet */
    uint32_t n_functions;
    uint64_t *running;  /* by slot: ident, KYMO_IDENT_NONE = none */
    uint64_t runs_lost; /* number of calls of kymo_an_runs_lost */
    uint32_t n_slots;
    const struct kymo_slot *slots;
    uint64_t calls;          /* number of span ids assigned so far */
    struct kymo_span moment; /* the newest that has no frame */
    uint64_t loss_epoch;     /* of the reader plus broken, at the newest event */
    uint64_t broken;         /* number of times at which a budget shed or restored calls */
    int64_t from, to;        /* of the window, CLOCK_MONOTONIC */
    int64_t now, newest;
    bool cut;    /* the recording begins at a horizon */
    bool at_end; /* of the recording: what still goes on is reported */
    bool failed; /* out of memory */
};

/* ---- analysis.c ---- */

/* x->r, o and res must be set, everything else zero. Returns 0 or -ENOMEM. Call kymo_an_clear in
 * both cases. */
int kymo_an_init(struct kymo_an *x);
/* Also frees x. */
void kymo_an_clear(struct kymo_an *x);
/* Processes the next event, which must be before the end of the window. loss_epoch is that of the
 * reader. */
void kymo_an_event(struct kymo_an *x, const struct kymo_event *ev, uint64_t loss_epoch);
/* kymo_reader_next, with the type that kymo_lesson_take needs. */
int kymo_an_next(void *reader, struct kymo_event *ev);

/* ---- report.c ---- */

/* Keeps pointers to the sinks. Returns 0 or -ENOMEM. */
int kymo_an_report_init(struct kymo_an *x, const struct kymo_analysis_sink *sinks, size_t n);
void kymo_an_report_event(struct kymo_an *x, const struct kymo_event *ev);
void kymo_an_report_open(struct kymo_an *x, const struct kymo_span *s);
void kymo_an_report_span(struct kymo_an *x, const struct kymo_span *s);
void kymo_an_report_mail(struct kymo_an *x, const struct kymo_mail *m);
void kymo_an_report_request(struct kymo_an *x, const struct kymo_request *q);
void kymo_an_report_run(struct kymo_an *x, const struct kymo_run *run);
void kymo_an_report_collection(struct kymo_an *x, const struct kymo_collection *c);
void kymo_an_report_life(struct kymo_an *x, const struct kymo_life *life);

/* ---- processes.c ---- */

/* The process of the event, created if it is unknown; NULL if the event is about something else
 * or a process that has exited, or if out of memory. */
struct kymo_an_process *kymo_an_process(struct kymo_an *x, const struct kymo_event *ev);
/* A known process, or NULL. */
struct kymo_an_process *kymo_an_known(const struct kymo_an *x, uint64_t ident);
/* Time scheduled in until x->now; KYMO_NO_TIME if unknown. */
int64_t kymo_an_busy(const struct kymo_an *x, const struct kymo_an_process *p);
void kymo_an_in(struct kymo_an *x, struct kymo_an_process *p, const struct kymo_event *ev);
void kymo_an_out(struct kymo_an *x, struct kymo_an_process *p, const struct kymo_event *ev, bool hibernates);
/* Makes the scheduling of each process unknown until its next `in` event. The number of steps does not
 * depend on the number of processes, each of which notices it at its next event. */
void kymo_an_runs_lost(struct kymo_an *x);
/* Registers and unregisters its name. */
void kymo_an_rename(struct kymo_an *x, struct kymo_an_process *p, const struct kymo_event *ev);
/* Reports the end of a process and frees it. ev is its exit, or NULL. */
void kymo_an_forget(struct kymo_an *x, struct kymo_an_process *p, const struct kymo_event *ev);
void kymo_an_forget_all(struct kymo_an *x);

/* ---- arrivals.c ---- */

/* Sets x->unreceived. */
void kymo_an_arrivals_init(struct kymo_an *x);
/* Whether received messages were left out of the recording of this thread. */
static inline bool kymo_an_unreceived(const struct kymo_an *x, uint32_t slot)
{
    return x->unreceived[x->flows.nodes ? kymo_timeline_of_slot(x->r, slot) : 0];
}
/* p fetches all that was sent to it. assumed: perhaps later. */
void kymo_an_arrivals(struct kymo_an *x, struct kymo_an_process *p, bool assumed);
/* Handles a send event. The receiver fetches the message now if it is running, or if it is unknown when
 * processes run. */
void kymo_an_arrives(struct kymo_an *x, struct kymo_an_process *sender, const struct kymo_event *ev);

/* ---- functions.c ---- */

/* enum kymo_an_function of a canonical id. */
uint8_t kymo_an_look_at(struct kymo_an *x, uint32_t mfa);
static inline uint8_t kymo_an_function(struct kymo_an *x, uint32_t mfa)
{
    return mfa < x->n_functions && x->functions[mfa] != 0 ? x->functions[mfa] : kymo_an_look_at(x, mfa);
}

/* ---- spans.c ---- */

/* Handles calls, returns and collections. Returns the span that a call has opened, or NULL; valid
 * until the next event. */
const struct kymo_span *kymo_an_stack_event(struct kymo_an *x, struct kymo_an_process *p,
                                            const struct kymo_event *ev);
/* Ends all calls, because of hibernation, exit, or the end of the recording. */
void kymo_an_end_spans(struct kymo_an *x, struct kymo_an_process *p, const struct kymo_event *ev);
/* The innermost open call, or NULL. */
const struct kymo_span *kymo_an_innermost(const struct kymo_an_process *p);

/* ---- mails.c ---- */

/* Reports a receive that has timed out as a mail of kind KYMO_MSG_TIMEOUT. */
void kymo_an_timeout(struct kymo_an *x, struct kymo_an_process *p);

/* Returns the id of the message. */
uint64_t kymo_an_send(struct kymo_an *x, const struct kymo_event *ev);
uint64_t kymo_an_receive(struct kymo_an *x, struct kymo_an_process *p, const struct kymo_event *ev);
/* Reports that a message leaves the mailbox of p, and stores it in *mail. Returns false if the
 * message is not known. */
bool kymo_an_taken(struct kymo_an *x, struct kymo_an_process *p, const struct kymo_event *ev,
                   struct kymo_mail *mail);
/* Reports the messages that were not taken. */
void kymo_an_held_end(struct kymo_an *x);
/* The process to which a message was sent, as far as it is known. */
uint64_t kymo_an_receiver(const struct kymo_an *x, uint64_t to);
/* Has the type of kymo_flows.gone. */
void kymo_an_mail_gone(void *x, const struct kymo_flow_entry *e);

/* ---- requests.c ---- */

void kymo_an_request_sent(struct kymo_an *x, struct kymo_an_process *p, const struct kymo_event *ev,
                          uint64_t mail);
void kymo_an_request_received(struct kymo_an *x, struct kymo_an_process *p, const struct kymo_event *ev,
                              uint64_t mail);
/* A receive of p has timed out: it may have been the one for the reply to its newest call. */
void kymo_an_request_timeout(struct kymo_an *x, struct kymo_an_process *p);
/* p takes a message out of its mailbox, which may be a request. */
void kymo_an_request_taken(struct kymo_an *x, struct kymo_an_process *p, const struct kymo_mail *mail);
/* p has exited: ends the requests to it and from it that have no reply. */
void kymo_an_request_exit(struct kymo_an *x, struct kymo_an_process *p);
/* p is forgotten, but has not exited: none of its requests is in its queue any more. */
void kymo_an_request_forget(struct kymo_an *x, struct kymo_an_process *p);
/* From now on, calls of callbacks are not assigned to the requests that are queued now. Takes a step
 * for each of them. */
void kymo_an_requests_unqueue(struct kymo_an *x);
/* Reports all open requests. Takes a step for each of them. */
void kymo_an_requests_end(struct kymo_an *x);

/* ---- turns.c ---- */

/* p was scheduled out, in a function with this role (enum kymo_an_function). If that shows that its
 * mailbox was empty, its place in it is known from now on. */
void kymo_an_server_out(struct kymo_an *x, struct kymo_an_process *p, const struct kymo_event *ev,
                        uint8_t function);
/* The mailbox of p is empty. */
void kymo_an_server_idle(struct kymo_an *x, struct kymo_an_process *p);
/* A call of p began: it may be a callback that handles a request. */
void kymo_an_request_call(struct kymo_an *x, struct kymo_an_process *p, const struct kymo_span *s);
/* A span of p has ended: it may have been that callback, or a call that has replaced it. replaced:
 * by a tail call, for which kymo_an_request_span_replaced follows. */
void kymo_an_request_span_ended(struct kymo_an *x, struct kymo_an_process *p, const struct kymo_span *s,
                                bool replaced);
/* A call of p has begun. If it has replaced the callback that handles a request, it goes on with
 * that. s: its span, or NULL. */
void kymo_an_request_span_replaced(struct kymo_an *x, struct kymo_an_process *p, const struct kymo_span *s);

#endif
