/* SPDX-License-Identifier: Apache-2.0
 *
 * A copy of the pool of an active recorder, without stopping writers.
 *
 * The cut comes first: it records the position of each thread, of all threads within
 * microseconds. Then segments are copied from the newest to the oldest. If a segment is
 * reused before it is copied, no older segment of that thread is copied either. So each
 * thread loses only its oldest events, and the copy has no gaps.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#include "kymo_internal.h"
#include "kymo_record.h"

struct cut {
    uint64_t seq;          /* the segment that was open at the cut, 0 = none */
    uint64_t commit;       /* its bytes at the cut */
    uint64_t wanted;       /* the next segment to copy, in descending order; 0 = no more */
    uint64_t events;       /* copied so far */
    struct kymo_slot slot; /* counters, adjusted to what was copied */
};

/* A segment in the pool, at the time of the cut. */
struct found {
    uint64_t order, place;
};

struct snapshot {
    struct kymo_recorder *r;
    struct cut *cuts;
    struct found *found;
    uint64_t n_found;
    uint32_t n_cuts;
    uint64_t ticks; /* of the cut */
    uint8_t *buf;   /* one segment */
    int dirfd, meta, data, dict;
    uint64_t size, segments, events;
};

/* A deliberate data race; the caller detects torn copies. */
__attribute__((no_sanitize("thread"), noinline)) void kymo_copy_racy(void *to, const void *from, size_t len)
{
    const volatile uint64_t *src = from;
    uint64_t *dst = to;

    for (size_t i = 0; i < len / sizeof *dst; i++)
        dst[i] = src[i];
}

static void take_cut(struct snapshot *s)
{
    struct kymo_recorder *r = s->r;

    for (uint32_t i = 0; i < s->n_cuts; i++) {
        const struct kymo_slot *slot = &r->slots[i];
        struct cut *c = &s->cuts[i];

        for (;;) {
            const struct kymo_segment *seg;
            uint64_t place, order;

            c->seq = kymo_get_acquire(&slot->seq);
            place = kymo_get_acquire(&slot->place);
            if (c->seq == 0 || place >= r->pool.n || kymo_pool_is_retired(r, place))
                break;
            seg = kymo_segment_at(r, place);
            order = kymo_get_acquire(&seg->order);
            c->commit = kymo_get_acquire(&seg->commit);
            kymo_acquire_fence();
            if (kymo_get_acquire(&slot->seq) == c->seq && kymo_get(&slot->place) == place) {
                /* If the thread has ended, its last segment may have been reused by another
                 * one: copy nothing of it. */
                bool mine = kymo_get(&seg->instance) == i && kymo_get(&seg->order) == order;

                c->commit = mine ? c->commit : 0;
                /* The place already has this thread's next segment, so the one at the cut is
                 * closed. */
                if (mine && kymo_get(&seg->seq) != c->seq)
                    c->commit = r->layout.segment_bytes;
                break;
            }
        }
        c->wanted = c->seq;
        (void)kymo_recorder_slot(r, i, &c->slot);
    }
    s->ticks = kymo_clock_now(r);
}

static int newest_first(const void *a, const void *b)
{
    const struct found *x = a, *y = b;

    return x->order > y->order ? -1 : x->order < y->order;
}

static void find_segments(struct snapshot *s)
{
    struct kymo_recorder *r = s->r;

    for (uint64_t place = 0; place < r->pool.n; place++) {
        uint64_t order;

        if (kymo_pool_is_retired(r, place))
            continue;
        order = kymo_get_acquire(&kymo_segment_at(r, place)->order);
        if (order != 0)
            s->found[s->n_found++] = (struct found){order, place};
    }
    qsort(s->found, s->n_found, sizeof *s->found, newest_first);
}

/* Copies a segment into s->buf. Returns its length, or 0 if it has been reused. */
static size_t copy_segment(struct snapshot *s, const struct found *f)
{
    const struct kymo_recorder *r = s->r;
    const struct kymo_segment *from = kymo_segment_at(r, f->place);
    const struct kymo_segment *copy = (const struct kymo_segment *)(void *)s->buf;
    uint64_t commit = kymo_get_acquire(&from->commit);
    uint64_t instance = kymo_get(&from->instance);

    if (commit < KYMO_SEG_HEADER || commit > r->layout.segment_bytes || instance >= s->n_cuts)
        return 0;
    kymo_copy_racy(s->buf, from, (size_t)kymo_round8(commit));
    KYMO_POINT(KYMO_AT_COPY);
    kymo_acquire_fence();
    if (kymo_get_acquire(&from->commit) < commit || kymo_get(&from->order) != f->order ||
        copy->order != f->order || copy->instance != instance)
        return 0;
    if (copy->seq == s->cuts[instance].seq && commit > s->cuts[instance].commit)
        commit = s->cuts[instance].commit;
    return commit < KYMO_SEG_HEADER ? 0 : (size_t)commit;
}

/* Completes the header of the copy. If the segment was open at the cut, decodes it, because
 * its header does not have the number of events yet. */
