/* SPDX-License-Identifier: Apache-2.0 */
#include "top.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "json.h"

static const char *const names[CLI_TOP_COLUMNS] = {"calls",   "self", "p99", "max",
                                                   "running", "in",   "out", "waiting"};

bool cli_top_sort_by(struct cli_top_order *o, const char *name)
{
    for (int i = 0; i < CLI_TOP_COLUMNS; i++) {
        if (strcmp(names[i], name) != 0)
            continue;
        if (i < CLI_TOP_FUNCTION_COLUMNS)
            o->functions = (enum cli_top_column)i;
        else
            o->processes = (enum cli_top_column)i;
        return true;
    }
    return false;
}

const char *cli_top_column_name(enum cli_top_column c)
{
    return names[c];
}

const char *cli_top_column_names(void)
{
    return "calls, self, p99, max, running, in, out or waiting";
}

/* ---- rows ---- */

struct row {
    uint64_t key;
    int64_t order[2]; /* sort keys, in descending order */
    const struct kymo_window_function *function;
    const struct kymo_window_process *process;
    int64_t p50, p99, max;
    uint32_t waiting;
};

struct rows {
    struct row *row;
    size_t n;
};

static int64_t column_of_function(const struct row *r, enum cli_top_column c)
{
    if (r->function == NULL)
        return 0;
    return c == CLI_TOP_CALLS ? (int64_t)r->function->calls : r->function->self;
}

static int64_t column_of_process(const struct row *r, enum cli_top_column c)
{
    if (r->process == NULL)
        return 0;
    return c == CLI_TOP_RUNNING ? r->process->running
           : c == CLI_TOP_IN    ? (int64_t)r->process->received
                                : (int64_t)r->process->sent;
}

static int64_t column(const struct row *r, enum cli_top_column c)
{
    switch (c) {
    case CLI_TOP_CALLS:
    case CLI_TOP_SELF: return column_of_function(r, c);
    case CLI_TOP_P99: return r->p99;
    case CLI_TOP_MAX: return r->max;
    case CLI_TOP_RUNNING:
    case CLI_TOP_IN:
    case CLI_TOP_OUT: return column_of_process(r, c);
    default: return (int64_t)r->waiting;
    }
}

static int largest_first(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    for (int i = 0; i < 2; i++) {
        if (x->order[i] != y->order[i])
            return x->order[i] > y->order[i] ? -1 : 1;
    }
    return x->key < y->key ? -1 : x->key > y->key;
}

static void sort(struct rows *rows, enum cli_top_column by, enum cli_top_column then)
{
    for (size_t i = 0; i < rows->n; i++) {
        rows->row[i].order[0] = column(&rows->row[i], by);
        rows->row[i].order[1] = column(&rows->row[i], then);
    }
    if (rows->n > 0)
        qsort(rows->row, rows->n, sizeof *rows->row, largest_first);
}

static bool functions(const struct cli_live *l, const struct cli_top_order *o, struct rows *rows)
{
    const struct kymo_window *w = &l->window;
    size_t it = 0;
    uint64_t key;
    rows->n = 0;
    rows->row = calloc(w->functions.count + 1, sizeof *rows->row);
    if (rows->row == NULL)
        return false;
    for (const struct kymo_window_function *f; (f = kymo_map_next(&w->functions, &it, &key)) != NULL;) {
        if (f->calls == 0 && f->self == 0 && f->times.total == 0)
            continue;
        rows->row[rows->n++] = (struct row){.key = key,
                                            .function = f,
                                            .p50 = kymo_histogram_quantile(&f->times, 0.5),
                                            .p99 = kymo_histogram_quantile(&f->times, 0.99),
                                            .max = f->times.total > 0 ? f->times.max : KYMO_NO_TIME};
    }
    sort(rows, o->functions, CLI_TOP_CALLS);
    return true;
}

