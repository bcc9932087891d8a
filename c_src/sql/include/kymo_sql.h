/* SPDX-License-Identifier: Apache-2.0
 *
 * Recordings as virtual tables of SQLite. The library kymo_sqlite.so contains this and what it
 * needs; the command kymo sql has it built in.
 *
 *   select kymo_open('folder')            temp tables events, spans, ... of the recording
 *   select kymo_open('folder', 'b_')      the same as b_events, b_spans, ...
 *   create virtual table x using kymo('folder', 'spans')   one table, under any name
 *
 * kymo_open returns the number of tables. All tables of one recording in one connection
 * share a view (kymo_view.h): the first statement that reads a table runs the analysis.
 * Nothing is ever written to the recording; the tables are read-only.
 *
 * Threads: any thread of the connection, one at a time; SQLite serialises them.
 */
#ifndef KYMO_SQL_H
#define KYMO_SQL_H

struct sqlite3;
struct sqlite3_api_routines;

/* The entry point for load_extension; a program may also pass it to sqlite3_auto_extension. Returns
 * SQLITE_OK, or an error of SQLite with *err from sqlite3_mprintf. */
int sqlite3_kymosqlite_init(struct sqlite3 *db, char **err, const struct sqlite3_api_routines *api);

#endif
