/* SPDX-License-Identifier: Apache-2.0
 *
 * A virtual table: each cursor of SQLite has a cursor of the view. Conditions on the id and on the
 * time of a row are passed to the view; they need not be exact, because SQLite checks them again.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sql_int.h"

struct table {
    sqlite3_vtab base;
    struct kymo_sql_recording *rec;
    enum kymo_table_id id;
};

struct cursor {
    sqlite3_vtab_cursor base;
    struct kymo_rows *rows;
    struct kymo_cell cell;
    bool eof;
};

/* The plan chosen by best_index: which values are passed to the cursor, in this order. */
enum { BY_ID = 1, FROM = 2, TO = 4, AT = 8 };

/* Estimated number of rows of a table. Only the proportions matter for plans. */
static double likely_rows(enum kymo_table_id id)
{
    switch (id) {
    case KYMO_TABLE_EVENTS: return 1e7;
    case KYMO_TABLE_SPANS:
    case KYMO_TABLE_MESSAGES:
    case KYMO_TABLE_RUNNING: return 1e6;
    case KYMO_TABLE_COUNTERS:
    case KYMO_TABLE_REQUESTS:
    case KYMO_TABLE_WAITS:
    case KYMO_TABLE_COLLECTIONS: return 1e5;
    default: return 1e3;
    }
}

static int code_of(int error)
{
    return error == -ENOMEM ? SQLITE_NOMEM : error == -ENOSPC ? SQLITE_FULL : SQLITE_IOERR;
}

static int fail(sqlite3_vtab *base, int error, const char *text)
{
    sqlite3_free(base->zErrMsg);
    base->zErrMsg = sqlite3_mprintf("%s", text);
    return code_of(error);
}

/* ---- the table ---- */

/* An argument of the module, without its quotes; from sqlite3_malloc. */
static char *dequote(const char *arg)
{
    char quote = *arg;
    if (quote != '\'' && quote != '"')
        return sqlite3_mprintf("%s", arg);
    char *text = sqlite3_mprintf("%s", arg + 1), *to = text;
    for (const char *p = text; p != NULL && *p != '\0'; *to++ = *p++) {
        if (*p == quote && *++p != quote)
            break;
    }
    if (to != NULL)
        *to = '\0';
    return text;
}

static int find_table(const char *name)
{
    for (int i = 0; i < KYMO_TABLES; i++) {
        if (sqlite3_stricmp(kymo_tables[i].name, name) == 0)
            return i;
    }
    return -1;
}

static int declare(sqlite3 *db, const struct kymo_table *t)
{
    sqlite3_str *s = sqlite3_str_new(db);
    sqlite3_str_appendall(s, "create table t(");
    for (unsigned i = 0; i < t->n_columns; i++)
        sqlite3_str_appendf(s, "%s\"%w\" %s", i > 0 ? ", " : "", t->columns[i].name,
                            kymo_column_type_name(t->columns[i].type));
    sqlite3_str_appendall(s, ")");
    char *text = sqlite3_str_finish(s);
    int rc = text == NULL ? SQLITE_NOMEM : sqlite3_declare_vtab(db, text);
    sqlite3_free(text);
    return rc;
}

static int connect_to(sqlite3 *db, struct kymo_sql *sql, const char *dir, const char *name,
                      sqlite3_vtab **out, char **err)
{
    char text[512] = "";
    struct kymo_sql_recording *rec;
    int id = find_table(name);
    if (id < 0) {
        *err = sqlite3_mprintf("kymo has no table %s", name);
        return SQLITE_ERROR;
    }
    int rc = kymo_sql_use(sql, dir, &rec, text, sizeof text);
    if (rc != 0) {
        *err = sqlite3_mprintf("%s", text);
        return SQLITE_ERROR;
    }
    struct table *t = calloc(1, sizeof *t);
    rc = t == NULL ? SQLITE_NOMEM : declare(db, &kymo_tables[id]);
    if (rc != SQLITE_OK) {
        free(t);
        kymo_sql_release(rec);
        return rc;
    }
    t->rec = rec;
    t->id = (enum kymo_table_id)id;
    *out = &t->base;
    return SQLITE_OK;
}

