/* SPDX-License-Identifier: Apache-2.0 */
#include "nif_record.h"

#include <time.h>

#include "nif_atoms.h"
#include "nif_term.h"

/* Room for the peer of a message, in addition to the bound of the contents: a reference with the
 * longest name of a node. */
enum { PEER_MAX = 1088 };

void nif_options_time(ErlNifEnv *env, ERL_NIF_TERM how, struct nif_options *o)
{
    if (how == nif_am.timestamp) {
        o->ts = KYMO_TS_TIMESTAMP;
        o->a = enif_monotonic_time(ERL_NIF_NSEC) + enif_time_offset(ERL_NIF_NSEC);
    } else if (how == nif_am.cpu_timestamp) {
        struct timespec ts = {0, 0};
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
        o->ts = KYMO_TS_CPU;
        o->a = (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
    } else if (how == nif_am.monotonic) {
        o->ts = KYMO_TS_MONOTONIC;
        o->a = enif_monotonic_time(ERL_NIF_NSEC);
    } else if (how == nif_am.strict_monotonic) {
        ErlNifSInt64 unique = 0;
        o->ts = KYMO_TS_STRICT;
        o->a = enif_monotonic_time(ERL_NIF_NSEC);
        enif_get_int64(env, enif_make_unique_integer(env, ERL_NIF_UNIQUE_MONOTONIC), &unique);
        o->b = unique;
    } else {
        return;
    }
    o->flags |= KYMO_O_TS;
}

void nif_options_read(ErlNifEnv *env, ERL_NIF_TERM map, struct nif_options *o)
{
    size_t n;
    ERL_NIF_TERM v;
    unsigned sched;
    memset(o, 0, sizeof *o);
    if (enif_get_map_size(env, map, &n) == 0 || n == 0) {
        return;
    }
    if (enif_get_map_value(env, map, nif_am.extra, &v)) {
        o->extra = v;
        if (--n == 0) {
            return;
        }
    }
    if (enif_get_map_value(env, map, nif_am.match_spec_result, &v)) {
        o->msr = v;
        o->flags |= KYMO_O_MSR;
    }
    if (enif_get_map_value(env, map, nif_am.scheduler_id, &v) && enif_get_uint(env, v, &sched)) {
        o->sched = (uint16_t)sched;
        o->flags |= KYMO_O_SCHED;
    }
    if (enif_get_map_value(env, map, nif_am.timestamp, &v)) {
        nif_options_time(env, v, o);
    }
}

static size_t content_bound(const struct nif_event *ev)
{
    size_t max = ev->h->content_max;
    return max < 2 * NIF_CUT_BYTES ? 2 * NIF_CUT_BYTES : max;
}

static size_t content_room(const struct nif_event *ev, enum nif_shape shape)
{
    switch (shape) {
    case NIF_NO_CONTENT: return 0;
    case NIF_ONE: return KYMO_CONTENT_HDR + content_bound(ev);
    case NIF_PEER: return KYMO_CONTENT_HDR + 2 + content_bound(ev) + PEER_MAX;
    default: return KYMO_CONTENT_HDR + 5 + content_bound(ev);
    }
}

static size_t one_bound(const struct nif_event *ev)
{
    return ev->h->content_max < NIF_CUT_BYTES ? NIF_CUT_BYTES : ev->h->content_max;
}

static uint8_t *write_content(const struct nif_event *ev, const struct nif_record *r, uint8_t *p)
{
    enum { SMALL_TUPLE = 104, LIST = 108 };
    bool cut = false;
    uint8_t *start = p + KYMO_CONTENT_HDR;
    uint8_t *q = start;
    size_t bound = content_bound(ev);
    if (r->shape == NIF_ONE) {
        q += nif_term_encode(ev->env, ev->h, r->first, q, one_bound(ev), &cut);
    } else {
        if (r->shape == NIF_CONS) {
            *q++ = LIST;
            q = kymo_put32(q, 0x01000000u); /* one element, big-endian */
        } else {
            *q++ = SMALL_TUPLE;
            *q++ = 2;
        }
        size_t keep = r->shape == NIF_PEER ? 0 : NIF_CUT_BYTES;
        size_t n = nif_term_encode(ev->env, ev->h, r->first, q, bound - keep, &cut);
        q += n;
        q += nif_term_encode(ev->env, ev->h, r->second, q, r->shape == NIF_PEER ? PEER_MAX : bound - n, &cut);
    }
    uint8_t flags = (uint8_t)((cut ? KYMO_C_CUT : 0u) | (r->shape == NIF_PEER ? KYMO_C_PAIR : 0u));
    kymo_put16(kymo_put8(p, flags), (uint16_t)(q - start));
    return q;
}

static uint8_t *write_options(const struct nif_event *ev, const struct nif_options *o, uint8_t *p)
{
    bool cut = false;
    size_t n = 0;
    if ((o->flags & KYMO_O_MSR) != 0) {
        n = nif_term_encode(ev->env, ev->h, o->msr, p + KYMO_OPTS_HDR, one_bound(ev), &cut);
    }
    p = kymo_put8(p, (uint8_t)(o->flags | (cut ? KYMO_O_MSR_CUT : 0u)));
    p = kymo_put16(p, o->sched);
    p = kymo_put8(p, o->ts);
    p = kymo_put64(p, (uint64_t)o->a);
    p = kymo_put64(p, (uint64_t)o->b);
    p = kymo_put16(p, (uint16_t)n);
    return p + n;
}

void nif_record_write(const struct nif_event *ev, const struct nif_record *r)
{
    bool opts = r->options != NULL && r->options->flags != 0;
    unsigned id = r->id;
    size_t max = r->len + content_room(ev, r->shape);
    if (r->shape != NIF_NO_CONTENT) {
        id |= KYMO_HAS_CONTENT;
    }
    if (opts) {
        id |= KYMO_HAS_OPTS;
        max += KYMO_OPTS_HDR + ((r->options->flags & KYMO_O_MSR) != 0 ? one_bound(ev) : 0);
    }
    uint8_t *p = kymo_reserve(ev->w, id, max);
    if (p == NULL) {
        return;
    }
    memcpy(p, r->body, r->len);
    p += r->len;
    if (r->shape != NIF_NO_CONTENT) {
        p = write_content(ev, r, p);
    }
    if (opts) {
        p = write_options(ev, r->options, p);
    }
    kymo_commit(ev->w, p);
}
