/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts the recorder's ticks to CLOCK_MONOTONIC: linearly between two points, and with the
 * nominal rate if there is only one. The points are those of the calibration table, and after
 * its last one the start times in segment headers. Results never decrease with ticks: each
 * piece ends where the next one begins.
 *
 * If a segment's CLOCK_MONOTONIC is more than JUMP_NS earlier than its ticks, it was opened
 * after the counter had jumped ahead and before the recorder noticed. It gets a correction of
 * its own, which ends where the next segment of its thread begins. A later CLOCK_MONOTONIC is
 * no contradiction: the thread was preempted before it read that clock.
 */
#include <errno.h>
#include <stdlib.h>

#include "kymo_reader_int.h"

__extension__ typedef unsigned __int128 u128;

enum { NS_PER_SEC = 1000000000, SHORTEST_NS = 1000000, JUMP_NS = 1000000 };
/* For points from segments: the minimum distance, and the maximum number. */
enum { PAIR_NS = 10000000, PAIRS_MAX = 1 << 16 };

static void set_rate(struct kymo_piece *p, uint64_t ns, uint64_t ticks)
{
    /* Rounded up, so that rates such as 1/3 give exact results. */
    u128 q = (((u128)ns << 64) + ticks - 1) / ticks;
    uint32_t shift = 64;
    while (q >> 64 != 0) {
        q >>= 1;
        shift--;
    }
    p->mult = (uint64_t)q;
    p->shift = shift;
}

static inline int64_t add_sat(int64_t a, u128 b)
{
    uint64_t room = (uint64_t)INT64_MAX - (uint64_t)a; /* modulo 2^64: right for a < 0 too */
    return b > room ? INT64_MAX : (int64_t)((uint64_t)a + (uint64_t)b);
}

static int64_t sub_sat(int64_t a, u128 b)
{
    uint64_t room = (uint64_t)a - (uint64_t)INT64_MIN;
    return b > room ? INT64_MIN : (int64_t)((uint64_t)a - (uint64_t)b);
}

/* Sets the rate after the last point: that of the last second before it, or the nominal rate if
 * the points are too close together to be more accurate. */
static void go_on(struct kymo_clockmap *c, const struct kymo_meta *meta)
{
    struct kymo_piece *last = &c->pieces[c->n - 1], *from = last;
    while (from > c->pieces && (uint64_t)last->ns - (uint64_t)from->ns < NS_PER_SEC)
        from--;
    uint64_t ns = (uint64_t)last->ns - (uint64_t)from->ns;
    if (ns >= SHORTEST_NS)
        set_rate(last, ns, last->ticks - from->ticks);
    else
        set_rate(last, NS_PER_SEC, meta->ticks_per_sec == 0 ? NS_PER_SEC : meta->ticks_per_sec);
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
            continue; /* entry 0 equals the one in meta; any other case is damage */
        set_rate(p, (uint64_t)table[i].mono_ns - (uint64_t)p->ns, table[i].ticks - p->ticks);
        p[1].ticks = table[i].ticks;
        p[1].ns = table[i].mono_ns;
        c->n++;
    }
    go_on(c, meta);
    return 0;
}

/* True if the pair is far enough after the last point, and within a twentieth of the rate so
 * far. */
static bool agrees(const struct kymo_clockmap *c, const struct kymo_calib *pair, uint64_t apart)
{
    const struct kymo_piece *last = &c->pieces[c->n - 1];
    if (pair->ticks <= last->ticks || pair->mono_ns <= last->ns)
        return false;
    uint64_t ns = (uint64_t)pair->mono_ns - (uint64_t)last->ns;
    u128 expected = (u128)(pair->ticks - last->ticks) * last->mult >> last->shift;
    u128 slack = expected / 20;
    return ns >= apart && ns <= expected + slack && ns >= expected - slack;
}

