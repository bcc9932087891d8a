/* SPDX-License-Identifier: Apache-2.0
 *
 * Triggers: conditions over the facts of a recording that is being written. One thread.
 *
 * A trigger is a text:
 *   call,FUNCTIONS,TIME      a call of one of these functions took longer than TIME
 *   request,WHAT,TIME        a request waited longer than TIME for its end. WHAT is the
 *                            registered name of the server, the function that it runs, or the
 *                            one that handled the request
 *   mailbox,N                more than N messages to a process have not been fetched by it, or its
 *                            mailbox was longer in a sample of the counters
 *   exit,REASON              a process exited with this reason, other than normal or shutdown
 *   collection,TIME          a garbage collection took longer than TIME
 *   schedule,TIME            a process kept a scheduler longer than TIME; not a dirty one
 *   stopped,TIME             the counters of the node were not sampled for longer than TIME, and
 *                            for twice the usual interval: a process of high priority could not run
 *   reported,KIND            the system monitor reported long_gc, busy_port, ...
 * FUNCTIONS, WHAT, REASON and KIND are patterns of kymo_name_fits, in which the part _ matches
 * anything. If an exit reason is a tuple, its first element is compared. TIME is 50ms, 1.5s, ...
 *
 * Calls, requests and running processes fire once each, as soon as they exceed their time, even
 * if they have not ended (`open`). If the recording has no procs events, they fire only when
 * they end, because the process may have exited unseen.
 */
#ifndef KYMO_TRIGGERS_H
#define KYMO_TRIGGERS_H

#include "kymo_live.h"
#include "kymo_naming.h"

enum kymo_trigger_kind {
    KYMO_TRIG_CALL = 0,
    KYMO_TRIG_REQUEST = 1,
    KYMO_TRIG_MAILBOX = 2,
    KYMO_TRIG_EXIT = 3,
    KYMO_TRIG_COLLECTION = 4,
    KYMO_TRIG_SCHEDULE = 5,
    KYMO_TRIG_STOPPED = 6,
    KYMO_TRIG_REPORTED = 7,
    KYMO_TRIG_KINDS = 8
};

/* Maximum number of triggers. */
#define KYMO_TRIGGERS_MAX 64u
/* Maximum number of calls, requests and runs that are open, whether they have fired or not.
 * Beyond that, a call fires only when it ends. */
#define KYMO_TRIGGERS_OPEN 262144u

struct kymo_trigger {
    char *text;    /* as given */
    char *pattern; /* as kymo_name_fits takes it; NULL: anything */
    int64_t limit; /* ns, or messages; of an exit and a report 0 */
    uint8_t kind;  /* enum kymo_trigger_kind */
};

/* Why a trigger fired. The cause is what happened from start to end. */
struct kymo_firing {
    const struct kymo_trigger *trigger;
    uint32_t number;          /* of the trigger, from 0 */
    bool open;                /* it had not ended yet */
    int64_t value;            /* ns, or messages; words of a large heap */
    int64_t start;            /* CLOCK_MONOTONIC */
    int64_t end;              /* its end, or when it was found to exceed the limit */
    uint64_t process, server; /* idents or KYMO_IDENT_NONE; server: of requests */
    uint32_t mfa;             /* 0 = none or not known */
    uint32_t atom;            /* exit reason, 0 = not an atom */
    const char *reported;     /* kind of the report; NULL: not a report */
};

struct kymo_triggers;

/* "call", ... */
const char *kymo_trigger_name(unsigned kind);

/* Returns NULL if there is no memory. `fired` is called from within kymo_triggers_event and
 * kymo_triggers_round. */
struct kymo_triggers *kymo_triggers_new(void (*fired)(void *arg, const struct kymo_firing *f), void *arg);
void kymo_triggers_free(struct kymo_triggers *t);
/* Adds a trigger. Returns 0, -EINVAL with a message in err that names what is allowed, or
 * -ENOMEM. */
int kymo_triggers_add(struct kymo_triggers *t, const char *text, char *err, size_t err_size);
size_t kymo_triggers_count(const struct kymo_triggers *t);
/* Causes that end before this time (CLOCK_MONOTONIC) do not fire. */
void kymo_triggers_from(struct kymo_triggers *t, int64_t from);
/* A trigger does not fire again for this time after the end of a cause; firings that this
 * suppresses are counted. Initially 0. */
void kymo_triggers_cooldown(struct kymo_triggers *t, int64_t ns);
uint64_t kymo_triggers_suppressed(const struct kymo_triggers *t);

/* Begins with r, or continues with a later state of the same recording. Returns 0, -ENOMEM or
 * -EIO. */
int kymo_triggers_reader(struct kymo_triggers *t, struct kymo_reader *r);
/* As kymo_live_event. */
bool kymo_triggers_event(struct kymo_triggers *t, const struct kymo_event *ev, bool is_new);
void kymo_triggers_gap(struct kymo_triggers *t);
/* To be called when all events up to `now` have been passed: fires for calls, requests and runs
 * that are still open. */
bool kymo_triggers_round(struct kymo_triggers *t, int64_t now);
/* The names for firings; valid as long as the reader. */
const struct kymo_naming *kymo_triggers_naming(const struct kymo_triggers *t);
/* The number of calls that exceeded KYMO_TRIGGERS_OPEN. */
uint64_t kymo_triggers_unwatched(const struct kymo_triggers *t);

#endif
