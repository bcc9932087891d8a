/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests. A request and its reply have the same reference, so both ends are certain if the
 * recording has references. The time at which the server began to handle a request is known if
 * its callbacks are traced: a server handles requests in the order in which it has fetched
 * them, and each of its replies confirms that. Without callbacks, if a server replies in that
 * order, it is assumed to have begun when it had fetched the request and had sent the previous
 * reply; such a time is marked as inferred. If the recording has `taken` events, they show with
 * which request the server has begun.
 *
 * A server may pass a request on to another process, which replies to the client. Such a request has
 * the same reference and ends with the one that was passed on. by_ref has the newest.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis_int.h"
#include "kymo_timeline.h"

/* ---- the table of open requests ---- */

static struct kymo_an_request *request_at(const struct kymo_an *x, uint32_t place)
{
    return place != 0 ? &x->requests[place - 1] : NULL;
}

static uint32_t place_of(const struct kymo_an *x, const struct kymo_an_request *a)
{
    return (uint32_t)(a - x->requests) + 1;
}

static struct kymo_an_request *find(const struct kymo_an *x, const struct kymo_map *map, uint64_t key)
{
    const uint32_t *place = kymo_map_get(map, key);
    return place != NULL ? request_at(x, *place) : NULL;
}

static void append(struct kymo_an *x, struct kymo_an_list *l, enum kymo_an_among among,
                   struct kymo_an_request *a)
{
    uint32_t place = place_of(x, a);
    a->link[among] = (struct kymo_an_link){.prev = l->last};
    *(l->last != 0 ? &request_at(x, l->last)->link[among].next : &l->first) = place;
    l->last = place;
}

static void prepend(struct kymo_an *x, struct kymo_an_list *l, enum kymo_an_among among,
                    struct kymo_an_request *a)
{
    uint32_t place = place_of(x, a);
    a->link[among] = (struct kymo_an_link){.next = l->first};
    *(l->first != 0 ? &request_at(x, l->first)->link[among].prev : &l->last) = place;
    l->first = place;
}

static void drop(struct kymo_an *x, struct kymo_an_list *l, enum kymo_an_among among,
                 const struct kymo_an_request *a)
{
    struct kymo_an_link link = a->link[among];
    *(link.prev != 0 ? &request_at(x, link.prev)->link[among].next : &l->first) = link.next;
    *(link.next != 0 ? &request_at(x, link.next)->link[among].prev : &l->last) = link.prev;
}

/* Takes a request out of the queue that it is in. */
static void unqueue(struct kymo_an *x, struct kymo_an_request *a)
{
    drop(x, &a->queued->queue, KYMO_AN_OF_SERVER, a);
    drop(x, &x->queued, KYMO_AN_QUEUED, a);
    a->queued = NULL;
}

/* Ends to count a request as one without a reply. A server that was forgotten and heard of again
 * has not counted those of before. */
static void uncount(struct kymo_an_process *server, struct kymo_an_request *a)
{
    if (a->counted && server != NULL && server->pending > 0)
        server->pending--;
    a->counted = false;
}

