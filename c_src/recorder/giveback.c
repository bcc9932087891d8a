/* SPDX-License-Identifier: Apache-2.0
 *
 * The end: gives the disk back what the rings hold nothing in. While events are
 * recorded all of a ring stays reserved, so that no store into it can meet a full
 * disk; from KYMO_STOPPING on nobody stores any more.
 *
 * Places that were given back must not be touched through the mapping either:
 * on tmpfs even a load from a hole takes a page, or raises SIGBUS when there is
 * none.
 */
#include "kymo_internal.h"

/* The number of the segment that place i of the ring of w holds, 0 = none yet. */
static uint64_t seq_at(const struct kymo_recorder *r, const struct kymo_writer *w, uint64_t i)
{
    uint64_t n = r->opt.segs_per_ring;

    return i < w->seq ? w->seq - (w->seq - 1 - i) % n : 0;
}

static bool needed(const struct kymo_recorder *r, const struct kymo_writer *w, uint64_t i,
                   enum kymo_giveback what)
{
    uint64_t seq = seq_at(r, w, i);

    if (what == KYMO_GIVE_DRAINED && i == w->seq % r->opt.segs_per_ring)
        return true; /* for losses that are still to be told */
    return what == KYMO_GIVE_UNUSED ? seq != 0 : seq > w->drained;
}

void kymo_ring_give_back(struct kymo_recorder *r, enum kymo_giveback what)
{
    uint64_t per_ring = r->opt.segs_per_ring, places = r->opt.n_slots * per_ring;
    uint64_t bytes = r->opt.segment_bytes, begin = 0;

    if (what != KYMO_GIVE_UNUSED)
        r->drained_gone = true;
    for (uint64_t i = 0; i <= places; i++) {
        if (i < places && !needed(r, &r->writers[i / per_ring], i % per_ring, what))
            continue;
        if (i > begin)
            kymo_file_punch(r->ring_map.fd, begin * bytes, (i - begin) * bytes);
        begin = i + 1;
    }
}
