/* SPDX-License-Identifier: Apache-2.0
 *
 * Why something took long: follows the chain of waiting of a process backwards across
 * processes, from the end of a time to its beginning. At each point one process is on
 * the critical path, and it ran, collected, or waited for something: for a message, and
 * then its sender is on the path until it was sent; for a scheduler; for a port, a timer
 * or whatever else. The parts do not overlap and add up to the whole time exactly. What
 * the recording does not show is KYMO_WHY_UNKNOWN.
 *
 * Use: kymo_why_new, kymo_why_window for each time that will be explained, kymo_analyse
 * with its sink, kymo_why_explain as often as wanted. Single threaded. Memory: at most
 * KYMO_WHY_FACTS_MAX facts of each kind, 40 to 140 bytes each, and a copy of those of one kind.
 */
#ifndef KYMO_WHY_H
#define KYMO_WHY_H

#include "kymo_analysis.h"

#define KYMO_WHY_FACTS_MAX 2000000u
#define KYMO_WHY_PARTS 64u
#define KYMO_WHY_STEPS 4096u

enum kymo_why_cause {
    KYMO_WHY_UNKNOWN = 0,
    KYMO_WHY_RUNNING = 1,     /* it ran: function says what, as far as calls were traced */
    KYMO_WHY_DIRTY = 2,       /* it ran on a dirty scheduler */
    KYMO_WHY_GC = 3,          /* it collected garbage */
    KYMO_WHY_QUEUE = 4,       /* the request waited in its mailbox, behind others; see held_up */
    KYMO_WHY_SCHEDULER = 5,   /* it could run, and waited for a scheduler; blame ran instead */
    KYMO_WHY_DIRTY_QUEUE = 6, /* it waited for a dirty scheduler; blame ran instead */
    KYMO_WHY_PORT = 7,        /* it waited for a port; blame is the port if it is known */
    KYMO_WHY_TIMER = 8,       /* it waited until a time had passed */
    KYMO_WHY_SUSPENDED = 9,   /* blame had suspended it */
    KYMO_WHY_NODE = 10,       /* no process of the node ran, though some could have */
    KYMO_WHY_ACTIVE = 11,     /* it ran or waited: its scheduling was not recorded */
    KYMO_WHY_NETWORK = 12,    /* a message to it was on its way from another node; or it had come, and it
                                 waited for a scheduler: the time between is not recorded */
    KYMO_WHY_CAUSES = 13
};

/* What took most of the time of a wait behind other requests: the server was at them, or
 * waited for somebody else on their behalf. */
struct kymo_why_held_up {
    uint8_t cause;    /* not KYMO_WHY_QUEUE */
    uint64_t process; /* KYMO_IDENT_NONE = not known */
    uint64_t blame;
    int64_t ns;
    uint32_t mfa; /* as in struct kymo_why_part */
    int64_t mfa_ns;
    uint32_t times;
};

/* All time of one cause in one process. */
struct kymo_why_part {
    uint8_t cause;
    uint64_t process;
    uint64_t blame; /* see the causes; KYMO_IDENT_NONE = nobody or not known */
    int64_t ns;
    int64_t blame_ns; /* of which blame ran */
    uint32_t mfa;     /* function with most of it, 0 = not known */
    int64_t mfa_ns;
    uint32_t times;                  /* how many stretches */
    uint32_t requests;               /* KYMO_WHY_QUEUE: other requests that were handled meanwhile */
    struct kymo_why_held_up held_up; /* KYMO_WHY_QUEUE: by what */
};

/* A stretch of the path. What takes less than 1 % of the whole is part of the stretch of
 * the same process beside it. */
struct kymo_why_step {
    uint8_t cause;
    uint64_t process, blame;
    int64_t start, end;
    uint32_t mfa;
};

struct kymo_why_answer {
    int64_t ns;                                /* the sum of all parts */
    struct kymo_why_part part[KYMO_WHY_PARTS]; /* the largest first */
    size_t n;
    struct kymo_why_step step[KYMO_WHY_STEPS]; /* in order of time; the oldest are left out */
    size_t n_steps;
    bool cut; /* facts or steps were left out for want of room */
};

/* Times shortly before what is explained belong to its window: who was running then. */
#define KYMO_WHY_BEFORE_NS 1000000

struct kymo_why;

/* NULL: no memory. */
struct kymo_why *kymo_why_new(const struct kymo_reader *r);
void kymo_why_free(struct kymo_why *w);
/* Keeps only facts of which some part lies between start - KYMO_WHY_BEFORE_NS and end, or
 * in another window; of calls that suspend processes all. Times as in kymo_event.ns.
 * Without windows all facts are kept. Before the analysis, which is to begin with the
 * recording: a process may have been suspended long before. False: no memory. */
bool kymo_why_window(struct kymo_why *w, int64_t start, int64_t end);
/* Collects what the explanation needs. */
struct kymo_analysis_sink kymo_why_sink(struct kymo_why *w);
/* Whether facts were left out for want of room. Fewer windows need less room. */
bool kymo_why_is_cut(const struct kymo_why *w);
/* Explains the time of process from start to end; both within a window. 0, -ENOMEM, or
 * -EINVAL when the end is before the start. */
int kymo_why_explain(struct kymo_why *w, uint64_t process, int64_t start, int64_t end,
                     struct kymo_why_answer *out);
/* Explains a cast, from its sending until the server had handled it. q->sent and
 * q->handled_end must be known. Returns as kymo_why_explain. */
int kymo_why_explain_cast(struct kymo_why *w, const struct kymo_request *q, struct kymo_why_answer *out);
/* "running", "queue", ... for programs. */
const char *kymo_why_cause_name(uint8_t cause);

#endif
