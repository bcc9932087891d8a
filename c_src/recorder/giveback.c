/* SPDX-License-Identifier: Apache-2.0
 *
 * At the end of a recording, frees the disk space of unused places of the pool. During the
 * recording all of it stays reserved, so that no store can fail because the disk is full.
 * From KYMO_STOPPING on nothing is stored, except notes of losses.
 *
 * Places that were freed must not be accessed through the mapping: on tmpfs even a load
 * from a hole allocates a page, or raises SIGBUS if there is none.
 */
#include "kymo_internal.h"

static bool needed(const struct kymo_recorder *r, uint64_t place, enum kymo_giveback what)
{
    if (kymo_pool_is_open(r, place) || kymo_pool_is_full(r, place))
        return true;
    return what == KYMO_GIVE_UNUSED && kymo_segment_at(r, place)->order != 0;
}

/* The number of writers with losses that are not noted in the stream. Each needs a free
 * place. */
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
