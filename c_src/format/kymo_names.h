/* SPDX-License-Identifier: Apache-2.0
 *
 * Names for the numbers of kymo_format.h. Pure functions, any thread.
 */
#ifndef KYMO_NAMES_H
#define KYMO_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "kymo_format.h"

extern const char *const kymo_event_fields_table[KYMO_E_COUNT];

/* NULL if there is no such event. */
const char *kymo_event_name(unsigned id);
/* Its field letters (kymo_format.h), NULL if there is no such event. */
static inline const char *kymo_event_fields(unsigned id)
{
    return id < KYMO_E_COUNT ? kymo_event_fields_table[id] : NULL;
}

/* "wordsize", ...: enum kymo_gc; NULL for other values. */
const char *kymo_gc_name(unsigned size);
/* "unknown" for other values. */
const char *kymo_loss_name(unsigned cause);
/* "call", "reply", ...; NULL for KYMO_MSG_PLAIN and other values. */
const char *kymo_message_name(unsigned kind);
/* "messages", ...: a kind of events, enum kymo_kind; NULL for other values. */
const char *kymo_kind_name(unsigned kind);
/* "run_queue", ...: enum kymo_counter; NULL for other values. */
const char *kymo_counter_name(unsigned counter);
/* True if this counter only increases, from the start of the node. */
bool kymo_counter_is_sum(unsigned counter);
enum kymo_unit kymo_counter_unit(unsigned counter);
/* "count", "bytes", "ns", "millionths". */
const char *kymo_unit_name(enum kymo_unit unit);
/* "long_gc", ...: enum kymo_monitor; NULL for other values. */
const char *kymo_monitor_name(unsigned kind);
/* "waits", ...: enum kymo_observed; NULL for other values. */
const char *kymo_observed_name(unsigned kind);
/* enum kymo_runnable and enum kymo_out_reason; "unknown" for other values. */
const char *kymo_runnable_name(unsigned by);
const char *kymo_out_name(unsigned reason);
const char *kymo_state_name(unsigned state);
const char *kymo_reason_name(unsigned reason);

#endif
