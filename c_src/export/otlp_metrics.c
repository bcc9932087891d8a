/* SPDX-License-Identifier: Apache-2.0 */
#include "otlp_metrics.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "kymo_names.h"
#include "kymo_timeline.h"

/* In the order of metrics, reports of the system monitor come after the counters. */
enum { OF_MONITOR = KYMO_N_COUNT };

/* One value. */
struct value {
    uint16_t counter; /* enum kymo_counter, or OF_MONITOR */
    uint16_t index;   /* number of the scheduler, rank of the process, or enum kymo_monitor */
    int64_t start;    /* of a sum */
    int64_t ns;
    uint64_t n;
};

/* Consecutive values of a sum, since its first value or its last reset. */
struct sequence {
    int64_t start;
    uint64_t last;
};

struct kymo_otlp_metrics_node {
    int64_t first; /* time of its first event, KYMO_NO_TIME before that */
    uint64_t reports[KYMO_M_COUNT];
    uint32_t n_values;
    struct value values[KYMO_OTLP_POINTS];
};

int kymo_otlp_metrics_init(struct kymo_otlp_metrics *x, const struct kymo_reader *r,
                           struct kymo_otlp_writer *writers, uint32_t n)
{
    *x = (struct kymo_otlp_metrics){.r = r, .writers = writers, .n = n};
    kymo_map_init(&x->sums, sizeof(struct sequence));
    x->nodes = calloc(n, sizeof *x->nodes);
    if (x->nodes == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++)
        x->nodes[i].first = KYMO_NO_TIME;
    return 0;
}

void kymo_otlp_metrics_free(struct kymo_otlp_metrics *x)
{
    kymo_map_free(&x->sums);
    free(x->nodes);
    x->nodes = NULL;
}

/* ---- names of metrics ---- */

static const char *unit_of(unsigned counter)
{
    switch (counter) {
    case KYMO_N_RUN_QUEUE:
    case KYMO_N_RUN_QUEUE_CPU:
    case KYMO_N_RUN_QUEUE_IO: return "{task}";
    case KYMO_N_MAILBOX: return "{message}";
    case KYMO_N_PROCESSES: return "{process}";
    case KYMO_N_PORTS: return "{port}";
    case KYMO_N_ATOMS: return "{atom}";
    case KYMO_N_ETS: return "{table}";
    case KYMO_N_REDUCTIONS: return "{reduction}";
    case KYMO_N_CONTEXT_SWITCHES: return "{switch}";
    case KYMO_N_COLLECTIONS: return "{collection}";
    case OF_MONITOR: return "{report}";
    default: break;
    }
    switch (kymo_counter_unit(counter)) {
    case KYMO_UNIT_BYTES: return "By";
    case KYMO_UNIT_NS: return "s";
    case KYMO_UNIT_SHARE:
    case KYMO_UNIT_COUNT: break;
    }
    return "1";
}

static void name_of(unsigned counter, char *name, size_t size)
{
    if (counter == KYMO_N_CPU_TIME) /* the only one with a name in the semantic conventions */
        snprintf(name, size, "process.cpu.time");
    else
        snprintf(name, size, "erlang.%s",
                 counter == OF_MONITOR ? "system_monitor.reports" : kymo_counter_name(counter));
}

/* ---- writing ---- */

static int in_order(const void *a, const void *b)
{
    const struct value *x = a, *y = b;
    if (x->counter != y->counter)
        return x->counter < y->counter ? -1 : 1;
    if (x->index != y->index)
        return x->index < y->index ? -1 : 1;
    return x->ns < y->ns ? -1 : x->ns > y->ns;
}

static void write_value(struct kymo_otlp_metrics *x, struct kymo_otlp_writer *w, const struct value *v,
                        bool sum)
{
    struct kymo_otlp_point p = {.time = kymo_reader_wall_ns(x->r, v->ns), .n = v->n};
    if (sum)
        p.start = kymo_reader_wall_ns(x->r, v->start);
    p.has_start = sum;
    if (v->counter == OF_MONITOR) {
        p.key = "erlang.system_monitor.kind";
        p.text = kymo_monitor_name(v->index);
    } else {
        if (v->index != 0) {
            p.key = kymo_counter_is_ranked(v->counter) ? "erlang.process.rank" : "erlang.scheduler.id";
            p.number = v->index;
        }
        p.divisor = kymo_counter_unit(v->counter) == KYMO_UNIT_SHARE ? 1e6
                    : kymo_counter_unit(v->counter) == KYMO_UNIT_NS  ? 1e9
                                                                     : 0;
    }
    kymo_otlp_point(w, &p);
}

