/* SPDX-License-Identifier: Apache-2.0
 *
 * kymo diff: functions that take longer, or are called more often, in recording B than in
 * recording A. Functions are matched by name, because dictionary ids differ.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "kymo_recorded.h"
#include "stats.h"

/* A difference of means beyond this many standard errors is significant. */
#define SURE 3.0

/* One function in one recording. */
struct side {
    char *name;
    uint64_t calls, ended;
    int64_t self, p50, p99, max;
    double mean, error; /* of the duration of a call in ns, and its standard error */
    double seconds;     /* time for which its calls were recorded */
};

struct sides {
    struct side *p;
    size_t n;
    double seconds;
};

struct change {
    const struct side *a, *b; /* NULL: not called there */
    double per_second;        /* change of self time per second of recording, in ns */
    double times;             /* b's mean / a's, 0 = not known */
    double rate;              /* b's calls per second / a's, 0 = not known */
    bool slower, faster;      /* beyond the noise */
};

/* ---- one recording ---- */

/* Estimates the standard error of the mean from the histogram, whose buckets are narrow
 * compared with the variation of durations. */
static double standard_error(const struct cli_stats_row *row, double mean)
{
    double sum = 0;
    if (row->sums.times.total < 2)
        return INFINITY;
    for (unsigned i = 0; i < row->sums.times.count; i++) {
        double d = (double)kymo_histogram_value((unsigned)row->sums.times.first + i) - mean;
        sum += d * d * (double)row->sums.times.n[i];
    }
    double n = (double)row->sums.times.total;
    return sqrt(sum / (n - 1) / n);
}

static double mean_of(const struct cli_stats_row *row)
{
    double sum = 0;
    for (unsigned i = 0; i < row->sums.times.count; i++)
        sum +=
            (double)kymo_histogram_value((unsigned)row->sums.times.first + i) * (double)row->sums.times.n[i];
    return row->sums.times.total > 0 ? sum / (double)row->sums.times.total : 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct side *)a)->name, ((const struct side *)b)->name);
}

static int collect(struct cli_analysis *a, struct sides *out)
{
    struct cli_stats s;
    struct kymo_recorded recorded = {.first = 0};
    char name[2300];
    cli_stats_init(&s, a, CLI_BY_FUNCTION);
    struct kymo_analysis_sink sink = cli_stats_sink(&s);
    int status = cli_analysis_run(a, &sink, 1);
    out->p = calloc(s.rows.count + 1, sizeof *out->p);
    if (status == KYMO_EXIT_OK && (out->p == NULL || s.failed))
        status = cli_fail(KYMO_EXIT_MEMORY, "out of memory");
    bool any = a->result.first != KYMO_NO_TIME;
    out->seconds = any ? (double)(a->result.last - a->result.first) / 1e9 : 0;
    if (status == KYMO_EXIT_OK && any &&
        kymo_recorded_init(&recorded, a->r, a->result.first, a->result.last) != 0)
        status = cli_fail(KYMO_EXIT_MEMORY, "out of memory");
    size_t it = 0;
    for (const struct cli_stats_row *r;
         status == KYMO_EXIT_OK && out->p != NULL && (r = kymo_map_next(&s.rows, &it, NULL)) != NULL;) {
        struct side *f = &out->p[out->n];
        cli_stats_name(&s, r, name, sizeof name);
        f->name = strdup(name);
        if (f->name == NULL) {
            status = cli_fail(KYMO_EXIT_MEMORY, "out of memory");
            break;
        }
        out->n++;
        f->calls = r->sums.calls;
        f->ended = r->sums.ended;
        f->self = r->sums.self;
        f->p50 = kymo_histogram_quantile(&r->sums.times, 0.5);
        f->p99 = kymo_histogram_quantile(&r->sums.times, 0.99);
        f->max = r->sums.ended > 0 ? r->sums.max : KYMO_NO_TIME;
        f->mean = mean_of(r);
        f->error = standard_error(r, f->mean);
        f->seconds = (double)kymo_recorded_ns(&recorded, (uint32_t)r->key) / 1e9;
    }
    if (out->n > 1)
        qsort(out->p, out->n, sizeof *out->p, by_name);
    kymo_recorded_free(&recorded);
    cli_stats_free(&s);
    return status;
}

