/* SPDX-License-Identifier: Apache-2.0 */
#include "kymo_live.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analysis_int.h"

struct kymo_live {
    struct kymo_an *x;
    struct kymo_analysis_sink *sinks;
    struct kymo_analysis_options o;
    struct kymo_analysis_result res;
    uint64_t epoch;  /* loss epoch over all readers */
    uint64_t reader; /* loss epoch of the reader, at the previous event */
    bool first;      /* no event has been seen yet */
};

int kymo_live_new(struct kymo_live **out, struct kymo_reader *r, const struct kymo_analysis_sink *sinks,
                  size_t n)
{
    struct kymo_live *l = calloc(1, sizeof *l);
    struct kymo_an *x = calloc(1, sizeof *x);
    struct kymo_analysis_sink *copy = calloc(n + 1, sizeof *copy);
    *out = NULL;
    if (l == NULL || x == NULL || copy == NULL) {
        free(l);
        free(x);
        free(copy);
        return -ENOMEM;
    }
    memcpy(copy, sinks, n * sizeof *copy);
    l->x = x;
    l->sinks = copy;
    l->o = (struct kymo_analysis_options){.from_ns = INT64_MIN, .to_ns = INT64_MAX};
    l->first = true;
    x->r = r;
    x->o = &l->o;
    x->res = &l->res;
    int rc = kymo_an_init(x);
    if (rc == 0)
        rc = kymo_an_report_init(x, copy, n);
    if (rc == 0)
        rc = kymo_lesson_take(&x->lesson, r, kymo_an_next, r);
    x->takes = x->lesson.takes;
    if (rc == 0)
        rc = kymo_reader_rewind(r);
    if (rc != 0) {
        kymo_live_free(l);
        return rc;
    }
    *out = l;
    return 0;
}

void kymo_live_free(struct kymo_live *l)
{
    if (l == NULL)
        return;
    kymo_an_clear(l->x);
    free(l->sinks);
    free(l);
}

void kymo_live_reader(struct kymo_live *l, struct kymo_reader *r)
{
    l->x->r = r;
    l->x->slots = kymo_reader_slots(r, &l->x->n_slots);
    kymo_an_arrivals_init(l->x);
    l->reader = kymo_reader_loss_epoch(r);
    if (kymo_breaks_read(&l->x->breaks, r, l->x->newest) != 0)
        l->x->failed = true;
}

bool kymo_live_event(struct kymo_live *l, const struct kymo_event *ev, bool is_new)
{
    uint64_t reader = kymo_reader_loss_epoch(l->x->r), ticks;
    int64_t horizon;
    if (is_new) {
        if (l->first) /* with an active recorder it is unknown before */
            l->x->cut = kymo_reader_horizon(l->x->r, &ticks, &horizon);
        l->first = false;
        l->epoch += reader != l->reader;
        /* Learnt from each event, because the lesson may have been taken before the first one. */
        if (ev->id == KYMO_E_RETURN_TO)
            l->x->lesson.facts.return_to_seen = true;
        kymo_an_event(l->x, ev, l->epoch);
    }
    l->reader = reader;
    return !l->x->failed;
}

bool kymo_live_gap(struct kymo_live *l)
{
    struct kymo_an *x = l->x;
    x->now = x->newest > x->now ? x->newest : x->now;
    kymo_an_requests_end(x);
    kymo_an_forget_all(x);
    kymo_flows_end(&x->flows);
    kymo_an_held_end(x);
    x->cut = true;
    l->first = false;
    l->epoch++;
    return !x->failed;
}

const struct kymo_analysis_result *kymo_live_result(const struct kymo_live *l)
{
    return &l->res;
}

void kymo_live_expect(struct kymo_live *l, uint32_t mfa)
{
    (void)kymo_map_put(&l->x->lesson.facts.returns, mfa, NULL);
}

bool kymo_live_ends(const struct kymo_live *l, uint32_t mfa)
{
    const struct kymo_facts *facts = &l->x->lesson.facts;
    return facts->return_to_seen || kymo_map_get(&facts->returns, mfa) != NULL;
}

void kymo_live_requests(const struct kymo_live *l, void (*f)(void *arg, const struct kymo_request *q),
                        void *arg)
{
    for (uint32_t i = 0; i < l->x->requests_room; i++) {
        if (l->x->requests[i].used)
            f(arg, &l->x->requests[i].q);
    }
}

void kymo_live_runs(const struct kymo_live *l, void (*f)(void *arg, const struct kymo_run *run), void *arg)
{
    for (uint32_t i = 0; i < l->x->n_slots; i++) {
        uint64_t ident = l->x->running[i];
        const struct kymo_an_process *p = ident != KYMO_IDENT_NONE ? kymo_an_known(l->x, ident) : NULL;
        if (p == NULL || !p->running || p->slot != i)
            continue;
        struct kymo_run run = {.process = ident,
                               .slot = i,
                               .in_mfa = p->in_mfa,
                               .start = p->run_start,
                               .end = KYMO_NO_TIME,
                               .waited = kymo_since(p->out_at, p->run_start),
                               .runnable = p->runnable,
                               .by = p->by,
                               .dirty = l->x->slots[i].thread_kind == KYMO_T_DIRTY_CPU ||
                                        l->x->slots[i].thread_kind == KYMO_T_DIRTY_IO};
        run.open = run.waited != KYMO_NO_TIME;
        f(arg, &run);
    }
}

uint32_t kymo_live_waiting(const struct kymo_live *l, const struct kymo_event *send, uint64_t *to,
                           int64_t *oldest)
{
    *to = kymo_an_receiver(l->x, send->peer);
    return kymo_flows_waiting(&l->x->flows, *to, oldest);
}

uint32_t kymo_live_pending(const struct kymo_live *l, uint64_t process)
{
    const struct kymo_an_process *p = kymo_an_known(l->x, process);
    return p != NULL ? p->pending : 0;
}
