/* SPDX-License-Identifier: Apache-2.0
 *
 * The pool of segments. Who needs one draws a ticket, a number that counts up: it
 * names a place (ticket modulo places) and becomes the `order` of the segment there.
 * A place that is in use is passed over, with a new ticket. So places are reused in
 * the order in which they were taken, whoever took them, and all threads' events
 * reach back equally far.
 *
 * A segment that a thread fills slowly would have to be passed over for laps, and
 * its newest events would be the next to go once it is closed. Hence its age is
 * bounded: whoever draws ticket t looks at the place of ticket t - n / 4. If that is
 * still open, its owner is asked (kymo_writer.end) to change segments with its next
 * event. An owner without events keeps its segment. So what is reused was closed at
 * least half a lap ago, or had its last event then.
 *
 * claims[place] = order << CLAIM_SHIFT | flags. Changes: 0 -> OPEN by compare-and-swap
 * (acquire) of whoever takes it; from OPEN by its owner (release), to FULL under
 * discard; FULL -> 0 by the worker. SUMMED is added by the worker.
 *
 * The worker does not hold a segment while it computes its CRC: a producer may take
 * the place meanwhile, and the sum is then of no use. It is put into the header by
 * compare-and-swap, against the turn that whoever opens the segment puts there.
 *
 * Under discard no place is taken before it was drained, and permits are counted:
 * two segments for each thread are its own, the rest (`spare`) goes to whoever comes.
 * There are never more permits than free places.
 */
#include <stdlib.h>
#include <zlib.h>

#include "kymo_internal.h"

#define CLAIM_OPEN 1u    /* a thread writes here */
#define CLAIM_FULL 2u    /* closed and not drained */
#define CLAIM_SPARE 4u   /* the permit was a spare one */
#define CLAIM_RETIRED 8u /* has no disk space any more */
#define CLAIM_SUMMED 16u /* has its CRC */
#define CLAIM_TAKEN (CLAIM_OPEN | CLAIM_FULL | CLAIM_RETIRED)
#define CLAIM_SHIFT 5
#define OWN_SEGMENTS 2u

uint64_t kymo_pool_bytes(uint64_t n_segments, uint64_t n_slots)
{
    return n_segments * (sizeof(uint64_t) + sizeof(struct kymo_full)) + n_slots * sizeof(uint64_t);
}

void kymo_pool_init(struct kymo_recorder *r, void *mem)
{
    struct kymo_pool *p = &r->pool;

    p->n = r->layout.n_segments;
    p->mem = r->ring_map.mem;
    p->full = mem;
    p->claims = (uint64_t *)(void *)(p->full + p->n);
    p->closed = p->claims + p->n;
    p->age = p->n / 4;
    p->next = p->n; /* 0 is no order */
    p->spare = (int64_t)p->n - (int64_t)OWN_SEGMENTS * r->opt.n_slots;
    for (uint32_t i = 0; i < r->opt.n_slots; i++)
        r->writers[i].own_free = OWN_SEGMENTS;
}

void kymo_gone(struct kymo_slot *slot, uint64_t ticks)
{
    kymo_raise(&slot->gone_until, ticks);
}

/* ---- taking ---------------------------------------------------------------------- */

/* Asks the owner of the segment that `order` is the age limit of. */
static void ask_for_change(struct kymo_recorder *r, uint64_t order)
{
    uint64_t old = order - r->pool.age;
    uint64_t place = old % r->pool.n;
    uint64_t claim, owner;

    /* Either the owner of an open segment is seen here, or it sees the ticket. */
    kymo_full_fence();
    claim = kymo_get_acquire(&r->pool.claims[place]);
    if ((claim & CLAIM_OPEN) == 0 || claim >> CLAIM_SHIFT > old)
        return;
    owner = kymo_get(&kymo_segment_at(r, place)->instance);
    if (owner < r->opt.n_slots) /* another by now: it finds that its segment is young */
        kymo_set(&r->writers[owner].end, (uintptr_t)0);
}

