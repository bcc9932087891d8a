/* SPDX-License-Identifier: Apache-2.0
 *
 * Explains why a process took long: the critical path through an interval of time, from its
 * end back to its start. At each moment exactly one process is on the path. It ran,
 * collected garbage, or waited: for a message (then the sender is on the path up to the
 * send), a scheduler, a port, a timer, and so on. So the parts do not overlap, and add up
 * to the interval. Time that the recording does not explain is KYMO_WHY_UNKNOWN.
 *
 * Use: kymo_why_new; kymo_why_window for each interval to be explained; kymo_analyse with
 * kymo_why_sink; kymo_why_explain, any number of times. Single-threaded. Memory: at most
 * KYMO_WHY_FACTS_MAX facts of each kind, 40 to 140 bytes each, and one copy of the largest
 * kind.
 */
#ifndef KYMO_WHY_H
#define KYMO_WHY_H

#include "kymo_analysis.h"

#define KYMO_WHY_FACTS_MAX 2000000u
#define KYMO_WHY_PARTS 64u
#define KYMO_WHY_STEPS 4096u

enum kymo_why_cause {
    KYMO_WHY_UNKNOWN = 0,
    KYMO_WHY_RUNNING = 1,     /* it ran; mfa is the function, if calls were traced */
    KYMO_WHY_DIRTY = 2,       /* it ran on a dirty scheduler */
    KYMO_WHY_GC = 3,          /* it collected garbage */
    KYMO_WHY_QUEUE = 4,       /* the request waited in its mailbox behind others; see held_up */
    KYMO_WHY_SCHEDULER = 5,   /* it was runnable and waited for a scheduler; blame ran instead */
    KYMO_WHY_DIRTY_QUEUE = 6, /* it waited for a dirty scheduler; blame ran instead */
    KYMO_WHY_PORT = 7,        /* it waited for a port; blame is the port if known */
    KYMO_WHY_TIMER = 8,       /* it waited for a timeout */
    KYMO_WHY_SUSPENDED = 9,   /* blame had suspended it */
    KYMO_WHY_NODE = 10,       /* processes were runnable, but no process of the node ran */
    KYMO_WHY_ACTIVE = 11,     /* it ran or waited: its scheduling was not recorded */
    KYMO_WHY_NETWORK = 12,    /* a message from another node was in transit, or had arrived while the
                                 receiver waited for a scheduler: the arrival is not recorded */
    KYMO_WHY_STOPPED = 13,    /* it could run while all schedulers were stopped; blame is the cause of
                                 that, an atom */
    KYMO_WHY_CAUSES = 14
};

/* What took most of the time that a request waited behind others: the server, which handled
 * them, or a process that the server waited for. */
struct kymo_why_held_up {
    uint8_t cause;    /* not KYMO_WHY_QUEUE */
    uint64_t process; /* KYMO_IDENT_NONE = unknown */
    uint64_t blame;
    int64_t ns;
    int64_t blame_ns; /* as in struct kymo_why_part */
    uint32_t mfa;
    int64_t mfa_ns;
    bool to_collect;
    uint32_t times;
};

/* The time of one cause in one process. */
struct kymo_why_part {
    uint8_t cause;
    uint64_t process;
    uint64_t blame; /* see the causes; KYMO_IDENT_NONE = none or unknown */
    int64_t ns;
    int64_t blame_ns; /* the part of ns in which blame ran */
    uint32_t mfa;     /* the function with the largest part of ns, 0 = unknown */
    int64_t mfa_ns;
    bool to_collect;                 /* KYMO_WHY_DIRTY_QUEUE: mostly to collect garbage there */
    uint32_t times;                  /* number of intervals */
    uint32_t requests;               /* KYMO_WHY_QUEUE: requests that were handled before it */
    struct kymo_why_held_up held_up; /* KYMO_WHY_QUEUE */
};

/* An interval of the path, with one cause in one process. */
struct kymo_why_step {
    uint8_t cause;
    uint64_t process, blame;
    int64_t start, end;
    uint32_t mfa;
};

struct kymo_why_answer {
    int64_t ns;                                /* the sum of all parts */
    struct kymo_why_part part[KYMO_WHY_PARTS]; /* largest first */
    size_t n;
    struct kymo_why_step step[KYMO_WHY_STEPS]; /* in order of time; the oldest may be missing */
    size_t n_steps;
    bool cut;      /* facts or parts were dropped because they exceeded the limits */
    bool path_cut; /* the oldest steps were dropped */
};

/* A window also includes this much time before its start, to know which processes were
 * running then. */
#define KYMO_WHY_BEFORE_NS 1000000

struct kymo_why;

/* Returns NULL if there is no memory. */
struct kymo_why *kymo_why_new(const struct kymo_reader *r);
void kymo_why_free(struct kymo_why *w);
/* Adds a window. With windows, only facts that overlap one of them (from start -
 * KYMO_WHY_BEFORE_NS to end) are kept, and all calls that suspend or resume processes.
 * Without windows, all facts are kept. Times as in kymo_event.ns. Call it before the
 * analysis, which must start with the recording, since a process may have been suspended
 * long before. Returns false if there is no memory. */
bool kymo_why_window(struct kymo_why *w, int64_t start, int64_t end);
/* The sink that collects the facts. */
struct kymo_analysis_sink kymo_why_sink(struct kymo_why *w);
/* True if facts were dropped because of KYMO_WHY_FACTS_MAX. Fewer windows need less room. */
bool kymo_why_is_cut(const struct kymo_why *w);
/* Explains what `process` did from start to end, which must be within a window. Returns 0,
 * -ENOMEM, or -EINVAL if end is before start. */
int kymo_why_explain(struct kymo_why *w, uint64_t process, int64_t start, int64_t end,
                     struct kymo_why_answer *out);
/* Explains a cast, from its send until the server has handled it. q->sent and
 * q->handled_end must be known. Returns as kymo_why_explain. */
int kymo_why_explain_cast(struct kymo_why *w, const struct kymo_request *q, struct kymo_why_answer *out);
/* "running", "queue", ..., as in the JSON output. */
const char *kymo_why_cause_name(uint8_t cause);

#endif
