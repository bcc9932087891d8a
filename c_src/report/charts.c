/* SPDX-License-Identifier: Apache-2.0 */
#include "charts.h"

#include <stdlib.h>

#include "counters.h"
#include "json.h"
#include "kymo_names.h"
#include "kymo_timeline.h"

struct report_chart {
    double sum[CHART_PARTS]; /* by part of the recording */
    uint32_t n[CHART_PARTS];
    uint64_t least, most, last, values;
    double total;
};

void report_charts_init(struct report_charts *c, struct cli_analysis *a, int64_t first, int64_t last)
{
    *c = (struct report_charts){.a = a, .first = first, .last = last > first ? last : first + 1};
    kymo_map_init(&c->lines, sizeof(struct report_chart *));
}

void report_charts_free(struct report_charts *c)
{
    size_t it = 0;
    for (struct report_chart **line; (line = kymo_map_next(&c->lines, &it, NULL)) != NULL;)
        free(*line);
    kymo_map_free(&c->lines);
    kymo_gauges_free(&c->gauges);
    free(c->reports);
}

/* ---- collecting ---- */

static struct report_chart *line_of(struct report_charts *c, const struct kymo_gauge *g)
{
    uint64_t key =
        (uint64_t)kymo_timeline_of_slot(c->a->r, g->slot) << 32 | (uint64_t)g->counter << 16 | g->index;
    bool added;
    struct report_chart **line = kymo_map_put(&c->lines, key, &added);
    if (line == NULL)
        return NULL;
    if (added)
        *line = calloc(1, sizeof **line);
    return *line;
}

static void add(struct report_charts *c, const struct kymo_gauge *g)
{
    uint64_t level;
    struct report_chart *line = kymo_gauge_level(g, &level) ? line_of(c, g) : NULL;
    if (line == NULL || g->ns < c->first || g->ns > c->last)
        return;
    double share = ((double)g->ns - (double)c->first) / ((double)c->last - (double)c->first);
    unsigned part = (unsigned)(share * CHART_PARTS);
    part = part < CHART_PARTS ? part : CHART_PARTS - 1;
    line->sum[part] += (double)level;
    line->n[part]++;
    line->least = line->values == 0 || level < line->least ? level : line->least;
    line->most = level > line->most ? level : line->most;
    line->last = level;
    line->total += (double)level;
    line->values++;
}

static void keep_report(struct report_charts *c, const struct kymo_event *ev)
{
    c->all_reports++;
    if (c->reports == NULL)
        c->reports = calloc(CHART_REPORTS, sizeof *c->reports);
    if (c->reports == NULL)
        c->failed = true;
    else if (c->n_reports < CHART_REPORTS)
        c->reports[c->n_reports++] = *ev;
}

static void on_event(void *arg, const struct kymo_event *ev)
{
    struct report_charts *c = arg;
    struct kymo_gauge g;
    for (uint32_t i = 0; i < ev->n_counters; i++) {
        if (kymo_gauges_next(&c->gauges, c->a->r, ev, i, &g))
            add(c, &g);
    }
    if (ev->id == KYMO_E_MONITOR)
        keep_report(c, ev);
}

struct kymo_analysis_sink report_charts_sink(struct report_charts *c)
{
    return (struct kymo_analysis_sink){.arg = c, .event = on_event};
}

/* ---- output ---- */

static void put_line(const struct report_charts *c, uint64_t key, const struct report_chart *line)
{
    unsigned counter = (unsigned)(key >> 16 & 0xffff), index = (unsigned)(key & 0xffff);
    cli_json_open(NULL, '{');
    cli_json_text("counter", kymo_counter_name(counter));
    cli_json_uint("scheduler", index);
    if (kymo_timeline_size(c->a->r) > 1)
        cli_json_text("node", kymo_timeline_name(c->a->r, (uint32_t)(key >> 32)));
    cli_json_text("unit", kymo_unit_name(kymo_counter_unit(counter)));
    cli_json_bool("per_second", kymo_counter_is_sum(counter));
    cli_json_uint("samples", line->values);
    cli_json_uint("min", line->least);
    cli_json_uint("mean", cli_rounded(line->total / (double)line->values));
    cli_json_uint("max", line->most);
    cli_json_uint("last", line->last);
    cli_json_open("parts", '[');
    for (unsigned i = 0; i < CHART_PARTS; i++) {
        if (line->n[i] > 0)
            cli_json_uint(NULL, cli_rounded(line->sum[i] / line->n[i]));
        else
            cli_json_null(NULL);
    }
    cli_json_close(']');
    cli_json_close('}');
}

static void put_report(const struct report_charts *c, const struct kymo_event *ev)
{
    char text[2300];
    const char *kind = kymo_monitor_name(ev->kind);
    cli_json_open(NULL, '{');
    cli_json_since(c->a, "ns", ev->ns);
    cli_json_text("kind", kind != NULL ? kind : "?");
    if (ev->who != KYMO_IDENT_NONE)
        cli_json_process(c->a, "process", ev->who);
    if (ev->peer != KYMO_IDENT_NONE) {
        kymo_format_ident(c->a->r, ev->peer, text, sizeof text);
        cli_json_text("port", text);
    }
    cli_json_uint("value", ev->value);
    cli_json_close('}');
}

/* Orders lines by counter, then by scheduler or rank. */
static int by_key(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static int put_lines(struct report_charts *c)
{
    uint64_t *keys = calloc(c->lines.count + 1, sizeof *keys), key;
    size_t n = 0, it = 0;
    if (keys == NULL)
        return cli_fail(KYMO_EXIT_MEMORY, "out of memory");
    while (kymo_map_next(&c->lines, &it, &key) != NULL)
        keys[n++] = key;
    qsort(keys, n, sizeof *keys, by_key);
    cli_json_open("lines", '[');
    for (size_t i = 0; i < n; i++) {
        struct report_chart *const *line = kymo_map_get(&c->lines, keys[i]);
        if (line == NULL || *line == NULL)
            c->failed = true;
        else if ((*line)->values > 0)
            put_line(c, keys[i], *line);
    }
    cli_json_close(']');
    free(keys);
    return KYMO_EXIT_OK;
}

int report_charts_json(struct report_charts *c, const char *key)
{
    cli_json_open(key, '{');
    cli_json_since(c->a, "from_ns", c->first);
    cli_json_since(c->a, "to_ns", c->last);
    int status = put_lines(c);
    cli_json_uint("reports_in_all", c->all_reports);
    cli_json_open("reports", '[');
    for (size_t i = 0; i < c->n_reports; i++)
        put_report(c, &c->reports[i]);
    cli_json_close(']');
    cli_json_close('}');
    return status == KYMO_EXIT_OK && c->failed ? cli_fail(KYMO_EXIT_MEMORY, "out of memory") : status;
}
