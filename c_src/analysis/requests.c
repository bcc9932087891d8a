/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests. A request and its reply have the same reference, so both ends are certain if the
 * recording has references. If the callbacks of the server are traced, they show when it began to
 * handle the request (turns.c). Without callbacks, if a server replies in the order in which it has
 * fetched the requests, it is assumed to have begun when it had fetched the request and had sent the
 * previous reply; such a time is marked as inferred. If the recording has `taken` events, they show
 * with which request the server has begun.
 *
 * A server may pass a request on to another process, which replies to the client. Such a request has
 * the same reference and ends with the one that was passed on. by_ref has the newest.
 */
#include "kymo_timeline.h"
#include "requests_int.h"

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
    struct kymo_an_request *a = refers ? kymo_an_request_find(x, &x->by_ref, ev->ref) : NULL;
    bool passes =
        a != NULL && !a->early && a->q.kind == kind && kymo_an_request_outermost(x, a)->q.client != p->ident;
    return passes ? a : NULL;
}

/* outer: the place of the request that is passed on, or 0. */
static void sent_request(struct kymo_an *x, struct kymo_an_process *p, const struct kymo_event *ev,
                         uint64_t mail, uint8_t kind, uint32_t outer)
{
    bool cast = kind == KYMO_REQ_CAST;
    if ((!cast && ev->ref == 0) || (cast && mail == 0))
        return;
    struct kymo_an_request *known = cast ? NULL : kymo_an_request_find(x, &x->by_ref, ev->ref);
    if (known != NULL && known->early && kymo_timeline_apart(x->r, p->ident, known->q.server)) {
        sent_at_last(p, known);
        return;
    }
    struct kymo_an_request *a = cast ? kymo_an_request_open(x, &x->by_mail, mail, 0)
                                     : kymo_an_request_open(x, &x->by_ref, ev->ref, outer);
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
        p->newest_call = kymo_an_request_place(x, a);
    struct kymo_an_process *server = kymo_an_known(x, a->q.server);
    if (server == NULL)
        return;
    a->q.ahead = server->pending;
    a->turns = kymo_an_turns_ended(server);
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
    while (server->queue.first != 0 && server->queue.first != kymo_an_request_place(x, a)) {
        struct kymo_an_request *first = kymo_an_request_at(x, server->queue.first);
        if (first->q.kind != KYMO_REQ_CAST)
            return;
        kymo_an_request_unqueue(x, first);
        kymo_an_request_close(x, first, KYMO_REQ_NO_REPLY);
    }
    a->q.handled = reply_before != KYMO_NO_TIME && reply_before > a->q.fetched ? reply_before : a->q.fetched;
    a->q.inferred = true;
}

