/* SPDX-License-Identifier: Apache-2.0
 *
 * Values of cells: each function fills in one cell and returns 0 or -ENOMEM. Single-threaded.
 */
#ifndef KYMO_CELLS_H
#define KYMO_CELLS_H

#include "kymo_tables.h"

int kymo_cell_null(struct kymo_cell *c);
int kymo_cell_bool(struct kymo_cell *c, bool b);
/* A count; NULL if it does not fit. */
int kymo_cell_count(struct kymo_cell *c, uint64_t n);
/* An id: 0 is NULL. */
int kymo_cell_id(struct kymo_cell *c, uint64_t id);
/* A duration, and a point in time as ns since the start of the recording. NULL for KYMO_NO_TIME. */
int kymo_cell_duration(struct kymo_cell *c, int64_t ns);
int kymo_cell_moment(struct kymo_cell *c, const struct kymo_table_source *s, int64_t ns);
/* A point in time as a date. */
int kymo_cell_date(struct kymo_cell *c, const struct kymo_table_source *s, int64_t ns);
/* Static text; NULL is NULL. */
int kymo_cell_word(struct kymo_cell *c, const char *text);
/* Names and idents; KYMO_IDENT_NONE and the id 0 are NULL. */
int kymo_cell_process(struct kymo_cell *c, const struct kymo_table_source *s, uint64_t ident);
int kymo_cell_role(struct kymo_cell *c, const struct kymo_table_source *s, uint64_t ident);
int kymo_cell_pid(struct kymo_cell *c, const struct kymo_table_source *s, uint64_t ident);
int kymo_cell_function(struct kymo_cell *c, const struct kymo_table_source *s, uint32_t mfa);
int kymo_cell_module(struct kymo_cell *c, const struct kymo_table_source *s, uint32_t mfa);
int kymo_cell_atom(struct kymo_cell *c, const struct kymo_table_source *s, uint32_t atom);
/* The name of the node of a thread; NULL if it has none. */
int kymo_cell_node(struct kymo_cell *c, const struct kymo_table_source *s, uint32_t slot);
int kymo_cell_thread(struct kymo_cell *c, const struct kymo_table_source *s, uint32_t slot);
/* The hash of a reference; 0 is NULL. */
int kymo_cell_reference(struct kymo_cell *c, const struct kymo_table_source *s, uint64_t hash);
int kymo_cell_term(struct kymo_cell *c, const struct kymo_table_source *s, const uint8_t *etf, size_t len);
/* "(10, foo)"; NULL if the term is not a list of arguments. */
int kymo_cell_arguments(struct kymo_cell *c, const struct kymo_table_source *s, uint32_t mfa,
                        const uint8_t *etf, size_t len);

/* A JSON object of the fields of the set `which` (kymo_fields.h); NULL if the event has none of them. */
int kymo_cell_members(struct kymo_cell *c, const struct kymo_table_source *s, const struct kymo_event *ev,
                      uint64_t which);

/* A cell of an event (events.c). */
int kymo_event_cell(const struct kymo_table_source *s, const struct kymo_event_row *row, unsigned column,
                    struct kymo_cell *c);

#endif
