/* SPDX-License-Identifier: Apache-2.0
 *
 * Formats external terms as the Erlang shell prints them. The bytes are not trusted: each
 * element takes at least one byte, nesting is bounded, and at the first error '...' is written
 * and the open brackets are closed.
 *
 * Deliberate differences: lists are printed as strings if all characters are printable Latin-1
 * (the shell's default), but binaries if they are printable Unicode; integers of more than 256
 * bytes are printed in base 16; pids of other nodes have the name of the node.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "etf_tags.h"
#include "kymo_reader_int.h"
#include "kymo_sink.h"

enum { MAX_DEPTH = 200, MAX_DECIMAL_BYTES = 256 };

struct parser {
    const uint8_t *p, *end;
    struct kymo_sink *out;
    const struct kymo_reader *local; /* the recorded node is local; NULL = none is */
    unsigned depth;
    bool marked; /* damage has been found and shown */
};

static bool term(struct parser *s);

static void mark(struct parser *s)
{
    if (!s->marked)
        kymo_sink_text(s->out, "'...'", 5);
    s->marked = true;
}

/* ---- taking bytes ---- */

static const uint8_t *take(struct parser *s, size_t n)
{
    if ((size_t)(s->end - s->p) < n)
        return NULL;
    const uint8_t *at = s->p;
    s->p += n;
    return at;
}

/* A big-endian number of 1, 2, 4 or 8 bytes. */
static bool number(struct parser *s, size_t n, uint64_t *v)
{
    const uint8_t *b = take(s, n);
    *v = 0;
    for (size_t i = 0; b != NULL && i < n; i++)
        *v = *v << 8 | b[i];
    return b != NULL;
}

struct atom {
    const uint8_t *s;
    size_t n;
    bool latin1;
};

static bool take_atom(struct parser *s, struct atom *a)
{
    const uint8_t *tag = take(s, 1);
    uint64_t n;
    if (tag == NULL)
        return false;
    switch (*tag) {
    case T_ATOM:
    case T_UTF8_ATOM:
        if (!number(s, 2, &n))
            return false;
        break;
    case T_SMALL_ATOM:
    case T_SMALL_UTF8_ATOM:
        if (!number(s, 1, &n))
            return false;
        break;
    default: return false;
    }
    a->n = (size_t)n;
    a->latin1 = *tag == T_ATOM || *tag == T_SMALL_ATOM;
    a->s = take(s, a->n);
    return a->s != NULL;
}

/* ---- scalars ---- */

static void put_atom(struct parser *s, const struct atom *a)
{
    uint8_t utf8[2 * 255];
    size_t n = 0;
    if (!a->latin1) {
        kymo_sink_atom(s->out, a->s, a->n);
        return;
    }
    for (size_t i = 0; i < a->n && n + 2 <= sizeof utf8; i++) {
        if (a->s[i] < 0x80) {
            utf8[n++] = a->s[i];
        } else {
            utf8[n++] = (uint8_t)(0xc0 | a->s[i] >> 6);
            utf8[n++] = (uint8_t)(0x80 | (a->s[i] & 0x3f));
        }
    }
    kymo_sink_atom(s->out, utf8, n);
}

static bool atom(struct parser *s)
{
    struct atom a;
    s->p--;
    if (!take_atom(s, &a))
        return false;
    put_atom(s, &a);
    return true;
}

static bool integer(struct parser *s)
{
    uint64_t v;
    if (!number(s, 4, &v))
        return false;
    kymo_sink_printf(s->out, "%" PRId32, (int32_t)(uint32_t)v);
    return true;
}

