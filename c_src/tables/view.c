/* SPDX-License-Identifier: Apache-2.0 */
#include "kymo_view.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store.h"

struct kymo_view {
    char *dir;
    struct kymo_table_source s;
    unsigned wanted, filled; /* KYMO_TABLE_BIT */
    bool learnt;
    int64_t newest; /* time of the newest event when it was opened; INT64_MIN = no event */
    struct kymo_store stores[KYMO_TABLES];
    uint32_t *by_id[KYMO_TABLES]; /* id - 1 -> row + 1, 0 = none; NULL = not built yet */
    uint64_t n_by_id[KYMO_TABLES];
};

struct kymo_rows {
    struct kymo_view *v;
    enum kymo_table_id table;
    struct kymo_rows_choice choice;
    struct kymo_cell time; /* of the current row */
    /* Cursors over events have a reader of their own. */
    struct kymo_reader *r;
    struct kymo_event event;
    struct kymo_event_row event_row;
    uint64_t next;   /* next row of the store, or number of events so far */
    const void *row; /* current row */
    bool jumps;      /* times may decrease between threads */
    bool at_end;
};

static const size_t row_sizes[KYMO_TABLES] = {
    [KYMO_TABLE_SPANS] = sizeof(struct kymo_span),
    [KYMO_TABLE_MESSAGES] = sizeof(struct kymo_mail),
    [KYMO_TABLE_REQUESTS] = sizeof(struct kymo_request),
    [KYMO_TABLE_PROCESSES] = sizeof(struct kymo_life),
    [KYMO_TABLE_COLLECTIONS] = sizeof(struct kymo_collection),
    [KYMO_TABLE_RUNNING] = sizeof(struct kymo_run),
    [KYMO_TABLE_WAITS] = sizeof(struct kymo_wait_row),
    [KYMO_TABLE_FUNCTIONS] = sizeof(struct kymo_function_row),
    [KYMO_TABLE_LOSSES] = sizeof(struct kymo_loss_row),
    [KYMO_TABLE_SHED] = sizeof(struct kymo_shed),
    [KYMO_TABLE_COUNTERS] = sizeof(struct kymo_gauge),
    [KYMO_TABLE_MONITOR] = sizeof(struct kymo_monitor_row),
    [KYMO_TABLE_OBSERVED] = sizeof(struct kymo_observed_row),
};

static int read_error(int rc, char *err, size_t err_size)
{
    snprintf(err, err_size, "cannot read the rest of the recording: %s", strerror(-rc));
    return rc;
}

static int out_of_memory(char *err, size_t err_size)
{
    snprintf(err, err_size, "not enough memory");
    return -ENOMEM;
}

/* ---- the view ---- */

int kymo_view_open(const char *dir, struct kymo_view **out, char *err, size_t err_size)
{
    *out = NULL;
    struct kymo_view *v = calloc(1, sizeof *v);
    if (v == NULL)
        return out_of_memory(err, err_size);
    for (unsigned i = 0; i < KYMO_TABLES; i++)
        kymo_store_init(&v->stores[i], row_sizes[i]);
    int rc = kymo_reader_open(dir, &v->s.r, err, err_size);
    if (rc == 0) {
        v->dir = strdup(dir);
        v->s.naming = kymo_naming_new(v->s.r);
        if (v->dir == NULL || v->s.naming == NULL)
            rc = out_of_memory(err, err_size);
    }
    if (rc != 0) {
        kymo_view_close(v);
        return rc;
    }
    *out = v;
    return 0;
}

void kymo_view_close(struct kymo_view *v)
{
    if (v == NULL)
        return;
    for (unsigned i = 0; i < KYMO_TABLES; i++) {
        kymo_store_free(&v->stores[i]);
        free(v->by_id[i]);
    }
    kymo_naming_free(v->s.naming);
    kymo_reader_close(v->s.r);
    free(v->dir);
    free(v);
}

void kymo_view_want(struct kymo_view *v, enum kymo_table_id table)
{
    v->wanted |= KYMO_TABLE_BIT(table);
}

static int keep(void *view, enum kymo_table_id table, const void *row)
{
    struct kymo_view *v = view;
    return kymo_store_append(&v->stores[table], row);
}

