/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables of one recording, read through cursors, of which any number can be open.
 * Single-threaded.
 *
 * Each cursor over events reads the recording. The rows of the other tables are facts of
 * the analysis and are stored: the first use of such a table runs the analysis once for
 * all tables requested so far (kymo_view_want), and stores their rows, of 48 to 200 bytes
 * each, in memory and, beyond 4 MiB for a table, in a temporary file (store.h). Text is
 * made when a cell is requested. Memory: 4 MiB for each table, and 4 bytes for each id of
 * a table that is searched by id.
 *
 * Errors are negative errno with a message in err: -ENOMEM, those of kymo_reader_open,
 * -EIO, and those of the temporary file.
 */
#ifndef KYMO_VIEW_H
#define KYMO_VIEW_H

#include "kymo_tables.h"

struct kymo_view;
struct kymo_rows;

int kymo_view_open(const char *dir, struct kymo_view **out, char *err, size_t err_size);
/* All cursors must be closed before. */
void kymo_view_close(struct kymo_view *v);
/* Announces that the table will be read. */
void kymo_view_want(struct kymo_view *v, enum kymo_table_id table);

/* Selects rows that satisfy all conditions. */
struct kymo_rows_choice {
    bool by_id; /* only the row with this id, of a table with an id_column */
    int64_t id;
    int64_t from_ns, to_ns; /* range of the time column, both ends included; rows without
                               a time only match INT64_MIN to INT64_MAX */
};

/* Opens a cursor, which has no rows until it is started. Returns 0 or -ENOMEM. */
int kymo_rows_open(struct kymo_view *v, enum kymo_table_id table, struct kymo_rows **out);
void kymo_rows_close(struct kymo_rows *rows);
/* Places the cursor before the first selected row; may be called again. */
int kymo_rows_start(struct kymo_rows *rows, const struct kymo_rows_choice *choice, char *err,
                    size_t err_size);
/* Moves to the next row. Returns 1, 0 if there is none, or an error. */
int kymo_rows_next(struct kymo_rows *rows, char *err, size_t err_size);
/* Number of the row in its table, from 1. */
int64_t kymo_rows_number(const struct kymo_rows *rows);
/* Computes a cell of the row, as kymo_table_cell does. */
int kymo_rows_cell(const struct kymo_rows *rows, unsigned column, struct kymo_cell *cell);

#endif
