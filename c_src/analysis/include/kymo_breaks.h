/* SPDX-License-Identifier: Apache-2.0
 *
 * The times at which a budget began or ceased to shed events. A call, message or run that was
 * open at such a time may have ended without an event, so later events must not be matched
 * with it.
 */
#ifndef KYMO_BREAKS_H
#define KYMO_BREAKS_H

#include "kymo_reader.h"

/* The kind of the events. */
enum {
    KYMO_BREAK_MESSAGES = 1,
    KYMO_BREAK_RUNNING = 2,
    KYMO_BREAK_CALLS = 4,    /* calls, their ends, and collections */
    KYMO_BREAK_FUNCTIONS = 8 /* calls of single functions */
};

struct kymo_break {
    int64_t ns;
    unsigned kinds; /* set of KYMO_BREAK_*: all changes at this time */
};

struct kymo_breaks {
    struct kymo_break *list; /* in order of time */
    size_t n, next;
};

/* Reads the breaks later than `after`. *b must be all zero bytes, or the result of an earlier call
 * for a recording that is being written and has got more breaks since. Returns 0 or -ENOMEM. */
int kymo_breaks_read(struct kymo_breaks *b, const struct kymo_reader *r, int64_t after);
void kymo_breaks_free(struct kymo_breaks *b);
unsigned kymo_breaks_take(struct kymo_breaks *b, int64_t ns);

/* The kinds of the breaks between the previous event and the one at `ns`. Times must not decrease
 * from call to call. */
static inline unsigned kymo_breaks_passed(struct kymo_breaks *b, int64_t ns)
{
    return b->next < b->n && ns >= b->list[b->next].ns ? kymo_breaks_take(b, ns) : 0;
}

#endif
