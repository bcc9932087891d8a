/* SPDX-License-Identifier: Apache-2.0
 *
 * The node's counters and the reports of its system monitor in one window of `kymo top`, from
 * the records that the recorder makes of them, whatever is traced. One thread.
 */
#ifndef KYMO_CLI_NODE_NOW_H
#define KYMO_CLI_NODE_NOW_H

#include <stdio.h>

#include "analyse.h"
#include "counters.h"

/* Maximum number of schedulers of a node, each of which is shown. */
#define CLI_NODE_SCHEDULERS 1024u

struct cli_node_now {
    struct cli_counters window; /* since cli_node_now_next, over all schedulers */
    /* Private. */
    const struct kymo_reader *r;
    struct cli_counter newest[KYMO_N_COUNT];               /* of the newest window that had a sample */
    struct cli_counter scheduler[CLI_NODE_SCHEDULERS + 1]; /* utilization by number, this window */
    uint32_t last_scheduler;                               /* the highest number so far */
    uint64_t busiest[KYMO_N_COUNT];                        /* newest process of rank 1; 0 = none so far */
    struct {
        uint64_t n; /* since the beginning */
        int64_t ns; /* of the newest one, CLOCK_MONOTONIC */
        uint64_t value, who;
    } reported[KYMO_M_COUNT];
};

/* *n is all zero bytes before the first call. r is the reader of the events that follow; to be
 * called again with each later reader of the recording. */
void cli_node_now_read(struct cli_node_now *n, const struct kymo_reader *r);
void cli_node_now_free(struct cli_node_now *n);
struct kymo_analysis_sink cli_node_now_sink(struct cli_node_now *n);
/* The next window begins. */
void cli_node_now_next(struct cli_node_now *n);

/* The number of lines that cli_node_now_text prints. */
size_t cli_node_now_lines(const struct cli_node_now *n);
/* Prints run queues, processes, rates and memory as text, then the reports of the system monitor
 * since the beginning. Prints nothing if the recording has neither. end: of the window. */
void cli_node_now_text(FILE *f, const struct cli_node_now *n, const struct kymo_naming *names, int64_t end);
/* Prints the means over the window as "  s1 98 %  s2 35 % ...", without the end of the line. If
 * they are unknown, prints nothing and returns false. */
bool cli_node_now_schedulers(FILE *f, const struct cli_node_now *n);
/* The members "counters" and "system_monitor" as in kymo info, of this window only, and
 * "schedulers". */
void cli_node_now_json(const struct cli_node_now *n);

#endif
