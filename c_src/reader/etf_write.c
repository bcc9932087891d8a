/* SPDX-License-Identifier: Apache-2.0 */
#include "etf_write.h"

enum {
    ATOM_CHARS_MAX = 255,
    ATOM_BYTES_MAX = 4 * ATOM_CHARS_MAX,
    /* What is still open while a term is checked: one count per nesting. */
    DEPTH_MAX = 512
};

enum tag {
    T_NEW_FLOAT = 70,
    T_BIT_BINARY = 77,
    T_NEW_PID = 88,
    T_NEW_PORT = 89,
    T_NEWER_REF = 90,
    T_SMALL_INT = 97,
    T_INT = 98,
    T_FLOAT = 99,
    T_ATOM = 100,
    T_PID = 103,
    T_PORT = 102,
    T_SMALL_TUPLE = 104,
    T_TUPLE = 105,
    T_NIL = 106,
    T_STRING = 107,
    T_LIST = 108,
    T_BINARY = 109,
    T_SMALL_BIG = 110,
    T_BIG = 111,
    T_NEW_FUN = 112,
    T_EXPORT = 113,
    T_NEW_REF = 114,
    T_SMALL_ATOM = 115,
    T_MAP = 116,
    T_UTF8_ATOM = 118,
    T_SMALL_UTF8_ATOM = 119,
    T_V4_PORT = 120
};

/* ---- writing ---- */

static uint8_t *put_be(uint8_t *p, uint64_t v, unsigned bytes)
{
    while (bytes-- > 0)
        *p++ = (uint8_t)(v >> (8 * bytes));
    return p;
}

/* Number of characters, or -1 when s is not UTF-8 as Erlang takes it. */
static int utf8_chars(const uint8_t *s, size_t len)
{
    int chars = 0;
    for (size_t i = 0; i < len; chars++) {
        unsigned more = s[i] < 0x80                   ? 0
                        : s[i] >= 0xc2 && s[i] < 0xe0 ? 1
                        : s[i] >= 0xe0 && s[i] < 0xf0 ? 2
                                                      : 3;
        if (s[i] >= 0x80 && (s[i] < 0xc2 || s[i] > 0xf4))
            return -1;
        uint32_t c = more == 0 ? s[i] : s[i] & (0x3fu >> more);
        if (len - i <= more)
            return -1;
        for (unsigned k = 1; k <= more; k++) {
            if ((s[i + k] & 0xc0u) != 0x80u)
                return -1;
            c = c << 6 | (s[i + k] & 0x3fu);
        }
        if ((more == 2 && c < 0x800) || (more == 3 && c < 0x10000) || c > 0x10ffff ||
            (c >= 0xd800 && c < 0xe000))
            return -1;
        i += more + 1;
    }
    return chars;
}

void kymo_etf_atom(struct kymo_pb *b, const char *s, size_t len)
{
    int chars = len <= ATOM_BYTES_MAX ? utf8_chars((const uint8_t *)s, len) : -1;
    if (chars < 0 || chars > ATOM_CHARS_MAX) {
        s = "?";
        len = 1;
    }
    uint8_t *p = kymo_pb_room(b, len + 3);
    if (p == NULL)
        return;
    if (len <= 255) {
        *p++ = T_SMALL_UTF8_ATOM;
        *p++ = (uint8_t)len;
    } else {
        *p++ = T_UTF8_ATOM;
        p = put_be(p, len, 2);
    }
    if (len > 0)
        memcpy(p, s, len);
    kymo_pb_took(b, p + len);
}

void kymo_etf_atom_z(struct kymo_pb *b, const char *s)
{
    kymo_etf_atom(b, s, strlen(s));
}

static void put_big(struct kymo_pb *b, uint64_t v, bool negative)
{
    uint8_t *p = kymo_pb_room(b, 11);
    if (p == NULL)
        return;
    uint8_t *start = p;
    *p++ = T_SMALL_BIG;
    p++;
    *p++ = negative ? 1 : 0;
    for (; v != 0; v >>= 8)
        *p++ = (uint8_t)v;
    start[1] = (uint8_t)(p - start - 3);
    kymo_pb_took(b, p);
}

void kymo_etf_uint(struct kymo_pb *b, uint64_t v)
{
    if (v > INT64_MAX)
        put_big(b, v, false);
    else
        kymo_etf_int(b, (int64_t)v);
}

