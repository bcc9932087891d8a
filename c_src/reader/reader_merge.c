/* SPDX-License-Identifier: Apache-2.0
 *
 * Merges all threads in order of time, with a binary heap of one entry per thread, keyed by the
 * time of its next record. If a thread's next segment is not loaded yet, its key is that
 * segment's ts_begin, and it has no buffer.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "timeline.h"

static bool before(const struct kymo_heap_entry *a, const struct kymo_heap_entry *b)
{
    return a->key != b->key ? a->key < b->key : a->slot < b->slot;
}

static void sift_down(struct kymo_heap_entry *h, uint32_t n, uint32_t i)
{
    struct kymo_heap_entry e = h[i];
    for (;;) {
        uint32_t child = 2 * i + 1;
        if (child >= n)
            break;
        if (child + 1 < n && before(&h[child + 1], &h[child]))
            child++;
        if (!before(&h[child], &e))
            break;
        h[i] = h[child];
        i = child;
    }
    h[i] = e;
}

static uint64_t at_least(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* True if the thread has lost events that no note reports: after its last record, or
 * because it has no records. */
static bool lost_at_end(const struct kymo_reader *r, const struct kymo_cursor *c)
{
    return r->losses[c - r->cursors].n > c->lost_open + c->noted;
}

/* The key of c in the heap; false if nothing more follows. Times of a thread never decrease, even
 * in a damaged recording. */
static bool key_of(const struct kymo_reader *r, const struct kymo_cursor *c, uint64_t *key)
{
    if (c->loaded)
        *key = at_least(c->scan.ticks, c->last);
    else if (c->next < c->first + c->n)
        *key = at_least(r->index.refs[c->next].ts_begin, c->last);
    else if (!c->ended && lost_at_end(r, c))
        *key = at_least(r->losses[c - r->cursors].last, c->last);
    else
        return false;
    return true;
}

static void set_losing(struct kymo_reader *r, struct kymo_cursor *c, bool losing)
{
    r->losing += (uint32_t)losing - (uint32_t)c->losing;
    c->losing = losing;
}

static void release(struct kymo_cursor *c)
{
    free(c->buf);
    c->buf = NULL;
    c->room = 0;
}

/* True if segments before it are missing. */
static bool is_gap(const struct kymo_seg_ref *ref)
{
    return ref->seq != ref[-1].seq + 1;
}

/* Leaves c's segment, which has no further valid record. */
static void leave_segment(struct kymo_reader *r, struct kymo_cursor *c, enum kymo_peek peek)
{
    bool last = c->next == c->first + c->n;
    c->loaded = false;
    if (peek == KYMO_PEEK_BAD)
        kymo_segment_damaged(r, &r->index.refs[c->next - 1], c->scan.pos);
    else if (peek == KYMO_PEEK_END)
        kymo_segment_check_end(r, &r->index.refs[c->next - 1], &c->scan);
    if (peek == KYMO_PEEK_BAD || (peek == KYMO_PEEK_END && !last && is_gap(&r->index.refs[c->next])))
        set_losing(r, c, true);
    else if (peek == KYMO_PEEK_END && last)
        set_losing(r, c, lost_at_end(r, c));
    if (peek == KYMO_PEEK_BAD && last)
        c->ended = true; /* it is unknown until when events are missing */
    if (last)
        release(c);
}

/* Peeks the next record of c's segment, or leaves the segment. */
static inline void advance(struct kymo_reader *r, struct kymo_cursor *c)
{
    enum kymo_peek peek = kymo_scan_peek(&c->scan);
    c->loaded = true;
    if (peek != KYMO_PEEK_RECORD)
        leave_segment(r, c, peek);
}

/* Loads c's next segment. Returns 0 or -ENOMEM. */
static int load(struct kymo_reader *r, struct kymo_cursor *c)
{
    struct kymo_seg_ref *ref = &r->index.refs[c->next++];
    r->bytes_done += ref->len;
    /* At least the time of its key in the heap, whatever the segment contains. */
    c->last = at_least(ref->ts_begin, c->last);
    int got = kymo_segment_load(r, ref, &c->buf, &c->room);
    if (got < 0)
        return got;
    if (got > 0) {
        struct kymo_segment h;
        memcpy(&h, c->buf, sizeof h);
        c->lost_open = h.lost_before;
        c->noted = 0;
        c->noted_before = false;
        kymo_scan_start(&c->scan, c->buf, (uint32_t)got);
        advance(r, c);
        return 0;
    }
    set_losing(r, c, true);
    if (c->next == c->first + c->n) {
        c->ended = true;
        release(c);
    }
    return 0;
}

/* Gives the top of the heap the key of its next record. */
static inline void replace_top(struct kymo_reader *r)
{
    struct kymo_heap_entry *h = r->heap;
    if (!key_of(r, &r->cursors[h[0].slot], &h[0].key))
        h[0] = h[--r->heap_n];
    uint32_t n = r->heap_n;
    /* In most cases the next record of the same thread is before those of all others. */
    if (n > 1 && (before(&h[1], &h[0]) || (n > 2 && before(&h[2], &h[0]))))
        sift_down(h, n, 0);
}

/* True if threads without a slot may have lost events at this time, or just before it. */
static bool lost_without_slot(struct kymo_reader *r, uint64_t ticks)
{
    if (r->meta.no_slot == 0 || r->no_slot_passed || ticks < r->meta.no_slot_first)
        return false;
    r->no_slot_passed = ticks > r->meta.no_slot_last;
    return true;
}

