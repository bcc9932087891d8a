/* SPDX-License-Identifier: Apache-2.0
 *
 * A filter of system calls (seccomp) may end the process at a call that it does not expect, and nobody
 * can ask it first. Under a filter the recorder leaves out calls that it has an equal replacement for.
 */
#include <inttypes.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kymo_internal.h"

#define FILTERED 2 /* SECCOMP_MODE_FILTER */

bool kymo_filtered(void)
{
    static int known; /* 1 no, 2 yes; atomic: two threads may both look, and find the same */
    uint64_t mode;

    if (kymo_get(&known) == 0) {
        mode = kymo_file_number("/proc/self/status", "Seccomp:", UINT64_MAX);
        if (mode == UINT64_MAX)
            return true;
        kymo_set(&known, mode == FILTERED ? 2 : 1);
    }
    return kymo_get(&known) == 2;
}

uint64_t kymo_thread_id(void)
{
    char link[64];
    uint64_t id = 0;
    ssize_t n;

    if (!kymo_filtered()) {
        long tid = syscall(SYS_gettid);

        if (tid > 0)
            return (uint64_t)tid;
    }
    n = readlink("/proc/thread-self", link, sizeof link - 1);
    link[n < 0 ? 0 : n] = '\0';
    return sscanf(link, "%*u/task/%" SCNu64, &id) == 1 ? id : 0;
}