/* Drops the incomplete tables of a failed run. */
static void forget(struct kymo_view *v, unsigned set)
{
    for (unsigned i = 0; i < KYMO_TABLES; i++) {
        if ((set & KYMO_TABLE_BIT(i)) != 0)
            kymo_store_free(&v->stores[i]);
    }
}

/* Runs the analysis for the tables of the set. */
static int fill(struct kymo_view *v, unsigned set, char *err, size_t err_size)
{
    struct kymo_table_rows rows = {
        .set = set, .analysis = {.from_ns = INT64_MIN, .to_ns = INT64_MAX}, .row = keep, .arg = v};
    struct kymo_analysis_result res;
    err[0] = '\0';
    int rc = kymo_tables_run(&v->s, &rows, &res, err, err_size);
    for (unsigned i = 0; i < KYMO_TABLES && rc == 0; i++) {
        if ((set & KYMO_TABLE_BIT(i)) != 0)
            rc = kymo_store_finish(&v->stores[i]);
    }
    if (rc != 0) {
        if (err[0] == '\0')
            snprintf(err, err_size, "temporary file: %s", strerror(-rc));
        forget(v, set);
        return rc;
    }
    v->filled |= set;
    v->learnt = true;
    v->newest = res.last == KYMO_NO_TIME ? INT64_MIN : res.last;
    return 0;
}

/* Makes the table readable, together with all other wanted tables. */
static int prepare(struct kymo_view *v, enum kymo_table_id table, char *err, size_t err_size)
{
    kymo_view_want(v, table);
    unsigned missing = v->wanted & ~v->filled & ~KYMO_TABLE_BIT(KYMO_TABLE_EVENTS);
    if (table != KYMO_TABLE_EVENTS && (v->filled & KYMO_TABLE_BIT(table)) != 0)
        return 0;
    if (missing != 0)
        return fill(v, missing, err, err_size);
    if (v->learnt)
        return 0;
    int rc = kymo_tables_learn(&v->s, &v->newest, err, err_size);
    v->learnt = rc == 0;
    return rc;
}

/* ---- rows by id ---- */

static int64_t integer_of(struct kymo_view *v, enum kymo_table_id table, const void *row, int column,
                          struct kymo_cell *cell)
{
    /* Cells with numbers need no memory, so this cannot fail. */
    (void)kymo_table_cell(&v->s, table, row, (unsigned)column, cell);
    return cell->kind == KYMO_CELL_INTEGER ? cell->integer : KYMO_NO_TIME;
}

/* Builds the index of ids. Ids count up from 1, so there are not many more than rows. */
static int index_ids(struct kymo_view *v, enum kymo_table_id table, char *err, size_t err_size)
{
    const struct kymo_store *store = &v->stores[table];
    struct kymo_cell cell = {.kind = KYMO_CELL_NULL};
    int64_t largest = 0;
    if (v->by_id[table] != NULL)
        return 0;
    for (uint64_t i = 0; i < store->rows; i++) {
        int64_t id = integer_of(v, table, kymo_store_row(store, i), kymo_tables[table].id_column, &cell);
        largest = id > largest ? id : largest;
    }
    uint32_t *places = store->rows < UINT32_MAX ? calloc((size_t)largest + 1, sizeof *places) : NULL;
    if (places == NULL)
        return out_of_memory(err, err_size);
    for (uint64_t i = 0; i < store->rows; i++) {
        int64_t id = integer_of(v, table, kymo_store_row(store, i), kymo_tables[table].id_column, &cell);
        if (id > 0)
            places[id - 1] = (uint32_t)i + 1;
    }
    v->by_id[table] = places;
    v->n_by_id[table] = (uint64_t)largest;
    return 0;
}

/* ---- cursors ---- */

int kymo_rows_open(struct kymo_view *v, enum kymo_table_id table, struct kymo_rows **out)
{
    struct kymo_rows *rows = calloc(1, sizeof *rows);
    *out = rows;
    if (rows == NULL)
        return -ENOMEM;
    rows->v = v;
    rows->table = table;
    rows->at_end = true;
    rows->event_row.event = &rows->event;
    return 0;
}

