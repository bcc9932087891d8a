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

const char *kymo_gc_name(unsigned size)
{
    static const char *const names[KYMO_GC_SIZES] = {
#define KYMO_X(n) #n,
        KYMO_GC_NAMES(KYMO_X)
#undef KYMO_X
    };
    return size < KYMO_GC_SIZES ? names[size] : NULL;
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

#define KYMO_X(sym, text) (text),
const char *kymo_runnable_name(unsigned by)
{
    static const char *const names[KYMO_RUNNABLES] = {KYMO_RUNNABLE_NAMES(KYMO_X)};
    return by < KYMO_RUNNABLES ? names[by] : "unknown";
}

const char *kymo_out_name(unsigned reason)
{
    static const char *const names[KYMO_OUTS] = {KYMO_OUT_NAMES(KYMO_X)};
    return reason < KYMO_OUTS ? names[reason] : "unknown";
}
#undef KYMO_X

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

static const struct {
    const char *name;
    enum kymo_unit unit;
    bool sum;
} counters[KYMO_N_COUNT] = {
#define KYMO_X(n, sym, text, unit, sum) [n] = {(text), KYMO_UNIT_##unit, sum},
    KYMO_COUNTERS_OF_NODE(KYMO_X)
#undef KYMO_X
};

const char *kymo_counter_name(unsigned counter)
{
    return counter < KYMO_N_COUNT ? counters[counter].name : NULL;
}

bool kymo_counter_is_sum(unsigned counter)
{
    return counter < KYMO_N_COUNT && counters[counter].sum;
}

enum kymo_unit kymo_counter_unit(unsigned counter)
{
    return counter < KYMO_N_COUNT ? counters[counter].unit : KYMO_UNIT_COUNT;
}

const char *kymo_unit_name(enum kymo_unit unit)
{
    static const char *const names[] = {"count", "bytes", "ns", "millionths"};
    return names[unit];
}

const char *kymo_monitor_name(unsigned kind)
{
    static const char *const names[KYMO_M_COUNT] = {
#define KYMO_X(n, sym, text) [n] = (text),
        KYMO_MONITORED(KYMO_X)
#undef KYMO_X
    };
    return kind < KYMO_M_COUNT ? names[kind] : NULL;
}

const char *kymo_observed_name(unsigned kind)
{
    static const char *const names[KYMO_OB_COUNT] = {
#define KYMO_X(n, sym, text) [n] = (text),
        KYMO_OBSERVED(KYMO_X)
#undef KYMO_X
    };
    return kind < KYMO_OB_COUNT ? names[kind] : NULL;
}
