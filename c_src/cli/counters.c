/* SPDX-License-Identifier: Apache-2.0 */
#include "counters.h"

#include <inttypes.h>
#include <stdio.h>

#include "json.h"
#include "kymo_cli.h"
#include "kymo_names.h"

void cli_counters_free(struct cli_counters *c)
{
    kymo_gauges_free(&c->gauges);
}

static void add(struct cli_counters *c, const struct kymo_gauge *g)
{
    struct cli_counter *one = &c->of[g->counter];
    uint64_t level;
    if (kymo_counter_is_ranked(g->counter) && g->index != 1) /* the others are lower */
        return;
    if (!kymo_gauge_level(g, &level))
        return;
    if (one->n++ == 0)
        one->least = level;
    if (one->n == 1 || level > one->most)
        one->who = g->process;
    one->least = level < one->least ? level : one->least;
    one->most = level > one->most ? level : one->most;
    one->last = level;
    one->sum += (double)level;
}

void cli_counters_add(struct cli_counters *c, const struct kymo_reader *r, const struct kymo_event *ev)
{
    struct kymo_gauge g;
    if (ev->id == KYMO_E_MONITOR && ev->kind < KYMO_M_COUNT)
        c->monitored[ev->kind]++;
    for (uint32_t i = 0; i < ev->n_counters; i++) {
        if (kymo_gauges_next(&c->gauges, r, ev, i, &g))
            add(c, &g);
    }
}

static double mean(const struct cli_counter *c)
{
    return c->sum / (double)c->n;
}

static bool any_counter(const struct cli_counters *c)
{
    for (unsigned i = 0; i < KYMO_N_COUNT; i++) {
        if (c->of[i].n != 0)
            return true;
    }
    return false;
}

/* Formats a value: bytes with a unit, shares in percent. */
static const char *shown(unsigned counter, double level, char *buf, size_t size)
{
    uint64_t n = cli_rounded(level);
    switch (kymo_counter_unit(counter)) {
    case KYMO_UNIT_BYTES: return cli_format_bytes(n, buf, size);
    case KYMO_UNIT_SHARE: snprintf(buf, size, "%.1f %%", level / 1e4); return buf;
    /* Nanoseconds per second, as percent of one processor. */
    case KYMO_UNIT_NS: snprintf(buf, size, "%.1f %%", level / 1e7); return buf;
    case KYMO_UNIT_COUNT: break;
    }
    return cli_format_count(n, buf, size);
}

void cli_counters_text(const struct cli_counters *c, const struct kymo_reader *r)
{
    char a[32], b[32], d[32], e[32];
    if (any_counter(c))
        printf("\n%15s %15s %15s %15s  %s\n", "lowest", "mean", "highest", "last", "counter");
    for (unsigned i = 0; i < KYMO_N_COUNT; i++) {
        const struct cli_counter *one = &c->of[i];
        if (one->n == 0)
            continue;
        printf("%15s %15s %15s %15s  %s%s", shown(i, (double)one->least, a, sizeof a),
               shown(i, mean(one), b, sizeof b), shown(i, (double)one->most, d, sizeof d),
               shown(i, (double)one->last, e, sizeof e), kymo_counter_name(i),
               kymo_counter_unit(i) == KYMO_UNIT_NS ? " (of one processor)"
               : kymo_counter_is_sum(i)             ? " per second"
                                                    : "");
        if (kymo_counter_is_ranked(i) && one->most != 0 && one->who != KYMO_IDENT_NONE) {
            printf(", highest of ");
            cli_print_process(r, one->who);
        }
        putchar('\n');
    }
    bool first = true;
    for (unsigned i = 0; i < KYMO_M_COUNT; i++) {
        if (c->monitored[i] == 0)
            continue;
        if (first)
            printf("\n%15s  %s\n", "reports", "of the system monitor");
        first = false;
        printf("%15s  %s\n", cli_format_count(c->monitored[i], a, sizeof a), cli_report_text(i));
    }
}

const char *cli_report_text(unsigned kind)
{
    return kind == KYMO_M_HELD
               ? "held: another process has set the system monitor, so it reports nothing here"
               : kymo_monitor_name(kind);
}

void cli_counters_json(const struct cli_counters *c)
{
    cli_json_open("counters", '{');
    for (unsigned i = 0; i < KYMO_N_COUNT; i++) {
        const struct cli_counter *one = &c->of[i];
        if (one->n == 0)
            continue;
        cli_json_open(kymo_counter_name(i), '{');
        cli_json_text("unit", kymo_unit_name(kymo_counter_unit(i)));
        cli_json_bool("per_second", kymo_counter_is_sum(i));
        cli_json_uint("values", one->n);
        cli_json_uint("min", one->least);
        cli_json_uint("mean", cli_rounded(mean(one)));
        cli_json_uint("max", one->most);
        cli_json_uint("last", one->last);
        cli_json_close('}');
    }
    cli_json_close('}');
    cli_json_open("system_monitor", '{');
    for (unsigned i = 0; i < KYMO_M_COUNT; i++) {
        if (c->monitored[i] != 0)
            cli_json_uint(kymo_monitor_name(i), c->monitored[i]);
    }
    cli_json_close('}');
}
