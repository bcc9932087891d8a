/* SPDX-License-Identifier: Apache-2.0
 *
 * Counters, read by any thread while producers go on.
 */
#include <errno.h>

#include "kymo_internal.h"

static void copy_slot(const struct kymo_slot *from, struct kymo_slot *to)
{
    const uint64_t *src = (const uint64_t *)(const void *)from;
    uint64_t words[sizeof *from / sizeof *src] = {0};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        words[i] = kymo_get(&src[i]);
    memcpy(to, words, sizeof words);
}

int kymo_recorder_slot(struct kymo_recorder *r, uint32_t i, struct kymo_slot *out)
{
    if (i >= kymo_get_acquire(&r->meta->slots_used))
        return -ERANGE;
    copy_slot(&r->slots[i], out);
    return 0;
}

void kymo_recorder_info(struct kymo_recorder *r, struct kymo_info *out)
{
    const struct kymo_meta *m = r->meta;

    memset(out, 0, sizeof *out);
    out->state = (enum kymo_state)kymo_get_acquire(&r->head.state);
    out->reason = (enum kymo_reason)kymo_get(&m->reason);
    out->clock = r->clock;
    out->slots_used = (uint32_t)kymo_get_acquire(&m->slots_used);
    out->n_slots = r->opt.n_slots;
    for (uint32_t i = 0; i < out->slots_used; i++) {
        struct kymo_slot s;

        copy_slot(&r->slots[i], &s);
        out->events += s.events;
        out->bytes += s.bytes;
        out->sampled_out += s.sampled_out;
        out->overwritten += s.overwritten;
        for (unsigned c = 0; c < KYMO_LOSS_CAUSES; c++)
            out->lost[c] += s.lost[c];
        out->lost[KYMO_LOST_IO] += s.io_lost;
    }
    out->lost[KYMO_LOST_NO_SLOT] += kymo_get(&m->no_slot);
    out->dict_used = kymo_get(&m->dict_used);
    out->dict_bytes = r->dict.bytes;
    out->dict_full = kymo_get(&m->dict_full);
    out->memory = r->meta_map.len + r->dict_map.len + r->ring_map.len + r->priv_map.len;
    out->files = kymo_get(&m->files);
    out->files_removed = kymo_get(&m->files_removed);
    out->events_removed = kymo_get(&m->events_removed);
    out->io_errno = kymo_get(&m->io_errno);
}

void kymo_recorder_note_taken(struct kymo_recorder *r, uint64_t n)
{
    uint64_t old = kymo_get(&r->meta->taken);

    while (old < n &&
           !__atomic_compare_exchange_n(&r->meta->taken, &old, n, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}
