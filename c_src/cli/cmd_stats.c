/* SPDX-License-Identifier: Apache-2.0
 *
 * kymo stats: a table of functions, modules, processes or roles.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "stats.h"

/* ---- order ---- */

static const char *const column_names[CLI_COLUMNS] = {"self", "total", "running", "calls", "max",     "p50",
                                                      "p99",  "gc",    "waiting", "sent",  "received"};

static int64_t column(const struct cli_stats_row *r, enum cli_stats_column c)
{
    switch (c) {
    case CLI_SELF: return r->sums.self;
    case CLI_TOTAL: return r->sums.total;
    case CLI_RUNNING: return r->sums.running;
    case CLI_CALLS: return (int64_t)r->sums.calls;
    case CLI_MAX: return r->sums.max;
    case CLI_P50: return kymo_histogram_quantile(&r->sums.times, 0.5);
    case CLI_P99: return kymo_histogram_quantile(&r->sums.times, 0.99);
    case CLI_GC: return r->sums.gc;
    case CLI_WAITING: return r->waiting;
    case CLI_SENT: return (int64_t)r->sent;
    default: return (int64_t)r->received;
    }
}

static bool is_of_functions(enum cli_stats_by by)
{
    return by == CLI_BY_FUNCTION || by == CLI_BY_MODULE;
}

static bool has_column(enum cli_stats_by by, enum cli_stats_column c)
{
    if (c == CLI_CALLS || c == CLI_RUNNING || c == CLI_MAX || c == CLI_GC)
        return true;
    return is_of_functions(by) ? c == CLI_SELF || c == CLI_TOTAL || c == CLI_P50 || c == CLI_P99
                               : c == CLI_WAITING || c == CLI_SENT || c == CLI_RECEIVED;
}

struct sorted {
    const struct cli_stats_row *row;
    int64_t value;
};

static int largest_first(const void *a, const void *b)
{
    const struct sorted *x = a, *y = b;
    if (x->value != y->value)
        return x->value > y->value ? -1 : 1;
    if (x->row->sums.calls != y->row->sums.calls)
        return x->row->sums.calls > y->row->sums.calls ? -1 : 1;
    return x->row->key < y->row->key ? -1 : x->row->key > y->row->key;
}

/* ---- text ---- */

/* A sum of durations: "-" when none of them is known. */
static const char *sum(int64_t ns, uint64_t known, char *buf, size_t size)
{
    return cli_format_duration(known > 0 ? ns : KYMO_NO_TIME, buf, size);
}
#define SUM(ns, known) sum((ns), (known), (char[32]){0}, 32)
#define QUANTILE(row, q) CLI_DURATION(kymo_histogram_quantile(&(row)->sums.times, q))

static void text_function(const struct cli_stats *s, const struct cli_stats_row *r)
{
    char name[2300];
    cli_stats_name(s, r, name, sizeof name);
    printf("%10s %9s %9s %9s %9s %9s %9s %9s  %s\n", CLI_COUNT(r->sums.calls),
           SUM(r->sums.total, r->sums.ended), SUM(r->sums.self, r->sums.ended),
           SUM(r->sums.running, r->sums.with_running), QUANTILE(r, 0.5), QUANTILE(r, 0.99),
           SUM(r->sums.max, r->sums.ended), SUM(r->sums.gc, s->a->result.has_gc ? r->sums.ended : 0), name);
}

static void text_process(const struct cli_stats *s, const struct cli_stats_row *r)
{
    char name[2300];
    cli_stats_name(s, r, name, sizeof name);
    bool running = s->a->result.has_running;
    if (s->by == CLI_BY_ROLE)
        printf("%9s ", CLI_COUNT(r->processes));
    printf("%9s %9s %9s %9s %9s %9s %9s %10s %9s %9s  %s\n", SUM(r->sums.running, r->sums.with_running),
           CLI_COUNT(r->runs), SUM(r->sums.max, r->sums.with_running),
           SUM(r->waiting, running && r->sums.times.total > 0), QUANTILE(r, 0.99),
           SUM(r->sums.gc, r->collections), SUM(r->gc_max, r->collections), CLI_COUNT(r->sums.calls),
           CLI_COUNT(r->sent), CLI_COUNT(r->received), name);
}