void kymo_etf_int(struct kymo_pb *b, int64_t v)
{
    uint8_t *p = kymo_pb_room(b, 5);
    if (p == NULL)
        return;
    if (v >= 0 && v < 256) {
        *p++ = T_SMALL_INT;
        *p++ = (uint8_t)v;
    } else if (v >= INT32_MIN && v <= INT32_MAX) {
        *p++ = T_INT;
        p = put_be(p, (uint32_t)v, 4);
    } else {
        put_big(b, v < 0 ? 0 - (uint64_t)v : (uint64_t)v, v < 0);
        return;
    }
    kymo_pb_took(b, p);
}

void kymo_etf_tuple(struct kymo_pb *b, unsigned arity)
{
    uint8_t *p = kymo_pb_room(b, 2);
    if (p != NULL) {
        *p++ = T_SMALL_TUPLE;
        *p++ = (uint8_t)arity;
        kymo_pb_took(b, p);
    }
}

void kymo_etf_list(struct kymo_pb *b, uint32_t n)
{
    uint8_t *p = kymo_pb_room(b, 5);
    if (p != NULL) {
        *p++ = T_LIST;
        kymo_pb_took(b, put_be(p, n, 4));
    }
}

void kymo_etf_nil(struct kymo_pb *b)
{
    kymo_etf_raw(b, (const uint8_t[]){T_NIL}, 1);
}

static void put_node(struct kymo_pb *b, const struct kymo_meta *meta)
{
    size_t len = meta->node_len <= sizeof meta->node ? meta->node_len : 0;
    if (len == 0)
        kymo_etf_atom_z(b, "nonode@nohost");
    else
        kymo_etf_atom(b, (const char *)meta->node, len);
}

static void put_tag(struct kymo_pb *b, enum tag tag)
{
    kymo_etf_raw(b, (const uint8_t[]){(uint8_t)tag}, 1);
}

void kymo_etf_pid(struct kymo_pb *b, const struct kymo_meta *meta, uint32_t number, uint32_t serial)
{
    put_tag(b, T_NEW_PID);
    put_node(b, meta);
    uint8_t *p = kymo_pb_room(b, 12);
    if (p != NULL)
        kymo_pb_took(b, put_be(put_be(put_be(p, number, 4), serial, 4), meta->creation, 4));
}

void kymo_etf_port(struct kymo_pb *b, const struct kymo_meta *meta, uint64_t number)
{
    bool small = number < 1u << 28;
    put_tag(b, small ? T_NEW_PORT : T_V4_PORT);
    put_node(b, meta);
    uint8_t *p = kymo_pb_room(b, 12);
    if (p != NULL)
        kymo_pb_took(b, put_be(put_be(p, number, small ? 4 : 8), meta->creation, 4));
}

void kymo_etf_raw(struct kymo_pb *b, const uint8_t *bytes, size_t n)
{
    uint8_t *p = kymo_pb_room(b, n);
    if (p != NULL && n > 0) {
        memcpy(p, bytes, n);
        kymo_pb_took(b, p + n);
    }
}

/* ---- checking ---- */

struct check {
    const uint8_t *p, *end;
};

static bool skip(struct check *c, uint64_t n)
{
    if ((uint64_t)(c->end - c->p) < n)
        return false;
    c->p += n;
    return true;
}

static bool get_be(struct check *c, unsigned bytes, uint64_t *v)
{
    const uint8_t *at = c->p;
    if (!skip(c, bytes))
        return false;
    *v = 0;
    for (unsigned i = 0; i < bytes; i++)
        *v = *v << 8 | at[i];
    return true;
}

static bool check_atom(struct check *c, unsigned length_bytes, bool utf8)
{
    uint64_t n;
    if (!get_be(c, length_bytes, &n))
        return false;
    const uint8_t *s = c->p;
    if (!skip(c, n))
        return false;
    int chars = utf8 ? utf8_chars(s, (size_t)n) : (int)n;
    return chars >= 0 && chars <= ATOM_CHARS_MAX;
}

