/* SPDX-License-Identifier: Apache-2.0
 *
 * Text into a buffer of fixed size, with the length it would have had: what
 * snprintf does, for text that is made of many pieces. Also the quoting rules
 * of Erlang. Everything that is not printable comes out as an escape, so the
 * text is safe on a terminal.
 */
#ifndef KYMO_SINK_H
#define KYMO_SINK_H

#include <stddef.h>
#include <stdint.h>

struct kymo_sink {
    char *buf;
    size_t size;
    size_t len; /* of the whole text, also of what did not fit */
};

/* buf may be NULL when size is 0. */
void kymo_sink_init(struct kymo_sink *s, char *buf, size_t size);
/* Terminates the text with NUL, cut at a character when it did not fit.
 * Returns the length of the whole text. */
size_t kymo_sink_end(struct kymo_sink *s);

void kymo_sink_text(struct kymo_sink *s, const char *text, size_t n);
void kymo_sink_char(struct kymo_sink *s, char c);
/* For short pieces: at most 127 bytes come out. */
void kymo_sink_printf(struct kymo_sink *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* An atom, quoted when Erlang wants it quoted. Bytes that are not UTF-8 come
 * out as \x{..}. */
void kymo_sink_atom(struct kymo_sink *s, const uint8_t *utf8, size_t n);
/* One character of a literal that is quoted with `quote`. */
void kymo_sink_quoted(struct kymo_sink *s, uint32_t c, char quote);

/* Decodes one character of 1 .. n bytes. Its length, or 0 when it is not UTF-8. */
size_t kymo_utf8_decode(const uint8_t *p, size_t n, uint32_t *c);

#endif