/* Starts, or restarts, at the first event. */
static int start_events(struct kymo_rows *rows, char *err, size_t err_size)
{
    if (rows->r == NULL) {
        int rc = kymo_reader_open(rows->v->dir, &rows->r, err, err_size);
        rows->jumps = rc == 0 && kymo_reader_jumps(rows->r) != 0;
        return rc;
    }
    int rc = kymo_reader_rewind(rows->r);
    return rc < 0 ? read_error(rc, err, err_size) : 0;
}

int kymo_rows_start(struct kymo_rows *rows, const struct kymo_rows_choice *choice, char *err, size_t err_size)
{
    int rc = prepare(rows->v, rows->table, err, err_size);
    if (rc == 0 && rows->table == KYMO_TABLE_EVENTS)
        rc = start_events(rows, err, err_size);
    else if (rc == 0 && choice->by_id)
        rc = index_ids(rows->v, rows->table, err, err_size);
    rows->choice = *choice;
    rows->next = 0;
    rows->at_end = rc != 0;
    return rc;
}

void kymo_rows_close(struct kymo_rows *rows)
{
    if (rows == NULL)
        return;
    kymo_reader_close(rows->r);
    kymo_cell_free(&rows->time);
    free(rows);
}

static bool in_time(struct kymo_rows *rows)
{
    const struct kymo_rows_choice *c = &rows->choice;
    if (c->from_ns == INT64_MIN && c->to_ns == INT64_MAX)
        return true;
    int64_t t =
        integer_of(rows->v, rows->table, rows->row, kymo_tables[rows->table].time_column, &rows->time);
    return t != KYMO_NO_TIME && t >= c->from_ns && t <= c->to_ns;
}

/* Whether the current event is past the requested range, or newer than the recording was when the
 * view was opened. Unless times jump, events are in order of time, so that no more can follow. */
static bool too_late(const struct kymo_rows *rows)
{
    int64_t t0 = kymo_reader_meta(rows->r)->t0_mono_ns;
    int64_t since = (int64_t)((uint64_t)rows->event.ns - (uint64_t)t0);
    return rows->event.ns > rows->v->newest || since > rows->choice.to_ns;
}

static int next_event(struct kymo_rows *rows, char *err, size_t err_size)
{
    int rc = 0;
    rows->row = &rows->event_row;
    while ((rc = kymo_reader_next(rows->r, &rows->event)) == 1) {
        if (too_late(rows)) {
            if (!rows->jumps)
                return 0;
            continue;
        }
        if (rows->event.id >= KYMO_E_FIRST_NOTE)
            continue;
        rows->event_row.id = ++rows->next;
        if (in_time(rows))
            return 1;
    }
    return rc < 0 ? read_error(rc, err, err_size) : 0;
}

static int next_by_id(struct kymo_rows *rows)
{
    const struct kymo_view *v = rows->v;
    int64_t id = rows->choice.id;
    rows->at_end = true;
    if (id < 1 || (uint64_t)id > v->n_by_id[rows->table] || v->by_id[rows->table][id - 1] == 0)
        return 0;
    rows->next = v->by_id[rows->table][id - 1];
    rows->row = kymo_store_row(&v->stores[rows->table], rows->next - 1);
    return in_time(rows) ? 1 : 0;
}

int kymo_rows_next(struct kymo_rows *rows, char *err, size_t err_size)
{
    if (rows->at_end)
        return 0;
    if (rows->table == KYMO_TABLE_EVENTS)
        return next_event(rows, err, err_size);
    if (rows->choice.by_id)
        return next_by_id(rows);
    const struct kymo_store *store = &rows->v->stores[rows->table];
    while (rows->next < store->rows) {
        rows->row = kymo_store_row(store, rows->next++);
        if (in_time(rows))
            return 1;
    }
    return 0;
}

int64_t kymo_rows_number(const struct kymo_rows *rows)
{
    return (int64_t)rows->next;
}

int kymo_rows_cell(const struct kymo_rows *rows, unsigned column, struct kymo_cell *cell)
{
    return kymo_table_cell(&rows->v->s, rows->table, rows->row, column, cell);
}