static bool processes(const struct cli_live *l, const struct cli_top_order *o, struct rows *rows)
{
    const struct kymo_window *w = &l->window;
    size_t it = 0;
    uint64_t key;
    rows->n = 0;
    rows->row = calloc(w->processes.count + 1, sizeof *rows->row);
    if (rows->row == NULL)
        return false;
    for (const struct kymo_window_process *p; (p = kymo_map_next(&w->processes, &it, &key)) != NULL;) {
        uint32_t waiting = kymo_live_pending(l->an, key);
        if (kymo_naming_is_own(l->a.naming, key))
            continue;
        if (p->running != 0 || p->calls != 0 || p->sent != 0 || p->received != 0 || waiting != 0)
            rows->row[rows->n++] = (struct row){.key = key, .process = p, .waiting = waiting};
    }
    sort(rows, o->processes, CLI_TOP_IN);
    return true;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static int64_t window_ns(const struct cli_live *l)
{
    return l->end > l->window.start ? l->end - l->window.start : 1;
}

/* ---- text ---- */

static const char *rate(const struct cli_live *l, uint64_t n, char *buf, size_t size)
{
    double per_s = (double)n * 1e9 / (double)window_ns(l);
    if (n > 0 && per_s < 9.95)
        snprintf(buf, size, "%.1f", per_s);
    else
        cli_format_count((uint64_t)(per_s + 0.5), buf, size);
    return buf;
}
#define RATE(l, n) rate((l), (n), (char[32]){0}, 32)

static const char *share(const struct cli_live *l, int64_t ns, char *buf, size_t size)
{
    snprintf(buf, size, "%.1f %%", 100.0 * (double)ns / (double)window_ns(l));
    return buf;
}
#define SHARE(l, ns) share((l), (ns), (char[32]){0}, 32)

static bool is_scheduler(const struct kymo_slot *s)
{
    return s->used != 0 && s->thread_kind == KYMO_T_SCHEDULER;
}

/* Prints the utilisation of the schedulers from the counters. Without counters: how long the
 * schedulers, and the dirty schedulers that were busy, ran recorded processes. */
static void put_schedulers(FILE *f, const struct cli_live *l)
{
    uint32_t n;
    const struct kymo_slot *slots = kymo_reader_slots(l->a.r, &n);
    fputs("schedulers", f);
    if (cli_node_now_schedulers(f, &l->node)) {
        fputc('\n', f);
        return;
    }
    if (!l->window.has_running) {
        fputs(" not known: the recording has neither counters nor scheduling (running)\n", f);
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        char name[64];
        if (!is_scheduler(&slots[i]) && l->window.threads[i].busy == 0)
            continue;
        kymo_format_thread(&slots[i], i, name, sizeof name);
        fprintf(f, "  %s %.0f %%", name, 100.0 * (double)l->window.threads[i].busy / (double)window_ns(l));
    }
    fputc('\n', f);
}

static void put_summary(FILE *f, const struct cli_live *l, bool short_time)
{
    enum { DATE = 11, DATE_AND_TIME = 19 };
    const struct kymo_window *w = &l->window;
    char when[64];
    cli_format_local(kymo_reader_wall_ns(l->a.r, l->end), when, sizeof when);
    when[least(strlen(when), DATE_AND_TIME)] = '\0';
    fprintf(f, "%s  over %s: %s events/s, %s calls/s, %s messages/s, %s collections/s\n",
            when + (short_time ? least(strlen(when), DATE) : 0), CLI_DURATION(window_ns(l)),
            RATE(l, w->events), RATE(l, w->calls), RATE(l, w->messages), RATE(l, w->collections));
    put_schedulers(f, l);
    cli_node_now_text(f, &l->node, l->a.naming, l->end);
    fprintf(f, "lost %s/s", RATE(l, l->lost));
    if (l->skipped > 0)
        fprintf(f, "; kymo cannot keep up: skipped %s, about %s events", CLI_DURATION(l->skipped),
                CLI_COUNT(l->skipped_events));
    if (w->others > 0)
        fprintf(f, "; no room for %s events of further functions and processes", CLI_COUNT(w->others));
    fputc('\n', f);
}

bool cli_top_text(FILE *f, const struct cli_live *l, const struct cli_top_order *o,
                  const struct cli_top_size *s)
{
    struct rows rows;
    char name[2300];
    const char *mark = s->marks ? "\001" : "";
    put_summary(f, l, s->marks);
    if (!functions(l, o, &rows))
        return false;
    fprintf(f, "\n%s   CALLS/s      SELF    MEDIAN      99 %%       MAX  FUNCTION\n", mark);
    for (size_t i = 0; i < least(rows.n, s->functions); i++) {
        const struct row *r = &rows.row[i];
        kymo_name_function(l->a.naming, (uint32_t)r->key, name, sizeof name);
        fprintf(f, "%10s %9s %9s %9s %9s  %s\n", RATE(l, r->function->calls),
                kymo_live_result(l->an)->has_ends ? SHARE(l, r->function->self) : "-", CLI_DURATION(r->p50),
                CLI_DURATION(r->p99), CLI_DURATION(r->max), name);
    }
    free(rows.row);
    if (!processes(l, o, &rows))
        return false;
    fprintf(f, "\n%s   RUNNING      IN/s     OUT/s   CALLS/s   WAITING  PROCESS\n", mark);
    for (size_t i = 0; i < least(rows.n, s->processes); i++) {
        const struct row *r = &rows.row[i];
        kymo_name_process(l->a.naming, r->key, name, sizeof name);
        fprintf(f, "%10s %9s %9s %9s %9" PRIu32 "  %s\n",
                l->window.has_running ? SHARE(l, r->process->running) : "-", RATE(l, r->process->received),
                RATE(l, r->process->sent), RATE(l, r->process->calls), r->waiting, name);
    }
    free(rows.row);
    return true;
}

/* ---- JSON ---- */

static void json_threads(const struct cli_live *l)
{
    uint32_t n;
    const struct kymo_slot *slots = kymo_reader_slots(l->a.r, &n);
    cli_json_open("threads", '[');
    for (uint32_t i = 0; l->window.has_running && i < n; i++) {
        char name[64];
        if (!is_scheduler(&slots[i]) && l->window.threads[i].busy == 0)
            continue;
        kymo_format_thread(&slots[i], i, name, sizeof name);
        cli_json_open(NULL, '{');
        cli_json_text("thread", name);
        cli_json_ns("busy_ns", l->window.threads[i].busy);
        cli_json_close('}');
    }
    cli_json_close(']');
}

static bool json_functions(const struct cli_live *l, const struct cli_top_order *o, size_t most)
{
    struct rows rows;
    if (!functions(l, o, &rows))
        return false;
    cli_json_uint("n_functions", rows.n);
    cli_json_open("functions", '[');
    for (size_t i = 0; i < least(rows.n, most); i++) {
        const struct row *r = &rows.row[i];
        cli_json_open(NULL, '{');
        cli_json_function(&l->a, "function", (uint32_t)r->key);
        cli_json_uint("calls", r->function->calls);
        cli_json_uint("ended", r->function->times.total);
        cli_json_ns("self_ns", kymo_live_result(l->an)->has_ends ? r->function->self : KYMO_NO_TIME);
        cli_json_ns("p50_ns", r->p50);
        cli_json_ns("p99_ns", r->p99);
        cli_json_ns("max_ns", r->max);
        cli_json_close('}');
    }
    cli_json_close(']');
    free(rows.row);
    return true;
}

static bool json_processes(const struct cli_live *l, const struct cli_top_order *o, size_t most)
{
    struct rows rows;
    if (!processes(l, o, &rows))
        return false;
    cli_json_uint("n_processes", rows.n);
    cli_json_open("processes", '[');
    for (size_t i = 0; i < least(rows.n, most); i++) {
        const struct row *r = &rows.row[i];
        cli_json_open(NULL, '{');
        cli_json_process(&l->a, "process", r->key);
        cli_json_ns("running_ns", l->window.has_running ? r->process->running : KYMO_NO_TIME);
        cli_json_uint("received", r->process->received);
        cli_json_uint("sent", r->process->sent);
        cli_json_uint("calls", r->process->calls);
        cli_json_uint("waiting", r->waiting);
        cli_json_close('}');
    }
    cli_json_close(']');
    free(rows.row);
    return true;
}

bool cli_top_json(const struct cli_live *l, const struct cli_top_order *o, const struct cli_top_size *s)
{
    const struct kymo_window *w = &l->window;
    cli_json_open(NULL, '{');
    cli_json_since(&l->a, "from_ns", w->start);
    cli_json_since(&l->a, "to_ns", l->end);
    cli_json_int("unix_ns", kymo_reader_wall_ns(l->a.r, l->end));
    cli_json_uint("events", w->events);
    cli_json_uint("calls", w->calls);
    cli_json_uint("messages", w->messages);
    cli_json_uint("collections", w->collections);
    cli_json_uint("lost", l->lost);
    cli_json_ns("skipped_ns", l->skipped);
    cli_json_uint("skipped_events", l->skipped_events);
    cli_json_uint("without_room", w->others);
    json_threads(l);
    cli_node_now_json(&l->node);
    bool good = json_functions(l, o, s->functions) && json_processes(l, o, s->processes);
    cli_json_close('}');
    cli_json_end();
    return good;
}
