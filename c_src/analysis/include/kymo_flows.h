/* SPDX-License-Identifier: Apache-2.0
 *
 * Which receive belongs to which send. The events don't say: signals between
 * one pair of processes keep their order, so the oldest send that has not been
 * received and looks the same (size, contents where recorded) is the one.
 * Where that is not certain there is no answer rather than a wrong one; see
 * doc/exports.md for what remains.
 *
 * Memory grows with the sends that wait for their receive (72 bytes each), up to
 * KYMO_FLOWS_OPEN of them; then the oldest are forgotten first, and counted.
 */
#ifndef KYMO_FLOWS_H
#define KYMO_FLOWS_H

#include "kymo_map.h"
#include "kymo_reader.h"

#define KYMO_FLOWS_OPEN (1u << 20)

struct kymo_flow_entry {
    uint64_t id;
    uint64_t to; /* key of its queue */
    uint64_t from;
    uint64_t hash; /* of the contents or of the reference in it, 0 = not known */
    uint64_t ref;  /* hash of the reference in it, 0 = none */
    int64_t ns;
    uint32_t size;         /* words, KYMO_SIZE_UNKNOWN = not known */
    uint32_t next;         /* index + 1 in the same queue, or of the free ones; 0 = none */
    uint32_t older, newer; /* index + 1 of all that wait; 0 = none */
    uint8_t kind;          /* enum kymo_message_kind */
};

struct kymo_flows {
    struct kymo_flow_entry *entries;
    uint32_t room, used;     /* entries used so far: [used, room) have never been */
    uint32_t free;           /* index + 1 of the first free one among them, 0 = none */
    uint32_t oldest, newest; /* index + 1 of those that wait, 0 = none */
    uint32_t most;           /* KYMO_FLOWS_OPEN */
    uint64_t sent;           /* ids given so far: 1 .. sent */
    uint64_t evicted;        /* sends that were forgotten for want of room */
    bool nodes;              /* of several: the sender of a message from another node is not recorded,
                                so replies to aliases are found by their reference */
    struct kymo_map queues;  /* receiver -> first and last index + 1 */
    /* The send that kymo_flows_receive gave the id of last. */
    struct kymo_flow_entry found;
    /* Called for each send that no receive will be matched with any more; may be NULL. */
    void (*gone)(void *arg, const struct kymo_flow_entry *e);
    void *gone_arg;
};

/* A message as one event describes it. */
struct kymo_message {
    uint64_t from; /* KYMO_IDENT_NONE when the event doesn't say */
    uint64_t to;   /* send: as addressed; receive: the pid */
    uint64_t name; /* receive: registered name of the receiver as an ident, or KYMO_IDENT_NONE */
    uint64_t hash;
    uint64_t ref;
    int64_t ns;
    uint32_t size;
    uint8_t kind;
};

/* Fills in size, hash, reference and kind from a send or receive event. */
void kymo_message_look(struct kymo_message *m, const struct kymo_event *ev);
/* Whether two events may describe the same message. */
bool kymo_message_alike(uint32_t size_a, uint64_t hash_a, uint32_t size_b, uint64_t hash_b);

/* 0 or -ENOMEM. */
int kymo_flows_init(struct kymo_flows *f);
void kymo_flows_free(struct kymo_flows *f);
/* A new id, never 0. */
uint64_t kymo_flows_id(struct kymo_flows *f);
/* Remembers a send; returns its id. */
uint64_t kymo_flows_send(struct kymo_flows *f, const struct kymo_message *m);
/* Sends to this process that no receive was found for yet. *oldest: the time of the first. */
uint32_t kymo_flows_waiting(const struct kymo_flows *f, uint64_t to, int64_t *oldest);
/* The id of the send that this is the receive of, 0 when that is not certain. */
uint64_t kymo_flows_receive(struct kymo_flows *f, const struct kymo_message *m);
/* Nobody will receive what is still under way to this process. */
void kymo_flows_exit(struct kymo_flows *f, uint64_t ident);
/* Events were lost: counts can't be trusted, forget all. */
void kymo_flows_lost(struct kymo_flows *f);

#endif
