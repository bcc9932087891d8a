/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "nif_encode.h"

static const uint8_t CUT_TEXT[NIF_CUT_BYTES] = {NIF_ETF_SMALL_ATOM_UTF8, 3, '.', '.', '.'};

bool nif_put_left_out(struct nif_enc *e, const uint8_t *end)
{
    if (nif_room(e, end) < NIF_CUT_BYTES) {
        return false;
    }
    memcpy(e->p, CUT_TEXT, NIF_CUT_BYTES);
    e->p += NIF_CUT_BYTES;
    e->cut = true;
    return true;
}

bool nif_put_cut(struct nif_enc *e, const uint8_t *end)
{
    return e->cutting && nif_put_left_out(e, end);
}

bool nif_put_bytes(struct nif_enc *e, const uint8_t *end, const uint8_t *bytes, size_t len)
{
    if (nif_room(e, end) < len) {
        return nif_put_cut(e, end);
    }
    memcpy(e->p, bytes, len);
    e->p += len;
    return true;
}

/* ---- atoms ---------------------------------------------------------------------------- */

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

/* Decodes a character after a backslash in a quoted atom, and moves *p past it. */
static unsigned escaped(const char **p)
{
    static const char names[] = "nftrbv", values[] = "\n\f\t\r\b\v";
    const char *name = strchr(names, **p);
    unsigned v = 0;
    if (**p < '0' || **p > '7') {
        char c = *(*p)++;
        return (uint8_t)(name == NULL ? c : values[name - names]);
    }
    for (int i = 0; i < 3 && **p >= '0' && **p <= '7'; i++) {
        v = v * 8 + (unsigned)(*(*p)++ - '0');
    }
    return v;
}

/* Gets the text of an atom that is not in Latin-1 by printing it: the external format would have
 * to be allocated. */
static size_t atom_text_slow(ERL_NIF_TERM atom, char *out, bool *ok)
{
    char text[NIF_ATOM_MAX + 8];
    int len = enif_snprintf(text, sizeof text, "%T", atom);
    size_t n = 0;
    *ok = len > 0 && (size_t)len < NIF_ATOM_MAX;
    if (!*ok) {
        return 0;
    }
    const char *p = text, *end = text + len;
    if (*p == '\'') {
        p++;
        end--;
    }
    while (p < end) {
        unsigned c = (uint8_t)*p++;
        if (c == '\\') {
            c = escaped(&p);
            /* Only these printed characters take two bytes. */
            if (c >= 0x80) {
                out[n++] = (char)0xc2;
            }
        }
        out[n++] = (char)c;
    }
    return n;
}

size_t nif_atom_text(ErlNifEnv *env, ERL_NIF_TERM atom, char out[static NIF_ATOM_MAX], bool *ok)
{
    char latin1[256];
    int n = enif_get_atom(env, atom, latin1, sizeof latin1, ERL_NIF_LATIN1);
    if (n <= 0) {
        return atom_text_slow(atom, out, ok);
    }
    *ok = true;
    return latin1_to_utf8(out, (const uint8_t *)latin1, (size_t)n - 1);
}
#endif

bool nif_put_atom(struct nif_enc *e, const uint8_t *end, ERL_NIF_TERM t)
{
    char text[NIF_ATOM_MAX];
    bool ok;
    size_t n = nif_atom_text(e->env, t, text, &ok);
    size_t head = n < 256 ? 2 : 3;
    if (!ok) {
        return nif_put_left_out(e, end);
    }
    if (nif_room(e, end) < head + n) {
        return nif_put_cut(e, end);
    }
    if (n < 256) {
        e->p[0] = NIF_ETF_SMALL_ATOM_UTF8;
        e->p[1] = (uint8_t)n;
    } else {
        e->p[0] = NIF_ETF_ATOM_UTF8;
        e->p[1] = (uint8_t)(n >> 8);
        e->p[2] = (uint8_t)n;
    }
    memcpy(e->p + head, text, n);
    e->p += head + n;
    return true;
}

/* Writes an atom that is a necessary part of a term. If it returns false, the caller leaves out
 * the whole term. */
static bool put_name(struct nif_enc *e, const uint8_t *end, ERL_NIF_TERM atom)
{
    bool cut_before = e->cut;
    e->cut = false;
    bool whole = nif_put_atom(e, end, atom) && !e->cut;
    e->cut = cut_before;
    return whole;
}

/* ---- numbers -------------------------------------------------------------------------- */

bool nif_put_small(struct nif_enc *e, const uint8_t *end, int64_t v)
{
    uint8_t b[11];
    if (v >= 0 && v < 256) {
        b[0] = NIF_ETF_SMALL_INTEGER;
        b[1] = (uint8_t)v;
        return nif_put_bytes(e, end, b, 2);
    }
    if (v >= INT32_MIN && v <= INT32_MAX) {
        b[0] = NIF_ETF_INTEGER;
        nif_be32(b + 1, (uint32_t)v);
        return nif_put_bytes(e, end, b, 5);
    }
    uint64_t magnitude = v < 0 ? (uint64_t)0 - (uint64_t)v : (uint64_t)v;
    uint8_t n = 0;
    for (; magnitude != 0; magnitude >>= 8) {
        b[3 + n++] = (uint8_t)magnitude;
    }
    b[0] = NIF_ETF_SMALL_BIG;
    b[1] = n;
    b[2] = v < 0;
    return nif_put_bytes(e, end, b, (size_t)n + 3);
}

