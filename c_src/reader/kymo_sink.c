/* SPDX-License-Identifier: Apache-2.0 */
#include "kymo_sink.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

void kymo_sink_init(struct kymo_sink *s, char *buf, size_t size)
{
    s->buf = buf;
    s->size = size;
    s->len = 0;
}

void kymo_sink_text(struct kymo_sink *s, const char *text, size_t n)
{
    if (s->len < s->size) {
        size_t room = s->size - s->len;
        memcpy(s->buf + s->len, text, n < room ? n : room);
    }
    s->len += n;
}

void kymo_sink_char(struct kymo_sink *s, char c)
{
    kymo_sink_text(s, &c, 1);
}

void kymo_sink_printf(struct kymo_sink *s, const char *fmt, ...)
{
    char piece[128];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(piece, sizeof piece, fmt, ap);
    va_end(ap);
    if (n > 0)
        kymo_sink_text(s, piece, (size_t)n < sizeof piece ? (size_t)n : sizeof piece - 1);
}

void kymo_sink_uint(struct kymo_sink *s, uint64_t n)
{
    char digits[20];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + n % 10);
        n /= 10;
    } while (n != 0);
    kymo_sink_text(s, digits + at, sizeof digits - at);
}

size_t kymo_sink_end(struct kymo_sink *s)
{
    if (s->size == 0)
        return s->len;
    size_t end = s->len;
    if (end >= s->size) {
        end = s->size - 1;
        while (end > 0 && ((uint8_t)s->buf[end] & 0xc0) == 0x80)
            end--; /* not in the middle of a character */
    }
    s->buf[end] = '\0';
    return s->len;
}

size_t kymo_utf8_decode(const uint8_t *p, size_t n, uint32_t *c)
{
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    if (n == 0)
        return 0;
    size_t len = p[0] < 0x80 ? 1 : p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if (len == 1) {
        *c = p[0];
        return 1;
    }
    if (p[0] < 0xc0 || p[0] > 0xf7 || len > n)
        return 0;
    uint32_t v = p[0] & (0x7fu >> len);
    for (size_t i = 1; i < len; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        v = v << 6 | (p[i] & 0x3fu);
    }
    if (v < least[len] || v > 0x10ffff || (v >= 0xd800 && v <= 0xdfff))
        return 0;
    *c = v;
    return len;
}

static void put_utf8(struct kymo_sink *s, uint32_t c)
{
    char b[4];
    size_t n;
    if (c < 0x80) {
        b[0] = (char)c;
        n = 1;
    } else if (c < 0x800) {
        b[0] = (char)(0xc0 | c >> 6);
        n = 2;
    } else if (c < 0x10000) {
        b[0] = (char)(0xe0 | c >> 12);
        n = 3;
    } else {
        b[0] = (char)(0xf0 | c >> 18);
        n = 4;
    }
    for (size_t i = 1; i < n; i++)
        b[i] = (char)(0x80 | (c >> (6 * (n - 1 - i)) & 0x3f));
    kymo_sink_text(s, b, n);
}

void kymo_sink_quoted(struct kymo_sink *s, uint32_t c, char quote)
{
    static const char named[] = {'\b', 'b', '\t', 't', '\n', 'n', '\v', 'v',
                                 '\f', 'f', '\r', 'r', 27,   'e', 127,  'd'};
    if (c == (uint8_t)quote || c == '\\') {
        kymo_sink_char(s, '\\');
        kymo_sink_char(s, (char)c);
        return;
    }
    for (size_t i = 0; i < sizeof named; i += 2) {
        if (c == (uint8_t)named[i]) {
            kymo_sink_char(s, '\\');
            kymo_sink_char(s, named[i + 1]);
            return;
        }
    }
    if (c < 32 || (c > 127 && c < 160))
        kymo_sink_printf(s, "\\%03o", c);
    else if ((c >= 0xd800 && c <= 0xdfff) || c == 0xfffe || c == 0xffff || c > 0x10ffff)
        kymo_sink_printf(s, "\\x{%X}", c);
    else
        put_utf8(s, c);
}

static bool reserved(const uint8_t *p, size_t n)
{
    static const char *const words[] = {
        "after", "and",   "andalso", "band",   "begin",   "bnot", "bor", "bsl",  "bsr", "bxor",
        "case",  "catch", "cond",    "div",    "else",    "end",  "fun", "if",   "let", "maybe",
        "not",   "of",    "or",      "orelse", "receive", "rem",  "try", "when", "xor"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strlen(words[i]) == n && memcmp(words[i], p, n) == 0)
            return true;
    }
    return false;
}

static bool lower(uint32_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 0xdf && c <= 0xff && c != 0xf7);
}

static bool name_char(uint32_t c)
{
    return lower(c) || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '@' ||
           (c >= 0xc0 && c <= 0xde && c != 0xd7);
}

static bool bare(const uint8_t *p, size_t n)
{
    if (n == 0 || reserved(p, n))
        return false;
    for (size_t i = 0; i < n;) {
        uint32_t c;
        size_t len = kymo_utf8_decode(p + i, n - i, &c);
        if (len == 0 || !(i == 0 ? lower(c) : name_char(c)))
            return false;
        i += len;
    }
    return true;
}

void kymo_sink_atom(struct kymo_sink *s, const uint8_t *utf8, size_t n)
{
    if (bare(utf8, n)) {
        kymo_sink_text(s, (const char *)utf8, n);
        return;
    }
    kymo_sink_char(s, '\'');
    for (size_t i = 0; i < n;) {
        uint32_t c;
        size_t len = kymo_utf8_decode(utf8 + i, n - i, &c);
        if (len == 0) {
            kymo_sink_printf(s, "\\x{%02X}", utf8[i]);
            len = 1;
        } else {
            kymo_sink_quoted(s, c, '\'');
        }
        i += len;
    }
    kymo_sink_char(s, '\'');
}
