/* SPDX-License-Identifier: Apache-2.0
 *
 * From when on the recording is complete. The slot of a thread has the time of its
 * newest event that is gone. Where meta is older than the segments, and in a snapshot,
 * the oldest of its newest segments without a gap says the same: when the last event
 * before it was, and how many there were. The newest of these times is the horizon.
 */
#include <string.h>
#include <unistd.h>

#include "kymo_reader_int.h"

/* Reads the header of ref again. False: the place has been reused since the index was
 * made, or the header can't be read any more. */
static bool read_header(struct kymo_reader *r, const struct kymo_seg_ref *ref, struct kymo_segment *h)
{
    int fd = kymo_file_get(&r->files, ref->file);
    return fd >= 0 && kymo_file_read(fd, h, sizeof *h, ref->offset) == (ssize_t)sizeof *h &&
           kymo_segment_unchanged(r, ref, h);
}

/* The oldest of a thread's segments refs[0 .. n) that is still there, n when none is.
 * Its header goes into *h. */
static size_t oldest(struct kymo_reader *r, const struct kymo_seg_ref *refs, size_t n, struct kymo_segment *h)
{
    size_t i = 0;
    while (i < n && !read_header(r, &refs[i], h))
        i++;
    return i;
}

/* Segments that were closed are in the counter already. */
static uint64_t open_bytes(const struct kymo_seg_ref *refs, size_t n)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        if ((refs[i].flags & KYMO_REF_CLOSED) == 0)
            sum += refs[i].len - KYMO_SEG_HEADER;
    }
    return sum;
}

/* The first of refs[0 .. n), n > 0, from which on none is missing. */
static size_t newest_run(const struct kymo_seg_ref *refs, size_t n)
{
    size_t i = n - 1;
    while (i > 0 && refs[i].seq == refs[i - 1].seq + 1)
        i--;
    return i;
}

/* refs[0 .. n), n > 0: all that is there of a thread. */
static void look_at_thread(struct kymo_reader *r, const struct kymo_seg_ref *refs, size_t n)
{
    uint32_t slot = refs[0].slot;
    size_t run = newest_run(refs, n);
    struct kymo_segment h;
    if (!read_header(r, &refs[run], &h))
        return; /* reused at this moment: its slot says so */
    uint64_t gone = h.events_before;
    if (h.seq > 1 && h.ts_before > r->floors[slot])
        r->floors[slot] = h.ts_before;
    /* The recorder counts what it reuses before it does so, and may be killed between.
     * What is older than the run has outlived others. */
    for (size_t i = 0; i < run; i++) {
        if (read_header(r, &refs[i], &h))
            gone -= h.events < gone ? h.events : gone;
    }
    if (r->meta.policy == KYMO_OVERWRITE)
        r->slots[slot].overwritten = gone;
}

/* Threads whose last segment was reused after their slot had been read. */
static void read_slots_again(struct kymo_reader *r)
{
    int fd = kymo_is_living(r) ? kymo_file_open(r->files.dir, KYMO_META_NAME, NULL) : -1;
    if (fd < 0)
        return;
    for (uint32_t i = 0; i < r->n_slots; i++) {
        struct kymo_slot now;
        uint64_t at = (uint64_t)r->meta.meta_bytes + KYMO_CALIB_BYTES + i * sizeof now;
        if (kymo_file_read(fd, &now, sizeof now, at) == (ssize_t)sizeof now &&
            now.gone_until > r->slots[i].gone_until)
            r->slots[i].gone_until = now.gone_until;
    }
    close(fd);
}

void kymo_horizon_find(struct kymo_reader *r)
{
    struct kymo_index *ix = &r->index;
    size_t kept = 0;
    for (size_t i = 0, n; i < ix->n; i += n) {
        uint32_t slot = ix->refs[i].slot;
        for (n = 1; i + n < ix->n && ix->refs[i + n].slot == slot;)
            n++;
        struct kymo_segment h;
        size_t gone = oldest(r, ix->refs + i, n, &h);
        if (gone < n) {
            look_at_thread(r, ix->refs + i + gone, n - gone);
            r->slots[slot].bytes += open_bytes(ix->refs + i + gone, n - gone);
        }
        memmove(ix->refs + kept, ix->refs + i + gone, (n - gone) * sizeof *ix->refs);
        kept += n - gone;
    }
    ix->n = kept;
    read_slots_again(r);
    for (uint32_t i = 0; i < r->n_slots; i++) {
        if (r->slots[i].gone_until > r->floors[i])
            r->floors[i] = r->slots[i].gone_until;
        if (r->floors[i] > r->horizon)
            r->horizon = r->floors[i];
    }
}

bool kymo_reader_horizon(const struct kymo_reader *r, uint64_t *ticks, int64_t *ns)
{
    *ticks = r->horizon != 0 ? r->horizon : r->meta.t0_ticks;
    *ns = kymo_reader_ns(r, *ticks);
    return r->horizon != 0;
}

bool kymo_reader_incomplete(const struct kymo_reader *r, uint32_t slot, uint64_t ticks)
{
    /* At the horizon itself: after what is gone of the same thread, and perhaps before
     * what is gone of another. */
    return ticks < r->horizon || (ticks == r->horizon && ticks != 0 && r->floors[slot] != ticks);
}

void kymo_reader_show_all(struct kymo_reader *r, bool all)
{
    r->all = all;
}
