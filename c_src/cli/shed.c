/* SPDX-License-Identifier: Apache-2.0 */
#include "shed.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "json.h"

/* Lines of kymo info. */
enum { SHOWN = 10 };

static bool matters(const struct kymo_reader *r, const struct kymo_shed *s)
{
    uint64_t ticks;
    int64_t horizon;
    return !kymo_reader_horizon(r, &ticks, &horizon) || s->to > horizon;
}

bool cli_shed_any(const struct kymo_reader *r)
{
    size_t n;
    const struct kymo_shed *s = kymo_reader_shed(r, &n);
    for (size_t i = 0; i < n; i++) {
        if (matters(r, &s[i]))
            return true;
    }
    return kymo_reader_meta(r)->shed_unnamed != 0;
}

static void name_of(const struct kymo_reader *r, const struct kymo_shed *s, char *buf, size_t size)
{
    if (s->kind < KYMO_KINDS)
        snprintf(buf, size, "%s", kymo_kind_name(s->kind));
    else
        kymo_format_mfa(r, s->mfa, buf, size);
}

/* Describes when something was left out: to the end of the recording, or for a while. */
static void when(const struct kymo_reader *r, const struct kymo_shed *s, size_t n, size_t first, char *buf,
                 size_t size)
{
    size_t last = first;
    for (size_t i = first; i < n; i++)
        last = s[i].mfa == s[first].mfa && s[i].kind == s[first].kind ? i : last;
    double from = (double)(s[last].from - kymo_reader_meta(r)->t0_mono_ns) / 1e9;
    if (s[last].to == INT64_MAX)
        snprintf(buf, size, "from %.3f s on", from);
    else
        snprintf(buf, size, "for a while");
}

void cli_shed_phrase(const struct kymo_reader *r, char *buf, size_t size)
{
    size_t n, functions = 0, first = 0, used = 0;
    const struct kymo_shed *s = kymo_reader_shed(r, &n);
    char name[2200], kinds[256] = "", at[64];
    /* Ignores the kind `calls`, which is shed only while functions are being shed. */
    bool seen[KYMO_KINDS + 1] = {[KYMO_KIND_CALLS] = true};
    for (size_t i = 0; i < n; i++) {
        if (!matters(r, &s[i]) || seen[s[i].kind])
            continue;
        seen[s[i].kind] = s[i].kind < KYMO_KINDS;
        if (s[i].kind < KYMO_KINDS && used < sizeof kinds) {
            when(r, s, n, i, at, sizeof at);
            used += (size_t)snprintf(kinds + used, sizeof kinds - used, "%s%s %s", used > 0 ? ", " : "",
                                     kymo_kind_name(s[i].kind), at);
        } else if (s[i].kind == KYMO_KINDS && functions++ == 0) {
            first = i;
        }
    }
    buf[0] = '\0';
    if (functions > 0) {
        name_of(r, &s[first], name, sizeof name);
        when(r, s, n, first, at, sizeof at);
        snprintf(buf, size, "calls of %.100s%s %s%s%s", name, functions > 1 ? " and other functions" : "",
                 functions > 1 ? "for a while" : at, used > 0 ? ", " : "", kinds);
    } else {
        snprintf(buf, size, "%s", used > 0 ? kinds : "calls of functions without a name");
    }
}

static void budget_text(const struct kymo_meta *m)
{
    printf("budget      ");
    if (m->budget_ppm != 0)
        printf(" %g %% of each scheduler", (double)m->budget_ppm / 1e4);
    if (m->budget_events != 0)
        printf("%s %s events/s", m->budget_ppm != 0 ? "," : "",
               cli_format_count(m->budget_events, (char[32]){0}, 32));
    putchar('\n');
}

void cli_shed_text(const struct kymo_reader *r)
{
    const struct kymo_meta *m = kymo_reader_meta(r);
    size_t n, shown = 0, all = 0;
    const struct kymo_shed *s = kymo_reader_shed(r, &n);
    if (m->budget_ppm != 0 || m->budget_events != 0)
        budget_text(m);
    for (size_t i = 0; i < n; i++) {
        char name[2200], from[64], to[64];
        if (!matters(r, &s[i]) || all++ >= SHOWN)
            continue;
        name_of(r, &s[i], name, sizeof name);
        cli_format_seconds((int64_t)((uint64_t)s[i].from - (uint64_t)m->t0_mono_ns), from, sizeof from);
        cli_format_seconds((int64_t)((uint64_t)s[i].to - (uint64_t)m->t0_mono_ns), to, sizeof to);
        printf("%s %s from %s s %s%s%s\n", shown++ == 0 ? "shed        " : "            ", name, from,
               s[i].to == INT64_MAX ? "on" : "to ", s[i].to == INT64_MAX ? "" : to,
               s[i].to == INT64_MAX ? "" : " s");
    }
    if (all > shown)
        printf("             ... and %s more: kymo sql DIR 'select * from shed'\n",
               cli_format_count(all - shown, (char[32]){0}, 32));
    if (m->shed_unnamed != 0)
        printf("%s %s functions or kinds of events without a name\n",
               shown == 0 ? "shed        " : "            ",
               cli_format_count(m->shed_unnamed, (char[32]){0}, 32));
}

void cli_json_budget(const struct kymo_reader *r)
{
    const struct kymo_meta *m = kymo_reader_meta(r);
    size_t n;
    const struct kymo_shed *s = kymo_reader_shed(r, &n);
    if (m->budget_ppm == 0 && m->budget_events == 0) {
        cli_json_null("budget");
        return;
    }
    cli_json_open("budget", '{');
    cli_json_double("cpu_percent", (double)m->budget_ppm / 1e4);
    cli_json_uint("events_per_second", m->budget_events);
    cli_json_uint("times_shed", m->shed);
    cli_json_uint("without_name", m->shed_unnamed);
    cli_json_open("shed", '[');
    for (size_t i = 0; i < n; i++) {
        char name[2200];
        if (!matters(r, &s[i]))
            continue;
        name_of(r, &s[i], name, sizeof name);
        cli_json_open(NULL, '{');
        cli_json_text(s[i].kind < KYMO_KINDS ? "events" : "function", name);
        cli_json_int("from_ns", (int64_t)((uint64_t)s[i].from - (uint64_t)m->t0_mono_ns));
        if (s[i].to == INT64_MAX)
            cli_json_null("to_ns");
        else
            cli_json_int("to_ns", (int64_t)((uint64_t)s[i].to - (uint64_t)m->t0_mono_ns));
        cli_json_close('}');
    }
    cli_json_close(']');
    cli_json_close('}');
}
