/* SPDX-License-Identifier: Apache-2.0 */
#include "nif_term.h"

#include <string.h>

#include "nif_atoms.h"
#include "nif_layout.h"

enum {
    ETF_NEW_FLOAT = 70,
    ETF_NEW_PID = 88,
    ETF_NEW_PORT = 89,
    ETF_SMALL_INTEGER = 97,
    ETF_INTEGER = 98,
    ETF_ATOM = 100,
    ETF_SMALL_TUPLE = 104,
    ETF_LARGE_TUPLE = 105,
    ETF_NIL = 106,
    ETF_STRING = 107,
    ETF_LIST = 108,
    ETF_BINARY = 109,
    ETF_SMALL_BIG = 110,
    ETF_MAP = 116,
    ETF_ATOM_UTF8 = 118,
    ETF_SMALL_ATOM_UTF8 = 119,
    ETF_V4_PORT = 120,
    ETF_VERSION = 131
};

static const uint8_t CUT_TEXT[NIF_CUT_BYTES] = {ETF_SMALL_ATOM_UTF8, 3, '.', '.', '.'};

/* In the first pass nothing is left out, and a term that does not fit ends the
 * pass; in the second, room for '...' is kept for all that is still to come. */
struct enc {
    ErlNifEnv *env;
    const struct nif_handle *h;
    uint8_t *p;
    bool cutting;
    bool cut;
};

static bool put(struct enc *e, uint8_t *end, ERL_NIF_TERM t, unsigned depth);

static size_t room(const struct enc *e, const uint8_t *end)
{
    return (size_t)(end - e->p);
}

/* The answer to "this does not fit". */
static bool put_cut(struct enc *e, const uint8_t *end)
{
    if (!e->cutting || room(e, end) < NIF_CUT_BYTES) {
        return false;
    }
    memcpy(e->p, CUT_TEXT, NIF_CUT_BYTES);
    e->p += NIF_CUT_BYTES;
    e->cut = true;
    return true;
}

/* As put_cut, but for what is left out of any pass: it is no question of room. */
static bool put_left_out(struct enc *e, const uint8_t *end)
{
    if (room(e, end) < NIF_CUT_BYTES) {
        return false;
    }
    memcpy(e->p, CUT_TEXT, NIF_CUT_BYTES);
    e->p += NIF_CUT_BYTES;
    e->cut = true;
    return true;
}

static uint8_t *be32(uint8_t *p, uint64_t v)
{
    p[0] = (uint8_t)(v >> 24);
    p[1] = (uint8_t)(v >> 16);
    p[2] = (uint8_t)(v >> 8);
    p[3] = (uint8_t)v;
    return p + 4;
}

static bool put_bytes(struct enc *e, const uint8_t *end, const uint8_t *bytes, size_t len)
{
    if (room(e, end) < len) {
        return put_cut(e, end);
    }
    memcpy(e->p, bytes, len);
    e->p += len;
    return true;
}

/* Kinds that only the runtime can encode. */
static bool put_by_runtime(struct enc *e, const uint8_t *end, ERL_NIF_TERM t)
{
    ErlNifBinary bin;
    if (enif_term_to_binary(e->env, t, &bin) == 0) {
        return put_left_out(e, end);
    }
    bool ok = bin.size > 1 && bin.data[0] == ETF_VERSION ? put_bytes(e, end, bin.data + 1, bin.size - 1)
                                                         : put_left_out(e, end);
    enif_release_binary(&bin);
    return ok;
}

#if ERL_NIF_MAJOR_VERSION > 2 || ERL_NIF_MINOR_VERSION >= 17
size_t nif_atom_text(ErlNifEnv *env, ERL_NIF_TERM atom, char out[static NIF_ATOM_MAX], bool *ok)
{
    int n = enif_get_atom(env, atom, out, NIF_ATOM_MAX, ERL_NIF_UTF8);
    *ok = n > 0;
    return n > 0 ? (size_t)n - 1 : 0;
}
#else
static size_t latin1_to_utf8(char *out, const uint8_t *in, size_t len)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        if (in[i] < 0x80) {
            out[n++] = (char)in[i];
        } else {
            out[n++] = (char)(0xc0 | in[i] >> 6);
            out[n++] = (char)(0x80 | (in[i] & 0x3f));
        }
    }
    return n;
}

/* Names outside of Latin-1 are only to be had as external terms. */
static size_t atom_text_slow(ErlNifEnv *env, ERL_NIF_TERM atom, char *out, bool *ok)
{
    ErlNifBinary bin;
    size_t n = 0;
    *ok = false;
    if (enif_term_to_binary(env, atom, &bin) == 0) {
        return 0;
    }
    const uint8_t *d = bin.data;
    size_t head = bin.size > 1 && d[1] == ETF_SMALL_ATOM_UTF8 ? 3 : 4;
    bool utf8 = bin.size > head && (d[1] == ETF_SMALL_ATOM_UTF8 || d[1] == ETF_ATOM_UTF8);
    if (utf8 && bin.size - head < NIF_ATOM_MAX) {
        n = bin.size - head;
        memcpy(out, d + head, n);
        *ok = true;
    }
    enif_release_binary(&bin);
    return n;
}

