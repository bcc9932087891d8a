/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of open requests (request_table.c), for the files that match requests. A request is in
 * the list of all that are open and, from when its server has fetched it until the server begins to
 * handle it, in the queue of the server. Single-threaded.
 */
#ifndef KYMO_REQUESTS_INT_H
#define KYMO_REQUESTS_INT_H

#include "analysis_int.h"

/* The request at a place (index + 1), NULL for 0. */
static inline struct kymo_an_request *kymo_an_request_at(const struct kymo_an *x, uint32_t place)
{
    return place != 0 ? &x->requests[place - 1] : NULL;
}

static inline uint32_t kymo_an_request_place(const struct kymo_an *x, const struct kymo_an_request *a)
{
    return (uint32_t)(a - x->requests) + 1;
}

/* The request with this key in x->by_ref or x->by_mail, or NULL. */
struct kymo_an_request *kymo_an_request_find(const struct kymo_an *x, const struct kymo_map *map,
                                             uint64_t key);
/* The request of the process that waits for the reply: a, or the one that was passed on as a. */
struct kymo_an_request *kymo_an_request_outermost(const struct kymo_an *x, struct kymo_an_request *a);
/* Adds a request under this key. outer: the place of the request that is passed on, which has the same
 * key; 0 = none. Closes one that has the key already, unless it is passed on, and, if there are too
 * many, the oldest. Returns NULL if there is no memory. */
struct kymo_an_request *kymo_an_request_open(struct kymo_an *x, struct kymo_map *map, uint64_t key,
                                             uint32_t outer);
/* Reports a request and removes it, and all with the same reference: those that it was passed on as, or
 * was before. ended: enum kymo_request_end. */
void kymo_an_request_close(struct kymo_an *x, struct kymo_an_request *a, uint8_t ended);
/* Adds a request at the end, or the front, of the queue of p. It must not be in a queue. */
void kymo_an_request_queue_last(struct kymo_an *x, struct kymo_an_process *p, struct kymo_an_request *a);
void kymo_an_request_queue_first(struct kymo_an *x, struct kymo_an_process *p, struct kymo_an_request *a);
/* Takes a request out of the queue that it is in. Messages without a request that are ahead of it
 * stay ahead of the next one. */
void kymo_an_request_unqueue(struct kymo_an *x, struct kymo_an_request *a);
/* Counts a message without a request. kind: enum kymo_request_kind. */
void kymo_an_request_unknown(struct kymo_an_unknown *u, uint8_t kind);
/* Ends to count a request as one without a reply. server may be NULL. */
void kymo_an_request_uncount(struct kymo_an_process *server, struct kymo_an_request *a);

/* ---- turns.c ---- */

/* p has sent a reply, to request a or, if a is NULL, to one that is not known. Its callbacks are
 * traced if a is not NULL. If it shows that the turn of p is for a, a gets its times, and what is
 * before it in the queue leaves it. */
void kymo_an_turn_replied(struct kymo_an *x, struct kymo_an_process *p, struct kymo_an_request *a);
/* Closes a cast to p without a callback. Counts it if it may have been handled. */
void kymo_an_cast_passed(struct kymo_an *x, const struct kymo_an_process *p, struct kymo_an_request *a,
                         uint8_t ended);
/* The number of turns of p that have ended, as far as is known. */
uint64_t kymo_an_turns_ended(const struct kymo_an_process *p);

#endif
