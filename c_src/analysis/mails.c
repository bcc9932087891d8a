/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages: pairs receives with sends (kymo_flows.h). A number or a reference in a message
 * makes the pair certain; otherwise order, sender and size decide. If the recording has `taken`
 * events, a message that was fetched is held until it is taken.
 */
#include <stdlib.h>

#include "analysis_int.h"
#include "kymo_timeline.h"

/* When a process receives messages one after the other, they are less than this apart. */
enum { BATCH_NS = 100000 };

uint64_t kymo_an_receiver(const struct kymo_an *x, uint64_t to)
{
    if (KYMO_IDENT_KIND(to) != KYMO_I_ATOM)
        return to;
    uint32_t name = kymo_canonical(x->r, (uint32_t)KYMO_IDENT_DATA(to));
    const uint64_t *ident = kymo_map_get(&x->names, name);
    return ident != NULL ? *ident : KYMO_IDENT(KYMO_I_ATOM, name);
}

/* True if a message that is sent now can be distinguished from those that were in transit at
 * the horizon. For names and aliases this is known only after a receive. */
static bool can_be_matched(const struct kymo_an *x, const struct kymo_message *m)
{
    if (!x->cut || m->ref != 0 || m->number != 0 || KYMO_IDENT_KIND(m->to) != KYMO_I_PID)
        return true;
    struct kymo_an_process *p = kymo_an_known(x, m->to);
    if (p == NULL)
        return false;
    if (p->mail == KYMO_AN_MAIL_FIRST && m->ns - p->received > BATCH_NS)
        p->mail = KYMO_AN_MAIL_KNOWN;
    return p->mail == KYMO_AN_MAIL_KNOWN;
}

static uint8_t node_of(const struct kymo_an *x, const struct kymo_event *ev)
{
    return x->flows.nodes ? (uint8_t)kymo_timeline_of_slot(x->r, ev->slot) : 0;
}

/* A held message is reported as it is. False: it is not held. */
static bool let_go(struct kymo_an *x, uint64_t key)
{
    const struct kymo_mail *held = kymo_map_get(&x->held, key);
    if (held == NULL)
        return false;
    kymo_an_report_mail(x, held);
    kymo_map_remove(&x->held, key);
    return true;
}

/* False: no memory. */
static bool hold(struct kymo_an *x, uint64_t key, const struct kymo_mail *mail)
{
    if (x->held_ring == NULL)
        x->held_ring = calloc(KYMO_AN_HELD_MAX, sizeof *x->held_ring);
    if (x->held_ring == NULL)
        return false;
    uint64_t *place = &x->held_ring[x->held_next % KYMO_AN_HELD_MAX];
    (void)let_go(x, key); /* the number came again: the recording is damaged */
    if (x->held_next >= KYMO_AN_HELD_MAX)
        x->res->evicted += let_go(x, *place);
    struct kymo_mail *held = kymo_map_put(&x->held, key, NULL);
    if (held == NULL)
        return false;
    *held = *mail;
    *place = key;
    x->held_next++;
    return true;
}

static void report_unreceived(struct kymo_an *x, uint64_t id, const struct kymo_message *m, bool to_nobody)
{
    struct kymo_mail mail = {.id = id,
                             .from = m->from,
                             .to = m->to,
                             .ref = m->ref,
                             .sent = m->ns,
                             .fetched = KYMO_NO_TIME,
                             .taken = KYMO_NO_TIME,
                             .size = m->size,
                             .kind = m->kind,
                             .to_nobody = to_nobody,
                             .exact = m->number != 0};
    kymo_an_report_mail(x, &mail);
}

void kymo_an_mail_gone(void *arg, const struct kymo_flow_entry *e)
{
    struct kymo_message m = {.from = e->from,
                             .to = e->to,
                             .ref = e->ref,
                             .number = e->number,
                             .ns = e->ns,
                             .size = e->size,
                             .kind = e->kind};
    report_unreceived(arg, e->id, &m, false);
}

