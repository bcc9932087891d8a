/* SPDX-License-Identifier: Apache-2.0
 *
 * Bounds the number of processes that an analysis or an exporter keeps state for.
 * Single-threaded.
 */
#ifndef KYMO_RESIDENTS_H
#define KYMO_RESIDENTS_H

#include <stdint.h>

/* Processes with state in an analysis or exporter. The exit of a process may not be recorded,
 * so their number is bounded: when the bound is reached, a new process replaces one without
 * recent events. */
#define KYMO_RESIDENTS 32768u

struct kymo_residents {
    uint64_t *ident; /* by place; KYMO_IDENT_NONE = free */
    uint8_t *recent; /* by place: had an event since the clock hand last passed */
    uint32_t n, hand;
};

/* Returns 0 or -ENOMEM; call kymo_residents_free in both cases. */
int kymo_residents_init(struct kymo_residents *r);
void kymo_residents_free(struct kymo_residents *r);
/* Returns the place for a new process. *evicted: the process that had this place, whose state the
 * caller must drop, or KYMO_IDENT_NONE. */
uint32_t kymo_residents_add(struct kymo_residents *r, uint64_t ident, uint64_t *evicted);
static inline void kymo_residents_heard(struct kymo_residents *r, uint32_t place)
{
    r->recent[place] = 1;
}
/* The process has exited: its place is free. */
void kymo_residents_remove(struct kymo_residents *r, uint32_t place);

#endif
