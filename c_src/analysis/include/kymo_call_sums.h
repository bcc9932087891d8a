/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums over call spans: what the calls of one function, or of one module, cost. One
 * thread.
 */
#ifndef KYMO_CALL_SUMS_H
#define KYMO_CALL_SUMS_H

#include "kymo_analysis.h"
#include "kymo_histogram.h"

/* Times are sums in nanoseconds of what is known; the counts beside them say of how
 * many calls. total, running and gc leave out calls inside calls of the same function,
 * which are in them already. */
struct kymo_call_sums {
    uint64_t calls, ended; /* ended: calls whose duration is known */
    uint64_t exceptions;
    int64_t total, self, running, self_running, gc, max;
    uint64_t with_running; /* calls whose time scheduled in is known */
    int64_t max_at;        /* when the longest began */
    uint64_t max_process;
    struct kymo_histogram times;
};

/* All zero bytes are no calls. False: no memory, the duration is not in `times`. */
bool kymo_call_sums_add(struct kymo_call_sums *s, const struct kymo_span *span);
void kymo_call_sums_free(struct kymo_call_sums *s);

#endif
