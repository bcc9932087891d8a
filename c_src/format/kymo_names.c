/* SPDX-License-Identifier: Apache-2.0 */
#include "kymo_names.h"

#include <stddef.h>

#include "kymo_format.h"

const char *const kymo_event_fields_table[KYMO_E_COUNT] = {
#define KYMO_X(id, sym, text, letters) [id] = (letters),
    KYMO_EVENTS(KYMO_X)
#undef KYMO_X
};

static const char *const names_of_events[KYMO_E_COUNT] = {
#define KYMO_X(id, sym, text, letters) [id] = (text),
    KYMO_EVENTS(KYMO_X)
#undef KYMO_X
};

const char *kymo_event_name(unsigned id)
{
    return id < KYMO_E_COUNT ? names_of_events[id] : NULL;
}

const char *kymo_loss_name(unsigned cause)
{
    static const char *const names[KYMO_LOSS_CAUSES] = {"ring_full", "io",      "no_slot", "too_big",
                                                        "bad_term",  "reentry", "unknown", "unknown"};
    return cause < KYMO_LOSS_CAUSES ? names[cause] : "unknown";
}

const char *kymo_message_name(unsigned kind)
{
    static const char *const names[KYMO_MSG_KINDS] = {NULL, "call",     "cast",        "reply",  "down",
                                                      "io", "io_reply", "spawn_reply", "timeout"};
    return kind < KYMO_MSG_KINDS ? names[kind] : NULL;
}

const char *kymo_state_name(unsigned state)
{
    static const char *const names[] = {"idle", "active", "paused", "stopping", "closed"};
    return state < sizeof names / sizeof *names ? names[state] : "unknown";
}

const char *kymo_reason_name(unsigned reason)
{
    static const char *const names[] = {"none",   "stop",     "owner",  "bytes",
                                        "events", "duration", "unload", "collected"};
    return reason < sizeof names / sizeof *names ? names[reason] : "unknown";
}

const char *kymo_kind_name(unsigned kind)
{
    static const char *const names[KYMO_KINDS] = {
#define KYMO_X(sym, text) (text),
        KYMO_KINDS_OF_EVENTS(KYMO_X)
#undef KYMO_X
    };
    return kind < KYMO_KINDS ? names[kind] : NULL;
}
