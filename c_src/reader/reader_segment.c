/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies and verifies one segment. A segment of the ring may be written during the copy. So
 * header, content and header again are read by separate system calls, which the kernel's page
 * cache locks order. The copy is valid only if the later headers show no smaller commit, and
 * then the same use of the place (the rule of kymo_format.h). The header is read twice, because
 * a single call reads its words in no particular order.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "timeline.h"

void kymo_segment_damaged(struct kymo_reader *r, struct kymo_seg_ref *ref, uint32_t at)
{
    if ((ref->flags & KYMO_REF_BAD) != 0)
        return; /* counted in an earlier pass */
    ref->flags |= KYMO_REF_BAD;
    if (at <= KYMO_SEG_HEADER)
        r->damage.segments_bad++;
    else
        r->damage.records_bad++;
    r->damage.bytes_cut += ref->len - at;
}

/* Handles a segment that is cut off by the end of the file. */
static void cut_off(struct kymo_reader *r, struct kymo_seg_ref *ref, uint64_t commit)
{
    if ((ref->flags & KYMO_REF_BAD) == 0) {
        r->damage.records_bad++;
        r->damage.bytes_cut += commit - ref->len;
    }
    ref->flags |= KYMO_REF_BAD;
}

/* Handles a segment that a living recorder has reused. While the index is being made, it is
 * dropped. As long as no event has been returned to the caller, the horizon is moved past it. */
static int moved(struct kymo_reader *r, struct kymo_seg_ref *ref)
{
    if (!r->index.made)
        return 0;
    bool new = (ref->flags & KYMO_REF_BAD) == 0;
    ref->flags |= KYMO_REF_BAD;
    if (!r->given && r->meta.policy == KYMO_OVERWRITE)
        kymo_horizon_raise(r, ref);
    else if (new)
        r->damage.segments_moved++;
    return 0;
}

bool kymo_segment_unchanged(const struct kymo_reader *r, const struct kymo_seg_ref *ref,
                            const struct kymo_segment *h)
{
    struct kymo_seg_ref now;
    uint64_t room = (ref->flags & KYMO_REF_CUT) != 0 ? ref->len : UINT64_MAX;
    return kymo_segment_header(r, h, room, &now) && now.order == ref->order && now.slot == ref->slot &&
           now.seq == ref->seq && now.len >= ref->len;
}

int kymo_segment_copy(struct kymo_reader *r, const struct kymo_seg_ref *ref, uint8_t *buf)
{
    struct kymo_segment h;
    bool held = (ref->flags & KYMO_REF_HELD) != 0;
    if (!held && kymo_file_get(&r->files, ref->file) < 0)
        return 0; /* retention removed it */
    ssize_t got = kymo_ref_read(r, ref, buf, ref->len);
    if (got < 0)
        return -EIO;
    if (got < (ssize_t)ref->len)
        return 0;
    memcpy(&h, buf, sizeof h);
    if (!kymo_segment_unchanged(r, ref, &h))
        return 0;
    for (unsigned i = 0; i < 2 && ref->file == KYMO_FILE_RING && !held; i++) {
        if (kymo_ref_read(r, ref, &h, sizeof h) != (ssize_t)sizeof h || !kymo_segment_unchanged(r, ref, &h))
            return 0;
    }
    return (int)ref->len;
}

static uint64_t commit_of(const uint8_t *segment)
{
    struct kymo_segment h;
    memcpy(&h, segment, sizeof h);
    return h.commit;
}

void kymo_segment_check_end(struct kymo_reader *r, struct kymo_seg_ref *ref, const struct kymo_scan *s)
{
    /* A segment that was open when the index was made has more records by now. */
    if (s->pos != s->end || s->end != commit_of(s->base) || s->ts_max == UINT64_MAX ||
        s->ticks == s->ts_max || (ref->flags & KYMO_REF_BAD) != 0)
        return;
    ref->flags |= KYMO_REF_BAD;
    r->damage.segments_bad++;
}

/* True if the CRC is correct, or if there is none for these bytes: for a segment that is open, or
 * was open when the index was made. */
static bool sum_is_right(const uint8_t *segment, uint32_t len)
{
    struct kymo_segment h;
    memcpy(&h, segment, sizeof h);
    return (h.flags & KYMO_SEG_CRC) == 0 || h.content_bits == 0 || h.commit != len ||
           crc32(0, segment + KYMO_SEG_HEADER, len - KYMO_SEG_HEADER) == h.crc;
}

int kymo_segment_load(struct kymo_reader *r, struct kymo_seg_ref *ref, uint8_t **buf, uint32_t *room)
{
    if (*room < ref->len) {
        void *p = realloc(*buf, ref->len);
        if (p == NULL)
            return -ENOMEM;
        *buf = p;
        *room = ref->len;
    }
    int got = kymo_segment_copy(r, ref, *buf);
    if (got == 0 && kymo_index_left_ring(r, ref))
        got = kymo_segment_copy(r, ref, *buf);
    if (got == 0)
        return moved(r, ref);
    if (got < 0 || ((ref->flags & KYMO_REF_SUM) == 0 && !sum_is_right(*buf, ref->len))) {
        kymo_segment_damaged(r, ref, KYMO_SEG_HEADER); /* a read error, or changed since */
        return 0;
    }
    ref->flags |= KYMO_REF_SUM;
    if ((ref->flags & KYMO_REF_CUT) != 0)
        cut_off(r, ref, commit_of(*buf));
    return got;
}

