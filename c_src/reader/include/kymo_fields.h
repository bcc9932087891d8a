/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of an event, by name and type: the one answer to what an event says, for all that show
 * events. They shape a field by its type, and have a table of names only where an external format
 * has others.
 *
 * Functions without a reader are pure and belong to any thread; functions and atoms are ids of the
 * dictionary, processes idents, terms bytes. What fields point to is valid as long as the event.
 */
#ifndef KYMO_FIELDS_H
#define KYMO_FIELDS_H

#include "kymo_reader.h"

enum kymo_field_type {
    KYMO_V_IDENT,     /* n: ident of a process, port or name */
    KYMO_V_REFERENCE, /* n: ident of a reference */
    KYMO_V_FUNCTION,  /* n: dictionary id; 0 = see KYMO_F_UNDEFINED */
    KYMO_V_ATOM,      /* n: dictionary id, not 0 */
    KYMO_V_WORD,      /* text: one of a few words */
    KYMO_V_COUNT,     /* n */
    KYMO_V_NS,        /* n: a duration in nanoseconds */
    KYMO_V_NUMBER,    /* n: identifies something; all 64 bits are used */
    KYMO_V_INTEGER,   /* (int64_t)n */
    KYMO_V_PAIR,      /* n, second: two unsigned integers */
    KYMO_V_STAMP,     /* (int64_t)n: nanoseconds; with KYMO_F_STRICT also (int64_t)second */
    KYMO_V_TERM,      /* etf, len: external term format without 131 */
    KYMO_V_ARGUMENTS, /* the same: the list of arguments of function n, unless all of it was cut off */
    KYMO_V_COUNTER /* n: a value; second: ident of the process that it belongs to, KYMO_IDENT_NONE = none */
};

/* X(SYMBOL, "name", TYPE) in the order in which they are shown. Names in parentheses depend on the
 * event; fields.c has them. */
#define KYMO_FIELDS(X) \
    X(PROCESS, "process", IDENT) \
    X(PEER, "peer", IDENT) /* (to, from, by, port, waits_for) */ \
    X(FUNCTION, "function", FUNCTION) \
    X(INITIAL_CALL, "initial_call", FUNCTION) \
    X(ATOM, "op", ATOM)       /* (class, name, driver, reason, tag, cause, lock) */ \
    X(KIND, "kind", WORD)     /* of seq_trace, system_monitor and observed */ \
    X(SERIAL, "serial", PAIR) /* previous, current */ \
    X(LABEL, "label", INTEGER) \
    X(WORDS, "words", COUNT) \
    X(MESSAGE, "message", WORD) \
    X(REFERENCE, "reference", REFERENCE) \
    X(NUMBER, "number", NUMBER) \
    X(PASSED, "passed", COUNT) \
    X(STACK_WORDS, "stack_words", COUNT) \
    X(DURATION, "duration_ns", NS) \
    X(BEGAN, "began_ns_ago", NS) \
    X(OMITTED, "omitted", COUNT) \
    X(RUNNABLE_BY, "runnable_by", WORD) \
    X(WAITED, "waited_ns", NS) \
    X(OUT_REASON, "reason", WORD) \
    X(GC, "gc", COUNT)               /* one for each size, with its name and, in second, its number */ \
    X(COUNTERS, "counters", COUNTER) /* one for each, with its name, such as mailbox_length[1] */ \
    X(VALUE, "value", COUNT) /* of system_monitor (ms, words, long, left_out) and observed (mailbox) */ \
    X(IN, "in", FUNCTION)    /* (called_from) */ \
    X(OUT, "out", FUNCTION) \
    X(STATE, "state", WORD) \
    X(CAUSE, "cause", WORD) \
    X(COUNT, "count", COUNT) \
    X(CONTENT, "term", TERM) /* (args, value, msg, reason, driver) */ \
    X(EXTRA, "extra", TERM) \
    X(SCHEDULER, "scheduler", COUNT) \
    X(STAMP, "timestamp", STAMP) /* (cpu_timestamp, monotonic, strict_monotonic) */ \
    X(RESULT, "match_spec_result", TERM)

enum kymo_field_id {
#define KYMO_X(sym, name, type) KYMO_F_##sym,
    KYMO_FIELDS(KYMO_X)
#undef KYMO_X
        KYMO_FIELD_IDS
};
/* Sets of fields: of one by its id, and by its symbol. */
#define KYMO_F_BIT(id) (UINT64_C(1) << (id))
#define KYMO_FIELD(sym) KYMO_F_BIT(KYMO_F_##sym)

/* Flags. */
#define KYMO_F_MORE 1u       /* of words: a lower bound; of passed: very many, n has no meaning */
#define KYMO_F_CUT 2u        /* of terms: a part was too large and is shown as '...' */
#define KYMO_F_PAIRED 4u     /* of content: it is the pair of the content and the peer */
#define KYMO_F_SHORT 8u      /* of atoms: the same as the content that follows, or its first element */
#define KYMO_F_UNDEFINED 16u /* of functions: 0 can also mean that the runtime named none */
#define KYMO_F_STRICT 32u    /* of time stamps */

struct kymo_field {
    const char *name;
    uint8_t id;     /* enum kymo_field_id */
    uint8_t type;   /* enum kymo_field_type */
    unsigned flags; /* KYMO_F_* */
    uint32_t len;
    uint64_t n, second;
    const char *text;
    const uint8_t *etf;
};

/* The fields that events with this id can have: KYMO_F_BIT of each. 0 for other forms of an event
 * (struct kymo_event). */
uint64_t kymo_fields_of(uint8_t id);

/* The field with this id (of GC the first size, never COUNTERS). Returns false if the event does not have it: its
 * value was not recorded, or does not apply. */
bool kymo_field(const struct kymo_event *ev, unsigned id, struct kymo_field *f);

/* All fields in order:
 *     struct kymo_field f;
 *     for (struct kymo_fields all = kymo_fields(ev); kymo_fields_next(&all, &f);) */
struct kymo_fields {
    const struct kymo_event *ev;
    uint64_t left; /* KYMO_F_BIT of those that follow */
    uint32_t next; /* number of the next size or counter */
    char name[48]; /* of the counter */
};
struct kymo_fields kymo_fields(const struct kymo_event *ev);
bool kymo_fields_next(struct kymo_fields *all, struct kymo_field *f);

/* The value as text: of a process <0.1.2>, of a function lists:map/2 or ? or undefined, of words 5 or
 * 5+, of arguments (10, foo). Always NUL-terminated and cut to size; returns the full length. */
size_t kymo_format_field(const struct kymo_reader *r, const struct kymo_field *f, char *buf, size_t size);
/* The fields of the set `which` as members of a JSON object, with commas between them: what `kymo print
 * --json` shows of an event. Numbers are numbers, or text if they have more bits than a double; all else
 * is text. NUL-terminated and cut to size; returns the full length, 0 if there are none. */
size_t kymo_format_members(const struct kymo_reader *r, const struct kymo_event *ev, uint64_t which,
                           char *buf, size_t size);

#endif
