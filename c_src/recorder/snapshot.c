/* SPDX-License-Identifier: Apache-2.0
 *
 * A copy of the rings of a living recorder. Writers are not stopped.
 *
 * First the cut: how far each thread has come, all threads within microseconds.
 * Then each ring is copied from its cut backwards in time, until a segment turns
 * out to have been overwritten: what a thread loses under the copy is always the
 * oldest, so what is left is without gaps.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#include "kymo_internal.h"

struct cut {
    uint64_t seq;          /* the segment open at the cut, 0 = none */
    uint64_t commit;       /* its bytes */
    struct kymo_slot slot; /* counters, corrected for what was copied */
};

struct snapshot {
    struct kymo_recorder *r;
    struct cut *cuts;
    uint32_t n_cuts;
    uint64_t ticks; /* of the cut */
    uint8_t *buf;   /* one segment */
    int dirfd, meta, data, dict;
    uint64_t size, segments, events;
};

/* Copies what a producer may be writing. What was torn is found out afterwards
 * (kymo_format.h); ThreadSanitizer can't know. len is a multiple of 8. */
__attribute__((no_sanitize("thread"), noinline)) static void copy_racy(void *to, const void *from, size_t len)
{
    const volatile uint64_t *src = from;
    uint64_t *dst = to;

    for (size_t i = 0; i < len / sizeof *dst; i++)
        dst[i] = src[i];
}

/* The lowest segment that may be looked at: the end may have given the space of
 * others back. */
static uint64_t first_kept(const struct kymo_recorder *r, uint32_t i)
{
    return r->drained_gone ? kymo_get(&r->writers[i].drained) + 1 : 1;
}

static void take_cut(struct snapshot *s)
{
    struct kymo_recorder *r = s->r;

    for (uint32_t i = 0; i < s->n_cuts; i++) {
        const struct kymo_slot *slot = &r->slots[i];
        struct cut *c = &s->cuts[i];
        const struct kymo_segment *seg;

        do {
            c->seq = kymo_get_acquire(&slot->seq);
            if (c->seq < first_kept(r, i))
                c->seq = 0;
            if (c->seq == 0)
                break;
            seg = kymo_segment_at(r, r->writers[i].ring, c->seq);
            c->commit = kymo_get_acquire(&seg->commit);
        } while (kymo_get(&seg->seq) != c->seq || c->commit == 0);
        (void)kymo_recorder_slot(r, i, &c->slot);
    }
    s->ticks = kymo_clock_ticks(r->clock);
}

/* Segment seq of slot i into s->buf; its length, 0 when it is no longer there. */
static size_t copy_segment(struct snapshot *s, uint32_t i, uint64_t seq)
{
    const struct kymo_recorder *r = s->r;
    const struct kymo_segment *from = kymo_segment_at(r, r->writers[i].ring, seq);
    const struct kymo_segment *copy = (const struct kymo_segment *)(void *)s->buf;
    uint64_t commit = kymo_get_acquire(&from->commit);

    if (commit < KYMO_SEG_HEADER || commit > r->opt.segment_bytes)
        return 0;
    if (seq == s->cuts[i].seq && commit > s->cuts[i].commit)
        commit = s->cuts[i].commit;
    copy_racy(s->buf, from, (size_t)kymo_round8(commit));
    KYMO_POINT(KYMO_AT_COPY);
    kymo_acquire_fence();
    if (kymo_get_acquire(&from->commit) < commit || kymo_get(&from->seq) != seq || copy->seq != seq)
        return 0;
    return (size_t)commit;
}

/* Completes the header of the copy. The segment that was open at the cut has to
 * be walked: how many events it has is known to its thread alone. */
