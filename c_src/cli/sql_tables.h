/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables as people read them. One thread.
 */
#ifndef KYMO_CLI_SQL_TABLES_H
#define KYMO_CLI_SQL_TABLES_H

/* All tables with their columns on standard output, in Markdown: what doc/sql.md has. */
void cli_sql_tables(void);
/* "events, spans, ...", on standard error. */
void cli_sql_name_tables(void);

#endif