static void text_head(const struct cli_stats *s)
{
    if (is_of_functions(s->by)) {
        printf("%10s %9s %9s %9s %9s %9s %9s %9s  %s\n", "calls", "total", "self", "running", "p50", "p99",
               "max", "gc", s->by == CLI_BY_MODULE ? "module" : "function");
        return;
    }
    if (s->by == CLI_BY_ROLE)
        printf("%9s ", "processes");
    printf("%9s %9s %9s %9s %9s %9s %9s %10s %9s %9s  %s\n", "running", "runs", "max run", "waiting",
           "p99 wait", "gc", "max gc", "calls", "sent", "received",
           s->by == CLI_BY_ROLE ? "role" : "process");
}

/* ---- JSON ---- */

static void json_sum(const char *key, int64_t ns, uint64_t known)
{
    cli_json_ns(key, known > 0 ? ns : KYMO_NO_TIME);
}

static void json_function(const struct cli_stats *s, const struct cli_stats_row *r)
{
    json_sum("total_ns", r->sums.total, r->sums.ended);
    json_sum("self_ns", r->sums.self, r->sums.ended);
    json_sum("running_ns", r->sums.running, r->sums.with_running);
    json_sum("self_running_ns", r->sums.self_running, r->sums.with_running);
    json_sum("gc_ns", r->sums.gc, s->a->result.has_gc ? r->sums.ended : 0);
    cli_json_ns("p50_ns", kymo_histogram_quantile(&r->sums.times, 0.5));
    cli_json_ns("p99_ns", kymo_histogram_quantile(&r->sums.times, 0.99));
    json_sum("max_ns", r->sums.max, r->sums.ended);
    cli_json_uint("calls_with_end", r->sums.ended);
    cli_json_uint("exceptions", r->sums.exceptions);
    if (s->a->histograms)
        cli_json_histogram("histogram", &r->sums.times);
}

static void json_process(const struct cli_stats *s, const struct cli_stats_row *r)
{
    bool running = s->a->result.has_running;
    cli_json_uint("processes", r->processes);
    json_sum("running_ns", r->sums.running, r->sums.with_running);
    cli_json_uint("runs", r->runs);
    json_sum("max_ns", r->sums.max, r->sums.with_running);
    json_sum("waiting_ns", r->waiting, running && r->sums.times.total > 0);
    cli_json_ns("p99_waiting_ns", kymo_histogram_quantile(&r->sums.times, 0.99));
    cli_json_uint("collections", r->collections);
    json_sum("gc_ns", r->sums.gc, r->collections);
    json_sum("gc_max_ns", r->gc_max, r->collections);
    cli_json_uint("sent", r->sent);
    cli_json_uint("received", r->received);
}

static void json_row(const struct cli_stats *s, const struct cli_stats_row *r)
{
    static const char *const keys[] = {"function", "module", "process", "role"};
    char name[2300];
    cli_stats_name(s, r, name, sizeof name);
    cli_json_open(NULL, '{');
    cli_json_text(keys[s->by], name);
    cli_json_uint("calls", r->sums.calls);
    if (is_of_functions(s->by))
        json_function(s, r);
    else
        json_process(s, r);
    if (r->sums.max > 0) {
        cli_json_since(s->a, "max_at_ns", r->sums.max_at);
        cli_json_process(s->a, "max_process", r->sums.max_process);
    }
    cli_json_close('}');
}

/* ---- the command ---- */

int cli_stats_show(const struct cli_stats *s, enum cli_stats_column order)
{
    static const char *const names[] = {"function", "module", "process", "role"};
    struct sorted *rows = calloc(s->rows.count + 1, sizeof *rows);
    size_t n = 0, it = 0;
    if (rows == NULL || s->failed) {
        free(rows);
        return cli_fail(KYMO_EXIT_MEMORY, "out of memory");
    }
    for (const struct cli_stats_row *r; (r = kymo_map_next(&s->rows, &it, NULL)) != NULL;)
        rows[n++] = (struct sorted){r, column(r, order)};
    qsort(rows, n, sizeof *rows, largest_first);
    uint64_t shown = s->a->top < n ? s->a->top : n;
    if (s->a->json) {
        cli_json_open(NULL, '{');
        cli_json_analysis(s->a);
        cli_json_text("by", names[s->by]);
        cli_json_text("sort", column_names[order]);
        cli_json_uint("rows_in_all", n);
        cli_json_open("rows", '[');
    } else if (n > 0) {
        text_head(s);
    }
    for (uint64_t i = 0; i < shown && !cli_output_lost(); i++) {
        if (s->a->json)
            json_row(s, rows[i].row);
        else if (is_of_functions(s->by))
            text_function(s, rows[i].row);
        else
            text_process(s, rows[i].row);
    }
    if (s->a->json) {
        cli_json_close(']');
        cli_json_close('}');
    } else if (shown < n) {
        printf("%s more; -n shows more of them\n", CLI_COUNT(n - shown));
    }
    free(rows);
    return KYMO_EXIT_OK;
}

