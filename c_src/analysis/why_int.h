/* SPDX-License-Identifier: Apache-2.0
 *
 * The facts of the windows, ordered by process, for kymo_why_explain. why_facts.c collects and
 * finds facts, why_messages.c finds out which messages ended waits, why_stretch.c adds stretches to
 * the path, why_path.c walks the critical path, why_parts.c sums the path up. Each of these files
 * calls only those before it.
 */
#ifndef KYMO_WHY_INT_H
#define KYMO_WHY_INT_H

#include <stddef.h>

#include "kymo_map.h"
#include "kymo_why.h"

#define KYMO_WHY_LIST(type) \
    struct { \
        type *p; \
        size_t n, room; \
    }

/* Indexes of the facts of one process or thread: first <= i < end. */
struct kymo_why_range {
    size_t first, end;
};

/* The index of the first element in the range whose time, an int64_t at `offset`, is `time` or later;
 * range.end if there is none. The elements of the range are in the order of these times. */
size_t kymo_why_from(const void *p, size_t size, size_t offset, struct kymo_why_range range, int64_t time);

#define KYMO_WHY_FROM(list, type, member, range, time) \
    kymo_why_from((list).p, sizeof(type), offsetof(type, member), range, time)
/* The same for a later time. */
#define KYMO_WHY_AFTER(list, type, member, range, time) \
    ((time) == INT64_MAX ? (range).end : KYMO_WHY_FROM(list, type, member, range, (time) + 1))

/* A stretch (interval) of the path. Stretches are unordered until the path is complete. */
struct kymo_why_stretch {
    uint8_t cause;
    uint64_t process, blame;
    uint64_t queue; /* of held_up: the process in whose mailbox the request waited */
    int64_t start, end, blame_ns;
    uint32_t mfa;
    bool to_collect; /* of a wait for a dirty scheduler: what then ran there was a collection */
    uint32_t requests;
};

struct kymo_why_path {
    struct kymo_why_stretch *p;
    size_t n, room;
};

/* The parts of struct kymo_run that are needed. */
struct kymo_why_run {
    uint64_t process;
    uint32_t slot;
    uint32_t in_mfa, out_mfa;
    int64_t start, end;
    int64_t runnable; /* time in a run queue before; KYMO_NO_TIME = unknown */
    uint8_t by;       /* enum kymo_runnable */
    bool exited;      /* it ended with the process */
    uint8_t state;    /* enum kymo_run_state: unless it has ended, `end` is an upper bound */
    int64_t acted;    /* its first call, return or send in this run; KYMO_NO_TIME = none */
};

/* The newest run of a process so far. */
struct kymo_why_newest {
    struct kymo_why_run run;
    bool known; /* there is one */
    bool kept;  /* it is among the runs */
};

/* The parts of struct kymo_span that are needed. */
struct kymo_why_span {
    uint64_t process, id;
    int64_t start, end;
    uint32_t mfa;
};

/* The parts of struct kymo_life that are needed, of a process that was spawned. */
struct kymo_why_birth {
    uint64_t process, parent;
    int64_t at;
};

/* All schedulers of a node were stopped. */
struct kymo_why_stop {
    uint32_t node;  /* index of the timeline */
    uint32_t cause; /* atom */
    int64_t start, end;
};

struct kymo_why_window {
    int64_t start, end;
};

struct kymo_why {
    const struct kymo_reader *r;
    KYMO_WHY_LIST(struct kymo_why_window) windows;     /* by start, disjoint */
    KYMO_WHY_LIST(struct kymo_why_run) runs;           /* by process and start */
    KYMO_WHY_LIST(struct kymo_why_run) slots;          /* the same by thread and start */
    KYMO_WHY_LIST(struct kymo_collection) collections; /* by process and start */
    KYMO_WHY_LIST(struct kymo_why_stop) stops;         /* by node and start */
    KYMO_WHY_LIST(struct kymo_why_span) spans;         /* by process and id */
    KYMO_WHY_LIST(struct kymo_mail) mails;             /* by receiver and time of fetching */
    KYMO_WHY_LIST(struct kymo_mail) to_ports;          /* by sender and time of sending */
    KYMO_WHY_LIST(struct kymo_request) asked;          /* by client and time of sending */
    KYMO_WHY_LIST(struct kymo_request) handled;        /* by server and time of handling */
    int64_t *last_ends; /* of them, from 1: the last end known among the (i & -i) up to number i */
    KYMO_WHY_LIST(struct kymo_why_birth) births; /* by process */
    struct kymo_why_path path;
    struct kymo_why_path held_up; /* what happened during the KYMO_WHY_QUEUE stretches of path */
    uint64_t queue;               /* the server for which held_up is being filled, or KYMO_IDENT_NONE */
    struct kymo_map replies;      /* id of the message that is a reply -> index + 1 in asked */
    struct kymo_map suspends;     /* function -> uint8_t: 1 neither, 2 suspends, 3 resumes */
    KYMO_WHY_LIST(struct kymo_why_span) suspensions; /* calls of functions that suspend or resume, by start */
    struct kymo_map acted;                           /* process -> int64_t: see kymo_why_run */
    struct kymo_map newest;                          /* process -> struct kymo_why_newest */
    bool sorted, failed;
    bool has_messages;        /* in the recording, in a window or not */
    bool facts_cut, path_cut; /* facts, or stretches of this path, were dropped for lack of room */
    uint32_t n_slots;
    const struct kymo_slot *slot;
};

