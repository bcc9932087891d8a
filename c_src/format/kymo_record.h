/* SPDX-License-Identifier: Apache-2.0
 *
 * Walks over the records of a segment: the one decoder of them. Pure functions,
 * any thread. Nothing is taken from a record before the bytes are known to be
 * there, so no input makes them read beyond the end.
 */
#ifndef KYMO_RECORD_H
#define KYMO_RECORD_H

#include <stdbool.h>
#include <stddef.h>

#include "kymo_bytes.h"
#include "kymo_format.h"

/* One decoded record. Fields that its event does not have are 0 (idents:
 * KYMO_IDENT_NONE). Pointers are valid until the next call of next or close. */
struct kymo_event {
    uint64_t ticks;
    int64_t ns;    /* CLOCK_MONOTONIC of the recording machine */
    uint32_t slot; /* the thread that recorded it */
    uint8_t id;    /* enum kymo_event_id, without the variant bits; never SEND_REF, RECEIVE_REF
                      or SPAWNED_PROC */
    bool has_content, has_opts;
    bool incomplete;       /* before the horizon of the recording: see kymo_reader.h */
    uint8_t content_flags; /* KYMO_C_* */
    uint64_t who, peer;
    uint32_t mfa, atom, size;
    uint8_t kind;
    uint8_t message;  /* enum kymo_message_kind, of send and receive */
    uint32_t initial; /* mfa id, of spawned; 0 = not recorded */
    uint64_t ref;     /* hash of the reference in the message, 0 = none */
    uint64_t value;
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

/* Position in a good copy of a segment. */
struct kymo_scan {
    const uint8_t *base;
    uint32_t pos, end; /* pos: the next record; end: of the content */
    uint32_t body;     /* of the record at pos, after its header */
    uint32_t variant;  /* KYMO_HAS_* of the record at pos */
    uint8_t id;        /* of the record at pos, without them */
    uint64_t ticks;    /* of the record at pos */
    uint64_t ts_max;   /* ts_end of a closed segment, else UINT64_MAX */
};

enum kymo_peek { KYMO_PEEK_END = 0, KYMO_PEEK_RECORD = 1, KYMO_PEEK_BAD = -1 };

/* Starts at the first record. base holds a checked header and `end` bytes. */
void kymo_scan_start(struct kymo_scan *s, const uint8_t *base, uint32_t end);
/* Reads the record header at pos into body, id, variant and ticks. Must be
 * called once per record. */
enum kymo_peek kymo_scan_peek(struct kymo_scan *s);
/* Decodes the peeked record into ev (ticks, slot, ns and incomplete excepted) and moves pos
 * behind it. False: its body is not valid, nothing moved. */
bool kymo_scan_decode(struct kymo_scan *s, struct kymo_event *ev);

#endif
