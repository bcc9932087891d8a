/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of this folder share. parse.c: the text of a trigger; triggers.c: the facts
 * against them; open.c: calls that may fire before they end.
 */
#ifndef KYMO_WATCH_INT_H
#define KYMO_WATCH_INT_H

#include "kymo_map.h"
#include "kymo_triggers.h"

/* Fills in a trigger, which is zero. 0, -EINVAL with a sentence in err, -ENOMEM. Freed by
 * kymo_trigger_free, whatever it returns. */
int kymo_trigger_parse(struct kymo_trigger *g, const char *text, char *err, size_t err_size);
void kymo_trigger_free(struct kymo_trigger *g);

/* ---- open.c ---- */

/* Calls that one trigger is waiting for, in the order of their beginning: as all have the
 * same time, the first is the next to exceed it. */
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
/* It has ended. True when it was waited for, and has not fired. */
bool kymo_opens_end(struct kymo_opens *o, uint64_t id);
/* The next one that began before this time and is still open; it is taken out. False: none. */
bool kymo_opens_next(struct kymo_opens *o, int64_t before, struct kymo_waiting *w);
/* What kymo_opens_next has given is to be waited for until it ends. False: no memory. */
bool kymo_opens_keep(struct kymo_opens *o, uint64_t id);

#endif
