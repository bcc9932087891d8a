/* SPDX-License-Identifier: Apache-2.0
 *
 * Matches receives with sends. Some runtimes number messages (kymo_event.number): then the
 * match is exact, also after losses. Other events do not identify messages, but signals
 * between a pair of processes are delivered in order. So a receive belongs to the oldest
 * pending send of that pair with the same size (and contents, if recorded). If this is not
 * certain, there is no match; see doc/exports.md for the remaining cases. A message with a
 * number and one without are never the same.
 *
 * A pending send takes 80 bytes, and some 40 more if it has a number. Beyond KYMO_FLOWS_OPEN
 * the oldest are dropped and counted.
 */
#ifndef KYMO_FLOWS_H
#define KYMO_FLOWS_H

#include "kymo_early.h"
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
    uint64_t number;       /* 0 = not known */
    uint32_t size;         /* words, KYMO_SIZE_UNKNOWN = not known */
    uint32_t next, prev;   /* index + 1 in the same queue, next also of the free ones; 0 = none */
    uint32_t older, newer; /* index + 1 among all pending sends; 0 = none */
    uint8_t kind;          /* enum kymo_message_kind */
    uint8_t node;          /* in the timeline */
    bool digest;           /* hash is that of a cast between nodes */
    bool lone;             /* in no queue, since events were lost: only its number identifies it */
};

struct kymo_flows {
    struct kymo_flow_entry *entries;
    uint32_t room, used;     /* entries [used, room) have never been used */
    uint32_t free;           /* index + 1 of the first free one of the others, 0 = none */
    uint32_t oldest, newest; /* index + 1 among the pending sends, 0 = none */
    uint32_t most;           /* KYMO_FLOWS_OPEN */
    uint64_t sent;           /* ids given so far: 1 .. sent */
    uint64_t evicted;        /* sends that were dropped to bound memory */
    bool nodes;              /* several nodes: the sender of a message from another node is not recorded,
                                so replies to aliases are found by their reference */
    struct kymo_early early; /* used with several nodes */
    struct kymo_map queues;  /* receiver -> first and last index + 1 */
    struct kymo_map numbers; /* number and node, mixed -> index + 1 */
    /* The send whose id kymo_flows_receive returned last. */
    struct kymo_flow_entry found;
    /* Called for each send that can no longer be matched; may be NULL. */
    void (*gone)(void *arg, const struct kymo_flow_entry *e);
    void *gone_arg;
};

/* A message as one event describes it. */
struct kymo_message {
    uint64_t from; /* KYMO_IDENT_NONE if the event does not contain it */
    uint64_t to;   /* send: as addressed; receive: the pid */
    uint64_t name; /* receive: registered name of the receiver as an ident, or KYMO_IDENT_NONE */
    uint64_t hash;
    uint64_t ref;
    uint64_t number; /* 0 = not known */
    int64_t ns;
    uint32_t size;
    uint32_t slot; /* the thread */
    uint8_t kind;
    uint8_t node; /* in a timeline of several: set by the caller */
    bool digest;  /* a cast between nodes: hash is that of its contents, as the recorder made it */
};

/* Fills in all but from, to, name and node from a send or receive event. */
void kymo_message_look(struct kymo_message *m, const struct kymo_event *ev);
/* Whether two events may describe the same message. */
bool kymo_message_alike(uint32_t size_a, uint64_t hash_a, uint32_t size_b, uint64_t hash_b);

/* A key for maps: numbers are unique on their node only, which is one of at most 256. */
static inline uint64_t kymo_message_key(uint64_t number, uint8_t node)
{
    return number + node * 0x9e3779b97f4a7c15ull;
}

/* 0 or -ENOMEM. */
int kymo_flows_init(struct kymo_flows *f);
/* Must be called before the first event is read; does nothing for a recording of one node. Returns
 * 0, -ENOMEM, or the error of reading. */
int kymo_flows_timeline(struct kymo_flows *f, struct kymo_reader *r);
void kymo_flows_free(struct kymo_flows *f);
/* A new id, never 0. */
uint64_t kymo_flows_id(struct kymo_flows *f);
/* Must be called after each event. */
static inline void kymo_flows_event(struct kymo_flows *f, const struct kymo_event *ev)
{
    if (f->nodes)
        kymo_early_event(&f->early, ev->slot, ev->ns);
}
/* Remembers a send; returns its id. */
uint64_t kymo_flows_send(struct kymo_flows *f, const struct kymo_message *m);
/* To be called for a send that the caller has matched with its receive. */
void kymo_flows_found(struct kymo_flows *f, const struct kymo_message *m);
/* The number of pending sends to this process, without those from before a loss. Stores the time
 * of the oldest in *oldest. */
uint32_t kymo_flows_waiting(const struct kymo_flows *f, uint64_t to, int64_t *oldest);
/* Takes the oldest pending send to this receiver, without reporting it; false: there is none. */
bool kymo_flows_take_first(struct kymo_flows *f, uint64_t to, struct kymo_flow_entry *out);
/* Returns the id of the matching send, 0 if no match is certain. */
uint64_t kymo_flows_receive(struct kymo_flows *f, const struct kymo_message *m);
/* Drops the pending sends to this process, which has exited. */
void kymo_flows_exit(struct kymo_flows *f, uint64_t ident);
/* Events were lost: drops the pending sends without a number, since their order is no longer
 * reliable. */
void kymo_flows_lost(struct kymo_flows *f);
/* No event follows: drops all. */
void kymo_flows_end(struct kymo_flows *f);

#endif
