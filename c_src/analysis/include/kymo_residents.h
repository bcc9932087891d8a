/* SPDX-License-Identifier: Apache-2.0
 *
 * Bounds the number of processes that an analysis or an exporter keeps state for.
 * Single threaded.
 */
#ifndef KYMO_RESIDENTS_H
#define KYMO_RESIDENTS_H

#include <stdint.h>

/* Processes with state in an analysis or exporter. Not every process that was seen says when it is
 * gone, so there is a bound: who comes in when it is reached takes the place of one
 * that nothing was heard of lately. */
#define KYMO_RESIDENTS 32768u

struct kymo_residents {
    uint64_t *ident; /* by place; KYMO_IDENT_NONE = free */
    uint8_t *recent; /* by place: heard of since the hand was there last */
    uint32_t n, hand;
};

/* 0 or -ENOMEM; free in both cases. */
int kymo_residents_init(struct kymo_residents *r);
void kymo_residents_free(struct kymo_residents *r);
/* The place for a newcomer. *evicted: who had it and must go, or
 * KYMO_IDENT_NONE. */
uint32_t kymo_residents_add(struct kymo_residents *r, uint64_t ident, uint64_t *evicted);
static inline void kymo_residents_heard(struct kymo_residents *r, uint32_t place)
{
    r->recent[place] = 1;
}
/* It is gone by itself. */
void kymo_residents_remove(struct kymo_residents *r, uint32_t place);

#endif
