/* SPDX-License-Identifier: Apache-2.0 */
#include "ctf_packets.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The maximum factor by which a packet grows: a record of at least 6 bytes grows by 8 if it needs
 * the extended header. */
enum { GROWTH = 3 };

void kymo_ctf_packets_init(struct kymo_ctf_packets *x, struct kymo_reader *r,
                           const struct kymo_export_options *o)
{
    memset(x, 0, sizeof *x);
    x->r = r;
    x->o = o;
    x->t0 = (uint64_t)kymo_reader_meta(r)->t0_mono_ns;
    x->thread = UINT32_MAX;
}

void kymo_ctf_packets_free(struct kymo_ctf_packets *x)
{
    free(x->buf);
    x->buf = NULL;
    x->room = 0;
}

/* CTF's times are unsigned; a damaged recording may have any times. */
static uint64_t unsigned_ns(int64_t ns)
{
    return ns > 0 ? (uint64_t)ns : 0;
}

static bool in_window(const struct kymo_ctf_packets *x, int64_t ns)
{
    int64_t since = (int64_t)((uint64_t)ns - x->t0);
    return since >= x->o->from_ns && since <= x->o->to_ns;
}

static bool is_shown(const struct kymo_ctf_packets *x, uint32_t slot, uint64_t ticks, int64_t ns)
{
    return (x->o->all || !kymo_reader_incomplete(x->r, slot, ticks)) && in_window(x, ns);
}

/* Writes a record with its header at p. Returns its end. */
static uint8_t *put_record(uint8_t *p, uint32_t id, uint64_t ns, uint64_t before, const uint8_t *body,
                           size_t n)
{
    uint32_t low = (uint32_t)ns;
    if (ns - before <= UINT32_MAX) {
        *p++ = (uint8_t)id;
        memcpy(p, &low, sizeof low);
        p += sizeof low;
    } else {
        *p++ = KYMO_ID_EXTENDED;
        memcpy(p, &id, sizeof id);
        memcpy(p + sizeof id, &ns, sizeof ns);
        p += sizeof id + sizeof ns;
    }
    if (n > 0)
        memcpy(p, body, n);
    return p + n;
}

/* A packet that is being made. */
struct packet {
    uint8_t *p;
    uint64_t begin, last; /* ns */
    uint64_t events;
    bool any;  /* something of it is inside the horizon and the window */
    bool late; /* it does not begin where its segment does */
};

/* Adds the record that was decoded into ev, if it belongs to the trace. */
static void take(struct kymo_ctf_packets *x, struct packet *k, const struct kymo_event *ev,
                 const struct kymo_scan *s, uint32_t body)
{
    if (!is_shown(x, ev->slot, ev->ticks, ev->ns)) {
        k->late = k->late || !k->any;
        return;
    }
    uint64_t ns = unsigned_ns(ev->ns);
    ns = ns > k->last ? ns : k->last;
    if (!k->any && k->late)
        k->begin = k->last = ns;
    k->any = true;
    bool note = ev->id >= KYMO_E_FIRST_NOTE;
    if (!note && x->o->keep != NULL && !x->o->keep(x->o->keep_arg, x->r, ev))
        return;
    k->p = put_record(k->p, s->id | s->variant, ns, k->last, s->base + body, s->pos - body);
    k->last = ns;
    k->events += !note;
}

static int make_room(struct kymo_ctf_packets *x, size_t n)
{
    if (x->room >= GROWTH * n)
        return 0;
    void *p = realloc(x->buf, GROWTH * n);
    if (p == NULL)
        return -ENOMEM;
    x->buf = p;
    x->room = GROWTH * n;
    return 0;
}

int kymo_ctf_packet(struct kymo_ctf_packets *x, uint64_t index, const uint8_t *bytes, size_t n, size_t *len)
{
    struct kymo_segment h;
    struct kymo_scan s;
    struct kymo_event ev;
    *len = 0;
    if (make_room(x, n) != 0)
        return -ENOMEM;
    memcpy(&h, bytes, sizeof h);
    if (h.instance != x->thread)
        x->last = 0;
    x->thread = (uint32_t)h.instance;
    int64_t begin = kymo_reader_segment_ns(x->r, index, h.ts_begin);
    struct packet k = {.p = x->buf + sizeof h, .begin = unsigned_ns(begin)};
    if (k.begin < x->last)
        k.begin = x->last;
    k.last = k.begin;
    kymo_scan_start(&s, bytes, (uint32_t)n);
    bool empty = true;
    while (kymo_scan_peek(&s) == KYMO_PEEK_RECORD) {
        uint32_t body = s.body;
        if (!kymo_scan_decode(&s, &ev))
            break;
        ev.slot = x->thread;
        ev.ticks = s.ticks;
        ev.ns = kymo_reader_segment_ns(x->r, index, s.ticks);
        take(x, &k, &ev, &s, body);
        empty = false;
    }
    if (!k.any && !(empty && is_shown(x, x->thread, h.ts_begin, begin)))
        return 0;
    size_t size = (size_t)(k.p - x->buf);
    uint64_t before = unsigned_ns(kymo_reader_ns(x->r, h.ts_before));
    h.ts_before = before < k.begin ? before : k.begin;
    h.ts_begin = k.begin;
    h.ts_end = x->last = k.last;
    h.content_bits = h.packet_bits = (uint64_t)size * 8;
    h.commit = size;
    h.events = k.events;
    h.crc = h.flags = 0; /* of the records as they were */
    memcpy(x->buf, &h, sizeof h);
    *len = size;
    return 0;
}
