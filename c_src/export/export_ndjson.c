/* SPDX-License-Identifier: Apache-2.0
 *
 * Exports the tables of kymo_tables.h as newline-delimited JSON: a folder with one file per table
 * and one object per row, with all columns; and schema.sql, which creates the same tables in a
 * database.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export_util.h"
#include "kymo_tables.h"
#include "out_json.h"
#include "outdir.h"

/* Larger integers are written as strings, because programs that read numbers as doubles would round
 * them. */
#define EXACT (INT64_C(1) << 53)

struct ndjson {
    struct kymo_table_source s;
    struct kymo_outdir dir;
    struct kymo_out out[KYMO_TABLES];
    struct kymo_cell cell;
    uint64_t rows;
};

static void put_integer(struct kymo_out *out, int64_t n)
{
    char text[32];
    bool exact = n >= -EXACT && n <= EXACT;
    int len = snprintf(text, sizeof text, exact ? "%" PRId64 : "\"%" PRId64 "\"", n);
    kymo_out_write(out, text, (size_t)len);
}

static void put_cell(struct kymo_out *out, const struct kymo_cell *cell)
{
    switch (cell->kind) {
    case KYMO_CELL_NULL: kymo_out_write(out, "null", 4); break;
    case KYMO_CELL_INTEGER: put_integer(out, cell->integer); break;
    case KYMO_CELL_TEXT: kymo_out_json_string(out, cell->text, cell->len); break;
    case KYMO_CELL_BOOLEAN:
        kymo_out_write(out, cell->integer ? "true" : "false", cell->integer ? 4 : 5);
        break;
    }
}

static int put_row(void *arg, enum kymo_table_id table, const void *row)
{
    struct ndjson *x = arg;
    const struct kymo_table *t = &kymo_tables[table];
    struct kymo_out *out = &x->out[table];
    for (unsigned i = 0; i < t->n_columns; i++) {
        int rc = kymo_table_cell(&x->s, table, row, i, &x->cell);
        if (rc != 0)
            return rc;
        kymo_out_write(out, i == 0 ? "{\"" : ",\"", 2);
        kymo_out_write(out, t->columns[i].name, strlen(t->columns[i].name));
        kymo_out_write(out, "\":", 2);
        put_cell(out, &x->cell);
    }
    kymo_out_write(out, "}\n", 2);
    x->rows++;
    return out->error;
}

static int open_files(struct ndjson *x, char *err, size_t err_size)
{
    char name[64], path[4096];
    int rc = 0;
    for (unsigned i = 0; i < KYMO_TABLES && rc == 0; i++) {
        snprintf(name, sizeof name, "%s.ndjson", kymo_tables[i].name);
        rc = kymo_outdir_file(&x->dir, name, path, sizeof path, err, err_size);
        if (rc == 0)
            rc = kymo_out_open(&x->out[i], path, err, err_size);
    }
    return rc;
}

/* Finishes all files. If one could not be written, err has its error. */
static int finish_files(struct ndjson *x, struct kymo_export_result *res, char *err, size_t err_size)
{
    int rc = 0;
    for (unsigned i = 0; i < KYMO_TABLES; i++) {
        res->bytes += kymo_out_bytes(&x->out[i]);
        int one = kymo_out_finish(&x->out[i], rc == 0 ? err : NULL, rc == 0 ? err_size : 0);
        rc = rc == 0 ? one : rc;
    }
    return rc;
}

/* Writes schema.sql: the rows do not show the types of columns that are NULL in all rows, or whose
 * large integers are strings. */
static int write_schema(const struct ndjson *x, char *err, size_t err_size)
{
    static const char *const types[] = {
        [KYMO_INTEGER] = "bigint", [KYMO_TEXT] = "varchar", [KYMO_BOOLEAN] = "boolean"};
    struct kymo_out out;
    char line[256], path[4096];
    int rc = kymo_outdir_file(&x->dir, "schema.sql", path, sizeof path, err, err_size);
    if (rc == 0)
        rc = kymo_out_open(&out, path, err, err_size);
    if (rc != 0)
        return rc;
    for (unsigned i = 0; i < KYMO_TABLES; i++) {
        const struct kymo_table *t = &kymo_tables[i];
        for (unsigned c = 0; c < t->n_columns; c++) {
            int n = snprintf(line, sizeof line, "%s%s%s\"%s\" %s", c == 0 ? "create table \"" : ",\n  ",
                             c == 0 ? t->name : "", c == 0 ? "\" (\n  " : "", t->columns[c].name,
                             types[t->columns[c].type]);
            kymo_out_write(&out, line, (size_t)n);
        }
        kymo_out_write(&out, ");\n", 3);
    }
    return kymo_out_finish(&out, err, err_size);
}

static int write_tables(struct ndjson *x, const struct kymo_export_options *o, struct kymo_export_result *res,
                        char *err, size_t err_size)
{
    struct kymo_table_rows rows = {.set = KYMO_TABLES_ALL,
                                   .analysis = {.from_ns = o->from_ns,
                                                .to_ns = o->to_ns,
                                                .progress = o->progress,
                                                .progress_arg = o->progress_arg},
                                   .row = put_row,
                                   .arg = x};
    struct kymo_analysis_result found = {.events = 0};
    int64_t newest;
    err[0] = '\0';
    int rc = kymo_tables_learn(&x->s, &newest, err, err_size);
    if (rc == 0)
        rc = kymo_tables_run(&x->s, &rows, &found, err, err_size);
    /* If a file could not be written, err has no message yet; finish_files takes it from the file. */
    if (rc == 0 || err[0] == '\0') {
        int written = finish_files(x, res, err, err_size);
        rc = rc == 0 ? written : rc;
    }
    res->events = found.events;
    res->written = x->rows;
    return rc;
}

int kymo_export_ndjson(struct kymo_reader *r, const struct kymo_export_options *o,
                       struct kymo_export_result *res, char *err, size_t err_size)
{
    struct ndjson x = {.s = {.r = r}};
    struct kymo_feed feed; /* rewinds, empties *res */
    int rc = kymo_outdir_check(o->out, "ndjson", err, err_size);
    if (rc == 0)
        rc = kymo_feed_start(&feed, r, o, res, err, err_size);
    if (rc != 0)
        return rc;
    for (unsigned i = 0; i < KYMO_TABLES; i++)
        x.out[i].fd = -1;
    x.s.naming = kymo_naming_new(r);
    if (x.s.naming == NULL) {
        snprintf(err, err_size, "not enough memory");
        return -ENOMEM;
    }
    rc = kymo_outdir_make(&x.dir, o->out, err, err_size);
    if (rc == 0)
        rc = write_schema(&x, err, err_size);
    if (rc == 0)
        rc = open_files(&x, err, err_size);
    if (rc == 0)
        rc = write_tables(&x, o, res, err, err_size);
    if (rc == 0)
        rc = kymo_outdir_finish(&x.dir, err, err_size);
    for (unsigned i = 0; i < KYMO_TABLES; i++)
        kymo_out_abort(&x.out[i]);
    kymo_outdir_abort(&x.dir);
    kymo_cell_free(&x.cell);
    kymo_naming_free(x.s.naming);
    return rc;
}
