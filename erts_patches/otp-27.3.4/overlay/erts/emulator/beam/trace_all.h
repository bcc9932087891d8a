/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * trace/3 on all processes, all ports, or both, while they run.
 *
 * A thread that holds all locks of a process, or the lock of a port, may change
 * its trace flags. So all processes and ports are visited, in steps between the
 * processes that a scheduler runs. A running process or port can keep its lock for
 * a long time. If a lock is not available, the process or port gets a signal
 * instead, and changes its own flags.
 *
 * Processes and ports that are created during the operation: A process that has
 * not been visited yet can create a child, which inherits its flags
 * (set_on_spawn), in a slot that has been visited. Therefore, during the operation,
 * the creator of a process or port applies the operation to it, after inheritance.
 * A global flag for this is set before the first slot is visited, with thread
 * progress in between: creators that could not see the flag have inserted into the
 * tables by then what they were creating.
 *
 * The operation takes effect at one instant: when the flag is cleared, after the
 * last process or port has been changed. Everything that exists then has been
 * changed. What is created afterwards has not been changed, but inherits flags or
 * gets the defaults for new processes and ports, which are set before the operation
 * begins. Each of them may have been changed a little earlier.
 *
 * The code modification permission is held throughout, so there is only one such
 * operation at a time, and its session stays alive. The operation does not depend
 * on the process that has called trace/3, which is suspended: if that process
 * exits, the operation is still completed.
 */

#ifndef __TRACE_ALL_H__
#define __TRACE_ALL_H__

#include "sys.h"
#include "erl_process.h"
#include "erl_trace.h"

typedef struct {
    ErtsTraceSession *session;
    ErtsTracer tracer;
    int on;
    Uint mask;
    int procs;                  /* Change processes */
    int ports;                  /* Change ports */
    void (*last)(void);         /* Called at the end, unless NULL */
} ErtsTraceAll;

void erts_trace_all_init(void);

/*
 * Change all that exist, and make p return the number of those that were changed
 * from the BIF. Takes its own reference to the session, and copies the tracer.
 * Takes over the code modification permission. Always returns THE_NON_VALUE, with
 * p, whose main lock is held, set up to trap.
 */
Eterm erts_trace_all(Process *p, const ErtsTraceAll *what);

/*
 * To be called for each process (port) that is created, with all its locks (its
 * lock) held, after it has inherited its flags and is in the table.
 */
#define ERTS_TRACE_ALL_NEW(COMMON)                                      \
    do {                                                                \
        if (erts_atomic32_read_nob(&erts_trace_all_is_on__))            \
            erts_trace_all_new__((COMMON));                             \
    } while (0)

extern erts_atomic32_t erts_trace_all_is_on__;
void erts_trace_all_new__(ErtsPTabElementCommon *common);

#endif
