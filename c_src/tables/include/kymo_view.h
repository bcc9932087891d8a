/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables of one recording for whoever pulls rows: a cursor for each use of a table,
 * any number at a time. Single threaded.
 *
 * Events are read from the recording, by each cursor anew. The analysis pushes its facts,
 * so those of the other tables are kept: the first use of a table runs the analysis once
 * for all tables that were announced by then (kymo_view_want), and stores their rows as
 * they are, 48 to 200 bytes each, in memory and beyond 4 MiB for a table in a temporary
 * file (store.h). Text is made when a cell is asked for. Memory: 4 MiB for each table,
 * and 4 bytes for each id of a table that is searched by id.
 *
 * All errors are negative errno with a sentence in err: -ENOMEM, those of
 * kymo_reader_open, -EIO, and those of the temporary file.
 */
#ifndef KYMO_VIEW_H
#define KYMO_VIEW_H

#include "kymo_tables.h"

struct kymo_view;
struct kymo_rows;

int kymo_view_open(const char *dir, struct kymo_view **out, char *err, size_t err_size);
/* There must be no cursor left. */
void kymo_view_close(struct kymo_view *v);
/* The table will be read soon. */
void kymo_view_want(struct kymo_view *v, enum kymo_table_id table);

/* Which rows; all members are conditions. */
struct kymo_rows_choice {
    bool by_id; /* only the row with this id, of a table with an id_column */
    int64_t id;
    int64_t from_ns, to_ns; /* value of the time column, both ends included; rows without
                               one only when both are open: INT64_MIN, INT64_MAX */
};

/* A cursor, which has no rows until it is started. 0 or -ENOMEM. */
int kymo_rows_open(struct kymo_view *v, enum kymo_table_id table, struct kymo_rows **out);
void kymo_rows_close(struct kymo_rows *rows);
/* Before the first row of the choice; may be called again. */
int kymo_rows_start(struct kymo_rows *rows, const struct kymo_rows_choice *choice, char *err,
                    size_t err_size);
/* 1 = at the next row, 0 = there is none. */
int kymo_rows_next(struct kymo_rows *rows, char *err, size_t err_size);
/* Number of the row in its table, from 1. */
int64_t kymo_rows_number(const struct kymo_rows *rows);
/* A cell of the row: as kymo_table_cell. */
int kymo_rows_cell(const struct kymo_rows *rows, unsigned column, struct kymo_cell *cell);

#endif
