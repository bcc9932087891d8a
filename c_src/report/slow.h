/* SPDX-License-Identifier: Apache-2.0
 *
 * The slowest of the calls that the runtime has reported as slow. Fixed memory. Single-threaded.
 */
#ifndef KYMO_REPORT_SLOW_H
#define KYMO_REPORT_SLOW_H

#include "analyse.h"
#include "largest.h"

struct report_slow {
    const struct cli_analysis *a;
    struct report_heap slowest;
    uint64_t seen;
};

/* Keeps the `most` slowest. Returns 0 or an exit status; call report_slow_free in both cases. */
int report_slow_init(struct report_slow *x, const struct cli_analysis *a, uint32_t most);
void report_slow_free(struct report_slow *x);
struct kymo_analysis_sink report_slow_sink(struct report_slow *x);
/* JSON: an object { rows, rows_in_all }, the slowest first. Nothing if there are no slow calls. */
void report_slow_json(struct report_slow *x, const char *key);

#endif
