/* SPDX-License-Identifier: Apache-2.0
 *
 * kymo sql: statements of SQL over the tables of a recording, in a database in memory.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sql_db.h"
#include "sql_print.h"
#include "sql_tables.h"

struct sql {
    sqlite3 *db;
    struct kymo_reader *r; /* for warnings about the recording */
    struct cli_sql_printer printer;
    bool quiet, strict;
};

static int sql_error(sqlite3 *db)
{
    int status = cli_sql_status(db);
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

/* ---- the command ---- */

static int run(struct sql *s, const char *dir, const char *query)
{
    char *input = NULL;
    int status = cli_open(dir, &s->r);
    if (status == KYMO_EXIT_OK && strcmp(query, "-") == 0) {
        query = input = cli_sql_read(stdin);
        if (input == NULL) {
            cli_warn("out of memory");
            status = KYMO_EXIT_MEMORY;
        }
    }
    if (status == KYMO_EXIT_OK)
        status = cli_sql_open(dir, &s->db);
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