static void complete(struct snapshot *s, const struct cut *c, size_t len)
{
    struct kymo_segment *seg = (struct kymo_segment *)(void *)s->buf;
    size_t at = KYMO_SEG_HEADER;

    if (seg->seq == c->seq) {
        uint64_t ticks = seg->ts_begin, lost = 0, events = 0;
        unsigned id;

        while (at < len) {
            size_t n = kymo_record_step(s->buf + at, len - at, &ticks, &id);

            if (n == 0)
                break;
            events += id < KYMO_E_FIRST_NOTE;
            at += n;
        }
        for (unsigned i = 0; i < KYMO_LOSS_CAUSES; i++)
            lost += c->slot.lost[i];
        len = at;
        seg->ts_end = ticks;
        seg->events = events;
        seg->discarded = lost > seg->lost_before ? lost : seg->lost_before;
    }
    memset(s->buf + len, 0, (size_t)kymo_round8(len) - len);
    seg->commit = len;
    seg->content_bits = len * 8;
    seg->packet_bits = kymo_round8(len) * 8;
    seg->crc = (uint32_t)crc32(0, s->buf + KYMO_SEG_HEADER, (uInt)(len - KYMO_SEG_HEADER));
    seg->flags |= KYMO_SEG_CRC;
}

static int copy_ring(struct snapshot *s, uint32_t i)
{
    const struct kymo_segment *seg = (const struct kymo_segment *)(void *)s->buf;
    uint64_t per_ring = s->r->opt.segs_per_ring;
    struct cut *c = &s->cuts[i];
    uint64_t oldest = c->seq > per_ring ? c->seq - per_ring + 1 : 1;
    uint64_t events = 0;

    if (oldest < first_kept(s->r, i))
        oldest = first_kept(s->r, i);
    for (uint64_t seq = c->seq; seq >= oldest; seq--) {
        size_t len = copy_segment(s, i, seq);
        int rc;

        if (len == 0)
            break;
        complete(s, c, len);
        rc = kymo_write_all(s->data, s->buf, (size_t)(seg->packet_bits / 8), s->size);
        if (rc != 0)
            return rc;
        if (seq == c->seq)
            c->slot.events = seg->events_before + seg->events;
        s->size += seg->packet_bits / 8;
        s->segments++;
        events += seg->events;
    }
    c->slot.overwritten = c->slot.events - events;
    c->slot.drained_seq = 0;
    c->slot.io_lost = 0;
    s->events += events;
    return 0;
}

static int copy_dict(struct snapshot *s, uint64_t *used)
{
    const uint8_t *mem = s->r->dict.mem;
    size_t max = s->r->opt.segment_bytes;
    int rc = 0;

    *used = kymo_get(&s->r->meta->dict_used);
    for (uint64_t at = 0; rc == 0 && at < *used; at += max) {
        size_t n = *used - at < max ? (size_t)(*used - at) : max;

        copy_racy(s->buf, mem + at, n);
        rc = kymo_write_all(s->dict, s->buf, n, at);
    }
    return rc;
}

/* meta, calibration and counters. The magic comes last: until then the folder is
 * not a recording. */
static int write_meta(struct snapshot *s, uint64_t dict_used)
{
    size_t len = s->r->meta_map.len;
    uint8_t *copy = malloc(len);
    struct kymo_meta *m;
    struct kymo_slot *slots;
    int rc;

    if (copy == NULL)
        return -ENOMEM;
    m = (struct kymo_meta *)(void *)copy;
    slots = (struct kymo_slot *)(void *)(copy + KYMO_META_BYTES + KYMO_CALIB_BYTES);
    copy_racy(copy, s->r->meta, len);
    m->magic = 0;
    m->snapshot = 1;
    m->state = KYMO_CLOSED;
    m->files = 1;
    m->files_removed = 0;
    m->events_removed = 0;
    m->io_errno = 0;
    m->dict_bytes = dict_used;
    m->dict_used = dict_used;
    m->slots_used = s->n_cuts;
    m->end_ticks = (int64_t)s->ticks;
    /* A slot that was taken after the cut is not in it. */
    memset(slots, 0, s->r->opt.n_slots * sizeof *slots);
    for (uint32_t i = 0; i < s->n_cuts; i++)
        slots[i] = s->cuts[i].slot;
    rc = kymo_write_all(s->meta, copy, len, 0);
    if (rc == 0 && fsync(s->meta) != 0)
        rc = -errno;
    m->magic = KYMO_META_MAGIC;
    if (rc == 0)
        rc = kymo_write_all(s->meta, &m->magic, sizeof m->magic, 0);
    if (rc == 0 && fsync(s->meta) != 0)
        rc = -errno;
    free(copy);
    return rc;
}

