/* SPDX-License-Identifier: Apache-2.0
 *
 * The slow path of recording: once per segment, per lease, or when the fast path cannot
 * proceed. Runs in producer threads between get and put, or in the thread that has quiesced
 * them.
 */
#include <errno.h>

#include "kymo_internal.h"

/* The limit on events is leased to threads in portions. Large portions avoid contention on the
 * shared counter, but the recording ends with events that are leased and unused. So all
 * threads together hold about a 64th of the remaining events. */
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

/* Makes the producer's next event take kymo_reserve_slow. */
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

/* Chooses how many events to skip, uniformly from 0 .. 2N-2. With a fixed number, a regular
 * loop could yield only calls, or only returns. */
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

/* False if another segment would exceed the limit on bytes; then the recorder stops. */
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

/* Returns 0, -ENOBUFS if no segment is free (discard), or -ESHUTDOWN if the limit on bytes is
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

/* As kymo_commit, but does not count an event. */
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

/* The first note has the time of the first loss, the last note that of the last loss. */
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

/* Makes the next reserve take the slow path, which writes a note of the loss. */
void kymo_lose(struct kymo_writer *w, enum kymo_loss cause)
{
    if ((unsigned)cause >= KYMO_LOSS_CAUSES)
        cause = KYMO_LOST_BAD_TERM;
    count_lost(w, cause, kymo_now(w));
    force_slow(w);
}

/* This thread has interrupted itself between get and put. Only counts, as the writer may be
 * in any state. */
void kymo_writer_reentered(struct kymo_writer *w)
{
    count_lost(w, KYMO_LOST_REENTRY, kymo_now(w));
}

/* How many new segments in a row may be found too old already before one is used anyway. */
#define KYMO_LATE_MOST 4u

/* True if the open segment may be used: it is not too old (pool.c), and the clock has not
 * been corrected since it was opened. */
static bool fresh(const struct kymo_writer *w, unsigned *late)
{
    if (w->seg->epoch != kymo_get(&w->rec->meta->epochs))
        return false;
    return !kymo_pool_aged(w) || (*late)++ >= KYMO_LATE_MOST;
}

/* The time of the next record: never before the last one. */
static uint64_t record_time(struct kymo_writer *w, uint64_t now)
{
    if ((now - w->last) >> 32 != 0)
        now = kymo_clock_correct(w, now);
    return now < w->last ? w->last : now;
}

static bool too_big(const struct kymo_writer *w, size_t body)
{
    return body > w->rec->layout.segment_bytes - KYMO_SEG_HEADER - KYMO_HDR_COMPACT;
}

/* Makes room for a record, and writes notes of the losses before it. Returns 0 or an error of
 * segment_open. The loop ends: a new segment needs only the compact record header, and once
 * the losses are noted, the record fits into an empty segment. */
static int make_room(struct kymo_writer *w, size_t max_body, uint64_t now)
{
    unsigned late = 0;

    for (;;) {
        int rc;

        if (w->seg != NULL) {
            kymo_set(&w->end, (uintptr_t)w->seg_end);
            if (fresh(w, &late) && kymo_write_losses(w, now, false) && has_room(w, max_body, now)) {
                if (late > KYMO_LATE_MOST)
                    force_slow(w); /* the next event tries to change segments again */
                return 0;
            }
        }
        kymo_segment_close(w);
        rc = segment_open(w, w->lost_first != 0 ? between(w->lost_first, w->last, now) : now);
        if (rc != 0)
            return rc;
    }
}

uint8_t *kymo_reserve_slow(struct kymo_writer *w, unsigned id, size_t max_body, uint64_t now)
{
    if (w->slot->events == w->events_stop && !lease(w)) {
        limit_reached(w, KYMO_R_EVENTS);
        return NULL;
    }
    if (too_big(w, max_body)) {
        kymo_lose(w, KYMO_LOST_TOO_BIG);
        return NULL;
    }
    now = record_time(w, now);
    switch (make_room(w, max_body, now)) {
    case 0: return put_header(w, id, now);
    case -ENOBUFS:
        count_lost(w, kymo_get(&w->rec->io_failing) ? KYMO_LOST_IO : KYMO_LOST_RING_FULL, now);
        force_slow(w);
        return NULL;
    default: return NULL;
    }
}

bool kymo_write_note(struct kymo_writer *w, unsigned id, const uint8_t *body, size_t len)
{
    uint64_t now = record_time(w, kymo_now(w));
    uint8_t *p;

    if (too_big(w, len) || make_room(w, len, now) != 0)
        return false;
    /* A note uses no lease, so the next event still has to get one. */
    if (w->slot->events == w->events_stop)
        force_slow(w);
    p = put_header(w, id, now);
    memcpy(p, body, len);
    commit_note(w, p + len);
    return true;
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
