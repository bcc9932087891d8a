/* SPDX-License-Identifier: Apache-2.0 */
#include "kymo_call_sums.h"

bool kymo_call_sums_add(struct kymo_call_sums *s, const struct kymo_span *span)
{
    s->calls++;
    s->exceptions += span->ended == KYMO_SPAN_EXCEPTION;
    int64_t total = kymo_since(span->start, span->end);
    if (span->ended == KYMO_SPAN_MOMENT || total == KYMO_NO_TIME)
        return true;
    s->ended++;
    if (span->self != KYMO_NO_TIME)
        s->self += span->self;
    if (span->running != KYMO_NO_TIME) {
        s->with_running++;
        if (!span->recursive)
            s->running += span->running;
    }
    if (span->self_running != KYMO_NO_TIME)
        s->self_running += span->self_running;
    if (!span->recursive) {
        s->total += total;
        s->gc += span->gc;
    }
    if (total >= s->max) {
        s->max = total;
        s->max_at = span->start;
        s->max_process = span->process;
    }
    return kymo_histogram_add(&s->times, total);
}

void kymo_call_sums_free(struct kymo_call_sums *s)
{
    kymo_histogram_free(&s->times);
}
