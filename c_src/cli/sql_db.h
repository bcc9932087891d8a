/* SPDX-License-Identifier: Apache-2.0
 *
 * A database in memory with the tables of a recording. One thread.
 */
#ifndef KYMO_CLI_SQL_DB_H
#define KYMO_CLI_SQL_DB_H

#include <sqlite3.h>
#include <stdio.h>

#include "kymo_cli.h"

/* Opens the database, which reads only this recording and writes no file. Close *db with sqlite3_close
 * whatever this returns. Returns an exit status. */
int cli_sql_open(const char *dir, sqlite3 **db);
/* The exit status for the last error of the database. */
int cli_sql_status(sqlite3 *db);
/* Reads the rest of a file as text. From malloc; NULL if there is no memory. */
char *cli_sql_read(FILE *f);

#endif
