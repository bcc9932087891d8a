/* SPDX-License-Identifier: Apache-2.0
 *
 * State of one run of the analysis. An event goes one way through these files:
 *   live.c       a run over a recording that is being written
 *   analysis.c   the run: window, lesson, dispatch, the end
 *   functions.c  what a function is by its name
 *   requests.c   requests and who handles them
 *   mails.c      messages: which receive belongs to which send
 *   spans.c      calls and collections
 *   processes.c  processes: who runs, who lives
 *   report.c     facts to sinks
 * Each calls those below it only.
 */
#ifndef KYMO_ANALYSIS_INT_H
#define KYMO_ANALYSIS_INT_H

#include "kymo_analysis.h"
#include "kymo_flows.h"
#include "kymo_lesson.h"
#include "kymo_residents.h"

/* Processes remembered after their exit, for events that still come from them. Must be a
 * power of two. */
enum { KYMO_AN_DEAD_MAX = 1024 };

/* A process takes all messages that wait for it at once. Those on their way at the
 * horizon are among the first that it receives after it: only what is sent later can be
 * matched by order. */
enum kymo_an_mailbox { KYMO_AN_MAIL_UNKNOWN = 0, KYMO_AN_MAIL_FIRST, KYMO_AN_MAIL_KNOWN };

/* A shown frame of a process's stack, by its depth. */
struct kymo_an_open {
    struct kymo_span span;     /* of a collection: id 0 */
    int64_t busy;              /* time scheduled in when it began, KYMO_NO_TIME */
    int64_t gc;                /* time in collections when it began */
    int64_t below, below_busy; /* of calls and collections that have ended in it */
    uint64_t loss_epoch;       /* when it began */
    uint64_t heap;             /* collections: words before */
    uint32_t sched;            /* kymo_an_process.sched when it began */
    bool inner_unknown;        /* something in it has ended at an unknown time */
};

struct kymo_an_process {
    uint64_t ident;
    uint32_t place; /* among the residents */
    struct kymo_stack stack;
    struct kymo_an_open *open;
    uint32_t open_room;
    int64_t last; /* its newest event: its times do not go back */
    /* Scheduling. */
    uint32_t sched; /* counts up when what is known of it is interrupted; 0 = nothing known */
    bool running;
    uint32_t slot, in_mfa;
    int64_t run_start, out_at; /* KYMO_NO_TIME */
    int64_t busy;              /* time scheduled in so far, up to run_start */
    /* Messages and requests. */
    uint64_t name; /* registered name as an ident, or KYMO_IDENT_NONE */
    enum kymo_an_mailbox mail;
    int64_t received;                 /* newest receive while KYMO_AN_MAIL_FIRST */
    uint32_t queue_first, queue_last; /* requests fetched and not handled: index + 1 */
    uint32_t handling;                /* request being handled: index + 1 */
    uint64_t handling_id;
    int64_t replied;    /* it sent its newest reply */
    uint32_t pending;   /* calls asked of it, without a reply */
    uint32_t asked;     /* calls that it asked, without a reply */
    bool handlers_seen; /* its callbacks are traced */
    /* Processes on other nodes that it spawned and that have exited, without a 'DOWN' yet:
     * how many, and the newest. */
    uint32_t far_exits;
    uint64_t far_child;
    int64_t far_start, far_end;
    bool far_unsure; /* there were several at a time: which 'DOWN' is whose is not known */
    struct kymo_life life;
};

/* What a function is, as far as its name tells. */
enum kymo_an_function {
    KYMO_AN_F_KNOWN = 1,
    KYMO_AN_F_HIBERNATE = 2, /* erlang:hibernate/3 */
    /* Callbacks that handle requests. */
    KYMO_AN_F_CALL = 4,
    KYMO_AN_F_CAST = 8,
    KYMO_AN_F_HANDLES = KYMO_AN_F_CALL | KYMO_AN_F_CAST
};

/* A request without an end. */
struct kymo_an_request {
    struct kymo_request q;
    uint32_t next; /* index + 1 in the queue of the server */
    bool used, queued, counted;
    /* Of several nodes: sending to another node is recorded after the message has left, and
     * its receipt may come first. */
    bool early; /* it was fetched and its sending has not been recorded yet, if it ever is */
    bool late;  /* its reply was received, the same of that */
};

/* Processes that are found without the map, by the low bits of what they are. A power of
 * two; more than there are schedulers, whose events alternate. */
#define KYMO_AN_RECENT 64u

/* The kinds of facts, as struct kymo_analysis_sink has them. */
#define KYMO_AN_FACTS(X) X(event) X(span_open) X(span) X(mail) X(request) X(run) X(collection) X(life)

