/* SPDX-License-Identifier: Apache-2.0
 *
 * The segments of a thread are numbered in the order of their times. If numbers and times
 * contradict each other, a header is damaged. The records show whether it is the time of
 * one of the two segments. Otherwise it is one of the numbers, and which one is unknown: the
 * largest set of segments that agree is kept, the others are dropped and counted. Without
 * this, one number that is too low would move its segment before all others.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kymo_reader_int.h"

#define NONE UINT32_MAX

static bool in_order(const struct kymo_seg_ref *refs, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        if (refs[i].ts_begin < refs[i - 1].ts_begin)
            return false;
    }
    return true;
}

/* Corrects the time by which ref is ordered, or drops ref because its header contradicts its
 * records. If its records were cut off at the end of a file, they cannot be compared. */
static int look_inside(struct kymo_reader *r, struct kymo_seg_ref *ref)
{
    uint64_t first, last;
    int rc = (ref->flags & KYMO_REF_OUT) != 0 ? 0 : kymo_segment_ends(r, ref, &first, &last);
    if (rc > 0 && ref->ts_begin != first) {
        ref->ts_begin = first;
        ref->flags |= KYMO_REF_TIME;
    }
    if (rc > 0 && (ref->flags & (KYMO_REF_BAD | KYMO_REF_CUT)) == KYMO_REF_BAD) {
        ref->flags |= KYMO_REF_OUT;
        r->damage.bytes_cut += ref->len - KYMO_SEG_HEADER;
    }
    return rc < 0 ? rc : 0;
}

static int look_at_descents(struct kymo_reader *r, struct kymo_seg_ref *refs, size_t n)
{
    int rc = 0;
    for (size_t i = 1; i < n && rc == 0; i++) {
        if (refs[i].ts_begin >= refs[i - 1].ts_begin)
            continue;
        rc = look_inside(r, &refs[i - 1]);
        if (rc == 0)
            rc = look_inside(r, &refs[i]);
    }
    return rc;
}

/* Moves segments that are not dropped to the front. Returns their number. */
static size_t keep_rest(struct kymo_seg_ref *refs, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if ((refs[i].flags & KYMO_REF_OUT) == 0)
            refs[kept++] = refs[i];
    }
    return kept;
}

/* Keeps a longest subsequence of segments whose times do not decrease, and drops all others.
 * last[k] is the segment with the earliest time that ends a subsequence of k + 1 segments;
 * before[i] is the predecessor of i in the one that i ends. */
static void leave_others_out(struct kymo_reader *r, struct kymo_seg_ref *refs, uint32_t n, uint32_t *last,
                             uint32_t *before)
{
    uint32_t length = 0, next = NONE;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t low = 0, high = length;
        while (low < high) {
            uint32_t mid = low + (high - low) / 2;
            if (refs[last[mid]].ts_begin <= refs[i].ts_begin)
                low = mid + 1;
            else
                high = mid;
        }
        before[i] = low > 0 ? last[low - 1] : NONE;
        last[low] = i;
        if (low == length) {
            length++;
            next = i;
        }
    }
    for (uint32_t i = n; i-- > 0;) {
        if (i == next) {
            next = before[i];
        } else {
            kymo_segment_damaged(r, &refs[i], KYMO_SEG_HEADER);
            refs[i].flags |= KYMO_REF_OUT;
        }
    }
}

/* *n is the number of segments before, and of those kept afterwards. */
static int order_thread(struct kymo_reader *r, struct kymo_seg_ref *refs, size_t *n)
{
    if (in_order(refs, *n) || *n >= NONE)
        return 0;
    int rc = look_at_descents(r, refs, *n);
    if (rc != 0)
        return rc;
    *n = keep_rest(refs, *n);
    if (in_order(refs, *n))
        return 0;
    uint32_t *last = malloc(*n * sizeof *last), *before = malloc(*n * sizeof *before);
    if (last != NULL && before != NULL)
        leave_others_out(r, refs, (uint32_t)*n, last, before);
    else
        rc = -ENOMEM;
    free(last);
    free(before);
    *n = keep_rest(refs, *n);
    return rc;
}

int kymo_index_order(struct kymo_reader *r)
{
    struct kymo_index *ix = &r->index;
    size_t kept = 0;
    int rc = 0;
    for (size_t i = 0, n; i < ix->n && rc == 0; i += n) {
        for (n = 1; i + n < ix->n && ix->refs[i + n].slot == ix->refs[i].slot;)
            n++;
        size_t left = n;
        rc = order_thread(r, ix->refs + i, &left);
        memmove(ix->refs + kept, ix->refs + i, left * sizeof *ix->refs);
        kept += left;
    }
    ix->n = kept;
    return rc;
}
