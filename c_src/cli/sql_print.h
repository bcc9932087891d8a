/* SPDX-License-Identifier: Apache-2.0
 *
 * Results of SQL on standard output. One thread.
 */
#ifndef KYMO_CLI_SQL_PRINT_H
#define KYMO_CLI_SQL_PRINT_H

#include <sqlite3.h>

#include "kymo_cli.h"

enum cli_sql_format {
    CLI_SQL_TEXT, /* aligned columns; NULL is NULL */
    CLI_SQL_JSON, /* an object for each row and line */
    CLI_SQL_CSV   /* RFC 4180; NULL is nothing between the commas */
};

/* The widths of the columns are those of the first rows: these are kept until then. */
#define CLI_SQL_KEPT 1000

struct cli_sql_printer {
    enum cli_sql_format format;
    sqlite3_stmt *stmt;
    int columns;
    unsigned *widths;
    char **kept; /* text of `rows` rows; NULL once they are printed */
    bool *right; /* by column: all values so far are numbers */
    unsigned rows;
    uint64_t results; /* of this run, for the line between two */
    bool failed;      /* out of memory */
};

/* Before the first row of a statement that has columns. */
void cli_sql_begin(struct cli_sql_printer *p, sqlite3_stmt *stmt);
/* The row that sqlite3_step has come to. */
void cli_sql_row(struct cli_sql_printer *p);
/* After the last row, or after what was the last; frees everything. */
void cli_sql_end(struct cli_sql_printer *p);

#endif
