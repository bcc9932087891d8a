/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns: which request a callback of a server handles. A server handles messages in the order of its
 * mailbox, so order tells it, once the place of the server in that order is known (kymo_an_process.placed):
 * its mailbox was empty, or a reply has shown which request a turn was for. Before that, only a reply
 * does: messages of before the recording may be ahead of those that were seen to arrive. If the
 * runtime reports which message is taken, that is certain without any order.
 *
 * A reply that is sent after the callback has ended is to the request that it handled. A reply within
 * it may also be to an earlier request.
 */
#include "requests_int.h"

static bool is_placed(const struct kymo_an *x, const struct kymo_an_process *p)
{
    return p->placed == x->placings;
}

/* The request of the turn of p, or NULL. */
static struct kymo_an_request *request_of(const struct kymo_an *x, const struct kymo_an_process *p)
{
    struct kymo_an_request *a = kymo_an_request_at(x, p->turn.request);
    return a != NULL && a->used && a->q.handler == p->turn.span ? a : NULL;
}

void kymo_an_cast_passed(struct kymo_an *x, const struct kymo_an_process *p, struct kymo_an_request *a,
                         uint8_t ended)
{
    bool seen = (p->handlers_seen & KYMO_AN_F_CAST) != 0;
    x->res->unplaced += seen && !is_placed(x, p) && a->q.fetched != KYMO_NO_TIME;
    kymo_an_request_close(x, a, ended);
}

/* Takes the requests in the queue of p that are before `last` (NULL: all) out of it. */
static void pass(struct kymo_an *x, struct kymo_an_process *p, const struct kymo_an_request *last)
{
    for (struct kymo_an_request *a; (a = kymo_an_request_at(x, p->queue.first)) != NULL && a != last;) {
        a->unknown = (struct kymo_an_unknown){0};
        kymo_an_request_unqueue(x, a);
        if (a->q.kind == KYMO_REQ_CAST)
            kymo_an_cast_passed(x, p, a, KYMO_REQ_NO_REPLY);
    }
}

/* ---- the place in the mailbox ---- */

void kymo_an_server_idle(struct kymo_an *x, struct kymo_an_process *p)
{
    pass(x, p, NULL);
    p->unknown = (struct kymo_an_unknown){0};
    if (!p->turn.open)
        p->turn.span = 0;
    p->placed = x->placings;
}

void kymo_an_server_out(struct kymo_an *x, struct kymo_an_process *p, const struct kymo_event *ev,
                        uint8_t function)
{
    bool loop = ev->id == KYMO_E_OUT && (function & KYMO_AN_F_LOOP) != 0;
    p->in_loop = loop && ev->kind == KYMO_OUT_UNKNOWN;
    if ((function & KYMO_AN_F_HIBERNATE) != 0 || (loop && ev->kind == KYMO_OUT_WAITING))
        kymo_an_server_idle(x, p);
}

/* ---- by order ---- */

/* Whether the next message is one of those without a request, as far as the callback tells. */
static bool is_unknown(struct kymo_an_unknown *u, unsigned what)
{
    uint32_t *n = (what & KYMO_AN_F_CALL) != 0 && u->calls > 0   ? &u->calls
                  : (what & KYMO_AN_F_CAST) != 0 && u->casts > 0 ? &u->casts
                                                                 : NULL;
    if (n != NULL)
        --*n;
    else
        *u = (struct kymo_an_unknown){0};
    return n != NULL;
}

/* Takes the request out of the queue of p for which a callback of this kind is by order, or returns
 * NULL. */
static struct kymo_an_request *next_in_order(struct kymo_an *x, struct kymo_an_process *p, unsigned what)
{
    for (struct kymo_an_request *a; (a = kymo_an_request_at(x, p->queue.first)) != NULL;) {
        bool cast = a->q.kind == KYMO_REQ_CAST;
        if (a->taken == KYMO_NO_TIME && (a->awaited || !is_placed(x, p) || is_unknown(&a->unknown, what)))
            return NULL; /* if awaited, it is in the mailbox: the callback is for something unknown */
        a->unknown = (struct kymo_an_unknown){0};
        kymo_an_request_unqueue(x, a);
        if ((what & (cast ? KYMO_AN_F_CAST : KYMO_AN_F_CALL)) != 0)
            return a;
        if (cast)
            kymo_an_request_close(x, a, KYMO_REQ_NO_REPLY);
    }
    (void)is_unknown(&p->unknown, what);
    return NULL;
}

/* ---- turns ---- */

static void assign(struct kymo_an *x, struct kymo_an_process *p, struct kymo_an_request *a)
{
    struct kymo_an_turn *t = &p->turn;
    t->request = kymo_an_request_place(x, a);
    a->q.handled = t->start;
    a->q.handled_end = t->end;
    a->q.handler = t->span;
    a->q.handler_mfa = t->mfa;
    a->q.behind = p->turns - 1 > a->turns ? (uint32_t)(p->turns - 1 - a->turns) : 0;
}

