/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include "analysis_int.h"

/* True if a part of the fact is in the window. */
static bool overlaps(const struct kymo_an *x, int64_t start, int64_t end)
{
    int64_t first = start != KYMO_NO_TIME ? start : end, last = end != KYMO_NO_TIME ? end : x->now;
    return last >= x->from && (first == KYMO_NO_TIME || first <= x->to);
}

int kymo_an_report_init(struct kymo_an *x, const struct kymo_analysis_sink *sinks, size_t n)
{
#define KYMO_X(member) +1
    const struct kymo_analysis_sink **all =
        calloc(n * (KYMO_AN_FACTS(KYMO_X)) + 1, sizeof(const struct kymo_analysis_sink *));
#undef KYMO_X
    x->sinks = all;
    if (all == NULL)
        return -ENOMEM;
#define KYMO_X(kind) \
    x->to_##kind.sink = all; \
    for (size_t i = 0; i < n; i++) { \
        if (sinks[i].kind != NULL) \
            x->to_##kind.sink[x->to_##kind.n++] = &sinks[i]; \
    } \
    all += n;
    KYMO_AN_FACTS(KYMO_X)
#undef KYMO_X
    return 0;
}

#define TO_SINKS(kind, fact) \
    do { \
        for (size_t i_ = 0; i_ < x->to_##kind.n; i_++) \
            x->to_##kind.sink[i_]->kind(x->to_##kind.sink[i_]->arg, fact); \
    } while (0)

void kymo_an_report_event(struct kymo_an *x, const struct kymo_event *ev)
{
    if (ev->ns < x->from || ev->ns > x->to)
        return;
    if (ev->id < KYMO_E_FIRST_NOTE) {
        if (x->res->events++ == 0)
            x->res->first = x->res->last = ev->ns;
        if (ev->ns < x->res->first)
            x->res->first = ev->ns;
        if (ev->ns > x->res->last)
            x->res->last = ev->ns;
    } else if (ev->id == KYMO_E_LOST) {
        x->res->lost += ev->value;
    }
    TO_SINKS(event, ev);
}

void kymo_an_report_open(struct kymo_an *x, const struct kymo_span *s)
{
    if (overlaps(x, s->start, KYMO_NO_TIME))
        TO_SINKS(span_open, s);
}

void kymo_an_report_span(struct kymo_an *x, const struct kymo_span *s)
{
    if (!overlaps(x, s->start, s->ended == KYMO_SPAN_MOMENT ? s->start : s->end))
        return;
    x->res->spans++;
    TO_SINKS(span, s);
}

void kymo_an_report_mail(struct kymo_an *x, const struct kymo_mail *m)
{
    int64_t end = m->taken != KYMO_NO_TIME ? m->taken : m->fetched != KYMO_NO_TIME ? m->fetched : m->sent;
    if (!overlaps(x, m->sent, end))
        return;
    x->res->mails += m->kind != KYMO_MSG_TIMEOUT;
    TO_SINKS(mail, m);
}

void kymo_an_report_request(struct kymo_an *x, const struct kymo_request *q)
{
    if (!overlaps(x, q->sent, q->received))
        return;
    x->res->requests++;
    TO_SINKS(request, q);
}

void kymo_an_report_run(struct kymo_an *x, const struct kymo_run *run)
{
    if (!overlaps(x, run->start, run->end))
        return;
    x->res->runs++;
    TO_SINKS(run, run);
}

void kymo_an_report_collection(struct kymo_an *x, const struct kymo_collection *c)
{
    if (!overlaps(x, c->start, c->end))
        return;
    x->res->collections++;
    TO_SINKS(collection, c);
}

void kymo_an_report_life(struct kymo_an *x, const struct kymo_life *life)
{
    if (overlaps(x, life->first, life->last))
        TO_SINKS(life, life);
}
