/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages: an instant for the send and the receive, and an arrow between them if the match is
 * certain. A receive whose timestamp is before that of its send is held back for a short time. If
 * the recording has events `taken`, the arrow continues to that event.
 */
#include "kymo_timeline.h"
#include "perfetto_state.h"

/* Maximum time between consecutive receives when a process fetches several messages at once. */
enum { BATCH_NS = 100000 };

static uint8_t node_of(const struct kymo_pfx *x, const struct kymo_event *ev)
{
    return x->flows.nodes ? (uint8_t)kymo_timeline_of_slot(x->r, ev->slot) : 0;
}

/* The arrow reaches the mailbox, and ends there unless the message is taken later. */
static void arrive(struct kymo_pfx *x, const struct kymo_message *m, uint64_t flow)
{
    bool goes_on = x->lesson.takes && m->number != 0;
    if (goes_on && x->fetched.count >= FETCHED_MAX)
        kymo_map_free(&x->fetched);
    uint64_t *id = goes_on ? kymo_map_put(&x->fetched, kymo_message_key(m->number, m->node), NULL) : NULL;
    if (id != NULL)
        *id = flow;
    kymo_pf_flow(&x->w, flow, id == NULL);
}

static void write_held(struct kymo_pfx *x, struct kymo_pfx_held *h, uint64_t flow, int64_t ns)
{
    kymo_pb_clear(&x->w.event);
    uint8_t *p = kymo_pb_room(&x->w.event, h->event.n);
    if (p != NULL) {
        memcpy(p, h->event.p, h->event.n);
        kymo_pb_took(&x->w.event, p + h->event.n);
    }
    if (flow != 0)
        arrive(x, &h->m, flow);
    kymo_pf_emit(&x->w, ns);
    h->used = false;
}

void kymo_pfx_expire(struct kymo_pfx *x, int64_t now)
{
    /* Receives are held in order of time, the oldest at held_first. */
    for (; x->held_first != x->held_next; x->held_first++) {
        struct kymo_pfx_held *h = &x->held[x->held_first % HELD_MAX];
        if (h->used && now != INT64_MAX && now - h->m.ns <= HELD_NS)
            return;
        if (h->used)
            write_held(x, h, 0, h->m.ns);
    }
}

/* Holds the receive in x->w.event, which has no send yet. There is a free place, because make_room
 * was called before the event was started. */
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

/* Whether receive h may belong to the send. */
static bool belongs(const struct kymo_pfx_held *h, const struct kymo_message *send)
{
    if (h->m.number != 0 || send->number != 0)
        return h->m.number == send->number && h->m.node == send->node;
    return (h->m.to == send->to || h->m.name == send->to) &&
           (h->m.from == send->from || h->m.from == KYMO_IDENT_NONE) && h->m.digest == send->digest &&
           kymo_message_alike(h->m.size, h->m.hash, send->size, send->hash);
}

static struct kymo_pfx_held *held_for(struct kymo_pfx *x, const struct kymo_message *send)
{
    for (uint32_t i = x->held_first; i != x->held_next; i++) {
        struct kymo_pfx_held *h = &x->held[i % HELD_MAX];
        if (h->used && send->ns - h->m.ns <= HELD_NS && belongs(h, send))
            return h;
    }
    return NULL;
}

static void add_message(struct kymo_pfx *x, const struct kymo_event *ev)
{
    kymo_pfx_fields(x, ev,
                    KYMO_FIELD(WORDS) | KYMO_FIELD(MESSAGE) | KYMO_FIELD(REFERENCE) | KYMO_FIELD(CONTENT) |
                        KYMO_PFX_OPTIONS);
}

/* True if a message that is sent to ident now can be distinguished from those that were in
 * transit at the horizon. For names and aliases this is known only after a receive. */
static bool may_have_arrow(struct kymo_pfx *x, uint64_t ident, uint64_t number, int64_t now)
{
    if (!x->cut || number != 0 || KYMO_IDENT_KIND(ident) != KYMO_I_PID)
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
    struct kymo_message m = {
        .from = ev->who, .to = ev->peer, .name = KYMO_IDENT_NONE, .node = node_of(x, ev)};
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
    /* The size of a message in words differs between nodes, and a digest is only recorded by a
     * receiver on another node. */
    bool apart = kymo_timeline_apart(x->r, m.from, m.to), alike = m.hash != 0 || !apart;
    if (m.digest && !apart) {
        m.digest = false;
        m.hash = 0;
    }
    if (ev->id == KYMO_E_SEND_NE || !alike || !may_have_arrow(x, m.to, m.number, ev->ns)) {
        kymo_pf_emit(&x->w, ev->ns);
        return;
    }
    struct kymo_pfx_held *h = held_for(x, &m);
    uint64_t flow = h != NULL ? kymo_flows_id(&x->flows) : kymo_flows_send(&x->flows, &m);
    if (h != NULL)
        kymo_flows_found(&x->flows, &m);
    kymo_pf_flow(&x->w, flow, false);
    kymo_pf_emit(&x->w, ev->ns);
    if (h != NULL)
        write_held(x, h, flow, h->m.ns > ev->ns ? h->m.ns : ev->ns);
}

void kymo_pfx_receive(struct kymo_pfx *x, struct kymo_pfx_process *p, const struct kymo_event *ev)
{
    struct kymo_message m = {.from = ev->peer, .to = ev->who, .name = p->name, .node = node_of(x, ev)};
    kymo_message_look(&m, ev);
    if (p->mail == MAIL_FIRST && ev->ns - p->received > BATCH_NS)
        p->mail = MAIL_KNOWN;
    bool timeout = ev->message == KYMO_MSG_TIMEOUT;
    /* Also removes the pending send that may belong to it. */
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
    } else if (p->mail != MAIL_KNOWN && m.number == 0) {
        p->mail = MAIL_FIRST;
        p->received = ev->ns;
        kymo_pf_emit(&x->w, ev->ns);
    } else if (flow != 0) {
        arrive(x, &m, flow);
        kymo_pf_emit(&x->w, ev->ns);
    } else {
        hold(x, &m);
    }
}

void kymo_pfx_taken(struct kymo_pfx *x, struct kymo_pfx_process *p, const struct kymo_event *ev)
{
    uint64_t key = kymo_message_key(ev->number, node_of(x, ev));
    const uint64_t *flow = ev->number != 0 ? kymo_map_get(&x->fetched, key) : NULL;
    kymo_pf_event(&x->w, KYMO_PF_INSTANT, kymo_pfx_track(x, p), KYMO_PF_CAT_MESSAGE);
    kymo_pf_name(&x->w, ev->id);
    kymo_pfx_fields(x, ev, KYMO_FIELD(PASSED) | KYMO_PFX_OPTIONS);
    if (flow != NULL) {
        kymo_pf_flow(&x->w, *flow, true);
        kymo_map_remove(&x->fetched, key);
    }
    kymo_pf_emit(&x->w, ev->ns);
    x->slices++;
}
