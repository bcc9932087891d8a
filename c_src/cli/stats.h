/* SPDX-License-Identifier: Apache-2.0
 *
 * The cost of functions, modules, processes and roles, for kymo stats and kymo diff. One thread.
 */
#ifndef KYMO_CLI_STATS_H
#define KYMO_CLI_STATS_H

#include "analyse.h"
#include "kymo_call_sums.h"

enum cli_stats_column {
    CLI_SELF,
    CLI_TOTAL,
    CLI_RUNNING,
    CLI_CALLS,
    CLI_MAX,
    CLI_P50,
    CLI_P99,
    CLI_GC,
    CLI_WAITING,
    CLI_SENT,
    CLI_RECEIVED,
    CLI_COLUMNS
};
enum cli_stats_by { CLI_BY_FUNCTION, CLI_BY_MODULE, CLI_BY_PROCESS, CLI_BY_ROLE };

/* One row of the table. For processes, sums.calls counts the calls that they made, sums.running
 * and sums.max are about their runs, and sums.times has the lengths of their waits. */
struct cli_stats_row {
    uint64_t key;
    uint64_t ident; /* the process, or any process of the role */
    struct kymo_call_sums sums;
    /* Of processes. */
    uint64_t processes, runs, collections, sent, received;
    int64_t waiting, gc_max;
};

struct cli_stats {
    struct cli_analysis *a;
    enum cli_stats_by by;
    struct kymo_map rows; /* key -> struct cli_stats_row */
    uint64_t others;      /* facts of rows beyond the maximum */
    bool failed;
};

void cli_stats_init(struct cli_stats *s, struct cli_analysis *a, enum cli_stats_by by);
void cli_stats_free(struct cli_stats *s);
struct kymo_analysis_sink cli_stats_sink(struct cli_stats *s);
/* The name of a row, as it is shown. */
void cli_stats_name(const struct cli_stats *s, const struct cli_stats_row *row, char *buf, size_t size);
/* Prints the table, sorted by the column in descending order (cmd_stats.c): as text or, with
 * a->json, as one JSON object without a newline. Returns an exit status. */
int cli_stats_show(const struct cli_stats *s, enum cli_stats_column order);

#endif
