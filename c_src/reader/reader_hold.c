/* SPDX-License-Identifier: Apache-2.0
 *
 * A running recorder reuses segments and removes data files while they are read. A gap in
 * the middle of the recording would pair calls with wrong returns, and sends with wrong
 * receives. So the reader first copies the segments of the pool and opens the data files,
 * and computes the horizon afterwards: everything that was lost by then is before it.
 *
 * Threads continue to record during this search, so more is found of some threads than of
 * others. Events that are newer than the newest one before the search are not returned.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kymo_reader_int.h"

ssize_t kymo_ref_read(struct kymo_reader *r, const struct kymo_seg_ref *ref, void *buf, size_t n)
{
    if ((ref->flags & KYMO_REF_HELD) != 0) {
        if (n > ref->len)
            n = ref->len;
        memcpy(buf, r->held + ref->offset, n);
        return (ssize_t)n;
    }
    int fd = kymo_file_get(&r->files, ref->file);
    return fd < 0 ? fd : kymo_file_read(fd, buf, n, ref->offset);
}

void kymo_newest_find(struct kymo_reader *r)
{
    struct kymo_damage before = r->damage;
    int fd = kymo_is_living(r) ? kymo_file_get(&r->files, KYMO_FILE_RING) : -1;
    for (uint32_t i = 0; fd >= 0 && i < r->n_slots; i++) {
        struct kymo_segment h;
        struct kymo_seg_ref ref;
        uint64_t first, last, at = r->slots[i].place * r->meta.segment_bytes;
        if (r->slots[i].seq == 0 || r->slots[i].place >= r->meta.n_segments ||
            kymo_file_read(fd, &h, sizeof h, at) != (ssize_t)sizeof h ||
            !kymo_segment_header(r, &h, r->meta.segment_bytes, &ref) || ref.slot != i)
            continue;
        ref.file = KYMO_FILE_RING;
        ref.offset = at;
        if (kymo_segment_ends(r, &ref, &first, &last) > 0 && (r->until == UINT64_MAX || last > r->until))
            r->until = last;
    }
    r->damage = before; /* what is damaged is found again */
}

/* Copies take memory of the machine that records. Of a larger pool, only the oldest segments are
 * copied, which are reused first. */
enum { HOLD_MAX = 512 << 20 };

static int by_order(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* True if segment i of the index is in the pool, and may have events that the caller has not
 * read. */
static bool is_wanted(const struct kymo_reader *r, size_t i)
{
    const struct kymo_seg_ref *ref = &r->index.refs[i];
    if (ref->file != KYMO_FILE_RING)
        return false;
    return r->read_before == NULL || ref->slot >= r->n_read_before || i + 1 == r->index.n ||
           ref[1].slot != ref->slot || ref[1].ts_begin >= r->read_before[ref->slot];
}

/* Determines the order of the newest segment to be copied, and *bytes of all of them. Returns 0
 * or -ENOMEM. */
static int choose(const struct kymo_reader *r, uint64_t *newest, size_t *bytes)
{
    const struct kymo_index *ix = &r->index;
    size_t n = 0, most = HOLD_MAX / r->meta.segment_bytes;
    *newest = UINT64_MAX;
    *bytes = 0;
    if (ix->n > most) {
        uint64_t *orders = malloc(ix->n * sizeof *orders);
        if (orders == NULL)
            return -ENOMEM;
        for (size_t i = 0; i < ix->n; i++) {
            if (is_wanted(r, i))
                orders[n++] = ix->refs[i].order;
        }
        if (n > most) {
            qsort(orders, n, sizeof *orders, by_order);
            *newest = orders[most - 1];
        }
        free(orders);
    }
    for (size_t i = 0; i < ix->n; i++) {
        if (is_wanted(r, i) && ix->refs[i].order <= *newest)
            *bytes += ix->refs[i].len;
    }
    if (*bytes > HOLD_MAX) /* in a damaged recording many may have the same order */
        *bytes = HOLD_MAX;
    return 0;
}

/* Opens the oldest data files, which are removed first. */
static void open_files(struct kymo_reader *r)
{
    const struct kymo_index *ix = &r->index;
    for (uint32_t after = 0, n = 0; n + 1 < KYMO_OPEN_FILES; n++) {
        uint32_t next = UINT32_MAX;
        for (size_t i = 0; i < ix->n; i++) {
            if (ix->refs[i].file > after && ix->refs[i].file < next)
                next = ix->refs[i].file;
        }
        if (next == UINT32_MAX)
            return;
        (void)kymo_file_get(&r->files, next);
        after = next;
    }
}

int kymo_index_hold(struct kymo_reader *r)
{
    struct kymo_index *ix = &r->index;
    size_t bytes, at = 0;
    uint64_t newest;
    if (!kymo_is_living(r))
        return 0;
    open_files(r);
    int rc = choose(r, &newest, &bytes);
    if (rc != 0 || bytes == 0)
        return rc;
    r->held = malloc(bytes);
    if (r->held == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < ix->n; i++) {
        struct kymo_seg_ref *ref = &ix->refs[i];
        if (!is_wanted(r, i) || ref->order > newest || ref->len > bytes - at)
            continue;
        if (kymo_segment_copy(r, ref, r->held + at) > 0) {
            ref->offset = at;
            ref->flags |= KYMO_REF_HELD;
            at += ref->len;
        } else {
            (void)kymo_index_left_ring(r, ref);
        }
    }
    return 0;
}