/* Corrects the header of ref for traces that other programs read. Returns false if it cannot
 * follow the segment before it. */
static bool put_right(struct kymo_reader *r, const struct kymo_seg_ref *ref, struct kymo_segment *h,
                      uint64_t ts_last)
{
    h->ts_begin = ref->ts_begin; /* the index may have corrected it */
    if (h->ts_begin < r->raw_end)
        return false;
    h->ts_end = r->raw_end = ts_last;
    if (h->lost_before < r->raw_lost)
        h->lost_before = r->raw_lost;
    if (h->discarded < h->lost_before)
        h->discarded = h->lost_before;
    r->raw_lost = h->discarded;
    return true;
}

int kymo_reader_segment(struct kymo_reader *r, uint64_t index, const uint8_t **bytes, size_t *len)
{
    *bytes = NULL;
    *len = 0;
    if (index >= r->index.n)
        return 0;
    r->given = true;
    struct kymo_seg_ref *ref = &r->index.refs[index];
    if (index == 0 || r->index.refs[index - 1].slot != ref->slot)
        r->raw_end = r->raw_lost = 0;
    int got = kymo_segment_load(r, ref, &r->raw, &r->raw_room);
    if (got <= 0)
        return got < 0 ? got : 1;
    struct kymo_scan s;
    enum kymo_peek peek;
    uint64_t events = 0, ts_last = ref->ts_begin;
    kymo_scan_start(&s, r->raw, (uint32_t)got);
    while ((peek = kymo_scan_peek(&s)) == KYMO_PEEK_RECORD) {
        struct kymo_event ev;
        if (s.ticks > r->until)
            break;
        if (!kymo_scan_decode(&s, &ev)) {
            peek = KYMO_PEEK_BAD;
            break;
        }
        ts_last = s.ticks;
        events += s.id < KYMO_E_FIRST_NOTE;
    }
    if (peek == KYMO_PEEK_BAD)
        kymo_segment_damaged(r, ref, s.pos);
    if (peek != KYMO_PEEK_RECORD)
        kymo_segment_check_end(r, ref, &s);
    struct kymo_segment h;
    memcpy(&h, r->raw, sizeof h);
    if (!put_right(r, ref, &h, ts_last)) {
        kymo_segment_damaged(r, ref, KYMO_SEG_HEADER);
        return 1;
    }
    h.content_bits = (uint64_t)s.pos * 8;
    h.packet_bits = h.content_bits;
    h.commit = s.pos;
    h.events = events;
    if (s.pos != (uint32_t)got)
        h.flags &= ~KYMO_SEG_CRC;
    memcpy(r->raw, &h, sizeof h);
    *bytes = r->raw;
    *len = s.pos;
    return 1;
}

int kymo_segment_ends(struct kymo_reader *r, struct kymo_seg_ref *ref, uint64_t *first, uint64_t *last)
{
    int got = kymo_segment_load(r, ref, &r->raw, &r->raw_room);
    if (got <= 0)
        return got;
    struct kymo_scan s;
    struct kymo_event ev;
    bool any = false;
    kymo_scan_start(&s, r->raw, (uint32_t)got);
    while (kymo_scan_peek(&s) == KYMO_PEEK_RECORD && kymo_scan_decode(&s, &ev)) {
        if (!any)
            *first = s.ticks;
        *last = s.ticks;
        any = true;
    }
    kymo_segment_check_end(r, ref, &s);
    return any ? 1 : 0;
}

/* Finds the first (or last) segment of a thread that has records, and the time of the first (or
 * last) of them. Returns 1, 0 if there is none, or -ENOMEM. */
static int end_of_thread(struct kymo_reader *r, const struct kymo_cursor *c, bool first, size_t *at,
                         uint64_t *ticks)
{
    for (size_t i = 0; i < c->n; i++) {
        uint64_t begin = 0, end = 0;
        *at = first ? c->first + i : c->first + c->n - 1 - i;
        int rc = kymo_segment_ends(r, &r->index.refs[*at], &begin, &end);
        if (rc != 0) {
            *ticks = first ? begin : end;
            return rc;
        }
    }
    return 0;
}

int kymo_reader_span(struct kymo_reader *r, int64_t *first_ns, int64_t *last_ns)
{
    if (r->timeline != NULL)
        return kymo_timeline_span(r, first_ns, last_ns);
    uint64_t first = UINT64_MAX, last = 0, ticks;
    size_t at, first_at = 0, last_at = 0;
    bool any = false;
    for (uint32_t slot = 0; slot < r->n_slots; slot++) {
        const struct kymo_cursor *c = &r->cursors[slot];
        int rc = end_of_thread(r, c, true, &at, &ticks);
        if (rc > 0 && ticks < first) {
            first = ticks;
            first_at = at;
        }
        if (rc > 0)
            rc = end_of_thread(r, c, false, &at, &ticks);
        if (rc < 0)
            return rc;
        if (rc > 0 && (!any || ticks >= last)) {
            last = ticks;
            last_at = at;
        }
        any = any || rc > 0;
    }
    last = last < r->until ? last : r->until;
    if (!any || (!r->all && last < r->horizon))
        return -ENODATA;
    *last_ns = kymo_ref_ns(r, last_at, &r->clock_hint, last);
    *first_ns = r->all || first >= r->horizon ? kymo_ref_ns(r, first_at, &r->clock_hint, first)
                                              : kymo_reader_ns(r, r->horizon);
    if (*first_ns > *last_ns)
        *first_ns = *last_ns;
    return 0;
}