static bool take_permit(struct kymo_writer *w, bool *spare)
{
    int64_t *left = &w->rec->pool.spare;
    int64_t n = kymo_get(left);

    /* Only this thread takes from its own. */
    *spare = kymo_get_acquire(&w->own_free) == 0;
    if (!*spare) {
        (void)__atomic_fetch_sub(&w->own_free, 1u, __ATOMIC_RELAXED);
        return true;
    }
    do {
        if (n <= 0)
            return false;
    } while (!__atomic_compare_exchange_n(left, &n, n - 1, true, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED));
    return true;
}

/* What the segment held is gone. */
static void account(struct kymo_recorder *r, const struct kymo_segment *s)
{
    struct kymo_slot *slot;

    if (s->order == 0 || s->instance >= r->opt.n_slots)
        return;
    if (r->opt.policy != KYMO_OVERWRITE) {
        kymo_raise(&r->writers[s->instance].pool_until, s->ts_end);
        return;
    }
    slot = &r->slots[s->instance];
    kymo_add(&slot->overwritten, s->events);
    kymo_gone(slot, s->ts_end);
}

struct kymo_segment *kymo_pool_take(struct kymo_writer *w, uint64_t *order)
{
    struct kymo_recorder *r = w->rec;
    bool discard = r->opt.policy == KYMO_DISCARD, spare = false;
    struct kymo_segment *s;

