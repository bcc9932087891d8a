/* SPDX-License-Identifier: Apache-2.0
 *
 * Recordings of several nodes as one reader: a timeline. All functions of kymo_reader.h
 * work on it, except kymo_reader_segment, which finds none, and kymo_reader_skip, which
 * rewinds. Single-threaded, like any reader.
 *
 * Times are CLOCK_MONOTONIC of the first recording, and begin with the earliest recording.
 * Idents of processes and ports have the number of their node in bits 52 to 59. If a
 * recording has a term for a process, port or name of another recording, it gets the ident
 * that it has there. Dictionary ids of recording i follow those of recording i - 1; the same
 * atom or function has an id in each, so a registered name belongs to one node.
 *
 * Memory: a copy of the names of all recordings and, while clocks are related by messages,
 * up to KYMO_TIMELINE_MESSAGES messages of about 100 bytes each.
 */
#ifndef KYMO_TIMELINE_H
#define KYMO_TIMELINE_H

#include "kymo_reader.h"

#define KYMO_TIMELINE_MAX 64u          /* recordings */
#define KYMO_TIMELINE_MESSAGES 524288u /* beyond them a sample relates the clocks */

/* How the times of a recording are converted to those of the first one. */
enum kymo_relation_kind {
    KYMO_RELATION_SELF = 0,     /* this is the first one */
    KYMO_RELATION_COUNTER = 1,  /* the same machine: both read the same counter */
    KYMO_RELATION_CLOCK = 2,    /* the same machine: the same CLOCK_MONOTONIC */
    KYMO_RELATION_MESSAGES = 3, /* such that no message is received before it is sent */
    KYMO_RELATION_WALL = 4      /* by the wall clocks of the machines, for lack of anything else */
};

struct kymo_relation {
    enum kymo_relation_kind kind;
    /* For KYMO_RELATION_MESSAGES, and for WALL if there were any messages. */
    uint64_t sent, received; /* number of messages used: to other recordings, and from them */
    int64_t uncertainty;     /* ns: upper bound of the error of a converted time; 0 if unknown */
    bool contradicted;       /* WALL: messages contradict each other, the clock must have jumped */
};

/* Opens n recordings, 1 <= n <= KYMO_TIMELINE_MAX; one recording is opened as
 * kymo_reader_open does. Reads them twice if they are from several machines. Returns 0, or a
 * negative errno with a message in err: those of kymo_reader_open, and -EINVAL (too many, the same
 * recording twice, or two of the same node). */
int kymo_timeline_open(const char *const *dirs, uint32_t n, struct kymo_reader **out, char *err,
                       size_t err_size);

/* The number of recordings; 1 for a reader of a single recording. */
uint32_t kymo_timeline_size(const struct kymo_reader *r);
/* The header of recording i, with its own times; its relation to the first recording; and the
 * name of its node: "node@host" or, if the name is not unique, "node@host#2". */
const struct kymo_meta *kymo_timeline_meta(const struct kymo_reader *r, uint32_t i);
struct kymo_relation kymo_timeline_relation(const struct kymo_reader *r, uint32_t i);
const char *kymo_timeline_name(const struct kymo_reader *r, uint32_t i);

/* The times of the first and last event of recording i on the timeline, as kymo_reader_span. */
int kymo_timeline_member_span(struct kymo_reader *r, uint32_t i, int64_t *first_ns, int64_t *last_ns);

/* The number of the recording that an ident or a slot belongs to; 0 if unknown. */
uint32_t kymo_timeline_of(const struct kymo_reader *r, uint64_t ident);
uint32_t kymo_timeline_of_slot(const struct kymo_reader *r, uint32_t slot);
/* True if both are processes, ports or registered names, and of different recordings. */
bool kymo_timeline_apart(const struct kymo_reader *r, uint64_t a, uint64_t b);
/* Converts the ident of a process or port of node 0 to that of node i. */
uint64_t kymo_timeline_ident(const struct kymo_reader *r, uint64_t ident, uint32_t i);

#endif
