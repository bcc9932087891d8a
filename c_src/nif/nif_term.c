/* SPDX-License-Identifier: Apache-2.0 */
#include "nif_term.h"

#include <string.h>

#include "nif_atoms.h"
#include "nif_encode.h"
#include "nif_map.h"

static bool put(struct nif_enc *e, uint8_t *end, ERL_NIF_TERM t, unsigned depth);

static bool put_tuple(struct nif_enc *e, uint8_t *end, ERL_NIF_TERM t, unsigned depth)
{
    const ERL_NIF_TERM *el = nif_words(t) + 1;
    size_t n = (size_t)(nif_header(t) >> 6);
    size_t head = n < 256 ? 2 : 5;
    size_t min = e->cutting ? NIF_CUT_BYTES : 1;
    if (nif_room(e, end) < head + (n == 0 ? 0 : min)) {
        return nif_put_cut(e, end);
    }
    size_t fit = (nif_room(e, end) - head) / min;
    size_t m = n < fit ? n : fit;
    if (m < n && !e->cutting) {
        return false;
    }
    if (n < 256) {
        *e->p++ = NIF_ETF_SMALL_TUPLE;
        *e->p++ = (uint8_t)m;
    } else {
        *e->p++ = NIF_ETF_LARGE_TUPLE;
        e->p = nif_be32(e->p, m);
    }
    size_t whole = m < n ? m - 1 : m;
    for (size_t i = 0; i < whole; i++) {
        uint8_t *limit = e->cutting ? end - NIF_CUT_BYTES * (m - 1 - i) : end;
        if (!put(e, limit, el[i], depth + 1)) {
            return false;
        }
    }
    return m == n || nif_put_cut(e, end);
}

/* Writes a list of bytes in its short form, which decodes to the same list. */
static void put_string(struct nif_enc *e, const uint8_t *end, ERL_NIF_TERM t, bool *done)
{
    size_t max = nif_room(e, end) < 3 ? 0 : nif_room(e, end) - 3;
    size_t n = 0;
    uint8_t *out = e->p + 3;
    *done = false;
    while (nif_is_list_cell(t)) {
        ERL_NIF_TERM head = nif_words(t)[0];
        if (n == max || n == 65535 || !nif_is_small(head) || nif_small(head) < 0 || nif_small(head) > 255) {
            return;
        }
        out[n++] = (uint8_t)nif_small(head);
        t = nif_words(t)[1];
    }
    if (t != NIF_NIL) {
        return;
    }
    e->p[0] = NIF_ETF_STRING;
    e->p[1] = (uint8_t)(n >> 8);
    e->p[2] = (uint8_t)n;
    e->p += 3 + n;
    *done = true;
}

static bool put_list(struct nif_enc *e, uint8_t *end, ERL_NIF_TERM t, unsigned depth)
{
    bool done;
    put_string(e, end, t, &done);
    if (done) {
        return true;
    }
    /* header, one element, the tail */
    if (nif_room(e, end) < (e->cutting ? 5 + 2 * NIF_CUT_BYTES : 7)) {
        return nif_put_cut(e, end);
    }
    uint8_t *head = e->p;
    uint32_t n = 0;
    e->p += 5;
    while (nif_is_list_cell(t)) {
        const ERL_NIF_TERM *cell = nif_words(t);
        if (e->cutting && nif_room(e, end) < 2 * NIF_CUT_BYTES) {
            break;
        }
        if (!put(e, e->cutting ? end - NIF_CUT_BYTES : end, cell[0], depth + 1)) {
            return false;
        }
        n++;
        t = cell[1];
    }
    *head = NIF_ETF_LIST;
    nif_be32(head + 1, n);
    if (nif_is_list_cell(t)) {
        return nif_put_cut(e, end);
    }
    return put(e, end, t, depth + 1);
}

/* Ends at the first key that was cut: two keys might become equal by cutting, and readers would
 * reject the map. */
static bool put_pairs(struct nif_enc *e, uint8_t *end, struct nif_map_iter *it, unsigned depth,
                      uint32_t *written)
{
    ERL_NIF_TERM key, value;
    bool dots = false;
    size_t n = it->n;
    for (size_t i = 0; i < n; i++) {
        uint8_t *start = e->p;
        bool cut_before = e->cut;
        /* room for this pair and for '...' => '...' after it */
        if (e->cutting && i + 1 < n && nif_room(e, end) < 4 * NIF_CUT_BYTES) {
            break;
        }
        if (!nif_map_next(it, &key, &value)) {
            break;
        }
        size_t later = !e->cutting ? 0 : i + 1 < n ? 2 * NIF_CUT_BYTES : 0;
        e->cut = false;
        bool ok = put(e, end - later - (e->cutting ? NIF_CUT_BYTES : 0), key, depth);
        bool key_cut = e->cut;
        e->cut = cut_before;
        if (!ok || (key_cut && !e->cutting)) {
            return false;
        }
        if (key_cut) {
            e->p = start;
            break;
        }
        if (!put(e, end - later, value, depth)) {
            return false;
        }
        dots = dots || key == nif_am.dots;
        (*written)++;
    }
    if (*written == n) {
        return true;
    }
    e->cut = true;
    if (!dots) {
        (*written)++;
        return nif_put_cut(e, end) && nif_put_cut(e, end);
    }
    return true;
}

