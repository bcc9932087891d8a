/* SPDX-License-Identifier: Apache-2.0
 *
 * kymo check: what is wrong, as found by rules, each a statement of SQL over the tables of a recording.
 *
 * A rule has the columns finding (a sentence), weight (from 0 to 1, the share of the recording, or of a
 * resource, that is concerned) and more (arguments of kymo that show more; REC stands for the recording).
 * Besides the tables it has the functions of SQLite, and duration(ns), bytes(n),
 * recorded_ns() and recording_end_ns().
 */
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check_rules.h"
#include "json.h"
#include "sql_db.h"

struct finding {
    char *text, *more, *rule;
    double weight;
};

struct check {
    const char *dir;
    struct kymo_reader *r;
    sqlite3 *db;
    struct finding *found;
    size_t n;
    bool json, quiet, strict;
};

/* ---- functions of SQL ---- */

static void duration_function(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    char text[32];
    (void)argc;
    if (sqlite3_value_type(argv[0]) != SQLITE_NULL)
        sqlite3_result_text(ctx, cli_format_duration(sqlite3_value_int64(argv[0]), text, sizeof text), -1,
                            SQLITE_TRANSIENT);
}

static void bytes_function(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    char text[32];
    (void)argc;
    if (sqlite3_value_type(argv[0]) == SQLITE_NULL)
        return;
    sqlite3_int64 n = sqlite3_value_int64(argv[0]);
    sqlite3_result_text(ctx, cli_format_bytes(n < 0 ? 0 : (uint64_t)n, text, sizeof text), -1,
                        SQLITE_TRANSIENT);
}

static void time_function(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    (void)argc;
    (void)argv;
    sqlite3_result_int64(ctx, *(const int64_t *)sqlite3_user_data(ctx));
}

/* Both in ns: how long the recording is, and when it ends, since the start of the recorder. */
struct span {
    int64_t length, end;
};

static int read_span(struct kymo_reader *r, const char *dir, struct span *span)
{
    int64_t first = 0, last = 0;
    int rc = kymo_reader_span(r, &first, &last);
    *span = (struct span){1, 0};
    if (rc == -ENODATA)
        return KYMO_EXIT_OK;
    if (rc < 0)
        return cli_fail(cli_read_status(rc), "%s: %s", dir, strerror(-rc));
    if (last > first)
        span->length = (int64_t)((uint64_t)last - (uint64_t)first);
    span->end = (int64_t)((uint64_t)last - (uint64_t)kymo_reader_meta(r)->t0_mono_ns);
    return KYMO_EXIT_OK;
}

