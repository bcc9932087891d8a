/* SPDX-License-Identifier: Apache-2.0
 *
 * The states of a recorder.
 *
 *   IDLE      -> ACTIVE     kymo_enter_active, the last step of open
 *   ACTIVE    -> PAUSED     kymo_recorder_pause
 *   PAUSED    -> ACTIVE     kymo_recorder_resume
 *   IDLE, ACTIVE, PAUSED -> STOPPING   kymo_begin_stop, once: called by
 *                           kymo_recorder_stop and _stop_async, by the producer
 *                           that reaches a limit, by the worker (duration)
 *   STOPPING  -> CLOSED     kymo_enter_closed, by the worker at its end
 *
 * One word, head.state, holds the state and the reason of the end. It changes by
 * compare-and-swap: a stop may come between any two steps of pause and resume, and wins.
 * meta has a copy for readers of the files. It is written with ctl held, so that an older
 * state never replaces a newer one.
 */
#include <errno.h>
#include <unistd.h>

#include "kymo_internal.h"

#define KYMO_STATE_BITS 8

static bool change_state(struct kymo_recorder *r, enum kymo_state from, enum kymo_state to)
{
    uint32_t expected = from;

    return __atomic_compare_exchange_n(&r->head.state, &expected, (uint32_t)to, false, __ATOMIC_SEQ_CST,
                                       __ATOMIC_RELAXED);
}

enum kymo_state kymo_state_of(const struct kymo_recorder *r)
{
    return (enum kymo_state)(kymo_get_acquire(&r->head.state) & ((1u << KYMO_STATE_BITS) - 1));
}

void kymo_enter_active(struct kymo_recorder *r)
{
    (void)change_state(r, KYMO_IDLE, KYMO_ACTIVE);
}

bool kymo_begin_stop(struct kymo_recorder *r, enum kymo_reason why)
{
    uint32_t old = kymo_get(&r->head.state);

    /* The first caller determines the reason. */
    do {
        if (old >= KYMO_STOPPING)
            return false;
    } while (!__atomic_compare_exchange_n(&r->head.state, &old,
                                          KYMO_STOPPING | (uint32_t)why << KYMO_STATE_BITS, false,
                                          __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
    return true;
}

void kymo_publish_state(struct kymo_recorder *r)
{
    kymo_set(&r->meta->reason, kymo_get(&r->head.state) >> KYMO_STATE_BITS);
    kymo_set(&r->meta->state, (uint32_t)kymo_state_of(r));
}

void kymo_enter_closed(struct kymo_recorder *r)
{
    uint32_t reason = kymo_get(&r->head.state) >> KYMO_STATE_BITS;

    kymo_set(&r->meta->reason, reason);
    kymo_set(&r->meta->state, (uint32_t)KYMO_CLOSED);
    (void)fsync(r->meta_map.fd);
    __atomic_store_n(&r->head.state, KYMO_CLOSED | reason << KYMO_STATE_BITS, __ATOMIC_SEQ_CST);
}

int kymo_may_control(struct kymo_recorder *r)
{
    if (r->pid != getpid())
        return -ECHILD;
    return kymo_writer_inside(r) ? -EDEADLK : 0;
}

/* ---- stop, pause --------------------------------------------------------------------- */

void kymo_recorder_stop_async(struct kymo_recorder *r, enum kymo_reason why)
{
    if (kymo_begin_stop(r, why))
        kymo_wake(r);
}

int kymo_recorder_stop(struct kymo_recorder *r, enum kymo_reason why)
{
    int rc = kymo_may_control(r);

    if (rc != 0)
        return rc;
    kymo_recorder_stop_async(r, why);
    pthread_mutex_lock(&r->join_lock);
    if (r->joined) {
        rc = -EALREADY;
    } else {
        pthread_join(r->worker, NULL);
        r->joined = true;
    }
    pthread_mutex_unlock(&r->join_lock);
    return rc;
}

int kymo_recorder_let_go(struct kymo_recorder *r)
{
    int rc = kymo_may_control(r);

    if (rc != 0)
        return rc;
    pthread_mutex_lock(&r->join_lock);
    pthread_mutex_lock(&r->ctl);
    if (!r->joined)
        rc = -EBUSY;
    if (rc == 0)
        rc = kymo_mapping_let_go(&r->ring_map, false);
    if (rc == 0)
        rc = kymo_mapping_let_go(&r->dict_map, false);
    if (rc == 0)
        rc = kymo_mapping_let_go(&r->meta_map, true);
    if (rc == 0 && r->dirfd >= 0) {
        close(r->dirfd);
        r->dirfd = -1;
    }
    pthread_mutex_unlock(&r->ctl);
    pthread_mutex_unlock(&r->join_lock);
    return rc;
}

/* Writes a note of the state into the open segment of each thread. */
static void note_state(struct kymo_recorder *r, enum kymo_state state)
{
    uint64_t now = kymo_clock_now(r);

    for (uint32_t i = 0; i < r->opt.n_slots; i++) {
        kymo_write_state(&r->writers[i], state, now);
        kymo_lease_return(&r->writers[i]);
    }
}

int kymo_recorder_pause(struct kymo_recorder *r)
{
    int rc = kymo_may_control(r);

    if (rc != 0)
        return rc;
    pthread_mutex_lock(&r->ctl);
    if (change_state(r, KYMO_ACTIVE, KYMO_PAUSED)) {
        kymo_publish_state(r);
        kymo_quiesce(r);
        note_state(r, KYMO_PAUSED);
    } else {
        rc = kymo_state_of(r) == KYMO_PAUSED ? -EALREADY : -ESHUTDOWN;
    }
    pthread_mutex_unlock(&r->ctl);
    return rc;
}

int kymo_recorder_resume(struct kymo_recorder *r)
{
    int rc = kymo_may_control(r);

    if (rc != 0)
        return rc;
    pthread_mutex_lock(&r->ctl);
    switch (kymo_state_of(r)) {
    case KYMO_ACTIVE: rc = -EALREADY; break;
    case KYMO_PAUSED:
        /* The open segments belong to the calling thread until the state changes. */
        note_state(r, KYMO_ACTIVE);
        rc = change_state(r, KYMO_PAUSED, KYMO_ACTIVE) ? 0 : -ESHUTDOWN;
        kymo_publish_state(r);
        break;
    default: rc = -ESHUTDOWN;
    }
    pthread_mutex_unlock(&r->ctl);
    return rc;
}
