/* SPDX-License-Identifier: Apache-2.0
 *
 * Documentation of the tables of kymo sql. One thread.
 */
#ifndef KYMO_CLI_SQL_TABLES_H
#define KYMO_CLI_SQL_TABLES_H

/* Prints all tables with their columns to standard output, in Markdown, as in doc/sql.md. */
void cli_sql_tables(void);
/* "events, spans, ...", on standard error. */
void cli_sql_name_tables(void);

#endif