/* Advances past the event that was returned. */
static inline void pass_top(struct kymo_reader *r)
{
    struct kymo_cursor *c = &r->cursors[r->heap[0].slot];
    r->top_taken = false;
    advance(r, c);
    if (c->losing && c->loaded && c->scan.id != KYMO_E_LOST)
        set_losing(r, c, false);
    replace_top(r);
}

/* The top of the heap has no record: advances to its next segment, or to its newest loss, which
 * is no record either. Returns 1, 0 at the end, or -ENOMEM. */
static int refill_top(struct kymo_reader *r)
{
    struct kymo_cursor *c = &r->cursors[r->heap[0].slot];
    if (c->next == c->first + c->n) { /* the newest loss */
        if (r->heap[0].key > r->until)
            return 0;
        c->ended = true;
        set_losing(r, c, false);
    } else {
        int rc = load(r, c);
        if (rc < 0)
            return rc;
    }
    replace_top(r);
    return 1;
}

/* Updates the losses of c from an event. */
static void note_losses(struct kymo_reader *r, struct kymo_cursor *c, const struct kymo_event *ev)
{
    bool lost = ev->id == KYMO_E_LOST;
    r->loss_epoch += lost_without_slot(r, ev->ticks) || r->losing > 0 || lost;
    set_losing(r, c, lost);
    if (!lost)
        c->noted_before = true;
    else if (c->noted_before)
        c->noted += ev->value;
}

int kymo_reader_next(struct kymo_reader *r, struct kymo_event *ev)
{
    if (r->timeline != NULL)
        return kymo_timeline_next(r, ev);
    if (r->top_taken)
        pass_top(r);
    while (r->heap_n > 0) {
        struct kymo_cursor *c = &r->cursors[r->heap[0].slot];
        if (!c->loaded) {
            int rc = refill_top(r);
            if (rc <= 0)
                return rc;
            continue;
        }
        if (!kymo_scan_decode(&c->scan, ev)) {
            leave_segment(r, c, KYMO_PEEK_BAD);
            replace_top(r);
            continue;
        }
        ev->slot = r->heap[0].slot;
        ev->ticks = c->last = r->heap[0].key;
        if (ev->ticks > r->until) /* all other events are at least as new */
            return 0;
        if (ev->id == KYMO_E_LOST || r->losing > 0 || r->meta.no_slot != 0)
            note_losses(r, c, ev);
        else
            c->noted_before = true;
        if (ev->id == KYMO_E_REGISTER)
            kymo_defs_learn(&r->defs, ev->who, ev->atom);
        ev->incomplete = ev->ticks <= r->horizon && kymo_reader_incomplete(r, ev->slot, ev->ticks);
        if (ev->incomplete && !r->all) {
            advance(r, c);
            replace_top(r);
            continue;
        }
        ev->ns = r->jumps == 0 ? kymo_clock_ns(&r->clock, &r->clock_hint, ev->ticks)
                               : kymo_ref_ns(r, c->next - 1, &r->clock_hint, ev->ticks);
        if (ev->ns < c->last_ns) /* because of a damaged header */
            ev->ns = c->last_ns;
        c->last_ns = ev->ns;
        r->given = r->given || !ev->incomplete;
        r->top_taken = true; /* its buffer must stay valid until the next call */
        return 1;
    }
    return 0;
}

uint64_t kymo_reader_loss_epoch(const struct kymo_reader *r)
{
    return r->loss_epoch;
}

/* Positions all threads at their first segment, or at the first one that may have an event from
 * before[slot] on. */
static void rewind_to(struct kymo_reader *r, const uint64_t *before, uint32_t n)
{
    r->loss_epoch = 0;
    r->losing = 0;
    r->no_slot_passed = false;
    r->heap_n = 0;
    r->top_taken = false;
    r->given = false;
    r->bytes_done = 0;
    for (uint32_t i = 0; i < r->n_slots; i++) {
        struct kymo_cursor *c = &r->cursors[i];
        c->next = c->first;
        while (c->next + 1 < c->first + c->n && r->index.refs[c->next + 1].ts_begin < r->begin)
            c->next++;
        while (before != NULL && i < n && c->next + 1 < c->first + c->n &&
               r->index.refs[c->next + 1].ts_begin < before[i])
            c->next++;
        c->loaded = false;
        c->last = 0;
        c->last_ns = INT64_MIN;
        c->lost_open = c->noted = 0;
        c->ended = false;
        c->losing = false;
        set_losing(r, c, c->n == 0 && lost_at_end(r, c));
        if (key_of(r, c, &r->heap[r->heap_n].key))
            r->heap[r->heap_n++].slot = i;
    }
    for (uint32_t i = r->heap_n / 2; i-- > 0;)
        sift_down(r->heap, r->heap_n, i);
}

int kymo_reader_rewind(struct kymo_reader *r)
{
    if (r->timeline != NULL)
        kymo_timeline_rewind(r);
    else
        rewind_to(r, NULL, 0);
    return 0;
}

void kymo_reader_skip(struct kymo_reader *r, const uint64_t *before, uint32_t n)
{
    if (r->timeline != NULL)
        kymo_timeline_rewind(r);
    else
        rewind_to(r, before, n);
}

void kymo_reader_progress(const struct kymo_reader *r, uint64_t *done, uint64_t *total)
{
    if (r->timeline != NULL) {
        kymo_timeline_progress(r, done, total);
        return;
    }
    *done = r->bytes_done;
    *total = r->index.bytes;
}