static int copy_all(struct snapshot *s)
{
    uint64_t dict_used = 0;
    int rc = 0;

    if (kymo_get(&s->r->head.state) < KYMO_STOPPING)
        kymo_calibrate(s->r, false);
    take_cut(s);
    KYMO_POINT(KYMO_AT_CUT);
    for (uint32_t i = 0; rc == 0 && i < s->n_cuts; i++)
        rc = copy_ring(s, i);
    /* The dictionary after the segments: all they refer to is in it by now. */
    if (rc == 0)
        rc = copy_dict(s, &dict_used);
    if (rc == 0 && (fsync(s->data) != 0 || fsync(s->dict) != 0))
        rc = -errno;
    if (rc == 0)
        rc = write_meta(s, dict_used);
    if (rc == 0 && fsync(s->dirfd) != 0)
        rc = -errno;
    return rc;
}

static int create_files(struct snapshot *s)
{
    char name[32];

    (void)snprintf(name, sizeof name, KYMO_DATA_FMT, 1u);
    s->meta = kymo_file_create(s->dirfd, KYMO_META_NAME, s->r->meta_map.len);
    if (s->meta < 0)
        return s->meta;
    s->data = kymo_file_create(s->dirfd, name, 0);
    if (s->data < 0)
        return s->data;
    s->dict = kymo_file_create(s->dirfd, KYMO_DICT_NAME, 0);
    return s->dict < 0 ? s->dict : 0;
}

static void close_file(struct snapshot *s, int fd, const char *name, bool keep)
{
    if (fd < 0)
        return;
    close(fd);
    if (!keep)
        unlinkat(s->dirfd, name, 0);
}

static void close_files(struct snapshot *s, bool keep)
{
    char name[32];

    (void)snprintf(name, sizeof name, KYMO_DATA_FMT, 1u);
    close_file(s, s->dict, KYMO_DICT_NAME, keep);
    close_file(s, s->data, name, keep);
    close_file(s, s->meta, KYMO_META_NAME, keep);
    close(s->dirfd);
}

int kymo_recorder_snapshot(struct kymo_recorder *r, const char *dir, uint64_t *segments, uint64_t *events)
{
    struct snapshot s = {.r = r, .meta = -1, .data = -1, .dict = -1};
    struct kymo_sigs sigs;
    bool created = false;
    int rc = kymo_may_control(r);

    if (rc != 0)
        return rc;
    if (dir == NULL || dir[0] == '\0')
        return -EINVAL;
    pthread_mutex_lock(&r->ctl);
    kymo_no_sigxfsz(&sigs);
    s.n_cuts = (uint32_t)kymo_get_acquire(&r->meta->slots_used);
    s.cuts = calloc((size_t)s.n_cuts + 1, sizeof *s.cuts);
    s.buf = calloc(1, r->opt.segment_bytes);
    rc = s.cuts == NULL || s.buf == NULL ? -ENOMEM : 0;
    if (rc == 0)
        rc = s.dirfd = kymo_dir_open(dir, &created);
    if (rc >= 0) {
        rc = create_files(&s);
        if (rc == 0)
            rc = copy_all(&s);
        close_files(&s, rc == 0);
        if (rc != 0 && created)
            rmdir(dir);
    }
    free(s.buf);
    free(s.cuts);
    kymo_allow_sigxfsz(&sigs);
    pthread_mutex_unlock(&r->ctl);
    if (segments != NULL)
        *segments = rc == 0 ? s.segments : 0;
    if (events != NULL)
        *events = rc == 0 ? s.events : 0;
    return rc;
}
