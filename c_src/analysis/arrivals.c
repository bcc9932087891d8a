/* SPDX-License-Identifier: Apache-2.0
 *
 * Recordings without received messages (the measure `received', kymo_measures.h). A message between
 * processes of such a node is taken as fetched when its receiver is scheduled in next, or at once if that is
 * running. What comes from ports, timers and other nodes is unknown, so the place of a request in the
 * mailbox is, too.
 */
#include "kymo_measures.h"
#include "requests_int.h"

void kymo_an_arrivals_init(struct kymo_an *x)
{
    for (uint32_t i = 0; i < kymo_timeline_size(x->r); i++)
        x->unreceived[i] = kymo_measured(kymo_timeline_meta(x->r, i), "received");
}

/* Whom a message was sent to, if it is the reply to an open request and was sent to an alias. */
static uint64_t alias_owner(const struct kymo_an *x, const struct kymo_event *ev)
{
    if (KYMO_IDENT_KIND(ev->peer) != KYMO_I_REF || ev->ref == 0)
        return ev->peer;
    struct kymo_an_request *a = kymo_an_request_find(x, &x->by_ref, ev->ref);
    return a != NULL ? kymo_an_request_outermost(x, a)->q.client : ev->peer;
}

static void fetch_all(struct kymo_an *x, struct kymo_an_process *p, uint64_t to, bool assumed)
{
    struct kymo_flow_entry e;
    while (to != KYMO_IDENT_NONE && kymo_flows_take_first(&x->flows, to, &e)) {
        struct kymo_event ev = {.id = KYMO_E_RECEIVE,
                                .message = e.kind,
                                .ns = p->last,
                                .who = p->ident,
                                .peer = e.from,
                                .ref = e.ref,
                                .size = e.size};
        struct kymo_mail mail = {.id = e.id,
                                 .from = e.from,
                                 .to = p->ident,
                                 .ref = e.ref,
                                 .sent = e.ns,
                                 .fetched = p->last,
                                 .taken = KYMO_NO_TIME,
                                 .size = e.size,
                                 .kind = e.kind,
                                 .assumed = assumed};
        p->in_loop = false;
        p->placed = 0;
        p->life.received++;
        kymo_an_report_mail(x, &mail);
        kymo_an_request_received(x, p, &ev, e.id);
    }
}

void kymo_an_arrivals(struct kymo_an *x, struct kymo_an_process *p, bool assumed)
{
    fetch_all(x, p, p->ident, assumed);
    fetch_all(x, p, p->name, assumed);
}

void kymo_an_arrives(struct kymo_an *x, struct kymo_an_process *sender, const struct kymo_event *ev)
{
    struct kymo_event owned = *ev;
    owned.peer = alias_owner(x, ev);
    kymo_an_request_sent(x, sender, ev, kymo_an_send(x, &owned));
    uint64_t to = kymo_an_receiver(x, owned.peer);
    struct kymo_an_process *p = kymo_an_known(x, to);
    bool scheduled = x->lesson.running || x->res->has_running;
    if (p == NULL || KYMO_IDENT_KIND(to) != KYMO_I_PID || kymo_timeline_apart(x->r, ev->who, to) ||
        (scheduled && !p->running))
        return;
    p->last = ev->ns > p->last ? ev->ns : p->last;
    kymo_an_arrivals(x, p, true);
}
