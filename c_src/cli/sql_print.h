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

/* The first rows are kept to determine the widths of the columns. */
#define CLI_SQL_KEPT 1000

struct cli_sql_printer {
    enum cli_sql_format format;
    sqlite3_stmt *stmt;
    int columns;
    unsigned *widths;
    char **kept; /* text of `rows` rows; NULL once they are printed */
    bool *right; /* by column: all values so far are numbers */
    unsigned rows;
    uint64_t results; /* number of results so far, for the empty line between them */
    bool failed;      /* out of memory */
};

/* Before the first row of a statement that has columns. */
void cli_sql_begin(struct cli_sql_printer *p, sqlite3_stmt *stmt);
/* Adds the current row of sqlite3_step. */
void cli_sql_row(struct cli_sql_printer *p);
/* Call it after the last row, also after an error. Prints what is left and frees everything. */
void cli_sql_end(struct cli_sql_printer *p);

#endif
