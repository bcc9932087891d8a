/* SPDX-License-Identifier: Apache-2.0 */
#include <sqlite3ext.h>
SQLITE_EXTENSION_INIT1

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kymo_sql.h"
#include "sql_int.h"

struct kymo_sql {
    struct kymo_sql_recording *first;
    unsigned users; /* the module and the function */
};

/* ---- recordings ---- */

int kymo_sql_use(struct kymo_sql *sql, const char *dir, struct kymo_sql_recording **out, char *err,
                 size_t err_size)
{
    struct kymo_sql_recording *rec = sql->first;
    while (rec != NULL && strcmp(rec->dir, dir) != 0)
        rec = rec->next;
    *out = rec;
    if (rec != NULL) {
        rec->users++;
        return 0;
    }
    rec = calloc(1, sizeof *rec);
    int rc = rec == NULL ? -ENOMEM : 0;
    if (rc == 0) {
        rec->dir = strdup(dir);
        rc = rec->dir == NULL ? -ENOMEM : kymo_view_open(dir, &rec->view, err, err_size);
    }
    if (rc != 0) {
        if (rc == -ENOMEM)
            sqlite3_snprintf((int)err_size, err, "not enough memory");
        if (rec != NULL)
            free(rec->dir);
        free(rec);
        return rc;
    }
    rec->users = 1;
    rec->owner = sql;
    rec->next = sql->first;
    sql->first = rec;
    *out = rec;
    return 0;
}

void kymo_sql_release(struct kymo_sql_recording *rec)
{
    if (--rec->users > 0)
        return;
    struct kymo_sql_recording **at = &rec->owner->first;
    while (*at != rec)
        at = &(*at)->next;
    *at = rec->next;
    kymo_view_close(rec->view);
    free(rec->dir);
    free(rec);
}

/* ---- kymo_open ---- */

static bool is_prefix(const char *s)
{
    for (; *s != '\0'; s++) {
        if (!isalnum((unsigned char)*s) && *s != '_')
            return false;
    }
    return true;
}

/* The name of a table that exists already, from sqlite3_malloc; NULL if all names are free. */
static char *taken_name(sqlite3 *db, const char *prefix)
{
    for (unsigned i = 0; i < KYMO_TABLES; i++) {
        char *name = sqlite3_mprintf("%s%s", prefix, kymo_tables[i].name);
        if (name == NULL ||
            sqlite3_table_column_metadata(db, "temp", name, NULL, NULL, NULL, NULL, NULL, NULL) == SQLITE_OK)
            return name;
        sqlite3_free(name);
    }
    return NULL;
}

static int create_tables(sqlite3 *db, const char *dir, const char *prefix, char **err)
{
    int rc = SQLITE_OK;
    for (unsigned i = 0; i < KYMO_TABLES && rc == SQLITE_OK; i++) {
        char *text = sqlite3_mprintf("create virtual table temp.\"%w%s\" using kymo(%Q, %Q)", prefix,
                                     kymo_tables[i].name, dir, kymo_tables[i].name);
        rc = text == NULL ? SQLITE_NOMEM : sqlite3_exec(db, text, NULL, NULL, err);
        sqlite3_free(text);
    }
    return rc;
}

static void open_function(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    struct kymo_sql *sql = sqlite3_user_data(ctx);
    sqlite3 *db = sqlite3_context_db_handle(ctx);
    bool right = argc == 1 || argc == 2;
    const char *dir = right ? (const char *)sqlite3_value_text(argv[0]) : NULL;
    const char *prefix = argc == 2 ? (const char *)sqlite3_value_text(argv[1]) : "";
    struct kymo_sql_recording *rec;
    char err[512] = "", *text = NULL;
    if (dir == NULL || prefix == NULL || !is_prefix(prefix)) {
        sqlite3_result_error(
            ctx, "kymo_open(folder [, prefix]): prefix may have letters, digits and underscores", -1);
        return;
    }
    char *taken = taken_name(db, prefix);
    if (taken != NULL) {
        text = sqlite3_mprintf("table %s exists: kymo_open(folder, prefix) gives other names", taken);
        sqlite3_result_error(ctx, text != NULL ? text : "out of memory", -1);
        sqlite3_free(text);
        sqlite3_free(taken);
        return;
    }
    /* Opened here first, so that an error is reported only once. */
    if (kymo_sql_use(sql, dir, &rec, err, sizeof err) != 0) {
        sqlite3_result_error(ctx, err, -1);
        return;
    }
    int rc = create_tables(db, dir, prefix, &text);
    kymo_sql_release(rec);
    if (rc == SQLITE_OK)
        sqlite3_result_int(ctx, KYMO_TABLES);
    else
        sqlite3_result_error(ctx, text != NULL ? text : sqlite3_errstr(rc), -1);
    sqlite3_free(text);
}

/* ---- registration ---- */

/* Called by SQLite once for the module and once for the function. */
static void drop(void *arg)
{
    struct kymo_sql *sql = arg;
    if (--sql->users == 0)
        free(sql);
}

__attribute__((visibility("default"))) int sqlite3_kymosqlite_init(sqlite3 *db, char **err,
                                                                   const struct sqlite3_api_routines *api)
{
    SQLITE_EXTENSION_INIT2(api)
    (void)err;
    struct kymo_sql *sql = calloc(1, sizeof *sql);
    if (sql == NULL)
        return SQLITE_NOMEM;
    /* SQLite also calls drop if a registration fails. */
    sql->users = 2;
    int rc = sqlite3_create_module_v2(db, "kymo", &kymo_sql_module, sql, drop);
    if (rc != SQLITE_OK) {
        drop(sql);
        return rc;
    }
    return sqlite3_create_function_v2(db, "kymo_open", -1, SQLITE_UTF8 | SQLITE_DIRECTONLY, sql,
                                      open_function, NULL, NULL, drop);
}
