/* SPDX-License-Identifier: Apache-2.0
 *
 * Triggers of calls. A call fires when it ends, or earlier when it exceeds the limit, or when the
 * runtime reports it as slow, but only once.
 */
#include "watch_int.h"

void kymo_trigger_fire_call(struct kymo_triggers *t, uint32_t i, uint64_t process, uint32_t mfa,
                            int64_t start, int64_t end, bool open)
{
    struct kymo_firing f = {.open = open,
                            .value = end - start,
                            .start = start,
                            .end = end,
                            .process = process,
                            .server = KYMO_IDENT_NONE,
                            .mfa = mfa};
    kymo_trigger_fire(t, i, &f);
}

void kymo_triggers_expect(struct kymo_triggers *t, uint32_t id)
{
    uint32_t mfa = id != 0 ? kymo_reader_canonical(t->r, id) : 0;
    uint64_t which = kymo_triggers_of(t, mfa);
    if (which == 0 || (t->known[mfa] & KYMO_TRIG_EXPECTED) != 0)
        return;
    t->known[mfa] |= KYMO_TRIG_EXPECTED;
    if (kymo_live_ends(t->live, mfa))
        t->known[mfa] |= KYMO_TRIG_ENDS;
    for (uint32_t i = 0; i < t->n; i++) {
        if ((which >> i & 1) != 0 && kymo_trigger_is(t, i, KYMO_TRIG_CALL))
            kymo_live_expect(t->live, mfa);
    }
}

void kymo_triggers_has_end(struct kymo_triggers *t, uint32_t id)
{
    uint32_t mfa = id != 0 ? kymo_reader_canonical(t->r, id) : 0;
    if (mfa < t->n_ids)
        t->known[mfa] |= KYMO_TRIG_ENDS;
}

void kymo_triggers_call(void *arg, const struct kymo_span *s)
{
    struct kymo_triggers *t = arg;
    uint64_t which = kymo_triggers_of(t, s->mfa);
    for (uint32_t i = 0; which != 0 && i < t->n; i++) {
        if ((which >> i & 1) == 0 || !kymo_trigger_is(t, i, KYMO_TRIG_CALL))
            continue;
        struct kymo_waiting w = {.id = s->id, .start = s->start, .process = s->process, .mfa = s->mfa};
        t->failed = !kymo_opens_add(&t->opens[i], &w) || t->failed;
    }
}

/* The triggers that have fired for this call when the runtime reported it, a bit each. The runtime
 * does that just before or after the end of the call, so the next end of a call of the function in
 * the process is that of this call. */
static uint64_t take_reported(struct kymo_triggers *t, const struct kymo_span *s)
{
    const struct kymo_reported_call *c = kymo_map_get(&t->reported, s->process);
    if (c == NULL || c->mfa != s->mfa)
        return 0;
    uint64_t by = s->start <= c->at ? c->by : 0;
    kymo_map_remove(&t->reported, s->process);
    return by;
}

void kymo_triggers_call_end(void *arg, const struct kymo_span *s)
{
    struct kymo_triggers *t = arg;
    uint64_t which = s->ended != KYMO_SPAN_MOMENT ? kymo_triggers_of(t, s->mfa) : 0;
    uint64_t reported = which != 0 ? take_reported(t, s) : 0;
    for (uint32_t i = 0; which != 0 && i < t->n; i++) {
        if ((which >> i & 1) == 0 || !kymo_trigger_is(t, i, KYMO_TRIG_CALL))
            continue;
        bool waited_for = kymo_opens_end(&t->opens[i], s->id) || t->opens[i].left_out > 0;
        if (waited_for && (reported >> i & 1) == 0 && s->end != KYMO_NO_TIME &&
            s->end - s->start > t->g[i].limit)
            kymo_trigger_fire_call(t, i, s->process, s->mfa, s->start, s->end, false);
    }
}

/* True if the recording has the ends of this function's calls. Without them it is unknown
 * whether a call is still open. */
static bool has_ends(const struct kymo_triggers *t, uint32_t mfa)
{
    return t->return_to || (mfa < t->n_ids && (t->known[mfa] & KYMO_TRIG_ENDS) != 0);
}

/* Remembers that the call that the runtime has just reported has fired. */
static void note_reported(struct kymo_triggers *t, const struct kymo_event *ev, uint32_t mfa, uint64_t by)
{
    if (t->reported.count >= KYMO_TRIGGERS_OPEN) /* left from calls whose end was not recorded */
        kymo_map_free(&t->reported);
    struct kymo_reported_call *c = kymo_map_put(&t->reported, ev->who, NULL);
    if (c == NULL)
        t->failed = true;
    else
        *c = (struct kymo_reported_call){.at = ev->ns, .by = by, .mfa = mfa};
}

/* If calls of the function and their ends are recorded too, the span of the call fires instead.
 * Until the first end is seen, it is not known whether they are. */
void kymo_triggers_slow(struct kymo_triggers *t, const struct kymo_event *ev)
{
    uint32_t mfa = kymo_reader_canonical(t->r, ev->mfa);
    uint64_t which = kymo_triggers_of(t, mfa), by = 0;
    bool calls = which != 0 && (t->known[mfa] & KYMO_TRIG_EXPECTED) != 0;
    int64_t start;
    if (!kymo_slow_start(ev, &start) || (calls && has_ends(t, mfa)))
        return;
    for (uint32_t i = 0; which != 0 && i < t->n; i++) {
        if ((which >> i & 1) == 0 || !kymo_trigger_is(t, i, KYMO_TRIG_CALL) ||
            (int64_t)ev->value <= t->g[i].limit)
            continue;
        by |= 1ull << i;
        kymo_trigger_fire_call(t, i, ev->who, mfa, start, ev->ns, false);
    }
    if (calls && by != 0)
        note_reported(t, ev, mfa, by);
}

/* Whether this open call has fired because the runtime reported its end. */
static bool was_reported(const struct kymo_triggers *t, const struct kymo_waiting *w, uint32_t i)
{
    const struct kymo_reported_call *c = kymo_map_get(&t->reported, w->process);
    return c != NULL && c->mfa == w->mfa && w->start <= c->at && (c->by >> i & 1) != 0;
}

void kymo_triggers_open_calls(struct kymo_triggers *t, uint32_t i)
{
    struct kymo_waiting w;
    while (kymo_opens_next(&t->opens[i], t->now - t->g[i].limit, &w)) {
        if (w.start < t->sure_from)
            continue;
        if (was_reported(t, &w, i))
            continue;
        if (has_ends(t, w.mfa))
            kymo_trigger_fire_call(t, i, w.process, w.mfa, w.start, t->now, true);
        else if (!kymo_opens_keep(&t->opens[i], w.id))
            t->failed = true;
    }
}
