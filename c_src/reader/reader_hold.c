/* SPDX-License-Identifier: Apache-2.0
 *
 * A living recorder reuses segments and removes data files while they are read. What
 * would be missing in the middle of the recording would join calls and returns, sends
 * and receives that do not belong together. So the reader first takes hold of what
 * may go: it copies the segments of the pool and opens the data files. What is gone by
 * then is before the horizon, which is looked for afterwards.
 *
 * Threads go on while their segments are looked for, so of some more is found than of
 * others. Nothing is given that is newer than the newest event before the search.
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

/* What is held takes the memory of the machine that records: of a large pool only the
 * oldest segments are, which are reused first. */
enum { HOLD_MAX = 512 << 20 };

/* All events of this segment are older than what will be read, as kymo_reader_skip has it. */
static bool is_left_out(const struct kymo_reader *r, size_t i)
{
    const struct kymo_seg_ref *ref = &r->index.refs[i];
    return r->before != NULL && ref->slot < r->n_before && i + 1 < r->index.n && ref[1].slot == ref->slot &&
           ref[1].ts_begin < r->before[ref->slot];
}

static int by_order(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* The order of the newest segment to be held; *bytes of all of them. 0 or -ENOMEM. */
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
            if (ix->refs[i].file == KYMO_FILE_RING)
                orders[n++] = ix->refs[i].order;
        }
        if (n > most) {
            qsort(orders, n, sizeof *orders, by_order);
            *newest = orders[most - 1];
        }
        free(orders);
    }
    for (size_t i = 0; i < ix->n; i++) {
        if (ix->refs[i].file == KYMO_FILE_RING && ix->refs[i].order <= *newest && !is_left_out(r, i))
            *bytes += ix->refs[i].len;
    }
    if (*bytes > HOLD_MAX) /* in a damaged recording many may have the same order */
        *bytes = HOLD_MAX;
    return 0;
}

/* The oldest data files: these are removed first. */
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
        if (ref->file != KYMO_FILE_RING || ref->order > newest || ref->len > bytes - at || is_left_out(r, i))
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
