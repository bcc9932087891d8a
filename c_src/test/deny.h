/* SPDX-License-Identifier: Apache-2.0
 *
 * A filter of system calls (seccomp) on one of them.
 */
#ifndef DENY_H
#define DENY_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* The calls that tests have refused, or would have end the process. */
static const struct deny_call {
    const char *name;
    long nr;
    bool of_recorder; /* the recorder makes it, and does without */
    bool replaced;    /* and under a filter does not make it */
} deny_calls[] = {
    {"fallocate", SYS_fallocate, true, false},
    {"fstatfs", SYS_fstatfs, true, false},
    {"gettid", SYS_gettid, true, true},
    {"madvise", SYS_madvise, true, false},
    {"membarrier", SYS_membarrier, true, false},
    {"rt_sigpending", SYS_rt_sigpending, true, true},
    {"utimensat", SYS_utimensat, false, false},
    {"accept4", SYS_accept4, false, false},
    {"bind", SYS_bind, false, false},
    {"connect", SYS_connect, false, false},
    {"read", SYS_read, false, false},
    {"setns", SYS_setns, false, false},
    {"socket", SYS_socket, false, false},
#ifdef SYS_poll
    {"poll", SYS_poll, false, false},
#else
    {"poll", SYS_ppoll, false, false},
#endif
};
enum { DENY_CALLS = sizeof deny_calls / sizeof *deny_calls };

/* From here on, system call `nr` of this thread and its children has the result `action`, such as
 * SECCOMP_RET_ERRNO | EPERM. False if the kernel refuses that. */
static inline bool deny(long nr, uint32_t action)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)nr, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, action),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog prog = {.len = sizeof code / sizeof *code, .filter = code};

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) == 0;
}

#endif
