/* SPDX-License-Identifier: Apache-2.0
 *
 * Values of the node's counters, from the records `counters`. Counters that only increase from the
 * start of the node on (sums) also get a rate: the increase per second since the previous sample.
 * Single-threaded.
 */
#ifndef KYMO_GAUGES_H
#define KYMO_GAUGES_H

#include "kymo_map.h"
#include "kymo_reader.h"

/* One value at one time. */
struct kymo_gauge {
    int64_t ns;
    uint32_t slot;    /* thread that recorded it; identifies the node */
    uint16_t counter; /* enum kymo_counter */
    uint16_t index;   /* number of the scheduler, or rank of the process; 0 = the whole node */
    uint64_t value;
    uint64_t process;  /* ident; KYMO_IDENT_NONE if the value is not that of a process */
    bool has_rate;     /* it is a sum with an earlier sample */
    uint64_t rate;     /* increase per second, rounded */
    uint64_t increase; /* since that sample */
};

/* The newest values. All zero bytes initially. */
struct kymo_gauges {
    struct kymo_map last;
    bool ready;
};

void kymo_gauges_free(struct kymo_gauges *g);
/* Stores value i of a record `counters` in *out. Records must be passed in the order of the reader.
 * Returns false if this version does not know the counter, if the value only names the process of
 * the next one, or if there is no memory; the value is then skipped. */
bool kymo_gauges_next(struct kymo_gauges *g, const struct kymo_reader *r, const struct kymo_event *ev,
                      uint32_t i, struct kymo_gauge *out);

/* The number to show in a chart or table: the rate of a sum, otherwise the value. Returns false for
 * a sum whose rate is unknown. */
static inline bool kymo_gauge_level(const struct kymo_gauge *g, uint64_t *level)
{
    bool sum = kymo_counter_is_sum(g->counter);
    *level = sum ? g->rate : g->value;
    return !sum || g->has_rate;
}

#endif
