/* SPDX-License-Identifier: Apache-2.0
 *
 * Facts of a window by process, for kymo_why_explain. why_facts.c collects and finds
 * them, why_path.c walks the path, why_parts.c sums it up. Each calls those before it.
 */
#ifndef KYMO_WHY_INT_H
#define KYMO_WHY_INT_H

#include "kymo_map.h"
#include "kymo_why.h"

#define KYMO_WHY_LIST(type) \
    struct { \
        type *p; \
        size_t n, room; \
    }

/* The facts of one process, or of one thread: indexes. */
struct kymo_why_range {
    size_t first, end;
};

/* A stretch of the path, in any order until it is complete. */
struct kymo_why_stretch {
    uint8_t cause;
    uint64_t process, blame;
    uint64_t queue; /* of held_up: in whose mailbox a request waited meanwhile */
    int64_t start, end, blame_ns;
    uint32_t mfa;
    uint32_t requests;
};

struct kymo_why_path {
    struct kymo_why_stretch *p;
    size_t n, room;
};

/* What is needed of a struct kymo_run. */
struct kymo_why_run {
    uint64_t process;
    uint32_t slot;
    uint32_t in_mfa, out_mfa;
    int64_t start, end;
    int64_t acted; /* its first call, return or send in this run; KYMO_NO_TIME = none */
};

/* What is needed of a struct kymo_span. */
struct kymo_why_span {
    uint64_t process, id;
    int64_t start, end;
    uint32_t mfa;
};

struct kymo_why_window {
    int64_t start, end;
};

struct kymo_why {
    const struct kymo_reader *r;
    KYMO_WHY_LIST(struct kymo_why_window) windows;     /* of the facts: by start, disjoint */
    KYMO_WHY_LIST(struct kymo_why_run) runs;           /* by process and start */
    KYMO_WHY_LIST(struct kymo_why_run) slots;          /* the same by thread and start */
    KYMO_WHY_LIST(struct kymo_collection) collections; /* by process and start */
    KYMO_WHY_LIST(struct kymo_why_span) spans;         /* by process and id */
    KYMO_WHY_LIST(struct kymo_mail) mails;             /* by receiver and time of fetching */
    KYMO_WHY_LIST(struct kymo_mail) to_ports;          /* by sender and time of sending */
    KYMO_WHY_LIST(struct kymo_request) asked;          /* by client and time of sending */
    KYMO_WHY_LIST(struct kymo_request) handled;        /* by server and time of handling */
    struct kymo_why_path path;
    struct kymo_why_path held_up; /* beside the stretches of the path that are KYMO_WHY_QUEUE */
    uint64_t queue;               /* held_up is being filled, for this server; or NONE */
    struct kymo_map replies;      /* id of a reply's message -> index + 1 in asked */
    struct kymo_map suspends;     /* function -> uint8_t: 1 no, 2 suspends, 3 resumes */
    KYMO_WHY_LIST(struct kymo_why_span) suspensions; /* calls of these, by start */
    struct kymo_map acted;                           /* process -> int64_t: see kymo_why_run */
    struct kymo_map endless;                         /* processes whose last run has no end */
    bool sorted, failed;
    bool facts_cut, path_cut; /* no room for all facts, for all of this path */
    uint32_t n_slots;
    const struct kymo_slot *slot;
};

/* Brings the facts in order, once. False: no memory. */
bool kymo_why_sort(struct kymo_why *w);
struct kymo_why_range kymo_why_runs(const struct kymo_why *w, uint64_t process);
struct kymo_why_range kymo_why_slot(const struct kymo_why *w, uint32_t slot);
struct kymo_why_range kymo_why_collections(const struct kymo_why *w, uint64_t process);
struct kymo_why_range kymo_why_spans(const struct kymo_why *w, uint64_t process);
struct kymo_why_range kymo_why_mails(const struct kymo_why *w, uint64_t to);
struct kymo_why_range kymo_why_to_ports(const struct kymo_why *w, uint64_t from);
struct kymo_why_range kymo_why_asked(const struct kymo_why *w, uint64_t client);
struct kymo_why_range kymo_why_handled(const struct kymo_why *w, uint64_t server);
/* Whether the module of a function is called so. */
bool kymo_why_in_module(const struct kymo_why *w, uint32_t mfa, const char *module);

/* Who ran longest on the threads of the kind and the node of `slot` from start to end (but not
 * `not_this`): *who, *ns; returns the largest part of that time that one thread was
 * busy, 0 to 1. */
double kymo_why_busy(const struct kymo_why *w, uint32_t slot, int64_t start, int64_t end, uint64_t not_this,
                     uint64_t *who, int64_t *ns);
/* All running time of all threads of the node of `slot` from start to end. */
int64_t kymo_why_all_running(const struct kymo_why *w, uint32_t slot, int64_t start, int64_t end);

/* Fills w->path with what process did from start to end. */
void kymo_why_walk(struct kymo_why *w, uint64_t process, int64_t start, int64_t end);
/* The same for what became of a cast, until it was handled. */
void kymo_why_walk_cast(struct kymo_why *w, const struct kymo_request *q);

#endif