/* Writes a little-endian magnitude in decimal, by repeated division by 10^9. */
static void put_decimal(struct kymo_sink *out, const uint8_t *b, size_t n)
{
    uint32_t words[(MAX_DECIMAL_BYTES + 3) / 4] = {0};
    char digits[MAX_DECIMAL_BYTES * 3 + 16];
    size_t used = (n + 3) / 4, at = sizeof digits;
    for (size_t i = 0; i < n; i++)
        words[i / 4] |= (uint32_t)b[i] << (8 * (i % 4));
    while (used > 0 && words[used - 1] == 0)
        used--;
    do {
        uint64_t rest = 0;
        for (size_t i = used; i-- > 0;) {
            rest = rest << 32 | words[i];
            words[i] = (uint32_t)(rest / 1000000000u);
            rest %= 1000000000u;
        }
        while (used > 0 && words[used - 1] == 0)
            used--;
        for (unsigned i = 0; i < 9 && (used > 0 || rest > 0 || at == sizeof digits); i++) {
            digits[--at] = (char)('0' + rest % 10);
            rest /= 10;
        }
    } while (used > 0);
    kymo_sink_text(out, digits + at, sizeof digits - at);
}

static bool big(struct parser *s, size_t size_bytes)
{
    uint64_t n, sign;
    const uint8_t *b;
    if (!number(s, size_bytes, &n) || !number(s, 1, &sign) || (b = take(s, (size_t)n)) == NULL)
        return false;
    if (sign != 0)
        kymo_sink_char(s->out, '-');
    if (n <= MAX_DECIMAL_BYTES) {
        put_decimal(s->out, b, (size_t)n);
        return true;
    }
    kymo_sink_text(s->out, "16#", 3);
    while (n > 1 && b[n - 1] == 0)
        n--;
    kymo_sink_printf(s->out, "%X", b[n - 1]);
    for (uint64_t i = n - 1; i-- > 0;)
        kymo_sink_printf(s->out, "%02X", b[i]);
    return true;
}

/* Writes the fewest digits that give the same number when read, in the shorter notation; beyond
 * 2^53 always with an exponent. */
static bool put_float(struct kymo_sink *out, double v)
{
    char e[40], digits[24] = "0";
    int n = 0;
    if (!isfinite(v))
        return false;
    if (v == 0) {
        kymo_sink_text(out, signbit(v) ? "-0.0" : "0.0", signbit(v) ? 4 : 3);
        return true;
    }
    for (int precision = 0; precision <= 16; precision++) {
        snprintf(e, sizeof e, "%.*e", precision, fabs(v));
        if (strtod(e, NULL) == fabs(v))
            break;
    }
    char *exponent = strchr(e, 'e');
    for (char *p = e; p < exponent; p++) {
        if (*p != '.')
            digits[n++] = *p;
    }
    while (n > 1 && digits[n - 1] == '0')
        n--;
    int exp10 = atoi(exponent + 1);
    char plain[400], scientific[48];
    if (exp10 < 0 && exp10 > -30)
        snprintf(plain, sizeof plain, "0.%.*s%.*s", -exp10 - 1, "00000000000000000000000000000", n, digits);
    else if (exp10 < 0 || exp10 > 22)
        plain[0] = '\0';
    else if (n <= exp10 + 1)
        snprintf(plain, sizeof plain, "%.*s%.*s.0", n, digits, exp10 + 1 - n, "0000000000000000000000");
    else
        snprintf(plain, sizeof plain, "%.*s.%.*s", exp10 + 1, digits, n - exp10 - 1, digits + exp10 + 1);
    snprintf(scientific, sizeof scientific, "%c.%.*se%d", digits[0], n > 1 ? n - 1 : 1,
             n > 1 ? digits + 1 : "0", exp10);
    bool use_plain = plain[0] != '\0' && fabs(v) < 9007199254740992.0 && strlen(plain) <= strlen(scientific);
    kymo_sink_printf(out, "%s%s", v < 0 ? "-" : "", use_plain ? plain : scientific);
    return true;
}

static bool new_float(struct parser *s)
{
    uint64_t bits;
    double v;
    if (!number(s, 8, &bits))
        return false;
    memcpy(&v, &bits, sizeof v);
    return put_float(s->out, v);
}

static bool old_float(struct parser *s)
{
    const uint8_t *b = take(s, 31);
    char text[32] = {0}, *rest;
    if (b == NULL)
        return false;
    memcpy(text, b, 31);
    double v = strtod(text, &rest);
    return rest != text && put_float(s->out, v);
}

/* ---- pids, ports, references, funs ---- */