/* A large integer, which may have megabytes, is written completely or not at all. */
static bool put_big(struct nif_enc *e, const uint8_t *end, ERL_NIF_TERM t, bool negative)
{
    size_t n;
    const uint64_t *digits = nif_digits(t, &n);
    size_t bytes = n * 8 - (n == 0 ? 0 : (size_t)__builtin_clzll(digits[n - 1] | 1u) / 8);
    size_t head = bytes < 256 ? 3 : 6;
    if (nif_room(e, end) < head + bytes) {
        return nif_put_cut(e, end);
    }
    if (bytes < 256) {
        *e->p++ = NIF_ETF_SMALL_BIG;
        *e->p++ = (uint8_t)bytes;
    } else {
        *e->p++ = NIF_ETF_LARGE_BIG;
        e->p = nif_be32(e->p, bytes);
    }
    *e->p++ = negative;
    memcpy(e->p, digits, bytes);
    e->p += bytes;
    return true;
}

static bool put_float(struct nif_enc *e, const uint8_t *end, ERL_NIF_TERM t)
{
    double d = nif_float(t);
    uint64_t u;
    uint8_t b[9] = {NIF_ETF_NEW_FLOAT};
    memcpy(&u, &d, sizeof u);
    nif_be32(nif_be32(b + 1, u >> 32), u);
    return nif_put_bytes(e, end, b, sizeof b);
}

/* ---- pids, ports, references -------------------------------------------------------------- */

/* A term with a node: a tag, for some two bytes with a count, the node, and the data after it.
 * Written completely or not at all. */
struct named {
    uint8_t head[3];
    size_t head_len;
    ERL_NIF_TERM node; /* 0: this one */
    uint32_t creation;
    uint32_t words[NIF_REF_NUMBERS];
    size_t n;
    bool creation_last;
};

static bool put_named(struct nif_enc *e, uint8_t const *end, const struct named *t)
{
    uint8_t *start = e->p;
    size_t rest = 4 * t->n + 4;
    size_t node_len = t->node == 0 ? e->h->node_len : 0;
    if (t->node == 0 && node_len == 0) {
        return nif_put_left_out(e, end);
    }
    if (nif_room(e, end) < t->head_len + node_len + rest) {
        return nif_put_cut(e, end);
    }
    memcpy(e->p, t->head, t->head_len);
    e->p += t->head_len;
    if (t->node == 0) {
        memcpy(e->p, e->h->node_ext, node_len);
        e->p += node_len;
    } else if (!put_name(e, end - rest, t->node)) {
        e->p = start;
        return nif_put_cut(e, end);
    }
    uint32_t creation = t->node == 0 ? e->h->creation : t->creation;
    if (!t->creation_last) {
        e->p = nif_be32(e->p, creation);
    }
    for (size_t i = 0; i < t->n; i++) {
        e->p = nif_be32(e->p, t->words[i]);
    }
    if (t->creation_last) {
        e->p = nif_be32(e->p, creation);
    }
    return true;
}

static bool put_external_pid(struct nif_enc *e, const uint8_t *end, ERL_NIF_TERM t)
{
    struct nif_external x = nif_external(t);
    struct named n = {.head = {NIF_ETF_NEW_PID},
                      .head_len = 1,
                      .node = x.node,
                      .creation = x.creation,
                      .words = {(uint32_t)x.data, (uint32_t)(x.data >> 32)},
                      .n = 2,
                      .creation_last = true};
    return put_named(e, end, &n);
}

static bool put_port(struct nif_enc *e, const uint8_t *end, const struct nif_external *x)
{
    struct named t = {.head_len = 1, .node = x->node, .creation = x->creation, .creation_last = true};
    bool wide = x->data >> 28 != 0;
    t.head[0] = wide ? NIF_ETF_V4_PORT : NIF_ETF_NEW_PORT;
    if (wide) {
        t.words[t.n++] = (uint32_t)(x->data >> 32);
    }
    t.words[t.n++] = (uint32_t)x->data;
    return put_named(e, end, &t);
}

/* A fast path, because most messages contain a local pid. */
bool nif_put_local_pid(struct nif_enc *e, const uint8_t *end, ERL_NIF_TERM t)
{
    enum { AROUND_NODE = 13 };
    const struct nif_handle *h = e->h;
    if (!nif_layout.pid.ok || h->node_len == 0) {
        return nif_put_left_out(e, end);
    }
    if (nif_room(e, end) < AROUND_NODE + h->node_len) {
        return nif_put_cut(e, end);
    }
    uint64_t data = nif_pid_data(t);
    uint8_t *p = e->p;
    *p++ = NIF_ETF_NEW_PID;
    memcpy(p, h->node_ext, h->node_len);
    p = nif_be32(p + h->node_len, nif_pid_number(data));
    p = nif_be32(p, nif_pid_serial(data));
    e->p = nif_be32(p, h->creation);
    return true;
}

