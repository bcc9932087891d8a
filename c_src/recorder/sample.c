/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the functions and kinds of events that fill the recording at present, in copies of
 * the newest segments, made as for a snapshot. Producers are not affected.
 */
#include <errno.h>
#include <stdlib.h>

#include "kymo_budget.h"
#include "kymo_internal.h"
#include "kymo_record.h"

/* Limits of one sample: bytes of segments, and tickets back from the newest. */
#define SAMPLE_BYTES (4u << 20)
#define SAMPLE_TICKETS 128u
/* Maximum number of functions that are counted separately, a power of two. Calls of further
 * functions only count as calls. */
#define COUNTERS 16384u

struct counter {
    uint32_t id, events;
};

struct look {
    struct kymo_recorder *r;
    struct kymo_sample *out;
    struct counter *counters;
    uint8_t *buf; /* one segment */
    uint64_t since, bytes;
    uint32_t used; /* counters */
};

uint64_t kymo_recorder_ticks(const struct kymo_recorder *r)
{
    return kymo_clock_now(r);
}

bool kymo_recorder_offered(struct kymo_recorder *r, uint32_t i, uint64_t *events)
{
    const struct kymo_slot *slot = &r->slots[i];
    uint64_t n;

    if (i >= kymo_get_acquire(&r->meta->slots_used))
        return false;
    n = kymo_get(&slot->events) + kymo_get(&slot->sampled_out);
    for (unsigned c = 0; c < KYMO_LOSS_CAUSES; c++)
        n += kymo_get(&slot->lost[c]);
    *events = n;
    return true;
}

static void count_function(struct look *l, uint32_t id)
{
    uint32_t i = (uint32_t)(kymo_mix(id) % COUNTERS);

    l->out->kinds[KYMO_KIND_CALLS]++;
    if (id == 0)
        return;
    while (l->counters[i].id != id && l->counters[i].id != 0)
        i = (i + 1) % COUNTERS;
    if (l->counters[i].id == 0) {
        if (l->used >= COUNTERS / 2)
            return;
        l->used++;
        l->counters[i].id = id;
    }
    l->counters[i].events++;
}

static void count(struct look *l, const struct kymo_event *ev)
{
    bool port = KYMO_IDENT_KIND(ev->who) == KYMO_I_PORT;

    switch (ev->id) {
    case KYMO_E_CALL:
    case KYMO_E_RETURN_FROM:
    case KYMO_E_EXCEPTION_FROM:
    case KYMO_E_SLOW: count_function(l, ev->mfa); return;
    case KYMO_E_RETURN_TO: l->out->return_to++; return;
    default: break;
    }
    if ((ev->id >= KYMO_E_SEND && ev->id <= KYMO_E_RECEIVE) || ev->id == KYMO_E_TAKEN)
        l->out->kinds[KYMO_KIND_MESSAGES]++;
    else if (ev->id >= KYMO_E_SPAWN && ev->id <= KYMO_E_CLOSED)
        l->out->kinds[port ? KYMO_KIND_PORTS : KYMO_KIND_PROCS]++;
    else if (ev->id >= KYMO_E_IN && ev->id <= KYMO_E_PORT_OUT_EXITED)
        l->out->kinds[KYMO_KIND_RUNNING]++;
    else if (ev->id >= KYMO_E_GC_MINOR_START && ev->id <= KYMO_E_GC_MAJOR_END)
        l->out->kinds[KYMO_KIND_GC]++;
    else if (ev->id < KYMO_E_FIRST_NOTE)
        l->out->other++;
}

/* Copies the segment at `place`. Returns its bytes, or 0 if it has no new records, or is not
 * the segment opened for `order`, before or after the copy. */
