/* SPDX-License-Identifier: Apache-2.0
 *
 * kymo sql: statements of SQL over the tables of a recording, in a database in memory.
 */
#include <getopt.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kymo_sql.h"
#include "sql_print.h"
#include "sql_tables.h"

struct sql {
    sqlite3 *db;
    struct kymo_reader *r; /* for warnings about the recording */
    struct cli_sql_printer printer;
    bool quiet, strict;
};

/* Allows to attach other recordings, but rejects everything that would write a file. */
static int authorize(void *arg, int action, const char *a, const char *b, const char *c, const char *d)
{
    (void)arg;
    (void)a;
    (void)b;
    (void)c;
    (void)d;
    return action == SQLITE_ATTACH || action == SQLITE_DETACH ? SQLITE_DENY : SQLITE_OK;
}

static int sql_error(sqlite3 *db)
{
    int code = sqlite3_errcode(db) & 0xff;
    int status = code == SQLITE_NOMEM   ? KYMO_EXIT_MEMORY
                 : code == SQLITE_IOERR ? KYMO_EXIT_READ
                 : code == SQLITE_FULL  ? KYMO_EXIT_WRITE
                                        : KYMO_EXIT_SQL;
    const char *text = sqlite3_errmsg(db);
    cli_warn("%s", text);
    if (strncmp(text, "no such table", 13) == 0)
        cli_sql_name_tables();
    if (strncmp(text, "no such", 7) == 0)
        fputs("'kymo sql --tables' lists them with their columns.\n", stderr);
    return status;
}

/* ---- statements ---- */

static int run_statement(struct sql *s, sqlite3_stmt *stmt)
{
    int rc = sqlite3_step(stmt);
    /* No header for a statement that fails at its first step. */
    bool shows = sqlite3_column_count(stmt) > 0 && (rc == SQLITE_ROW || rc == SQLITE_DONE);
    if (shows)
        cli_sql_begin(&s->printer, stmt);
    while (rc == SQLITE_ROW && !s->printer.failed && !cli_output_lost()) {
        cli_sql_row(&s->printer);
        rc = sqlite3_step(stmt);
    }
    if (shows)
        cli_sql_end(&s->printer);
    if (s->printer.failed)
        return cli_fail(KYMO_EXIT_MEMORY, "out of memory");
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? KYMO_EXIT_OK : sql_error(s->db);
}

static int run_all(struct sql *s, const char *text)
{
    int status = KYMO_EXIT_OK;
    while (status == KYMO_EXIT_OK && *text != '\0' && !cli_output_lost()) {
        sqlite3_stmt *stmt = NULL;
        if (sqlite3_prepare_v2(s->db, text, -1, &stmt, &text) != SQLITE_OK)
            status = sql_error(s->db);
        else if (stmt != NULL) /* NULL for white space and comments */
            status = run_statement(s, stmt);
        sqlite3_finalize(stmt);
    }
    return status;
}

static int open_tables(struct sql *s, const char *dir)
{
    sqlite3_stmt *stmt = NULL;
    /* The extension is linked into this program; SQLite expects the entry point with this type. */
    sqlite3_auto_extension((void (*)(void))sqlite3_kymosqlite_init);
    int rc = sqlite3_open(":memory:", &s->db);
    if (rc == SQLITE_OK)
        rc = sqlite3_prepare_v2(s->db, "select kymo_open(?)", -1, &stmt, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_text(stmt, 1, dir, -1, SQLITE_STATIC);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(stmt) == SQLITE_ROW ? SQLITE_OK : SQLITE_ERROR;
    int status = rc == SQLITE_OK ? KYMO_EXIT_OK : cli_fail(KYMO_EXIT_READ, "%s", sqlite3_errmsg(s->db));
    sqlite3_finalize(stmt);
    sqlite3_set_authorizer(s->db, authorize, NULL);
    return status;
}

/* ---- the command ---- */

/* Reads all of standard input. Allocated with malloc; NULL if there is no memory, or on a read
 * error. */
static char *read_input(void)
{
    size_t n = 0, room = 4096;
    char *text = malloc(room);
    while (text != NULL) {
        n += fread(text + n, 1, room - n - 1, stdin);
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

static int run(struct sql *s, const char *dir, const char *query)
{
    char *input = NULL;
    int status = cli_open(dir, &s->r);
    if (status == KYMO_EXIT_OK && strcmp(query, "-") == 0) {
        query = input = read_input();
        if (input == NULL) {
            cli_warn("out of memory");
            status = KYMO_EXIT_MEMORY;
        }
    }
    if (status == KYMO_EXIT_OK)
        status = open_tables(s, dir);
    if (status == KYMO_EXIT_OK)
        status = cli_flush(run_all(s, query));
    if (status == KYMO_EXIT_OK && (s->strict || !s->quiet))
        status = cli_say_incomplete(s->r, s->strict);
    sqlite3_close(s->db);
    kymo_reader_close(s->r);
    free(input);
    return status;
}

int cli_sql(int argc, char **argv)
{
    enum { OPT_JSON = 1, OPT_CSV, OPT_TABLES, OPT_QUIET, OPT_STRICT };
    static const struct option options[] = {
        {"json", no_argument, NULL, OPT_JSON},     {"csv", no_argument, NULL, OPT_CSV},
        {"tables", no_argument, NULL, OPT_TABLES}, {"quiet", no_argument, NULL, OPT_QUIET},
        {"strict", no_argument, NULL, OPT_STRICT}, {NULL, 0, NULL, 0}};
    struct sql s = {.db = NULL};
    bool tables = false;
    for (int opt; (opt = getopt_long(argc, argv, "q", options, NULL)) != -1;) {
        switch (opt) {
        case OPT_JSON: s.printer.format = CLI_SQL_JSON; break;
        case OPT_CSV: s.printer.format = CLI_SQL_CSV; break;
        case OPT_TABLES: tables = true; break;
        case 'q':
        case OPT_QUIET: s.quiet = true; break;
        case OPT_STRICT: s.strict = true; break;
        default: return cli_bad_option("sql");
        }
    }
    if (tables) {
        if (optind != argc)
            return cli_usage("sql", "--tables takes no argument");
        cli_sql_tables();
        return cli_flush(KYMO_EXIT_OK);
    }
    if (argc - optind != 2)
        return cli_usage("sql", "sql needs a recording, and the statements in one argument");
    int status = cli_one_recording("sql", 1, argv + optind);
    return status == KYMO_EXIT_OK ? run(&s, argv[optind], argv[optind + 1]) : status;
}