uint64_t kymo_an_send(struct kymo_an *x, const struct kymo_event *ev)
{
    struct kymo_message m = {.from = ev->who,
                             .to = kymo_an_receiver(x, ev->peer),
                             .name = KYMO_IDENT_NONE,
                             .node = node_of(x, ev)};
    kymo_message_look(&m, ev);
    /* The size of a message differs between nodes; a digest is recorded only between nodes. */
    bool apart = kymo_timeline_apart(x->r, m.from, m.to), alike = m.hash != 0 || !apart;
    if (m.digest && !apart) {
        m.digest = false;
        m.hash = 0;
    }
    if (ev->id == KYMO_E_SEND_NE || !alike || (!kymo_an_unreceived(x, ev->slot) && !can_be_matched(x, &m))) {
        uint64_t id = kymo_flows_id(&x->flows);
        report_unreceived(x, id, &m, ev->id == KYMO_E_SEND_NE);
        return id;
    }
    return kymo_flows_send(&x->flows, &m);
}

void kymo_an_timeout(struct kymo_an *x, struct kymo_an_process *p)
{
    struct kymo_mail mail = {.id = kymo_flows_id(&x->flows),
                             .from = KYMO_IDENT_NONE,
                             .to = p->ident,
                             .sent = KYMO_NO_TIME,
                             .fetched = p->last,
                             .taken = KYMO_NO_TIME,
                             .kind = KYMO_MSG_TIMEOUT};
    kymo_an_report_mail(x, &mail);
}

uint64_t kymo_an_receive(struct kymo_an *x, struct kymo_an_process *p, const struct kymo_event *ev)
{
    struct kymo_message m = {.from = ev->peer, .to = ev->who, .name = p->name, .node = node_of(x, ev)};
    kymo_message_look(&m, ev);
    if (p->mail == KYMO_AN_MAIL_FIRST && ev->ns - p->received > BATCH_NS)
        p->mail = KYMO_AN_MAIL_KNOWN;
    /* Called in any case, because it also removes the send that may belong to this receive. */
    uint64_t id = kymo_flows_receive(&x->flows, &m);
    if (p->mail != KYMO_AN_MAIL_KNOWN) {
        p->mail = KYMO_AN_MAIL_FIRST;
        p->received = ev->ns;
        if (m.ref == 0 && m.number == 0)
            id = 0;
    }
    struct kymo_mail mail = {.id = id != 0 ? id : kymo_flows_id(&x->flows),
                             .from = id != 0 ? x->flows.found.from : m.from,
                             .to = ev->who,
                             .ref = m.ref,
                             .sent = id != 0 ? x->flows.found.ns : KYMO_NO_TIME,
                             .fetched = p->last,
                             .taken = KYMO_NO_TIME,
                             .size = m.size,
                             .kind = m.kind,
                             .exact = m.number != 0};
    if (!x->takes || m.number == 0 || !hold(x, kymo_message_key(m.number, m.node), &mail))
        kymo_an_report_mail(x, &mail);
    return mail.id;
}

bool kymo_an_taken(struct kymo_an *x, struct kymo_an_process *p, const struct kymo_event *ev,
                   struct kymo_mail *mail)
{
    uint64_t key = kymo_message_key(ev->number, node_of(x, ev));
    const struct kymo_mail *held = ev->number != 0 ? kymo_map_get(&x->held, key) : NULL;
    x->takes = true;
    if (held == NULL || held->to != p->ident)
        return false;
    *mail = *held;
    kymo_map_remove(&x->held, key);
    mail->taken = p->last;
    mail->passed = ev->passed;
    kymo_an_report_mail(x, mail);
    return true;
}

void kymo_an_held_end(struct kymo_an *x)
{
    uint64_t first = x->held_next > KYMO_AN_HELD_MAX ? x->held_next - KYMO_AN_HELD_MAX : 0;
    for (uint64_t i = first; i < x->held_next; i++)
        let_go(x, x->held_ring[i % KYMO_AN_HELD_MAX]);
    x->held_next = 0;
}
