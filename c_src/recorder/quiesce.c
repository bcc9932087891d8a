/* SPDX-License-Identifier: Apache-2.0
 *
 * Waiting for producers. A producer stores `busy`, then loads the state; whoever
 * changes the state stores it, then loads `busy`. Between these two steps each side
 * needs a full barrier. Producers have none: membarrier(2) makes all of them pass
 * one (or, when head.fenced, they pay for it themselves).
 */
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kymo_internal.h"

static int membarrier(int cmd)
{
    if (kymo_test_membarrier != NULL)
        return kymo_test_membarrier(cmd);
    return (int)syscall(SYS_membarrier, cmd, 0, 0);
}

bool kymo_membarrier_works(void)
{
    return !KYMO_TSAN && membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0 &&
           membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0;
}

static void nap(void)
{
    const struct timespec ts = {0, 50000};

    (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL);
}

/* It has worked when the recorder was opened. What may be missing later is memory
 * for a moment; the slow command needs none. */
static void barrier_in_all_threads(void)
{
    while (membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0 && membarrier(MEMBARRIER_CMD_GLOBAL) != 0)
        nap();
}

/* Producers are a few hundred nanoseconds inside, unless the system takes their
 * CPU away. They make no system call, so nobody can wake this thread: it looks. */
void kymo_quiesce(struct kymo_recorder *r)
{
    unsigned looks = 0;

    KYMO_POINT(KYMO_AT_QUIESCE);
    if (!r->head.fenced)
        barrier_in_all_threads();
    for (uint32_t i = 0; i < r->opt.n_slots; i++) {
        while (__atomic_load_n(&r->writers[i].busy, __ATOMIC_SEQ_CST) != 0) {
            if (looks++ < 100)
                sched_yield();
            else
                nap();
        }
    }
}