int kymo_clock_extend(struct kymo_clockmap *c, const struct kymo_meta *meta, const struct kymo_calib *pairs,
                      size_t n)
{
    if (c->pieces == NULL || n == 0)
        return 0;
    const struct kymo_piece *end = &c->pieces[c->n - 1];
    u128 span = (u128)(pairs[n - 1].ticks - end->ticks) * end->mult >> end->shift;
    uint64_t apart = span / PAIRS_MAX > PAIR_NS ? (uint64_t)(span / PAIRS_MAX) : PAIR_NS;
    for (size_t i = 0; i < n; i++) {
        if (!agrees(c, &pairs[i], apart))
            continue;
        struct kymo_piece *p = realloc(c->pieces, ((size_t)c->n + 1) * sizeof *p);
        if (p == NULL)
            return -ENOMEM;
        c->pieces = p;
        p += c->n++;
        p[0] = (struct kymo_piece){.ticks = pairs[i].ticks, .ns = pairs[i].mono_ns};
        set_rate(&p[-1], (uint64_t)p[0].ns - (uint64_t)p[-1].ns, p[0].ticks - p[-1].ticks);
        go_on(c, meta);
    }
    return 0;
}

/* The piece that contains `ticks`, which must not be before the first one. */
static uint32_t piece_of(const struct kymo_clockmap *c, uint64_t ticks)
{
    const struct kymo_piece *p = c->pieces;
    uint32_t low = 0, high = c->n; /* p[low].ticks <= ticks < p[high].ticks */
    while (high - low > 1) {
        uint32_t mid = low + (high - low) / 2;
        if (p[mid].ticks <= ticks)
            low = mid;
        else
            high = mid;
    }
    return low;
}

int64_t kymo_clock_ns(const struct kymo_clockmap *c, uint32_t *hint, uint64_t ticks)
{
    const struct kymo_piece *p = c->pieces;
    if (p == NULL)
        return ticks > INT64_MAX ? INT64_MAX : (int64_t)ticks;
    if (ticks < p->ticks) /* before the first point */
        return sub_sat(p->ns, (u128)(p->ticks - ticks) * p->mult >> p->shift);
    uint32_t i = *hint;
    if (i >= c->n || ticks < p[i].ticks || (i + 1 < c->n && ticks >= p[i + 1].ticks))
        *hint = i = piece_of(c, ticks);
    int64_t ns = add_sat(p[i].ns, (u128)(ticks - p[i].ticks) * p[i].mult >> p[i].shift);
    return i + 1 < c->n && ns > p[i + 1].ns ? p[i + 1].ns : ns;
}

void kymo_clock_free(struct kymo_clockmap *c)
{
    free(c->pieces);
    c->pieces = NULL;
}

/* ---- segments ---- */

static int by_ticks(const void *a, const void *b)
{
    const struct kymo_calib *x = a, *y = b;
    return x->ticks < y->ticks ? -1 : x->ticks > y->ticks;
}

/* Adds points from segments after the last point of the table. */
static int add_pairs(struct kymo_reader *r)
{
    const struct kymo_index *ix = &r->index;
    uint64_t last = r->clock.pieces[r->clock.n - 1].ticks;
    struct kymo_calib *pairs = NULL;
    size_t n = 0, room = 0;
    int rc = 0;
    for (size_t i = 0; i < ix->n; i++) {
        const struct kymo_seg_ref *ref = &ix->refs[i];
        void *p = pairs;
        if (ref->ts_begin <= last || (ref->flags & KYMO_REF_TIME) != 0)
            continue;
        if (!kymo_grow(&p, &room, n + 1, sizeof *pairs)) {
            rc = -ENOMEM;
            break;
        }
        pairs = p;
        pairs[n++] = (struct kymo_calib){ref->ts_begin, ref->mono_ns};
    }
    if (rc == 0 && n > 0) {
        qsort(pairs, n, sizeof *pairs, by_ticks);
        rc = kymo_clock_extend(&r->clock, &r->meta, pairs, n);
    }
    free(pairs);
    return rc;
}

static int64_t shifted(int64_t ns, int64_t by)
{
    return by < 0 ? sub_sat(ns, (u128)(0 - (uint64_t)by)) : add_sat(ns, (u128)by);
}

/* The time at which segment i begins. */
static int64_t begin_ns(const struct kymo_reader *r, size_t i)
{
    uint32_t hint = 0;
    return shifted(kymo_clock_ns(&r->clock, &hint, r->index.refs[i].ts_begin), r->index.refs[i].mono_ns);
}

