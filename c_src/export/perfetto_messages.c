/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages: an instant at each end and an arrow between them where it is certain which
 * belong together. A receive that is stamped before its send is held back a little.
 */
#include "kymo_timeline.h"
#include "perfetto_state.h"

/* While a process receives one message after the other they are less than this apart. */
enum { BATCH_NS = 100000 };

static void write_held(struct kymo_pfx *x, struct kymo_pfx_held *h, uint64_t flow, int64_t ns)
{
    kymo_pb_clear(&x->w.event);
    uint8_t *p = kymo_pb_room(&x->w.event, h->event.n);
    if (p != NULL) {
        memcpy(p, h->event.p, h->event.n);
        kymo_pb_took(&x->w.event, p + h->event.n);
    }
    if (flow != 0)
        kymo_pf_flow(&x->w, flow, true);
    kymo_pf_emit(&x->w, ns);
    h->used = false;
}

void kymo_pfx_expire(struct kymo_pfx *x, int64_t now)
{
    /* Held in order of time: held_first is the oldest place. */
    for (; x->held_first != x->held_next; x->held_first++) {
        struct kymo_pfx_held *h = &x->held[x->held_first % HELD_MAX];
        if (h->used && now != INT64_MAX && now - h->m.ns <= HELD_NS)
            return;
        if (h->used)
            write_held(x, h, 0, h->m.ns);
    }
}

/* The receive in x->w.event has no send yet. The place of the oldest is free:
 * make_room was called before the event was started. */
static void hold(struct kymo_pfx *x, const struct kymo_message *m)
{
    struct kymo_pfx_held *h = &x->held[x->held_next % HELD_MAX];
    kymo_pb_clear(&h->event);
    uint8_t *p = kymo_pb_room(&h->event, x->w.event.n);
    if (p == NULL) {
        kymo_pf_emit(&x->w, m->ns);
        return;
    }
    memcpy(p, x->w.event.p, x->w.event.n);
    kymo_pb_took(&h->event, p + x->w.event.n);
    h->m = *m;
    h->used = true;
    x->held_next++;
}

static void make_room(struct kymo_pfx *x)
{
    if (x->held_next - x->held_first < HELD_MAX)
        return;
    struct kymo_pfx_held *oldest = &x->held[x->held_first++ % HELD_MAX];
    if (oldest->used)
        write_held(x, oldest, 0, oldest->m.ns);
}

static struct kymo_pfx_held *held_for(struct kymo_pfx *x, const struct kymo_message *send)
{
    for (uint32_t i = x->held_first; i != x->held_next; i++) {
        struct kymo_pfx_held *h = &x->held[i % HELD_MAX];
        if (h->used && send->ns - h->m.ns <= HELD_NS && (h->m.to == send->to || h->m.name == send->to) &&
            (h->m.from == send->from || h->m.from == KYMO_IDENT_NONE) &&
            kymo_message_alike(h->m.size, h->m.hash, send->size, send->hash))
            return h;
    }
    return NULL;
}

static void add_message(struct kymo_pfx *x, const struct kymo_event *ev)
{
    if (ev->size != KYMO_SIZE_UNKNOWN)
        kymo_pf_uint(&x->w, KYMO_PF_K_SIZE, ev->size & ~KYMO_SIZE_MORE);
    kymo_pfx_content(x, KYMO_PF_K_MESSAGE, ev);
    kymo_pfx_options(x, ev);
}

/* Whether a message that is sent to ident now can be told from those that were under
 * way at the horizon. Names and aliases stay in question until they are received. */
static bool may_have_arrow(struct kymo_pfx *x, uint64_t ident, int64_t now)
{
    if (!x->cut || KYMO_IDENT_KIND(ident) != KYMO_I_PID)
        return true;
    struct kymo_pfx_process **p = kymo_map_get(&x->processes, ident);
    if (p == NULL)
        return false;
    if ((*p)->mail == MAIL_FIRST && now - (*p)->received > BATCH_NS)
        (*p)->mail = MAIL_KNOWN;
    return (*p)->mail == MAIL_KNOWN;
}

void kymo_pfx_send(struct kymo_pfx *x, struct kymo_pfx_process *p, const struct kymo_event *ev)
{
    struct kymo_message m = {.from = ev->who, .to = ev->peer, .name = KYMO_IDENT_NONE};
    kymo_message_look(&m, ev);
    kymo_pf_event(&x->w, KYMO_PF_INSTANT, kymo_pfx_track(x, p), KYMO_PF_CAT_MESSAGE);
    kymo_pf_name(&x->w, ev->id);
    kymo_pfx_peer(x, KYMO_PF_K_TO, ev->peer);
    add_message(x, ev);
    x->slices++;
    if (KYMO_IDENT_KIND(m.to) == KYMO_I_ATOM) {
        uint32_t name = kymo_canonical(x->r, (uint32_t)KYMO_IDENT_DATA(m.to));
        const uint64_t *to = kymo_map_get(&x->names, name);
        m.to = to != NULL ? *to : KYMO_IDENT(KYMO_I_ATOM, name);
    }
    /* The words of a message are others on another node. */
    bool alike = m.hash != 0 || !kymo_timeline_apart(x->r, m.from, m.to);
    if (ev->id == KYMO_E_SEND_NE || !alike || !may_have_arrow(x, m.to, ev->ns)) {
        kymo_pf_emit(&x->w, ev->ns);
        return;
    }
    struct kymo_pfx_held *h = held_for(x, &m);
    uint64_t flow = h != NULL ? kymo_flows_id(&x->flows) : kymo_flows_send(&x->flows, &m);
    kymo_pf_flow(&x->w, flow, false);
    kymo_pf_emit(&x->w, ev->ns);
    if (h != NULL)
        write_held(x, h, flow, h->m.ns > ev->ns ? h->m.ns : ev->ns);
}

void kymo_pfx_receive(struct kymo_pfx *x, struct kymo_pfx_process *p, const struct kymo_event *ev)
{
    struct kymo_message m = {.from = ev->peer, .to = ev->who, .name = p->name};
    kymo_message_look(&m, ev);
    if (p->mail == MAIL_FIRST && ev->ns - p->received > BATCH_NS)
        p->mail = MAIL_KNOWN;
    bool timeout = ev->message == KYMO_MSG_TIMEOUT;
    /* Also takes the send that may belong to it out of the way. */
    uint64_t flow = timeout ? 0 : kymo_flows_receive(&x->flows, &m);
    make_room(x);
    kymo_pf_event(&x->w, KYMO_PF_INSTANT, kymo_pfx_track(x, p), KYMO_PF_CAT_MESSAGE);
    kymo_pf_name(&x->w, ev->id);
    if (ev->peer != KYMO_IDENT_NONE)
        kymo_pfx_peer(x, KYMO_PF_K_FROM, ev->peer);
    add_message(x, ev);
    x->slices++;
    if (timeout) {
        kymo_pf_emit(&x->w, ev->ns);
    } else if (p->mail != MAIL_KNOWN) {
        p->mail = MAIL_FIRST;
        p->received = ev->ns;
        kymo_pf_emit(&x->w, ev->ns);
    } else if (flow != 0) {
        kymo_pf_flow(&x->w, flow, true);
        kymo_pf_emit(&x->w, ev->ns);
    } else {
        hold(x, &m);
    }
}
