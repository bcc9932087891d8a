/* SPDX-License-Identifier: Apache-2.0 */
#include "kymo_gauges.h"

#include "kymo_timeline.h"

enum { SECOND = 1000000000 };

struct before {
    int64_t ns;
    uint64_t value;
};

void kymo_gauges_free(struct kymo_gauges *g)
{
    if (g->ready)
        kymo_map_free(&g->last);
    g->ready = false;
}

/* Rounds, and does not overflow, even with values from a damaged recording. */
static uint64_t per_second(uint64_t n, int64_t ns)
{
    double rate = (double)n * SECOND / (double)ns;
    return rate < 9e18 ? (uint64_t)(rate + 0.5) : UINT64_MAX;
}

bool kymo_gauges_next(struct kymo_gauges *g, const struct kymo_reader *r, const struct kymo_event *ev,
                      uint32_t i, struct kymo_gauge *out)
{
    struct kymo_counter_value v = kymo_counter_at(ev, i);
    bool added;
    *out = (struct kymo_gauge){.ns = ev->ns,
                               .slot = ev->slot,
                               .counter = v.counter,
                               .index = v.index,
                               .value = v.value,
                               .process = kymo_counter_process(ev, i)};
    if (kymo_counter_name(v.counter) == NULL || v.counter == KYMO_N_BUSY_PROCESS)
        return false;
    if (!kymo_counter_is_sum(v.counter))
        return true;
    if (!g->ready)
        kymo_map_init(&g->last, sizeof(struct before));
    g->ready = true;
    uint64_t key = (uint64_t)kymo_timeline_of_slot(r, ev->slot) << 32 | (uint64_t)v.counter << 16 | v.index;
    struct before *b = kymo_map_put(&g->last, key, &added);
    if (b == NULL)
        return false;
    if (!added && ev->ns > b->ns && v.value >= b->value) {
        out->has_rate = true;
        out->increase = v.value - b->value;
        out->rate = per_second(out->increase, (int64_t)((uint64_t)ev->ns - (uint64_t)b->ns));
    }
    *b = (struct before){ev->ns, v.value};
    return true;
}