/* Sorts the facts, on the first call only. Returns false if there is no memory. */
bool kymo_why_sort(struct kymo_why *w);
struct kymo_why_range kymo_why_runs(const struct kymo_why *w, uint64_t process);
struct kymo_why_range kymo_why_slot(const struct kymo_why *w, uint32_t slot);
struct kymo_why_range kymo_why_collections(const struct kymo_why *w, uint64_t process);
/* The index of the first collection in the range that ends after `time`. Collections of a process
 * do not overlap. */
size_t kymo_why_collection_from(const struct kymo_why *w, struct kymo_why_range c, int64_t time);
struct kymo_why_range kymo_why_spans(const struct kymo_why *w, uint64_t process);
struct kymo_why_range kymo_why_mails(const struct kymo_why *w, uint64_t to);
struct kymo_why_range kymo_why_to_ports(const struct kymo_why *w, uint64_t from);
struct kymo_why_range kymo_why_asked(const struct kymo_why *w, uint64_t client);
struct kymo_why_range kymo_why_handled(const struct kymo_why *w, uint64_t server);
/* NULL if the process was not spawned in the windows, or by an unknown process. */
const struct kymo_why_birth *kymo_why_birth(const struct kymo_why *w, uint64_t process);
/* Whether the function belongs to the module of this name. */
bool kymo_why_in_module(const struct kymo_why *w, uint32_t mfa, const char *module);

/* Considers the threads of the same node and kind as `slot`, without the time of process
 * `not_this` and of runs that are unknown. Stores the process that ran longest on them from start to
 * end, in runs that have ended, in *who, and its running time in *ns. Returns the utilisation of the
 * busiest of these threads, 0 to 1. */
double kymo_why_busy(const struct kymo_why *w, uint32_t slot, int64_t start, int64_t end, uint64_t not_this,
                     uint64_t *who, int64_t *ns);
/* The time from start to end for which processes may have run, on all threads of the node of `slot`. */
int64_t kymo_why_all_running(const struct kymo_why *w, uint32_t slot, int64_t start, int64_t end);

/* The first stop of the node of `slot` that overlaps the time from start to end; NULL if there is
 * none. */
const struct kymo_why_stop *kymo_why_stopped(const struct kymo_why *w, uint32_t slot, int64_t start,
                                             int64_t end);

/* Maximum time between an action and its effect: a process acts just before it is scheduled out,
 * or another process acts just before this one is scheduled in. */
enum { KYMO_WHY_JUST_NS = 1000000 };

/* A suspension of a process: by whom, and from when until when. */
struct kymo_why_suspension {
    uint64_t by;
    int64_t since, until;
};
/* Finds the suspension that kept `process` from running until `end`. The recording does not tell
 * which process was suspended, so the suspension must have ended just before `end`, or cover most
 * of the time from `start` to `end`, in which the process could not run (start == end: nothing is
 * known about that). */
bool kymo_why_suspended(const struct kymo_why *w, uint64_t process, int64_t start, int64_t end,
                        struct kymo_why_suspension *found);

static inline int64_t kymo_later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline int64_t kymo_earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Whether the message is the timeout of a receive. */
bool kymo_why_is_timeout(const struct kymo_mail *m);
/* Whether run `next` began with fetching a request that arrived during the wait before it, while
 * another request was being handled. Then the wait was in a receive that the request does not
 * match. */
bool kymo_why_looked_at_request(const struct kymo_why *w, const struct kymo_why_run *before,
                                const struct kymo_why_run *next);
/* Whether run `before` ended in the loop of a server, and the first request that was handled in run
 * `next` had been sent to it by then, on the same node: the server could have handled it at once. */
bool kymo_why_had_request(const struct kymo_why *w, const struct kymo_why_run *before,
                          const struct kymo_why_run *next);
/* The message that probably ended the wait before run `next`, or NULL. Candidates are the messages
 * that were fetched in this run before the process did other work; the one sent first is chosen.
 * Requests that arrived while the process handled another one do not count. Messages from senders
 * in `seen` (a set, may be NULL), whose earlier messages did not end the wait, count only if there
 * is no other candidate. */
