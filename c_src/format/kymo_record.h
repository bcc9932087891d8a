/* SPDX-License-Identifier: Apache-2.0
 *
 * The decoder for the records of a segment. Pure functions, any thread. Each length is
 * checked before bytes are read, so no input makes them read beyond the end.
 */
#ifndef KYMO_RECORD_H
#define KYMO_RECORD_H

#include <stdbool.h>
#include <stddef.h>

#include "kymo_bytes.h"
#include "kymo_format.h"

#define KYMO_DEPTH_UNKNOWN UINT32_MAX

/* One decoded record. Fields that its event does not have are 0 (idents: KYMO_IDENT_NONE). Pointers
 * are valid until the next call of next or close. */
struct kymo_event {
    uint64_t ticks;
    int64_t ns;    /* CLOCK_MONOTONIC of the recording machine */
    uint32_t slot; /* the thread that recorded it */
    uint8_t id;    /* enum kymo_event_id, without the variant bits; never 35 to 41, 43 to 48
                      or 50, which are other forms of an event */
    bool has_content, has_opts;
    bool incomplete;       /* before the horizon of the recording: see kymo_reader.h */
    uint8_t content_flags; /* KYMO_C_* */
    uint64_t who, peer;
    uint32_t mfa, atom, size;
    uint8_t kind;     /* of in: enum kymo_runnable, of out: enum kymo_out_reason */
    uint8_t message;  /* enum kymo_message_kind, of send and receive */
    uint32_t initial; /* mfa id, of spawned; 0 = not recorded */
    uint32_t in_mfa;  /* mfa id, of system_monitor; 0 = unknown */
    uint32_t n_counters;
    const uint8_t *counters; /* n_counters of KYMO_COUNTER_BYTES: kymo_counter_at */
    uint64_t ref;            /* hash of the reference in the message, 0 = none */
    uint64_t digest;         /* of a cast between nodes: hash of its contents, 0 = not known */
    uint64_t value;          /* of in: ns in the run queue, if kind is known; of slow: ns of the call;
                                of stopped: ns */
    uint64_t begun;          /* of stopped: how many ns before this event it began */
    uint32_t omitted;        /* of stopped: how many before it are not recorded */
    uint64_t number;         /* of the message: of send, receive and taken; 0 = unknown */
    uint32_t passed;         /* of taken: messages before it in the mailbox, KYMO_PASSED_MANY */
    uint32_t depth;          /* of calls and returns: words on the stack, KYMO_DEPTH_UNKNOWN */
    uint32_t serial_prev, serial_cur;
    uint32_t n_gc;              /* 0 or KYMO_GC_SIZES */
    uint64_t gc[KYMO_GC_SIZES]; /* the first n_gc are valid */
    const uint8_t *content;     /* external term format without 131 */
    uint32_t content_len;
    uint8_t opt_flags; /* KYMO_O_* */
    uint8_t opt_ts;    /* enum kymo_ts */
    uint16_t opt_sched;
    int64_t opt_a, opt_b;
    const uint8_t *msr; /* match spec result */
    uint32_t msr_len;
};

/* Whether an event tells how long something took, in `value`. */
static inline bool kymo_has_duration(uint8_t id)
{
    return id == KYMO_E_SLOW || id == KYMO_E_SLOW_DEPTH || id == KYMO_E_STOPPED;
}

/* One value of a `counters` record. */
struct kymo_counter_value {
    uint16_t counter; /* enum kymo_counter; other numbers come from later versions */
    uint16_t index;   /* number of the scheduler, or rank of the process, from 1; 0 = of the node */
    uint64_t value;
};
static inline struct kymo_counter_value kymo_counter_at(const struct kymo_event *ev, uint32_t i)
{
    const uint8_t *p = ev->counters + (size_t)i * KYMO_COUNTER_BYTES;
    return (struct kymo_counter_value){kymo_get16(p), kymo_get16(p + 2), kymo_get64(p + 4)};
}

/* True for counters whose index is a rank among processes. */
static inline bool kymo_counter_is_ranked(unsigned counter)
{
    return counter == KYMO_N_MAILBOX || counter == KYMO_N_HEAP;
}

/* Ident of the process that value i of a record belongs to: a BUSY_PROCESS with the same index
 * precedes it. KYMO_IDENT_NONE for all other values. */
static inline uint64_t kymo_counter_process(const struct kymo_event *ev, uint32_t i)
{
    if (i == 0 || !kymo_counter_is_ranked(kymo_counter_at(ev, i).counter))
        return KYMO_IDENT_NONE;
    struct kymo_counter_value before = kymo_counter_at(ev, i - 1);
    bool same = before.counter == KYMO_N_BUSY_PROCESS && before.index == kymo_counter_at(ev, i).index;
    return same ? before.value : KYMO_IDENT_NONE;
}

/* Position in a valid copy of a segment. */
struct kymo_scan {
    const uint8_t *base;
    uint32_t pos, end; /* pos: the next record; end: of the content */
    uint32_t body;     /* of the record at pos, after its header */
    uint32_t variant;  /* KYMO_HAS_* of the record at pos */
    uint8_t id;        /* of the record at pos, without KYMO_HAS_* */
    uint64_t ticks;    /* of the record at pos */
    uint64_t ts_max;   /* ts_end of a closed segment, else UINT64_MAX */
};

enum kymo_peek { KYMO_PEEK_END = 0, KYMO_PEEK_RECORD = 1, KYMO_PEEK_BAD = -1 };

/* Starts at the first record. base holds a checked header and `end` bytes. */
void kymo_scan_start(struct kymo_scan *s, const uint8_t *base, uint32_t end);
/* Reads the record header at pos into body, id, variant and ticks. Must be
 * called once per record. */
enum kymo_peek kymo_scan_peek(struct kymo_scan *s);
/* Decodes the peeked record into ev, except for ticks, slot, ns and incomplete, and moves
 * pos after it. Returns false, without moving pos, if its body is not valid. */
bool kymo_scan_decode(struct kymo_scan *s, struct kymo_event *ev);

#endif
