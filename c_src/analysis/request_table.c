/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of open requests. When it is full, a new request replaces the oldest.
 */
#include <stdlib.h>
#include <string.h>

#include "requests_int.h"

struct kymo_an_request *kymo_an_request_find(const struct kymo_an *x, const struct kymo_map *map,
                                             uint64_t key)
{
    const uint32_t *place = kymo_map_get(map, key);
    return place != NULL ? kymo_an_request_at(x, *place) : NULL;
}

static void append(struct kymo_an *x, struct kymo_an_list *l, enum kymo_an_among among,
                   struct kymo_an_request *a)
{
    uint32_t place = kymo_an_request_place(x, a);
    a->link[among] = (struct kymo_an_link){.prev = l->last};
    *(l->last != 0 ? &kymo_an_request_at(x, l->last)->link[among].next : &l->first) = place;
    l->last = place;
}

static void prepend(struct kymo_an *x, struct kymo_an_list *l, enum kymo_an_among among,
                    struct kymo_an_request *a)
{
    uint32_t place = kymo_an_request_place(x, a);
    a->link[among] = (struct kymo_an_link){.next = l->first};
    *(l->first != 0 ? &kymo_an_request_at(x, l->first)->link[among].prev : &l->last) = place;
    l->first = place;
}

static void drop(struct kymo_an *x, struct kymo_an_list *l, enum kymo_an_among among,
                 const struct kymo_an_request *a)
{
    struct kymo_an_link link = a->link[among];
    *(link.prev != 0 ? &kymo_an_request_at(x, link.prev)->link[among].next : &l->first) = link.next;
    *(link.next != 0 ? &kymo_an_request_at(x, link.next)->link[among].prev : &l->last) = link.prev;
}

void kymo_an_request_queue_last(struct kymo_an *x, struct kymo_an_process *p, struct kymo_an_request *a)
{
    a->queued = p;
    a->unknown = p->unknown;
    p->unknown = (struct kymo_an_unknown){0};
    append(x, &p->queue, KYMO_AN_OF_SERVER, a);
    append(x, &x->queued, KYMO_AN_QUEUED, a);
}

void kymo_an_request_queue_first(struct kymo_an *x, struct kymo_an_process *p, struct kymo_an_request *a)
{
    a->queued = p;
    prepend(x, &p->queue, KYMO_AN_OF_SERVER, a);
    append(x, &x->queued, KYMO_AN_QUEUED, a);
}

void kymo_an_request_unknown(struct kymo_an_unknown *u, uint8_t kind)
{
    *(kind == KYMO_REQ_CAST ? &u->casts : &u->calls) += 1;
}

void kymo_an_request_unqueue(struct kymo_an *x, struct kymo_an_request *a)
{
    struct kymo_an_request *next = kymo_an_request_at(x, a->link[KYMO_AN_OF_SERVER].next);
    struct kymo_an_unknown *to = next != NULL ? &next->unknown : &a->queued->unknown;
    to->calls += a->unknown.calls;
    to->casts += a->unknown.casts;
    drop(x, &a->queued->queue, KYMO_AN_OF_SERVER, a);
    drop(x, &x->queued, KYMO_AN_QUEUED, a);
    a->queued = NULL;
}

/* A server that was forgotten and heard of again
 * has not counted those of before. */
void kymo_an_request_uncount(struct kymo_an_process *server, struct kymo_an_request *a)
{
    if (a->counted && server != NULL && server->pending > 0)
        server->pending--;
    a->counted = false;
}

struct kymo_an_request *kymo_an_request_outermost(const struct kymo_an *x, struct kymo_an_request *a)
{
    while (a->outer != 0)
        a = kymo_an_request_at(x, a->outer);
    return a;
}

