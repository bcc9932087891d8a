/* SPDX-License-Identifier: Apache-2.0
 *
 * Computes the horizon, the time from which the recording is complete. For each thread, its
 * slot has the time of the newest event that was overwritten or removed. So do its segments:
 * the first segment after the last gap in their numbers has the time of the event before it,
 * and the number of events before. The horizon is the latest of these times.
 */
#include <string.h>
#include <unistd.h>

#include "timeline.h"

static void raise_to(uint64_t *least, uint64_t v)
{
    if (v > *least)
        *least = v;
}

/* Reads the header of ref again. Returns false if the place has been reused since the index was
 * made, or the header cannot be read any more. */
static bool read_header(struct kymo_reader *r, const struct kymo_seg_ref *ref, struct kymo_segment *h)
{
    return kymo_ref_read(r, ref, h, sizeof *h) == (ssize_t)sizeof *h && kymo_segment_unchanged(r, ref, h);
}

/* The segments of one thread: refs[0 .. n), by seq. */
struct thread {
    uint32_t slot;
    struct kymo_seg_ref *refs;
    size_t n;
};

/* Drops segments that a living recorder has reused or removed since the index was made. */
static void drop_reused(struct kymo_reader *r, struct thread *t)
{
    struct kymo_segment h;
    size_t kept = 0;
    for (size_t i = 0; i < t->n; i++) {
        if (!kymo_is_living(r) || read_header(r, &t->refs[i], &h))
            t->refs[kept++] = t->refs[i];
    }
    t->n = kept;
}

/* True if nothing is missing between the two: no segment was reused, removed or damaged, and the
 * file does not end within the first. */
static bool follows(const struct kymo_seg_ref *first, const struct kymo_seg_ref *next)
{
    return first->seq + 1 == next->seq && (first->flags & KYMO_REF_CUT) == 0;
}

/* The first segment after the last gap. */
static size_t oldest_of_run(const struct thread *t)
{
    size_t i = t->n - 1;
    while (i > 0 && follows(&t->refs[i - 1], &t->refs[i]))
        i--;
    return i;
}

static void find_floor(struct kymo_reader *r, const struct thread *t)
{
    struct kymo_segment h;
    const struct kymo_seg_ref *ref = &t->refs[oldest_of_run(t)];
    uint64_t floor = read_header(r, ref, &h) ? h.ts_before : ref->ts_begin;
    if (ref->seq > 1)
        raise_to(&r->floors[t->slot], floor);
}

/* True if the newest segment of the thread was found: it is open, or no events follow it. */
static bool has_newest(const struct kymo_reader *r, const struct thread *t, const struct kymo_segment *h)
{
    const struct kymo_slot *s = &r->slots[t->slot];
    return (s->seq != 0 && h->seq >= s->seq) ||
           (h->content_bits != 0 && h->events_before + h->events == s->events);
}

/* Corrects the number of overwritten events. The recorder counts a segment before it reuses it,
 * and may be killed in between. The remaining segments have the number of events before them. */
static void count_overwritten(struct kymo_reader *r, const struct thread *t)
{
    struct kymo_segment h, next;
    if (r->meta.policy != KYMO_OVERWRITE || !read_header(r, &t->refs[0], &h))
        return;
    uint64_t gone = h.events_before;
    for (size_t i = 1; i < t->n; i++) {
        if (t->refs[i - 1].seq + 1 == t->refs[i].seq)
            continue;
        if (!read_header(r, &t->refs[i - 1], &h) || !read_header(r, &t->refs[i], &next) ||
            next.events_before < h.events_before + h.events)
            return; /* damage */
        gone += next.events_before - h.events_before - h.events;
    }
    if (read_header(r, &t->refs[t->n - 1], &h) && has_newest(r, t, &h))
        r->slots[t->slot].overwritten = gone;
}

/* Determines the time of the thread's newest event that was found. */
static void find_end(struct kymo_reader *r, const struct thread *t)
{
    struct kymo_damage before = r->damage;
    uint64_t first, last;
    if (kymo_is_living(r) && kymo_segment_ends(r, &t->refs[t->n - 1], &first, &last) > 0)
        r->ends[t->slot] = last;
    r->damage = before; /* what is damaged is found again */
}

/* Adds the bytes of open segments, which the counter does not include. */
static void count_open_bytes(struct kymo_reader *r, const struct thread *t)
{
    for (size_t i = 0; i < t->n; i++) {
        if ((t->refs[i].flags & KYMO_REF_CLOSED) == 0)
            r->slots[t->slot].bytes += t->refs[i].len - KYMO_SEG_HEADER;
    }
}

struct kymo_losses kymo_slot_losses(const struct kymo_slot *s)
{
    struct kymo_losses l = {.last = s->lost_last != 0 ? s->lost_last : UINT64_MAX};
    for (unsigned c = 0; c < KYMO_LOSS_CAUSES; c++)
        l.n += s->lost[c];
    return l;
}

