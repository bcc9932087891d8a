/* SPDX-License-Identifier: Apache-2.0
 *
 * Waiting for producers. A producer stores `busy`, then loads the state. The thread that
 * changes the state stores it, then loads `busy`. Each side needs a full barrier between its
 * two steps. Producers execute none: membarrier(2) makes all of them pass one. If it cannot
 * be used (head.fenced), they execute the barrier.
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

/* membarrier(2) worked when the recorder was opened. Later the expedited command may fail
 * for lack of memory; the global one is slow but allocates nothing. */
static void barrier_in_all_threads(void)
{
    while (membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0 && membarrier(MEMBARRIER_CMD_GLOBAL) != 0)
        nap();
}

/* A producer stays inside for a few hundred nanoseconds, unless it is preempted. It makes no
 * system call, so it cannot wake this thread, which polls. */
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
