/* SPDX-License-Identifier: Apache-2.0 */
#include "node_now.h"

#include <inttypes.h>
#include <string.h>

#include "json.h"
#include "kymo_names.h"

enum { SCHEDULERS_SHOWN = 16 }; /* more of them are summed up: a line is for a screen */

void cli_node_now_read(struct cli_node_now *n, const struct kymo_reader *r)
{
    n->r = r;
}

void cli_node_now_free(struct cli_node_now *n)
{
    cli_counters_free(&n->window);
}

/* ---- events ---- */

static void add_level(struct cli_counter *c, uint64_t level)
{
    c->least = c->n == 0 || level < c->least ? level : c->least;
    c->most = level > c->most ? level : c->most;
    c->last = level;
    c->sum += (double)level;
    c->n++;
}

static void on_counters(struct cli_node_now *n, const struct kymo_event *ev)
{
    for (uint32_t i = 0; i < ev->n_counters; i++) {
        struct kymo_counter_value v = kymo_counter_at(ev, i);
        if (kymo_counter_is_ranked(v.counter) && v.index == 1)
            n->busiest[v.counter] = kymo_counter_process(ev, i);
        if (v.counter != KYMO_N_SCHEDULER || v.index == 0 || v.index > CLI_NODE_SCHEDULERS)
            continue;
        add_level(&n->scheduler[v.index], v.value);
        n->last_scheduler = v.index > n->last_scheduler ? v.index : n->last_scheduler;
    }
}

static void on_event(void *arg, const struct kymo_event *ev)
{
    struct cli_node_now *n = arg;
    if (ev->id != KYMO_E_COUNTERS && ev->id != KYMO_E_MONITOR)
        return;
    cli_counters_add(&n->window, n->r, ev);
    on_counters(n, ev);
    if (ev->id == KYMO_E_MONITOR && ev->kind < KYMO_M_COUNT) {
        n->reported[ev->kind].n++;
        n->reported[ev->kind].ns = ev->ns;
        n->reported[ev->kind].value = ev->value;
        n->reported[ev->kind].who = ev->who;
    }
}

struct kymo_analysis_sink cli_node_now_sink(struct cli_node_now *n)
{
    return (struct kymo_analysis_sink){.arg = n, .event = on_event};
}

void cli_node_now_next(struct cli_node_now *n)
{
    for (unsigned i = 0; i < KYMO_N_COUNT; i++) {
        if (n->window.of[i].n != 0)
            n->newest[i] = n->window.of[i];
    }
    memset(n->window.of, 0, sizeof n->window.of);
    memset(n->window.monitored, 0, sizeof n->window.monitored);
    memset(n->scheduler, 0, sizeof n->scheduler);
}

/* ---- text ---- */

/* Of this window, or else of the newest one that had a sample; NULL: not known. */
static const struct cli_counter *counter(const struct cli_node_now *n, unsigned i)
{
    const struct cli_counter *c = n->window.of[i].n != 0 ? &n->window.of[i] : &n->newest[i];
    return c->n != 0 ? c : NULL;
}

static double mean(const struct cli_counter *c)
{
    return c->n != 0 ? c->sum / (double)c->n : 0;
}

static bool any_counter(const struct cli_node_now *n)
{
    for (unsigned i = 0; i < KYMO_N_COUNT; i++) {
        if (counter(n, i) != NULL)
            return true;
    }
    return false;
}

static bool any_report(const struct cli_node_now *n)
{
    for (unsigned i = 0; i < KYMO_M_COUNT; i++) {
        if (n->reported[i].n != 0 && i != KYMO_M_SET)
            return true;
    }
    return false;
}

size_t cli_node_now_lines(const struct cli_node_now *n)
{
    return (any_counter(n) ? 2u : 0u) + (any_report(n) ? 1u : 0u);
}

/* Each begins with `first` or, after one that was known, with a comma. */
struct list {
    FILE *f;
    const char *separator;
};

static void put(struct list *l, const char *before, const char *text, const char *after)
{
    fprintf(l->f, "%s%s%s%s", l->separator, before, text, after);
    l->separator = ", ";
}

