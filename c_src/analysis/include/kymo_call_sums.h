/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums over call spans: the cost of all calls of one function or module. Single-threaded.
 */
#ifndef KYMO_CALL_SUMS_H
#define KYMO_CALL_SUMS_H

#include "kymo_analysis.h"
#include "kymo_histogram.h"

/* Times are sums of the known times, in nanoseconds; the counts are the numbers of calls that
 * they include. total, running and gc exclude calls inside calls of the same function, whose
 * times include them already. */
struct kymo_call_sums {
    uint64_t calls, ended; /* ended: calls whose duration is known */
    uint64_t exceptions;
    int64_t total, self, running, self_running, gc, max;
    uint64_t with_running; /* calls whose time scheduled in is known */
    int64_t max_at;        /* when the longest began */
    uint64_t max_process;
    struct kymo_histogram times;
};

/* *s is all zero bytes before the first call. Returns false if there is no memory: the duration is
 * then missing from `times`. */
bool kymo_call_sums_add(struct kymo_call_sums *s, const struct kymo_span *span);
void kymo_call_sums_free(struct kymo_call_sums *s);

#endif