static bool put_map(struct nif_enc *e, uint8_t *end, struct nif_map_iter *it, unsigned depth)
{
    if (nif_room(e, end) < 5 + (it->n == 0 ? 0u : e->cutting ? 2 * NIF_CUT_BYTES : 2u)) {
        return nif_put_cut(e, end);
    }
    uint8_t *head = e->p;
    uint32_t written = 0;
    e->p += 5;
    bool ok = put_pairs(e, end, it, depth + 1, &written);
    *head = NIF_ETF_MAP;
    nif_be32(head + 1, written);
    return ok;
}

/* Writes a native record as {'$record', Module, Name, #{Field => Value}}, since readers on other
 * releases do not know records. Leaves it out if its names do not fit. */
static __attribute__((noinline)) bool put_record(struct nif_enc *e, uint8_t *end, ERL_NIF_TERM t,
                                                 unsigned depth)
{
    enum { TAG_LEN = 9, NAMES = 2, MAP_LEN = 5 + 2 * NIF_CUT_BYTES };
    static const uint8_t tag[2 + TAG_LEN] = {
        NIF_ETF_SMALL_TUPLE, 4, NIF_ETF_SMALL_ATOM_UTF8, 7, '$', 'r', 'e', 'c', 'o', 'r', 'd'};
    struct nif_fields f = nif_fields(t);
    const ERL_NIF_TERM names[NAMES] = {f.module, f.name};
    uint8_t *start = e->p;
    bool cut_before = e->cut;
    e->cut = false;
    bool ok = nif_room(e, end) >= sizeof tag + MAP_LEN + NAMES * NIF_CUT_BYTES &&
              nif_put_bytes(e, end, tag, sizeof tag);
    for (size_t i = 0; ok && i < NAMES; i++) {
        ok = nif_put_atom(e, end - MAP_LEN - (NAMES - 1 - i) * NIF_CUT_BYTES, names[i]) && !e->cut;
    }
    e->cut = cut_before;
    if (!ok) {
        e->p = start;
        return nif_put_cut(e, end);
    }
    struct nif_map_iter it;
    nif_map_begin_arrays(&it, f.keys, f.values, f.n);
    return put_map(e, end, &it, depth);
}

/* Not inlined, because it needs more stack than the frequent cases. */
static __attribute__((noinline)) bool put_map_term(struct nif_enc *e, uint8_t *end, ERL_NIF_TERM t,
                                                   unsigned depth)
{
    struct nif_map_iter it;
    return nif_map_begin(&it, t) ? put_map(e, end, &it, depth) : nif_put_left_out(e, end);
}

static bool put_boxed(struct nif_enc *e, uint8_t *end, ERL_NIF_TERM t, unsigned depth)
{
    switch (nif_kind(t)) {
    case NIF_TUPLE: return put_tuple(e, end, t, depth);
    case NIF_MAP: return put_map_term(e, end, t, depth);
    case NIF_RECORD: return put_record(e, end, t, depth);
    default: return nif_put_leaf(e, end, t);
    }
}

/* Appends t. */
static bool put(struct nif_enc *e, uint8_t *end, ERL_NIF_TERM t, unsigned depth)
{
    static const uint8_t nil = NIF_ETF_NIL;
    if (t == NIF_NIL) {
        return nif_put_bytes(e, end, &nil, 1);
    }
    if (nif_is_atom(t)) {
        return nif_put_atom(e, end, t);
    }
    if (nif_is_small(t)) {
        return nif_put_small(e, end, nif_small(t));
    }
    if (nif_is_local_pid(t)) {
        return nif_put_local_pid(e, end, t);
    }
    if (nif_is_local_port(t)) {
        return nif_put_local_port(e, end, t);
    }
    if (depth > NIF_MAX_DEPTH || nif_is_immediate(t) || !nif_layout.header_ok) {
        return nif_put_left_out(e, end);
    }
    return nif_is_list_cell(t) ? put_list(e, end, t, depth) : put_boxed(e, end, t, depth);
}

size_t nif_term_encode(ErlNifEnv *env, const struct nif_handle *h, ERL_NIF_TERM t, uint8_t *out, size_t max,
                       bool *cut)
{
    struct nif_enc e = {.env = env, .h = h, .p = out};
    if (!put(&e, out + max, t, 0)) {
        e.p = out;
        e.cutting = true;
        e.cut = true;
        put(&e, out + max, t, 0);
    }
    *cut = *cut || e.cut;
    return (size_t)(e.p - out);
}
