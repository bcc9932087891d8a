/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * trace/3 on all processes, all ports, or both, while everything goes on.
 *
 * The flags of a process may be changed by whoever has all its locks, those of a
 * port by whoever has its lock. So all of them are visited, in steps between
 * the processes that a scheduler runs, and a lock that can't be had at once is
 * not waited for, as it may be kept for long by a running process or port: that
 * one gets a signal, and changes its flags by itself.
 *
 * What is created meanwhile. Another process may not have been visited yet when
 * it creates a child, and the child inherits its flags (set_on_spawn), in a
 * slot that has been passed already. Therefore, while this goes on, who
 * creates a process or a port does with it what is done to all others, after
 * it has got what it inherits. This is switched on before the first slot is
 * visited, with thread progress in between: all that didn't see the switch
 * have put into the tables by then what they were creating.
 *
 * So it is as if all had been changed at one instant: that of switching it off
 * again, after the last one has been changed. What exists then has been
 * changed; what is created afterwards has not, except through what it inherits
 * or through the defaults for new ones, which are set before all this begins. Each
 * of them may have been changed a little earlier.
 *
 * The code modification permission is held all the time, so there is only one
 * such operation at a time, and its session stays alive. It does not depend on
 * the process that has called trace/3, which waits, suspended: if that exits,
 * the operation is completed all the same.
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
 * Change all that exist, and let p return from the BIF with the number of those
 * that were. Takes a reference to the session of its own, and copies the tracer.
 * Takes over the code modification permission. Always returns THE_NON_VALUE, with
 * p, of which the main lock is held, set up to trap.
 */
Eterm erts_trace_all(Process *p, const ErtsTraceAll *what);

/*
 * To be called for each process (port) that is created, with all its locks (its
 * lock) held, when it has got all flags that it inherits, and is in the table.
 */
#define ERTS_TRACE_ALL_NEW(COMMON)                                      \
    do {                                                                \
        if (erts_atomic32_read_nob(&erts_trace_all_is_on__))            \
            erts_trace_all_new__((COMMON));                             \
    } while (0)

extern erts_atomic32_t erts_trace_all_is_on__;
void erts_trace_all_new__(ErtsPTabElementCommon *common);

#endif