static int on_connect(sqlite3 *db, void *aux, int argc, const char *const *argv, sqlite3_vtab **out,
                      char **err)
{
    if (argc != 5) {
        *err = sqlite3_mprintf("kymo takes two arguments: using kymo('folder', 'table')");
        return SQLITE_ERROR;
    }
    char *dir = dequote(argv[3]), *name = dequote(argv[4]);
    int rc = dir == NULL || name == NULL ? SQLITE_NOMEM : connect_to(db, aux, dir, name, out, err);
    sqlite3_free(dir);
    sqlite3_free(name);
    return rc;
}

/* Must differ from on_connect, or SQLite would provide a table `kymo` without arguments. */
static int on_create(sqlite3 *db, void *aux, int argc, const char *const *argv, sqlite3_vtab **out,
                     char **err)
{
    return on_connect(db, aux, argc, argv, out, err);
}

static int on_disconnect(sqlite3_vtab *base)
{
    struct table *t = (struct table *)base;
    kymo_sql_release(t->rec);
    free(t);
    return SQLITE_OK;
}

/* ---- plans ---- */

/* The kind of the condition (BY_ID, ...); 0 = none of these. */
static int condition(const struct kymo_table *t, const struct sqlite3_index_constraint *c)
{
    if (c->iColumn < 0)
        return 0;
    if (c->iColumn == t->id_column)
        return c->op == SQLITE_INDEX_CONSTRAINT_EQ ? BY_ID : 0;
    if (c->iColumn != t->time_column)
        return 0;
    switch (c->op) {
    case SQLITE_INDEX_CONSTRAINT_EQ: return AT;
    case SQLITE_INDEX_CONSTRAINT_GT:
    case SQLITE_INDEX_CONSTRAINT_GE: return FROM;
    case SQLITE_INDEX_CONSTRAINT_LT:
    case SQLITE_INDEX_CONSTRAINT_LE: return TO;
    default: return 0;
    }
}

static int best_index(sqlite3_vtab *base, sqlite3_index_info *info)
{
    const struct table *t = (struct table *)base;
    int next = 1;
    kymo_view_want(t->rec->view, t->id);
    for (int what = BY_ID; what <= AT; what *= 2) {
        for (int i = 0; i < info->nConstraint; i++) {
            const struct sqlite3_index_constraint *c = &info->aConstraint[i];
            if (c->usable && condition(&kymo_tables[t->id], c) == what) {
                info->aConstraintUsage[i].argvIndex = next++;
                info->idxNum |= what;
                break;
            }
        }
    }
    double rows = likely_rows(t->id);
    /* A condition on time saves computing cells, but each row is still visited. */
    info->estimatedCost = rows * ((info->idxNum & (FROM | TO | AT)) != 0 ? 0.5 : 1);
    rows *= (info->idxNum & AT) != 0 ? 1e-6 : (info->idxNum & (FROM | TO)) != 0 ? 0.1 : 1;
    if ((info->idxNum & BY_ID) != 0) {
        info->estimatedCost = rows = 1;
        info->idxFlags = SQLITE_INDEX_SCAN_UNIQUE;
    }
    info->estimatedRows = rows < 1 ? 1 : (sqlite3_int64)rows;
    return SQLITE_OK;
}

/* ---- cursors ---- */

static int on_open(sqlite3_vtab *base, sqlite3_vtab_cursor **out)
{
    const struct table *t = (struct table *)base;
    struct cursor *c = calloc(1, sizeof *c);
    if (c == NULL)
        return SQLITE_NOMEM;
    int rc = kymo_rows_open(t->rec->view, t->id, &c->rows);
    if (rc != 0) {
        free(c);
        return SQLITE_NOMEM;
    }
    *out = &c->base;
    return SQLITE_OK;
}

