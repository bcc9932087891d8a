/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes text in pieces to a buffer of fixed size, and counts its full length, as snprintf
 * does. Applies the quoting rules of Erlang. Characters that are not printable are written
 * as escapes, so the text is safe on a terminal.
 */
#ifndef KYMO_SINK_H
#define KYMO_SINK_H

#include <stddef.h>
#include <stdint.h>

struct kymo_sink {
    char *buf;
    size_t size;
    size_t len; /* of the whole text, including the part that did not fit */
};

/* buf may be NULL when size is 0. */
void kymo_sink_init(struct kymo_sink *s, char *buf, size_t size);
/* Terminates the text with NUL. If it did not fit, cuts it between two characters. Returns the
 * length of the whole text. */
size_t kymo_sink_end(struct kymo_sink *s);

void kymo_sink_text(struct kymo_sink *s, const char *text, size_t n);
void kymo_sink_char(struct kymo_sink *s, char c);
/* In decimal digits; several times as fast as kymo_sink_printf. */
void kymo_sink_uint(struct kymo_sink *s, uint64_t n);
/* For short pieces: writes at most 127 bytes. */
void kymo_sink_printf(struct kymo_sink *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* An atom, quoted if Erlang's syntax requires it. Bytes that are not UTF-8 are written as
 * \x{..}. */
void kymo_sink_atom(struct kymo_sink *s, const uint8_t *utf8, size_t n);
/* One character of a literal that is quoted with `quote`. */
void kymo_sink_quoted(struct kymo_sink *s, uint32_t c, char quote);

/* Decodes one character of 1 .. n bytes. Returns its length, or 0 if it is not UTF-8. */
size_t kymo_utf8_decode(const uint8_t *p, size_t n, uint32_t *c);

#endif