static void put_count(struct list *l, const struct cli_node_now *n, unsigned i, const char *after)
{
    const struct cli_counter *c = counter(n, i);
    if (c != NULL)
        put(l, "", CLI_COUNT(c->last), after);
}

static void put_rate(struct list *l, const struct cli_node_now *n, unsigned i, const char *after)
{
    const struct cli_counter *c = counter(n, i);
    if (c != NULL)
        put(l, "", CLI_COUNT(cli_rounded(mean(c))), after);
}

static void put_bytes(struct list *l, const struct cli_node_now *n, unsigned i, const char *before,
                      const char *after)
{
    char text[32];
    const struct cli_counter *c = counter(n, i);
    if (c != NULL)
        put(l, before,
            cli_format_bytes(kymo_counter_is_sum(i) ? cli_rounded(mean(c)) : c->last, text, sizeof text),
            after);
}

/* The newest length and, as it changes fast, the longest. */
static void put_run_queue(struct list *l, const struct cli_node_now *n)
{
    char most[64];
    const struct cli_counter *c = counter(n, KYMO_N_RUN_QUEUE);
    if (c == NULL)
        return;
    snprintf(most, sizeof most, " (at most %s)", CLI_COUNT(c->most));
    put(l, "run queue ", CLI_COUNT(c->last), c->most > c->last ? most : "");
}

static void put_cpu(struct list *l, const struct cli_node_now *n)
{
    char text[32];
    const struct cli_counter *c = counter(n, KYMO_N_CPU_TIME);
    if (c == NULL)
        return;
    snprintf(text, sizeof text, "%.0f", mean(c) / 1e7);
    put(l, "", text, " % of a CPU");
}

/* The newest value of a counter of processes, and the process: "longest mailbox 900 (<0.5.0> shop)". */
static void put_busiest(struct list *l, const struct cli_node_now *n, const struct kymo_naming *names,
                        unsigned i, const char *before)
{
    char value[32], who[1200], text[1300];
    const struct cli_counter *c = counter(n, i);
    if (c == NULL || n->busiest[i] == 0 || n->busiest[i] == KYMO_IDENT_NONE)
        return;
    if (kymo_counter_unit(i) == KYMO_UNIT_BYTES)
        cli_format_bytes(c->last, value, sizeof value);
    else
        cli_format_count(c->last, value, sizeof value);
    kymo_name_process(names, n->busiest[i], who, sizeof who);
    snprintf(text, sizeof text, "%s (%s)", value, who);
    put(l, before, text, "");
}

static void put_node(FILE *f, const struct cli_node_now *n, const struct kymo_naming *names)
{
    struct list l = {.f = f, .separator = "node  "};
    put_run_queue(&l, n);
    put_count(&l, n, KYMO_N_PROCESSES, " processes");
    put_count(&l, n, KYMO_N_PORTS, " ports");
    put_cpu(&l, n);
    put_rate(&l, n, KYMO_N_REDUCTIONS, " reductions/s");
    put_rate(&l, n, KYMO_N_COLLECTIONS, " collections/s");
    put_bytes(&l, n, KYMO_N_INPUT, "", "/s in");
    put_bytes(&l, n, KYMO_N_OUTPUT, "", "/s out");
    l = (struct list){.f = f, .separator = "\nmemory  "};
    put_bytes(&l, n, KYMO_N_MEMORY_TOTAL, "", "");
    put_bytes(&l, n, KYMO_N_MEMORY_PROCESSES, "processes ", "");
    put_bytes(&l, n, KYMO_N_MEMORY_BINARY, "binaries ", "");
    put_bytes(&l, n, KYMO_N_MEMORY_ETS, "ets ", "");
    put_bytes(&l, n, KYMO_N_MEMORY_CODE, "code ", "");
    put_bytes(&l, n, KYMO_N_MEMORY_ATOM, "atoms ", "");
    put_busiest(&l, n, names, KYMO_N_HEAP, "largest heap ");
    put_busiest(&l, n, names, KYMO_N_MAILBOX, "longest mailbox ");
    fputc('\n', f);
}

