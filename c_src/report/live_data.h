/* SPDX-License-Identifier: Apache-2.0
 *
 * The newest report of a recording that is being written, made by a thread of its own while
 * somebody wants it. The functions are for one other thread.
 *
 * A report covers the newest `wanted` ns. The thread uses at most half of a processor: it
 * rests as long as it has worked. When a report takes longer than two intervals the next one
 * covers half as much, down to 100 ms.
 */
#ifndef KYMO_REPORT_LIVE_DATA_H
#define KYMO_REPORT_LIVE_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct live_data;

/* One report, as JSON. Never changes. */
struct live_report {
    unsigned users; /* of the functions below */
    uint64_t number;
    int64_t made; /* CLOCK_MONOTONIC, ns */
    bool over;    /* there will be no newer one */
    char *json;
    size_t n;
};

/* Begins; `wake` is a file descriptor of an eventfd that is written to for each new report.
 * 0 or an exit status after a message. */
int live_data_start(struct live_data **out, const char *dir, int64_t interval, int64_t wanted, int wake);
/* The newest report, or NULL when there is none yet; to be released. */
struct live_report *live_data_get(struct live_data *d);
void live_data_release(struct live_data *d, struct live_report *r);
/* Somebody wants reports: they are made for the next few seconds. */
void live_data_want(struct live_data *d);
/* Ends the thread and frees all; waits for the report that is being made. */
void live_data_stop(struct live_data *d);

#endif
