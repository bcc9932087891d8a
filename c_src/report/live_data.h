/* SPDX-License-Identifier: Apache-2.0
 *
 * The newest report of a recording that is being written. A thread of its own makes it while
 * there are requests for it. The functions are for one other thread.
 *
 * A report covers the newest `wanted` ns. The thread uses at most half of a processor: after
 * each report it pauses for as long as the report took. If a report takes longer than two
 * intervals, the next one covers half as much time, down to 100 ms.
 */
#ifndef KYMO_REPORT_LIVE_DATA_H
#define KYMO_REPORT_LIVE_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct live_data;

/* One report, as JSON. Immutable, except for `users`. */
struct live_report {
    unsigned users; /* references, counted by the functions below */
    uint64_t number;
    int64_t made; /* CLOCK_MONOTONIC, ns */
    bool over;    /* no newer one will follow */
    char *json;
    size_t n;
};

/* Starts the thread. `wake` is an eventfd, which is written to after each new report. Returns 0, or an
 * exit status after a message. */
int live_data_start(struct live_data **out, const char *dir, int64_t interval, int64_t wanted, int wake);
/* Returns the newest report, which must be released with live_data_release, or NULL if there is none
 * yet. */
struct live_report *live_data_get(struct live_data *d);
void live_data_release(struct live_data *d, struct live_report *r);
/* Requests reports: they are made for the next few seconds. */
void live_data_want(struct live_data *d);
/* Ends the thread, after waiting for the report that is being made, and frees everything. */
void live_data_stop(struct live_data *d);

#endif
