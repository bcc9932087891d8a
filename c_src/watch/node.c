/* SPDX-License-Identifier: Apache-2.0
 *
 * Triggers of what the node reports of itself: samples of its counters, its system monitor.
 */
#include "watch_int.h"

/* Samples of the counters are at least this far apart; the records of one sample are closer. */
enum { SAMPLE_NS = 5000000 };

/* One process of high priority takes the samples. When it comes much later than it does
 * usually, no process could run. */
void kymo_triggers_sample(struct kymo_triggers *t, const struct kymo_event *ev)
{
    int64_t passed = kymo_since(t->sampled, ev->ns);
    if (passed != KYMO_NO_TIME && passed < SAMPLE_NS)
        return;
    struct kymo_firing f = {.value = passed,
                            .start = t->sampled,
                            .end = ev->ns,
                            .process = KYMO_IDENT_NONE,
                            .server = KYMO_IDENT_NONE};
    t->sampled = ev->ns;
    if (passed == KYMO_NO_TIME)
        return;
    for (uint32_t i = 0; t->usual != 0 && passed / 2 > t->usual && i < t->n; i++) {
        if (kymo_trigger_is(t, i, KYMO_TRIG_STOPPED) && passed > t->g[i].limit)
            kymo_trigger_fire(t, i, &f);
    }
    /* Towards the median: a late one is no measure. */
    t->usual = t->usual == 0       ? passed
               : passed > t->usual ? t->usual + t->usual / 16
                                   : t->usual - t->usual / 16;
}

void kymo_triggers_report(struct kymo_triggers *t, const struct kymo_event *ev)
{
    enum { MS = 1000000 };
    bool times = ev->kind == KYMO_M_LONG_GC || ev->kind == KYMO_M_LONG_SCHEDULE;
    const char *name = ev->kind < KYMO_M_FIRST_NOTE ? kymo_monitor_name(ev->kind) : NULL;
    if (name == NULL || (ev->kind == KYMO_M_LONG_QUEUE && ev->value == 0)) /* short again */
        return;
    int64_t value = ev->value < INT64_MAX / MS ? (int64_t)ev->value : INT64_MAX / MS;
    struct kymo_firing f = {.value = times                           ? value * MS
                                     : ev->kind == KYMO_M_LARGE_HEAP ? value
                                                                     : 0,
                            .end = ev->ns,
                            .process = ev->who,
                            .server = KYMO_IDENT_NONE,
                            .mfa = times && ev->in_mfa != 0 ? kymo_reader_canonical(t->r, ev->in_mfa) : 0,
                            .reported = name};
    if (!times || __builtin_sub_overflow(ev->ns, f.value, &f.start))
        f.start = ev->ns;
    for (uint32_t i = 0; i < t->n; i++) {
        if (kymo_trigger_is(t, i, KYMO_TRIG_REPORTED) &&
            (t->g[i].pattern == NULL || kymo_name_fits(name, t->g[i].pattern)))
            kymo_trigger_fire(t, i, &f);
    }
}