size_t nif_atom_text(ErlNifEnv *env, ERL_NIF_TERM atom, char out[static NIF_ATOM_MAX], bool *ok)
{
    char latin1[256];
    int n = enif_get_atom(env, atom, latin1, sizeof latin1, ERL_NIF_LATIN1);
    if (n <= 0) {
        return atom_text_slow(env, atom, out, ok);
    }
    *ok = true;
    return latin1_to_utf8(out, (const uint8_t *)latin1, (size_t)n - 1);
}
#endif

static bool put_atom(struct enc *e, const uint8_t *end, ERL_NIF_TERM t)
{
    char text[NIF_ATOM_MAX];
    bool ok;
    size_t n = nif_atom_text(e->env, t, text, &ok);
    size_t head = n < 256 ? 2 : 3;
    if (!ok) {
        return put_left_out(e, end);
    }
    if (room(e, end) < head + n) {
        return put_cut(e, end);
    }
    if (n < 256) {
        e->p[0] = ETF_SMALL_ATOM_UTF8;
        e->p[1] = (uint8_t)n;
    } else {
        e->p[0] = ETF_ATOM_UTF8;
        e->p[1] = (uint8_t)(n >> 8);
        e->p[2] = (uint8_t)n;
    }
    memcpy(e->p + head, text, n);
    e->p += head + n;
    return true;
}

static bool put_magnitude(struct enc *e, const uint8_t *end, uint64_t v, bool negative)
{
    uint8_t b[11] = {ETF_SMALL_BIG, 0, negative};
    uint8_t n = 0;
    while (v != 0) {
        b[3 + n++] = (uint8_t)v;
        v >>= 8;
    }
    b[1] = n;
    return put_bytes(e, end, b, (size_t)n + 3);
}

static bool put_int64(struct enc *e, const uint8_t *end, int64_t v)
{
    uint8_t b[5];
    if (v >= 0 && v < 256) {
        b[0] = ETF_SMALL_INTEGER;
        b[1] = (uint8_t)v;
        return put_bytes(e, end, b, 2);
    }
    if (v >= INT32_MIN && v <= INT32_MAX) {
        b[0] = ETF_INTEGER;
        be32(b + 1, (uint32_t)v);
        return put_bytes(e, end, b, 5);
    }
    return put_magnitude(e, end, v < 0 ? (uint64_t)0 - (uint64_t)v : (uint64_t)v, v < 0);
}

static bool put_integer(struct enc *e, const uint8_t *end, ERL_NIF_TERM t)
{
    ErlNifSInt64 s;
    ErlNifUInt64 u;
    if (nif_is_small(t)) {
        return put_int64(e, end, nif_small(t));
    }
    if (enif_get_int64(e->env, t, &s)) {
        return put_int64(e, end, s);
    }
    if (enif_get_uint64(e->env, t, &u)) {
        return put_magnitude(e, end, u, false);
    }
    /* A number may have megabytes: look before the runtime is asked. */
    if (nif_layout.header_ok && (nif_header(t) >> 6) * 8 > room(e, end) + 8) {
        return put_cut(e, end);
    }
    return put_by_runtime(e, end, t);
}

static bool put_float(struct enc *e, const uint8_t *end, ERL_NIF_TERM t)
{
    double d = 0;
    uint64_t u;
    uint8_t b[9] = {ETF_NEW_FLOAT};
    if (enif_get_double(e->env, t, &d) == 0) {
        return put_left_out(e, end);
    }
    memcpy(&u, &d, sizeof u);
    be32(be32(b + 1, u >> 32), u);
    return put_bytes(e, end, b, sizeof b);
}

static bool put_pid(struct enc *e, const uint8_t *end, ERL_NIF_TERM t)
{
    if (!nif_is_local_pid(t) || !nif_layout.pid.ok || e->h->node_len == 0) {
        return put_by_runtime(e, end, t);
    }
    if (room(e, end) < 13u + e->h->node_len) {
        return put_cut(e, end);
    }
    uint64_t data = nif_pid_data(t);
    *e->p++ = ETF_NEW_PID;
    memcpy(e->p, e->h->node_ext, e->h->node_len);
    e->p = be32(e->p + e->h->node_len, nif_pid_number(data));
    e->p = be32(e->p, nif_pid_serial(data));
    e->p = be32(e->p, e->h->creation);
    return true;
}