const struct kymo_mail *kymo_why_waker(const struct kymo_why *w, const struct kymo_why_run *next,
                                       const struct kymo_map *seen);
/* The reply to the newest request of the process, if it was fetched in run `next`. The process
 * waited for it, even if other messages arrived. NULL if there is none. */
const struct kymo_request *kymo_why_reply_in(const struct kymo_why *w, const struct kymo_why_run *next);
/* The newest request of the process, if it ended without a reply in run `next`: the server exited, or the
 * process stopped waiting. NULL if there is none. */
const struct kymo_request *kymo_why_failed_in(const struct kymo_why *w, const struct kymo_why_run *next);
/* The process that sent the reply to a request: the server, if another one is not known. */
uint64_t kymo_why_replier(const struct kymo_request *q);
/* For a request to which another process than the server replied: when the server first sent that
 * process a message, from `start` to `end`; `start` if it did not. */
int64_t kymo_why_handed_over(const struct kymo_why *w, const struct kymo_request *q, int64_t start,
                             int64_t end);
/* The request as which q was passed on to the process that replied, if it is known when that process
 * began to handle it; NULL otherwise. */
const struct kymo_request *kymo_why_passed_on(const struct kymo_why *w, const struct kymo_request *q);
/* The number of requests that the server handled, or was handling, between the time q was sent and
 * the time it began to handle q. */
uint32_t kymo_why_handled_before(const struct kymo_why *w, const struct kymo_request *q);
/* The duration of a run without its collections. */
int64_t kymo_why_worked(const struct kymo_why *w, const struct kymo_why_run *run);
/* Whether a run did not end the wait before it (a glance): the process only handled a signal, or
 * looked at messages that its receive does not match, and went on waiting in the same receive until
 * `end`. There must be a run after it. */
bool kymo_why_is_glance(const struct kymo_why *w, const struct kymo_why_run *run, int64_t end);
/* Goes back from run `before` over glances to the run after which the wait really began; returns
 * its index. Unless a message ended the wait (by_message), stops at glances at messages. Adds the
 * senders of these messages to `seen`. */
size_t kymo_why_without_glances(struct kymo_why *w, struct kymo_why_range range, size_t before, int64_t start,
                                bool by_message, struct kymo_map *seen);
/* The cause of a wait that ended with a message whose sender is not a process or whose send is not
 * known. */
uint8_t kymo_why_cause_of_sender(const struct kymo_mail *m);
/* For a receive that began at `out`, and whose timeout made `run` begin: returns since when the
 * process could not run until `end`. It would have run when a message arrived, and fetched it. A
 * process that is suspended fetches messages, but takes none of them. `glance`: the first known run of
 * the process, if it was in that receive, which began earlier then; NULL otherwise. */
int64_t kymo_why_timeout_end(const struct kymo_why *w, const struct kymo_why_run *run,
                             const struct kymo_why_run *glance, int64_t out, int64_t end);

/* Each of these adds what happened from start to end to w->path, or to w->held_up while w->queue is
 * set. They add nothing if end <= start. They set w->failed if there is no memory, and w->path_cut
 * if the path is too long.
 *
 * One stretch, and one that is described by these members. */
void kymo_why_add(struct kymo_why *w, struct kymo_why_stretch s);
void kymo_why_add_simple(struct kymo_why *w, uint8_t cause, uint64_t process, int64_t start, int64_t end,
                         uint32_t mfa);
/* A part of a run, with its collections as separate stretches. */
void kymo_why_add_run(struct kymo_why *w, const struct kymo_why_run *run, int64_t start, int64_t end);
/* A wait in which the process would have run if it had not been suspended or waiting for a
 * scheduler; then run `next` began. */
void kymo_why_add_runnable(struct kymo_why *w, uint64_t process, int64_t start, int64_t end,
                           const struct kymo_why_run *next);
/* The wait from `start`, when `from` sent a message, to `end`, when the message had made its
 * receiver run. */
void kymo_why_add_delivered(struct kymo_why *w, uint64_t from, const struct kymo_why_run *next, int64_t start,
                            int64_t end);
/* A wait between the runs `before` and `next` that no message explains. */
void kymo_why_add_silent(struct kymo_why *w, const struct kymo_why_run *before,
                         const struct kymo_why_run *next, int64_t start, int64_t end);

/* A wait after run `last`, whose end is not known. */
void kymo_why_add_last(struct kymo_why *w, const struct kymo_why_run *last, int64_t start, int64_t end);

/* Fills w->path with the critical path of `process` from start to end. */
void kymo_why_walk(struct kymo_why *w, uint64_t process, int64_t start, int64_t end);
/* Fills w->path with the critical path of a cast, from its send until it was handled. */
void kymo_why_walk_cast(struct kymo_why *w, const struct kymo_request *q);

#endif