static void say_what_lacks(const struct cli_stats *s)
{
    const struct kymo_analysis_result *res = &s->a->result;
    if (is_of_functions(s->by)) {
        cli_lacks_calls(s->a, "functions cannot be shown");
        if (res->has_calls) {
            cli_lacks(s->a, res->has_ends, "return_to or return events", "durations of calls are unknown");
            cli_lacks(s->a, res->has_running, "running events", "the time scheduled in is unknown");
        }
    } else {
        cli_lacks(s->a, res->has_running, "running events", "it is unknown when processes ran");
        cli_lacks(s->a, res->has_gc, "garbage_collection events", "the cost of collections is unknown");
    }
    if (s->rows.count == 0 && !s->a->quiet && res->has_calls && is_of_functions(s->by))
        cli_warn("nothing to show: no call matches the options");
    if (s->others > 0)
        cli_warn("the table is limited to 65,536 rows: %s values of further rows are left out",
                 CLI_COUNT(s->others));
}

static int read_by(const char *text, enum cli_stats_by *by)
{
    static const char *const names[] = {"function", "module", "process", "role"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(text, names[i]) == 0) {
            *by = (enum cli_stats_by)i;
            return KYMO_EXIT_OK;
        }
    }
    return cli_usage("stats", "--by: '%s' is not one of function, module, process, role", text);
}

static int read_order(const char *text, enum cli_stats_column *order)
{
    for (unsigned i = 0; i < CLI_COLUMNS; i++) {
        if (strcmp(text, column_names[i]) == 0) {
            *order = (enum cli_stats_column)i;
            return KYMO_EXIT_OK;
        }
    }
    return cli_usage("stats", "--sort: there is no column '%s'", text);
}

int cli_stats(int argc, char **argv)
{
    enum { OPT_BY = 1, OPT_SORT };
    static const struct option options[] = {CLI_ANALYSIS_OPTIONS,
                                            {"by", required_argument, NULL, OPT_BY},
                                            {"sort", required_argument, NULL, OPT_SORT},
                                            {NULL, 0, NULL, 0}};
    struct cli_analysis a;
    struct cli_stats s;
    enum cli_stats_by by = CLI_BY_FUNCTION;
    enum cli_stats_column order = CLI_COLUMNS;
    int status = KYMO_EXIT_OK;
    cli_analysis_init(&a, "stats", 20);
    for (int o;
         status == KYMO_EXIT_OK && (o = getopt_long(argc, argv, CLI_ANALYSIS_SHORT, options, NULL)) != -1;) {
        if (o == OPT_BY)
            status = read_by(optarg, &by);
        else if (o == OPT_SORT)
            status = read_order(optarg, &order);
        else
            status = cli_analysis_option(&a, o, optarg);
    }
    if (order == CLI_COLUMNS)
        order = is_of_functions(by) ? CLI_SELF : CLI_RUNNING;
    if (status == KYMO_EXIT_OK && !is_of_functions(by) && (a.n_functions != 0 || a.filter.n_modules != 0))
        status = cli_usage("stats", "--function and --module work only with --by function and --by module");
    if (status == KYMO_EXIT_OK && !has_column(by, order))
        status = cli_usage("stats", "--sort %s: this table has no such column", column_names[order]);
    if (status == KYMO_EXIT_OK)
        status = cli_one_recording("stats", argc - optind, argv + optind);
    if (status == KYMO_EXIT_OK)
        status = cli_analysis_open(&a, argv[optind]);
    cli_stats_init(&s, &a, by);
    if (status == KYMO_EXIT_OK) {
        struct kymo_analysis_sink sink = cli_stats_sink(&s);
        status = cli_analysis_run(&a, &sink, 1);
    }
    if (status == KYMO_EXIT_OK) {
        say_what_lacks(&s);
        status = cli_stats_show(&s, order);
        if (a.json && status == KYMO_EXIT_OK)
            cli_json_end();
    }
    cli_stats_free(&s);
    return cli_analysis_close(&a, status);
}