/* The same, when the server sends a reply or passes the request on. reply_before: when it did so before. */
static void begun(struct kymo_an *x, struct kymo_an_process *server, struct kymo_an_request *a,
                  int64_t reply_before)
{
    if (a->q.server != server->ident)
        return;
    if (server->handlers_seen != 0)
        kymo_an_turn_replied(x, server, a);
    else if (a->queued != NULL && a->taken == KYMO_NO_TIME)
        infer_handled(x, server, a, reply_before);
    if (a->queued != NULL)
        kymo_an_request_unqueue(x, a);
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
    struct kymo_an_request *a = kymo_an_request_open(x, &x->by_ref, ev->ref, 0);
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

/* Of a request and those that were passed on as it: the newest to p, or else a. unfetched: that p has not
 * fetched yet. */
static struct kymo_an_request *of_server(const struct kymo_an *x, const struct kymo_an_process *p,
                                         struct kymo_an_request *a, bool unfetched)
{
    for (struct kymo_an_request *each = a; each != NULL; each = kymo_an_request_at(x, each->outer)) {
        if (each->q.server == p->ident && (!unfetched || each->q.fetched == KYMO_NO_TIME))
            return each;
    }
    return a;
}

static void sent_reply(struct kymo_an *x, struct kymo_an_process *p, const struct kymo_event *ev,
                       uint64_t mail)
{
    struct kymo_an_request *a = kymo_an_request_find(x, &x->by_ref, ev->ref);
    int64_t before = p->replied;
    p->replied = p->last;
    if (a == NULL && ev->message == KYMO_MSG_REPLY)
        a = request_of_child(x, p, ev);
    if (a == NULL)
        kymo_an_turn_replied(x, p, NULL);
    if (a == NULL || a->q.replied != KYMO_NO_TIME)
        return;
    for (struct kymo_an_request *each = a; each != NULL; each = kymo_an_request_at(x, each->outer)) {
        each->q.replied = each->late && each->q.received < p->last ? each->q.received : p->last;
        each->q.reply_mail = each->late ? each->q.reply_mail : mail;
        each->q.replier = p->ident;
        if (each != a)
            kymo_an_request_uncount(kymo_an_known(x, each->q.server), each);
    }
    struct kymo_an_request *own = of_server(x, p, a, false);
    if (own->q.server == p->ident ||
        KYMO_IDENT_KIND(own->q.server) != KYMO_I_PID) { /* it was sent to a name */
        own->q.server = p->ident;
        kymo_an_request_uncount(p, own);
        begun(x, p, own, before);
    }
    if (a->late || a->timeouts > 1)
        kymo_an_request_close(x, a, KYMO_REQ_TIMEOUT);
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
        sent_request(x, p, ev, mail, kind, outer != NULL ? kymo_an_request_place(x, outer) : 0);
    else if (ev->message == KYMO_MSG_REPLY || ev->message == KYMO_MSG_IO_REPLY)
        sent_reply(x, p, ev, mail);
}

static void fetched_request(struct kymo_an *x, struct kymo_an_process *p, const struct kymo_event *ev,
                            uint64_t mail)
{
    struct kymo_an_request *a = ev->ref != 0 ? kymo_an_request_find(x, &x->by_ref, ev->ref)
                                : mail != 0  ? kymo_an_request_find(x, &x->by_mail, mail)
                                             : NULL;
    if (a == NULL && x->flows.nodes && ev->ref != 0 && ev->peer == KYMO_IDENT_NONE) {
        a = kymo_an_request_open(x, &x->by_ref, ev->ref, 0);
        if (a != NULL) {
            a->early = true;
            a->q.kind = kind_of(ev->message);
            a->q.client = KYMO_IDENT_NONE;
            a->q.server = p->ident;
            a->q.ref = ev->ref;
            a->q.mail = mail;
        }
    }
    a = of_server(x, p, a, true);
    if (a == NULL || a->q.fetched != KYMO_NO_TIME) {
        kymo_an_request_unknown(&p->unknown, kind_of(ev->message));
        return;
    }
    if (a->q.server != p->ident) {
        a->turns = kymo_an_turns_ended(p);
        struct kymo_an_process *addressed = kymo_an_known(x, a->q.server);
        bool moves = addressed != NULL && a->counted;
        kymo_an_request_uncount(addressed, a);
        a->counted = moves;
        p->pending += moves;
        a->q.server = p->ident;
    }
    a->q.fetched = p->last;
    a->awaited = ev->number != 0 && x->takes;
    kymo_an_request_queue_last(x, p, a);
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
    struct kymo_an_request *a = sure ? kymo_an_request_open(x, &x->by_ref, ev->ref, 0) : NULL;
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
    struct kymo_an_request *a = kymo_an_request_find(x, &x->by_ref, ev->ref);
    bool result = a == NULL && down && (a = request_of_far_child(x, p, ev)) != NULL;
    if (a == NULL || kymo_an_request_outermost(x, a)->q.client != p->ident)
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
    for (struct kymo_an_request *each = a; each != NULL; each = kymo_an_request_at(x, each->outer)) {
        each->q.received = p->last;
        each->late = late;
        if (late)
            each->q.reply_mail = mail;
    }
    if (!late)
        kymo_an_request_close(x, a, down ? KYMO_REQ_DOWN : KYMO_REQ_REPLIED);
}

/* gen:do_call/4 waits for the reply until a time, and then looks for it a last time, without waiting. If
 * the process was scheduled in within that function since it sent the call, it has waited there. The
 * server may still handle the request, which therefore ends with the reply. */
void kymo_an_request_timeout(struct kymo_an *x, struct kymo_an_process *p)
{
    struct kymo_an_request *a = kymo_an_request_at(x, p->newest_call);
    if (a == NULL || !a->used || a->late || a->q.client != p->ident || a->loss_epoch != x->loss_epoch)
        return;
    bool waited =
        p->running && p->run_start > a->q.sent && (kymo_an_function(x, p->in_mfa) & KYMO_AN_F_ASKS) != 0;
    if (a->timeouts == 0 && !waited)
        return;
    for (struct kymo_an_request *each = kymo_an_request_find(x, &x->by_ref, a->q.ref); each != NULL;
         each = kymo_an_request_at(x, each->outer)) {
        each->q.received = each->timeouts == 0 ? p->last : each->q.received;
        each->timeouts = each->timeouts == 0 ? 1 : 2;
    }
    if (a->timeouts > 1 && a->q.replied != KYMO_NO_TIME)
        kymo_an_request_close(x, a, KYMO_REQ_TIMEOUT);
}

void kymo_an_request_taken(struct kymo_an *x, struct kymo_an_process *p, const struct kymo_mail *mail)
{
    struct kymo_an_request *a = kind_of(mail->kind) == 0 ? NULL
                                : mail->ref != 0         ? kymo_an_request_find(x, &x->by_ref, mail->ref)
                                                         : kymo_an_request_find(x, &x->by_mail, mail->id);
    if (a == NULL || a->q.server != p->ident || a->q.fetched == KYMO_NO_TIME || a->queued == NULL)
        return;
    a->taken = p->last;
    /* The next callback is for this one. What was taken before it has been handled. */
    kymo_an_request_unqueue(x, a);
    for (struct kymo_an_request *first;
         (first = kymo_an_request_at(x, p->queue.first)) != NULL && first->taken != KYMO_NO_TIME;) {
        if (first->q.kind == KYMO_REQ_CAST)
            kymo_an_request_close(x, first, KYMO_REQ_NO_REPLY);
        else
            kymo_an_request_unqueue(x, first);
    }
    kymo_an_request_queue_first(x, p, a);
}

/* ---- ends ---- */

static void close_calls_of(struct kymo_an *x, uint64_t client)
{
    struct kymo_an_request *a = kymo_an_request_at(x, x->open.first);
    while (a != NULL) {
        struct kymo_an_request *next = kymo_an_request_at(x, a->link[KYMO_AN_OPEN].next);
        bool asks = a->used && !a->q.passed_on && a->q.kind != KYMO_REQ_CAST;
        if (asks && !a->late && a->q.client == client)
            kymo_an_request_close(x, a, KYMO_REQ_GONE);
        a = next;
    }
}

void kymo_an_request_exit(struct kymo_an *x, struct kymo_an_process *p)
{
    /* The clients of the calls in its queue will receive a 'DOWN'. */
    while (p->queue.first != 0) {
        struct kymo_an_request *a = kymo_an_request_at(x, p->queue.first);
        if (a->q.kind == KYMO_REQ_CAST)
            kymo_an_request_close(x, a, KYMO_REQ_GONE);
        else
            kymo_an_request_unqueue(x, a);
    }
    if (p->asked > 0)
        close_calls_of(x, p->ident);
    far_child_exits(x, p);
}

void kymo_an_request_forget(struct kymo_an *x, struct kymo_an_process *p)
{
    while (p->queue.first != 0)
        kymo_an_request_unqueue(x, kymo_an_request_at(x, p->queue.first));
}

void kymo_an_requests_unqueue(struct kymo_an *x)
{
    for (struct kymo_an_request *a; (a = kymo_an_request_at(x, x->queued.first)) != NULL;) {
        if (a->q.kind == KYMO_REQ_CAST)
            kymo_an_request_close(x, a, KYMO_REQ_NO_REPLY);
        else
            kymo_an_request_unqueue(x, a);
    }
}

/* A cast is open if its server's callback would have been recorded, and no reply is expected
 * otherwise. */
static void end_request(struct kymo_an *x, struct kymo_an_request *a)
{
    const struct kymo_an_process *server = kymo_an_known(x, a->q.server);
    bool cast = a->q.kind == KYMO_REQ_CAST;
    if (cast && server != NULL && a->q.handled == KYMO_NO_TIME)
        kymo_an_cast_passed(
            x, server, a, (server->handlers_seen & KYMO_AN_F_CAST) != 0 ? KYMO_REQ_OPEN : KYMO_REQ_NO_REPLY);
    else
        kymo_an_request_close(x, a, cast ? KYMO_REQ_NO_REPLY : KYMO_REQ_OPEN);
}

void kymo_an_requests_end(struct kymo_an *x)
{
    for (struct kymo_an_request *a; (a = kymo_an_request_at(x, x->open.first)) != NULL;)
        end_request(x, a);
}
