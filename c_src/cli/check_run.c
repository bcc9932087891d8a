/* SPDX-License-Identifier: Apache-2.0 */
#include "check_run.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
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

/* The state of one run. */
struct run {
    const struct check *check;
    const char *dir;
    struct kymo_reader *r;
    sqlite3 *db;
    struct finding *found;
    size_t n;
    bool named; /* the name of the recording was printed */
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

/* counted(n, 'process') is '1 process' or '2 processes'. A number that is not whole is rounded first. */
static void counted_function(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    (void)argc;
    const char *one = (const char *)sqlite3_value_text(argv[1]);
    if (one == NULL || sqlite3_value_type(argv[0]) == SQLITE_NULL)
        return;
    sqlite3_int64 n = llround(sqlite3_value_double(argv[0]));
    size_t length = strlen(one);
    bool hisses = length > 0 && strchr("sxh", one[length - 1]) != NULL;
    char *text = sqlite3_mprintf("%lld %s%s", n, one, n == 1 ? "" : hisses ? "es" : "s");
    if (text == NULL)
        sqlite3_result_error_nomem(ctx);
    else
        sqlite3_result_text(ctx, text, -1, sqlite3_free);
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
        rc = sqlite3_create_function_v2(db, "counted", 2, flags, NULL, counted_function, NULL, NULL, NULL);
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

static int add(struct run *c, const char *rule, sqlite3_stmt *stmt)
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
static int run_rule(struct run *c, const char *rule, const char *sql)
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

/* ---- rules of a folder ---- */

static int read_rule(struct check *c, char *path)
{
    struct check_own *more = realloc(c->own, (c->n_own + 1) * sizeof *more);
    if (more == NULL || path == NULL) {
        c->own = more != NULL ? more : c->own;
        free(path);
        return cli_fail(KYMO_EXIT_MEMORY, "out of memory");
    }
    c->own = more;
    struct check_own *rule = &more[c->n_own++];
    FILE *f = fopen(path, "rb");
    *rule = (struct check_own){.path = path, .sql = f == NULL ? NULL : cli_sql_read(f)};
    int status = rule->sql == NULL || ferror(f) ? cli_fail(KYMO_EXIT_READ, "%s: %s", path, strerror(errno))
                                                : KYMO_EXIT_OK;
    if (f != NULL)
        fclose(f);
    return status;
}

static int is_rule(const struct dirent *e)
{
    size_t n = strlen(e->d_name);
    return n > 4 && strcmp(e->d_name + n - 4, ".sql") == 0;
}

int check_read_rules(struct check *c, const char *folder)
{
    struct dirent **names = NULL;
    int n = scandir(folder, &names, is_rule, alphasort);
    if (n < 0)
        return cli_fail(KYMO_EXIT_READ, "%s: %s", folder, strerror(errno));
    int status =
        n == 0 ? cli_fail(KYMO_EXIT_USAGE, "%s: it has no rules, files *.sql", folder) : KYMO_EXIT_OK;
    for (int i = 0; i < n; i++) {
        char *path = NULL;
        if (status == KYMO_EXIT_OK && asprintf(&path, "%s/%s", folder, names[i]->d_name) < 0)
            path = NULL;
        if (status == KYMO_EXIT_OK)
            status = read_rule(c, path);
        free(names[i]);
    }
    free(names);
    return status;
}

void check_free(struct check *c)
{
    for (size_t i = 0; i < c->n_own; i++) {
        free(c->own[i].path);
        free(c->own[i].sql);
    }
    free(c->own);
}

/* ---- all rules ---- */

static int run_rules(struct run *c)
{
    int status = KYMO_EXIT_OK;
    if (sqlite3_exec(c->db, check_tables, NULL, NULL, NULL) != SQLITE_OK) {
        status = cli_sql_status(c->db);
        cli_warn("the tables of rules: %s", sqlite3_errmsg(c->db));
    }
    for (size_t i = 0; i < check_n_rules && status == KYMO_EXIT_OK; i++)
        status = run_rule(c, check_rules[i].name, check_rules[i].sql);
    for (size_t i = 0; i < c->check->n_own && status == KYMO_EXIT_OK; i++)
        status = run_rule(c, c->check->own[i].path, c->check->own[i].sql);
    return status;
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

/* Copies a name as one word of a shell: in quotation marks if it has more than plain characters. to: room
 * for four bytes for each of the name, and three more. */
static void quote(const char *name, char *to)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./:=@%+,-";
    if (*name != 0 && name[strspn(name, plain)] == 0) {
        memcpy(to, name, strlen(name) + 1);
        return;
    }
    *to++ = '\'';
    for (; *name != 0; name++) {
        if (*name == '\'') {
            memcpy(to, "'\\'", 3);
            to += 3;
        }
        *to++ = *name;
    }
    to[0] = '\'';
    to[1] = '\0';
}

/* The command that shows more, with the name of the recording for REC. From malloc; NULL if there is
 * none, none is wanted, or no memory. */
static char *more_command(struct run *c, const struct finding *f)
{
    bool shown = f->more != NULL && !c->check->brief;
    const char *at = shown ? strstr(f->more, "REC") : NULL;
    size_t room = 4 * strlen(c->dir) + 4, size = shown ? strlen(f->more) + room + 8 : 0;
    char *text = shown ? malloc(size) : NULL, *dir = shown ? malloc(room) : NULL;
    if (text != NULL && dir != NULL && at != NULL) {
        quote(c->dir, dir);
        snprintf(text, size, "kymo %.*s%s%s", (int)(at - f->more), f->more, dir, at + 3);
        c->named = true;
    } else if (text != NULL) {
        snprintf(text, size, "kymo %s", f->more);
    }
    free(dir);
    return text;
}

/* Names of processes and functions come from the recording. */
static void print_text(struct run *c)
{
    char printable[CLI_NAME_BYTES];
    if (c->n == 0)
        puts("nothing found");
    for (size_t i = 0; i < c->n; i++) {
        char *more = more_command(c, &c->found[i]);
        printf("%2zu  %s.  [%s]\n", i + 1, cli_printable(c->found[i].text, printable, sizeof printable),
               c->found[i].rule);
        if (more != NULL)
            printf("      see %s\n", cli_printable(more, printable, sizeof printable));
        free(more);
    }
}

static void print_json(struct run *c)
{
    cli_json_open(NULL, '{');
    cli_json_text("recording", c->dir);
    c->named = true;
    cli_json_open("findings", '[');
    for (size_t i = 0; i < c->n; i++) {
        char *more = more_command(c, &c->found[i]);
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

/* ---- a recording ---- */

/* A shorter recording has too few of the node's counters to judge anything. */
#define SHORTEST_NS INT64_C(250000000)

/* Says so if the recording was interrupted. A signal may also come when it has ended: a recording is a little
 * shorter than was asked for. */
static int say_interrupted(const struct check *check, const struct span *span)
{
    char length[32], wanted[32];
    if (check->wanted_ns == 0 || span->length >= check->wanted_ns - check->wanted_ns / 20)
        return KYMO_EXIT_OK;
    cli_format_duration(check->wanted_ns, wanted, sizeof wanted);
    cli_format_duration(span->length, length, sizeof length);
    if (span->length < SHORTEST_NS)
        return cli_fail(
            KYMO_EXIT_NODE,
            "interrupted after %s of %s: that is too little to judge the node: let it record longer", length,
            wanted);
    cli_warn("interrupted after %s of %s: the recording is incomplete", length, wanted);
    return KYMO_EXIT_OK;
}

int check_recording(const struct check *check, const char *dir, bool *named)
{
    struct run run = {.check = check, .dir = dir}, *c = &run;
    struct span span;
    int status = cli_open(dir, &c->r);
    if (status == KYMO_EXIT_OK)
        status = read_span(c->r, dir, &span);
    if (status == KYMO_EXIT_OK)
        status = say_interrupted(check, &span);
    if (status == KYMO_EXIT_OK)
        status = cli_sql_open(dir, &c->db);
    if (status == KYMO_EXIT_OK)
        status = add_functions(c->db, &span);
    if (status == KYMO_EXIT_OK)
        status = run_rules(c);
    if (status == KYMO_EXIT_OK) {
        if (c->n > 0)
            qsort(c->found, c->n, sizeof *c->found, heavier_first);
        check->json ? print_json(c) : print_text(c);
        status = cli_flush(KYMO_EXIT_OK);
    }
    *named = c->named && status == KYMO_EXIT_OK;
    if (status == KYMO_EXIT_OK && (check->strict || !check->quiet))
        status = cli_say_incomplete(c->r, check->strict);
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