/* Sets the correction of segment i so that it begins at `ns`. */
static void move_to(struct kymo_reader *r, size_t i, int64_t ns)
{
    r->index.refs[i].mono_ns = 0;
    if (__builtin_sub_overflow(ns, begin_ns(r, i), &r->index.refs[i].mono_ns))
        r->index.refs[i].mono_ns = 0;
}

/* The earliest time at which segment i can begin: after the last record before it. */
static int64_t earliest(struct kymo_reader *r, size_t i, bool first)
{
    const struct kymo_seg_ref *ref = &r->index.refs[i];
    struct kymo_segment h;
    uint32_t hint = 0;
    int fd = kymo_file_get(&r->files, ref->file);
    bool good = fd >= 0 && kymo_file_read(fd, &h, sizeof h, ref->offset) == (ssize_t)sizeof h &&
                kymo_segment_unchanged(r, ref, &h);
    uint64_t before = good && h.ts_before < ref->ts_begin ? h.ts_before : ref->ts_begin;
    return shifted(kymo_clock_ns(&r->clock, &hint, before), first ? 0 : ref[-1].mono_ns);
}

/* Bounds the corrections of one thread, segments [first, end), so that no segment is moved beyond
 * its neighbours. */
static void bound_corrections(struct kymo_reader *r, size_t first, size_t end)
{
    const struct kymo_seg_ref *refs = r->index.refs;
    for (size_t i = first; i < end; i++) {
        int64_t limit = refs[i].mono_ns != 0 ? earliest(r, i, i == first) : 0;
        if (refs[i].mono_ns != 0 && begin_ns(r, i) < limit)
            move_to(r, i, limit);
    }
    for (size_t i = end - 1; i-- > first;) {
        int64_t limit = begin_ns(r, i + 1);
        if (refs[i].mono_ns != 0 && begin_ns(r, i) > limit)
            move_to(r, i, limit);
    }
}

int kymo_times_build(struct kymo_reader *r, const struct kymo_calib *table, uint32_t n)
{
    struct kymo_index *ix = &r->index;
    int rc = kymo_clock_build(&r->clock, &r->meta, table, n);
    if (rc == 0 && r->clock.pieces != NULL)
        rc = add_pairs(r);
    for (size_t i = 0; rc == 0 && i < ix->n; i++) {
        struct kymo_seg_ref *ref = &ix->refs[i];
        int64_t said = ref->mono_ns;
        ref->mono_ns = 0;
        int64_t off;
        if (r->clock.pieces == NULL || (ref->flags & KYMO_REF_TIME) != 0 ||
            __builtin_sub_overflow(said, begin_ns(r, i), &off) || off >= -JUMP_NS)
            continue;
        ref->mono_ns = off;
        r->jumps++;
    }
    for (size_t i = 0, end; rc == 0 && r->jumps > 0 && i < ix->n; i = end) {
        for (end = i + 1; end < ix->n && ix->refs[end].slot == ix->refs[i].slot;)
            end++;
        bound_corrections(r, i, end);
    }
    return rc;
}

int64_t kymo_ref_ns(const struct kymo_reader *r, size_t i, uint32_t *hint, uint64_t ticks)
{
    const struct kymo_index *ix = &r->index;
    int64_t ns = kymo_clock_ns(&r->clock, hint, ticks);
    if (r->jumps == 0)
        return ns;
    ns = shifted(ns, ix->refs[i].mono_ns);
    if (i + 1 < ix->n && ix->refs[i + 1].slot == ix->refs[i].slot) {
        int64_t limit = begin_ns(r, i + 1);
        ns = ns < limit ? ns : limit;
    }
    return ns;
}

int64_t kymo_reader_segment_ns(struct kymo_reader *r, uint64_t index, uint64_t ticks)
{
    return index < r->index.n ? kymo_ref_ns(r, (size_t)index, &r->clock_hint, ticks)
                              : kymo_reader_ns(r, ticks);
}

uint64_t kymo_reader_jumps(const struct kymo_reader *r)
{
    return r->jumps;
}
