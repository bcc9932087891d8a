/* SPDX-License-Identifier: Apache-2.0
 *
 * Triggers: conditions over the facts of a recording that is being written. One thread.
 *
 * A trigger is a text:
 *   call,FUNCTIONS,TIME      a call of one of these functions took longer than TIME
 *   request,WHAT,TIME        a request waited longer than TIME for its end. WHAT is the
 *                            registered name of the server, the function that it runs, or the
 *                            one that handled the request
 *   mailbox,N                more than N messages were sent to a process that it has not fetched
 *   exit,REASON              a process exited with this reason, if it is abnormal: neither
 *                            normal nor shutdown
 *   collection,TIME          a garbage collection took longer than TIME
 *   schedule,TIME            a process kept a scheduler longer than TIME; not a dirty one
 *   stopped,TIME             the counters of the node were not sampled for longer than TIME, and
 *                            for twice as long as usual: a process of high priority could not run
 *   reported,KIND            the system monitor has reported it: long_gc, busy_port, ...
 * FUNCTIONS and WHAT are as in kymo_name_fits; a part that is _ stands for anything. REASON
 * is an atom, the first element of the reason where that is a tuple, or such a pattern. TIME is 50ms, 1.5s, ...
 *
 * Calls, requests and running processes fire as soon as they exceed their time, without
 * waiting for their end (`open`), and once each. Where the recording has no events of the life
 * of processes they fire at their end: a process may have exited unseen.
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

/* Triggers of one run. */
#define KYMO_TRIGGERS_MAX 64u
/* Calls, requests and runs that have fired and are still open, or that may fire while they
 * are open. Beyond that a call fires at its end only. */
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
    bool open;                /* it was not over yet */
    int64_t value;            /* ns, or messages; words of a large heap */
    int64_t start;            /* CLOCK_MONOTONIC */
    int64_t end;              /* its end, or when it was found to exceed the limit */
    uint64_t process, server; /* idents or KYMO_IDENT_NONE; server: of requests */
    uint32_t mfa;             /* 0 = none or not known */
    uint32_t atom;            /* exit reason, 0 = not an atom */
    const char *reported;     /* kind of the report; NULL: it is none */
};

struct kymo_triggers;

/* "call", ... */
const char *kymo_trigger_name(unsigned kind);

/* NULL: no memory. fired is called from within kymo_triggers_event and kymo_triggers_round. */
struct kymo_triggers *kymo_triggers_new(void (*fired)(void *arg, const struct kymo_firing *f), void *arg);
void kymo_triggers_free(struct kymo_triggers *t);
/* Adds a trigger. 0; -EINVAL with a sentence in err that names what is allowed; -ENOMEM. */
int kymo_triggers_add(struct kymo_triggers *t, const char *text, char *err, size_t err_size);
size_t kymo_triggers_count(const struct kymo_triggers *t);
/* Nothing whose end is before this time fires (CLOCK_MONOTONIC). */
void kymo_triggers_from(struct kymo_triggers *t, int64_t from);
/* For so long after the end of a cause the trigger does not fire again; what would have fired
 * is counted. 0 at first. */
void kymo_triggers_cooldown(struct kymo_triggers *t, int64_t ns);
uint64_t kymo_triggers_suppressed(const struct kymo_triggers *t);

/* Begins with r, or goes on with a later state of the same recording. 0 or a negative errno:
 * -ENOMEM, -EIO. */
int kymo_triggers_reader(struct kymo_triggers *t, struct kymo_reader *r);
/* As kymo_live_event. */
bool kymo_triggers_event(struct kymo_triggers *t, const struct kymo_event *ev, bool is_new);
void kymo_triggers_gap(struct kymo_triggers *t);
/* All events up to `now` were given: looks at what is open. */
bool kymo_triggers_round(struct kymo_triggers *t, int64_t now);
/* The names for what fired; as long as the reader. */
const struct kymo_naming *kymo_triggers_naming(const struct kymo_triggers *t);
/* Calls that could not be watched while they were open, see KYMO_TRIGGERS_OPEN. */
uint64_t kymo_triggers_unwatched(const struct kymo_triggers *t);

#endif