static void put_node(struct parser *s, const struct atom *node)
{
    const struct kymo_meta *m = s->local != NULL ? kymo_reader_meta(s->local) : NULL;
    if (m != NULL && node->n == m->node_len && memcmp(node->s, m->node, node->n) == 0)
        kymo_sink_char(s->out, '0');
    else
        put_atom(s, node);
}

static bool pid(struct parser *s, size_t creation_bytes)
{
    struct atom node;
    uint64_t id, serial, creation;
    if (!take_atom(s, &node) || !number(s, 4, &id) || !number(s, 4, &serial) ||
        !number(s, creation_bytes, &creation))
        return false;
    kymo_sink_char(s->out, '<');
    put_node(s, &node);
    kymo_sink_printf(s->out, ".%" PRIu64 ".%" PRIu64 ">", id, serial);
    return true;
}

static bool port(struct parser *s, size_t id_bytes, size_t creation_bytes)
{
    struct atom node;
    uint64_t id, creation;
    if (!take_atom(s, &node) || !number(s, id_bytes, &id) || !number(s, creation_bytes, &creation))
        return false;
    kymo_sink_text(s->out, "#Port<", 6);
    put_node(s, &node);
    kymo_sink_printf(s->out, ".%" PRIu64 ">", id);
    return true;
}

static bool ref(struct parser *s, size_t creation_bytes)
{
    struct atom node;
    uint64_t words, creation;
    const uint8_t *ids;
    if (!number(s, 2, &words) || words > 5 || !take_atom(s, &node) || !number(s, creation_bytes, &creation) ||
        (ids = take(s, 4 * (size_t)words)) == NULL)
        return false;
    kymo_sink_text(s->out, "#Ref<", 5);
    put_node(s, &node);
    for (size_t i = (size_t)words; i-- > 0;) {
        const uint8_t *w = ids + 4 * i;
        kymo_sink_printf(s->out, ".%" PRIu32,
                         (uint32_t)w[0] << 24 | (uint32_t)w[1] << 16 | (uint32_t)w[2] << 8 | w[3]);
    }
    kymo_sink_char(s->out, '>');
    return true;
}

static bool small_or_int(struct parser *s, int32_t *v)
{
    uint64_t tag, n;
    if (!number(s, 1, &tag) || (tag != T_SMALL_INT && tag != T_INT) || !number(s, tag == T_INT ? 4 : 1, &n))
        return false;
    *v = (int32_t)(uint32_t)n;
    return true;
}

static bool new_fun(struct parser *s)
{
    const uint8_t *start = s->p;
    struct atom module;
    uint64_t size;
    int32_t index, uniq;
    if (!number(s, 4, &size) || size > (size_t)(s->end - start) || take(s, 1 + 16 + 4 + 4) == NULL ||
        !take_atom(s, &module) || !small_or_int(s, &index) || !small_or_int(s, &uniq) ||
        (size_t)(s->p - start) > size)
        return false;
    kymo_sink_text(s->out, "#Fun<", 5);
    put_atom(s, &module);
    kymo_sink_printf(s->out, ".%" PRId32 ".%" PRId32 ">", index, uniq);
    s->p = start + size; /* creator and environment are not shown */
    return true;
}

static bool export_fun(struct parser *s)
{
    struct atom module, function;
    int32_t arity;
    if (!take_atom(s, &module) || !take_atom(s, &function) || !small_or_int(s, &arity))
        return false;
    kymo_sink_text(s->out, "fun ", 4);
    put_atom(s, &module);
    kymo_sink_char(s->out, ':');
    put_atom(s, &function);
    kymo_sink_printf(s->out, "/%" PRId32, arity);
    return true;
}

/* ---- strings and binaries ---- */

static bool printable(uint32_t c)
{
    return (c >= 32 && c < 127) || (c >= 160 && c <= 0xd7ff) || (c >= 0xe000 && c < 0xfffe) ||
           (c >= 0x10000 && c <= 0x10ffff) || (c >= 8 && c <= 13) || c == 27;
}

static bool printable_latin1(const uint8_t *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!printable(b[i]))
            return false;
    }
    return true;
}