static uint64_t copy(struct look *l, uint64_t place, uint64_t order)
{
    const struct kymo_recorder *r = l->r;
    const struct kymo_segment *from = kymo_segment_at(r, place);
    uint64_t commit = kymo_get_acquire(&from->commit);
    uint64_t end = kymo_get(&from->ts_end);

    if (commit <= KYMO_SEG_HEADER || commit > r->layout.segment_bytes || kymo_get(&from->order) != order ||
        (end != 0 && end < l->since))
        return 0;
    l->bytes += commit;
    kymo_copy_racy(l->buf, from, (size_t)kymo_round8(commit));
    kymo_acquire_fence();
    if (kymo_get_acquire(&from->commit) < commit || kymo_get(&from->order) != order ||
        ((const struct kymo_segment *)(const void *)l->buf)->order != order)
        return 0;
    return commit;
}

static void look_at(struct look *l, uint64_t place, uint64_t order)
{
    struct kymo_event ev;
    struct kymo_scan scan;
    uint64_t len;

    if (l->bytes >= SAMPLE_BYTES || kymo_pool_is_retired(l->r, place))
        return;
    len = copy(l, place, order);
    if (len == 0)
        return;
    kymo_scan_start(&scan, l->buf, (uint32_t)len);
    while (kymo_scan_peek(&scan) == KYMO_PEEK_RECORD && kymo_scan_decode(&scan, &ev)) {
        if (scan.ticks >= l->since)
            count(l, &ev);
    }
}

/* Reads the open segment of each thread first, so that no thread is left out when the limit
 * is reached; then closed segments, the newest first. */
static void look_around(struct look *l)
{
    struct kymo_recorder *r = l->r;
    uint64_t next = kymo_get(&r->pool.next);
    uint32_t slots = (uint32_t)kymo_get_acquire(&r->meta->slots_used);

    for (uint32_t i = 0; i < slots; i++) {
        uint64_t place = kymo_get(&r->slots[i].place);

        if (kymo_get(&r->slots[i].seq) != 0 && place < r->pool.n && kymo_pool_is_open(r, place))
            look_at(l, place, kymo_get_acquire(&kymo_segment_at(r, place)->order));
    }
    for (uint64_t back = 1; back <= SAMPLE_TICKETS && back <= next - r->pool.n; back++) {
        uint64_t place = (next - back) % r->pool.n;

        if (!kymo_pool_is_open(r, place))
            look_at(l, place, next - back);
    }
}

static int loudest_first(const void *a, const void *b)
{
    const struct counter *x = a, *y = b;

    return x->events != y->events ? (x->events < y->events) - (x->events > y->events)
                                  : (x->id > y->id) - (x->id < y->id);
}

static void report(struct look *l)
{
    struct kymo_sample *out = l->out;

    qsort(l->counters, COUNTERS, sizeof *l->counters, loudest_first);
    if (out->n_functions > l->used)
        out->n_functions = l->used;
    for (uint32_t i = 0; i < out->n_functions; i++)
        out->functions[i] = (struct kymo_loud){.id = l->counters[i].id, .events = l->counters[i].events};
    kymo_dict_find_functions(&l->r->dict, out->functions, out->n_functions);
}

int kymo_recorder_sample(struct kymo_recorder *r, uint64_t since, struct kymo_sample *out)
{
    struct look l = {.r = r, .out = out, .since = since};
    int rc = kymo_may_control(r);

    if (rc != 0)
        return rc;
    /* With ctl held, no disk space of segments is freed while they are read. */
    if (pthread_mutex_trylock(&r->ctl) != 0)
        return -EBUSY;
    memset(out->kinds, 0, sizeof out->kinds);
    out->return_to = out->other = 0;
    l.buf = malloc(r->layout.segment_bytes);
    l.counters = calloc(COUNTERS, sizeof *l.counters);
    if (l.buf == NULL || l.counters == NULL) {
        rc = -ENOMEM;
    } else if (kymo_state_of(r) >= KYMO_STOPPING) {
        rc = -ESHUTDOWN;
    } else {
        look_around(&l);
        report(&l);
    }
    pthread_mutex_unlock(&r->ctl);
    free(l.buf);
    free(l.counters);
    return rc;
}
