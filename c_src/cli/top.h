/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints one window of a recording as tables or JSON, for `kymo top`. One thread.
 */
#ifndef KYMO_CLI_TOP_H
#define KYMO_CLI_TOP_H

#include <stdio.h>

#include "live.h"

/* Each table is sorted by one of its columns. */
enum cli_top_column {
    CLI_TOP_CALLS,
    CLI_TOP_SELF,
    CLI_TOP_P99,
    CLI_TOP_MAX,
    CLI_TOP_FUNCTION_COLUMNS,
    CLI_TOP_RUNNING = CLI_TOP_FUNCTION_COLUMNS,
    CLI_TOP_IN,
    CLI_TOP_OUT,
    CLI_TOP_WAITING,
    CLI_TOP_COLUMNS
};

struct cli_top_order {
    enum cli_top_column functions, processes;
};

/* Sorts by the column with this name. Returns false if there is none. */
bool cli_top_sort_by(struct cli_top_order *o, const char *name);
const char *cli_top_column_name(enum cli_top_column c);
/* "calls", "self", ...: all names, for messages. */
const char *cli_top_column_names(void);

struct cli_top_size {
    size_t functions, processes; /* rows at most */
    bool marks;                  /* for a screen: headings begin with \001 (terminal.h), times have no date */
};

/* Writes a summary and the tables as text. Returns false if out of memory. */
bool cli_top_text(FILE *f, const struct cli_live *l, const struct cli_top_order *o,
                  const struct cli_top_size *s);
/* Writes one line of JSON to standard output. Returns false if out of memory. */
bool cli_top_json(const struct cli_live *l, const struct cli_top_order *o, const struct cli_top_size *s);

#endif
