/* SPDX-License-Identifier: Apache-2.0
 *
 * The end: gives the disk back what the pool holds nothing in. While events are
 * recorded all of it stays reserved, so that no store into it can meet a full
 * disk; from KYMO_STOPPING on nobody stores any more, but for losses to tell.
 *
 * Places that were given back must not be touched through the mapping either:
 * on tmpfs even a load from a hole takes a page, or raises SIGBUS when there is
 * none.
 */
#include "kymo_internal.h"

static bool needed(const struct kymo_recorder *r, uint64_t place, enum kymo_giveback what)
{
    if (kymo_pool_is_open(r, place) || kymo_pool_is_full(r, place))
        return true;
    return what == KYMO_GIVE_UNUSED && kymo_segment_at(r, place)->order != 0;
}

/* How many free places are left for losses that the stream does not know yet. */
static uint64_t untold(const struct kymo_recorder *r)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < r->opt.n_slots; i++) {
        const struct kymo_writer *w = &r->writers[i];
        uint64_t noted = 0;

        for (unsigned c = 0; c < KYMO_LOSS_CAUSES; c++)
            noted += w->noted[c];
        n += w->lost_total > noted;
    }
    return n;
}

void kymo_ring_give_back(struct kymo_recorder *r, enum kymo_giveback what)
{
    uint64_t bytes = r->layout.segment_bytes, begin = 0;
    uint64_t left = what == KYMO_GIVE_DRAINED ? untold(r) : 0;

    for (uint64_t place = 0; place <= r->pool.n; place++) {
        if (place < r->pool.n && !kymo_pool_is_retired(r, place) && !needed(r, place, what)) {
            if (left == 0) {
                kymo_pool_retire(r, place);
                continue;
            }
            left--;
        } else if (place < r->pool.n && kymo_pool_is_retired(r, place)) {
            continue;
        }
        if (place > begin)
            kymo_file_punch(r->ring_map.fd, begin * bytes, (place - begin) * bytes);
        begin = place + 1;
    }
}
