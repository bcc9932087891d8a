/* SPDX-License-Identifier: Apache-2.0
 *
 * Formats lists that are not values of the node: the arguments of a call, and the pair in an
 * event with an unknown tag. Their elements are shown one by one. Formatted as a value, a list
 * would become a string if all elements happen to be characters: f(10), not f with "\n".
 */
#include <inttypes.h>

#include "etf_check.h"
#include "etf_tags.h"
#include "kymo_reader_int.h"
#include "kymo_sink.h"

enum { ARITY_MAX = 255 };

static const uint8_t cut[] = {119, 3, '.', '.', '.'};

struct list {
    const struct kymo_reader *r;
    struct kymo_sink *out;
    const uint8_t *p, *end;
    uint32_t n; /* elements shown */
};

static void separate(struct list *l)
{
    if (l->n++ > 0)
        kymo_sink_text(l->out, ", ", 2);
}

/* Writes '...' for each missing element, so that the arity is visible. */
static void put_missing(struct list *l, uint32_t arity)
{
    do {
        separate(l);
        kymo_sink_text(l->out, "'...'", 5);
    } while (l->n < arity && arity <= ARITY_MAX);
}

/* A big-endian number of 2 or 4 bytes. */
static bool number(struct list *l, unsigned bytes, uint32_t *v)
{
    *v = 0;
    if (l->end - l->p < (ptrdiff_t)bytes)
        return false;
    while (bytes-- > 0)
        *v = *v << 8 | *l->p++;
    return true;
}

/* Lists of bytes have a short form. */
static bool put_bytes(struct list *l)
{
    uint32_t n;
    if (!number(l, 2, &n))
        return false;
    for (; n > 0 && l->p < l->end; n--) {
        separate(l);
        kymo_sink_printf(l->out, "%u", *l->p++);
    }
    return n == 0;
}

/* Sets *whole if nothing is missing, or what is missing has been marked. */
static void put_elements(struct list *l, bool *whole)
{
    for (*whole = true; l->p < l->end && *whole;) {
        uint32_t n;
        switch (*l->p) {
        case T_NIL: return;
        case T_STRING:
            l->p++;
            *whole = put_bytes(l);
            return;
        case T_LIST:
            l->p++;
            *whole = number(l, 4, &n);
            for (; n > 0 && *whole; n--) {
                separate(l);
                if (!kymo_put_term(l->r, l->out, &l->p, l->end))
                    return;
            }
            break;
        default: /* a tail: elements were cut off, or damage */
            *whole = (size_t)(l->end - l->p) != sizeof cut || memcmp(l->p, cut, sizeof cut) != 0;
            if (*whole) {
                kymo_sink_text(l->out, " | ", 3);
                (void)kymo_put_term(l->r, l->out, &l->p, l->end);
            }
            return;
        }
    }
    *whole = false;
}

static bool put_arguments(const struct kymo_reader *r, struct kymo_sink *out, const uint8_t *etf, size_t len,
                          uint32_t arity)
{
    struct list l = {.r = r, .out = out, .p = etf, .end = etf + len};
    bool whole;
    if (len == 0 || etf[0] < T_NIL || etf[0] > T_LIST)
        return false;
    kymo_sink_char(out, '(');
    put_elements(&l, &whole);
    if (!whole)
        put_missing(&l, arity);
    kymo_sink_char(out, ')');
    return true;
}

static uint32_t arity_of(const struct kymo_reader *r, uint32_t mfa)
{
    struct kymo_mfa f;
    return kymo_reader_mfa(r, mfa, &f) ? f.arity : 0;
}

size_t kymo_format_arguments(const struct kymo_reader *r, uint32_t mfa, const uint8_t *etf, size_t len,
                             char *buf, size_t size)
{
    struct kymo_sink out;
    kymo_sink_init(&out, buf, size);
    bool list = put_arguments(r, &out, etf, len, arity_of(r, mfa));
    size_t n = kymo_sink_end(&out);
    return list ? n : 0;
}

size_t kymo_format_call(const struct kymo_reader *r, uint32_t mfa, const uint8_t *etf, size_t len, char *buf,
                        size_t size)
{
    struct kymo_sink out;
    kymo_sink_init(&out, buf, size);
    kymo_put_function(&out, r, mfa);
    bool list = put_arguments(r, &out, etf, len, arity_of(r, mfa));
    size_t n = kymo_sink_end(&out);
    return list ? n : 0;
}

bool kymo_term_cell(const uint8_t *etf, size_t len, size_t *head)
{
    if (len < 7 || etf[0] != T_LIST || etf[1] != 0 || etf[2] != 0 || etf[3] != 0 || etf[4] != 1 ||
        kymo_etf_length(etf, len) != len)
        return false;
    *head = kymo_etf_length(etf + KYMO_CELL_HEAD, len - KYMO_CELL_HEAD);
    return *head > 0;
}