    if (discard && !take_permit(w, &spare))
        return NULL;
    for (;;) {
        uint64_t ticket = kymo_add(&r->pool.next, (uint64_t)1);
        uint64_t *claim = &r->pool.claims[ticket % r->pool.n];
        uint64_t seen;

        KYMO_POINT(KYMO_AT_TICKET);
        if (!discard)
            ask_for_change(r, ticket);
        seen = kymo_get(claim);
        /* A ticket that waited for more than a lap must not take what is new. */
        if ((seen & CLAIM_TAKEN) != 0 || seen >> CLAIM_SHIFT > ticket)
            continue;
        if (!__atomic_compare_exchange_n(claim, &seen,
                                         ticket << CLAIM_SHIFT | CLAIM_OPEN | (spare ? CLAIM_SPARE : 0u),
                                         false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            continue;
        *order = ticket;
        s = kymo_segment_at(r, ticket % r->pool.n);
        account(r, s);
        KYMO_POINT(KYMO_AT_REUSE);
        /* A reader that sees any of the new header also sees commit 0 or the new one. */
        kymo_set(&s->commit, (uint64_t)0);
        kymo_release_fence();
        return s;
    }
}

bool kymo_pool_aged(const struct kymo_writer *w)
{
    const struct kymo_recorder *r = w->rec;

    if (r->opt.policy != KYMO_OVERWRITE)
        return false;
    kymo_full_fence(); /* see ask_for_change */
    return kymo_get(&r->pool.next) - w->order > r->pool.age;
}

void kymo_pool_release(struct kymo_writer *w)
{
    struct kymo_recorder *r = w->rec;
    uint64_t *claim = &r->pool.claims[w->order % r->pool.n];
    uint64_t flags = r->opt.policy == KYMO_DISCARD ? CLAIM_FULL | (kymo_get(claim) & CLAIM_SPARE) : 0;

    kymo_set_release(claim, w->order << CLAIM_SHIFT | flags);
}

/* ---- CRCs ------------------------------------------------------------------------ */

/* crc and flags, which change together: readers may look at any time. */
static uint64_t *crc_word(struct kymo_segment *s)
{
    _Static_assert(offsetof(struct kymo_segment, crc) % 8 == 0 &&
                       offsetof(struct kymo_segment, flags) == offsetof(struct kymo_segment, crc) + 4,
                   "crc and flags in one word");
    return (uint64_t *)(void *)&s->crc;
}

/* Of a segment without a CRC. Different in uses of the place that follow each other. */
static uint64_t no_crc(const struct kymo_recorder *r, uint64_t order)
{
    return (order / r->pool.n) << (32 + KYMO_SEG_TURN_SHIFT);
}

void kymo_pool_no_crc(struct kymo_recorder *r, struct kymo_segment *s, uint64_t order)
{
    kymo_set(crc_word(s), no_crc(r, order));
}

/* False when somebody takes the place meanwhile. */
static bool sum(struct kymo_recorder *r, struct kymo_segment *s, uint64_t *claim, uint64_t seen)
{
    uint64_t len = kymo_get(&s->content_bits) / 8;
    uint64_t without = no_crc(r, seen >> CLAIM_SHIFT), with;

    /* What is read may be of the next use, and anything. */
    if (len < KYMO_SEG_HEADER || len > r->layout.segment_bytes)
        return false;
    with = (without | (uint64_t)KYMO_SEG_CRC << 32) |
           (uint32_t)crc32(0, (const uint8_t *)s + KYMO_SEG_HEADER, (uInt)(len - KYMO_SEG_HEADER));
    KYMO_POINT(KYMO_AT_SUM);
    kymo_acquire_fence();
    return kymo_get(claim) == seen &&
           __atomic_compare_exchange_n(crc_word(s), &without, with, false, __ATOMIC_RELEASE,
                                       __ATOMIC_RELAXED) &&
           __atomic_compare_exchange_n(claim, &seen, seen | CLAIM_SUMMED, false, __ATOMIC_RELAXED,
                                       __ATOMIC_RELAXED);
}

unsigned kymo_pool_sum(struct kymo_recorder *r, unsigned most)
{
    unsigned done = 0;

    for (uint64_t i = 0; i < r->pool.n && done < most; i++) {
        uint64_t place = (r->pool.sum_at + i) % r->pool.n;
        uint64_t *claim = &r->pool.claims[place];
        uint64_t seen = kymo_get_acquire(claim);

        if ((seen & (CLAIM_TAKEN | CLAIM_SUMMED)) != 0 || seen == 0 ||
            !sum(r, kymo_segment_at(r, place), claim, seen))
            continue;
        done++;
        if (done == most)
            r->pool.sum_at = (place + 1) % r->pool.n;
    }
    return done;
}

/* ---- draining -------------------------------------------------------------------- */

static int by_order(const void *a, const void *b)
{
    const struct kymo_full *x = a, *y = b;

    return x->order < y->order ? -1 : x->order > y->order;
}

uint64_t kymo_pool_full(struct kymo_recorder *r)
{
    struct kymo_pool *p = &r->pool;
    uint64_t n = 0;

    /* A segment that was closed after this look may be seen before an older one of
     * its thread: it is left for the next time. */
    for (uint32_t i = 0; i < r->opt.n_slots; i++)
        p->closed[i] = kymo_get_acquire(&r->writers[i].closed_seq);
    for (uint64_t place = 0; place < p->n; place++) {
        uint64_t claim = kymo_get_acquire(&p->claims[place]);
        const struct kymo_segment *s = kymo_segment_at(r, place);

        if ((claim & CLAIM_FULL) != 0 && s->seq <= p->closed[s->instance])
            p->full[n++] = (struct kymo_full){claim >> CLAIM_SHIFT, place};
    }
    qsort(p->full, n, sizeof *p->full, by_order);
    return n;
}

void kymo_pool_drained(struct kymo_recorder *r, uint64_t place)
{
    uint64_t *claim = &r->pool.claims[place];
    uint64_t seen = kymo_get(claim);
    struct kymo_writer *w = &r->writers[kymo_segment_at(r, place)->instance];

    /* The place first: a permit is only for what is free. */
    kymo_set_release(claim, seen & ~(uint64_t)(CLAIM_FULL | CLAIM_SPARE));
    if ((seen & CLAIM_SPARE) != 0)
        (void)__atomic_fetch_add(&r->pool.spare, (int64_t)1, __ATOMIC_RELEASE);
    else
        (void)__atomic_fetch_add(&w->own_free, 1u, __ATOMIC_RELEASE);
}

bool kymo_pool_is_full(const struct kymo_recorder *r, uint64_t place)
{
    return (kymo_get(&r->pool.claims[place]) & CLAIM_FULL) != 0;
}

bool kymo_pool_is_open(const struct kymo_recorder *r, uint64_t place)
{
    return (kymo_get(&r->pool.claims[place]) & CLAIM_OPEN) != 0;
}

void kymo_pool_retire(struct kymo_recorder *r, uint64_t place)
{
    kymo_set_release(&r->pool.claims[place], kymo_get(&r->pool.claims[place]) | CLAIM_RETIRED);
}

bool kymo_pool_is_retired(const struct kymo_recorder *r, uint64_t place)
{
    return (kymo_get(&r->pool.claims[place]) & CLAIM_RETIRED) != 0;
}