/* The sinks that want facts of one kind. */
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
    struct kymo_map dead;                           /* set of idents that have exited lately */
    uint64_t dead_ring[KYMO_AN_DEAD_MAX];
    uint32_t dead_next;    /* free-running */
    struct kymo_map names; /* registered name (canonical atom) -> ident */
    struct kymo_flows flows;
    struct kymo_an_request *requests; /* requests_room of them, a power of two */
    uint32_t requests_room;
    uint64_t requests_made;  /* the next place in requests, free-running */
    struct kymo_map by_ref;  /* reference -> index + 1 */
    struct kymo_map by_mail; /* id of a cast's message -> index + 1 */
    uint8_t *functions;      /* by canonical id: KYMO_AN_F_*, 0 = not looked at yet */
    uint32_t n_functions;
    uint64_t *running; /* by slot: ident, KYMO_IDENT_NONE = nobody */
    uint32_t n_slots;
    const struct kymo_slot *slots;
    uint64_t calls;          /* ids of spans given so far */
    struct kymo_span moment; /* the newest that has no frame */
    uint64_t loss_epoch;     /* of the reader, at the newest event */
    int64_t from, to;        /* of the window, CLOCK_MONOTONIC */
    int64_t now, newest;
    bool cut;    /* the recording begins at a horizon */
    bool failed; /* out of memory */
};

/* ---- analysis.c ---- */

/* x->r, o and res are set, all else is zero. 0 or -ENOMEM; clear in both cases. */
int kymo_an_init(struct kymo_an *x);
/* Frees x too. */
void kymo_an_clear(struct kymo_an *x);
/* The next event, which is before the end of the window; loss_epoch as that of the reader. */
void kymo_an_event(struct kymo_an *x, const struct kymo_event *ev, uint64_t loss_epoch);
/* kymo_reader_next, as kymo_lesson_take wants it. */
int kymo_an_next(void *reader, struct kymo_event *ev);

/* ---- report.c ---- */

/* The sinks stay where they are. 0 or -ENOMEM. */
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

/* The process that the event is about, made when it is not known; NULL when it is about
 * something else, about what has exited, or without memory. */
struct kymo_an_process *kymo_an_process(struct kymo_an *x, const struct kymo_event *ev);
/* One that is known; NULL. */
struct kymo_an_process *kymo_an_known(const struct kymo_an *x, uint64_t ident);
/* Time scheduled in until x->now; KYMO_NO_TIME. */
int64_t kymo_an_busy(const struct kymo_an *x, const struct kymo_an_process *p);
void kymo_an_in(struct kymo_an *x, struct kymo_an_process *p, const struct kymo_event *ev);
void kymo_an_out(struct kymo_an *x, struct kymo_an_process *p, const struct kymo_event *ev, bool hibernates);
/* Registers and unregisters its name. */
void kymo_an_rename(struct kymo_an *x, struct kymo_an_process *p, const struct kymo_event *ev);
/* Its life is over: reports it and frees it. ev: its exit, or NULL. */
void kymo_an_forget(struct kymo_an *x, struct kymo_an_process *p, const struct kymo_event *ev);
void kymo_an_forget_all(struct kymo_an *x);

/* ---- functions.c ---- */

/* enum kymo_an_function of a canonical id. */
uint8_t kymo_an_look_at(struct kymo_an *x, uint32_t mfa);
static inline uint8_t kymo_an_function(struct kymo_an *x, uint32_t mfa)
{
    return mfa < x->n_functions && x->functions[mfa] != 0 ? x->functions[mfa] : kymo_an_look_at(x, mfa);
}

/* ---- spans.c ---- */

/* Calls, returns and collections. The span that a call opened, or NULL; valid until the
 * next event. */
const struct kymo_span *kymo_an_stack_event(struct kymo_an *x, struct kymo_an_process *p,
                                            const struct kymo_event *ev);
/* Ends all calls: hibernation, exit, the end. */
void kymo_an_end_spans(struct kymo_an *x, struct kymo_an_process *p, const struct kymo_event *ev);
/* The innermost open call, or NULL. */
const struct kymo_span *kymo_an_innermost(const struct kymo_an_process *p);

/* ---- mails.c ---- */

/* A receive has waited in vain: reported as a mail of kind KYMO_MSG_TIMEOUT. */
void kymo_an_timeout(struct kymo_an *x, struct kymo_an_process *p);

/* The id of the message. */
uint64_t kymo_an_send(struct kymo_an *x, const struct kymo_event *ev);
uint64_t kymo_an_receive(struct kymo_an *x, struct kymo_an_process *p, const struct kymo_event *ev);
/* The process behind what a message was addressed to, as far as it is known. */
uint64_t kymo_an_receiver(const struct kymo_an *x, uint64_t to);
/* Fits kymo_flows.gone. */
void kymo_an_mail_gone(void *x, const struct kymo_flow_entry *e);

/* ---- requests.c ---- */

void kymo_an_request_sent(struct kymo_an *x, struct kymo_an_process *p, const struct kymo_event *ev,
                          uint64_t mail);
void kymo_an_request_received(struct kymo_an *x, struct kymo_an_process *p, const struct kymo_event *ev,
                              uint64_t mail);
/* A call of p began: it may be a callback that handles a request. */
void kymo_an_request_call(struct kymo_an *x, struct kymo_an_process *p, const struct kymo_span *s);
/* A span of p has ended: it may have been that callback. */
void kymo_an_request_span_ended(struct kymo_an *x, struct kymo_an_process *p, const struct kymo_span *s);
/* p is gone: what it had been asked or had asked will have no reply. */
void kymo_an_request_exit(struct kymo_an *x, struct kymo_an_process *p);
/* Reports all that are open. */
void kymo_an_requests_end(struct kymo_an *x);

#endif