/* The turn of p was not for its request a. */
static void take_back(struct kymo_an_process *p, struct kymo_an_request *a)
{
    p->turn.request = 0;
    a->q.handled = a->q.handled_end = KYMO_NO_TIME;
    a->q.handler = 0;
    a->q.handler_mfa = 0;
    a->q.behind = 0;
}

uint64_t kymo_an_turns_ended(const struct kymo_an_process *p)
{
    return p->turns - (p->turn.open ? 1 : 0);
}

void kymo_an_request_call(struct kymo_an *x, struct kymo_an_process *p, const struct kymo_span *s)
{
    uint8_t what = kymo_an_function(x, s->mfa) & KYMO_AN_F_HANDLES;
    if (what == 0 || p->turn.open)
        return;
    p->handlers_seen |= what;
    p->turns++;
    p->turn = (struct kymo_an_turn){.span = s->id,
                                    .going_on = s->id,
                                    .placing = x->placings,
                                    .start = p->last,
                                    .end = KYMO_NO_TIME,
                                    .mfa = s->mfa,
                                    .what = what,
                                    .open = s->ended != KYMO_SPAN_MOMENT};
    struct kymo_an_request *a = next_in_order(x, p, what);
    if (a == NULL)
        return;
    assign(x, p, a);
    if (!p->turn.open && a->q.kind == KYMO_REQ_CAST)
        kymo_an_request_close(x, a, KYMO_REQ_NO_REPLY);
}

/* A reply that no request is known for: if it is certain that the turn was for that, the request
 * that has it by order is still in the mailbox. */
static void replied_to_unknown(struct kymo_an *x, struct kymo_an_process *p)
{
    struct kymo_an_request *by_order = request_of(x, p);
    p->turn.confirmed = true;
    if (by_order == NULL || by_order->taken != KYMO_NO_TIME)
        return;
    take_back(p, by_order);
    kymo_an_request_queue_first(x, p, by_order);
    p->placed = 0;
}

void kymo_an_turn_replied(struct kymo_an *x, struct kymo_an_process *p, struct kymo_an_request *a)
{
    struct kymo_an_turn *t = &p->turn;
    bool of_turn = t->span != 0 && t->placing == x->placings && (t->what & KYMO_AN_F_CALL) != 0 &&
                   !t->confirmed && !t->replied;
    bool certain = of_turn && !t->open;
    t->replied = t->replied || !t->open;
    if (a == NULL) {
        if (certain)
            replied_to_unknown(x, p);
        return;
    }
    if (a->q.handled != KYMO_NO_TIME || a->q.fetched == KYMO_NO_TIME) {
        t->confirmed = t->confirmed || request_of(x, p) == a;
        return;
    }
    struct kymo_an_request *by_order = request_of(x, p);
    bool queued = a->queued == p, exact = by_order != NULL && by_order->taken != KYMO_NO_TIME;
    of_turn = of_turn && (queued || certain) && !exact && a->q.fetched <= t->start;
    if (of_turn) {
        if (by_order != NULL)
            take_back(p, by_order);
        if (by_order != NULL && by_order->q.kind == KYMO_REQ_CAST)
            kymo_an_request_close(x, by_order, KYMO_REQ_NO_REPLY);
        assign(x, p, a);
        t->confirmed = true;
    }
    if (!queued)
        return;
    pass(x, p, a);
    a->unknown = (struct kymo_an_unknown){0};
    if (of_turn)
        p->placed = x->placings;
    else if ((p->handlers_seen & KYMO_AN_F_CALL) != 0)
        p->placed = 0;
}

static void turn_ended(struct kymo_an *x, struct kymo_an_process *p, int64_t end)
{
    struct kymo_an_request *a = request_of(x, p);
    p->turn.open = false;
    p->turn.end = end;
    if (a == NULL)
        return;
    a->q.handled_end = end;
    if (a->q.kind == KYMO_REQ_CAST)
        kymo_an_request_close(x, a, KYMO_REQ_NO_REPLY);
}

void kymo_an_request_span_ended(struct kymo_an *x, struct kymo_an_process *p, const struct kymo_span *s,
                                bool replaced)
{
    if (!p->turn.open || p->turn.going_on != s->id)
        return;
    if (replaced)
        p->turn.going_on = 0;
    else
        turn_ended(x, p, s->end);
}

void kymo_an_request_span_replaced(struct kymo_an *x, struct kymo_an_process *p, const struct kymo_span *s)
{
    if (!p->turn.open || p->turn.going_on != 0)
        return;
    if (s != NULL && s->ended != KYMO_SPAN_MOMENT)
        p->turn.going_on = s->id;
    else
        turn_ended(x, p, p->last);
}
