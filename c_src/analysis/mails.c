/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages: which receive belongs to which send (kymo_flows.h). A reference in a
 * message makes that certain; else order, sender and size decide.
 */
#include "analysis_int.h"
#include "kymo_timeline.h"

/* While a process receives one message after the other they are less than this apart. */
enum { BATCH_NS = 100000 };

uint64_t kymo_an_receiver(const struct kymo_an *x, uint64_t to)
{
    if (KYMO_IDENT_KIND(to) != KYMO_I_ATOM)
        return to;
    uint32_t name = kymo_canonical(x->r, (uint32_t)KYMO_IDENT_DATA(to));
    const uint64_t *ident = kymo_map_get(&x->names, name);
    return ident != NULL ? *ident : KYMO_IDENT(KYMO_I_ATOM, name);
}

/* Whether a message that is sent now can be told from those that were on their way at
 * the horizon. Names and aliases stay in question until they are received. */
static bool can_be_matched(const struct kymo_an *x, const struct kymo_message *m)
{
    if (!x->cut || m->ref != 0 || KYMO_IDENT_KIND(m->to) != KYMO_I_PID)
        return true;
    struct kymo_an_process *p = kymo_an_known(x, m->to);
    if (p == NULL)
        return false;
    if (p->mail == KYMO_AN_MAIL_FIRST && m->ns - p->received > BATCH_NS)
        p->mail = KYMO_AN_MAIL_KNOWN;
    return p->mail == KYMO_AN_MAIL_KNOWN;
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
                             .to_nobody = to_nobody};
    kymo_an_report_mail(x, &mail);
}

void kymo_an_mail_gone(void *arg, const struct kymo_flow_entry *e)
{
    struct kymo_message m = {
        .from = e->from, .to = e->to, .ref = e->ref, .ns = e->ns, .size = e->size, .kind = e->kind};
    report_unreceived(arg, e->id, &m, false);
}

uint64_t kymo_an_send(struct kymo_an *x, const struct kymo_event *ev)
{
    struct kymo_message m = {.from = ev->who, .to = kymo_an_receiver(x, ev->peer), .name = KYMO_IDENT_NONE};
    kymo_message_look(&m, ev);
    /* The words of a message are others on another node. */
    bool alike = m.hash != 0 || !kymo_timeline_apart(x->r, m.from, m.to);
    if (ev->id == KYMO_E_SEND_NE || !alike || !can_be_matched(x, &m)) {
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
    struct kymo_message m = {.from = ev->peer, .to = ev->who, .name = p->name};
    kymo_message_look(&m, ev);
    if (p->mail == KYMO_AN_MAIL_FIRST && ev->ns - p->received > BATCH_NS)
        p->mail = KYMO_AN_MAIL_KNOWN;
    /* Also takes the send that may belong to it out of the way. */
    uint64_t id = kymo_flows_receive(&x->flows, &m);
    if (p->mail != KYMO_AN_MAIL_KNOWN) {
        p->mail = KYMO_AN_MAIL_FIRST;
        p->received = ev->ns;
        if (m.ref == 0)
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
                             .kind = m.kind};
    kymo_an_report_mail(x, &mail);
    return mail.id;
}
