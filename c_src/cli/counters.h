/* SPDX-License-Identifier: Apache-2.0
 *
 * The node's counters in `kymo info`.
 */
#ifndef KYMO_CLI_COUNTERS_H
#define KYMO_CLI_COUNTERS_H

#include "kymo_gauges.h"

/* The nearest integer; UINT64_MAX if v is too large, 0 if it is negative. A mean of values near
 * 2^64 is 2^64 as a double. */
static inline uint64_t cli_rounded(double v)
{
    if (!(v < 0x1p64))
        return UINT64_MAX;
    return v > 0 ? (uint64_t)(v + 0.5) : 0;
}

/* Statistics of one counter. */
struct cli_counter {
    uint64_t n; /* number of values; for counters that count up, of rates */
    uint64_t least, most, last;
    double sum;
    uint64_t who; /* ident of the process with the highest, if they are those of processes */
};

/* Statistics of a recording. Initialised with zero bytes. */
struct cli_counters {
    struct kymo_gauges gauges;
    struct cli_counter of[KYMO_N_COUNT]; /* by enum kymo_counter */
    uint64_t monitored[KYMO_M_COUNT];    /* by enum kymo_monitor */
};
void cli_counters_free(struct cli_counters *c);
/* Adds an event. Call it for events from the horizon on; ignores all but `counters` and
 * `system_monitor`. */
void cli_counters_add(struct cli_counters *c, const struct kymo_reader *r, const struct kymo_event *ev);
/* Prints tables as text; nothing if there are no counters. Names processes from r. */
void cli_counters_text(const struct cli_counters *c, const struct kymo_reader *r);
/* The kind of a report of the system monitor (enum kymo_monitor), for people. */
const char *cli_report_text(unsigned kind);
/* The members "counters" and "system_monitor". */
void cli_counters_json(const struct cli_counters *c);

#endif
