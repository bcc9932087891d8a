/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Reading the counters of call_time and call_memory while they count.
 *
 * Each normal scheduler adds to its own hash table, without synchronization; the
 * dirty schedulers share one, under a mutex. So only its scheduler can read a
 * table: an item may be half written, and the table may be moved as it grows.
 * Here each scheduler copies its own table, in small steps between the processes
 * that it runs. Then the calling process adds up the copies and builds the terms,
 * also in small steps.
 *
 * The result: The tables, and the parts of a large table, are copied at different
 * times. But each item, that is, count and time (or words) of one process on one
 * scheduler, is copied as a whole. A sum is never below what it was when the read
 * began, and its count never above what it was when the read ended. In particular,
 * it includes everything that happened before, and counts each call at most once.
 *
 * A table can be copied in parts, because items are only added and changed, never
 * removed, and are moved only when the table grows. In that case the copy of the
 * table starts again. As a table doubles when it grows, this cannot happen often.
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
