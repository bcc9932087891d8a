/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks whether bytes are an external term, and whether a runtime can decode it. The bytes are
 * not trusted; time and memory are bounded by their number.
 */
#include <stdlib.h>

#include "etf_check.h"
#include "etf_tags.h"

#include <string.h>

enum {
    ATOM_CHARS_MAX = 255,
    /* What is still open while a term is checked: one count per nesting. */
    DEPTH_MAX = 512,
    NESTED_MAPS = 64
};

int kymo_etf_chars(const uint8_t *s, size_t len)
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

/* True before OTP 26, when pids, ports and references of the local node were smaller. */
static bool is_old(const struct kymo_meta *meta)
{
    return strtol(meta->otp_release, NULL, 10) < 26;
}

bool kymo_etf_may_be_pid(const struct kymo_meta *meta, uint64_t number, uint64_t serial)
{
    return is_old(meta) ? number < 1u << 15 && serial < 1u << 13 : number < 1u << 28 && serial <= UINT32_MAX;
}

bool kymo_etf_may_be_port(const struct kymo_meta *meta, uint64_t number)
{
    return number < (is_old(meta) ? 1ull << 28 : 1ull << 60);
}

struct check {
    const uint8_t *p, *end;
    const struct kymo_meta *meta; /* NULL: check only the form */
    uint64_t budget;              /* bytes of maps that may be skipped to compare keys */
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
    int chars = utf8 ? kymo_etf_chars(s, (size_t)n) : (int)n;
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

/* True if the atom between `at` and the present position is the name of the recorded node. */
static bool is_local(const struct check *c, const uint8_t *at)
{
    static const char nobody[] = "nonode@nohost";
    if (c->meta == NULL)
        return false;
    const uint8_t *name = c->meta->node_len > 0 ? c->meta->node : (const uint8_t *)nobody;
    size_t n = c->meta->node_len > 0 ? c->meta->node_len : sizeof nobody - 1;
    size_t head = at[0] == T_SMALL_ATOM || at[0] == T_SMALL_UTF8_ATOM ? 2 : 3;
    return (size_t)(c->p - at) == head + n && memcmp(at + head, name, n) == 0;
}

static bool check_pid(struct check *c, unsigned creation_bytes)
{
    const uint8_t *at = c->p;
    uint64_t number, serial;
    if (!check_node(c))
        return false;
    bool local = is_local(c, at);
    return get_be(c, 4, &number) && get_be(c, 4, &serial) && skip(c, creation_bytes) &&
           (!local || kymo_etf_may_be_pid(c->meta, number, serial));
}

static bool check_port(struct check *c, unsigned number_bytes, unsigned creation_bytes)
{
    const uint8_t *at = c->p;
    uint64_t number;
    if (!check_node(c))
        return false;
    bool local = is_local(c, at);
    return get_be(c, number_bytes, &number) && skip(c, creation_bytes) &&
           (!local || kymo_etf_may_be_port(c->meta, number));
}

static bool check_ref(struct check *c, unsigned creation_bytes)
{
    uint64_t words, first;
    if (!get_be(c, 2, &words) || words < 1 || words > 5)
        return false;
    const uint8_t *at = c->p;
    if (!check_node(c))
        return false;
    bool local = is_local(c, at);
    return skip(c, creation_bytes) && get_be(c, 4, &first) && skip(c, 4 * (words - 1)) &&
           (!local || (first < 1u << 18 && (words <= 3 || !is_old(c->meta))));
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

/* Reads a count of four bytes, for elements of `each` terms. Adds `extra` terms. */
static bool check_count(struct check *c, unsigned each, unsigned extra, uint64_t *more)
{
    uint64_t n;
    if (!get_be(c, 4, &n))
        return false;
    *more = n * each + extra;
    return true;
}

struct key {
    const uint8_t *p;
    size_t n;
};

static int by_bytes(const void *a, const void *b)
{
    const struct key *x = a, *y = b;
    int order = memcmp(x->p, y->p, x->n < y->n ? x->n : y->n);
    return order != 0 ? order : (x->n > y->n) - (x->n < y->n);
}

static bool step_over(struct check *c, const uint8_t **p, struct key *k)
{
    k->p = *p;
    k->n = kymo_etf_length(*p, (size_t)(c->end - *p));
    *p += k->n;
    if (k->n == 0 || k->n > c->budget)
        return false;
    c->budget -= k->n;
    return true;
}

/* Rejects maps with equal keys, as binary_to_term/1 does. */
static bool check_keys(struct check *c, uint64_t n)
{
    if (c->meta == NULL || n < 2)
        return true;
    if (n > (uint64_t)(c->end - c->p) / 2)
        return false;
    struct key *keys = malloc((size_t)n * sizeof *keys), value;
    const uint8_t *p = c->p;
    bool ok = keys != NULL;
    for (uint64_t i = 0; i < n && ok; i++)
        ok = step_over(c, &p, &keys[i]) && step_over(c, &p, &value);
    if (ok)
        qsort(keys, (size_t)n, sizeof *keys, by_bytes);
    for (uint64_t i = 1; i < n && ok; i++)
        ok = by_bytes(&keys[i - 1], &keys[i]) != 0;
    free(keys);
    return ok;
}

/* Checks the head of a term. *more is the number of terms inside it, which must follow. */
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
    case T_NEW_PID: return check_pid(c, 4);
    case T_PID: return check_pid(c, 1);
    case T_NEW_PORT: return check_port(c, 4, 4);
    case T_V4_PORT: return check_port(c, 8, 4);
    case T_PORT: return check_port(c, 4, 1);
    case T_NEWER_REF: return check_ref(c, 4);
    case T_NEW_REF: return check_ref(c, 1);
    case T_SMALL_TUPLE: return get_be(c, 1, more);
    case T_TUPLE: return get_be(c, 4, more);
    case T_LIST: return check_count(c, 1, 1, more);
    case T_MAP: return check_count(c, 2, 0, more) && check_keys(c, *more / 2);
    case T_EXPORT: return check_export(c);
    /* The recorder writes neither funs, which only few runtimes can decode, nor old floats. */
    case T_NEW_FUN:
    case T_FLOAT: return false;
    }
    return false;
}

static bool check_term(struct check *c)
{
    uint64_t open[DEPTH_MAX];
    unsigned depth = 0;
    do {
        uint64_t more;
        if (!check_head(c, &more))
            return false;
        /* Each term has at least one byte. */
        if (more > (uint64_t)(c->end - c->p))
            return false;
        if (more > 0) {
            if (depth == DEPTH_MAX)
                return false;
            open[depth++] = more;
        }
        while (depth > 0 && open[depth - 1] == 0)
            depth--;
        if (depth > 0)
            open[depth - 1]--;
        else
            break;
    } while (true);
    return true;
}

size_t kymo_etf_length(const uint8_t *p, size_t n)
{
    struct check c = {p, p + n, NULL, 0};
    return check_term(&c) ? (size_t)(c.p - p) : 0;
}

bool kymo_etf_readable(const struct kymo_meta *meta, const uint8_t *p, size_t n)
{
    /* Nested maps are skipped once for each map that contains them. */
    struct check c = {p, p + n, meta, (uint64_t)n * NESTED_MAPS};
    return check_term(&c) && c.p == c.end;
}