static bool printable_utf8(const uint8_t *b, size_t n)
{
    uint32_t c;
    for (size_t i = 0, len; i < n; i += len) {
        len = kymo_utf8_decode(b + i, n - i, &c);
        if (len == 0 || !printable(c))
            return false;
    }
    return true;
}

static void put_quoted(struct kymo_sink *out, const uint8_t *b, size_t n, bool utf8)
{
    kymo_sink_char(out, '"');
    for (size_t i = 0, len = 1; i < n; i += len) {
        uint32_t c = b[i];
        if (utf8)
            len = kymo_utf8_decode(b + i, n - i, &c);
        kymo_sink_quoted(out, c, '"');
    }
    kymo_sink_char(out, '"');
}

static void put_numbers(struct kymo_sink *out, const uint8_t *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        kymo_sink_printf(out, "%s%u", i > 0 ? "," : "", b[i]);
}

static bool string(struct parser *s)
{
    uint64_t n;
    const uint8_t *b;
    if (!number(s, 2, &n) || (b = take(s, (size_t)n)) == NULL)
        return false;
    if (n > 0 && printable_latin1(b, (size_t)n)) {
        put_quoted(s->out, b, (size_t)n, false);
    } else {
        kymo_sink_char(s->out, '[');
        put_numbers(s->out, b, (size_t)n);
        kymo_sink_char(s->out, ']');
    }
    return true;
}

static bool binary(struct parser *s, bool with_bits)
{
    uint64_t n, bits = 8;
    const uint8_t *b;
    if (!number(s, 4, &n) || (with_bits && !number(s, 1, &bits)) || (b = take(s, (size_t)n)) == NULL ||
        bits < 1 || bits > 8 || (n == 0 && bits != 8))
        return false;
    size_t len = (size_t)n;
    kymo_sink_text(s->out, "<<", 2);
    if (len > 0 && bits == 8 && printable_utf8(b, len)) {
        put_quoted(s->out, b, len, true);
        bool ascii = true;
        for (size_t i = 0; i < len; i++)
            ascii = ascii && b[i] < 0x80;
        if (!ascii)
            kymo_sink_text(s->out, "/utf8", 5);
    } else if (len > 0 && bits == 8 && printable_latin1(b, len)) {
        put_quoted(s->out, b, len, false);
    } else if (bits == 8) {
        put_numbers(s->out, b, len);
    } else {
        put_numbers(s->out, b, len - 1);
        kymo_sink_printf(s->out, "%s%u:%u", len > 1 ? "," : "", b[len - 1] >> (8 - bits), (unsigned)bits);
    }
    kymo_sink_text(s->out, ">>", 2);
    return true;
}

/* ---- compound terms ---- */

static bool elements(struct parser *s, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        if (i > 0)
            kymo_sink_char(s->out, ',');
        if (!term(s))
            return false;
    }
    return true;
}

static bool tuple(struct parser *s, size_t size_bytes)
{
    uint64_t n;
    if (!number(s, size_bytes, &n))
        return false;
    kymo_sink_char(s->out, '{');
    bool ok = elements(s, n);
    kymo_sink_char(s->out, '}');
    return ok;
}

/* True if n printable small integers and the empty list follow: a string that is too long for
 * T_STRING. */
static bool is_string(const struct parser *s, uint64_t n)
{
    if (n == 0 || (uint64_t)(s->end - s->p) / 2 < n || s->end - s->p == 2 * (ptrdiff_t)n ||
        s->p[2 * n] != T_NIL)
        return false;
    for (uint64_t i = 0; i < n; i++) {
        if (s->p[2 * i] != T_SMALL_INT || !printable(s->p[2 * i + 1]))
            return false;
    }
    return true;
}

