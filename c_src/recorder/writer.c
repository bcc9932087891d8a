/* SPDX-License-Identifier: Apache-2.0
 *
 * The slow half of the hot path: once per segment, per lease, or when something
 * is in the way. Runs in producer threads inside get .. put, or in the one who
 * has quiesced them.
 */
#include <errno.h>

#include "kymo_internal.h"

/* Leases of the limit on events: large ones keep threads off the shared counter,
 * but what a thread leaves unused of its lease is missing when the limit is
 * reached. A 64th of what is left, spread over all threads, bounds that. */
#define KYMO_LEASE_MAX 256u

static bool lease(struct kymo_writer *w)
{
    struct kymo_recorder *r = w->rec;
    uint64_t left = kymo_get(&r->events_left);
    uint64_t n;

    do {
        if (left == 0)
            return false;
        n = left / (64u * (uint64_t)r->opt.n_slots);
        n = n < 1 ? 1 : n > KYMO_LEASE_MAX ? KYMO_LEASE_MAX : n;
    } while (!__atomic_compare_exchange_n(&r->events_left, &left, left - n, true, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
    w->events_stop = w->slot->events + n;
    return true;
}

/* Sends the producer through kymo_reserve_slow with its next event. */
static void force_slow(struct kymo_writer *w)
{
    kymo_set(&w->end, (uintptr_t)w->cur);
}

static void limit_reached(struct kymo_writer *w, enum kymo_reason why)
{
    force_slow(w);
    if (kymo_begin_stop(w->rec, why))
        kymo_wake(w->rec);
}

void kymo_lease_spent(struct kymo_writer *w)
{
    if (!lease(w))
        limit_reached(w, KYMO_R_EVENTS);
}

void kymo_lease_return(struct kymo_writer *w)
{
    if (w->rec->opt.limit_events == 0)
        return;
    kymo_add(&w->rec->events_left, w->events_stop - w->slot->events);
    w->events_stop = w->slot->events;
    force_slow(w);
}

/* The distance to the next event taken is uniform in 0 .. 2N-2 events left out: a
 * fixed one would take only the calls, or only the returns, of a steady loop. */
void kymo_sample_next(struct kymo_writer *w)
{
    uint64_t x = w->rng;

    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    w->rng = x;
    w->sample_left = (x >> 32) % (2 * (uint64_t)w->sample - 1);
}

void kymo_segment_close(struct kymo_writer *w)
{
    struct kymo_recorder *r = w->rec;
    struct kymo_segment *s = w->seg;
    uint64_t used;

    if (s == NULL)
        return;
    used = s->commit;
    s->ts_end = w->last;
    s->discarded = w->lost_total;
    s->events = w->slot->events - s->events_before;
    kymo_set(&w->slot->bytes, w->slot->bytes + used - KYMO_SEG_HEADER);
    kymo_set_release(&s->content_bits, used * 8);
    if (r->opt.limit_bytes != 0)
        (void)__atomic_fetch_sub(&r->bytes_opened, r->layout.segment_bytes - used, __ATOMIC_RELAXED);
    kymo_set_release(&w->closed_seq, w->seq);
    w->seg = NULL;
    w->cur = NULL;
    kymo_set(&w->end, (uintptr_t)0);
    w->seg_end = NULL;
    kymo_pool_release(w);
}

/* Within the limit on bytes. */
static bool may_open(struct kymo_writer *w)
{
    struct kymo_recorder *r = w->rec;
    uint64_t bytes = r->layout.segment_bytes;

    if (r->opt.limit_bytes == 0 || kymo_add(&r->bytes_opened, bytes) + bytes <= r->opt.limit_bytes)
        return true;
    (void)__atomic_fetch_sub(&r->bytes_opened, bytes, __ATOMIC_RELAXED);
    limit_reached(w, KYMO_R_BYTES);
    return false;
}

/* 0; -ENOBUFS when nothing is drained yet; -ESHUTDOWN when the limit on bytes is
 * reached. */
static int segment_open(struct kymo_writer *w, uint64_t now)
{
    struct kymo_recorder *r = w->rec;
    struct kymo_segment *s;

    if (!may_open(w))
        return -ESHUTDOWN;
    s = kymo_pool_take(w, &w->order);
    if (s == NULL) {
        if (r->opt.limit_bytes != 0)
            (void)__atomic_fetch_sub(&r->bytes_opened, (uint64_t)r->layout.segment_bytes, __ATOMIC_RELAXED);
        return -ENOBUFS;
    }
    KYMO_POINT(KYMO_AT_SEGMENT_RESET);
    s->magic = KYMO_SEG_MAGIC;
    memcpy(s->uuid, r->meta->uuid, sizeof s->uuid);
    s->stream_id = 0;
    kymo_set(&s->instance, (uint64_t)w->index);
    s->ts_begin = now;
    s->ts_end = 0;
    kymo_set(&s->content_bits, (uint64_t)0);
    s->packet_bits = (uint64_t)r->layout.segment_bytes * 8;
    kymo_set(&s->seq, w->seq + 1);
    s->discarded = w->lost_total;
    s->events = 0;
    s->thread_kind = w->thread_kind;
    s->thread_no = w->thread_no;
    kymo_pool_no_crc(r, s, w->order);
    s->lost_before = w->lost_total;
    s->events_before = w->slot->events;
    kymo_set(&s->order, w->order);
    s->ts_before = w->last;
    s->mono_ns = kymo_clock_mono_at(w, now);
    s->epoch = kymo_get(&r->meta->epochs);
    s->reserved = 0;
    KYMO_POINT(KYMO_AT_SEGMENT_OPEN);

    w->seg = s;
    w->seq++;
    w->last = now;
    w->cur = (uint8_t *)s + KYMO_SEG_HEADER;
    w->seg_end = (uint8_t *)s + r->layout.segment_bytes;
    kymo_set(&w->end, (uintptr_t)w->seg_end);
    kymo_set_release(&s->commit, (uint64_t)KYMO_SEG_HEADER);
    kymo_set_release(&w->slot->place, w->order % r->pool.n);
    KYMO_POINT(KYMO_AT_PLACE);
    kymo_set_release(&w->slot->seq, w->seq);
    return 0;
}

static unsigned header_size(const struct kymo_writer *w, uint64_t now)
{
    return (now - w->last) >> 32 == 0 ? KYMO_HDR_COMPACT : KYMO_HDR_EXTENDED;
}

static uint8_t *put_header(struct kymo_writer *w, unsigned id, uint64_t now)
{
    uint8_t *p = w->cur;

    w->pending = now;
    if (header_size(w, now) == KYMO_HDR_COMPACT)
        return kymo_put32(kymo_put8(p, (uint8_t)id), (uint32_t)now);
    p = kymo_put8(p, KYMO_ID_EXTENDED);
    return kymo_put64(kymo_put32(p, id), now);
}

static bool has_room(const struct kymo_writer *w, size_t body, uint64_t now)
{
    return w->seg != NULL && (size_t)(w->seg_end - w->cur) >= header_size(w, now) + body;
}

/* As kymo_commit, but a note is not an event. */
static void commit_note(struct kymo_writer *w, uint8_t *end)
{
    bool forced = kymo_room(w) <= 0;

    w->last = w->pending;
    w->cur = end;
    if (forced)
        force_slow(w);
    kymo_set_release(&w->seg->commit, (uint64_t)(end - (uint8_t *)w->seg));
}

#define KYMO_LOST_BODY 9u

static uint64_t between(uint64_t t, uint64_t least, uint64_t most)
{
    return t < least || most < least ? least : t > most ? most : t;
}

static bool write_loss(struct kymo_writer *w, unsigned cause, uint64_t n, uint64_t at, bool open)
{
    if (!has_room(w, KYMO_LOST_BODY, at)) {
        if (!open)
            return false;
        kymo_segment_close(w);
        if (segment_open(w, at) != 0)
            return false;
    }
    w->noted[cause] += n;
    commit_note(w, kymo_put64(kymo_put8(put_header(w, KYMO_E_LOST, at), (uint8_t)cause), n));
    return true;
}

/* The first note has the time of the first loss, the last one that of the last. */
bool kymo_write_losses(struct kymo_writer *w, uint64_t now, bool open)
{
    uint64_t last = between(w->lost_last, w->last, now);

    for (unsigned c = 0; c < KYMO_LOSS_CAUSES; c++) {
        uint64_t n = w->slot->lost[c] - w->noted[c];
        uint64_t at = between(w->lost_first, w->last, last);
        uint64_t part = n > 1 && at < last ? 1 : n;

        if (n != 0 && !write_loss(w, c, part, at, open))
            return false;
        if (n != 0)
            w->lost_first = last;
        if (n != part && !write_loss(w, c, n - part, last, open))
            return false;
    }
    w->lost_first = w->lost_last = 0;
    return true;
}

void kymo_write_state(struct kymo_writer *w, enum kymo_state s, uint64_t now)
{
    if (now < w->last)
        now = w->last;
    if (has_room(w, 1, now))
        commit_note(w, kymo_put8(put_header(w, KYMO_E_STATE, now), (uint8_t)s));
}

static void count_lost(struct kymo_writer *w, enum kymo_loss cause, uint64_t now)
{
    if (w->lost_first == 0)
        w->lost_first = now;
    w->lost_last = now;
    kymo_set(&w->slot->lost_last, now);
    kymo_set(&w->slot->lost[cause], w->slot->lost[cause] + 1);
    w->lost_total++;
}

/* The next reserve takes the slow path, which tells the stream. */
void kymo_lose(struct kymo_writer *w, enum kymo_loss cause)
{
    if ((unsigned)cause >= KYMO_LOSS_CAUSES)
        cause = KYMO_LOST_BAD_TERM;
    count_lost(w, cause, kymo_now(w));
    force_slow(w);
}

/* The interrupted code below on this stack may be anywhere: only count. */
void kymo_writer_reentered(struct kymo_writer *w)
{
    count_lost(w, KYMO_LOST_REENTRY, kymo_now(w));
}

/* Tickets in a row that may turn out to be old by the time their place is taken. */
#define KYMO_LATE_MOST 4u

/* What is put into the open segment is kept for its share of the pool's time, and
 * belongs to one epoch of the clock. */
static bool fresh(const struct kymo_writer *w, unsigned *late)
{
    if (w->seg->epoch != kymo_get(&w->rec->meta->epochs))
        return false;
    return !kymo_pool_aged(w) || (*late)++ >= KYMO_LATE_MOST;
}

uint8_t *kymo_reserve_slow(struct kymo_writer *w, unsigned id, size_t max_body, uint64_t now)
{
    struct kymo_recorder *r = w->rec;
    unsigned late = 0;

    if (w->slot->events == w->events_stop && !lease(w)) {
        limit_reached(w, KYMO_R_EVENTS);
        return NULL;
    }
    if (max_body > r->layout.segment_bytes - KYMO_SEG_HEADER - KYMO_HDR_COMPACT) {
        kymo_lose(w, KYMO_LOST_TOO_BIG);
        return NULL;
    }
    if ((now - w->last) >> 32 != 0)
        now = kymo_clock_correct(w, now);
    if (now < w->last)
        now = w->last;
    /* Ends: in a new segment the header is compact, and once the losses are told
     * the record has a segment of its own if it needs one. */
    for (;;) {
        if (w->seg != NULL) {
            kymo_set(&w->end, (uintptr_t)w->seg_end);
            if (fresh(w, &late) && kymo_write_losses(w, now, false) && has_room(w, max_body, now)) {
                if (late > KYMO_LATE_MOST)
                    force_slow(w); /* the next event tries again */
                return put_header(w, id, now);
            }
        }
        kymo_segment_close(w);
        switch (segment_open(w, w->lost_first != 0 ? between(w->lost_first, w->last, now) : now)) {
        case 0: break;
        case -ENOBUFS:
            count_lost(w, kymo_get(&r->io_failing) ? KYMO_LOST_IO : KYMO_LOST_RING_FULL, now);
            force_slow(w);
            return NULL;
        default: return NULL;
        }
    }
}

void kymo_writer_init(struct kymo_recorder *r, uint32_t index)
{
    struct kymo_writer *w = &r->writers[index];

    w->rec = r;
    w->index = index;
    w->slot = &r->slots[index];
    w->counter = r->clock == KYMO_CLOCK_COUNTER;
    w->sample = r->opt.sample_kind == 0 ? r->opt.sample : 1;
    w->rng = kymo_mix(r->head.generation ^ ((uint64_t)index << 32) ^ r->t0_ns) | 1;
    w->events_stop = r->opt.limit_events == 0 ? UINT64_MAX : 0;
    kymo_sample_next(w);
}