/* The request of the process that waits for the reply. */
static struct kymo_an_request *outermost(const struct kymo_an *x, struct kymo_an_request *a)
{
    while (a->outer != 0)
        a = request_at(x, a->outer);
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
    if (a->queued != NULL)
        unqueue(x, a);
    uncount(server, a);
    if (server != NULL && server->handling == place_of(x, a))
        server->handling = 0;
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

/* Ends a request, and all with the same reference: those that it was passed on as, or was before. */
static void close_request(struct kymo_an *x, struct kymo_an_request *a, uint8_t ended)
{
    struct kymo_an_request *newest = a->q.ref != 0 ? find(x, &x->by_ref, a->q.ref) : NULL;
    for (a = newest != NULL ? newest : a; a != NULL;) {
        struct kymo_an_request *outer = request_at(x, a->outer);
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

/* outer: the place of the request that is passed on, or 0. */
static struct kymo_an_request *open_request(struct kymo_an *x, struct kymo_map *map, uint64_t key,
                                            uint32_t outer)
{
    struct kymo_an_request *a = find(x, map, key);
    if (a != NULL && outer == 0) /* the same reference is used again */
        close_request(x, a, KYMO_REQ_OPEN);
    a = free_place(x);
    if (a == NULL)
        return NULL;
    if (a->used) {
        x->res->evicted += !a->early;
        close_request(x, a, KYMO_REQ_OPEN);
    }
    uint32_t *place = kymo_map_put(map, key, NULL);
    if (place == NULL) {
        x->failed = true;
        return NULL;
    }
    memset(a, 0, sizeof *a);
    if (outer != 0 && request_at(x, outer)->used)
        a->outer = outer;
    *place = place_of(x, a);
    a->used = true;
    append(x, &x->open, KYMO_AN_OPEN, a);
    a->taken = KYMO_NO_TIME;
    a->q = (struct kymo_request){.id = ++x->requests_made,
                                 .replier = KYMO_IDENT_NONE,
                                 .sent = KYMO_NO_TIME,
                                 .fetched = KYMO_NO_TIME,
                                 .handled = KYMO_NO_TIME,
                                 .handled_end = KYMO_NO_TIME,
                                 .replied = KYMO_NO_TIME,
                                 .received = KYMO_NO_TIME,
                                 .ended = KYMO_REQ_OPEN};
    return a;
}

/* ---- messages ---- */

static uint8_t kind_of(uint8_t message)
{
    switch (message) {
    case KYMO_MSG_CALL: return KYMO_REQ_CALL;
    case KYMO_MSG_CAST: return KYMO_REQ_CAST;
    case KYMO_MSG_IO: return KYMO_REQ_IO;
    default: return 0;
    }
}

/* Handles the send event of a request that has been fetched already. */
static void sent_at_last(struct kymo_an_process *p, struct kymo_an_request *a)
{
    const struct kymo_span *in = kymo_an_innermost(p);
    a->early = false;
    a->q.client = p->ident;
    a->q.sent = p->last < a->q.fetched ? p->last : a->q.fetched;
    a->q.waiter = in != NULL ? in->id : 0;
    a->q.waiter_mfa = in != NULL ? in->mfa : 0;
    p->life.requests++;
    p->asked++;
}

/* The request of another process that p passes on, or NULL. */
static struct kymo_an_request *passed_on(const struct kymo_an *x, const struct kymo_an_process *p,
                                         const struct kymo_event *ev, uint8_t kind)
{
    bool refers = kind == KYMO_REQ_CALL || kind == KYMO_REQ_IO;
    struct kymo_an_request *a = refers ? find(x, &x->by_ref, ev->ref) : NULL;
    bool passes = a != NULL && !a->early && a->q.kind == kind && outermost(x, a)->q.client != p->ident;
    return passes ? a : NULL;
}

/* outer: the place of the request that is passed on, or 0. */
static void sent_request(struct kymo_an *x, struct kymo_an_process *p, const struct kymo_event *ev,
                         uint64_t mail, uint8_t kind, uint32_t outer)
{
    bool cast = kind == KYMO_REQ_CAST;
    if ((!cast && ev->ref == 0) || (cast && mail == 0))
        return;
    struct kymo_an_request *known = cast ? NULL : find(x, &x->by_ref, ev->ref);
    if (known != NULL && known->early && kymo_timeline_apart(x->r, p->ident, known->q.server)) {
        sent_at_last(p, known);
        return;
    }
    struct kymo_an_request *a =
        cast ? open_request(x, &x->by_mail, mail, 0) : open_request(x, &x->by_ref, ev->ref, outer);
    if (a == NULL)
        return;
    a->q.passed_on = outer != 0;
    const struct kymo_span *in = kymo_an_innermost(p);
    a->q.kind = kind;
    a->q.client = p->ident;
    a->q.server = kymo_an_receiver(x, ev->peer);
    a->q.ref = cast ? 0 : ev->ref;
    a->q.mail = mail;
    a->q.sent = p->last;
    a->q.waiter = in != NULL ? in->id : 0;
    a->q.waiter_mfa = in != NULL ? in->mfa : 0;
    p->life.requests++;
    p->asked += !cast && outer == 0;
    a->loss_epoch = x->loss_epoch;
    if (kind == KYMO_REQ_CALL && outer == 0)
        p->newest_call = place_of(x, a);
    struct kymo_an_process *server = kymo_an_known(x, a->q.server);
    if (server == NULL)
        return;
    a->q.ahead = server->pending;
    if (!cast) {
        a->counted = true;
        server->pending++;
        if (server->pending > server->life.mailbox_max)
            server->life.mailbox_max = server->pending;
    }
}

/* For a server whose callbacks are not traced: infers when it began to handle the request, if its
 * replies are in the order of the requests. */
static void infer_handled(struct kymo_an *x, struct kymo_an_process *server, struct kymo_an_request *a,
                          int64_t reply_before)
{
    while (server->queue.first != 0 && server->queue.first != place_of(x, a)) {
        struct kymo_an_request *first = request_at(x, server->queue.first);
        if (first->q.kind != KYMO_REQ_CAST)
            return;
        close_request(x, first, KYMO_REQ_NO_REPLY);
    }
    a->q.handled = reply_before != KYMO_NO_TIME && reply_before > a->q.fetched ? reply_before : a->q.fetched;
    a->q.inferred = true;
}

/* The same, when the server sends a reply or passes the request on. reply_before: when it did so before. */
static void begun(struct kymo_an *x, struct kymo_an_process *server, struct kymo_an_request *a,
                  int64_t reply_before)
{
    if (a->queued == server && !server->handlers_seen && a->taken == KYMO_NO_TIME)
        infer_handled(x, server, a, reply_before);
    if (a->queued == server)
        unqueue(x, a);
}

/* For a reply without a request message: the sender is a process that the receiver of the reply
 * has started for the request. Returns NULL if it is not. */
static struct kymo_an_request *request_of_child(struct kymo_an *x, struct kymo_an_process *p,
                                                const struct kymo_event *ev)
{
    bool to_alias = KYMO_IDENT_KIND(ev->peer) == KYMO_I_REF; /* whose alias is unknown */
    if (p->life.start == KYMO_NO_TIME || ev->ref == 0 ||
        (!to_alias && kymo_an_receiver(x, ev->peer) != p->life.parent))
        return NULL;
    struct kymo_an_request *a = open_request(x, &x->by_ref, ev->ref, 0);
    if (a == NULL)
        return NULL;
    a->q.kind = KYMO_REQ_SPAWN;
    a->q.client = p->life.parent;
    a->q.server = p->ident;
    a->q.ref = ev->ref;
    a->q.sent = a->q.fetched = a->q.handled = p->life.start;
    struct kymo_an_process *parent = kymo_an_known(x, p->life.parent);
    if (parent != NULL)
        parent->asked++;
    return a;
}

static void sent_reply(struct kymo_an *x, struct kymo_an_process *p, const struct kymo_event *ev,
                       uint64_t mail)
{
    struct kymo_an_request *a = find(x, &x->by_ref, ev->ref);
    int64_t before = p->replied;
    p->replied = p->last;
    if (a == NULL && ev->message == KYMO_MSG_REPLY)
        a = request_of_child(x, p, ev);
    if (a == NULL || a->q.replied != KYMO_NO_TIME)
        return;
    for (struct kymo_an_request *each = a; each != NULL; each = request_at(x, each->outer)) {
        each->q.replied = each->late && each->q.received < p->last ? each->q.received : p->last;
        each->q.reply_mail = each->late ? each->q.reply_mail : mail;
        each->q.replier = p->ident;
        if (each != a)
            uncount(kymo_an_known(x, each->q.server), each);
    }
    if (a->q.server == p->ident || KYMO_IDENT_KIND(a->q.server) != KYMO_I_PID) { /* it was sent to a name */
        a->q.server = p->ident;
        uncount(p, a);
        begun(x, p, a, before);
    }
    if (a->late || a->timeouts > 1)
        close_request(x, a, KYMO_REQ_TIMEOUT);
}

void kymo_an_request_sent(struct kymo_an *x, struct kymo_an_process *p, const struct kymo_event *ev,
                          uint64_t mail)
{
    uint8_t kind = kind_of(ev->message);
    struct kymo_an_request *outer = passed_on(x, p, ev, kind);
    if (outer != NULL) {
        begun(x, p, outer, p->replied);
        p->replied = p->last;
    }
    if (kind != 0)
        sent_request(x, p, ev, mail, kind, outer != NULL ? place_of(x, outer) : 0);
    else if (ev->message == KYMO_MSG_REPLY || ev->message == KYMO_MSG_IO_REPLY)
        sent_reply(x, p, ev, mail);
}

static void fetched_request(struct kymo_an *x, struct kymo_an_process *p, const struct kymo_event *ev,
                            uint64_t mail)
{
    struct kymo_an_request *a = ev->ref != 0 ? find(x, &x->by_ref, ev->ref)
                                : mail != 0  ? find(x, &x->by_mail, mail)
                                             : NULL;
    if (a == NULL && x->flows.nodes && ev->ref != 0 && ev->peer == KYMO_IDENT_NONE) {
        a = open_request(x, &x->by_ref, ev->ref, 0);
        if (a != NULL) {
            a->early = true;
            a->q.kind = kind_of(ev->message);
            a->q.client = KYMO_IDENT_NONE;
            a->q.server = p->ident;
            a->q.ref = ev->ref;
            a->q.mail = mail;
        }
    }
    if (a == NULL || a->q.fetched != KYMO_NO_TIME)
        return;
    if (a->q.server != p->ident) {
        struct kymo_an_process *addressed = kymo_an_known(x, a->q.server);
        bool moves = addressed != NULL && a->counted;
        uncount(addressed, a);
        a->counted = moves;
        p->pending += moves;
        a->q.server = p->ident;
    }
    a->q.fetched = p->last;
    a->awaited = ev->number != 0 && x->takes;
    a->queued = p;
    append(x, &p->queue, KYMO_AN_OF_SERVER, a);
    append(x, &x->queued, KYMO_AN_QUEUED, a);
    p->life.requests_handled++;
}

/* For erpc and rpc: the process that the client has spawned on another node has exited with the
 * result, which arrives as a 'DOWN' message. Neither the spawn request nor the exit has the
 * reference of that message, so it is assigned only if just one such process has exited without
 * a 'DOWN' so far. */
static struct kymo_an_request *request_of_far_child(struct kymo_an *x, struct kymo_an_process *p,
                                                    const struct kymo_event *ev)
{
    if (p->far_exits == 0 || ev->peer != KYMO_IDENT_NONE || ev->ref == 0)
        return NULL;
    bool sure = !p->far_unsure;
    p->far_exits--;
    p->far_unsure = p->far_unsure && p->far_exits > 0;
    struct kymo_an_request *a = sure ? open_request(x, &x->by_ref, ev->ref, 0) : NULL;
    if (a == NULL)
        return NULL;
    a->q.kind = KYMO_REQ_SPAWN;
    a->q.client = p->ident;
    a->q.server = a->q.replier = p->far_child;
    a->q.ref = ev->ref;
    a->q.sent = a->q.fetched = a->q.handled = p->far_start;
    a->q.handled_end = a->q.replied = p->far_end;
    a->q.inferred = true;
    p->asked++;
    return a;
}

static void far_child_exits(struct kymo_an *x, const struct kymo_an_process *p)
{
    struct kymo_an_process *parent = kymo_an_known(x, p->life.parent);
    if (parent == NULL || p->life.start == KYMO_NO_TIME ||
        !kymo_timeline_apart(x->r, parent->ident, p->ident))
        return;
    parent->far_unsure = parent->far_unsure || parent->far_exits > 0;
    parent->far_exits++;
    parent->far_child = p->ident;
    parent->far_start = p->life.start;
    parent->far_end = p->last;
}

void kymo_an_request_received(struct kymo_an *x, struct kymo_an_process *p, const struct kymo_event *ev,
                              uint64_t mail)
{
    if (kind_of(ev->message) != 0) {
        fetched_request(x, p, ev, mail);
        return;
    }
    bool down = ev->message == KYMO_MSG_DOWN;
    if (!down && ev->message != KYMO_MSG_REPLY && ev->message != KYMO_MSG_IO_REPLY)
        return;
    struct kymo_an_request *a = find(x, &x->by_ref, ev->ref);
    bool result = a == NULL && down && (a = request_of_far_child(x, p, ev)) != NULL;
    if (a == NULL || outermost(x, a)->q.client != p->ident)
        return;
    if (result) {
        a->q.reply_mail = mail;
        down = false;
    }
    if (a->q.kind == KYMO_REQ_SPAWN) {
        const struct kymo_span *in = kymo_an_innermost(p);
        a->q.waiter = in != NULL ? in->id : 0;
        a->q.waiter_mfa = in != NULL ? in->mfa : 0;
    }
    bool late = !down && a->q.replied == KYMO_NO_TIME && kymo_timeline_apart(x->r, p->ident, a->q.server);
    for (struct kymo_an_request *each = a; each != NULL; each = request_at(x, each->outer)) {
        each->q.received = p->last;
        each->late = late;
        if (late)
            each->q.reply_mail = mail;
    }
    if (!late)
        close_request(x, a, down ? KYMO_REQ_DOWN : KYMO_REQ_REPLIED);
}

/* gen:do_call/4 waits for the reply until a time, and then looks for it a last time, without waiting. If
 * the process was scheduled in within that function since it sent the call, it has waited there. The
 * server may still handle the request, which therefore ends with the reply. */
void kymo_an_request_timeout(struct kymo_an *x, struct kymo_an_process *p)
{
    struct kymo_an_request *a = request_at(x, p->newest_call);
    if (a == NULL || !a->used || a->late || a->q.client != p->ident || a->loss_epoch != x->loss_epoch)
        return;
    bool waited =
        p->running && p->run_start > a->q.sent && (kymo_an_function(x, p->in_mfa) & KYMO_AN_F_ASKS) != 0;
    if (a->timeouts == 0 && !waited)
        return;
    for (struct kymo_an_request *each = find(x, &x->by_ref, a->q.ref); each != NULL;
         each = request_at(x, each->outer)) {
        each->q.received = each->timeouts == 0 ? p->last : each->q.received;
        each->timeouts = each->timeouts == 0 ? 1 : 2;
    }
    if (a->timeouts > 1 && a->q.replied != KYMO_NO_TIME)
        close_request(x, a, KYMO_REQ_TIMEOUT);
}

void kymo_an_request_taken(struct kymo_an *x, struct kymo_an_process *p, const struct kymo_mail *mail)
{
    struct kymo_an_request *a = kind_of(mail->kind) == 0 ? NULL
                                : mail->ref != 0         ? find(x, &x->by_ref, mail->ref)
                                                         : find(x, &x->by_mail, mail->id);
    if (a == NULL || a->q.server != p->ident || a->q.fetched == KYMO_NO_TIME || a->queued == NULL)
        return;
    a->taken = p->last;
    /* The next callback is for this one. What was taken before it has been handled. */
    unqueue(x, a);
    for (struct kymo_an_request *first;
         (first = request_at(x, p->queue.first)) != NULL && first->taken != KYMO_NO_TIME;) {
        if (first->q.kind == KYMO_REQ_CAST)
            close_request(x, first, KYMO_REQ_NO_REPLY);
        else
            unqueue(x, first);
    }
    a->queued = p;
    prepend(x, &p->queue, KYMO_AN_OF_SERVER, a);
    append(x, &x->queued, KYMO_AN_QUEUED, a);
}

/* ---- callbacks ---- */

void kymo_an_request_call(struct kymo_an *x, struct kymo_an_process *p, const struct kymo_span *s)
{
    unsigned what = kymo_an_function(x, s->mfa) & KYMO_AN_F_HANDLES;
    if (what == 0 || p->handling != 0)
        return;
    p->handlers_seen = true;
    while (p->queue.first != 0) {
        struct kymo_an_request *a = request_at(x, p->queue.first);
        bool cast = a->q.kind == KYMO_REQ_CAST;
        if (a->awaited && a->taken == KYMO_NO_TIME)
            return; /* it is in the mailbox: the callback is for something unknown */
        bool fits = (what & (cast ? KYMO_AN_F_CAST : KYMO_AN_F_CALL)) != 0;
        unqueue(x, a);
        if (fits) {
            a->q.handled = p->last;
            a->q.handler = s->id;
            a->q.handler_mfa = s->mfa;
            if (s->ended != KYMO_SPAN_MOMENT) {
                p->handling = place_of(x, a);
                p->handler = p->handling_id = s->id;
            } else if (cast) {
                close_request(x, a, KYMO_REQ_NO_REPLY);
            }
            return;
        }
        if (cast)
            close_request(x, a, KYMO_REQ_NO_REPLY);
    }
}

static void handled(struct kymo_an *x, struct kymo_an_process *p, int64_t end)
{
    struct kymo_an_request *a = request_at(x, p->handling);
    p->handling = 0;
    if (!a->used || a->q.handler != p->handler)
        return;
    a->q.handled_end = end;
    if (a->q.kind == KYMO_REQ_CAST)
        close_request(x, a, KYMO_REQ_NO_REPLY);
}

void kymo_an_request_span_ended(struct kymo_an *x, struct kymo_an_process *p, const struct kymo_span *s,
                                bool replaced)
{
    if (p->handling == 0 || p->handling_id != s->id)
        return;
    if (replaced)
        p->handling_id = 0;
    else
        handled(x, p, s->end);
}

void kymo_an_request_span_replaced(struct kymo_an *x, struct kymo_an_process *p, const struct kymo_span *s)
{
    if (p->handling == 0 || p->handling_id != 0)
        return;
    if (s != NULL && s->ended != KYMO_SPAN_MOMENT)
        p->handling_id = s->id;
    else
        handled(x, p, p->last);
}

/* ---- ends ---- */

static void close_calls_of(struct kymo_an *x, uint64_t client)
{
    struct kymo_an_request *a = request_at(x, x->open.first);
    while (a != NULL) {
        struct kymo_an_request *next = request_at(x, a->link[KYMO_AN_OPEN].next);
        bool asks = a->used && !a->q.passed_on && a->q.kind != KYMO_REQ_CAST;
        if (asks && !a->late && a->q.client == client)
            close_request(x, a, KYMO_REQ_GONE);
        a = next;
    }
}

void kymo_an_request_exit(struct kymo_an *x, struct kymo_an_process *p)
{
    /* The clients of the calls in its queue will receive a 'DOWN'. */
    while (p->queue.first != 0) {
        struct kymo_an_request *a = request_at(x, p->queue.first);
        if (a->q.kind == KYMO_REQ_CAST)
            close_request(x, a, KYMO_REQ_GONE);
        else
            unqueue(x, a);
    }
    if (p->asked > 0)
        close_calls_of(x, p->ident);
    far_child_exits(x, p);
}

void kymo_an_request_forget(struct kymo_an *x, struct kymo_an_process *p)
{
    while (p->queue.first != 0)
        unqueue(x, request_at(x, p->queue.first));
}

void kymo_an_requests_unqueue(struct kymo_an *x)
{
    for (struct kymo_an_request *a; (a = request_at(x, x->queued.first)) != NULL;) {
        if (a->q.kind == KYMO_REQ_CAST)
            close_request(x, a, KYMO_REQ_NO_REPLY);
        else
            unqueue(x, a);
    }
}

void kymo_an_requests_end(struct kymo_an *x)
{
    for (struct kymo_an_request *a; (a = request_at(x, x->open.first)) != NULL;)
        close_request(x, a, a->q.kind == KYMO_REQ_CAST ? KYMO_REQ_NO_REPLY : KYMO_REQ_OPEN);
}