static bool list(struct parser *s)
{
    uint64_t n;
    if (!number(s, 4, &n))
        return false;
    if (is_string(s, n)) {
        kymo_sink_char(s->out, '"');
        for (uint64_t i = 0; i < n; i++)
            kymo_sink_quoted(s->out, s->p[2 * i + 1], '"');
        kymo_sink_char(s->out, '"');
        s->p += 2 * n + 1;
        return true;
    }
    kymo_sink_char(s->out, '[');
    bool ok = elements(s, n);
    /* A tail that is a list continues in the same brackets. */
    while (ok && s->p < s->end && *s->p == T_LIST) {
        s->p++;
        ok = number(s, 4, &n);
        if (!ok) {
            kymo_sink_char(s->out, ',');
            mark(s);
        } else if (n > 0) {
            kymo_sink_char(s->out, ',');
            ok = elements(s, n);
        }
    }
    if (ok && s->p < s->end && *s->p == T_NIL) {
        s->p++;
    } else if (ok) {
        kymo_sink_char(s->out, '|');
        ok = term(s);
    }
    kymo_sink_char(s->out, ']');
    return ok;
}

static bool map(struct parser *s)
{
    uint64_t n;
    if (!number(s, 4, &n))
        return false;
    kymo_sink_text(s->out, "#{", 2);
    bool ok = true;
    for (uint64_t i = 0; i < n && ok; i++) {
        if (i > 0)
            kymo_sink_char(s->out, ',');
        ok = term(s);
        if (ok) {
            kymo_sink_text(s->out, " => ", 4);
            ok = term(s);
        }
    }
    kymo_sink_char(s->out, '}');
    return ok;
}

static bool dispatch(struct parser *s, uint8_t tag)
{
    switch (tag) {
    case T_SMALL_INT: {
        uint64_t v;
        if (!number(s, 1, &v))
            return false;
        kymo_sink_printf(s->out, "%" PRIu64, v);
        return true;
    }
    case T_INT: return integer(s);
    case T_SMALL_BIG: return big(s, 1);
    case T_BIG: return big(s, 4);
    case T_NEW_FLOAT: return new_float(s);
    case T_FLOAT: return old_float(s);
    case T_ATOM:
    case T_SMALL_ATOM:
    case T_UTF8_ATOM:
    case T_SMALL_UTF8_ATOM: return atom(s);
    case T_PID: return pid(s, 1);
    case T_NEW_PID: return pid(s, 4);
    case T_PORT: return port(s, 4, 1);
    case T_NEW_PORT: return port(s, 4, 4);
    case T_V4_PORT: return port(s, 8, 4);
    case T_NEW_REF: return ref(s, 1);
    case T_NEWER_REF: return ref(s, 4);
    case T_NEW_FUN: return new_fun(s);
    case T_EXPORT: return export_fun(s);
    case T_NIL: kymo_sink_text(s->out, "[]", 2); return true;
    case T_STRING: return string(s);
    case T_LIST: return list(s);
    case T_SMALL_TUPLE: return tuple(s, 1);
    case T_TUPLE: return tuple(s, 4);
    case T_MAP: return map(s);
    case T_BINARY: return binary(s, false);
    case T_BIT_BINARY: return binary(s, true);
    default: return false;
    }
}

/* Writes a term. Returns false after an error, for which '...' was written. */
static bool term(struct parser *s)
{
    const uint8_t *tag = s->depth < MAX_DEPTH ? take(s, 1) : NULL;
    s->depth++;
    bool ok = tag != NULL && dispatch(s, *tag);
    s->depth--;
    if (!ok)
        mark(s);
    return ok;
}

bool kymo_put_term(const struct kymo_reader *r, struct kymo_sink *out, const uint8_t **p, const uint8_t *end)
{
    struct parser s = {.p = *p, .end = end, .out = out, .local = r};
    bool ok = term(&s);
    *p = s.p;
    return ok;
}

size_t kymo_format_value(const struct kymo_reader *r, const uint8_t *etf, size_t len, char *buf, size_t size)
{
    struct kymo_sink out;
    kymo_sink_init(&out, buf, size);
    (void)kymo_put_term(r, &out, &etf, etf + len); /* damage is in the text */
    return kymo_sink_end(&out);
}

size_t kymo_format_term(const uint8_t *etf, size_t len, char *buf, size_t size)
{
    return kymo_format_value(NULL, etf, len, buf, size);
}
