/* SPDX-License-Identifier: Apache-2.0
 *
 * Formats JSON strings. Pure functions.
 */
#ifndef KYMO_JSON_TEXT_H
#define KYMO_JSON_TEXT_H

#include <stddef.h>

/* Passes n bytes of text as a JSON string with quotes to `put`, in pieces. Bytes that are not
 * UTF-8 become U+FFFD. */
void kymo_json_string(void (*put)(void *arg, const void *bytes, size_t n), void *arg, const char *text,
                      size_t n);

#endif
