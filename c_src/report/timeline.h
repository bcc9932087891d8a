/* SPDX-License-Identifier: Apache-2.0
 *
 * The timeline: lanes of processes and threads, and the longest calls, runs, requests,
 * messages and collections. Single-threaded.
 */
#ifndef KYMO_REPORT_TIMELINE_H
#define KYMO_REPORT_TIMELINE_H

#include "lanes.h"
#include "largest.h"

enum report_row { ROW_CALLS, ROW_RUNS, ROW_REQUESTS, ROW_MESSAGES, ROW_COLLECTIONS, ROWS };

struct report_timeline {
    struct cli_analysis *a;
    struct report_lanes lanes;
    struct report_largest rows[ROWS];
};

/* first, last: times of the recording (CLOCK_MONOTONIC). Returns 0 or an exit status; call
 * report_timeline_free in both cases. */
int report_timeline_init(struct report_timeline *t, struct cli_analysis *a, int64_t first, int64_t last);
void report_timeline_free(struct report_timeline *t);
struct kymo_analysis_sink report_timeline_sink(struct report_timeline *t);
/* JSON: an object with the lanes, and the columns of each kind of row. Times are ns since the start of
 * the recording, but `start` is relative to the start of the previous row. Returns 0 or an exit
 * status. */
int report_timeline_json(struct report_timeline *t, const char *key, struct report_names *names);

#endif