static void read_no_slot(struct kymo_reader *r, int fd)
{
    struct kymo_meta now;
    if (kymo_file_read(fd, &now, sizeof now, 0) != (ssize_t)sizeof now)
        return;
    r->meta.no_slot = now.no_slot;
    r->meta.no_slot_first = now.no_slot_first;
    r->meta.no_slot_last = now.no_slot_last;
}

/* Reads the slots again, for what was reused, removed or lost since; also if the recorder has
 * ended in between. */
static void read_slots_again(struct kymo_reader *r)
{
    int fd = r->meta.state != KYMO_CLOSED ? kymo_file_open(r->files.dir, KYMO_META_NAME, NULL) : -1;
    if (fd < 0)
        return;
    for (uint32_t i = 0; i < r->n_slots; i++) {
        struct kymo_slot now;
        uint64_t at = (uint64_t)r->meta.meta_bytes + KYMO_CALIB_BYTES + i * sizeof now;
        if (kymo_file_read(fd, &now, sizeof now, at) != (ssize_t)sizeof now)
            continue;
        raise_to(&r->slots[i].gone_until, now.gone_until);
        r->losses[i] = kymo_slot_losses(&now);
    }
    read_no_slot(r, fd);
    close(fd);
}

void kymo_horizon_find(struct kymo_reader *r)
{
    struct kymo_index *ix = &r->index;
    size_t kept = 0;
    for (size_t i = 0, n; i < ix->n; i += n) {
        struct thread t = {.slot = ix->refs[i].slot, .refs = &ix->refs[i]};
        for (n = 1; i + n < ix->n && ix->refs[i + n].slot == t.slot;)
            n++;
        t.n = n;
        drop_reused(r, &t);
        if (t.n > 0) {
            find_floor(r, &t);
            find_end(r, &t);
            count_overwritten(r, &t);
            count_open_bytes(r, &t);
        }
        memmove(ix->refs + kept, t.refs, t.n * sizeof *ix->refs);
        kept += t.n;
    }
    ix->n = kept;
    for (uint32_t i = 0; i < r->n_slots; i++)
        raise_to(&r->floors[i], r->slots[i].gone_until);
    read_slots_again(r);
    for (uint32_t i = 0; i < r->n_slots; i++) {
        /* Events overwritten since have been copied, unless they are newer than the newest one
         * that was found. */
        if (r->ends[i] < r->until && r->slots[i].gone_until > r->ends[i])
            raise_to(&r->floors[i], r->slots[i].gone_until);
        raise_to(&r->horizon, r->floors[i]);
    }
}

void kymo_horizon_raise(struct kymo_reader *r, const struct kymo_seg_ref *gone)
{
    const struct kymo_index *ix = &r->index;
    const struct kymo_seg_ref *next = gone + 1;
    uint64_t floor = gone->ts_begin;
    if (next < ix->refs + ix->n && next->slot == gone->slot) {
        floor = next->ts_begin;
    } else { /* the slot has the time of its end, which was stored before the reuse */
        read_slots_again(r);
        raise_to(&floor, r->slots[gone->slot].gone_until);
    }
    raise_to(&r->floors[gone->slot], floor);
    raise_to(&r->horizon, floor);
}

bool kymo_reader_horizon(const struct kymo_reader *r, uint64_t *ticks, int64_t *ns)
{
    if (r->timeline != NULL)
        return kymo_timeline_horizon(r, ticks, ns);
    *ticks = r->horizon != 0 ? r->horizon : r->meta.t0_ticks;
    *ns = kymo_reader_ns(r, *ticks);
    return r->horizon != 0;
}

bool kymo_reader_incomplete(const struct kymo_reader *r, uint32_t slot, uint64_t ticks)
{
    /* An event exactly at the horizon is after the overwritten events of its own thread, but may
     * be before those of another thread. */
    return ticks < r->horizon || (ticks == r->horizon && ticks != 0 && r->floors[slot] != ticks);
}

void kymo_reader_show_all(struct kymo_reader *r, bool all)
{
    if (r->timeline != NULL)
        kymo_timeline_show_all(r, all);
    else
        r->all = all;
}

uint64_t kymo_reader_ticks(const struct kymo_reader *r, int64_t ns)
{
    /* A binary search: times ascend with ticks. */
    uint64_t low = r->meta.t0_ticks, step = 1;
    if (kymo_reader_ns(r, low) >= ns)
        return low;
    while (step < UINT64_C(1) << 62 && kymo_reader_ns(r, low + step) < ns)
        step *= 2;
    for (; step > 0; step /= 2) {
        if (kymo_reader_ns(r, low + step) < ns)
            low += step;
    }
    return low + 1;
}

void kymo_reader_begin_at(struct kymo_reader *r, int64_t ns)
{
    if (ns > kymo_reader_ns(r, r->meta.t0_ticks)) {
        r->begin = kymo_reader_ticks(r, ns);
        raise_to(&r->horizon, r->begin - 1); /* the recording is complete after the horizon */
    }
    (void)kymo_reader_rewind(r);
}
