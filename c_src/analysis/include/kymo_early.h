/* SPDX-License-Identifier: Apache-2.0
 *
 * Casts between the nodes of a timeline. A receive event does not name the sender of a cast from
 * another node. So its send is found by the hash of the contents; if several casts share a hash,
 * they are matched in the order in which they were sent. Two cases would break that order:
 *
 * - The runtime records a send after the message has left, so the receive event may come first.
 *   The send then belongs to this receive and must not wait for another. The message was sent
 *   after the previous event of its thread, so a send whose thread had an event after the receive
 *   is a different one.
 * - A message that was sent before the receiver's recording began may have been received before
 *   it, too.
 *
 * Memory: KYMO_EARLY_MAX receipts (receives without a send yet), 40 bytes each. When this is
 * exceeded, receipts older than KYMO_EARLY_NS are dropped; if there are none, casts are no longer
 * matched.
 */
#ifndef KYMO_EARLY_H
#define KYMO_EARLY_H

#include "kymo_map.h"
#include "kymo_timeline.h"

#define KYMO_EARLY_MAX 65536u
#define KYMO_EARLY_NS INT64_C(10000000000)

struct kymo_early {
    struct kymo_map receipts; /* receiver and hash -> struct kymo_receipt */
    int64_t *newest;          /* by slot: the time of its newest event */
    uint32_t n_slots;
    int64_t begins[KYMO_TIMELINE_MAX]; /* when each recording began */
    const struct kymo_reader *r;
    bool too_many;
};

/* The receipts with the same receiver and hash. */
struct kymo_receipt {
    int64_t ns; /* time of the newest */
    uint64_t n; /* their number */
};

/* r must be a timeline of which no event has been read. Returns 0, -ENOMEM, or the error of
 * reading. */
int kymo_early_init(struct kymo_early *e, struct kymo_reader *r);
void kymo_early_free(struct kymo_early *e);
/* Must be called after each event. */
void kymo_early_event(struct kymo_early *e, uint32_t slot, int64_t ns);
/* Adds a receive for which no send is pending. */
void kymo_early_received(struct kymo_early *e, uint64_t to, uint64_t hash, int64_t ns);
/* Whether a send may wait for its receive. False if the receive has been recorded already, may
 * have happened before the recording, or can no longer be known. */
bool kymo_early_waits(struct kymo_early *e, uint64_t to, uint64_t hash, uint32_t slot, int64_t ns);
/* Events were lost: drops all receipts. */
void kymo_early_lost(struct kymo_early *e);

#endif
