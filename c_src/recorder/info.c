/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the counters of a recorder. Any thread, while producers keep recording.
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

/* Bytes in the slot's open segment, which its thread may close concurrently. */
static uint64_t open_bytes(const struct kymo_recorder *r, const struct kymo_slot *slot)
{
    uint64_t place = kymo_get(&slot->place);
    const struct kymo_segment *seg;
    uint64_t commit;

    if (place >= r->pool.n || !kymo_pool_is_open(r, place))
        return 0;
    seg = kymo_segment_at(r, place);
    commit = kymo_get_acquire(&seg->commit);
    return commit > KYMO_SEG_HEADER ? commit - KYMO_SEG_HEADER : 0;
}

int kymo_recorder_slot(struct kymo_recorder *r, uint32_t i, struct kymo_slot *out)
{
    const struct kymo_slot *slot = &r->slots[i];
    uint64_t closed, open;

    if (i >= kymo_get_acquire(&r->meta->slots_used))
        return -ERANGE;
    do { /* repeated if a segment was closed between the two reads, to count its bytes once */
        closed = kymo_get_acquire(&slot->bytes);
        open = kymo_get(&slot->seq) == 0 ? 0 : open_bytes(r, slot);
        kymo_acquire_fence();
    } while (kymo_get(&slot->bytes) != closed);
    copy_slot(slot, out);
    out->bytes = closed + open;
    return 0;
}

/* Ticks of the newest event that was overwritten or removed, 0 = none. */
static uint64_t horizon(struct kymo_recorder *r, uint32_t used)
{
    uint64_t until = 0;

    for (uint32_t i = 0; i < used; i++)
        kymo_raise(&until, kymo_get(&r->slots[i].gone_until));
    return until;
}

/* Bytes of the pool and the dictionary that have been used at least once. */
static uint64_t used_bytes(const struct kymo_recorder *r)
{
    uint64_t taken = kymo_get(&r->pool.next) - r->pool.n;

    return (taken < r->pool.n ? taken : r->pool.n) * r->layout.segment_bytes + kymo_get(&r->meta->dict_used);
}

void kymo_recorder_note_taken(struct kymo_recorder *r, uint64_t n)
{
    kymo_raise(&r->meta->taken, n);
}

bool kymo_recorder_note_measures(struct kymo_recorder *r, const char *text, size_t len)
{
    struct kymo_meta *m = r->meta;

    if (len > sizeof m->measures)
        return false;
    /* Measures are only added, so a reader finds whole lines up to the length that it has read. */
    memcpy(m->measures, text, len);
    kymo_set_release(&m->measures_len, (uint32_t)len);
    return true;
}

void kymo_recorder_info(struct kymo_recorder *r, struct kymo_info *out)
{
    const struct kymo_meta *m = r->meta;
    uint64_t until;

    memset(out, 0, sizeof *out);
    out->state = kymo_state_of(r);
    out->reason = (enum kymo_reason)(kymo_get(&r->head.state) >> 8);
    out->clock = r->clock;
    out->slots_used = (uint32_t)kymo_get_acquire(&m->slots_used);
    out->n_slots = r->opt.n_slots;
    out->n_segments = r->layout.n_segments;
    out->segment_bytes = r->layout.segment_bytes;
    for (uint32_t i = 0; i < out->slots_used; i++) {
        struct kymo_slot s;

        if (kymo_recorder_slot(r, i, &s) != 0)
            continue;
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
    out->memory = m->memory;
    out->used = used_bytes(r);
    out->files = kymo_get(&m->files);
    out->files_removed = kymo_get(&m->files_removed);
    out->events_removed = kymo_get(&m->events_removed);
    until = horizon(r, out->slots_used);
    out->complete_from_ns = until == 0 ? (int64_t)r->t0_ns : kymo_clock_ns_of(r, until);
    out->until_ns = kymo_clock_ns_of(r, out->state == KYMO_CLOSED ? (uint64_t)kymo_get(&m->end_ticks)
                                                                  : kymo_clock_now(r));
    out->wall_offset_ns = m->t0_wall_ns - m->t0_mono_ns;
    out->taken = kymo_get(&m->taken);
    out->epochs = kymo_get(&m->epochs);
    out->io_errno = kymo_get(&m->io_errno);
}