static bool put_port(struct enc *e, const uint8_t *end, ERL_NIF_TERM t)
{
    if (!nif_is_local_port(t) || !nif_layout.port.ok || e->h->node_len == 0) {
        return put_by_runtime(e, end, t);
    }
    if (room(e, end) < 13u + e->h->node_len) {
        return put_cut(e, end);
    }
    uint64_t number = nif_port_number(t);
    bool wide = number >> 28 != 0;
    *e->p++ = wide ? ETF_V4_PORT : ETF_NEW_PORT;
    memcpy(e->p, e->h->node_ext, e->h->node_len);
    e->p += e->h->node_len;
    if (wide) {
        e->p = be32(e->p, number >> 32);
    }
    e->p = be32(e->p, number);
    e->p = be32(e->p, e->h->creation);
    return true;
}

static bool put_bitstring(struct enc *e, const uint8_t *end, ERL_NIF_TERM t)
{
    ErlNifBinary bin;
    if (enif_inspect_binary(e->env, t, &bin) == 0) {
        return put_by_runtime(e, end, t);
    }
    size_t n = bin.size;
    if (room(e, end) < 5 + n) {
        if (!e->cutting || room(e, end) < 5) {
            return false;
        }
        n = room(e, end) - 5;
        e->cut = true;
    }
    *e->p++ = ETF_BINARY;
    e->p = be32(e->p, n);
    memcpy(e->p, bin.data, n);
    e->p += n;
    return true;
}

static bool put_fun(struct enc *e, const uint8_t *end, ERL_NIF_TERM t)
{
    static const uint8_t head[] = {ETF_SMALL_TUPLE, 2, ETF_SMALL_ATOM_UTF8, 4, '$', 'f', 'u', 'n',
                                   ETF_BINARY};
    char text[320];
    int n = enif_snprintf(text, sizeof text, "%T", t);
    if (n >= 4 && memcmp(text, "fun ", 4) == 0) {
        return put_by_runtime(e, end, t); /* fun M:F/A: just a name */
    }
    size_t len = n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1;
    if (room(e, end) < sizeof head + 4 + len) {
        return put_cut(e, end);
    }
    memcpy(e->p, head, sizeof head);
    e->p = be32(e->p + sizeof head, len);
    memcpy(e->p, text, len);
    e->p += len;
    e->cut = true;
    return true;
}

static bool put_tuple(struct enc *e, uint8_t *end, ERL_NIF_TERM t, unsigned depth)
{
    const ERL_NIF_TERM *el;
    int arity;
    if (enif_get_tuple(e->env, t, &arity, &el) == 0) {
        return put_left_out(e, end);
    }
    size_t n = (size_t)arity;
    size_t head = n < 256 ? 2 : 5;
    size_t min = e->cutting ? NIF_CUT_BYTES : 1;
    if (room(e, end) < head + (n == 0 ? 0 : min)) {
        return put_cut(e, end);
    }
    size_t fit = (room(e, end) - head) / min;
    size_t m = n < fit ? n : fit;
    if (m < n && !e->cutting) {
        return false;
    }
    if (n < 256) {
        *e->p++ = ETF_SMALL_TUPLE;
        *e->p++ = (uint8_t)m;
    } else {
        *e->p++ = ETF_LARGE_TUPLE;
        e->p = be32(e->p, m);
    }
    size_t whole = m < n ? m - 1 : m;
    for (size_t i = 0; i < whole; i++) {
        uint8_t *limit = e->cutting ? end - NIF_CUT_BYTES * (m - 1 - i) : end;
        if (!put(e, limit, el[i], depth + 1)) {
            return false;
        }
    }
    return m == n || put_cut(e, end);
}

/* Lists of bytes have a short form, which decodes to the same list. */
static bool put_string(struct enc *e, const uint8_t *end, ERL_NIF_TERM t, bool *done)
{
    size_t max = room(e, end) < 3 ? 0 : room(e, end) - 3;
    size_t n = 0;
    uint8_t *out = e->p + 3;
    ERL_NIF_TERM head, tail;
    *done = false;
    while (nif_is_list_cell(t)) {
        if (n == max || n == 65535 || enif_get_list_cell(e->env, t, &head, &tail) == 0 ||
            !nif_is_small(head) || nif_small(head) < 0 || nif_small(head) > 255) {
            return true;
        }
        out[n++] = (uint8_t)nif_small(head);
        t = tail;
    }
    if (t != NIF_NIL) {
        return true;
    }
    e->p[0] = ETF_STRING;
    e->p[1] = (uint8_t)(n >> 8);
    e->p[2] = (uint8_t)n;
    e->p += 3 + n;
    *done = true;
    return true;
}

