/* SPDX-License-Identifier: Apache-2.0
 *
 * Produces all rows of a recording: facts of the analysis are passed on as they are; functions and
 * losses are sums, which are reported at the end.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "kymo_call_sums.h"
#include "kymo_map.h"
#include "kymo_tables.h"
#include "waits.h"

/* Times of the notes of loss of one thread and cause. */
struct noted {
    int64_t first, last;
};

struct run {
    struct kymo_table_source *s;
    const struct kymo_table_rows *rows;
    struct kymo_map functions; /* mfa -> struct kymo_call_sums */
    struct kymo_gauges gauges;
    struct kymo_map notes; /* slot * KYMO_LOSS_CAUSES + cause -> struct noted */
    struct kymo_waits waits;
    uint64_t events;
    int error;
};

static bool wanted(const struct run *x, enum kymo_table_id table)
{
    return (x->rows->set & KYMO_TABLE_BIT(table)) != 0;
}

static void give(struct run *x, enum kymo_table_id table, const void *row)
{
    if (x->error == 0 && wanted(x, table))
        x->error = x->rows->row(x->rows->arg, table, row);
}

/* ---- from the analysis ---- */

static uint64_t note_key(uint32_t slot, uint8_t cause)
{
    return (uint64_t)slot * KYMO_LOSS_CAUSES + cause % KYMO_LOSS_CAUSES;
}

static void on_loss(struct run *x, const struct kymo_event *ev)
{
    bool added;
    struct noted *n = kymo_map_put(&x->notes, note_key(ev->slot, ev->kind), &added);
    if (n == NULL) {
        x->error = -ENOMEM;
        return;
    }
    if (added)
        n->first = ev->ns;
    n->last = ev->ns;
}

static void on_counters(struct run *x, const struct kymo_event *ev)
{
    struct kymo_gauge g;
    for (uint32_t i = 0; i < ev->n_counters; i++) {
        if (kymo_gauges_next(&x->gauges, x->s->r, ev, i, &g))
            give(x, KYMO_TABLE_COUNTERS, &g);
    }
}

static void on_monitor(struct run *x, const struct kymo_event *ev)
{
    struct kymo_monitor_row row = {.ns = ev->ns,
                                   .process = ev->who,
                                   .port = ev->peer,
                                   .value = ev->value,
                                   .in_mfa = kymo_reader_canonical(x->s->r, ev->in_mfa),
                                   .out_mfa = kymo_reader_canonical(x->s->r, ev->mfa),
                                   .kind = ev->kind};
    give(x, KYMO_TABLE_MONITOR, &row);
}

static void on_observed(struct run *x, const struct kymo_event *ev)
{
    struct kymo_observed_row row = {.ns = ev->ns,
                                    .process = ev->who,
                                    .waits_for = ev->peer,
                                    .mailbox = ev->value,
                                    .function = kymo_reader_canonical(x->s->r, ev->mfa),
                                    .called_from = kymo_reader_canonical(x->s->r, ev->in_mfa),
                                    .lock = ev->atom,
                                    .kind = ev->kind};
    give(x, KYMO_TABLE_OBSERVED, &row);
}

static void on_event(void *arg, const struct kymo_event *ev)
{
    struct run *x = arg;
    kymo_naming_event(x->s->naming, ev);
    if (ev->id == KYMO_E_LOST)
        on_loss(x, ev);
    else if (ev->id == KYMO_E_COUNTERS)
        on_counters(x, ev);
    else if (ev->id == KYMO_E_MONITOR)
        on_monitor(x, ev);
    else if (ev->id == KYMO_E_OBSERVED)
        on_observed(x, ev);
    if (ev->id >= KYMO_E_FIRST_NOTE)
        return;
    struct kymo_event_row row = {++x->events, ev};
    give(x, KYMO_TABLE_EVENTS, &row);
}

static void on_span(void *arg, const struct kymo_span *span)
{
    struct run *x = arg;
    give(x, KYMO_TABLE_SPANS, span);
    if (!wanted(x, KYMO_TABLE_FUNCTIONS))
        return;
    struct kymo_call_sums *sums = kymo_map_put(&x->functions, span->mfa, NULL);
    if (sums == NULL || !kymo_call_sums_add(sums, span))
        x->error = -ENOMEM;
}

static void on_mail(void *arg, const struct kymo_mail *mail)
{
    if (mail->kind != KYMO_MSG_TIMEOUT)
        give(arg, KYMO_TABLE_MESSAGES, mail);
}

static void on_request(void *arg, const struct kymo_request *request)
{
    give(arg, KYMO_TABLE_REQUESTS, request);
}

static void on_run(void *arg, const struct kymo_run *run)
{
    struct run *x = arg;
    give(x, KYMO_TABLE_RUNNING, run);
    if (x->error == 0 && wanted(x, KYMO_TABLE_WAITS))
        x->error = kymo_waits_run(&x->waits, run);
}

static void on_collection(void *arg, const struct kymo_collection *collection)
{
    give(arg, KYMO_TABLE_COLLECTIONS, collection);
}

static void on_life(void *arg, const struct kymo_life *life)
{
    struct run *x = arg;
    give(x, KYMO_TABLE_PROCESSES, life);
    if (x->error == 0 && life->end != KYMO_NO_TIME && wanted(x, KYMO_TABLE_WAITS))
        x->error = kymo_waits_exit(&x->waits, life->process, life->end);
}

/* ---- sums ---- */