/* An atom inside another term: the node of a pid, port or reference. */
static bool check_node(struct check *c)
{
    uint64_t tag;
    if (!get_be(c, 1, &tag))
        return false;
    return (tag == T_SMALL_UTF8_ATOM && check_atom(c, 1, true)) ||
           (tag == T_UTF8_ATOM && check_atom(c, 2, true)) || (tag == T_ATOM && check_atom(c, 2, false)) ||
           (tag == T_SMALL_ATOM && check_atom(c, 1, false));
}

/* fun M:F/A */
static bool check_export(struct check *c)
{
    uint64_t arity;
    if (!check_node(c))
        return false;
    return check_node(c) && get_be(c, 2, &arity) && arity >> 8 == T_SMALL_INT;
}

static bool check_ref(struct check *c, unsigned creation_bytes)
{
    uint64_t words;
    return get_be(c, 2, &words) && words >= 1 && words <= 5 && check_node(c) &&
           skip(c, creation_bytes + 4 * words);
}

static bool check_bits(struct check *c)
{
    uint64_t n, bits;
    return get_be(c, 4, &n) && get_be(c, 1, &bits) && n > 0 && bits >= 1 && bits <= 8 && skip(c, n);
}

static bool check_float(struct check *c)
{
    uint64_t bits;
    /* Infinities and NaN don't exist in Erlang. */
    return get_be(c, 8, &bits) && (bits >> 52 & 0x7ff) != 0x7ff;
}

/* A count of four bytes, of elements that are `each` terms, and `extra` more. */
static bool check_count(struct check *c, unsigned each, unsigned extra, uint64_t *more)
{
    uint64_t n;
    if (!get_be(c, 4, &n))
        return false;
    *more = n * each + extra;
    return true;
}

/* Checks the head of a term and says how many terms belong to it: *more of them
 * must follow. */
static bool check_head(struct check *c, uint64_t *more)
{
    uint64_t tag, n;
    *more = 0;
    if (!get_be(c, 1, &tag))
        return false;
    switch ((enum tag)tag) {
    case T_SMALL_INT: return skip(c, 1);
    case T_INT: return skip(c, 4);
    case T_NEW_FLOAT: return check_float(c);
    case T_NIL: return true;
    case T_ATOM: return check_atom(c, 2, false);
    case T_SMALL_ATOM: return check_atom(c, 1, false);
    case T_UTF8_ATOM: return check_atom(c, 2, true);
    case T_SMALL_UTF8_ATOM: return check_atom(c, 1, true);
    case T_STRING: return get_be(c, 2, &n) && skip(c, n);
    case T_BINARY: return get_be(c, 4, &n) && skip(c, n);
    case T_BIT_BINARY: return check_bits(c);
    case T_SMALL_BIG: return get_be(c, 1, &n) && skip(c, n + 1);
    case T_BIG: return get_be(c, 4, &n) && skip(c, n + 1);
    case T_NEW_PID: return check_node(c) && skip(c, 12);
    case T_PID: return check_node(c) && skip(c, 9);
    case T_NEW_PORT: return check_node(c) && skip(c, 8);
    case T_V4_PORT: return check_node(c) && skip(c, 12);
    case T_PORT: return check_node(c) && skip(c, 5);
    case T_NEWER_REF: return check_ref(c, 4);
    case T_NEW_REF: return check_ref(c, 1);
    case T_SMALL_TUPLE: return get_be(c, 1, more);
    case T_TUPLE: return get_be(c, 4, more);
    case T_LIST: return check_count(c, 1, 1, more);
    case T_MAP: return check_count(c, 2, 0, more);
    case T_EXPORT: return check_export(c);
    /* Funs hold a size of their own and are rebuilt by few runtimes: the
     * recorder writes none. Old floats neither. */
    case T_NEW_FUN:
    case T_FLOAT: return false;
    }
    return false;
}

size_t kymo_etf_length(const uint8_t *p, size_t n)
{
    struct check c = {p, p + n};
    uint64_t open[DEPTH_MAX];
    unsigned depth = 0;
    do {
        uint64_t more;
        if (!check_head(&c, &more))
            return 0;
        /* Every term has a byte at least. */
        if (more > (uint64_t)(c.end - c.p))
            return 0;
        if (more > 0) {
            if (depth == DEPTH_MAX)
                return 0;
            open[depth++] = more;
        }
        while (depth > 0 && open[depth - 1] == 0)
            depth--;
        if (depth > 0)
            open[depth - 1]--;
        else
            break;
    } while (true);
    return (size_t)(c.p - p);
}