static bool put_list(struct enc *e, uint8_t *end, ERL_NIF_TERM t, unsigned depth)
{
    bool done;
    put_string(e, end, t, &done);
    if (done) {
        return true;
    }
    /* header, one element, the tail */
    if (room(e, end) < (e->cutting ? 5 + 2 * NIF_CUT_BYTES : 7)) {
        return put_cut(e, end);
    }
    uint8_t *head = e->p;
    uint32_t n = 0;
    e->p += 5;
    ERL_NIF_TERM cell, tail;
    while (nif_is_list_cell(t) && enif_get_list_cell(e->env, t, &cell, &tail)) {
        if (e->cutting && room(e, end) < 2 * NIF_CUT_BYTES) {
            break;
        }
        if (!put(e, e->cutting ? end - NIF_CUT_BYTES : end, cell, depth + 1)) {
            return false;
        }
        n++;
        t = tail;
    }
    *head = ETF_LIST;
    be32(head + 1, n);
    if (nif_is_list_cell(t)) {
        return put_cut(e, end);
    }
    return put(e, end, t, depth + 1);
}

/* Two keys that lose something may become the same, and then no reader takes
 * the map: the first such key ends it. */
static bool put_pairs(struct enc *e, uint8_t *end, ErlNifMapIterator *it, size_t n, unsigned depth,
                      uint32_t *written)
{
    ERL_NIF_TERM key, value;
    bool dots = false;
    for (size_t i = 0; i < n; i++) {
        uint8_t *start = e->p;
        bool cut_before = e->cut;
        if (enif_map_iterator_get_pair(e->env, it, &key, &value) == 0) {
            return false;
        }
        /* room for this pair and for '...' => '...' after it */
        if (e->cutting && i + 1 < n && room(e, end) < 4 * NIF_CUT_BYTES) {
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
        enif_map_iterator_next(e->env, it);
    }
    if (*written == n) {
        return true;
    }
    e->cut = true;
    if (!dots) {
        (*written)++;
        return put_cut(e, end) && put_cut(e, end);
    }
    return true;
}

static bool put_map(struct enc *e, uint8_t *end, ERL_NIF_TERM t, unsigned depth)
{
    ErlNifMapIterator it;
    size_t n;
    if (enif_get_map_size(e->env, t, &n) == 0) {
        return put_left_out(e, end);
    }
    if (room(e, end) < 5 + (n == 0 ? 0 : e->cutting ? 2 * NIF_CUT_BYTES : 2)) {
        return put_cut(e, end);
    }
    if (enif_map_iterator_create(e->env, t, &it, ERL_NIF_MAP_ITERATOR_FIRST) == 0) {
        return put_left_out(e, end);
    }
    uint8_t *head = e->p;
    uint32_t written = 0;
    e->p += 5;
    bool ok = put_pairs(e, end, &it, n, depth + 1, &written);
    *head = ETF_MAP;
    be32(head + 1, written);
    enif_map_iterator_destroy(e->env, &it);
    return ok;
}

/* Appends t, never beyond end. In the second pass at least NIF_CUT_BYTES are
 * free and it can't fail. */
static bool put(struct enc *e, uint8_t *end, ERL_NIF_TERM t, unsigned depth)
{
    if (t == NIF_NIL) {
        const uint8_t nil = ETF_NIL;
        return put_bytes(e, end, &nil, 1);
    }
    if (depth > NIF_MAX_DEPTH) {
        return put_left_out(e, end);
    }
    switch (enif_term_type(e->env, t)) {
    case ERL_NIF_TERM_TYPE_ATOM: return put_atom(e, end, t);
    case ERL_NIF_TERM_TYPE_INTEGER: return put_integer(e, end, t);
    case ERL_NIF_TERM_TYPE_FLOAT: return put_float(e, end, t);
    case ERL_NIF_TERM_TYPE_PID: return put_pid(e, end, t);
    case ERL_NIF_TERM_TYPE_PORT: return put_port(e, end, t);
    case ERL_NIF_TERM_TYPE_REFERENCE: return put_by_runtime(e, end, t);
    case ERL_NIF_TERM_TYPE_BITSTRING: return put_bitstring(e, end, t);
    case ERL_NIF_TERM_TYPE_FUN: return put_fun(e, end, t);
    case ERL_NIF_TERM_TYPE_TUPLE: return put_tuple(e, end, t, depth);
    case ERL_NIF_TERM_TYPE_LIST: return put_list(e, end, t, depth);
    case ERL_NIF_TERM_TYPE_MAP: return put_map(e, end, t, depth);
    default: return put_left_out(e, end);
    }
}

size_t nif_term_encode(ErlNifEnv *env, const struct nif_handle *h, ERL_NIF_TERM t, uint8_t *out, size_t max,
                       bool *cut)
{
    struct enc e = {.env = env, .h = h, .p = out};
    if (!put(&e, out + max, t, 0)) {
        e.p = out;
        e.cutting = true;
        e.cut = true;
        put(&e, out + max, t, 0);
    }
    *cut = *cut || e.cut;
    return (size_t)(e.p - out);
}
