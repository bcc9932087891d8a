/* SPDX-License-Identifier: Apache-2.0 */
#include "sql_db.h"

#include <stdlib.h>

#include "kymo_sql.h"

/* Rejects everything that would read or write another file. */
static int authorize(void *arg, int action, const char *a, const char *b, const char *c, const char *d)
{
    (void)arg;
    (void)a;
    (void)b;
    (void)c;
    (void)d;
    return action == SQLITE_ATTACH || action == SQLITE_DETACH ? SQLITE_DENY : SQLITE_OK;
}

int cli_sql_status(sqlite3 *db)
{
    switch (sqlite3_errcode(db) & 0xff) {
    case SQLITE_NOMEM: return KYMO_EXIT_MEMORY;
    case SQLITE_IOERR: return KYMO_EXIT_READ;
    case SQLITE_FULL: return KYMO_EXIT_WRITE;
    default: return KYMO_EXIT_SQL;
    }
}

int cli_sql_open(const char *dir, sqlite3 **db)
{
    sqlite3_stmt *stmt = NULL;
    /* The extension is linked into this program; SQLite expects the entry point with this type. */
    sqlite3_auto_extension((void (*)(void))sqlite3_kymosqlite_init);
    int rc = sqlite3_open(":memory:", db);
    if (rc == SQLITE_OK)
        rc = sqlite3_prepare_v2(*db, "select kymo_open(?)", -1, &stmt, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_text(stmt, 1, dir, -1, SQLITE_STATIC);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(stmt) == SQLITE_ROW ? SQLITE_OK : SQLITE_ERROR;
    int status = rc == SQLITE_OK ? KYMO_EXIT_OK : cli_fail(KYMO_EXIT_READ, "%s", sqlite3_errmsg(*db));
    sqlite3_finalize(stmt);
    sqlite3_set_authorizer(*db, authorize, NULL);
    return status;
}

char *cli_sql_read(FILE *f)
{
    size_t n = 0, room = 4096;
    char *text = malloc(room);
    while (text != NULL) {
        n += fread(text + n, 1, room - n - 1, f);
        if (n + 1 < room)
            break;
        char *more = realloc(text, room *= 2);
        if (more == NULL)
            free(text);
        text = more;
    }
    if (text != NULL)
        text[n] = '\0';
    return text;
}
