/* SPDX-License-Identifier: Apache-2.0
 *
 * What the numbers of kymo_format.h are called. Pure functions, any thread.
 */
#ifndef KYMO_NAMES_H
#define KYMO_NAMES_H

#include <stddef.h>

#include "kymo_format.h"

extern const char *const kymo_event_fields_table[KYMO_E_COUNT];

/* NULL when there is no such event. */
const char *kymo_event_name(unsigned id);
/* Its field letters (kymo_format.h), NULL when there is no such event. */
static inline const char *kymo_event_fields(unsigned id)
{
    return id < KYMO_E_COUNT ? kymo_event_fields_table[id] : NULL;
}

/* "unknown" for other values. */
const char *kymo_loss_name(unsigned cause);
/* "call", "reply", ...; NULL for KYMO_MSG_PLAIN and other values. */
const char *kymo_message_name(unsigned kind);
/* "messages", ...: a kind of events, enum kymo_kind; NULL for other values. */
const char *kymo_kind_name(unsigned kind);
const char *kymo_state_name(unsigned state);
const char *kymo_reason_name(unsigned reason);

#endif
