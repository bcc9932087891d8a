/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the files of this folder. All of them call SQLite through the table of functions that
 * was passed to sqlite3_kymosqlite_init.
 */
#ifndef KYMO_SQL_INT_H
#define KYMO_SQL_INT_H

#include <sqlite3ext.h>

#include "kymo_view.h"

SQLITE_EXTENSION_INIT3

/* The recordings that a connection has open. One of these belongs to each connection. */
struct kymo_sql;

/* A recording in use; shared by all tables of the same folder. */
struct kymo_sql_recording {
    char *dir;
    struct kymo_view *view;
    unsigned users;
    struct kymo_sql *owner;
    struct kymo_sql_recording *next;
};

/* Returns 0, or a negative errno with a message in err. Release the recording with
 * kymo_sql_release. */
int kymo_sql_use(struct kymo_sql *sql, const char *dir, struct kymo_sql_recording **out, char *err,
                 size_t err_size);
void kymo_sql_release(struct kymo_sql_recording *rec);

/* The virtual tables (table.c); the module's pAux is a struct kymo_sql. */
extern const sqlite3_module kymo_sql_module;

#endif