bool nif_put_local_port(struct nif_enc *e, const uint8_t *end, ERL_NIF_TERM t)
{
    if (!nif_layout.port.ok) {
        return nif_put_left_out(e, end);
    }
    struct nif_external x = {.data = nif_port_number(t)};
    return put_port(e, end, &x);
}

static bool put_ref(struct nif_enc *e, const uint8_t *end, ERL_NIF_TERM t)
{
    struct nif_ref ref;
    if (!nif_ref(t, &ref)) {
        return nif_put_left_out(e, end);
    }
    struct named named = {.head = {NIF_ETF_NEWER_REF, 0, (uint8_t)ref.n},
                          .head_len = 3,
                          .node = ref.node,
                          .creation = ref.creation,
                          .n = ref.n};
    memcpy(named.words, ref.number, ref.n * sizeof *ref.number);
    return put_named(e, end, &named);
}

/* ---- binaries and funs ---------------------------------------------------------------------- */

/* If a binary does not fit, its end is cut off at a whole byte. */
static bool put_bits(struct nif_enc *e, const uint8_t *end, ERL_NIF_TERM t)
{
    const size_t head = 5;
    struct nif_bits b = nif_bits(t);
    unsigned tail = (unsigned)(b.bits % 8);
    uint64_t last = tail != 0, bytes = b.bits / 8 + last, bits = b.bits;
    if (nif_room(e, end) < head + last + bytes) {
        if (!e->cutting || nif_room(e, end) < head) {
            return false;
        }
        bytes = nif_room(e, end) - head;
        bytes = bytes < b.bits / 8 ? bytes : b.bits / 8;
        bits = bytes * 8;
        tail = 0;
        e->cut = true;
    }
    *e->p++ = tail == 0 ? NIF_ETF_BINARY : NIF_ETF_BIT_BINARY;
    e->p = nif_be32(e->p, bytes);
    if (tail != 0) {
        *e->p++ = (uint8_t)tail;
    }
    nif_bits_copy(&b, bits, e->p);
    e->p += bytes;
    return true;
}

static bool put_export(struct nif_enc *e, const uint8_t *end, const ERL_NIF_TERM *mfa)
{
    enum { ARITY = 2, ARITY_LEN = 2 };
    uint8_t *start = e->p;
    if (nif_room(e, end) > ARITY_LEN + 1) {
        *e->p++ = NIF_ETF_EXPORT;
        if (put_name(e, end - ARITY_LEN, mfa[0]) && put_name(e, end - ARITY_LEN, mfa[1])) {
            *e->p++ = NIF_ETF_SMALL_INTEGER;
            *e->p++ = (uint8_t)mfa[ARITY];
            return true;
        }
    }
    e->p = start;
    return nif_put_cut(e, end);
}

/* Writes the text that the runtime prints for a fun, which does not include its environment. */
static bool put_fun(struct nif_enc *e, const uint8_t *end, ERL_NIF_TERM t)
{
    static const uint8_t head[] = {NIF_ETF_SMALL_TUPLE, 2, NIF_ETF_SMALL_ATOM_UTF8, 4, '$', 'f', 'u', 'n',
                                   NIF_ETF_BINARY};
    char text[320];
    int n = enif_snprintf(text, sizeof text, "%T", t);
    if (n >= 4 && memcmp(text, "fun ", 4) == 0 && nif_export_mfa(t) != NULL) {
        return put_export(e, end, nif_export_mfa(t));
    }
    size_t len = n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1;
    if (nif_room(e, end) < sizeof head + 4 + len) {
        return nif_put_cut(e, end);
    }
    memcpy(e->p, head, sizeof head);
    e->p = nif_be32(e->p + sizeof head, len);
    memcpy(e->p, text, len);
    e->p += len;
    e->cut = true;
    return true;
}

bool nif_put_leaf(struct nif_enc *e, const uint8_t *end, ERL_NIF_TERM t)
{
    enum nif_kind kind = nif_kind(t);
    struct nif_external x;
    switch (kind) {
    case NIF_BIG_POSITIVE:
    case NIF_BIG_NEGATIVE: return put_big(e, end, t, kind == NIF_BIG_NEGATIVE);
    case NIF_FLOAT: return put_float(e, end, t);
    case NIF_REF:
    case NIF_EXTERNAL_REF: return put_ref(e, end, t);
    case NIF_EXTERNAL_PID: return put_external_pid(e, end, t);
    case NIF_EXTERNAL_PORT: x = nif_external(t); return put_port(e, end, &x);
    case NIF_HEAP_BITS:
    case NIF_REFC_BITS:
    case NIF_SUB_BITS: return put_bits(e, end, t);
    case NIF_FUN: return put_fun(e, end, t);
    default: return nif_put_left_out(e, end);
    }
}
