/* SPDX-License-Identifier: Apache-2.0
 *
 * The pool of segments. A thread that needs a segment draws a ticket from a counter. The
 * ticket selects a place (ticket modulo number of places) and becomes the `order` of the
 * segment there. If the place is in use, the thread draws another ticket. So places are
 * reused in the order in which they were taken, by any thread, and the events of all
 * threads reach equally far back.
 *
 * A segment that its thread fills slowly would be passed over for several laps, and its
 * newest events would be overwritten soon after it is closed. So its age is bounded: the
 * thread that draws ticket t checks the place of ticket t - n / 4. If it is still open, its
 * owner is requested (kymo_writer.end) to change segments at its next event. An owner
 * without events keeps its segment. So a segment that is reused was closed, or had its last
 * event, at least half a lap ago.
 *
 * claims[place] = order << CLAIM_SHIFT | flags. Transitions: 0 -> OPEN by compare-and-swap
 * (acquire) of the thread that takes it; from OPEN by its owner (release), to FULL under
 * discard; FULL -> 0 by the worker. The worker adds SUMMED.
 *
 * The worker does not hold a segment while it computes the CRC. If a producer takes the
 * place during that time, the CRC is discarded: the worker stores it with a
 * compare-and-swap that expects the turn of the segment, and opening a segment changes the
 * turn.
 *
 * Under discard a place is taken only after it was drained, and permits are counted: each
 * thread has two reserved segments, the others (`spare`) are for any thread. There are
 * never more permits than free places.
 */
#include <stdlib.h>
#include <zlib.h>

#include "kymo_internal.h"

#define CLAIM_OPEN 1u    /* a thread writes here */
#define CLAIM_FULL 2u    /* closed, not drained yet */
#define CLAIM_SPARE 4u   /* taken with a permit from `spare` */
#define CLAIM_RETIRED 8u /* its disk space was freed */
#define CLAIM_SUMMED 16u /* its CRC was stored */
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
    p->next = p->n; /* the first order; 0 means none */
    p->spare = (int64_t)p->n - (int64_t)OWN_SEGMENTS * r->opt.n_slots;
    for (uint32_t i = 0; i < r->opt.n_slots; i++)
        r->writers[i].own_free = OWN_SEGMENTS;
}

void kymo_gone(struct kymo_slot *slot, uint64_t ticks)
{
    kymo_raise(&slot->gone_until, ticks);
}

/* ---- taking ---------------------------------------------------------------------- */

/* If the segment that reaches its age limit with the ticket `order` is still open, asks its
 * owner to change segments. */
static void ask_for_change(struct kymo_recorder *r, uint64_t order)
{
    uint64_t old = order - r->pool.age;
    uint64_t place = old % r->pool.n;
    uint64_t claim, owner;

    /* Pairs with the fence in kymo_pool_aged: either this thread sees the open segment, or
     * its owner sees this ticket. */
    kymo_full_fence();
    claim = kymo_get_acquire(&r->pool.claims[place]);
    if ((claim & CLAIM_OPEN) == 0 || claim >> CLAIM_SHIFT > old)
        return;
    owner = kymo_get(&kymo_segment_at(r, place)->instance);
    if (owner < r->opt.n_slots) /* if it is another owner by now, it finds its segment is young */
        kymo_set(&r->writers[owner].end, (uintptr_t)0);
}

static bool take_permit(struct kymo_writer *w, bool *spare)
{
    int64_t *left = &w->rec->pool.spare;
    int64_t n = kymo_get(left);

    /* No other thread decrements own_free. */
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

/* Counts the events of a segment that is about to be reused as overwritten. Under discard
 * they are in a data file; notes up to when. */
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
        /* A thread that was delayed for more than a lap must not take a newer segment. */
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
        /* A reader that sees any word of the new header also sees commit 0, or a commit of
         * the new segment. */
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
    kymo_full_fence(); /* pairs with the one in ask_for_change */
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

/* crc and flags as one word. They change together, since readers may read at any time. */
static uint64_t *crc_word(struct kymo_segment *s)
{
    _Static_assert(offsetof(struct kymo_segment, crc) % 8 == 0 &&
                       offsetof(struct kymo_segment, flags) == offsetof(struct kymo_segment, crc) + 4,
                   "crc and flags in one word");
    return (uint64_t *)(void *)&s->crc;
}

/* The word of a segment without a CRC. It differs between consecutive uses of a place. */
static uint64_t no_crc(const struct kymo_recorder *r, uint64_t order)
{
    return (order / r->pool.n) << (32 + KYMO_SEG_TURN_SHIFT);
}

void kymo_pool_no_crc(struct kymo_recorder *r, struct kymo_segment *s, uint64_t order)
{
    kymo_set(crc_word(s), no_crc(r, order));
}

/* Computes and stores the CRC. Returns false if another thread takes the place first. */
static bool sum(struct kymo_recorder *r, struct kymo_segment *s, uint64_t *claim, uint64_t seen)
{
    uint64_t len = kymo_get(&s->content_bits) / 8;
    uint64_t without = no_crc(r, seen >> CLAIM_SHIFT), with;

    /* The place may be in use again, so this length can be anything. */
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

    /* The scan below may see a segment but miss an older one of the same thread, if both are
     * closed during the scan. So segments closed from now on are left for the next call. */
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

    /* The place is freed before the permit: a permit stands for a free place. */
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