static int add_functions(sqlite3 *db, struct span *span)
{
    const int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC;
    int rc = sqlite3_create_function_v2(db, "duration", 1, flags, NULL, duration_function, NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_create_function_v2(db, "bytes", 1, flags, NULL, bytes_function, NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_create_function_v2(db, "recorded_ns", 0, flags, &span->length, time_function, NULL, NULL,
                                        NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_create_function_v2(db, "recording_end_ns", 0, flags, &span->end, time_function, NULL,
                                        NULL, NULL);
    return rc == SQLITE_OK ? KYMO_EXIT_OK : cli_fail(KYMO_EXIT_MEMORY, "out of memory");
}

/* ---- rules ---- */

static char *column_text(sqlite3_stmt *stmt, int column)
{
    const unsigned char *text = sqlite3_column_text(stmt, column);
    return text == NULL ? NULL : strdup((const char *)text);
}

static int add(struct check *c, const char *rule, sqlite3_stmt *stmt)
{
    struct finding *more = realloc(c->found, (c->n + 1) * sizeof *more);
    if (more == NULL)
        return cli_fail(KYMO_EXIT_MEMORY, "out of memory");
    c->found = more;
    struct finding *f = &more[c->n++];
    *f = (struct finding){.text = column_text(stmt, 0), .more = column_text(stmt, 2), .rule = strdup(rule)};
    f->weight = sqlite3_column_double(stmt, 1);
    return f->text != NULL && f->rule != NULL ? KYMO_EXIT_OK : cli_fail(KYMO_EXIT_MEMORY, "out of memory");
}

static bool has_columns(sqlite3_stmt *stmt)
{
    static const char *const names[] = {"finding", "weight", "more"};
    if (sqlite3_column_count(stmt) != 3)
        return false;
    for (int i = 0; i < 3; i++) {
        if (strcmp(sqlite3_column_name(stmt, i), names[i]) != 0)
            return false;
    }
    return true;
}

/* A sentence that is NULL is no finding: a sum over nothing is one row. */
static int run_rule(struct check *c, const char *rule, const char *sql)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(c->db, sql, -1, &stmt, NULL);
    if (rc == SQLITE_OK && (stmt == NULL || !has_columns(stmt))) {
        sqlite3_finalize(stmt);
        return cli_fail(KYMO_EXIT_SQL, "rule %s: its columns must be finding, weight and more", rule);
    }
    int status = KYMO_EXIT_OK;
    while (rc == SQLITE_OK && status == KYMO_EXIT_OK && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        rc = SQLITE_OK;
        if (sqlite3_column_type(stmt, 0) != SQLITE_NULL)
            status = add(c, rule, stmt);
    }
    if (status == KYMO_EXIT_OK && rc != SQLITE_DONE) {
        status = cli_sql_status(c->db);
        cli_warn("rule %s: %s", rule, sqlite3_errmsg(c->db));
    }
    sqlite3_finalize(stmt);
    return status;
}

/* Runs the rule in a file. */
static int run_file(struct check *c, const char *path)
{
    FILE *f = fopen(path, "rb");
    char *sql = f == NULL ? NULL : cli_sql_read(f);
    int status = sql == NULL || ferror(f) ? cli_fail(KYMO_EXIT_READ, "%s: %s", path, strerror(errno))
                                          : run_rule(c, path, sql);
    if (f != NULL)
        fclose(f);
    free(sql);
    return status;
}

static int is_rule(const struct dirent *e)
{
    size_t n = strlen(e->d_name);
    return n > 4 && strcmp(e->d_name + n - 4, ".sql") == 0;
}

/* Runs the rules of a folder. */
static int run_folder(struct check *c, const char *folder)
{
    struct dirent **names = NULL;
    int n = scandir(folder, &names, is_rule, alphasort);
    if (n < 0)
        return cli_fail(KYMO_EXIT_READ, "%s: %s", folder, strerror(errno));
    int status =
        n == 0 ? cli_fail(KYMO_EXIT_USAGE, "%s: it has no rules, files *.sql", folder) : KYMO_EXIT_OK;
    for (int i = 0; i < n; i++) {
        char *path = NULL;
        if (status == KYMO_EXIT_OK && asprintf(&path, "%s/%s", folder, names[i]->d_name) < 0) {
            path = NULL;
            status = cli_fail(KYMO_EXIT_MEMORY, "out of memory");
        }
        if (status == KYMO_EXIT_OK)
            status = run_file(c, path);
        free(path);
        free(names[i]);
    }
    free(names);
    return status;
}

static int run_rules(struct check *c, const char *folder)
{
    int status = KYMO_EXIT_OK;
    for (size_t i = 0; i < check_n_rules && status == KYMO_EXIT_OK; i++)
        status = run_rule(c, check_rules[i].name, check_rules[i].sql);
    return status == KYMO_EXIT_OK && folder != NULL ? run_folder(c, folder) : status;
}

/* ---- output ---- */

static int heavier_first(const void *a, const void *b)
{
    const struct finding *x = a, *y = b;
    return x->weight != y->weight ? (x->weight < y->weight ? 1 : -1) : strcmp(x->text, y->text);
}

static int percent(double weight)
{
    return weight > 0 ? (int)(100 * (weight < 1 ? weight : 1) + 0.5) : 0;
}

/* The command that shows more, with the name of the recording for REC. From malloc; NULL if there is
 * none, or no memory. */
static char *more_command(const struct finding *f, const char *dir)
{
    const char *at = f->more == NULL ? NULL : strstr(f->more, "REC");
    size_t size = f->more == NULL ? 0 : strlen(f->more) + strlen(dir) + 8;
    char *text = f->more == NULL ? NULL : malloc(size);
    if (text != NULL && at == NULL)
        snprintf(text, size, "kymo %s", f->more);
    else if (text != NULL)
        snprintf(text, size, "kymo %.*s%s%s", (int)(at - f->more), f->more, dir, at + 3);
    return text;
}

/* Names of processes and functions come from the recording. */
static void print_text(const struct check *c)
{
    char printable[CLI_NAME_BYTES];
    if (c->n == 0)
        puts("nothing found");
    for (size_t i = 0; i < c->n; i++) {
        char *more = more_command(&c->found[i], c->dir);
        printf("%2zu  %s.  [%s]\n", i + 1, cli_printable(c->found[i].text, printable, sizeof printable),
               c->found[i].rule);
        if (more != NULL)
            printf("      see %s\n", cli_printable(more, printable, sizeof printable));
        free(more);
    }
}

static void print_json(const struct check *c)
{
    cli_json_open(NULL, '{');
    cli_json_open("findings", '[');
    for (size_t i = 0; i < c->n; i++) {
        char *more = more_command(&c->found[i], c->dir);
        cli_json_open(NULL, '{');
        cli_json_uint("number", i + 1);
        cli_json_text("rule", c->found[i].rule);
        cli_json_int("weight_percent", percent(c->found[i].weight));
        cli_json_text("finding", c->found[i].text);
        if (more != NULL)
            cli_json_text("more", more);
        else
            cli_json_null("more");
        cli_json_close('}');
        free(more);
    }
    cli_json_close(']');
    cli_json_close('}');
    cli_json_end();
}

/* What a rule looks for: its second line. */
static void list_rules(void)
{
    for (size_t i = 0; i < check_n_rules; i++) {
        const char *line = strchr(check_rules[i].sql, '\n');
        line += line == NULL ? 0 : strspn(line, "\n- ");
        printf("%-20s  %.*s\n", check_rules[i].name, line == NULL ? 0 : (int)strcspn(line, "\n"),
               line == NULL ? "" : line);
    }
}

static int print_rule(const char *name)
{
    for (size_t i = 0; i < check_n_rules; i++) {
        if (strcmp(check_rules[i].name, name) == 0) {
            fputs(check_rules[i].sql, stdout);
            return cli_flush(KYMO_EXIT_OK);
        }
    }
    return cli_usage("check", "there is no rule %s: kymo check --list names them", name);
}

/* ---- the command ---- */

static int run(struct check *c, const char *folder)
{
    struct span span;
    int status = cli_open(c->dir, &c->r);
    if (status == KYMO_EXIT_OK)
        status = read_span(c->r, c->dir, &span);
    if (status == KYMO_EXIT_OK)
        status = cli_sql_open(c->dir, &c->db);
    if (status == KYMO_EXIT_OK)
        status = add_functions(c->db, &span);
    if (status == KYMO_EXIT_OK)
        status = run_rules(c, folder);
    if (status == KYMO_EXIT_OK) {
        if (c->n > 0)
            qsort(c->found, c->n, sizeof *c->found, heavier_first);
        c->json ? print_json(c) : print_text(c);
        status = cli_flush(KYMO_EXIT_OK);
    }
    if (status == KYMO_EXIT_OK && (c->strict || !c->quiet))
        status = cli_say_incomplete(c->r, c->strict);
    if (status == KYMO_EXIT_OK && c->n > 0)
        status = KYMO_EXIT_FINDINGS;
    sqlite3_close(c->db);
    kymo_reader_close(c->r);
    for (size_t i = 0; i < c->n; i++) {
        free(c->found[i].text);
        free(c->found[i].more);
        free(c->found[i].rule);
    }
    free(c->found);
    return status;
}

int cli_check(int argc, char **argv)
{
    enum { OPT_JSON = 1, OPT_LIST, OPT_PRINT, OPT_RULES, OPT_QUIET, OPT_STRICT };
    static const struct option options[] = {{"json", no_argument, NULL, OPT_JSON},
                                            {"list", no_argument, NULL, OPT_LIST},
                                            {"print", required_argument, NULL, OPT_PRINT},
                                            {"rules", required_argument, NULL, OPT_RULES},
                                            {"quiet", no_argument, NULL, OPT_QUIET},
                                            {"strict", no_argument, NULL, OPT_STRICT},
                                            {NULL, 0, NULL, 0}};
    struct check c = {.db = NULL};
    const char *folder = NULL, *rule = NULL;
    bool list = false;
    for (int opt; (opt = getopt_long(argc, argv, "q", options, NULL)) != -1;) {
        switch (opt) {
        case OPT_JSON: c.json = true; break;
        case OPT_LIST: list = true; break;
        case OPT_PRINT: rule = optarg; break;
        case OPT_RULES: folder = optarg; break;
        case 'q':
        case OPT_QUIET: c.quiet = true; break;
        case OPT_STRICT: c.strict = true; break;
        default: return cli_bad_option("check");
        }
    }
    if (list || rule != NULL) {
        if (optind != argc)
            return cli_usage("check", "--list and --print take no recording");
        if (rule != NULL)
            return print_rule(rule);
        list_rules();
        return cli_flush(KYMO_EXIT_OK);
    }
    int status = cli_one_recording("check", argc - optind, argv + optind);
    if (status != KYMO_EXIT_OK)
        return status;
    c.dir = argv[optind];
    return run(&c, folder);
}
