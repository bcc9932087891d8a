/* SPDX-License-Identifier: Apache-2.0
 *
 * Decodes records. The number of bytes, given by the field letters of kymo_format.h, is
 * checked before they are read.
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

/* Returns NULL from the caller unless n more bytes are left. */
#define TAKE(n) \
    do { \
        if ((size_t)(end - p) < (n)) \
            return NULL; \
    } while (0)

/* Decodes one field. Compiles to a few instructions if the letter is a constant. */
static inline __attribute__((always_inline)) const uint8_t *field(char letter, const uint8_t *p,
                                                                  const uint8_t *end, struct kymo_event *ev)
{
    switch (letter) {
    case 'W':
        TAKE(8);
        ev->who = kymo_get64(p);
        return p + 8;
    case 'P':
        TAKE(8);
        ev->peer = kymo_get64(p);
        return p + 8;
    case 'M':
        TAKE(4);
        ev->mfa = kymo_get32(p);
        return p + 4;
    case 'A':
        TAKE(4);
        ev->atom = kymo_get32(p);
        return p + 4;
    case 'S':
        TAKE(4);
        ev->size = kymo_get32(p);
        return p + 4;
    case 'K':
        TAKE(1);
        ev->kind = *p;
        return p + 1;
    case 'Q':
        TAKE(8);
        ev->value = kymo_get64(p);
        return p + 8;
    case 'U':
        TAKE(8);
        ev->serial_prev = kymo_get32(p);
        ev->serial_cur = kymo_get32(p + 4);
        return p + 8;
    case 'R':
        TAKE(9);
        ev->message = *p;
        *(ev->message == KYMO_MSG_CAST ? &ev->digest : &ev->ref) = kymo_get64(p + 1);
        return p + 9;
    case 'N':
        TAKE(8);
        ev->number = kymo_get64(p);
        return p + 8;
    case 'L':
        TAKE(4);
        ev->passed = kymo_get32(p);
        return p + 4;
    case 'B':
        TAKE(8);
        ev->begun = kymo_get64(p);
        return p + 8;
    case 'O':
        TAKE(4);
        ev->omitted = kymo_get32(p);
        return p + 4;
    case 'D':
        TAKE(1);
        if ((*p & 1) == 0) {
            ev->depth = *p >> 1;
            return p + 1;
        }
        TAKE(KYMO_DEPTH_BYTES);
        ev->depth = kymo_get32(p) >> 1;
        return p + KYMO_DEPTH_BYTES;
    case 'I':
        TAKE(4);
        ev->initial = kymo_get32(p);
        return p + 4;
    case 'J':
        TAKE(4);
        ev->in_mfa = kymo_get32(p);
        return p + 4;
    case 'C':
        TAKE(2);
        ev->n_counters = kymo_get16(p);
        ev->counters = p += 2;
        if (ev->n_counters > KYMO_COUNTERS_MAX)
            return NULL;
        TAKE((size_t)ev->n_counters * KYMO_COUNTER_BYTES);
        return p + (size_t)ev->n_counters * KYMO_COUNTER_BYTES;
    case 'G':
        TAKE(1);
        ev->n_gc = *p++;
        if (ev->n_gc == 0)
            return p;
        if (ev->n_gc != KYMO_GC_SIZES)
            return NULL;
        TAKE(sizeof ev->gc);
        memcpy(ev->gc, p, sizeof ev->gc);
        return p + sizeof ev->gc;
    default: return NULL;
    }
}

enum { FIELDS_MAX = 7 };
#define KYMO_X(id, sym, name, letters) \
    _Static_assert(sizeof(letters) - 1 <= FIELDS_MAX, "more fields than are decoded");
KYMO_EVENTS(KYMO_X)
#undef KYMO_X

/* Decodes all fields of an event whose letters are constants. */
static inline __attribute__((always_inline)) const uint8_t *fields(const char *f, size_t n, const uint8_t *p,
                                                                   const uint8_t *end, struct kymo_event *ev)
{
#define NEXT(i) \
    if (n > (i) && p != NULL) \
    p = field(f[i], p, end, ev)
    NEXT(0);
    NEXT(1);
    NEXT(2);
    NEXT(3);
    NEXT(4);
    NEXT(5);
    NEXT(6);
#undef NEXT
    return p;
}

static const uint8_t *base_fields(uint8_t id, const uint8_t *p, const uint8_t *end, struct kymo_event *ev)
{
    switch (id) {
#define KYMO_X(number, sym, name, letters) \
    /* NOLINTNEXTLINE(bugprone-branch-clone): several events have the same fields */ \
    case number: return fields(letters, sizeof(letters) - 1, p, end, ev);
        KYMO_EVENTS(KYMO_X)
#undef KYMO_X
    default: return NULL;
    }
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

/* Readers see one id for all forms of an event. */
static uint8_t plain_id(uint8_t id)
{
    switch (id) {
    case KYMO_E_SEND_REF:
    case KYMO_E_SEND_NUMBERED:
    case KYMO_E_SEND_REF_NUMBERED: return KYMO_E_SEND;
    case KYMO_E_RECEIVE_REF:
    case KYMO_E_RECEIVE_NUMBERED:
    case KYMO_E_RECEIVE_REF_NUMBERED: return KYMO_E_RECEIVE;
    case KYMO_E_IN_RUNNABLE: return KYMO_E_IN;
    case KYMO_E_OUT_REASON: return KYMO_E_OUT;
    case KYMO_E_SPAWNED_PROC: return KYMO_E_SPAWNED;
    case KYMO_E_EXIT_IN: return KYMO_E_EXIT;
    case KYMO_E_CALL_DEPTH: return KYMO_E_CALL;
    case KYMO_E_RETURN_TO_DEPTH: return KYMO_E_RETURN_TO;
    case KYMO_E_RETURN_FROM_DEPTH: return KYMO_E_RETURN_FROM;
    case KYMO_E_EXCEPTION_FROM_DEPTH: return KYMO_E_EXCEPTION_FROM;
    case KYMO_E_SLOW_DEPTH: return KYMO_E_SLOW;
    default: return id;
    }
}

bool kymo_scan_decode(struct kymo_scan *s, struct kymo_event *ev)
{
    const uint8_t *p = s->base + s->body;
    const uint8_t *end = s->base + s->end;
    /* gc is not zeroed, which would take half of the time here: its entries are valid
     * only below n_gc. */
    memset(ev, 0, offsetof(struct kymo_event, gc));
    memset((uint8_t *)ev + offsetof(struct kymo_event, content), 0,
           sizeof *ev - offsetof(struct kymo_event, content));
    ev->id = plain_id(s->id);
    ev->who = KYMO_IDENT_NONE;
    ev->peer = KYMO_IDENT_NONE;
    ev->depth = KYMO_DEPTH_UNKNOWN;
    p = base_fields(s->id, p, end, ev);
    if (p != NULL && (s->variant & KYMO_HAS_CONTENT) != 0)
        p = content(p, end, ev);
    if (p != NULL && (s->variant & KYMO_HAS_OPTS) != 0)
        p = options(p, end, ev);
    if (p == NULL)
        return false;
    s->pos = (uint32_t)(p - s->base);
    return true;
}