/* Writes all collected values of a node as one line, with each metric once. */
static void write_values(struct kymo_otlp_metrics *x, uint32_t node)
{
    struct kymo_otlp_metrics_node *m = &x->nodes[node];
    struct kymo_otlp_writer *w = &x->writers[node];
    char name[64];
    qsort(m->values, m->n_values, sizeof *m->values, in_order);
    for (uint32_t i = 0; i < m->n_values;) {
        unsigned counter = m->values[i].counter;
        bool sum = counter == OF_MONITOR || kymo_counter_is_sum(counter);
        name_of(counter, name, sizeof name);
        kymo_otlp_metric_begin(w, name, unit_of(counter), sum);
        for (; i < m->n_values && m->values[i].counter == counter; i++)
            write_value(x, w, &m->values[i], sum);
        kymo_otlp_metric_end(w, sum);
    }
    x->points += m->n_values;
    m->n_values = 0;
    kymo_otlp_metrics_line(w);
}

void kymo_otlp_metrics_finish(struct kymo_otlp_metrics *x)
{
    for (uint32_t i = 0; i < x->n; i++) {
        if (x->nodes[i].n_values > 0)
            write_values(x, i);
    }
}

/* ---- events ---- */

static void add(struct kymo_otlp_metrics *x, uint32_t node, const struct value *v)
{
    struct kymo_otlp_metrics_node *m = &x->nodes[node];
    m->values[m->n_values++] = *v;
    if (m->n_values == KYMO_OTLP_POINTS)
        write_values(x, node);
}

/* The start time of a sum. As the protocol prescribes for an unknown start time, the first value
 * starts at its own time, and so does a value that is lower than the previous one (a reset). */
static int64_t start_of(struct kymo_otlp_metrics *x, uint32_t node, const struct value *v)
{
    bool added;
    uint64_t key = (uint64_t)node << 32 | (uint64_t)v->counter << 16 | v->index;
    struct sequence *s = kymo_map_put(&x->sums, key, &added);
    if (s == NULL) {
        x->failed = true;
        return v->ns;
    }
    if (added || v->n < s->last)
        s->start = v->ns;
    s->last = v->n;
    return s->start;
}

static void on_event(void *arg, const struct kymo_event *ev)
{
    struct kymo_otlp_metrics *x = arg;
    uint32_t node = kymo_timeline_of_slot(x->r, ev->slot);
    struct kymo_otlp_metrics_node *m = &x->nodes[node];
    if (m->first == KYMO_NO_TIME)
        m->first = ev->ns;
    if (ev->id == KYMO_E_MONITOR && ev->kind < KYMO_M_FIRST_NOTE && kymo_monitor_name(ev->kind) != NULL) {
        struct value v = {.counter = OF_MONITOR,
                          .index = ev->kind,
                          .start = m->first,
                          .ns = ev->ns,
                          .n = ++m->reports[ev->kind]};
        add(x, node, &v);
    }
    for (uint32_t i = 0; i < ev->n_counters; i++) {
        struct kymo_counter_value c = kymo_counter_at(ev, i);
        struct value v = {.counter = c.counter, .index = c.index, .ns = ev->ns, .n = c.value};
        if (kymo_counter_name(c.counter) == NULL || c.counter == KYMO_N_BUSY_PROCESS)
            continue;
        if (kymo_counter_is_sum(c.counter))
            v.start = start_of(x, node, &v);
        add(x, node, &v);
    }
}

struct kymo_analysis_sink kymo_otlp_metrics_sink(struct kymo_otlp_metrics *x)
{
    return (struct kymo_analysis_sink){.arg = x, .event = on_event};
}
