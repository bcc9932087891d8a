/* SPDX-License-Identifier: Apache-2.0
 *
 * Recorder clock to CLOCK_MONOTONIC: linear between two calibration points,
 * the nominal rate where there is no second point. Results never go down when
 * ticks go up: a piece ends where the next one begins, and is cut there.
 */
#include <errno.h>
#include <stdlib.h>

#include "kymo_reader_int.h"

__extension__ typedef unsigned __int128 u128;

enum { NS_PER_SEC = 1000000000, SHORTEST_NS = 1000000 };

static void set_rate(struct kymo_piece *p, uint64_t ns, uint64_t ticks)
{
    /* Rounded up, so that a rate like 1/3 gives whole numbers where it should. */
    u128 q = (((u128)ns << 64) + ticks - 1) / ticks;
    uint32_t shift = 64;
    while (q >> 64 != 0) {
        q >>= 1;
        shift--;
    }
    p->mult = (uint64_t)q;
    p->shift = shift;
}

static int64_t add_sat(int64_t a, u128 b)
{
    uint64_t room = (uint64_t)INT64_MAX - (uint64_t)a; /* modulo 2^64: right for a < 0 too */
    return b > room ? INT64_MAX : (int64_t)((uint64_t)a + (uint64_t)b);
}

static int64_t sub_sat(int64_t a, u128 b)
{
    uint64_t room = (uint64_t)a - (uint64_t)INT64_MIN;
    return b > room ? INT64_MIN : (int64_t)((uint64_t)a - (uint64_t)b);
}

int kymo_clock_build(struct kymo_clockmap *c, const struct kymo_meta *meta, const struct kymo_calib *table,
                     uint32_t n)
{
    c->pieces = NULL;
    c->n = 0;
    if (meta->clock == KYMO_CLOCK_MONOTONIC)
        return 0;
    c->pieces = calloc((size_t)n + 1, sizeof *c->pieces);
    if (c->pieces == NULL)
        return -ENOMEM;
    c->pieces[0].ticks = meta->t0_ticks;
    c->pieces[0].ns = meta->t0_mono_ns;
    c->n = 1;
    for (uint32_t i = 0; i < n; i++) {
        struct kymo_piece *p = &c->pieces[c->n - 1];
        if (table[i].ticks <= p->ticks || table[i].mono_ns <= p->ns)
            continue; /* entry 0 repeats the creation; anything else is damage */
        set_rate(p, (uint64_t)table[i].mono_ns - (uint64_t)p->ns, table[i].ticks - p->ticks);
        p[1].ticks = table[i].ticks;
        p[1].ns = table[i].mono_ns;
        c->n++;
    }
    /* Beyond the last point: its neighbour's rate, unless they are too close
     * together to tell more than the nominal rate does. */
    struct kymo_piece *last = &c->pieces[c->n - 1];
    if (c->n > 1 && (uint64_t)last->ns - (uint64_t)last[-1].ns >= SHORTEST_NS) {
        last->mult = last[-1].mult;
        last->shift = last[-1].shift;
    } else {
        set_rate(last, NS_PER_SEC, meta->ticks_per_sec == 0 ? NS_PER_SEC : meta->ticks_per_sec);
    }
    return 0;
}

int64_t kymo_clock_ns(const struct kymo_clockmap *c, uint32_t *hint, uint64_t ticks)
{
    if (c->pieces == NULL)
        return ticks > INT64_MAX ? INT64_MAX : (int64_t)ticks;
    const struct kymo_piece *p = c->pieces;
    if (ticks < p->ticks) /* before the first point */
        return sub_sat(p->ns, (u128)(p->ticks - ticks) * p->mult >> p->shift);
    uint32_t i = *hint < c->n ? *hint : 0;
    if (ticks < p[i].ticks || (i + 1 < c->n && ticks >= p[i + 1].ticks)) {
        uint32_t low = 0, high = c->n; /* p[low].ticks <= ticks < p[high].ticks */
        while (high - low > 1) {
            uint32_t mid = low + (high - low) / 2;
            if (p[mid].ticks <= ticks)
                low = mid;
            else
                high = mid;
        }
        *hint = i = low;
    }
    int64_t ns = add_sat(p[i].ns, (u128)(ticks - p[i].ticks) * p[i].mult >> p[i].shift);
    return i + 1 < c->n && ns > p[i + 1].ns ? p[i + 1].ns : ns;
}

void kymo_clock_free(struct kymo_clockmap *c)
{
    free(c->pieces);
    c->pieces = NULL;
}
