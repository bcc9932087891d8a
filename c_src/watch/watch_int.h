/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the files of this folder. parse.c parses triggers; triggers.c compares facts with
 * them; open.c has the calls that may fire before they end.
 */
#ifndef KYMO_WATCH_INT_H
#define KYMO_WATCH_INT_H

#include "kymo_map.h"
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

#endif