static void complete(struct snapshot *s, const struct cut *c, size_t len)
{
    struct kymo_segment *seg = (struct kymo_segment *)(void *)s->buf;

    if (seg->seq == c->seq) {
        uint64_t lost = 0, events = 0;
        struct kymo_event ev;
        struct kymo_scan scan;

        seg->content_bits = 0; /* closed since, perhaps, with events after the cut */
        kymo_scan_start(&scan, s->buf, (uint32_t)len);
        while (kymo_scan_peek(&scan) == KYMO_PEEK_RECORD && kymo_scan_decode(&scan, &ev))
            events += ev.id < KYMO_E_FIRST_NOTE;
        for (unsigned i = 0; i < KYMO_LOSS_CAUSES; i++)
            lost += c->slot.lost[i];
        len = scan.pos;
        seg->ts_end = scan.ticks;
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

/* Appends the segment in s->buf to the data file. */
static int keep(struct snapshot *s, struct cut *c, size_t len)
{
    const struct kymo_segment *seg = (const struct kymo_segment *)(void *)s->buf;
    int rc;

    complete(s, c, len);
    rc = kymo_write_all(s->data, s->buf, (size_t)(seg->packet_bits / 8), s->size);
    if (rc != 0)
        return rc;
    if (seg->seq == c->seq)
        c->slot.events = seg->events_before + seg->events;
    c->slot.gone_until = seg->seq > 1 ? seg->ts_before : 0;
    c->wanted = seg->seq - 1;
    c->events += seg->events;
    s->size += seg->packet_bits / 8;
    s->segments++;
    s->events += seg->events;
    return 0;
}

/* The time of the newest event of slot i, for a slot that has no events in the pool. */
static uint64_t all_gone(const struct kymo_recorder *r, uint32_t i)
{
    const struct kymo_writer *w = &r->writers[i];
    uint64_t until = kymo_get(&w->slot->gone_until);

    kymo_raise(&until, kymo_get(&w->pool_until));
    /* The place of its last segment was freed after all producers had ended. */
    if (kymo_get(&w->slot->seq) != 0 && kymo_pool_is_retired(r, kymo_get(&w->slot->place)))
        kymo_raise(&until, w->last);
    return until;
}

static int copy_pool(struct snapshot *s)
{
    const struct kymo_segment *seg = (const struct kymo_segment *)(void *)s->buf;
    int rc = 0;

    find_segments(s);
    for (uint64_t i = 0; rc == 0 && i < s->n_found; i++) {
        size_t len = copy_segment(s, &s->found[i]);

        /* Skips segments opened after the cut, and those older than a missing one. */
        if (len > 0 && seg->seq == s->cuts[seg->instance].wanted)
            rc = keep(s, &s->cuts[seg->instance], len);
    }
    for (uint32_t i = 0; i < s->n_cuts; i++) {
        struct cut *c = &s->cuts[i];

        if (c->events == 0 && c->wanted == c->seq)
            c->slot.gone_until = all_gone(s->r, i);
        c->slot.overwritten = c->slot.events - c->events;
        c->slot.drained_seq = 0;
        c->slot.io_lost = 0;
    }
    return rc;
}

static int copy_dict(struct snapshot *s, uint64_t *used)
{
    const uint8_t *mem = s->r->dict.mem;
    size_t max = s->r->layout.segment_bytes;
    int rc = 0;

    *used = kymo_get(&s->r->meta->dict_used);
    for (uint64_t at = 0; rc == 0 && at < *used; at += max) {
        size_t n = *used - at < max ? (size_t)(*used - at) : max;

        kymo_copy_racy(s->buf, mem + at, n);
        rc = kymo_write_all(s->dict, s->buf, n, at);
    }
    return rc;
}

/* Writes meta, calibration and counters. The magic is written last, so an incomplete folder
 * is not taken for a recording. */
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
    kymo_copy_racy(copy, s->r->meta, len);
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
    m->memory = 0;
    m->locked = 0;
    m->end_ticks = (int64_t)s->ticks;
    /* Leave out slots that were taken after the cut. */
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

    if (kymo_state_of(s->r) < KYMO_STOPPING)
        kymo_calibrate(s->r, KYMO_CALIB_POINT);
    take_cut(s);
    KYMO_POINT(KYMO_AT_CUT);
    rc = copy_pool(s);
    /* The dictionary is copied after the segments, so it has every definition they use. */
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
    if (r->ring_map.fd < 0) { /* let go */
        pthread_mutex_unlock(&r->ctl);
        return -ESHUTDOWN;
    }
    kymo_no_sigxfsz(&sigs);
    s.n_cuts = (uint32_t)kymo_get_acquire(&r->meta->slots_used);
    s.cuts = calloc((size_t)s.n_cuts + 1, sizeof *s.cuts);
    s.found = calloc(r->pool.n, sizeof *s.found);
    s.buf = calloc(1, r->layout.segment_bytes);
    rc = s.cuts == NULL || s.found == NULL || s.buf == NULL ? -ENOMEM : 0;
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
    free(s.found);
    free(s.cuts);
    kymo_allow_sigxfsz(&sigs);
    pthread_mutex_unlock(&r->ctl);
    if (segments != NULL)
        *segments = rc == 0 ? s.segments : 0;
    if (events != NULL)
        *events = rc == 0 ? s.events : 0;
    return rc;
}
