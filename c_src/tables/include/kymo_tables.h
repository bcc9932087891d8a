/* SPDX-License-Identifier: Apache-2.0
 *
 * A recording as flat tables: the one definition of their columns, for kymo sql, the
 * SQLite extension, kymo export ndjson and the documentation. A row is an event, a fact
 * of the analysis (kymo_analysis.h), or a sum over them; cells are computed on request.
 *
 * Threads: single-threaded, like the reader.
 *
 * Units: columns that end in _ns are integers in nanoseconds. Points in time (time_ns,
 * start_ns, sent_ns, ...) count from the start of the recording (meta.t0_mono_ns); the
 * others are durations. Unknown values are NULL.
 */
#ifndef KYMO_TABLES_H
#define KYMO_TABLES_H

#include "kymo_analysis.h"
#include "kymo_gauges.h"
#include "kymo_naming.h"

/* ---- definition ---- */

enum kymo_table_id {
    KYMO_TABLE_EVENTS,
    KYMO_TABLE_SPANS,
    KYMO_TABLE_MESSAGES,
    KYMO_TABLE_REQUESTS,
    KYMO_TABLE_PROCESSES,
    KYMO_TABLE_COLLECTIONS,
    KYMO_TABLE_RUNNING,
    KYMO_TABLE_WAITS,
    KYMO_TABLE_FUNCTIONS,
    KYMO_TABLE_LOSSES,
    KYMO_TABLE_SHED,
    KYMO_TABLE_COUNTERS,
    KYMO_TABLE_MONITOR,
    KYMO_TABLE_OBSERVED,
    KYMO_TABLES
};
#define KYMO_TABLE_BIT(id) (1u << (id))
#define KYMO_TABLES_ALL ((1u << KYMO_TABLES) - 1)

enum kymo_column_type { KYMO_INTEGER, KYMO_TEXT, KYMO_BOOLEAN };

struct kymo_column {
    const char *name;
    enum kymo_column_type type;
    const char *says; /* its meaning, in one phrase */
};

struct kymo_table {
    const char *name;
    const char *says; /* what a row is, one sentence */
    const struct kymo_column *columns;
    unsigned n_columns;
    int id_column;   /* unique numbers from 1 on, by which rows can be looked up; -1 = none */
    int time_column; /* the row's point in time; -1 = none */
};

extern const struct kymo_table kymo_tables[KYMO_TABLES];
/* "integer", "text", "boolean". */
const char *kymo_column_type_name(enum kymo_column_type type);

/* ---- rows ---- */

/* What the rows of a table point to. For spans, messages, requests, processes,
 * collections and running it is the fact of kymo_analysis.h, for shed that of kymo_reader.h,
 * for counters that of kymo_gauges.h. */
struct kymo_event_row {
    uint64_t id; /* from 1 */
    const struct kymo_event *event;
};
/* A function in which runs of a process stopped. */
struct kymo_wait_row {
    uint64_t process; /* ident */
    uint32_t mfa;     /* 0 = unknown */
    uint64_t runs, waits;
    int64_t running, dirty, waiting, longest;
    int64_t longest_start; /* KYMO_NO_TIME = no wait */
};
struct kymo_function_row {
    uint32_t mfa;
    uint64_t calls, ended, with_running, exceptions;
    int64_t total, self, running, self_running, gc, p50, p99, max, max_at;
};
struct kymo_loss_row {
    uint32_t slot; /* KYMO_LOSS_NO_SLOT: events of threads without a slot */
    uint8_t cause; /* enum kymo_loss */
    uint64_t events;
    int64_t first, last; /* times of the notes of loss; KYMO_NO_TIME = no note */
};
#define KYMO_LOSS_NO_SLOT UINT32_MAX
/* A record `system_monitor`. */
struct kymo_monitor_row {
    int64_t ns;
    uint64_t process, port; /* idents */
    uint64_t value;
    uint32_t in_mfa, out_mfa;
    uint8_t kind; /* enum kymo_monitor */
};
/* A record `observed`. */
struct kymo_observed_row {
    int64_t ns;
    uint64_t process, waits_for; /* idents */
    uint64_t mailbox;
    uint32_t function, called_from, lock;
    uint8_t kind; /* enum kymo_observed */
};

/* What cells are computed from. Names are those that `naming` has learnt so far. */
struct kymo_table_source {
    struct kymo_reader *r;
    struct kymo_naming *naming;
    bool has_gc; /* the recording has collections; set by kymo_tables_learn and _run */
};

/* One value. Initialise it with zero bytes. It is reused for the next cell, until which
 * its text is valid. */
struct kymo_cell {
    enum { KYMO_CELL_NULL, KYMO_CELL_INTEGER, KYMO_CELL_TEXT, KYMO_CELL_BOOLEAN } kind;
    int64_t integer;  /* for booleans 0 or 1 */
    const char *text; /* UTF-8, NUL-terminated */
    size_t len;
    char *room; /* private */
    size_t size;
};
void kymo_cell_free(struct kymo_cell *cell);

/* Returns 0 or -ENOMEM. A count that does not fit into a signed integer is NULL. */
int kymo_table_cell(const struct kymo_table_source *s, enum kymo_table_id table, const void *row,
                    unsigned column, struct kymo_cell *cell);

/* ---- all rows of a recording, once ---- */

struct kymo_table_rows {
    unsigned set; /* KYMO_TABLE_BIT of each requested table */
    /* Window and progress, as in kymo_analysis_options. */
    struct kymo_analysis_options analysis;
    /* Called with each row, which is valid during the call. Returns 0, or a negative
     * errno to stop; kymo_tables_run then returns it. */
    int (*row)(void *arg, enum kymo_table_id table, const void *row);
    void *arg;
};

/* Reads the recording once and reports the rows of all requested tables, interleaved;
 * those of one table are in the order in which the analysis reports them. `naming` learns
 * at the same time. Returns 0, or a negative errno and, unless it is from `row`, a
 * message in err. */
int kymo_tables_run(struct kymo_table_source *s, const struct kymo_table_rows *rows,
                    struct kymo_analysis_result *res, char *err, size_t err_size);

/* Lets `naming` learn from the whole recording, without reporting rows. Afterwards names
 * do not depend on the position of a row in the recording. *newest is the time of the
 * newest event, INT64_MIN if there is none. Returns 0, or a negative errno and a message
 * in err. */
int kymo_tables_learn(struct kymo_table_source *s, int64_t *newest, char *err, size_t err_size);

#endif