/* What the newest report of a kind says: "120 ms <0.5.0> shop, 3 s ago". */
static void put_newest(struct list *l, const struct cli_node_now *n, const struct kymo_naming *names,
                       unsigned kind, int64_t end)
{
    char what[64] = "", who[1200] = "", text[1500];
    uint64_t value = n->reported[kind].value;
    if (kind == KYMO_M_LONG_GC || kind == KYMO_M_LONG_SCHEDULE)
        snprintf(what, sizeof what, "%" PRIu64 " ms ", value);
    else if (kind == KYMO_M_LARGE_HEAP)
        snprintf(what, sizeof what, "%s words ", CLI_COUNT(value));
    else if (kind == KYMO_M_LONG_QUEUE)
        snprintf(what, sizeof what, "%s ", value != 0 ? "long" : "short again");
    if (n->reported[kind].who != KYMO_IDENT_NONE)
        kymo_name_process(names, n->reported[kind].who, who, sizeof who);
    int64_t ago = end > n->reported[kind].ns ? end - n->reported[kind].ns : 0;
    snprintf(text, sizeof text, "%s %s (%s%s%s%s ago)", CLI_COUNT(n->reported[kind].n), cli_report_text(kind),
             what, who, who[0] != '\0' ? ", " : "", CLI_DURATION(ago));
    put(l, "", text, "");
}

void cli_node_now_text(FILE *f, const struct cli_node_now *n, const struct kymo_naming *names, int64_t end)
{
    if (any_counter(n))
        put_node(f, n, names);
    if (!any_report(n))
        return;
    struct list l = {.f = f, .separator = "reports  "};
    for (unsigned i = 0; i < KYMO_M_COUNT; i++) {
        if (n->reported[i].n != 0 && i != KYMO_M_SET)
            put_newest(&l, n, names, i, end);
    }
    fputc('\n', f);
}

static void put_dirty(FILE *f, const struct cli_node_now *n, unsigned i, const char *name)
{
    const struct cli_counter *c = counter(n, i);
    if (c != NULL)
        fprintf(f, "  %s %.0f %%", name, mean(c) / 1e4);
}

bool cli_node_now_schedulers(FILE *f, const struct cli_node_now *n)
{
    uint32_t known = 0, busiest = 0;
    for (uint32_t i = 1; i <= n->last_scheduler; i++) {
        if (n->scheduler[i].n == 0)
            continue;
        known++;
        if (busiest == 0 || mean(&n->scheduler[i]) > mean(&n->scheduler[busiest]))
            busiest = i;
    }
    if (known == 0)
        return false;
    for (uint32_t i = 1; known <= SCHEDULERS_SHOWN && i <= n->last_scheduler; i++) {
        if (n->scheduler[i].n != 0)
            fprintf(f, "  s%" PRIu32 " %.0f %%", i, mean(&n->scheduler[i]) / 1e4);
    }
    if (known > SCHEDULERS_SHOWN) {
        put_dirty(f, n, KYMO_N_SCHEDULERS, "all");
        fprintf(f, "  busiest s%" PRIu32 " %.0f %%", busiest, mean(&n->scheduler[busiest]) / 1e4);
    }
    put_dirty(f, n, KYMO_N_DIRTY_CPU, "dirty cpu");
    put_dirty(f, n, KYMO_N_DIRTY_IO, "dirty io");
    return true;
}

/* ---- JSON ---- */

void cli_node_now_json(const struct cli_node_now *n)
{
    cli_counters_json(&n->window);
    cli_json_open("schedulers", '[');
    for (uint32_t i = 1; i <= n->last_scheduler; i++) {
        if (n->scheduler[i].n == 0)
            continue;
        cli_json_open(NULL, '{');
        cli_json_uint("scheduler", i);
        cli_json_uint("utilization_ppm", cli_rounded(mean(&n->scheduler[i])));
        cli_json_close('}');
    }
    cli_json_close(']');
}
