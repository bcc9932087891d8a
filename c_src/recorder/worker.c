/* SPDX-License-Identifier: Apache-2.0
 *
 * The worker thread: enforces the duration limit, checks the clock, drains closed segments
 * to data files (discard) or adds their CRCs (overwrite), and ends the recording. It sleeps
 * on a futex, so that a producer that reaches a limit can wake it without a lock.
 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kymo_internal.h"

#define KYMO_NAP_MIN_NS 1000000u
#define KYMO_NAP_MAX_NS 10000000u
#define KYMO_RETRY_NS 100000000u
/* Under overwrite. The number of CRCs per pass is bounded, so that even at the highest event
 * rate the worker uses at most a few percent of a processor. */
#define KYMO_SUM_NAP_MIN_NS 100000000u
#define KYMO_SUM_NAP_MAX_NS 1000000000u
#define KYMO_SUM_MOST 64u

void kymo_wake(struct kymo_recorder *r)
{
    (void)__atomic_fetch_add(&r->wake, 1u, __ATOMIC_SEQ_CST);
    (void)syscall(SYS_futex, &r->wake, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* Sleeps for at most ns. Returns at once if `wake` no longer equals `seen`. */
static void doze(struct kymo_recorder *r, uint32_t seen, uint64_t ns)
{
    struct timespec ts = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};

    KYMO_POINT(KYMO_AT_IDLE);
    (void)syscall(SYS_futex, &r->wake, FUTEX_WAIT_PRIVATE, seen, ns == UINT64_MAX ? NULL : &ts, NULL, 0);
}

struct pass {
    uint64_t drained; /* segments */
    bool backlog;     /* the pool was more than a quarter full */
    bool failed;
};

static struct pass drain(struct kymo_recorder *r)
{
    uint64_t full = kymo_pool_full(r);
    struct pass p = {0, full * 4 > r->pool.n, false};

    for (uint64_t i = 0; i < full && !p.failed; i++) {
        const struct kymo_segment *seg = kymo_segment_at(r, r->pool.full[i].place);
        struct kymo_slot *slot = &r->slots[seg->instance];
        uint64_t seq = seg->seq;
        int rc;

        KYMO_POINT(KYMO_AT_DRAIN);
        rc = kymo_datafile_write(r, seg);
        if (rc != 0) {
            kymo_set(&r->meta->io_errno, (uint32_t)-rc);
            p.failed = true;
            break;
        }
        p.drained++;
        kymo_set(&slot->drained_seq, seq);
        kymo_pool_drained(r, r->pool.full[i].place);
    }
    if (p.failed)
        kymo_set(&r->io_failing, 1u);
    else if (p.drained > 0)
        kymo_set(&r->io_failing, 0u);
    return p;
}

static void note_error(struct kymo_recorder *r, int rc)
{
    if (rc != 0)
        kymo_set(&r->meta->io_errno, (uint32_t)errno);
}

/* Handles segments that could not be written to a data file. Readers find them in the pool,
 * so they are lost only if the ring file was deleted during the recording. */
static void count_undelivered(struct kymo_recorder *r)
{
    struct stat st;
    bool gone = fstat(r->ring_map.fd, &st) == 0 && st.st_nlink == 0;

    for (uint64_t place = 0; place < r->pool.n; place++) {
        struct kymo_segment *seg = kymo_segment_at(r, place);
        struct kymo_writer *w;

        if (!kymo_pool_is_full(r, place))
            continue;
        w = &r->writers[seg->instance];
        if (gone)
            kymo_set(&w->slot->io_lost, w->slot->io_lost + seg->events);
        /* There may have been no room to note the last losses. */
        if (seg->seq == w->closed_seq)
            seg->discarded = w->lost_total;
    }
}

/* If the disk is full, frees the pool space of drained segments and drains again. For the
 * end only: the data files are durable then, and no producer writes any more. */
static struct pass drain_hard(struct kymo_recorder *r)
{
    struct pass p = drain(r);

    if (p.failed && kymo_datafile_sync(r) == 0) {
        kymo_ring_give_back(r, KYMO_GIVE_DRAINED);
        p = drain(r);
    }
    return p;
}

/* The end of a discard recording. Losses that are not followed by an event are noted in a
 * segment of their own, now that the pool is drained. Segments that cannot be written stay
 * in the ring file; if there are none, it is removed. */
static void finish_discard(struct kymo_recorder *r, uint64_t now)
{
    struct pass p;
    bool synced;

    (void)drain_hard(r);
    for (uint32_t i = 0; i < r->opt.n_slots; i++) {
        (void)kymo_write_losses(&r->writers[i], now, true);
        kymo_segment_close(&r->writers[i]);
    }
    p = drain_hard(r);
    kymo_datafile_close(r);
    synced = kymo_datafile_sync(r) == 0;
    if (synced && !p.failed) {
        (void)unlinkat(r->dirfd, KYMO_RING_NAME, 0);
        return;
    }
    count_undelivered(r);
    kymo_ring_give_back(r, synced ? KYMO_GIVE_ALL : KYMO_GIVE_UNUSED);
    note_error(r, fsync(r->ring_map.fd));
}

static void finish(struct kymo_recorder *r)
{
    uint64_t now;

    pthread_mutex_lock(&r->ctl);
    kymo_publish_state(r);
    kymo_quiesce(r);
    now = kymo_clock_now(r);
    for (uint32_t i = 0; i < r->opt.n_slots; i++) {
        struct kymo_writer *w = &r->writers[i];

        (void)kymo_write_losses(w, now, false);
        kymo_write_state(w, KYMO_STOPPING, now);
        kymo_segment_close(w);
    }
    if (r->opt.policy == KYMO_DISCARD) {
        finish_discard(r, now);
    } else {
        (void)kymo_pool_sum(r, UINT_MAX);
        kymo_ring_give_back(r, KYMO_GIVE_UNUSED);
        note_error(r, fsync(r->ring_map.fd));
    }
    kymo_calibrate(r, KYMO_CALIB_END);
    kymo_set(&r->meta->end_ticks, (int64_t)kymo_clock_now(r));
    note_error(r, ftruncate(r->dict_map.fd, (off_t)kymo_get(&r->meta->dict_used)));
    note_error(r, fsync(r->dict_map.fd));
    note_error(r, fsync(r->dirfd));
    kymo_enter_closed(r);
    pthread_mutex_unlock(&r->ctl);
}

/* Does not wait for a snapshot in progress, which holds ctl: the worker must keep draining the
 * pool. */
static void calibrate(struct kymo_recorder *r, uint64_t now)
{
    if (pthread_mutex_trylock(&r->ctl) == 0) {
        kymo_calibrate(r, KYMO_CALIB_LOOK);
        pthread_mutex_unlock(&r->ctl);
    } else {
        kymo_set(&r->calib_next_ns, now + KYMO_NAP_MAX_NS);
    }
}

static uint64_t until(uint64_t now, uint64_t deadline, uint64_t nap)
{
    uint64_t left = deadline > now ? deadline - now : 0;

    return left < nap ? left : nap;
}

void *kymo_worker(void *recorder)
{
    struct kymo_recorder *r = recorder;
    uint64_t nap = KYMO_NAP_MIN_NS;

    while (kymo_get_acquire(&r->head.state) < KYMO_STOPPING) {
        uint32_t seen = __atomic_load_n(&r->wake, __ATOMIC_SEQ_CST);
        uint64_t now = kymo_clock_mono();
        uint64_t wait = UINT64_MAX;

        if (__atomic_load_n(&r->head.state, __ATOMIC_SEQ_CST) >= KYMO_STOPPING)
            break;
        if (r->opt.limit_ns != 0 && now - r->t0_ns >= r->opt.limit_ns) {
            (void)kymo_begin_stop(r, KYMO_R_DURATION);
            break;
        }
        if (r->clock == KYMO_CLOCK_COUNTER && now >= kymo_get(&r->calib_next_ns))
            calibrate(r, now);
        if (r->opt.policy == KYMO_OVERWRITE) {
            nap = kymo_pool_sum(r, KYMO_SUM_MOST) > 0 ? KYMO_SUM_NAP_MIN_NS
                  : nap * 2 < KYMO_SUM_NAP_MAX_NS     ? nap * 2
                                                      : KYMO_SUM_NAP_MAX_NS;
            wait = nap;
        } else {
            struct pass p;

            kymo_datafile_age(r, now);
            p = drain(r);
            if (p.backlog && !p.failed)
                continue;
            nap = p.failed ? KYMO_RETRY_NS : p.drained > 0 ? KYMO_NAP_MIN_NS : nap * 2;
            nap = nap > KYMO_NAP_MAX_NS && !p.failed ? KYMO_NAP_MAX_NS : nap;
            wait = nap;
        }
        if (r->clock == KYMO_CLOCK_COUNTER)
            wait = until(now, kymo_get(&r->calib_next_ns), wait);
        if (r->opt.limit_ns != 0)
            wait = until(now, r->t0_ns + r->opt.limit_ns, wait);
        doze(r, seen, wait);
    }
    /* If the duration limit lost a race against another stop, the state may not have changed
     * yet. */
    while (kymo_get_acquire(&r->head.state) < KYMO_STOPPING)
        doze(r, __atomic_load_n(&r->wake, __ATOMIC_SEQ_CST), KYMO_NAP_MIN_NS);
    finish(r);
    return NULL;
}