static void free_sides(struct sides *s)
{
    for (size_t i = 0; i < s->n; i++)
        free(s->p[i].name);
    free(s->p);
}

/* ---- the difference ---- */

static double per_second(const struct side *s, double v)
{
    return s != NULL && s->seconds > 0 ? v / s->seconds : 0;
}

/* As an integer, of which a function that was recorded for some nanoseconds may need a larger one. */
static int64_t whole_ns(double ns)
{
    const double most = 9.2e18;
    return (int64_t)(ns > most ? most : ns < -most ? -most : ns);
}

static struct change compare(const struct side *a, const struct side *b)
{
    struct change c = {.a = a, .b = b};
    c.per_second =
        per_second(b, b != NULL ? (double)b->self : 0) - per_second(a, a != NULL ? (double)a->self : 0);
    if (a == NULL || b == NULL)
        return c;
    double rate = per_second(a, (double)a->calls);
    c.rate = rate > 0 ? per_second(b, (double)b->calls) / rate : 0;
    if (a->ended == 0 || b->ended == 0 || a->mean <= 0)
        return c;
    c.times = b->mean / a->mean;
    double noise = SURE * sqrt(a->error * a->error + b->error * b->error);
    c.slower = b->mean - a->mean > noise;
    c.faster = a->mean - b->mean > noise;
    return c;
}

static int largest_change(const void *x, const void *y)
{
    const struct change *a = x, *b = y;
    double u = fabs(a->per_second), v = fabs(b->per_second);
    return u > v ? -1 : u < v;
}

static const char *name_of(const struct change *c)
{
    return c->b != NULL ? c->b->name : c->a->name;
}

static const char *verdict(const struct change *c)
{
    if (c->a == NULL)
        return "new";
    if (c->b == NULL)
        return "gone";
    if (c->slower)
        return "slower";
    if (c->faster)
        return "faster";
    return c->times > 0 ? "noise" : "unknown";
}

static void ratio(double v, char *buf, size_t size)
{
    if (v > 0)
        snprintf(buf, size, "x%.2f", v);
    else
        snprintf(buf, size, "-");
}

static const char *mean(const struct side *s, char *buf, size_t size)
{
    return cli_format_duration(s != NULL && s->ended > 0 ? (int64_t)s->mean : KYMO_NO_TIME, buf, size);
}

static void text_change(const struct change *c)
{
    char times[32], rate[32], before[32], after[32];
    ratio(c->times, times, sizeof times);
    ratio(c->rate, rate, sizeof rate);
    printf("%s%9s %9s %9s %8s %8s  %-7s  %s\n", c->per_second < 0 ? "-" : "+",
           CLI_DURATION(whole_ns(fabs(c->per_second))), mean(c->a, before, sizeof before),
           mean(c->b, after, sizeof after), times, rate, verdict(c), name_of(c));
}

static void json_side(const char *key, const struct side *s)
{
    if (s == NULL) {
        cli_json_null(key);
        return;
    }
    bool known = s->ended > 0;
    cli_json_open(key, '{');
    cli_json_uint("calls", s->calls);
    cli_json_ns("recorded_ns", (int64_t)(s->seconds * 1e9));
    cli_json_ns("self_ns", known ? s->self : KYMO_NO_TIME);
    cli_json_ns("mean_ns", known ? (int64_t)s->mean : KYMO_NO_TIME);
    cli_json_ns("error_ns", known && isfinite(s->error) ? (int64_t)s->error : KYMO_NO_TIME);
    cli_json_ns("p50_ns", s->p50);
    cli_json_ns("p99_ns", s->p99);
    cli_json_ns("max_ns", s->max);
    cli_json_close('}');
}