static void give_functions(struct run *x)
{
    uint64_t mfa;
    size_t it = 0;
    for (const struct kymo_call_sums *f; (f = kymo_map_next(&x->functions, &it, &mfa)) != NULL;) {
        struct kymo_function_row row = {.mfa = (uint32_t)mfa,
                                        .calls = f->calls,
                                        .ended = f->ended,
                                        .with_running = f->with_running,
                                        .exceptions = f->exceptions,
                                        .total = f->total,
                                        .self = f->self,
                                        .running = f->running,
                                        .self_running = f->self_running,
                                        .gc = f->gc,
                                        .p50 = kymo_histogram_quantile(&f->times, 0.5),
                                        .p99 = kymo_histogram_quantile(&f->times, 0.99),
                                        .max = f->max,
                                        .max_at = f->max_at};
        give(x, KYMO_TABLE_FUNCTIONS, &row);
    }
}

static void give_loss(struct run *x, uint32_t slot, unsigned cause, uint64_t events)
{
    if (events == 0)
        return;
    const struct noted *n = kymo_map_get(&x->notes, note_key(slot, (uint8_t)cause));
    struct kymo_loss_row row = {.slot = slot,
                                .cause = (uint8_t)cause,
                                .events = events,
                                .first = n != NULL ? n->first : KYMO_NO_TIME,
                                .last = n != NULL ? n->last : KYMO_NO_TIME};
    give(x, KYMO_TABLE_LOSSES, &row);
}

/* Converts ticks to time; 0 means that no time was noted. */
static int64_t noted_ns(const struct run *x, uint64_t ticks)
{
    return ticks != 0 ? kymo_reader_ns(x->s->r, ticks) : KYMO_NO_TIME;
}

static void give_no_slot(struct run *x)
{
    const struct kymo_meta *m = kymo_reader_meta(x->s->r);
    if (m->no_slot == 0)
        return;
    struct kymo_loss_row row = {.slot = KYMO_LOSS_NO_SLOT,
                                .cause = KYMO_LOST_NO_SLOT,
                                .events = m->no_slot,
                                .first = noted_ns(x, m->no_slot_first),
                                .last = noted_ns(x, m->no_slot_last)};
    give(x, KYMO_TABLE_LOSSES, &row);
}

static void give_losses(struct run *x)
{
    uint32_t n;
    const struct kymo_slot *slots = kymo_reader_slots(x->s->r, &n);
    for (uint32_t i = 0; i < n; i++) {
        for (unsigned cause = 0; cause < KYMO_LOSS_CAUSES; cause++)
            give_loss(x, i, cause, kymo_slot_lost(&slots[i], cause));
    }
    give_no_slot(x);
}

static void give_waits(struct run *x, int64_t end)
{
    if (x->error == 0 && wanted(x, KYMO_TABLE_WAITS))
        x->error = kymo_waits_end(&x->waits, end);
}

static void give_shed(struct run *x)
{
    size_t n;
    const struct kymo_shed *shed = kymo_reader_shed(x->s->r, &n);
    for (size_t i = 0; i < n; i++)
        give(x, KYMO_TABLE_SHED, &shed[i]);
}

/* ---- the run ---- */

int kymo_tables_run(struct kymo_table_source *s, const struct kymo_table_rows *rows,
                    struct kymo_analysis_result *res, char *err, size_t err_size)
{
    struct run x = {.s = s, .rows = rows};
    kymo_map_init(&x.functions, sizeof(struct kymo_call_sums));
    kymo_map_init(&x.notes, sizeof(struct noted));
    size_t n_shed;
    const struct kymo_shed *shed = kymo_reader_shed(s->r, &n_shed);
    kymo_waits_init(&x.waits, shed, n_shed, rows->row, rows->arg);
    struct kymo_analysis_sink sink = {.arg = &x,
                                      .event = on_event,
                                      .span = on_span,
                                      .mail = on_mail,
                                      .request = on_request,
                                      .run = on_run,
                                      .collection = on_collection,
                                      .life = on_life};
    int rc = kymo_analyse(s->r, &rows->analysis, &sink, 1, res, err, err_size);
    if (rc == 0) {
        s->has_gc = s->has_gc || res->has_gc;
        give_functions(&x);
        give_waits(&x, res->last);
        give_losses(&x);
        give_shed(&x);
        rc = x.error;
    }
    if (rc == -ENOMEM)
        snprintf(err, err_size, "not enough memory");
    size_t it = 0;
    for (struct kymo_call_sums *f; (f = kymo_map_next(&x.functions, &it, NULL)) != NULL;)
        kymo_call_sums_free(f);
    kymo_map_free(&x.functions);
    kymo_map_free(&x.notes);
    kymo_waits_free(&x.waits);
    kymo_gauges_free(&x.gauges);
    return rc;
}

int kymo_tables_learn(struct kymo_table_source *s, int64_t *newest, char *err, size_t err_size)
{
    struct kymo_event ev;
    *newest = INT64_MIN;
    int rc = kymo_reader_rewind(s->r);
    while (rc >= 0 && (rc = kymo_reader_next(s->r, &ev)) == 1) {
        kymo_naming_event(s->naming, &ev);
        s->has_gc = s->has_gc || (ev.id >= KYMO_E_GC_MINOR_START && ev.id <= KYMO_E_GC_MAJOR_END);
        if (ev.ns > *newest)
            *newest = ev.ns;
    }
    if (rc < 0)
        snprintf(err, err_size, "cannot read the rest of the recording: %s", strerror(-rc));
    return rc;
}
