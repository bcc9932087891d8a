/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the files of this folder. parse.c parses triggers; triggers.c reads the events and
 * compares facts with the triggers, calls.c those of calls, mailboxes.c those of mailboxes, node.c what the node reports of itself;
 * open.c has the calls that may fire before they end. One thread.
 */
#ifndef KYMO_WATCH_INT_H
#define KYMO_WATCH_INT_H

#include "kymo_map.h"
#include "kymo_names.h"
#include "kymo_triggers.h"

/* Fills in a zeroed trigger. Returns 0, -EINVAL with a message in err, or -ENOMEM. In all cases
 * call kymo_trigger_free. */
int kymo_trigger_parse(struct kymo_trigger *g, const char *text, char *err, size_t err_size);
void kymo_trigger_free(struct kymo_trigger *g);

/* ---- open.c ---- */

/* The open calls of one trigger in the order of their start. They all have the same limit, so the
 * first one is the next to exceed it. */
struct kymo_waiting {
    uint64_t id; /* of the span */
    int64_t start;
    uint64_t process;
    uint32_t mfa;
};
struct kymo_opens {
    struct kymo_map ids;        /* id -> nothing: open and not fired */
    struct kymo_waiting *queue; /* a ring of `room`, a power of two */
    uint32_t room, first, n;
    uint64_t left_out;
};
void kymo_opens_init(struct kymo_opens *o);
void kymo_opens_free(struct kymo_opens *o);
/* False: no memory. */
bool kymo_opens_add(struct kymo_opens *o, const struct kymo_waiting *w);
/* Removes a call that has ended. Returns true if it was in the list and has not fired. */
bool kymo_opens_end(struct kymo_opens *o, uint64_t id);
/* Removes the next call that began before this time and is still open. Returns false if there is
 * none. */
bool kymo_opens_next(struct kymo_opens *o, int64_t before, struct kymo_waiting *w);
/* Keeps a call that kymo_opens_next has returned until it ends. Returns false if out of memory. */
bool kymo_opens_keep(struct kymo_opens *o, uint64_t id);

/* ---- triggers.c ---- */

/* Flags of a function, by canonical id. */
enum { KYMO_TRIG_MATCHED = 1, KYMO_TRIG_ENDS = 2, KYMO_TRIG_EXPECTED = 4 };

/* A run that has fired and has not ended. */
struct kymo_fired_run {
    int64_t start;
    uint64_t by; /* triggers, a bit each */
};

/* A call that has fired because the runtime reported it as slow, and whose end may be recorded
 * too. */
struct kymo_reported_call {
    int64_t at;  /* when it was reported */
    uint64_t by; /* triggers, a bit each */
    uint32_t mfa;
};

struct kymo_triggers {
    void (*fired)(void *arg, const struct kymo_firing *f);
    void *arg;
    struct kymo_trigger g[KYMO_TRIGGERS_MAX];
    struct kymo_opens opens[KYMO_TRIGGERS_MAX]; /* of calls */
    uint32_t n;
    int64_t from, cooldown;
    int64_t quiet_until[KYMO_TRIGGERS_MAX];
    uint64_t suppressed;
    struct kymo_live *live;
    struct kymo_naming *naming;
    struct kymo_analysis_sink sink;
    const struct kymo_reader *r;
    uint64_t *chosen; /* by canonical id: triggers whose pattern it fits, a bit each */
    uint8_t *known;   /* by canonical id: chosen is known, its ends are recorded, its calls are spans */
    bool return_to;   /* there are return_to events */
    uint32_t n_ids;
    struct kymo_map fired_requests; /* id -> triggers that have fired and it is open, a bit each */
    struct kymo_map fired_runs;     /* process -> struct kymo_fired_run */
    /* process -> triggers whose number its mailbox exceeds, a bit each: by its unfetched messages, and by
     * the counters. */
    struct kymo_map unfetched, longest;
    struct kymo_map reported; /* process -> struct kymo_reported_call, the last one */
    int64_t sampled;          /* the newest sample of the counters; KYMO_NO_TIME: none since a gap */
    int64_t usual;            /* time between two samples; 0: not known */
    int64_t now;
    int64_t sure_from; /* events before it are missing: what was open may have ended unseen */
    bool gap;          /* events just before the next one are missing */
    bool exits;        /* events of the life of processes are recorded, including exits */
    bool paused;       /* the recorder is paused: what is open may end unseen */
    bool failed;
};

static inline bool kymo_trigger_is(const struct kymo_triggers *t, uint32_t i, unsigned kind)
{
    return t->g[i].kind == kind;
}
/* The triggers of calls and requests that name this function, a bit each. */
uint64_t kymo_triggers_of(struct kymo_triggers *t, uint32_t mfa);
/* Reports a firing of trigger i, unless it is in its cool-down. */
void kymo_trigger_fire(struct kymo_triggers *t, uint32_t i, const struct kymo_firing *f);

/* ---- calls.c ---- */

void kymo_trigger_fire_call(struct kymo_triggers *t, uint32_t i, uint64_t process, uint32_t mfa,
                            int64_t start, int64_t end, bool open);
/* Makes the analysis expect the end of calls that a trigger names, including the first call of a
 * function. For each call, before the analysis gets it. */
void kymo_triggers_expect(struct kymo_triggers *t, uint32_t id);
/* Notes that the ends of this function's calls are recorded. */
void kymo_triggers_has_end(struct kymo_triggers *t, uint32_t id);
/* For the analysis: a call has begun, has ended. `arg` is a struct kymo_triggers. */
void kymo_triggers_call(void *arg, const struct kymo_span *s);
void kymo_triggers_call_end(void *arg, const struct kymo_span *s);
/* For a call that the runtime has reported as slow. */
void kymo_triggers_slow(struct kymo_triggers *t, const struct kymo_event *ev);
/* Fires for calls that exceed the limit of trigger i and are open. */
void kymo_triggers_open_calls(struct kymo_triggers *t, uint32_t i);

/* ---- mailboxes.c ---- */

/* For a message that was sent, and a sample of the counters. */
void kymo_triggers_sent(struct kymo_triggers *t, const struct kymo_event *ev);
void kymo_triggers_lengths(struct kymo_triggers *t, const struct kymo_event *ev);

/* ---- node.c ---- */

/* For a sample of the counters, and a report of the system monitor. */
void kymo_triggers_sample(struct kymo_triggers *t, const struct kymo_event *ev);
void kymo_triggers_report(struct kymo_triggers *t, const struct kymo_event *ev);

#endif