static void json_change(const struct change *c)
{
    cli_json_open(NULL, '{');
    cli_json_text("function", name_of(c));
    cli_json_text("verdict", verdict(c));
    cli_json_int("self_ns_per_second", whole_ns(c->per_second));
    json_side("a", c->a);
    json_side("b", c->b);
    cli_json_close('}');
}

static int show(const struct cli_analysis *o, const struct sides *a, const struct sides *b)
{
    struct change *changes = calloc(a->n + b->n + 1, sizeof *changes);
    size_t n = 0, i = 0, j = 0;
    if (changes == NULL)
        return cli_fail(KYMO_EXIT_MEMORY, "out of memory");
    while (i < a->n || j < b->n) {
        int order = i == a->n ? 1 : j == b->n ? -1 : strcmp(a->p[i].name, b->p[j].name);
        changes[n++] = compare(order <= 0 ? &a->p[i] : NULL, order >= 0 ? &b->p[j] : NULL);
        i += order <= 0;
        j += order >= 0;
    }
    qsort(changes, n, sizeof *changes, largest_change);
    if (o->json) {
        cli_json_open(NULL, '{');
        cli_json_int("a_ns", (int64_t)(a->seconds * 1e9));
        cli_json_int("b_ns", (int64_t)(b->seconds * 1e9));
        cli_json_uint("rows_in_all", n);
        cli_json_open("rows", '[');
    } else if (n > 0) {
        printf("%10s %9s %9s %8s %8s  %-7s  %s\n", "self per s", "mean A", "mean B", "time", "calls/s",
               "verdict", "function (slower, faster: by more than 3 standard errors)");
    }
    for (size_t k = 0; k < n && k < o->top && !cli_output_lost(); k++) {
        if (o->json)
            json_change(&changes[k]);
        else
            text_change(&changes[k]);
    }
    if (o->json) {
        cli_json_close(']');
        cli_json_close('}');
        cli_json_end();
    } else if (n > o->top) {
        printf("%s more; -n shows more of them\n", CLI_COUNT(n - o->top));
    }
    free(changes);
    return KYMO_EXIT_OK;
}

/* ---- the command ---- */

static int read_side(struct cli_analysis *a, const char *dir, struct sides *out)
{
    int status = cli_analysis_open(a, dir);
    if (status == KYMO_EXIT_OK)
        status = collect(a, out);
    if (status == KYMO_EXIT_OK && !a->result.has_ends && !a->quiet)
        cli_warn("%s has no return_to or return events, so durations of calls are unknown", dir);
    return status;
}

int cli_diff(int argc, char **argv)
{
    static const struct option options[] = {CLI_ANALYSIS_OPTIONS, {NULL, 0, NULL, 0}};
    struct cli_analysis side[2];
    struct sides sides[2] = {{NULL, 0, 0}, {NULL, 0, 0}};
    int status = KYMO_EXIT_OK;
    cli_analysis_init(&side[0], "diff", 20);
    cli_analysis_init(&side[1], "diff", 20);
    for (int o;
         status == KYMO_EXIT_OK && (o = getopt_long(argc, argv, CLI_ANALYSIS_SHORT, options, NULL)) != -1;) {
        status = cli_analysis_option(&side[0], o, optarg);
        if (status == KYMO_EXIT_OK)
            status = cli_analysis_option(&side[1], o, optarg);
    }
    if (status == KYMO_EXIT_OK && argc - optind != 2)
        status = cli_usage("diff", "diff needs two recordings, but %d are given", argc - optind);
    for (int i = 0; i < 2 && status == KYMO_EXIT_OK; i++)
        status = cli_one_recording("diff", 1, argv + optind + i);
    for (int i = 0; i < 2 && status == KYMO_EXIT_OK; i++)
        status = read_side(&side[i], argv[optind + i], &sides[i]);
    if (status == KYMO_EXIT_OK)
        status = show(&side[0], &sides[0], &sides[1]);
    free_sides(&sides[0]);
    free_sides(&sides[1]);
    status = cli_analysis_close(&side[1], status);
    return cli_analysis_close(&side[0], status);
}