static void close_one(struct kymo_an *x, struct kymo_an_request *a, uint8_t ended)
{
    struct kymo_an_process *server = kymo_an_known(x, a->q.server);
    if (a->q.handled == KYMO_NO_TIME)
        a->q.handled = a->taken;
    if (a->late)
        ended = KYMO_REQ_REPLIED;
    else if (a->timeouts > 0 && ended != KYMO_REQ_REPLIED)
        ended = KYMO_REQ_TIMEOUT;
    a->q.ended = ended;
    if (a->queued != NULL) { /* the message is still in the mailbox */
        kymo_an_request_unknown(&a->unknown, a->q.kind);
        kymo_an_request_unqueue(x, a);
    }
    kymo_an_request_uncount(server, a);
    if (server != NULL && server->turn.request == kymo_an_request_place(x, a)) {
        server->turn.request = 0;
        server->turn.confirmed = true;
    }
    bool asks = a->q.kind != KYMO_REQ_CAST && !a->q.passed_on;
    struct kymo_an_process *client = asks ? kymo_an_known(x, a->q.client) : NULL;
    if (client != NULL && client->asked > 0)
        client->asked--;
    if (!a->early)
        kymo_an_report_request(x, &a->q);
    if (a->q.ref != 0)
        kymo_map_remove(&x->by_ref, a->q.ref);
    else
        kymo_map_remove(&x->by_mail, a->q.mail);
    drop(x, &x->open, KYMO_AN_OPEN, a);
    a->used = false;
}

void kymo_an_request_close(struct kymo_an *x, struct kymo_an_request *a, uint8_t ended)
{
    struct kymo_an_request *newest = a->q.ref != 0 ? kymo_an_request_find(x, &x->by_ref, a->q.ref) : NULL;
    for (a = newest != NULL ? newest : a; a != NULL;) {
        struct kymo_an_request *outer = kymo_an_request_at(x, a->outer);
        close_one(x, a, ended);
        a = outer;
    }
}

/* Returns a place for the next request: a free one, or that of the oldest. */
static struct kymo_an_request *free_place(struct kymo_an *x)
{
    uint32_t i = (uint32_t)(x->requests_made % KYMO_REQUESTS_OPEN);
    if (i >= x->requests_room) {
        uint32_t room = x->requests_room == 0 ? 64 : x->requests_room * 2;
        struct kymo_an_request *more = realloc(x->requests, room * sizeof *more);
        if (more == NULL) {
            x->failed = true;
            return NULL;
        }
        memset(more + x->requests_room, 0, (room - x->requests_room) * sizeof *more);
        x->requests = more;
        x->requests_room = room;
    }
    return &x->requests[i];
}

static const struct kymo_request new_request = {.replier = KYMO_IDENT_NONE,
                                                .sent = KYMO_NO_TIME,
                                                .fetched = KYMO_NO_TIME,
                                                .handled = KYMO_NO_TIME,
                                                .handled_end = KYMO_NO_TIME,
                                                .replied = KYMO_NO_TIME,
                                                .received = KYMO_NO_TIME,
                                                .ended = KYMO_REQ_OPEN};

/* Makes a request that cannot be passed on again into the one that it is passed on as. */
static struct kymo_an_request *reopen(struct kymo_an *x, struct kymo_an_request *a)
{
    uint64_t id = a->q.id;
    int64_t received = a->q.received;
    if (a->queued != NULL)
        kymo_an_request_unqueue(x, a);
    kymo_an_request_uncount(kymo_an_known(x, a->q.server), a);
    a->q = new_request;
    a->q.id = id;
    a->q.received = received;
    a->taken = KYMO_NO_TIME;
    a->awaited = false;
    return a;
}

struct kymo_an_request *kymo_an_request_open(struct kymo_an *x, struct kymo_map *map, uint64_t key,
                                             uint32_t outer)
{
    struct kymo_an_request *before = kymo_an_request_at(x, outer);
    if (before != NULL && before->hops >= KYMO_AN_HOPS_MAX)
        return reopen(x, before);
    struct kymo_an_request *a = kymo_an_request_find(x, map, key);
    if (a != NULL && outer == 0) /* the same reference is used again */
        kymo_an_request_close(x, a, KYMO_REQ_OPEN);
    a = free_place(x);
    if (a == NULL)
        return NULL;
    if (a->used) {
        x->res->evicted += !a->early;
        kymo_an_request_close(x, a, KYMO_REQ_OPEN);
    }
    uint32_t *place = kymo_map_put(map, key, NULL);
    if (place == NULL) {
        x->failed = true;
        return NULL;
    }
    memset(a, 0, sizeof *a);
    *place = kymo_an_request_place(x, a);
    a->used = true;
    append(x, &x->open, KYMO_AN_OPEN, a);
    a->taken = KYMO_NO_TIME;
    a->q = new_request;
    a->q.id = ++x->requests_made;
    before = kymo_an_request_at(x, outer); /* the table may have been moved */
    if (before != NULL && before->used && before != a) {
        a->outer = outer;
        a->hops = before->hops + 1;
        a->timeouts = before->timeouts;
        a->q.received = before->q.received;
    }
    return a;
}
