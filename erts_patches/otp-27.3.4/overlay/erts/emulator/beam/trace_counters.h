/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Reading the counters of call_time and call_memory while they are counting.
 *
 * Each normal scheduler adds to a hash table of its own, without any
 * synchronization; the dirty schedulers share one, under a mutex. So nobody
 * but its scheduler can look at such a table: an item may be half written, and
 * the table may be moved as it grows. Here each scheduler is asked to copy
 * its own table, in small steps between the processes that it runs. Then the
 * process that wants to know adds up the copies and makes terms of them, in
 * small steps as well.
 *
 * What it gets. The tables are copied at different times, and so are parts of
 * a large one, but each item, that is count and time (or words) of one process
 * on one scheduler, is copied as a whole. A sum is never below what it was when
 * the reading began, and its count never above what it was when it ended. In
 * particular everything is in it that happened before, and each call is
 * counted at most once.
 *
 * Why it is safe to copy a table in parts. Items are only added and changed,
 * never removed, and an item is moved only when the table grows: then the
 * copy of this table begins anew. A table doubles when it grows, so that this
 * can't go on forever.
 */

#ifndef __TRACE_COUNTERS_H__
#define __TRACE_COUNTERS_H__

#include "sys.h"
#include "erl_process.h"
#include "beam_bp.h"

void erts_trace_counters_init(void);

/*
 * Answer trace_info() with counters in it: let p wait until they have been
 * read, and then go on with
 *
 *   {Key, Counters}    if 'items' is NIL, and one of 'time' and 'memory' is NULL
 *   {Key, Items}       otherwise: the proper list 'items' of {Key, Value}, with
 *                      the counters in place of the values of call_time and
 *                      call_memory
 *
 * Takes over the references to 'time' and 'memory', of which only one may be
 * NULL. Always returns THE_NON_VALUE, with p set up to trap. Needs the main lock
 * of p, no code modification permission, and a normal scheduler.
 */
Eterm erts_trace_counters(Process *p, Eterm key, Eterm items,
                          BpDataCallTrace *time, BpDataCallTrace *memory);

#endif
