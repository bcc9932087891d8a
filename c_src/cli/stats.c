/* SPDX-License-Identifier: Apache-2.0 */
#include "stats.h"

#include <string.h>

/* The maximum number of rows. Facts of further rows are only counted. */
enum { ROWS_MAX = 65536 };

void cli_stats_init(struct cli_stats *s, struct cli_analysis *a, enum cli_stats_by by)
{
    memset(s, 0, sizeof *s);
    s->a = a;
    s->by = by;
    kymo_map_init(&s->rows, sizeof(struct cli_stats_row));
}

void cli_stats_free(struct cli_stats *s)
{
    size_t it = 0;
    for (struct cli_stats_row *row; (row = kymo_map_next(&s->rows, &it, NULL)) != NULL;)
        kymo_call_sums_free(&row->sums);
    kymo_map_free(&s->rows);
}

static struct cli_stats_row *row_of(struct cli_stats *s, uint64_t key, uint64_t ident)
{
    struct cli_stats_row *row = kymo_map_get(&s->rows, key);
    if (row == NULL && s->rows.count >= ROWS_MAX) {
        s->others++;
        return NULL;
    }
    if (row == NULL)
        row = kymo_map_put(&s->rows, key, NULL);
    if (row == NULL) {
        s->failed = true;
        return NULL;
    }
    row->key = key;
    row->ident = ident;
    return row;
}

static uint64_t module_of(const struct cli_stats *s, uint32_t id)
{
    struct kymo_mfa mfa;
    return kymo_reader_mfa(s->a->r, id, &mfa) ? mfa.module : 0;
}

static void on_span(void *arg, const struct kymo_span *span)
{
    struct cli_stats *s = arg;
    if (!cli_wants_process(s->a, span->process) || !cli_wants_function(s->a, span->mfa))
        return;
    uint64_t key = s->by == CLI_BY_MODULE ? module_of(s, span->mfa) : span->mfa;
    struct cli_stats_row *row = row_of(s, key, span->process);
    if (row == NULL)
        return;
    if (!kymo_call_sums_add(&row->sums, span))
        s->failed = true;
}

static struct cli_stats_row *process_row(struct cli_stats *s, uint64_t ident)
{
    if (!cli_wants_process(s->a, ident))
        return NULL;
    return row_of(s, s->by == CLI_BY_ROLE ? kymo_naming_role(s->a->naming, ident) : ident, ident);
}

/* Adds a run of a process, and the time for which it was scheduled out before. */
static void on_run(void *arg, const struct kymo_run *run)
{
    struct cli_stats *s = arg;
    struct cli_stats_row *row = process_row(s, run->process);
    if (row == NULL)
        return;
    row->runs++;
    int64_t time = kymo_since(run->start, run->end);
    if (time != KYMO_NO_TIME) {
        row->sums.running += time;
        row->sums.with_running++;
        if (time >= row->sums.max) {
            row->sums.max = time;
            row->sums.max_at = run->start;
            row->sums.max_process = run->process;
        }
    }
    if (run->waited != KYMO_NO_TIME) {
        row->waiting += run->waited;
        if (!kymo_histogram_add(&row->sums.times, run->waited))
            s->failed = true;
    }
}

static void on_collection(void *arg, const struct kymo_collection *c)
{
    struct cli_stats *s = arg;
    struct cli_stats_row *row = process_row(s, c->process);
    if (row == NULL)
        return;
    row->collections++;
    int64_t time = kymo_since(c->start, c->end);
    if (time == KYMO_NO_TIME)
        return;
    row->sums.gc += time;
    if (time > row->gc_max)
        row->gc_max = time;
}

static void on_life(void *arg, const struct kymo_life *life)
{
    struct cli_stats *s = arg;
    struct cli_stats_row *row = process_row(s, life->process);
    if (row == NULL)
        return;
    row->processes++;
    row->sums.calls += life->calls;
    row->sent += life->sent;
    row->received += life->received;
}

struct kymo_analysis_sink cli_stats_sink(struct cli_stats *s)
{
    if (s->by == CLI_BY_FUNCTION || s->by == CLI_BY_MODULE)
        return (struct kymo_analysis_sink){.arg = s, .span = on_span};
    return (struct kymo_analysis_sink){.arg = s, .run = on_run, .collection = on_collection, .life = on_life};
}

void cli_stats_name(const struct cli_stats *s, const struct cli_stats_row *row, char *buf, size_t size)
{
    switch (s->by) {
    case CLI_BY_FUNCTION: kymo_name_function(s->a->naming, (uint32_t)row->key, buf, size); break;
    case CLI_BY_MODULE: kymo_name_module(s->a->naming, (uint32_t)row->key, buf, size); break;
    case CLI_BY_PROCESS: kymo_name_process(s->a->naming, row->ident, buf, size); break;
    default: kymo_name_role(s->a->naming, row->ident, buf, size);
    }
}
