/* SPDX-License-Identifier: Apache-2.0
 *
 * Records. Nothing is taken from a record before the bytes are known to be
 * there; the field letters of kymo_format.h say how many there are.
 */
#include <stddef.h>
#include <string.h>

#include "kymo_names.h"
#include "kymo_record.h"

void kymo_scan_start(struct kymo_scan *s, const uint8_t *base, uint32_t end)
{
    struct kymo_segment h;
    memcpy(&h, base, sizeof h);
    memset(s, 0, sizeof *s);
    s->base = base;
    s->pos = KYMO_SEG_HEADER;
    s->end = end;
    s->ticks = h.ts_begin;
    s->ts_max = h.content_bits != 0 ? h.ts_end : UINT64_MAX;
}

enum kymo_peek kymo_scan_peek(struct kymo_scan *s)
{
    const uint8_t *p = s->base + s->pos;
    uint32_t left = s->end - s->pos;
    if (left == 0)
        return KYMO_PEEK_END;
    if (left < KYMO_HDR_COMPACT)
        return KYMO_PEEK_BAD;
    uint32_t id;
    uint64_t ticks;
    if (p[0] != KYMO_ID_EXTENDED) {
        id = p[0];
        ticks = s->ticks + (uint32_t)(kymo_get32(p + 1) - (uint32_t)s->ticks);
        s->body = s->pos + KYMO_HDR_COMPACT;
    } else {
        if (left < KYMO_HDR_EXTENDED)
            return KYMO_PEEK_BAD;
        id = kymo_get32(p + 1);
        ticks = kymo_get64(p + 5);
        s->body = s->pos + KYMO_HDR_EXTENDED;
    }
    if (id > UINT8_MAX || kymo_event_fields(id & KYMO_ID_MASK) == NULL || ticks < s->ticks ||
        ticks > s->ts_max)
        return KYMO_PEEK_BAD;
    s->id = (uint8_t)(id & KYMO_ID_MASK);
    s->variant = id & ~KYMO_ID_MASK;
    s->ticks = ticks;
    return KYMO_PEEK_RECORD;
}

/* Gives up unless n more bytes are there. */
#define TAKE(n) \
    do { \
        if ((size_t)(end - p) < (n)) \
            return NULL; \
    } while (0)

static const uint8_t *base_fields(const char *f, const uint8_t *p, const uint8_t *end, struct kymo_event *ev)
{
    for (; *f != '\0'; f++) {
        switch (*f) {
        case 'W':
            TAKE(8);
            ev->who = kymo_get64(p);
            p += 8;
            break;
        case 'P':
            TAKE(8);
            ev->peer = kymo_get64(p);
            p += 8;
            break;
        case 'M':
            TAKE(4);
            ev->mfa = kymo_get32(p);
            p += 4;
            break;
        case 'A':
            TAKE(4);
            ev->atom = kymo_get32(p);
            p += 4;
            break;
        case 'S':
            TAKE(4);
            ev->size = kymo_get32(p);
            p += 4;
            break;
        case 'K':
            TAKE(1);
            ev->kind = *p++;
            break;
        case 'Q':
            TAKE(8);
            ev->value = kymo_get64(p);
            p += 8;
            break;
        case 'U':
            TAKE(8);
            ev->serial_prev = kymo_get32(p);
            ev->serial_cur = kymo_get32(p + 4);
            p += 8;
            break;
        case 'R':
            TAKE(9);
            ev->message = *p;
            ev->ref = kymo_get64(p + 1);
            p += 9;
            break;
        case 'I':
            TAKE(4);
            ev->initial = kymo_get32(p);
            p += 4;
            break;
        case 'G':
            TAKE(1);
            ev->n_gc = *p++;
            if (ev->n_gc != 0 && ev->n_gc != KYMO_GC_SIZES)
                return NULL;
            TAKE(8u * ev->n_gc);
            memcpy(ev->gc, p, 8u * ev->n_gc);
            p += 8u * ev->n_gc;
            break;
        default: return NULL;
        }
    }
    return p;
}

static const uint8_t *content(const uint8_t *p, const uint8_t *end, struct kymo_event *ev)
{
    TAKE(KYMO_CONTENT_HDR);
    ev->has_content = true;
    ev->content_flags = p[0];
    ev->content_len = kymo_get16(p + 1);
    p += KYMO_CONTENT_HDR;
    TAKE(ev->content_len);
    ev->content = p;
    return p + ev->content_len;
}

static const uint8_t *options(const uint8_t *p, const uint8_t *end, struct kymo_event *ev)
{
    TAKE(KYMO_OPTS_HDR);
    ev->has_opts = true;
    ev->opt_flags = p[0];
    ev->opt_sched = kymo_get16(p + 1);
    ev->opt_ts = p[3];
    ev->opt_a = (int64_t)kymo_get64(p + 4);
    ev->opt_b = (int64_t)kymo_get64(p + 12);
    ev->msr_len = kymo_get16(p + 20);
    p += KYMO_OPTS_HDR;
    TAKE(ev->msr_len);
    ev->msr = p;
    return p + ev->msr_len;
}

/* Readers need not know that an event comes in two forms. */
static uint8_t plain_id(uint8_t id)
{
    switch (id) {
    case KYMO_E_SEND_REF: return KYMO_E_SEND;
    case KYMO_E_RECEIVE_REF: return KYMO_E_RECEIVE;
    case KYMO_E_SPAWNED_PROC: return KYMO_E_SPAWNED;
    default: return id;
    }
}

bool kymo_scan_decode(struct kymo_scan *s, struct kymo_event *ev)
{
    const uint8_t *p = s->base + s->body;
    const uint8_t *end = s->base + s->end;
    /* All but gc, whose entries mean nothing beyond n_gc: half of the time here
     * would go into zeroing it. */
    memset(ev, 0, offsetof(struct kymo_event, gc));
    memset((uint8_t *)ev + offsetof(struct kymo_event, content), 0,
           sizeof *ev - offsetof(struct kymo_event, content));
    ev->id = plain_id(s->id);
    ev->who = KYMO_IDENT_NONE;
    ev->peer = KYMO_IDENT_NONE;
    p = base_fields(kymo_event_fields(s->id), p, end, ev);
    if (p != NULL && (s->variant & KYMO_HAS_CONTENT) != 0)
        p = content(p, end, ev);
    if (p != NULL && (s->variant & KYMO_HAS_OPTS) != 0)
        p = options(p, end, ev);
    if (p == NULL)
        return false;
    s->pos = (uint32_t)(p - s->base);
    return true;
}