static int on_close(sqlite3_vtab_cursor *base)
{
    struct cursor *c = (struct cursor *)base;
    kymo_rows_close(c->rows);
    kymo_cell_free(&c->cell);
    free(c);
    return SQLITE_OK;
}

static int on_next(sqlite3_vtab_cursor *base)
{
    struct cursor *c = (struct cursor *)base;
    char err[512] = "";
    int rc = kymo_rows_next(c->rows, err, sizeof err);
    c->eof = rc != 1;
    return rc < 0 ? fail(base->pVtab, rc, err) : SQLITE_OK;
}

/* Converts a number to an integer, rounded down. Returns false if the value is not a number; then it
 * cannot be used as a condition. */
static bool as_integer(sqlite3_value *v, int64_t *n)
{
    const double most = 9.2e18;
    switch (sqlite3_value_type(v)) {
    case SQLITE_INTEGER: *n = sqlite3_value_int64(v); return true;
    case SQLITE_FLOAT: {
        double d = sqlite3_value_double(v);
        *n = d >= most ? INT64_MAX : d <= -most ? INT64_MIN : (int64_t)d - (d < (double)(int64_t)d);
        return true;
    }
    default: return false;
    }
}

static int on_filter(sqlite3_vtab_cursor *base, int plan, const char *plan_text, int argc,
                     sqlite3_value **argv)
{
    (void)plan_text;
    struct cursor *c = (struct cursor *)base;
    struct kymo_rows_choice choice = {.from_ns = INT64_MIN, .to_ns = INT64_MAX};
    char err[512] = "";
    int at = 0;
    for (int what = BY_ID; what <= AT && at < argc; what *= 2) {
        int64_t n;
        if ((plan & what) == 0)
            continue;
        sqlite3_value *v = argv[at++];
        if (sqlite3_value_type(v) == SQLITE_NULL) {
            c->eof = true; /* nothing compares to NULL */
            return SQLITE_OK;
        }
        if (!as_integer(v, &n))
            continue;
        if (what == BY_ID) {
            choice.by_id = true;
            choice.id = n;
        }
        if ((what & (FROM | AT)) != 0 && n > choice.from_ns)
            choice.from_ns = n;
        if (what == TO || what == AT) {
            /* Rounding down is right here: 1 is within a limit of 1.5. */
            choice.to_ns = n < choice.to_ns ? n : choice.to_ns;
        }
    }
    int rc = kymo_rows_start(c->rows, &choice, err, sizeof err);
    return rc != 0 ? fail(base->pVtab, rc, err) : on_next(base);
}

static int on_eof(sqlite3_vtab_cursor *base)
{
    return ((struct cursor *)base)->eof;
}

static int on_column(sqlite3_vtab_cursor *base, sqlite3_context *ctx, int column)
{
    struct cursor *c = (struct cursor *)base;
    if (kymo_rows_cell(c->rows, (unsigned)column, &c->cell) != 0)
        return SQLITE_NOMEM;
    switch (c->cell.kind) {
    case KYMO_CELL_NULL: sqlite3_result_null(ctx); break;
    case KYMO_CELL_INTEGER:
    case KYMO_CELL_BOOLEAN: sqlite3_result_int64(ctx, c->cell.integer); break;
    case KYMO_CELL_TEXT:
        sqlite3_result_text64(ctx, c->cell.text, c->cell.len, SQLITE_TRANSIENT, SQLITE_UTF8);
        break;
    }
    return SQLITE_OK;
}

static int on_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *id)
{
    *id = kymo_rows_number(((struct cursor *)base)->rows);
    return SQLITE_OK;
}

const sqlite3_module kymo_sql_module = {.iVersion = 1,
                                        .xCreate = on_create,
                                        .xConnect = on_connect,
                                        .xBestIndex = best_index,
                                        .xDisconnect = on_disconnect,
                                        .xDestroy = on_disconnect,
                                        .xOpen = on_open,
                                        .xClose = on_close,
                                        .xFilter = on_filter,
                                        .xNext = on_next,
                                        .xEof = on_eof,
                                        .xColumn = on_column,
                                        .xRowid = on_rowid};
